"""Surveys a log: verifies event positions, checksums and the grammar of event groups, and counts.

Collects ranges of consecutive GTIDs and, on request, a record of each event group and counts by table and by event
type. Values are not decoded. Rare event types are left to the caller, which parses them with construct. Damage ends the
scan; the caller chooses where it continues. `binlogio.reader`, `binlogio.format.groups` and
`binlogio.columnar.transaction_records` are the reference implementations (oracles).
"""

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t, uint8_t
from libc.stdlib cimport free, realloc
from libc.string cimport memcmp, memset

from binlogio._kernel.base.cursor cimport u32
from binlogio._kernel.base.event_codes cimport *
from binlogio._kernel.primitives cimport Memory, ZstdContext
from binlogio._kernel.scan.event_types cimport (
    is_any_rows, is_compressed_rows, is_group_start, is_xa_prepare, may_define, size_before_sql,
)
from binlogio._kernel.scan.cursor cimport (
    F_BAD_SIZE, F_NEED_DATA, F_WHOLE, Cursor, Frame, RowsHead, actual_checksum, frame_at, look, pass_event, rows_head,
    rows_post_header, set_cursor, shift_of, stored_checksum, whole_events,
)
from binlogio._kernel.scan.groups cimport (
    G_OUTSIDE, GroupState, begins_transaction, ends_transaction, follow_body, frames_changes,
)
from binlogio._kernel.scan.payloads cimport PayloadFields, open_small, payload_fields

SURVEY_NEED_DATA = 0  # the event at the position is incomplete
SURVEY_DESCRIPTION = 1  # a format description, or the start of encryption
SURVEY_LOOK = 2  # an event that the caller parses; the next call, with `looked`, processes it
SURVEY_BAD_SIZE = 3  # an invalid size, or one that contradicts log_pos
SURVEY_BAD_CHECKSUM = 4
SURVEY_FULL = 5  # the caller should take the collected problems or groups

SURVEY_PROBLEMS = (
    None, "log_pos", "group in group", "file event in group", "no table map", "end without begin", "no statement end",
    "gtid", "table map", "body", "rows",
)
GROUP_FIELDS = (
    "begin", "end", "first_time", "last_time", "source", "number", "last_committed", "sequence_number", "commit_us",
    "original_us", "thread_id", "events", "inserts", "updates", "deletes", "row_bytes", "flags",
)
RUN_FIELDS = ("source", "first", "last", "begin")

cdef enum SurveyStatus:
    V_NEED_DATA = 0
    V_DESCRIPTION = 1
    V_LOOK = 2
    V_BAD_SIZE = 3
    V_BAD_CHECKSUM = 4
    V_FULL = 5
    V_GO_ON = 100

cdef enum SurveyProblem:
    P_LOG_POS = 1
    P_GROUP_IN_GROUP = 2
    P_FILE_EVENT = 3
    P_NO_TABLE_MAP = 4
    P_NO_BEGIN = 5
    P_NO_STATEMENT_END = 6
    P_GTID = 7
    P_TABLE_MAP = 8
    P_BODY = 9
    P_ROWS = 10

cdef enum:
    IS_ENDED = 1  # flags of a group
    IS_COMPRESSED = 2
    DUMMY_TABLE_ID = 0xFFFFFF  # table id of a rows event without rows, which only ends a statement
    MOST_PROBLEMS = 1 << 12  # problems that are kept until the caller takes them
    MOST_GROUP_BYTES = 1 << 22
    KNOWN_SOURCES = 64
    MEASURED_EVERY = 16  # one of so many rows events is measured

cdef struct GroupCounts:  # all of int64, in the order of GROUP_FIELDS
    int64_t begin, end, first_time, last_time, source, number, last_committed, sequence_number
    int64_t commit_us, original_us, thread_id, events
    int64_t[3] rows
    int64_t row_bytes, flags

cdef struct ProblemRecord:
    int64_t code, offset, value

cdef struct TableTotals:
    int64_t[3] rows
    int64_t[3] row_bytes
    int64_t events, groups

cdef struct TableCounts:
    TableTotals total, pending  # pending: counts of the current group
    bint is_pending  # the table is in `pending_tables`
    int64_t last_group
    int64_t answer  # answer of ask_table: 0 not called, 1 selected, 2 not selected

cdef struct TypeCounts:
    int64_t events, bytes, inner_events, inner_bytes

cdef struct GtidNumbers:  # in the order of RUN_FIELDS
    int64_t source
    uint64_t first, last
    int64_t begin  # file offset of the first group

cdef struct KnownSource:
    Group source
    bint is_known, is_open
    GtidNumbers run  # the last range, while it is open


@cython.final
cdef class LogSurvey:
    """State of a survey over the logs of an archive, without their bytes.

    Args:
        resolve_plan: function from the body of a TABLE_MAP_EVENT (bytes) to an ImagePlan; None if construct rejects it.
        looks_at: event types that the caller parses.
        counts: collect group records and counts, and check that the images of rows events fit the table.
        opened_size: most bytes of a decompressed event.
        key_of: function from the table of an ImagePlan to the bitmap of its key columns, or of all columns if it has no
            key; None to skip the measurement of MINIMAL images.
        follow: called with type and body of a statement that may define a table; returns whether plans may be wrong
            now. None if only table maps define tables.
        keeps_bounds: collect the offsets of groups for `take_bounds`; payloads are not opened.

    `shift` is the difference between log_pos and the real end of the last event.
    """

    cdef TablePlans maps
    cdef GroupState state
    cdef bint checksum, counts, is_part, has_positions, knows_group, rows_open, has_group, keeps_bounds
    cdef readonly uint32_t shift
    cdef int64_t opened_size, group_serial, table_capacity
    cdef TypeCounts[256] types, pending  # pending: counts of the current group, added when the group ends
    cdef uint8_t[256] pending_codes  # the types in `pending`
    cdef int pending_code_count
    cdef uint8_t[256] looks_at
    cdef GroupCounts group
    cdef TableCounts* tables
    cdef Memory groups, runs, problems, plain, opened, spans, pending_tables, begins, ends
    cdef ZstdContext zstd
    cdef int64_t ended_groups
    cdef object key_of, follow
    cdef int64_t measurable_events, measured_rows, measured_bytes, minimal_bytes
    cdef dict source_numbers
    cdef readonly list sources
    cdef KnownSource[KNOWN_SOURCES] known
    cdef KnownSource* last_known
    cdef readonly uint32_t stored, actual
    cdef bint is_filtered, looks_inside, takes_statements, wants_group, has_change
    cdef public int64_t text_at  # -1: there is none
    cdef int operations
    cdef GroupFilter chosen
    cdef object ask_rows, ask_text
    cdef readonly bint is_over  # the end of the selection was reached
    cdef public int64_t first_offset, stop_offset  # groups that begin in this range of a log are selected

    def __cinit__(self, resolve_plan, looks_at, *, bint counts, int64_t opened_size=1 << 28, key_of=None,
                  follow=None, bint keeps_bounds=False):
        cdef int code
        self.maps = TablePlans(resolve_plan)
        self.counts, self.opened_size, self.keeps_bounds = counts, opened_size, keeps_bounds
        for code in range(256):
            self.looks_at[code] = V_LOOK if code in looks_at else V_GO_ON
        for code in (FORMAT_DESCRIPTION_EVENT, START_ENCRYPTION_EVENT, START_EVENT_V3):
            self.looks_at[code] = V_DESCRIPTION
        memset(self.types, 0, sizeof(self.types))
        memset(self.pending, 0, sizeof(self.pending))
        self.first_offset, self.stop_offset = 0, 1 << 62
        self.groups, self.runs, self.problems = Memory(), Memory(), Memory()
        self.plain, self.spans, self.pending_tables = Memory(), Memory(), Memory()
        self.begins, self.ends, self.opened = Memory(), Memory(), Memory()
        self.zstd = ZstdContext()
        self.last_known = NULL
        self.key_of, self.follow = key_of, follow
        self.source_numbers, self.sources = {}, []
        self.begin_log(checksum=False, has_positions=True, forgets_tables=False)

    def __dealloc__(self):
        free(self.tables)

    def choose(self, GroupFilter chosen not None, *, operations=None, ask_rows=None, ask_text=None) -> None:
        """Count only selected event groups and changes, and keep only the records of these groups.

        A group without a selected change is not selected. Must be called before the first log.

        Args:
            chosen: selects groups, tables and statements.
            operations: "insert", "update", "delete"; None for all.
            ask_rows: function from the table of an ImagePlan, and type, body and offset of a rows event, to the number
                of its selected rows and their bytes, or None for all rows. None if rows are not filtered.
            ask_text: if only rows count, function from schema, text and thread of a statement to whether it changes
                selected rows; `text_at` is the offset of the first one.
        """
        self.chosen, self.ask_rows, self.ask_text = chosen, ask_rows, ask_text
        self.operations = sum(
            1 << number for number, name in enumerate(("insert", "update", "delete"))
            if operations is None or name in operations)
        self.takes_statements = ask_text is None
        self.looks_inside = chosen.ask_table is not None or not self.takes_statements
        self.is_filtered = True
        self.text_at = -1

    def take_change(self) -> None:
        """Mark the current group as having a selected change: a statement that the caller parsed."""
        if self.has_group:
            self.has_change = True

    def begin_log(self, *, bint checksum, bint has_positions, bint forgets_tables) -> None:
        """Begin a log, or a new format in it.

        Args:
            checksum: whether events have checksums.
            has_positions: whether log_pos is the end position of an event.
            forgets_tables: resolve all plans again.
        """
        if forgets_tables:
            self.maps.forget()
        self.checksum, self.has_positions = checksum, has_positions
        self.shift = 0
        self.state.place = G_OUTSIDE
        self.has_group = self.rows_open = False
        self.knows_group = True
        self.maps.end_statement()

    def resume(self) -> None:
        """Continue after damage: the current group is unknown until the next group begins."""
        if self.has_group:
            self._finish_group(False)
        self.state.place = G_OUTSIDE
        self.knows_group = self.rows_open = False
        self.maps.end_statement()
        self.maps.forget()

    def forget_tables(self) -> None:
        """Resolve every table map again, because table definitions have changed."""
        self.maps.forget()

    def define(self, uint8_t code, bytes body) -> None:
        """Process the statement of an event that the caller parsed."""
        if self.follow is not None:
            self._define(code, <const uint8_t*><const char*>body, len(body))

    @property
    def in_group(self) -> bool:
        """True if an event group has begun and not ended."""
        return self.has_group and self.state.place != G_OUTSIDE

    @property
    def group_begin(self) -> int:
        """Return the file offset of the first event of the current group."""
        return self.group.begin

    def end_log(self) -> None:
        """End the log. An incomplete group at its end is not counted, except in a relay log, where the next log ends it."""
        if self.has_group:
            self._finish_group(False, not (self.in_group and self.has_positions))
        self.state.place = G_OUTSIDE

    def take_runs(self) -> tuple[int, Memory]:
        """Return the number of groups that ended, and their ranges of GTIDs: RUN_FIELDS as 64-bit integers.

        The ranges of a source are in the order of the log, and so are those of a MariaDB domain.
        """
        cdef int i
        for i in range(KNOWN_SOURCES):
            self._end_run(self.known + i)
        ended, self.ended_groups = self.ended_groups, 0
        runs, self.runs = self.runs, Memory()
        return ended, runs

    def take_bounds(self) -> tuple[Memory, Memory]:
        """Return the offsets of the groups that began, and the ends of the groups that ended: 64-bit integers.

        Groups of which the first event is uncertain, because it follows damage, are left out of both.
        """
        begins, self.begins = self.begins, Memory()
        ends, self.ends = self.ends, Memory()
        return begins, ends

    def take_groups(self) -> Memory:
        """Return the records of the groups that ended: GROUP_FIELDS as 64-bit integers."""
        groups, self.groups = self.groups, Memory()
        return groups

    def take_problems(self) -> list[tuple[str, int, int]]:
        """Return the problems: name, file offset of the event, and a value."""
        cdef ProblemRecord* problem = <ProblemRecord*>self.problems.data
        cdef int64_t number
        found = [(SURVEY_PROBLEMS[problem[number].code], problem[number].offset, problem[number].value)
                 for number in range(self.problems.size // <int64_t>sizeof(ProblemRecord))]
        self.problems.size = 0
        return found

    def type_counts(self) -> list[tuple[int, int, int, int, int]]:
        """Return by type code: number and bytes of events, and the same inside payloads."""
        return [(code, self.types[code].events, self.types[code].bytes, self.types[code].inner_events,
                 self.types[code].inner_bytes)
                for code in range(256) if self.types[code].events or self.types[code].inner_events]

    def table_counts(self) -> list[tuple[object, list[int], list[int], int, int]]:
        """Return by table: its name, rows and bytes of inserts, updates and deletes, rows events, and groups."""
        cdef int64_t number
        found = []
        for name, number in self.maps.by_table.items():
            if name is not None and number < self.table_capacity and self.tables[number].total.events:
                found.append((name, [self.tables[number].total.rows[i] for i in range(3)],
                              [self.tables[number].total.row_bytes[i] for i in range(3)],
                              self.tables[number].total.events, self.tables[number].total.groups))
        return found

    def walk(self, const uint8_t[::1] data, int64_t at, int64_t base, bint looked=False) -> tuple[int, int]:
        """Process the events of `data`, whose first byte is at file offset `base`, from index `at`.

        Returns the status and the index where it stopped. With `looked`, the first event is processed whatever its type
        is.
        """
        cdef int status = V_GO_ON
        cdef Cursor cursor
        if data.shape[0] <= at:
            return V_NEED_DATA, at
        set_cursor(&cursor, &data[0], data.shape[0], at, base + at, -1, self.checksum, self.shift)
        cursor.has_positions = self.has_positions
        with nogil:
            while status == V_GO_ON:
                status = self._take(&cursor, looked)
                looked = False
        return status, cursor.at

    def begin_payload(self) -> None:
        """Begin the events of a payload, in which earlier table maps are not valid."""
        self.maps.end_statement()

    def end_payload(self) -> None:
        """End the events of a payload."""
        self.maps.end_statement()
        self.rows_open = False

    def walk_payload(self, const uint8_t[::1] data, int64_t offset) -> int:
        """Process plain events of the payload event at `offset`; returns the bytes of the complete events."""
        cdef int64_t at = 0
        if data.shape[0]:
            with nogil:
                at = self._walk_inner(&data[0], data.shape[0], offset)
        return at

    def take_part(self, const uint8_t[::1] data, int64_t offset) -> None:
        """Process an event of which `data` has only the first bytes: its rows are not counted."""
        cdef Frame frame
        if data.shape[0] < HEADER_SIZE or frame_at(&frame, &data[0], data.shape[0], False) == F_BAD_SIZE:
            raise ValueError(f"{data.shape[0]} bytes of an event")
        frame.end = frame.head + data.shape[0]
        self.is_part = True
        with nogil:
            self._check_position(&frame, offset)
            self._group_event(&frame, offset)
        self.is_part = False

    @property
    def minimal_image(self) -> tuple[int, int, int]:
        """Measured rows of updates and deletes, their bytes, and the bytes that MINIMAL images would have."""
        return self.measured_rows, self.measured_bytes, self.minimal_bytes

    cdef int _take(self, Cursor* cursor, bint looked) except -1 nogil:
        cdef Frame* frame = &cursor.frame
        cdef int looks
        cdef int status = look(cursor)
        if status != F_WHOLE:
            return V_BAD_SIZE if status == F_BAD_SIZE else V_NEED_DATA
        looks = V_GO_ON if looked else self.looks_at[frame.code]
        if looks == V_DESCRIPTION:
            return V_DESCRIPTION
        if cursor.checksum and not looked:
            self.stored, self.actual = stored_checksum(frame), actual_checksum(frame)
            if self.stored != self.actual:
                return V_BAD_CHECKSUM
        if looks == V_LOOK and not self._opens(frame.code, frame.body, frame.end, cursor.offset):
            return V_LOOK
        self._check_position(frame, cursor.offset)
        self._group_event(frame, cursor.offset)
        pass_event(cursor)
        if self.problems.size >= <int64_t>sizeof(ProblemRecord) * MOST_PROBLEMS or (
                self.groups.size >= MOST_GROUP_BYTES) or self.runs.size >= MOST_GROUP_BYTES:
            return V_FULL
        return V_GO_ON

    cdef bint _opens(self, uint8_t code, const uint8_t* body, const uint8_t* end, int64_t offset) except -1 nogil:
        """Process the content of an event of a rare type; False if the caller must parse it."""
        if code == XA_PREPARE_LOG_EVENT:
            return is_xa_prepare(body, end)
        return code == TRANSACTION_PAYLOAD_EVENT and self._payload(body, end, offset)

    cdef bint _payload(self, const uint8_t* body, const uint8_t* end, int64_t offset) except -1 nogil:
        """Process the events of a payload, unless the caller reads them; False if the caller must decompress them."""
        cdef PayloadFields fields
        cdef int64_t size
        if not payload_fields(body, end, &fields):
            return False
        if self.keeps_bounds:
            return True
        size = open_small(&fields, end, self.zstd, self.opened, self.opened_size)
        if not size or whole_events(self.opened.data, size) != size:
            return False
        self.maps.end_statement()
        self._walk_inner(self.opened.data, size, offset)
        self.maps.end_statement()
        self.rows_open = False
        return True

    cdef int64_t _walk_inner(self, const uint8_t* data, int64_t size, int64_t offset) except -1 nogil:
        """Process the complete events at the start of plain bytes of a payload; returns their size."""
        cdef Cursor cursor
        cdef TypeCounts* counts
        set_cursor(&cursor, data, size, 0, offset, 0, False, 0)
        while look(&cursor) == F_WHOLE:
            counts = self._type_counts(cursor.frame.code)
            if counts != NULL:
                counts.inner_events += 1
                counts.inner_bytes += cursor.frame.size
            if self.has_group:
                self.group.events += 1
                self._begin_time(u32(cursor.frame.head))
            self._body(cursor.frame.code, cursor.frame.body, cursor.frame.end, offset, True)
            pass_event(&cursor)
        return cursor.at

    cdef int _check_position(self, const Frame* frame, int64_t offset) except -1 nogil:
        cdef uint32_t shift = shift_of(frame, offset, self.shift)
        if self.has_positions and shift != self.shift:
            if shift:
                self._problem(P_LOG_POS, offset, <uint32_t>offset + frame.size + shift)
            self.shift = shift
        return 0

    cdef int _group_event(self, const Frame* frame, int64_t offset) except -1 nogil:
        """Update the event group for an event that is not inside a payload."""
        cdef uint8_t code = frame.code
        cdef const uint8_t* p = frame.head
        cdef const uint8_t* body = frame.body
        cdef const uint8_t* end = frame.end
        cdef int64_t after = offset + frame.size
        cdef int before = self.state.place
        cdef TypeCounts* counts
        follow_body(&self.state, code, body, end)
        if is_group_start(code):
            if before != G_OUTSIDE and self.knows_group:
                self._problem(P_GROUP_IN_GROUP, offset, self.group.begin)
            self._begin_group(offset, code, p, body, end)
            self._gtid(code, p, body, end, offset)
            self.knows_group = True
        elif self.state.begins:
            if self.knows_group or code == QUERY_EVENT and _begins(body, end):
                self._begin_group(offset, code, p, body, end)
            if self.state.ends and self.knows_group and code != TRANSACTION_PAYLOAD_EVENT and (
                    _ends_transaction(code, body, end)):
                self._problem(P_NO_BEGIN, offset, 0)
        elif self.state.is_outside and before != G_OUTSIDE:
            if self.knows_group:
                self._problem(P_FILE_EVENT, offset, self.group.begin)
            if self.has_group:
                self._finish_group(False)
        if self.counts:
            if self.has_group:
                self.group.events += 1
                self.group.last_time = u32(p)
                self._begin_time(u32(p))
                self.group.end = after
            counts = self._type_counts(code)
            if counts != NULL:
                counts.events += 1
                counts.bytes += after - offset
        if code == TRANSACTION_PAYLOAD_EVENT:
            self.group.flags |= IS_COMPRESSED
        self._body(code, body, end, offset, False)
        if self.state.ends:
            if self.has_group:
                if self.rows_open and self.knows_group:
                    self._problem(P_NO_STATEMENT_END, offset, self.group.begin)
                if self.keeps_bounds and self.knows_group:
                    (<int64_t*>self.ends.grow(sizeof(int64_t)))[0] = after
                self._finish_group(self.knows_group)
            self.rows_open = False
            self.maps.end_statement()
        if not self.knows_group:
            self.knows_group = (self.state.ends and _ends_transaction(code, body, end)
                                or code == QUERY_EVENT and _begins(body, end))
        return 0

    cdef int _begin_group(self, int64_t offset, uint8_t code, const uint8_t* p, const uint8_t* body,
                          const uint8_t* end) except -1 nogil:
        if self.has_group:
            self._finish_group(False)
        if self.is_filtered:
            self.is_over = self.is_over or offset >= self.stop_offset
            self.wants_group = (
                not self.is_over and offset >= self.first_offset and self._wants_group(code, p, body, end))
            self.has_change = not self.looks_inside
        self.has_group = True
        self.rows_open = False
        if self.keeps_bounds:
            (<int64_t*>self.begins.grow(sizeof(int64_t)))[0] = offset
        if not self.counts:
            self.group.begin, self.group.thread_id = offset, 0
            return 0
        memset(&self.group, 0, sizeof(GroupCounts))
        self.group.begin, self.group.first_time, self.group.source = offset, u32(p), -1
        self.group.last_committed = self.group.sequence_number = self.group.commit_us = -1
        self.group.original_us = self.group.thread_id = -1
        self.group_serial += 1
        return 0

    cdef void _begin_time(self, uint32_t timestamp) noexcept nogil:
        """Update the first time of the group: a GTID event may have a later time than the statements of its group."""
        if timestamp and (timestamp < self.group.first_time or self.group.first_time == 0):
            self.group.first_time = timestamp

    cdef int _finish_group(self, bint is_ended, bint is_kept=True) except -1 nogil:
        """End the current group, and count it if `is_kept` is set and it is selected."""
        self.has_group = False
        self.ended_groups += is_ended
        if not self.counts:
            return 0
        is_kept = is_kept and not (self.is_filtered and not (self.wants_group and self.has_change))
        self._take_pending(is_kept)
        if is_kept:
            if is_ended:
                self.group.flags |= IS_ENDED
            (<GroupCounts*>self.groups.grow(sizeof(GroupCounts)))[0] = self.group
        return 0

    cdef int _take_pending(self, bint is_kept) except -1 nogil:
        """Add the counts of the current group to the totals, or discard them."""
        cdef int64_t* numbers = <int64_t*>self.pending_tables.data
        cdef TableCounts* table
        cdef TypeCounts* counts
        cdef int64_t number
        cdef int i
        for i in range(self.pending_code_count):
            counts = self.types + self.pending_codes[i]
            if is_kept:
                counts.events += self.pending[self.pending_codes[i]].events
                counts.bytes += self.pending[self.pending_codes[i]].bytes
                counts.inner_events += self.pending[self.pending_codes[i]].inner_events
                counts.inner_bytes += self.pending[self.pending_codes[i]].inner_bytes
            memset(self.pending + self.pending_codes[i], 0, sizeof(TypeCounts))
        self.pending_code_count = 0
        for number in range(self.pending_tables.size // <int64_t>sizeof(int64_t)):
            table = self.tables + numbers[number]
            if is_kept:
                for i in range(3):
                    table.total.rows[i] += table.pending.rows[i]
                    table.total.row_bytes[i] += table.pending.row_bytes[i]
                table.total.events += table.pending.events
                table.total.groups += table.pending.groups
            memset(&table.pending, 0, sizeof(TableTotals))
            table.is_pending = False
        self.pending_tables.size = 0
        return 0

    cdef TypeCounts* _type_counts(self, uint8_t code) noexcept nogil:
        """Return the counters of an event's type; NULL if the event is not counted."""
        if not self.has_group:
            return NULL if self.is_filtered else self.types + code
        if self.is_filtered and not self.wants_group:
            return NULL
        if not self.pending[code].events and not self.pending[code].inner_events:
            self.pending_codes[self.pending_code_count] = code
            self.pending_code_count += 1
        return self.pending + code

    cdef bint _wants_group(self, uint8_t code, const uint8_t* p, const uint8_t* body,
                           const uint8_t* end) except -1 with gil:
        cdef int answer = self.chosen.answer(code, p, body, end)
        self.is_over = answer == GROUP_AFTER_END
        return answer == GROUP_WANTED or answer == GROUP_NOT_KNOWN

    cdef bint _wants_rows(self, int32_t number, uint8_t code) except -1 nogil:
        """Return whether a rows event with this plan may have selected changes."""
        cdef TableCounts* counts
        cdef int operation = operation_of(code)
        if not self.has_group or not self.wants_group:
            return False
        if not self.operations >> (UPDATE if operation == PARTIAL_UPDATE else operation) & 1:
            return False
        counts = self._counts(self.maps.cores[number].table_number)
        if counts.answer == 0:
            counts.answer = 1 if self._ask_table(number) else 2
        return counts.answer == 1

    cdef bint _ask_table(self, int32_t number) except -1 with gil:
        table = (<ImagePlan>self.maps.plans[number]).table
        return self.chosen.ask_table is None or table is None or self.chosen.ask_table(table.schema, table.table)

    cdef bint _has_rows(self, int32_t number, uint8_t code, const uint8_t* body, const uint8_t* end, int64_t offset,
                        int64_t* rows, int64_t* size) except -1 with gil:
        """Set the number and bytes of the selected rows of an event; returns False if no row is selected."""
        found = self.ask_rows((<ImagePlan>self.maps.plans[number]).table, code, <bytes>body[:end - body], offset)
        if found is not None:
            rows[0], size[0] = found
        return rows[0] > 0

    cdef bint _is_text(self, const uint8_t* body, const uint8_t* end, int64_t size) except -1 with gil:
        return self.ask_text(_name(body[size - 1 - body[8]:size - 1]), <bytes>body[size:end - body], u32(body))

    cdef bint _wants_statement(self, uint8_t code, const uint8_t* body, const uint8_t* end) except -1 with gil:
        return not self.chosen.is_unwanted(code, body, end)

    cdef int _gtid(self, uint8_t code, const uint8_t* p, const uint8_t* body, const uint8_t* end,
                   int64_t offset) except -1 nogil:
        cdef Group group
        cdef GtidFields fields
        cdef KnownSource* known
        if not read_group(&group, code, p, body, end):
            return self._problem(P_GTID, offset, 0)
        gtid_fields(&fields, code, body, end)  # False: a later server has added fields after those that are known
        known = self._follow_gtid(&group, offset) if group.kind != NO_GTID else NULL
        if not self.counts:
            return 0
        self.group.number = <int64_t>group.number
        self.group.last_committed, self.group.sequence_number = group.last_committed, group.sequence_number
        if fields.has_immediate:
            self.group.commit_us = self.group.original_us = <int64_t>fields.immediate
            if fields.has_original and fields.original:
                self.group.original_us = <int64_t>fields.original
        if fields.has_thread:
            self.group.thread_id = fields.thread_id
        if known != NULL:
            self.group.source = known.run.source
        return 0

    cdef KnownSource* _follow_gtid(self, const Group* group, int64_t offset) except NULL nogil:
        """Add a GTID to the range of its source (a UUID with a tag, or a domain and a server); returns the source."""
        cdef KnownSource* known = self.known + (group.uuid[0] ^ group.uuid[15] ^ group.tag_size ^ group.domain_id
                                                ^ group.server_id) % KNOWN_SOURCES
        if not known.is_known or not is_same_source(&known.source, group):
            self._end_run(known)
            known.run.source = self._new_source(group)
            known.source, known.is_known = group[0], True
        if known != self.last_known:
            if group.kind == MARIADB_GTID and self.last_known != NULL:
                self._end_run(self.last_known)
            self.last_known = known
        if known.is_open and group.number == known.run.last + 1:
            known.run.last += 1
            return known
        self._end_run(known)
        known.is_open = True
        known.run.first = known.run.last = group.number
        known.run.begin = offset
        return known

    cdef int _end_run(self, KnownSource* known) except -1 nogil:
        if known.is_open:
            (<GtidNumbers*>self.runs.grow(sizeof(GtidNumbers)))[0] = known.run
            known.is_open = False
        return 0

    cdef int64_t _new_source(self, const Group* group) except -1 with gil:
        if group.kind == MYSQL_GTID:
            key = (<bytes>(<const char*>group.uuid)[:16], (<bytes>(<const char*>group.tag)[:group.tag_size]).decode())
        else:
            key = (group.domain_id, group.server_id)
        number = self.source_numbers.setdefault(key, len(self.sources))
        if number == len(self.sources):
            self.sources.append(key)
        return number

    cdef int _problem(self, int code, int64_t offset, int64_t value) except -1 nogil:
        cdef ProblemRecord* problem = <ProblemRecord*>self.problems.grow(sizeof(ProblemRecord))
        problem.code, problem.offset, problem.value = code, offset, value
        return 0

    cdef int _body(self, uint8_t code, const uint8_t* body, const uint8_t* end, int64_t offset,
                   bint inner) except -1 nogil:
        """Validate the body of an event, and count its rows."""
        cdef int64_t size
        if is_any_rows(code):
            return self._rows(code, body, end, offset)
        if code == TABLE_MAP_EVENT:
            if not self.maps.take(body, end):
                self._problem(P_TABLE_MAP, offset, 0)
        elif code == QUERY_EVENT:
            size = size_before_sql(body, end)
            if not size:
                self._problem(P_BODY, offset, code)
            else:
                if self.has_group and self.group.thread_id < 0:
                    self.group.thread_id = u32(body)
                self._statement(code, body, end, size, offset)
            if size and self.follow is not None and may_define(body, end):
                self._define(code, body, end - body)
        elif code == XID_EVENT:
            if end - body != 8:
                self._problem(P_BODY, offset, code)
        return 0

    cdef int _statement(self, uint8_t code, const uint8_t* body, const uint8_t* end, int64_t size,
                        int64_t offset) except -1 nogil:
        """Record whether a statement is a selected change."""
        if (not (self.looks_inside and self.has_group and self.wants_group)
                or frames_changes(body + size, end - body - size)):
            return 0
        if self.takes_statements:
            self.has_change = self.has_change or self._wants_statement(code, body, end)
        elif self.text_at < 0 and self._is_text(body, end, size):
            self.text_at = offset
        return 0

    cdef int _define(self, uint8_t code, const uint8_t* body, int64_t size) except -1 with gil:
        """Call `follow` for a statement that may change a table; if it returns True, resolve the table maps again."""
        if self.follow(code, <bytes>(<const char*>body)[:size]):
            self.maps.renew()
        return 0

    cdef int _rows(self, uint8_t code, const uint8_t* body, const uint8_t* end, int64_t offset) except -1 nogil:
        cdef RowsHead head
        cdef uint64_t columns = 0
        cdef int64_t rows = 0
        cdef int64_t taken = 0
        cdef int64_t size
        cdef int32_t number
        cdef bint ends
        cdef Plan* plan
        cdef RowsEvent event
        if not rows_head(&head, body, end, rows_post_header(code)):
            return self._problem(P_BODY, offset, code)
        ends = head.flags & 1
        number = self.maps.plan_of(head.table_id)
        if number == NOT_MAPPED:
            if not (head.table_id == DUMMY_TABLE_ID and ends) and self.knows_group:
                self._problem(P_NO_TABLE_MAP, offset, <int64_t>head.table_id)
        elif self.is_filtered and not self._wants_rows(number, code):
            pass
        elif code <= PRE_GA_DELETE_ROWS_EVENT or self.is_part:
            self.has_change = True
        elif self.counts or is_compressed_rows(code):
            plan = self.maps.cores[number]
            if not read_frame(&event, code, head.rest, end, &columns) or columns != <uint64_t>plan.column_count:
                return self._problem(P_ROWS, offset, code)
            if is_compressed_rows(code) and not inflate_images(self.plain, &event, self.opened_size):
                return self._problem(P_ROWS, offset, code)
            if self.counts:
                rows = count_rows(plan, &event, &taken)
                if taken != event.size:
                    return self._problem(P_ROWS, offset, code)
                size = event.size
                if self.ask_rows is None or self._has_rows(number, code, body, end, offset, &rows, &size):
                    self._count(plan, number, &event, rows, size)
        self.rows_open = not ends
        if ends:
            self.maps.end_statement()
        return 0

    cdef int _count(self, Plan* plan, int32_t number, RowsEvent* event, int64_t rows, int64_t size) except -1 nogil:
        """Count selected rows of an event, and their bytes."""
        cdef int operation = UPDATE if event.operation == PARTIAL_UPDATE else event.operation
        cdef TableCounts* counts = self._counts(plan.table_number)
        self.has_change = True
        if not counts.is_pending:
            counts.is_pending = True
            (<int64_t*>self.pending_tables.grow(sizeof(int64_t)))[0] = plan.table_number
        counts.pending.events += 1
        counts.pending.rows[operation] += rows
        counts.pending.row_bytes[operation] += size
        if counts.last_group != self.group_serial:
            counts.last_group = self.group_serial
            counts.pending.groups += 1
        if operation != INSERT and self.key_of is not None:
            self.measurable_events += 1
            if self.measurable_events % MEASURED_EVERY == 1:
                self._measure(plan, number, event, rows)
        if self.has_group:
            self.group.rows[operation] += rows
            self.group.row_bytes += size
        else:  # the start of the group was lost by damage
            self._take_pending(True)
        return 0

    cdef int _measure(self, Plan* plan, int32_t number, RowsEvent* event, int64_t rows) except -1 nogil:
        """Measure the size of an event's rows with MINIMAL images: key columns before, changed columns after."""
        cdef int64_t minimal
        if event.operation == PARTIAL_UPDATE:
            return 0
        with gil:
            key = self.key_of((<ImagePlan>self.maps.plans[number]).table)
            if len(key) != plan.bitmap_bytes:
                return 0
            minimal = self._minimal_size(plan, event, <const uint8_t*><const char*>key)
        if 0 <= minimal <= event.size:
            self.measured_rows += rows
            self.measured_bytes += event.size
            self.minimal_bytes += minimal
        return 0

    cdef int64_t _minimal_size(self, Plan* plan, RowsEvent* event, const uint8_t* key) except -2:
        """Return the bytes of the row images as MINIMAL ones; -1 if they do not fit the table.

        All rows of an event share the bitmap of the after image: the columns that changed in any of its rows.
        """
        cdef uint8_t* changed
        cdef int64_t total
        self.spans.size = 0
        cdef int64_t places = 16 * <int64_t>(plan.column_count + 1)
        changed = self.spans.grow(places + plan.column_count) + places
        memset(changed, 0, plan.column_count)
        total = self._pass_minimal(plan, event, key, <int64_t*>self.spans.data, changed, event.operation == UPDATE)
        if total >= 0 and event.operation == UPDATE:
            total = self._pass_minimal(plan, event, key, <int64_t*>self.spans.data, changed, False)
        return total

    cdef int64_t _pass_minimal(self, Plan* plan, RowsEvent* event, const uint8_t* key, int64_t* first,
                               uint8_t* changed, bint compares) noexcept nogil:
        """Process the rows of an event: mark changed columns if `compares`, else add up the bytes of MINIMAL images.

        `first` must have room for offset and size of each column of the before image.
        """
        cdef const uint8_t* at = event.images
        cdef const uint8_t* end = at + event.size
        cdef int64_t total = 0
        cdef int i, side, present
        cdef int32_t column
        cdef int64_t size
        cdef Layout* layout
        cdef const uint8_t* nulls
        cdef const uint8_t* value
        while at < end:
            for i in range(plan.after.count if event.operation == UPDATE else 0):  # a row may lack columns
                first[2 * plan.after.column[i]], first[2 * plan.after.column[i] + 1] = 0, -1
            for side in range(2 if event.operation == UPDATE else 1):
                layout = &plan.after if side else &plan.before
                nulls = at
                if end - at < layout.null_bytes:
                    return -1
                at += layout.null_bytes
                present = 0
                for i in range(layout.count):
                    column = layout.column[i]
                    size = -1
                    value = at
                    if not nulls[i >> 3] >> (i & 7) & 1:
                        at = _behind(at, end, layout.width[i])
                        if at == NULL:
                            return -1
                        size = at - value
                    if side and compares:
                        if size != first[2 * column + 1] or size > 0 and memcmp(
                                value, event.images + first[2 * column], size) != 0:
                            changed[column] = 1
                    elif side == 0:
                        first[2 * column], first[2 * column + 1] = value - event.images, size
                    if changed[column] if side else key[column >> 3] >> (column & 7) & 1:
                        present += 1
                        total += max(size, 0)
                total += (present + 7) // 8
            if at == event.images:
                return -1
        return total

    cdef TableCounts* _counts(self, int32_t table) except NULL nogil:
        cdef int64_t capacity
        cdef void* moved
        if table >= self.table_capacity:
            capacity = 2 * table + 64
            moved = realloc(self.tables, capacity * sizeof(TableCounts))
            if moved == NULL:
                with gil:
                    raise MemoryError("no memory for another table")
            self.tables = <TableCounts*>moved
            memset(self.tables + self.table_capacity, 0, (capacity - self.table_capacity) * sizeof(TableCounts))
            self.table_capacity = capacity
        return self.tables + table


cdef inline bint _begins(const uint8_t* body, const uint8_t* end) noexcept nogil:
    """Return whether a QUERY_EVENT begins a transaction."""
    cdef int64_t size = size_before_sql(body, end)
    return size > 0 and begins_transaction(body + size, end - body - size)


cdef inline bint _ends_transaction(uint8_t code, const uint8_t* body, const uint8_t* end) noexcept nogil:
    """Return whether an event ends a transaction."""
    cdef int64_t size
    if code == QUERY_EVENT:
        size = size_before_sql(body, end)
        return size > 0 and ends_transaction(body + size, end - body - size)
    return code == XID_EVENT or code == XA_PREPARE_LOG_EVENT or code == TRANSACTION_PAYLOAD_EVENT
