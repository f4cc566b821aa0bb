"""Events larger than a window: rows are read in parts, compressed transactions are decompressed while they are read.

Damage is found as in small events. The same inside compressed transactions.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

import binlogio
from binlogio import BinlogError, BinlogWriter, ColumnDefinition, Insert, ServerVariables, Statement, TableDefinition
from binlogio.constants import HEADER_SIZE, ColumnType, EventType
from binlogio.events.base import ParseContext
from binlogio.events.control import XidEvent
from binlogio.events.gtid import GtidEvent
from binlogio.events.rows import UpdateRowsEvent, WriteRowsEvent
from binlogio.events.transaction_payload import TransactionPayloadEvent
from binlogio.format.encoder import Encoder
from binlogio.gtid import Uuid
from binlogio.rows.image import RowChange, RowImage, encode_rows
from binlogio.rows.plan import resolve_plan
from binlogio.selection.event_filter import EventFilter
from binlogio.storage.compression import compress_zstd
from binlogio.storage.windows import WINDOW_SIZE
from both_kernels import KERNELS, records_by, tables_by
from defined_logs import mapped, save, table
from log_cases import table_map_of
from logs import OFF, header, query
from logs import log as log_of
from rowimage_cases import BINARY, column

TABLE: Final = TableDefinition(
    "d", "t", (ColumnDefinition("id", "int", nullable=False), ColumnDefinition("b", "mediumblob")), ("id",)
)
VALUE_SIZE: Final = 1 << 18
ROWS: Final = WINDOW_SIZE // VALUE_SIZE + 4


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a log of a transaction of random bytes, which cannot be compressed, and a small one after it."""
    folder, random = tmp_path_factory.mktemp("big"), Random(4)
    rows = [{"id": i, "b": random.randbytes(VALUE_SIZE)} for i in range(ROWS)]
    variables = ServerVariables(binlog_transaction_compression=True)
    with BinlogWriter(folder / "binlog", variables=variables) as writer, writer.session() as session:
        session.execute(Statement("INSERT", (Insert(TABLE, rows),)))
        session.execute(Statement("INSERT", (Insert(TABLE, [{"id": ROWS, "b": b""}]),)))
    return folder / "binlog.000001"


def _ids(path: Path) -> list[tuple[int, int]]:
    return [
        (record["row"], record["after"]["id"])
        for batch in binlogio.read_rows(path, table="d.t")
        for record in batch.to_pylist()
    ]


def _outcome(path: Path) -> str | None:
    """Return the error that reading row changes ends with."""
    try:
        _ids(path)
    except BinlogError as exc:
        return f"{type(exc).__name__} at {exc.offset}"
    return None


def _outcome_by_event(path: Path) -> str | None:
    try:
        with binlogio.open(path) as reader:
            list(reader)
    except BinlogError as exc:
        return f"{type(exc).__name__} at {exc.offset}"
    return None


def test_big_payload_gives_every_row_once(log: Path) -> None:
    assert log.stat().st_size > WINDOW_SIZE
    assert _ids(log) == [*((i, i) for i in range(ROWS)), (0, ROWS)]


@pytest.mark.parametrize("at", [0.3, 0.5, 0.9])
def test_flipped_bit_in_a_big_payload_is_found_where_the_event_reader_finds_it(
    log: Path, tmp_path: Path, at: float
) -> None:
    data = bytearray(log.read_bytes())
    data[int(len(data) * at)] ^= 1
    (tmp_path / "binlog.000001").write_bytes(data)

    assert _outcome(tmp_path / "binlog.000001") == _outcome_by_event(tmp_path / "binlog.000001") is not None


@pytest.mark.parametrize("at", [0.1, 0.5, 0.999])
def test_log_that_ends_in_a_big_payload_ends_as_with_the_event_reader(log: Path, tmp_path: Path, at: float) -> None:
    data = log.read_bytes()
    (tmp_path / "binlog.000001").write_bytes(data[: int(len(data) * at)])

    assert _outcome(tmp_path / "binlog.000001") == _outcome_by_event(tmp_path / "binlog.000001")


@pytest.mark.parametrize("held", [HEADER_SIZE, HEADER_SIZE + 5, HEADER_SIZE + 9, HEADER_SIZE + 11])
def test_big_rows_event_whose_head_alone_is_in_the_first_window_is_read(tmp_path: Path, held: int) -> None:
    """The first window of the log ends so many bytes after the event's begin."""
    value = bytes(2 * WINDOW_SIZE)
    image = b"\0" + len(value).to_bytes(3, "little") + value
    table_map = mapped(table("mediumblob"), "FULL")
    rows = WriteRowsEvent(9, 1, b"", 1, b"\xff", image, header(EventType.WRITE_ROWS_EVENT))
    before = len(log_of(query(""), table_map))
    path = save(tmp_path / "binlog.000001", query("x" * (WINDOW_SIZE - held - before)), table_map, rows)

    records = [record for batch in binlogio.read_rows(path, table="d.t") for record in batch.to_pylist()]

    assert [(record["pos"], record["after"]) for record in records] == [(WINDOW_SIZE - held, {"x0": value})]


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
    return log_of(
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
    """Row numbers continue from one event to the next, selected or not; so do statements of several events."""
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
