"""Column values: grammar, construct layout and text of each type, one module per family of types.

The construct layouts here are the specification; `binlogio._kernel` is a faster implementation with the same results.
`column` is shared by the families, `layout` returns the layout of any column, `text` the text of any value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from binlogio.lazy_names import lazy_names

if TYPE_CHECKING:
    from binlogio.values.absent import ABSENT
    from binlogio.values.column import ColumnPlan
    from binlogio.values.json import JsonDiff, JsonDiffOperation, JsonDiffs, JsonDocument

__all__ = ["ABSENT", "ColumnPlan", "JsonDiff", "JsonDiffOperation", "JsonDiffs", "JsonDocument"]

if not TYPE_CHECKING:
    __getattr__: Final = lazy_names(
        __name__,
        {
            "absent": "ABSENT",
            "column": "ColumnPlan",
            "json": "JsonDiff JsonDiffOperation JsonDiffs JsonDocument",
        },
    )
