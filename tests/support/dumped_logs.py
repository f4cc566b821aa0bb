"""Output of `binlogio dump` as a result, text or JSON, and the real logs of its tests."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from click.testing import CliRunner, Result

from binlogio_cli.main import cli
from corpus import MYSQL
from logs import log

if TYPE_CHECKING:
    from pathlib import Path

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


def behind_ddl(path: str | Path) -> list[str]:
    """Return the options that skip all events up to the first CREATE TABLE of a log."""
    first = next(line for line in json_of(path) if str(line.get("sql", "")).startswith("CREATE TABLE"))
    return ["--start-position", str(first["end"])]
