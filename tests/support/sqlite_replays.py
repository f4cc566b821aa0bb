"""Replays of generated logs into SQLite: a table, its changes, the replay, and the resulting rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import binlogio
from binlogio.replay import ReplaySummary, SqliteTarget, replay
from binlogio.schema import TableDefinition
from logs import log
from row_events import Row, rows_of

if TYPE_CHECKING:
    from pathlib import Path

T: Final = TableDefinition.from_json(
    {
        "schema": "d",
        "name": "t",
        "columns": [
            {"name": "id", "type": "bigint unsigned", "nullable": False},
            {"name": "name", "type": "varchar(20)"},
            {"name": "document", "type": "json"},
        ],
        "primary_key": ["id"],
    }
)
ONE: Final = (1, "one", None)
TWO: Final = (2, "two", None)


def change(before: Row | None, after: Row | None, table: TableDefinition = T) -> list[Any]:
    """Return the table map event and the rows event of one row change."""
    return rows_of((before, after), table=table)


def replayed(
    tmp_path: Path, target: SqliteTarget, *events: Any, name: str = "binlog.000001", in_use: bool = False
) -> ReplaySummary:
    """Write the events to a log and replay it."""
    path = tmp_path / name
    path.write_bytes(log(*events, in_use=in_use))
    with binlogio.open(path) as reader:
        return replay(reader, target)


def contents(target: SqliteTarget, table: str = "d.t") -> list[Row]:
    """Return the rows of a table."""
    found = target.connection.execute(f'SELECT * FROM "{table}"')
    return [tuple(row) for row in found]
