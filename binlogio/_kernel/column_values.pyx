# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Conversions of column values between row images, Arrow, Python, JSON text and SQL text.

    values/columns.pxi   decodes values of one column into Arrow buffers, block by block
    values/*.pxd         one file per type family, with all functions of its kinds

A new family is cimported here and registers its functions in the table; a new kind of a family is added in its file.
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
TYPES[0].is_checked = True  # kind 0: its values are left to construct


cdef const ValueType* type_of(int kind) noexcept nogil:
    """Return the functions of a kind; all are NULL for an unknown kind."""
    return &TYPES[kind if 0 < kind < KIND_COUNT else 0]
