"""Batches that go on from one window of a log to the next: they are full, and their rows in the order of the log."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pyarrow as pa
import pytest

import binlogio
from binlogio import BinlogWriter, ColumnDefinition, ServerVariables, TableDefinition
from binlogio.implementation import is_compiled
from binlogio.storage.windows import WINDOW_SIZE
from binlogio.writer.batches import BatchChange, BatchSession

pytestmark = pytest.mark.skipif(not is_compiled(), reason="windows are the kernel's")
ID: Final = ColumnDefinition("id", "int", nullable=False)
PAD: Final = ColumnDefinition("pad", "varchar(2000)")
TABLE: Final = TableDefinition("d", "t", (ID, PAD), ("id",))
ALTERED: Final = TableDefinition("d", "t", (ID, PAD, ColumnDefinition("c", "int")), ("id",))
OTHER: Final = TableDefinition("d", "other", (ID, PAD), ("id",))
ROWS: Final = 400
TRANSACTIONS: Final = 3 * WINDOW_SIZE // (ROWS * 1500)


def _written(path: Path, tables: list[TableDefinition]) -> Path:
    """Return a log of three windows: two tables in turn, or one that changes."""
    with BinlogWriter(path / "binlog", variables=ServerVariables(sync_binlog=0)) as log:
        session = BatchSession(log)
        for number in range(TRANSACTIONS):
            table = tables[number % 2] if tables[1] is OTHER else tables[number * len(tables) // TRANSACTIONS]
            columns = {"id": range(number * ROWS, (number + 1) * ROWS), "pad": ["x" * 1500] * ROWS, "c": [1] * ROWS}
            names = [column.name for column in table.columns]
            session.write([BatchChange(table, after=pa.record_batch({name: columns[name] for name in names}))])
    return path / "binlog.000001"


def test_small_transactions_make_batches_of_many_windows(tmp_path: Path) -> None:
    path = _written(tmp_path, [TABLE, OTHER])
    batches = list(binlogio.read_tables(path, batch_rows=ROWS * TRANSACTIONS // 2 - 1))
    ids = {name: [i for table, one in batches if table == name for i in _ids(one)] for name in ("d.t", "d.other")}

    assert path.stat().st_size > 2 * WINDOW_SIZE
    assert len(batches) < 2 * TRANSACTIONS / 3
    assert all(found == sorted(found) for found in ids.values())
    assert sorted(ids["d.t"] + ids["d.other"]) == list(range(ROWS * TRANSACTIONS))


def test_rows_of_a_table_keep_their_order_where_it_changes(tmp_path: Path) -> None:
    path = _written(tmp_path, [TABLE, ALTERED, TABLE])
    batches = list(binlogio.read_rows(path, table="d.t"))
    widths = [batch.schema.field("after").type.num_fields for batch in batches]

    assert [i for batch in batches for i in _ids(batch)] == list(range(ROWS * TRANSACTIONS))
    assert sorted(set(widths)) == [2, 3]
    assert widths[0] == widths[-1] == 2


@pytest.mark.parametrize("batch_rows", [1, 7, 1000])
def test_no_batch_has_more_rows_than_were_asked_for(tmp_path: Path, batch_rows: int) -> None:
    path = _written(tmp_path, [TABLE, OTHER])
    counts = [batch.num_rows for _, batch in binlogio.read_tables(path, batch_rows=batch_rows)]

    assert max(counts) == min(batch_rows, 1000)
    assert sum(counts) == ROWS * TRANSACTIONS


def test_rows_before_an_error_come_before_it(tmp_path: Path) -> None:
    path = _written(tmp_path, [TABLE, OTHER])
    data = bytearray(path.read_bytes())
    data[-1000] ^= 1
    path.write_bytes(data)
    found: list[int] = []

    def read_all() -> None:
        for _, batch in binlogio.read_tables(path):
            found.extend(_ids(batch))

    with pytest.raises(binlogio.ChecksumMismatch):
        read_all()

    assert len(set(found)) > ROWS * (TRANSACTIONS - 1) - 1


def _ids(batch: pa.RecordBatch) -> list[int]:
    ids: list[int] = batch.column("after").field("id").to_pylist()
    return ids
