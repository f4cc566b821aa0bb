"""Tables of a server from the `expected.json` of a corpus case: definitions, rows in SQLite's form, differences.

The key "encodings" of the file lists the encodings. Values over 20,000 bytes are stored as SHA-256 only.
"""

from __future__ import annotations

import hashlib
import json
import re
import struct
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from binlogio.dotted_names import dotted_name
from binlogio.replay.targets.sqlite.values import INTEGER_END
from binlogio.schema import TableDefinition

if TYPE_CHECKING:
    import sqlite3

_KEY: Final = re.compile(r"PRIMARY KEY \(((?:`(?:[^`]|``)+`(?:\(\d+\))?(?: DESC)?,?)+)\)")
_KEY_PART: Final = re.compile(r"`((?:[^`]|``)+)`(?:\((\d+)\))?")
_HASHED: Final = 20000  # bytes


def definitions(expected: dict[str, Any]) -> list[TableDefinition]:
    """Return the table definitions of the case."""
    return [_definition(name, table) for name, table in expected["tables"].items()]


def _definition(full_name: str, table: dict[str, Any]) -> TableDefinition:
    schema, _, name = full_name.partition(".")
    key = _KEY.search(table["create"])
    parts = [(part.replace("``", "`"), int(length or 0)) for part, length in _KEY_PART.findall(key[1])] if key else []
    columns = [
        {
            "name": column["name"],
            "type": column["type"],
            "nullable": column["nullable"],
            **{word: column[word] for word in ("charset", "collation") if column.get(word)},
        }
        for column in table["columns"]
    ]
    return TableDefinition.from_json(
        {
            "schema": schema,
            "name": name,
            "columns": columns,
            "primary_key": [part for part, _ in parts],
            "primary_key_prefixes": [length for _, length in parts] if any(length for _, length in parts) else [],
        }
    )


def rows(table: dict[str, Any]) -> Counter[tuple[Any, ...]]:
    """Return the rows of a table in the form of `comparable`."""
    return Counter(tuple(map(_expected, row, table["columns"])) for row in table["rows"])


def comparable(values: tuple[Any, ...], table: dict[str, Any]) -> tuple[Any, ...]:
    """Convert a row of SQLite to the form of `expected.json`."""
    return tuple(map(_stored, values, table["columns"]))


def _expected(value: Any, column: dict[str, Any]) -> Any:
    if isinstance(value, dict):
        shown = next(value[name] for name in ("sha256", "text", "json", "hex") if name in value)
        value = shown["sha256"] if isinstance(shown, dict) else shown
        return _floats(bytes.fromhex(value)) if column["encoding"] == "vector" else value
    if column["encoding"] == "double" and value is not None:
        return _single(float(value)) if column["data_type"] == "float" else float(value)
    return str(value) if isinstance(value, int) and value >= INTEGER_END else value


def _stored(value: Any, column: dict[str, Any]) -> Any:
    if column["encoding"] == "vector" and value is not None:
        return tuple(_single(number) for number in json.loads(value))
    if column["data_type"] == "float" and value is not None:
        return _single(value)
    data = value.encode() if isinstance(value, str) else value
    if isinstance(data, bytes) and len(data) > _HASHED:
        return hashlib.sha256(data).hexdigest()
    return value.hex() if isinstance(value, bytes) else value


def _floats(data: bytes) -> tuple[float, ...]:
    return struct.unpack(f"<{len(data) // 4}f", data)


def _single(number: float) -> float:
    """Return the 32-bit float nearest to `number`, its shortest decimal text."""
    return float(struct.unpack("<f", struct.pack("<f", number))[0])


def shown(values: tuple[Any, ...], table: dict[str, Any], without: tuple[str, ...]) -> tuple[Any, ...]:
    """Return a row without the columns that are not in the log."""
    named = zip(values, table["columns"], strict=True)
    return tuple(value for value, column in named if column["name"] not in without)


def found_rows(connection: sqlite3.Connection, name: str, table: dict[str, Any]) -> list[tuple[Any, ...]]:
    """Return the rows of a table in the server's form; of a system-versioned table only the current rows."""
    exists = connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (name,)).fetchone()
    if not exists:
        return []
    quoted = '"' + name.replace('"', '""') + '"'
    where = " WHERE row_end >= '2038'" if "WITH SYSTEM VERSIONING" in table["create"] else ""
    columns = ", ".join('"' + column["name"].replace('"', '""') + '"' for column in table["columns"])
    return [comparable(row, table) for row in connection.execute(f"SELECT {columns} FROM {quoted}{where}")]


def differences(
    connection: sqlite3.Connection, tables: dict[str, Any], not_in_the_log: dict[str, tuple[str, ...]]
) -> list[str]:
    """Return the names of the tables that differ from the server's."""
    different = []
    for name, table in tables.items():
        without = not_in_the_log.get(name, ())
        found = Counter(
            shown(row, table, without) for row in found_rows(connection, dotted_name(*name.split(".", 1)), table)
        )
        wanted: Counter[tuple[Any, ...]] = Counter()
        for row, count in rows(table).items():
            wanted[shown(row, table, without)] += count
        if found != wanted:
            different.append(name)
    return different
