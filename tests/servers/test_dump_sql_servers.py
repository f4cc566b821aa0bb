"""`dump --format sql FILE | mysql` and `mysqlbinlog FILE | mysql` end in the same tables."""

from __future__ import annotations

import re
import shutil
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pytest
from click.testing import CliRunner

import binlogio
from binlogio.errors import BinlogError
from binlogio.events.format_description import FormatDescriptionEvent
from binlogio.events.query import QueryEvent
from binlogio.gtid import Gtid, GtidSet
from binlogio.schema.identifiers import backticked
from binlogio_cli.main import cli
from corpus import CorpusFile, cases, files
from real_servers import KINDS, Instance, vendor
from target_servers import OPTIONS, cases_of, emptied, fed, reset, rows_of, tables

if TYPE_CHECKING:
    from collections.abc import Iterator

    from corpus import Case

pytestmark = [pytest.mark.server, pytest.mark.slow]

TOOL: Final = {
    "mysql": ("mysqlbinlog", "--no-defaults", "--skip-gtids"),
    "mariadb": ("mariadb-binlog", "--no-defaults"),
}
SESSIONS: Final = (  # of the client
    ("--default-character-set=latin1", "--init-command=SET time_zone = '+09:00'"),
    ("--default-character-set=sjis", "--init-command=SET sql_mode = 'ANSI,NO_BACKSLASH_ESCAPES'"),
    ("--default-character-set=utf8mb4", "--init-command=SET foreign_key_checks = 0, autocommit = 0"),
)
RENAMED: Final = ("rowimage_full", "rows_query", "alter", "ddl_mix", "metadata_full")
WRITERS: Final = (  # by version of the log: the servers that take it
    (r"1[1-9]\..*MariaDB", KINDS[2:]),
    (r".*MariaDB", KINDS[1:]),
    (r"5\.[0-5]\.", KINDS[1:]),  # mysqlbinlog 9.7 does not read rows events of version 1
    ("", KINDS[:1]),
)
OLDER_TABLES: Final = {  # that logs of a corpus change and do not create
    "db1": "CREATE TABLE db1.t1 (a INT); CREATE TABLE db1.t2 (a TEXT) ENGINE=MyISAM;",
    "mysql": "CREATE TABLE IF NOT EXISTS mysql.ndb_apply_status (server_id INT UNSIGNED PRIMARY KEY, "
    "epoch BIGINT UNSIGNED NOT NULL, log_name VARCHAR(255) CHARACTER SET latin1 COLLATE latin1_bin NOT NULL, "
    "start_pos BIGINT UNSIGNED NOT NULL, end_pos BIGINT UNSIGNED NOT NULL); TRUNCATE mysql.ndb_apply_status;",
    "test": "CREATE TABLE test.ba (a INT PRIMARY KEY, b INT, c INT); "
    "CREATE TABLE test.orders (id INT PRIMARY KEY, customer INT, total DECIMAL(10,2));",
    "toddy_test": "CREATE TABLE toddy_test.outbox (id INT PRIMARY KEY, topic VARCHAR(255) CHARACTER SET utf8mb4, "
    "event_type ENUM('BLOB','JSON','PROTOBUF'), event BLOB, created TIMESTAMP);",
}
UNREADABLE: Final = "encrypted"  # by the tools, which need the server for it


@pytest.fixture(scope="module", params=KINDS)
def server(request: pytest.FixtureRequest) -> Iterator[Instance]:
    """One server of each vendor for all tests."""
    common = ("--character-set-server=utf8mb4", "--log-bin-trust-function-creators=1", "--local-infile=1")
    with vendor(request.param).server("dumped", *OPTIONS[request.param], *common) as instance:
        yield instance


def applied(server: Instance, sql: bytes) -> tuple[dict[str, Any], list[str]]:
    """Return the tables of an empty server after the SQL of a log, and the errors, which the source has had too."""
    emptied(server)
    done = server.vendor.run(
        server.vendor.client, "--no-defaults", "-uroot", "--default-character-set=utf8mb4", "--binary-mode", "--force",
        "--local-infile=1", "-S", f"/run/mysqld/{server.name}.sock", stdin=sql,
    )  # fmt: skip
    return tables(server), re.findall(r"^ERROR (\d+) .*?: (.*)", done.stderr.decode("utf-8", "replace"), re.MULTILINE)


def test_dump_and_the_vendors_tool_give_the_same_tables(server: Instance) -> None:
    tool = TOOL["mariadb" if server.vendor.is_mariadb else "mysql"]
    wrong: dict[str, Any] = {}
    for case in cases_of(server.vendor.kind):
        keyring = ("--keyring", str(case.keys)) if case.keys else ()
        with server.vendor.folder("dumped") as folder:
            names = [server.vendor.inside(Path(shutil.copy(log, folder))) for log in case.logs]
            inside = server.vendor.inside(folder)
            chosen = ("--skip-gtids", "--local-load", str(folder), *keyring)
            done = CliRunner().invoke(cli, ["dump", "--format", "sql", *chosen, *map(str, case.logs)])
            assert done.exit_code == 0, done.stderr
            found, errors = applied(server, done.stdout_bytes.replace(bytes(folder), inside.encode()))
            if UNREADABLE in case.id:
                theirs, their_errors = expected_of(case), errors
            else:
                printed = server.vendor.run(*tool, f"--local-load={inside}", *names)
                assert printed.returncode == 0, printed.stderr
                theirs, their_errors = applied(server, printed.stdout)
        different = [name for name in found | theirs if found.get(name) != theirs.get(name)]
        if different or errors != their_errors:
            wrong[case.id] = different, errors, their_errors

    assert wrong == {}


def logs_without_tables() -> Iterator[Any]:
    """Yield each log of the corpus that is in no case, with the servers that can take it."""
    in_cases = {log for case in cases() for log in case.logs}
    for file in {file.id: file for file in reversed(files())}.values():
        if file.path in in_cases:
            continue
        try:
            with binlogio.open(file.path) as reader:
                version = next(e.server_version for e in reader if isinstance(e, FormatDescriptionEvent))
        except BinlogError as exc:
            yield pytest.param("mysql", file, id=file.id, marks=pytest.mark.skip(reason=str(exc)))
            continue
        for kind in next(kinds for pattern, kinds in WRITERS if re.match(pattern, version)):
            yield pytest.param(kind, file, id=f"{kind}-{file.id}")


@pytest.mark.parametrize(("server", "log"), list(logs_without_tables()), indirect=["server"])
def test_a_log_without_recorded_tables_gives_those_of_the_vendors_tool(server: Instance, log: CorpusFile) -> None:
    """The same tables, and the same error of the server if the log needs what is older or what servers no longer have.

    The clients stop at the first error.
    """
    prepared = older(log)
    tool = TOOL["mariadb" if server.vendor.is_mariadb else "mysql"]
    with server.vendor.folder("loose") as folder:
        plain = folder / log.path.name
        with pa.input_stream(log.path, compression="detect") as source, plain.open("wb") as copied:
            shutil.copyfileobj(source, copied)
        chosen = ("--format", "sql", "--skip-gtids", "--local-load", str(folder))
        done = CliRunner().invoke(cli, ["dump", *chosen, str(log.path)])
        inside = server.vendor.inside(folder)
        printed = server.vendor.run(
            *tool, "--verify-binlog-checksum", f"--local-load={inside}", server.vendor.inside(plain)
        )
        results = []
        for sql in (done.stdout_bytes.replace(bytes(folder), inside.encode()), printed.stdout):
            reset(server)
            server.sql(prepared)
            errors = re.findall(
                r"^ERROR (\d+) .*?: (.*)", fed(server, sql, "--local-infile=1").stderr.decode(), re.MULTILINE
            )
            results.append((tables(server), errors))
    found, errors = results[0]
    if printed.returncode and not done.exit_code:
        pytest.skip(f"{tool[0]} cannot read the log: {printed.stderr.decode()}")

    assert results[0] == results[1]
    assert done.exit_code == 0 or log.damaged or printed.returncode
    if errors:
        pytest.skip(f"{len(found)} tables are equal up to an error, as with {tool[0]}: {errors[0]}")


def older(log: CorpusFile) -> str:
    """Return SQL that creates the databases and tables which a log uses but does not create."""
    used, created = set(), set()
    with binlogio.open(log.path) as reader, suppress(BinlogError):
        for event in reader:
            used.add(getattr(event, "schema", ""))
            if isinstance(event, QueryEvent):
                created |= set(re.findall(r"(?i)CREATE (?:DATABASE|SCHEMA) `?(\w+)", event.sql.decode("latin1")))
                if b"USER 'root'" in event.sql:
                    pytest.skip("the log changes the account of the tests")
    names = sorted(used - created - {""})
    databases = [f"CREATE DATABASE IF NOT EXISTS {backticked(name)} CHARACTER SET latin1;" for name in names]
    return "".join(databases + [OLDER_TABLES.get(name, "") for name in names])


@pytest.mark.parametrize("kind", KINDS)
def test_several_logs_pass_a_client_with_any_settings(kind: str) -> None:
    """Whole, without GTIDs, in two parts, and without a table: the tables and GTIDs of the source, and no error."""
    gtids = ("--gtid-mode=ON", "--enforce-gtid-consistency=ON") if kind == "mysql" else ()
    options = (*OPTIONS[kind][:3], *gtids, "--local-infile=1", "--log-bin-trust-function-creators=1")
    wrong: dict[Any, Any] = {}
    with vendor(kind).server("piped", *options) as server:
        for case in cases_of(kind):
            if len(case.logs) == 1:
                continue
            with binlogio.open(case.logs, keyring=case.keys) as reader:
                groups = [(f"{Path(reader.position.file).name}:{one.begin}", one.gtid) for one in reader.groups()]
            place = groups[len(groups) // 2][0]
            logged = [gtid for _, gtid in groups if isinstance(gtid, Gtid)]
            tables_of = expected_of(case)
            parts = [["--stop-position", place], ["--start-position", place]]
            left_out = next(iter(sorted(tables_of)))
            selections: list[list[list[str]]] = [[[]], [["--skip-gtids"]], parts, [["--exclude-table", left_out]]]
            for chosen in selections:
                reset(server)
                errors = b""
                for number, selection in enumerate(chosen, len(wrong)):
                    keyring = ("--keyring", str(case.keys)) if case.keys else ()
                    done = CliRunner().invoke(
                        cli, ["dump", "--format", "sql", *selection, *keyring, *map(str, case.logs)]
                    )
                    assert done.exit_code == 0, done.stderr
                    errors += fed(server, done.stdout_bytes, *SESSIONS[number % len(SESSIONS)]).stderr
                found = tables(server)
                different = [
                    name
                    for name, rows in tables_of.items()
                    if found.get(name) != rows and not (name == left_out and "--exclude-table" in chosen[0])
                ]
                missing = ""
                if logged and chosen in ([[]], parts):
                    executed = GtidSet.parse(server.sql("SELECT REPLACE(@@global.gtid_executed, '\\n', '')").strip())
                    missing = str(GtidSet.from_gtids(logged).difference(executed))
                if errors or different or missing:
                    wrong[case.id, str(chosen)] = errors, different, missing

    assert wrong == {}


def test_a_dump_with_another_name_fills_the_other_schema(server: Instance) -> None:
    """The schema that `--rewrite-db` names has the tables that the schema in the log has without it."""
    chosen_cases = [case for case in cases_of(server.vendor.kind) if case.id.rpartition("/")[2] in RENAMED]
    assert chosen_cases
    for case in chosen_cases:
        found = {}
        for options in ((), ("--rewrite-db", "corpus->a `twin`")):
            chosen = ("--format", "sql", "--skip-gtids", *options)
            done = CliRunner().invoke(cli, ["dump", *chosen, *map(str, case.logs)])
            assert done.exit_code == 0, done.stderr
            found[options], _ = applied(server, done.stdout_bytes)
        plain, renamed = found.values()
        assert any(plain.values())
        assert renamed == {name.replace("corpus.", "a `twin`."): rows for name, rows in plain.items()}, case.id


def expected_of(case: Case) -> dict[str, Any]:
    return {name: rows_of(table) for name, table in case.load("expected.json")["tables"].items()}
