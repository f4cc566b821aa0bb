"""Row images: the values of the columns of rows events, in both directions.

`resolve_plan` works out a table map once; `decode_rows` and `encode_rows` go between a rows event's bytes and `RowChange`s.
"""

from __future__ import annotations

from binlogio.rowimage.geometry import Geometry
from binlogio.rowimage.image import RowChange, RowImage, decode_rows, encode_partial_rows, encode_rows
from binlogio.rowimage.json import JsonDocument
from binlogio.rowimage.json_diff import JsonDiff, JsonDiffOperation, JsonDiffs
from binlogio.rowimage.layout import column_layout
from binlogio.rowimage.plan import ColumnDefinition, ColumnPlan, TablePlan, resolve_plan
from binlogio.rowimage.text import json_value, value_text
from binlogio.rowimage.values import ABSENT, EnumValue, SetValue

__all__ = [
    "ABSENT",
    "ColumnDefinition",
    "ColumnPlan",
    "EnumValue",
    "Geometry",
    "JsonDiff",
    "JsonDiffOperation",
    "JsonDiffs",
    "JsonDocument",
    "RowChange",
    "RowImage",
    "SetValue",
    "TablePlan",
    "column_layout",
    "decode_rows",
    "encode_partial_rows",
    "encode_rows",
    "json_value",
    "resolve_plan",
    "value_text",
]
