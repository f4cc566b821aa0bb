"""Rows events as frames, built by the compiled kernel with the post-header of the current version.

Other events are built by `binlogio.format.encoder`.
"""

from __future__ import annotations

from typing import Any, Final

from binlogio.constants import EventType
from binlogio.events.rows import DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent
from binlogio.implementation import is_compiled
from binlogio.rows.image import PRE_GA_EVENTS

TYPE_CODES: Final[dict[type, int]] = {
    WriteRowsEvent: EventType.WRITE_ROWS_EVENT,
    UpdateRowsEvent: EventType.UPDATE_ROWS_EVENT,
    DeleteRowsEvent: EventType.DELETE_ROWS_EVENT,
}


def has_quick_frame(event: Any) -> bool:
    """Return whether `rows_frame_of` can build the event, if need be as one of the current version."""
    return (
        type(event) in TYPE_CODES and event.header.type_code not in PRE_GA_EVENTS and not event.extra and is_compiled()
    )


def rows_frame_of(event: Any, table_id: int, *, checksum: bool = False) -> bytes:
    """Return the event as it stands in a log, but for its position; the header's flags are left out.

    Raises:
        BinlogFormatError: it does not fit 4 GiB.
    """
    from binlogio._kernel.row_encoder import rows_frame  # noqa: PLC0415 - it may not be there

    return rows_frame(
        event.images,
        type_code=TYPE_CODES[type(event)],
        timestamp=event.header.timestamp,
        server_id=event.header.server_id,
        table_id=table_id,
        flags=event.flags,
        column_count=event.column_count,
        present=event.present,
        present_after=event.present_after if isinstance(event, UpdateRowsEvent) else b"",
        checksum=checksum,
    )
