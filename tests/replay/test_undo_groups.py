"""Undo of transactions: statements, savepoints, XA, and the binary log that comes out."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pytest

import binlogio
from binlogio.constants import EventType, RowsFlag
from binlogio.errors import ReplayError
from binlogio.events import RowsEvent
from binlogio.events.control import XaPrepareEvent
from binlogio.events.format_description import FormatDescriptionEvent
from binlogio.events.gtid import AnonymousGtidEvent, PreviousGtidsEvent
from binlogio.replay import ReplayFilter
from binlogio.replay.undo import BinlogFile, OnStatement, SqlScript, undo
from binlogio.replay.undo.spool import Spool, SpooledGroup
from binlogio.values.absent import ABSENT
from logs import description, encode, header, log, query
from row_events import END, group
from undo_logs import KEYED, KEYLESS, ONE, THREE, TWO, rows_of, sql_of, undone

if TYPE_CHECKING:
    from pathlib import Path

# ------------------------------------------------------------------------------------------------------- statements


DDL: Final = query("ALTER TABLE t ADD x INT")
TEXT: Final = [query("BEGIN"), query("INSERT INTO t VALUES (1)"), END]


def deleted(number: int) -> str:
    """Return the statement that takes back the insert of ONE, TWO or THREE."""
    _, name, doc = (ONE, TWO, THREE)[number - 1]
    assert doc is None
    names = f"CAST(CONVERT(`name` USING utf8mb4) AS BINARY) = '{name}' AND `doc` IS NULL"
    return f"DELETE FROM `d`.`t` WHERE `id` <=> {number} AND {names};"


def test_statement_is_refused_by_default(tmp_path: Path) -> None:
    """With its text and the options."""
    events = [*group(rows_of((None, ONE))), DDL]
    with pytest.raises(ReplayError, match=r"ALTER TABLE t ADD x INT .*on_statement=.stop.") as caught:
        undone(tmp_path, *events)

    assert caught.value.offset
    assert caught.value.file


def test_change_that_is_text_names_the_format_that_it_lacks(tmp_path: Path) -> None:
    """binlog_format=ROW."""
    with pytest.raises(ReplayError, match=r"INSERT INTO t VALUES .*binlog_format=ROW"):
        undone(tmp_path, *TEXT)


def test_undo_stops_at_the_last_statement(tmp_path: Path) -> None:
    """Rows after it are taken back, and what was wrong before it does not matter."""
    refused = group(rows_of(((1, ABSENT, ABSENT), None)))
    events = [*group(rows_of((None, ONE))), *refused, DDL, *group(rows_of((None, TWO)))]
    ready = undone(tmp_path, *events, on_statement=OnStatement.STOP)
    end = ready.summary.end

    assert sql_of(ready)[1:-1] == [deleted(2)]
    assert ready.summary.transactions == 1
    assert ready.summary.rows == {("d.t", "insert"): 1}
    assert end is not None
    assert end.offset == len(log(*events[: events.index(DDL) + 1]))


def test_what_is_refused_behind_the_last_statement_is_refused(tmp_path: Path) -> None:
    """An undo that stops at statements, too."""
    with pytest.raises(ReplayError, match="lack columns"):
        undone(tmp_path, DDL, *group(rows_of(((1, ABSENT, ABSENT), None))), on_statement=OnStatement.STOP)


def test_undo_skips_statements(tmp_path: Path) -> None:
    """Rows on both sides are taken back; statements are counted."""
    events = [*group(rows_of((None, ONE))), DDL, *TEXT, *group(rows_of((None, TWO)))]
    ready = undone(tmp_path, *events, on_statement=OnStatement.SKIP)

    assert len(sql_of(ready)) == 6
    assert ready.summary.statements == 2


# ----------------------------------------------------------------------------------------- savepoints, XA, rollback


@pytest.mark.parametrize("on_statement", list(OnStatement))
def test_statements_of_other_tables_do_not_count(tmp_path: Path, on_statement: OnStatement) -> None:
    """Nor does what a chosen table began with: no row of it is older."""
    begin = [
        query("CREATE DATABASE d", ""),
        query("CREATE TABLE t (id INT)"),
        query("CREATE TABLE other.unrelated (x INT)"),
    ]
    others = [
        query("DROP TABLE IF EXISTS other.unrelated"),
        query("DROP DATABASE other", ""),
        query("CREATE USER u", ""),
    ]
    events = [*begin, *group(rows_of((None, ONE))), *others, *group(rows_of((None, TWO)))]
    ready = undone(tmp_path, *events, wanted=ReplayFilter(tables=("d.t",)), on_statement=on_statement)
    deletes = [line for line in sql_of(ready) if line.startswith("DELETE")]

    assert (ready.summary.transactions, ready.summary.statements) == (2, 0)
    assert len(deletes) == 2


@pytest.mark.parametrize(
    "sql",
    ["ALTER TABLE t ADD x INT", "DROP TABLE x.y, t", "RENAME TABLE t TO u", "DROP DATABASE d", "CALL p()", "TRUNCATE d.t", "CREATE OR REPLACE TABLE t (id INT)"],  # noqa: E501
)  # fmt: skip
def test_statements_of_chosen_tables_count(tmp_path: Path, sql: str) -> None:
    """Statements whose tables are not known count as well."""
    events = [*group(rows_of((None, ONE))), query(sql), *group(rows_of((None, TWO)))]
    with pytest.raises(ReplayError, match="a statement cannot be undone"):
        undone(tmp_path, *events, wanted=ReplayFilter(tables=("d.t",)))
    for on_statement, count in ((OnStatement.STOP, 1), (OnStatement.SKIP, 2)):
        with undone(tmp_path, *events, wanted=ReplayFilter(tables=("d.t",)), on_statement=on_statement) as ready:
            assert ready.summary.transactions == count


def test_rows_that_were_rolled_back_to_a_savepoint_stay_as_they_are(tmp_path: Path) -> None:
    """The source has taken them back."""
    events = group(
        rows_of((None, ONE)),
        [query("SAVEPOINT `A`")],
        rows_of((None, TWO)),
        [query("ROLLBACK TO `a`")],
        rows_of((None, THREE)),
    )
    ready = undone(tmp_path, *events)

    assert ready.summary.rolled_back_events == 1
    assert sql_of(ready)[1:-1] == [deleted(3), deleted(1)]


def test_savepoint_that_nobody_set_is_refused(tmp_path: Path) -> None:
    """The rows that it changed are not in the log."""
    with pytest.raises(ReplayError, match="ROLLBACK TO a savepoint that is not in the log"):
        undone(tmp_path, *group(rows_of((None, ONE)), [query("ROLLBACK TO `a`")]))


def test_transaction_that_was_rolled_back_is_not_taken_back(tmp_path: Path) -> None:
    """It is counted."""
    ready = undone(tmp_path, query("BEGIN"), *rows_of((None, ONE)), query("ROLLBACK"))

    assert sql_of(ready) == []
    assert ready.summary.rolled_back_groups == 1


def xa(step: str) -> Any:
    return query(f"XA {step} X'61',X'',1")


def test_xa_transaction_is_taken_back_where_it_was_committed(tmp_path: Path) -> None:
    """After what was committed between prepare and commit."""
    prepare = XaPrepareEvent(0, 1, b"a", b"", header(EventType.XA_PREPARE_LOG_EVENT))
    begun = [xa("START"), *rows_of((None, ONE)), xa("END"), prepare]
    events = [*begun, *group(rows_of((None, TWO))), xa("COMMIT")]
    ready, waiting = undone(tmp_path, *events), undone(tmp_path, *begun)

    assert [line for line in sql_of(ready) if "DELETE" in line] == [deleted(1), deleted(2)]
    assert waiting.summary.prepared == 1
    assert sql_of(waiting) == []


def test_xa_commit_without_its_prepare_is_refused(tmp_path: Path) -> None:
    """Its rows are in an earlier log."""
    with pytest.raises(ReplayError, match="give the earlier log with its XA PREPARE"):
        undone(tmp_path, xa("COMMIT"))


# -------------------------------------------------------------------------------------------------------- the file


def test_file_begins_and_ends_as_servers_expect(tmp_path: Path) -> None:
    """No GTIDs, lengths that agree, statements that end."""
    events = [*group(rows_of((None, ONE))), *group(rows_of((None, TWO)), rows_of((None, THREE)))]
    path = tmp_path / "undo"
    with undone(tmp_path, *events, form=BinlogFile) as ready:
        path.write_bytes(b"".join(ready.pieces()))
    with binlogio.open(path) as reader:
        found = list(reader)
        assert not reader.in_use
    gtids = {at: event for at, event in enumerate(found) if isinstance(event, AnonymousGtidEvent)}

    assert isinstance(found[0], FormatDescriptionEvent)
    assert isinstance(found[1], PreviousGtidsEvent)
    assert [event.sequence_number for event in gtids.values()] == [1, 2]
    assert [event.last_committed for event in gtids.values()] == [0, 1]
    for start, end in zip(gtids, (*list(gtids)[1:], len(found)), strict=True):
        assert gtids[start].transaction_length == sum(event.header.event_size for event in found[start:end])
    assert all(event.flags & RowsFlag.STMT_END for event in found if isinstance(event, RowsEvent))


def test_logs_of_two_versions_do_not_become_one(tmp_path: Path) -> None:
    """The error says which, and what to do."""
    other = description(version="8.0.36")
    first, second = tmp_path / "binlog.000001", tmp_path / "binlog.000002"
    first.write_bytes(log(*group(rows_of((None, ONE)))))
    second.write_bytes(b"\xfebin" + encode([other, *group(rows_of((None, TWO)))]))
    with binlogio.open([first, second]) as reader, pytest.raises(ReplayError, match=r"expected 9.7.4, found 8.0.36"):
        undo(reader, BinlogFile())
    with binlogio.open([first, second]) as reader:
        assert len(sql_of(undo(reader, SqlScript()))) == 6


def test_generated_columns_are_left_out_of_sql(tmp_path: Path) -> None:
    """The DDL in the log or a definition says so."""
    ddl = query("CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(20) AS ('x') STORED, doc JSON) CHARSET utf8mb4")
    events = [ddl, *group(rows_of((ONE, None)))]
    columns = [replace(c, generated_from=() if c.name == "name" else None) for c in KEYED.columns]
    told = undone(tmp_path, *events, on_statement=OnStatement.SKIP)
    given_ = undone(tmp_path, *events[1:], definitions={KEYED.full_name: replace(KEYED, columns=tuple(columns))})

    assert sql_of(told)[1:-1] == sql_of(given_)[1:-1] == ["INSERT INTO `d`.`t` (`id`, `doc`) VALUES (1, NULL);"]


def test_part_of_a_log_is_taken_back(tmp_path: Path) -> None:
    """By table; the rest is left as it is."""
    events = group(rows_of((None, ONE)), rows_of((None, TWO), table=KEYLESS))
    ready = undone(tmp_path, *events, wanted=ReplayFilter(tables=("d.t",), rewrite_db={"d": "e"}))

    assert sql_of(ready)[1:-1] == [deleted(1).replace("`d`", "`e`")]


# ------------------------------------------------------------------------------------------------------------ spool


def whole(group: SpooledGroup) -> bytes:
    return group if isinstance(group, bytes) else b"".join(group)


def test_spool_gives_transactions_backwards_and_whole() -> None:
    """Larger ones in pieces; one that could not be made leaves nothing."""
    parts = [b"a", b"b" * (3 << 20), b"", b"c" * 10]

    def broken() -> Any:
        yield b"x" * (2 << 20)
        raise ReplayError("no")

    spool = Spool()
    for part in parts:
        spool.add(iter([part[:1], part[1:]]))
        with pytest.raises(ReplayError):
            spool.add(broken())
    spool.add_all(b"ddeee", [2, 3])
    found = [whole(group) for group in spool.newest_first()]
    sizes = [len(group) if isinstance(group, bytes) else group.size for group in spool.newest_first()]
    spool.clear()
    spool.add(iter([b"new"]))

    assert found == [b"eee", b"dd", *parts[::-1]]
    assert sizes == [len(part) for part in found]
    assert [whole(group) for group in spool.newest_first()] == [b"new"]
    spool.close()
