"""In-memory table: applies row changes like the applier of a server (keys, defaults, STRICT and IDEMPOTENT).

The module `find_row` has the row lookup. Tests compare this model with a real replica (`fixtures/find_row.json`).

Values are equal in a unique index if their collation keys are equal. The name of the collation decides whether case,
accents and trailing spaces are significant. Weights are not implemented: for language-specific collations, and for
letters that expand to several, two keys may differ that are equal on a server. SQLite and server targets compare keys
themselves.

    ..._bin, ..._cs            compares characters
    ..._as_ci                  ignores case
    ..._ci, ..._ai_ci          ignores case and accents
    all but ..._0900_...       ignores trailing spaces (PAD SPACE)
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

from binlogio.constants import ColumnType
from binlogio.errors import ReplayError
from binlogio.replay.find_row import ER_DUP_ENTRY, ER_KEY_NOT_FOUND, Index, RowNotFound, find_row
from binlogio.schema.collations import collation_name
from binlogio.values.absent import ABSENT
from binlogio.values.charsets import BINARY_COLLATION
from binlogio.values.numbers import float_text
from type_conversions import TypeConversions, check_conversions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from binlogio.replay.find_row import Algorithm
    from binlogio.rows.plan import TablePlan
    from binlogio.values.column import ColumnPlan


def collation_key(value: Any, column: ColumnPlan, prefix_length: int = 0) -> Any:
    """Return the collation key of a value: equal keys are equal in an index.

    If `prefix_length` is not 0, only that many characters of text or bytes count.
    """
    if prefix_length and isinstance(value, str | bytes):
        value = value[:prefix_length]
    if isinstance(value, float):
        return value + 0.0  # -0.0 and 0.0 are equal keys
    if not isinstance(value, str) or column.collation_id in (None, BINARY_COLLATION):
        return value
    if column.type in (ColumnType.ENUM, ColumnType.SET):
        return value
    name = collation_name(column.collation_id)
    if "_0900_" not in name:
        value = value.rstrip(" ")
    if name.endswith("_bin") or "_cs" in name:
        return value
    if "_as_" in name:
        return unicodedata.normalize("NFC", value).casefold()
    folded = unicodedata.normalize("NFD", value if "general" in name else value.casefold())
    without = "".join(character for character in folded if not unicodedata.combining(character))
    return "".join(_simple(character) for character in without) if "general" in name else without.casefold()


def _simple(character: str) -> str:
    """Return the general_ci weight of a character, always a single character: the German sharp s is an S."""
    if character == "ß":
        return "S"
    upper = character.upper()
    return upper if len(upper) == 1 else character


NO_DEFAULT: Final = ABSENT
"""Marks a column without a default, which gets the implicit default of its type."""


class ExecMode(Enum):
    """replica_exec_mode."""

    STRICT = "STRICT"
    IDEMPOTENT = "IDEMPOTENT"


class DuplicateKey(ReplayError):
    """A row with the same unique key exists."""


@dataclass(slots=True)
class MemoryTable:
    """A table.

    `defaults` has a value for each column, or `NO_DEFAULT` for a NOT NULL column without a default; such a column gets
    its value from `implicit`.
    """

    plan: TablePlan
    indexes: tuple[Index, ...] = ()
    defaults: tuple[Any, ...] = ()
    implicit: tuple[Any, ...] = ()
    mode: ExecMode = ExecMode.STRICT
    conversions: TypeConversions = TypeConversions.NONE
    rows: list[list[Any]] = field(default_factory=list)
    rows_by_algorithm: Counter[Algorithm] = field(default_factory=Counter)

    def apply(self, source: TablePlan, before: Sequence[Any] | None, after: Sequence[Any] | None) -> None:
        """Apply one row change.

        Raises:
            ReplayError: the change does not match the rows of the table.
        """
        check_conversions(source, self.plan, self.conversions)
        if before is None and after is not None:
            self._insert(after)
            return
        if after is not None and all(value is ABSENT for value in after[: len(self.plan.columns)]):
            return  # the target has none of the changed columns; no row lookup (Bug#49100)
        try:
            row = self._find(source, before or ())
        except RowNotFound:
            if self.mode is ExecMode.IDEMPOTENT:
                return
            raise
        if after is None:
            self.rows.remove(row)
        else:
            self._update(row, after)

    def _find(self, source: TablePlan, before: Sequence[Any]) -> list[Any]:
        search = find_row(before, source, self.plan, self.indexes)
        self.rows_by_algorithm[search.algorithm] += 1
        lengths = dict(search.index.parts) if search.index is not None else {}
        for row in self._in_order():
            if all(self._same_key(row[at], value, at, lengths[at]) for at, value in search.key) and all(
                self._same_record(row[at], value) for at, value in search.same
            ):
                return row
        raise RowNotFound(f"ERROR {ER_KEY_NOT_FOUND}: can't find record", field=f"{self.plan.schema}.{self.plan.table}")

    def _in_order(self) -> list[list[Any]]:
        """Return the rows in the order of the storage engine: by the clustered key, or else in insertion order."""
        clustered = next((i for i in self.indexes if i.is_primary), None) or next(
            (i for i in self.indexes if i.is_key(self.plan)), None
        )
        if clustered is None:
            return self.rows
        return sorted(self.rows, key=lambda row: self._key(row, clustered))

    def _key(self, row: Sequence[Any], index: Index) -> tuple[Any, ...]:
        columns = self.plan.columns
        return tuple(collation_key(row[position], columns[position], length) for position, length in index.parts)

    def _same_key(self, stored: Any, value: Any, position: int, length: int) -> bool:
        column = self.plan.columns[position]
        return bool(collation_key(stored, column, length) == collation_key(value, column, length))

    @staticmethod
    def _same_record(stored: Any, value: Any) -> bool:
        if isinstance(stored, float) and isinstance(value, float):
            return float_text(stored) == float_text(value)  # 0.0 and -0.0 have different bits
        return bool(stored == value)

    def _insert(self, after: Sequence[Any]) -> None:
        row = [self._default(position) for position in range(len(self.plan.columns))]  # independent of the source
        self._overlay(row, after)
        while (conflict := self._conflict(row)) is not None:
            if self.mode is ExecMode.STRICT:
                raise self._duplicate(conflict[1])
            self.rows.remove(conflict[0])
        self.rows.append(row)

    def _update(self, row: list[Any], after: Sequence[Any]) -> None:
        changed = list(row)
        self._overlay(changed, after)
        conflict = self._conflict(changed, besides=row)
        if conflict is None:
            self.rows[next(at for at, one in enumerate(self.rows) if one is row)] = changed
        elif self.mode is ExecMode.STRICT:
            raise self._duplicate(conflict[1])

    def _overlay(self, row: list[Any], after: Sequence[Any]) -> None:
        for position, value in enumerate(after[: len(row)]):
            if value is not ABSENT:
                cannot_be = value is None and not self.plan.columns[position].nullable
                row[position] = self._default(position) if cannot_be else value

    def _default(self, position: int) -> Any:
        default = self.defaults[position]
        return self.implicit[position] if default is NO_DEFAULT else default

    def _conflict(self, row: list[Any], besides: list[Any] | None = None) -> tuple[list[Any], Index] | None:
        """Return another row with an equal unique key, and the index; None if there is no conflict."""
        for index in self.indexes:
            if not index.is_unique or any(row[position] is None for position, _ in index.parts):
                continue
            key = self._key(row, index)
            for other in self.rows:
                if other is not besides and self._key(other, index) == key:
                    return other, index
        return None

    def _duplicate(self, index: Index) -> DuplicateKey:
        return DuplicateKey(
            f"ERROR {ER_DUP_ENTRY}: duplicate entry for key '{index.name}'",
            field=f"{self.plan.schema}.{self.plan.table}",
        )
