# cython: language_level=3
"""The plans of the tables that table maps define, by table id."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from binlogio._kernel.images cimport Plan

cdef enum:
    NOT_MAPPED = -1

cdef struct Slot:
    uint64_t table_id
    int64_t statement
    uint8_t* body
    int64_t size
    int32_t plan

cdef class TablePlans:
    cdef object resolve_plan
    cdef Slot* slots
    cdef int64_t statement
    cdef dict overflow
    cdef int64_t overflow_count
    cdef dict by_body
    cdef dict by_plan
    cdef dict by_table  # schema and table -> its number
    cdef list plans
    cdef Plan** cores
    cdef int id_size
    cdef bint take(self, const uint8_t* body, const uint8_t* end) except -1 nogil
    cdef bint _take_new(self, uint64_t table_id, const uint8_t* rest, int64_t size, const uint8_t* body) except -1 with gil
    cdef object _plan_number(self, const uint8_t* rest, int64_t size, const uint8_t* body)
    cdef int32_t plan_of(self, uint64_t table_id) except -2 nogil
    cdef int end_statement(self) except -1 nogil
    cdef int forget(self) except -1
    cdef list keep_valid(self)
    cdef int _add(self, plan) except -1
