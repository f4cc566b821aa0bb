"""Text in a database that is older than its logs: its default character set is unknown unless something proves it."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

import pytest
from click.testing import CliRunner, Result

import binlogio
from binlogio import BinlogWriter, ColumnDefinition, Insert, ServerVariables, Statement, TableDefinition
from binlogio.errors import BinlogFormatError
from binlogio.events.rows import RowsEvent
from binlogio_cli.main import cli
from spark_frames import records_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

TEXT: Final = {"utf8mb4": "Zoë", "cp1251": "я"}
MARIADB: Final = ServerVariables(server_version="10.11.18-MariaDB-log", binlog_row_metadata="NO_LOG")


@pytest.fixture(params=TEXT)
def charset(request: pytest.FixtureRequest) -> str:
    """Return the character set of the database."""
    found: str = request.param
    return found


@pytest.fixture
def log(tmp_path: Path, charset: str) -> Path:
    """One log: a table without a character set, and rows with ASCII and with other text."""
    columns = (ColumnDefinition("id", "int", nullable=False), ColumnDefinition("body", "text"))
    table = TableDefinition("shop", "t", columns, ("id",), collation=f"{charset}_general_ci")
    with BinlogWriter(tmp_path / "binlog", variables=MARIADB) as writer, writer.session("shop") as session:
        session.ddl("CREATE TABLE t (id INT PRIMARY KEY, body TEXT)")
        for number, text in enumerate(("ascii", TEXT[charset])):
            session.execute(Statement("INSERT", [Insert(table, [(number, text)])]))
    return tmp_path / "binlog.000001"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [str(one) for one in arguments])


def values(log: Path, definitions: Mapping[str, object] | None = None) -> list[Any]:
    with binlogio.open(log, definitions=definitions) as reader:
        changes = (change for event in reader if isinstance(event, RowsEvent) for change in reader.rows(event))
        return [change.after.get("body") for change in changes if change.after is not None]


def bodies(log: Path, definitions: Mapping[str, object] | None = None) -> list[Any]:
    batches = binlogio.read_rows(log, table="shop.t", columns=["body"], definitions=definitions)
    return [row["body"] for batch in batches for row in batch.column("after").to_pylist()]


def test_other_bytes_than_ascii_are_bytes_or_an_error(log: Path, charset: str, tmp_path: Path) -> None:
    """The error names the column and the option."""
    other = TEXT[charset].encode("utf-8" if charset == "utf8mb4" else charset)
    assert values(log) == ["ascii", other]
    text = run("dump", "-q", "-v", log).output
    assert "`body`='ascii'" in text
    assert f"`body`=0x{other.hex()}" in text
    with pytest.raises(BinlogFormatError, match=r"column body: the character set .* is unknown") as caught:
        bodies(log)
    assert 'definitions={"shop": "utf8mb4"}' in str(caught.value)
    for command in (
        ("export", "-q", "--format", "jsonl", "--to", tmp_path / "to"),
        ("replay", "-q", "--to", f"sqlite:///{tmp_path}/x.db"),
    ):
        result = run(*command, log)
        assert (command[0], result.exit_code) == (command[0], 1)
        assert "column body: the character set of the column is unknown" in result.stderr
        assert "--database-charset" in result.stderr
    with pytest.raises(BinlogFormatError, match="databaseCharset"):
        records_of(log, table="shop.t", followDdl="true")


def test_construct_and_the_kernel_read_the_same(log: Path, charset: str) -> None:
    assert values(log) == ["ascii", TEXT[charset].encode("utf-8" if charset == "utf8mb4" else charset)]
    with pytest.raises(BinlogFormatError, match="the character set of the column is unknown"):
        bodies(log)
    assert values(log, {"shop": charset}) == bodies(log, {"shop": charset}) == ["ascii", TEXT[charset]]


def test_conditions_on_such_text_are_refused(log: Path) -> None:
    """A comparison with bytes would select nothing, with exit code 0."""
    for command in (("grep", "-q", "body = 'Zoë'"), ("dump", "-q", "--where", "body = 'Zoë'")):
        result = run(*command, log)
        assert (command[0], result.exit_code) == (command[0], 1)
        assert "column body: the character set of the column is unknown" in result.stderr


def test_verify_and_repair_read_such_rows(log: Path, tmp_path: Path) -> None:
    """They are not damaged."""
    assert run("verify", "-q", log).exit_code == 0
    assert run("repair", "-q", "-o", tmp_path / "fixed.000001", log).exit_code == 0
    assert values(tmp_path / "fixed.000001") == values(log)


def test_the_character_set_of_the_database_is_given(log: Path, charset: str, tmp_path: Path) -> None:
    """As an option, in Python, in Spark, and in a dump of the schema; MariaDB and old MySQL are the same."""
    option, right = ("--database-charset", f"shop={charset}"), ["ascii", TEXT[charset]]
    dump = tmp_path / "shop.sql"
    dump.write_text(f"CREATE DATABASE /*!32312 IF NOT EXISTS*/ shop /*!40100 DEFAULT CHARACTER SET {charset} */;")
    assert values(log, {"shop": charset}) == bodies(log, {"shop": charset}) == right
    for given in (option, ("--table-definitions", dump)):
        text = run("dump", "-q", "-v", *given, log).output
        assert all(f"`body`='{one}'" in text for one in right)
    assert run("export", "-q", "--format", "jsonl", "--to", tmp_path / "to", *option, log).exit_code == 0
    lines = (tmp_path / "to" / "shop.t.jsonl").read_text("utf-8").splitlines()
    assert [json.loads(line)["after"]["body"] for line in lines] == right
    assert run("replay", "-q", "--to", f"sqlite:///{tmp_path}/x.db", *option, log).exit_code == 0
    with closing(sqlite3.connect(tmp_path / "x.db")) as connection:
        assert connection.execute('SELECT body FROM "shop.t" ORDER BY id').fetchall() == [(one,) for one in right]
    records = records_of(log, table="shop.t", followDdl="true", databaseCharset=f"shop={charset}")
    assert [record["after"]["body"] for record in records] == right


def test_schema_does_not_turn_a_guess_into_a_definition(log: Path, charset: str, tmp_path: Path) -> None:
    """What it writes and another command reads is as unknown as before."""
    tables = tmp_path / "tables.json"
    result = run("schema", "-q", "-o", tables, log)
    assert result.exit_code == 0
    assert "only ASCII is read as text: shop.t (body)" in result.stderr
    assert json.loads(tables.read_text())["columns"][1]["collation"] == "unknown"
    assert "`body`=0x" in run("dump", "-q", "-v", "--table-definitions", tables, log).output
    option = ("--database-charset", f"shop={charset}")
    assert TEXT[charset] in run("dump", "-q", "-v", "--table-definitions", tables, *option, log).output
    assert run("schema", "-q", "--force", "-o", tables, *option, log).exit_code == 0
    assert TEXT[charset] in run("dump", "-q", "-v", "--table-definitions", tables, log).output


@pytest.mark.parametrize("option", ["shop", "=utf8mb4", "shop=", "shop.t=utf8mb4", "shop=klingon"])
def test_what_names_no_character_set_is_refused(option: str, log: Path) -> None:
    assert run("dump", "--database-charset", option, log).exit_code == 2
