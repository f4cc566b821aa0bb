"""Builds log files in memory from events, and splits logs into the bytes of their events."""

from __future__ import annotations

import io
import zlib
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import binlogio
from binlogio.constants import BINLOG_MAGIC, CHECKSUM_SIZE, HEADER_SIZE, ChecksumAlgorithm, EventType, HeaderFlag
from binlogio.errors import BinlogError
from binlogio.events.base import EventHeader
from binlogio.events.control import RotateEvent, StopEvent, XidEvent
from binlogio.events.format_description import FormatDescriptionEvent
from binlogio.events.query import QueryEvent
from binlogio.format.encoder import Encoder
from binlogio.format.framing import EventFrame, EventFramer, Framing

if TYPE_CHECKING:
    from pathlib import Path

POST_HEADER_SIZES: Final = (
    *(0, 13, 0, 8, 0, 0, 0, 0, 4, 0, 4, 0, 0, 0, 99, 0, 4, 26, 8, 0, 0, 0, 8, 8, 8, 2, 0, 0, 0, 10, 10, 10, 42, 42),
    *(0, 18, 52, 0, 10, 40, 0, 0),
)
CRC32: Final = ChecksumAlgorithm.CRC32
OFF: Final = ChecksumAlgorithm.OFF
IN_USE_AT: Final = 4 + 17  # file offset of the byte with the in-use flag
POST_HEADERS_OF_MARIADB: Final = (
    *(56, 13, 0, 8, 0, 18, 0, 4, 4, 4, 4, 18, 0, 0, 0, 0, 4, 26, 8, 0, 0, 0, 8, 8, 8, 2, 0, 0, 0, 10, 10, 10),
    *((0,) * 127), *(0, 4, 19, 4, 0, 13, 8, 8, 8, 10, 10, 10),
)  # fmt: skip


def header(type_code: int = 0, *, flags: int = 0, timestamp: int = 1_700_000_000, server_id: int = 1) -> EventHeader:
    """Return a header without size and position, which the encoder sets."""
    return EventHeader(timestamp=timestamp, type_code=type_code, server_id=server_id, flags=flags)


def description(
    algorithm: int | None = CRC32, *, flags: int = 0, version: str = "9.7.4", sizes: tuple[int, ...] = POST_HEADER_SIZES
) -> FormatDescriptionEvent:
    """Return a format description event for the start of a file."""
    return FormatDescriptionEvent(4, version, 0, 19, sizes, algorithm, header(flags=flags))


def query(sql: str, schema: str = "d") -> QueryEvent:
    """Return a query event without status variables."""
    return QueryEvent(7, 0, 0, (), schema, sql.encode(), header(EventType.QUERY_EVENT))


def transaction(number: int) -> list[Any]:
    """Return the events BEGIN, a statement, XID."""
    return [
        query("BEGIN"),
        query(f"INSERT INTO t VALUES ({number})"),
        XidEvent(number, header(EventType.XID_EVENT)),
    ]


def stop() -> StopEvent:
    """Return the stop event, which ends the log of a server that shuts down."""
    return StopEvent(header(EventType.STOP_EVENT))


def rotate(next_log: str = "binlog.000002") -> RotateEvent:
    """Return the rotate event, which ends a log that continues in another file."""
    return RotateEvent(4, next_log, header(EventType.ROTATE_EVENT))


def encode(events: list[Any], *, offset: int = 4, encoder: Encoder | None = None) -> bytes:
    """Return the bytes of the events, for a file position of `offset`."""
    encoder, data = encoder or Encoder(), bytearray()
    for event in events:
        data += encoder.encode_at(event, offset + len(data))
    return bytes(data)


def log(*events: Any, algorithm: int | None = CRC32, in_use: bool = False) -> bytes:
    """Return the bytes of a file: magic, format description, events."""
    first = description(algorithm, flags=HeaderFlag.BINLOG_IN_USE if in_use else 0)
    return BINLOG_MAGIC + encode([first, *events])


def raw_events(data: bytes | bytearray, start: int = len(BINLOG_MAGIC)) -> Iterator[tuple[int, bytes]]:
    """Yield the offset and the bytes of every event from `start`.

    Encrypted events have their size at the same offset as plain events.
    """
    at = start
    while at < len(data):
        size = int.from_bytes(data[at + 9 : at + 13], "little")
        yield at, bytes(data[at : at + size])
        at += size


def with_checksum(event: bytes | bytearray) -> bytes:
    """Return the event with a recomputed checksum."""
    body = bytes(event[:-CHECKSUM_SIZE])
    return body + zlib.crc32(body).to_bytes(CHECKSUM_SIZE, "little")


def moved(event: bytes, offset: int) -> bytes:
    """Return the event with the position and the checksum for another offset."""
    return with_checksum(event[:13] + (offset + len(event)).to_bytes(4, "little") + event[17:])


def read_to_end(log: Path) -> None:
    """Read a log with `binlogio.open` and with `read_tables`, which raise where they cannot."""
    with binlogio.open(log) as reader:
        for _ in reader:
            pass
    for _ in binlogio.read_tables(log, zero_dates="text", statement_changes="skip"):
        pass


def reading_stops_at(log: Path) -> int | None:
    """Return the offset of the event at which a reader stops with an error; None: it reads the log to its end."""
    try:
        read_to_end(log)
    except BinlogError as exc:
        return exc.offset or 0
    return None


def spoilt_event(log: Path, code: int) -> tuple[bytes, int, int]:
    """Return a log in which one event of a type cannot be read, with a right checksum; and the event's begin and end.

    A bit is flipped in the event of this type in the middle of the log: in its last third, which has row images or a
    payload, or in the status variables of a statement.
    """
    data = log.read_bytes()
    found = [(at, event) for at, event in raw_events(data) if event[4] == code]
    at, event = found[len(found) // 2]
    first = HEADER_SIZE if code == EventType.QUERY_EVENT else len(event) * 2 // 3
    for place in range(first, len(event) - CHECKSUM_SIZE):
        changed = with_checksum(event[:place] + bytes([event[place] ^ 0x40]) + event[place + 1 :])
        spoilt = data[:at] + changed + data[at + len(event) :]
        try:
            with binlogio.open(io.BytesIO(spoilt)) as reader:
                for _ in reader:
                    pass
            for _ in binlogio.read_tables(io.BytesIO(spoilt), zero_dates="text", statement_changes="skip"):
                pass
        except BinlogError:
            return spoilt, at, at + len(event)
    raise AssertionError(f"every bit of {log} at {at} may be flipped")


def plain(event: Any) -> Any:
    """Return the event without the header fields that depend on its offset, and without the type code and size."""
    return replace(event, header=replace(event.header, offset=0, log_pos=0, event_size=0, type_code=0))


def frames(data: bytes, **options: Any) -> list[EventFrame]:
    """Return the frames of a complete log."""
    framer = EventFramer(**options)
    framer.feed(data)
    framer.finish()
    return list(drain(framer))


def drain(framer: EventFramer) -> Iterator[EventFrame]:
    """Yield the frames that are available."""
    while not isinstance(frame := framer.next_frame(), Framing):
        yield frame


class CountedFile(io.FileIO):
    """A file that counts the bytes read from it."""

    count = 0

    def read(self, size: int | None = -1, /) -> bytes:
        """Read and count bytes."""
        data = super().read(-1 if size is None else size)
        CountedFile.count += len(data)
        return data

    def readinto(self, buffer: Any, /) -> int:
        """Read and count bytes."""
        count = super().readinto(buffer)
        CountedFile.count += count
        return count
