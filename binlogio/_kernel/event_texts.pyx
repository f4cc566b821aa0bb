# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Formats frequent events as text, JSON lines or SQL: many events in one call, without Python objects.

Reads whole event groups, or whole statements of a group, from a buffer and verifies their checksums. Table maps and the
session variables of statements are looked up in caches by their bytes; callbacks into Python fill the caches. Another
callback formats rare events of a group. Python also formats statements that may
define tables and all groups that do not match the grammar. `binlogio_cli.dump` is the reference implementation.

    group := gtid? BEGIN? statement* (xid | COMMIT | ROLLBACK | xa prepare)  |  gtid? sql  |  gtid payload(group)
    statement := annotation? table_map* rows*  |  (intvar | rand | user variable)* sql
"""

from libc.stdint cimport int32_t, int64_t, uint16_t, uint32_t, uint64_t, uint8_t
from libc.string cimport memcmp, memcpy, memset, strlen

from binlogio.bounded_cache import BoundedCache

from binlogio._kernel.base.calendar cimport date_of
from binlogio._kernel.base.cursor cimport u16, u24, u32, u64
from binlogio._kernel.base.digits cimport digit_count, put_digits
from binlogio._kernel.base.event_codes cimport (
    ANNOTATE_ROWS_EVENT, ANONYMOUS_GTID_LOG_EVENT, BIG_EVENT_SIZE, CHECKSUM_SIZE, DELETE_ROWS_COMPRESSED_EVENT,
    DELETE_ROWS_COMPRESSED_EVENT_V1, DELETE_ROWS_EVENT, DELETE_ROWS_EVENT_V1, GTID_LOG_EVENT, GTID_TAGGED_LOG_EVENT,
    HEADER_SIZE, INTVAR_EVENT, MARIADB_GTID_EVENT, PARTIAL_UPDATE_ROWS_EVENT, QUERY_COMPRESSED_EVENT, QUERY_EVENT,
    RAND_EVENT, ROWS_QUERY_LOG_EVENT, TABLE_MAP_EVENT, TRANSACTION_PAYLOAD_EVENT, USER_VAR_EVENT,
    WRITE_ROWS_COMPRESSED_EVENT, WRITE_ROWS_COMPRESSED_EVENT_V1, WRITE_ROWS_EVENT, WRITE_ROWS_EVENT_V1, XA_PREPARE_LOG_EVENT, XID_EVENT,
)
from binlogio._kernel.base.hex_digits cimport HEX, UUID_TEXT, put_hex, put_uuid
from binlogio._kernel.base.memory_text cimport append_integer, append_unsigned, end_of
from binlogio._kernel.base.wide_text cimport base64_blocks, has_word
from binlogio._kernel.event_scanner cimport (
    GROUP_WANTED, Group, GroupFilter, GtidFields, RowsEvent, gtid_fields, inflate_block, inflate_images, read_frame, read_group,
)
from binlogio._kernel.json.strings cimport append_ascii_json, append_json_string
from binlogio._kernel.primitives cimport MOST_TEXT, Memory, is_utf8
from binlogio._kernel.row_decoder cimport ImageText
from binlogio._kernel.scan.event_types cimport (
    is_compressed_rows, is_plain_rows, is_xa_prepare, size_before_sql, sql_may_define,
)
from binlogio._kernel.scan.cursor cimport F_BAD_SIZE, F_NEED_DATA, Frame, frame_at, is_intact, shift_of
from binlogio._kernel.scan.groups cimport (
    G_OPEN, G_OUTSIDE, G_TRANSACTION, GroupState, begins_transaction, ends_transaction, follow_body, frames_changes,
)
from binlogio._kernel.scan.payloads cimport (
    PAYLOAD_COMPRESSION, PAYLOAD_PLAIN_SIZE, PAYLOAD_SIZE, ZSTD, PayloadFields, payload_fields,
)
from binlogio._kernel.values.temporal cimport TIME_TEXT, put_datetime

cdef extern from *:
    uint64_t swapped "__builtin_bswap64"(uint64_t word) noexcept nogil


cpdef enum OutputStyle:
    TEXT = 0
    JSON = 1
    SQL = 2

cpdef enum SqlReading:
    """Flags: the statement text that the kernel may copy to the output."""

    NOTHING = 0
    ONLY_ASCII = 1
    UTF_8 = 2  # in SQL output: any bytes
    ESCAPING = 4  # in SQL output: a backslash is the escape character in quoted text

SETTINGS = SETTING_COUNT
"""Number of session variables that are tracked; variable 0 is the default schema."""

cdef enum:
    SUPPRESS_USE = 8  # flag of an event header: LOG_EVENT_SUPPRESS_USE_F
    STMT_END = 1  # flag of a rows event
    MAY_HAVE_SBR = 1  # flag of a GTID event
    SLOTS = 256  # entries of the table map cache, indexed by table id
    TIMES = 64  # entries of the timestamp cache
    MOST_TEXT_AT_ONCE = 1 << 22  # bytes of output after which `cut` returns
    SMALL_TEXT = 1 << 16  # bytes below which `cut` returns a copy
    MOST_PAYLOAD = 1 << 23  # maximum uncompressed size of a payload, in bytes
    MOST_OPENED = 1 << 26  # maximum uncompressed size of a rows event or a statement, in bytes
    SETTING_COUNT = 32
    MOST_ORIGIN = 192  # bytes of the GTID fields of JSON rows

cdef enum StatementPlace:  # position in a transaction
    BETWEEN_STATEMENTS = 0
    ANNOTATED = 1
    IN_STATEMENT = 2


cdef enum:
    LAST_COMMITTED = 0
    SEQUENCE_NUMBER = 1
    IMMEDIATE_COMMIT = 2
    ORIGINAL_COMMIT = 3
    TRANSACTION_LENGTH = 4
    IMMEDIATE_VERSION = 5
    ORIGINAL_VERSION = 6
    TICKET = 7
    PARTS = 8

cdef (const char*)[8] PART_NAMES
PART_NAMES[:] = [
    b', "last_committed": ', b', "sequence_number": ', b', "immediate_commit_timestamp": ',
    b', "original_commit_timestamp": ', b', "transaction_length": ', b', "immediate_server_version": ',
    b', "original_server_version": ', b', "commit_group_ticket": ',
]
cdef (const char*)[13] ROWS_NAMES
ROWS_NAMES[:] = [
    b"WRITE_ROWS_EVENT", b"UPDATE_ROWS_EVENT", b"DELETE_ROWS_EVENT", b"WRITE_ROWS_EVENT_V1", b"UPDATE_ROWS_EVENT_V1",
    b"DELETE_ROWS_EVENT_V1", b"WRITE_ROWS_COMPRESSED_EVENT_V1", b"UPDATE_ROWS_COMPRESSED_EVENT_V1",
    b"DELETE_ROWS_COMPRESSED_EVENT_V1", b"WRITE_ROWS_COMPRESSED_EVENT", b"UPDATE_ROWS_COMPRESSED_EVENT",
    b"DELETE_ROWS_COMPRESSED_EVENT", b"PARTIAL_UPDATE_ROWS_EVENT",
]
cdef (const char*)[4] ROWS_TITLES  # indexed by the operation of a rows event
ROWS_TITLES[:] = [
    b"Write_rows: table id ", b"Update_rows: table id ", b"Delete_rows: table id ", b"Update_rows_partial: table id ",
]

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

cdef struct Session:
    # Session variables in the output so far.
    int64_t thread_id  # last thread id in the output; -1: none
    bint wrote_gtid  # the GTID of the current group is in the output
    uint8_t[MOST_ORIGIN] gtid  # in JSON rows: GTID fields of the current group
    int gtid_size
    int64_t rows_thread  # in JSON rows: thread id; -1: unknown
    bint has_xid  # the XID of the current group is known
    uint64_t xid  # in JSON rows: XID of the current group
    int32_t[SETTING_COUNT] settings  # last value in the output, by variable; 0: none

cdef struct Run:
    # State of the current group and statement.
    GroupState group
    Session before  # session at the start of the group
    int first  # group state at which a unit (group or statement) begins and ends
    int statement  # StatementPlace
    bint shown, statement_shown  # the group or the statement has a selected change
    bint open  # the statement began before the first event, with table maps that Python has formatted
    int64_t group_mark, statement_mark  # output offsets where the text of the group and of the statement begins
    const uint8_t* limit  # end of the buffer


cdef inline int add(Memory out, const char* text) except -1 nogil:
    cdef size_t size = strlen(text)
    memcpy(end_of(out, size), text, size)
    out.size += size
    return 1


cdef inline int add_all(Memory out, const uint8_t* p, const uint8_t* end) except -1:
    memcpy(end_of(out, end - p), p, end - p)
    out.size += end - p
    return 1


cdef inline int add_number(Memory out, bint is_known, uint64_t number) except -1:
    return append_unsigned(out, number) if is_known else add(out, b"null")


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
        self.table_id = u48(body)
        self.statement = -1


cdef inline uint64_t u48(const uint8_t* p) noexcept nogil:
    return u32(p) | <uint64_t>u16(p + 4) << 32


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


cdef class EventTexts:
    """Formats events.

    Args:
        style: an `OutputStyle`.
        has_gtids: whether SQL output sets the GTIDs of transactions.
        form: has `time_text`, which formats the timestamp of an event header in seconds (not in SQL), and in text
            `flags_text` and `gtid_flags_text`, which format the flags of rows and of MariaDB GTIDs for the titles.
        by_python: formats a rare event from its header and body. Text and JSON output exclude the header, which the
            kernel appends. Returns None if Python cannot format the event either.
        find_table: returns `text`, `head`, `images` and `wanted` of `TextTable` from the header and the body of a table
            map that is not in the cache; None: Python formats the statement.
        find_query: returns the arguments of `QueryText` from the header of a statement, its body up to the SQL text, and
            the microseconds in it (None without); None: Python formats the statement.
        open_payload: decompresses a zstd payload, given its bytes and its uncompressed size; returns None if it is
            damaged. None: the kernel does not handle payloads.
        opened_size: maximum uncompressed size of compressed data, in bytes.
        chooses_tables: select only the changes of tables that `find_table` returns with `wanted`.
    """

    cdef bint json, sql, has_gtids, chooses_tables
    cdef Memory raw  # scratch buffer: events of a BINLOG statement before base64, or a JSON string before escaping
    cdef Memory plain  # uncompressed bytes of the current event
    cdef object form, by_python, find_table, find_query, open_payload
    cdef int64_t opened_size
    cdef public GroupFilter chosen  # selected groups; None: all groups
    cdef int64_t[TIMES] times  # keys of the timestamp cache, in seconds
    cdef list time_texts  # values of the timestamp cache
    cdef dict flags_texts, gtid_flags_texts  # caches
    cdef object queries, tables  # caches
    cdef list slots  # last table map per table id modulo SLOTS
    cdef list maps  # in SQL: selected table maps of the current statement
    cdef Memory out
    cdef int64_t statement  # number of the current statement
    cdef bytes query  # key of the last lookup in `queries`; `query_text` is its value
    cdef QueryText query_text
    cdef Session session
    cdef public bint is_mariadb
    cdef public bytes prefix  # in JSON: the file name at the start of each line
    cdef public bytes rows_statement  # in JSON rows: statement text that Python has formatted; None: none
    cdef public bint finds_xids  # in JSON rows: search for the XID of a group ahead of its rows
    cdef const uint8_t* sql_begin  # in JSON rows: statement text from an event in the buffer; NULL: none
    cdef const uint8_t* sql_end
    cdef public bint paused  # `cut` returns nothing
    cdef readonly bint in_statement  # `cut` starts inside a statement whose table maps were passed to `open_table`
    cdef public bint inside  # `cut` starts inside a transaction and takes whole statements
    cdef public bint group_shown  # with `inside`: the transaction has a selected change
    cdef readonly uint32_t position_shift  # difference between log_pos and the real end of the last event
    cdef readonly int64_t at  # index of the next event in the buffer
    cdef readonly bint needs_data  # the buffer ends before the end of an event or a group
    cdef uint8_t[256] taken  # by event type: whether `cut` takes events of this type

    codes = (
        GTID_LOG_EVENT, ANONYMOUS_GTID_LOG_EVENT, GTID_TAGGED_LOG_EVENT, MARIADB_GTID_EVENT, QUERY_EVENT,
        QUERY_COMPRESSED_EVENT, TABLE_MAP_EVENT, XID_EVENT, XA_PREPARE_LOG_EVENT, INTVAR_EVENT, RAND_EVENT,
        USER_VAR_EVENT, TRANSACTION_PAYLOAD_EVENT, ROWS_QUERY_LOG_EVENT, ANNOTATE_ROWS_EVENT, PARTIAL_UPDATE_ROWS_EVENT,
        *range(WRITE_ROWS_EVENT, DELETE_ROWS_EVENT + 1), *range(WRITE_ROWS_EVENT_V1, DELETE_ROWS_EVENT_V1 + 1),
        *range(WRITE_ROWS_COMPRESSED_EVENT_V1, DELETE_ROWS_COMPRESSED_EVENT + 1),
    )  # event types that `cut` can format

    def __cinit__(self, *, int style, bint has_gtids=True, form, by_python,
                  find_table, find_query, open_payload=None, int64_t opened_size=MOST_OPENED, bint chooses_tables=False):
        cdef int i
        self.json, self.sql, self.has_gtids, self.chooses_tables = style == JSON, style == SQL, has_gtids, chooses_tables
        self.raw, self.plain = Memory(), Memory()
        self.by_python, self.open_payload, self.opened_size = by_python, open_payload, min(opened_size, MOST_OPENED)
        self.form, self.find_table, self.find_query = form, find_table, find_query
        self.time_texts = [b""] * TIMES
        for i in range(TIMES):
            self.times[i] = -1
        self.flags_texts, self.gtid_flags_texts, self.queries, self.tables = {}, {}, BoundedCache(1 << 12), BoundedCache()
        self.slots, self.maps = [None] * SLOTS, []
        self.out = Memory()
        self.prefix, self.group_shown = b"", True
        memset(&self.session, 0, sizeof(self.session))
        self.session.thread_id = self.session.rows_thread = -1
        self.set_codes(())

    def set_codes(self, codes):
        """Select the event types that `cut` takes."""
        cdef int code
        for code in range(256):
            self.taken[code] = 0
        for code in codes:
            self.taken[code] = 1

    def forget_tables(self):
        """Empty the cache of table maps: column names may have changed."""
        self.tables.clear()
        self.slots = [None] * SLOTS

    @property
    def written_settings(self):
        """Last value of each session variable in the output, by number; 0: none."""
        return [self.session.settings[i] for i in range(SETTING_COUNT)]

    @written_settings.setter
    def written_settings(self, values):
        for i in range(SETTING_COUNT):
            self.session.settings[i] = values[i]

    @property
    def thread_id(self):
        """Last thread id in the output; -1: none."""
        return self.session.thread_id

    @thread_id.setter
    def thread_id(self, int64_t value):
        self.session.thread_id = value

    @property
    def rows_gtid(self):
        """GTID fields of JSON rows in the current group."""
        return (<char*>self.session.gtid)[:self.session.gtid_size]

    @rows_gtid.setter
    def rows_gtid(self, bytes fields):
        self._set_origin(fields, len(fields))

    cdef int _set_origin(self, const uint8_t* fields, int64_t size) except -1:
        if size > MOST_ORIGIN:
            raise ValueError(f"{size} bytes of GTID fields")
        memcpy(self.session.gtid, fields, size)
        self.session.gtid_size = <int>size
        return 1

    @property
    def rows_thread(self):
        """Thread id of JSON rows; -1: unknown."""
        return self.session.rows_thread

    @rows_thread.setter
    def rows_thread(self, int64_t value):
        self.session.rows_thread = value

    @property
    def rows_xid(self):
        """XID of JSON rows in the current group; None: unknown."""
        return self.session.xid if self.session.has_xid else None

    @rows_xid.setter
    def rows_xid(self, xid):
        self.session.has_xid = xid is not None
        self.session.xid = xid if self.session.has_xid else 0

    @property
    def wrote_gtid(self):
        """Whether the SQL output has a GTID of a group."""
        return self.session.wrote_gtid

    @wrote_gtid.setter
    def wrote_gtid(self, bint value):
        self.session.wrote_gtid = value

    def open_table(self, bytes head, bytes body):
        """Begin or continue a statement, with the header and body of a table map that Python has formatted.

        Sets `in_statement` to whether `cut` can continue it.
        """
        cdef Event event
        if not self.in_statement:
            self._next_statement()
        event.frame.head, event.frame.body = head, body
        event.frame.end = event.frame.body + len(body)
        self.in_statement = self._table_of(&event) is not None

    def close_statement(self):
        """End a statement that Python has formatted up to its end."""
        self.in_statement = False

    def forget_queries(self):
        """Empty the cache of statement texts."""
        self.queries.clear()
        self.query = self.query_text = None

    def cut(self, const uint8_t[::1] data, int64_t at, int64_t offset, int64_t stop, int64_t inner, int64_t most,
            bint checksum, bint verify, uint32_t shift,
            bint by_group=False):
        """Return the text of the groups (with `inside`: statements) from byte `at` of the buffer, in a list of one item.

        Stops before the first group or statement that is incomplete, is not selected by `chosen`, or has to be formatted
        by Python. `self.at` is the index of its first byte. If nothing precedes it, the list is empty. The arguments are
        those of `EventCutter.cut`; `most` and `by_group` are ignored, and with `inner` >= 0 the list is empty. A text of
        64 KiB or more is a memoryview of the memory in which it was written; it is not copied.
        """
        cdef Memory out = self.out
        cdef Event event
        cdef int64_t begin = at
        cdef int status
        cdef Run run
        run.first = run.group.place = G_TRANSACTION if self.inside else G_OUTSIDE
        run.open = self.in_statement
        run.statement = IN_STATEMENT if run.open else BETWEEN_STATEMENTS
        run.shown = self.group_shown if self.inside else not self.chooses_tables
        run.statement_shown = False
        run.group_mark = run.statement_mark = 0
        run.limit = (&data[0] if data.shape[0] else NULL) + data.shape[0]
        cdef int64_t good_at = at
        cdef int64_t good_size = 0
        cdef Session good_session = self.session
        cdef bytes good_statement = self.rows_statement
        cdef uint32_t good_shift = shift
        cdef bint good_open = run.open
        run.before = self.session
        self.needs_data = False
        if inner >= 0 or self.paused:
            return []
        if out.capacity > 4 * MOST_TEXT_AT_ONCE:
            self.out = out = Memory()
        out.size = 0
        self.sql_begin = NULL
        if not run.open:
            self._next_statement()
        event.has_checksum, event.inner = checksum, -1
        while offset < stop and good_size < MOST_TEXT_AT_ONCE:
            status = frame_at(&event.frame, run.limit - (data.shape[0] - at), data.shape[0] - at, checksum)
            if event.frame.size and (event.frame.size > BIG_EVENT_SIZE or not self.taken[event.frame.code]):
                break
            if status == F_NEED_DATA:
                self.needs_data = True
                break
            event.offset = offset
            if status == F_BAD_SIZE or checksum and verify and not is_intact(&event.frame):
                break
            if run.group.place == G_OUTSIDE:
                if self.chosen is not None and self.chosen.answer(
                        <uint8_t>event.frame.code, event.frame.head, event.frame.body, event.frame.end) != GROUP_WANTED:
                    break
                run.shown = not self.chooses_tables
                run.group_mark, run.before = out.size, self.session
                self.rows_statement = None
            if run.statement == BETWEEN_STATEMENTS and run.group.place == run.first and not self._is_whole(&event, &run):
                self.needs_data = True
                break
            if not self._take(out, &event, &run):
                break
            follow_body(&run.group, event.frame.code, event.frame.body, event.frame.end)
            shift = shift_of(&event.frame, offset, shift)
            at += event.frame.size
            offset += event.frame.size
            if run.group.place == run.first and (run.statement == BETWEEN_STATEMENTS or run.open):
                good_at, good_size, good_shift, good_session = at, out.size, shift, self.session
                good_statement, good_open = self.rows_statement, run.open
        self.session, self.rows_statement = good_session, good_statement
        self.at, self.position_shift, self.in_statement = good_at, good_shift, good_open
        if good_at == begin:
            return []
        if good_size < SMALL_TEXT:
            return [(<char*>out.data)[:good_size] if good_size else b""]
        out.size = good_size  # the caller owns this memory now
        self.out = Memory()
        self.out.reserve(min(out.capacity, MOST_TEXT_AT_ONCE))
        return [memoryview(out)]

    cdef bint _take(self, Memory out, Event* event, Run* run) except -1:
        """Append the text of an event, if it is selected. Returns False if Python has to format it."""
        cdef int code = event.frame.code
        cdef int place = run.group.place
        cdef TextTable table
        cdef Group group
        if code == TABLE_MAP_EVENT:
            if place != G_TRANSACTION or run.open:  # Python, which may have to continue, needs all table maps of a statement
                return False
            if run.statement == BETWEEN_STATEMENTS:
                run.statement_mark, run.statement_shown = out.size, False
            run.statement = IN_STATEMENT
            table = self._table_of(event)
            if table is None:
                return False
            if not self.sql and (not self.chooses_tables or table.wanted):
                self._head(out, event, b"TABLE_MAP_EVENT")
                add_bytes(out, table.text)
            return True
        if is_plain_rows(code) or is_compressed_rows(code):
            if run.statement != IN_STATEMENT or event.frame.end - event.frame.body < 8:
                return False
            table = self.slots[u48(event.frame.body) & (SLOTS - 1)]
            if table is None or table.table_id != u48(event.frame.body) or table.statement != self.statement:
                return False
            if not self.chooses_tables or table.wanted:
                if run.first == G_TRANSACTION and not run.shown:
                    return False
                run.statement_shown = True
                if not self._rows(out, table, event):
                    return False
            if not u16(event.frame.body + 6) & STMT_END:
                return True
            self._next_statement()
            self.rows_statement = None
            if not run.statement_shown and not run.open:
                out.size = run.statement_mark
            run.shown |= run.statement_shown
            run.statement, run.open = BETWEEN_STATEMENTS, False
            return True
        if run.statement != BETWEEN_STATEMENTS:
            return False
        if code == XID_EVENT or code == XA_PREPARE_LOG_EVENT:
            if place != G_TRANSACTION or run.first != G_OUTSIDE or code == XID_EVENT and event.frame.end - event.frame.body != 8:
                return False
            if run.shown:
                return self._xid(out, event) if code == XID_EVENT else self._xa_prepare(out, event)
            self._take_back(out, run)
            return True
        if code == QUERY_EVENT or code == QUERY_COMPRESSED_EVENT:
            return self._query(out, event, run)
        if code == INTVAR_EVENT or code == RAND_EVENT or code == USER_VAR_EVENT:
            if place == G_OUTSIDE or self.chooses_tables:
                return False
            if code == INTVAR_EVENT:
                return self._intvar(out, event)
            return self._rest(out, event, b"RAND_EVENT" if code == RAND_EVENT else b"USER_VAR_EVENT")
        if code == ROWS_QUERY_LOG_EVENT or code == ANNOTATE_ROWS_EVENT:
            if place != G_TRANSACTION:
                return False
            run.statement_mark, run.statement_shown = out.size, False
            run.statement = ANNOTATED
            return self._annotation(out, event)
        if code == TRANSACTION_PAYLOAD_EVENT:
            return place == G_OPEN and event.inner < 0 and run.first == G_OUTSIDE and self._payload(out, event, run)
        if place != G_OUTSIDE:
            return False
        if code == MARIADB_GTID_EVENT:
            return self._mariadb_gtid(out, event)
        if code == GTID_LOG_EVENT or code == ANONYMOUS_GTID_LOG_EVENT:
            return self._gtid(out, event)
        if code == GTID_TAGGED_LOG_EVENT:
            self.session.wrote_gtid |= self.sql and self.has_gtids
            return read_group(&group, <uint8_t>code, event.frame.head, event.frame.body, event.frame.end) and self._rest(
                out, event, b"GTID_TAGGED_LOG_EVENT")
        return False

    cdef int _next_statement(self) except -1:
        """Start a statement: reset its table maps and its text."""
        self.statement += 1
        self.sql_begin = NULL
        if self.maps:
            self.maps.clear()
        return 1

    cdef bint _is_whole(self, Event* event, Run* run) noexcept:
        """Return False if the buffer ends before the group ends or, with `inside`, the statement.

        In a group, searches for its XID: XID_EVENT comes after the rows.
        """
        cdef GroupState group = run.group
        cdef const uint8_t* p = event.frame.head
        cdef const uint8_t* end
        cdef int64_t tail = CHECKSUM_SIZE if event.has_checksum else 0
        cdef bint finds_xid = run.first == G_OUTSIDE and self.finds_xids
        if run.first == G_OUTSIDE:
            self.session.has_xid = False
        while run.limit - p >= HEADER_SIZE + tail:
            end = p + u32(p + 9) - tail
            if end < p + HEADER_SIZE:
                return True
            if end > run.limit - tail:
                return False
            if finds_xid and p[4] == XID_EVENT and end - p == HEADER_SIZE + 8:
                self.session.has_xid, self.session.xid = True, u64(p + HEADER_SIZE)
            follow_body(&group, p[4], p + HEADER_SIZE, end)
            if group.place == G_OUTSIDE or group.begins and p != event.frame.head:  # the end, or the group is incomplete
                return True
            if run.first == G_TRANSACTION and not self._is_in_statement(p, end):
                return True
            p = end + tail
        return False

    cdef inline bint _is_in_statement(self, const uint8_t* p, const uint8_t* end) noexcept:
        """Return whether the rows of a statement continue after an event."""
        cdef int code = p[4]
        if is_plain_rows(code) or is_compressed_rows(code):
            return end - p >= HEADER_SIZE + 8 and not u16(p + HEADER_SIZE + 6) & STMT_END
        return code == TABLE_MAP_EVENT or code == ROWS_QUERY_LOG_EVENT or code == ANNOTATE_ROWS_EVENT

    cdef void _take_back(self, Memory out, Run* run) noexcept:
        """Remove the text of a group that has no selected change."""
        out.size = run.group_mark
        self.session = run.before

    cdef bint _payload(self, Memory out, Event* event, Run* run) except -1:
        """Append a payload and its events. Returns False if Python has to format one of them."""
        cdef PayloadFields fields
        cdef Event inner
        cdef Run inside
        cdef const uint8_t* data
        cdef int64_t at = 0
        cdef int64_t size, packed
        cdef bytes plain
        if self.open_payload is None or not payload_fields(event.frame.body, event.frame.end, &fields):
            return False
        if (fields.values[PAYLOAD_COMPRESSION] != ZSTD
                or fields.values[PAYLOAD_PLAIN_SIZE] > <uint64_t>min(self.opened_size, MOST_PAYLOAD)):
            return False
        size, packed = fields.values[PAYLOAD_PLAIN_SIZE], event.frame.end - fields.payload
        plain = self.open_payload((<const char*>fields.payload)[:packed], size)
        if plain is None or len(plain) != size:
            return False
        if not self.sql:
            self._payload_text(out, event, &fields)
        inside = run[0]
        inside.group.place = G_OPEN
        inner.offset, inner.has_checksum, inner.inner = event.offset, False, 0
        data = plain
        inside.limit, inner.frame.head = data + size, data
        self._is_whole(&inner, &inside)  # finds the XID
        while at < size:
            if size - at < HEADER_SIZE or inside.group.place == G_OUTSIDE:
                return False
            inner.frame.head = data + at
            inner.frame.size, inner.frame.code = u32(inner.frame.head + 9), inner.frame.head[4]
            if inner.frame.size < HEADER_SIZE or inner.frame.size > size - at or not self.taken[inner.frame.code]:
                return False
            inner.frame.body, inner.frame.end = inner.frame.head + HEADER_SIZE, inner.frame.head + inner.frame.size
            if not self._take(out, &inner, &inside):
                return False
            follow_body(&inside.group, <uint8_t>inner.frame.code, inner.frame.body, inner.frame.end)
            at += inner.frame.size
            inner.inner += 1
        return inside.group.place == G_OUTSIDE and inside.statement == BETWEEN_STATEMENTS

    cdef int _payload_text(self, Memory out, Event* event, PayloadFields* fields) except -1:
        cdef const uint8_t* at = event.frame.body
        self._head(out, event, b"TRANSACTION_PAYLOAD_EVENT")
        if self.json:
            add(out, b', "fields": [')
            while at[0]:
                self._field(out, b"[" if at == event.frame.body else b", [", at[0])
                self._field(out, b", ", fields.values[at[0]])
                add(out, b"]")
                at += 2 + at[1]
            self._field(out, b'], "payload": "', fields.values[PAYLOAD_SIZE])
            self._field(out, b' bytes, opened below", "compression_type": ', fields.values[PAYLOAD_COMPRESSION])
            self._field(out, b', "uncompressed_size": ', fields.values[PAYLOAD_PLAIN_SIZE])
            return add(out, b"}\n")
        self._field(out, b"Transaction_Payload\tpayload_size=", fields.values[PAYLOAD_SIZE])
        self._field(out, b"\tcompression_type=ZSTD\tuncompressed_size=", fields.values[PAYLOAD_PLAIN_SIZE])
        self._field(out, b"\n# The events of the payload follow, opened: ", fields.values[PAYLOAD_PLAIN_SIZE])
        self._field(out, b" bytes, and ", fields.values[PAYLOAD_SIZE])
        return add(out, b" in the file\n")

    cdef int _head(self, Memory out, Event* event, const char* name) except -1:
        """Append the common part of all events: position and header."""
        cdef const uint8_t* p = event.frame.head
        cdef uint32_t seconds = u32(p)
        cdef int slot = seconds & (TIMES - 1)
        cdef int i
        cdef uint8_t* to
        if self.times[slot] != seconds:
            self.time_texts[slot] = self.form.time_text(seconds)
            self.times[slot] = seconds
        if self.json:
            add(out, b"{")
            add_bytes(out, self.prefix)
            add(out, b'"type": "')
            add(out, name)
            add(out, b'", "pos": ')
            append_unsigned(out, event.offset)
            if event.inner >= 0:
                self._field(out, b', "inner": ', event.inner)
            else:
                self._field(out, b', "end": ', event.offset + event.frame.size)
            add(out, b', "timestamp": ')
            add_bytes(out, <bytes>self.time_texts[slot])
            add(out, b', "server_id": ')
            append_unsigned(out, u32(p + 5))
            add(out, b', "flags": ')
            append_unsigned(out, u16(p + 17))
            add(out, b', "log_pos": ')
        else:
            add(out, b"# at ")
            append_unsigned(out, event.offset)
            if event.inner >= 0:
                self._field(out, b", event ", event.inner + 1)
                add(out, b" of the payload")
            add(out, b"\n#")
            add_bytes(out, <bytes>self.time_texts[slot])
            add(out, b" server id ")
            append_unsigned(out, u32(p + 5))
            add(out, b"  end_log_pos ")
        append_unsigned(out, u32(p + 13))
        if event.has_checksum:
            add(out, b', "checksum": "0x' if self.json else b" CRC32 0x")
            to = end_of(out, 8)
            for i in range(4):
                to[2 * i] = HEX[event.frame.end[3 - i] >> 4]
                to[2 * i + 1] = HEX[event.frame.end[3 - i] & 15]
            out.size += 8
            if self.json:
                add(out, b'"')
        return 1 if self.json else add(out, b" \t")

    cdef int _field(self, Memory out, const char* name, uint64_t number) except -1:
        """Append the text `name`, then a number."""
        add(out, name)
        return append_unsigned(out, number)

    cdef int _xid(self, Memory out, Event* event) except -1:
        if self.sql:
            return add(out, b"COMMIT\n/*!*/;\n")
        self._head(out, event, b"XID_EVENT")
        self._field(out, b', "xid": ' if self.json else b"Xid = ", u64(event.frame.body))
        return add(out, b"}\n" if self.json else b"\nCOMMIT/*!*/;\n")

    cdef bint _xa_prepare(self, Memory out, Event* event) except -1:
        cdef const uint8_t* body = event.frame.body
        if not is_xa_prepare(body, event.frame.end):
            return False
        if not self.sql:
            self._head(out, event, b"XA_PREPARE_LOG_EVENT")
        if self.json:
            self._field(out, b', "one_phase": ', body[0])
            add(out, b', "format_id": ')
            append_integer(out, <int32_t>u32(body + 1))
            add(out, b', "gtrid": "0x')
            add_hex(out, body + 13, u32(body + 5))
            add(out, b'", "bqual": "0x')
            add_hex(out, body + 13 + u32(body + 5), u32(body + 9))
            return add(out, b'"}\n')
        if not self.sql:
            add(out, b"XA PREPARE ")
            add_xid(out, <int32_t>u32(body + 1), body + 13, u32(body + 5), u32(body + 9))
            add(out, b" ONE PHASE\n" if body[0] else b"\n")
        add(out, b"XA COMMIT " if body[0] else b"XA PREPARE ")
        add_xid(out, <int32_t>u32(body + 1), body + 13, u32(body + 5), u32(body + 9))
        add(out, b" ONE PHASE" if body[0] else b"")
        return add(out, b"\n/*!*/;\n" if self.sql else b"/*!*/;\n")

    cdef bint _rest(self, Memory out, Event* event, const char* name) except -1:
        """Append an event with the callback `by_python`. Returns False if the callback cannot format it."""
        cdef bint has_xid = self.session.has_xid  # found already, which Python does not know
        cdef uint64_t xid = self.session.xid
        text = self.by_python((<const char*>event.frame.head)[:HEADER_SIZE],
                              (<const char*>event.frame.body)[:event.frame.end - event.frame.body])
        self.session.has_xid, self.session.xid = has_xid, xid
        if text is None:
            return False
        if not self.sql:
            self._head(out, event, name)
        return add_bytes(out, text)

    cdef bint _intvar(self, Memory out, Event* event) except -1:
        cdef int kind = event.frame.body[0]
        if event.frame.end - event.frame.body != 9:
            return False
        if not self.sql:
            self._head(out, event, b"INTVAR_EVENT")
        if self.json:
            self._field(out, b', "kind": ', kind)
            self._field(out, b', "value": ', u64(event.frame.body + 1))
            return add(out, b"}\n")
        if not self.sql:
            add(out, b"Intvar\t")
            if kind <= 2:
                add(out, b"INSERT_ID_EVENT" if kind == 2 else b"LAST_INSERT_ID_EVENT" if kind else b"INVALID_INT_EVENT")
            else:
                append_unsigned(out, kind)
            self._field(out, b"=", u64(event.frame.body + 1))
            add(out, b"\n")
        self._field(out, b"SET LAST_INSERT_ID=" if kind == 1 else b"SET INSERT_ID=", u64(event.frame.body + 1))
        return add(out, b"\n/*!*/;\n" if self.sql else b"/*!*/;\n")

    cdef bint _query(self, Memory out, Event* event, Run* run) except -1:
        """Append a statement. Returns False if it may define a table or its status variables are not in the cache."""
        cdef const uint8_t* body = event.frame.body
        cdef const uint8_t* sql
        cdef const uint8_t* end = event.frame.end
        cdef int64_t size
        cdef bint is_frame, ends
        size = size_before_sql(body, end)
        if not size:
            return False
        sql = body + size
        if event.frame.code == QUERY_COMPRESSED_EVENT:
            if not inflate_block(self.plain, sql, end - sql, self.opened_size):
                return False
            sql, end = self.plain.data, self.plain.data + self.plain.size
        ends = ends_transaction(sql, end - sql)
        is_frame = ends or begins_transaction(sql, end - sql)
        if sql_may_define(sql, end) or is_frame and event.frame.code != QUERY_EVENT:
            return False
        if begins_transaction(sql, end - sql):
            if run.group.place == G_TRANSACTION:
                return False
            self.session.rows_thread = u32(body)
        elif run.group.place == G_TRANSACTION:
            if ends and run.first != G_OUTSIDE:
                return False
        else:
            ends = True
        if self.chooses_tables and (not frames_changes(sql, end - sql) or run.first == G_TRANSACTION and not run.shown
                                    or end - sql > 3 and memcmp(sql, b"XA ", 3) == 0):
            return False
        if not self._statement(out, event, size, sql, end):
            return False
        if ends and not run.shown:
            self._take_back(out, run)
        return True

    cdef bint _statement(self, Memory out, Event* event, int64_t size, const uint8_t* sql, const uint8_t* end) except -1:
        """Append a statement; its SQL text is `sql` to `end`, after the first `size` bytes of the body."""
        cdef const uint8_t* body = event.frame.body
        cdef bint suppresses_use = u16(event.frame.head + 17) & SUPPRESS_USE
        cdef bytes known
        cdef const uint8_t* last
        cdef uint32_t microseconds = 0
        cdef QueryText texts
        cdef int i
        cdef int64_t at = microseconds_in(body + 11, size - 12)
        if at >= 0:
            microseconds = u24(body + 11 + at)
        known = self.query
        last = known if known is not None else b""
        if (known is None or len(known) != size - 11 or last[size - 12] != suppresses_use
                or memcmp(last, body + 11, size - 12 if at < 0 else at)
                or (at >= 0 and memcmp(last + at + 3, body + 11 + at + 3, size - 12 - at - 3))):
            known = body[11:size - 1] + (b"\1" if suppresses_use else b"\0")
            if at >= 0:
                known = known[:at] + bytes(3) + known[at + 3:]
            texts = self.queries.get(known)
            if texts is None:
                found = self.find_query((<const char*>event.frame.head)[:HEADER_SIZE], (<const char*>body)[:size],
                                        None if at < 0 else microseconds)
                if found is None:
                    return False
                texts = self.queries.put(known, QueryText(*found))
            self.query, self.query_text = known, texts
        texts = self.query_text
        if not self._is_plain(sql, end, texts.reading):
            return False
        if self.sql:
            for i in range(texts.count):
                self._setting(out, texts, i)
            add_bytes(out, texts.title)
            append_unsigned(out, u32(body))
            add_bytes(out, texts.text)
            append_unsigned(out, u32(event.frame.head))
            if at >= 0:
                self._fraction(out, microseconds)
            add_bytes(out, texts.rest)
            add_all(out, sql, end)
            return add(out, b"\n/*!*/;\n")
        self._head(out, event, b"QUERY_EVENT" if event.frame.code == QUERY_EVENT else b"QUERY_COMPRESSED_EVENT")
        self._field(out, b', "thread_id": ' if self.json else b"Query\tthread_id=", u32(body))
        self._field(out, b', "exec_time": ' if self.json else b"\texec_time=", u32(body + 4))
        self._field(out, b', "error_code": ' if self.json else b"\terror_code=", u16(body + 9))
        add_bytes(out, texts.title)
        if self.json:
            if at >= 0:
                append_unsigned(out, microseconds)
            add_bytes(out, texts.text)
            self._json_sql(out, sql, end)
            return add(out, b"}\n")
        add(out, b"\n")
        i = 0
        if texts.count and texts.numbers[0] == 0:  # USE comes before the timestamp
            self._setting(out, texts, 0)
            i = 1
        self._field(out, b"SET TIMESTAMP=", u32(event.frame.head))
        if microseconds:
            self._fraction(out, microseconds)
        add(out, b"/*!*/;\n")
        if u32(body) != self.session.thread_id:
            self.session.thread_id = u32(body)
            self._field(out, b"SET @@session.pseudo_thread_id=", u32(body))
            add(out, b"/*!*/;\n")
        while i < texts.count:
            self._setting(out, texts, i)
            i += 1
        add_all(out, sql, end)
        return add(out, b"\n/*!*/;\n")

    cdef int _setting(self, Memory out, QueryText texts, int i) except -1:
        """Append the text of a setting, unless its value is the last one in the output."""
        if self.session.settings[texts.numbers[i]] == texts.values[i]:
            return 1
        self.session.settings[texts.numbers[i]] = texts.values[i]
        return add_bytes(out, <bytes>texts.settings[i])

    cdef bint _is_plain(self, const uint8_t* sql, const uint8_t* end, int reading) noexcept:
        """Whether Python copies these bytes unchanged (in JSON: as a JSON string)."""
        cdef const uint8_t* at = sql
        cdef uint8_t seen = 0
        if not reading & (ONLY_ASCII | UTF_8):
            return False
        if self.sql:
            return is_read_by_client(sql, end, reading & UTF_8 != 0, reading & ESCAPING != 0)
        while at < end and (0x20 <= at[0] < 0x7F or at[0] == 10 or at[0] == 9 or at[0] >= 0x80):
            seen |= at[0]
            at += 1
        if at < end:
            return False
        if seen < 0x80:
            return True
        return reading & UTF_8 and is_utf8(sql, end - sql) and (self.json or not has_acting(sql, end))

    cdef int _json_sql(self, Memory out, const uint8_t* sql, const uint8_t* end) except -1:
        """Append a statement as a JSON string, with the escapes of Python's `json`."""
        cdef Memory raw = self.raw
        cdef int64_t before = out.size
        if append_json_string(out, sql, end - sql):
            return 1
        out.size = before
        raw.size = 0
        append_json_string(raw, sql, end - sql)
        return append_ascii_json(out, raw.data, raw.size)

    cdef int _fraction(self, Memory out, uint32_t microseconds) except -1:
        """Append a decimal point and six digits, or more digits if the log has a larger number."""
        add(out, b".")
        out.size = put_digits(end_of(out, 8), microseconds, max(6, digit_count(microseconds))) - out.data
        return 1

    cdef TextTable _table_of(self, Event* event):
        """Return the table of a table map, and add it to the statement; None if Python has to format the statement."""
        cdef const uint8_t* body = event.frame.body
        cdef int64_t size = event.frame.end - body
        cdef TextTable table
        cdef int slot
        if size < 8:
            return None
        slot = <int>(u48(body) & (SLOTS - 1))
        table = self.slots[slot]
        if table is None or len(table.body) != size or memcmp(<const char*>table.body, body, size):
            if table is not None and table.statement == self.statement:
                return None
            key = <bytes>(<const char*>body)[:size]
            table = self.tables.get(key)
            if table is None:
                found = self.find_table((<const char*>event.frame.head)[:HEADER_SIZE], key)
                if found is None:
                    return None
                table = self.tables.put(key, TextTable(key, *found))
            self.slots[slot] = table
        if self.sql and table.statement != self.statement and (not self.chooses_tables or table.wanted):
            self.maps.append(table)
        table.statement = self.statement
        return table

    cdef bint _rows(self, Memory out, TextTable table, Event* event) except -1:
        """Append a rows event. Returns False if it does not match its table map or has an invalid value."""
        cdef RowsEvent rows
        cdef uint64_t columns = 0
        cdef int code = event.frame.code
        cdef int64_t begin = 0
        cdef const uint8_t* at = event.frame.body + 8
        cdef uint16_t flags = u16(event.frame.body + 6)
        if self.sql:
            return self._binlog(out, table, event)
        if table.images is None:
            return False
        if WRITE_ROWS_EVENT <= code < WRITE_ROWS_COMPRESSED_EVENT_V1 or code >= WRITE_ROWS_COMPRESSED_EVENT:
            if event.frame.end - at < 2 or u16(at) < 2 or event.frame.end - at < u16(at):
                return False
            at += u16(at)
        if not read_frame(&rows, <uint8_t>code, at, event.frame.end, &columns):
            return False
        if is_compressed_rows(code):
            self.plain.size = 0
            if not inflate_images(self.plain, &rows, self.opened_size):
                return False
        if rows.size == 0 or columns != <uint64_t>table.images.plan.core.column_count or columns == 0:
            return False
        self._head(out, event, ROWS_NAMES[number_of(code)])
        if self.json:
            self._field(out, b', "table_id": ', table.table_id)
            self._field(out, b', "event_flags": ', flags)
            add_bytes(out, table.head)
            self._origin(out)
            add(out, b', "rows": [')
        else:
            text = self.flags_texts.get(flags)
            if text is None:
                text = self.flags_texts[flags] = self.form.flags_text(flags)
            self._field(out, ROWS_TITLES[rows.operation], table.table_id)
            add_bytes(out, <bytes>text)
            add(out, b"\n")
        with nogil:
            code = table.images.append_rows(out, rows.operation, rows.present, rows.present_after, rows.images, rows.size,
                                            &begin, MOST_TEXT) >= 0
        if code and self.json:
            add(out, b"]}\n")
        return code

    cdef int _origin(self, Memory out) except -1:
        """Append the origin of JSON rows: GTID, thread id, XID, and for the first rows event the statement."""
        add_all(out, self.session.gtid, self.session.gtid + self.session.gtid_size)
        add(out, b', "thread_id": ')
        add_number(out, self.session.rows_thread >= 0, self.session.rows_thread)
        add(out, b', "xid": ')
        add_number(out, self.session.has_xid, self.session.xid)
        add(out, b', "statement": ')
        if self.rows_statement is not None:
            add_bytes(out, self.rows_statement)
            self.rows_statement = None
            return 1
        if self.sql_begin == NULL:
            return add(out, b"null")
        self._json_sql(out, self.sql_begin, self.sql_end)
        self.sql_begin = NULL
        return 1

    cdef bint _binlog(self, Memory out, TextTable table, Event* event) except -1:
        """Append a BINLOG statement of table maps and a rows event. Returns False if Python has to format it.

        MySQL: all table maps of the statement precede the rows event. MariaDB: only its own table map does, the rows
        event keeps its position and flags, and compressed rows are decompressed.
        """
        cdef RowsEvent rows
        cdef uint64_t columns = 0
        cdef Memory raw = self.raw
        cdef const uint8_t* body = event.frame.body
        cdef int64_t size = event.frame.end - body
        cdef int64_t frame = 8 if self.is_mariadb else 10  # index of the column count
        cdef int64_t begin, before, first
        cdef int code = event.frame.code
        cdef int i
        cdef uint8_t* to
        if self.is_mariadb:
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
            self.plain.size = 0
            if not inflate_images(self.plain, &rows, self.opened_size):
                return False
        size = before + rows.size
        raw.size = 0
        if self.is_mariadb:
            add_bytes(raw, table.head)
        else:
            for table in self.maps:
                add_bytes(raw, table.head)
        # `raw` takes leading image bytes until its size is a multiple of 3.
        first = min(rows.size, (3 - (raw.size + HEADER_SIZE + before) % 3) % 3)
        to = raw.grow(HEADER_SIZE + before + first)
        memcpy(to, event.frame.head, HEADER_SIZE)
        to[4] = <uint8_t>code
        for i in range(4):
            to[9 + i] = <uint8_t>((HEADER_SIZE + size) >> (8 * i))
        if not self.is_mariadb:
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

    cdef bint _annotation(self, Memory out, Event* event) except -1:
        """Append the statement text of rows. Returns False if it has control characters or is not valid UTF-8."""
        cdef const uint8_t* at = event.frame.body
        cdef const uint8_t* end = event.frame.end
        cdef uint8_t* to
        cdef int length = 0
        cdef bint is_query = event.frame.code == ROWS_QUERY_LOG_EVENT
        if self.sql:
            return at < end or not is_query
        if is_query:
            if at == end:
                return False
            length = at[0]
            at += 1
        if not self._is_plain(at, end, UTF_8):
            return False
        at = event.frame.body + is_query
        self.sql_begin, self.sql_end, self.rows_statement = at, end, None
        self._head(out, event, b"ROWS_QUERY_LOG_EVENT" if is_query else b"ANNOTATE_ROWS_EVENT")
        if self.json:
            add(out, b', "sql": ')
            self._json_sql(out, at, end)
            if is_query:
                self._field(out, b', "length": ', length)
            return add(out, b"}\n")
        add(out, b"Rows_query\n# " if is_query else b"Annotate_rows:\n# ")
        to = end_of(out, 3 * (end - at) + 1)
        while at < end:
            to[0] = at[0]
            to += 1
            if at[0] == 10:
                memcpy(to, b"# ", 2)
                to += 2
            at += 1
        to[0] = 10
        out.size = to + 1 - out.data
        return True

    cdef bint _gtid(self, Memory out, Event* event) except -1:
        """Append a MySQL GTID event. Returns False if its body has unknown bytes or an invalid number.

        Each field after the number is optional.
        """
        cdef const uint8_t* body = event.frame.body
        cdef bint anonymous = event.frame.code == ANONYMOUS_GTID_LOG_EVENT
        cdef Group group
        cdef GtidFields fields
        cdef uint64_t[PARTS] parts
        cdef uint32_t has = 0  # bit set: the parts that are present
        cdef uint64_t gno
        cdef int i
        if not (read_group(&group, <uint8_t>event.frame.code, event.frame.head, body, event.frame.end)
                and gtid_fields(&fields, <uint8_t>event.frame.code, body, event.frame.end)):
            return False
        if fields.has_clock and (group.last_committed < 0 or group.sequence_number < 0):
            return False
        gno = group.number
        parts[LAST_COMMITTED], parts[SEQUENCE_NUMBER] = group.last_committed, group.sequence_number
        parts[IMMEDIATE_COMMIT], parts[ORIGINAL_COMMIT] = fields.immediate, fields.original
        parts[TRANSACTION_LENGTH], parts[TICKET] = fields.length, fields.ticket
        parts[IMMEDIATE_VERSION], parts[ORIGINAL_VERSION] = fields.version, fields.original_version
        has |= (1 << LAST_COMMITTED | 1 << SEQUENCE_NUMBER) if fields.has_clock else 0
        has |= 1 << IMMEDIATE_COMMIT if fields.has_immediate else 0
        has |= 1 << ORIGINAL_COMMIT if fields.has_original else 0
        has |= 1 << TRANSACTION_LENGTH if fields.has_length else 0
        has |= 1 << IMMEDIATE_VERSION if fields.has_version else 0
        has |= 1 << ORIGINAL_VERSION if fields.has_original_version else 0
        has |= 1 << TICKET if fields.has_ticket else 0
        if self.sql:
            if self.has_gtids and not anonymous:
                self.session.wrote_gtid = True
                add(out, b"SET @@session.gtid_next = '")
                self._uuid(out, body + 1)
                self._field(out, b":", gno)
                add(out, b"'\n/*!*/;\n")
            return True
        self._head(out, event, b"ANONYMOUS_GTID_LOG_EVENT" if anonymous else b"GTID_LOG_EVENT")
        if self.json:
            self.raw.size = 0
            add(self.raw, b', "gtid": null' if anonymous else b', "gtid": "')
            if not anonymous:
                self._uuid(self.raw, body + 1)
                self._field(self.raw, b":", gno)
                add(self.raw, b'"')
            add(self.raw, b', "commit_timestamp": ')
            add_number(self.raw, fields.has_immediate, fields.immediate)
            self._set_origin(self.raw.data, self.raw.size)
            self.session.rows_thread = -1
            self._field(out, b', "event_flags": ', body[0])
            add(out, b', "uuid": "')
            self._uuid(out, body + 1)
            self._field(out, b'", "gno": ', gno)
            for i in range(PARTS):
                add(out, PART_NAMES[i])
                add_number(out, has >> i & 1, parts[i])
            add(out, b', "trailing": null, "gtid": ')
            if anonymous:
                return add(out, b"null}\n")
            add(out, b'"')
            self._uuid(out, body + 1)
            self._field(out, b":", gno)
            return add(out, b'"}\n')
        add(out, b"Anonymous_GTID" if anonymous else b"GTID")
        if has >> LAST_COMMITTED & 1:
            self._field(out, b"\tlast_committed=", parts[LAST_COMMITTED])
            self._field(out, b"\tsequence_number=", parts[SEQUENCE_NUMBER])
        add(out, b"\trbr_only=no" if body[0] & MAY_HAVE_SBR else b"\trbr_only=yes")
        if has >> IMMEDIATE_COMMIT & 1:
            if not has >> ORIGINAL_COMMIT & 1:
                parts[ORIGINAL_COMMIT] = parts[IMMEDIATE_COMMIT]
            self._field(out, b"\toriginal_committed_timestamp=", parts[ORIGINAL_COMMIT])
            self._field(out, b"\timmediate_commit_timestamp=", parts[IMMEDIATE_COMMIT])
        if has >> TRANSACTION_LENGTH & 1:
            self._field(out, b"\ttransaction_length=", parts[TRANSACTION_LENGTH])
        if has >> IMMEDIATE_COMMIT & 1:
            self._field(out, b"\n# original_commit_timestamp=", parts[ORIGINAL_COMMIT])
            self._moment(out, parts[ORIGINAL_COMMIT])
            self._field(out, b"\n# immediate_commit_timestamp=", parts[IMMEDIATE_COMMIT])
            self._moment(out, parts[IMMEDIATE_COMMIT])
        add(out, b"\nSET @@SESSION.GTID_NEXT= '")
        if anonymous:
            add(out, b"ANONYMOUS")
        else:
            self._uuid(out, body + 1)
            self._field(out, b":", gno)
        return add(out, b"'/*!*/;\n")

    cdef int _uuid(self, Memory out, const uint8_t* p) except -1:
        out.size = put_uuid(end_of(out, UUID_TEXT), p) - out.data
        return 1

    cdef int _moment(self, Memory out, uint64_t microseconds) except -1:
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

    cdef bint _mariadb_gtid(self, Memory out, Event* event) except -1:
        """Append a MariaDB GTID event. Returns False if its body is malformed or has unknown bytes."""
        cdef const uint8_t* body = event.frame.body
        cdef Group group
        cdef GtidFields fields
        cdef const uint8_t* xid  # XA transaction: format id, gtrid size, bqual size, gtrid, bqual
        cdef int flags, extra
        if not (read_group(&group, MARIADB_GTID_EVENT, event.frame.head, body, event.frame.end)
                and gtid_fields(&fields, MARIADB_GTID_EVENT, body, event.frame.end)):
            return False
        flags, extra = fields.flags, fields.flags_extra
        xid = body + (21 if flags & 2 else 13)
        if self.sql:
            if self.has_gtids:
                if flags & 0x80:
                    add(out, b"BEGIN NOT ATOMIC DECLARE CONTINUE HANDLER FOR 1953 BEGIN END; ")
                self._field(out, b"SET @@session.gtid_domain_id = ", u32(body + 8))
                self._field(out, b", @@session.server_id = ", u32(event.frame.head + 5))
                self._field(out, b", @@session.gtid_seq_no = ", u64(body))
                add(out, b"; END\n/*!*/;\n" if flags & 0x80 else b"\n/*!*/;\n")
            if flags & 0x40:
                add(out, b"XA START ")
                add_xid(out, u32(xid), xid + 6, xid[4], xid[5])
                return add(out, b"\n/*!*/;\n")
            return 1 if flags & 1 else add(out, b"START TRANSACTION\n/*!*/;\n")
        self._head(out, event, b"MARIADB_GTID_EVENT")
        if self.json:
            self.raw.size = 0
            self._field(self.raw, b', "gtid": "', u32(body + 8))
            self._field(self.raw, b"-", u32(event.frame.head + 5))
            self._field(self.raw, b"-", u64(body))
            add(self.raw, b'", "commit_timestamp": null')
            self._set_origin(self.raw.data, self.raw.size)
            self.session.rows_thread = fields.thread_id if fields.has_thread else -1
            self._field(out, b', "sequence_number": ', u64(body))
            self._field(out, b', "domain_id": ', u32(body + 8))
            self._field(out, b', "event_flags": ', flags)
            add(out, b', "commit_id": ')
            add_number(out, fields.has_commit_id, fields.commit_id)
            add(out, b', "xid": ')
            if flags & 0xC0:
                add(out, b'"')
                add_xid(out, u32(xid), xid + 6, xid[4], xid[5])
                add(out, b'"')
            else:
                add(out, b"null")
            self._field(out, b', "flags_extra": ', extra)
            add(out, b', "extra_engines": ')
            add_number(out, fields.has_engines, fields.engines)
            add(out, b', "sa_seq_no": ')
            add_number(out, fields.has_start, fields.start)
            add(out, b', "thread_id": ')
            add_number(out, fields.has_thread, fields.thread_id)
            add(out, b', "trailing": null, "gtid": "')
        else:
            add(out, b"GTID ")
        append_unsigned(out, u32(body + 8))
        self._field(out, b"-", u32(event.frame.head + 5))
        self._field(out, b"-", u64(body))
        if self.json:
            return add(out, b'"}\n')
        if flags & 2:
            self._field(out, b" cid=", fields.commit_id)
        if flags & 0xC0:
            add(out, b" XID ")
            add_xid(out, u32(xid), xid + 6, xid[4], xid[5])
        text = self.gtid_flags_texts.get(flags)
        if text is None:
            text = self.gtid_flags_texts[flags] = self.form.gtid_flags_text(flags)
        add_bytes(out, <bytes>text)
        if extra & 0x2:
            add(out, b" START ALTER")
        if extra & 0x4:
            self._field(out, b" COMMIT ALTER id= ", fields.start)
        if extra & 0x8:
            self._field(out, b" ROLLBACK ALTER id= ", fields.start)
        if extra & 0x10:
            self._field(out, b" thread_id=", fields.thread_id)
        self._field(out, b"\nSET @@session.gtid_domain_id=", u32(body + 8))
        self._field(out, b", @@session.gtid_seq_no=", u64(body))
        return add(out, b"/*!*/;\n" if flags & 1 else b"/*!*/;\nSTART TRANSACTION\n/*!*/;\n")


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


cdef inline int number_of(int code) noexcept nogil:
    """Return the index of a rows event type in `ROWS_NAMES`."""
    if code == PARTIAL_UPDATE_ROWS_EVENT:
        return 12
    if code >= WRITE_ROWS_COMPRESSED_EVENT_V1:
        return 6 + code - WRITE_ROWS_COMPRESSED_EVENT_V1
    return code - WRITE_ROWS_EVENT if code >= WRITE_ROWS_EVENT else 3 + code - WRITE_ROWS_EVENT_V1


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
