"""MySQL's binary JSON: parsed to a tree, and built from one byte for byte as the server writes it.

The input of the parser is untrusted: offsets and lengths stay inside their container, depth is limited, and since
values do not overlap, all of them together are no longer than the document, so a small document cannot expand to a huge
tree.

    document := type: u8  value
    value    := object | array | literal: u8 (0 null, 1 true, 2 false) | i16 | u16 | i32 | u32 | i64 | u64 | double
              | string: varlen, UTF-8 | opaque: column type u8, varlen, bytes
    object   := count: uN  size: uN  (key_offset: uN  key_size: u16)*count  entry*count  key*count  value*
    array    := count: uN  size: uN  entry*count  value*
    entry    := type: u8  (offset: uN | the value itself, where it fits)
    uN       := u16 in small containers, u32 in large ones
    varlen   := 7 bits a byte, lowest first, high bit set where more follow

Offsets count from the container's start. Members of an object are sorted by the length of their names, then by bytes. A
container is small if it fits 64 KiB, independent of its parent.

Source: sql-common/json_binary.h, the comment at its head; sql-common/json_binary.cc, parse_value, serialize_json_value.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from binlogio.errors import BinlogFormatError
from binlogio.values.json.tree import MAX_DEPTH, JsonNode, JsonOpaque, JsonUnsigned

if TYPE_CHECKING:
    from collections.abc import Sequence

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
    """The document, and how many of its bytes are not yet part of a value."""

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
        """Return `size` bytes at `start`; no byte is part of two values."""
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
        """Return count, end and offset of the first entry; the head and all entries are complete."""
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

# ----------------------------------------------------------------------------------------------------------- building

MAX_SMALL: Final = 0xFFFF
MAX_LARGE: Final = 0xFFFFFFFF
MAX_KEY_BYTES: Final = 0xFFFF

_SIGNED: Final = ((15, INT16), (31, INT32), (63, INT64))
_UNSIGNED: Final = ((16, UINT16), (32, UINT32), (64, UINT64))


def build_json(node: JsonNode) -> bytes:
    """Return the document of a tree.

    Raises:
        BinlogFormatError: the server does not accept the tree: too deep, a number out of range, a key of over 64 KiB.
    """
    kind, value = _build(node, 0)
    return bytes([kind]) + value


def _build(node: JsonNode, depth: int) -> tuple[int, bytes]:
    """Type and bytes of a value."""
    if node is None or isinstance(node, bool):
        return LITERAL, bytes([LITERALS.index(node)])
    if isinstance(node, int):
        return _integer(node)
    if isinstance(node, float):
        if not math.isfinite(node):
            raise BinlogFormatError("JSON cannot hold infinity or NaN", field="JSON", found=repr(node))
        return DOUBLE, struct.pack("<d", node)
    if isinstance(node, str):
        data = _utf8(node)
        return STRING, varlen(len(data)) + data
    if isinstance(node, JsonOpaque):
        return OPAQUE, bytes([node.type_code]) + varlen(len(node.data)) + node.data
    if depth >= MAX_DEPTH:
        raise BinlogFormatError("JSON is nested too deeply", field="JSON", expected=f"up to {MAX_DEPTH}")
    if isinstance(node, dict):
        members = sorted(
            ((_key(name), value) for name, value in node.items()), key=lambda member: (len(member[0]), member[0])
        )
        keys, values = [key for key, _ in members], [_build(value, depth + 1) for _, value in members]
        return _smallest(values, keys, SMALL_OBJECT, LARGE_OBJECT)
    return _smallest([_build(value, depth + 1) for value in node], None, SMALL_ARRAY, LARGE_ARRAY)


def _integer(number: int) -> tuple[int, bytes]:
    unsigned = isinstance(number, JsonUnsigned)
    for bits, kind in _UNSIGNED if unsigned else _SIGNED:
        if (0 if unsigned else -(1 << bits)) <= number < 1 << bits:
            return kind, int(number).to_bytes(INTEGERS[kind][0], "little", signed=not unsigned)
    raise BinlogFormatError("integer out of range for JSON", field="JSON", found=repr(number))


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as exc:
        raise BinlogFormatError("JSON text is not valid Unicode", field="JSON", found=exc.reason) from exc


def _key(name: str) -> bytes:
    data = _utf8(name)
    if len(data) > MAX_KEY_BYTES:
        raise BinlogFormatError(
            "a JSON key is too long", field="JSON", expected=f"up to {MAX_KEY_BYTES} bytes", found=len(data)
        )
    return data


def varlen(size: int) -> bytes:
    """Return `size` with 7 bits a byte, lowest first."""
    data = bytearray()
    while size > 0x7F:
        data.append(size & 0x7F | 0x80)
        size >>= 7
    data.append(size)
    return bytes(data)


def _smallest(
    values: Sequence[tuple[int, bytes]], keys: list[bytes] | None, small: int, large: int
) -> tuple[int, bytes]:
    size = _size(values, keys, 2)
    if size <= MAX_SMALL:
        return small, _container(values, keys, 2, size)
    size = _size(values, keys, 4)
    if size > MAX_LARGE:  # pragma: no cover - takes 4 GiB
        raise BinlogFormatError("JSON is too large", field="JSON", expected=f"up to {MAX_LARGE} bytes", found=size)
    return large, _container(values, keys, 4, size)


def _inlined(kind: int, width: int) -> bool:
    return kind == LITERAL or (kind in INTEGERS and INTEGERS[kind][0] <= width)


def _size(values: Sequence[tuple[int, bytes]], keys: list[bytes] | None, width: int) -> int:
    """Bytes of the container; keys None for an array."""
    names = sum(width + 2 + len(key) for key in keys) if keys is not None else 0
    rest = sum(len(data) for kind, data in values if not _inlined(kind, width))
    return 2 * width + names + (1 + width) * len(values) + rest


def _container(values: Sequence[tuple[int, bytes]], keys: list[bytes] | None, width: int, size: int) -> bytes:
    out = [len(values).to_bytes(width, "little"), size.to_bytes(width, "little")]
    offset = 2 * width + (1 + width) * len(values) + ((width + 2) * len(keys) if keys is not None else 0)
    for key in keys or ():
        out += (offset.to_bytes(width, "little"), len(key).to_bytes(2, "little"))
        offset += len(key)
    contents = list(keys or ())
    for kind, data in values:
        if _inlined(kind, width):
            out += (bytes([kind]), _extended(kind, data, width))
        else:
            out += (bytes([kind]), offset.to_bytes(width, "little"))
            contents.append(data)
            offset += len(data)
    return b"".join((*out, *contents))


def _extended(kind: int, data: bytes, width: int) -> bytes:
    """Return an inlined value in all the bytes of its entry, sign kept."""
    filler = b"\xff" if kind in INTEGERS and INTEGERS[kind][1] and data[-1] & 0x80 else b"\0"
    return data.ljust(width, filler)
