"""Arrow types of columns: maps a column plan to an Arrow type, and an Arrow type to an SQL type."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from binlogio._kernel import column_kinds as kernel
from binlogio.bounded_cache import BoundedCache
from binlogio.constants import DATE_AS_TEXT
from binlogio.errors import UnsupportedFeature
from binlogio.values.column import ColumnKind
from binlogio.values.kinds import column_kind

if TYPE_CHECKING:
    from binlogio.values.column import ColumnPlan

ZERO_DATES: Final = {"error": kernel.DATES_ERROR, "null": kernel.DATES_NULL, "text": kernel.DATES_TEXT}
GEOMETRY: Final = pa.struct([pa.field("srid", pa.uint32()), pa.field("wkb", pa.binary())])
JSON_DIFFS: Final = pa.list_(
    pa.struct([pa.field("operation", pa.uint8()), pa.field("path", pa.string()), pa.field("value", pa.string())])
)
"""The diffs of a partial update: `JsonDiffOperation` as a number, JSON path, value as JSON text (null for REMOVE)."""


@dataclass(frozen=True, slots=True)
class ColumnSpec(ColumnKind):
    """The Arrow type of a column, and the parameters with which the kernel decodes it."""

    type: pa.DataType = None


def column_spec(column: ColumnPlan, *, zero_dates: str = "error") -> ColumnSpec:
    """Return the Arrow type of a column, and the parameters with which the kernel decodes it.

    Raises:
        UnsupportedFeature: the column type has no Arrow type.
    """
    facts = _FACTS(column), zero_dates
    spec = _known.get(facts)
    if spec is None:
        spec = _spec(column, zero_dates)
        if not column.members:  # not cached, because an ENUM or SET may have many members
            _known.put(facts, spec)
    return spec


_FACTS: Final = attrgetter(
    "type", "metadata", "unsigned", "length", "pack_length", "precision", "scale", "fsp", "collation_id", "members",
    "native", "opened_size", "dimension",
)  # fmt: skip
"""Returns all attributes of a column on which a `ColumnSpec` depends."""

_known: Final[BoundedCache[tuple[Any, str], ColumnSpec]] = BoundedCache()


def _spec(column: ColumnPlan, zero_dates: str) -> ColumnSpec:
    found = column_kind(column)
    if found is None:
        raise no_arrow_type(column)
    arrow_type = pa.string() if zero_dates == "text" and found.arrow in _DATES else _arrow_type(found)
    return ColumnSpec(
        found.kind, found.arrow, found.first, found.second, found.names, found.charset, found.width, arrow_type
    )


def field_of(name: str, spec: ColumnSpec) -> pa.Field:
    """Return the Arrow field of a column; its metadata tell a date as text from other texts."""
    is_date = spec.arrow in _DATES and pa.types.is_string(spec.type)
    return pa.field(name, spec.type, metadata=DATE_AS_TEXT if is_date else None)


def no_arrow_type(column: ColumnPlan) -> UnsupportedFeature:
    """Return the error for a column whose type has no Arrow type."""
    return UnsupportedFeature("columns of this type have no Arrow type", field=column.label, found=column.type.name)


_DATES: Final = frozenset({"date32", "timestamp", "timestamp UTC"})
_TYPES: Final[dict[str, pa.DataType]] = {
    "timestamp": pa.timestamp("us"),
    "timestamp UTC": pa.timestamp("us", "UTC"),
    "duration": pa.duration("us"),
    "geometry": GEOMETRY,
    "vector": pa.list_(pa.float32()),
}
"""The Arrow types by the names in `ColumnKind.arrow`; other names are type names of pyarrow."""


def _arrow_type(found: ColumnKind) -> pa.DataType:
    if found.arrow == "decimal":
        make = pa.decimal128 if found.kind == kernel.DECIMAL128 else pa.decimal256
        return make(found.first, found.second)
    return _TYPES.get(found.arrow) or pa.type_for_alias(found.arrow)


# ------------------------------------------------------------------------------------------------- from Arrow to SQL

_KEY_BYTES: Final = 255  # the key length in bytes that all servers support


def sql_type_of(kind: pa.DataType, *, is_key: bool = False) -> str | None:
    """Return an SQL type that can store all values of an Arrow type; None if there is none.

    Args:
        kind: the Arrow type; for a dictionary, the type of its values is used.
        is_key: the column is in a key, so that strings and bytes need a length.
    """
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    types = pa.types
    if (
        types.is_decimal(kind)
        and 0 <= kind.scale <= min(kind.precision, _MAX_SCALE)
        and kind.precision <= _MAX_PRECISION
    ):
        return f"decimal({kind.precision},{kind.scale})"
    if types.is_timestamp(kind):
        return ("datetime" if kind.tz is None else "timestamp") + _FRACTIONS[kind.unit]
    if types.is_time(kind) or types.is_duration(kind):
        return "time" + _FRACTIONS[kind.unit]
    if types.is_fixed_size_binary(kind) and kind.byte_width <= _KEY_BYTES:
        return f"binary({kind.byte_width})"
    if str(kind) in ("string", "large_string", "string_view"):
        return f"varchar({_KEY_BYTES})" if is_key else "longtext"
    if types.is_fixed_size_binary(kind) or str(kind) in ("binary", "large_binary", "binary_view"):
        return f"varbinary({_KEY_BYTES})" if is_key else "longblob"
    if types.is_struct(kind) and sorted(field.name for field in kind) == ["srid", "wkb"]:
        is_geometry = types.is_integer(kind.field("srid").type) and types.is_binary(kind.field("wkb").type)
        return "geometry" if is_geometry else None
    return _SQL_TYPES.get(kind)


_MAX_PRECISION: Final = 65
_MAX_SCALE: Final = 30
_FRACTIONS: Final = {"s": "", "ms": "(3)", "us": "(6)", "ns": "(6)"}
_SQL_TYPES: Final = {
    pa.bool_(): "tinyint(1)",
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.uint8(): "tinyint unsigned",
    pa.uint16(): "smallint unsigned",
    pa.uint32(): "int unsigned",
    pa.uint64(): "bigint unsigned",
    pa.float16(): "float",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.date32(): "date",
    pa.date64(): "date",
    pa.null(): "longtext",
}
