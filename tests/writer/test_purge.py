"""Old logs that go: by name, by time, and what stays when the disk fails in between."""

from __future__ import annotations

import errno
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, Final

import pytest

from binlogio.errors import WriterStateError
from binlogio.options import Position, ServerVariables
from binlogio.writer import BinlogWriter
from memory_storage import MemoryStorage

START: Final = datetime(2026, 1, 1, tzinfo=timezone.utc)
NAMES: Final = tuple(f"binlog.{number:06d}" for number in range(1, 5))
STAYS: Final = {"binlog.auto.cnf", "binlog.index"}


def writer(storage: MemoryStorage) -> BinlogWriter:
    """Return a writer with four logs, each a day younger than the one before."""
    log = BinlogWriter("binlog", variables=ServerVariables(server_version="9.7.4"), storage=storage).open()
    for number, name in enumerate(NAMES):
        day = START + timedelta(days=number)
        storage.times[name] = int(day.timestamp()) * 1_000_000
        if number:
            log.rotate()
    return log


@pytest.mark.parametrize(
    ("arguments", "count"),
    [
        ({}, 0),
        ({"to": NAMES[0]}, 0),
        ({"to": NAMES[2]}, 2),
        ({"to": NAMES[3]}, 3),
        ({"before": START}, 0),
        ({"before": START + timedelta(seconds=1)}, 1),
        ({"before": START + timedelta(days=100)}, 3),
        ({"before": (START + timedelta(days=1, hours=1)).astimezone(timezone(timedelta(hours=9)))}, 2),
        ({"to": NAMES[1], "before": START + timedelta(days=100)}, 1),
    ],
    ids=str,
)
def test_the_oldest_logs_go_but_never_the_active_one(arguments: dict[str, Any], count: int) -> None:
    """PURGE BINARY LOGS TO, BEFORE; file, index and register."""
    storage = MemoryStorage()
    log = writer(storage)
    gone = log.purge(**arguments)

    assert gone == NAMES[:count]
    assert log.names == NAMES[count:]
    assert storage.indexes == {"binlog.index": [f"./{name}" for name in NAMES[count:]]}
    assert set(storage.files) == {*NAMES[count:], *STAYS}


def test_a_time_counts_up_to_the_first_log_that_is_younger() -> None:
    """Even where a later one is older: what stays has no gap."""
    storage = MemoryStorage()
    log = writer(storage)
    storage.times[NAMES[1]] += 10 * 86400 * 1_000_000

    assert log.purge(before=START + timedelta(days=5)) == NAMES[:1]


def test_a_log_that_is_not_in_the_index_is_no_end() -> None:
    """Nothing goes."""
    storage = MemoryStorage()
    log = writer(storage)
    for name in ("binlog.000009", "binlog.index", ""):
        with pytest.raises(WriterStateError, match="not in the index"):
            log.purge(to=name)
    log.close()
    with pytest.raises(WriterStateError, match="not open"):
        log.purge(to=NAMES[1])

    assert set(storage.files) == {*NAMES, *STAYS}


def test_a_log_that_was_removed_is_taken_out_of_the_index() -> None:
    """The others go as well."""
    storage = MemoryStorage()
    log = writer(storage)
    storage.remove(NAMES[0])

    assert log.purge(to=NAMES[2]) == NAMES[:2]
    assert set(storage.files) == {*NAMES[2:], *STAYS}


class Stubborn(MemoryStorage):
    """A disk that refuses to remove a file, for a while."""

    kept = ""

    def remove(self, name: str) -> None:
        """Remove it, or not."""
        if name == self.kept:
            raise OSError(errno.EIO, "the disk is ill", name)
        super().remove(name)


def test_a_log_that_cannot_be_removed_goes_at_the_next_start() -> None:
    """It is no longer in the index, and the register remembers it."""
    storage = Stubborn()
    log = writer(storage)
    storage.kept = NAMES[1]
    with pytest.raises(OSError, match="disk is ill"):
        log.purge(to=NAMES[3])
    names, left = log.names, set(storage.files)
    log.close()
    storage.kept = ""
    writer(storage).close()

    assert names == (NAMES[3],)
    assert left == {*NAMES[1:], *STAYS, "binlog.~rec~"}
    assert not {NAMES[1], NAMES[2], "binlog.~rec~"} & set(storage.files)


def test_a_purge_that_failed_does_not_hinder_the_next_rotation() -> None:
    """What it left in the register is not forgotten."""
    storage = Stubborn()
    log = writer(storage)
    storage.kept = NAMES[1]
    with pytest.raises(OSError, match="disk is ill"):
        log.purge(to=NAMES[2])
    log.rotate()
    storage.kept = ""
    log.close()
    names = writer(storage).names

    assert NAMES[1] not in storage.files
    assert [f"./{name}" for name in names] == storage.indexes["binlog.index"]


def test_logs_on_disk_are_purged_by_their_times(tmp_path: Path) -> None:
    """The file's own error, with the place in the log."""
    with BinlogWriter(tmp_path / "binlog") as log:
        log.rotate()
        position = log.position
        gone = log.purge(before=datetime.now(tz=timezone.utc) + timedelta(days=1))

    assert gone == ("binlog.000001",)
    assert position == Position("binlog.000002", position.offset)
    assert position.offset > 100
    assert sorted(path.name for path in tmp_path.iterdir()) == ["binlog.000002", *sorted(STAYS)]
