"""The public interface as a type checker sees it: wrong names, keywords and values are errors before a program runs."""

from __future__ import annotations

import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from subprocess import run
from typing import Any, Final, get_args

import pytest

import binlogio
from binlogio.events import EVENT_CODECS, ROWS_EVENTS, BinlogEvent, RowsEvent
from binlogio.events.base import UNKNOWN
from corpus import ROOT

NAMES_AND_KEYWORDS = """\
import binlogio
from binlogio.columnar.row_batches import MixedBatches, RowBatches

rows: RowBatches = binlogio.read_rows("binlog.*", table="shop.orders", columns=["id"], zero_dates="null", threads=4)
mixed: MixedBatches = binlogio.read_rows("binlog.*", tables=["shop.*"], where=binlogio.EventFilter(tables=None))
names: list[str] = [name for name, batch in binlogio.read_tables("binlog.*", tables=["shop.*"])]
late = binlogio.EventFilter(pos=binlogio.Range(start=4, end=1000))
batches: type[binlogio.BatchSession] = binlogio.BatchSession
change: type[binlogio.BatchChange] = binlogio.BatchChange
kernel: str = binlogio.KERNEL

binlogio.read_tabels("binlog.*")  # error: attr-defined
binlogio.read_rows("binlog.*", table="shop.orders", colums=["id"])  # error: call-overload  # codespell:ignore
binlogio.read_rows("binlog.*", colums=["id"])  # error: call-overload  # codespell:ignore
binlogio.read_rows("binlog.*", table="shop.orders", tables=["shop.*"])  # error: call-overload
binlogio.read_tables("binlog.*", colums=["id"])  # error: call-arg  # codespell:ignore
binlogio.read_tables("binlog.*", zero_dates="nul")  # error: arg-type
binlogio.open("binlog.000001", start_offset="4")  # error: arg-type
binlogio.EventFilter(pos=(4, 1000))  # error: arg-type
binlogio.EventFilter(table="orders")  # error: call-arg
binlogio.EventFilter(tables="orders")  # error: arg-type
"""

EVENTS = """\
import binlogio
from binlogio.events.query import QueryEvent
from binlogio.events.rows import DeleteRowsEvent, UpdateRowsEvent
from binlogio.events.table_map import TableMapEvent

def texts(path: str) -> list[bytes]:
    with binlogio.open(path) as reader:
        return [event.sql for event in reader if isinstance(event, QueryEvent)]

def changes(path: str) -> int:
    count = 0
    with binlogio.open(path) as reader:
        for event in reader:
            offset: int = event.header.offset
            if isinstance(event, binlogio.RowsEvent):
                table: TableMapEvent = reader.table_map(event)
                count += sum(1 for change in reader.rows(event) if change.before is not None)
            elif isinstance(event, TableMapEvent):
                name: str = event.table
    return count

def describe(event: binlogio.BinlogEvent) -> str:
    if isinstance(event, UpdateRowsEvent | DeleteRowsEvent):
        return f"{event.table_id} {event.present.hex()}"
    return str(event.header.event_type)

def wrong(reader: binlogio.BinlogReader, event: binlogio.BinlogEvent, change: binlogio.RowsEvent) -> None:
    event.sql  # error: union-attr
    event.headers  # error: union-attr
    reader.rows(event)  # error: arg-type
    reader.table_map(event)  # error: arg-type
    change.present_after  # error: attr-defined
    if isinstance(event, QueryEvent):
        event.table  # error: attr-defined
        text: str = event.sql  # error: assignment
    describe("BEGIN")  # error: arg-type
    for found in reader:
        number: int = found  # error: assignment
"""


PROGRAMS: Final = {"uses_names": NAMES_AND_KEYWORDS, "uses_events": EVENTS}


@pytest.mark.slow
def test_a_type_checker_refuses_wrong_uses_and_no_others(tmp_path: Path) -> None:
    """A comment names the error of each wrong line; mypy finds these and no others."""
    paths = [tmp_path / f"{name}.py" for name in PROGRAMS]
    for path, program in zip(paths, PROGRAMS.values(), strict=True):
        path.write_text(textwrap.dedent(program), "utf-8")
    options = ("--strict", "--follow-imports=silent", "--no-error-summary", "--cache-dir", str(tmp_path / "cache"))
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), *options, *map(str, paths)]

    checked = run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    found = re.findall(r"(\w+)\.py:(\d+): error: .*\[([a-z-]+)\]$", checked.stdout, re.MULTILINE)
    expected = {
        (name, number): match[1]
        for name, program in PROGRAMS.items()
        for number, line in enumerate(program.splitlines(), 1)
        if (match := re.search(r"# error: ([a-z-]+)", line))
    }
    assert not checked.stderr
    assert all(sum(file == name for file, _ in expected) >= 9 for name in PROGRAMS)
    assert {(file, int(number)): code for file, number, code in found} == expected


def _classes(union: Any) -> Iterator[type]:
    for one in get_args(union):
        yield from _classes(one) if get_args(one) else (one,)


def test_the_union_of_events_has_every_event_class() -> None:
    classes = {codec.event_class for codec in (*EVENT_CODECS.values(), UNKNOWN)}

    assert set(_classes(BinlogEvent)) == {RowsEvent, *classes} - set(ROWS_EVENTS)
    assert {kind for kind in classes if issubclass(kind, RowsEvent)} == set(ROWS_EVENTS)
    assert len({kind.operation for kind in ROWS_EVENTS}) == len(ROWS_EVENTS)
    assert binlogio.BinlogEvent is BinlogEvent


def test_events_of_a_log_are_instances_of_the_union() -> None:
    with binlogio.open(ROOT / "fixtures" / "mysql97" / "ddl_mix" / "binlog.000001") as reader:
        events = list(reader)

    assert any(isinstance(event, RowsEvent) for event in events)
    assert all(isinstance(event, BinlogEvent) for event in events)


def test_read_rows_refuses_table_and_tables_together() -> None:
    with pytest.raises(TypeError, match="table= or tables="):
        binlogio.read_rows("binlog.*", table="shop.orders", tables=["shop.*"])  # type: ignore[call-overload]
