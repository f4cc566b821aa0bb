"""JSON columns: a document of MySQL's binary JSON, as text and as Python's objects.

The binary form is in `json_parse` and `json_build`, text and Python objects in `json_text`.

Source: sql-common/json_binary.h, sql-common/json_dom.h.
"""

from __future__ import annotations

from dataclasses import dataclass

from binlogio.values.json_build import build_json
from binlogio.values.json_parse import parse_json
from binlogio.values.json_text import json_text, node_from_python, node_from_text, node_to_python


@dataclass(frozen=True, slots=True)
class JsonDocument:
    """A JSON value as the server stores it. Nothing is parsed before it is asked for.

    `binary` is kept as it was found: a server that updates a document in place leaves holes in it, so two documents
    with the same text may differ.
    """

    binary: bytes

    @classmethod
    def from_text(cls, text: str) -> JsonDocument:
        """Return the document that the server makes of JSON text.

        Raises:
            BinlogFormatError: the text is no JSON, or the server would refuse it.
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
        """Dicts, lists and scalars; SQL's decimals, dates and times as Python's, other SQL values as bytes.

        Raises:
            BinlogFormatError: `binary` is damaged.
        """
        return node_to_python(parse_json(self.binary))

    def __str__(self) -> str:
        return self.text
