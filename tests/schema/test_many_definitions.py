"""The work of a DDL statement does not grow with the number of tables, or of earlier statements."""

from __future__ import annotations

from functools import partial

import pytest

from binlogio.schema.ddl.catalogue import Catalogue
from followed_ddl import MYSQL, follow_statement
from operations import operations

FEW, MANY = 10, 1000


def catalogue_of(tables: int, columns: int = 2) -> Catalogue:
    """Return a catalogue of tables in databases of their own, which refer to another one, beside the table s.t."""
    found = Catalogue()
    names = ", ".join(f"c{number} INT" for number in range(columns))
    follow_statement(found, f"CREATE TABLE t ({names}, KEY k (c0))", "s", MYSQL)
    for number in range(tables):
        sql = "CREATE TABLE u (a INT, FOREIGN KEY (a) REFERENCES p (a) ON DELETE CASCADE)"
        follow_statement(found, sql, f"s{number}", MYSQL)
        found.forget((f"s{number}", "gone"), "a reason")
    return found


def work_of(sql: str, catalogue: Catalogue) -> int:
    """Return the operations of a statement with the default database `s`, whose text was parsed before."""
    follow_statement(catalogue.copy(), sql, "s", MYSQL)
    return operations(lambda: follow_statement(catalogue, sql, "s", MYSQL))


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE TABLE v (a INT, FOREIGN KEY (a) REFERENCES t (c0) ON DELETE CASCADE)",
        "ALTER TABLE t ADD d INT",
        "ALTER TABLE t RENAME TO v",
        "RENAME TABLE t TO v",
        "DROP TABLE t",
        "DROP DATABASE s",
        "CREATE OR REPLACE DATABASE s",
        "CREATE INDEX i ON t (c0)",
    ],
)
def test_the_work_of_a_statement_does_not_depend_on_the_other_tables(sql: str) -> None:
    """A thousand other tables, with foreign keys, and as many unknown ones."""
    assert work_of(sql, catalogue_of(MANY)) < 1.2 * work_of(sql, catalogue_of(FEW))


def test_the_children_of_a_table_are_found_without_reading_all_foreign_keys() -> None:
    """As for each table map of a replay."""
    few, many = (operations(partial(catalogue_of(count).cascades.of_parent, ("s3", "p"))) for count in (FEW, MANY))

    assert few == many


@pytest.mark.parametrize("clauses", ["ADD d INT", "COMMENT 'a'", "ADD INDEX i (c0)", "DROP INDEX k", "ENGINE = InnoDB"])
def test_the_work_on_unchanged_columns_is_small(clauses: str) -> None:
    """Columns that a statement does not name are taken over: 990 more cost less than 20 operations each."""
    few, many = (work_of(f"ALTER TABLE t {clauses}", catalogue_of(0, columns)) for columns in (FEW, MANY))

    assert many - few < 20 * (MANY - FEW)


def test_columns_that_exchange_their_names_keep_their_own_character_sets() -> None:
    """The column with the assumed character set of the database is the one of that name afterwards."""
    catalogue = Catalogue()
    follow_statement(catalogue, "CREATE TABLE t (a TEXT, b TEXT CHARACTER SET latin1, c TEXT)", "s", MYSQL)
    follow_statement(catalogue, "ALTER TABLE t RENAME COLUMN a TO b, RENAME COLUMN b TO a", "s", MYSQL)
    known = catalogue.find("s", "t")

    assert known is not None
    assert known.table.assumed == {"b", "c"}
