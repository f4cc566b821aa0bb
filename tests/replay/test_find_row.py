"""find_row against the server: what a 9.7 replica did with each case from its relay log is what the model does."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any, Final

import pytest

from binlogio.errors import ReplayError
from binlogio.replay.find_row import Algorithm, Index, RowNotFound, find_row
from binlogio.rows.plan import TablePlan, resolve_plan
from binlogio.schema import TableDefinition, value_from_json
from binlogio.values.absent import ABSENT
from corpus import FIXTURES
from memory_table import NO_DEFAULT, ExecMode, MemoryTable
from type_conversions import TypeConversions

CASES: Final = json.loads((FIXTURES / "find_row.json").read_text("utf-8"))
ENOUGH: Final = 150


def definition(table: dict[str, Any]) -> TableDefinition:
    columns = [{name: value for name, value in column.items() if name != "default"} for column in table["columns"]]
    return TableDefinition.from_json({"schema": "d", "name": "t", "columns": columns})


def plan_of(table: TableDefinition) -> TablePlan:
    return resolve_plan(table.table_map(1), definition=table.plan_columns())


def indexes_of(table: dict[str, Any], definition: TableDefinition) -> tuple[Index, ...]:
    return tuple(
        Index(
            index["name"],
            tuple(
                (definition.column_index(name), length)
                for name, length in zip(index["columns"], index.get("prefixes", [0] * 9), strict=False)
            ),
            is_unique=index.get("unique", False),
            is_primary=index.get("primary", False),
        )
        for index in table["indexes"]
    )


def memory_table(case: dict[str, Any]) -> MemoryTable:
    table = definition(case["target"])
    columns = case["target"]["columns"]
    defaults = tuple(
        value_from_json(column["default"], table.columns[at])
        if "default" in column
        else (None if column.get("nullable", True) else NO_DEFAULT)
        for at, column in enumerate(columns)
    )
    implicit = tuple("" if "char" in column["type"] else 0 for column in columns)
    mode = ExecMode(case["mode"])
    conversions = TypeConversions.NONE
    for name in filter(None, case["conversions"].split(",")):
        conversions |= TypeConversions[name]
    rows = [[stored(v, c) for v, c in zip(row, table.columns, strict=True)] for row in case["rows"]]
    return MemoryTable(plan_of(table), indexes_of(case["target"], table), defaults, implicit, mode, conversions, rows)


def stored(value: Any, column: Any) -> Any:
    """Return a value as the server stores it: CHAR without trailing spaces."""
    found = value_from_json(value, column)
    return found.rstrip(" ") if column.type.startswith("char") and isinstance(found, str) else found


def image(values: dict[str, Any] | None, table: TableDefinition) -> tuple[Any, ...] | None:
    if values is None:
        return None
    return tuple(
        value_from_json(values[column.name], column) if column.name in values else ABSENT for column in table.columns
    )


def shown(value: Any) -> Any:
    """Numbers of all types are one: BIT comes from the server as bytes, DECIMAL with the target's digits."""
    if isinstance(value, bytes):
        return f"0x{value.hex()}"
    try:
        return value if value is None else repr(float(value))
    except ValueError:
        return str(value)


def shown_by_server(value: Any, sql_type: str) -> Any:
    return shown(int(value, 16) if sql_type.startswith("bit") and value is not None else value)


def outcome(case: dict[str, Any]) -> tuple[int, Counter[tuple[Any, ...]]]:
    target, source = memory_table(case), definition(case["source"])
    before, errno = [list(row) for row in target.rows], 0
    try:
        for change in case["changes"]:
            target.apply(plan_of(source), image(change["before"], source), image(change["after"], source))
    except ReplayError as exc:
        errno = int(exc.reason.split()[1].rstrip(":"))
        target.rows = before  # the transaction rolls back
    return errno, Counter(tuple(map(shown, row)) for row in target.rows)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_rows_are_those_that_the_server_changed_and_refusals_are_its_refusals(case: dict[str, Any]) -> None:
    """The same error number, and the same rows."""
    types = [column["type"] for column in case["target"]["columns"]]
    errno, rows = outcome(case)

    assert errno == case["result"]["errno"]
    assert rows == Counter(tuple(map(shown_by_server, row, types)) for row in case["result"]["rows"])


def test_the_table_is_large() -> None:
    """Not fewer cases than were asked for, of which both outcomes are plenty."""
    refused = sum(case["result"]["errno"] != 0 for case in CASES)

    assert len(CASES) >= ENOUGH
    assert min(refused, len(CASES) - refused) > ENOUGH // 2


def test_search_says_its_algorithm_and_counts_it() -> None:
    """By table, for the summary."""
    case = next(case for case in CASES if case["name"] == "delete: primary key, image of full")
    target, source = memory_table(case), definition(case["source"])
    target.apply(plan_of(source), image(case["changes"][0]["before"], source), None)

    assert target.rows_by_algorithm == {Algorithm.INDEX_SCAN: 1}


def test_image_without_anything_in_the_target_is_refused() -> None:
    """R2 of the worklog: the key is declared on columns that the target lacks."""
    source = plan_of(definition({"columns": [{"name": "a", "type": "int"}, {"name": "b", "type": "int"}]}))
    target = plan_of(definition({"columns": [{"name": "a", "type": "int"}]}))

    with pytest.raises(RowNotFound, match="no column that the target has"):
        find_row((ABSENT, 1), source, target, ())
