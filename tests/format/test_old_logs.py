"""Logs of servers before 5.1 as record batches: rows of version 0, other type codes, logs without rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import binlogio
from binlogio.constants import BINLOG_MAGIC, EventType
from binlogio.events.base import EventHeader
from binlogio.events.control import XidEvent
from binlogio.events.format_description import StartV3Event
from binlogio.events.rows import DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent
from binlogio.events.table_map import TableMapEvent
from binlogio.format.encoder import Encoder
from logs import POST_HEADER_SIZES, description, encode, header, query
from row_records import row_records

if TYPE_CHECKING:
    from pathlib import Path

INT, VARCHAR = 3, 15
TABLE_MAP = TableMapEvent(
    7, 1, "d", "t", (INT, VARCHAR, INT), (0, 20, 0), (False, True, True), (), header(EventType.TABLE_MAP_EVENT)
)
FIXED_MAP = TableMapEvent(7, 1, "d", "f", (INT, INT), (0, 0), (True, True), (), header(EventType.TABLE_MAP_EVENT))
OLD_SIZES = (*POST_HEADER_SIZES[:19], 8, 8, 8, 8, 8, 8, 2, 0)
ALPHA_SIZES = (*POST_HEADER_SIZES[:15], 8, 8, 8, 8, 0, 4, 26)


def row(number: int, text: bytes | None, more: int | None) -> bytes:
    """Return a record of `TABLE_MAP`: null bits of its two nullable columns, and values where there is NULL as well."""
    bits = (text is None) | (more is None) << 1
    return (
        bytes([bits])
        + number.to_bytes(4, "little")
        + bytes([len(text or b"")])
        + (text or b"")
        + bytes([more or 9, 0, 0, 0])
    )


def rows_of(code: int, images: bytes, columns: int = 3) -> Any:
    """Return a rows event of version 0 or 1."""
    present = bytes([(1 << columns) - 1])
    common: dict[str, Any] = {
        "table_id": 7,
        "flags": 1,
        "extra": b"",
        "column_count": columns,
        "present": present,
        "images": images,
    }
    if code in (EventType.PRE_GA_UPDATE_ROWS_EVENT, EventType.UPDATE_ROWS_EVENT_V1):
        return UpdateRowsEvent(present_after=present, header=header(code), **common)
    if code in (EventType.PRE_GA_DELETE_ROWS_EVENT, EventType.DELETE_ROWS_EVENT_V1):
        return DeleteRowsEvent(header=header(code), **common)
    return WriteRowsEvent(header=header(code), **common)


def old_log(*events: Any) -> bytes:
    """Return a log of a 5.1 before its release."""
    return BINLOG_MAGIC + encode([description(None, version="5.1.10-beta-log", sizes=OLD_SIZES), *events])


def records(path: Path) -> list[Any]:
    """Return the records of the event reader."""
    with binlogio.open(path) as reader:
        return [(record[1], record[3], record[11], record[12]) for record in row_records(reader)]


def by_kernel(path: Path) -> list[Any]:
    """Return the same by the kernel."""
    table = binlogio.read_rows(path).to_table().to_pydict()
    return list(zip(table["pos"], table["op"], table["before"], table["after"], strict=True))


def test_rows_of_version_0_are_read(tmp_path: Path) -> None:
    path = tmp_path / "binlog.000001"
    path.write_bytes(
        old_log(
            TABLE_MAP,
            rows_of(EventType.PRE_GA_WRITE_ROWS_EVENT, row(1, b"one", 2) + row(2, None, 3) + row(3, b"three", None)),
            TABLE_MAP,
            rows_of(EventType.PRE_GA_UPDATE_ROWS_EVENT, row(1, b"one", 2) + row(1, None, None)),
            TABLE_MAP,
            rows_of(EventType.PRE_GA_DELETE_ROWS_EVENT, row(2, None, 3)),
            FIXED_MAP,
            rows_of(EventType.PRE_GA_WRITE_ROWS_EVENT, bytes.fromhex("04 01000000 02000000  03 05000000 06000000"), 2),
        )
    )
    typed = [
        (record["op"], record["before"], record["after"])
        for table, batch in binlogio.read_tables(path, tables=["d.t"])
        for record in batch.to_pylist()
    ]

    assert len(records(path)) == 7
    assert records(path) == by_kernel(path)
    assert typed == [
        ("insert", None, {"@1": 1, "@2": b"one", "@3": 2}),
        ("insert", None, {"@1": 2, "@2": None, "@3": 3}),
        ("insert", None, {"@1": 3, "@2": b"three", "@3": None}),
        ("update", {"@1": 1, "@2": b"one", "@3": 2}, {"@1": 1, "@2": None, "@3": None}),
        ("delete", {"@1": 2, "@2": None, "@3": 3}, None),
    ]


@pytest.mark.parametrize("cut", range(1, 12))
def test_rows_of_version_0_that_are_cut_are_refused(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "binlog.000001"
    images = row(1, b"one", 2)
    path.write_bytes(old_log(TABLE_MAP, rows_of(EventType.PRE_GA_WRITE_ROWS_EVENT, images + images[:-cut])))

    with pytest.raises(binlogio.BinlogFormatError) as by_events:
        records(path)
    with pytest.raises(binlogio.BinlogFormatError) as by_batches:
        list(binlogio.read_tables(path))
    assert by_events.value.offset == by_batches.value.offset


SIZES_5_1_17 = (*OLD_SIZES[:22], 8, 8, 8, 2)


def log_without_metadata(
    version: str, types: tuple[int, ...] = (INT, 8, 1), code: int = EventType.WRITE_ROWS_EVENT_V1
) -> bytes:
    """Return a log of a 5.1 whose table maps end at the column types.

    Two rows of an INT, a BIGINT and a TINYINT, the second with NULL.
    """
    table = TableMapEvent(7, 0, "d", "t", types, (), (), (), header(EventType.TABLE_MAP_EVENT))
    images = bytes.fromhex("f8 01000000 0200000000000000 03  fa 04000000 05")
    first = description(None, version=version, sizes=SIZES_5_1_17)
    return BINLOG_MAGIC + encode([first, table, rows_of(code, images)])


@pytest.mark.parametrize("version", ["5.1.16-beta-log", "5.1.17-beta-log"])
def test_rows_of_a_table_map_without_metadata_are_read(tmp_path: Path, version: str) -> None:
    path = tmp_path / "binlog.000001"
    path.write_bytes(log_without_metadata(version))

    typed = [record["after"] for _, batch in binlogio.read_tables(path) for record in batch.to_pylist()]
    assert typed == [{"@1": 1, "@2": 2, "@3": 3}, {"@1": 4, "@2": None, "@3": 5}]
    assert records(path) == by_kernel(path)
    with binlogio.open(path) as reader:
        encoder = Encoder()
        assert BINLOG_MAGIC + b"".join(encoder.encode(event) for event in reader) == path.read_bytes()


@pytest.mark.parametrize(
    ("version", "types", "code", "error", "found"),
    [
        ("5.1.17-beta-log", (INT, VARCHAR, INT), EventType.WRITE_ROWS_EVENT_V1, "has no metadata", "type 15"),
        ("5.1.17-beta-log", (INT, 246, INT), EventType.WRITE_ROWS_EVENT_V1, "has no metadata", "type 246"),
        ("5.1.17-beta-log", (INT, 252, INT), EventType.WRITE_ROWS_EVENT_V1, "has no metadata", "type 252"),
        ("5.1.17-beta-log", (INT, 16, INT), EventType.WRITE_ROWS_EVENT_V1, "has no metadata", "type 16"),
        ("5.1.17-beta-log", (INT, 254, INT), EventType.WRITE_ROWS_EVENT_V1, "has no metadata", "type 254"),
        ("5.1.15-beta-log", (INT, 8, 1), EventType.PRE_GA_WRITE_ROWS_EVENT, "without the null bits", "5.1.15-beta-log"),
        ("5.1.18-beta-log", (INT, 8, 1), EventType.WRITE_ROWS_EVENT_V1, "does not fit", None),
    ],
)
def test_rows_that_need_more_than_the_table_map_has_are_refused(
    tmp_path: Path,
    version: str,
    types: tuple[int, ...],
    code: int,
    error: str,
    found: str | None,
) -> None:
    path = tmp_path / "binlog.000001"
    data = log_without_metadata("5.1.17-beta-log", types, code)
    path.write_bytes(data.replace(b"5.1.17-beta-log", version.encode()))

    with pytest.raises(binlogio.BinlogError, match=error) as caught:
        list(binlogio.read_tables(path))
    assert caught.value.event_type == "TABLE_MAP_EVENT"
    assert caught.value.found == found


def test_types_of_an_alpha_are_read_by_its_own_numbers(tmp_path: Path) -> None:
    path = tmp_path / "binlog.000001"
    first = description(None, version="5.1.5-a_drop5p20", sizes=ALPHA_SIZES)
    context = first.context
    data = BINLOG_MAGIC + encode([first])
    for event in (TABLE_MAP, rows_of(EventType.PRE_GA_WRITE_ROWS_EVENT, row(1, b"one", 2))):
        raw = bytearray(encode([event], offset=len(data)))
        raw[4] = context.wire_type(event.header.type_code)
        data += raw
    path.write_bytes(data)

    assert context.permutation
    assert len(records(path)) == 1
    assert records(path) == by_kernel(path)
    assert sum(batch.num_rows for _, batch in binlogio.read_tables(path)) == 1


def test_log_of_a_server_without_row_events_has_no_rows(tmp_path: Path) -> None:
    path = tmp_path / "binlog.000001"
    start = StartV3Event(3, "4.1.22-log", 0, EventHeader(type_code=EventType.START_EVENT_V3, timestamp=1, server_id=1))
    path.write_bytes(BINLOG_MAGIC + encode([start, query("BEGIN"), XidEvent(1, header(EventType.XID_EVENT))]))

    assert list(binlogio.read_tables(path)) == []
    assert binlogio.read_rows(path).to_table().num_rows == 0


def test_cut_log_of_a_server_without_row_events_is_told(tmp_path: Path) -> None:
    path = tmp_path / "binlog.000001"
    start = StartV3Event(3, "4.1.22-log", 0, EventHeader(type_code=EventType.START_EVENT_V3, timestamp=1, server_id=1))
    path.write_bytes((BINLOG_MAGIC + encode([start, query("BEGIN")]))[:-3])

    with pytest.raises(binlogio.TruncatedEvent):
        list(binlogio.read_tables(path))
