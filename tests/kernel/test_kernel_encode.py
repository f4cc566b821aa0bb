"""Arrow to rows events by the kernel, against construct: the same bytes, and the same errors."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from binlogio import _kernel, constants
from binlogio._kernel import column_kinds as kinds
from binlogio._kernel.row_encoder import EventBuffer, RowsEncoder
from binlogio.arrow.column_arrays import ColumnArrays
from binlogio.arrow.encode import TableEncoder
from binlogio.constants import HEADER_SIZE, ChecksumAlgorithm, EventType, RowsFlag
from binlogio.constants import ColumnType as T
from binlogio.events import codec_for
from binlogio.events.base import EventHeader, ParseContext, parse_header
from binlogio.events.rows import WriteRowsEvent
from binlogio.format.encoder import Encoder
from binlogio.primitives import lenenc
from binlogio.rows.image import RowChange, RowImage, decode_rows, encode_rows
from binlogio.rows.plan import TablePlan
from binlogio.values.json import JsonDocument
from encode_cases import (
    COLUMNS,
    KINDS,
    ROW_TABLES,
    array_of,
    as_arrow,
    batch_of,
    bitmaps,
    encode_rows_events,
    image_of,
    rows_events_of,
    table_of,
)
from rowimage_cases import LATIN1, UTF8MB4, VALUES, column

CRC32 = ParseContext(checksum_algorithm=ChecksumAlgorithm.CRC32)
NO_CHECKSUM = ParseContext(checksum_algorithm=ChecksumAlgorithm.OFF)
HEADER = EventHeader(timestamp=1_700_000_000, server_id=7)


def by_construct(
    plan: TablePlan,
    operation: str,
    rows: list[tuple[RowImage | None, RowImage | None]],
    *,
    max_size: int,
    offset: int,
    context: ParseContext,
    present: bytes,
    present_after: bytes,
) -> bytes:
    """Return the rows events of a statement, one row at a time."""
    second = present_after if operation == "update" else None
    columns = len(plan.columns)
    fixed = 10 + len(lenenc(columns)) + len(present) * (2 if second is not None else 1)
    events: list[bytes] = []
    for before, after in rows:
        image = encode_rows([RowChange(before, after)], plan, present, second)
        if not events or not image or fixed + len(events[-1]) + len(image) > max_size:
            events.append(b"")
        events[-1] += image
    data = b""
    for number, images in enumerate(events):
        flags = RowsFlag.USE_SQL_FOREIGN_KEY | (RowsFlag.STMT_END if number == len(events) - 1 else 0)
        bitmaps = {"present": present} | ({"present_after": second} if second is not None else {})
        event = KINDS[operation](
            table_id=77, flags=int(flags), extra=b"", column_count=columns, images=images, header=HEADER, **bitmaps
        )
        data += Encoder(context).encode_at(event, offset + len(data))
    return data


def by_kernel(
    plan: TablePlan,
    operation: Any,
    before: Any,
    after: Any,
    *,
    offset: int,
    context: ParseContext,
    max_size: int,
    **more: Any,
) -> bytes:
    """Return the same through Arrow."""
    buffer = encode_rows_events(
        plan,
        operation,
        before,
        after,
        table_id=77,
        timestamp=HEADER.timestamp,
        server_id=HEADER.server_id,
        flags=RowsFlag.USE_SQL_FOREIGN_KEY,
        offset=offset,
        checksum=context.has_checksum,
        row_event_max_size=max_size,
        **more,
    )
    return bytes(buffer)


def image_bytes(plan: TablePlan, batch: pa.RecordBatch) -> bytes:
    """Return the images of inserted rows, which fit one event."""
    data = bytes(
        encode_rows_events(plan, "insert", after=batch, table_id=1, row_event_max_size=1 << 30, checksum=False)
    )
    event = codec_for(EventType.WRITE_ROWS_EVENT).parse(parse_header(data, 4), data[HEADER_SIZE:])
    assert isinstance(event, WriteRowsEvent)
    return event.images


# ---------------------------------------------------------------------------------------------------------- equality


@pytest.mark.parametrize(("plan", "value", "golden"), [pytest.param(*case[1:], id=case[0]) for case in VALUES])
def test_values_of_real_servers_become_their_bytes(plan: Any, value: Any, golden: str) -> None:
    """The golden bytes of every column type, from Arrow."""
    if value == b"" and plan.type == T.GEOMETRY:
        array = pa.array([value], pa.binary())
    else:
        try:
            array = array_of(plan, [value])
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            array = pa.array([as_arrow(value)])  # dates that no calendar has: as text
    table = table_of(plan)
    images = image_bytes(table, pa.RecordBatch.from_arrays([array], ["c0"]))

    assert images[1:] == bytes.fromhex(golden)


@settings(max_examples=120)
@given(
    case=ROW_TABLES,
    operation=st.sampled_from(("insert", "update", "delete")),
    max_size=st.sampled_from((0, 100, 300, 8192)),
    offset=st.sampled_from((4, 0xFFFFFF00, 1 << 33)),
    context=st.sampled_from((CRC32, NO_CHECKSUM)),
    spare=st.integers(0, 1),
    data=st.data(),
)
def test_the_kernel_writes_what_construct_writes(
    case: Any, operation: str, max_size: int, offset: int, context: ParseContext, spare: int, data: st.DataObject
) -> None:
    """Whole events of generated tables and rows: split, flagged, with positions and checksums."""
    columns, rows = case
    plan = table_of(*columns, spare_null_bits=spare)
    bits = bitmaps(len(columns))
    present, present_after = data.draw(bits, "present"), data.draw(bits, "present_after")
    after_bits = present_after if operation == "update" else present
    both = list(zip(rows, reversed(rows), strict=True))

    images = [
        (
            image_of(plan, old, present) if operation != "insert" else None,
            image_of(plan, new, after_bits) if operation != "delete" else None,
        )
        for old, new in both
    ]
    common: Any = {
        "offset": offset,
        "context": context,
        "max_size": max_size,
        "present": present,
        "present_after": present_after,
    }
    expected = by_construct(plan, operation, images, **common)
    actual = by_kernel(
        plan,
        operation,
        batch_of(plan, [old for old, _ in both]) if operation != "insert" else None,
        batch_of(plan, [new for _, new in both]) if operation != "delete" else None,
        **common,
    )

    assert expected == actual


@settings(max_examples=75)
@given(ROW_TABLES)
def test_rows_that_were_encoded_decode_to_the_same_rows(case: Any) -> None:
    """From Arrow to events and back through construct."""
    columns, rows = case
    plan = table_of(*columns)
    events = rows_events_of(bytes(encode_rows_events(plan, "insert", after=batch_of(plan, rows), table_id=1)))
    decoded = [change.after for event in events for change in decode_rows(event, plan)]
    again = batch_of(plan, [list(image.values) for image in decoded if image is not None])

    assert image_bytes(plan, batch_of(plan, rows)) == image_bytes(plan, again) if rows else events == []


@settings(max_examples=75)
@given(ROW_TABLES, st.integers(0, 12), st.integers(0, 12))
def test_slices_and_chunks_are_encoded_as_what_they_hold(case: Any, start: int, middle: int) -> None:
    """Arrow's offsets into buffers, of values, validity and children, are heeded."""
    columns, rows = case
    plan = table_of(*columns)
    part = batch_of(plan, rows).slice(start)
    chunked = pa.Table.from_batches([part.slice(0, middle), part.slice(middle)])
    expected = bytes(encode_rows_events(plan, "insert", after=batch_of(plan, rows[start:]), table_id=1))

    assert expected == bytes(encode_rows_events(plan, "insert", after=part, table_id=1))
    assert expected == bytes(encode_rows_events(plan, "insert", after=chunked, table_id=1))


@settings(max_examples=75)
@given(ROW_TABLES)
def test_the_kernel_refuses_no_value_that_fits(case: Any) -> None:
    """Nothing of what is generated here is left to construct."""
    columns, rows = case
    plan = table_of(*columns)
    arrays = [ColumnArrays(one) for one in plan.columns]
    for one, array in zip(arrays, batch_of(plan, rows).columns, strict=True):
        one.bind(array)
    encoder = RowsEncoder(
        EventBuffer(4), type_code=30, timestamp=0, server_id=0, table_id=1, flags=0, column_count=len(columns),
        present=b"", present_after=None, before=None, after=[one.cells for one in arrays if one.cells is not None],
        max_size=64,
    )  # fmt: skip

    assert len(rows) == encoder.append(0, len(rows))


@pytest.mark.parametrize(
    ("plan", "array"),
    [
        (column(T.TINY), pa.array([True, None, False])),
        (column(T.LONG), pa.array([1, None, 3], pa.int64())),
        (column(T.LONGLONG, unsigned=True), pa.array([1, None, 3], pa.int8())),
        (column(T.VARCHAR, 80, collation_id=UTF8MB4), pa.array(["a", None, "é"], pa.large_string())),
        (column(T.VARCHAR, 80, collation_id=UTF8MB4), pa.array(["a", None, "é"]).dictionary_encode()),
        (column(T.VARCHAR, 80, collation_id=UTF8MB4), pa.array([b"a", None, b"\xff"])),
        (column(T.NEWDECIMAL, 0x0A02), pa.array([Decimal("1.5"), None, Decimal(3)], pa.decimal128(5, 1))),
        (column(T.DATETIME2, 3), pa.array([datetime(2024, 1, 1), None, datetime(1, 1, 1)], pa.timestamp("ms"))),
        (column(T.TIMESTAMP2, 0), pa.array([datetime(2024, 1, 1), None, datetime(1999, 1, 1)], pa.timestamp("s"))),
        (column(T.DATE), pa.array(["0000-00-00", None, "2024-02-31"])),
        (column(T.DATETIME2, 2), pa.array(["0000-00-00 00:00:00", None, "2024-02-31 01:02:03.04"])),
        (column(T.STRING, 0xF701, members=("x", "y")), pa.array([2, None, 0])),
        (column(T.STRING, 0xF801, members=("x", "y")), pa.array([3, None, 0])),
        (column(T.STRING, 0xF801, members=("x", "x")), pa.array(["x", None, ""])),
        (column(T.JSON, 4), pa.array([b"\4\0", None, b"\4\1"])),
        (column(T.BIT, 5), pa.array([31, None, 0])),
        (column(T.VECTOR, 4), pa.array([[1.0], None, []], pa.list_(pa.float64()))),
        (column(T.LONG), pa.nulls(3)),
        (column(T.DECIMAL, length=8), pa.array(["-12.50", None, "1"])),
    ],
    ids=lambda value: str(getattr(value, "type", value))[:30],
)
def test_arrays_of_another_type_mean_the_same(plan: Any, array: pa.Array) -> None:
    """What the column takes in Python it takes from Arrow, whatever the array's type."""
    table = table_of(plan)
    values = [JsonDocument(value) if plan.type == T.JSON and value else value for value in array.to_pylist()]
    rows = [RowChange(None, RowImage(table, (tuple(v) if isinstance(v, list) else v,))) for v in values]

    assert encode_rows(rows, table, b"\1") == image_bytes(table, pa.RecordBatch.from_arrays([array], ["c0"]))


# --------------------------------------------------------------------------------------------------------- splitting


def test_rows_that_fill_an_event_to_the_byte_share_it() -> None:
    """Two rows of 4090 bytes share an event of 8192, two of 4091 do not: as measured on 9.7."""
    plan = table_of(column(T.BLOB, 2, collation_id=LATIN1))
    counts = []
    for size in (4090, 4091):
        rows = pa.RecordBatch.from_arrays([pa.array(["x" * (size - 3)] * 4)], ["c0"])
        counts.append(
            [
                len(event.images) // size
                for event in rows_events_of(bytes(encode_rows_events(plan, "insert", after=rows, table_id=1)))
            ]
        )

    assert counts == [[2, 2], [1, 1, 1, 1]]


def test_the_last_event_alone_ends_the_statement() -> None:
    """STMT_END is not in the events before it; no rows are no events."""
    plan = table_of(column(T.LONG))
    rows = pa.RecordBatch.from_arrays([pa.array(range(100), pa.int32())], ["c0"])
    data = bytes(encode_rows_events(plan, "insert", after=rows, table_id=1, row_event_max_size=256))

    assert [event.ends_statement for event in rows_events_of(data)] == [False, False, True]
    assert bytes(encode_rows_events(plan, "insert", after=rows.slice(0, 0), table_id=1)) == b""


# ------------------------------------------------------------------------------------------------------------- drift


def test_type_codes_of_the_kernel_are_the_server_s() -> None:
    """`event_codes.pxd` against `EventType`."""
    text = (Path(_kernel.__file__).parent / "base" / "event_codes.pxd").read_text()
    codes = dict(re.findall(r"^    (\w+_EVENT\w*) = (\d+)$", text, re.MULTILINE))

    assert len(codes) > 20
    assert {name: EventType[name].value for name in codes} == {name: int(code) for name, code in codes.items()}


def test_sizes_of_the_kernel_are_those_of_the_constants() -> None:
    """`event_codes.pxd` against `binlogio.constants`."""
    text = (Path(_kernel.__file__).parent / "base" / "event_codes.pxd").read_text()
    sizes = dict(re.findall(r"^    (\w+_SIZE) = (.+)$", text, re.MULTILINE))

    assert {"HEADER_SIZE", "CHECKSUM_SIZE", "BIG_EVENT_SIZE"} <= set(sizes)
    assert {name: getattr(constants, name) for name in sizes} == {
        name: 1 << int(size[5:]) if size.startswith("1 << ") else int(size) for name, size in sizes.items()
    }


@pytest.mark.parametrize("case", COLUMNS, ids=lambda case: f"{case[0].type.name}-{case[0].metadata}")
def test_what_a_column_is_decoded_to_is_encoded_without_a_detour(case: Any) -> None:
    """No type of arrays that the decoder makes is left to construct, but for the rare ones."""
    plan = replace(case[0], name="c0")
    encoder = TableEncoder(table_of(plan), "insert")
    side = encoder._after
    assert side is not None
    side.bind(pa.RecordBatch.from_arrays([array_of(plan, [None])], ["c0"]))

    assert (plan.type == T.NULL) == (side.cells[0].kind == kinds.READY)
