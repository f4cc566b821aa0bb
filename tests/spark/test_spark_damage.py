"""Damaged logs in Spark's three modes."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute
import pytest

import binlogio
from binlogio.errors import BinlogError, ChecksumMismatch, Hint, Surface, UnsupportedFeature, hint_text
from corpus import MYSQL
from pyspark_binlogio.options import BinlogOptionError, BinlogReadOptions
from spark_frames import TYPES_INT, tasks
from spark_streams import Stream
from spark_writes import begin_write, numbered

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytest.importorskip("pyspark.sql.datasource")
from pyspark.sql import datasource
from pyspark.sql.pandas.types import from_arrow_schema

from pyspark_binlogio.read import BinlogBatchReader, view_columns

AS_THEY_WERE = ["pos", "row", "op", "before", "after"]
LOG = MYSQL / "gtid_on" / "binlog.000001"


@pytest.fixture(name="damaged")
def damaged_log(tmp_path: Path) -> tuple[Path, int]:
    """Provide a log with a flipped bit in a rows event in its middle, and the position of that event."""
    places = binlogio.read_rows(LOG).to_table().column("pos").to_pylist()
    at = places[len(places) // 2]
    data = bytearray(LOG.read_bytes())
    data[at + 25] ^= 1
    path = tmp_path / LOG.name
    path.write_bytes(data)
    return path, at


def positions(batches: list[pa.RecordBatch]) -> list[Any]:
    """Return the positions of the records."""
    return [(row["pos"], row["row"]) for batch in batches for row in batch.to_pylist()]


def test_failfast_names_file_and_place(damaged: tuple[Path, int]) -> None:
    """It is the default."""
    path, at = damaged
    with pytest.raises(ChecksumMismatch) as failure:
        tasks(path)

    assert (failure.value.file, failure.value.offset) == (str(path), at)


@pytest.mark.parametrize("max_bytes", ["100", "700", "1000000"])
def test_dropmalformed_continues_with_the_next_group(damaged: tuple[Path, int], max_bytes: str) -> None:
    """What is lost is the rest of the group in which the damage is, whatever the partitions."""
    path, at = damaged
    everything = binlogio.read_rows(LOG).to_table().to_pylist()
    group = next(row["gtid"] for row in everything if row["pos"] == at)
    expected = [(row["pos"], row["row"]) for row in everything if row["pos"] < at or row["gtid"] != group]

    assert positions(tasks(path, mode="DROPMALFORMED", maxPartitionBytes=max_bytes)) == expected


@pytest.mark.parametrize("view", ["rows", "events", "transactions"])
def test_permissive_says_what_was_wrong(damaged: tuple[Path, int], view: str) -> None:
    """A record with the place and the reason, and nothing else."""
    path, at = damaged
    rows = [
        row
        for batch in tasks(path, view=view, mode="permissive", columnNameOfCorruptRecord="why", maxPartitionBytes="900")
        for row in batch.to_pylist()
    ]
    corrupt = [row for row in rows if row["why"] is not None]

    assert len(rows) > len(corrupt)
    assert len(corrupt) == 1
    assert {name for name, value in corrupt[0].items() if value is not None} == {"file", "pos", "why"}
    assert (corrupt[0]["file"], corrupt[0]["pos"]) == (str(path), at)
    assert "checksum is wrong" in corrupt[0]["why"]


@pytest.mark.parametrize(
    ("content", "records"),
    [
        pytest.param(b"", 0, id="empty"),
        pytest.param(b"\xfebi", 0, id="less than the magic"),
        pytest.param(b"\xfebin", 0, id="the magic alone"),
        pytest.param(b"this is a text file\n" * 20, 0, id="text"),
        pytest.param(LOG.read_bytes()[:-7], None, id="cut"),
        pytest.param(LOG.read_bytes()[:5122], None, id="cut after the last rows of its last transaction"),
    ],
)
def test_files_that_are_no_logs_are_named(tmp_path: Path, content: bytes, records: int | None) -> None:
    """An error that names the file; in the other modes what there is before it."""
    path = tmp_path / "binlog.000001"
    path.write_bytes(content)
    with pytest.raises(BinlogError) as failure:
        tasks(path)
    found = positions(tasks(path, mode="DROPMALFORMED"))
    found_rows = [row for batch in tasks(path, mode="PERMISSIVE", maxPartitionBytes="50") for row in batch.to_pylist()]

    assert failure.value.file == str(path)
    assert [row["_corrupt_record"] for row in found_rows if row["_corrupt_record"]] == [str(failure.value)]
    assert str(path) in str(failure.value)
    assert found == (positions(tasks(LOG)) if records is None else [])


def test_damage_in_the_head_is_reported_once(tmp_path: Path) -> None:
    """Every piece reads the format description; the first one reports."""
    path = tmp_path / LOG.name
    data = bytearray(LOG.read_bytes())
    data[40] ^= 1
    path.write_bytes(data)
    rows = [row for batch in tasks(path, mode="PERMISSIVE", maxPartitionBytes="900") for row in batch.to_pylist()]

    assert [(row["pos"], "checksum is wrong" in row["_corrupt_record"]) for row in rows] == [(4, True)]


@pytest.mark.parametrize("mode", ["PERMISSIVE", "DROPMALFORMED"])
def test_columns_of_a_table_are_searched_after_the_damage(tmp_path: Path, mode: str) -> None:
    """The first change of the table is damaged, and a newer file is not a log."""
    path = tmp_path / "binlog.000001"
    table = {"table": "corpus.t_int"}
    whole = pa.Table.from_batches(tasks(TYPES_INT, **table))
    at = whole.column("pos").to_pylist()[0]
    data = bytearray(TYPES_INT.read_bytes())
    data[at + 25] ^= 1
    path.write_bytes(data)
    (tmp_path / "binlog.000002").write_text("this is a text file" * 20)
    with pytest.raises(BinlogError, match=r"binlog\.000002: at 0: this is not a binary log"):
        tasks(tmp_path / "binlog.*", **table)

    found = pa.Table.from_batches(tasks(tmp_path / "binlog.*", mode=mode, **table))
    changes = found.filter(found.column("op").is_valid())
    kept = whole.filter(pa.compute.not_equal(whole.column("pos"), at))
    assert changes.select(AS_THEY_WERE).equals(kept.select(AS_THEY_WERE))
    assert len(found) - len(changes) == (2 if mode == "PERMISSIVE" else 0)


def test_table_that_no_log_has_is_refused_with_those_that_they_have() -> None:
    """Which logs were looked into, and the nearest name."""
    with pytest.raises(BinlogOptionError) as failure:
        tasks(TYPES_INT, table="corpus.t_itn")

    assert "no log has a change of table corpus.t_itn" in str(failure.value)
    assert f"looked into {TYPES_INT}; did you mean 'corpus.t_int'? There are changes of corpus.t_" in str(failure.value)


def test_filters_are_looked_at_again_where_records_may_have_no_values() -> None:
    """A record of damage has no operation, which a filter that was pushed would not have noticed."""
    filters = [datasource.IsNotNull(("op",)), datasource.EqualTo(("op",), "insert")]

    def pushed(mode: str) -> list[Any]:
        options = {"path": str(LOG), "mode": mode}
        schema = from_arrow_schema(pa.schema(list(view_columns(BinlogReadOptions.parse(options)).items())))
        return list(BinlogBatchReader(BinlogReadOptions.parse(options), schema).pushFilters(filters))

    assert pushed("DROPMALFORMED") == pushed("FAILFAST") == []
    assert pushed("PERMISSIVE") == filters


@pytest.mark.parametrize(
    ("case", "options", "words"),
    [
        ("encrypted", {}, "(give the server's keyring in option keyring)"),
        ("types_temporal", {"table": "corpus.t_datetime"}, "(set option zeroDates to null or text)"),
        (
            "types_int",
            {"table": "corpus.t_int", "columns": "id", "followDdl": "false"},
            "give definitions of the tables in option schemaFile)",
        ),
    ],
)
def test_hints_name_the_options(case: str, options: dict[str, str], words: str) -> None:
    """Not in those of Python's functions."""
    with pytest.raises(BinlogError) as failure:
        tasks(MYSQL / case / "binlog.000001", **options)

    assert words in str(failure.value)


ENCRYPTED: Final = MYSQL / "encrypted" / "binlog.000001"


def stream_from(path: Path) -> None:
    """Begin a stream at a position, which has to be looked up in the log."""
    Stream(path, startingPosition="binlog.000001:500")


def append_to(path: Path, folder: Path) -> None:
    """Append records to a folder whose last log is `path`."""
    shutil.copy(path, folder / "binlog.000001")
    begin_write(numbered(range(1, 2)).schema, folder, stream=False)


@pytest.mark.parametrize(
    "plan",
    [
        pytest.param(lambda _: tasks(ENCRYPTED, splitMode="scan", maxPartitionBytes="200"), id="splitMode"),
        pytest.param(lambda _: tasks(ENCRYPTED, startingPosition="binlog.000001:500"), id="startingPosition"),
        pytest.param(lambda _: tasks(ENCRYPTED, table="corpus.t_int"), id="table"),
        pytest.param(lambda _: stream_from(ENCRYPTED), id="initialOffset"),
        pytest.param(lambda _: Stream(ENCRYPTED).batch(), id="latestOffset"),
        pytest.param(lambda folder: append_to(ENCRYPTED, folder), id="writer"),
    ],
)
def test_hints_of_the_driver_name_the_options_too(plan: Callable[[Path], object], tmp_path: Path) -> None:
    """What the driver reads to plan a read or a write is an error in the same words as that of a task."""
    with pytest.raises(UnsupportedFeature, match=r"\(give the server's keyring in option keyring"):
        plan(tmp_path)


def test_size_of_an_event_is_not_an_option() -> None:
    """The hint for an event above the limit names what a user of Spark can do."""
    assert "Python" in hint_text(Hint.EVENT_SIZE, Surface.SPARK)
