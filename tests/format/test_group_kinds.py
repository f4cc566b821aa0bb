"""Groups of all kinds on their way into the log: incidents, GTIDs, spilled and compressed ones."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from typing import Any

import pytest

from binlogio.errors import UnsupportedFeature, WriterStateError
from binlogio.events.base import EventHeader
from binlogio.events.control import IncidentEvent, RotateEvent
from binlogio.events.gtid import AnonymousGtidEvent, GtidEvent, GtidTaggedEvent
from binlogio.events.query import QueryEvent
from binlogio.events.transaction_payload import TransactionPayloadEvent
from binlogio.gtid import Gtid, GtidSet, Tag, Uuid
from binlogio.reader import open as open_logs
from binlogio.writer.log.group import ANONYMOUS, Automatic, Group, GroupEnd
from committers import UUID, Committer, in_threads
from memory_storage import MemoryStorage


def incident(committer: Committer) -> Group:
    """Return a group that is an incident."""
    event = IncidentEvent(incident=1, message="lost", header=EventHeader(timestamp=10**9, server_id=1))
    return Group(frames=(committer.encoder.encode(event),), timestamp=10**9, end=GroupEnd.INCIDENT)


def test_after_an_incident_the_log_is_rotated_at_once() -> None:
    """Also if other sessions commit at the same time."""
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
    with pytest.raises(WriterStateError, match="already used"):
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
    with pytest.raises(UnsupportedFeature, match="GTID tags"):
        committer.commit("a", assigned_gtid=Automatic(Tag("x")))
    committer.commit("b")

    assert len(committer.events()[0].post_header_sizes) == 40
    assert committer.texts() == ["b"]


# --------------------------------------------------------------------------------------------- spilled and compressed


class Spilled:
    """Frames outside memory, which fail after a given number."""

    def __init__(self, frames: Sequence[bytes], fail_at: int | None = None) -> None:
        self._frames = frames
        self._fail_at = fail_at

    @property
    def size(self) -> int:
        """The size in bytes."""
        return sum(map(len, self._frames))

    def __iter__(self) -> Any:
        for number, frame in enumerate(self._frames):
            if number == self._fail_at:
                raise OSError(errno.EIO, "the temporary file is gone")
            yield frame


def test_groups_that_are_not_in_memory_are_written_piece_by_piece() -> None:
    """The same bytes as from memory; one whose frames cannot be read leaves nothing in the log."""
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
    committer = Committer(binlog_checksum=checksum)
    plain = committer.group("INSERT", 1000)
    for group in (plain, plain._replace(compression_level=3)):
        committer.commits.commit(group)
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


def test_an_interrupted_leader_leaves_no_session_waiting() -> None:
    """All in the queue get an error, and nothing is written after a write of unknown outcome."""
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
