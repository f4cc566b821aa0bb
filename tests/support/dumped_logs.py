"""What `binlogio dump` prints of a log: its result, its text, its JSON; and the real logs that its tests look at."""

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
    """Return the result of the command."""
    return CliRunner().invoke(cli, ["dump", *map(str, arguments)])


def text_of(*arguments: object) -> str:
    """Return what the command prints if it succeeds."""
    result = dump(*arguments)
    assert result.exit_code == 0, result.stderr
    return result.stdout


def json_of(*arguments: object) -> list[dict[str, Any]]:
    """Return the objects that it prints."""
    return [json.loads(line) for line in text_of("--format", "json", *arguments).splitlines()]


def write(tmp_path: Path, *events: Any, **options: Any) -> Path:
    """Return a log of these events."""
    path = tmp_path / "binlog.000001"
    path.write_bytes(log(*events, **options))
    return path


def behind_ddl(path: str | Path) -> list[str]:
    """Options that leave out all up to the first CREATE TABLE of a log."""
    first = next(line for line in json_of(path) if str(line.get("sql", "")).startswith("CREATE TABLE"))
    return ["--start-position", str(first["end"])]
