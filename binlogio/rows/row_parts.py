"""Splits a large rows event into several ones of whole rows, while its images are read.

So the images are never in memory as a whole; only the last event has the flags of the whole one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from binlogio.constants import RowsFlag
from binlogio.rows.unpacking import image_plan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from binlogio.events import RowsEvent
    from binlogio.rows.plan import TablePlan

PART_SIZE: Final = 1 << 20
"""The least size in bytes of the images of a part, unless it is the last one."""
_STMT_END: Final = int(RowsFlag.STMT_END)


def row_parts(
    event: RowsEvent, plan: TablePlan, read: Callable[[int], bytes], left: int, least: int = PART_SIZE
) -> Iterator[RowsEvent]:
    """Yield events with the rows of an event, in order; stops if `read` returns no more bytes before its end.

    Bytes that are no row of the table are in the last event.

    Args:
        event: the event with the first bytes of its images, if there are any yet.
        plan: its table; it has as many columns as the event.
        read: returns more bytes of the images, about as many as it is asked for.
        left: the number of bytes of the images that were not read.
        least: the least number of bytes of a part.
    """
    images: Any = image_plan(plan)
    bitmaps = event.operation, event.present, getattr(event, "present_after", event.present)
    part = bytearray(event.images)
    event = replace(event, images=b"")
    while left or part:
        count, taken = images.whole_rows(*bitmaps, part)
        if left and (count < 0 or taken < least):
            data = read(min(left, max(least, len(part))))
            if not data:
                return
            part += data
            left -= len(data)
            continue
        if not left and taken < len(part):
            taken = len(part)
        is_last = not left and taken == len(part)
        flags = event.flags if is_last else event.flags & ~_STMT_END
        yield replace(event, flags=flags, images=_taken(part, taken))


def _taken(part: bytearray, count: int) -> bytes:
    taken = bytes(memoryview(part)[:count])
    del part[:count]
    return taken
