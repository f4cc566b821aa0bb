"""Edits complete event groups in a buffer: changes checksums and schemas, removes rows events and table maps.

Handles only events that servers write in every transaction; groups with other events are left to the caller.
`binlogio.archive.group_editor.GroupEditor` is the reference implementation (oracle) and documents the result.
"""

from libc.stdint cimport int64_t, uint64_t, uint8_t
from libc.string cimport memcmp, memcpy, memmove, memset

from binlogio._kernel.base.cursor cimport little, u32
from binlogio._kernel.base.event_bytes cimport fitting_width, put_lenenc, put_little, stamp_event
from binlogio._kernel.base.event_codes cimport *
from binlogio._kernel.primitives cimport Memory, room
from binlogio._kernel.scan.event_types cimport is_any_rows, is_group_start, size_before_sql
from binlogio._kernel.scan.groups cimport is_commit

cdef enum GroupFate:
    F_KEPT = 0
    F_EMPTIED = 1
    F_DROPPED = 2
    F_LEFT = 3  # left to the caller

cdef enum:
    E_ENDS = 2  # bit 2 of `group_edges`
    MOST_MAPPED = 32  # most tables in a group
    RECENT = 64
    NAMES_AT = HEADER_SIZE + 8  # offset of the names in a table map
    ROWS_FLAGS_AT = HEADER_SIZE + 6
    STATEMENT_AT = HEADER_SIZE + 8  # offset in a QUERY_EVENT after thread id and time
    CLOCK_END = HEADER_SIZE + 1 + 16 + 8 + 1 + 8 + 8  # end of the logical clock in a GTID event


cdef class EditedTable:
    """Result of the filters for a table; `names` are the bytes of schema and table in the new table map if they change.
    """

    cdef object name
    cdef bint is_wanted
    cdef bytes names, source

    def __init__(self, name, bint is_wanted, bytes names):
        self.name, self.is_wanted, self.names = name, is_wanted, names


cdef class WholeGroupEditor:
    """Edits groups of one format.

    Args:
        had_checksum, has_checksum: whether events end in a checksum, before and after.
        drops_empty: remove groups that become empty; otherwise only those without a GTID.
        left: event types that make a group be left to the caller.
        unwanted: types of rows events that are removed.
        table_of: function from the bytes of schema and table in a table map to an EditedTable; None to keep rows events
            unchanged.
        bound_of: function from the bytes of BEGIN, COMMIT or ROLLBACK after thread id and time to those in the new log;
            None to keep them.
    """

    cdef bint had_checksum, has_checksum, drops_empty
    cdef uint8_t[256] is_left, is_unwanted
    cdef object table_of, bound_of
    cdef dict tables, bounds, dropped
    cdef void* recent[RECENT]  # cache of `tables`, by table id
    cdef Memory out

    def __cinit__(self, *, bint had_checksum, bint has_checksum, bint drops_empty, left, unwanted, table_of, bound_of):
        cdef int code
        self.had_checksum, self.has_checksum, self.drops_empty = had_checksum, has_checksum, drops_empty
        for code in range(256):
            self.is_left[code], self.is_unwanted[code] = code in left, code in unwanted
        self.table_of, self.bound_of = table_of, bound_of
        self.tables, self.bounds = {}, {}
        self.out = Memory()
        self._forget_tables()

    cdef void _forget_tables(self):
        self.tables.clear()
        memset(self.recent, 0, sizeof(self.recent))

    def edit(self, const uint8_t[::1] data, const int64_t[::1] starts, const uint8_t[::1] edges, int64_t number,
             int64_t offset):
        """Edit the groups from event `number`, up to the first one that is left to the caller.

        Returns a byte per group (0: kept, 1: nothing is left of it, 2: removed), the edited events with the positions
        and checksums for file offset `offset`, and the number of removed rows events by table.
        """
        cdef int64_t end, kept, size
        cdef int fate
        fates = bytearray()
        self.dropped = {}
        if self.out.views:
            self.out = Memory()
        self.out.size = 0
        while number < starts.shape[0]:
            end = number
            while end < starts.shape[0] and not edges[end] & E_ENDS:
                end += 1
            if end == starts.shape[0]:
                break
            kept = self.out.size
            fate = self._group(&data[0], &starts[number], end + 1 - number)
            if fate == F_LEFT:
                self.out.size = kept
                break
            fates.append(fate)
            number = end + 1
            while kept < self.out.size:
                size = u32(self.out.data + kept + 9)
                stamp_event(self.out.data + kept, size, offset + kept + size, self.has_checksum)
                kept += size
        return bytes(fates), self.out, self.dropped

    cdef int _group(self, const uint8_t* data, const int64_t* starts, int64_t count) except -1:
        """Append one group, and return its fate."""
        cdef Memory out = self.out
        cdef const uint8_t* p
        cdef const uint8_t* begin = data + starts[0]
        cdef int64_t i, size
        cdef int64_t kept = out.size
        cdef int64_t lead = -1  # index of the events that the statement's next rows event needs; -1: none
        cdef int64_t rows = -1  # the last rows event of the statement
        cdef bint has_start = is_group_start(begin[4])
        cdef bint has_change = False
        cdef bint has_dropped = False
        cdef uint8_t code
        cdef int mapped = 0
        cdef int number
        cdef uint64_t[MOST_MAPPED] ids
        cdef int64_t[MOST_MAPPED] dropped
        cdef void* tables[MOST_MAPPED]  # references to members of `self.tables`
        cdef EditedTable table
        if len(self.tables) >= MOST_ANSWERS:
            self._forget_tables()
        for i in range(count):
            p = data + starts[i]
            code = p[4]
            size = u32(p + 9) - (CHECKSUM_SIZE if self.had_checksum else 0)
            if self.is_left[code]:
                return F_LEFT
            if self.table_of is None or i == 0 and has_start:
                self._put(p, size)
            elif code == TABLE_MAP_EVENT:
                table = self._table(p, size)
                if table is None:
                    return F_LEFT
                number = _place_of(ids, mapped, little(p + HEADER_SIZE, 6))
                if number == MOST_MAPPED:
                    return F_LEFT
                if number == mapped:
                    mapped += 1
                    ids[number], dropped[number] = little(p + HEADER_SIZE, 6), 0
                elif dropped[number] and <void*>table != tables[number]:
                    return F_LEFT
                tables[number] = <void*>table
                if table.is_wanted:
                    lead = out.size if lead < 0 else lead
                    self._put_with(p, size, NAMES_AT, NAMES_AT + _names_size(p), table.names)
            elif is_any_rows(code):
                if size <= ROWS_FLAGS_AT:
                    return F_LEFT
                number = _place_of(ids, mapped, little(p + HEADER_SIZE, 6))
                if number == mapped or (<EditedTable>tables[number]).is_wanted and not self.is_unwanted[code]:
                    lead, rows = -1, out.size
                    self._put(p, size)
                    has_change |= number < mapped
                else:
                    has_dropped = True
                    dropped[number] += 1
                if p[ROWS_FLAGS_AT] & 1:  # the end of the statement
                    if rows >= 0 and not out.data[rows + ROWS_FLAGS_AT] & 1:
                        out.data[rows + ROWS_FLAGS_AT] |= 1
                    if lead >= 0:
                        out.size = lead
                    lead = rows = -1
            elif code == ROWS_QUERY_LOG_EVENT or code == ANNOTATE_ROWS_EVENT:
                lead = out.size if lead < 0 else lead
                self._put(p, size)
            elif lead >= 0:
                return F_LEFT
            else:
                rows = -1
                if code != QUERY_EVENT:
                    has_change |= code == INCIDENT_EVENT
                    self._put(p, size)
                    continue
                if not _is_bound(p + HEADER_SIZE, p + size):
                    return F_LEFT
                bound = None if self.bound_of is None else self._bound(p, size)
                self._put_with(p, size, STATEMENT_AT, size, bound)
        if lead >= 0:
            return F_LEFT
        for number in range(mapped):
            if dropped[number]:
                name = (<EditedTable>tables[number]).name
                self.dropped[name] = self.dropped.get(name, 0) + dropped[number]
        if has_dropped and not has_change and (
                self.drops_empty or not has_start or begin[4] == ANONYMOUS_GTID_LOG_EVENT):
            out.size = kept
            return F_DROPPED
        if has_start and begin[4] != MARIADB_GTID_EVENT:
            self._set_length(kept)
        return F_EMPTIED if has_dropped and not has_change else F_KEPT

    cdef int _put(self, const uint8_t* p, int64_t size) except -1:
        """Append an event of `size` bytes without its checksum."""
        cdef int64_t whole = size + (CHECKSUM_SIZE if self.has_checksum else 0)
        cdef uint8_t* out = room(self.out, whole)
        memcpy(out, p, size)
        put_little(out + 9, whole, 4)
        return 0

    cdef int _put_with(self, const uint8_t* p, int64_t size, int64_t begin, int64_t end, bytes other) except -1:
        """Append an event with the bytes from `begin` to `end` replaced by `other`; None keeps them."""
        cdef int64_t whole
        cdef uint8_t* out
        if other is None:
            return self._put(p, size)
        whole = size - (end - begin) + len(other) + (CHECKSUM_SIZE if self.has_checksum else 0)
        out = room(self.out, whole)
        memcpy(out, p, begin)
        memcpy(out + begin, <const char*>other, len(other))
        memcpy(out + begin + len(other), p + end, size - end)
        put_little(out + 9, whole, 4)
        return 0

    cdef EditedTable _table(self, const uint8_t* p, int64_t size):
        """Return the table of a table map; None if its names are incomplete."""
        cdef void** recent = self.recent + p[HEADER_SIZE] % RECENT
        cdef int64_t names_size
        cdef bytes names
        cdef EditedTable found
        if size < NAMES_AT + 4 or size < NAMES_AT + p[NAMES_AT] + 3:
            return None
        names_size = _names_size(p)
        if size < NAMES_AT + names_size:
            return None
        if recent[0] != NULL:
            names = (<EditedTable>recent[0]).source
            if len(names) == names_size and memcmp(p + NAMES_AT, <const char*>names, names_size) == 0:
                return <EditedTable>recent[0]
        names = p[NAMES_AT:NAMES_AT + names_size]
        found = self.tables.get(names)
        if found is None:
            found = self.tables[names] = self.table_of(names)
            found.source = names
        recent[0] = <void*>found
        return found

    cdef bytes _bound(self, const uint8_t* p, int64_t size):
        cdef bytes old = p[STATEMENT_AT:size]
        found = self.bounds.get(old)
        if found is None:
            if len(self.bounds) >= MOST_ANSWERS:
                self.bounds.clear()
            found = self.bounds[old] = self.bound_of(<bytes>p[:size])
        return found

    cdef int _set_length(self, int64_t at) except -1:
        """Write the transaction length into the GTID event at byte `at`, if the event has this field."""
        cdef Memory out = self.out
        cdef uint8_t* p = out.data + at
        cdef int64_t tail = CHECKSUM_SIZE if self.has_checksum else 0
        cdef int64_t size = u32(p + 9)
        cdef int64_t place = CLOCK_END + 7
        cdef int64_t old, rest
        cdef int width
        if size - tail <= CLOCK_END + 7:
            return 0
        if p[CLOCK_END + 6] & 0x80:  # the original commit timestamp is present
            place += 7
        if size - tail <= place:
            return 0
        old = 9 if p[place] == 0xFE else (4 if p[place] == 0xFD else (3 if p[place] == 0xFC else 1))
        if size - tail < place + old:
            return 0
        rest = out.size - at - old
        width = fitting_width(GTID_LOG_EVENT, 0, rest)
        if width > old:
            out.grow(width - old)
        p = out.data + at
        memmove(p + place + width, p + place + old, rest - place)
        out.size = at + rest + width
        put_lenenc(p + place, rest + width)
        put_little(p + 9, size - old + width, 4)
        return 0


cdef inline int _place_of(const uint64_t* ids, int count, uint64_t table_id) noexcept nogil:
    """Return the index of a table id; `count` if it is missing."""
    cdef int number
    for number in range(count):
        if ids[number] == table_id:
            return number
    return count


cdef inline int64_t _names_size(const uint8_t* table_map) noexcept nogil:
    """Return the size of schema and table in a table map, with their length bytes and zero bytes."""
    cdef int64_t schema_size = 2 + table_map[NAMES_AT]
    return schema_size + 2 + table_map[NAMES_AT + schema_size]


cdef inline bint _is_bound(const uint8_t* body, const uint8_t* end) noexcept nogil:
    """Return whether the statement of a QUERY_EVENT is BEGIN, COMMIT or ROLLBACK."""
    cdef int64_t size = size_before_sql(body, end)
    cdef const uint8_t* sql = body + size
    return size > 0 and (end - sql == 5 and memcmp(sql, b"BEGIN", 5) == 0 or is_commit(sql, end - sql)
                         or end - sql == 8 and memcmp(sql, b"ROLLBACK", 8) == 0)
