"""Records of event groups, one per group: its begin and end, tables, row counts, and statements.

`binlogio.columnar.transaction_records` makes the same records from the events of construct and is the reference
implementation (oracle).
"""

from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t, uint8_t
from libc.string cimport memcpy

from binlogio._kernel.base.cursor cimport u32
from binlogio._kernel.base.event_codes cimport *
from binlogio._kernel.event_scanner cimport (
    DELETE, GTID_TEXT, INSERT, PARTIAL_UPDATE, UPDATE, Group, ImagePlan, count_rows,
)
from binlogio._kernel.scan.groups cimport G_OUTSIDE, begins_transaction, ends_transaction, is_commit

cdef enum:
    LARGEST_TIME = 0x7FFFFFFFFFFFFFFF


cdef class GroupRecords(EventWalk):
    """Records of the event groups of a log that are not returned yet, and the current group.

    Args:
        resolve: function from a MappedTable to the ImagePlan of its rows, or None if construct rejects it.
        pos, timestamp: (start, end) of the selected groups, by their first events.
        server_ids: selected server ids; None for any.
        wants_table: predicate of schema and table, of which one table of a group must be selected; None for any group.
    """

    cdef object resolve
    cdef int64_t pos_start, pos_end, time_start, time_end
    cdef object server_ids, wants_table
    cdef Group own_start  # GTID event of the current group
    cdef bint has_own_start
    # The current group
    cdef readonly bint is_open
    cdef int64_t begin_pos, ended
    cdef uint32_t begin_time, begin_server
    cdef uint8_t[GTID_TEXT] group_gtid
    cdef int group_gtid_size
    cdef bint group_has_clock, has_commit, has_original, has_xid, is_compressed
    cdef int64_t group_committed, group_number, commit_us, original_us, xid_number
    cdef bytes outcome  # None while the group is unfinished
    cdef int32_t event_count
    cdef int64_t[3] row_counts
    cdef int64_t[3] row_bytes
    cdef dict tables
    cdef list texts
    cdef int64_t rows_at_hand  # rows of the current event
    # Columns
    cdef NumberColumn pos, end_pos, timestamp, commit_time, original_time, server_id, clock_committed, clock_number
    cdef NumberColumn xid, events, inserts, updates, deletes, insert_bytes, update_bytes, delete_bytes
    cdef TextColumn gtid, outcome_name
    cdef FlagColumn compressed
    cdef TextListColumn table_names, statements

    def __cinit__(self, *, resolve, pos, timestamp, server_ids, wants_table, **_):
        self.resolve = resolve
        self.pos_start, self.pos_end = pos
        self.time_start, self.time_end = timestamp
        self.server_ids, self.wants_table = server_ids, wants_table
        self.pos, self.end_pos, self.timestamp = NumberColumn(8), NumberColumn(8), NumberColumn(8)
        self.commit_time, self.original_time, self.server_id = NumberColumn(8), NumberColumn(8), NumberColumn(8)
        self.clock_committed, self.clock_number, self.xid = NumberColumn(8), NumberColumn(8), NumberColumn(8)
        self.events, self.inserts, self.updates = NumberColumn(4), NumberColumn(8), NumberColumn(8)
        self.deletes, self.insert_bytes, self.update_bytes = NumberColumn(8), NumberColumn(8), NumberColumn(8)
        self.delete_bytes, self.gtid, self.outcome_name = NumberColumn(8), TextColumn(), TextColumn()
        self.compressed, self.table_names, self.statements = FlagColumn(), TextListColumn(), TextListColumn()

    cdef list _columns(self):
        return [
            self.pos, self.end_pos, self.gtid, self.timestamp, self.commit_time, self.original_time, self.server_id,
            self.clock_committed, self.clock_number, self.xid, self.outcome_name, self.compressed, self.events,
            self.table_names, self.inserts, self.updates, self.deletes, self.insert_bytes, self.update_bytes,
            self.delete_bytes, self.statements,
        ]

    def take(self) -> list:
        """Return the columns, for `Exported`, and begin a new batch."""
        columns = self._columns()
        nodes = [(<RecordColumn>column).node() for column in columns]
        for column in columns:
            (<RecordColumn>column).clear(column)
        self.count = 0
        return nodes

    cdef bint _is_full(self):
        return self.count >= self.max_records or (
            self.statements.members.data.size + self.table_names.members.data.size + self.outcome_name.data.size
            >= self.max_bytes)

    # ------------------------------------------------------------------------------- events that construct has parsed

    def begin(self, int64_t pos, int64_t timestamp, int64_t server_id, commit_us, original_us) -> None:
        """Begin an event outside of payloads; the commit times are those of a GTID event.

        The previous group may end and a new one may begin.
        """
        self._turn(pos, <uint32_t>timestamp, <uint32_t>server_id)
        if self.state.begins:
            self._commit_times(commit_us is not None, 0 if commit_us is None else commit_us,
                               original_us is not None, 0 if original_us is None else original_us)

    def add(self, int64_t end_pos, *, str outcome=None, xid=None, bint is_compressed=False, str statement=None) -> None:
        """Add an event to the current group, if there is one."""
        if self.is_open:
            self.event_count += 1
            if outcome is not None:
                self.outcome = outcome.encode()
            if xid is not None:
                self.has_xid, self.xid_number = True, xid
            if is_compressed:
                self.is_compressed = True
            if statement is not None:
                self.texts.append(statement.encode("utf-8", "backslashreplace"))
            self._end_statement()
        self.ended = end_pos

    def add_rows(self, MappedTable table not None, int operation, int64_t rows, int64_t size) -> None:
        """Add rows to the current group, if there is one; `add` adds their event."""
        if self.is_open:
            self._rows_of(table, operation, rows, size)

    def pass_to(self, int64_t end_pos) -> None:
        """Skip an event outside of groups."""
        self.ended = end_pos

    def finish(self) -> None:
        """End the last group."""
        if self.is_open:
            self._finish()

    # -------------------------------------------------------------------------------------- events that are parsed here

    cdef bint _accepts(self, WalkEvent* event) except -1:
        cdef Plan* plan
        cdef int64_t taken = 0
        if not event.is_rows or event.rows.size == 0:
            return True
        if self.table is None:
            return False
        if self.table.images is None:
            self.table.images = self.resolve(self.table)
            if self.table.images is None:
                return False
        plan = &self.table.images.core
        if plan.bitmap_bytes == 0 or event.column_count != <uint64_t>plan.column_count:
            return False
        self.rows_at_hand = count_rows(plan, &event.rows, &taken)
        return taken == event.rows.size

    cdef int _add(self, WalkEvent* event) except -1:
        cdef uint8_t code = event.frame.code
        if event.inner < 0:
            self._turn(event.pos, u32(event.frame.head), u32(event.frame.head + 5))
            if self.state.begins and (code == GTID_LOG_EVENT or code == ANONYMOUS_GTID_LOG_EVENT
                                      or code == GTID_TAGGED_LOG_EVENT):
                self._commit_times(event.gtid.has_immediate, event.gtid.immediate,
                                   event.gtid.has_original, event.gtid.original)
        if self.is_open:
            self.event_count += 1
            if event.is_rows:
                if event.rows.size:
                    self._rows_of(self.table, event.rows.operation, self.rows_at_hand, event.rows.size)
            elif code == XID_EVENT:
                self.has_xid, self.xid_number, self.outcome = True, <int64_t>event.xid, b"commit"
            elif code == QUERY_EVENT or code == QUERY_COMPRESSED_EVENT:
                self._query_of(event)
            elif code == TRANSACTION_PAYLOAD_EVENT:
                self.is_compressed = True
            elif event.sql != NULL:
                self.texts.append((<const char*>event.sql)[:event.sql_size])
            self._end_statement()
        self.ended = event.end_pos
        return 0

    cdef int _turn(self, int64_t pos, uint32_t timestamp, uint32_t server_id) except -1:
        if self.is_open and (self.state.begins or self.outcome is not None):
            self._finish()
        if not self.state.begins:
            return 0
        self.is_open = True
        self.begin_pos, self.begin_time, self.begin_server = pos, timestamp, server_id
        memcpy(self.group_gtid, self.gtid_text, self.gtid_size)
        self.group_gtid_size = self.gtid_size
        self.own_start, self.has_own_start = self.group_start, self.has_group_start
        self.group_has_clock = self.has_clock
        self.group_committed, self.group_number = self.last_committed, self.sequence_number
        self.has_commit = self.has_original = self.has_xid = self.is_compressed = False
        self.outcome = None
        self.event_count = 0
        self.row_counts = [0, 0, 0]
        self.row_bytes = [0, 0, 0]
        self.tables = {}
        self.texts = []
        return 0

    cdef int _commit_times(self, bint has_commit, uint64_t commit_us, bint has_original,
                           uint64_t original_us) except -1:
        """Set the commit times; values that Arrow cannot hold are NULL."""
        if not has_original or original_us == 0:
            has_original, original_us = has_commit, commit_us
        self.has_commit, self.commit_us = has_commit and commit_us <= <uint64_t>LARGEST_TIME, <int64_t>commit_us
        self.has_original = has_original and original_us <= <uint64_t>LARGEST_TIME
        self.original_us = <int64_t>original_us
        return 0

    cdef int _end_statement(self) except -1:
        if self.state.place == G_OUTSIDE and self.outcome is None and not self.is_compressed:
            self.outcome = b"statement"
        return 0

    cdef int _rows_of(self, MappedTable table, int operation, int64_t rows, int64_t size) except -1:
        cdef int number = 0 if operation == INSERT else (2 if operation == DELETE else 1)
        self.tables[table.full_name] = table
        self.row_counts[number] += rows
        self.row_bytes[number] += size
        return 0

    cdef int _query_of(self, WalkEvent* event) except -1:
        if begins_transaction(event.sql, event.sql_size):
            return 0
        if ends_transaction(event.sql, event.sql_size):
            self.outcome = b"commit" if is_commit(event.sql, event.sql_size) else b"rollback"
            return 0
        if event.has_xid and event.xid:
            self.has_xid, self.xid_number = True, <int64_t>event.xid
        self.texts.append((<const char*>event.sql)[:event.sql_size])
        return 0

    # ------------------------------------------------------------------------------------------------------ the records

    cdef bint _is_wanted(self) except -1:
        cdef MappedTable table
        if self.wants_table is not None:
            for found in self.tables.values():
                table = <MappedTable>found
                if table.is_wanted < 0:
                    table.is_wanted = bool(self.wants_table(table.event.schema, table.event.table))
                if table.is_wanted:
                    break
            else:
                return False
        if not (self.pos_start <= self.begin_pos < self.pos_end
                and self.time_start <= <int64_t>self.begin_time < self.time_end):
            return False
        if self.server_ids is not None and self.begin_server not in self.server_ids:
            return False
        return self._wants_gtid(&self.own_start, self.has_own_start, self.group_gtid, self.group_gtid_size)

    cdef int _finish(self) except -1:
        cdef bytes outcome = b"unfinished" if self.outcome is None else self.outcome
        cdef bytes text
        self.is_open = False
        if not self._is_wanted():
            return 0
        self.pos.add(self.begin_pos)
        self.end_pos.add(self.ended)
        self.gtid.add(self.group_gtid, self.group_gtid_size, self.group_gtid_size != 0)
        self.timestamp.add(<int64_t>self.begin_time * 1000000)
        self.commit_time.add(self.commit_us if self.has_commit else 0, self.has_commit)
        self.original_time.add(self.original_us if self.has_original else 0, self.has_original)
        self.server_id.add(self.begin_server)
        self.clock_committed.add(self.group_committed if self.group_has_clock else 0, self.group_has_clock)
        self.clock_number.add(self.group_number if self.group_has_clock else 0, self.group_has_clock)
        self.xid.add(self.xid_number if self.has_xid else 0, self.has_xid)
        self.outcome_name.add(<const uint8_t*><const char*>outcome, len(outcome))
        self.compressed.add(self.is_compressed)
        self.events.add(self.event_count)
        for text in self.tables:
            self.table_names.members.add(<const uint8_t*><const char*>text, len(text))
        self.table_names.end()
        self.inserts.add(self.row_counts[0])
        self.updates.add(self.row_counts[1])
        self.deletes.add(self.row_counts[2])
        self.insert_bytes.add(self.row_bytes[0])
        self.update_bytes.add(self.row_bytes[1])
        self.delete_bytes.add(self.row_bytes[2])
        for text in self.texts:
            self.statements.members.add(<const uint8_t*><const char*>text, len(text))
        self.statements.end()
        self.count += 1
        return 0

