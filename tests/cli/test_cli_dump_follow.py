"""`dump --follow`: what a server adds to its log is shown, and the logs that it makes after it."""

from __future__ import annotations

import gc
import json
import shutil
import signal
import subprocess
import sys
import tracemalloc
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import pytest
from click.testing import CliRunner

import binlogio
from binlogio import BinlogWriter, ColumnDefinition, Insert, ServerVariables, Statement, TableDefinition
from binlogio.constants import EventType
from binlogio.errors import ChangedLogs, MissingLogs
from binlogio.events import WriteRowsEvent
from binlogio_cli.main import cli
from corpus import MYSQL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

TABLE: Final = TableDefinition("shop", "orders", (ColumnDefinition("id", "int"),), primary_key=("id",))


@pytest.mark.parametrize("compresses", [False, True], ids=["plain", "compressed"])
def test_changes_are_shown_as_they_are_written(compresses: bool, tmp_path: Path) -> None:
    """Also those of a log that was made when nothing was read, and of a column whose name DDL says."""
    variables = ServerVariables(binlog_transaction_compression=compresses)
    with BinlogWriter(tmp_path / "binlog", variables=variables) as log, log.session("shop") as session:
        session.ddl("CREATE TABLE orders (id INT PRIMARY KEY)")
        insert(session, 1)
        command = [sys.executable, "-m", "binlogio_cli", "dump", "--follow", "--format", "json", str(tmp_path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            shown = inserted(process)
            assert next(shown) == 1
            insert(session, 2)
            assert next(shown) == 2
            log.rotate()
            insert(session, 3)
            assert next(shown) == 3
            log.rotate()
            log.rotate()
            insert(session, 4)
            assert next(shown) == 4
            process.send_signal(signal.SIGINT)
            assert list(shown) == []
    assert process.returncode == 130


def insert(session: Any, number: int) -> None:
    session.execute(Statement(f"INSERT INTO orders VALUES ({number})", [Insert(TABLE, [(number,)])]))


def inserted(process: subprocess.Popen[str]) -> Iterator[int]:
    assert process.stdout is not None
    for line in process.stdout:
        for row in json.loads(line).get("rows", ()):
            yield row["after"]["id"]


def test_every_event_is_read_however_the_log_grows(tmp_path: Path) -> None:
    """By one byte, or in the middle of events; the end is where the next log is, or where the caller ends it."""
    folder = MYSQL / "rotated"
    names = sorted(path.name for path in folder.glob("*.0*"))
    data = {name: (folder / name).read_bytes() for name in names}
    with binlogio.open([folder / name for name in names]) as reader:
        wanted = [(event.header.type_code, event.header.offset) for event in reader]
    steps = growth(data, tmp_path)
    next(steps)

    def wait() -> None:
        if next(steps, None) is None:
            raise KeyboardInterrupt

    found = []
    with binlogio.open(tmp_path / names[0], follow=wait) as reader, suppress(KeyboardInterrupt):
        for event in reader:
            found.append((event.header.type_code, event.header.offset))  # noqa: PERF401 - up to the interrupt

    assert found == wanted
    assert sum(code == EventType.FORMAT_DESCRIPTION_EVENT for code, _ in found) == len(names)


def growth(data: dict[str, bytes], folder: Path) -> Iterator[int]:
    """Write the logs in steps of a few bytes; yield after each."""
    sizes = [1, 3, 7, 100, 19, 250]
    for name, text in data.items():
        with (folder / name).open("ab", buffering=0) as file:
            at = number = 0
            while at < len(text):
                size = sizes[number % len(sizes)]
                file.write(text[at : at + size])
                at, number = at + size, number + 1
                yield at


def test_a_finished_log_takes_less_than_two_kilobytes(tmp_path: Path) -> None:
    """A server makes thousands of logs while one command follows them."""
    at: dict[int, int] = {}
    with BinlogWriter(tmp_path / "binlog") as log, log.session("shop") as session:
        session.ddl("CREATE TABLE orders (id INT PRIMARY KEY)")

        def wait() -> None:
            number = len(log.names)
            if number in (10, 60):
                gc.collect()
                at[number] = tracemalloc.get_traced_memory()[0]
            if number == 60:
                raise KeyboardInterrupt
            for _ in range(40):
                insert(session, number)
            log.rotate()

        tracemalloc.start()
        try:
            with binlogio.open(tmp_path, follow=wait) as reader, suppress(KeyboardInterrupt):
                for _ in reader:
                    pass
        finally:
            tracemalloc.stop()

    assert (at[60] - at[10]) / 50 < 2000


def test_what_cannot_grow_is_refused(tmp_path: Path) -> None:
    log = MYSQL / "rotated" / "binlog.000001"
    (tmp_path / "renamed").write_bytes(log.read_bytes())
    for arguments, reason in (
        (["-"], "only a local log with a number in its name can be followed"),
        ([str(tmp_path / "renamed")], "only a local log with a number in its name can be followed"),
        (["-o", str(tmp_path / "out"), str(log)], "--follow is for standard output"),
    ):
        done = CliRunner().invoke(cli, ["dump", "--follow", *arguments])
        assert done.exit_code in (2, 3)
        assert reason in done.stderr


@pytest.fixture(name="followed")
def followed_series(tmp_path: Path) -> Iterator[tuple[BinlogWriter, Any, Path]]:
    """Provide a writer, its session, and the folder of its first log, which has row 1."""
    variables = ServerVariables(server_uuid="3e11fa47-71ca-11e1-9e33-c80aa9429562", gtid_mode="ON")
    with BinlogWriter(tmp_path / "binlog", variables=variables) as log, log.session("shop") as session:
        insert(session, 1)
        yield log, session, tmp_path


def follow(first: Path, *steps: Callable[[], object]) -> list[int]:
    """Follow a log; one step is done each time that no more bytes are available. Returns the inserted rows."""
    left = list(steps)

    def wait() -> None:
        if not left:
            raise KeyboardInterrupt
        left.pop(0)()

    found: list[int] = []
    with binlogio.open(first, follow=wait) as reader, suppress(KeyboardInterrupt):
        for event in reader:
            if isinstance(event, WriteRowsEvent):
                found += [change.after.values[0] for change in reader.rows(event) if change.after is not None]
    return found


def test_a_purge_is_followed_if_nothing_is_skipped(followed: tuple[BinlogWriter, Any, Path]) -> None:
    """The rest of the purged log is read from the open file."""
    log, session, folder = followed

    def purge() -> None:
        insert(session, 2)
        log.rotate()
        insert(session, 3)
        (folder / "binlog.000001").unlink()

    assert follow(folder / "binlog.000001", purge) == [1, 2, 3]


def test_a_purge_of_logs_that_were_not_read_is_an_error(followed: tuple[BinlogWriter, Any, Path]) -> None:
    """The error names the numbers; `dump` ends with 1 after what it could read."""
    log, session, folder = followed

    def purge() -> None:
        for number in (2, 3):
            log.rotate()
            insert(session, number)
        (folder / "binlog.000001").unlink()
        (folder / "binlog.000002").unlink()

    with pytest.raises(MissingLogs, match=r"binlog\.000003: logs are missing, or were purged .*: number 2"):
        follow(folder / "binlog.000001", purge)


def test_a_log_that_is_missing_after_one_that_is_there_is_an_error(followed: tuple[BinlogWriter, Any, Path]) -> None:
    """The next log will never come."""
    log, session, folder = followed

    def lose() -> None:
        for number in (2, 3):
            log.rotate()
            insert(session, number)
        (folder / "binlog.000002").unlink()

    with pytest.raises(MissingLogs, match=r"binlog\.000003: logs are missing, or were purged .*: number 2"):
        follow(folder / "binlog.000001", lose)


def test_a_copy_of_a_log_in_use_before_the_next_log_is_an_error(
    followed: tuple[BinlogWriter, Any, Path], tmp_path: Path
) -> None:
    """Its end is missing: the server closes a log before it begins the next one."""
    log, session, folder = followed
    copies = tmp_path / "copies"
    copies.mkdir()
    shutil.copy(folder / "binlog.000001", copies)

    def grow() -> None:
        insert(session, 2)
        log.rotate()
        shutil.copy(folder / "binlog.000002", copies)

    with pytest.raises(MissingLogs, match="the end of the log is missing: its flag IN_USE is set"):
        follow(copies / "binlog.000001", grow)


@pytest.mark.parametrize("rows", [0, 1, 5], ids=["no log yet", "as long", "longer"])
def test_a_reset_is_an_error(followed: tuple[BinlogWriter, Any, Path], tmp_path: Path, rows: int) -> None:
    """Whatever the new log of this number has."""
    _, _, folder = followed

    def reset() -> None:
        (folder / "binlog.000001").unlink()
        if rows:
            write_log(tmp_path / "other", rows)
            (tmp_path / "other" / "binlog.000001").rename(folder / "binlog.000001")

    with pytest.raises(ChangedLogs, match="cannot be followed any more"):
        follow(folder / "binlog.000001", reset, *[lambda: None] * 9)


def write_log(folder: Path, rows: int) -> None:
    folder.mkdir()
    with BinlogWriter(folder / "binlog") as log, log.session("shop") as session:
        for number in range(rows):
            insert(session, number)


def test_a_log_that_was_copied_again_is_followed(followed: tuple[BinlogWriter, Any, Path], tmp_path: Path) -> None:
    """As rsync does: a new file with the same bytes, and more, gets the name."""
    _, session, folder = followed
    copies = tmp_path / "copies"
    copies.mkdir()

    def copy() -> None:
        (copies / "new").write_bytes((folder / "binlog.000001").read_bytes())
        (copies / "new").rename(copies / "binlog.000001")

    def copy_more() -> None:
        insert(session, 2)
        copy()

    copy()
    assert follow(copies / "binlog.000001", copy_more) == [1, 2]


def test_a_log_that_was_truncated_is_an_error(followed: tuple[BinlogWriter, Any, Path], tmp_path: Path) -> None:
    """A server truncates its last log in crash recovery."""
    _, _, folder = followed
    copied = tmp_path / "copy.000001"
    copied.write_bytes((folder / "binlog.000001").read_bytes())

    def truncate() -> None:
        with copied.open("ab") as file:
            file.truncate(200)

    with pytest.raises(ChangedLogs, match="it was truncated"):
        follow(copied, truncate)

    def rewrite() -> None:
        data = (folder / "binlog.000001").read_bytes()
        with copied.open("r+b") as file:
            file.truncate(200)
            file.seek(200)
            file.write(bytes(200) + data[400:] + bytes(100))

    copied.write_bytes((folder / "binlog.000001").read_bytes())
    with pytest.raises(ChangedLogs, match="it was truncated, and has grown again"):
        follow(copied, rewrite)
