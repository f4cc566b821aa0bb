"""Reverses event groups of row changes (flashback), many in one call: as SQL, or as frames of a binary log.

    group := gtid? BEGIN? (rows_query | annotate_rows | table_map | rows)* (xid | COMMIT)

Python reverses all other groups, and those of which a row is rejected here. `binlogio.replay.undo` is the reference
implementation (oracle).
"""

from cpython.object cimport PyObject
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t, uint8_t, uintptr_t
from libc.string cimport memcmp, memcpy, memset

from binlogio.bounded_cache import BoundedCache
from binlogio.errors import BinlogError

from binlogio._kernel.base.cursor cimport little, u16, u32
from binlogio._kernel.base.event_bytes cimport put_little
from binlogio._kernel.base.event_codes cimport (
    ANNOTATE_ROWS_EVENT, ANONYMOUS_GTID_LOG_EVENT, BIG_EVENT_SIZE, GTID_LOG_EVENT, GTID_TAGGED_LOG_EVENT, HEADER_SIZE,
    MARIADB_GTID_EVENT, QUERY_EVENT, ROWS_QUERY_LOG_EVENT, TABLE_MAP_EVENT, WRITE_ROWS_EVENT, WRITE_ROWS_EVENT_V1,
    XID_EVENT,
)
from binlogio._kernel.base.memory_text cimport append_text, append_unsigned
from binlogio._kernel.event_scanner cimport (
    GROUP_UNWANTED, GROUP_WANTED, MYSQL_GTID, NO_GTID, UPDATE, Group, GroupFilter, GtidFields, ImagePlan, Plan,
    RowsEvent, gtid_fields, is_same_source, pass_image, prepare, read_frame, read_group,
)
from binlogio._kernel.primitives cimport Memory
from binlogio._kernel.scan.event_types cimport is_group_start, is_plain_rows, size_before_sql
from binlogio._kernel.scan.cursor cimport (
    F_NEED_DATA, F_WHOLE, Cursor, Frame, RowsHead, is_intact, look, pass_event, rows_head, rows_post_header, set_cursor,
)
from binlogio._kernel.scan.groups cimport G_OUTSIDE, G_TRANSACTION, GroupState, follow_body, is_commit

cdef enum:
    MAP_SLOTS = 256  # entries of the table map cache, indexed by table id
    MOST_MAPS = 64  # table maps of a statement
    MOST_HEADS = 256  # different types and bitmaps of the rows events of a table map
    MOST_BEGINS = 1024  # different status variables of BEGIN
    MOST_INVERSE = 1 << 22  # bytes of output after which `cut` returns
    TABLE_ID = 6  # bytes
    ROWS_FLAGS_AT = HEADER_SIZE + TABLE_ID
    STMT_END = 1
    NO_CASCADES = 2 | 128  # flags of a rows event: NO_FOREIGN_KEY_CHECKS, USE_SQL_FOREIGN_KEY
    ALTER_NOT_DONE = 2 | 8  # flags_extra of MariaDB's GTID event: START_ALTER, ROLLBACK_ALTER


cdef class InverseRows:
    """Reverses the rows events of one table that have the same type and bitmaps.

    Args:
        step: an object of the caller; None for a table that is not selected.
        sql: writes the statements; None: frames are written.
        cascades: foreign keys may have changed other tables with these rows.
        plan: for frames, the layout of the images.
        begin, table_map, head, xid: for frames, BEGIN, the table map, a reversed event without rows, and the XID.
        footer: for frames, the bytes of a checksum at their ends.
        flags: for frames, flags that are set in the reversed event.
        is_minimal: for frames, whether the after image of an update has only the columns that the update changed.
        spare_bits: for frames, the value of the unused null bits of an image.
    """

    def __cinit__(self, object step, InverseSql sql=None, *, bint cascades=False, ImagePlan plan=None,
                  bytes begin=b"", bytes table_map=b"", bytes head=b"", bytes xid=b"", int footer=0, int flags=0,
                  bint is_minimal=False, bint spare_bits=False):
        self.step, self.sql, self.cascades, self.plan, self.flags = step, sql, cascades, plan, flags
        self.begin, self.table_map, self.head, self.xid = begin, table_map, head, xid
        self.footer, self.is_minimal, self.spare_bits = footer, is_minimal, spare_bits
        self.columns = 0 if plan is None else plan.core.column_count
        self.pointers, self.changed = Memory(), Memory()
        self.pointers.grow(2 * 8 * (self.columns + 1))
        self.changed.grow(2 * (self.columns + 1))


cdef class InverseTable:
    """A table map: its bytes after the table id, and the inverse of its rows events by their type and bitmaps."""

    cdef bytes rest
    cdef dict heads
    cdef uint64_t table_id
    cdef bytes last_head  # key of the last look-up in `heads`
    cdef InverseRows last


cdef class InverseGroups:
    """Reverses groups; implements the protocol of a text writer of `BinlogReader`.

    Args:
        resolve: function from the body of a table map, the type code of a rows event, and the bytes between its flags
            and its images, to an `InverseRows`; None: Python reverses groups with such an event.
        accepts: predicate of the body of a BEGIN without its first eleven bytes; each different one is asked once.
    """

    codes = (
        GTID_LOG_EVENT, ANONYMOUS_GTID_LOG_EVENT, GTID_TAGGED_LOG_EVENT, MARIADB_GTID_EVENT, QUERY_EVENT, TABLE_MAP_EVENT,
        XID_EVENT, ROWS_QUERY_LOG_EVENT, ANNOTATE_ROWS_EVENT, *range(WRITE_ROWS_EVENT, WRITE_ROWS_EVENT + 3),
        *range(WRITE_ROWS_EVENT_V1, WRITE_ROWS_EVENT_V1 + 3),
    )
    in_statement = False  # `cut` begins at groups only

    def __cinit__(self, *, resolve, accepts):
        self.resolve, self.accepts = resolve, accepts
        self.out, self.changes, self.starts = Memory(), Memory(), Memory()
        self.sizes, self.places = Memory(), Memory()
        self.begins, self.gtids, self.found = {}, [], []
        self.prefix = b""
        self.first, self.end = 0, 1 << 62
        self.forget_tables()
        self.set_codes(())

    def set_codes(self, codes):
        """Select the event types that `cut` takes."""
        cdef int code
        self.begins.clear()
        for code in range(256):
            self.taken[code] = code in codes

    def forget_tables(self):
        """Resolve every table map again: column names may have changed."""
        self.tables, self.slots = BoundedCache(), [None] * MAP_SLOTS

    @property
    def group_sizes(self) -> bytes:
        """The sizes of the reversed groups in the last text, as int64."""
        return (<char*>self.sizes.data)[:self.sizes.size] if self.sizes.size else b""

    @property
    def row_places(self) -> bytes:
        """The offsets of the reversed rows events, as int64."""
        return (<char*>self.places.data)[:self.places.size] if self.places.size else b""

    def cut(self, const uint8_t[::1] data, int64_t at, int64_t offset, int64_t stop, int64_t inner, int64_t most,
            bint checksum, bint verify, uint32_t shift, bint by_group=False):
        """Return the inverse of the groups from byte `at` of the buffer, in a list of one item.

        Stops before the first group that is incomplete, or has to be reversed by Python. `self.at` is the index of its
        first byte. If nothing precedes it, the list is empty. The arguments are those of `EventCutter.cut`; `most` and
        `by_group` are ignored. `group_sizes` to `filtered` describe the groups; those that `chosen` does not select or
        that begin before offset `first` are only counted. No group from offset `end` on is taken.
        """
        cdef Cursor cursor
        cdef Frame* frame = &cursor.frame
        cdef GroupState state
        cdef Group group
        cdef InverseRows one
        cdef int64_t good_at = at
        cdef int64_t begin = at
        cdef int64_t start = offset
        cdef uint32_t good_shift = shift
        cdef int status, answer
        cdef bint wanted = True
        self.needs_data = False
        if inner >= 0 or self.inside:
            return []
        if self.out.capacity > 4 * MOST_INVERSE:
            self.out = Memory()
        self.out.size = self.sizes.size = self.places.size = 0
        self.filtered = 0
        for one in self.found:
            one.rows = one.events = 0
        self.found, self.gtids = [], []
        self.last.kind = NO_GTID
        stop = min(stop, self.end)
        memset(&state, 0, sizeof(state))
        set_cursor(&cursor, &data[0] if data.shape[0] else NULL, data.shape[0], at, offset, -1, checksum, shift)
        while self.out.size < MOST_INVERSE and (state.place != G_OUTSIDE or cursor.offset < stop):
            status = look(&cursor)
            if frame.size and (frame.size > BIG_EVENT_SIZE or not self.taken[frame.code]):
                break
            if status != F_WHOLE:
                self.needs_data = status == F_NEED_DATA
                break
            if checksum and verify and not is_intact(frame):
                break
            if state.place == G_OUTSIDE:
                group.kind = NO_GTID
                if is_group_start(frame.code) and not self._begins(frame, &group):
                    break
                answer = GROUP_WANTED if self.chosen is None else self.chosen.answer(
                    frame.code, frame.head, frame.body, frame.end)
                if answer != GROUP_WANTED and answer != GROUP_UNWANTED:
                    break
                wanted = answer == GROUP_WANTED and cursor.offset >= self.first
                start = cursor.offset
                self.changes.size = 0
                self.map_count = 0
            elif is_group_start(frame.code):
                break
            if not is_group_start(frame.code) and not self._take(frame, cursor.offset, &state, wanted):
                break
            follow_body(&state, frame.code, frame.body, frame.end)
            pass_event(&cursor)
            if state.place == G_OUTSIDE:
                if self.changes.size and not self._reverse(start, cursor.offset):
                    break
                self._keep_gtid(&group, wanted)
                self.filtered += not wanted
                good_at, good_shift = cursor.at, cursor.shift
        self.at, self.position_shift = good_at, good_shift
        if good_at == begin:
            return []
        if self.out.size < MOST_INVERSE >> 6:
            return [(<char*>self.out.data)[:self.out.size] if self.out.size else b""]
        found, self.out = memoryview(self.out), Memory()
        return [found]

    cdef bint _begins(self, const Frame* frame, Group* group) except -1:
        """Read the first event of a group; returns False if Python has to."""
        cdef GtidFields fields
        if not read_group(group, frame.code, frame.head, frame.body, frame.end):
            return False
        if frame.code != MARIADB_GTID_EVENT:
            return True
        return gtid_fields(&fields, frame.code, frame.body, frame.end) and not (
            fields.flags & 1 or fields.flags_extra & ALTER_NOT_DONE)

    cdef int _keep_gtid(self, const Group* group, bint wanted) except -1:
        """Add the GTID of a group: source, first number, end, and whether the group is selected."""
        if group.kind == NO_GTID:
            return 0
        if (self.last.kind != NO_GTID and self.last_wanted == wanted and is_same_source(&self.last, group)
                and group.number == self.last.number + 1):
            source, first, _, _ = self.gtids.pop()
        else:
            first = group.number
            source = (group.domain_id, group.server_id)
            if group.kind == MYSQL_GTID:
                source = ((<const char*>group.uuid)[:16], (<const char*>group.tag)[:group.tag_size].decode())
        self.gtids.append((source, first, group.number + 1, wanted))
        self.last, self.last_wanted = group[0], wanted
        return 0

    cdef bint _take(self, const Frame* frame, int64_t offset, const GroupState* state, bint wanted) except -1:
        """Take an event inside a group; returns False if Python has to."""
        cdef int code = frame.code
        cdef int64_t size
        if code == QUERY_EVENT:
            size = size_before_sql(frame.body, frame.end)
            if not size or u16(frame.head + 17) & 4 or not self._accepts(frame.body + 11, size - 11):
                return False
            if frame.end - frame.body - size == 5 and memcmp(frame.body + size, b"BEGIN", 5) == 0:
                return state.place != G_TRANSACTION
            return state.place == G_TRANSACTION and is_commit(frame.body + size, frame.end - frame.body - size)
        if state.place != G_TRANSACTION:
            return False
        if code == TABLE_MAP_EVENT:
            return not wanted or self._map(frame)
        if is_plain_rows(code):
            return not wanted or self._change(frame, offset)
        return frame.end - frame.body == 8 if code == XID_EVENT else frame.end > frame.body

    cdef bint _accepts(self, const uint8_t* context, int64_t size) except -1:
        """Return whether the status variables and the schema of a statement are valid."""
        key = (<const char*>context)[:size]
        found = self.begins.get(key)
        if found is None:
            if len(self.begins) >= MOST_BEGINS:
                self.begins.clear()
            found = self.begins[key] = self.accepts(key)
        return found

    cdef bint _map(self, const Frame* frame) except -1:
        """Take a table map; returns False if Python has to."""
        cdef int64_t size = frame.end - frame.body - TABLE_ID
        cdef uint64_t table_id
        cdef InverseTable table
        cdef bytes rest
        if size < 4 or self.map_count == MOST_MAPS or u16(frame.head + 17):
            return False
        table_id = little(frame.body, TABLE_ID)
        table = self.slots[table_id & (MAP_SLOTS - 1)]
        if (table is None or table.table_id != table_id or len(table.rest) != size
                or memcmp(<const char*>table.rest, frame.body + TABLE_ID, size) != 0):
            rest = (<const char*>frame.body + TABLE_ID)[:size]
            table = self.tables.get(rest)
            if table is None:
                table = InverseTable()
                table.rest, table.heads = rest, {}
                self.tables.put(rest, table)
            table.table_id = table_id
            self.slots[table_id & (MAP_SLOTS - 1)] = table
        self.maps[self.map_count].table_id = table_id
        self.maps[self.map_count].head = frame.head
        self.maps[self.map_count].table = <PyObject*>table
        self.map_count += 1
        return True

    cdef bint _change(self, const Frame* frame, int64_t offset) except -1:
        """Take a rows event; returns False if Python has to."""
        cdef RowsEvent rows
        cdef GroupChange* change
        cdef StatementMap* found = NULL
        cdef uint64_t columns = 0
        cdef RowsHead head
        cdef InverseTable table
        cdef InverseRows inverse
        cdef const uint8_t* at
        cdef int64_t size, i
        if u16(frame.head + 17) or not (rows_head(&head, frame.body, frame.end, rows_post_header(frame.code))
                                        and read_frame(&rows, frame.code, head.rest, frame.end, &columns)):
            return False
        for i in range(self.map_count - 1, -1, -1):
            if self.maps[i].table_id == head.table_id:
                found = &self.maps[i]
                break
        if found == NULL:
            return False
        table = <InverseTable>found.table
        at = frame.body + TABLE_ID + 2
        size = rows.images - at
        if (table.last_head is None or len(table.last_head) != size + 1 or table.last_head[0] != frame.code
                or memcmp(<const char*>table.last_head + 1, at, size) != 0):
            table.last_head = bytes((frame.code,)) + (<const char*>at)[:size]
            if table.last_head not in table.heads:
                if len(table.heads) >= MOST_HEADS:
                    table.heads.clear()
                table.heads[table.last_head] = self.resolve(
                    (<const char*>frame.body)[:TABLE_ID] + table.rest, frame.code, table.last_head[1:])
            table.last = table.heads[table.last_head]
        inverse = table.last
        if inverse is None or inverse.cascades and not head.flags & NO_CASCADES:
            return False
        if inverse.step is not None:
            change = <GroupChange*>self.changes.grow(sizeof(GroupChange))
            change.rows, change.head, change.map_head = rows, frame.head, found.head
            change.rows.pos, change.inverse = offset, <PyObject*>inverse
        if frame.body[TABLE_ID] & STMT_END:
            self.map_count = 0
        return True

    cdef bint _reverse(self, int64_t start, int64_t end) except -1:
        """Append the inverse of a group; returns False, and appends nothing, if Python has to."""
        cdef GroupChange* changes = <GroupChange*>self.changes.data
        cdef int64_t count = self.changes.size // sizeof(GroupChange)
        cdef int64_t begin = self.out.size
        cdef int64_t i
        cdef InverseRows inverse = <InverseRows>changes[0].inverse
        cdef bint is_sql = inverse.sql is not None
        try:
            if is_sql:
                append_text(self.out, <const char*>self.prefix, len(self.prefix))
                append_unsigned(self.out, start)
                append_text(self.out, b" to ", 4)
                append_unsigned(self.out, end)
                append_text(self.out, b"\nBEGIN;\n", 8)
            else:
                self._frame(inverse.begin, changes[0].head)
            for i in range(count - 1, -1, -1):
                inverse = <InverseRows>changes[i].inverse
                changes[i].count = self._sql(inverse, changes + i) if is_sql else self._frames(inverse, changes + i)
                if changes[i].count <= 0:
                    self.out.size = begin
                    return False
        except BinlogError:  # Python reports it
            self.out.size = begin
            return False
        if is_sql:
            append_text(self.out, b"COMMIT;\n", 8)
        else:
            self._frame((<InverseRows>changes[0].inverse).xid, changes[0].head)
        for i in range(count):
            inverse = <InverseRows>changes[i].inverse
            if not inverse.events:
                self.found.append(inverse)
            inverse.events += 1
            inverse.rows += changes[i].count
            (<int64_t*>self.places.grow(8))[0] = changes[i].rows.pos
        (<int64_t*>self.sizes.grow(8))[0] = self.out.size - begin
        return True

    cdef int64_t _sql(self, InverseRows inverse, GroupChange* change) except -2:
        cdef InverseSql sql = inverse.sql
        if sql.row.capacity > MOST_KEPT_TEXT:
            sql.row = Memory()
        sql.out = self.out
        try:
            return sql._rows(change.rows.operation, change.rows.present, change.rows.present_after,
                              change.rows.images, change.rows.size)
        finally:
            sql.out = sql.own

    cdef int _frame(self, bytes frame, const uint8_t* head) except -1:
        """Append a frame with the time and the server id of another event."""
        cdef uint8_t* to = self.out.grow(len(frame))
        memcpy(to, <const char*>frame, len(frame))
        memcpy(to, head, 4)
        memcpy(to + 5, head + 5, 4)
        return 0

    cdef int64_t _frames(self, InverseRows inverse, GroupChange* change) except -2:
        """Append the table map and the events that reverse an event; returns the number of rows, or -1."""
        cdef Plan* plan = &inverse.plan.core
        cdef const uint8_t* at = change.rows.images
        cdef const uint8_t* end = at + change.rows.size
        cdef const uint8_t* middle
        cdef const uint8_t* begin
        cdef const uint8_t** then = <const uint8_t**>inverse.pointers.data
        cdef const uint8_t** now = then + inverse.columns + 1
        cdef uint8_t* changed = inverse.changed.data
        cdef uint8_t* run = changed + inverse.columns + 1
        cdef int64_t count, i
        cdef int64_t mapped = self.out.size
        cdef int64_t event = 0  # index of the current event in the output
        cdef bint is_update = change.rows.operation == UPDATE
        prepare(plan, &plan.before, change.rows.present)
        if is_update:
            prepare(plan, &plan.after, change.rows.present_after)
        self.starts.size = 0
        while at < end:
            begin = at
            (<const uint8_t**>self.starts.grow(8))[0] = at
            at = pass_image(&plan.before, at, end, NULL, 0)
            if at != NULL and is_update:
                at = pass_image(&plan.after, at, end, NULL, 0)
            if at == NULL or at == begin:
                return -1
        count = self.starts.size // 8
        if not count:
            return -1
        (<const uint8_t**>self.starts.grow(8))[0] = end
        self._frame(inverse.table_map, change.map_head)
        memcpy(self.out.data + mapped + HEADER_SIZE, change.map_head + HEADER_SIZE, TABLE_ID)
        for i in range(count - 1, -1, -1):
            begin, end = (<const uint8_t**>self.starts.data)[i], (<const uint8_t**>self.starts.data)[i + 1]
            if not is_update:
                if not event:
                    event = self._begin_event(inverse, change)
                append_text(self.out, <const char*>begin, end - begin)
                continue
            middle = pass_image(&plan.before, begin, end, then, 1)
            pass_image(&plan.after, middle, end, now, 1)
            if inverse.is_minimal:
                if not _changed(plan, then, now, changed):
                    continue
                if event and memcmp(changed, run, inverse.columns) != 0:
                    self._end_event(inverse, change, event, run, False)
                    event = 0
                memcpy(run, changed, inverse.columns)
            if not event:
                event = self._begin_event(inverse, change)
            append_text(self.out, <const char*>middle, end - middle)
            if inverse.is_minimal:
                self._minimal(inverse, then, changed)
            else:
                append_text(self.out, <const char*>begin, middle - begin)
        if not event:
            self.out.size = mapped
            return count
        self._end_event(inverse, change, event, run, True)
        return count

    cdef int64_t _begin_event(self, InverseRows inverse, GroupChange* change) except -1:
        """Append the head of a reversed event; returns its index in the output, which is not 0."""
        cdef int64_t at = self.out.size
        self._frame(inverse.head, change.head)
        self.out.size -= inverse.footer
        memcpy(self.out.data + at + HEADER_SIZE, change.head + HEADER_SIZE, TABLE_ID)
        return at

    cdef int _end_event(self, InverseRows inverse, GroupChange* change, int64_t at, const uint8_t* changed,
                        bint is_last) except -1:
        """Write the size, the flags and the after bitmap of a reversed event."""
        cdef int32_t i
        cdef uint8_t* bits
        cdef int flags = u16(change.head + ROWS_FLAGS_AT) | inverse.flags
        memset(self.out.grow(inverse.footer), 0, inverse.footer)
        put_little(self.out.data + at + 9, self.out.size - at, 4)
        put_little(self.out.data + at + ROWS_FLAGS_AT, flags if is_last else flags & ~STMT_END, 2)
        if inverse.is_minimal:
            bits = self.out.data + at + len(inverse.head) - inverse.footer - inverse.plan.core.bitmap_bytes
            memset(bits, 0, inverse.plan.core.bitmap_bytes)
            for i in range(inverse.columns):
                bits[i >> 3] |= <uint8_t>(changed[i] << (i & 7))
        return 0

    cdef int _minimal(self, InverseRows inverse, const uint8_t** then, const uint8_t* changed) except -1:
        """Append an image of the changed columns as they were."""
        cdef Plan* plan = &inverse.plan.core
        cdef int32_t i
        cdef int32_t count = 0
        cdef int64_t nulls = self.out.size
        for i in range(inverse.columns):
            count += changed[i]
        memset(self.out.grow((count + 7) // 8), 0, (count + 7) // 8)
        if inverse.spare_bits and count & 7:
            self.out.data[nulls + count // 8] = <uint8_t>(0xFF << (count & 7))
        count = 0
        for i in range(inverse.columns):
            if changed[i]:
                if then[i] == NULL:
                    self.out.data[nulls + (count >> 3)] |= <uint8_t>(1 << (count & 7))
                else:
                    append_text(self.out, <const char*>then[i], _value_size(plan.width[i], then[i]))
                count += 1
        return 0


cdef inline int64_t _value_size(int32_t width, const uint8_t* p) noexcept nogil:
    return width if width >= 0 else <int64_t>little(p, -width) - width


cdef bint _changed(Plan* plan, const uint8_t** then, const uint8_t** now, uint8_t* changed) noexcept nogil:
    """Set `changed` for the columns whose bytes differ; returns whether there are any."""
    cdef int32_t i
    cdef int64_t size
    cdef bint found = False
    for i in range(plan.column_count):
        changed[i] = False
        if <uintptr_t>then[i] == NO_VALUE:
            continue
        if then[i] == NULL or now[i] == NULL:
            changed[i] = then[i] != now[i]
        else:
            size = _value_size(plan.width[i], then[i])
            changed[i] = size != _value_size(plan.width[i], now[i]) or memcmp(then[i], now[i], size) != 0
        found |= changed[i]
    return found
