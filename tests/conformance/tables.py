"""Tables of a scenario: definitions, from the recorded lines of CREATE TABLE, and the rows that statements need.

Knows just enough SQL for the scenarios: column lines, literals, `REPEAT('x',n)`, and `SET b=CONCAT(...)`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final

from binlogio.schema import ColumnDefinition, KeyDefinition, TableDefinition
from binlogio.writer.rules.known_objects import table_access
from binlogio.writer.rules.statement_facts import TableAccess
from conformance.scenarios import Json, NotDrivenError

SCHEMA: Final = "w"
_COLUMN: Final = re.compile(r"`?(\w+)`?\s+(\w+(?:\([^)]*\))?)(.*)", re.DOTALL)
_GENERATED: Final = re.compile(r"\bAS\s*\(([^)]*)\)", re.IGNORECASE)
_FOREIGN_KEY: Final = re.compile(r"FOREIGN KEY .*REFERENCES (\w+)", re.IGNORECASE)
_PART: Final = re.compile(r"(\w+)(?:\((\d+)\))?")
_CREATE: Final = re.compile(
    r"CREATE (?:TEMPORARY )?TABLE (?:IF NOT EXISTS )?(\w+)\s*(\(.*?\))?\s*(?:ENGINE\s*=\s*(\w+)\s*)?"
    r"(?:(?:AS )?(SELECT .*)|LIKE (\w+))?$",
    re.IGNORECASE | re.DOTALL,
)
_VALUE: Final = re.compile(r"\s*(?:(-?\d+)|'((?:[^']|'')*)'|@\w+|REPEAT\('(.)',(\d+)\)|(NULL))\s*([,)])", re.IGNORECASE)
_INSERT: Final = re.compile(
    r"(?:INSERT|REPLACE)\s+(?:IGNORE\s+)?INTO\s+(\w+)\s*(?:\(([\w,]*)\))?\s*VALUES\s*(?=\()", re.IGNORECASE
)
_CONCAT: Final = re.compile(r"UPDATE (\w+) SET (\w+)=CONCAT\((.*),(.*)\)$", re.IGNORECASE)

_UNKNOWN: Final[Json] = {}
Row = list[Any]


@dataclass
class Table:
    """A table, and the rows that it has."""

    definition: TableDefinition
    temporary: bool = False
    rows: list[Row] = field(default_factory=list)

    def first_conflict(self, row: Row, gone: list[Row]) -> tuple[Row, bool] | None:
        """Return the row that a new one collides with, by the first such key, and whether that is the last key.

        Rows that are `gone` do not count.
        """
        table = self.definition
        keys = [(table.primary_key, table.primary_key_prefixes)] if table.primary_key else []
        nullable = {column.name for column in table.columns if column.nullable}
        unique = sorted(
            table.unique_keys, key=lambda key: not nullable.isdisjoint(key.columns)
        )  # as the server sorts them
        keys += [(key.columns, key.prefixes) for key in unique]
        for number, (names, prefixes) in enumerate(keys, start=1):
            parts = [table.column_index(name) for name in names]
            wanted = _key_of(row, parts, prefixes)
            for other in self.rows:
                if other not in gone and None not in wanted and _key_of(other, parts, prefixes) == wanted:
                    return other, number == len(keys)
        return None

    def access(self, *, write: bool = False, read: bool = False) -> TableAccess:
        """Return what a statement does to it."""
        return table_access(self.definition, write=write, read=read, temporary=self.temporary)


class Tables:
    """The tables of one scenario."""

    def __init__(self, setup: Json) -> None:
        self._tables: dict[str, Table] = {}
        self._hidden: dict[str, Table] = {}
        self.triggers: tuple[str, ...] = tuple(setup.get("triggers") or ())
        self.functions: tuple[str, ...] = ()
        parents: set[str] = set()
        for name, table in setup["tables"].items():
            parents.update(match[1] for line in table["cols"] if (match := _FOREIGN_KEY.search(line)))
            definition = _definition(name, table)
            given = table.get("row_cols") or [column.name for column in definition.columns]
            rows = [_row(definition, dict(zip(given, row, strict=True)), _UNKNOWN) for row in table["rows"]]
            self._tables[name] = Table(definition, rows=rows)
        for name in parents:
            table_ = self._tables[name]
            table_.definition = replace(table_.definition, is_foreign_key_parent=True)
        for sql in setup.get("extra") or ():
            self.fill(sql)

    def __getitem__(self, name: str) -> Table:
        try:
            return self._tables[name]
        except KeyError as exc:
            raise NotDrivenError(f"a table that the scenario does not define: {name}") from exc

    def __iter__(self) -> Iterator[Table]:
        return iter(self._tables.values())

    def __contains__(self, name: str) -> bool:
        return name in self._tables

    def create(self, sql: str, columns_of: str = "") -> Table | None:
        """CREATE TABLE; None where there is such a table."""
        match = _CREATE.match(sql)
        if match is None:
            raise NotDrivenError(f"CREATE TABLE of another form: {sql[:80]}")
        name, body, engine, select, like = match.groups()
        is_temporary = "TEMPORARY" in sql.upper().split("TABLE")[0]
        if name in self._tables:
            if not is_temporary or self._tables[name].temporary:
                return None
            self._hidden[name] = self._tables.pop(name)
        if like:
            definition = replace(self[like].definition, name=name)
        else:
            lines = _lines(body[1:-1]) if body else []
            source = re.search(r"SELECT \* FROM (\w+)", select or "")
            key = [line.split()[0] for line in lines if "PRIMARY KEY" in line]
            table = {"cols": lines, "pk": key, "uk": [], "keys": [], "engine": engine or "InnoDB"}
            columns = tuple(self[source[1]].definition.columns) if source else ()
            definition = _definition(name, table, columns)
        self._tables[name] = Table(definition, temporary=is_temporary)
        return self._tables[name]

    def rename(self, old: str, new: str) -> None:
        """RENAME TABLE."""
        table = self._tables.pop(old)
        table.definition = replace(table.definition, name=new)
        self._tables[new] = table

    def drop(self, name: str) -> None:
        """DROP TABLE; a temporary table hides a base table of its name until then."""
        del self._tables[name]
        if name in self._hidden:
            self._tables[name] = self._hidden.pop(name)

    def fill(self, sql: str) -> None:
        """INSERT of the setup."""
        inserted = inserted_rows(sql)
        if inserted is None:
            raise NotDrivenError(f"a setup of another form: {sql[:80]}")
        self[inserted[0]].rows += inserted[2]

    def apply(self, change: Json) -> None:
        """Keep a row change; its values must be known. What ROLLBACK undoes is kept too."""
        rows = self[change["table"]].rows
        if change["before"] is not None:
            with suppress(ValueError):
                rows.remove(self._known_row(change["table"], change["before"]))
        if change["after"] is not None:
            rows.append(change["after"])

    def attempts(self, sql: str) -> list[Json] | None:
        """Return the row operations that a statement tries, from its text; None where the text is of another kind."""
        inserted = inserted_rows(sql)
        if inserted is not None:
            name, columns, rows = inserted
            table = self[name].definition
            given = columns or [column.name for column in table.columns]
            known = [_row(table, dict(zip(given, row, strict=True))) for row in rows]
            return [{"table": name, "op": "insert", "before": None, "after": _numbered(table, row)} for row in known]
        concat = _CONCAT.match(sql)
        if concat is None:
            return None
        name, column, *parts = concat.groups()
        changes: list[Json] = []
        for row in self[name].rows:
            at = [one.name for one in self[name].definition.columns].index(column)
            value = "".join(part.strip("'") if part.startswith("'") else row[at] for part in parts)
            changes.append({"table": name, "op": "update", "before": row, "after": [*row[:at], value, *row[at + 1 :]]})
        return changes

    def upserts(self, sql: str, recorded: list[Json]) -> list[Json]:
        """Return the row operations of a REPLACE, or of an INSERT ... ON DUPLICATE KEY UPDATE, of one row.

        They were recorded as what differs between two states of the table, by the first column; where that is no key,
        an insert looks like an update.
        """
        inserted = inserted_rows(sql)
        if inserted is None or len(inserted[2]) != 1:
            return recorded
        name, columns, rows = inserted
        table = self[name]
        given = dict(zip(columns or [one.name for one in table.definition.columns], rows[0], strict=True))
        new = _row(table.definition, given)
        conflict = table.first_conflict(new, [])
        if conflict is None:
            after = (
                new if len(given) == len(new) else next(one["after"] for one in recorded if one["after"] is not None)
            )
            return [{"table": name, "op": "insert", "before": None, "after": after}]
        if not recorded:  # nothing is another than before
            return [{"table": name, "op": "update", "before": conflict[0], "after": conflict[0]}]
        last = next(one for one in reversed(recorded) if one["after"] is not None)
        changes: list[Json] = []
        gone: list[Row] = []
        while sql.upper().startswith("REPLACE") and conflict is not None and not conflict[1]:
            gone.append(conflict[0])
            changes.append({"table": name, "op": "delete", "before": conflict[0], "after": None})
            conflict = table.first_conflict(new, gone)
        if conflict is None:
            return [*changes, {**last, "op": "insert", "before": None}]
        return [*changes, {**last, "op": "update", "before": conflict[0]}]

    def known(self, change: Json) -> Json:
        """Return a change whose long values are recorded as checksums, with the values that its table has."""
        if change["before"] is None or not any(isinstance(value, dict) for value in change["before"]):
            return change
        return {**change, "before": self._known_row(change["table"], change["before"])}

    def _known_row(self, name: str, row: Row) -> Row:
        """Return the row of the table that is meant, by its known values."""
        for one in self[name].rows:
            if all(_may_be(theirs, ours) for theirs, ours in zip(row, one, strict=True)):
                return one
        return row


def inserted_rows(sql: str) -> tuple[str, list[str], list[Row]] | None:
    """Return the table, columns (none for all) and rows of an INSERT ...

    VALUES of literals; None for any other text.
    """
    match = _INSERT.match(sql)
    if match is None:
        return None
    rows: list[Row] = []
    at = match.end()
    while at < len(sql):
        if sql[at] in ", \n":
            at += 1
            continue
        if sql[at] != "(":
            if sql[at:].upper().startswith("ON DUPLICATE"):
                break
            return None
        row: Row = []
        at += 1
        while True:
            value = _VALUE.match(sql, at)
            if value is None:
                return None
            number, text, letter, count, _, end = value.groups()
            row.append(
                int(number)
                if number
                else letter * int(count)
                if letter
                else text.replace("''", "'")
                if text is not None
                else None
            )
            at = value.end()
            if end == ")":
                break
        rows.append(row)
    return match[1], match[2].split(",") if match[2] else [], rows


def _row(table: TableDefinition, given: dict[str, Any], other: Any = None) -> Row:
    """Return a row whose columns that are not given are `other`."""
    return [given.get(column.name, other) for column in table.columns]


def _numbered(table: TableDefinition, row: Row) -> Row:
    """Return a row whose AUTO_INCREMENT column has some number."""
    pairs = zip(row, table.columns, strict=True)
    return [0 if value is None and column.auto_increment else value for value, column in pairs]


def _may_be(recorded: Any, ours: Any) -> bool:
    """Return whether two values are the same, as far as they are known."""
    return isinstance(recorded, dict) or isinstance(ours, dict) or bool(recorded == ours)


def _key_of(row: Row, parts: list[int], prefixes: tuple[int, ...]) -> Row:
    lengths = prefixes or (0,) * len(parts)
    return [row[part][:length] if length else row[part] for part, length in zip(parts, lengths, strict=True)]


def _definition(name: str, table: Json, more: tuple[ColumnDefinition, ...] = ()) -> TableDefinition:
    key = [_PART.match(part).groups() for part in table["pk"] or ()]  # type: ignore[union-attr]
    columns = [_column(line, [part for part, _ in key]) for line in table["cols"] if not _FOREIGN_KEY.match(line)]
    known = {column.name for column in columns}
    prefixes = tuple(int(length or 0) for _, length in key)
    return TableDefinition(
        schema=SCHEMA,
        name=name,
        columns=(*columns, *(column for column in more if column.name not in known)),
        primary_key=tuple(part for part, _ in key),
        primary_key_prefixes=prefixes if any(prefixes) else (),
        engine=table["engine"],
        unique_keys=tuple(_key(parts) for parts in table["uk"] or ()),
    )


def _key(parts: list[str]) -> KeyDefinition:
    named = [_PART.match(part).groups() for part in parts]  # type: ignore[union-attr]
    prefixes = tuple(int(length or 0) for _, length in named)
    return KeyDefinition(tuple(part for part, _ in named), prefixes if any(prefixes) else ())


def _column(line: str, key: list[str]) -> ColumnDefinition:
    match = _COLUMN.match(line)
    if match is None:
        raise NotDrivenError(f"a column of another form: {line}")
    name, kind, rest = match[1], match[2], match[3].upper()
    generated = _GENERATED.search(line)
    return ColumnDefinition(
        name=name,
        type=kind,
        nullable="NOT NULL" not in rest and name not in key,
        auto_increment="AUTO_INCREMENT" in rest,
        generated_from=tuple(re.findall(r"[a-z_]\w*", generated[1])) if generated else None,
        default_now="DEFAULT CURRENT_TIMESTAMP" in rest,
        on_update_now="ON UPDATE CURRENT_TIMESTAMP" in rest,
    )


def _lines(body: str) -> list[str]:
    """Return the columns of a CREATE TABLE, at the commas outside of parentheses."""
    lines, depth, start = [], 0, 0
    for at, letter in enumerate(body):
        depth += (letter == "(") - (letter == ")")
        if letter == "," and not depth:
            lines.append(body[start:at].strip())
            start = at + 1
    return [*lines, body[start:].strip()]
