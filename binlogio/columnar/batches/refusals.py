"""Errors of events that the compiled kernel refuses.

The kernel reports only that an event is invalid. Construct parses the event again and raises the detailed error, so
that both implementations raise the same one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from binlogio.columnar.reference.construct_reader import ROWS_TYPES, RowsWalk
from binlogio.events import EVENT_CODECS
from binlogio.events.base import EventHeader

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binlogio.columnar.record_types import RowSelection
    from binlogio.events.base import ParseContext
    from binlogio.events.rows import RowsEvent
    from binlogio.events.transaction_payload import TransactionPayloadEvent
    from binlogio.format.framing import EventFrame
    from binlogio.rows.plan import TablePlan
    from binlogio.schema.source import DefinitionSource


def refuse_event(
    frame: EventFrame, selection: RowSelection, table: TablePlan | None, definitions: DefinitionSource
) -> None:
    """Raise what is wrong with an event; `table` is that of a rows event, None where nothing defines it.

    Raises:
        BinlogError: construct refuses the event, or one inside it.
    """
    is_rows_event = frame.header.type_code in ROWS_TYPES
    for _ in RowsWalk(selection, definitions, table if is_rows_event else None).take(frame):
        pass  # good rows before it


def refuse_payload(
    event: TransactionPayloadEvent,
    context: ParseContext,
    chunks: Iterator[bytes],
    start: int,
    selection: RowSelection,
    table: TablePlan | None,
    definitions: DefinitionSource,
) -> None:
    """Raise what is wrong with the events of a payload from byte `start` on, before which the kernel found all good.

    `table` is that of the event there, if it is a rows event. The events before are not read again: there may be
    millions of rows.

    Raises:
        BinlogError: construct refuses an event.
    """
    for _ in RowsWalk(selection, definitions, table).take_payload(event, context, chunks, start):
        pass


def rows_event(
    code: int, pos: int, column_count: int, present: bytes, present_after: bytes, images: bytes
) -> RowsEvent:
    """Return a rows event that the kernel has found, as far as its rows need it."""
    codec = EVENT_CODECS[code]
    common: dict[str, Any] = {"table_id": 0, "flags": 0, "extra": b"", "column_count": column_count, "present": present}
    if "present_after" in codec.names:
        common["present_after"] = present_after
    event: RowsEvent = codec.event_class(images=images, header=EventHeader(type_code=code, offset=pos), **common)
    return event
