"""Collations of MySQL and MariaDB by name and by id, and the longest character of each character set in bytes.

Character maps are in `binlogio.values.charsets`.

    name := charset "_" rest     -- except `binary`, the only collation of its character set
    MariaDB has two families: a `_nopad_` collation has the id of the corresponding padding collation + 1024, and a
    `uca1400` collation has the id base + 8 * language + bits (no pad 4, accent sensitive 2, case sensitive 1).

Source: INFORMATION_SCHEMA.COLLATIONS of MySQL 9.7.4 and COLLATION_CHARACTER_SET_APPLICABILITY of MariaDB 10.11.18 and
11.8.6.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from binlogio.errors import UnsupportedFeature

BINARY: Final = "binary"

# The default collation of each character set comes first. Collations of several Unicode character sets are added below.
_COLLATIONS: Final = {
    "armscii8": "32 general_ci 64 bin",
    "ascii": "11 general_ci 65 bin",
    "big5": "1 chinese_ci 84 bin",
    "cp1250": "26 general_ci 34 czech_cs 44 croatian_ci 66 bin 99 polish_ci",
    "cp1251": "51 general_ci 14 bulgarian_ci 23 ukrainian_ci 50 bin 52 general_cs",
    "cp1256": "57 general_ci 67 bin",
    "cp1257": "59 general_ci 29 lithuanian_ci 58 bin",
    "cp850": "4 general_ci 80 bin",
    "cp852": "40 general_ci 81 bin",
    "cp866": "36 general_ci 68 bin",
    "cp932": "95 japanese_ci 96 bin",
    "dec8": "3 swedish_ci 69 bin",
    "eucjpms": "97 japanese_ci 98 bin",
    "euckr": "19 korean_ci 85 bin",
    "gb18030": "248 chinese_ci 249 bin 250 unicode_520_ci",
    "gb2312": "24 chinese_ci 86 bin",
    "gbk": "28 chinese_ci 87 bin",
    "geostd8": "92 general_ci 93 bin",
    "greek": "25 general_ci 70 bin",
    "hebrew": "16 general_ci 71 bin",
    "hp8": "6 english_ci 72 bin",
    "keybcs2": "37 general_ci 73 bin",
    "koi8r": "7 general_ci 74 bin",
    "koi8u": "22 general_ci 75 bin",
    "latin1": "8 swedish_ci 5 german1_ci 15 danish_ci 31 german2_ci 47 bin 48 general_ci 49 general_cs 94 spanish_ci",
    "latin2": "9 general_ci 2 czech_cs 21 hungarian_ci 27 croatian_ci 77 bin",
    "latin5": "30 turkish_ci 78 bin",
    "latin7": "41 general_ci 20 estonian_cs 42 general_cs 79 bin",
    "macce": "38 general_ci 43 bin",
    "macroman": "39 general_ci 53 bin",
    "sjis": "13 japanese_ci 88 bin",
    "swe7": "10 swedish_ci 82 bin",
    "tis620": "18 thai_ci 89 bin",
    "ucs2": "35 general_ci 90 bin 159 general_mysql500_ci 641 myanmar_ci 642 thai_520_w2",
    "ujis": "12 japanese_ci 91 bin",
    "utf16": "54 general_ci 55 bin 673 myanmar_ci 674 thai_520_w2",
    "utf16le": "56 general_ci 62 bin",
    "utf32": "60 general_ci 61 bin 737 myanmar_ci 738 thai_520_w2",
    "utf8mb3": (
        "33 general_ci 76 tolower_ci 83 bin 223 general_mysql500_ci 577 myanmar_ci 578 thai_520_w2 579 "
        "general1400_as_ci"
    ),
    "utf8mb4": "255 0900_ai_ci 45 general_ci 46 bin 609 myanmar_ci 610 thai_520_w2 611 general1400_as_ci",
}
_UNICODE_400: Final = (
    "unicode_ci icelandic_ci latvian_ci romanian_ci slovenian_ci polish_ci estonian_ci spanish_ci swedish_ci "
    "turkish_ci "
    "czech_ci danish_ci lithuanian_ci slovak_ci spanish2_ci roman_ci persian_ci esperanto_ci hungarian_ci sinhala_ci "
    "german2_ci croatian_ci unicode_520_ci vietnamese_ci"
)
_UNICODE_400_BASE: Final = {"utf8mb3": 192, "ucs2": 128, "utf16": 101, "utf32": 160, "utf8mb4": 224}
# In MariaDB, `croatian_ci` is another collation than in MySQL, with another id.
_MARIADB_CROATIAN: Final = {"utf8mb3": 576, "utf8mb4": 608, "ucs2": 640, "utf16": 672, "utf32": 736}

_UNICODE_900: Final = (
    "255 0900 256 de_pb_0900 257 is_0900 258 lv_0900 259 ro_0900 260 sl_0900 261 pl_0900 262 et_0900 263 es_0900 264 "
    "sv_0900 "
    "265 tr_0900 266 cs_0900 267 da_0900 268 lt_0900 269 sk_0900 270 es_trad_0900 271 la_0900 273 eo_0900 274 hu_0900 "
    "275 hr_0900 277 vi_0900"
)
_ACCENTS_AND_CASE: Final = 278 - 255  # the id of an _as_cs collation minus that of the _ai_ci collation
_UNICODE_900_MORE: Final = (
    "303 ja_0900_as_cs 304 ja_0900_as_cs_ks 305 0900_as_ci 306 ru_0900_ai_ci 307 ru_0900_as_cs 308 zh_0900_as_cs 309 "
    "0900_bin "
    "310 nb_0900_ai_ci 311 nb_0900_as_cs 312 nn_0900_ai_ci 313 nn_0900_as_cs 314 sr_latn_0900_ai_ci 315 "
    "sr_latn_0900_as_cs "
    "316 bs_0900_ai_ci 317 bs_0900_as_cs 318 bg_0900_ai_ci 319 bg_0900_as_cs 320 gl_0900_ai_ci 321 gl_0900_as_cs "
    "322 mn_cyrl_0900_ai_ci 323 mn_cyrl_0900_as_cs"
)

_UCA1400_BASE: Final = {"utf8mb3": 2048, "utf8mb4": 2304, "ucs2": 2560, "utf16": 2816, "utf32": 3072}
_UCA1400_LANGUAGES: Final = (
    "- icelandic latvian romanian slovenian polish estonian spanish swedish turkish czech danish lithuanian slovak "
    "spanish2 "
    "roman persian esperanto hungarian sinhala german2 unused unused vietnamese croatian"
)
_NO_PAD: Final = 1024
_NO_PAD_PLAIN: Final = ("general", "chinese", "swedish", "english", "japanese", "thai", "korean", "turkish")

_MAX_CHARACTER_BYTES: Final = {
    "big5": 2,
    "cp932": 2,
    "eucjpms": 3,
    "euckr": 2,
    "gb18030": 4,
    "gb2312": 2,
    "gbk": 2,
    "sjis": 2,
    "ucs2": 2,
    "ujis": 3,
    "utf16": 4,
    "utf16le": 4,
    "utf32": 4,
    "utf8mb3": 3,
    "utf8mb4": 4,
}


def _pairs(text: str) -> list[tuple[int, str]]:
    words = text.split()
    return [(int(number), name) for number, name in zip(words[::2], words[1::2], strict=True)]


def _mysql_ids() -> dict[str, int]:
    ids = {BINARY: 63}
    for charset, text in _COLLATIONS.items():
        ids.update({f"{charset}_{name}": number for number, name in _pairs(text)})
    for charset, base in _UNICODE_400_BASE.items():
        ids.update({f"{charset}_{name}": base + index for index, name in enumerate(_UNICODE_400.split())})
    for number, name in _pairs(_UNICODE_900):
        ids[f"utf8mb4_{name}_ai_ci"] = number
        ids[f"utf8mb4_{name}_as_cs"] = number + _ACCENTS_AND_CASE
    ids.update({f"utf8mb4_{name}": number for number, name in _pairs(_UNICODE_900_MORE)})
    return ids


def _croatian_ids() -> dict[str, int]:
    """Return the ids of MySQL's `croatian_ci` collations by their names in MariaDB."""
    return {
        f"{charset}_croatian_mysql561_ci": base + _UNICODE_400.split().index("croatian_ci")
        for charset, base in _UNICODE_400_BASE.items()
    }


def _no_pad_ids() -> dict[str, int]:
    """Return the ids of MariaDB's `_nopad_` collations by name.

    They exist for _bin, unicode_ci and unicode_520_ci collations, and for the default collation of a character set.
    """
    twins = {}
    for name, number in _MYSQL_IDS.items():
        charset, _, rest = name.partition("_")
        order, _, sensitivity = rest.rpartition("_")
        language = order.split("_")[0]
        plain = order in _NO_PAD_PLAIN and sensitivity == "ci" and rest == _default_rest(charset)
        unicode = order in ("unicode", "unicode_520") and charset in _UNICODE_400_BASE
        if (rest == "bin" or plain or unicode) and charset != "gb18030" and number < _NO_PAD and language != "0900":
            twins["_".join(part for part in (charset, order, "nopad", sensitivity) if part)] = number + _NO_PAD
    return twins


def _default_rest(charset: str) -> str:
    return "general_ci" if charset == "utf8mb4" else _COLLATIONS[charset].split()[1] if charset in _COLLATIONS else ""


def _uca1400_ids() -> dict[str, int]:
    ids = {}
    for charset, base in _UCA1400_BASE.items():
        for index, language in enumerate(_UCA1400_LANGUAGES.split()):
            for bits in range(8):
                parts = (
                    charset,
                    "uca1400",
                    language if language != "-" else "",
                    "nopad" if bits & 4 else "",
                    "as" if bits & 2 else "ai",
                    "cs" if bits & 1 else "ci",
                )
                if language != "unused":
                    ids["_".join(part for part in parts if part)] = base + 8 * index + bits
    return ids


_MYSQL_IDS: Final = _mysql_ids()


@cache
def _mariadb_ids() -> dict[str, int]:
    """Return the ids of the collations that exist only in MariaDB, by name."""
    return {**_uca1400_ids(), **_no_pad_ids(), **_croatian_ids()}


_OTHER_IN_MARIADB: Final = {f"{charset}_croatian_ci": number for charset, number in _MARIADB_CROATIAN.items()}
"""The ids in MariaDB of names that have another id in MySQL."""


@cache
def _names() -> dict[int, str]:
    return {number: name for ids in (_OTHER_IN_MARIADB, _mariadb_ids(), _MYSQL_IDS) for name, number in ids.items()}


DEFAULT_COLLATIONS: Final[dict[str, str]] = {
    BINARY: BINARY,
    **{charset: f"{charset}_{text.split()[1]}" for charset, text in _COLLATIONS.items()},
}
_OLD_NAMES: Final = {"utf8": "utf8mb3"}


def collation_id(name: str, *, is_mariadb: bool = False) -> int:
    """Return the id of a collation; `is_mariadb` selects the vendor for names that both have with different ids.

    Raises:
        UnsupportedFeature: the name is unknown.
    """
    charset, _, rest = name.lower().partition("_")
    full = "_".join(part for part in (_OLD_NAMES.get(charset, charset), rest) if part)
    found = _OTHER_IN_MARIADB.get(full) if is_mariadb else None
    found = _MYSQL_IDS.get(full) if found is None else found
    found = _mariadb_ids().get(full) if found is None else found
    if found is None:
        raise UnsupportedFeature("unknown collation", field="collation", found=repr(name))
    return found


def collation_name(number: int) -> str:
    """Return the name of a collation id.

    Raises:
        UnsupportedFeature: the id is unknown.
    """
    found = _names().get(number)
    if found is None:
        raise UnsupportedFeature("unknown collation id", field="collation", found=number)
    return found


def charset_of_collation(name: str) -> str:
    """Return the character set of a collation: the part of its name before the first underscore."""
    return name.partition("_")[0]


def default_collation(charset: str) -> str:
    """Return the default collation of a character set.

    Raises:
        UnsupportedFeature: the name of the character set is unknown.
    """
    found = DEFAULT_COLLATIONS.get(_OLD_NAMES.get(charset.lower(), charset.lower()))
    if found is None:
        raise UnsupportedFeature("unknown character set", field="charset", found=repr(charset))
    return found


def max_character_bytes(collation: str) -> int:
    """Return the size in bytes of the longest character of the collation's character set (the server's mbmaxlen)."""
    return _MAX_CHARACTER_BYTES.get(charset_of_collation(collation), 1)
