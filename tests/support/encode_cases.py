"""Columns of every type with strategies for their Python and Arrow values; bitmaps, images and rows events.

Tables have no specific names; their columns are c0, c1, ... in the given order.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import Any, Literal

import pyarrow as pa
from hypothesis import strategies as st

from binlogio.arrow.encode import TableEncoder, new_buffer, plan_of
from binlogio.arrow.types import column_spec
from binlogio.constants import CHECKSUM_SIZE, HEADER_SIZE
from binlogio.constants import ColumnType as T
from binlogio.events import codec_for
from binlogio.events.base import parse_header
from binlogio.events.rows import DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent
from binlogio.primitives import bitmap_size
from binlogio.rows.image import RowImage
from binlogio.rows.plan import TablePlan
from binlogio.values.absent import ABSENT
from binlogio.values.column import ColumnPlan
from binlogio.values.enum_set import EnumValue, SetValue
from binlogio.values.geometry import Geometry
from binlogio.values.json import JsonDocument
from binlogio.values.native import decode_native
from rowimage_cases import BINARY, LATIN1, UTF8MB4, column

KINDS: dict[str, Any] = {"insert": WriteRowsEvent, "update": UpdateRowsEvent, "delete": DeleteRowsEvent}
UTC = timezone.utc
MEMBERS = ("a", "bb", "é")
SET_MEMBERS = ("p", "q", "r", "long name")


def _integer(kind: T, bits: int, *, unsigned: bool) -> tuple[ColumnPlan, st.SearchStrategy[Any]]:
    low, high = (0, (1 << bits) - 1) if unsigned else (-(1 << bits - 1), (1 << bits - 1) - 1)
    return column(kind, unsigned=unsigned), st.integers(low, high) | st.sampled_from((low, high, 0))


def _decimal(precision: int, scale: int) -> tuple[ColumnPlan, st.SearchStrategy[Any]]:
    most = 10**precision - 1
    numbers = (
        st.integers(-most, most)
        | st.sampled_from((most, -most, 0, 1, -1))
        | st.integers(-min(most, 999), min(most, 999))
    )
    plan = column(T.NEWDECIMAL, precision << 8 | scale)
    return plan, numbers.map(lambda number: Decimal((number < 0, tuple(map(int, str(abs(number)))), -scale)))


def _ticks(low: int, high: int, fsp: int) -> st.SearchStrategy[int]:
    unit = 10 ** (6 - fsp)
    return st.integers(-(-low // unit), high // unit).map(lambda number: number * unit)


def _microseconds(value: int) -> timedelta:
    return timedelta(microseconds=value)


def _temporal(fsp: int) -> list[tuple[ColumnPlan, st.SearchStrategy[Any]]]:
    hours = 838 * 3600 * 10**6
    first = (datetime(1, 1, 1) - datetime(1970, 1, 1)) // timedelta(microseconds=1)
    last = (datetime(9999, 12, 31, 23, 59, 59) - datetime(1970, 1, 1)) // timedelta(microseconds=1)
    times = _ticks(-hours, hours, fsp).map(_microseconds)
    datetimes = _ticks(first, last, fsp).map(lambda value: datetime(1970, 1, 1) + _microseconds(value))
    moments = _ticks(1, (1 << 32) * 10**6 - 1, fsp).map(
        lambda value: datetime(1970, 1, 1, tzinfo=UTC) + _microseconds(value)
    )
    return [
        *(
            (column(kind, fsp), values)
            for kind, values in ((T.TIME2, times), (T.DATETIME2, datetimes), (T.TIMESTAMP2, moments))
        ),
        *(
            (column(kind, fsp=fsp), values)
            for kind, values in ((T.TIME, times), (T.DATETIME, datetimes), (T.TIMESTAMP, moments))
        ),
    ]


def _text(alphabet: st.SearchStrategy[str], most: int) -> st.SearchStrategy[str]:
    return st.text(alphabet, max_size=most)


def _repeated(alphabet: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Return a strategy for text that compresses well."""
    return st.tuples(st.text(alphabet, min_size=1, max_size=9), st.integers(12, 90)).map(lambda pair: pair[0] * pair[1])


def _addresses(version: Literal[4, 6]) -> st.SearchStrategy[str]:
    """Return a strategy for IP addresses in the format of MariaDB."""
    return st.ip_addresses(v=version).map(lambda address: decode_native(address.packed, f"inet{version}"))


ANY_TEXT = st.characters(codec="utf-8")
LATIN_TEXT = st.characters(codec="cp1252")
JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(ANY_TEXT),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(ANY_TEXT, max_size=3), inner, max_size=5),
    max_leaves=10,
)
DOCUMENTS = JSON_VALUES.map(lambda value: JsonDocument.from_text(json.dumps(value)))
FLOATS = st.floats(width=32)

COLUMNS: list[tuple[ColumnPlan, st.SearchStrategy[Any]]] = [
    *(
        _integer(kind, bits, unsigned=unsigned)
        for kind, bits in ((T.TINY, 8), (T.SHORT, 16), (T.INT24, 24), (T.LONG, 32), (T.LONGLONG, 64))
        for unsigned in (False, True)
    ),
    (column(T.FLOAT, 4), FLOATS),
    (column(T.DOUBLE, 8), st.floats()),
    *(
        _decimal(*shape)
        for shape in ((1, 0), (5, 5), (10, 2), (18, 4), (19, 9), (38, 10), (39, 20), (65, 30), (65, 38))
    ),
    (column(T.YEAR), st.just(0) | st.integers(1901, 2155)),
    (column(T.BIT, 5), st.integers(0, 31)),
    (column(T.BIT, 8 << 8), st.integers(0, 2**64 - 1)),
    (column(T.DATE), st.dates()),
    *(one for fsp in range(7) for one in _temporal(fsp)),
    (column(T.STRING, 0xFE28, collation_id=UTF8MB4), _text(ANY_TEXT, 10)),
    (column(T.STRING, 0xFE28, collation_id=LATIN1), _text(LATIN_TEXT, 40)),
    (column(T.STRING, 0xFE28, collation_id=BINARY), st.binary(max_size=40)),
    (column(T.STRING, 0xFE28), st.binary(max_size=40)),
    (column(T.VARCHAR, 80, collation_id=UTF8MB4), _text(ANY_TEXT, 20)),
    (column(T.VARCHAR, 800, collation_id=UTF8MB4), _text(ANY_TEXT, 200)),
    (column(T.VARCHAR, 800, collation_id=LATIN1), _text(LATIN_TEXT, 300)),
    (column(T.VARCHAR, 800, collation_id=7), _text(st.characters(codec="koi8-r"), 300)),
    (column(T.VARCHAR, 800, collation_id=54), _text(st.characters(codec="utf-16"), 100)),
    (column(T.VARCHAR, 80, collation_id=BINARY), st.binary(max_size=80)),
    *((column(T.BLOB, size, collation_id=UTF8MB4), _text(ANY_TEXT, 30)) for size in (1, 2, 3, 4)),
    (column(T.BLOB, 2, collation_id=BINARY), st.binary(max_size=300)),
    (column(T.STRING, 0xF701), st.integers(0, 255)),
    (column(T.STRING, 0xF702), st.integers(0, 65535)),
    (
        column(T.STRING, 0xF701, members=MEMBERS),
        st.integers(0, 3).map(lambda index: EnumValue(("", *MEMBERS)[index], index)),
    ),
    (column(T.STRING, 0xF803), st.integers(0, 2**24 - 1)),
    (
        column(T.STRING, 0xF801, members=SET_MEMBERS),
        st.integers(0, 15).map(
            lambda bits: SetValue(",".join(name for i, name in enumerate(SET_MEMBERS) if bits >> i & 1), bits)
        ),
    ),
    (column(T.JSON, 4), DOCUMENTS),
    (column(T.GEOMETRY, 4), st.builds(Geometry, st.integers(0, 2**32 - 1), st.binary(max_size=30))),
    (column(T.VECTOR, 4, dimension=5), st.lists(FLOATS, max_size=5).map(tuple)),
    (column(T.STRING, 0xFE10, collation_id=BINARY, native="uuid"), st.uuids().map(str)),
    (column(T.STRING, 0xFE04, collation_id=BINARY, native="inet4"), _addresses(4)),
    (column(T.STRING, 0xFE10, collation_id=BINARY, native="inet6"), _addresses(6)),
    (column(T.VARCHAR_COMPRESSED, 4001, collation_id=UTF8MB4), _text(ANY_TEXT, 200) | _repeated(ANY_TEXT)),
    (column(T.VARCHAR_COMPRESSED, 4001, collation_id=LATIN1), _text(LATIN_TEXT, 200) | _repeated(LATIN_TEXT)),
    (column(T.BLOB_COMPRESSED, 2, collation_id=54), _text(st.characters(codec="utf-16"), 100)),
    (column(T.BLOB_COMPRESSED, 2, collation_id=BINARY), st.binary(max_size=300)),
    (column(T.NULL), st.none()),
]


def as_arrow(value: Any) -> Any:
    """Convert a value to the object from which pyarrow builds the same value."""
    if isinstance(value, Geometry):
        return {"srid": value.srid, "wkb": value.wkb}
    if isinstance(value, JsonDocument):
        return value.text
    return str(value) if isinstance(value, EnumValue | SetValue) else value


def array_of(plan: ColumnPlan, values: list[Any]) -> pa.Array:
    """Return the values as an array of the Arrow type of the column."""
    return pa.array([as_arrow(value) for value in values], column_spec(plan).type)


def table_of(*columns: ColumnPlan, spare_null_bits: int = 0) -> TablePlan:
    """Return the plan of a table with these columns, named c0, c1, ..."""
    placed = tuple(replace(one, position=i, name=f"c{i}") for i, one in enumerate(columns))
    return TablePlan(schema="test", table="t", columns=placed, spare_null_bits=spare_null_bits)


def batch_of(plan: TablePlan, rows: list[list[Any]]) -> pa.RecordBatch:
    """Return the rows as a record batch."""
    arrays = [array_of(one, [row[i] for row in rows]) for i, one in enumerate(plan.columns)]
    return pa.RecordBatch.from_arrays(arrays, [one.label for one in plan.columns])


def bitmaps(count: int) -> st.SearchStrategy[bytes]:
    """Return a strategy for the present bitmap of `count` columns; all columns are present in most of them."""
    every = (1 << count) - 1
    return (st.just(every) | st.integers(0, every)).map(lambda bits: bits.to_bytes(bitmap_size(count), "little"))


def image_of(plan: TablePlan, row: Sequence[Any], present: bytes) -> RowImage:
    """Return the image of a row, without the columns that are not present."""
    kept = (value if present[i >> 3] >> (i & 7) & 1 else ABSENT for i, value in enumerate(row))
    return RowImage(plan, tuple(kept))


def rows_events_of(data: bytes) -> list[Any]:
    """Parse the rows events in `data`, which must contain nothing else and have checksums."""
    found, at = [], 0
    while at < len(data):
        header = parse_header(data[at:], at)
        body = data[at + HEADER_SIZE : at + header.event_size - CHECKSUM_SIZE]
        found.append(codec_for(header.type_code).parse(header, body))
        at += header.event_size
    assert at == len(data)
    return found


ROW_TABLES = st.lists(st.sampled_from(COLUMNS), min_size=1, max_size=12).flatmap(
    lambda chosen: st.tuples(
        st.just([plan for plan, _ in chosen]),
        st.lists(st.tuples(*(st.none() | values for _, values in chosen)).map(list), max_size=12),
    )
)
"""Columns, and rows of values."""


ABOUT_IMAGES = ("present", "present_after", "partial_json", "type_code")


def encode_rows_events(
    table: Any,
    operation: Any,
    before: Any = None,
    after: Any = None,
    *,
    table_id: int,
    offset: int = 4,
    checksum: bool = True,
    **options: Any,
) -> Any:
    """Return the rows events of a statement's changes to one table; `options`: of `TableEncoder` and its `encode`."""
    about_images = {name: options.pop(name) for name in ABOUT_IMAGES if name in options}
    buffer = new_buffer(offset, checksum=checksum)
    TableEncoder(plan_of(table, table_id), operation, **about_images).encode(
        buffer, before, after, table_id=table_id, **options
    )
    return buffer
