"""Log builder: the bytes of a log of one server version, from its header to its end. No I/O.

    log     := magic format_description head group* (rotate | stop)?
    head    := previous_gtids? | gtid_list binlog_checkpoint+     -- MariaDB; after a rotation the last log and this one
    group   := gtid | gtid_tagged | anonymous_gtid | mariadb_gtid  (event* | transaction_payload)
    payload := zstd(event*)                                       -- events without checksums, whose log_pos is 0

A frame is an event that is complete except for position and checksum. BEGIN, COMMIT, XID and table maps differ from one
statement to the next only in timestamp and server id, so their frames are built once. So are the parts of rows events
before their rows. The compiled kernel builds groups; `binlogio.format.encoder` builds all other events.
transaction_length includes the GTID event's own bytes, so construct finds its size by trial.

GTID events of MySQL exist since 5.6.5 (ANONYMOUS_GTID since 5.7.6); they have commit times and transaction_length since
8.0.2, the server version since 8.0.14. MariaDB's GTID event replaces BEGIN and XA START:

    standalone     a group without an end event: DDL, XA COMMIT, XA ROLLBACK
    ddl            tables are created or dropped; such a group is not flagged as transactional
    transactional  ROLLBACK would undo all of it
    thread id      of the connection, since 11.5
    multi-engine   255 if no engine has anything to commit, or if the group is prepared

Source: sql/binlog.cc, MYSQL_BIN_LOG::open_binlog, write_transaction, Binlog_cache_compressor;
libs/mysql/binlog/event/control_events.h, Gtid_event; MariaDB sql/log_event_server.cc, Gtid_log_event::Gtid_log_event;
fixtures mysql97/gtid_on, compressed, mariadb1011/gtid; recordings of 10.11.18.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from binlogio.constants import (
    BINLOG_MAGIC,
    CHECKSUM_SIZE,
    EVENT_SIZE_BYTES,
    HEADER_SIZE,
    LOG_POS_BYTES,
    MAX_EVENT_SIZE,
    SERVER_ID_BYTES,
    TYPE_CODE_AT,
    ChecksumAlgorithm,
    EventType,
    HeaderFlag,
)
from binlogio.errors import BinlogFormatError
from binlogio.events import EVENT_CODECS
from binlogio.events.base import EventHeader, ParseContext
from binlogio.events.control import RotateEvent, StopEvent, XidEvent
from binlogio.events.format_description import (
    BINLOG_VERSION,
    FormatDescriptionEvent,
    knows_checksum,
    server_version_numbers,
)
from binlogio.events.gtid import AnonymousGtidEvent, GtidEvent, GtidFlag, GtidTaggedEvent, PreviousGtidsEvent
from binlogio.events.mariadb import (
    AnnotateRowsEvent,
    BinlogCheckpointEvent,
    MariadbGtidEvent,
    MariadbGtidExtraFlag,
    MariadbGtidFlag,
    MariadbGtidListEvent,
    StartEncryptionEvent,
)
from binlogio.events.transaction_payload import CompressionType, TransactionPayloadEvent
from binlogio.format.encoder import Encoder, stamp
from binlogio.format.event_frames import EventFrames
from binlogio.gtid import EMPTY_GTID_SET, NIL_UUID, Gtid, GtidSet, GtidSetEncoding, MariadbGtid
from binlogio.implementation import is_compiled
from binlogio.writer.log.group import Group, GroupEnd, InDomain
from binlogio.writer.query_events import QueryContext, begin_event, commit_event
from binlogio.writer.server_format import DEFAULT_SERVER_FORMAT, ServerFormat, server_format_of

if TYPE_CHECKING:
    from binlogio._kernel.row_encoder import EventBuffer, OneRowFrames
    from binlogio.events import BinlogEvent, RowsEvent
    from binlogio.events.table_map import TableMapEvent
    from binlogio.options import ServerVariables
    from binlogio.rows.plan import TablePlan
    from binlogio.writer.log.dependency_tracker import LogicalTimestamp
    from binlogio.writer.log.group import FilledGroup

MAX_PAYLOAD_SIZE: Final = 1 << 30  # libs/mysql/binlog/event/binlog_event.h, max_log_event_size
PIECE_SIZE: Final = 1 << 20
MAX_TEMPLATES: Final = 1024
MAX_SHORT_TEXT: Final = 1 << 20
ONE_PHASE: Final = 255  # value of extra_engines: nothing was prepared, or the engines are not known yet

LoggedGtid = Gtid | MariadbGtid | None
"""The GTID of a group; None if it is anonymous."""

LoggedGtids = GtidSet | tuple[MariadbGtid, ...]
"""All GTIDs up to a position in the log; for MariaDB the last ones of each domain and server."""

_CLOCK_SINCE: Final = (5, 7, 5)
_ANONYMOUS_SINCE: Final = (5, 7, 6)
_SBR_SINCE: Final = (5, 7, 19)  # in earlier versions the flag has no meaning, and is always set
_LENGTH_SINCE: Final = (8, 0, 2)
_VERSION_SINCE: Final = (8, 0, 14)
_HEADER: Final = struct.Struct("<IBIIIH")
_START: Final = struct.Struct("<IBI")  # start of a header: timestamp, type code, server id
_NUMBER: Final = slice(HEADER_SIZE, HEADER_SIZE + 8)  # sequence number in MariaDB's GTID event
_STANDALONE: Final = int(MariadbGtidFlag.STANDALONE)  # operations of flags are slow
_TRANSACTIONAL: Final = int(MariadbGtidFlag.TRANSACTIONAL)
_ALLOW_PARALLEL: Final = int(MariadbGtidFlag.ALLOW_PARALLEL)
_DDL: Final = int(MariadbGtidFlag.DDL)
_PREPARED_XA: Final = int(MariadbGtidFlag.PREPARED_XA)
_COMPLETED_XA: Final = int(MariadbGtidFlag.COMPLETED_XA)


@dataclass(frozen=True, slots=True)
class WriterKernel:
    """Functions of `binlogio._kernel.row_encoder`, `row_packer` of `binlogio.rows.packing`, and the buffer class."""

    gtid_parts: Callable[..., tuple[bytes, bytes]]
    transaction: Callable[..., bytes]
    stamped: Callable[..., bytes]
    row_packer: Callable[[TablePlan], Any]
    one_row_frames: Callable[..., OneRowFrames]
    new_buffer: Callable[..., EventBuffer]


def writer_kernel() -> WriterKernel | None:
    """Return the kernel's functions; None if construct is used instead.

    Raises:
        UnsupportedFeature: the environment requires a kernel that is not installed.
    """
    if not is_compiled():
        return None
    from binlogio._kernel import row_encoder  # noqa: PLC0415 - missing if it was not compiled
    from binlogio.rows.packing import row_packer  # noqa: PLC0415

    return WriterKernel(
        row_encoder.gtid_parts,
        row_encoder.transaction,
        row_encoder.stamped,
        row_packer,
        row_encoder.OneRowFrames,
        row_encoder.EventBuffer,
    )


def describe_format(variables: ServerVariables) -> FormatDescriptionEvent:
    """Return the format of the logs that a server with these variables writes."""
    algorithm = None
    if knows_checksum(variables.server_version):
        algorithm = ChecksumAlgorithm.CRC32 if variables.binlog_checksum == "CRC32" else ChecksumAlgorithm.OFF
    return FormatDescriptionEvent(
        binlog_version=BINLOG_VERSION,
        server_version=variables.server_version,
        created=0,
        header_size=HEADER_SIZE,
        post_header_sizes=server_format_of(variables.server_version).post_header_sizes,
        checksum_algorithm=algorithm,
    )


class LogBuilder:
    """Builds logs of one format. It is used by one thread at a time. Timestamps are in seconds since 1970, UTC.

    `server_format`: the format of the server version. `has_gtids`: gtid_mode is not OFF; without GTIDs, logs before
    5.7.6 have neither PREVIOUS_GTIDS nor events of anonymous transactions.
    """

    def __init__(
        self,
        description: FormatDescriptionEvent,
        kernel: WriterKernel | None = None,
        *,
        server_format: ServerFormat = DEFAULT_SERVER_FORMAT,
        has_gtids: bool = True,
    ) -> None:
        self.description: Final = description
        self.context: Final[ParseContext] = description.context
        self.has_checksum: Final = self.context.has_checksum
        self._encoder = Encoder(self.context)
        self._kernel = kernel
        self._format = server_format
        self._templates: dict[object, tuple[int, bytes]] = {}
        self._opened: tuple[QueryContext | None, tuple[bytes, ...]] = None, ()
        self._rows_heads: dict[RowsHead, tuple[int, bytes]] = {}
        self._footer = bytes(CHECKSUM_SIZE if self.has_checksum else 0)
        xid = self._encoder.encode(XidEvent(xid=0))
        self._xid = xid[TYPE_CODE_AT], xid[SERVER_ID_BYTES.stop : HEADER_SIZE]
        self._buffer: EventBuffer | None = None
        version = (0, 0, 0) if self.context.is_mariadb else server_version_numbers(description.server_version)
        sizes = description.post_header_sizes
        self._has_anonymous = version >= _ANONYMOUS_SINCE
        self._has_domains = self.context.is_mariadb and len(sizes) >= EventType.MARIADB_GTID_EVENT
        knows_previous = len(sizes) >= EventType.PREVIOUS_GTIDS_LOG_EVENT and not self.context.is_mariadb
        self._has_previous = knows_previous and (has_gtids or self._has_anonymous)
        self._has_clock = version >= _CLOCK_SINCE
        self._always_sbr = version < _SBR_SINCE
        self._has_length = version >= _LENGTH_SINCE
        self._version_number = (
            version[0] * 10_000 + version[1] * 100 + version[2] if version >= _VERSION_SINCE else None
        )

    @classmethod
    def of(cls, variables: ServerVariables, kernel: WriterKernel | None) -> LogBuilder:
        """Return the builder of the logs of a server."""
        server_format = server_format_of(variables.server_version)
        has_gtids = variables.gtid_mode != "OFF"
        return cls(describe_format(variables), kernel, server_format=server_format, has_gtids=has_gtids)

    # -------------------------------------------------------------------------------------------------- head and end

    def head(
        self,
        timestamp: int,
        server_id: int,
        previous: LoggedGtids = EMPTY_GTID_SET,
        *,
        created: int = 0,
        in_use: bool = False,
        checkpoints: Sequence[str] = (),
        encryption: StartEncryptionEvent | None = None,
    ) -> bytes:
        """Return the head of a log: the magic number and the header events.

        Args:
            timestamp: of the events.
            server_id: of the events.
            previous: all GTIDs before this log.
            created: start time of the server, if this is its first log since then; else 0.
            in_use: the log is still being written.
            checkpoints: the logs of MariaDB's BINLOG_CHECKPOINT events.
            encryption: the event after which MariaDB encrypts all events.
        """
        header = EventHeader(timestamp=timestamp, server_id=server_id)
        flags = HeaderFlag.BINLOG_IN_USE if in_use else 0
        events: list[BinlogEvent] = [replace(self.description, created=created, header=replace(header, flags=flags))]
        if encryption is not None:
            events.append(replace(encryption, header=header))
        if not isinstance(previous, GtidSet):
            events.append(MariadbGtidListEvent(previous, header=header))
            events += [BinlogCheckpointEvent(name, header=header) for name in checkpoints]
        elif self._has_previous:
            encoding = GtidSetEncoding.TAGGED if previous.has_tags else GtidSetEncoding.UNTAGGED
            ignorable = replace(header, flags=HeaderFlag.IGNORABLE)
            events.append(PreviousGtidsEvent(gtid_set=previous, encoding=encoding, header=ignorable))
        data = BINLOG_MAGIC
        for event in events:
            data += self._encoder.encode_at(event, len(data))
        return data

    def end(self, offset: int, timestamp: int, server_id: int, next_log: str = "") -> bytes:
        """Return the last event of a log at file offset `offset`: ROTATE to the next log, or STOP."""
        header = EventHeader(timestamp=timestamp, server_id=server_id)
        if next_log:
            rotate = RotateEvent(position=len(BINLOG_MAGIC), next_log=next_log, header=header)
            return self._encoder.encode_at(rotate, offset)
        return self._encoder.encode_at(StopEvent(header=header), offset)

    # -------------------------------------------------------------------------------------------------------- frames

    def encode(self, event: BinlogEvent) -> bytes:
        """Return the frame of any event.

        Raises:
            BinlogFormatError: a value does not fit its field.
        """
        return self._encoder.encode(event)

    def frame(self, key: object, timestamp: int, server_id: int, make: Callable[[], BinlogEvent]) -> bytes:
        """Return the frame cached for `key`, or that of the event returned by `make`, with this time and server id."""
        template = self._templates.get(key)
        if template is None:
            if len(self._templates) >= MAX_TEMPLATES:
                self._templates.clear()
            frame = self._encoder.encode(make())
            template = self._templates[key] = frame[TYPE_CODE_AT], frame[SERVER_ID_BYTES.stop :]
        type_code, rest = template
        return _START.pack(timestamp, type_code, server_id) + rest

    def opening(self, context: QueryContext) -> tuple[bytes, ...]:
        """Return the frames at the start of a group: BEGIN, or none if the GTID event replaces it."""
        last, frames = self._opened
        if last is not context:
            frames = (self.begin(context),) if self.opening_size else ()
            self._opened = context, frames
        return frames

    @property
    def opening_size(self) -> int:
        """The number of frames at the start of a group."""
        return 0 if self._has_domains else 1

    def begin(self, context: QueryContext) -> bytes:
        """Return BEGIN."""
        key = "BEGIN", *context.key
        return self.frame(key, context.timestamp, context.server_id, lambda: begin_event(context))

    def commit(self, context: QueryContext) -> bytes:
        """Return the COMMIT of the statement cache, or of a transaction cache without an engine to commit."""
        key = "COMMIT", *context.key
        return self.frame(key, context.timestamp, context.server_id, lambda: commit_event(context))

    def xid(self, xid: int, timestamp: int, server_id: int) -> bytes:
        """Return the XID at the end of the transaction cache."""
        type_code, rest = self._xid
        return _START.pack(timestamp, type_code, server_id) + rest + xid.to_bytes(8, "little") + self._footer

    def annotation(self, sql: bytes, timestamp: int, server_id: int) -> bytes:
        """Return the ANNOTATE_ROWS event with the text of a statement, which MariaDB writes before the rows.

        Raises:
            BinlogFormatError: it exceeds 4 GiB.
        """
        if len(sql) > MAX_SHORT_TEXT:
            header = EventHeader(timestamp=timestamp, server_id=server_id)
            return self.encode(AnnotateRowsEvent(sql=sql, header=header))
        empty = self.frame(AnnotateRowsEvent, timestamp, server_id, lambda: AnnotateRowsEvent(sql=b""))
        size = (len(empty) + len(sql)).to_bytes(4, "little")
        return (
            empty[: EVENT_SIZE_BYTES.start]
            + size
            + empty[EVENT_SIZE_BYTES.stop : HEADER_SIZE]
            + sql
            + empty[HEADER_SIZE:]
        )

    def table_map(self, event: TableMapEvent, timestamp: int, server_id: int) -> bytes:
        """Return the table map of an open table, cached by its table id."""
        return self.frame(event.table_id, timestamp, server_id, lambda: event)

    def rows(self, images: bytes, head: RowsHead, timestamp: int, server_id: int) -> bytes:
        """Return a rows event.

        Raises:
            BinlogFormatError: it exceeds 4 GiB.
        """
        template = self._rows_heads.get(head)
        if template is None:
            if head.type_code in _COMPRESSED:
                return self.encode(_rows_event(images, head, timestamp, server_id))
            if len(self._rows_heads) >= MAX_TEMPLATES:
                self._rows_heads.clear()
            frame = self.encode(_rows_event(b"", head, 0, 0))
            start = frame[HEADER_SIZE : len(frame) - len(self._footer)]
            template = self._rows_heads[head] = frame[TYPE_CODE_AT], start
        type_code, start = template
        size = HEADER_SIZE + len(start) + len(images) + len(self._footer)
        if size > MAX_EVENT_SIZE:
            return self.encode(_rows_event(images, head, timestamp, server_id))
        return b"".join((_HEADER.pack(timestamp, type_code, server_id, size, 0, 0), start, images, self._footer))

    # -------------------------------------------------------------------------------------------------------- groups

    def group(
        self,
        group: Group,
        offset: int,
        gtid: LoggedGtid,
        clock: LogicalTimestamp,
        committed_us: int,
        server_id: int,
        commit_id: int | None = None,
    ) -> bytes:
        """Return all events of a group that is in memory.

        Args:
            group: its events.
            offset: its file offset.
            gtid: its GTID; None if it is anonymous.
            clock: its last_committed and sequence_number.
            committed_us: commit time in microseconds since 1970, UTC.
            server_id: of its GTID event.
            commit_id: MariaDB's id of groups that are committed together; None for a single group.

        Raises:
            BinlogFormatError: the length of a frame differs from the size in its header.
        """
        frames, kernel = group.frames, self._kernel
        if kernel is None or not isinstance(frames, tuple):
            return b"".join(self.pieces(group, offset, gtid, clock, committed_us, server_id, commit_id))
        if self._version_number is None or isinstance(gtid, MariadbGtid):
            whole = (*self._gtid_frames(group, gtid, clock, committed_us, server_id, commit_id), *frames)
            return self._stamped(whole, offset)
        type_code, before, tail = self._gtid_parts(gtid, clock, committed_us, kernel, may_have_sbr=group.may_have_sbr)
        return kernel.transaction(
            frames,
            offset=offset,
            checksum=self.has_checksum,
            type_code=type_code,
            timestamp=group.timestamp,
            server_id=server_id,
            header_flags=0,
            before=before,
            tail=tail,
        )

    def pieces(
        self,
        group: Group,
        offset: int,
        gtid: LoggedGtid,
        clock: LogicalTimestamp,
        committed_us: int,
        server_id: int,
        commit_id: int | None = None,
    ) -> Iterator[bytes]:
        """Yield all events in pieces of about a megabyte, for groups that are not in memory. Arguments as for `group`.

        Raises:
            BinlogFormatError: the length of a frame differs from the size in its header.
            OSError: the frames cannot be read.
        """
        if self._kernel is not None and group.size <= PIECE_SIZE:
            whole = group._replace(frames=tuple(group.frames))
            yield self.group(whole, offset, gtid, clock, committed_us, server_id, commit_id)
            return
        waiting: list[bytes] = []
        size = 0
        for part in (self._gtid_frames(group, gtid, clock, committed_us, server_id, commit_id), group.frames):
            for frame in part:
                waiting.append(frame)
                size += len(frame)
                if size >= PIECE_SIZE:
                    yield self._stamped(waiting, offset)
                    offset += size
                    waiting, size = [], 0
        yield self._stamped(waiting, offset)

    def _stamped(self, frames: Sequence[bytes], offset: int) -> bytes:
        """Return frames, joined, with positions from `offset` on and checksums."""
        if self._kernel is not None:
            return self._kernel.stamped(tuple(frames), offset=offset, checksum=self.has_checksum)
        data = bytearray()
        for frame in frames:
            if int.from_bytes(frame[EVENT_SIZE_BYTES], "little") != len(frame):
                raise BinlogFormatError(
                    "a frame is not as long as its header says", field="event_size", found=len(frame)
                )
            data += stamp(frame, offset + len(data), has_checksum=self.has_checksum)
        return bytes(data)

    def filled(
        self,
        group: FilledGroup,
        offset: int,
        gtid: LoggedGtid,
        clock: LogicalTimestamp,
        committed_us: int,
        server_id: int,
    ) -> EventBuffer | bytes:
        """Return all events of a `FilledGroup` at file offset `offset`; the buffer is valid until the next call."""
        kernel, head = self._kernel, Group((), group.timestamp, thread_id=group.thread_id, marks=group.marks)
        if kernel is None or (self._has_length and self._version_number is None):
            frames = EventFrames(checksum=self.has_checksum)
            group.fill(frames)
            whole = head._replace(frames=tuple(frames.frames))
            return self.group(whole, offset, gtid, clock, committed_us, server_id)
        buffer = self._buffer = self._buffer or kernel.new_buffer(0, checksum=self.has_checksum)
        buffer.clear(offset)
        if isinstance(gtid, MariadbGtid) or not self._has_length:
            for frame in self._gtid_frames(head, gtid, clock, committed_us, server_id, None):
                buffer.add_frame(frame)
            group.fill(buffer)
            return buffer
        type_code, before, tail = self._gtid_parts(gtid, clock, committed_us, kernel, may_have_sbr=False)
        buffer.begin_group(type_code, group.timestamp, server_id, 0, before, tail, group.expected_size)
        group.fill(buffer)
        buffer.end_group()
        return buffer

    def compressed(self, group: Group, compress: Callable[[bytearray, int], bytes], server_id: int) -> Group:
        """Return the group as one TRANSACTION_PAYLOAD_EVENT, or unchanged if that would be too large."""
        level = group.compression_level
        if level is None or group.size > MAX_PAYLOAD_SIZE:
            return group
        plain = bytearray()  # `join` would hold all parts as well
        for part in _without_positions(group.frames, CHECKSUM_SIZE if self.has_checksum else 0):
            plain += part
        payload = compress(plain, level)
        if len(payload) > MAX_PAYLOAD_SIZE:
            return group
        header = EventHeader(timestamp=group.timestamp, server_id=server_id)
        event = TransactionPayloadEvent.create(payload, CompressionType.ZSTD, len(plain), header)
        return group._replace(frames=(self._encoder.encode(event),), compression_level=None)

    def move(self, events: bytearray, offset: int) -> None:
        """Set the positions and checksums of complete events for file offset `offset`.

        Raises:
            BinlogFormatError: the events do not fill the buffer.
        """
        if self._kernel is not None:
            from binlogio._kernel.event_scanner import stamp_events  # noqa: PLC0415 - missing if it was not compiled

            stamp_events(events, offset, checksum=self.has_checksum)
            return
        at = 0
        for frame in frames_of([bytes(events)]):
            events[at : at + len(frame)] = stamp(frame, offset + at, has_checksum=self.has_checksum)
            at += len(frame)

    # --------------------------------------------------------------------------------------------------- GTID events

    def _gtid_parts(
        self, gtid: Gtid | None, clock: LogicalTimestamp, committed_us: int, kernel: WriterKernel, *, may_have_sbr: bool
    ) -> tuple[EventType, bytes, bytes]:
        """Return type and body of the group's first event, the body before and after the transaction length."""
        flags, version = 1 if may_have_sbr else 0, self._version_number
        if gtid is None:
            before, tail = kernel.gtid_parts(flags, NIL_UUID.data, 0, *clock, committed_us, -1, version, -1)
            return EventType.ANONYMOUS_GTID_LOG_EVENT, before, tail
        tag = gtid.tag.encode()
        before, tail = kernel.gtid_parts(flags, gtid.uuid.data, gtid.gno, *clock, committed_us, -1, version, -1, tag)
        return EventType.GTID_TAGGED_LOG_EVENT if tag else EventType.GTID_LOG_EVENT, before, tail

    def _gtid_frames(
        self,
        group: Group,
        gtid: LoggedGtid,
        clock: LogicalTimestamp,
        committed_us: int,
        server_id: int,
        commit_id: int | None,
    ) -> tuple[bytes, ...]:
        """Return the GTID event of a group, built by construct; no event in versions without GTID events."""
        if isinstance(gtid, MariadbGtid):
            return (self._mariadb_gtid(group, gtid, commit_id),)
        if gtid is None and not self._has_anonymous:
            return ()
        fields: dict[str, Any] = {
            "flags": GtidFlag.MAY_HAVE_SBR if group.may_have_sbr or self._always_sbr else 0,
            "header": EventHeader(timestamp=group.timestamp, server_id=server_id),
        }
        if self._has_clock:
            fields |= {"last_committed": clock[0], "sequence_number": clock[1]}
        kind: type[Any] = AnonymousGtidEvent
        if gtid is not None:
            kind = GtidEvent
            fields |= {"uuid": gtid.uuid, "gno": gtid.gno}
            if gtid.tag:
                kind = GtidTaggedEvent
                fields["tag"] = gtid.tag
        if not self._has_length:
            return (self._encoder.encode(kind(**fields)),)
        fields["immediate_commit_timestamp"] = committed_us
        if self._version_number is not None:
            fields["immediate_server_version"] = self._version_number
        body_size, length, frame = group.size, 0, b""
        while len(frame) + body_size != length:  # from below: the shorter of two fitting lengths
            length = len(frame) + body_size if frame else 0
            frame = self._encoder.encode(kind(transaction_length=length, **fields))
        return (frame,)

    def _mariadb_gtid(self, group: Group, gtid: MariadbGtid, commit_id: int | None) -> bytes:
        """Return MariaDB's GTID event; events that differ only in time and number are built once."""
        if not self._format.has_extra_flags:
            group = group._replace(marks=group.marks._replace(has_no_engine=False))
        flags, marks = _mariadb_flags(group) & self._format.gtid_flags, group.marks
        thread_id = group.thread_id if self._format.has_thread_ids else None
        if commit_id is not None or marks.xa is not None or marks.alter is not None or marks.has_no_engine:
            return self._encoder.encode(_mariadb_gtid_event(group, gtid, flags, commit_id, thread_id))
        frame = self.frame(
            ("GTID", gtid.domain_id, flags, thread_id),
            group.timestamp,
            gtid.server_id,
            lambda: _mariadb_gtid_event(group, gtid, flags, None, thread_id),
        )
        return frame[: _NUMBER.start] + gtid.sequence_number.to_bytes(8, "little") + frame[_NUMBER.stop :]


COMPRESSED_TYPES: Final = {
    EventType.WRITE_ROWS_EVENT_V1: EventType.WRITE_ROWS_COMPRESSED_EVENT_V1,
    EventType.UPDATE_ROWS_EVENT_V1: EventType.UPDATE_ROWS_COMPRESSED_EVENT_V1,
    EventType.DELETE_ROWS_EVENT_V1: EventType.DELETE_ROWS_COMPRESSED_EVENT_V1,
}
"""The compressed rows event types of log_bin_compress, by the plain type."""


_COMPRESSED: Final = frozenset(COMPRESSED_TYPES.values())


class RowsHead(NamedTuple):
    """Common fields of rows events that differ only in their rows; `flags` are those of the rows event."""

    type_code: int
    table_id: int
    flags: int
    column_count: int
    present: bytes
    present_after: bytes = b""


def _rows_event(images: bytes, head: RowsHead, timestamp: int, server_id: int) -> RowsEvent:
    bitmaps = {"present": head.present, **({"present_after": head.present_after} if head.present_after else {})}
    common = {"table_id": head.table_id, "flags": head.flags, "extra": b"", "column_count": head.column_count}
    header = EventHeader(timestamp=timestamp, type_code=int(head.type_code), server_id=server_id)
    event: RowsEvent = EVENT_CODECS[head.type_code].event_class(**common, **bitmaps, images=images, header=header)
    return event


def frames_of(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the complete events of consecutive pieces of a log, one by one."""
    waiting = bytearray()
    for piece in pieces:
        waiting += piece
        at = 0
        while len(waiting) - at >= EVENT_SIZE_BYTES.stop:
            size = int.from_bytes(waiting[at + EVENT_SIZE_BYTES.start : at + EVENT_SIZE_BYTES.stop], "little")
            if size < HEADER_SIZE or len(waiting) - at < size:
                break
            with memoryview(waiting) as view:
                frame = bytes(view[at : at + size])
            at += size
            if size >= PIECE_SIZE:  # not twice in memory
                del waiting[:at]
                at = 0
            yield frame
        del waiting[:at]


def with_xid(frame: bytes, xid: int) -> bytes:
    """Return the frame of an XID event with another XID."""
    return frame[:HEADER_SIZE] + xid.to_bytes(8, "little") + frame[HEADER_SIZE + 8 :]


def _mariadb_gtid_event(
    group: Group, gtid: MariadbGtid, flags: int, commit_id: int | None, thread_id: int | None
) -> MariadbGtidEvent:
    has_no_engine, alter = group.marks.has_no_engine or group.is_xa, group.marks.alter
    flags_extra = int(MariadbGtidExtraFlag.MULTI_ENGINE) if has_no_engine else 0
    if thread_id is not None:
        flags_extra |= MariadbGtidExtraFlag.THREAD_ID
    return MariadbGtidEvent(
        sequence_number=gtid.sequence_number,
        domain_id=gtid.domain_id,
        flags=flags | (0 if commit_id is None else MariadbGtidFlag.GROUP_COMMIT_ID),
        commit_id=commit_id,
        xid=group.marks.xa,
        flags_extra=flags_extra | (alter.flags if alter is not None else 0),
        extra_engines=ONE_PHASE if has_no_engine else None,
        sa_seq_no=alter.start_alter_sequence if alter is not None else None,
        thread_id=thread_id,
        header=EventHeader(timestamp=group.timestamp, server_id=gtid.server_id, flags=int(HeaderFlag.SUPPRESS_USE)),
    )


def _mariadb_flags(group: Group) -> int:
    wanted = group.assigned_gtid
    flags = 0 if isinstance(wanted, InDomain) and not wanted.allow_parallel else _ALLOW_PARALLEL
    if group.end is GroupEnd.STATEMENT:
        flags |= _STANDALONE
    if group.marks.is_ddl:
        flags |= _DDL
    elif group.marks.is_transactional:
        flags |= _TRANSACTIONAL
    if group.marks.xa is not None:
        flags |= _PREPARED_XA if group.is_xa else _COMPLETED_XA
    return flags


def _without_positions(frames: Iterable[bytes], checksum_size: int) -> Iterator[bytes]:
    for frame in frames:
        size = len(frame) - checksum_size
        yield frame[: EVENT_SIZE_BYTES.start]
        yield size.to_bytes(4, "little") + bytes(4)
        yield frame[LOG_POS_BYTES.stop : size]
