"""Cuts the images of a rows event into the bytes of single images, rows and values, without decoding values.

    images := image*                   -- one per row, or before and after image in turn
    image  := null: bits[columns in the image]  value*

`binlogio.rows.image` decodes the images; both files must agree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from binlogio.bounded_cache import BoundedCache
from binlogio.errors import BinlogFormatError, UnsupportedFeature
from binlogio.events.base import event_name
from binlogio.events.rows import PartialUpdateRowsEvent, UpdateRowsEvent
from binlogio.primitives import bitmap_size
from binlogio.rows.image import PRE_GA_EVENTS
from binlogio.values.layout import wire_width

if TYPE_CHECKING:
    from collections.abc import Sequence

    from binlogio.events import RowsEvent
    from binlogio.rows.plan import TablePlan

Widths = tuple[int, ...]
"""The size in bytes of the value of each column of an image; -n for a value that begins with its length in n bytes."""

_widths: Final[BoundedCache[tuple[int, bytes], tuple[TablePlan, Widths]]] = BoundedCache()
"""Widths by the identity of a plan, because computing the hash of a plan takes as long as decoding a row."""


def widths_of(plan: TablePlan, present: bytes) -> Widths:
    """Return the widths of the columns whose bits are set in the bitmap `present`."""
    key = id(plan), present
    found = _widths.get(key)
    if found is None or found[0] is not plan:
        bits = int.from_bytes(present, "little")
        widths = tuple(wire_width(column) for column in plan.columns if bits >> column.position & 1)
        found = _widths.put(key, (plan, widths))
    return found[1]


def cut_images(images: bytes, kinds: tuple[Widths, ...]) -> list[bytes]:
    """Return the bytes of each image. `kinds` are the widths of each image of a row: one, or before and after image.

    Raises:
        BinlogFormatError: the bytes end in the middle of an image or of a row, or the images have no columns.
    """
    cut: list[bytes] = []
    at, turn = 0, 0
    while at < len(images) or not (cut or any(kinds)):  # a row without columns has no bytes; its event has no other row
        end = _end(images, at, kinds[turn])
        cut.append(images[at:end])
        if end == at and images:
            raise BinlogFormatError("the rows event has row images, but its bitmap has no columns", field="row images")
        at, turn = end, (turn + 1) % len(kinds)
    if turn:
        raise BinlogFormatError(
            "the row images end after a before image: the after image is missing", field="row images"
        )
    return cut


def _end(images: bytes, at: int, widths: Widths) -> int:
    size = len(images)
    values = at + bitmap_size(len(widths))
    nulls = int.from_bytes(images[at:values], "little")
    at = values
    for width in widths:
        if not nulls & 1:
            if width < 0:
                start, at = at, at - width
                at += int.from_bytes(images[start:at], "little")
            else:
                at += width
        if at > size:
            raise BinlogFormatError("the row images end inside a value", field=f"byte {at} of {size} of the row images")
        nulls >>= 1
    return at


def cut_values(image: bytes, widths: Widths) -> list[bytes | None]:
    """Return the bytes of each value of one image that `cut_images` has returned; None for NULL."""
    values: list[bytes | None] = []
    at = bitmap_size(len(widths))
    nulls = int.from_bytes(image[:at], "little")
    for width in widths:
        start = at
        if not nulls & 1:
            at += width if width >= 0 else int.from_bytes(image[at : at - width], "little") - width
        values.append(None if nulls & 1 else image[start:at])
        nulls >>= 1
    return values


def join_values(values: Sequence[bytes | None], plan: TablePlan) -> bytes:
    """Return the image with these values: the inverse of `cut_values`."""
    nulls = sum(1 << number for number, value in enumerate(values) if value is None)
    if plan.spare_null_bits:
        nulls |= ((1 << -len(values) % 8) - 1) << len(values)
    return nulls.to_bytes(bitmap_size(len(values)), "little") + b"".join(value for value in values if value is not None)


def rows_of(event: RowsEvent, plan: TablePlan) -> list[bytes]:
    """Return the bytes of each row of an event: one image, or before and after image.

    Raises:
        BinlogFormatError: the images do not fit the table.
        UnsupportedFeature: the event is a PARTIAL_UPDATE_ROWS_EVENT, or of MySQL 5.1 before GA.
    """
    if isinstance(event, PartialUpdateRowsEvent) or event.header.type_code in PRE_GA_EVENTS:
        raise UnsupportedFeature(
            "rows with JSON diffs (PARTIAL_JSON), and those of MySQL 5.1 before GA, cannot be taken out of their event",
            offset=event.header.offset,
            event_type=event_name(event.header.type_code),
        )
    widths = widths_of(plan, event.present)
    if not isinstance(event, UpdateRowsEvent):
        return cut_images(event.images, (widths,))
    images = cut_images(event.images, (widths, widths_of(plan, event.present_after)))
    return [before + after for before, after in zip(images[::2], images[1::2], strict=True)]
