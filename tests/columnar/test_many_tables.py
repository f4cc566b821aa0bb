"""Logs of many tables: plans are forgotten in time, and rows remain those of their tables."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

import binlogio
from binlogio.bounded_cache import BoundedCache
from binlogio.constants import ColumnType as T
from binlogio.constants import EventType
from binlogio.events.rows import WriteRowsEvent
from binlogio.format import row_changes
from binlogio.format.decoder import Decoder
from binlogio.format.framing import EventFrame
from binlogio.options import ReadOptions
from binlogio.reader import BinlogReader
from binlogio.rows.plan import TablePlan
from binlogio.storage.sources import find_logs
from log_cases import table_map_of
from logs import header, log
from rowimage_cases import UTF8MB4, column

TABLES: Final = 6000
ROUNDS: Final = 3
FEW: Final = 500  # entries of a cache, instead of 8192
TABLE: Final = table_map_of([column(T.LONG), column(T.VARCHAR, 80, collation_id=UTF8MB4), column(T.DATETIME2, 6)])
MOST_MB: Final = 300  # of which Python with pyarrow has 55
READ: Final = """
import re, sys
from pathlib import Path
import binlogio
from binlogio.bounded_cache import BoundedCache
rows = sum(batch.num_rows for _, batch in binlogio.read_tables(sys.argv[1]))
print(rows, int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) // 1024)
"""


def _events(number: int) -> Iterator[Any]:
    """Yield a row in each table; statements are of three tables, whose maps come first."""
    for first in range(0, TABLES, 3):
        for table in range(first, first + 3):
            yield replace(TABLE, table=f"t{table}", table_id=100 + table)
        for table in range(first, first + 3):
            image = b"\0" + (table + number).to_bytes(4, "little") + b"\3abc" + bytes.fromhex("99b2d6c000000000")
            yield WriteRowsEvent(
                100 + table, int(table == first + 2), b"", 3, b"\7", image, header(EventType.WRITE_ROWS_EVENT)
            )


@cache
def _log() -> bytes:
    return log(*(event for number in range(ROUNDS) for event in _events(number)))


def _write(path: Path, rounds: int) -> Path:
    """Write the first rounds of the log; all have the same size."""
    head = len(log())
    path.write_bytes(_log()[: head + (len(_log()) - head) // ROUNDS * rounds])
    return path


def test_rows_of_many_tables_are_those_of_their_tables(tmp_path: Path) -> None:
    """More tables than are kept, used twice; table maps of a statement remain valid while others are forgotten."""
    path = _write(tmp_path / "binlog.000001", 2)
    found: dict[str, list[int]] = {}
    for batch in (batch for _, batch in binlogio.read_tables(path)):
        name = batch.column("table")[0].as_py()
        found.setdefault(name, []).extend(batch.column("after").field("c0").to_pylist())
    mixed = binlogio.read_rows(path).to_table()

    assert found == {f"t{table}": [table, table + 1] for table in range(TABLES)}
    assert mixed.column("table").to_pylist() == [f"t{table}" for table in range(TABLES)] * 2


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux has the peak memory of one process")
def test_memory_does_not_grow_with_the_tables(tmp_path: Path) -> None:
    """Once 62 KiB a table were kept to the end."""
    path = _write(tmp_path / "binlog.000001", 1)
    found = subprocess.run([sys.executable, "-c", READ, str(path)], capture_output=True, text=True, check=True)
    rows, peak_mb = map(int, found.stdout.split())

    assert rows == TABLES
    assert peak_mb < MOST_MB


class SeenDecoder(Decoder):
    """A decoder that counts the frames that Python decodes."""

    frames = 0

    def decode(self, frame: EventFrame) -> Iterator[Any]:
        """Yield the events of a frame."""
        self.frames += 1
        return super().decode(frame)


def test_python_parses_each_of_many_tables_about_once(tmp_path: Path) -> None:
    """Once the known tables were forgotten together, and the rows of each table were parsed once more."""
    path, decoder = _write(tmp_path / "binlog.000001", 3), SeenDecoder()
    with BinlogReader(find_logs(path), ReadOptions(), decoder=decoder) as reader:
        count = sum(1 for _ in reader)

    assert count == 1 + 6 * TABLES
    assert decoder.frames < 1.1 * TABLES


def test_event_reader_forgets_plans_of_many_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BoundedCache.__init__, "__defaults__", (FEW,))
    monkeypatch.setattr(row_changes, "_decoders", BoundedCache())
    path = _write(tmp_path / "binlog.000001", 1)
    rows = most = 0
    before = _count_plans()  # of other tests
    with binlogio.open(path) as reader:
        for event in reader:
            if isinstance(event, binlogio.RowsEvent):
                rows += sum(1 for _ in reader.rows(event))
                if rows % 1000 == 0:
                    most = max(most, _count_plans())

    assert rows == TABLES
    assert most - before < TABLES / 2


def _count_plans() -> int:
    gc.collect()
    return sum(type(one) is TablePlan for one in gc.get_objects())
