"""A closed log that is cut between two events of a transaction: every reader names the place, and none ends with 0."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from click.testing import CliRunner

import binlogio
from binlogio.columnar import RowSelection
from binlogio.columnar.event_reader import EventSelection, read_events, read_transactions
from binlogio.columnar.rows_reader import read_split
from binlogio.constants import EventType
from binlogio.errors import TruncatedEvent
from binlogio.events.base import UnknownEvent
from binlogio.format.splits import Split
from binlogio.storage import find_logs
from binlogio_cli.main import cli
from corpus import MARIADB, MYSQL, frames_of
from gtid_cases import TODAY
from logs import header, log, rotate, transaction

if TYPE_CHECKING:
    from collections.abc import Callable

DAMAGE: Final = 1
COMMANDS: Final = {
    "dump": ("dump",),
    "dump of other transactions": ("dump", "--exclude-gtids", "GTID"),
    "dump as JSON": ("dump", "--json"),
    "dump as SQL": ("dump", "--format", "sql"),
    "export": ("export", "--format", "csv", "-o", "OUT"),
    "grep": ("grep",),
    "sql": ("sql", "SELECT 1"),
    "info": ("info",),
    "schema": ("schema",),
    "stats": ("stats",),
    "verify": ("verify",),
    "undo": ("undo", "--on-statement", "skip", "-o", "OUT"),
    "undo as a log": ("undo", "--on-statement", "skip", "--format", "binlog", "-o", "OUT"),
    "replay": ("replay", "--to", "dry-run:"),
    "copy": ("copy", "-o", "OUT"),
    "repair": ("repair", "-o", "OUT"),
}
READERS: Final[dict[str, Callable[[str], Any]]] = {
    "open": lambda path: list(binlogio.open(path)),
    "read_rows": lambda path: list(binlogio.read_rows(path)),
    "source columns": lambda path: list(binlogio.read_rows(path, source_columns=("xid", "outcome"))),
    "read_tables": lambda path: list(binlogio.read_tables(path)),
    "two threads": lambda path: list(binlogio.read_tables(path, threads=2)),
    "events": lambda path: list(read_events(find_logs(path)[0], None, EventSelection())),
    "transactions": lambda path: list(read_transactions(find_logs(path)[0], None, EventSelection())),
}
ROWS: Final = (EventType.WRITE_ROWS_EVENT_V1, EventType.UPDATE_ROWS_EVENT)
GTIDS: Final = (EventType.GTID_LOG_EVENT, EventType.MARIADB_GTID_EVENT)
LOGS: Final = {
    MYSQL / "rowimage_full" / "binlog.000001": "2f658ac8-e51b-11f1-a314-02fc00000001:1-52",
    MARIADB / "basic_row" / "binlog.000001": "0-1-99",
}


def cut(path: Path, folder: Path, *, in_use: bool = False) -> tuple[str, int]:
    """Write a log up to its last rows event; return its path and the offset of the last transaction."""
    data = bytearray(path.read_bytes())
    frames = list(frames_of(bytes(data)))
    end = max(frame.end for frame in frames if frame.header.type_code in ROWS)
    begin = max(frame.header.offset for frame in frames if frame.header.type_code in GTIDS and frame.end < end)
    data[21] = in_use
    found = folder / path.name
    found.write_bytes(data[:end])
    return str(found), begin


@pytest.mark.parametrize("log", LOGS, ids=lambda log: log.parts[-3])
@pytest.mark.parametrize("name", COMMANDS)
def test_commands_name_the_place(name: str, log: Path, tmp_path: Path) -> None:
    path, begin = cut(log, tmp_path)
    words = [word.replace("OUT", str(tmp_path / "out")).replace("GTID", LOGS[log]) for word in COMMANDS[name]]
    done = CliRunner().invoke(cli, [*words, path])

    assert done.exit_code == DAMAGE, done.output
    assert "transactions" in name or str(begin) in done.output + done.stderr


@pytest.mark.parametrize("log", LOGS, ids=lambda log: log.parts[-3])
@pytest.mark.parametrize("name", READERS)
def test_readers_name_the_place(name: str, log: Path, tmp_path: Path) -> None:
    path, begin = cut(log, tmp_path)
    with pytest.raises(TruncatedEvent, match="in the middle of an event group") as caught:
        READERS[name](path)
    assert (caught.value.file, caught.value.offset) == (path, begin)

    path, _ = cut(log, tmp_path, in_use=True)
    assert READERS[name](path)


def test_a_group_of_an_unknown_event_inside_a_log_is_not_its_end(tmp_path: Path) -> None:
    """The split before the next group ends there, and not at the end of the log."""
    gtid = replace(TODAY, header=header(EventType.GTID_LOG_EVENT))
    unknown = UnknownEvent(b"padding", header(100, flags=0x80))
    path = tmp_path / "binlog.000001"
    path.write_bytes(log(gtid, unknown, gtid, *transaction(1), rotate("binlog.000002")))
    (found,) = find_logs(path)
    middle = next(
        frame.end for frame in frames_of(path.read_bytes()) if frame.header.type_code == unknown.header.type_code
    )
    wanted = RowSelection(
        wants=lambda _schema, _table: True, columns=None, zero_dates="error", verify_checksum=True, batch_rows=10
    )
    for split in (Split(0, middle), Split(middle, path.stat().st_size), None):
        assert list(read_split(found, split, wanted)) == []
