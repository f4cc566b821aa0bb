"""Output of `binlogio dump` as a result, text or JSON, and the real logs of its tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from click.testing import CliRunner, Result

from binlogio_cli.main import cli
from corpus import MYSQL
from logs import log

GTID_ON: Final = str(MYSQL / "gtid_on" / "binlog.000001")
ROWS: Final = str(MYSQL / "rowimage_full" / "binlog.000001")
FULL_METADATA: Final = str(MYSQL / "metadata_full" / "binlog.000001")
CRASHED: Final = MYSQL / "crashed"


def dump(*arguments: object) -> Result:
    """Run the command and return its result."""
    return CliRunner().invoke(cli, ["dump", *map(str, arguments)])


def text_of(*arguments: object) -> str:
    """Run the command, which must succeed, and return its output."""
    result = dump(*arguments)
    assert result.exit_code == 0, result.stderr
    return result.stdout


def json_of(*arguments: object) -> list[dict[str, Any]]:
    """Return the JSON objects that the command prints."""
    return [json.loads(line) for line in text_of("--format", "json", *arguments).splitlines()]


def write(tmp_path: Path, *events: Any, **options: Any) -> Path:
    """Write a log of these events and return its path."""
    path = tmp_path / "binlog.000001"
    path.write_bytes(log(*events, **options))
    return path


def behind_ddl(path: str | Path, folder: Path) -> Path:
    """Return a copy of a log without the events up to the first CREATE TABLE, except the format description."""
    events = json_of(path)
    first = next(line for line in events if str(line.get("sql", "")).startswith("CREATE TABLE"))
    data, copy = Path(path).read_bytes(), folder / "binlog.000009"
    copy.write_bytes(data[: events[0]["end"]] + data[first["end"] :])
    return copy
