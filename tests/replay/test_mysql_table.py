"""Changes of a server's table as SQL: what cannot be written, and what a server says that was done already."""

from __future__ import annotations

import click
import pytest

from binlogio.errors import ReplayError, Surface
from binlogio.events.base import DEFAULT_CONTEXT
from binlogio.replay.find_row import Index
from binlogio.replay.targets.mysql.senders import done_already
from binlogio.replay.targets.mysql.table import MysqlTable
from binlogio.replay.targets.mysql.values import condition_of, literal_of
from binlogio.rows.plan import resolve_plan
from binlogio.schema import ColumnDefinition, TableDefinition
from binlogio.values.json import JsonDiff, JsonDiffOperation, JsonDiffs, JsonDocument
from binlogio_cli.commands.replay import command


def test_partial_update_that_sql_cannot_write_is_refused_with_an_option_that_is_there() -> None:
    """The hint names a value that `binlogio replay --apply` takes."""
    columns = (ColumnDefinition("id", "int", nullable=False), ColumnDefinition("doc", "json"))
    plan = resolve_plan(TableDefinition("shop", "orders", columns, ("id",)).table_map(1, "FULL"), DEFAULT_CONTEXT)
    key = Index("PRIMARY", ((0, 0),), is_unique=True, is_primary=True)
    table = MysqlTable(plan, [("id", False, False), ("doc", True, False)], (key,), is_mariadb=False)
    diffs = JsonDiffs([JsonDiff(JsonDiffOperation.REPLACE, "$.a", JsonDocument.from_text("1"))])

    with pytest.raises(ReplayError) as caught:
        table.update((1, JsonDocument.from_text("{}")), (1, diffs))

    (how,) = (option.type for option in command.params if "--apply" in option.opts)
    assert isinstance(how, click.Choice)
    caught.value.surface = Surface.COMMAND_LINE
    assert any(str(caught.value).endswith(f"(apply row events instead of SQL: --apply {one})") for one in how.choices)


def test_mysql_that_hung_up_has_not_done_a_statement() -> None:
    """Error 4031 of MariaDB is a trigger that does not exist; of MySQL, the end of an idle connection."""
    assert 4031 in done_already(is_mariadb=True)
    assert 4031 not in done_already(is_mariadb=False)


def test_vector_is_written_as_its_bytes() -> None:
    """STRING_TO_VECTOR refuses subnormal numbers, and VEC_FromText loses the sign of -0."""
    columns = (ColumnDefinition("id", "int", nullable=False), ColumnDefinition("v", "vector(2)"))
    plan = resolve_plan(TableDefinition("shop", "orders", columns, ("id",)).table_map(1, "FULL"), DEFAULT_CONTEXT)
    column = plan.columns[1]
    value = (1e-40, -0.0)

    assert literal_of(column, is_mariadb=False)(value) == "x'c216010000000080'"
    assert condition_of(column, "v", is_mariadb=False)(value) == "HEX(`v`) = HEX(x'c216010000000080')"
