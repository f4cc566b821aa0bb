"""Binary JSON in the kernel: the same text as `JsonDocument.text`, and a refusal for exactly the bytes that it refuses."""

from __future__ import annotations

import json
import math
import random
import struct
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

import binlogio
from binlogio.constants import ColumnType, EventType
from binlogio.errors import BinlogError
from binlogio.rowimage import JsonDocument
from binlogio.rowimage.decimal import decimal_size
from binlogio.rowimage.json_tree import MAX_DEPTH
from corpus import MYSQL

pytest.importorskip("binlogio._kernel.json_text", reason="the kernel is not compiled")

from binlogio._kernel.column_kinds import JSON
from binlogio._kernel.json_text import json_string, json_text

SMALL_OBJECT, LARGE_OBJECT, SMALL_ARRAY, LARGE_ARRAY, LITERAL, INT16 = range(6)
UINT16, INT32, UINT32, INT64, UINT64, DOUBLE, STRING, OPAQUE = 6, 7, 8, 9, 10, 11, 12, 15
WIDTHS: Final = {SMALL_OBJECT: 2, SMALL_ARRAY: 2, LARGE_OBJECT: 4, LARGE_ARRAY: 4}
Value = tuple[int, bytes]


def oracle(binary: bytes) -> bytes | None:
    """The text by construct and Python; None where they refuse."""
    try:
        return JsonDocument(binary).text.encode()
    except BinlogError:
        return None


def check(binary: bytes) -> None:
    """Compare kernel and oracle."""
    expected = oracle(binary)

    assert json_text(binary) == expected, binary.hex()


def varlen(size: int) -> bytes:
    """A length of up to two bytes."""
    return bytes([size]) if size < 0x80 else bytes([size & 0x7F | 0x80, size >> 7])


def opaque(type_code: int, data: bytes) -> bytes:
    """A document of one SQL value."""
    return bytes([OPAQUE, type_code]) + varlen(len(data)) + data


def container(kind: int, values: list[Value], names: list[bytes] | None = None) -> Value:
    """An array or object with its values behind offsets, in the order given, unless they fit their entry."""
    width = WIDTHS[kind]
    at = 2 * width + (1 + width) * len(values) + (width + 2) * len(names or ())
    keys, entries, behind = b"", b"", b""
    for name in names or ():
        keys += at.to_bytes(width, "little") + len(name).to_bytes(2, "little")
        behind += name
        at += len(name)
    for value_kind, data in values:
        inlined = LITERAL <= value_kind <= UINT64 and len(data) <= width
        entries += bytes([value_kind]) + (data.ljust(width, b"\0") if inlined else at.to_bytes(width, "little"))
        behind += b"" if inlined else data
        at += 0 if inlined else len(data)
    return kind, len(values).to_bytes(width, "little") + at.to_bytes(width, "little") + keys + entries + behind


def document(value: Value) -> bytes:
    """The bytes of a value as a whole document."""
    return bytes([value[0]]) + value[1]


RICH: Final = JsonDocument.from_python(
    {
        "": None,
        "a": [True, False, -1, 40_000, -(1 << 31), (1 << 32) - 1, -(1 << 63), (1 << 64) - 1],
        "b": {"x": 1.5, "yy": 'Grüße\n"\\', "y\x01": []},
        "c": [
            Decimal("-12.340"),
            datetime(2024, 2, 29, 23, 59, 58, 7),
            date(1, 1, 1),
            timedelta(hours=-838, microseconds=5),
        ],
        "d": [b"\0\1\2" * 30, {}, "x" * 130, 1e300],
    }
).binary

# ------------------------------------------------------------------------------------------------------- real documents


def _documents(case: str) -> list[bytes]:
    found = []
    with binlogio.open(MYSQL / case / "binlog.000001") as reader:
        for event in reader:
            if type(event).__name__.endswith("RowsEvent"):
                for change in reader.rows(event):
                    for image in (change.before, change.after):
                        values = image.values if image is not None else ()
                        found += [value.binary for value in values if isinstance(value, JsonDocument)]
    return found


@pytest.mark.parametrize("case", ["types_json", "partial_json"])
def test_documents_of_a_server_have_the_same_text(case: str) -> None:
    documents = _documents(case)

    assert documents
    for binary in documents:
        assert json_text(binary) == JsonDocument(binary).text.encode()


class _Rows:
    """The JSON columns of a fixture's after images, by the kernel alone."""

    def __init__(self, case: str, widths: list[int], json_columns: list[int]) -> None:
        columns, images, route, batches = (
            pytest.importorskip(f"binlogio._kernel.{name}") for name in ("columns", "images", "route", "batches")
        )
        slots = [json_columns.index(i) if i in json_columns else -1 for i in range(len(widths))]
        plan = images.ImagePlan(None, widths, slots, json_columns, wanted=True)
        sides: list[list[Any]] = [[columns.Column(JSON, -4) for _ in json_columns] for _ in range(2)]
        data = (MYSQL / case / "binlog.000001").read_bytes()
        router = route.Router(lambda body: plan, None, None, checksum=True)
        assert data[8] == EventType.FORMAT_DESCRIPTION_EVENT
        router.route(data, 4 + int.from_bytes(data[13:17], "little"), 0)
        self.batch = batches.Batch(plan, *sides)
        self.batch.fill(router, 0, 0, 0, 0, 1 << 20, 1 << 40)
        self.batch.finish()
        self.after = [self._texts(column) for column in sides[1]]

    @staticmethod
    def _texts(column: Any) -> list[bytes | None]:
        data, offsets, bits = (
            bytes(column.data),
            struct.unpack(f"<{column.count + 1}i", column.offsets),
            bytes(column.validity),
        )
        return [data[offsets[i] : offsets[i + 1]] if bits[i // 8] >> i % 8 & 1 else None for i in range(column.count)]


def test_a_json_column_of_a_server_is_text() -> None:
    """From the file's bytes to the column without Python on the way."""
    rows = _Rows("types_json", [4, -4, -4], [1, 2])
    expected: list[list[bytes | None]] = [[], []]
    with binlogio.open(MYSQL / "types_json" / "binlog.000001") as reader:
        for event in reader:
            for change in reader.rows(event) if type(event).__name__.endswith("RowsEvent") else ():
                for column, texts in enumerate(expected, 1):
                    value = change.after.values[column] if change.after is not None else None
                    texts.append(value.text.encode() if value is not None else None)

    assert rows.batch.failed_event == -1
    assert rows.after == expected


def test_a_json_column_leaves_diffs_to_its_caller() -> None:
    assert _Rows("partial_json", [4, 4, -4, -4, -2], [2, 3]).batch.failed_event >= 0


# -------------------------------------------------------------------------------------------------------------- values


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        (False, "false"),
        (0, "0"),
        (-1, "-1"),
        (-32768, "-32768"),
        (-32769, "-32769"),
        (1 << 31, "2147483648"),
        (-(1 << 63), "-9223372036854775808"),
        ((1 << 64) - 1, "18446744073709551615"),
        (1.0, "1.0"),
        (-0.0, "-0.0"),
        (1e15, "1e15"),
        (123456789012345.0, "123456789012345.0"),
        (5e-324, "5e-324"),
        ("", '""'),
        ('q"\\\b\f\n\r\t\x0b\x1f\x7fé😀', '"q\\"\\\\\\b\\f\\n\\r\\t\\u000b\\u001f\x7fé😀"'),
        (Decimal("-0.00"), "-0.00"),
        (Decimal("12345678901234567890.50"), "12345678901234567890.50"),
        (date(2024, 2, 29), '"2024-02-29"'),
        (datetime(9999, 12, 31, 23, 59, 59, 999999), '"9999-12-31 23:59:59.999999"'),
        (timedelta(hours=-838, minutes=-59, microseconds=-1), '"-838:59:00.000001"'),
        (b"", '"base64:type15:"'),
        (b"a", '"base64:type15:YQ=="'),
        (b"\xff" * 58, f'"base64:type15:{"/" * 76}\\n/w=="'),
        ([], "[]"),
        ({}, "{}"),
        ([1, [2, {"b": None, "a": []}]], '[1, [2, {"a": [], "b": null}]]'),
    ],
    ids=repr,
)
def test_a_value_has_the_text_that_the_server_prints(value: object, text: str) -> None:
    binary = JsonDocument.from_python(value).binary

    assert json_text(binary) == text.encode()
    check(binary)


def test_no_bytes_are_the_document_null() -> None:
    assert json_text(b"") == b"null"


@pytest.mark.parametrize("size", [0, 1, 2, 3, 7, 8, 9, 57, 114, 127, 128, 300])
def test_opaque_values_of_every_type_and_size_agree(size: int) -> None:
    for type_code in range(256):
        check(opaque(type_code, bytes(range(40, 40 + size)) if size < 128 else b"\x11" * size))


def test_opaque_temporal_values_agree() -> None:
    rng = random.Random(5)
    edges = [
        0,
        1,
        -1,
        999_999,
        1_000_000,
        -999_999,
        (1 << 63) - 1,
        -(1 << 63),
        (1 << 63) - 1 & ~0xFFFFFF,
        -(1 << 63) + 1,
    ]
    for packed in [*edges, *(rng.getrandbits(64) - (1 << 63) & ~(0xFF0000 if i & 1 else 0) for i in range(500))]:
        for kind in (ColumnType.DATE, ColumnType.TIME, ColumnType.DATETIME, ColumnType.TIMESTAMP):
            check(opaque(kind, packed.to_bytes(8, "little", signed=True)))


def test_opaque_decimals_of_every_precision_and_scale_agree() -> None:
    """Even those that no server has: a scale over the precision, 255 digits."""
    for precision in (*range(70), 100, 254, 255):
        for scale in (*range(min(precision, 40) + 3), 100, 254, 255):
            size = max(decimal_size(precision, scale), 0)
            head = bytes([precision, scale])
            for data in (b"\x80" + bytes(size), b"\x7f" + b"\xff" * size, bytes(size), b"\x81" + b"\0\1" * size):
                check(opaque(ColumnType.NEWDECIMAL, head + data[:size]))
            check(opaque(ColumnType.NEWDECIMAL, head + bytes(size + 1)))


@given(st.floats())
def test_a_double_of_any_bits_agrees(value: float) -> None:
    """Infinities and NaN are refused."""
    check(b"\x0b" + struct.pack("<d", value))


# ------------------------------------------------------------------------------------------------------------- strings


@pytest.mark.parametrize(
    "special", ['"', "\\", "\0", "\x1f", "\x20", "\x7f", "\n", "\x0b", "é", "€", "😀", "\x80", "\uffff"]
)
def test_a_character_in_any_place_is_quoted_as_json_quotes_it(special: str) -> None:
    for before in range(20):
        for behind in (0, 1, 7, 8, 9):
            text = "x" * before + special + "y" * behind
            for tail in ("", special, "#" + special):
                data = (text + tail).encode()

                assert json_string(data) == json.dumps(text + tail, ensure_ascii=False).encode()
                check(b"\x0c" + varlen(len(data)) + data)


@pytest.mark.parametrize("size", [4088, 4095, 4096, 4097, 8192, 8193])
def test_long_strings_are_quoted_across_chunks(size: int) -> None:
    for text in ("x" * size, "\1" * size, '"' * size, "x" * (size - 1) + "é"):
        assert json_string(text.encode()) == json.dumps(text, ensure_ascii=False).encode()
        check(JsonDocument.from_python([text, {text: text}]).binary)


@given(st.text())
def test_any_text_is_quoted_as_json_quotes_it(text: str) -> None:
    assert json_string(text.encode()) == json.dumps(text, ensure_ascii=False).encode()


@given(st.binary(max_size=40))
def test_bytes_that_may_not_be_utf8_agree(data: bytes) -> None:
    check(b"\x0c" + varlen(len(data)) + data)
    check(document(container(SMALL_OBJECT, [(LITERAL, b"\0")], [data])))


# ----------------------------------------------------------------------------------------------------------- documents

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
