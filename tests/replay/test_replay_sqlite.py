"""Replay into SQLite of logs made for the test: the tables, the refusals, and where the next replay continues."""

from __future__ import annotations

import os
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

import pytest

import binlogio
from binlogio.constants import EventType
from binlogio.errors import ReplayError
from binlogio.events.control import XaPrepareEvent
from binlogio.events.gtid import AnonymousGtidEvent
from binlogio.options import Position
from binlogio.replay import SqliteTarget, replay
from binlogio.schema import TableDefinition
from binlogio.values.absent import ABSENT
from binlogio.values.json import JsonDiff, JsonDiffOperation, JsonDiffs, JsonDocument
from corpus import MYSQL
from logs import header, log, query
from row_events import Row, group, plan_of
from sqlite_replays import ONE, TWO, T, change, contents, replayed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def target() -> Iterator[SqliteTarget]:
    """Provide an empty database."""
    with closing(SqliteTarget.open(":memory:")) as opened:
        yield opened


BIG: Final = ((1 << 64) - 1, "big", None)


def test_values_are_kept_as_they_are(tmp_path: Path, target: SqliteTarget) -> None:
    """Unsigned integers that SQLite cannot hold are text, and are found again."""
    document = JsonDocument.from_text('{"b": 1, "aa": [1.0, "x"]}')
    replayed(tmp_path, target, *group(change(None, (*BIG[:2], document))), *group(change(None, ONE)))
    replayed(tmp_path, target, *group(change(BIG, (BIG[0], "BIG", None))), name="binlog.000002")

    assert contents(target) == [("18446744073709551615", "BIG", None), ONE]


def test_summary_says_what_was_done(tmp_path: Path, target: SqliteTarget) -> None:
    """Groups, rows by kind and table, statements that were not followed, position."""
    summary = replayed(
        tmp_path,
        target,
        query("CREATE TABLE t (...)"),
        *group(change(None, ONE), change(None, TWO)),
        *group(change(ONE, (3, "three", None)), change(TWO, None)),
    )

    assert (summary.groups, summary.inserts, summary.updates, summary.deletes, summary.rows) == (3, 2, 1, 1, 4)
    assert summary.rows_by_table == {"d.t": 4}
    assert summary.statements == 1
    assert summary.position == target.position == Position("binlog.000001", (tmp_path / "binlog.000001").stat().st_size)
    assert contents(target) == [(3, "three", None)]


def test_second_replay_skips_what_is_there(tmp_path: Path, target: SqliteTarget) -> None:
    """The position is kept with the tables."""
    first, second = group(change(None, ONE)), group(change(None, TWO))
    replayed(tmp_path, target, *first)
    summary = replayed(tmp_path, target, *first, *second)
    again = replayed(tmp_path, target, *first, *second)
    replayed(tmp_path, target, *group(change(ONE, None)), name="binlog.000002")

    assert (summary.skipped_groups, summary.groups) == (1, 1)
    assert (again.skipped_groups, again.groups) == (2, 0)
    assert contents(target) == [TWO]


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        (None, ONE, "INSERT of a row whose key exists already"),
        ((7, "seven", None), (7, "7", None), "UPDATE of a row that does not exist"),
        (ONE, (2, "one", None), "UPDATE to a key that belongs to another row"),
        ((7, "seven", None), None, "DELETE of a row that does not exist"),
        ((ABSENT, "uno", None), None, "DELETE of a row that does not exist"),
    ],
)
def test_change_that_does_not_fit_is_refused_with_its_key(
    tmp_path: Path, target: SqliteTarget, before: Row | None, after: Row | None, reason: str
) -> None:
    """Table, key, file, offset; the group is not applied, the ones before it are."""
    good = group(change(None, ONE), change(None, TWO))
    bad = group(change(None, (9, "nine", None)), change(before, after))
    with pytest.raises(ReplayError, match=reason) as caught:
        replayed(tmp_path, target, *good, *bad)

    assert caught.value.field == "d.t"
    assert str(caught.value.found or "id").startswith("id")
    assert caught.value.file == str(tmp_path / "binlog.000001")
    assert caught.value.offset is not None
    assert contents(target) == [ONE, TWO]
    assert target.position is not None
    assert target.position.offset < caught.value.offset


def test_group_that_was_rolled_back_leaves_nothing(tmp_path: Path, target: SqliteTarget) -> None:
    """The position moves all the same."""
    summary = replayed(tmp_path, target, *group(change(None, ONE)), *group(change(None, TWO), end=query("ROLLBACK")))

    assert summary.rolled_back_groups == 1
    assert contents(target) == [ONE]
    assert target.position == Position("binlog.000001", (tmp_path / "binlog.000001").stat().st_size)


@pytest.mark.parametrize("name", ["`s`", '"s"'])
def test_savepoints_undo_a_part_of_a_group(tmp_path: Path, target: SqliteTarget, name: str) -> None:
    """ROLLBACK TO forgets what came after the savepoint, even where it made the table.

    With ANSI_QUOTES a server logs its name in double quotes.
    """
    replayed(
        tmp_path,
        target,
        *group(query(f"SAVEPOINT {name}"), change(None, ONE), query(f"ROLLBACK TO {name}"), change(None, TWO)),
    )

    assert contents(target) == [TWO]


def test_group_without_its_end_is_not_applied(tmp_path: Path, target: SqliteTarget) -> None:
    """A server that died in the middle of it."""
    summary = replayed(tmp_path, target, *group(change(None, ONE)), *group(change(None, TWO))[:-1], in_use=True)

    assert summary.unfinished
    assert contents(target) == [ONE]


XA: Final = "X'61',X'62',1"


def xa_group(*changes: Any, one_phase: int = 0) -> list[Any]:
    prepare = XaPrepareEvent(one_phase, 1, b"a", b"b", header(EventType.XA_PREPARE_LOG_EVENT))
    return [query(f"XA START {XA}"), *[event for one in changes for event in one], query(f"XA END {XA}"), prepare]


@pytest.mark.parametrize(("end", "left"), [("COMMIT", [TWO, ONE]), ("ROLLBACK", [TWO])])
def test_xa_changes_hold_from_their_commit_on(tmp_path: Path, target: SqliteTarget, end: str, left: list[Row]) -> None:
    """XA PREPARE puts them aside; other groups come between."""
    summary = replayed(
        tmp_path, target, *xa_group(change(None, ONE)), *group(change(None, TWO)), query(f"XA {end} {XA}")
    )

    assert summary.prepared == 0
    assert contents(target) == left


def test_xa_in_one_phase_is_committed(tmp_path: Path, target: SqliteTarget) -> None:
    """XA COMMIT ... ONE PHASE is logged as XA_PREPARE with a flag."""
    replayed(tmp_path, target, *xa_group(change(None, ONE), one_phase=1))

    assert contents(target) == [ONE]


def test_xa_that_waits_is_counted(tmp_path: Path, target: SqliteTarget) -> None:
    """The summary says that something is not applied yet."""
    assert replayed(tmp_path, target, *xa_group(change(None, ONE))).prepared == 1


def test_xa_commit_without_its_prepare_is_refused(tmp_path: Path, target: SqliteTarget) -> None:
    """Its changes are in an earlier log."""
    with pytest.raises(ReplayError, match="give the earlier log with its XA PREPARE"):
        replayed(tmp_path, target, query(f"XA COMMIT {XA}"))


@pytest.mark.parametrize(
    ("sql", "left"),
    [
        ("TRUNCATE t", []),
        ("DROP TABLE t", None),
        ("DROP DATABASE d", None),
        ("TRUNCATE other", [ONE]),
        ("RENAME TABLE t TO `d`.t2, t2 TO t", [ONE]),
        ("ALTER TABLE t RENAME TO u", None),
        ("DROP TABLE o", [ONE]),
    ],
)
def test_statements_that_empty_or_rename_tables_are_followed(
    tmp_path: Path, target: SqliteTarget, sql: str, left: list[Row] | None
) -> None:
    """Else the rows that come next would not fit."""
    replayed(tmp_path, target, *group(change(None, ONE)), query(sql))
    names = [name for (name,) in target.connection.execute("SELECT name FROM sqlite_master WHERE name = 'd.t'")]

    assert (contents(target) if names else None) == left


def test_table_that_was_altered_is_refused(tmp_path: Path, target: SqliteTarget) -> None:
    """A replay of rows does not follow DDL, and says so instead of guessing."""
    altered = TableDefinition("d", "t", (*T.columns, T.columns[1].__class__("more", "int")), ("id",))
    with pytest.raises(ReplayError, match="differ between log and target"):
        replayed(tmp_path, target, *group(change(None, ONE)), *group(change(None, (*TWO, 5), altered)))


def test_names_that_differ_in_case_only_are_refused(tmp_path: Path, target: SqliteTarget) -> None:
    """SQLite would take the two for one table."""
    twin = TableDefinition("d", "T", T.columns, ("id",))
    with pytest.raises(ReplayError, match="differ only in case"):
        replayed(tmp_path, target, *group(change(None, ONE), change(None, TWO, twin)))


def test_odd_names_are_quoted(tmp_path: Path, target: SqliteTarget) -> None:
    """Quotes in a name, and columns that hide SQLite's own row id."""
    columns = tuple(T.columns[0].__class__(name, "int") for name in ('a"b', "rowid", "_rowid_"))
    odd = TableDefinition("d", 'x"y; DROP TABLE', columns, ('a"b',))
    replayed(tmp_path, target, *group(change(None, (1, 2, 3), odd), change((1, 2, 3), (1, 7, 8), odd)))

    assert contents(target, 'd.x""y; DROP TABLE') == [(1, 7, 8)]


def test_row_without_key_is_found_by_all_its_columns(tmp_path: Path, target: SqliteTarget) -> None:
    """NULL is like NULL, and of two rows that are the same one goes."""
    keyless = TableDefinition("d", "t", T.columns[1:])
    null: Row = (None, None)
    replayed(
        tmp_path,
        target,
        *group(*(change(None, row, keyless) for row in [null, null, ("x", None)])),
        *group(change(null, None, keyless), change(null, ("y", None), keyless)),
    )

    assert sorted(contents(target)) == [("x", None), ("y", None)]


def test_partial_after_image_leaves_the_other_columns(tmp_path: Path, target: SqliteTarget) -> None:
    """Absent is not NULL."""
    replayed(tmp_path, target, *group(change(None, ONE), change((1, ABSENT, ABSENT), (ABSENT, "ONE", ABSENT))))

    assert contents(target) == [(1, "ONE", None)]


def test_insert_that_lacks_columns_is_counted(tmp_path: Path, target: SqliteTarget) -> None:
    """The source filled in a default value, which is not in the log."""
    summary = replayed(tmp_path, target, *group(change(None, (1, ABSENT, ABSENT))))

    assert summary.incomplete_inserts == 1
    assert contents(target) == [(1, None, None)]


def test_json_diffs_are_applied_to_the_stored_document(target: SqliteTarget) -> None:
    """If the before image does not have the document."""
    plan = plan_of(T)
    diffs = JsonDiffs((JsonDiff(JsonDiffOperation.REPLACE, "$.a", JsonDocument.from_text("2")),))
    target.begin()
    target.table(plan).insert([(1, "x", JsonDocument.from_text('{"a": 1, "b": []}'))])
    target.table(plan).update((1, ABSENT, ABSENT), (ABSENT, ABSENT, diffs))

    assert contents(target) == [(1, "x", '{"a": 2, "b": []}')]


def test_json_diffs_of_null_are_refused(target: SqliteTarget) -> None:
    """There is nothing to change a part of."""
    diffs = JsonDiffs((JsonDiff(JsonDiffOperation.REMOVE, "$.a", None),))
    target.begin()
    table = target.table(plan_of(T))
    table.insert([ONE])
    with pytest.raises(ReplayError, match="UPDATE of a part of document, which is NULL"):
        table.update(ONE, (1, "one", diffs))


def test_definition_that_does_not_fit_the_log_is_refused(target: SqliteTarget) -> None:
    """Another type would decode garbage."""
    wrong = TableDefinition("corpus", "pk", tuple(T.columns), ("id",))
    with (
        binlogio.open(MYSQL / "rowimage_full" / "binlog.000001", definitions={"corpus.pk": wrong}) as reader,
        pytest.raises(ReplayError, match="the table definition does not fit the table") as caught,
    ):
        replay(reader, target)

    assert caught.value.field == "corpus.pk"
    assert caught.value.expected == "3 columns, as the table definition has"
    assert caught.value.found == "5 columns in the table map"
    assert caught.value.hint == "give the definition that the table had when this was logged"


def test_file_that_is_no_database_is_an_io_error(tmp_path: Path) -> None:
    """Nothing is overwritten."""
    path = tmp_path / "notes.txt"
    path.write_text("not a database, but long enough to be looked at" * 20)
    with pytest.raises(OSError, match="cannot be used as a SQLite database"):
        SqliteTarget.open(path)


def test_directory_is_an_io_error(tmp_path: Path) -> None:
    """SQLite cannot open it."""
    with pytest.raises(OSError, match="cannot be used as a SQLite database"):
        SqliteTarget.open(tmp_path)


# -------------------------------------------------------------------------------------------------------- workers

MANY: Final = 200
EVERY: Final = os.environ.get("BINLOGIO_SCHEDULES") is not None


@pytest.fixture(scope="module")
def parallel_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two hundred transactions that the source ran together, ten at a time."""
    path: Path = tmp_path_factory.mktemp("parallel") / "binlog.000001"
    events: list[Any] = []
    for number in range(1, MANY + 1):
        parent = (number - 1) // 10 * 10
        gtid = AnonymousGtidEvent(
            flags=1, last_committed=parent, sequence_number=number, header=header(EventType.ANONYMOUS_GTID_LOG_EVENT)
        )
        events += [gtid, *group(change(None, (number, str(number), None)))]
    path.write_bytes(log(*events))
    return path


@pytest.mark.parametrize("fails", range(1, MANY + 1, 1 if EVERY else 17))
def test_transaction_that_fails_leaves_exactly_those_before_it(parallel_log: Path, fails: int) -> None:
    """With 8 workers; the position is after the last one that holds, and the next replay stops at the same one."""
    with closing(SqliteTarget.open(":memory:")) as target:
        target.execute('CREATE TABLE "d.t" (id, name TEXT, document TEXT, PRIMARY KEY (id))')
        target.execute(f"INSERT INTO \"d.t\" VALUES ({fails}, 'in the way', NULL)")
        for _ in range(2):
            with binlogio.open(parallel_log) as reader, pytest.raises(ReplayError, match=rf"found id={fails}\b"):
                replay(reader, target, workers=8)
            rows = contents(target)

            assert sorted(row[0] for row in rows if row[1] != "in the way") == list(range(1, fails))
        target.execute("DELETE FROM \"d.t\" WHERE name = 'in the way'")
        with binlogio.open(parallel_log) as reader:
            summary = replay(reader, target, workers=8)

        assert (summary.groups, summary.skipped_groups) == (MANY - fails + 1, fails - 1)
        assert [row[0] for row in contents(target)] == list(range(1, MANY + 1))


def test_idempotent_target_takes_what_is_there_already(tmp_path: Path) -> None:
    """Rows are replaced, and those that are not there are not missed."""
    with closing(SqliteTarget.open(":memory:", idempotent=True)) as target:
        summary = replayed(
            tmp_path,
            target,
            *group(change(None, ONE), change(None, TWO)),
            *group(change(None, (1, "uno", None)), change((7, "seven", None), None), change(TWO, (1, "two", None))),
        )

        assert sorted(contents(target)) == [(1, "uno", None), TWO]
        assert summary.ignored == 1
