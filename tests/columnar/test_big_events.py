"""Events that are larger than a window: rows come in parts, compressed transactions are opened while they are read, and damage is found all the same."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Final

import pytest

import binlogio
from binlogio import BinlogError, BinlogWriter, ColumnDefinition, Insert, ServerVariables, Statement, TableDefinition
from binlogio.columnar.windows import WINDOW_SIZE
from binlogio.constants import HEADER_SIZE, EventType
from binlogio.events.rows import WriteRowsEvent
from defined_logs import mapped, save, table
from logs import header, query
from logs import log as log_of

pytestmark = pytest.mark.usefixtures("kernel")
TABLE: Final = TableDefinition(
    "d", "t", (ColumnDefinition("id", "int", nullable=False), ColumnDefinition("b", "mediumblob")), ("id",)
)
VALUE_SIZE: Final = 1 << 18
ROWS: Final = WINDOW_SIZE // VALUE_SIZE + 4


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One transaction of random bytes, which no compression makes smaller, and a small one after it."""
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
def test_big_rows_event_of_which_a_window_has_but_the_head_is_read(tmp_path: Path, held: int) -> None:
    """The first window of the log ends so many bytes after the event's begin."""
    value = bytes(2 * WINDOW_SIZE)
    image = b"\0" + len(value).to_bytes(3, "little") + value
    table_map = mapped(table("mediumblob"), "FULL")
    rows = WriteRowsEvent(9, 1, b"", 1, b"\xff", image, header(EventType.WRITE_ROWS_EVENT))
    before = len(log_of(query(""), table_map))
    path = save(tmp_path / "binlog.000001", query("x" * (WINDOW_SIZE - held - before)), table_map, rows)

    records = [record for batch in binlogio.read_rows(path, table="d.t") for record in batch.to_pylist()]

    assert [(record["pos"], record["after"]) for record in records] == [(WINDOW_SIZE - held, {"x0": value})]
