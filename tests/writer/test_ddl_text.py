"""The CREATE TABLE that a server makes up for CREATE TABLE ...

SELECT in ROW format, as a 9.7.4 server has it in its log.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from binlogio.schema import ColumnDefinition, KeyDefinition, TableDefinition
from binlogio.writer.session.ddl import create_table

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
