"""Names and types of columns by the DDL in the logs, in whatever part of them a task reads."""

from __future__ import annotations

import json
import pickle
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pytest

import binlogio
from binlogio.columnar import catalogue_logs, lacks_names
from binlogio.constants import EventType
from binlogio.errors import BinlogFormatError, UnsupportedFeature
from binlogio.schema import DefinitionCatalogue
from binlogio.storage.log_file import LogFile
from binlogio.storage.sources import find_logs
from corpus import MARIADB, MYSQL
from logs import CountedFile, raw_events, with_checksum
from spark_frames import ROTATED, load, records_of, tasks
from spark_streams import Stream

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytest.importorskip("pyspark.sql.datasource")

from pyspark.sql.datasource import EqualTo
from pyspark.sql.pandas.types import from_arrow_schema

from pyspark_binlogio.options import BinlogReadOptions
from pyspark_binlogio.read import view_columns
from pyspark_binlogio.scan import statements_of
from pyspark_binlogio.source import BinlogDataSource

UUID: Final = "2f658ac8-e51b-11f1-a314-02fc00000001"
NAMES: Final = ("id", "v")
FILLER: Final = 4 << 20


def names(rows: list[dict[str, Any]]) -> set[tuple[str, ...]]:
    return {tuple(json.loads(row["after"] or row["before"])) for row in rows}


def test_statement_of_an_earlier_log_names_columns() -> None:
    """CREATE TABLE is in the first of three logs: also where only a later one is read, or a part of it."""
    whole = records_of(ROTATED)

    assert whole == binlogio.read_rows(ROTATED).to_table().to_pylist()
    assert names(whole) == {NAMES}
    assert names(records_of(ROTATED, maxPartitionBytes="300")) == {NAMES}
    assert names(records_of(ROTATED, endingGtids=f"{UUID}:4-5")) == {NAMES}
    assert names(records_of(ROTATED, startingPosition="binlog.000002:4")) == {NAMES}
    assert names(records_of(ROTATED, followDdl="false")) == {("@1", "@2")}
    assert names(records_of(ROTATED / "binlog.000002")) == {("@1", "@2")}


@pytest.mark.parametrize("view", ["rows", "changes"])
def test_columns_of_a_table_are_those_of_its_statement(view: str) -> None:
    """Of MariaDB, whose logs have no metadata by default: names, and text instead of bytes."""
    (batch, *_) = tasks(ROTATED, table="corpus.t", view=view, maxPartitionBytes="300")
    columns = batch.schema if view == "changes" else batch.schema.field("after").type

    assert [field.name for field in columns][:2] == ["id", "v"]
    rows = records_of(MARIADB / "gtid", table="corpus.t", maxPartitionBytes="300", schemaChanges="ignore")
    expected = binlogio.read_rows(MARIADB / "gtid", table="corpus.t").to_table().to_pylist()
    assert [row["after"] for row in rows] == [row["after"] for row in expected]
    assert any(isinstance((row["after"] or {}).get("v"), str) for row in rows)


def test_batches_of_a_stream_have_the_statements_before_them() -> None:
    """From the first batch, after a restart, and of a log that grows."""
    options = {"maxFilesPerTrigger": "1", "maxPartitionBytes": "300", "table": "corpus.t"}
    stream = Stream(ROTATED, **options)
    batches = stream.batches()
    offset = json.loads(stream.offset)
    restarted = Stream(ROTATED, **options)
    first = json.loads(json.dumps(restarted.reader.latestOffset(json.loads(restarted.offset), None)))

    assert len(batches) > 1
    assert offset["file"] == first["file"]
    for begin in (2, 3):
        last = Stream(ROTATED, **options).reader
        start = {"file": f"binlog.{begin:06}", "pos": 0}
        found = [
            list(json.loads(json.dumps(row["after"] or row["before"])))
            for part in last.partitions(start, offset)
            for batch in last.read(part)
            for row in batch.to_pylist()
        ]
        assert found
        assert {tuple(one) for one in found} == {NAMES}


def test_log_that_grows_is_scanned_from_its_last_place(tmp_path: Path) -> None:
    """Statements up to an offset, then the rest: the same as all at once."""
    path = MYSQL / "ddl_mix" / "binlog.000001"
    (log,) = find_logs(path)
    every = DefinitionCatalogue()
    catalogue_logs(every, [log])
    with binlogio.open(path) as reader:
        offsets = [event.header.offset for event in reader]
    assert len(every) > 2
    for offset in offsets:
        parts = DefinitionCatalogue()
        catalogue_logs(parts, [log], end=offset)
        some = len(parts)
        catalogue_logs(parts, [log])

        assert some <= len(parts) == len(every)
    empty = tmp_path / "binlog.000001"
    empty.write_bytes(b"\xfebin")
    catalogue_logs(parts, [LogFile(str(empty), 4)])
    assert len(parts) == len(every)


def test_logs_with_names_are_not_scanned() -> None:
    """binlog_row_metadata=FULL, or a file with definitions; and views that show no columns."""
    full, minimal = MYSQL / "metadata_full", MYSQL / "metadata_minimal"

    def found(path: Path, **options: str) -> DefinitionCatalogue | None:
        return statements_of(BinlogReadOptions.parse({"path": str(path), **options}), None)

    assert not lacks_names(find_logs(full)[0])
    assert lacks_names(find_logs(minimal)[0])
    assert found(full) is None
    assert found(full, followDdl="true")
    assert found(minimal)
    assert found(minimal, schemaFile="CREATE TABLE t (id INT)") is None
    assert found(minimal, view="events") is None


@pytest.mark.spark
def test_query_over_many_tasks_has_names(spark: SparkSession) -> None:
    """Through Spark's planning and its workers."""
    frame = load(spark, ROTATED, table="corpus.t", maxPartitionBytes="300")

    assert frame.select("after.v").where("op = 'insert'").count() > 1
    assert set(frame.columns) > {"before", "after"}


def with_long_log(folder: Path, name: str) -> bytes:
    """Copy the logs of `ROTATED`, one of them with an event of many bytes at its end; return the bytes before it."""
    folder.mkdir()
    for path in ROTATED.glob("binlog.0*"):
        (folder / path.name).write_bytes(path.read_bytes())
    data = (folder / name).read_bytes()
    header = bytes([*b"\0\0\0\0", EventType.IGNORABLE_LOG_EVENT, *b"\1\0\0\0"])
    filler = header + (19 + FILLER + 4).to_bytes(4, "little") + (len(data) + FILLER + 23).to_bytes(4, "little")
    filler += (0x80).to_bytes(2, "little") + bytes(FILLER + 4)
    (folder / name).write_bytes(data + with_checksum(filler))
    return data


def test_logs_after_the_last_wanted_one_are_not_scanned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark pickles the reader when filters are pushed: the tasks have the statements before the log that they read."""
    folder = tmp_path / "log"
    with_long_log(folder, "binlog.000003")
    columns = pa.schema(list(view_columns(BinlogReadOptions.parse({"path": str(folder)})).items()))
    monkeypatch.setattr(LogFile, "open_raw", lambda log: CountedFile(log.name, "rb"))
    CountedFile.count = 0
    reader = BinlogDataSource({"path": str(folder), "followDdl": "true"}).reader(from_arrow_schema(columns))
    rest = reader.pushFilters([EqualTo(("file",), str(folder / "binlog.000002"))])
    tasks_reader = pickle.loads(pickle.dumps(reader))  # noqa: S301 - of the line itself
    found = [row for part in reader.partitions() for one in tasks_reader.read(part) for row in one.to_pylist()]

    assert rest == []
    assert names(found) == {NAMES}
    assert CountedFile.count < FILLER / 4


@pytest.mark.parametrize("names", ["", "binlog.0*"], ids=["the logs cannot be listed", "a log cannot be opened"])
def test_tasks_refuse_to_read_without_the_ddl_that_the_driver_could_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: str
) -> None:
    """Without it, columns would have no names, or those of another time."""
    folder = tmp_path / "log"
    with_long_log(folder, "binlog.000003")
    given = {"path": str(folder / names)}
    columns = pa.schema(list(view_columns(BinlogReadOptions.parse(given)).items()))
    reader = BinlogDataSource({**given, "followDdl": "true"}).reader(from_arrow_schema(columns))
    with monkeypatch.context() as patch:
        patch.setattr(LogFile, "open_raw", unreadable)
        tasks_reader = pickle.loads(pickle.dumps(reader))  # noqa: S301 - of the line itself
    part = reader.partitions()[0]

    with pytest.raises(UnsupportedFeature, match="run the query again"):
        list(tasks_reader.read(part))


def unreadable(log: LogFile) -> None:
    raise OSError(5, "Input/output error", log.name)


def test_logs_are_scanned_once_for_a_frame_and_its_queries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The source keeps the statements when Spark pickles it; other logs of the same names are scanned again."""
    data = with_long_log(tmp_path / "log", "binlog.000002")
    given = {"path": str(tmp_path / "log"), "table": "corpus.t"}
    columns = pa.schema(list(view_columns(BinlogReadOptions.parse(given)).items()))
    source = BinlogDataSource(given)
    source.schema()
    monkeypatch.setattr(LogFile, "open_raw", lambda log: CountedFile(log.name, "rb"))
    CountedFile.count = 0
    for _ in range(2):
        kept = pickle.loads(pickle.dumps(source))  # noqa: S301 - of the line itself
        reader = kept.reader(from_arrow_schema(columns))
        parts = reader.partitions()
        stream = pickle.loads(pickle.dumps(source)).streamReader(from_arrow_schema(columns))  # noqa: S301
        stream.partitions({"file": "", "pos": 0}, {"file": "binlog.000003", "pos": 0})

    assert CountedFile.count < FILLER / 4
    assert {frozenset(row["after"] or row["before"]) for part in parts for one in reader.read(part)
            for row in one.to_pylist()} == {frozenset(NAMES)}  # fmt: skip
    first = tmp_path / "log" / "binlog.000001"  # of another server: without the statement
    (_, second), *_ = list(raw_events(data))[1:]
    first.write_bytes(data[: data.index(second)])
    reader = source.reader(from_arrow_schema(columns))
    with pytest.raises(BinlogFormatError, match="the table has no column id, v here"):
        [batch for part in reader.partitions() for batch in reader.read(part)]
