"""Bulk rows: decodes many events of one table with the compiled kernel, as columns of values that SQLite stores.

Only for types that Arrow returns exactly as `values` does. Rows with other types, incomplete images or JSON diffs are
decoded one by one by the caller.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from binlogio.constants import HEADER_SIZE, ChecksumAlgorithm, ColumnType
from binlogio.events.rows import DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent
from binlogio.format.encoder import Encoder
from binlogio.primitives import bitmap_size
from binlogio.replay.row_changes import TYPE_CODES, rows_frame_of
from binlogio.replay.targets.sqlite.values import INTEGER_END
from binlogio.rows.image import PRE_GA_EVENTS
from binlogio.values.column import BLOBS

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from binlogio.events.base import ParseContext
    from binlogio.replay.steps import RowsStep
    from binlogio.rows.plan import TablePlan
    from binlogio.values.column import ColumnPlan

WORTH_IT: Final = 4096  # bytes of images; with less, the kernel costs more than it gains
_MOST_VALUES: Final = 1 << 30  # bytes
_SMALL_SCALE: Final = 6  # Arrow writes smaller numbers with an exponent
_TYPES: Final = frozenset(
    {
        ColumnType.TINY, ColumnType.SHORT, ColumnType.INT24, ColumnType.LONG, ColumnType.LONGLONG, ColumnType.DOUBLE,
        ColumnType.NEWDECIMAL, ColumnType.DATE, ColumnType.DATETIME2, ColumnType.TIMESTAMP2, ColumnType.VARCHAR,
        ColumnType.STRING, ColumnType.ENUM, ColumnType.JSON,
        *BLOBS,
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class BulkRows:
    """Changes of one kind: inserts have no `before`, deletes no `after`.

    Both are rows of values for every column except the hidden hash columns of MariaDB.
    """

    plan: TablePlan
    before: list[tuple[Any, ...]] | None
    after: list[tuple[Any, ...]] | None


def may_join(step: RowsStep, last: RowsStep) -> bool:
    """Return whether the rows of two events can be taken together."""
    return step.plan is last.plan and type(step.head) is type(last.head)


def bulk_rows(steps: Sequence[RowsStep], context: ParseContext) -> BulkRows | None:
    """Return the rows of events that `may_join`; None if they must be decoded one by one."""
    plan, first = steps[0].plan, steps[0].head
    if (
        plan is None
        or type(first) not in TYPE_CODES
        or first.header.type_code in PRE_GA_EVENTS
        or sum(step.size for step in steps) < WORTH_IT
    ):
        return None
    if not _is_plain(plan) or not all(_is_whole(step.head) for step in steps):
        return None
    from binlogio._kernel.event_scanner import EventScanner  # noqa: PLC0415 - it may not be there
    from binlogio.columnar.batches.records import JsonTexts, Repeated, TableRecords  # noqa: PLC0415 - imports pyarrow

    plain = replace(context, header_size=HEADER_SIZE, checksum_algorithm=ChecksumAlgorithm.OFF)
    table_map = Encoder(plain).encode(steps[0].table_map)
    frames = b"".join(
        part for step in steps for part in (table_map, rows_frame_of(step.event, steps[0].table_map.table_id))
    )
    records = TableRecords.of(plan, None, zero_dates="text")
    router = EventScanner(lambda _: records.images, lambda _, __: None, checksum=False, verify=False)
    _, end = router.scan(frames, 0, 0)  # it keeps pointers into the frames
    batch = records.new_batch()
    if end != len(frames) or router.rows_event_count != len(steps):
        return None
    tables = router.found()  # which also links the events of a table
    if len(tables) != 1:
        return None
    taken, _, _ = batch.fill(router, 0, 0, 0, len(frames), _MOST_VALUES)
    if batch.failed_event >= 0 or taken < len(steps):
        return None
    found = records.record_batch(batch, "", Repeated(), JsonTexts())
    before = None if isinstance(first, WriteRowsEvent) else _rows(found.column("before"), plan)
    after = None if isinstance(first, DeleteRowsEvent) else _rows(found.column("after"), plan)
    return BulkRows(plan, before, after)


def _is_whole(event: Any) -> bool:
    """Return whether all columns are in all images."""
    full = (1 << event.column_count) - 1
    bitmaps = (event.present, event.present_after) if isinstance(event, UpdateRowsEvent) else (event.present,)
    return all(
        len(bits) == bitmap_size(event.column_count) and int.from_bytes(bits, "little") & full == full
        for bits in bitmaps
    )


@lru_cache(maxsize=256)
def _is_plain(plan: TablePlan) -> bool:
    return all(
        column.type in _TYPES
        and column.native is None
        and not (column.type == ColumnType.ENUM and column.members is None)
        and not (column.type == ColumnType.NEWDECIMAL and column.scale > _SMALL_SCALE)
        for column in plan.columns
    )


def _rows(images: pa.StructArray, plan: TablePlan) -> list[tuple[Any, ...]]:
    children = zip(images.flatten(), plan.columns, strict=True)
    return list(zip(*(_values(child, column) for child, column in children if not column.is_row_hash), strict=True))


def _values(array: pa.Array, column: ColumnPlan) -> list[Any]:
    import pyarrow as pa  # noqa: PLC0415

    if column.type == ColumnType.NEWDECIMAL:
        array = array.cast(pa.string())
    values: list[Any] = array.to_pylist()
    if column.type == ColumnType.LONGLONG and column.unsigned:
        return [value if value is None or value < INTEGER_END else str(value) for value in values]
    return values
