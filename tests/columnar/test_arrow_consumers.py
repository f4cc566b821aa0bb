"""DuckDB and Polars read record batches without a copy, and one batch after the other.

That nothing is copied is seen by addresses where a library shows them (Polars), and by the batches that live at a time
where it does not (DuckDB).
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Final

import duckdb
import polars as pl
import pyarrow as pa
import pytest

import binlogio
from binlogio import BinlogWriter, ColumnDefinition, Insert, ServerVariables, Statement, TableDefinition, Update
from binlogio.columnar.row_batches import RowBatches

TABLE: Final = TableDefinition(
    "shop",
    "orders",
    (
        ColumnDefinition("id", "bigint unsigned", nullable=False),
        ColumnDefinition("customer", "int"),
        ColumnDefinition("price", "decimal(12,2)", nullable=False),
        ColumnDefinition("created", "datetime(6)", nullable=False),
        ColumnDefinition("ratio", "double"),
        ColumnDefinition("note", "varchar(100)"),
    ),
    ("id",),
)
BATCH_ROWS: Final = 100
ROWS: Final = 5000
POS: Final = 1


def row(number: int) -> dict[str, Any]:
    """Return a row whose note is longer than the 12 bytes that an Arrow view stores inline."""
    return {
        "id": number,
        "customer": None if number % 7 == 0 else number % 50,
        "price": Decimal(number) / 4,
        "created": datetime(2026, 1, 1) + timedelta(seconds=number, microseconds=1),
        "ratio": number / 8,
        "note": None if number % 3 == 0 else f"the note of the order with number {number}",
    }


@pytest.fixture(scope="module")
def orders(tmp_path_factory: pytest.TempPathFactory) -> RowBatches:
    """Return small batches of inserts, and of an update of every tenth row."""
    path = tmp_path_factory.mktemp("logs") / "binlog"
    rows = [row(number) for number in range(ROWS)]
    changed = [(one, {**one, "price": one["price"] + 1}) for one in rows[::10]]
    with BinlogWriter(path, variables=ServerVariables(sync_binlog=0)) as log, log.session("shop") as session:
        session.execute(Statement("INSERT", (Insert(TABLE, rows),)))
        session.execute(Statement("UPDATE", (Update(TABLE, changed),)))
    batches = binlogio.read_rows(path.with_name("binlog.000001"), table="shop.orders", batch_rows=BATCH_ROWS)
    assert isinstance(batches, RowBatches)
    return batches


def data_address(array: pa.Array) -> int:
    """Return the address of the values: the last buffer, which of strings has their bytes."""
    buffer = array.buffers()[-1]
    assert buffer is not None
    return int(buffer.address)


def test_polars_reads_the_values_without_a_copy(orders: RowBatches) -> None:
    """Numbers, decimals, times and the bytes of texts.

    Polars makes its own offsets of texts, and milliseconds of seconds.
    """
    batch = next(iter(orders))

    frame = pl.from_arrow(batch)

    assert isinstance(frame, pl.DataFrame)
    newest = frame.to_arrow(compat_level=pl.CompatLevel.newest())
    for name in ("pos", "row", "server_id", "last_committed", "sequence_number", "gtid"):
        assert data_address(newest.column(name).chunk(0)) == data_address(batch.column(name))
    theirs, ours = newest.column("after").chunk(0), batch.column("after")
    for position in range(len(TABLE.columns)):
        assert data_address(theirs.field(position)) == data_address(ours.field(position))


def test_polars_reads_the_same_records_as_arrow(orders: RowBatches) -> None:
    """Every record, in order; as columns, not as one column of objects."""
    table = orders.to_table()

    frame = pl.DataFrame(orders)

    assert table.column("after").to_pylist() == frame["after"].to_list()
    assert table.column("before").to_pylist() == frame["before"].to_list()
    assert table.drop_columns(["after", "before"]).to_pylist() == frame.drop("after", "before").to_dicts()


def test_duckdb_reads_the_same_images_as_arrow(orders: RowBatches) -> None:
    """Every column of the images, by SQL over the stream."""
    table = orders.to_table()
    images = [image for image in table.column("after").to_pylist() if image]

    with duckdb.connect() as database:
        database.register("log", orders.to_reader())
        found = database.execute("SELECT unnest(after) FROM log ORDER BY pos, row").fetchall()

    assert [tuple(image.values()) for image in images] == found


def test_duckdb_counts_by_operation(orders: RowBatches) -> None:
    """Over the record's own columns, of batches that DuckDB finds by the name of a variable."""
    log = orders
    found = duckdb.sql("SELECT op, count(*), sum(after.id) FROM log GROUP BY op ORDER BY op")
    changed = range(0, ROWS, 10)

    assert log is orders
    assert found is not None
    assert [("insert", ROWS, sum(range(ROWS))), ("update", len(changed), sum(changed))] == found.fetchall()


@dataclass
class Life:
    """How many batches there were, and how many at a time."""

    begun: int = 0
    alive: int = 0
    most: int = 0

    def watch(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the same batches; a batch is alive until its `pos` is released."""
        for batch in batches:
            buffer = batch.column(POS).buffers()[1]
            owner = _Owner(buffer)
            weakref.finalize(owner, self._end)
            self.begun += 1
            self.alive += 1
            self.most = max(self.most, self.alive)
            watched = pa.foreign_buffer(buffer.address, buffer.size, owner)
            del owner, buffer
            pos = pa.Array.from_buffers(pa.int64(), batch.num_rows, [None, watched])
            yield batch.set_column(POS, batch.schema.field(POS), pos)

    def _end(self) -> None:
        self.alive -= 1


@dataclass
class _Owner:
    buffer: pa.Buffer


def query_watched(orders: RowBatches, sql: str) -> tuple[list[Any], Life]:
    """Return the answer of DuckDB with one thread, and the lives of the batches."""
    life = Life()
    reader = orders.to_reader()
    watched = pa.RecordBatchReader.from_batches(reader.schema, life.watch(reader))
    with duckdb.connect(config={"threads": 1}) as database:
        database.register("log", watched)
        found = database.execute(sql).fetchall()
    return found, life


def test_duckdb_holds_few_batches_at_a_time(orders: RowBatches) -> None:
    """The memory of a query over a log does not grow with the log."""
    found, life = query_watched(orders, "SELECT count(*), count(DISTINCT pos % 2) FROM log")

    assert found[0][0] == ROWS + ROWS // 10
    assert life.begun >= ROWS // BATCH_ROWS
    assert life.most <= 4


def test_duckdb_reads_no_further_than_it_needs(orders: RowBatches) -> None:
    """LIMIT ends the reading."""
    found, life = query_watched(orders, "SELECT pos FROM log LIMIT 1")

    assert len(found) == 1
    assert life.begun <= 4
