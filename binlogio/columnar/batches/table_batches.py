"""Logs to the record batches of each table, by the compiled kernel.

Selects tables and closes full batches: a table's batch continues from one window of the log to the next until it is
full. `log_walk` reads the log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from binlogio._kernel.batch_fills import fill_all, fill_windows
from binlogio.columnar.batches.records import JsonTexts, TableRecords
from binlogio.columnar.reference.construct_records import image_pairs
from binlogio.columnar.walk.log_walk import LogWalk
from binlogio.constants import EventType

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator

    import pyarrow as pa

    from binlogio._kernel.batches import Batch
    from binlogio._kernel.images import ImagePlan
    from binlogio.events.base import EventHeader
    from binlogio.events.rows import RowsEvent
    from binlogio.format.splits import Split
    from binlogio.rows.plan import TablePlan

    TableBatch = tuple[str, pa.RecordBatch]
    Place = tuple[int, int, int]  # rows event, row and byte in it

BATCH_BYTES: Final = 4 << 20  # of values in one batch
_OPEN_BYTES: Final = 12 << 20  # of values in all batches that are not yet given out
_OPEN_TABLES: Final = 1 << 9  # tables that have such a batch; an empty one takes some kilobytes


class ColumnarReader(LogWalk):
    """One log's row changes as (table, batch) pairs, each batch of one table."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._records: dict[int, TableRecords] = {}
        self._ready: list[TableBatch] = []  # of the window at hand, where an event before theirs may yet be refused
        self._failed: list[
            Place
        ] = []  # events of the window at hand that do not fit, and from which row on; -1 for any
        self._open: dict[tuple[str, str], tuple[int, Batch]] = {}  # by schema and table: number of the plan, its batch
        self._met: dict[tuple[str, str], int] = {}  # those that had rows in the split at hand

    def read(self, split: Split | None) -> Iterator[TableBatch]:
        """As for any walk. The tables of the split before have their batches from the first window on."""
        met, self._met = self._met, {}
        for key, number in met.items():
            self._batch(key, number)
        yield from super().read(split)

    def _forget_rows(self) -> None:
        super()._forget_rows()
        self._failed.clear()

    def _take(self, number: int, plan: TablePlan) -> ImagePlan:
        records = TableRecords.of(
            plan,
            self._selection.columns_of(plan),
            zero_dates=self._selection.zero_dates,
            json_diffs=self._selection.json_diffs,
        )
        self._records[number] = records
        return records.images

    def _renumber(self, kept: list[int]) -> None:
        numbers = {old: new for new, old in enumerate(kept)}
        self._records = {new: self._records[old] for old, new in numbers.items() if old in self._records}
        self._met = {key: numbers[old] for key, old in self._met.items() if old in numbers}

    def _take_window(self) -> Generator[TableBatch, None, tuple[int, int]]:
        """As for one window; where batches are open, for as many windows of a file as go into them."""
        window = self._window
        if not self._open or not window.is_a_file:
            return (yield from super()._take_window())
        batches: list[Batch | None] = [None] * self._plans
        for number, batch in self._open.values():
            batches[number] = batch
        found: list[tuple[int, int, list[tuple[int, Place]] | None]] = []

        def move(
            descriptor: int, buffer: bytearray, begin: int, end: int, offset: int, read_to: int, step: int
        ) -> tuple[int, int, int]:
            status, at, begin, end, offset, places = fill_windows(
                self._router, batches, descriptor, buffer, begin, end, offset, read_to, step,
                self._selection.batch_rows, BATCH_BYTES, _OPEN_BYTES,
            )  # fmt: skip
            found.append((status, at, places))
            return begin, end, offset

        window.move(move)
        ((status, at, places),) = found
        self._definitions.pass_to(window.offset)
        if places is None:
            yield from self._flush()
            return status, at
        self._note_failures(batch for _, batch in self._open.values())
        for number, place in places:
            plan = self._records[number].plan
            yield from self._flush_table((plan.schema, plan.table), number, place)
        yield from self._end_window()
        yield from self._forget_idle_tables()
        return status, at

    def _flush(self) -> Iterator[TableBatch]:
        found: dict[tuple[str, str], tuple[int, int]] = {}
        again: list[tuple[int, int]] = []  # where a table is another one
        for number, first_event in self._router.found():
            plan = self._records[number].plan
            if (plan.schema, plan.table) in found:
                again.append((number, first_event))
            else:
                found[plan.schema, plan.table] = number, first_event
        yield from self._flush_tables(found)
        for number, first_event in again:
            plan = self._records[number].plan
            yield from self._flush_tables({(plan.schema, plan.table): (number, first_event)})
        yield from self._end_window()

    def _end_window(self) -> Iterator[TableBatch]:
        """Leave a window whose rows are taken.

        Those of all tables, since the ones before an event that is refused are given out.

        Raises:
            BinlogError: what is wrong with the first of the events that do not fit.
        """
        if self._failed:
            last, row, at = min(self._failed)
            is_known = all(row >= 0 for _, row, _ in self._failed)
            self._refuse_rows(last, (row, at) if is_known else None)
        self._router.clear()
        yield from self._give_out_ready()
        if len(self._open) > _OPEN_TABLES or sum(batch.value_bytes for _, batch in self._open.values()) > _OPEN_BYTES:
            yield from self._give_out()

    def _flush_tables(self, found: dict[tuple[str, str], tuple[int, int]]) -> Iterator[TableBatch]:
        """Take the rows of some tables: number of the plan and its first event by schema and table."""
        batches = []
        for key, (number, _) in found.items():
            if key in self._open and self._open[key][0] != number:  # the table was another one
                self._close_batch(key)
            batches.append(self._batch(key, number))
        first_events = [first_event for _, first_event in found.values()]
        places = fill_all(self._router, batches, first_events, self._selection.batch_rows, BATCH_BYTES)
        self._note_failures(batches)
        for (key, (number, _)), place in zip(found.items(), places, strict=True):
            yield from self._flush_table(key, number, place)

    def _flush_table(self, key: tuple[str, str], number: int, place: Place) -> Iterator[TableBatch]:
        """Go on with a table whose batch was filled up to `place`."""
        while True:
            batch = self._batch(key, number)
            if batch.failed_event >= 0 or place[0] >= self._router.rows_event_count:
                return
            self._close_batch(key)
            if self._router.kept_bytes > _OPEN_BYTES and not self._failed:  # one event that was compressed
                yield from self._give_out_ready()
            if batch.stopped_at_partial:
                self._flush_partial(key, number, place)
                return
            batch = self._batch(key, number)
            place = batch.fill(self._router, *place, self._selection.batch_rows, BATCH_BYTES)
            self._note_failures([batch])

    def _note_failures(self, batches: Iterable[Batch]) -> None:
        self._failed += [
            (batch.failed_event, batch.failed_row, batch.failed_at) for batch in batches if batch.failed_event >= 0
        ]

    def _batch(self, key: tuple[str, str], number: int) -> Batch:
        """Return the open batch of a table."""
        if key not in self._open:
            self._open[key] = number, self._records[number].new_batch(takes_partial=False)
        return self._open[key][1]

    def _flush_partial(self, key: tuple[str, str], number: int, place: Place) -> None:
        """The rows from the first partial update on.

        Where the kernel refuses them for their JSON diffs, these are applied in Python.
        """
        records, with_diffs = self._records[number], False
        while place[0] < self._router.rows_event_count:
            batch = records.new_batch(with_diffs=with_diffs)
            after = batch.fill(self._router, *place, self._selection.batch_rows, BATCH_BYTES)
            if batch.failed_event >= 0:
                if batch.failed_partial and not with_diffs:
                    with_diffs = True
                    continue
                self._note_failures([batch])
                if with_diffs:  # a document of a row before may be damaged, which construct has to say
                    self._failed.append((batch.failed_event, -1, 0))
                self._open[key] = number, batch
                return
            if batch.count:
                texts = records.new_texts()
                self._ready.append((records.plan.full_name, self._arrow(records, batch, texts)))
                if not texts.are_complete:
                    self._failed.append((min(after[0], self._router.rows_event_count - 1), -1, 0))
                    return
            place = after

    def _flush_part(
        self, header: EventHeader, size: int, first_row: int, *, first_byte: int, last: bool
    ) -> Generator[TableBatch, None, tuple[int, int]]:
        router, taken, rows = self._router, size, 0
        for number, _ in router.found():
            records = self._records[number]
            place = (0, 0, 0)
            while place[0] < router.rows_event_count:
                batch = records.new_batch(with_diffs=header.type_code == EventType.PARTIAL_UPDATE_ROWS_EVENT)
                place = batch.fill(router, *place, self._selection.batch_rows, BATCH_BYTES)
                rows += batch.count
                if batch.failed_event >= 0 and (last or not batch.failed_in_images):
                    start = batch.failed_row, batch.failed_at
                    self._refuse_rows(batch.failed_event, start, first_row=first_row, first_byte=first_byte)
                if batch.count:
                    texts = records.new_texts()
                    found = self._arrow(records, batch, texts)
                    if not texts.are_complete:
                        self._refuse_rows(0, first_row=first_row, first_byte=first_byte)
                    yield records.plan.full_name, found
                if batch.failed_event >= 0:
                    taken = place[2]
                    break
        return taken, rows

    def _give_out(self) -> Iterator[TableBatch]:
        while self._open:
            self._close_batch(next(iter(self._open)))
        yield from self._give_out_ready()

    def _give_out_ready(self) -> Iterator[TableBatch]:
        """Give out what is complete; where an event was refused, up to that."""
        ready, self._ready = self._ready, []
        for table, batch in ready:
            found = self._before_refusal(batch)
            if found.num_rows:
                yield table, found

    def _close_batch(self, key: tuple[str, str]) -> None:
        """Have the rows of a table ready, and go on with another batch."""
        number, batch = self._open.pop(key)
        if batch.count:
            records = self._records[number]
            self._ready.append((records.plan.full_name, self._arrow(records, batch, records.new_texts())))
            self._met[key] = number

    def _arrow(self, records: TableRecords, batch: Batch, texts: JsonTexts) -> pa.RecordBatch:
        return records.record_batch(batch, self._log.name, self._repeated, texts)

    def _table(self, number: int) -> TablePlan | None:
        records = self._records.get(number)
        return None if records is None else records.plan

    def _check_rows(self, event: RowsEvent, number: int, *, first_row: int, first_byte: int) -> None:
        image_pairs(event, self._records[number].type, first_row=first_row, first_byte=first_byte)
