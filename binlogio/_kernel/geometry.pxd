# cython: language_level=3
"""Geometries as well-known text."""

from libc.stdint cimport int64_t, uint8_t

from binlogio._kernel.memory cimport Memory

cdef int append_wkt(Memory out, const uint8_t* wkb, int64_t size) except -1 nogil
