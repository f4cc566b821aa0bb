"""The paths in the ledger of an export are those that an export makes; any other ledger is refused by its name."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from contextlib import closing
from random import Random
from typing import TYPE_CHECKING, Any, Final

import duckdb
import pytest
from click.testing import CliRunner

from binlogio_cli.main import cli
from corpus import MYSQL

if TYPE_CHECKING:
    from pathlib import Path

FIRST, SECOND = (str(MYSQL / "incident" / f"binlog.00000{number}") for number in (1, 2))
OUTSIDE: Final = ("../victim", "/victim", "..", ".", "", "x/../../victim.csv", "binlogio-export.json", "../x.parquet",
                  "..//x.parquet", "a/b/c/1.parquet", "shop.orders.txt", "shop.orders.parquet\n")  # fmt: skip
TEMPORARY: Final = (*OUTSIDE, "x/.binlogio-0123456789abcdef.part", "shop.orders.parquet")


def run(out: Path | str, *more: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli, ["export", "-q", "-o", str(out), *more])
    return result.exit_code, result.stderr


def test_ledger_with_other_paths_is_refused(tmp_path: Path) -> None:
    """Neither --append nor --force reads, moves or removes anything."""
    out, ledger = tmp_path / "out", tmp_path / "out" / "binlogio-export.json"
    assert run(out, FIRST)[0] == 0
    (tmp_path / "victim").write_text("precious")
    fields: dict[str, Any] = json.loads(ledger.read_text())
    pending = {"table": "shop.orders", "number": 9, "day": None, "rows": 1, "path": "shop.orders.9.parquet"}
    side = ".binlogio-0123456789abcdef.part"
    changed: list[dict[str, Any]] = [
        *({"removed": [path]} for path in OUTSIDE),
        *({"files": [{**fields["files"][0], "path": path}]} for path in OUTSIDE),
        *({"pending": [{**pending, "path": path, "temporary": side}]} for path in OUTSIDE),
        *({"pending": [{**pending, "temporary": path}]} for path in TEMPORARY),
    ]
    for change in changed:
        ledger.write_text(json.dumps(fields | change))
        before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
        for option in ("--append", "--force"):
            code, text = run(out, option, FIRST, SECOND)
            assert (code, str(ledger) in text) == (1, True), (change, text)
        assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    ledger.write_text(json.dumps(fields | {"pending": [{**pending, "temporary": side}]}))
    code, text = run(out, "--append", FIRST, SECOND)

    assert (code, "a file of the export is missing" in text) == (1, True)


@pytest.mark.parametrize("name", ["out.csv", "out.parquet", "out.JSONL", "out.csv.gz", "out.db", "out.arrow"])
@pytest.mark.parametrize("form", ["csv", "parquet", "delta"])
def test_name_of_a_file_is_refused_for_a_directory(name: str, form: str, tmp_path: Path) -> None:
    """A directory that exists, or a / at the end, is a directory under any name; DuckDB writes a file."""
    code, text = run(tmp_path / name, "--format", form, FIRST)
    left = list(tmp_path.iterdir())

    assert (code, left) == (2, [])
    assert f"{name}: an export is a directory" in text
    assert "--format duckdb" in text
    assert run(f"{tmp_path / name}/", "--format", form, FIRST)[0] == 0
    assert run(tmp_path / name, "--format", form, "--append", FIRST)[0] == 0
    assert run(tmp_path / "export" / name, "--format", "duckdb", FIRST)[0] == 4
    (tmp_path / "export").mkdir()
    assert run(tmp_path / "export" / name, "--format", "duckdb", FIRST)[0] == 0


def test_directory_of_an_export_that_is_a_link_is_refused(tmp_path: Path) -> None:
    out, elsewhere = tmp_path / "out", tmp_path / "elsewhere"
    assert run(out, "--partition-by", "day", FIRST)[0] == 0
    (out / "shop.orders").rename(elsewhere)
    (out / "shop.orders").symlink_to(elsewhere)
    before = sorted(elsewhere.rglob("*"))
    for option in ("--append", "--force"):
        code, text = run(out, option, "--partition-by", "day", FIRST, SECOND)
        assert (code, "symbolic link" in text and str(out / "shop.orders") in text) == (1, True)

    assert sorted(elsewhere.rglob("*")) == before


def test_a_full_disk_never_leaves_a_duckdb_file_without_rows(tmp_path: Path) -> None:
    """DuckDB has room for its second file (.wal) and not for the first one: `close` hides that."""
    random = Random(1)
    (tmp_path / "rows.csv").write_text(
        "id,name,total\n" + "".join(f"{number},{random.random()},{number % 97}\n" for number in range(150_000))
    )
    given = ["write", "--from", str(tmp_path / "rows.csv"), "--table", "s.t", "--primary-key", "id", "-o"]
    assert CliRunner().invoke(cli, [*given, str(tmp_path / "logs")]).exit_code == 0
    disk = tmp_path / "disk"
    disk.mkdir()
    export = shlex.join([
        sys.executable, "-m", "binlogio_cli", "export", "-q", "--format", "duckdb", "-o", str(disk / "d.duckdb"),
        str(tmp_path / "logs"),
    ])  # fmt: skip
    codes = set()
    for size in (2048, 2200, 2304, 65_536):
        mount = f"mount -t tmpfs -o size={size}k none {shlex.quote(str(disk))}"
        copy = f"cp {shlex.quote(str(disk))}/* {shlex.quote(str(tmp_path))}/"
        command = f"{mount} || exit 99; {export}; code=$?; {copy}; exit $code"
        done = subprocess.run(["unshare", "-rm", "sh", "-c", command], capture_output=True, text=True, check=False)
        if done.returncode == 99 or "unshare" in done.stderr:
            pytest.skip(f"no file system can be mounted: {done.stderr}")
        made = tmp_path / "d.duckdb"
        codes.add(done.returncode)
        assert made.exists() == (done.returncode == 0), done.stderr
        if made.exists():
            with closing(duckdb.connect(str(made))) as database:
                assert database.execute("SELECT count(*) FROM s.t").fetchone() == (150_000,)
            made.unlink()

    assert codes == {0, 4}
