"""The shape and the construct layout of every column type; a layout both parses and builds.

Combines the tables of the type families; each of their modules has the grammar of its types. Row images are in
`binlogio.rows.image`.

Source: sql/rpl_utility.cc, table_def, calc_field_size; sql/field.cc, Field_*::pack and unpack.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from construct import Adapter, Construct, Container

from binlogio.constants import ColumnType
from binlogio.errors import BinlogFormatError, UnsupportedFeature
from binlogio.values import bit, decimal, enum_set, geometry, numbers, strings, temporal, vector
from binlogio.values.absent import ABSENT, AbsentType
from binlogio.values.column import INTEGERS, OLD_TEMPORAL, SIZED, ColumnPlan, LayoutMaker, Shape, ShapeMaker
from binlogio.values.json import document
from binlogio.values.json.diff import PARTIAL_VALUE

FAMILIES: Final = (numbers, decimal, bit, temporal, strings, enum_set, document, geometry, vector)
COLUMN_SHAPES: Final[dict[int, ShapeMaker]] = {
    code: shape for family in FAMILIES for code, shape in family.SHAPES.items()
}
COLUMN_LAYOUTS: Final[dict[ColumnType, LayoutMaker]] = {
    kind: layout for family in FAMILIES for kind, layout in family.LAYOUTS.items()
}

NEEDS_NO_METADATA: Final = frozenset(
    {
        *INTEGERS,
        *OLD_TEMPORAL,
        ColumnType.DATE,
        ColumnType.NEWDATE,
        ColumnType.YEAR,
        ColumnType.FLOAT,
        ColumnType.DOUBLE,
        ColumnType.NULL,
        ColumnType.STRING,
    }
)
"""Types that can be decoded without metadata, which logs of the 5.1 alphas do not contain."""


@lru_cache(maxsize=4096)
def shape_of(column_type: int, metadata: int) -> Shape:
    """Return the shape of a column for its type code and metadata in a table map.

    Raises:
        BinlogFormatError: the type is unknown, or its metadata is invalid.
        UnsupportedFeature: the type is an array.
    """
    if column_type == ColumnType.TYPED_ARRAY:
        raise UnsupportedFeature("arrays (of multi-valued indexes) have no values in a binary log")
    shape = COLUMN_SHAPES.get(column_type)
    if shape is None:
        raise BinlogFormatError("unknown column type", found=f"{column_type}")
    return shape(ColumnType(column_type), metadata)


@lru_cache(maxsize=4096)
def column_layout(column: ColumnPlan) -> Construct:
    """Return the layout of the values of a column; NULL has no bytes."""
    return COLUMN_LAYOUTS[column.type](column)


def wire_width(column: ColumnPlan) -> int:
    """Return the size in bytes of a fixed-size value in a row image, or -n if it has a length prefix of n bytes."""
    if column.type in SIZED:
        return -column.pack_length
    size: int = column_layout(column).sizeof()
    return size


class _SkippedValue(Adapter):  # type: ignore[misc]
    """The bytes of a value that is not decoded."""

    def _decode(self, obj: object, context: Container, path: str) -> AbsentType:
        return ABSENT

    def _encode(self, obj: object, context: Container, path: str) -> object:
        raise BinlogFormatError("a skipped value cannot be written")


@lru_cache(maxsize=4096)
def skipped_layout(column: ColumnPlan) -> Construct:
    """Return a layout that skips the bytes of a value; the parsed value is `ABSENT`."""
    layout = column_layout(column)
    while isinstance(layout, Adapter):
        layout = layout.subcon
    return _SkippedValue(layout)


SKIPPED_PARTIAL_JSON: Final = _SkippedValue(PARTIAL_VALUE)
"""The layout of JSON diffs that are not decoded."""
