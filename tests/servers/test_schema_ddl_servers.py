"""DDL statements on real servers: definitions by a log equal the server's INFORMATION_SCHEMA, or are forgotten.

Each case runs in a database of its own. The statements are read back from the server's log.
"""

from __future__ import annotations

import random
import re
from typing import Any, Final

import pytest

from binlogio.constants import EventType
from binlogio.events.query import QueryEvent
from binlogio.reader import BinlogReader
from binlogio.schema.ddl.catalogue import Catalogue
from binlogio.schema.ddl.logged_ddl import follow_event
from binlogio.schema.ddl.parsed_table import ParsedTable
from binlogio.schema.definition import TableDefinition
from binlogio.schema.information_schema import QUERY, parse_information_schema
from binlogio.schema.types import MEMBER_TYPES, TEXT_TYPES
from binlogio.storage.log_file import LogFile
from real_servers import Instance, vendor

pymysql = pytest.importorskip("pymysql")
pytestmark = pytest.mark.server

START: Final = (
    """CREATE TABLE t (a INT PRIMARY KEY, b VARCHAR(10), c TEXT, e ENUM('x', 'y') CHARACTER SET utf8mb4, j JSON,
       k CHAR(3) CHARACTER SET binary) CHARSET latin1""",
    "CREATE TABLE o (a INT PRIMARY KEY)",
)
# Each is one case, and some of them together are others. A server may refuse them.
CLAUSES: Final = (
    "CONVERT TO CHARACTER SET utf8mb4, DEFAULT CHARACTER SET latin1",
    "CONVERT TO CHARACTER SET utf8mb4",
    "CONVERT TO CHARACTER SET utf8mb4, COLLATE utf8mb4_bin",
    "CONVERT TO CHARSET DEFAULT COLLATE latin1_bin",
    "CONVERT TO CHARACTER SET binary",
    "CONVERT TO CHARACTER SET utf8mb4, ADD x TEXT CHARACTER SET latin2",
    "CONVERT TO CHARACTER SET utf8mb4, ADD x VARCHAR(5) BINARY",
    "CHARACTER SET utf8mb4, ADD x VARCHAR(3), CHARACTER SET latin2",
    "MODIFY COLUMN t.a BIGINT", "MODIFY @DB.t.a BIGINT", "ADD COLUMN @DB.t.x INT", "ADD (t.x INT, @DB.t.y INT)",
    "CHANGE t.a t.z INT", "DROP COLUMN @DB.t.b", "ALTER COLUMN t.b SET DEFAULT 'x'", "RENAME COLUMN b TO x",
    "ADD x INT AFTER t.a", "ADD KEY (t.b)", "ORDER BY a, b DESC",
    "ADD x INT AFTER c, MODIFY c TEXT FIRST", "MODIFY c TEXT FIRST, ADD x INT AFTER c",
    "ADD x INT AFTER b, MODIFY b VARCHAR(10) FIRST",
    "ADD x INT AFTER y, CHANGE b y VARCHAR(10) FIRST", "CHANGE a b INT AFTER a, CHANGE b a VARCHAR(10) AFTER c",
    "MODIFY a INT AFTER b, MODIFY b VARCHAR(11) AFTER c", "MODIFY b VARCHAR(10) AFTER b",
    "ADD x LONG CHARACTER SET utf8mb4", "ADD x LONG CHAR VARYING", "ADD x LONG BYTE", "ADD x LONG COLLATE latin1_bin",
    "ADD x ENUM(0x61, b'01100010')", "ADD x ENUM(0xc3a9, 'c') CHARACTER SET utf8mb4",
    "ADD x ENUM(0xc3a9, 'c') CHARACTER SET latin1",
    "ADD x SET(0x61, 0b01100010)", "ADD x ENUM(0x6120, 'c ')", "ADD x ENUM(0x00e9, 'c') CHARACTER SET ucs2",
    "ADD x ENUM(b'1', 0x6)",
    "COMMENT ';', ADD x INT", "ADD x INT COMMENT ';', ADD `;` INT", "ADD x VARCHAR(3) DEFAULT ';' NOT NULL, ADD y INT",
    "ADD x INT, RENAME TO u", "RENAME TO .u", "ADD x INT /*!99999 , ADD z INT /* c */ , ADD w INT */",
    "ADD x INT /*M! , ADD z INT */",
    "ADD x CHAR(3) BINARY COLLATE latin1_general_ci", "ADD x CHAR(3) BINARY CHARACTER SET utf8mb4",
    "ADD x CHAR(3) COLLATE DEFAULT",
    "ADD x JSON, CONVERT TO CHARACTER SET latin2", "ADD x INT PARTITION BY HASH(a) PARTITIONS 3",
    "ADD x€ INT, ADD 1e INT",
    "ADD x INT DEFAULT CASE WHEN 1 IS NOT NULL THEN 1 ELSE NULL END", "ADD x CHAR(36) DEFAULT 'x' CHARACTER SET ascii",
    "ADD x INT DEFAULT (5 + 1) NOT NULL", "ADD x DATE DEFAULT DATE '2001-01-01' NOT NULL",
    "ADD x BIT(3) DEFAULT b'101' NOT NULL",
    "ADD COLUMN IF NOT EXISTS b INT, ADD COLUMN IF NOT EXISTS x INT AFTER b",
    "DROP COLUMN IF EXISTS x, DROP COLUMN IF EXISTS b",
    "RENAME COLUMN IF EXISTS x TO y, RENAME COLUMN IF EXISTS b TO bb", "ADD SYSTEM VERSIONING",
    "ADD INDEX IF NOT EXISTS i (b)",
    "ENGINE InnoDB COMMENT 'x' ROW_FORMAT=DYNAMIC, ADD x INT",
    "STATS_PERSISTENT=DEFAULT, FORCE, ALGORITHM=COPY, ADD x INT",
    "ADD FULLTEXT KEY (b), ADD x INT", "ADD KEY (b(3) ASC) COMMENT 'k', ADD x INT",
    "ADD x POINT NOT NULL REF_SYSTEM_ID=0", "ADD x UUID",
    "ADD x TEXT(10) CHARACTER SET utf8mb4, CONVERT TO CHARACTER SET latin1", "ADD x NATIONAL CHARACTER VARYING(3)",
    "ADD x FLOAT(30)",
)  # fmt: skip
STATEMENTS: Final = (
    "ALTER TABLE .t CHANGE a zz INT, CHANGE b a VARCHAR(10)", "ALTER TABLE @DB . t ADD x INT",
    "ALTER ONLINE IGNORE TABLE t ADD x INT",
    "SET STATEMENT max_statement_time=100 FOR ALTER TABLE t ADD x INT", "BEGIN NOT ATOMIC ALTER TABLE t ADD x INT; END",
    "SET STATEMENT sql_mode='ANSI_QUOTES' FOR ALTER TABLE t ADD x INT",
    "RENAME TABLE .t TO u", "RENAME TABLE t TO .u", "RENAME TABLE IF EXISTS t TO u, nope TO nope2", "DROP TABLE .t",
    "DROP TABLE IF EXISTS t, zzz CASCADE", "CREATE TABLE .u (a INT)",
    "CREATE TABLE u (u.a INT, @DB.u.b INT, KEY (u.a))",
    "CREATE TABLE u LIKE .t", "CREATE TABLE u (x INT) ((SELECT 1 AS y))", "CREATE TABLE u (VALUES (1))",
    "CREATE TABLE u (x INT) WITH z AS (SELECT 1 AS y) SELECT * FROM z",
    "CREATE TABLE u (x INT) IGNORE AS SELECT 1 AS y",
    "CREATE TABLE u (x TEXT) COMMENT ';' CHARSET utf8mb4", "CREATE TABLE @DB.1e5 (a INT, b INT, KEY(b))",
    "CREATE TABLE 1u (1a INT)",
    "CREATE UNIQUE INDEX i ON .t (b)", "DROP INDEX `PRIMARY` ON t", "ALTER TABLE t ADD x INT;",
    "ALTER TABLE T ADD x INT",
    "CREATE TABLE T (x INT)", "CREATE TABLE u (a CHAR(3)) CHARSET latin2 COLLATE DEFAULT",
)  # fmt: skip
# Statements on a temporary table with the name of a base table, t or o, or without one.
_T: Final = "CREATE TEMPORARY TABLE t (x INT, y TEXT)"
_V: Final = "CREATE TEMPORARY TABLE v (x INT, y TEXT)"
TEMPORARY: Final = (
    (_T,), (_T, "ALTER TABLE t ADD z INT"), (_T, "DROP TABLE t"), (_T, "DROP TABLE t", "ALTER TABLE t ADD z INT"),
    (_T, "DROP TABLE t", "DROP TABLE t"), (_T, "DROP TEMPORARY TABLE t", "ALTER TABLE t DROP b"),
    (_T, "DROP TEMPORARY TABLE IF EXISTS t, o"), (_T, "DROP TABLE IF EXISTS t, o"),
    (_T, "TRUNCATE TABLE t", "ALTER TABLE t ADD z INT", "DROP TABLE t", "ALTER TABLE t ADD q INT"),
    (_T, "RENAME TABLE t TO u"), (_T, "RENAME TABLE t TO u", "ALTER TABLE t ADD z INT"),
    (_T, "RENAME TABLE t TO u", "DROP TABLE u", "ALTER TABLE t ADD z INT"),
    (_T, "ALTER TABLE t RENAME TO u"), (_T, "ALTER TABLE t RENAME TO u", "ALTER TABLE t ADD z INT"),
    (_T, "ALTER TABLE t RENAME TO u, ADD z INT", "ALTER TABLE t DROP b", "ALTER TABLE u DROP y"),
    (_V, "ALTER TABLE v RENAME TO t"), (_V, "ALTER TABLE v RENAME TO t", "ALTER TABLE t ADD z INT"),
    (_V, "ALTER TABLE v RENAME TO t", "DROP TABLE t", "ALTER TABLE t ADD z INT"),
    (_V, "RENAME TABLE v TO t"), (_V, "RENAME TABLE v TO t", "ALTER TABLE t ADD z INT"),
    (_V, "RENAME TABLE v TO t", "DROP TABLE t", "ALTER TABLE t ADD z INT"),
    (_V, "RENAME TABLE v TO t, t TO w", "ALTER TABLE t ADD z INT"), (_T, "RENAME TABLE t TO w, t TO w2"),
    (_T, "CREATE INDEX i ON t (x)"), (_T, "CREATE INDEX i ON t (x)", "DROP INDEX i ON t"),
    (_T, "CREATE TABLE u LIKE t"), (_T, "CREATE TABLE u LIKE t", "DROP TABLE t", "ALTER TABLE u ADD z INT"),
    (_T, "ALTER TABLE t ADD z INT", "CREATE TABLE u LIKE t"), (_T, "CREATE OR REPLACE TABLE o LIKE t"),
    (_V, "CREATE TABLE u LIKE v"),
    ("CREATE TEMPORARY TABLE v LIKE t", "ALTER TABLE v ADD z INT", "CREATE TABLE u LIKE v"),
    ("CREATE TEMPORARY TABLE t LIKE o", "ALTER TABLE t ADD z INT", "DROP TABLE t", "ALTER TABLE t ADD z INT"),
    ("CREATE TEMPORARY TABLE t SELECT * FROM o", "ALTER TABLE t ADD z INT", "CREATE TABLE u LIKE t"),
    (_T, "CREATE TABLE IF NOT EXISTS t (a INT)"), (_V, "CREATE TABLE v (a INT, b INT)", "ALTER TABLE v ADD z INT"),
    (_V, "CREATE TABLE IF NOT EXISTS v (a INT, b INT)", "DROP TABLE v", "ALTER TABLE v ADD z INT"),
    (_V, "CREATE TABLE v (a INT, b INT)", "DROP TABLE v", "DROP TABLE v"),
    (_T, "CREATE OR REPLACE TABLE t (q INT)"),
    (_T, "CREATE OR REPLACE TEMPORARY TABLE t (q INT)", "ALTER TABLE t ADD z INT"),
    (_T, "ALTER TABLE t CONVERT TO CHARACTER SET utf8mb4, ADD z INT"),
    (_T, "ALTER TABLE t ADD UNIQUE IF NOT EXISTS (x)"),
    ("CREATE TEMPORARY TABLE IF NOT EXISTS t (x INT)", "ALTER TABLE IF EXISTS t ADD z INT"),
    ("CREATE TEMPORARY TABLE T (x INT)", "ALTER TABLE T ADD z INT", "CREATE INDEX i ON T (x)", "DROP TABLE T"),
    ("CREATE TEMPORARY SEQUENCE t", "ALTER SEQUENCE t RESTART 1", "DROP SEQUENCE t", "ALTER TABLE t ADD z INT"),
    (_T, _V, "DROP TABLE t, v, o"), (_T, "DROP TABLE o, t", "ALTER TABLE t ADD z INT"),
    (_T, "FLUSH BINARY LOGS", "ALTER TABLE t ADD z INT", "DROP TABLE t", "ALTER TABLE t ADD z INT"),
)  # fmt: skip
RANDOM_CASES: Final = 120


def _cases() -> list[tuple[str, ...]]:
    """Statements after `START`; those that are drawn are the same each time."""
    cases: list[tuple[str, ...]] = [(f"ALTER TABLE t {clause}",) for clause in CLAUSES]
    cases += [(statement,) for statement in STATEMENTS]
    drawn = random.Random(12)
    for _ in range(RANDOM_CASES):
        clauses = [
            re.sub(r"\b([xyz])\b(?=[ €])", rf"\g<1>{drawn.randrange(99)}", one)
            for one in drawn.sample(CLAUSES, drawn.choice([2, 2, 3]))
            if "PARTITION BY" not in one
        ]
        cases.append((f"ALTER TABLE t {', '.join(clauses)}", f"ALTER TABLE t {drawn.choice(CLAUSES)}"))
    return cases


def _type(text: str | bytes) -> str:
    """Return a type in our spelling: without display widths, which the log does not have, and without synonyms."""
    kind = text.decode() if isinstance(text, bytes) else text
    kind = re.sub(r"\b(tinyint|smallint|mediumint|int|bigint|year)\(\d+\)", r"\1", kind).replace(" zerofill", "")
    return re.sub(r"^(float|double)\(.*\)", r"\1", kind).replace("geomcollection", "geometrycollection")


def _server_tables(cursor: Any, schema: str) -> dict[str, Any]:
    """Return the server's collation of each table, and name, type, collation and nullability of each column."""
    cursor.execute(
        "SELECT table_name, column_name, column_type, collation_name, is_nullable FROM information_schema.columns "
        "WHERE table_schema = %s ORDER BY table_name, ordinal_position",
        (schema,),
    )
    columns: dict[str, list[Any]] = {}
    for table, name, kind, collation, nullable in cursor.fetchall():
        said = (name, _type(kind), None if collation == "binary" else collation, nullable == "YES")
        columns.setdefault(table, []).append(said)
    cursor.execute(
        "SELECT table_name, table_collation FROM information_schema.tables WHERE table_schema = %s", (schema,)
    )
    return {table: (collation, columns[table]) for table, collation in cursor.fetchall()}


def _our_table(table: ParsedTable, *, is_mariadb: bool) -> tuple[str, list[Any]]:
    columns = []
    for column in table.columns:
        if table.is_versioned and column.name in ("row_start", "row_end"):
            continue  # which the server does not list
        is_alias = is_mariadb and column.type == "json"
        kind, collation = ("longtext", "utf8mb4_bin") if is_alias else (column.type, column.collation)
        columns.append((column.name, _type(kind), None if collation == "binary" else collation, column.nullable))
    return table.collation, columns


def _as_listed(table: TableDefinition) -> tuple[str, list[Any]]:
    """Return a table of the query's output as `_server_tables` has it."""
    columns = []
    for column in table.columns:
        is_text = column.sql_type.name in (*TEXT_TYPES, *MEMBER_TYPES)
        collation = column.collation or (table.collation if is_text else None)
        columns.append((column.name, _type(column.type), None if collation == "binary" else collation, column.nullable))
    return table.collation, columns


class _Run:
    """The cases on one server: what it says after each, and where in its log that is."""

    def __init__(self, server: Instance) -> None:
        self.server = server
        self.said: list[tuple[tuple[str, ...], str, tuple[str, int], dict[str, Any]]] = []

    def execute(self, cases: list[tuple[str, ...]]) -> None:
        connection = pymysql.connect(
            unix_socket=str(self.server.socket), user="root", charset="utf8mb4", autocommit=True
        )
        with connection, connection.cursor() as cursor:
            for number, statements in enumerate(cases):
                schema = f"d{number}"
                cursor.execute(f"CREATE DATABASE {schema} CHARACTER SET latin1")
                cursor.execute(f"USE {schema}")
                for statement in START:
                    cursor.execute(statement)
                for statement in statements:
                    try:
                        cursor.execute(statement.replace("@DB", schema))
                    except pymysql.Error:
                        break  # not every server has every clause
                with (
                    pymysql.connect(unix_socket=str(self.server.socket), user="root", charset="utf8mb4") as other,
                    other.cursor() as reading,  # which does not see the temporary tables
                ):
                    self.said.append((statements, schema, self._end(reading), _server_tables(reading, schema)))

    def _end(self, cursor: Any) -> tuple[str, int]:
        cursor.execute("SHOW BINARY LOG STATUS" if self.server.vendor.kind == "mysql" else "SHOW MASTER STATUS")
        name, position = cursor.fetchone()[:2]
        return name, position

    def judge(self) -> tuple[list[str], int, int]:
        """Return the differences, and how many tables were followed and forgotten."""
        catalogue, waiting = Catalogue(), list(self.said)
        wrong: list[str] = []
        counts = [0, 0]
        is_mariadb = self.server.vendor.kind != "mysql"
        for path in sorted(self.server.data.glob("binlog.0?????")):
            with BinlogReader([LogFile(str(path), path.stat().st_size)]) as reader:
                for event in reader:
                    while waiting and waiting[0][2][0] == path.name and event.header.offset >= waiting[0][2][1]:
                        wrong += self._differences(catalogue, waiting.pop(0), counts, is_mariadb=is_mariadb)
                    if isinstance(event, QueryEvent) and event.header.type_code == EventType.QUERY_EVENT:
                        follow_event(catalogue, event, reader.context)
        for one in waiting:
            wrong += self._differences(catalogue, one, counts, is_mariadb=is_mariadb)
        return wrong, counts[0], counts[1]

    @staticmethod
    def _differences(catalogue: Catalogue, one: Any, counts: list[int], *, is_mariadb: bool) -> list[str]:
        statements, schema, _, tables = one
        extra = [name[1] for name, _ in catalogue.tables() if name[0] == schema and name[1] not in tables]
        found = [f"{statements}: there is no {name}" for name in extra]
        for name, theirs in tables.items():
            known = catalogue.find(schema, name)
            counts[known is None] += 1
            if known is None:
                if catalogue.reason((schema, name)) is None:
                    found.append(f"{statements}: no reason why {name} is unknown")
            elif (ours := _our_table(known.table, is_mariadb=is_mariadb)) != theirs:
                found.append(f"{statements}:\n  ours    {ours}\n  theirs  {theirs}")
        return found


@pytest.mark.parametrize("kind", ["mysql", "mariadb", "mariadb118"])
def test_tables_are_what_the_server_says_or_forgotten(kind: str) -> None:
    """After each of some hundred statements; each table that is forgotten has a reason, and most are followed."""
    with vendor(kind).server("ddl", "--binlog-format=ROW") as server:
        run = _Run(server)
        run.execute(_cases())
        wrong, followed, forgotten = run.judge()
        listed = parse_information_schema(server.sql(QUERY, names=True))

        assert {(table.schema, table.name): _as_listed(table) for table in listed} == {
            (schema, name): table for _, schema, _, tables in run.said for name, table in tables.items()
        }
        assert not wrong, "\n".join(wrong)
        assert followed > 4 * forgotten


@pytest.mark.parametrize("kind", ["mysql", "mariadb", "mariadb118"])
@pytest.mark.parametrize("form", ["MIXED", "STATEMENT"])
def test_statements_on_temporary_tables_leave_the_base_tables_known(kind: str, form: str) -> None:
    """Temporary and base tables are two name spaces; the log says which one a statement is about."""
    with vendor(kind).server("temporary", f"--binlog-format={form}") as server:
        run = _Run(server)
        run.execute(list(TEMPORARY))
        wrong, _, forgotten = run.judge()

        assert not wrong, "\n".join(wrong)
        assert forgotten <= 1  # the one like a temporary table whose columns come from a SELECT
