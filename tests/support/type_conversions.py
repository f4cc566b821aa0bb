"""Column type conversions that a replay allows (replica_type_conversions), by type and length.

This module does not convert values.

    same type, same size          always
    narrower to wider             ALL_NON_LOSSY: integers, FLOAT to DOUBLE, DECIMAL, BIT, strings
    wider to narrower             ALL_LOSSY: the same kinds; DECIMAL from and to FLOAT and DOUBLE
    strings of different types    as by length; with equal lengths ALL_NON_LOSSY
    anything else                 never

Source: sql/rpl_utility_server.cc, can_convert_field_to, is_conversion_ok; sql/field.cc, compatible_field_size.
"""

from __future__ import annotations

from enum import Flag
from typing import TYPE_CHECKING, Final

from binlogio.constants import ColumnType
from binlogio.errors import ReplayError
from binlogio.values.column import BLOBS

if TYPE_CHECKING:
    from binlogio.rows.plan import TablePlan
    from binlogio.values.column import ColumnPlan

ER_REPLICA_CONVERSION_FAILED: Final = 13146


class TypeConversions(Flag):
    """Values of replica_type_conversions; the default is NONE."""

    NONE = 0
    ALL_LOSSY = 1
    ALL_NON_LOSSY = 2


_INTEGERS: Final = {
    ColumnType.TINY: 1,
    ColumnType.SHORT: 2,
    ColumnType.INT24: 3,
    ColumnType.LONG: 4,
    ColumnType.LONGLONG: 8,
}
_FLOATS: Final = {ColumnType.FLOAT: 4, ColumnType.DOUBLE: 8}
_STRINGS: Final = frozenset({*BLOBS, ColumnType.STRING, ColumnType.VAR_STRING, ColumnType.VARCHAR})
_BITS: Final = 8


def check_conversions(source: TablePlan, target: TablePlan, allowed: TypeConversions = TypeConversions.NONE) -> None:
    """Check that the common columns of both tables, by position, may be converted.

    Raises:
        ReplayError: a conversion is not allowed; the message has the column and the required setting.
    """
    for one, other in zip(source.columns, target.columns, strict=False):
        needed = needed_conversion(one, other)
        if needed is None or needed & allowed != needed:
            what = f"replica_type_conversions={needed.name}" if needed else None
            raise ReplayError(
                f"ERROR {ER_REPLICA_CONVERSION_FAILED}: column {one.position} of {target.schema}.{target.table}"
                f" cannot be converted{' without loss' if needed is TypeConversions.ALL_LOSSY else ''}"
                " to its type in the target",
                field=other.label,
                expected=_shown(other),
                found=_shown(one),
                hint=None if what is None else f"the server allows it with {what}",
            )


def needed_conversion(source: ColumnPlan, target: ColumnPlan) -> TypeConversions | None:
    """Return the conversion that `source` requires for `target`; None if no conversion is possible."""
    order = _order(source, target)
    if order is None:
        return None
    if order == 0:
        return TypeConversions.NONE
    return TypeConversions.ALL_LOSSY if order > 0 else TypeConversions.ALL_NON_LOSSY


def _order(source: ColumnPlan, target: ColumnPlan) -> int | None:
    """Compare types: positive if the source is wider, negative if the target is wider, 0 if they are equal.

    None: they are not convertible.
    """
    if source.type == target.type:
        return _same_type(source, target)
    if source.type in _INTEGERS and target.type in _INTEGERS:
        return _INTEGERS[source.type] - _INTEGERS[target.type]
    if source.type in _FLOATS and target.type in _FLOATS:
        return _FLOATS[source.type] - _FLOATS[target.type]
    decimal_and_float = {source.type, target.type} <= {ColumnType.NEWDECIMAL, *_FLOATS}
    if decimal_and_float:
        return 1
    if source.type in _STRINGS and target.type in _STRINGS:
        return (_string_length(source) - _string_length(target)) or -1
    return None


def _same_type(source: ColumnPlan, target: ColumnPlan) -> int:
    kind = source.type
    if kind == ColumnType.NEWDECIMAL:
        whole = (source.precision - source.scale) - (target.precision - target.scale)
        fraction = source.scale - target.scale
        return max(whole, fraction) if max(whole, fraction) > 0 else min(whole, fraction)
    if kind in BLOBS:
        return source.metadata - target.metadata  # bytes of the length field; the table map has one type for all BLOBs
    if kind in _STRINGS or kind == ColumnType.BIT:
        return source.length - target.length
    if kind in (ColumnType.ENUM, ColumnType.SET):
        return source.pack_length - target.pack_length
    return 0


def _string_length(column: ColumnPlan) -> int:
    """Return the maximum size of a string of the column in bytes."""
    if column.type in BLOBS:
        return int((1 << _BITS * column.metadata) - 1)
    return column.length


def _shown(column: ColumnPlan) -> str:
    size = f"({column.precision},{column.scale})" if column.type == ColumnType.NEWDECIMAL else ""
    return f"{column.type.name}{size or (f'({column.length})' if column.length else '')}"
