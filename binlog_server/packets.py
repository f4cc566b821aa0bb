"""Packets of the client/server protocol of MySQL and MariaDB.

    packet  := size: u24  sequence: u8  payload: u8[size]        -- 16 MiB - 1 bytes or more continue in the next
    ok      := 0x00  affected: lenenc  insert_id: lenenc  status: u16  warnings: u16
    error   := 0xFF  code: u16  "#"  sqlstate: char[5]  message: u8[*]
    eof     := 0xFE  warnings: u16  status: u16                  -- CLIENT_DEPRECATE_EOF is not offered
    rows    := count: lenenc  column*  eof  (value: lenenc_text | 0xFB)*  eof

Source: sql/protocol_classic.cc; sql-common/net_serv.cc.
"""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from binlogio.primitives import LenencBytes

if TYPE_CHECKING:
    from numpy.typing import NDArray

LARGEST: Final = (1 << 24) - 1  # bytes of a payload in one packet
_SENT: Final = 1 << 16  # bytes that are sent at once
_STATUS: Final = b"\x02\x00"  # SERVER_STATUS_AUTOCOMMIT
_TEXT: Final = 253  # MYSQL_TYPE_VAR_STRING
_NUMBER: Final = 8  # MYSQL_TYPE_LONGLONG
_NULL: Final = b"\xfb"


class Wire:
    """How bytes and events reach a client. `testing` replaces it to make faults."""

    def send(self, connection: socket.socket, data: bytes | bytearray | memoryview) -> None:
        """Send bytes; the socket may be one of TLS."""
        for at in range(0, len(data), _SENT):  # the time limit is that of a part
            connection.sendall(memoryview(data)[at : at + _SENT])

    def order(self, _data: memoryview, _starts: NDArray[np.int64]) -> slice | NDArray[np.int64]:
        """Return the numbers of the events to send, of those that start at offsets of a buffer."""
        return slice(None)


class ProtocolError(Exception):
    """The client sent something that is not of the protocol; its connection is closed."""


class ServerError(Exception):
    """An error that is sent to the client, with the number and the SQLSTATE of the server."""

    def __init__(self, code: int, state: str, message: str) -> None:
        super().__init__(message)
        self.code, self.state, self.message = code, state, message


class PacketStream:
    """Reads and writes packets of one connection.

    Reading raises `ProtocolError` for a packet above `limit` bytes or out of order, `EOFError` at the end, and
    `TimeoutError` after `deadline` (of `time.monotonic`).
    """

    def __init__(self, connection: socket.socket, wire: Wire) -> None:
        self.connection, self._wire = connection, wire
        self.sequence = 0
        self.limit = 1 << 16
        self.deadline: float | None = None

    def read(self) -> bytes:
        """Return the next payload."""
        head = self._exactly(4)
        size = int.from_bytes(head[:3], "little")
        is_next = head[3] == self.sequence
        self.sequence = (head[3] + 1) & 0xFF  # also of the error
        if size > self.limit or size == LARGEST:
            raise ProtocolError(f"a packet of {size} bytes")
        if not is_next:
            raise ProtocolError("packets out of order")
        return self._exactly(size)

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            if self.deadline is not None:
                self.connection.settimeout(max(0.001, self.deadline - time.monotonic()))
            if not (part := self.connection.recv(min(size - len(data), 1 << 18))):
                raise EOFError
            data += part
        return bytes(data)

    def write(self, *payloads: bytes) -> None:
        """Write small payloads, each as one packet."""
        data = bytearray()
        for payload in payloads:
            data += len(payload).to_bytes(3, "little") + bytes([self.sequence]) + payload
            self.sequence = (self.sequence + 1) & 0xFF
        self._wire.send(self.connection, data)

    def write_events(self, data: memoryview, starts: NDArray[np.int64], sizes: NDArray[np.uint32]) -> None:
        """Write whole events, each as one packet; one of 16 MiB or more continues in others."""
        from binlogio._kernel.event_scanner import event_packets  # noqa: PLC0415 - the kernel is optional

        chosen = self._wire.order(data, starts)
        starts, sizes = starts[chosen], sizes[chosen]
        large = np.flatnonzero(sizes >= LARGEST - 1).tolist()
        first = 0
        for number in [*large, len(sizes)]:
            if number > first:
                packets = event_packets(data, starts[first:number], sizes[first:number], self.sequence)
                self.sequence = (self.sequence + number - first) & 0xFF
                self._wire.send(self.connection, packets)
            if number < len(sizes):
                start, size = int(starts[number]), int(sizes[number])
                self.write_large((b"\0", data[start : start + size]), size + 1)
            first = number + 1

    def write_large(self, pieces: Iterable[bytes | memoryview], size: int) -> None:
        """Write one payload of any size, which arrives in pieces; `size` is the sum of their sizes."""
        left, room = size, 0  # bytes of the payload, and of them in the current packet
        is_full = True  # the packet before it had LARGEST bytes: another one follows
        for piece in pieces:
            rest = memoryview(piece)
            while rest:
                if not room:
                    room = self._begin(left)
                    is_full = room == LARGEST
                part = rest[:room]
                self._wire.send(self.connection, part)
                rest, room, left = rest[len(part) :], room - len(part), left - len(part)
        if is_full:
            self._begin(0)

    def _begin(self, left: int) -> int:
        size = min(left, LARGEST)
        self._wire.send(self.connection, size.to_bytes(3, "little") + bytes([self.sequence]))
        self.sequence = (self.sequence + 1) & 0xFF
        return size

    def ok(self) -> None:
        """Write an OK packet."""
        self.write(b"\0\0\0" + _STATUS + b"\0\0")

    def eof(self) -> None:
        """Write an EOF packet."""
        self.write(b"\xfe\0\0" + _STATUS)

    def error(self, exc: ServerError) -> None:
        """Write an error packet; messages have at most 511 bytes, as those of the server."""
        message = exc.message.encode()[:511]
        self.write(b"\xff" + exc.code.to_bytes(2, "little") + b"#" + exc.state.encode() + message)

    def rows(self, names: Sequence[str], rows: Iterable[Sequence[str | None]]) -> None:
        """Write a result set of texts; a column of numbers has their type."""
        eof = b"\xfe\0\0" + _STATUS
        table = list(rows)
        columns = [_column(name, [row[number] for row in table]) for number, name in enumerate(names)]
        values = [b"".join(_NULL if one is None else LenencBytes.build(one.encode()) for one in row) for row in table]
        self.write(bytes([len(names)]), *columns, eof, *values, eof)


def _column(name: str, values: Sequence[str | None]) -> bytes:
    is_number = name != "Value" and all(one is not None and re.fullmatch(r"\d{1,18}", one) for one in values)
    about = b"\x0c\x21\0" + (1 << 16).to_bytes(4, "little") + bytes([_NUMBER if is_number else _TEXT]) + b"\0\0\x1f\0\0"
    return b"".join((b"\3def", bytes(3), LenencBytes.build(name.encode()), b"\0", about))


class PayloadReader:
    """Reads fields of a payload; `ProtocolError` where it is too short."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def take(self, size: int) -> bytes:
        """Return the next bytes."""
        if size > len(self._data) - self._at:
            raise ProtocolError("a packet is too short")
        self._at += size
        return self._data[self._at - size : self._at]

    def number(self, size: int) -> int:
        """Return an integer of `size` bytes."""
        return int.from_bytes(self.take(size), "little")

    def text(self) -> bytes:
        """Return the bytes before the next zero byte, or before the end."""
        end = self._data.find(b"\0", self._at)
        found = self._data[self._at : end if end >= 0 else None]
        self._at = min(len(self._data), self._at + len(found) + 1)
        return found

    def counted(self) -> bytes:
        """Return bytes after their length."""
        size = self.number(1)
        return self.take(self.number(size - 0xFA) if size in (0xFC, 0xFD) else self.number(8) if size == 0xFE else size)
