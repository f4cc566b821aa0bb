"""Column descriptions for the kernel's encoder, for Arrow buffers and for Python objects.

Maps columns to the kernel's kinds of cells. Columns without a kind, such as text in multi-byte
character sets, use `layout`. Needs the compiled kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from binlogio._kernel import cells as kernel
from binlogio._kernel import packer
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


def main_cells(column: ColumnPlan) -> kernel.Cells | None:
    """Return cells for the values that the column is decoded to; None if the kernel does not encode them."""
    make = _MAIN.get(column.type)
    return None if make is None else make(column)


def bytes_cells(column: ColumnPlan) -> kernel.Cells | None:
    """Return cells for values given as bytes, which are kept as they are: text, binary JSON, GEOMETRY with its SRID."""
    if column.type not in _BYTES:
        return None
    if column.type in COMPRESSED:
        return compressed_cells(column, kernel.BYTES)
    if column.type == ColumnType.STRING and column.native is not None:
        return sized_cells(column, kernel.PADDED, first=column.length)
    padded = column.type == ColumnType.STRING and column.collation_id == BINARY_COLLATION
    return sized_cells(column, kernel.PADDED if padded else kernel.BYTES)


def diffs_cells(column: ColumnPlan) -> kernel.Cells:
    """Return cells for the JSON diffs of a partial update."""
    return sized_cells(column, kernel.DIFFS)


def number_cells(column: ColumnPlan) -> kernel.Cells | None:
    """Return cells for the values of ENUM and SET columns given as numbers."""
    if column.type == ColumnType.ENUM:
        return kernel.Cells(kernel.LITTLE16, column.pack_length)
    if column.type == ColumnType.SET:
        return kernel.Cells(kernel.LITTLE64, column.pack_length, 8 * column.pack_length)
    return None


def sized_cells(
    column: ColumnPlan, kind: int, *, first: int = 0, trim: bool = False, table: bytes | None = None
) -> kernel.Cells:
    """Return cells for values after their length."""
    return kernel.Cells(kind, column.pack_length, first=first, limit=column.length, trim=trim, table=table)


def compressed_cells(column: ColumnPlan, kind: int, *, table: bytes | None = None) -> kernel.Cells:
    """Return cells for values of MariaDB's compressed columns, which are of `kind` before they are compressed."""
    return sized_cells(column, kernel.COMPRESSED, first=kind, table=table)


_COPIES: Final = {
    ColumnType.TINY: (kernel.COPY1, 1),
    ColumnType.SHORT: (kernel.COPY2, 2),
    ColumnType.LONG: (kernel.COPY4, 4),
    ColumnType.LONGLONG: (kernel.COPY8, 8),
    ColumnType.FLOAT: (kernel.COPY4, 4),
    ColumnType.DOUBLE: (kernel.COPY8, 8),
    ColumnType.YEAR: (kernel.YEAR, 1),
    ColumnType.DATE: (kernel.DATE, 3),
    ColumnType.NEWDATE: (kernel.DATE, 3),
}
_TEMPORAL: Final = {
    ColumnType.DATETIME2: (kernel.DATETIME2, kernel.DATETIME2),
    ColumnType.TIMESTAMP2: (kernel.TIMESTAMP2, kernel.TIMESTAMP2),
    ColumnType.TIME2: (kernel.TIME2, kernel.TIME2),
    ColumnType.DATETIME: (kernel.OLD_DATETIME, kernel.HIRES_DATETIME),
    ColumnType.TIMESTAMP: (kernel.OLD_TIMESTAMP, kernel.HIRES_TIMESTAMP),
    ColumnType.TIME: (kernel.OLD_TIME, kernel.HIRES_TIME),
}
"""Type -> kind without and with fraction digits."""


def _copied(column: ColumnPlan) -> kernel.Cells:
    return kernel.Cells(*_COPIES[column.type])


def _int24(column: ColumnPlan) -> kernel.Cells:
    return kernel.Cells(kernel.UINT24 if column.unsigned else kernel.INT24, 3)


def _decimal(column: ColumnPlan) -> kernel.Cells:
    kind = kernel.DECIMAL128 if column.precision <= MAX_DECIMAL128 else kernel.DECIMAL256
    return kernel.Cells(kind, decimal_size(column.precision, column.scale), column.precision, column.scale)


def _temporal(column: ColumnPlan) -> kernel.Cells:
    return kernel.Cells(_TEMPORAL[column.type][column.fsp > 0], 0, column.fsp)


def _bit(column: ColumnPlan) -> kernel.Cells:
    return kernel.Cells(kernel.BITS, column.pack_length, column.length)


def _enum(column: ColumnPlan) -> kernel.Cells | None:
    return number_cells(column) if column.members is None else _names(column, kernel.ENUM_NAMES, column.members)


def _set(column: ColumnPlan) -> kernel.Cells | None:
    members = column.members
    if members is None:
        return number_cells(column)
    if len(members) > MAX_SET_MEMBERS or len(set(members)) < len(members):
        return None
    return _names(column, kernel.SET_NAMES, members)


def _names(column: ColumnPlan, kind: int, members: tuple[str, ...]) -> kernel.Cells:
    names = [name.encode("utf-8", "surrogateescape") for name in members]
    return kernel.Cells(kind, column.pack_length, names=names)


def _string(column: ColumnPlan) -> kernel.Cells | None:
    if column.native is not None:
        return sized_cells(column, _NATIVE[column.native])
    charset = charset_of(column.collation_id)
    if charset is None:
        return bytes_cells(column)
    if charset.name in MULTI_BYTE:
        return None
    trim = column.type == ColumnType.STRING
    if charset.name in UTF8:
        return sized_cells(column, kernel.UTF8, trim=trim)
    return sized_cells(column, kernel.LATIN, trim=trim, table=single_byte_codes(charset))


_NATIVE: Final = {"uuid": kernel.UUID, "inet4": kernel.INET4, "inet6": kernel.INET6}


def _compressed(column: ColumnPlan) -> kernel.Cells | None:
    charset = charset_of(column.collation_id)
    if charset is None:
        return bytes_cells(column)
    if charset.name in MULTI_BYTE:
        return None
    if charset.name in UTF8:
        return compressed_cells(column, kernel.UTF8)
    return compressed_cells(column, kernel.LATIN, table=single_byte_codes(charset))


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


def _vector(column: ColumnPlan) -> kernel.Cells:
    return sized_cells(column, kernel.VECTOR, first=-1 if column.dimension is None else column.dimension)


_MAIN: Final[dict[ColumnType, Callable[[ColumnPlan], kernel.Cells | None]]] = {
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
    ColumnType.JSON: lambda column: sized_cells(column, kernel.JSON),
    ColumnType.GEOMETRY: lambda column: sized_cells(column, kernel.GEOMETRY),
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
    ColumnType.FLOAT: packer.FLOAT,
    ColumnType.DOUBLE: packer.DOUBLE,
    ColumnType.DATE: packer.DATE,
    ColumnType.NEWDATE: packer.DATE,
    ColumnType.DATETIME: packer.DATETIME,
    ColumnType.DATETIME2: packer.DATETIME,
    ColumnType.TIMESTAMP: packer.TIMESTAMP,
    ColumnType.TIMESTAMP2: packer.TIMESTAMP,
    ColumnType.TIME: packer.TIME,
    ColumnType.TIME2: packer.TIME,
}
_OTHERS: Final = {
    ColumnType.ENUM: (EnumValue, "index"),
    ColumnType.SET: (SetValue, "bits"),
    ColumnType.JSON: (JsonDocument, "binary"),
}
"""Classes of values that are encoded from a number, or from bytes, in an attribute."""


def row_packer(plan: TablePlan) -> packer.RowPacker:
    """Return the encoder of row images from Python values, for rows that have all columns.

    `image.encode_rows` encodes the rows that it refuses.
    """
    return packer.RowPacker([_packed(column) for column in plan.columns], plan.spare_null_bits)


def _packed(column: ColumnPlan) -> tuple[object, ...]:
    """Return a column as `RowPacker` takes it."""
    other, attribute = _OTHERS.get(column.type, (None, None))
    form, bits = _form(column)
    cells = None if form == packer.OTHER else main_cells(column)
    return form, bits, other, attribute, cells, bytes_cells(column), number_cells(column)


def _form(column: ColumnPlan) -> tuple[int, int]:
    """Return the form of the values in Python, and the bits of an integer as the cells take it."""
    kind = column.type
    if kind in _BITS:
        return (packer.UNSIGNED if column.unsigned else packer.SIGNED), _BITS[kind]
    if kind == ColumnType.YEAR:
        return packer.SIGNED, 16
    if kind == ColumnType.BIT:
        return packer.UNSIGNED, 64
    if kind in (ColumnType.ENUM, ColumnType.SET):
        bits = 16 if kind == ColumnType.ENUM else 64
        return (packer.UNSIGNED if column.members is None else packer.TEXT), bits
    if kind == ColumnType.NEWDECIMAL:
        return (packer.DECIMAL_NUMBER if column.precision <= MAX_DECIMAL128 else packer.OTHER), 0
    if kind in STRINGS:
        is_text = column.native is not None or charset_of(column.collation_id) is not None
        return (packer.TEXT if is_text else packer.BYTES), 0
    return _FORMS.get(kind, packer.OTHER), 0
