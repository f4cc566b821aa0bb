"""The kernel reads plain files itself, many windows in one call, with the rows and errors of windows read by Python."""

from __future__ import annotations

import errno
import io
import os
from pathlib import Path
from typing import Any

import pytest

import binlogio
from binlogio import BinlogWriter, ColumnDefinition, Insert, ServerVariables, Statement, TableDefinition
from binlogio.storage import windows
from binlogio.storage.log_file import LogFile, OpenedLog

WINDOW = 4096


@pytest.fixture
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make windows so small that a small log has many, and some events are larger than a window."""
    monkeypatch.setattr(windows.Window.__init__, "__defaults__", (0, WINDOW, None, None))
    monkeypatch.setattr(windows, "STEP_SIZE", WINDOW // 4)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a log of two tables, with rows events of a few hundred bytes, and some of several windows."""
    folder = tmp_path_factory.mktemp("log")
    tables = [
        TableDefinition("d", name, (ColumnDefinition("a", "int"), ColumnDefinition("b", "blob"))) for name in "tu"
    ]
    with BinlogWriter(folder / "binlog", variables=ServerVariables()) as log, log.session() as session:
        for number in range(300):
            size = WINDOW * 3 if number % 50 == 49 else number % 700
            for table in tables[: 1 + number % 3 // 2]:
                session.execute(Statement("INSERT", (Insert(table, [{"a": number, "b": b"x" * size}] * 2),)))
    return folder / "binlog.000001"


def rows_of(source: Any, **options: Any) -> tuple[dict[str, list[Any]], str]:
    """Return the records of each table, and the error that ends them."""
    found: dict[str, list[Any]] = {}
    try:
        for table, batch in binlogio.read_tables(source, **options):
            found.setdefault(table, []).extend({**record, "file": ""} for record in batch.to_pylist())
    except binlogio.BinlogError as exc:
        return found, str(exc).partition(": at ")[2]  # after the name
    return found, ""


@pytest.mark.usefixtures("small_windows")
@pytest.mark.parametrize("batch_rows", [1, 7, 100_000])
def test_a_file_gives_the_rows_of_a_stream(path: Path, batch_rows: int) -> None:
    assert rows_of(path, batch_rows=batch_rows) == rows_of(io.BytesIO(path.read_bytes()), batch_rows=batch_rows)


@pytest.mark.usefixtures("small_windows")
@pytest.mark.parametrize("cut", [1, 5, 20, 4095, 4096, 4097, 100_000])
def test_a_torn_file_ends_as_a_torn_stream_does(path: Path, tmp_path: Path, cut: int) -> None:
    data = path.read_bytes()[:-cut]
    (tmp_path / "torn").write_bytes(data)

    assert rows_of(tmp_path / "torn") == rows_of(io.BytesIO(data))


@pytest.mark.usefixtures("small_windows")
@pytest.mark.parametrize("place", [0.2, 0.5, 0.99])
def test_damage_in_a_file_is_the_error_of_a_stream(path: Path, tmp_path: Path, place: float) -> None:
    data = bytearray(path.read_bytes())
    data[int(len(data) * place)] ^= 1
    (tmp_path / "bad").write_bytes(data)
    found, error = rows_of(tmp_path / "bad")

    assert (found, error) == rows_of(io.BytesIO(bytes(data)))
    assert error


@pytest.mark.usefixtures("small_windows")
def test_a_file_that_cannot_be_read_any_more_is_an_os_error(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The descriptor stops being one for reading in the middle of the log."""
    opened: list[OpenedLog] = []
    open_log = LogFile.open

    def noted(log: LogFile, keyring: Any = None) -> OpenedLog:
        opened.append(open_log(log, keyring))
        return opened[-1]

    monkeypatch.setattr(LogFile, "open", noted)
    batches = iter(binlogio.read_tables(path, batch_rows=7))
    next(batches)
    writable = os.open(path, os.O_WRONLY)
    os.dup2(writable, opened[0].stream.fileno())  # type: ignore[attr-defined]
    os.close(writable)

    with pytest.raises(OSError) as caught:
        list(batches)

    assert caught.value.errno == errno.EBADF
