"""Sessions that commit together: order, syncs, hooks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from threading import Thread
from typing import Any

import pytest

from binlogio.errors import WriterStateError
from binlogio.events.gtid import AnonymousGtidEvent, GtidEvent
from binlogio.writer.log.group import WriteSet
from binlogio.writer.log.group_commit import system_wait
from committers import THREADS, Committer, in_threads, spin_until
from memory_storage import MemoryStorage


class SlowDisk(MemoryStorage):
    """A storage whose sync lasts until all threads that can have come to the writer, or no more come.

    Waits for events, not for time: a sync ends when `all_wait` says so.
    """

    def __init__(self, all_wait: Callable[[], bool]) -> None:
        super().__init__()
        self._all_wait = all_wait
        self.is_slow = False

    def sync(self, name: str) -> None:
        """Last, slowly."""
        if self.is_slow:
            spin_until(self._all_wait)
        super().sync(name)


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"sync_binlog": 1},
        {"sync_binlog": 3, "max_binlog_size": 4096},
        {"binlog_order_commits": False, "sync_binlog": 1},
        {"gtid_mode": "OFF", "max_binlog_size": 4096},
        {"binlog_group_commit_sync_delay": 10, "binlog_group_commit_sync_no_delay_count": 3},
    ],
    ids=str,
)
def test_every_group_of_every_session_is_there_once_in_the_order_of_its_hooks(more: Any) -> None:
    """No group lost; each session's in its order; GTIDs and the clock without a gap.

    Hooks called in the order of the log.
    """
    committer, each = Committer(wait=lambda _: None, **more), 60
    hooked: list[str] = []

    def work(index: int) -> None:
        random = Random(index)
        for number in range(each):
            text = f"{index} {number}"
            hook = (lambda text=text: hooked.append(text)) if random.random() < 0.5 else None
            commit_parent = committer.commits.max_committed
            size = random.choice((0, 300))
            group = committer.group(
                text, size, on_commit=hook, commit_parent=commit_parent, writeset=WriteSet((number,))
            )
            gtid = committer.commits.commit(group)
            assert (gtid is None) == (committer.variables.gtid_mode == "OFF")

    errors = in_threads(THREADS, work)
    committer.commits.close()
    events, texts = committer.events(), committer.texts()

    assert errors == []
    assert Counter(texts) == Counter(f"{index} {number}" for index in range(THREADS) for number in range(each))
    for index in range(THREADS):
        assert [text for text in texts if text.startswith(f"{index} ")] == [
            f"{index} {number}" for number in range(each)
        ]
    if committer.variables.binlog_order_commits:
        assert hooked == [text for text in texts if text in set(hooked)]
    assert sorted(hooked) == sorted(text for text in texts if text in set(hooked))
    if committer.variables.gtid_mode == "ON":
        assert [event.gno for event in events if isinstance(event, GtidEvent)] == list(range(1, THREADS * each + 1))
    clocks = [
        (e.last_committed or 0, e.sequence_number or 0)
        for e in events
        if isinstance(e, (GtidEvent, AnonymousGtidEvent))
    ]
    expected = 0
    for parent, number in clocks:
        expected = expected + 1 if number != 1 else 1
        assert number == expected
        assert 0 <= parent < number
    assert committer.commits.max_committed == THREADS * each


def test_max_committed_advances_when_hooks_have_run() -> None:
    """A session that takes it in between does not depend on what is not committed."""
    committer, seen = Committer(sync_binlog=1), list[int]()
    committer.commit("a")
    committer.commit("b", on_commit=lambda: seen.append(committer.commits.max_committed))

    assert seen == [1]
    assert committer.commits.max_committed == 2


def test_a_group_without_a_hook_waits_for_those_before_it() -> None:
    """No session gets its result, and no group depends on it, while an earlier one is being committed."""
    committer, seen, done = Committer(), list[tuple[list[str], int]](), list[str]()

    def hook() -> None:
        other.start()
        spin_until(lambda: committer.commits.waiting.commit == 1 or bool(done))
        seen.append((list(done), committer.commits.max_committed))

    def commit_another() -> None:
        committer.commit("b")
        done.append("b")

    other = Thread(target=commit_another)
    committer.commit("a", on_commit=hook)
    other.join()

    assert seen == [([], 0)]
    assert committer.texts() == ["a", "b"]


def test_a_hook_that_raises_is_its_own_sessions_trouble() -> None:
    """The group is in the log, and the others continue."""
    committer = Committer()

    def fail() -> None:
        raise WriterStateError("no")

    with pytest.raises(WriterStateError, match="no"):
        committer.commit("a", on_commit=fail)
    committer.commit("b", on_commit=lambda: None)

    assert committer.texts() == ["a", "b"]


# -------------------------------------------------------------------------------------------------------------- syncs


def test_threads_share_their_syncs() -> None:
    """8 threads, sync_binlog=1, a sync that lasts until all others have come: fewer than 0.3 syncs a transaction."""
    unfinished, each = Counter(dict.fromkeys(range(THREADS), 50)), 50

    def all_wait() -> bool:
        return committer.commits.unfinished >= sum(1 for left in list(unfinished.values()) if left)

    storage = SlowDisk(all_wait)
    committer = Committer(storage, sync_binlog=1)
    before, storage.is_slow = storage.sync_count, True

    def work(index: int) -> None:
        for number in range(each):
            committer.commit(f"{index} {number}")
            unfinished[index] -= 1

    errors = in_threads(THREADS, work)
    syncs, storage.is_slow = storage.sync_count - before, False

    assert errors == []
    assert len(committer.texts()) == THREADS * each
    assert syncs / (THREADS * each) < 0.3


@pytest.mark.parametrize(
    ("delay", "enough", "expected"), [(0, 0, []), (100, 0, [10] * 10), (25, 0, [2] * 12 + [1]), (100, 3, [10, 10])]
)
def test_a_leader_waits_for_others_before_it_syncs(delay: int, enough: int, expected: list[int]) -> None:
    """binlog_group_commit_sync_delay, in steps, up to binlog_group_commit_sync_no_delay_count sessions."""
    waited: list[int] = []

    def wait(microseconds: int) -> None:
        waited.append(microseconds)
        if enough:
            thread = Thread(target=committer.commit, args=(f"other {len(waited)}",))
            thread.start()
            spin_until(lambda: committer.commits.waiting.sync > len(waited))
            threads.append(thread)

    threads: list[Thread] = []
    committer = Committer(
        wait=wait,
        sync_binlog=1,
        binlog_group_commit_sync_delay=delay,
        binlog_group_commit_sync_no_delay_count=enough,
    )
    before = committer.storage.sync_count
    committer.commit("a")
    for thread in threads:
        thread.join()

    assert waited == expected
    assert committer.storage.sync_count == before + 1
    assert len(committer.texts()) == 1 + len(threads)


@pytest.mark.parametrize(("sync_binlog", "is_seen"), [(1, False), (0, True)])
def test_readers_go_up_to_what_lasts(sync_binlog: int, *, is_seen: bool) -> None:
    """With sync_binlog=1 no group can be read before it is synced."""
    may_end: list[bool] = []
    storage = SlowDisk(lambda: bool(may_end))
    committer = Committer(storage, sync_binlog=sync_binlog)
    before, storage.is_slow = committer.commits.position.offset, True
    thread = Thread(target=committer.commit, args=("a",))
    thread.start()
    spin_until(lambda: committer.log.size > before)
    meanwhile = committer.commits.position.offset
    may_end.append(True)
    thread.join()

    assert (meanwhile > before) is is_seen
    assert committer.commits.position.offset == committer.log.size > before


def test_no_session_waits_where_no_sync_is_due() -> None:
    """sync_binlog=3: every third pass through the stage."""
    waited: list[int] = []
    committer = Committer(wait=waited.append, sync_binlog=3, binlog_group_commit_sync_delay=1)
    counts = []
    for number in range(6):
        committer.commit(str(number))
        counts.append((len(waited), committer.storage.sync_count))

    assert [waits for waits, _ in counts] == [0, 0, 1, 1, 1, 2]
    assert [syncs - counts[0][1] for _, syncs in counts] == [0, 0, 1, 1, 1, 2]


def test_wait_of_a_server_is_in_microseconds() -> None:
    """The largest binlog_group_commit_sync_delay is a second."""
    system_wait(1)
