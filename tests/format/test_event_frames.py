"""Rows events by construct: the same bytes as the kernel's, from record batches of every type, and the same errors."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from binlogio.constants import ColumnType as T
from binlogio.errors import BinlogError, BinlogFormatError
from binlogio.format.event_frames import EventFrames
from both_kernels import KERNELS, Said, kernel_set_to
from encode_cases import ROW_TABLES, batch_of, bitmaps, encode_rows_events, table_of
from rowimage_cases import plan as plan_of


def _encoded(kernel: str, *args: Any, **options: Any) -> bytes | Said:
    with kernel_set_to(kernel):
        try:
            buffer = encode_rows_events(*args, table_id=7, timestamp=1_700_000_000, **options)
            assert len(buffer) == buffer.end - options.get("offset", 4)
            return bytes(buffer)
        except BinlogError as exc:
            return Said.of(exc)


@settings(max_examples=100)
@given(
    case=ROW_TABLES,
    operation=st.sampled_from(("insert", "update", "delete")),
    max_size=st.sampled_from((0, 100, 300, 8192)),
    offset=st.sampled_from((4, 0xFFFFFF00, 1 << 33)),
    checksum=st.booleans(),
    data=st.data(),
)
def test_both_implementations_write_the_same_events(
    case: Any, operation: Any, max_size: int, offset: int, checksum: bool, data: st.DataObject
) -> None:
    columns, rows = case
    plan = table_of(*columns, spare_null_bits=data.draw(st.integers(0, 1)))
    bits = bitmaps(len(columns))
    before = batch_of(plan, rows) if operation != "insert" else None
    after = batch_of(plan, rows[::-1]) if operation != "delete" else None
    more = {"present": data.draw(bits), "present_after": data.draw(bits)}
    found = [
        _encoded(
            kernel,
            plan,
            operation,
            before,
            after,
            row_event_max_size=max_size,
            offset=offset,
            checksum=checksum,
            **more,
        )
        for kernel in KERNELS
    ]

    assert found[0] == found[1]
    assert isinstance(found[0], bytes)


ARRAYS = st.sampled_from(
    [
        pa.array([1, None, 300]),
        pa.array([1.5, float("nan")]),
        pa.array(["a", "é" * 90, None]),
        pa.array([b"\xff", b""]),
        pa.array([True]),
        pa.array([{"srid": 1, "wkb": None}]),
        pa.array([[1.0, None]], pa.list_(pa.float32())),
        pa.array([10**18], pa.timestamp("ns")),
        pa.array([-1], pa.duration("s")),
        pa.array(["x", "y", "x"]).dictionary_encode(),
        pa.nulls(2),
    ]
)


@settings(max_examples=100)
@given(
    column=st.sampled_from(
        [
            (T.TINY, 0),
            (T.VARCHAR, 80),
            (T.NEWDECIMAL, 0x0A02),
            (T.DATETIME2, 6),
            (T.TIME2, 0),
            (T.JSON, 4),
            (T.GEOMETRY, 4),
            (T.VECTOR, 4),
            (T.BIT, 5),
        ]
    ),
    array=ARRAYS,
)
def test_arrays_of_other_types_are_taken_or_refused_alike(column: tuple[int, int], array: pa.Array) -> None:
    """What a column does not take is said with the row and the column."""
    plan = plan_of(column, names="a")
    batch = pa.RecordBatch.from_arrays([array], ["a"])
    compiled, construct = (_encoded(kernel, plan, "insert", None, batch) for kernel in KERNELS)

    assert compiled == construct


def test_frame_of_another_length_is_refused() -> None:
    frames = EventFrames()

    with pytest.raises(BinlogFormatError, match="not as long as its header says"):
        frames.add_frame(bytes(30))
    assert bytes(frames) == b""
