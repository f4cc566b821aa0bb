"""Large rows events are undone in parts: the result is that of the whole event, in bounded memory."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

import binlogio
from binlogio.constants import EventType
from binlogio.errors import BinlogError
from binlogio.events import RowsEvent
from binlogio.events.rows import UpdateRowsEvent
from binlogio.implementation import is_compiled
from binlogio.replay.undo import BinlogFile, OnStatement, SqlScript, undo
from binlogio.rows.cut_images import Widths, cut_images, widths_of
from corpus import Case, cases
from logs import log
from row_events import group
from undo_logs import ONE, THREE, TWO, rows_of

if TYPE_CHECKING:
    from pathlib import Path

    from binlogio.rows.plan import TablePlan

pytestmark = pytest.mark.skipif(not is_compiled(), reason="the kernel splits rows events")
CASES = [case for case in cases() if sum(log.stat().st_size for log in case.logs) < 60_000]


@pytest.fixture
def all_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take every rows event for a large one, and each row for a part."""
    monkeypatch.setattr("binlogio.format.framing.BIG_EVENT_SIZE", 0)
    monkeypatch.setattr("binlogio.rows.row_parts.row_parts.__defaults__", (60,))
    monkeypatch.setattr("binlogio.storage.log_file._LEAST_READ", 24)
    monkeypatch.setattr("binlogio.storage.log_file._MAX_READ", 24)


def undone(source: Any, form: type[Any] = BinlogFile, keys: Any = None) -> bytes | str:
    """Return the undo of a log, or the error."""
    try:
        with (
            binlogio.open(source, keyring=keys) as reader,
            undo(reader, form(), on_statement=OnStatement.SKIP) as ready,
        ):
            return b"".join(ready.pieces())
    except BinlogError as exc:
        return str(exc)


def changes(found: bytes | str) -> list[object]:
    """Return the row changes of a log, without the bounds of its events; or the error."""
    if isinstance(found, str) or not found:
        return [found]
    rows: list[object] = []
    with binlogio.open(io.BytesIO(found)) as reader:
        for event in reader:
            if isinstance(event, RowsEvent):
                table = reader.table_map(event)
                names = table.schema, table.table, event.operation
                plan = reader.plan(event)
                if any(column.fsp_assumed for column in plan.columns):  # where rows end is not known
                    return []
                rows += [(*names, image) for image in cut_images(event.images, images_of(event, plan))]
    return rows


def images_of(event: Any, plan: TablePlan) -> tuple[Widths, ...]:
    """Return the widths of the images of a row."""
    bitmaps = (event.present, event.present_after) if isinstance(event, UpdateRowsEvent) else (event.present,)
    return tuple(widths_of(plan, bits) for bits in bitmaps)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_rows_events_in_parts_are_undone_alike(case: Case, request: pytest.FixtureRequest) -> None:
    """All logs of the corpus."""
    expected = changes(undone(case.logs, keys=case.keys))
    request.getfixturevalue("all_is_large")

    assert changes(undone(case.logs, keys=case.keys)) == expected


def test_rows_of_a_large_event_are_undone_one_statement_each(all_is_large: None) -> None:
    """From the last to the first, as those of one event."""
    data = log(*group(rows_of((None, ONE), (None, TWO), (None, THREE))))
    found = undone(io.BytesIO(data), SqlScript)

    assert all_is_large is None
    assert isinstance(found, bytes)
    assert re.findall(r"`id` <=> (\d) ", found.decode()) == ["3", "2", "1"]


LOG = log(*group(rows_of((ONE, None), (TWO, None), (THREE, None))))
ROWS = LOG.index(bytes((EventType.DELETE_ROWS_EVENT,)), len(LOG) - 170) - 4


def outcomes() -> list[bytes | str]:
    """Return what is said of a log that ends at each byte, and of one in which each byte is another one."""
    cut = [undone(io.BytesIO(LOG[:end])) for end in range(ROWS, len(LOG))]
    in_use = bytearray(LOG)
    in_use[4 + 17] |= 1
    torn = [undone(io.BytesIO(in_use[:end])) for end in range(ROWS, len(LOG))]
    flipped = [
        undone(io.BytesIO(LOG[:at] + bytes((LOG[at] ^ 1,)) + LOG[at + 1 :])) for at in range(ROWS + 19, len(LOG) - 31)
    ]
    return cut + torn + flipped


def test_damage_in_a_large_event_is_the_same_error(request: pytest.FixtureRequest) -> None:
    """And what is torn off is no error in a log that is in use."""
    expected = outcomes()
    request.getfixturevalue("all_is_large")

    assert outcomes() == expected
    assert any("checksum" in str(one).lower() for one in expected)


SMALL_ROWS = """
import resource, sys, zlib
sys.path[:0] = {paths!r}
from logs import log
from row_events import group
from undo_logs import ONE, rows_of
data = log(*group(rows_of(*((None, ONE),) * 2)))
at = data.index(bytes((30,)), len(data) - 150) - 4
size = int.from_bytes(data[at + 9 : at + 13], "little")
image = data[at + size - 4 - 9 : at + size - 4]
assert data[at + size - 4 - 18 : at + size - 4] == image * 2
event = bytearray(data[at : at + size - 4] + image * 1_500_000)
event[9:13] = (len(event) + 4).to_bytes(4, "little")
event[13:17] = (at + len(event) + 4).to_bytes(4, "little")
last = bytearray(data[at + size : -4])
last[13:17] = (at + len(event) + 4 + len(last) + 4).to_bytes(4, "little")
with open({path!r}, "wb") as file:
    for part in (event, last):
        part += zlib.crc32(part).to_bytes(4, "little")
    file.write(data[:at] + event + last)
"""
LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, ({most} << 20, {most} << 20))
sys.argv = ["binlogio", *{arguments!r}]
from binlogio_cli.main import main
main()
"""


@pytest.fixture(scope="module")
def small_rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a log with a rows event of 13 MB, of rows of nine bytes."""
    path = tmp_path_factory.mktemp("large") / "binlog.000001"
    subprocess.run([sys.executable, "-c", SMALL_ROWS.format(paths=sys.path, path=str(path))], check=True)
    return path


@pytest.mark.parametrize("form", ["sql", "binlog"])
def test_large_event_is_undone_in_bounded_memory(form: str, small_rows: Path, tmp_path: Path) -> None:
    """Its SQL alone has 225 MB; the limit is on the address space, of which the libraries take a part."""
    arguments = ["undo", "--format", form, "--output", str(tmp_path / "undo"), str(small_rows)]
    done = subprocess.run(
        [sys.executable, "-c", LIMITED.format(most=400, arguments=arguments)], capture_output=True, check=False
    )

    assert done.returncode == 0, done.stderr[-300:]
    assert b"1500002 inserts" in done.stderr


@pytest.mark.parametrize(("option", "most"), [(("--table", "d.t"), 260), (("--where", "id > 0"), 700)])
def test_selected_rows_of_a_large_event_are_copied_in_bounded_memory(
    option: tuple[str, str], most: int, small_rows: Path, tmp_path: Path
) -> None:
    """As several events, of which the last one ends the statement."""
    target = tmp_path / "copy.000001"
    arguments = ["copy", *option, "--output", str(target), str(small_rows)]
    done = subprocess.run(
        [sys.executable, "-c", LIMITED.format(most=most, arguments=arguments)], capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr[-300:]
    with binlogio.open(target) as reader:
        ends = [event.ends_statement for event in reader if isinstance(event, RowsEvent)]

    assert ends == [False] * (len(ends) - 1) + [True]
    assert len(ends) > 5
    assert sum(batch.num_rows for batch in binlogio.read_rows(target)) == 1_500_002


def test_large_event_is_copied_in_bounded_memory(small_rows: Path, tmp_path: Path) -> None:
    """Its bytes are the same."""
    target = tmp_path / "copy.000001"
    arguments = ["copy", "--output", str(target), str(small_rows)]
    done = subprocess.run(
        [sys.executable, "-c", LIMITED.format(most=260, arguments=arguments)], capture_output=True, check=False
    )

    assert done.returncode == 0, done.stderr[-300:]
    assert target.read_bytes() == small_rows.read_bytes()
