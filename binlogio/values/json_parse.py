"""Decoder from MySQL's binary JSON to a tree.

The input is untrusted: offsets and lengths stay inside their container, depth is limited, and since values do not
overlap, all of them together are no longer than the document, so a small document cannot expand to a huge tree.

    document := type: u8  value
    value    := object | array | literal: u8 (0 null, 1 true, 2 false) | i16 | u16 | i32 | u32 | i64 | u64 | double
              | string: varlen, UTF-8 | opaque: column type u8, varlen, bytes
    object   := count: uN  size: uN  (key_offset: uN  key_size: u16)*count  entry*count  key*count  value*
    array    := count: uN  size: uN  entry*count  value*
    entry    := type: u8  (offset: uN | the value itself, where it fits)          uN: u16 in small containers, u32 in large ones
    varlen   := 7 bits a byte, lowest first, high bit set where more follow                  offsets count from the container's start

Source: sql-common/json_binary.h, the comment at its head; sql-common/json_binary.cc, parse_value.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Final

from binlogio.errors import BinlogFormatError
from binlogio.values.json_tree import MAX_DEPTH, JsonNode, JsonOpaque, JsonUnsigned

SMALL_OBJECT: Final = 0x00
LARGE_OBJECT: Final = 0x01
SMALL_ARRAY: Final = 0x02
LARGE_ARRAY: Final = 0x03
LITERAL: Final = 0x04
INT16: Final = 0x05
UINT16: Final = 0x06
INT32: Final = 0x07
UINT32: Final = 0x08
INT64: Final = 0x09
UINT64: Final = 0x0A
DOUBLE: Final = 0x0B
STRING: Final = 0x0C
OPAQUE: Final = 0x0F

LITERALS: Final = (None, True, False)
INTEGERS: Final = {
    INT16: (2, True),
    UINT16: (2, False),
    INT32: (4, True),
    UINT32: (4, False),
    INT64: (8, True),
    UINT64: (8, False),
}
"""Type -> bytes, signed."""

MAX_VARLEN_BYTES: Final = 5


def parse_json(binary: bytes) -> JsonNode:
    """Return the tree of a document; no bytes at all are the document null, as in a row that was added without a value.

    Raises:
        BinlogFormatError: the bytes are no document, or deeper than the server allows.
    """
    if not binary:
        return None
    return _Parser(binary).value(binary[0], 1, len(binary), 0)


class _Parser:
    """The document, and how many bytes of it are not yet spoken for."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._left = len(data)

    def value(self, kind: int, start: int, end: int, depth: int) -> JsonNode:
        """Return the value of type `kind` at `start`, which ends before `end`."""
        parse = _VALUES.get(kind)
        if parse is None:
            raise BinlogFormatError("unknown JSON value type", field="JSON", found=f"0x{kind:02x} at {start - 1}")
        return parse(self, kind, start, end, depth)

    def take(self, start: int, size: int, end: int) -> bytes:
        """`size` bytes at `start`, each of which may be asked for once."""
        if start + size > end:
            raise BinlogFormatError(
                "a JSON value extends beyond its container", field="JSON", expected=end, found=start + size
            )
        self._left -= size
        if self._left < 0:
            raise BinlogFormatError("JSON values overlap", field="JSON", found=f"a value at {start}")
        return self._data[start : start + size]

    def integer(self, kind: int, start: int, end: int, depth: int) -> int:
        size, signed = INTEGERS[kind]
        number = int.from_bytes(self.take(start, size, end), "little", signed=signed)
        return number if signed else JsonUnsigned(number)

    def literal(self, kind: int, start: int, end: int, depth: int) -> JsonNode:
        number = self.take(start, 1, end)[0]
        if number >= len(LITERALS):
            raise BinlogFormatError("unknown JSON literal", field="JSON", expected="0 to 2", found=number)
        return LITERALS[number]

    def double(self, kind: int, start: int, end: int, depth: int) -> float:
        number: float = struct.unpack("<d", self.take(start, 8, end))[0]
        if not math.isfinite(number):
            raise BinlogFormatError("a JSON double is infinite or NaN", field="JSON", found=f"{number} at {start}")
        return number

    def string(self, kind: int, start: int, end: int, depth: int) -> str:
        size, start = self.varlen(start, end)
        return self.text(start, size, end)

    def opaque(self, kind: int, start: int, end: int, depth: int) -> JsonOpaque:
        type_code = self.take(start, 1, end)[0]
        size, start = self.varlen(start + 1, end)
        return JsonOpaque(type_code, self.take(start, size, end))

    def text(self, start: int, size: int, end: int) -> str:
        try:
            return self.take(start, size, end).decode()
        except UnicodeDecodeError as exc:
            raise BinlogFormatError(
                "JSON text is not valid UTF-8", field="JSON", found=f"at {start}: {exc.reason}"
            ) from exc

    def varlen(self, start: int, end: int) -> tuple[int, int]:
        """Return a length, and the offset after it."""
        size = 0
        for index in range(MAX_VARLEN_BYTES):
            byte = self.take(start + index, 1, end)[0]
            size |= (byte & 0x7F) << 7 * index
            if not byte & 0x80:
                return size, start + index + 1
        raise BinlogFormatError("a JSON length is longer than five bytes", field="JSON", found=f"at {start}")

    def object(self, kind: int, start: int, end: int, depth: int) -> JsonNode:
        width = 4 if kind == LARGE_OBJECT else 2
        count, end, at = self._container(start, end, width, depth, entry_size=width + 2 + 1 + width)
        names = []
        for _ in range(count):
            offset = self._uint(at, width)
            size = self._uint(at + width, 2)
            names.append(self.text(start + offset, size, end))
            at += width + 2
        return {name: self._entry(at + i * (1 + width), start, end, width, depth) for i, name in enumerate(names)}

    def array(self, kind: int, start: int, end: int, depth: int) -> JsonNode:
        width = 4 if kind == LARGE_ARRAY else 2
        count, end, at = self._container(start, end, width, depth, entry_size=1 + width)
        return [self._entry(at + i * (1 + width), start, end, width, depth) for i in range(count)]

    def _uint(self, start: int, width: int) -> int:
        return int.from_bytes(self._data[start : start + width], "little")

    def _container(self, start: int, end: int, width: int, depth: int, entry_size: int) -> tuple[int, int, int]:
        """Count, end and offset of the first entry; the head and all entries are then known to be there."""
        if depth >= MAX_DEPTH:
            raise BinlogFormatError("JSON is nested too deeply", field="JSON", expected=f"up to {MAX_DEPTH}")
        self.take(start, 2 * width, end)
        count, size = self._uint(start, width), self._uint(start + width, width)
        if start + size > end:
            raise BinlogFormatError(
                "a JSON container extends beyond its parent", field="JSON", expected=end, found=start + size
            )
        self.take(start + 2 * width, count * entry_size, start + size)
        return count, start + size, start + 2 * width

    def _entry(self, at: int, start: int, end: int, width: int, depth: int) -> JsonNode:
        kind = self._data[at]
        if kind == LITERAL or (kind in INTEGERS and INTEGERS[kind][0] <= width):
            self._left += 1 if kind == LITERAL else INTEGERS[kind][0]  # part of the entry, which is counted
            return self.value(kind, at + 1, at + 1 + width, depth)
        return self.value(kind, start + self._uint(at + 1, width), end, depth + 1)


_VALUES: Final[dict[int, Callable[[_Parser, int, int, int, int], JsonNode]]] = {
    SMALL_OBJECT: _Parser.object,
    LARGE_OBJECT: _Parser.object,
    SMALL_ARRAY: _Parser.array,
    LARGE_ARRAY: _Parser.array,
    LITERAL: _Parser.literal,
    **dict.fromkeys(INTEGERS, _Parser.integer),
    DOUBLE: _Parser.double,
    STRING: _Parser.string,
    OPAQUE: _Parser.opaque,
}
