"""Who may write to the logs of a basename: one writer at a time, in the process that opened it.

Foreign files are never removed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from threading import Event, Thread

import pytest

import binlogio
from binlogio import BinlogWriter, WriterStateError
from binlogio.events.control import RotateEvent
from binlogio.storage.log_index import LogIndex
from committers import Committer
from memory_storage import MemoryStorage
from written_logs import changes, insert, writer

HOLDER = """
import sys, binlogio
log = binlogio.BinlogWriter(sys.argv[1]).open()
print("open", flush=True)
sys.stdin.read()
"""


def test_a_second_writer_of_the_same_process_is_refused(tmp_path: Path) -> None:
    """The error names the holder; after `close` the next writer opens the logs, and no lock file is left."""
    with BinlogWriter(tmp_path / "binlog"):
        with pytest.raises(
            WriterStateError, match=rf"another writer has these logs open, found process {os.getpid()} on "
        ):
            BinlogWriter(tmp_path / "binlog").open()
        with BinlogWriter(tmp_path / "other"):
            pass
    with BinlogWriter(tmp_path / "binlog"):
        pass

    assert not list(tmp_path.glob("*.lock"))


def test_a_second_writer_of_another_process_is_refused_until_that_one_ends(tmp_path: Path) -> None:
    """A killed process leaves its file, but not the lock."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path / "binlog")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        with pytest.raises(WriterStateError, match=f"found process {holder.pid} on "):
            BinlogWriter(tmp_path / "binlog").open()
        holder.kill()
    left = [path.name for path in tmp_path.glob("*.lock")]
    with BinlogWriter(tmp_path / "binlog") as log:
        names = log.names

    assert left == ["binlog.lock"]
    assert names == ("binlog.000001", "binlog.000002")


def test_a_writer_that_cannot_be_opened_holds_no_lock() -> None:
    """The first open fails at the index, the second does not."""
    storage = MemoryStorage()
    storage.files["binlog.index"] = bytearray(b"./binlog.000007\n")
    with pytest.raises(binlogio.BinlogError, match="binlog"):
        writer(storage).open()
    del storage.files["binlog.index"]

    writer(storage).open().close()

    assert storage.locks == {}


def test_an_open_writer_cannot_be_opened_again() -> None:
    """It would leave its log in use."""
    with writer(MemoryStorage()) as log, pytest.raises(WriterStateError, match="already open"):
        log.open()


def test_a_rotation_passes_over_a_file_that_has_the_next_name(tmp_path: Path) -> None:
    """A restored binlog.000002 keeps its bytes.

    The log continues in 000003, as the server does, and the index does not name it.
    """
    with BinlogWriter(tmp_path / "binlog") as log:
        (tmp_path / "binlog.000002").write_bytes(b"restored")
        log.rotate()
        names = log.names
    with binlogio.open(tmp_path / "binlog.000001") as reader:
        rotations = [event.next_log for event in reader if isinstance(event, RotateEvent)]

    assert (tmp_path / "binlog.000002").read_bytes() == b"restored"
    assert names == ("binlog.000001", "binlog.000003")
    assert rotations == ["binlog.000003"]


class Taken(MemoryStorage):
    """A storage in which another process creates the next log after its name was chosen."""

    def create(self, name: str) -> None:
        """Make an empty file, which is there already where it is the second log."""
        if name == "binlog.000002":
            self.files.setdefault(name, bytearray(b"foreign"))
        super().create(name)


def test_a_rotation_that_fails_removes_no_file_that_it_did_not_create() -> None:
    """FileExistsError: the other file is whole, also for the next writer; this log continues."""
    committer = Committer(Taken())
    with pytest.raises(FileExistsError):
        committer.commits.rotate()
    committer.commit("a")
    LogIndex("binlog", committer.storage).open()

    assert committer.storage.files["binlog.000002"] == b"foreign"
    assert committer.log.names == ("binlog.000001",)
    assert committer.texts() == ["a"]


# ---------------------------------------------------------------------------------------------------------------- fork


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_child_leaves_the_log_of_its_parent_alone(tmp_path: Path) -> None:
    """Its commits are refused, its `close` writes no STOP, locks that other threads held do not block it.

    The parent continues.
    """
    with BinlogWriter(tmp_path / "binlog") as log, log.session() as session:
        session.execute(insert(1))
        is_locked, has_forked = Event(), Event()
        holder = Thread(target=_hold_locks, args=(log, is_locked, has_forked))
        holder.start()
        is_locked.wait()
        child = os.fork()
        if not child:
            _use_and_exit(log, tmp_path / "child")
        has_forked.set()
        holder.join()
        _, status = os.waitpid(child, 0)
        with pytest.raises(WriterStateError, match="another writer"):
            BinlogWriter(tmp_path / "binlog").open()
        session.execute(insert(2))
    with binlogio.open(tmp_path / "binlog.000001") as reader:
        found = changes(reader)

    assert (tmp_path / "child").read_text() == "the writer cannot be used in a forked child process"
    assert status == 0
    assert found == [("t", None, (1, "row 1")), ("t", None, (2, "row 2"))]


def _hold_locks(log: BinlogWriter, is_locked: Event, has_forked: Event) -> None:
    with log._group_commit.quiet():
        is_locked.set()
        has_forked.wait()


def _use_and_exit(log: BinlogWriter, note: Path) -> None:
    """Use the writer in the child: its session, its `close`."""
    status = 1
    try:
        with closing(log), log.session() as session:
            session.execute(insert(3))
    except WriterStateError as exc:
        note.write_text(exc.reason)
        status = 0
    finally:
        os._exit(status)
