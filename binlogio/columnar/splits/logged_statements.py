"""Finds DDL statements in logs, for readers of parts of logs.

A reader of a part lacks the earlier DDL, which names the columns of tables if the log's metadata does not.
`LoggedStatements` finds it by scanning the headers of all events, and parses only statements that may define a table.
Logs whose headers cannot be scanned (relay logs, logs with MariaDB's encrypt_binlog, old logs) are read event by event.
"""

from __future__ import annotations

from itertools import compress
from typing import TYPE_CHECKING, Final, NamedTuple

from binlogio.columnar.windows import Window, least_for
from binlogio.constants import BINLOG_MAGIC, CHECKSUM_SIZE, HEADER_SIZE, EventType, HeaderFlag
from binlogio.errors import BinlogError, BinlogFormatError
from binlogio.event_filter import HIGHEST
from binlogio.events import codec_for
from binlogio.events.base import EventHeader
from binlogio.events.format_description import BINLOG_VERSION
from binlogio.events.query import QueryEvent
from binlogio.events.table_map import TableMapEvent
from binlogio.implementation import is_compiled
from binlogio.options import ReadOptions
from binlogio.reader import BinlogReader
from binlogio.schema.ddl.first_words import body_may_define, may_define
from binlogio.schema.source import DefinitionSource, depends_on_definitions
from binlogio.series.identity import fingerprint
from binlogio.series.log_head import head_frames

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from binlogio.events.base import ParseContext
    from binlogio.schema.given import GivenDefinitions
    from binlogio.storage.keyring import Keyring
    from binlogio.storage.log_file import LogFile, OpenedLog

_BEGIN: Final = b"\0BEGIN"  # the schema name ends with a zero byte
_HEAD_SIZE: Final = 1 << 20
_IS_STATEMENT: Final = bytes(code in (EventType.QUERY_EVENT, EventType.QUERY_COMPRESSED_EVENT) for code in range(256))
_OTHER_HEADS: Final = HeaderFlag.RELAY_LOG | HeaderFlag.ARTIFICIAL


class _Statement(NamedTuple):
    offset: int
    event: QueryEvent


class _Log(NamedTuple):
    """The statements of a log up to offset `end`; `tail` is the fingerprint there."""

    context: ParseContext
    end: int
    tail: str | None
    statements: tuple[_Statement, ...]


class LoggedStatements:
    """The statements in the logs of one server that may define tables, in order. Can be pickled."""

    def __init__(self) -> None:
        self._logs: dict[str, _Log] = {}

    def add(self, log: LogFile, keyring: Keyring | None = None, end: int | None = None) -> None:
        """Add the statements of the next log, or new statements of a known log, up to offset `end` (None: to its end).

        Statements after damage are not found; the reader of the rows reports the damage.

        Raises:
            OSError, UnsupportedFeature: the log cannot be read.
        """
        known = self._logs.get(log.name)
        size = log.size if end is None else end
        if known is not None and size is not None and known.end >= size:
            return
        found = list(known.statements) if known is not None else []
        begin = 0 if known is None else known.end
        context, reached = None if known is None else known.context, begin
        tail = None
        stop = HIGHEST if end is None else end
        try:
            context, is_plain = _context(log, keyring)
            for offset, event in (_scanned if is_plain else _read)(log, keyring, context, begin, stop):
                reached = min(offset, stop)
                if event is not None and offset < stop:
                    found.append(_Statement(offset, event))
            tail = fingerprint(log, reached, keyring)
        except BinlogFormatError:
            pass
        if context is not None:
            self._logs[log.name] = _Log(context, reached, tail, tuple(found))

    def forget_others(self, logs: Iterable[LogFile], keyring: Keyring | None = None) -> None:
        """Forget all statements if a log is not the one that was added, or if this cannot be checked.

        Raises:
            OSError, UnsupportedFeature: a log cannot be read.
        """
        for log in logs:
            known = self._logs.get(log.name)
            if known is not None and not _has_tail(log, known, keyring):
                self._logs.clear()
                return

    def before(self, log: LogFile, offset: int, given: GivenDefinitions | None = None) -> DefinitionSource:
        """Return the definitions before an offset of a log, for a reader that begins there."""
        source = _PrimedSource(given)
        for name, (context, _, _, statements) in self._logs.items():
            if name == log.name:
                source.follow_at_begin = [(one, context) for one in statements if one.offset < offset]
                break
            source.begin_log(name)
            for one in statements:
                source.follow(one.event, context)
        return source

    def __bool__(self) -> bool:
        """Return True if logs were added, with statements or without."""
        return bool(self._logs)

    def __len__(self) -> int:
        return sum(len(log.statements) for log in self._logs.values())


class _PrimedSource(DefinitionSource):
    """The definitions of a reader that begins in the middle of a log; its DDL is applied by `begin_log`."""

    def __init__(self, given: GivenDefinitions | None) -> None:
        super().__init__(given)
        self.follow_at_begin: list[tuple[_Statement, ParseContext]] = []

    def begin_log(self, name: str) -> None:
        super().begin_log(name)
        for statement, context in self.follow_at_begin:
            self.follow(statement.event, context)
        self.follow_at_begin = []


def _has_tail(log: LogFile, known: _Log, keyring: Keyring | None) -> bool:
    try:
        return known.tail is not None and fingerprint(log, known.end, keyring) == known.tail
    except BinlogFormatError:
        return False


def lacks_names(log: LogFile, keyring: Keyring | None = None) -> bool | None:
    """Return whether the first rows of a log have columns without names; None if its first MiB has no rows.

    Raises:
        OSError, UnsupportedFeature: the log cannot be read.
    """
    try:
        with BinlogReader([log], ReadOptions(verify_checksum=False), keyring=keyring) as reader:
            for event in reader:
                if isinstance(event, TableMapEvent):
                    return depends_on_definitions(event, reader.context)
                if event.header.offset > _HEAD_SIZE:
                    return None
    except BinlogError:
        return None
    return None


def _context(log: LogFile, keyring: Keyring | None) -> tuple[ParseContext, bool]:
    """Return the parse context of a log, and whether its headers can be scanned.

    Raises:
        BinlogFormatError: the head is damaged.
    """
    opened = log.open(keyring)
    try:
        found = None
        is_plain = is_compiled()
        for frame in head_frames(opened, keyring):
            if found is not None and frame.header.type_code == EventType.START_ENCRYPTION_EVENT:
                return found, False
            if found is not None:
                return found, is_plain
            found = frame.context
            is_plain = (
                is_plain
                and found.header_size == HEADER_SIZE
                and found.binlog_version == BINLOG_VERSION
                and not found.permutation
                and not frame.header.flags & _OTHER_HEADS
            )
        if found is None:
            raise BinlogFormatError("the log has no event", file=log.name)
        return found, is_plain
    finally:
        opened.close()


def _scanned(
    log: LogFile, keyring: Keyring | None, context: ParseContext, begin: int, end: int
) -> Iterator[tuple[int, QueryEvent | None]]:
    """Yield offsets and statements, by scanning headers; (offset, None): all statements before offset were found."""
    from binlogio._kernel.event_scanner import scan_headers  # noqa: PLC0415 - the kernel is optional

    tail = CHECKSUM_SIZE if context.has_checksum else 0
    opened = log.open(keyring)
    try:
        window = Window(opened.read, readinto=opened.readinto)
        _pass_to(window, opened, max(begin, len(BINLOG_MAGIC)))
        while window.offset < end and window.fill(least_for(window)):
            index = scan_headers(window.view, window.offset, checksum=False, verify=False, stop_at_description=False)
            offsets, sizes = memoryview(index.offset).cast("q"), memoryview(index.event_size).cast("I")
            codes = bytes(memoryview(index.type_code))
            for number in compress(range(len(codes)), codes.translate(_IS_STATEMENT)):
                start = offsets[number] - window.offset
                stop = start + sizes[number] - tail
                if bytes(window.view[stop - len(_BEGIN) : stop]) == _BEGIN:  # BEGIN is in almost every transaction
                    continue
                body = bytes(window.view[start + HEADER_SIZE : stop])
                event = _statement(codes[number], body, context)
                if event is not None:
                    yield offsets[number], event
            if index.end == window.offset and not window.fill(window.held + 1):
                return
            window.take(index.end - window.offset)
            yield window.offset, None
    finally:
        opened.close()


def _statement(code: int, body: bytes, context: ParseContext) -> QueryEvent | None:
    """Return the statement of an event; None if it cannot define a table."""
    if code == EventType.QUERY_EVENT and not body_may_define(body):
        return None
    event: QueryEvent = codec_for(code).parse(EventHeader(type_code=code), body, context)
    return event if may_define(event.sql) else None


def _pass_to(window: Window, opened: OpenedLog, offset: int) -> None:
    if opened.seekable:
        window.go_to(offset, opened)
    while window.offset < offset and window.fill():
        window.take(min(window.held, offset - window.offset))


def _read(
    log: LogFile, keyring: Keyring | None, context: ParseContext, begin: int, end: int
) -> Iterator[tuple[int, QueryEvent | None]]:
    """Yield the same as `_scanned`, with the event reader."""
    with BinlogReader([log], ReadOptions(verify_checksum=False), keyring=keyring) as reader:
        for event in reader:
            offset = event.header.offset
            if offset >= end:
                return
            if isinstance(event, QueryEvent) and offset >= begin and may_define(event.sql):
                yield offset, event
            yield offset, None
