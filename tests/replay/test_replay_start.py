"""Start positions of replay and undo: what is before is not applied, but what is needed of it is known."""

from __future__ import annotations

import re
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner, Result

import binlogio
from binlogio import BinlogWriter, ColumnDefinition, Insert, ServerVariables, Statement, TableDefinition
from binlogio.errors import ReplayError
from binlogio.events.control import XaPrepareEvent
from binlogio.events.gtid import GtidEvent
from binlogio.gtid import GtidSet
from binlogio.options import Position
from binlogio.replay import ReplayFilter, SqliteTarget, replay
from binlogio.replay.undo import SqlScript, undo
from binlogio.writer.session.transaction import XaXid
from binlogio_cli.main import cli

T: Final = TableDefinition(
    "d", "t", (ColumnDefinition("id", "int", nullable=False), ColumnDefinition("v", "int")), ("id",)
)
CREATE: Final = "CREATE TABLE d.t (id INT PRIMARY KEY, v INT)"
XID: Final = XaXid(b"one", b"", 1)
VERSIONS: Final[dict[str, dict[str, Any]]] = {"mysql": {}, "mariadb": {"server_version": "10.11.18-MariaDB"}}


def insert(session: Any, number: int) -> None:
    """Return a transaction of one row."""
    session.begin()
    session.execute(Statement("INSERT", (Insert(T, [{"id": number, "v": number}]),)))
    session.commit()


def xa_log(folder: Path, *, rotates: bool = False, **more: Any) -> list[Path]:
    """Row 1; XA PREPARE of rows 2 and 3, row 10; XA COMMIT, row 11.

    With `rotates`, the XA COMMIT is in the second file.
    """
    with BinlogWriter(folder / "binlog", variables=ServerVariables(sync_binlog=0, **more)) as log:
        session, other = log.session("d"), log.session("d")
        session.ddl("CREATE DATABASE d")
        session.ddl(CREATE)
        insert(session, 1)
        other.xa_start(XID)
        other.execute(Statement("INSERT", (Insert(T, [{"id": n, "v": n} for n in (2, 3)]),)))
        other.xa_end(XID)
        other.xa_prepare(XID)
        if rotates:
            log.rotate()
        insert(session, 10)
        other.xa_commit(XID)
        insert(session, 11)
        session.close()
        other.close()
    return sorted(folder.glob("binlog.0*"))


def after_prepare(logs: list[Path]) -> Position:
    """Return the place after the XA PREPARE."""
    with binlogio.open(logs) as reader:
        for event in reader:
            if isinstance(event, XaPrepareEvent):
                return Position(logs[0].name, reader.position.offset)
    raise AssertionError(logs)


def applied(logs: list[Path], folder: Path, *, workers: int = 1, **wanted: Any) -> list[int]:
    """Return the rows that a replay into SQLite gives."""
    with closing(SqliteTarget.open(folder / "x.db")) as target, binlogio.open(logs) as reader:
        replay(reader, target, workers=workers, wanted=ReplayFilter(**wanted))
        return [row[0] for row in target.connection.execute('SELECT id FROM "d.t" ORDER BY id')]


@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.parametrize("rotates", [False, True])
@pytest.mark.parametrize("compression", [False, True])
@pytest.mark.parametrize("vendor", VERSIONS)
def test_xa_transaction_prepared_before_the_start_is_applied_when_it_commits_after_it(
    tmp_path: Path, workers: int, rotates: bool, compression: bool, vendor: str
) -> None:
    """In the same file and in the next one; the rows belong to the XA COMMIT."""
    name = "binlog_transaction_compression" if vendor == "mysql" else "log_bin_compress"
    logs = xa_log(tmp_path, rotates=rotates, **{name: compression}, **VERSIONS[vendor])

    assert applied(logs, tmp_path, workers=workers, start=after_prepare(logs)) == [2, 3, 10, 11]


def test_xa_transaction_that_is_excluded_by_its_prepare_is_applied_when_it_commits(tmp_path: Path) -> None:
    """A backup's set of GTIDs has the XA PREPARE, but the backup does not have the rows."""
    logs = xa_log(tmp_path, gtid_mode="ON")
    with binlogio.open(logs) as reader:
        gtids = [event.gtid for event in reader if isinstance(event, GtidEvent)]

    assert applied(logs, tmp_path, exclude_gtids=GtidSet.from_gtids(gtids[:4])) == [2, 3, 10, 11]


def test_xa_transaction_whose_prepare_is_in_no_log_is_refused(tmp_path: Path) -> None:
    """With the XID, and what to add; nothing from there on is applied."""
    logs = xa_log(tmp_path, rotates=True)
    with pytest.raises(ReplayError) as caught:
        applied(logs[1:], tmp_path)

    assert "XA COMMIT X'6f6e65',X'',1" in str(caught.value)
    assert "give the earlier log with its XA PREPARE" in str(caught.value)
    with closing(SqliteTarget.open(tmp_path / "x.db")) as target:
        assert list(target.connection.execute('SELECT id FROM "d.t"')) == [(10,)]


@pytest.mark.parametrize("rotates", [False, True])
def test_undo_takes_back_an_xa_transaction_that_was_prepared_before_the_start(tmp_path: Path, rotates: bool) -> None:
    """Its changes came to be after the start."""
    logs = xa_log(tmp_path, rotates=rotates, binlog_row_metadata="MINIMAL")
    with (
        binlogio.open(logs) as reader,
        undo(reader, SqlScript(), wanted=ReplayFilter(start=after_prepare(logs))) as ready,
    ):
        text = b"".join(ready.pieces()).decode()
        rows = ready.summary.rows

    assert rows == {("d.t", "insert"): 4}
    assert re.findall(r"WHERE `id` <=> (\d+)", text) == ["11", "3", "2", "10"]


def many(folder: Path, count: int = 400, **more: Any) -> tuple[list[Path], list[Position]]:
    """Return logs of two files with a table that is altered, and then `count` transactions of a row.

    And where each of these starts.
    """
    altered = replace(T, columns=(T.columns[0], ColumnDefinition("w", "int"), T.columns[1]))
    with (
        BinlogWriter(folder / "binlog", variables=ServerVariables(sync_binlog=0, **more)) as log,
        log.session("d") as session,
    ):
        session.ddl("CREATE DATABASE d")
        session.ddl(CREATE)
        session.ddl("ALTER TABLE d.t ADD COLUMN w INT AFTER id")
        for number in range(count):
            session.begin()
            session.execute(Statement("INSERT", (Insert(altered, [{"id": number, "w": -number, "v": number}]),)))
            session.commit()
            if number == count // 2:
                log.rotate()
    logs = sorted(folder.glob("binlog.0*"))
    with binlogio.open(logs) as reader:
        starts = [
            Position(Path(reader.position.file).name, e.header.offset)
            for e in reader
            if hasattr(e, "gno") or hasattr(e, "domain_id")
        ]
    return logs, starts[-count:]


@pytest.mark.parametrize("vendor", VERSIONS)
@pytest.mark.parametrize("metadata", ["MINIMAL", "FULL"])
@pytest.mark.parametrize("first", [0, 150, 250, 399])
def test_what_is_before_the_start_is_neither_read_nor_committed(
    tmp_path: Path, vendor: str, metadata: str, first: int
) -> None:
    """SQLite gets a savepoint for each transaction from there on, and for no other.

    Columns have the names that DDL before the start gave.
    """
    logs, starts = many(tmp_path, binlog_row_metadata=metadata, **VERSIONS[vendor])
    said: list[str] = []
    with closing(SqliteTarget.open(tmp_path / "x.db")) as target, binlogio.open(logs) as reader:
        target.connection.set_trace_callback(said.append)
        summary = replay(reader, target, wanted=ReplayFilter(start=starts[first]))
        target.connection.set_trace_callback(None)
        rows = list(target.connection.execute('SELECT id, w, v FROM "d.t" ORDER BY id'))

    assert rows == [(n, -n, n) for n in range(first, 400)]
    assert (summary.groups, summary.filtered_groups) == (400 - first, first + 3)
    assert sum(sql.startswith('SAVEPOINT "binlogio group"') for sql in said) == 400 - first


def test_part_before_the_start_is_passed_over_even_where_it_is_damaged(tmp_path: Path) -> None:
    """Columns have no names after damage, so the row is refused, not misread."""
    logs, starts = many(tmp_path, 40, binlog_row_metadata="MINIMAL")
    data = bytearray(logs[0].read_bytes())
    at = starts[3].offset
    data[at + 9 : at + 13] = b"\x01\0\0\0"  # event_size
    logs[0].write_bytes(data)
    with pytest.raises(ReplayError, match="does not name the columns and the key"):
        applied(logs, tmp_path, start=starts[10])

    with (
        closing(SqliteTarget.open(tmp_path / "y.db")) as target,
        binlogio.open(logs, definitions={"d.t": "CREATE TABLE t (id INT PRIMARY KEY, w INT, v INT)"}) as reader,
    ):
        summary = replay(reader, target, wanted=ReplayFilter(start=starts[10]))

    assert summary.rows == 30


def test_a_resumed_replay_begins_where_it_was(tmp_path: Path) -> None:
    """Groups that the target has are neither read nor committed again; an XA PREPARE among them counts."""
    logs = xa_log(tmp_path)
    stop = after_prepare(logs)
    assert applied(logs, tmp_path, stop=stop) == [1]
    said: list[str] = []
    with closing(SqliteTarget.open(tmp_path / "x.db")) as target, binlogio.open(logs) as reader:
        target.connection.set_trace_callback(said.append)
        summary = replay(reader, target)

    assert applied([*logs], tmp_path) == [1, 2, 3, 10, 11]
    assert (summary.groups, summary.skipped_groups) == (3, 4)
    assert sum(sql.startswith('SAVEPOINT "binlogio group"') for sql in said) == 3


def test_position_is_kept_where_nothing_was_wanted_from_the_start_on(tmp_path: Path) -> None:
    """A later replay without a start continues there."""
    logs, starts = many(tmp_path, 10)
    with closing(SqliteTarget.open(tmp_path / "x.db")) as target, binlogio.open(logs) as reader:
        replay(reader, target, wanted=ReplayFilter(start=starts[4], stop=starts[4]))
        assert target.position == starts[4]
    assert applied(logs, tmp_path) == [4, 5, 6, 7, 8, 9]


def test_row_that_does_not_fit_says_what_to_do(tmp_path: Path) -> None:
    """The option that takes it, and how the group is left out, in the words of the command."""
    logs, starts = many(tmp_path, 8, gtid_mode="ON")
    with closing(SqliteTarget.open(tmp_path / "x.db")) as target, binlogio.open(logs) as reader:
        replay(reader, target, wanted=ReplayFilter(stop=starts[3]))
        target.connection.execute('INSERT INTO "d.t" (id) VALUES (5)')
    command = ["replay", "--no-progress", "--to", f"sqlite:///{tmp_path}/x.db", *map(str, logs)]
    result = CliRunner().invoke(cli, command)
    gtid = re.search(r"--exclude-gtids (\S+) leaves the transaction out", result.stderr)

    assert result.exit_code == 1
    assert "--idempotent replaces an existing row" in result.stderr
    assert gtid is not None
    again = CliRunner().invoke(cli, [*command, "--exclude-gtids", gtid[1]])
    assert again.stdout.startswith("replayed 2 event groups: 2 rows inserted")
    assert "1 event group was left out by the filters" in again.stdout


def test_groups_that_are_not_wanted_are_not_counted_as_replayed(tmp_path: Path) -> None:
    """By their time, their GTIDs and their place."""
    logs, _ = many(tmp_path, 8)
    command = ["replay", "--no-progress", "--to", f"sqlite:///{tmp_path}/x.db", *map(str, logs)]
    result = CliRunner().invoke(cli, [*command, "--start-datetime", "2199-01-01"])

    assert result.stdout.startswith("replayed 0 event groups")
    assert "11 event groups were left out by the filters" in result.stdout


@pytest.mark.parametrize("vendor", VERSIONS)
@pytest.mark.parametrize("compression", [False, True])
@pytest.mark.parametrize("name", ["replay", "undo"])
def test_table_that_is_not_in_the_logs_is_refused(tmp_path: Path, vendor: str, compression: bool, name: str) -> None:
    """Before anything is changed, with the tables that are.

    A glob, and a table that only statements name, are found.
    """
    option = "binlog_transaction_compression" if vendor == "mysql" else "log_bin_compress"
    logs, _ = many(tmp_path, 8, **{option: compression}, **VERSIONS[vendor])
    target = ["--to", f"sqlite:///{tmp_path}/x.db"] if name == "replay" else ["--on-statement", "skip"]

    def run(*patterns: str) -> Result:
        options = [word for pattern in patterns for word in ("--table", pattern)]
        return CliRunner().invoke(cli, [name, "--no-progress", *target, *options, *map(str, logs)])

    for patterns in (("d.tt",), ("d.t", "D.t"), ("e.*",)):
        result = run(*patterns)
        assert result.exit_code == 2
        assert f"--table {patterns[-1]}: no event of the logs matches this table, found d.t" in result.stderr
        assert not (tmp_path / "x.db").exists()
    for patterns in (("d.t",), ("d.*",), ("?.t", "d.t*")):
        assert run(*patterns).exit_code == 0, patterns
