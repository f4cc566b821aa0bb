"""Results of `read_rows` and `read_tables` as Arrow streams for pyarrow, pandas and Polars.

With rows and without, and where columns change; `test_arrow_consumers` has what Polars and DuckDB read.
"""

from __future__ import annotations

import io
from datetime import date
from pathlib import Path
from typing import Any, Final

import polars as pl
import pyarrow as pa
import pytest

import binlogio
from binlogio import BinlogError, BinlogWriter, ColumnDefinition, Insert, ServerVariables, Statement, TableDefinition
from binlogio.columnar.row_batches import MixedBatches, RowBatches
from binlogio.selection.event_filter import EventFilter
from corpus import FIXTURES

ROWS: Final = 250
TYPES: Final = ("blob", "decimal", "enum_set_bit", "geometry_vector", "int", "json", "string", "temporal")
DDL: Final = "CREATE TABLE {} (id BIGINT NOT NULL PRIMARY KEY, note VARCHAR(20))"


def table(name: str = "orders", schema: str = "tenant1", kind: str = "bigint", **more: str) -> TableDefinition:
    """Return a table of two columns and more."""
    columns = [ColumnDefinition("id", kind, nullable=False), ColumnDefinition("note", "varchar(20)")]
    return TableDefinition(schema, name, (*columns, *(ColumnDefinition(*one) for one in more.items())), ("id",))


def log(folder: Path, *steps: str | tuple[TableDefinition, list[Any]], row_metadata: str = "FULL") -> Path:
    """Return a log of statements and of inserts."""
    variables = ServerVariables(binlog_row_metadata=row_metadata, sync_binlog=0)
    with BinlogWriter(folder / "binlog", variables=variables) as writer, writer.session("tenant1") as session:
        for step in steps:
            if isinstance(step, str):
                session.ddl(step)
            else:
                session.execute(Statement("INSERT", (Insert(*step),)))
    return folder / "binlog.000001"


@pytest.fixture
def orders(tmp_path: Path) -> RowBatches:
    """Rows of one of two tables of the same name."""
    rows = [(number, f"note {number}") for number in range(ROWS)]
    path = log(tmp_path, (table(), rows), (table(schema="tenant2"), [(-1, "another tenant")]))
    batches = binlogio.read_rows(path, table="tenant1.orders", batch_rows=100)
    assert isinstance(batches, RowBatches)
    return batches


def test_tables_of_one_name_are_distinguished_by_their_schemas(tmp_path: Path) -> None:
    path = log(tmp_path, (table(), [(1, "x")]), (table(schema="tenant2"), [(2, "y")]))
    found = {name: batch["after"].to_pylist() for name, batch in binlogio.read_tables(path)}

    assert found == {"tenant1.orders": [{"id": 1, "note": "x"}], "tenant2.orders": [{"id": 2, "note": "y"}]}


def test_pyarrow_and_pandas_read_a_stream(orders: RowBatches) -> None:
    read = pa.table(orders)

    assert read.equals(orders.to_table())
    assert read.num_rows == ROWS
    assert pa.RecordBatchReader.from_stream(orders).read_all().equals(read)
    assert pa.schema(orders) == orders.schema == read.schema
    assert orders.to_pandas()["after"][7] == {"id": 7, "note": "note 7"}


def test_json_images_and_one_table_of_several_are_streams_too(tmp_path: Path) -> None:
    path = log(tmp_path, (table(), [(1, "x")]))
    mixed = binlogio.read_rows(path)

    assert isinstance(mixed, MixedBatches)
    assert pl.DataFrame(mixed)["after"].to_list() == ['{"id":1,"note":"x"}']
    assert pa.schema(mixed) == mixed.schema == pa.table(mixed).schema
    tables = binlogio.read_tables(path)
    assert pa.table(tables)["after"].to_pylist() == [{"id": 1, "note": "x"}]
    assert pa.schema(tables) == tables.schema


def test_repr_names_tables_columns_and_logs(tmp_path: Path) -> None:
    """Without reading the log."""
    path = log(tmp_path, (table(), [(1, "x")]))

    assert repr(binlogio.read_rows(path, table="tenant1.orders", columns=["id"])) == (
        f"<RowBatches of tenant1.orders (id) in {path}>"
    )
    (tmp_path / "other").mkdir()
    other = log(tmp_path / "other", (table(), [(1, "x")]))
    assert repr(binlogio.read_rows([path, other])) == f"<MixedBatches of every table in {path} to {other}, 2 logs>"
    assert repr(binlogio.read_tables(path)) == f"<TableBatches of every table in {path}>"


def test_pattern_of_several_tables_is_refused_with_a_hint(tmp_path: Path) -> None:
    """Not with an error of Arrow; a pattern that matches one table selects it."""
    path = log(tmp_path, (table(), [(1, "x")]), (table("other", id2="date"), [(2, "y", date(2026, 1, 2))]))

    rows, tables = binlogio.read_rows(path, table="tenant1.*"), binlogio.read_tables(path)
    for use in (lambda: list(rows), rows.to_table, rows.to_pandas, rows.to_reader().read_all):
        with pytest.raises(BinlogError, match=r"several tables.*expected tenant1\.o.*read_tables\(\)"):
            use()
    for stream in (rows, tables):  # whose errors in the middle are those of the library that reads it
        for take in (pa.table, pl.DataFrame):
            with pytest.raises(Exception, match=r"several tables.*read_tables\(\)"):
                take(stream)
    assert binlogio.read_rows(path, table="tenant1.or*").to_table().num_rows == 1


# ---------------------------------------------------------------------------------------------------------- no rows


def empty_uses(rows: Any) -> pa.Schema:
    """Return the columns by every way to ask for them."""
    read = rows.to_table()

    assert read.num_rows == 0
    assert read.schema == rows.schema == pa.schema(rows) == rows.to_reader().schema == pa.table(rows).schema
    assert list(rows) == []
    assert len(rows.to_pandas()) == 0
    assert pl.DataFrame(rows).shape == (0, len(read.schema))
    return read.schema


@pytest.mark.parametrize("threads", [1, 2])
def test_table_without_rows_is_empty_where_its_columns_are_known(tmp_path: Path, threads: int) -> None:
    """By a definition, by DDL in the log, or by a table map whose rows are not wanted.

    With the columns that rows would have.
    """
    path = log(tmp_path, "CREATE DATABASE tenant1", DDL.format("quiet"), (table(), [(1, "x")]))
    expected = binlogio.read_rows(path, table="tenant1.orders").schema
    nothing = EventFilter(ops=frozenset({"delete"}))

    assert empty_uses(binlogio.read_rows(path, table="tenant1.quiet", threads=threads)) == expected
    defined = {"tenant9.none": DDL.format("tenant9.none")}
    assert empty_uses(binlogio.read_rows(path, table="tenant9.none", definitions=defined, threads=threads)) == expected
    assert empty_uses(binlogio.read_rows(path, table="tenant1.orders", where=nothing, threads=threads)) == expected
    some = empty_uses(binlogio.read_rows(path, table="tenant1.quiet", columns=["note"], threads=threads))
    assert [field.name for field in some.field("after").type] == ["note"]


def test_table_of_unknown_columns_is_refused_with_a_hint(tmp_path: Path) -> None:
    """So are one that is dropped, and a column that a table does not have.

    A table that CREATE TABLE IF NOT EXISTS made, as its XID says, is known.
    """
    dropped = (DDL.format("dropped"), "DROP TABLE dropped", "CREATE TABLE IF NOT EXISTS made (id INT)")
    path = log(tmp_path, *dropped, (table(), [(1, "x")]))

    assert pa.table(binlogio.read_rows(path, table="tenant1.made")).schema.field("after").type.names == ["id"]
    for name in ("tenant1.order", "tenant1.dropped", "tenant2.orders", "nosuch.*"):
        rows = binlogio.read_rows(path, table=name)
        for use in (pa.table, pl.DataFrame, pa.schema, lambda rows: rows.to_pandas(), lambda rows: rows.schema):
            with pytest.raises(BinlogError, match=r"contain no row of the table.*definitions="):
                use(rows)
        assert list(rows) == []
    with pytest.raises(BinlogError, match="unknown column"):
        pa.table(binlogio.read_rows(path, table="x.y", definitions={"x.y": DDL.format("y")}, columns=["nosuch"]))


@pytest.mark.parametrize(
    "case",
    [
        *(f"mysql97/types_{name}" for name in TYPES),
        "mysql97/metadata_minimal",
        "mariadb1011/types",
        "mariadb1011/types_temporal",
    ],
)
def test_columns_of_an_empty_table_are_those_that_its_rows_would_have(case: str) -> None:
    """Of every type, by the DDL that the log begins with."""
    path = FIXTURES / case / "binlog.000001"
    if not path.exists():
        pytest.fail(f"no fixture {case}")
    nothing = EventFilter(server_ids=frozenset({123456}))
    tables = {name: batch.schema for name, batch in binlogio.read_tables(path, zero_dates="null")}

    for name, schema in tables.items():
        assert binlogio.read_rows(path, table=name, where=nothing, zero_dates="null").schema == schema
    assert tables


# ------------------------------------------------------------------------------------------------- columns that change


def test_types_that_cannot_be_merged_are_an_error_with_their_position(tmp_path: Path) -> None:
    """The column, its types, and the first row with the new one."""
    steps = (
        (table(), [(1, "x")]),
        (table(id2="int"), [(2, "y", 3)]),
        (table(kind="bigint unsigned", id2="int"), [(2**64 - 1, "z", 4)]),
    )
    path = log(tmp_path, *steps)
    rows = binlogio.read_rows(path, table="tenant1.orders")
    third = list(rows)[2]

    for use in (rows.to_table, rows.to_pandas):
        with pytest.raises(BinlogError) as caught:
            use()
        message = str(caught.value)
        assert f"{path}: at {third['pos'][0]}" in message
        assert "expected id int64, found id uint64" in message
        assert "columns=" in message
    assert binlogio.read_rows(path, table="tenant1.orders", columns=["note"]).to_table().num_rows == 3
    with pytest.raises(BinlogError, match="change within the logs"):
        rows.to_reader().read_all()
    for take in (pl.DataFrame, pa.table):
        with pytest.raises(Exception, match="change within the logs"):
            take(rows)


def test_columns_that_can_be_merged_are_merged(tmp_path: Path) -> None:
    path = log(tmp_path, (table(kind="int"), [(1, "x")]), (table(id2="date"), [(2, "y", date(2026, 1, 2))]))

    assert binlogio.read_rows(path, table="tenant1.orders").to_table()["after"].to_pylist() == [
        {"id": 1, "note": "x", "id2": None},
        {"id": 2, "note": "y", "id2": date(2026, 1, 2)},
    ]


def test_stream_of_a_file_object_is_read_once(tmp_path: Path) -> None:
    path = log(tmp_path, (table(), [(1, "x")]))

    assert pa.table(binlogio.read_rows(io.BytesIO(path.read_bytes()), table="tenant1.orders")).num_rows == 1
