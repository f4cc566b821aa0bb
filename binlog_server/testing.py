"""A source of replication for the tests of programs that read logs from a server: `mock_source`.

with mock_source("logs/") as source:        # logs of a server, or of `binlogio write`; more may be written meanwhile
    client = connect(port=source.port)      # any user and password
    source.cut_after(1000)                  # a fault: the connection breaks after so many bytes of events
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from binlog_server.server import BinlogServer, ListenOptions
from binlog_server.source_logs import ServeOptions, SourceLogs

if TYPE_CHECKING:
    import os


class MockSource:
    """A running source. Its address is 127.0.0.1 and `port`."""

    def __init__(self) -> None:
        self.port = 0
        self._server: BinlogServer | None = None
        self._flows = threading.Event()
        self._flows.set()
        self._cuts: list[int] = []

    def drop(self) -> None:
        """Close the connections of all clients; they may connect again."""
        if self._server is not None:
            self._server.drop_clients()

    def stall(self) -> None:
        """Send nothing from now on, until `resume`. Connections stay open."""
        self._flows.clear()

    def resume(self) -> None:
        """End a `stall`."""
        self._flows.set()

    def cut_after(self, *sizes: int) -> None:
        """Close a connection after so many bytes, perhaps in the middle of a packet; then one after the next size."""
        self._cuts = list(sizes)

    def send(self, connection: socket.socket, data: Any) -> None:
        """Send bytes, with the faults."""
        self._flows.wait()
        if self._cuts and self._cuts[0] < len(data):
            connection.sendall(data[: self._cuts.pop(0)])
            connection.shutdown(socket.SHUT_RDWR)
            raise ConnectionAbortedError("cut_after")
        if self._cuts:
            self._cuts[0] -= len(data)
        connection.sendall(data)


@contextmanager
def mock_source(*logs: str | os.PathLike[str], options: ServeOptions | None = None) -> Iterator[MockSource]:
    """Serve logs at a free port of this machine, in threads of this process."""
    source = MockSource()
    sources = [str(one) for one in logs]
    with BinlogServer(SourceLogs(sources, options or ServeOptions()), ListenOptions(send=source.send)) as server:
        source.port, source._server = server.port, server
        yield source
        source.resume()
