"""Encodes record batches to rows events, with the compiled kernel if it is installed.

This module selects the columns of the images and the event type. `column_arrays` and the kernel encode values. A row
that the kernel refuses is passed to `binlogio.rows`, which encodes it or raises the error. Without the kernel, all rows
are encoded there.

    insert         := an after image for each row
    delete         := a before image for each row
    update         := a before and an after image for each row
    partial update := update, but a JSON column of the after image may have diffs: the given diffs, or an empty list if
                      the document is unchanged
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Literal

from binlogio.arrow.values import ColumnValues
from binlogio.constants import DEFAULT_ROW_EVENT_MAX_SIZE, EventType
from binlogio.errors import BinlogFormatError
from binlogio.format.event_frames import EventFrames, RowsFrames
from binlogio.implementation import is_compiled
from binlogio.primitives import bitmap_size
from binlogio.rows.image import RowChange, RowImage, encode_partial_rows, encode_rows
from binlogio.rows.plan import TablePlan, resolve_plan
from binlogio.schema import TableDefinition
from binlogio.values.absent import ABSENT
from binlogio.values.json import JsonDiffs, JsonDocument

if TYPE_CHECKING:
    import pyarrow as pa

    from binlogio._kernel.row_encoder import ArrowColumns, EventBuffer

Operation = Literal["insert", "update", "delete"]

EVENT_TYPES: Final[dict[str, EventType]] = {
    "insert": EventType.WRITE_ROWS_EVENT,
    "update": EventType.UPDATE_ROWS_EVENT,
    "delete": EventType.DELETE_ROWS_EVENT,
}
"""The default event type of each operation."""
_IMAGES: Final = {"insert": (False, True), "update": (True, True), "delete": (True, False)}
"""For each operation, whether a change has a before image, and whether it has an after image."""


def new_buffer(offset: int, *, checksum: bool) -> EventBuffer | EventFrames:
    """Return an empty buffer for events at `offset` (bytes from the start of the file), with or without the kernel."""
    if not is_compiled():
        return EventFrames(offset, checksum=checksum)
    from binlogio._kernel.row_encoder import EventBuffer  # noqa: PLC0415 - the kernel may not be installed

    return EventBuffer(offset, checksum=checksum)


def _rows_encoder_of(buffer: EventBuffer | EventFrames) -> type[Any]:
    if isinstance(buffer, EventFrames):
        return RowsFrames
    from binlogio._kernel.row_encoder import RowsEncoder  # noqa: PLC0415

    return RowsEncoder


def _columns_class() -> type[ColumnValues]:
    if not is_compiled():
        return ColumnValues
    from binlogio.arrow.column_arrays import ColumnArrays  # noqa: PLC0415

    return ColumnArrays


def plan_of(table: TableDefinition | TablePlan, table_id: int = 0) -> TablePlan:
    """Return the plan of a table definition; a plan is returned unchanged."""
    if isinstance(table, TablePlan):
        return table
    return resolve_plan(table.table_map(table_id, "FULL"), definition=table.plan_columns())


class TableEncoder:
    """Encodes changes of one operation to one table, one statement per call.

    Args:
        plan: the columns of the table.
        operation: `insert` (needs `after`), `delete` (needs `before`), or `update` (both, with as many rows).
        present: the bitmap of the columns in the images (bit i % 8 of byte i // 8); None for all columns.
        present_after: the bitmap of the columns in the after images of an update.
        partial_json: write updates as with binlog_row_value_options=PARTIAL_JSON. A JSON column of `after` may then
            have the type `binlogio.arrow.types.JSON_DIFFS`.
        type_code: the type of the events, v1 or v2; None for that of `EVENT_TYPES`.
    """

    def __init__(
        self,
        plan: TablePlan,
        operation: Operation,
        present: bytes | None = None,
        present_after: bytes | None = None,
        *,
        partial_json: bool = False,
        type_code: EventType | None = None,
    ) -> None:
        if operation not in EVENT_TYPES:
            raise BinlogFormatError("unknown operation", expected=" or ".join(EVENT_TYPES), found=repr(operation))
        every = b"\xff" * bitmap_size(len(plan.columns))
        self.plan: Final = plan
        self.operation: Final = operation
        self.present: Final = every if present is None else bytes(present)
        self.present_after: Final = every if present_after is None else bytes(present_after)
        has_before, has_after = _IMAGES[operation]
        after = self.present_after if has_before else self.present
        self._is_partial = partial_json and operation == "update"
        usual = type_code or EVENT_TYPES[operation]
        self.type_code: Final = EventType.PARTIAL_UPDATE_ROWS_EVENT if self._is_partial else usual
        self._before = _Side(plan, self.present, "before") if has_before else None
        self._after = _Side(plan, after, "after", takes_diffs=self._is_partial) if has_after else None
        self._reused: Any = None  # the encoder of rows for the columns in `_reused_for`
        self._reused_for: list[ArrowColumns | None] = []

    def encode(
        self,
        buffer: EventBuffer | EventFrames,
        before: pa.RecordBatch | pa.Table | None = None,
        after: pa.RecordBatch | pa.Table | None = None,
        *,
        table_id: int,
        timestamp: int = 0,
        server_id: int = 1,
        flags: int = 0,
        row_event_max_size: int = DEFAULT_ROW_EVENT_MAX_SIZE,
        ends_statement: bool = True,
    ) -> int:
        """Append the rows events of one statement to `buffer`; return the number of rows.

        A batch must have a column for each column of the images, with its name (`@1`, `@2`, ... if names are unknown).
        After an error, the buffer contains a part of the events and must be discarded.

        Args:
            buffer: the buffer for the events; see `new_buffer`.
            before: the before images, one per row.
            after: the after images, one per row.
            table_id: the table id of the table map that precedes the events.
            timestamp: the time in the headers, in seconds since 1970, UTC.
            server_id: the server id in the headers.
            flags: the flags of the rows events, without STMT_END.
            row_event_max_size: binlog_row_event_max_size, in bytes.
            ends_statement: whether to set STMT_END in the last event.

        Raises:
            BinlogFormatError: a value does not fit its column, a column is missing, or the images do not match the
                operation.
        """
        try:
            row_count = self._bind(before, after)
            encoder = self._rows_encoder(
                buffer,
                timestamp=timestamp,
                server_id=server_id,
                table_id=table_id,
                flags=flags,
                max_size=row_event_max_size,
            )
            done = encoder.append(0, row_count)
            while done < row_count:
                encoder.append_images(self._refused(done))
                done = encoder.append(done + 1, row_count)
            encoder.finish(ends_statement)
        finally:
            for side in (self._before, self._after):
                if side is not None:
                    side.unbind()
        return row_count

    def _rows_encoder(self, buffer: EventBuffer | EventFrames, **head: int) -> Any:
        """Return the encoder for the bound rows; it is reused if the columns are the same as in the last statement."""
        bound = [side.whole for side in (self._before, self._after) if side is not None]
        if self._reused is not None and bound == self._reused_for and not isinstance(buffer, EventFrames):
            self._reused.restart(buffer, **head)
            return self._reused
        is_partial = self._is_partial
        encoder = _rows_encoder_of(buffer)(
            buffer,
            type_code=self.type_code,
            column_count=len(self.plan.columns),
            present=self.present,
            present_after=self.present_after if self.operation == "update" else None,
            before=None if self._before is None else self._before.cells,
            after=None if self._after is None else self._after.cells,
            spare_null_bits=self.plan.spare_null_bits,
            json_count=len(self.plan.json_positions),
            json_cells=self._json_cells() if is_partial else None,
            **head,
        )
        if None not in bound and not isinstance(buffer, EventFrames):
            self._reused, self._reused_for = encoder, bound
        return encoder

    def _bind(self, before: pa.RecordBatch | pa.Table | None, after: pa.RecordBatch | pa.Table | None) -> int:
        counts: list[int] = []
        for name, side, batch in ("before", self._before, before), ("after", self._after, after):
            if (side is None) != (batch is None):
                raise BinlogFormatError(f"the {name} images are missing, or this operation has none")
            if side is not None and batch is not None:
                counts.append(batch.num_rows)
                side.bind(batch)
        if len(set(counts)) > 1:
            raise BinlogFormatError(
                "the numbers of before images and after images differ", expected=counts[0], found=counts[1]
            )
        return counts[0]

    def _json_cells(self) -> list[tuple[int, int]]:
        """Return two numbers for each column of the after image; -1 if it has none.

        They are the number of the column among the JSON columns of the table, and its position in the before image.
        """
        if self._before is None or self._after is None:
            return []
        numbers = {position: number for number, position in enumerate(self.plan.json_positions)}
        places = {column.column.position: place for place, column in enumerate(self._before.columns)}
        positions = [column.column.position for column in self._after.columns]
        return [(numbers.get(position, -1), places.get(position, -1)) for position in positions]

    def _refused(self, row: int) -> bytes:
        """Return the encoded images of a row that the kernel refuses.

        Raises:
            BinlogFormatError: a value of the row does not fit its column.
        """
        try:
            before = None if self._before is None else self._before.image(row)
            after = None if self._after is None else self._after.image(row)
            if self._is_partial:
                change = _without_unchanged(RowChange(before, after))
                return encode_partial_rows([change], self.plan, self.present, self.present_after)
            present_after = self.present_after if self.operation == "update" else None
            return encode_rows([RowChange(before, after)], self.plan, self.present, present_after)
        except BinlogFormatError as exc:
            exc.field = f"row {row}" + (f", {exc.field}" if exc.field else "")
            raise


def _without_unchanged(change: RowChange) -> RowChange:
    """Return an update in which unchanged JSON documents of the after image are replaced by empty diffs."""
    before, after = change.before, change.after
    if before is None or after is None:
        return change
    pairs = zip(before.values, after.values, strict=True)
    values = (JsonDiffs() if isinstance(new, JsonDocument) and new == old else new for old, new in pairs)
    return replace(change, after=replace(after, values=tuple(values)))


class _Side:
    """The columns of the before images, or of the after images."""

    def __init__(self, plan: TablePlan, present: bytes, name: str, *, takes_diffs: bool = False) -> None:
        if len(present) != bitmap_size(len(plan.columns)):
            raise BinlogFormatError(
                "column bitmap length does not match the column count",
                expected=f"{bitmap_size(len(plan.columns))} bytes",
                found=len(present),
            )
        self._plan = plan
        self._name = name
        self._names: list[str] | None = None
        self._places: list[int] = []
        self._schema: pa.Schema | None = None  # the schema of batches that the kernel reads without conversion
        self._whole: ArrowColumns | None = None
        self._batch: pa.RecordBatch | None = None
        self._has_arrays = False  # whether the columns have the arrays of `_batch`
        columns_class = _columns_class()
        self.columns = [
            columns_class(column, takes_diffs=takes_diffs)
            for column in plan.columns
            if present[column.position >> 3] >> (column.position & 7) & 1
        ]

    @property
    def cells(self) -> list[Any]:
        """The input of the kernel for each column; None without the kernel."""
        return [column.cells for column in self.columns]

    @property
    def whole(self) -> ArrowColumns | None:
        """The columns of the batch, if they are bound together, otherwise None."""
        return None if self._batch is None else self._whole

    def bind(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Use the columns of a batch, by their names.

        Raises:
            BinlogFormatError: a column is missing, unknown or invalid.
        """
        schema = batch.schema
        if self._whole is not None and schema == self._schema and hasattr(batch, "__arrow_c_array__"):
            try:
                batch.validate()  # checks the sizes of the buffers
                self._whole.bind(batch.__arrow_c_array__()[1])
            except ValueError:
                pass  # binding each column raises the error
            else:
                self._batch = batch
                return
        names = schema.names
        if names != self._names:
            self._places = self._find(names)
            self._names = names
        arrays = batch.columns
        for column, place in zip(self.columns, self._places, strict=True):
            column.bind(arrays[place])
        if self._whole is None or schema != self._schema:
            self._schema, self._whole = schema, self._as_whole(schema)

    def _as_whole(self, schema: pa.Schema) -> ArrowColumns | None:
        """Return the columns of a schema bound together; None if the values of a column must be converted first."""
        types = [schema.field(place).type for place in self._places]
        if not all(column.is_direct(kind) for column, kind in zip(self.columns, types, strict=True)):
            return None
        from binlogio._kernel.row_encoder import ArrowColumns  # noqa: PLC0415 - the kernel may not be installed

        return ArrowColumns(self.cells, self._places)

    def _find(self, names: list[str]) -> list[int]:
        """Return the positions of the columns in a batch."""
        unknown = set(names) - {column.label for column in self._plan.columns}
        if unknown or len(set(names)) < len(names):
            raise self._refused("no such column, or a duplicate", repr(min(unknown or names)))
        missing = [column.column.label for column in self.columns if column.column.label not in names]
        if missing:
            raise self._refused("the row image has no value for a column in its bitmap", repr(missing[0]))
        return [names.index(column.column.label) for column in self.columns]

    def unbind(self) -> None:
        """Release the batch."""
        if self._batch is not None and self._whole is not None:
            self._batch = None
            self._whole.unbind()
            if not self._has_arrays:
                return
            self._has_arrays = False
        for column in self.columns:
            column.unbind()

    def image(self, row: int) -> RowImage:
        """Return the image of a row, for `binlogio.rows`."""
        values: list[object] = [ABSENT] * len(self._plan.columns)
        if self._batch is not None and not self._has_arrays:
            self._has_arrays = True
            for column, place in zip(self.columns, self._places, strict=True):
                column.array = self._batch.column(place)
        for column in self.columns:
            values[column.column.position] = column.value(row)
        return RowImage(self._plan, tuple(values))

    def _refused(self, reason: str, found: str) -> BinlogFormatError:
        return BinlogFormatError(reason, field=f"{self._name} image of {self._plan.full_name}", found=found)
