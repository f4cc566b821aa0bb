"""Scans an event buffer and selects rows events: headers, checksums, GTIDs, table maps, row filters.

Only the needed parts of each event are parsed. What the scanner cannot decide is left to the caller, by the status that
`scan` returns: construct parses a malformed event again and raises the error.
"""

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t, uint8_t
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memmove, memset

from binlogio._kernel.base.cursor cimport u32, u64
from binlogio._kernel.base.event_codes cimport *
from binlogio._kernel.primitives cimport Memory, is_utf8
from binlogio._kernel.scan.event_types cimport (
    is_any_rows, is_compressed_rows, is_group_start, is_load, may_define, size_before_sql,
)
from binlogio._kernel.scan.cursor cimport (
    F_BAD_SIZE, F_NEED_DATA, POST_HEADER_V0, POST_HEADER_V1, POST_HEADER_V2, Cursor, Frame, RowsHead, actual_checksum,
    frame_at, look, pass_event, rows_head, set_cursor, stored_checksum,
)
from binlogio._kernel.scan.groups cimport (
    G_OPEN, G_OUTSIDE, GroupState, begins_transaction, ends_transaction, follow_group, is_commit,
    may_be_savepoint,
)
from binlogio._kernel.scan.payloads cimport (
    PAYLOAD_COMPRESSION, PAYLOAD_PLAIN_SIZE, PayloadFields, payload_fields, small_zstd_size,
)

NEED_DATA = 0  # the event at the position is incomplete
# A format description, or the start of encryption: the following events may have another format
DESCRIPTION = 1
BIG_PAYLOAD = 2  # a compressed transaction that is too large to be decompressed as a whole
BAD_EVENT = 4  # the event does not have its layout; construct raises the error
FULL = 5  # more than MOST_KEPT bytes of decompressed rows are held; the caller should consume them first
STOP = 6  # an event group, or any event, begins at or after `stop_offset`

cdef enum Status:
    S_NEED_DATA = 0
    S_DESCRIPTION = 1
    S_BIG_PAYLOAD = 2
    S_BAD_EVENT = 4
    S_FULL = 5
    S_STOP = 6
    S_GO_ON = 100

cdef enum:
    LONGEST_QUERY_HEAD = 13 + 65535 + 255 + 1 + 12  # bytes of a QUERY_EVENT that suffice to recognise COMMIT and BEGIN
    LONGEST_SAVEPOINT = 1 << 10  # bytes of a statement that have the name of its savepoint: 64 characters
    OPENED_AT_ONCE = 1 << 18  # bytes of the memory block for small payloads
    MOST_KEPT = 1 << 22  # bytes of decompressed rows; a window may decompress to a thousand times its size


def payload_head(const uint8_t[::1] body) -> tuple[int, int, int] | None:
    """Return compression type, plain size and offset of the payload of a TRANSACTION_PAYLOAD_EVENT's body.

    Returns None if the body does not have the format that servers write.
    """
    cdef PayloadFields fields
    if body.shape[0] == 0 or not payload_fields(&body[0], &body[0] + body.shape[0], &fields):
        return None
    return fields.values[PAYLOAD_COMPRESSION], fields.values[PAYLOAD_PLAIN_SIZE], fields.payload - &body[0]


cdef class EventScanner:
    """Scans event buffers and collects rows events, in order, with their event group and plan.

    The scanned buffers must stay valid until `clear`: the collected events point into them.

    Args:
        resolve_plan: function from the body of a TABLE_MAP_EVENT (bytes) to an ImagePlan. It is called once for each
            different body.
        open_payload: function from the body of a TRANSACTION_PAYLOAD_EVENT (bytes) to its plain events (bytes), or None
            if they are too large.
        checksum, verify: whether events end in a CRC32, and whether it is verified.
        opened_size: most bytes of a decompressed event.
        decompress: function from the zstd frame of a small payload with the usual fields, and its plain size in bytes,
            to the plain bytes, or None if `open_payload` must decompress it.
        follow: called with (type code, body) of each statement that could change a table definition; returns whether
            earlier plans may be wrong now. None disables this.
    """

    def __cinit__(self, resolve_plan, open_payload, *, bint checksum, bint verify=True, follow=None,
                  int64_t opened_size=1 << 28, decompress=None):
        self.maps = TablePlans(resolve_plan)
        cdef Group no_group
        self.open_payload = open_payload
        self.decompress = decompress
        self.last_plan = NOT_MAPPED
        self.checksum = checksum
        self.verify = verify
        self.follow = follow
        self.opened_size = opened_size
        self.follows = follow is not None
        self.keep, self.opened, self.zstd = [], Memory(), ZstdContext()
        self.stop_offset = <int64_t>1 << 62
        self.renumber(range(256))
        self.describe(checksum=checksum, post_headers={})
        memset(&no_group, 0, sizeof(Group))
        no_group.last_committed = no_group.sequence_number = no_group.committed_us = no_group.thread_id = -1
        no_group.is_complete = True
        no_group.segments = -1
        self.texts, self.source_texts, self.segments = Memory(), Memory(), Memory()
        self.statement = -1
        self.event_end = -1
        self._add_group(&no_group)

    def __dealloc__(self):
        free(self.groups)
        free(self.events)

    @property
    def rows_event_count(self) -> int:
        """Number of rows events collected since `clear`."""
        return self.event_count

    @property
    def last_table(self) -> object:
        """The table of the last rows event's plan; None if no table map defines the table."""
        return None if self.last_plan < 0 else self.maps.plans[self.last_plan].table

    def rows_event(self, int64_t number) -> tuple[int, int, int, bytes, bytes, bytes]:
        """Return a rows event: type code, plan number, file offset, both present bitmaps, images."""
        cdef RowsEvent* event
        cdef int64_t bitmap_bytes
        if not 0 <= number < self.event_count:
            raise IndexError(f"rows event {number} of {self.event_count}")
        event = self.events + number
        bitmap_bytes = self.maps.cores[event.plan].bitmap_bytes
        return (
            event.code,
            event.plan,
            event.pos,
            <bytes>(<const char*>event.present)[:bitmap_bytes],
            <bytes>(<const char*>event.present_after)[:bitmap_bytes],
            <bytes>(<const char*>event.images)[:event.size],
        )

    def first_row(self, int64_t number) -> int:
        """Return the number of the event's first row at its file offset; events of one payload share an offset."""
        return self.events[number].first_row if 0 <= number < self.event_count else -1

    def found(self) -> list[tuple[int, int]]:
        """Return (plan, first rows event) of each run of rows events of one plan, in order; links the events of a run.

        `Batch.fill` follows the links. A run ends where the same table gets another plan, so that the rows of a table
        stay in order.
        """
        cdef list firsts = []
        cdef int64_t number
        cdef int64_t* last = <int64_t*>malloc((len(self.maps.plans) + 1) * sizeof(int64_t))
        cdef RowsEvent* event
        cdef int32_t table
        if last == NULL:
            raise MemoryError("no memory for another table")
        memset(last, 0xFF, (len(self.maps.plans) + 1) * sizeof(int64_t))
        for number in range(self.event_count):
            event = self.events + number
            event.next = self.event_count
            table = self.maps.cores[event.plan].table_number
            if last[table] < 0 or self.events[last[table]].plan != event.plan:
                firsts.append((event.plan, number))
            else:
                self.events[last[table]].next = number
            last[table] = number
        free(last)
        return firsts

    def describe(self, *, bint checksum, post_headers, unknown=(), bint has_positions=False,
                 int header_size=HEADER_SIZE) -> None:
        """Set the format: whether events have checksums, the post-header sizes by event type, the size of headers.

        With `has_positions`, log_pos is the end position of an event, so that of a large event must agree with its
        size. The types in `unknown` have a post-header size that no server writes. Types missing in `post_headers` have
        the sizes of MySQL 5.5 and later.
        """
        cdef int code
        self.checksum = checksum
        self.has_positions = has_positions
        self.header_extra = header_size - HEADER_SIZE
        self.state.place = G_OUTSIDE
        self._end_source()
        for code in range(256):
            self.post_headers[code] = post_headers.get(code,
                                                       POST_HEADER_V2 if code >= WRITE_ROWS_EVENT else POST_HEADER_V1)
            self.unknown_post_header[code] = code in unknown
        self.maps.id_size = 4 if self.post_headers[<int>TABLE_MAP_EVENT] == POST_HEADER_V0 else 6

    def renumber(self, codes) -> None:
        """Set the mapping from the 256 type codes of the log to those of current servers."""
        cdef int code
        if len(codes) != 256:
            raise ValueError(f"{len(codes)} type codes")
        for code in range(256):
            self.codes[code] = codes[code]

    def watch_changes(self, note_change) -> None:
        """Call a function with type code and body of each selected statement, until it returns True; None: never.

        Statements that begin or end a transaction are left out.
        """
        self.note_change = note_change
        self.watches = note_change is not None

    def stop_at(self, int64_t offset, *, bint inside=False) -> None:
        """Make `scan` return STOP before the first event group, with `inside` any event, at or after `offset`."""
        self.stop_offset, self.stops_inside = offset, inside

    def choose(self, *, pos, timestamp, group_time, server_ids, operations, ask_gtid) -> None:
        """Collect only rows events that `RowChoice` selects with these arguments."""
        self.choice = RowChoice(pos, timestamp, group_time, server_ids, operations, ask_gtid)
        self.choice.begin_group(self.groups + self.group_count - 1)

    def describe_part(self, *, bint checksum) -> None:
        """Set whether the events scanned next have checksums."""
        self.checksum = checksum

    def number_rows_from(self, int32_t first_row) -> None:
        """Number the rows of the next rows event from `first_row`: it continues an event that is passed in parts."""
        self.next_first_row = first_row

    def pass_inner_rows(self, int64_t count) -> None:
        """Count rows of a payload that were processed in parts."""
        self.inner_rows += count

    def count_rows(self, const uint8_t[::1] data) -> tuple[int, int]:
        """Return the number of complete rows of a rows event without checksum, and their bytes.

        The table may be one that is skipped.
        """
        cdef RowsEvent event
        cdef int64_t taken = 0
        cdef int64_t rows = 0
        cdef const uint8_t* p = &data[0]
        if data.shape[0] >= HEADER_SIZE and self._open_rows(
                self.codes[p[4]], p + HEADER_SIZE, p + data.shape[0], True, &event) == S_GO_ON:
            rows = count_rows(self.maps.cores[event.plan], &event, &taken)
        return rows, taken

    def end_statement(self) -> None:
        """Remove the table maps: a rows event that was passed in parts has ended its statement."""
        self.maps.end_statement()
        self.statement = -1
        if self.state.place == G_OPEN and not self.in_payload:
            self._end_as_statement(self.groups + self.group_count - 1)
            self._end_source()

    def begin_payload(self, int64_t end_pos) -> None:
        """Begin a compressed transaction that is passed in parts and ends at offset `end_pos`."""
        if self.keeps_sources and self.state.place == G_OUTSIDE:
            self._new_group()
            self.state.place = G_OPEN
        self.event_end, self.in_payload = end_pos, True

    def end_payload(self) -> None:
        """End a compressed transaction that was passed in parts."""
        self.event_end, self.in_payload = -1, False
        self._end_source()

    @property
    def in_group(self) -> bool:
        """True in a group whose end was not found."""
        return self.state.place != G_OUTSIDE and not self.groups[self.group_count - 1].is_complete

    @property
    def open_group(self) -> int | None:
        """The offset of the group that the scanned events end in, also if its end was looked for; None: in no group."""
        return None if self.state.place == G_OUTSIDE else self.group_offset

    @property
    def lacks_end(self) -> bool:
        """True if rows were collected whose transaction ends after the scanned events."""
        cdef int32_t last = <int32_t>(self.group_count - 1)
        return (self.event_count > 0 and self.events[self.event_count - 1].group == last
                and not self.groups[last].is_complete)

    def begin_ahead(self) -> None:
        """Begin a search for the end of the current transaction."""
        self.ahead = self.state
        self.savepoints_ahead = self.savepoints.copy() if self.segment else None

    def look_ahead(self, const uint8_t[::1] data, bint inner=False) -> int:
        """Search the events at the start of `data` for the end of the transaction, and store XID and outcome.

        Args:
            inner: the bytes are events of a payload, in which an XID_EVENT belongs to the transaction.

        Returns:
            -1 if the end was found; else the bytes of the skipped events. That may be more than `data` has, and the
            last event is skipped only if enough of it is in `data`.
        """
        cdef int64_t at = 0
        cdef int64_t size = data.shape[0]
        cdef Group* group = self.groups + self.group_count - 1
        cdef Frame frame
        cdef const uint8_t* end
        cdef uint8_t code
        while size - at >= HEADER_SIZE:
            if frame_at(&frame, &data[at], size - at, self.checksum and not inner) == F_BAD_SIZE:
                return -1
            code = self.codes[frame.code]
            if min(<int64_t>frame.size, HEADER_SIZE + self.header_extra + LONGEST_QUERY_HEAD) > size - at and not (
                    is_any_rows(code) and size - at >= 64 + self.header_extra or code == TRANSACTION_PAYLOAD_EVENT):
                break
            if self.header_extra and not self._pass_extra(&frame, code):
                return -1
            end = min(frame.end, &data[0] + size)
            if inner or self.ahead.place != G_OUTSIDE:
                self._note_outcome(group, code, frame.body, end, True)
                if inner and group.has_xid:
                    return -1
            if not inner:
                self._follow(&self.ahead, code, frame.body, end)
                if self.ahead.place == G_OUTSIDE or self.ahead.begins:
                    if self.ahead.ends and code != TRANSACTION_PAYLOAD_EVENT:
                        self._end_as_statement(group)
                    group.is_complete = True
                    return -1
            at += frame.size
        return at

    def end_ahead(self) -> None:
        """End the search without result: the log does not have the end of the transaction."""
        self.groups[self.group_count - 1].is_complete = True

    def forget_plans(self) -> None:
        """Resolve every table map again, because table definitions have changed."""
        self.maps.forget()

    def keep_valid_plans(self) -> list[int]:
        """Drop all plans except those of table maps that are valid now.

        Returns the old numbers of the kept plans, in the order of their new numbers.

        Raises:
            ValueError: collected rows events refer to plans.
        """
        if self.event_count:
            raise ValueError(f"{self.event_count} rows events refer to plans")
        kept = self.maps.keep_valid()
        self.last_plan = kept.index(self.last_plan) if self.last_plan in kept else NOT_MAPPED
        return kept

    def clear(self) -> None:
        """Drop the rows events and decompressed data; the current group and the table maps are kept."""
        self.drop_events()
        self.kept_bytes = 0
        self.keep, self.opened = [], Memory()

    cdef void drop_events(self) noexcept nogil:
        """As `clear`, if no event was decompressed."""
        cdef SourceText* texts = <SourceText*>self.source_texts.data
        cdef Group* group = self.groups
        group[0] = self.groups[self.group_count - 1]
        if group.segments > 0:
            memmove(self.segments.data, self.segments.data + group.segments, self.segments.size - group.segments)
            self.segments.size -= group.segments
            group.segments = 0
        elif group.segments < 0:
            self.segments.size = 0
        self.group_count = 1
        self.event_count = 0
        if self.statement >= 0:
            memmove(self.texts.data, self.texts.data + texts[self.statement].begin, texts[self.statement].size)
            texts[0] = texts[self.statement]
            texts[0].begin = self.statement = 0
        self.texts.size = texts[0].size if self.statement == 0 else 0
        self.source_texts.size = sizeof(SourceText) if self.statement == 0 else 0

    cdef int walk(self, const uint8_t* data, int64_t size, int64_t* at, int64_t base, int64_t pos) except -1 nogil:
        """As `scan`; `pos` is -1 for bytes of a file."""
        cdef int status = S_GO_ON
        cdef Cursor cursor
        set_cursor(&cursor, data, size, at[0], base + at[0] if pos < 0 else pos, -1 if pos < 0 else 0, self.checksum,
                   self.position_shift)
        cursor.has_positions = self.has_positions and pos < 0
        while status == S_GO_ON:
            status = self._route(&cursor)
            if status == S_GO_ON and self.kept_bytes > MOST_KEPT:
                status = S_FULL
        at[0] = cursor.at
        self.position_shift = cursor.shift
        return status

    def scan(self, const uint8_t[::1] data, int64_t at, int64_t base, int64_t pos=-1, bint new_pos=True):
        """Scan the events of `data` from index `at`; returns (status, index where it stopped).

        `data[0]` is at file offset `base`. For the events of a payload, `pos` is the offset of the payload event, and
        `new_pos` restarts the numbering of its rows. Stops with FULL after an event if more than MOST_KEPT bytes of
        decompressed rows are held.
        """
        cdef int status = S_NEED_DATA
        if pos >= 0 and new_pos:
            self.inner_rows = 0
        if data.shape[0] > at:
            with nogil:
                status = self.walk(&data[0], data.shape[0], &at, base, pos)
        return status, at

    cdef int _route(self, Cursor* cursor) except -1 nogil:
        """Process one event; the cursor passes it unless it is rejected."""
        cdef Frame* frame = &cursor.frame
        cdef const uint8_t* body
        cdef const uint8_t* end
        cdef bint inner = cursor.inner >= 0
        cdef int found = look(cursor)
        cdef int status = S_GO_ON
        cdef uint8_t code
        cdef GroupState before = self.state
        if frame.size == 0 and found == F_NEED_DATA:
            return S_NEED_DATA
        code = self.codes[frame.code]
        if self.stops_inside and not inner and cursor.offset >= self.stop_offset:
            return S_STOP  # also before an event that is not whole
        if code == FORMAT_DESCRIPTION_EVENT or code == START_ENCRYPTION_EVENT or code == START_EVENT_V3:
            return S_DESCRIPTION
        if found == F_BAD_SIZE:
            return S_BAD_EVENT
        if found == F_NEED_DATA:
            return S_NEED_DATA
        if self.header_extra and not self._pass_extra(frame, code):
            return S_BAD_EVENT
        if not inner and cursor.offset >= self.stop_offset and is_group_start(code):
            return S_STOP
        body, end = frame.body, frame.end
        self.ends_statement = False
        self.payload_stop = 0
        if cursor.checksum and self.verify:
            self.stored, self.actual = stored_checksum(frame), actual_checksum(frame)
            if self.stored != self.actual:
                return S_BAD_EVENT
        if not inner:
            self.event_time = u32(frame.head)
        if self.keeps_sources:
            self._follow_source(code, body, end, inner)
        elif not inner:
            self._follow_group(code, body, end)
        if not inner and self.state.begins:
            self.group_offset = cursor.offset
        if is_any_rows(code) and not is_compressed_rows(code):
            status = self._rows(code, cursor)
        elif self.unknown_post_header[code] and code < WRITE_ROWS_COMPRESSED_EVENT_V1:
            status = S_BAD_EVENT
        elif code == TABLE_MAP_EVENT:
            status = S_GO_ON if self.maps.take(body, end) else S_BAD_EVENT
        elif is_group_start(code):
            status = self._begin_group(code, frame.head, body, end)
        elif code == TRANSACTION_PAYLOAD_EVENT:
            status = S_BAD_EVENT if inner else self._payload(cursor)
        elif is_compressed_rows(code):
            status = self._rows(code, cursor)
        elif self.follows and ((code == QUERY_EVENT and self._is_followed(body, end)) or code == QUERY_COMPRESSED_EVENT):
            self.followed_at = cursor.offset
            self._define(code, body, end - body)
        if self.watches and status == S_GO_ON and (
                code == QUERY_EVENT or code == QUERY_COMPRESSED_EVENT or is_load(code)):
            self._note_change(cursor, code)
        if status != S_GO_ON:
            self.state = before
        else:
            # The table map of a rejected event stays valid, because the event is processed again
            if self.ends_statement:
                self.maps.end_statement()
                self.statement = -1
            if not inner and self.state.ends:
                if code != TRANSACTION_PAYLOAD_EVENT:
                    self._end_as_statement(self.groups + self.group_count - 1)
                self._end_source()
            pass_event(cursor)
        return status

    cdef bint _pass_extra(self, Frame* frame, uint8_t code) noexcept nogil:
        """Exclude the bytes of a header after the first 19 from the body; returns False if the event is too short."""
        if code != ROTATE_EVENT:
            frame.body += self.header_extra
        return frame.body <= frame.end

    cdef int _follow_source(self, uint8_t code, const uint8_t* body, const uint8_t* end, bint inner) except -1 nogil:
        """Update thread, XID, outcome and statement, the source of rows, for an event."""
        cdef Group* group
        cdef int64_t size
        if not inner:
            self._follow_group(code, body, end)
        group = self.groups + self.group_count - 1
        if code == QUERY_EVENT:
            size = size_before_sql(body, end)
            if size and begins_transaction(body + size, end - body - size):
                group.thread_id = u32(body)
            self._note_outcome(group, code, body, end, False)
        elif code == ROWS_QUERY_LOG_EVENT and body < end:
            self._keep_statement(body + 1, end - body - 1)
        elif code == ANNOTATE_ROWS_EVENT:
            self._keep_statement(body, end - body)
        elif code == XID_EVENT or code == XA_PREPARE_LOG_EVENT or code == INCIDENT_EVENT:
            self._note_outcome(group, code, body, end, False)
        return 0

    cdef int _note_outcome(self, Group* group, uint8_t code, const uint8_t* body, const uint8_t* end,
                           bint ahead) except -1 nogil:
        """Update XID, outcome and savepoints of a group for an event of it, as `groups.outcome_of`.

        Args:
            ahead: the event comes after those that were scanned.
        """
        cdef int64_t size
        if code == QUERY_EVENT:
            size = size_before_sql(body, end)
            if size:
                body += size
                if ends_transaction(body, end - body):
                    group.outcome = O_COMMIT if is_commit(body, end - body) else O_ROLLBACK
                elif self.keeps_outcomes and may_be_savepoint(body, end - body):
                    self._pass_savepoint(group, body, end - body, ahead)
        elif code == XID_EVENT and end - body == 8:
            group.has_xid, group.xid, group.outcome = True, u64(body), O_COMMIT
        elif code == XA_PREPARE_LOG_EVENT:
            group.outcome = O_COMMIT if end > body and body[0] else O_PREPARE
        elif code == INCIDENT_EVENT:
            group.outcome = O_INCIDENT
        return 0

    cdef void _end_as_statement(self, Group* group) noexcept nogil:
        """Set the outcome of a group that has ended, if its last event is a statement."""
        if group.outcome == O_UNKNOWN:
            group.outcome = O_STATEMENT

    cdef int _pass_savepoint(self, Group* group, const uint8_t* sql, int64_t size, bint ahead) except -1 with gil:
        """Begin a segment of the group at SAVEPOINT or ROLLBACK TO, and mark the segments that were rolled back."""
        cdef int64_t missing
        cdef int64_t number
        cdef object savepoints = self.savepoints_ahead if ahead else self.savepoints if self.segment else None
        if savepoints is None:
            savepoints = self.open_savepoints()
        rolled_back = savepoints.take(<bytes>(<const char*>sql)[:min(size, LONGEST_SAVEPOINT)])
        if group.segments < 0:
            group.segments = <int32_t>self.segments.size
        missing = group.segments + savepoints.segment + 1 - self.segments.size
        if missing > 0:
            memset(self.segments.grow(missing), 0, missing)
        for number in rolled_back:
            self.segments.data[group.segments + number] = True
        if ahead:
            self.savepoints_ahead = savepoints
        else:
            self.savepoints, self.segment = savepoints, savepoints.segment
        return 0

    cdef int _follow_group(self, uint8_t code, const uint8_t* body, const uint8_t* end) except -1 nogil:
        """Update the group state; a group without a GTID event begins with its first event."""
        self._follow(&self.state, code, body, end)
        if self.state.begins and not is_group_start(code):
            self._new_group()
        return 0

    cdef void _follow(self, GroupState* state, uint8_t code, const uint8_t* body, const uint8_t* end) noexcept nogil:
        cdef int64_t size = 0
        cdef int flags = 0
        cdef int id_size
        if code == QUERY_EVENT:
            size = size_before_sql(body, end)
            follow_group(state, code, 0, body + size, end - body - size if size else 0)
            return
        if code == MARIADB_GTID_EVENT:
            flags = body[12] if end - body > 12 else 0
        elif is_any_rows(code):
            id_size = 4 if self.post_headers[code] == POST_HEADER_V0 else 6
            flags = body[id_size] if end - body >= id_size + 2 else 0
        follow_group(state, code, flags, body, 0)

    cdef int _new_group(self) except -1 nogil:
        """Begin a group without a GTID event."""
        cdef Group group = self.groups[self.group_count - 1]
        _reset_source(&group)
        self.segment = 0
        group.begin_time = self.event_time
        self._add_group(&group)
        if self.choice is not None:
            self.choice.begin_group(&group)
        return 0

    cdef int _end_source(self) noexcept nogil:
        """End a group: no later row belongs to it."""
        self.state.place = G_OUTSIDE
        self.statement = -1
        if self.group_count:
            self.groups[self.group_count - 1].is_complete = True
        return 0

    cdef int _keep_statement(self, const uint8_t* sql, int64_t size) except -1 nogil:
        cdef SourceText* text
        if not is_utf8(sql, size):
            return self._keep_escaped(sql, size)
        text = <SourceText*>self.source_texts.grow(sizeof(SourceText))
        text.begin, text.size = self.texts.size, size
        self.last_serial += 1
        text.serial = self.last_serial
        self.statement = <int32_t>(self.source_texts.size // <int64_t>sizeof(SourceText)) - 1
        memmove(self.texts.grow(size), sql, size)
        return 0

    cdef int _keep_escaped(self, const uint8_t* sql, int64_t size) except -1 with gil:
        """Store a statement that is not UTF-8; invalid bytes become escapes."""
        cdef bytes text = (<const char*>sql)[:size].decode("utf-8", "backslashreplace").encode()
        return self._keep_statement(<const uint8_t*><const char*>text, len(text))

    cdef bint _is_followed(self, const uint8_t* body, const uint8_t* end) noexcept nogil:
        cdef int64_t size
        if not self.follows_all:
            return may_define(body, end)
        size = size_before_sql(body, end)
        return size > 0 and not (begins_transaction(body + size, end - body - size)
                                 or ends_transaction(body + size, end - body - size))

    cdef int _define(self, uint8_t code, const uint8_t* body, int64_t size) except -1 with gil:
        """Call `follow` for a statement that may change a table; if it returns True, resolve the table maps again."""
        if self.follow(code, <bytes>(<const char*>body)[:size]):
            self.maps.renew()
        return 0

    cdef int _note_change(self, Cursor* cursor, uint8_t code) except -1 nogil:
        """Call `note_change` for a selected statement, if it does not begin or end a transaction."""
        cdef Frame* frame = &cursor.frame
        cdef int64_t size
        if self.choice is not None and not self.choice.wants_at(cursor.offset, u32(frame.head), u32(frame.head + 5)):
            return 0
        if code == QUERY_EVENT:
            size = size_before_sql(frame.body, frame.end)
            if size and (begins_transaction(frame.body + size, frame.end - frame.body - size)
                         or ends_transaction(frame.body + size, frame.end - frame.body - size)):
                return 0
        with gil:
            self.followed_at = cursor.offset
            if self.note_change(code, <bytes>(<const char*>frame.body)[:frame.end - frame.body]):
                self.watches = False
        return 0

    cdef int _begin_group(self, uint8_t code, const uint8_t* header, const uint8_t* body,
                          const uint8_t* end) except -1 nogil:
        cdef Group group
        cdef GtidFields fields
        if not read_group(&group, code, header, body, end):
            return S_BAD_EVENT
        _reset_source(&group)
        self.segment = 0
        group.begin_time = u32(header)
        if self.keeps_sources and code == MARIADB_GTID_EVENT:
            gtid_fields(&fields, code, body, end)
            if fields.has_thread:
                group.thread_id = fields.thread_id
        self._add_group(&group)
        if self.choice is not None:
            self.choice.begin_group(&group)
        return S_GO_ON

    cdef int _add_group(self, const Group* group) except -1 nogil:
        cdef void* moved
        if self.group_count == self.group_capacity:
            moved = realloc(self.groups, (self.group_capacity * 2 + 64) * sizeof(Group))
            if moved == NULL:
                with gil:
                    raise MemoryError("no memory for event groups")
            self.groups = <Group*>moved
            self.group_capacity = self.group_capacity * 2 + 64
        self.groups[self.group_count] = group[0]
        self.group_count += 1
        return 0

    cdef int _rows(self, uint8_t code, Cursor* cursor) except -1 nogil:
        cdef RowsEvent event
        cdef Plan* plan
        cdef void* moved
        cdef int64_t rows
        cdef int64_t taken = 0
        cdef int status
        cdef bint inner = cursor.inner >= 0
        event.pos = cursor.offset
        event.end_pos = self.event_end if self.event_end >= 0 else cursor.offset + cursor.frame.size
        event.statement, event.segment = self.statement, self.segment
        event.timestamp = u32(cursor.frame.head)
        event.server_id = u32(cursor.frame.head + 5)
        event.group = <int32_t>(self.group_count - 1)
        event.first_row = self.next_first_row
        status = self._open_rows(code, cursor.frame.body, cursor.frame.end, inner, &event)
        if status != S_GO_ON or event.images == NULL:
            return status
        plan = self.maps.cores[event.plan]
        if inner:
            rows = count_rows(plan, &event, &taken)
            if taken != event.size:
                return S_BAD_EVENT
            event.first_row = <int32_t>self.inner_rows
            self.inner_rows += rows
            if not plan.wanted:
                return S_GO_ON
            if self.choice is not None and not self.choice.wants(&event):
                return S_GO_ON
        if self.event_count == self.event_capacity:
            moved = realloc(self.events, (self.event_capacity * 2 + 256) * sizeof(RowsEvent))
            if moved == NULL:
                with gil:
                    raise MemoryError("no memory for rows events")
            self.events = <RowsEvent*>moved
            self.event_capacity = self.event_capacity * 2 + 256
        self.events[self.event_count] = event
        self.event_count += 1
        return S_GO_ON

    cdef int _open_rows(self, uint8_t code, const uint8_t* body, const uint8_t* end, bint skipped_too,
                        RowsEvent* event) except -1 nogil:
        """Parse the part before the images, and set the images.

        `event.images` stays NULL for a table that is not selected, unless `skipped_too` is set.
        """
        cdef uint64_t columns = 0
        cdef RowsHead head
        cdef Plan* plan
        event.images = NULL
        if not rows_head(&head, body, end, self.post_headers[code]):
            return S_BAD_EVENT
        self.last_plan = event.plan = self.maps.plan_of(head.table_id)
        if event.plan == NOT_MAPPED:
            return S_BAD_EVENT
        self.ends_statement = head.flags & 1
        plan = self.maps.cores[event.plan]
        if not plan.wanted and not skipped_too:
            return S_GO_ON
        if self.unknown_post_header[code] or not read_frame(event, code, head.rest, end, &columns):
            return S_BAD_EVENT
        if is_compressed_rows(code) and not self._inflate(event):
            return S_BAD_EVENT
        if self.choice is not None and not skipped_too and not self.choice.wants(event):
            event.images = NULL
            return S_GO_ON
        if columns != <uint64_t>plan.column_count:
            return S_BAD_EVENT
        if code <= PRE_GA_DELETE_ROWS_EVENT and not self._make_plain(plan, event):
            return S_BAD_EVENT
        return S_GO_ON

    cdef int _inflate(self, RowsEvent* event) except -1 nogil:
        """Decompress the images of a compressed rows event of MariaDB; returns 0 if they are invalid or too large."""
        with gil:
            self.plain = Memory()
            self.keep.append(self.plain)
        if not inflate_images(self.plain, event, self.opened_size):
            return 0
        self.kept_bytes += event.size
        return 1

    cdef int _make_plain(self, Plan* plan, RowsEvent* event) except -1 nogil:
        """Convert an event of 5.1 before GA to version 1; returns 0 if its images do not fit the plan."""
        with gil:
            self.plain = Memory()
            self.keep.append(self.plain)
        if not plain_images(self.plain, plan, event):
            return 0
        event.code += WRITE_ROWS_EVENT_V1 - PRE_GA_WRITE_ROWS_EVENT
        event.images = self.plain.data
        event.size = self.plain.size
        self.kept_bytes += event.size
        return 1

    cdef int _payload(self, Cursor* cursor) except -1 nogil:
        cdef const uint8_t* body = cursor.frame.body
        cdef const uint8_t* end = cursor.frame.end
        cdef const uint8_t* data = NULL
        cdef int64_t size = 0
        cdef int status = S_GO_ON
        cdef PayloadFields fields
        cdef Cursor inside
        if payload_fields(body, end, &fields):
            size = small_zstd_size(&fields)
        if size:
            data = self._open_small(fields.payload, end - fields.payload, size)
        if data == NULL:
            with gil:
                plain = None
                if self.decompress is not None and size:
                    plain = self.decompress(<bytes>(<const char*>fields.payload)[:end - fields.payload], size)
                if plain is None:
                    plain = self.open_payload(<bytes>(<const char*>body)[:end - body], cursor.offset)
                if plain is None:
                    return S_BIG_PAYLOAD
                self.keep.append(plain)
                data = <const uint8_t*><const char*>plain
                size = len(plain)
        self.kept_bytes += size
        self.inner_rows = 0
        self.event_end = cursor.offset + cursor.frame.size
        set_cursor(&inside, data, size, 0, cursor.offset, 0, False, 0)
        while status == S_GO_ON:
            status = self._route(&inside)
        self.event_end = -1
        self.ends_statement = False
        self.payload_stop = inside.at
        return S_GO_ON if inside.at == size else S_BAD_EVENT

    cdef const uint8_t* _open_small(self, const uint8_t* frame, int64_t length, int64_t size) except? NULL nogil:
        """Return the plain bytes of a zstd frame; NULL if Python must decompress it."""
        cdef uint8_t* to
        if not self.zstd.takes(frame, length, size):
            return NULL
        if self.opened.capacity - self.opened.size < size:
            with gil:
                self.opened = Memory()
                self.keep.append(self.opened)
            self.opened.reserve(max(size, OPENED_AT_ONCE))
        to = self.opened.data + self.opened.size
        if not self.zstd.open(to, size, frame, length):
            return NULL
        self.opened.size += size
        return to


cdef inline void _reset_source(Group* group) noexcept nogil:
    """Set the source of the rows of a group that begins."""
    group.thread_id = group.segments = -1
    group.has_xid = group.is_complete = False
    group.outcome = O_UNKNOWN
