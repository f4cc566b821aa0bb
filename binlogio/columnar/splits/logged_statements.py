"""Finds DDL statements in logs, for readers of parts of logs.

A reader of a part lacks the earlier DDL, which names the columns of tables if the log's metadata does not.
`catalogue_logs` finds it by scanning the headers of all events, and parses only statements that may define a table.
Logs whose headers cannot be scanned (relay logs, logs with MariaDB's encrypt_binlog, old logs) are read event by event.
"""

from __future__ import annotations

from itertools import compress
from typing import TYPE_CHECKING, Final

from binlogio.constants import (
    BINLOG_MAGIC,
    CHECKSUM_SIZE,
    EVENT_SIZE_BYTES,
    HEADER_SIZE,
    LOG_ENDS,
    TYPE_CODE_AT,
    EventType,
    HeaderFlag,
)
from binlogio.errors import BinlogError, BinlogFormatError, ChecksumMismatch, UnsupportedFeature
from binlogio.events import codec_for
from binlogio.events.base import EventHeader, event_checksums, event_name
from binlogio.events.format_description import BINLOG_VERSION
from binlogio.events.query import QueryEvent
from binlogio.events.table_map import TableMapEvent
from binlogio.implementation import require_kernel
from binlogio.options import ReadOptions
from binlogio.reader import BinlogReader
from binlogio.schema.catalogue import CataloguedLog, DefinitionCatalogue, PlacedStatement, PlacedTables
from binlogio.schema.ddl.first_words import body_may_define, may_define
from binlogio.schema.source import DefinitionSource, depends_on_definitions
from binlogio.selection.event_filter import HIGHEST
from binlogio.series.identity import log_identity, log_size
from binlogio.series.log_head import head_frames
from binlogio.series.progress import LogProgress, recognizer
from binlogio.storage.event_stream import header_windows
from binlogio.storage.index_file import log_number
from binlogio.storage.windows import WINDOW_SIZE, Window

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from binlogio.events.base import ParseContext
    from binlogio.format.splits import Split
    from binlogio.schema.catalogue import Follow, IsLog
    from binlogio.schema.ddl.catalogue import Catalogue
    from binlogio.schema.given import GivenDefinitions
    from binlogio.storage.keyring import Keyring
    from binlogio.storage.log_file import LogFile, OpenedLog

_BEGIN: Final = b"\0BEGIN"  # the schema name ends with a zero byte
_HEAD_SIZE: Final = 1 << 20
_IS_STATEMENT: Final = bytes(code in (EventType.QUERY_EVENT, EventType.QUERY_COMPRESSED_EVENT) for code in range(256))
_OTHER_HEADS: Final = HeaderFlag.RELAY_LOG | HeaderFlag.ARTIFICIAL


class EarlierLogs(DefinitionCatalogue):
    """The definitions where reading begins in the last of some logs, from the DDL before it.

    The DDL is read when a table map needs a definition. If a log cannot be read, there are no definitions.
    """

    is_exhaustive = False

    def __init__(self, logs: Sequence[LogFile], keyring: Keyring | None) -> None:
        super().__init__()
        self._earlier = logs
        self._keyring = keyring
        self._found: DefinitionCatalogue | None = None

    def before(self, name: str, is_log: IsLog, offset: int = 0, *, is_compared: bool = False) -> Follow | None:
        """Return a function for the definitions before an offset of the last log; None for another log."""
        if name != self._earlier[-1].name:
            return None

        def follow(state: Catalogue) -> Catalogue:
            if self._found is None:
                found, logs = DefinitionCatalogue(), self._earlier if offset else self._earlier[:-1]
                try:
                    catalogue_logs(found, logs, self._keyring, offset or None)
                except (BinlogError, OSError):  # reported by the command if it reads this log
                    found = DefinitionCatalogue()
                self._found = found
            found_at = self._found.before(name, is_log, offset, is_compared=is_compared)
            return state.forgotten() if found_at is None else found_at(state)

        return follow

    def __bool__(self) -> bool:
        """Return True."""
        return True


def catalogue_logs(
    catalogue: DefinitionCatalogue,
    logs: Sequence[LogFile],
    keyring: Keyring | None = None,
    end: int | None = None,
    *,
    on_read: Callable[[str, int], object] = lambda _name, _offset: None,
) -> list[BinlogFormatError]:
    """Add the statements of the next logs, and new statements of known logs; of the last one up to offset `end`.

    Statements from damage on are not added; a reader of the rows reports the damage, too. `on_read` is called with the
    name of a log, and the offset up to which it was read. Returns the first damage of each log that has any.

    Raises:
        OSError: a log cannot be read.
        UnsupportedFeature: a log cannot be read, or is older than the last one of the catalogue.
    """
    require_kernel("a catalogue of definitions")
    damage = []
    for number, log in enumerate(logs):
        is_last = number == len(logs) - 1
        try:
            _catalogue_log(catalogue, log, keyring, end if is_last else None, is_last=is_last)
        except BinlogFormatError as exc:
            exc.locate(file=log.name)
            damage.append(exc)
        on_read(log.name, log.size or 0)
    return damage


def _catalogue_log(
    catalogue: DefinitionCatalogue, log: LogFile, keyring: Keyring | None, end: int | None, *, is_last: bool
) -> None:
    """Add the statements of a log.

    Raises:
        BinlogFormatError: the log is damaged; the statements before the damage were added.
    """
    known = catalogue.find(log.name, recognizer(log, keyring), exactly=True)
    if known is not None:
        has_end = is_last and end is not None and known.end >= end
        may_end = is_last or known.is_complete
        if has_end or (may_end and LogProgress.from_json(known.progress).is_whole(log, keyring)):
            return
    reached, stop, damage = 0 if known is None else known.end, HIGHEST if end is None else end, None
    found: list[PlacedStatement | PlacedTables] = []
    last_type = rotated = 0
    context, is_plain = _format(log, keyring)
    try:
        for offset, kind, time, event in (_scanned if is_plain else _read)(log, keyring, context, reached, stop):
            reached, last_type = min(offset, stop), kind
            rotated = time if kind == EventType.ROTATE_EVENT else 0
            if event is not None and offset < stop:
                found.append(PlacedStatement.of(offset, event, context))
    except BinlogFormatError as exc:
        damage = exc
    progress = LogProgress.at(log, reached, log_identity(log, keyring), keyring)
    is_complete = reached == log_size(log, keyring) and (not is_last or last_type in LOG_ENDS)
    stored = progress.completed(is_complete=is_complete, last_gtid=None).to_json()
    if known is None:
        _check_order(catalogue, progress)
        known = CataloguedLog(stored, context)
        catalogue.add(known)
    known.progress, known.rotated = stored, rotated or known.rotated
    known.statements += found
    if damage is not None:
        raise damage


def _check_order(catalogue: DefinitionCatalogue, progress: LogProgress) -> None:
    """Refuse a log that the server wrote before the last one of the catalogue."""
    logs = catalogue.logs
    last = LogProgress.from_json(logs[-1].progress) if logs else progress
    (stem, number, _), (its_stem, its_number, _) = log_number(last.file), log_number(progress.file)
    is_later = last.identity is None or progress.identity is None or progress.identity.created > last.identity.created
    if stem == its_stem and its_number < number and not is_later:
        raise UnsupportedFeature(
            "the log is older than those of the catalogue",
            file=progress.file,
            expected=f"logs after {last.file}",
            hint="make another catalogue, of all logs",
        )


def has_statements(catalogue: DefinitionCatalogue, log: LogFile, within: Split, keyring: Keyring | None = None) -> bool:
    """Return whether a part of a log has statements that may define tables; it is scanned if it is not catalogued yet.

    Raises:
        OSError, UnsupportedFeature: the log cannot be read.
    """
    catalogue_logs(catalogue, [log], keyring, within.end)
    found = catalogue.find(log.name, recognizer(log, keyring))
    return found is not None and any(within.start <= one.offset < within.end for one in found.statements)


def is_changed(catalogue: DefinitionCatalogue, logs: Iterable[LogFile], keyring: Keyring | None = None) -> bool:
    """Return whether the bytes of a log are not those from which the catalogue was made.

    Raises:
        OSError, UnsupportedFeature: a log cannot be read.
    """
    for log in logs:
        is_log = recognizer(log, keyring)
        if catalogue.find(log.name, is_log) is not None and catalogue.find(log.name, is_log, exactly=True) is None:
            return True
    return False


def definitions_at(
    catalogue: DefinitionCatalogue,
    log: LogFile,
    offset: int,
    keyring: Keyring | None = None,
    given: GivenDefinitions | None = None,
    *,
    needs_names: bool = False,
) -> DefinitionSource:
    """Return the definitions before an offset of a log, for a reader that begins there.

    The log is recognized by its head: `is_changed` has compared its bytes.
    """
    source = DefinitionSource(given, needs_names=needs_names)
    source.begin_within(log.name, catalogue.before(log.name, recognizer(log, keyring), offset, is_compared=True))
    return source


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


def _format(log: LogFile, keyring: Keyring | None) -> tuple[ParseContext, bool]:
    """Return the parse context of a log, and whether its headers can be scanned.

    Raises:
        BinlogFormatError: the head is damaged.
    """
    opened = log.open(keyring)
    try:
        found, is_plain = None, False
        for frame in head_frames(opened, keyring):
            if found is not None and frame.header.type_code == EventType.START_ENCRYPTION_EVENT:
                return found, False
            if found is not None:
                return found, is_plain
            found = frame.context
            is_plain = (
                found.header_size == HEADER_SIZE
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
) -> Iterator[tuple[int, int, int, QueryEvent | None]]:
    """Yield offset, type, time and statement of events, by scanning headers.

    Without a statement: all statements before the offset were found, and the last event before it has the type.

    Raises:
        BinlogFormatError: the size of an event or the checksum of a statement is wrong.
    """
    tail = CHECKSUM_SIZE if context.has_checksum else 0
    opened = log.open(keyring)
    try:
        begin = max(begin, len(BINLOG_MAGIC))
        _pass_to(opened, begin)
        window = Window(opened.read, begin, readinto=opened.readinto)
        for found in header_windows(window, end):
            codes, times = found.codes, found.times
            for number in compress(range(len(codes)), codes.translate(_IS_STATEMENT)):
                start = found.offsets[number] - found.offset
                stop = start + found.sizes[number] - tail
                if bytes(found.view[stop - len(_BEGIN) : stop]) == _BEGIN:  # BEGIN is in almost every transaction
                    continue
                body = bytes(found.view[start + HEADER_SIZE : stop])
                event = _statement(codes[number], body, context)
                if event is None:
                    continue
                stored, computed = event_checksums(found.view[start : stop + tail])
                if tail and stored != computed:
                    raise ChecksumMismatch(
                        offset=found.offset + start, expected=stored, actual=computed,
                        event_type=event_name(codes[number]),
                    )  # fmt: skip
                yield found.offset + start, codes[number], times[number], event
            window.take(found.end - found.offset)
            yield found.end, codes[-1] if codes else 0, times[-1] if codes else 0, None
            skipped = _end_of_other_event(window, log, opened)
            if skipped is not None:
                window.go_to(skipped, opened)
                yield skipped, 0, 0, None
    finally:
        opened.close()


def _end_of_other_event(window: Window, log: LogFile, opened: OpenedLog) -> int | None:
    """Return the end of a large event that is no statement, if it is not in the window, so that it need not be read."""
    if window.held < HEADER_SIZE or not opened.seekable or log.size is None:
        return None
    size = int.from_bytes(window.view[EVENT_SIZE_BYTES], "little")
    end = window.offset + size
    is_statement = _IS_STATEMENT[window.view[TYPE_CODE_AT]]
    return None if is_statement or size <= window.held or end > log.size else end


def _statement(code: int, body: bytes, context: ParseContext) -> QueryEvent | None:
    """Return the statement of an event; None if it cannot define a table."""
    if code == EventType.QUERY_EVENT and not body_may_define(body):
        return None
    event: QueryEvent = codec_for(code).parse(EventHeader(type_code=code), body, context)
    return event if may_define(event.sql) else None


def _pass_to(opened: OpenedLog, offset: int) -> None:
    if opened.seekable:
        opened.seek(offset)
        return
    while offset and (data := opened.read(min(WINDOW_SIZE, offset))):
        offset -= len(data)


def _read(
    log: LogFile, keyring: Keyring | None, context: ParseContext, begin: int, end: int
) -> Iterator[tuple[int, int, int, QueryEvent | None]]:
    """Yield the same as `_scanned`, with the event reader."""
    with BinlogReader([log], keyring=keyring) as reader:
        for event in reader:
            offset = event.header.offset
            if offset >= end:
                return
            code, time = event.header.type_code, event.header.timestamp
            if isinstance(event, QueryEvent) and offset >= begin and may_define(event.sql):
                yield offset, code, time, event
            yield reader.position.offset, code, time, None
