"""Events of MariaDB: GTID, GTID_LIST, ANNOTATE_ROWS, BINLOG_CHECKPOINT, START_ENCRYPTION, and compressed bodies.

    gtid_event  := sequence_number: u64  domain_id: u32  flags: u8
                   commit_id: u64                                                 -- FL_GROUP_COMMIT_ID
                   format_id: u32  gtrid_size: u8  bqual_size: u8  gtrid  bqual   -- FL_PREPARED_XA, FL_COMPLETED_XA
                   flags_extra: u8                                                -- since 10.5, missing if 0
                   extra_engines: u8     -- FL_EXTRA_MULTI_ENGINE_E1; 255 is one phase or read-only
                   sa_seq_no: u64        -- FL_COMMIT_ALTER_E1, FL_ROLLBACK_ALTER_E1: the number of START ALTER
                   thread_id: u32        -- FL_EXTRA_THREAD_ID, always present since 11.5
                   0x00*                                                          -- padding to 19 bytes
    gtid_list_event   := count_and_flags: u32 (28 and 4 bits)
                         (domain_id: u32  server_id: u32  sequence_number: u64)[count]
                         0x0000                                                   -- only if the list is empty
    annotate_rows     := sql: u8[*]
    binlog_checkpoint := file: u32 length, bytes
    start_encryption  := scheme: u8 (1)  key_version: u32  nonce: u8[12]
    compressed        := header: u8 = 0x80 | algorithm << 4 | n   size: u8[n], big-endian
                         zlib stream                                              -- algorithm 0 is zlib

The server id of a GTID is in the event header. An event group begins with a GTID event. The GTID list at the start of a
file is the GTID state at this position. QUERY_COMPRESSED and compressed rows events (log_bin_compress=ON) end with
`compressed`; decompression allocates no more memory than the size in its header.

Source: MariaDB sql/log_event.cc, Gtid_log_event, Gtid_list_log_event, binlog_buf_compress, binlog_buf_uncompress;
sql/log_event_server.cc, their write(); sql/log_event.h, Annotate_rows_log_event, Binlog_checkpoint_log_event,
Start_encryption_log_event.
"""

from __future__ import annotations

import zlib
from enum import IntFlag
from typing import TYPE_CHECKING, Any, Final

from construct import (
    Adapter,
    Array,
    Bytes,
    Computed,
    Construct,
    Container,
    GreedyBytes,
    Int8ul,
    Int32ul,
    Int64ul,
    Prefixed,
    Rebuild,
    Struct,
    Terminated,
    ValidationError,
    stream_write,
    this,
)

from binlogio.constants import EventType
from binlogio.events.base import NEW_HEADER, EventCodec, EventHeader
from binlogio.events.optional_fields import Announced, Trailing
from binlogio.frozen import dataclass
from binlogio.gtid import MariadbGtid, MariadbGtidPosition
from binlogio.primitives import Record, TupleOf, Utf8

if TYPE_CHECKING:
    from collections.abc import Callable
    from io import BytesIO

GTID_HEADER_SIZE: Final = 8 + 4 + 1 + 6  # sequence_number, domain_id, flags, reserved
GTID_LIST_COUNT_BITS: Final = 28


class MariadbGtidFlag(IntFlag):
    """MariaDB sql/log_event.h, Gtid_log_event::FL_*."""

    STANDALONE = 0x1
    GROUP_COMMIT_ID = 0x2
    TRANSACTIONAL = 0x4
    ALLOW_PARALLEL = 0x8
    WAITED = 0x10
    DDL = 0x20
    PREPARED_XA = 0x40
    COMPLETED_XA = 0x80


_STANDALONE: Final = int(MariadbGtidFlag.STANDALONE)  # operations of an IntFlag take long


class MariadbGtidExtraFlag(IntFlag):
    """MariaDB sql/log_event.h, Gtid_log_event::FL_*_E1 and FL_EXTRA_*."""

    MULTI_ENGINE = 0x1
    START_ALTER = 0x2
    COMMIT_ALTER = 0x4
    ROLLBACK_ALTER = 0x8
    THREAD_ID = 0x10


class MariadbGtidListFlag(IntFlag):
    """MariaDB sql/log_event.h, Gtid_list_log_event::FLAG_*, shifted to 4 bits. Only in replication streams."""

    UNTIL_REACHED = 0x1
    IGN_GTIDS = 0x2


@dataclass(frozen=True, slots=True)
class MariadbXid:
    """The identifier of an XA transaction."""

    format_id: int
    gtrid: bytes
    bqual: bytes

    def __str__(self) -> str:
        """Return the identifier in SQL syntax: X'67',X'62',1."""
        return f"X'{self.gtrid.hex()}',X'{self.bqual.hex()}',{self.format_id}"


class _FlagsExtra(Construct):  # type: ignore[misc]
    """The second byte of flags; 0 if it is missing. A zero byte at its place is padding and is not read."""

    def _parse(self, stream: BytesIO, context: Container, path: str) -> int:
        at = stream.tell()
        flags = stream.read(1)
        if flags in (b"", b"\0"):
            stream.seek(at)
            return 0
        return flags[0]

    def _build(self, obj: int, stream: BytesIO, context: Container, path: str) -> int:
        if obj:
            data = Int8ul.build(obj)
            stream_write(stream, data, len(data), path)
        elif context.trailing is not None and context.trailing[:1] not in (b"", b"\0"):
            raise ValidationError("trailing bytes would be parsed as extra flags", path=path)
        return obj


def _flag(mask: int) -> Callable[[Container], object]:
    return lambda ctx: ctx.flags & mask


def _extra_flag(mask: int) -> Callable[[Container], object]:
    return lambda ctx: ctx.flags_extra & mask


XID: Final = Record(
    MariadbXid,
    Struct(
        "format_id" / Int32ul,
        "_gtrid_size" / Rebuild(Int8ul, lambda ctx: len(ctx.gtrid)),
        "_bqual_size" / Rebuild(Int8ul, lambda ctx: len(ctx.bqual)),
        "gtrid" / Bytes(this._gtrid_size),
        "bqual" / Bytes(this._bqual_size),
    ),
)
MARIADB_GTID: Final = Struct(
    "sequence_number" / Int64ul,
    "domain_id" / Int32ul,
    "flags" / Int8ul,
    "commit_id" / Announced(_flag(MariadbGtidFlag.GROUP_COMMIT_ID), Int64ul),
    "xid" / Announced(_flag(MariadbGtidFlag.PREPARED_XA | MariadbGtidFlag.COMPLETED_XA), XID),
    "flags_extra" / _FlagsExtra(),
    "extra_engines" / Announced(_extra_flag(MariadbGtidExtraFlag.MULTI_ENGINE), Int8ul),
    "sa_seq_no"
    / Announced(_extra_flag(MariadbGtidExtraFlag.COMMIT_ALTER | MariadbGtidExtraFlag.ROLLBACK_ALTER), Int64ul),
    "thread_id" / Announced(_extra_flag(MariadbGtidExtraFlag.THREAD_ID), Int32ul),
    "trailing" / Trailing(lambda size, _: bytes(max(0, GTID_HEADER_SIZE - size))),
)
MARIADB_GTID_LIST: Final = Struct(
    "_count_and_flags" / Rebuild(Int32ul, lambda ctx: len(ctx.gtids) | ctx.flags << GTID_LIST_COUNT_BITS),
    "flags" / Computed(lambda ctx: ctx._count_and_flags >> GTID_LIST_COUNT_BITS),
    "gtids"
    / TupleOf(
        Array(
            lambda ctx: ctx._count_and_flags & (1 << GTID_LIST_COUNT_BITS) - 1,
            Record(MariadbGtid, Struct("domain_id" / Int32ul, "server_id" / Int32ul, "sequence_number" / Int64ul)),
        )
    ),
    "trailing" / Trailing(lambda _, ctx: b"" if ctx.gtids else bytes(2)),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MariadbGtidEvent:
    """The first event of an event group, instead of BEGIN; if FL_STANDALONE is set, the group is a single statement.

    `flags` are MariadbGtidFlag, `flags_extra` MariadbGtidExtraFlag. A field without its flag is None. `sa_seq_no` is
    the sequence number of the group that started the ALTER which this group commits or rolls back. `thread_id` is the
    connection that executed the group. `trailing` is None if zeros pad the body to 19 bytes, as servers write it.
    """

    sequence_number: int
    domain_id: int
    flags: int = 0
    commit_id: int | None = None
    xid: MariadbXid | None = None
    flags_extra: int = 0
    extra_engines: int | None = None
    sa_seq_no: int | None = None
    thread_id: int | None = None
    trailing: bytes | None = None
    header: EventHeader = NEW_HEADER

    @property
    def gtid(self) -> MariadbGtid:
        """The GTID of the event group, with the server id of the header."""
        return MariadbGtid(self.domain_id, self.header.server_id, self.sequence_number)

    @property
    def standalone(self) -> bool:
        """True if the group consists of this event and one statement, without COMMIT or XID."""
        return bool(self.flags & _STANDALONE)


@dataclass(frozen=True, slots=True)
class MariadbGtidListEvent:
    """The GTID state at the start of the file: the last GTID of each domain and server, the latest of a domain last.

    `flags` are MariadbGtidListFlag. `trailing` is None if the bytes after the list are as servers write them: two zero
    bytes after an empty list, no bytes after others.
    """

    gtids: tuple[MariadbGtid, ...] = ()
    flags: int = 0
    trailing: bytes | None = None
    header: EventHeader = NEW_HEADER

    @property
    def position(self) -> MariadbGtidPosition:
        """The last GTID of each domain."""
        return MariadbGtidPosition.of(self.gtids)


ANNOTATE_ROWS: Final = Struct("sql" / GreedyBytes)
BINLOG_CHECKPOINT: Final = Struct("file" / Utf8(Prefixed(Int32ul, GreedyBytes)), Terminated)
START_ENCRYPTION: Final = Struct("scheme" / Int8ul, "key_version" / Int32ul, "nonce" / Bytes(12), Terminated)


@dataclass(frozen=True, slots=True)
class AnnotateRowsEvent:
    """The statement of the rows events that follow (binlog_annotate_row_events=ON)."""

    sql: bytes
    header: EventHeader = NEW_HEADER


@dataclass(frozen=True, slots=True)
class BinlogCheckpointEvent:
    """The oldest log that crash recovery needs."""

    file: str
    header: EventHeader = NEW_HEADER


@dataclass(frozen=True, slots=True)
class StartEncryptionEvent:
    """The start of encryption: each event after this one is encrypted, with this key version and nonce."""

    scheme: int
    key_version: int
    nonce: bytes
    header: EventHeader = NEW_HEADER


class MariadbCompressed(Adapter):  # type: ignore[misc]
    """Bytes that are compressed in the file and uncompressed in the event object."""

    def _decode(self, obj: bytes, context: Container, path: str) -> bytes:
        head = obj[0] if obj else 0
        size_bytes = head & 0x07
        if not head & 0x80 or head & 0x70 or not 1 <= size_bytes <= 4 or len(obj) < 1 + size_bytes:
            raise ValidationError(f"0x{head:02x} is not a valid header byte of zlib-compressed data", path=path)
        size = int.from_bytes(obj[1 : 1 + size_bytes], "big")
        most = context._params.context.limits.opened_size
        if size > most:
            raise ValidationError(
                f"{size} uncompressed bytes are larger than the limit of {most}"
                " (Limits.opened_size, --max-opened-size)",
                path=path,
            )
        return inflate(obj[1 + size_bytes :], size, path)

    def _encode(self, obj: bytes, context: Container, path: str) -> bytes:
        size = len(obj)
        size_bytes = max(1, (size.bit_length() + 7) // 8)
        return bytes([0x80 | size_bytes]) + size.to_bytes(size_bytes, "big") + zlib.compress(obj)


def inflate(data: bytes, size: int, path: str = "") -> bytes:
    """Decompress a zlib stream that must consume all of `data` and produce exactly `size` bytes.

    Raises:
        ValidationError: the stream is invalid or has another size; at most `size` + 1 bytes are decompressed.
    """
    stream = zlib.decompressobj()
    try:
        plain = stream.decompress(data, size + 1)
    except zlib.error as exc:
        raise ValidationError(f"cannot inflate the zlib stream: {exc}", path=path) from exc
    if len(plain) != size or not stream.eof or stream.unused_data:
        raise ValidationError(f"the zlib stream does not inflate to the {size} bytes of its header", path=path)
    return plain


CODECS: Final[tuple[EventCodec[Any], ...]] = (
    EventCodec(EventType.MARIADB_GTID_EVENT, MARIADB_GTID, MariadbGtidEvent),
    EventCodec(EventType.MARIADB_GTID_LIST_EVENT, MARIADB_GTID_LIST, MariadbGtidListEvent),
    EventCodec(EventType.ANNOTATE_ROWS_EVENT, ANNOTATE_ROWS, AnnotateRowsEvent),
    EventCodec(EventType.BINLOG_CHECKPOINT_EVENT, BINLOG_CHECKPOINT, BinlogCheckpointEvent),
    EventCodec(EventType.START_ENCRYPTION_EVENT, START_ENCRYPTION, StartEncryptionEvent),
)
