"""Real files, cut at every byte and with every single bit flipped: BinlogError or a clean stop, and nothing else.

Where checksums are on, every flip is found, at the event where it is, with the last whole group named exactly; but for
one bit: BINLOG_IN_USE in the format description, which the server flips itself without touching the checksum. Where the
groups end is taken from the server's own list of events, not from our code.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

import binlogio.reader
from binlogio.errors import BinlogError, TruncatedEvent, UnsupportedFeature
from binlogio.events import ROWS_EVENTS
from corpus import MARIADB, MYSQL, Case, cases
from logs import IN_USE_AT

if TYPE_CHECKING:
    from pathlib import Path

IN_USE_BIT = 0
GROUP_STARTS = {"Gtid", "Anonymous_Gtid", "Gtid_tagged_log_event", "Rotate", "Stop"}

CHECKED = [MYSQL / "gtid_off" / "binlog.000001", MARIADB / "gtid" / "binlog.000002"]
UNCHECKED = [MYSQL / "checksum_none" / "binlog.000002"]


@dataclass(frozen=True, slots=True)
class Listed:
    """The boundaries of a file: begin and end of events, and where a group could begin."""

    starts: tuple[int, ...]
    ends: tuple[int, ...]
    boundaries: tuple[int, ...]

    def last_good(self, offset: int) -> int:
        """Return the last boundary at or before `offset`; 0 where the format description is not even whole."""
        return max((end for end in self.boundaries if end <= offset), default=0)


@cache
def _listed(path: Path) -> Listed:
    case: Case = next(one for one in cases() if one.folder == path.parent)
    rows = [row for row in case.load("events.json")[path.name] if row["pos"] < path.stat().st_size]
    ends = tuple(row["end_pos"] for row in rows)
    boundaries = [rows[0]["end_pos"], ends[-1]]
    for row, before in zip(rows[1:], rows, strict=False):
        outside = row["type"] in GROUP_STARTS or before["type"] in {"Previous_gtids", "Gtid_list", "Binlog_checkpoint"}
        boundaries += [row["pos"]] if outside else []
    return Listed(tuple(row["pos"] for row in rows), ends, tuple(boundaries))


def _in_use(data: bytes) -> bytes:
    return data[:IN_USE_AT] + bytes([data[IN_USE_AT] | 1 << IN_USE_BIT]) + data[IN_USE_AT + 1 :]


def _read(
    data: bytes, *, rows: bool = False, **options: Any
) -> tuple[int, binlogio.reader.BinlogReader, BinlogError | None]:
    """Read all events; return their number and the error. Any error but BinlogError fails the test."""
    reader = binlogio.reader.open(io.BytesIO(data), **options)
    count = 0
    try:
        for event in reader:
            count += 1
            if rows and isinstance(event, ROWS_EVENTS):
                list(reader.rows(event))
    except BinlogError as exc:
        return count, reader, exc
    return count, reader, None


@pytest.mark.parametrize("path", CHECKED, ids=lambda path: path.parent.name)
def test_whole_file_is_read_to_its_end(path: Path) -> None:
    data, listed = path.read_bytes(), _listed(path)
    count, reader, error = _read(data)

    assert error is None
    assert count == len(listed.starts)
    assert reader.last_good_offset == len(data) == listed.ends[-1]


@pytest.mark.parametrize("path", CHECKED, ids=lambda path: path.parent.name)
def test_file_in_use_cut_at_every_byte_stops_cleanly_at_its_last_whole_group(path: Path) -> None:
    data, listed = _in_use(path.read_bytes()), _listed(path)
    for size in range(len(data)):
        count, reader, error = _read(data[:size])
        if size < listed.ends[0]:
            assert isinstance(error, TruncatedEvent), size
            continue

        assert error is None, size
        assert count == sum(end <= size for end in listed.ends)
        assert reader.last_good_offset == listed.last_good(size)
        whole = size in listed.ends
        assert (reader.torn_tail is None) is whole
        if reader.torn_tail is not None:
            assert reader.torn_tail.offset == max(end for end in listed.ends if end <= size)
            assert reader.torn_tail.offset + reader.torn_tail.size == size


@pytest.mark.parametrize("path", CHECKED, ids=lambda path: path.parent.name)
def test_closed_file_cut_at_every_byte_is_truncated_unless_a_group_ends_there(path: Path) -> None:
    data, listed = path.read_bytes(), _listed(path)
    for size in range(5, len(data)):
        count, reader, error = _read(data[:size])

        assert (error is None) is (size in listed.boundaries), size
        assert error is None or isinstance(error, TruncatedEvent)
        assert count == sum(end <= size for end in listed.ends)
        assert reader.last_good_offset == listed.last_good(size)


@pytest.mark.slow
@pytest.mark.parametrize("bit", range(8))
@pytest.mark.parametrize("in_use", [False, True], ids=["closed", "in use"])
@pytest.mark.parametrize("path", CHECKED, ids=lambda path: path.parent.name)
def test_every_flipped_bit_is_found_where_it_is(path: Path, in_use: bool, bit: int) -> None:
    """Each bit of headers, where a wrong size could pass for a torn tail; if closed, also two bits of each byte."""
    data, listed = path.read_bytes(), _listed(path)
    headers = {at for start in (0, *listed.starts) for at in range(start, start + 19)}
    data = _in_use(data) if in_use else data
    for at in headers if in_use else headers.union(range(bit % 4, len(data), 4)):
        spoilt = bytearray(data)
        spoilt[at] ^= 1 << bit
        count, reader, error = _read(bytes(spoilt))
        if (at, bit) == (IN_USE_AT, IN_USE_BIT):
            assert error is None
            assert reader.in_use is not in_use
            assert count == len(listed.starts)
            continue

        assert error is not None, f"bit {bit} of byte {at} was not found"
        start = max((one for one in listed.starts if one <= at), default=0)
        assert error.offset == start, (at, bit, error)
        assert reader.last_good_offset == listed.last_good(start)
        assert count == sum(one < start for one in listed.starts)


@pytest.mark.slow
@pytest.mark.parametrize("bit", range(8))
@pytest.mark.parametrize("path", UNCHECKED, ids=lambda path: path.parent.name)
def test_flipped_bit_without_checksums_is_an_error_or_other_events(path: Path, bit: int) -> None:
    """Whole reads, row images included: whatever the bytes say, only BinlogError comes out."""
    data = path.read_bytes()
    for at in range(bit % 2, len(data), 2):
        spoilt = bytearray(data)
        spoilt[at] ^= 1 << bit
        _, reader, _ = _read(bytes(spoilt), rows=True)

        assert reader.last_good_offset <= len(data)


@pytest.mark.parametrize("path", [MYSQL / "compressed" / "binlog.000001", MYSQL / "partial_json" / "binlog.000001"])
def test_flipped_bits_all_over_with_checksums_left_alone_are_errors_or_other_events(path: Path) -> None:
    """Every 97th byte of larger files: payloads that do not open, invalid JSON."""
    data = path.read_bytes()[: 16 << 10]
    for at in range(4, len(data), 97):
        spoilt = bytearray(data)
        spoilt[at] ^= 1 << at % 8
        _read(bytes(spoilt), rows=True, verify_checksum=False)


def test_file_that_is_flipped_into_another_kind_says_so() -> None:
    """0xfe and 0xfd are one flip apart in two bits; the header of 9.7's encryption is not taken for a log."""
    data = bytearray((MYSQL / "gtid_off" / "binlog.000001").read_bytes())
    data[0] = 0xFD
    _, _, error = _read(bytes(data))

    assert isinstance(error, UnsupportedFeature)
