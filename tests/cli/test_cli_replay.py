"""`binlogio replay` into a SQLite file, and again into the same file."""

from __future__ import annotations

import sqlite3
from collections import Counter
from contextlib import closing
from typing import TYPE_CHECKING, Final

import pytest
from click.testing import CliRunner, Result

import binlogio
from binlogio import ColumnDefinition, TableDefinition
from binlogio.constants import EventType
from binlogio.events.control import XidEvent
from binlogio.events.gtid import GtidEvent
from binlogio.events.rows import WriteRowsEvent
from binlogio.replay import SqliteTarget, replay
from binlogio_cli.main import cli
from binlogio_cli.quantities import counted
from corpus import MARIADB, MYSQL
from logs import header, log, query

if TYPE_CHECKING:
    from pathlib import Path

GROUP_COMMIT: Final = MYSQL / "group_commit" / "binlog.000001"
FULL_METADATA: Final = MYSQL / "metadata_full" / "binlog.000001"

IN_USE_BYTE: Final = 4 + 4 + 1 + 4 + 4 + 4  # magic; timestamp, type, server id, size, position: then the flags


def run(tmp_path: Path, *arguments: object) -> Result:
    return CliRunner().invoke(cli, ["replay", "--to", f"sqlite:///{tmp_path}/x.db", *map(str, arguments)])


def test_replay_says_what_it_did_and_goes_on_where_it_was(tmp_path: Path) -> None:
    """The second replay finds nothing to apply."""
    first, second = run(tmp_path, FULL_METADATA), run(tmp_path, FULL_METADATA)
    with closing(sqlite3.connect(tmp_path / "x.db")) as connection:
        (value,) = connection.execute('SELECT u8 FROM "corpus.m1"').fetchone()

    assert first.exit_code == second.exit_code == 0
    assert "replayed 19 event groups: 8 rows inserted, 1 updated, 0 deleted\n" in first.stdout
    assert "position: binlog.000001 6879\n" in first.stdout
    assert "replayed 0 event groups" in second.stdout
    assert "19 event groups were skipped" in second.stdout
    assert value == "18446744073709551615"


ORDERS: Final = 'SELECT * FROM "shop.orders" ORDER BY id'
UUID: Final = "acb68dd1-e6e6-11f1-a4d2-02fc00000001"


@pytest.mark.parametrize(
    ("case", "options", "passed"),
    [
        (MYSQL, ("--include-gtids", f"{UUID}:1-9"), 9),
        (MYSQL, ("--include-gtids", f"{UUID}:1-5"), 5),
        (MARIADB, ("--stop-position", "0-1-9"), 9),
        (MYSQL, ("--start-datetime", "-1h"), 0),
        (MYSQL, ("--stop-datetime", "2026-11-23 02:36:28"), 0),
        (MYSQL, ("--exclude-gtids", f"{UUID}:11-15"), 15),
        (MYSQL, ("-T", "shop.customers"), 15),
    ],
    ids=["GTIDs of two logs", "GTIDs of a part", "MariaDB", "times after", "times before", "unwanted", "tables"],
)
@pytest.mark.parametrize("workers", ["1", "4"])
def test_the_kept_position_does_not_pass_what_is_left_for_later(
    case: Path, options: tuple[str, ...], passed: int, workers: str, tmp_path: Path
) -> None:
    """What times and GTIDs leave out at the end is applied by the next replay; what is not wanted is passed."""
    files = sorted((case / "incident").glob("binlog.0*"))
    whole = tmp_path / "whole"
    whole.mkdir()
    results = [run(tmp_path, "--workers", workers, *options, *files), run(tmp_path, *files), run(whole, *files)]

    assert [one.exit_code for one in results] == [0, 0, 0]
    assert (f"{passed} event groups were skipped" in results[1].stdout) == bool(passed)
    if passed < 15:
        with closing(sqlite3.connect(tmp_path / "x.db")) as one, closing(sqlite3.connect(whole / "x.db")) as other:
            assert one.execute(ORDERS).fetchall() == other.execute(ORDERS).fetchall()


def test_a_log_that_is_left_in_part_for_later_is_not_complete(tmp_path: Path) -> None:
    """A replay of the next log alone is refused."""
    files = sorted((MYSQL / "incident").glob("binlog.0*"))
    first = run(tmp_path, "--include-gtids", f"{UUID}:1-5", files[0])
    second = run(tmp_path, files[1])

    assert (first.exit_code, second.exit_code) == (0, 1)
    assert "logs are missing between the stored position" in second.stderr


def test_a_replay_that_applies_nothing_leaves_no_new_database(tmp_path: Path) -> None:
    """The first event is damaged, so that the target is open when the replay fails."""
    path = tmp_path / "binlog.000001"
    path.write_bytes(FULL_METADATA.read_bytes()[:200])
    result = run(tmp_path, path)

    assert result.exit_code == 1
    assert [one.name for one in tmp_path.iterdir()] == ["binlog.000001"]


@pytest.mark.parametrize("has_groups", [False, True])
def test_a_failed_replay_keeps_a_database_that_was_there(tmp_path: Path, has_groups: bool) -> None:
    """A new one is kept too if event groups are in it."""
    if not has_groups:
        sqlite3.connect(tmp_path / "x.db").execute("CREATE TABLE mine (a)").connection.close()
    path = tmp_path / "binlog.000001"
    path.write_bytes(FULL_METADATA.read_bytes()[: 5000 if has_groups else 200])
    result = run(tmp_path, path)
    with closing(sqlite3.connect(tmp_path / "x.db")) as connection:
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master")]

    assert result.exit_code == 1
    assert "corpus.m1" in tables if has_groups else "mine" in tables


@pytest.mark.parametrize("workers", [1, 4])
def test_a_failed_replay_says_up_to_where_the_target_has_all(tmp_path: Path, workers: int) -> None:
    """With several workers, and what each of them rolled back; one worker has nothing more to say than its error."""
    with binlogio.open(GROUP_COMMIT) as reader:
        heads = [event for event in reader if isinstance(event, GtidEvent)]
    run(tmp_path, "--stop-position", heads[120].header.offset, GROUP_COMMIT)
    with closing(sqlite3.connect(tmp_path / "x.db")) as connection:
        (last,) = connection.execute('SELECT max(id) FROM "corpus.gc"').fetchone()
        connection.execute('INSERT INTO "corpus.gc" (id) VALUES (?)', (last + 40,))
        connection.commit()
    result = run(tmp_path, "--workers", workers, GROUP_COMMIT)
    *lines, error = result.stderr.splitlines()
    with closing(SqliteTarget.open(tmp_path / "x.db")) as target:
        low = target.progress.low

    assert result.exit_code == 1
    assert "UNIQUE constraint failed" in error
    assert low is not None
    if workers == 1:
        assert lines == []
        return
    failed = next(head for head in heads if head.header.offset == low.offset)
    gtid = heads[heads.index(failed) - 1].gtid
    assert lines[-1] == f"binlogio: the target has all event groups up to {low.file}:{low.offset} (GTID {gtid})"
    assert (
        sum(f": rolled back {low.file}:{low.offset} (GTID {failed.gtid}), last committed" in line for line in lines)
        == 1
    )


def test_a_full_disk_is_an_io_error_of_the_database(tmp_path: Path) -> None:
    """PRAGMA max_page_count of the file stands for a full disk."""
    target = SqliteTarget.open(tmp_path / "x.db")
    target.connection.execute("PRAGMA max_page_count = 6")
    message = r"x\.db: SQLite cannot write the database: database or disk is full"
    with closing(target), binlogio.open(FULL_METADATA) as reader, pytest.raises(OSError, match=message):
        replay(reader, target)


def test_log_without_keys_asks_for_definitions(tmp_path: Path) -> None:
    """The message names the option if the log has neither column names nor DDL."""
    table = TableDefinition("d", "t", (ColumnDefinition("id", "int", nullable=False),))
    row = WriteRowsEvent(1, 1, b"", 1, b"\x01", b"\x00\x07\x00\x00\x00", header(EventType.WRITE_ROWS_EVENT))
    end = XidEvent(1, header(EventType.XID_EVENT))
    path = tmp_path / "binlog.000001"
    path.write_bytes(log(query("BEGIN"), table.table_map(1, "MINIMAL"), row, end))
    result = run(tmp_path, path)

    assert result.exit_code == 1
    assert "the log does not name the columns and the key of d.t" in result.stderr
    assert "--table-definitions" in result.stderr


def test_rows_that_lack_columns_are_mentioned(tmp_path: Path) -> None:
    """MINIMAL images lack default values and the virtual columns of MariaDB.

    The DDL in the log says the former.
    """
    result = run(tmp_path, MARIADB / "rowimage_minimal" / "binlog.000001")

    assert result.exit_code == 0
    assert "8 inserted rows lack columns in the log" in result.stderr


def test_torn_tail_is_mentioned(tmp_path: Path) -> None:
    """Complete event groups of a log in use are applied."""
    data = bytearray(FULL_METADATA.read_bytes()[:6870])  # in the middle of the last XID event
    data[IN_USE_BYTE] |= 1
    path = tmp_path / "binlog.000001"
    path.write_bytes(data)
    result = run(tmp_path, path)

    assert "an incomplete event" in result.stderr
    assert "a log ends in the middle of an event group, which was not applied" in result.stderr
    assert result.exit_code == 0


def test_target_that_is_no_database_is_an_io_error(tmp_path: Path) -> None:
    """The exit code is 4."""
    (tmp_path / "x.db").write_text("no database" * 200)
    result = run(tmp_path, FULL_METADATA)

    assert result.exit_code == 4
    assert "cannot be used as a SQLite database" in result.stderr


def test_dry_run_counts_and_changes_nothing() -> None:
    """A dry run prints the changes by table."""
    result = CliRunner().invoke(cli, ["replay", "--to", "dry-run:", str(FULL_METADATA)])

    assert result.exit_code == 0
    assert "8 rows inserted, 1 updated, 0 deleted" in result.stdout
    assert "corpus.m1: " in result.stdout


def test_filtered_transactions_keep_their_place(tmp_path: Path) -> None:
    """One table is applied under another schema; the position is that of the whole log."""
    result = run(tmp_path, "--table", "corpus.m1", "--rewrite-db", "corpus->other", "--workers", "4", FULL_METADATA)
    with closing(sqlite3.connect(tmp_path / "x.db")) as connection:
        names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}

    assert result.exit_code == 0
    assert names == {"binlogio_position", "binlogio_tables", "other.m1"}
    assert "position: binlog.000001 6879\n" in result.stdout


def test_positions_bound_what_is_replayed(tmp_path: Path) -> None:
    """A replay without the bound continues where the bounded one ended."""
    with binlogio.open(FULL_METADATA) as reader:
        xids = [event.header.offset + event.header.event_size for event in reader if isinstance(event, XidEvent)]
    stop = f"{FULL_METADATA.name}:{xids[0]}"
    first = run(tmp_path, "--stop-position", stop, FULL_METADATA)
    second = run(tmp_path, FULL_METADATA)
    later = CliRunner().invoke(cli, ["replay", "--to", "dry-run:", "--start-position", stop, str(FULL_METADATA)])

    assert f"position: {FULL_METADATA.name} {xids[0]}\n" in first.stdout
    assert "position: binlog.000001 6879\n" in second.stdout
    assert "event groups were left out by the filters" in later.stdout
    assert "1 updated" in later.stdout


def test_gtids_and_times_choose_transactions() -> None:
    """None before 1971 or from 2038 on, none without those of all."""
    for option, value in (
        ("--start-datetime", "2038-01-19"),
        ("--stop-datetime", "1971-01-01"),
        ("--exclude-gtids", _gtids()),
    ):
        result = CliRunner().invoke(cli, ["replay", "--to", "dry-run:", option, value, str(FULL_METADATA)])

        assert result.exit_code == 0
        assert "0 rows inserted, 0 updated, 0 deleted" in result.stdout


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        (("--include-gtids", "0-1-5"), {"0-1-5"}),
        (("--include-gtids", "0-1-4..5"), {"0-1-4", "0-1-5"}),
        (("--stop-position", "0-1-5"), {"0-1-4", "0-1-5"}),
        (("--start-position", "0-1-4", "--stop-position", "0-1-5"), {"0-1-5"}),
        (("--start-position", "0-1-999,4294967295-99-1"), {"7-1-1", "4294967295-99-18446744073709551000"}),
        (("--exclude-gtids", "0-1-1..999,4294967295-99-1"), {"7-1-1", "4294967295-99-18446744073709551000"}),
    ],
)
def test_gtids_of_mariadb_choose_transactions_for_replay_and_undo(
    options: tuple[str, ...], wanted: set[str], tmp_path: Path
) -> None:
    """Rows of the selected transactions are applied or reversed: single ones, ranges, or those around a GTID."""
    log = MARIADB / "gtid" / "binlog.000001"
    rows = [row for row in binlogio.read_rows(log).to_table().to_pylist() if row["gtid"] in wanted]
    inverse = tmp_path / "undo.000001"
    replayed = CliRunner().invoke(cli, ["replay", "--to", "dry-run:", *options, str(log)])
    command = ["undo", *options, "--on-statement", "skip", "--to-binlog", str(inverse), str(log)]
    taken_back = CliRunner().invoke(cli, command)
    counts = Counter(row["op"] for row in rows)

    assert replayed.exit_code == taken_back.exit_code == 0, taken_back.output
    assert (
        f"{counted(counts['insert'], 'row[s]')} inserted, {counts['update']} updated, {counts['delete']} deleted"
        in replayed.stdout
    )
    assert counts == Counter(
        {"insert": "delete", "delete": "insert"}.get(row["op"], row["op"])
        for row in binlogio.read_rows(inverse).to_table().to_pylist()
    )


def _gtids() -> str:
    with binlogio.open(FULL_METADATA) as reader:
        return next(f"{event.uuid}:1-1000" for event in reader if isinstance(event, GtidEvent))


def test_options_that_cannot_be_read_are_wrong_usage(tmp_path: Path) -> None:
    """The message says what was expected."""
    for option, value in (
        ("--start-position", "x"),
        ("--stop-position", "binlog.000001:x"),
        ("--start-datetime", "someday"),
        ("--stop-datetime", "tomorrow"),
        ("--include-gtids", "x"),
        ("--rewrite-db", "a=b"),
        ("--to", "ftp://x"),
    ):
        result = run(tmp_path, option, value, FULL_METADATA)

        assert result.exit_code == 2
