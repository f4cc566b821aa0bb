"""Where each row image of a rows event ends, so that its bytes can be moved as they are.

images := image*                   -- one a row, or before and after in turn
image  := null: bits[columns in the image]  value*
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlogio.errors import BinlogFormatError
from binlogio.primitives import bitmap_size
from binlogio.values.layout import wire_width

if TYPE_CHECKING:
    from binlogio.rows.plan import TablePlan

Widths = tuple[int, ...]
"""For each column of an image the bytes of its value; minus the bytes of the length where there is one in front."""


def widths_of(plan: TablePlan, present: bytes) -> Widths:
    """Return the widths of the columns whose bits are set."""
    bits = int.from_bytes(present, "little")
    return tuple(wire_width(column) for column in plan.columns if bits >> column.position & 1)


def cut_images(images: bytes, kinds: tuple[Widths, ...]) -> list[bytes]:
    """Return the images one by one; `kinds` are those of a row, which take turns.

    Raises:
        BinlogFormatError: the bytes end within an image, or within a row.
    """
    cut: list[bytes] = []
    at, turn = 0, 0
    while at < len(images) or not (cut or any(kinds)):  # a row of no columns has no bytes, and is alone in its event
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
