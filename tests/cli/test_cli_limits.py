"""Size limits of dump, replay and undo: a larger event is refused, and the message names the option."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest
from click.testing import CliRunner, Result

from binlogio.constants import BINLOG_MAGIC, EventType
from binlogio.events.query import QueryEvent
from binlogio_cli.main import cli
from log_cases import MARIADB
from logs import description, encode, header, log, query, transaction

if TYPE_CHECKING:
    from pathlib import Path

SIZE: Final = 2 << 20
COMMANDS: Final = {
    "dump": ["dump"],
    "replay": ["replay", "--to", "dry-run:", "--no-progress"],
    "undo": ["undo", "--on-statement", "skip", "--no-progress"],
}


def _run(command: str, *arguments: object) -> Result:
    return CliRunner().invoke(cli, [*COMMANDS[command], *map(str, arguments)])


@pytest.mark.parametrize("command", COMMANDS)
def test_event_over_the_limit_is_refused_with_the_option_that_raises_it(tmp_path: Path, command: str) -> None:
    """The same log is read with the default limit."""
    path = tmp_path / "binlog.000001"
    path.write_bytes(log(query("CREATE TABLE d.x (a INT) /*" + "x" * SIZE + "*/"), *transaction(1)))
    result = _run(command, "--max-event-size", SIZE, path)

    assert result.exit_code == 1, result.output
    assert "the event is larger than the limit" in result.stderr
    assert "raise the limit with --max-event-size" in result.stderr
    assert _run(command, path).exit_code == 0
    assert _run(command, "--max-event-size", 2 * SIZE, path).exit_code == 0


@pytest.mark.parametrize("command", COMMANDS)
def test_compressed_event_that_opens_to_more_than_the_limit_is_refused(tmp_path: Path, command: str) -> None:
    """2 MiB of SQL are compressed to a few kilobytes."""
    sql = b"CREATE TABLE d.x (a INT) /*" + b"x" * SIZE + b"*/"
    event = QueryEvent(7, 0, 0, (), "d", sql, header(EventType.QUERY_COMPRESSED_EVENT))
    path = tmp_path / "binlog.000001"
    path.write_bytes(BINLOG_MAGIC + encode([description(version=MARIADB), event]))
    result = _run(command, "--max-opened-size", SIZE, path)

    assert result.exit_code == 1, result.output
    assert f"larger than the limit of {SIZE} (Limits.opened_size, --max-opened-size)" in result.stderr
    assert _run(command, path).exit_code == 0
