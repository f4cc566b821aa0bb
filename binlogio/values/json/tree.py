"""JSON tree: the in-memory form between MySQL's binary JSON, its text and Python objects.

A tree is made of None, bool, int, float, str, list, dict (in the order of the document) and two kinds that Python
lacks: `JsonUnsigned`, since the server keeps signed and unsigned integers apart, and `JsonOpaque`, a value of an SQL
type.

Source: sql-common/json_dom.h, enum_json_type.
"""

from __future__ import annotations

from typing import Final, TypeAlias, Union

from binlogio.frozen import dataclass

MAX_DEPTH: Final = 100
"""Nesting of arrays and objects that the server allows.

Source: sql-common/json_syntax_check.h, JSON_DOCUMENT_MAX_DEPTH.
"""


class JsonUnsigned(int):
    """An integer that the document stores as unsigned."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class JsonOpaque:
    """A value of an SQL type (`ColumnType`) in a document: DECIMAL and temporal ones, BIT and binary strings."""

    type_code: int
    data: bytes


JsonNode: TypeAlias = Union[bool, int, float, str, JsonOpaque, "list[JsonNode]", "dict[str, JsonNode]", None]
