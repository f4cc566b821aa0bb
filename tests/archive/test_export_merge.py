"""The latest state in a lake, continued: each export merges the changes since the last one, once."""

from __future__ import annotations

from contextlib import suppress
from decimal import Decimal
from random import Random
from typing import TYPE_CHECKING, Any, Final, Literal

import deltalake
import pytest
from click.testing import CliRunner

from binlogio import BinlogWriter, ColumnDefinition, Delete, Insert, ServerVariables, Statement, TableDefinition, Update
from binlogio.archive.export import export
from binlogio.errors import ExportError, MissingLogs, UnsupportedFeature
from binlogio_cli.main import cli
from lake_tables import lake_table

if TYPE_CHECKING:
    from pathlib import Path

Form = Literal["delta", "iceberg"]
Rows = dict[str, dict[Any, tuple[Any, ...]]]
UUID: Final = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
FORMS: Final = ("delta", "iceberg")
ID: Final = ColumnDefinition("id", "int", nullable=False)
ORDERS: Final = TableDefinition(
    "shop",
    "orders",
    (
        ColumnDefinition("id", "bigint unsigned", nullable=False),
        ColumnDefinition("sku", "varchar(20)", nullable=False),
        ColumnDefinition("total", "smallint unsigned"),
    ),
    ("id", "sku"),
)
UNITS: Final = TableDefinition("shop", "units", (ID, ColumnDefinition("v", "smallint")), ("id",))
CHILD: Final = TableDefinition("shop", "child", (ID, ColumnDefinition("unit", "int")), ("id",))
CREATE_CHILD: Final = (
    "CREATE TABLE child (id int PRIMARY KEY, unit int, FOREIGN KEY (unit) REFERENCES units (id) ON DELETE CASCADE)"
)


class Server:
    """A log, and the rows that its tables have."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "logs"
        self.folder.mkdir()
        self.rows: Rows = {"orders": {}, "units": {}}

    def run(self, *statements: Statement | str) -> None:
        """Write a log with transactions of a statement each."""
        variables = ServerVariables(server_version="8.4.0", server_uuid=UUID, binlog_row_metadata="FULL")
        with BinlogWriter(self.folder / "binlog", variables=variables) as log, log.session("shop") as session:
            for one in statements:
                session.execute(Statement.from_sql(one, "shop", ()) if isinstance(one, str) else one)

    def change(self, dice: Random, count: int = 60) -> None:
        """Write a log with random changes, and TRUNCATE now and then; keys change, and come again."""
        self.run(*(one for _ in range(count) for one in self._steps(dice)))

    def _steps(self, dice: Random) -> list[Statement | str]:
        table = dice.choice([ORDERS, UNITS])
        rows = self.rows[table.name]
        if dice.random() < 0.01:
            rows.clear()
            return [f"TRUNCATE TABLE {table.name}"]
        number = dice.randrange(12)
        new: tuple[Any, ...] = (number, dice.randrange(1000))
        if table is ORDERS:
            new = ((1 << 63) + number, "ab"[dice.randrange(2)], dice.randrange(1000))
        key = new[:-1]
        old = rows.pop(dice.choice([*rows]), None) if rows and dice.random() < 0.6 else None
        if old is not None and dice.random() < 0.3:
            return [Statement("DELETE", [Delete(table, [old])])]
        gone = rows.pop(key, None)
        rows[key] = new
        first = [] if gone is None else [Statement("DELETE", [Delete(table, [gone])])]
        change = Insert(table, [new]) if old is None else Update(table, [(old, new)])
        return [*first, Statement("INSERT", [change])]


def held(folder: Path, form: str, table: str) -> list[tuple[Any, ...]]:
    """Return the rows of a table."""
    rows = lake_table(folder, form, f"shop.{table}").to_pylist()
    return sorted(tuple(int(one) if isinstance(one, Decimal) else one for one in row.values()) for row in rows)


def insert(table: TableDefinition, *rows: tuple[Any, ...]) -> Statement:
    return Statement("INSERT", [Insert(table, rows)])


@pytest.mark.parametrize("form", FORMS)
def test_merges_keep_the_rows_of_the_server(form: Form, tmp_path: Path) -> None:
    """Also of tables that are empty now and then; an export without new changes changes nothing."""
    server, to, dice = Server(tmp_path), tmp_path / "to", Random(1)
    for _ in range(6):
        server.change(dice)
        export(server.folder, to, format=form, latest=True, append=True)
        again = export(server.folder, to, format=form, latest=True, append=True)

        assert again.rows == {}
        assert {name: held(to, form, name) for name in server.rows} == {
            name: sorted(rows.values()) for name, rows in server.rows.items()
        }


@pytest.mark.parametrize("form", FORMS)
def test_table_that_is_emptied_without_other_changes_is_empty(form: Form, tmp_path: Path) -> None:
    server, to = Server(tmp_path), tmp_path / "to"
    server.run(insert(ORDERS, (1, "a", 1)), insert(UNITS, (1, 1)))
    export(server.folder, to, format=form, latest=True, append=True)
    server.run("TRUNCATE TABLE units")

    export(server.folder, to, format=form, latest=True, append=True)

    assert held(to, form, "units") == []
    assert held(to, form, "orders") == [(1, "a", 1)]


def test_merge_that_fails_after_the_first_table_is_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table that has the rows already does not get them again."""
    server, to = Server(tmp_path), tmp_path / "to"
    server.run(insert(ORDERS, (1, "a", 1)), insert(UNITS, (1, 1)))
    export(server.folder, to, format="delta", latest=True, append=True)
    server.run(insert(ORDERS, (2, "a", 1)), insert(UNITS, (2, 1)))
    real, calls = deltalake.DeltaTable.merge, []

    def merge(*arguments: Any, **options: Any) -> Any:
        calls.append(1)
        if len(calls) == 2:
            raise OSError("the disk is full")
        return real(*arguments, **options)

    with monkeypatch.context() as patched, suppress(OSError):
        patched.setattr(deltalake.DeltaTable, "merge", merge)
        export(server.folder, to, format="delta", latest=True, append=True)
    versions = {name: deltalake.DeltaTable(to / f"shop.{name}").version() for name in server.rows}
    export(server.folder, to, format="delta", latest=True, append=True)

    assert len(calls) == 2
    assert versions["orders"] == deltalake.DeltaTable(to / "shop.orders").version()
    assert versions["units"] + 1 == deltalake.DeltaTable(to / "shop.units").version()
    assert (held(to, "delta", "orders"), held(to, "delta", "units")) == ([(1, "a", 1), (2, "a", 1)], [(1, 1), (2, 1)])


@pytest.mark.parametrize("form", FORMS)
def test_columns_that_change_are_refused(form: Form, tmp_path: Path) -> None:
    """The rows that the logs do not change have values which no log has. An index changes no row."""
    server, to = Server(tmp_path), tmp_path / "to"
    server.run(insert(UNITS, (1, 1)))
    export(server.folder, to, format=form, latest=True, append=True)
    server.run("ALTER TABLE units ADD INDEX (v)", "ALTER TABLE units COMMENT = 'x'", insert(UNITS, (2, 2)))
    export(server.folder, to, format=form, latest=True, append=True)
    server.run("ALTER TABLE units ADD COLUMN w int DEFAULT 5")

    with pytest.raises(UnsupportedFeature, match=r"binlog\.000003: at \d+: shop\.units: .*: ALTER TABLE units ADD COL"):
        export(server.folder, to, format=form, latest=True, append=True)

    assert held(to, form, "units") == [(1, 1), (2, 2)]


@pytest.mark.parametrize("refers", [True, False])
def test_rows_that_a_foreign_key_deleted_are_found_in_the_lake(*, refers: bool, tmp_path: Path) -> None:
    """Of a table whose rows the new logs do not change; a row that refers to another parent does not matter."""
    server, to = Server(tmp_path), tmp_path / "to"
    server.run(CREATE_CHILD, insert(UNITS, (1, 1), (2, 2)), insert(CHILD, (1, 1 if refers else 2)))
    export(server.folder, to, format="delta", latest=True, append=True)
    server.run(Statement("DELETE", [Delete(UNITS, [(1, 1)])]))
    if refers:
        with pytest.raises(UnsupportedFeature, match=r"shop\.child.*a foreign key"):
            export(server.folder, to, format="delta", latest=True, append=True)
        server.run(Statement("DELETE", [Delete(CHILD, [(1, 1)])]))

    export(server.folder, to, format="delta", latest=True, append=True)

    assert held(to, "delta", "units") == [(2, 2)]
    assert held(to, "delta", "child") == ([] if refers else [(1, 2)])


def test_base_hands_over_without_a_hole(tmp_path: Path) -> None:
    """The logs go on where the base ends; a base is given once."""
    server, base, to = Server(tmp_path), tmp_path / "base", tmp_path / "to"
    server.run(insert(UNITS, (1, 1)))
    export(server.folder, base, latest=True)
    for key in (2, 3):
        server.run(insert(UNITS, (key, key)))
    middle = (server.folder / "binlog.000002").rename(tmp_path / "binlog.000002")

    with pytest.raises(MissingLogs):
        export(sorted(server.folder.glob("binlog.0*")), to, format="delta", latest=True, append=True, base=base)
    middle.rename(server.folder / "binlog.000002")
    export(server.folder, to, format="delta", latest=True, append=True, base=base)

    assert held(to, "delta", "units") == [(1, 1), (2, 2), (3, 3)]
    with pytest.raises(ExportError, match="has its rows already"):
        export(server.folder, to, format="delta", latest=True, append=True, base=base)


def test_command_merges(tmp_path: Path) -> None:
    server, to = Server(tmp_path), tmp_path / "to"
    for key in (1, 2):
        server.run(insert(UNITS, (key, key)))
        arguments = "export --latest --append --format delta -o".split()
        done = CliRunner().invoke(cli, [*arguments, str(to), str(server.folder)])

        assert done.exit_code == 0, done.output

    assert held(to, "delta", "units") == [(1, 1), (2, 2)]
