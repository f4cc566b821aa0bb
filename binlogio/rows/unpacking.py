"""Row images to Python values by the compiled kernel: how it reads each column of a table.

The kernel reads the frequent types itself (`binlogio._kernel.python_rows`). The functions for all others are those of
the construct layouts (`binlogio.values.layout`), so that a type is described once. `binlogio.rows.image` is the oracle;
`binlogio.rows.packing` is the other direction.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any, Final

from construct import Bytes

from binlogio._kernel import event_scanner
from binlogio._kernel import python_rows as kernel
from binlogio.constants import ColumnType
from binlogio.errors import BinlogFormatError
from binlogio.primitives import BAD_BYTES
from binlogio.rows.image import RowChange, RowImage
from binlogio.values.absent import ABSENT
from binlogio.values.charsets import BINARY_COLLATION, UTF8, charset_of
from binlogio.values.column import BLOBS, CodedValue, SizedBytes
from binlogio.values.enum_set import EnumValue
from binlogio.values.json.diff import PARTIAL_JSON
from binlogio.values.layout import column_layout, wire_width
from binlogio.values.strings import CompressedColumn

if TYPE_CHECKING:
    from collections.abc import Callable

    from construct import Construct

    from binlogio.rows.plan import TablePlan
    from binlogio.values.column import ColumnPlan

_INTEGERS: Final = frozenset(
    {ColumnType.TINY, ColumnType.SHORT, ColumnType.INT24, ColumnType.LONG, ColumnType.LONGLONG}
)
_FORMS: Final = {
    ColumnType.FLOAT: kernel.Form.FLOAT,
    ColumnType.DOUBLE: kernel.Form.DOUBLE,
    ColumnType.BIT: kernel.Form.BITS,
    ColumnType.YEAR: kernel.Form.YEAR,
    ColumnType.DATE: kernel.Form.DATE,
    ColumnType.NEWDATE: kernel.Form.DATE,
    ColumnType.DATETIME2: kernel.Form.DATETIME2,
    ColumnType.TIMESTAMP2: kernel.Form.TIMESTAMP2,
    ColumnType.TIME2: kernel.Form.TIME2,
    ColumnType.NEWDECIMAL: kernel.Form.DECIMAL,
    ColumnType.NULL: kernel.Form.NOTHING,
}
_TEXTS: Final = frozenset({ColumnType.VARCHAR, ColumnType.STRING, *BLOBS})


def row_decoder(plan: TablePlan) -> kernel.RowDecoder:
    """Return the decoder of a table's rows events."""
    columns = plan.columns
    widths = [wire_width(column) for column in columns]
    return kernel.RowDecoder(
        event_scanner.ImagePlan(plan, widths, list(range(len(widths))), list(plan.json_positions), wanted=True),
        plan,
        [
            (_form(column), width, column.fsp, column.length, column.precision, column.scale)
            for column, width in zip(columns, widths, strict=True)
        ],
        [_function(column_layout(column)) for column in columns],
        [_names(column) for column in columns],
        lambda data: PARTIAL_JSON.parse(len(data).to_bytes(4, "little") + data),
        RowImage,
        RowChange,
        ABSENT,
        (*BAD_BYTES, BinlogFormatError),
    )


def _form(column: ColumnPlan) -> int:
    """Return how the kernel makes the values of a column; CALL where the column's function makes them."""
    if column.type in _INTEGERS:
        return kernel.Form.UNSIGNED if column.unsigned else kernel.Form.SIGNED
    if column.type == ColumnType.ENUM and column.members is not None:
        return kernel.Form.ENUM
    if column.type not in _TEXTS or column.native is not None:
        return _FORMS.get(column.type, kernel.Form.CALL)
    charset = charset_of(column.collation_id)
    if charset is None:
        is_padded = column.type == ColumnType.STRING and column.collation_id == BINARY_COLLATION
        return kernel.Form.PADDED if is_padded else kernel.Form.BYTES
    return kernel.Form.UTF8 if charset.name in UTF8 else kernel.Form.CALL


def _names(column: ColumnPlan) -> list[str] | None:
    if column.type != ColumnType.ENUM or column.members is None:
        return None
    return [EnumValue(name, index) for index, name in enumerate(("", *column.members))]


def _function(layout: Construct) -> Callable[[bytes], Any]:
    """Return the function from the bytes of a value, without those of its length, to what `layout` makes of them."""
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
