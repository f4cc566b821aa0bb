"""Collation ids to character sets, and text between bytes and str in each of them.

Follows the servers: utf16, utf32 and ucs2 are big-endian, latin1 is cp1252 with its five holes
filled, euckr is cp949. The caller keeps bytes that cannot be decoded as bytes.

A few sets have two codes for one character (armscii8, sjis, ujis, cp932, eucjpms): both read alike, and the text is
written with the code that the server itself prefers.

Source: strings/ctype-*.cc; measured on MySQL 9.7 and MariaDB 10.11, see `charset_tables`.
"""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final

from binlogio.values.charset_tables import (
    BIG5_PATCHES,
    COLLATION_IDS,
    EUCJPMS_IBM,
    PATCHES,
    UPPER_HALVES,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

BINARY_COLLATION: Final = 63
NO_CHARACTER: Final = "\ufffe"

PYTHON_CODECS: Final = {
    "ascii": "ascii",
    "cp1250": "cp1250",
    "cp1251": "cp1251",
    "cp1257": "cp1257",
    "cp850": "cp850",
    "cp852": "cp852",
    "euckr": "cp949",
    "gb2312": "gb2312",
    "gbk": "gbk",
    "hp8": "hp_roman8",
    "koi8r": "koi8_r",
    "latin2": "iso8859_2",
    "latin5": "iso8859_9",
    "latin7": "iso8859_13",
    "macce": "mac_latin2",
    "macroman": "mac_roman",
    "tis620": "tis_620",
    "ucs2": "utf_16_be",
    "utf16": "utf_16_be",
    "utf16le": "utf_16_le",
    "utf32": "utf_32_be",
    "utf8mb3": "utf_8",
    "utf8mb4": "utf_8",
}
"""Sets for which a codec of Python agrees with the servers on every character."""

MULTI_BYTE: Final = frozenset(
    {
        "big5",
        "cp932",
        "eucjpms",
        "euckr",
        "gb18030",
        "gb2312",
        "gbk",
        "sjis",
        "ucs2",
        "ujis",
        "utf16",
        "utf16le",
        "utf32",
    }
)
"""Sets in which a character may take more than one byte, UTF-8 apart."""

UTF8: Final = frozenset({"utf8mb3", "utf8mb4"})


@dataclass(frozen=True, slots=True)
class Charset:
    """A character set: `decode` raises UnicodeDecodeError, `encode` UnicodeEncodeError, neither anything else."""

    name: str
    decode: Callable[[bytes], str]
    encode: Callable[[str], bytes]


def _ids() -> Iterator[tuple[int, str]]:
    for name, ranges in COLLATION_IDS.items():
        for part in ranges.split():
            first, _, last = part.partition("-")
            yield from ((collation_id, name) for collation_id in range(int(first), int(last or first) + 1))


CHARSET_NAMES: Final[dict[int, str]] = dict(_ids())
"""Collation id -> character set, for all of MySQL 9.7 and MariaDB 10.11 (no id differs)."""


def charset_of(collation_id: int | None) -> Charset | None:
    """Return the character set of a collation.

    None for `binary`, for no collation, and for an id that no server has.
    """
    name = CHARSET_NAMES.get(collation_id) if collation_id is not None else None
    return None if name is None or name == "binary" else charset_named(name)


@cache
def charset_named(name: str) -> Charset:
    """Return the character set of that name (the server's spelling).

    Raises:
        KeyError: no server has it.
    """
    if name in PYTHON_CODECS:
        return _from_codec(name, PYTHON_CODECS[name])
    if name in UPPER_HALVES:
        return _from_map(name, "".join(map(chr, range(128))) + UPPER_HALVES[name])
    if name in PATCHES:
        codec, patches = PATCHES[name]
        return _from_map(name, "".join(patches.get(byte) or _character(byte, codec) for byte in range(256)))
    return _MULTI_BYTE[name]()


def _from_codec(name: str, codec: str) -> Charset:
    info = codecs.lookup(codec)
    return Charset(name, lambda data: info.decode(data)[0], lambda text: info.encode(text)[0])


def _character(byte: int, codec: str) -> str:
    try:
        return bytes([byte]).decode(codec)
    except UnicodeDecodeError:
        return NO_CHARACTER


def _from_map(name: str, characters: str) -> Charset:
    codes: dict[int, int] = {}
    for byte, character in enumerate(characters):
        if character != NO_CHARACTER:
            codes.setdefault(ord(character), byte)  # of two codes the server prefers the ASCII one

    def decode(data: bytes) -> str:
        return codecs.charmap_decode(data, "strict", characters)[0]

    def encode(text: str) -> bytes:
        return codecs.charmap_encode(text, "strict", codes)[0]

    return Charset(name, decode, encode)


def _from_table(name: str, table: dict[bytes, str]) -> Charset:
    """Return a multi-byte set from the full list of its characters of more than one byte.

    Single bytes below 0x80 are ASCII.
    """
    codes = {chr(byte): bytes([byte]) for byte in range(128)}
    for code, character in table.items():
        codes.setdefault(character, code)
    widths = {code[0]: len(code) for code in table}

    def characters(data: bytes) -> Iterator[str]:
        at = 0
        while at < len(data):
            width = widths.get(data[at], 1)
            code = data[at : at + width]
            character = chr(code[0]) if width == 1 and code[0] < 128 else table.get(code)
            if character is None:
                raise UnicodeDecodeError(name, data, at, min(at + width, len(data)), "no character")
            yield character
            at += width

    def decode(data: bytes) -> str:
        return data.decode("ascii") if data.isascii() else "".join(characters(data))

    def encode(text: str) -> bytes:
        try:
            return text.encode("ascii") if text.isascii() else b"".join(codes[character] for character in text)
        except KeyError as exc:
            at = text.index(exc.args[0])
            raise UnicodeEncodeError(name, text, at, at + 1, "no such character") from exc

    return Charset(name, decode, encode)


def _codec_table(codec: str, codes: Iterator[bytes]) -> dict[bytes, str]:
    table = {}
    for code in codes:
        try:
            character = code.decode(codec)
        except UnicodeDecodeError:
            continue
        if len(character) == 1:
            table[code] = character
    return table


def _pairs(leads: Iterable[int], trails: range) -> Iterator[bytes]:
    return (bytes([lead, trail]) for lead in leads for trail in trails)


def _big5() -> Charset:
    standard = _codec_table("big5", _pairs(range(0xA1, 0xFA), range(0x40, 0xFF)))
    patched = {**standard, **BIG5_PATCHES}
    return _from_table("big5", {code: character for code, character in patched.items() if character is not None})


def _sjis() -> Charset:
    table = _codec_table("shift_jis", (bytes([byte]) for byte in range(0xA1, 0xE0)))
    table.update(_codec_table("shift_jis", _pairs(range(0x81, 0xFD), range(0x40, 0xFD))))
    return _from_table("sjis", {**table, b"\x81\x5f": "\\"})


def _cp932() -> Charset:
    """Python's cp932, but of IBM's extensions the server writes IBM's own codes, not NEC's (leads 0xed and 0xee)."""
    table = _codec_table("cp932", (bytes([byte]) for byte in range(0x80, 0x100)))
    leads = [lead for lead in range(0x81, 0xFD) if lead not in (0xED, 0xEE)]
    table.update(_codec_table("cp932", _pairs(leads, range(0x40, 0xFD))))
    table.update(_codec_table("cp932", _pairs((0xED, 0xEE), range(0x40, 0xFD))))
    return _from_table("cp932", table)


def _gb18030() -> Charset:
    """Python has the first edition of the standard, the server the second, which swapped these two."""
    swap = {0x1E3F: 0xE7C7, 0xE7C7: 0x1E3F} if b"\xa8\xbc".decode("gb18030") == "\ue7c7" else {}
    info = codecs.lookup("gb18030")
    return Charset(
        "gb18030",
        lambda data: info.decode(data)[0].translate(swap),
        lambda text: info.encode(text.translate(swap))[0],
    )


_EUC: Final = range(0xA1, 0xFF)


def _private_use() -> dict[bytes, str]:
    """Rows 85 to 94 of both planes, which the servers give to U+E000 and on."""
    codes = [prefix + code for prefix in (b"", b"\x8f") for code in _pairs(range(0xF5, 0xFF), _EUC)]
    return {code: chr(0xE000 + index) for index, code in enumerate(codes)}


def _euc_single_shifted() -> dict[bytes, str]:
    """Half-width katakana after 0x8e, and JIS X 0212 after 0x8f."""
    table = _codec_table("euc_jp", _pairs(range(0x8E, 0x8F), _EUC))
    table.update(_codec_table("euc_jp", (b"\x8f" + code for code in _pairs(_EUC, _EUC))))
    return table


def _ujis() -> Charset:
    table = {**_euc_single_shifted(), **_codec_table("euc_jp", _pairs(_EUC, _EUC)), **_private_use()}
    return _from_table("ujis", {**table, b"\xa1\xc0": "\\"})


def _eucjpms() -> Charset:
    """As ujis, but JIS X 0208 is read as Windows does, NEC's row 13 and IBM's extensions included."""
    windows = _codec_table("cp932", (_shifted(code) for code in _pairs(range(0xA1, 0xF5), _EUC)))
    main_plane = {code: windows.get(_shifted(code)) for code in _pairs(range(0xA1, 0xF5), _EUC)}
    table = {code: character for code, character in main_plane.items() if character is not None}
    table.update(_euc_single_shifted())
    table.update({b"\x8f\xa2\xb7": "\uff5e", b"\x8f\xa2\xc3": "\uffe4"})
    ibm = [b"\x8f" + code for code in _pairs(range(0xF3, 0xF5), _EUC)][-len(EUCJPMS_IBM) :]
    table.update(zip(ibm, EUCJPMS_IBM, strict=True))
    return _from_table("eucjpms", {**table, **_private_use()})


def _shifted(code: bytes) -> bytes:
    """Return a code of EUC's main plane as Shift JIS has it."""
    row, cell = code[0] - 0xA0, code[1] - 0xA0
    lead = (row + 1) // 2 + (0x80 if row <= 62 else 0xC0)
    trail = cell + 0x9E if row % 2 == 0 else cell + (0x3F if cell < 64 else 0x40)
    return bytes([lead, trail])


_MULTI_BYTE: Final[dict[str, Callable[[], Charset]]] = {
    "big5": _big5,
    "cp932": _cp932,
    "sjis": _sjis,
    "gb18030": _gb18030,
    "ujis": _ujis,
    "eucjpms": _eucjpms,
}
