"""Encoder from a JSON tree to MySQL's binary JSON, byte for byte as the server writes it.

The grammar is in `json_parse`. Members of an object are sorted by the length of their names, then
by bytes. A container is small where it fits 64 KiB, whatever its parent is.

Source: sql-common/json_binary.cc, serialize_json_value.
"""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING, Final

from binlogio.errors import BinlogFormatError
from binlogio.values.json_parse import (
    DOUBLE,
    INT16,
    INT32,
    INT64,
    INTEGERS,
    LARGE_ARRAY,
    LARGE_OBJECT,
    LITERAL,
    LITERALS,
    OPAQUE,
    SMALL_ARRAY,
    SMALL_OBJECT,
    STRING,
    UINT16,
    UINT32,
    UINT64,
)
from binlogio.values.json_tree import MAX_DEPTH, JsonNode, JsonOpaque, JsonUnsigned

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_SMALL: Final = 0xFFFF
MAX_LARGE: Final = 0xFFFFFFFF
MAX_KEY_BYTES: Final = 0xFFFF

_SIGNED: Final = ((15, INT16), (31, INT32), (63, INT64))
_UNSIGNED: Final = ((16, UINT16), (32, UINT32), (64, UINT64))


def build_json(node: JsonNode) -> bytes:
    """Return the document of a tree.

    Raises:
        BinlogFormatError: the tree is no JSON for the server: too deep, a number out of range, a key of over 64 KiB.
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
    """`size` with 7 bits a byte, lowest first."""
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
    behind = list(keys or ())
    for kind, data in values:
        if _inlined(kind, width):
            out += (bytes([kind]), _extended(kind, data, width))
        else:
            out += (bytes([kind]), offset.to_bytes(width, "little"))
            behind.append(data)
            offset += len(data)
    return b"".join((*out, *behind))


def _extended(kind: int, data: bytes, width: int) -> bytes:
    """Return an inlined value in all the bytes of its entry, sign kept."""
    filler = b"\xff" if kind in INTEGERS and INTEGERS[kind][1] and data[-1] & 0x80 else b"\0"
    return data.ljust(width, filler)
