"""Rows events: post-header, bitmaps, and the still-encoded row images.

The frame only: row images are decoded in `binlogio.rows`.

    rows_event := table_id: u48 (u32 if the post-header has 6 bytes)  flags: u16
                  (extra_size: u16  extra: u8[extra_size - 2])?                       -- v2: post-header of 10 bytes
                  column_count: lenenc  present: bits[column_count]
                  (present_after: bits[column_count])?                                -- v1 and v2 of updates
                  images: u8[*]
    extra      := (code: u8  ...)*       0 NDB: u8 length (with itself and format), u8 format, bytes
                                         1 partition: u16 id (updates: u16 source id as well)

v0 (5.1 before GA) and v1 have no extra part, and v0 has one bitmap for both images of an update. In compressed rows
events of MariaDB, `images` is compressed (`binlogio.events.mariadb`).
Source: libs/mysql/binlog/event/rows_event.h, Rows_event; sql/log_event.cc, Rows_log_event; v0: sql/log_event_old.cc of
5.1 to 5.7; MariaDB: sql/log_event.cc, binlog_buf_uncompress.
"""

from __future__ import annotations

from dataclasses import Field
from enum import IntEnum
from typing import TYPE_CHECKING, Any, ClassVar, Final

from construct import (
    Adapter,
    Construct,
    Container,
    GreedyBytes,
    IfThenElse,
    Int16ul,
    Pass,
    Struct,
    ValidationError,
    this,
)

from binlogio.constants import EventType, RowsFlag
from binlogio.events.base import NEW_HEADER, EventCodec, EventHeader
from binlogio.events.mariadb import MariadbCompressed
from binlogio.events.table_map import TableId
from binlogio.frozen import dataclass
from binlogio.primitives import LenencInt, bitmap, read_exactly


class _Extra(Construct):  # type: ignore[misc]
    """The extra row info of v2: a length, which includes its own two bytes, then bytes."""

    def _parse(self, stream: Any, context: Container, path: str) -> bytes:
        size = Int16ul._parsereport(stream, context, path)
        if size < Int16ul.sizeof():
            raise ValidationError(f"invalid size of the extra row info: {size} bytes, at least 2 expected", path=path)
        return read_exactly(stream, size - Int16ul.sizeof(), path)

    def _build(self, obj: bytes, stream: Any, context: Container, path: str) -> bytes:
        Int16ul._build(len(obj) + Int16ul.sizeof(), stream, context, path)
        stream.write(obj)
        return obj


class _NoExtra(Adapter):  # type: ignore[misc]
    """The extra row info of v0 and v1, which is always empty."""

    def _decode(self, obj: None, context: Container, path: str) -> bytes:
        return b""

    def _encode(self, obj: bytes, context: Container, path: str) -> None:
        if obj:
            raise ValidationError("this version of rows events has no extra row info", path=path)


class _SameAsPresent(Construct):  # type: ignore[misc]
    """No bytes: in v0, the bitmap `present` is also that of the after image."""

    def _parse(self, stream: Any, context: Container, path: str) -> bytes:
        return bytes(context.present)

    def _build(self, obj: bytes, stream: Any, context: Container, path: str) -> bytes:
        if obj != context.present:
            raise ValidationError("this version of update events has one bitmap for both images", path=path)
        return obj


def _layout(*after: Construct, images: Construct = GreedyBytes) -> Construct:
    return Struct(
        "table_id" / TableId(),
        "flags" / Int16ul,
        "extra" / IfThenElse(this._params.post_header_size == POST_HEADER_V2, _Extra(), _NoExtra(Pass)),
        "column_count" / LenencInt,
        "present" / bitmap(lambda ctx: ctx.column_count),
        *after,
        "images" / images,
    )


POST_HEADER_V2: Final = 6 + 2 + 2
POST_HEADER_V1: Final = 6 + 2
POST_HEADER_V0: Final = 4 + 2  # with the table id of four bytes of 5.1.4 and earlier

_PRESENT_AFTER: Final = "present_after" / bitmap(lambda ctx: ctx.column_count)
ROWS: Final = _layout()
UPDATE_ROWS: Final = _layout(_PRESENT_AFTER)
UPDATE_ROWS_V0: Final = _layout("present_after" / _SameAsPresent())
COMPRESSED_ROWS: Final = _layout(images=MariadbCompressed(GreedyBytes))
COMPRESSED_UPDATE_ROWS: Final = _layout(_PRESENT_AFTER, images=MariadbCompressed(GreedyBytes))


class RowsOperation(IntEnum):
    """The operation of a rows event. The kernel uses the same numbers."""

    INSERT = 0
    UPDATE = 1
    DELETE = 2
    PARTIAL_UPDATE = 3  # an update whose after images may contain JSON diffs

    @property
    def op(self) -> str:
        """The value of `op` in records: insert, update (also for partial updates) or delete."""
        return "update" if self is RowsOperation.PARTIAL_UPDATE else self.name.lower()


_STMT_END: Final = int(RowsFlag.STMT_END)


class RowsEvent:
    """The base class of rows events. The subclasses define the fields; `operation` tells them apart.

    `table_id` is that of a preceding TABLE_MAP_EVENT, `flags` are RowsFlag. `present` is the bitmap of the columns that
    the images have, lowest bit first, (column_count + 7) // 8 bytes. `images` are the encoded row images.
    """

    __slots__ = ()
    operation: ClassVar[RowsOperation]
    if TYPE_CHECKING:
        __dataclass_fields__: ClassVar[dict[str, Field[Any]]]
        table_id: int
        flags: int
        extra: bytes
        column_count: int
        present: bytes
        images: bytes
        header: EventHeader

    @property
    def ends_statement(self) -> bool:
        """True for the last rows event of a statement; the table maps before it are not valid after it."""
        return bool(self.flags & _STMT_END)


@dataclass(frozen=True, slots=True)
class WriteRowsEvent(RowsEvent):
    """Inserted rows. `images` contains one after image per row, with the columns in `present`."""

    operation: ClassVar = RowsOperation.INSERT

    table_id: int
    flags: int
    extra: bytes
    column_count: int
    present: bytes
    images: bytes
    header: EventHeader = NEW_HEADER


@dataclass(frozen=True, slots=True)
class DeleteRowsEvent(RowsEvent):
    """Deleted rows. `images` contains one before image per row, with the columns in `present`."""

    operation: ClassVar = RowsOperation.DELETE

    table_id: int
    flags: int
    extra: bytes
    column_count: int
    present: bytes
    images: bytes
    header: EventHeader = NEW_HEADER


@dataclass(frozen=True, slots=True)
class UpdateRowsEvent(RowsEvent):
    """Updated rows. `images` contains a before image (`present`) and an after image (`present_after`) per row."""

    operation: ClassVar = RowsOperation.UPDATE

    table_id: int
    flags: int
    extra: bytes
    column_count: int
    present: bytes
    present_after: bytes
    images: bytes
    header: EventHeader = NEW_HEADER


@dataclass(frozen=True, slots=True)
class PartialUpdateRowsEvent(RowsEvent):
    """As UpdateRowsEvent, but JSON columns of the after image may be diffs (binlog_row_value_options=PARTIAL_JSON)."""

    operation: ClassVar = RowsOperation.PARTIAL_UPDATE

    table_id: int
    flags: int
    extra: bytes
    column_count: int
    present: bytes
    present_after: bytes
    images: bytes
    header: EventHeader = NEW_HEADER


ROWS_EVENTS: Final = (WriteRowsEvent, UpdateRowsEvent, DeleteRowsEvent, PartialUpdateRowsEvent)
"""The classes of rows events."""

_V2: Final = (POST_HEADER_V2,)
_V1: Final = (POST_HEADER_V1, POST_HEADER_V0)
_V0: Final = (POST_HEADER_V1, POST_HEADER_V0)

CODECS: Final = (
    EventCodec(EventType.PRE_GA_WRITE_ROWS_EVENT, ROWS, WriteRowsEvent, _V0),
    EventCodec(EventType.PRE_GA_UPDATE_ROWS_EVENT, UPDATE_ROWS_V0, UpdateRowsEvent, _V0),
    EventCodec(EventType.PRE_GA_DELETE_ROWS_EVENT, ROWS, DeleteRowsEvent, _V0),
    EventCodec(EventType.WRITE_ROWS_EVENT_V1, ROWS, WriteRowsEvent, _V1),
    EventCodec(EventType.UPDATE_ROWS_EVENT_V1, UPDATE_ROWS, UpdateRowsEvent, _V1),
    EventCodec(EventType.DELETE_ROWS_EVENT_V1, ROWS, DeleteRowsEvent, _V1),
    EventCodec(EventType.WRITE_ROWS_EVENT, ROWS, WriteRowsEvent, _V2),
    EventCodec(EventType.UPDATE_ROWS_EVENT, UPDATE_ROWS, UpdateRowsEvent, _V2),
    EventCodec(EventType.DELETE_ROWS_EVENT, ROWS, DeleteRowsEvent, _V2),
    EventCodec(EventType.PARTIAL_UPDATE_ROWS_EVENT, UPDATE_ROWS, PartialUpdateRowsEvent, _V2),
    EventCodec(EventType.WRITE_ROWS_COMPRESSED_EVENT_V1, COMPRESSED_ROWS, WriteRowsEvent, _V1),
    EventCodec(EventType.UPDATE_ROWS_COMPRESSED_EVENT_V1, COMPRESSED_UPDATE_ROWS, UpdateRowsEvent, _V1),
    EventCodec(EventType.DELETE_ROWS_COMPRESSED_EVENT_V1, COMPRESSED_ROWS, DeleteRowsEvent, _V1),
    EventCodec(EventType.WRITE_ROWS_COMPRESSED_EVENT, COMPRESSED_ROWS, WriteRowsEvent, _V2),
    EventCodec(EventType.UPDATE_ROWS_COMPRESSED_EVENT, COMPRESSED_UPDATE_ROWS, UpdateRowsEvent, _V2),
    EventCodec(EventType.DELETE_ROWS_COMPRESSED_EVENT, COMPRESSED_ROWS, DeleteRowsEvent, _V2),
)
