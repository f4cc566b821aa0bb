"""Replay on Spark gives the tables of real servers, value by value: shuffled records, and any number of partitions.

`expected.json` is the result of SELECT on the server. By default a few cases represent all; with `BINLOGIO_CORPUS`
there are all of them, and `BINLOGIO_PARTITIONS=16` has each of them with every number of partitions up to that.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pytest

from binlogio.errors import ReplayError
from corpus import Case, cases
from expected_values import NOT_AS_THE_SOURCE, expected_row, unlike
from spark_replays import opened, rows_of, unknown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

    from pyspark_binlogio.state import LogReplay

pytestmark = pytest.mark.spark

_USUAL: Final = (1, 3, 16) if "BINLOGIO_CORPUS" in os.environ else (3,)
PARTITIONS: Final = (
    range(1, int(os.environ["BINLOGIO_PARTITIONS"]) + 1) if "BINLOGIO_PARTITIONS" in os.environ else _USUAL
)
_SHUFFLE: Final = "spark.sql.shuffle.partitions"
CHOSEN: Final = (
    "mysql97/altered",  # columns, types, keys and names, with minimal images and metadata
    "mysql97/compressed",  # payloads, and ALTER TABLE in the middle
    "mysql97/ddl_mix",
    "mysql97/format_row",  # XA, savepoints, rollbacks, engines without transactions
    "mysql97/metadata_minimal",
    "mysql97/partial_json",
    "mysql97/rowimage_minimal",
    "mysql97/types_temporal",
    "mariadb1011/gtid",  # ALTER TABLE in two phases
    "mariadb118/unique_hash",  # tables without a key, whose updates lack hidden columns
    "mariadb1011/types",
)
ALL: Final = {case.id: case for case in cases() if case.load("expected.json") is not None}
RUN: Final = [case for name, case in ALL.items() if name in CHOSEN or "BINLOGIO_CORPUS" in os.environ]
# Changes that no row change describes, so the replay refuses them: statements in the log as text, partitions that were
# dropped.
_TEXT: Final = "in the log as text"
_PARTITION: Final = "empties or fills a partition"
UNTOLD: Final = {
    "compressed": {"corpus.t": _TEXT, "corpus.a": _TEXT},
    "ddl_mix": {"corpus.part": _PARTITION},
}


def shuffled(changes: DataFrame, partitions: int) -> DataFrame:
    """Return the records in no order, in so many partitions."""
    from pyspark.sql.functions import rand  # noqa: PLC0415

    return changes.repartition(partitions, rand(partitions)).sortWithinPartitions(rand(partitions + 1))


@pytest.mark.parametrize("case", RUN, ids=lambda case: case.id)
def test_replay_gives_the_tables_of_the_server(spark: SparkSession, case: Case) -> None:
    """Every row of every table."""
    if case.folder.name == "format_statement":
        pytest.skip("the rows of this case are not in its log")
    replay = opened(spark, case.logs, case.keys)
    expected = case.load("expected.json")["tables"]
    for name, table in expected.items():
        if name in NOT_AS_THE_SOURCE.get(case.id, ()):
            continue
        if name in UNTOLD.get(case.folder.name, {}):
            with pytest.raises(ReplayError, match=UNTOLD[case.folder.name][name]):
                replay.state(name)
            continue
        plan = replay.plan(name)
        theirs = Counter(expected_row(row, table, plan) for row in table["rows"])
        for partitions, state in states(spark, replay, name):
            assert [column["name"] for column in table["columns"]] == state.columns, name
            mine = rows_of(state, table, plan, unknown(replay, name))
            only_theirs, only_mine = theirs - mine, mine - theirs
            assert not unlike(only_theirs, only_mine), f"{name}: not in our rows, with {partitions} partitions"
            assert only_mine.total() == only_theirs.total(), f"{name}: only in our rows, with {partitions} partitions"


def states(spark: SparkSession, replay: LogReplay, name: str) -> Iterator[tuple[int, DataFrame]]:
    """Yield the state of a table from shuffled records, by the number of their partitions."""
    from pyspark_binlogio.stages import state_of  # noqa: PLC0415

    stages = [
        (replace(stage, changes=stage.changes.localCheckpoint()), start)
        for stage, start in replay.stages(name, None, "error")
    ]
    usual = str(spark.conf.get(_SHUFFLE))
    for partitions in PARTITIONS:
        spark.conf.set(_SHUFFLE, str(partitions))
        state: DataFrame | None = None
        for stage, start in stages:
            mixed = replace(stage, changes=shuffled(stage.changes, partitions))
            state = state_of(mixed, None if state is None else start(state))
        assert state is not None
        yield partitions, state
    spark.conf.set(_SHUFFLE, usual)
