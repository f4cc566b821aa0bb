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
from binlogio._kernel.base.cursor cimport little, u16, u24, u32, u64
from binlogio._kernel.base.digits cimport digit_count, put_digits
from binlogio._kernel.base.event_codes cimport (
    ANNOTATE_ROWS_EVENT, ANONYMOUS_GTID_LOG_EVENT, BIG_EVENT_SIZE, DELETE_ROWS_COMPRESSED_EVENT,
    DELETE_ROWS_COMPRESSED_EVENT_V1, DELETE_ROWS_EVENT, DELETE_ROWS_EVENT_V1, GTID_LOG_EVENT, GTID_TAGGED_LOG_EVENT,
    HEADER_SIZE, INTVAR_EVENT, MARIADB_GTID_EVENT, PARTIAL_UPDATE_ROWS_EVENT, QUERY_COMPRESSED_EVENT, QUERY_EVENT,
    RAND_EVENT, ROWS_QUERY_LOG_EVENT, TABLE_MAP_EVENT, TRANSACTION_PAYLOAD_EVENT, USER_VAR_EVENT,
    WRITE_ROWS_COMPRESSED_EVENT_V1, WRITE_ROWS_EVENT, WRITE_ROWS_EVENT_V1, XA_PREPARE_LOG_EVENT, XID_EVENT,
)
from binlogio._kernel.base.hex_digits cimport UUID_TEXT, put_hex, put_uuid
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
from binlogio._kernel.scan.cursor cimport (
    F_BAD_SIZE, F_NEED_DATA, F_WHOLE, Frame, RowsHead, frame_at, is_intact, rows_head, rows_post_header, shift_of,
)
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

cdef enum StatementPlace:  # position in a transaction
    BETWEEN_STATEMENTS = 0
    ANNOTATED = 1
    IN_STATEMENT = 2

include "texts/parts.pxi"


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

    cdef bint sql, has_gtids, chooses_tables
    cdef Writers* writers
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
    cdef readonly Session session
    cdef Session good, before  # at the end of the last complete group or statement, and before the current group
    cdef public bint is_mariadb
    cdef public bytes prefix  # in JSON: the file name at the start of each line
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
        self.sql, self.has_gtids, self.chooses_tables = style == SQL, has_gtids, chooses_tables
        self.writers = &WRITERS[style]
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
        self.session, self.good, self.before = Session(), Session(), Session()
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
        cdef uint32_t good_shift = shift
        cdef bint good_open = run.open
        self.good.set(self.session)
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
                run.group_mark = out.size
                self.before.set(self.session)
                self.session.rows_statement = None
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
                good_at, good_size, good_shift, good_open = at, out.size, shift, run.open
                self.good.set(self.session)
        self.session.set(self.good)
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
                self.writers.head(self, out, event, b"TABLE_MAP_EVENT")
                add_bytes(out, table.text)
            return True
        if is_plain_rows(code) or is_compressed_rows(code):
            if run.statement != IN_STATEMENT or event.frame.end - event.frame.body < 8:
                return False
            table = self.slots[little(event.frame.body, 6) & (SLOTS - 1)]
            if table is None or table.table_id != little(event.frame.body, 6) or table.statement != self.statement:
                return False
            if not self.chooses_tables or table.wanted:
                if run.first == G_TRANSACTION and not run.shown:
                    return False
                run.statement_shown = True
                if not self.writers.rows(self, out, table, event):
                    return False
            if not u16(event.frame.body + 6) & STMT_END:
                return True
            self._next_statement()
            self.session.rows_statement = None
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
                if code == XID_EVENT:
                    return self.writers.xid(self, out, event)
                return is_xa_prepare(event.frame.body, event.frame.end) and self.writers.xa_prepare(self, out, event)
            self._take_back(out, run)
            return True
        if code == QUERY_EVENT or code == QUERY_COMPRESSED_EVENT:
            return self._query(out, event, run)
        if code == INTVAR_EVENT or code == RAND_EVENT or code == USER_VAR_EVENT:
            if place == G_OUTSIDE or self.chooses_tables:
                return False
            if code == INTVAR_EVENT:
                return event.frame.end - event.frame.body == 9 and self.writers.intvar(self, out, event)
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
        if code == MARIADB_GTID_EVENT or code == GTID_LOG_EVENT or code == ANONYMOUS_GTID_LOG_EVENT:
            return self._gtid(out, event)
        if code == GTID_TAGGED_LOG_EVENT:
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
        cdef Frame frame
        cdef const uint8_t* p = event.frame.head
        cdef int status
        cdef bint finds_xid = run.first == G_OUTSIDE and self.finds_xids
        if run.first == G_OUTSIDE:
            self.session.rows_xid = None
        while True:
            status = frame_at(&frame, p, run.limit - p, event.has_checksum)
            if status != F_WHOLE:
                return status == F_BAD_SIZE
            if finds_xid and frame.code == XID_EVENT and frame.end - frame.body == 8:
                self.session.rows_xid = u64(frame.body)
            follow_body(&group, frame.code, frame.body, frame.end)
            if group.place == G_OUTSIDE or group.begins and p != event.frame.head:  # the end, or the group is incomplete
                return True
            if run.first == G_TRANSACTION and not self._is_in_statement(&frame):
                return True
            p += frame.size

    cdef inline bint _is_in_statement(self, Frame* frame) noexcept:
        """Return whether the rows of a statement continue after an event."""
        cdef int code = frame.code
        if is_plain_rows(code) or is_compressed_rows(code):
            return frame.end - frame.body >= 8 and not u16(frame.body + 6) & STMT_END
        return code == TABLE_MAP_EVENT or code == ROWS_QUERY_LOG_EVENT or code == ANNOTATE_ROWS_EVENT

    cdef void _take_back(self, Memory out, Run* run) noexcept:
        """Remove the text of a group that has no selected change."""
        out.size = run.group_mark
        self.session.set(self.before)

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
            self.writers.payload(self, out, event, &fields)
        inside = run[0]
        inside.group.place = G_OPEN
        inner.offset, inner.has_checksum, inner.inner = event.offset, False, 0
        data = plain
        inside.limit, inner.frame.head = data + size, data
        self._is_whole(&inner, &inside)  # finds the XID
        while at < size:
            if (inside.group.place == G_OUTSIDE or frame_at(&inner.frame, data + at, size - at, False) != F_WHOLE
                    or not self.taken[inner.frame.code]):
                return False
            if not self._take(out, &inner, &inside):
                return False
            follow_body(&inside.group, <uint8_t>inner.frame.code, inner.frame.body, inner.frame.end)
            at += inner.frame.size
            inner.inner += 1
        return inside.group.place == G_OUTSIDE and inside.statement == BETWEEN_STATEMENTS

    cdef bytes _time(self, uint32_t seconds):
        """Return the text of a timestamp."""
        cdef int slot = seconds & (TIMES - 1)
        if self.times[slot] != seconds:
            self.time_texts[slot] = self.form.time_text(seconds)
            self.times[slot] = seconds
        return self.time_texts[slot]

    cdef bint _rest(self, Memory out, Event* event, const char* name) except -1:
        """Append an event with the callback `by_python`. Returns False if the callback cannot format it."""
        cdef object xid = self.session.rows_xid  # found already, which Python does not know
        text = self.by_python((<const char*>event.frame.head)[:HEADER_SIZE],
                              (<const char*>event.frame.body)[:event.frame.end - event.frame.body])
        self.session.rows_xid = xid
        if text is None:
            return False
        if not self.sql:
            self.writers.head(self, out, event, name)
        return add_bytes(out, text)

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
        cdef Sql text
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
        text = Sql(begin=sql, end=end, has_microseconds=at >= 0, microseconds=microseconds)
        return self.writers.statement(self, out, event, self.query_text, &text)

    cdef int _setting(self, Memory out, QueryText texts, int i) except -1:
        """Append the text of a setting, unless its value is the last one in the output."""
        if self.session.values[texts.numbers[i]] == texts.values[i]:
            return 1
        self.session.values[texts.numbers[i]] = texts.values[i]
        return add_bytes(out, <bytes>texts.settings[i])

    cdef TextTable _table_of(self, Event* event):
        """Return the table of a table map, and add it to the statement; None if Python has to format the statement."""
        cdef const uint8_t* body = event.frame.body
        cdef int64_t size = event.frame.end - body
        cdef TextTable table
        cdef int slot
        if size < 8:
            return None
        slot = <int>(little(body, 6) & (SLOTS - 1))
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

    cdef bint _rows_of(self, TextTable table, Event* event, RowsEvent* rows) except -1:
        """Set `rows` to the images of an event. Returns False if it does not match its table map."""
        cdef uint64_t columns = 0
        cdef uint8_t code = event.frame.code
        cdef RowsHead head
        if table.images is None:
            return False
        if not (rows_head(&head, event.frame.body, event.frame.end, rows_post_header(code))
                and read_frame(rows, code, head.rest, event.frame.end, &columns)):
            return False
        if is_compressed_rows(code):
            self.plain.size = 0
            if not inflate_images(self.plain, rows, self.opened_size):
                return False
        return rows.size != 0 and columns == <uint64_t>table.images.plan.core.column_count and columns != 0

    cdef bint _annotation(self, Memory out, Event* event) except -1:
        """Append the statement text of rows. Returns False if it has control characters or is not valid UTF-8."""
        cdef bint is_query = event.frame.code == ROWS_QUERY_LOG_EVENT
        cdef Sql sql
        if is_query and event.frame.body == event.frame.end:
            return False
        sql = Sql(begin=event.frame.body + is_query, end=event.frame.end, has_microseconds=False, microseconds=0)
        return self.sql or self.writers.annotation(self, out, event, &sql)

    cdef bint _gtid(self, Memory out, Event* event) except -1:
        """Append a GTID event. Returns False if its body is malformed or has unknown bytes, or an invalid number."""
        cdef int code = event.frame.code
        cdef Group group
        cdef GtidFields fields
        if not (read_group(&group, <uint8_t>code, event.frame.head, event.frame.body, event.frame.end)
                and gtid_fields(&fields, <uint8_t>code, event.frame.body, event.frame.end)):
            return False
        if code == MARIADB_GTID_EVENT:
            return self.writers.mariadb_gtid(self, out, event, &group, &fields)
        if fields.has_clock and (group.last_committed < 0 or group.sequence_number < 0):
            return False
        return self.writers.gtid(self, out, event, &group, &fields)


include "texts/text.pxi"
include "texts/json.pxi"
include "texts/sql.pxi"
