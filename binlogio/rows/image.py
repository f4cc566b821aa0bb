"""Row images and row changes: decodes and encodes the `images` of a rows event.

Defines bitmaps and the order of values; the layouts of values are in `binlogio.values.layout`. The compiled kernel must
agree with this file.

    images    := after*  (WRITE_ROWS) | before*  (DELETE_ROWS) | (before after)*  (UPDATE_ROWS)
               | (before options: lenenc  (partial: bits[JSON columns of the table])?  after)*  (PARTIAL_UPDATE_ROWS)
    before    := null: bits[columns in the image]  value*                                       -- after is the same
    options   := 1 if `partial` follows: a JSON column with its bit set has diffs instead of a document
    value     := a column in the image that is not NULL, in the order of the table
    pre_ga    := record_bits: u8[*]  value*    -- before and after images of PRE_GA events: all columns in the image
                                                  have a value, also those that are NULL
    record_bits := a spare bit if no column has a variable length; a null bit for each nullable column of the table

The lowest bit is the first. The bits after the last null bit have the value `TablePlan.spare_null_bits`; the bits after
the last partial bit are 0.
Source: sql/rpl_record.cc, pack_row and unpack_row; sql/log_event.cc, Rows_log_event::print_verbose_one_row.
"""

from __future__ import annotations

from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, Final

from construct import Construct, Container, ValidationError

from binlogio.constants import ColumnType, EventType
from binlogio.errors import BinlogFormatError, Hint
from binlogio.events.base import event_name
from binlogio.events.rows import DeleteRowsEvent, PartialUpdateRowsEvent, RowsEvent, UpdateRowsEvent
from binlogio.frozen import dataclass
from binlogio.primitives import BAD_BYTES, LenencInt, bitmap_size, read_exactly
from binlogio.values.absent import ABSENT
from binlogio.values.column import BLOBS
from binlogio.values.json import JsonDiffs, JsonDocument
from binlogio.values.json.diff import PARTIAL_JSON
from binlogio.values.layout import SKIPPED_PARTIAL_JSON, column_layout, skipped_layout

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping
    from io import BytesIO

    from binlogio.rows.plan import TablePlan
    from binlogio.values.column import ColumnPlan

PARTIAL_JSON_UPDATES: Final = 1
PRE_GA_EVENTS: Final = (
    EventType.PRE_GA_WRITE_ROWS_EVENT,
    EventType.PRE_GA_UPDATE_ROWS_EVENT,
    EventType.PRE_GA_DELETE_ROWS_EVENT,
)
VARIABLE_LENGTH: Final = frozenset({*BLOBS, ColumnType.VARCHAR, ColumnType.GEOMETRY})


@dataclass(frozen=True, slots=True)
class RowImage:
    """One image of a row: a value for each column of the table, or `ABSENT` if the image does not have the column."""

    plan: TablePlan = field(repr=False, compare=False)
    values: tuple[Any, ...]

    @classmethod
    def from_dict(cls, plan: TablePlan, values: Mapping[str, object]) -> RowImage:
        """Return an image with the columns in `values`; other columns are absent.

        Raises:
            BinlogFormatError: the table does not have a column of `values`.
        """
        unknown = set(values) - {column.label for column in plan.columns}
        if unknown:
            raise BinlogFormatError("unknown column", field=plan.full_name, found=repr(min(unknown)))
        return cls(plan, tuple(values.get(column.label, ABSENT) for column in plan.columns))

    @property
    def present(self) -> bytes:
        """The bitmap of the columns that the image has, lowest bit first."""
        bits = sum(1 << i for i, value in enumerate(self.values) if value is not ABSENT)
        return bits.to_bytes(bitmap_size(len(self.values)), "little")

    def get(self, name: str) -> Any:
        """Return the value of a column; `ABSENT` if the image, or the table, does not have the column."""
        for column, value in zip(self.plan.columns, self.values, strict=True):
            if column.label == name:
                return value
        return ABSENT

    def as_dict(self) -> dict[str, Any]:
        """Return the columns of the image as a mapping from name to value."""
        named = zip(self.plan.columns, self.values, strict=True)
        return {column.label: value for column, value in named if value is not ABSENT}


@dataclass(frozen=True, slots=True)
class RowChange:
    """The change of one row. `before` is None for an insert, `after` is None for a delete."""

    before: RowImage | None
    after: RowImage | None

    def applied(self) -> RowImage | None:
        """Return the after image with JSON diffs applied to the documents of the before image.

        The diffs of a column that is absent from the before image are returned unchanged.

        Raises:
            BinlogFormatError: the diffs do not fit the document.
        """
        if self.after is None or self.before is None:
            return self.after
        pairs = zip(self.after.plan.columns, self.before.values, self.after.values, strict=True)
        return replace(self.after, values=tuple(_applied(column, old, new) for column, old, new in pairs))


def _applied(column: ColumnPlan, old: Any, new: Any) -> Any:
    if not isinstance(new, JsonDiffs) or old is ABSENT:
        return new
    try:
        if not isinstance(old, JsonDocument):
            raise BinlogFormatError("JSON diffs need a document in the before image", found=repr(old))
        return new.apply(old)
    except BinlogFormatError as exc:
        exc.field = f"column {column.label}"
        raise


# ----------------------------------------------------------------------------------------------------- layouts


def _positions(present: bytes, count: int) -> tuple[int, ...]:
    """Return the positions of the columns whose bits are set."""
    if len(present) != bitmap_size(count):
        raise BinlogFormatError(
            "column bitmap length does not match the column count",
            expected=f"{bitmap_size(count)} bytes",
            found=len(present),
        )
    return tuple(position for position in range(count) if present[position >> 3] >> (position & 7) & 1)


class RowImageLayout(Construct):  # type: ignore[misc]
    """The layout of one row image with the columns of a bitmap.

    Only the columns at the positions `wanted` are decoded; None decodes all. `first_byte` is the offset of the stream
    in the images of the event, for error messages.
    """

    def __init__(
        self, plan: TablePlan, present: bytes, wanted: Collection[int] | None = None, first_byte: int = 0
    ) -> None:
        super().__init__()
        self.plan = plan
        self.wanted = wanted
        self.first_byte = first_byte
        self.columns = tuple(plan.columns[position] for position in _positions(present, len(plan.columns)))
        self.layouts = tuple(
            column_layout(column) if self.wants(column) else skipped_layout(column) for column in self.columns
        )

    def wants(self, column: ColumnPlan) -> bool:
        """Return whether the values of a column are decoded."""
        return self.wanted is None or column.position in self.wanted

    def _parse(self, stream: BytesIO, context: Container, path: str) -> RowImage:
        return self.parse_values(stream, context, path, self.layouts)

    def _build(self, obj: RowImage, stream: BytesIO, context: Container, path: str) -> RowImage:
        self.build_values(obj, stream, context, path, self.layouts)
        return obj

    def parse_values(self, stream: BytesIO, context: Container, path: str, layouts: tuple[Construct, ...]) -> RowImage:
        """Parse the null bits, then each value with the layout of its column."""
        null = int.from_bytes(read_exactly(stream, bitmap_size(len(layouts)), path), "little")
        return self.parse_columns(stream, context, path, layouts, null)

    def parse_columns(
        self, stream: BytesIO, context: Container, path: str, layouts: tuple[Construct, ...], null: int
    ) -> RowImage:
        """Parse each value with the layout of its column. A column is NULL if its bit in `null` is set."""
        values: list[Any] = [ABSENT] * len(self.plan.columns)
        for index, (column, layout) in enumerate(zip(self.columns, layouts, strict=True)):
            at = self.first_byte + stream.tell()
            try:
                if not null >> index & 1:
                    values[column.position] = layout._parsereport(stream, context, path)
                elif self.wants(column):
                    values[column.position] = None
            except BAD_BYTES as exc:
                raise _translate(exc, column, at) from exc
            except BinlogFormatError as exc:
                raise _locate(exc, column, at) from exc
        return RowImage(self.plan, tuple(values))

    def build_values(
        self, image: RowImage, stream: BytesIO, context: Container, path: str, layouts: tuple[Construct, ...]
    ) -> None:
        """Write the null bits and the values; the inverse of `parse_values`."""
        values = [image.values[column.position] for column in self.columns]
        null = sum(1 << i for i, value in enumerate(values) if value is None)
        if self.plan.spare_null_bits:
            null |= ((1 << -len(values) % 8) - 1) << len(values)
        stream.write(null.to_bytes(bitmap_size(len(values)), "little"))
        for column, layout, value in zip(self.columns, layouts, values, strict=True):
            at = stream.tell()
            try:
                if value is ABSENT:
                    raise BinlogFormatError("the row image has no value for a column in its bitmap")
                if value is not None:
                    layout._build(value, stream, context, path)
            except BAD_BYTES as exc:
                raise _translate(exc, column, at) from exc
            except BinlogFormatError as exc:
                raise _locate(exc, column, at) from exc


class PartialImageLayout(RowImageLayout):
    """The layout of an after image of a partial update, which begins with options and partial bits."""

    def _parse(self, stream: BytesIO, context: Container, path: str) -> RowImage:
        options, partial = LenencInt._parsereport(stream, context, path), 0
        if options & ~PARTIAL_JSON_UPDATES:
            raise ValidationError(f"unknown value options 0x{options:x}, expected 0 or 1", path=path)
        if options:
            size = bitmap_size(len(self.plan.json_positions))
            partial = int.from_bytes(read_exactly(stream, size, path), "little")
        return self.parse_values(stream, context, path, self._layouts_with(partial))

    def _build(self, obj: RowImage, stream: BytesIO, context: Container, path: str) -> RowImage:
        json_positions = self.plan.json_positions
        changed = {position for position in json_positions if isinstance(obj.values[position], JsonDiffs)}
        partial = sum(1 << i for i, position in enumerate(json_positions) if position in changed)
        LenencInt._build(PARTIAL_JSON_UPDATES if partial else 0, stream, context, path)
        if partial:
            stream.write(partial.to_bytes(bitmap_size(len(json_positions)), "little"))
        self.build_values(obj, stream, context, path, self._layouts_with(partial))
        return obj

    def _layouts_with(self, partial: int) -> tuple[Construct, ...]:
        if not partial:
            return self.layouts
        changed = {position for i, position in enumerate(self.plan.json_positions) if partial >> i & 1}
        pairs = zip(self.columns, self.layouts, strict=True)
        return tuple(
            layout if column.position not in changed else (PARTIAL_JSON if self.wants(column) else SKIPPED_PARTIAL_JSON)
            for column, layout in pairs
        )


def record_bits(plan: TablePlan) -> tuple[tuple[int, ...], int]:
    """Return the number of each column's null bit in a record of 5.1 before GA, and the number of bits.

    The number is -1 for a column that is not nullable.
    """
    count = int(all(column.type not in VARIABLE_LENGTH for column in plan.columns))
    bits = []
    for column in plan.columns:
        bits.append(count if column.nullable else -1)
        count += column.nullable
    return tuple(bits), count


class PreGaImageLayout(RowImageLayout):
    """The layout of a row image of 5.1 before GA.

    The null bits are those of the server's record buffer, and a column that is NULL has the bytes of a value as well.

    Source: sql/log_event_old.cc of 5.1 to 5.7, pack_row_old and unpack_row_old.
    """

    def _parse(self, stream: BytesIO, context: Container, path: str) -> RowImage:
        bits, count = record_bits(self.plan)
        null = int.from_bytes(read_exactly(stream, bitmap_size(count), path), "little")
        absent = {position for position, bit in enumerate(bits) if bit >= 0 and null >> bit & 1}
        image = self.parse_columns(stream, context, path, self.layouts, 0)
        values = (None if i in absent and value is not ABSENT else value for i, value in enumerate(image.values))
        return RowImage(self.plan, tuple(values))

    def _build(self, obj: RowImage, stream: BytesIO, context: Container, path: str) -> RowImage:
        raise BinlogFormatError("row images of MySQL 5.1 before GA can be read, but not written")


class _RowChanges(Construct):  # type: ignore[misc]
    """The layout of row changes up to the end of the bytes.

    `before` or `after` is None if the event type does not have this image. `first_row` is the number of the first row,
    for error messages.
    """

    def __init__(self, before: RowImageLayout | None, after: RowImageLayout | None, first_row: int = 0) -> None:
        super().__init__()
        self.before = before
        self.after = after
        self.first_row = first_row

    def _parse(self, stream: BytesIO, context: Container, path: str) -> list[RowChange]:
        changes: list[RowChange] = []
        start, end = stream.tell(), stream.seek(0, 2)
        stream.seek(start)
        # INSERT INTO t VALUES () with minimal images is a row of no bytes; servers write one such row per event.
        alone = self.before is None and self.after is not None and not self.after.columns
        while stream.tell() < end or (alone and not changes):
            at = stream.tell()
            try:
                before = self.before._parsereport(stream, context, path) if self.before else None
                after = self.after._parsereport(stream, context, path) if self.after else None
            except BinlogFormatError as exc:
                exc.field = f"row {self.first_row + len(changes)}" + (f", {exc.field}" if exc.field else "")
                raise
            changes.append(RowChange(before, after))
            if stream.tell() == at and end > at:
                raise ValidationError("the rows event has row images, but its bitmap has no columns", path=path)
        return changes

    def _build(self, obj: Iterable[RowChange], stream: BytesIO, context: Container, path: str) -> Iterable[RowChange]:
        for change in obj:
            for what, layout, image in (("before", self.before, change.before), ("after", self.after, change.after)):
                if (layout is None) != (image is None):
                    raise BinlogFormatError(f"unexpected or missing {what} image")
                if layout is not None and image is not None:
                    layout._build(image, stream, context, path)
        return obj


def _locate(exc: BinlogFormatError, column: ColumnPlan, at: int) -> BinlogFormatError:
    inner = f": {exc.field}" if exc.field else ""
    exc.field = f"column {column.label}, byte {at} of the row images{inner}"
    if column.fsp_assumed and exc.hint is None:
        exc.hint = ("the binlog does not say how many fraction digits the column has", Hint.TABLE_DEFINITION)
    return exc


def _translate(exc: BaseException, column: ColumnPlan, at: int) -> BinlogFormatError:
    return _locate(BinlogFormatError(_reason(exc)), column, at)


def _reason(exc: BaseException) -> str:
    """Return the last line of an exception of construct; the lines before it are the path in the layout."""
    return (str(exc).strip().splitlines() or [type(exc).__name__])[-1]


# --------------------------------------------------------------------------------------------- whole rows events


def _changes_layout(
    event: RowsEvent, plan: TablePlan, wanted: Collection[int] | None, first_row: int, first_byte: int
) -> _RowChanges:
    image = PreGaImageLayout if event.header.type_code in PRE_GA_EVENTS else RowImageLayout
    before = image(plan, event.present, wanted, first_byte)
    if isinstance(event, PartialUpdateRowsEvent):
        return _RowChanges(before, PartialImageLayout(plan, event.present_after, wanted, first_byte), first_row)
    if isinstance(event, UpdateRowsEvent):
        return _RowChanges(before, image(plan, event.present_after, wanted, first_byte), first_row)
    if isinstance(event, DeleteRowsEvent):
        return _RowChanges(before, None, first_row)
    return _RowChanges(None, before, first_row)


def decode_rows(
    event: RowsEvent,
    plan: TablePlan,
    wanted: Collection[int] | None = None,
    *,
    first_row: int = 0,
    first_byte: int = 0,
) -> Iterator[RowChange]:
    """Return the row changes of a rows event; `plan` is the plan of its table map. All rows are decoded at once.

    `wanted` are the positions of the columns to decode; other columns are skipped and ABSENT. None decodes all. If
    `event` has only the last part of its rows, `first_row` and `first_byte` are row number and offset of this part.

    Raises:
        BinlogFormatError: the images do not fit the plan; the error contains row, column and offset in the images.
    """
    try:
        if event.column_count != len(plan.columns):
            raise BinlogFormatError(
                "the rows event and its table map have different numbers of columns",
                field=plan.full_name,
                expected=len(plan.columns),
                found=event.column_count,
            )
        return iter(_changes_layout(event, plan, wanted, first_row, first_byte).parse(event.images))
    except BinlogFormatError as exc:
        exc.locate(offset=event.header.offset, event_type=event_name(event.header.type_code))
        raise
    except BAD_BYTES as exc:
        raise BinlogFormatError(
            _reason(exc),
            offset=event.header.offset,
            event_type=event_name(event.header.type_code),
            field=f"row images of {plan.full_name}",
        ) from exc


def present_bitmaps(event: RowsEvent) -> tuple[bytes | None, bytes | None]:
    """Return the bitmaps of the columns in the before and the after images; None if the event has no such images.

    Bits after the last column are cleared; servers set them.
    """

    def bits(present: bytes) -> bytes:
        return (int.from_bytes(present, "little") & (1 << event.column_count) - 1).to_bytes(len(present), "little")

    first = bits(event.present)
    if isinstance(event, (UpdateRowsEvent, PartialUpdateRowsEvent)):
        return first, bits(event.present_after)
    return (first, None) if isinstance(event, DeleteRowsEvent) else (None, first)


def encode_rows(
    changes: Iterable[RowChange], plan: TablePlan, present: bytes, present_after: bytes | None = None
) -> bytes:
    """Return the `images` of row changes of one operation: inserts, deletes, or (with `present_after`) updates.

    `present` and `present_after` are the bitmaps of the columns to write, lowest bit first.

    Raises:
        BinlogFormatError: a value does not fit its column, or is absent although its bit is set; or the changes are of
            several operations.
    """
    changes = list(changes)
    image = RowImageLayout(plan, present)
    if present_after is not None:
        return _built(_RowChanges(image, RowImageLayout(plan, present_after)), changes)
    deletes = bool(changes) and changes[0].after is None
    return _built(_RowChanges(image, None) if deletes else _RowChanges(None, image), changes)


def encode_partial_rows(changes: Iterable[RowChange], plan: TablePlan, present: bytes, present_after: bytes) -> bytes:
    """Return the `images` of updates whose JSON columns may be `JsonDiffs`, for a PARTIAL_UPDATE_ROWS_EVENT.

    Raises:
        BinlogFormatError: as in `encode_rows`.
    """
    layout = _RowChanges(RowImageLayout(plan, present), PartialImageLayout(plan, present_after))
    return _built(layout, list(changes))


def _built(layout: _RowChanges, changes: list[RowChange]) -> bytes:
    try:
        return bytes(layout.build(changes))
    except BAD_BYTES as exc:
        raise BinlogFormatError(_reason(exc), field="row images") from exc
