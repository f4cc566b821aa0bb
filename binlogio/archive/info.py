"""Facts about logs from their heads and tails, without reading the events between: server, times, GTIDs, format.

    head  format description; encryption; PREVIOUS_GTIDS (MySQL) or GTID_LIST (MariaDB); the first event group
    tail  the last events: the last GTID, and the ROTATE or STOP that ends a closed log; if they do not end an event
          group, the whole log is read for the place where it is cut

The GTIDs of a log are the GTIDs in the head of the next log minus those in its own head. The next log is the one named
by the ROTATE event, or, without a ROTATE, the one with the next number. If it is not given, the first and the last GTID
of the log bound its set.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, TypeAlias

from binlogio.archive.event_batches import likely_headers
from binlogio.archive.verify import log_end
from binlogio.columnar.event_reader import EventSelection, read_transactions
from binlogio.constants import (
    BINLOG_MAGIC,
    CHECKSUM_SIZE,
    ENCRYPTED_MAGIC,
    GROUP_STARTS,
    HEADER_SIZE,
    LOG_ENDS,
    EventType,
    HeaderFlag,
)
from binlogio.errors import BinlogError, TruncatedEvent, UnsupportedFeature
from binlogio.events import codec_for
from binlogio.events.base import has_right_checksum, parse_header
from binlogio.events.control import RotateEvent
from binlogio.events.format_description import BINLOG_VERSION, FormatDescriptionEvent, StartV3Event
from binlogio.events.gtid import PreviousGtidsEvent
from binlogio.events.mariadb import MariadbGtidListEvent
from binlogio.format.framing import EventFrame
from binlogio.format.groups import GTID_EVENTS, GroupPlace, GroupTracker
from binlogio.gtid import Gtid, GtidSet, MariadbGtid, MariadbGtidSet
from binlogio.gtid.sets import Interval
from binlogio.implementation import require_kernel
from binlogio.series.log_head import HEAD_EVENTS, head_frames
from binlogio.storage.index_file import base_name, log_name, log_number

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from binlogio.events import BinlogEvent
    from binlogio.events.base import ParseContext
    from binlogio.storage.keyring import Keyring
    from binlogio.storage.log_file import LogFile, OpenedLog

_TAIL_SIZES: Final = (1 << 12, 1 << 16)
"""Bytes at the end of a log that are read for its last events; the second size if no GTID is in the first."""
_ANY_GTID: TypeAlias = Gtid | MariadbGtid
_Sources: TypeAlias = dict[tuple[int, int], MariadbGtid]
"""The last MariaDB GTID of each domain and server."""


@dataclass(frozen=True, slots=True)
class TableGroups:
    """A table (`schema.table`) with row changes in a log, and the number of event groups that have them."""

    table: str
    groups: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogInfo:
    """Facts about a log. A fact is None if it was not read, or if the log does not say it.

    Args:
        file: its name.
        size: bytes as stored.
        error: why the log could not be read, or how it is cut.
        vendor: "mysql" or "mariadb".
        server_version, server_id: of the server that wrote the log.
        binlog_version: 1 (3.23), 3 (4.0, 4.1) or 4.
        checksum: "CRC32" or "none".
        compression: "gzip", "zstd", "xz" or "bzip2"; None: a plain file.
        encryption: "file" (MySQL) or "events" (MariaDB); None: plain events.
        is_relay_log: a replica wrote the log.
        in_use: the flag BINLOG_IN_USE is set: the server has not closed the log.
        incomplete: the log is in use, or its server crashed, and it ends in an incomplete transaction or event: where.
        starts_server: the log is the first one after a start of the server.
        created: creation time of the log in seconds since 1970, UTC.
        last_event: time of the last event, in the same unit.
        end_read: the last events were read. They are not read of logs that are compressed, encrypted or relay logs, and
            of logs of servers before 5.0: `last_event`, `ends_with`, `next_log` and `last_gtid` are then None.
        ends_with: "rotate" or "stop"; None: neither was found.
        next_log: the file name in the ROTATE at the end.
        gtids_before: GTIDs logged before this log: a set (MySQL), or the last GTIDs (MariaDB).
        first_gtid, last_gtid: of the first and the last event group.
        gtids: the GTIDs of the log as a set; for MariaDB as `domain-server-first..last`.
        gtids_from: the source of `gtids`: "next log", "first and last group" (GTIDs of other servers may be missing),
            or "all groups".
        groups, tables: the number of event groups, and the tables with row changes, if they were requested.
    """

    file: str
    size: int | None
    error: str | None = None
    vendor: str | None = None
    server_version: str | None = None
    server_id: int | None = None
    binlog_version: int | None = None
    checksum: str | None = None
    compression: str | None = None
    encryption: str | None = None
    is_relay_log: bool = False
    in_use: bool | None = None
    incomplete: str | None = None
    starts_server: bool = False
    created: int | None = None
    last_event: int | None = None
    end_read: bool = False
    ends_with: str | None = None
    next_log: str | None = None
    gtids_before: str | None = None
    first_gtid: str | None = None
    last_gtid: str | None = None
    gtids: str | None = None
    gtids_from: str | None = None
    groups: int | None = None
    tables: tuple[TableGroups, ...] | None = None


@dataclass(slots=True)
class _Ends:
    """Facts read from head and tail of a log: GTIDs before it, and of its first and last group.

    `ends_whole` is False if the last events do not certainly end an event group; `end` is the end of the last one.
    """

    info: LogInfo
    ends_whole: bool = True
    end: int = 0
    before: GtidSet | _Sources | None = None
    first: _ANY_GTID | None = None
    last: _ANY_GTID | None = None


def log_infos(logs: Sequence[LogFile], keyring: Keyring | None = None, *, tables: bool = False) -> Iterator[LogInfo]:
    """Yield the facts about each log, in order. If a log cannot be read, its `error` says why.

    Reads some KiB of each file. The tail is not read for compressed and encrypted logs, relay logs, and logs of servers
    before 5.0.

    Args:
        logs: logs of one or several series, in order.
        keyring: the keys of encrypted logs.
        tables: read whole logs for their tables, and for GTIDs that the heads do not determine.
    """
    require_kernel("info")
    at_hand: _Ends | None = None
    log_at_hand: LogFile | None = None
    for log in logs:
        found = _ends_of(log, keyring, reads_all=tables)
        if at_hand is not None and log_at_hand is not None:
            yield _complete(log_at_hand, at_hand, found, keyring, tables=tables)
        at_hand, log_at_hand = found, log
    if at_hand is not None and log_at_hand is not None:
        yield _complete(log_at_hand, at_hand, None, keyring, tables=tables)


def _complete(log: LogFile, ends: _Ends, following: _Ends | None, keyring: Keyring | None, *, tables: bool) -> LogInfo:
    """Return the facts about a log with its GTIDs and, if requested, its tables."""
    info = ends.info
    gtids = None if following is None else _gtids_between(ends, following)
    if gtids is not None:
        info = replace(info, gtids=gtids, gtids_from="next log")
    elif (gtids := _gtids_from_to(ends.first, ends.last)) is not None:
        info = replace(info, gtids=gtids, gtids_from="first and last group")
    return (
        info
        if not tables or info.error is not None or info.server_version is None
        else _with_tables(log, info, keyring)
    )


def _ends_of(log: LogFile, keyring: Keyring | None, *, reads_all: bool) -> _Ends:
    """Return the facts from the head and the tail of a log; `reads_all`: also from a tail that cannot be sought."""
    found = _Ends(LogInfo(file=log.name, size=log.size))
    try:
        opened = log.open(keyring)
        try:
            _read_ends(opened, found, keyring)
        finally:
            opened.close()
        if not found.ends_whole or (reads_all and not found.info.end_read and log.stream is None):
            _read_end(log, found, keyring)
    except UnsupportedFeature as exc:
        encryption = _missing_key(log, exc)
        exc.locate(file=log.name)
        found.info = replace(found.info, encryption=encryption, error=None if encryption else str(exc))
    except BinlogError as exc:
        exc.locate(file=log.name)
        found.info = replace(found.info, error=str(exc))
    except OSError as exc:
        found.info = replace(found.info, error=f"{log.name}: {exc.strerror}" if exc.strerror else str(exc))
    return found


def _missing_key(log: LogFile, exc: UnsupportedFeature) -> str | None:
    """Return the encryption of a log whose key is missing; None if the error has another cause."""
    if exc.event_type == EventType.START_ENCRYPTION_EVENT.name:
        return "events"
    if log.stream is not None:
        return None
    raw = log.open_raw()
    try:
        return "file" if raw.read(len(ENCRYPTED_MAGIC)) == ENCRYPTED_MAGIC else None
    finally:
        raw.close()


def _read_ends(opened: OpenedLog, found: _Ends, keyring: Keyring | None) -> None:
    if opened.encoding == "encrypted":
        found.info = replace(found.info, encryption="file")
    elif opened.encoding != "plain":
        found.info = replace(found.info, compression=opened.encoding)
    context = _read_head(opened, found, keyring)
    if context is None:
        raise TruncatedEvent("the log ends before the end of its format description")
    info = found.info
    if (
        opened.seekable
        and info.encryption is None
        and not info.is_relay_log
        and context.binlog_version == BINLOG_VERSION
        and context.header_size == HEADER_SIZE
    ):
        _read_tail(opened, found, context)
        found.info = replace(found.info, end_read=True)


def _read_head(opened: OpenedLog, found: _Ends, keyring: Keyring | None) -> ParseContext | None:
    """Read the first events, up to the first event group. Returns the format of the log."""
    context = None
    for frame in head_frames(opened, keyring, verify_checksum=True):
        header, context = frame.header, frame.context
        is_first_group = header.type_code in GROUP_STARTS
        if header.type_code not in HEAD_EVENTS and not is_first_group and header.type_code != EventType.ROTATE_EVENT:
            break
        if header.type_code == EventType.START_ENCRYPTION_EVENT:
            found.info = replace(found.info, encryption="events")
            continue
        if found.info.encryption == "events" and keyring is None:  # `mariadb-binlog --raw` has decrypted them
            found.info = replace(found.info, encryption=None)
        event = _parsed(frame)
        if header.flags & (HeaderFlag.RELAY_LOG | HeaderFlag.ARTIFICIAL):
            found.info = replace(found.info, is_relay_log=True)
        if isinstance(event, (FormatDescriptionEvent, StartV3Event)):
            _take_format(event, context, found)
        elif isinstance(event, PreviousGtidsEvent):
            found.before = event.gtid_set
            found.info = replace(found.info, gtids_before=str(event.gtid_set).replace("\n", ""))
        elif isinstance(event, MariadbGtidListEvent):
            found.before = {(gtid.domain_id, gtid.server_id): gtid for gtid in event.gtids}
            found.info = replace(found.info, gtids_before=",".join(map(str, event.gtids)))
        if isinstance(event, GTID_EVENTS):
            found.first = event.gtid
            found.info = replace(found.info, first_gtid=None if event.gtid is None else str(event.gtid))
            break
    return context


def _take_format(event: FormatDescriptionEvent | StartV3Event, context: ParseContext, found: _Ends) -> None:
    header = event.header
    if found.info.server_version is not None:  # a relay log also has the format description of its source
        return
    found.info = replace(
        found.info,
        vendor="mariadb" if context.is_mariadb else "mysql",
        server_version=event.server_version,
        server_id=header.server_id,
        binlog_version=event.binlog_version,
        checksum="CRC32" if context.has_checksum else "none",
        in_use=bool(header.flags & HeaderFlag.BINLOG_IN_USE),
        starts_server=event.created != 0,
        created=header.timestamp,
    )


def _read_tail(opened: OpenedLog, found: _Ends, context: ParseContext) -> None:
    """Read the last events of a plain log: the last GTID, and the ROTATE or STOP at the end."""
    end = opened.end()
    for size in _TAIL_SIZES:
        start = max(len(BINLOG_MAGIC), end - size)
        opened.seek(start)
        data = opened.read_up_to(end - start)
        places = _event_places(data, start, context)
        found.ends_whole = _ends_whole(data, places, start, context)
        if places:
            frame = _frame(data, places[-1], start, context)
            found.end = frame.header.offset + frame.header.event_size
            info = replace(found.info, last_event=frame.header.timestamp)
            if frame.header.type_code in LOG_ENDS:
                event = _parsed(frame)
                is_rotate = isinstance(event, RotateEvent)
                info = replace(info, ends_with="rotate" if is_rotate else "stop")
                if isinstance(event, RotateEvent):
                    info = replace(info, next_log=event.next_log)
            found.info = info
        for at in reversed(places):
            if data[at + 4] in GROUP_STARTS:
                group = _parsed(_frame(data, at, start, context))
                if isinstance(group, GTID_EVENTS):
                    found.last = group.gtid
                    found.info = replace(found.info, last_gtid=None if group.gtid is None else str(group.gtid))
                return
        if start <= len(BINLOG_MAGIC):
            return


def _ends_whole(data: bytes, places: Sequence[int], start: int, context: ParseContext) -> bool:
    """Return whether a log that ends with `data` certainly ends with a whole event group."""
    frames = [_frame(data, at, start, context) for at in places]
    if not frames or places[-1] + frames[-1].header.event_size != len(data):
        return False
    is_all = start + places[0] == len(BINLOG_MAGIC)
    tracker = GroupTracker()
    for before in [GroupPlace.OUTSIDE] if is_all else [GroupPlace.OUTSIDE, GroupPlace.TRANSACTION]:
        tracker.resume(before)
        for frame in frames:
            tracker.take_body(frame.header.type_code, bytes(frame.body), context)
        if tracker.place is not GroupPlace.OUTSIDE:
            return False
    return True


def _read_end(log: LogFile, found: _Ends, keyring: Keyring | None) -> None:
    """Read the whole log for the event or event group in which it ends."""
    end = log_end(log, keyring)
    if end is None:
        return
    text = end.incomplete if end.damage is None else f"at {end.damage.begin}: {end.damage.reason}"
    if text is not None and end.in_use:
        found.info = replace(found.info, incomplete=text)
        return
    if text is None and found.info.end_read and found.end < end.offset:
        text = f"at {found.end}: the last bytes are not whole events"
    if text is not None:
        found.info = replace(found.info, error=f"{log.name}: {text}")


def _parsed(frame: EventFrame) -> BinlogEvent:
    event: BinlogEvent = codec_for(frame.header.type_code).parse(frame.header, frame.body, frame.context)
    return event


def _frame(data: bytes, at: int, start: int, context: ParseContext) -> EventFrame:
    header = parse_header(data[at : at + HEADER_SIZE], start + at, context)
    return EventFrame.of(header, data[at : at + header.event_size], context)


def _event_places(data: bytes, start: int, context: ParseContext) -> list[int]:
    """Return the offsets in `data`, the end of a log, of the last events, in ascending order.

    The last event ends where its log_pos says, and its checksum is right. Each event before it ends where the next one
    begins. A log_pos of 0, as MariaDB 11 writes in transactions, is accepted for these if the checksum is right.
    """
    before: dict[int, list[int]] = {}
    positions: dict[int, int] = {}
    for place, size, log_pos in likely_headers(data, start, least=HEADER_SIZE, most=len(data), takes_zero=True):
        if place + size <= len(data):
            positions[place] = log_pos
            before.setdefault(place + size, []).append(place)
    found: list[int] = []
    for end in sorted(before, reverse=True):  # a log in use may end in the middle of an event
        last = next((place for place in before[end] if positions[place] and _is_whole(data, place, end, context)), None)
        if last is not None:
            found.append(last)
            break
    while (
        found
        and (
            previous := next(
                (place for place in before.get(found[-1], ()) if _is_whole(data, place, found[-1], context)), None
            )
        )
        is not None
    ):
        found.append(previous)
    return found[::-1]


def _is_whole(data: bytes, at: int, end: int, context: ParseContext) -> bool:
    """Return whether the checksum of an event is right; True for a log without checksums."""
    if not context.has_checksum or data[at + 4] == EventType.FORMAT_DESCRIPTION_EVENT:
        return True
    if end - at < HEADER_SIZE + CHECKSUM_SIZE:
        return False
    return has_right_checksum(memoryview(data)[at:end])


def _gtids_between(ends: _Ends, following: _Ends) -> str | None:
    """Return the GTIDs logged between two heads; None if the logs are not consecutive, or have no GTIDs in the head."""
    if not _follows(ends.info, following.info):
        return None
    if isinstance(ends.before, GtidSet) and isinstance(following.before, GtidSet):
        if not ends.before.issubset(following.before):
            return None
        return str(following.before - ends.before).replace("\n", "")
    if isinstance(ends.before, dict) and isinstance(following.before, dict):
        return _mariadb_gtids_between(ends.before, following.before)
    return None


def _mariadb_gtids_between(before: _Sources, after: _Sources) -> str | None:
    """Return ranges of MariaDB GTIDs; each begins after the largest number of its domain before the log."""
    intervals = {}
    for source, gtid in sorted(after.items()):
        known = before.get(source)
        if known == gtid:
            continue
        domain = max((old.sequence_number for old in before.values() if old.domain_id == source[0]), default=0)
        first = domain + 1
        if first > gtid.sequence_number:
            return None
        intervals[source] = (Interval(first, gtid.sequence_number + 1),)
    return str(MariadbGtidSet(intervals))


def _follows(info: LogInfo, after: LogInfo) -> bool:
    """Return whether `after` is the next log of the same server after `info`."""
    if info.vendor is None or info.vendor != after.vendor or info.server_id != after.server_id:
        return False
    name = log_name(after.file)
    if info.ends_with == "rotate":
        return info.next_log is not None and base_name(info.next_log) == name
    stem, number, _ = log_number(log_name(info.file))
    return number >= 0 and log_number(name)[:2] == (stem, number + 1)


def _gtids_from_to(first: _ANY_GTID | None, last: _ANY_GTID | None) -> str | None:
    """Return the GTIDs from the first to the last one of a log; None if unknown or of different sources."""
    if isinstance(first, Gtid) and isinstance(last, Gtid):
        if first.tsid == last.tsid and first.gno <= last.gno:
            return str(GtidSet.from_intervals([(first.tsid, Interval(first.gno, last.gno + 1))]))
    elif isinstance(first, MariadbGtid) and isinstance(last, MariadbGtid):
        source, to = (first.domain_id, first.server_id), last.sequence_number
        if source == (last.domain_id, last.server_id) and first.sequence_number <= to:
            return str(MariadbGtidSet({source: (Interval(first.sequence_number, to + 1),)}))
    return None


def _with_tables(log: LogFile, info: LogInfo, keyring: Keyring | None) -> LogInfo:
    """Return the facts about a log, with those that need all its event groups."""
    tables: Counter[str] = Counter()
    gtids: list[str] = []
    groups = 0
    try:
        for batch in read_transactions(log, None, EventSelection(), keyring):
            groups += batch.num_rows
            tables.update(batch.column("tables").flatten().to_pylist())
            gtids += [gtid for gtid in batch.column("gtid").to_pylist() if gtid is not None]
    except BinlogError as exc:
        return replace(info, error=str(exc))
    info = replace(
        info, groups=groups, tables=tuple(TableGroups(name, count) for name, count in sorted(tables.items()))
    )
    if gtids and info.gtids_from != "next log":
        text = ",".join(gtids)
        found = str(MariadbGtidSet.parse(text) if info.vendor == "mariadb" else GtidSet.parse(text))
        info = replace(info, gtids=found.replace("\n", ""), gtids_from="all groups")
    return info
