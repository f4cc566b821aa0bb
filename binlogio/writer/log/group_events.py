"""Bytes of a group in the log: a GTID event, then events with positions and checksums, or the group compressed.

Position, GTID and logical timestamps are given by `group_log`.

    group   := gtid | gtid_tagged | anonymous_gtid | mariadb_gtid  (event* | transaction_payload)
    payload := zstd(event*)                         -- events without checksums, whose log_pos is 0

transaction_length includes the GTID event's own bytes, so its size is found by trial unless the kernel computes it.
Source: sql/binlog.cc, MYSQL_BIN_LOG::write_transaction, Binlog_cache_compressor; fixtures mysql97/gtid_on, compressed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final

from binlogio.constants import CHECKSUM_SIZE, EVENT_SIZE_BYTES, LOG_POS_BYTES, EventType
from binlogio.errors import BinlogFormatError
from binlogio.events.base import EventHeader
from binlogio.events.format_description import server_version_numbers
from binlogio.events.gtid import AnonymousGtidEvent, GtidEvent, GtidFlag, GtidTaggedEvent
from binlogio.events.transaction_payload import CompressionType, TransactionPayloadEvent
from binlogio.format.encoder import Encoder, stamp
from binlogio.format.event_frames import EventFrames
from binlogio.gtid import NIL_UUID, Gtid, MariadbGtid
from binlogio.writer.log.group import Group
from binlogio.writer.log.gtids import MariadbGtidFrames
from binlogio.writer.log.log_file import describe_format
from binlogio.writer.server_format import server_format_of

if TYPE_CHECKING:
    from binlogio._kernel.row_encoder import EventBuffer
    from binlogio.options import ServerVariables
    from binlogio.writer.log.dependency_tracker import LogicalTimestamp
    from binlogio.writer.log.group import FilledGroup
    from binlogio.writer.log.log_file import Clock
    from binlogio.writer.rows.kernel import WriterKernel

MAX_PAYLOAD_SIZE: Final = 1 << 30  # libs/mysql/binlog/event/binlog_event.h, max_log_event_size
PIECE_SIZE: Final = 1 << 20
LoggedGtid = Gtid | MariadbGtid | None


class GroupEvents:
    """Makes the bytes of groups. Not for several threads at once, but for `compressed`.

    `commit_id` is that of the groups which are made now, where MariaDB gives them one.
    """

    def __init__(self, variables: ServerVariables, clock: Clock, kernel: WriterKernel | None) -> None:
        self._server_format = server_format_of(variables.server_version)
        self._encoder = Encoder(describe_format(variables).context)
        self.has_checksum: Final = self._encoder.context.has_checksum
        self._server_id = variables.server_id
        self._version_number = _version_number(variables.server_version)
        self._clock = clock
        self._domains = MariadbGtidFrames(self._encoder, has_thread_ids=self._server_format.has_thread_ids)
        self.commit_id: int | None = None
        self._stamped = kernel.stamped if kernel is not None else None
        self._kernel = kernel if self._server_format.has_commit_times else None
        self._buffer: EventBuffer | None = None
        self._gtid_frame_size = 0  # of the last one: the best guess for the next

    def bytes_of(self, group: Group, offset: int, gtid: LoggedGtid, clock: LogicalTimestamp) -> bytes:
        """All events of a group that is in memory, at `offset` of the file; `gtid` is None if it is anonymous.

        Raises:
            BinlogFormatError: a frame is not as long as its header says.
        """
        frames = group.frames
        if isinstance(gtid, MariadbGtid) and isinstance(frames, tuple) and self._stamped is not None:
            whole = self._domains.frame(group, gtid, self.commit_id), *frames
            return self._stamped(whole, offset=offset, checksum=self.has_checksum)
        if (
            isinstance(gtid, MariadbGtid)
            or self._kernel is None
            or not isinstance(frames, tuple)
            or (gtid is not None and gtid.tag)
        ):
            return b"".join(self.pieces_of(group, offset, gtid, clock))
        type_code, before, after = self._gtid_parts(gtid, clock, self._kernel, may_have_sbr=group.may_have_sbr)
        return self._kernel.transaction(
            frames,
            offset=offset,
            checksum=self.has_checksum,
            type_code=type_code,
            timestamp=group.timestamp,
            server_id=self._server_id,
            header_flags=0,
            before=before,
            tail=after,
        )

    def pieces_of(self, group: Group, offset: int, gtid: LoggedGtid, clock: LogicalTimestamp) -> Iterator[bytes]:
        """Yield the same in pieces of about a megabyte, for groups that are not in memory.

        Raises:
            BinlogFormatError: a frame is not as long as its header says.
            OSError: the frames cannot be read.
        """
        piece = bytearray()
        for frame in self._with_gtid(group, gtid, clock):
            if int.from_bytes(frame[EVENT_SIZE_BYTES], "little") != len(frame):
                raise BinlogFormatError(
                    "a frame is not as long as its header says", field="event_size", found=len(frame)
                )
            piece += stamp(frame, offset + len(piece), has_checksum=self.has_checksum)
            if len(piece) >= PIECE_SIZE:
                offset += len(piece)
                yield bytes(piece)
                piece.clear()
        yield bytes(piece)

    def filled(self, group: FilledGroup, offset: int, gtid: LoggedGtid, clock: LogicalTimestamp) -> EventBuffer | bytes:
        """All events of a `FilledGroup` at `offset` of the file; valid until the next call."""
        if self._kernel is None or isinstance(gtid, MariadbGtid) or (gtid is not None and gtid.tag):
            frames = EventFrames(checksum=self.has_checksum)
            group.fill(frames)
            return self.bytes_of(Group(tuple(frames.frames), group.timestamp), offset, gtid, clock)
        type_code, before, after = self._gtid_parts(gtid, clock, self._kernel, may_have_sbr=False)
        buffer = self._buffer = self._buffer or self._kernel.new_buffer(0, checksum=self.has_checksum)
        buffer.clear(offset)
        buffer.begin_group(type_code, group.timestamp, self._server_id, 0, before, after, group.expected_size)
        group.fill(buffer)
        buffer.end_group()
        return buffer

    def _gtid_parts(
        self, gtid: Gtid | None, clock: LogicalTimestamp, kernel: WriterKernel, *, may_have_sbr: bool
    ) -> tuple[EventType, bytes, bytes]:
        """Type and body of the group's first event, the body before and after the length of the group."""
        before, after = kernel.gtid_parts(
            1 if may_have_sbr else 0,
            NIL_UUID.data if gtid is None else gtid.uuid.data,
            0 if gtid is None else gtid.gno,
            *clock,
            self._clock(),
            -1,
            self._version_number,
            -1,
        )
        return EventType.ANONYMOUS_GTID_LOG_EVENT if gtid is None else EventType.GTID_LOG_EVENT, before, after

    def compressed(self, group: Group, compress: Callable[[bytes, int], bytes]) -> Group:
        """Return the group as one TRANSACTION_PAYLOAD_EVENT, or unchanged where that would be too large."""
        level = group.compression_level
        if level is None or group.size > MAX_PAYLOAD_SIZE:
            return group
        plain = b"".join(_without_positions(group.frames, CHECKSUM_SIZE if self.has_checksum else 0))
        payload = compress(plain, level)
        if len(payload) > MAX_PAYLOAD_SIZE:
            return group
        header = EventHeader(timestamp=group.timestamp, server_id=self._server_id)
        event = TransactionPayloadEvent.create(payload, CompressionType.ZSTD, len(plain), header)
        return group._replace(frames=(self._encoder.encode(event),), compression_level=None)

    def _with_gtid(self, group: Group, gtid: LoggedGtid, clock: LogicalTimestamp) -> Iterator[bytes]:
        if isinstance(gtid, MariadbGtid):
            yield self._domains.frame(group, gtid, self.commit_id)
        elif gtid is not None or self._server_format.has_anonymous_gtids:
            yield self._gtid_frame(group, gtid, clock)
        yield from group.frames

    def _gtid_frame(self, group: Group, gtid: Gtid | None, clock: LogicalTimestamp) -> bytes:
        fields: dict[str, Any] = {
            "flags": GtidFlag.MAY_HAVE_SBR if group.may_have_sbr else 0,
            "last_committed": clock[0],
            "sequence_number": clock[1],
            "header": EventHeader(timestamp=group.timestamp, server_id=self._server_id),
        }
        kind: type[Any] = AnonymousGtidEvent
        if gtid is not None:
            fields |= {"uuid": gtid.uuid, "gno": gtid.gno}
            kind = GtidEvent
            if gtid.tag:
                fields["tag"] = gtid.tag
                kind = GtidTaggedEvent
        if not self._server_format.has_commit_times:
            return self._encoder.encode(kind(**fields))
        fields |= {"immediate_commit_timestamp": self._clock(), "immediate_server_version": self._version_number}
        body_size, length, frame = group.size, -1, b""
        while len(frame) + body_size != length:
            length = (len(frame) or self._gtid_frame_size) + body_size
            frame = self._encoder.encode(kind(transaction_length=length, **fields))
        self._gtid_frame_size = len(frame)
        return frame


def _without_positions(frames: Iterable[bytes], checksum_size: int) -> Iterator[bytes]:
    for frame in frames:
        size = len(frame) - checksum_size
        yield frame[: EVENT_SIZE_BYTES.start]
        yield size.to_bytes(4, "little") + bytes(4)
        yield frame[LOG_POS_BYTES.stop : size]


def _version_number(server_version: str) -> int:
    """9.7.4 as 90704."""
    major, minor, patch = server_version_numbers(server_version)
    return major * 10_000 + minor * 100 + patch
