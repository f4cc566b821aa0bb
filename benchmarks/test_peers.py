"""Reading to Arrow compared with other tools and libraries on the same logs."""

from __future__ import annotations

import subprocess
from datetime import datetime
from importlib.util import find_spec
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

import pytest

import binlogio
from bench_logs import first_groups, log_names
from binlogio.constants import ColumnType
from binlogio.events import RowsEvent
from binlogio.reader import BinlogReader
from binlogio.storage.sources import find_logs
from measure import child_cpu_s, cpu_s, in_turn
from peers import LIBRARIES, TOOLS, library_cost, replication_images, replication_rows, tool_command
from report import Report
from test_decode import read_all

SAMPLE_BYTES: Final = 2 << 20  # input of python-mysql-replication, which reads a few MB/s
COMPARED_BYTES: Final = 1 << 20
ROUNDS: Final = 3


@pytest.mark.parametrize("log", log_names("bulk", "oltp", "mariadb"), indirect=True)
@pytest.mark.parametrize("tool", TOOLS)
def test_against_the_servers_own_tool(benchmark: Any, log: Path, report: Report, tool: str) -> None:
    """Reading to Arrow is compared with the pseudo-SQL output of a server tool, which is discarded."""
    work = f"to Arrow, {tool} -vv"
    try:
        with tool_command(tool, log) as command:
            pair = in_turn(benchmark, lambda: read_all(log), lambda: child_cpu_s(command), rounds=ROUNDS)
    except FileNotFoundError as exc:
        report.lack(tool, str(exc))
        pytest.skip(f"{tool}: {exc}")
    except subprocess.CalledProcessError as exc:
        why = exc.stderr.decode(errors="replace").strip().splitlines()[-1][:120]
        report.lack(f"{tool}, {log.name}", f"it refuses the log: {why}")
        pytest.skip(f"{tool} refuses {log.name}: {why}")
    size = log.stat().st_size
    report.add(work, f"{1 / pair.ratio:.1f} x faster; it reads {size / pair.other_s / 1e6:.0f} MB/s", log)
    report.speed(log, f"{tool} -vv", size / pair.other_s)

    assert pair.result > 0


@pytest.mark.parametrize("library", LIBRARIES)
def test_against_libraries(benchmark: Any, log: Path, report: Report, library: str) -> None:
    """Reading to Arrow is compared with a library that decodes every row, with an equal number of rows."""
    found: list[int] = []

    def other_s() -> float:
        seconds, rows = library_cost(library, log)
        found.append(rows)
        return seconds

    try:
        pair = in_turn(benchmark, lambda: read_all(log), other_s, rounds=ROUNDS)
    except FileNotFoundError as exc:
        report.lack(library, str(exc))
        pytest.skip(f"{library}: {exc}")
    except subprocess.CalledProcessError as exc:
        why = exc.stderr.strip().splitlines()[0][:160]
        report.lack(f"{library}, {log.name}", f"it fails: {why}")
        pytest.skip(f"{library} fails on {log.name}: {why}")
    size = log.stat().st_size
    report.add(
        f"to Arrow, {library}",
        f"{1 / pair.ratio:.1f} x faster; it needs {pair.other_s:.2f} s, {size / pair.other_s / 1e6:,.0f} MB/s",
        log,
    )
    report.speed(log, library, size / pair.other_s)

    assert set(found) == {pair.result}


@pytest.mark.parametrize("log", log_names("bulk", "oltp"), indirect=True)
def test_against_python_mysql_replication(benchmark: Any, log: Path, report: Report, tmp_path: Path) -> None:
    """The first transactions are decoded by python-mysql-replication from memory and by binlogio from a file."""
    work = "to Arrow, python-mysql-replication"
    if find_spec("pymysqlreplication") is None:
        report.lack("python-mysql-replication", "not installed: pip install 'binlogio[bench]'")
        pytest.skip("python-mysql-replication is not installed")
    sample = first_groups(log, SAMPLE_BYTES, tmp_path / "sample")
    data = sample.read_bytes()
    compared = first_groups(log, COMPARED_BYTES, tmp_path / "compared")
    ours, theirs = _our_images(compared), list(replication_images(compared.read_bytes()))
    pair = in_turn(benchmark, lambda: read_all(sample), lambda: cpu_s(lambda: replication_rows(data)), rounds=ROUNDS)
    report.add(
        work,
        f"{1 / pair.ratio:.0f} x faster; it reads {pair.result / pair.other_s:,.0f} rows/s, "
        f"{len(data) / pair.other_s / 1e6:.1f} MB/s",
        log,
    )
    report.speed(log, "python-mysql-replication", len(data) / pair.other_s)

    assert len(ours) == len(theirs) > 0
    assert pair.result == replication_rows(data)
    for our_images, their_images in zip(ours, theirs, strict=True):
        for our_image, their_image in zip(our_images, their_images, strict=True):
            assert _comparable(our_image, their_image) == _comparable(their_image, their_image)


def _our_images(log: Path) -> list[tuple[list[Any] | None, list[Any] | None]]:
    """Return the before image and the after image of each row in log order.

    An ENUM whose table map has no member names is None, as in python-mysql-replication.
    """
    found = []
    nameless = _nameless(log)
    for table, batch in binlogio.read_tables(log, zero_dates="null"):
        columns = (batch.column(name).to_pylist() for name in ("pos", "row", "before", "after"))
        labels = [field.name for field in batch.schema.field("after").type]
        unknown = [labels[position] for position in nameless[table]]
        for pos, row, *images in zip(*columns, strict=True):
            before, after = (image and list((image | dict.fromkeys(unknown)).values()) for image in images)
            found.append(((pos, row), (before, after)))
    return [images for _, images in sorted(found, key=itemgetter(0))]


def _nameless(log: Path) -> dict[str, list[int]]:
    """Return for each table the positions of ENUM columns without member names in the table map."""
    found = {}
    with BinlogReader(find_logs(log)) as reader:  # does not follow DDL
        for event in reader:
            if isinstance(event, RowsEvent):
                plan = reader.plan(event)
                found[plan.full_name] = [
                    column.position
                    for column in plan.columns
                    if column.type == ColumnType.ENUM and column.members is None
                ]
    return found


def _comparable(image: list[Any] | None, other: list[Any] | None) -> list[Any] | None:
    """Return the comparable values: without JSON, which is text in binlogio and an object in the other library."""
    return image and [
        value.replace(tzinfo=None) if isinstance(value, datetime) else value
        for value, other_value in zip(image, other or (), strict=True)
        if not isinstance(other_value, (dict, list))
    ]
