# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Column values in all their forms: Arrow, Python, JSON, SQL, row images.

    values/columns.pxi   values of one column into Arrow buffers, a block at a time
    values/*.pxd         one file a type family: all functions of its kinds

A new family is cimported here and sets its functions in the table; a new kind of a family is set in its file.
"""

from cpython.datetime cimport import_datetime

from binlogio._kernel.column_kinds cimport KIND_COUNT
from binlogio._kernel.values.decimal cimport set_decimals, set_groups
from binlogio._kernel.values.enum_set cimport set_members
from binlogio._kernel.values.geometry_vector cimport set_shapes
from binlogio._kernel.values.json cimport set_documents
from binlogio._kernel.values.native cimport set_native_types
from binlogio._kernel.values.numbers cimport set_numbers
from binlogio._kernel.values.strings cimport set_strings
from binlogio._kernel.values.temporal cimport set_temporals

include "values/columns.pxi"

import_datetime()

cdef ValueType[KIND_COUNT] TYPES

set_numbers(TYPES)
set_decimals(TYPES)
set_temporals(TYPES)
set_strings(TYPES)
set_members(TYPES)
set_documents(TYPES)
set_shapes(TYPES)
set_native_types(TYPES)
TYPES[0].is_checked = True  # of the values that are left to construct


cdef const ValueType* type_of(int kind) noexcept nogil:
    """Return the functions of a kind; of a number of none all are NULL."""
    return &TYPES[kind if 0 < kind < KIND_COUNT else 0]
