"""Columns: the shape (from type code and metadata of a table map), the plan, and common parts of value layouts.

The modules of the type families share this code. `binlogio.rows.plan` creates the plans.

Source: sql/rpl_utility.cc, table_def; sql/rpl_utility.h, calc_field_size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from construct import Adapter, Construct, Container, Int8ul, Int16ul, Int24ul, Int32ul, stream_write

from binlogio.constants import ColumnType
from binlogio.errors import BinlogFormatError
from binlogio.frozen import dataclass
from binlogio.options import DEFAULT_LIMITS
from binlogio.primitives import read_exactly

if TYPE_CHECKING:
    from io import BytesIO

BLOBS: Final = (ColumnType.TINY_BLOB, ColumnType.MEDIUM_BLOB, ColumnType.LONG_BLOB, ColumnType.BLOB)
INTEGERS: Final = (ColumnType.TINY, ColumnType.SHORT, ColumnType.INT24, ColumnType.LONG, ColumnType.LONGLONG)
OLD_TEMPORAL: Final = frozenset({ColumnType.TIME, ColumnType.DATETIME, ColumnType.TIMESTAMP})
NEW_TEMPORAL: Final = (ColumnType.TIME2, ColumnType.DATETIME2, ColumnType.TIMESTAMP2)
COMPRESSED: Final = (ColumnType.VARCHAR_COMPRESSED, ColumnType.BLOB_COMPRESSED)
STRINGS: Final = frozenset({*BLOBS, ColumnType.STRING, ColumnType.VARCHAR, *COMPRESSED})
SIZED: Final = STRINGS | {ColumnType.JSON, ColumnType.GEOMETRY, ColumnType.VECTOR}
"""Types whose values begin with their length in a row image."""

_MYSQL_VECTOR_PACK_LENGTH: Final = 4


@dataclass(frozen=True, slots=True)
class Shape:
    """Type, sizes and digits of a column, from type code and metadata. Attributes that the type does not have are 0.

    `type` is the real type. `length` is in bytes for strings, in bits for BIT. `pack_length` is the size in bytes of
    the length prefix of a string, or of an ENUM, SET, BIT or floating-point value. `fsp` is the number of fraction
    digits.
    """

    type: ColumnType
    length: int = 0
    pack_length: int = 0
    precision: int = 0
    scale: int = 0
    fsp: int = 0


def plain_shape(kind: ColumnType, metadata: int) -> Shape:
    """Return the shape of a type without metadata."""
    return Shape(kind)


def prefixed_shape(kind: ColumnType, metadata: int) -> Shape:
    """Return the shape of a type whose metadata is the size of its length prefix.

    Raises:
        BinlogFormatError: the size is not 1 to 4 bytes.
    """
    if not 1 <= metadata <= 4:
        raise BinlogFormatError("invalid size of a length prefix", expected="1 to 4 bytes", found=metadata)
    return Shape(kind, length=(1 << 8 * metadata) - 1, pack_length=metadata)


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnPlan:
    """The plan of one column. Attributes that its type does not have are 0 or None.

    `position` counts from 0. `type` is the real type: ENUM or SET, for which a table map has STRING, and STRING for
    VAR_STRING. `length` is in bytes for strings, in bits for BIT. `pack_length` is the size in bytes of the length
    prefix of a string, or of an ENUM, SET, BIT or floating-point value. `unsigned` is False and `collation_id` None if
    unknown. `fsp` is the number of fraction digits; `fsp_assumed` is True for a column of MariaDB's old temporal types
    whose number of fraction digits is unknown, so that 0 is assumed. `native` is MariaDB's `uuid`, `inet4` or `inet6`;
    a table map has BINARY for it. `generated` is True for a column that is generated according to a definition or DDL.
    `is_row_hash` is True for MariaDB's hidden column DB_ROW_HASH_n, the hash of a UNIQUE key over long columns, which
    SQL cannot name; it is also `generated`. `opened_size` is the largest size in bytes of a compressed value after
    decompression.
    """

    position: int
    name: str | None = None
    type: ColumnType
    metadata: int = 0
    nullable: bool = True
    unsigned: bool = False
    length: int = 0
    pack_length: int = 0
    precision: int = 0
    scale: int = 0
    fsp: int = 0
    fsp_assumed: bool = False
    collation_id: int | None = None
    members: tuple[str, ...] | None = None
    geometry_type: int | None = None
    dimension: int | None = None
    visible: bool = True
    native: str | None = None
    generated: bool = False
    is_row_hash: bool = False
    opened_size: int = DEFAULT_LIMITS.opened_size

    @property
    def vector_function(self) -> str:
        """The SQL function that converts text to a VECTOR: that of MariaDB if the column is stored as VARBINARY."""
        return "STRING_TO_VECTOR" if self.pack_length == _MYSQL_VECTOR_PACK_LENGTH else "VEC_FromText"

    @property
    def label(self) -> str:
        """The name of the column; if it is unknown, `@` and the number of the column from 1."""
        return self.name if self.name is not None else f"@{self.position + 1}"


@dataclass(frozen=True, slots=True)
class ColumnKind:
    """How the kernel decodes and encodes the values of a column.

    `kind` is a constant of `binlogio._kernel.column_kinds`. `arrow` is the name of the Arrow type for
    `binlogio.arrow.types`. `first`, `second` and `names` are parameters of the kind, as in the kernel's Column.
    `charset` is the name of a multi-byte character set, or None. `width` is the size in bytes of a fixed-size value in
    a row image, or -n for a value with a length prefix of n bytes.
    """

    kind: int
    arrow: str
    first: int = 0
    second: int = 0
    names: tuple[bytes, ...] | None = None
    charset: str | None = None
    width: int = 0


ShapeMaker: TypeAlias = Callable[[ColumnType, int], Shape]
"""Returns the shape for a type code and metadata."""

LayoutMaker: TypeAlias = Callable[[ColumnPlan], Construct]
KindMaker: TypeAlias = Callable[[ColumnPlan], ColumnKind]
"""Returns the kind of a column without its `width`, which `binlogio.values.kinds` sets."""


def of_kind(kind: int, arrow: str) -> KindMaker:
    """Return a `KindMaker` for a type whose kind has no parameters."""
    found = ColumnKind(kind, arrow)
    return lambda column: found


# ------------------------------------------------------------------------------------------------------------ layouts

_SIZES: Final = {1: Int8ul, 2: Int16ul, 3: Int24ul, 4: Int32ul}


class SizedBytes(Construct):  # type: ignore[misc]
    """A size, then as many bytes. A size beyond the end of the data does not allocate memory.

    `most` is the largest size in bytes that is accepted when building.
    """

    def __init__(self, pack_length: int, most: int) -> None:
        super().__init__()
        self.size = _SIZES[pack_length]
        self.most = most

    def _parse(self, stream: BytesIO, context: Container, path: str) -> bytes:
        return read_exactly(stream, self.size._parsereport(stream, context, path), path)

    def _build(self, obj: bytes, stream: BytesIO, context: Container, path: str) -> bytes:
        if len(obj) > self.most:
            raise BinlogFormatError(
                "the value is too long for the column", expected=f"{self.most} bytes", found=len(obj)
            )
        self.size._build(len(obj), stream, context, path)
        stream_write(stream, obj, len(obj), path)
        return obj


class CodedValue(Adapter):  # type: ignore[misc]
    """The values of `source`, converted by the functions `decode` and `encode`."""

    def __init__(self, source: Construct, decode: Callable[[Any], Any], encode: Callable[[Any], Any]) -> None:
        super().__init__(source)
        self.decode = decode
        self.encode = encode

    def _decode(self, obj: Any, context: Container, path: str) -> Any:
        return self.decode(obj)

    def _encode(self, obj: Any, context: Container, path: str) -> Any:
        return self.encode(obj)


def has_old_temporal(types: Iterable[int]) -> bool:
    """Return whether a table has a TIME, DATETIME or TIMESTAMP column of servers before 5.6.

    MySQL 9 takes the bytes of such events for those of the present types: wrong values, or ERROR 1610 (measured: 9.7).
    """
    return not OLD_TEMPORAL.isdisjoint(types)
