"""Selects event groups by time, server and GTID of their first event, and by their tables and statements.

Used by the reader to skip groups and by `dump`. `binlogio.selection.selection.Selection` is the reference implementation
(oracle).
"""

from libc.stdint cimport int64_t, uint8_t

from libc.string cimport memset

from binlogio._kernel.base.cursor cimport u32
from binlogio._kernel.base.event_codes cimport (
    BIG_EVENT_SIZE, INTVAR_EVENT, QUERY_COMPRESSED_EVENT, QUERY_EVENT, TABLE_MAP_EVENT,
    TRANSACTION_PAYLOAD_EVENT, XID_EVENT,
)
from binlogio._kernel.scan.event_types cimport (
    begins_with, is_any_rows, is_group_start, is_of_file, is_plain_rows, is_statement_part, may_define, size_before_sql,
)
from binlogio._kernel.scan.cursor cimport F_WHOLE, Cursor, Frame, has_event, look, pass_event, set_cursor
from binlogio._kernel.scan.groups cimport G_OUTSIDE, follow_body, frames_changes

cdef enum:
    MOST_ANSWERS = 1 << 12  # cached answers for tables
    TABLE_POST_HEADER = 8


_READ_CODES = tuple([
    code for code in range(256)
    if is_group_start(code) or is_any_rows(code) or code in (QUERY_EVENT, QUERY_COMPRESSED_EVENT, TABLE_MAP_EVENT)
])  # types of events whose bodies are parsed


cdef class GroupFilter:
    """Criteria of a selection.

    Args:
        start, stop: in seconds since 1970. Groups whose first event is older than `start` are not selected; the first
            group whose first event is at or after `stop` ends the selection.
        server_ids: selected server ids of the first events of groups; None for any.
        ask_gtid: predicate as in `GtidChoice`; None for any GTID.
        ask_table: predicate of schema and table for changes of a table; None if groups are selected by their first
            events alone.
        ask_statement: the same, of schema and text of a statement.
    """

    codes = _READ_CODES

    def __cinit__(self, *, start=None, stop=None, server_ids=None, ask_gtid=None, ask_table=None, ask_statement=None):
        self.start = -1 if start is None else max(-1, min(start, 1 << 62))
        self.stop = 1 << 62 if stop is None else max(-1, min(stop, 1 << 62))
        self.gtids = None if ask_gtid is None else GtidChoice(ask_gtid)
        self.server_ids = server_ids
        self.ask_table, self.ask_statement = ask_table, ask_statement
        self.tables = {}

    def set_codes(self, codes):
        """Set the event types, a subset of `codes`, whose bodies have the standard format in this log."""
        cdef int code
        for code in range(256):
            self.is_unusual[code] = code in self.codes and code not in codes

    def skip(self, const uint8_t[::1] data, int64_t at, int64_t offset, int64_t stop, bint checksum, bint verify,
             uint32_t shift, bint inside, object follow):
        """Skip groups that are not selected; `self.at` is then the index of the next event.

        Args:
            offset: file offset of byte `at`.
            stop: file offset; events that begin at or after it are not skipped.
            checksum, verify: whether events end in a checksum, and whether it is verified.
            shift: `position_shift` of the previous event.
            inside: whether byte `at` is inside a group that is not selected.
            follow: called with type and body of events in skipped groups that may define a table.

        Returns:
            True if the buffer ends inside a group that is not selected.
        """
        cdef Cursor cursor
        cdef Frame* frame = &cursor.frame
        cdef int64_t kept = at  # the end of what is certainly skipped
        cdef uint32_t kept_shift = shift
        cdef bint looking = False  # in a group that may not be selected
        cdef int answer
        cdef GroupState next
        cdef list definitions = []
        if not inside:
            self.good = offset
            memset(&self.group, 0, sizeof(self.group))
        set_cursor(&cursor, &data[0], data.shape[0], at, offset, -1, checksum, shift)
        while cursor.offset < stop and has_event(&cursor, verify):
            if (inside or looking) and (self.group.place == G_OUTSIDE or is_group_start(frame.code)):
                _follow_all(follow, definitions)
                kept, kept_shift, self.good = cursor.at, cursor.shift, cursor.offset
                inside = looking = False
            if is_of_file(frame.code):
                inside = False
                break
            next = self.group
            follow_body(&next, frame.code, frame.body, frame.end)
            if not inside and self.is_unusual[frame.code]:
                break
            if not inside and not looking:
                if not next.begins:
                    break
                answer = self.answer(frame.code, frame.head, frame.body, frame.end)
                inside = answer == GROUP_UNWANTED
                looking = answer == GROUP_WANTED and self.ask_table is not None
                if not inside and not looking:
                    break
            if inside:
                if (frame.code == QUERY_EVENT and may_define(frame.body, frame.end)
                        or frame.code == QUERY_COMPRESSED_EVENT or frame.code == TRANSACTION_PAYLOAD_EVENT):
                    follow(frame.code, <bytes>frame.body[:frame.end - frame.body])
            elif not is_group_start(frame.code):
                if not self.is_unwanted(frame.code, frame.body, frame.end):
                    break
                if frame.code == QUERY_EVENT and may_define(frame.body, frame.end):
                    definitions.append(<bytes>frame.body[:frame.end - frame.body])
            self.group = next
            pass_event(&cursor)
            if inside:
                kept, kept_shift = cursor.at, cursor.shift
        if (inside or looking) and self.group.place == G_OUTSIDE:
            _follow_all(follow, definitions)
            kept, kept_shift, self.good = cursor.at, cursor.shift, cursor.offset
            inside = False
        self.at, self.position_shift = kept, kept_shift
        return inside

    def passes(self, uint8_t code, bytes body) -> bool:
        """Process an event of a group that is not selected; returns whether the group continues."""
        follow_body(&self.group, code, <const uint8_t*>body, <const uint8_t*>body + len(body))
        return self.group.place != G_OUTSIDE

    cdef int answer(self, uint8_t code, const uint8_t* head, const uint8_t* body, const uint8_t* end) except -1:
        """Return a `GroupAnswer` from the first event of a group."""
        cdef Group group
        if is_group_start(code):
            if not read_group(&group, code, head, body, end):
                return GROUP_NOT_KNOWN
        else:
            memset(&group, 0, sizeof(group))
        if u32(head) >= self.stop:
            return GROUP_AFTER_END
        if self.server_ids is not None and u32(head + 5) not in self.server_ids:
            return GROUP_UNWANTED
        if u32(head) < self.start or self.gtids is not None and not self.gtids.wants(&group):
            return GROUP_UNWANTED
        return GROUP_WANTED

    cdef bint is_unwanted(self, uint8_t code, const uint8_t* body, const uint8_t* end) except -1:
        """Return whether an event certainly has no selected change."""
        cdef int64_t size
        cdef const uint8_t* sql
        cdef bytes names
        if code == TABLE_MAP_EVENT:
            size = end - body
            if size < TABLE_POST_HEADER + 3:
                return False
            body += TABLE_POST_HEADER
            size = 1 + body[0]  # the length byte and the schema; a zero byte follows
            if end - body < size + 2 or end - body < size + 2 + body[size + 1]:
                return False
            names = body[:size + 2 + body[size + 1]]
            wanted = self.tables.get(names)
            if wanted is None:
                if len(self.tables) >= MOST_ANSWERS:
                    self.tables.clear()
                wanted = self.tables[names] = bool(
                    self.ask_table(_name(names[1:size]), _name(names[size + 2:])))
            return not wanted
        if code == QUERY_EVENT:
            size = size_before_sql(body, end)
            sql = body + size
            if not size or begins_with(sql, end, b"XA", 2) and (
                    begins_with(sql + 3, end, b"COMMIT", 6) or begins_with(sql + 3, end, b"ROLLBACK", 8)):
                return False  # the changes are those of its XA PREPARE
            return frames_changes(sql, end - sql) or not self.ask_statement(
                _name(body[size - 1 - body[8]:size - 1]), <bytes>body[size:end - body])
        return is_plain_rows(code) or code == XID_EVENT or code == INTVAR_EVENT or is_statement_part(code)


def payload_definitions(bytes plain not None):
    """Return type and body of the statements in the plain bytes of a payload that may define a table."""
    cdef Cursor cursor
    cdef Frame* frame = &cursor.frame
    cdef list found = []
    set_cursor(&cursor, plain, len(plain), 0, 0, 0, False, 0)
    while look(&cursor) == F_WHOLE:
        if frame.code == QUERY_EVENT and may_define(frame.body, frame.end):
            found.append((QUERY_EVENT, <bytes>frame.body[:frame.end - frame.body]))
        pass_event(&cursor)
    return found


cdef int _follow_all(object follow, list definitions) except -1:
    for one in definitions:
        follow(QUERY_EVENT, one)
    definitions.clear()
    return 0


cdef str _name(bytes text):
    return text.decode("utf-8", "surrogateescape")
