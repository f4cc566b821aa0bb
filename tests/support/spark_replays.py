"""Replays on Spark, and their tables in the form of `expected.json`."""

from __future__ import annotations

import json
from collections import Counter
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from binlogio.arrow.values import as_value
from binlogio.constants import ColumnType
from binlogio.values.absent import ABSENT
from binlogio.values.enum_set import EnumValue, SetValue
from expected_values import ours, shown_document

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from binlogio.rows.plan import TablePlan
    from binlogio.values.column import ColumnPlan
    from pyspark_binlogio.state import LogReplay


def opened(spark: SparkSession, logs: Iterable[Path], keys: Path | None = None) -> LogReplay:
    """Return logs, looked through."""
    from pyspark_binlogio.state import LogReplay  # noqa: PLC0415 - there may be no Spark

    options = {"zeroDates": "text", **({"keyring": str(keys)} if keys is not None else {})}
    return LogReplay.open(spark, [str(log) for log in logs], [], None, options)


def rows_of(state: DataFrame, table: dict[str, Any], plan: TablePlan, unknown: set[str]) -> Counter[tuple[Any, ...]]:
    """Return the rows of a state in the form of `expected.json`.

    Without an image that has it, the value of a column of `unknown` is undetermined.
    """
    columns = []
    for array, spec, column in zip(state.toArrow().columns, table["columns"], plan.columns, strict=True):
        null = ABSENT if column.label.casefold() in unknown else None
        if spec["encoding"] == "json" and column.type == ColumnType.JSON:
            documents = (shown_document(text) if text is not None else None for text in array.to_pylist())
            columns.append([json.dumps(one, sort_keys=True) if one is not None else null for one in documents])
            continue
        columns.append(
            [ours(_value(value, column), spec, column) if value is not None else null for value in array.to_pylist()]
        )
    return Counter(zip(*columns, strict=True))


def unknown(replay: LogReplay, name: str) -> set[str]:
    """Columns that inserts may lack and whose default is not in the log, such as generated ones."""
    schema, _, table = name.partition(".")
    life = replay.history.life((schema, table))
    if replay.history.images_of(life.stretches).whole_after:
        return set()
    return {column for column, default in life.now.defaults.items() if not default.is_known}


def _value(value: Any, column: ColumnPlan) -> Any:
    """Return a value of Spark as the reader gives it."""
    if column.type == ColumnType.NEWDECIMAL:
        return Decimal(value)
    if isinstance(value, Decimal):
        return int(value)
    if column.type == ColumnType.ENUM and column.members is not None:
        return EnumValue(value, column.members.index(value) + 1 if value in column.members else 0)
    if column.type == ColumnType.SET and column.members is not None:
        chosen = value.split(",") if value else []
        return SetValue(value, sum(1 << column.members.index(one) for one in chosen))
    return as_value(value, column)
