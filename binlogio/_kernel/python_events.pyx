# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""Frequent event types as Python objects (`binlogio.events`), many in one call.

Cuts events out of a buffer, verifies their checksums, and makes instances of the frozen dataclasses without their
constructors. The events of a small compressed transaction follow the one that contains them. An event is left to its
construct codec if it is of another type, is incomplete, has a wrong checksum, or has a body format that current servers
do not write. Status variables, table maps and the heads of rows events are
parsed by their codecs once and then looked up by their bytes.
"""

from cpython.object cimport PyObject
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t, uint8_t
from libc.string cimport memcmp

from dataclasses import replace
from dataclasses import fields
from types import MemberDescriptorType

from binlogio.bounded_cache import MOST_TABLES, BoundedBytesCache

from binlogio._kernel.base.cursor cimport little, u16, u32, u64
from binlogio._kernel.base.event_codes cimport (
    ANNOTATE_ROWS_EVENT, ANONYMOUS_GTID_LOG_EVENT, BIG_EVENT_SIZE, DELETE_ROWS_EVENT_V1,
    GTID_LOG_EVENT, HEADER_SIZE, INTVAR_EVENT, MARIADB_GTID_EVENT, PARTIAL_UPDATE_ROWS_EVENT, QUERY_EVENT,
    ROWS_QUERY_LOG_EVENT, TABLE_MAP_EVENT, TRANSACTION_PAYLOAD_EVENT, WRITE_ROWS_EVENT, WRITE_ROWS_EVENT_V1, XA_PREPARE_LOG_EVENT, XID_EVENT,
)
from binlogio._kernel.event_scanner cimport Group, GtidFields, RowsEvent, gtid_fields, read_frame, read_group
from binlogio._kernel.scan.event_types cimport (
    QUERY_POST_HEADER, XA_HEAD, is_group_start, is_plain_rows, is_xa_prepare, size_before_sql,
)
from binlogio._kernel.scan.cursor cimport (
    Cursor, Frame, RowsHead, has_event, pass_event, rows_head, rows_post_header, set_cursor,
)
from binlogio._kernel.primitives cimport Memory, ZstdContext
from binlogio._kernel.scan.groups cimport G_OUTSIDE, GroupState, follow_body
from binlogio._kernel.scan.payloads cimport PayloadFields, open_small, payload_fields

cdef extern from "structmember.h":
    ctypedef struct PyMemberDef:
        Py_ssize_t offset
    ctypedef struct PyMemberDescrObject:
        PyMemberDef* d_member

cdef enum:
    MOST_KNOWN_BYTES = 1 << 23  # of the keys of a cache
    HAS_XID = 0xC0  # flags of MariaDB's GTID event: the XID of an XA transaction follows


cdef class Maker:
    """Makes instances of a dataclass with slots, without its constructor, which takes longer than parsing the event.

    Args:
        kind: the class.
        names: its fields, in order; the caller sets all of them after `begin`.
    """

    def __cinit__(self, type kind, tuple names):
        cdef int i
        if len(names) > MOST_FIELDS or set(names) != {field.name for field in fields(kind)}:
            raise ValueError(f"{kind.__name__} has other fields")
        self.kind = kind
        self.count = len(names)
        for i in range(self.count):
            self.offsets[i] = _offset(getattr(kind, names[i]))


cdef object copied(Maker maker, object known, object header):
    """Return a copy of `known` with another header, which is the last field."""
    cdef object made = begin(maker)
    cdef int i
    for i in range(maker.count - 1):
        put(maker, made, i, field(maker, known, i))
    put(maker, made, maker.count - 1, header)
    return made


cdef Py_ssize_t _offset(member) except -1:
    """Return the byte offset of a slot in the instances of its class."""
    if type(member) is not MemberDescriptorType:
        raise TypeError(f"{member!r} is not a slot")
    return (<PyMemberDescrObject*><PyObject*>member).d_member.offset


def _bodies():
    """Return a cache of parsed parts of bodies, by their bytes."""
    return BoundedBytesCache(MOST_TABLES, MOST_KNOWN_BYTES)


cdef tuple _GTID_FIELDS = (
    "flags", "uuid", "gno", "last_committed", "sequence_number", "immediate_commit_timestamp",
    "original_commit_timestamp", "transaction_length", "immediate_server_version", "original_server_version",
    "commit_group_ticket", "trailing", "header",
)
cdef tuple _ROWS_FIELDS = ("table_id", "flags", "extra", "column_count", "present", "images", "header")
cdef tuple _UPDATE_FIELDS = (
    "table_id", "flags", "extra", "column_count", "present", "present_after", "images", "header",
)
_FIELDS = {
    QUERY_EVENT: ("thread_id", "exec_time", "error_code", "status_vars", "schema", "sql", "header"),
    INTVAR_EVENT: ("kind", "value", "header"),
    XID_EVENT: ("xid", "header"),
    TABLE_MAP_EVENT: ("table_id", "flags", "schema", "table", "column_types", "metadata", "nullable",
                      "optional_metadata", "header"),
    WRITE_ROWS_EVENT_V1: _ROWS_FIELDS,
    WRITE_ROWS_EVENT_V1 + 1: _UPDATE_FIELDS,
    DELETE_ROWS_EVENT_V1: _ROWS_FIELDS,
    ROWS_QUERY_LOG_EVENT: ("sql", "length", "header"),
    WRITE_ROWS_EVENT: _ROWS_FIELDS,
    WRITE_ROWS_EVENT + 1: _UPDATE_FIELDS,
    WRITE_ROWS_EVENT + 2: _ROWS_FIELDS,
    GTID_LOG_EVENT: _GTID_FIELDS,
    ANONYMOUS_GTID_LOG_EVENT: _GTID_FIELDS,
    XA_PREPARE_LOG_EVENT: ("one_phase", "format_id", "gtrid", "bqual", "header"),
    PARTIAL_UPDATE_ROWS_EVENT: _UPDATE_FIELDS,
    ANNOTATE_ROWS_EVENT: ("sql", "header"),
    TRANSACTION_PAYLOAD_EVENT: ("fields", "payload", "header"),
    MARIADB_GTID_EVENT: ("sequence_number", "domain_id", "flags", "commit_id", "xid", "flags_extra", "extra_engines",
                         "sa_seq_no", "thread_id", "trailing", "header"),
}
EVENT_CODES = tuple(_FIELDS)
"""The event types that this module can make."""


cdef class EventCutter:
    """Cuts events out of a buffer.

    Args:
        classes: the event class of each of `EVENT_CODES`, by type code.
        header: the class of headers.
        uuid: the class of UUIDs.
        variable: the class of status variables.
    """

    cdef list makers
    cdef PyObject* maker[256]  # Maker of each selected type; NULL for the others
    cdef Maker header, uuid
    cdef list known  # caches by type code: bodies of table maps, heads of rows events
    cdef object contexts  # status variables and schema of statements, together
    cdef object variables, schemas
    cdef Maker variable
    cdef ZstdContext zstd
    cdef Memory opened  # the plain bytes of a payload
    cdef int64_t opened_size
    cdef object last_uuid
    cdef bytes last_data  # bytes of `last_uuid`
    cdef readonly uint32_t position_shift  # difference between log_pos and the real end of the last event
    cdef readonly int64_t at  # index of the next event in the buffer
    cdef GroupState group  # the current group, with `by_group`

    def __cinit__(self, dict classes, type header, type uuid, type variable):
        cdef int code
        self.header = Maker(header, ("timestamp", "type_code", "server_id", "event_size", "log_pos", "flags",
                                     "offset", "inner", "extra"))
        self.uuid = Maker(uuid, ("data",))
        self.zstd, self.opened = ZstdContext(), Memory()
        self.makers = [None] * 256
        for code, names in _FIELDS.items():
            self.makers[code] = Maker(classes[code], names)
        self.variable = Maker(variable, ("code", "value"))
        self.contexts, self.variables, self.schemas = _bodies(), _bodies(), _bodies()
        self.known = [None] * 256
        for code in range(256):
            if code == TABLE_MAP_EVENT or is_plain_rows(code):
                self.known[code] = _bodies()
            self.maker[code] = NULL

    def set_codes(self, codes, int64_t opened_size=0):
        """Select the event types to make, a subset of `EVENT_CODES`, and empty the caches, which may be invalid now.

        `opened_size` is the size in bytes up to which compressed transactions are opened.
        """
        cdef int code
        for code in range(256):
            self.maker[code] = NULL
            if self.known[code]:
                self.known[code].clear()
        self.opened_size = opened_size
        self.contexts.clear()
        self.variables.clear()
        self.schemas.clear()
        for code in codes:
            if self.makers[code] is None:
                raise ValueError(f"no events of type {code} can be made here")
            self.maker[code] = <PyObject*>self.makers[code]

    def cut(self, const uint8_t[::1] data, int64_t at, int64_t offset, int64_t stop, int64_t inner, int64_t most,
            bint checksum, bint verify, uint32_t shift, bint by_group):
        """Return the events from byte `at` of the buffer, up to one that is not made here; `self.at` is then its index.

        Args:
            offset: file offset of byte `at`.
            stop: file offset; events that begin at or after it are not returned.
            inner: -1, or the number of the first event in a payload; all events then have the offset `offset`, and
                `stop` is ignored.
            most: maximum number of events.
            checksum, verify: whether events end in a checksum, and whether it is verified.
            shift: `position_shift` of the previous event.
            by_group: stop no later than the end of a group.
        """
        cdef Cursor cursor
        cdef Frame* frame = &cursor.frame
        cdef list found = []
        cdef object event
        cdef object number = None
        set_cursor(&cursor, &data[0], data.shape[0], at, offset, inner, checksum, shift)
        self.group.place = G_OUTSIDE
        while ((inner >= 0 or cursor.offset < stop) and len(found) < most and has_event(&cursor, verify)
               and self.maker[frame.code] != NULL):
            if by_group and found and (is_group_start(frame.code) or self.group.place == G_OUTSIDE):
                break
            if inner >= 0:
                number = cursor.inner
            if frame.code == TRANSACTION_PAYLOAD_EVENT:
                if inner >= 0 or not self._payload(found, &cursor):
                    break
            else:
                event = self._event(frame.head, frame.end, cursor.offset, number)
                if event is None:
                    break
                found.append(event)
            if by_group:
                follow_body(&self.group, frame.code, frame.body, frame.end)
            pass_event(&cursor)
        self.at = cursor.at
        self.position_shift = cursor.shift
        return found

    cdef bint _payload(self, list found, Cursor* cursor) except -1:
        """Append the event of a compressed transaction and the events in it; returns False if construct must do it."""
        cdef PayloadFields fields
        cdef Cursor inside
        cdef const uint8_t* at = cursor.frame.body
        cdef const uint8_t* end = cursor.frame.end
        cdef Maker maker = <Maker>self.maker[<int>TRANSACTION_PAYLOAD_EVENT]
        cdef int64_t size
        cdef list events = [None]
        cdef list values = []
        cdef object made
        if not payload_fields(at, end, &fields):
            return False
        size = open_small(&fields, end, self.zstd, self.opened, self.opened_size)
        if not size:
            return False
        set_cursor(&inside, self.opened.data, size, 0, cursor.offset, 0, False, 0)
        while inside.at < size:
            if (not has_event(&inside, False) or self.maker[inside.frame.code] == NULL
                    or inside.frame.code == TRANSACTION_PAYLOAD_EVENT):
                return False
            made = self._event(inside.frame.head, inside.frame.end, cursor.offset, inside.inner)
            if made is None:
                return False
            events.append(made)
            pass_event(&inside)
        while at[0]:
            values.append((at[0], fields.values[at[0]]))
            at += 2 + at[1]
        made = begin(maker)
        put(maker, made, 0, tuple(values))
        put(maker, made, 1, <bytes>fields.payload[:end - fields.payload])
        put(maker, made, 2, self._header(cursor.frame.head, cursor.offset, None))
        events[0] = made
        found += events
        return True

    def learn(self, object event, bytes body):
        """Cache the result of a codec for later events whose bodies begin with the same bytes."""
        cdef int code = event.header.type_code
        cdef int64_t size
        if self.maker[code] == NULL:
            return
        if code == QUERY_EVENT:
            size = size_before_sql(body, <const uint8_t*>body + len(body))
            if size:
                self.contexts.put(body[11:size - 1], (event.status_vars, event.schema))
                self._learn_context(event, <const uint8_t*>body + QUERY_POST_HEADER, u16(<const uint8_t*>body + 11),
                                    body[8])
        elif code == TABLE_MAP_EVENT:
            self.known[code].put(body, event)
        elif is_plain_rows(code):
            head = replace(event, images=b"")  # images may have any size
            self.known[code].put(body[8:len(body) - len(event.images)], head)

    cdef object _header(self, const uint8_t* p, object place, object number):
        cdef Maker maker = self.header
        cdef object made = begin(maker)
        put(maker, made, 0, u32(p))
        put(maker, made, 1, p[4])
        put(maker, made, 2, u32(p + 5))
        put(maker, made, 3, u32(p + 9))
        put(maker, made, 4, u32(p + 13))
        put(maker, made, 5, u16(p + 17))
        put(maker, made, 6, place)
        put(maker, made, 7, number)
        put(maker, made, 8, b"")
        return made

    cdef object _event(self, const uint8_t* p, const uint8_t* end, object place, object number):
        """Return the event that begins at `p` and whose body ends at `end`; None if its codec must parse it."""
        cdef int code = p[4]
        cdef const uint8_t* body = p + HEADER_SIZE
        cdef Maker maker = <Maker>self.maker[code]
        cdef object known, made
        if code == TABLE_MAP_EVENT:
            known = (<dict>self.known[code]).get(body[:end - body])
            return None if known is None else copied(maker, known, self._header(p, place, number))
        if is_plain_rows(code):
            return self._rows(maker, code, p, body, end, place, number)
        if code == XID_EVENT:
            if end - body != 8:
                return None
            made = begin(maker)
            put(maker, made, 0, u64(body))
            put(maker, made, 1, self._header(p, place, number))
            return made
        if code == QUERY_EVENT:
            return self._query(maker, p, body, end, place, number)
        if code == GTID_LOG_EVENT or code == ANONYMOUS_GTID_LOG_EVENT:
            return self._gtid(maker, code, p, body, end, place, number)
        if code == MARIADB_GTID_EVENT:
            return self._mariadb_gtid(maker, p, body, end, place, number)
        made = begin(maker)
        if code == INTVAR_EVENT:
            if end - body != 9:
                return None
            put(maker, made, 0, body[0])
            put(maker, made, 1, u64(body + 1))
        elif code == XA_PREPARE_LOG_EVENT:
            if not is_xa_prepare(body, end):
                return None
            put(maker, made, 0, body[0])
            put(maker, made, 1, <int32_t>u32(body + 1))
            put(maker, made, 2, body[XA_HEAD:XA_HEAD + u32(body + 5)])
            put(maker, made, 3, body[XA_HEAD + u32(body + 5):end - body])
        elif code == ROWS_QUERY_LOG_EVENT:
            if body == end:
                return None
            put(maker, made, 0, body[1:end - body])
            put(maker, made, 1, body[0])
        else:
            put(maker, made, 0, body[:end - body])
        put(maker, made, maker.count - 1, self._header(p, place, number))
        return made

    cdef object _rows(self, Maker maker, int code, const uint8_t* p, const uint8_t* body, const uint8_t* end,
                      object place, object number):
        cdef RowsEvent rows
        cdef RowsHead head
        cdef uint64_t columns = 0
        cdef object known, made
        cdef int i
        if not (rows_head(&head, body, end, rows_post_header(<uint8_t>code))
                and read_frame(&rows, <uint8_t>code, head.rest, end, &columns)):
            return None
        known = (<dict>self.known[code]).get(body[8:rows.images - body])
        if known is None:
            return None
        made = begin(maker)
        put(maker, made, 0, head.table_id)
        put(maker, made, 1, head.flags)
        for i in range(2, maker.count - 2):
            put(maker, made, i, field(maker, known, i))
        put(maker, made, maker.count - 2, rows.images[:rows.size])
        put(maker, made, maker.count - 1, self._header(p, place, number))
        return made

    cdef object _query(self, Maker maker, const uint8_t* p, const uint8_t* body, const uint8_t* end, object place,
                       object number):
        cdef int64_t size = size_before_sql(body, end)
        cdef object known, made
        if not size:
            return None
        known = (<dict>self.contexts).get(body[11:size - 1])
        if known is None:
            known = self._context(body + QUERY_POST_HEADER, u16(body + 11), body[8])
        if known is None:
            return None
        made = begin(maker)
        put(maker, made, 0, u32(body))
        put(maker, made, 1, u32(body + 4))
        put(maker, made, 2, u16(body + 9))
        put(maker, made, 3, (<tuple>known)[0])
        put(maker, made, 4, (<tuple>known)[1])
        put(maker, made, 5, body[size:end - body])
        put(maker, made, 6, self._header(p, place, number))
        return made

    cdef object _context(self, const uint8_t* at, int64_t size, int64_t schema_size):
        """Return the status variables and the schema; None if one of them is not in the cache.

        Numbers, such as the microseconds of a statement, are made here, because they differ from event to event.
        """
        cdef const uint8_t* end = at + size
        cdef int64_t width
        cdef list variables = []
        cdef object variable
        cdef object schema = (<dict>self.schemas).get(end[:schema_size])
        if schema is None:
            return None
        while at < end:
            width = _status_size(at, end)
            if width == 0:
                return None
            if is_number(at[0]):
                variable = begin(self.variable)
                put(self.variable, variable, 0, at[0])
                put(self.variable, variable, 1, little(at + 1, <int>(width - 1)))
            else:
                variable = (<dict>self.variables).get(at[:width])
                if variable is None:
                    return None
            variables.append(variable)
            at += width
        return tuple(variables), schema

    cdef int _learn_context(self, object event, const uint8_t* at, int64_t size, int64_t schema_size) except -1:
        cdef const uint8_t* end = at + size
        cdef int64_t width
        self.schemas.put(end[:schema_size], event.schema)
        for variable in event.status_vars:
            width = _status_size(at, end)
            if width == 0:
                break
            self.variables.put(at[:width], variable)
            at += width
        return 0

    cdef object _uuid(self, const uint8_t* p):
        cdef object made
        cdef bytes data = p[:16]
        if data != self.last_data:
            made = begin(self.uuid)
            put(self.uuid, made, 0, data)
            self.last_uuid, self.last_data = made, data
        return self.last_uuid

    cdef object _gtid(self, Maker maker, int code, const uint8_t* p, const uint8_t* body, const uint8_t* end,
                      object place, object number):
        cdef Group group
        cdef GtidFields fields
        cdef object made
        if not read_group(&group, <uint8_t>code, p, body, end) or not gtid_fields(&fields, <uint8_t>code, body, end):
            return None
        made = begin(maker)
        put(maker, made, 0, fields.flags)
        put(maker, made, 1, self._uuid(body + 1))
        put(maker, made, 2, group.number)
        put(maker, made, 3, group.last_committed if fields.has_clock else None)
        put(maker, made, 4, group.sequence_number if fields.has_clock else None)
        put(maker, made, 5, fields.immediate if fields.has_immediate else None)
        put(maker, made, 6, fields.original if fields.has_original else None)
        put(maker, made, 7, fields.length if fields.has_length else None)
        put(maker, made, 8, fields.version if fields.has_version else None)
        put(maker, made, 9, fields.original_version if fields.has_original_version else None)
        put(maker, made, 10, fields.ticket if fields.has_ticket else None)
        put(maker, made, 11, None)
        put(maker, made, 12, self._header(p, place, number))
        return made

    cdef object _mariadb_gtid(self, Maker maker, const uint8_t* p, const uint8_t* body, const uint8_t* end,
                              object place, object number):
        cdef Group group
        cdef GtidFields fields
        cdef object made
        if (not read_group(&group, MARIADB_GTID_EVENT, p, body, end)
                or not gtid_fields(&fields, MARIADB_GTID_EVENT, body, end) or fields.flags & HAS_XID):
            return None
        made = begin(maker)
        put(maker, made, 0, group.number)
        put(maker, made, 1, group.domain_id)
        put(maker, made, 2, fields.flags)
        put(maker, made, 3, fields.commit_id if fields.has_commit_id else None)
        put(maker, made, 4, None)
        put(maker, made, 5, fields.flags_extra)
        put(maker, made, 6, fields.engines if fields.has_engines else None)
        put(maker, made, 7, fields.start if fields.has_start else None)
        put(maker, made, 8, fields.thread_id if fields.has_thread else None)
        put(maker, made, 9, None)
        put(maker, made, 10, self._header(p, place, number))
        return made


cdef inline bint is_number(int code) noexcept nogil:
    """Return whether the status variable is one integer (`binlogio.events.query.STATUS_VALUES`)."""
    return _number_size(code) > 0


cdef int _number_size(int code) noexcept nogil:
    if code == 16 or code == 19 or code == 20 or code == 21:
        return 1
    if code == 7 or code == 8 or code == 18:
        return 2
    if code == 13 or code == 128:
        return 3
    if code == 0 or code == 10:
        return 4
    if code == 1 or code == 9 or code == 14 or code == 15 or code == 17 or code == 129:
        return 8
    return 0


cdef int64_t _status_size(const uint8_t* at, const uint8_t* end) noexcept nogil:
    """Return the size in bytes of a status variable with its code; 0 if it is incomplete or its size is unknown."""
    cdef int code = at[0]
    cdef int64_t size = 1 + _number_size(code)
    cdef int64_t left = end - at
    cdef int names
    if size > 1:
        return size if size <= left else 0
    if code == 3:
        size = 5
    elif code == 4:
        size = 7
    elif left < 2:
        return 0
    elif code == 2:
        size = 3 + at[1]
    elif code == 5 or code == 6:
        size = 2 + at[1]
    elif code == 11:
        size = 2 + at[1]
        if size >= left:
            return 0
        size += 1 + at[size]
    elif code == 12 and at[1] < 254:
        size = 2
        for names in range(at[1]):
            while size < left and at[size]:
                size += 1
            size += 1
    elif code == 131:
        size = 2 + 4 * at[1]
    else:
        return 0
    return size if size <= left else 0
