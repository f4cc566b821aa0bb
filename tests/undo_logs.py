"""Logs of rows to undo, made to order, and what their inverse is as a list.

Knows two tables, one with a key, and how changes become events.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import binlogio
from binlogio.constants import EventType
from binlogio.events.control import XidEvent
from binlogio.events.rows import DeleteRowsEvent, PartialUpdateRowsEvent, UpdateRowsEvent, WriteRowsEvent
from binlogio.replay.undo import SqlScript, Undo, undo
from binlogio.rowimage.image import RowChange, RowImage, encode_partial_rows, encode_rows
from binlogio.rowimage.plan import resolve_plan
from binlogio.schema import TableDefinition
from logs import header, log, query

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
END: Final = XidEvent(1, header(EventType.XID_EVENT))
Row = tuple[Any, ...]
Pair = tuple[Row | None, Row | None]


def rows_of(*pairs: Pair, table: TableDefinition = KEYED, partial: bool = False) -> list[Any]:
    """TABLE_MAP_EVENT and one rows event."""
    plan = resolve_plan(table.table_map(100))
    changes = [RowChange(*(None if row is None else RowImage(plan, row) for row in pair)) for pair in pairs]
    before, after = changes[0].before, changes[0].after
    count, first = len(table.columns), (before or after)
    present = first.present if first is not None else b""
    fields: dict[str, Any] = {"table_id": 100, "flags": 1, "extra": b"", "column_count": count, "present": present}
    if before is not None and after is not None:
        kind: Any = PartialUpdateRowsEvent if partial else UpdateRowsEvent
        write = encode_partial_rows if partial else encode_rows
        images = write(changes, plan, present, after.present)
        code = EventType.PARTIAL_UPDATE_ROWS_EVENT if partial else EventType.UPDATE_ROWS_EVENT
        event = kind(present_after=after.present, images=images, header=header(code), **fields)
    else:
        kind = DeleteRowsEvent if after is None else WriteRowsEvent
        code = EventType.DELETE_ROWS_EVENT if after is None else EventType.WRITE_ROWS_EVENT
        event = kind(images=encode_rows(changes, plan, present), header=header(code), **fields)
    return [table.table_map(100), event]


def transaction(*parts: list[Any]) -> list[Any]:
    return [query("BEGIN"), *(event for part in parts for event in part), END]


def undone(tmp_path: Path, *events: Any, form: Any = SqlScript, **options: Any) -> Undo:
    path = tmp_path / "binlog.000001"
    path.write_bytes(log(*events))
    with binlogio.open(path) as reader:
        return undo(reader, form(), **options)


def sql_of(ready: Undo) -> list[str]:
    """The statements between the settings, without comments and checks."""
    with ready:
        lines = b"".join(ready.pieces()).decode().splitlines()
    return [line for line in lines if line and not line.startswith(("SET", "--"))]


def checks_in(ready: Undo) -> int:
    with ready:
        return b"".join(ready.pieces()).count(b"ROW_COUNT() = 1")


def changes_of(ready: Undo, path: Path) -> list[tuple[str, Pair]]:
    """Every change of the inverse as a binary log, checksums and positions verified by the reader."""
    with ready:
        path.write_bytes(b"".join(ready.pieces()))
    found = []
    with binlogio.open(path) as reader:
        for event in reader:
            assert event.header.log_pos == reader.position.offset
            if hasattr(event, "images"):
                for row in reader.rows(event):
                    images = (row.before.values if row.before else None, row.after.values if row.after else None)
                    found.append((reader.table_map(event).table, images))
    return found
