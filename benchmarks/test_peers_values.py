"""Other libraries read the same values from logs that `BinlogWriter` writes for each server version.

`reads_otherwise` has the known differences with their reasons; all other values have to be equal.
"""

from __future__ import annotations

import json
import re
import struct
import subprocess
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pytest

from binlogio import ServerVariables
from binlogio.events import RowsEvent
from binlogio.events.table_map import TableMapEvent
from binlogio.reader import open as open_logs
from binlogio.values.charsets import charset_named
from judged_types import Typed, table_of, types_of_version, write_types
from peers import LIBRARIES, PYTHON, library_images

VERSIONS: Final = (
    "5.1.73", "5.5.62", "5.6.51-log", "5.7.44", "8.0.13", "8.0.22", "8.0.36", "8.4.3", "9.0.1", "9.6.0",
    "5.5.68-MariaDB", "10.0.38-MariaDB", "10.1.48-MariaDB", "10.2.44-MariaDB", "10.6.21-MariaDB", "11.4.5-MariaDB",
)  # fmt: skip
BITS: Final = {"tinyint": 8, "smallint": 16, "mediumint": 24, "int": 32, "bigint": 64, "year": 16, "bit": 64}
EPOCH: Final = datetime(1970, 1, 1)
GREGORIAN: Final = date(1582, 10, 15)
OLD_TIMES: Final = ("5.1.73", "5.5.62", "5.5.68-MariaDB", "10.0.38-MariaDB")
JAVA: Final = "mysql-binlog-connector-java"


def reads_otherwise(library: str, version: str, typed: Typed, value: Any) -> str | None:
    """Return the reason for a known difference; None: the value has to be equal."""
    name = _name(typed)
    if library == "mysql_common" and name == "json":
        return "its program does not print documents"
    if library == PYTHON and name in ("enum", "set"):
        return "members are None without optional metadata"
    if isinstance(value, timedelta) and value < timedelta(0) and (library == JAVA or version in OLD_TIMES):
        return "negative TIME, in Java of any format, loses its sign"
    if (
        library in ("mysql_common", PYTHON)
        and isinstance(value, timedelta)
        and value < timedelta(0)
        and value.microseconds
    ):
        return "negative TIME with a fraction is damaged"
    if library == JAVA and isinstance(value, date) and not isinstance(value, datetime) and value < GREGORIAN:
        return "days before the Gregorian calendar are Julian in Java"
    return None


def is_read(library: str, typed: Typed) -> bool:
    """Return whether a library can read events with a column of this type.

    Without optional metadata, python-mysql-replication decodes text and VARBINARY as UTF-8.
    """
    if library == PYTHON:
        return typed.charset in (None, "utf8mb4", "utf8") and _name(typed) not in ("varbinary", "vector")
    return library != JAVA or _name(typed) != "vector"


def _name(typed: Typed) -> str:
    found = re.match(r"\w+", typed.sql_type)
    assert found is not None
    return found[0]


def ours(typed: Typed, value: Any) -> Any:
    """Convert a value of binlogio to the representation of `theirs`."""
    name = _name(typed)
    if value is None:
        return None
    if name in BITS:
        return value % (1 << BITS[name])
    if name == "float":
        return struct.pack("<f", value)
    if name == "json":
        return json.loads(value.text)
    if name == "vector":
        return struct.pack(f"<{len(value)}f", *value)
    if name == "enum":
        return re.findall(r"'(\w+)'", typed.sql_type).index(value) + 1
    if name == "set":
        members = re.findall(r"'(\w+)'", typed.sql_type)
        return sum(1 << members.index(part) for part in str(value).split(",") if part)
    if isinstance(value, datetime):
        return value.replace(tzinfo=None)
    if isinstance(value, str):
        return charset_named(typed.charset or "utf8mb4").encode(value)
    return value.rstrip(b"\0") if name == "binary" else value


def theirs(typed: Typed, shown: str) -> Any:
    """Parse a value from the output of a library's program."""
    if shown == "-":
        return None
    name, kind, text = _name(typed), shown[0], shown[2:]
    data = bytes.fromhex(text) if kind == "s" else text.encode()
    if name == "bit" and kind == "s":
        return int.from_bytes(data, "big")
    if name == "set" and kind == "s":
        return int.from_bytes(data, "little")
    if name in BITS:
        return int(data) % (1 << BITS[name])
    if name in ("enum", "set"):
        return int(data)
    if name == "decimal":
        return Decimal(data.decode())
    if name == "float":
        return struct.pack("<f", float(data))
    if name == "double":
        return float(data)
    if name == "json":
        return json.loads(data)
    if name in ("date", "datetime", "timestamp"):
        return _moment(name, kind, data.decode())
    if name == "time":
        return _duration(kind, data.decode())
    return data.rstrip(b"\0") if name == "binary" else data


def _moment(name: str, kind: str, text: str) -> date:
    """Parse a date or time: SQL text, or microseconds or (up to 32 bits) seconds since 1970."""
    if kind == "n" and abs(int(text)) >= 1 << 32:
        found = EPOCH + timedelta(microseconds=int(text))
    elif re.fullmatch(r"\d+(\.\d+)?", text):
        found = EPOCH + timedelta(microseconds=int(Decimal(text) * 1_000_000))
    else:
        whole, _, fraction = text.partition(".")
        found = datetime.fromisoformat(whole) + timedelta(microseconds=int(fraction.ljust(6, "0") or 0))
    return found.date() if name == "date" else found


def _duration(kind: str, text: str) -> timedelta:
    if kind == "n":
        return timedelta(microseconds=int(text))
    hours, minutes, seconds = text.lstrip("-").split(":")
    found = timedelta(hours=int(hours), minutes=int(minutes), microseconds=int(Decimal(seconds) * 1_000_000))
    return -found if text.startswith("-") else found


def our_images(log: Path, types: tuple[Typed, ...]) -> Iterator[tuple[str, Any]]:
    """Yield the table name and the value of each row image in log order."""
    names: dict[int, str] = {}
    tables = [table_of(number, typed, "utf8mb4_general_ci") for number, typed in enumerate(types)]
    with open_logs(log, definitions={table.full_name: table for table in tables}) as reader:
        for event in reader:
            if isinstance(event, TableMapEvent):
                names[event.table_id] = event.table
            elif isinstance(event, RowsEvent):
                for row in reader.rows(event):
                    images = (image for image in (row.before, row.after) if image is not None)
                    yield from ((names[event.table_id], image.values[1]) for image in images)


@pytest.mark.parametrize("library", [*LIBRARIES, PYTHON])
@pytest.mark.parametrize("version", VERSIONS)
def test_libraries_read_our_logs_to_the_same_values(version: str, library: str, tmp_path: Path) -> None:
    """A library reads NULL and the boundary values of every type of a server version as binlogio does."""
    types = tuple(typed for typed in types_of_version(version) if is_read(library, typed))
    checksum = "NONE" if version == "5.5.68-MariaDB" else "CRC32"  # mysql_common supports no checksums before 5.6.1
    variables = ServerVariables(server_version=version, binlog_row_metadata="MINIMAL", binlog_checksum=checksum)
    log = write_types(tmp_path / "binlog", variables, types, mariadb=True)
    try:
        found = library_images(library, log)
    except FileNotFoundError as exc:
        pytest.skip(f"{library}: {exc}")
    except subprocess.CalledProcessError as exc:
        pytest.fail(f"{library} fails on {version}: {exc.stderr.strip()[-300:]}")
    expected = list(our_images(log, types))
    wrong, compared = [], 0

    assert [image[0] for image in found] == [table for table, _ in expected]
    for (table, value), (_, _, shown) in zip(expected, found, strict=True):
        typed = types[int(table.removeprefix("t"))]
        if reads_otherwise(library, version, typed, value) is not None:
            continue
        compared += 1
        if ours(typed, value) != theirs(typed, shown):
            wrong.append((typed.sql_type, value, shown[:80]))
    assert wrong == []
    assert compared > 200
