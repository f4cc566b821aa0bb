"""Records of events, one per event: the header, the group, and the fields of the body as JSON.

`binlogio.columnar.event_records` makes the same records from the events of construct and is the reference
implementation (oracle).
"""

from libc.stdint cimport int64_t, uint32_t, uint64_t, uint8_t
from libc.string cimport memcpy, strlen

from binlogio._kernel.base.cursor cimport lenenc, u16, u32, u64
from binlogio._kernel.base.digits cimport put_integer, put_unsigned
from binlogio._kernel.base.event_codes cimport *
from binlogio._kernel.base.hex_digits cimport put_hex, put_uuid
from binlogio._kernel.base.memory_text cimport end_of
from binlogio._kernel.primitives cimport Memory

cdef enum:
    LONGEST_BYTES = 64  # byte strings up to this size are included in the JSON
    MOST_FIELDS = 1024  # most bytes of the JSON of an event, except texts made by Python


cdef inline uint8_t* _put(uint8_t* to, const char* text) noexcept nogil:
    cdef size_t size = strlen(text)
    memcpy(to, text, size)
    return to + size


cdef inline uint8_t* _put_or_null(uint8_t* to, const char* name, bint is_there, uint64_t number) noexcept nogil:
    to = _put(to, name)
    return put_unsigned(to, number) if is_there else _put(to, b"null")


cdef inline uint8_t* _put_bytes(uint8_t* to, const uint8_t* p, int64_t size) noexcept nogil:
    """Write bytes as hexadecimal digits, or only their size if there are more than LONGEST_BYTES."""
    cdef int64_t i
    if size > LONGEST_BYTES:
        return _put(put_unsigned(_put(to, b'{"size":'), <uint64_t>size), b"}")
    to[0] = c'"'
    to += 1
    for i in range(size):
        to = put_hex(to, p[i])
    to[0] = c'"'
    return to + 1


cdef class EventRecords(EventWalk):
    """Records of the events of a log that are not returned yet.

    Args:
        type_names: the name of each of the 256 types.
        pos, timestamp: (start, end) of the selected events.
        server_ids: selected server ids; None for any.
        wants_table: predicate of schema and table, each of which may be None; None for any.
    """

    cdef list type_names
    cdef int64_t pos_start, pos_end, time_start, time_end
    cdef object server_ids, wants_table
    cdef NumberColumn pos, inner_number, end_pos, log_pos, timestamp, server_id, type_code, flags, size
    cdef NumberColumn clock_committed, clock_number, xid
    cdef TextColumn type_name, gtid, schema, table_name, sql, body

    def __cinit__(self, *, type_names, pos, timestamp, server_ids, wants_table, **_):
        self.type_names = [<bytes>name for name in type_names]
        self.pos_start, self.pos_end = pos
        self.time_start, self.time_end = timestamp
        self.server_ids, self.wants_table = server_ids, wants_table
        self.pos, self.inner_number, self.end_pos = NumberColumn(8), NumberColumn(4), NumberColumn(8)
        self.log_pos, self.timestamp, self.server_id = NumberColumn(8), NumberColumn(8), NumberColumn(8)
        self.type_name, self.type_code, self.flags = TextColumn(), NumberColumn(4), NumberColumn(4)
        self.size, self.gtid = NumberColumn(8), TextColumn()
        self.clock_committed, self.clock_number, self.xid = NumberColumn(8), NumberColumn(8), NumberColumn(8)
        self.schema, self.table_name, self.sql, self.body = TextColumn(), TextColumn(), TextColumn(), TextColumn()

    cdef list _columns(self):
        return [
            self.pos, self.inner_number, self.end_pos, self.log_pos, self.timestamp, self.server_id, self.type_name,
            self.type_code, self.flags, self.size, self.gtid, self.clock_committed, self.clock_number, self.xid,
            self.schema, self.table_name, self.sql, self.body,
        ]

    def append(self, values) -> None:
        """Append a record that was made from an event that construct parsed."""
        for column, value in zip(self._columns(), values, strict=True):
            (<RecordColumn>column).put(value)
        self.count += 1

    def take(self) -> list:
        """Return the columns, for `Exported`, and begin a new batch."""
        columns = self._columns()
        nodes = [(<RecordColumn>column).node() for column in columns]
        for column in columns:
            (<RecordColumn>column).clear(column)
        self.count = 0
        return nodes

    cdef bint _is_full(self):
        return self.count >= self.max_records or self.body.data.size + self.sql.data.size >= self.max_bytes

    cdef bint _is_wanted(self, WalkEvent* event) except -1:
        if not (self.pos_start <= event.pos < self.pos_end
                and self.time_start <= <int64_t>u32(event.frame.head) < self.time_end):
            return False
        if self.server_ids is not None and u32(event.frame.head + 5) not in self.server_ids:
            return False
        if self.wants_table is not None and not self._wants_names(event):
            return False
        if self.wants_group < 0:
            self.wants_group = self._wants_gtid(&self.group_start, self.has_group_start, self.gtid_text, self.gtid_size)
        return self.wants_group != 0

    cdef bint _wants_names(self, WalkEvent* event) except -1:
        cdef bint is_table = self.table is not None
        if is_table and self.table.is_wanted >= 0 and event.is_rows:
            return self.table.is_wanted
        schema = table = None
        if is_table:
            schema, table = self.table.event.schema, self.table.event.table
            if not event.is_rows:
                schema, table = schema or None, table or None
        elif event.schema_size and event.schema != NULL:
            schema = (<const char*>event.schema)[:event.schema_size].decode()
        wanted = bool(self.wants_table(schema, table))
        if is_table and event.is_rows:
            self.table.is_wanted = wanted
        return wanted

    cdef int _add(self, WalkEvent* event) except -1:
        cdef bytes name
        if not self._is_wanted(event):
            return 0
        self.pos.add(event.pos)
        self.inner_number.add(event.inner, event.inner >= 0)
        self.end_pos.add(event.end_pos)
        self.log_pos.add(u32(event.frame.head + 13))
        self.timestamp.add(<int64_t>u32(event.frame.head) * 1000000)
        self.server_id.add(u32(event.frame.head + 5))
        name = <bytes>self.type_names[event.frame.code]
        self.type_name.add(<const uint8_t*><const char*>name, len(name))
        self.type_code.add(event.frame.code)
        self.flags.add(u16(event.frame.head + 17))
        self.size.add(event.frame.size)
        self.gtid.add(self.gtid_text, self.gtid_size, self.gtid_size != 0)
        self.clock_committed.add(self.last_committed if self.has_clock else 0, self.has_clock)
        self.clock_number.add(self.sequence_number if self.has_clock else 0, self.has_clock)
        self.xid.add(<int64_t>event.xid if event.has_xid else 0, event.has_xid)
        if event.schema != NULL and (event.schema_size or event.is_rows):
            self.schema.add(event.schema, event.schema_size)
        else:
            self.schema.add(NULL, 0, False)
        if event.table != NULL and (event.table_size or event.is_rows):
            self.table_name.add(event.table, event.table_size)
        else:
            self.table_name.add(NULL, 0, False)
        if event.sql != NULL:
            self.sql.add(event.sql, event.sql_size)
        else:
            self.sql.add(NULL, 0, False)
        self._body(event)
        self.body.end()
        self.count += 1
        return 0

    # -------------------------------------------------------------------------------------------------- bodies as JSON

    cdef int _body(self, WalkEvent* event) except -1:
        cdef Memory out = self.body.data
        cdef uint8_t* to = end_of(out, MOST_FIELDS)
        cdef const uint8_t* body = event.frame.body
        cdef uint8_t code = event.frame.code
        if event.is_rows:
            to = _put_rows(to, event)
        elif code == TABLE_MAP_EVENT:
            to = put_unsigned(_put(to, b'{"table_id":'), event.table_id)
            to = self._put_text(to, self.table.text)
            to = _put(to, b"}")
        elif code == QUERY_EVENT or code == QUERY_COMPRESSED_EVENT:
            to = put_unsigned(_put(to, b'{"thread_id":'), u32(body))
            to = put_unsigned(_put(to, b',"exec_time":'), u32(body + 4))
            to = put_unsigned(_put(to, b',"error_code":'), u16(body + 9))
            to = _put(to, b',"status_vars":')
            to = self._put_text(to, self.status.text)
            to = _put(to, b"}")
        elif code == MARIADB_GTID_EVENT:
            to = _put_mariadb_gtid(to, event)
        elif code == GTID_LOG_EVENT or code == ANONYMOUS_GTID_LOG_EVENT or code == GTID_TAGGED_LOG_EVENT:
            to = self._put_gtid(to, event)
        elif code == ROWS_QUERY_LOG_EVENT:
            to = _put(put_unsigned(_put(to, b'{"length":'), body[0]), b"}")
        elif code == INTVAR_EVENT:
            to = put_unsigned(_put(put_unsigned(_put(to, b'{"kind":'), body[0]), b',"value":'), u64(body + 1))
            to = _put(to, b"}")
        elif code == RAND_EVENT:
            to = put_unsigned(_put(put_unsigned(_put(to, b'{"seed1":'), u64(body)), b',"seed2":'), u64(body + 8))
            to = _put(to, b"}")
        elif code == TRANSACTION_PAYLOAD_EVENT:
            to = _put_payload(to, event)
        else:
            to = _put(to, b"{}")
        out.size = to - out.data
        return 0

    cdef uint8_t* _put_text(self, uint8_t* to, bytes text) except NULL:
        """Write a text of any length, and reserve space for more fields; returns the end."""
        cdef Memory out = self.body.data
        out.size = to - out.data
        to = end_of(out, len(text) + MOST_FIELDS)
        memcpy(to, <const char*>text, len(text))
        return to + len(text)

    cdef uint8_t* _put_gtid(self, uint8_t* to, WalkEvent* event) except NULL:
        cdef GtidFields* gtid = &event.gtid
        cdef const uint8_t* number = self.gtid_text + self.gtid_size
        cdef bint is_tagged = event.frame.code == GTID_TAGGED_LOG_EVENT
        to = _put(put_unsigned(_put(to, b'{"flags":'), gtid.flags), b',"uuid":"')
        if self.gtid_size:  # uuid:number or uuid:tag:number
            memcpy(to, self.gtid_text, 36)
            to += 36
            while number[-1] != c":":
                number -= 1
            if is_tagged:
                to = _put(to, b'","tag":"')
                if number - 1 > self.gtid_text + 36:
                    memcpy(to, self.gtid_text + 37, number - 1 - (self.gtid_text + 37))
                    to += number - 1 - (self.gtid_text + 37)
            to = _put(to, b'","gno":')
            memcpy(to, number, self.gtid_text + self.gtid_size - number)
            to += self.gtid_text + self.gtid_size - number
        else:
            to = _put(put_uuid(to, event.frame.body + 1), b'","gno":0')
        if gtid.has_clock:
            to = put_integer(_put(to, b',"last_committed":'), self.last_committed)
            to = put_integer(_put(to, b',"sequence_number":'), self.sequence_number)
        else:
            to = _put(to, b',"last_committed":null,"sequence_number":null')
        to = _put_or_null(to, b',"immediate_commit_timestamp":', gtid.has_immediate, gtid.immediate)
        to = _put_or_null(to, b',"original_commit_timestamp":', gtid.has_original, gtid.original)
        to = _put_or_null(to, b',"transaction_length":', gtid.has_length, gtid.length)
        to = _put_or_null(to, b',"immediate_server_version":', gtid.has_version, gtid.version)
        to = _put_or_null(to, b',"original_server_version":', gtid.has_original_version, gtid.original_version)
        to = _put_or_null(to, b',"commit_group_ticket":', gtid.has_ticket, gtid.ticket)
        if is_tagged:
            to = put_unsigned(_put(to, b',"last_non_ignorable_field_id":'), gtid.last_non_ignorable)
            return _put(to, b',"unknown":""}')
        return _put(to, b',"trailing":null}')


cdef uint8_t* _put_mariadb_gtid(uint8_t* to, WalkEvent* event) noexcept nogil:
    cdef GtidFields* gtid = &event.gtid
    to = put_unsigned(_put(to, b'{"sequence_number":'), u64(event.frame.body))
    to = put_unsigned(_put(to, b',"domain_id":'), u32(event.frame.body + 8))
    to = put_unsigned(_put(to, b',"flags":'), gtid.flags)
    to = _put_or_null(to, b',"commit_id":', gtid.has_commit_id, gtid.commit_id)
    to = put_unsigned(_put(to, b',"flags_extra":'), gtid.flags_extra)
    to = _put_or_null(to, b',"extra_engines":', gtid.has_engines, gtid.engines)
    to = _put_or_null(to, b',"sa_seq_no":', gtid.has_start, gtid.start)
    to = _put_or_null(to, b',"thread_id":', gtid.has_thread, gtid.thread_id)
    return _put(to, b',"trailing":null}')


cdef uint8_t* _put_rows(uint8_t* to, WalkEvent* event) noexcept nogil:
    cdef int64_t bitmap_size = <int64_t>(event.column_count + 7) // 8
    to = put_unsigned(_put(to, b'{"table_id":'), event.table_id)
    to = put_unsigned(_put(to, b',"flags":'), event.flags)
    to = _put_bytes(_put(to, b',"extra":'), event.extra, event.extra_size)
    to = put_unsigned(_put(to, b',"column_count":'), event.column_count)
    to = _put_bytes(_put(to, b',"present":'), event.rows.present, bitmap_size)
    if event.rows.present_after != event.rows.present or event.rows.operation == 1 or event.rows.operation == 3:
        to = _put_bytes(_put(to, b',"present_after":'), event.rows.present_after, bitmap_size)
    to = _put_bytes(_put(to, b',"images":'), event.rows.images, event.rows.size)
    return _put(to, b"}")


cdef uint8_t* _put_payload(uint8_t* to, WalkEvent* event) noexcept nogil:
    cdef const uint8_t* at = event.frame.body
    cdef uint64_t value = 0
    cdef uint8_t field
    to = _put(to, b'{"fields":[')
    while at[0]:
        if at != event.frame.body:
            to = _put(to, b",")
        field = at[0]
        at += 2
        lenenc(&at, event.frame.end, &value)
        to = _put(put_unsigned(_put(put_unsigned(_put(to, b"["), field), b","), value), b"]")
    to = _put_bytes(_put(to, b'],"payload":'), event.payload.payload, event.frame.end - event.payload.payload)
    return _put(to, b"}")
