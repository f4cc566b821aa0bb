"""Sessions that commit together: order, syncs, hooks, GTIDs, errors."""

from __future__ import annotations

import errno
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import count
from random import Random
from threading import Barrier, Condition, Thread
from typing import Any, Final

import pytest

from binlogio.encoder import Encoder
from binlogio.errors import BinlogFormatError, UnsupportedFeature, WriterStateError
from binlogio.events.base import EventHeader
from binlogio.events.control import IncidentEvent, RotateEvent, StopEvent
from binlogio.events.gtid import AnonymousGtidEvent, GtidEvent, GtidTaggedEvent
from binlogio.events.query import QueryEvent
from binlogio.events.transaction_payload import TransactionPayloadEvent
from binlogio.gtid import EMPTY_GTID_SET, Gtid, GtidSet, Tag, Uuid
from binlogio.options import ServerVariables
from binlogio.reader import open as open_logs
from binlogio.writer.group import ANONYMOUS, Automatic, Group, GroupEnd, WriteSet
from binlogio.writer.group_commit import GroupCommit
from binlogio.writer.kernel import writer_kernel
from binlogio.writer.log_file import ActiveLog, describe_format
from binlogio.writer.log_index import LogIndex
from binlogio.writer.recovery import recover
from memory_storage import MemoryStorage

UUID: Final = Uuid.parse("3e11fa47-71ca-11e1-9e33-c80aa9429562")
THREADS: Final = 8


class SlowDisk(MemoryStorage):
    """A storage whose sync takes until as many threads as there can be have come to the writer, or nobody comes any more.

    Waits for events, not for time: a sync ends when `everybody_waits` says so.
    """

    def __init__(self, everybody_waits: Callable[[], bool]) -> None:
        super().__init__()
        self._everybody_waits = everybody_waits
        self.is_slow = False
        self.fail_sync: int | None = None

    def sync(self, name: str) -> None:
        """Last, slowly; or fail."""
        if self.is_slow:
            spin_until(self._everybody_waits)
        if self.fail_sync is not None:
            self.fail_sync -= 1
            if self.fail_sync < 0:
                self.fail_sync = None
                raise OSError(errno.EIO, "the disk is ill", name)
        super().sync(name)


def spin_until(condition: Callable[[], bool]) -> None:
    """Let other threads run until it is so."""
    turn = Condition()
    with turn:
        while not condition():
            turn.wait(0.0001)


class Committer:
    """A group commit over a storage, with groups that say who made them."""

    def __init__(
        self, storage: MemoryStorage | None = None, wait: Callable[[int], None] | None = None, **more: Any
    ) -> None:
        ticks = count(10**15, 1000)
        self.storage = MemoryStorage() if storage is None else storage
        self.variables = ServerVariables(**{"server_version": "9.7.4", "sync_binlog": 0, **more})
        self.log = ActiveLog("binlog", self.storage, self.variables, lambda: next(ticks))
        arguments = () if wait is None else (wait,)
        self.commits = GroupCommit(self.log, self.variables, lambda: next(ticks), UUID, writer_kernel(), *arguments)
        self._encoder = Encoder(describe_format(self.variables).context)
        self.commits.open(EMPTY_GTID_SET)

    def group(self, text: str, size: int = 0, **more: Any) -> Group:
        """A group that is one statement."""
        event = QueryEvent(
            thread_id=1,
            exec_time=0,
            error_code=0,
            status_vars=(),
            schema="shop",
            sql=text.encode() + b" " * size,
            header=EventHeader(timestamp=10**9, server_id=1),
        )
        return Group(frames=(self._encoder.encode(event),), timestamp=10**9, **more)

    def commit(self, text: str, size: int = 0, **more: Any) -> Gtid | None:
        """Commit one."""
        return self.commits.commit(self.group(text, size, **more))

    def events(self) -> list[Any]:
        """Everything in the logs."""
        with open_logs(self.storage.streams(), open_payloads=False) as reader:
            return list(reader)

    def texts(self) -> list[str]:
        """The groups in the logs."""
        return [event.sql.decode().strip() for event in self.events() if isinstance(event, QueryEvent)]


def in_threads(number: int, work: Callable[[int], None]) -> list[BaseException]:
    """Run `work` in that many threads at once; returns what they raised."""
    barrier, errors = Barrier(number), list[BaseException]()

    def run(index: int) -> None:
        barrier.wait()
        try:
            work(index)
        except (OSError, WriterStateError, BinlogFormatError, AssertionError) as exc:
            errors.append(exc)

    threads = [Thread(target=run, args=(index,)) for index in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors


# -------------------------------------------------------------------------------------------------------------- order


@pytest.fixture
def _restless() -> Iterator[None]:
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("_restless")
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
    """No group lost; each session's in its order; GTIDs and the clock without a gap; hooks called in the order of the log."""
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


@pytest.mark.usefixtures("_restless")
def test_the_two_caches_of_a_session_stand_one_behind_the_other() -> None:
    """Whatever others commit meanwhile; the second depends on the first."""
    committer = Committer()

    def work(index: int) -> None:
        for number in range(40):
            committer.commits.commit_all(
                [committer.group(f"{index} {number} N"), committer.group(f"{index} {number} T")]
            )

    in_threads(4, work)
    texts = committer.texts()

    assert len(texts) == 320
    assert [text[:-1] + "T" for text in texts[::2]] == texts[1::2]


def test_max_committed_goes_on_when_hooks_have_run() -> None:
    """A session that takes it in between does not depend on what is not committed."""
    committer, seen = Committer(sync_binlog=1), list[int]()
    committer.commit("a")
    committer.commit("b", on_commit=lambda: seen.append(committer.commits.max_committed))

    assert seen == [1]
    assert committer.commits.max_committed == 2


def test_a_hook_that_raises_is_its_own_sessions_trouble() -> None:
    """The group is in the log, and the others go on."""
    committer = Committer()

    def fail() -> None:
        raise WriterStateError("no")

    with pytest.raises(WriterStateError, match="no"):
        committer.commit("a", on_commit=fail)
    committer.commit("b", on_commit=lambda: None)

    assert committer.texts() == ["a", "b"]


# -------------------------------------------------------------------------------------------------------------- syncs


def test_threads_share_their_syncs() -> None:
    """8 threads, sync_binlog=1, a disk on which a sync lasts until all the others have come: fewer than 0.3 syncs a transaction."""
    unfinished, each = Counter(dict.fromkeys(range(THREADS), 50)), 50

    def everybody_waits() -> bool:
        commits = committer.commits
        return commits._flushed - commits._finished >= sum(1 for left in list(unfinished.values()) if left)

    storage = SlowDisk(everybody_waits)
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
            spin_until(lambda: len(committer.commits._sync) > len(waited))
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


def test_nobody_waits_where_this_is_not_the_turn_to_sync() -> None:
    """sync_binlog=3: every third pass through the stage."""
    waited: list[int] = []
    committer = Committer(wait=waited.append, sync_binlog=3, binlog_group_commit_sync_delay=1)
    counts = []
    for number in range(6):
        committer.commit(str(number))
        counts.append((len(waited), committer.storage.sync_count))

    assert [waits for waits, _ in counts] == [0, 0, 1, 1, 1, 2]
    assert [syncs - counts[0][1] for _, syncs in counts] == [0, 0, 1, 1, 1, 2]


# -------------------------------------------------------------------------------------------------------------- errors


def test_a_full_disk_tells_everybody_whose_group_is_not_there() -> None:
    """One write for many: all of them fail, nothing of them is in the log, their GTIDs are free, and the log goes on."""
    committer = Committer(binlog_order_commits=True, sync_binlog=1)
    committer.commit("before")
    size = committer.log.size
    with committer.commits._flush.mutex:  # so that all stand in the queue
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
    """Whether that many stand in the first queue."""
    return len(committer.commits._flush) == number


def test_a_group_that_cannot_be_made_fails_alone() -> None:
    """Its neighbours in the same write do not."""
    committer = Committer()
    good, bad = committer.group("good"), committer.group("bad")
    bad = bad._replace(frames=(bad.frames[0][:-1],))  # type: ignore[index]
    results: dict[int, BaseException | Gtid | None] = {}

    def work(index: int) -> None:
        try:
            results[index] = committer.commits.commit(bad if index == 1 else good)
        except BinlogFormatError as exc:
            results[index] = exc

    with committer.commits._flush.mutex:
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
def test_a_sync_that_fails_takes_back_what_nobody_was_told_of(sync_binlog: int) -> None:
    """EIO: the group is not in the log, those before it are."""
    committer = Committer(SlowDisk(lambda: True), sync_binlog=sync_binlog)
    for number in range(sync_binlog - 1):
        committer.commit(f"before {number}")
    committer.storage.fail_sync = 0  # type: ignore[attr-defined]
    with pytest.raises(OSError, match="disk is ill"):
        committer.commit("lost")
    gtid = committer.commit("after")
    committer.commits.close()

    assert gtid is not None
    assert gtid.gno == sync_binlog
    assert committer.texts() == [*(f"before {number}" for number in range(sync_binlog - 1)), "after"]
    assert str(committer.commits.executed) == (f"{UUID}:1" if sync_binlog == 1 else f"{UUID}:1-2")


class IllDisk(MemoryStorage):
    """Appends that write half and syncs that fail, now and then."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._random = Random(seed)
        self.is_ill = False

    def append(self, name: str, data: bytes | bytearray | memoryview) -> None:
        """Write, or half of it."""
        if self.is_ill and self._random.random() < 0.1:
            self.fail_append = 0
        super().append(name, data)

    def sync(self, name: str) -> None:
        """Sync, or not."""
        if self.is_ill and self._random.random() < 0.1:
            raise OSError(errno.EIO, "the disk is ill", name)
        super().sync(name)


@pytest.mark.usefixtures("_restless")
@pytest.mark.parametrize("seed", range(6))
def test_on_an_ill_disk_what_was_told_is_what_is_there(seed: int) -> None:
    """Threads, rotations, errors of writes and syncs: the groups in the logs are those whose commits returned, and no others."""
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


def test_errors_that_are_ignored_end_the_log() -> None:
    """binlog_error_action=IGNORE_ERROR: sessions go on, hooks are called, nothing is logged any more, and somebody can know why."""
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
        assert committer.storage.files["binlog.000001"][4 + 17] == 0
    assert hooked == ["later"] * 2


@pytest.mark.parametrize("failing_append", range(4))
def test_a_rotation_that_fails_leaves_the_log_as_it_was(failing_append: int) -> None:
    """ROTATE, the register, the next log, the index: whichever the disk does not take, this log goes on, and rotates later."""
    committer = Committer()
    committer.commit("a")
    size = committer.log.size
    committer.storage.fail_append = failing_append
    with pytest.raises(OSError, match="no space"):
        committer.commits.rotate()
    in_use, names = committer.storage.files["binlog.000001"][4 + 17], committer.log.names
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


def test_a_group_is_told_of_though_its_log_could_not_be_rotated() -> None:
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


# --------------------------------------------------------------------------------------------------- incidents, GTIDs


def incident(committer: Committer) -> Group:
    """A group that is an incident."""
    event = IncidentEvent(incident=1, message="lost", header=EventHeader(timestamp=10**9, server_id=1))
    return Group(frames=(committer._encoder.encode(event),), timestamp=10**9, end=GroupEnd.INCIDENT)


@pytest.mark.usefixtures("_restless")
def test_behind_an_incident_the_log_is_rotated_at_once() -> None:
    """Whatever others commit at the same time."""
    committer = Committer()

    def work(index: int) -> None:
        for number in range(20):
            if index == 0 and number % 10 == 5:
                committer.commits.commit(incident(committer))
            committer.commit(f"{index} {number}")

    in_threads(4, work)
    events = committer.events()
    at = [number for number, event in enumerate(events) if isinstance(event, IncidentEvent)]

    assert len(at) == 2
    assert all(isinstance(events[number + 1], RotateEvent) for number in at)
    assert len(committer.texts()) == 80
    assert len(committer.log.names) == 3


def test_gtids_are_automatic_assigned_tagged_or_none() -> None:
    """gtid_next; each tag has its own numbers, and numbers that were assigned are not given out."""
    committer = Committer()
    other = Uuid.parse("00000000-0000-0000-0000-00000000002a")
    chosen = [Gtid(UUID, Tag(""), 2), Gtid(other, Tag("x"), 7)]
    nexts = [Automatic(), Automatic(Tag("blue")), chosen[0], Automatic(), chosen[1], Automatic(Tag("blue")), ANONYMOUS]
    gtids = [committer.commit(str(number), assigned_gtid=chosen) for number, chosen in enumerate(nexts)]
    with pytest.raises(WriterStateError, match="used already"):
        committer.commit("again", assigned_gtid=chosen[1])
    committer.commits.rotate()
    events = committer.events()
    found = [event for event in events if isinstance(event, (GtidEvent, GtidTaggedEvent, AnonymousGtidEvent))]
    executed = GtidSet.parse(f"{UUID}:1-3:blue:1-2,{other}:x:7")

    assert [str(gtid) for gtid in gtids] == [
        f"{UUID}:1",
        f"{UUID}:blue:1",
        f"{UUID}:2",
        f"{UUID}:3",
        f"{other}:x:7",
        f"{UUID}:blue:2",
        "None",
    ]
    assert [str(event.gtid) for event in found] == [str(gtid) for gtid in gtids]
    assert [event.transaction_length for event in found] == [
        events[events.index(event) + 1].header.offset + events[events.index(event) + 1].header.event_size
        - event.header.offset
        for event in found
    ]  # fmt: skip
    assert committer.commits.executed == executed
    assert next(event for event in reversed(events) if hasattr(event, "gtid_set")).gtid_set == executed
    assert committer.commits.is_used(chosen[0])
    assert not committer.commits.is_used(Gtid(UUID, Tag(""), 4))


@pytest.mark.parametrize(
    ("mode", "expected"), [("OFF", False), ("OFF_PERMISSIVE", False), ("ON_PERMISSIVE", True), ("ON", True)]
)
def test_gtid_mode_decides_what_automatic_means(mode: str, *, expected: bool) -> None:
    """A number, or none."""
    committer = Committer(gtid_mode=mode)

    assert (committer.commit("a") is not None) is expected


def test_older_servers_have_no_tags() -> None:
    """Their format description has no such event."""
    committer = Committer(server_version="8.0.22")
    with pytest.raises(UnsupportedFeature, match="no tags"):
        committer.commit("a", assigned_gtid=Automatic(Tag("x")))
    committer.commit("b")

    assert len(committer.events()[0].post_header_sizes) == 40
    assert committer.texts() == ["b"]


# --------------------------------------------------------------------------------------------- spilled and compressed


class Spilled:
    """Frames that come from somewhere else, and break off where they are told to."""

    def __init__(self, frames: Sequence[bytes], fail_at: int | None = None) -> None:
        self._frames = frames
        self._fail_at = fail_at

    @property
    def size(self) -> int:
        """In bytes."""
        return sum(map(len, self._frames))

    def __iter__(self) -> Any:
        for number, frame in enumerate(self._frames):
            if number == self._fail_at:
                raise OSError(errno.EIO, "the temporary file is gone")
            yield frame


def test_groups_that_are_not_in_memory_are_written_piece_by_piece() -> None:
    """The same bytes as from memory; one whose frames cannot be read leaves nothing behind."""
    storages = MemoryStorage(), MemoryStorage()
    for storage, spills in zip(storages, (False, True), strict=True):
        committer = Committer(storage)
        group = committer.group("x", 100_000)
        frames = tuple(group.frames) * 30
        committer.commit("a")
        if spills:
            size = committer.log.size
            with pytest.raises(OSError, match="temporary file is gone"):
                committer.commits.commit(group._replace(frames=Spilled(frames, 25)))
            assert committer.log.size == size == len(storage.files["binlog.000001"])
        committer.commits.commit(group._replace(frames=Spilled(frames) if spills else frames))
        committer.commit("b")
        committer.commits.close()
    ours, theirs = (bytes(storage.files["binlog.000001"]) for storage in storages)
    with open_logs(storages[1].streams()) as reader:
        gtids = [event.gno for event in reader if isinstance(event, GtidEvent)]

    assert len(ours) == len(theirs) > 3_000_000
    assert gtids == [1, 2, 3]


@pytest.mark.parametrize("checksum", ["CRC32", "NONE"])
def test_compressible_groups_become_payloads(checksum: str) -> None:
    """Field for field as a server's; opened again they are the group; others stay as they are."""
    committer = Committer(binlog_transaction_compression=True, binlog_checksum=checksum)
    plain = committer.group("INSERT", 1000, is_compressible=True)
    committer.commits.commit_all([plain._replace(is_compressible=False), plain])
    quiet = Committer(binlog_checksum=checksum)
    quiet.commits.commit_all([plain, plain._replace(compression_level=19)])
    events = committer.events()
    payload = next(event for event in events if isinstance(event, TransactionPayloadEvent))
    gtid = events[events.index(payload) - 1]

    assert [type(event) for event in events[2:]] == [GtidEvent, QueryEvent, GtidEvent, TransactionPayloadEvent]
    assert [kind for kind, _ in payload.fields] == [2, 3, 1]
    assert payload.uncompressed_size == plain.size - (4 if checksum == "CRC32" else 0)
    assert gtid.transaction_length == gtid.header.event_size + payload.header.event_size
    assert committer.texts() == ["INSERT"]
    with open_logs(committer.storage.streams()) as reader:
        inner = [event for event in reader if isinstance(event, QueryEvent)]
    assert [event.sql for event in inner] == [b"INSERT" + b" " * 1000] * 2
    assert inner[1].header.log_pos == 0
    assert [type(event) for event in quiet.events()[2:]] == [GtidEvent, QueryEvent, GtidEvent, TransactionPayloadEvent]


def test_a_leader_that_is_interrupted_leaves_nobody_waiting() -> None:
    """All in the queue are told, and nobody writes behind what nobody knows."""
    committer = Committer(sync_binlog=1)
    committer.commit("a")

    class Interrupt(BaseException):
        pass

    def append(name: str, data: Any) -> None:
        raise Interrupt

    committer.storage.append = append  # type: ignore[method-assign]
    with pytest.raises(Interrupt):
        committer.commit("b")
    with pytest.raises(WriterStateError, match="could not be undone"):
        committer.commit("c")
    committer.commits.close()

    assert committer.texts() == ["a"]
