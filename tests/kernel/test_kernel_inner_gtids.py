"""A GTID event inside a compressed transaction, which no server writes, begins a group for kernel and construct."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from typing import Any, Final

import pytest

from binlogio.columnar.rows_reader import SOURCE_COLUMNS
from binlogio.constants import ColumnType as T
from binlogio.constants import EventType
from binlogio.events.base import ParseContext
from binlogio.events.control import XidEvent
from binlogio.events.gtid import AnonymousGtidEvent, GtidEvent
from binlogio.events.mariadb import MariadbGtidEvent
from binlogio.events.rows import WriteRowsEvent
from binlogio.events.transaction_payload import TransactionPayloadEvent
from binlogio.format.encoder import Encoder
from binlogio.gtid import Uuid
from both_kernels import KERNELS, records_by
from log_cases import table_map_of
from logs import OFF, header, log, query
from rowimage_cases import column

UUID: Final = Uuid(bytes(range(16)))
MAP: Final = table_map_of([column(T.LONG)])
ROWS: Final = WriteRowsEvent(7, 1, b"", 1, b"\1", b"\0\5\0\0\0", header(EventType.WRITE_ROWS_EVENT))
MARIADB: Final = MariadbGtidEvent(sequence_number=5, domain_id=1, flags=0, header=header(EventType.MARIADB_GTID_EVENT))
GTIDS: Final[dict[str, Any]] = {
    "MariaDB": MARIADB,
    "MariaDB, thread": replace(MARIADB, flags_extra=16, thread_id=9),
    "anonymous": AnonymousGtidEvent(uuid=UUID, gno=0, last_committed=1, sequence_number=2, header=header(34)),
    "MySQL": GtidEvent(uuid=UUID, gno=8, last_committed=2, sequence_number=3, header=header(33)),
}


@pytest.mark.parametrize("kind", GTIDS)
def test_every_order_of_the_events_with_rows_after_begin(kind: str) -> None:
    """Rows before the GTID event have the thread of BEGIN, rows after it that of the GTID event or none."""
    outer = GtidEvent(uuid=UUID, gno=7, header=header(EventType.GTID_LOG_EVENT))
    parts = [[replace(query("BEGIN"), thread_id=4)], [GTIDS[kind]], [MAP, ROWS], [XidEvent(1, header(16))]]
    for order in permutations(parts):
        if order.index(parts[2]) < order.index(parts[0]):
            continue
        events = [event for part in order for event in part]
        encoder = Encoder(ParseContext(checksum_algorithm=OFF))
        data = b"".join(map(encoder.encode, events))
        whole = log(outer, TransactionPayloadEvent.create(data, 255, len(data), header(40)))
        for columns in ((), ("thread_id",), SOURCE_COLUMNS):
            compiled, construct = (records_by(kernel, whole, source_columns=columns) for kernel in KERNELS)

            assert compiled == construct, ([type(event).__name__ for part in order for event in part], columns)
