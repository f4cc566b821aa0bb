"""The Spark source without Spark: options, batches, and what importing it costs."""

from __future__ import annotations

import io
import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import binlogio.reader
import pyspark_binlogio
from binlogio.columnar import event_reader
from binlogio.columnar.transaction_records import TRANSACTION_SCHEMA
from binlogio.constants import BINLOG_MAGIC
from binlogio.errors import BinlogError, BinlogFormatError, MissingKernel
from binlogio.events.rows import WriteRowsEvent
from binlogio.implementation import CONSTRUCT, VARIABLE
from binlogio.storage.log_file import LogFile
from binlogio.values.json import JsonDocument
from corpus import MYSQL
from pyspark_binlogio import binlogio_session
from pyspark_binlogio.java import JavaNotFoundError
from pyspark_binlogio.options import OPTIONS, VIEW_NAMES, BinlogOptionError, BinlogReadOptions, markdown, nearest
from pyspark_binlogio.scan import Piece, Request, given_definitions, request_of
from pyspark_binlogio.views import VIEWS

LOG = MYSQL / "types_int" / "binlog.000001"
JSON_LOG = MYSQL / "partial_json" / "binlog.000001"


def test_options_have_defaults() -> None:
    """Nothing given: all rows of all tables, checksums verified."""
    assert BinlogReadOptions.parse({}) == BinlogReadOptions(
        paths=(),
        view="rows",
        table=None,
        tables=(),
        verify_checksum=True,
        keyring=None,
        path_glob_filter=(),
        ignore_missing_logs=False,
        mode="FAILFAST",
        max_partition_bytes=128 << 20,
    )


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ({"failOnDataLoss": "false"}, {"ignoreMissingLogs": "true"}),
        ({"failOnDataLoss": "True"}, {}),
        ({"schemaEvolutionMode": "addNewColumns"}, {"schemaChanges": "addColumns"}),
        ({"schemaEvolutionMode": "rescue", "table": "a.b"}, {"schemaChanges": "rescue", "table": "a.b"}),
        ({"schemaEvolutionMode": "FAILONNEWCOLUMNS"}, {"schemaChanges": "error"}),
        ({"schemaEvolutionMode": "none"}, {"schemaChanges": "ignore"}),
    ],
)
def test_words_of_other_sources_mean_the_same(theirs: dict[str, str], ours: dict[str, str]) -> None:
    """Those of Kafka and Auto Loader."""
    assert BinlogReadOptions.parse(theirs) == BinlogReadOptions.parse(ours)


def test_the_page_of_options_has_all_of_them() -> None:
    """It is made of the head of the module, which names each option."""
    page = (Path(__file__).parents[2] / "docs" / "spark_options.md").read_text("utf-8")

    assert page.endswith(markdown())
    assert [name for name in OPTIONS if f"`{name}`" not in page] == ["checkpointLocation"]


@pytest.mark.parametrize("spell", [str, str.lower, str.upper])
def test_options_are_taken_in_any_case(spell: Any) -> None:
    """Spark lower-cases their names before we see them."""
    options = {
        "path": "/logs/binlog.*",
        "view": "EVENTS",
        "tables": "shop.*, hr.emp_?",
        "verifyChecksum": "False",
        "keyring": "/keys",
        "pathGlobFilter": "*.{1,2}",
        "ignoreMissingFiles": "TRUE",
    }

    assert BinlogReadOptions.parse({spell(name): value for name, value in options.items()}) == BinlogReadOptions(
        paths=("/logs/binlog.*",),
        view="events",
        tables=("shop.*", "hr.emp_?"),
        verify_checksum=False,
        keyring="/keys",
        path_glob_filter=("*.1", "*.2"),
        ignore_missing_logs=True,
    )


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"tablez": "a.b"}, "unknown option 'tablez'; did you mean 'table'?"),
        ({"sourceColumns": "outcomes"}, "option sourceColumns: expected some of end_pos, thread_id, xid, outcome"),
        ({"sourceColumns": "xid", "view": "events"}, "sourceColumns applies to the views rows and changes only"),
        ({"verifychecksums": "true"}, "did you mean 'verifyChecksum'?"),
        ({"view": ""}, "option view: expected rows, events, transactions or changes, found ''"),
        ({"view": "changes"}, "view changes needs table"),
        ({"columns": "id"}, "option columns needs table"),
        (
            {"maxPartitionBytes": "0"},
            "option maxPartitionBytes: expected a size in bytes, such as 134217728 or 128m, found '0'",
        ),
        ({"maxFilesPerTrigger": "0"}, "option maxFilesPerTrigger: expected a whole number of 1 or more, found '0'"),
        (
            {"maxFilesPerTrigger": "1", "maxBytesPerTrigger": "1"},
            "set either maxFilesPerTrigger or maxBytesPerTrigger, not both",
        ),
        ({"timestampSlack": "long"}, "option timestampSlack: expected a number of seconds, minutes, hours or days"),
        ({"startingTimestamp": "soon"}, "option startingTimestamp: expected a time such as 2026-11-20 10:00:00 (UTC)"),
        (
            {"startingPosition": "binlog.000001"},
            "option startingPosition: expected file:offset, such as binlog.000003:154",
        ),
        ({"startingGtids": "x"}, "option startingGtids: expected a GTID set"),
        ({"table": "orders"}, "option table: expected schema.table, found 'orders'"),
        ({"tables": "a.b,"}, "option tables: expected a value, found ''"),
        ({"table": "a.b", "tables": "a.*"}, "give either table or tables, not both"),
        (
            {"startingTimestamp": "2026-11-23 03:36:00", "endingTimestamp": "2026-11-23 03:35:00"},
            "endingTimestamp is before startingTimestamp",
        ),
        ({"failOnDataLoss": "1"}, "option failOnDataLoss: expected true or false, found '1'"),
        ({"failOnDataLoss": "false", "ignoreMissingLogs": "true"}, "is another name of ignoreMissingLogs"),
        ({"schemaEvolutionMode": "addColumns"}, "expected addNewColumns or rescue or failOnNewColumns or none"),
        ({"ignoreMissingFiles": "1"}, "option ignoreMissingFiles: expected true or false, found '1'"),
        ({"path": " "}, "option path: expected a value, found ' '"),
        ({"paths": "/a"}, "option paths: expected a JSON array of paths, as load([...]) gives, found '/a'"),
        ({"paths": "[1]"}, "option paths: expected a JSON array"),
        ({"paths": "[" * 100_000}, "option paths: expected a JSON array"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, str], sentence: str) -> None:
    """With the name, what was expected and what was found."""
    with pytest.raises(BinlogOptionError) as refusal:
        BinlogReadOptions.parse(options)

    assert sentence in str(refusal.value)


def test_paths_are_absolute_or_uris(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A task may run in another directory than the driver."""
    monkeypatch.chdir(tmp_path)
    paths = ["binlog.*", "/logs/binlog.index", "file:/a/b", "file:///a/c", "s3://bucket/binlog.000001", "-"]

    assert BinlogReadOptions.parse({"paths": json.dumps(paths)}).paths == (
        str(tmp_path / "binlog.*"),
        "/logs/binlog.index",
        "/a/b",
        "/a/c",
        "s3://bucket/binlog.000001",
        str(tmp_path / "-"),
    )


def test_keyring_is_never_shown() -> None:
    """It may be the keys themselves."""
    assert "secret" not in repr(BinlogReadOptions.parse({"keyring": "secret"}))


def test_tables_are_selected_by_name_and_by_globs() -> None:
    """One name as it is, or globs; what belongs to no table is not wanted."""
    assert not BinlogReadOptions().selects_tables
    assert BinlogReadOptions(table="a.b*").selects_tables
    assert BinlogReadOptions(table="a.b*").wants_table("a", "b*")
    assert not BinlogReadOptions(table="a.b*").wants_table("a", "bc")
    assert BinlogReadOptions(tables=("x.*", "a.b?")).wants_table("a", "bc")
    assert not BinlogReadOptions(tables=("a.*",)).wants_table("a", None)
    assert not BinlogReadOptions(table="a.None").wants_table("a", None)


def test_nearest_always_has_an_answer() -> None:
    """Even where nothing is near."""
    assert nearest("IGNOREMISSING", ("path", "ignoreMissingFiles")) == "ignoreMissingFiles"
    assert nearest("zzz", ("path", "view")) in {"path", "view"}


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("1700000000", 1700000000),
        ("2023-11-14 22:13:20", 1700000000),
        ("2023-11-14T23:13:20+01:00", 1700000000),
        ("2023-11-14T22:13:20Z", 1700000000),
        ("2023-11-14 22:13:19.000001", 1700000000),
    ],
)
def test_times_are_utc_and_whole_seconds(value: str, seconds: int) -> None:
    """A fraction means the next second, the first that is not before it."""
    assert BinlogReadOptions.parse({"startingTimestamp": value}).starting_timestamp == seconds


@pytest.mark.parametrize(("value", "size"), [("5", 5), ("64k", 1 << 16), ("128MB", 128 << 20), ("1 GiB", 1 << 30)])
def test_sizes_are_as_spark_writes_them(value: str, size: int) -> None:
    """Binary units, in any case."""
    assert BinlogReadOptions.parse({"maxPartitionBytes": value}).max_partition_bytes == size


@pytest.mark.parametrize("text", ['{"shop.orders": ', '{"shop.orders": ' + "[" * 100_000], ids=["cut", "deep"])
def test_schema_file_that_begins_like_json_and_is_none_is_refused(text: str) -> None:
    """The option is named, with what was found and what is wrong with it."""
    with pytest.raises(BinlogOptionError, match=r"option schemaFile: expected a file, or JSON \(.*\), found '\{"):
        given_definitions(text)


def test_every_view_that_the_options_name_exists() -> None:
    """The two lists are in two modules, since options must not import Arrow."""
    assert tuple(VIEWS) == VIEW_NAMES


def read(log: Any, view: str, **options: str) -> list[pa.RecordBatch]:
    """Return the batches of a whole log, as a task gets them before Spark's types."""
    request = Request(options=BinlogReadOptions.parse({"view": view, **options}))
    return list(VIEWS[view].batches(Piece(log), request))


BY_EVENT = ("events", "transactions")


@pytest.mark.parametrize("view", BY_EVENT)
def test_batches_are_cut_by_rows_and_by_bytes(view: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """However they are cut, they are one table, and none is empty."""
    log = LogFile(str(LOG))
    whole = read(log, view)
    monkeypatch.setattr(event_reader, "MAX_RECORDS", 7)
    by_rows = read(log, view)
    monkeypatch.setattr(event_reader, "MAX_BYTES", 1)
    by_bytes = read(log, view)

    assert len(whole) == 1
    assert [batch.num_rows for batch in by_rows[:-1]] == [7] * (len(by_rows) - 1)
    assert [batch.num_rows for batch in by_bytes] == [1] * whole[0].num_rows
    assert pa.Table.from_batches(by_rows).combine_chunks() == pa.Table.from_batches(whole)
    assert pa.Table.from_batches(by_bytes).combine_chunks() == pa.Table.from_batches(whole)


@pytest.mark.parametrize("view", BY_EVENT)
def test_batches_have_the_schema_that_spark_makes_of_the_columns(view: str) -> None:
    """Spark refuses any other, down to the name of the time zone."""
    types = pytest.importorskip("pyspark.sql.pandas.types")
    sql_types = pytest.importorskip("pyspark.sql.types")
    kinds = {
        pa.string(): sql_types.StringType(),
        pa.binary(): sql_types.BinaryType(),
        pa.bool_(): sql_types.BooleanType(),
        pa.int32(): sql_types.IntegerType(),
        pa.int64(): sql_types.LongType(),
        pa.timestamp("us", "UTC"): sql_types.TimestampType(),
        TRANSACTION_SCHEMA.field("tables").type: sql_types.ArrayType(sql_types.StringType()),
    }
    request = Request(options=BinlogReadOptions.parse({"view": view}))
    schema = sql_types.StructType(
        [sql_types.StructField(name, kinds[kind]) for name, kind in VIEWS[view].columns(request, []).items()]
    )
    batch = read(LogFile(str(LOG)), view)[0]

    assert batch.schema.equals(types.to_arrow_schema(schema, timezone="UTC"))


@pytest.mark.parametrize("case", ["metadata_full", "partial_json", "types_geometry_vector"])
def test_damage_that_no_checksum_finds_is_located_or_harmless(case: str) -> None:
    """Flipped bits, checksums not verified: records, or an error that says in which file and where.

    Values that are opened late too.
    """
    data = (MYSQL / case / "binlog.000001").read_bytes()[:12_000]
    dice = random.Random(case)
    errors: list[BinlogError] = []
    for _ in range(60):
        damaged = bytearray(data)
        damaged[dice.randrange(len(BINLOG_MAGIC), len(data))] ^= 1 << dice.randrange(8)
        for view in ("rows", *BY_EVENT):
            try:
                read(LogFile("damaged", stream=io.BytesIO(damaged)), view, verifyChecksum="false")
            except BinlogError as error:
                errors.append(error)

    assert errors
    assert [str(error) for error in errors if error.file is None or error.offset is None] == []


def test_document_that_is_broken_is_located_by_its_column() -> None:
    """JSON is opened only when its text is asked for, long after its event was decoded."""
    with binlogio.reader.open(JSON_LOG) as reader:
        event = next(event for event in reader if isinstance(event, WriteRowsEvent))
        after = next(reader.rows(event)).after
        assert after is not None
        document = next(value for value in after.values if isinstance(value, JsonDocument)).binary
    data = JSON_LOG.read_bytes()
    damaged = data.replace(document, b"\xff" + document[1:], 1)

    with pytest.raises(BinlogFormatError) as error:
        read(LogFile("damaged", stream=io.BytesIO(damaged)), "rows", verifyChecksum="false")

    assert f"at {event.header.offset}: WRITE_ROWS_EVENT: column @3: " in str(error.value)


def test_import_is_cheap_and_never_fails() -> None:
    """No Spark, no Arrow, nothing of binlogio; where there is no PySpark, DefaultSource is simply not there."""
    script = (
        "import sys; sys.path.insert(0, sys.argv[1]); import pyspark_binlogio; "
        "assert not {'pyspark', 'pyarrow', 'binlogio'} & set(sys.modules), sys.modules; "
        "assert not hasattr(pyspark_binlogio, 'DefaultSource'); print('fine')"
    )
    home = Path(pyspark_binlogio.__file__).parent.parent
    run = subprocess.run(
        [sys.executable, "-I", "-S", "-c", script, str(home)], capture_output=True, text=True, check=False
    )

    assert (run.stdout, run.stderr) == ("fine\n", "")


def test_planning_does_not_import_pandas() -> None:
    """A fifth of a second of CPU for each query: `pyarrow.array` imports it."""
    script = (
        "import sys, pyspark.sql.worker.plan_data_source_read as spark; before = set(sys.modules); "
        "from pyspark.sql.types import LongType, StructType; from pyspark_binlogio import DefaultSource; "
        "reader = DefaultSource({'path': sys.argv[1]}).reader(StructType().add('pos', LongType())); "
        "print(len(reader.partitions()), {'pandas', 'pyarrow.compute'} & (set(sys.modules) - before))"
    )
    run = subprocess.run([sys.executable, "-c", script, str(LOG)], capture_output=True, text=True, check=False)

    assert run.stdout == "1 set()\n", run.stderr


def test_unknown_attribute_is_an_attribute_error() -> None:
    """The lazy names do not swallow the others."""
    with pytest.raises(AttributeError, match="has no attribute 'Default'"):
        pyspark_binlogio.Default  # noqa: B018


def test_session_without_java_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One sentence instead of JAVA_GATEWAY_EXITED."""
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))

    with pytest.raises(JavaNotFoundError, match="Spark needs Java 17 or newer"):
        binlogio_session()


def test_reads_without_the_kernel_end_before_they_are_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, CONSTRUCT)

    with pytest.raises(MissingKernel, match="a read by Spark needs the compiled kernel"):
        request_of(BinlogReadOptions.parse({"path": str(LOG)}))
