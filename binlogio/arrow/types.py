"""Arrow types of columns: maps a column plan to its Arrow type."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from binlogio._kernel import column_kinds as kernel
from binlogio.constants import ColumnType
from binlogio.errors import UnsupportedFeature
from binlogio.values.kinds import ColumnKind, column_kind

if TYPE_CHECKING:
    from binlogio.values.column import ColumnPlan

ZERO_DATES: Final = {"error": kernel.DATES_ERROR, "null": kernel.DATES_NULL, "text": kernel.DATES_TEXT}
GEOMETRY: Final = pa.struct([pa.field("srid", pa.uint32()), pa.field("wkb", pa.binary())])
JSON_DIFFS: Final = pa.list_(
    pa.struct([pa.field("operation", pa.uint8()), pa.field("path", pa.string()), pa.field("value", pa.string())])
)
"""The diffs of a partial update: numbers of `JsonDiffOperation`, JSON paths, values as JSON text (null for REMOVE)."""


@dataclass(frozen=True, slots=True)
class ColumnSpec(ColumnKind):
    """The Arrow type of a column, and how the kernel decodes it."""

    type: pa.DataType = None


def column_spec(column: ColumnPlan, *, zero_dates: str = "error") -> ColumnSpec:
    """Return the Arrow type of a column and how the kernel decodes it.

    Raises:
        UnsupportedFeature: a type without values.
    """
    facts = _FACTS(column), zero_dates
    spec = _known.get(facts)
    if spec is None:
        spec = _spec(column, zero_dates)
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        if not column.members:  # those of an ENUM or SET may be many
            _known[facts] = spec
    return spec


_FACTS: Final = attrgetter(
    "type", "metadata", "unsigned", "length", "pack_length", "precision", "scale", "fsp", "collation_id", "members",
    "native", "opened_size",
)  # fmt: skip
"""All attributes of a column that a `ColumnSpec` depends on."""

_MOST_KNOWN: Final = 1 << 10
_known: Final[dict[tuple[Any, str], ColumnSpec]] = {}


def _spec(column: ColumnPlan, zero_dates: str) -> ColumnSpec:
    found = column_kind(column)
    if found is None:
        raise no_arrow_type(column)
    arrow_type = pa.string() if zero_dates == "text" and found.kind in _DATE_KINDS else _arrow_type(column, found)
    return ColumnSpec(found.width, found.kind, found.first, found.second, found.names, found.charset, arrow_type)


def no_arrow_type(column: ColumnPlan) -> UnsupportedFeature:
    """Return the error about a column of a type without values."""
    return UnsupportedFeature("columns of this type have no Arrow type", field=column.label, found=column.type.name)


_DATE_KINDS: Final = frozenset(
    {kernel.DATE, kernel.DATETIME2, kernel.TIMESTAMP2, kernel.OLD_DATETIME, kernel.OLD_TIMESTAMP}
)
_COPIED: Final = {
    ColumnType.TINY: (pa.int8(), pa.uint8()),
    ColumnType.SHORT: (pa.int16(), pa.uint16()),
    ColumnType.LONG: (pa.int32(), pa.uint32()),
    ColumnType.LONGLONG: (pa.int64(), pa.uint64()),
    ColumnType.FLOAT: (pa.float32(), pa.float32()),
    ColumnType.DOUBLE: (pa.float64(), pa.float64()),
}
_TYPES: Final[dict[int, pa.DataType]] = {
    kernel.INT24: pa.int32(),
    kernel.UINT24: pa.uint32(),
    kernel.OLD_DECIMAL: pa.string(),
    kernel.DATE: pa.date32(),
    **dict.fromkeys((kernel.DATETIME2, kernel.OLD_DATETIME), pa.timestamp("us")),
    **dict.fromkeys((kernel.TIMESTAMP2, kernel.OLD_TIMESTAMP), pa.timestamp("us", "UTC")),
    **dict.fromkeys((kernel.TIME2, kernel.OLD_TIME), pa.duration("us")),
    kernel.YEAR: pa.int16(),
    **dict.fromkeys((kernel.BITS, kernel.LITTLE64), pa.uint64()),
    kernel.LITTLE16: pa.uint16(),
    **dict.fromkeys((kernel.PADDED, kernel.BYTES), pa.binary()),
    kernel.GEOMETRY: GEOMETRY,
    kernel.VECTOR: pa.list_(pa.float32()),
    kernel.NOTHING: pa.null(),
}
"""By kind; all others are text, except those whose type has parameters."""


def _arrow_type(column: ColumnPlan, found: ColumnKind) -> pa.DataType:
    if found.kind == kernel.COPY:
        return _COPIED[column.type][column.unsigned]
    if found.kind == kernel.DECIMAL128:
        return pa.decimal128(column.precision, column.scale)
    if found.kind == kernel.DECIMAL256:
        return pa.decimal256(column.precision, column.scale)
    return _TYPES.get(found.first if found.kind == kernel.COMPRESSED else found.kind, pa.string())
