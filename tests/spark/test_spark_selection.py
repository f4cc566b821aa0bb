"""A query of Spark selects the same row changes as the commands, by options and by filters of the data frame."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from binlogio.dotted_names import dotted_name
from random_selections import Change, Choice, Logs, write

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def changes(spark: SparkSession, choice: Choice) -> Counter[Change]:
    """Return the selected changes; the names of databases and excluded tables are compared here."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - the usual name; Spark is optional

    rows = spark.read.format("binlog").options(**choice.spark_options).load(list(choice.logs.files))
    if choice.ops:
        rows = rows.where(F.col("op").isin(*choice.ops))
    if choice.server is not None:
        rows = rows.where(F.col("server_id") == choice.server)
    if choice.least is not None:
        totals = [F.get_json_object(image, "$.total").cast("int") for image in ("before", "after")]
        rows = rows.where((totals[0] > choice.least) | (totals[1] > choice.least))
    key = F.get_json_object(F.coalesce("after", "before"), "$.id").cast("int")
    found: Counter[Change] = Counter()
    for one in rows.select("schema", "table", "op", key.alias("id")).collect():
        if choice.names.wants(one.schema, one.table):
            found[dotted_name(one.schema, one.table), one.op, one.id] += 1
    return found


@pytest.mark.parametrize("seed", range(2))
def test_a_query_selects_what_the_commands_select(spark: SparkSession, seed: int, tmp_path: Path) -> None:
    logs, source = Logs(write(tmp_path, seed)), random.Random(seed)
    choices = [Choice(logs, source) for _ in range(8)]

    assert [changes(spark, one) for one in choices] == [one.expected() for one in choices]
