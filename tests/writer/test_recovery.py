"""Logs that were in use when their writer stopped: what a server does with each of them, and the index beside it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlogio.errors import BinlogError, BinlogFormatError, ChecksumMismatch
from binlogio.events.rows import WriteRowsEvent
from binlogio.options import ServerVariables
from binlogio.reader import open as open_logs
from binlogio.writer import BinlogWriter
from binlogio.writer.log.recovery import examine, recover
from logs import IN_USE_AT
from logs_in_use import NAME, LogInUse

GTID_ANONYMOUS: Final = ServerVariables(server_version="9.7.4", gtid_mode="OFF", sync_binlog=0)


class Log(LogInUse):
    """A log in use with three transactions and one group of a table without them, and the next start."""

    def __init__(self, value: str = "v", groups: int = 4) -> None:
        super().__init__(GTID_ANONYMOUS, value, groups, clock=lambda: 10**15)

    def reopen(self) -> BinlogWriter:
        """Return the next start."""
        return BinlogWriter("binlog", variables=GTID_ANONYMOUS, clock=lambda: 10**15, storage=self.storage)

    def rows(self) -> list[int]:
        """Return the ids in all logs."""
        with open_logs(self.storage.streams()) as reader:
            return [
                row.after.values[0]
                for event in reader
                if isinstance(event, WriteRowsEvent)
                for row in reader.rows(event)
                if row.after is not None
            ]


def bad_checksum(log: Log) -> None:
    log.append(log.events(0)[:2])
    log.data[-1] ^= 0xFF


# What follows the last whole group, and how many groups are there afterwards.
TRIMMED: Final[dict[str, tuple[Callable[[Log], object], int]]] = {
    "nothing": (lambda log: None, 4),
    "half an event header": (lambda log: log.data.extend(log.group(0)[:10]), 4),
    "half a GTID event": (lambda log: log.data.extend(log.group(0)[:40]), 4),
    "GTID event only": (lambda log: log.append(log.events(0)[:1]), 4),
    "GTID+BEGIN+TableMap+Rows without Xid": (lambda log: log.append(log.events(0)[:-1]), 4),
    "MyISAM group without COMMIT": (lambda log: log.append(log.events(3)[:-1]), 4),
    "whole MyISAM group": (lambda log: log.append(log.events(3)), 5),
    "bad checksum at end": (bad_checksum, 4),
    "zeros": (lambda log: log.data.extend(bytes(100)), 4),
    "last group cut after BEGIN": (lambda log: log.data.__delitem__(slice(log.starts[3] + 150, None)), 3),
    "last InnoDB Xid group cut before Xid": (lambda log: log.data.__delitem__(slice(log.starts[3] - 31, None)), 2),
    "half a group and a GTID event": (lambda log: log.append(log.events(0)[:-1] + log.events(1)[:1]), 4),
}


@pytest.mark.parametrize("damage", TRIMMED)
def test_what_was_being_written_is_cut_off(damage: str) -> None:
    """As a 9.7 server does: the file ends after its last whole group, is not in use, and another one is begun."""
    log = Log()
    change, groups = TRIMMED[damage]
    in_use = log.data[IN_USE_AT]
    change(log)
    end = log.starts[groups] if groups < 5 else len(log.data)
    with log.reopen() as writer:
        names = writer.names

    assert in_use == 1
    assert log.data[IN_USE_AT] == 0
    assert len(log.data) == end
    assert names == (NAME, "binlog.000002")
    assert log.rows() == [0, 1, 2, 3, 3][:groups]


def test_a_group_inside_an_unfinished_one_is_refused() -> None:
    """Recording "good group after half a group": MY-013909, and nothing is changed."""
    log = Log()
    end = len(log.data)
    log.append(log.events(3)[:2])
    log.append(log.events(3))
    before = bytes(log.data)
    begin_end = end + sum(map(len, [*log.events(3)[:2], *log.events(3)[:2]]))

    with pytest.raises(
        BinlogFormatError, match=f"between {end} and {begin_end}: BEGIN inside an unfinished group"
    ) as caught:
        log.reopen().open()
    assert caught.value.file == NAME
    assert caught.value.hint == "nothing was changed; `binlogio dump` shows what is in it"
    assert log.data == before
    assert sorted(log.storage.files) == [NAME, "binlog.auto.cnf", "binlog.index"]


def test_an_end_without_a_beginning_is_refused() -> None:
    """It is unknown what it ended."""
    log = Log()
    log.append(log.events(0)[-1:])

    with pytest.raises(BinlogFormatError, match="XidEvent outside a group"):
        log.reopen().open()


def test_an_index_that_names_a_missing_log_is_refused() -> None:
    """Recording "index names a missing file"."""
    log = Log()
    log.storage.files["binlog.index"].extend(b"./binlog.999999\n")
    before = bytes(log.data)

    with pytest.raises(
        BinlogFormatError, match=r"binlog\.index: the index names a log file that does not exist"
    ) as caught:
        log.reopen().open()
    assert caught.value.found == "./binlog.999999"
    assert log.data == before


@given(st.data())
def test_damage_in_the_middle_is_refused_with_its_place(data: st.DataObject) -> None:
    """Whole groups follow it, which a program must not remove."""
    log = Log()
    group = data.draw(st.integers(0, 2))
    at = data.draw(st.integers(log.starts[group], log.starts[group + 1] - 1))
    log.data[at] ^= 1 << data.draw(st.integers(0, 7))
    before = bytes(log.data)

    with pytest.raises(BinlogFormatError) as caught:
        log.reopen().open()
    assert log.starts[group] <= (caught.value.offset or 0) <= at
    assert log.data == before


@pytest.mark.parametrize("group", [0, 1, 2, None])
def test_a_hole_is_what_a_crash_leaves(group: int | None) -> None:
    """Sectors that were not written before others that were: from there on nothing was synced."""
    log = Log("x" * 500)
    at = 1024 if group is None else log.starts[group]
    end = (at // 512 + 1) * 512
    log.data[at:end] = bytes(end - at)
    whole = sum(1 for start in log.starts[1:] if start <= at)
    with log.reopen():
        pass

    assert len(log.data) == log.starts[whole]
    assert log.rows() == list(range(whole))


@given(st.integers(0, 2000), st.binary(max_size=300))
def test_any_tail_is_recovered_or_refused(cut: int, tail: bytes) -> None:
    """No bytes lose a whole group that stood before them, and nothing but our errors comes out."""
    log = Log()
    first = log.starts[0]
    cut = min(first + cut, len(log.data))
    whole = sum(1 for start in log.starts[1:] if start <= cut)
    del log.data[cut:]
    log.data.extend(tail)
    try:
        state = recover(log.storage, NAME)
    except BinlogError:
        return

    assert state.valid_size == len(log.data) >= log.starts[whole]
    assert examine(log.storage, NAME).valid_size == state.valid_size
    assert not examine(log.storage, NAME).in_use


@pytest.mark.parametrize("failing_append", range(3))
def test_a_start_that_the_disk_does_not_take_can_be_repeated(failing_append: int) -> None:
    """The register, the new log, the index: whichever cannot be written, nothing is left of it."""
    log = Log()
    writer = log.reopen()
    log.storage.fail_append = failing_append
    with pytest.raises(OSError, match="no space"):
        writer.open()
    with writer:
        names = writer.names

    assert names == (NAME, "binlog.000002")
    assert sorted(log.storage.files) == [NAME, "binlog.000002", "binlog.auto.cnf", "binlog.index"]
    assert log.rows() == [0, 1, 2, 3]


def test_a_closed_log_is_not_touched() -> None:
    """It was synced when it was closed: damage is damage, wherever it is."""
    log = Log()
    log.data[IN_USE_AT] = 0
    before = bytes(log.data)
    state = recover(log.storage, NAME)
    log.data[-1] ^= 1

    assert state.valid_size == state.size == len(before)
    with pytest.raises(ChecksumMismatch):
        recover(log.storage, NAME)


def test_large_logs_are_read_piece_by_piece() -> None:
    """Groups across the pieces count as any others."""
    log = Log("x" * 500, groups=4000)
    log.append(log.events(0)[:-1])
    state = recover(log.storage, NAME)

    assert state.size > 3 << 20
    assert state.valid_size == log.starts[-1] == len(log.data)


# ---------------------------------------------------------------------------------------------------------- the index


@pytest.mark.parametrize(
    ("register", "gone"),
    [
        (b"./binlog.000002\n", True),
        (b"./binlog.000001\n", False),
        (b"./binlog.00000", False),
        (b"./binlog.000002", False),
        (b"./other.000002\n", False),
        (b"", False),
    ],
)
def test_a_registered_file_that_the_index_does_not_name_is_removed(register: bytes, *, gone: bool) -> None:
    """A log that was being made, or purged; unfinished lines and the files of others do not count."""
    log = Log()
    for name in ("binlog.000002", "other.000002"):
        log.storage.create(name)
        log.storage.append(name, bytes(log.data[: log.starts[0]]))
    log.storage.create("binlog.~rec~")
    log.storage.append("binlog.~rec~", register)
    with log.reopen() as writer:
        names = writer.names

    assert names[-1] == ("binlog.000002" if gone else "binlog.000003")
    assert "other.000002" in log.storage.files
    assert "binlog.~rec~" not in log.storage.files


def test_an_index_that_was_being_replaced_is_found() -> None:
    """A server removes the old one before it renames the new one; what is left of a failed try goes."""
    log = Log()
    log.storage.rename("binlog.index", "binlog.index_crash_safe")
    with log.reopen() as writer:
        names = writer.names
    log.storage.create("binlog.index_crash_safe")
    with log.reopen():
        pass

    assert names == (NAME, "binlog.000002")
    assert "binlog.index_crash_safe" not in log.storage.files
