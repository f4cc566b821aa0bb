"""The caches of a session: when they leave memory, when they are full, and what is left of them then."""

from __future__ import annotations

import errno
from dataclasses import dataclass, field
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlogio.errors import CacheLimitExceeded
from binlogio.storage.spill_file import TemporaryFile
from binlogio.writer.rows.writeset import WriteSetBuilder
from binlogio.writer.session.cache import BinlogCache, CacheBuffer, CacheStatus, buffer_size

PAGE: Final = 4096
UNLIMITED: Final = 1 << 62


@dataclass
class Disk:
    """A `SpillFile` in memory that takes so many bytes."""

    room: int = 1 << 30
    data: bytearray = field(default_factory=bytearray)
    is_closed: bool = False

    def write(self, offset: int, data: bytes | memoryview) -> None:
        """Put bytes there, or raise ENOSPC."""
        if offset + len(data) > self.room:
            raise OSError(errno.ENOSPC, "no space left")
        self.data[offset : offset + len(data)] = data

    def read(self, offset: int, size: int) -> bytes:
        """Return the bytes there."""
        return bytes(self.data[offset : offset + size])

    def close(self) -> None:
        """Throw it away."""
        self.is_closed = True


def cache(limit: int = UNLIMITED, disk: Disk | None = None, status: CacheStatus | None = None) -> BinlogCache:
    """Return a transaction cache with the smallest buffer, whose events have no checksums."""
    return BinlogCache(
        is_transactional=True,
        cache_size=PAGE,
        max_cache_size=limit,
        checksum_size=0,
        status=CacheStatus() if status is None else status,
        open_spill=lambda: Disk() if disk is None else disk,
        writeset=WriteSetBuilder(1000),
    )


def frame(size: int, number: int = 0) -> bytes:
    """Return an event of a type that is written in two pieces, header and rest."""
    return bytes((number % 256,)) * 4 + b"\x04" + b"\0" * (size - 5)


# ------------------------------------------------------------------------------------------------------ the arithmetic


@pytest.mark.parametrize(("variable", "size"), [(4096, 8192), (8192, 8192), (12288, 16384), (32768, 32768)])
def test_buffers_are_whole_units(variable: int, size: int) -> None:
    """As measured: 4096 gives 8192, 12288 gives 16384."""
    assert buffer_size(variable) == size


def test_what_fits_stays_in_memory() -> None:
    """The buffer may be filled to its last byte."""
    buffer = CacheBuffer(PAGE, UNLIMITED)

    assert buffer.fits([8000, 192])
    assert (buffer.in_file, buffer.in_buffer) == (0, 8192)


def test_a_write_that_does_not_fit_fills_the_buffer_and_continues_in_pages() -> None:
    """The buffer and the whole pages of the rest are in the file, what is left begins the next buffer."""
    buffer = CacheBuffer(PAGE, UNLIMITED)

    assert buffer.fits([192, 8000 + PAGE + 5])
    assert (buffer.in_file, buffer.in_buffer) == (8192 + PAGE, 5)


def test_a_full_buffer_that_may_not_leave_memory_is_refused_as_a_whole() -> None:
    """None of the writes of an event is made if one of them cannot be."""
    buffer = CacheBuffer(PAGE, 8191)

    assert buffer.fits([8000])
    assert not buffer.fits([19, 200])
    assert (buffer.in_file, buffer.in_buffer) == (0, 8000)


def test_one_large_write_may_end_after_the_limit() -> None:
    """The limit is looked at when a buffer is full, not when a write is large: 20,000 bytes pass a limit of 8192."""
    buffer = CacheBuffer(PAGE, 8192)

    assert buffer.fits([20_000])
    assert not buffer.fits([8192])


def test_truncating_into_the_file_shortens_the_next_buffer_to_a_page_boundary() -> None:
    """After byte 5000 of the file the buffer has room up to a multiple of a page."""
    buffer = CacheBuffer(PAGE, UNLIMITED)
    buffer.fits([20_000])

    buffer.truncate(5000)

    assert (buffer.in_file, buffer.in_buffer, buffer.room) == (5000, 0, 8192 - 5000 % PAGE)


@given(st.lists(st.integers(1, 20_000), max_size=30), st.integers(0, 200_000))
def test_sizes_add_up(writes: list[int], cut: int) -> None:
    """Whatever is written or forgotten, the size is what is left, and the buffer is never overfull."""
    buffer = CacheBuffer(PAGE, UNLIMITED)
    total = 0
    for write in writes:
        assert buffer.fits([write])
        total += write
        if total > cut:
            total = min(cut, total)
            buffer.truncate(total)

        assert buffer.size == total
        assert buffer.room >= 0


# ---------------------------------------------------------------------------------------------------------- the cache


def test_frames_come_back_in_their_order_from_memory_and_file() -> None:
    """What has spilled is before what has not."""
    frames = [frame(1000, number) for number in range(30)]
    subject = cache()
    for one in frames:
        subject.extend([one])

    assert list(subject.frames()) == frames
    assert list(subject.frames()) == frames  # and again
    assert subject.size == 30_000


@pytest.mark.parametrize("keep", [0, 1, 8, 9, 20, 30])
def test_a_cache_is_truncated_wherever_its_events_are(keep: int) -> None:
    """In memory, in the file, or between: what was cached before stays, and what comes later follows it."""
    frames = [frame(1000, number) for number in range(30)]
    subject = cache()
    positions = [subject.position]
    for one in frames:
        subject.extend([one])
        positions.append(subject.position)

    subject.truncate(positions[keep])
    subject.extend([frame(50, 99)])

    assert list(subject.frames()) == [*frames[:keep], frame(50, 99)]
    assert subject.position.cached_size == 1000 * keep + 50


def test_an_event_that_does_not_fit_is_refused_with_the_servers_error() -> None:
    """1197, with the events before it in the cache; and the smaller one after it fits again."""
    subject = cache(limit=PAGE)
    subject.extend([frame(8000)])

    with pytest.raises(CacheLimitExceeded, match="max_binlog_cache_size") as caught:
        subject.extend([frame(100), frame(150), frame(10)])

    assert (caught.value.errno, caught.value.symbol) == (1197, "ER_TRANS_CACHE_FULL")
    assert not caught.value.at_statement_end
    assert list(subject.frames()) == [frame(8000), frame(100)]
    subject.extend([frame(92)])


def test_the_last_event_is_never_refused() -> None:
    """A transaction that was cached can be committed."""
    subject = cache(limit=PAGE)
    subject.extend([frame(8190)])

    subject.close(frame(31))

    assert list(subject.frames()) == [frame(8190), frame(31)]


def test_uses_are_counted_when_a_cache_is_emptied() -> None:
    """Once each time that it held something, and once more where it had left memory."""
    status = CacheStatus()
    subject = cache(status=status)
    subject.reset()
    subject.extend([frame(100)])
    subject.reset()
    subject.extend([frame(9000)])
    subject.reset()

    assert status.as_dict() == {
        "Binlog_cache_use": 2,
        "Binlog_cache_disk_use": 1,
        "Binlog_stmt_cache_use": 0,
        "Binlog_stmt_cache_disk_use": 0,
    }


def test_the_file_goes_away_with_the_events() -> None:
    """And the cache begins again in memory."""
    disk = Disk()
    subject = cache(disk=disk)
    subject.extend([frame(9000)])

    subject.reset()

    assert disk.is_closed
    assert subject.is_empty
    assert subject.frames() == ()


def test_a_full_folder_for_temporary_files_is_an_error_and_leaves_a_cache_that_can_be_truncated() -> None:
    """The events of the statement that did not fit are forgotten, those before it stay."""
    subject = cache(disk=Disk(room=10_000))
    subject.extend([frame(9000, 1)])
    start = subject.position

    with pytest.raises(OSError, match="no space left"):
        subject.extend([frame(9000, 2)])
    subject.truncate(start)

    assert list(subject.frames()) == [frame(9000, 1)]
    subject.extend([frame(100, 3)])
    assert list(subject.frames()) == [frame(9000, 1), frame(100, 3)]


def test_temporary_files_hold_what_was_written() -> None:
    """A real one, in the folder for temporary files, without a name there."""
    file = TemporaryFile()
    try:
        file.write(0, b"abc")
        file.write(3, b"def")

        assert file.read(1, 4) == b"bcde"
        with pytest.raises(OSError, match="shorter"):
            file.read(4, 10)
    finally:
        file.close()
