"""Logs to record batches of all tables in the order of the log, by the compiled kernel; images are JSON text.

Selects tables and closes full batches. `log_walk` handles windows, encryption and payloads. If the kernel refuses an
event, construct parses it and raises the error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from binlogio._kernel.mixed_batch import MixedBatch
from binlogio.columnar.batches.mixed_batches import image_json, mixed_record_batch
from binlogio.columnar.reference.row_records import image_text
from binlogio.columnar.walk.event_parts import MOST_BYTES
from binlogio.columnar.walk.log_walk import LogWalk
from binlogio.errors import BinlogFormatError
from binlogio.events.base import event_name
from binlogio.rows.image import decode_rows

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    import pyarrow as pa

    from binlogio._kernel.image_json import ImageJson
    from binlogio._kernel.images import ImagePlan
    from binlogio.events.base import EventHeader
    from binlogio.events.rows import RowsEvent
    from binlogio.rows.plan import TablePlan


class MixedReader(LogWalk):
    """One log's row changes as ("", batch) pairs: a batch is of no table alone."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._tables: dict[int, TablePlan] = {}
        self._json: dict[int, ImageJson] = {}
        self._sizes: list[int] = []  # of the memories of the batch before
        self._failed: MixedBatch | None = None

    def _forget_rows(self) -> None:
        super()._forget_rows()
        self._failed = None

    def _take(self, number: int, plan: TablePlan) -> ImagePlan:
        self._tables[number], self._json[number] = plan, image_json(plan)
        return self._json[number].plan

    def _renumber(self, kept: list[int]) -> None:
        self._tables = {new: self._tables[old] for new, old in enumerate(kept) if old in self._tables}
        self._json = {new: self._json[old] for new, old in enumerate(kept) if old in self._json}

    def _new_batch(self) -> MixedBatch:
        return MixedBatch([self._json.get(number) for number in range(self._plans)], self._sizes)

    def _flush(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Give out what the router has collected, in its order."""
        place = (0, 0, 0)
        while place[0] < self._router.rows_event_count:
            batch = self._new_batch()
            place = batch.fill(self._router, *place, self._selection.batch_rows, MOST_BYTES)
            if batch.failed_event >= 0:
                self._failed = batch
                self._refuse_rows(batch.failed_event, place[1:])
            if batch.count:
                self._sizes = batch.sizes
                yield "", mixed_record_batch(batch, self._log.name, self._repeated)
        self._router.clear()

    def _give_out(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        if self._failed is not None and self._failed.count:
            found = self._before_refusal(mixed_record_batch(self._failed, self._log.name, self._repeated))
            if found.num_rows:
                yield "", found

    def _flush_part(
        self, header: EventHeader, size: int, first_row: int, *, first_byte: int, last: bool
    ) -> Generator[tuple[str, pa.RecordBatch], None, tuple[int, int]]:
        place, rows = (0, 0, 0), 0
        while place[0] < self._router.rows_event_count:
            batch = self._new_batch()
            place = batch.fill(self._router, *place, self._selection.batch_rows, MOST_BYTES)
            rows += batch.count
            if batch.failed_event >= 0 and (last or not batch.failed_in_images):
                self._refuse_rows(batch.failed_event, place[1:], first_row=first_row, first_byte=first_byte)
            if batch.count:
                self._sizes = batch.sizes
                yield "", mixed_record_batch(batch, self._log.name, self._repeated)
            if batch.failed_event >= 0:
                return place[2], rows
        return size, rows

    def _table(self, number: int) -> TablePlan | None:
        return self._tables.get(number)

    def _check_rows(self, event: RowsEvent, number: int, *, first_row: int, first_byte: int) -> None:
        try:
            for change in decode_rows(event, self._tables[number], first_row=first_row, first_byte=first_byte):
                after = change.applied()
                image_text(change.before)
                image_text(after)
        except BinlogFormatError as exc:
            exc.locate(offset=event.header.offset, event_type=event_name(event.header.type_code))
            raise
