"""Executes statements that are in the log as SQL text in SQLite, or refuses them if the result may differ.

INSERT, REPLACE, UPDATE and DELETE are supported.

Handles the parts of statements, AUTO_INCREMENT and defaults. Expressions are in `sqlite.expressions`. sqlglot, which
parses the text, is an optional dependency and imported with the first statement.

    insert  := (INSERT | REPLACE) INTO table columns?
               (VALUES rows | SET ... | SELECT expressions FROM one table WHERE condition)
    update  := UPDATE table SET assignments (WHERE condition)?            delete := DELETE FROM table (WHERE condition)?

Source: sql/sql_insert.cc, sql/sql_update.cc; handler::update_auto_increment in sql/handler.cc.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from binlogio.errors import ReplayError, UnsupportedFeature
from binlogio.replay.targets.sqlite.catalogue import NO_FACTS
from binlogio.replay.targets.sqlite.conversion import kind_of
from binlogio.replay.targets.sqlite.definition import SqliteDefinition, UnknownValue, quoted
from binlogio.replay.targets.sqlite.expressions import Expressions, only, shown
from binlogio.replay.targets.sqlite.functions import SqliteFunctions, Untranslatable
from binlogio.replay.targets.sqlite.typed import INTEGER, StatementContext, Typed
from binlogio.replay.transactions import NEEDS_ROW_FORMAT
from binlogio.schema.ddl.column_history import UNKNOWN_DEFAULT
from binlogio.schema.ddl.logged_ddl import server_of, session_of, text_of
from binlogio.schema.ddl.parsed_table import PRIMARY
from binlogio.schema.ddl.tokens import (
    MODE_ANSI_QUOTES,
    MODE_NO_BACKSLASH_ESCAPES,
    Token,
    tokenize,
)

if TYPE_CHECKING:
    from binlogio.events.base import ParseContext
    from binlogio.events.query import QueryEvent
    from binlogio.replay.targets.sqlite.catalogue import SqliteCatalogue
    from binlogio.replay.targets.sqlite.connection import SqliteConnection
    from binlogio.replay.transactions import StatementStep

_SHOWN: Final = 200
_MODE_PIPES_AS_CONCAT: Final = 1 << 1
_MODE_NO_AUTO_VALUE_ON_ZERO: Final = 1 << 19
_MODE_HIGH_NOT_PRECEDENCE: Final = 1 << 29
# What the text must not have under a mode, since sqlglot reads it as without that mode.
_MODES: Final = (
    (MODE_ANSI_QUOTES, '"'),
    (MODE_NO_BACKSLASH_ESCAPES, "\\"),
    (_MODE_PIPES_AS_CONCAT, "||"),
    (_MODE_HIGH_NOT_PRECEDENCE, "not"),
)
_EXECUTED_COMMENT: Final = re.compile(r"/\*(?:M?!|\+)")
_LINE_COMMENT: Final = re.compile(r"--(?!\s)")
_BYTES: Final = ("X", "B")
_REPLACE: Final = re.compile(r"\s*REPLACE\b", re.IGNORECASE)
_COMPARED_AS_BYTES: Final = (
    "integer",
    "year",
    "bit",
    "date",
    "bytes",
    "decimal",
    "double",
    "datetime",
    "timestamp",
    "time",
    "enum",
)


def sqlglot_is_here() -> bool:
    """Return whether statements can be translated at all."""
    try:
        import sqlglot  # noqa: F401, PLC0415 - an extra
    except ImportError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class _Table:
    """The table that a statement changes."""

    name: str
    definition: SqliteDefinition

    def position(self, node: Any) -> int:
        """Return the index of a column that a statement names."""
        column = node.this if type(node).__name__ == "Column" else node
        found = self.definition.position(str(column.this))
        if found is None:
            raise Untranslatable(f"the column {shown(node)}, which the table does not have")
        return found


class SqliteTranslation:
    """Statements as text at work on one database."""

    def __init__(self, connection: SqliteConnection, kept: SqliteCatalogue) -> None:
        self._connection = connection
        self._functions = SqliteFunctions(connection)
        self._kept = kept

    def run(self, step: StatementStep, context: ParseContext) -> None:
        """Carry out a statement.

        Raises:
            ReplayError: it cannot be translated without loss, or does not fit the rows that are there; what was done of
                it is to be undone.
        """
        event = replace(step.event, schema=step.source_schema)
        text = text_of(event)
        shown_text = repr(text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}...")
        try:
            if event.error_code:
                raise Untranslatable(f"it failed at its source with error {event.error_code}, half-way perhaps")
            tree, is_replace = _parsed(text, event, context)
            if not step.wanted.wants_table(*self._name(tree, event)):
                return
            _TranslatedStatement(self, step, event, context, is_replace=is_replace).run(tree)
        except (Untranslatable, UnsupportedFeature) as exc:
            what = exc.reason if exc.found is None else f"{exc.reason}, {exc.found}"
            raise ReplayError(
                f"the statement {shown_text} cannot be translated for SQLite without loss: {what}",
                hint=NEEDS_ROW_FORMAT,
            ) from exc
        except ReplayError as exc:
            raise ReplayError(f"the statement {shown_text} failed: {exc.reason}") from exc
        except (ValueError, RecursionError) as exc:  # such as a number of thousands of digits, or as many operators
            raise ReplayError(f"the statement {shown_text} failed: {exc}") from exc

    def _name(self, tree: Any, event: QueryEvent) -> tuple[str, str]:
        table = tree.this.this if type(tree.this).__name__ == "Schema" else tree.this
        if type(table).__name__ != "Table":
            raise Untranslatable(shown(tree))
        database = table.args.get("db")
        name = (event.schema if database is None else str(database.this), str(table.this.this))
        return self._kept.catalogue.known_name(name)

    def table(self, node: Any, step: StatementStep, event: QueryEvent, context: ParseContext) -> _Table:
        """Return the table that a node names, if statements can be carried out on it."""
        if type(node).__name__ != "Table":
            raise Untranslatable(shown(node))
        only(node, "this", "db")
        database = node.args.get("db")
        name = (event.schema if database is None else str(database.this), str(node.this.this))
        if (event.thread_id, *name) in self._kept.catalogue.temporary:
            raise Untranslatable(f"the temporary table {name[1]}")
        name = self._kept.catalogue.known_name(name)
        table, facts = self._kept.find(name), self._kept.facts.get(name, NO_FACTS)
        full_name = ".".join(name)
        if table is None:
            reason = self._kept.catalogue.unknown.get(name, "the log does not tell what it is")
            raise Untranslatable(f"the table {full_name}: {reason}")
        if facts.obstacle is not None:
            raise Untranslatable(f"the table {full_name}: {facts.obstacle}")
        target = f"{step.wanted.schema(name[0])}.{name[1]}"
        definition = SqliteDefinition.of(table, facts.defaults, context)
        here = self._connection.execute(f"PRAGMA table_info({quoted(target)})").fetchall()
        if tuple(row[1] for row in here)[: len(definition.names)] != definition.names:
            raise Untranslatable(f"the table {full_name}, which has other columns in the target than the log says")
        if table.is_versioned:
            raise Untranslatable(f"the table {full_name}, which is versioned")
        computed = [column.name for column in definition.definition.columns if column.generated_from is not None]
        if computed:
            raise Untranslatable(f"the generated column {computed[0]}")
        return _Table(target, definition)

    @property
    def functions(self) -> SqliteFunctions:
        """What the statements use."""
        return self._functions


class _TranslatedStatement:
    """One statement at work."""

    def __init__(
        self,
        target: SqliteTranslation,
        step: StatementStep,
        event: QueryEvent,
        context: ParseContext,
        *,
        is_replace: bool,
    ) -> None:
        self._target = target
        self._step = step
        self._event = event
        self._context = context
        self._is_replace = is_replace
        self._session = StatementContext(event, step.context)
        self._sql_mode = session_of(event).sql_mode
        target.functions.columns.clear()

    def run(self, tree: Any) -> None:
        """Carry it out."""
        handler = {"Insert": self._insert, "Update": self._update, "Delete": self._delete}.get(type(tree).__name__)
        if handler is None:
            raise Untranslatable(shown(tree))
        handler(tree)

    def _expressions(self, table: _Table) -> Expressions:
        columns = {column.label.casefold(): column for column in table.definition.plan.columns}
        return Expressions(self._session, columns, table.definition.definition.name, self._target.functions)

    def _table(self, node: Any) -> _Table:
        return self._target.table(node, self._step, self._event, self._context)

    # ------------------------------------------------------------------------------------------------ UPDATE, DELETE

    def _update(self, tree: Any) -> None:
        only(tree, "this", "expressions", "where")
        table = self._table(tree.this)
        expressions, plan = self._expressions(table), table.definition.plan
        assigned: dict[int, str] = {}
        for one in tree.expressions:
            if type(one).__name__ != "EQ":
                raise Untranslatable(shown(one))
            position = table.position(one.this)
            columns = [] if _is_default(one.expression) else one.expression.find_all(type(one.this))
            if position in assigned or any(table.position(column) in assigned for column in columns):
                raise Untranslatable(f"{shown(one)}: a column that the same statement assigned before")
            value = self._default(table, position) if _is_default(one.expression) else expressions.typed(one.expression)
            assigned[position] = self._stored(expressions, table, position, value)
        changes = dict(assigned)
        changed = " OR ".join(f"{quoted(plan.columns[at].label)} IS NOT {sql}" for at, sql in assigned.items())
        for position, column in enumerate(table.definition.definition.columns):
            if column.on_update_now and position not in assigned:
                label = quoted(column.name)
                now = expressions.stored(
                    Typed("NULL", "now", INTEGER, plan.columns[position].fsp), plan.columns[position]
                )
                changes[position] = f"CASE WHEN {changed} THEN {now} ELSE {label} END"
        text = ", ".join(f"{quoted(plan.columns[at].label)} = {sql}" for at, sql in changes.items())
        where = self._where(tree, expressions)
        self._target.functions.run(f"UPDATE {quoted(table.name)} SET {text}{where}", expressions.values)  # noqa: S608

    def _delete(self, tree: Any) -> None:
        only(tree, "this", "where")
        table = self._table(tree.this)
        expressions = self._expressions(table)
        where = self._where(tree, expressions)
        self._target.functions.run(f"DELETE FROM {quoted(table.name)}{where}", expressions.values)  # noqa: S608

    @staticmethod
    def _where(tree: Any, expressions: Expressions) -> str:
        where = tree.args.get("where")
        return "" if where is None else f" WHERE {expressions.condition(where.this)}"

    # -------------------------------------------------------------------------------------------------------- INSERT

    def _insert(self, tree: Any) -> None:
        only(tree, "this", "expression")
        is_named = type(tree.this).__name__ == "Schema"
        table = self._table(tree.this.this if is_named else tree.this)
        definition = table.definition.definition
        named = tree.this.expressions if is_named else []
        positions = [table.position(one) for one in named]
        if len(set(positions)) < len(positions):
            raise Untranslatable("a column that is named twice")
        if self._is_replace:
            self._check_keys(table)
        if type(tree.expression).__name__ != "Values":
            positions = positions or [at for at, column in enumerate(definition.columns) if column.visible]
            self._insert_select(tree.expression, table, positions)
            return
        only(tree.expression, "expressions")
        rows = [list(one.expressions) for one in tree.expression.expressions]
        if not positions and any(rows):
            positions = [at for at, column in enumerate(definition.columns) if column.visible]
        if any(len(row) != len(positions) for row in rows):
            raise Untranslatable("rows of another number of values than columns")
        self._insert_rows(table, positions, rows)

    def _insert_rows(self, table: _Table, positions: list[int], rows: list[list[Any]]) -> None:
        columns = table.definition.definition.columns
        counted = next((at for at, column in enumerate(columns) if column.auto_increment), None)
        generated: Counter[bool] = Counter()
        for row in rows:
            expressions = self._expressions(table)
            given = dict(zip(positions, row, strict=True))
            found: dict[int, Typed] = {}
            for position in range(len(columns)):
                node = given.get(position)
                is_given = node is not None and not _is_default(node)
                found[position] = expressions.typed(node) if is_given else self._default(table, position)
            if counted is not None:
                is_generated = self._is_generated(found[counted], is_given=counted in given)
                if is_generated:
                    found[counted] = self._next_number(generated[True])
                generated[is_generated] += 1
                if len(generated) > 1:
                    raise Untranslatable("rows with and without a number for the AUTO_INCREMENT column")
            sql = [self._stored(expressions, table, position, one) for position, one in found.items()]
            self._run_insert(table, f"VALUES ({', '.join(sql)})", list(found), expressions)

    def _insert_select(self, tree: Any, table: _Table, positions: list[int]) -> None:
        only(tree, "expressions", "from_", "from", "where")
        origin = tree.args.get("from_") or tree.args.get("from")  # older versions of sqlglot call it so
        if origin is None or len(tree.expressions) != len(positions):
            raise Untranslatable(shown(tree))
        source = self._table(origin.this)
        expressions = self._expressions(source)
        found = {position: expressions.typed(one) for position, one in zip(positions, tree.expressions, strict=True)}
        for position, column in enumerate(table.definition.definition.columns):
            if column.auto_increment and (position not in found or self._is_generated(found[position], is_given=True)):
                raise Untranslatable("numbers for an AUTO_INCREMENT column in the order of a SELECT")
            if position not in found:
                found[position] = self._default(table, position)
        sql = [self._stored(expressions, table, position, one) for position, one in sorted(found.items())]
        where = self._where(tree, expressions)
        select = f"SELECT {', '.join(sql)} FROM {quoted(source.name)}{where}"  # noqa: S608
        self._run_insert(table, select, sorted(found), expressions)

    def _run_insert(self, table: _Table, what: str, positions: list[int], expressions: Expressions) -> None:
        names = ", ".join(quoted(table.definition.names[position]) for position in positions)
        verb = "INSERT OR REPLACE" if self._is_replace else "INSERT"
        self._target.functions.run(f"{verb} INTO {quoted(table.name)} ({names}) {what}", expressions.values)

    def _is_generated(self, found: Typed, *, is_given: bool) -> bool:
        """Return whether a server gives the row a number."""
        if not is_given or found.kind == "null":
            return True
        if found.is_constant and found.kind == "integer":
            return found.value == 0 and not self._sql_mode & _MODE_NO_AUTO_VALUE_ON_ZERO
        if found.is_constant:
            raise Untranslatable(f"a value of {found.kind} in the AUTO_INCREMENT column")
        return False

    def _next_number(self, count: int) -> Typed:
        first = self._session.insert_id
        if first is None:
            raise Untranslatable("the number for the AUTO_INCREMENT column, which the log does not say")
        return Typed("", "integer", INTEGER, first + count * self._session.increment, is_constant=True)

    def _check_keys(self, table: _Table) -> None:
        """REPLACE removes rows with the same keys: these must be in SQLite, and compare there as at the source."""
        for key in table.definition.table.keys:
            if not key.is_unique and key.name.upper() != PRIMARY:
                continue
            for name, prefix in key.parts:
                position = table.definition.position(name) if name and not prefix else None
                kind = "" if position is None else kind_of(table.definition.plan.columns[position])
                if kind not in _COMPARED_AS_BYTES:
                    raise Untranslatable(
                        f"REPLACE in a table with the key {key.name}, which compares {kind or 'expressions'}"
                    )

    # -------------------------------------------------------------------------------------------------------- values

    @staticmethod
    def _default(table: _Table, position: int) -> Typed:
        column, plan = table.definition.definition.columns[position], table.definition.plan.columns[position]
        if column.auto_increment:
            return Typed("NULL", "null", is_constant=True)
        default = table.definition.defaults.get(column.name.casefold(), UNKNOWN_DEFAULT)
        if default.is_now:
            return Typed("NULL", "now", INTEGER, plan.fsp)
        value = table.definition.default(position)
        if isinstance(value, UnknownValue):
            raise Untranslatable(f"the default of column {column.name}")
        return (
            Typed("NULL", "null", is_constant=True)
            if value is None
            else Typed("", kind_of(plan), plan, value, is_constant=True)
        )

    @staticmethod
    def _stored(expressions: Expressions, table: _Table, position: int, value: Typed) -> str:
        return expressions.stored(value, table.definition.plan.columns[position])


def _is_default(node: Any) -> bool:
    if type(node).__name__ == "Column":  # so sqlglot has it in an UPDATE
        node = node.this if not node.args.get("table") and not node.this.args.get("quoted") else None
    return type(node).__name__ in ("Var", "Identifier") and str(node.this).upper() == "DEFAULT"


def _parsed(text: str, event: QueryEvent, context: ParseContext) -> tuple[Any, bool]:
    """Return the tree of a statement, and whether it is a REPLACE.

    Sqlglot has to have seen the same literals as a server.
    """
    if not sqlglot_is_here():
        raise Untranslatable("sqlglot is not installed: pip install 'binlogio[replay]'")
    import sqlglot  # noqa: PLC0415 - an extra
    from sqlglot.errors import SqlglotError  # noqa: PLC0415

    mode = session_of(event).sql_mode
    if _EXECUTED_COMMENT.search(text) or _LINE_COMMENT.search(text):
        raise Untranslatable("comments that are executed, or -- without a space after it")
    for bit, mark in _MODES:
        if mode & bit and mark in text.lower():
            raise Untranslatable(f"{mark} under an sql_mode that gives it another meaning")
    is_replace = _REPLACE.match(text) is not None
    try:
        tree = sqlglot.parse_one(_REPLACE.sub("INSERT", text, count=1) if is_replace else text, dialect="mysql")
    except (SqlglotError, RecursionError) as exc:
        raise Untranslatable("sqlglot cannot read it") from exc
    tokens = tokenize(text, server_of(event, context), mode)
    literals = list(tree.find_all(sqlglot.exp.Literal))
    for is_string, kind in ((True, "text"), (False, "number")):
        if Counter(str(one.this) for one in literals if one.is_string is is_string) != _texts(tokens, kind):
            raise Untranslatable("literals that sqlglot reads in another way than a server")
    return tree, is_replace


def _texts(tokens: list[Token], kind: str) -> Counter[str]:
    """Return the literals of a kind; bytes and bits are not among them."""
    before = [Token("", ""), *tokens]
    return Counter(
        token.text
        for last, token in zip(before, tokens, strict=False)
        if token.kind == kind and last.upper not in _BYTES
    )
