# cython: language_level=3
"""Event groups: what the first event of one says of it."""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

cdef enum:
    GTID_TEXT = 96  # a UUID, a tag, a number of 20 digits, and colons

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
    int64_t committed_us  # when the server committed it, in microseconds since 1970; -1 where the file does not say

cdef bint read_group(Group* group, uint8_t code, const uint8_t* header, const uint8_t* body, const uint8_t* end) noexcept nogil
cdef int put_gtid(uint8_t* to, const Group* group) noexcept nogil
cdef object gtid_of(const Group* group)
