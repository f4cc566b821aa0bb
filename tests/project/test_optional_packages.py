"""One install, one result: without an optional package, a command gives the same, or refuses and names the package."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Final

from corpus import FIXTURES, MYSQL, ROOT

if TYPE_CHECKING:
    from pathlib import Path

# Import name, extra, and the tasks of `TASKS` that need the package.
PACKAGES: Final[tuple[tuple[str, str | None, set[str]], ...]] = (
    ("pyspark", "spark", {"spark"}),
    ("deltalake", "delta", {"export delta"}),
    ("pyiceberg", "iceberg", {"export iceberg"}),
    ("polars", "polars", {"scan"}),
    ("fsspec", "fsspec", {"https"}),
    ("aiohttp", "fsspec", {"https"}),
    ("duckdb", "duckdb", {"export duckdb"}),
    ("cryptography", "encryption", {"encrypted"}),
    ("isal", None, set()),  # a dependency, but not on every machine
)

# Runs in a process of its own, with the hidden package and the tasks to leave out. Prints {task: [exit code, result]}.
TASKS: Final = """
import contextlib, hashlib, json, sqlite3, sys
from pathlib import Path

hidden, left_out, shop, rows, encrypted, keyring = sys.argv[1:]
if hidden:
    sys.modules[hidden] = None  # as if it were not installed

from click.testing import CliRunner
from binlogio_cli.main import cli

found = {}

def run(task, *arguments, result=str):
    if task in left_out.split(","):
        return
    done = CliRunner().invoke(cli, arguments)
    found[task] = done.exit_code, done.output + ("" if done.exit_code else result())

def call(task, function):
    if task in left_out.split(","):
        return
    try:
        found[task] = 0, repr(function())
    except Exception as exc:
        found[task] = 2, f"{type(exc).__name__}: {exc}"

def files(folder):
    def read():
        paths = [path for path in sorted(Path(folder).rglob("*")) if path.is_file() and path.suffix != ".json"]
        return repr([(str(path), hashlib.sha256(path.read_bytes()).hexdigest()) for path in paths])
    return read

def tables(file):
    def read():
        with contextlib.closing(sqlite3.connect(file)) as connection:
            return "\\n".join(line for line in connection.iterdump() if "binlogio" not in line)
    return read

run("write", "write", shop, "--out", "data", result=files("data"))
logs = sorted(map(str, Path("data").glob("binlog.0*")))
run("text", "dump", "-vv", *logs)
run("json", "dump", "--format", "json", *logs)
run("sql", "dump", "--format", "sql", *logs)
run("stats", "stats", "--json", *logs)
run("explain", "explain", "INSERT INTO t VALUES (UUID())")
run("export parquet", "export", "--to", "parquet", *logs, result=files("parquet"))
run("export csv", "export", "--format", "csv", "--to", "csv", *logs, result=files("csv"))
run("export duckdb", "export", "--format", "duckdb", "--to", "x.duckdb", *logs)
run("export delta", "export", "--format", "delta", "--to", "delta", *logs)
run("export iceberg", "export", "--format", "iceberg", "--to", "iceberg", *logs)
run("replay", "replay", "--to", "sqlite:///shop.db", *logs, result=tables("shop.db"))
run("encrypted", "dump", "--keyring", keyring, encrypted)
run("https", "dump", "https://127.0.0.1:1/binlog.000001")

import binlogio, pyspark_binlogio
from pyspark_binlogio.pyspark_api import require_pyspark

call("rows", lambda: binlogio.read_rows(logs, table="shop.orders").to_table().to_pylist())
call("events", lambda: [str(event) for event in binlogio.open(rows)])
call("scan", lambda: binlogio.scan(logs, table="shop.orders").collect().rows())
call("spark", lambda: (pyspark_binlogio.DefaultSource.name(), require_pyspark()))
print(json.dumps(found))
"""


def results(folder: Path, hidden: str, left_out: set[str]) -> dict[str, Any]:
    folder.mkdir()
    encrypted = MYSQL / "encrypted"
    given = [FIXTURES / "demo" / "shop.jsonl", MYSQL / "rowimage_full" / "binlog.000001", encrypted / "binlog.000001"]
    command = [sys.executable, "-c", TASKS, hidden, ",".join(left_out), *map(str, given), str(encrypted / "keyring")]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=folder).stdout
    found: dict[str, Any] = json.loads(output)
    return found


def test_without_an_optional_package_results_are_equal_or_refused(tmp_path: Path) -> None:
    """A refusal has exit code 2, the name of the package and the command that installs it.

    What needs other optional packages is left out, because these take long to import.
    """
    needy = set().union(*(refused for _, _, refused in PACKAGES))
    expected = results(tmp_path / "all", "", set())
    for package, extra, refused in PACKAGES:
        found = results(tmp_path / package, package, needy - refused)

        different = {task for task in found if found[task] != expected[task]}
        assert found.keys() == expected.keys() - (needy - refused)
        assert different == refused, (package, {task: found[task] for task in different})
        for task in refused:
            code, text = found[task]
            assert (code, package in text, f"pip install 'binlogio[{extra}]'" in text) == (2, True, True), text
    assert {task for task, (code, _) in expected.items() if code} == {"https"}  # no server listens


def test_the_extra_all_names_every_extra() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    _, _, section = text.partition("[project.optional-dependencies]")
    *extras, last = re.findall(r"^(\w+) = \[", section.partition("[project.scripts]")[0], re.MULTILINE)

    assert last == "all"
    assert f'all = ["binlogio[{",".join(extras)}]"]' in text
    assert {extra for _, extra, _ in PACKAGES} - {None} == set(extras)
    workflow = (ROOT / ".github" / "workflows" / "test.yml").read_text(encoding="utf-8")
    assert f"README.md {' '.join(name for name, _, _ in PACKAGES)}\n" in workflow
