"""TABLE_MAP_EVENT: the columns of the rows events that follow.

Contains the frame, the metadata of each column type, and the optional metadata. `binlogio.rows.plan` interprets the
columns.

    table_map_event := table_id: u48 (u32 if the post-header has 6 bytes)  flags: u16                     -- post-header
                       schema: u8 length, bytes, 0x00   table: u8 length, bytes, 0x00
                       column_count: lenenc   column_types: u8[column_count]   metadata: lenenc length, bytes
                       nullable: bits[column_count]   optional_metadata: field*                           -- body
    field           := kind: u8   value: lenenc length, bytes

Source: libs/mysql/binlog/event/rows_event.h, Table_map_event; sql/log_event.cc,
Table_map_log_event::save_field_metadata.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

from construct import (
    Adapter,
    Bytes,
    Const,
    Construct,
    Container,
    GreedyBytes,
    Int8ub,
    Int8ul,
    Int16ub,
    Int16ul,
    Int24ul,
    Int32ul,
    Struct,
    Terminated,
    ValidationError,
)

from binlogio.constants import ColumnType, EventType, OptionalMetadataType
from binlogio.events.base import NEW_HEADER, EventCodec, EventHeader, ParseContext
from binlogio.events.format_description import server_version_numbers
from binlogio.frozen import dataclass
from binlogio.primitives import (
    BitsMsbFirst,
    Bytes8,
    Int48ul,
    LenencBytes,
    LenencInt,
    Many,
    Record,
    Utf8,
    Whole,
    bitmap_size,
)

# The layout of the metadata of each column type; other types have no metadata. The byte order depends on the type.
_ONE_BYTE: Final = Int8ul
METADATA: Final[dict[int, Construct]] = {
    ColumnType.FLOAT: _ONE_BYTE,
    ColumnType.DOUBLE: _ONE_BYTE,
    ColumnType.TIMESTAMP2: _ONE_BYTE,
    ColumnType.DATETIME2: _ONE_BYTE,
    ColumnType.TIME2: _ONE_BYTE,
    ColumnType.TINY_BLOB: _ONE_BYTE,
    ColumnType.MEDIUM_BLOB: _ONE_BYTE,
    ColumnType.LONG_BLOB: _ONE_BYTE,
    ColumnType.BLOB: _ONE_BYTE,
    ColumnType.BLOB_COMPRESSED: _ONE_BYTE,
    ColumnType.JSON: _ONE_BYTE,
    ColumnType.GEOMETRY: _ONE_BYTE,
    ColumnType.VECTOR: _ONE_BYTE,
    ColumnType.VARCHAR: Int16ul,  # the maximum length of a value, in bytes
    ColumnType.VARCHAR_COMPRESSED: Int16ul,
    ColumnType.BIT: Int16ul,  # bits % 8, bits // 8
    ColumnType.NEWDECIMAL: Int16ub,  # precision, scale
    ColumnType.STRING: Int16ub,  # real type (with two bits of the length), length
    ColumnType.VAR_STRING: Int16ub,
    ColumnType.ENUM: Int16ub,
    ColumnType.SET: Int16ub,
}


def _metadata_layout(column_type: int, element_type: int | None = None) -> Construct | None:
    if column_type == ColumnType.VARCHAR and element_type is not None:
        return Int24ul  # the maximum length in an array has three bytes
    return METADATA.get(column_type)


class _ColumnMetadata(Adapter):  # type: ignore[misc]
    """The metadata block as one integer per column.

    An array (multi-valued index) has the type of its elements first: `element_type | element_metadata << 8`.
    """

    def _decode(self, obj: bytes, context: Container, path: str) -> tuple[int, ...]:
        values, at = [], 0
        for column_type in context.column_types:
            shift, value = 0, 0
            layout = _metadata_layout(column_type)
            if column_type == ColumnType.TYPED_ARRAY:
                value, shift = Int8ub.parse(obj[at : at + 1]), 8
                layout, at = _metadata_layout(value, value), at + 1
            if layout is not None:
                value |= layout.parse(obj[at : at + layout.sizeof()]) << shift
                at += layout.sizeof()
            values.append(value)
        if at != len(obj):
            raise ValidationError(f"{len(obj) - at} bytes of metadata after the last column", path=path)
        return tuple(values)

    def _encode(self, obj: tuple[int, ...], context: Container, path: str) -> bytes:
        if len(obj) != len(context.column_types):
            raise ValidationError(f"{len(obj)} metadata values for {len(context.column_types)} columns", path=path)
        block = b""
        for column_type, value in zip(context.column_types, obj, strict=True):
            layout, rest = _metadata_layout(column_type), value
            if column_type == ColumnType.TYPED_ARRAY:
                block += Int8ub.build(value & 0xFF)
                layout, rest = _metadata_layout(value & 0xFF, value & 0xFF), value >> 8
            block += layout.build(rest) if layout is not None else b""
        return block


class _Nullable(Adapter):  # type: ignore[misc]
    """The bitmap of nullable columns, lowest bit first, as booleans. Bits after the last column must be zero."""

    def _decode(self, obj: bytes, context: Container, path: str) -> tuple[bool, ...]:
        count = len(context.column_types)
        if int.from_bytes(obj, "little") >> count:
            raise ValidationError("a null bit past the last column is set", path=path)
        return tuple(bool(obj[i >> 3] >> (i & 7) & 1) for i in range(count))

    def _encode(self, obj: tuple[bool, ...], context: Container, path: str) -> bytes:
        if len(obj) != len(context.column_types):
            raise ValidationError(f"{len(obj)} null bits for {len(context.column_types)} columns", path=path)
        return sum(bit << i for i, bit in enumerate(obj)).to_bytes(bitmap_size(len(obj)), "little")


class _ColumnTypes(Adapter):  # type: ignore[misc]
    """Column types as a tuple of integers."""

    def _decode(self, obj: bytes, context: Container, path: str) -> tuple[int, ...]:
        return tuple(obj)

    def _encode(self, obj: tuple[int, ...], context: Container, path: str) -> bytes:
        return bytes(obj)


@dataclass(frozen=True, slots=True)
class DefaultCharset:
    """Collation ids of character columns: a default, and exceptions as pairs (index of the column, collation id).

    The index counts character columns only, from 0.
    """

    default: int
    exceptions: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class MetadataField:
    """One field of the optional metadata. `kind` (`OptionalMetadataType`) determines the type of `value`.

    An unknown kind has its value as bytes.
    """

    kind: int
    value: Any


class _Pair(Adapter):  # type: ignore[misc]
    """Two length-encoded integers as a tuple."""

    def __init__(self) -> None:
        super().__init__(Struct("first" / LenencInt, "second" / LenencInt))

    def _decode(self, obj: Container, context: Container, path: str) -> tuple[int, int]:
        return obj.first, obj.second

    def _encode(self, obj: tuple[int, int], context: Container, path: str) -> dict[str, int]:
        return {"first": obj[0], "second": obj[1]}


class _StringLists(Construct):  # type: ignore[misc]
    """The members of one ENUM or SET column: their number, then their bytes in the character set of the column."""

    def _parse(self, stream: Any, context: Container, path: str) -> tuple[bytes, ...]:
        count = LenencInt._parsereport(stream, context, path)
        return tuple(LenencBytes._parsereport(stream, context, path) for _ in range(count))

    def _build(self, obj: tuple[bytes, ...], stream: Any, context: Container, path: str) -> tuple[bytes, ...]:
        LenencInt._build(len(obj), stream, context, path)
        for member in obj:
            LenencBytes._build(member, stream, context, path)
        return obj


_DEFAULT_CHARSET: Final = Record(DefaultCharset, Struct("default" / LenencInt, "exceptions" / Many(_Pair())))
_INTEGERS: Final = Many(LenencInt)
OPTIONAL_METADATA: Final[dict[int, Construct]] = {
    OptionalMetadataType.SIGNEDNESS: BitsMsbFirst,
    OptionalMetadataType.DEFAULT_CHARSET: _DEFAULT_CHARSET,
    OptionalMetadataType.COLUMN_CHARSET: _INTEGERS,
    OptionalMetadataType.COLUMN_NAME: Many(Utf8(LenencBytes)),
    OptionalMetadataType.SET_STR_VALUE: Many(_StringLists()),
    OptionalMetadataType.ENUM_STR_VALUE: Many(_StringLists()),
    OptionalMetadataType.GEOMETRY_TYPE: _INTEGERS,
    OptionalMetadataType.SIMPLE_PRIMARY_KEY: _INTEGERS,
    OptionalMetadataType.PRIMARY_KEY_WITH_PREFIX: Many(_Pair()),
    OptionalMetadataType.ENUM_AND_SET_DEFAULT_CHARSET: _DEFAULT_CHARSET,
    OptionalMetadataType.ENUM_AND_SET_COLUMN_CHARSET: _INTEGERS,
    OptionalMetadataType.COLUMN_VISIBILITY: BitsMsbFirst,
    OptionalMetadataType.VECTOR_DIMENSIONALITY: _INTEGERS,
}


class _MetadataField(Construct):  # type: ignore[misc]
    """Kind, length and value; the value must use all bytes of its length."""

    def _parse(self, stream: Any, context: Container, path: str) -> MetadataField:
        kind = Int8ub._parsereport(stream, context, path)
        layout = OPTIONAL_METADATA.get(kind, GreedyBytes)
        return MetadataField(kind, Whole(LenencBytes, layout)._parsereport(stream, context, path))

    def _build(self, obj: MetadataField, stream: Any, context: Container, path: str) -> MetadataField:
        Int8ub._build(obj.kind, stream, context, path)
        layout = OPTIONAL_METADATA.get(obj.kind, GreedyBytes)
        Whole(LenencBytes, layout)._build(obj.value, stream, context, path)
        return obj


_SHORT_POST_HEADER: Final = 4 + 2
_LAST_WITHOUT_METADATA: Final = (5, 1, 17)


class TableId(Construct):  # type: ignore[misc]
    """A table id: 6 bytes, or 4 if the post-header has the short form of the first 5.1 releases."""

    def __init__(self, short_post_header: int = _SHORT_POST_HEADER) -> None:
        super().__init__()
        self.short_post_header = short_post_header

    def _layout(self, context: Container) -> Construct:
        return Int32ul if context._params.post_header_size == self.short_post_header else Int48ul

    def _parse(self, stream: Any, context: Container, path: str) -> int:
        return int(self._layout(context)._parsereport(stream, context, path))

    def _build(self, obj: int, stream: Any, context: Container, path: str) -> int:
        self._layout(context)._build(obj, stream, context, path)
        return obj


def _may_lack_metadata(context: Container) -> bool:
    """Return True for logs of 5.1 up to 5.1.17. In other logs, a table map that ends at the column types is damaged."""
    params = context._params
    if not context.column_types:  # without columns, the empty tuple means that the field is present and empty
        return False
    if params.post_header_size == _SHORT_POST_HEADER:
        return True
    return (5, 1, 0) <= server_version_numbers(params.context.server_version) <= _LAST_WITHOUT_METADATA


class _SinceMetadata(Construct):  # type: ignore[misc]
    """A field that servers before 5.1.18 do not always write: an empty tuple if the event ends at the column types."""

    def __init__(self, layout: Construct) -> None:
        super().__init__()
        self.layout = layout

    def _parse(self, stream: Any, context: Container, path: str) -> tuple[Any, ...]:
        at = stream.tell()
        if _may_lack_metadata(context) and not stream.read(1):
            return ()
        stream.seek(at)
        values: tuple[Any, ...] = self.layout._parsereport(stream, context, path)
        return values

    def _build(self, obj: tuple[Any, ...], stream: Any, context: Container, path: str) -> tuple[Any, ...]:
        if obj or not _may_lack_metadata(context):
            self.layout._build(obj, stream, context, path)
        return obj


TABLE_MAP: Final = Struct(
    "table_id" / TableId(),
    "flags" / Int16ul,
    "schema" / Utf8(Bytes8),
    Const(b"\0"),
    "table" / Utf8(Bytes8),
    Const(b"\0"),
    "column_types" / _ColumnTypes(LenencBytes),
    "metadata" / _SinceMetadata(_ColumnMetadata(LenencBytes)),
    "nullable" / _SinceMetadata(_Nullable(Bytes(lambda ctx: bitmap_size(len(ctx.column_types))))),
    "optional_metadata" / Many(_MetadataField()),
    Terminated,
)


@dataclass(frozen=True, slots=True)
class TableMapEvent:
    """Maps a table id to a table and its column types, for the rows events of the same statement.

    `column_types`, `metadata` and `nullable` have one element per column. `metadata[i]` is an integer, 0 if the type
    has no metadata; `METADATA` defines its size and byte order. `metadata` and `nullable` are empty if a server up to
    5.1.17 did not write them. `optional_metadata` is in the order of the file.
    """

    table_id: int
    flags: int
    schema: str
    table: str
    column_types: tuple[int, ...]
    metadata: tuple[int, ...]
    nullable: tuple[bool, ...]
    optional_metadata: tuple[MetadataField, ...] = ()
    header: EventHeader = NEW_HEADER

    def optional(self, kind: int) -> Any:
        """Return the value of a field of the optional metadata, or None if the event does not have it."""
        for field in self.optional_metadata:
            if field.kind == kind:
                return field.value
        return None


# -------------------------------------------------------------------- fast path for usual table maps, without construct

PLAIN_POST_HEADER: Final = 6 + 2
"""The post-header size in bytes of a usual table map: table id and flags."""

_MOST_REMEMBERED: Final = 1 << 11  # the largest size in bytes of a column part that is cached after parsing
_WIDER: Final = {0xFC: 2, 0xFD: 3, 0xFE: 8}  # bytes that follow the first one of a length-encoded integer
_METADATA_BYTES: Final = {
    int(code): (layout.sizeof(), "big" if layout.fmtstr.startswith(">") else "little")
    for code, layout in METADATA.items()
}
_BITS: Final = tuple(BitsMsbFirst.parse(bytes([byte])) for byte in range(256))

_Columns = tuple[tuple[int, ...], tuple[int, ...], tuple[bool, ...], tuple[MetadataField, ...]]


def parse_plain_table_map(header: EventHeader, body: bytes) -> TableMapEvent | None:
    """Return the event of a usual table map with a `PLAIN_POST_HEADER`; None if construct has to parse the body.

    The parsed columns are cached by their bytes, and shared by tables with equal columns.
    """
    try:
        schema_end = PLAIN_POST_HEADER + 1 + body[PLAIN_POST_HEADER]
        table_at = schema_end + 2
        table_end = table_at + body[table_at - 1]
        if body[schema_end] or body[table_end]:
            return None
        data = body[table_end + 1 :]
        columns = _known_columns(data) if len(data) <= _MOST_REMEMBERED else _parse_columns(data)
    except (LookupError, ValueError):
        return None
    return TableMapEvent(
        int.from_bytes(body[:6], "little"),
        int.from_bytes(body[6:8], "little"),
        body[PLAIN_POST_HEADER + 1 : schema_end].decode("utf-8", "surrogateescape"),
        body[table_at:table_end].decode("utf-8", "surrogateescape"),
        *columns,
        header,
    )


def _parse_columns(data: bytes) -> _Columns:
    """Return column types, metadata, nullable columns and optional metadata of a table map.

    Raises:
        LookupError, ValueError: the bytes are not a usual table map.
    """
    types, at = _sized(data, 0)
    block, at = _sized(data, at)
    metadata, used = [], 0
    for code in types:
        if code == ColumnType.TYPED_ARRAY:
            raise ValueError("an array")
        size, order = _METADATA_BYTES.get(code, (0, "little"))
        metadata.append(int.from_bytes(block[used : used + size], order))  # type: ignore[arg-type]
        used += size
    if used != len(block):
        raise ValueError("more or less metadata than the columns have")
    nulls_end = at + bitmap_size(len(types))
    nulls = int.from_bytes(data[at:nulls_end], "little")
    if nulls_end > len(data) or nulls >> len(types):
        raise ValueError("more or fewer null bits than columns")
    nullable = tuple(bool(nulls >> i & 1) for i in range(len(types)))
    fields, at = [], nulls_end
    while at < len(data):
        kind = data[at]
        value, at = _sized(data, at + 1)
        fields.append(MetadataField(kind, _FIELDS.get(kind, bytes)(value)))
    return tuple(types), tuple(metadata), nullable, tuple(fields)


_known_columns: Final = lru_cache(maxsize=1 << 9)(_parse_columns)


def _number(data: bytes, at: int) -> tuple[int, int]:
    """Return the length-encoded integer at offset `at`, and the offset after it."""
    first = data[at]
    if first < 0xFB:
        return first, at + 1
    end = at + 1 + _WIDER[first]
    if end > len(data):
        raise ValueError("an integer that is cut short")
    return int.from_bytes(data[at + 1 : end], "little"), end


def _sized(data: bytes, at: int) -> tuple[bytes, int]:
    """Return the length-encoded bytes at offset `at`, and the offset after them."""
    size, at = _number(data, at)
    if size > len(data) - at:
        raise ValueError("bytes that are cut short")
    return data[at : at + size], at + size


def _numbers(value: bytes) -> tuple[int, ...]:
    if not value or max(value) < 0xFB:
        return tuple(value)
    found, at = [], 0
    while at < len(value):
        number, at = _number(value, at)
        found.append(number)
    return tuple(found)


def _pairs(value: bytes) -> tuple[tuple[int, int], ...]:
    numbers = _numbers(value)
    return tuple(zip(numbers[::2], numbers[1::2], strict=True))


def _default_charset(value: bytes) -> DefaultCharset:
    default, *rest = _numbers(value)
    return DefaultCharset(default, tuple(zip(rest[::2], rest[1::2], strict=True)))


def _bits(value: bytes) -> tuple[bool, ...]:
    return _BITS[value[0]] if len(value) == 1 else tuple(bit for byte in value for bit in _BITS[byte])


def _names(value: bytes) -> tuple[str, ...]:
    found, at = [], 0
    while at < len(value):
        name, at = _sized(value, at)
        found.append(name.decode("utf-8", "surrogateescape"))
    return tuple(found)


def _members(value: bytes) -> tuple[tuple[bytes, ...], ...]:
    found, at = [], 0
    while at < len(value):
        count, at = _number(value, at)
        if count > len(value) - at:
            raise ValueError("more members than bytes")
        members = []
        for _ in range(count):
            member, at = _sized(value, at)
            members.append(member)
        found.append(tuple(members))
    return tuple(found)


_FIELDS: Final[dict[int, Callable[[bytes], Any]]] = {
    OptionalMetadataType.SIGNEDNESS: _bits,
    OptionalMetadataType.DEFAULT_CHARSET: _default_charset,
    OptionalMetadataType.COLUMN_CHARSET: _numbers,
    OptionalMetadataType.COLUMN_NAME: _names,
    OptionalMetadataType.SET_STR_VALUE: _members,
    OptionalMetadataType.ENUM_STR_VALUE: _members,
    OptionalMetadataType.GEOMETRY_TYPE: _numbers,
    OptionalMetadataType.SIMPLE_PRIMARY_KEY: _numbers,
    OptionalMetadataType.PRIMARY_KEY_WITH_PREFIX: _pairs,
    OptionalMetadataType.ENUM_AND_SET_DEFAULT_CHARSET: _default_charset,
    OptionalMetadataType.ENUM_AND_SET_COLUMN_CHARSET: _numbers,
    OptionalMetadataType.COLUMN_VISIBILITY: _bits,
    OptionalMetadataType.VECTOR_DIMENSIONALITY: _numbers,
}


CODECS: Final = (EventCodec(EventType.TABLE_MAP_EVENT, TABLE_MAP, TableMapEvent, post_header_sizes=(8, 6)),)


def parse_table_map(header: EventHeader, body: bytes, context: ParseContext) -> TableMapEvent:
    """Return the event of a body as its codec does, fast if it is a usual one.

    Raises:
        BinlogFormatError: the body does not fit the layout.
        UnsupportedFeature: the post-header size is not supported.
    """
    is_plain = context.post_header_size(EventType.TABLE_MAP_EVENT, PLAIN_POST_HEADER) == PLAIN_POST_HEADER
    return (parse_plain_table_map(header, body) if is_plain else None) or CODECS[0].parse(header, body, context)
