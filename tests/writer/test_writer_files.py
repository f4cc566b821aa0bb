"""The files of a writer: rotation, index, reopening, syncs, disks that fail."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from binlogio.errors import BinlogFormatError, CommitOutcomeUnknown, UnsupportedFeature, WriterStateError
from binlogio.events import codec_for
from binlogio.events.control import RotateEvent, StopEvent
from binlogio.events.gtid import GtidEvent, PreviousGtidsEvent
from binlogio.reader import open as open_logs
from binlogio.writer import BinlogWriter
from corpus import frames_of
from logs import IN_USE_AT
from memory_storage import MemoryStorage
from written_logs import (
    TRX,
    UUID,
    changes,
    events_of,
    insert,
    logged,
    run,
    shape,
    writer,
)

# ---------------------------------------------------------------------------------- rotation, index, reopening


def test_logs_rotate_between_groups_when_they_are_full() -> None:
    """Each names the next; the clock begins again, the GTIDs continue; a group larger than a log stays whole."""
    storage = MemoryStorage()
    with writer(storage, max_binlog_size=4096) as log, log.session() as session:
        for number in range(30):
            session.execute(insert(number))
        session.execute(insert(*range(1000)))
        names = log.names
        in_use = [bool(storage.files[name][IN_USE_AT]) for name in names]
    files = {name: list(frames_of(bytes(storage.files[name]))) for name in names}
    events = {
        name: [codec_for(frame.header.type_code).parse(frame.header, frame.body, frame.context) for frame in frames]
        for name, frames in files.items()
    }
    firsts = [next(event for event in found if isinstance(event, GtidEvent)) for found in list(events.values())[:-1]]

    assert len(names) >= 4
    assert storage.indexes["binlog.index"] == [f"./{name}" for name in names]
    assert [found[-1].next_log for found in events.values() if isinstance(found[-1], RotateEvent)] == list(names[1:])
    assert [type(found[-1]) for found in events.values()] == [RotateEvent] * (len(names) - 1) + [StopEvent]
    assert in_use == [False] * (len(names) - 1) + [True]
    assert [(event.last_committed, event.sequence_number) for event in firsts] == [(0, 1)] * len(firsts)
    assert [found[1].gtid_set.count + 1 for found in events.values()] == [
        *(event.gno for event in firsts),
        31 + 1,
    ]
    assert [found[0].created != 0 for found in events.values()] == [True] + [False] * (len(names) - 1)
    assert all(len(storage.files[name]) >= 4096 for name in names[:-1])


def test_a_log_is_rotated_by_hand() -> None:
    """FLUSH BINARY LOGS."""
    storage = MemoryStorage()
    with writer(storage) as log, log.session() as session:
        session.execute(insert(1))
        log.rotate()
        session.execute(insert(2))

    assert log.names == ("binlog.000001", "binlog.000002")
    assert shape(events_of(storage)) == [*TRX, "Rotate", *TRX, "Stop"]


def test_a_new_writer_begins_after_the_existing_logs() -> None:
    """With the next number, and with the GTIDs that they hold."""
    storage = MemoryStorage()
    for _ in range(2):
        with writer(storage) as log, log.session() as session:
            session.execute(insert(1))
    events = events_of(storage)
    previous = [str(event.gtid_set) for event in events if isinstance(event, PreviousGtidsEvent)]
    gtids = [str(event.gtid) for event in events if isinstance(event, GtidEvent)]

    assert storage.indexes["binlog.index"] == ["./binlog.000001", "./binlog.000002"]
    assert previous == ["", f"{UUID}:1"]
    assert gtids == [f"{UUID}:1", f"{UUID}:2"]


def test_logs_of_other_names_are_not_mine() -> None:
    """Numbers count for files of the writer's own name, in the index or not."""
    storage = MemoryStorage()
    for name in ("other.000009", "binlog", "binlog.index", "binlog.000041.gz"):
        storage.create(name)
    with writer(storage):
        pass
    with writer(storage) as log:
        names = log.names

    assert names == ("binlog.000001", "binlog.000002")


def test_an_unfinished_group_of_a_crashed_log_has_no_gtid() -> None:
    """Its number is given again; the torn tail is no obstacle."""
    storage = MemoryStorage()
    log = writer(storage).open()
    session = log.session()
    session.execute(insert(1))
    session.execute(insert(2))
    del storage.files["binlog.000001"][-40:]  # no STOP, still in use, the last XID and a bit more gone
    storage.end_process()
    with writer(storage) as second:
        executed = str(second.gtid_executed)

    assert executed == f"{UUID}:1"


def test_a_damaged_log_is_not_continued() -> None:
    """Which GTIDs are used would be unknown."""
    storage = MemoryStorage()
    with writer(storage) as log, log.session() as session:
        session.execute(insert(1))
    storage.files["binlog.000001"][200] ^= 1

    with pytest.raises(BinlogFormatError, match=r"binlog\.000001"):
        writer(storage).open()


def test_a_server_uuid_is_made_where_none_is_given() -> None:
    """By the function that was injected."""
    made = uuid.UUID("00000000-0000-0000-0000-00000000002a")
    log = BinlogWriter("binlog", storage=MemoryStorage(), new_uuid=lambda: made)

    assert str(log.server_uuid) == str(made)


@pytest.mark.parametrize(
    "version", ["4.1.22", "5.1.5", "5.6.3", "6.0.3", "8.0.4", "10.0.0", "10.1.3-MariaDB", "12.0.2-MariaDB", "x"]
)
def test_versions_whose_logs_look_otherwise_are_refused(version: str) -> None:
    """Their format descriptions, GTIDs and flags are not these."""
    with pytest.raises(UnsupportedFeature, match="server_version"):
        writer(server_version=version)


# ------------------------------------------------------------------------------------------- syncs and errors


@pytest.mark.parametrize(("sync_binlog", "expected"), [(0, 0), (1, 6), (4, 1)])
def test_groups_are_synced_as_often_as_asked(sync_binlog: int, expected: int) -> None:
    """Never, after each, after every fourth; opening and closing sync on their own."""
    storage = MemoryStorage()
    with writer(storage, sync_binlog=sync_binlog) as log, log.session() as session:
        before = storage.sync_count
        for number in range(6):
            session.execute(insert(number))
        syncs = storage.sync_count - before

    assert syncs == expected


def test_a_group_that_the_disk_does_not_take_is_not_there() -> None:
    """The half that was written is gone, its GTID is free, the log continues."""
    storage = MemoryStorage()
    with writer(storage) as log, log.session() as session:
        session.execute(insert(1))
        storage.fail_append = 0
        session.begin()
        session.execute(insert(2))
        with pytest.raises(OSError, match="no space left"):
            session.commit()
        session.commit()
        session.execute(insert(3))
        executed = str(log.gtid_executed)

    assert [after for _, _, after in logged(storage)] == [(1, "row 1"), (3, "row 3")]
    assert executed == f"{UUID}:1-2"


def test_a_statement_whose_first_group_fails_leaves_nothing_for_the_second() -> None:
    """The transactional half of a statement goes with the other half."""
    storage = MemoryStorage()
    with writer(storage, gtid_mode="OFF") as log, log.session() as session:
        session.begin()
        session.execute(insert(1))
        storage.fail_append = 0
        with pytest.raises(OSError, match="no space left"):
            run(session, "M")
        session.commit()

    assert logged(storage) == [("t", None, (1, "row 1"))]


def test_a_log_that_cannot_be_mended_takes_nothing_more() -> None:
    """What was written before is still there, and a reader stops before the broken group."""
    storage = MemoryStorage(fail_truncate=True)
    log = writer(storage).open()
    session = log.session()
    session.execute(insert(1))
    storage.fail_append = 0
    with pytest.raises(
        CommitOutcomeUnknown, match=r"could not be undone \(the disk is gone\).*may or may not be in the log"
    ):
        session.execute(insert(2))
    with pytest.raises(WriterStateError, match="could not be undone"):
        session.execute(insert(3))
    log.close()
    with open_logs(storage.streams()) as reader:
        found = changes(reader)
        torn = reader.torn_tail

    assert found == [("t", None, (1, "row 1"))]
    assert torn is not None


# ------------------------------------------------------------------------------------------------ local files


def test_logs_on_disk_are_found_through_their_index(tmp_path: Path) -> None:
    """The directory is made; a second writer continues; the reader follows the index."""
    for number in range(2):
        with BinlogWriter(tmp_path / "data/binlog") as log, log.session() as session:
            session.execute(insert(number))
            log.rotate()
    with open_logs(tmp_path / "data/binlog.index") as reader:
        found = changes(reader)

    assert found == [("t", None, (0, "row 0")), ("t", None, (1, "row 1"))]
    assert sorted(path.name for path in (tmp_path / "data").iterdir()) == [
        "binlog.000001",
        "binlog.000002",
        "binlog.000003",
        "binlog.000004",
        "binlog.auto.cnf",
        "binlog.index",
    ]


def test_a_log_that_exists_is_never_overwritten(tmp_path: Path) -> None:
    """Not even where the index does not know it."""
    (tmp_path / "binlog.000007").write_bytes(b"not a log")

    with pytest.raises(BinlogFormatError):
        BinlogWriter(tmp_path / "binlog").open()
    assert (tmp_path / "binlog.000007").read_bytes() == b"not a log"
