"""Classification of statements by their text: transactions, savepoints, XA, changes of rows."""

from __future__ import annotations

import time

import pytest

from binlogio.schema.statements import (
    Begin,
    Commit,
    CreateWithRows,
    OtherStatement,
    Rollback,
    RollbackTo,
    SavepointStatement,
    Statement,
    Xa,
    recognize,
    updates_on_duplicate,
    xid_key,
)

NOTHING = OtherStatement(changes_rows=False)
CHANGES = OtherStatement(changes_rows=True)


@pytest.mark.parametrize(
    ("sql", "statement"),
    [
        ("BEGIN", Begin()),
        ("COMMIT", Commit()),
        ("ROLLBACK", Rollback()),
        ("SAVEPOINT `a``b`", SavepointStatement("a`b")),
        ('SAVEPOINT "a""b`c"', SavepointStatement('a"b`c')),  # sql_mode=ANSI_QUOTES
        ('ROLLBACK TO "S1"', RollbackTo("s1")),
        ("savepoint S1", SavepointStatement("s1")),
        ("ROLLBACK TO `S1`", RollbackTo("s1")),
        ("ROLLBACK WORK TO SAVEPOINT s1", RollbackTo("s1")),
        ("XA START X'67',X'',1", Xa("START", "67,,1")),
        ("XA END X'67',X'',1", Xa("END", "67,,1")),
        ("XA COMMIT X'67',X'62',2 ONE PHASE", Xa("COMMIT", "67,62,2")),
        ("XA ROLLBACK 'g'", Xa("ROLLBACK", "67,,1")),
        ("DROP TABLE t", NOTHING),
        ("/* why */ UPDATE t SET a = 1", CHANGES),
        ("-- why\n# and\n(DELETE FROM t)", CHANGES),
        ("/*!40000 INSERT */ INTO t VALUES (1)", CHANGES),
        ("/*M! REPLACE */ INTO t VALUES (1)", CHANGES),
        ("SET STATEMENT max_statement_time = (SELECT 1 FOR UPDATE) FOR UPDATE t SET a = 1", CHANGES),
        ("SET STATEMENT max_statement_time = 1 FOR DROP TABLE t", NOTHING),
        ("SET STATEMENT sql_mode = '' FOR INSERT INTO t VALUES (1)", CHANGES),
        ("SET STATEMENT sql_mode = 'ANSI_QUOTES', character_set_client = latin1 FOR ROLLBACK TO a", RollbackTo("a")),
        ("SET STATEMENT sql_mode = '' FOR DROP TABLE t", NOTHING),
        ("SET STATEMENT sql_mode = ''", NOTHING),
        ("SET STATEMENT " + ", ".join(f"v{i} = {i}" for i in range(99)) + " FOR INSERT INTO t VALUES (1)", CHANGES),
        ("/* c */ SET STATEMENT a = 1, b = 2, c = 3, d = 4, e = 5 FOR DELETE FROM t", CHANGES),
        ("SET PASSWORD = ''", NOTHING),
        ("ANALYZE FORMAT=JSON UPDATE t SET a = 1", CHANGES),
        ("ANALYZE TABLE t UPDATE HISTOGRAM ON a", NOTHING),
        ("/* why */ DROP TABLE t", NOTHING),
        ("/* never ends", NOTHING),
        ("DROP VIEW v", NOTHING),
        ("CREATE TABLE t (a INT)", NOTHING),
        ("INSERT INTO t VALUES (1)", CHANGES),
        ("  (replace into t VALUES (1)", CHANGES),
        ("", NOTHING),
        ("begin work", Begin()),
        ("/* why */ START /* why */ TRANSACTION READ ONLY", Begin()),
        ("BEGIN NOT ATOMIC SELECT 1; END", NOTHING),
        ("-- why\ncommit work AND CHAIN", Commit()),
        ("rollback/**/work", Rollback()),
        ("/*!50001 ROLLBACK */ # to\n TO\tSAVEPOINT\n`a b`", RollbackTo("a b")),
        ("/*M! SAVEPOINT */ \u00c4", SavepointStatement("\u00e4")),
        ("SAVEPOINT 'a'", NOTHING),
        ("SAVEPOINT `never", NOTHING),
        ("RELEASE SAVEPOINT a", NOTHING),
        ("xa /* why */ begin 0x67 , b'1100010'", Xa("START", "67,62,1")),
        ("XA END 'it''s', 'b', 7", Xa("END", b"it's".hex() + ",62,7")),
        ("XA RECOVER", NOTHING),
        ("XA COMMIT", NOTHING),
        ("CREATE TABLE t (a INT) START TRANSACTION", CreateWithRows()),
        ("/* why */ CREATE TABLE t (a INT) START/**/TRANSACTION # why", CreateWithRows()),
        ("CREATE TABLE t (a INT) COMMENT 'START TRANSACTION'", NOTHING),
        ("(\n(SELECT f()))", CHANGES),
    ],
)
def test_statement_is_recognized(sql: str, statement: Statement) -> None:
    """By its text alone, whatever comes before its first word."""
    assert recognize(sql.encode()) == statement


@pytest.mark.parametrize("spelling", ["X'6162',X'63',1", "0x6162,0x63,1", "'ab','c'", "x'6162' , 'c'"])
def test_spellings_of_an_xid_are_the_same(spelling: str) -> None:
    """A server writes X'..', clients write what they like."""
    assert xid_key(spelling) == "6162,63,1"


def test_xid_of_bytes_that_are_no_text_is_one_of_them() -> None:
    """A log may be damaged."""
    assert recognize(b"XA COMMIT '\xff','c'") == Xa("COMMIT", "ff,63,1")


@pytest.mark.parametrize(
    "sql", [b"/**/" * 50_000, b"DROP TABLE " + b"a," * 50_000 + b"!", b"DROP " + b"\n" * 100_000, b"\xff" * 10]
)
def test_odd_statement_takes_no_time(sql: bytes) -> None:
    """No text makes the patterns go back and forth."""
    started = time.process_time()
    recognize(sql)

    assert time.process_time() - started < 2


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("INSERT INTO t VALUES (1) ON DUPLICATE KEY UPDATE a = 2", True),
        ("insert into t values (1) on/**/duplicate\nkey update a = 2", True),
        ("INSERT INTO t VALUES ('it''s') /* on duplicate key */", False),
        ("INSERT INTO duplicates VALUES ('on duplicate key', `DUPLICATE`)", False),
        ("INSERT INTO t VALUES ('on duplicate", True),  # it cannot be read
    ],
)
def test_an_insert_that_may_update_is_recognized(sql: str, expected: bool) -> None:
    assert updates_on_duplicate(sql) is expected
