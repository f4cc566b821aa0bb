"""Start and stop positions of a replay or an undo, and information from the skipped part of the logs.

Positions given by the caller are checked before the target is changed. In the part before the start only event headers
are read, and two kinds of events are decoded:

    DDL              contains the column names of later rows
    XA PREPARE       its transaction may be committed after the start, so its rows may be needed

The logs are in the order in which they were given.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final, NamedTuple

from binlogio.columnar.splits.group_scan import check_bounds
from binlogio.columnar.splits.skipped_events import SkippedEvent, skipped_events
from binlogio.constants import BINLOG_MAGIC, EventType
from binlogio.dotted_names import dotted_name, split_name
from binlogio.errors import BinlogError, BinlogFormatError, ChangedLogs, Hint, MissingLogs, PositionError, hints
from binlogio.events.control import XaPrepareEvent
from binlogio.events.load import CreateFileEvent, ExecuteLoadQueryEvent, LoadEvent
from binlogio.events.query import QueryEvent
from binlogio.events.table_map import TableMapEvent
from binlogio.format.decoder import Decoder
from binlogio.format.event_starts import check_event_start
from binlogio.schema import statements
from binlogio.selection.selection import globs_of_statement
from binlogio.selection.table_names import TableNames, matches, unnamed_schemas
from binlogio.series.continuity import continues, series_gap
from binlogio.series.identity import log_identity
from binlogio.series.log_head import read_head
from binlogio.series.positions import BEGINNING, LogPlace, numbers_of, places_of, selected_logs
from binlogio.series.progress import LogMatch, recognizer
from binlogio.storage.compression import decompress_zstd
from binlogio.storage.index_file import base_name, log_name, log_number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from binlogio.options import Position
    from binlogio.reader import BinlogReader
    from binlogio.replay.filters import ReplayFilter
    from binlogio.replay.progress import KeptLog, Progress
    from binlogio.series.identity import LogIdentity
    from binlogio.storage.keyring import Keyring
    from binlogio.storage.log_file import LogFile

_DECODED: Final = (
    EventType.QUERY_EVENT,
    EventType.QUERY_COMPRESSED_EVENT,
    EventType.XA_PREPARE_LOG_EVENT,
    EventType.TRANSACTION_PAYLOAD_EVENT,
)
_NAMING: Final = (
    EventType.TABLE_MAP_EVENT,
    EventType.EXECUTE_LOAD_QUERY_EVENT,
    EventType.LOAD_EVENT,
    EventType.NEW_LOAD_EVENT,
    EventType.CREATE_FILE_EVENT,
)
_MOST_NAMES: Final = 3
_MOST_BODIES: Final = 10_000  # the limit of the cache of table maps
_TABLE_ID_SIZE: Final = 6
_FIRST_EVENT: Final = len(BINLOG_MAGIC)


class PreparedPlace(NamedTuple):
    """The log, and the offsets of begin and end, of the event group of an XA PREPARE."""

    log: LogFile
    start: int
    end: int


@dataclass(slots=True)
class SkippedPart:
    """Information from the skipped part of the logs.

    `groups` is the number of event groups that begin with GTID events (groups of servers before MySQL 5.7 and MariaDB
    10.0 do not). `prepared` are the XA transactions that were prepared in this part, and neither committed nor rolled
    back in it.
    """

    groups: int = 0
    prepared: dict[str, PreparedPlace] = field(default_factory=dict)


class UnknownNames(NamedTuple):
    """A glob that matches nothing in logs, of a "schema", "table" or "excluded table", and those that have rows."""

    kind: str
    glob: str
    names: tuple[str, ...]

    @property
    def nearest(self) -> tuple[str, ...]:
        """The names most like the glob, or else the first ones."""
        near = get_close_matches(self.glob, self.names, _MOST_NAMES)
        if not near:  # a table without its schema
            tables = {split_name(name)[1] or name: name for name in self.names}
            near = [tables[one] for one in get_close_matches(self.glob, tables, _MOST_NAMES)]
        return tuple(near) or self.names[:_MOST_NAMES]


@dataclass(frozen=True, slots=True)
class Bounds:
    """The part of the logs between the start and stop positions of the caller.

    `given` is the start position as given by the caller; `numbers` maps names of logs to their numbers.
    """

    start: LogPlace = BEGINNING
    stop: LogPlace | None = None
    given: Position | None = None
    numbers: Mapping[str, int] = field(default_factory=dict)

    def within(self, path: str) -> tuple[int, int]:
        """Return the offsets between which the groups of a log begin."""
        number = self.numbers.get(path, 0)
        first = 0 if number > self.start.number else self.start.offset if number == self.start.number else _NO_OFFSET
        if self.stop is None or number < self.stop.number:
            return first, _NO_OFFSET
        return first, self.stop.offset if number == self.stop.number else 0


_NO_OFFSET: Final = 1 << 62
EVERY_PLACE: Final = Bounds()


def bounds_of(reader: BinlogReader, wanted: ReplayFilter) -> Bounds:
    """Return the start and stop of a filter as places in the logs of a reader.

    Raises:
        PositionError: a position is in none of the logs, or no event starts there, or it is inside an event group, or
            the stop is before the start.
        OSError, BinlogError: the log cannot be read.
    """
    start, stop = places_of(wanted, reader.logs)
    check_bounds(selected_logs(wanted, reader.logs), wanted.start_offset, wanted.stop_offset, reader.keyring)
    return Bounds(start, stop, wanted.start, {log.name: number for number, log in enumerate(reader.logs)})


def _text(position: Position | None) -> str:
    return "" if position is None else f"{position.file}:{position.offset}"


def resumed_at(
    reader: BinlogReader,
    progress: Progress,
    bounds: Bounds,
    *,
    resumes: bool | None,
    ignore_missing_logs: bool = False,
) -> tuple[LogPlace | None, str | None]:
    """Return the position at which a replay continues, according to the stored position of the target.

    Returns None if the target has no position, or if the logs begin with a later log; and what is missing before the
    logs, if that is ignored.

    Args:
        reader: the reader of the logs.
        progress: the state stored in the target.
        bounds: start and stop given by the caller.
        resumes: True if the stored position overrides a start position, and is valid for these logs even if the target
            does not store the identity of the log.
        ignore_missing_logs: go on although logs are missing between the stored position and these logs.

    Raises:
        MissingLogs: logs are missing between the stored position and these logs.
        ChangedLogs: the log of the stored position has other transactions before it.
        PositionError: the logs, or the start, contradict the stored position.
        OSError, BinlogError: a log cannot be read.
    """
    kept = progress.low
    is_new = kept is None and progress.others and progress.gtids is None and bounds.given is None
    if is_new and reader.logs:
        raise _new_source(reader, progress.others, bounds)
    if kept is None or not reader.logs or any(log.stream is not None for log in reader.logs):
        return None, None
    numbers = numbers_of(reader.logs, kept.file)
    if not numbers:
        return None, _check_next_log(reader, progress, bounds, ignore_missing_logs=ignore_missing_logs)
    identities = {number: log_identity(reader.logs[number], reader.keyring) for number in numbers}
    same = [number for number, identity in identities.items() if _is_same(progress.log, identity)]
    if len(same) > 1:
        raise PositionError(
            f"the target's position {_text(kept)} is in several of the given logs",
            found=", ".join(reader.logs[number].name for number in same[:_MOST_NAMES]),
            hint="give only one of them",
        )
    if not same:
        check_identity(progress.log, kept.file, identities[numbers[0]])
    if progress.log.identity is None and not resumes:
        raise PositionError(
            f"the target has the position {_text(kept)}, but not which server's log it is in",
            found=str(identities[same[0]]),
            hint=(
                "an earlier version of binlogio stored it: check that it is in this log",
                Hint.RESUME,
                Hint.NO_RESUME,
            ),
        )
    place = LogPlace(same[0], kept.offset)
    _check_kept(reader, place, progress)
    if bounds.stop is not None and place > bounds.stop and progress.gtids is None:
        raise PositionError(
            "the target has transactions after the stop position",
            expected=f"a stop position from {_text(kept)} on, the stored position of the target",
            found=f"{log_name(reader.logs[bounds.stop.number].name)}:{bounds.stop.offset}",
            hint="replay into a target that is not past it, such as a restored backup",
        )
    is_started_there = progress.log.start is not None and bounds.given == progress.log.start
    if bounds.given is not None and bounds.start != place and not is_started_there and not resumes:
        raise PositionError(
            "the start position contradicts the stored position of the target",
            expected=f"{_text(kept)}, up to which the target has all transactions",
            found=_text(bounds.given),
            hint=(Hint.RESUME, Hint.NO_RESUME),
        )
    return place, None


def _new_source(reader: BinlogReader, others: Sequence[Progress], bounds: Bounds) -> BinlogError:
    """Return the error for logs of a source without a stored position, if the target has positions of other sources.

    These logs may be of another source, or of the same data on another server (failover), so the caller must give the
    start position.
    """
    other = next((one for one in others if one.low is not None and numbers_of(reader.logs, one.low.file)), others[0])
    name = "" if other.low is None else other.low.file
    refusal: BinlogError = PositionError(
        f"the target has a position of another source, {_text(other.low)}",
        expected=str(other.log.identity),
        found=base_name(reader.logs[bounds.start.number].name),
    )
    try:
        if reader.logs[bounds.start.number].stream is not None:
            pass  # a stream can be read only once
        elif numbers_of(reader.logs, name):
            check_identity(other.log, name, log_identity(reader.logs[numbers_of(reader.logs, name)[0]], reader.keyring))
        else:
            _check_next_log(reader, other, bounds)
    except (PositionError, MissingLogs) as exc:
        refusal = exc
    refusal.hint = (*hints(refusal.hint), Hint.NEW_SOURCE)
    return refusal


def check_identity(log: KeptLog, name: str, found: LogIdentity | None) -> None:
    """Check that a log is the log of the stored position, which has the same name.

    Raises:
        PositionError: it is another log.
    """
    if not _is_same(log, found):
        raise PositionError(
            f"the stored position of the target is in another log of the name {name}",
            expected=str(log.identity),
            found="a log without a format description" if found is None else str(found),
            hint=("give the logs that were replayed to the target", Hint.NO_RESUME),
        )


def _is_same(log: KeptLog, found: LogIdentity | None) -> bool:
    return log.identity is None or (found is not None and found.is_same_log(log.identity))


def _check_kept(reader: BinlogReader, place: LogPlace, progress: Progress) -> None:
    """Check that the log has the transactions that were replayed, and that the stored position is the end of an event.

    Raises:
        ChangedLogs: it has others.
        PositionError: the position is inside an event.
    """
    log, read = reader.logs[place.number], progress.log.read
    identity = progress.log.identity
    if read is not None and read.named(log.name).match(log, identity, reader.keyring) is LogMatch.CHANGED:
        raise ChangedLogs(
            "the log has the head of the log that was replayed to the target, and other bytes before the position",
            file=log.name,
            offset=read.offset,
            expected="the transactions that the target has",
            found="a repaired, filtered, truncated or restored copy",
            hint=("give the log that was replayed", Hint.NO_RESUME),
        )
    try:
        check_event_start(log, place.offset, reader.keyring)
    except PositionError as exc:
        exc.hint = (
            f"this is the stored position of the target, {_text(progress.low)}",
            "give the whole log",
            Hint.NO_RESUME,
        )
        raise


def _check_next_log(
    reader: BinlogReader, progress: Progress, bounds: Bounds, *, ignore_missing_logs: bool = False
) -> str | None:
    """Check logs that do not contain the log of the stored position: they must begin with the next log.

    Returns what is missing between the stored position and the logs, if that is ignored.

    Raises:
        MissingLogs: logs of the same server are missing.
        PositionError: these are other logs.
    """
    kept, log = progress.low, progress.log
    first = reader.logs[bounds.start.number]
    series, number, _ = log_number(log_name(first.name))
    kept_series, kept_number, _ = log_number("" if kept is None else kept.file)
    identity = log_identity(first, reader.keyring)
    last = log.read.last_gtid if log.read is not None and number == kept_number + 1 else None
    is_later = (
        series == kept_series
        and number > kept_number
        and identity is not None
        and log.identity is not None
        and (identity.may_follow(log.identity) or _continues(first, last, reader.keyring))
        and bounds.start.offset <= _FIRST_EVENT
    )
    if is_later and kept is not None:
        rest = [] if log.is_complete else [f"{kept.file} from {kept.offset} on"]
        gap = series_gap(log_name(first.name), kept.file)
        lost = " and ".join(rest + ([gap.numbers] if gap is not None else []))
        if lost and not ignore_missing_logs:
            raise MissingLogs(
                f"logs are missing between the stored position of the target, {_text(kept)}, and this one: {lost}",
                file=first.name,
                hint=(Hint.IGNORE_MISSING_LOGS, Hint.NO_RESUME),
            )
        return lost or None
    raise PositionError(
        f"the stored position of the target is {_text(kept)}, which is in none of the logs",
        expected="that log, or the next one if that log was replayed to its end"
        if log.identity is None
        else str(log.identity),
        found=f"{base_name(first.name)}, {'no log' if identity is None else identity}",
        hint=(f"give {'that log' if kept is None else kept.file} as well, to continue there", Hint.NO_RESUME),
    )


def _continues(first: LogFile, last: str | None, keyring: Keyring | None) -> bool:
    """Return whether the GTIDs at the head of a log show that it follows others, although the clock went back."""
    head = None if last is None else read_head(first, keyring)
    return head is not None and head.gtids_before() is not None and continues(head, last)


def check_one_series(
    logs: Sequence[LogFile], keyring: Keyring | None, progress: Progress, resumed: LogPlace | None
) -> None:
    """Check that one position can say which of the logs a target has, unless it keeps GTIDs.

    Raises:
        PositionError: two logs have the same name, or logs before the stored position are of another server.
        OSError, BinlogError: a log cannot be read.
    """
    if progress.gtids is not None:
        return
    hint = "replay the logs of each server on their own; --source NAME gives each one a position"
    known: dict[str, str] = {}
    for log in logs:
        if known.setdefault(log_name(log.name), log.name) != log.name:
            raise PositionError(
                f"two logs have the name {log_name(log.name)}, by which the target keeps its position",
                found=f"{known[log_name(log.name)]} and {log.name}",
                hint=hint,
            )
    if resumed is None or any(log.stream is not None for log in logs):
        return
    own, stem = log_identity(logs[resumed.number], keyring), log_number(logs[resumed.number].name)[0]
    for log in (one for one in logs[: resumed.number] if log_number(one.name)[0] != stem):
        other = log_identity(log, keyring)
        if own is not None and other is not None and own.server_id != other.server_id:
            raise PositionError(
                f"{log.name} is a log of another server, and comes before the log of the target's position: it is not"
                " known whether the target has it",
                expected=f"logs of the server with id {own.server_id}",
                found=f"one of the server with id {other.server_id}",
                hint=hint,
            )


def skip_to(
    reader: BinlogReader, place: LogPlace, is_wanted: Callable[[SkippedEvent], bool] | None = None
) -> tuple[SkippedPart, LogPlace]:
    """Move the reader to the first event group at or after `place`, which is the start of an event.

    Returns the information from the skipped part, and the position at which the reader begins.

    `is_wanted` is called with the first event of each group from `place` on; groups before the first selected one are
    skipped as well. A log whose groups do not begin with GTID events is read from its start. If the skipped part is
    damaged, the information from it is discarded.

    Raises:
        OSError: a log before `place` cannot be read.
        BinlogError: such a log is encrypted, or not a binary log.
    """
    part = SkippedPart()
    if not reader.logs or not reader.can_begin_elsewhere or (place == BEGINNING and is_wanted is None):
        return part, BEGINNING
    for number, log in enumerate(reader.logs):
        is_last = number == len(reader.logs) - 1
        if number < place.number:
            before: Iterable[SkippedEvent] = skipped_events(log, reader.keyring)
        else:
            start = place.offset if number == place.number else 0
            before, offset = _before(skipped_events(log, reader.keyring), start, is_wanted, is_last=is_last)
            if offset is None or offset >= 0:
                break
        reader.definitions.begin_log(log.name, recognizer(log, reader.keyring))
        _SkippedEvents(reader, log, part).take(before)
    else:
        raise AssertionError(place)
    if offset is None:
        reader.begin_at(number, None)
        return part, LogPlace(number, 0)
    reader.definitions.begin_log(log.name, recognizer(log, reader.keyring))
    _SkippedEvents(reader, log, part).take(before)
    reader.begin_at(number, offset)
    return part, LogPlace(number, offset)


_NOT_HERE: Final = -1


def _before(
    events: Iterator[SkippedEvent], offset: int, is_wanted: Callable[[SkippedEvent], bool] | None, *, is_last: bool
) -> tuple[Iterable[SkippedEvent], int | None]:
    """Return the events before the first selected group at or after `offset`, and the start of this group.

    Without such a group, the start is `_NOT_HERE`, or in the last log that of the last group. It is None if the log has
    no GTID events, and `offset` if the log is damaged before.
    """
    before: list[SkippedEvent] = []
    last = None
    try:
        for event in events:
            if event.starts_group and event.offset >= offset and (is_wanted is None or is_wanted(event)):
                return before, event.offset
            if event.starts_group:
                last = len(before)
            before.append(event)
    except BinlogFormatError as exc:
        return _then(before, exc), offset
    if last is None:
        return before, None
    return (before[:last], before[last].offset) if is_last else (before, _NOT_HERE)


def _then(events: Iterable[SkippedEvent], exc: BinlogFormatError) -> Iterator[SkippedEvent]:
    yield from events
    raise exc


class _SkippedEvents:
    """Collects information from the skipped events of one log."""

    def __init__(self, reader: BinlogReader, log: LogFile, part: SkippedPart) -> None:
        self._definitions = reader.definitions
        self._log = log
        self._part = part
        self._decoder = Decoder(decompress=decompress_zstd, only=_DECODED)
        self._start = 0

    def take(self, events: Iterable[SkippedEvent]) -> None:
        """Collect information from the events; discard all of it if an event is damaged."""
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
            statement = statements.recognize(one.sql) if one.sql[:2].upper() == b"XA" else None
            if isinstance(statement, statements.Xa) and statement.step in ("COMMIT", "ROLLBACK"):
                self._part.prepared.pop(statement.xid, None)
        elif isinstance(one, XaPrepareEvent) and not one.one_phase:
            place = PreparedPlace(self._log, self._start, event.end)
            self._part.prepared[statements.xid_key(one.xid_text)] = place


def unknown_names(logs: Sequence[LogFile], keyring: Keyring | None, names: TableNames) -> UnknownNames | None:
    """Return the globs of a selection that match no table and no schema in the logs; None if each one matches.

    A statement matches the globs of the tables that it changes, or of its words if they are not known. Stops when all
    globs have matched. None as well for streams, which can be read only once, and for logs that cannot be read: reading
    them raises the error.

    Raises:
        OSError: a log cannot be read.
    """
    databases, tables = list(names.databases), [*names.tables, *names.excluded]
    schemas: set[str] = set()
    found: set[str] = set()
    bodies: set[bytes] = set()
    if any(log.stream is not None for log in logs):
        return None
    for log in logs:
        decoder = Decoder(decompress=decompress_zstd, only=(*_DECODED, *_NAMING))
        try:
            for event in skipped_events(log, keyring, _NAMING):
                if event.starts_group or _is_known(event, bodies):
                    continue
                for one in decoder.decode(event.frame):
                    if isinstance(one, (TableMapEvent, LoadEvent, CreateFileEvent)):
                        schemas.add(one.schema)
                        found.add(dotted_name(one.schema, one.table))
                        databases = [glob for glob in databases if not TableNames((glob,)).wants_database(one.schema)]
                        tables = [glob for glob in tables if not matches(glob, one.schema, one.table)]
                    elif isinstance(one, (QueryEvent, ExecuteLoadQueryEvent)):
                        text = one.sql.decode("utf-8", "replace")
                        named = globs_of_statement(tables, one.schema, text)
                        tables = [glob for glob in tables if glob not in named]
                        databases = unnamed_schemas(databases, one.schema, text)
                if not (databases or tables):
                    return None
        except BinlogError:
            return None
    if databases:
        return UnknownNames("schema", databases[0], tuple(sorted(schemas)))
    tables.sort(key=names.excluded.__contains__)
    kind = "excluded table" if tables and tables[0] in names.excluded else "table"
    return UnknownNames(kind, tables[0], tuple(sorted(found))) if tables else None


def _is_known(event: SkippedEvent, bodies: set[bytes]) -> bool:
    """Return whether an equal table map, except for the table id, was seen before."""
    if event.type_code != EventType.TABLE_MAP_EVENT:
        return False
    body = event.frame.body[_TABLE_ID_SIZE:]
    is_known = body in bodies
    if not is_known and len(bodies) < _MOST_BODIES:
        bodies.add(body)
    return is_known
