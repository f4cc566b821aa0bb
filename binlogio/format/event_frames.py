"""Builds rows events without the kernel: `EventFrames` and `RowsFrames` replace its `EventBuffer` and `RowsEncoder`.

Starts a new rows event when one is full. The caller encodes every row with `binlogio.rows`; with the kernel, it does
this only for rows that the kernel refuses.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from binlogio.constants import EVENT_SIZE_BYTES, HEADER_SIZE, ChecksumAlgorithm, EventType, RowsFlag
from binlogio.errors import BinlogFormatError
from binlogio.events import EVENT_CODECS
from binlogio.events.base import EventHeader, ParseContext
from binlogio.format.encoder import Encoder, stamp
from binlogio.primitives import lenenc

if TYPE_CHECKING:
    from collections.abc import Sequence

_POST_HEADER_SIZE: Final = 6 + 2  # table_id, flags
_EXTRA_LEN_SIZE: Final = 2  # missing in v1 events
_V1: Final = range(EventType.WRITE_ROWS_EVENT_V1, EventType.DELETE_ROWS_EVENT_V1 + 1)


class EventFrames:
    """A buffer of events for `offset` (bytes) of a file; `frames` are the events without log_pos and checksum.

    `bytes()` returns the events with both.
    """

    def __init__(self, offset: int = 4, *, checksum: bool = True) -> None:
        algorithm = ChecksumAlgorithm.CRC32 if checksum else ChecksumAlgorithm.OFF
        self.encoder: Final = Encoder(ParseContext(checksum_algorithm=algorithm))
        self.offset: Final = offset
        self.frames: Final[list[bytes]] = []

    def __len__(self) -> int:
        return sum(map(len, self.frames))

    def __bytes__(self) -> bytes:
        data = bytearray()
        for frame in self.frames:
            data += stamp(frame, self.offset + len(data), has_checksum=self.encoder.context.has_checksum)
        return bytes(data)

    @property
    def end(self) -> int:
        """The offset of the end of the events, in bytes from the start of the file."""
        return self.offset + len(self)

    def add_frame(self, frame: bytes) -> None:
        """Append an event; its log_pos and checksum are set later.

        Raises:
            BinlogFormatError: its length differs from the size in its header.
        """
        if len(frame) < HEADER_SIZE or int.from_bytes(frame[EVENT_SIZE_BYTES], "little") != len(frame):
            raise BinlogFormatError("a frame is not as long as its header says", field="event_size", found=len(frame))
        self.frames.append(bytes(frame))


class RowsFrames:
    """Writes rows of one statement, one table and one operation as rows events to the end of `buffer`.

    The arguments are the same as in the kernel's RowsEncoder; `before`, `after`, `spare_null_bits`, `json_count` and
    `json_cells` are ignored here. `max_size` is the size limit of an event's body in bytes, as
    binlog_row_event_max_size; a larger row has an event of its own.
    """

    def __init__(
        self,
        buffer: EventFrames,
        *,
        type_code: int,
        timestamp: int,
        server_id: int,
        table_id: int,
        flags: int,
        column_count: int,
        present: bytes,
        present_after: bytes | None,
        before: Sequence[object] | None,
        after: Sequence[object] | None,
        max_size: int,
        spare_null_bits: int = 0,
        json_count: int = 0,
        json_cells: Sequence[tuple[int, int]] | None = None,
    ) -> None:
        bitmaps = {"present": present} | ({} if present_after is None else {"present_after": present_after})
        common: dict[str, Any] = {"table_id": table_id, "flags": flags, "extra": b"", "column_count": column_count}
        header = EventHeader(type_code=type_code, timestamp=timestamp, server_id=server_id)
        self._buffer = buffer
        self._event: Any = EVENT_CODECS[type_code].event_class(**common, **bitmaps, images=b"", header=header)
        post_header = _POST_HEADER_SIZE + (0 if type_code in _V1 else _EXTRA_LEN_SIZE)
        self._room = max_size - post_header - len(lenenc(column_count)) - sum(map(len, bitmaps.values()))
        self._images = bytearray()
        self._is_open = False

    def append(self, start: int, stop: int) -> int:
        """Return the number of the first row that the caller must encode; here this is always `start`."""
        return start

    def append_images(self, images: bytes) -> None:
        """Add a row by its encoded image, or before and after image."""
        # A row of no bytes, as INSERT INTO t VALUES () may produce, has an event of its own.
        if self._is_open and (not images or len(self._images) + len(images) > self._room):
            self._close()
        self._is_open = True
        self._images += images

    def finish(self, ends_statement: bool = True) -> None:  # noqa: FBT001, FBT002 - as the kernel has it
        """Close the last event; `ends_statement` sets its flag STMT_END."""
        if self._is_open:
            self._close(RowsFlag.STMT_END if ends_statement else 0)

    def _close(self, flag: int = 0) -> None:
        event = replace(self._event, flags=self._event.flags | flag, images=bytes(self._images))
        self._buffer.frames.append(self._buffer.encoder.encode(event))
        self._images.clear()
        self._is_open = False
