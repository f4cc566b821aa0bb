"""Checks an archive of logs: bytes, event groups, GTIDs and missing files.

    damage   bytes that are not events, wrong checksums, events that do not fit their layout
    problem  event groups that break the grammar, missing logs or GTIDs, GTIDs that are logged twice
    note     normal in a healthy archive: an incomplete end of a log in use, GTIDs that a server has surely skipped

`binlogio.series.gtid_history` compares the GTIDs with the server's own records at the heads of the logs.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from binlogio.archive.observer import Damage, LogEnd
from binlogio.archive.read_check import ReadCheck, unreadable_text
from binlogio.constants import HeaderFlag
from binlogio.errors import BinlogError, BinlogFormatError, UnsupportedFeature
from binlogio.events import GtidLogEvent
from binlogio.events.base import event_name
from binlogio.events.control import IncidentEvent, RotateEvent
from binlogio.events.format_description import FormatDescriptionEvent
from binlogio.events.gtid import PreviousGtidsEvent
from binlogio.events.mariadb import MariadbGtidListEvent
from binlogio.implementation import require_kernel
from binlogio.options import ReadOptions
from binlogio.reader import BinlogReader
from binlogio.series.continuity import check_copies, check_ends, series_gaps
from binlogio.series.gtid_history import NOTE, PROBLEM, GtidHistories, gtid_run
from binlogio.series.log_head import known_heads
from binlogio.series.progress import recognizer
from binlogio.storage.index_file import (
    INDEX_SUFFIX,
    base_name,
    is_beside_logs,
    is_index_file,
    log_name,
    log_number,
    plain_name,
    read_index,
)
from binlogio.storage.sources import find_logs, no_log_in_index

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from binlogio.events import BinlogEvent
    from binlogio.events.base import EventHeader
    from binlogio.format.framing import EventFrame
    from binlogio.gtid.sets import Interval
    from binlogio.schema.given import GivenDefinitions
    from binlogio.series.gtid_history import GtidHistory, GtidRun, GtidSource
    from binlogio.series.log_head import LogHead
    from binlogio.storage.keyring import Keyring
    from binlogio.storage.log_file import LogFile

DAMAGE: Final = "damage"
GTIDS: Final = "GTIDs"
"""Name of the report about the GTIDs of all logs."""
MOST_FINDINGS: Final = 1000
"""Findings kept for each log; further ones are only counted."""

_WORDS: Final = {
    "log_pos": "log_pos is {value}, which is not where the event ends",
    "group in group": "an event group begins before the one of offset {value} has ended",
    "file event in group": "the log ends or rotates before the event group of offset {value} has ended",
    "no table map": "a rows event of table id {value}, for which there is no table map in its statement",
    "end without begin": "a transaction ends that has not begun",
    "no statement end": "the transaction ends, but its last rows event does not end its statement",
    "gtid": "malformed GTID event",
    "table map": "malformed table map",
    "body": "malformed {type}",
    "rows": "rows that do not fit their table, or cannot be opened, in {type}",
}
_GAPS: Final = {
    NOTE: "GTIDs that no log has: {}",
    PROBLEM: "GTIDs that no log has, and of which no later log shows that the server skipped them: {}",
}
_DAMAGES: Final = frozenset({"gtid", "table map", "body", "rows", "log_pos"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A finding in a log, at `offset`, or in the damaged range [offset, end). `level` is DAMAGE, PROBLEM or NOTE."""

    level: str
    message: str
    offset: int | None = None
    end: int | None = None


@dataclass(frozen=True, slots=True)
class FineRange:
    """A byte range of a log without damage, and the number of complete event groups in it."""

    begin: int
    end: int
    groups: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogReport:
    """The result of the check of a log.

    Args:
        file: its name; for findings about an index file or all GTIDs, the name of the index file or GTIDS.
        size: bytes read, after decompression.
        groups: the number of complete event groups.
        fine: the ranges without damage; one range if the log has no damage.
        findings: at most MOST_FINDINGS.
        more_findings: the number of further findings.
        unchecked: what was not checked.
    """

    file: str
    size: int = 0
    groups: int = 0
    fine: tuple[FineRange, ...] = ()
    findings: tuple[Finding, ...] = ()
    more_findings: int = 0
    unchecked: tuple[str, ...] = ()

    @property
    def is_fine(self) -> bool:
        """True if there is no damage and no problem."""
        return not self.more_findings and all(found.level == NOTE for found in self.findings)


def verify_logs(
    sources: Iterable[str | os.PathLike[str]],
    keyring: Keyring | None = None,
    *,
    headers_only: bool = False,
    definitions: GivenDefinitions | None = None,
    on_read: Callable[[str, int], object] | None = None,
) -> Iterator[LogReport]:
    """Check logs. Yields a report about each index file with findings, about each log, and about gaps in all GTIDs.

    If the report of a log is fine, `binlogio.open` and `read_tables` with `zero_dates="text"` read the log to its end.

    Args:
        sources: paths, directories, index files, globs or URIs. For a directory or an index file, the index is also
            compared with the files. Of several sources (a shell pattern), other files of the server are omitted.
        keyring: the keys of encrypted logs.
        headers_only: check neither row images nor the content of frequent events, which is several times faster.
        definitions: table definitions given by the caller, for rows that cannot be read without them.
        on_read: called with the name of a log and the offset up to which it was read.

    Raises:
        FileNotFoundError: a source names no file.
    """
    require_kernel("verify")
    logs: list[LogFile] = []
    names = [os.fspath(source) for source in sources]
    for name in names:
        if len(names) > 1 and is_beside_logs(name) and not is_index_file(name):
            continue
        found, report = _logs_of(name)
        logs += [log for log in found if not (is_index_file(name) and log.name in names)]
        if report is not None:
            yield report
    history = GtidHistories()
    unchecked = ("row images",) if headers_only else ()
    read_check = None if headers_only else ReadCheck(definitions=definitions)
    check = _checker(keyring, on_read, read_check)
    heads = known_heads(logs, keyring)
    wrong = {gap.file: gap.reason for gap in series_gaps(log.name for log in logs)}
    twice = check_copies(logs, heads, keyring, ignore_missing_logs=True)
    for number, log in enumerate(logs):
        checked = _CheckedLog(history.of(log.name))
        for reason in (wrong.get(log.name), *(one for one in twice if one.startswith(f"{log.name}: "))):
            if reason is not None:
                checked.add(PROBLEM, reason.removeprefix(f"{log.name}: "))
        try:
            check(log, checked)
            checked.forget_incomplete(log, keyring)
        except UnsupportedFeature as exc:
            checked.add(PROBLEM, f"the log cannot be checked: {exc.reason}", offset=exc.offset)
        except BinlogError as exc:
            offset, exc.file, exc.offset, exc.hint = exc.offset, None, None, None
            checked.add(DAMAGE, str(exc), offset=offset)
        if number + 1 < len(logs):
            checked.compare_next(logs[number : number + 2], heads[number : number + 2])
        yield checked.report(log, unchecked)
    if (gaps := _gaps(history)) is not None:
        yield gaps


def _logs_of(source: str) -> tuple[list[LogFile], LogReport | None]:
    """Return the logs of a source, and a report about differences from the index file, if any."""
    path = Path(source)
    if "://" in source:
        return find_logs(source), None
    if is_index_file(source) and path.is_file():
        indexes = [path]
        names = {name: path.parent / name for name in read_index(path)}
        if not names:
            raise no_log_in_index(str(path))
        logs = [log for name in names.values() if name.is_file() for log in find_logs(name)]
    else:
        logs = find_logs(source)
        indexes = sorted(path.glob(f"*{INDEX_SUFFIX}")) if path.is_dir() else []
    findings = [finding for index in indexes for finding in _index_findings(index, logs)]
    return logs, LogReport(file=str(indexes[0]), findings=tuple(findings)) if findings else None


def _index_findings(index: Path, logs: Sequence[LogFile]) -> Iterator[Finding]:
    try:
        listed = [os.path.normpath(index.parent / name) for name in read_index(index)]
    except BinlogError as exc:
        yield Finding(level=PROBLEM, message=exc.reason)
        return
    known = {os.path.normpath(plain_name(log.name)) for log in logs}
    for name in listed:
        if name not in known and not Path(name).is_file():
            yield Finding(level=PROBLEM, message=f"the index file lists {Path(name).name}, which is not there")
    for name, count in Counter(listed).items():
        if count > 1:
            yield Finding(level=PROBLEM, message=f"the index file lists {Path(name).name} {count} times")
    stems = {log_number(name)[0] for name in listed}
    for name in sorted(known.difference(listed)):
        if log_number(name)[0] in stems:
            yield Finding(level=NOTE, message=f"{Path(name).name} is not in the index file")


def _checker(
    keyring: Keyring | None, on_read: Callable[[str, int], object] | None, read_check: ReadCheck | None
) -> Callable[[LogFile, _CheckedLog], None]:
    """Return the function that checks one log."""
    from binlogio.archive.survey import ArchiveSurvey, UnusualFormatError  # noqa: PLC0415 - needs the kernel

    survey = ArchiveSurvey(keyring, counts=False, on_read=on_read, check=read_check)

    def check(log: LogFile, checked: _CheckedLog) -> None:
        try:
            checked.end(survey.walk(log, checked))
        except UnusualFormatError:
            _check_by_reader(log, checked, keyring, read_check)

    return check


def log_end(log: LogFile, keyring: Keyring | None = None) -> LogEnd | None:
    """Return the end of a log, found by reading all of it; None if its format is not supported.

    Raises:
        BinlogError, OSError: the log cannot be read.
    """
    checked = _CheckedLog(GtidHistories().of(log.name))
    _checker(keyring, None, None)(log, checked)
    return checked.log_end


def _check_by_reader(log: LogFile, checked: _CheckedLog, keyring: Keyring | None, read_check: ReadCheck | None) -> None:
    """Check a log with the Python reader, up to the first damage: a format that the survey does not support.

    Those are logs before MySQL 5.0, of 5.1 alphas, and with long event headers.
    """
    rows = None if read_check is None else read_check.rows_parser(log.name, recognizer(log, keyring))
    with BinlogReader([log], keyring=keyring) as reader:
        try:
            for event in reader:
                checked.read(event, is_first=reader.group is not None and event is reader.group.first)
                if rows is not None and event.header.inner is None and reader.frame is not None:
                    rows.take(reader.frame)
        except BinlogFormatError as exc:
            begin = reader.position.offset if exc.offset is None else exc.offset
            checked.damage(Damage(begin=begin, end=max(begin, log.size or 0), reason=unreadable_text(exc)))
        tail, offset, good = reader.torn_tail, reader.position.offset, reader.last_good_offset
        checked.end(
            LogEnd(
                offset=offset,
                in_use=reader.in_use,
                torn_size=0 if tail is None else tail.size,
                open_group=good if good < offset and not checked.is_relay else None,
            )
        )


class _CheckedLog:
    """Collects the findings about a log; an observer of the survey."""

    def __init__(self, history: GtidHistory) -> None:
        self.log_end: LogEnd | None = None
        self._history = history
        self._findings: list[Finding] = []
        self._more = 0
        self._bytes = 0
        self._groups = 0
        self._fine: list[FineRange] = []
        self._at = 0  # start of the current range without damage
        self._counted = 0  # groups in the ranges before it
        self._rotate: RotateEvent | None = None
        self.is_relay = False

    def add(self, level: str, message: str, *, offset: int | None = None, end: int | None = None) -> None:
        """Add a finding."""
        if len(self._findings) < MOST_FINDINGS:
            self._findings.append(Finding(level=level, message=message, offset=offset, end=end))
        else:
            self._more += 1

    def format(self, frame: EventFrame) -> None:
        """Take the format description."""
        self._begin(frame.header, frame.context.server_version)

    def _begin(self, header: EventHeader, server_version: str) -> None:
        self.is_relay = bool(header.flags & (HeaderFlag.RELAY_LOG | HeaderFlag.ARTIFICIAL))
        before, self._history.server_version = self._history.server_version, server_version
        if before is not None and ("MariaDB" in before) != ("MariaDB" in server_version):
            self.add(PROBLEM, f"the log is of a server {server_version}, and the log before it of {before}", offset=0)

    def event(self, event: BinlogEvent) -> None:
        """Take an event of a rare type."""
        if isinstance(event, RotateEvent):
            self._rotate = event
        elif isinstance(event, IncidentEvent):
            self.add(NOTE, f"the server logged an incident: {event.message}", offset=event.header.offset)
        elif self.is_relay:
            return
        elif isinstance(event, PreviousGtidsEvent):
            before: dict[GtidSource, list[Interval]] = {}
            for tsid, interval in event.gtid_set:
                before.setdefault((bytes.fromhex(str(tsid.uuid).replace("-", "")), str(tsid.tag)), []).append(interval)
            for message in self._history.compare(before):
                self.add(PROBLEM, message, offset=event.header.offset)
        elif isinstance(event, MariadbGtidListEvent):
            last = {(gtid.domain_id, gtid.server_id): gtid.sequence_number for gtid in event.gtids}
            for message in self._history.compare_last(last):
                self.add(PROBLEM, message, offset=event.header.offset)

    def read(self, event: BinlogEvent, *, is_first: bool) -> None:
        """Take an event from the Python reader."""
        gtid = event.gtid if is_first and isinstance(event, GtidLogEvent) else None
        self.gtids(is_first, [] if gtid is None else [gtid_run(gtid, event.header.offset)])
        if isinstance(event, FormatDescriptionEvent):
            self._begin(event.header, event.server_version)
        self.event(event)

    def damage(self, found: Damage) -> None:
        """Take a damaged range."""
        self._end_fine(found.begin)
        self._at = max(self._at, found.end)
        self._history.is_damaged = True
        self.add(DAMAGE, found.reason, offset=found.begin, end=found.end)

    def problem(self, name: str, offset: int, value: int) -> None:
        """Take a problem found by the kernel."""
        message = _WORDS[name].format(value=value, type=event_name(value & 0xFF))
        self.add(DAMAGE if name in _DAMAGES else PROBLEM, message, offset=offset)

    def gtids(self, ended: int, runs: Sequence[GtidRun]) -> None:
        """Count groups, and compare their GTIDs."""
        self._groups += ended
        if self.is_relay:
            return
        for source, numbers, offset in runs:
            for level, message in self._history.add(source, numbers):
                self.add(level, message, offset=offset)

    def groups(self, records: NDArray[np.int64], window: memoryview, begin: int) -> None:
        """Ignore records of groups: this survey does not count."""

    def end(self, end: LogEnd) -> None:
        """Take the end of the log."""
        self.log_end = end
        self._history.is_in_use = end.in_use
        self._bytes = end.offset
        if end.torn_size and end.in_use:
            self.add(
                NOTE,
                f"the log is in use, or its server crashed: it ends in {end.torn_size} bytes of an incomplete event",
                offset=end.offset,
                end=end.offset + end.torn_size,
            )
        elif end.damage is not None:
            self.damage(end.damage)
        if end.open_group is not None:
            level = NOTE if end.in_use else PROBLEM
            self.add(level, "the last event group is incomplete", offset=end.open_group)

    def forget_incomplete(self, log: LogFile, keyring: Keyring | None) -> None:
        """Take back the GTID of an incomplete last group: a server that crashed may use it again."""
        begin = None if self.log_end is None or self.is_relay else self.log_end.open_group
        if begin is None:
            return
        with BinlogReader([log], ReadOptions(open_payloads=False, start_offset=begin), keyring=keyring) as reader:
            event = next((one for one in reader if one.header.offset == begin), None)
        if isinstance(event, GtidLogEvent) and event.gtid is not None:
            run = gtid_run(event.gtid, begin)
            self._history.forget(run.source, run.numbers.start)

    def compare_next(self, two: Sequence[LogFile], heads: Sequence[LogHead | None]) -> None:
        """Compare the end of a log, and the file name in its ROTATE, with the next log."""
        log, following = two
        for found in check_ends(two, heads, ignore_missing_logs=True):
            self.add(PROBLEM, found.removeprefix(f"{log.name}: "))
        if self._rotate is None or self.is_relay:
            return
        stem, number, _ = log_number(log.name)
        other_stem, other, _ = log_number(following.name)
        expected = base_name(self._rotate.next_log)
        name = log_name(following.name)
        if stem == other_stem and other == number + 1 and name != expected:
            self.add(PROBLEM, f"the log is followed by {expected}, but the next file is {name}")

    def report(self, log: LogFile, unchecked: tuple[str, ...]) -> LogReport:
        """Return the report."""
        self._end_fine(self._bytes)
        return LogReport(
            file=log.name,
            size=self._bytes,
            groups=self._groups,
            fine=tuple(self._fine),
            findings=tuple(sorted(self._findings, key=lambda found: -1 if found.offset is None else found.offset)),
            more_findings=self._more,
            unchecked=unchecked,
        )

    def _end_fine(self, end: int) -> None:
        """End a range without damage."""
        if end > self._at:
            self._fine.append(FineRange(self._at, end, self._groups - self._counted))
            self._counted = self._groups


def _gaps(histories: GtidHistories) -> LogReport | None:
    """Return a report about gaps between logged GTIDs; None if there is no gap."""
    findings = [Finding(level=level, message=_GAPS[level].format(text)) for level, text in histories.gaps()]
    return LogReport(file=GTIDS, findings=tuple(findings[:MOST_FINDINGS])) if findings else None
