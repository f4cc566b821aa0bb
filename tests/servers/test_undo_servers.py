"""Undo on real servers: replay and undo, as SQL and as a binary log, leave MySQL 9.7 and MariaDB 10.11 unchanged."""

from __future__ import annotations

import json
import re
import subprocess
from collections import Counter
from contextlib import closing
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final

import pytest
from click.testing import CliRunner

import binlogio
from binlogio import BinlogWriter, ColumnDefinition, Delete, Insert, ServerVariables, Statement, TableDefinition, Update
from binlogio.errors import BinlogError
from binlogio.events import RowsEvent
from binlogio.options import Position
from binlogio.replay import ReplayFilter, replay
from binlogio.replay.key_source import KeySource
from binlogio.replay.targets.mysql.position_table import SCHEMA
from binlogio.replay.targets.mysql.target import MysqlTarget
from binlogio.replay.targets.mysql.values import json_value, text_literal
from binlogio.replay.transactions import TransactionReader
from binlogio.replay.undo import BinlogFile, OnChanged, SqlScript, undo
from binlogio.replay.undo.inverse import WholeImages
from binlogio.replay.undo.outputs import UndoOutput
from binlogio.schema.identifiers import backticked
from binlogio.values.json import JsonDocument
from binlogio.values.json.binary import parse_json
from binlogio.values.json.text import scalar_text
from binlogio.values.json.tree import JsonUnsigned
from binlogio_cli.main import cli
from corpus import Case
from hostile_values import HOSTILE, HOSTILE_BYTES
from random_sessions import KEYS, RandomSessions, copied_logs, difference
from real_servers import KINDS, Instance, seeds, vendor
from target_servers import FOLDERS, OPTIONS, cases_of, connect, emptied, place, tables, url
from undo_stretches import stretches, undone

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.server, pytest.mark.slow]

TOOLS: Final = {"mysql": ("mysqlbinlog", "--skip-gtids"), "mariadb": ("mariadb-binlog",)}


@pytest.fixture(scope="module", params=KINDS)
def server(request: pytest.FixtureRequest) -> Iterator[Instance]:
    """One server of each vendor for all tests."""
    common = ("--character-set-server=utf8mb4", "--log-bin-trust-function-creators=1", "--local-infile=1")
    with vendor(request.param).server("undo", *OPTIONS[request.param], *common) as instance:
        yield instance


def replayed(server: Instance, case: Case, wanted: ReplayFilter) -> None:
    """Forget what was replayed before, and replay a part of a case."""
    with closing(connect(server)) as connection, connection.cursor() as cursor:
        cursor.execute(f"DROP DATABASE IF EXISTS {SCHEMA}")
    with (
        closing(MysqlTarget.open(url(server))) as target,
        binlogio.open(case.logs, keyring=case.keys) as reader,
    ):
        replay(reader, target, wanted=wanted)


def run_sql(server: Instance, sql: bytes, mode: str = "") -> subprocess.CompletedProcess[bytes]:
    """Run a script with the vendor's own client."""
    return server.vendor.run(
        server.vendor.client, "--no-defaults", "-uroot", "--binary-mode", "--max-allowed-packet=1G",
        f"--init-command=SET sql_mode = '{mode}'",
        "-S", f"/run/mysqld/{server.name}.sock", stdin=sql,
    )  # fmt: skip


def taken_back(server: Instance, inverse: Path, form: UndoOutput) -> str:
    """Carry an inverse out with the vendor's own tools; what the server or a tool refused."""
    sql = inverse.read_bytes()
    if isinstance(form, BinlogFile):
        with server.vendor.folder("inverse") as folder:
            log = folder / "undo.000001"
            log.write_bytes(sql)
            shown = server.vendor.run(*TOOLS[server.vendor.client], server.vendor.inside(log))
        if shown.returncode or shown.stderr:
            return shown.stderr.decode(errors="replace")
        sql = shown.stdout
    done = run_sql(server, sql)
    return done.stderr.decode(errors="replace") if done.returncode else ""


# Images lack columns. Rows of the past, which SQL does not change. What a trigger did, which SQL does once more.
REFUSED: Final = (
    "mysql97/altered",
    "mysql97/rowimage_minimal",
    "mysql97/wide_table",
    "mariadb1011/rowimage_minimal",
    "mariadb118/rowimage_minimal",
)
REFUSED_AS_SQL: Final = (
    "mariadb1011/types",
    "mariadb1011/metadata_minimal",
    "mariadb118/types",
    "mariadb118/types_temporal",
)
CHANGED_BY_TRIGGERS: Final = ("corpus.log",)
CHANGED_BY_CASCADES: Final = ("mysql97/multi_table_stmt",)  # of REPLACE, in the replay: the SQL finds other values


@pytest.mark.parametrize("form", [SqlScript, BinlogFile])
def test_undo_leaves_the_tables_of_every_case_as_they_were(server: Instance, form: type[Any], tmp_path: Path) -> None:
    """Every stretch of rows between two statements."""
    wrong: dict[str, Any] = {}
    refusals: dict[str, str] = {}
    rows = 0
    for case in cases_of(server.vendor.kind):
        emptied(server)
        start: Position | None = None
        for part in stretches(case):
            replayed(server, case, ReplayFilter(start=start, stop=part.start))
            before = tables(server)
            start = part.start
            try:
                summary = undone(case, part, form(), tmp_path / "inverse")
            except BinlogError as exc:
                refusals[case.id] = str(exc)
                continue
            replayed(server, case, ReplayFilter(start=part.start, stop=part.end))
            refused = taken_back(server, tmp_path / "inverse", form())
            after = tables(server)
            rows += summary.rows.total()
            different = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
            if form is SqlScript:
                different.difference_update(CHANGED_BY_TRIGGERS)
            if form is SqlScript and case.id in CHANGED_BY_CASCADES and "1242" in refused:
                refusals[case.id] = refused
                refused, different = "", set()
            if refused or different:
                wrong[f"{case.id} {part}"] = refused, different
            if before != after:
                emptied(server)
                replayed(server, case, ReplayFilter(stop=part.start))
    expected = {*REFUSED, *((*REFUSED_AS_SQL, *CHANGED_BY_CASCADES) if form is SqlScript else ())}

    assert wrong == {}
    assert refusals.keys() == {name for name in expected if FOLDERS[name.split("/")[0]] == server.vendor.kind}
    assert rows > (400 if server.vendor.kind == "mariadb118" else 4000)


COLUMNS: Final = (
    "other INT NOT NULL DEFAULT 0, n INT, f FLOAT, d DOUBLE, p DECIMAL(9,2), s VARCHAR(20), b VARBINARY(20), "
    "e ENUM('x','y'), t TIMESTAMP(3) NULL, dt DATE, m SET('p','q'), y YEAR, x BIT(9), l TEXT CHARACTER SET latin1, "
    "j JSON, g POINT"
)
VALUES: Final = (
    "n = 7, f = 1.1, d = -0.1, p = 12.50, s = 'abc', b = x'00ff00', e = 'y', t = '2026-01-01 10:00:00.123', "
    "dt = '2026-02-28', m = 'p,q', y = 2026, x = b'101', l = '\u00e9', j = '{\"a\": [1, 2.5, null]}', g = POINT(1, 2)"
)
BEGINNING: Final = f"""
    DROP DATABASE IF EXISTS later; CREATE DATABASE later; CREATE TABLE later.t (id INT PRIMARY KEY, {COLUMNS});
    INSERT INTO later.t (id, n, s) VALUES (1, 1, 'one'), (2, 2, 'two'), (3, NULL, NULL)
"""
ACCIDENT: Final = f"""
    BEGIN; UPDATE later.t SET {VALUES}; INSERT INTO later.t SET id = 9, {VALUES};
    UPDATE later.t SET f = NULL, g = NULL, m = 'q', d = 0.5, e = NULL; COMMIT
"""


def test_undo_leaves_what_others_changed_since(server: Instance, tmp_path: Path) -> None:
    """Other columns stay. The same columns, and rows that are gone, stop the script, or are skipped or overwritten."""
    emptied(server)
    server.sql("FLUSH BINARY LOGS")
    server.sql(f"{BEGINNING}; SET time_zone = '+00:00', binlog_format = ROW; {ACCIDENT}")
    name = place(server).partition(":")[0]
    log = tmp_path / name
    log.write_bytes((server.data / name).read_bytes())
    with binlogio.open(log) as reader:
        starts = [transaction.start for transaction in TransactionReader(reader, KeySource(reader), ReplayFilter())]
    scripts = {}
    for on_changed in OnChanged:
        with (
            binlogio.open(log) as reader,
            undo(reader, SqlScript(on_changed=on_changed), wanted=ReplayFilter(start=starts[-1])) as ready,
        ):
            scripts[on_changed] = b"".join(ready.pieces())
    server.sql(BEGINNING)
    before = tables(server)

    def after(change: str, on_changed: OnChanged) -> tuple[subprocess.CompletedProcess[bytes], Any, Any]:
        """Return what the client says, and the rows before and after the script."""
        server.sql(f"{BEGINNING}; SET time_zone = '+00:00', binlog_format = ROW; {ACCIDENT}; {change}")
        found = tables(server)
        return run_sql(server, scripts[on_changed]), found, tables(server)

    done, _, rows = after("SELECT 1", OnChanged.STOP)
    assert (done.stderr, rows) == (b"", before)
    done, _, rows = after("UPDATE later.t SET other = 5 WHERE id = 2", OnChanged.STOP)
    assert done.stderr == b""
    server.sql("UPDATE later.t SET other = 0")
    assert tables(server) == before
    for change in (
        "UPDATE later.t SET s = 'Abc' WHERE id = 2",
        "UPDATE later.t SET s = 'abc ' WHERE id = 2",
        "UPDATE later.t SET f = 2.5 WHERE id = 3",
        "UPDATE later.t SET l = NULL WHERE id = 1",
        "UPDATE later.t SET j = '{}' WHERE id = 1",
        "UPDATE later.t SET other = 5 WHERE id = 9",
        "DELETE FROM later.t WHERE id = 2",
    ):
        done, found, rows = after(change, OnChanged.STOP)
        assert b"ERROR 1242" in done.stderr, change
        assert rows == found
        done, _, rows = after(change, OnChanged.SKIP)
        assert done.stderr == b""
        assert done.stdout.split()[-1] in (b"1", b"2")  # of the two updates of a row, one or both
        assert rows != before
        if not change.startswith("DELETE"):
            done, _, rows = after(change, OnChanged.OVERWRITE)
            assert done.stderr == b""
            assert rows == before


OTHERS: Final = """
    DROP DATABASE IF EXISTS later; CREATE DATABASE later; USE later;
    CREATE TABLE plain (id INT PRIMARY KEY, a INT, b INT, s VARCHAR(20), j JSON);
    CREATE TABLE unique_key (k INT NOT NULL, a INT, b INT, UNIQUE KEY (k));
    CREATE TABLE two_parts (x VARCHAR(10), y INT, a INT, b BLOB, PRIMARY KEY (y, x));
    CREATE TABLE computed (
        id INT PRIMARY KEY, a INT, b INT, st INT AS (a + b) STORED, v INT AS (a * b) VIRTUAL, KEY (v)
    );
    INSERT INTO plain VALUES (1, 1, 1, 'one', '{"p": 1}'), (2, 2, 2, 'two', '{"p": 2}'), (3, 3, 3, NULL, NULL);
    INSERT INTO unique_key VALUES (1, 1, 1), (2, 2, 2);
    INSERT INTO two_parts VALUES ('x', 1, 1, 'one'), ('y', 2, 2, 'two');
    INSERT INTO computed (id, a, b) VALUES (1, 1, 1), (2, 2, 2);
"""
OTHERS_ACCIDENT: Final = """
    SET binlog_format = ROW; USE later; BEGIN;
    UPDATE plain SET a = a + 100, s = IF(id = 2, 'wrong', s); UPDATE plain SET a = NULL WHERE id = 3;
    UPDATE plain SET j = '{"p": 9}' WHERE id = 1;
    UPDATE unique_key SET a = 77; UPDATE two_parts SET a = 88, y = y + 5; UPDATE computed SET a = a + 100; COMMIT
"""
OTHERS_LATER: Final = """
    USE later; UPDATE plain SET b = b + 50; UPDATE unique_key SET b = b + 50; UPDATE two_parts SET b = 'later';
    UPDATE computed SET b = b + 50
"""
CHECKED: Final = """
    SELECT * FROM later.computed WHERE NOT (st <=> a + b AND v <=> a * b);
    SELECT id FROM later.computed FORCE INDEX (v) WHERE v > 1000; CHECK TABLE later.computed EXTENDED
"""


def test_log_leaves_other_columns_that_others_changed_since(server: Instance, tmp_path: Path) -> None:
    """After images have only the columns of the accident; with generated columns in a log of MariaDB, the whole row."""
    emptied(server)
    server.sql("FLUSH BINARY LOGS")
    server.sql(OTHERS)
    server.sql(OTHERS_ACCIDENT)
    name = place(server).partition(":")[0]
    log = tmp_path / name
    log.write_bytes((server.data / name).read_bytes())
    with binlogio.open(log) as reader:
        starts = [transaction.start for transaction in TransactionReader(reader, KeySource(reader), ReplayFilter())]
    form = BinlogFile()
    with binlogio.open(log) as reader, undo(reader, form, wanted=ReplayFilter(start=starts[-1])) as ready:
        (tmp_path / "inverse").write_bytes(b"".join(ready.pieces()))
    is_whole = server.vendor.kind == "mariadb"
    server.sql(OTHERS)
    server.sql(OTHERS_LATER)
    expected = tables(server)
    server.sql(OTHERS)
    before = tables(server)
    server.sql(OTHERS_ACCIDENT)
    server.sql(OTHERS_LATER)
    refused = taken_back(server, tmp_path / "inverse", BinlogFile())

    assert refused == ""
    assert form.whole_images == ({"later.computed": WholeImages.GENERATED} if is_whole else {})
    assert tables(server) == {**expected, "later.computed": (before if is_whole else expected)["later.computed"]}
    assert server.sql(CHECKED).split() == ["later.computed", "check", "status", "OK"]


def test_log_of_a_versioned_table_leaves_what_others_changed_since(server: Instance, tmp_path: Path) -> None:
    """The row is found by key and end of its time; the history of the accident is deleted, the later one stays."""
    if not server.vendor.is_mariadb:
        pytest.skip("only MariaDB has tables with system versioning")
    emptied(server)
    server.sql("FLUSH BINARY LOGS")
    server.sql("CREATE DATABASE later")
    server.sql("CREATE TABLE later.t (id INT PRIMARY KEY, a INT, b INT) WITH SYSTEM VERSIONING")
    server.sql("INSERT INTO later.t VALUES (1, 1, 1), (2, 2, 2)")
    server.sql("SET binlog_format = ROW; UPDATE later.t SET a = a + 100")
    name = place(server).partition(":")[0]
    log = tmp_path / name
    log.write_bytes((server.data / name).read_bytes())
    with binlogio.open(log) as reader:
        starts = [one.start for one in TransactionReader(reader, KeySource(reader), ReplayFilter())]
    with binlogio.open(log) as reader, undo(reader, BinlogFile(), wanted=ReplayFilter(start=starts[-1])) as ready:
        (tmp_path / "inverse").write_bytes(b"".join(ready.pieces()))
    server.sql("UPDATE later.t SET b = b + 50 WHERE id = 1")

    assert taken_back(server, tmp_path / "inverse", BinlogFile()) == ""
    assert server.sql("SELECT * FROM later.t ORDER BY id").split() == ["1", "1", "51", "2", "2", "2"]
    assert server.sql("SELECT * FROM later.t FOR SYSTEM_TIME ALL ORDER BY id, a").split() == [
        "1", "1", "51", "1", "101", "1", "2", "2", "2",
    ]  # fmt: skip


MODES: Final = ("", "ANSI_QUOTES", "NO_BACKSLASH_ESCAPES", "ANSI_QUOTES,NO_BACKSLASH_ESCAPES")
MULTIBYTE: Final = "\u8868'; --"  # its last byte is a backslash in sjis


def hostile_table(name: str, key: tuple[str, ...]) -> TableDefinition:
    columns = (
        ColumnDefinition("id", "int", nullable=False),
        ColumnDefinition(HOSTILE_COLUMN, "varchar(80)"),
        ColumnDefinition("b`", "varbinary(80)"),
        ColumnDefinition("s\n\"'", "varchar(80)", charset="sjis"),
        ColumnDefinition("e#", "enum('\\\\','it''s','`;--')"),
    )
    return TableDefinition(HOSTILE_SCHEMA, name, columns, key, collation="utf8mb4_general_ci")


HOSTILE_SCHEMA: Final = "s'`\\\"; --"
HOSTILE_COLUMN: Final = "c'\\`\"/*"


def hostile_rows() -> list[dict[str, Any]]:
    texts: list[dict[str, Any]] = [{HOSTILE_COLUMN: text} for text in HOSTILE]
    others: list[dict[str, Any]] = [{"b`": data} for data in HOSTILE_BYTES] + [{"s\n\"'": MULTIBYTE}, {"e#": 2}, {}]
    empty = {HOSTILE_COLUMN: None, "b`": None, "s\n\"'": None, "e#": None}
    return [{"id": at, **empty, **row} for at, row in enumerate(texts + others)]


@pytest.mark.parametrize("mode", MODES)
def test_hostile_names_and_values_are_taken_back(server: Instance, tmp_path: Path, mode: str) -> None:
    """An update and a delete of everything, with and without a key, by a client whose session has the sql_mode too."""
    hostile = hostile_rows()
    plain = [{**row, HOSTILE_COLUMN: "x", "b`": b"x", "s\n\"'": "x", "e#": 1} for row in hostile]
    named = (hostile_table("t`'; DROP", ("id",)), hostile_table("no key\r\n;", ()))
    version = "10.11.18-MariaDB-log" if server.vendor.is_mariadb else "9.7.4"
    variables = ServerVariables(binlog_row_metadata="FULL", server_version=version)
    with BinlogWriter(tmp_path / "binlog", variables=variables) as log, log.session() as session:
        for changes in (
            [Insert(table, plain) for table in named],
            [Update(table, list(zip(plain, hostile, strict=True))) for table in named],
            [Delete(table, hostile) for table in named],
        ):
            session.begin()
            session.execute(Statement("changes", tuple(changes)))
            session.commit()
    with binlogio.open(tmp_path / "binlog.000001") as reader:
        ends = [transaction.end for transaction in TransactionReader(reader, KeySource(reader), ReplayFilter())]
    emptied(server)
    states = []
    with closing(connect(server)) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {backticked(HOSTILE_SCHEMA)}")
        for table in named:
            cursor.execute(created(table))
        for end in ends:
            replay_log(server, tmp_path / "binlog.000001", end)
            states.append(tables(server))
    for start, before in zip(ends[1::-1], states[1::-1], strict=True):
        wanted = ReplayFilter(start=start, stop=ends[ends.index(start) + 1])
        with binlogio.open(tmp_path / "binlog.000001") as reader, undo(reader, SqlScript(), wanted=wanted) as ready:
            sql = b"".join(ready.pieces())
        done = run_sql(
            server, sql.replace(b"STRICT_ALL_TABLES", f"STRICT_ALL_TABLES,{mode}".encode().rstrip(b",")), mode
        )

        assert done.stderr == b""
        assert tables(server) == before
    assert len(ends) == 3
    assert states[0] != states[1] != states[2]


def created(table: TableDefinition) -> str:
    """CREATE TABLE as its definition has it."""
    columns = [
        f"{backticked(column.name)} {column.type}"
        + (f" CHARACTER SET {column.charset}" if column.charset else "")
        + ("" if column.nullable else " NOT NULL")
        for column in table.columns
    ]
    key = [f"PRIMARY KEY ({', '.join(map(backticked, table.primary_key))})"] if table.primary_key else []
    name = f"{backticked(table.schema)}.{backticked(table.name)}"
    return f"CREATE TABLE {name} ({', '.join(columns + key)}) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci"


def replay_log(server: Instance, log: Path, stop: Position) -> None:
    with closing(MysqlTarget.open(url(server))) as target, binlogio.open(log) as reader:
        replay(reader, target, wanted=ReplayFilter(stop=stop))


DOCUMENTS: Final = (
    [Decimal("1.50"), Decimal("-99999999999.5"), date(2020, 1, 31), timedelta(hours=-10, microseconds=5),
     datetime(2020, 1, 1, 1, 1, 1, 500000)],
    Decimal("1.5"), date(2020, 1, 1), {"a": [1, {"b": Decimal("3.1")}], "q'\\\"`": b"\x00\xff", "": {}}, b"abc",
    "it's \\ \" \0 \x1a", None,
    JsonUnsigned(5), [JsonUnsigned(5), 1 << 40, -(1 << 40), (1 << 64) - 1, 1.0, -0.0, 1e300, None, True, "2020-01-01"],
    1 << 40, [[[Decimal(1)]]],
)  # fmt: skip


def test_documents_come_back_with_the_types_in_them(server: Instance) -> None:
    """Decimals, dates and binary strings are not their text, as the server's own log says of what the SQL made."""
    if server.vendor.is_mariadb:
        pytest.skip("JSON is text in MariaDB")
    emptied(server)
    documents = [JsonDocument.from_python(document) for document in DOCUMENTS]
    with closing(connect(server)) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE d")
        cursor.execute("CREATE TABLE d.t (document JSON)")
        cursor.execute("FLUSH BINARY LOGS")
        for document in documents:
            cursor.execute("INSERT INTO d.t VALUES (" + json_value(document, text_literal) + ")")
        cursor.execute("FLUSH BINARY LOGS")
    log = sorted(server.data.glob("binlog.0*[0-9]"))[-2]
    with binlogio.open(log) as reader:
        found = [row.after for event in reader if isinstance(event, RowsEvent) for row in reader.rows(event)]

    wanted = [kinds(parse_json(document.binary)) for document in documents]

    assert wanted == [kinds(parse_json(image.values[0].binary)) for image in found if image]


def kinds(node: Any) -> Any:
    """Return the tree with the kinds of its values; what precision a decimal is stored with is the server's choice."""
    if isinstance(node, dict):
        return {name: kinds(value) for name, value in node.items()}
    if isinstance(node, list):
        return [kinds(value) for value in node]
    return (type(node).__name__, getattr(node, "type_code", None), scalar_text(node))


@pytest.mark.parametrize(("form", "error"), [(SqlScript, "ERROR 1242"), (BinlogFile, "ERROR 1032")])
def test_row_that_is_not_there_stops_the_undo(server: Instance, tmp_path: Path, form: type[Any], error: str) -> None:
    """The transaction it is in is rolled back; what came before, the last of the log, is taken back."""
    table = TableDefinition("d", "t", (ColumnDefinition("id", "int", nullable=False),), ("id",))
    version = "10.11.18-MariaDB-log" if server.vendor.is_mariadb else "9.7.4"
    variables = ServerVariables(binlog_row_metadata="FULL", server_version=version)
    with BinlogWriter(tmp_path / "binlog", variables=variables) as log, log.session() as session:
        for ids in ((1, 2), (3,)):
            session.begin()
            session.execute(Statement("INSERT", (Insert(table, [{"id": number} for number in ids]),)))
            session.commit()
    with binlogio.open(tmp_path / "binlog.000001") as reader, undo(reader, form()) as ready:
        (tmp_path / "inverse").write_bytes(b"".join(ready.pieces()))
    emptied(server)
    with closing(connect(server)) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE d")
        cursor.execute("CREATE TABLE d.t (id INT PRIMARY KEY) ENGINE=InnoDB")
        cursor.execute("INSERT INTO d.t VALUES (2), (3)")
    refused = taken_back(server, tmp_path / "inverse", form())

    assert error in refused
    assert tables(server) == {"d.t": [[2]]}


AT_ONCE: Final = 5  # accidents on the tables of one seed
NOT_REVERSED: Final = {"w.old"}


def test_random_accidents_are_taken_back_or_stop(server: Instance, tmp_path: Path) -> None:
    """The changes of the accident alone are gone, or the undo stopped, has changed nothing and named the table."""
    outcomes: Counter[str] = Counter()
    wrong: dict[Any, Any] = {}
    for seed in seeds("1"):
        random = Random(seed)
        with RandomSessions(server, random) as sessions:
            sessions.run(60, ddl=0)
            for number in range(seed * AT_ONCE, (seed + 1) * AT_ONCE):
                before, start = tables(server), place(server)
                sessions.transaction()
                after, end = tables(server), place(server)
                sessions.run(random.choice([0, 3, 10, 20]), ddl=0, settings=0)
                now, form = tables(server), random.choice([SqlScript, BinlogFile])
                logs = copied_logs(server, tmp_path / str(number))
                output = tmp_path / f"undo.{number:06}"
                options = ("--start-position", start, "--stop-position", end, "-o", str(output))
                kind = () if form is SqlScript else ("--format", "binlog")
                done = CliRunner().invoke(cli, ["undo", *options, *kind, *logs])
                if not output.exists():
                    is_refused = re.search(
                        "images lack columns|no table map", done.stderr
                    )  # MySQL 9.7: of a foreign key
                    assert done.exit_code == 0 or is_refused, done.stderr
                    outcomes["refused" if done.exit_code else "no change"] += 1
                    continue
                refused = taken_back(server, output, form())
                found = tables(server)
                # A cascade that is not in the log, and triggers that run once more.
                skipped = NOT_REVERSED | ({"w.audit"} if form is SqlScript and not refused else set())
                if "foreign key" in done.stderr:
                    skipped |= {"w.orders", "w.items", "w.customers"}
                expected = {
                    name: now[name] if refused else without(KEYS[name], before[name], after[name], now[name], form)
                    for name in KEYS
                    if name not in skipped
                }
                conflicts = [name for name, rows in expected.items() if rows is None]
                later = re.findall(r"reversed rows of (\S+) were changed later", done.stderr)
                kinds = form.__name__, "stopped" if refused else "reversed", "changed since" if later else "unchanged"
                outcomes[" ".join(kinds)] += 1
                different = difference(
                    {name: rows for name, rows in expected.items() if rows is not None},
                    {name: found[name] for name in expected if expected[name] is not None},
                )
                if different or conflicts or (refused and not later and "foreign key" not in done.stderr + refused):
                    wrong[number, kinds] = refused, done.stderr, different, conflicts

    assert wrong == {}
    assert sum(number for name, number in outcomes.items() if "reversed" in name) > len(seeds("1"))


def without(key: int, before: list[Any], after: list[Any], now: list[Any], form: type[Any]) -> list[Any] | None:
    """Return the present rows without the changes from `before` to `after`; None if others changed the same values."""
    if not key:
        first, second, third = (Counter(map(json.dumps, rows)) for rows in (before, after, now))
        if second - first - third:
            return None
        return [json.loads(row) for row in (third - (second - first) + (first - second)).elements()]
    old, new, present = ({str(row[:key]): row for row in rows} for rows in (before, after, now))
    for name in old.keys() | new.keys():
        was, became, row = old.get(name), new.get(name), present.get(name)
        if was == became:
            continue
        if became is None or was is None:
            if row != became and (form is SqlScript or row is None or became is None):
                return None
            present.pop(name, None)
            if was is not None:
                present[name] = was
        elif row is None:
            return None
        else:
            values = list(zip(was, became, row, strict=True))
            if form is SqlScript and any(x != y != z for x, y, z in values):
                return None
            present[name] = [z if x == y else x for x, y, z in values]
    return list(present.values())
