"""Replay into real servers: MySQL 9.7 and MariaDB end in the tables of the server that wrote the log."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from click.testing import CliRunner

import binlogio
from binlogio import BinlogWriter, ColumnDefinition, Insert, ServerVariables, Statement, TableDefinition, Update
from binlogio.constants import BINLOG_MAGIC, ColumnType, EventType
from binlogio.errors import PositionError, ReplayError
from binlogio.events import RowsEvent
from binlogio.events.control import XidEvent
from binlogio.events.gtid import AnonymousGtidEvent, GtidEvent
from binlogio.events.load import BeginLoadQueryEvent, ExecuteLoadQueryEvent
from binlogio.events.mariadb import MariadbGtidEvent
from binlogio.events.rows import WriteRowsEvent
from binlogio.options import Position
from binlogio.replay import ReplayFilter, ReplaySummary, replay
from binlogio.replay.apply import pace
from binlogio.replay.apply.worker_states import WAITING_FOR_PRECEDING
from binlogio.replay.filters import EVERYTHING
from binlogio.replay.targets.mysql.address import MysqlAddress
from binlogio.replay.targets.mysql.connection import Connection
from binlogio.replay.targets.mysql.target import MysqlTarget, lock_name
from binlogio.schema.identifiers import backticked
from binlogio.selection.event_filter import parse_gtid_set
from binlogio_cli.main import cli
from corpus import FIXTURES, Case
from hostile_values import HOSTILE, HOSTILE_BYTES
from logs import description, encode, header, log, query
from random_sessions import state
from real_servers import KINDS, Instance, vendor
from row_events import group
from target_servers import OPTIONS, cases_of, connect, emptied, fed, rows_of, tables, url

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.server, pytest.mark.slow]

# Foreign keys that cascade: a replay of the log, the server's own too, does not give these rows.
NOT_COMPARED: Final = ("corpus.kid2",)
# MODIFY to JSON: MySQL normalizes the documents, MariaDB keeps their text.
NOT_ALIKE: Final = {"mysql97/altered": ("corpus.types",)}
# What a server of the other vendor cannot have, by case: the reason that it gives.
CROSSED: Final = {
    "mysql": {
        "mariadb1011/annotate_rows": "SEQUENCE",
        "mariadb1011/basic_row": "SEQUENCE",
        "mariadb1011/checksum_none": "SEQUENCE",
        "mariadb1011/metadata_minimal": "ERROR 1425: Too big scale 38",
        "mariadb1011/types": "ERROR 1425: Too big scale 38",
        "mariadb1011/unique_hash": "ERROR 1170: BLOB/TEXT column",
    },
    "mariadb": {
        "mysql97/ddl_mix": "'caching_sha2_password' is not loaded",
        "mysql97/metadata_full": "VECTOR",
        "mysql97/metadata_minimal": "VECTOR",
        "mysql97/types_geometry_vector": "4326",  # SRID of a column; and VECTOR
        "mysql97/types_string": "Unknown collation: 'utf8mb4_ja_0900_as_cs'",
    },
}
CROSSED["mariadb118"] = {
    **CROSSED["mariadb"],
    "mysql97/format_statement": "Truncated incorrect unixtime value",  # FROM_UNIXTIME(0)
}


VERSIONED: Final = (
    "mariadb1011/metadata_minimal",
    "mariadb1011/types",
    "mariadb118/types",
    "mariadb118/types_temporal",
)


@pytest.fixture(scope="module", params=KINDS)
def server(request: pytest.FixtureRequest) -> Iterator[Instance]:
    """One server of each vendor for all tests."""
    common = ("--character-set-server=utf8mb4", "--log-bin-trust-function-creators=1", "--local-infile=1")
    with vendor(request.param).server("replay", *OPTIONS[request.param], *common) as instance:
        yield instance


def wanted_of(case: Case) -> dict[str, Any]:
    return {name: rows_of(table) for name, table in case.load("expected.json")["tables"].items()}


def replayed(server: Instance, case: Case, **options: Any) -> ReplaySummary:
    applies_events = options.pop("applies_events", None)
    with (
        closing(MysqlTarget.open(url(server), applies_events=applies_events)) as target,
        binlogio.open(case.logs, keyring=case.keys) as reader,
    ):
        return replay(reader, target, **options)


def take_turns(monkeypatch: pytest.MonkeyPatch, trial_s: float) -> None:
    """Without time for a trial, several workers and packets of one worker take turns at every transaction."""
    monkeypatch.setattr(pace, "_TRIAL_S", trial_s)
    monkeypatch.setattr(pace, "_LASTS_S", trial_s)


@pytest.mark.parametrize(("workers", "trial_s"), [(1, 0.5), (8, 0.5), (8, 0)])
def test_logs_of_the_same_vendor_end_in_the_tables_of_their_server(
    server: Instance, monkeypatch: pytest.MonkeyPatch, workers: int, trial_s: float
) -> None:
    """Every case, every row image; events are applied as they are."""
    take_turns(monkeypatch, trial_s)
    wrong = {}
    for case in cases_of(server.vendor.kind):
        emptied(server)
        replayed(server, case, workers=workers)
        found, wanted = tables(server), wanted_of(case)
        different = [name for name in wanted if name not in NOT_COMPARED and found.get(name) != wanted[name]]
        if different:
            wrong[case.id] = different

    assert wrong == {}


@pytest.mark.parametrize("workers", [1, 4])
def test_the_position_stays_until_the_first_commit_of_a_replay_without_resume(
    server: Instance, workers: int, tmp_path: Path
) -> None:
    """A replay that stops at its first transaction leaves the old position, one that stops later has its own."""
    table = TableDefinition("d", "t", (ColumnDefinition("id", "int", nullable=False),), ("id",))
    version = "10.11.6-MariaDB" if server.vendor.is_mariadb else "9.7.0"
    variables = ServerVariables(server_version=version, gtid_mode="OFF")
    with BinlogWriter(tmp_path / "binlog", variables=variables) as writer, writer.session("d") as session:
        for number in range(6):
            session.execute(Statement("INSERT", changes=[Insert(table, [(number,)])]))
    emptied(server)
    server.sql("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY)")

    def run(**options: Any) -> tuple[int, str]:
        options |= {"workers": workers, "gtids": "new"}
        with closing(MysqlTarget.open(url(server))) as target, binlogio.open(tmp_path) as reader:
            try:
                return replay(reader, target, **options).groups, ""
            except ReplayError as exc:
                return -1, str(exc)

    first = run()
    failed, again = run(resumes=False), run()
    server.sql("DELETE FROM d.t WHERE id < 2")
    later = run(resumes=False)
    server.sql("DELETE FROM d.t WHERE id > 1")
    rest = run()
    whole = server.sql("SELECT GROUP_CONCAT(id ORDER BY id) FROM d.t").strip()
    last = run()

    assert (first[0], failed[0], again, later[0], rest, last) == (6, -1, (0, ""), -1, (4, ""), (0, ""))
    assert whole == "0,1,2,3,4,5"


@pytest.mark.parametrize("workers", [1, 8])
def test_logs_of_the_other_vendor_end_in_the_same_rows(server: Instance, workers: int) -> None:
    """Every case, as SQL of rows, found by find_row; or the reason why the server cannot have it.

    JSON is compared as text, which is what MariaDB has.
    """
    wrong: dict[str, Any] = {}
    for case in cases_of("mysql" if server.vendor.is_mariadb else "mariadb"):
        emptied(server)
        reason = CROSSED[server.vendor.kind].get(case.id)
        try:
            replayed(server, case, workers=workers)
        except ReplayError as exc:
            if reason is None or reason not in str(exc):
                wrong[case.id] = str(exc)
            continue
        found, wanted = tables(server), wanted_of(case)
        compared = [name for name in wanted if name not in NOT_ALIKE.get(case.id, ())]
        different = [name for name in compared if as_text(found.get(name)) != as_text(wanted[name])]
        if different or reason is not None:
            wrong[case.id] = different

    assert wrong == {}


def as_text(rows: list[Any] | None) -> list[Any] | None:
    """Rows with JSON documents as their text."""
    if rows is None:
        return None
    return [[v["json"] if isinstance(v, dict) and "json" in v else v for v in row] for row in rows]


def test_rows_as_sql_are_those_of_the_events(server: Instance) -> None:
    """The same vendor, by SQL: every case.

    JSON is compared by its text, since a number may take another number of bytes; versioned tables need events.
    """
    wrong: dict[str, Any] = {}
    for case in cases_of(server.vendor.kind):
        emptied(server)
        try:
            replayed(server, case, workers=4, applies_events=False)
        except ReplayError as exc:
            if case.id not in VERSIONED:
                wrong[case.id] = str(exc)
            continue
        found, wanted = tables(server), wanted_of(case)
        different = [name for name in wanted if as_text(found.get(name)) != as_text(wanted[name])]
        if [name for name in different if name not in NOT_COMPARED] or case.id in VERSIONED:
            wrong[case.id] = different

    assert wrong == {}


@pytest.mark.parametrize("applies_events", [True, False])
def test_hostile_names_and_values_come_back_as_they_are(server: Instance, tmp_path: Path, applies_events: bool) -> None:
    """Quotes, backslashes, comments, NUL and invalid bytes, in names of schemas, tables and columns, and in values."""
    schema, name, column = "s'`\\\"; --", "t`'; DROP", "c'\\`\"/*"
    mariadb = server.vendor.is_mariadb
    if mariadb and applies_events:
        pytest.skip("the log is one of MySQL")
    columns = (
        ColumnDefinition("id", "int", nullable=False),
        ColumnDefinition(column, "varchar(80)"),
        ColumnDefinition("b`", "varbinary(80)"),
    )
    table = TableDefinition(schema, name, columns, ("id",), collation="utf8mb4_general_ci")
    rows: list[dict[str, Any]] = [{"id": at, column: text, "b`": None} for at, text in enumerate(HOSTILE)]
    rows += [{"id": 100 + at, column: None, "b`": data} for at, data in enumerate(HOSTILE_BYTES)]
    quoted = {part: backticked(part) for part in (schema, name, column, "b`")}
    variables = ServerVariables(binlog_row_metadata="FULL")
    with BinlogWriter(tmp_path / "binlog", variables=variables) as log, log.session() as session:
        session.begin()
        session.execute(Statement("INSERT", (Insert(table, [{**row, column: "x"} for row in rows]),)))
        session.commit()
        session.begin()
        session.execute(Statement("UPDATE", (Update(table, [({**row, column: "x"}, row) for row in rows]),)))
        session.commit()
    emptied(server)
    with closing(connect(server)) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {quoted[schema]}")
        cursor.execute(
            f"CREATE TABLE {quoted[schema]}.{quoted[name]} (id INT PRIMARY KEY, {quoted[column]} "
            f"VARCHAR(80), {quoted['b`']} VARBINARY(80))"
            " CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci"
        )
        with (
            closing(MysqlTarget.open(url(server), applies_events=applies_events)) as target,
            binlogio.open(sorted(tmp_path.glob("binlog.0*[0-9]"))) as reader,
        ):
            replay(reader, target)
        cursor.execute(f"SELECT * FROM {quoted[schema]}.{quoted[name]} ORDER BY id")
        found = cursor.fetchall()

    assert [tuple(row.values()) for row in rows] == list(found)


def test_second_replay_does_nothing(server: Instance) -> None:
    """The position is in the target, workers and DDL included."""
    case = next(case for case in cases_of(server.vendor.kind) if case.folder.name == "group_commit")
    emptied(server)
    first, second = replayed(server, case, workers=8, preserve_commit_order=False), replayed(server, case, workers=3)

    assert second.groups == 0
    assert second.skipped_groups == first.groups
    assert tables(server) == wanted_of(case)


def _logged_changes(logs: list[Path]) -> list[tuple[str, str]]:
    """Every row change of the corpus' tables, in the order of the log."""
    found = []
    with binlogio.open(logs) as reader:
        for event in reader:
            if isinstance(event, RowsEvent) and reader.table_map(event).schema == "corpus":
                plan = reader.plan(event)
                values = ((c.before and c.before.values, c.after and c.after.values) for c in reader.rows(event))
                found += [(plan.table, repr(value)) for value in values]
    return found


@pytest.mark.parametrize("together", [1, 3, 8])
@pytest.mark.parametrize("is_preserved", [True, False])
def test_the_target_logs_the_changes_in_the_order_of_the_source(
    server: Instance, is_preserved: bool, together: int
) -> None:
    """With 8 workers, by the target's own binary log, however many share a commit.

    Without the order they are the same changes.
    """
    case = next(case for case in cases_of(server.vendor.client) if case.folder.name == "group_commit")  # the longest
    emptied(server)
    with closing(connect(server)) as connection, connection.cursor() as cursor:
        cursor.execute("FLUSH BINARY LOGS")
    before = len(list(server.data.glob("binlog.0*[0-9]")))
    summary = replayed(server, case, workers=8, preserve_commit_order=is_preserved, transactions_per_commit=together)
    with closing(connect(server)) as connection, connection.cursor() as cursor:
        cursor.execute("FLUSH BINARY LOGS")
    logs = sorted(server.data.glob("binlog.0*[0-9]"))[before - 1 : -1]
    found, wanted = _logged_changes(logs), _logged_changes(list(case.logs))

    assert len(found) > 100
    assert (found if is_preserved else sorted(found)) == (wanted if is_preserved else sorted(wanted))
    if is_preserved and together == 1:
        assert summary.waits > 0
    if not is_preserved:
        assert summary.waits == 0


T: Final = TableDefinition(
    "d", "t", (ColumnDefinition("id", "int", nullable=False), ColumnDefinition("v", "int")), ("id",)
)


def _log_of_inserts(server: Instance, folder: Path, count: int, server_id: int = 1, **more: Any) -> list[Path]:
    """Transactions of a row each, from 1 on, that may all run together in a log of MySQL."""
    if not more and server.vendor.is_mariadb:
        more = {"server_version": "10.11.18-MariaDB"}
    variables = ServerVariables(sync_binlog=0, server_id=server_id, **more)
    with BinlogWriter(folder / "binlog", variables=variables) as log, log.session() as session:
        for number in range(1, count + 1):
            session.begin()
            session.execute(Statement("INSERT", (Insert(T, [{"id": number, "v": number}]),)))
            session.commit()
    return sorted(folder.glob("binlog.0*[0-9]"))


def _rows(server: Instance) -> list[tuple[int, int]]:
    with closing(connect(server)) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT * FROM d.t ORDER BY id")
        return list(cursor.fetchall())


@pytest.mark.parametrize("workers", [1, 8])
@pytest.mark.parametrize(("applies_events", "leaves_out"), [(False, ""), (None, ""), (None, "d.u")])
def test_a_target_with_another_order_of_columns_is_refused(
    server: Instance, tmp_path: Path, *, applies_events: bool | None, leaves_out: str, workers: int
) -> None:
    """As SQL, as bytes of whole groups, and as single events, values go by position; the log names its columns."""
    columns = tuple(ColumnDefinition(name, "int") for name in ("id", "qty", "price"))
    definition = TableDefinition("d", "t", columns, ("id",))
    more: dict[str, Any] = {"server_version": "10.11.18-MariaDB"} if server.vendor.is_mariadb else {}
    variables = ServerVariables(sync_binlog=0, binlog_row_metadata="FULL", **more)
    with BinlogWriter(tmp_path / "binlog", variables=variables) as log, log.session() as session:
        for number in range(10):
            session.execute(Statement("INSERT", (Insert(definition, [(number, 2, 300)]),)))
    emptied(server)
    server.sql("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY, price INT, qty INT)")
    wanted = ReplayFilter(exclude_tables=(leaves_out,) if leaves_out else ())
    with (
        closing(MysqlTarget.open(url(server), applies_events=applies_events)) as target,
        binlogio.open(tmp_path / "binlog.000001") as reader,
        pytest.raises(ReplayError, match=r"the columns of d\.t differ") as caught,
    ):
        replay(reader, target, wanted=wanted, workers=workers)

    assert "expected id, qty, price, found id, price, qty" in str(caught.value)
    assert server.sql("SELECT COUNT(*) FROM d.t") == "0\n"
    server.sql("DROP TABLE d.t; CREATE TABLE d.t (ID INT PRIMARY KEY, qty INT, price INT, more INT)")
    with (
        closing(MysqlTarget.open(url(server), applies_events=applies_events)) as target,
        binlogio.open(tmp_path / "binlog.000001") as reader,
    ):
        replay(reader, target, wanted=wanted, workers=workers)
    assert server.sql("SELECT COUNT(*) FROM d.t WHERE qty = 2") == "10\n"


@pytest.mark.parametrize("workers", [1, 8])
def test_a_target_with_another_type_is_refused_with_its_table(server: Instance, tmp_path: Path, workers: int) -> None:
    """A BINLOG statement has no reason for its client: MySQL has it in its error log, MariaDB in a file."""
    logs = _log_of_inserts(server, tmp_path, 3)
    emptied(server)
    server.sql("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY, v DATE)")
    with (
        closing(MysqlTarget.open(url(server))) as target,
        binlogio.open(logs) as reader,
        pytest.raises(ReplayError) as caught,
    ):
        replay(reader, target, workers=workers)
    said = str(caught.value)

    named = "d.t.v: ERROR 1105: Unknown error, expected date, as the table definition has, found"
    assert (named in said) == server.vendor.is_mariadb
    assert ("compare the columns of d.t" in said) == server.vendor.is_mariadb
    assert (
        "ERROR 1105: Unknown error"
        if server.vendor.is_mariadb
        else "cannot be converted from type 'int' to type 'date'"
    ) in said
    assert _rows(server) == []


@pytest.mark.parametrize(("workers", "trial_s"), [(1, 0.5), (8, 0.5), (8, 0)])
@pytest.mark.parametrize("fails", [1, 2, 8, 9, 25, 40])
def test_an_error_in_a_packet_or_shared_commit_leaves_exactly_the_transactions_before_it(
    server: Instance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: int, workers: int, trial_s: float
) -> None:
    """A row is there already: nothing after it is applied, and the next replay continues there."""
    take_turns(monkeypatch, trial_s)
    logs = _log_of_inserts(server, tmp_path, 40)
    emptied(server)
    with closing(connect(server)) as connection:
        connection.query("CREATE DATABASE d")
        connection.query("CREATE TABLE d.t (id INT PRIMARY KEY, v INT)")
        connection.query(f"INSERT INTO d.t VALUES ({fails}, 0)")
    with closing(MysqlTarget.open(url(server))) as target, binlogio.open(logs) as reader:
        with pytest.raises(ReplayError, match="1062") as caught:
            replay(reader, target, workers=workers)
        low = target.progress.low

    assert _rows(server) == [(number, number) for number in range(1, fails)] + [(fails, 0)]
    assert caught.value.offset is not None
    assert (low.offset if low else 0) < caught.value.offset
    with closing(connect(server)) as connection:
        connection.query(f"DELETE FROM d.t WHERE id = {fails}")
    with closing(MysqlTarget.open(url(server))) as target, binlogio.open(logs) as reader:
        summary = replay(reader, target, workers=workers)

    assert summary.skipped_groups == fails - 1
    assert _rows(server) == [(number, number) for number in range(1, 41)]


def test_a_table_without_transactions_shares_no_commit(server: Instance, tmp_path: Path) -> None:
    """Its changes cannot be rolled back, so its transactions are applied one by one, each once."""
    logs = _log_of_inserts(server, tmp_path, 40)
    emptied(server)
    with closing(connect(server)) as connection:
        connection.query("CREATE DATABASE d")
        connection.query("CREATE TABLE d.t (id INT, v INT) ENGINE=MyISAM")
    with closing(MysqlTarget.open(url(server))) as target, binlogio.open(logs) as reader:
        summary = replay(reader, target, workers=8)

    assert _rows(server) == [(number, number) for number in range(1, 41)]
    is_shared = not server.vendor.is_mariadb  # transactions that MariaDB committed alone never share one
    assert (summary.groups, summary.retries) == (40, 5 if is_shared else 0)


def test_load_data_in_a_log_is_carried_out_without_a_file(server: Instance, tmp_path: Path) -> None:
    """The content of the file goes to the server from memory.

    A log that asks for a file of the replay's machine gets nothing.
    """
    emptied(server)
    secret = tmp_path / "secret"
    secret.write_text("root:x\n")
    is_mysql = not server.vendor.is_mariadb
    hostile = description(version="9.7.4" if is_mysql else "10.11.18-MariaDB")
    load = f"LOAD DATA LOCAL INFILE '{secret}' INTO TABLE d.loot"
    execute = b"LOAD DATA INFILE 'x' INTO TABLE loot"
    loaded = [
        query("BEGIN"),
        BeginLoadQueryEvent(1, b"one\ntwo\n", header(EventType.BEGIN_LOAD_QUERY_EVENT)),
        ExecuteLoadQueryEvent(7, 0, 0, 1, 9, execute.index(b" TABLE"), 0, (), "d", execute,
        header(EventType.EXECUTE_LOAD_QUERY_EVENT)),
        XidEvent(1, header(EventType.XID_EVENT)),
    ]  # fmt: skip
    file = tmp_path / "binlog.000001"
    tables_of_log = [query("CREATE DATABASE d", ""), query("CREATE TABLE d.loot (line TEXT)", "")]
    file.write_bytes(BINLOG_MAGIC + encode([hostile, *tables_of_log, *loaded, query(load, "d")]))
    with closing(MysqlTarget.open(url(server))) as target, binlogio.open(file) as reader:
        with pytest.raises(ReplayError, match="LOAD DATA LOCAL"):
            replay(reader, target)
        connection = target.session(0)._connection
        with pytest.raises(ReplayError, match="requests a file of this machine"):
            connection.run(load)
    with closing(connect(server)) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT line FROM d.loot")
        assert sorted(cursor.fetchall()) == [("one",), ("two",)]


def test_table_made_from_no_rows_is_followed_by_the_next_transaction(server: Instance, tmp_path: Path) -> None:
    """CREATE TABLE ... SELECT opens a transaction in the log of MySQL, which ends also where no rows follow."""
    if server.vendor.is_mariadb:
        pytest.skip("MariaDB logs no START TRANSACTION")
    emptied(server)
    made = [query("BEGIN"), query("CREATE TABLE `t` (\n  `id` int\n) START TRANSACTION"), query("COMMIT")]
    next_one = [query("BEGIN"), query("INSERT INTO t VALUES (1)"), XidEvent(1, header(EventType.XID_EVENT))]
    file = tmp_path / "binlog.000001"
    file.write_bytes(BINLOG_MAGIC + encode([description(), query("CREATE DATABASE d", ""), *made, *next_one]))
    with closing(MysqlTarget.open(url(server))) as target, binlogio.open(file) as reader:
        replay(reader, target)

    with closing(connect(server)) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT id FROM d.t")
        assert cursor.fetchall() == ((1,),)


@pytest.mark.parametrize(
    "columns",
    ["", ", s TIMESTAMP(6) AS ROW START, e TIMESTAMP(6) AS ROW END, PERIOD FOR SYSTEM_TIME (s, e)"],
    ids=["implicit", "explicit"],
)
def test_history_of_rows_is_refused_as_sql(server: Instance, tmp_path: Path, columns: str) -> None:
    """A DELETE is logged as an update of the end of the row; as SQL it would leave the row."""
    if not server.vendor.is_mariadb:
        pytest.skip("MySQL has no versioned tables")
    emptied(server)
    server.sql(
        "RESET MASTER; SET binlog_format=ROW; CREATE DATABASE d;"
        f"CREATE TABLE d.t (id INT PRIMARY KEY{columns}) WITH SYSTEM VERSIONING;"
        "INSERT INTO d.t (id) VALUES (1), (2); DELETE FROM d.t WHERE id = 1; FLUSH LOGS;"
    )
    file = Path(shutil.copy(server.data / "binlog.000001", tmp_path))
    emptied(server)
    with (
        closing(MysqlTarget.open(url(server), applies_events=False)) as target,
        binlogio.open(file) as reader,
        pytest.raises(ReplayError, match=r"d\.t is a system-versioned table"),
    ):
        replay(reader, target)
    emptied(server)
    with closing(MysqlTarget.open(url(server), applies_events=True)) as target, binlogio.open(file) as reader:
        replay(reader, target)

    assert server.sql("SELECT id FROM d.t") == "2\n"


def test_connection_is_encrypted_where_the_url_asks_for_it(server: Instance, tmp_path: Path) -> None:
    """MySQL makes certificates for itself; with another authority's certificate there is no connection."""
    if server.vendor.kind == "mariadb118":  # which makes a certificate for itself, and no file of it
        connection = Connection(MysqlAddress.parse(f"{url(server)}&ssl-mode=REQUIRED"))
        ((_, cipher),) = connection.ask("SHOW SESSION STATUS LIKE 'Ssl_cipher'")
        connection.close()

        assert cipher
        return
    if server.vendor.is_mariadb:  # 10.11 has no certificate unless it is given one
        with pytest.raises(ConnectionError, match=r"TLS|SSL"):
            MysqlTarget.open(f"{url(server)}&ssl-mode=REQUIRED")
        return
    own = server.data / "ca.pem"
    other = tmp_path / "other.pem"
    other.write_bytes((server.data / "client-cert.pem").read_bytes())
    for query_of_url in ("ssl-mode=REQUIRED", f"ssl-ca={own}", "ssl-mode=PREFERRED"):
        connection = Connection(MysqlAddress.parse(f"{url(server)}&{query_of_url}"))
        ((_, cipher),) = connection.ask("SHOW SESSION STATUS LIKE 'Ssl_cipher'")
        connection.close()

        assert cipher
    with pytest.raises(ConnectionError, match="certificate"):
        MysqlTarget.open(f"{url(server)}&ssl-ca={other}")


@pytest.mark.parametrize("workers", [1, 4])
def test_a_setting_that_is_logged_with_ddl_only_is_that_of_the_session(
    server: Instance, tmp_path: Path, workers: int
) -> None:
    """NULL for a TIMESTAMP is the time, or an error, by the session in which the source executed the INSERT."""
    if server.vendor.is_mariadb:
        pytest.skip("MariaDB logs it with each statement")
    emptied(server)
    server.sql("FLUSH BINARY LOGS")
    setting = "SET binlog_format = STATEMENT, explicit_defaults_for_timestamp"
    server.sql(
        f"{setting} = 0; CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY, at TIMESTAMP);"
        + "".join(f"INSERT INTO d.t VALUES ({number}, NULL);" for number in range(40))
    )
    server.sql(
        f"{setting} = 1; CREATE TABLE d.u (id INT PRIMARY KEY, at TIMESTAMP);"
        + "".join(f"INSERT INTO d.u VALUES ({number}, NULL);" for number in range(40))
    )
    server.sql("FLUSH BINARY LOGS")
    log = shutil.copy(sorted(server.data.glob("binlog.0*[0-9]"))[-2], tmp_path)
    query = "SELECT * FROM d.t; SELECT * FROM d.u"
    expected = server.sql(query)
    emptied(server)
    with closing(MysqlTarget.open(url(server))) as target, binlogio.open(log) as reader:
        replay(reader, target, workers=workers, gtids="new")

    assert server.sql(query) == expected
    assert expected.count("NULL") == 40


def test_a_table_from_a_select_has_the_timestamps_of_its_session(server: Instance, tmp_path: Path) -> None:
    """Its rows come in a transaction, in which MySQL refuses explicit_defaults_for_timestamp (ERROR 1766)."""
    emptied(server)
    server.sql(
        "FLUSH BINARY LOGS; SET binlog_format = ROW; CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY, at "
        "TIMESTAMP); INSERT INTO d.t VALUES (1, '2026-01-02 03:04:05'); CREATE TABLE d.u SELECT id FROM d.t;"
        "CREATE TABLE d.v (PRIMARY KEY (id)) SELECT * FROM d.t; FLUSH BINARY LOGS"
    )
    log = shutil.copy(sorted(server.data.glob("binlog.0*[0-9]"))[-2], tmp_path)
    expected = state(server)
    found = []
    for applies_events in (None, False):
        emptied(server)
        with (
            closing(MysqlTarget.open(url(server), applies_events=applies_events)) as target,
            binlogio.open(log) as reader,
        ):
            replay(reader, target, gtids="new")
        found.append(state(server))

    assert found == [expected, expected]


def test_old_temporal_values_arrive_as_sql_or_not_at_all(server: Instance, tmp_path: Path) -> None:
    """MySQL 9 would take their bytes for those of the present types; it gets them from tables of 5.5."""
    if server.vendor.is_mariadb:
        pytest.skip("MariaDB knows the old types")
    values = {
        "TIMESTAMP": (ColumnType.TIMESTAMP, 1_700_000_000, 4, "2023-11-14 22:13:20"),
        "DATETIME": (ColumnType.DATETIME, 20240102030405, 8, "2024-01-02 03:04:05"),
        "TIME": (ColumnType.TIME, 123456, 3, "12:34:56"),
    }
    columns = tuple(ColumnDefinition(name.lower(), name.lower()) for name in values)
    table = TableDefinition("d", "t", columns)
    created = f"CREATE TABLE t ({', '.join(f'`{name.lower()}` {name} NULL' for name in values)})"
    codes, numbers, sizes, texts = zip(*values.values(), strict=True)
    table_map = replace(table.table_map(7), column_types=codes, metadata=(0, 0, 0), optional_metadata=())
    image = b"".join(number.to_bytes(size, "little") for number, size in zip(numbers, sizes, strict=True))
    rows = WriteRowsEvent(7, 1, b"", 3, b"\7", b"\0" + image, header(EventType.WRITE_ROWS_EVENT))
    events = [query("CREATE DATABASE d", ""), query(created), *group([table_map, rows])]
    (tmp_path / "binlog.000001").write_bytes(log(*events))
    found = []
    for applies_events in (None, False, True):
        emptied(server)
        with (
            closing(MysqlTarget.open(url(server), applies_events=applies_events)) as target,
            binlogio.open(tmp_path / "binlog.000001") as reader,
            pytest.raises(ReplayError, match="misreads") if applies_events else nullcontext(),
        ):
            replay(reader, target)
        found.append(tables(server)["d.t"])
    emptied(server)
    dumped = CliRunner().invoke(cli, ["dump", "--format", "sql", str(tmp_path / "binlog.000001")])
    refused = fed(server, dumped.stdout_bytes).stderr

    assert found == [[list(texts)], [list(texts)], []]
    assert b"MySQL 9 misreads" in refused
    assert tables(server)["d.t"] == []


def test_event_of_the_log_is_refused_while_the_scheduler_is_on(server: Instance, tmp_path: Path) -> None:
    """The target would execute it, and the log has the changes of its execution on the source as well."""
    emptied(server)
    server.sql("FLUSH BINARY LOGS")
    server.sql("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY)")
    server.sql("CREATE EVENT d.off ON SCHEDULE EVERY 1 HOUR DISABLE DO INSERT INTO d.t VALUES (1)")
    server.sql("CREATE EVENT d.e ON SCHEDULE EVERY 1 HOUR STARTS '2038-01-01' DO INSERT INTO d.t VALUES (2)")
    server.sql("INSERT INTO d.t VALUES (3)")
    server.sql("FLUSH BINARY LOGS")
    log = shutil.copy(sorted(server.data.glob("binlog.0*[0-9]"))[-2], tmp_path)
    emptied(server)
    server.sql("SET GLOBAL event_scheduler = ON")
    try:
        with (
            closing(MysqlTarget.open(url(server))) as target,
            binlogio.open(log) as reader,
            pytest.raises(ReplayError) as refused,
        ):
            replay(reader, target, gtids="new")
    finally:
        server.sql("SET GLOBAL event_scheduler = OFF")
    found = server.sql("SELECT event_name FROM information_schema.events ORDER BY 1")
    with closing(MysqlTarget.open(url(server))) as target, binlogio.open(log) as reader:
        replay(reader, target, gtids="new")

    assert "event scheduler of the target is on" in str(refused.value)
    assert "SET GLOBAL event_scheduler = OFF" in str(refused.value)
    assert found.split() == ["off"]
    assert server.sql("SELECT event_name FROM information_schema.events ORDER BY 1").split() == ["e", "off"]
    assert server.sql("SELECT id FROM d.t").split() == ["3"]


@pytest.mark.parametrize("workers", [1, 8])
def test_nothing_is_committed_for_what_is_skipped(server: Instance, tmp_path: Path, workers: int) -> None:
    """Neither for groups before the start nor for those that are there already, nor for filtered ones.

    The server's log grows by the rest only.
    """
    logs = _log_of_inserts(server, tmp_path, 240)
    with binlogio.open(logs) as reader:
        kinds = (GtidEvent, AnonymousGtidEvent, MariadbGtidEvent)
        starts = [event.header.offset for event in reader if isinstance(event, kinds)]
    emptied(server)
    server.sql("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY, v INT)")
    server.sql("FLUSH BINARY LOGS")
    before = len(list(server.data.glob("binlog.0*[0-9]")))
    for start, stop in ((200, 210), (None, 220), (None, None)):
        wanted = ReplayFilter(
            start=None if start is None else Position(logs[0].name, starts[start]),
            stop=None if stop is None else Position(logs[0].name, starts[stop]),
            exclude_tables=("d.t",) if stop == 220 else (),
        )
        with closing(MysqlTarget.open(url(server))) as target, binlogio.open(logs) as reader:
            replay(reader, target, workers=workers, transactions_per_commit=1, wanted=wanted)
    server.sql("FLUSH BINARY LOGS")
    with binlogio.open(sorted(server.data.glob("binlog.0*[0-9]"))[before - 1 : -1]) as reader:
        commits = sum(isinstance(event, XidEvent) for event in reader)

    assert _rows(server) == [(n, n) for n in (*range(201, 211), *range(221, 241))]
    assert commits == 30 + 4  # rows of the table of positions, and the position at the end of each run


def test_a_replay_waits_for_the_connection_of_a_killed_one(server: Instance, tmp_path: Path) -> None:
    """The server still commits what it had received: the position is read after that."""
    logs = _log_of_inserts(server, tmp_path, 20)
    emptied(server)
    server.sql("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY, v INT)")
    with binlogio.open(logs) as reader:
        ends = [reader.position.offset for event in reader if isinstance(event, XidEvent)]

    def resume(stop: int | None = None) -> None:
        wanted = ReplayFilter(stop=None if stop is None else Position(logs[0].name, stop))
        with closing(MysqlTarget.open(url(server))) as target, binlogio.open(logs) as reader:
            replay(reader, target, gtids="new", wanted=wanted)

    resume(ends[9])
    waiting = "SELECT COUNT(*) FROM information_schema.processlist WHERE state = 'User lock'"
    with ThreadPoolExecutor(1) as pool, closing(connect(server)) as earlier, earlier.cursor() as cursor:
        cursor.execute(f"SELECT GET_LOCK('{lock_name('1')}', 0)")
        done = pool.submit(resume)
        while (cursor.execute(waiting), cursor.fetchone())[1] != (1,):
            assert not done.done()
        cursor.execute("BEGIN")
        cursor.execute("INSERT INTO d.t VALUES (11, 11)")
        cursor.execute(f"UPDATE binlogio_replay.position SET low = {ends[10]} WHERE worker = 0")
        cursor.execute("COMMIT")
        cursor.execute(f"SELECT RELEASE_LOCK('{lock_name('1')}')")  # as its end would
        done.result()

    assert _rows(server) == [(number, number) for number in range(1, 21)]


def test_states_of_workers_name_the_connection_that_waits_for_a_lock(server: Instance, tmp_path: Path) -> None:
    """And after KILL QUERY the replay says what was rolled back, and up to where the target has all transactions."""
    logs = _log_of_inserts(server, tmp_path, 12, gtid_mode="ON")
    emptied(server)
    server.sql("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY, v INT)")
    with binlogio.open(logs) as reader:
        heads = [event for event in reader if isinstance(event, GtidEvent)]
    options = ("--workers", "4", "--transactions-per-commit", "1", "--gtids", "new")
    command = [sys.executable, "-m", "binlogio", "replay", "--to", url(server), *options, *map(str, logs)]
    with closing(connect(server)) as other:
        other.query("BEGIN")
        other.query("INSERT INTO d.t VALUES (5, 0)")
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert process.stderr is not None
        while server.sql("SELECT COUNT(*) FROM d.t WHERE id < 5") != "4\n":
            assert process.poll() is None
        states = _states(process)
        while sorted(one["state"] for one in states["workers"]) != ["Executing event", *[WAITING_FOR_PRECEDING] * 3]:
            states = _states(process)
        (first,) = (one for one in states["workers"] if one["state"] == "Executing event")
        server.sql(f"KILL QUERY {first['processlist_id']}")
        _, said = process.communicate(timeout=60)

    waiting = [one for one in states["workers"] if one is not first]
    assert {one["waits_for_worker_id"] for one in waiting} == {first["worker_id"]}
    assert states["coordinator"]["state"] == "Waiting for replica workers to process their queues"
    end, last, first_text = heads[4].header.offset, str(heads[3].gtid), str(heads[4].gtid)
    assert (states["applied_up_to"]["pos"], states["applied_up_to_transaction"]) == (end, last)
    assert first["applying_transaction"] == first_text
    assert sorted(one["applying_transaction_start"]["pos"] for one in waiting) == [
        head.header.offset for head in heads[5:8]
    ]
    assert process.returncode == 1
    assert f"worker {first['worker_id']}: rolled back {logs[0].name}:{end} (GTID {first_text}), last committed" in said
    assert said.count(": rolled back ") == 4
    assert f"the target has all event groups up to {logs[0].name}:{end} (GTID {last})\n" in said
    assert "ERROR 1317" in said
    assert _rows(server) == [(number, number) for number in range(1, 5)]


def _states(process: subprocess.Popen[str]) -> Any:
    """Return the states that a replay writes at a signal."""
    assert process.stderr is not None
    process.send_signal(signal.SIGUSR1)
    return json.loads(process.stderr.readline())


def test_two_replays_of_one_source_at_a_time_are_refused(
    server: Instance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a while; another source is not concerned."""
    logs = _log_of_inserts(server, tmp_path, 2)
    emptied(server)
    server.sql("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY, v INT)")
    monkeypatch.setattr("binlogio.replay.targets.mysql.target.LONGEST_WAIT_S", 0)
    with closing(connect(server)) as other, other.cursor() as cursor:
        cursor.execute(f"SELECT GET_LOCK('{lock_name('1')}', 0)")
        with (
            closing(MysqlTarget.open(url(server))) as target,
            binlogio.open(logs) as reader,
            pytest.raises(ReplayError, match="another replay of this source"),
        ):
            replay(reader, target, gtids="new")
        with closing(MysqlTarget.open(url(server))) as target, binlogio.open(logs) as reader:
            assert replay(reader, target, gtids="new", source="other").groups == 2

    assert _rows(server) == [(1, 1), (2, 2)]


def test_statements_of_a_renamed_schema_leave_the_live_one_alone(server: Instance, tmp_path: Path) -> None:
    """The log of `prod` is replayed beside it, and then of two tables only.

    Rows, views, triggers and routines are those of the copy.
    """
    emptied(server)
    with closing(connect(server)) as connection, connection.cursor() as cursor:
        cursor.execute("FLUSH BINARY LOGS")
        before = len(list(server.data.glob("binlog.0*[0-9]")))
        for sql in (
            "CREATE DATABASE prod",
            "CREATE TABLE prod.a (id INT PRIMARY KEY, v INT)",
            "CREATE TABLE prod.b LIKE prod.a",
            "CREATE TABLE prod.prod (prod INT)",
            "CREATE VIEW prod.v AS SELECT prod.a.id, b.v FROM prod.a JOIN prod.b USING (id)",
            "CREATE TRIGGER prod.r AFTER INSERT ON prod.a FOR EACH ROW INSERT INTO prod.b VALUES (NEW.id, NEW.v)",
            "CREATE PROCEDURE prod.p() DELETE FROM prod.b",
            "INSERT INTO prod.a VALUES (1, 1), (2, 2)",
            "ALTER TABLE prod.a ADD w INT DEFAULT 7",
            "UPDATE prod.a SET v = 5 WHERE id = 2",
            "TRUNCATE prod.b",
            "DROP TABLE prod.b, prod.prod",
        ):
            cursor.execute(sql)
        cursor.execute("FLUSH BINARY LOGS")
        for sql in (
            "CREATE TABLE prod.b (id INT, live INT)",
            "INSERT INTO prod.b VALUES (42, 42)",
            "INSERT INTO prod.a VALUES (3, 3, 3)",
        ):
            cursor.execute(sql)
    logs = sorted(server.data.glob("binlog.0*[0-9]"))[before - 1 : -1]
    for wanted, schema in (
        (ReplayFilter(rewrite_db={"prod": "copy"}), "copy"),
        (ReplayFilter(rewrite_db={"prod": "some"}, tables=("prod.[ab]",)), "some"),
    ):
        with closing(connect(server)) as connection, connection.cursor() as cursor:
            cursor.execute("DROP DATABASE IF EXISTS binlogio_replay")
        with closing(MysqlTarget.open(url(server))) as target, binlogio.open(logs) as reader:
            replay(reader, target, wanted=wanted)
        with closing(connect(server)) as connection, connection.cursor() as cursor:
            cursor.execute(f"SELECT * FROM {schema}.a ORDER BY id")
            copied = cursor.fetchall()
            cursor.execute("SELECT * FROM prod.b")
            live = cursor.fetchall()
            cursor.execute(f"SHOW TABLES IN {schema}")
            names = {name for (name,) in cursor.fetchall()}

        assert copied == ((1, 1, 7), (2, 5, 7))
        assert live == ((42, 42), (3, 3))
        assert names == ({"a", "v"} if schema == "copy" else {"a"})
    with closing(connect(server)) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT COUNT(*) FROM prod.a")
        assert cursor.fetchone() == (3,)


def test_position_is_that_of_one_log(server: Instance, tmp_path: Path) -> None:
    """Another server's log of the same name is refused, and so is a position that an earlier version kept.

    The option decides.
    """
    mine, other = (
        _log_of_inserts(server, tmp_path / name, 20 + 10 * at, at + 1) for at, name in enumerate(("mine", "other"))
    )
    emptied(server)
    server.sql("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY, v INT)")

    def applied(logs: list[Path], **options: Any) -> list[int]:
        with closing(MysqlTarget.open(url(server))) as target, binlogio.open(logs) as reader:
            replay(reader, target, workers=3, **options)
        return [number for number, _ in _rows(server)]

    assert applied(mine) == [*range(1, 21)]
    with pytest.raises(PositionError, match="another log of the name") as caught:
        applied(other)
    assert "resumes=False" in str(caught.value)
    server.sql(
        "ALTER TABLE binlogio_replay.position DROP COLUMN log, DROP PRIMARY KEY, DROP COLUMN source,"
        " ADD PRIMARY KEY (worker)"
    )  # as in the first versions
    with pytest.raises(PositionError, match="not which server's log it is in"):
        applied(mine)
    assert applied(mine, resumes=True) == [*range(1, 21)]
    assert applied(mine) == [*range(1, 21)]
    server.sql("TRUNCATE d.t")
    assert applied(other, resumes=False) == [*range(1, 31)]
    assert applied(other) == [*range(1, 31)]
    assert applied(mine) == [*range(1, 31)]  # its position is still there
    server.sql("DELETE FROM d.t WHERE id > 10")
    assert applied(mine) == [*range(1, 11)]
    server.sql("DELETE FROM binlogio_replay.position WHERE source <> ''")


@pytest.mark.parametrize("applies_events", [True, False])
def test_row_that_no_packet_holds_is_refused_with_what_to_do(
    server: Instance, tmp_path: Path, applies_events: bool
) -> None:
    """The connection is not lost, what is before the row is there, and a larger packet lets the replay continue."""
    document = TableDefinition(
        "d", "doc", (ColumnDefinition("id", "int", nullable=False), ColumnDefinition("v", "longblob")), ("id",)
    )
    more: dict[str, Any] = {} if server.vendor.kind == "mysql" else {"server_version": "10.11.18-MariaDB"}
    variables = ServerVariables(sync_binlog=0, binlog_row_metadata="FULL", max_binlog_cache_size=1 << 30, **more)
    with BinlogWriter(tmp_path / "binlog", variables=variables) as log, log.session() as session:
        for number, size in ((1, 10), (2, 3 << 20), (3, 10)):
            session.begin()
            session.execute(Statement("INSERT", (Insert(document, [{"id": number, "v": b"x" * size}]),)))
            session.commit()
    logs = sorted(tmp_path.glob("binlog.0*[0-9]"))
    emptied(server)
    server.sql("CREATE DATABASE d; CREATE TABLE d.doc (id INT PRIMARY KEY, v LONGBLOB)")
    before = server.sql("SELECT @@global.max_allowed_packet").strip()
    try:
        server.sql("SET GLOBAL max_allowed_packet = 2097152")
        with (
            closing(MysqlTarget.open(url(server), applies_events=applies_events)) as target,
            binlogio.open(logs) as reader,
            pytest.raises(ReplayError, match="max_allowed_packet=2097152") as caught,
        ):
            replay(reader, target)
    finally:
        server.sql(f"SET GLOBAL max_allowed_packet = {before}")
    assert "raise max_allowed_packet on the target (SET GLOBAL" in str(caught.value)
    assert caught.value.offset is not None
    assert server.sql("SELECT GROUP_CONCAT(id) FROM d.doc").strip() == "1"
    with closing(MysqlTarget.open(url(server), applies_events=applies_events)) as target, binlogio.open(logs) as reader:
        replay(reader, target)

    assert server.sql("SELECT id, LENGTH(v) FROM d.doc ORDER BY id").split() == [
        "1",
        "10",
        "2",
        str(3 << 20),
        "3",
        "10",
    ]


@pytest.mark.parametrize("applies_events", [True, False])
def test_row_that_is_there_already_says_what_to_do(server: Instance, tmp_path: Path, applies_events: bool) -> None:
    """The option that replaces it, and how the group is left out; what the message says then works."""
    logs = _log_of_inserts(server, tmp_path, 5)
    emptied(server)
    server.sql("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY, v INT); INSERT INTO d.t VALUES (3, 0)")
    definitions = {"d.t": "CREATE TABLE t (id INT PRIMARY KEY, v INT)"}
    with (
        closing(MysqlTarget.open(url(server), applies_events=applies_events)) as target,
        binlogio.open(logs, definitions=definitions) as reader,
        pytest.raises(ReplayError, match="ERROR 1062") as caught,
    ):
        replay(reader, target)
    hint = str(caught.value)
    assert "idempotent=True" in hint
    gtid = hint.partition("exclude_gtids=")[2].split()[0]
    wanted = ReplayFilter(exclude_gtids=parse_gtid_set(gtid)) if server.vendor.kind == "mysql" else EVERYTHING
    with (
        closing(
            MysqlTarget.open(url(server), applies_events=applies_events, idempotent=wanted is EVERYTHING)
        ) as target,
        binlogio.open(logs, definitions=definitions) as reader,
    ):
        replay(reader, target, wanted=wanted)

    assert _rows(server) == [(1, 1), (2, 2), (3, 0 if wanted is not EVERYTHING else 3), (4, 4), (5, 5)]


def test_a_wrong_password_is_refused_with_the_words_of_the_server(server: Instance) -> None:
    """The message does not have the password."""
    server.sql("CREATE USER IF NOT EXISTS app@localhost IDENTIFIED BY 'right'")
    address = url(server).replace("root", "app:wrong", 1)
    result = CliRunner().invoke(cli, ["replay", "--to", address, str(FIXTURES / "mysql97" / "incident")])

    assert result.exit_code == 4
    assert "the server refuses the connection: 1045" in result.stderr
    assert "wrong" not in result.stderr
