"""Rows events of all versions: v0 of the 5.1 alphas, v1, v2, partial updates, and MariaDB's compressed ones.

No server of ours writes extra row info (NDB, partitions with a replica that hashes) or compressed v2 events: put
together by hand.
"""

from __future__ import annotations

import gc
import tracemalloc
import zlib
from dataclasses import replace
from typing import Any

import pytest

from binlogio.constants import EventType
from binlogio.errors import BinlogFormatError
from binlogio.events import codec_for
from binlogio.events.base import EventHeader, ParseContext
from binlogio.events.rows import DeleteRowsEvent, PartialUpdateRowsEvent, UpdateRowsEvent, WriteRowsEvent
from binlogio.options import DEFAULT_LIMITS
from golden_events import EventCase, check_refused, check_returns_or_raises

ALPHA = ParseContext(server_version="5.2.2-a_drop6p13", post_header_sizes=(0,) * 18 + (6, 6, 6, 6))
IMAGE = b"\xf9\x01\x00\x00\x00\x03two"
NDB = bytes.fromhex("00 04 01 0f")  # code, length with itself and the format, format, one byte
PARTITION = bytes.fromhex("01 0300")

CASES: list[EventCase] = [
    EventCase(
        "5.2 alpha (ver_5_1-wl2325)",
        EventType.PRE_GA_WRITE_ROWS_EVENT,
        WriteRowsEvent(0, 1, b"", 2, b"\xff", IMAGE),
        "00000000 0100 02 ff f90100000003 74776f",
        ALPHA,
    ),
    EventCase(
        "5.2 alpha, one bitmap for both images (ver_5_1-wl2325)",
        EventType.PRE_GA_UPDATE_ROWS_EVENT,
        UpdateRowsEvent(0, 1, b"", 2, b"\xff", b"\xff", IMAGE + IMAGE),
        "00000000 0100 02 ff f90100000003 74776f f90100000003 74776f",
        ALPHA,
    ),
    EventCase(
        "5.1 alpha, long table id",
        EventType.PRE_GA_DELETE_ROWS_EVENT,
        DeleteRowsEvent(9, 1, b"", 2, b"\xff", IMAGE),
        "090000000000 0100 02 ff f90100000003 74776f",
    ),
    EventCase(
        "MariaDB (gtid)",
        EventType.WRITE_ROWS_EVENT_V1,
        WriteRowsEvent(67, 1, b"", 1, b"\x01", b"\xfe\x01\0\0\0"),
        "430000000000 0100 01 01 fe01000000",
    ),
    EventCase(
        "MariaDB (rowimage_minimal)",
        EventType.UPDATE_ROWS_EVENT_V1,
        UpdateRowsEvent(124, 1, b"", 5, b"\x01", b"\x04", b"\xfe\x04\0\0\0\xff"),
        "7c0000000000 0100 05 01 04 fe04000000 ff",
    ),
    EventCase(
        "MariaDB (rowimage_minimal)",
        EventType.DELETE_ROWS_EVENT_V1,
        DeleteRowsEvent(126, 1, b"", 4, b"\x02", b"\xfe\x03\0\0\0"),
        "7e0000000000 0100 04 02 fe03000000",
    ),
    EventCase(
        "9.7 (checksum_none)",
        EventType.WRITE_ROWS_EVENT,
        WriteRowsEvent(381, 0x11, b"", 1, b"\xff", b"\x00\x01\0\0\0"),
        "7d0100000000 1100 0200 01 ff 0001000000",
    ),
    EventCase(
        "NDB's extra row info",
        EventType.WRITE_ROWS_EVENT,
        WriteRowsEvent(381, 1, NDB, 1, b"\xff", b"\x00\x01\0\0\0"),
        "7d0100000000 0100 0600 0004010f 01 ff 0001000000",
    ),
    EventCase(
        "a partition's id",
        EventType.DELETE_ROWS_EVENT,
        DeleteRowsEvent(381, 1, PARTITION, 1, b"\xff", b"\x00\x01\0\0\0"),
        "7d0100000000 0100 0500 010300 01 ff 0001000000",
    ),
    EventCase(
        "9.7 (rowimage_minimal)",
        EventType.UPDATE_ROWS_EVENT,
        UpdateRowsEvent(538, 0x11, b"", 5, b"\x01", b"\x04", b"\x00\x04\0\0\0\x01"),
        "1a0200000000 1100 0200 05 01 04 0004000000 01",
    ),
    EventCase(
        "300 columns",
        EventType.DELETE_ROWS_EVENT,
        DeleteRowsEvent(1, 0, b"", 300, b"\x01" + bytes(37), b"\x00\x05"),
        f"010000000000 0000 0200 fc2c01 01{37 * '00'} 0005",
    ),
    EventCase(
        "no rows, the dummy that ends a statement",
        EventType.WRITE_ROWS_EVENT,
        WriteRowsEvent((1 << 48) - 1, 1, b"", 0, b"", b""),
        "ffffffffffff 0100 0200 00",
    ),
    EventCase(
        "9.7 (partial_json)",
        EventType.PARTIAL_UPDATE_ROWS_EVENT,
        PartialUpdateRowsEvent(973, 0x10, b"", 5, b"\xff", b"\xff", b"\x00\x01"),
        "cd0300000000 1000 0200 05 ff ff 0001",
    ),
    EventCase(
        "MariaDB (compressed)",
        EventType.WRITE_ROWS_COMPRESSED_EVENT_V1,
        WriteRowsEvent(72, 1, b"", 3, b"\x07", b"\xfc\x88\x13\0\0\x90\x01" + b"p" * 400),
        "480000000000 0100 03 07 820197 789cfbd321ccc03081b160140c2a0000835fb129",
    ),
    EventCase(
        "MariaDB (compressed)",
        EventType.DELETE_ROWS_COMPRESSED_EVENT_V1,
        DeleteRowsEvent(72, 1, b"", 3, b"\x07", b"\xfc\x03\0\0\0\xe0\x01" + b"updated " * 60),
        "480000000000 0100 03 07 8201e7 789cfbc3ccc0c0f080b1b42025b124354561941e9e34008790b785",
    ),
    *(
        EventCase(
            "by hand",
            kind,
            event,
            body + "81 14" + zlib.compress(b"two rows two rows zw").hex(),
        )
        for kind, event, body in (
            (
                EventType.UPDATE_ROWS_COMPRESSED_EVENT_V1,
                UpdateRowsEvent(1, 1, b"", 3, b"\x07", b"\x05", b"two rows two rows zw"),
                "010000000000 0100 03 07 05",
            ),
            (
                EventType.WRITE_ROWS_COMPRESSED_EVENT,
                WriteRowsEvent(1, 1, b"", 3, b"\x07", b"two rows two rows zw"),
                "010000000000 0100 0200 03 07",
            ),
            (
                EventType.UPDATE_ROWS_COMPRESSED_EVENT,
                UpdateRowsEvent(1, 1, b"", 3, b"\x07", b"\x05", b"two rows two rows zw"),
                "010000000000 0100 0200 03 07 05",
            ),
            (
                EventType.DELETE_ROWS_COMPRESSED_EVENT,
                DeleteRowsEvent(1, 1, b"", 3, b"\x07", b"two rows two rows zw"),
                "010000000000 0100 0200 03 07",
            ),
        )
    ),
]
COMPRESSED = next(case for case in CASES if case.type_code == EventType.WRITE_ROWS_COMPRESSED_EVENT)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_statement_ends_where_the_flag_says(case: EventCase) -> None:
    assert case.event.ends_statement is bool(case.event.flags & 1)


@pytest.mark.parametrize(
    ("what", "tail"),
    [
        ("not compressed", "00 01"),
        ("nothing", ""),
        ("an unknown algorithm", "91 01 00"),
        ("a size of no bytes", "80"),
        ("a size of five bytes", "85 0000000001 00"),
        ("half a size", "82 01"),
        ("broken zlib", "81 14 00112233"),
        ("less than promised", "81 15" + zlib.compress(b"two rows two rows zw").hex()),
        ("more than promised", "81 13" + zlib.compress(b"two rows two rows zw").hex()),
        ("bytes after the stream", "81 14" + zlib.compress(b"two rows two rows zw").hex() + "00"),
        ("more than any server could send", "84 40000001" + zlib.compress(b"x").hex()),
    ],
    ids=lambda value: value if value and not value[0].isdigit() else "",
)
def test_damaged_compression_is_refused(what: str, tail: str) -> None:
    with pytest.raises(BinlogFormatError) as caught:
        COMPRESSED.parse(bytes.fromhex("010000000000 0100 0200 03 07" + tail))

    assert caught.value.field == "images", what


def test_compressed_bomb_is_refused_before_it_is_opened() -> None:
    """A stream that opens to 1 GiB while its header promises 16 bytes costs no more than those."""
    bomb = zlib.compress(bytes(1 << 24), 9)

    with pytest.raises(BinlogFormatError, match="does not inflate to the 16 bytes"):
        COMPRESSED.parse(bytes.fromhex("010000000000 0100 0200 03 07 81 10") + bomb)
    assert DEFAULT_LIMITS.opened_size < 1 << 30


def test_rows_compressed_at_another_level_are_the_same_event() -> None:
    head = bytes.fromhex("010000000000 0100 0200 03 07 81 14")

    check_returns_or_raises(COMPRESSED, head + zlib.compress(b"two rows two rows zw", 0))
    assert COMPRESSED.parse(head + zlib.compress(b"two rows two rows zw", 0)) == COMPRESSED.event


def test_column_count_beyond_the_event_is_refused_before_it_is_believed() -> None:
    with pytest.raises(BinlogFormatError):
        CASES[6].parse(bytes.fromhex("7d0100000000 1100 0200 fe ffffffffffffff7f ff 0001000000"))


@pytest.mark.parametrize("size", ["0000", "0100"])
def test_extra_row_info_that_does_not_count_its_own_length_is_refused(size: str) -> None:
    with pytest.raises(BinlogFormatError, match="at least 2 expected") as caught:
        CASES[6].parse(bytes.fromhex(f"7d0100000000 1100 {size} 01 ff 0001000000"))
    assert caught.value.field == "extra"


@pytest.mark.parametrize(
    ("case", "changed"),
    [
        (CASES[0], {"table_id": 1 << 32}),
        (CASES[1], {"present_after": b"\x01"}),
        (CASES[3], {"extra": NDB}),
        (CASES[6], {"present": b"\xff\xff"}),
        (CASES[6], {"extra": bytes(65534)}),
        (CASES[9], {"present_after": b""}),
        (CASES[6], {"flags": 1 << 16}),
    ],
    ids=lambda value: str(value)[:80],
)
def test_value_that_does_not_fit_is_refused(case: EventCase, changed: dict[str, Any]) -> None:
    check_refused(case, replace(case.event, **changed))


def test_the_bytes_of_an_event_are_freed_without_a_garbage_collection() -> None:
    """A context of construct that refers to itself kept them: a gigabyte after 32 rows of 16 MiB."""
    codec = codec_for(EventType.WRITE_ROWS_EVENT)
    event = WriteRowsEvent(9, 1, b"", 1, b"\1", bytes(1 << 20))
    body = codec.build(event)
    gc.disable()
    tracemalloc.start()
    try:
        for _ in range(20):
            codec.parse(EventHeader(type_code=EventType.WRITE_ROWS_EVENT), body)
            codec.build(event)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        gc.enable()

    assert peak < 8 << 20
