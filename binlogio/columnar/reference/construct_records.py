"""Builds records from construct's values, one value at a time; the reference for the compiled kernel.

Converts Python values of columns to Arrow values, and raises, for both implementations, the error about a value that
the Arrow type of the column cannot represent, with the row and the column.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from binlogio.columnar.record_types import MIXED_SCHEMA
from binlogio.columnar.reference.row_records import OPERATIONS, image_text, present_bitmaps
from binlogio.constants import ColumnType
from binlogio.errors import BinlogFormatError, Hint
from binlogio.events.base import event_name
from binlogio.rows.image import decode_rows
from binlogio.values.absent import ABSENT
from binlogio.values.charsets import charset_of
from binlogio.values.decimal import decimal_text
from binlogio.values.enum_set import EnumValue, SetValue
from binlogio.values.geometry import Geometry
from binlogio.values.json import JsonDiffs, JsonDocument
from binlogio.values.text import value_text

if TYPE_CHECKING:
    from binlogio.columnar.record_types import RecordType
    from binlogio.events.rows import RowsEvent
    from binlogio.rows.image import RowImage
    from binlogio.rows.plan import TablePlan
    from binlogio.values.column import ColumnPlan

DATES: Final = frozenset(
    {
        ColumnType.DATE,
        ColumnType.NEWDATE,
        ColumnType.DATETIME,
        ColumnType.DATETIME2,
        ColumnType.TIMESTAMP,
        ColumnType.TIMESTAMP2,
    }
)
TIMES: Final = frozenset({ColumnType.TIME, ColumnType.TIME2})
_READ_EVENTS: Final = "read the log event by event, or leave the column out"

ImageValues = tuple[Any, ...] | None
"""The values of an image's wanted columns in the form that Arrow accepts; None if there is no such image."""

ImagePair = tuple[ImageValues, ImageValues]
"""The images of a row before and after the change."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsSource:
    """Source of the rows of an event: their transaction, and the number of rows before them at the same position."""

    gtid: str | None = None
    last_committed: int | None = None
    sequence_number: int | None = None
    first_row: int = 0


def image_pairs(event: RowsEvent, kind: RecordType, *, first_row: int = 0, first_byte: int = 0) -> list[ImagePair]:
    """Return the before and the after image of each row of an event; `first_row` and `first_byte` as in `decode_rows`.

    Raises:
        BinlogFormatError: the images do not fit the table, or the Arrow type of a column cannot represent a value.
    """
    wanted = frozenset(column.position for column in kind.columns)
    pairs = []
    changes = decode_rows(event, kind.plan, wanted, first_row=first_row, first_byte=first_byte)
    for row, change in enumerate(changes, start=first_row):
        try:
            pairs.append((_values(change.before, kind), _values(change.applied(), kind)))
        except BinlogFormatError as exc:
            exc.locate(offset=event.header.offset, event_type=event_name(event.header.type_code))
            exc.field = f"row {row}, {exc.field}"
            raise
    return pairs


def text_pairs(event: RowsEvent, plan: TablePlan, *, first_row: int = 0, first_byte: int = 0) -> list[ImagePair]:
    """Return the before and the after image of each row of an event as JSON text, each a tuple of one value.

    `first_row` and `first_byte` as in `decode_rows`.

    Raises:
        BinlogFormatError: the images do not fit the table, or contain a damaged document or geometry.
    """
    pairs = []
    try:
        for change in decode_rows(event, plan, first_row=first_row, first_byte=first_byte):
            after = change.applied()
            pairs.append((_text(change.before), _text(after)))
    except BinlogFormatError as exc:
        exc.locate(offset=event.header.offset, event_type=event_name(event.header.type_code))
        raise
    return pairs


def _text(image: RowImage | None) -> ImageValues:
    return None if image is None else (image_text(image),)


def _values(image: RowImage | None, kind: RecordType) -> ImageValues:
    if image is None:
        return None
    return tuple(_arrow_value(image.values[column.position], column, kind) for column in kind.columns)


def _arrow_value(value: Any, column: ColumnPlan, kind: RecordType) -> Any:
    """Return a value in the form that pyarrow accepts.

    Raises:
        BinlogFormatError: the Arrow type of the column cannot represent it.
    """
    if value is None or value is ABSENT:
        return None
    if isinstance(value, JsonDocument):
        return _json_text(value, column)
    if isinstance(value, JsonDiffs):
        if kind.json_diffs == "operations":
            return _json_text(value, column)
        raise _refused(
            column,
            "the before image has no document to which the JSON diffs apply",
            value.sql(column.label),
            'json_diffs="operations" gives the diffs as text; ' + _READ_EVENTS,
        )
    if column.type in DATES:
        return _date(value, column, kind.zero_dates)
    if isinstance(value, str) and column.type in TIMES:
        raise _refused(column, "the minutes or seconds of the TIME exceed 59", value)
    if column.members is not None:
        return _members(value, column)
    if column.type == ColumnType.GEOMETRY:
        return {"srid": value.srid, "wkb": value.wkb} if isinstance(value, Geometry) else {"srid": 0, "wkb": value}
    if column.type == ColumnType.DECIMAL:
        return decimal_text(value)
    if isinstance(value, bytes):
        return _bytes(value, column)
    return value


def _json_text(value: JsonDocument | JsonDiffs, column: ColumnPlan) -> str:
    try:
        return value.operations if isinstance(value, JsonDiffs) else value.text
    except BinlogFormatError as exc:
        exc.field = f"column {column.label}" + (f": {exc.field}" if exc.field else "")
        raise


def _date(value: Any, column: ColumnPlan, zero_dates: str) -> Any:
    if zero_dates == "text":
        return value_text(value, column)
    if not isinstance(value, str):
        return value
    if zero_dates == "null":
        return None
    raise _refused(column, "zero or invalid date", value, Hint.ZERO_DATES)


def _members(value: Any, column: ColumnPlan) -> str:
    if not isinstance(value, EnumValue | SetValue):
        raise _refused(column, f"the value is not a member of the {column.type.name}", value)
    return str(value).encode("utf-8", "replace").decode()


def _bytes(value: bytes, column: ColumnPlan) -> bytes:
    charset = charset_of(column.collation_id)
    if charset is not None:
        raise _refused(column, f"the bytes are not valid {charset.name}", f"0x{value[:64].hex()}")
    return value


def _refused(column: ColumnPlan, reason: str, found: object, hint: str | Hint = _READ_EVENTS) -> BinlogFormatError:
    return BinlogFormatError(reason, field=f"column {column.label}", found=found, hint=hint)


# ------------------------------------------------------------------------------------------------------------- batches


@dataclass(slots=True)
class PendingRecords:
    """Records that were not returned yet: of one table map, or of any tables with JSON images if `kind` is None.

    `size` is the size of their images in the log, in bytes.
    """

    kind: RecordType | None
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    size: int = 0

    def add(self, file: str, plan: TablePlan, event: RowsEvent, source: RowsSource, pairs: list[ImagePair]) -> None:
        """Add the rows of an event."""
        errors = "backslashreplace" if self.kind is None else "replace"  # bytes as \udcff, as the kernel writes them
        schema, table = (_encodable(name, errors) for name in (plan.schema, plan.table))
        file, head, present = _encodable(file, "replace"), _head(event, source), present_bitmaps(event)
        for row, (before, after) in enumerate(pairs, start=source.first_row):
            images = (before, after) if self.kind is not None else (_json(before), _json(after))
            self.rows.append((file, event.header.offset, row, *head, schema, table, *images, *present))
        self.size += len(event.images)

    def take(self, count: int) -> pa.RecordBatch:
        """Return the first `count` records as a batch."""
        schema = MIXED_SCHEMA if self.kind is None else self.kind.schema
        columns = list(zip(*self.rows[:count], strict=True))
        del self.rows[:count]
        self.size = 0 if not self.rows else self.size
        arrays = [_array(values, one.type) for values, one in zip(columns, schema, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _array(values: tuple[Any, ...], kind: pa.DataType) -> pa.Array:
    if not isinstance(kind, pa.StructType):
        return pa.array(values, kind)
    fields, mask = list(kind), pa.array([image is None for image in values], pa.bool_())
    if not fields:
        return pa.array([None if image is None else {} for image in values], kind)
    children = [
        pa.array([None if image is None else image[slot] for image in values], one.type)
        for slot, one in enumerate(fields)
    ]
    return pa.StructArray.from_arrays(children, fields=fields, mask=mask)


def _json(image: ImageValues) -> str | None:
    return None if image is None else _encodable(image[0], "backslashreplace")


def _head(event: RowsEvent, source: RowsSource) -> tuple[Any, ...]:
    """Return the columns of a record from `op` to `sequence_number`."""
    header = event.header
    with_clock = source.sequence_number is not None and source.sequence_number >= 0
    return (
        OPERATIONS[type(event)],
        header.timestamp,
        header.server_id,
        source.gtid,
        source.last_committed if with_clock else None,
        source.sequence_number if with_clock else None,
    )


def _encodable(text: str, errors: str) -> str:
    """Return text with bytes that are not UTF-8 written as `errors` says."""
    return text.encode("utf-8", errors).decode()
