"""Sessions by the rules of servers before 5.5.4: one cache, and what does not wait goes to the log as it is."""

from __future__ import annotations

from typing import Any, Final

import pytest

import session_logs
from binlogio.writer import BinlogWriter, Insert, Session, Statement
from memory_storage import MemoryStorage
from session_logs import N, T, insert, texts

ROWS: Final = ["TableMap", "WriteRows"]


def writer(storage: MemoryStorage, rule_set: str, **variables: Any) -> BinlogWriter:
    """A writer with the rules of an old server."""
    return session_logs.writer(storage, rule_set=rule_set, **variables)


def n_before_and_behind_t(session: Session) -> None:
    """N T N in a transaction."""
    session.begin()
    session.execute(insert(N, 1))
    session.execute(insert(T, 2))
    session.execute(insert(N, 3))


@pytest.mark.parametrize("rule_set", ["5.0", "5.1.31"])
def test_statements_that_need_not_wait_are_in_the_log_without_begin(rule_set: str) -> None:
    """Those behind a transactional one wait with it."""
    storage = MemoryStorage()

    with writer(storage, rule_set, binlog_format="STATEMENT") as log, log.session("shop") as session:
        n_before_and_behind_t(session)
        session.commit()
        status = dict(log.status)

    assert texts(storage) == [
        "INSERT INTO n VALUES (1,'x')",
        "BEGIN",
        "INSERT INTO t VALUES (2,'x')",
        "INSERT INTO n VALUES (3,'x')",
        "Xid",
    ]
    assert (status["Binlog_cache_use"], status["Binlog_stmt_cache_use"]) == (1, 0)


@pytest.mark.parametrize("rule_set", ["5.0", "5.1.31"])
def test_rows_that_need_not_wait_are_in_the_log_without_begin(rule_set: str) -> None:
    """Rows behind a transactional statement wait with it, in the order of execution."""
    storage = MemoryStorage()

    with writer(storage, rule_set, binlog_format="ROW") as log, log.session("shop") as session:
        n_before_and_behind_t(session)
        session.commit()

    assert texts(storage) == [*ROWS, "BEGIN", *ROWS, *ROWS, "Xid"]


def test_rows_that_wait_stay_when_the_transaction_is_rolled_back() -> None:
    """The group ends in ROLLBACK."""
    storage = MemoryStorage()

    with writer(storage, "5.1.31", binlog_format="ROW") as log, log.session("shop") as session:
        n_before_and_behind_t(session)
        session.rollback()

    assert texts(storage) == [*ROWS, "BEGIN", *ROWS, *ROWS, "ROLLBACK"]


def test_of_a_failed_statement_the_rows_that_stay_wait_alone() -> None:
    """What its transactional tables had is taken back."""
    storage = MemoryStorage()

    with writer(storage, "5.1.31", binlog_format="ROW") as log, log.session("shop") as session:
        session.begin()
        session.execute(insert(T, 1))
        changes = [Insert(T, [(2, "x")]), Insert(N, [(2, "x")])]
        session.execute(Statement("INSERT", changes, error=1062))
        session.commit()

    assert texts(storage) == ["BEGIN", *ROWS, *ROWS, "Xid"]


def test_rows_of_both_kinds_in_one_cache_end_their_statement_once() -> None:
    """All maps first, and STMT_END on the last rows event alone."""
    storage = MemoryStorage()

    with writer(storage, "5.1.31", binlog_format="ROW") as log, log.session("shop") as session:
        session.begin()
        session.execute(insert(T, 1))
        session.execute(Statement("INSERT", [Insert(T, [(2, "x")]), Insert(N, [(2, "x")])]))
        session.commit()

    assert texts(storage) == ["BEGIN", *ROWS, "TableMap", "TableMap", "WriteRows", "WriteRows", "Xid"]


@pytest.mark.parametrize("binlog_format", ["STATEMENT", "ROW"])
def test_groups_without_begin_are_recovered_whole(binlog_format: str) -> None:
    """A log that was in use is cut behind the last of them."""
    storage, crashed = MemoryStorage(), MemoryStorage()
    with writer(storage, "5.0", binlog_format=binlog_format) as log, log.session("shop") as session:
        session.execute(insert(N, 1))
        whole = len(storage.files["binlog.000001"])
        session.execute(insert(N, 2))
        crashed.files = {name: bytearray(data) for name, data in storage.files.items()}
    del crashed.files["binlog.000001"][-5:]

    with writer(crashed, "5.0", binlog_format=binlog_format):
        assert len(crashed.files["binlog.000001"]) == whole
