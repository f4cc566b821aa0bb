"""Parser of partial JSON updates, as a record shows them when the document itself is unknown.

Reads the text that `binlogio.values.json` makes of JSON diffs.

    change   := function "(" (column | change) ("," path ("," value)?)* ")"
    function := JSON_REPLACE | JSON_INSERT | JSON_ARRAY_INSERT | JSON_REMOVE
    value    := text | number | true | false | null | CAST(text AS JSON)
"""

from __future__ import annotations

import re
from typing import Final

from binlogio.errors import BinlogFormatError
from binlogio.values.json import JsonDiff, JsonDiffOperation, JsonDiffs, JsonDocument

_OPERATIONS: Final = {
    "JSON_REPLACE": JsonDiffOperation.REPLACE,
    "JSON_INSERT": JsonDiffOperation.INSERT,
    "JSON_ARRAY_INSERT": JsonDiffOperation.INSERT,
    "JSON_REMOVE": JsonDiffOperation.REMOVE,
}
_FUNCTION: Final = re.compile("(" + "|".join(_OPERATIONS) + r")\(")
_TEXT: Final = r"'((?:[^'\\]|\\.)*)'"
_PATH: Final = re.compile(rf",\s*{_TEXT}", re.DOTALL)
_VALUE: Final = re.compile(rf",\s*(?:CAST\({_TEXT} AS JSON\)|{_TEXT}|([^',()\s][^,()\s]*))", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(x[0-9a-f]{2}|.)", re.DOTALL)
_ESCAPED: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


def is_change(text: str, column: str) -> bool:
    """Return whether the text of a column is a change to the document that the column has.

    No document begins like that.
    """
    at = 0
    while (match := _FUNCTION.match(text, at)) is not None:
        at = match.end()
    return at > 0 and text.startswith(f"{column}, '$", at)


def parse_change(text: str) -> JsonDiffs:
    """Return the diffs that the text shows.

    Raises:
        BinlogFormatError: the text is not a partial update.
    """
    functions: list[str] = []
    at = 0
    while (match := _FUNCTION.match(text, at)) is not None:
        functions.append(match[1])
        at = match.end()
    at = _after_column(text, at)
    diffs: list[JsonDiff] = []
    for function in reversed(functions):
        at = _arguments(text, at, _OPERATIONS[function], diffs)
        if text[at : at + 1] != ")":
            raise _unreadable(text, at)
        at += 1
    if at != len(text) or not functions:
        raise _unreadable(text, at)
    return JsonDiffs(diffs)


def _after_column(text: str, at: int) -> int:
    """Return the offset after the column's name, which may be any text: the first path follows it."""
    path = re.compile(r",\s*'\$").search(text, at)
    if path is None:
        raise _unreadable(text, at)
    return path.start()


def _arguments(text: str, at: int, operation: JsonDiffOperation, diffs: list[JsonDiff]) -> int:
    while (path := _PATH.match(text, at)) is not None:
        at = path.end()
        value: JsonDocument | None = None
        if operation != JsonDiffOperation.REMOVE:
            match = _VALUE.match(text, at)
            if match is None:
                raise _unreadable(text, at)
            at = match.end()
            value = _value(*match.groups())
        diffs.append(JsonDiff(operation, _unescaped(path[1]), value))
    return at


def _value(document: str | None, string: str | None, scalar: str | None) -> JsonDocument:
    if document is not None:
        return JsonDocument.from_text(_unescaped(document))
    if string is not None:
        return JsonDocument.from_python(_unescaped(string))
    return JsonDocument.from_text(scalar or "")


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(
        lambda match: chr(int(match[1][1:], 16)) if len(match[1]) > 1 else _ESCAPED.get(match[1], match[1]), text
    )


def _unreadable(text: str, at: int) -> BinlogFormatError:
    return BinlogFormatError("invalid text of a partial JSON update", field="JSON diff", found=repr(text[at : at + 40]))
