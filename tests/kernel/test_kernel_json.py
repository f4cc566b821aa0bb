"""Binary JSON in the kernel: values, strings and real documents have the same text as `JsonDocument.text`."""

from __future__ import annotations

import itertools
import json
import random
import struct
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import binlogio
from binlogio.constants import ColumnType, EventType
from binlogio.events import RowsEvent
from binlogio.values.decimal import decimal_size
from binlogio.values.json import JsonDocument
from corpus import MYSQL

pytest.importorskip("binlogio._kernel.json_documents", reason="the kernel is not compiled")

from binlogio._kernel.column_kinds import JSON
from binlogio._kernel.column_values import Column
from binlogio._kernel.json_documents import json_text
from json_bytes import LITERAL, SMALL_OBJECT, check, container, document, opaque, varlen

# ------------------------------------------------------------------------------------------------------- real documents


def _documents(case: str) -> list[bytes]:
    found = []
    with binlogio.open(MYSQL / case / "binlog.000001") as reader:
        for event in reader:
            if isinstance(event, RowsEvent):
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


def json_string(data: bytes) -> bytes | None:
    """Return the kernel's text of a document that is a string of these bytes."""
    size = bytes([len(data)]) if len(data) < 0x80 else bytes([0x80 | len(data) & 0x7F, len(data) >> 7])
    return json_text(b"\x0c" + size + data)


class _Rows:
    """The JSON columns of a fixture's after images, by the kernel alone."""

    def __init__(self, case: str, widths: list[int], json_columns: list[int]) -> None:
        decoder, scanner = (
            pytest.importorskip(f"binlogio._kernel.{name}") for name in ("row_decoder", "event_scanner")
        )
        slots = [json_columns.index(i) if i in json_columns else -1 for i in range(len(widths))]
        plan = scanner.ImagePlan(None, widths, slots, json_columns, wanted=True)
        columns = [Column(JSON, -4) for _ in json_columns]
        data = (MYSQL / case / "binlog.000001").read_bytes()
        router = scanner.EventScanner(lambda body: plan, None, checksum=True)
        assert data[8] == EventType.FORMAT_DESCRIPTION_EVENT
        router.scan(data, 4 + int.from_bytes(data[13:17], "little"), 0)
        self.batch = decoder.Batch(plan, columns)
        ((_, first_event),) = router.found()
        self.batch.fill(router, first_event, 0, 0, 1 << 20, 1 << 40)
        self.batch.finish()
        self.after = [self._texts(column) for column in self.batch.after.columns]

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
            for change in reader.rows(event) if isinstance(event, RowsEvent) else ():
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
        for after in (0, 1, 7, 8, 9):
            text = "x" * before + special + "y" * after
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


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def test_utf8_in_blocks_is_what_python_takes() -> None:
    """Long texts are checked in blocks of 32 bytes: first and later bytes at each limit, around the ends of blocks."""
    seconds, later = b"A\x7f\x80\x8f\x90\x9f\xa0\xbf\xc0\xe0\xf0", b"A\x80\xbf\xc2"
    firsts = b"A\x7f\x80\xbf\xc0\xc1\xc2\xdf\xe0\xe1\xec\xed\xee\xef\xf0\xf1\xf3\xf4\xf5\xff"
    answers = set()
    for number, codes in enumerate(itertools.product(firsts, seconds, later, later)):
        for place in (60 + number % 5, 92 + number % 5):
            for text in (b"x" * place + bytes(codes) + b"y" * 30, b"x" * place + bytes(codes)):
                is_good = _is_utf8(text)
                answers.add(is_good)
                assert (json_text(b"\x0c" + varlen(len(text)) + text) is not None) == is_good, text
    assert answers == {False, True}


@pytest.mark.parametrize("size", [63, 64, 65, 95, 96, 97, 128])
@pytest.mark.parametrize("end", ["é", "€", "😀"])
def test_character_cut_off_at_the_end_is_no_utf8(size: int, end: str) -> None:
    for cut in range(1, len(end.encode()) + 1):
        text = end.encode()[:cut].rjust(size, b"x")
        assert (json_text(b"\x0c" + varlen(size) + text) is not None) == (cut == len(end.encode()))
