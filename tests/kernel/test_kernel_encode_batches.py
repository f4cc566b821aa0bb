"""Batches of one schema, encoded by one encoder: as one by one by construct; offsets that go back are refused."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from binlogio._kernel import column_kinds as kinds
from binlogio._kernel.row_encoder import ArrowColumns, Cells, EventBuffer
from binlogio.arrow.encode import EVENT_TYPES, TableEncoder
from binlogio.constants import ColumnType as T
from binlogio.constants import EventType
from binlogio.errors import BinlogError
from both_kernels import Said, kernel_set_to
from encode_cases import ROW_TABLES, batch_of, bitmaps, encode_rows_events, table_of
from rowimage_cases import UTF8MB4, column

V1_EVENT_TYPES = {
    "insert": EventType.WRITE_ROWS_EVENT_V1,
    "update": EventType.UPDATE_ROWS_EVENT_V1,
    "delete": EventType.DELETE_ROWS_EVENT_V1,
}
LONG, TEXT = column(T.LONG), column(T.VARCHAR, 80, collation_id=UTF8MB4)


def _encoded(encoder: TableEncoder, before: Any, after: Any, number: int) -> bytes | Said:
    buffer = EventBuffer(4)
    try:
        encoder.encode(
            buffer, before, after, table_id=100 + number, timestamp=number, server_id=number, row_event_max_size=300
        )
    except BinlogError as exc:
        return Said.of(exc)
    return bytes(buffer)


def _by_construct(encoder: TableEncoder, before: Any, after: Any, number: int) -> bytes | Said:
    with kernel_set_to("construct"):
        try:
            return bytes(
                encode_rows_events(
                    encoder.plan,
                    encoder.operation,
                    before,
                    after,
                    table_id=100 + number,
                    timestamp=number,
                    server_id=number,
                    row_event_max_size=300,
                    present=encoder.present,
                    present_after=encoder.present_after,
                    type_code=encoder.type_code,
                )
            )
        except BinlogError as exc:
            return Said.of(exc)


@settings(max_examples=75)
@given(
    case=ROW_TABLES,
    operation=st.sampled_from(("insert", "update", "delete")),
    is_v1=st.booleans(),
    present=st.data(),
    turns=st.data(),
)
def test_an_encoder_gives_each_batch_the_bytes_of_construct(
    case: Any, operation: Any, present: st.DataObject, turns: st.DataObject, *, is_v1: bool
) -> None:
    """Batches, slices of them and tables of many chunks, in turn; in rows events of version 1 and 2."""
    columns, rows = case
    plan = table_of(*columns)
    bits = bitmaps(len(columns))
    type_code = (V1_EVENT_TYPES if is_v1 else EVENT_TYPES)[operation]
    encoder = TableEncoder(plan, operation, present.draw(bits), present.draw(bits), type_code=type_code)
    batch = batch_of(plan, rows)
    for number in range(4):
        start = turns.draw(st.integers(0, len(rows)))
        part: Any = batch.slice(start, turns.draw(st.integers(0, len(rows))))
        if turns.draw(st.integers(0, 3)) == 0:
            part = pa.Table.from_batches([part, part])
        before = part if operation != "insert" else None
        after = part if operation != "delete" else None

        assert _encoded(encoder, before, after, number) == _by_construct(encoder, before, after, number)


@pytest.mark.parametrize("value", [1 << 23, -(1 << 23) - 1])
def test_a_row_that_does_not_fit_is_named_in_the_second_batch_too(value: int) -> None:
    plan = table_of(LONG, column(T.INT24))
    encoder = TableEncoder(plan, "insert")
    schema = pa.schema([("c0", pa.int32()), ("c1", pa.int32())])
    good, bad = (pa.RecordBatch.from_pydict({"c0": [1, 2], "c1": [3, last]}, schema) for last in (4, value))
    expected = _by_construct(encoder, None, good, 0), _by_construct(encoder, None, bad, 1)
    found = [_encoded(encoder, None, batch, number) for number, batch in enumerate((good, bad, good))]

    assert found[:2] == list(expected)
    assert isinstance(found[1], Said)
    assert "row 1, column c1" in str(found[1])
    assert found[2] == _by_construct(encoder, None, good, 2)


def _ends(*ends: int) -> pa.Buffer:
    return pa.py_buffer(b"".join(end.to_bytes(4, "little", signed=True) for end in ends))


@pytest.mark.parametrize("ends", [(0, 9, 1, 2), (0, 2, 1, 3), (0, -5, 1, 2)], ids=str)
def test_offsets_that_go_back_are_refused_after_good_ones(ends: tuple[int, ...]) -> None:
    """As they are by an encoder that has seen no good ones; pyarrow itself refuses buffers that are too short."""
    plan = table_of(TEXT, LONG)
    array = pa.Array.from_buffers(pa.string(), 3, [None, _ends(*ends), pa.py_buffer(b"abc")])
    numbers = pa.array([1, 2, 3], pa.int32())
    bad = pa.RecordBatch.from_arrays([array, numbers], ["c0", "c1"])
    good = pa.RecordBatch.from_arrays([pa.array(["a", None, "é"]), numbers], ["c0", "c1"])
    fresh = _encoded(TableEncoder(plan, "insert"), None, bad, 1)
    encoder = TableEncoder(plan, "insert")
    found = [_encoded(encoder, None, batch, number) for number, batch in enumerate((good, bad, good))]

    assert isinstance(fresh, Said)
    assert found[1] == fresh
    assert isinstance(found[0], bytes)
    assert found[2] == _encoded(TableEncoder(plan, "insert"), None, good, 2)


def test_columns_of_a_capsule_are_checked() -> None:
    """Places that a batch does not have, arrays of another type, things that are no capsule, kinds with children."""
    batch = pa.RecordBatch.from_arrays([pa.array([1], pa.int32()), pa.array(["x"])], ["a", "b"])
    capsule = batch.__arrow_c_array__()[1]
    number, text = Cells(kinds.SIGNED, 4), Cells(kinds.UTF8, 1, limit=80)

    for cells, places in ([number], [2]), ([number], [1]), ([text], [0]):
        columns = ArrowColumns(cells, places)
        with pytest.raises(ValueError, match=r"columns, not|another type"):
            columns.bind(capsule)
        assert [one.length for one in cells] == [0]
    with pytest.raises(ValueError, match="PyCapsule"):
        ArrowColumns([number], [0]).bind(batch)
    with pytest.raises(ValueError, match="1 columns at 2 places"):
        ArrowColumns([number], [0, 1])
    with pytest.raises(ValueError, match="at place -1"):
        ArrowColumns([number], [-1])
    with pytest.raises(ValueError, match="kind"):
        ArrowColumns([Cells(kinds.GEOMETRY, 4, limit=100)], [0])
