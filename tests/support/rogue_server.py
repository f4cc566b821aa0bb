"""A fake MySQL server: accepts connections and answers queries with bytes from the test.

Source: MySQL internals manual, "Client/Server Protocol": Protocol::HandshakeV10, OK_Packet, LOCAL INFILE Request.
"""

from __future__ import annotations

import socket
import struct
from contextlib import contextmanager, suppress
from threading import Thread
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

CAPABILITIES = 0xF7FF & ~0x0800 | 0x0080 | 0x8000  # without CLIENT_SSL, with CLIENT_LOCAL_FILES and SECURE_CONNECTION
PLUGIN_AUTH = 0x0008
OK = b"\x00\x00\x00\x02\x00\x00\x00"
COM_QUIT, COM_QUERY = 1, 3
TIMEOUT_S = 3


def local_request(name: str) -> bytes:
    """Return the packet that requests a local file from the client."""
    return b"\xfb" + name.encode()


class RogueServer:
    """The server. `queries` has the received queries, `files` the file contents that the client sent on request.

    It listens on a Unix socket, or without `path` on a port. With `asks`, it sends this packet after the login, and
    adds the answer to `passwords`.
    """

    def __init__(self, path: Path | None, answer: Callable[[bytes], bytes], asks: bytes | None = None) -> None:
        self.path = path
        self._asks = asks
        self.queries: list[bytes] = []
        self.files: list[bytes] = []
        self.passwords: list[bytes] = []
        self._answer = answer
        self._listener = socket.socket(socket.AF_INET if path is None else socket.AF_UNIX)
        self._listener.bind(("127.0.0.1", 0) if path is None else str(path))
        self._listener.listen()
        self.port = None if path is not None else self._listener.getsockname()[1]
        self._threads = [Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def close(self) -> None:
        """Stop listening."""
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                client.settimeout(TIMEOUT_S)
                thread = Thread(target=self._serve, args=(client,), daemon=True)
                thread.start()

    def _serve(self, client: socket.socket) -> None:
        with client, suppress(OSError, EOFError):
            greeting = b"\x0a8.0.0\0" + struct.pack("<I", 1) + b"12345678\0" + struct.pack("<H", CAPABILITIES & 0xFFFF)
            greeting += b"\x2d\x02\x00" + struct.pack("<H", PLUGIN_AUTH) + bytes([21]) + bytes(10)
            greeting += b"123456789012\0" + b"mysql_native_password\0"
            _send(client, 0, greeting)
            number, login = _receive(client)
            self.passwords.append(login)
            if self._asks is not None:
                _send(client, number + 1, self._asks)
                number, answered = _receive(client)
                self.passwords.append(answered)
            _send(client, number + 1, OK)
            while True:
                number, command = _receive(client)
                if command[0] == COM_QUIT:
                    return
                if command[0] != COM_QUERY:
                    _send(client, number + 1, b"\xfe\0\0\2\0")
                    continue
                self.queries.append(command[1:])
                answer = self._answer(command[1:])
                _send(client, number + 1, answer)
                if answer[:1] == b"\xfb":
                    content = b""
                    while True:
                        number, piece = _receive(client)
                        if not piece:
                            break
                        content += piece
                    self.files.append(content)
                    _send(client, number + 1, OK)
                else:
                    for place in range(command[1:].count(b";")):  # an answer to each statement of the packet
                        _send(client, number + 2 + place, OK)


@contextmanager
def rogue_server(
    path: Path | None, answer: Callable[[bytes], bytes], asks: bytes | None = None
) -> Iterator[RogueServer]:
    """Provide a server on a Unix socket."""
    server = RogueServer(path, answer, asks)
    try:
        yield server
    finally:
        server.close()


def _send(client: socket.socket, number: int, payload: bytes) -> None:
    client.sendall(len(payload).to_bytes(3, "little") + bytes([number & 255]) + payload)


def _receive(client: socket.socket) -> tuple[int, bytes]:
    head = _exactly(client, 4)
    return head[3], _exactly(client, int.from_bytes(head[:3], "little"))


def _exactly(client: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = client.recv(size - len(data))
        if not more:
            raise EOFError
        data += more
    return data
