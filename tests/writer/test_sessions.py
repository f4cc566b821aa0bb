"""Commands of a session, by the public API: savepoints, XA, GTIDs, temporary tables, variables, and refusals."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from binlogio.errors import LoggingError, WriterStateError
from binlogio.gtid import Gtid
from binlogio.writer import Statement
from binlogio.writer.log.group import AUTOMATIC
from binlogio.writer.rules.known_objects import table_access
from binlogio.writer.rules.statement_facts import StatementFacts, StatementKind
from binlogio.writer.session.transaction import XaXid
from memory_storage import MemoryStorage
from session_logs import CREATE_TEMPORARY, DROP_TEMPORARY, TEMPORARY, N, T, insert, temporary, texts, writer
from written_logs import UUID


def test_an_unknown_savepoint_is_refused() -> None:
    """1305, for ROLLBACK TO and RELEASE; names do not mind their case."""
    with writer(MemoryStorage()) as log, log.session("shop") as session:
        session.begin()
        session.savepoint("One")
        session.rollback_to("oNE")
        session.release("ONE")
        for command in (session.rollback_to, session.release):
            with pytest.raises(LoggingError, match="SAVEPOINT one does not exist") as caught:
                command("one")
            assert caught.value.errno == 1305


def test_xa_commands_out_of_turn_are_refused() -> None:
    """1397, 1399 and 1400, as the server calls them."""
    one, two = XaXid(b"one"), XaXid(b"two")
    with writer(MemoryStorage()) as log, log.session("shop") as session:
        refused = [
            (session.xa_end, one, 1399),
            (session.xa_prepare, one, 1399),
        ]
        for command, xid, number in refused:
            with pytest.raises(LoggingError) as caught:
                command(xid)
            assert caught.value.errno == number
        session.xa_start(one)
        for command, xid, number in [(session.xa_start, two, 1400), (session.xa_end, two, 1397), *refused[1:]]:
            with pytest.raises(LoggingError) as caught:
                command(xid)
            assert caught.value.errno == number
        session.xa_end(one)
        session.xa_rollback(one)
        session.xa_start(two)


def test_an_empty_xa_transaction_leaves_nothing() -> None:
    """XA PREPARE of nothing is not logged; its XA COMMIT is, for all the server knows."""
    storage = MemoryStorage()

    with writer(storage) as log, log.session("shop") as session:
        session.xa_start(XaXid(b"g", b"b", 7))
        session.xa_end(XaXid(b"g", b"b", 7))
        session.xa_commit(XaXid(b"g", b"b", 7), one_phase=True)

    assert texts(storage) == []


def test_an_xa_transaction_that_has_changed_nothing_is_not_in_the_log() -> None:
    """Nor is its XA COMMIT or XA ROLLBACK, of whichever session, as a replica would not know it.

    Rows of MyISAM tables are a group of their own.
    """
    storage = MemoryStorage()
    nothing, n_only, something = XaXid(b"a"), XaXid(b"b"), XaXid(b"c")

    with writer(storage, binlog_format="ROW") as log, log.session("shop") as session, log.session("shop") as other:
        session.xa_start(nothing)
        session.xa_end(nothing)
        session.xa_prepare(nothing)
        other.xa_commit(nothing)
        session.xa_start(n_only)
        session.execute(insert(N, 1))
        session.xa_end(n_only)
        session.xa_prepare(n_only)
        session.xa_rollback(n_only)
        session.xa_start(something)
        session.execute(insert(T, 1))
        session.xa_end(something)
        session.xa_prepare(something)
        other.xa_commit(something)

    assert texts(storage) == [
        *("BEGIN", "TableMap", "WriteRows", "COMMIT"),
        *("XA START X'63',X'',1", "TableMap", "WriteRows", "XA END X'63',X'',1", "XaPrepare", "XA COMMIT X'63',X'',1"),
    ]


def test_a_gtid_is_used_once() -> None:
    """1837 for the second statement; a GTID that is in the log already makes its statements do nothing."""
    storage = MemoryStorage()
    gtid = Gtid.parse(f"{UUID}:77")

    with writer(storage, gtid_mode="ON") as log, log.session("shop") as session:
        session.set_variables(gtid_next=gtid)
        session.execute(insert(T, 1))
        with pytest.raises(LoggingError, match=str(gtid)) as caught:
            session.execute(insert(T, 2))
        session.set_variables(gtid_next=gtid)
        session.execute(insert(T, 3))
        session.set_variables(gtid_next=AUTOMATIC)
        session.execute(insert(T, 4))
        last = session.last_gtid

    assert caught.value.errno == 1837
    assert str(last) == f"{UUID}:1"
    assert [text for text in texts(storage) if text.startswith("INSERT")] == [
        "INSERT INTO t VALUES (1,'x')",
        "INSERT INTO t VALUES (4,'x')",
    ]


@pytest.mark.parametrize(("binlog_format", "expected"), [("STATEMENT", ["TRUNCATE tmp"]), ("MIXED", []), ("ROW", [])])
def test_ddl_of_a_temporary_table_commits_and_is_logged_in_statement_format_alone(
    binlog_format: str, expected: list[str]
) -> None:
    """What a 9.7.4 server does with TRUNCATE, ALTER TABLE and CREATE INDEX."""
    storage = MemoryStorage()

    with writer(storage, binlog_format=binlog_format) as log, log.session("shop") as session:
        session.begin()
        session.execute(insert(T, 1))
        session.execute(temporary(StatementKind.DDL, "TRUNCATE tmp"))
        is_open = session.in_transaction
    found = texts(storage)

    assert not is_open
    assert found[found.index("Xid") + 1 :] == expected


@pytest.mark.parametrize("binlog_format", ["STATEMENT", "MIXED"])
def test_a_drop_of_both_kinds_has_the_temporary_table_last_in_statement_format_alone(binlog_format: str) -> None:
    storage = MemoryStorage()
    tables = (replace(table_access(TEMPORARY, write=True), temporary=True), table_access(T, write=True))
    facts = StatementFacts(kind=StatementKind.DDL, tables=tables)

    with writer(storage, binlog_format=binlog_format) as log, log.session("shop") as session:
        session.execute(CREATE_TEMPORARY)
        session.execute(Statement("DROP TABLE tmp, t", facts=facts))
    found = texts(storage)

    of_temporary = ["DROP TEMPORARY TABLE `tmp` /* generated by server */"] if binlog_format == "STATEMENT" else []
    assert found[-1 - len(of_temporary) :] == ["DROP TABLE `t` /* generated by server */", *of_temporary]


def test_temporary_tables_go_with_their_session() -> None:
    """In STATEMENT format they are logged, and thrown away when the session ends.

    The format cannot change meanwhile.
    """
    storage = MemoryStorage()

    with writer(storage) as log:
        with log.session("shop") as session:
            session.execute(CREATE_TEMPORARY)
            with pytest.raises(LoggingError) as caught:
                session.set_variables(binlog_format="ROW")
        with log.session("shop") as session:
            session.execute(CREATE_TEMPORARY)
            session.execute(DROP_TEMPORARY)
            session.set_variables(binlog_format="ROW")
            session.execute(CREATE_TEMPORARY)

    assert caught.value.errno == 3745
    assert texts(storage) == [
        "CREATE TEMPORARY TABLE tmp (id INT)",
        "DROP /*!40005 TEMPORARY */ TABLE IF EXISTS `tmp`",
        "CREATE TEMPORARY TABLE tmp (id INT)",
        "DROP TEMPORARY TABLE `tmp` /* generated by server */",
    ]


@pytest.mark.parametrize(
    ("name", "value", "number"),
    [
        ("binlog_format", "ROW", 1679),
        ("sql_log_bin", False, 1694),
        ("binlog_direct_non_transactional_updates", True, 1685),
        ("max_binlog_size", 4096, 1229),
        ("nosuch", 1, 1193),
    ],
)
def test_variables_that_cannot_be_set_now_are_refused(name: str, value: Any, number: int) -> None:
    """In a transaction; the session's variables are as before."""
    with writer(MemoryStorage()) as log, log.session("shop") as session:
        session.begin()
        before = session.variables
        with pytest.raises(LoggingError) as caught:
            session.set_variables(**{name: value})

        assert caught.value.errno == number
        assert session.variables == before


def test_without_sql_log_bin_nothing_is_logged() -> None:
    """Neither changes nor DDL."""
    storage = MemoryStorage()

    with writer(storage) as log, log.session("shop") as session:
        session.set_variables(sql_log_bin=False)
        session.execute(insert(T, 1))
        session.execute(insert(N, 1))
        session.ddl("DROP TABLE t")

    assert texts(storage) == []


def test_without_autocommit_statements_wait_for_commit() -> None:
    """SET autocommit=0 begins transactions by itself, and SET autocommit=1 commits."""
    storage = MemoryStorage()

    with writer(storage) as log, log.session("shop") as session:
        session.set_variables(autocommit=False)
        session.execute(insert(T, 1))
        waiting = texts(storage)
        session.set_variables(autocommit=True)

    assert waiting == []
    assert texts(storage) == ["BEGIN", "INSERT INTO t VALUES (1,'x')", "Xid"]


def test_a_closed_session_takes_no_command() -> None:
    """Whatever it is."""
    with writer(MemoryStorage()) as log:
        session = log.session("shop")
        session.close()
        session.close()
        commands = (session.begin, session.commit, session.rollback, session.flush_logs, session.unlock_tables)
        for command in commands:
            with pytest.raises(WriterStateError, match="closed"):
                command()
        with pytest.raises(WriterStateError, match="closed"):
            session.savepoint("s")
