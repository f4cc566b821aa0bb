"""Column values, one family of types a module: grammar, construct layout, text.

The construct definitions here specify every byte; `binlogio._kernel` gives the same answers fast. `column` is what the
families share, `layout` the layout of any column, `text` the text of any value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from binlogio.lazy_names import lazy_names

if TYPE_CHECKING:
    from binlogio.values.absent import ABSENT
    from binlogio.values.json import JsonDiff, JsonDiffOperation, JsonDiffs, JsonDocument

__all__ = ["ABSENT", "JsonDiff", "JsonDiffOperation", "JsonDiffs", "JsonDocument"]

if not TYPE_CHECKING:
    __getattr__: Final = lazy_names(
        __name__,
        {
            "absent": "ABSENT",
            "json": "JsonDiff JsonDiffOperation JsonDiffs JsonDocument",
        },
    )
