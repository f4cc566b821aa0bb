"""Crash recovery: scans existing logs at start-up and truncates an incomplete last group.

    recovery := scan; truncate after the last complete group; clear IN_USE
    complete := a group with its end: XID, COMMIT, ROLLBACK, XA PREPARE, a statement that is a group, INCIDENT, payload
    refused  := a group that begins inside an unfinished one; an end without a beginning; damage before complete events

A crash can leave a hole: sectors of zeros that were not written when later ones were. Only a hole explains events after
damage. Complete events after any other damage were written, and their sessions may have been acknowledged; a program
must not decide to remove them.

Long logs are read in bulk, up to the first event that must be parsed individually: with the compiled kernel, complete
groups of row changes are recognized by their GTID, first and last events.

    plain group := opening  (table_map | rows_event | rows_query | annotate_rows)*  (xid | COMMIT)
    opening     := (gtid | anonymous_gtid)  BEGIN  |  mariadb_gtid     -- a transaction, not XA, without extra flags

Source: sql/binlog/recovery.cc, Binlog_recovery::recover, ER_BINLOG_CRASH_RECOVERY_MALFORMED_LOG (MY-013909); oracle
rules section 7.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, Final

from binlogio.constants import (
    BINLOG_MAGIC,
    CHECKSUM_SIZE,
    EVENT_SIZE_BYTES,
    HEADER_SIZE,
    LOG_POS_BYTES,
    SERVER_ID_BYTES,
    TYPE_CODE_AT,
    EventType,
)
from binlogio.errors import BinlogError, BinlogFormatError, Hint, UnsupportedFeature, WriterStateError
from binlogio.events import codec_for
from binlogio.events.base import event_name, has_right_checksum
from binlogio.events.control import RotateEvent, StopEvent, XidEvent
from binlogio.events.format_description import FormatDescriptionEvent
from binlogio.events.gtid import AnonymousGtidEvent, GtidEvent, GtidTaggedEvent, PreviousGtidsEvent
from binlogio.events.mariadb import MariadbGtidEvent, MariadbGtidFlag, MariadbGtidListEvent
from binlogio.events.query import QueryEvent, sizes_before_sql
from binlogio.format.framing import EventFrame, EventFramer
from binlogio.format.groups import GroupPlace, GroupTracker, ends_transaction, starts_transaction
from binlogio.gtid import EMPTY_GTID_SET, NO_TAG, Gtid, GtidSet, Interval, MariadbGtid, Tsid, Uuid
from binlogio.gtid.identifiers import GNO_END, GNO_MIN
from binlogio.implementation import is_compiled
from binlogio.writer.log.encrypted_storage import EncryptedStorage
from binlogio.writer.log.gtids import DomainState
from binlogio.writer.log.log_file import FLAGS_OFFSET

if TYPE_CHECKING:
    from collections.abc import Callable

    from binlogio.events.base import EventHeader, ParseContext
    from binlogio.events.mariadb import StartEncryptionEvent
    from binlogio.options import ServerVariables
    from binlogio.storage.log_storage import LogStorage

READ_SIZE: Final = 1 << 20
HEAD_SIZE: Final = len(BINLOG_MAGIC)
PAUSE_SIZE: Final = 1 << 16
SECTOR_SIZE: Final = 512
_GTIDS: Final = (GtidEvent, GtidTaggedEvent, AnonymousGtidEvent, MariadbGtidEvent)
_ENDS_FILE: Final = (RotateEvent, StopEvent, FormatDescriptionEvent)
_KNOWN_TYPES: Final = frozenset(map(int, EventType))


@dataclass(frozen=True, slots=True)
class LogState:
    """State of a log. `size`, and `valid_size`, the end of the last complete group, are in bytes.

    `executed` includes `previous`, the GTIDs of earlier logs; `domains` are the last GTIDs of each domain and server of
    a MariaDB log. `server_id` is that of the server that wrote the log; `own_uuid` and `own_domain_id` are those of the
    last GTID with this server id.
    """

    name: str
    size: int
    valid_size: int
    in_use: bool
    executed: GtidSet
    domains: tuple[MariadbGtid, ...] = ()
    is_mariadb: bool = False
    previous: GtidSet = EMPTY_GTID_SET
    server_id: int | None = None
    own_uuid: Uuid | None = None
    own_domain_id: int | None = None


def check_vendor(state: LogState, variables: ServerVariables) -> None:
    """Check that an existing log is of the vendor of the server that continues it.

    Raises:
        WriterStateError: it is one of the other vendor.
    """
    if state.is_mariadb != variables.is_mariadb:
        raise WriterStateError(
            "the last log is one of the other vendor, whose GTIDs cannot be continued",
            file=state.name,
            expected=f"a log as {variables.server_version} writes them",
            found="a log of MariaDB" if state.is_mariadb else "a log of MySQL",
            hint=("write to another directory", Hint.SERVER_VERSION),
        )


def examine(storage: LogStorage, name: str) -> LogState:
    """Read a log of this writer or of a server, including one that ends in an incomplete group.

    Raises:
        OSError: it cannot be read.
        BinlogFormatError: it was closed, and is damaged; or it was in use, and is damaged before its last group.
        BinlogError: it is not a log.
    """
    scan = _LogScan(storage, name)
    try:
        scan.run()
    except BinlogError as exc:
        exc.locate(file=name)
        raise
    framer = scan.framer
    return LogState(
        name,
        storage.size(name),
        scan.valid_size,
        framer.in_use,
        scan.executed,
        scan.domains.gtids,
        is_mariadb=framer.context.is_mariadb,
        previous=scan.previous,
        server_id=scan.found.server_id,
        own_uuid=scan.found.own_uuid,
        own_domain_id=scan.found.own_domain_id,
    )


def recover(storage: LogStorage, name: str, variables: ServerVariables | None = None) -> LogState:
    """Recover a log as a server does at start-up: truncate the unfinished group, and clear IN_USE.

    A log that was closed is unchanged. `variables` are those of the server, whose vendor must be that of the log.
    Raises the errors of `examine` and `check_vendor`.
    """
    state = examine(storage, name)
    if variables is not None:
        check_vendor(state, variables)
    if state.in_use:
        try:
            if state.valid_size < state.size:
                storage.truncate(name, state.valid_size)
                storage.sync(name)
            storage.overwrite(name, FLAGS_OFFSET, bytes(2))
            storage.sync(name)
        finally:
            storage.close(name)
    return state


class _LogScan:
    """One pass over a log."""

    def __init__(self, storage: LogStorage, name: str) -> None:
        self._storage = storage
        self._name = name
        self._read_up_to = 0
        self._tracker = GroupTracker()
        self._group_start = 0
        self._is_interrupted = False  # a GTID event came before the end of a group
        self._is_malformed = False
        self._is_finished = False
        self._current: Gtid | MariadbGtid | None = None
        self._server_id = 0  # of the current GTID event
        self.domains = DomainState()
        self.previous = EMPTY_GTID_SET
        self.found = GtidRuns()
        self._may_skip = is_compiled()
        self._skip_from = 0  # after events that are not a plain group, the next attempt is delayed
        self.framer = EventFramer(decryptor_for=_decrypted if isinstance(storage, EncryptedStorage) else None)
        self.valid_size = 0

    @property
    def executed(self) -> GtidSet:
        return self.previous | self.found.as_set()

    def run(self) -> None:
        try:
            for frame in self._frames():
                self._take(frame)
                is_outside = self._tracker.place is GroupPlace.OUTSIDE and frame.header.offset > HEAD_SIZE
                if self._may_skip and is_outside and frame.end >= self._skip_from:
                    self._skip(frame.context)
        except BinlogFormatError as exc:
            if not self.framer.in_use or self._is_malformed:
                raise
            self._refuse_what_no_crash_leaves(exc)

    def _frames(self) -> Iterator[EventFrame]:
        while True:
            frame = self.framer.next_frame()
            if isinstance(frame, EventFrame):
                yield frame
                continue
            data = self._storage.read(self._name, self._read_up_to, READ_SIZE)
            self._read_up_to += len(data)
            if data:
                self.framer.feed(data)
            elif self._finish():
                return

    def _skip(self, context: ParseContext) -> None:
        """Skip plain groups in bulk; if there are few of them, continue event by event for a while."""
        framer = self.framer
        read = partial(self._storage.read, self._name)
        end = skip_plain_groups(
            read, framer.offset, self.found, has_checksum=context.has_checksum, domains=self.domains
        )
        self._skip_from = end if end - framer.offset > READ_SIZE else end + PAUSE_SIZE
        if end > framer.offset:
            self.framer = framer.at(end)
            self._read_up_to = self.valid_size = end

    def _finish(self) -> bool:
        """Return whether there are no more bytes: True at the second call, after the framer has checked the end."""
        was_finished, self._is_finished = self._is_finished, True
        self.framer.finish()
        return was_finished

    def _take(self, frame: EventFrame) -> None:
        tracker, type_code = self._tracker, frame.header.type_code
        if tracker.place is GroupPlace.TRANSACTION and type_code in QUIET_TYPES:
            return
        event = codec_for(type_code).parse(frame.header, frame.body, frame.context)
        if isinstance(event, FormatDescriptionEvent):
            self._take_description(event, frame.header)
        self._check_sequence(event, frame)
        before = tracker.place
        place = tracker.feed(event)
        if isinstance(event, PreviousGtidsEvent):
            self.previous = event.gtid_set
        elif isinstance(event, MariadbGtidListEvent):
            self.domains = DomainState(event.gtids)
        elif isinstance(event, _GTIDS):
            self._current, self._server_id = event.gtid, frame.header.server_id
        if before is GroupPlace.OUTSIDE:
            self._group_start = frame.header.offset
        if place is GroupPlace.OUTSIDE:
            self.valid_size = frame.end
            if isinstance(self._current, MariadbGtid):
                self.domains.add(self._current)
                self.found.add_domain(self._current)
            elif self._current is not None:
                self.found.add(self._current, self._server_id)
            self._current = None

    def _take_description(self, event: FormatDescriptionEvent, header: EventHeader) -> None:
        self.found.server_id = header.server_id
        if event.header_size != HEADER_SIZE:
            raise UnsupportedFeature(
                "events cannot be added to a log whose event headers have another size",
                offset=header.offset,
                event_type=event_name(header.type_code),
                field="header_size",
                expected=f"{HEADER_SIZE}",
                found=f"{event.header_size}",
                hint="begin a new log",
            )

    def _check_sequence(self, event: Any, frame: EventFrame) -> None:
        """Refuse a sequence of events that no crash can leave: groups are written whole, one after the other.

        Raises:
            BinlogFormatError: the log was in use and has such a sequence.
        """
        place = self._tracker.place
        if not self.framer.in_use:
            return
        if self._is_interrupted or (isinstance(event, _ENDS_FILE) and place is not GroupPlace.OUTSIDE):
            raise self._malformed(frame, f"{_name_of(event)} inside an unfinished group")
        if isinstance(event, _GTIDS):
            self._is_interrupted = place is not GroupPlace.OUTSIDE
        elif isinstance(event, QueryEvent) and starts_transaction(event.sql) and place is GroupPlace.TRANSACTION:
            raise self._malformed(frame, f"{_name_of(event)} inside an unfinished group")
        elif _ends(event) and place is not GroupPlace.TRANSACTION:
            raise self._malformed(frame, f"{_name_of(event)} outside a group")

    def _malformed(self, frame: EventFrame, what: str) -> BinlogFormatError:
        self._is_malformed = True
        return BinlogFormatError(
            f"invalid sequence of events between {self._group_start} and {frame.end}: {what}",
            offset=frame.header.offset,
            event_type=event_name(frame.header.type_code),
            hint="nothing was changed; `binlogio dump` shows what is in it",
        )

    def _refuse_what_no_crash_leaves(self, damage: BinlogFormatError) -> None:
        """Accept damage as the incomplete write of a crash, unless complete events follow without a hole between."""
        start = self.framer.offset
        following = _next_event(self._storage, self._name, start + 1, self.framer.context)
        if following is None or _has_hole(self._storage, self._name, start, following):
            return
        damage.hint = f"whole events follow at {following}; nothing was changed"
        raise damage


def _decrypted(_event: StartEncryptionEvent) -> Callable[[int, bytes], bytes]:
    """Return the decryptor for events that the storage has already decrypted: it returns them unchanged."""
    return lambda _offset, data: data


def _ends(event: Any) -> bool:
    return isinstance(event, XidEvent) or (isinstance(event, QueryEvent) and ends_transaction(event.sql))


def _name_of(event: Any) -> str:
    if isinstance(event, QueryEvent):
        return event.sql[:40].decode("utf-8", "replace")
    return type(event).__name__


def _next_event(storage: LogStorage, name: str, start: int, context: ParseContext) -> int | None:
    """Return the offset of the first event from `start` on whose log_pos is right; None if there is none."""
    import numpy as np  # noqa: PLC0415 - needed only for damaged logs

    size = storage.size(name)
    least = HEADER_SIZE + CHECKSUM_SIZE * context.has_checksum
    for offset in range(start, size - least + 1, READ_SIZE):
        data = np.frombuffer(storage.read(name, offset, READ_SIZE + HEADER_SIZE - 1), np.uint8)
        count = len(data) - HEADER_SIZE + 1
        words = np.lib.stride_tricks.sliding_window_view(data, 4).view("<u4")[:, 0].astype(np.uint64)
        event_sizes, log_poses = (words[part.start :][:count] for part in (EVENT_SIZE_BYTES, LOG_POS_BYTES))
        ends = np.arange(offset, offset + count, dtype=np.uint64) + event_sizes
        candidates = (ends & 0xFFFFFFFF == log_poses) & (ends <= size) & (event_sizes >= least)
        for at in map(int, np.flatnonzero(candidates)):
            if _is_whole(storage.read(name, offset + at, int(event_sizes[at])), context):
                return offset + at
    return None


def _is_whole(raw: bytes, context: ParseContext) -> bool:
    if raw[TYPE_CODE_AT] not in _KNOWN_TYPES:
        return False
    return not context.has_checksum or has_right_checksum(raw)


def _has_hole(storage: LogStorage, name: str, start: int, end: int) -> bool:
    """Return True if a sector, or the part of the first sector after `start`, is all zeros."""
    while start < end:
        sector_end = start // SECTOR_SIZE * SECTOR_SIZE + SECTOR_SIZE
        if sector_end <= end and not any(storage.read(name, start, sector_end - start)):
            return True
        start = sector_end
    return False


# ------------------------------------------------------------------------------------------------- plain groups in bulk

WINDOW_SIZE: Final = 4 << 20
MAX_WINDOW_SIZE: Final = 64 << 20
QUIET_TYPES: Final = frozenset(  # inside a transaction, these do not end their group
    {
        EventType.TABLE_MAP_EVENT,
        EventType.WRITE_ROWS_EVENT_V1,
        EventType.UPDATE_ROWS_EVENT_V1,
        EventType.DELETE_ROWS_EVENT_V1,
        EventType.WRITE_ROWS_EVENT,
        EventType.UPDATE_ROWS_EVENT,
        EventType.DELETE_ROWS_EVENT,
        EventType.PARTIAL_UPDATE_ROWS_EVENT,
        EventType.ROWS_QUERY_LOG_EVENT,
        EventType.ANNOTATE_ROWS_EVENT,
        EventType.WRITE_ROWS_COMPRESSED_EVENT_V1,
        EventType.UPDATE_ROWS_COMPRESSED_EVENT_V1,
        EventType.DELETE_ROWS_COMPRESSED_EVENT_V1,
    }
)
_GTID: Final = int(EventType.GTID_LOG_EVENT)
_ANONYMOUS: Final = int(EventType.ANONYMOUS_GTID_LOG_EVENT)
_MARIADB: Final = int(EventType.MARIADB_GTID_EVENT)
_QUERY: Final = int(EventType.QUERY_EVENT)
_XID: Final = int(EventType.XID_EVENT)
_STARTS: Final = (_GTID, _ANONYMOUS, _MARIADB)
_IS_LOUD: Final = bytes(code not in QUIET_TYPES for code in range(256))
_UUID: Final = slice(HEADER_SIZE + 1, HEADER_SIZE + 17)
_GNO: Final = slice(HEADER_SIZE + 17, HEADER_SIZE + 25)
_NUMBER: Final = slice(HEADER_SIZE, HEADER_SIZE + 8)
_DOMAIN: Final = slice(HEADER_SIZE + 8, HEADER_SIZE + 12)
_FLAGS: Final = HEADER_SIZE + 12
_GROUP_COMMIT_ID: Final = int(MariadbGtidFlag.GROUP_COMMIT_ID)
_PLAIN_FLAGS: Final = int(
    MariadbGtidFlag.TRANSACTIONAL | MariadbGtidFlag.ALLOW_PARALLEL | MariadbGtidFlag.WAITED | MariadbGtidFlag.DDL
)


@dataclass(slots=True)
class GtidRuns:
    """GTIDs in the order in which they are added; consecutive numbers form one interval.

    `own_uuid` and `own_domain_id` are those of the last GTID of the server `server_id`.
    """

    server_id: int | None = None
    own_uuid: Uuid | None = None
    own_domain_id: int | None = None
    _runs: list[tuple[Tsid, Interval]] = field(default_factory=list)
    _tsid: Tsid | None = None
    _first: int = 0
    _end: int = 0

    def add(self, gtid: Gtid, server_id: int) -> None:
        """Add a GTID of an event with this server_id."""
        self.add_number(gtid.tsid, gtid.gno, server_id)

    def add_domain(self, gtid: MariadbGtid) -> None:
        """Take note of the domain of a MariaDB GTID, which is no part of the intervals."""
        if gtid.server_id == self.server_id:
            self.own_domain_id = gtid.domain_id

    def add_number(self, tsid: Tsid, gno: int, server_id: int) -> None:
        """Add a GTID by its parts."""
        if server_id == self.server_id:
            self.own_uuid = tsid.uuid
        if gno != self._end or tsid != self._tsid:
            self._close()
            self._tsid, self._first = tsid, gno
        self._end = gno + 1

    def as_set(self) -> GtidSet:
        """Return all GTIDs as a set."""
        self._close()
        return GtidSet.from_intervals(self._runs)

    def _close(self) -> None:
        if self._tsid is not None:
            self._runs.append((self._tsid, Interval(self._first, self._end)))
            self._tsid = None


def skip_plain_groups(
    read: Callable[[int, int], bytes],
    start: int,
    gtids: GtidRuns,
    *,
    has_checksum: bool,
    domains: DomainState | None = None,
) -> int:
    """Skip complete plain groups from `start`, and add their GTIDs; returns the offset of the first other event.

    `read` reads bytes of the file (offset, size). Without `domains`, MariaDB's groups are not plain.

    Raises:
        OSError: `read` failed.
    """
    from binlogio._kernel.event_scanner import scan_headers  # noqa: PLC0415 - missing if it was not compiled

    size, footer = WINDOW_SIZE, CHECKSUM_SIZE * has_checksum
    tsids: dict[bytes, Tsid] = {}
    while True:
        data = read(start, size)
        try:
            index = scan_headers(data, start, checksum=has_checksum)
        except BinlogFormatError:
            return start  # the groups before the damage are read again, event by event
        offsets = [offset - start for offset in memoryview(index.offset).cast("q")]
        types = bytes(memoryview(index.type_code))
        groups = [number for number, type_code in enumerate(types) if type_code in _STARTS]
        loud = list(accumulate(types.translate(_IS_LOUD)))
        ends = [*offsets[1:], index.end - start]
        done = 0
        for first, after in pairwise((*groups, len(offsets))):
            last, in_domain = after - 1, types[first] == _MARIADB
            others = loud[last] - loud[first]  # events after the GTID that can end a group
            if in_domain:
                opens = others == 1 and domains is not None and _is_plain(data[done : ends[first] - footer])
            else:
                begin = first + 1
                opens = others == 2 and _is_query(b"BEGIN", data, types[begin], offsets[begin], ends[begin] - footer)
            closes = types[last] == _XID or _is_query(b"COMMIT", data, types[last], offsets[last], ends[last] - footer)
            if offsets[first] != done or not (opens and closes):
                break
            if types[first] == _GTID:
                event = data[done : ends[first] - footer]
                uuid, gno = event[_UUID], int.from_bytes(event[_GNO], "little", signed=True)
                if len(event) < _GNO.stop or not GNO_MIN <= gno < GNO_END:
                    break
                if uuid not in tsids:
                    tsids[uuid] = Tsid(Uuid(uuid), NO_TAG)
                gtids.add_number(tsids[uuid], gno, int.from_bytes(event[SERVER_ID_BYTES], "little"))
            elif in_domain and domains is not None:
                gtid = _gtid(data[done : ends[first]])
                domains.add(gtid)
                gtids.add_domain(gtid)
            done = ends[last]
        start += done
        if len(data) < size or (done == 0 and (len(groups) != 1 or size >= MAX_WINDOW_SIZE)):
            return start
        size = WINDOW_SIZE if done else size * 4  # for a group that is larger than the window


def _is_plain(event: bytes) -> bool:
    """Return whether a MariaDB GTID event (without checksum) begins a plain transaction: right size, no extra flags."""
    flags = event[_FLAGS] if len(event) > _FLAGS else ~0
    if flags & ~(_PLAIN_FLAGS | _GROUP_COMMIT_ID):
        return False
    rest = event[_FLAGS + 1 :]
    return len(rest) == 8 if flags & _GROUP_COMMIT_ID else rest == bytes(6)


def _gtid(event: bytes) -> MariadbGtid:
    domain_id, server_id, number = (
        int.from_bytes(event[part], "little") for part in (_DOMAIN, SERVER_ID_BYTES, _NUMBER)
    )
    return MariadbGtid(domain_id, server_id, number)


def _is_query(sql: bytes, data: bytes, type_code: int, start: int, end: int) -> bool:
    return type_code == _QUERY and _sql(data, start, end) == sql


def _sql(data: bytes, start: int, end: int) -> bytes:
    """Return the text of a Query event whose checksum begins at `end`."""
    body = start + HEADER_SIZE
    return data[body + sum(sizes_before_sql(data, body)) : end]
