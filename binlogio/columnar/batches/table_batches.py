"""Builds the record batches of each table from a log, in the compiled kernel.

Selects tables and closes full batches. A table's batch continues from one window of the log to the next until it is
full. `log_walk` reads the log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from binlogio._kernel.row_decoder import fill_all, fill_windows
from binlogio.columnar.batches.records import JsonTexts, Repeated, TableRecords
from binlogio.columnar.batches.refusals import RefusedRows
from binlogio.columnar.row_values import row_images
from binlogio.constants import EventType

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator

    import pyarrow as pa

    from binlogio._kernel.event_scanner import EventScanner, ImagePlan
    from binlogio._kernel.row_decoder import Batch
    from binlogio.columnar.batches.refusals import RowsPart
    from binlogio.columnar.batches.row_batcher import TableBatch
    from binlogio.columnar.record_types import RowSelection
    from binlogio.events.base import EventHeader
    from binlogio.rows.plan import TablePlan
    from binlogio.storage.windows import Window

    Place = tuple[int, int, int]  # number of a rows event, and row and byte in it

BATCH_BYTES: Final = 4 << 20  # bytes of values in one batch
_OPEN_BYTES: Final = 12 << 20  # bytes of values in all open batches
_OPEN_COLUMNS: Final = 1 << 15  # columns of open batches; each takes up to 1 KiB, even with few rows


class TableBatcher:
    """Builds batches of one table each. A batch is yielded when it is full, or after the last row.

    Args:
        router: finds the rows.
        selection: selects columns and rows.
        file: the name of the log.
    """

    def __init__(self, router: EventScanner, selection: RowSelection, file: str) -> None:
        self._router = router
        self._selection = selection
        self._file = file
        self._repeated = Repeated()
        self._refused = RefusedRows(router, self._plan_of, self._check_rows)
        self._records: dict[int, TableRecords] = {}
        self._alike: dict[tuple[int, tuple[str, ...] | None], TableRecords] = {}  # see `add_table`
        self._filled: list[tuple[int, Place]] | None = None  # places up to which `route` has filled batches
        self._ready: list[TableBatch] = []  # batches held back: an earlier event of the window may be rejected
        self._failed: list[Place] = []  # rejected events of the window: event, first bad row (-1: unknown), byte
        self._open: dict[tuple[str, str], tuple[int, Batch]] = {}  # (schema, table) -> (plan number, batch)
        self._open_columns = 0
        self._met: dict[tuple[str, str], int] = {}  # tables with rows in the current split, and plan numbers

    def begin_split(self) -> None:
        """Begin a split, drop rejected rows, and open batches for the tables with rows in the previous split."""
        met, self._met = self._met, {}
        for key, number in met.items():
            self._batch(key, number)
        self._router.clear()
        self._refused.forget()
        self._failed.clear()
        self._filled = None

    def add_table(self, number: int, plan: TablePlan) -> ImagePlan:
        """Add a table, and return the kernel's plan of it."""
        if self._selection.note_plan is not None:
            self._selection.note_plan(plan)
        wanted = self._selection.columns_of(plan)
        key = id(plan.columns), None if wanted is None else tuple(wanted)  # tables with equal columns share `columns`
        alike = self._alike.get(key)
        if alike is not None:
            records = alike.for_table(plan)
        else:
            records = self._alike[key] = TableRecords.of(
                plan,
                wanted,
                zero_dates=self._selection.zero_dates,
                json_diffs=self._selection.json_diffs,
                names_columns=self._selection.names_columns,
            )
        self._records[number] = records
        return records.images

    def keep_tables(self, kept: list[int]) -> None:
        """Keep only the tables with the old numbers in `kept`; their new numbers are the indexes in `kept`."""
        numbers = {old: new for new, old in enumerate(kept)}
        self._records = {new: self._records[old] for old, new in numbers.items() if old in self._records}
        self._alike.clear()
        self._met = {key: numbers[old] for key, old in self._met.items() if old in numbers}

    def route(self, window: Window) -> tuple[int, int]:
        """Scan a window or, if batches are open, as many windows of a file as fit into them."""
        if not self._open or not window.is_a_file or self._selection.columns_at_the_end:
            return self._router.scan(window.view, 0, window.offset)
        batches: list[Batch | None] = [None] * (1 + max(number for number, _ in self._open.values()))
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
        ((status, at, self._filled),) = found
        return status, at

    def flush(self) -> Iterator[TableBatch]:
        """Copy the rows found by the router, and yield full batches."""
        filled, self._filled = self._filled, None
        if filled is None:
            yield from self._flush_found()
        else:
            self._note_failures(batch for _, batch in self._open.values())
            for number, place in filled:
                plan = self._records[number].plan
                yield from self._flush_table((plan.schema, plan.table), number, place)
        yield from self._end_window()

    def _flush_found(self) -> Iterator[TableBatch]:
        found: dict[tuple[str, str], tuple[int, int]] = {}
        again: list[tuple[int, int]] = []  # tables whose plan has changed
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

    def _end_window(self) -> Iterator[TableBatch]:
        """End a window whose rows were copied. Yields the batches held back.

        Raises:
            BinlogError: an event of the window was rejected; `give_out` yields the rows before it.
        """
        if self._failed:
            last, row, at = min(self._failed)
            is_known = all(row >= 0 for _, row, _ in self._failed)
            self._refused.refuse(last, (row, at) if is_known else None)
        self._router.clear()
        yield from self._give_out_ready()
        if (
            self._open_columns > _OPEN_COLUMNS
            or sum(batch.value_bytes for _, batch in self._open.values()) > _OPEN_BYTES
        ):
            yield from self.give_out()

    def _flush_tables(self, found: dict[tuple[str, str], tuple[int, int]]) -> Iterator[TableBatch]:
        """Copy the rows of some tables: (schema, table) -> (plan number, first event)."""
        batches = []
        for key, (number, _) in found.items():
            if key in self._open and self._open[key][0] != number:  # the plan of the table has changed
                self._close_batch(key)
            batches.append(self._batch(key, number))
        first_events = [first_event for _, first_event in found.values()]
        places = fill_all(self._router, batches, first_events, self._selection.batch_rows, BATCH_BYTES)
        self._note_failures(batches)
        for (key, (number, _)), place in zip(found.items(), places, strict=True):
            yield from self._flush_table(key, number, place)

    def _flush_table(self, key: tuple[str, str], number: int, place: Place) -> Iterator[TableBatch]:
        """Continue with a table whose batch was filled up to `place`."""
        while True:
            batch = self._batch(key, number)
            if batch.failed_event >= 0 or place[0] >= self._router.rows_event_count:
                return
            self._close_batch(key)
            if self._router.kept_bytes > _OPEN_BYTES and not self._failed:  # rows of one compressed event
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
            records = self._records[number]
            self._open[key] = number, records.new_batch(takes_partial=False)
            self._open_columns += len(records.columns)
        return self._open[key][1]

    def _flush_partial(self, key: tuple[str, str], number: int, place: Place) -> None:
        """Copy the rows from the first partial update on. JSON diffs that the kernel rejects are applied in Python."""
        records, with_diffs = self._records[number], False
        while place[0] < self._router.rows_event_count:
            batch = records.new_batch(with_diffs=with_diffs)
            after = batch.fill(self._router, *place, self._selection.batch_rows, BATCH_BYTES)
            if batch.failed_event >= 0:
                if batch.failed_partial and not with_diffs:
                    with_diffs = True
                    continue
                self._note_failures([batch])
                if with_diffs:  # the document of an earlier row may be damaged
                    self._failed.append((batch.failed_event, -1, 0))
                self._open[key] = number, batch
                self._open_columns += len(records.columns)
                return
            if batch.count:
                texts = records.new_texts()
                self._ready.append((records.plan.full_name, self._arrow(records, batch, texts)))
                if not texts.are_complete:
                    self._failed.append((min(after[0], self._router.rows_event_count - 1), -1, 0))
                    return
            place = after

    def flush_part(
        self, header: EventHeader, size: int, first_row: int, *, first_byte: int, last: bool
    ) -> Generator[TableBatch, None, tuple[int, int]]:
        """Yield the rows of one part of a rows event that is read in parts; see `RowBatcher`."""
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
                    self._refused.refuse(batch.failed_event, start, first_row=first_row, first_byte=first_byte)
                if batch.count:
                    texts = records.new_texts()
                    found = self._arrow(records, batch, texts)
                    if not texts.are_complete:
                        self._refused.refuse(0, first_row=first_row, first_byte=first_byte)
                    yield records.plan.full_name, found
                if batch.failed_event >= 0:
                    taken = place[2]
                    break
        return taken, rows

    def give_out(self) -> Iterator[TableBatch]:
        """Yield all open batches, full or not; after a rejected row, only the rows before it."""
        yield from self._give_out_ready()
        while self._open:
            self._close_batch(next(iter(self._open)))
            yield from self._give_out_ready()

    def _give_out_ready(self) -> Iterator[TableBatch]:
        """Yield the batches held back; after a rejected event, only the rows before it."""
        ready, self._ready = self._ready, []
        for table, batch in ready:
            found = self._refused.rows_before(batch)
            if found.num_rows:
                yield table, found

    def _close_batch(self, key: tuple[str, str]) -> None:
        """Close the open batch of a table. Later rows of the table get a new batch."""
        number, batch = self._open.pop(key)
        records = self._records[number]
        self._open_columns -= len(records.columns)
        if batch.count:
            self._ready.append((records.plan.full_name, self._arrow(records, batch, records.new_texts())))
            self._met[key] = number

    def _arrow(self, records: TableRecords, batch: Batch, texts: JsonTexts) -> pa.RecordBatch:
        return records.record_batch(batch, self._file, self._repeated, texts, self._selection.source_columns)

    def _plan_of(self, number: int) -> TablePlan | None:
        records = self._records.get(number)
        return None if records is None else records.plan

    def _check_rows(self, rows: RowsPart, number: int) -> None:
        kind = self._records[number].type
        row_images(rows.event, kind.plan, kind, first_row=rows.first_row, first_byte=rows.first_byte)
