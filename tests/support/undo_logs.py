"""Generated logs for tests of undo, and their inverse as a list.

Has two tables, one with a key, and converts changes to events.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import binlogio
import row_events
from binlogio.events import RowsEvent
from binlogio.replay.undo import SqlScript, Undo, undo
from binlogio.schema import TableDefinition
from logs import log
from row_events import Pair

if TYPE_CHECKING:
    from pathlib import Path

KEYED: Final = TableDefinition.from_json(
    {
        "schema": "d",
        "name": "t",
        "columns": [
            {"name": "id", "type": "int", "nullable": False},
            {"name": "name", "type": "varchar(20)"},
            {"name": "doc", "type": "json"},
        ],
        "primary_key": ["id"],
    }
)
KEYLESS: Final = replace(KEYED, name="k", primary_key=())
ONE: Final = (1, "one", None)
TWO: Final = (2, "two", None)
THREE: Final = (3, "three", None)


def rows_of(*pairs: Pair, table: TableDefinition = KEYED, partial: bool = False) -> list[Any]:
    """Return a table map event and one rows event, by default of the table with a key."""
    return row_events.rows_of(*pairs, table=table, partial=partial)


def undone(tmp_path: Path, *events: Any, form: Any = SqlScript, definitions: Any = None, **options: Any) -> Undo:
    path = tmp_path / "binlog.000001"
    path.write_bytes(log(*events))
    with binlogio.open(path, definitions=definitions) as reader:
        return undo(reader, form(), **options)


def sql_of(ready: Undo) -> list[str]:
    """Return the statements, without settings, comments and checks."""
    with ready:
        lines = b"".join(ready.pieces()).decode().splitlines()
    return [line for line in lines if line and not line.startswith(("SET", "--"))]


def checks_in(ready: Undo) -> int:
    with ready:
        return b"".join(ready.pieces()).count(b"ROW_COUNT()")


def changes_of(ready: Undo, path: Path) -> list[tuple[str, Pair]]:
    """Write the inverse as a binary log; return its changes. The reader verifies checksums and positions."""
    with ready:
        path.write_bytes(b"".join(ready.pieces()))
    found = []
    with binlogio.open(path) as reader:
        for event in reader:
            assert event.header.log_pos == reader.position.offset
            if isinstance(event, RowsEvent):
                for row in reader.rows(event):
                    images = (row.before.values if row.before else None, row.after.values if row.after else None)
                    found.append((reader.table_map(event).table, images))
    return found
