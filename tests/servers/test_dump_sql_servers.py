"""`dump --format sql FILE | mysql` and `mysqlbinlog FILE | mysql` end in the same tables."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from click.testing import CliRunner

import binlogio
from binlogio.events.gtid import GtidEvent
from binlogio.gtid import GtidSet
from binlogio_cli.main import cli
from real_servers import KINDS, Instance, vendor
from target_servers import OPTIONS, cases_of, emptied, rows_of, tables

if TYPE_CHECKING:
    from collections.abc import Iterator

    from corpus import Case

pytestmark = [pytest.mark.server, pytest.mark.slow]

TOOL: Final = {
    "mysql": ("mysqlbinlog", "--no-defaults", "--skip-gtids"),
    "mariadb": ("mariadb-binlog", "--no-defaults"),
}
RENAMED: Final = ("rowimage_full", "rows_query", "alter", "ddl_mix", "metadata_full")
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


def test_logs_with_gtids_pass_the_client_one_after_the_other() -> None:
    """A server with gtid_mode=ON has the tables and the GTIDs of the source, and the client reports no error."""
    options = (*OPTIONS["mysql"][:3], "--gtid-mode=ON", "--enforce-gtid-consistency=ON", "--local-infile=1")
    wrong: dict[str, Any] = {}
    with vendor("mysql").server("piped", *options, "--log-bin-trust-function-creators=1") as server:
        for case in cases_of("mysql"):
            with binlogio.open(case.logs, keyring=case.keys) as reader:
                gtids = [event.gtid for event in reader if isinstance(event, GtidEvent)]
            if not gtids or len(case.logs) == 1:
                continue
            server.sql("RESET BINARY LOGS AND GTIDS")
            keyring = ("--keyring", str(case.keys)) if case.keys else ()
            done = CliRunner().invoke(cli, ["dump", "--format", "sql", *keyring, *map(str, case.logs)])
            assert done.exit_code == 0, done.stderr
            found, errors = applied(server, done.stdout_bytes)
            executed = GtidSet.parse(server.sql("SELECT REPLACE(@@global.gtid_executed, '\\n', '')").strip())
            different = [name for name, rows in expected_of(case).items() if found.get(name) != rows]
            if different or errors or GtidSet.from_gtids(gtids).difference(executed):
                wrong[case.id] = different, errors, str(executed)

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
