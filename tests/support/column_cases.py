"""A column of every MySQL type with its boundary values, for tests of the writer and of definitions."""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any, Final

from binlogio.schema import ColumnDefinition, TableDefinition
from binlogio.values.enum_set import EnumValue, SetValue
from binlogio.values.geometry import Geometry
from binlogio.values.json import JsonDocument

UTC: Final = timezone.utc


def _members(prefix: str, count: int) -> str:
    return ",".join(f"'{prefix}{number}'" for number in range(count))


def _tick(fsp: int) -> int:
    """Return the microseconds of the last fractional digit of a column with `fsp` digits; 0 without digits."""
    return int(10 ** (6 - fsp)) if fsp else 0


def _zero(fsp: int) -> str:
    return "0000-00-00 00:00:00" + (f".{'0' * fsp}" if fsp else "")


def _temporal(fsp: int) -> list[tuple[str, dict[str, Any], list[Any]]]:
    tick = _tick(fsp)
    return [
        (
            f"time({fsp})",
            {},
            [
                -timedelta(hours=838, minutes=59, seconds=59),
                timedelta(hours=1, microseconds=7 * tick),
                -timedelta(microseconds=tick),
            ],
        ),
        (
            f"datetime({fsp})",
            {},
            [datetime(9999, 12, 31, 23, 59, 59), datetime(2024, 1, 2, 3, 4, 5, 3 * tick), _zero(fsp)],
        ),
        (
            f"timestamp({fsp})",
            {},
            [
                datetime(2038, 1, 19, 3, 14, 7, tzinfo=UTC),
                datetime(1970, 1, 1, 0, 0, 1, 3 * tick, tzinfo=UTC),
                _zero(fsp),
            ],
        ),
    ]


def _shapes(*texts: str, srid: int = 0) -> list[Any]:
    return [Geometry.from_wkt(text, srid) for text in texts]


DOCUMENTS: Final[list[Any]] = [{"a": [1, 2.5, None, "é"], "b": {}}, [], "text"]
TYPES: Final[list[tuple[str, dict[str, Any], list[Any]]]] = [
    ("tinyint", {}, [-128, 127, 0]),
    ("tinyint unsigned", {}, [255, 0, 1]),
    ("smallint", {}, [-32768, 32767, 5]),
    ("smallint unsigned zerofill", {}, [65535, 0, 5]),
    ("mediumint", {}, [-8388608, 8388607, 1]),
    ("mediumint unsigned", {}, [16777215, 0, 1]),
    ("int", {}, [-(2**31), 2**31 - 1, 0]),
    ("int unsigned", {}, [2**32 - 1, 0, 7]),
    ("bigint", {}, [-(2**63), 2**63 - 1, 0]),
    ("bigint unsigned", {}, [2**64 - 1, 0, 2**63]),
    ("float", {}, [1.5, -0.25, 3.0]),
    ("double", {}, [0.1, -1e300, 2.5]),
    ("decimal(10,2)", {}, [Decimal("-99999999.99"), Decimal("0.00"), Decimal("12.30")]),
    (
        "decimal(65,30)",
        {},
        [Decimal("1" * 35 + "." + "2" * 30), Decimal("-0." + "0" * 29 + "1"), Decimal("0." + "0" * 30)],
    ),
    ("bit(1)", {}, [1, 0, 1]),
    ("bit(13)", {}, [8191, 0, 5]),
    ("bit(64)", {}, [2**64 - 1, 0, 1]),
    ("date", {}, [date(2024, 2, 29), date(1000, 1, 1), "0000-00-00"]),
    ("year", {}, [1901, 2155, 0]),
    *(case for fsp in range(7) for case in _temporal(fsp)),
    ("char(10)", {}, ["abc", "", "éß漢😀"]),
    ("char(255)", {}, ["x" * 255, "", "😀" * 255]),
    ("char(5)", {"charset": "utf16"}, ["a😀", "", "漢"]),
    ("binary(16)", {}, [bytes(16), bytes(range(16)), b"ab".ljust(16, b"\0")]),
    ("binary(255)", {}, [b"z" * 255, bytes(255), b"q".ljust(255, b"\0")]),
    ("varchar(20)", {}, ["tail  ", "", "漢字"]),
    ("varchar(300)", {}, ["y" * 300, "", "ü"]),
    ("varchar(30)", {"charset": "latin1"}, ["é€", "", "ÿ"]),
    ("varchar(10)", {"collation": "ujis_japanese_ci"}, ["漢字", "a", "ｱ"]),
    ("varbinary(20)", {}, [b"\0\1", b"", b"abc "]),
    ("tinytext", {}, ["a", "", None]),
    ("text", {}, ["x" * 70, "é", None]),
    ("text(9)", {}, ["nine", "", "é"]),
    ("mediumtext", {"charset": "utf16le"}, ["mé", "", "q"]),
    ("longtext", {}, ["l" * 300, "", "q"]),
    ("tinyblob", {}, [b"1", b"", None]),
    ("blob", {}, [bytes(range(256)), b"", b"\0"]),
    ("blob(300)", {}, [b"l", b"", b"1"]),
    ("mediumblob", {}, [b"m" * 70000, b"", b"1"]),
    ("longblob", {}, [b"l", b"", b"1"]),
    ("enum('a','it''s','é')", {}, [EnumValue("a", 1), EnumValue("it's", 2), EnumValue("é", 3)]),
    ("enum('a','é')", {"charset": "latin1"}, [EnumValue("a", 1), EnumValue("é", 2), EnumValue("", 0)]),
    (f"enum({_members('m', 300)})", {}, [EnumValue("m0", 1), EnumValue("m299", 300), EnumValue("m256", 257)]),
    ("set('x','y','z')", {}, [SetValue("x,z", 5), SetValue("", 0), SetValue("y", 2)]),
    (
        f"set({_members('k', 40)})",
        {"collation": "utf8mb4_bin"},
        [SetValue("k0,k39", 1 | 1 << 39), SetValue("", 0), SetValue("k33", 1 << 33)],
    ),
    ("json", {}, [JsonDocument.from_python(value) for value in DOCUMENTS]),
    ("geometry", {}, _shapes("POINT(1 2)", "GEOMETRYCOLLECTION EMPTY", "LINESTRING(0 0,1 1)")),
    ("point", {"srid": 4326}, _shapes("POINT(8.25 50.5)", "POINT(0 0)", "POINT(-1 -2)", srid=4326)),
    ("linestring", {}, [*_shapes("LINESTRING(0 0,1 1)"), None, None]),
    ("polygon", {}, [*_shapes("POLYGON((0 0,1 0,1 1,0 0))"), None, None]),
    ("multipoint", {}, [*_shapes("MULTIPOINT((0 0),(1 1))"), None, None]),
    ("multilinestring", {}, [*_shapes("MULTILINESTRING((0 0,1 1))"), None, None]),
    ("multipolygon", {}, [*_shapes("MULTIPOLYGON(((0 0,1 0,1 1,0 0)))"), None, None]),
    ("geometrycollection", {}, [*_shapes("GEOMETRYCOLLECTION(POINT(1 1))"), None, None]),
    ("vector(3)", {}, [(1.0, -2.5, 0.25), (0.0, 0.0, 1.0), None]),
    ("vector", {}, [(0.5,) * 2048, (1.0,), None]),
    ("int", {"visible": False}, [1, 2, None]),
]

ALL_TYPES: Final = TableDefinition(
    "shop",
    "all_types",
    (
        ColumnDefinition("id", "int", nullable=False),
        *(ColumnDefinition(f"c{number}", text, **facts) for number, (text, facts, _) in enumerate(TYPES)),
    ),
    ("id",),
)
"""A table with a column of every type."""

ALL_ROWS: Final[list[tuple[Any, ...]]] = [
    *((index + 1, *(values[index] for _, _, values in TYPES)) for index in range(3)),
    (4, *(None for _ in TYPES)),
]
"""Rows of `ALL_TYPES`; in the last row all columns except the key are NULL."""
