"""Replay on Spark, on changes made to order: which row is left, of which columns, and what stops a replay."""

from __future__ import annotations

from datetime import datetime, timezone
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PythonException
from pyspark.sql import functions as F  # noqa: N812

from binlogio import BinlogWriter, Delete, Insert, Statement
from binlogio.errors import ReplayError
from binlogio.schema import ColumnDefinition, TableDefinition
from changed_rows import ORDERS, UUID, changes, held, row
from corpus import FIXTURES, MYSQL
from pyspark_binlogio import replay
from pyspark_binlogio.options import BinlogOptionError
from spark_frames import load

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from binlogio.replay import UntilLike

pytestmark = pytest.mark.spark

COLUMNS = {
    "i": ColumnDefinition("id", "int", nullable=False),
    "a": ColumnDefinition("a", "int"),
    "b": ColumnDefinition("b", "varchar(9)"),
    "c": ColumnDefinition("c", "int"),
}
DDL_MIX = MYSQL / "ddl_mix" / "binlog.000001"


def test_key_that_is_given_up_and_taken_again_belongs_to_the_last_row(spark: SparkSession) -> None:
    """Whole images: an update of the key ends one row and begins another."""
    frame = changes(
        spark,
        (None, row(1, "a")),
        (None, row(2, "b")),
        (row(1, "a"), row(3, "a")),
        (row(2, "b"), row(1, "b")),
        (row(3, "a"), None),
        (None, row(2, "c")),
    )

    assert held(replay(spark, frame, ORDERS)) == [(1, "b", None), (2, "c", None)]
    assert held(replay(spark, frame, "shop.orders", key=["id"])) == [(1, "b", None), (2, "c", None)]


def test_absent_column_keeps_its_value_and_null_takes_it_away(spark: SparkSession) -> None:
    """Minimal images, through two changes of the key."""
    frame = changes(
        spark,
        (None, row(1, "new", 5)),
        ({"id": 1}, {"state": "paid"}),
        ({"id": 1}, {"id": 7}),
        ({"id": 7}, {"total": None}),
        (None, row(1, "other")),
        ({"id": 7}, {"id": 8, "state": "sent"}),
        (None, row(9, "gone")),
        ({"id": 9}, None),
    )

    assert held(replay(spark, frame, ORDERS)) == [(1, "other", None), (8, "sent", None)]


def test_base_holds_until_changes_touch_it(spark: SparkSession) -> None:
    """With whole images, and with partial ones, whose absent columns come from the base."""
    base = spark.createDataFrame(
        [(1, "base", None), (2, "base", None), (3, "base", None)], "id int, state string, total decimal(10,2)"
    )
    whole = changes(spark, (row(1, "base"), row(1, "new")), (row(2, "base"), None))
    partial = changes(spark, ({"id": 1}, {"total": Decimal(4)}), ({"id": 2}, None))

    assert held(replay(spark, whole, ORDERS, base)) == [(1, "new", None), (3, "base", None)]
    assert [found[:2] for found in held(replay(spark, partial, ORDERS, base))] == [(1, "base"), (3, "base")]


def test_generated_columns_that_an_update_lacks_are_null(spark: SparkSession) -> None:
    """MariaDB 11.8.9 leaves them out of updates and deletes. Without a key the rows cannot be told apart."""
    log = FIXTURES / "mariadb118" / "generated_columns" / "binlog.000001"

    computed = replay(spark, log, "corpus.computed").collect()
    assert sorted(map(tuple, computed), key=str) == [(1, 11, "x", None, None), (30, None, "z", None, None)]
    for name in ("in_key", "keyless"):
        with pytest.raises(ReplayError, match="is unknown: MariaDB leaves generated columns out"):
            replay(spark, log, f"corpus.{name}")


def test_table_without_a_key_is_a_multiset(spark: SparkSession) -> None:
    """The same row twice is two rows; whole before images find one of them."""
    frame = changes(
        spark,
        (None, row(1, "a")),
        (None, row(1, "a")),
        (None, row(1, "a")),
        (row(1, "a"), None),
        (row(1, "a"), {"state": "b"}),
    )

    assert held(replay(spark, frame, "shop.orders")) == [(1, "a", None), (1, "b", None)]


def test_changes_of_other_tables_do_not_count(spark: SparkSession) -> None:
    """A frame of several tables is no reason to mix them."""
    frame = changes(spark, (None, row(1, "a"))).unionByName(changes(spark, (None, row(2, "b")), schema="other"))

    assert held(replay(spark, frame, ORDERS)) == [(1, "a", None)]


def test_until_stops_behind_a_time_a_position_or_a_set(spark: SparkSession) -> None:
    """Each of the first three changes is there, and no later one."""
    frame = changes(spark, *((None, row(number)) for number in range(6)))
    moments: list[UntilLike] = [datetime(2026, 1, 1, 0, 0, 2), datetime(2026, 1, 1, 0, 0, 2, tzinfo=timezone.utc)]

    for until in [*moments, ("log.000001", 300), f"{UUID}:1-3"]:
        assert [found[0] for found in held(replay(spark, frame, ORDERS, until=until))] == [0, 1, 2]


def test_json_images_with_a_definition_are_as_good_as_typed_ones(spark: SparkSession) -> None:
    """The same rows from the same log."""
    log = MYSQL / "types_int" / "binlog.000001"
    typed = load(spark, log, table="corpus.t_int", followDdl="false")  # the definition has names of its own
    names = ["id", *(f"c{number}" for number in range(1, 14))]
    types = [
        "int",
        "tinyint",
        "tinyint unsigned",
        "smallint",
        "smallint unsigned",
        "mediumint",
        "mediumint unsigned",
        "int",
    ]
    types += ["int unsigned", "bigint", "bigint unsigned", "int unsigned", "bigint", "int"]
    definition = TableDefinition.from_json(
        {
            "schema": "corpus",
            "name": "t_int",
            "columns": [{"name": name, "type": kind} for name, kind in zip(names, types, strict=True)],
            "primary_key": ["id"],
        }
    )
    of_json = replay(spark, load(spark, log, followDdl="false"), definition).collect()
    of_structs = replay(spark, typed, definition).collect()
    of_logs = replay(spark, log, "corpus.t_int").collect()

    assert sorted(of_json) == sorted(of_structs) == sorted(of_logs)
    assert len(of_json) == 10


@pytest.mark.parametrize(
    ("names", "images"),
    [
        (("id", "state", "sum"), [row(1, "a", 2)]),  # renamed: its values would be NULL
        (("id", "total"), [row(1, "a", 2)]),  # one more in the log
        (("id", "note", "state", "total"), [row(1, "a", 2)]),  # one less, so that bits are those of other columns
        (("id", "total", "state"), [{"id": 1}, {"id": 1, "total": Decimal(2)}]),  # in another order
    ],
)
def test_json_images_of_other_columns_than_the_definition_are_refused(
    spark: SparkSession, names: tuple[str, ...], images: list[dict[str, object]]
) -> None:
    """A value that no column takes is not left out in silence."""
    frame = changes(spark, *((None, image) for image in images))
    options = {"ignoreNullFields": "true" if len(images) > 1 else "false"}
    frame = frame.withColumns({name: F.to_json(name, options) for name in ("before", "after")})
    types = {"id": "int", "state": "varchar(20)"}
    columns = tuple(ColumnDefinition(name, types.get(name, "decimal(10,2)")) for name in names)
    definition = TableDefinition("shop", "orders", columns, ("id",))

    with pytest.raises(BinlogOptionError, match=r"does not fit the JSON images .* columns id, .*, found id"):
        replay(spark, frame, definition)
    assert held(replay(spark, frame, ORDERS))[0][0] == 1
    frame = frame.withColumn("after", F.lit('{"id": 1, "state"'))
    with pytest.raises(BinlogOptionError, match=r"an image of shop\.orders is not a JSON object"):
        replay(spark, frame, ORDERS)


def test_dropped_partition_is_refused_and_can_be_ignored(spark: SparkSession) -> None:
    """The message names the file and the place."""
    with pytest.raises(ReplayError, match=r"binlog\.000001: at \d+: a statement empties or fills a partition"):
        replay(spark, DDL_MIX, "corpus.part")

    assert replay(spark, DDL_MIX, "corpus.part", unfollowed="ignore").count() > 0


def test_base_of_a_table_that_begins_in_the_log_does_not_count(spark: SparkSession) -> None:
    """What it held before CREATE TABLE is gone."""
    log = MYSQL / "types_int" / "binlog.000001"
    alone = replay(spark, log, "corpus.t_serial")
    base = spark.createDataFrame([(77, 77)], "s int, v int")

    assert sorted(replay(spark, log, "corpus.t_serial", base).collect()) == sorted(alone.collect())


@pytest.mark.parametrize(
    ("alter", "columns", "after", "expected"),
    [
        ("DROP COLUMN b", "ia", (2, 20), [(1, 10), (2, 20)]),
        ("DROP COLUMN a", "ib", (2, "y"), [(1, "x"), (2, "y")]),
        ("DROP COLUMN a, ADD COLUMN c INT AFTER id", "icb", (2, 5, "y"), [(1, None, "x"), (2, 5, "y")]),
        ("MODIFY c INT AFTER id", "icab", (2, 5, 20, "y"), [(1, 7, 10, "x"), (2, 5, 20, "y")]),
    ],
    ids=["last", "middle", "replaced", "moved"],
)
def test_columns_that_alter_table_drops_or_moves(
    spark: SparkSession, tmp_path: Path, alter: str, columns: str, after: Any, expected: Any
) -> None:
    """Rows of both times have the last columns, in their last order."""
    has_c = alter.startswith("MODIFY")
    create = f"CREATE TABLE t (id INT PRIMARY KEY, a INT, b VARCHAR(9){', c INT' if has_c else ''})"
    before = (1, 10, "x", 7) if has_c else (1, 10, "x")
    with BinlogWriter(tmp_path / "binlog") as log, log.session("d") as session:
        for sql, names, values in ((create, "iabc"[: len(before)], before), (f"ALTER TABLE t {alter}", columns, after)):
            session.ddl(sql)
            table = TableDefinition("d", "t", tuple(COLUMNS[name] for name in names), ("id",))
            session.execute(Statement("INSERT", [Insert(table, [values])]))

    assert sorted(map(tuple, replay(spark, tmp_path / "binlog.000001", "d.t").collect())) == expected


def test_values_that_alter_table_converts(spark: SparkSession, tmp_path: Path) -> None:
    """A value whose result depends on the server is refused, unless its row is gone by then."""
    with BinlogWriter(tmp_path / "binlog") as log, log.session("d") as session:
        for name in ("gone", "there"):
            session.ddl(f"CREATE TABLE {name} (id INT PRIMARY KEY, v VARCHAR(9))")
            old = TableDefinition("d", name, (COLUMNS["i"], ColumnDefinition("v", "varchar(9)")), ("id",))
            new = TableDefinition("d", name, (COLUMNS["i"], ColumnDefinition("v", "int")), ("id",))
            session.execute(Statement("INSERT", [Insert(old, [(1, "12"), (2, None), (3, "none")])]))
            if name == "gone":
                session.execute(Statement("DELETE", [Delete(old, [(3, "none")])]))
            session.ddl(f"ALTER TABLE {name} MODIFY v INT")
            session.execute(Statement("INSERT", [Insert(new, [(4, 4)])]))
    logs = tmp_path / "binlog.000001"

    assert sorted(map(tuple, replay(spark, logs, "d.gone").collect())) == [(1, 12), (2, None), (4, 4)]
    with pytest.raises(PythonException, match=r"d\.there\.v: ALTER TABLE converts a value, .* found 'none'"):
        replay(spark, logs, "d.there").collect()
    ignored = replay(spark, logs, "d.there", unfollowed="ignore").collect()
    assert sorted(map(tuple, ignored)) == [(1, 12), (2, None), (3, None), (4, 4)]


def test_table_that_is_not_there_is_refused(spark: SparkSession) -> None:
    """With the names of those that are."""
    with pytest.raises(ReplayError, match=r"there is no table corpus\.nothing.*corpus\.part"):
        replay(spark, DDL_MIX, "corpus.nothing")


def test_logs_until_a_position_hold_what_was_committed_by_then(spark: SparkSession) -> None:
    """Each further group of the log adds its rows, and a position within a group does not have it."""
    log = MYSQL / "types_int" / "binlog.000001"
    ends = [
        found.end_pos
        for found in load(spark, log, view="transactions").where("array_contains(tables, 'corpus.t_serial')").collect()
    ]
    counts = [
        replay(spark, log, "corpus.t_serial", until=("binlog.000001", position)).count()
        for position in (ends[0] - 1, ends[0], ends[-1])
    ]

    assert counts[0] == 0
    assert counts[1] > 0
    assert counts[2] == replay(spark, log, "corpus.t_serial").count()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"table": "shop.orders", "key": ["nr"]}, "key: shop.orders has no column nr; it has id, state, total"),
        ({"table": "shop.orders", "unfollowed": "never"}, "unfollowed: expected one of error, ignore, found 'never'"),
        ({"table": "shop.orders", "zeroDates": "null"}, "zeroDates: options apply to paths of logs"),
    ],
)
def test_wrong_argument_is_refused(spark: SparkSession, arguments: dict[str, str], message: str) -> None:
    with pytest.raises(BinlogOptionError, match=message):
        replay(spark, changes(spark, (None, row(1))), **arguments)  # type: ignore[arg-type]
