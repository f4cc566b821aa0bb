"""Column types and values whose logs real servers and tools verify, and the resulting tables."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import binlogio
from binlogio import BinlogWriter, ColumnDefinition, Delete, Insert, ServerVariables, Statement, TableDefinition, Update
from binlogio.events import RowsEvent
from binlogio.values.geometry import Geometry
from binlogio.values.json import JsonDocument
from real_servers import Instance


@dataclass(frozen=True)
class Typed:
    """A column type and its values, each with the SQL expression for a comparison on a server."""

    sql_type: str
    values: tuple[tuple[Any, str], ...]
    charset: str | None = None
    only_mysql: bool = False


def _utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=timezone.utc)  # type: ignore[misc, arg-type]


POINT = Geometry(0, bytes.fromhex("0101000000000000000000f83f00000000000000c0"))
TYPES = (
    Typed("tinyint", ((-128, "-128"), (127, "127"))),
    Typed("tinyint unsigned", ((0, "0"), (255, "255"))),
    Typed("smallint", ((-32768, "-32768"), (32767, "32767"))),
    Typed("mediumint", ((-8388608, "-8388608"), (8388607, "8388607"))),
    Typed("mediumint unsigned", ((16777215, "16777215"),)),
    Typed("int", ((-2147483648, "-2147483648"), (2147483647, "2147483647"))),
    Typed("bigint", ((-(2**63), "-9223372036854775808"), (2**63 - 1, "9223372036854775807"))),
    Typed("bigint unsigned", ((2**64 - 1, "18446744073709551615"),)),
    Typed("decimal(10,2)", ((Decimal("-12345678.90"), "-12345678.90"), (Decimal("0.05"), "0.05"))),
    Typed("decimal(65,30)", ((Decimal("-" + "9" * 35 + "." + "9" * 30), "-" + "9" * 35 + "." + "9" * 30),)),
    Typed("float", ((1.5, "1.5"), (-0.25, "-0.25"))),
    Typed("double", ((2.5e-308, "2.5e-308"), (0.1, "0.1e0"))),
    Typed("bit(1)", ((1, "b'1'"),)),
    Typed("bit(64)", ((2**64 - 1, "18446744073709551615"), (5, "5"))),
    Typed("year", ((1901, "1901"), (2155, "2155"))),
    Typed("date", ((date(1000, 1, 1), "'1000-01-01'"), (date(9999, 12, 31), "'9999-12-31'"))),
    Typed("time", ((timedelta(hours=-838, minutes=-59, seconds=-59), "'-838:59:59'"),)),
    Typed("time(2)", ((timedelta(milliseconds=-120), "'-00:00:00.12'"),)),
    Typed("time(6)", ((timedelta(microseconds=-1), "'-00:00:00.000001'"), (timedelta(hours=26), "'26:00:00'"))),
    Typed("datetime", ((datetime(2024, 2, 29, 23, 59, 59), "'2024-02-29 23:59:59'"),)),
    Typed("datetime(3)", ((datetime(1999, 12, 31, 1, 2, 3, 450000), "'1999-12-31 01:02:03.45'"),)),
    Typed("datetime(6)", ((datetime(9999, 12, 31, 23, 59, 59, 999999), "'9999-12-31 23:59:59.999999'"),)),
    Typed("timestamp", ((_utc(2038, 1, 19, 3, 14, 7), "'2038-01-19 03:14:07'"),)),
    Typed("timestamp(6)", ((_utc(2001, 9, 9, 1, 46, 40, 1), "'2001-09-09 01:46:40.000001'"),)),
    Typed("char(5)", (("ab", "'ab'"), ("", "''"))),
    Typed("char(200)", (("ü" * 200, "REPEAT('ü', 200)"),)),
    Typed("varchar(20)", (("naïve 🙂", "'naïve 🙂'"),)),
    Typed("varchar(300)", (("x" * 256, "REPEAT('x', 256)"),)),
    Typed("varchar(40)", (("Ærø", "_utf8mb4'Ærø'"),), charset="latin1"),
    Typed("varchar(40)", (("日本", "_utf8mb4'日本'"),), charset="sjis"),
    Typed("varchar(40)", (("Ω𝄞", "_utf8mb4'Ω𝄞'"),), charset="utf16"),
    Typed("binary(6)", ((b"\x01\x00\x02\x00\x00\x00", "x'010002000000'"),)),
    Typed("varbinary(300)", ((b"\x00\xff" * 140, "REPEAT(x'00ff', 140)"),)),
    Typed("tinyblob", ((b"\x00", "x'00'"),)),
    Typed("blob", ((b"b" * 70, "REPEAT('b', 70)"),)),
    Typed("mediumblob", ((b"m" * 70000, "REPEAT('m', 70000)"),)),
    Typed("longtext", (("long \\ ' \" text", r"'long \\ \' \" text'"),)),
    Typed("enum('red','green')", (("green", "'green'"),)),
    Typed("set('a','b','c')", (("a,c", "'a,c'"), ("", "''"))),
    Typed("geometry", ((POINT, "ST_GeomFromText('POINT(1.5 -2)')"),)),
    Typed("json", ((JsonDocument.from_text('{"a": [1, -2.5, "x"]}'), """CAST('{"a": [1, -2.5, "x"]}' AS JSON)"""),),
    only_mysql=True),
    Typed("vector(3)", (((1.0, -0.5, 3.25), "STRING_TO_VECTOR('[1,-0.5,3.25]')"),), only_mysql=True),
)  # fmt: skip
READABLE = tuple(typed for typed in TYPES if typed.sql_type != "geometry")  # mysqlbinlog -v stops at one: Bug#72495


def types_of_version(version: str) -> tuple[Typed, ...]:
    """Return the types of a server version that other servers can read.

    The fractional digits of MariaDB's old temporal formats are not in the table map, so these types are excluded.
    """
    number = tuple(int(part) for part in version.split(".")[:2])
    has_fractions = number >= (10, 1) if "MariaDB" in version else number >= (5, 6)
    numbers = (0, 0) if "MariaDB" in version else number
    return tuple(
        typed
        for typed in READABLE
        if not (typed.sql_type.startswith("vector") and numbers < (9, 0))
        and not (typed.sql_type == "json" and numbers < (5, 7))
        and (has_fractions or not re.search(r"(?:time|stamp)\(", typed.sql_type))
    )


def table_of(number: int, typed: Typed, collation: str) -> TableDefinition:
    value = ColumnDefinition("v", typed.sql_type, charset=typed.charset)
    columns = (ColumnDefinition("id", "int", nullable=False), value)
    return TableDefinition("judge", f"t{number}", columns, ("id",), collation=collation)


def create_statement(number: int, typed: Typed) -> str:
    charset = f" CHARACTER SET {typed.charset}" if typed.charset else ""
    return f"CREATE TABLE judge.t{number} (id INT NOT NULL PRIMARY KEY, v {typed.sql_type}{charset} NULL)"


def write_types(
    path: Path,
    variables: ServerVariables,
    types: tuple[Typed, ...],
    *,
    mariadb: bool = False,
    keyring: str | None = None,
) -> Path:
    """Write a log that inserts, updates and deletes every value of every type, and NULL; return its path."""
    collation = "utf8mb4_general_ci" if mariadb else "utf8mb4_0900_ai_ci"
    with BinlogWriter(path, variables=variables, keyring=keyring) as log, log.session() as session:
        session.ddl(f"CREATE DATABASE judge COLLATE {collation}")
        for number, typed in enumerate(types):
            table = table_of(number, typed, collation)
            session.ddl(create_statement(number, typed))
            values = [value for value, _ in typed.values]
            rows = [{"id": i, "v": value} for i, value in enumerate([*values, None])]
            extra = {"id": 100, "v": values[0]}
            session.begin()
            session.execute(Statement("INSERT", (Insert(table, (*rows, extra)),)))
            blank = [({"id": i, "v": row["v"]}, {"id": i, "v": None}) for i, row in enumerate(rows)]
            session.execute(Statement("UPDATE", (Update(table, blank[:-1]),)))
            session.execute(Statement("UPDATE", (Update(table, [(after, before) for before, after in blank[:-1]]),)))
            session.execute(Statement("DELETE", (Delete(table, [extra]),)))
            session.commit()
        return Path(log.names[-1]) if Path(log.names[-1]).is_absolute() else path.parent / log.names[-1]


def count_changes(path: Path) -> int:
    with binlogio.open(path) as reader:
        return sum(1 for event in reader if isinstance(event, RowsEvent) for _ in reader.rows(event))


def expect_tables(server: Instance, types: tuple[Typed, ...]) -> None:
    """Check on the server that each row has the expected value."""
    asked, expected = ["SET time_zone='+00:00', NAMES utf8mb4;"], []
    for number, typed in enumerate(types):
        for i, (_, literal) in enumerate((*typed.values, (None, "NULL"))):
            same = f"HEX(v) <=> HEX({literal})" if typed.sql_type.startswith("vector") else f"v <=> {literal}"
            asked.append(f"SELECT 't{number}', {i}, COUNT(*) FROM judge.t{number} WHERE id = {i} AND {same};")
            expected.append(f"t{number}\t{i}\t1")
        asked.append(f"SELECT 't{number}', 'rows', COUNT(*) FROM judge.t{number};")
        expected.append(f"t{number}\trows\t{len(typed.values) + 1}")

    assert server.sql("\n".join(asked)).splitlines() == expected
