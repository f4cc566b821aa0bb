"""Record batches of the kernel and of construct: the same for real logs with other bytes, garbage, parts, options."""

from __future__ import annotations

from decimal import Decimal
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from binlogio.constants import CHECKSUM_SIZE, HEADER_SIZE, EventType
from binlogio.constants import ColumnType as T
from binlogio.events import ROWS_TYPES
from binlogio.events.rows import WriteRowsEvent
from binlogio.rows.image import RowChange, RowImage, encode_rows
from binlogio.rows.plan import resolve_plan
from binlogio.selection.event_filter import EventFilter, Range
from both_kernels import KERNELS, Said, error_of_events, tables_by
from corpus import FIXTURES
from log_cases import Rows, table_map_of
from logs import OFF, header, log, raw_events, with_checksum
from rowimage_cases import column

if TYPE_CHECKING:
    from pathlib import Path

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]


def _plain_files(most: int) -> list[Path]:
    """Small fixtures of both servers, not encrypted."""
    paths = sorted(FIXTURES.glob("*/*/binlog.00000?"))
    return [path for path in paths if path.parent.name != "encrypted" and path.stat().st_size < most]


SMALL = _plain_files(40_000)
SPOILT = ROWS_TYPES | {EventType.TRANSACTION_PAYLOAD_EVENT, EventType.TABLE_MAP_EVENT}


@pytest.mark.slow
@settings(max_examples=150, suppress_health_check=SLOW)
@given(st.data())
def test_events_of_real_servers_with_other_bytes_are_read_or_refused_alike(data: st.DataObject) -> None:
    """Table maps, payloads and rows events with a right checksum and some wrong bytes."""
    path = data.draw(st.sampled_from(SMALL), "file")
    spoilt = bytearray(path.read_bytes())
    events = list(raw_events(spoilt))
    at, event = data.draw(st.sampled_from([one for one in events if one[1][4] in SPOILT] or events[:1]))
    has_checksum = path.parent.name != "checksum_none"
    end = at + len(event) - CHECKSUM_SIZE * has_checksum
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(at + HEADER_SIZE, max(at + HEADER_SIZE, end - 1)))
        spoilt[place] = data.draw(st.sampled_from((0, 0x7F, 0xFF)) | st.integers(0, 255))
    if has_checksum:
        spoilt[at : at + len(event)] = with_checksum(spoilt[at : at + len(event)])
    compiled, construct = (tables_by(kernel, bytes(spoilt), zero_dates="null") for kernel in KERNELS)

    assert compiled == construct


@pytest.mark.parametrize("case", ["mysql97/gtid_off", "mariadb1011/gtid", "mysql97/checksum_none"])
def test_cut_and_flipped_files_are_read_or_refused_alike(case: str) -> None:
    """Whole files, checksums as they were; by the event reader too."""
    path = min((FIXTURES / case).glob("binlog.00000?"), key=lambda one: one.stat().st_size)
    data = path.read_bytes()
    for at in range(0, len(data), 7):
        flipped = bytearray(data)
        flipped[at] ^= 1 << at % 8
        for spoilt in (data[:at], bytes(flipped)):
            compiled, construct = (tables_by(kernel, spoilt, zero_dates="null") for kernel in KERNELS)
            events = error_of_events(bytes(spoilt))

            assert compiled == construct, at
            if case == "mysql97/gtid_off":  # elsewhere, events that are not opened may be damaged
                assert (compiled.kind if isinstance(compiled, Said) else None) == (events and events.kind), at


@settings(max_examples=200, suppress_health_check=SLOW)
@given(st.binary(max_size=400))
def test_garbage_is_refused_alike(garbage: bytes) -> None:
    """After a good start of a log, and from its first byte on."""
    for data in (garbage, log() + garbage, log(algorithm=OFF) + garbage):
        compiled, construct = (tables_by(kernel, data) for kernel in KERNELS)

        assert compiled == construct


def _big_event(form: str) -> Rows:
    """Six rows of a megabyte each in one event, which is more than a window.

    Also when it is compressed, where it is to be random.
    """
    table = table_map_of([column(T.NEWDECIMAL, 0x0A02), column(T.BLOB, 4, collation_id=63)])
    plan = resolve_plan(table)
    dice = Random(5)
    values = (dice.randbytes(1 << 20) if form == "random" else bytes([number]) * (1 << 20) for number in range(6))
    images = [RowImage(plan, (Decimal(f"{number}.50"), value)) for number, value in enumerate(values)]
    data = encode_rows([RowChange(None, image) for image in images], plan, b"\3")
    event = WriteRowsEvent(7, 1, b"", 2, b"\3", data, header(EventType.WRITE_ROWS_EVENT))
    return Rows(table, event, "plain" if form == "plain" else "zstd")


@pytest.mark.parametrize("form", ["plain", "compressed", "random"])
@pytest.mark.parametrize(
    "damage", ["none", "value", "value and checksum", "checksum", "length", "cut", "value and cut"]
)
def test_event_that_comes_in_parts_is_read_or_refused_alike(damage: str, form: str) -> None:
    """Row and byte count from the start of the event, in a payload or not, and a wrong checksum is reported first."""
    big = _big_event(form)
    images = bytearray(big.event.images)
    row_size = len(images) // 6
    if "value" in damage:
        images[5 * row_size + 1] = 0xFF  # the first two digits of row 5's DECIMAL
    elif damage == "length":
        images[5 * row_size + 6 : 5 * row_size + 10] = b"\xff" * 4
    data = bytearray(big.with_images(bytes(images)).log())
    if "checksum" in damage:
        data[-140 - CHECKSUM_SIZE] ^= 1
    elif "cut" in damage:
        del data[-160:]
    compiled, construct = (tables_by(kernel, bytes(data)) for kernel in KERNELS)

    assert compiled == construct
    if damage == "none":
        assert isinstance(compiled, dict)
    elif damage == "value":
        assert isinstance(compiled, Said)
        assert compiled.field == f"row 5, column c0, byte {5 * row_size + 1} of the row images"
    else:
        kinds = {"length": "BinlogFormatError", "cut": "TruncatedEvent", "value and cut": "TruncatedEvent"}
        assert isinstance(compiled, Said)
        assert compiled.kind == kinds.get(damage, "ChecksumMismatch")


def test_binary_value_longer_than_its_column_keeps_its_bytes() -> None:
    """No server writes one, and nothing is gained by losing it."""
    table = table_map_of([column(T.STRING, 0xFE04, collation_id=63)])
    event = WriteRowsEvent(7, 1, b"", 1, b"\1", b"\0\6abcdef\0\2ab", header(EventType.WRITE_ROWS_EVENT))
    compiled, construct = (tables_by(kernel, Rows(table, event, "plain").log()) for kernel in KERNELS)

    assert compiled == construct
    assert isinstance(construct, dict)
    ((first, second),) = construct.values()
    assert "'c0': b'abcdef'" in first[2]
    assert "'c0': b'ab\\x00\\x00'" in second[2]


@pytest.mark.parametrize(
    "options",
    [
        {"batch_rows": 3},
        {"tables": ["*.t?"]},
        {"tables": ["no.such"]},
        {"columns": ["nonsense"]},
        {"where": EventFilter(ops=frozenset({"update"}))},
        {"where": EventFilter(pos=Range(2000, 20_000), server_ids=frozenset({1, 3306}))},
        {"threads": 2},
        {"zero_dates": "text"},
    ],
    ids=str,
)
@pytest.mark.parametrize("case", ["mysql97/metadata_full", "mysql97/compressed", "mariadb1011/rowimage_minimal"])
def test_options_mean_the_same(case: str, options: Any) -> None:
    """Tables, columns, events, sizes of batches."""
    data = (FIXTURES / case / "binlog.000001").read_bytes()
    compiled, construct = (tables_by(kernel, data, **{"zero_dates": "null", **options}) for kernel in KERNELS)

    assert compiled == construct
