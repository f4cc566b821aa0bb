"""A log of 0 to 4 bytes has no format description: every way to read it gives the same error."""

from __future__ import annotations

import bz2
import gzip
import lzma
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from click.testing import CliRunner

import binlogio
from binlogio.columnar.splits.group_scan import last_group_end
from binlogio.constants import BINLOG_MAGIC
from binlogio.errors import BinlogFormatError, TruncatedEvent
from binlogio.storage.compression import compress_zstd
from binlogio.storage.sources import find_logs
from binlogio_cli.main import cli
from corpus import MYSQL
from logs import log, stop, transaction

if TYPE_CHECKING:
    from collections.abc import Callable

DEFINITIONS: Final = {"d.t": "CREATE TABLE t (id INT)"}
READERS: Final[dict[str, Callable[[Path], Any]]] = {
    "open": lambda path: list(binlogio.open(path)),
    "read_rows": lambda path: list(binlogio.read_rows(path)),
    "read_rows of a table": lambda path: list(binlogio.read_rows(path, table="d.t", definitions=DEFINITIONS)),
    "read_rows to a table": lambda path: binlogio.read_rows(path).to_table(),
    "read_rows with threads": lambda path: list(binlogio.read_rows(path, threads=2)),
    "read_tables": lambda path: list(binlogio.read_tables(path)),
}
COMMANDS: Final = {
    "dump": ("dump",),
    "dump as JSON": ("dump", "--format", "json"),
    "undo": ("undo", "--no-progress"),
    "replay": ("replay", "--no-progress", "--to", "dry-run:"),
}
PACKED: Final[dict[str, Callable[[bytes], bytes]]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".zst": lambda data: compress_zstd(data, 3),
    ".xz": lzma.compress,
    ".bz2": bz2.compress,
}


@pytest.fixture(params=range(len(BINLOG_MAGIC) + 1), name="content")
def first_bytes(request: pytest.FixtureRequest) -> bytes:
    """Return the bytes of a file whose server stopped while it created it."""
    return BINLOG_MAGIC[: request.param]


def _empty(folder: Path, content: bytes, suffix: str = "") -> Path:
    path = folder / f"binlog.000001{suffix}"
    path.write_bytes(PACKED[suffix](content))
    return path


def _check(error: TruncatedEvent, path: Path, content: bytes) -> None:
    assert (error.reason, error.file, error.offset) == ("the log is empty", str(path), len(content))


@pytest.mark.parametrize("suffix", PACKED)
@pytest.mark.parametrize("reader", READERS)
def test_empty_log_is_an_error_that_says_so(tmp_path: Path, content: bytes, reader: str, suffix: str) -> None:
    """Plain and compressed."""
    path = _empty(tmp_path, content, suffix)
    with pytest.raises(TruncatedEvent) as caught:
        READERS[reader](path)

    _check(caught.value, path, content)


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_end_with_1_and_name_the_file(tmp_path: Path, content: bytes, command: str) -> None:
    path = _empty(tmp_path, content)
    result = CliRunner().invoke(cli, [*COMMANDS[command], str(path)])

    assert result.exit_code == 1
    assert f"{path}: at {len(content)}: the log is empty, expected a format description" in result.stderr


@pytest.mark.parametrize("view", ["rows", "events", "transactions"])
def test_spark_gives_the_same_error(tmp_path: Path, content: bytes, view: str) -> None:
    pytest.importorskip("pyspark.sql.datasource")
    from spark_frames import tasks  # noqa: PLC0415 - needs pyspark

    path = _empty(tmp_path, content)
    with pytest.raises(TruncatedEvent) as caught:
        tasks(path, view=view)

    _check(caught.value, path, content)


def test_log_that_grows_has_no_group_yet(tmp_path: Path, content: bytes) -> None:
    """A stream waits for more bytes."""
    path = _empty(tmp_path, content)

    assert last_group_end(find_logs(path)[0]) == 0


def test_events_before_an_empty_log_are_given_first(tmp_path: Path, content: bytes) -> None:
    """Of a directory, where it is a member of its series."""
    (tmp_path / "binlog.000000").write_bytes(log(*transaction(1), stop()))
    path = _empty(tmp_path, content)
    reader = binlogio.open(tmp_path)
    events = [next(reader) for _ in range(5)]
    with reader, pytest.raises(TruncatedEvent) as caught:
        next(reader)

    _check(caught.value, path, content)
    assert {event.header.offset for event in events} > {4}


@pytest.mark.parametrize("count", [1, 18, 19, 300, 3 << 20])
def test_zeros_at_the_end_of_a_log_in_use_are_a_torn_tail(tmp_path: Path, count: int) -> None:
    """As for `binlogio.open`; in a closed log they are damage."""
    data = bytearray((MYSQL / "gtid_on" / "binlog.000001").read_bytes())
    expected = sum(batch.num_rows for _, batch in binlogio.read_tables(BytesIO(data)))
    for is_in_use in (True, False):
        data[21] = is_in_use  # BINLOG_IN_USE
        path = tmp_path / "binlog.000001"
        path.write_bytes(data + bytes(count))
        read = binlogio.read_tables(path)
        if is_in_use:
            assert sum(batch.num_rows for _, batch in read) == expected > 0
        else:
            with pytest.raises(BinlogFormatError):
                list(read)
