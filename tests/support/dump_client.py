"""A client that asks a source of replication for events, over the connection of PyMySQL."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pymysql

from binlogio.gtid import GtidSet, build_gtid_set

NON_BLOCKING: Final = 1
ANNOTATED: Final = 2
CHECKSUM: Final = "SET @master_binlog_checksum = 'CRC32', @source_binlog_checksum = 'CRC32'"
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
