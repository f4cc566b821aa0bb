"""Finds XID and outcome of a transaction before its rows are returned: its last event follows the rows in the log.

Reads the log ahead of the walk, through a second file handle, from the last scanned event to the end of its
transaction. The kernel scans only event headers. A log that is not seekable (compressed or encrypted files) is read
twice from the start to the end, sequentially.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from binlogio.columnar.walk.log_cursor import reader_of
from binlogio.errors import BinlogError, UnsupportedFeature
from binlogio.storage.windows import WINDOW_SIZE, Window

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from binlogio._kernel.event_scanner import EventScanner
    from binlogio.columnar.walk.log_cursor import LogCursor
    from binlogio.format.splits import Split
    from binlogio.storage.log_file import OpenedLog

_PIECE_SIZE: Final = 1 << 17  # bytes; the kernel needs at most about 64 KiB of an event to skip it


class TransactionEnds:
    """Finds the ends of transactions, for the XIDs and outcomes of the rows before them.

    Args:
        cursor: the place of the walk in the log.
        router: has the current transaction, and receives its XID and outcome.
        columns: the source columns that need the ends, for messages.
        open_again: opens the log a second time; None: the log is a stream, which cannot be opened again.
    """

    def __init__(
        self,
        cursor: LogCursor,
        router: EventScanner,
        columns: Sequence[str],
        open_again: Callable[[], OpenedLog] | None = None,
    ) -> None:
        self._cursor = cursor
        self._router = router
        self._columns = ", ".join(columns)
        self._open_again = open_again
        self.known: tuple[Split, ...] = ()  # the events of the current group that may end it, if it is read in parts
        self._bytes: _BytesAhead | None = None

    def find_end(self, offset: int) -> None:
        """Search the log from `offset` on, where an event begins, for the end of the transaction.

        Raises:
            UnsupportedFeature: the log cannot be read twice.
        """
        source, router = self._source(), self._router
        router.begin_ahead()
        for place in self.known:
            if place.start >= offset and router.look_ahead(source.read(place.start, place.end - place.start)) < 0:
                return
        while (passed := router.look_ahead(source.read(offset, _PIECE_SIZE))) >= 0:
            if not passed:
                router.end_ahead()  # end of the log
                return
            offset += passed

    def find_inner_end(self, chunks: Iterator[bytes]) -> None:
        """Search the events of a payload for the end; in a damaged payload, up to the damage."""
        router, window, left = self._router, Window(reader_of(chunks)), 0
        router.begin_ahead()
        try:
            while window.fill():
                if left:
                    skipped = min(left, window.held)
                    window.take(skipped)
                    left -= skipped
                    continue
                passed = router.look_ahead(window.view, inner=True)
                if passed < 0:
                    return
                if not passed and not window.fill(max(window.held + 1, _PIECE_SIZE)):
                    break
                left = passed
        except BinlogError:
            return
        finally:
            window.close()

    def bytes_between(self, start: int, end: int) -> BytesBetween:
        """Return the bytes of the log between two offsets.

        Raises:
            UnsupportedFeature: the log cannot be read twice.
        """
        return BytesBetween(self._source(), start, end)

    def close(self) -> None:
        """Close the file."""
        if self._bytes is not None:
            self._bytes.opened.close()
            self._bytes = None

    def _source(self) -> _BytesAhead:
        if self._cursor.is_decrypted or self._open_again is None:
            raise UnsupportedFeature(
                "the end of a transaction comes after its rows, and "
                + ("MariaDB's encrypted events" if self._cursor.is_decrypted else "a stream")
                + " cannot be read ahead",
                offset=self._cursor.window.offset,
                field="source_columns",
                found=self._columns,
                hint=f"read a file, or leave out {self._columns}",
            )
        if self._bytes is None:
            self._bytes = _BytesAhead(self._open_again())
        return self._bytes


class _BytesAhead:
    """Reads bytes of a log at increasing offsets; if the log is seekable, at any offset."""

    def __init__(self, opened: OpenedLog) -> None:
        self.opened = opened
        self._base = 0
        self._buffer = b""

    def read(self, offset: int, size: int) -> bytes:
        """Return `size` bytes from `offset` on; fewer at the end of the log."""
        if self.opened.seekable and not self._base <= offset <= self._base + len(self._buffer):
            self.opened.seek(offset)
            self._base, self._buffer = offset, b""
        while self._base + len(self._buffer) < offset + size:
            kept = self._buffer[max(0, offset - self._base) :]
            self._base += len(self._buffer) - len(kept)
            more = self.opened.read(max(size, WINDOW_SIZE))
            self._buffer = kept + more
            if not more:
                break
        start = offset - self._base
        return self._buffer[start : start + size]


class BytesBetween:
    """A stream of the bytes of a log between two offsets."""

    def __init__(self, source: _BytesAhead, start: int, end: int) -> None:
        self._source = source
        self._offset = start
        self._end = end

    def read(self, size: int = -1, /) -> bytes:
        """Return up to `size` bytes; empty at the end."""
        left = min(self._end - self._offset, _PIECE_SIZE)
        data = self._source.read(self._offset, left if size < 0 else min(size, left))
        self._offset += len(data)
        return data
