"""Column descriptions for the kernel's encoder, for Arrow buffers and for Python objects.

Maps columns to the kernel's kinds of cells. Columns without a kind, such as text in multi-byte
character sets, use `layout`. Needs the compiled kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from binlogio._kernel import column_kinds as kinds
from binlogio._kernel import row_encoder
from binlogio.constants import ColumnType
from binlogio.values.charsets import BINARY_COLLATION, MULTI_BYTE, UTF8, Charset, charset_of
from binlogio.values.column import BLOBS, COMPRESSED, SIZED, STRINGS
from binlogio.values.decimal import MAX_DECIMAL128, decimal_size
from binlogio.values.enum_set import EnumValue, SetValue
from binlogio.values.json import JsonDocument

if TYPE_CHECKING:
    from binlogio.rows.plan import TablePlan
    from binlogio.values.column import ColumnPlan

MAX_SET_MEMBERS: Final = 64


def main_cells(column: ColumnPlan) -> row_encoder.Cells | None:
    """Return cells for the values that the column is decoded to; None if the kernel does not encode them."""
    make = _MAIN.get(column.type)
    return None if make is None else make(column)


def bytes_cells(column: ColumnPlan) -> row_encoder.Cells | None:
    """Return cells for values given as bytes, which are kept as they are: text, binary JSON, GEOMETRY with its SRID."""
    if column.type not in _BYTES:
        return None
    if column.type in COMPRESSED:
        return compressed_cells(column, kinds.BYTES)
    if column.type == ColumnType.STRING and column.native is not None:
        return sized_cells(column, kinds.PADDED, first=column.length)
    padded = column.type == ColumnType.STRING and column.collation_id == BINARY_COLLATION
    return sized_cells(column, kinds.PADDED if padded else kinds.BYTES)


def diffs_cells(column: ColumnPlan) -> row_encoder.Cells:
    """Return cells for the JSON diffs of a partial update."""
    return sized_cells(column, kinds.DIFFS)


def number_cells(column: ColumnPlan) -> row_encoder.Cells | None:
    """Return cells for the values of ENUM and SET columns given as numbers."""
    if column.type == ColumnType.ENUM:
        return row_encoder.Cells(kinds.LITTLE16, column.pack_length)
    if column.type == ColumnType.SET:
        return row_encoder.Cells(kinds.LITTLE64, column.pack_length, 8 * column.pack_length)
    return None


def sized_cells(
    column: ColumnPlan, kind: int, *, first: int = 0, trim: bool = False, table: bytes | None = None
) -> row_encoder.Cells:
    """Return cells for values after their length."""
    return row_encoder.Cells(kind, column.pack_length, first=first, limit=column.length, trim=trim, table=table)


def compressed_cells(column: ColumnPlan, kind: int, *, table: bytes | None = None) -> row_encoder.Cells:
    """Return cells for values of MariaDB's compressed columns, which are of `kind` before they are compressed."""
    return sized_cells(column, kinds.COMPRESSED, first=kind, table=table)


_COPIES: Final = {
    ColumnType.TINY: (kinds.COPY1, 1),
    ColumnType.SHORT: (kinds.COPY2, 2),
    ColumnType.LONG: (kinds.COPY4, 4),
    ColumnType.LONGLONG: (kinds.COPY8, 8),
    ColumnType.FLOAT: (kinds.COPY4, 4),
    ColumnType.DOUBLE: (kinds.COPY8, 8),
    ColumnType.YEAR: (kinds.YEAR, 1),
    ColumnType.DATE: (kinds.DATE, 3),
    ColumnType.NEWDATE: (kinds.DATE, 3),
}
_TEMPORAL: Final = {
    ColumnType.DATETIME2: (kinds.DATETIME2, kinds.DATETIME2),
    ColumnType.TIMESTAMP2: (kinds.TIMESTAMP2, kinds.TIMESTAMP2),
    ColumnType.TIME2: (kinds.TIME2, kinds.TIME2),
    ColumnType.DATETIME: (kinds.OLD_DATETIME, kinds.HIRES_DATETIME),
    ColumnType.TIMESTAMP: (kinds.OLD_TIMESTAMP, kinds.HIRES_TIMESTAMP),
    ColumnType.TIME: (kinds.OLD_TIME, kinds.HIRES_TIME),
}
"""Type -> kind without and with fraction digits."""


def _copied(column: ColumnPlan) -> row_encoder.Cells:
    return row_encoder.Cells(*_COPIES[column.type])


def _int24(column: ColumnPlan) -> row_encoder.Cells:
    return row_encoder.Cells(kinds.UINT24 if column.unsigned else kinds.INT24, 3)


def _decimal(column: ColumnPlan) -> row_encoder.Cells:
    kind = kinds.DECIMAL128 if column.precision <= MAX_DECIMAL128 else kinds.DECIMAL256
    return row_encoder.Cells(kind, decimal_size(column.precision, column.scale), column.precision, column.scale)


def _temporal(column: ColumnPlan) -> row_encoder.Cells:
    return row_encoder.Cells(_TEMPORAL[column.type][column.fsp > 0], 0, column.fsp)


def _bit(column: ColumnPlan) -> row_encoder.Cells:
    return row_encoder.Cells(kinds.BITS, column.pack_length, column.length)


def _enum(column: ColumnPlan) -> row_encoder.Cells | None:
    return number_cells(column) if column.members is None else _names(column, kinds.ENUM_NAMES, column.members)


def _set(column: ColumnPlan) -> row_encoder.Cells | None:
    members = column.members
    if members is None:
        return number_cells(column)
    if len(members) > MAX_SET_MEMBERS or len(set(members)) < len(members):
        return None
    return _names(column, kinds.SET_NAMES, members)


def _names(column: ColumnPlan, kind: int, members: tuple[str, ...]) -> row_encoder.Cells:
    names = [name.encode("utf-8", "surrogateescape") for name in members]
    return row_encoder.Cells(kind, column.pack_length, names=names)


def _string(column: ColumnPlan) -> row_encoder.Cells | None:
    if column.native is not None:
        return sized_cells(column, _NATIVE[column.native])
    charset = charset_of(column.collation_id)
    if charset is None:
        return bytes_cells(column)
    if charset.name in MULTI_BYTE:
        return None
    trim = column.type == ColumnType.STRING
    if charset.name in UTF8:
        return sized_cells(column, kinds.UTF8, trim=trim)
    return sized_cells(column, kinds.LATIN, trim=trim, table=single_byte_codes(charset))


_NATIVE: Final = {"uuid": kinds.UUID, "inet4": kinds.INET4, "inet6": kinds.INET6}


def _compressed(column: ColumnPlan) -> row_encoder.Cells | None:
    charset = charset_of(column.collation_id)
    if charset is None:
        return bytes_cells(column)
    if charset.name in MULTI_BYTE:
        return None
    if charset.name in UTF8:
        return compressed_cells(column, kinds.UTF8)
    return compressed_cells(column, kinds.LATIN, table=single_byte_codes(charset))


@lru_cache(maxsize=64)
def single_byte_codes(charset: Charset) -> bytes:
    """Return the byte of each character of the basic plane in a single-byte character set; 0 if it has none."""
    table = bytearray(1 << 16)
    for byte in range(256):
        try:
            character = charset.decode(bytes([byte]))
            table[ord(character)] = charset.encode(character)[0]
        except UnicodeError:
            continue
    return bytes(table)


def _vector(column: ColumnPlan) -> row_encoder.Cells:
    return sized_cells(column, kinds.VECTOR, first=-1 if column.dimension is None else column.dimension)


_MAIN: Final[dict[ColumnType, Callable[[ColumnPlan], row_encoder.Cells | None]]] = {
    **dict.fromkeys(_COPIES, _copied),
    ColumnType.INT24: _int24,
    ColumnType.NEWDECIMAL: _decimal,
    ColumnType.BIT: _bit,
    **dict.fromkeys(_TEMPORAL, _temporal),
    ColumnType.STRING: _string,
    ColumnType.VARCHAR: _string,
    **dict.fromkeys(BLOBS, _string),
    **dict.fromkeys(COMPRESSED, _compressed),
    ColumnType.ENUM: _enum,
    ColumnType.SET: _set,
    ColumnType.JSON: lambda column: sized_cells(column, kinds.JSON),
    ColumnType.GEOMETRY: lambda column: sized_cells(column, kinds.GEOMETRY),
    ColumnType.VECTOR: _vector,
}
_BYTES: Final = SIZED - {ColumnType.VECTOR}


# ------------------------------------------------------------------------------------------------------ Python's values

_BITS: Final = {
    ColumnType.TINY: 8,
    ColumnType.SHORT: 16,
    ColumnType.INT24: 32,
    ColumnType.LONG: 32,
    ColumnType.LONGLONG: 64,
}
_FORMS: Final = {
    ColumnType.FLOAT: row_encoder.FLOAT,
    ColumnType.DOUBLE: row_encoder.DOUBLE,
    ColumnType.DATE: row_encoder.DATE,
    ColumnType.NEWDATE: row_encoder.DATE,
    ColumnType.DATETIME: row_encoder.DATETIME,
    ColumnType.DATETIME2: row_encoder.DATETIME,
    ColumnType.TIMESTAMP: row_encoder.TIMESTAMP,
    ColumnType.TIMESTAMP2: row_encoder.TIMESTAMP,
    ColumnType.TIME: row_encoder.TIME,
    ColumnType.TIME2: row_encoder.TIME,
}
_OTHERS: Final = {
    ColumnType.ENUM: (EnumValue, "index"),
    ColumnType.SET: (SetValue, "bits"),
    ColumnType.JSON: (JsonDocument, "binary"),
}
"""Classes of values that are encoded from a number, or from bytes, in an attribute."""


def row_packer(plan: TablePlan) -> row_encoder.RowPacker:
    """Return the encoder of row images from Python values, for rows that have all columns.

    `image.encode_rows` encodes the rows that it refuses.
    """
    return row_encoder.RowPacker([_packed(column) for column in plan.columns], plan.spare_null_bits)


def _packed(column: ColumnPlan) -> tuple[object, ...]:
    """Return a column as `RowPacker` takes it."""
    other, attribute = _OTHERS.get(column.type, (None, None))
    form, bits = _form(column)
    cells = None if form == row_encoder.OTHER else main_cells(column)
    return form, bits, other, attribute, cells, bytes_cells(column), number_cells(column)


def _form(column: ColumnPlan) -> tuple[int, int]:
    """Return the form of the values in Python, and the bits of an integer as the cells take it."""
    kind = column.type
    if kind in _BITS:
        return (row_encoder.UNSIGNED if column.unsigned else row_encoder.SIGNED), _BITS[kind]
    if kind == ColumnType.YEAR:
        return row_encoder.SIGNED, 16
    if kind == ColumnType.BIT:
        return row_encoder.UNSIGNED, 64
    if kind in (ColumnType.ENUM, ColumnType.SET):
        bits = 16 if kind == ColumnType.ENUM else 64
        return (row_encoder.UNSIGNED if column.members is None else row_encoder.TEXT), bits
    if kind == ColumnType.NEWDECIMAL:
        return (row_encoder.DECIMAL_NUMBER if column.precision <= MAX_DECIMAL128 else row_encoder.OTHER), 0
    if kind in STRINGS:
        is_text = column.native is not None or charset_of(column.collation_id) is not None
        return (row_encoder.TEXT if is_text else row_encoder.BYTES), 0
    return _FORMS.get(kind, row_encoder.OTHER), 0
