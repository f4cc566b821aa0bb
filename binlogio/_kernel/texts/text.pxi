"""Frequent events as text: a title with the header, and a body. `binlogio_cli.dump.text_output` is the reference."""

cdef (const char*)[4] ROWS_TITLES  # indexed by the operation of a rows event
ROWS_TITLES[:] = [
    b"Write_rows: table id ", b"Update_rows: table id ", b"Delete_rows: table id ", b"Update_rows_partial: table id ",
]


cdef int text_head(EventTexts texts, Memory out, Event* event, const char* name) except -1:
    """Append the position and the header; `name` is not used."""
    cdef const uint8_t* p = event.frame.head
    add_field(out, b"# at ", event.offset)
    if event.inner >= 0:
        add_field(out, b", event ", event.inner + 1)
        add(out, b" of the payload")
    add(out, b"\n#")
    add_bytes(out, texts._time(u32(p)))
    add_field(out, b" server id ", u32(p + 5))
    add_field(out, b"  end_log_pos ", u32(p + 13))
    if event.has_checksum:
        add(out, b" CRC32 0x")
        add_checksum(out, event)
    return add(out, b" \t")


cdef bint text_xid(EventTexts texts, Memory out, Event* event) except -1:
    text_head(texts, out, event, NULL)
    add_field(out, b"Xid = ", u64(event.frame.body))
    return add(out, b"\nCOMMIT/*!*/;\n")


cdef bint text_xa_prepare(EventTexts texts, Memory out, Event* event) except -1:
    cdef const uint8_t* body = event.frame.body
    text_head(texts, out, event, NULL)
    add(out, b"XA PREPARE ")
    add_prepared(out, body)
    add(out, b" ONE PHASE\n" if body[0] else b"\n")
    add_xa_end(out, body)
    return add(out, b"/*!*/;\n")


cdef bint text_intvar(EventTexts texts, Memory out, Event* event) except -1:
    cdef int kind = event.frame.body[0]
    text_head(texts, out, event, NULL)
    add(out, b"Intvar\t")
    if kind <= 2:
        add(out, b"INSERT_ID_EVENT" if kind == 2 else b"LAST_INSERT_ID_EVENT" if kind else b"INVALID_INT_EVENT")
    else:
        append_unsigned(out, kind)
    add_field(out, b"=", u64(event.frame.body + 1))
    add_field(out, b"\nSET LAST_INSERT_ID=" if kind == 1 else b"\nSET INSERT_ID=", u64(event.frame.body + 1))
    return add(out, b"/*!*/;\n")


cdef bint text_payload(EventTexts texts, Memory out, Event* event, PayloadFields* fields) except -1:
    text_head(texts, out, event, NULL)
    add_field(out, b"Transaction_Payload\tpayload_size=", fields.values[PAYLOAD_SIZE])
    add_field(out, b"\tcompression_type=ZSTD\tuncompressed_size=", fields.values[PAYLOAD_PLAIN_SIZE])
    add_field(out, b"\n# The events of the payload follow, opened: ", fields.values[PAYLOAD_PLAIN_SIZE])
    add_field(out, b" bytes, and ", fields.values[PAYLOAD_SIZE])
    return add(out, b" in the file\n")


cdef bint text_statement(EventTexts texts, Memory out, Event* event, QueryText known, Sql* sql) except -1:
    cdef const uint8_t* body = event.frame.body
    cdef int i = 0
    if not is_shown(sql, known.reading, True):
        return False
    text_head(texts, out, event, NULL)
    add_field(out, b"Query\tthread_id=", u32(body))
    add_field(out, b"\texec_time=", u32(body + 4))
    add_field(out, b"\terror_code=", u16(body + 9))
    add_bytes(out, known.title)
    add(out, b"\n")
    if known.count and known.numbers[0] == 0:  # USE comes before the timestamp
        texts._setting(out, known, 0)
        i = 1
    add_field(out, b"SET TIMESTAMP=", u32(event.frame.head))
    if sql.microseconds:
        add_fraction(out, sql.microseconds)
    add(out, b"/*!*/;\n")
    if u32(body) != texts.session.thread_id:
        texts.session.thread_id = u32(body)
        add_field(out, b"SET @@session.pseudo_thread_id=", u32(body))
        add(out, b"/*!*/;\n")
    while i < known.count:
        texts._setting(out, known, i)
        i += 1
    add_all(out, sql.begin, sql.end)
    return add(out, b"\n/*!*/;\n")


cdef bint text_rows(EventTexts texts, Memory out, TextTable table, Event* event) except -1:
    cdef RowsEvent rows
    cdef uint16_t flags = u16(event.frame.body + 6)
    if not texts._rows_of(table, event, &rows):
        return False
    text_head(texts, out, event, NULL)
    text = texts.flags_texts.get(flags)
    if text is None:
        text = texts.flags_texts[flags] = texts.form.flags_text(flags)
    add_field(out, ROWS_TITLES[rows.operation], table.table_id)
    add_bytes(out, <bytes>text)
    add(out, b"\n")
    return add_rows(out, table, &rows)


cdef bint text_annotation(EventTexts texts, Memory out, Event* event, Sql* sql) except -1:
    cdef const uint8_t* at = sql.begin
    cdef uint8_t* to
    if not is_shown(sql, UTF_8, True):
        return False
    text_head(texts, out, event, NULL)
    add(out, b"Rows_query\n# " if event.frame.code == ROWS_QUERY_LOG_EVENT else b"Annotate_rows:\n# ")
    to = end_of(out, 3 * (sql.end - at) + 1)
    while at < sql.end:
        to[0] = at[0]
        to += 1
        if at[0] == 10:
            memcpy(to, b"# ", 2)
            to += 2
        at += 1
    to[0] = 10
    out.size = to + 1 - out.data
    return True


cdef bint text_gtid(EventTexts texts, Memory out, Event* event, Group* group, GtidFields* fields) except -1:
    cdef const uint8_t* body = event.frame.body
    cdef bint anonymous = event.frame.code == ANONYMOUS_GTID_LOG_EVENT
    cdef uint64_t original = fields.original if fields.has_original else fields.immediate
    text_head(texts, out, event, NULL)
    add(out, b"Anonymous_GTID" if anonymous else b"GTID")
    if fields.has_clock:
        add_field(out, b"\tlast_committed=", group.last_committed)
        add_field(out, b"\tsequence_number=", group.sequence_number)
    add(out, b"\trbr_only=no" if body[0] & MAY_HAVE_SBR else b"\trbr_only=yes")
    if fields.has_immediate:
        add_field(out, b"\toriginal_committed_timestamp=", original)
        add_field(out, b"\timmediate_commit_timestamp=", fields.immediate)
    if fields.has_length:
        add_field(out, b"\ttransaction_length=", fields.length)
    if fields.has_immediate:
        add_field(out, b"\n# original_commit_timestamp=", original)
        add_moment(out, original)
        add_field(out, b"\n# immediate_commit_timestamp=", fields.immediate)
        add_moment(out, fields.immediate)
    add(out, b"\nSET @@SESSION.GTID_NEXT= '")
    if anonymous:
        add(out, b"ANONYMOUS")
    else:
        add_gtid(out, body + 1, group.number)
    return add(out, b"'/*!*/;\n")


cdef int add_moment(Memory out, uint64_t microseconds) except -1:
    """Append a timestamp in parentheses. 55 bits of microseconds do not exceed the calendar."""
    cdef uint64_t seconds = microseconds // 1000000
    cdef uint32_t rest = <uint32_t>(microseconds % 1000000)
    cdef int64_t year = 0
    cdef int64_t month = 0
    cdef int64_t day = 0
    date_of(<int64_t>(seconds // 86400), &year, &month, &day)
    seconds %= 86400
    add(out, b" (")
    out.size = put_datetime(end_of(out, TIME_TEXT), year, month, day, seconds // 3600, seconds // 60 % 60, seconds % 60,
                            rest, 6 if rest else 0) - out.data
    return add(out, b" UTC)")


cdef bint text_mariadb_gtid(EventTexts texts, Memory out, Event* event, Group* group, GtidFields* fields) except -1:
    cdef const uint8_t* body = event.frame.body
    cdef int flags = fields.flags
    cdef int extra = fields.flags_extra
    text_head(texts, out, event, NULL)
    add(out, b"GTID ")
    add_mariadb_gtid(out, event)
    if flags & 2:
        add_field(out, b" cid=", fields.commit_id)
    if flags & 0xC0:
        add(out, b" XID ")
        add_xid_of_gtid(out, event, flags)
    text = texts.gtid_flags_texts.get(flags)
    if text is None:
        text = texts.gtid_flags_texts[flags] = texts.form.gtid_flags_text(flags)
    add_bytes(out, <bytes>text)
    if extra & 0x2:
        add(out, b" START ALTER")
    if extra & 0x4:
        add_field(out, b" COMMIT ALTER id= ", fields.start)
    if extra & 0x8:
        add_field(out, b" ROLLBACK ALTER id= ", fields.start)
    if extra & 0x10:
        add_field(out, b" thread_id=", fields.thread_id)
    add_field(out, b"\nSET @@session.gtid_domain_id=", u32(body + 8))
    add_field(out, b", @@session.gtid_seq_no=", u64(body))
    return add(out, b"/*!*/;\n" if flags & 1 else b"/*!*/;\nSTART TRANSACTION\n/*!*/;\n")


cdef bint has_acting(const uint8_t* p, const uint8_t* end) noexcept nogil:
    """Whether valid UTF-8 text has a terminal control character at or above U+0080 (C1 or bidirectional control)."""
    while end - p >= 2:
        if p[0] == 0xC2 and p[1] < 0xA0 or p[0] == 0xD8 and p[1] == 0x9C:
            return True
        if p[0] == 0xE2 and end - p >= 3 and (
                p[1] == 0x80 and (p[2] == 0x8E or p[2] == 0x8F or 0xA8 <= p[2] <= 0xAE)
                or p[1] == 0x81 and 0xA6 <= p[2] <= 0xA9):
            return True
        p += 1
    return False


WRITERS[<int>TEXT] = Writers(
    head=text_head, xid=text_xid, xa_prepare=text_xa_prepare, intvar=text_intvar, payload=text_payload,
    statement=text_statement, rows=text_rows, annotation=text_annotation, gtid=text_gtid, mariadb_gtid=text_mariadb_gtid,
)
