"""Rows as SQL into columns that cannot hold their values: refused, or changed by the server if that is allowed."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

import pytest
from click.testing import CliRunner, Result

from binlogio import BinlogWriter, ColumnDefinition, Insert, ServerVariables, Statement, TableDefinition, Update
from binlogio_cli.main import cli
from real_servers import Instance, vendor
from target_servers import connect, emptied, url

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.server

VERSIONS: Final = {"mysql": "9.7.4", "mariadb": "10.11.18-MariaDB-log"}
# Type in the log, the value, the column of the target, and what the server makes of the value.
LOSSY: Final = {
    "out of range": ("int", 1000, "TINYINT UNSIGNED", 255),
    "negative": ("int", -5, "TINYINT UNSIGNED", 0),
    "cut text": ("varchar(20)", "longer", "VARCHAR(3)", "lon"),
    "unknown member": ("varchar(20)", "z", "ENUM('x','y')", ""),
    "digits": ("decimal(10,4)", "1234.5678", "DECIMAL(5,2)", 999.99),
    "fraction": ("decimal(10,4)", "1.5678", "DECIMAL(5,2)", 1.57),
    "characters": ("varchar(20)", "\u65e5\u672c", "VARCHAR(10) CHARACTER SET latin1", "??"),
}
FITTING: Final = {
    "zero date": ("date", "0000-00-00", "DATE", "0000-00-00"),
    "invalid date": ("date", "2026-02-31", "DATE", "2026-02-31"),
    "member of index 0": ("enum('x','y')", 0, "ENUM('x','y')", ""),
    "wider": ("int", 1000, "BIGINT", 1000),
}


@pytest.fixture(scope="module", params=["mysql", "mariadb"])
def server(request: pytest.FixtureRequest) -> Iterator[Instance]:
    """Provide a server of each vendor."""
    with vendor(request.param).server("lossy") as instance:
        yield instance


def replayed(server: Instance, folder: Path, kind: str, value: Any, column: str, *options: str) -> Result:
    """Write a log with an insert and an update of a column, and replay it as SQL."""
    table = TableDefinition(
        "d", "t", (ColumnDefinition("id", "int", nullable=False), ColumnDefinition("v", kind)), ("id",)
    )
    variables = ServerVariables(server_version=VERSIONS[server.vendor.kind], binlog_row_metadata="FULL", server_id=7)
    with BinlogWriter(folder / "binlog", variables=variables) as log, log.session("d") as session:
        session.execute(Statement("INSERT", [Insert(table, [(1, None)])]))
        session.execute(Statement("UPDATE", [Update(table, [((1, None), (1, value))])]))
        session.execute(Statement("INSERT", [Insert(table, [(2, value)])]))
    emptied(server)
    server.sql(f"CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY, v {column})")
    command = ["replay", "-q", "--to", url(server), "--apply", "sql", "--gtids", "new", *options]
    return CliRunner().invoke(cli, [*command, str(folder / "binlog.000001")])


def rows(server: Instance) -> list[Any]:
    with closing(connect(server)) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT id, CASE WHEN v IS NULL THEN NULL ELSE CAST(v AS CHAR) END FROM d.t ORDER BY id")
        return [value for _, value in cursor.fetchall()]


@pytest.mark.parametrize("case", LOSSY)
def test_a_value_that_does_not_fit_is_refused(server: Instance, case: str, tmp_path: Path) -> None:
    """With table, column and position; nothing of the transaction is applied."""
    kind, value, column, _ = LOSSY[case]
    result = replayed(server, tmp_path, kind, value, column)

    assert result.exit_code == 1, result.output
    assert "d.t: ERROR" in result.stderr
    assert "'v'" in result.stderr or "`v`" in result.stderr
    assert "--on-lossy warn" in result.stderr
    assert rows(server) == [None]


@pytest.mark.parametrize("case", LOSSY)
def test_a_value_that_does_not_fit_is_changed_if_that_is_allowed(server: Instance, case: str, tmp_path: Path) -> None:
    """`warn` counts the statements, and ends with 1."""
    kind, value, column, changed = LOSSY[case]
    for choice in ("warn", "ignore"):
        (tmp_path / choice).mkdir()
        result = replayed(server, tmp_path / choice, kind, value, column, "--on-lossy", choice)
        assert result.exit_code == (choice == "warn"), result.output
        assert ("2 statements changed values that do not fit the target" in result.stderr) == (choice == "warn")
        assert rows(server) == [str(changed), str(changed)]


@pytest.mark.parametrize("case", FITTING)
def test_a_value_that_the_source_has_fits(server: Instance, case: str, tmp_path: Path) -> None:
    """Zero and invalid dates, and the ENUM value of index 0."""
    kind, value, column, expected = FITTING[case]
    result = replayed(server, tmp_path, kind, value, column)

    assert result.exit_code == 0, result.output
    assert rows(server) == [str(expected), str(expected)]
