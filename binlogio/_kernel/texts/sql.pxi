"""Frequent events as SQL for the client program. `binlogio_cli.dump.sql_output` is the reference."""


cdef bint sql_xid(EventTexts texts, Memory out, Event* event) except -1:
    return add(out, b"COMMIT\n/*!*/;\n")


cdef bint sql_xa_prepare(EventTexts texts, Memory out, Event* event) except -1:
    add_xa_end(out, event.frame.body)
    return add(out, b"\n/*!*/;\n")


cdef bint sql_intvar(EventTexts texts, Memory out, Event* event) except -1:
    cdef int kind = event.frame.body[0]
    add_field(out, b"SET LAST_INSERT_ID=" if kind == 1 else b"SET INSERT_ID=", u64(event.frame.body + 1))
    return add(out, b"\n/*!*/;\n")


cdef bint sql_statement(EventTexts texts, Memory out, Event* event, QueryText known, Sql* sql) except -1:
    cdef int i
    if not known.reading & (ONLY_ASCII | UTF_8):
        return False
    if not is_read_by_client(sql.begin, sql.end, known.reading & UTF_8 != 0, known.reading & ESCAPING != 0):
        return False
    for i in range(known.count):
        texts._setting(out, known, i)
    add_bytes(out, known.title)
    append_unsigned(out, u32(event.frame.body))
    add_bytes(out, known.text)
    append_unsigned(out, u32(event.frame.head))
    if sql.has_microseconds:
        add_fraction(out, sql.microseconds)
    add_bytes(out, known.rest)
    add_all(out, sql.begin, sql.end)
    return add(out, b"\n/*!*/;\n")


cdef bint sql_gtid(EventTexts texts, Memory out, Event* event, Group* group, GtidFields* fields) except -1:
    if not texts.has_gtids or event.frame.code == ANONYMOUS_GTID_LOG_EVENT:
        return True
    texts.session.wrote_gtid = True
    add(out, b"SET @@session.gtid_next = '")
    add_gtid(out, event.frame.body + 1, group.number)
    return add(out, b"'\n/*!*/;\n")


cdef bint sql_mariadb_gtid(EventTexts texts, Memory out, Event* event, Group* group, GtidFields* fields) except -1:
    cdef const uint8_t* body = event.frame.body
    cdef int flags = fields.flags
    if texts.has_gtids:
        if flags & 0x80:
            add(out, b"BEGIN NOT ATOMIC DECLARE CONTINUE HANDLER FOR 1953 BEGIN END; ")
        add_field(out, b"SET @@session.gtid_domain_id = ", u32(body + 8))
        add_field(out, b", @@session.server_id = ", u32(event.frame.head + 5))
        add_field(out, b", @@session.gtid_seq_no = ", u64(body))
        add(out, b"; END\n/*!*/;\n" if flags & 0x80 else b"\n/*!*/;\n")
    if flags & 0x40:
        add(out, b"XA START ")
        add_xid_of_gtid(out, event, flags)
        return add(out, b"\n/*!*/;\n")
    return 1 if flags & 1 else add(out, b"START TRANSACTION\n/*!*/;\n")


cdef bint sql_rows(EventTexts texts, Memory out, TextTable table, Event* event) except -1:
    """Append a BINLOG statement of table maps and a rows event. Returns False if Python has to format it.

    MySQL: all table maps of the statement precede the rows event. MariaDB: only its own table map does, the rows
    event keeps its position and flags, and compressed rows are decompressed.
    """
    cdef RowsEvent rows
    cdef bint is_mariadb = texts.is_mariadb
    cdef uint64_t columns = 0
    cdef Memory raw = texts.raw
    cdef const uint8_t* body = event.frame.body
    cdef int64_t size = event.frame.end - body
    cdef int64_t frame = 8 if is_mariadb else 10  # index of the column count
    cdef int64_t begin, before, first
    cdef int code = event.frame.code
    cdef int i
    cdef uint8_t* to
    if is_mariadb:
        if WRITE_ROWS_COMPRESSED_EVENT_V1 <= code <= DELETE_ROWS_COMPRESSED_EVENT_V1:
            code += WRITE_ROWS_EVENT_V1 - WRITE_ROWS_COMPRESSED_EVENT_V1
        if not WRITE_ROWS_EVENT_V1 <= code <= DELETE_ROWS_EVENT_V1 or size < 9:
            return False
    elif not WRITE_ROWS_EVENT <= code <= DELETE_ROWS_EVENT or size < 11 or u16(body + 8) != 2:
        return False
    if body[frame] > 250 or not read_frame(&rows, <uint8_t>code, body + frame, event.frame.end, &columns):
        return False
    before = rows.images - body
    if code != event.frame.code:
        texts.plain.size = 0
        if not inflate_images(texts.plain, &rows, texts.opened_size):
            return False
    size = before + rows.size
    raw.size = 0
    if is_mariadb:
        add_bytes(raw, table.head)
    else:
        for table in texts.maps:
            add_bytes(raw, table.head)
    # `raw` takes leading image bytes until its size is a multiple of 3.
    first = min(rows.size, (3 - (raw.size + HEADER_SIZE + before) % 3) % 3)
    to = raw.grow(HEADER_SIZE + before + first)
    memcpy(to, event.frame.head, HEADER_SIZE)
    to[4] = <uint8_t>code
    for i in range(4):
        to[9 + i] = <uint8_t>((HEADER_SIZE + size) >> (8 * i))
    if not is_mariadb:
        memset(to + 13, 0, 6)  # log_pos, flags
    memcpy(to + HEADER_SIZE, body, before)
    memcpy(to + HEADER_SIZE + before, rows.images, first)
    to[HEADER_SIZE + 6] |= STMT_END
    add(out, b"BINLOG '")
    begin = out.size
    to = end_of(out, (raw.size + rows.size) // 3 * 4 + 16)
    to = put_base64(to, raw.data, raw.size)
    if first < rows.size:
        to = put_base64(to, rows.images + first, rows.size - first)
    out.size = to - out.data
    if has_word(out.data + begin, out.size - begin):
        return False
    return add(out, b"'\n/*!*/;\n")


WRITERS[<int>SQL] = Writers(
    head=NULL, xid=sql_xid, xa_prepare=sql_xa_prepare, intvar=sql_intvar, payload=NULL, statement=sql_statement,
    rows=sql_rows, annotation=NULL, gtid=sql_gtid, mariadb_gtid=sql_mariadb_gtid,
)


cdef uint8_t[8192] TWO_DIGITS  # two base64 digits for each 12-bit number


def _set_tables():
    digits = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    for i in range(4096):
        TWO_DIGITS[2 * i] = digits[i >> 6]
        TWO_DIGITS[2 * i + 1] = digits[i & 63]


_set_tables()


cdef uint8_t* put_base64(uint8_t* to, const uint8_t* p, int64_t size) noexcept nogil:
    """Write bytes as base64 without line breaks. Returns the end of the output."""
    cdef int64_t i = base64_blocks(to, p, size)
    cdef uint32_t group
    cdef uint64_t word
    to += i // 3 * 4
    while i + 8 <= size:  # six bytes per iteration
        memcpy(&word, p + i, 8)
        word = swapped(word)
        memcpy(to, TWO_DIGITS + 2 * (word >> 52), 2)
        memcpy(to + 2, TWO_DIGITS + 2 * (word >> 40 & 4095), 2)
        memcpy(to + 4, TWO_DIGITS + 2 * (word >> 28 & 4095), 2)
        memcpy(to + 6, TWO_DIGITS + 2 * (word >> 16 & 4095), 2)
        to += 8
        i += 6
    while i + 3 <= size:
        group = <uint32_t>p[i] << 16 | <uint32_t>p[i + 1] << 8 | p[i + 2]
        memcpy(to, TWO_DIGITS + 2 * (group >> 12), 2)
        memcpy(to + 2, TWO_DIGITS + 2 * (group & 4095), 2)
        to += 4
        i += 3
    if i < size:
        group = <uint32_t>p[i] << 16
        if i + 1 < size:
            group |= <uint32_t>p[i + 1] << 8
        memcpy(to, TWO_DIGITS + 2 * (group >> 12), 2)
        memcpy(to + 2, TWO_DIGITS + 2 * (group & 4095), 2)
        if i + 1 == size:
            to[2] = 61
        to[3] = 61
        to += 4
    return to


cdef bint is_read_by_client(const uint8_t* sql, const uint8_t* end, bint any_bytes, bint escapes) noexcept:
    """Whether the mysql client sends a statement unchanged: words, numbers, simple quoted text, no comments.

    Conservative: `client_text.client_lines` leaves more statements unchanged.
    """
    cdef const uint8_t* at = sql
    cdef const uint8_t* word
    cdef bint at_line = True
    cdef uint8_t c, quote
    while at < end and (at[0] == 32 or 9 <= at[0] <= 13):
        at += 1
    if at == end or not 0x21 <= (end - 1)[0] <= 0x7E or has_word(sql, end - sql):
        return False
    at = sql
    quote = 0
    while at < end:
        c = at[0]
        if c == 0 or c >= 0x80 and not any_bytes or c == 13 or c == 47 and end - at > 1 and at[1] == 42:
            return False
        if at_line and c != 32 and not 9 <= c <= 13:
            word = at
            while at < end and (at[0] == 95 or 48 <= at[0] <= 57 or 65 <= (at[0] & 0xDF) <= 90):
                at += 1
            if c == 63 or (<bytes>word[:at - word]).lower() in _CLIENT_COMMANDS:
                return False
            at_line, at = False, word
        if c == 10:
            at_line = True
        if quote:
            if c == quote:
                quote = 0
            elif c == 92:
                if quote == 96 or not escapes or end - at < 2 or at[1] == 10:
                    return False
                at += 1
                if at[0] == 0 or at[0] >= 0x80 and not any_bytes or at[0] == 13:
                    return False
        elif c == 39 or c == 34 or c == 96:
            quote = c
        elif c == 92 or c == 35 or end - at > 1 and (c == 42 and at[1] == 47 or c == 45 and at[1] == 45):
            return False
        at += 1
    return quote == 0


_CLIENT_COMMANDS = frozenset(
    b"charset clear connect delimiter edit ego exit go help nopager notee nowarning pager print prompt query_attributes "
    b"quit rehash resetconnection sandbox source ssl_session_data_print status system tee use warnings".split()
)
