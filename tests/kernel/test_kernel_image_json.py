"""Row images as JSON by the kernel, against the event reader: the same text, and refused what it refuses."""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from decimal import Context, Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlogio._kernel import column_kinds as kinds
from binlogio._kernel.row_decoder import MixedBatch
from binlogio.columnar.batches.mixed_batches import image_json, mixed_record_batch
from binlogio.columnar.batches.records import Repeated
from binlogio.columnar.row_values import image_text
from binlogio.constants import ColumnType as T
from binlogio.constants import EventType
from binlogio.errors import BinlogFormatError
from binlogio.rows.image import decode_rows
from binlogio.rows.plan import TablePlan
from binlogio.values.charsets import CHARSET_NAMES, charset_of
from binlogio.values.column import ColumnPlan
from binlogio.values.decimal import decimal_size, encode_decimal
from binlogio.values.json import JsonDocument
from binlogio.values.numbers import float_text
from json_bytes import opaque
from kernel_rows import one_value, route_rows, rows_event
from kernel_texts import kernel_text
from rowimage_cases import BINARY, VALUES, column

if TYPE_CHECKING:
    from collections.abc import Sequence

Pairs = list[tuple[str | None, str | None]]
COLLATIONS = {
    name: next(number for number, found in CHARSET_NAMES.items() if found == name)
    for name in set(CHARSET_NAMES.values())
}
MEMBERS = ("a", 'quo"te', "é\n", "\x80", "")


def table_of(*columns: ColumnPlan) -> TablePlan:
    """Return the plan of a table of these columns, in this order."""
    placed = [(position, one) for position, one in enumerate(columns)]
    return TablePlan(schema="d", table="t", columns=tuple(_at(position, one) for position, one in placed))


def _at(position: int, one: ColumnPlan) -> ColumnPlan:
    return replace(one, position=position)


def by_events(plan: TablePlan, events: Sequence[Any]) -> Pairs | None:
    """Return the images as the event reader has them; None where it refuses them."""
    try:
        changes = [change for event in events for change in decode_rows(event, plan)]
        return [(image_text(one.before), image_text(one.applied())) for one in changes]
    except BinlogFormatError:
        return None


def by_kernel(plan: TablePlan, events: Sequence[Any], most: int = 1 << 20) -> Pairs | None:
    """Return the images as the kernel has them; None where it refuses them."""
    table = image_json(plan)
    router, _ = route_rows(table.plan, *events)
    place, pairs = (0, 0, 0), []
    while place[0] < router.rows_event_count:
        batch = MixedBatch([table])
        place = batch.fill(router, *place, most, 1 << 30)
        if batch.failed_event >= 0:
            return None
        records = mixed_record_batch(batch, "f", Repeated())
        records.validate(full=True)
        pairs += list(zip(records["before"].to_pylist(), records["after"].to_pylist(), strict=True))
    return pairs


def check(plan: TablePlan, *events: Any) -> Pairs | None:
    """Return the images, which must be the same both ways."""
    found = by_kernel(plan, events)

    assert by_events(plan, events) == found
    return found


@pytest.mark.parametrize(("plan", "data"), [(case[1], case[3]) for case in VALUES], ids=[case[0] for case in VALUES])
def test_golden_values_have_the_json_of_the_event_reader(plan: ColumnPlan, data: str) -> None:
    table = table_of(plan)
    found = check(table, rows_event(table, one_value(plan, bytes.fromhex(data))))

    assert found is not None
    assert list(json.loads(found[0][1] or "")) == ["@1"]


def _columns() -> list[ColumnPlan]:
    fixed = [
        *(
            column(kind, unsigned=unsigned)
            for kind in (T.TINY, T.SHORT, T.INT24, T.LONG, T.LONGLONG)
            for unsigned in (False, True)
        ),
        column(T.YEAR),
        column(T.FLOAT, 4),
        column(T.DOUBLE, 8),
        *(
            column(T.NEWDECIMAL, precision << 8 | scale)
            for precision, scale in ((1, 0), (5, 5), (18, 9), (38, 10), (65, 30))
        ),
        column(T.DATE),
        *(column(kind, fsp) for kind in (T.TIME2, T.DATETIME2, T.TIMESTAMP2) for fsp in range(7)),
        *(column(kind, fsp=fsp) for kind in (T.TIME, T.DATETIME, T.TIMESTAMP) for fsp in range(7)),
        column(T.BIT, 5),
        column(T.BIT, 0x0800),
        column(T.ENUM, 0xF701, members=MEMBERS),
        column(T.ENUM, 0xF702),
        column(T.SET, 0xF801, members=MEMBERS),
        column(T.SET, 0xF808),
        column(T.DECIMAL, length=6),
    ]
    sized = [
        *(column(T.VARCHAR, 200, collation_id=number) for number in (None, *COLLATIONS.values())),
        *(
            column(T.VARCHAR_COMPRESSED, 200, collation_id=COLLATIONS[name])
            for name in ("utf8mb4", "latin1", "gbk", "binary")
        ),
        column(T.STRING, 0xFE08, collation_id=BINARY),
        column(T.STRING, 0xFE10, collation_id=BINARY, native="uuid"),
        column(T.STRING, 0xFE10, collation_id=BINARY, native="inet6"),
        column(T.STRING, 0xFE04, collation_id=BINARY, native="inet4"),
        column(T.JSON, 1),
        column(T.GEOMETRY, 1),
        column(T.VECTOR, 1),
    ]
    return fixed + sized


COLUMNS = _columns()


@given(st.sampled_from(COLUMNS), st.binary(max_size=24))
def test_any_bytes_have_the_json_of_the_event_reader(plan: ColumnPlan, data: bytes) -> None:
    table = table_of(plan)
    sized = bytes([len(data)]) + data if plan.pack_length == 1 and plan.type not in (T.ENUM, T.SET, T.BIT) else data
    check(table, rows_event(table, b"\0" + sized))


@given(st.sampled_from([one for one in COLUMNS if one.type == T.VARCHAR]), st.text(max_size=12), st.binary(max_size=2))
def test_text_of_any_character_set_has_the_json_of_the_event_reader(plan: ColumnPlan, text: str, more: bytes) -> None:
    charset, data = charset_of(plan.collation_id), b""
    for character in text:
        try:
            data += charset.encode(character) if charset else b""
        except UnicodeEncodeError:
            continue
    data = (data + more)[:200]
    table = table_of(plan)
    check(table, rows_event(table, b"\0" + bytes([len(data)]) + data))


@given(st.floats(width=32) | st.integers(-149, 127).map(lambda power: 2.0**power))
def test_float_is_the_shortest_that_reads_back(value: float) -> None:
    assert json.dumps(float(float_text(value))).encode() == kernel_text(kinds.FLOAT, struct.pack("<f", value), width=4)


@given(st.floats())
def test_double_is_as_json_writes_it(value: float) -> None:
    assert json.dumps(value).encode() == kernel_text(kinds.DOUBLE, struct.pack("<d", value), width=8)


def test_every_power_of_two_is_the_shortest_float_that_reads_back() -> None:
    for exponent in range(1, 255):
        (value,) = struct.unpack("<f", struct.pack("<I", exponent << 23))

        assert json.dumps(float(float_text(value))).encode() == kernel_text(
            kinds.FLOAT, struct.pack("<f", value), width=4
        )


THREE = table_of(
    column(T.LONG, name='k"é'), column(T.VARCHAR, 200, collation_id=45, name="v"), column(T.JSON, 1, name="j")
)
ROW = bytes.fromhex("00 07000000 036e2261 020400")


@pytest.mark.parametrize(
    ("code", "images", "present", "after"),
    [
        (EventType.WRITE_ROWS_EVENT, ROW + ROW, b"", b""),
        (EventType.DELETE_ROWS_EVENT, ROW, b"", b""),
        (EventType.UPDATE_ROWS_EVENT, ROW + bytes.fromhex("00 08000000 0161 020401") + ROW + ROW, b"", b""),
        (EventType.UPDATE_ROWS_EVENT, bytes.fromhex("00 07000000 00 0162"), b"\1", b"\2"),
        (EventType.WRITE_ROWS_EVENT, bytes.fromhex("06 07000000"), b"", b""),
        (EventType.WRITE_ROWS_EVENT, b"", b"\0", b""),
        (EventType.UPDATE_ROWS_EVENT, b"", b"\0", b"\0"),
        (EventType.WRITE_ROWS_EVENT, b"\0", b"\0", b""),
        (EventType.WRITE_ROWS_EVENT, ROW[:-1], b"", b""),
    ],
    ids=["two inserts", "delete", "updates", "minimal", "nulls", "bare row", "no bare update", "too many bytes", "cut"],
)
def test_images_have_the_columns_that_the_log_has(code: int, images: bytes, present: bytes, after: bytes) -> None:
    check(THREE, rows_event(THREE, images, code, present=present, after=after))


def sized(data: bytes) -> bytes:
    """Bytes after their length, as JSON columns have it."""
    return len(data).to_bytes(4, "little") + data


DOCUMENT = table_of(column(T.JSON, 4, name="j"))
TEXT = table_of(column(T.BLOB, 2, collation_id=COLLATIONS["utf8mb4"], name="t"))
ESCAPED = ('"', "\\", "\n", "\0", "\x1f", "é", "\x7f")


def texts(*values: str) -> bytes:
    """Images of rows whose one value is a text."""
    found = [value.encode() for value in values]
    return b"".join(b"\0" + len(data).to_bytes(2, "little") + data for data in found)


@pytest.mark.parametrize("character", ESCAPED)
def test_escapes_are_found_at_every_place_of_short_strings(character: str) -> None:
    values = ["a" * place + character + "b" * more for place in range(36) for more in range(20)]
    found = check(TEXT, rows_event(TEXT, texts(*values)))

    assert found is not None
    assert values == [json.loads(after or "")["t"] for _, after in found]


@pytest.mark.parametrize("size", [4094, 4095, 4096, 4097, 8192, 20000])
def test_long_strings_have_the_json_of_the_event_reader(size: int) -> None:
    values = ["x" * size, '"' * size, "\1" * size, "é" * (size // 2), "x" * (size - 2) + '"é']
    found = check(TEXT, rows_event(TEXT, texts(*values)))

    assert found is not None
    assert values == [json.loads(after or "")["t"] for _, after in found]


@pytest.mark.parametrize("size", [1, 15, 16, 17, 4096, 4097, 9000])
@pytest.mark.parametrize("character", ESCAPED)
def test_strings_of_documents_are_escaped_twice(character: str, size: int) -> None:
    text = "x" * (size - 1) + character
    document = JsonDocument.from_python({text[-100:]: [text, {"k" + character: text * 2}], "n": [1, 1.5, None, True]})
    found = check(DOCUMENT, rows_event(DOCUMENT, b"\0" + sized(document.binary)))

    assert found is not None
    assert document.text == json.loads(found[0][1] or "")["j"]


@pytest.mark.parametrize("kind", [7, 10, 11, 12, 246, 252], ids=str)
def test_values_of_sql_types_are_escaped_twice(kind: int) -> None:
    for data in (bytes(8), b"\x12\x34\x56\x07\x99\x71\x9a\x19", b"\x05\x02\x80\x0c\x22", bytes(range(200))):
        check(DOCUMENT, rows_event(DOCUMENT, b"\0" + sized(opaque(kind, data))))


@given(
    st.recursive(
        st.none() | st.text() | st.floats(allow_nan=False, allow_infinity=False),
        lambda one: st.lists(one) | st.dictionaries(st.text(), one),
    )
)
def test_any_document_has_the_json_of_the_event_reader(value: Any) -> None:
    found = check(DOCUMENT, rows_event(DOCUMENT, b"\0" + sized(JsonDocument.from_python(value).binary)))

    assert found is not None


@given(st.integers(1, 65), st.data())
def test_any_decimal_has_the_json_of_the_event_reader(precision: int, data: st.DataObject) -> None:
    scale = data.draw(st.integers(0, min(30, precision)))
    size = decimal_size(precision, scale)
    plan = table_of(column(T.NEWDECIMAL, precision << 8 | scale))
    check(plan, rows_event(plan, b"\0" + data.draw(st.binary(min_size=size, max_size=size))))


@given(st.integers(1, 40), st.data())
def test_decimals_have_the_digits_that_they_are_made_of(precision: int, data: st.DataObject) -> None:
    scale = data.draw(st.integers(0, min(30, precision)))
    value = Decimal(data.draw(st.integers(1 - 10**precision, 10**precision - 1))).scaleb(-scale, Context(prec=50))
    plan = table_of(column(T.NEWDECIMAL, precision << 8 | scale))
    found = check(plan, rows_event(plan, b"\0" + encode_decimal(value, precision, scale)))

    assert found == [(None, json.dumps({"@1": f"{value:f}"}, separators=(",", ":")))]


DIFFS = b"\0\x03$.a" + b"\x03\x05\x02\0"
OBJECT = bytes.fromhex("00 0100 0c00 0b00 0100 05 0100 61")


@pytest.mark.parametrize(
    ("before", "present", "after", "expected"),
    [
        (b"\0" + sized(OBJECT), b"\4", b"\0" + sized(DIFFS), [('{"j":"{\\"a\\": 1}"}', '{"j":"{\\"a\\": 2}"}')]),
        (b"\0\7\0\0\0", b"\1", b"\0" + sized(DIFFS), [('{"k\\"é":7}', '{"j":"JSON_REPLACE(j, \'$.a\', 2)"}')]),
        (b"\1", b"\4", b"\0" + sized(DIFFS), None),
        (b"\0" + sized(OBJECT), b"\4", b"\0" + sized(b""), [('{"j":"{\\"a\\": 1}"}', '{"j":"{\\"a\\": 1}"}')]),
    ],
    ids=["document", "absent", "null", "no diffs"],
)
def test_json_diffs_are_applied_to_the_before_image_or_shown(
    before: bytes, present: bytes, after: bytes, expected: Pairs | None
) -> None:
    table = table_of(*THREE.columns[:2], column(T.JSON, 4, name="j"))
    images = before + b"\1\1" + after
    event = rows_event(table, images, EventType.PARTIAL_UPDATE_ROWS_EVENT, present=present, after=b"\4")

    assert expected == check(table, event)


@given(st.lists(st.sampled_from([2, 3, 5]), min_size=1, max_size=4), st.integers(1, 4))
def test_batches_of_any_size_hold_the_same_rows(counts: list[int], most: int) -> None:
    events = [rows_event(THREE, ROW * count) for count in counts]

    assert by_kernel(THREE, events) == by_kernel(THREE, events, most)


def test_records_say_where_they_stand() -> None:
    table = image_json(THREE)
    router, _ = route_rows(table.plan, rows_event(THREE, ROW * 2), rows_event(THREE, ROW, EventType.DELETE_ROWS_EVENT))
    batch = MixedBatch([table])
    batch.fill(router, 0, 0, 0, 100, 1 << 20)
    records = mixed_record_batch(batch, "log", Repeated())

    assert records.drop_columns(["before", "after", "pos"]).to_pydict() == {
        "file": ["log"] * 3,
        "row": [0, 1, 0],
        "op": ["insert", "insert", "delete"],
        "timestamp": pa.array([1_700_000_000] * 3, pa.timestamp("s", "UTC")).to_pylist(),
        "server_id": [3] * 3,
        "gtid": [None] * 3,
        "last_committed": [None] * 3,
        "sequence_number": [None] * 3,
        "schema": ["d"] * 3,
        "table": ["t"] * 3,
        "before_present": [None, None, b"\7"],
        "after_present": [b"\7", b"\7", None],
    }
