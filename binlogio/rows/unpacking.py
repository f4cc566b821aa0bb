"""Describes the columns of a table for the kernel's decoder of row images to Python values.

The kernel decodes the frequent types itself (`binlogio._kernel.column_values`). For other types it calls functions of
the construct layouts (`binlogio.values.layout`). `binlogio.rows.image` is the reference implementation;
`binlogio.rows.packing` describes columns for encoding.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

from construct import Bytes

from binlogio._kernel import event_scanner
from binlogio._kernel import python_rows as kernel
from binlogio.constants import ColumnType
from binlogio.errors import BinlogFormatError
from binlogio.primitives import BAD_BYTES
from binlogio.rows.image import RowChange, RowImage
from binlogio.values.absent import ABSENT
from binlogio.values.column import CodedValue, SizedBytes
from binlogio.values.enum_set import EnumValue
from binlogio.values.json.diff import PARTIAL_JSON
from binlogio.values.kinds import kind_without_width
from binlogio.values.layout import column_layout, wire_width
from binlogio.values.strings import CompressedColumn

if TYPE_CHECKING:
    from collections.abc import Callable

    from construct import Construct

    from binlogio.rows.plan import TablePlan
    from binlogio.values.column import ColumnPlan


def image_plan(plan: TablePlan) -> event_scanner.ImagePlan:
    """Return the kernel's layout of the row images of a table."""
    widths = [wire_width(column) for column in plan.columns]
    return event_scanner.ImagePlan(plan, widths, list(range(len(widths))), list(plan.json_positions), wanted=True)


def row_decoder(plan: TablePlan) -> kernel.RowDecoder:
    """Return the kernel's decoder for the rows events of a table."""
    columns = plan.columns
    widths = [wire_width(column) for column in columns]
    return kernel.RowDecoder(
        image_plan(plan),
        plan,
        [_value(column, width) for column, width in zip(columns, widths, strict=True)],
        [_function(column_layout(column)) for column in columns],
        [_names(column) for column in columns],
        lambda data: PARTIAL_JSON.parse(len(data).to_bytes(4, "little") + data),
        RowImage,
        RowChange,
        ABSENT,
        (*BAD_BYTES, BinlogFormatError),
    )


def _value(column: ColumnPlan, width: int) -> tuple[int, int, int, int]:
    """Return kind, width and two parameters of a column; kind 0 if all its values are decoded by its function."""
    found = kind_without_width(column)
    return (0, width, 0, 0) if found is None else (found.kind, width, found.first, found.second)


def _names(column: ColumnPlan) -> list[str] | None:
    if column.type != ColumnType.ENUM or column.members is None:
        return None
    return [EnumValue(name, index) for index, name in enumerate(("", *column.members))]


def _function(layout: Construct) -> Callable[[bytes], Any]:
    """Return a function that decodes the bytes of a value, without its length, as `layout` does."""
    steps: list[Callable[[Any], Any]] = []
    while isinstance(layout, CodedValue):
        steps.append(layout.decode)
        layout = layout.subcon
    if isinstance(layout, CompressedColumn):
        steps.append(layout.plain)
    elif not isinstance(layout, (SizedBytes, Bytes)):
        steps.append(layout.parse)
    if len(steps) == 1:
        return steps[0]
    return lambda data: reduce(lambda value, step: step(value), reversed(steps), data)
