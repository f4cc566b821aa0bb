"""Long logs: what is skipped in bulk, against what is looked at event by event."""

from __future__ import annotations

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlogio.constants import EventType
from binlogio.errors import BinlogError
from binlogio.events.base import EventHeader, UnknownEvent
from binlogio.events.control import RowsQueryEvent
from binlogio.format.encoder import Encoder
from binlogio.gtid import NO_TAG, Gtid, GtidSet, Tag, Uuid
from binlogio.implementation import CONSTRUCT, VARIABLE
from binlogio.writer.log.group import ANONYMOUS, AUTOMATIC, Automatic, Group, NextGtid
from binlogio.writer.log.log_builder import describe_format
from binlogio.writer.log.recovery import GtidRuns, LogState, examine, skip_plain_groups
from committers import UUID, Committer
from corpus import FIXTURES, frames_of
from logs import IN_USE_AT
from memory_storage import MemoryStorage

OTHER: Final = Uuid.parse("00000000-0000-0000-0000-00000000002a")
NAME: Final = "binlog.000001"


def transaction(committer: Committer, kind: int) -> Group:
    """Return a group with BEGIN and an end.

    One of kind 5 has a long event that says nothing, one of kind 6 a statement.
    """
    frames = [frame for text in ("BEGIN", "COMMIT") for frame in committer.group(text).frames]
    if kind == 5:
        event = RowsQueryEvent(sql=b"x" * 3000, header=EventHeader(timestamp=10**9, server_id=1))
        frames.insert(1, Encoder(describe_format(committer.variables).context).encode(event))
    if kind == 6:
        frames[1:1] = committer.group("UPDATE t SET a = 1").frames
    return Group(frames=tuple(frames), timestamp=10**9)


def log(kinds: list[int], checksum: str = "CRC32") -> MemoryStorage:
    """Return a log in use, with groups of several kinds."""
    committer = Committer(binlog_checksum=checksum)
    for number, kind in enumerate(kinds):
        chosen: dict[int, NextGtid] = {1: Automatic(Tag("x")), 2: ANONYMOUS, 3: Gtid(OTHER, NO_TAG, number + 1)}
        group = committer.group("CREATE TABLE t (a INT)") if kind == 4 else transaction(committer, kind)
        committer.commits.commit(group._replace(assigned_gtid=chosen.get(kind, AUTOMATIC)))
    return committer.storage


def both(storage: MemoryStorage, monkeypatch: pytest.MonkeyPatch) -> list[LogState | tuple[str, int | None]]:
    """Return what the two ways give."""
    found: list[LogState | tuple[str, int | None]] = []
    for is_slow in (False, True):
        with monkeypatch.context() as patch:
            if is_slow:
                patch.setenv(VARIABLE, CONSTRUCT)
            try:
                found.append(examine(storage, NAME))
            except BinlogError as exc:
                found.append((exc.reason, exc.offset))
    return found


@given(
    st.lists(st.integers(0, 6), max_size=12),
    st.sampled_from(["CRC32", "NONE"]),
    st.integers(0, 400),
    st.none() | st.tuples(st.integers(0, 2000), st.integers(0, 7)),
)
def test_both_ways_find_the_same(kinds: list[int], checksum: str, cut: int, flip: tuple[int, int] | None) -> None:
    """Groups of all kinds, tails, damage: size, GTIDs, or the error and its place."""
    storage = log(kinds, checksum)
    data = storage.files[NAME]
    if cut < len(data) - 250:
        del data[len(data) - cut :]
    if flip is not None and 250 + flip[0] < len(data):
        data[250 + flip[0]] ^= 1 << flip[1]
    with pytest.MonkeyPatch.context() as monkeypatch:
        quick, slow = both(storage, monkeypatch)

    assert quick == slow


BEGIN: Final = (EventType.QUERY_EVENT, bytes(4 + 4 + 1 + 2 + 2 + 1) + b"BEGIN")
XID: Final = (EventType.XID_EVENT, bytes(8))


def gtid_event(*parts: bytes) -> tuple[EventType, bytes]:
    return EventType.GTID_LOG_EVENT, b"".join((b"\0", *parts))


@pytest.mark.parametrize("checksum", ["CRC32", "NONE"])
@pytest.mark.parametrize(
    "events",
    [
        (gtid_event(UUID.data, (2).to_bytes(8, "little")), BEGIN, (EventType.QUERY_EVENT, b"")),
        (gtid_event(UUID.data, (2).to_bytes(8, "little")), BEGIN, (EventType.QUERY_EVENT, bytes(8))),
        (gtid_event(UUID.data[:3]), BEGIN, XID),
        (gtid_event(UUID.data, b"\2"), BEGIN, XID),
        (gtid_event(UUID.data, bytes(8)), BEGIN, XID),
        (gtid_event(UUID.data, b"\xff" * 8), BEGIN, XID),
    ],
    ids=["no query", "half a query", "short UUID", "short number", "number 0", "number -1"],
)
def test_both_ways_find_the_same_where_a_body_is_no_event(
    events: tuple[tuple[EventType, bytes], ...], checksum: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The groups are whole by their headers and checksums alone."""
    storage = log([0], checksum)
    data = storage.files[NAME]
    encoder = Encoder(describe_format(Committer(binlog_checksum=checksum).variables).context)
    for type_code, body in events:
        event = UnknownEvent(body, EventHeader(timestamp=10**9, server_id=1, type_code=type_code))
        data += encoder.encode_at(event, len(data))
    quick, slow = both(storage, monkeypatch)

    assert quick == slow


@pytest.mark.parametrize("name", ["format_row", "gtid_on", "gtid_off", "group_commit", "compressed", "rotated"])
def test_both_ways_find_the_same_in_the_logs_of_a_real_server(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Closed ones, and the same in use."""
    data = bytearray((FIXTURES / f"mysql97/{name}/binlog.000001").read_bytes())
    for in_use in (0, 1):
        data[IN_USE_AT] = in_use
        quick, slow = both(MemoryStorage({NAME: data}), monkeypatch)

        assert quick == slow
        assert isinstance(quick, LogState)


def test_groups_larger_than_a_window_are_skipped_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    """The window grows, and is small again."""
    monkeypatch.setattr("binlogio.writer.log.recovery.WINDOW_SIZE", 1 << 10)
    storage = log([0, 5, 0, 5, 5] * 20)
    start = next(frame.end for number, frame in enumerate(frames_of(bytes(storage.files[NAME]))) if number == 1)
    gtids, sizes = GtidRuns(), list[int]()

    def read(offset: int, size: int) -> bytes:
        sizes.append(size)
        return storage.read(NAME, offset, size)

    end = skip_plain_groups(read, start, gtids, has_checksum=True)
    skipped = skip_plain_groups(lambda at, _: storage.read(NAME, at, 150), start, GtidRuns(), has_checksum=True)

    assert end == len(storage.files[NAME])
    assert len(sizes) > 10
    assert set(sizes) == {1 << 10, 1 << 12}
    assert skipped == start
    assert gtids.as_set() == GtidSet.parse(f"{UUID}:1-100")


@given(st.lists(st.tuples(st.sampled_from([UUID, OTHER]), st.sampled_from(["", "x"]), st.integers(1, 9)), max_size=30))
def test_runs_of_gtids_are_their_set(numbers: list[tuple[Uuid, str, int]]) -> None:
    """In any order, and more than once."""
    gtids = [Gtid(uuid, Tag(tag), gno) for uuid, tag, gno in numbers]
    runs = GtidRuns()
    for gtid in gtids:
        runs.add(gtid, 1)

    assert runs.as_set() == GtidSet.from_gtids(gtids) == runs.as_set()
