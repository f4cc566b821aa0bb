"""The transactions before a place in a log, and that place in the logs of another server.

A consumer that stores them can continue after a failover: where the logs of the new server have exactly these
transactions before a place, and the last one is the same transaction. Its GTID does not prove that, since a server uses
its numbers again after RESET. So its time is compared, which servers keep when they replicate: that of the commit on
the original server (MySQL 8), else that of its first statement.

    executed := {"set": text, "last": gtid, "time": int}

`set` is a GTID set (MySQL), or the last GTID of each domain and server, with that of the domain last (MariaDB).
"""

from __future__ import annotations

from itertools import compress
from struct import Struct
from typing import TYPE_CHECKING, Any, Final

from binlogio.columnar.splits.group_scan import last_group_end
from binlogio.columnar.splits.split_bounds import is_one_piece
from binlogio.constants import BINLOG_MAGIC, CHECKSUM_SIZE, GROUP_STARTS, HEADER_SIZE, EventType
from binlogio.events import codec_for
from binlogio.events.base import parse_header
from binlogio.frozen import dataclass
from binlogio.gtid import Gtid, GtidSet, Interval, MariadbGtid, MariadbGtidPosition, Tag, Tsid, Uuid
from binlogio.series.log_head import read_head
from binlogio.storage.event_stream import header_windows
from binlogio.storage.windows import NO_END, Window

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from binlogio.series.log_head import LogHead
    from binlogio.storage.keyring import Keyring
    from binlogio.storage.log_file import LogFile

_Source = tuple[bytes, str] | tuple[int, int]
_Gtids = GtidSet | dict[tuple[int, int], MariadbGtid]
_MYSQL: Final = Struct("<16sQ")  # after the flags
_MARIADB: Final = Struct("<QI")
_IS_GROUP_START: Final = bytes(code in GROUP_STARTS for code in range(256))


@dataclass(frozen=True, slots=True)
class Executed:
    """The transactions before a place in a log; `last` is the last one, and `time` its time on its original server."""

    gtids: _Gtids
    last: str
    time: int

    @property
    def text(self) -> str:
        """The transactions as a GTID set, or a GTID position of MariaDB."""
        if isinstance(self.gtids, GtidSet):
            return str(self.gtids).replace("\n", "")
        return str(MariadbGtidPosition.of(self.gtids.values()))

    def to_json(self) -> dict[str, Any]:
        """Return the stored form."""
        every = self.text if isinstance(self.gtids, GtidSet) else ",".join(map(str, self.gtids.values()))
        return {"set": every, "last": self.last, "time": self.time}

    @classmethod
    def from_json(cls, value: Any) -> Executed:
        """Parse what `to_json` returned.

        Raises:
            ValueError, KeyError, TypeError, BinlogError: it is something else.
        """
        text, last = value["set"], value["last"]
        if ":" in last:
            return cls(GtidSet.parse(text), str(Gtid.parse(last)), int(value["time"]))
        gtids = [MariadbGtid.parse(one) for one in text.split(",")]
        by_source = {(one.domain_id, one.server_id): one for one in gtids}
        return cls(by_source, str(MariadbGtid.parse(last)), int(value["time"]))


def executed_before(
    log: LogFile, offset: int, keyring: Keyring | None = None, known: tuple[int, Executed] | None = None
) -> Executed | None:
    """Return the transactions of a server before `offset` of one of its logs, at which a group begins or ends.

    None: the log does not say it: it has no GTIDs before `offset`, or transactions without GTID, or it is one piece.

    Args:
        log: the log.
        offset: the offset.
        keyring: the keys of encrypted logs.
        known: an earlier offset of this log and the transactions before it.

    Raises:
        OSError, BinlogError: the log cannot be read.
    """
    head = None if is_one_piece(log, keyring) else read_head(log, keyring)
    start, gtids = (0, None if head is None else head.gtids_before()) if known is None else (known[0], known[1].gtids)
    if head is None or gtids is None:
        return None
    runs, last = _Runs(gtids), None
    for begin, source, number, raw in _groups(log, head, start, offset, keyring):
        if source is None:
            return None
        runs.add(source, number)
        last = begin, raw
    if last is None:
        return None if known is None else known[1]
    found = _transaction(*last, head)
    return None if found is None else Executed(runs.gtids(), *found)


def place_after(
    executed: Executed, logs: Sequence[LogFile], keyring: Keyring | None = None
) -> tuple[LogFile, int] | str:
    """Return the log and the offset in the logs of a server before which it has exactly these transactions.

    If there is no such place, or it cannot be proven, the reason is returned.

    Raises:
        OSError, BinlogError: a log cannot be read.
    """
    source, gno = _wanted(executed.last)
    for number in range(len(logs) - 1, -1, -1):
        log = logs[number]
        head = None if is_one_piece(log, keyring) else read_head(log, keyring)
        before = None if head is None else head.gtids_before()
        if head is None or before is None or isinstance(before, GtidSet) != isinstance(executed.gtids, GtidSet):
            continue
        if _has(before, source, gno):
            continue  # it is in an earlier log
        runs, at = _Runs(before), None
        for begin, one, its_number, raw in _groups(log, head, 0, NO_END, keyring):
            if at is not None:
                return log, begin
            if one is None:
                return f"{log.name} has transactions without GTID"
            runs.add(one, its_number)
            if (one, its_number) == (source, gno):
                if _transaction(begin, raw, head) != (executed.last, executed.time):
                    return f"{log.name} has another transaction with the GTID {executed.last}"
                if (found := runs.gtids()) != executed.gtids:
                    return f"{log.name} has other transactions before {executed.last}: {Executed(found, '', 0).text}"
                at = begin
        if at is not None and number + 1 < len(logs):
            return logs[number + 1], 0
        if at is not None and (end := last_group_end(log, at, keyring)) > at:
            return log, end
        break
    return f"no log has {executed.last}, the last transaction that was read"


def _wanted(gtid: str) -> tuple[_Source, int]:
    if ":" in gtid:
        found = Gtid.parse(gtid)
        return (found.uuid.data, str(found.tag)), found.gno
    mariadb = MariadbGtid.parse(gtid)
    return (mariadb.domain_id, mariadb.server_id), mariadb.sequence_number


def _has(before: _Gtids, source: _Source, number: int) -> bool:
    """Return whether a transaction was logged before a log whose head lists these GTIDs."""
    one, other = source
    if isinstance(before, GtidSet):
        return isinstance(one, bytes) and Gtid(Uuid(one), Tag(str(other)), number) in before
    last = None if isinstance(one, bytes) else before.get((one, int(other)))
    return last is not None and last.sequence_number >= number


def _transaction(offset: int, raw: bytes, head: LogHead) -> tuple[str, int] | None:
    """Return the GTID of a GTID event and the time of its transaction; None: it has no GTID."""
    event = _parsed(offset, raw, head)
    original = getattr(event, "original_commit_timestamp", None) or getattr(event, "immediate_commit_timestamp", None)
    return None if event.gtid is None else (str(event.gtid), original or event.header.timestamp)


def _parsed(offset: int, raw: bytes, head: LogHead) -> Any:
    header = parse_header(raw, offset, head.context)
    body = raw[HEADER_SIZE : len(raw) - (CHECKSUM_SIZE if head.context.has_checksum else 0)]
    return codec_for(header.type_code).parse(header, body, head.context)


class _Runs:
    """GTIDs in the order of a log, and those before it."""

    def __init__(self, before: _Gtids) -> None:
        self._before = before if isinstance(before, GtidSet) else dict(before)
        self._runs: list[tuple[_Source, int, int]] = []

    def add(self, source: _Source, number: int) -> None:
        """Add the next GTID."""
        if self._runs and (last := self._runs[-1])[0] == source and last[2] == number:
            self._runs[-1] = source, last[1], number + 1
        else:
            self._runs.append((source, number, number + 1))

    def gtids(self) -> _Gtids:
        """Return all GTIDs so far."""
        if isinstance(self._before, GtidSet):
            return self._before.union(
                GtidSet.from_intervals(
                    (Tsid(Uuid(one), Tag(str(other))), Interval(start, end))
                    for (one, other), start, end in self._runs
                    if isinstance(one, bytes)
                )
            )
        found = dict(self._before)
        for (one, other), _, end in self._runs:
            if isinstance(one, int):
                found.pop((one, int(other)), None)  # the last GTID of a domain comes last
                found[one, int(other)] = MariadbGtid(one, int(other), end - 1)
        return found


def _groups(
    log: LogFile, head: LogHead, start: int, end: int, keyring: Keyring | None
) -> Iterator[tuple[int, _Source | None, int, bytes]]:
    """Yield the groups that begin in a range of a log: offset, source and number of the GTID, and the GTID event."""
    opened = log.open(keyring)
    window = Window(opened.read, readinto=opened.readinto)
    try:
        window.go_to(max(start, len(BINLOG_MAGIC)), opened)
        for found in header_windows(window, end):
            for number in compress(range(len(found)), found.codes.translate(_IS_GROUP_START)):
                offset, code = found.offsets[number], found.codes[number]
                if offset >= end:
                    return
                raw = bytes(found.view[offset - found.offset :][: found.sizes[number]])
                yield (offset, *_gtid(code, offset, raw, head), raw)
    finally:
        window.close()
        opened.close()


def _gtid(code: int, offset: int, raw: bytes, head: LogHead) -> tuple[_Source | None, int]:
    """Return source and number of a GTID event; no source: it has no GTID."""
    if code == EventType.GTID_LOG_EVENT and len(raw) > HEADER_SIZE + 1 + _MYSQL.size:
        uuid, number = _MYSQL.unpack_from(raw, HEADER_SIZE + 1)
        return (uuid, ""), number
    if code == EventType.MARIADB_GTID_EVENT and len(raw) > HEADER_SIZE + _MARIADB.size:
        number, domain = _MARIADB.unpack_from(raw, HEADER_SIZE)
        return (domain, int.from_bytes(raw[5:9], "little")), number
    gtid = _parsed(offset, raw, head).gtid
    return (None, 0) if gtid is None else _wanted(str(gtid))
