"""Writes of Spark that are refused: records out of order, columns and options that do not fit, folders in use.

Nothing is written.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from binlogio.errors import BinlogFormatError, UnsupportedFeature, WriterStateError
from corpus import MYSQL
from spark_frames import TYPES_INT, tasks
from spark_writes import cut, folder_of, numbered, write

pytest.importorskip("pyspark.sql.datasource")
from pyspark_binlogio.options import BinlogOptionError

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize(
    "order", [pytest.param((1, 0), id="swapped in a task"), pytest.param((0, 0), id="twice in a task")]
)
def test_records_out_of_order_are_refused(order: tuple[int, int], tmp_path: Path) -> None:
    """With the name of the helper that puts them in order."""
    parts = cut(numbered(range(1, 3)), 2)
    with pytest.raises(BinlogFormatError, match=r"pyspark_binlogio\.in_transaction_order") as failure:
        write([pa.concat_tables([parts[i] for i in order])], tmp_path)

    assert "binlog.000007:" in str(failure.value)
    assert folder_of(tmp_path) == {}


def test_tasks_that_overlap_or_share_a_transaction_are_refused(tmp_path: Path) -> None:
    """A transaction is never cut, and never written twice."""
    whole = numbered(range(1, 5), rows=3)
    with pytest.raises(BinlogFormatError, match=r"out of order or duplicated.*in_transaction_order"):
        write([whole.filter(pa.array([i % 2 == 0 for i in range(12)])), whole.slice(1, 1)], tmp_path)
    with pytest.raises(
        BinlogFormatError, match=r"the records of a transaction are split between two tasks.*in_transaction_order"
    ):
        write([whole.slice(0, 4), whole.slice(4)], tmp_path)
    assert folder_of(tmp_path) == {}


@pytest.mark.parametrize(
    ("change", "options", "error", "sentence"),
    [
        (
            lambda t: t.rename_columns(
                [
                    "file",
                    "pos",
                    "row",
                    "op",
                    "timestamp",
                    "server_id",
                    "gtid",
                    "sequence_number",
                    "schema",
                    "tablet",
                    "before",
                    "after",
                ]
            ),
            {},
            BinlogOptionError,
            "has no column 'tablet'; did you mean 'table'",
        ),
        (lambda t: t.drop_columns(["op"]), {}, BinlogOptionError, "missing from the records to write: op;"),
        (
            lambda t: t.drop_columns(["before", "after"]),
            {},
            BinlogOptionError,
            "missing from the records to write: before or after;",
        ),
        (lambda t: t, {"view": "rows"}, BinlogOptionError, "option view is for reads only, and this is a write"),
        (lambda t: t, {"serverVersion": "5.5.62"}, BinlogOptionError, "expected MySQL 5.6 or later"),
        (lambda t: t, {"serverVersion": "10.0.38-MariaDB"}, BinlogOptionError, "or MariaDB 10.1 or later"),
        (
            lambda t: t,
            {"serverVersion": "10.11.6-MariaDB"},
            UnsupportedFeature,
            "not a GTID of MariaDB, whose logs are written, found '3e11fa47",
        ),
        (
            lambda t: t.set_column(6, "gtid", pa.nulls(len(t), pa.string())),
            {"serverVersion": "10.11.6-MariaDB"},
            UnsupportedFeature,
            "MariaDB has a GTID for each transaction",
        ),
        (
            lambda t: t.set_column(6, "gtid", pa.array(["0-1-6", "0-1-6", "0-1-5", "0-1-5"])),
            {"serverVersion": "10.11.6-MariaDB"},
            BinlogFormatError,
            "already contain transactions with these GTIDs, or later ones, found 0-1-5",
        ),
        (
            lambda t: t,
            {"serverVersion": "10.0.1"},
            UnsupportedFeature,
            "writing logs of this server version is not supported",
        ),
        (
            lambda t: t.set_column(3, "op", pa.array(["upsert"] * len(t))),
            {},
            BinlogFormatError,
            "expected insert, update, delete: found 'upsert'|'upsert'",
        ),
        (
            lambda t: t.set_column(3, "op", pa.array(["delete"] * len(t))),
            {},
            BinlogFormatError,
            "a record of a delete has no before image",
        ),
        (
            lambda t: t.set_column(6, "gtid", pa.array(["0-1-5"] * len(t))),
            {},
            UnsupportedFeature,
            "set the column gtid to NULL",
        ),
        (lambda t: t.set_column(5, "server_id", pa.array([1 << 40] * len(t))), {}, BinlogFormatError, "server_id"),
        (
            lambda t: t.set_column(11, "after", pa.array(["{}"] * len(t))).drop_columns(["before"]),
            {},
            BinlogOptionError,
            "option schemaFile",
        ),
        (
            lambda t: t.append_column("after_present", pa.array([b"\x0f"] * len(t))),
            {},
            BinlogFormatError,
            "bitmap of a record is that of a table with other columns",
        ),
    ],
)
def test_what_cannot_be_written_is_refused_with_its_reason(
    change: Callable[[pa.Table], pa.Table],
    options: dict[str, str],
    error: type[Exception],
    sentence: str,
    tmp_path: Path,
) -> None:
    """By the driver if the columns show it, by the task if the values do; nothing is written."""
    with pytest.raises(error, match=sentence):
        write([change(numbered(range(1, 3)))], tmp_path, overwrite=False, **options)
    assert folder_of(tmp_path) == {}


def test_record_that_cannot_be_written_is_named_with_its_place(tmp_path: Path) -> None:
    """The log and the position that the record has, whatever the error says besides."""
    good = numbered(range(1, 3))
    bitmaps = pa.array([b"\x03", b"\x03", b"\x0f", b"\x03"])
    with pytest.raises(BinlogFormatError, match=r"binlog\.000007: at 200: shop\.orders: the bitmap") as failure:
        write([good.append_column("after_present", bitmaps)], tmp_path)

    assert "give the table's definition in option schemaFile" in str(failure.value)


def test_folder_whose_last_log_is_in_use_is_refused(tmp_path: Path) -> None:
    """A server writes there."""
    (tmp_path / "binlog.000001").write_bytes((MYSQL / "in_use" / "binlog.000001").read_bytes())
    with pytest.raises(WriterStateError, match=r"binlog\.000001: the last log is in use"):
        write([numbered(range(1, 3))], tmp_path)


def test_options_of_a_write_are_refused_in_a_read(tmp_path: Path) -> None:
    """By name."""
    with pytest.raises(BinlogOptionError, match="option basename is for writes only, and this is a read"):
        tasks(TYPES_INT, basename="binlog")
