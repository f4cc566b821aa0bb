"""`binlogio serve` with real clients: replicas and log readers of MySQL and MariaDB."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Final

import pymysql
import pytest

from binlogio.gtid import GtidSet
from dump_client import CHECKSUM, DumpClient
from dump_client import MARIADB as CAPABLE
from real_servers import KINDS, Instance, vendor
from served_logs import (
    TIMEOUT_S,
    await_tables,
    free_port,
    kill_and_restart,
    served,
    slow_network,
    start_replica,
    status,
    tables,
)

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
    options = ("--server-id=99", "--relay-log-recovery=ON", *replica_options(source, how))
    with programs.server(f"replica{how}", *options) as replica:
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
            if how == "gtid":  # a position in a file is not safe in a crash
                expected = change(source)
                kill_and_restart(replica, *options)
                await_tables(replica, expected)
            found = status(replica)

    assert found["Last_IO_Errno"] == "0", found


@pytest.mark.parametrize("how", ["gtid", "position"])
def test_replica_whose_slow_connection_breaks_continues(source: Instance, how: str) -> None:
    """In the middle of events and of transactions; without annotations, too, which MariaDB asks for only if it logs."""
    programs, port = source.vendor, free_port()
    options = [one for one in replica_options(source, how) if one != "--log-slave-updates"]
    with (
        programs.server(f"cut{how}", "--server-id=99", *options) as replica,
        served(source.data, port=port),
        slow_network(port, 0.02, 1_500, 9_000, 17_000, 40_000) as far,
    ):
        start_replica(replica, far, PLACES["mariadb" if programs.is_mariadb else "mysql"][how])
        await_tables(replica, tables(source))


def test_replica_of_a_replica_has_the_tables(source: Instance) -> None:
    """The first replica logs what it applies, and a real server serves that."""
    programs, port, middle_port = source.vendor, free_port(), free_port()
    place = PLACES["mariadb" if programs.is_mariadb else "mysql"]["gtid"]
    options = replica_options(source, "gtid")
    network = ("--skip-networking=0", "--bind-address=127.0.0.1", f"--port={middle_port}")
    with (
        programs.server("middle", "--server-id=98", *network, *options) as middle,
        programs.server("last", "--server-id=99", *options) as last,
        served(source.data, port=port),
    ):
        middle.sql(
            "SET sql_log_bin = 0; CREATE USER r@'127.0.0.1' IDENTIFIED BY 'p';"
            " GRANT REPLICATION SLAVE ON *.* TO r@'127.0.0.1'"
        )
        start_replica(middle, port, place)
        start_replica(last, middle_port, place if programs.is_mariadb else f"{place}, GET_SOURCE_PUBLIC_KEY=1")
        await_tables(last, tables(source))
        await_tables(last, change(source))


def test_log_reader_of_the_vendor_writes_the_same_files(source: Instance) -> None:
    """`mysqlbinlog --read-from-remote-server --raw`; the last log loses its flag of a log in use."""
    programs, port = source.vendor, free_port()
    tool = "mariadb-binlog" if programs.is_mariadb else "mysqlbinlog"
    source.sql("FLUSH BINARY LOGS")
    with served(source.data, port=port), programs.folder("raw") as folder:
        done = programs.run(
            tool, "--no-defaults", "-R", "--raw", "-h127.0.0.1", f"-P{port}", "-ur", "--to-last-log",
            f"--result-file={programs.inside(folder)}/", "binlog.000001",
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        *whole, last = sorted(path for path in source.data.glob("binlog.0*") if path.suffix[1:].isdigit())

        assert [(folder / path.name).read_bytes() == path.read_bytes() for path in whole] == [True] * len(whole)
        assert (folder / last.name).read_bytes()[22:] == last.read_bytes()[22:]


def answer(where: int | Path, settings: tuple[str, ...], ask: Callable[[DumpClient], Iterator[bytes]]) -> list[Any]:
    """Return the events that a server sends, and the number of the error that ends them."""
    client = DumpClient(where, *settings)
    found: list[Any] = []
    try:
        found += ask(client)
    except pymysql.err.MySQLError as exc:
        found.append(exc.args[0])
    client.close()
    return found


def test_events_are_those_that_the_server_itself_sends(source: Instance) -> None:
    """By position, from the middle of a log and of a transaction, past the end; by GTID, with and without gaps."""
    is_mariadb, uuid = source.vendor.is_mariadb, ""
    lines = source.sql("SHOW BINLOG EVENTS IN 'binlog.000002'").splitlines()
    starts = [int(line.split("\t")[1]) for line in lines]
    base = (CHECKSUM, CAPABLE) if is_mariadb else (CHECKSUM,)
    plain = ("SET @master_binlog_checksum = 'NONE', @source_binlog_checksum = 'NONE'", *base[1:])
    places = (("", 4), ("binlog.2", 4), *(("binlog.000002", starts[number]) for number in (1, 9, 10, 11, -1)))
    cases: list[tuple[tuple[str, ...], partial[Iterator[bytes]]]] = [
        *((base, partial(DumpClient.by_position, file=file, position=at)) for file, at in places),
        *((base, partial(DumpClient.by_position, file="", position=at, flags=1)) for at in (3, 4, 1 << 30)),
        (plain, partial(DumpClient.by_position, file="binlog.000002")),
        (base[1:], partial(DumpClient.by_position, file="binlog.000002")),
    ]
    if is_mariadb:
        gtids = re.findall(r"GTID (3-1-\d+)", "\n".join(lines))
        for state in ("", gtids[0], gtids[5], gtids[-1], "3-1-99999", "5-1-3", "3-9-3", f"5-1-3,{gtids[3]}"):
            settings = (*base, f"SET @slave_connect_state = '{state}'", "SET @slave_gtid_strict_mode = 1")
            cases.append((settings, partial(DumpClient.by_position, file="")))
        for until in (gtids[5], "3-1-99999", "3-9-3", f"5-1-3,{gtids[3]}"):
            settings = (*base, "SET @slave_connect_state = ''", f"SET @slave_until_gtid = '{until}'")
            cases.append((settings, partial(DumpClient.by_position, file="")))
    else:
        uuid = source.sql("SELECT @@server_uuid").strip()
        other = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
        for known in (
            "",
            f"{uuid}:1-5",
            f"{uuid}:1-5:8-12:300",
            f"{uuid}:1-99999",
            f"{other}:1-5",
            f"{other}:1,{uuid}:1-90",
        ):
            gtids_known = GtidSet.parse(known) if known else GtidSet()
            cases.append((base, partial(DumpClient.by_gtids, gtids=gtids_known)))
        cases.append((base, partial(DumpClient.by_gtids, gtids=GtidSet.parse(f"{uuid}:1-70"), file="binlog.000002")))
    port = free_port()
    with served(source.data, port=port):
        for settings, ask in cases:
            expected, found = (answer(one, settings, ask) for one in (source.socket, port))
            if is_mariadb and any("connect_state" in one for one in settings):
                expected, found = (transactions(one) for one in (expected, found))
            if is_mariadb and ask.keywords.get("flags") == 1:  # log_pos is 0 in groups of 11.8, not here
                expected, found = (without_positions(one) for one in (expected, found))

            assert found == expected, (settings, ask)


def without_positions(events: list[Any]) -> list[Any]:
    return [event if isinstance(event, int) else event[:13] + event[17:-4] for event in events]


def transactions(events: list[Any]) -> list[Any]:
    """Return the events without the heads of logs: by its index, MariaDB 11.8 begins in the middle of the first one.

    MariaDB sends a GTID_LIST of its own where the client begins.
    """
    heads = (4, 15, 161, 163)
    return [event for event in events if isinstance(event, int) or event[4] not in heads]


def test_recovery_to_a_point_in_time_by_a_replica(source: Instance) -> None:
    """The logs end before the accident; all that was committed before it is there."""
    programs, port = source.vendor, free_port()
    expected = change(source)
    state = "SELECT @@gtid_binlog_pos" if programs.is_mariadb else "SELECT @@gtid_executed"
    before = source.sql(state).replace("\\n", "").strip()
    domain, _, number = before.rpartition("-")
    accident = f"{domain}-{int(number) + 1}" if programs.is_mariadb else f"{before.split(':')[0]}:{int(number) + 1}"
    source.sql("DELETE FROM shop.t; INSERT INTO shop.u VALUES (-1, -1)")
    change(source)
    place = PLACES["mariadb" if programs.is_mariadb else "mysql"]["gtid"]
    with (
        programs.server("recovered", "--server-id=99", *replica_options(source, "gtid")) as replica,
        served("--until", accident, source.data, port=port),
    ):
        start_replica(replica, port, place)
        await_tables(replica, expected)
        reached = replica.sql("SELECT @@gtid_slave_pos" if programs.is_mariadb else state)

    assert reached.replace("\\n", "").strip() == before


def test_replica_of_mariadb_stops_at_gtids(source: Instance) -> None:
    """START SLAVE UNTIL: it has the transactions up to them, and stops."""
    if not source.vendor.is_mariadb:
        pytest.skip("of MariaDB only")
    port = free_port()
    until = re.findall(r"GTID (3-1-\d+)", source.sql("SHOW BINLOG EVENTS IN 'binlog.000002'"))[7]
    with (
        source.vendor.server("until", "--server-id=99", *replica_options(source, "gtid")) as replica,
        served(source.data, port=port),
    ):
        start_replica(replica, port, PLACES["mariadb"]["gtid"], f"UNTIL master_gtid_pos='{until}'")
        end = time.monotonic() + TIMEOUT_S
        while status(replica)["Slave_SQL_Running"] == "Yes" and time.monotonic() < end:
            time.sleep(0.2)
        found = status(replica)
        reached = replica.sql("SELECT @@gtid_slave_pos").strip()

    assert (reached, found["Slave_SQL_Running"], found["Last_Errno"]) == (until, "No", "0"), found


def test_replica_of_mysql_gets_heartbeats(source: Instance) -> None:
    """From 8.0.26 on it asks for those whose positions have 64 bits."""
    if source.vendor.is_mariadb:
        pytest.skip("of MySQL only")
    port = free_port()
    with source.vendor.server("beats", "--server-id=99", *GTIDS) as replica, served(source.data, port=port):
        start_replica(replica, port, PLACES["mysql"]["gtid"])
        await_tables(replica, tables(source))
        count = "SELECT COUNT_RECEIVED_HEARTBEATS > 1 FROM performance_schema.replication_connection_status"
        end = time.monotonic() + TIMEOUT_S
        while replica.sql(count).strip() != "1":
            assert time.monotonic() < end, status(replica)
            time.sleep(0.2)

        assert status(replica)["Last_IO_Errno"] == "0"
