"""Walks the events of a framer one by one, for records of events and of event groups.

Verifies checksums, tracks event groups and table maps, and parses the frequent event types. Other types and malformed
events are left to the framer: construct parses them, and the caller then updates the state of the walk.
`binlogio.format.groups`, `binlogio.format.decoder` and `binlogio.events` are the reference implementations (oracles).
"""

from libc.stdint cimport int32_t, int64_t, uint16_t, uint32_t, uint64_t, uint8_t
from libc.string cimport memcmp, memcpy, memset

from binlogio._kernel.base.cursor cimport little, u16, u32, u64
from binlogio._kernel.base.event_codes cimport *
from binlogio._kernel.event_scanner cimport (
    GTID_TEXT, NO_GTID, Group, GtidChoice, GtidFields, RowsEvent, gtid_fields, inflate_images, put_gtid, read_frame,
    read_group,
)
from binlogio._kernel.primitives cimport Memory, ZstdContext, crc32, is_ascii, is_utf8
from binlogio._kernel.scan.payloads cimport PayloadFields, open_small, payload_fields
from binlogio._kernel.scan.event_types cimport (
    QUERY_POST_HEADER, is_compressed_rows, is_group_start, is_plain_rows, size_before_sql,
)
from binlogio._kernel.scan.cursor cimport (
    Cursor, Frame, RowsHead, has_event, pass_event, rows_head, rows_post_header, set_cursor,
)
from binlogio._kernel.scan.groups cimport G_OUTSIDE, GroupState, follow_group

cdef enum:
    TABLE_ID_SIZE = 6
    WALK_SLOTS = 1024
    MOST_TABLE_BYTES = 1 << 20  # cached table maps; construct's event of one takes some fifty times as much memory
    MOST_STATUS_BYTES = 4096  # cached status variables

cdef struct WalkEvent:
    Frame frame
    int64_t pos  # file offset of the event, or of the payload event that contains it
    int64_t end_pos
    int32_t inner  # number of the event in its payload; -1 outside
    # Fields of the body; NULL or False if the event does not have them
    const uint8_t* schema
    const uint8_t* table
    const uint8_t* sql
    int64_t schema_size, table_size, sql_size
    bint has_xid
    uint64_t xid
    bint is_rows
    uint64_t table_id
    uint64_t column_count
    const uint8_t* extra
    int64_t extra_size
    uint16_t flags  # flags of a rows event
    RowsEvent rows
    GtidFields gtid
    PayloadFields payload  # of a TRANSACTION_PAYLOAD_EVENT


cdef class MappedTable:
    """A table map without its table id.

    Args:
        key: its bytes.
        schema, table: names in UTF-8; full_name: as `dotted_names` joins them.
        text: the members of its JSON after the table id.
        event: the event that construct parsed.
    """

    cdef readonly bytes key, schema, table, text
    cdef readonly object event
    cdef public ImagePlan images  # None until a rows event needs it
    cdef public int64_t pos  # file offset of its last event
    cdef bytes full_name
    cdef uint64_t table_id
    cdef int is_wanted  # -1 until the filter was called

    def __init__(self, bytes key, bytes schema, bytes table, bytes full_name, bytes text, event):
        self.key, self.schema, self.table, self.full_name = key, schema, table, full_name
        self.text, self.event = text, event
        self.is_wanted = -1


cdef class KnownStatus:
    """Status variables of a statement.

    Args:
        key: their bytes.
        text: their JSON.
        form: encoding of the statement's text: 0 for ASCII only, 1 for UTF-8, 2 if only construct can decode it.
        xid: the transaction id, if the variables have it.
    """

    cdef readonly bytes key, text
    cdef int form
    cdef bint has_xid
    cdef uint64_t xid

    def __init__(self, bytes key, bytes text, int form, xid):
        self.key, self.text, self.form = key, text, form
        self.has_xid = xid is not None
        self.xid = 0 if xid is None else xid


cdef class EventWalk:
    """State of a walk over one log, without the log's bytes.

    Args:
        opened_size: most bytes of a decompressed event.
        max_records, max_bytes: approximate size of a batch.
        ask_gtid: predicate as in `GtidChoice`; None for any group.
    """

    cdef readonly int64_t count  # records in the batch
    cdef readonly int64_t at  # index of the next event in the buffer
    cdef readonly uint32_t position_shift  # difference between log_pos and the real end of the last event
    cdef public int64_t payload_end  # file offset after the last payload event
    cdef public int64_t group_begin  # file offset of the event group
    cdef readonly bint statement_ended
    cdef object parse_table, parse_status
    cdef int64_t opened_size, max_records, max_bytes
    cdef uint8_t[256] by_construct
    # State of the event group
    cdef GroupState state
    cdef uint8_t[GTID_TEXT] gtid_text
    cdef int gtid_size
    cdef bint has_clock
    cdef int64_t last_committed, sequence_number
    cdef int wants_group  # -1 until the filter was called
    cdef Group group_start  # set only if the event was parsed here or there is no group
    cdef bint has_group_start
    cdef GtidChoice gtids  # None: any GTID
    # Tables
    cdef dict mapped, known_tables
    cdef int64_t known_bytes  # bytes of the keys of known_tables
    cdef list table_slots, status_slots
    cdef MappedTable table  # table of the current event
    cdef KnownStatus status
    cdef Memory plain
    cdef ZstdContext zstd
    cdef Memory opened  # the plain bytes of a payload

    def __cinit__(self, *, int64_t opened_size, int64_t max_records, int64_t max_bytes, ask_gtid, **_):
        self.gtids = None if ask_gtid is None else GtidChoice(ask_gtid)
        self.opened_size, self.max_records, self.max_bytes = opened_size, max_records, max_bytes
        self.wants_group = -1
        self.mapped = {}
        self.set_group(G_OUTSIDE, None, None, None, starts_group=False)
        self.zstd, self.opened = ZstdContext(), Memory()
        self.describe(range(256), None, None)

    def describe(self, by_construct, parse_table, parse_status) -> None:
        """Set the format of the following events.

        Args:
            by_construct: event types that are left to construct.
            parse_table: function from the body of a TABLE_MAP_EVENT to a MappedTable, or None if construct rejects it.
            parse_status: function from type and body of a QUERY_EVENT to the KnownStatus of its status variables; None
                if they are rejected.
        """
        cdef int code
        self.parse_table, self.parse_status = parse_table, parse_status
        for code in range(256):
            self.by_construct[code] = code in by_construct
        self.known_tables = {}
        self.known_bytes = 0
        self.table_slots = [None] * WALK_SLOTS
        self.status_slots = [None] * WALK_SLOTS

    # -------------------------------------------------------------------- state changes by events that construct parsed

    @property
    def is_full(self) -> bool:
        """True if there are enough records for a batch."""
        return self._is_full()

    @property
    def starts_group(self) -> bool:
        """True if the current event is the first one of its group."""
        return self.state.begins

    @property
    def group(self) -> tuple:
        """State of the event group: its place (0 to 2), GTID, last_committed and sequence_number."""
        gtid = (<const char*>self.gtid_text)[:self.gtid_size].decode("latin-1") if self.gtid_size else None
        if self.has_clock:
            return self.state.place, gtid, self.last_committed, self.sequence_number
        return self.state.place, gtid, None, None

    def set_group(self, int place, gtid, last_committed, sequence_number, *, bint starts_group) -> None:
        """Set the state of the event group after an event that construct parsed."""
        cdef bytes text = b"" if gtid is None else gtid.encode()
        if len(text) > GTID_TEXT:
            raise ValueError(f"a GTID of {len(text)} bytes")
        self.state.place, self.state.begins = place, starts_group
        self.state.ends = self.state.is_outside = False
        self.gtid_size = <int>len(text)
        memcpy(self.gtid_text, <const char*>text, len(text))
        self._forget_group_start()
        self.has_group_start = gtid is None
        self.has_clock = last_committed is not None
        self.last_committed, self.sequence_number = (last_committed, sequence_number) if self.has_clock else (0, 0)
        self.wants_group = -1

    def begin_event(self) -> None:
        """Begin an event that construct parsed: removes the table maps if the statement has ended."""
        if self.statement_ended:
            self.mapped.clear()
            self.statement_ended = False

    def map_table(self, table_id: int, MappedTable table not None) -> None:
        """Add a table map of the current statement."""
        self.mapped[table_id] = table

    def end_statement(self) -> None:
        """Mark the current event as the last rows event of its statement."""
        self.statement_ended = True

    def mapped_table(self, table_id: int) -> MappedTable | None:
        """Return the table that a rows event refers to; None if there is no table map."""
        return self.mapped.get(table_id)

    # --------------------------------------------------------------------------------------------------------- events

    def cut(self, const uint8_t[::1] data, int64_t at, int64_t offset, int64_t stop, int64_t inner, int64_t most,
            bint checksum, bint verify, uint32_t shift, bint by_group) -> range:
        """Process the events from byte `at`, up to one that is left to construct; `self.at` is then its index.

        Returns a range whose length is the number of events. The arguments are those of
        `python_events.EventCutter.cut`.
        """
        cdef int64_t count = 0
        cdef WalkEvent event
        cdef Cursor cursor
        set_cursor(&cursor, &data[0], data.shape[0], at, offset, inner, checksum, shift)
        while ((inner >= 0 or cursor.offset < stop) and count < most and not self._is_full()
               and has_event(&cursor, verify) and not self.by_construct[cursor.frame.code]):
            event.frame, event.inner, event.pos = cursor.frame, <int32_t>cursor.inner, cursor.offset
            event.end_pos = self.payload_end if inner >= 0 else cursor.offset + cursor.frame.size
            if not self._take(&event):
                break
            count += 1
            pass_event(&cursor)
        self.at = cursor.at
        self.position_shift = cursor.shift
        return range(count)

    cdef bint _is_full(self):
        return self.count >= self.max_records

    cdef bint _take(self, WalkEvent* event) except -1:
        """Parse an event and update the state of the walk; returns False if construct must parse it."""
        cdef Group group
        cdef int64_t size = 0
        cdef dict mapped
        cdef bint statement_ended
        if not self._parse(event, &group):
            return False
        if event.frame.code == TRANSACTION_PAYLOAD_EVENT:
            size = open_small(&event.payload, event.frame.end, self.zstd, self.opened, self.opened_size)
            if not size:
                return False
            mapped, statement_ended = self.mapped, self.statement_ended
            self.mapped = mapped.copy()
            if not self._inside(size, event, False):
                self.mapped, self.statement_ended = mapped, statement_ended
                return False
            self.mapped, self.statement_ended = mapped, statement_ended
            self._parse(event, &group)  # parse again, because the current table has changed
        self._map(event)
        if event.inner < 0:
            self._follow(event, &group)
        self._add(event)
        if size:
            self._inside(size, event, True)
        return True

    cdef bint _inside(self, int64_t size, WalkEvent* payload, bint adds) except -1:
        """Process the events of a payload, or only check that all of them can be processed if `adds` is False."""
        cdef WalkEvent event
        cdef Group group
        cdef Cursor cursor
        set_cursor(&cursor, self.opened.data, size, 0, payload.pos, 0, False, 0)
        event.pos, event.end_pos = payload.pos, payload.end_pos
        self._map(payload)
        while cursor.at < cursor.size:
            if not has_event(&cursor, False) or self.by_construct[cursor.frame.code]:
                return False
            event.frame, event.inner = cursor.frame, <int32_t>cursor.inner
            if not self._parse(&event, &group):
                return False
            self._map(&event)
            if adds:
                self._add(&event)
            pass_event(&cursor)
        return True

    cdef int _map(self, WalkEvent* event) except -1:
        """Update the table maps for an event."""
        if self.statement_ended:
            self.mapped.clear()
            self.statement_ended = False
        if event.frame.code == TABLE_MAP_EVENT:
            self.mapped[event.table_id] = self.table
            self.table.pos = event.pos
        elif event.is_rows:
            self.statement_ended = event.flags & 1
        return 0

    cdef bint _parse(self, WalkEvent* event, Group* group) except -1:
        """Parse an event; returns False if construct must parse it."""
        cdef uint8_t code = event.frame.code
        cdef bint is_known
        event.schema = event.table = event.sql = NULL
        event.has_xid = event.is_rows = False
        event.flags, event.sql_size = 0, 0
        self.table = None
        if code == TABLE_MAP_EVENT:
            is_known = self._table_map(event)
        elif is_plain_rows(code) or is_compressed_rows(code):
            is_known = self._rows(event)
        elif code == QUERY_EVENT or code == QUERY_COMPRESSED_EVENT:
            is_known = self._query(event)
        elif code == XID_EVENT:
            is_known = event.frame.end - event.frame.body == 8
            if is_known:
                event.has_xid = True
                event.xid = u64(event.frame.body)
        elif is_group_start(code):
            is_known = event.inner < 0 and read_group(group, code, event.frame.head, event.frame.body, event.frame.end) and gtid_fields(
                &event.gtid, code, event.frame.body, event.frame.end)
        elif code == ROWS_QUERY_LOG_EVENT or code == ANNOTATE_ROWS_EVENT:
            is_known = self._statement_text(event)
        elif code == INTVAR_EVENT:
            is_known = event.frame.end - event.frame.body == 9
        elif code == RAND_EVENT:
            is_known = event.frame.end - event.frame.body == 16
        elif code == TRANSACTION_PAYLOAD_EVENT:
            is_known = event.inner < 0 and payload_fields(event.frame.body, event.frame.end, &event.payload)
        else:
            return False
        return is_known and self._accepts(event)

    cdef bint _accepts(self, WalkEvent* event) except -1:
        """Return False for an event that construct must add."""
        return True

    cdef int _add(self, WalkEvent* event) except -1:
        """Add an event to the records."""
        raise NotImplementedError

    cdef int _follow(self, WalkEvent* event, Group* group) except -1:
        """Update the event group for an event that is not inside a payload."""
        cdef uint8_t code = event.frame.code
        if self.state.place == G_OUTSIDE and (self.gtid_size or self.has_clock):
            self.gtid_size, self.has_clock, self.wants_group = 0, False, -1
            self._forget_group_start()
        follow_group(&self.state, code, event.gtid.flags if code == MARIADB_GTID_EVENT else event.flags, event.sql,
                     event.sql_size)
        if self.state.begins:
            self.group_begin = event.pos
        if is_group_start(code):
            self.gtid_size = put_gtid(self.gtid_text, group)
            self.group_start, self.has_group_start = group[0], True
            self.has_clock = event.gtid.has_clock
            self.last_committed, self.sequence_number = group.last_committed, group.sequence_number
            self.wants_group = -1
        return 0

    cdef int _forget_group_start(self) except -1:
        memset(&self.group_start, 0, sizeof(Group))
        self.group_start.kind = NO_GTID
        self.has_group_start = True
        return 0

    cdef bint _wants_gtid(self, const Group* start, bint has_start, const uint8_t* text, int size) except -1:
        """Return whether the GTID filter selects a group; `text` is the text of its GTID."""
        if self.gtids is None:
            return True
        if has_start:
            return self.gtids.wants(start)
        return self.gtids.ask((<const char*>text)[:size].decode("latin-1"))[0]

    # ------------------------------------------------------------------------------------------------- types of events

    cdef bint _table_map(self, WalkEvent* event) except -1:
        cdef const uint8_t* rest = event.frame.body + TABLE_ID_SIZE
        cdef int64_t size = event.frame.end - rest
        cdef MappedTable table
        if size < 6:
            return False
        event.table_id = little(event.frame.body, TABLE_ID_SIZE)
        found = self.table_slots[<int>(event.table_id & (WALK_SLOTS - 1))]
        if found is not None:
            table = <MappedTable>found
            if table.table_id == event.table_id and len(table.key) == size and (
                    memcmp(<const char*>table.key, rest, size) == 0):
                self.table = table
        if self.table is None:
            self.table = table = self._new_table(size, event.frame.body)
            if table is None:
                return False
            table.table_id = event.table_id
            self.table_slots[<int>(event.table_id & (WALK_SLOTS - 1))] = table
        event.schema, event.schema_size = <const uint8_t*><const char*>table.schema, len(table.schema)
        event.table, event.table_size = <const uint8_t*><const char*>table.table, len(table.table)
        return True

    cdef MappedTable _new_table(self, int64_t size, const uint8_t* body):
        cdef bytes key = <bytes>(<const char*>body)[:size + TABLE_ID_SIZE]
        found = self.known_tables.get(key)
        if found is None:
            found = self.parse_table(key)
            if found is not None:
                if self.known_bytes > MOST_TABLE_BYTES:
                    self.known_tables.clear()
                    self.table_slots = [None] * WALK_SLOTS
                    self.known_bytes = 0
                self.known_tables[key] = found
                self.known_bytes += len(key)
        return found

    cdef bint _rows(self, WalkEvent* event) except -1:
        cdef uint8_t code = event.frame.code
        cdef RowsHead head
        if not (rows_head(&head, event.frame.body, event.frame.end, rows_post_header(code))
                and read_frame(&event.rows, code, head.rest, event.frame.end, &event.column_count)):
            return False
        event.is_rows = True
        event.table_id, event.flags, event.extra, event.extra_size = (
            head.table_id, head.flags, head.extra, head.extra_size)
        if is_compressed_rows(code):
            self.plain = Memory()
            if not inflate_images(self.plain, &event.rows, self.opened_size):
                return False
        if not self.statement_ended:
            found = self.mapped.get(event.table_id)
            if found is not None:
                self.table = <MappedTable>found
                event.schema, event.schema_size = <const uint8_t*><const char*>self.table.schema, len(self.table.schema)
                event.table, event.table_size = <const uint8_t*><const char*>self.table.table, len(self.table.table)
        return True

    cdef bint _query(self, WalkEvent* event) except -1:
        cdef const uint8_t* at = event.frame.body + QUERY_POST_HEADER
        cdef int64_t size = size_before_sql(event.frame.body, event.frame.end)
        cdef int64_t status_size
        cdef RowsEvent compressed
        if not size:
            return False
        event.schema_size = event.frame.body[8]
        status_size = u16(event.frame.body + 11)
        if not self._status_variables(event, at, status_size):
            return False
        at += status_size
        event.schema = at
        if not is_utf8(at, event.schema_size):
            return False
        event.sql, event.sql_size = event.frame.body + size, event.frame.end - event.frame.body - size
        if event.frame.code == QUERY_COMPRESSED_EVENT:
            compressed.images, compressed.size = event.sql, event.sql_size
            self.plain = Memory()
            if not inflate_images(self.plain, &compressed, self.opened_size):
                return False
            event.sql, event.sql_size = compressed.images, compressed.size
        if self.status.form == 2 or not is_ascii(event.sql, event.sql_size) and (
                self.status.form != 1 or not is_utf8(event.sql, event.sql_size)):
            return False
        event.has_xid, event.xid = self.status.has_xid, self.status.xid
        return True

    cdef bint _status_variables(self, WalkEvent* event, const uint8_t* at, int64_t size) except -1:
        cdef int slot = <int>(crc32(0, at, size) & (WALK_SLOTS - 1))
        found = self.status_slots[slot]
        if found is not None:
            self.status = <KnownStatus>found
            if len(self.status.key) == size and memcmp(<const char*>self.status.key, at, size) == 0:
                return True
        found = self.parse_status(event.frame.code, <bytes>(<const char*>event.frame.body)[:event.frame.end - event.frame.body])
        if found is None:
            return False
        self.status = <KnownStatus?>found
        if size <= MOST_STATUS_BYTES:
            self.status_slots[slot] = found
        return True

    cdef bint _statement_text(self, WalkEvent* event) except -1:
        event.sql = event.frame.body
        if event.frame.code == ROWS_QUERY_LOG_EVENT:
            if event.frame.end == event.frame.body:
                return False
            event.sql += 1
        event.sql_size = event.frame.end - event.sql
        return is_utf8(event.sql, event.sql_size)


cdef class ParsedEvents(EventWalk):
    """Parses the events of a log without a result, to find those that cannot be parsed."""

    cdef int _add(self, WalkEvent* event) except -1:
        return 0

