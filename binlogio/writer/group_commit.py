"""From a finished cache to a group in the log: GTID, logical clock, commit time, sync and rotation.

Knows the order of things under one lock, so that several threads may commit. Groups are written one by one; last_committed is that of a
serial history, so that a replica does not run two of them at once.

    group := gtid | anonymous_gtid  event*

Source: sql/binlog.cc, MYSQL_BIN_LOG::ordered_commit, Gtid_event; oracle rules 8.6 to 8.8.
"""

from __future__ import annotations

from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any

from binlogio.encoder import Encoder
from binlogio.errors import WriterStateError
from binlogio.events.base import EventHeader
from binlogio.events.format_description import server_version_numbers
from binlogio.events.gtid import AnonymousGtidEvent, GtidEvent, GtidFlag
from binlogio.gtid import NO_TAG, Gtid, GtidSet, Tsid, Uuid
from binlogio.writer.log_file import describe_format

if TYPE_CHECKING:
    from binlogio.options import ServerVariables
    from binlogio.writer.log_file import ActiveLog, Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A finished group without its GTID. `timestamp` in seconds since 1970, UTC; `may_have_sbr` where a statement is in it as text."""

    frames: tuple[bytes, ...]
    timestamp: int
    may_have_sbr: bool = False


class GroupCommit:
    """Writes groups to the active log. Several threads may commit."""

    def __init__(self, log: ActiveLog, variables: ServerVariables, clock: Clock, server_uuid: Uuid) -> None:
        self._log = log
        self._variables = variables
        self._clock = clock
        self._tsid = Tsid(server_uuid, NO_TAG)
        self._encoder = Encoder(describe_format(variables).context)
        self._lock = Lock()
        self._executed = GtidSet()
        self._sequence_number = 0
        self._groups_since_sync = 0
        self._gtid_frame_size = 0  # of the last one: transaction_length counts its own bytes, so it takes a guess
        self._is_open = False

    @property
    def executed(self) -> GtidSet:
        """The GTIDs of all groups in the log and before it (gtid_executed)."""
        return self._executed

    def open(self, executed: GtidSet) -> None:
        """Begin a log; `executed` is what the logs before it have."""
        with self._lock:
            self._log.open(executed)
            self._executed = executed
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
            gtid = self._next_gtid() if self._variables.gtid_mode == "ON" else None
            self._log.append_group((self._gtid_frame(group, gtid), *group.frames))
            self._sequence_number += 1
            if gtid is not None:
                self._executed |= GtidSet.from_gtids([gtid])
            self._sync()
            if self._log.size >= self._variables.max_binlog_size:
                self._rotate()
            return gtid

    def _check(self) -> None:
        if not self._is_open:
            raise WriterStateError("the writer is not open")

    def _next_gtid(self) -> Gtid:
        """The lowest number that the server has not used yet."""
        intervals = self._executed.intervals(self._tsid)
        gno = intervals[0].end if intervals and intervals[0].start == 1 else 1
        return Gtid(self._tsid.uuid, self._tsid.tag, gno)

    def _gtid_frame(self, group: Group, gtid: Gtid | None) -> bytes:
        body_size = sum(map(len, group.frames))
        common: dict[str, Any] = {
            "flags": GtidFlag.MAY_HAVE_SBR if group.may_have_sbr else 0,
            "last_committed": self._sequence_number,
            "sequence_number": self._sequence_number + 1,
            "immediate_commit_timestamp": self._clock(),
            "immediate_server_version": _version_number(self._variables.server_version),
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
        self._log.rotate(self._executed)
        self._sequence_number = 0
        self._groups_since_sync = 0


def _version_number(server_version: str) -> int:
    """9.7.4 as 90704."""
    major, minor, patch = server_version_numbers(server_version)
    return major * 10_000 + minor * 100 + patch
