"""`binlogio serve` with real clients: replicas and log readers of MySQL and MariaDB."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Final

import pytest

from real_servers import KINDS, Instance, vendor
from served_logs import await_tables, free_port, served, start_replica, status, tables

pytestmark = [pytest.mark.server, pytest.mark.xdist_group("server")]

GTIDS: Final = ("--gtid-mode=ON", "--enforce-gtid-consistency=ON")
WORKERS: Final = ("--replica-parallel-workers=4", "--replica-preserve-commit-order=ON")
PLACES: Final = {
    "mysql": {"gtid": "SOURCE_AUTO_POSITION=1", "position": "SOURCE_LOG_FILE='binlog.000001', SOURCE_LOG_POS=4"},
    "mariadb": {
        "gtid": "MASTER_USE_GTID=slave_pos",
        "position": "MASTER_USE_GTID=no, MASTER_LOG_FILE='binlog.000001', MASTER_LOG_POS=4",
    },
}
ROUNDS: Final = count(1)


def change(source: Instance, transactions: int = 40) -> str:
    """Change the tables of a server; return their checksums."""
    number = next(ROUNDS) * 1000
    text = "CREATE DATABASE IF NOT EXISTS shop; CREATE TABLE IF NOT EXISTS shop.t (id INT PRIMARY KEY AUTO_INCREMENT,"
    text += " v VARCHAR(200)); CREATE TABLE IF NOT EXISTS shop.u (id INT PRIMARY KEY, n INT);"
    for one in range(transactions):
        text += f"BEGIN; INSERT INTO shop.t (v) VALUES ('{one}'), (REPEAT('x', 150));"
        text += f"UPDATE shop.t SET v = CONCAT(v, '!') WHERE id % 7 = {one % 7} AND LENGTH(v) < 180; COMMIT;"
        text += f"INSERT INTO shop.u VALUES ({number + one}, {one}); DELETE FROM shop.t WHERE id % 31 = {one % 31};"
    source.sql(text)
    return tables(source)


@pytest.fixture(scope="module", params=KINDS)
def source(request: pytest.FixtureRequest) -> Iterator[Instance]:
    """Provide a server whose logs, several of them, are served."""
    programs = vendor(request.param)
    options = ("--gtid-domain-id=3",) if programs.is_mariadb else GTIDS
    with programs.server("served", "--binlog-format=ROW", *options) as server:
        for _ in range(3):
            change(server)
            server.sql("FLUSH BINARY LOGS")
        change(server)
        yield server


def replica_options(source: Instance, how: str) -> tuple[str, ...]:
    if source.vendor.is_mariadb:
        return ("--slave-parallel-threads=4", "--log-slave-updates")
    return (*(GTIDS if how == "gtid" else ("--gtid-mode=ON_PERMISSIVE", GTIDS[1])), *WORKERS)


@pytest.mark.parametrize("how", ["gtid", "position"])
def test_replica_follows_through_growth_rotation_and_kills(source: Instance, how: str) -> None:
    """The server of the logs, and the replica, are killed and started again meanwhile."""
    programs, port = source.vendor, free_port()
    place = PLACES["mariadb" if programs.is_mariadb else "mysql"][how]
    with programs.server(f"replica{how}", "--server-id=99", *replica_options(source, how)) as replica:
        with served(source.data, port=port):
            start_replica(replica, port, place)
            await_tables(replica, tables(source))

            await_tables(replica, change(source))
            source.sql("FLUSH BINARY LOGS")
            await_tables(replica, change(source))
        expected = change(source)
        source.sql("FLUSH BINARY LOGS")
        with served(source.data, port=port):
            await_tables(replica, expected)
            replica.sql("STOP SLAVE" if programs.is_mariadb else "STOP REPLICA")
            expected = change(source)
            replica.sql("START SLAVE" if programs.is_mariadb else "START REPLICA")
            await_tables(replica, expected)
            found = status(replica)

    assert found["Last_IO_Errno"] == "0", found
