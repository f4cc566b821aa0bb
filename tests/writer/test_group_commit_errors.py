"""Disks that are full or ill while sessions commit together, and threads that are interrupted."""

from __future__ import annotations

import errno
from collections.abc import Callable
from functools import partial
from random import Random
from threading import Event, Thread
from typing import Final

import pytest

from binlogio.errors import BinlogFormatError, CommitOutcomeUnknown, WriterStateError
from binlogio.events.control import RotateEvent, StopEvent
from binlogio.events.gtid import GtidEvent
from binlogio.gtid import Gtid
from binlogio.storage.log_index import LogIndex
from binlogio.writer.log.log_builder import LoggedGtid
from binlogio.writer.log.recovery import recover
from committers import THREADS, UUID, Committer, in_threads, spin_until
from logs import IN_USE_AT
from memory_storage import MemoryStorage


class IllDisk(MemoryStorage):
    """Appends that write half and syncs that fail, now and then."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._random = Random(seed)
        self.is_ill = False
        self.fail_sync = False

    def append(self, name: str, data: bytes | bytearray | memoryview) -> None:
        """Write, or half of it."""
        if self.is_ill and self._random.random() < 0.1:
            self.fail_append = 0
        super().append(name, data)

    def sync(self, name: str) -> None:
        """Sync, or not."""
        if self.fail_sync or (self.is_ill and self._random.random() < 0.1):
            self.fail_sync = False
            raise OSError(errno.EIO, "the disk is ill", name)
        super().sync(name)


def test_a_full_disk_fails_every_group_of_the_write() -> None:
    """One write for many: all fail, nothing of them is in the log, their GTIDs are free, and the log continues."""
    committer = Committer(binlog_order_commits=True, sync_binlog=1)
    committer.commit("before")
    size = committer.log.size
    with committer.commits.quiet():  # so that all wait in the queue
        threads = [Thread(target=failing, args=(committer, index)) for index in range(4)]
        for thread in threads:
            thread.start()
        spin_until(partial(queued, committer, 4))
        committer.storage.fail_append = 0
    for thread in threads:
        thread.join()
    after = committer.log.size
    gtid = committer.commit("after")

    assert FAILED == [errno.ENOSPC] * 4
    assert after == size
    assert committer.texts() == ["before", "after"]
    assert str(gtid) == f"{UUID}:2"
    assert committer.events()[-2].last_committed == 1


FAILED: Final[list[int | None]] = []


def failing(committer: Committer, index: int) -> None:
    """Commit, and note why that was not possible."""
    try:
        committer.commit(f"lost {index}", on_commit=lambda: FAILED.append(None))
    except OSError as exc:
        FAILED.append(exc.errno)


def queued(committer: Committer, number: int) -> bool:
    """Return whether that many wait in the first queue."""
    return committer.commits.waiting.flush == number


def test_a_log_continues_after_a_full_disk_failed_a_group_of_one_session() -> None:
    """It takes the short way: no other session commits, and no sync is due."""
    committer = Committer(sync_binlog=0)
    committer.commit("before")
    committer.storage.fail_append = 0
    with pytest.raises(OSError, match="no space left"):
        committer.commit("lost")
    gtid = committer.commit("after")

    assert committer.texts() == ["before", "after"]
    assert str(gtid) == f"{UUID}:2"


def test_a_full_disk_fails_all_that_commit_together() -> None:
    """The error is raised in the caller's thread, when all have ended."""
    committer = Committer(sync_binlog=0)
    committer.commit("before")
    committer.storage.fail_append = 0

    with pytest.raises(OSError, match="no space left"):
        committer.commits.commit_together([partial(committer.commit, name) for name in "ab"])
    committer.commits.commit_together([partial(committer.commit, name) for name in "cd"])

    assert committer.texts() == ["before", "c", "d"]


def test_groups_commit_together_while_another_session_empties_the_queue() -> None:
    """The other one was in the queue when the first function was called, and is not when that function commits."""
    committer = Committer(sync_binlog=1)
    held, may_write = Event(), Event()

    def hold() -> None:
        with committer.commits.quiet():
            held.set()
            may_write.wait()

    def first() -> None:
        may_write.set()
        other.join()
        committer.commit("first")

    holder, other = Thread(target=hold), Thread(target=partial(committer.commit, "other"))
    both: list[Callable[[], object]] = [first, partial(committer.commit, "second")]
    together = Thread(target=committer.commits.commit_together, args=(both,), daemon=True)
    holder.start()
    held.wait()
    other.start()
    spin_until(partial(queued, committer, 1))
    together.start()
    together.join(10)

    assert not together.is_alive()
    assert committer.texts() == ["other", "first", "second"]


def test_a_group_that_cannot_be_made_fails_alone() -> None:
    """Its neighbours in the same write do not."""
    committer = Committer(sync_binlog=1)
    good, bad = committer.group("good"), committer.group("bad")
    bad = bad._replace(frames=(bad.frames[0][:-1],))  # type: ignore[index]
    results: dict[int, BaseException | LoggedGtid] = {}

    def work(index: int) -> None:
        try:
            results[index] = committer.commits.commit(bad if index == 1 else good)
        except BinlogFormatError as exc:
            results[index] = exc

    with committer.commits.quiet():
        threads = [Thread(target=work, args=(index,)) for index in range(3)]
        for index, thread in enumerate(threads):
            thread.start()
            spin_until(partial(queued, committer, index + 1))
    for thread in threads:
        thread.join()
    gnos = [result.gno for result in results.values() if isinstance(result, Gtid)]

    assert isinstance(results[1], BinlogFormatError)
    assert sorted(gnos) == [1, 2]
    assert committer.texts() == ["good", "good"]


@pytest.mark.parametrize("sync_binlog", [1, 2])
def test_a_sync_that_fails_removes_unacknowledged_groups(sync_binlog: int) -> None:
    """EIO: the group is not in the log, those before it are."""
    committer = Committer(IllDisk(0), sync_binlog=sync_binlog)
    for number in range(sync_binlog - 1):
        committer.commit(f"before {number}")
    committer.storage.fail_sync = True  # type: ignore[attr-defined]
    with pytest.raises(OSError, match="disk is ill"):
        committer.commit("lost")
    gtid = committer.commit("after")
    committer.commits.close()

    assert isinstance(gtid, Gtid)
    assert gtid.gno == sync_binlog
    assert committer.texts() == [*(f"before {number}" for number in range(sync_binlog - 1)), "after"]
    assert str(committer.commits.executed) == (f"{UUID}:1" if sync_binlog == 1 else f"{UUID}:1-2")


@pytest.mark.parametrize("seed", range(6))
def test_on_a_failing_disk_the_log_has_the_acknowledged_groups(seed: int) -> None:
    """Threads, rotations, failed writes and syncs: the groups in the logs are those whose commits returned."""
    storage = IllDisk(seed)
    committer, told, hooked = Committer(storage, sync_binlog=1, max_binlog_size=4096), list[str](), list[str]()
    storage.is_ill = True

    def work(index: int) -> None:
        for number in range(60):
            text = f"{index} {number}"
            try:
                committer.commit(text, 100, on_commit=partial(hooked.append, text))
            except OSError:
                continue
            told.append(text)

    errors = in_threads(THREADS, work)
    storage.is_ill = False
    committer.commits.close()
    index = LogIndex("binlog", storage)
    index.open()
    recover(storage, index.names[-1])
    events, texts = committer.events(), committer.texts()
    gnos = [event.gno for event in events if isinstance(event, GtidEvent)]

    assert all("could not be undone" in str(error) for error in errors)  # a rotation whose undoing failed too
    assert 0 < len(told) < 60 * THREADS
    assert sorted(texts) == sorted(told)
    assert hooked == texts
    assert gnos == list(range(1, len(texts) + 1))
    assert str(committer.commits.executed) == f"{UUID}:1-{len(texts)}"


def test_a_sync_that_fails_and_cannot_be_undone_has_an_unknown_outcome() -> None:
    """EIO by fsync, then by truncate: the group may be in the log, the error says so, and the log accepts no other."""
    committer = Committer(IllDisk(0), sync_binlog=1)
    committer.storage.fail_sync = committer.storage.fail_truncate = True  # type: ignore[attr-defined]
    with pytest.raises(
        CommitOutcomeUnknown, match=r"the disk is gone\); the group may or may not be in the log"
    ) as unknown:
        committer.commit("unknown")
    with pytest.raises(WriterStateError, match="open it again"):
        committer.commit("refused")

    assert unknown.value.file == "binlog.000001"
    assert committer.texts() == ["unknown"]


def test_errors_that_are_ignored_end_the_log() -> None:
    """IGNORE_ERROR: sessions continue, hooks are called, nothing is logged any more, and the reason can be read."""
    hooked: list[str] = []
    for sync_binlog in (0, 1):
        committer = Committer(sync_binlog=sync_binlog, binlog_error_action="IGNORE_ERROR")
        committer.commit("before")
        committer.storage.fail_append = 0
        results = [committer.commit("lost"), committer.commit("later", on_commit=lambda: hooked.append("later"))]
        error = committer.commits.ignored_error
        committer.commits.close()

        assert results == [None, None]
        assert isinstance(error, OSError)
        assert committer.texts() == ["before"]
        assert isinstance(committer.events()[-1], StopEvent)
        assert committer.storage.files["binlog.000001"][IN_USE_AT] == 0
    assert hooked == ["later"] * 2


@pytest.mark.parametrize("failing_append", range(4))
def test_a_rotation_that_fails_leaves_the_log_as_it_was(failing_append: int) -> None:
    """Whatever cannot be written (ROTATE, register, next log, index), this log continues, and rotates later."""
    committer = Committer()
    committer.commit("a")
    size = committer.log.size
    committer.storage.fail_append = failing_append
    with pytest.raises(OSError, match="no space"):
        committer.commits.rotate()
    in_use, names = committer.storage.files["binlog.000001"][IN_USE_AT], committer.log.names
    sizes = committer.log.size, len(committer.storage.files["binlog.000001"])
    committer.commit("b")
    committer.commits.rotate()
    committer.commit("c")
    committer.commits.close()

    assert (in_use, names, sizes) == (1, ("binlog.000001",), (size, size))
    assert committer.texts() == ["a", "b", "c"]
    assert sorted(committer.storage.files) == ["binlog.000001", "binlog.000002", "binlog.index"]
    assert [type(event) for event in committer.events() if isinstance(event, (RotateEvent, StopEvent))] == [
        RotateEvent,
        StopEvent,
    ]


def test_a_group_is_acknowledged_though_its_log_could_not_be_rotated() -> None:
    """It is in the log; the next one tries again."""
    committer = Committer(max_binlog_size=4096)
    committer.storage.fail_append = 1
    committer.commit("a", 4000)
    error = committer.commits.rotation_error
    committer.commit("b")

    assert isinstance(error, OSError)
    assert committer.commits.rotation_error is None
    assert committer.log.names == ("binlog.000001", "binlog.000002")
    assert committer.texts() == ["a", "b"]
