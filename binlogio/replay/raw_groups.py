"""Raw event groups: converts transactions of row changes to BINLOG statements, mostly by event headers alone.

Used if the target is of the same vendor as the log. Row images are passed from the log to the server unchanged; only
GTID, BEGIN and COMMIT events are parsed, and each table map once. All other event groups (DDL, statements, XA, LOAD
DATA, compressed transactions), malformed events, and logs with other event headers are returned as typed events.

    raw_group := gtid "BEGIN" (rows_query | table_map | rows)* (xid | "COMMIT")         -- MySQL
               | mariadb_gtid (annotate_rows | table_map | rows)* (xid | "COMMIT")      -- not standalone
    statement := the table maps of its rows events, rows events up to STMT_END          -- one BINLOG statement

A server uses only the table maps before the first rows event of a BINLOG statement. So each statement of the source
becomes a separate BINLOG statement. A large statement becomes several, each with the table maps.

Source: sql/sql_binlog.cc, mysql_client_binlog_statement; sql/log_event.cc, Rows_log_event::do_apply_event.
"""

from __future__ import annotations

import struct
from binascii import b2a_base64
from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from binlogio.constants import (
    CHECKSUM_SIZE,
    HEADER_SIZE,
    EventType,
    HeaderFlag,
    OptionalMetadataType,
    RowsFlag,
)
from binlogio.errors import BinlogError, BinlogFormatError
from binlogio.events import codec_for
from binlogio.events.base import NEW_HEADER
from binlogio.events.format_description import BINLOG_VERSION
from binlogio.events.mariadb import MariadbGtidFlag
from binlogio.events.query import POST_HEADER, QueryEvent
from binlogio.events.table_map import parse_table_map
from binlogio.format.event_starts import check_start, no_event_at
from binlogio.format.framing import EventFrame, EventFramer
from binlogio.gtid import GNO_END, NO_TAG, Gtid, MariadbGtid, Uuid
from binlogio.reader import may_skip
from binlogio.storage.event_stream import EventStream, Headers
from binlogio.values.column import has_old_temporal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from binlogio.events.base import ParseContext
    from binlogio.reader import BinlogReader
    from binlogio.storage.keyring import Keyring
    from binlogio.storage.log_file import LogFile, OpenedLog

MOST_HELD_BYTES: Final = 16 << 20
"""The size in bytes up to which a group is buffered in memory, if the log can be read twice."""

_ROWS_V1: Final = (
    EventType.WRITE_ROWS_EVENT_V1, EventType.UPDATE_ROWS_EVENT_V1, EventType.DELETE_ROWS_EVENT_V1,
)  # fmt: skip
_ROWS_V2: Final = (
    EventType.WRITE_ROWS_EVENT, EventType.UPDATE_ROWS_EVENT, EventType.DELETE_ROWS_EVENT,
    EventType.PARTIAL_UPDATE_ROWS_EVENT,
)  # fmt: skip
_TEXTS: Final = (EventType.ROWS_QUERY_LOG_EVENT, EventType.ANNOTATE_ROWS_EVENT)  # not applied
_POST_HEADERS: Final = {
    EventType.QUERY_EVENT: POST_HEADER,
    EventType.TABLE_MAP_EVENT: 8,
    **dict.fromkeys(_ROWS_V1, 8),
    **dict.fromkeys(_ROWS_V2, 10),
}
_TABLE_MAP: Final = int(EventType.TABLE_MAP_EVENT)
_XID: Final = int(EventType.XID_EVENT)
_ROWS_WITH_EXTRA: Final = frozenset(map(int, _ROWS_V2))
_UPDATES: Final = frozenset(
    map(
        int,
        (EventType.UPDATE_ROWS_EVENT_V1, EventType.UPDATE_ROWS_EVENT, EventType.PARTIAL_UPDATE_ROWS_EVENT),
    )
)
_XID_SIZE: Final = HEADER_SIZE + 8
_ROWS: Final = frozenset(map(int, (*_ROWS_V1, *_ROWS_V2)))
_TABLE_ID: Final = slice(HEADER_SIZE, HEADER_SIZE + 6)
_FLAGS_AT: Final = HEADER_SIZE + 6  # the low byte of the flags of a rows event
_STMT_END: Final = int(RowsFlag.STMT_END)
_QUERY_FLAGS_AT: Final = HEADER_SIZE - 2
_QUERY_SESSION_SIZE: Final = 4 + 4  # thread_id and exec_time, which differ between transactions
_MOST_QUERIES: Final = 1_000
_MOST_NAMES: Final = 10_000  # the limit of the cache of table maps
_MAY_HAVE_DDL: Final = (
    EventType.QUERY_EVENT, EventType.QUERY_COMPRESSED_EVENT, EventType.TRANSACTION_PAYLOAD_EVENT,
)  # fmt: skip
_FIRST_OFFSET: Final = 4  # the offset of the format description
_LEAST_KNOWN: Final = 1 << 20  # bytes; for a larger event, the size of the file is checked before it is read

# flags, uuid, gno, typecode, last_committed, sequence_number: `binlogio.events.gtid`
_GTID: Final = struct.Struct("<B16sqBqq")
_LOGICAL_CLOCK: Final = 2
# sequence_number, domain_id, flags: `binlogio.events.mariadb`
_MARIADB_GTID: Final = struct.Struct("<QIB")
_MARIADB_GTID_SIZE: Final = 19
_COMMIT_ID: Final = struct.Struct("<Q")
_NOT_RAW: Final = (
    MariadbGtidFlag.STANDALONE | MariadbGtidFlag.DDL | MariadbGtidFlag.PREPARED_XA | MariadbGtidFlag.COMPLETED_XA
)


_ENDS: Final = (EventType.XID_EVENT, EventType.QUERY_EVENT)


class _Grammar:
    """The types of the events of raw groups.

    `heads` are the types of the events before the first change, `rows` the types of rows events with supported
    post-headers, `changes` those between the heads and the end.
    """

    def __init__(self, rows: frozenset[int], *, is_mariadb: bool) -> None:
        self.rows: Final = rows
        self.changes: Final = frozenset((*rows, *_TEXTS, _TABLE_MAP))
        self.heads: Final[tuple[tuple[EventType, ...], ...]] = (
            ((EventType.MARIADB_GTID_EVENT,),)
            if is_mariadb
            else ((EventType.GTID_LOG_EVENT, EventType.ANONYMOUS_GTID_LOG_EVENT), (EventType.QUERY_EVENT,))
        )

    def size_of(self, codes: bytes, first: int) -> int | None:
        """Return the number of events of the raw group that begins with event `first`.

        0: the group may continue after `codes`. None: it is no raw group.
        """
        at = first
        for kinds in self.heads:
            if at == len(codes):
                return 0
            if codes[at] not in kinds:
                return None
            at += 1
        while at < len(codes) and codes[at] in self.changes:
            at += 1
        if at == len(codes):
            return 0
        return at + 1 - first if codes[at] in _ENDS else None

    @classmethod
    def of(cls, context: ParseContext) -> _Grammar | None:
        """Return the grammar for a log; None if its event headers are not those of current servers."""
        is_usual = (
            context.binlog_version == BINLOG_VERSION
            and context.header_size == HEADER_SIZE
            and not context.permutation
            and bool(context.post_header_sizes)
        )
        known = {code for code, size in _POST_HEADERS.items() if context.post_header_size(code, size) == size}
        if not is_usual or not known.issuperset((EventType.QUERY_EVENT, EventType.TABLE_MAP_EVENT)):
            return None
        return cls(frozenset(_ROWS & known), is_mariadb=context.is_mariadb)


class RawStatement(NamedTuple):
    """The events of a BINLOG statement.

    `data` are the events without checksums. `offset` is the offset of the first rows event in the log, `events` the
    number of rows events.
    """

    data: bytes
    offset: int
    events: int

    @property
    def sql(self) -> bytes:
        """The text of the BINLOG statement."""
        return b"BINLOG '%b'" % b2a_base64(self.data, newline=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class RawGroup:
    """An event group of row changes, from `offset` to `end` of the log, in bytes from the start of the file.

    `statements` can be iterated over several times; if the group is larger than `MOST_HELD_BYTES`, they are read from
    the log each time. `ended_statements` is the number of statements of the source, `events` the number of rows events.
    `names` has the names of the columns of `tables`, where table maps have them (binlog_row_metadata=FULL).
    `last_committed` and `sequence_number` are MySQL's logical clock, `commit_id` is MariaDB's; None if missing.
    """

    offset: int
    end: int
    timestamp: int
    server_id: int
    gtid: Gtid | MariadbGtid | None
    last_committed: int | None
    sequence_number: int | None
    commit_id: int | None
    tables: frozenset[tuple[str, str]]
    names: Mapping[tuple[str, str], tuple[str, ...]]
    statements: Iterable[RawStatement]
    ended_statements: int
    events: int

    @property
    def size(self) -> int:
        """The size of the group in the log, in bytes."""
        return self.end - self.offset


class _NotRaw(Exception):
    """The group must be read as typed events."""


TableName = tuple[str, str]
"""Schema and table."""


class _MappedTable(NamedTuple):
    """The table of a table map, and the names of its columns; None: the map does not have them."""

    name: TableName
    columns: tuple[str, ...] | None


class _Statements:
    """Builds BINLOG statements from the table maps and rows events of a group; `tables` are the tables with rows."""

    def __init__(self, most_bytes: int, table_of: Callable[[bytes], _MappedTable]) -> None:
        self.tables: Final[set[TableName]] = set()
        self.ended = 0
        self.events = 0
        self._most = most_bytes
        self._table_of = table_of
        self.names: Final[dict[TableName, tuple[str, ...]]] = {}
        self._maps: dict[bytes, tuple[bytes, _MappedTable]] = {}
        self._used: dict[bytes, bytes] = {}
        self._rows: list[bytes] = []
        self._size = 0
        self._offset = 0

    @property
    def is_open(self) -> bool:
        """True in the middle of a statement."""
        return bool(self._maps)

    def add_map(self, frame: bytes) -> None:
        """Add a table map.

        Raises:
            _NotRaw: it is malformed, or the statement uses another table map with the same table id.
        """
        table_id = frame[_TABLE_ID]
        if self._used.get(table_id, frame) != frame:
            raise _NotRaw
        self._maps[table_id] = (frame, self._table_of(frame))

    def add_rows(self, frame: bytes, offset: int) -> RawStatement | None:
        """Add a rows event; return the BINLOG statement that it completes, or None.

        Raises:
            _NotRaw: it is malformed, or its table map is not in the statement.
        """
        found = self._maps.get(frame[_TABLE_ID])
        if found is None or not _is_whole_rows_event(frame):
            raise _NotRaw
        if not self._rows:
            self._offset = offset
        self._used[frame[_TABLE_ID]] = found[0]
        name, columns = found[1]
        self.tables.add(name)
        if columns is not None:
            self.names[name] = columns
        self._rows.append(frame)
        self.events += 1
        self._size += len(frame)
        if frame[_FLAGS_AT] & _STMT_END:
            statement = self._statement()
            self._maps.clear()
            self.ended += 1
            return statement
        if self._size >= self._most:
            self._rows[-1] = b"%b%c%b" % (frame[:_FLAGS_AT], frame[_FLAGS_AT] | _STMT_END, frame[_FLAGS_AT + 1 :])
            return self._statement()
        return None

    def _statement(self) -> RawStatement:
        statement = RawStatement(b"".join((*self._used.values(), *self._rows)), self._offset, len(self._rows))
        self._used.clear()
        self._rows.clear()
        self._size = 0
        return statement


def _is_whole_rows_event(frame: bytes) -> bool:
    """Return whether a rows event is complete up to its row images."""
    size, at, code = len(frame), HEADER_SIZE + 8, frame[4]
    if code in _ROWS_WITH_EXTRA:
        if size < at + 2 or (extra := int.from_bytes(frame[at : at + 2], "little")) < 2:
            return False
        at += extra
    if size <= at:
        return False
    width = frame[at]
    at += 1
    if width >= 0xFB:
        more = {0xFC: 2, 0xFD: 3}.get(width)
        if more is None or size < at + more:
            return False
        width = int.from_bytes(frame[at : at + more], "little")
        at += more
    return size >= at + (width + 7) // 8 * (2 if code in _UPDATES else 1)


def _is_whole_text(code: int, size: int) -> bool:
    """Return whether an event with the statement of row changes is complete; `size` is the size of the event."""
    return code != EventType.ROWS_QUERY_LOG_EVENT or size > HEADER_SIZE


def _without_checksum(view: memoryview, at: int, size: int, checksum_size: int) -> bytes:
    """Return an event of a buffer without its checksum."""
    if not checksum_size:
        return bytes(view[at : at + size])
    size -= checksum_size
    return b"".join((view[at : at + 9], size.to_bytes(4, "little"), view[at + 13 : at + size]))


def _walk(stream: EventStream) -> Iterator[tuple[int, int, bytes]]:
    """Yield type code, offset and bytes (without checksum) of the events of a stream, up to one for the framer."""
    window, checksum_size = stream.window, CHECKSUM_SIZE * stream.framer.context.has_checksum
    while window.fill(HEADER_SIZE):
        found = stream.headers()
        if not found.codes:
            if found.stops or window.held > MOST_HELD_BYTES or not window.fill(window.held + 1):
                return
            continue
        view, base = found.view, found.offset
        for code, offset, size in zip(found.codes, found.offsets, found.sizes, strict=True):
            yield code, offset, _without_checksum(view, offset - base, size, checksum_size)
        stream.pass_to(found.end)


class _Reread:
    """The statements of a large group; each iteration reads them from the log again."""

    def __init__(
        self, log: LogFile, keyring: Keyring | None, start: int, end: int, context: ParseContext, most_bytes: int
    ) -> None:
        self._log = log
        self._keyring = keyring
        self._start = start
        self._end = end
        self._context = context
        self._most_bytes = most_bytes

    def __iter__(self) -> Iterator[RawStatement]:
        statements = _Statements(self._most_bytes, lambda _: _MappedTable(("", ""), None))
        opened = self._log.open(self._keyring)
        stream = EventStream(opened, EventFramer(context=self._context), verify=False)
        try:
            stream.go_to(self._start)
            end = self._start
            for code, offset, event in _walk(stream):
                end = offset + len(event) + CHECKSUM_SIZE * self._context.has_checksum
                if code == _TABLE_MAP:
                    statements.add_map(event)
                elif code in _ROWS and (statement := statements.add_rows(event, offset)) is not None:
                    yield statement
                if end >= self._end:
                    break
        except _NotRaw:
            end = -1
        finally:
            stream.close()
            opened.close()
        if end != self._end:
            raise BinlogFormatError("the log has changed since it was read", file=self._log.name, offset=self._start)


class _Head(NamedTuple):
    """Fields of the GTID event that begins a raw group."""

    gtid: Gtid | MariadbGtid | None
    last_committed: int | None
    sequence_number: int | None
    commit_id: int | None


class _Heads:
    """Parses the events that begin and end raw groups.

    Methods return None or False if the group must be read as typed events.
    """

    def __init__(self) -> None:
        self._uuids: dict[bytes, Uuid] = {}
        self._queries: dict[bytes, bytes | None] = {}

    def is_end(self, event: bytes) -> bool:
        """Return whether an event is an XID event or COMMIT."""
        return len(event) == _XID_SIZE if event[4] == _XID else self.is_query(event, b"COMMIT")

    def is_query(self, event: bytes, text: bytes) -> bool:
        """Return whether an event is the statement `text`; each body is parsed once."""
        key = event[_QUERY_FLAGS_AT:HEADER_SIZE] + event[HEADER_SIZE + _QUERY_SESSION_SIZE :]
        if key not in self._queries:
            if len(self._queries) >= _MOST_QUERIES:
                self._queries.clear()
            self._queries[key] = _plain_query(event)
        return self._queries[key] == text

    def mysql(self, event: bytes) -> _Head | None:
        """Return the fields of a GTID event of MySQL, given without checksum."""
        if len(event) < HEADER_SIZE + _GTID.size:
            return None
        _, uuid, gno, typecode, last_committed, sequence_number = _GTID.unpack_from(event, HEADER_SIZE)
        if typecode != _LOGICAL_CLOCK or not _is_whole_gtid(event[HEADER_SIZE + _GTID.size :]):
            return None
        if event[4] == EventType.ANONYMOUS_GTID_LOG_EVENT:
            return None if gno else _Head(None, last_committed, sequence_number, None)
        if not 0 < gno < GNO_END:
            return None
        known = self._uuids.get(uuid)
        if known is None:
            known = self._uuids[uuid] = Uuid(uuid)
        return _Head(Gtid(known, NO_TAG, gno), last_committed, sequence_number, None)

    def mariadb(self, event: bytes) -> _Head | None:
        """Return the fields of a GTID event of MariaDB, given without checksum."""
        if len(event) < HEADER_SIZE + _MARIADB_GTID_SIZE:
            return None
        number, domain_id, flags = _MARIADB_GTID.unpack_from(event, HEADER_SIZE)
        if flags & _NOT_RAW:
            return None
        rest = event[HEADER_SIZE + _MARIADB_GTID.size :]
        commit_id = None
        if flags & MariadbGtidFlag.GROUP_COMMIT_ID:
            if len(rest) < _COMMIT_ID.size:
                return None
            (commit_id,) = _COMMIT_ID.unpack_from(rest)
            rest = rest[_COMMIT_ID.size :]
        if rest[:1] not in (b"", b"\0", b"\x10") or (rest[:1] == b"\x10" and len(rest) < 1 + 4):  # thread_id
            return None
        return _Head(MariadbGtid(domain_id, int.from_bytes(event[5:9], "little"), number), None, None, commit_id)


def _is_whole_gtid(rest: bytes) -> bool:
    """Return whether the fields of a GTID event after its logical clock are complete.

    Each field may be missing, together with all fields after it.
    """
    if not rest:
        return True
    size = len(rest)
    at = 14 if size >= 7 and rest[6] & 0x80 else 7
    if size <= at:
        return size == at
    at += {0xFC: 3, 0xFD: 4, 0xFE: 9}.get(rest[at], 1) if rest[at] not in (0xFB, 0xFF) else size
    if size <= at:
        return size == at
    at += 8 if size >= at + 4 and rest[at + 3] & 0x80 else 4
    return size == at or size >= at + 8


def _plain_query(event: bytes) -> bytes | None:
    """Return the text of a statement; None if the event is malformed, or the statement depends on its session."""
    if event[4] != EventType.QUERY_EVENT or event[_QUERY_FLAGS_AT] & HeaderFlag.THREAD_SPECIFIC:
        return None
    try:
        parsed: QueryEvent = codec_for(EventType.QUERY_EVENT).parse(NEW_HEADER, event[HEADER_SIZE:])
    except BinlogError:
        return None
    return parsed.sql


class RawGroupSource:
    """Reads logs for `BinlogReader.read_by`, and returns most transactions as raw groups.

    Args:
        reader: the reader, which has not read any event.
        is_mariadb: whether the target is MariaDB; a log of the other vendor is read as typed events.
        most_bytes: the limit for the events of one BINLOG statement, unless a single event is larger.
        tells_cascades: return groups as typed events if foreign keys of their tables may have changed other tables.
        held_bytes: the size up to which a group is buffered in memory, if its log can be read twice.
    """

    def __init__(
        self,
        reader: BinlogReader,
        *,
        is_mariadb: bool,
        most_bytes: int,
        tells_cascades: bool = True,
        held_bytes: int = MOST_HELD_BYTES,
    ) -> None:
        self._reader = reader
        self._is_mariadb = is_mariadb
        self._most_bytes = most_bytes
        self._tells_cascades = tells_cascades
        self._held_bytes = held_bytes
        self._verifies = reader.options.verify_checksum
        self._names: dict[bytes, _MappedTable] = {}
        self._cascading: dict[TableName, bool] = {}
        self._heads = _Heads()
        self._judged: ParseContext | None = None
        self._grammar: _Grammar | None = None
        self._headers: Headers | None = None

    @property
    def framer(self) -> EventFramer:
        """The framer of the last frame; its context is the format of the groups after this frame."""
        return self._stream.framer

    def items(self, opened: OpenedLog, framer: EventFramer, start: int | None) -> Iterator[EventFrame | RawGroup]:
        """Yield frames and raw groups; with `start`, the format description and then those from offset `start` on.

        Raises:
            PositionError: no event starts at `start`.
        """
        self._opened, self._headers = opened, None
        self._stream = EventStream(opened, framer, verify=self._verifies)
        self._forget_tables()
        try:
            yield from self._items(self._stream, start)
        finally:
            self._stream.close()

    def _forget_tables(self) -> None:
        self._names.clear()
        self._cascading.clear()

    def _items(self, stream: EventStream, start: int | None) -> Iterator[EventFrame | RawGroup]:
        last = 0
        while True:
            group = self._group() if start is None or stream.window.offset >= start else None
            if group is not None:
                last = group.offset
                yield group
                continue
            frame = stream.frame()
            framer = stream.framer
            if frame is None:
                if start is not None and framer.offset < start:
                    raise no_event_at(start, framer.offset, is_end=True)
                return
            offset = frame.header.offset
            if start is not None and last < start < offset:
                raise no_event_at(start, offset)
            last = offset
            if start is None or offset >= start or offset == _FIRST_OFFSET:
                yield frame
            if frame.header.type_code in _MAY_HAVE_DDL:
                self._cascading.clear()
            if start is not None and framer.offset < start and self._opened.seekable and may_skip(framer, frame):
                check_start(self._opened, start, framer, file=self._reader.position.file)
                stream.go_to(start, framer.position_shift)

    # ------------------------------------------------------------------------------------------------ raw groups

    def _may_be_raw(self) -> bool:
        framer, context = self.framer, self.framer.context
        if context is not self._judged:
            self._judged = context
            self._grammar = _Grammar.of(context) if context.is_mariadb == self._is_mariadb else None
            self._forget_tables()
        if self._grammar is None or not self._stream.has_headers or framer.is_relay_log:
            return False
        group = self._reader.group
        return group is None or group.last is not None

    def _group(self) -> RawGroup | None:
        """Return the group at the offset of the window if it is a raw group, otherwise None."""
        if not self._may_be_raw() or self._grammar is None:
            return None
        stream, window, headers, grammar = self._stream, self._stream.window, self._headers, self._grammar
        while True:
            if headers is None or headers.end <= window.offset:
                if not window.fill(HEADER_SIZE):
                    return None
                headers = self._headers = stream.headers()
            first = bisect_left(headers.offsets, window.offset)
            has_first = first < len(headers) and headers.offsets[first] == window.offset
            if has_first:
                size = grammar.size_of(headers.codes, first)
                if size:
                    return self._held_group(grammar, headers, first, first + size)
                if size is None:
                    return None
            if headers.stops:
                return None
            if window.held > self._held_bytes and self._can_reread:
                return self._large_group(grammar, headers, first) if has_first else None
            if not window.fill(window.held + 1):
                return None
            headers = self._headers = stream.headers()

    @property
    def _can_reread(self) -> bool:
        """True if the log can be opened a second time, at any offset, while it is read."""
        log = self._reader.log
        return self._opened.seekable and log is not None and log.stream is None

    def _event(self, headers: Headers, number: int) -> bytes:
        """Return an event of the window without its checksum; the size in its header is unchanged."""
        at = headers.offsets[number] - self._stream.window.offset
        size = headers.sizes[number] - CHECKSUM_SIZE * self.framer.context.has_checksum
        return bytes(self._stream.window.view[at : at + size])

    def _head(self, headers: Headers, number: int) -> _Head | None:
        """Return the fields of the first events of a raw group; None if it must be read as typed events."""
        event = self._event(headers, number)
        if self._is_mariadb:
            return self._heads.mariadb(event)
        return self._heads.mysql(event) if self._heads.is_query(self._event(headers, number + 1), b"BEGIN") else None

    def _held_group(self, grammar: _Grammar, headers: Headers, first: int, after: int) -> RawGroup | None:
        """Return the group of the events `first` to `after` - 1, which are all in the window."""
        head = self._head(headers, first)
        if head is None or not self._heads.is_end(self._event(headers, after - 1)):
            return None
        window = self._stream.window
        view, base = window.view, window.offset
        checksum_size = CHECKSUM_SIZE * self.framer.context.has_checksum
        statements = _Statements(self._most_bytes, self._table_of)
        found: list[RawStatement] = []
        codes, offsets, sizes = headers.codes, headers.offsets, headers.sizes
        try:
            for at in range(first + len(grammar.heads), after - 1):
                code, offset = codes[at], offsets[at]
                if code == _TABLE_MAP:
                    statements.add_map(_without_checksum(view, offset - base, sizes[at], checksum_size))
                elif code in _ROWS:
                    frame = _without_checksum(view, offset - base, sizes[at], checksum_size)
                    if (statement := statements.add_rows(frame, offset)) is not None:
                        found.append(statement)
                elif not _is_whole_text(code, sizes[at] - checksum_size):
                    return None
        except _NotRaw:
            return None
        if statements.is_open:
            return None
        timestamp, server_id = int.from_bytes(view[:4], "little"), int.from_bytes(view[5:9], "little")
        end = offsets[after - 1] + sizes[after - 1]
        log_pos = int.from_bytes(view[end - base - sizes[after - 1] :][13:17], "little")
        return self._raw_group(head, base, end, log_pos, timestamp, server_id, statements, tuple(found))

    def _large_group(self, grammar: _Grammar, headers: Headers, first: int) -> RawGroup | None:
        """Return the large group that begins with event `first` of the window, without buffering it."""
        changes_at = first + len(grammar.heads)
        head = self._head(headers, first) if changes_at < len(headers) else None
        if head is None:
            return None
        window, context, start = self._stream.window, self.framer.context, self._stream.window.offset
        timestamp, server_id = (int.from_bytes(window.view[a:b], "little") for a, b in ((0, 4), (5, 9)))
        statements = _Statements(self._most_bytes, self._table_of)
        window.take(headers.offsets[changes_at] - start)
        end, log_pos = None, 0
        try:
            for code, offset, event in _walk(self._stream):
                if code == _TABLE_MAP:
                    statements.add_map(event)
                elif code in grammar.rows:
                    statements.add_rows(event, offset)
                elif code not in _TEXTS or not _is_whole_text(code, len(event)):
                    if self._heads.is_end(event) and not statements.is_open:
                        end = offset + len(event) + CHECKSUM_SIZE * context.has_checksum
                        log_pos = int.from_bytes(event[13:17], "little")
                    break
        except _NotRaw:
            end = None
        self._headers = None
        window.go_to(start if end is None else end, self._opened)
        if end is None or self._reader.log is None:
            return None
        again = _Reread(self._reader.log, self._reader.keyring, start, end, context, self._most_bytes)
        return self._raw_group(head, start, end, log_pos, timestamp, server_id, statements, again)

    def _raw_group(
        self,
        head: _Head,
        start: int,
        end: int,
        log_pos: int,
        timestamp: int,
        server_id: int,
        statements: _Statements,
        found: Iterable[RawStatement],
    ) -> RawGroup:
        self._stream.pass_to(end, (log_pos - end) & 0xFFFFFFFF if log_pos else None)
        return RawGroup(
            offset=start,
            end=end,
            timestamp=timestamp,
            server_id=server_id,
            gtid=head.gtid,
            last_committed=head.last_committed,
            sequence_number=head.sequence_number,
            commit_id=head.commit_id,
            tables=frozenset(statements.tables),
            names=statements.names,
            statements=found,
            ended_statements=statements.ended,
            events=statements.events,
        )

    def _table_of(self, frame: bytes) -> _MappedTable:
        """Return the table of a table map, and the names of its columns.

        Raises:
            _NotRaw: it is malformed, has types that MySQL 9 misreads, or foreign keys may have changed other tables.
        """
        body = frame[HEADER_SIZE:]
        found = self._names.get(body[6:])
        if found is None:
            try:
                event = parse_table_map(NEW_HEADER, body, self.framer.context)
            except BinlogError as exc:
                raise _NotRaw from exc
            if not self.framer.context.is_mariadb and has_old_temporal(event.column_types):
                raise _NotRaw
            if len(self._names) >= _MOST_NAMES:
                self._names.clear()
            columns = event.optional(OptionalMetadataType.COLUMN_NAME)
            found = self._names[body[6:]] = _MappedTable((event.schema, event.table), columns)
        name = found.name
        if self._tells_cascades:
            has_cascades = self._cascading.get(name)
            if has_cascades is None:
                has_cascades = bool(self._reader.definitions.cascades(*name, self.framer.context))
                self._cascading[name] = has_cascades
            if has_cascades:
                raise _NotRaw
        return found
