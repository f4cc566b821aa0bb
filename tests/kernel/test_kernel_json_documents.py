"""Whole documents of binary JSON in the kernel: the same text as `JsonDocument`, and refusals for the same bytes."""

from __future__ import annotations

import math
import struct
from datetime import timedelta
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlogio.constants import ColumnType
from binlogio.values.json import JsonDocument
from binlogio.values.json.tree import MAX_DEPTH

pytest.importorskip("binlogio._kernel.json_documents", reason="the kernel is not compiled")

from binlogio._kernel.json_documents import json_expression, json_text
from json_bytes import (
    DOUBLE,
    INT16,
    INT32,
    INT64,
    LARGE_ARRAY,
    LARGE_OBJECT,
    LITERAL,
    OPAQUE,
    RICH,
    SMALL_ARRAY,
    SMALL_OBJECT,
    STRING,
    UINT16,
    UINT32,
    UINT64,
    Value,
    check,
    container,
    document,
    expression_of,
    varlen,
)

_SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 64) - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
    | st.binary()
    | st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**30), max_value=10**30, places=4)
    | st.datetimes()
    | st.dates()
    | st.timedeltas(timedelta(hours=-838), timedelta(hours=838))
)
_VALUES = st.recursive(_SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=30)


@given(_VALUES)
def test_any_document_agrees(value: object) -> None:
    binary = JsonDocument.from_python(value).binary

    assert json_text(binary) == JsonDocument(binary).text.encode()
    assert json_expression(binary) == expression_of(binary)


@given(_VALUES, st.data())
def test_a_document_with_changed_bytes_agrees(value: object, data: st.DataObject) -> None:
    """The same text or the same refusal."""
    changed = bytearray(JsonDocument.from_python(value).binary)
    for _ in range(data.draw(st.integers(1, 4))):
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    check(bytes(changed))


@given(st.integers(0, 15), st.binary(max_size=100))
def test_garbage_agrees(kind: int, data: bytes) -> None:
    check(bytes([kind]) + data)


def test_a_document_cut_at_every_byte_agrees() -> None:
    for size in range(len(RICH)):
        check(RICH[:size])


def test_a_document_with_any_bit_flipped_agrees() -> None:
    for at in range(len(RICH)):
        for bit in range(8):
            check(RICH[:at] + bytes([RICH[at] ^ 1 << bit]) + RICH[at + 1 :])


@pytest.mark.parametrize("kind", [SMALL_ARRAY, LARGE_ARRAY, SMALL_OBJECT, LARGE_OBJECT])
@pytest.mark.parametrize("inner", [SMALL_ARRAY, LARGE_ARRAY, SMALL_OBJECT, LARGE_OBJECT])
def test_small_and_large_containers_hold_each_other(kind: int, inner: int) -> None:
    """Every kind of value in entries of both widths, cut at every byte too."""
    values: list[Value] = [
        (LITERAL, b"\1"),
        (LITERAL, b"\2"),
        (INT16, b"\xff\xff"),
        (UINT16, b"\xff\xff"),
        (INT32, b"\xff\xff\xff\xff"),
        (UINT32, b"\xff\xff\xff\xff"),
        (INT64, b"\xff" * 8),
        (UINT64, b"\xff" * 8),
        (DOUBLE, struct.pack("<d", 0.1)),
        (STRING, b"\3abc"),
        (OPAQUE, b"\x10\1\5"),
    ]
    names = [b"%02d" % i for i in range(len(values))]
    nested = container(inner, values, names if inner in (SMALL_OBJECT, LARGE_OBJECT) else None)
    outer = document(container(kind, [nested, nested], [b"a", b"b"] if kind in (SMALL_OBJECT, LARGE_OBJECT) else None))

    assert json_text(outer) is not None
    for size in range(len(outer) + 1):
        check(outer[:size])


def test_documents_over_64_kib_agree() -> None:
    value = {f"key{i}": ["x" * 100, i, i * 100_000, {"inner": [i / 7]}] for i in range(600)}
    binary = JsonDocument.from_python(value).binary

    assert binary[0] == LARGE_OBJECT
    assert json_text(binary) == JsonDocument(binary).text.encode()


# ------------------------------------------------------------------------------------------- what no server would write


def test_members_out_of_order_keep_their_order() -> None:
    binary = document(
        container(SMALL_OBJECT, [(INT16, b"\1\0"), (INT16, b"\2\0"), (INT16, b"\3\0")], [b"c", b"aa", b""])
    )

    assert json_text(binary) == b'{"c": 1, "aa": 2, "": 3}'
    check(binary)


def test_members_of_one_name_are_one_member() -> None:
    """The last value in the place of the first, as in Python's dict."""
    numbers = [(INT16, bytes([i, 0])) for i in range(6)]
    binary = document(container(SMALL_OBJECT, numbers, [b"b", b"a", b"b", b"a", b"b", b"c"]))

    assert json_text(binary) == b'{"b": 4, "a": 3, "c": 5}'
    check(binary)


BAD_DECIMAL: Final = (OPAQUE, bytes([ColumnType.NEWDECIMAL, 3, 3, 1, 0xFF]))


@pytest.mark.parametrize(
    "hidden", [BAD_DECIMAL, (STRING, b"\2\xff\xff"), (DOUBLE, struct.pack("<d", math.inf)), (14, b"\0")]
)
@pytest.mark.parametrize("names", [[b"a", b"a", b"b"], [b"a", b"b", b"a"], [b"b", b"a", b"a"]])
def test_a_damaged_member_that_another_hides_agrees(hidden: Value, names: list[bytes]) -> None:
    """A value that is read but not shown is refused for what reading finds, not for what printing would."""
    for at in range(3):
        for nest in (False, True):
            values: list[Value] = [(INT16, b"\1\0")] * 3
            values[at] = container(SMALL_ARRAY, [hidden]) if nest else hidden
            check(document(container(SMALL_OBJECT, values, names)))


@pytest.mark.parametrize("kind", [SMALL_ARRAY, LARGE_ARRAY, SMALL_OBJECT, LARGE_OBJECT])
def test_nesting_stops_at_the_limit_of_the_server(kind: int) -> None:
    names = [b"k"] if kind in (SMALL_OBJECT, LARGE_OBJECT) else None
    value: Value = (STRING, b"\1x")
    for depth in range(1, MAX_DEPTH + 4):
        value = container(kind, [value], names)

        assert (json_text(document(value)) is None) == (depth > MAX_DEPTH)
        check(document(value))


def test_a_container_in_itself_is_refused() -> None:
    for padding in (0, 100, 10_000):
        binary = bytes([SMALL_ARRAY, 2, 0, 10, 0, SMALL_ARRAY, 0, 0, SMALL_ARRAY, 0, 0]) + bytes(padding)

        assert json_text(binary) is None
        check(binary)


def test_a_string_that_many_entries_share_is_refused() -> None:
    """A few kilobytes must not stand for megabytes."""
    count, text = 1000, b"x" * 2000
    at = 4 + 3 * count
    head = count.to_bytes(2, "little") + (at + 2 + len(text)).to_bytes(2, "little")
    entries = (bytes([STRING]) + at.to_bytes(2, "little")) * count
    binary = bytes([SMALL_ARRAY]) + head + entries + varlen(len(text)) + text

    assert json_text(binary) is None
    check(binary)


def test_a_string_that_two_entries_share_while_there_is_slack_agrees() -> None:
    for padding in range(12):
        binary = bytes([SMALL_ARRAY, 2, 0, 14, 0, STRING, 10, 0, STRING, 10, 0, 3]) + b"abc" + bytes(padding)
        check(binary)


@pytest.mark.parametrize(
    "size", [b"\x80", b"\xff\xff\xff\xff\xff", b"\xff\xff\xff\xff\x7f", b"\x80\x80\x80\x80\x00", b"\x81\x00x"]
)
def test_lengths_of_many_bytes_agree(size: bytes) -> None:
    for kind in (bytes([STRING]), bytes([OPAQUE, 15]), bytes([OPAQUE, ColumnType.NEWDECIMAL])):
        check(kind + size)
        check(kind + size + bytes(200))
