"""Text of row changes in `dump`, as SQL in comments.

Columns have their names if the log has them, else @1, @2 and so on.

    row := "### INSERT INTO" table "### SET" column*  |  "### UPDATE" table "### WHERE" column* "### SET" column*
         | "### DELETE FROM" table "### WHERE" column*
    column := "###   " name "=" value  ("/*" type nullable "*/")?       -- the type with -vv
"""

from __future__ import annotations

import re
from datetime import date, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from binlogio.constants import ColumnType
from binlogio.errors import BinlogError
from binlogio.values.geometry import SRID_SIZE, Geometry
from binlogio.values.json_diff import JsonDiffs
from binlogio.values.text import value_text
from binlogio.values.values import ABSENT
from binlogio_cli.quoting import bytes_literal, identifier, string_literal, table_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binlogio.reader import BinlogReader
    from binlogio.rows.image import RowImage
    from binlogio.rows.plan import ColumnPlan

_LITERAL: Final = (int, float, Decimal, bytes)
_PLAIN_NAME: Final = re.compile(r"@\d+")
_WITH_LENGTH: Final = (ColumnType.STRING, ColumnType.VARCHAR, ColumnType.VARCHAR_COMPRESSED, ColumnType.BIT)
_WITH_FRACTION: Final = (ColumnType.TIME2, ColumnType.DATETIME2, ColumnType.TIMESTAMP2)
_SQL_NAMES: Final = {
    ColumnType.TINY: "TINYINT",
    ColumnType.SHORT: "SHORTINT",
    ColumnType.INT24: "MEDIUMINT",
    ColumnType.LONG: "INT",
    ColumnType.LONGLONG: "LONGINT",
    ColumnType.NEWDECIMAL: "DECIMAL",
    ColumnType.VARCHAR: "VARSTRING",
    ColumnType.TIME2: "TIME",
    ColumnType.DATETIME2: "DATETIME",
    ColumnType.TIMESTAMP2: "TIMESTAMP",
}


def row_lines(event: Any, reader: BinlogReader, *, types: bool = False) -> Iterator[str]:
    """Yield the lines of a rows event, which must be the last event that the reader gave.

    `types` adds what each column is.
    """
    plan = reader.plan(event)
    name = table_name(plan.schema, plan.table)
    for number, change in enumerate(reader.rows(event)):
        if change.before is None and change.after is not None:
            yield f"### INSERT INTO {name}"
            yield "### SET"
            yield from _columns(number, change.after, types=types)
        elif change.before is not None and change.after is None:
            yield f"### DELETE FROM {name}"  # noqa: S608 - a comment to read
            yield "### WHERE"
            yield from _columns(number, change.before, types=types)
        elif change.before is not None and change.after is not None:
            yield f"### UPDATE {name}"
            yield "### WHERE"
            yield from _columns(number, change.before, types=types)
            yield "### SET"
            yield from _columns(number, change.after, types=types)


def _columns(number: int, image: RowImage, *, types: bool) -> Iterator[str]:
    for column, value in zip(image.plan.columns, image.values, strict=True):
        if value is not ABSENT:
            comment = f" /* {_type_text(column, value)} */" if types else ""
            try:
                text = sql_value(value, column)
            except BinlogError as exc:
                add_column(exc, number, column)
                raise
            yield f"###   {_label(column)}={text}{comment}"


def add_column(exc: BinlogError, number: int, column: ColumnPlan) -> None:
    """Add to an error about a value which row of its event (from 0 on) and which column it is in."""
    exc.field = ": ".join(filter(None, (f"row {number}, column {column.label}", exc.field)))


def _label(column: ColumnPlan) -> str:
    return column.label if _PLAIN_NAME.fullmatch(column.label) else identifier(column.label)


def sql_value(value: Any, column: ColumnPlan) -> str:
    """Return the value as SQL that gives it, safe to show."""
    if value is None:
        return "NULL"
    if isinstance(value, JsonDiffs):
        return value.sql(_label(column), quoted=string_literal)
    if isinstance(value, Geometry):
        return bytes_literal(value.srid.to_bytes(SRID_SIZE, "little") + value.wkb, value_text(value, column))
    if isinstance(value, tuple):
        return f"{column.vector_function}('{value_text(value, column)}')"
    if isinstance(value, _LITERAL):
        return value_text(value, column) if value != b"" else "''"
    if isinstance(value, date | timedelta):
        return f"'{value_text(value, column)}'"
    return string_literal(value_text(value, column))


def _type_text(column: ColumnPlan, value: Any) -> str:
    name = _SQL_NAMES.get(column.type, column.type.name)
    arguments = ""
    if column.type == ColumnType.NEWDECIMAL:
        arguments = f"({column.precision},{column.scale})"
    elif column.type in _WITH_FRACTION:
        arguments = f"({column.fsp})"
    elif column.type in _WITH_LENGTH:
        arguments = f"({column.length})"
    unsigned = " UNSIGNED" if column.unsigned else ""
    return (
        f"@{column.position + 1} {name}{arguments}{unsigned} meta={column.metadata} nullable={int(column.nullable)}"
        f" is_null={int(value is None)}"
    )
