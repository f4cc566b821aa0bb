"""Peak memory of `dump` and `copy`.

`dump`: twice the largest row and a constant, whatever the event or the transaction has in sum. `copy --where`: some
copies of the largest row, or twice a compressed transaction, which it compresses again as a whole.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from binlogio import BinlogWriter, ColumnDefinition, Insert, ServerVariables, Statement, TableDefinition
from binlogio.implementation import is_compiled

pytestmark = [
    pytest.mark.skipif(not is_compiled(), reason="construct reads events as a whole"),
    pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux has the peak memory of one process"),
]
FORMS: Final[tuple[list[str], ...]] = ([], ["-vv"], ["--format", "json"], ["--format", "sql"])
CONSTANT_MB: Final = 80  # of which Python has 45
COPY_MB: Final = 150  # with pyarrow
RUN: Final = """
import re, runpy, sys
from pathlib import Path
sys.argv[0] = "binlogio"
try:
    runpy.run_module("binlogio", run_name="__main__")
except SystemExit as exc:
    found = re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())
    print(exc.code or 0, int(found[1]) // 1024, file=sys.stderr)
"""
TABLE: Final = TableDefinition(
    "d", "t", (ColumnDefinition("id", "int", nullable=False), ColumnDefinition("v", "longblob")), ("id",)
)


def write(path: Path, rows: list[dict[str, object]]) -> Path:
    """Write a log with all rows in one event."""
    variables = ServerVariables(sync_binlog=0, binlog_row_metadata="FULL", binlog_row_event_max_size=(1 << 32) - 1)
    with BinlogWriter(path, variables=variables) as log, log.session("d") as session:
        session.execute(Statement("INSERT", (Insert(TABLE, rows),)))
    return path.with_name(path.name + ".000001")


@pytest.fixture(scope="module")
def small_rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Provide a log with a rows event of 130 MB with rows of 10 kB."""
    rows = [{"id": number, "v": b"%05d" % number * 2000} for number in range(13_000)]
    return write(tmp_path_factory.mktemp("logs") / "small", rows)


@pytest.fixture(scope="module")
def large_row(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Provide a log with a row of 96 MB."""
    return write(tmp_path_factory.mktemp("logs") / "large", [{"id": 1, "v": bytes(range(256)) * (96 << 12)}])


def peak_mb(*arguments: str) -> int:
    """Run a command, discard its output, and return its peak memory."""
    done = subprocess.run(
        [sys.executable, "-c", RUN, *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=True,
    )
    code, peak = map(int, done.stderr.splitlines()[-1].split())

    assert code == 0
    return peak


@pytest.mark.parametrize("form", FORMS, ids=" ".join)
def test_memory_does_not_grow_with_the_rows_of_an_event(small_rows: Path, form: list[str]) -> None:
    """Once the text of an event, and several copies of the event, were in memory: 7 GB for one of 1 GB."""
    assert small_rows.stat().st_size > 120 << 20
    assert peak_mb("dump", *form, str(small_rows)) < CONSTANT_MB


@pytest.mark.parametrize("form", FORMS, ids=" ".join)
def test_memory_is_twice_the_largest_row(large_row: Path, form: list[str]) -> None:
    """Once it was seven times this row."""
    assert peak_mb("dump", *form, str(large_row)) < CONSTANT_MB + 2 * 96


@pytest.mark.parametrize(
    ("compression", "most_mb"), [(False, COPY_MB + 6 * 16), (True, COPY_MB + 2 * 128)], ids=["plain", "compressed"]
)
def test_memory_of_a_copy_with_a_condition(tmp_path: Path, compression: bool, most_mb: int) -> None:
    """Once 16 MB of each rows event stayed in memory until a garbage collection, and a payload was there four times."""
    row = bytes(range(256)) * (16 << 12)
    variables = ServerVariables(sync_binlog=0, binlog_row_metadata="FULL", binlog_transaction_compression=compression)
    with BinlogWriter(tmp_path / "log", variables=variables) as log, log.session("d") as session:
        session.begin()
        for number in range(8 if compression else 16):
            session.execute(Statement("INSERT", (Insert(TABLE, [(number, row)]),)))
        session.commit()

    assert peak_mb("copy", "--where", "id > 2", "-o", f"{tmp_path}/to", f"{tmp_path}/log.000001") < most_mb


@pytest.mark.parametrize("form", FORMS[:2], ids=" ".join)
def test_parts_of_an_event_are_its_text(tmp_path: Path, form: list[str]) -> None:
    """The log is read in parts as a file, and as a whole from a pipe."""
    rows = [{"id": number, "v": b"%05d" % number * 2000} for number in range(700)]
    rows[300]["v"] = bytes(range(256)) * (20 << 10)
    log = write(tmp_path / "log", rows)

    command = [sys.executable, "-m", "binlogio", "dump", *form]
    whole = subprocess.run([*command, "-"], input=log.read_bytes(), capture_output=True, check=True).stdout
    parts = subprocess.run([*command, str(log)], capture_output=True, check=True).stdout

    assert whole.count(b"INSERT INTO") == 700
    assert parts == whole


@pytest.mark.parametrize("form", FORMS, ids=" ".join)
def test_a_damaged_event_is_refused_before_its_first_row(tmp_path: Path, form: list[str]) -> None:
    """Its checksum is verified first."""
    log = write(tmp_path / "log", [{"id": number, "v": b"%05d" % number * 2000} for number in range(700)])
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 1
    log.write_bytes(data)
    done = subprocess.run([sys.executable, "-m", "binlogio", "dump", *form, str(log)], capture_output=True, check=False)

    assert done.returncode != 0
    assert b"checksum" in done.stderr
    assert b"INSERT INTO" not in done.stdout
    assert b'"rows"' not in done.stdout
    assert len(done.stdout) < 5000
