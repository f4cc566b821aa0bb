"""What the kernel's encoder refuses: values that do not fit, images that do not belong, buffers that lie."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from binlogio._kernel import column_kinds as kinds
from binlogio._kernel.row_encoder import Cells, EventBuffer, RowsEncoder
from binlogio.constants import CHECKSUM_SIZE, HEADER_SIZE, EventType
from binlogio.constants import ColumnType as T
from binlogio.errors import BinlogError, BinlogFormatError, WriterStateError
from binlogio.rows.image import RowChange, RowImage, decode_rows, encode_rows
from binlogio.rows.packing import main_cells
from binlogio.rows.plan import TablePlan
from binlogio.values.json import JsonDocument
from encode_cases import COLUMNS, batch_of, encode_rows_events, rows_events_of, table_of
from rowimage_cases import LATIN1, UTF8MB4, column

# ------------------------------------------------------------------------------------------------------------ errors

REFUSED: list[tuple[Any, pa.Array]] = [
    (column(T.INT24), pa.array([0, 1 << 23], pa.int32())),
    (column(T.INT24, unsigned=True), pa.array([0, 1 << 24], pa.uint32())),
    (column(T.TINY), pa.array([0, 128], pa.int64())),
    (column(T.YEAR), pa.array([0, 1900], pa.int16())),
    (column(T.BIT, 5), pa.array([0, 32], pa.uint64())),
    (column(T.NEWDECIMAL, 0x0302), pa.array([Decimal(1), Decimal(10)])),
    (column(T.NEWDECIMAL, 0x0302), pa.array([Decimal(1), Decimal("0.001")])),
    (column(T.DATETIME2, 3), pa.array([None, datetime(2024, 1, 1, microsecond=1)], pa.timestamp("us"))),
    (column(T.DATETIME2, 3), pa.array([None, datetime(2024, 1, 1)], pa.timestamp("us", "UTC"))),
    (column(T.TIMESTAMP2, 0), pa.array([None, datetime(1969, 1, 1)], pa.timestamp("us", "UTC"))),
    (column(T.TIMESTAMP2, 0), pa.array([None, datetime(2107, 1, 1)], pa.timestamp("us", "UTC"))),
    (column(T.TIME2, 0), pa.array([None, timedelta(hours=5000)], pa.duration("us"))),
    (column(T.TIME), pa.array([None, timedelta(microseconds=1)], pa.duration("us"))),
    (column(T.VARCHAR, 4, collation_id=UTF8MB4), pa.array(["abcd", "abcde"])),
    (column(T.VARCHAR, 4, collation_id=LATIN1), pa.array(["é", "日"])),
    (column(T.STRING, 0xFE04, collation_id=LATIN1), pa.array(["abcd   ", "abcde"])),
    (column(T.STRING, 0xFE04, collation_id=63), pa.array([b"abcd\0", b"abcde"])),
    (column(T.STRING, 0xF701, members=("a", "b")), pa.array(["a", "c"])),
    (column(T.STRING, 0xF801, members=("a", "b")), pa.array(["b,a", "a,c"])),
    (column(T.STRING, 0xF701), pa.array([1, 256], pa.uint16())),
    (column(T.JSON, 4), pa.array(["[1]", "[1"])),
    (column(T.VECTOR, 4, dimension=1), pa.array([[1.0], [1.0, 2.0]], pa.list_(pa.float32()))),
    (column(T.STRING, 0xFE10, collation_id=63, native="inet4"), pa.array([None, "x"])),
    (column(T.LONG), pa.array([None, "x"])),
]


def _encode_by_construct(table: TablePlan, value: Any) -> bytes:
    if table.columns[1].type == T.JSON:
        value = JsonDocument.from_text(value)
    image = RowImage(table, (2, tuple(value) if isinstance(value, list) else value))
    return encode_rows([RowChange(None, image)], table, b"\3")


@pytest.mark.parametrize(("plan", "array"), REFUSED, ids=lambda value: str(getattr(value, "type", value))[:30])
def test_a_value_that_does_not_fit_is_construct_s_error_with_its_row(plan: Any, array: pa.Array) -> None:
    """The facts are those of construct's own error; the row and the column are named."""
    table = table_of(column(T.LONG), plan)
    first = pa.array([1, 2], pa.int32())
    with pytest.raises(BinlogError) as expected:
        _encode_by_construct(table, array[1].as_py())
    with pytest.raises(BinlogFormatError) as actual:
        encode_rows_events(table, "insert", after=pa.RecordBatch.from_arrays([first, array], ["c0", "c1"]), table_id=1)

    facts = [(error.value.reason, error.value.expected, error.value.found) for error in (expected, actual)]
    assert facts[0] == facts[1]
    assert str(actual.value.field).startswith("row 1, column c1")


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (
            pa.Array.from_buffers(pa.timestamp("us"), 1, [None, pa.py_buffer((1 << 62).to_bytes(8, "little"))]),
            "row 0, column c0",
        ),
        (
            pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(bytes(4) + b"\1\0\0\0"), pa.py_buffer(b"\xff")]),
            "invalid Arrow array",
        ),
    ],
)
def test_what_python_cannot_hold_is_refused(array: pa.Array, message: str) -> None:
    """A moment after the year 9999, and bytes that are no UTF-8."""
    plan = column(T.DATETIME2, 6) if pa.types.is_timestamp(array.type) else column(T.VARCHAR, 80, collation_id=UTF8MB4)
    with pytest.raises(BinlogFormatError, match=message):
        encode_rows_events(table_of(plan), "insert", after=pa.RecordBatch.from_arrays([array], ["c0"]), table_id=1)


def test_images_that_are_not_those_of_the_operation_are_refused() -> None:
    """Missing and superfluous images, batches of different length, columns that are missing, unknown or there twice."""
    plan = table_of(column(T.LONG), column(T.LONG))
    batch = batch_of(plan, [[1, 2]])
    two = batch_of(plan, [[1, 2], [3, 4]])
    for operation, before, after, more in (
        ("insert", batch, batch, {}),
        ("insert", None, None, {}),
        ("delete", None, batch, {}),
        ("update", batch, two, {}),
        ("upsert", None, batch, {}),
        ("insert", None, batch.select(["c0"]), {}),
        ("insert", None, batch.rename_columns(["c0", "x"]), {}),
        ("insert", None, batch.rename_columns(["c0", "c0"]), {}),
        ("insert", None, batch, {"present": b"\1\1"}),
    ):
        with pytest.raises(BinlogFormatError):
            encode_rows_events(plan, operation, before, after, table_id=1, **more)  # type: ignore[arg-type]


# ----------------------------------------------------------------------------------------------------------- hostile


@settings(max_examples=120)
@given(
    case=st.sampled_from(COLUMNS),
    length=st.integers(0, 20),
    buffers=st.lists(st.none() | st.binary(max_size=80), min_size=4, max_size=4),
    starts=st.lists(st.integers(0, 9), min_size=4, max_size=4),
)
def test_garbage_in_buffers_stays_within_them(case: Any, length: int, buffers: list[Any], starts: list[int]) -> None:
    """Any bytes as buffers of any column: bytes of an event, or an error; nothing is read beyond the buffers."""
    found = main_cells(case[0])
    if found is None:
        return
    validity, values, offsets, srids = buffers
    try:
        found.bind(
            length,
            validity=validity,
            validity_offset=starts[0],
            data=values,
            data_offset=starts[1],
            offsets=offsets,
            offsets_offset=starts[2],
            srids=srids,
            srids_offset=starts[3],
        )
    except ValueError:
        return
    buffer = EventBuffer(4)
    encoder = RowsEncoder(
        buffer, type_code=30, timestamp=0, server_id=0, table_id=1, flags=0, column_count=1, present=b"\1",
        present_after=None,
        before=None, after=[found], max_size=64,
    )  # fmt: skip
    done = encoder.append(0, length)
    encoder.finish()

    assert done == len(
        [change for event in rows_events_of(bytes(buffer)) for change in decode_rows(event, table_of(case[0]))]
    )


def test_offsets_that_go_back_or_beyond_are_refused() -> None:
    """Each way in which offsets can lie."""
    strings = Cells(kinds.BYTES, 2, limit=1000)
    for numbers in ((0, 5), (3, 2), (-1, 2), (0, -5)):
        with pytest.raises(ValueError, match="offset"):
            strings.bind(1, offsets=b"".join(n.to_bytes(4, "little", signed=True) for n in numbers), data=b"abcd")
    with pytest.raises(ValueError, match="needed"):
        strings.bind(2, offsets=bytes(8), data=b"")
    with pytest.raises(ValueError, match="missing"):
        Cells(kinds.SIGNED, 4).bind(1)


def test_a_buffer_that_is_being_read_cannot_grow() -> None:
    """The memory after a view stays where it is."""
    buffer = EventBuffer(4)
    buffer.add(EventType.XID_EVENT, 0, 1, 0, bytes(8))
    with memoryview(buffer) as view:
        with pytest.raises(WriterStateError):
            buffer.add(EventType.XID_EVENT, 0, 1, 0, bytes(8))
        assert len(view) == len(buffer) == HEADER_SIZE + 8 + CHECKSUM_SIZE
    buffer.clear(4)

    assert bytes(buffer) == b""
