"""Table maps with a column of each type code from 0 to 255: kernel and construct return the same rows or refuse alike.

`.ci/sanitize` runs these with AddressSanitizer: what a column writes has to have room.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from random import Random
from typing import Any, Final

import pytest

from binlogio._kernel import column_kinds as kinds
from binlogio._kernel.column_values import Column
from binlogio.constants import CHECKSUM_SIZE, HEADER_SIZE, EventType
from binlogio.constants import ColumnType as T
from binlogio.events.rows import WriteRowsEvent
from binlogio.events.table_map import METADATA
from both_kernels import KERNELS, error_of_events, records_by, tables_by
from log_cases import table_map_of
from logs import header, log, moved, query
from rowimage_cases import column

ROWS: Final = 72
BLOCKS: Final = (b"", b"\0", b"\1", b"\2", b"\4", b"\6", b"\x08", b"\xff", b"\0\0", b"\x0a\x02", b"\x41\x1e", b"\x41\0",
                   b"\x05\0", b"\xff\0", b"\0\1", b"\xff\xff", b"\xf7\1", b"\xf7\2", b"\xf8\1", b"\xf8\x08",
                   b"\xfe\x04",
                   b"\xfe\xff", b"\xce\x20", b"\x07\x07", b"\0\x08", b"\x03\x01")  # fmt: skip


def _blocks(code: int) -> list[bytes]:
    """Metadata of the type's size, and one block of another size."""
    size = METADATA[code].sizeof() if code in METADATA else 0
    return [block for block in BLOCKS if len(block) == size] + [b"\0" * (size + 1)]


def _event(code: int, body: bytes, offset: int) -> bytes:
    size = HEADER_SIZE + len(body) + CHECKSUM_SIZE
    head = (
        (1_700_000_000).to_bytes(4, "little") + bytes([code]) + (1).to_bytes(4, "little") + size.to_bytes(4, "little")
    )
    return moved(head + bytes(6) + body + bytes(CHECKSUM_SIZE), offset)


def log_of_type(code: int, metadata: bytes, *events: tuple[int, bytes]) -> bytes:
    """Return a log with a table `d.t` of one column, whatever its type, and rows events: their types and images."""
    data = log(query("BEGIN"), in_use=True)
    table = b"\7\0\0\0\0\0\1\0\1d\0\1t\0\1" + bytes([code, len(metadata)]) + metadata + b"\1"
    data += _event(EventType.TABLE_MAP_EVENT, table, len(data))
    for number, (event_type, images) in enumerate(events, 1):
        flags = b"\1\0" if number == len(events) else b"\0\0"  # the end of the statement
        data += _event(event_type, b"\7\0\0\0\0\0" + flags + b"\2\0\1\1" + images, len(data))
    return data


def images_of(random: Random) -> list[bytes]:
    """Rows that have no value, short values, and bytes of any kind, after null bits that are clear or set."""
    return [
        bytes(ROWS),
        b"\1" * ROWS,
        b"\0\1" * ROWS,
        b"\0\0\0\0\0" * ROWS,
        bytes(random.choice((0, 0, 0, 1, 2, 255)) for _ in range(3 * ROWS)),
        random.randbytes(ROWS),
    ]


@pytest.mark.parametrize("code", range(256))
def test_column_of_any_type_code_is_read_or_refused_alike(code: int) -> None:
    """As typed tables, as JSON, and event by event."""
    random = Random(code)
    is_type = code in METADATA or code in set(T)
    for metadata, images in product(_blocks(code), images_of(random) if is_type else [bytes(ROWS)]):
        data = log_of_type(code, metadata, (EventType.WRITE_ROWS_EVENT, images))
        tables = [tables_by(kernel, data, zero_dates="text") for kernel in KERNELS]
        records = [records_by(kernel, data) for kernel in KERNELS]
        error_of_events(data)

        assert tables[0] == tables[1], (metadata, images[:9])
        assert records[0] == records[1], (metadata, images[:9])


@pytest.mark.parametrize("images", [b"\0", b"\1", b"\0\1"])
def test_column_of_type_null_has_no_values(images: bytes) -> None:
    """Whatever its null bit says; the second byte is the null bits of another row."""
    data = log_of_type(T.NULL, b"", (EventType.WRITE_ROWS_EVENT, images * 2048))
    compiled, construct = (tables_by(kernel, data) for kernel in KERNELS)

    assert compiled == construct
    assert isinstance(compiled, dict)
    ((_, records),) = compiled.items()
    assert len(records) == len(images) * 2048
    assert all("'after': {'@1': None}" in record[2] for record in records)


@pytest.mark.parametrize("shift", [0, 1, 7, 8])
@pytest.mark.parametrize("count", [1, 7, 8, 9, 15, 16, 17, 65])
def test_null_at_any_edge_of_eight_rows_stays_in_its_row(count: int, shift: int) -> None:
    """After `shift` inserts and 70 deletes, which have no after image; the last rows have none or only one NULL."""
    insert, delete = EventType.WRITE_ROWS_EVENT, EventType.DELETE_ROWS_EVENT
    for null in (-1, *range(count)):
        rows = [b"\1" if i == null else b"\0" + i.to_bytes(4, "little") for i in range(count)]
        events = (insert, b"\0\5\0\0\0" * shift), (delete, b"\0\6\0\0\0" * 70), (insert, b"".join(rows))
        data = log_of_type(T.LONG, b"", *events)
        compiled, construct = (tables_by(kernel, data) for kernel in KERNELS)

        assert compiled == construct
        assert isinstance(compiled, dict)
        ((_, records),) = compiled.items()
        assert len(records) == shift + 70 + count
        for i, record in enumerate(records[shift + 70 :]):
            assert f"'after': {{'@1': {None if i == null else i}}}" in record[2]


@pytest.mark.parametrize("code", [T.SET, T.STRING])
def test_set_of_more_members_than_it_has_bits_is_read_alike(code: int) -> None:
    """The 65th member has no bit, not that of the first one."""
    names = tuple(f"m{number}" for number in range(70))
    table = table_map_of([column(T.SET, 0xF808, members=names)])
    event = WriteRowsEvent(
        7, 1, b"", 1, b"\1", b"\0\1\0\0\0\0\0\0\x80\0\x41\0\0\0\0\0\0\0", header(EventType.WRITE_ROWS_EVENT)
    )
    data = log(replace(table, column_types=(code,)), event)
    for read in (tables_by, records_by):
        compiled, construct = (read(kernel, data) for kernel in KERNELS)

        assert compiled == construct
        assert "m0,m63'" in str(construct) or 'm0,m63"' in str(construct)
    assert error_of_events(data) is None


@pytest.mark.parametrize(
    ("kind", "width", "parameters"),
    [
        (kinds.SIGNED, 0, ()), (kinds.SIGNED, 5, ()), (kinds.UNSIGNED, 16, ()), (kinds.NOTHING, 1, ()),
        (kinds.FLOAT, 8, ()), (kinds.DOUBLE, 4, ()),
        (kinds.YEAR, 2, ()), (kinds.BITS, 9, ()), (kinds.LITTLE64, 0, ()), (kinds.LITTLE16, 3, ()),
        (kinds.DECIMAL128, 4, (10, 2)), (kinds.DECIMAL128, 18, (39, 0)), (kinds.DATETIME2, 5, (6,)),
        (kinds.TIMESTAMP2, 8, (6,)), (kinds.TIME2, 3, (-1,)), (kinds.OLD_DATETIME, 8, (7,)), (kinds.OLD_TIME, 4, ()),
        (kinds.BYTES, 0, ()), (kinds.UTF8, -5, ()), (kinds.UTF8, 2, ()), (kinds.ENUM_NAMES, 1, ()),
        (kinds.LATIN, -1, ()),
        (kinds.TEXT, -1, ()), (kinds.OLD_DECIMAL, 0, ()), (kinds.READY, -1, ()), (kinds.DIFFS, -1, ()), (0, 1, ()),
        (37, -1, ()), (-1, 1, ()), (1 << 20, 1, ()),
    ],
)  # fmt: skip
def test_column_whose_values_are_not_of_its_kind_is_refused(kind: int, width: int, parameters: Any) -> None:
    """What is read and written is decided by the kind and its parameters; no row image may be of other widths."""
    with pytest.raises(ValueError, match=f"no column of kind {kind} "):
        Column(kind, width, *parameters)
