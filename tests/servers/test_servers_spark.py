"""Spark against real servers.

`mysqlbinlog` reads the logs that Spark wrote, a server that is fed with them has the same tables, and a stream of a
server's logs notices that the server began new ones.
"""

from __future__ import annotations

import json
import random
import re
import shutil
from collections import Counter
from contextlib import closing
from random import Random
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import binlogio
from binlogio import ServerVariables
from binlogio.columnar import logs_without
from binlogio.errors import ChangedLogs
from binlogio.replay import SqliteTarget, replay
from binlogio.selection.event_filter import EventFilter
from binlogio.storage import find_logs
from corpus import MYSQL
from expected_tables import differences
from expected_values import expected_row
from judged_types import READABLE, TYPES, count_changes, create_statement, expect_tables, write_types
from lake_tables import lake_table
from pyspark_binlogio import archive_to, sync_to
from real_servers import KINDS, vendor
from served_logs import await_tables, free_port, served, start_replica, tables
from server_tables import expected
from spark_replays import opened, rows_of, unknown
from spark_streams import HAS_READ_LIMITS, Stream
from spark_writes import cut, logs, records, write
from target_servers import connect

pytest.importorskip("pyspark.sql.datasource")

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from judged_types import Typed

pytestmark = [pytest.mark.server, pytest.mark.slow]
CREATE_DATABASE = "CREATE DATABASE judge COLLATE utf8mb4_0900_ai_ci;"
COLLATION = "COLLATE utf8mb4_general_ci"  # the default of MariaDB 10.11 is latin1


def definitions(types: tuple[Typed, ...]) -> str:
    return json.dumps({f"judge.t{number}": create_statement(number, typed) for number, typed in enumerate(types)})


def rewritten(log: Path, folder: Path, types: tuple[Typed, ...], **options: str) -> list[Path]:
    """Return the row changes of a log, as Spark writes them with three tasks."""
    write(cut(records(log, **options), 3), folder, schemaFile=definitions(types))
    return [folder / line.removeprefix("./") for line in (folder / "binlog.index").read_text().splitlines()]


@pytest.mark.parametrize("checksum", ["CRC32", "NONE"])
def test_mysqlbinlog_reads_what_spark_writes(checksum: str) -> None:
    """Every file with its checksums, and as many changes as were written."""
    mysql = vendor("mysql")
    with mysql.folder("spark-read") as folder:
        log = write_types(folder / "binlog", ServerVariables(binlog_checksum=checksum), READABLE)
        found = 0
        for path in rewritten(log, folder / "spark", READABLE):
            done = mysql.run(
                "mysqlbinlog", "--no-defaults", "-vv", "--base64-output=decode-rows", "--verify-binlog-checksum",
                mysql.inside(path),
            )  # fmt: skip
            found += len(re.findall(rb"^### (?:INSERT|UPDATE|DELETE)", done.stdout, re.MULTILINE))
            assert (done.returncode, done.stderr) == (0, b"")

        assert found == count_changes(log)


@pytest.mark.parametrize("images", ["text", "structs"])
def test_server_fed_with_what_spark_writes_has_the_same_tables(images: str) -> None:
    """JSON images of all tables at once, and structs of one table after the other."""
    mysql = vendor("mysql")
    with mysql.folder("spark-feed") as folder, mysql.server("sparkfeed") as server:
        log = write_types(folder / "binlog", ServerVariables(gtid_mode="OFF"), TYPES)
        if images == "text":
            paths = rewritten(log, folder / "spark", TYPES)
        else:
            tables = [f"judge.t{number}" for number in range(len(TYPES))]
            paths = [path for table in tables for path in rewritten(log, folder / table, TYPES, table=table)]
        server.sql(CREATE_DATABASE + ";".join(create_statement(number, typed) for number, typed in enumerate(TYPES)))
        for path in paths:
            server.sql(mysql.run("mysqlbinlog", "--no-defaults", "--skip-gtids", mysql.inside(path)).stdout)

        expect_tables(server, TYPES)


@pytest.mark.parametrize("images", ["text", "structs"])
@pytest.mark.parametrize("kind", KINDS[1:])
def test_mariadb_takes_what_spark_writes_as_mariadb(kind: str, images: str) -> None:
    """Its tool prints every file, checksums verified; the server has the same tables and GTIDs of two domains."""
    mariadb = vendor(kind)
    types = tuple(typed for typed in TYPES if not typed.only_mysql)
    with mariadb.folder("spark-feed") as folder, mariadb.server("sparkfeed") as server:
        variables = ServerVariables(server_version=mariadb.version)
        log = write_types(folder / "binlog", variables, types, mariadb=True)
        given = json.dumps({name: f"{sql} {COLLATION}" for name, sql in json.loads(definitions(types)).items()})
        tables = ["judge.*"] if images == "text" else [f"judge.t{number}" for number in range(len(types))]
        option = "tables" if images == "text" else "table"
        parts = [records(log, **{option: table}) for table in tables]
        server.sql(
            f"CREATE DATABASE judge {COLLATION};"
            + ";".join(create_statement(number, typed) for number, typed in enumerate(types))
        )
        for number, part in enumerate(parts):
            at = part.schema.get_field_index("gtid")
            gtids = [f"{number % 2 + 5}{gtid[gtid.index('-') :]}" for gtid in part.column(at).to_pylist()]
            out = folder / f"spark{number}"
            write(
                cut(part.set_column(at, "gtid", pa.array(gtids)), 3),
                out,
                schemaFile=given,
                serverVersion=mariadb.version,
            )
            for path in logs(out):
                printed = mariadb.run(
                    "mariadb-binlog", "--no-defaults", "--verify-binlog-checksum", mariadb.inside(path)
                )
                assert (printed.returncode, printed.stderr) == (0, b"")
                server.sql(printed.stdout)

        expect_tables(server, types)
        state = server.sql("SELECT @@gtid_binlog_state").strip().split(",")
        assert {gtid.partition("-")[0] for gtid in state} >= ({"5", "6"} if images == "structs" else {"5"})


@pytest.mark.spark
@pytest.mark.parametrize(  # each pair of values once
    ("kind", "metadata", "image"),
    [
        ("mysql", "FULL", "FULL"), ("mysql", "MINIMAL", "MINIMAL"),
        ("mariadb118", "FULL", "MINIMAL"), ("mariadb118", "MINIMAL", "FULL"),
    ],
)  # fmt: skip
def test_replay_through_ddl_gives_the_tables_of_the_server(
    spark: SparkSession, tmp_path: Path, kind: str, metadata: str, image: str
) -> None:
    """Columns, types, keys and names that change: Spark, SQLite and SELECT have the same rows."""
    options = (f"--binlog-row-metadata={metadata}", f"--binlog-row-image={image}", "--character-set-server=utf8mb4")
    with vendor(kind).server(f"altered{metadata}{image}", "--binlog-format=ROW", *options) as server:
        server.sql("RESET MASTER" if vendor(kind).is_mariadb else "RESET BINARY LOGS AND GTIDS")
        server.sql((MYSQL / "altered" / "source.sql").read_text("utf-8"))
        server.sql("FLUSH BINARY LOGS")
        with closing(connect(server)) as connection:
            tables = json.loads(expected(connection, {}))["tables"]
        log = tmp_path / "binlog.000001"
        shutil.copy(server.data / log.name, log)

    with closing(SqliteTarget.open(tmp_path / "replayed.db")) as target, binlogio.open(log) as reader:
        replay(reader, target)
        assert differences(target.connection, tables, {}) == []
    on_spark = opened(spark, [log])
    for name, table in tables.items():
        plan = on_spark.plan(name)
        theirs = Counter(expected_row(row, table, plan) for row in table["rows"])
        assert rows_of(on_spark.state(name), table, plan, unknown(on_spark, name)) == theirs, name


def random_statements(dice: Random, count: int) -> Iterator[str]:
    """Yield statements on two tables: a change of a key, a change by range, and TRUNCATE now and then."""
    for _ in range(count):
        key, other, table = dice.randrange(40), dice.randrange(40), dice.choice("ab")
        yield dice.choice(
            [
                f"REPLACE INTO d.{table} VALUES ({key}, {other}.5, 'é{other}', '2026-01-01 00:00:{key:02}')",
                f"INSERT IGNORE INTO d.{table} VALUES ({key}, NULL, '', NULL)",
                f"UPDATE IGNORE d.{table} SET id = {other} WHERE id = {key}",
                f"UPDATE d.{table} SET n = n + 1, s = CONCAT(s, 'x') WHERE id BETWEEN {key} AND {other}",
                f"DELETE FROM d.{table} WHERE id = {key}",
                f"TRUNCATE TABLE d.{table}" if dice.random() < 0.1 else f"ALTER TABLE d.{table} COMMENT = '{key}'",
                "FLUSH BINARY LOGS" if dice.random() < 0.2 else f"DELETE FROM d.{table} WHERE id < {key // 4}",
            ]
        )


@pytest.mark.spark
@pytest.mark.parametrize("kind", KINDS)
def test_archive_and_rows_in_lakes_are_those_of_a_server_at_work(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    """Calls between changes: the archived changes, one after the other, and the rows in both lakes give SELECT."""
    dice, row = Random(kind), "(id INT UNSIGNED PRIMARY KEY, n DECIMAL(20,5), s VARCHAR(50), t DATETIME NULL)"
    with vendor(kind).server("lakes", "--binlog-format=ROW", "--character-set-server=utf8mb4") as server:
        logs = server.data / "binlog.0*"
        server.sql("RESET MASTER" if vendor(kind).is_mariadb else "RESET BINARY LOGS AND GTIDS")
        server.sql(
            f"CREATE DATABASE d; CREATE TABLE d.a {row}; CREATE TABLE d.b {row}; INSERT INTO d.a (id) VALUES (50)"
        )
        for _ in range(4):
            server.sql("".join(f"{one};\n" for one in random_statements(dice, 60)))
            archive_to(spark, logs, tmp_path / "changes", by="hour", maxPartitionBytes="8k")
            for form in ("delta", "iceberg"):
                sync_to(spark, logs, tmp_path / form, format=form)
        with closing(connect(server)) as connection, connection.cursor() as cursor:
            tables = {}
            for name in "ab":
                cursor.execute(f"SELECT id, n, s, t FROM d.{name} ORDER BY id")
                tables[name] = [tuple(one) for one in cursor.fetchall()]

    for name, expected_rows in tables.items():
        found = pa.concat_tables(
            pq.ParquetFile(one).read() for one in (tmp_path / "changes").rglob(f"d.{name}/**/*.parquet")
        )
        state: dict[int, tuple[object, ...]] = {}
        for change in sorted(found.to_pylist(), key=lambda one: (one["file"], one["pos"], one["row"])):
            state.pop(change["before"]["id"] if change["before"] else -1, None)
            state |= {change["after"]["id"]: tuple(change["after"].values())} if change["after"] else {}
        lakes = {form: lake_table(tmp_path / form, form, f"d.{name}") for form in ("delta", "iceberg")}
        assert {form: sorted(tuple(one.values()) for one in rows.to_pylist()) for form, rows in lakes.items()} == (
            dict.fromkeys(lakes, expected_rows)
        )
        assert set(expected_rows) <= set(state.values())  # TRUNCATE is no change of a row


@pytest.mark.parametrize("more_rows", [1, 60])
@pytest.mark.parametrize("kind", KINDS)
def test_stream_refuses_the_logs_of_a_server_that_was_reset(kind: str, more_rows: int) -> None:
    """The new log of the same name is shorter or longer than the position of the stream; an option allows it."""
    reset = "RESET MASTER" if vendor(kind).is_mariadb else "RESET BINARY LOGS AND GTIDS"
    with vendor(kind).server(f"reset{more_rows}", "--binlog-format=ROW") as server:
        server.sql("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY)")
        server.sql("".join(f"INSERT INTO d.t VALUES ({key});" for key in range(20)))
        stream = Stream(server.data / "binlog.0*", tables="d.t")
        read = stream.rest()
        assert len(read) == 20

        server.sql(f"{reset};" + "".join(f"INSERT INTO d.t VALUES ({key});" for key in range(100, 100 + more_rows)))
        with pytest.raises(ChangedLogs, match="the logs are not those that the stream has read") as caught:
            stream.batch()
        assert "changedLogs" in str(caught.value)
        again = Stream(server.data / "binlog.0*", stream.offset, tables="d.t", changedLogs="restart")
        assert len(again.rest()) == more_rows


@pytest.mark.skipif(not HAS_READ_LIMITS, reason="PySpark 4.1 does not pass the start of a batch")
@pytest.mark.parametrize("kind", KINDS)
def test_stream_continues_with_a_replica_after_a_failover(kind: str) -> None:
    """A replica with several threads becomes the source: each of its transactions once, those of both servers."""
    programs, port = vendor(kind), free_port()
    gtids = () if programs.is_mariadb else ("--gtid-mode=ON", "--enforce-gtid-consistency=ON")
    threads = "--slave-parallel-threads=4" if programs.is_mariadb else "--replica-parallel-workers=4"
    more = ("--server-id=99", "--log-slave-updates" if programs.is_mariadb else "--log-replica-updates", threads)
    place = "MASTER_USE_GTID=slave_pos" if programs.is_mariadb else "SOURCE_AUTO_POSITION=1"
    create = "CREATE DATABASE IF NOT EXISTS shop; CREATE TABLE IF NOT EXISTS shop.t (id INT PRIMARY KEY);"
    create += "CREATE TABLE IF NOT EXISTS shop.u (id INT PRIMARY KEY);"
    with (
        programs.server("failsource", "--binlog-format=ROW", *gtids) as source,
        programs.server("failreplica", "--binlog-format=ROW", *gtids, *more) as replica,
    ):
        if programs.is_mariadb:
            replica.sql("RESET MASTER")
        source.sql(create + "".join(f"INSERT INTO shop.t VALUES ({key});" for key in range(60)))
        stream = Stream(source.data / "binlog.0*", tables="shop.*")
        stream.columns = ["after"]
        read = [row["after"] for row in stream.rest()]
        offset = stream.offset
        source.sql("FLUSH BINARY LOGS;" + "".join(f"INSERT INTO shop.u VALUES ({key});" for key in range(40)))
        with served(source.data, port=port):
            start_replica(replica, port, place)
            await_tables(replica, tables(source))
        replica.sql("STOP SLAVE" if programs.is_mariadb else "STOP REPLICA")
        replica.sql("".join(f"INSERT INTO shop.u VALUES ({key});" for key in range(100, 130)))
        after = Stream(replica.data / "binlog.0*", offset, tables="shop.*")
        after.columns = ["after"]
        found = [row["after"] for row in after.rest()]

        assert len(read) == 60
        assert len(found) == len(set(found)) == 70

        source.sql("RESET MASTER" if programs.is_mariadb else "RESET BINARY LOGS AND GTIDS")
        source.sql("".join(f"INSERT INTO shop.t VALUES ({key});" for key in range(1000, 1200)))
        with pytest.raises(ChangedLogs, match=r"(no log has|has another transaction with the GTID) [-:\w]+"):
            Stream(source.data / "binlog.0*", offset, tables="shop.*").batch()


@pytest.mark.parametrize("strict", ["ON", "OFF"])
@pytest.mark.parametrize("kind", ["mariadb", "mariadb118"])
def test_logs_of_mariadb_are_skipped_by_numbers_of_a_strict_server_only(kind: str, strict: str) -> None:
    """Several servers and domains in one log; a server without strict mode takes numbers that go back."""
    chance = random.Random(strict)
    with vendor(kind).server(f"pruned{strict}", "--binlog-format=ROW", f"--gtid-strict-mode={strict}") as server:
        server.sql("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY AUTO_INCREMENT)")
        for _ in range(12):
            for _ in range(chance.randrange(1, 9)):
                place = f"SET server_id = {chance.choice([1, 2])}, gtid_domain_id = {chance.choice([0, 7])};"
                back = f"SET gtid_seq_no = {chance.randrange(1, 1000)};" if strict == "OFF" else ""
                server.sql(f"{place}{back} INSERT INTO d.t VALUES ();")
            server.sql("FLUSH BINARY LOGS")
        refused = server.vendor.run(
            "mariadb", "--no-defaults", "-uroot", "-S", f"/run/mysqld/{server.name}.sock",
            "-e", "SET gtid_domain_id = 7, gtid_seq_no = 1; INSERT INTO d.t VALUES ()",
        )  # fmt: skip
        files = find_logs(server.data / "binlog.0*")
        rows = binlogio.read_rows(server.data / "binlog.0*").to_table().to_pylist()
        skipped: Counter[bool] = Counter()
        for gtid in sorted({row["gtid"] for row in rows}):
            where = EventFilter(gtids=frozenset({gtid}))
            wanted = {row["file"] for row in rows if row["gtid"] == gtid}
            for promised in (False, True) if strict == "ON" else (False,):
                left_out = {files[number].name for number in logs_without(files, where, is_strict=promised)}

                assert wanted.isdisjoint(left_out)
                skipped[promised] += len(left_out)

        assert (refused.returncode != 0) == (strict == "ON")
        assert strict == "OFF" or skipped[True] > 1.5 * skipped[False]
