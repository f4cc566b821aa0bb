"""Character sets: maps collation ids to character sets, and decodes and encodes text in each character set.

As in the servers, utf16, utf32 and ucs2 are big-endian, latin1 is cp1252 with its five undefined bytes defined, and
euckr is cp949. The caller keeps bytes that cannot be decoded as bytes.

Some character sets have two codes for one character (armscii8, sjis, ujis, cp932, eucjpms). Both are decoded to the
same character, which is encoded with the code that the server prefers.

The tables contain the collation ids, and the maps that Python lacks or defines differently. They were read from MySQL
9.7.4 and MariaDB 10.11.18: the ids from INFORMATION_SCHEMA.COLLATIONS and COLLATION_CHARACTER_SET_APPLICABILITY (no id
has two meanings in the two servers), the maps from CONVERT(_charset x'..' USING utf32) of every byte (the same in both
servers). U+FFFE in a map marks a byte that is not a character; the server returns U+FFFD for it.

Source: strings/ctype-*.cc.
"""

from __future__ import annotations

import codecs
from functools import cache
from typing import TYPE_CHECKING, Final

from binlogio.errors import BinlogFormatError, Hint
from binlogio.frozen import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

COLLATION_IDS: Final[dict[str, str]] = {
    "armscii8": "32 64 1056 1088",
    "ascii": "11 65 1035 1089",
    "big5": "1 84 1025 1108",
    "binary": "63",
    "cp1250": "26 34 44 66 99 1050 1090",
    "cp1251": "14 23 50-52 1074-1075",
    "cp1256": "57 67 1081 1091",
    "cp1257": "29 58-59 1082-1083",
    "cp850": "4 80 1028 1104",
    "cp852": "40 81 1064 1105",
    "cp866": "36 68 1060 1092",
    "cp932": "95-96 1119-1120",
    "dec8": "3 69 1027 1093",
    "eucjpms": "97-98 1121-1122",
    "euckr": "19 85 1043 1109",
    "gb18030": "248-250",
    "gb2312": "24 86 1048 1110",
    "gbk": "28 87 1052 1111",
    "geostd8": "92-93 1116-1117",
    "greek": "25 70 1049 1094",
    "hebrew": "16 71 1040 1095",
    "hp8": "6 72 1030 1096",
    "keybcs2": "37 73 1061 1097",
    "koi8r": "7 74 1031 1098",
    "koi8u": "22 75 1046 1099",
    "latin1": "5 8 15 31 47-49 94 1032 1071",
    "latin2": "2 9 21 27 77 1033 1101",
    "latin5": "30 78 1054 1102",
    "latin7": "20 41-42 79 1065 1103",
    "macce": "38 43 1062 1067",
    "macroman": "39 53 1063 1077",
    "sjis": "13 88 1037 1112",
    "swe7": "10 82 1034 1106",
    "tis620": "18 89 1042 1113",
    "ucs2": "35 90 128-151 159 640-642 1059 1114 1152 1174 2560-2727 2744-2759",
    "ujis": "12 91 1036 1115",
    "utf16": "54-55 101-124 672-674 1078-1079 1125 1147 2816-2983 3000-3015",
    "utf16le": "56 62 1080 1086",
    "utf32": "60-61 160-183 736-738 1084-1085 1184 1206 3072-3239 3256-3271",
    "utf8mb3": "33 76 83 192-215 223 576-579 1057 1107 1216 1238 2048-2215 2232-2247",
    "utf8mb4": (
        "45-46 224-247 255-271 273-275 277-294 296-298 300 303-323 608-611 1069-1070 1248 1270 2304-2471 2488-2503"
    ),
}
"""The collation ids of each character set, as ranges."""

UPPER_HALVES: Final[dict[str, str]] = {
    "armscii8": (
        "\x80\x81\x82\x83\x84\x85\x86\x87\x88\x89\x8a\x8b\x8c\x8d\x8e\x8f\x90\x91\x92\x93\x94\x95\x96\x97\x98"
        "\x99\x9a\x9b\x9c\x9d\x9e\x9f\xa0\u2741\xa7\u0589)(\xbb\xab\u2014.\u055d,-\u055f\u2026\u055c\u055b"
        "\u055e\u0531\u0561\u0532\u0562\u0533\u0563\u0534\u0564\u0535\u0565\u0536\u0566\u0537\u0567\u0538"
        "\u0568\u0539\u0569\u053a\u056a\u053b\u056b\u053c\u056c\u053d\u056d\u053e\u056e\u053f\u056f\u0540"
        "\u0570\u0541\u0571\u0542\u0572\u0543\u0573\u0544\u0574\u0545\u0575\u0546\u0576\u0547\u0577\u0548"
        "\u0578\u0549\u0579\u054a\u057a\u054b\u057b\u054c\u057c\u054d\u057d\u054e\u057e\u054f\u057f\u0550"
        "\u0580\u0551\u0581\u0552\u0582\u0553\u0583\u0554\u0584\u0555\u0585\u0556\u0586\u2019'"
    ),
    "dec8": (
        "\x80\x81\x82\x83\x84\x85\x86\x87\x88\x89\x8a\x8b\x8c\x8d\x8e\x8f\x90\x91\x92\x93\x94\x95\x96\x97\x98"
        "\x99\x9a\x9b\x9c\x9d\x9e\x9f\xa0\xa1\xa2\xa3\ufffe\xa5\ufffe\xa7\xa4\xa9\xaa\xab\ufffe\ufffe\ufffe"
        "\ufffe\xb0\xb1\xb2\xb3\ufffe\xb5\xb6\xb7\ufffe\xb9\xba\xbb\xbc\xbd\ufffe\xbf\xc0\xc1\xc2\xc3\xc4\xc5"
        "\xc6\xc7\xc8\xc9\xca\xcb\xcc\xcd\xce\xcf\ufffe\xd1\xd2\xd3\xd4\xd5\xd6\u0152\xd8\xd9\xda\xdb\xdc"
        "\u0178\ufffe\xdf\xe0\xe1\xe2\xe3\xe4\xe5\xe6\xe7\xe8\xe9\xea\xeb\xec\xed\xee\xef\ufffe\xf1\xf2\xf3"
        "\xf4\xf5\xf6\u0153\xf8\xf9\xfa\xfb\xfc\xff\ufffe\ufffe"
    ),
    "geostd8": (
        "\u20ac\ufffe\u201a\ufffe\u201e\u2026\u2020\u2021\ufffe\u2030\ufffe\u2039\ufffe\ufffe\ufffe\ufffe"
        "\ufffe\u2018\u2019\u201c\u201d\u2022\u2013\u2014\ufffe\ufffe\ufffe\u203a\ufffe\ufffe\ufffe\ufffe\xa0"
        "\xa1\xa2\xa3\xa4\xa5\xa6\xa7\xa8\xa9\xaa\xab\xac\xad\xae\xaf\xb0\xb1\xb2\xb3\xb4\xb5\xb6\xb7\xb8\xb9"
        "\xba\xbb\xbc\xbd\xbe\xbf\u10d0\u10d1\u10d2\u10d3\u10d4\u10d5\u10d6\u10f1\u10d7\u10d8\u10d9\u10da"
        "\u10db\u10dc\u10f2\u10dd\u10de\u10df\u10e0\u10e1\u10e2\u10f3\u10e3\u10e4\u10e5\u10e6\u10e7\u10e8"
        "\u10e9\u10ea\u10eb\u10ec\u10ed\u10ee\u10f4\u10ef\u10f0\u10f5\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe"
        "\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe\ufffe"
        "\ufffe\u2116\ufffe\ufffe"
    ),
    "keybcs2": (
        "\u010c\xfc\xe9\u010f\xe4\u010e\u0164\u010d\u011b\u011a\u0139\xcd\u013e\u013a\xc4\xc1\xc9\u017e\u017d"
        "\xf4\xf6\xd3\u016f\xda\xfd\xd6\xdc\u0160\u013d\xdd\u0158\u0165\xe1\xed\xf3\xfa\u0148\u0147\u016e\xd4"
        "\u0161\u0159\u0155\u0154\xbc\xa1\xab\xbb\u2591\u2592\u2593\u2502\u2524\u2561\u2562\u2556\u2555\u2563"
        "\u2551\u2557\u255d\u255c\u255b\u2510\u2514\u2534\u252c\u251c\u2500\u253c\u255e\u255f\u255a\u2554"
        "\u2569\u2566\u2560\u2550\u256c\u2567\u2568\u2564\u2565\u2559\u2558\u2552\u2553\u256b\u256a\u2518"
        "\u250c\u2588\u2584\u258c\u2590\u2580\u03b1\xdf\u0393\u03c0\u03a3\u03c3\xb5\u03c4\u03a6\u0398\u03a9"
        "\u03b4\u221e\u03c6\u03b5\u2229\u2261\xb1\u2265\u2264\u2320\u2321\xf7\u2248\xb0\u2219\xb7\u221a\u207f"
        "\xb2\u25a0\xa0"
    ),
}
"""Bytes 0x80 to 0xff of the single-byte character sets without a codec in Python; bytes below 0x80 are ASCII."""

PATCHES: Final[dict[str, tuple[str, dict[int, str]]]] = {
    "cp1256": (
        "cp1256",
        {
            0x8A: "\ufffe",
            0x8F: "\ufffe",
            0x98: "\ufffe",
            0x9A: "\ufffe",
            0x9F: "\ufffe",
            0xAA: "\ufffe",
            0xC0: "\ufffe",
            0xFF: "\ufffe",
        },
    ),
    "cp866": (
        "cp866",
        {
            0xFC: "\u207f",
            0xFD: "\xb2",
        },
    ),
    "greek": (
        "iso8859_7",
        {
            0xA1: "\u02bd",
            0xA2: "\u02bc",
            0xA4: "\ufffe",
            0xA5: "\ufffe",
            0xAA: "\ufffe",
        },
    ),
    "hebrew": (
        "iso8859_8",
        {
            0xAF: "\u203e",
        },
    ),
    "koi8u": (
        "koi8_u",
        {
            0x95: "\u2022",
        },
    ),
    "latin1": (
        "cp1252",
        {
            0x81: "\x81",
            0x8D: "\x8d",
            0x8F: "\x8f",
            0x90: "\x90",
            0x9D: "\x9d",
        },
    ),
    "swe7": (
        "ascii",
        {
            0x40: "\xc9",
            0x5B: "\xc4",
            0x5C: "\xd6",
            0x5D: "\xc5",
            0x5E: "\xdc",
            0x60: "\xe9",
            0x7B: "\xe4",
            0x7C: "\xf6",
            0x7D: "\xe5",
            0x7E: "\xfc",
            0x7F: "\ufffe",
        },
    ),
}
"""Single-byte character sets that differ from a Python codec in some bytes: the codec, and the characters of these."""

BIG5_PATCHES: Final[dict[bytes, str | None]] = {
    b"\xa1\x5a": None,
    b"\xa1\xc3": None,
    b"\xa1\xc5": None,
    b"\xa1\xfe": None,
    b"\xa2\x40": None,
    b"\xa2\xcc": None,
    b"\xa2\xce": None,
    b"\xf9\xd6": "\u7881",
    b"\xf9\xd7": "\u92b9",
    b"\xf9\xd8": "\u88cf",
    b"\xf9\xd9": "\u58bb",
    b"\xf9\xda": "\u6052",
    b"\xf9\xdb": "\u7ca7",
    b"\xf9\xdc": "\u5afa",
}
"""Differences from Python's codec big5; None marks a code that is not a character."""

EUCJPMS_IBM: Final = (
    "\u2170\u2171\u2172\u2173\u2174\u2175\u2176\u2177\u2178\u2179\u2160\u2161\u2162\u2163\u2164\u2165"
    "\u2166\u2167\u2168\u2169\uff07\uff02\u3231\u2116\u2121\u70bb\u4efc\u50f4\u51ec\u5307\u5324\ufa0e"
    "\u548a\u5759\ufa0f\ufa10\u589e\u5bec\u5cf5\u5d53\ufa11\u5fb7\u6085\u6120\u654e\u663b\u6665\ufa12"
    "\uf929\u6801\ufa13\ufa14\u6a6b\u6ae2\u6df8\u6df2\u7028\ufa15\ufa16\u7501\u7682\u769e\ufa17\u7930"
    "\ufa18\ufa19\ufa1a\ufa1b\u7ae7\ufa1c\ufa1d\u7da0\u7dd6\ufa1e\u8362\ufa1f\u85b0\ufa20\ufa21\u8807"
    "\ufa22\u8b7f\u8cf4\u8d76\ufa23\ufa24\ufa25\u90de\ufa26\u9115\ufa27\ufa28\u9592\uf9dc\ufa29\u973b"
    "\u974d\u9751\ufa2a\ufa2b\ufa2c\u999e\u9ad9\u9b72\ufa2d\u9ed1"
)
"""IBM's extensions in eucjpms, whose codes are consecutive from 0x8ff3f3 to 0x8ff4fe."""

BINARY_COLLATION: Final = 63
NO_CHARACTER: Final = "\ufffe"
UNKNOWN_CHARSET: Final = "unknown"
UNKNOWN_COLLATION: Final = -1
"""The id for text in an unknown character set: ASCII except zero bytes is text, as in nearly all that a database has.

Not in swe7, and letters of utf16, utf32 and ucs2 may look like ASCII. Databases hardly have these.
"""


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
"""Character sets for which a Python codec agrees with the servers on every character."""

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
"""Character sets with characters of more than one byte, except UTF-8."""

UTF8: Final = frozenset({"utf8mb3", "utf8mb4"})


@dataclass(frozen=True, slots=True)
class Charset:
    """A character set. `decode` raises only UnicodeDecodeError, `encode` only UnicodeEncodeError."""

    name: str
    decode: Callable[[bytes], str]
    encode: Callable[[str], bytes]


def _ids() -> Iterator[tuple[int, str]]:
    for name, ranges in COLLATION_IDS.items():
        for part in ranges.split():
            first, _, last = part.partition("-")
            yield from ((collation_id, name) for collation_id in range(int(first), int(last or first) + 1))


CHARSET_NAMES: Final[dict[int, str]] = dict(_ids())
"""The character set of each collation id of MySQL 9.7 and MariaDB 10.11; no id differs between them."""


def unknown_text(column: str, value: bytes) -> BinlogFormatError:
    """Return the error for a value that is no text in an unknown character set, where text is needed."""
    return BinlogFormatError(
        "the character set of the column is unknown, and the bytes are not ASCII",
        field=f"column {column}",
        found=f"0x{value[:64].hex()}",
        hint=Hint.DATABASE_CHARSET,
    )


def charset_of(collation_id: int | None) -> Charset | None:
    """Return the character set of a collation id; None for `binary`, for None, and for an unknown id."""
    if collation_id == UNKNOWN_COLLATION:
        return charset_named(UNKNOWN_CHARSET)
    name = CHARSET_NAMES.get(collation_id) if collation_id is not None else None
    return None if name is None or name == "binary" else charset_named(name)


@cache
def charset_named(name: str) -> Charset:
    """Return a character set by its name, as the server spells it.

    Raises:
        KeyError: the name is unknown.
    """
    if name == UNKNOWN_CHARSET:
        return _from_map(name, NO_CHARACTER + "".join(map(chr, range(1, 128))) + NO_CHARACTER * 128)
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
            codes.setdefault(ord(character), byte)  # of two codes, the server prefers the ASCII code

    def decode(data: bytes) -> str:
        return codecs.charmap_decode(data, "strict", characters)[0]

    def encode(text: str) -> bytes:
        return codecs.charmap_encode(text, "strict", codes)[0]

    return Charset(name, decode, encode)


def _from_table(name: str, table: dict[bytes, str]) -> Charset:
    """Return a multi-byte character set from a table of all its characters except ASCII."""
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
    """Return Python's cp932, but IBM's extensions are encoded with IBM's codes, not with NEC's (lead 0xed and 0xee)."""
    table = _codec_table("cp932", (bytes([byte]) for byte in range(0x80, 0x100)))
    leads = [lead for lead in range(0x81, 0xFD) if lead not in (0xED, 0xEE)]
    table.update(_codec_table("cp932", _pairs(leads, range(0x40, 0xFD))))
    table.update(_codec_table("cp932", _pairs((0xED, 0xEE), range(0x40, 0xFD))))
    return _from_table("cp932", table)


def _gb18030() -> Charset:
    """Return gb18030 of the server, which implements the second edition of the standard.

    Older Python versions implement the first edition, in which two characters are swapped.
    """
    swap = {0x1E3F: 0xE7C7, 0xE7C7: 0x1E3F} if b"\xa8\xbc".decode("gb18030") == "\ue7c7" else {}
    info = codecs.lookup("gb18030")
    return Charset(
        "gb18030",
        lambda data: info.decode(data)[0].translate(swap),
        lambda text: info.encode(text.translate(swap))[0],
    )


_EUC: Final = range(0xA1, 0xFF)


def _private_use() -> dict[bytes, str]:
    """Return rows 85 to 94 of both planes, which the servers map to U+E000 and the following code points."""
    codes = [prefix + code for prefix in (b"", b"\x8f") for code in _pairs(range(0xF5, 0xFF), _EUC)]
    return {code: chr(0xE000 + index) for index, code in enumerate(codes)}


def _euc_single_shifted() -> dict[bytes, str]:
    """Return the characters after single shifts: half-width katakana after 0x8e, JIS X 0212 after 0x8f."""
    table = _codec_table("euc_jp", _pairs(range(0x8E, 0x8F), _EUC))
    table.update(_codec_table("euc_jp", (b"\x8f" + code for code in _pairs(_EUC, _EUC))))
    return table


def _ujis() -> Charset:
    table = {**_euc_single_shifted(), **_codec_table("euc_jp", _pairs(_EUC, _EUC)), **_private_use()}
    return _from_table("ujis", {**table, b"\xa1\xc0": "\\"})


def _eucjpms() -> Charset:
    """Return eucjpms: ujis with JIS X 0208 as in Windows, including NEC's row 13 and IBM's extensions."""
    windows = _codec_table("cp932", (_shifted(code) for code in _pairs(range(0xA1, 0xF5), _EUC)))
    main_plane = {code: windows.get(_shifted(code)) for code in _pairs(range(0xA1, 0xF5), _EUC)}
    table = {code: character for code, character in main_plane.items() if character is not None}
    table.update(_euc_single_shifted())
    table.update({b"\x8f\xa2\xb7": "\uff5e", b"\x8f\xa2\xc3": "\uffe4"})
    ibm = [b"\x8f" + code for code in _pairs(range(0xF3, 0xF5), _EUC)][-len(EUCJPMS_IBM) :]
    table.update(zip(ibm, EUCJPMS_IBM, strict=True))
    return _from_table("eucjpms", {**table, **_private_use()})


def _shifted(code: bytes) -> bytes:
    """Return the Shift JIS code of a code of EUC's main plane."""
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
