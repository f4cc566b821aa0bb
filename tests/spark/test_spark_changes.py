"""The view `changes`: records that MERGE and Auto CDC flows apply by key, in an order that holds across logs.

The oracle is the view `rows`, and the source columns of `read_tables`.
"""

from __future__ import annotations

import gzip
import random
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pytest

import binlogio
from binlogio import BinlogWriter, ColumnDefinition, Delete, Insert, ServerVariables, Statement, TableDefinition, Update
from binlogio.constants import BINLOG_MAGIC, EVENT_SIZE_BYTES, HeaderFlag
from binlogio.errors import BinlogFormatError
from binlogio.format.encoder import Encoder
from binlogio.options import ReadOptions
from binlogio.reader import BinlogReader
from binlogio.storage.sources import find_logs
from corpus import MARIADB, MARIADB118, MYSQL, ROOT
from pyspark_binlogio.options import BinlogOptionError
from spark_frames import records_of
from spark_streams import HAS_READ_LIMITS

pytest.importorskip("pyspark.sql.datasource")

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

ORDERS: Final = TableDefinition(
    "shop", "orders", (ColumnDefinition("id", "int", nullable=False), ColumnDefinition("v", "int")), ("id",)
)
OWN: Final = ("_op", "_sequence", "_commit_timestamp", "_gtid", "_thread_id", "_statement", "_file", "_pos")
SOURCE: Final = ("thread_id", "commit_timestamp", "statement")
FOLDERS: Final = (
    MYSQL / "types_int", MYSQL / "gtid_on", MYSQL / "gtid_off", MYSQL / "compressed", MYSQL / "rotated",
    MYSQL / "checksum_none", MYSQL / "multi_table_stmt", MARIADB / "gtid", MARIADB / "compressed",
    MARIADB / "group_commit", MARIADB / "checksum_none",
)  # fmt: skip


def changes_of(*paths: Path, table: str = "shop.orders", **options: str) -> list[dict[str, Any]]:
    return records_of(*paths, table=table, view="changes", **options)


def rows_of(*paths: Path, table: str = "shop.orders", **options: str) -> list[dict[str, Any]]:
    return records_of(*paths, table=table, **options)


def expected(path: Path, table: str, rows: list[dict[str, Any]], updates: set[str]) -> list[dict[str, Any]]:
    """Return the records of one log of a table, from its rows; `updates` are the sequences of single records."""
    sources = [
        row
        for _, batch in binlogio.read_tables(path, tables=[table], source_columns=SOURCE, statement_changes="skip")
        for row in batch.select(SOURCE).to_pylist()
    ]
    found = []
    for row, source in zip(rows, sources, strict=True):
        sequence = f"{int(path.name.split('.')[1]):010}.{row['pos']:013}.{row['row']:010}."
        parts = [("update" if row["op"] == "update" else row["op"], 0, row["after"] or row["before"])]
        if row["op"] == "update" and f"{sequence}0" not in updates:
            parts = [("delete", 0, row["before"]), ("insert", 1, row["after"])]
        time = source["commit_timestamp"] or row["timestamp"]
        for op, part, image in parts:
            own = (op, f"{sequence}{part}", time, row["gtid"], source["thread_id"], source["statement"])
            found.append({**image, **dict(zip(OWN, (*own, row["file"], row["pos"]), strict=True))})
    return found


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: f"{folder.parent.name}-{folder.name}")
def test_changes_have_what_the_rows_have(folder: Path) -> None:
    """Values, source and order of each change, however the log is cut."""
    seen, options = 0, {"zeroDates": "null", "schemaChanges": "ignore", "statementChanges": "skip"}
    for log in sorted(folder.glob("*.0*")):
        for name in {f"{row['schema']}.{row['table']}" for row in records_of(log, statementChanges="skip")}:
            rows = rows_of(log, table=name, **options)
            for cut in ({}, {"maxPartitionBytes": "900"}):
                found = changes_of(log, table=name, **options, **cut)
                updates = {row["_sequence"] for row in found if row["_op"] == "update"}

                assert found == expected(log, name, rows, updates), name
                assert [row["_sequence"] for row in found] == sorted({row["_sequence"] for row in found})
            seen += len(rows)
    assert seen


def write(folder: Path, **variables: Any) -> Path:
    """Transactions of random changes of few rows, with several statements and several rows in a statement."""
    folder.mkdir()
    rng = random.Random(7)
    held: dict[int, int] = {}
    ticks = iter(range(1_700_000_000_123_456, 1 << 62, 1_234_567))
    settings = ServerVariables(binlog_row_metadata="FULL", max_binlog_size=4096, **variables)
    with (
        BinlogWriter(folder / "binlog", variables=settings, clock=lambda: next(ticks)) as log,
        log.session("shop") as session,
    ):
        for number in range(60):
            session.begin()
            for _ in range(rng.randint(1, 5)):
                session.execute(Statement("change", statement(rng, held, number)))
            session.commit()
    return folder


def statement(rng: random.Random, held: dict[int, int], number: int) -> list[Any]:
    """Draw changes of some rows; keys change too."""
    found: list[Any] = []
    for key in rng.sample(range(6), rng.randint(1, 4)):
        if key not in held:
            held[key] = number
            found.append(Insert(ORDERS, [(key, number)]))
        elif rng.random() < 0.3:
            found.append(Delete(ORDERS, [(key, held.pop(key))]))
        else:
            before = (key, held.pop(key))
            moved = rng.choice([one for one in range(6) if one not in held])
            held[moved] = number
            found.append(Update(ORDERS, [(before, (moved, number))]))
    return found


@pytest.mark.parametrize("compression", [False, True])
def test_last_record_of_each_key_is_its_row(tmp_path: Path, compression: bool) -> None:
    """After a shuffle, with changes of keys; all changes of a compressed transaction have one position."""
    folder = write(tmp_path / "log", binlog_transaction_compression=compression)
    found = changes_of(folder, maxPartitionBytes="1000")
    shuffled = random.Random(1).sample(found, len(found))
    last = {row["id"]: row for row in sorted(shuffled, key=lambda row: str(row["_sequence"]))}

    state: dict[int, int] = {}
    for row in rows_of(folder):
        if row["before"] is not None:
            assert state.pop(row["before"]["id"]) == row["before"]["v"]
        if row["after"] is not None:
            state[row["after"]["id"]] = row["after"]["v"]
    assert {key: row["v"] for key, row in last.items() if row["_op"] != "delete"} == state
    assert {row["_op"] for row in found} == {"insert", "update", "delete"}
    assert len({row["_file"] for row in found}) > 1
    assert all(row["_commit_timestamp"].microsecond and row["_thread_id"] for row in found)


def test_update_is_one_record_unless_it_changes_the_key(tmp_path: Path) -> None:
    """Two where the key is unknown, which is right for each column that may be one; statements as the log has them."""
    keyless = replace(ORDERS, name="keyless", primary_key=())
    variables = ServerVariables(binlog_row_metadata="FULL", binlog_rows_query_log_events=True)
    with BinlogWriter(tmp_path / "binlog", variables=variables) as log, log.session("shop") as session:
        for table in (ORDERS, keyless):
            updates = Update(table, [((1, 1), (1, 2)), ((2, 2), (3, 2))])
            session.execute(Statement(f"UPDATE {table.name}", [updates]))
    of_key = [(row["_op"], row["id"], row["_statement"]) for row in changes_of(tmp_path)]
    of_none = [(row["_op"], row["id"]) for row in changes_of(tmp_path, table="shop.keyless")]

    sql = "UPDATE orders"
    assert of_key == [("update", 1, sql), ("delete", 2, sql), ("insert", 3, sql)]
    assert of_none == [("delete", 1), ("insert", 1), ("delete", 2), ("insert", 3)]


def test_long_statements_are_in_batches_of_few_rows(tmp_path: Path) -> None:
    """Each row of a statement has its text: a gigabyte in all, of which a batch has megabytes."""
    variables = ServerVariables(binlog_row_metadata="FULL", binlog_rows_query_log_events=True)
    with BinlogWriter(tmp_path / "binlog", variables=variables) as log, log.session("shop") as session:
        rows = [(number, number) for number in range(1000)]
        session.execute(Statement("INSERT " + "1" * (1 << 20), [Insert(ORDERS, rows)]))
    seen, reader = 0, reader_of(tmp_path)
    for partition in reader.partitions():
        for batch in reader.read(partition):
            assert batch.nbytes < 8 << 20
            seen += batch.num_rows
            if seen > 40:
                return


def reader_of(path: Path) -> Any:
    """Return a reader of the view."""
    from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415 - there may be no Spark

    from pyspark_binlogio.options import BinlogReadOptions  # noqa: PLC0415
    from pyspark_binlogio.read import view_columns  # noqa: PLC0415
    from pyspark_binlogio.source import BinlogDataSource  # noqa: PLC0415

    options = {"path": str(path), "table": "shop.orders", "view": "changes"}
    columns = view_columns(BinlogReadOptions.parse(options))
    return BinlogDataSource(options).reader(from_arrow_schema(pa.schema(list(columns.items()))))


def test_image_without_all_columns_is_refused() -> None:
    """Its other values are unknown; with DROPMALFORMED and PERMISSIVE as other damage. Deletes need their keys only."""
    for folder in (MYSQL / "rowimage_minimal", MARIADB118 / "rowimage_full_nodup"):
        log = min(folder.glob("*.0*"))
        refused = 0
        for name in {f"{row['schema']}.{row['table']}" for row in records_of(log)}:
            every = (1 << len(rows_of(log, table=name, zeroDates="null")[0]["after"] or ())) - 1
            partial = [
                row["pos"]
                for row in rows_of(log, table=name, zeroDates="null")
                if row["after"] is not None and int.from_bytes(row["after_present"], "little") != every
            ]
            if not partial or not every:
                continue
            refused += 1
            with pytest.raises(BinlogFormatError, match="expected binlog_row_image=FULL, found no value of") as failure:
                changes_of(log, table=name, zeroDates="null")
            assert failure.value.offset == partial[0]
            damage = changes_of(log, table=name, zeroDates="null", mode="PERMISSIVE")
            assert next(row["_pos"] for row in damage if row["_corrupt_record"]) == partial[0]
        assert refused


def without_gtid_events(path: Path) -> bytes:
    """Return the log as an older server writes it: groups begin with BEGIN."""
    return encoded(path, lambda event: None if type(event).__name__.endswith("GtidEvent") else event)


def as_relay_log(path: Path) -> bytes:
    """Return the log with the flag that a replica's logs have."""

    def flagged(event: Any) -> Any:
        if event.header.offset != len(BINLOG_MAGIC):
            return event
        return replace(event, header=replace(event.header, flags=event.header.flags | HeaderFlag.RELAY_LOG))

    return encoded(path, flagged)


def encoded(path: Path, change: Any) -> bytes:
    data, encoder = BINLOG_MAGIC, Encoder()
    with BinlogReader(find_logs(path), ReadOptions(open_payloads=False)) as reader:
        for event in reader:
            changed = change(event)
            if changed is None:
                continue
            raw = encoder.encode(changed)
            end = len(data) + int.from_bytes(raw[EVENT_SIZE_BYTES], "little")
            data += encoder.encode(replace(changed, header=replace(changed.header, log_pos=end)))
    return data


@pytest.mark.parametrize("kind", ["without GTID events", "relay", "gzip"])
def test_changes_of_other_logs(tmp_path: Path, kind: str) -> None:
    """Logs without GTID events, or that cannot be read at an offset, have the same records."""
    plain = sorted(write(tmp_path / "log").glob("binlog.0*"))[1]
    log = tmp_path / plain.name
    if kind == "gzip":
        log = tmp_path / f"{plain.name}.gz"
        log.write_bytes(gzip.compress(plain.read_bytes()))
    else:
        log.write_bytes(without_gtid_events(plain) if kind.startswith("without") else as_relay_log(plain))
    found, whole = changes_of(log), changes_of(plain)

    assert [(row["_op"], row["id"], row["v"]) for row in found] == [(row["_op"], row["id"], row["v"]) for row in whole]
    assert [row["_sequence"] for row in found] == sorted(row["_sequence"] for row in found)
    if kind == "without GTID events":
        assert {row["_commit_timestamp"].microsecond for row in found} == {0}
    else:
        assert [row["_commit_timestamp"] for row in found] == [row["_commit_timestamp"] for row in whole]


def test_table_with_a_column_of_the_view_is_refused(tmp_path: Path) -> None:
    """One of the two would be lost."""
    table = TableDefinition("shop", "orders", (ColumnDefinition("id", "int"), ColumnDefinition("_pos", "int")))
    with (
        BinlogWriter(tmp_path / "binlog", variables=ServerVariables(binlog_row_metadata="FULL")) as log,
        log.session("shop") as session,
    ):
        session.execute(Statement("insert", [Insert(table, [(1, 2)])]))
    with pytest.raises(BinlogOptionError, match="the table has a column _pos"):
        changes_of(tmp_path)
    assert [row["after"] for row in rows_of(tmp_path)] == [{"id": 1, "_pos": 2}]


def test_filters_select_as_spark_does(tmp_path: Path) -> None:
    """Of files, transactions and positions; records of the rest are those of the whole log."""
    from pyspark.sql.datasource import EqualTo, LessThan  # noqa: PLC0415 - there may be no Spark

    folder = write(tmp_path / "log", binlog_transaction_compression=True)
    every = changes_of(folder)
    middle = every[len(every) // 2]
    for name in ("_gtid", "_file"):
        found = records_of(folder, table="shop.orders", view="changes", filters=[EqualTo((name,), middle[name])])
        assert found == [row for row in every if row[name] == middle[name]]
    found = records_of(folder, table="shop.orders", view="changes", filters=[LessThan(("_pos",), middle["_pos"])])
    assert found == [row for row in every if row["_pos"] < middle["_pos"]]


@pytest.mark.spark
def test_merge_by_the_last_record_in_spark(spark: SparkSession, tmp_path: Path) -> None:
    """The query of the documentation, over a batch and over batches of a stream."""
    folder = write(tmp_path / "log", binlog_transaction_compression=True)
    options = {"view": "changes", "table": "shop.orders", "maxPartitionBytes": "2k"}
    spark.read.format("binlog").options(**options).load(str(folder)).createOrReplaceTempView("changes")
    text = (ROOT / "docs" / "spark.md").read_text(encoding="utf-8")
    query = text.split('query = """\n')[1].split('"""')[0]
    state = {row.id: row.v for row in spark.sql(query).collect()}
    expected_state: dict[int, int] = {}
    for row in rows_of(folder):
        if row["before"] is not None:
            expected_state.pop(row["before"]["id"])
        if row["after"] is not None:
            expected_state[row["after"]["id"]] = row["after"]["v"]
    assert state == expected_state

    limit = {"maxFilesPerTrigger": "1"} if HAS_READ_LIMITS else {}
    stream = spark.readStream.format("binlog").options(**options, **limit).load(str(folder))
    writer = stream.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
    writer.trigger(availableNow=True).start(str(tmp_path / "changes")).awaitTermination()
    spark.read.parquet(str(tmp_path / "changes")).createOrReplaceTempView("changes")
    assert {row.id: row.v for row in spark.sql(query).collect()} == expected_state
