"""Missing logs: gaps between the logs that are given, and between them and what a consumer has.

    number        servers number their logs one by one
    GTIDs         PREVIOUS_GTIDS and GTID_LIST at the head of a log have what was logged before it
    ROTATE        at the end of a log, names the next one

A gap is an error before the first change, unless the caller ignores missing logs; commands that only show logs go on
and report it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from binlogio.constants import CHECKSUM_SIZE, HEADER_SIZE, LOG_POS_BYTES, EventType
from binlogio.errors import BinlogError, ChangedLogs, Hint, MissingLogs
from binlogio.events.base import has_right_checksum, parse_header
from binlogio.events.format_description import server_version_numbers
from binlogio.gtid import Gtid, GtidSet, Interval, MariadbGtid, Tag, Tsid, Uuid
from binlogio.gtid.identifiers import GNO_END
from binlogio.selection.event_filter import has_gtid
from binlogio.series.identity import LogIdentity, fingerprint, log_size
from binlogio.series.log_head import known_heads
from binlogio.storage.index_file import base_name, log_name, log_number

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from binlogio.selection.event_filter import Gtids
    from binlogio.series.gtid_history import GtidSource
    from binlogio.series.log_head import LastGtids, LogHead
    from binlogio.series.progress import LogProgress
    from binlogio.storage.keyring import Keyring
    from binlogio.storage.log_file import LogFile

_MOST_SHOWN: Final = 200  # characters of GTIDs in a message
_ROTATE_POSITION_SIZE: Final = 8
_FIRST_YEAR, _LAST_YEAR = 1990, 2100
_CLEARS_IN_USE: Final = (5, 6, 0)
_MOST_ROTATION_S: Final = 10  # seconds between the ROTATE at the end of a log and the head of the next log


@dataclass(frozen=True, slots=True)
class SeriesGap:
    """A log that is not the next one after the log before it: `first` to `last` are missing.

    If `last` is below `first`, no log is missing: the logs are not in order, or a number is there twice.
    """

    file: str
    before: str
    first: int
    last: int

    @property
    def is_missing(self) -> bool:
        """True if logs are missing; False if the logs are not in the order of their numbers."""
        return self.last >= self.first

    @property
    def numbers(self) -> str:
        """The missing numbers as text."""
        return f"number {self.first}" if self.first == self.last else f"numbers {self.first} to {self.last}"

    @property
    def reason(self) -> str:
        """The gap as a clause about `file`."""
        if self.is_missing:
            return f"logs are missing before this one: {self.numbers}"
        if log_number(log_name(self.file))[1] == self.first - 1:
            return f"it has the number of the log before it, {self.before}"
        return f"the number is not larger than that of the log before it, {self.before}: give logs in their order"


def series_gap(file: str, before: str) -> SeriesGap | None:
    """Return the gap between two logs; None if `file` is the next log after `before`, or is of another series."""
    stem, number, _ = log_number(file)
    other_stem, other, _ = log_number(before)
    if stem != other_stem or number < 0 or number == other + 1 or (_is_day(number) and _is_day(other)):
        return None
    return SeriesGap(file, before, other + 1, number - 1)


def _is_day(number: int) -> bool:
    """Return whether a number is a day (YYYYMMDD), as of backups: no server has had so many logs."""
    year, month, day = number // 10_000, number // 100 % 100, number % 100
    return _FIRST_YEAR <= year <= _LAST_YEAR and 1 <= month <= 12 and 1 <= day <= 31


def series_gaps(files: Iterable[str]) -> list[SeriesGap]:
    """Return the gaps in the numbers of logs, which are in the order in which they are read.

    Logs of several series may take turns.
    """
    gaps = []
    last: dict[str, str] = {}
    for file in files:
        stem = log_number(file)[0]
        gap = series_gap(file, last[stem]) if stem in last else None
        gaps += [gap] if gap is not None else []
        last[stem] = file
    return gaps


def check_numbers(files: Iterable[str], *, ignore_missing_logs: bool = False, in_order: bool = True) -> list[str]:
    """Check that no log is missing between others, and return what is ignored.

    Args:
        files: names of logs, of one or more series.
        ignore_missing_logs: return all gaps instead of raising an error.
        in_order: the logs are read in this order; otherwise only their numbers matter.

    Raises:
        MissingLogs: logs are missing, or are not in order, or a log is there twice.
    """
    gaps = series_gaps(files if in_order else sorted(files, key=log_number))
    others = f", and {len(gaps) - 1} more places like this" if len(gaps) > 1 and not ignore_missing_logs else ""
    return [
        ignored(
            MissingLogs(
                gap.reason + others,
                file=gap.file,
                hint=Hint.IGNORE_MISSING_LOGS
                if gap.is_missing
                else "give each log once, in the order of the numbers, or their directory",
            ),
            ignore_missing_logs=ignore_missing_logs,
        )
        for gap in gaps
    ]


def ignored(error: MissingLogs, *, ignore_missing_logs: bool) -> str:
    """Raise an error; if missing logs are ignored, return it as text instead."""
    if not ignore_missing_logs:
        raise error
    return f"{error.file}: {error.reason}"


def check_series(
    logs: Sequence[LogFile],
    keyring: Keyring | None = None,
    *,
    heads: Sequence[LogHead | None] | None = None,
    in_order: bool = True,
    ignore_missing_logs: bool = False,
) -> list[str]:
    """Check that logs follow each other and are there once, and return what is missing and ignored.

    Reads the heads of several logs, unless they are given. Streams are not checked.

    Args:
        logs: the logs.
        keyring: the keys of encrypted logs.
        heads: the heads of the logs (`known_heads`).
        in_order: the logs are read in this order; otherwise only their numbers matter.
        ignore_missing_logs: return what is missing instead of raising an error.

    Raises:
        MissingLogs: a log is missing between two others, or the end of one of them; or a log is there twice.
    """
    if len(logs) < 2:
        return []
    found = check_numbers((log.name for log in logs), ignore_missing_logs=ignore_missing_logs, in_order=in_order)
    heads = known_heads(logs, keyring) if heads is None else heads
    if not in_order:
        order = sorted(range(len(logs)), key=lambda one: log_number(logs[one].name))
        logs, heads = [logs[one] for one in order], [heads[one] for one in order]
    found += check_copies(logs, heads, keyring, ignore_missing_logs=ignore_missing_logs)
    return found + check_ends(logs, heads, ignore_missing_logs=ignore_missing_logs)


def check_copies(
    logs: Sequence[LogFile],
    heads: Sequence[LogHead | None],
    keyring: Keyring | None = None,
    *,
    ignore_missing_logs: bool = False,
) -> list[str]:
    """Check that no log is given twice, for example from two directories; return what is ignored.

    Logs with the same first GTID are the same. Without GTIDs those with the same head are, if they have the same name
    or one is the beginning of the other; of relay logs, those with the same size and end.

    Raises:
        MissingLogs: a log is there twice.
    """
    found = []
    known: dict[object, LogFile] = {}
    without_gtids: dict[object, list[LogFile]] = {}
    for log, head in zip(logs, heads, strict=True):
        if log.stream is not None:
            continue
        keys: list[object] = [log.name]
        if head is not None:
            name = log_name(log.name) if head.first_gtid is None else ""
            keys.append((LogIdentity.of(head), name))
        others = [known.setdefault(key, log) for key in keys]
        if head is None or (head.first_gtid is None and head.has_groups):
            alike = without_gtids.setdefault(log.size if head is None else LogIdentity.of(head), [])
            others += [one for one in alike if _is_prefix(log, one, keyring)]
            alike.append(log)
        other = next((one for one in others if one is not log), log)
        if other is not log:
            reason = f"the log is given twice, also as {other.name}"
            error = MissingLogs(reason, file=log.name, hint="give each log once")
            found.append(ignored(error, ignore_missing_logs=ignore_missing_logs))
    return found


def _is_prefix(log: LogFile, other: LogFile, keyring: Keyring | None) -> bool:
    """Return whether one of two logs is the beginning of the other, by its last bytes."""
    try:
        size = min(log_size(log, keyring), log_size(other, keyring))
        found = fingerprint(log, size, keyring)
        return found is not None and found == fingerprint(other, size, keyring)
    except (OSError, BinlogError):
        return False


def check_ends(
    logs: Sequence[LogFile], heads: Sequence[LogHead | None], *, ignore_missing_logs: bool = False
) -> list[str]:
    """Check that logs before others of their series were closed; return what is missing and ignored.

    MySQL clears the flag IN_USE before it begins the next log, also in crash recovery. A log that has the flag is a
    copy that was made while the server wrote to it. MariaDB does not clear the flag in recovery; its GTID_LISTs show
    the gap.

    Raises:
        MissingLogs: the end of a log is missing.
    """
    found = []
    for (log, head), (following, _) in pairwise(zip(logs, heads, strict=True)):
        is_followed = log_number(log.name)[0] == log_number(following.name)[0]
        if head is None or not is_followed or not _is_unclosed(head):
            continue
        reason = f"the end of the log is missing: its flag IN_USE is set, although {base_name(following.name)} follows"
        error = MissingLogs(reason, file=log.name, hint=Hint.IGNORE_MISSING_LOGS)
        found.append(ignored(error, ignore_missing_logs=ignore_missing_logs))
    return found


def _is_unclosed(head: LogHead) -> bool:
    """Return whether a log has no end if another one follows it: its server clears the flag IN_USE before."""
    is_cleared = not head.context.is_mariadb and server_version_numbers(head.context.server_version) >= _CLEARS_IN_USE
    return head.in_use and is_cleared


def missing_after(
    held: Sequence[LogProgress],
    new: Sequence[tuple[str, LogHead]],
    given: Iterable[tuple[str, LogHead]],
    *,
    ignore_missing_logs: bool = False,
) -> list[str]:
    """Check that logs continue what a consumer of several series has, and return what is missing and ignored.

    Args:
        held: the progress of the consumer in its logs.
        new: the names and heads of the logs that it does not have.
        given: the names and heads of all logs that are read, also of those that it has. No number is missing between
            them (`check_series`).
        ignore_missing_logs: return what is missing instead of raising an error.

    Raises:
        MissingLogs: logs or GTIDs are missing between those that the consumer has and these.
        ChangedLogs: a log of another server has transactions that the consumer has.
    """
    found = []
    read = {(*log_number(log_name(name))[:2], head.server_id) for name, head in given}
    for file, head in new:
        lost = _missing_before(held, new, read, file, head)
        if lost is not None:
            reason = f"logs are missing between those that the target has and this one: {lost}"
            error = MissingLogs(reason, file=file, hint=Hint.IGNORE_MISSING_LOGS)
            found.append(ignored(error, ignore_missing_logs=ignore_missing_logs))
    return found


def _missing_before(
    held: Sequence[LogProgress],
    new: Sequence[tuple[str, LogHead]],
    given: AbstractSet[tuple[str, int, int]],
    file: str,
    head: LogHead,
) -> str | None:
    """Return what is missing between the logs of a consumer and a new log.

    Numbers begin again after RESET: a log is of an earlier series than the new one if, between the times of their
    heads, the server began a log of number 1, or one of a number that is not lower than that of the new one. The clock
    of a server may go back.
    """
    stem, number, _ = log_number(log_name(file))
    is_continued = (stem, number - 1, head.server_id) in given
    own = {_place_of(one): one for one in held if _is_of_series(one, stem, head)}
    if number < 0 or not own:
        return None if is_continued else _missing_gtids(held, file, head)
    place = head.created, number
    others = {
        (one.created, log_number(name)[1])
        for name, one in new
        if one.server_id == head.server_id and log_number(log_name(name))[0] == stem
    }
    known = (others | own.keys()) - {place}
    lost = None if (stem, number + 1, head.server_id) in given else _missing_later(file, head, known)
    if is_continued:
        return lost
    lower = [one for one in known if one[1] < number]
    since = _series_begin(place, known)
    has_twin = any(one[1] >= number for one in known)
    same = (one for one in lower if one[0] >= since and not (one > place and has_twin))
    before = max(same, key=_number, default=None)
    if lower and number > 1 and (before is None or before[1] != number - 1):
        return SeriesGap(file, "", 1 if before is None else before[1] + 1, number - 1).numbers
    last = None if before is None else own.get(before)
    if lost is not None or before is None or last is None:
        return lost
    is_copy = before > place and head.first_gtid is None and any(one[0] == head.created for one in known)
    if is_copy or not continues(head, last.last_gtid):
        raise _repeated(file, head)
    rest = [] if last.is_complete else [f"{last.file} from {last.offset} on"]
    gtids = GtidContinuity(after=[one.last_gtid for one in held]).missing(head.gtids_before())
    return " and ".join([*rest, gtids] if gtids else rest) or None


def _missing_later(file: str, head: LogHead, known: AbstractSet[tuple[int, int]]) -> str | None:
    """Return what is missing between a new log and a later one that is known; the next one is not given."""
    created, number = head.created, log_number(log_name(file))[1]
    if any(one[1] == number + 1 for one in known):
        is_followed = any(one[1] == number + 1 and one[0] >= created for one in known)
        unclosed = "the end of this one, whose flag IN_USE is set although the target has the next one"
        return unclosed if is_followed and _is_unclosed(head) else None
    after = min((one for one in known if one[1] > number + 1 and one[0] > created), key=_number, default=None)
    is_same_series = after is not None and _series_begin(after, known) <= created
    return SeriesGap(file, "", number + 1, after[1] - 1).numbers if after is not None and is_same_series else None


def _place_of(one: LogProgress) -> tuple[int, int]:
    """Return the time of the head of a log, and its number."""
    return 0 if one.identity is None else one.identity.created, log_number(one.file)[1]


def _number(place: tuple[int, int]) -> tuple[int, int]:
    return place[1], place[0]


def _series_begin(place: tuple[int, int], known: AbstractSet[tuple[int, int]]) -> int:
    """Return a time at or after which the server began the series of a log, by the other logs; -1: none shows it."""
    first = max((created for created, number in known if number == 1 and created <= place[0]), default=-1)
    higher = max((created for created, number in known if number >= place[1] and created < place[0]), default=-2)
    return max(first, higher + 1)


def _is_of_series(one: LogProgress, stem: str, head: LogHead) -> bool:
    is_server = one.identity is None or one.identity.server_id == head.server_id
    return is_server and log_number(log_name(one.file))[0] == stem


def _missing_gtids(held: Sequence[LogProgress], file: str, head: LogHead) -> str | None:
    """Compare a log of a server, of which the consumer has no log, with the last GTIDs that it has (failover).

    Raises:
        ChangedLogs: the log has transactions that the consumer has.
    """
    last = [one.last_gtid for one in held]
    latest, first = _latest(last), None if head.first_gtid is None else _numbered(head.first_gtid)
    if first is not None and first[1] <= latest.get(first[0], -1):
        raise _repeated(file, head)
    return GtidContinuity(after=last).missing(head.gtids_before()) or None


def _repeated(file: str, head: LogHead) -> ChangedLogs:
    return ChangedLogs(
        "the log has transactions that the target has already: it is a copy, or a log of another server",
        file=file,
        found="a log begun before the last one" if head.first_gtid is None else f"its first GTID {head.first_gtid}",
        hint="write the transactions that the target lacks into a log of their own (binlogio copy --exclude-gtids),"
        " and continue with that",
    )


def continues(head: LogHead, last: str | None) -> bool:
    """Return False if the head of a log shows that it does not follow the log up to which `last` are the latest."""
    before = head.gtids_before()
    if last is None or before is None or isinstance(before, GtidSet) != (":" in last):
        return True
    if isinstance(before, GtidSet):
        return all(Gtid.parse(one) in before for one in last.split(","))
    gtids = map(MariadbGtid.parse, last.split(","))
    found = {source: gtid.sequence_number for source, gtid in before.items()}
    return all(found.get((one.domain_id, one.server_id), -1) >= one.sequence_number for one in gtids)


def _numbered(gtid: str) -> tuple[Tsid | tuple[int, int], int]:
    """Return the source of a GTID (UUID and tag, or domain and server), and its number."""
    if ":" in gtid:
        found = Gtid.parse(gtid)
        return Tsid(found.uuid, found.tag), found.gno
    mariadb = MariadbGtid.parse(gtid)
    return (mariadb.domain_id, mariadb.server_id), mariadb.sequence_number


class GtidContinuity:
    """Compares the GTIDs at the heads of logs with those of the logs before them, and with what a consumer has.

    Args:
        known: the GTIDs that the consumer has; None: unknown, so that the first head is taken as it is.
        allowed: GTIDs that may be missing, since the caller leaves them out.
        after: the latest GTIDs of sources of which the consumer has all GTIDs up to there, if no more is known; the
            first head is compared with those sources only.
    """

    def __init__(
        self, known: Gtids | None = None, allowed: Gtids | None = None, after: Iterable[str | None] = ()
    ) -> None:
        self._known = known
        self._allowed = allowed
        self._begun = known is not None
        self._after = _latest(after)
        self._mysql = known if isinstance(known, GtidSet) else _up_to(self._after)
        self._runs: list[tuple[Tsid, Interval]] = []
        self._last = {source: number for source, number in self._after.items() if not isinstance(source, Tsid)}
        self.last: Gtid | MariadbGtid | None = None

    def begin_series(self) -> None:
        """Begin the logs of another server: their first head is compared with the latest GTIDs so far (failover)."""
        self._begun = self._known is not None
        self._after = _latest([self.latest])

    @property
    def latest(self) -> str | None:
        """The latest GTID of each source so far, separated by commas; None: there is none."""
        mysql = _ends(self._mysql.union(GtidSet.from_intervals(self._runs)))
        found = [str(Gtid(tsid.uuid, tsid.tag, end - 1)) for tsid, end in mysql.items()]
        found += [f"{domain}-{server}-{number}" for (domain, server), number in self._last.items() if number >= 0]
        return ",".join(found) or None

    @property
    def is_behind(self) -> bool:
        """True if the consumer has later GTIDs of the source of the last group than this group."""
        if isinstance(self.last, MariadbGtid):
            later = replace(self.last, sequence_number=self.last.sequence_number + 1)
            return self._known is not None and has_gtid(self._known, later)
        if self.last is None or not isinstance(self._known, GtidSet):
            return False
        numbers = self._known.intervals(Tsid(self.last.uuid, self.last.tag))
        return bool(numbers) and numbers[-1].end > self.last.gno + 1

    def add(self, gtid: Gtid | MariadbGtid | None) -> None:
        """Take the GTID of the next event group."""
        self.last = gtid or self.last
        if isinstance(gtid, MariadbGtid):
            source = gtid.domain_id, gtid.server_id
            self._last[source] = max(gtid.sequence_number, self._last.get(source, -1))
        elif gtid is not None:
            tsid = Tsid(gtid.uuid, gtid.tag)
            run = self._runs[-1] if self._runs else None
            if run is not None and run[0] == tsid and run[1].end == gtid.gno:
                self._runs[-1] = tsid, Interval(run[1].start, gtid.gno + 1)
            else:
                self._runs.append((tsid, Interval(gtid.gno, gtid.gno + 1)))

    def add_run(self, source: GtidSource, numbers: Interval) -> None:
        """Take consecutive GTIDs of groups."""
        if isinstance(source[0], bytes):
            self._runs.append((Tsid(Uuid(source[0]), Tag(str(source[1]))), numbers))
        else:
            key = source[0], int(source[1])
            self._last[key] = max(numbers.end - 1, self._last.get(key, -1))

    def check(self, before: GtidSet | LastGtids | None, file: str, *, ignore_missing_logs: bool) -> list[str]:
        """Check that the head of the next log lists only GTIDs that logs before it have; return what is ignored.

        Raises:
            MissingLogs: it lists others. The state is as before.
        """
        lost = self.missing(before)
        found = [ignored(missing_gtids(file, lost), ignore_missing_logs=ignore_missing_logs)] if lost else []
        self.take(before)
        return found

    def missing(self, before: GtidSet | LastGtids | None) -> str:
        """Return the GTIDs at the head of the next log that no log before it has, as text; empty: none is missing."""
        if before is None:
            return ""
        if isinstance(before, GtidSet):
            have = self._mysql.union(GtidSet.from_intervals(self._runs))
            lost = (before if self._begun else before.intersection(_later(self._after))).difference(have)
            return shown(lost.difference(self._allowed) if isinstance(self._allowed, GtidSet) else lost)
        checked = [one for one in before.items() if self._begun or one[0] in self._after]
        return shown(",".join(str(gtid) for source, gtid in checked if self._lacks(source, gtid)))

    def take(self, before: GtidSet | LastGtids | None) -> None:
        """Take the GTIDs at the head of the next log as known."""
        if before is None:
            return
        self._begun = True
        if isinstance(before, GtidSet):
            self._mysql = self._mysql.union(GtidSet.from_intervals(self._runs)).union(before)
            self._runs = []
        else:
            self._last.update((source, gtid.sequence_number) for source, gtid in before.items())

    def _lacks(self, source: tuple[int, int], gtid: MariadbGtid) -> bool:
        if gtid.sequence_number <= self._last.get(source, -1):
            return False
        return not any(has_gtid(gtids, gtid) for gtids in (self._known, self._allowed) if gtids is not None)


def _ends(gtids: GtidSet) -> dict[Tsid, int]:
    """Return the end of the last GTIDs of each source."""
    ends: dict[Tsid, int] = {}
    for tsid, numbers in gtids:
        ends[tsid] = max(numbers.end, ends.get(tsid, 0))
    return ends


def _latest(gtids: Iterable[str | None]) -> dict[Tsid | tuple[int, int], int]:
    """Return the largest number of each source (UUID and tag, or domain and server)."""
    latest: dict[Tsid | tuple[int, int], int] = {}
    for text in gtids:
        for one in text.split(",") if text else ():
            source, number = _numbered(one)
            latest[source] = max(number, latest.get(source, -1))
    return latest


def _up_to(latest: Mapping[Tsid | tuple[int, int], int]) -> GtidSet:
    """Return all GTIDs of MySQL sources up to these."""
    return GtidSet.from_intervals(
        (source, Interval(1, number + 1)) for source, number in latest.items() if isinstance(source, Tsid)
    )


def _later(latest: Mapping[Tsid | tuple[int, int], int]) -> GtidSet:
    """Return all GTIDs of MySQL sources after these."""
    return GtidSet.from_intervals(
        (source, Interval(number + 1, GNO_END))
        for source, number in latest.items()
        if isinstance(source, Tsid) and number + 1 < GNO_END
    )


def later_gtids(gtids: GtidSet, known: GtidSet) -> GtidSet:
    """Return the GTIDs that are after all known ones of their source; those of unknown sources are left out."""
    return gtids.intersection(_later({source: end - 1 for source, end in _ends(known).items()}))


def missing_gtids(file: str, gtids: str) -> MissingLogs:
    """Return the error for GTIDs at the head of a log that neither the logs before it nor the consumer have."""
    return MissingLogs(
        f"transactions are missing before this log: {gtids}, which its head lists", file=file,
        hint=Hint.IGNORE_MISSING_LOGS,
    )  # fmt: skip


def logged_by_two(file: str, gtids: str) -> MissingLogs:
    """Return the error for GTIDs that logs of another server have, too (`ServerGtids`)."""
    return MissingLogs(
        f"the log has transactions that another log has, too: {gtids}", file=file,
        hint="the servers replicate from each other: give the logs of one of them, or write the transactions that only"
        " this log has into a log of their own (binlogio copy --exclude-gtids)",
    )  # fmt: skip


def shown(gtids: object) -> str:
    """Return GTIDs as text for a message, shortened."""
    text = str(gtids).replace("\n", "")
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."


def changed_sources(before: LastGtids, after: LastGtids) -> set[tuple[int, int]] | None:
    """Return the domains and servers of MariaDB with GTIDs between two GTID_LISTs; None if they do not follow."""
    if not set(before) <= set(after):
        return None
    return {source for source, gtid in after.items() if before.get(source) != gtid}


def is_followed_by(log: LogFile, head: LogHead, following: LogFile, after: LogHead) -> bool:
    """Return whether a log ends with a ROTATE to the next log, which the same server began at that time.

    Only then does the head of the next log prove what the log contains: another log may have the name of the next one,
    after RESET or in a directory of several servers.
    """
    name = base_name(following.name).encode()
    tail = CHECKSUM_SIZE if head.context.has_checksum else 0
    size = HEADER_SIZE + _ROTATE_POSITION_SIZE + len(name) + tail
    try:
        opened = log.open()
    except (OSError, BinlogError):
        return False
    try:
        if not opened.seekable or (end := opened.end()) < size:
            return False
        opened.seek(end - size)
        raw = opened.read_up_to(size)
    except OSError:
        return False
    finally:
        opened.close()
    header = parse_header(raw, end - size, head.context) if len(raw) == size else None
    return (
        header is not None
        and header.type_code == EventType.ROTATE_EVENT
        and header.event_size == size
        and raw[LOG_POS_BYTES] == (end & 0xFFFFFFFF).to_bytes(4, "little")
        and raw[HEADER_SIZE + _ROTATE_POSITION_SIZE : size - tail] == name
        and (not tail or has_right_checksum(raw))
        and head.server_id == after.server_id == header.server_id
        and head.context.is_mariadb == after.context.is_mariadb
        and abs(after.created - header.timestamp) <= _MOST_ROTATION_S
    )
