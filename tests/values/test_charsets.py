"""Character sets, compared with what MySQL 9.7.4 and MariaDB 10.11.18 answer for every byte and pair of bytes."""

from __future__ import annotations

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlogio.values.charsets import CHARSET_NAMES, NO_CHARACTER, Charset, charset_named, charset_of

# CRC32 of what `CONVERT(CONVERT(x'..' USING charset) USING utf32)` gives for all bytes, or for all pairs 0x8000 to
# 0xffff; U+FFFE for `?`, U+FFFD and errors.
SINGLE_BYTES = {
    "armscii8": 0x5D747105,
    "ascii": 0x928B43AE,
    "cp1250": 0xC0FC1ACB,
    "cp1251": 0xBB2C897E,
    "cp1256": 0xB5379A31,
    "cp1257": 0xC0F10C6B,
    "cp850": 0x3C57DB7E,
    "cp852": 0xE98B5CDE,
    "cp866": 0x61149CE1,
    "dec8": 0x56618284,
    "geostd8": 0xDC69DD39,
    "greek": 0x6C8ABEF2,
    "hebrew": 0x13A211BE,
    "hp8": 0x8B4DD2D3,
    "keybcs2": 0xB2CD760F,
    "koi8r": 0x4C6B86EB,
    "koi8u": 0x5A38B755,
    "latin1": 0x040EC49F,
    "latin2": 0xEC22F3A0,
    "latin5": 0xC188A953,
    "latin7": 0xFE9A6B74,
    "macce": 0x4778E750,
    "macroman": 0xE21E6838,
    "swe7": 0xD87B2741,
    "tis620": 0x5621F03D,
}
PAIRS = {
    "big5": 0x09211D5C,
    "cp932": 0x2CE7DC88,
    "eucjpms": 0xD39DB99C,
    "euckr": 0x81E3F9AF,
    "gb18030": 0xB1F6632F,
    "gb2312": 0x86E1A80B,
    "gbk": 0x804AE8A2,
    "sjis": 0xCF7C6ED5,
    "ujis": 0xFE943E63,
}
# Text, and its bytes as the server stores them (fixture mysql97/types_string, and CONVERT on the servers for the last
# ones).
TEXTS = [
    (9, "łż", "b3bf"),
    (51, "Привет", "cff0e8e2e5f2"),
    (13, "日本語", "93fa967b8cea"),
    (95, "日本語①", "93fa967b8cea8740"),
    (12, "日本語", "c6fccbdcb8ec"),
    (97, "日本語", "c6fccbdcb8ec"),
    (248, "中文😀", "d6d0cec49439fc36"),
    (1, "中文", "a4a4a4e5"),
    (19, "한국어", "c7d1b1b9beee"),
    (35, "aé漢", "006100e96f22"),
    (54, "a😀", "0061d83dde00"),
    (56, "a😀", "61003dd800de"),
    (60, "a😀", "000000610001f600"),
    (33, "é漢", "c3a9e6bca2"),
    (255, "😀", "f09f9880"),
    (2304, "é", "c3a9"),
    (8, "€\x81", "8081"),
    (10, "Éä", "407b"),
    (95, "≒炻￢№", "81e0fa6281ca8782"),
    (97, "≒∵№\u2160", "a2e2a2e8ade2adb5"),
    (12, "\\", "5c"),
    (248, "\u1e3f\ue7c7", "a8bc8135f437"),
]


def _character(charset: Charset, code: bytes) -> str:
    try:
        text = charset.decode(code)
    except UnicodeDecodeError:
        return NO_CHARACTER
    return text if len(text) == 1 else NO_CHARACTER


@pytest.mark.parametrize(("name", "expected"), SINGLE_BYTES.items())
def test_every_byte_is_the_server_s_character(name: str, expected: int) -> None:
    """Eight-bit sets, whether Python has a codec or not."""
    charset = charset_named(name)

    assert expected == zlib.crc32("".join(_character(charset, bytes([code])) for code in range(256)).encode())


@pytest.mark.parametrize(("name", "expected"), PAIRS.items())
def test_every_pair_of_bytes_is_the_server_s_character(name: str, expected: int) -> None:
    """Multi-byte sets."""
    charset = charset_named(name)
    codes = (bytes([lead, trail]) for lead in range(0x80, 0x100) for trail in range(0x100))

    assert expected == zlib.crc32("".join(_character(charset, code) for code in codes).encode())


@pytest.mark.parametrize(("collation_id", "text", "data"), TEXTS)
def test_text_is_written_as_the_server_writes_it(collation_id: int, text: str, data: str) -> None:
    """Of two codes for a character the server's choice is taken."""
    charset = charset_of(collation_id)

    assert charset is not None
    assert bytes.fromhex(data) == charset.encode(text)
    assert text == charset.decode(bytes.fromhex(data))


def test_every_collation_has_a_character_set() -> None:
    """All ids of both servers, up to MariaDB's UCA 14 ones."""
    names = set(CHARSET_NAMES.values())

    assert len(CHARSET_NAMES) == 1311
    assert len(names) == 41
    assert all(charset_named(name).decode(charset_named(name).encode("abc")) == "abc" for name in names - {"binary"})


def test_binary_and_unknown_collations_have_none() -> None:
    """Their values stay bytes."""
    assert [charset_of(63), charset_of(None), charset_of(99999)] == [None, None, None]


@given(st.sampled_from(sorted(set(CHARSET_NAMES.values()) - {"binary"})), st.binary(max_size=12))
def test_any_bytes_are_text_or_a_decode_error(name: str, data: bytes) -> None:
    """And text that was decoded can be encoded."""
    charset = charset_named(name)
    try:
        text = charset.decode(data)
    except UnicodeDecodeError:
        return

    assert text == charset.decode(charset.encode(text))


@pytest.mark.parametrize("name", ["latin1", "sjis", "swe7", "ascii", "gb2312"])
def test_a_character_that_the_set_lacks_is_an_encode_error(name: str) -> None:
    """No question marks."""
    with pytest.raises(UnicodeEncodeError):
        charset_named(name).encode("a😀")
