# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Classification of events by type code and first bytes."""

from libc.stdint cimport int64_t, uint64_t, uint8_t

from binlogio._kernel.base.cursor cimport u16, u32
from binlogio._kernel.base.event_codes cimport (
    ANNOTATE_ROWS_EVENT, ANONYMOUS_GTID_LOG_EVENT, DELETE_FILE_EVENT, DELETE_ROWS_COMPRESSED_EVENT,
    DELETE_ROWS_EVENT, DELETE_ROWS_EVENT_V1, EXECUTE_LOAD_QUERY_EVENT, EXEC_LOAD_EVENT, FORMAT_DESCRIPTION_EVENT,
    GTID_LOG_EVENT, GTID_TAGGED_LOG_EVENT, LOAD_EVENT, MARIADB_GTID_EVENT, MARIADB_GTID_LIST_EVENT, NEW_LOAD_EVENT,
    PARTIAL_UPDATE_ROWS_EVENT, PREVIOUS_GTIDS_LOG_EVENT, PRE_GA_DELETE_ROWS_EVENT, PRE_GA_WRITE_ROWS_EVENT,
    RAND_EVENT, ROTATE_EVENT, ROWS_QUERY_LOG_EVENT, START_ENCRYPTION_EVENT, START_EVENT_V3, STOP_EVENT,
    USER_VAR_EVENT, WRITE_ROWS_COMPRESSED_EVENT_V1, WRITE_ROWS_EVENT, WRITE_ROWS_EVENT_V1,
)


cdef enum:
    QUERY_POST_HEADER = 13
    XA_HEAD = 1 + 4 + 4 + 4  # of an XA_PREPARE_LOG_EVENT: one_phase, format_id, and the sizes of gtrid and bqual


cdef inline bint begins_with(const uint8_t* at, const uint8_t* end, const char* word, int size) noexcept nogil:
    """Return True if `word`, which has only capital letters, comes next, in any case."""
    cdef int i
    if end - at < size:
        return False
    for i in range(size):
        if (at[i] & 0xDF) != <uint8_t>word[i]:
            return False
    return True


cdef inline bint is_xa_prepare(const uint8_t* body, const uint8_t* end) noexcept nogil:
    """Return whether a body has the layout of an XA_PREPARE_LOG_EVENT."""
    return end - body >= XA_HEAD and (
        <uint64_t>(end - body - XA_HEAD) == <uint64_t>u32(body + 5) + <uint64_t>u32(body + 9))


cdef inline bint is_group_start(uint8_t code) noexcept nogil:
    """Return whether the event begins a group with a GTID."""
    return (code == GTID_LOG_EVENT or code == ANONYMOUS_GTID_LOG_EVENT or code == GTID_TAGGED_LOG_EVENT
            or code == MARIADB_GTID_EVENT)


cdef inline bint is_of_file(uint8_t code) noexcept nogil:
    """Return whether a group ends before the event, or encryption starts after it."""
    return (code == START_EVENT_V3 or code == STOP_EVENT or code == ROTATE_EVENT or code == FORMAT_DESCRIPTION_EVENT
            or code == PREVIOUS_GTIDS_LOG_EVENT or code == MARIADB_GTID_LIST_EVENT or code == START_ENCRYPTION_EVENT)


cdef inline bint is_plain_rows(uint8_t code) noexcept nogil:
    """Return whether it is a rows event of a current version without compression."""
    return (WRITE_ROWS_EVENT <= code <= DELETE_ROWS_EVENT or WRITE_ROWS_EVENT_V1 <= code <= DELETE_ROWS_EVENT_V1
            or code == PARTIAL_UPDATE_ROWS_EVENT)


cdef inline bint is_compressed_rows(uint8_t code) noexcept nogil:
    """Return whether it is a rows event that MariaDB compressed."""
    return WRITE_ROWS_COMPRESSED_EVENT_V1 <= code <= DELETE_ROWS_COMPRESSED_EVENT


cdef inline bint is_any_rows(uint8_t code) noexcept nogil:
    """Return whether it is any rows event, including those of 5.1 before GA and compressed ones."""
    return (is_plain_rows(code) or PRE_GA_WRITE_ROWS_EVENT <= code <= PRE_GA_DELETE_ROWS_EVENT
            or is_compressed_rows(code))


cdef inline bint is_load(uint8_t code) noexcept nogil:
    """Return whether the event ends a LOAD DATA."""
    return (code == EXECUTE_LOAD_QUERY_EVENT or code == EXEC_LOAD_EVENT or code == DELETE_FILE_EVENT
            or code == LOAD_EVENT or code == NEW_LOAD_EVENT)


cdef inline bint is_statement_part(uint8_t code) noexcept nogil:
    """Return whether the event only describes the following statement or row changes."""
    return (code == RAND_EVENT or code == USER_VAR_EVENT or code == ROWS_QUERY_LOG_EVENT or code == ANNOTATE_ROWS_EVENT
            or is_compressed_rows(code))


cdef inline int64_t query_head_size(const uint8_t* body, const uint8_t* end) noexcept nogil:
    """Return the size of a QUERY_EVENT's body before its statement; 0 if the body is too short."""
    cdef int64_t size
    if end - body < QUERY_POST_HEADER:
        return 0
    size = QUERY_POST_HEADER + u16(body + 11) + body[8] + 1
    return size if size <= end - body else 0


cdef inline int64_t size_before_sql(const uint8_t* body, const uint8_t* end) noexcept nogil:
    """As `query_head_size`; also 0 if the schema has no final zero byte, which construct rejects."""
    cdef int64_t size = query_head_size(body, end)
    return size if size and body[size - 1] == 0 else 0


cdef inline bint may_define(const uint8_t* body, const uint8_t* end) noexcept nogil:
    """Return True for statements that begin with CREATE, ALTER, RENAME, DROP, SET or a comment."""
    cdef int64_t size = query_head_size(body, end)
    return size > 0 and sql_may_define(body + size, end)


cdef inline bint sql_may_define(const uint8_t* body, const uint8_t* end) noexcept nogil:
    """As `may_define`, for the statement itself."""
    while body < end and (body[0] == 32 or 9 <= body[0] <= 13):
        body += 1
    if body < end and (body[0] == 0x2F or body[0] == 0x2D or body[0] == 0x23):  # / - #
        return True
    return (begins_with(body, end, b"CREATE", 6) or begins_with(body, end, b"ALTER", 5)
            or begins_with(body, end, b"RENAME", 6) or begins_with(body, end, b"DROP", 4)
            or begins_with(body, end, b"SET", 3))
