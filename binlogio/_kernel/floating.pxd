# cython: language_level=3
"""Text of DOUBLE values, appended to growing memory."""

from libc.stdint cimport uint8_t

from binlogio._kernel.memory cimport Memory

cdef enum:
    DOUBLE_TEXT = 40  # sign, 0., 14 zeros and 17 digits, and some

cdef int append_double(Memory out, double value, bint json) except -1 nogil
cdef int append_json_number(Memory out, double value, bint single) except -1 nogil
cdef uint8_t* put_json_number(uint8_t* to, double value, bint single) noexcept nogil
