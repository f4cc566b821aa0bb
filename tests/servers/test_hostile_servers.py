"""Hostile names, values and statements from the log of a real server.

All SQL made from it gives the same names and values, and has no other effect.
"""

from __future__ import annotations

import re
import subprocess
import sys
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

import pymysql
import pytest
from pymysql.converters import conversions

import binlogio
from binlogio.replay import replay
from binlogio.replay.targets.mysql.target import MysqlTarget
from binlogio.schema.identifiers import backticked
from hostile_statements import BYTES, SCHEMAS, TEXTS, literal, rows, statements, tables
from real_servers import KINDS, RUN_TIMEOUT_S, Instance, vendor

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.server, pytest.mark.slow]

SYSTEM: Final = ("mysql", "sys", "information_schema", "performance_schema", "binlogio_replay")
ALL: Final = "binlog.0*[0-9]"


@pytest.fixture(scope="module", params=KINDS)
def server(request: pytest.FixtureRequest) -> Iterator[Instance]:
    """One server of each vendor for all tests."""
    options = (
        "--character-set-server=utf8mb4",
        "--log-bin-trust-function-creators=1",
        "--innodb-flush-log-at-trx-commit=0",
        "--sync-binlog=0",
    )
    with vendor(request.param).server("hostile", *options) as instance:
        yield instance


def connect(server: Instance) -> Any:
    return pymysql.connect(
        unix_socket=str(server.socket), user="root", charset="utf8mb4", autocommit=True, conv=conversions
    )


def emptied(server: Instance) -> None:
    with closing(connect(server)) as connection, connection.cursor() as cursor:
        cursor.execute("SHOW DATABASES")
        for (name,) in cursor.fetchall():
            if name not in SYSTEM[:-1]:
                cursor.execute(f"DROP DATABASE {backticked(name)}")
        cursor.execute("FLUSH BINARY LOGS")


def logged(server: Instance, form: str, sql: list[bytes]) -> Path:
    """Return the log of these statements, run on the server in that format."""
    emptied(server)
    path = max(server.data.glob(ALL))
    with closing(connect(server)) as connection:
        connection.query(f"SET SESSION binlog_format = {form}")
        for statement in sql:
            connection.query(statement)
        connection.query("FLUSH BINARY LOGS")
    return path


def content(server: Instance) -> dict[str, Any]:
    """Every table and routine, by name, with every value as bytes."""
    found: dict[str, Any] = {}
    hidden = ", ".join(f"'{name}'" for name in SYSTEM)
    with closing(connect(server)) as connection, connection.cursor() as cursor:
        cursor.execute(
            "SELECT table_schema, table_name, column_name, column_type, column_default, "
            "character_set_name, column_comment"
            f" FROM information_schema.columns WHERE table_schema NOT IN ({hidden}) ORDER BY "
            "table_schema, table_name, ordinal_position"
        )
        for schema, table, *column in cursor.fetchall():
            found.setdefault(f"{schema}.{table}", []).append(tuple(column))
        for name, columns in list(found.items()):
            schema, _, table = name.partition(".")
            values = ", ".join(f"HEX(CONCAT({backticked(column[0])}))" for column in columns)
            cursor.execute(f"SELECT {values} FROM {backticked(schema)}.{backticked(table)} ORDER BY 1")
            found[name] = (columns, cursor.fetchall())
        for what, column in (
            ("routines", "routine_definition"),
            ("triggers", "action_statement"),
            ("views", "view_definition"),
        ):
            prefix = {"routines": "routine", "triggers": "trigger", "views": "table"}[what]
            cursor.execute(
                f"SELECT {prefix}_schema, {prefix}_name, {column} FROM information_schema.{what} WHERE "
                f"{prefix}_schema NOT IN ({hidden}) ORDER BY 1, 2"
            )
            # A client writes a line end in its own way, and a space after a comment.
            found[what] = [(schema, name, "".join(text.split())) for schema, name, text in cursor.fetchall()]
    return found


def dumped(path: Path, *options: str) -> bytes:
    return run("dump", *options, str(path))


def run(*arguments: str) -> bytes:
    done = subprocess.run(
        [sys.executable, "-m", "binlogio_cli", *arguments],
        capture_output=True,
        timeout=RUN_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def fed(server: Instance, sql: bytes, *options: str) -> None:
    """Into the vendor's own client, which stops at the first error."""
    done = server.vendor.run(
        server.vendor.client, "--no-defaults", "-uroot", "-S", f"/run/mysqld/{server.name}.sock", *options, stdin=sql
    )
    assert done.returncode == 0, done.stderr.decode(errors="replace")[:2000]


@pytest.mark.parametrize("form", ["STATEMENT", "ROW", "MIXED"])
def test_dump_as_sql_gives_the_same_names_and_values(server: Instance, form: str) -> None:
    """Fed to the vendor's client, whatever character set that believes to have, in binary mode and without."""
    path = logged(server, form, [*tables(), *rows(), *statements()])
    wanted = content(server)
    sql = dumped(path, "--format", "sql", "--skip-gtids")

    assert any("victim" in name for name in wanted)
    for options in (
        (),
        ("--binary-mode", "--comments"),
        ("--default-character-set=latin1",),
        ("--default-character-set=gbk", "--comments"),
    ):
        emptied(server)
        fed(server, sql, *options)
        found = content(server)
        for name in {**wanted, **found}:
            if name != "routines" or "--comments" in options:  # MariaDB's client drops comments
                assert found.get(name) == wanted.get(name), (options, name)
    assert not (server.vendor.root / "hacked").exists()


@pytest.mark.parametrize("form", ["STATEMENT", "ROW", "MIXED"])
@pytest.mark.parametrize("applies_events", [None, False])
def test_replay_gives_the_same_names_and_values(server: Instance, form: str, applies_events: bool | None) -> None:
    """Statements with their context; rows as events, and as SQL."""
    path = logged(server, form, [*tables(), *rows(), *statements()])
    wanted = content(server)
    emptied(server)
    with (
        closing(
            MysqlTarget.open(f"mysql://root@/?unix_socket={server.socket}", applies_events=applies_events)
        ) as target,
        binlogio.open(path) as reader,
    ):
        replay(reader, target, workers=2, gtids="new")  # the server has the GTIDs of its own log
    found = content(server)

    for name in {**wanted, **found}:
        assert found.get(name) == wanted.get(name), name


def test_undo_takes_back_what_has_such_names_and_values(server: Instance) -> None:
    """As SQL, by the vendor's client: the tables are as they were before the rows."""
    with closing(connect(server)) as connection:
        connection.query("SET GLOBAL binlog_row_metadata = 'FULL'")
    logged(server, "ROW", tables())
    before, path = content(server), max(server.data.glob(ALL))
    with closing(connect(server)) as connection:
        for statement in (b"SET SESSION binlog_format = ROW", *rows()):
            connection.query(statement)
        connection.query("FLUSH BINARY LOGS")
    assert content(server) != before
    fed(server, run("undo", str(path)))

    assert content(server) == before


SHOWN_TABLE: Final = "t`'; */ DROP TABLE victim; -- #\\"
SHOWN_COLUMNS: Final = (
    "id INT PRIMARY KEY, `v'``` VARCHAR(500) CHARACTER SET utf8mb4, `b\\` VARBINARY(500), `/*` TEXT "
    "CHARACTER SET utf8mb4, bl BLOB, c CHAR(9),"
    " g VARCHAR(9) CHARACTER SET gbk, u VARCHAR(9) CHARACTER SET utf16, e ENUM('it''s', 'b\\\\', '\\n'), "
    "s SET('it''s', 'b\\\\', '*/'), j JSON, n DECIMAL(20, 5),"
    " f FLOAT, d DOUBLE, dt DATETIME(3), ti TIME(2), y YEAR, bi BIT(9), p GEOMETRY"
)


@pytest.mark.parametrize("mode", ["", "NO_BACKSLASH_ESCAPES", "ANSI_QUOTES"])
def test_row_changes_of_the_text_are_sql_of_the_same_values(server: Instance, mode: str) -> None:
    """Without their comment signs, whatever the sql_mode of who runs them; of every type."""
    name = f"shown.{backticked(SHOWN_TABLE)}"
    made = [b"CREATE DATABASE shown", f"CREATE TABLE {name} ({SHOWN_COLUMNS})".encode()]
    filled = [
        f"INSERT INTO {name} (id, `v'```, `/*`, c, u) VALUES ({at}, {literal(text)}, {literal(text)}, "
        f"{literal(text[:3])}, {literal(text[:9])})"
        for at, text in enumerate(TEXTS)
    ]
    filled += [
        f"INSERT INTO {name} (id, `b\\`, bl) VALUES ({100 + at}, {literal(data)}, {literal(data)})"
        for at, data in enumerate(BYTES)
    ]
    filled += [
        (
            f"INSERT INTO {name} VALUES (200, NULL, NULL, NULL, NULL, '', _gbk x'955c27', '', 1, 7, "
            "JSON_OBJECT('k\\'\\\\\\n', 'v\\\"*/'), -1.50000, 0.1,"
            " 1e300, '2020-02-29 23:59:59.123', '-838:59:59', 0, b'100000001', ST_GeomFromText('POINT(1 2)'))"
        ),
        f"INSERT INTO {name} (id, e, s) VALUES (201, 2, 2), (202, 3, 4)",
    ]
    path = logged(server, "ROW", [*made, *(sql.encode() for sql in filled)])
    wanted = content(server)
    shown = [line[4:] for line in dumped(path).decode().splitlines() if line.startswith("### ")]
    found = (
        "\n".join(shown)
        .replace("INSERT INTO", ";INSERT INTO")
        .replace("\n  ", ",")
        .replace("SET,", "SET ")
        .split("\n;")
    )
    emptied(server)
    with closing(connect(server)) as connection:
        for sql in made:
            connection.query(sql)
        connection.query(f"SET sql_mode = '{mode}'")
        for change in found:
            connection.query(change.removeprefix(";").encode())

    assert len(found) == len(TEXTS) + len(BYTES) + 3
    assert content(server) == wanted


def test_text_that_is_fed_to_a_client_all_the_same_does_nothing_but_its_statements(server: Instance) -> None:
    """The client stops at the first line. Row changes are comments, of one line each, whatever they are called."""
    path = logged(server, "ROW", [*tables(), *rows()])
    emptied(server)
    client = (server.vendor.client, "--no-defaults", "-uroot", "-S", f"/run/mysqld/{server.name}.sock")
    refused = server.vendor.run(*client, stdin=dumped(path))
    assert b"ERROR 1064" in refused.stderr
    assert not any(name.endswith(".victim") for name in content(server))

    text = re.sub(rb"(?m)^SET @@SESSION.GTID_NEXT=.*\n", b"", dumped(path))  # which this server has already
    done = server.vendor.run(*client, "--force", stdin=text)
    found = content(server)

    assert sum(name.endswith(".victim") for name in found) == len(SCHEMAS), done.stderr[:2000]
    assert not (server.vendor.root / "hacked").exists()
    assert len(re.findall(rb"(?m)^### INSERT INTO", text)) > 100
