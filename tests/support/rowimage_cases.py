"""Fixtures of the row image tests: table maps, plans, and golden column values.

The bytes of `VALUES` are from real servers (fixtures types_*), except where a note gives another origin.
"""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

from binlogio.constants import ColumnType as T
from binlogio.events.base import DEFAULT_CONTEXT, ParseContext
from binlogio.events.table_map import MetadataField, TableMapEvent
from binlogio.rows.plan import TablePlan, resolve_plan
from binlogio.values.column import ColumnPlan
from binlogio.values.enum_set import EnumValue, SetValue
from binlogio.values.geometry import Geometry
from binlogio.values.json import JsonDocument
from binlogio.values.layout import shape_of

MARIADB = ParseContext(server_version="10.11.18-MariaDB")
UTF8MB4, LATIN1, BINARY = 255, 8, 63
UTC = timezone.utc


def column(column_type: int, metadata: int = 0, **more: Any) -> ColumnPlan:
    """Return the plan of one column."""
    shape = shape_of(column_type, metadata)
    parts = {name: getattr(shape, name) for name in ("type", "length", "pack_length", "precision", "scale", "fsp")}
    return ColumnPlan(**{"position": 0, "metadata": metadata, **parts, **more})


def table_map(*columns: tuple[int, int], optional: tuple[MetadataField, ...] = ()) -> TableMapEvent:
    """Return a table map of columns given as (type, metadata)."""
    types, metadata = tuple(kind for kind, _ in columns), tuple(number for _, number in columns)
    return TableMapEvent(7, 1, "test", "t", types, metadata, (True,) * len(columns), optional)


def plan(*columns: tuple[int, int], names: str = "", context: ParseContext = DEFAULT_CONTEXT) -> TablePlan:
    """Return the plan of a table; `names` has a letter for each column name."""
    optional = (MetadataField(4, tuple(names)),) if names else ()
    return resolve_plan(table_map(*columns, optional=optional), context)


_POINT = bytes.fromhex("0101000000000000000000f03f00000000000004c0")
_UUID = "123e4567-e89b-12d3-a456-426655440000"

VALUES: list[tuple[str, ColumnPlan, Any, str]] = [
    ("tinyint min", column(T.TINY), -128, "80"),
    ("tinyint unsigned max", column(T.TINY, unsigned=True), 255, "ff"),
    ("smallint min", column(T.SHORT), -32768, "0080"),
    ("mediumint min", column(T.INT24), -8388608, "000080"),
    ("mediumint unsigned max", column(T.INT24, unsigned=True), 16777215, "ffffff"),
    ("int -1", column(T.LONG), -1, "ffffffff"),
    ("bigint min", column(T.LONGLONG), -(2**63), "0000000000000080"),
    ("bigint unsigned max", column(T.LONGLONG, unsigned=True), 2**64 - 1, "ffffffffffffffff"),
    ("year 0", column(T.YEAR), 0, "00"),
    ("year 2155", column(T.YEAR), 2155, "ff"),
    ("float", column(T.FLOAT, 4), 1.5, "0000c03f"),
    ("double -0", column(T.DOUBLE, 8), -0.0, "0000000000000080"),
    ("null type", column(T.NULL), None, ""),
    ("decimal(10,2)", column(T.NEWDECIMAL, 0x0A02), Decimal("-1.25"), "7ffffffee6"),
    ("decimal(5,5)", column(T.NEWDECIMAL, 0x0505), Decimal("0.00000"), "800000"),
    (
        "decimal(65,38) of MariaDB",
        column(T.NEWDECIMAL, 0x4126),
        Decimal("-1.00000000000000000000000000000000000001"),
        "7ffffffffffffffffffffffefffffffffffffffffffffffffffffffffe",
    ),
    ("old decimal(6,2), by hand", column(T.DECIMAL, length=8), Decimal("-12.50"), "20202d31322e3530"),
    ("date", column(T.DATE), date(2000, 1, 1), "21a00f"),
    ("date zero", column(T.DATE), "0000-00-00", "000000"),
    ("date impossible", column(T.DATE), "2015-00-21", "15be0f"),
    ("time(0)", column(T.TIME2, 0), timedelta(0), "800000"),
    ("time(6) -1 us", column(T.TIME2, 6), -timedelta(microseconds=1), "7fffffffffff"),
    ("time(1)", column(T.TIME2, 1), -timedelta(seconds=1, milliseconds=900), "7ffffea6"),
    ("datetime(0)", column(T.DATETIME2, 0), datetime(1000, 1, 1), "8cb2420000"),
    ("datetime(3) zero", column(T.DATETIME2, 3), "0000-00-00 00:00:00.000", "80000000000000"),
    ("timestamp(0)", column(T.TIMESTAMP2, 0), datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), "00000001"),
    ("timestamp(2) zero", column(T.TIMESTAMP2, 2), "0000-00-00 00:00:00.00", "0000000000"),
    ("old time", column(T.TIME), -timedelta(hours=838, minutes=59, seconds=59), "590a80"),
    ("old datetime", column(T.DATETIME), datetime(1000, 1, 1), "40c3775418090000"),
    ("old timestamp", column(T.TIMESTAMP), datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), "01000000"),
    ("char latin1", column(T.STRING, 0xFE0A, collation_id=LATIN1), "é", "01e9"),
    ("char(64) utf8mb4", column(T.STRING, 0xEE00, collation_id=UTF8MB4), "é", "0200c3a9"),
    ("char(255) utf16", column(T.STRING, 0xCEFC, collation_id=54), "a", "02000061"),
    ("char of no known set", column(T.STRING, 0xFE0A), b"abc", "03616263"),
    ("binary(4) is padded", column(T.STRING, 0xFE04, collation_id=BINARY), b"\1\0\0\0", "0101"),
    ("varchar", column(T.VARCHAR, 80, collation_id=303), "日本", "06e697a5e69cac"),
    ("varchar of 256 bytes", column(T.VARCHAR, 256, collation_id=LATIN1), "é", "0100e9"),
    ("varchar that is no text", column(T.VARCHAR, 80, collation_id=UTF8MB4), b"\xff", "01ff"),
    ("varbinary", column(T.VARCHAR, 80, collation_id=BINARY), b"a\0", "026100"),
    ("tinyblob", column(T.BLOB, 1, collation_id=BINARY), b"\xff", "01ff"),
    ("mediumtext", column(T.BLOB, 3, collation_id=45), "é", "020000c3a9"),
    ("longtext", column(T.BLOB, 4, collation_id=45), "😀", "04000000f09f9880"),
    ("bit(5)", column(T.BIT, 5), 21, "15"),
    ("bit(9)", column(T.BIT, 0x0101), 257, "0101"),
    ("enum without names", column(T.STRING, 0xF702), 300, "2c01"),
    ("enum", column(T.STRING, 0xF701, members=("a", "é")), EnumValue("é", 2), "02"),
    ("enum, the invalid value", column(T.ENUM, 0xF701, members=("a", "é")), EnumValue("", 0), "00"),
    ("set without names", column(T.STRING, 0xF808), 2**63, "0000000000000080"),
    ("set", column(T.SET, 0xF801, members=("p", "q", "r")), SetValue("p,r", 5), "05"),
    ("json null", column(T.JSON, 4), JsonDocument(b"\4\0"), "020000000400"),
    ("geometry", column(T.GEOMETRY, 4), Geometry(0, _POINT), f"1900000000000000{_POINT.hex()}"),
    ("geometry of an old row", column(T.GEOMETRY, 4), b"", "00000000"),
    ("vector", column(T.VECTOR, 4, dimension=1), (-6.5,), "040000000000d0c0"),
    (
        "uuid",
        column(T.STRING, 0xFE10, collation_id=BINARY, native="uuid"),
        _UUID,
        "0e123e4567e89b12d3a45642665544",
    ),
    ("inet4", column(T.STRING, 0xFE04, collation_id=BINARY, native="inet4"), "192.0.2.0", "03c00002"),
    ("inet6", column(T.STRING, 0xFE10, collation_id=BINARY, native="inet6"), "::", "00"),
    ("compressed, empty", column(T.VARCHAR_COMPRESSED, 4001, collation_id=45), "", "0000"),
    ("compressed, short", column(T.VARCHAR_COMPRESSED, 4001, collation_id=45), "short", "060000 73686f7274"),
    ("compressed", column(T.BLOB_COMPRESSED, 1, collation_id=BINARY), b"a" * 200, "0889c84b4c1c1e0000"),
]
