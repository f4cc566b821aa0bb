"""Column descriptions ("cells") for the kernel's row encoder, which reads Arrow buffers or Python objects.

The kinds of columns are defined in `binlogio.values.kinds`. Columns that the kernel does not encode, such as text in
multi-byte character sets, are encoded by `binlogio.values.layout`. Needs the compiled kernel.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from binlogio._kernel import column_kinds as kinds
from binlogio._kernel import row_encoder
from binlogio.constants import ColumnType
from binlogio.values.charsets import BINARY_COLLATION, Charset, charset_of
from binlogio.values.column import COMPRESSED, SIZED, STRINGS
from binlogio.values.enum_set import EnumValue, SetValue
from binlogio.values.json import JsonDocument
from binlogio.values.kinds import column_kind

if TYPE_CHECKING:
    from binlogio.rows.plan import TablePlan
    from binlogio.values.column import ColumnPlan

MAX_SET_MEMBERS: Final = 64
_DECODED_ONLY: Final = frozenset({kinds.TEXT, kinds.OLD_DECIMAL, kinds.NOTHING})


def main_cells(column: ColumnPlan) -> row_encoder.Cells | None:
    """Return cells for values of the type to which the column is decoded; None if the kernel does not encode them."""
    found = column_kind(column)
    if found is None or found.kind in _DECODED_ONLY or (found.kind, found.first) == (kinds.COMPRESSED, kinds.TEXT):
        return None
    names = table = None
    if found.kind in (kinds.ENUM_NAMES, kinds.SET_NAMES):
        members = column.members or ()
        if found.kind == kinds.SET_NAMES and (len(members) > MAX_SET_MEMBERS or len(set(members)) < len(members)):
            return None
        names = [name.encode("utf-8", "surrogateescape") for name in members]
    charset = charset_of(column.collation_id) if column.type in STRINGS and column.native is None else None
    if kinds.LATIN in (found.kind, found.first) and charset is not None:
        table = single_byte_codes(charset)
    return row_encoder.Cells(
        found.kind,
        abs(found.width),
        0 if found.kind == kinds.PADDED else found.first,
        found.second if found.kind in _DECIMALS else 0,
        limit=column.length,
        trim=column.type == ColumnType.STRING and charset is not None,
        names=names,
        table=table,
    )


_DECIMALS: Final = (kinds.DECIMAL128, kinds.DECIMAL256)


def bytes_cells(column: ColumnPlan) -> row_encoder.Cells | None:
    """Return cells for values given as bytes and written unchanged; None for columns that do not accept bytes.

    These are text, binary strings, binary JSON, and GEOMETRY with its SRID.
    """
    if column.type not in _BYTES:
        return None
    if column.type in COMPRESSED:
        return sized_cells(column, kinds.COMPRESSED, first=kinds.BYTES)
    if column.type == ColumnType.STRING and column.native is not None:
        return sized_cells(column, kinds.PADDED, first=column.length)
    padded = column.type == ColumnType.STRING and column.collation_id == BINARY_COLLATION
    return sized_cells(column, kinds.PADDED if padded else kinds.BYTES)


def diffs_cells(column: ColumnPlan) -> row_encoder.Cells:
    """Return cells for the JSON diffs of a partial update."""
    return sized_cells(column, kinds.DIFFS)


def number_cells(column: ColumnPlan) -> row_encoder.Cells | None:
    """Return cells for values of ENUM and SET columns given as numbers; None for other columns."""
    if column.type == ColumnType.ENUM:
        return row_encoder.Cells(kinds.LITTLE16, column.pack_length)
    if column.type == ColumnType.SET:
        return row_encoder.Cells(kinds.LITTLE64, column.pack_length, 8 * column.pack_length)
    return None


def sized_cells(column: ColumnPlan, kind: int, *, first: int = 0) -> row_encoder.Cells:
    """Return cells for values that are written after their length."""
    return row_encoder.Cells(kind, column.pack_length, first=first, limit=column.length)


@lru_cache(maxsize=64)
def single_byte_codes(charset: Charset) -> bytes:
    """Return a table from code point (0 to 0xFFFF) to byte in a single-byte character set; 0 if it has no byte."""
    table = bytearray(1 << 16)
    for byte in range(256):
        try:
            character = charset.decode(bytes([byte]))
            table[ord(character)] = charset.encode(character)[0]
        except UnicodeError:
            continue
    return bytes(table)


_BYTES: Final = SIZED - {ColumnType.VECTOR}


# ----------------------------------------------------------------------------------------------------- Python values

_OTHERS: Final = {
    ColumnType.ENUM: (EnumValue, "index"),
    ColumnType.SET: (SetValue, "bits"),
    ColumnType.JSON: (JsonDocument, "binary"),
}
"""By column type: a class of values, and the attribute with the number or bytes that is encoded."""


def row_packer(plan: TablePlan) -> row_encoder.RowPacker:
    """Return the kernel's encoder of row images from Python values, for rows that have all columns.

    The caller encodes the rows that it refuses with `binlogio.rows.image.encode_rows`.
    """
    return row_encoder.RowPacker([_packed(column) for column in plan.columns], plan.spare_null_bits)


def _packed(column: ColumnPlan) -> tuple[object, ...]:
    """Return the description of a column for `RowPacker`."""
    other, attribute = _OTHERS.get(column.type, (None, None))
    return column.type in STRINGS, other, attribute, main_cells(column), bytes_cells(column), number_cells(column)
