"""Sessions by the rules of servers before 5.5.4: one cache, and what does not wait goes to the log as it is."""

from __future__ import annotations

from typing import Any, Final

import pytest

import session_logs
from binlogio.events.control import XidEvent
from binlogio.events.query import QueryEvent
from binlogio.events.rows import WriteRowsEvent
from binlogio.reader import open as open_logs
from binlogio.writer import BinlogWriter, Insert, Session, Statement
from memory_storage import MemoryStorage
from session_logs import N, T, insert, texts

ROWS: Final = ["TableMap", "WriteRows"]


def writer(storage: MemoryStorage, rule_set: str, **variables: Any) -> BinlogWriter:
    """Return a writer with the rules of an old server."""
    return session_logs.writer(storage, rule_set=rule_set, **variables)


def n_before_and_behind_t(session: Session) -> None:
    """N T N in a transaction."""
    session.begin()
    session.execute(insert(N, 1))
    session.execute(insert(T, 2))
    session.execute(insert(N, 3))


@pytest.mark.parametrize("rule_set", ["5.0", "5.1.31"])
def test_statements_that_need_not_wait_are_in_the_log_without_begin(rule_set: str) -> None:
    """Those after a transactional one wait with it."""
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
    """Rows after a transactional statement wait with it, in the order of execution."""
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
    """A log that was in use is cut after the last of them."""
    storage, crashed = MemoryStorage(), MemoryStorage()
    with writer(storage, "5.0", binlog_format=binlog_format) as log, log.session("shop") as session:
        session.execute(insert(N, 1))
        whole = len(storage.files["binlog.000001"])
        session.execute(insert(N, 2))
        crashed.files = {name: bytearray(data) for name, data in storage.files.items()}
    del crashed.files["binlog.000001"][-5:]

    with writer(crashed, "5.0", binlog_format=binlog_format):
        assert len(crashed.files["binlog.000001"]) == whole


# "Definition table for Layer 2 and 3" of WL#2687, its lines F: when the changes of a transaction are flushed, in
# STATEMENT, ROW and MIXED format. D: when their statement ends; C or R: when the transaction ends, in a group that
# COMMIT (or XID) or ROLLBACK closes; I: never. N and T after it are rows of those tables and statements that change
# them alone, M a statement that changes both.
FLUSHED: Final = {
    "1.a) B T T C": ("C", "C", "C"),
    "1.b) B T T R": ("I", "I", "I"),
    "2.a) B T N C": ("C", "D(N) C(T)", "D(N) C(T)"),
    "2.b) B T N R": ("R", "D(N) I(T)", "D(N) I(T)"),
    "3.a) T": ("C", "C", "C"),
    "3.b) T with error": ("I", "I", "I"),
    "4.a) N": ("D", "D", "D"),
    "5.a) M": ("C", "D(N) C(T)", "D(N) C(T)"),
    "5.b) M with error": ("R", "D(N) I(T)", "D(N) I(T)"),
    "6.a) B N N T C": ("D(N) C(T)", "D(N) C(T)", "D(N) C(T)"),
    "6.b) B N N T R": ("D(N) R(T)", "D(N) I(T)", "D(N) I(T)"),
    "7.a) B N N C": ("D(N)", "D(N)", "D(N)"),
    "7.b) B N N R": ("D(N)", "D(N)", "D(N)"),
    "8.a) B M T C": ("C", "D(N) C(T)", "D(N) C(T)"),
    "8.b) B M T R": ("R", "D(N) I(T)", "D(N) I(T)"),
    "9.a) B M N C": ("C", "D(N) C(T)", "D(N) C(T)"),
    "10.a) B N M C": ("D(N) C(M)", "D(N) C(T)", "D(N) C(T)"),
    "10.b) B N M R": ("D(N) R(M)", "D(N) I(T)", "D(N) I(T)"),
    "11.a) B T M C": ("C", "D(N) C(T)", "D(N) C(T)"),
    "11.b) B T M R": ("R", "D(N) I(T)", "D(N) I(T)"),
}
# Where we follow the chapter on logging formats (R-log-rollback: a transaction cache without an N-write is not written
# at ROLLBACK), as every recorded server does; see `end_of_rollback`. A replica has the same tables either way.
DECIDED: Final = {("6.b) B N N T R", "STATEMENT"): "D(N) I(T)"}
FORMATS: Final = ("STATEMENT", "ROW", "MIXED")


def statement(letter: str, number: int, *, error: int = 0) -> Statement:
    """T, N or M."""
    changed = {"T": [T], "N": [N], "M": [T, N]}[letter]
    return Statement(f"{letter} {number}", [Insert(table, [(number, "x")]) for table in changed], error=error)


def parts(storage: MemoryStorage) -> dict[tuple[str, int], str]:
    """Return what the log has of each statement, by letter and number, and what closes its group.

    Rows have the letter of their table.
    """
    found, group = {}, list[tuple[str, int]]()
    with open_logs(storage.streams()) as reader:
        for event in reader:
            text = event.sql.decode() if isinstance(event, QueryEvent) else ""
            if text in ("COMMIT", "ROLLBACK") or isinstance(event, XidEvent):
                found.update(dict.fromkeys(group, "R" if text == "ROLLBACK" else "C"))
                group = []
            elif text and text != "BEGIN":
                letter, number = text.split()
                group.append((letter, int(number)))
            elif isinstance(event, WriteRowsEvent):
                letter = reader.table_map(event).table.upper()
                group += [(letter, row.after.values[0]) for row in reader.rows(event) if row.after is not None]
    return found


@pytest.mark.parametrize("binlog_format", FORMATS)
@pytest.mark.parametrize("row", FLUSHED)
def test_changes_are_flushed_when_the_worklog_says_so(row: str, binlog_format: str) -> None:
    """Layer 3 of WL#2687, its 60 cells, by rule set 5.5.9."""
    expected = DECIDED.get((row, binlog_format)) or FLUSHED[row][FORMATS.index(binlog_format)]
    words = row.partition(") ")[2].split()
    error = 1062 if "error" in words else 0
    storage = MemoryStorage()
    flushed: dict[tuple[str, int], str] = {}
    executed: list[tuple[str, int]] = []

    with writer(storage, "5.5.9", binlog_format=binlog_format) as log, log.session("shop") as session:
        for number, word in enumerate(words[: words.index("with") if error else None]):
            before = dict(parts(storage))
            if word == "B":
                session.begin()
            elif word in ("C", "R"):
                session.commit() if word == "C" else session.rollback()
            else:
                session.execute(statement(word, number, error=error))
                executed.append((word, number))
            for part, end in parts(storage).items() - before.items():
                ends = word in ("C", "R") or ("B" not in words and part[0] != "N")
                flushed[part] = end if ends or end == "R" else "D"

    found, wanted = {}, {}
    named = {cell[2]: cell[0] for cell in expected.split() if len(cell) > 1}
    for letter, number in executed:
        for kind in "TN" if letter == "M" and binlog_format != "STATEMENT" else letter:
            found[kind, number] = flushed.pop((kind, number), "I")
            wanted[kind, number] = named[kind] if named else expected
    assert (found, flushed) == (wanted, {})


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"rule_set": "5.0"}, []),
        ({"rule_set": "5.1.31"}, []),
        ({"rule_set": "5.5.4"}, []),
        ({"rule_set": "5.5.9"}, []),
        ({"rule_set": "9.7"}, [6414]),
        ({"server_version": "9.7.0"}, [6414]),
        ({"server_version": "9.0.1"}, []),
        ({"server_version": "10.11.6-MariaDB"}, []),
    ],
    ids=str,
)
def test_engines_that_do_not_go_together_are_warned_of_since_9_6(variables: Any, expected: list[int]) -> None:
    """6414 is no warning of the servers before."""
    with session_logs.writer(MemoryStorage(), **variables) as log, log.session("shop") as session:
        session.begin()
        session.execute(insert(N, 1))
        session.execute(insert(T, 1))

        assert [warning.errno for warning in session.warnings] == expected
