"""`binlogio dump` of a damaged value: the error names its position, and no line of JSON is truncated."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pytest
from click.testing import CliRunner

from binlogio import ColumnDefinition, TableDefinition
from binlogio.values.geometry import Geometry
from binlogio.values.json import JsonDocument
from binlogio_cli.main import cli
from corpus import frames_of
from logs import log, stop
from row_events import END, group, rows_of

if TYPE_CHECKING:
    from pathlib import Path

DAMAGED_JSON: Final = JsonDocument(bytes.fromhex("0001001200b300"))
VALUES: Final[dict[str, tuple[str, Any, Any]]] = {
    "JSON": ("json", JsonDocument.from_text('{"a": "first"}'), DAMAGED_JSON),
    "GEOMETRY": ("geometry", Geometry.from_wkt("POINT(1 2)"), Geometry(0, b"\1\7\0\0\0\xff\0\0\0")),
}
SIZES: Final = [10, 200]


def _log(path: Path, kind: str, count: int) -> tuple[Path, int]:
    """Return a log of one group of `count` rows, the last one damaged; and where its rows event starts."""
    type_name, good, damaged = VALUES[kind]
    table = TableDefinition("d", "t", (ColumnDefinition("id", "int"), ColumnDefinition("doc", type_name)))
    pairs = [(None, (number, good)) for number in range(count - 1)] + [(None, (count - 1, damaged))]
    data = log(*group(rows_of(*pairs, table=table), end=END), stop())
    path.write_bytes(data)
    return path, _starts(path)[3]


def _starts(path: Path) -> list[int]:
    return [frame.header.offset for frame in frames_of(path.read_bytes())]


def _dump(path: Path, form: str) -> Any:
    return CliRunner().invoke(cli, ["dump", "--format", form, str(path)])


@pytest.mark.parametrize("count", SIZES)
@pytest.mark.parametrize("form", ["text", "json"])
def test_error_names_file_event_row_and_column(tmp_path: Path, form: str, count: int) -> None:
    """The error is the same as that of reading rows."""
    path, offset = _log(tmp_path / "binlog.000001", "JSON", count)
    result = _dump(path, form)

    assert result.exit_code == 1
    assert f"{path}: at {offset}: WRITE_ROWS_EVENT: row {count - 1}, column doc: JSON: a JSON" in result.stderr


@pytest.mark.parametrize("count", SIZES)
@pytest.mark.parametrize("kind", VALUES)
def test_each_line_of_json_is_whole(tmp_path: Path, kind: str, count: int) -> None:
    """The event with the damaged value has no line; the events before it have theirs."""
    path, offset = _log(tmp_path / "binlog.000001", kind, count)
    result = _dump(path, "json")
    lines = [json.loads(line) for line in result.stdout.splitlines()]

    assert result.stdout.endswith("\n")
    assert [line["pos"] for line in lines] == [at for at in _starts(path) if at < offset]
    assert result.exit_code == 1


@pytest.mark.parametrize("form", ["text", "json"])
def test_missing_table_map_names_the_file(tmp_path: Path, form: str) -> None:
    """The error occurs while an event is printed, not while it is read."""
    table = TableDefinition("d", "t", (ColumnDefinition("id", "int"),))
    data = log(*group(rows_of((None, (1,)), table=table)[1:]), stop())
    path = tmp_path / "binlog.000001"
    path.write_bytes(data)
    offset = _starts(path)[2]
    result = _dump(path, form)

    assert (result.exit_code, f"{path}: at {offset}: WRITE_ROWS_EVENT: " in result.stderr) == (1, True)
    assert all(json.loads(line) for line in result.stdout.splitlines() if form == "json")
