"""Rows events that are larger than a window inside compressed transactions: they come in parts, and say what they say as a whole."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any, Final

import pytest

import logs
from binlogio.columnar.windows import WINDOW_SIZE
from binlogio.constants import ColumnType, EventType
from binlogio.event_filter import EventFilter
from binlogio.events.base import ParseContext
from binlogio.events.control import XidEvent
from binlogio.events.gtid import GtidEvent
from binlogio.events.rows import UpdateRowsEvent, WriteRowsEvent
from binlogio.events.transaction_payload import TransactionPayloadEvent
from binlogio.format.encoder import Encoder
from binlogio.gtid import Uuid
from binlogio.rows.image import RowChange, RowImage, encode_rows
from binlogio.rows.plan import resolve_plan
from binlogio.storage.compression import compress_zstd
from both_kernels import KERNELS, records_by, tables_by
from log_cases import table_map_of
from logs import OFF, header, query
from rowimage_cases import BINARY, column

ROW_SIZE: Final = 70_000  # bytes
TABLES: Final = {
    number: replace(
        table_map_of([column(ColumnType.LONG), column(ColumnType.BLOB, 3, collation_id=BINARY)]),
        table_id=number,
        table=f"t{number}",
    )
    for number in (1, 2)
}


def _change(kind: Any, number: int, count: int, size: int, *, last: bool = True) -> list[Any]:
    """Return a rows event of table `number` with `count` rows of about `size` bytes, after its table map."""
    dice, plan = Random(count), resolve_plan(TABLES[number])
    images = [RowImage(plan, (i, dice.randbytes(size))) for i in range(count)]
    common: Any = {"table_id": number, "flags": int(last), "extra": b"", "column_count": 2, "present": b"\3"}
    if kind is UpdateRowsEvent:
        data = encode_rows([RowChange(image, image) for image in images], plan, b"\3", b"\3")
        return [
            TABLES[number],
            kind(**common, present_after=b"\3", images=data, header=header(EventType.UPDATE_ROWS_EVENT)),
        ]
    data = encode_rows([RowChange(None, image) for image in images], plan, b"\3")
    return [TABLES[number], kind(**common, images=data, header=header(EventType.WRITE_ROWS_EVENT))]


def _payload_log(*events: Any) -> bytes:
    """One transaction in a payload, and a plain one after it."""
    inner = [query("BEGIN"), *events, XidEvent(1, header(EventType.XID_EVENT))]
    encoder = Encoder(ParseContext(checksum_algorithm=OFF))
    plain = b"".join(encoder.encode(event) for event in inner)
    gtids = [GtidEvent(uuid=Uuid(bytes(16)), gno=gno, header=header(EventType.GTID_LOG_EVENT)) for gno in (1, 2)]
    payload = TransactionPayloadEvent.create(
        compress_zstd(plain, 1), 0, len(plain), header(EventType.TRANSACTION_PAYLOAD_EVENT)
    )
    return logs.log(
        gtids[0],
        payload,
        gtids[1],
        query("BEGIN"),
        *_change(WriteRowsEvent, 1, 2, 5),
        XidEvent(2, header(EventType.XID_EVENT)),
    )


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"tables": ["d.t1"]},
        {"tables": ["d.t2"]},
        {"tables": ["d.none"]},
        {"where": EventFilter(ops=frozenset({"update"}))},
        {"where": EventFilter(gtids=frozenset({"00000000-0000-0000-0000-000000000000:2"}))},
        {"columns": ["c0"]},
        {"batch_rows": 7},
    ],
    ids=str,
)
def test_rows_events_in_parts_in_a_payload_are_those_of_construct(options: Any) -> None:
    """Numbers go on from one event to the next, wanted or not; so do statements of several events."""
    many = 2 * WINDOW_SIZE // ROW_SIZE
    data = _payload_log(
        *_change(WriteRowsEvent, 1, 3, 10),
        *_change(WriteRowsEvent, 1, many, ROW_SIZE, last=False),
        _change(WriteRowsEvent, 1, many, ROW_SIZE)[1],
        *_change(WriteRowsEvent, 2, many + 1, ROW_SIZE),
        *_change(UpdateRowsEvent, 2, many, ROW_SIZE),
        *_change(WriteRowsEvent, 1, 1, 10),
    )
    for by in (tables_by, records_by):
        if by is records_by and "columns" in options:
            continue
        compiled, construct = (by(kernel, data, **options) for kernel in KERNELS)

        assert compiled == construct
