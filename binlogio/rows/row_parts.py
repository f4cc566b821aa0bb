"""Cuts the images of a large rows event into parts of whole rows while they are read, in bounded memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from binlogio.rows.unpacking import image_plan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from binlogio.events import RowsEvent
    from binlogio.rows.plan import TablePlan

PART_SIZE: Final = 1 << 20
"""The least size in bytes of a part, unless it is the last one."""


def row_parts(
    event: RowsEvent, plan: TablePlan, read: Callable[[int], bytes], left: int, least: int = PART_SIZE
) -> Iterator[tuple[bytes, bool]]:
    """Yield the images of an event in parts, in order, and whether each is the last part.

    Bytes that are no row of the table are in the last part. The caller must not keep a part.

    Args:
        event: the event with the first bytes of its images, if there are any yet.
        plan: its table; it has as many columns as the event.
        read: returns more bytes of the images, about as many as it is asked for.
        left: the number of bytes of the images that were not read.
        least: the least number of bytes of a part.

    Raises:
        OSError: `read` returned no bytes.
    """
    images: Any = image_plan(plan)
    bitmaps = event.operation, event.present, getattr(event, "present_after", event.present)
    part = bytearray(event.images)
    del event
    while left or part:
        count, taken = images.whole_rows(*bitmaps, part)
        if left and (count < 0 or taken < least):
            data = read(min(left, max(least, len(part))))
            if not data:
                raise OSError("the log became shorter while it was read")
            part += data
            left -= len(data)
            continue
        if not left and taken < len(part):
            taken = len(part)
        yield _taken(part, taken), not (left or part)


def _taken(part: bytearray, count: int) -> bytes:
    taken = bytes(memoryview(part)[:count])
    del part[:count]
    return taken
