"""SQL functions for translated statements: exact numbers, text by collation, stored values, as in MySQL.

Works on values as they are stored. If it is not certain that both agree on a value, the running statement is refused
and undone.

    binlogio_store(value, n)            the value as column n of the statement stores it
    binlogio_integer(op, a, b)          + - * % and DIV of integers of any size
    binlogio_compare(a, b)              -1, 0, 1 for exact numbers; NULL where one is NULL
    binlogio_equal(a, b, collation)     1 or 0 for texts
    binlogio_concat(...)                texts and integers in a row; NULL where one is NULL
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from binlogio.errors import ReplayError
from binlogio.replay.targets.sqlite.connection import SqliteRefusal
from binlogio.replay.targets.sqlite.conversion import Lossy, converted
from binlogio.replay.targets.sqlite.values import INTEGER_END, SqliteValue
from binlogio.schema.collations import collation_name

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from binlogio.replay.targets.sqlite.connection import SqliteConnection
    from binlogio.values.column import ColumnPlan

_INTEGERS: Final[dict[str, Callable[[int, int], int | None]]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "%": lambda a, b: None if b == 0 else abs(a) % abs(b) * (-1 if a < 0 else 1),
    "DIV": lambda a, b: None if b == 0 else abs(a) // abs(b) * (-1 if (a < 0) != (b < 0) else 1),
}
_BITS: Final = 64
# Collations for which printable ASCII is equal without case, or as it is, and nothing else is peculiar.
_PLAIN: Final = (
    "general_ci",
    "0900_ai_ci",
    "0900_as_ci",
    "unicode_ci",
    "unicode_520_ci",
    "uca1400_ai_ci",
    "uca1400_as_ci",
    "swedish_ci",
)


class Untranslatable(ReplayError):
    """A part of a statement for which it is not certain that SQLite computes the same."""


class SqliteFunctions:
    """The functions of one connection.

    `columns` are those that `binlogio_store` knows by number: what a value is, and the column that it is for.
    """

    def __init__(self, connection: SqliteConnection) -> None:
        self.columns: list[tuple[ColumnPlan, ColumnPlan]] = []
        self._connection = connection
        self._problems: list[str] = []
        functions: dict[str, tuple[int, Callable[..., SqliteValue]]] = {
            "store": (2, self._store),
            "integer": (3, _integer),
            "compare": (2, _compare),
            "equal": (3, _equal),
            "concat": (-1, _concat),
        }
        for name, (count, function) in functions.items():
            connection.create_function(f"binlogio_{name}", count, self._watched(function))

    def run(self, sql: str, values: Sequence[SqliteValue]) -> None:
        """Run a statement that uses the functions.

        Raises:
            Untranslatable: a function does not know what to do with a value.
            SqliteRefusal: SQLite refuses.
        """
        self._problems.clear()
        try:
            self._connection.execute(sql, values)
        except SqliteRefusal as exc:
            if self._problems:
                raise Untranslatable(self._problems[0]) from exc
            raise

    def _watched(self, function: Callable[..., SqliteValue]) -> Callable[..., SqliteValue]:
        def call(*values: SqliteValue) -> SqliteValue:
            try:
                return function(*values)
            except (ValueError, TypeError, ArithmeticError) as exc:
                self._problems.append(f"a value is not sure to be that of the source: {exc}")
                raise

        return call

    def _store(self, value: SqliteValue, number: int) -> SqliteValue:
        what, column = self.columns[number]
        try:
            return converted(value, what, column)
        except Lossy as exc:
            raise Lossy(f"{exc} in column {column.label}") from exc


def _integer(operator: str, a: Any, b: Any) -> SqliteValue:
    if a is None or b is None:
        return None
    found = _INTEGERS[operator](int(a), int(b))
    if found is None:
        return None
    if not -INTEGER_END <= found < 1 << _BITS:
        raise Lossy(f"{a} {operator} {b} is larger than a BIGINT")
    return found if found < INTEGER_END else str(found)


def _compare(a: Any, b: Any) -> SqliteValue:
    if a is None or b is None:
        return None
    one, other = Decimal(a), Decimal(b)
    return (one > other) - (one < other)


def _equal(a: Any, b: Any, collation_id: int) -> SqliteValue:
    if a is None or b is None:
        return None
    name = collation_name(collation_id)
    if "_0900_" not in name and name != "binary":
        a, b = a.rstrip(" "), b.rstrip(" ")
    if a == b:
        return 1
    if name.endswith("_bin"):
        return 0
    if not name.endswith(_PLAIN):
        raise Lossy(f"it is not known whether {a!r} and {b!r} are equal in {name}")
    for text in (a, b):
        if not (text.isascii() and text.isprintable()):
            raise Lossy(f"it is not known what {text!r} is equal to in {name}")
    return int(a.casefold() == b.casefold())


def _concat(*values: Any) -> SqliteValue:
    return None if None in values else "".join(map(str, values))
