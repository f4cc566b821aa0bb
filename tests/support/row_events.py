"""Row changes as events: a table map and one rows event, and the group that contains them.

Tables are given by definitions. ABSENT values are not in the present bitmap of an image.
"""

from __future__ import annotations

from typing import Any, Final

from binlogio.constants import EventType
from binlogio.events.control import XidEvent
from binlogio.events.rows import DeleteRowsEvent, PartialUpdateRowsEvent, UpdateRowsEvent, WriteRowsEvent
from binlogio.rows.image import RowChange, RowImage, encode_partial_rows, encode_rows
from binlogio.rows.plan import TablePlan, resolve_plan
from binlogio.schema import TableDefinition
from logs import header, query

TABLE_ID: Final = 100
END: Final = XidEvent(1, header(EventType.XID_EVENT))
Row = tuple[Any, ...]
Pair = tuple[Row | None, Row | None]


def plan_of(table: TableDefinition) -> TablePlan:
    """Return the plan that a reader derives from the table map."""
    return resolve_plan(table.table_map(TABLE_ID))


def rows_of(*pairs: Pair, table: TableDefinition, partial: bool = False) -> list[Any]:
    """Return a table map event and one rows event; all changes have the same operation and the same columns."""
    plan = plan_of(table)
    changes = [RowChange(*(None if row is None else RowImage(plan, row) for row in pair)) for pair in pairs]
    before, after = changes[0].before, changes[0].after
    present = [image.present for image in (before, after) if image is not None]
    fields: dict[str, Any] = {"table_id": TABLE_ID, "flags": 1, "extra": b"", "column_count": len(table.columns)}
    if len(present) > 1:
        fields["present_after"] = present[1]
        code = EventType.PARTIAL_UPDATE_ROWS_EVENT if partial else EventType.UPDATE_ROWS_EVENT
        kind: Any = PartialUpdateRowsEvent if partial else UpdateRowsEvent
    elif before is None:
        code, kind = EventType.WRITE_ROWS_EVENT, WriteRowsEvent
    else:
        code, kind = EventType.DELETE_ROWS_EVENT, DeleteRowsEvent
    images = (encode_partial_rows if partial else encode_rows)(changes, plan, *present)
    return [table.table_map(TABLE_ID), kind(present=present[0], images=images, header=header(code), **fields)]


def group(*events: Any, end: Any = END) -> list[Any]:
    """Return BEGIN, the events (lists are flattened), and the end of the group."""
    flat = [one for event in events for one in (event if isinstance(event, list) else [event])]
    return [query("BEGIN"), *flat, end]
