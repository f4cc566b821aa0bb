"""Rows events for the kernel with arbitrary table plans, including plans that no table map can express."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from binlogio._kernel.event_scanner import NEED_DATA, EventScanner
from binlogio.constants import EventType
from binlogio.events.base import EventHeader, ParseContext
from binlogio.events.rows import DeleteRowsEvent, PartialUpdateRowsEvent, UpdateRowsEvent, WriteRowsEvent
from binlogio.events.table_map import TableMapEvent
from binlogio.format.encoder import Encoder
from binlogio.primitives import bitmap_size

if TYPE_CHECKING:
    from binlogio._kernel.event_scanner import ImagePlan
    from binlogio.rows.plan import TablePlan
    from binlogio.values.column import ColumnPlan

NO_CHECKSUM = ParseContext(checksum_algorithm=0)
CLASSES: dict[int, Any] = {
    EventType.WRITE_ROWS_EVENT: WriteRowsEvent,
    EventType.UPDATE_ROWS_EVENT: UpdateRowsEvent,
    EventType.DELETE_ROWS_EVENT: DeleteRowsEvent,
    EventType.PARTIAL_UPDATE_ROWS_EVENT: PartialUpdateRowsEvent,
}


def all_present(plan: TablePlan) -> bytes:
    """Return the present bitmap with all columns set."""
    count = len(plan.columns)
    return ((1 << count) - 1).to_bytes(bitmap_size(count), "little")


def rows_event(
    plan: TablePlan, images: bytes, code: int = EventType.WRITE_ROWS_EVENT, *, present: bytes = b"", after: bytes = b""
) -> Any:
    """Return a rows event of table id 7; by default all columns are present."""
    everything = all_present(plan)
    more = {"present_after": after or everything} if "UPDATE" in EventType(code).name else {}
    return CLASSES[code](
        table_id=7,
        flags=1,
        extra=b"",
        column_count=len(plan.columns),
        present=present or everything,
        images=images,
        header=EventHeader(type_code=code, timestamp=1_700_000_000, server_id=3, offset=300),
        **more,
    )


def one_value(column: ColumnPlan, data: bytes) -> bytes:
    """Return the image of a row with the single value `data`."""
    return b"\0" + data


def route_rows(images: ImagePlan, *events: Any) -> tuple[EventScanner, bytes]:
    """Return an event scanner that has read rows events of a table, and their bytes, which must outlive it."""
    plan: Any = images.table
    width = len(plan.columns)
    table_map = TableMapEvent(
        7, 1, "d", "t", (3,) * width, (0,) * width, (True,) * width, (), EventHeader(type_code=19)
    )
    encoder = Encoder(NO_CHECKSUM)
    data = b""
    for event in events:
        for one in (table_map, event):
            data += encoder.encode_at(one, 4 + len(data))
    router = EventScanner(lambda _: images, lambda *_: None, checksum=False)
    status, at = router.scan(data, 0, 4)
    assert status == NEED_DATA
    assert at == len(data)
    return router, data
