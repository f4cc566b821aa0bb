"""A source of replication for the tests of programs that read logs from a server: `mock_source`.

with mock_source("logs/") as source:                    # logs of a server, which may grow meanwhile
with mock_source(script=text, server="8.0") as source:  # logs that `binlogio write` makes from a script
    client = connect(port=source.port)                  # any user and password
    source.write(more)                                  # what the script says is sent at once
    source.cut_after(1000)                              # a fault: the connection breaks after so many bytes
"""

from __future__ import annotations

import io
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np

from binlog_server.packets import Wire
from binlog_server.server import BinlogServer, ListenOptions
from binlog_server.source_logs import ServeOptions, SourceLogs
from binlogio.constants import EventType
from binlogio.writer import BinlogWriter
from binlogio_cli.write.script import ScriptClock, ScriptRunner, check_lines, read_lines, variables_of
from binlogio_cli.write.tables import ScriptTables

if TYPE_CHECKING:
    from numpy.typing import NDArray


class MockSource(Wire):
    """A running source. Its address is 127.0.0.1 and `port`."""

    def __init__(self, logs: list[str], options: ServeOptions, script: _Script | None) -> None:
        self._logs, self._options, self._script = logs, options, script
        self._flows = threading.Event()
        self._flows.set()
        self._cuts: list[int] = []
        self._repeated: list[EventType] = []
        self._server = BinlogServer(SourceLogs(logs, options), ListenOptions(wire=self))

    @property
    def port(self) -> int:
        """The port."""
        return self._server.port

    def write(self, script: str) -> None:
        """Execute more lines of a script. Tables and sessions are kept.

        Raises:
            ValueError: a line is rejected, or the logs are not those of a script.
        """
        self._own_script.run(script)

    @property
    def _own_script(self) -> _Script:
        if self._script is None:
            raise ValueError("the logs are only read: it needs mock_source(script=...)")
        return self._script

    def drop(self) -> None:
        """Close the connections of all clients; they may connect again."""
        self._server.drop_clients()

    def fail_over(self) -> None:
        """Let another server with the same transactions take the port: server_id and server_uuid change.

        Raises:
            ValueError: the logs are not those of a script.
        """
        self._own_script.fail_over()
        self._server.logs = SourceLogs(self._logs, self._options)
        self.drop()

    def stall(self) -> None:
        """Send nothing from now on, until `resume`. Connections stay open."""
        self._flows.clear()

    def resume(self) -> None:
        """End a `stall`."""
        self._flows.set()

    def cut_after(self, *sizes: int) -> None:
        """Close a connection after so many bytes, perhaps in the middle of a packet; then one after the next size."""
        self._cuts = list(sizes)

    def repeat(self, event_type: str) -> None:
        """Send the next event of a type, such as `WRITE_ROWS_EVENT`, twice; those of more than 8 MB are passed over.

        Raises:
            ValueError: there is no such type.
        """
        if event_type not in EventType.__members__:
            raise ValueError(f"not the name of an event type, such as WRITE_ROWS_EVENT: {event_type!r}")
        self._repeated.append(EventType[event_type])

    # -------------------------------------------------------------------------------------------------- for the server

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

    def order(self, data: memoryview, starts: NDArray[np.int64]) -> slice | NDArray[np.int64]:
        """Return the numbers of the events, those of `repeat` twice."""
        numbers = [*range(len(starts))] if self._repeated else []
        for code in tuple(self._repeated):
            found = next((at for at, number in enumerate(numbers) if data[int(starts[number]) + 4] == code), None)
            if found is not None:
                numbers.insert(found, numbers[found])
                self._repeated.remove(code)
        return np.array(numbers, np.int64) if numbers else slice(None)


class _Script:
    """Writes logs into a folder, as `binlogio write` does."""

    def __init__(self, script: str | os.PathLike[str], server: str, folder: str) -> None:
        self._folder = Path(folder)
        self._name, text = ("script", script) if isinstance(script, str) else (str(script), Path(script).read_text())
        self._first = read_lines(self._name, io.StringIO(text))
        self._variables = variables_of(self._name, self._first, {"server_version": server})
        self._clock, self._tables = ScriptClock(), ScriptTables(server)
        self._clock.start(self._name, self._first)
        self._open()

    def _open(self) -> None:
        self._writer = BinlogWriter(self._folder / "binlog", variables=self._variables, clock=self._clock)
        self._writer.open()
        self._runner = ScriptRunner(self._writer, self._folder, self._tables, self._clock, lambda _text: None)

    def run(self, text: str | None = None) -> None:
        """Execute lines; None: those of the first script."""
        lines = self._first if text is None else read_lines(self._name, io.StringIO(text))
        for reason in check_lines(self._name, lines):
            raise ValueError(reason)
        self._runner.run(self._name, lines)

    def close(self) -> None:
        """Close the logs."""
        self._writer.close()

    def fail_over(self) -> None:
        """Close the logs, and let another server continue them."""
        self._writer.close()
        number = self._writer.identity.server_id or 0
        uuid = None if "MariaDB" in self._variables.server_version else str(uuid4())
        self._variables = replace(self._variables, server_id=number + 1, server_uuid=uuid)
        self._open()


@contextmanager
def mock_source(
    *logs: str | os.PathLike[str],
    script: str | os.PathLike[str] | None = None,
    server: str = "8.0",
    options: ServeOptions | None = None,
) -> Iterator[MockSource]:
    """Serve logs at a free port of this machine, in threads of this process.

    Args:
        logs: paths, directories, an index file, URIs; they are only read.
        script: makes the logs instead: the text or the path of a script of `binlogio write`.
        server: the version of the server of the script, such as `9.7.4` or `11.8-MariaDB`.
        options: what is served.

    Raises:
        ValueError: a line of the script is rejected, or logs are given, too.
    """
    with ExitStack() as stack:
        made = None
        sources = [str(one) for one in logs]
        if sources and script is not None:
            raise ValueError("give logs or a script, not both")
        if script is not None:
            sources = [stack.enter_context(TemporaryDirectory())]
            made = _Script(script, server, sources[0])
            stack.callback(made.close)
            made.run()
        source = MockSource(sources, options or ServeOptions(), made)
        stack.enter_context(source._server)
        stack.callback(source.resume)
        yield source
