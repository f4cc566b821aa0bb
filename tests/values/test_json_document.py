"""JSON documents: the binary form, the server's text, Python's objects, and damage."""

from __future__ import annotations

import json
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlogio.errors import BinlogFormatError
from binlogio.values.json import JsonDocument
from binlogio.values.json.binary import build_json, parse_json
from binlogio.values.json.text import json_text
from binlogio.values.json.tree import JsonNode, JsonOpaque, JsonUnsigned

# Text, binary: MySQL 9.7 (fixture mysql97/types_json); all made of text by the server, so they work both ways.
DOCUMENTS = [
    ("null", "0400"),
    ("true", "0401"),
    ("false", "0402"),
    ("0", "050000"),
    ("-1", "05ffff"),
    ("32767", "05ff7f"),
    ("32768", "0700800000"),
    ("-32768", "050080"),
    ("-32769", "07ff7fffff"),
    ("4294967295", "09ffffffff00000000"),
    ("4294967296", "0a0000000001000000"),
    ("18446744073709551615", "0affffffffffffffff"),
    ("-9223372036854775808", "090000000000000080"),
    ("1.5", "0b000000000000f83f"),
    ("-0.0", "0b0000000000000080"),
    ("1.2345678901234568e22", "0b8ab373b215ea8444"),
    ('""', "0c00"),
    ('"a"', "0c0161"),
    ('"é漢😀"', "0c09c3a9e6bca2f09f9880"),
    ('"\\u0000\\u0001\\n\\t\\"\\\\"', "0c0600010a09225c"),
    ("[]", "0200000400"),
    ("{}", "0000000400"),
    ("[null, true, false]", "0203000d00040000040100040200"),
    ('{"": ""}', "0001000c000b000000 0c0b0000"),
    ('{"a": null, "b": true, "c": false}', "0003001c00190001001a0001001b0001000400000401000402 00616263"),
]

NESTED = '{"": 4, "a": [1, "two", 3.0, {"k": [70000, 4294967296]}], "b": 1, "aa": 3, "é": 5}'


@pytest.mark.parametrize(("text", "binary"), DOCUMENTS)
def test_a_document_is_the_server_s_text_and_bytes(text: str, binary: str) -> None:
    """One table for both directions."""
    document = JsonDocument.from_text(text)

    assert bytes.fromhex(binary) == document.binary
    assert text == JsonDocument(bytes.fromhex(binary)).text == str(document)


def test_members_are_sorted_by_length_and_then_by_bytes() -> None:
    """The order in which the server stores and prints them."""
    document = JsonDocument.from_text('{"é":5,"aa":3,"b":1,"":4,"a":[1,"two",3.0,{"k":[70000,4294967296]}]}')

    assert document.text == NESTED


def test_of_two_members_with_one_name_the_last_stays() -> None:
    """The server does so since MySQL 8.0.3."""
    assert JsonDocument.from_text('{"a":1,"a":2}').text == '{"a": 2}'


def test_no_bytes_are_the_document_null() -> None:
    """A JSON column that was added to rows that were there."""
    assert JsonDocument(b"").text == "null"


@pytest.mark.parametrize(
    "text", ["-0", "1E2", "100000000000000000000", "-12345678901234567890", "99999999999999999999"]
)
def test_numbers_are_classed_as_the_server_does(text: str) -> None:
    """Minus zero is an integer; what exceeds 64 bits is a double."""
    expected = {
        "-0": "0",
        "1E2": "100.0",
        "100000000000000000000": "1e20",
        "-12345678901234567890": "-1.2345678901234567e19",
        "99999999999999999999": "1e20",
    }

    assert expected[text] == JsonDocument.from_text(text).text


@pytest.mark.parametrize(
    "text",
    ["", "[1,]", "NaN", "-Infinity", '"\\ud800"', "1e400", "[1", "{1:2}", '"a\nb"', "1" + "0" * 400, "[" * 100000],
)
def test_text_that_the_server_refuses_is_refused(text: str) -> None:
    """With a format error, also where Python's parser gives up otherwise."""
    with pytest.raises(BinlogFormatError):
        JsonDocument.from_text(text)


def test_a_hundred_levels_are_allowed_and_no_more() -> None:
    """JSON_DOCUMENT_MAX_DEPTH, as measured on 9.7: 100 arrays around a number."""
    deep = JsonDocument.from_text("[" * 100 + "1" + "]" * 100)

    assert deep.text == "[" * 100 + "1" + "]" * 100
    with pytest.raises(BinlogFormatError):
        JsonDocument.from_text("[" * 101 + "]" * 101)
    with pytest.raises(BinlogFormatError):
        parse_json(b"\2" + _around(deep.binary[1:]))


def test_a_tree_that_is_too_deep_has_no_text() -> None:
    """It cannot have been parsed."""
    tree: JsonNode = []
    for _ in range(100):
        tree = [tree]

    with pytest.raises(BinlogFormatError):
        json_text(tree)


def _around(value: bytes) -> bytes:
    """Return a small array around the value of a small array."""
    size = 7 + len(value)
    return b"\1\0" + size.to_bytes(2, "little") + b"\2\7\0" + value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Decimal("1.50"), "1.50"),
        (Decimal("-0.5"), "-0.5"),
        (Decimal("1E+2"), "100"),
        (datetime(2024, 2, 29, 12, 34, 56, 123456), '"2024-02-29 12:34:56.123456"'),
        (date(9999, 12, 31), '"9999-12-31"'),
        (timedelta(hours=-838, minutes=-59, seconds=-59), '"-838:59:59.000000"'),
        (-timedelta(microseconds=1), '"-00:00:00.000001"'),
        (time(10, 11, 12, 500000), '"10:11:12.500000"'),
        (b"\0\xff\x10", '"base64:type15:AP8Q"'),
        (b"\xab" * 60, f'"base64:type15:{"q6ur" * 19}\\nq6ur"'),
        (("a", (1,)), '["a", [1]]'),
        (2**64 - 1, "18446744073709551615"),
    ],
)
def test_sql_values_print_as_on_the_server(value: object, text: str) -> None:
    """Decimals as numbers, dates as strings with six digits, bytes in lines of base64."""
    assert text == JsonDocument.from_python(value).text


@pytest.mark.parametrize(
    "value", [Decimal("1.50"), date(1, 1, 1), -timedelta(hours=1), b"\0", 2**63, {"a": [None, True, 1.5]}]
)
def test_sql_values_come_back_as_python_s(value: object) -> None:
    """Not as the text that they print."""
    assert value == JsonDocument.from_python(value).to_python()


def test_impossible_dates_come_back_as_text() -> None:
    """JSON can hold what the calendar has not."""
    assert JsonDocument(build_json([JsonOpaque(10, bytes(8)), JsonOpaque(12, bytes(8))])).to_python() == [
        "0000-00-00",
        "0000-00-00 00:00:00.000000",
    ]


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("inf"),
        2**64,
        -(2**63) - 1,
        {1: 2},
        {"k" * 65536: 1},
        chr(0xD800),
        object(),
        Decimal("NaN"),
        Decimal("1e99"),
        Decimal("1e-31"),
        timedelta.max,
    ],
)
def test_python_values_that_json_cannot_hold_are_refused(value: object) -> None:
    """With a format error."""
    with pytest.raises(BinlogFormatError):
        JsonDocument.from_python(value)


def test_a_python_list_that_holds_itself_is_refused() -> None:
    """Nesting that is too deep is refused as well."""
    loop: list[Any] = []
    loop.append(loop)

    with pytest.raises(BinlogFormatError):
        JsonDocument.from_python(loop)


@pytest.mark.parametrize("size", [126, 127, 128, 16383, 16384, 65520, 65530, 70000])
@pytest.mark.parametrize("shape", ["{}", "[{}]", '{{"a": {}}}', '[[{}], {{"b": 7}}]'])
def test_documents_around_64_kib_change_their_form_and_come_back(shape: str, size: int) -> None:
    """Small containers end at 65535 bytes; lengths are of one, two and three bytes."""
    text = shape.replace("{{", "{").replace("}}", "}").replace("{}", f'"{"s" * size}"')

    assert text == JsonDocument.from_text(text).text


def test_a_large_container_holds_32_bit_numbers_in_place_and_small_ones_inside() -> None:
    """The form of each container is its own."""
    document = JsonDocument.from_text(json.dumps([70000, -70000, [1], "s" * 70000]))

    assert document.binary[:1] == b"\3"
    assert document.binary[9:19].hex() == "0770110100" + "0790eefeff"
    assert document.binary[19:20] == b"\2"


_SCALARS = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
)
_TREES = st.recursive(
    _SCALARS | st.text(max_size=8) | st.binary(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
)


@given(_TREES)
def test_any_python_tree_comes_back(value: object) -> None:
    """Through the binary form."""
    document = JsonDocument.from_python(value)

    assert value == document.to_python()
    assert document.binary == build_json(parse_json(document.binary))


@given(st.binary(max_size=120))
def test_any_bytes_are_a_document_or_a_format_error(data: bytes) -> None:
    """Garbage, as text and as objects."""
    document = JsonDocument(data)
    for read in (lambda: document.text, document.to_python):
        try:
            read()
        except BinlogFormatError:
            continue


@given(st.data())
def test_a_document_with_changed_bytes_is_a_document_or_a_format_error(data: st.DataObject) -> None:
    """Offsets and lengths that point anywhere."""
    binary = bytearray(JsonDocument.from_text(NESTED).binary)
    for _ in range(data.draw(st.integers(1, 3))):
        binary[data.draw(st.integers(0, len(binary) - 1))] = data.draw(st.integers(0, 255))
    try:
        text = JsonDocument(bytes(binary)).text
    except BinlogFormatError:
        return

    assert text


def test_a_document_cut_anywhere_is_refused() -> None:
    """Containers say how long they are."""
    binary = JsonDocument.from_text(NESTED).binary

    for end in range(1, len(binary)):
        with pytest.raises(BinlogFormatError):
            _ = JsonDocument(binary[:end]).text


def test_values_that_share_their_bytes_are_refused() -> None:
    """Thirty arrays, each with the next one twice, would be a thousand million values in a few hundred bytes."""
    level = b"\0\0\4\0"
    for _ in range(30):
        size = 4 + 2 * 3 + len(level)
        level = b"\2\0" + size.to_bytes(2, "little") + b"\2\x0a\0" * 2 + level
    with pytest.raises(BinlogFormatError, match="overlap"):
        parse_json(b"\2" + level)


@pytest.mark.parametrize(
    "binary",
    [
        "0403",
        "0d",
        "0e00",
        "0cff",
        "0c8080808080",
        "0c01ff",
        "0f",
        "0f0f05",
        "0b000000000000f07f",
        "0f0c0400000000",
        "0ff60105",
        "0ff600",
        "0f0c08" + "ffffff0000000000",
    ],
)
def test_damaged_scalars_are_refused(binary: str) -> None:
    """Unknown types and literals, missing bytes, text that is not UTF-8, infinity, truncated temporals and decimals."""
    with pytest.raises(BinlogFormatError):
        _ = JsonDocument(bytes.fromhex(binary)).text


def test_signed_and_unsigned_stay_apart() -> None:
    """The server's types of integers survive a parse and a build."""
    binary = build_json([1, JsonUnsigned(1)])

    assert binary == build_json(parse_json(binary))
    assert binary[5:11].hex() == "050100060100"
