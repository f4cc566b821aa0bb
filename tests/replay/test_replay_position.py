"""The stored position of a target: the log that it is in, and refusals of logs or starts that contradict it."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from click.testing import CliRunner, Result

import binlogio
from binlogio import BinlogWriter, ColumnDefinition, Insert, ServerVariables, Statement, TableDefinition
from binlogio.errors import PositionError
from binlogio.events.gtid import GtidEvent
from binlogio.replay import SqliteTarget, replay
from binlogio_cli.main import cli
from logs import IN_USE_AT, raw_events, with_checksum

if TYPE_CHECKING:
    from collections.abc import Sequence

T: Final = TableDefinition(
    "d", "t", (ColumnDefinition("id", "int", nullable=False), ColumnDefinition("v", "int")), ("id",)
)


def written(folder: Path, *parts: range, **more: Any) -> list[Path]:
    """Return logs of a server: one for each part, with a transaction for each number; the first creates the table."""
    variables = ServerVariables(sync_binlog=0, binlog_row_metadata="FULL", **{"gtid_mode": "ON", **more})
    with BinlogWriter(folder / "binlog", variables=variables) as log, log.session("d") as session:
        session.ddl("CREATE DATABASE d")
        session.ddl("CREATE TABLE d.t (id INT PRIMARY KEY, v INT)")
        for at, part in enumerate(parts):
            if at:
                log.rotate()
            for number in part:
                session.begin()
                session.execute(Statement("INSERT", (Insert(T, [{"id": number, "v": number}]),)))
                session.commit()
    return sorted(folder.glob("binlog.0*"))


def starts(log: Path) -> list[str]:
    """Return the positions of the transactions, as option values."""
    with binlogio.open(log) as reader:
        return [f"{log.name}:{event.header.offset}" for event in reader if isinstance(event, GtidEvent)]


def run(folder: Path, logs: Sequence[Path], *options: str) -> Result:
    return CliRunner().invoke(
        cli, ["replay", "--no-progress", "--to", f"sqlite:///{folder}/x.db", *options, *map(str, logs)]
    )


def rows(folder: Path) -> list[int]:
    with closing(sqlite3.connect(folder / "x.db")) as connection:
        return [number for (number,) in connection.execute('SELECT id FROM "d.t" ORDER BY id')]


def refused(result: Result, folder: Path, *facts: str, kept: list[int], exit_code: int = 2) -> None:
    assert result.exit_code == exit_code, result.output
    assert [fact for fact in facts if fact not in result.stderr] == [], result.stderr
    assert rows(folder) == kept


@pytest.mark.parametrize("gtid_mode", ["ON", "OFF"])
def test_another_servers_log_of_the_same_name_is_refused(tmp_path: Path, gtid_mode: str) -> None:
    """With what tells the two apart, and the option that decides; nothing of it is skipped as if it were there."""
    mine = written(tmp_path / "mine", range(1, 6), server_id=7, gtid_mode=gtid_mode)
    other = written(tmp_path / "other", range(11, 18), server_id=8 if gtid_mode == "OFF" else 7, gtid_mode=gtid_mode)
    assert run(tmp_path, mine).exit_code == 0
    result = run(tmp_path, other)

    differs = ("server with id 7", "server with id 8") if gtid_mode == "OFF" else ("whose first GTID is",)
    refused(result, tmp_path, "another log of the name binlog.000001", *differs, "--no-resume", kept=[1, 2, 3, 4, 5])
    refused(run(tmp_path, other, "--resume"), tmp_path, "another log of the name", kept=[1, 2, 3, 4, 5])
    begin = starts(other[0])[2:3] if gtid_mode == "ON" else []
    if begin:
        assert run(tmp_path, other, "--no-resume", "--start-position", begin[0]).exit_code == 0
        assert rows(tmp_path) == [*range(1, 6), *range(11, 18)]
        assert run(tmp_path, other).exit_code == 0


def test_the_position_stays_until_the_first_commit_of_a_replay_without_resume(tmp_path: Path) -> None:
    """A replay that stops at its first transaction, and one that stops at its second."""
    logs = written(tmp_path / "logs", range(1, 6), gtid_mode="OFF")
    first = [f"{logs[0].name}:{begin}" for begin in group_starts(logs[0])][2]
    again_options = ("--no-resume", "--start-position", first)
    assert run(tmp_path, logs).exit_code == 0
    failed, again = run(tmp_path, logs, *again_options), run(tmp_path, logs)
    with closing(sqlite3.connect(tmp_path / "x.db")) as connection:
        connection.execute('DELETE FROM "d.t" WHERE id = 1')
        connection.commit()
    later, position = run(tmp_path, logs, *again_options), run(tmp_path, logs)

    assert [one.exit_code for one in (failed, again, later, position)] == [1, 0, 1, 1]
    assert "replayed 0 event groups" in again.stdout
    assert rows(tmp_path) == [1, 2, 3, 4, 5]


def group_starts(log: Path) -> list[int]:
    with binlogio.open(log) as reader:
        return [group.begin for group in reader.groups()]


def test_own_logs_of_a_server_that_was_restored_with_a_position_are_refused(tmp_path: Path) -> None:
    """The position came with the dump of a target.

    Its own logs have lower numbers, and none of them is there already.
    """
    source = written(tmp_path / "source", *(range(at, at + 2) for at in range(1, 12, 2)))
    assert run(tmp_path, source).exit_code == 0
    own = written(tmp_path / "own", range(51, 53), server_id=2)
    result = run(tmp_path, own)

    facts = ("binlog.000006:", "which is in none of the logs", "found binlog.000001", "server with id 2", "--no-resume")
    refused(result, tmp_path, *facts, kept=[*range(1, 13)])


def test_start_that_contradicts_the_position_is_refused(tmp_path: Path) -> None:
    """Before it and after it; --resume and --no-resume decide."""
    (log,) = written(tmp_path / "logs", range(1, 9))
    places = starts(log)
    assert run(tmp_path, [log], "--stop-position", places[6]).exit_code == 0
    assert rows(tmp_path) == [1, 2, 3, 4]
    for start in (places[4], places[8]):
        result = run(tmp_path, [log], "--start-position", start)
        facts = (
            f"expected {places[6]}, up to which the target has all transactions",
            f"found {start}",
            "--resume continues",
            "--no-resume ignores",
        )
        refused(result, tmp_path, *facts, kept=[1, 2, 3, 4])
    shutil.copy(tmp_path / "x.db", tmp_path / "copy.db")

    assert run(tmp_path, [log], "--start-position", places[8], "--no-resume").exit_code == 0
    assert rows(tmp_path) == [1, 2, 3, 4, 7, 8]
    shutil.copy(tmp_path / "copy.db", tmp_path / "x.db")
    assert run(tmp_path, [log], "--start-position", places[4], "--resume").exit_code == 0
    assert rows(tmp_path) == [1, 2, 3, 4, 5, 6, 7, 8]


def test_the_same_command_again_goes_on(tmp_path: Path) -> None:
    """A replay that was stopped has a position after its start, which is no contradiction."""
    (log,) = written(tmp_path / "logs", range(1, 9))
    places = starts(log)
    with closing(sqlite3.connect(tmp_path / "x.db")) as connection:
        connection.execute('CREATE TABLE "d.t" (id INTEGER PRIMARY KEY, v INTEGER)')
    start = ("--start-position", places[3])
    assert run(tmp_path, [log], *start, "--stop-position", places[5]).exit_code == 0
    assert rows(tmp_path) == [2, 3]
    assert run(tmp_path, [log], *start).exit_code == 0
    assert rows(tmp_path) == [2, 3, 4, 5, 6, 7, 8]
    assert run(tmp_path, [log], *start).stdout.startswith("replayed 0 event groups")


def as_earlier_versions(connection: sqlite3.Connection, columns: str) -> None:
    """Give the table of positions the form that it had: one row, for all sources."""
    rows = connection.execute(f"SELECT 0, {columns} FROM binlogio_position").fetchall()
    connection.execute("DROP TABLE binlogio_position")
    kept = "".join(f", {name}" for name in columns.split(", ")[3:])
    connection.execute(
        "CREATE TABLE binlogio_position (id INTEGER PRIMARY KEY CHECK (id = 0), file TEXT NOT NULL,"
        f" \"offset\" INTEGER NOT NULL, done TEXT NOT NULL DEFAULT '[]'{kept})"
    )
    connection.executemany(
        f"INSERT INTO binlogio_position VALUES (0{', ?' * len(columns.split(', '))})", [row[1:] for row in rows]
    )


def test_position_of_an_earlier_version_is_refused_or_noted_anew(tmp_path: Path) -> None:
    """It does not say of which server's log it is; --resume takes it for one of these."""
    (log,) = written(tmp_path / "logs", range(1, 9))
    places = starts(log)
    assert run(tmp_path, [log], "--stop-position", places[6]).exit_code == 0
    with closing(sqlite3.connect(tmp_path / "x.db")) as connection, connection:
        as_earlier_versions(connection, 'file, "offset", done')
    facts = (
        f"the target has the position {places[6]}, but not which server's log it is in",
        "--resume continues",
        "--no-resume",
    )
    refused(run(tmp_path, [log]), tmp_path, *facts, kept=[1, 2, 3, 4])

    assert run(tmp_path, [log], "--resume").exit_code == 0
    assert rows(tmp_path) == [1, 2, 3, 4, 5, 6, 7, 8]
    assert run(tmp_path, [log]).exit_code == 0


def test_next_log_goes_on_where_the_one_before_was_read_to_its_end(tmp_path: Path) -> None:
    """It is the next one by its number, its server and its time; and nothing can have come between."""
    logs = written(tmp_path / "logs", range(1, 4), range(4, 7), range(7, 9))
    assert run(tmp_path, logs[:1]).exit_code == 0
    refused(
        run(tmp_path, logs[2:]),
        tmp_path,
        "between the stored position of the target, binlog.000001:",
        "number 2 (give them too, or go on without them: --ignore-missing-logs",
        kept=[1, 2, 3],
        exit_code=1,
    )
    assert run(tmp_path, logs[1:2]).exit_code == 0
    assert run(tmp_path, logs).exit_code == 0
    assert rows(tmp_path) == [*range(1, 9)]


@pytest.mark.parametrize("is_in_use", [False, True])
def test_next_log_is_refused_where_the_one_before_may_have_more(tmp_path: Path, is_in_use: bool) -> None:
    """The replay stopped before its end, or its server was still writing to it."""
    logs = written(tmp_path / "logs", range(1, 4), range(4, 7))
    if is_in_use:
        data = bytearray(logs[0].read_bytes())
        (_, first), *_ = raw_events(data)
        data[IN_USE_AT] |= 1
        assert with_checksum(first) == first
        logs[0].write_bytes(data)
    stop = () if is_in_use else ("--stop-position", starts(logs[0])[-1])
    assert run(tmp_path, logs[:1], *stop).exit_code == 0
    refused(
        run(tmp_path, logs[1:]),
        tmp_path,
        "and this one: binlog.000001 from ",
        "--no-resume",
        kept=[1, 2, 3] if is_in_use else [1, 2],
        exit_code=1,
    )
    if is_in_use:  # the server clears the flag when it closes the log
        data[IN_USE_AT] &= ~1
        logs[0].write_bytes(data)
    assert run(tmp_path, logs).exit_code == 0
    assert rows(tmp_path) == [1, 2, 3, 4, 5, 6]


def test_log_that_ends_before_the_position_is_refused(tmp_path: Path) -> None:
    """A copy of it that is older than the target; or that was cut."""
    (log,) = written(tmp_path / "logs", range(1, 9))
    assert run(tmp_path, [log]).exit_code == 0
    data = log.read_bytes()
    log.write_bytes(data[: int(starts(log)[-2].partition(":")[2])])

    refused(
        run(tmp_path, [log]),
        tmp_path,
        "has the head of the log that was replayed",
        "found a repaired, filtered, truncated or restored copy",
        kept=[*range(1, 9)],
        exit_code=1,
    )


def test_stream_of_another_log_is_refused(tmp_path: Path) -> None:
    """All streams have the same name."""
    mine, other = (written(tmp_path / name, range(1, 4), server_id=at) for at, name in enumerate(("mine", "other"), 1))
    for logs in (mine, other):
        with (
            closing(SqliteTarget.open(tmp_path / "x.db")) as target,
            logs[0].open("rb") as stream,
            binlogio.open(BytesIO(stream.read())) as reader,
        ):
            if logs is mine:
                assert replay(reader, target).rows == 3
            else:
                with pytest.raises(PositionError, match=r"server with id 1.*server with id 2"):
                    replay(reader, target)


def test_two_logs_of_one_name_are_told_apart(tmp_path: Path) -> None:
    """A position is in the one that it was kept for."""
    mine, other = (written(tmp_path / name, range(1, 4), server_id=at) for at, name in enumerate(("mine", "other"), 1))
    assert run(tmp_path, mine, "--stop-position", starts(mine[0])[-1]).exit_code == 0
    result = run(tmp_path, [*mine, *other], "--start-position", starts(mine[0])[-1])

    assert "is in several of the given logs" in result.stderr
    assert rows(tmp_path) == [1, 2]


def test_two_sources_have_a_position_each(tmp_path: Path) -> None:
    """Logs of the second one are refused once, until the caller says where they begin; from then on both continue."""
    mine = written(tmp_path / "mine", range(1, 4), range(4, 6), server_id=7)
    other = written(tmp_path / "other", range(11, 14), range(14, 17), server_id=8)
    assert run(tmp_path, mine[:1]).exit_code == 0
    result = run(tmp_path, other[:1])

    facts = ("another log of the name binlog.000001", "server with id 7", "server with id 8", "logs of one more source")
    refused(result, tmp_path, *facts, kept=[1, 2, 3])
    refused(run(tmp_path, other[:1], "--resume"), tmp_path, *facts, kept=[1, 2, 3])
    assert run(tmp_path, other[:1], "--start-position", starts(other[0])[3]).exit_code == 0
    assert rows(tmp_path) == [1, 2, 3, 12, 13]
    for logs in (mine, other, mine, other):
        assert run(tmp_path, logs, "--workers", "4").exit_code == 0
    assert rows(tmp_path) == [1, 2, 3, 4, 5, 12, 13, 14, 15, 16]
    with closing(sqlite3.connect(tmp_path / "x.db")) as connection:
        found = connection.execute("SELECT source, file FROM binlogio_position ORDER BY 1").fetchall()
    assert found == [("7", "binlog.000002"), ("8", "binlog.000002")]


def test_forgotten_position_is_that_of_the_source_of_the_logs(tmp_path: Path) -> None:
    """The other source continues."""
    mine = written(tmp_path / "mine", range(1, 4), range(4, 6), server_id=7)
    other = written(tmp_path / "other", range(11, 14), server_id=8)
    assert run(tmp_path, mine[:1]).exit_code == 0
    assert run(tmp_path, other, "--no-resume").exit_code == 0
    with closing(sqlite3.connect(tmp_path / "x.db")) as connection, connection:
        connection.execute('DELETE FROM "d.t" WHERE id > 10')
    assert run(tmp_path, other, "--no-resume").exit_code == 0
    assert run(tmp_path, mine).exit_code == 0

    assert rows(tmp_path) == [1, 2, 3, 4, 5, 11, 12, 13]


def test_two_sources_with_one_server_id_have_names(tmp_path: Path) -> None:
    """Without them the second one is refused, since its log contradicts the position."""
    mine = written(tmp_path / "mine", range(1, 4))
    other = written(tmp_path / "other", range(11, 14))
    assert run(tmp_path, mine, "--source", "east").exit_code == 0
    again = run(tmp_path, mine, "--source", "west")
    refused(again, tmp_path, "a position of another source", "logs of one more source", kept=[1, 2, 3])
    assert run(tmp_path, other, "--source", "west", "--no-resume").exit_code == 0
    for logs, name in ((mine, "east"), (other, "west")):
        assert run(tmp_path, logs, "--source", name).stdout.startswith("replayed 0 event groups")
    assert rows(tmp_path) == [1, 2, 3, 11, 12, 13]


def test_position_that_an_earlier_version_stored_for_all_sources_is_that_of_its_log(tmp_path: Path) -> None:
    """Its log has the server id."""
    mine = written(tmp_path / "mine", range(1, 9), server_id=7)
    other = written(tmp_path / "other", range(11, 14), server_id=8)
    assert run(tmp_path, mine, "--stop-position", starts(mine[0])[6]).exit_code == 0
    with closing(sqlite3.connect(tmp_path / "x.db")) as connection, connection:
        as_earlier_versions(connection, 'file, "offset", done, log')
    refused(run(tmp_path, other), tmp_path, "another log of the name", kept=[1, 2, 3, 4])
    assert run(tmp_path, mine).exit_code == 0
    assert run(tmp_path, other, "--no-resume").exit_code == 0
    assert rows(tmp_path) == [*range(1, 9), 11, 12, 13]
