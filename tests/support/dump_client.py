"""A client that asks a source of replication for events, over the connection of PyMySQL."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pymysql

from binlog_server.server import BinlogServer
from binlog_server.source_logs import ServeOptions, SourceLogs
from binlogio.constants import EventType
from binlogio.gtid import GtidSet, build_gtid_set
from binlogio.options import ServerVariables
from binlogio.writer import BinlogWriter
from written_logs import insert

NON_BLOCKING: Final = 1
ANNOTATED: Final = 2
CHECKSUM: Final = "SET @master_binlog_checksum = 'CRC32', @source_binlog_checksum = 'CRC32'"
UUID: Final = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
MARIADB: Final = "SET @mariadb_slave_capability = 4"


class DumpClient:
    """A connection to a port, or to a Unix socket."""

    def __init__(self, address: int | Path, *statements: str, **login: Any) -> None:
        where = {"host": "127.0.0.1", "port": address} if isinstance(address, int) else {"unix_socket": str(address)}
        login = {"user": "root", "password": "", "read_timeout": 60, **login}
        self.connection: Any = pymysql.connect(**where, **login)
        for one in statements:
            self.query(one)

    def query(self, text: str) -> list[tuple[Any, ...]]:
        """Return the rows of a statement."""
        with self.connection.cursor() as cursor:
            cursor.execute(text)
            return list(cursor.fetchall())

    def close(self) -> None:
        """Close the connection, whatever the server sends."""
        self.connection._force_close()

    def by_position(self, file: str, position: int = 4, flags: int = NON_BLOCKING | ANNOTATED) -> Iterator[bytes]:
        """Yield events from a position on."""
        return self.events(0x12, struct.pack("<IHI", position, flags, 77) + file.encode())

    def by_gtids(self, gtids: GtidSet, flags: int = NON_BLOCKING, file: str = "") -> Iterator[bytes]:
        """Yield the events of the transactions that a GTID set does not have."""
        name, data = file.encode(), build_gtid_set(gtids)
        head = struct.pack("<HII", flags, 77, len(name)) + name
        return self.events(0x1E, head + struct.pack("<QI", 4, len(data)) + data)

    def events(self, command: int, payload: bytes) -> Iterator[bytes]:
        """Yield the events of an answer, up to its end; heartbeats and artificial events are events too."""
        connection = self.connection
        connection._next_seq_id = 1
        data = bytes([command]) + payload
        connection._write_bytes(len(data).to_bytes(3, "little") + b"\0" + data)
        while True:
            packet = connection._read_packet()._data
            if packet[0] == 0xFE and len(packet) < 9:
                return
            yield packet[1:]


def of_log(events: list[bytes]) -> list[bytes]:
    """Return the events that are in a log: without heartbeats, and those that the source makes."""
    return [event for event in events if event[4] != 27 and not (event[17] & 0x20)]


@contextmanager
def serving(*logs: Path, **options: Any) -> Iterator[BinlogServer]:
    """Serve logs at a free port."""
    with BinlogServer(SourceLogs([str(one) for one in logs], ServeOptions(**options))) as server:
        yield server


def client(server: BinlogServer, *statements: str) -> DumpClient:
    """Return a client that knows the events of the server."""
    more = (MARIADB,) if server.logs.is_mariadb else ()
    return DumpClient(server.port, CHECKSUM, *more, *statements)


@contextmanager
def written(folder: Path, **variables: Any) -> Iterator[tuple[BinlogWriter, Any]]:
    """Provide a writer of logs, and a function that inserts a row."""
    settings = ServerVariables(**{"server_version": "9.7.4", "server_uuid": UUID, **variables})
    with BinlogWriter(str(folder / "binlog"), variables=settings) as logs, logs.session("shop") as session:
        yield logs, lambda key: session.execute(insert(key))


def until(events: Iterator[bytes], count: int) -> list[bytes]:
    """Return the next events up to the XID of the transaction with this number."""
    found: list[bytes] = []
    while sum(event[4] == EventType.XID_EVENT for event in found) < count:
        found.append(next(events))
    return found
