"""`binlogio write --from`: rows of data files, their types, change records, and rows that do not fit."""

from __future__ import annotations

import json
import random
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

import binlogio
from binlogio.events.base import event_name
from binlogio.events.query import QueryEvent
from binlogio.events.table_map import TableMapEvent
from binlogio.schema import from_table_map, load_definitions
from binlogio_cli.main import cli
from binlogio_cli.quantities import counted
from corpus import MARIADB, MARIADB118, MYSQL

UTC: Final = timezone.utc
IMAGES: Final = ["op", "before", "after", "before_present", "after_present"]
DDL: Final = """-- a dump
/*!40101 SET @saved = @@character_set_client */;
CREATE DATABASE shop;
USE shop;;
CREATE TABLE t (id INT PRIMARY KEY, e ENUM('a','b'), s SET('x','y'), d DECIMAL(6,2) NOT NULL, j JSON, dt DATETIME(3),
  ts TIMESTAMP, tm TIME(1), da DATE, b VARBINARY(4), bi BIT(4), v VARCHAR(5), y YEAR, g POINT, f FLOAT, db DOUBLE,
  u BIGINT UNSIGNED, vec VECTOR(2))
/*!50100 PARTITION BY HASH (id) */;
"""
CSV: Final = """id,e,s,d,j,dt,ts,tm,da,b,bi,v,y,g,f,db,u,vec
1,a,"x,y",1.50,"{""k"": [1]}",2026-01-02 03:04:05.678,2026-01-02 03:04:05,-10:11:12.5,2026-02-28,0x0102,5,abc,2026,\
POINT(1 2),1.5,2.25,18446744073709551615,0x0000803f00000040
2,,NULL,2,,,,,,,,,,,,,,
3,b,x,3.1,,,,,,0x61,,"",1999,,,,0,
"""
JSON_LINES: Final = """{"id": 1, "e": "a", "s": "x,y", "d": "1.50", "j": {"k": [1]}, "dt": "2026-01-02 03:04:05.678",\
 "ts": "2026-01-02 03:04:05", "tm": "-10:11:12.5", "da": "2026-02-28", "b": "0x0102", "bi": 5, "v": "abc", "y": 2026,\
 "g": "POINT(1 2)", "f": 1.5, "db": 2.25, "u": 18446744073709551615, "vec": [1, 2]}

{"id": 2, "d": 2}
{"id": 3, "e": "b", "s": ["x"], "d": 3.1, "b": "0x61", "v": "", "y": 1999, "u": 0}
"""
TEXTS: Final = pa_csv.ConvertOptions(
    column_types={name: pa.string() for name in CSV.split("\n", 1)[0].split(",")},
    null_values=["", "NULL"],
    strings_can_be_null=True,
    quoted_strings_can_be_null=False,
)
FIRST: Final = {
    "id": 1,
    "e": "a",
    "s": "x,y",
    "d": Decimal("1.50"),
    "j": '{"k": [1]}',
    "dt": datetime(2026, 1, 2, 3, 4, 5, 678000),
    "ts": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
    "tm": -timedelta(hours=10, minutes=11, seconds=12.5),
    "da": date(2026, 2, 28),
    "b": b"\x01\x02",
    "bi": 5,
    "v": "abc",
    "y": 2026,
    "g": {"srid": 0, "wkb": bytes.fromhex("0101000000000000000000f03f0000000000000040")},
    "f": 1.5,
    "db": 2.25,
    "u": (1 << 64) - 1,
    "vec": [1.0, 2.0],
}
NONE: Final = dict.fromkeys(FIRST)
ROWS: Final = [
    FIRST,
    {**NONE, "id": 2, "d": Decimal("2.00")},
    {**NONE, "id": 3, "e": "b", "s": "x", "d": Decimal("3.10"), "b": b"a", "v": "", "y": 1999, "u": 0},
]


def write(folder: Path, name: str, content: str | bytes | pa.Table, *options: str, ddl: str | None = None) -> Result:
    """Write a data file into `folder`, and its rows into logs in `folder/logs`."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / name
    if isinstance(content, pa.Table):
        pq.write_table(content, file, row_group_size=700)
    else:
        file.write_bytes(content.encode() if isinstance(content, str) else content)
    if ddl is not None:
        (folder / "schema.sql").write_text(ddl, encoding="utf-8")
        options = ("--ddl", str(folder / "schema.sql"), *options)
    arguments = ["write", "--from", str(file), "--table", "shop.t", "--out", str(folder / "logs"), *options]
    return CliRunner().invoke(cli, arguments)


def records(folder: Path, table: str = "shop.t") -> pa.Table:
    return pa.Table.from_batches(list(binlogio.read_rows(folder / "logs", table=table)))


def rows(folder: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = records(folder)["after"].to_pylist()
    return found


def exported(folder: Path, log: Path, kind: str, *options: str, table: str = "shop.t") -> bytes:
    """Return the file of change records that `binlogio export` makes of a table."""
    arguments = ["export", "--to", str(folder), "--format", kind, "--table", table, *options, str(log)]
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 0, result.stderr
    return (folder / f"{table}.{kind}").read_bytes()


def transactions(folder: Path) -> list[int]:
    """Return the number of rows of each transaction."""
    positions = records(folder)["gtid"].to_pylist()
    return [positions.count(gtid) for gtid in dict.fromkeys(positions)]


# -------------------------------------------------------------------------------------------------------- formats


@pytest.mark.parametrize(("name", "content"), [("t.csv", CSV), ("t.jsonl", JSON_LINES)])
def test_text_formats_are_read_by_the_types_of_the_ddl(tmp_path: Path, name: str, content: str) -> None:
    result = write(tmp_path, name, content, ddl=DDL)

    assert result.exit_code == 0, result.stderr
    assert rows(tmp_path) == ROWS


def test_the_ddl_comes_first_in_the_log(tmp_path: Path) -> None:
    """USE chooses the schema; SET and comments are left out, comments that a server executes are kept."""
    assert write(tmp_path, "t.csv", CSV, ddl=DDL).exit_code == 0
    with binlogio.open(tmp_path / "logs") as reader:
        queries = [event for event in reader if isinstance(event, QueryEvent)]

    assert [query.sql.decode().partition(" (")[0] for query in queries] == [
        "CREATE DATABASE shop",
        "CREATE TABLE t",
        "BEGIN",
    ]
    assert queries[1].schema == "shop"
    assert queries[1].sql.decode().endswith("/*!50100 PARTITION BY HASH (id) */")


def test_names_of_tables_may_contain_dots(tmp_path: Path) -> None:
    """They are quoted as in the options that select tables."""
    assert write(tmp_path, "t.csv", "id\n1\n", "--table", "`a.b`.`c`", "--primary-key", "id").exit_code == 0

    (name,) = {(row["schema"], row["table"]) for row in records(tmp_path, "`a.b`.c").to_pylist()}
    assert name == ("a.b", "c")


def test_mariadb_gets_the_same_rows(tmp_path: Path) -> None:
    """Its JSON is text."""
    ddl = DDL.replace(", vec VECTOR(2)", "")
    lines = JSON_LINES.replace(', "vec": [1, 2]', "")
    version = "server_version=10.11.6-MariaDB"
    result = write(tmp_path, "t.jsonl", lines, "--set", version, ddl=ddl)

    assert result.exit_code == 0, result.stderr
    assert rows(tmp_path) == [{name: row[name] for name in row if name != "vec"} for row in ROWS]


@pytest.mark.parametrize("version", ["5.1.73", "5.5.62", "5.7.44", "8.0.36", "8.4.0", "11.4.2-MariaDB"])
@pytest.mark.parametrize(("name", "content"), [("t.csv", CSV), ("t.jsonl", JSON_LINES)])
def test_every_server_version_gets_the_same_rows(tmp_path: Path, name: str, content: str, version: str) -> None:
    """Rows events of version 1, old temporal types and MariaDB's; JSON and VECTOR are newer than some of them."""
    columns = ["id", "e", "s", "d", "ts", "da", "b", "bi", "v", "y", "g", "f", "db", "u"]
    ddl = "CREATE TABLE shop.t (id INT PRIMARY KEY, e ENUM('a','b'), s SET('x','y'), d DECIMAL(6,2) NOT NULL,"
    ddl += " ts TIMESTAMP NULL, da DATE, b VARBINARY(4), bi BIT(4), v VARCHAR(5) CHARACTER SET utf8, y YEAR, g POINT,"
    ddl += " f FLOAT, db DOUBLE, u BIGINT UNSIGNED)"
    if name == "t.jsonl":
        given = [json.loads(line) for line in content.splitlines() if line]
        content = "".join(f"{json.dumps({key: row[key] for key in columns if key in row})}\n" for row in given)
    else:  # with quotes, where they tell an empty text from NULL
        found = pa_csv.read_csv(pa.py_buffer(content.encode()), convert_options=TEXTS).select(columns)
        out = pa.BufferOutputStream()
        pa_csv.write_csv(found, out)
        content = out.getvalue().to_pybytes().decode()
    result = write(tmp_path, name, content, "--set", f"server_version={version}", ddl=ddl)

    assert result.exit_code == 0, result.stderr
    assert rows(tmp_path) == [{key: row[key] for key in columns} for row in ROWS]


TYPED: Final = pa.table(
    {
        "k": pa.array(["a", "b"], pa.string()),
        "i8": pa.array([-128, None], pa.int8()),
        "u16": pa.array([65535, 0], pa.uint16()),
        "u64": pa.array([(1 << 64) - 1, 1], pa.uint64()),
        "yes": pa.array([True, False]),
        "f4": pa.array([1.5, None], pa.float32()),
        "f8": pa.array([1e300, -0.5]),
        "dec": pa.array([Decimal("12345678901234567890.123456"), None], pa.decimal128(26, 6)),
        "day": pa.array([date(2026, 1, 2), None]),
        "ms": pa.array([datetime(2026, 1, 2, 3, 4, 5, 678000), None], pa.timestamp("ms")),
        "ns": pa.array([datetime(2026, 1, 2, 3, 4, 5, 678912), None], pa.timestamp("ns")),
        "utc": pa.array([datetime(2026, 1, 2, 3, 4, 5, 678912, UTC), None], pa.timestamp("us", "UTC")),
        "clock": pa.array([time(23, 59, 59, 5), None], pa.time64("us")),
        "text": pa.array(["naïve 日本語 🙂", ""]),
        "dict": pa.array(["red", None]).dictionary_encode(),
        "raw": pa.array([b"\x00\xff", b""]),
        "sha": pa.array([bytes(range(20)), None], pa.binary(20)),
        "doc": pa.array([{"a": 1, "b": ["x"]}, None], pa.struct([("a", pa.int64()), ("b", pa.list_(pa.string()))])),
        "none": pa.nulls(2),
    }
)


def test_without_ddl_the_types_follow_from_the_file(tmp_path: Path) -> None:
    result = write(tmp_path, "t.parquet", TYPED, "--primary-key", "k")
    expected = TYPED.to_pylist()
    expected[0]["doc"] = '{"a": 1, "b": ["x"]}'
    for row in expected:
        row["yes"] = int(row["yes"])
        row["ns"] = row["ns"] and row["ns"].to_pydatetime()
        row["clock"] = row["clock"] and timedelta(hours=23, minutes=59, seconds=59, microseconds=5)

    assert result.exit_code == 0, result.stderr
    assert rows(tmp_path) == expected


def test_the_definition_of_a_file(tmp_path: Path) -> None:
    """It is in the table map."""
    assert write(tmp_path, "t.parquet", TYPED, "--primary-key", "k").exit_code == 0
    with binlogio.open(tmp_path / "logs") as reader:
        (table,) = [from_table_map(event) for event in reader if isinstance(event, TableMapEvent)]

    assert table.primary_key == ("k",)
    assert {column.name: (column.type, column.nullable) for column in table.columns} == {
        "k": ("varchar(255)", False),
        "i8": ("tinyint", True),
        "u16": ("smallint unsigned", True),
        "u64": ("bigint unsigned", True),
        "yes": ("tinyint", True),
        "f4": ("float", True),
        "f8": ("double", True),
        "dec": ("decimal(26,6)", True),
        "day": ("date", True),
        "ms": ("datetime(3)", True),
        "ns": ("datetime(6)", True),
        "utc": ("timestamp(6)", True),
        "clock": ("time(6)", True),
        "text": ("longtext", True),
        "dict": ("longtext", True),
        "raw": ("longblob", True),
        "sha": ("binary(20)", True),
        "doc": ("json", True),
        "none": ("longtext", True),
    }


@pytest.mark.parametrize("writer", [pa.ipc.new_file, pa.ipc.new_stream])
def test_arrow_files_and_streams(tmp_path: Path, writer: Any) -> None:
    table = pa.table({"id": [1, 2, 3], "v": ["a", None, "c"]})
    sink = pa.BufferOutputStream()
    with writer(sink, table.schema) as out:
        out.write_table(table, max_chunksize=2)
    result = write(tmp_path, "t.arrow", sink.getvalue().to_pybytes(), "--primary-key", "id")

    assert result.exit_code == 0, result.stderr
    assert rows(tmp_path) == table.to_pylist()


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("t.csv", "id,v,w\n1,a,0.5\n2,,2\n", [{"id": 1, "v": "a", "w": 0.5}, {"id": 2, "v": None, "w": 2.0}]),
        (
            "t.jsonl",
            '{"id": 1, "v": "a", "j": [1]}\n{"id": 2, "w": 2}\n{"w": 0.5, "id": 3}',
            [
                {"id": 1, "v": "a", "j": "[1]", "w": None},
                {"id": 2, "v": None, "j": None, "w": 2.0},
                {"id": 3, "v": None, "j": None, "w": 0.5},
            ],
        ),
    ],
)
def test_text_formats_without_ddl(tmp_path: Path, name: str, content: str, expected: list[Any]) -> None:
    result = write(tmp_path, name, content, "--primary-key", "id")

    assert result.exit_code == 0, result.stderr
    assert rows(tmp_path) == expected


# --------------------------------------------------------------------------------------------------- transactions


@pytest.mark.parametrize(("size", "expected"), [("1000", [1000, 1000, 100]), ("2100", [2100]), ("2000", [2000, 100])])
@pytest.mark.parametrize("kind", ["parquet", "jsonl"])
def test_transactions_have_the_rows_that_are_asked_for(
    tmp_path: Path, kind: str, size: str, expected: list[int]
) -> None:
    """The row groups of the file have 700."""
    table = pa.table({"id": list(range(2100)), "v": [f"v{i}" for i in range(2100)]})
    content = table if kind == "parquet" else "".join(f"{json.dumps(row)}\n" for row in table.to_pylist())
    result = write(tmp_path, f"t.{kind}", content, "--primary-key", "id", "--transaction-rows", size)

    assert result.exit_code == 0, result.stderr
    assert f"2100 rows in {counted(len(expected), 'transaction[s]')};" in result.stdout
    assert transactions(tmp_path) == expected
    assert rows(tmp_path) == table.to_pylist()


def test_a_file_without_rows_is_a_log_without_transactions(tmp_path: Path) -> None:
    table = pa.table({"id": pa.array([], pa.int32())})
    result = write(tmp_path, "t.parquet", table, "--primary-key", "id")

    assert result.exit_code == 0, result.stderr
    assert "0 rows in 0 transactions" in result.stdout


# ------------------------------------------------------------------------------------------------- change records

CHANGES: Final[list[dict[str, Any]]] = [
    {"op": "insert", "before": None, "after": {"id": 1, "v": "a"}},
    {"op": "c", "before": None, "after": {"id": 2, "v": None}},
    {"op": "update", "before": {"id": 1, "v": "a"}, "after": {"id": 3, "v": "b"}},
    {"op": "u", "before": {"id": 2, "v": None}, "after": {"id": 2, "v": "c"}},
    {"op": "delete", "before": {"id": 3, "v": "b"}, "after": None},
    {"op": "d", "before": {"id": 2, "v": "c"}, "after": None},
    {"op": "r", "before": None, "after": {"id": 4, "v": "d"}},
]
NAMES: Final = {"c": "insert", "r": "insert", "u": "update", "d": "delete"}


@pytest.mark.parametrize("version", ["9.7.0", "10.11.6-MariaDB"])
@pytest.mark.parametrize("kind", ["parquet", "jsonl"])
def test_change_records_become_their_changes(tmp_path: Path, kind: str, version: str) -> None:
    lines = "".join(f"{json.dumps(one)}\n" for one in CHANGES)
    content = pa.Table.from_pylist(CHANGES) if kind == "parquet" else lines
    options = ("--primary-key", "id", "--transaction-rows", "3", "--set", f"server_version={version}")
    result = write(tmp_path, f"t.{kind}", content, *options)

    assert result.exit_code == 0, result.stderr
    assert records(tmp_path).select(["op", "before", "after"]).to_pylist() == [
        {**one, "op": NAMES.get(str(one["op"]), one["op"])} for one in CHANGES
    ]
    assert "7 rows in 3 transactions" in result.stdout


def test_records_of_our_reader_are_change_records(tmp_path: Path) -> None:
    """The log has the same changes as the one that the records are of."""
    assert write(tmp_path / "a", "t.csv", CSV, ddl=DDL).exit_code == 0
    read = records(tmp_path / "a")
    result = write(tmp_path / "b", "t.parquet", read, ddl=DDL)

    assert result.exit_code == 0, result.stderr
    assert records(tmp_path / "b").select(["op", "before", "after"]).equals(read.select(["op", "before", "after"]))


@pytest.mark.parametrize("row_image", ["MINIMAL", "FULL"])
def test_the_row_image_of_the_server_counts(tmp_path: Path, row_image: str) -> None:
    lines = "".join(f"{json.dumps(one)}\n" for one in CHANGES)
    options = ("--primary-key", "id", "--set", f"binlog_row_image={row_image}")
    assert write(tmp_path, "t.parquet", pa.Table.from_pylist(CHANGES), *options).exit_code == 0
    assert write(tmp_path / "lines", "t.jsonl", lines, *options).exit_code == 0
    deleted = [one for one in records(tmp_path).to_pylist() if one["op"] == "delete"]

    assert deleted[0]["before"] == {"id": 3, "v": None if row_image == "MINIMAL" else "b"}
    assert records(tmp_path / "lines")["before"].to_pylist()[-2:] == records(tmp_path)["before"].to_pylist()[-2:]


@pytest.mark.parametrize("kind", ["parquet", "jsonl"])
@pytest.mark.parametrize(
    ("record", "reason"),
    [
        ({"op": "upsert", "before": None, "after": {"id": 9, "v": ""}}, "\"op\" is 'upsert'; it can be insert"),
        ({"op": None, "before": None, "after": {"id": 9, "v": ""}}, '"op" is None'),
        ({"op": "update", "before": None, "after": {"id": 9, "v": ""}}, "'before'"),
        ({"op": "delete", "before": None, "after": None}, "'before'"),
        ({"op": "insert", "before": {"id": 9, "v": ""}, "after": None}, "insert with 'before'"),
        ({"op": "insert", "before": None, "after": {"id": None, "v": ""}}, "id"),
    ],
)
def test_records_of_the_wrong_form_are_refused_with_their_number(
    tmp_path: Path, kind: str, record: dict[str, Any], reason: str
) -> None:
    changes = [*CHANGES, record]
    lines = "".join(f"{json.dumps(one)}\n" for one in changes)
    content = pa.Table.from_pylist(changes) if kind == "parquet" else lines
    result = write(tmp_path, f"t.{kind}", content, "--primary-key", "id", "--transaction-rows", "5")

    assert result.exit_code == 2
    assert result.stderr.startswith(f"binlogio: {tmp_path / 't'}.{kind}: row 8: ")
    assert reason in result.stderr


@pytest.mark.parametrize("op", [[1], {"x": 1}, 5])
def test_an_operation_that_is_no_text_is_refused(tmp_path: Path, op: Any) -> None:
    lines = f"{json.dumps(CHANGES[0])}\n{json.dumps({**CHANGES[0], 'op': op})}\n"
    typed = pa.table({"op": [op], "before": pa.nulls(1, pa.struct([("id", pa.int64())])), "after": [{"id": 1}]})
    results = [
        write(tmp_path, "t.jsonl", lines, "--primary-key", "id"),
        write(tmp_path, "t.parquet", typed, "--primary-key", "id"),
    ]

    assert [result.exit_code for result in results] == [2, 2]
    assert all('"op" is ' in result.stderr for result in results)


@pytest.mark.parametrize("kind", ["parquet", "jsonl"])
def test_each_statement_is_a_group_in_a_table_without_transactions(tmp_path: Path, kind: str) -> None:
    lines = "".join(f"{json.dumps(one)}\n" for one in CHANGES)
    content = pa.Table.from_pylist(CHANGES) if kind == "parquet" else lines
    ddl = "CREATE TABLE shop.t (id BIGINT PRIMARY KEY, v LONGTEXT) ENGINE=MyISAM"
    result = write(tmp_path, f"t.{kind}", content, ddl=ddl)

    assert result.exit_code == 0, result.stderr
    assert transactions(tmp_path) == [2, 2, 2, 1]
    assert [one["op"] for one in records(tmp_path).to_pylist()] == [NAMES.get(one["op"], one["op"]) for one in CHANGES]


@pytest.mark.parametrize("row_image", ["MINIMAL", "NOBLOB"])
@pytest.mark.parametrize("kind", ["parquet", "arrow", "jsonl", "csv"])
def test_records_keep_their_row_images(tmp_path: Path, row_image: str, kind: str) -> None:
    """Columns that an image lacks are not NULL: the log that is written has the same bitmaps."""
    options = ("--primary-key", "id", "--set", f"binlog_row_image={row_image}")
    assert write(tmp_path, "t.parquet", pa.Table.from_pylist(CHANGES), *options).exit_code == 0
    result = write(
        tmp_path / "again", f"t.{kind}", exported(tmp_path / "x", tmp_path / "logs", kind), "--primary-key", "id"
    )

    assert result.exit_code == 0, result.stderr
    assert records(tmp_path / "again").select(IMAGES).equals(records(tmp_path).select(IMAGES))
    assert any(bits == b"\x01" for bits in records(tmp_path)["before_present"].to_pylist())


IMAGED: Final = [
    MYSQL / "rowimage_minimal",
    MYSQL / "types_geometry_vector",
    MARIADB / "rowimage_minimal",
    MARIADB118 / "rowimage_full_nodup",
]


@pytest.mark.parametrize("folder", IMAGED, ids=lambda folder: f"{folder.parent.name} {folder.name}")
@pytest.mark.parametrize("kind", ["parquet", "jsonl", "csv"])
def test_row_images_of_servers_are_written_as_they_were(tmp_path: Path, folder: Path, kind: str) -> None:
    """Each table of a log of a real server, exported and written."""
    log, definitions = folder / "binlog.000001", tmp_path / "tables.json"
    definitions.write_text(CliRunner().invoke(cli, ["schema", str(log)]).stdout, "utf-8")
    with binlogio.open(log) as reader:
        created = [event for event in reader if isinstance(event, QueryEvent) and b"CREATE TABLE" in event.sql]
        server = reader.context.server_version
    tables = [f"{event.schema}.{event.sql.decode().split()[2].strip('`')}" for event in created]
    assert len(tables) > 2
    for table, event in zip(tables, created, strict=True):
        options = ("--table-definitions", str(definitions))
        content = exported(tmp_path / f"{table} out", log, kind, *options, table=table)
        home, given = tmp_path / table, load_definitions(str(definitions))
        ddl = f"USE {event.schema};\n{event.sql.decode()}"
        result = write(home, f"t.{kind}", content, "--set", f"server_version={server}", "--table", table, ddl=ddl)

        assert result.exit_code == 0, result.stderr
        read, again = (
            pa.Table.from_batches(list(binlogio.read_rows(place, table=table, definitions=given))).select(IMAGES)
            for place in (log, home / "logs")
        )
        assert len(read) > 1
        assert again.equals(read)


def test_an_export_in_csv_is_read_as_change_records(tmp_path: Path) -> None:
    """Its columns are not those of a table, such as `pos` and `gtid`; a wrong bitmap or operation is refused."""
    assert write(tmp_path, "t.parquet", pa.Table.from_pylist(CHANGES), "--primary-key", "id").exit_code == 0
    content = exported(tmp_path / "x", tmp_path / "logs", "csv").decode()
    result = write(tmp_path / "again", "t.csv", content, "--primary-key", "id")
    wrong = [
        write(tmp_path / "no", "t.csv", content.replace(old, new, 1), "--primary-key", "id")
        for old, new in (("0x03", "0x07"), ("0x03", "x"), ('"update"', '"upsert"'), ('"insert"', '"delete"'))
    ]

    assert result.exit_code == 0, result.stderr
    assert [one["op"] for one in records(tmp_path / "again").to_pylist()] == [
        one["op"] for one in records(tmp_path).to_pylist()
    ]
    assert [one.exit_code for one in wrong] == [2, 2, 2, 2]
    assert not (tmp_path / "no" / "logs").exists()


@pytest.mark.parametrize("kind", ["parquet", "jsonl", "csv"])
@pytest.mark.parametrize("version", ["9.7.0", "11.8.2-MariaDB-log"])
def test_json_documents_of_an_export_stay_documents(tmp_path: Path, kind: str, version: str) -> None:
    """They are text in exports; in a line of rows without an operation, a string is a string."""
    ddl, options = "CREATE TABLE shop.t (id INT PRIMARY KEY, j JSON)", ("--set", f"server_version={version}")
    lines = '{"id": 1, "j": {"a": [1, null]}}\n{"id": 2, "j": "text"}\n{"id": 3, "j": null}\n{"id": 4, "j": 5}\n'
    assert write(tmp_path, "t.jsonl", lines, *options, ddl=ddl).exit_code == 0
    content = exported(tmp_path / "x", tmp_path / "logs", kind)
    result = write(tmp_path / "again", f"t.{kind}", content, *options, ddl=ddl)

    assert result.exit_code == 0, result.stderr
    assert records(tmp_path / "again").select(IMAGES).equals(records(tmp_path).select(IMAGES))


def test_rows_of_a_latest_state_in_csv_have_their_geometries(tmp_path: Path) -> None:
    """Each is two fields, `g.srid` and `g.wkb`."""
    ddl = "CREATE TABLE shop.t (id INT PRIMARY KEY, g GEOMETRY)"
    lines = '{"id": 1, "g": "SRID=4326;POINT(1 2)"}\n{"id": 2}\n'
    assert write(tmp_path, "t.jsonl", lines, ddl=ddl).exit_code == 0
    content = exported(tmp_path / "x", tmp_path / "logs", "csv", "--latest")
    result = write(tmp_path / "again", "t.csv", content, ddl=ddl)

    assert result.exit_code == 0, result.stderr
    assert rows(tmp_path / "again") == rows(tmp_path)
    assert rows(tmp_path)[0]["g"]["srid"] == 4326
    assert write(tmp_path / "no", "t.csv", "id,g.srid,g.wkb\n1,0,0x0\n", ddl=ddl).exit_code == 2


@pytest.mark.parametrize("kind", ["parquet", "jsonl"])
def test_bitmap_of_another_table_is_refused(tmp_path: Path, kind: str) -> None:
    images = {"op": "insert", "after": {"id": 1, "v": "a"}}
    records = pa.Table.from_pylist([{**images, "after_present": b"\x07"}])
    content = records if kind == "parquet" else json.dumps({**images, "after_present": "0x07"})
    result = write(tmp_path, f"t.{kind}", content, "--primary-key", "id")

    assert result.exit_code == 2
    assert "row 1: \"after_present\" is not a bitmap of the 2 columns of 'after': 07" in result.stderr


def test_lines_without_bitmaps_have_the_columns_that_they_name(tmp_path: Path) -> None:
    """A before image with the key alone is one of MINIMAL; the row after has what it had, and the changes."""
    lines = [
        {"op": "insert", "after": {"id": 1, "v": "a", "w": "b"}},
        {"op": "update", "before": {"id": 1}, "after": {"w": "c"}},
        {"op": "delete", "before": {"id": 1}},
    ]
    ddl = "CREATE TABLE shop.t (id INT PRIMARY KEY, v TEXT, w TEXT)"
    result = write(tmp_path, "t.jsonl", "".join(f"{json.dumps(one)}\n" for one in lines), ddl=ddl)

    assert result.exit_code == 0, result.stderr
    found = records(tmp_path).select(IMAGES).to_pylist()
    assert [(one["before_present"], one["after_present"]) for one in found] == [
        (None, b"\x07"), (b"\x01", b"\x05"), (b"\x01", None),
    ]  # fmt: skip
    assert found[1]["after"] == {"id": 1, "v": None, "w": "c"}


# ----------------------------------------------------------------------------------------------- values that do not fit


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ({"id": 1 << 40}, "id"),
        ({"id": "x"}, "id"),
        ({"d": None}, "the column cannot be NULL"),
        ({"d": "1.555"}, "d"),
        ({"d": "99999"}, "d"),
        ({"e": "zz"}, "e"),
        ({"s": "x,q"}, "s"),
        ({"v": "abcdef"}, "5"),
        ({"dt": "2026-13-01 00:00:00"}, "dt"),
        ({"dt": "2026-01-02 03:04:05.6789"}, "dt"),
        ({"ts": "1960-01-02 03:04:05"}, "ts"),
        ({"y": 1800}, "y"),
        ({"b": "0x0102030405"}, "b"),
        ({"bi": 16}, "bi"),
        ({"f": 1e300}, "f"),
        ({"db": "nan"}, "db"),
        ({"u": -1}, "u"),
        ({"g": "POINT(1)"}, "g"),
        ({"vec": "0x00"}, "vec"),
        ({"nope": 1}, "unknown column"),
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", ["csv", "jsonl", "mariadb"])
def test_a_value_that_does_not_fit_is_refused_with_row_and_column(
    tmp_path: Path, kind: str, line: dict[str, Any], reason: str
) -> None:
    """And nothing of its transaction is in the log."""
    given = [{"id": 1, "d": "1"}, {"id": 2, "d": "1"}, {"id": 3, "d": "1", **line}, {"id": 4, "d": "1"}]
    ddl, options = DDL, ["--transaction-rows", "2"]
    if kind == "mariadb":
        if "vec" in line:
            pytest.skip("there is no VECTOR in MariaDB 10.11")
        ddl, options = DDL.replace(", vec VECTOR(2)", ""), [*options, "--set", "server_version=10.11.6-MariaDB"]
    if kind == "jsonl":
        result = write(tmp_path, "t.jsonl", "".join(f"{json.dumps(one)}\n" for one in given), *options, ddl=ddl)
    else:
        names = list(dict.fromkeys(name for one in given for name in one))
        cells = [
            names,
            *([str(one.get(name) or "").join('""') if one.get(name) else "" for name in names] for one in given),
        ]
        result = write(tmp_path, "t.csv", "".join(",".join(row) + "\n" for row in cells), *options, ddl=ddl)
    row = "row 1" if "nope" in line and kind != "jsonl" else "row 3"

    assert result.exit_code == 2, result.exception
    assert f": {row}: " in result.stderr
    assert reason in result.stderr
    assert not (tmp_path / "logs").exists()


@pytest.mark.parametrize(
    ("column", "reason"),
    [
        (pa.array([1.5, float("nan")]), "neither infinity nor NaN"),
        (pa.array([0, 1], pa.timestamp("ns")), "lose data"),
        (pa.array([{"a": b"x"}, {"a": b"y"}]), "not JSON"),
    ],
)
def test_values_of_arrow_that_no_column_can_have(tmp_path: Path, column: pa.Array, reason: str) -> None:
    table = pa.table({"id": [1, 2], "c": column})
    result = write(tmp_path, "t.parquet", table, "--primary-key", "id")

    assert result.exit_code == 2
    assert ": row " in result.stderr
    assert reason in result.stderr


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("t.parquet", "no parquet", "cannot be read as parquet"),
        ("t.arrow", "no arrow", "cannot be read as arrow"),
        ("t.csv", "a,b\n1,2,3\n", "cannot be read as csv"),
        ("t.csv", "", "cannot be read as csv"),
        ("t.csv", "id\n" + "1\n" * 700_000 + "x\n", "Row #700002"),
        ("t.jsonl", '{"id": 1}\n{', "row 2: not JSON"),
        ("t.jsonl", '{"id": 1}\n[1]', "row 2: not a JSON object"),
        ("t.jsonl", b'{"id": "\xff"}', "not UTF-8"),
        ("t.jsonl", '{"id": 1, "v": 1}\n{"id": 2, "v": "x"}', "several types: text, whole"),
        ("t.jsonl", '{"id": 1, "v": "\\ud800"}', "row 1"),
        ("t.jsonl", "", "invalid table definition"),
        ("t.parquet", pa.table({"i": pa.array([None], pa.month_day_nano_interval())}), "no column type fits"),
    ],
)
def test_files_that_cannot_be_read(tmp_path: Path, name: str, content: Any, reason: str) -> None:
    if isinstance(content, pa.Table):
        name, content = "t.arrow", in_arrow(content, pa.ipc.new_file)
    result = write(tmp_path, name, content)

    assert result.exit_code == 2, result.exception
    assert reason in result.stderr


def in_arrow(table: pa.Table, writer: Any) -> bytes:
    sink = pa.BufferOutputStream()
    with writer(sink, table.schema) as out:
        out.write_table(table)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def test_damaged_files_are_refused_or_read(tmp_path: Path) -> None:
    """Bytes are changed, removed and added; only messages come out, never a Python error."""
    chance, changes = random.Random(5), pa.Table.from_pylist(CHANGES)
    contents = {"a.csv": CSV.encode(), "a.jsonl": JSON_LINES.encode()}
    for name, table in (("typed", TYPED), ("changes", changes)):
        pq.write_table(table, tmp_path / name)
        contents[f"{name}.parquet"] = (tmp_path / name).read_bytes()
        contents[f"{name}.arrow"] = in_arrow(table, pa.ipc.new_file)
        contents[f"{name}.arrows"] = in_arrow(table, pa.ipc.new_stream)
    for _ in range(150):
        name, ddl = chance.choice(list(contents)), bytearray(DDL.encode())
        data = bytearray(contents[name])
        broken = chance.choice([data, data, data, ddl])
        for _ in range(chance.choice((1, 1, 3))):
            at = chance.randrange(len(broken))
            broken[at : at + chance.choice((0, 1, 1, 8))] = chance.choice((b"", b"\0", b"'", b";", b"\xff", b"9" * 30))
        result = write(tmp_path, name, bytes(data), "--check")
        (tmp_path / "broken.sql").write_bytes(ddl)
        defined = write(tmp_path, name, bytes(data), "--check", "--ddl", str(tmp_path / "broken.sql"))

        for one in (result, defined):
            assert one.exit_code in (0, 2), one.exception
            assert one.exit_code == 0 or one.stderr.startswith("binlogio: ")


def test_text_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    """Arrow reads it as it is."""
    text = pa.StringArray.from_buffers(1, pa.py_buffer(b"\0\0\0\0\2\0\0\0"), pa.py_buffer(b"\xff\xfe"))
    result = write(tmp_path, "t.parquet", pa.table({"v": text}))

    assert result.exit_code == 2
    assert "the file cannot be read: " in result.stderr


@pytest.mark.parametrize(
    ("name", "content"),
    [("t.csv", "id,ID\n1,2\n"), ("t.jsonl", '{"id": 1, "ID": 2}\n'), ("t.parquet", pa.table({"id": [1], "ID": [2]}))],
)
def test_a_column_that_is_there_twice_is_refused(tmp_path: Path, name: str, content: Any) -> None:
    """Names of columns do not depend on case."""
    given = write(tmp_path, name, content, ddl="CREATE TABLE shop.t (id INT)")
    inferred = write(tmp_path, name, content)

    assert given.exit_code == inferred.exit_code == 2
    assert "a column is named twice" in given.stderr
    assert "unique column names" in inferred.stderr


# --------------------------------------------------------------------------------------------------------- options


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["x.jsonl", "--from", "{file}", "--table", "s.t"], "not both"),
        (["--from", "{file}"], "--from needs --table"),
        (["--from", "{file}", "--table", "t"], "--from needs --table SCHEMA.NAME"),
        (["--from", "{file}", "--table", "s.t", "--primary-key", "nope"], "primary_key"),
        (
            ["--from", "{file}", "--table", "s.t", "--primary-key", "id", "--ddl", "{file}"],
            "--primary-key is in the --ddl",
        ),
        (["--from", "{file}", "--table", "s.t", "--ddl", "{file}"], "not DDL"),
        (["x.jsonl", "--table", "s.t"], "need --from"),
        ([], "Expected SCRIPT, or --from"),
        (["--from", "{other}", "--table", "s.t"], "does not show the format"),
    ],
)
def test_wrong_options(tmp_path: Path, arguments: list[str], reason: str) -> None:
    file, other = tmp_path / "t.csv", tmp_path / "t.data"
    for one in (file, other):
        one.write_text("id\n1\n")
    given = [one.format(file=file, other=other) for one in arguments]
    result = CliRunner().invoke(cli, ["write", *given, "--out", str(tmp_path / "logs")])

    assert result.exit_code == 2
    assert reason in result.stderr
    assert not (tmp_path / "logs").exists()


def test_the_format_can_be_given(tmp_path: Path) -> None:
    result = write(tmp_path, "t.data", "id\n1\n", "--format", "csv")

    assert result.exit_code == 0, result.stderr
    assert rows(tmp_path) == [{"id": 1}]


def test_ddl_of_another_table_is_refused(tmp_path: Path) -> None:
    result = write(tmp_path, "t.csv", "id\n1\n", ddl="CREATE TABLE shop.u (id INT)")

    assert result.exit_code != 0
    assert "the DDL does not define the table, expected shop.t, found shop.u" in result.stderr


def test_check_writes_nothing(tmp_path: Path) -> None:
    result = write(tmp_path, "t.csv", CSV, "--check", ddl=DDL)

    assert (result.exit_code, result.stdout) == (0, "3 rows in 1 transaction, no errors\n")
    assert not (tmp_path / "logs").exists()


def test_event_names_are_those_of_rows(tmp_path: Path) -> None:
    """One statement a transaction, in rows events of the largest size."""
    table = pa.table({"id": list(range(3000)), "v": ["x" * 20] * 3000})
    assert write(tmp_path, "t.parquet", table, "--primary-key", "id", "--transaction-rows", "3000").exit_code == 0
    with binlogio.open(tmp_path / "logs") as reader:
        names = [event_name(event.header.type_code) for event in reader]

    assert names.count("TABLE_MAP_EVENT") == 1
    assert names.count("WRITE_ROWS_EVENT") > 5


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet", "arrow"])
def test_negative_zeros_of_an_export_have_their_sign(kind: str, tmp_path: Path) -> None:
    """JSON lines had -0, which is an integer for readers of JSON."""
    ddl = "CREATE TABLE shop.t (id INT PRIMARY KEY, f FLOAT, d DOUBLE, j JSON)"
    first, again = tmp_path / "first", tmp_path / "again"
    row = '{"id": 1, "f": -0.0, "d": -0.0, "j": {"x": -0.0}}\n'
    assert write(first, "t.jsonl", row, ddl=ddl).exit_code == 0
    content = exported(tmp_path / "x", first / "logs", kind)
    assert write(again, f"t.{kind}", content, ddl=ddl).exit_code == 0

    expected, found = (repr(rows(folder)) for folder in (first, again))
    assert expected == found == """[{'id': 1, 'f': -0.0, 'd': -0.0, 'j': '{"x": -0.0}'}]"""
