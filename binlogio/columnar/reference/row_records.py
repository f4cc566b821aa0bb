"""A record for each row change of any table, its images as JSON text.

Defines the columns of the record, with Spark's type names, and encodes an image as a JSON object of the columns in it,
by name, or by number (`@1` is the first) if the log has no names. `binlogio.values.text` defines the JSON of values. A
partial update of a JSON column shows the whole document where the before image has the old one, else the functions that
change it.

`pos` is the offset of the rows event, or of the payload event around it, and `row` counts the changes at that position,
so (file, pos, row) identifies a change, whatever the filters.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, TypeAlias

from binlogio.columnar.reference.group_context import GroupContext
from binlogio.errors import BinlogError, BinlogFormatError
from binlogio.event_filter import EVERY_EVENT, EventFilter
from binlogio.events import RowsEvent
from binlogio.events.base import event_name
from binlogio.events.rows import DeleteRowsEvent, PartialUpdateRowsEvent, UpdateRowsEvent, WriteRowsEvent
from binlogio.options import Position
from binlogio.values.absent import ABSENT
from binlogio.values.text import json_value

if TYPE_CHECKING:
    from binlogio.reader import BinlogReader
    from binlogio.rows.image import RowImage

ROW_COLUMNS: Final = {
    "file": "string",
    "pos": "bigint",
    "row": "int",
    "op": "string",
    "timestamp": "timestamp",
    "server_id": "bigint",
    "gtid": "string",
    "last_committed": "bigint",
    "sequence_number": "bigint",
    "schema": "string",
    "table": "string",
    "before": "string",
    "after": "string",
    "before_present": "binary",
    "after_present": "binary",
}

RowRecord: TypeAlias = tuple[str | int | bytes | None, ...]
"""The values of a record, in the order of `ROW_COLUMNS`."""

OPERATIONS: Final[dict[type, str]] = {
    WriteRowsEvent: "insert",
    UpdateRowsEvent: "update",
    PartialUpdateRowsEvent: "update",
    DeleteRowsEvent: "delete",
}
_US_PER_S: Final = 1_000_000


def row_records(
    reader: BinlogReader, tables: Callable[[str, str], bool] | None = None, where: EventFilter = EVERY_EVENT
) -> Iterator[RowRecord]:
    """Yield the row changes of the log that `tables` and `where` select, as tuples in the order of `ROW_COLUMNS`.

    Raises:
        BinlogError: the bytes are not a binary log.
    """
    group = GroupContext()
    at, row = Position("", -1), 0
    for event in reader:
        group.feed(event)
        if not isinstance(event, RowsEvent):
            continue
        place = Position(reader.position.file, event.header.offset)
        if place != at:
            at, row = place, 0
        try:
            table = reader.table_map(event)
            if (tables and not tables(table.schema, table.table)) or (
                where and not (where.wants_table(table.schema, table.table) and _is_wanted(event, where, group.gtid))
            ):
                row += _count_skipped(reader, event)
                continue
            records = list(_records(reader, event, group, row))
        except BinlogError as exc:  # documents and geometries are parsed here; only here the event is known
            exc.locate(
                file=reader.position.file,
                offset=event.header.offset,
                event_type=event_name(event.header.type_code),
            )
            raise
        row += len(records)
        yield from records


def _is_wanted(event: RowsEvent, where: EventFilter, gtid: str | None) -> bool:
    header = event.header
    op = OPERATIONS[type(event)]
    return where.wants_event(
        pos=header.offset, timestamp=header.timestamp, server_id=header.server_id, op=op
    ) and where.wants_group(gtid)


def _count_skipped(reader: BinlogReader, event: RowsEvent) -> int:
    """Return the number of changes of an event that shares its position with others; 0 for other events."""
    return 0 if event.header.inner is None else sum(1 for _ in reader.rows(event))


def _records(reader: BinlogReader, event: RowsEvent, group: GroupContext, row: int) -> Iterator[RowRecord]:
    plan = reader.plan(event)
    header = event.header
    where = (reader.position.file, header.offset)
    op = OPERATIONS[type(event)]
    common = (
        op,
        header.timestamp * _US_PER_S,
        header.server_id,
        group.gtid,
        group.last_committed,
        group.sequence_number,
        plan.schema,
        plan.table,
    )
    present = present_bitmaps(event)
    for number, change in enumerate(reader.rows(event), start=row):
        after = change.applied()
        yield (*where, number, *common, image_text(change.before), image_text(after), *present)


def present_bitmaps(event: RowsEvent) -> tuple[bytes | None, bytes | None]:
    """Return the bitmaps of the columns in the before and the after images; None if there is no such image.

    Bits past the last column are clear.
    """
    first = _without_spare_bits(event.present, event.column_count)
    if isinstance(event, (UpdateRowsEvent, PartialUpdateRowsEvent)):
        return first, _without_spare_bits(event.present_after, event.column_count)
    return (None, first) if isinstance(event, WriteRowsEvent) else (first, None)


def _without_spare_bits(present: bytes, column_count: int) -> bytes:
    """Return the bitmap with bits for columns only: servers set those after the last column."""
    bits = int.from_bytes(present, "little") & (1 << column_count) - 1
    return bits.to_bytes(len(present), "little")


def image_text(image: RowImage | None) -> str | None:
    """Return the columns in an image, and their values, as JSON; None if there is no image.

    Raises:
        BinlogFormatError: a JSON document or a geometry is damaged; the message names the column.
    """
    if image is None:
        return None
    values = {}
    for column, value in zip(image.plan.columns, image.values, strict=True):
        if value is ABSENT:
            continue
        try:
            values[column.label] = json_value(value, column)
        except BinlogFormatError as exc:
            exc.field = f"column {column.label}: {exc.field}" if exc.field else f"column {column.label}"
            raise
    return json.dumps(values, ensure_ascii=False, separators=(",", ":"))
