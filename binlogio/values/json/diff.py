"""JSON diffs: the changes of a partial update to a document (binlog_row_value_options=PARTIAL_JSON).

Contains the diff vector, its texts, which can be parsed, and its application. The rows event marks which columns of an
after image have diffs.

    diffs := diff*
    diff  := operation: u8 (0 replace, 1 insert, 2 remove)  path: lenenc, UTF-8
             (value: lenenc, binary JSON)?                                                       -- not for remove
    path  := $ ( .name | ."quoted name" | [index] )*

Source: sql/json_diff.cc, Json_diff_vector::read_binary; sql-common/json_dom.cc, apply_json_diffs; client:
sql/log_event.cc, print_json_diff.
"""

from __future__ import annotations

import json
import re
from enum import IntEnum
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

from construct import Adapter, Container, IfThenElse, Int8ul, Pass, Struct, this

from binlogio.errors import BinlogFormatError
from binlogio.frozen import dataclass
from binlogio.primitives import LenencBytes, Many, Utf8, Whole
from binlogio.values.column import SizedBytes
from binlogio.values.json.binary import build_json, parse_json
from binlogio.values.json.document import JsonDocument
from binlogio.values.json.text import is_text, json_text, scalar_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from construct import Construct

    from binlogio.values.json.tree import JsonNode


class JsonDiffOperation(IntEnum):
    """sql/json_diff.h, enum_json_diff_operation. Numbers are on disk: never renumber."""

    REPLACE = 0
    INSERT = 1
    REMOVE = 2


@dataclass(frozen=True, slots=True)
class JsonDiff:
    """One change: `value` replaces the value at `path`, is inserted there, or (None) the value there is removed."""

    operation: JsonDiffOperation
    path: str
    value: JsonDocument | None = None

    @property
    def function(self) -> str:
        """The SQL function that does the same."""
        into_array = self.operation == JsonDiffOperation.INSERT and self.path.endswith("]")
        return "JSON_ARRAY_INSERT" if into_array else f"JSON_{self.operation.name}"


class JsonDiffs(tuple[JsonDiff, ...]):
    """The changes to one document, in order. An empty sequence leaves the document as it is."""

    __slots__ = ()

    def apply(self, document: JsonDocument) -> JsonDocument:
        """Return the document after the changes.

        Raises:
            BinlogFormatError: a path does not exist in the document, or exists where it must not.
        """
        if not self:
            return document
        holder: list[JsonNode] = [parse_json(document.binary)]
        for diff in self:
            _apply(diff, holder)
        return JsonDocument(build_json(holder[0]))

    @property
    def operations(self) -> str:
        """The changes as JSON text: `[{"op":"replace","path":"$.a","value":1}]`.

        `op` is replace, insert or remove, which has no value.

        No document has this text: documents have a space after each colon, and an empty array, which is `[ ]` here, is
        printed as `[]`.

        Raises:
            BinlogFormatError: a value is damaged.
        """
        return f"[{','.join(map(_operation, self)) or ' '}]"

    def sql(self, column: str, line_break: str = "", quoted: Callable[[str], str] | None = None) -> str:
        """Return the changes as nested SQL functions of `column`: JSON_REPLACE(@2, '$.age', 26).

        `mysqlbinlog -v` puts a line break between the changes: a newline, `###` and six spaces. `quoted` writes text;
        without it, text is escaped as `mysqlbinlog` does, for people.

        Raises:
            BinlogFormatError: a value is damaged.
        """
        text = column
        groups = [(function, list(diffs)) for function, diffs in groupby(self, key=lambda diff: diff.function)]
        for index, (function, diffs) in enumerate(groups):
            arguments = f",{line_break or ' '}".join(_arguments(diff, quoted or sql_quoted) for diff in diffs)
            between = line_break or " " if index else " "
            text = f"{function}({line_break if index else ''}{text},{between}{arguments})"
        return text

    @staticmethod
    def is_sql(text: str, column: str) -> bool:
        """Return whether the text of a column is `sql` of a change to it; no document begins like that."""
        at = 0
        while (match := _FUNCTION.match(text, at)) is not None:
            at = match.end()
        return at > 0 and text.startswith(f"{column}, '$", at)

    @classmethod
    def from_sql(cls, text: str) -> JsonDiffs:
        """Parse the text that `sql` produces, without line breaks and with its own escapes.

            change   := function "(" (column | change) ("," path ("," value)?)* ")"
            function := JSON_REPLACE | JSON_INSERT | JSON_ARRAY_INSERT | JSON_REMOVE
            value    := text | number | true | false | null | CAST(text AS JSON)

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
            at = _parse_arguments(text, at, _FUNCTIONS[function], diffs)
            if text[at : at + 1] != ")":
                raise _unreadable(text, at)
            at += 1
        if at != len(text) or not functions:
            raise _unreadable(text, at)
        return cls(diffs)


def is_operations(text: str) -> bool:
    """Return True if the text of a JSON column is `JsonDiffs.operations`, and no document."""
    return text.startswith('[{"op":"') or text == "[ ]"


def _operation(diff: JsonDiff) -> str:
    path = json.dumps(diff.path, ensure_ascii=False)
    value = "" if diff.value is None else f',"value":{diff.value.text}'
    return f'{{"op":"{diff.operation.name.lower()}","path":{path}{value}}}'


def _arguments(diff: JsonDiff, quoted: Callable[[str], str]) -> str:
    path = quoted(diff.path)
    return path if diff.value is None else f"{path}, {_sql_value(parse_json(diff.value.binary), quoted)}"


def _sql_value(node: JsonNode, quoted: Callable[[str], str]) -> str:
    if isinstance(node, dict | list):
        return f"CAST({quoted(json_text(node))} AS JSON)"
    return quoted(scalar_text(node)) if is_text(node) else scalar_text(node)


_SQL_ESCAPES: Final = {
    **{code: f"\\x{code:02x}" for code in range(0x20)},
    **{ord(raw): f"\\{escape}" for raw, escape in zip("'\\\b\f\n\r\t", "'\\bfnrt", strict=True)},
}


def sql_quoted(text: str) -> str:
    """Return `text` in single quotes, escaped as mysqlbinlog does."""
    return f"'{text.translate(_SQL_ESCAPES)}'"


_FUNCTIONS: Final = {
    "JSON_REPLACE": JsonDiffOperation.REPLACE,
    "JSON_INSERT": JsonDiffOperation.INSERT,
    "JSON_ARRAY_INSERT": JsonDiffOperation.INSERT,
    "JSON_REMOVE": JsonDiffOperation.REMOVE,
}
_FUNCTION: Final = re.compile("(" + "|".join(_FUNCTIONS) + r")\(")
_TEXT: Final = r"'((?:[^'\\]|\\.)*)'"
_PATH: Final = re.compile(rf",\s*{_TEXT}", re.DOTALL)
_VALUE: Final = re.compile(rf",\s*(?:CAST\({_TEXT} AS JSON\)|{_TEXT}|([^',()\s][^,()\s]*))", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(x[0-9a-f]{2}|.)", re.DOTALL)
_ESCAPED: Final = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


def _after_column(text: str, at: int) -> int:
    """Return the offset after the column's name, which may be any text; the first path follows it."""
    path = re.compile(r",\s*'\$").search(text, at)
    if path is None:
        raise _unreadable(text, at)
    return path.start()


def _parse_arguments(text: str, at: int, operation: JsonDiffOperation, diffs: list[JsonDiff]) -> int:
    while (path := _PATH.match(text, at)) is not None:
        at = path.end()
        value: JsonDocument | None = None
        if operation != JsonDiffOperation.REMOVE:
            match = _VALUE.match(text, at)
            if match is None:
                raise _unreadable(text, at)
            at = match.end()
            value = _parsed_value(*match.groups())
        diffs.append(JsonDiff(operation, _unescaped_sql(path[1]), value))
    return at


def _parsed_value(document: str | None, string: str | None, scalar: str | None) -> JsonDocument:
    if document is not None:
        return JsonDocument.from_text(_unescaped_sql(document))
    if string is not None:
        return JsonDocument.from_python(_unescaped_sql(string))
    return JsonDocument.from_text(scalar or "")


def _unescaped_sql(text: str) -> str:
    return _ESCAPE.sub(
        lambda match: chr(int(match[1][1:], 16)) if len(match[1]) > 1 else _ESCAPED.get(match[1], match[1]), text
    )


def _unreadable(text: str, at: int) -> BinlogFormatError:
    return BinlogFormatError("invalid text of a partial JSON update", field="JSON diff", found=repr(text[at : at + 40]))


# -------------------------------------------------------------------------------------------------------- paths

_LEG: Final = re.compile(r'\.([^ ."\[\]*]+)|\.("(?:[^"\\]|\\.)*")|\[(\d{1,10})\]')


def parse_path(path: str) -> tuple[str | int, ...]:
    """Return the names and indexes of a path without wildcards.

    Raises:
        BinlogFormatError: it is not a path.
    """
    legs: list[str | int] = []
    at = 1
    while path.startswith("$") and at < len(path):
        match = _LEG.match(path, at)
        if match is None:
            break
        name, quoted_name, index = match.groups()
        legs.append(int(index) if index else name or _unquoted(quoted_name))
        at = match.end()
    if at != len(path) or not path.startswith("$"):
        raise BinlogFormatError("invalid JSON path", field="JSON path", found=repr(path))
    return tuple(legs)


def _unquoted(quoted_name: str) -> str:
    try:
        return str(json.loads(quoted_name))
    except ValueError as exc:
        raise BinlogFormatError("invalid member name in a JSON path", field="JSON path", found=quoted_name) from exc


def _apply(diff: JsonDiff, holder: list[JsonNode]) -> None:
    """Apply `diff` to the tree whose root is the one element of `holder`."""
    *legs, last = (0, *parse_path(diff.path))
    parent: JsonNode = holder
    for leg in legs:
        parent = _child(parent, leg, diff)
    value = parse_json(diff.value.binary) if diff.value is not None else None
    if parent is holder and diff.operation != JsonDiffOperation.REPLACE:
        raise _misfit(diff, "the root can only be replaced")
    if diff.operation == JsonDiffOperation.INSERT:
        _insert(parent, last, value, diff)
        return
    _child(parent, last, diff)
    # mypy does not see that _child has checked both types.
    container: Any = parent
    if diff.operation == JsonDiffOperation.REPLACE:
        container[last] = value
    else:
        del container[last]


def _child(parent: JsonNode, leg: str | int, diff: JsonDiff) -> JsonNode:
    if isinstance(parent, dict) and isinstance(leg, str) and leg in parent:
        return parent[leg]
    if isinstance(parent, list) and isinstance(leg, int) and leg < len(parent):
        return parent[leg]
    raise _misfit(diff, f"{leg!r} does not exist")


def _insert(parent: JsonNode, leg: str | int, value: JsonNode, diff: JsonDiff) -> None:
    if isinstance(parent, list) and isinstance(leg, int):
        parent.insert(leg, value)
    elif isinstance(parent, dict) and isinstance(leg, str) and leg not in parent:
        parent[leg] = value
    else:
        raise _misfit(diff, f"{leg!r} cannot be added")


def _misfit(diff: JsonDiff, reason: str) -> BinlogFormatError:
    return BinlogFormatError(
        f"a JSON diff cannot be applied to the document: {reason}", field="JSON diff", found=f"{diff.path}"
    )


# ------------------------------------------------------------------------------------------------------- layout

_DIFF: Final = Struct(
    "operation" / Int8ul,
    "path" / Utf8(LenencBytes),
    "value" / IfThenElse(this.operation == JsonDiffOperation.REMOVE, Pass, LenencBytes),
)


class _Diff(Adapter):  # type: ignore[misc]
    """One diff; an unknown operation is an error."""

    def _decode(self, obj: Container, context: Container, path: str) -> JsonDiff:
        value = JsonDocument(obj.value) if obj.value is not None else None
        return JsonDiff(JsonDiffOperation(obj.operation), obj.path, value)

    def _encode(self, obj: JsonDiff, context: Container, path: str) -> dict[str, object]:
        if (obj.value is None) != (obj.operation == JsonDiffOperation.REMOVE):
            raise BinlogFormatError("a JSON diff needs a value, except for REMOVE", field="JSON diff", found=repr(obj))
        return {
            "operation": obj.operation,
            "path": obj.path,
            "value": obj.value.binary if obj.value is not None else None,
        }


class _Diffs(Adapter):  # type: ignore[misc]
    """All diffs of a column."""

    def _decode(self, obj: Iterable[JsonDiff], context: Container, path: str) -> JsonDiffs:
        return JsonDiffs(obj)

    def _encode(self, obj: JsonDiffs, context: Container, path: str) -> JsonDiffs:
        return obj


def diffs_layout(source: Construct) -> Construct:
    """Return the layout of a diff vector that fills the bytes of `source`."""
    return Whole(source, _Diffs(Many(_Diff(_DIFF))))


PARTIAL_VALUE: Final = SizedBytes(4, (1 << 32) - 1)
PARTIAL_JSON: Final = diffs_layout(PARTIAL_VALUE)
"""The layout of a JSON column that a partial update changes: u32 size, diffs."""
