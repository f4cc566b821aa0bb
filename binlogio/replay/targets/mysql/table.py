"""One table of a MySQL or MariaDB target: its columns and indexes, and the SQL of row changes.

The row lookup is in `find_row`, literals are in `mysql.values`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from binlogio.errors import Hint, ReplayError
from binlogio.replay.find_row import Algorithm, Index, RowSearch, find_row
from binlogio.replay.targets.mysql.values import same, text_literal, value
from binlogio.schema.identifiers import backticked, table_name
from binlogio.values.absent import ABSENT
from binlogio.values.json import JsonDiffs

if TYPE_CHECKING:
    from binlogio.replay.targets.mysql.server_tables import Ask
    from binlogio.rows.plan import TablePlan

_MOST_BYTES: Final = 1 << 20  # of one statement


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
        self._is_generated = [is_generated for _, _, is_generated in columns]
        shared = zip(plan.columns, columns, strict=False)
        self._target = replace(plan, columns=tuple(replace(c, nullable=nullable) for c, (_, nullable, _) in shared))
        self._indexes = indexes

    @classmethod
    def of(cls, plan: TablePlan, ask: Ask, *, is_mariadb: bool) -> MysqlTable:
        """Return the table as the target's information schema describes it.

        Raises:
            ReplayError: there is none.
        """
        where = f"table_schema = {text_literal(plan.schema)} AND table_name = {text_literal(plan.table)}"
        columns = ask(
            "SELECT column_name, is_nullable = 'YES', COALESCE(generation_expression, '') <> ''"  # noqa: S608
            f" FROM information_schema.columns WHERE {where} ORDER BY ordinal_position"
        )
        if not columns:
            raise ReplayError("the target has no such table", field=f"{plan.schema}.{plan.table}")
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
        names = ", ".join(backticked(self._names[at]) for at in positions)
        head = f"{'REPLACE' if replaces else 'INSERT'} INTO {self._name} ({names}) VALUES "
        some: list[str] = []
        size = 0
        for row in rows:
            text = f"({', '.join(self._value(row, at) for at in positions)})"
            if some and size + len(text) > _MOST_BYTES:
                yield head + ",".join(some), len(some)
                some, size = [], 0
            some.append(text)
            size += len(text)
        yield head + ",".join(some), len(some)

    def update(self, before: Sequence[Any], after: Sequence[Any]) -> tuple[str, Algorithm] | None:
        """Return the statement; None where nothing of the change concerns the target, so that no row is looked for.

        Raises:
            ReplayError: the before image tells no row; or a change of a part of a document, which only a server's own
                applier can make.
        """
        changed = self._written(after)
        if not changed:
            return None
        search = find_row(before, self.plan, self._target, self._indexes)
        if any(isinstance(after[at], JsonDiffs) for at in changed):
            raise ReplayError(
                "a partial update of a JSON document cannot be written as SQL: the log does not have its before image",
                field=f"{self.plan.schema}.{self.plan.table}",
                hint=Hint.APPLY_EVENTS,
            )
        changes = ", ".join(f"{backticked(self._names[at])} = {self._value(after, at)}" for at in changed)
        sql = f"UPDATE {self._name} SET {changes} WHERE {self._where(search)}{_limit(search)}"  # noqa: S608
        return sql, search.algorithm

    def delete(self, before: Sequence[Any]) -> tuple[str, Algorithm]:
        """Return the statement.

        Raises:
            ReplayError: the before image tells no row.
        """
        search = find_row(before, self.plan, self._target, self._indexes)
        return f"DELETE FROM {self._name} WHERE {self._where(search)}{_limit(search)}", search.algorithm  # noqa: S608

    def _written(self, row: Sequence[Any]) -> list[int]:
        """Return the columns of an image that the target has and does not compute."""
        count = len(self._target.columns)
        return [at for at in range(count) if row[at] is not ABSENT and not self._is_generated[at]]

    def _value(self, row: Sequence[Any], at: int) -> str:
        if row[at] is None and not self._target.columns[at].nullable:
            return "DEFAULT"  # as a replica does with NULL where it cannot be
        return value(row[at], self.plan.columns[at], is_mariadb=self._is_mariadb)

    def _where(self, search: RowSearch) -> str:
        columns, parts = self.plan.columns, dict(search.index.parts) if search.index is not None else {}
        conditions = []
        for at, found in search.key:
            name, literal = backticked(self._names[at]), value(found, columns[at], is_mariadb=self._is_mariadb)
            if not parts[at]:
                conditions.append(f"{name} <=> {literal}")
            elif not search.same:  # a key over a prefix tells the row by the prefix; else the whole image is compared
                conditions.append(f"LEFT({name}, {parts[at]}) <=> LEFT({literal}, {parts[at]})")
        conditions += [
            same(found, columns[at], self._names[at], is_mariadb=self._is_mariadb) for at, found in search.same
        ]
        return " AND ".join(conditions)


def _limit(search: RowSearch) -> str:
    """One of the rows that are the same; a key tells one anyway, and servers call LIMIT unsafe."""
    return " LIMIT 1" if search.same else ""
