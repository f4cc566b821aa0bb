"""Values of a changed row in the order of its table, from a mapping or a sequence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from binlogio.errors import UnsupportedFeature
from binlogio.values.json import JsonDocument
from binlogio.values.json_diff import JsonDiffs
from binlogio.values.values import ABSENT

if TYPE_CHECKING:
    from binlogio.writer.rules.statement import Row
    from binlogio.writer.session.open_tables import OpenTable


def whole_row(row: Row, table: OpenTable, needed: tuple[int, ...]) -> list[Any]:
    """Return the values of a row that was in the table, so that none of those `needed` can be guessed.

    Others may be ABSENT.
    """
    definition = table.definition
    if not isinstance(row, Mapping):
        if len(row) != len(definition.columns):
            raise UnsupportedFeature(
                "the number of values differs from the number of columns",
                field=definition.full_name,
                expected=len(definition.columns),
                found=len(row),
            )
        return list(row)
    if len(row) == len(table.names):
        try:
            return [row[name] for name in table.names]
        except KeyError:
            pass  # another case, or another name
    given = values_by_position(row, table)
    missing = [definition.columns[index].name for index in needed if index not in given]
    if missing:
        raise UnsupportedFeature(
            "the row has no value for some columns", field=definition.full_name, found=", ".join(missing)
        )
    return [given.get(index, ABSENT) for index in range(len(definition.columns))]


def new_row(row: Row, table: OpenTable, needed: tuple[int, ...]) -> list[Any]:
    """As `whole_row`, but nullable columns that a mapping lacks are NULL."""
    if not isinstance(row, Mapping) or len(row) == len(table.names):
        return whole_row(row, table, needed)
    missing = {column.name.casefold(): column.name for column in table.definition.columns if column.nullable}
    for name in row:
        missing.pop(name.casefold(), None)
    return whole_row({**row, **dict.fromkeys(missing.values())}, table, needed)


def changed_row(old: list[Any], new: Row, table: OpenTable) -> list[Any]:
    """Return the values after an update: what a mapping lacks is as before."""
    if not isinstance(new, Mapping):
        return whole_row(new, table, ())
    values = list(old)
    for index, value in values_by_position(new, table).items():
        values[index] = value
    return values


def given_columns(row: Row, table: OpenTable) -> tuple[int, ...]:
    """Return the positions of the columns that a row has a value for."""
    if isinstance(row, Mapping):
        return tuple(sorted(values_by_position(row, table)))
    return tuple(range(len(table.names)))


def values_by_position(row: Mapping[str, Any], table: OpenTable) -> dict[int, Any]:
    """Return the values of a mapping by the positions of their columns."""
    return {table.definition.column_index(name): value for name, value in row.items()}


def with_documents(old: list[Any], new: list[Any]) -> list[Any]:
    """Return the values after an update with JSON documents in the place of JSON diffs.

    Raises:
        UnsupportedFeature: there is no document to apply them to.
        BinlogFormatError: the diffs do not fit the document.
    """
    values = list(new)
    for index, value in enumerate(values):
        if isinstance(value, JsonDiffs):
            document = old[index]
            if not isinstance(document, JsonDocument):
                raise UnsupportedFeature("JSON diffs need a document in the before image", found=repr(document))
            values[index] = value.apply(document)
    return values
