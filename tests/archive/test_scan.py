"""`scan`: lazy frames of Polars have the rows of `read_rows`, and what they ask for is not decoded in vain."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import polars as pl
import pytest

import binlogio
from binlogio import EventFilter, Range, read_rows, scan
from binlogio.archive.scan import pushed_down
from corpus import FIXTURES, MYSQL

LOGS = MYSQL / "rowimage_full"
TABLE = "corpus.pk"
MOMENT = datetime(2026, 11, 20, 20, 22, 51, tzinfo=timezone.utc)
SECONDS = int(MOMENT.timestamp())


def rows() -> list[dict[str, Any]]:
    return list(read_rows(LOGS, table=TABLE).to_table().to_pylist())


def test_a_frame_has_the_rows_of_the_table() -> None:
    frame = scan(LOGS, table=TABLE)

    assert frame.collect().to_dicts() == rows()
    assert list(frame.collect_schema()) == list(rows()[0])


def test_columns_limits_and_conditions_give_what_python_gives() -> None:
    frame, expected = scan(LOGS, table=TABLE), rows()
    middle = expected[len(expected) // 2]["pos"]

    assert frame.select("op", "pos").collect().rows() == [(one["op"], one["pos"]) for one in expected]
    assert frame.head(3).collect().to_dicts() == expected[:3]
    assert (
        frame.filter(pl.col("pos") >= middle).head(2).collect().to_dicts()
        == [one for one in expected if one["pos"] >= middle][:2]
    )
    assert frame.filter(pl.col("op").is_in(["delete", "update"]), pl.col("pos") <= middle).collect().to_dicts() == [
        one for one in expected if one["op"] != "insert" and one["pos"] <= middle
    ]
    assert frame.filter(pl.col("after").is_null()).select("op").unique().collect().rows() == [("delete",)]
    assert frame.filter(pl.col("pos") != middle).collect().height == sum(one["pos"] != middle for one in expected)


@pytest.mark.parametrize(
    ("predicate", "expected"),
    [
        (pl.col("pos") == 5, EventFilter(pos=Range(5, 6))),
        (pl.lit(5) < pl.col("pos"), EventFilter(pos=Range(6))),
        ((pl.col("pos") >= 5) & (pl.col("pos") < 9), EventFilter(pos=Range(5, 9))),
        (pl.col("pos").is_between(5, 9), EventFilter(pos=Range(5, 10))),
        (pl.col("op") == "delete", EventFilter(ops=frozenset({"delete"}))),
        (pl.col("op").is_in(["delete", "insert"]), EventFilter(ops=frozenset({"delete", "insert"}))),
        (pl.col("server_id") == 7, EventFilter(server_ids=frozenset({7}))),
        (pl.col("gtid") == "0-1-5", EventFilter(gtids=frozenset({"0-1-5"}))),
        (pl.col("timestamp") >= MOMENT, EventFilter(timestamp=Range(SECONDS))),
        (pl.col("timestamp") > MOMENT, EventFilter(timestamp=Range(SECONDS + 1))),
        (pl.col("timestamp") < MOMENT + timedelta(microseconds=1), EventFilter(timestamp=Range(end=SECONDS + 1))),
        (pl.col("timestamp") <= MOMENT, EventFilter(timestamp=Range(end=SECONDS + 1))),
        ((pl.col("op") == "delete") | (pl.col("pos") == 5), EventFilter()),
        ((pl.col("op") == "delete") & (pl.col("row") == 5), EventFilter(ops=frozenset({"delete"}))),
        (~(pl.col("op") == "delete"), EventFilter()),
        (pl.col("pos") + 1 == 5, EventFilter()),
    ],
    ids=range(16),
)
def test_conditions_become_a_filter_of_events(predicate: pl.Expr, expected: EventFilter) -> None:
    assert pushed_down(predicate) == expected


def test_columns_of_the_table_are_not_decoded_unless_they_are_selected() -> None:
    """A zero date is refused where its column is decoded."""
    frame = scan(MYSQL / "types_temporal", table="corpus.t_date_year")

    assert frame.select("op").collect().height > 0
    with pytest.raises(binlogio.BinlogError, match="zero or invalid date"):
        frame.select("after").collect()


def test_a_wide_decimal_is_text() -> None:
    frame = scan(MYSQL / "types_decimal", table="corpus.t_decimal", columns=["d65_30"])

    assert frame.collect_schema()["after"] == pl.Struct({"d65_30": pl.String})
    assert frame.collect().height > 0


def test_a_table_without_rows_is_empty_if_its_columns_are_known() -> None:
    frame = scan(LOGS, table="a.b", definitions={"a.b": "CREATE TABLE b (id int)"})

    assert frame.collect().height == 0
    with pytest.raises(binlogio.BinlogFormatError, match="no row of the table"):
        scan(LOGS, table="a.c").collect()


def test_every_typed_fixture_is_a_frame() -> None:
    for directory in sorted(FIXTURES.glob("m*/types*")):
        names = {name for name, _ in binlogio.read_tables(directory, zero_dates="null")}
        for name in names:
            expected = read_rows(directory, table=name, zero_dates="null").to_table().num_rows
            assert scan(directory, table=name, zero_dates="null").collect().height == expected
