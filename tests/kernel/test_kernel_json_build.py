"""JSON text to binary JSON by the kernel, against the tree that construct's side builds."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from binlogio._kernel import column_kinds as kinds
from binlogio._kernel.row_encoder import Cells, EventBuffer, RowsEncoder
from binlogio.errors import BinlogFormatError
from binlogio.values.json import JsonDocument
from encode_cases import ANY_TEXT, JSON_VALUES

IMAGES_AT = 19 + 10 + 1 + 1
SIZE_BYTES = 4


def by_kernel(text: str) -> bytes | None:
    """Return the document, or None where the text is refused."""
    array = pa.array([text])
    column = Cells(kinds.JSON, SIZE_BYTES, limit=(1 << 32) - 1)
    _, offsets, data = array.buffers()
    column.bind(1, offsets=offsets, data=data)
    buffer = EventBuffer(4, checksum=False)
    encoder = RowsEncoder(
        buffer, type_code=30, timestamp=0, server_id=0, table_id=0, flags=0, column_count=1, present=b"\1",
        present_after=None, before=None, after=[column], max_size=64,
    )  # fmt: skip
    done = encoder.append(0, 1)
    encoder.finish()
    return bytes(buffer)[IMAGES_AT + 1 + SIZE_BYTES :] if done else None


def by_construct(text: str) -> bytes | None:
    """Return the same from the tree."""
    try:
        return JsonDocument.from_text(text).binary
    except BinlogFormatError:
        return None


@settings(max_examples=150)
@given(JSON_VALUES, st.booleans(), st.sampled_from((None, 1)))
def test_documents_are_those_of_the_tree(value: Any, ascii_only: bool, indent: int | None) -> None:
    """Any JSON, with and without escapes and white space."""
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)

    assert by_construct(text) == by_kernel(text)


@settings(max_examples=150)
@given(st.dictionaries(st.text(ANY_TEXT, max_size=3), st.integers(), min_size=10))
def test_members_are_sorted_by_length_then_bytes(value: Any) -> None:
    """Objects of more members than are sorted by insertion."""
    text = json.dumps(value)

    assert by_construct(text) == by_kernel(text)


NUMBERS = (
    "0 -0 -0.0 0.0 0e5 1 -1 32767 32768 -32768 -32769 65535 65536 2147483647 2147483648 -2147483648 "
    "-2147483649 4294967295 4294967296 "
    "-4294967296 9223372036854775807 9223372036854775808 -9223372036854775808 -9223372036854775809 "
    "18446744073709551615 "
    "18446744073709551616 99999999999999999999 100000000000000000000 -10000000000000000000 1e1 1E+2 1e-2 "
    "1.5e300 1e308 5e-324 2.5e-324 "
    "0.1 0.30000000000000004 123456789012345678901234567890 1.7976931348623157e308 "
    "0.000000000000000000000000000000000000001 "
    "9007199254740993 9007199254740993.0 1e22 1e23 8.5e22 123456789.123456789123456789 4.35 1e0000000000001"
).split()


@pytest.mark.parametrize("text", NUMBERS)
def test_numbers_have_the_type_and_the_value_of_the_server_s_parser(text: str) -> None:
    """Integers up to 64 bits by their size, all else is the nearest double."""
    found = by_kernel(text)

    assert found is not None
    assert by_construct(text) == found
    assert by_construct(f"[{text}]") == by_kernel(f"[{text}]")


@settings(max_examples=150)
@given(
    st.integers(1 << 53, (1 << 64) - 1) | st.integers(1 << 53, 1 << 54).map(lambda n: 5 * (2 * n + 1)),
    st.integers(1, 19),
)
def test_numbers_with_more_digits_than_a_double_are_rounded_to_the_nearest(number: int, places: int) -> None:
    """16 to 20 digits with a point among them or before them, some half-way between two doubles."""
    digits = str(number).rjust(places + 1, "0")
    text = f"-{digits[:-places]}.{digits[-places:]}"

    assert by_construct(text) == by_kernel(text)


BAD = [
    *(
        "",
        " ",
        "nul",
        "nullx",
        "True",
        "01",
        "-",
        "+1",
        "1.",
        ".5",
        "1e",
        "1e+",
        "0x1",
        "NaN",
        "Infinity",
        "-Infinity",
        "1e999",
    ),
    *(
        '"',
        '"a',
        '"\\',
        '"\\x"',
        '"\\u12"',
        '"\\u12g4"',
        '"\\ud800"',
        '"\\ud800\\u0041"',
        '"\\udc00"',
        '"\n"',
        '"\x00"',
    ),
    *(
        "[",
        "]",
        "[1",
        "[1,",
        "[1,]",
        "[,1]",
        "[1 2]",
        "{",
        "}",
        '{"a"',
        '{"a":',
        '{"a":1',
        '{"a":1,',
        '{"a":1,}',
        "{1:2}",
        "{a:1}",
    ),
    *("[1]]", "{}{}", "1 2", "\ufeff1", "/**/1", "'a'", "[" * 101 + "]" * 101, "[" * 5000),
]


@pytest.mark.parametrize("text", BAD, ids=lambda text: repr(text[:12]))
def test_what_is_no_json_is_refused(text: str) -> None:
    """The tree refuses it as well, and says why."""
    assert by_construct(text) is None
    assert by_kernel(text) is None


@settings(max_examples=200)
@given(st.text('{}[]",:\\u019e.-+Eaflsnrtb dD8/\n\x00é', max_size=12))
def test_garbage_is_refused_or_read_as_the_tree_reads_it(text: str) -> None:
    """Strings of the characters that JSON is made of."""
    found = by_kernel(text)

    assert found is None or by_construct(text) == found


@pytest.mark.parametrize(
    "value",
    [
        "[" * 100 + "]" * 100,
        "[" * 99 + "1" + "]" * 99,
        json.dumps(list(range(70_000))),
        json.dumps({f"k{i}": [i * 1.1, "x" * 50, {"a": i}] for i in range(3000)}),
        json.dumps(["x" * 65_525]),
        json.dumps(["x" * 65_524]),
        json.dumps("x" * 200) + " \n\t\r",
        json.dumps({"a": "x" * 70_000, "b": [1]}),
        json.dumps([[]] * 30_000),
        json.dumps([1e100] * 30_000),
        '{"a":1,"b":2,"a":3,' + ",".join(f'"{i % 20}":{i}' for i in range(100)) + "}",
        '{"k":1,"k":[{"k":1,"k":2}],"k":{"k":{}}}',
        '"\\"\\\\\\/\\b\\f\\n\\r\\t\\u0000\\u00e9\\u20ac\\ud83d\\ude00"',
    ],
    ids=lambda text: text[:20],
)
def test_documents_at_the_limits_are_those_of_the_tree(value: str) -> None:
    """Deep ones, large ones, small ones that just are, and names that come twice."""
    found = by_kernel(value)

    assert found is not None
    assert by_construct(value) == found
