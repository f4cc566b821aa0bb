"""The served logs: which there are now, their identity as of a server, and where a client begins.

The list is read again when a directory, an index file or the last log has changed. Clients that wait for more events
are woken by one thread, which runs only while one waits: an idle client costs nothing.
"""

from __future__ import annotations

import os
import socket
import threading
import time
import uuid
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from itertools import islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np

from binlog_server.packets import ServerError
from binlogio.archive.copied_gtids import choose_groups
from binlogio.archive.event_batches import BEGINS, LogEvents
from binlogio.archive.logged_gtids import add_gtids, logged_gtids, mysql_gtids
from binlogio.constants import (
    BINLOG_MAGIC,
    OptionalMetadataType,
)
from binlogio.errors import BinlogError, ConditionError, MissingLogs, TruncatedEvent
from binlogio.events.table_map import TableMapEvent
from binlogio.gtid import GtidSet, MariadbGtid, MariadbGtidPosition, Uuid
from binlogio.options import DEFAULT_READ_OPTIONS, ReadOptions
from binlogio.reader import BinlogReader
from binlogio.selection.event_filter import HIGHEST, parse_gtid
from binlogio.selection.selection import Selection
from binlogio.series import check_series, known_heads
from binlogio.series.continuity import GtidContinuity, missing_gtids
from binlogio.series.log_head import head_frames
from binlogio.series.positions import LogPlace, places_of
from binlogio.series.start_log import start_log
from binlogio.storage.index_file import log_name
from binlogio.storage.log_index import LogIndex
from binlogio.storage.log_storage import LocalStorage
from binlogio.storage.sources import find_logs
from binlogio.writer.log.server_identity import ServerIdentity, stored_identity

if TYPE_CHECKING:
    from binlogio.gtid.sets import Interval
    from binlogio.selection.event_filter import Gtids
    from binlogio.series.gtid_history import GtidSource
    from binlogio.series.log_head import LogHead
    from binlogio.storage.keyring import Keyring
    from binlogio.storage.log_file import LogFile

_POLL_S: Final = 0.1
_TICK_NS: Final = 300_000_000
_REMOTE_S: Final = 5  # an object store is listed once in this time
_MOST_LOGS: Final = 8  # that are looked at for a table map, and events in each
_MOST_EVENTS: Final = 200
_HEAD_S: Final = 10  # the longest wait for a head
FIRST: Final = len(BINLOG_MAGIC)
_Before = TypeVar("_Before", GtidSet, dict[tuple[int, int], MariadbGtid])
_NAMESPACE: Final = uuid.UUID("6b1f3f39-4d0a-5e3a-9d5e-0f6f7b0a4a11")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """What is served and how it is read.

    Args:
        selection: the GTIDs, servers and times to serve; its `stop` and `stop_time` end the logs.
        until: the logs end before the first group with one of these GTIDs.
        ignore_missing_logs: serve although logs are missing between others.
    """

    selection: Selection = field(default_factory=Selection)
    until: Gtids | None = None
    ignore_missing_logs: bool = False
    read: ReadOptions = DEFAULT_READ_OPTIONS
    keyring: Keyring | None = None


class SourceLogs:
    """The logs of some sources, which may grow and be purged. Its methods may be called by several threads.

    Raises:
        MissingLogs: a log is missing between others, or the last one has no head.
        PositionError: the end is in none of the logs.
        ConditionError: the same, or the logs are of several servers.
        OSError, BinlogError: a source cannot be read.
    """

    def __init__(self, sources: Sequence[str], options: ServeOptions) -> None:
        self.options: Final = options
        self._sources = tuple(sources)
        self._is_remote = any("://" in one for one in sources)
        self._lock = threading.Lock()
        self._waiting: set[socket.socket] = set()
        self._watches = False
        self._seen: object = None
        self._gtids: tuple[object, dict[GtidSource, list[Interval]]] = (None, {})
        self._closed: dict[object, dict[GtidSource, list[Interval]]] = {}  # GTIDs of logs, as the heads
        self._heads: dict[object, LogHead | None] = {}  # by log, its inode and its size
        self._made: str | None = None  # the log whose head is being written
        self.missing: list[str] = []
        self._stop: tuple[str, int] | None = None
        self._now: list[tuple[LogFile, LogHead | None]] = []
        self._list()
        self._stop = self._find_stop()
        self._seen = None
        self._list()
        log, last = self._now[-1]
        if last is None:
            raise _unreadable(log, options)
        self.is_mariadb: Final = last.context.is_mariadb
        self.version: Final[str] = last.context.server_version
        self.has_checksum: Final = last.context.has_checksum
        identity = self._identity(log)
        self.server_id: Final = identity.server_id or last.server_id or 1
        made = uuid.uuid5(_NAMESPACE, f"{log_name(log.name).rpartition('.')[0]} {self.server_id}")
        self.server_uuid: Final = str(identity.server_uuid or made)

    def _identity(self, log: LogFile) -> ServerIdentity:
        folder, name = os.path.split(log.name)
        if log.filesystem is None and log.stream is None:
            with suppress(BinlogError, OSError):
                storage = LocalStorage(Path(folder or "."))
                index = LogIndex(log_name(name).rpartition(".")[0], storage)
                return stored_identity(storage, index, is_mariadb=False)
        return ServerIdentity()

    def _find_stop(self) -> tuple[str, int] | None:
        """Return the log and the offset at which the logs end for clients; None: they have no such end."""
        logs = [log for log, _ in self._now]
        stop = places_of(self.options.selection, logs)[1]
        if self.options.until is not None or self.options.selection.stop_time is not None:
            found = first_end(logs, self.options)
            stop = min((one for one in (stop, found) if one is not None), default=None)
        return None if stop is None else (logs[stop.number].name, stop.offset)

    # ------------------------------------------------------------------------------------------------------ the list

    def _state(self, *, with_last: bool = True) -> object:
        """Return what changes when a log appears or, `with_last`, grows."""
        last = [log.name for log, _ in self._now[-1:]] + ([] if self._made is None else [self._made])
        found: list[object] = [time.monotonic() // _REMOTE_S if self._is_remote else 0]
        for name in (*self._sources, *(str(Path(one).parent) for one in last), *(last if with_last else ())):
            try:
                state = Path(name).stat()
                is_recent = abs(time.time_ns() - state.st_mtime_ns) < _TICK_NS  # the next change may have the same time
                found.append((state.st_ino, state.st_mtime_ns, state.st_size, is_recent and time.monotonic()))
            except OSError:
                found.append(None)
        return found

    def _list(self) -> None:
        """Read the list of the logs again, if it may have changed."""
        seen = self._state(with_last=False)
        if seen == self._seen:
            return
        options = self.options
        logs = find_logs(self._sources, missing_ok=bool(self._now))
        names = [log.name for log in logs]
        if self._stop is not None:
            if self._stop[0] not in names:
                raise MissingLogs("the log in which the served logs end was purged", file=self._stop[0])
            logs = logs[: names.index(self._stop[0]) + 1]
        if not logs:
            raise MissingLogs("the logs are not there any more", file=", ".join(self._sources))
        keys = [_key(log) for log in logs]
        new = [at for at, key in enumerate(keys) if self._heads.get(key) is None or at == len(keys) - 1]
        read = known_heads([logs[at] for at in new], options.keyring)
        self._heads = {key: self._heads.get(key) for key in keys} | {
            keys[at]: head for at, head in zip(new, read, strict=True)
        }
        heads = [self._heads[key] for key in keys]
        self._made = logs[-1].name if _is_being_made(logs[-1], options.keyring) else None
        if self._made is not None and len(logs) > 1:
            logs, heads = logs[:-1], heads[:-1]
        if [log.name for log in logs] != [log.name for log, _ in self._now]:
            ignores = options.ignore_missing_logs
            self.missing = check_series(logs, options.keyring, heads=heads, ignore_missing_logs=ignores)
            self._check_server(logs, heads)
        has_more, self._now = bool(self._now), list(zip(logs, heads, strict=True))
        is_whole = self._made is None and heads[-1] is not None and heads[-1].first_gtid is not None
        self._seen = seen if is_whole else None  # the head of a log without a group changes
        if has_more and self._stop is None and options.selection.stop_time is not None:
            self._stop = self._find_stop()

    def _check_server(self, logs: list[LogFile], heads: list[LogHead | None]) -> None:
        """Check that the logs are of one server, as far as their heads show it.

        Raises:
            ConditionError, BinlogError: they are not, or one has no head that can be read.
        """
        series = [
            (served_name(one.name).rpartition(".")[0], None if head is None else head.context.is_mariadb)
            for one, head in zip(logs, heads, strict=True)
        ]
        for log, head, this in zip(logs, heads, series, strict=True):
            if head is None and (self._made is None or len(logs) > 1):
                raise _unreadable(log, self.options)
            if this != series[0]:
                found = f"{log_name(logs[0].name)}, {log_name(log.name)}"
                raise ConditionError("logs of several servers are no source", found=found)
        for (one, head), (log, after) in pairwise(zip(logs, heads, strict=True)):
            lost = _lost_sources(head, after)
            if lost and not self.options.ignore_missing_logs:
                raise ConditionError(
                    f"its head lacks GTIDs of the log before it, {one.name}: the logs are of several servers, or in"
                    " another order",
                    file=log.name,
                    found=lost,
                )

    def current(self) -> list[tuple[LogFile, LogHead | None]]:
        """Return the logs that exist now, and their heads.

        Raises:
            MissingLogs, ConditionError, BinlogError: they cannot be served any more.
        """
        with self._lock:
            self._list()
            return self._now

    def with_head(self) -> list[tuple[LogFile, LogHead | None]]:
        """Return the logs; wait a few seconds for the head of the only one, if it is being written.

        Raises:
            MissingLogs: the head is still not complete.
        """
        until = time.monotonic() + _HEAD_S
        while (now := self.current())[0][0].name == self._made:
            if time.monotonic() > until:
                raise MissingLogs("the head of the log is not complete yet", file=self._made)
            time.sleep(_POLL_S)
        return now

    def head_of(self, name: str) -> LogHead | None:
        """Return the head of a log; None: it cannot be read, or the log is not there."""
        return next((head for log, head in self._now if log.name == name), None)

    def stop_in(self, name: str) -> int | None:
        """Return the offset at which a log ends for clients; None: at its end."""
        return self._stop[1] if self._stop is not None and self._stop[0] == name else None

    def after(self, log: LogFile) -> LogFile | None:
        """Return the log after a log; None: there is none yet.

        Raises:
            MissingLogs: the log is not there any more.
        """
        logs = iter([log for log, _ in self.current()])
        if not any(one.name == log.name for one in logs):
            raise MissingLogs("the log was purged while it was served", file=log.name)
        return next(logs, None)

    def check_followed(self, log: LogFile, following: LogFile, known: Gtids | None) -> None:
        """Check that a log has all transactions before the next one that a client does not have: it may be cut.

        Raises:
            MissingLogs: some are missing.
        """
        head, after = self.head_of(log.name), self.head_of(following.name)
        before = None if after is None else after.gtids_before()
        if head is None or not before or self.options.ignore_missing_logs:
            return
        closed = _key(log)
        if closed not in self._closed:
            self._closed[closed] = logged_gtids(log, self.options.keyring, HIGHEST)
        continuity = GtidContinuity(known, self.options.selection.exclude_gtids)
        continuity.take(head.gtids_before())
        add_gtids(self._closed[closed], continuity)
        if lost := continuity.missing(before):
            raise missing_gtids(following.name, lost)

    # ------------------------------------------------------------------------------------------------------ changes

    def wait_on(self, wake: socket.socket) -> None:
        """Write a byte into a socket at the next change."""
        with self._lock:
            self._waiting.add(wake)
            if not self._watches:
                self._watches = True
                threading.Thread(target=self._watch, args=(self._state(),), daemon=True).start()

    def forget(self, wake: socket.socket) -> None:
        """Do not wake this socket any more."""
        with self._lock:
            self._waiting.discard(wake)

    def _watch(self, seen: object) -> None:
        while True:
            time.sleep(_POLL_S)
            state = self._state()
            with self._lock:
                if state != seen:
                    seen = state
                    for one in self._waiting:
                        with suppress(OSError):
                            one.send(b"!")
                    self._waiting.clear()
                elif not self._waiting:
                    self._watches = False
                    return

    # ----------------------------------------------------------------------------------------------------- the start

    def at(self, name: str, offset: int) -> tuple[LogFile, int]:
        """Return the start at a file and an offset.

        Raises:
            ServerError: 1236, as the server answers.
        """
        log = next((one for one, _ in self.current() if not name or served_name(one.name) == name), None)
        if log is None:
            raise fatal("Could not find first log file name in binary log index file")
        if offset < FIRST:
            self.refuse_position(log, offset)
        return log, offset

    def refuse_position(self, log: LogFile, offset: int, reason: str = "") -> None:
        """Refuse an offset at which no event starts.

        Raises:
            ServerError: always.
        """
        who = "master" if self.is_mariadb else "source"
        what = f"impossible position {offset}" + (f": {reason}" if reason else "")
        if not self.is_mariadb and not FIRST <= offset <= self.end_of(log):
            what = "position < 4" if offset < FIRST else "position > file size"
        raise fatal(f"Client requested {who} to start replication from {what}")

    def after_gtids(self, known: GtidSet) -> tuple[LogFile, int]:
        """Return the start for a client of MySQL that has these transactions.

        Raises:
            ServerError: 1236, as the server answers.
        """
        now = self.with_head()
        number = start_log([head for _, head in now], known)
        if number is None:
            raise fatal(
                "Cannot replicate because the source purged required binary logs. Replicate the missing transactions "
                "from elsewhere, or provision a new replica from backup. Consider increasing the source's binary log "
                f"expiration period. The GTID set sent by the replica is '{flat(known)}', and the missing "
                f"transactions are '{flat(self.purged().difference(known))}'"
            )
        own = GtidSet.from_intervals(one for one in known if one[0].uuid == Uuid.parse(self.server_uuid))
        if own and not own.issubset(self.executed()):
            raise fatal(
                "Replica has more GTIDs than the source has, using the source's SERVER_UUID. This may indicate that "
                f"the last binary log file was truncated or lost. They are '{flat(own.difference(self.executed()))}'"
            )
        return now[number][0], FIRST

    def after_position(self, known: MariadbGtidPosition) -> tuple[LogFile, int]:
        """Return the start for a client of MariaDB that has the transactions up to a position.

        Raises:
            ServerError: 1236, as the server answers.
        """
        now = self.with_head()
        state = self.state()
        for gtid in known:
            numbers = {
                server: last.sequence_number for (domain, server), last in state.items() if domain == gtid.domain_id
            }
            if numbers and numbers.get(gtid.server_id, 0) < gtid.sequence_number:
                more = ""
                if max(numbers.values()) > gtid.sequence_number:
                    more = (
                        ". Since the master's binlog contains GTIDs with higher sequence numbers, it probably means "
                        "that the slave has diverged due to executing extra erroneous transactions"
                    )
                what = f"GTID {gtid}, which is not in the master's binlog{more}"
                raise fatal(f"Error: connecting slave requested to start from {what}")
        number = start_log([head for _, head in now], known)
        if number is None:
            raise fatal(
                "Could not find GTID state requested by slave in any binlog files. Probably the slave state is too old "
                "and required binlog files have been purged."
            )
        return now[number][0], FIRST

    # ----------------------------------------------------------------------------------------------------- the state

    def purged(self) -> GtidSet:
        """Return the transactions before the first log (MySQL)."""
        return self._before(self.current()[0][0], GtidSet())

    def executed(self) -> GtidSet:
        """Return the transactions up to the end of the last log (MySQL)."""
        log, logged = self._logged()
        return mysql_gtids(logged).union(self._before(log, GtidSet()))

    def state(self) -> dict[tuple[int, int], MariadbGtid]:
        """Return the last GTID of each domain and server (MariaDB)."""
        log, logged = self._logged()
        found: dict[tuple[int, int], MariadbGtid] = dict(self._before(log, {}))
        for source, intervals in logged.items():
            if isinstance(source[0], int) and isinstance(source[1], int):
                found[source[0], source[1]] = MariadbGtid(source[0], source[1], intervals[-1].end - 1)
        return found

    def binlog_position(self) -> str:
        """Return the last GTID of each domain (MariaDB), as @@gtid_binlog_pos."""
        latest = {gtid.domain_id: gtid for gtid in sorted(self.state().values(), key=lambda one: one.sequence_number)}
        return ",".join(str(latest[domain_id]) for domain_id in sorted(latest))

    def row_metadata(self) -> str:
        """Return binlog_row_metadata, by a table map at the beginning of one of the last logs; else the default."""
        for log, _ in self.current()[: -_MOST_LOGS - 1 : -1]:
            with (
                suppress(BinlogError, OSError),
                BinlogReader([log], self.options.read, keyring=self.options.keyring) as reader,
            ):
                for event in islice(reader, _MOST_EVENTS):
                    if isinstance(event, TableMapEvent):
                        kinds = [one.kind for one in event.optional_metadata]
                        return "FULL" if OptionalMetadataType.COLUMN_NAME in kinds else "MINIMAL" if kinds else "NO_LOG"
        return "NO_LOG" if self.is_mariadb else "MINIMAL"

    @property
    def has_gtids(self) -> bool:
        """Whether the transactions have GTIDs, as far as the heads show it (MySQL)."""
        return any(head is not None and bool(head.first_gtid or head.gtids_before()) for _, head in self.current())

    def end_of(self, log: LogFile) -> int:
        """Return the offset in bytes at which a log ends for clients."""
        if (stop := self.stop_in(log.name)) is not None:
            return stop
        with suppress(OSError):
            return Path(log.name).stat().st_size
        return log.size or 0

    def _before(self, log: LogFile, default: _Before) -> _Before:
        head = self.head_of(log.name)
        before = None if head is None else head.gtids_before()
        return before if isinstance(before, type(default)) else default

    def _logged(self) -> tuple[LogFile, dict[GtidSource, list[Interval]]]:
        """Return the last log and its GTIDs."""
        last = self.current()[-1][0]
        state = self._state()
        if self._gtids[0] != state:
            if self._stop is None and self.options.selection.stop_time is not None:
                self._stop = self._find_stop()
            stop = self.stop_in(last.name)
            self._gtids = (state, logged_gtids(last, self.options.keyring, HIGHEST if stop is None else stop))
        return last, self._gtids[1]


def _key(log: LogFile) -> object:
    """Return what is the same as long as a closed log is not replaced."""
    if log.filesystem is None:
        with suppress(OSError):
            state = Path(log.name).stat()
            return log.name, state.st_ino, state.st_size, state.st_mtime_ns
    return log.name, log.size


def _is_being_made(log: LogFile, keyring: Keyring | None) -> bool:
    """Return whether a local log ends in its head, that is in the first two events: its server is creating it."""
    if log.filesystem is not None:
        return False
    try:
        with closing(log.open(keyring)) as opened:
            return sum(1 for _ in islice(head_frames(opened, keyring), 2)) < 2
    except TruncatedEvent:
        return True
    except (BinlogError, OSError):
        return False


def _unreadable(log: LogFile, options: ServeOptions) -> BinlogError:
    """Return the error about the head of a log."""
    try:
        LogEvents(log, options.read, options.keyring).close()
    except BinlogError as exc:
        return exc
    hint = "`binlogio verify` says why"
    return MissingLogs("the log has no head that can be read", file=log.name, hint=hint)


def _lost_sources(head: LogHead | None, after: LogHead | None) -> str:
    """Return what the head of the next log lacks although that of a log has it: GTIDs, or sources (MariaDB)."""
    before, later = (None if one is None else one.gtids_before() for one in (head, after))
    if head is None or before is None:
        return ""
    first = None if head.first_gtid is None else parse_gtid(head.first_gtid)
    if isinstance(before, GtidSet):
        had = before.union(GtidSet.parse(head.first_gtid)) if head.first_gtid else before
        return flat(had.difference(later if isinstance(later, GtidSet) else GtidSet()))
    sources = {*before} | ({(first.domain_id, first.server_id)} if isinstance(first, MariadbGtid) else set())
    lost = sources.difference(later if isinstance(later, dict) else ())
    return ", ".join(f"GTIDs of domain {domain}, server {server}" for domain, server in sorted(lost))


def first_end(logs: Sequence[LogFile], options: ServeOptions) -> LogPlace | None:
    """Return the place of the first group that has a GTID of `until`, or is not before the stop time.

    None: no group is of the stop time or later yet.

    Raises:
        ConditionError: no log has a GTID of `until`.
        BinlogError: a log is damaged.
    """
    until = options.until
    ends = Selection(stop_time=options.selection.stop_time, exclude_gtids=until)
    for number, log in enumerate(logs):
        with closing(LogEvents(log, keyring=options.keyring)) as events:
            for batch in events.batches():
                begins = np.flatnonzero(batch.edges & BEGINS)
                answers = [*choose_groups(batch, begins, ends, events.context), False]
                if (before := answers.index(False)) < len(begins):
                    return LogPlace(number, batch.offset + int(batch.starts[begins[before]]))
    if until:
        raise ConditionError("no event group of the logs has such a GTID", found=flat(until))
    return None


def fatal(message: str) -> ServerError:
    """Return error 1236, which stops a replica."""
    return ServerError(1236, "HY000", message)


def served_name(name: str) -> str:
    """Return the name by which clients know a log."""
    return os.path.basename(log_name(name))  # noqa: PTH119 - or a URI


def flat(gtids: object) -> str:
    """Return GTIDs as text in one line."""
    return str(gtids).replace("\n", "")
