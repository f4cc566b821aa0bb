"""Tables of all engines and functions that write, read and are unsafe, on a 9.7 server and as `explain` has them."""

from __future__ import annotations

from typing import Any

import pymysql

from binlogio.options import ServerVariables
from binlogio.schema import ColumnDefinition, KeyDefinition, TableDefinition
from binlogio.writer.rules.statement_text import facts_from_sql

ENGINES = {
    "t1": "InnoDB", "t2": "InnoDB", "ai": "InnoDB", "u2": "InnoDB", "n1": "MyISAM", "n2": "MyISAM", "an": "MyISAM",
    "me": "MEMORY", "b1": "BLACKHOLE",
}  # fmt: skip
FUNCTIONS = {
    "fn": ("INT DETERMINISTIC BEGIN INSERT INTO n2 VALUES (i,'f'); RETURN i; END", "INSERT INTO n2 VALUES (1,'f')"),
    "fa": ("INT DETERMINISTIC BEGIN INSERT INTO ai (b) VALUES ('q'); RETURN i; END", "INSERT INTO ai (b) VALUES ('q')"),
    "fu": ("VARCHAR(40) NOT DETERMINISTIC RETURN UUID()", "DO UUID()"),
    "fl": ("VARCHAR(40) DETERMINISTIC RETURN (SELECT MAX(b) FROM (SELECT b FROM t2 LIMIT 1) d)",
           "SELECT b FROM t2 LIMIT 1"),
}  # fmt: skip
TABLES = tuple(
    TableDefinition(
        "w",
        name,
        (
            ColumnDefinition("a", "int", nullable=False, auto_increment=name[0] == "a"),
            ColumnDefinition("b", "varchar(40)"),
        ),
        ("a",),
        engine=engine,
        unique_keys=(KeyDefinition(("b",)),) if name == "u2" else (),
    )
    for name, engine in ENGINES.items()
)
ROUTINES = {name: facts_from_sql(body, "w", TABLES) for name, (_, body) in FUNCTIONS.items()}


class Server:
    """A session of a real server, and what it said about its last statement."""

    def __init__(self, socket: str) -> None:
        self._cursor = pymysql.connect(unix_socket=socket, user="root", autocommit=True).cursor()

    def close(self) -> None:
        """End the session."""
        self._cursor.connection.close()

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Its answer."""
        self._cursor.execute(sql)
        return list(self._cursor.fetchall())

    def execute(self, sql: str) -> tuple[int | None, list[tuple[str, int, str]]]:
        """Return the error, and the warnings."""
        errno = None
        try:
            self._cursor.execute(sql)
        except pymysql.MySQLError as exc:
            errno = exc.args[0]
        return errno, [(level, number, text) for level, number, text in self.query("SHOW WARNINGS")]

    def set(self, variables: ServerVariables) -> None:
        """Take a session's variables."""
        for name in ("binlog_format", "binlog_direct_non_transactional_updates", "transaction_isolation"):
            value = getattr(variables, name)
            self.query(f"SET SESSION {name} = {int(value) if isinstance(value, bool) else repr(value)}")


def create_objects(session: Server) -> None:
    """Create the tables and functions in a new database."""
    for sql in ("SET sql_mode=''", "CREATE DATABASE w", "USE w"):
        session.query(sql)
    for table in TABLES:
        automatic = "AUTO_INCREMENT" if table.columns[0].auto_increment else "NOT NULL"
        more = ", UNIQUE (b)" if table.unique_keys else ""
        session.query(
            f"CREATE TABLE {table.name} (a INT {automatic} PRIMARY KEY, b VARCHAR(40){more}) ENGINE={table.engine}"
        )
        session.query(f"INSERT INTO {table.name} VALUES (100,'x'),(101,'y')")
    for name, (text, _) in FUNCTIONS.items():
        session.query(f"CREATE FUNCTION {name}(i INT) RETURNS {text}")
