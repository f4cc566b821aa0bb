"""What the texts of events in all styles have in common: parts of events, and the caches of tables and statements."""

cdef enum:  # status variable codes of a query event
    CATALOG = 2  # in logs of MySQL 5.0: terminated by a zero byte
    INVOKER = 11
    UPDATED_DB_NAMES = 12
    MICROSECONDS = 13
    LAST_KNOWN = 20
    MARIADB_HRNOW = 128
    MANY_NAMES = 254

cdef int[21] VARIABLE_SIZES  # bytes of the value, by status variable code; -1: a length byte, then text
VARIABLE_SIZES[:] = [4, 8, -1, 4, 6, -1, -1, 2, 2, 8, 4, -1, 0, 3, 8, 8, 1, 8, 2, 1, 1]

cdef struct Event:
    Frame frame
    int64_t offset
    int64_t inner  # index of the event in its transaction payload; -1 outside a payload
    bint has_checksum

cdef struct Run:
    # State of the current group and statement.
    GroupState group
    int first  # group state at which a unit (group or statement) begins and ends
    int statement  # StatementPlace
    bint shown, statement_shown  # the group or the statement has a selected change
    bint open  # the statement began before the first event, with table maps that Python has formatted
    int64_t group_mark, statement_mark  # output offsets where the text of the group and of the statement begins
    const uint8_t* limit  # end of the buffer


cdef struct Sql:
    # The SQL text of a statement.
    const uint8_t* begin
    const uint8_t* end
    bint has_microseconds
    uint32_t microseconds


cdef class Session:
    """What Python and the kernel have written so far: session variables, and the origin of the next JSON rows."""

    cdef public int64_t thread_id  # last thread id in the output; -1: none
    cdef public bint wrote_gtid  # the GTID of the current group is in the output
    cdef int32_t[SETTING_COUNT] values  # last value of each session variable; 0: none
    cdef public bytes rows_gtid  # GTID fields of the current group
    cdef public int64_t rows_thread  # thread id; -1: unknown
    cdef public object rows_xid  # XID of the current group; None: unknown
    cdef public bytes rows_statement  # statement text that Python has formatted; None: none

    def __cinit__(self):
        self.thread_id = self.rows_thread = -1
        self.rows_gtid = b""

    cpdef int set(self, Session other) except -1:
        """Take the state of another session."""
        self.thread_id, self.wrote_gtid, self.rows_gtid = other.thread_id, other.wrote_gtid, other.rows_gtid
        self.rows_thread, self.rows_xid, self.rows_statement = other.rows_thread, other.rows_xid, other.rows_statement
        memcpy(self.values, other.values, sizeof(self.values))
        return 1

    def copy(self):
        """Return a copy."""
        made = Session()
        made.set(self)
        return made

    def __getitem__(self, int place):
        return self.values[place & (SETTING_COUNT - 1)]

    def __setitem__(self, int place, int32_t value):
        self.values[place & (SETTING_COUNT - 1)] = value


cdef class TextTable:
    """A cached table map, and the formatter of its rows events.

    `text` is the text of the table map after the header. `head` is in JSON the schema and table of its rows events, in
    SQL the bytes of the table map event. `images` formats its row images; None: Python formats its rows events.
    """

    cdef bytes body, text, head
    cdef ImageText images
    cdef uint64_t table_id
    cdef int64_t statement  # number of the last statement with this table map
    cdef bint wanted  # the table is selected

    def __cinit__(self, bytes body, bytes text, bytes head, ImageText images, bint wanted):
        self.body, self.text, self.head, self.images, self.wanted = body, text, head, images, wanted
        self.table_id = little(body, 6)
        self.statement = -1


cdef class QueryText:
    """Cached texts around a statement with certain session variables.

    Args:
        title: in JSON the text after the error code; in SQL the text up to the thread id; in text the end of the title
            line.
        text: in JSON the text after the microseconds; in SQL the text between the thread id and the timestamp; unused
            in text.
        rest: in SQL the text between the timestamp and the statement; unused otherwise.
        reading: flags of `SqlReading`.
        settings: variable number, value (1 or more) and text of each session variable. The text is written if the last
            value in the output is another one.
    """

    cdef bytes title, text, rest
    cdef int reading  # SqlReading
    cdef list settings  # text of each setting
    cdef int count  # number of settings
    cdef int32_t[SETTING_COUNT] numbers, values  # variable number and value of each setting

    def __cinit__(self, bytes title, bytes text, bytes rest, int reading, settings):
        cdef int i
        self.title, self.text, self.rest, self.reading = title, text, rest, reading
        self.settings, self.count = [], len(settings)
        for i, (number, value, setting) in enumerate(settings):
            self.numbers[i], self.values[i] = number & (SETTING_COUNT - 1), value
            self.settings.append(setting)


cdef class EventTexts

ctypedef int (*head_writer)(EventTexts, Memory, Event*, const char*) except -1
ctypedef bint (*event_writer)(EventTexts, Memory, Event*) except -1
ctypedef bint (*payload_writer)(EventTexts, Memory, Event*, PayloadFields*) except -1
ctypedef bint (*statement_writer)(EventTexts, Memory, Event*, QueryText, Sql*) except -1
ctypedef bint (*rows_writer)(EventTexts, Memory, TextTable, Event*) except -1
ctypedef bint (*annotation_writer)(EventTexts, Memory, Event*, Sql*) except -1
ctypedef bint (*gtid_writer)(EventTexts, Memory, Event*, Group*, GtidFields*) except -1

cdef struct Writers:
    # The functions of a style; NULL for what SQL does not have. They append an event, or return False if Python has to.
    head_writer head
    event_writer xid, xa_prepare, intvar
    payload_writer payload
    statement_writer statement
    rows_writer rows
    annotation_writer annotation
    gtid_writer gtid, mariadb_gtid

cdef Writers[3] WRITERS  # by OutputStyle


cdef inline int add(Memory out, const char* text) except -1 nogil:
    cdef size_t size = strlen(text)
    memcpy(end_of(out, size), text, size)
    out.size += size
    return 1


cdef inline int add_all(Memory out, const uint8_t* p, const uint8_t* end) except -1:
    memcpy(end_of(out, end - p), p, end - p)
    out.size += end - p
    return 1


cdef inline int add_field(Memory out, const char* name, uint64_t number) except -1:
    """Append the text `name`, then a number."""
    add(out, name)
    return append_unsigned(out, number)


cdef int add_hex(Memory out, const uint8_t* p, int64_t size) except -1:
    cdef uint8_t* to = end_of(out, 2 * size)
    cdef int64_t i
    for i in range(size):
        to = put_hex(to, p[i])
    out.size = to - out.data
    return 1


cdef int add_xid(Memory out, int64_t format_id, const uint8_t* p, int64_t gtrid_size, int64_t bqual_size) except -1:
    """Append an XA transaction identifier as an SQL literal: X'gtrid',X'bqual',format_id."""
    add(out, b"X'")
    add_hex(out, p, gtrid_size)
    add(out, b"',X'")
    add_hex(out, p + gtrid_size, bqual_size)
    add(out, b"',")
    return append_integer(out, format_id)


cdef inline int add_bytes(Memory out, bytes text) except -1:
    memcpy(end_of(out, len(text)), <const char*>text, len(text))
    out.size += len(text)
    return 1


cdef int add_uuid(Memory out, const uint8_t* p) except -1:
    out.size = put_uuid(end_of(out, UUID_TEXT), p) - out.data
    return 1


cdef inline int add_gtid(Memory out, const uint8_t* uuid, uint64_t number) except -1:
    add_uuid(out, uuid)
    return add_field(out, b":", number)


cdef int add_mariadb_gtid(Memory out, Event* event) except -1:
    append_unsigned(out, u32(event.frame.body + 8))
    add_field(out, b"-", u32(event.frame.head + 5))
    return add_field(out, b"-", u64(event.frame.body))


cdef int add_xid_of_gtid(Memory out, Event* event, int flags) except -1:
    """Append the XA transaction of a MariaDB GTID event: format id, gtrid size, bqual size, gtrid, bqual."""
    cdef const uint8_t* xid = event.frame.body + (21 if flags & 2 else 13)
    return add_xid(out, u32(xid), xid + 6, xid[4], xid[5])


cdef int add_prepared(Memory out, const uint8_t* body) except -1:
    """Append the XA transaction of an XA_PREPARE_LOG_EVENT."""
    return add_xid(out, <int32_t>u32(body + 1), body + 13, u32(body + 5), u32(body + 9))


cdef int add_xa_end(Memory out, const uint8_t* body) except -1:
    """Append the statement of an XA_PREPARE_LOG_EVENT."""
    add(out, b"XA COMMIT " if body[0] else b"XA PREPARE ")
    add_prepared(out, body)
    return add(out, b" ONE PHASE" if body[0] else b"")


cdef int add_checksum(Memory out, Event* event) except -1:
    cdef uint8_t* to = end_of(out, 8)
    cdef int i
    for i in range(4):
        to = put_hex(to, event.frame.end[3 - i])
    out.size += 8
    return 1


cdef int add_fraction(Memory out, uint32_t microseconds) except -1:
    """Append a decimal point and six digits, or more digits if the log has a larger number."""
    add(out, b".")
    out.size = put_digits(end_of(out, 8), microseconds, max(6, digit_count(microseconds))) - out.data
    return 1


cdef bint add_rows(Memory out, TextTable table, RowsEvent* rows) except -1:
    """Append the rows of an event; returns False if one is invalid."""
    cdef int64_t begin = 0
    with nogil:
        return table.images.append_rows(out, rows.operation, rows.present, rows.present_after, rows.images, rows.size,
                                        &begin, MOST_TEXT) >= 0


cdef bint is_shown(Sql* sql, int reading, bint refuses_acting) noexcept:
    """Whether Python copies these bytes unchanged: no control characters, and readable in the character set.

    `refuses_acting`: nor terminal control characters at or above U+0080.
    """
    cdef const uint8_t* at = sql.begin
    cdef uint8_t seen = 0
    if not reading & (ONLY_ASCII | UTF_8):
        return False
    while at < sql.end and (0x20 <= at[0] < 0x7F or at[0] == 10 or at[0] == 9 or at[0] >= 0x80):
        seen |= at[0]
        at += 1
    if at < sql.end or seen >= 0x80 and not (reading & UTF_8 and is_utf8(sql.begin, sql.end - sql.begin)):
        return False
    return seen < 0x80 or not refuses_acting or not has_acting(sql.begin, sql.end)


cdef int64_t microseconds_in(const uint8_t* p, int64_t size) noexcept nogil:
    """Return the index of the microseconds in `p`, the size and bytes of status variables; -1 without microseconds."""
    cdef int64_t at = 2
    cdef int64_t end
    cdef int code, count
    if size < 2:
        return -1
    end = min(size, <int64_t>2 + u16(p))
    while at < end:
        code = p[at]
        at += 1
        if code == MICROSECONDS or code == MARIADB_HRNOW:
            return at if end - at >= 3 else -1
        if code > LAST_KNOWN:
            return -1
        if code == UPDATED_DB_NAMES:
            count = p[at] if at < end else 0
            at += 1
            while count > 0 and count != MANY_NAMES and at < end:
                count -= p[at] == 0
                at += 1
            continue
        if VARIABLE_SIZES[code] >= 0:
            at += VARIABLE_SIZES[code]
        elif at < end:
            at += 1 + p[at] + (code == CATALOG)
            if code == INVOKER and at < end:  # the host after the user
                at += 1 + p[at]
    return -1
