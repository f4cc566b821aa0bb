"""Replay into a real MariaDB server with the GTIDs of the source: `gtid_binlog_state` says what is there."""

from __future__ import annotations

import random
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from click.testing import CliRunner, Result

import binlogio
from binlogio.events.mariadb import MariadbGtidEvent, MariadbGtidFlag
from binlogio.options import Position
from binlogio.replay import ReplayFilter, replay
from binlogio.replay.targets.mysql.target import MysqlTarget
from binlogio_cli.main import cli
from real_servers import Instance, vendor
from replay.test_killed_replay import started_replays
from target_servers import OPTIONS, connect, emptied, tables, url

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.server, pytest.mark.slow]
ROUNDS: Final = 150


@pytest.fixture(scope="module", params=["mariadb", "mariadb118"])
def source(request: pytest.FixtureRequest) -> Iterator[Instance]:
    """Provide a MariaDB server with transactions of two domains, XA, DDL and tables of both kinds.

    Its log is complete.
    """
    with vendor(request.param).server(
        "gtidfrom", "--server-id=3", "--binlog-format=ROW", *OPTIONS["mariadb"]
    ) as server:
        server.sql(
            "CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY, n INT); CREATE TABLE d.keyless (n INT);"
            " CREATE TABLE d.m (id INT) ENGINE=MyISAM"
        )
        with closing(connect(server)) as connection, connection.cursor() as cursor:
            for number in range(ROUNDS):
                for sql in (
                    f"SET gtid_domain_id = {0 if number % 5 else 7}",
                    "BEGIN",
                    f"INSERT INTO d.t (id, n) VALUES ({number}, 0)",
                    f"UPDATE d.t SET n = n + 1 WHERE id % 7 = {number % 7}",
                    "SAVEPOINT a",
                    f"INSERT INTO d.keyless VALUES ({number % 5})",
                    "ROLLBACK TO a" if number % 11 == 0 else "RELEASE SAVEPOINT a",
                    "COMMIT",
                    f"INSERT INTO d.m VALUES ({number}), ({-number})",
                ):
                    cursor.execute(sql)
                if number % 20 == 0:
                    for sql in (f"XA START 'x{number}'", f"INSERT INTO d.keyless VALUES ({number})", f"XA END 'x{number}'",  # noqa: E501
                                f"XA PREPARE 'x{number}'", f"XA COMMIT 'x{number}'"):  # fmt: skip
                        cursor.execute(sql)
                if number % 30 == 0:
                    cursor.execute(f"ALTER TABLE d.t ADD COLUMN c{number} INT DEFAULT {number}")
                if number == ROUNDS // 2:
                    cursor.execute("FLUSH BINARY LOGS")
        server.sql("FLUSH BINARY LOGS")
        yield server


@pytest.fixture(scope="module")
def server(source: Instance) -> Iterator[Instance]:
    """Provide a target of the same version."""
    options = ("--server-id=4", "--gtid-strict-mode=1", "--binlog-format=ROW", *OPTIONS["mariadb"])
    with vendor(source.vendor.kind).server("gtidto", *options) as instance:
        yield instance


@pytest.fixture
def empty(server: Instance) -> Instance:
    """Provide the target without databases, and without a GTID."""
    emptied(server)
    server.sql("RESET MASTER; SET GLOBAL gtid_strict_mode = 1")
    return server


def state(server: Instance) -> str:
    return ",".join(sorted(server.sql("SELECT @@global.gtid_binlog_state").strip().split(",")))


def logs(server: Instance) -> list[str]:
    """Return the logs that the server has closed."""
    return sorted(str(log) for log in server.data.glob("binlog.0*") if log.suffix != ".idx")[:-1]


def run(server: Instance, *options: str) -> Result:
    return CliRunner().invoke(cli, ["replay", "--no-progress", "--to", url(server), *options])


@pytest.mark.parametrize("workers", ["1", "8"])
@pytest.mark.parametrize("how", ["events", "sql"])
def test_target_has_the_gtids_and_the_rows_of_the_source(
    source: Instance, empty: Instance, workers: str, how: str
) -> None:
    """And no position table. A second replay has nothing to do."""
    # As SQL, two rows of a table without transactions would be two groups.
    selected = ["--exclude-table", "d.m"] if how == "sql" else []
    options = ("--gtids", "keep", "--workers", workers, "--apply", how, *selected)
    first = run(empty, *options, *logs(source))
    again = run(empty, *options, *logs(source))
    wanted = {name: rows for name, rows in tables(source).items() if name != "d.m" or not selected}

    assert first.exit_code == again.exit_code == 0, first.output + again.output
    assert {name: rows for name, rows in tables(empty).items() if name != "d.m" or not selected} == wanted
    assert state(empty) == state(source) or selected  # the last groups of the source are of d.m
    assert "binlogio_replay" not in empty.sql("SHOW DATABASES")
    assert "0 rows inserted, 0 updated, 0 deleted" in again.stdout or again.stdout.startswith("replayed 0 event groups")


def test_log_of_the_target_has_the_groups_of_the_source(source: Instance, empty: Instance) -> None:
    """One group each, in the order of the source, but for XA PREPARE, which comes with its commit."""
    assert run(empty, "--gtids", "keep", "--workers", "8", *logs(source)).exit_code == 0
    empty.sql("FLUSH BINARY LOGS")
    prepared = {str(event.gtid) for event in events(source) if event.flags & MariadbGtidFlag.PREPARED_XA}

    assert [str(event.gtid) for event in events(empty)] == [
        str(event.gtid) for event in events(source) if str(event.gtid) not in prepared
    ]
    assert prepared


def events(server: Instance) -> list[MariadbGtidEvent]:
    with binlogio.open(logs(server)) as reader:
        return [event for event in reader if isinstance(event, MariadbGtidEvent)]


@pytest.mark.parametrize("workers", [1, 8])
def test_killed_replay_ends_with_every_transaction_once(source: Instance, empty: Instance, workers: int) -> None:
    """However often, and wherever; the rows without a key show one that is applied twice."""
    with started_replays() as replays:
        killed = replays.killed_until_done(url(empty), workers, logs(source), 1.5, random.Random(workers), 6, "keep")

    assert killed
    assert tables(empty) == tables(source)
    assert state(empty) == state(source)


def test_parts_one_after_the_other_are_the_whole(source: Instance, empty: Instance) -> None:
    """A replay that begins between XA PREPARE and XA COMMIT looks for the rows."""
    with binlogio.open(logs(source)) as reader:
        places = [
            Position(Path(reader.position.file).name, event.header.offset)
            for event in reader
            if isinstance(event, MariadbGtidEvent) and event.flags & MariadbGtidFlag.COMPLETED_XA
        ]
    for stop in (places[2], places[3], None):
        with closing(MysqlTarget.open(url(empty))) as target, binlogio.open(logs(source)) as reader:
            replay(reader, target, gtids="keep", wanted=ReplayFilter(stop=stop))

    assert tables(empty) == tables(source)
    assert state(empty) == state(source)


def test_new_gtids_are_the_default(source: Instance, empty: Instance) -> None:
    """The numbers of a restored server do not say what of the source it has."""
    assert run(empty, *logs(source)).exit_code == 0
    assert {gtid.split("-")[1] for gtid in state(empty).split(",")} == {"4"}
    assert "binlogio_replay" in empty.sql("SHOW DATABASES")


@pytest.mark.parametrize(
    ("settings", "options", "message"),
    [
        ("SET GLOBAL gtid_strict_mode = 0", (), "expected gtid_strict_mode=ON"),
        ("SET GLOBAL binlog_alter_two_phase = 1", (), "expected binlog_alter_two_phase=OFF"),
        ("DO 1", ("--no-preserve-commit-order",), "expected commits in the order of the log"),
        ("SET GLOBAL server_id = 3", (), "the target has the server_id of the source"),
    ],
)
def test_target_that_cannot_keep_them_is_refused(
    source: Instance, empty: Instance, settings: str, options: tuple[str, ...], message: str
) -> None:
    """Before anything is changed, with what to do."""
    empty.sql(settings)
    try:
        result = run(empty, "--gtids", "keep", *options, *logs(source))
    finally:
        empty.sql("SET GLOBAL server_id = 4; SET GLOBAL binlog_alter_two_phase = 0")

    assert result.exit_code == 1
    assert message in result.stderr
    assert "--gtids new" in result.stderr
    assert "d" not in empty.sql("SHOW DATABASES").split()


@pytest.mark.parametrize("start", ["0-3-0", "0-3-4"])
def test_gtid_that_is_not_higher_than_those_of_the_domain_is_refused(
    source: Instance, empty: Instance, start: str
) -> None:
    """The target's own transactions took the numbers: no DDL and no rows of the log are there, none is skipped."""
    if start != "0-3-0":
        empty.sql("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY, n INT); CREATE TABLE d.keyless (n INT)")
        empty.sql("CREATE TABLE d.m (id INT) ENGINE=MyISAM")
    empty.sql("CREATE DATABASE other; CREATE TABLE other.t (id INT); RESET MASTER")
    for domain in (7, 0):
        empty.sql(f"SET gtid_domain_id = {domain}; SET gtid_seq_no = 5000; INSERT INTO other.t VALUES (1)")
    before = tables(empty)
    result = run(empty, "--gtids", "keep", "--workers", "8", "--start-position", start, *logs(source))

    assert result.exit_code == 1
    assert "gtid_binlog_state" in result.stderr
    assert "--gtids new" in result.stderr
    assert tables(empty) == before
    assert "0-4-5000" in state(empty)


@pytest.mark.parametrize(
    ("statements", "found"),
    [
        ("CREATE TABLE d.c SELECT * FROM d.a", "with its rows, such as CREATE TABLE ... SELECT"),
        ("SET binlog_format = STATEMENT; INSERT INTO d.a VALUES (2)", "as SQL text"),
        ("UPDATE d.a, d.b SET d.a.n = 5, d.b.n = 6", "d.b, which is not transactional"),
    ],
)
def test_transaction_that_could_become_several_groups_is_refused(
    source: Instance, server: Instance, tmp_path: Path, statements: str, found: str
) -> None:
    """All before it is there; with new GTIDs the rest can be applied."""
    emptied(server)
    server.sql("RESET MASTER")
    server.sql(
        "CREATE DATABASE d; CREATE TABLE d.a (n INT); CREATE TABLE d.b (n INT) ENGINE=MyISAM;"
        " INSERT INTO d.a VALUES (1); INSERT INTO d.b VALUES (1)"
    )
    server.sql(f"SET server_id = 9; {statements}; FLUSH BINARY LOGS")
    log = tmp_path / "binlog.000001"
    log.write_bytes(Path(logs(server)[0]).read_bytes())
    emptied(server)
    server.sql("RESET MASTER")
    server.sql("SET GLOBAL server_id = 5")
    try:
        result = run(server, "--gtids", "keep", str(log))
        before = state(server)
        rest = run(server, "--gtids", "new", "--exclude-gtids", "0-4-1..5", str(log))
    finally:
        server.sql("SET GLOBAL server_id = 4")

    assert result.exit_code == 1
    assert found in result.stderr
    assert before == "0-4-5"
    assert rest.exit_code == 0, rest.output
