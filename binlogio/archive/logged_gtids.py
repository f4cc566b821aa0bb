"""The GTIDs in logs, compared with those that the heads of later logs list."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing, suppress
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, BinaryIO, Final, cast

from binlogio.errors import BinlogFormatError, UnsupportedFeature
from binlogio.events import GtidLogEvent
from binlogio.gtid import Gtid, GtidSet, MariadbGtid, Tag, Tsid, Uuid
from binlogio.implementation import is_compiled
from binlogio.options import ReadOptions
from binlogio.reader import BinlogReader
from binlogio.selection.event_filter import HIGHEST, has_gtid, like_numbers
from binlogio.series.continuity import GtidContinuity, ignored, logged_by_two
from binlogio.series.gtid_history import ServerGtids, gtid_run, logged_intervals
from binlogio.series.log_head import known_heads
from binlogio.storage.index_file import log_name, log_number
from binlogio.storage.log_file import LogFile

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from binlogio.archive.observer import Damage
    from binlogio.events import BinlogEvent
    from binlogio.format.framing import EventFrame
    from binlogio.gtid.sets import Interval
    from binlogio.selection.event_filter import Gtids
    from binlogio.series.gtid_history import GtidRun, GtidSource
    from binlogio.series.log_head import LastGtids, LogHead
    from binlogio.storage.keyring import Keyring
    from binlogio.storage.log_file import OpenedLog

ReadGtids = Callable[[LogFile], "dict[GtidSource, list[Interval]]"]


def logged_gtids(log: LogFile, keyring: Keyring | None = None, end: int = HIGHEST) -> dict[GtidSource, list[Interval]]:
    """Return the GTIDs of the complete groups of a log that end before `end`. Reads the headers of all events.

    Raises:
        OSError: the log cannot be read.
        UnsupportedFeature: the log is encrypted, and the key is missing.
        BinlogFormatError: the log is damaged.
    """
    if end < HIGHEST:
        with closing(_FirstBytes(log.open(keyring), end)) as first:
            return logged_gtids(LogFile(log.name, stream=cast("BinaryIO", first)), keyring)
    if is_compiled():
        from binlogio.archive.survey import ArchiveSurvey, UnusualFormatError  # noqa: PLC0415 - needs the kernel

        found = _Gtids()
        try:
            open_group = ArchiveSurvey(keyring, counts=False).walk(log, found).open_group
        except UnusualFormatError:
            pass
        else:
            return logged_intervals(found.runs) if open_group is None else logged_gtids(log, keyring, open_group)
    with BinlogReader([log], ReadOptions(open_payloads=False), keyring=keyring) as reader:
        events = (event for event in reader if isinstance(event, GtidLogEvent))
        runs = [gtid_run(event.gtid, event.header.offset) for event in events if event.gtid is not None]
        is_whole = reader.group is None
        return logged_intervals(run for run in runs if is_whole or run.offset < reader.last_good_offset)


def mysql_gtids(gtids: dict[GtidSource, list[Interval]]) -> GtidSet:
    """Return those of `logged_gtids` that are of MySQL."""
    return GtidSet.from_intervals(
        (Tsid(Uuid(source[0]), Tag(str(source[1]))), run)
        for source, runs in gtids.items()
        if isinstance(source[0], bytes)
        for run in runs
    )


def have_gtids(logs: Sequence[LogFile], gtids: Gtids, keyring: Keyring | None = None) -> bool:
    """Return whether one of the logs has one of these GTIDs.

    True as well for streams, which can be read only once, and for logs that cannot be read: reading them raises the
    error.

    Raises:
        OSError: a log cannot be read.
    """
    if any(log.stream is not None for log in logs):
        return True
    before = [None if head is None else head.gtids_before() for head in known_heads(logs, keyring)]
    sets = [one for one in before if isinstance(one, GtidSet)]
    if isinstance(gtids, GtidSet) and any(not gtids.isdisjoint(b.difference(a)) for a, b in pairwise(sets)):
        return True
    for log in reversed(logs):
        try:
            logged = logged_gtids(log, keyring)
        except (BinlogFormatError, UnsupportedFeature):
            return True
        if any(_has_some(gtids, source, numbers) for source, runs in logged.items() for numbers in runs):
            return True
    return False


def _has_some(gtids: Gtids, source: GtidSource, numbers: Interval) -> bool:
    number, end = numbers
    while number < end:
        one, other = source
        gtid = (
            Gtid(Uuid(one), Tag(str(other)), number) if isinstance(one, bytes) else MariadbGtid(one, int(other), number)
        )
        if has_gtid(gtids, gtid):
            return True
        number = like_numbers(gtid, gtids)[1] + 1
    return False


def latest_gtids(log: LogFile, head: LogHead, read: ReadGtids) -> str | None:
    """Return the latest GTID of each source up to the end of a log, as text; None if it has none or is damaged.

    Raises:
        OSError: the log cannot be read.
        UnsupportedFeature: the log is encrypted, and the key is missing.
    """
    continuity = GtidContinuity()
    continuity.take(head.gtids_before())
    try:
        add_gtids(read(log), continuity)
    except BinlogFormatError:
        return None
    return continuity.latest


def check_gtids(
    logs: Sequence[LogFile],
    heads: Sequence[LogHead | None],
    read: ReadGtids,
    *,
    new: Container[str] | None = None,
    after: Iterable[str | None] = (),
    servers: ServerGtids | None = None,
    held: Container[str] = (),
    ignore_missing_logs: bool = False,
) -> list[str]:
    """Check that no log of another server has the GTIDs of a log, and that heads list only GTIDs that logs before have.

    Returns what is ignored.

    Logs of a server are compared in the order of the GTIDs at their heads, whatever their names; the first head is
    compared with the latest GTIDs of other servers only. Heads after a damaged log are not compared: the error is
    raised when the log is read.

    Args:
        logs: the logs.
        heads: the heads of the logs (`known_heads`).
        read: `logged_gtids`, which is called for most logs.
        new: the names of logs whose heads are compared; None: all.
        after: the latest GTIDs that a consumer has, of each source.
        servers: the GTIDs that a consumer has, of each server; those of the logs are added.
        held: the names of logs that the consumer has already.
        ignore_missing_logs: return what is missing instead of raising an error.

    Raises:
        MissingLogs: a head lists others, or a GTID is in logs of two servers.
        OSError: a log cannot be read.
    """
    found: list[str] = []
    if servers is None and len({head.server_id for head in heads if head is not None and head.first_gtid}) > 1:
        servers = ServerGtids()
    if servers is not None:
        found += _check_servers(logs, heads, read, servers, held, ignore_missing_logs=ignore_missing_logs)
    for (server_id, _), chain in _chains(logs, heads).items():
        continuity = GtidContinuity(after=(*after, None if servers is None else servers.latest_of_others(server_id)))
        is_complete = True
        alike = [list(logs_alike) for _, logs_alike in groupby(chain, key=lambda one: one[2])]
        for number, logs_alike in enumerate(alike):
            for log, _, before in logs_alike:
                if is_complete and (new is None or log.name in new):
                    found += continuity.check(before, log.name, ignore_missing_logs=ignore_missing_logs)
                else:
                    continuity.take(before)
            following = alike[number + 1] if number + 1 < len(alike) else []
            if not any(new is None or log.name in new for log, _, _ in following):
                continue
            try:
                for log, _, _ in logs_alike:
                    add_gtids(read(log), continuity)
                is_complete = True
            except (BinlogFormatError, UnsupportedFeature):
                is_complete = False
    return found


_Chain = list[tuple[LogFile, "LogHead", "GtidSet | LastGtids"]]


def _chains(logs: Sequence[LogFile], heads: Sequence[LogHead | None]) -> dict[tuple[int, bool], _Chain]:
    """Return the logs of each server id and vendor with their heads, in the order of the GTIDs at the heads."""
    chains: dict[tuple[int, bool], _Chain] = {}
    for log, head in zip(logs, heads, strict=True):
        before = None if head is None or head.is_relay_log else head.gtids_before()
        if head is not None and before is not None:
            chains.setdefault((head.server_id, head.context.is_mariadb), []).append((log, head, before))
    for chain in chains.values():
        stems: dict[str, int] = {}
        for log, head, _ in chain:
            stem = log_number(log_name(log.name))[0]
            stems[stem] = min(head.created, stems.get(stem, head.created))
        chain.sort(key=lambda one: (_count(one[2]), *_place(one[0], stems)))
    return chains


def _check_servers(
    logs: Sequence[LogFile],
    heads: Sequence[LogHead | None],
    read: ReadGtids,
    servers: ServerGtids,
    held: Container[str],
    *,
    ignore_missing_logs: bool,
) -> list[str]:
    """Check that no GTID is in logs of two servers; return what is ignored."""
    found = []
    for log, head in zip(logs, heads, strict=True):
        if head is None or head.first_gtid is None or head.is_relay_log or log.name in held:
            continue
        servers.begin_log(head.server_id)
        with suppress(BinlogFormatError, UnsupportedFeature):  # raised when the log is read
            gtids = [(source, one) for source, intervals in read(log).items() for one in intervals]
            twice = [text for source, numbers in gtids if (text := servers.add(source, numbers))]
            found += [ignored(logged_by_two(log.name, text), ignore_missing_logs=ignore_missing_logs) for text in twice]
    return found


def add_gtids(gtids: dict[GtidSource, list[Interval]], continuity: GtidContinuity) -> None:
    """Let a comparison take the GTIDs of a log."""
    for source, intervals in gtids.items():
        for numbers in intervals:
            continuity.add_run(source, numbers)


def _place(log: LogFile, stems: dict[str, int]) -> tuple[int, int]:
    """Return the order of a log: by the time when its series began, and its number."""
    stem, number, _ = log_number(log_name(log.name))
    return stems[stem], number


def _count(before: GtidSet | LastGtids) -> int:
    """Return the number of GTIDs at a head of MySQL. Sequence numbers of MariaDB may go back, and count nothing."""
    return sum(one.end - one.start for _, one in before) if isinstance(before, GtidSet) else 0


class _FirstBytes:
    """The first bytes of an open log, as a stream: it may grow, or end in an incomplete group."""

    def __init__(self, opened: OpenedLog, size: int) -> None:
        self._opened = opened
        self._left = size

    def read(self, size: int) -> bytes:
        """Return up to `size` bytes; empty at the end."""
        data = self._opened.read(min(size, self._left))
        self._left -= len(data)
        return data

    def close(self) -> None:
        """Close the log."""
        self._opened.close()


class _Gtids:
    """Collects the GTIDs of a log; an observer of the survey."""

    def __init__(self) -> None:
        self.runs: Final[list[GtidRun]] = []

    def format(self, frame: EventFrame) -> None:
        """Ignore the format description."""

    def event(self, event: BinlogEvent) -> None:
        """Ignore an event without a GTID."""

    def damage(self, found: Damage) -> None:
        """Stop at a damaged range.

        Raises:
            BinlogFormatError: always.
        """
        raise BinlogFormatError(found.reason, offset=found.begin)

    def problem(self, name: str, offset: int, value: int) -> None:
        """Stop at a GTID event that cannot be read; ignore problems that do not hide groups.

        Raises:
            BinlogFormatError: it is such an event.
        """
        if name == "gtid":
            raise BinlogFormatError("malformed GTID event", offset=offset)

    def gtids(self, ended: int, runs: Sequence[GtidRun]) -> None:
        """Take GTIDs."""
        self.runs.extend(runs)

    def groups(self, records: NDArray[np.int64], window: memoryview, begin: int) -> None:
        """Ignore records of groups."""
