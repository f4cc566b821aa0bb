"""Filters that Spark pushes: what is taken is exact, what is not taken stays Spark's, whatever the setting says."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import pytest

from binlogio.selection.event_filter import EventFilter, Range
from corpus import MYSQL
from pyspark_binlogio.read import NOTHING_PUSHED, push
from pyspark_binlogio.session import SETTINGS
from pyspark_binlogio.views import VIEWS
from spark_frames import load

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

datasource = pytest.importorskip("pyspark.sql.datasource")
GTID_ON = MYSQL / "gtid_on" / "binlog.000001"
ROWS = VIEWS["rows"]


def pushed(*filters: Any) -> tuple[Any, list[Any]]:
    """Return the filters that the view `rows` accepts, and those that it gives back."""
    return push(filters, ROWS.filters, ROWS.never_null())


def moment(seconds: int, microseconds: int = 0) -> datetime:
    """Return a time as Spark gives it."""
    return datetime.fromtimestamp(seconds, timezone.utc).replace(microsecond=microseconds)


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("EqualTo", moment(5), Range(5, 6)),
        ("EqualTo", moment(5, 1), Range(6, 6)),
        ("GreaterThan", moment(5), Range(start=6)),
        ("GreaterThan", moment(5, 1), Range(start=6)),
        ("GreaterThanOrEqual", moment(5), Range(start=5)),
        ("GreaterThanOrEqual", moment(5, 1), Range(start=6)),
        ("LessThan", moment(5), Range(end=5)),
        ("LessThan", moment(5, 1), Range(end=6)),
        ("LessThanOrEqual", moment(5), Range(end=6)),
        ("LessThanOrEqual", moment(5, 1), Range(end=6)),
    ],
)
def test_bounds_of_time_are_whole_seconds_that_mean_the_same(kind: str, value: datetime, expected: Range) -> None:
    """Events have whole seconds, a query may have microseconds."""
    found, rest = pushed(getattr(datasource, kind)(("timestamp",), value))

    assert found.events == EventFilter(timestamp=expected)
    assert rest == []


def test_several_filters_hold_together() -> None:
    """A range from two sides, sets that are cut, a null that is never equal."""
    found, rest = pushed(
        datasource.GreaterThan(("pos",), 10),
        datasource.LessThanOrEqual(("pos",), 20),
        datasource.In(("op",), ("insert", "update", None)),
        datasource.EqualTo(("op",), "update"),
        datasource.EqualTo(("file",), "/a"),
        datasource.IsNotNull(("pos",)),
    )

    assert found.events == EventFilter(pos=Range(11, 21), ops=frozenset({"update"}))
    assert found.files == {"/a"}
    assert rest == []
    assert pushed(datasource.EqualTo(("op",), None))[0].is_empty


def test_what_cannot_be_kept_exactly_is_given_back() -> None:
    """Columns that are not the view's place, nested ones, kinds without a meaning here, nulls that may be there."""
    filters = [
        datasource.EqualTo(("before", "id"), 1),
        datasource.EqualTo(("sequence_number",), 1),
        datasource.StringStartsWith(("table",), "t"),
        datasource.IsNotNull(("gtid",)),
        datasource.Not(datasource.EqualTo(("op",), "insert")),
        datasource.GreaterThan(("op",), "insert"),
    ]

    assert pushed(*filters) == (NOTHING_PUSHED, filters)


def test_places_in_a_list_narrow_the_range_and_are_looked_at_again() -> None:
    """IN on a range column is no range, but nothing outside of its ends can be meant."""
    one = datasource.In(("pos",), (30, 10, 20))
    found, rest = pushed(one)

    assert found.events.pos == Range(10, 31)
    assert rest == [one]


@pytest.mark.spark
@pytest.mark.parametrize("setting", ["true", "false"])
@pytest.mark.parametrize("view", ["rows", "events", "transactions"])
def test_filters_give_the_same_rows_pushed_or_not(spark: SparkSession, setting: str, view: str) -> None:
    """Each filter against the same filter on records that are already there."""
    before = spark.conf.get("spark.sql.python.filterPushdown.enabled")
    spark.conf.set("spark.sql.python.filterPushdown.enabled", setting)
    try:
        frame = load(spark, GTID_ON, view=view)
        kept = frame.cache()
        some = kept.orderBy("pos").collect()[kept.count() // 2]
        wheres = [
            f"pos > {some.pos}",
            f"pos <= {some.pos}",
            f"gtid = '{some.gtid}' AND server_id = {some.server_id}",
            f"timestamp >= '{some.timestamp}'",
            f"file = '{GTID_ON}' AND timestamp IS NOT NULL",
            "file = 'elsewhere'",
            "gtid IS NULL",
        ]
        if view == "rows":
            wheres += [f"op = '{some.op}'", f"table IN ('{some.table}', 'x')", "schema = 'nowhere'", "op <> 'insert'"]
        expected = list(kept.selectExpr(*(f"count_if({where})" for where in wheres)).first() or ())
        kept.unpersist()
        again = load(spark, GTID_ON, view=view)

        assert [again.where(where).count() for where in wheres] == expected
        assert any(0 < count < sum(expected) for count in expected)
    finally:
        spark.conf.set("spark.sql.python.filterPushdown.enabled", before or "true")


@pytest.mark.spark
def test_a_frame_has_all_rows_after_a_filter_on_it(spark: SparkSession) -> None:
    """With the settings of `binlogio_session`: with filter pushdown Spark would plan the filter again."""
    name = "spark.sql.python.filterPushdown.enabled"
    before = spark.conf.get(name)
    spark.conf.set(name, SETTINGS.get(name, "false"))
    try:
        frame = load(spark, GTID_ON)
        none = frame.where("file = 'elsewhere'")

        assert none.count() == 0
        assert frame.count() == load(spark, GTID_ON).count() > 0
        assert none.union(frame).count() == frame.count()
    finally:
        spark.conf.set(name, before or "true")


@pytest.mark.spark
def test_explain_shows_what_was_taken_and_what_is_left(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    """EXPLAIN FORMATTED has the filters that were pushed; what Spark looks at again is a Filter above the scan."""
    load(spark, GTID_ON).where("pos > 10 AND op = 'insert'").explain("formatted")
    taken = capsys.readouterr().out
    load(spark, GTID_ON).where("pos > 10 AND sequence_number > 3").explain("formatted")
    some = capsys.readouterr().out

    assert "PushedFilters: [IsNotNull(pos), IsNotNull(op), GreaterThan(pos,10), EqualTo(op,insert)]" in taken
    assert "Filter" not in taken.replace("PushedFilters", "")
    assert "PushedFilters: [IsNotNull(pos), GreaterThan(pos,10)]" in some
    assert "Condition : (isnotnull(sequence_number" in some
