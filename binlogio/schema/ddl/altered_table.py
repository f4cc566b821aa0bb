"""Applies the parsed clauses of an ALTER TABLE to a table.

The server does not apply the clauses in their order: first it drops and changes existing columns in place, by their old
names; then it adds columns and moves those with a new position, in the order of the clauses and by new names.
`alter_table` parses the clauses.

Source: sql/sql_table.cc, mysql_prepare_alter_table of both servers.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from binlogio.dotted_names import dotted_name
from binlogio.errors import UnsupportedFeature
from binlogio.frozen import dataclass
from binlogio.schema.collations import BINARY, charset_of_collation, max_character_bytes
from binlogio.schema.ddl.column_text import ParsedColumn, TableSetting, resolved_column, with_first_timestamp
from binlogio.schema.ddl.create_table import VERSIONING_COLUMNS, keys_of_column, versioned
from binlogio.schema.ddl.parsed_table import ParsedTable, Period
from binlogio.schema.ddl.server_defaults import ServerDefaults
from binlogio.schema.ddl.tree import AlterClauses, ColumnClause
from binlogio.schema.definition import ColumnDefinition
from binlogio.schema.types import MEMBER_TYPES, TEXT_TYPES, member_text
from binlogio.values.charsets import charset_named

_JSON_COLLATION: Final = "utf8mb4_bin"
_LARGER: Final = {"tinytext": "text", "text": "mediumtext", "mediumtext": "longtext"}
_AS_BINARY: Final = {
    "char": "binary",
    "varchar": "varbinary",
    "tinytext": "tinyblob",
    "text": "blob",
    "mediumtext": "mediumblob",
}


@dataclass(frozen=True, slots=True)
class _Change:
    """A column that is added (`old` is None) or has a new definition, as `ColumnClause`."""

    old: str | None
    column: ParsedColumn
    place: str | None = None


def altered_table(
    table: ParsedTable, clauses: AlterClauses, server: ServerDefaults, database_collation: tuple[str, bool]
) -> ParsedTable:
    """Return the table once the clauses are carried out; `schema` and `name` are new ones where it is renamed.

    `database_collation` is what CHARACTER SET DEFAULT means, and whether that is assumed.

    Raises:
        UnsupportedFeature: a clause does not fit the table.
    """
    alter = clauses.fitting(table)
    (usual, is_assumed), options = database_collation, alter.options
    converted_to = None
    if alter.conversion is not None:
        converted_to = alter.conversion.chosen_collation(server, usual)
        if options.charset is None and options.collation is not None:
            options = replace(options, charset=alter.conversion.charset)
    named = [one for one in (options, alter.conversion) if one is not None]
    if is_assumed and any(one.depends_on_usual(server) for one in named):
        raise _misfit(table, "CHARACTER SET DEFAULT of a database whose character set is not in the log")
    chosen = options.chosen_collation(server, usual) or converted_to
    if alter.versioning is False:
        table = replace(
            table, is_versioned=False, columns=tuple(c for c in table.columns if c not in VERSIONING_COLUMNS)
        )
    if chosen is not None:
        table = replace(table, collation=chosen, collation_is_assumed=False)
    if converted_to is not None:
        if any(change.old is not None for change in alter.columns):
            raise _misfit(table, "CONVERT TO CHARACTER SET together with MODIFY or CHANGE of a column")
        is_alias = server.is_mariadb  # JSON is one of LONGTEXT there
        columns = tuple(_converted(table, column, converted_to, json_is_text=is_alias) for column in table.columns)
        table = replace(table, assumed=frozenset(), columns=columns)
    setting = TableSetting(server, table.collation, table.collation_is_assumed, converted_to)
    # The keys of a column with IF [NOT] EXISTS are added IF NOT EXISTS themselves, even if the column is left out.
    found = [resolved_column(one.column, setting) for one in clauses.columns if one.is_conditional]
    taken = {key.name.casefold() for key in table.keys}
    keys = [key.doubtful() for column in found for key in keys_of_column(column) if key.checked_name not in taken]
    alter = replace(alter, keys=(*keys, *alter.keys))
    changes = [_Change(one.old, _changed_column(one, setting), one.place) for one in alter.columns]
    table = _with_columns(table, alter, changes)
    texts = {one.name.casefold(): one.column for one in alter.columns}
    table = replace(table, columns=with_first_timestamp(table.columns, texts, server))
    table = _with_keys(table, alter, changes)
    if alter.options.engine is not None:
        table = replace(table, engine=alter.options.engine)
    if alter.versioning:
        table = versioned(table, alter.periods)
    if alter.name is not None:
        schema, name = alter.name
        table = replace(table, schema=table.schema if schema is None else schema, name=name)
    return table


def _changed_column(clause: ColumnClause, setting: TableSetting) -> ParsedColumn:
    column = resolved_column(clause.column, setting)
    return replace(column, is_primary=False, is_unique=False) if clause.is_conditional else column


def _with_columns(table: ParsedTable, alter: AlterClauses, changes: list[_Change]) -> ParsedTable:
    if not changes and not (alter.dropped or alter.renamed or alter.visible):
        return table
    columns, assumed = _existing_columns(table, alter, changes)
    for change in changes:
        if change.column.is_assumed:
            assumed.add(change.column.column.name.casefold())
        if change.old is not None and change.place is not None:
            name = change.column.column.name.casefold()
            columns = [column for column in columns if column.name.casefold() != name]
        if change.old is None or change.place is not None:
            _put(table, columns, change)
    if not columns or len({column.name.casefold() for column in columns}) != len(columns):
        raise _misfit(table, "no columns, or a duplicate column name")
    return replace(table, columns=tuple(columns), assumed=frozenset(assumed))


def _existing_columns(
    table: ParsedTable, alter: AlterClauses, changes: list[_Change]
) -> tuple[list[ColumnDefinition], set[str]]:
    """Return the columns that are left, with their changes in place, and which of them have an assumed collation."""
    changed = {change.old.casefold(): change for change in changes if change.old is not None}
    dropped = {name.casefold() for name in alter.dropped}
    found = {*dropped, *alter.renamed, *alter.visible, *changed}
    if not found:
        return list(table.columns), set(table.assumed)
    columns: list[ColumnDefinition] = []
    assumed = set(table.assumed - found)
    missing = set(found)
    for column in table.columns:
        old = column.name.casefold()
        if old not in found:
            columns.append(column)
            continue
        missing.discard(old)
        if old in dropped:
            continue
        change = changed.get(old)
        if change is not None:
            columns.append(change.column.column)
            continue
        name = alter.renamed.get(old, column.name)
        columns.append(replace(column, name=name, visible=alter.visible.get(old, column.visible)))
        if old in table.assumed:
            assumed.add(name.casefold())
    if dropped & changed.keys():
        raise _misfit(table, "DROP and CHANGE of one column")
    if missing:
        names = (*alter.dropped, *alter.renamed, *alter.visible, *(c.old for c in changes if c.old is not None))
        raise _misfit(table, f"no column {next(name for name in names if name.casefold() in missing)}")
    return columns, assumed


def _put(table: ParsedTable, columns: list[ColumnDefinition], change: _Change) -> None:
    """Insert a column at its position. MariaDB keeps its versioning columns last."""
    if change.place is None:
        at = len(columns)
        while at and columns[at - 1] in VERSIONING_COLUMNS:
            at -= 1
    elif not change.place:
        at = 0
    else:
        names = [column.name.casefold() for column in columns]
        if change.place.casefold() not in names:
            raise _misfit(table, f"no column {change.place}")
        at = names.index(change.place.casefold()) + 1
    columns.insert(at, change.column.column)


def _with_keys(table: ParsedTable, alter: AlterClauses, changes: list[_Change]) -> ParsedTable:
    gone = {name.casefold() for name in alter.dropped_keys}
    added = {change.column.column.name.casefold() for change in changes if change.old is None}
    bound = _bound_names(table, alter, changes)
    dropped = {name.casefold() for name in alter.dropped}
    keys = []
    for key in table.keys:
        if key.name.casefold() in gone:
            continue
        parts = tuple(
            (bound.get(name.casefold(), name), prefix)
            for name, prefix in key.parts
            if name.casefold() in bound or name.casefold() not in dropped
        )
        if parts:
            name = alter.renamed_keys.get(key.name.casefold(), key.name)
            is_new = any(part.casefold() in added for part, _ in parts)  # which may be longer than the part of the key
            keys.append(replace(key.doubtful() if is_new else key, name=name, parts=parts))
    table = replace(table, keys=(), period=None if alter.drops_period else _renamed_period(table, alter, changes))
    for period in alter.periods:
        if table.period is None or table.period.name.casefold() != period.name.casefold():  # else it was IF NOT EXISTS
            table = table.with_period(period)
    for one in keys:
        table = table.with_key(one)
    for change in changes:
        for own in keys_of_column(change.column):
            table = table.with_key(own)
    for new in alter.keys:
        table = table.with_key(new)
    return table


def _new_names(alter: AlterClauses, changes: list[_Change]) -> dict[str, str]:
    """Return the new names of columns that are renamed or changed, by their old names in small letters."""
    changed = {change.old.casefold(): change.column.column.name for change in changes if change.old is not None}
    return dict(alter.renamed) | changed


def _renamed_period(table: ParsedTable, alter: AlterClauses, changes: list[_Change]) -> Period | None:
    period = table.period
    if period is None:
        return None
    names = _new_names(alter, changes)
    start, end = (names.get(name.casefold(), name) for name in (period.start, period.end))
    return Period(period.name, start, end)


def _bound_names(table: ParsedTable, alter: AlterClauses, changes: list[_Change]) -> dict[str, str]:
    """Return the columns that keys have afterwards, by the names in them in small letters.

    That is the first column that had the name, or that has it and was not renamed: also one that was added, in the
    place of one that is dropped or gets another name. sql/sql_table.cc, mysql_prepare_alter_table.
    """
    new_names = _new_names(alter, changes)
    changed = {*new_names, *(change.column.column.name.casefold() for change in changes)}
    if not any(name.casefold() in changed for key in table.keys for name, _ in key.parts):
        return {}
    old_names = {new.casefold(): old for old, new in new_names.items()}
    bound: dict[str, str] = {}
    for column in table.columns:
        name = column.name.casefold()
        bound.setdefault(old_names.get(name, name), column.name)
    return bound


def _converted(table: ParsedTable, column: ColumnDefinition, collation: str, *, json_is_text: bool) -> ColumnDefinition:
    """Return the column after CONVERT TO CHARACTER SET: a TEXT grows to hold as many characters as before."""
    if json_is_text and column.type == "json":
        column = replace(column, type="longtext", collation=_JSON_COLLATION)
    name, mark, rest = column.type.partition("(")
    name, space, attributes = name.partition(" ")
    if name not in (*TEXT_TYPES, *MEMBER_TYPES) or column.collation in (None, BINARY):  # such an ENUM stays binary
        return column
    if charset_of_collation(collation) == BINARY and name in TEXT_TYPES:
        return replace(column, type=_AS_BINARY.get(name, "longblob") + space + attributes + mark + rest, collation=None)
    if name in MEMBER_TYPES:
        if column.name.casefold() in table.assumed and not column.type.isascii():
            raise _misfit(table, "CONVERT TO CHARACTER SET of members whose character set is not in the log")
        return replace(column, type=_recoded_members(column, column.collation, collation), collation=collation)
    if max_character_bytes(collation) > max_character_bytes(column.collation):
        name = _LARGER.get(name, name)
    return replace(column, type=name + space + attributes + mark + rest, collation=collation)


def _recoded_members(column: ColumnDefinition, old: str, new: str) -> str:
    """Return the type of an ENUM or SET after CONVERT TO: the servers keep the bytes of the members.

    MariaDB takes binary members with NUL bytes for those of another column if the bytes before NUL are the same.
    """
    kind = column.sql_type
    charsets = [charset_of_collation(old), charset_of_collation(new)]
    try:
        members = [_recoded(member, *charsets) for member in kind.members]
    except (UnicodeEncodeError, UnicodeDecodeError) as exc:
        raise UnsupportedFeature(
            "an ENUM or SET member cannot be encoded in the column's character set",
            field=column.name,
            found=repr(exc.object),
        ) from exc
    return f"{kind.name}({','.join(map(member_text, members))})"


def _recoded(member: str, old: str, new: str) -> str:
    data = member.encode("utf-8", "surrogateescape") if old == BINARY else charset_named(old).encode(member)
    if new != BINARY:
        return charset_named(new).decode(data)
    if b"\0" in data:
        raise UnicodeDecodeError("ascii", data, 0, len(data), "NUL")
    return data.decode("utf-8", "surrogateescape")


def _misfit(table: ParsedTable, found: str) -> UnsupportedFeature:
    return UnsupportedFeature(
        "the statement does not match the table", field=dotted_name(table.schema, table.name), found=found
    )
