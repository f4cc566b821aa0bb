"""Copies judged by the vendors: their tools read them, a server ends with the same tables, a replica applies them."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

import pytest
from click.testing import CliRunner

import relay_logs
from binlogio_cli.main import cli
from corpus import FIXTURES, MARIADB, MARIADB118, MYSQL
from real_servers import KINDS, vendor

if TYPE_CHECKING:
    from pathlib import Path

    from real_servers import Vendor

pytestmark = [pytest.mark.server, pytest.mark.slow]

FOLDERS: Final = {"mysql": MYSQL, "mariadb": MARIADB, "mariadb118": MARIADB118}
LOGS: Final = ("compressed", "rowimage_minimal", "group_commit", "gtid_on", "gtid")
FORMS: Final = {
    "as it is": (),
    "no checksums": ("--checksum", "none"),
    "compressed": ("--compression", "on"),
    "plain": ("--compression", "off"),
    "chosen": ("--exclude-table", "*.nothing"),
}


def copied(*arguments: object) -> None:
    result = CliRunner().invoke(cli, ["copy", *map(str, arguments)])
    assert result.exit_code == 0, result.stderr


def shown(server: Vendor, log: Path) -> list[bytes]:
    """Return the row changes that the vendor's tool shows; it has no complaint."""
    tool = "mariadb-binlog" if server.is_mariadb else "mysqlbinlog"
    done = server.run(
        tool, "--no-defaults", "-vv", "--base64-output=decode-rows", "--verify-binlog-checksum", server.inside(log)
    )
    assert (done.returncode, done.stderr) == (0, b"")
    return re.findall(rb"^###.*$", done.stdout, re.MULTILINE)


@pytest.mark.parametrize("kind", KINDS)
def test_the_tools_of_the_vendors_read_the_same_rows_from_copies(kind: str) -> None:
    """In all forms, and split."""
    server = vendor(kind)
    with server.folder("copies") as folder:
        for name in LOGS:
            source = FOLDERS[kind] / name / "binlog.000001"
            if not source.exists():
                continue
            (folder / "source").write_bytes(source.read_bytes())
            expected = shown(server, folder / "source")
            for number, options in enumerate(FORMS.values()):
                copied(*options, "--force", "-o", folder / f"{number}", source)
                assert shown(server, folder / f"{number}") == expected
            copied("--force", "--max-groups", 7, "--out", folder / name, source)
            parts = sorted((folder / name).glob("binlog.0*"))
            assert [row for part in parts for row in shown(server, part)] == expected


@pytest.mark.parametrize("kind", ["mysql", "mariadb"])
def test_a_server_has_the_same_tables_from_a_copy(kind: str) -> None:
    """The copy renames the schema, has no checksums, and no `autoinc`."""
    server, source = vendor(kind), FOLDERS[kind] / "rowimage_full" / "binlog.000001"
    with server.folder("tables") as folder, server.server("copy") as instance:
        (folder / "source").write_bytes(source.read_bytes())
        options = ("--rewrite-db", "corpus->twin", "--exclude-table", "corpus.autoinc", "--checksum", "none")
        copied(*options, "-o", folder / "copy", source)
        tool, *skip = ("mariadb-binlog",) if server.is_mariadb else ("mysqlbinlog", "--skip-gtids")
        for log in ("source", "copy"):
            instance.sql(server.run(tool, "--no-defaults", *skip, server.inside(folder / log)).stdout)
        found = {}
        for schema in ("corpus", "twin"):
            names = instance.sql(f"SELECT table_name FROM information_schema.tables WHERE table_schema = '{schema}'")
            found[schema] = {
                name: sorted(instance.sql(f"SELECT * FROM {schema}.{name}").splitlines()) for name in names.split()
            }

    assert "autoinc" in found["corpus"]
    assert found["twin"] == {name: rows for name, rows in found["corpus"].items() if name != "autoinc"}
    assert any(found["twin"].values())


def test_a_replica_applies_logs_that_became_one(tmp_path: Path) -> None:
    """With workers in parallel."""
    script, end = FIXTURES / "demo" / "sessions.jsonl", tmp_path / "end.jsonl"
    end.write_text(json.dumps({"do": "ddl", "schema": "bank", "sql": relay_logs.FINISHED}) + "\n")
    written = CliRunner().invoke(
        cli, ["write", str(script), str(end), "--out", str(tmp_path / "logs"), "--set", "max_binlog_size=4096"]
    )
    logs = sorted(tmp_path.glob("logs/binlog.0*"))
    copied("-o", tmp_path / "merged.000001", *logs)
    options = ("--server-id=99", "--relay-log=relay", "--skip-replica-start", "--gtid-mode=ON")
    more = ("--enforce-gtid-consistency=ON", "--log-bin-trust-function-creators=ON")
    with vendor("mysql").server("merged", *options, *more) as server:
        server.sql("SET GLOBAL replica_parallel_workers=4")
        relay_logs.apply(server, [(tmp_path / "merged.000001").read_bytes()])
        entries = server.sql("SELECT * FROM bank.entries ORDER BY id")

    assert written.exit_code == 0
    assert len(logs) > 1
    assert entries == "1\t1\topened\n"
