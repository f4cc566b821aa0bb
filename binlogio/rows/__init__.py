"""Row images: plans for decoding and encoding the columns of a table, and the images in both directions.

Values of single columns are in `binlogio.values`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from binlogio.lazy_names import lazy_names

if TYPE_CHECKING:
    from binlogio.rows.image import RowChange, RowImage, decode_rows, encode_rows, present_bitmaps
    from binlogio.rows.plan import TablePlan, resolve_plan

__all__ = [
    "RowChange", "RowImage", "TablePlan", "decode_rows", "encode_rows", "present_bitmaps", "resolve_plan",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__: Final = lazy_names(
        __name__,
        {
            "image": "RowChange RowImage decode_rows encode_rows present_bitmaps",
            "plan": "TablePlan resolve_plan",
        },
    )
