"""FORMAT_DESCRIPTION_EVENT and START_EVENT_V3: the first event, which says how to read all others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from binlogio.constants import ChecksumAlgorithm, EventType
from binlogio.errors import BinlogError, BinlogFormatError, UnsupportedFeature
from binlogio.events import EVENT_CODECS
from binlogio.events.base import NEW_HEADER, ParseContext
from binlogio.events.format_description import (
    PERMUTATION,
    FormatDescriptionEvent,
    StartV3Event,
    knows_checksum,
    server_version_numbers,
)
from golden_events import EventCase, check_refused, text

FORMAT = EventType.FORMAT_DESCRIPTION_EVENT
SIZES_5_0 = (56, 13, 0, 8, 0, 18, 0, 4, 4, 4, 4, 18, 0, 0, 75, 0, 4, 22)
SIZES_9_7 = (
    *(0, 13, 0, 8, 0, 0, 0, 0, 4, 0, 4, 0, 0, 0, 99, 0, 4, 26, 8, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 10, 10, 10, 42, 42),
    *(0, 18, 52, 0, 10, 40, 0, 0),
)
TODAY = FormatDescriptionEvent(4, "9.7.4-2", 1795204783, 19, SIZES_9_7, ChecksumAlgorithm.OFF)


def _padded(version: str) -> str:
    return text(version) + (50 - len(version)) * "00"


def _description(
    version: str, sizes: tuple[int, ...] = SIZES_5_0, algorithm: int | None = None
) -> FormatDescriptionEvent:
    return FormatDescriptionEvent(4, version, 0, 19, sizes, algorithm)


CASES: list[EventCase] = [
    EventCase(
        "9.7 (checksum_none)",
        FORMAT,
        TODAY,
        "0400392e372e342d320000000000000000000000000000000000000000000000000000000000000000000000000000000000"
        "0000afa6006b13000d0008000000000400040000006300041a08000000000000020000000a0a0a2a2a001234000a28000000",
    ),
    EventCase(
        "5.0", FORMAT, _description("5.0.96-log"), f"0400 {_padded('5.0.96-log')} 00000000 13 {bytes(SIZES_5_0).hex()}"
    ),
    EventCase(
        "MariaDB",
        FORMAT,
        _description("10.11.18-MariaDB-deb12-log", SIZES_5_0 + (0,) * 153, ChecksumAlgorithm.CRC32),
        f"0400 {_padded('10.11.18-MariaDB-deb12-log')} 00000000 13 {bytes(SIZES_5_0).hex()} {153 * '00'} 01",
    ),
    EventCase(
        "3.23", EventType.START_EVENT_V3, StartV3Event(1, "3.23.58-log", 9), f"0100 {_padded('3.23.58-log')} 09000000"
    ),
    EventCase(
        "4.1", EventType.START_EVENT_V3, StartV3Event(3, "4.1.22-log", 0), f"0300 {_padded('4.1.22-log')} 00000000"
    ),
    EventCase(
        "a version of 50 bytes",
        EventType.START_EVENT_V3,
        StartV3Event(3, "4.1." + "x" * 46, 0),
        f"0300 {_padded('4.1.' + 46 * 'x')} 00000000",
    ),
]


@pytest.mark.parametrize(
    ("version", "numbers", "checksum"),
    [
        ("9.7.4-2", (9, 7, 4), True),
        ("5.6.1-m5-log", (5, 6, 1), True),
        ("5.6.0", (5, 6, 0), False),
        ("5.5.68-MariaDB", (5, 5, 68), True),
        ("5.3.0-MariaDB-beta", (5, 3, 0), True),
        ("5.2.14-MariaDB", (5, 2, 14), False),
        ("5.5.62-log", (5, 5, 62), False),
        ("12.3.1-MariaDB", (12, 3, 1), True),
        ("nonsense", (0, 0, 0), False),
        ("", (0, 0, 0), False),
    ],
)
def test_checksums_are_there_since_the_version_that_brought_them(
    version: str, numbers: tuple[int, int, int], checksum: bool
) -> None:
    assert server_version_numbers(version) == numbers
    assert knows_checksum(version) is checksum


def test_context_of_today_says_what_the_event_said() -> None:
    context = TODAY.context

    assert context == ParseContext(server_version="9.7.4-2", post_header_sizes=SIZES_9_7)
    assert not context.is_mariadb
    assert not context.has_checksum
    assert context.post_header_size(EventType.WRITE_ROWS_EVENT, 0) == 10
    assert context.post_header_size(EventType.MARIADB_GTID_EVENT, 19) == 19


@pytest.mark.parametrize(("version", "header_size", "binlog_version"), [("3.23.58-log", 13, 1), ("4.1.22-log", 19, 3)])
def test_context_of_a_file_without_format_description(version: str, header_size: int, binlog_version: int) -> None:
    context = StartV3Event(binlog_version, version, 0).context

    assert context.header_size == header_size
    assert context.binlog_version == binlog_version
    assert not context.has_checksum
    assert context.post_header_size(EventType.QUERY_EVENT, 0) == 11


@pytest.mark.parametrize(
    ("version", "permuted"),
    [
        ("5.2.2-a_drop6p13-debug-log", True),
        ("5.1.5-a_drop5p20", True),
        ("5.1.4-a_drop6", True),
        ("5.2.3-a_drop6", False),
        ("5.1.6-alpha", False),
        ("5.1.15-a_drop5", False),
    ],
)
def test_alphas_that_numbered_types_otherwise_are_told_by_version_and_number_of_types(
    version: str, permuted: bool
) -> None:
    """22 types in another order; a type code of the file and ours translate both ways."""
    context = _description(version, (0,) * 22).context

    assert bool(context.permutation) is permuted
    assert _description(version, (0,) * 27).context.permutation == ()
    if permuted:
        assert context.real_type(16) == EventType.TABLE_MAP_EVENT
        assert context.real_type(20) == EventType.XID_EVENT
        assert [context.wire_type(context.real_type(code)) for code in range(len(PERMUTATION))] == list(range(23))
    assert context.real_type(200) == context.wire_type(200) == 200


@pytest.mark.parametrize(
    ("changed", "error", "field"),
    [
        ({"binlog_version": 5}, BinlogFormatError, "binlog_version"),
        ({"header_size": 18}, UnsupportedFeature, "header_size"),
        ({"checksum_algorithm": 2}, UnsupportedFeature, "checksum_algorithm"),
        ({"checksum_algorithm": 255}, UnsupportedFeature, "checksum_algorithm"),
    ],
)
def test_file_that_we_cannot_read_is_refused_by_its_first_event(
    changed: dict[str, Any], error: type[BinlogError], field: str
) -> None:
    with pytest.raises(error) as caught:
        _ = replace(TODAY, **changed).context

    assert caught.value.field == field
    assert caught.value.event_type == "FORMAT_DESCRIPTION_EVENT"


def test_old_server_with_the_event_types_of_a_new_one_is_damage() -> None:
    """A flipped bit in the version text would else turn checksums off without a word."""
    body = bytes.fromhex(CASES[0].body_hex).replace(b"9.7.4-2", b"1.7.4-2")

    with pytest.raises(BinlogFormatError, match="does not have 43 event types"):
        EVENT_CODECS[FORMAT].parse(NEW_HEADER, body)


@pytest.mark.parametrize(
    "changed",
    [
        {"server_version": "v" * 51},
        {"checksum_algorithm": None},
        {"post_header_sizes": (256,)},
        {"created": -1},
    ],
    ids=str,
)
def test_value_that_does_not_fit_is_refused(changed: dict[str, Any]) -> None:
    check_refused(CASES[0], replace(TODAY, **changed))


def test_checksum_algorithm_of_a_server_too_old_for_one_is_refused() -> None:
    check_refused(CASES[1], _description("5.0.96-log", SIZES_5_0, ChecksumAlgorithm.CRC32))


def test_post_header_of_an_unknown_size_is_refused() -> None:
    """Guessing would give values from the wrong bytes."""
    context = _description("9.9.9", (0, 14), ChecksumAlgorithm.OFF).context

    with pytest.raises(UnsupportedFeature, match="post-header") as caught:
        EVENT_CODECS[EventType.QUERY_EVENT].parse(NEW_HEADER, bytes(14), context)
    assert caught.value.found == "14"
