# cython: language_level=3
"""Shared shape of the router: event groups and the rows events that were found."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from binlogio._kernel.images cimport Plan, RowsEvent
from binlogio._kernel.memory cimport Memory

cdef enum GroupKind:
    NO_GTID = 0
    MYSQL_GTID = 1
    MARIADB_GTID = 2

cdef struct Group:
    uint8_t kind
    uint8_t tag_size
    uint8_t uuid[16]
    char tag[32]
    uint32_t domain_id
    uint32_t server_id
    uint64_t number  # gno, or MariaDB's sequence number
    int64_t last_committed  # -1 where the file does not say
    int64_t sequence_number

cdef struct Slot:
    uint64_t table_id
    int64_t statement
    uint8_t* body
    int64_t size
    int32_t plan


cdef class Router:
    cdef Group* groups
    cdef int64_t group_count, group_capacity
    cdef RowsEvent* events
    cdef int64_t event_count, event_capacity
    cdef Slot* slots
    cdef int64_t statement
    cdef uint8_t[256] codes  # type codes of the log -> of today's servers
    cdef dict overflow
    cdef int64_t overflow_count
    cdef dict by_body
    cdef dict by_plan
    cdef dict by_table  # schema and table -> its number
    cdef readonly list plans
    cdef Plan** cores
    cdef list keep
    cdef Memory plain  # of the compressed event at hand
    cdef object resolve_plan, open_payload, follow
    cdef bint checksum, verify, follows
    cdef int table_id_size
    cdef uint8_t[256] post_headers  # bytes by type code of today's servers
    cdef uint8_t[256] unknown_post_header  # whether that is a size that we do not know
    cdef readonly int64_t rows_bytes
    cdef readonly int64_t kept_bytes
    cdef readonly int64_t inner_rows  # of the payload at hand
    cdef int64_t stop_offset
    cdef int32_t last_plan  # of the rows event that was looked at last
    cdef int32_t next_first_row
    cdef bint is_choosy, wants_this_group
    cdef object wants_group
    cdef int64_t pos_start, pos_end, time_start, time_end
    cdef uint32_t* server_ids
    cdef int64_t server_id_count
    cdef uint8_t operations
    cdef uint32_t stored, actual
    cdef void drop_events(self) noexcept nogil
    cdef int walk(self, const uint8_t* data, int64_t size, int64_t* at, int64_t base) except -1 nogil
    cdef int _route(self, const uint8_t* data, int64_t size, int64_t* at, int64_t base, int64_t pos) except -1 nogil
    cdef int _gtid(self, const uint8_t* body, const uint8_t* end) except -1 nogil
    cdef int _gtid_tagged(self, const uint8_t* body, const uint8_t* end) except -1 nogil
    cdef int _gtid_mariadb(self, const uint8_t* header, const uint8_t* body, const uint8_t* end) except -1 nogil
    cdef int _table_map(self, const uint8_t* body, const uint8_t* end) except -1 nogil
    cdef int _new_table_map(self, uint64_t table_id, const uint8_t* rest, int64_t size, const uint8_t* body) except -1 with gil
    cdef int _rows(self, uint8_t code, const uint8_t* header, const uint8_t* body, const uint8_t* end, int64_t pos,
                   bint inner) except -1 nogil
    cdef int _open_rows(self, uint8_t code, const uint8_t* body, const uint8_t* end, bint skipped_too,
                        RowsEvent* event) except -1 nogil
    cdef int _make_plain(self, Plan* plan, RowsEvent* event) except -1 nogil
    cdef int _inflate(self, RowsEvent* event) except -1 nogil
    cdef int _payload(self, const uint8_t* header, const uint8_t* body, const uint8_t* end, int64_t pos) except -1 nogil
    cdef object _plan_number(self, const uint8_t* rest, int64_t size, const uint8_t* body)
    cdef int _forget_overflow(self) except -1 nogil
    cdef int _follow(self, uint8_t code, const uint8_t* body, int64_t size) except -1 with gil
    cdef Group* _new_group(self) except NULL nogil
    cdef int32_t _plan_of(self, uint64_t table_id) except -2 nogil
    cdef int _ask_for_group(self) except -1 with gil
    cdef bint _is_wanted(self, const RowsEvent* event) noexcept nogil
