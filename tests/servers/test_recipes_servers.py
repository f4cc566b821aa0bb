"""The commands of the recipes that need a server, as the documents have them, against real servers.

Each ```sh block of a recipe is run by a shell, with the servers' own client programs, on a server that has nothing else
in it. Before the block, `backup.sql` is made of the state that the recipe says; after it, the tables are compared.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Final

import pytest
from click.testing import CliRunner

from binlogio_cli.main import cli
from corpus import FIXTURES, ROOT
from real_servers import Instance, vendor
from target_servers import OPTIONS, emptied, url

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.server
SOCKET: Final = "/run/mysqld/mysqld.sock"  # of the server in the documents
CUSTOMERS: Final = (
    "1\tAda\tada@example.org\n2\tGrace H.\tgrace@example.com\n3\tEdsger\tNULL\n4\tBarbara\tbarbara@example.com\n"
)
ORDERS: Final = "1001\n1004\n1007\n1008\n"
BEFORE: Final = {"mysql97": "binlog.000001:2375", "mariadb1011": "binlog.000001:2132"}
RECOVERY: Final = "docs/recipes/point_in_time_recovery.md"


def blocks_of(document: str) -> list[str]:
    """Return the ```sh blocks of a document."""
    text = (ROOT / document).read_text(encoding="utf-8")
    return [part.split("\n```", 1)[0] for part in text.split("\n```sh\n")[1:]]


@pytest.fixture(scope="module")
def mysql() -> Iterator[Instance]:
    with vendor("mysql").server("recipe", *OPTIONS["mysql"]) as instance:
        yield instance


@pytest.fixture(scope="module")
def mariadb() -> Iterator[Instance]:
    with vendor("mariadb").server("recipe", *OPTIONS["mariadb"]) as instance:
        yield instance


def run_block(block: str, server: Instance, folder: Path) -> str:
    """Run a block in a folder, with the programs of the server on PATH; return what it printed."""
    programs = folder / "bin"
    programs.mkdir(exist_ok=True)
    client = f'exec "{ROOT}/tests/support/servers" run {server.vendor.kind}'
    inside = f"/run/mysqld/{server.name}.sock"
    texts = {
        "binlogio": f'exec "{sys.executable}" -m binlogio "$@"',
        **{name: f'{client} {name} --no-defaults -uroot -S {inside} "$@"' for name in ("mysql", "mariadb")},
        "mysqlbinlog": f'{client} mysqlbinlog --no-defaults "$@"',
    }
    for name, text in texts.items():
        (programs / name).write_text(f"#!/bin/sh\n{text}\n")
        (programs / name).chmod(0o755)
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block.replace(SOCKET, str(server.socket))],
        cwd=folder,
        env={
            **os.environ,
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "cli"))),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def write_backup(server: Instance, case: str, folder: Path) -> None:
    """Write `backup.sql`: the dump of a server that has the incident up to the position of the recipe."""
    emptied(server)
    logs = sorted(str(path) for path in (FIXTURES / case / "incident").glob("binlog.0*"))
    replayed = CliRunner().invoke(cli, ["replay", "--to", url(server), "--stop-position", BEFORE[case], *logs])
    assert replayed.exit_code == 0, replayed.output
    dump = server.vendor.run(
        f"{server.vendor.client}dump" if not server.vendor.is_mariadb else "mariadb-dump",
        "--no-defaults", "-uroot", "-S", f"/run/mysqld/{server.name}.sock", "--databases", "shop",
    )  # fmt: skip
    assert dump.returncode == 0, dump.stderr
    (folder / "backup.sql").write_bytes(dump.stdout)
    emptied(server)
    shutil.copytree(FIXTURES / case / "incident", folder / "archive")


def assert_recovered(server: Instance, orders: str = ORDERS) -> None:
    assert server.sql("SELECT * FROM shop.customers ORDER BY id") == CUSTOMERS
    assert server.sql("SELECT id FROM shop.orders ORDER BY id") == orders


@pytest.mark.parametrize(("number", "orders"), [(0, ORDERS), (1, "1001\n1004\n1007\n")])
def test_recovery_brings_the_table_back(mysql: Instance, number: int, orders: str, tmp_path: Path) -> None:
    """Without the DROP, and up to the DROP."""
    write_backup(mysql, "mysql97", tmp_path)
    run_block(blocks_of(RECOVERY)[number], mysql, tmp_path)

    assert_recovered(mysql, orders)


def test_recovery_of_mariadb_brings_the_table_back(mariadb: Instance, tmp_path: Path) -> None:
    write_backup(mariadb, "mariadb1011", tmp_path)
    run_block(blocks_of(RECOVERY)[2], mariadb, tmp_path)

    assert_recovered(mariadb)


def test_the_servers_tools_do_the_same(mysql: Instance, tmp_path: Path) -> None:
    """The recipe's last block, after the restore."""
    with mysql.vendor.folder("recipe") as inside:
        write_backup(mysql, "mysql97", tmp_path)
        mysql.sql((tmp_path / "backup.sql").read_bytes())
        shutil.copytree(tmp_path / "archive", inside / "archive")
        run_block(
            blocks_of(RECOVERY)[3].replace("archive/", f"{mysql.vendor.inside(inside)}/archive/"), mysql, tmp_path
        )

        assert_recovered(mysql)


def test_deleted_rows_come_back(mysql: Instance, tmp_path: Path) -> None:
    """The orders of the live server, and the undo of the DELETE."""
    emptied(mysql)
    logs = sorted(str(path) for path in (FIXTURES / "mysql97" / "incident").glob("binlog.0*"))
    undo = ["undo", "--include-gtids", "acb68dd1-e6e6-11f1-a4d2-02fc00000001:10", "-o", str(tmp_path / "undo.sql")]
    assert CliRunner().invoke(cli, ["replay", "--to", url(mysql), *logs]).exit_code == 0
    assert CliRunner().invoke(cli, [*undo, *logs]).exit_code == 0
    run_block(blocks_of("docs/recipes/who_deleted_rows.md")[0], mysql, tmp_path)

    assert mysql.sql("SELECT id FROM shop.orders ORDER BY id") == "".join(f"{1001 + n}\n" for n in range(8))


def test_a_log_of_mariadb_goes_into_mysql(mysql: Instance, tmp_path: Path) -> None:
    write_backup(mysql, "mariadb1011", tmp_path)
    run_block(blocks_of("docs/recipes/mariadb_to_mysql.md")[0], mysql, tmp_path)

    assert mysql.sql("SELECT id FROM shop.orders ORDER BY id") == ORDERS
    assert "customers" not in mysql.sql("SHOW TABLES FROM shop")


@pytest.mark.parametrize("kind", ["mysql", "mariadb"])
def test_logs_that_the_vendors_client_fetches_are_those_of_the_server(
    kind: str, request: pytest.FixtureRequest
) -> None:
    """The options are those of the recipe, but for the address and the account."""
    server: Instance = request.getfixturevalue(kind)
    (block,) = blocks_of("docs/recipes/managed_servers.md")
    words = block.splitlines()[1].split()
    kept = [one for one in words if one in ("--read-from-remote-server", "--raw", "--to-last-log")]
    server.sql(
        "SET binlog_format = ROW; CREATE DATABASE fetched; CREATE TABLE fetched.t (a int);"
        "INSERT INTO fetched.t VALUES (1)"
    )
    first = server.sql("SHOW BINARY LOGS").split()[0]
    server.sql("SET binlog_format = ROW; FLUSH BINARY LOGS; INSERT INTO fetched.t VALUES (2)")
    program = "mariadb-binlog" if server.vendor.is_mariadb else words[0]
    with server.vendor.folder("fetched") as folder:
        done = server.vendor.run(
            program, "--no-defaults", *kept, f"--result-file={server.vendor.inside(folder)}/",
            "-uroot", "-S", f"/run/mysqld/{server.name}.sock", first,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        verified = CliRunner().invoke(cli, ["verify", str(folder)])
        found = CliRunner().invoke(cli, ["grep", "--json", "-T", "fetched.t", str(folder)])

    assert len(kept) == 3
    assert verified.exit_code == 0, verified.output
    assert [line.count('"insert"') for line in found.stdout.splitlines() if '"insert"' in line] == [1, 1]
