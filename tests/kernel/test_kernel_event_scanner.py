"""The walk over events: how much of what was compressed is held at once."""

from __future__ import annotations

from binlogio._kernel.event_scanner import FULL, NEED_DATA, EventScanner
from binlogio.columnar.batches.records import TableRecords
from binlogio.constants import ColumnType, EventType
from binlogio.events import BinlogEvent
from binlogio.events.base import EventHeader, ParseContext
from binlogio.events.rows import WriteRowsEvent
from binlogio.format.encoder import Encoder
from binlogio.rows.plan import resolve_plan
from log_cases import table_map_of
from rowimage_cases import column

MARIADB = ParseContext(server_version="10.11.18-MariaDB", checksum_algorithm=0)
MOST_KEPT = 4 << 20
VALUE_SIZE = 1 << 20
EVENTS = 11


def test_little_that_becomes_much_is_opened_in_turns() -> None:
    """Eleven events of a kilobyte are eleven megabytes of rows.

    The walk stops where four are open, and continues after them.
    """
    table_map = table_map_of([column(ColumnType.BLOB, 3)])
    image = b"\0" + VALUE_SIZE.to_bytes(3, "little") + b"x" * VALUE_SIZE
    event = WriteRowsEvent(
        table_map.table_id,
        0,
        b"",
        1,
        b"\1",
        image,
        EventHeader(type_code=EventType.WRITE_ROWS_COMPRESSED_EVENT_V1, timestamp=9),
    )
    encoder, data = Encoder(MARIADB), b""
    events: list[BinlogEvent] = [table_map, *[event] * EVENTS]
    for one in events:
        data += encoder.encode_at(one, 4 + len(data))
    records = TableRecords.of(resolve_plan(table_map, MARIADB), None, zero_dates="text")
    router = EventScanner(lambda _: records.images, lambda *_: None, checksum=False)
    router.describe(checksum=False, post_headers={int(EventType.WRITE_ROWS_COMPRESSED_EVENT_V1): 8})
    found, at, status = [], 0, FULL
    while status == FULL:
        status, at = router.scan(data, at, 4)
        found.append(router.rows_event_count)

        assert router.kept_bytes <= MOST_KEPT + len(image)
        router.clear()

    assert len(data) < VALUE_SIZE
    assert (status, at) == (NEED_DATA, len(data))
    assert found == [4, 4, 3]
