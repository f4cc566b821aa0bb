"""Damaged logs in Spark's three modes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import binlogio
from binlogio.errors import BinlogError, ChecksumMismatch
from corpus import MYSQL
from spark_frames import tasks

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

pytest.importorskip("pyspark.sql.datasource")

LOG = MYSQL / "gtid_on" / "binlog.000001"


@pytest.fixture(name="damaged")
def damaged_log(tmp_path: Path) -> tuple[Path, int]:
    """A log with a flipped bit in a rows event in its middle, and where that event stands."""
    places = binlogio.read_rows(LOG).to_table().column("pos").to_pylist()
    at = places[len(places) // 2]
    data = bytearray(LOG.read_bytes())
    data[at + 25] ^= 1
    path = tmp_path / LOG.name
    path.write_bytes(data)
    return path, at


def positions(batches: list[pa.RecordBatch]) -> list[Any]:
    """Where the records stand."""
    return [(row["pos"], row["row"]) for batch in batches for row in batch.to_pylist()]


def test_failfast_names_file_and_place(damaged: tuple[Path, int]) -> None:
    """It is the default."""
    path, at = damaged
    with pytest.raises(ChecksumMismatch) as failure:
        tasks(path)

    assert (failure.value.file, failure.value.offset) == (str(path), at)


@pytest.mark.parametrize("max_bytes", ["100", "700", "1000000"])
def test_dropmalformed_goes_on_with_the_next_group(damaged: tuple[Path, int], max_bytes: str) -> None:
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
        pytest.param(b"this is a text file\n" * 20, 0, id="text"),
        pytest.param(LOG.read_bytes()[:-7], None, id="cut"),
    ],
)
def test_files_that_are_no_logs_are_named(tmp_path: Path, content: bytes, records: int | None) -> None:
    """An error that names the file; in the other modes what there is before it."""
    path = tmp_path / "binlog.000001"
    path.write_bytes(content)
    with pytest.raises(BinlogError) as failure:
        tasks(path)
    found = positions(tasks(path, mode="DROPMALFORMED"))

    assert failure.value.file == str(path)
    assert str(path) in str(failure.value)
    assert found == (positions(tasks(LOG)) if records is None else [])
