"""Frequent events as JSON lines: one object per event. `binlogio_cli.dump.json_output` is the reference."""

cdef (const char*)[13] ROWS_NAMES
ROWS_NAMES[:] = [
    b"WRITE_ROWS_EVENT", b"UPDATE_ROWS_EVENT", b"DELETE_ROWS_EVENT", b"WRITE_ROWS_EVENT_V1", b"UPDATE_ROWS_EVENT_V1",
    b"DELETE_ROWS_EVENT_V1", b"WRITE_ROWS_COMPRESSED_EVENT_V1", b"UPDATE_ROWS_COMPRESSED_EVENT_V1",
    b"DELETE_ROWS_COMPRESSED_EVENT_V1", b"WRITE_ROWS_COMPRESSED_EVENT", b"UPDATE_ROWS_COMPRESSED_EVENT",
    b"DELETE_ROWS_COMPRESSED_EVENT", b"PARTIAL_UPDATE_ROWS_EVENT",
]


cdef inline int number_of(int code) noexcept nogil:
    """Return the index of a rows event type in `ROWS_NAMES`."""
    if code == PARTIAL_UPDATE_ROWS_EVENT:
        return 12
    if code >= WRITE_ROWS_COMPRESSED_EVENT_V1:
        return 6 + code - WRITE_ROWS_COMPRESSED_EVENT_V1
    return code - WRITE_ROWS_EVENT if code >= WRITE_ROWS_EVENT else 3 + code - WRITE_ROWS_EVENT_V1


cdef int json_head(EventTexts texts, Memory out, Event* event, const char* name) except -1:
    """Append the begin of an object: file, type, position and header."""
    cdef const uint8_t* p = event.frame.head
    add(out, b"{")
    add_bytes(out, texts.prefix)
    add(out, b'"type": "')
    add(out, name)
    add_field(out, b'", "pos": ', event.offset)
    if event.inner >= 0:
        add_field(out, b', "inner": ', event.inner)
    else:
        add_field(out, b', "end": ', event.offset + event.frame.size)
    add(out, b', "timestamp": ')
    add_bytes(out, texts._time(u32(p)))
    add_field(out, b', "server_id": ', u32(p + 5))
    add_field(out, b', "flags": ', u16(p + 17))
    add_field(out, b', "log_pos": ', u32(p + 13))
    if event.has_checksum:
        add(out, b', "checksum": "0x')
        add_checksum(out, event)
        add(out, b'"')
    return 1


cdef inline int add_known(Memory out, const char* name, bint is_known, uint64_t number) except -1:
    """Append a field with a number, or with null."""
    add(out, name)
    return append_unsigned(out, number) if is_known else add(out, b"null")


cdef bint json_xid(EventTexts texts, Memory out, Event* event) except -1:
    json_head(texts, out, event, b"XID_EVENT")
    add_field(out, b', "xid": ', u64(event.frame.body))
    return add(out, b"}\n")


cdef bint json_xa_prepare(EventTexts texts, Memory out, Event* event) except -1:
    cdef const uint8_t* body = event.frame.body
    json_head(texts, out, event, b"XA_PREPARE_LOG_EVENT")
    add_field(out, b', "one_phase": ', body[0])
    add(out, b', "format_id": ')
    append_integer(out, <int32_t>u32(body + 1))
    add(out, b', "gtrid": "0x')
    add_hex(out, body + 13, u32(body + 5))
    add(out, b'", "bqual": "0x')
    add_hex(out, body + 13 + u32(body + 5), u32(body + 9))
    return add(out, b'"}\n')


cdef bint json_intvar(EventTexts texts, Memory out, Event* event) except -1:
    json_head(texts, out, event, b"INTVAR_EVENT")
    add_field(out, b', "kind": ', event.frame.body[0])
    add_field(out, b', "value": ', u64(event.frame.body + 1))
    return add(out, b"}\n")


cdef bint json_payload(EventTexts texts, Memory out, Event* event, PayloadFields* fields) except -1:
    cdef const uint8_t* at = event.frame.body
    json_head(texts, out, event, b"TRANSACTION_PAYLOAD_EVENT")
    add(out, b', "fields": [')
    while at[0]:
        add_field(out, b"[" if at == event.frame.body else b", [", at[0])
        add_field(out, b", ", fields.values[at[0]])
        add(out, b"]")
        at += 2 + at[1]
    add_field(out, b'], "payload": "', fields.values[PAYLOAD_SIZE])
    add_field(out, b' bytes, opened below", "compression_type": ', fields.values[PAYLOAD_COMPRESSION])
    add_field(out, b', "uncompressed_size": ', fields.values[PAYLOAD_PLAIN_SIZE])
    return add(out, b"}\n")


cdef bint json_statement(EventTexts texts, Memory out, Event* event, QueryText known, Sql* sql) except -1:
    cdef const uint8_t* body = event.frame.body
    if not is_shown(sql, known.reading, False):
        return False
    json_head(texts, out, event, b"QUERY_EVENT" if event.frame.code == QUERY_EVENT else b"QUERY_COMPRESSED_EVENT")
    add_field(out, b', "thread_id": ', u32(body))
    add_field(out, b', "exec_time": ', u32(body + 4))
    add_field(out, b', "error_code": ', u16(body + 9))
    add_bytes(out, known.title)
    if sql.has_microseconds:
        append_unsigned(out, sql.microseconds)
    add_bytes(out, known.text)
    json_sql(texts, out, sql.begin, sql.end)
    return add(out, b"}\n")


cdef int json_sql(EventTexts texts, Memory out, const uint8_t* sql, const uint8_t* end) except -1:
    """Append a statement as a JSON string, with the escapes of Python's `json`."""
    cdef Memory raw = texts.raw
    cdef int64_t before = out.size
    if append_json_string(out, sql, end - sql):
        return 1
    out.size = before
    raw.size = 0
    append_json_string(raw, sql, end - sql)
    return append_ascii_json(out, raw.data, raw.size)


cdef bint json_rows(EventTexts texts, Memory out, TextTable table, Event* event) except -1:
    cdef RowsEvent rows
    if not texts._rows_of(table, event, &rows):
        return False
    json_head(texts, out, event, ROWS_NAMES[number_of(event.frame.code)])
    add_field(out, b', "table_id": ', table.table_id)
    add_field(out, b', "event_flags": ', u16(event.frame.body + 6))
    add_bytes(out, table.head)
    json_origin(texts, out)
    add(out, b', "rows": [')
    return add_rows(out, table, &rows) and add(out, b"]}\n")


cdef int json_origin(EventTexts texts, Memory out) except -1:
    """Append the origin of rows: GTID, thread id, XID, and for the first rows event the statement."""
    cdef Session session = texts.session
    add_bytes(out, session.rows_gtid)
    add_known(out, b', "thread_id": ', session.rows_thread >= 0, session.rows_thread)
    add_known(out, b', "xid": ', session.rows_xid is not None, 0 if session.rows_xid is None else session.rows_xid)
    add(out, b', "statement": ')
    if session.rows_statement is not None:
        add_bytes(out, session.rows_statement)
        session.rows_statement = None
        return 1
    if texts.sql_begin == NULL:
        return add(out, b"null")
    json_sql(texts, out, texts.sql_begin, texts.sql_end)
    texts.sql_begin = NULL
    return 1


cdef bint json_annotation(EventTexts texts, Memory out, Event* event, Sql* sql) except -1:
    cdef bint is_query = event.frame.code == ROWS_QUERY_LOG_EVENT
    if not is_shown(sql, UTF_8, False):
        return False
    texts.sql_begin, texts.sql_end, texts.session.rows_statement = sql.begin, sql.end, None
    json_head(texts, out, event, b"ROWS_QUERY_LOG_EVENT" if is_query else b"ANNOTATE_ROWS_EVENT")
    add(out, b', "sql": ')
    json_sql(texts, out, sql.begin, sql.end)
    if is_query:
        add_field(out, b', "length": ', event.frame.body[0])
    return add(out, b"}\n")


cdef bint json_gtid(EventTexts texts, Memory out, Event* event, Group* group, GtidFields* fields) except -1:
    cdef const uint8_t* body = event.frame.body
    cdef bint anonymous = event.frame.code == ANONYMOUS_GTID_LOG_EVENT
    cdef Memory raw = texts.raw
    json_head(texts, out, event, b"ANONYMOUS_GTID_LOG_EVENT" if anonymous else b"GTID_LOG_EVENT")
    raw.size = 0
    add(raw, b', "gtid": null' if anonymous else b', "gtid": "')
    if not anonymous:
        add_gtid(raw, body + 1, group.number)
        add(raw, b'"')
    add_field(out, b', "event_flags": ', body[0])
    add(out, b', "uuid": "')
    add_uuid(out, body + 1)
    add_field(out, b'", "gno": ', group.number)
    add_known(out, b', "last_committed": ', fields.has_clock, group.last_committed)
    add_known(out, b', "sequence_number": ', fields.has_clock, group.sequence_number)
    add_known(out, b', "immediate_commit_timestamp": ', fields.has_immediate, fields.immediate)
    add_known(out, b', "original_commit_timestamp": ', fields.has_original, fields.original)
    add_known(out, b', "transaction_length": ', fields.has_length, fields.length)
    add_known(out, b', "immediate_server_version": ', fields.has_version, fields.version)
    add_known(out, b', "original_server_version": ', fields.has_original_version, fields.original_version)
    add_known(out, b', "commit_group_ticket": ', fields.has_ticket, fields.ticket)
    add(out, b', "trailing": null')
    add_all(out, raw.data, raw.data + raw.size)
    add_known(raw, b', "commit_timestamp": ', fields.has_immediate, fields.immediate)
    texts.session.rows_gtid = (<char*>raw.data)[:raw.size]
    texts.session.rows_thread = -1
    return add(out, b"}\n")


cdef bint json_mariadb_gtid(EventTexts texts, Memory out, Event* event, Group* group, GtidFields* fields) except -1:
    cdef const uint8_t* body = event.frame.body
    cdef Memory raw = texts.raw
    json_head(texts, out, event, b"MARIADB_GTID_EVENT")
    raw.size = 0
    add(raw, b', "gtid": "')
    add_mariadb_gtid(raw, event)
    add(raw, b'"')
    add_field(out, b', "sequence_number": ', u64(body))
    add_field(out, b', "domain_id": ', u32(body + 8))
    add_field(out, b', "event_flags": ', fields.flags)
    add_known(out, b', "commit_id": ', fields.has_commit_id, fields.commit_id)
    add(out, b', "xid": ')
    if fields.flags & 0xC0:
        add(out, b'"')
        add_xid_of_gtid(out, event, fields.flags)
        add(out, b'"')
    else:
        add(out, b"null")
    add_field(out, b', "flags_extra": ', fields.flags_extra)
    add_known(out, b', "extra_engines": ', fields.has_engines, fields.engines)
    add_known(out, b', "sa_seq_no": ', fields.has_start, fields.start)
    add_known(out, b', "thread_id": ', fields.has_thread, fields.thread_id)
    add(out, b', "trailing": null')
    add_all(out, raw.data, raw.data + raw.size)
    add(raw, b', "commit_timestamp": null')
    texts.session.rows_gtid = (<char*>raw.data)[:raw.size]
    texts.session.rows_thread = fields.thread_id if fields.has_thread else -1
    return add(out, b"}\n")


WRITERS[<int>JSON] = Writers(
    head=json_head, xid=json_xid, xa_prepare=json_xa_prepare, intvar=json_intvar, payload=json_payload,
    statement=json_statement, rows=json_rows, annotation=json_annotation, gtid=json_gtid, mariadb_gtid=json_mariadb_gtid,
)
