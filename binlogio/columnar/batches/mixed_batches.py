"""Record batches of any tables, in the order of the log, by the compiled kernel: their images are JSON text.

Translates column plans into the kernel's JSON encoders, and encodes with construct the values that the kernel does not
support (geometry, JSON diffs). `binlogio.values.text` defines the text of values. `log_walk` handles windows,
encryption and payloads. If the kernel refuses an event, construct parses it and raises the error.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from binlogio._kernel import column_kinds as kinds
from binlogio._kernel.event_scanner import ImagePlan
from binlogio._kernel.row_decoder import (
    DOUBLE,
    FLOAT,
    NOTHING,
    SIGNED,
    UNSIGNED,
    ImageText,
    MixedBatch,
    metadata_nodes,
    presence_node,
    text_node,
)
from binlogio.arrow.character_tables import characters_of
from binlogio.arrow.types import ColumnSpec, column_spec
from binlogio.columnar.batches.records import Repeated, imported
from binlogio.columnar.batches.refusals import RefusedRows
from binlogio.columnar.record_types import MIXED_SCHEMA
from binlogio.columnar.reference.construct_records import text_pairs
from binlogio.constants import ColumnType
from binlogio.errors import BinlogFormatError
from binlogio.options import DEFAULT_LIMITS
from binlogio.primitives import BAD_BYTES
from binlogio.rows.image import RowChange, RowImage
from binlogio.values.absent import ABSENT
from binlogio.values.json.diff import PARTIAL_JSON
from binlogio.values.layout import column_layout
from binlogio.values.text import json_value

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    import pyarrow as pa

    from binlogio._kernel.event_scanner import EventScanner
    from binlogio._kernel.row_decoder import ImageTexts, Node, Value
    from binlogio.columnar.batches.refusals import RowsPart
    from binlogio.columnar.batches.row_batcher import TableBatch
    from binlogio.columnar.record_types import RowSelection
    from binlogio.columnar.windows import Window
    from binlogio.events.base import EventHeader
    from binlogio.rows.plan import TablePlan
    from binlogio.values.column import ColumnPlan

_NUMBERS: Final = {ColumnType.FLOAT: FLOAT, ColumnType.DOUBLE: DOUBLE, ColumnType.NULL: NOTHING}
_BATCH_BYTES: Final = 64 << 20  # of values in one batch
_IN_BEFORE_IMAGE: Final = 1  # how a JSON diff finds its column in the before image
_ASCII: Final = tuple(bytes([byte]) for byte in range(128))


def image_json(plan: TablePlan) -> ImageText:
    """Return the kernel's JSON encoder for the images of a table.

    Raises:
        UnsupportedFeature: a column of a type without values.
    """
    specs = [column_spec(column) for column in plan.columns]
    slots = list(range(len(specs)))
    images = ImagePlan(plan, [spec.width for spec in specs], slots, list(plan.json_positions), wanted=True)
    values = [_value(column, spec) for column, spec in zip(plan.columns, specs, strict=True)]
    opened_size = plan.columns[0].opened_size if plan.columns else DEFAULT_LIMITS.opened_size
    return ImageText(images, _utf8(plan.schema), _utf8(plan.table), values, _ByConstruct(plan), opened_size)


def _value(column: ColumnPlan, spec: ColumnSpec) -> Value:
    names, second = spec.names, spec.second
    if spec.kind == kinds.COPY:
        second = _NUMBERS.get(column.type, UNSIGNED if column.unsigned else SIGNED)
    elif spec.kind in (kinds.ENUM_NAMES, kinds.SET_NAMES):
        names = tuple(_json_text(name) for name in column.members or ())
    elif kinds.LATIN in (spec.kind, spec.first) and names is not None:
        second = int(names[:128] == _ASCII)  # ASCII needs no table
    characters = None if spec.charset is None else characters_of(spec.charset)
    return _json_text(column.label), spec.kind, spec.width, spec.first, second, names, characters


def _json_text(text: str) -> bytes:
    return _utf8(json.dumps(text, ensure_ascii=False))


def _utf8(text: str) -> bytes:
    r"""Encode text as UTF-8; bytes that are not characters become \udcff, as in JSON."""
    return text.encode("utf-8", "backslashreplace")


@dataclass(frozen=True, slots=True)
class _ByConstruct:
    """Encoder of the values for which the kernel has no text."""

    plan: TablePlan

    def __call__(self, position: int, data: bytes, before: bytes | None, diffs: int, /) -> bytes | None:
        """Return the JSON of a value; None if it is invalid, and construct then raises the error of the whole event.

        Args:
            position: of the column.
            data: the bytes of the value in the image.
            before: the value in the before image, if there is one.
            diffs: 0 if `data` is a value, 1 if it is JSON diffs, 2 if it is JSON diffs and the before image lacks the
                column.
        """
        column = self.plan.columns[position]
        alone = replace(self.plan, columns=(column,))
        try:
            value = (PARTIAL_JSON if diffs else column_layout(column)).parse(data)
            if diffs:
                old: Any = ABSENT if diffs != _IN_BEFORE_IMAGE else None
                old = old if before is None else column_layout(column).parse(before)
                applied = RowChange(RowImage(alone, (old,)), RowImage(alone, (value,))).applied()
                value = applied.values[0] if applied is not None else value
            return _utf8(json.dumps(json_value(value, column), ensure_ascii=False, separators=(",", ":")))
        except (BinlogFormatError, *BAD_BYTES):
            return None


def mixed_record_batch(batch: MixedBatch, file: str, repeated: Repeated) -> pa.RecordBatch:
    """Return a batch as an Arrow record batch. It takes over the buffers, which must not grow any more."""
    count = batch.count
    nodes = [
        *metadata_nodes(batch, repeated.text(file, count)),
        text_node(batch.schema_offsets, batch.schema, count),
        text_node(batch.table_offsets, batch.table, count),
        _texts(batch.before, count),
        _texts(batch.after, count),
        presence_node(batch.before, count),
        presence_node(batch.after, count),
    ]
    return imported(count, nodes, MIXED_SCHEMA)


def _texts(side: ImageTexts, count: int) -> Node:
    return text_node(side.offsets, side.texts, count, side.validity, count - side.rows)


class MixedBatcher:
    """Makes batches of all tables in the order of the log. No batch continues in the next window.

    Args:
        router: finds the rows.
        selection: which rows are wanted.
        file: name of the log.
    """

    def __init__(self, router: EventScanner, selection: RowSelection, file: str) -> None:
        self._router = router
        self._selection = selection
        self._file = file
        self._repeated = Repeated()
        self._refused = RefusedRows(router, self._plan_of, self._check_rows)
        self._tables: dict[int, TablePlan] = {}
        self._json: dict[int, ImageText] = {}
        self._sizes: list[int] = []  # of the memory blocks of the batch before
        self._failed: MixedBatch | None = None

    def begin_split(self) -> None:
        """Begin with a split: drop refused rows."""
        self._router.clear()
        self._refused.forget()
        self._failed = None

    def add_table(self, number: int, plan: TablePlan) -> ImagePlan:
        """Add a table, and return the kernel's plan of it."""
        self._tables[number], self._json[number] = plan, image_json(plan)
        return self._json[number].plan

    def keep_tables(self, kept: list[int]) -> None:
        """Drop all tables but those whose old numbers are in `kept`, in the order of their new numbers."""
        self._tables = {new: self._tables[old] for new, old in enumerate(kept) if old in self._tables}
        self._json = {new: self._json[old] for new, old in enumerate(kept) if old in self._json}

    def route(self, window: Window) -> tuple[int, int]:
        """Route a window."""
        return self._router.scan(window.view, 0, window.offset)

    def _new_batch(self) -> MixedBatch:
        numbers = range(1 + max(self._json, default=-1))
        return MixedBatch([self._json.get(number) for number in numbers], self._sizes)

    def flush(self) -> Iterator[TableBatch]:
        """Yield all rows that the router has found, in their order."""
        place = (0, 0, 0)
        while place[0] < self._router.rows_event_count:
            batch = self._new_batch()
            place = batch.fill(self._router, *place, self._selection.batch_rows, _BATCH_BYTES)
            if batch.failed_event >= 0:
                self._failed = batch
                self._refused.refuse(batch.failed_event, place[1:])
            if batch.count:
                self._sizes = batch.sizes
                yield "", mixed_record_batch(batch, self._file, self._repeated)
        self._router.clear()

    def give_out(self) -> Iterator[TableBatch]:
        """Yield the rows before one that was refused."""
        if self._failed is not None and self._failed.count:
            found = self._refused.rows_before(mixed_record_batch(self._failed, self._file, self._repeated))
            if found.num_rows:
                yield "", found

    def flush_part(
        self, header: EventHeader, size: int, first_row: int, *, first_byte: int, last: bool
    ) -> Generator[TableBatch, None, tuple[int, int]]:
        """Yield the rows of one part of a rows event that is read in parts; see `RowBatcher`."""
        place, rows = (0, 0, 0), 0
        while place[0] < self._router.rows_event_count:
            batch = self._new_batch()
            place = batch.fill(self._router, *place, self._selection.batch_rows, _BATCH_BYTES)
            rows += batch.count
            if batch.failed_event >= 0 and (last or not batch.failed_in_images):
                self._refused.refuse(batch.failed_event, place[1:], first_row=first_row, first_byte=first_byte)
            if batch.count:
                self._sizes = batch.sizes
                yield "", mixed_record_batch(batch, self._file, self._repeated)
            if batch.failed_event >= 0:
                return place[2], rows
        return size, rows

    def _plan_of(self, number: int) -> TablePlan | None:
        return self._tables.get(number)

    def _check_rows(self, rows: RowsPart, number: int) -> None:
        text_pairs(rows.event, self._tables[number], first_row=rows.first_row, first_byte=rows.first_byte)
