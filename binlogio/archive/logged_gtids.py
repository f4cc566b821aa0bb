"""The GTIDs in logs, compared with those that the heads of later logs list."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from binlogio.errors import BinlogFormatError, UnsupportedFeature
from binlogio.events import GtidLogEvent
from binlogio.gtid import GtidSet
from binlogio.implementation import is_compiled
from binlogio.options import ReadOptions
from binlogio.reader import BinlogReader
from binlogio.series.continuity import GtidContinuity
from binlogio.series.gtid_history import gtid_run
from binlogio.storage.index_file import log_number

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from binlogio.archive.observer import Damage
    from binlogio.events import BinlogEvent
    from binlogio.format.framing import EventFrame
    from binlogio.series.gtid_history import GtidRun
    from binlogio.series.log_head import LastGtids, LogHead
    from binlogio.storage.keyring import Keyring
    from binlogio.storage.log_file import LogFile


def logged_gtids(log: LogFile, keyring: Keyring | None = None) -> list[GtidRun]:
    """Return the GTIDs of the groups of a log, in their order. Reads the headers of all events.

    Raises:
        OSError: the log cannot be read.
        UnsupportedFeature: the log is encrypted, and the key is missing.
        BinlogFormatError: the log is damaged.
    """
    if is_compiled():
        from binlogio.archive.survey import ArchiveSurvey, UnusualFormatError  # noqa: PLC0415 - needs the kernel

        found = _Gtids()
        try:
            ArchiveSurvey(keyring, counts=False).walk(log, found)
        except UnusualFormatError:
            pass
        else:
            return found.runs
    with BinlogReader([log], ReadOptions(open_payloads=False), keyring=keyring) as reader:
        events = (event for event in reader if isinstance(event, GtidLogEvent))
        return [gtid_run(event.gtid, event.header.offset) for event in events if event.gtid is not None]


def latest_gtids(log: LogFile, head: LogHead, keyring: Keyring | None = None) -> str | None:
    """Return the latest GTID of each source up to the end of a log, as text; None if it has none or is damaged.

    Raises:
        OSError: the log cannot be read.
        UnsupportedFeature: the log is encrypted, and the key is missing.
    """
    continuity = GtidContinuity()
    continuity.take(head.gtids_before())
    try:
        for run in logged_gtids(log, keyring):
            continuity.add_run(run)
    except BinlogFormatError:
        return None
    return continuity.latest


def check_gtids(
    logs: Sequence[LogFile],
    heads: Sequence[LogHead | None],
    keyring: Keyring | None = None,
    *,
    new: Container[str] | None = None,
    ignore_missing_logs: bool = False,
) -> list[str]:
    """Check that the heads of logs list only GTIDs that logs before them have; return what is ignored.

    Logs of a server are compared in the order of the GTIDs at their heads, whatever their names; the first head is
    taken as it is. Heads after a damaged log are not compared: the error is raised when the log is read.

    Args:
        logs: the logs.
        heads: the heads of the logs (`known_heads`).
        keyring: the keys of encrypted logs.
        new: the names of logs whose heads are compared; None: all.
        ignore_missing_logs: return what is missing instead of raising an error.

    Raises:
        MissingLogs: a head lists others.
        OSError: a log cannot be read.
    """
    chains: dict[tuple[int, bool], list[tuple[LogFile, LogHead, GtidSet | LastGtids]]] = {}
    for log, head in zip(logs, heads, strict=True):
        before = None if head is None or head.is_relay_log else head.gtids_before()
        if head is not None and before is not None:
            chains.setdefault((head.server_id, head.context.is_mariadb), []).append((log, head, before))
    found: list[str] = []
    for chain in chains.values():
        chain.sort(key=lambda one: (_count(one[2]), one[1].created, log_number(one[0].name)))
        continuity = GtidContinuity()
        is_complete = True
        for number, (log, _, before) in enumerate(chain):
            if is_complete and (new is None or log.name in new):
                found += continuity.check(before, log.name, ignore_missing_logs=ignore_missing_logs)
            else:
                continuity.take(before)
            following = chain[number + 1] if number + 1 < len(chain) else None
            if following is None or following[2] == before or not (new is None or following[0].name in new):
                continue
            try:
                for run in logged_gtids(log, keyring):
                    continuity.add_run(run)
                is_complete = True
            except (BinlogFormatError, UnsupportedFeature):
                is_complete = False
    return found


def _count(before: GtidSet | LastGtids) -> int:
    """Return the number of GTIDs at a head, or what grows with them."""
    if isinstance(before, GtidSet):
        return sum(one.end - one.start for _, one in before)
    return sum(one.sequence_number for one in before.values())


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
        """Ignore a problem that does not hide groups."""

    def gtids(self, ended: int, runs: Sequence[GtidRun]) -> None:
        """Take GTIDs."""
        self.runs.extend(runs)

    def groups(self, records: NDArray[np.int64], window: memoryview, begin: int) -> None:
        """Ignore records of groups."""
