"""Point-in-time recovery on real servers: a vendor's backup, the log up to an accident, and undo of the accident.

The load has what makes recovery hard: XA transactions across the backup, foreign keys, triggers, DDL, savepoints,
tables without transactions, temporary tables. The source's tables just before the accident decide.
"""

from __future__ import annotations

import re
from contextlib import closing
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any, Final, TypeGuard

import pytest
from click.testing import CliRunner

import binlogio
from binlogio.events import BinlogEvent
from binlogio.events.gtid import GtidEvent
from binlogio.events.mariadb import MariadbGtidEvent
from binlogio_cli.main import cli
from random_sessions import RandomSessions, copied_logs, difference, state
from real_servers import Instance, seeds, vendor
from target_servers import connect, fed, place, reset, tables, url

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.server, pytest.mark.slow]

GTIDS: Final = ("--gtid-mode=ON", "--enforce-gtid-consistency=ON")
DUMP: Final = {
    "mysql": ("mysqldump", "--source-data=2", "--set-gtid-purged=ON"),
    "mariadb": ("mariadb-dump", "--master-data=2", "--gtid"),
}
PLACE: Final = re.compile(rb"_LOG_FILE='([^']+)', (?:MASTER|SOURCE)_LOG_POS=(\d+)")
GTID_SET: Final = re.compile(rb"(?:GTID_PURGED=/\*!80000 '\+'\*/ |gtid_slave_pos=)'([^']+)'")

SCHEMA: Final = """
CREATE DATABASE shop; USE shop;
CREATE TABLE customers (id INT PRIMARY KEY, name VARCHAR(40), balance DECIMAL(10,2) DEFAULT 0);
CREATE TABLE orders (id INT PRIMARY KEY AUTO_INCREMENT, customer INT, note TEXT,
  FOREIGN KEY (customer) REFERENCES customers (id) ON DELETE CASCADE ON UPDATE CASCADE);
CREATE TABLE items (id INT PRIMARY KEY AUTO_INCREMENT, `order` INT, price DOUBLE,
  FOREIGN KEY (`order`) REFERENCES orders (id) ON DELETE CASCADE);
CREATE TABLE audit (id INT PRIMARY KEY AUTO_INCREMENT, what VARCHAR(80));
CREATE TABLE transfers (id INT PRIMARY KEY, what VARCHAR(40));
CREATE TABLE visits (id INT, page VARCHAR(20)) ENGINE=MyISAM;
CREATE TRIGGER placed AFTER INSERT ON orders FOR EACH ROW INSERT INTO audit (what) VALUES (CONCAT('order ', NEW.id));
CREATE TRIGGER gone BEFORE DELETE ON orders FOR EACH ROW INSERT INTO audit (what) VALUES (CONCAT('gone ', OLD.id));
"""
ACCIDENT: Final = ("BEGIN", "DELETE FROM items WHERE id % 3 <> 1", "UPDATE customers SET balance = 0", "COMMIT")


def load(server: Instance, first: int) -> None:
    """Thirty rounds of statements, numbered from `first` on, and DDL between them."""
    with closing(connect(server)) as connection, connection.cursor() as cursor:
        cursor.execute("USE shop")
        for number in range(first, first + 30):
            for sql in (
                "BEGIN",
                f"INSERT INTO customers (id, name, balance) VALUES ({number}, 'Ünal {number}', {number}.25)",
                f"INSERT INTO orders (customer, note) VALUES ({number}, REPEAT('x', {number}))",
                "SAVEPOINT a",
                f"UPDATE customers SET balance = balance - 1 WHERE id < {number}",
                "ROLLBACK TO a" if number % 3 == 0 else "RELEASE SAVEPOINT a",
                f"INSERT INTO items (`order`, price) SELECT id, {number} / 3 FROM orders WHERE customer = {number}",
                "ROLLBACK" if number % 7 == 0 else "COMMIT",
                f"INSERT INTO visits VALUES ({number}, 'page')",
                f"DELETE FROM customers WHERE id = {number - 5}" if number % 4 == 0 else "DO 1",
                f"UPDATE customers SET id = id + 10000 WHERE id = {number - 3}" if number % 5 == 0 else "DO 1",
            ):
                cursor.execute(sql)
            if number % 6 == 0:
                xa(cursor, f"whole{number}", number)
        for sql in (
            f"ALTER TABLE customers ADD COLUMN extra{first} INT DEFAULT {first}",
            f"CREATE TABLE copy{first} (PRIMARY KEY (id)) SELECT id, name FROM customers",
            f"CREATE TEMPORARY TABLE work{first} (id INT)",
            f"INSERT INTO work{first} VALUES (1), (2)",
            f"INSERT INTO visits SELECT id, 'work' FROM work{first}",
            f"RENAME TABLE copy{first} TO kept{first}",
            f"CREATE TABLE short{first} (id INT)",
            f"INSERT INTO short{first} VALUES (1)",
            f"TRUNCATE short{first}",
            f"CREATE INDEX by_name ON kept{first} (name)",
            f"DROP TABLE IF EXISTS gone{first}, short{max(first - 1000, 0)}",
        ):
            cursor.execute(sql)


def xa(cursor: Any, name: str, number: int, *, is_finished: bool = True) -> None:
    """Execute an XA transaction with one row; it may stay prepared, and then it blocks DDL of its table."""
    for sql in (
        f"XA START '{name}'",
        f"INSERT INTO shop.transfers VALUES ({number}, '{name}')",
        f"XA END '{name}'",
        f"XA PREPARE '{name}'",
        *((f"XA COMMIT '{name}'",) if is_finished else ()),
    ):
        cursor.execute(sql)


@dataclass(frozen=True)
class Drill:
    """History of the source.

    `before` are its tables just before the accident, `accident` its begin and end in the log.
    """

    source: Instance
    target: Instance
    dump: bytes
    logs: list[Path]
    before: dict[str, Any]
    accident: tuple[str, str]


@pytest.fixture(scope="module", params=["mysql", "mariadb", "mariadb118"])
def drill(request: pytest.FixtureRequest) -> Iterator[Drill]:
    """Load, backup while an XA transaction is prepared, more load, accident, and later changes."""
    kind: str = request.param
    options = GTIDS if kind == "mysql" else ("--binlog-format=ROW",)
    with (
        vendor(kind).server("source", "--server-id=3", *options) as source,
        vendor(kind).server("restored", "--server-id=4", *options) as target,
    ):
        source.sql(SCHEMA)
        load(source, 100)
        with closing(connect(source)) as prepared, prepared.cursor() as cursor:
            xa(cursor, "across", 1, is_finished=False)
        source.sql("FLUSH BINARY LOGS")
        dump = backup(source, "shop")
        load(source, 1100)
        source.sql("XA COMMIT 'across'; FLUSH BINARY LOGS")
        load(source, 2100)
        before, start = tables(source), place(source)
        source.sql("USE shop; " + "; ".join(ACCIDENT))
        end = place(source)
        source.sql("INSERT INTO shop.visits VALUES (1, 'later'); CREATE TABLE shop.later (id INT); FLUSH BINARY LOGS")
        logs = sorted(source.data.glob("binlog.0*"))
        yield Drill(source, target, dump, logs, before, (start, end))


def backup(server: Instance, *databases: str) -> bytes:
    program, *options = DUMP[server.vendor.client]
    common = ("--single-transaction", "--routines", "--triggers", "--databases", *databases)
    done = server.vendor.run(
        program, "--no-defaults", "-uroot", "-S", f"/run/mysqld/{server.name}.sock", *options, *common
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def restore(drill: Drill) -> None:
    """Load the backup into an empty server."""
    reset(drill.target)
    drill.target.sql(drill.dump)


def roll_forward(drill: Drill, *options: str) -> None:
    files = [str(log) for log in drill.logs]
    done = CliRunner().invoke(cli, ["replay", "--to", url(drill.target), *options, *files])
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize("workers", ["1", "8"])
def test_backup_and_log_by_position_end_in_the_tables_before_the_accident(drill: Drill, workers: str) -> None:
    """From the position that the dump tool wrote, up to that of the accident."""
    found = PLACE.search(drill.dump)
    assert found is not None
    start = f"{found[1].decode()}:{int(found[2])}"
    restore(drill)
    roll_forward(drill, "--start-position", start, "--stop-position", drill.accident[0], "--workers", workers)

    assert tables(drill.target) == drill.before


def test_backup_and_log_by_gtid_end_in_the_tables_before_the_accident(drill: Drill) -> None:
    """Without those that the dump has, up to that of the accident."""
    found = GTID_SET.search(drill.dump.replace(b"\n", b""))
    assert found is not None
    option = "--start-position" if drill.target.vendor.is_mariadb else "--exclude-gtids"
    restore(drill)
    roll_forward(drill, option, found[1].decode(), "--stop-position", drill.accident[0], "--workers", "4")

    assert tables(drill.target) == drill.before


def test_log_without_the_accident_ends_in_the_tables_of_a_server_without_it(drill: Drill) -> None:
    """The accident is left out by its GTID; what came later is there."""
    with binlogio.open(drill.logs) as reader:
        gtid = next(str(e.gtid) for e in reader if is_at(e, reader.position.file, drill.accident[0]))
    dumped = PLACE.search(drill.dump)
    assert dumped is not None
    start = f"{dumped[1].decode()}:{int(dumped[2])}"
    restore(drill)
    roll_forward(drill, "--start-position", start, "--exclude-gtids", gtid)
    found = tables(drill.target)
    live = tables(drill.source)
    rows = ("shop.items", "shop.customers")

    assert {name: found[name] for name in rows} == {name: drill.before[name] for name in rows}
    assert {name: live[name] for name in live if name not in rows} == {
        name: found[name] for name in found if name not in rows
    }


def is_at(event: BinlogEvent, file: str, place_of: str) -> TypeGuard[GtidEvent | MariadbGtidEvent]:
    """Return whether an event is the GTID of the group at a place."""
    name, _, offset = place_of.rpartition(":")
    return (
        isinstance(event, GtidEvent | MariadbGtidEvent) and file.endswith(name) and event.header.offset == int(offset)
    )


@pytest.mark.parametrize("form", ["sql", "binlog"])
def test_accident_is_taken_back_on_the_live_server(drill: Drill, tmp_path: Path, form: str) -> None:
    """The rows of its tables are what they were; what came after it stays.

    Taken back, it is done again for the next one.
    """
    start, end = drill.accident
    chosen = ("--start-position", start, "--stop-position", end, "--table", "shop.items", "--table", "shop.customers")
    output = tmp_path / "undo.000001"
    done = CliRunner().invoke(
        cli, ["undo", *chosen, "--output" if form == "sql" else "--to-binlog", str(output), *map(str, drill.logs)]
    )
    assert done.exit_code == 0, done.output
    later = {name: rows for name, rows in tables(drill.source).items() if name not in drill.before}
    if form == "sql":
        drill.source.sql(output.read_bytes())
    else:
        with drill.source.vendor.folder("undo") as folder:
            inside = folder / output.name
            inside.write_bytes(output.read_bytes())
            program = ("mysqlbinlog", "--skip-gtids") if drill.source.vendor.kind == "mysql" else ("mariadb-binlog",)
            drill.source.sql(drill.source.vendor.run(*program, drill.source.vendor.inside(inside)).stdout)
    found = tables(drill.source)
    drill.source.sql("USE shop; " + "; ".join(ACCIDENT))

    assert {name: found[name] for name in ("shop.items", "shop.customers")} == {
        name: drill.before[name] for name in ("shop.items", "shop.customers")
    }
    assert {name: found[name] for name in later} == later


def test_logs_up_to_a_random_place_end_in_the_tables_before_it(drill: Drill, tmp_path: Path) -> None:
    """A backup and the logs after it, by position and by GTIDs, as a replay and through the vendor's client."""
    source, target, is_mariadb = drill.source, drill.target, drill.source.vendor.is_mariadb
    wrong: dict[Any, Any] = {}
    for seed in seeds("1"):
        random = Random(seed)
        with RandomSessions(source, random, random.choice(["ROW", "MIXED"])) as sessions:
            sessions.run(random.randrange(60))
            sessions.drop_temporary_tables()
            dump = backup(source, *source.sql("SHOW DATABASES LIKE 'w%'").split())
            sessions.run(random.randrange(80))
            expected, end = state(source), place(source)
            done = source.sql("SELECT @@gtid_binlog_pos" if is_mariadb else "SELECT @@gtid_executed").replace("\\n", "")
            sessions.run(random.randrange(1, 30))
        logs = copied_logs(source, tmp_path / str(seed))
        at, known = PLACE.search(dump), GTID_SET.search(dump.replace(b"\n", b""))
        assert at is not None
        assert known is not None
        start = ("--start-position", f"{at[1].decode()}:{int(at[2])}")
        stop = ("--stop-position", end)
        after = ("--start-position" if is_mariadb else "--exclude-gtids", known[1].decode())
        up_to = ("--stop-position" if is_mariadb else "--include-gtids", done.strip())
        for command, options in (
            ("replay", (*start, *stop)),
            ("replay", (*start, *stop, "--workers", "4")),
            ("replay", (*after, *stop, "--workers", "4")),
            ("replay", (*after, *up_to)),
            ("dump", (*start, *stop)),
            ("dump", (*after, *up_to)),
        ):
            reset(target)
            target.sql(dump)
            to = ("--to", url(target)) if command == "replay" else ("--format", "sql")
            ran = CliRunner().invoke(cli, [command, *to, *options, *logs])
            message = ran.output if ran.exit_code else ""
            if command == "dump":
                session = random.choice(["time_zone = '+09:00'", "sql_mode = 'ANSI'", "foreign_key_checks = 0"])
                charset = random.choice(["utf8mb4", "latin1", "sjis"])
                client = (f"--init-command=SET {session}", f"--default-character-set={charset}")
                message += fed(target, ran.stdout_bytes, *client).stderr.decode()
            found = difference(expected, state(target))
            if message or found:
                wrong[seed, command, options] = message[-500:], found

    assert wrong == {}
