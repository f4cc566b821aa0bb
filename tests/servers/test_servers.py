"""Judges that are not ours: the vendors' own tools read what the writer writes, and real servers apply it."""

from __future__ import annotations

import re

import pytest

import binlogio
import relay_logs
from binlogio import ServerVariables
from binlogio.events import GtidLogEvent
from judged_types import READABLE, TYPES, count_changes, expect_tables, types_of_version, write_types
from real_servers import KINDS, vendor

pytestmark = [pytest.mark.server, pytest.mark.slow]


UNKNOWN_COLLATION = (
    b"Character set '#255' is not a compiled character set"  # the session's utf8mb4_0900_ai_ci: MySQL's own
)
FORMATS = pytest.mark.parametrize(
    ("checksum", "gtid_mode"), [("CRC32", "ON"), ("NONE", "ON"), ("CRC32", "OFF"), ("NONE", "OFF")]
)


@FORMATS
def test_mysqlbinlog_reads_every_type_that_we_write(checksum: str, gtid_mode: str) -> None:
    mysql = vendor("mysql")
    with mysql.folder("read") as folder:
        log = write_types(folder / "binlog", ServerVariables(binlog_checksum=checksum, gtid_mode=gtid_mode), READABLE)
        done = mysql.run(
            "mysqlbinlog", "--no-defaults", "-vv", "--base64-output=decode-rows", "--verify-binlog-checksum",
            mysql.inside(log),
        )  # fmt: skip

        rows = len(re.findall(rb"^### (?:INSERT|UPDATE|DELETE)", done.stdout, re.MULTILINE))
        assert (done.returncode, done.stderr) == (0, b"")
        assert rows == count_changes(log)


@FORMATS
@pytest.mark.parametrize("kind", KINDS[1:])
def test_mariadb_binlog_reads_every_type_that_it_knows(kind: str, checksum: str, gtid_mode: str) -> None:
    mariadb = vendor(kind)
    types = tuple(typed for typed in READABLE if not typed.only_mysql)
    with mariadb.folder("read") as folder:
        variables = ServerVariables(binlog_checksum=checksum, gtid_mode=gtid_mode, binlog_row_metadata="MINIMAL")
        log = write_types(folder / "binlog", variables, types, mariadb=True)
        done = mariadb.run(
            "mariadb-binlog", "--no-defaults", "-vv", "--base64-output=decode-rows", "--verify-binlog-checksum",
            mariadb.inside(log),
        )  # fmt: skip

        rows = len(re.findall(rb"^### (?:INSERT|UPDATE|DELETE)", done.stdout, re.MULTILINE))
        complaints = [line for line in done.stderr.splitlines() if UNKNOWN_COLLATION not in line]
        assert (done.returncode, complaints) == (0, [])
        assert rows == count_changes(log)


@pytest.mark.parametrize("checksum", ["CRC32", "NONE"])
def test_a_server_fed_through_mysqlbinlog_ends_with_our_tables(checksum: str) -> None:
    mysql = vendor("mysql")
    with mysql.folder("feed") as folder, mysql.server("feed") as server:
        log = write_types(folder / "binlog", ServerVariables(binlog_checksum=checksum, gtid_mode="OFF"), TYPES)
        printed = mysql.run("mysqlbinlog", "--no-defaults", "--skip-gtids", mysql.inside(log))
        server.sql(printed.stdout)

        expect_tables(server, TYPES)


@pytest.mark.parametrize("checksum", ["CRC32", "NONE"])
def test_a_replica_applies_our_file_from_its_relay_log(checksum: str) -> None:
    mysql = vendor("mysql")
    options = ("--server-id=99", "--relay-log=relay", "--skip-replica-start", "--gtid-mode=ON")
    with mysql.folder("relay") as folder, mysql.server("relay", *options, "--enforce-gtid-consistency=ON") as server:
        log = write_types(folder / "binlog", ServerVariables(binlog_checksum=checksum, gtid_mode="ON"), TYPES)
        relay_logs.place(server, [log.read_bytes()])
        server.sql(
            "SET GLOBAL replica_parallel_workers=4; SET GLOBAL replica_preserve_commit_order=ON;"
            "CHANGE REPLICATION SOURCE TO SOURCE_HOST='none', RELAY_LOG_FILE='relay.000001', RELAY_LOG_POS=4;"
            "START REPLICA SQL_THREAD;"
        )
        with binlogio.open(log) as reader:
            last = [event.gtid for event in reader if isinstance(event, GtidLogEvent) and event.gtid is not None][-1]
        executed = server.sql(f"SELECT WAIT_FOR_EXECUTED_GTID_SET('{last}', 60)")
        errors = server.sql(
            "SELECT last_error_number, last_error_message FROM performance_schema.replication_applier_status_by_worker"
            " WHERE last_error_number <> 0"
        )

        assert (executed.strip(), errors) == ("0", "")
        expect_tables(server, TYPES)


@pytest.mark.parametrize("kind", KINDS[1:])
def test_mariadb_fed_through_its_own_tool_ends_with_our_tables(kind: str) -> None:
    mariadb = vendor(kind)
    types = tuple(typed for typed in TYPES if not typed.only_mysql)
    variables = ServerVariables(gtid_mode="OFF", binlog_row_metadata="MINIMAL")
    with mariadb.folder("feed") as folder, mariadb.server("feed") as server:
        log = write_types(folder / "binlog", variables, types, mariadb=True)
        printed = mariadb.run("mariadb-binlog", "--no-defaults", mariadb.inside(log))
        server.sql(printed.stdout)

        expect_tables(server, types)


@pytest.mark.parametrize("kind", KINDS[1:])
def test_mariadb_reads_the_temporal_types_of_mariadb_5_3_that_we_write(kind: str) -> None:
    """The tool prints those without fractions; a server whose tables have the same format takes all."""
    mariadb = vendor(kind)
    times = tuple(typed for typed in READABLE if typed.sql_type.startswith(("time", "date")))
    plain = tuple(typed for typed in times if "(" not in typed.sql_type)
    variables = ServerVariables(
        server_version="10.11.18-MariaDB", mysql56_temporal_format=False, binlog_row_metadata="MINIMAL"
    )
    with mariadb.folder("old") as folder, mariadb.server("old", "--mysql56-temporal-format=OFF") as server:
        log = write_types(folder / "plain", variables, plain, mariadb=True)
        shown = mariadb.run(
            "mariadb-binlog", "--no-defaults", "-vv", "--base64-output=decode-rows", mariadb.inside(log)
        )
        whole = write_types(folder / "whole", variables, times, mariadb=True)
        printed = mariadb.run("mariadb-binlog", "--no-defaults", mariadb.inside(whole))
        server.sql(printed.stdout)

        assert shown.returncode == 0
        assert len(re.findall(rb"^### (?:INSERT|UPDATE|DELETE)", shown.stdout, re.MULTILINE)) == count_changes(log)
        assert server.sql("SHOW CREATE TABLE judge.t1").count("mariadb-5.3") == 1
        expect_tables(server, times)


# ------------------------------------------------------------------------------------------- logs of other versions


@pytest.mark.parametrize("gtid_mode", ["ON", "OFF"])
@pytest.mark.parametrize("version", ["5.6.51", "5.7.44", "8.0.13", "8.0.22", "8.0.36", "8.4.3", "9.0.1"])
def test_logs_of_older_servers_are_read_by_mysqlbinlog_and_replayed(version: str, gtid_mode: str) -> None:
    """All types, by the tool and the server of 9.7; the tables are those that the sessions have made."""
    mysql, types = vendor("mysql"), types_of_version(version)
    with mysql.folder("older") as folder, mysql.server("older") as server:
        variables = ServerVariables(server_version=version, gtid_mode=gtid_mode)
        log = write_types(folder / "binlog", variables, types, mariadb=True)
        shown = mysql.run(
            "mysqlbinlog", "--no-defaults", "-vv", "--base64-output=decode-rows", "--verify-binlog-checksum",
            mysql.inside(log),
        )  # fmt: skip
        printed = mysql.run("mysqlbinlog", "--no-defaults", "--skip-gtids", mysql.inside(log))
        server.sql(printed.stdout)

        assert (shown.returncode, shown.stderr) == (0, b"")
        assert len(re.findall(rb"^### (?:INSERT|UPDATE|DELETE)", shown.stdout, re.MULTILINE)) == count_changes(log)
        expect_tables(server, types)


@pytest.mark.parametrize("kind", KINDS[1:])
@pytest.mark.parametrize(
    "version",
    [
        "5.1.73",
        "5.5.62",
        "5.5.68-MariaDB",
        "10.0.38-MariaDB",
        "10.1.48-MariaDB",
        "10.2.44-MariaDB",
        "10.5.15-MariaDB",
        "10.6.21-MariaDB",
        "11.4.5-MariaDB",
    ],
)
def test_logs_of_older_servers_are_read_by_mariadb_binlog_and_replayed(version: str, kind: str) -> None:
    """Those of MySQL 5.1 and 5.5 too, whose format MariaDB has inherited."""
    mariadb, types = vendor(kind), types_of_version(version)
    with mariadb.folder("older") as folder, mariadb.server("older") as server:
        variables = ServerVariables(server_version=version, binlog_row_metadata="MINIMAL")
        log = write_types(folder / "binlog", variables, types, mariadb=True)
        shown = mariadb.run(
            "mariadb-binlog", "--no-defaults", "-vv", "--base64-output=decode-rows", mariadb.inside(log)
        )
        printed = mariadb.run("mariadb-binlog", "--no-defaults", mariadb.inside(log))
        server.sql(printed.stdout)

        assert shown.returncode == 0
        assert len(re.findall(rb"^### (?:INSERT|UPDATE|DELETE)", shown.stdout, re.MULTILINE)) == count_changes(log)
        expect_tables(server, types)
