"""From a finished cache to a group in the log: GTID, logical clock, commit time, sync and rotation.

Knows the order of things under one lock, so that several threads may commit. Groups are written one by one; last_committed is that of a
serial history, so that a replica does not run two of them at once.

    group := gtid | anonymous_gtid  event*

Source: sql/binlog.cc, MYSQL_BIN_LOG::ordered_commit, Gtid_event; oracle rules 8.6 to 8.8.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Any

from binlogio.constants import EventType
from binlogio.encoder import Encoder
from binlogio.errors import UnsupportedFeature, WriterStateError
from binlogio.events.base import EventHeader
from binlogio.events.format_description import server_version_numbers
from binlogio.events.gtid import AnonymousGtidEvent, GtidEvent, GtidFlag
from binlogio.gtid import NIL_UUID, NO_TAG, Gtid, GtidSet, Tsid, Uuid
from binlogio.writer.group import Group
from binlogio.writer.kernel import WriterKernel
from binlogio.writer.log_file import describe_format
from binlogio.writer.own_gtids import OwnGtids

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from binlogio._kernel.encode import EventBuffer
    from binlogio.options import ServerVariables
    from binlogio.writer.log_file import ActiveLog, Clock


class GroupCommit:
    """Writes groups to the active log. Several threads may commit."""

    def __init__(
        self,
        log: ActiveLog,
        variables: ServerVariables,
        clock: Clock,
        server_uuid: Uuid,
        kernel: WriterKernel | None,
    ) -> None:
        self._log = log
        self._variables = variables
        self._clock = clock
        self._tsid = Tsid(server_uuid, NO_TAG)
        self._encoder = Encoder(describe_format(variables).context)
        self._lock = Lock()
        self._gtids = OwnGtids(self._tsid)
        self._version_number = _version_number(variables.server_version)
        self._kernel = kernel
        self._buffer: EventBuffer | None = None
        self._sequence_number = 0
        self._committed = 0
        self._groups_since_sync = 0
        self._gtid_frame_size = 0  # of the last one: transaction_length counts its own bytes, so it takes a guess
        self._is_open = False

    @property
    def executed(self) -> GtidSet:
        """The GTIDs of all groups in the log and before it (gtid_executed)."""
        with self._lock:
            return self._gtids.used

    @property
    def max_committed(self) -> int:
        """The clock of the last group that was committed; a session's `Group.commit_parent`, taken at the end of a statement."""
        return self._committed

    def open(self, executed: GtidSet) -> None:
        """Begin a log; `executed` is what the logs before it have."""
        with self._lock:
            self._log.open(executed)
            self._gtids = OwnGtids(self._tsid, executed)
            self._sequence_number = 0
            self._is_open = True

    def close(self) -> None:
        """End the log. What no session has committed is not in it."""
        with self._lock:
            if self._is_open:
                self._is_open = False
                self._log.close()

    def rotate(self) -> None:
        """End the log and begin the next one (FLUSH BINARY LOGS)."""
        with self._lock:
            self._check()
            self._rotate()

    def commit(self, group: Group) -> Gtid | None:
        """Write a group; returns its GTID, None with gtid_mode=OFF. It lasts once this returns, where sync_binlog is 1.

        Raises:
            OSError: the storage cannot write it; the log is then as before.
            WriterStateError: the writer is closed, or the log broken.
        """
        with self._lock:
            self._check()
            gtid = self._gtids.peek() if self._variables.gtid_mode == "ON" else None
            if self._kernel is None:
                self._log.append_group((self._gtid_frame(group, gtid), *group.frames))
            else:
                self._log.append(self._stamped(group, gtid, self._kernel))
            self._written(gtid)
            if group.on_commit is not None:
                group.on_commit()
            return gtid

    def commit_all(self, groups: Sequence[Group]) -> tuple[Gtid | None, ...]:
        """As `commit`, of the groups of one session's two caches, in the order of the log."""
        return tuple(self.commit(group) for group in groups)

    def commit_events(self, fill: Callable[[EventBuffer], None], timestamp: int, expected_size: int) -> Gtid | None:
        """As `commit`, of a group whose events `fill` writes where they will stand; needs the kernel.

        `expected_size` in bytes is a guess. No other session can commit meanwhile. Where `fill` raises, nothing is written.
        """
        with self._lock:
            self._check()
            if self._kernel is None:
                raise UnsupportedFeature("batches are written by the compiled kernel, which is not there")
            gtid = self._gtids.peek() if self._variables.gtid_mode == "ON" else None
            buffer = self._empty_buffer()
            type_code, before, behind = self._gtid_parts(gtid, self._kernel, may_have_sbr=False)
            server_id = self._variables.server_id
            buffer.begin_group(type_code, timestamp, server_id, 0, before, behind, expected_size)
            fill(buffer)
            buffer.end_group()
            with memoryview(buffer) as data:
                self._log.append(data)
            self._written(gtid)
            return gtid

    def _empty_buffer(self) -> EventBuffer:
        from binlogio._kernel.encode import EventBuffer  # noqa: PLC0415 - there is none without the kernel

        if self._buffer is None:
            self._buffer = EventBuffer(0, checksum=self._encoder.context.has_checksum)
        self._buffer.clear(self._log.size)
        return self._buffer

    def _written(self, gtid: Gtid | None) -> None:
        """A group is in the log: count it, make it last, go on to the next log where this one is full."""
        self._sequence_number += 1
        self._committed += 1
        if gtid is not None:
            self._gtids.take()
        self._sync()
        if self._log.size >= self._variables.max_binlog_size:
            self._rotate()

    def _check(self) -> None:
        if not self._is_open:
            raise WriterStateError("the writer is not open")

    def _stamped(self, group: Group, gtid: Gtid | None, kernel: WriterKernel) -> bytes:
        """The group as it stands at the end of the log, by the kernel."""
        type_code, before, behind = self._gtid_parts(gtid, kernel, may_have_sbr=group.may_have_sbr)
        return kernel.transaction(
            tuple(group.frames),
            offset=self._log.size,
            checksum=self._encoder.context.has_checksum,
            type_code=type_code,
            timestamp=group.timestamp,
            server_id=self._variables.server_id,
            header_flags=0,
            before=before,
            behind=behind,
        )

    def _gtid_parts(
        self, gtid: Gtid | None, kernel: WriterKernel, *, may_have_sbr: bool
    ) -> tuple[EventType, bytes, bytes]:
        """Type and body of the group's first event, the body before and behind the length of the group."""
        type_code = EventType.GTID_LOG_EVENT if gtid is not None else EventType.ANONYMOUS_GTID_LOG_EVENT
        before, behind = kernel.gtid_parts(
            int(GtidFlag.MAY_HAVE_SBR) if may_have_sbr else 0,
            NIL_UUID.data if gtid is None else gtid.uuid.data,
            0 if gtid is None else gtid.gno,
            self._sequence_number,
            self._sequence_number + 1,
            self._clock(),
            -1,
            self._version_number,
            -1,
        )
        return type_code, before, behind

    def _gtid_frame(self, group: Group, gtid: Gtid | None) -> bytes:
        body_size = group.size
        common: dict[str, Any] = {
            "flags": GtidFlag.MAY_HAVE_SBR if group.may_have_sbr else 0,
            "last_committed": self._sequence_number,
            "sequence_number": self._sequence_number + 1,
            "immediate_commit_timestamp": self._clock(),
            "immediate_server_version": self._version_number,
            "header": EventHeader(timestamp=group.timestamp, server_id=self._variables.server_id),
        }
        length, frame = -1, b""
        while len(frame) + body_size != length:
            length = (len(frame) or self._gtid_frame_size) + body_size
            frame = self._encoder.encode(
                AnonymousGtidEvent(transaction_length=length, **common)
                if gtid is None
                else GtidEvent(uuid=gtid.uuid, gno=gtid.gno, transaction_length=length, **common)
            )
        self._gtid_frame_size = len(frame)
        return frame

    def _sync(self) -> None:
        self._groups_since_sync += 1
        if self._variables.sync_binlog and self._groups_since_sync >= self._variables.sync_binlog:
            self._log.sync()
            self._groups_since_sync = 0

    def _rotate(self) -> None:
        self._log.rotate(self._gtids.used)
        self._sequence_number = 0
        self._groups_since_sync = 0


def _version_number(server_version: str) -> int:
    """9.7.4 as 90704."""
    major, minor, patch = server_version_numbers(server_version)
    return major * 10_000 + minor * 100 + patch
