"""Records of `read_rows` without a table from the event reader: the reference for the kernel."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from binlogio import BinlogError
from binlogio.columnar.record_types import MIXED_SCHEMA
from binlogio.events import RowsEvent
from binlogio.events.base import event_name
from binlogio.rows.image import present_bitmaps
from binlogio.values.absent import ABSENT
from binlogio.values.text import json_value

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binlogio import BinlogReader

NAMES = tuple(MIXED_SCHEMA.names)
Record = tuple[Any, ...]


def row_records(reader: BinlogReader) -> Iterator[Record]:
    """Yield the row changes of the logs as tuples in the order of `NAMES`, with times in seconds."""
    place, row = ("", -1), 0
    for event in reader:
        if not isinstance(event, RowsEvent):
            continue
        header, group = event.header, reader.group
        if place != (reader.position.file, header.offset):
            place, row = (reader.position.file, header.offset), 0
        source = (None, None, None) if group is None else group.facts
        try:
            plan = reader.plan(event)
            for change in list(reader.rows(event)):
                after = image_text(change.applied())
                common = header.timestamp, header.server_id, *source, _encodable(plan.schema), _encodable(plan.table)
                images = image_text(change.before), after
                yield (*place, row, event.operation.op, *common, *images, *present_bitmaps(event))
                row += 1
        except BinlogError as exc:
            exc.locate(file=place[0], offset=header.offset, event_type=event_name(header.type_code))
            raise


def image_text(image: Any) -> str | None:
    """Return a row image as JSON text; None for an image that a change does not have."""
    if image is None:
        return None
    values = {}
    for column, value in zip(image.plan.columns, image.values, strict=True):
        if value is not ABSENT:
            try:
                values[column.label] = json_value(value, column)
            except BinlogError as exc:
                exc.field = f"column {column.label}" + (f": {exc.field}" if exc.field else "")
                raise
    return _encodable(json.dumps(values, ensure_ascii=False, separators=(",", ":")))


def _encodable(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()
