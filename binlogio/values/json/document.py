"""JSON columns: a document of MySQL's binary JSON, as text and as Python's objects.

The binary form is in `binary`, text and Python objects are in `text`.

    json := size: u32  binary JSON

Source: sql-common/json_binary.h, sql-common/json_dom.h.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from binlogio._kernel import column_kinds as kinds
from binlogio.constants import ColumnType
from binlogio.errors import BinlogFormatError
from binlogio.frozen import dataclass
from binlogio.values.column import (
    CodedValue,
    ColumnPlan,
    KindMaker,
    LayoutMaker,
    ShapeMaker,
    SizedBytes,
    of_kind,
    prefixed_shape,
)
from binlogio.values.json.binary import build_json, parse_json
from binlogio.values.json.text import json_text, node_from_python, node_from_text, node_to_python

if TYPE_CHECKING:
    from construct import Construct


@dataclass(frozen=True, slots=True)
class JsonDocument:
    """A JSON value as the server stores it. It is parsed only if its text or its value is read.

    `binary` is kept as it was found: a server that updates a document in place leaves holes in it, so two documents
    with the same text may differ.
    """

    binary: bytes

    @classmethod
    def from_text(cls, text: str) -> JsonDocument:
        """Return the document that the server creates from JSON text.

        Raises:
            BinlogFormatError: the text is not JSON, or the server would refuse it.
        """
        return cls(build_json(node_from_text(text)))

    @classmethod
    def from_python(cls, value: object) -> JsonDocument:
        """Return the document of dicts, lists and scalars, Decimal, dates and times, and bytes among them.

        Raises:
            BinlogFormatError: something that JSON in MySQL cannot hold.
        """
        return cls(build_json(node_from_python(value)))

    @property
    def text(self) -> str:
        """The text that the server prints.

        Raises:
            BinlogFormatError: `binary` is damaged.
        """
        return json_text(parse_json(self.binary))

    def to_python(self) -> object:
        """Return dicts, lists and scalars; SQL's decimals, dates and times as Python's, other SQL values as bytes.

        Raises:
            BinlogFormatError: `binary` is damaged.
        """
        return node_to_python(parse_json(self.binary))

    def __str__(self) -> str:
        return self.text


def _layout(column: ColumnPlan) -> Construct:
    def encode(value: object) -> bytes:
        if not isinstance(value, JsonDocument):
            raise BinlogFormatError("expected a JsonDocument", found=repr(value))
        return value.binary

    return CodedValue(SizedBytes(column.pack_length, column.length), JsonDocument, encode)


SHAPES: Final[dict[ColumnType, ShapeMaker]] = {ColumnType.JSON: prefixed_shape}
LAYOUTS: Final[dict[ColumnType, LayoutMaker]] = {ColumnType.JSON: _layout}
KINDS: Final[dict[ColumnType, KindMaker]] = {ColumnType.JSON: of_kind(kinds.JSON, "string")}
