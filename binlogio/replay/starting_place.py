"""The place in the logs where a replay or an undo begins, and what has to be known of the part before it.

Checks the places that the caller gave before anything is changed. The part before the start is not decoded: headers are hopped over, and only two kinds of
events count there:

    DDL              names columns for the rows that come later
    XA PREPARE       its transaction may be committed after the start, and then its rows are needed

The logs are ordered as they were given. Knows no target.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final, NamedTuple

from binlogio.columnar.skipped_events import SkippedEvent, skipped_events
from binlogio.compression import decompress_zstd
from binlogio.constants import EventType
from binlogio.decoder import Decoder
from binlogio.errors import BinlogFormatError, PositionError
from binlogio.events.control import XaPrepareEvent
from binlogio.events.query import QueryEvent
from binlogio.replay import statements

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from binlogio.options import Position
    from binlogio.reader import BinlogReader
    from binlogio.replay.filters import ReplayFilter
    from binlogio.storage import LogFile

_DECODED: Final = (
    EventType.QUERY_EVENT,
    EventType.QUERY_COMPRESSED_EVENT,
    EventType.XA_PREPARE_LOG_EVENT,
    EventType.TRANSACTION_PAYLOAD_EVENT,
)
_MOST_NAMES: Final = 3


class LogPlace(NamedTuple):
    """A place in the logs of a reader: the number of the log, from 0, and the offset in it."""

    number: int
    offset: int


BEGINNING: Final = LogPlace(0, 0)


class PreparedPlace(NamedTuple):
    """Where the event group of an XA PREPARE is."""

    log: LogFile
    start: int
    end: int


@dataclass(slots=True)
class SkippedPart:
    """What the part of the logs before the start says.

    `groups` counts its event groups, as far as they begin with GTID events (those of servers before MySQL 5.7 and MariaDB 10.0 do not). `prepared` are the XA
    transactions that were prepared in it, and neither committed nor rolled back.
    """

    groups: int = 0
    prepared: dict[str, PreparedPlace] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Bounds:
    """The part of the logs that the caller chose by places."""

    start: LogPlace = BEGINNING
    stop: LogPlace | None = None


def base_name(file: str) -> str:
    """The name of a log without its folder."""
    return PurePosixPath(file.replace("\\", "/")).name


def bounds_of(reader: BinlogReader, wanted: ReplayFilter) -> Bounds:
    """The places of a filter in the logs of a reader.

    Raises:
        PositionError: a place is in none of the logs, or no event starts there, or the stop is before the start.
        OSError, BinlogError: the log cannot be read.
    """
    start = BEGINNING if wanted.start is None else _place(reader, wanted.start, "start")
    stop = None if wanted.stop is None else _place(reader, wanted.stop, "stop")
    if stop is not None and stop < start:
        raise PositionError(
            "the position to stop at is before the position to start at",
            expected=f"a position after {_text(wanted.start)}",
            found=_text(wanted.stop),
        )
    return Bounds(start, stop)


def numbers_of(reader: BinlogReader, name: str) -> list[int]:
    """The numbers of the logs of this base name."""
    return [number for number, log in enumerate(reader.logs) if base_name(log.name) == base_name(name)]


def _place(reader: BinlogReader, position: Position, what: str) -> LogPlace:
    reader.check_start(position)
    numbers = numbers_of(reader, position.file)
    if len(numbers) > 1:
        raise PositionError(
            f"the position to {what} at is in several of the logs that were given",
            found=", ".join(reader.logs[number].name for number in numbers[:_MOST_NAMES]),
            hint="give one of them only",
        )
    return LogPlace(numbers[0], position.offset)


def names_of(reader: BinlogReader) -> str:
    """The base names of the logs, shortened."""
    names = [base_name(log.name) for log in reader.logs]
    return ", ".join(names if len(names) <= _MOST_NAMES else [names[0], "...", names[-1]])


def _text(position: Position | None) -> str:
    return "" if position is None else f"{position.file}:{position.offset}"


def skip_to(reader: BinlogReader, place: LogPlace) -> tuple[SkippedPart, LogPlace]:
    """Let the reader begin at the first event group at or after a place, the start of an event; says what is before it, and where it begins.

    A log whose groups do not begin with GTID events is read from its start. Where the part before the place is damaged, nothing is known of it.

    Raises:
        OSError: a log before the place cannot be read.
        BinlogError: it is encrypted, or no log.
    """
    part = SkippedPart()
    if place == BEGINNING or not reader.can_begin_elsewhere:
        return part, BEGINNING
    for log in reader.logs[: place.number]:
        reader.definitions.begin_log(log.name)
        _Skipped(reader, log, part).take(skipped_events(log, reader.keyring))
    log = reader.logs[place.number]
    before, offset = _before(skipped_events(log, reader.keyring), place.offset)
    if offset is None:
        reader.begin_at(place.number, None)
        return part, LogPlace(place.number, 0)
    reader.definitions.begin_log(log.name)
    _Skipped(reader, log, part).take(before)
    reader.begin_at(place.number, offset)
    return part, LogPlace(place.number, offset)


def _before(events: Iterator[SkippedEvent], offset: int) -> tuple[Iterable[SkippedEvent], int | None]:
    """The events before the first group at or after `offset`, and where that group starts.

    The last group where there is none after `offset`; None where no event says where groups start. Behind damage, `offset` itself.
    """
    before: list[SkippedEvent] = []
    last = None
    try:
        for event in events:
            if event.starts_group and event.offset >= offset:
                return before, event.offset
            if event.starts_group:
                last = len(before)
            before.append(event)
    except BinlogFormatError as exc:
        return _then(before, exc), offset
    return (before, None) if last is None else (before[:last], before[last].offset)


def _then(events: Iterable[SkippedEvent], exc: BinlogFormatError) -> Iterator[SkippedEvent]:
    yield from events
    raise exc


class _Skipped:
    """Takes the events of one log that are skipped."""

    def __init__(self, reader: BinlogReader, log: LogFile, part: SkippedPart) -> None:
        self._definitions = reader.definitions
        self._log = log
        self._part = part
        self._decoder = Decoder(decompress=decompress_zstd, only=_DECODED)
        self._start = 0

    def take(self, events: Iterable[SkippedEvent]) -> None:
        """Take note of what they say; nothing of it counts where they end in damage."""
        try:
            for event in events:
                if event.starts_group:
                    self._part.groups += 1
                    self._start = event.offset
                    continue
                for one in self._decoder.decode(event.frame):
                    self._take(one, event)
        except BinlogFormatError:
            self._definitions.forget_statements()
            self._part.prepared.clear()

    def _take(self, one: object, event: SkippedEvent) -> None:
        if isinstance(one, QueryEvent):
            self._definitions.follow(one, event.context)
            statement = statements.recognize(one.sql, one.schema) if one.sql[:2].upper() == b"XA" else None
            if isinstance(statement, statements.Xa) and statement.step in ("COMMIT", "ROLLBACK"):
                self._part.prepared.pop(statement.xid, None)
        elif isinstance(one, XaPrepareEvent) and not one.one_phase:
            place = PreparedPlace(self._log, self._start, event.end)
            self._part.prepared[statements.xid_key(one.xid_text)] = place
