# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""What an event is, by its type code and its first bytes."""

from libc.stdint cimport int64_t, uint8_t

from binlogio._kernel.base.cursor cimport u16
from binlogio._kernel.base.event_codes cimport (
    ANNOTATE_ROWS_EVENT, ANONYMOUS_GTID_LOG_EVENT, DELETE_FILE_EVENT, DELETE_ROWS_COMPRESSED_EVENT,
    DELETE_ROWS_EVENT, DELETE_ROWS_EVENT_V1, EXECUTE_LOAD_QUERY_EVENT, EXEC_LOAD_EVENT, FORMAT_DESCRIPTION_EVENT,
    GTID_LOG_EVENT, GTID_TAGGED_LOG_EVENT, LOAD_EVENT, MARIADB_GTID_EVENT, MARIADB_GTID_LIST_EVENT, NEW_LOAD_EVENT,
    PARTIAL_UPDATE_ROWS_EVENT, PREVIOUS_GTIDS_LOG_EVENT, PRE_GA_WRITE_ROWS_EVENT, RAND_EVENT, ROTATE_EVENT,
    ROWS_QUERY_LOG_EVENT, START_ENCRYPTION_EVENT, START_EVENT_V3, STOP_EVENT, USER_VAR_EVENT,
    WRITE_ROWS_COMPRESSED_EVENT_V1, WRITE_ROWS_EVENT,
)
from binlogio._kernel.event_scanner cimport PARTIAL_UPDATE


cdef inline bint _begins(const uint8_t* at, const uint8_t* end, const char* word, int size) noexcept nogil:
    """Return True where `word` comes next, in capitals or not."""
    cdef int i
    if end - at < size:
        return False
    for i in range(size):
        if (at[i] & 0xDF) != <uint8_t>word[i]:
            return False
    return True


cdef inline bint is_group_start(uint8_t code) noexcept nogil:
    """Whether the event is the first one of a group with a GTID."""
    return (code == GTID_LOG_EVENT or code == ANONYMOUS_GTID_LOG_EVENT or code == GTID_TAGGED_LOG_EVENT
            or code == MARIADB_GTID_EVENT)


cdef inline bint is_of_file(uint8_t code) noexcept nogil:
    """Whether a group ends before the event, or the events after it are encrypted."""
    return (code == START_EVENT_V3 or code == STOP_EVENT or code == ROTATE_EVENT or code == FORMAT_DESCRIPTION_EVENT
            or code == PREVIOUS_GTIDS_LOG_EVENT or code == MARIADB_GTID_LIST_EVENT or code == START_ENCRYPTION_EVENT)


cdef inline bint is_any_rows(uint8_t code) noexcept nogil:
    """Whether the event has rows."""
    return (PRE_GA_WRITE_ROWS_EVENT <= code <= DELETE_ROWS_EVENT_V1 or WRITE_ROWS_EVENT <= code <= DELETE_ROWS_EVENT
            or code == PARTIAL_UPDATE_ROWS_EVENT or WRITE_ROWS_COMPRESSED_EVENT_V1 <= code <= DELETE_ROWS_COMPRESSED_EVENT)


cdef inline bint is_load(uint8_t code) noexcept nogil:
    """Whether the event ends a LOAD DATA."""
    return (code == EXECUTE_LOAD_QUERY_EVENT or code == EXEC_LOAD_EVENT or code == DELETE_FILE_EVENT
            or code == LOAD_EVENT or code == NEW_LOAD_EVENT)


cdef inline bint is_rollback(const uint8_t* sql, const uint8_t* end) noexcept nogil:
    """Whether a statement is ROLLBACK, and not to a savepoint."""
    return _begins(sql, end, b"ROLLBACK", 8) and not (
        end - sql >= 12 and sql[8] == 32 and _begins(sql + 9, end, b"TO", 2) and sql[11] == 32)


cdef inline bint is_statement_part(uint8_t code) noexcept nogil:
    """Whether the event only says something about the statement or the row changes that follow."""
    return (code == RAND_EVENT or code == USER_VAR_EVENT or code == ROWS_QUERY_LOG_EVENT or code == ANNOTATE_ROWS_EVENT
            or WRITE_ROWS_COMPRESSED_EVENT_V1 <= code <= DELETE_ROWS_COMPRESSED_EVENT)


cdef inline uint8_t operation_of(uint8_t code) noexcept nogil:
    """What a rows event does to rows."""
    if code == PARTIAL_UPDATE_ROWS_EVENT:
        return PARTIAL_UPDATE
    if code >= WRITE_ROWS_COMPRESSED_EVENT_V1:
        return <uint8_t>((code - WRITE_ROWS_COMPRESSED_EVENT_V1) % 3)
    if code >= WRITE_ROWS_EVENT:
        return <uint8_t>(code - WRITE_ROWS_EVENT)
    return <uint8_t>((code - PRE_GA_WRITE_ROWS_EVENT) % 3)


cdef inline bint may_define(const uint8_t* body, const uint8_t* end) noexcept nogil:
    """Return True for statements that begin with CREATE, ALTER, RENAME, DROP, SET or a comment."""
    cdef int64_t skip
    if end - body < 13:
        return False
    skip = 13 + u16(body + 11) + body[8] + 1
    if end - body < skip:
        return False
    body += skip
    while body < end and (body[0] == 32 or 9 <= body[0] <= 13):
        body += 1
    if body < end and (body[0] == 0x2F or body[0] == 0x2D or body[0] == 0x23):  # / - #
        return True
    return (_begins(body, end, b"CREATE", 6) or _begins(body, end, b"ALTER", 5) or _begins(body, end, b"RENAME", 6)
            or _begins(body, end, b"DROP", 4) or _begins(body, end, b"SET", 3))
