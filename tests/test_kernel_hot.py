"""Small transactions by the kernel, against construct: rows of Python values, rows events, groups, and whole logs."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from binlogio._kernel import hot
from binlogio._kernel.encode import EventBuffer
from binlogio.constants import CHECKSUM_SIZE, ChecksumAlgorithm, EventType
from binlogio.constants import ColumnType as T
from binlogio.encoder import Encoder
from binlogio.errors import BinlogError, BinlogFormatError, WriterStateError
from binlogio.events.base import EventHeader, ParseContext
from binlogio.events.control import RowsQueryEvent, XidEvent
from binlogio.events.gtid import AnonymousGtidEvent, GtidEvent
from binlogio.events.rows import UpdateRowsEvent, WriteRowsEvent
from binlogio.gtid import Uuid
from binlogio.rowimage import EnumValue, JsonDocument, RowChange, RowImage, SetValue, encode_rows
from binlogio.rowimage.packing import row_packer
from encode_cases import ROW_TABLES, table_of
from rowimage_cases import LATIN1, UTF8MB4, VALUES, column

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
CRC32 = ParseContext(checksum_algorithm=ChecksumAlgorithm.CRC32)
NO_CHECKSUM = ParseContext(checksum_algorithm=ChecksumAlgorithm.OFF)
HEADER = EventHeader(timestamp=1_700_000_000, server_id=7)


def image_of(plan: Any, values: Any) -> bytes | None:
    """The image by construct; None where it is refused."""
    present = b"\xff" * ((len(values) + 7) // 8)
    try:
        return encode_rows([RowChange(None, RowImage(plan, tuple(values)))], plan, present)
    except BinlogError:
        return None


# --------------------------------------------------------------------------------------------------------------- rows


@settings(max_examples=300)
@given(ROW_TABLES, st.integers(0, 1))
def test_rows_are_packed_as_construct_encodes_them(case: Any, spare: int) -> None:
    """Generated rows of every type: the same image, or left to construct."""
    columns, rows = case
    plan = table_of(*columns, spare_null_bits=spare)
    packer = row_packer(plan)
    for row in rows:
        assert packer.pack(row) in (None, image_of(plan, row))


@pytest.mark.parametrize(("plan", "value", "golden"), [pytest.param(*case[1:], id=case[0]) for case in VALUES])
def test_values_of_real_servers_are_packed_as_their_bytes(plan: Any, value: Any, golden: str) -> None:
    """The golden bytes; only what is rare is left to construct."""
    packed = row_packer(table_of(plan)).pack((value,))
    rare = plan.type in (T.DECIMAL, T.GEOMETRY, T.VECTOR, T.BLOB_COMPRESSED, T.VARCHAR_COMPRESSED) or plan.native
    if packed is None:
        assert rare or plan.precision > 38 or plan.collation_id == 54 or str(value).startswith(("0000", "2015-00"))
    else:
        assert packed[1:] == bytes.fromhex(golden)


ODD: list[Any] = [
    *(
        True,
        1,
        -1,
        2**31,
        2**63,
        2**64,
        -(2**63),
        1.5,
        1e300,
        float("nan"),
        float("inf"),
        Decimal("1.5"),
        Decimal("-0"),
        Decimal("1e3"),
    ),
    *(
        Decimal("NaN"),
        Decimal("Infinity"),
        Decimal("0.001"),
        Decimal("1.0000"),
        "",
        "a",
        "é",
        "日",
        "x" * 300,
        "\ud800",
        b"",
        b"a\0",
        b"x" * 300,
    ),
    *(
        bytearray(b"a"),
        date(2024, 2, 3),
        datetime(2024, 2, 3, 4, 5, 6, 789000),
        datetime(2024, 2, 3, tzinfo=timezone.utc),
    ),
    *(
        datetime(2024, 2, 3, tzinfo=timezone(timedelta(hours=2))),
        datetime(1969, 1, 1, tzinfo=timezone.utc),
        timedelta(hours=5, microseconds=1),
    ),
    *(
        timedelta(days=999_999_999),
        timedelta(hours=-838),
        EnumValue("a", 1),
        EnumValue("", 0),
        EnumValue("z", 300),
        SetValue("a,b", 3),
    ),
    *(
        SetValue("", 1 << 60),
        "a,b",
        "b,a",
        ",",
        "2024-02-03",
        "12:00:00",
        JsonDocument(b"\4\0"),
        (1.0, 2.0),
        [1.0],
        object(),
        {"a": 1},
    ),
]
ODD_COLUMNS = [
    *(
        column(kind, unsigned=unsigned)
        for kind in (T.TINY, T.SHORT, T.INT24, T.LONG, T.LONGLONG)
        for unsigned in (False, True)
    ),
    *(
        column(T.FLOAT, 4),
        column(T.DOUBLE, 8),
        column(T.NEWDECIMAL, 0x0502),
        column(T.YEAR),
        column(T.BIT, 5),
        column(T.DATE),
    ),
    *(
        column(T.TIME2, 3),
        column(T.DATETIME2, 3),
        column(T.TIMESTAMP2, 3),
        column(T.TIME),
        column(T.DATETIME),
        column(T.TIMESTAMP),
    ),
    *(column(T.STRING, 0xFE04, collation_id=number) for number in (UTF8MB4, LATIN1, 54, 63, None)),
    *(column(T.VARCHAR, 80, collation_id=number) for number in (UTF8MB4, LATIN1, 63, None)),
    *(column(T.STRING, 0xF701, members=members) for members in (None, ("a", "b"))),
    *(column(T.STRING, 0xF801, members=members) for members in (None, ("a", "b"))),
    *(column(T.JSON, 4), column(T.GEOMETRY, 4), column(T.VECTOR, 4), column(T.VARCHAR_COMPRESSED, 80), column(T.NULL)),
]


@pytest.mark.parametrize(
    "plan", ODD_COLUMNS, ids=lambda plan: f"{plan.type.name}-{plan.metadata:x}-{plan.collation_id}"
)
def test_a_value_of_another_class_is_packed_as_construct_encodes_it_or_left_to_it(plan: Any) -> None:
    """Every odd value in every column."""
    table = table_of(plan)
    packer = row_packer(table)
    for value in ODD:
        packed = packer.pack([value])

        assert packed is None or packed == image_of(table, [value])


def test_a_row_of_another_number_of_values_is_left_to_construct() -> None:
    """None, and no reading beyond the row."""
    packer = row_packer(table_of(column(T.LONG), column(T.LONG)))

    assert [packer.pack(row) for row in ((), (1,), (1, 2, 3))] == [None] * 3


# ------------------------------------------------------------------------------------------------------------- frames


@pytest.mark.parametrize("checksum", [True, False])
@pytest.mark.parametrize("columns", [1, 8, 250, 251, 4096])
def test_rows_frames_are_those_of_the_encoder(columns: int, checksum: bool) -> None:
    """But for the checksum, which is still to be written."""
    present, images = bytes(range(7)) * 100, b"images"
    present = present[: (columns + 7) // 8]
    encoder = Encoder(CRC32 if checksum else NO_CHECKSUM)
    event = WriteRowsEvent(77, 17, b"", columns, present, images, HEADER)
    update = UpdateRowsEvent(77, 16, b"", columns, present, present[::-1], images, HEADER)
    common: Any = {
        "timestamp": HEADER.timestamp,
        "server_id": 7,
        "table_id": 77,
        "column_count": columns,
        "checksum": checksum,
    }
    frame = hot.rows_frame(images, type_code=30, flags=17, present=present, **common)
    updates = hot.rows_frame(images, type_code=31, flags=16, present=present, present_after=present[::-1], **common)
    end = -CHECKSUM_SIZE if checksum else None

    assert encoder.encode(event)[:end] == frame[:end]
    assert encoder.encode(update)[:end] == updates[:end]


@settings(max_examples=100)
@given(
    sizes=st.lists(st.integers(0, 300) | st.sampled_from((120, 121, 122, 123, 124, 125, 126, 65_400)), max_size=4),
    extra=st.integers(0, 200),
    offset=st.sampled_from((4, 0xFFFFFF80, 1 << 40)),
    context=st.sampled_from((CRC32, NO_CHECKSUM)),
    originals=st.tuples(st.sampled_from((None, 1, 2**55)), st.sampled_from((None, 0, 90_704))),
    anonymous=st.booleans(),
)
def test_groups_are_those_of_the_encoder(
    sizes: list[int], extra: int, offset: int, context: ParseContext, originals: Any, anonymous: bool
) -> None:
    """Any number of events of any size, and a GTID whose length counts itself, in one call and event by event."""
    encoder = Encoder(context)
    events = [RowsQueryEvent(b"x" * (size + extra), header=HEADER) for size in sizes] + [XidEvent(5, HEADER)]
    frames = tuple(encoder.encode(event) for event in events)
    original_time, original_version = originals
    fields: dict[str, Any] = {
        "flags": 1,
        "last_committed": 3,
        "sequence_number": 4,
        "immediate_commit_timestamp": 2**54 + 7,
        "original_commit_timestamp": original_time,
        "immediate_server_version": 90_700,
        "original_server_version": original_version,
        "header": HEADER,
    }
    uuid = Uuid.parse(UUID)
    length, first = 0, b""
    while len(first) + sum(map(len, frames)) != length:
        length = len(first) + sum(map(len, frames))
        gtid: Any = (
            AnonymousGtidEvent(transaction_length=length, **fields)
            if anonymous
            else GtidEvent(uuid=uuid, gno=9, transaction_length=length, **fields)
        )
        first = encoder.encode_at(gtid, offset)
    expected = first
    for event in events:
        expected += encoder.encode_at(event, offset + len(expected))
    type_code = EventType.ANONYMOUS_GTID_LOG_EVENT if anonymous else EventType.GTID_LOG_EVENT
    before, behind = hot.gtid_parts(
        1,
        bytes(16) if anonymous else uuid.data,
        0 if anonymous else 9,
        3,
        4,
        2**54 + 7,
        -1 if original_time is None else original_time,
        90_700,
        -1 if original_version is None else original_version,
    )
    at_once = hot.transaction(
        frames,
        offset=offset,
        checksum=context.has_checksum,
        type_code=type_code,
        timestamp=HEADER.timestamp,
        server_id=7,
        header_flags=0,
        before=before,
        behind=behind,
    )
    found = []
    for guess in (0, 300, 1 << 16, 1 << 24):  # whose length may have as many bytes as the real one, or not
        buffer = EventBuffer(0, checksum=context.has_checksum)
        buffer.clear(offset)
        buffer.begin_group(type_code, HEADER.timestamp, 7, 0, before, behind, guess)
        for frame in frames:
            buffer.add_frame(frame)
        buffer.end_group()
        found.append(bytes(buffer))

    assert expected == at_once
    assert [expected] * 4 == found


def test_frames_that_are_not_as_long_as_they_say_are_refused() -> None:
    """Nothing is written beyond them."""
    frame = Encoder(CRC32).encode(XidEvent(5, HEADER))
    common: Any = {
        "checksum": True,
        "type_code": 33,
        "timestamp": 0,
        "server_id": 1,
        "header_flags": 0,
        "before": b"",
        "behind": b"",
    }
    for bad in (frame[:-1], frame + b"\0", frame[:20], b""):
        with pytest.raises(BinlogFormatError):
            hot.transaction((bad,), offset=4, **common)
        with pytest.raises(BinlogFormatError):
            EventBuffer(4).add_frame(bad)


def test_groups_are_begun_and_ended_in_turn() -> None:
    """A group begins in an empty buffer, and ends once."""
    buffer = EventBuffer(4)
    buffer.begin_group(33, 0, 1, 0, b"", b"", 0)
    with pytest.raises(WriterStateError):
        buffer.begin_group(33, 0, 1, 0, b"", b"", 0)
    buffer.end_group()
    with pytest.raises(WriterStateError):
        buffer.end_group()
    buffer.clear(4)
    with pytest.raises(BinlogFormatError):
        buffer.begin_group(33, 0, 1, 0, bytes(500), b"", 0)


def test_fields_of_a_gtid_that_do_not_fit_are_refused() -> None:
    """Each of them."""
    good: list[Any] = [0, bytes(16), 1, 0, 1, 0, -1, 0, -1]
    assert [len(part) for part in hot.gtid_parts(*good)] == [49, 4]
    for position, value in ((0, 256), (1, bytes(15)), (5, 1 << 55), (6, 1 << 56), (7, 1 << 31), (8, 1 << 32)):
        bad: list[Any] = [value if i == position else one for i, one in enumerate(good)]
        with pytest.raises(BinlogFormatError):
            hot.gtid_parts(*bad)
