"""MariaDB's UUID, INET4 and INET6: conversion between bytes and the server's text.

A table map has BINARY for these types. The bytes of a UUID in the log are in the order of its text, whatever their
order in the table is. Arrow: string.

Source: MariaDB: plugin/type_inet/sql_type_inet.cc, Inet6::to_string; plugin/type_uuid/sql_type_uuid.h.
"""

from __future__ import annotations

import ipaddress
import uuid
from collections.abc import Callable
from typing import Final

from binlogio.errors import BinlogFormatError

NATIVE_TYPES: Final = {"uuid": 16, "inet6": 16, "inet4": 4}
"""MariaDB's types for which a table map has BINARY, and their sizes in bytes."""


def _uuid_text(data: bytes) -> str:
    return str(uuid.UUID(bytes=data))


def _inet4_text(data: bytes) -> str:
    return str(ipaddress.IPv4Address(data))


def _inet6_text(data: bytes) -> str:
    """Return the text of an IPv6 address.

    The longest run of zero words (the first of several; a single word, too) is written as `::`. An embedded IPv4
    address is written in dotted form.
    """
    if len(data) != 16:
        raise ValueError(f"{len(data)} bytes are not an IPv6 address")
    words = [int.from_bytes(data[at : at + 2], "big") for at in range(0, 16, 2)]
    runs = [_zeros(words, at) for at in range(8)]
    length = max(runs)
    at = runs.index(length)
    if at == 0 and (length == 6 or (length == 5 and words[5] == 0xFFFF)):
        return f"::{'ffff:' if length == 5 else ''}{_inet4_text(data[12:])}"
    if length == 0:
        return ":".join(f"{word:x}" for word in words)
    return "::".join(":".join(f"{word:x}" for word in part) for part in (words[:at], words[at + length :]))


def _zeros(words: list[int], at: int) -> int:
    """Return the number of consecutive zero words from index `at` on."""
    return next((i for i, word in enumerate(words[at:]) if word), len(words) - at)


def _inet_bytes(text: str) -> bytes:
    return ipaddress.ip_address(text).packed


TEXTS: Final[dict[str, Callable[[bytes], str]]] = {"uuid": _uuid_text, "inet4": _inet4_text, "inet6": _inet6_text}
BYTES: Final[dict[str, Callable[[str], bytes]]] = {
    "uuid": lambda text: uuid.UUID(text).bytes,
    "inet4": _inet_bytes,
    "inet6": _inet_bytes,
}


def decode_native(data: bytes, native: str) -> str:
    """Return the text of a value of type `native`; `data` has the size of the type.

    Raises:
        ValueError: `data` has another size.
    """
    return TEXTS[native](data)


def encode_native(value: object, native: str, size: int) -> bytes:
    """Return the `size` bytes of a value of type `native`, which is given as text or as these bytes.

    Raises:
        BinlogFormatError: the value is not of this type.
    """
    try:
        data = BYTES[native](value) if isinstance(value, str) else bytes(value)  # type: ignore[call-overload]
    except (ValueError, TypeError) as exc:
        raise BinlogFormatError(f"not a value of type {native}", found=repr(value)) from exc
    if len(data) != size:
        raise BinlogFormatError(f"not a value of type {native}", expected=f"{size} bytes", found=repr(value))
    return bytes(data)
