"""Builds record batches of all tables, in the order of the log, with JSON images, in the compiled kernel.

`binlogio.rows.texts` builds the kernel's JSON encoders from column plans. `log_walk` handles windows, encryption and
payloads. If the kernel rejects an event, the construct parser parses it again and raises the error.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from binlogio._kernel.row_decoder import ImageText, MixedBatch, metadata_nodes, presence_node, text_node
from binlogio.arrow.types import no_arrow_type
from binlogio.columnar.batches.records import Repeated, imported, with_source_columns
from binlogio.columnar.batches.refusals import RefusedRows
from binlogio.columnar.record_types import MIXED_SCHEMA
from binlogio.columnar.row_values import row_images
from binlogio.rows.image import record_bits
from binlogio.rows.texts import COMPACT, TextForm, image_text
from binlogio.values.kinds import column_kind
from binlogio.values.text import json_value

if TYPE_CHECKING:
    from collections.abc import Collection, Generator, Iterator

    import pyarrow as pa

    from binlogio._kernel.event_scanner import EventScanner, ImagePlan
    from binlogio._kernel.row_decoder import ImageTexts, Node
    from binlogio.columnar.batches.refusals import RowsPart
    from binlogio.columnar.batches.row_batcher import TableBatch
    from binlogio.columnar.record_types import RowSelection
    from binlogio.events.base import EventHeader
    from binlogio.rows.plan import TablePlan
    from binlogio.storage.windows import Window

_BATCH_BYTES: Final = 64 << 20  # bytes of values in one batch


def image_json(plan: TablePlan) -> ImageText:
    """Return the kernel's JSON encoder for the images of a table.

    Raises:
        UnsupportedFeature: a column has a type without values.
    """
    found = image_text(plan, _JSON)
    if found is None:
        without = next(column for column in plan.columns if column_kind(column) is None)
        raise no_arrow_type(without)
    found.plan.set_record_bits(*record_bits(plan))
    return found


def _json_text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


_JSON: Final = TextForm(
    style=COMPACT,
    label=lambda column: _json_text(column.label),
    literal=_json_text,
    value=lambda value, column: _json_text(json_value(value, column)),
)


def mixed_record_batch(
    batch: MixedBatch, file: str, repeated: Repeated, source_columns: Collection[str] = ()
) -> pa.RecordBatch:
    """Return a kernel batch as an Arrow record batch, which takes over the buffers: they must not grow any more."""
    count = batch.count
    nodes = [
        *metadata_nodes(batch, repeated.text(file, count), repeated.text("update", count)),
        text_node(batch.schema_offsets, batch.schema, count),
        text_node(batch.table_offsets, batch.table, count),
        _texts(batch.before, count),
        _texts(batch.after, count),
        presence_node(batch.before, count),
        presence_node(batch.after, count),
    ]
    return with_source_columns(imported(count, nodes, MIXED_SCHEMA), batch, source_columns)


def _texts(side: ImageTexts, count: int) -> Node:
    return text_node(side.offsets, side.texts, count, side.validity, count - side.rows)


class MixedBatcher:
    """Builds batches of all tables in the order of the log. A batch ends with its window.

    Args:
        router: finds the rows.
        selection: selects rows.
        file: the name of the log.
    """

    def __init__(self, router: EventScanner, selection: RowSelection, file: str) -> None:
        self._router = router
        self._selection = selection
        self._file = file
        self._repeated = Repeated()
        self._refused = RefusedRows(router, self._plan_of, self._check_rows)
        self._tables: dict[int, TablePlan] = {}
        self._json: dict[int, ImageText] = {}
        self._sizes: list[int] = []  # sizes of the memory blocks of the previous batch
        self._failed: MixedBatch | None = None

    def begin_split(self) -> None:
        """Begin a split, and drop rejected rows."""
        self._router.clear()
        self._refused.forget()
        self._failed = None

    def add_table(self, number: int, plan: TablePlan) -> ImagePlan:
        """Add a table, and return the kernel's plan of it."""
        self._tables[number], self._json[number] = plan, image_json(plan)
        return self._json[number].plan

    def keep_tables(self, kept: list[int]) -> None:
        """Keep only the tables with the old numbers in `kept`; their new numbers are the indexes in `kept`."""
        self._tables = {new: self._tables[old] for new, old in enumerate(kept) if old in self._tables}
        self._json = {new: self._json[old] for new, old in enumerate(kept) if old in self._json}

    def route(self, window: Window) -> tuple[int, int]:
        """Scan the events of a window."""
        return self._router.scan(window.view, 0, window.offset)

    def _new_batch(self) -> MixedBatch:
        numbers = range(1 + max(self._json, default=-1))
        return MixedBatch([self._json.get(number) for number in numbers], self._sizes)

    def flush(self) -> Iterator[TableBatch]:
        """Yield all rows found by the router, in order."""
        place = (0, 0, 0)
        while place[0] < self._router.rows_event_count:
            batch = self._new_batch()
            place = batch.fill(self._router, *place, self._selection.batch_rows, _BATCH_BYTES)
            if batch.failed_event >= 0:
                self._failed = batch
                self._refused.refuse(batch.failed_event, place[1:])
            if batch.count:
                self._sizes = batch.sizes
                yield "", self._arrow(batch)
        self._router.clear()

    def give_out(self) -> Iterator[TableBatch]:
        """Yield the rows before a rejected row."""
        if self._failed is not None and self._failed.count:
            found = self._refused.rows_before(self._arrow(self._failed))
            if found.num_rows:
                yield "", found

    def _arrow(self, batch: MixedBatch) -> pa.RecordBatch:
        return mixed_record_batch(batch, self._file, self._repeated, self._selection.source_columns)

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
                yield "", self._arrow(batch)
            if batch.failed_event >= 0:
                return place[2], rows
        return size, rows

    def _plan_of(self, number: int) -> TablePlan | None:
        return self._tables.get(number)

    def _check_rows(self, rows: RowsPart, number: int) -> None:
        row_images(rows.event, self._tables[number], None, first_row=rows.first_row, first_byte=rows.first_byte)
