"""Converts decoded rows to Arrow values, value by value in Python.

For single rows that a condition selects, and to raise the error for a row that the kernel rejects. `batches` converts
the rows of batches, in the kernel.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from binlogio.constants import ColumnType
from binlogio.errors import BinlogFormatError, Hint
from binlogio.events.base import event_name
from binlogio.rows.image import decode_rows
from binlogio.values.absent import ABSENT
from binlogio.values.charsets import UNKNOWN_COLLATION, charset_of, unknown_text
from binlogio.values.decimal import decimal_text
from binlogio.values.enum_set import EnumValue, SetValue
from binlogio.values.geometry import Geometry
from binlogio.values.json import JsonDiffs, JsonDocument
from binlogio.values.text import json_value, value_text

if TYPE_CHECKING:
    from binlogio.columnar.record_types import RecordType
    from binlogio.events.rows import RowsEvent
    from binlogio.rows.image import RowChange, RowImage
    from binlogio.rows.plan import TablePlan
    from binlogio.values.column import ColumnPlan

_DATES: Final = frozenset(
    {
        ColumnType.DATE,
        ColumnType.NEWDATE,
        ColumnType.DATETIME,
        ColumnType.DATETIME2,
        ColumnType.TIMESTAMP,
        ColumnType.TIMESTAMP2,
    }
)
_TIMES: Final = frozenset({ColumnType.TIME, ColumnType.TIME2})
_READ_EVENTS: Final = "read the log event by event, or leave the column out"

Images = list[tuple[Any, Any]]
"""Before and after image of each row, as a tuple of values for Arrow, or as JSON text; None: no such image."""


def row_images(
    event: RowsEvent,
    plan: TablePlan,
    kind: RecordType | None,
    *,
    first_row: int = 0,
    first_byte: int = 0,
    changes: Iterator[RowChange] | None = None,
) -> Images:
    """Return the images of an event's rows: the values of the columns of `kind`, or JSON text if it is None.

    `first_row` and `first_byte` are as in `decode_rows`; `changes` are the rows, if they are already decoded.

    Raises:
        BinlogFormatError: the images do not fit the table, contain a damaged document or geometry, or have a value
            that the Arrow type of a column cannot represent.
    """
    wanted = None if kind is None else frozenset(column.position for column in kind.columns)
    images: Images = []
    if changes is None:
        changes = decode_rows(event, plan, wanted, first_row=first_row, first_byte=first_byte)
    for row, change in enumerate(changes, start=first_row):
        try:
            if kind is None:
                after = change.applied()
                images.append((image_text(change.before), image_text(after)))
            else:
                images.append((_values(change.before, kind), _values(change.applied(), kind)))
        except BinlogFormatError as exc:
            exc.locate(offset=event.header.offset, event_type=event_name(event.header.type_code))
            exc.field = exc.field if kind is None else f"row {row}, {exc.field}"
            raise
    return images


def image_arrays(images: Images, kind: RecordType) -> tuple[pa.Array, pa.Array]:
    """Return the before and after images of rows as Arrow arrays."""
    before, after = zip(*images, strict=True) if images else ((), ())
    return struct_array(before, kind.image_type), struct_array(after, kind.image_type)


def struct_array(values: tuple[Any, ...], kind: pa.StructType) -> pa.StructArray:
    """Return images as an Arrow array."""
    fields, mask = list(kind), pa.array([image is None for image in values], pa.bool_())
    if not fields:
        return pa.array([None if image is None else {} for image in values], kind)
    children = [
        pa.array([None if image is None else image[slot] for image in values], one.type)
        for slot, one in enumerate(fields)
    ]
    return pa.StructArray.from_arrays(children, fields=fields, mask=mask)


def image_text(image: RowImage | None) -> str | None:
    """Return the values in an image, by column name, as JSON; None if there is no image.

    Raises:
        BinlogFormatError: a JSON document or a geometry is damaged; the message names the column.
    """
    if image is None:
        return None
    values = {}
    for column, value in zip(image.plan.columns, image.values, strict=True):
        if value is not ABSENT:
            try:
                values[column.label] = json_value(value, column)
            except BinlogFormatError as exc:
                _name_column(exc, column)
                raise
    text = json.dumps(values, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "backslashreplace").decode()


def _values(image: RowImage | None, kind: RecordType) -> tuple[Any, ...] | None:
    if image is None:
        return None
    return tuple(_arrow_value(image.values[column.position], column, kind) for column in kind.columns)


def _arrow_value(value: Any, column: ColumnPlan, kind: RecordType) -> Any:
    """Return a value in a form that pyarrow accepts.

    Raises:
        BinlogFormatError: the Arrow type of the column cannot represent it.
    """
    if value is None or value is ABSENT:
        return None
    if isinstance(value, (JsonDocument, JsonDiffs)):
        return _json_text(value, column, kind)
    if column.type in _DATES:
        return _date(value, column, kind.zero_dates)
    if isinstance(value, str) and column.type in _TIMES:
        raise _refused(column, "the minutes or seconds of the TIME exceed 59", value)
    if column.members is not None:
        if not isinstance(value, EnumValue | SetValue):
            raise _refused(column, f"the value is not a member of the {column.type.name}", value)
        return str(value)
    if column.type == ColumnType.GEOMETRY:
        return {"srid": value.srid, "wkb": value.wkb} if isinstance(value, Geometry) else {"srid": 0, "wkb": value}
    if column.type == ColumnType.DECIMAL:
        return decimal_text(value)
    charset = charset_of(column.collation_id) if isinstance(value, bytes) else None
    if charset is not None and column.collation_id == UNKNOWN_COLLATION:
        raise unknown_text(column.label, value)
    if charset is not None:
        raise _refused(column, f"the bytes are not valid {charset.name}", f"0x{value[:64].hex()}")
    return value


def _json_text(value: JsonDocument | JsonDiffs, column: ColumnPlan, kind: RecordType) -> str:
    try:
        if isinstance(value, JsonDocument):
            return value.text
        if kind.json_diffs == "operations":
            return value.operations
    except BinlogFormatError as exc:
        _name_column(exc, column)
        raise
    raise _refused(
        column,
        "the before image has no document to which the JSON diffs apply",
        value.sql(column.label),
        'json_diffs="operations" gives the diffs as text; ' + _READ_EVENTS,
    )


def _date(value: Any, column: ColumnPlan, zero_dates: str) -> Any:
    if zero_dates == "text":
        return value_text(value, column)
    if not isinstance(value, str):
        return value
    if zero_dates == "null":
        return None
    raise _refused(column, "zero or invalid date", value, Hint.ZERO_DATES)


def _name_column(exc: BinlogFormatError, column: ColumnPlan) -> None:
    exc.field = f"column {column.label}" + (f": {exc.field}" if exc.field else "")


def _refused(column: ColumnPlan, reason: str, found: object, hint: str | Hint = _READ_EVENTS) -> BinlogFormatError:
    return BinlogFormatError(reason, field=f"column {column.label}", found=found, hint=hint)
