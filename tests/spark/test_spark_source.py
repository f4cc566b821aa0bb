"""Paths and options of `format("binlog")`, and files that are not a binary log."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest

import binlogio.reader
from binlogio.events.rows import WriteRowsEvent
from corpus import MARIADB, MYSQL
from spark_frames import (
    GTID_ON,
    MARIADB_GTID,
    ROTATED,
    TYPES_INT,
    changes,
    count,
    failure_of,
    load,
    records_of,
    spark_errors,
)

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytest.importorskip("pyspark.sql.datasource")


@pytest.mark.spark
@pytest.mark.parametrize(
    ("paths", "logs"),
    [
        pytest.param([GTID_ON / "binlog.*"], 2, id="glob"),
        pytest.param([GTID_ON], 2, id="directory"),
        pytest.param([MYSQL / "in_use" / "binlog.index"], 1, id="index"),
        pytest.param([GTID_ON / "binlog.000002", MARIADB_GTID, TYPES_INT], 4, id="list"),
        pytest.param([TYPES_INT.as_uri()], 1, id="uri"),
    ],
)
def test_paths_of_every_kind_are_found_and_small_files_share_a_task(
    spark: SparkSession, paths: list[Any], logs: int
) -> None:
    """A glob, a directory, an index file, a list of these, a URI."""
    frame = load(spark, *paths, view="events")

    assert frame.where("type = 'FORMAT_DESCRIPTION_EVENT'").count() == logs
    assert frame.rdd.getNumPartitions() == 1
    assert load(spark, *paths, splitMode="files").rdd.getNumPartitions() == logs


@pytest.mark.spark
def test_sql_view_takes_options_in_any_case(spark: SparkSession) -> None:
    """CREATE TEMPORARY VIEW ... USING binlog OPTIONS (...)."""
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW log USING binlog "
        f"OPTIONS (PATH '{TYPES_INT}', VIEW 'Events', verifychecksum 'TRUE')"
    )

    found = spark.sql("SELECT count(*) AS n FROM log WHERE type = 'XID_EVENT'").first()

    assert found is not None
    assert found.n == 6


@pytest.mark.parametrize(
    ("options", "tables"),
    [
        ({"table": "corpus.t_serial"}, {"t_serial"}),
        ({"tables": "corpus.t_s*, other.*"}, {"t_serial"}),
        ({"tables": "*.t_int,*.t_nullbits"}, {"t_int", "t_nullbits"}),
    ],
)
def test_tables_choose_by_name_or_glob(options: dict[str, str], tables: set[str]) -> None:
    """`table` is a name, whatever characters it has; `tables` are globs."""
    assert {row["table"] for row in records_of(TYPES_INT, **options)} == tables


def test_tables_choose_events_too() -> None:
    """In the view `events`, what belongs to no table is not there."""
    rows = records_of(TYPES_INT, view="events", table="corpus.t_serial")

    assert {row["type"] for row in rows} == {"TABLE_MAP_EVENT", "WRITE_ROWS_EVENT"}
    assert {row["table"] for row in rows} == {"t_serial"}


def test_path_glob_filter_looks_at_names() -> None:
    """Braces are alternatives, as in Hadoop's globs."""
    rows = records_of(GTID_ON, MARIADB_GTID, view="events", pathGlobFilter="*.{000002,000007}")

    assert {row["file"] for row in rows} == {
        str(GTID_ON / "binlog.000002"),
        str(MARIADB_GTID / "binlog.000002"),
    }
    assert records_of(GTID_ON, pathGlobFilter="*.gz") == []


@pytest.mark.spark
def test_missing_files_are_ignored_only_when_asked(spark: SparkSession, tmp_path: Path) -> None:
    """The index names a fourth log that was purged: an error, unless ignoreMissingFiles; the others are read then."""
    gone = tmp_path / "nowhere"
    failure = failure_of(load(spark, ROTATED / "binlog.index"))

    assert "FileNotFoundError" in failure
    assert str(ROTATED / "binlog.000004") in failure
    assert count(spark, ROTATED / "binlog.index", gone, ignoreMissingFiles="true") == count(spark, ROTATED)


@pytest.mark.spark
def test_file_that_vanishes_after_planning_is_ignored_when_asked(spark: SparkSession, tmp_path: Path) -> None:
    """Logs are purged while Spark reads."""
    log = tmp_path / "binlog.000001"
    shutil.copy(TYPES_INT, log)
    frame = load(spark, log, ignoreMissingFiles="true")
    strict = load(spark, log)
    planned = frame.rdd.getNumPartitions() + strict.rdd.getNumPartitions()
    log.unlink()

    assert planned == 2
    assert frame.count() == 0
    assert str(log) in failure_of(strict)


@pytest.mark.spark
@pytest.mark.parametrize("case", [MYSQL / "encrypted", MARIADB / "encrypted"], ids=["mysql", "mariadb"])
def test_encrypted_logs_are_read_with_the_keyring(spark: SparkSession, case: Path) -> None:
    """By the key file of either vendor, which only the driver has to have.

    Without, one sentence says what is missing.
    """
    pytest.importorskip("cryptography")
    keys = next(path for name in ("keyring", "keys.txt") if (path := case / name).exists())
    log = case / "binlog.000001"

    assert count(spark, log, keyring=str(keys)) == 3
    assert count(spark, log, keyring=keys.read_text()) == 3
    failure = failure_of(load(spark, log))
    assert "UnsupportedFeature" in failure
    assert "encrypted" in failure


@pytest.mark.spark
def test_schema_of_the_user_chooses_columns(spark: SparkSession) -> None:
    """By name, in any order; a name or a type that the view does not have is refused with what it has."""
    reader = spark.read.format("binlog")
    frame = reader.schema("op string, pos bigint").load(str(TYPES_INT))

    assert frame.columns == ["op", "pos"]
    assert [tuple(row) for row in frame.collect()] == [
        (row.op, row.pos) for row in load(spark, TYPES_INT).select("op", "pos").collect()
    ]
    assert "has no column 'opp'; did you mean 'op'?" in failure_of(reader.schema("opp string").load(str(TYPES_INT)))
    assert "column pos: expected bigint, found string" in failure_of(reader.schema("pos string").load(str(TYPES_INT)))


@pytest.mark.spark
@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"viewz": "events"}, "unknown option 'viewz'; did you mean 'view'?"),
        ({"view": "transaction"}, "option view: expected rows, events, transactions or changes, found 'transaction'"),
        ({"verifyChecksum": "yes"}, "option verifyChecksum: expected true or false, found 'yes'"),
    ],
)
def test_wrong_option_is_refused_when_the_frame_is_made(
    spark: SparkSession, options: dict[str, str], sentence: str
) -> None:
    """Before anything is read, by name."""
    with pytest.raises(spark_errors()) as failure:
        load(spark, TYPES_INT, **options)

    assert f"BinlogOptionError: binlog: {sentence}" in str(failure.value)


@pytest.mark.spark
def test_create_table_is_refused_with_the_reason(spark: SparkSession) -> None:
    """Spark passes properties of the table as options, but no path and no options when it is read or written."""
    reason = "CREATE TABLE ... USING binlog is not possible, since Spark does not give a Python source the path"
    for statement in (
        f"CREATE TABLE t_options USING binlog OPTIONS (path '{TYPES_INT}')",
        f"CREATE TABLE t_location USING binlog LOCATION '{TYPES_INT}'",
        "CREATE TABLE t_as USING binlog AS SELECT 1 AS pos",
    ):
        with pytest.raises(spark_errors()) as failure:
            spark.sql(statement)
        assert reason in str(failure.value)
        assert "use CREATE TEMPORARY VIEW name USING binlog OPTIONS" in str(failure.value)
    spark.sql(
        f"CREATE TABLE t_schema (op string) USING binlog OPTIONS (path '{TYPES_INT}')"
    )  # which Spark does by itself
    try:
        assert reason in failure_of(spark.table("t_schema"))
    finally:
        spark.sql("DROP TABLE t_schema")


@pytest.mark.spark
def test_missing_path_is_named(spark: SparkSession, tmp_path: Path) -> None:
    """A file at once, a glob and a directory without logs when they are read; and no path at all."""
    from pyspark.errors import AnalysisException  # noqa: PLC0415

    with pytest.raises(AnalysisException, match=r"no such file or directory: '.*binlog\.000001'"):
        load(spark, tmp_path / "binlog.000001")
    for path in (tmp_path / "binlog.*", tmp_path):
        failure = failure_of(load(spark, path))
        assert "FileNotFoundError" in failure
        assert str(path) in failure
    assert 'BinlogOptionError: binlog: no path is given; pass one, such as load("' in failure_of(
        spark.read.format("binlog").load()
    )


def _first_write(path: Path) -> Any:
    with binlogio.reader.open(path) as reader:
        return next(event for event in reader if isinstance(event, WriteRowsEvent)).header


@pytest.mark.spark
def test_damage_is_reported_with_class_file_and_position(spark: SparkSession, tmp_path: Path) -> None:
    """A text file, too few bytes, a cut, a flipped bit: our class, which file, and where in it."""
    data = TYPES_INT.read_bytes()
    write = _first_write(TYPES_INT)
    flipped = bytearray(data)
    flipped[write.offset + 40] ^= 1
    damaged = {
        "empty": (b"", "TruncatedEvent", 0),
        "text": (b"INSERT INTO t VALUES (1);\n" * 20, "BadMagic", 0),
        "magic": (data[:3], "TruncatedEvent", 3),
        "cut": (data[: write.offset + 30], "TruncatedEvent", write.offset),
        "flipped": (bytes(flipped), "ChecksumMismatch", write.offset),
    }
    for name, (content, kind, offset) in damaged.items():
        log = tmp_path / name
        log.write_bytes(content)
        assert f"binlogio.errors.{kind}: {log}: at {offset}: " in failure_of(load(spark, log)), name
    assert count(spark, tmp_path / "flipped", verifyChecksum="false") > 0


def test_log_in_use_ends_where_its_whole_events_end() -> None:
    """A server still writes to it: no error, and every event that is whole."""
    log = MYSQL / "in_use" / "binlog.000001"

    assert len(records_of(log)) == len(changes(log)) == 4


@pytest.mark.spark
def test_table_of_which_no_log_has_a_change_is_refused(spark: SparkSession) -> None:
    """`table` is a name, not a glob, and the columns of a missing table are unknown."""
    with pytest.raises(spark_errors(), match=r"no log has a change of table corpus\.t_\*"):
        load(spark, TYPES_INT, table="corpus.t_*")
