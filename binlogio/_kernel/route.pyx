# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""From a buffer of events to the rows events that somebody wants: headers, checksums, GTIDs, table maps, rows events' frames.

Knows of each event only what that takes. What it cannot judge it leaves to its caller, by the status that `route` returns: an event
that is malformed is always left to construct, whose error is then the one that people see.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcmp, memcpy, memset

from binlogio._kernel.codes cimport *
from binlogio._kernel.crc cimport crc32
from binlogio._kernel.cursor cimport big, lenenc, little, u16, u32, u48, u64, varlen
from binlogio._kernel.images cimport DELETE, INSERT, PARTIAL_UPDATE, UPDATE, ImagePlan, Plan, RowsEvent, count_rows, plain_images
from binlogio._kernel.inflate cimport inflate
from binlogio._kernel.memory cimport Memory

NEED_DATA = 0  # the event at the position is not whole
DESCRIPTION = 1  # a description of the format, or the start of encryption: what it says changes how the rest is to be read
BIG_PAYLOAD = 2  # a compressed transaction that should not be opened as a whole
BAD_EVENT = 4  # not what its layout says; construct will tell what is wrong
FULL = 5  # enough rows were found
STOP = 6  # an event group begins at or behind `stop_offset`

cdef enum Status:
    S_NEED_DATA = 0
    S_DESCRIPTION = 1
    S_BIG_PAYLOAD = 2
    S_BAD_EVENT = 4
    S_FULL = 5
    S_STOP = 6
    S_GO_ON = 100

cdef enum:
    SLOTS = 1024
    NOT_MAPPED = -1
    POST_HEADER_V0 = 4 + 2  # bytes, with the table id of 5.1.4 and before
    POST_HEADER_V1 = 6 + 2
    POST_HEADER_V2 = 6 + 2 + 2
    MAX_UNCOMPRESSED_SIZE = 1 << 30  # the server's max_allowed_packet cannot be larger

cdef uint64_t GNO_END = 0x7FFFFFFFFFFFFFFFULL


cdef class Router:
    """Walks event buffers and collects rows events, in order, with the group and the plan that each belongs to.

    The buffers that it walked must stay alive until `clear`: what it collects points into them.

    Args:
        resolve_plan: from the body of a TABLE_MAP_EVENT (bytes) to an ImagePlan. Asked once for each different body.
        open_payload: from the body of a TRANSACTION_PAYLOAD_EVENT (bytes) to its plain events (bytes), or None where it is too big.
        checksum, verify: events end in a CRC32; compare it.
        follow: takes (type code, body) of each statement that could change what a table is, and says whether plans made before it may be
            wrong now. None where nobody wants to know.
    """

    def __cinit__(self, resolve_plan, open_payload, *, bint checksum, bint verify=True, follow=None):
        self.resolve_plan = resolve_plan
        self.open_payload = open_payload
        self.last_plan = NOT_MAPPED
        self.checksum = checksum
        self.verify = verify
        self.follow = follow
        self.follows = follow is not None
        self.plans = []
        self.by_body = {}
        self.by_plan = {}
        self.by_table = {}
        self.overflow = {}
        self.keep = []
        self.statement = 1
        self.stop_offset = <int64_t>1 << 62
        self.renumber(range(256))
        self.describe(checksum=checksum, post_headers={})
        self.slots = <Slot*>calloc(SLOTS, sizeof(Slot))
        if self.slots == NULL:
            raise MemoryError("no memory for the table maps")
        self._new_group().kind = NO_GTID

    def __dealloc__(self):
        cdef int i
        if self.slots != NULL:
            for i in range(SLOTS):
                free(self.slots[i].body)
        free(self.slots)
        free(self.server_ids)
        free(self.groups)
        free(self.events)
        free(self.cores)

    @property
    def rows_event_count(self) -> int:
        """How many rows events were collected since `clear`."""
        return self.event_count

    @property
    def last_table(self) -> object:
        """What the plan was made of, of the rows event that was looked at last; None where nothing defines its table."""
        return None if self.last_plan < 0 else self.plans[self.last_plan].table

    def rows_event(self, int64_t number) -> tuple[int, int, int, bytes, bytes, bytes]:
        """Of a rows event: its type, the number of its plan, where it stands, the bitmaps, the images."""
        cdef RowsEvent* event
        cdef int64_t bitmap_bytes
        if not 0 <= number < self.event_count:
            raise IndexError(f"rows event {number} of {self.event_count}")
        event = self.events + number
        bitmap_bytes = self.cores[event.plan].bitmap_bytes
        return (
            event.code,
            event.plan,
            event.pos,
            <bytes>(<const char*>event.present)[:bitmap_bytes],
            <bytes>(<const char*>event.present_after)[:bitmap_bytes],
            <bytes>(<const char*>event.images)[:event.size],
        )

    def first_row(self, int64_t number) -> int:
        """The number of the first row of a rows event at its position, where events inside a payload follow one another."""
        return self.events[number].first_row if 0 <= number < self.event_count else -1

    def found(self) -> list[tuple[int, int]]:
        """(plan, its first rows event) of each stretch of rows events of one plan, in their order; lets `Batch.fill` go through a stretch.

        A stretch ends where the same table has another plan, so that a table's rows stay in order.
        """
        cdef list firsts = []
        cdef int64_t number
        cdef int64_t* last = <int64_t*>malloc((len(self.plans) + 1) * sizeof(int64_t))
        cdef RowsEvent* event
        cdef int32_t table
        if last == NULL:
            raise MemoryError("no memory for another table")
        memset(last, 0xFF, (len(self.plans) + 1) * sizeof(int64_t))
        for number in range(self.event_count):
            event = self.events + number
            event.next = self.event_count
            table = self.cores[event.plan].table_number
            if last[table] < 0 or self.events[last[table]].plan != event.plan:
                firsts.append((event.plan, number))
            else:
                self.events[last[table]].next = number
            last[table] = number
        free(last)
        return firsts

    def describe(self, *, bint checksum, post_headers, unknown=()) -> None:
        """Take what a format description says: whether there are checksums, and by type the size of its post-header in bytes.

        The types in `unknown` have one of a size that no server has. Types that are not there have those of MySQL 5.5 and later.
        """
        cdef int code
        self.checksum = checksum
        for code in range(256):
            self.post_headers[code] = post_headers.get(code, POST_HEADER_V2 if code >= WRITE_ROWS_EVENT else POST_HEADER_V1)
            self.unknown_post_header[code] = code in unknown
        self.table_id_size = 4 if self.post_headers[<int>TABLE_MAP_EVENT] == POST_HEADER_V0 else 6

    def renumber(self, codes) -> None:
        """Say what each of the 256 type codes is in the numbers of today's servers."""
        cdef int code
        if len(codes) != 256:
            raise ValueError(f"{len(codes)} type codes")
        for code in range(256):
            self.codes[code] = codes[code]

    def stop_at(self, int64_t offset) -> None:
        """Return STOP before the first event group that begins at or behind `offset`."""
        self.stop_offset = offset

    def choose(self, *, pos, timestamp, server_ids, operations, wants_group) -> None:
        """Leave out rows events: `pos` and `timestamp` are (start, end), `operations` numbers, `server_ids` and `wants_group` None for any.

        `wants_group` is asked once a group, with the GTID as text, or None.
        """
        cdef int64_t i
        self.is_choosy = True
        self.pos_start, self.pos_end = pos
        self.time_start, self.time_end = timestamp
        self.operations = 0
        for operation in operations:
            self.operations |= 1 << <int>operation
        self.server_id_count = -1
        if server_ids is not None:
            self.server_id_count = len(server_ids)
            free(self.server_ids)
            self.server_ids = <uint32_t*>malloc((self.server_id_count + 1) * sizeof(uint32_t))
            if self.server_ids == NULL:
                raise MemoryError("no memory for server ids")
            for i, number in enumerate(server_ids):
                self.server_ids[i] = number
        self.wants_group = wants_group
        self._ask_for_group()

    def describe_part(self, *, bint checksum) -> None:
        """Say whether what is routed next has checksums."""
        self.checksum = checksum

    def number_rows_from(self, int32_t first_row) -> None:
        """The next rows event goes on with an event that was given in part: its rows are numbered from `first_row` on."""
        self.next_first_row = first_row

    def pass_inner_rows(self, int64_t count) -> None:
        """Count rows of a payload that were taken in parts."""
        self.inner_rows += count

    def count_rows(self, const uint8_t[::1] data) -> tuple[int, int]:
        """The whole rows of a rows event without a checksum, whose table may be skipped, and how many bytes they are."""
        cdef RowsEvent event
        cdef int64_t taken = 0
        cdef int64_t rows = 0
        cdef const uint8_t* p = &data[0]
        if data.shape[0] >= HEADER_SIZE and self._open_rows(
                self.codes[p[4]], p + HEADER_SIZE, p + data.shape[0], True, &event) == S_GO_ON:
            rows = count_rows(self.cores[event.plan], &event, &taken)
        return rows, taken

    def end_statement(self) -> None:
        """A rows event that was given in part, and is now whole, ended its statement."""
        self._forget_overflow()

    def forget_plans(self) -> None:
        """Resolve every table map anew: the tables' definitions have changed."""
        cdef int i
        self.by_body.clear()
        for i in range(SLOTS):
            self.slots[i].size = -1

    def clear(self) -> None:
        """Drop the rows events; the current group and the table maps stay."""
        self.drop_events()
        self.kept_bytes = 0
        self.keep = []

    cdef void drop_events(self) noexcept nogil:
        """As `clear`, where nothing was unpacked."""
        self.groups[0] = self.groups[self.group_count - 1]
        self.group_count = 1
        self.event_count = 0
        self.rows_bytes = 0

    cdef int walk(self, const uint8_t* data, int64_t size, int64_t* at, int64_t base) except -1 nogil:
        """As `route`, without a limit, for bytes of a file."""
        cdef int status = S_GO_ON
        while status == S_GO_ON:
            status = self._route(data, size, at, base, -1)
        return status

    def route(self, const uint8_t[::1] data, int64_t at, int64_t base, int64_t full=1 << 62, int64_t pos=-1, bint new_pos=True):
        """Walk the events of `data` from `at` on; returns (status, where it stopped).

        `data[0]` stands at offset `base` of the file. For the events of a payload `pos` is the offset of the payload event, and
        `new_pos` tells that its rows begin to be counted. Stops with FULL when the images found are more than `full` bytes.
        """
        cdef int status = S_NEED_DATA
        if pos >= 0 and new_pos:
            self.inner_rows = 0
        if data.shape[0] > at:
            with nogil:
                while True:
                    status = self._route(&data[0], data.shape[0], &at, base, pos)
                    if status != S_GO_ON:
                        break
                    if self.rows_bytes + self.kept_bytes > full:
                        status = S_FULL
                        break
        return status, at

    cdef int _route(self, const uint8_t* data, int64_t size, int64_t* at, int64_t base, int64_t pos) except -1 nogil:
        """One event; moves `at` behind it where it was taken."""
        cdef const uint8_t* p
        cdef const uint8_t* body
        cdef const uint8_t* end
        cdef uint32_t event_size
        cdef int tail = CHECKSUM_SIZE if self.checksum and pos < 0 else 0
        cdef int status = S_GO_ON
        cdef uint8_t code
        if size - at[0] < HEADER_SIZE:
            return S_NEED_DATA
        p = data + at[0]
        event_size = u32(p + 9)
        code = self.codes[p[4]]
        if code == FORMAT_DESCRIPTION_EVENT or code == START_ENCRYPTION_EVENT or code == START_EVENT_V3:
            return S_DESCRIPTION
        if event_size < <uint32_t>(HEADER_SIZE + tail):
            return S_BAD_EVENT
        if event_size > size - at[0]:
            return S_NEED_DATA
        if pos < 0 and base + at[0] >= self.stop_offset and (
                code == GTID_LOG_EVENT or code == ANONYMOUS_GTID_LOG_EVENT or code == GTID_TAGGED_LOG_EVENT
                or code == MARIADB_GTID_EVENT):
            return S_STOP
        body = p + HEADER_SIZE
        end = p + event_size - tail
        if tail and self.verify:
            self.stored = u32(end)
            self.actual = crc32(0, p, event_size - tail)
            if self.stored != self.actual:
                return S_BAD_EVENT
        if PRE_GA_WRITE_ROWS_EVENT <= code <= DELETE_ROWS_EVENT_V1 or WRITE_ROWS_EVENT <= code <= DELETE_ROWS_EVENT or (
                code == PARTIAL_UPDATE_ROWS_EVENT):
            status = self._rows(code, p, body, end, base + at[0] if pos < 0 else pos, pos >= 0)
        elif self.unknown_post_header[code] and code < WRITE_ROWS_COMPRESSED_EVENT_V1:
            status = S_BAD_EVENT
        elif code == TABLE_MAP_EVENT:
            status = self._table_map(body, end)
        elif code == GTID_LOG_EVENT or code == ANONYMOUS_GTID_LOG_EVENT:
            status = self._gtid(body, end)
            if status == S_GO_ON and code == ANONYMOUS_GTID_LOG_EVENT:
                self.groups[self.group_count - 1].kind = NO_GTID
                if self.groups[self.group_count - 1].number:
                    status = S_BAD_EVENT
            elif status == S_GO_ON and not 0 < self.groups[self.group_count - 1].number < GNO_END:
                status = S_BAD_EVENT
        elif code == GTID_TAGGED_LOG_EVENT:
            status = self._gtid_tagged(body, end)
        elif code == MARIADB_GTID_EVENT:
            status = self._gtid_mariadb(p, body, end)
        elif code == TRANSACTION_PAYLOAD_EVENT and pos < 0:
            status = self._payload(p, body, end, base + at[0])
        elif WRITE_ROWS_COMPRESSED_EVENT_V1 <= code <= DELETE_ROWS_COMPRESSED_EVENT:
            status = self._rows(code, p, body, end, base + at[0] if pos < 0 else pos, pos >= 0)
        elif self.follows and ((code == QUERY_EVENT and _may_define(body, end)) or code == QUERY_COMPRESSED_EVENT):
            self._follow(code, body, end - body)
        if status == S_GO_ON:
            at[0] += event_size
            if self.is_choosy and (code == GTID_LOG_EVENT or code == ANONYMOUS_GTID_LOG_EVENT
                                   or code == GTID_TAGGED_LOG_EVENT or code == MARIADB_GTID_EVENT):
                self._ask_for_group()
        return status

    cdef int _ask_for_group(self) except -1 with gil:
        """Whether the newest group is wanted."""
        cdef Group* group = self.groups + self.group_count - 1
        if self.wants_group is None:
            self.wants_this_group = True
        elif group.kind == NO_GTID:
            self.wants_this_group = self.wants_group(None)
        elif group.kind == MARIADB_GTID:
            self.wants_this_group = self.wants_group(f"{group.domain_id}-{group.server_id}-{group.number}")
        else:
            digits = (<bytes>(<const char*>group.uuid)[:16]).hex()
            tag = (<bytes>group.tag[:group.tag_size]).decode("latin-1") + ":" if group.tag_size else ""
            self.wants_this_group = self.wants_group(
                f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}:{tag}{group.number}"
            )
        return 0

    cdef bint _is_wanted(self, const RowsEvent* event) noexcept nogil:
        cdef int64_t i
        if not self.wants_this_group or not self.pos_start <= event.pos < self.pos_end or (
                not self.time_start <= <int64_t>event.timestamp < self.time_end) or (
                not self.operations >> event.operation & 1):
            return False
        for i in range(self.server_id_count):
            if self.server_ids[i] == event.server_id:
                return True
        return self.server_id_count < 0

    cdef int _follow(self, uint8_t code, const uint8_t* body, int64_t size) except -1 with gil:
        """A statement that could change what a table is."""
        if self.follow(code, <bytes>(<const char*>body)[:size]):
            self.forget_plans()
        return 0

    cdef Group* _new_group(self) except NULL nogil:
        cdef void* moved
        cdef Group* group
        if self.group_count == self.group_capacity:
            moved = realloc(self.groups, (self.group_capacity * 2 + 64) * sizeof(Group))
            if moved == NULL:
                with gil:
                    raise MemoryError("no memory for event groups")
            self.groups = <Group*>moved
            self.group_capacity = self.group_capacity * 2 + 64
        group = self.groups + self.group_count
        self.group_count += 1
        group.kind = NO_GTID
        group.tag_size = 0
        group.last_committed = -1
        group.sequence_number = -1
        return group

    cdef int _gtid(self, const uint8_t* body, const uint8_t* end) except -1 nogil:
        cdef Group* group
        if end - body < 25:
            return S_BAD_EVENT
        if end - body >= 26 and body[25] == 2 and (end - body < 42 or not _clock_fits(body + 42, end)):
            return S_BAD_EVENT
        group = self._new_group()
        group.kind = MYSQL_GTID
        memcpy(group.uuid, body + 1, 16)
        group.number = u64(body + 17)
        if end - body >= 42 and body[25] == 2:
            group.last_committed = <int64_t>u64(body + 26)
            group.sequence_number = <int64_t>u64(body + 34)
        return S_GO_ON

    cdef int _gtid_tagged(self, const uint8_t* body, const uint8_t* end) except -1 nogil:
        """Fields in the order of their numbers, each behind its number; three of them may be missing."""
        cdef Group* group
        cdef Group found
        cdef const uint8_t* at = body
        cdef const uint8_t* before
        cdef uint64_t value = 0
        cdef uint64_t size = 0
        cdef uint64_t last = 0
        cdef int i, field
        found.kind = MYSQL_GTID
        found.tag_size = 0
        if not varlen(&at, end, &value) or value != 1 or not varlen(&at, end, &size) or not varlen(&at, end, &last) or last > 12:
            return S_BAD_EVENT
        if size != <uint64_t>(end - at) + 1 + _varlen_size(end - at) + _varlen_size(last):
            return S_BAD_EVENT
        for field in range(12):
            before = at
            if at == end or not varlen(&at, end, &value) or value != <uint64_t>field:
                if field == 7 or field >= 10:
                    if before != end and at == before:
                        return S_BAD_EVENT
                    at = before
                    continue
                return S_BAD_EVENT
            if field == 1:
                for i in range(16):
                    if not varlen(&at, end, &value) or value > 255:
                        return S_BAD_EVENT
                    found.uuid[i] = <uint8_t>value
                continue
            if not varlen(&at, end, &value):
                return S_BAD_EVENT
            if field == 0 and value > 255 or (field == 9 or field == 10) and value >> 32:
                return S_BAD_EVENT
            if field == 2:
                found.number = value >> 1
                if value & 1 or not 0 < found.number < GNO_END:
                    return S_BAD_EVENT
            elif field == 3:
                if <uint64_t>(end - at) < value or not _is_tag(at, value):
                    return S_BAD_EVENT
                found.tag_size = <uint8_t>value
                memcpy(found.tag, at, value)
                at += value
            elif field == 4:
                found.last_committed = <int64_t>(value >> 1) ^ -<int64_t>(value & 1)
            elif field == 5:
                found.sequence_number = <int64_t>(value >> 1) ^ -<int64_t>(value & 1)
        if at != end and (not varlen(&at, end, &value) or value <= 11):
            return S_BAD_EVENT
        group = self._new_group()
        group[0] = found
        return S_GO_ON

    cdef int _gtid_mariadb(self, const uint8_t* header, const uint8_t* body, const uint8_t* end) except -1 nogil:
        cdef Group* group
        if end - body < 13 or not _mariadb_fits(body + 13, end, body[12]):
            return S_BAD_EVENT
        group = self._new_group()
        group.kind = MARIADB_GTID
        group.number = u64(body)
        group.domain_id = u32(body + 8)
        group.server_id = u32(header + 5)
        return S_GO_ON

    cdef int _table_map(self, const uint8_t* body, const uint8_t* end) except -1 nogil:
        """Find the plan: that of the last map with the same id where the bytes are the same, else by the bytes, else anew."""
        cdef uint64_t table_id
        cdef Slot* slot
        cdef const uint8_t* rest = body + self.table_id_size
        cdef int64_t size = end - rest
        if size < 6:
            return S_BAD_EVENT
        table_id = little(body, self.table_id_size)
        slot = self.slots + (table_id & (SLOTS - 1))
        if slot.body != NULL and slot.table_id == table_id and slot.size == size and memcmp(slot.body, rest, size) == 0:
            slot.statement = self.statement
            return S_GO_ON
        return self._new_table_map(table_id, rest, size, body)

    cdef int _new_table_map(self, uint64_t table_id, const uint8_t* rest, int64_t size, const uint8_t* body) except -1 with gil:
        """A function of its own, since one with Python variables takes the lock each time it returns."""
        cdef Slot* slot = self.slots + (table_id & (SLOTS - 1))
        cdef void* copy
        plan = self._plan_number(rest, size, body)
        if plan < 0:
            return S_BAD_EVENT
        if slot.statement == self.statement and slot.table_id != table_id:
            self.overflow[table_id] = plan
            self.overflow_count += 1
            return S_GO_ON
        copy = realloc(slot.body, size)
        if copy == NULL:
            raise MemoryError("no memory for a table map")
        slot.body = <uint8_t*>copy
        memcpy(slot.body, rest, size)
        slot.size = size
        slot.table_id = table_id
        slot.statement = self.statement
        slot.plan = plan
        self.overflow.pop(table_id, None)
        return S_GO_ON

    cdef object _plan_number(self, const uint8_t* rest, int64_t size, const uint8_t* body):
        """The plan of a table map's bytes; -1 where construct refuses them, which the caller then tells."""
        key = <bytes>(<const char*>rest)[:size]
        number = self.by_body.get(key)
        if number is None:
            plan = self.resolve_plan(<bytes>(<const char*>body)[:size + (rest - body)])
            if plan is None:
                return -1
            number = self.by_body[key] = self.by_plan.setdefault(plan, len(self.plans))
            if number < len(self.plans):
                return number
            self.plans.append(plan)
            self.cores = <Plan**>realloc(self.cores, len(self.plans) * sizeof(void*))
            if self.cores == NULL:
                raise MemoryError("no memory for another table")
            self.cores[number] = &(<ImagePlan?>plan).core
            table = (<ImagePlan>plan).table
            name = None if table is None else (table.schema, table.table)
            self.cores[number].table_number = self.by_table.setdefault(name, len(self.by_table))
        return number

    cdef int _forget_overflow(self) except -1 nogil:
        """A statement has ended: its table maps are no longer valid."""
        self.statement += 1
        if self.overflow_count:
            with gil:
                self.overflow.clear()
            self.overflow_count = 0
        return 0

    cdef int32_t _plan_of(self, uint64_t table_id) except -2 nogil:
        cdef Slot* slot = self.slots + (table_id & (SLOTS - 1))
        if slot.statement == self.statement and slot.table_id == table_id:
            return slot.plan
        if self.overflow_count == 0:
            return NOT_MAPPED
        with gil:
            return self.overflow.get(table_id, NOT_MAPPED)

    cdef int _rows(self, uint8_t code, const uint8_t* header, const uint8_t* body, const uint8_t* end, int64_t pos,
                   bint inner) except -1 nogil:
        cdef RowsEvent event
        cdef Plan* plan
        cdef void* moved
        cdef int64_t rows
        cdef int64_t taken = 0
        cdef int status
        event.pos = pos
        event.timestamp = u32(header)
        event.server_id = u32(header + 5)
        event.group = <int32_t>(self.group_count - 1)
        event.first_row = self.next_first_row
        status = self._open_rows(code, body, end, inner, &event)
        if status != S_GO_ON or event.images == NULL:
            return status
        plan = self.cores[event.plan]
        if inner:
            rows = count_rows(plan, &event, &taken)
            if taken != event.size:
                return S_BAD_EVENT
            event.first_row = <int32_t>self.inner_rows
            self.inner_rows += rows
            if not plan.wanted:
                return S_GO_ON
            if self.is_choosy and not self._is_wanted(&event):
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
        self.rows_bytes += event.size
        return S_GO_ON

    cdef int _open_rows(self, uint8_t code, const uint8_t* body, const uint8_t* end, bint skipped_too,
                        RowsEvent* event) except -1 nogil:
        """What stands before the images, and where they are; nowhere where nobody wants them, and `skipped_too` does not ask for them all the same."""
        cdef uint64_t table_id, columns = 0
        cdef int64_t bitmap_bytes
        cdef uint64_t flags
        cdef const uint8_t* at = body
        cdef Plan* plan
        cdef int post_header = self.post_headers[code]
        cdef int id_size = 4 if post_header == POST_HEADER_V0 else 6
        cdef int64_t extra
        event.images = NULL
        if end - at < max(post_header, id_size + 2):
            return S_BAD_EVENT
        table_id = little(at, id_size)
        flags = u16(at + id_size)
        at += post_header
        self.last_plan = event.plan = self._plan_of(table_id)
        if event.plan == NOT_MAPPED:
            return S_BAD_EVENT
        if flags & 1:
            self._forget_overflow()
        plan = self.cores[event.plan]
        if not plan.wanted and not skipped_too:
            return S_GO_ON
        if self.unknown_post_header[code]:
            return S_BAD_EVENT
        if post_header == POST_HEADER_V2:
            extra = <int64_t>u16(at - 2) - 2
            if extra < 0 or end - at < extra:
                return S_BAD_EVENT
            at += extra
        if not lenenc(&at, end, &columns) or columns > <uint64_t>(8 * (end - at)):
            return S_BAD_EVENT
        bitmap_bytes = <int64_t>(columns + 7) // 8
        event.operation = _operation(code)
        event.code = code
        event.present = at
        event.present_after = at
        if end - at < bitmap_bytes:
            return S_BAD_EVENT
        at += bitmap_bytes
        if event.operation == PARTIAL_UPDATE or (event.operation == UPDATE and code != PRE_GA_UPDATE_ROWS_EVENT):
            if end - at < bitmap_bytes:
                return S_BAD_EVENT
            event.present_after = at
            at += bitmap_bytes
        event.images = at
        event.size = end - at
        if WRITE_ROWS_COMPRESSED_EVENT_V1 <= code <= DELETE_ROWS_COMPRESSED_EVENT and not self._inflate(event):
            return S_BAD_EVENT
        if self.is_choosy and not skipped_too and not self._is_wanted(event):
            event.images = NULL
            return S_GO_ON
        if columns != <uint64_t>plan.column_count:
            return S_BAD_EVENT
        if code <= PRE_GA_DELETE_ROWS_EVENT and not self._make_plain(plan, event):
            return S_BAD_EVENT
        return S_GO_ON

    cdef int _inflate(self, RowsEvent* event) except -1 nogil:
        """Open the images of a compressed rows event of MariaDB; 0 where they are none. `binlogio.events.compressed` has the form."""
        cdef const uint8_t* p = event.images
        cdef int size_bytes
        cdef int64_t size
        if event.size == 0:
            return 0
        size_bytes = p[0] & 7
        if not p[0] & 0x80 or p[0] & 0x70 or not 1 <= size_bytes <= 4 or event.size < 1 + size_bytes:
            return 0
        size = <int64_t>big(p + 1, size_bytes)
        if size > MAX_UNCOMPRESSED_SIZE:
            return 0
        with gil:
            self.plain = Memory()
            self.keep.append(self.plain)
        if not inflate(self.plain, p + 1 + size_bytes, event.size - 1 - size_bytes, size, False, True):
            return 0
        event.images = self.plain.data
        event.size = size
        self.kept_bytes += size
        return 1

    cdef int _make_plain(self, Plan* plan, RowsEvent* event) except -1 nogil:
        """Make an event of 5.1 before GA one of version 1; 0 where its images do not fit the plan."""
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

    cdef int _payload(self, const uint8_t* header, const uint8_t* body, const uint8_t* end, int64_t pos) except -1 nogil:
        cdef const uint8_t* data
        cdef int64_t size
        cdef int64_t at = 0
        cdef int status = S_GO_ON
        with gil:
            plain = self.open_payload(<bytes>(<const char*>body)[:end - body], pos)
            if plain is None:
                return S_BIG_PAYLOAD
            self.keep.append(plain)
            self.kept_bytes += len(plain)
            data = <const uint8_t*><const char*>plain
            size = len(plain)
        self.inner_rows = 0
        while status == S_GO_ON:
            status = self._route(data, size, &at, 0, pos)
        return S_GO_ON if at == size else S_BAD_EVENT


cdef bint _clock_fits(const uint8_t* at, const uint8_t* end) noexcept nogil:
    """Whether what stands behind the logical clock is whole; each part may be missing, with all behind it."""
    cdef uint64_t length = 0
    if at == end:
        return True
    if end - at < 7 or at[6] & 0x80 and end - at < 14:
        return False
    at += 14 if at[6] & 0x80 else 7  # when it was committed, and where it began
    if at == end:
        return True
    if not lenenc(&at, end, &length):
        return False
    if at == end:
        return True
    if end - at < 4 or at[3] & 0x80 and end - at < 8:
        return False
    at += 8 if at[3] & 0x80 else 4  # the version of the server, and of the first one
    return at == end or end - at >= 8


cdef int _varlen_size(uint64_t value) noexcept nogil:
    """Bytes of an integer of mysql::serialization."""
    cdef int size = 1
    while size < 9 and value >> (7 * size):
        size += 1
    return size


cdef bint _is_tag(const uint8_t* at, uint64_t size) noexcept nogil:
    """Small letters, digits and underscores, no digit in front."""
    cdef uint64_t i
    if size > 32:
        return False
    for i in range(size):
        if not (97 <= at[i] <= 122 or at[i] == 95 or 48 <= at[i] <= 57 and i):
            return False
    return True


cdef bint _mariadb_fits(const uint8_t* at, const uint8_t* end, uint8_t flags) noexcept nogil:
    """Whether what the flags of MariaDB's GTID event announce is there: commit id, XA name, second flags and what these announce."""
    cdef int64_t size = 0
    cdef uint8_t extra
    if flags & 2:
        size = 8
    if flags & 0xC0:
        if end - at < size + 6:
            return False
        size += 6 + at[size + 4] + at[size + 5]
    if end - at < size:
        return False
    at += size
    if at == end or at[0] == 0:
        return True
    extra = at[0]
    size = 1 + (1 if extra & 1 else 0) + (8 if extra & 0xC else 0) + (8 if extra & 0x10 else 0)
    return end - at >= size


cdef uint8_t _operation(uint8_t code) noexcept nogil:
    if code == PARTIAL_UPDATE_ROWS_EVENT:
        return PARTIAL_UPDATE
    if code >= WRITE_ROWS_COMPRESSED_EVENT_V1:
        return <uint8_t>((code - WRITE_ROWS_COMPRESSED_EVENT_V1) % 3)
    if code >= WRITE_ROWS_EVENT:
        return <uint8_t>(code - WRITE_ROWS_EVENT)
    return <uint8_t>((code - PRE_GA_WRITE_ROWS_EVENT) % 3)


cdef bint _may_define(const uint8_t* body, const uint8_t* end) noexcept nogil:
    """True for statements that begin with CREATE, ALTER, RENAME, DROP or a comment."""
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
            or _begins(body, end, b"DROP", 4))


cdef bint _begins(const uint8_t* at, const uint8_t* end, const char* word, int size) noexcept nogil:
    """True where `word` comes next, in capitals or not."""
    cdef int i
    if end - at < size:
        return False
    for i in range(size):
        if (at[i] & 0xDF) != <uint8_t>word[i]:
            return False
    return True
