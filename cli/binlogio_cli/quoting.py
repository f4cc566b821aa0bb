"""Quoting: escapes terminal control characters, and quotes SQL identifiers and literals."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

# C0 and C1 control characters, bidirectional controls, line and paragraph separators, surrogates (bytes that are not
# UTF-8).
_ACTS: Final = "\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff"
_UNSAFE: Final = f"[{_ACTS}]"
_UNSAFE_IN_LINES: Final = f"(?![\t\n])[{_ACTS}]"
_FIRST_ESCAPED_BYTE: Final = 0xDC80  # the byte 0x80 with `surrogateescape`
_HEXDUMP_WIDTH: Final = 16


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    if _FIRST_ESCAPED_BYTE <= code <= _FIRST_ESCAPED_BYTE + 0x7F:
        code -= 0xDC00
    return f"\\x{code:02x}" if code <= 0xFF else f"\\u{code:04x}"


def safe(text: str) -> str:
    """Return `text` on one line, with all terminal control characters escaped."""
    return text if text.isprintable() else re.sub(_UNSAFE, _escape, text)


def safe_lines(text: str) -> str:
    """Return `text` with terminal control characters escaped, except tabs and newlines."""
    return text if text.isprintable() else re.sub(_UNSAFE_IN_LINES, _escape, text.replace("\r\n", "\n"))


def json_text(value: Any, indent: int | None = None) -> str:
    """Return JSON text in which terminal control characters are escaped."""
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    return re.sub(_UNSAFE_IN_LINES, lambda match: f"\\u{ord(match[0]):04x}", text)


def identifier(name: str) -> str:
    """Return the name of a schema, table or column as an SQL identifier in backticks."""
    return f"`{safe(name.replace('`', '``'))}`"


def table_name(schema: str, table: str) -> str:
    """Return the qualified name of a table, `schema`.`table`."""
    return f"{identifier(schema)}.{identifier(table)}"


def string_literal(text: str) -> str:
    """Return `text` as an SQL literal with the same value in every sql_mode.

    Text with a backslash, which depends on sql_mode, or with a terminal control character becomes a hexadecimal
    literal with the text in a comment.
    """
    if "\\" not in text and safe(text) == text:
        return "'" + text.replace("'", "''") + "'"
    return f"_utf8mb4 {bytes_literal(text.encode('utf-8', 'surrogateescape'), text)}"


def bytes_literal(data: bytes, shown: str) -> str:
    """Return `data` as a hexadecimal literal, with its text in a comment."""
    return f"0x{data.hex()} /* {safe(shown).replace('*/', '* /')} */"


def hexdump(data: bytes, offset: int) -> Iterator[str]:
    """Yield lines of 16 bytes: offset, hexadecimal, printable ASCII."""
    for at in range(0, len(data), _HEXDUMP_WIDTH):
        row = data[at : at + _HEXDUMP_WIDTH]
        left, right = row[:8].hex(" "), row[8:].hex(" ")
        shown = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in row)
        yield f"# {offset + at:8x}  {left:<23}  {right:<23}  |{shown}|"
