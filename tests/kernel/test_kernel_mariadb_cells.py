"""MariaDB's own types, encoded by the kernel from Arrow as construct does: UUID, addresses, compressed columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from construct import GreedyBytes
from hypothesis import example, given, settings
from hypothesis import strategies as st

from binlogio._kernel import primitives
from binlogio._kernel.row_encoder import EventBuffer, RowsEncoder
from binlogio.arrow.column_arrays import ColumnArrays
from binlogio.constants import ColumnType as T
from binlogio.errors import BinlogFormatError
from binlogio.values.native import decode_native, encode_native
from binlogio.values.strings import CompressedColumn
from encode_cases import table_of
from rowimage_cases import BINARY, LATIN1, UTF8MB4, column

COLUMNS: dict[str, Any] = {
    "uuid": column(T.STRING, 0xFE10, collation_id=BINARY, native="uuid"),
    "inet4": column(T.STRING, 0xFE04, collation_id=BINARY, native="inet4"),
    "inet6": column(T.STRING, 0xFE10, collation_id=BINARY, native="inet6"),
}
LONG = 40  # bytes that no value has here
HEAD = 19 + 10 + 1 + 1 + 1  # header, post-header, width, bitmap, null bits


@pytest.fixture(params=["zlib", "python"])
def deflater(request: pytest.FixtureRequest) -> Iterator[str]:
    """Both ways to compress."""
    yield primitives.use_deflate(request.param)
    primitives.use_deflate()


def cell_bytes(plan: Any, array: pa.Array) -> list[bytes] | None:
    """Return the cells that the kernel alone encodes, without their lengths; None if it refuses a value."""
    (column_plan,) = table_of(plan).columns
    columns = ColumnArrays(column_plan)
    columns.bind(array)
    assert columns.cells is not None
    found = []
    for row in range(len(array)):
        buffer = EventBuffer(4, checksum=False)
        encoder = RowsEncoder(
            buffer, type_code=30, timestamp=0, server_id=0, table_id=1, flags=0, column_count=1, present=b"\1",
            present_after=None,
            before=None, after=[columns.cells], max_size=1 << 30,
        )  # fmt: skip
        if encoder.append(row, row + 1) == row:
            return None
        encoder.finish()
        found.append(bytes(buffer)[HEAD + column_plan.pack_length :])
    return found


def by_construct(text: str, native: str) -> bytes | None:
    """Without zeros at the end, as the row image has it; None where it is no value."""
    try:
        return encode_native(text, native, 4 if native == "inet4" else 16).rstrip(b"\0")
    except BinlogFormatError:
        return None


NEARLY = st.text("0123456789abcdefABCDEF:.-%{} ", max_size=LONG)
TEXTS = {
    "uuid": st.uuids().map(str) | st.uuids().map(lambda one: one.hex.upper()),
    "inet4": st.ip_addresses(v=4).map(str),
    "inet6": st.ip_addresses(v=6).map(str) | st.ip_addresses(v=6).map(lambda one: one.exploded.upper()),
}


@settings(max_examples=200)
@given(st.sampled_from(sorted(TEXTS)), st.data())
def test_text_of_a_native_type_is_what_construct_makes_of_it_or_refused(native: str, data: st.DataObject) -> None:
    """Values, values with a character more or less, and anything else."""
    text = data.draw(TEXTS[native] | NEARLY)
    at = data.draw(st.integers(0, len(text)))
    change = data.draw(st.sampled_from(("none", "cut", "add")))
    if change != "none":
        text = text[:at] + (data.draw(st.sampled_from(":.0f-")) if change == "add" else "") + text[at + 1 :]
    expected, actual = by_construct(text, native), cell_bytes(COLUMNS[native], pa.array([text]))

    assert actual in (None, [expected])


@pytest.mark.parametrize("native", COLUMNS)
@given(data=st.binary(min_size=16, max_size=16))
@example(data=bytes(16))
@example(data=bytes(10) + b"\xff\xff\1\2\3\4")
@example(data=b"\1" + bytes(15))
def test_text_that_servers_print_is_never_refused(native: str, data: bytes) -> None:
    """Every value there is."""
    data = data[:4] if native == "inet4" else data

    assert cell_bytes(COLUMNS[native], pa.array([decode_native(data, native)])) == [data.rstrip(b"\0")]


@pytest.mark.parametrize(("native", "size"), [("uuid", 16), ("inet4", 4), ("inet6", 16)])
def test_bytes_of_a_native_type_are_all_or_refused(native: str, size: int) -> None:
    """Neither fewer nor more."""
    assert cell_bytes(COLUMNS[native], pa.array([b"\1" * size])) == [b"\1" * size]
    for other in (size - 1, size + 1):
        assert cell_bytes(COLUMNS[native], pa.array([b"\1" * other])) is None


SHORT = st.binary(max_size=300)
REPEATED = st.tuples(st.binary(min_size=1, max_size=20), st.integers(1, 5000)).map(lambda pair: pair[0] * pair[1])


@settings(max_examples=100)
@given(values=st.lists(SHORT | REPEATED, min_size=1, max_size=5))
@pytest.mark.usefixtures("deflater")
def test_compressed_values_have_construct_s_bytes(values: list[bytes]) -> None:
    """Short ones, those that are worth it, and those that are not; one after another by one compressor."""
    plan = column(T.BLOB_COMPRESSED, 4, collation_id=BINARY)
    layout = CompressedColumn(GreedyBytes)

    assert cell_bytes(plan, pa.array(values, pa.binary())) == [layout.build(value) for value in values]
    assert [primitives.deflated(value) for value in values if value] == [
        layout.build(value) for value in values if value
    ]


@pytest.mark.parametrize(("collation", "charset"), [(LATIN1, "cp1252"), (UTF8MB4, "utf-8"), (54, "utf-16-be")])
def test_compressed_text_is_in_its_character_set(collation: int, charset: str) -> None:
    """It is put into that before it is compressed."""
    plan = column(T.VARCHAR_COMPRESSED, 60001, collation_id=collation)
    layout = CompressedColumn(GreedyBytes)
    texts = ["", "é", "né" * 5000, "n" * 99, "n" * 100, "ß" * 49]
    expected = [layout.build(text.encode(charset)) for text in texts]

    assert cell_bytes(plan, pa.array(texts)) == expected


def test_value_too_long_for_its_column_when_compressed_is_refused() -> None:
    """The column's limit is on the bytes that are stored."""
    plan = column(T.VARCHAR_COMPRESSED, 50, collation_id=BINARY)

    assert cell_bytes(plan, pa.array([b"a" * 5000])) is not None
    assert cell_bytes(plan, pa.array([bytes(range(50))])) is None
