"""Partitions: however logs are cut and packed, every record comes once."""

from __future__ import annotations

import os
import random
from collections import Counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import binlogio
from binlogio.splits import Split
from binlogio.storage import LogFile
from corpus import FIXTURES, MYSQL
from pyspark_binlogio.options import BinlogOptions
from spark_frames import tasks

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("pyspark.sql.datasource")
from pyspark_binlogio.partitions import OPEN_COST_BYTES, LogPartition, Piece, partitions

LOGS = sorted(
    path for path in FIXTURES.glob("*/*/*.0000*") if path.parent.name not in ("encrypted", "types_old_temporal")
)  # the one needs a key, the other table definitions
PLACE = ["file", "pos", "row", "op", "gtid", "schema", "table"]


def places(batches: list[pa.RecordBatch]) -> Counter[Any]:
    """How often each record came."""
    return Counter(tuple(row.values()) for batch in batches for row in batch.select(PLACE).to_pylist())


@pytest.mark.parametrize(
    "path", LOGS, ids=lambda path: f"{path.parent.parent.name}-{path.parent.name}-{path.suffix[1:]}"
)
def test_every_record_comes_once_whatever_the_size_of_partitions(path: Path) -> None:
    """Sizes from less than an event to more than the file."""
    expected = places(binlogio.read_rows(path).to_table().to_batches())
    dice = random.Random(str(path.name))
    size = path.stat().st_size
    for max_bytes in (
        size + 1,
        *(int(2 ** dice.uniform(6, size.bit_length())) for _ in range(int(os.environ.get("BINLOGIO_SPLITS", "4")))),
    ):
        found = places(tasks(path, maxPartitionBytes=str(max_bytes)))

        assert found == expected, max_bytes


def test_small_files_share_a_partition_and_big_ones_are_cut() -> None:
    """Opening a file counts as much as reading four megabytes."""
    small = [LogFile(f"binlog.{number:06d}", 1 << 20) for number in range(1, 51)]
    big = LogFile("binlog.000051", 300 << 20)
    planned = partitions(map(Piece, [*small, big]), 128 << 20)

    pieces = [one.pieces for one in planned if isinstance(one, LogPartition)]
    assert [len(one) for one in pieces] == [26, 24, 1, 1, 1]
    assert 25 * ((1 << 20) + OPEN_COST_BYTES) + (1 << 20) <= 128 << 20
    assert [piece.split for one in pieces[1:] for piece in one if piece.split] == [
        Split(0, 100 << 20),
        Split(100 << 20, 200 << 20),
        Split(200 << 20, 300 << 20),
    ]


def test_compressed_files_are_one_piece_whatever_their_size() -> None:
    """Nobody can begin in the middle of one."""
    planned = partitions([Piece(LogFile("binlog.000001.zst", 1 << 40))], 1 << 20)

    assert len(planned) == 1


def test_a_thousand_gigabytes_are_planned_without_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files are looked up, not opened: their contents are nothing to the driver."""
    for number in range(1, 1001):
        with (tmp_path / f"binlog.{number:06d}").open("wb") as file:
            file.truncate(1 << 30)
    opened: list[Any] = []
    monkeypatch.setattr(LogFile, "open", lambda *args: opened.append(args))
    from pyspark_binlogio.log_files import find_log_files  # noqa: PLC0415

    logs = find_log_files(BinlogOptions.parse({"path": f"{tmp_path}/binlog.*"}))
    planned = partitions(map(Piece, logs), 128 << 20)

    assert len(planned) == 8000
    assert opened == []


@pytest.mark.parametrize("view", ["events", "transactions"])
def test_other_views_are_cut_in_the_same_way(view: str) -> None:
    """Each event and each transaction once, in the order of the log."""
    path = MYSQL / "gtid_on" / "binlog.000001"
    whole = pa.Table.from_batches(tasks(path, view=view))
    for max_bytes in (50, 333, 1000, 3000):
        assert pa.Table.from_batches(tasks(path, view=view, maxPartitionBytes=str(max_bytes))).equals(whole)
