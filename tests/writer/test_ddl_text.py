"""DDL as a server reads and logs it, and the CREATE TABLE that a 9.7.4 server makes up for CREATE TABLE ... SELECT."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from binlogio.schema import ColumnDefinition, KeyDefinition, TableDefinition
from binlogio.schema.ddl.tokens import MODE_ANSI_QUOTES
from binlogio.writer.session.ddl import DdlText, create_table

TABLE: Final = TableDefinition(
    "d",
    "a",
    (
        ColumnDefinition("id", "int", nullable=False, auto_increment=True),
        ColumnDefinition("v", "BIGINT UNSIGNED"),
        ColumnDefinition("e", "ENUM('Red','gReen')"),
        ColumnDefinition("c", "CHAR(10)", charset="latin1"),
        ColumnDefinition("k", "VARCHAR(20)", collation="utf8mb4_bin"),
        ColumnDefinition("bn", "varbinary(5)", nullable=False),
        ColumnDefinition("ts", "timestamp"),
        ColumnDefinition("d", "datetime(3)", default_now=True, on_update_now=True),
        ColumnDefinition("i", "int", visible=False),
    ),
    ("id",),
    unique_keys=(KeyDefinition(("v",)), KeyDefinition(("k", "v"), (5, 0)), KeyDefinition(("k",))),
)
COLUMNS: Final = """CREATE TABLE `a` (
  `id` int NOT NULL AUTO_INCREMENT,
  `v` bigint unsigned DEFAULT NULL,
  `e` enum('Red','gReen') DEFAULT NULL,
  `c` char(10) CHARACTER SET latin1 COLLATE latin1_swedish_ci DEFAULT NULL,
  `k` varchar(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin DEFAULT NULL,
  `bn` varbinary(5) NOT NULL,
  `ts` timestamp NULL DEFAULT NULL,
  `d` datetime(3) DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3),
  `i` int DEFAULT NULL /*!80023 INVISIBLE */,
  PRIMARY KEY (`id`),
  UNIQUE KEY `v` (`v`),
  UNIQUE KEY `k` (`k`(5),`v`),
  UNIQUE KEY `k_2` (`k`)
"""


@pytest.mark.parametrize(
    ("starts_transaction", "end"), [(True, ") START TRANSACTION"), (False, ") ENGINE=InnoDB")], ids=["atomic", "not"]
)
def test_the_table_that_is_made_has_all_that_its_rows_need(starts_transaction: bool, end: str) -> None:
    """Character sets, members as they are spelt, and keys."""
    assert create_table(TABLE, TABLE.schema, starts_transaction=starts_transaction).decode() == COLUMNS + end


def test_a_created_table_of_another_character_set_names_it() -> None:
    table = replace(
        TABLE, columns=(ColumnDefinition("c", "char(3)"),), primary_key=(), unique_keys=(), collation="latin1_bin"
    )

    found = create_table(table, table.schema, starts_transaction=False).decode()

    assert (
        found
        == "CREATE TABLE `a` (\n  `c` char(3) DEFAULT NULL\n) ENGINE=InnoDB DEFAULT CHARSET=latin1 COLLATE=latin1_bin"
    )


def facts(sql: str, *, sql_mode: int = MODE_ANSI_QUOTES, is_mariadb: bool = False) -> str:
    """Return what the log of a statement depends on: L(ogged), A(tomic), B(arrier), I(nvoker), and schemas."""
    ddl = DdlText(sql.encode(), sql_mode, is_mariadb=is_mariadb)
    letters = (("L", ddl.is_logged), ("A", ddl.is_atomic), ("B", ddl.is_barrier), ("I", ddl.names_invoker))
    schemas = ddl.updated_schemas("s")
    return " ".join((ddl.verb, ddl.kind, "".join(letter for letter, holds in letters if holds), *(schemas or ())))


@pytest.mark.parametrize("blank", [" ", "\n\t", " /* why */ ", " -- why\n", "/**/", " /*!50001 */ "], ids=repr)
@pytest.mark.parametrize(
    ("sql", "mysql", "mariadb"),
    [
        ("CREATE TABLE d.t (a INT)", "CREATE TABLE LA d", "CREATE TABLE LA d"),
        ("/*!50001 CREATE TABLE */ d.t (a INT)", "CREATE TABLE LA d", "CREATE TABLE LA d"),
        ("CREATE /*M! OR REPLACE */ TABLE t (a INT)", "CREATE TABLE LA s", "CREATE TABLE LA s"),
        ("create table `d`.t (engine INT) ENGINE=InnoDB", "CREATE TABLE LA d", "CREATE TABLE LA d"),
        ("CREATE TABLE t (engine INT) COMMENT 'ENGINE=MyISAM'", "CREATE TABLE LA s", "CREATE TABLE LA s"),
        ("CREATE TABLE t (engine INT) ENGINE `MyISAM`", "CREATE TABLE L s", "CREATE TABLE LA s"),
        ('CREATE TABLE "a""b" . "t" (a INT)', 'CREATE TABLE LA a"b', 'CREATE TABLE LA a"b'),
        ("CREATE TABLE t ( LIKE d.u)", "CREATE TABLE LA", "CREATE TABLE LA"),
        ("ALTER TABLE d.t EXCHANGE PARTITION p WITH TABLE u", "ALTER TABLE LA", "ALTER TABLE LA"),
        ("ALTER TABLE t ADD b INT, RENAME TO d.u", "ALTER TABLE LA s d", "ALTER TABLE LA s d"),
        ("RENAME TABLES t TO d.u", "RENAME TABLE LA s d", "RENAME TABLE LA s d"),
        ("DROP TABLES IF EXISTS d.t , t", "DROP TABLE LA s d", "DROP TABLE LA s d"),
        ("DROP TEMPORARY TABLE t", "DROP TABLE LA s", "DROP TABLE L s"),
        ("CREATE UNIQUE INDEX i ON d.t (a)", "CREATE INDEX LA d", "CREATE INDEX LA d"),
        ("TRUNCATE TABLE t", "TRUNCATE  LA", "TRUNCATE  L"),
        ("CREATE DATABASE d", "CREATE DATABASE LAB d", "CREATE DATABASE LB d"),
        ("create schema if not exists `d`", "CREATE DATABASE LAB d", "CREATE DATABASE LB d"),
        ("ALTER DATABASE CHARACTER SET latin1", "ALTER DATABASE LAB s", "ALTER DATABASE LB s"),
        ("DROP SCHEMA d", "DROP DATABASE LAB d", "DROP DATABASE LAB d"),
        ("CREATE VIEW d.v AS SELECT 1", "CREATE VIEW LAI d", "CREATE VIEW LAI d"),
        ("CREATE DEFINER = a @ b VIEW d.v AS SELECT 1", "CREATE VIEW LA d", "CREATE VIEW LA d"),
        ("CREATE SQL SECURITY DEFINER VIEW v AS SELECT 1", "CREATE VIEW LAI s", "CREATE VIEW LAI s"),
        (
            "CREATE DEFINER = CURRENT_USER EVENT e ON SCHEDULE EVERY 1 DAY DO SELECT 1",
            "CREATE EVENT LAI s",
            "CREATE EVENT LI s",
        ),
        ("ALTER EVENT e RENAME TO d.f", "ALTER EVENT LAI s d", "ALTER EVENT LI s d"),
        ("CREATE FUNCTION f() RETURNS INT RETURN 1", "CREATE FUNCTION LAI s", "CREATE FUNCTION LI s"),
        ("CREATE AGGREGATE FUNCTION f RETURNS INT SONAME 'f'", "CREATE FUNCTION LA s", "CREATE FUNCTION LI s"),
        ("ALTER PROCEDURE d.p COMMENT ''", "ALTER PROCEDURE LA", "ALTER PROCEDURE L"),
        ("CREATE USER u", "CREATE USER LA mysql", "CREATE USER L mysql"),
        ("GRANT SELECT (`on`), INSERT ON TABLE d.t TO u", "GRANT  LAI mysql d", "GRANT  LI mysql d"),
        ("GRANT SELECT ON t TO u", "GRANT  LAI s mysql", "GRANT  LI s mysql"),
        ("GRANT PROXY ON a TO b", "GRANT  LAI mysql", "GRANT  LI mysql"),
        ("REVOKE ALL ON * . * FROM u", "REVOKE  LAI mysql", "REVOKE  LI mysql"),
        ("ANALYZE LOCAL TABLE t", "ANALYZE  B", "ANALYZE  B"),
        ("OPTIMIZE TABLE d.t", "OPTIMIZE TABLE LB d", "OPTIMIZE TABLE LB d"),
        ("FLUSH BINARY LOGS", "FLUSH  ", "FLUSH  "),
        ("FLUSH TABLES t WITH READ LOCK", "FLUSH  ", "FLUSH  "),
        ("FLUSH TABLES t FOR EXPORT", "FLUSH  ", "FLUSH  "),
        ("FLUSH TABLES", "FLUSH  L", "FLUSH  L"),
        ("CREATE SERVER v FOREIGN DATA WRAPPER mysql OPTIONS (PORT 1)", "CREATE SERVER A s", "CREATE SERVER  s"),
        ("CREATE ROLE r", "CREATE ROLE LA mysql", "CREATE ROLE LI mysql"),
        ("SET STATEMENT max_statement_time = (1) FOR CREATE TABLE d.t (a INT)", None, "CREATE TABLE LA d"),
        ("CREATE TABLE d.t (a INT) COMMENT 'never ends", "CREATE TABLE LA d", "CREATE TABLE LA d"),
        ("`never", "  LA s", "  L s"),
        ("", "  LA s", "  L s"),
    ],
)
def test_log_of_ddl_does_not_depend_on_how_it_is_spelt(sql: str, mysql: str | None, mariadb: str, blank: str) -> None:
    """Comments, capitals, quotes and executed comments are read as the server reads them."""
    text = blank + sql.replace(" ", blank) if "'" not in sql and "*/" not in sql else blank + sql

    assert facts(text, is_mariadb=True).strip() == mariadb.strip()
    assert mysql is None or facts(text).strip() == mysql.strip()
