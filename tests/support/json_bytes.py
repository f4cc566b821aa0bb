"""Generated binary JSON, and the comparison of the kernel's JSON text with `JsonDocument`."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Final

from binlogio._kernel.json_documents import json_expression, json_text
from binlogio.errors import BinlogError
from binlogio.replay.targets.mysql.values import json_value, text_literal
from binlogio.values.json import JsonDocument

SMALL_OBJECT, LARGE_OBJECT, SMALL_ARRAY, LARGE_ARRAY, LITERAL, INT16 = range(6)
UINT16, INT32, UINT32, INT64, UINT64, DOUBLE, STRING, OPAQUE = 6, 7, 8, 9, 10, 11, 12, 15
WIDTHS: Final = {SMALL_OBJECT: 2, SMALL_ARRAY: 2, LARGE_OBJECT: 4, LARGE_ARRAY: 4}
Value = tuple[int, bytes]


def oracle(binary: bytes) -> bytes | None:
    """Return the JSON text from the reference implementation; None if the bytes are invalid."""
    try:
        return JsonDocument(binary).text.encode()
    except BinlogError:
        return None


def expression_of(binary: bytes) -> bytes | None:
    """Return the SQL expression from the reference implementation; None if the bytes are invalid."""
    try:
        return json_value(JsonDocument(binary), text_literal).encode()
    except BinlogError:
        return None


def check(binary: bytes) -> None:
    """Compare the kernel with the reference implementation."""
    expected = oracle(binary)

    assert json_text(binary) == expected, binary.hex()

    expression = json_expression(binary)

    assert expression is None or expression == expression_of(binary), binary.hex()


def varlen(size: int) -> bytes:
    """Return a variable-length size of up to two bytes."""
    return bytes([size]) if size < 0x80 else bytes([size & 0x7F | 0x80, size >> 7])


def opaque(type_code: int, data: bytes) -> bytes:
    """Return a document with one opaque SQL value."""
    return bytes([OPAQUE, type_code]) + varlen(len(data)) + data


def container(kind: int, values: list[Value], names: list[bytes] | None = None) -> Value:
    """Return an array or object; values that do not fit in their entries follow the entries in the given order."""
    width = WIDTHS[kind]
    at = 2 * width + (1 + width) * len(values) + (width + 2) * len(names or ())
    keys, entries, after = b"", b"", b""
    for name in names or ():
        keys += at.to_bytes(width, "little") + len(name).to_bytes(2, "little")
        after += name
        at += len(name)
    for value_kind, data in values:
        inlined = LITERAL <= value_kind <= UINT64 and len(data) <= width
        entries += bytes([value_kind]) + (data.ljust(width, b"\0") if inlined else at.to_bytes(width, "little"))
        after += b"" if inlined else data
        at += 0 if inlined else len(data)
    return kind, len(values).to_bytes(width, "little") + at.to_bytes(width, "little") + keys + entries + after


def document(value: Value) -> bytes:
    """Return the bytes of a value as a complete document."""
    return bytes([value[0]]) + value[1]


RICH: Final = JsonDocument.from_python(
    {
        "": None,
        "a": [True, False, -1, 40_000, -(1 << 31), (1 << 32) - 1, -(1 << 63), (1 << 64) - 1],
        "b": {"x": 1.5, "yy": 'Grüße\n"\\', "y\x01": []},
        "c": [
            Decimal("-12.340"),
            datetime(2024, 2, 29, 23, 59, 58, 7),
            date(1, 1, 1),
            timedelta(hours=-838, microseconds=5),
        ],
        "d": [b"\0\1\2" * 30, {}, "x" * 130, 1e300],
    }
).binary
