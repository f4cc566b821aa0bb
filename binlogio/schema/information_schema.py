"""Table definitions from the output of a query on `information_schema`.

`QUERY` works on MySQL from 5.7 on and MariaDB from 10.2 on. Two formats of its output are accepted: that of
`mysql --batch` (a line of names, then a line for each column of a table, with tabs between values), and JSON (a list of
objects, or a sequence of objects).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import groupby
from typing import Final

from binlogio.errors import UnsupportedFeature
from binlogio.schema.definition import ColumnDefinition, TableDefinition
from binlogio.schema.given import json_values

# Table names are cast to bytes, because MariaDB compares them without case there, although `t` and `T` are two tables.
QUERY: Final = """\
SELECT c.TABLE_SCHEMA, c.TABLE_NAME, c.COLUMN_NAME, c.COLUMN_TYPE, c.IS_NULLABLE, c.COLLATION_NAME, c.COLUMN_DEFAULT,
  c.EXTRA, c.GENERATION_EXPRESSION, k.SEQ_IN_INDEX AS KEY_POSITION, k.SUB_PART AS KEY_PREFIX, t.ENGINE,
  t.TABLE_COLLATION
FROM information_schema.COLUMNS c
JOIN information_schema.TABLES t ON CAST(t.TABLE_SCHEMA AS BINARY) = CAST(c.TABLE_SCHEMA AS BINARY)
  AND CAST(t.TABLE_NAME AS BINARY) = CAST(c.TABLE_NAME AS BINARY)
LEFT JOIN information_schema.STATISTICS k ON CAST(k.TABLE_SCHEMA AS BINARY) = CAST(c.TABLE_SCHEMA AS BINARY)
  AND CAST(k.TABLE_NAME AS BINARY) = CAST(c.TABLE_NAME AS BINARY)
  AND k.COLUMN_NAME = c.COLUMN_NAME AND k.INDEX_NAME = 'PRIMARY'
WHERE t.TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED')
  AND c.TABLE_SCHEMA NOT IN ('information_schema', 'mysql', 'performance_schema', 'sys')
ORDER BY CAST(c.TABLE_SCHEMA AS BINARY), CAST(c.TABLE_NAME AS BINARY), c.ORDINAL_POSITION;
"""
"""The query for `parse_information_schema`."""

_Row = dict[str, "str | None"]

NAMES: Final = (
    "table_schema", "table_name", "column_name", "column_type", "is_nullable", "collation_name", "column_default",
    "extra", "generation_expression", "key_position", "key_prefix", "engine", "table_collation",
)  # fmt: skip
"""The names of the columns of `QUERY`, in their order."""

_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES: Final = {"n": "\n", "t": "\t", "0": "\0"}  # a backslash before any other character is ignored
_QUOTED: Final = re.compile(r"`((?:[^`]|``)+)`")
_HINT: Final = "`binlogio schema --query` prints the query"


def parse_information_schema(text: str) -> list[TableDefinition]:
    """Return the tables in the output of `QUERY`.

    Raises:
        UnsupportedFeature: the text is not an output of `QUERY`, or a column type is not supported.
    """
    rows = _from_json(text) if text.lstrip().startswith(("[", "{")) else _from_lines(text)
    grouped = groupby(rows, key=lambda row: (row["table_schema"] or "", row["table_name"] or ""))
    tables = [_table(*name, list(columns)) for name, columns in grouped]
    if len({(table.schema, table.name) for table in tables}) < len(tables):
        raise UnsupportedFeature("the columns of a table are not together", hint=_HINT)
    return tables


def _from_lines(text: str) -> Iterator[_Row]:
    head, _, rest = text.partition("\n")
    names = _checked(head.rstrip("\r").split("\t"))
    for number, line in enumerate(rest.split("\n"), 2):
        values = line.rstrip("\r").split("\t")
        if values == [""]:
            continue
        if len(values) != len(names):
            raise UnsupportedFeature(
                "a line has another number of values than the first one",
                field=f"line {number}",
                expected=len(names),
                found=len(values),
            )
        yield {
            name: None if value == "NULL" else _ESCAPED.sub(lambda found: _ESCAPES.get(found[1], found[1]), value)
            for name, value in zip(names, values, strict=True)
        }


def _from_json(text: str) -> Iterator[_Row]:
    try:
        found = list(json_values(text))
    except (ValueError, RecursionError) as exc:
        raise UnsupportedFeature("the rows are not JSON", found=str(exc)) from exc
    for row in found[0] if len(found) == 1 and isinstance(found[0], list) else found:
        if not isinstance(row, Mapping):
            raise UnsupportedFeature("a row is not a JSON object", expected="{...}", found=json.dumps(row))
        values = [None if value is None else str(value) for value in row.values()]
        yield dict(zip(_checked(list(row)), values, strict=True))


def _checked(names: list[str]) -> list[str]:
    found = [name.lower() for name in names]
    missing = [name for name in NAMES if name not in found]
    if missing:
        raise UnsupportedFeature(
            "this is not the output of the query for information_schema",
            expected=", ".join(NAMES),
            found=", ".join(names)[:200],
            hint=_HINT,
        )
    return found


def _table(schema: str, name: str, rows: list[_Row]) -> TableDefinition:
    collation = rows[0]["table_collation"]
    key = sorted((row for row in rows if row["key_position"]), key=lambda row: _number(row, "key_position"))
    prefixes = tuple(_number(row, "key_prefix") for row in key)
    names = {(row["column_name"] or "").casefold() for row in rows}
    table = TableDefinition(
        schema,
        name,
        tuple(_column(row, names) for row in rows),
        tuple(row["column_name"] or "" for row in key),
        prefixes if any(prefixes) else (),
    )
    return table if collation is None else replace(table, collation=collation, engine=rows[0]["engine"] or table.engine)


def _number(row: _Row, name: str) -> int:
    text = row[name] or "0"
    if not text.isdecimal():
        raise UnsupportedFeature("a value is not a number", field=name.upper(), found=repr(text))
    return int(text)


def _column(row: _Row, names: set[str]) -> ColumnDefinition:
    extra = (row["extra"] or "").lower()
    default = (row["column_default"] or "").lower()
    generated = None
    if "generated" in extra.replace("default_generated", ""):
        used = (name.replace("``", "`") for name in _QUOTED.findall(row["generation_expression"] or ""))
        generated = tuple(dict.fromkeys(name for name in used if name.casefold() in names))
    own = row["collation_name"] if row["collation_name"] != row["table_collation"] else None
    return ColumnDefinition.from_json(
        {
            "name": row["column_name"],
            "type": row["column_type"],
            "nullable": row["is_nullable"] == "YES",
            "collation": own,
            "visible": "invisible" not in extra,
            "auto_increment": "auto_increment" in extra,
            "generated_from": generated,
            "virtual": "virtual" in extra,
            "default_now": default.startswith("current_timestamp"),
            "on_update_now": "on update current_timestamp" in extra,
        }
    )
