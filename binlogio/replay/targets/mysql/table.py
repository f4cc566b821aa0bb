"""One table of a MySQL or MariaDB target: its columns and indexes, and the SQL of row changes.

The row lookup is in `find_row`, literals are in `mysql.values`. What is the same for all rows is made once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from binlogio.constants import ColumnType
from binlogio.dotted_names import dotted_name
from binlogio.errors import Hint, ReplayError
from binlogio.replay.find_row import Algorithm, Index, lookup_of
from binlogio.replay.targets.mysql.values import Literal, condition_of, literal_of, text_literal
from binlogio.schema.identifiers import backticked, table_name
from binlogio.values.absent import ABSENT
from binlogio.values.json import JsonDiffs

if TYPE_CHECKING:
    from binlogio.replay.targets.mysql.server_tables import Ask
    from binlogio.rows.plan import TablePlan

MOST_BYTES: Final = 1 << 20  # of one statement
_MODES: Final = "NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES"
STRICT_MODE: Final = f"SET @@session.sql_mode = 'STRICT_ALL_TABLES,{_MODES}'"
"""A value that does not fit its column is an error; zero and invalid dates are accepted, since the source has them."""

LENIENT_MODE: Final = f"SET @@session.sql_mode = '{_MODES}'"
"""Accepts the ENUM value of index 0, which a strict mode refuses."""
_MOST_WHERES: Final = 64


class MysqlTable:
    """A table of the target, and the log's table that changes it."""

    def __init__(
        self,
        plan: TablePlan,
        columns: Sequence[tuple[str, bool, bool]],
        indexes: tuple[Index, ...],
        *,
        is_mariadb: bool,
    ) -> None:
        self.plan = plan
        self._is_mariadb = is_mariadb
        self._name = table_name(plan.schema, plan.table)
        self._names = [name for name, _, _ in columns]
        self.quoted = [backticked(name) for name in self._names]
        shared = zip(plan.columns, columns, strict=False)
        targets = (c if c.nullable == nullable else replace(c, nullable=nullable) for c, (_, nullable, _) in shared)
        self._target = replace(plan, columns=tuple(targets))
        self.writable = dict.fromkeys(at for at in range(len(self._target.columns)) if not columns[at][2])
        self._indexes = indexes
        self._wheres: dict[tuple[bool, ...], _Where] = {}
        self.enums: Final = tuple(at for at, column in enumerate(plan.columns) if column.type == ColumnType.ENUM)

    @cached_property
    def literals(self) -> list[Literal]:
        """The functions that write the values of the columns; the kernel writes most rows without them."""
        return [self._literal(at) for at in range(len(self._target.columns))]

    def has_invalid_member(self, row: Sequence[Any]) -> bool:
        """Return whether a strict sql_mode refuses the row, since an ENUM in it has the index 0."""
        for at in self.enums:
            value = row[at]
            if value is not None and value is not ABSENT and getattr(value, "index", value) == 0:
                return True
        return False

    def _literal(self, at: int) -> Literal:
        literal = literal_of(self.plan.columns[at], is_mariadb=self._is_mariadb)
        if self._target.columns[at].nullable:
            return literal
        return lambda found: "DEFAULT" if found is None else literal(found)  # as a replica does with NULL there

    @classmethod
    def of(cls, plan: TablePlan, ask: Ask, *, is_mariadb: bool) -> MysqlTable:
        """Return the table as the target's information schema describes it.

        Raises:
            ReplayError: the target has no such table, or the log has the history of its rows.
        """
        where = f"table_schema = {text_literal(plan.schema)} AND table_name = {text_literal(plan.table)}"
        columns = ask(
            "SELECT column_name, is_nullable = 'YES', COALESCE(generation_expression, '') <> ''"  # noqa: S608
            f" FROM information_schema.columns WHERE {where} ORDER BY ordinal_position"
        )
        if not columns:
            raise ReplayError("the target has no such table", field=plan.full_name)
        if is_mariadb and _has_history(plan, columns):
            ((kind,),) = ask(f"SELECT table_type FROM information_schema.tables WHERE {where}")  # noqa: S608
            if kind == "SYSTEM VERSIONED":
                raise ReplayError(
                    f"{plan.full_name} is a system-versioned table, and SQL cannot change its history rows",
                    hint=Hint.APPLY_EVENTS,
                )
        names = [name for name, _, _ in columns]
        parts: dict[str, list[tuple[int, int]]] = {}
        unique: dict[str, bool] = {}
        for index, non_unique, column, prefix in ask(
            "SELECT index_name, non_unique, column_name, sub_part"  # noqa: S608
            f" FROM information_schema.statistics WHERE {where}"
            " ORDER BY index_name <> 'PRIMARY', index_name, seq_in_index"
        ):
            if column is not None:
                parts.setdefault(index, []).append((names.index(column), prefix or 0))
                unique[index] = not non_unique
        indexes = tuple(
            Index(name, tuple(some), is_unique=unique[name], is_primary=name == "PRIMARY")
            for name, some in parts.items()
        )
        return cls(
            plan,
            [(name, bool(nullable), bool(generated)) for name, nullable, generated in columns],
            indexes,
            is_mariadb=is_mariadb,
        )

    def insert(self, rows: Sequence[Sequence[Any]], *, replaces: bool = False) -> Iterator[tuple[str, int]]:
        """Statements with many rows each, and how many; all rows have values for the same columns."""
        positions = self._written(rows[0])
        literals = [(at, self.literals[at]) for at in positions]
        head = self._insert_head(positions, replaces=replaces)
        some: list[str] = []
        size = 0
        for row in rows:
            text = f"({', '.join([literal(row[at]) for at, literal in literals])})"
            if some and size + len(text) > MOST_BYTES:
                yield head + ",".join(some), len(some)
                some, size = [], 0
            some.append(text)
            size += len(text)
        yield head + ",".join(some), len(some)

    def _insert_head(self, positions: Iterable[int], *, replaces: bool = False) -> str:
        names = ", ".join(self.quoted[at] for at in positions)
        return f"{'REPLACE' if replaces else 'INSERT'} INTO {self._name} ({names}) VALUES "

    @property
    def heads(self) -> tuple[str, str, str]:
        """The beginnings of an INSERT of whole rows, of an UPDATE and of a DELETE, up to their values."""
        update, delete = f"UPDATE {self._name} SET ", f"DELETE FROM {self._name} WHERE "  # noqa: S608
        return self._insert_head(self.writable), update, delete

    def update(
        self,
        before: Sequence[Any],
        after: Sequence[Any],
        only: Sequence[int] | None = None,
        kept: Collection[int] = (),
    ) -> tuple[str, Algorithm] | None:
        """Return the statement; None where nothing of the change concerns the target, so that no row is looked for.

        It sets the columns of the after image, or those in `only` of them. Those in `kept` are set to their own value,
        so that the server does not set them to the current time (ON UPDATE CURRENT_TIMESTAMP).

        Raises:
            ReplayError: the before image tells no row; or a change of a part of a document, which only a server's own
                applier can make.
        """
        changed = self._written(after, only)
        if not changed:
            return None
        where = self._where(before)
        if self.plan.json_positions and any(isinstance(after[at], JsonDiffs) for at in changed):
            raise ReplayError(
                "a partial update of a JSON document cannot be written as SQL: the log does not have its before image",
                field=dotted_name(self.plan.schema, self.plan.table),
                hint=Hint.APPLY_EVENTS,
            )
        values = {at: self.quoted[at] if at in kept else self.literals[at](after[at]) for at in changed}
        changes = ", ".join([f"{self.quoted[at]} = {value}" for at, value in values.items()])
        return f"UPDATE {self._name} SET {changes} WHERE {where.of(before)}", where.algorithm  # noqa: S608

    def delete(self, before: Sequence[Any]) -> tuple[str, Algorithm]:
        """Return the statement.

        Raises:
            ReplayError: the before image tells no row.
        """
        where = self._where(before)
        return f"DELETE FROM {self._name} WHERE {where.of(before)}", where.algorithm  # noqa: S608

    def finds_by_key(self, row: Sequence[Any]) -> bool:
        """Return whether the condition of a row is its key, not all its columns."""
        return not self._where(row).limit

    def _written(self, row: Sequence[Any], only: Sequence[int] | None = None) -> list[int]:
        """Return the columns of an image that the target has and does not compute."""
        if only is None:
            return [at for at in self.writable if row[at] is not ABSENT]
        return [at for at in only if row[at] is not ABSENT and at in self.writable]

    def _where(self, row: Sequence[Any]) -> _Where:
        absent = tuple([value is ABSENT for value in row])
        where = self._wheres.get(absent)
        if where is None:
            if len(self._wheres) >= _MOST_WHERES:
                self._wheres.clear()
            where = self._wheres[absent] = self._where_of([at for at, is_absent in enumerate(absent) if not is_absent])
        return where

    def _where_of(self, present: Sequence[int]) -> _Where:
        lookup = lookup_of(present, self.plan, self._target, self._indexes)
        columns, parts = self.plan.columns, dict(lookup.index.parts) if lookup.index is not None else {}
        conditions: list[tuple[int, str, Literal, str]] = []
        for at in lookup.key:
            name, literal = self.quoted[at], literal_of(columns[at], is_mariadb=self._is_mariadb)
            if not parts[at]:
                conditions.append((at, f"{name} <=> ", literal, ""))
            elif not lookup.same:  # a key over a prefix tells the row by the prefix; else the whole image is compared
                conditions.append((at, f"LEFT({name}, {parts[at]}) <=> LEFT(", literal, f", {parts[at]})"))
        conditions += [
            (at, "", condition_of(columns[at], self._names[at], is_mariadb=self._is_mariadb), "") for at in lookup.same
        ]
        # One of the rows that are the same; a key tells one anyway, and servers call LIMIT unsafe.
        return _Where(tuple(conditions), " LIMIT 1" if lookup.same else "", lookup.algorithm)


def _has_history(plan: TablePlan, columns: Sequence[Sequence[Any]]) -> bool:
    """Return whether a log may have the versions of rows: more columns than are listed, or one of those that are."""
    return len(plan.columns) > len(columns) or any(generated for _, _, generated in columns[: len(plan.columns)])


@dataclass(frozen=True, slots=True)
class _Where:
    """The condition of rows whose images have the same columns.

    `conditions` are the position of a column, the text before its value, the function for the value, the text after it.
    """

    conditions: tuple[tuple[int, str, Literal, str], ...]
    limit: str
    algorithm: Algorithm

    def of(self, row: Sequence[Any]) -> str:
        """Return the condition of a row."""
        parts = [f"{before}{write(row[at])}{after}" for at, before, write, after in self.conditions]
        return " AND ".join(parts) + self.limit
