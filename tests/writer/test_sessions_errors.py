"""Statements of a session that fail: what is logged, the errors for the client, and that the transaction continues."""

from __future__ import annotations

import errno
from dataclasses import replace
from typing import Final

import pytest

from binlogio.errors import BinlogFormatError, CacheLimitExceeded, LoggingError
from binlogio.events.control import IncidentEvent
from binlogio.events.query import QueryEvent
from binlogio.events.statement_context import UserVarEvent
from binlogio.options import ServerVariables
from binlogio.writer import BinlogWriter, Insert, Statement
from memory_storage import MemoryStorage
from session_logs import N, T, events_of, insert, texts, writer
from written_logs import UUID

_USER_VARIABLE: Final = UserVarEvent("v", 0, 0, 255, b"v" * 9000, b"")


def test_a_failed_statement_is_logged_with_its_error_where_rows_stay() -> None:
    """Of a MyISAM table; of an InnoDB table there is nothing."""
    storage = MemoryStorage()

    with writer(storage) as log, log.session("shop") as session:
        session.execute(insert(T, 1, error=1062))
        session.execute(insert(N, 1, error=1062))
        codes = [warning.errno for warning in session.warnings]
    queries = [event for event in events_of(storage) if isinstance(event, QueryEvent)]

    assert codes == [1196]
    assert [(event.sql, event.error_code) for event in queries] == [
        (b"BEGIN", 0),
        (b"INSERT INTO n VALUES (1,'x')", 1062),
        (b"COMMIT", 0),
    ]


def test_a_late_statement_is_unsafe_and_rolls_back_with_its_transaction() -> None:
    """1592 where it is cached, BEGIN ... ROLLBACK because its rows stay, 1196 for the client."""
    storage = MemoryStorage()

    with writer(storage) as log, log.session("shop") as session:
        session.begin()
        session.execute(insert(T, 1))
        session.execute(insert(N, 2))
        late = [warning.errno for warning in session.warnings]
        session.rollback()
        rolled_back = [warning.errno for warning in session.warnings]

    assert late == [6414, 1592]
    assert rolled_back == [1196]
    assert texts(storage) == ["BEGIN", "INSERT INTO t VALUES (1,'x')", "INSERT INTO n VALUES (2,'x')", "ROLLBACK"]


def test_warnings_are_those_of_the_last_statement() -> None:
    """As SHOW WARNINGS."""
    with writer(MemoryStorage()) as log, log.session("shop") as session:
        session.begin()
        session.execute(insert(T, 1))
        session.execute(insert(N, 2))
        session.execute(insert(T, 3))

        assert not session.warnings


def test_a_statement_that_does_not_fit_its_cache_is_undone_alone() -> None:
    """1197; what the transaction has cached before and after it is in its group."""
    storage = MemoryStorage()

    with writer(storage, binlog_cache_size=4096, max_binlog_cache_size=4096) as log, log.session("shop") as session:
        session.begin()
        session.execute(insert(T, 1, "a" * 7000))
        with pytest.raises(CacheLimitExceeded) as caught:
            session.execute(insert(T, 2, "b" * 7000))
        session.execute(insert(T, 3))
        session.commit()

    assert caught.value.errno == 1197
    assert [text[:26] for text in texts(storage)] == [
        "BEGIN",
        "INSERT INTO t VALUES (1,'a",
        "INSERT INTO t VALUES (3,'x",
        "Xid",
    ]


@pytest.mark.parametrize("binlog_format", ["STATEMENT", "ROW"])
def test_lost_changes_of_a_table_that_keeps_them_are_an_incident_in_a_log_of_its_own(binlog_format: str) -> None:
    """1705, INCIDENT, the next log; never half an event. The session continues."""
    storage = MemoryStorage()
    many = Statement("INSERT", [Insert(N, [(number, "a" * 5000) for number in range(5)])])
    variables = {"binlog_stmt_cache_size": 4096, "max_binlog_stmt_cache_size": 4096, "binlog_format": binlog_format}

    with writer(storage, **variables) as log, log.session("shop") as session:
        if binlog_format == "STATEMENT":
            many = replace(many, sql="/*" + "x" * 8000 + "*/INSERT INTO n VALUES (1,'y')")
            session.execute(insert(N, 0))
            with pytest.raises(CacheLimitExceeded) as caught:
                session.execute(replace(many, context=(_USER_VARIABLE,)))
        else:
            with pytest.raises(CacheLimitExceeded) as caught:
                session.execute(many)
        session.execute(insert(N, 6))
        files = len(log.names)
    events = events_of(storage)

    assert (caught.value.errno, caught.value.symbol) == (1705, "ER_STMT_CACHE_FULL")
    assert files == 2
    assert [event.message for event in events if isinstance(event, IncidentEvent)] == [
        "Non-transactional changes were not written to the binlog."
    ]


def test_a_full_temporary_folder_undoes_the_statement_and_the_transaction_continues() -> None:
    """The error is the system's; the log is as if the statement had not been."""
    storage = MemoryStorage()
    full = ["yes"]

    class Disk:
        """A spill file that cannot be written while `full`."""

        def __init__(self) -> None:
            self.data = bytearray()

        def write(self, offset: int, data: bytes | memoryview) -> None:
            if full:
                raise OSError(errno.ENOSPC, "no space left")
            self.data[offset : offset + len(data)] = data

        def read(self, offset: int, size: int) -> bytes:
            return bytes(self.data[offset : offset + size])

        def close(self) -> None:
            self.data.clear()

    variables = ServerVariables(server_uuid=UUID, binlog_cache_size=4096)
    with (
        BinlogWriter("binlog", variables=variables, storage=storage, open_spill=Disk) as log,
        log.session("shop") as session,
    ):
        session.begin()
        session.execute(insert(T, 1))
        with pytest.raises(OSError, match="no space left"):
            session.execute(insert(T, 2, "b" * 9000))
        full.clear()
        session.execute(insert(T, 3, "c" * 9000))
        session.commit()
        status = log.status

    assert texts(storage) == ["BEGIN", "TableMap", "WriteRows", "TableMap", "WriteRows", "Xid"]
    assert (status["Binlog_cache_use"], status["Binlog_cache_disk_use"]) == (1, 1)


def test_a_refused_statement_leaves_its_transaction_open() -> None:
    """1785 with gtid_mode=ON; the transaction can be committed."""
    storage = MemoryStorage()

    with writer(storage, gtid_mode="ON") as log, log.session("shop") as session:
        session.begin()
        session.execute(insert(T, 1))
        with pytest.raises(LoggingError) as caught:
            session.execute(insert(N, 2))
        warned = [warning.errno for warning in session.warnings]
        session.commit()

    assert (caught.value.errno, warned) == (1785, [6414])
    assert texts(storage) == ["BEGIN", "INSERT INTO t VALUES (1,'x')", "Xid"]


def test_an_unfit_row_leaves_nothing_of_its_statement() -> None:
    """Neither in the transaction cache nor in the statement cache, although rows before it were fine."""
    storage = MemoryStorage()
    both = Statement("", [Insert(N, [(1, "x")]), Insert(T, [(1, "x"), (2, None), ("no number", "x")])])

    with writer(storage, binlog_format="ROW") as log, log.session("shop") as session:
        session.begin()
        with pytest.raises(BinlogFormatError, match=r"column id, byte 1 of the row images"):
            session.execute(both)
        session.commit()

    assert texts(storage) == []
