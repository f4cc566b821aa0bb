# cython: language_level=3
"""Text of DOUBLE values, appended to growing memory."""

from binlogio._kernel.memory cimport Memory

cdef int append_double(Memory out, double value, bint json) except -1 nogil
cdef int append_json_number(Memory out, double value, bint single) except -1 nogil
