"""Collation keys: values that are equal if a unique index of the server takes them for equal.

Case, accents and trailing spaces are taken from the collation's name. Weights are not implemented: for
language-specific collations, and for letters that expand to several, two keys may differ here that are equal in a
server. SQLite and server targets compare keys themselves.

    ..._bin, ..._cs            characters
    ..._as_ci                  without case
    ..._ci, ..._ai_ci          without case and accents
    but for ..._0900_...       trailing spaces do not count (PAD SPACE)
"""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING, Any

from binlogio.constants import ColumnType
from binlogio.schema.collations import collation_name
from binlogio.values.charsets import BINARY_COLLATION

if TYPE_CHECKING:
    from binlogio.values.column import ColumnPlan


def collation_key(value: Any, column: ColumnPlan, prefix_length: int = 0) -> Any:
    """Return a value that is equal for equal keys.

    Of text and bytes, the first `prefix_length` characters where that is not 0.
    """
    if prefix_length and isinstance(value, str | bytes):
        value = value[:prefix_length]
    if isinstance(value, float):
        return value + 0.0  # -0.0 and 0.0 are one key
    if not isinstance(value, str) or column.collation_id in (None, BINARY_COLLATION):
        return value
    if column.type in (ColumnType.ENUM, ColumnType.SET):
        return value
    name = collation_name(column.collation_id)
    if "_0900_" not in name:
        value = value.rstrip(" ")
    if name.endswith("_bin") or "_cs" in name:
        return value
    if "_as_" in name:
        return unicodedata.normalize("NFC", value).casefold()
    folded = unicodedata.normalize("NFD", value if "general" in name else value.casefold())
    without = "".join(character for character in folded if not unicodedata.combining(character))
    return "".join(_simple(character) for character in without) if "general" in name else without.casefold()


def _simple(character: str) -> str:
    """As general_ci: one character for one, so that the German sharp s is an S."""
    if character == "ß":
        return "S"
    upper = character.upper()
    return upper if len(upper) == 1 else character
