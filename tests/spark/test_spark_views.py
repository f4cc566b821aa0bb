"""The views of `format("binlog")`, on real files, against the reader, and results of the servers."""

from __future__ import annotations

import json
import struct
from collections import Counter
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pytest

import binlogio
from binlogio.columnar.event_records import EVENT_SCHEMA
from corpus import MARIADB, MYSQL
from pyspark_binlogio import register
from pyspark_binlogio.options import BinlogOptionError, BinlogReadOptions
from pyspark_binlogio.source import BinlogDataSource
from pyspark_binlogio.views import ROW_COLUMNS
from spark_frames import GTID_ON, MARIADB_GTID, TYPES_INT, changes, count, load, records_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest.importorskip("pyspark.sql.datasource")

READ_BACK: Final = [
    TYPES_INT,
    GTID_ON / "binlog.000001",
    MYSQL / "compressed" / "binlog.000001",
    MYSQL / "rowimage_minimal" / "binlog.000001",
    MYSQL / "partial_json" / "binlog.000001",
    MARIADB_GTID / "binlog.000001",
    MARIADB / "types" / "binlog.000001",
    MARIADB / "compressed" / "binlog.000001",
]
AURORA_PADDING: Final = 100
MANY_IMAGES: Final = 500
DECIMAL_DIGITS: Final = 38
IGNORABLE: Final = 0x80


def parsed(text: str | None) -> Any:
    return None if text is None else json.loads(text)


def records(*paths: Path, **options: str) -> list[SimpleNamespace]:
    """Return the records of a read, with their columns as attributes, as Spark's rows have them."""
    return [SimpleNamespace(**row) for row in records_of(*paths, **options)]


@pytest.mark.parametrize("table", [None, "corpus.t_int"])
def test_read_without_images_does_not_decode_them(table: str | None) -> None:
    """A schema without images: the same other columns, also of a log with a value that cannot be decoded."""
    from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415 - there may be no Spark

    options = {"path": str(TYPES_INT), **({} if table is None else {"table": table})}
    names = ["pos", "row", "op", "table", "after_present"]
    kinds = [ROW_COLUMNS[name] for name in names]
    schema = from_arrow_schema(pa.schema(list(zip(names, kinds, strict=True))))
    reader: Any = BinlogDataSource(options).reader(schema)
    found = [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]
    more = {} if table is None else {"table": table}
    expected = [{name: row[name] for name in names} for row in records_of(TYPES_INT, **more)]

    assert sorted(found, key=str) == sorted(expected, key=str)
    zero_dates = MYSQL / "types_temporal" / "binlog.000001"
    reader = BinlogDataSource({"path": str(zero_dates), "table": "corpus.t_datetime"}).reader(schema)
    assert sum(batch.num_rows for part in reader.partitions() for batch in reader.read(part))


@pytest.mark.spark
def test_format_is_found_without_register_and_register_is_harmless_then(spark: SparkSession) -> None:
    """A session without registered sources finds the package by its prefix.

    The fallback does not collide with that.
    """
    fresh = spark.newSession()
    found = count(fresh, TYPES_INT)
    register(fresh)

    assert found == count(fresh, TYPES_INT) == 46


@pytest.mark.spark
def test_rows_are_those_of_the_reader(spark: SparkSession) -> None:
    """Files of both servers, payloads, minimal images, partial JSON: the same changes in the same order."""
    frame = load(spark, *READ_BACK, followDdl="false", statementChanges="skip")
    found: dict[str, list[Any]] = {str(path): [] for path in READ_BACK}
    for row in frame.selectExpr("*", "CAST(timestamp AS long) AS seconds").collect():
        found[row.file].append(
            (
                row.file,
                row.pos,
                row.seconds,
                row.server_id,
                f"{row.schema}.{row.table}",
                parsed(row.before),
                parsed(row.after),
            )
        )

    assert frame.columns == list(ROW_COLUMNS)
    for path in READ_BACK:
        assert found[str(path)] == changes(path), path


def test_rows_fold_into_the_tables_that_the_server_had() -> None:
    """Deletes and updates remove exactly what is there; what is left at the end is expected.json."""
    tables: dict[str, Counter[str]] = {}
    for row in sorted(records(TYPES_INT), key=lambda one: (one.pos, one.row)):
        table = tables.setdefault(f"{row.schema}.{row.table}", Counter())
        for text, sign in ((row.before, -1), (row.after, 1)):
            if text is not None:
                key = json.dumps(list(json.loads(text).values()))
                table[key] += sign
                assert table[key] >= 0, row
    expected = json.loads((TYPES_INT.parent / "expected.json").read_text())["tables"]

    assert {name: sorted((+table).elements()) for name, table in tables.items() if +table} == {
        name: sorted(json.dumps(row) for row in table["rows"]) for name, table in expected.items() if table["rows"]
    }


def test_op_tells_which_images_and_bitmaps_there_are() -> None:
    """An insert has no before, a delete no after, an update both; a bitmap is there exactly where its image is."""
    rows = records(TYPES_INT)

    assert {
        (row.op, *(value is not None for value in (row.before, row.before_present, row.after, row.after_present)))
        for row in rows
    } == {
        ("insert", False, False, True, True),
        ("update", True, True, True, True),
        ("delete", True, True, False, False),
    }


def test_columns_that_are_absent_are_left_out_and_not_null() -> None:
    """With minimal images the JSON has as many columns as the bitmap has bits."""
    rows = [row for row in records(MYSQL / "rowimage_minimal") if row.op == "update"]

    assert rows
    for row in rows:
        for text, present in ((row.before, row.before_present), (row.after, row.after_present)):
            assert len(json.loads(text)) == int.from_bytes(present, "little").bit_count()
    assert len({len(json.loads(row.after)) for row in rows}) > 1


def test_row_numbers_count_the_changes_at_a_position() -> None:
    """(pos, row) is unique and without gaps over all events of a payload, and independent of the selected tables."""
    log = MYSQL / "compressed" / "binlog.000001"
    every = [(row.pos, row.row, row.table) for row in records(log, statementChanges="skip")]
    some = [(row.pos, row.row, row.table) for row in records(log, tables="corpus.b")]
    by_position: dict[int, list[int]] = {}
    for pos, number, _ in every:
        by_position.setdefault(pos, []).append(number)

    assert all(numbers == list(range(len(numbers))) for numbers in by_position.values())
    assert some == [row for row in every if row[2] == "b"]
    assert 0 < len(some) < len(every)


@pytest.mark.spark
@pytest.mark.parametrize("folder", [GTID_ON, MARIADB_GTID], ids=["mysql", "mariadb"])
def test_events_are_where_the_server_lists_them_and_in_its_transactions(spark: SparkSession, folder: Path) -> None:
    """SHOW BINLOG EVENTS gives position, end, and the GTID that each group begins with.

    Tagged ones and MariaDB's included.
    """
    listed = json.loads((folder / "events.json").read_text())
    logs = sorted(folder.glob("binlog.0*"))
    found = load(spark, *logs, view="events").collect()
    gtids = {
        (name, one["pos"]): one["info"].split("GTID_NEXT= '")[-1].split("GTID ")[-1].split("'")[0].split()[0]
        for name, events in listed.items()
        for one in events
        if one["type"] in ("Gtid", "Gtid_tagged") and one["info"]
    }

    assert [(row.file, row.pos, row.end_pos, row.server_id) for row in found] == [
        (str(log), one["pos"], one["end_pos"], one["server_id"]) for log in logs for one in listed[log.name]
    ]
    starts = {
        (log.name, row.pos): row.gtid
        for log in logs
        for row in found
        if row.file == str(log) and row.type.endswith(("GTID_LOG_EVENT", "GTID_TAGGED_LOG_EVENT", "GTID_EVENT"))
    }
    assert gtids
    assert {at: gtid for at, gtid in starts.items() if at in gtids} == gtids


def test_rows_have_the_gtid_and_the_clock_of_their_transaction() -> None:
    """The group of a row is the last one that began before it in its file."""
    group = ("gtid", "last_committed", "sequence_number")
    begun = [
        row
        for row in records(GTID_ON / "binlog.000001", view="events")
        if row.type in ("GTID_LOG_EVENT", "GTID_TAGGED_LOG_EVENT")
    ]
    rows = records(GTID_ON / "binlog.000001")

    assert any(row.gtid.count(":") == 2 for row in begun), "the fixture has tagged GTIDs"
    for row in rows:
        last = max((one for one in begun if one.pos < row.pos), key=lambda one: one.pos)
        assert [getattr(row, name) for name in group] == [getattr(last, name) for name in group]
        assert None not in [getattr(row, name) for name in group]


def test_gtid_is_null_where_it_is_anonymous() -> None:
    """gtid_mode=OFF: no GTID, but the logical clock; MariaDB: no logical clock, but the GTID."""
    anonymous = records(MYSQL / "gtid_off")[0]
    mariadb = records(MARIADB_GTID / "binlog.000001")[0]

    assert (anonymous.gtid, anonymous.sequence_number is None) == (None, False)
    assert (mariadb.gtid.count("-"), mariadb.last_committed, mariadb.sequence_number) == (2, None, None)


def test_file_events_between_transactions_have_no_gtid() -> None:
    """Events that open and close a file belong to no transaction."""
    rows = records(GTID_ON / "binlog.000001", view="events")
    of_file = {"FORMAT_DESCRIPTION_EVENT", "PREVIOUS_GTIDS_LOG_EVENT", "ROTATE_EVENT", "STOP_EVENT"}

    assert {row.gtid for row in rows if row.type in of_file} == {None}
    assert None not in {row.gtid for row in rows if row.type not in of_file}


def test_events_inside_a_payload_follow_it() -> None:
    """They have its position, its end and its GTID, and numbers of their own."""
    rows = records(MYSQL / "compressed" / "binlog.000001", view="events")
    payload = next(number for number, row in enumerate(rows) if row.type == "TRANSACTION_PAYLOAD_EVENT")
    inner = [row for row in rows[payload + 1 :] if row.pos == rows[payload].pos]

    assert list(vars(rows[0])) == EVENT_SCHEMA.names
    assert len(inner) > 2
    assert [row.inner for row in inner] == list(range(len(inner)))
    assert {(row.end_pos, row.gtid) for row in inner} == {(rows[payload].end_pos, rows[payload].gtid)}
    assert rows[payload].inner is None
    assert inner[-1].type == "XID_EVENT"
    assert inner[-1].xid > 0


def test_events_have_statements_tables_and_a_body() -> None:
    """Statements are text, rows events have the table of their table map, the body is JSON with the server's names."""
    rows = records(MYSQL / "metadata_full", view="events")
    query = next(row for row in rows if row.type == "QUERY_EVENT" and "CREATE TABLE" in row.sql)
    writes = [row for row in rows if row.type == "WRITE_ROWS_EVENT"]
    table_map = next(row for row in rows if row.type == "TABLE_MAP_EVENT" and row.table == "m1")

    assert query.schema == "corpus"
    assert "SQL_MODE" in json.loads(query.body)["status_vars"]
    assert "näme" in json.loads(table_map.body)["optional_metadata"]["COLUMN_NAME"]
    assert {(row.schema, row.table) for row in writes} >= {("corpus", "m1"), ("dätabase-2", "t")}
    assert all(json.loads(row.body)["present"] for row in writes)


def test_unknown_events_are_records_that_can_be_counted(tmp_path: Path) -> None:
    """An unknown type is a record with its number and its bytes, and the view `rows` continues after it."""
    log = MYSQL / "checksum_none" / "binlog.000001"
    data = log.read_bytes()
    at = 4 + struct.unpack_from("<I", data, 4 + 9)[0]
    body = b"aurora"
    header = struct.pack("<IBIIIH", 1, AURORA_PADDING, 1, 19 + len(body), 0, IGNORABLE)
    (tmp_path / "binlog.000001").write_bytes(data[:at] + header + body + data[at:])
    unknown = [row for row in records(tmp_path, view="events") if row.type_code == 100]

    assert [(row.type, row.pos, row.flags, json.loads(row.body)) for row in unknown] == [
        ("type 100", at, IGNORABLE, {"body": body.hex()})
    ]
    assert len(records(tmp_path)) == len(records(log))


@pytest.mark.spark
def test_parse_json_makes_variants_with_the_values_of_the_text(spark: SparkSession) -> None:
    """Of all logs: decimals, large integers, escapes, nested documents; no value is rounded more than by a double."""
    logs = [str(log) for vendor in (MYSQL, MARIADB) for log in vendor.glob("*/binlog.000001")]
    logs = [log for log in logs if not {"encrypted", "format_statement"} & set(Path(log).parts)]
    options = {"statementChanges": "skip", "ignoreMissingLogs": "true", "zeroDates": "text"}
    reader = spark.read.format("binlog").options(**options)
    frame = reader.load(logs).selectExpr("after", "parse_json(after) AS variant").where("after IS NOT NULL")
    found = [(row.after, row.variant) for row in frame.collect()]

    assert len({text for text, _ in found}) > MANY_IMAGES
    for text, variant in found:
        assert variant.toPython() == json.loads(text, parse_float=_number, parse_int=_whole_number)
    with pytest.raises(BinlogOptionError, match=r"use parse_json\(before\) and parse_json\(after\)"):
        BinlogReadOptions.parse({"imageType": "variant"})


def _whole_number(digits: str) -> int | float:
    """Return a whole number of at most 38 digits, which a VARIANT keeps, or a double."""
    return int(digits) if len(digits.lstrip("-")) <= DECIMAL_DIGITS else float(digits)


def _number(digits: str) -> Decimal | float:
    """Return a decimal of at most 38 digits, which a VARIANT keeps, or a double."""
    _, found, exponent = Decimal(digits).as_tuple()
    fits = "e" not in digits.lower() and max(len(found), -int(exponent)) <= DECIMAL_DIGITS
    return Decimal(digits) if fits else float(digits)


@pytest.mark.spark
def test_outcome_marks_what_was_rolled_back(spark: SparkSession) -> None:
    """In view rows, typed and as JSON, and in view changes; filters of Spark select by it."""
    log = MARIADB / "format_row" / "binlog.000001"
    table = binlogio.read_rows(log, table="corpus.ti", source_columns=["xid", "outcome"]).to_table()
    expected = Counter(zip(table["xid"].to_pylist(), table["outcome"].to_pylist(), strict=True))
    options = {"sourceColumns": "outcome,xid", "table": "corpus.ti", "maxPartitionBytes": "2k"}
    rows = load(spark, log, **options)
    changes = load(spark, log, **options, view="changes")
    texts = load(spark, log, sourceColumns="outcome,xid").where("table = 'ti'")

    assert {outcome for _, outcome in expected} == {"commit", "rollback to savepoint", "prepare"}
    assert Counter(tuple(row) for row in rows.select("xid", "outcome").collect()) == expected
    assert Counter(tuple(row) for row in texts.select("xid", "outcome").collect()) == expected
    assert rows.where("outcome = 'prepare'").count() == changes.where("_outcome = 'prepare'").count()
    assert {tuple(row) for row in changes.select("_xid", "_outcome").collect()} == set(expected)
    assert "_outcome" not in load(spark, log, table="corpus.ti", view="changes").columns
