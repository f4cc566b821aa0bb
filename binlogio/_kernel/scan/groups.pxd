# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Event groups: tracks their begin and end, event by event. All scans of the kernel use `follow_group`.

`binlogio.format.groups.GroupTracker` is the reference implementation (oracle) and has the grammar.
"""

from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcmp

from binlogio._kernel.base.event_codes cimport (
    APPEND_BLOCK_EVENT, BEGIN_LOAD_QUERY_EVENT, CREATE_FILE_EVENT, INCIDENT_EVENT, INTVAR_EVENT, MARIADB_GTID_EVENT,
    QUERY_COMPRESSED_EVENT, QUERY_EVENT, RAND_EVENT, START_ENCRYPTION_EVENT, TABLE_MAP_EVENT,
    TRANSACTION_PAYLOAD_EVENT, USER_VAR_EVENT, XA_PREPARE_LOG_EVENT, XID_EVENT,
)
from binlogio._kernel.scan.event_types cimport (
    begins_with, is_any_rows, is_group_start, is_load, is_of_file, size_before_sql,
)

cdef enum GroupPlace:  # as binlogio.format.groups.GroupPlace
    G_OUTSIDE = 0
    G_OPEN = 1
    G_TRANSACTION = 2

cdef struct GroupState:
    int place  # after the last event
    bint begins, ends  # whether the last event is the first or the last one of its group
    bint is_outside  # the last event belongs to no group


cdef inline bint begins_transaction(const uint8_t* sql, int64_t size) noexcept nogil:
    """Return whether servers begin a transaction in the log with this statement."""
    return size == 5 and memcmp(sql, b"BEGIN", 5) == 0 or size >= 8 and memcmp(sql, b"XA START", 8) == 0


cdef inline bint is_commit(const uint8_t* sql, int64_t size) noexcept nogil:
    return size == 6 and memcmp(sql, b"COMMIT", 6) == 0


cdef inline bint ends_transaction(const uint8_t* sql, int64_t size) noexcept nogil:
    """Return whether servers end a transaction in the log with this statement; ROLLBACK TO a savepoint does not."""
    if is_commit(sql, size):
        return True
    return begins_with(sql, sql + size, b"ROLLBACK", 8) and not (
        size >= 12 and sql[8] == 32 and begins_with(sql + 9, sql + size, b"TO", 2) and sql[11] == 32)


cdef inline bint may_be_savepoint(const uint8_t* sql, int64_t size) noexcept nogil:
    """Return whether a statement may be SAVEPOINT or ROLLBACK TO, perhaps after a comment (servers before 5.6)."""
    return (size > 0 and (sql[0] <= 32 or sql[0] == 35 or sql[0] == 45 or sql[0] == 47)
            or begins_with(sql, sql + size, b"SAVEPOINT", 9)
            or begins_with(sql, sql + size, b"ROLLBACK", 8) and not ends_transaction(sql, size))


cdef inline bint frames_changes(const uint8_t* sql, int64_t size) noexcept nogil:
    """Return whether a statement only delimits the changes of its transaction."""
    cdef const uint8_t* end = sql + size
    return (begins_transaction(sql, size) or ends_transaction(sql, size) or begins_with(sql, end, b"SAVEPOINT", 9)
            or begins_with(sql, end, b"ROLLBACK", 8) or size > 2 and begins_with(sql, end, b"XA", 2) and sql[2] == 32)


cdef inline void follow_group(GroupState* group, uint8_t code, int flags, const uint8_t* sql,
                              int64_t sql_size) noexcept nogil:
    """Update the state for the next event of a file; events inside payloads must not be passed.

    `flags` are those of a rows event or of MariaDB's GTID event, in both of which the lowest bit is used. `sql` is the
    statement of a QUERY_EVENT, of size 0 if it is not known.
    """
    cdef int before = group.place
    cdef int after = before
    cdef bint is_part = True
    if is_group_start(code):
        group.place = G_TRANSACTION if code == MARIADB_GTID_EVENT and not flags & 1 else G_OPEN
        group.begins, group.ends, group.is_outside = True, False, False
        return
    if is_any_rows(code):
        if before == G_OUTSIDE:
            after = G_OUTSIDE if flags & 1 else G_OPEN
            is_part = not flags & 1
        elif before == G_OPEN and flags & 1:
            after = G_OUTSIDE
    elif code == QUERY_EVENT or code == QUERY_COMPRESSED_EVENT:
        if begins_transaction(sql, sql_size):
            after = G_TRANSACTION
        elif before != G_TRANSACTION or ends_transaction(sql, sql_size):
            after = G_OUTSIDE
    elif (code == XID_EVENT or code == XA_PREPARE_LOG_EVENT or code == TRANSACTION_PAYLOAD_EVENT
          or code == INCIDENT_EVENT):
        after = G_OUTSIDE
    elif (code == TABLE_MAP_EVENT or code == INTVAR_EVENT or code == RAND_EVENT or code == USER_VAR_EVENT
          or code == BEGIN_LOAD_QUERY_EVENT or code == CREATE_FILE_EVENT or code == APPEND_BLOCK_EVENT):
        after = G_OPEN if before == G_OUTSIDE else before
    elif is_load(code):
        after = G_TRANSACTION if before == G_TRANSACTION else G_OUTSIDE
    elif is_of_file(code) and code != START_ENCRYPTION_EVENT:
        group.place = G_OUTSIDE
        group.begins, group.ends, group.is_outside = False, False, True
        return
    else:
        group.begins = group.ends = False
        group.is_outside = before == G_OUTSIDE
        return
    group.place = after
    group.begins = is_part and before == G_OUTSIDE
    group.ends = is_part and after == G_OUTSIDE
    group.is_outside = not is_part


cdef inline void follow_body(GroupState* group, uint8_t code, const uint8_t* body, const uint8_t* end) noexcept nogil:
    """As `follow_group`, for an event in the format that current servers write.

    The statement of a QUERY_COMPRESSED_EVENT is not decompressed: BEGIN, COMMIT and ROLLBACK are too short for
    compression.
    """
    cdef int64_t size
    cdef int flags = 0
    if code == QUERY_EVENT:
        size = size_before_sql(body, end)
        follow_group(group, code, 0, body + size, end - body - size if size else 0)
        return
    if code == MARIADB_GTID_EVENT:
        flags = body[12] if end - body > 12 else 0
    elif is_any_rows(code):
        flags = body[6] if end - body >= 8 else 0
    follow_group(group, code, flags, body, 0)
