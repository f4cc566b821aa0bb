"""Translates expressions of MySQL and MariaDB (parsed by sqlglot) to SQL of SQLite that gives the same values.

Literals, columns, user variables, and the operators and functions whose result is the same for every setting of the
server; all others are refused. `sqlite.functions` computes what SQLite would compute differently.

    integer   + - * % DIV, comparisons                    text      = <> IN by collation, CONCAT
    double    + - * /, comparisons
    times     comparisons with their own kind; NOW() as the time of the event
    decimal   comparisons                                 any       IS NULL, COALESCE, IF, CASE, AND, OR, NOT
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any, Final

from binlogio.replay.targets.sqlite.conversion import Lossy, converted, kind_of
from binlogio.replay.targets.sqlite.definition import quoted
from binlogio.replay.targets.sqlite.functions import SqliteFunctions, Untranslatable
from binlogio.replay.targets.sqlite.typed import (
    BYTES,
    DECIMAL,
    DOUBLE,
    INTEGER,
    MIXED,
    TEXT,
    UNSIGNED,
    StatementContext,
    Typed,
    decimal,
    integer,
)
from binlogio.replay.targets.sqlite.values import SqliteValue
from binlogio.values.column import ColumnPlan

_EXACT: Final = ("integer", "year", "bit")
_ORDERED_TIMES: Final = ("date", "datetime")
_FSP: Final = 6


class Expressions:
    """The expressions of one statement; `values` are those that its SQL refers to by number."""

    def __init__(
        self, context: StatementContext, columns: Mapping[str, ColumnPlan], table: str, functions: SqliteFunctions
    ) -> None:
        self.values: list[SqliteValue] = []
        self._context = context
        self._columns = columns
        self._table = table.casefold()
        self._functions = functions
        self._text = replace(TEXT, collation_id=context.collation_id)

    def typed(self, node: Any) -> Typed:
        """Return the expression.

        Raises:
            Untranslatable: it is not sure to be the same.
        """
        name = type(node).__name__
        build = _BUILDERS.get(name)
        if build is None:
            raise Untranslatable(shown(node))
        only(node, *_PARTS.get(name, ()))
        return build(self, node)

    def operand(self, node: Any) -> Typed:
        """Return the expression, with a constant among the values of the statement."""
        return self._spelled(self.typed(node))

    def condition(self, node: Any) -> str:
        """Return an expression that is true or not."""
        found = self.operand(node)
        if found.kind not in ("integer", "null"):
            raise Untranslatable(f"{shown(node)} as a condition")
        return found.sql

    def stored(self, found: Typed, column: ColumnPlan) -> str:
        """Return the value as a column stores it.

        Raises:
            Untranslatable: it is not sure what a server stores.
        """
        kind = kind_of(column)
        if kind == "bytes" and found.column is MIXED:
            raise Untranslatable(f"text of several character sets in column {column.label}")
        if found.kind in ("now", "utc"):
            is_same = (found.kind, kind) in (("now", "timestamp"), ("utc", "datetime"))
            if not is_same and (found.kind, kind) != ("now", "datetime"):
                raise Untranslatable(f"the time in column {column.label}")
            text = self._context.now(int(str(found.value)), is_local=not is_same)
            found = Typed("", kind, replace(column, fsp=_FSP), text, is_constant=True)
        if kind == "timestamp" and found.kind not in ("timestamp", "null"):
            raise Untranslatable(
                f"a value of {found.kind} in column {column.label}, a TIMESTAMP: it depends on the session's time zone"
            )
        if found.is_constant:
            try:
                return self._bound(converted(found.value, found.column, column))
            except Lossy as exc:
                raise Untranslatable(f"the value {exc} in column {column.label}") from exc
        self._functions.columns.append((found.column, column))
        return f"binlogio_store({found.sql}, {len(self._functions.columns) - 1})"

    def _bound(self, value: SqliteValue) -> str:
        self.values.append(value)
        return f"?{len(self.values)}"

    # -------------------------------------------------------------------------------------------------------- values

    def literal(self, node: Any) -> Typed:
        """Return a number or a text."""
        text = str(node.this)
        if node.is_string:
            return Typed("", "text", self._text, text, is_constant=True)
        if "e" in text.lower():
            return Typed("", "double", DOUBLE, float(text), is_constant=True)
        return decimal(text) if "." in text else integer(int(text))

    def negative(self, node: Any) -> Typed:
        """Minus."""
        found = self.typed(node.this)
        if not found.is_constant or found.kind not in ("integer", "double", "decimal"):
            return self._computed("-", integer(0), found, node)
        if found.kind == "double" and isinstance(found.value, float):
            return Typed("", "double", DOUBLE, -found.value, is_constant=True)
        number = Decimal(str(found.value)).copy_negate()  # `-` would round to the context's digits
        return decimal(format(number, "f")) if found.kind == "decimal" else integer(int(number))

    def bytes(self, node: Any) -> Typed:
        """Return a hexadecimal literal."""
        text = str(node.this)
        return Typed("", "bytes", BYTES, bytes.fromhex(text if len(text) % 2 == 0 else f"0{text}"), is_constant=True)

    def column(self, node: Any) -> Typed:
        """Return a column of the statement's table."""
        table = node.args.get("table")
        if table is not None and table.this.casefold() != self._table:
            raise Untranslatable(f"the column {shown(node)} of another table")
        column = self._columns.get(str(node.this.this).casefold())
        if column is None:
            raise Untranslatable(f"the column {shown(node)}, which the table does not have")
        return Typed(quoted(column.label), kind_of(column), column)

    def variable(self, node: Any) -> Typed:
        """Return a user variable."""
        return self._context.variable(str(node.this.this))

    def function(self, node: Any) -> Typed:
        """Return a function that sqlglot does not know."""
        name = str(node.this).upper()
        if name == "LAST_INSERT_ID" and not node.expressions:
            return self._context.last_insert_id()
        if name in ("NOW", "LOCALTIME", "LOCALTIMESTAMP", "UTC_TIMESTAMP"):
            return self._time(node.expressions[0] if node.expressions else None, "utc" if "UTC" in name else "now")
        raise Untranslatable(f"the function {name}")

    def now(self, node: Any) -> Typed:
        """NOW()."""
        return self._time(node.args.get("this"), "now")

    def utc(self, node: Any) -> Typed:
        """UTC_TIMESTAMP()."""
        return self._time(node.args.get("this"), "utc")

    @staticmethod
    def _time(digits: Any, kind: str) -> Typed:
        text = "0" if digits is None else str(digits.this)
        if not (text.isdigit() and int(text) <= _FSP):
            raise Untranslatable(f"fraction digits {text}")
        return Typed("NULL", kind, INTEGER, int(text))

    # --------------------------------------------------------------------------------------------------- operators

    def arithmetic(self, node: Any) -> Typed:
        """Two numbers."""
        return self._computed(_OPERATORS[type(node).__name__], self.typed(node.this), self.typed(node.expression), node)

    def _computed(self, operator: str, a: Typed, b: Typed, node: Any) -> Typed:
        a, b = self._spelled(a), self._spelled(b)
        if a.kind in _EXACT and b.kind in _EXACT and operator != "/":
            return Typed(
                f"binlogio_integer('{operator}', {a.sql}, {b.sql})",
                "integer",
                UNSIGNED if UNSIGNED in (a.column, b.column) else INTEGER,
            )
        if {a.kind, b.kind} == {"double"} and operator in "+-*/":
            return Typed(f"({a.sql} {operator} {b.sql})", "double", DOUBLE)
        raise Untranslatable(f"{shown(node)}: {a.kind} {operator} {b.kind}")

    def _spelled(self, found: Typed) -> Typed:
        return replace(found, sql=self._bound(found.value)) if found.is_constant and not found.sql else found

    def comparison(self, node: Any) -> Typed:
        """Two values."""
        operator = _COMPARISONS[type(node).__name__]
        return self._compared(operator, self.typed(node.this), self.typed(node.expression), node)

    def _compared(self, operator: str, a: Typed, b: Typed, node: Any) -> Typed:
        is_equality = operator in ("=", "<>", "IS")
        if "null" not in (a.kind, b.kind):
            a, b = self._alike(a, b, node), self._alike(b, a, node)
        a, b = self._spelled(a), self._spelled(b)
        if "null" in (a.kind, b.kind):
            return _truth(f"({a.sql} {operator} {b.sql})")
        if a.kind in _EXACT and b.kind in _EXACT:
            if is_equality:
                return _truth(f"({a.sql} {operator} {b.sql})")
            return _truth(f"(binlogio_compare({a.sql}, {b.sql}) {operator} 0)")
        if {a.kind, b.kind} <= {"decimal", *_EXACT} and operator != "IS":
            return _truth(f"(binlogio_compare({a.sql}, {b.sql}) {operator} 0)")
        if a.kind != b.kind:
            raise Untranslatable(f"{shown(node)}: {a.kind} {operator} {b.kind}")
        if a.kind == "text" and operator in ("=", "<>"):
            return _truth(f"(binlogio_equal({a.sql}, {b.sql}, {self._collation(a, b, node)}) = {int(operator == '=')})")
        is_sure = a.kind in ("double", "bytes", *_ORDERED_TIMES) or (
            is_equality and a.kind in ("time", "timestamp", "enum", "set")
        )
        if not is_sure or (a.kind in ("datetime", "timestamp", "time") and a.column.fsp != b.column.fsp):
            raise Untranslatable(f"{shown(node)}: {a.kind} {operator} {b.kind}")
        return _truth(f"({a.sql} {operator} {b.sql})")

    def _alike(self, found: Typed, other: Typed, node: Any) -> Typed:
        """Return a constant as what it is compared with."""
        kind = other.kind
        if not found.is_constant or found.kind == kind or found.value is None:
            return found
        if kind == "double" and found.kind in ("integer", "decimal"):
            return Typed(self._bound(float(str(found.value))), kind, other.column)
        if found.kind == "text" and kind in (*_ORDERED_TIMES, "time", "enum"):
            try:
                value = converted(found.value, found.column, replace(other.column, nullable=True))
            except Lossy as exc:
                raise Untranslatable(f"{shown(node)}: {exc} as {kind}") from exc
            return Typed(self._bound(value), kind, other.column)
        return found

    def _collation(self, a: Typed, b: Typed, node: Any) -> int:
        """Return the collation of the column, where one side is a literal."""
        found = {one.column.collation_id for one in (a, b) if one.column is not self._text}
        if len(found) != 1 or None in found or MIXED in (a.column, b.column):
            raise Untranslatable(f"{shown(node)}: the collation of the comparison")
        return int(found.pop() or 0)

    def members(self, node: Any) -> Typed:
        """IN."""
        if not node.expressions:
            raise Untranslatable(shown(node))
        this = self.typed(node.this)
        found = [self._compared("=", this, self.typed(one), node).sql for one in node.expressions]
        return _truth(f"({' OR '.join(found)})")

    def between(self, node: Any) -> Typed:
        """BETWEEN."""
        this = self.typed(node.this)
        low = self._compared(">=", this, self.typed(node.args["low"]), node)
        high = self._compared("<=", this, self.typed(node.args["high"]), node)
        return _truth(f"({low.sql} AND {high.sql})")

    def is_null(self, node: Any) -> Typed:
        """IS NULL."""
        if type(node.expression).__name__ != "Null":
            raise Untranslatable(shown(node))
        found = self.typed(node.this)
        if found.kind in ("date", "datetime") and not found.column.nullable:
            raise Untranslatable(f"{shown(node)}: zero dates are NULL to it")
        return _truth(f"({found.sql} IS NULL)")

    def logic(self, node: Any) -> Typed:
        """AND, OR."""
        word = type(node).__name__.upper()
        return _truth(f"({self.condition(node.this)} {word} {self.condition(node.expression)})")

    def negation(self, node: Any) -> Typed:
        """NOT."""
        return _truth(f"(NOT {self.condition(node.this)})")

    # ---------------------------------------------------------------------------------------------------- functions

    def concat(self, node: Any) -> Typed:
        """CONCAT, and adjacent texts."""
        parts = [self.operand(one) for one in node.expressions]
        for part in parts:
            if part.kind not in ("text", "integer", "decimal", "enum", "set", "date", "datetime", "time", "null"):
                raise Untranslatable(f"{shown(node)}: {part.kind} as text")
            if part.kind == "decimal" and part.is_constant:
                raise Untranslatable(f"{shown(node)}: a decimal literal as text")
        return Typed(f"binlogio_concat({', '.join(part.sql for part in parts)})", "text", MIXED)

    def coalesce(self, node: Any) -> Typed:
        """COALESCE and IFNULL."""
        parts = [self.operand(one) for one in (node.this, *node.expressions)]
        return _one_of(parts, f"COALESCE({', '.join(part.sql for part in parts)})", node)

    def choice(self, node: Any) -> Typed:
        """IF."""
        condition = self.condition(node.this)
        parts = [self.operand(node.args["true"]), self._spelled(self._otherwise(node, "false"))]
        return _one_of(parts, f"CASE WHEN {condition} THEN {parts[0].sql} ELSE {parts[1].sql} END", node)

    def case(self, node: Any) -> Typed:
        """CASE."""
        parts: list[Typed] = []
        sql = "CASE"
        for one in node.args["ifs"]:
            sql += f" WHEN {self.condition(one.this)}"
            parts.append(self.operand(one.args["true"]))
            sql += f" THEN {parts[-1].sql}"
        parts.append(self._spelled(self._otherwise(node, "default")))
        return _one_of(parts, f"{sql} ELSE {parts[-1].sql} END", node)

    def _otherwise(self, node: Any, part: str) -> Typed:
        found = node.args.get(part)
        return _null(self, node) if found is None else self.typed(found)


def only(node: Any, *parts: str) -> None:
    """See that a node has no part beside these.

    Raises:
        Untranslatable: it has one.
    """
    for name, value in node.args.items():
        if value and name not in parts:
            raise Untranslatable(f"{name.upper()} in {shown(node)}")


def shown(node: Any) -> str:
    """Return a node as MySQL's SQL, short."""
    text = str(node.sql(dialect="mysql"))
    return text if len(text) <= 80 else f"{text[:77]}..."


def _null(_: Expressions, __: Any) -> Typed:
    return Typed("NULL", "null", is_constant=True)


def _truth(sql: str) -> Typed:
    return Typed(sql, "integer")


def _one_of(parts: list[Typed], sql: str, node: Any) -> Typed:
    """Return a value that is one of several, which have to be of one kind."""
    real = [part for part in parts if part.kind != "null"]
    if not real or len({part.kind for part in real}) > 1 or real[0].kind in ("float", "now", "utc"):
        raise Untranslatable(f"{shown(node)}: values of different kinds")
    column = DECIMAL if real[0].kind == "decimal" else real[0].column
    return Typed(sql, real[0].kind, replace(column, native=None))


_OPERATORS: Final = {"Add": "+", "Sub": "-", "Mul": "*", "Mod": "%", "IntDiv": "DIV", "Div": "/"}
_COMPARISONS: Final = {"EQ": "=", "NEQ": "<>", "NullSafeEQ": "IS", "LT": "<", "LTE": "<=", "GT": ">", "GTE": ">="}
_BUILDERS: Final[dict[str, Callable[[Expressions, Any], Typed]]] = {
    "Literal": Expressions.literal,
    "Neg": Expressions.negative,
    "Null": _null,
    "Boolean": lambda _, node: integer(int(node.this)),
    "HexString": Expressions.bytes,
    "Column": Expressions.column,
    "Parameter": Expressions.variable,
    "Anonymous": Expressions.function,
    "CurrentTimestamp": Expressions.now,
    "UtcTimestamp": Expressions.utc,
    **dict.fromkeys(_OPERATORS, Expressions.arithmetic),
    **dict.fromkeys(_COMPARISONS, Expressions.comparison),
    "In": Expressions.members,
    "Between": Expressions.between,
    "Is": Expressions.is_null,
    "And": Expressions.logic,
    "Or": Expressions.logic,
    "Not": Expressions.negation,
    "Paren": lambda expressions, node: expressions.typed(node.this),
    "Concat": Expressions.concat,
    "Coalesce": Expressions.coalesce,
    "If": Expressions.choice,
    "Case": Expressions.case,
}
_BOTH: Final = ("this", "expression")
_PARTS: Final[dict[str, tuple[str, ...]]] = {
    "Literal": ("this", "is_string"),
    "Column": ("this", "table"),
    "In": ("this", "expressions"),
    "Anonymous": ("this", "expressions"),
    "Between": ("this", "low", "high"),
    "Concat": ("expressions", "safe"),
    "Coalesce": ("this", "expressions"),
    "If": ("this", "true", "false"),
    "Case": ("ifs", "default"),
    "Div": ("this", "expression", "typed", "safe"),
    **dict.fromkeys(
        ("Neg", "Boolean", "HexString", "Parameter", "CurrentTimestamp", "UtcTimestamp", "Not", "Paren"), ("this",)
    ),
    **dict.fromkeys(("Add", "Sub", "Mul", "Mod", "IntDiv", *_COMPARISONS, "Is", "And", "Or"), _BOTH),
}  # fmt: skip
