"""Events in parts and streams in pieces, for the columnar reader.

Computes the size of an incomplete event, locates the images of a rows event, and builds a complete event from a part of
one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from binlogio.columnar.windows import WINDOW_SIZE, Window
from binlogio.constants import EVENT_SIZE_BYTES, HEADER_SIZE
from binlogio.events import codec_for
from binlogio.events.base import EventHeader, ParseContext, parse_header
from binlogio.format.framing import check_event_size

if TYPE_CHECKING:
    from binlogio.options import Limits

MOST_BYTES: Final = 64 << 20  # of values in one batch, and the most that is read to see whether something is an event


def least_for(window: Window) -> int:
    """Bytes that the event at the window's start needs, where that is what stands there.

    Else a few more than there are.
    """
    size = int.from_bytes(window.view[EVENT_SIZE_BYTES], "little") if window.held >= HEADER_SIZE else 0
    return max(window.held + 1, min(size, MOST_BYTES))


def decrypted(window: Window, decrypt: Callable[[int, bytes], bytes], limits: Limits) -> Iterator[bytes]:
    """Yield the plain events after a START_ENCRYPTION_EVENT, each of which keeps its size readable.

    An unfinished one as it stands.

    Raises:
        BinlogFormatError: an event is larger than the limit.
    """
    while window.fill(HEADER_SIZE):
        size = event_size(window.view)
        check_event_size(size, window.offset, limits)
        if not window.fill(size):
            break
        yield decrypt(window.offset, bytes(window.view[:size]))
        window.take(size)
    yield bytes(window.view)


def reader_of(chunks: Iterator[bytes]) -> Callable[[int], bytes]:
    """Chunks of any size as a function that gives as many bytes as are asked for."""
    rest = b""

    def read(size: int) -> bytes:
        nonlocal rest
        while not rest:
            chunk = next(chunks, None)
            if chunk is None:
                return b""
            rest = chunk
        data, rest = rest[:size], rest[size:]
        return data

    return read


def event_size(view: memoryview) -> int:
    """What the header at the start of `view` says, in bytes; at least a header."""
    return max(HEADER_SIZE, int.from_bytes(view[EVENT_SIZE_BYTES], "little"))


def part_event(header: EventHeader, prefix: bytes, images: bytes) -> bytes:
    """Return a part of a rows event as a whole event, for the kernel: no checksum, no end of statement."""
    size = HEADER_SIZE + len(prefix) + len(images)
    return (
        header.timestamp.to_bytes(4, "little")
        + bytes([header.type_code])
        + header.server_id.to_bytes(4, "little")
        + size.to_bytes(4, "little")
        + bytes(6)
        + prefix
        + images
    )


def prefix_size(view: memoryview, header: EventHeader, context: ParseContext) -> int:
    """Bytes of a rows event before its images: header, post-header, extra row info, width, bitmaps."""
    raw = bytes(view[:HEADER_SIZE])
    codec = codec_for(header.type_code)
    probe = bytes(view[HEADER_SIZE : min(len(view), WINDOW_SIZE)])
    event = codec.parse(parse_header(raw, header.offset, context), probe, context)
    return HEADER_SIZE + len(probe) - len(event.images)
