"""Explains how statements are logged: format, cache, flush, warnings and errors, in every binlog_format.

The rules are not repeated here: a writer logs the statements into a temporary folder, with one invented row for each
table that a statement writes, and the decisions, the caches and the log are inspected after each step.
`steps_of_notation` parses sequences in the notation of WL#2687, `steps_of_sql` SQL.

    sequence := step (" " step)*
    step     := B | C | R | S | RS | change "!"?        -- BEGIN COMMIT ROLLBACK SAVEPOINT ROLLBACK-TO; ! ends in error
    change   := T | N | M | TN | NT                     -- T: InnoDB, N: MyISAM, M: both; TN: T from a SELECT of N
"""

from __future__ import annotations

import re
import tempfile
from bisect import bisect_left
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import starmap
from pathlib import Path
from typing import TYPE_CHECKING, Final

from binlogio.dotted_names import dotted_name
from binlogio.errors import LoggingError, UnsupportedFeature
from binlogio.events.control import XidEvent
from binlogio.events.query import QueryEvent
from binlogio.options import ServerVariables
from binlogio.reader import open as open_logs
from binlogio.schema import ColumnDefinition, TableDefinition, parse_create_table
from binlogio.schema.ddl.server_defaults import NEWEST_MYSQL
from binlogio.schema.ddl.tokens import Words, tokenize
from binlogio.schema.statement_scope import leading_words
from binlogio.schema.statements import (
    Begin,
    Commit,
    Rollback,
    RollbackTo,
    SavepointStatement,
    recognize,
    split_statements,
)
from binlogio.writer.rules.known_objects import KnownObjects, Trigger
from binlogio.writer.rules.logging_format import decide_logging_format, row_cache
from binlogio.writer.rules.statement import Delete, Insert, Statement, Update, facts_of
from binlogio.writer.rules.statement_facts import (
    CacheKind,
    LoggingDecision,
    LoggingFormat,
    LoggingWarning,
    StatementFacts,
    StatementKind,
    TableAccess,
)
from binlogio.writer.rules.statement_text import facts_from_sql
from binlogio.writer.writer import BinlogWriter

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from binlogio.writer.rules.statement import Change
    from binlogio.writer.session.session import Session

FORMATS: Final = ("STATEMENT", "ROW", "MIXED")
SCHEMA: Final = "test"
FAILS_WITH: Final = 1062  # ER_DUP_ENTRY
_COLUMNS: Final = (ColumnDefinition("a", "int", nullable=False), ColumnDefinition("b", "int"))
TABLES: Final = (
    TableDefinition(SCHEMA, "t", _COLUMNS, ("a",)),
    TableDefinition(SCHEMA, "n", _COLUMNS, ("a",), engine="MyISAM"),
)
_TEXTS: Final = {
    "B": "BEGIN",
    "C": "COMMIT",
    "R": "ROLLBACK",
    "S": "SAVEPOINT s",
    "RS": "ROLLBACK TO s",
    "T": "INSERT INTO t VALUES (1, 1)",
    "N": "INSERT INTO n VALUES (1, 1)",
    "M": "UPDATE t, n SET t.b = 2, n.b = 2",
    "TN": "INSERT INTO t SELECT a, b FROM n",
    "NT": "INSERT INTO n SELECT a, b FROM t",
}
_ERROR: Final = re.compile(r"/\*\s*error\s+(\d+)\s*\*/\s*$", re.IGNORECASE)
_CREATES_FROM_SELECT: Final = (StatementKind.CREATE_SELECT, StatementKind.CREATE_TEMPORARY_SELECT)
_BODIES: Final = ("INSERT", "REPLACE", "UPDATE", "DELETE", "SET")


class Flush(Enum):
    """When the events of a statement are written to the log. The values are the letters of WL#2687."""

    AT_ONCE = "D"
    COMMIT = "C"
    ROLLBACK = "R"
    NEVER = "I"


@dataclass(slots=True)
class LoggedPart:
    """The part of a statement in one cache: its text, or its rows of transactional or of non-transactional tables."""

    format: LoggingFormat
    cache: CacheKind
    flush: Flush = Flush.NEVER

    @property
    def letters(self) -> str:
        """Format, cache and flush, one letter each."""
        return f"{self.format.value[0]}{self.cache.value[0]}{self.flush.value}"


@dataclass(slots=True)
class ExplainedStatement:
    """Result of a statement in one binlog_format.

    `group_end` is the event that ends the group of the statement: XID, COMMIT or ROLLBACK. `maps` are parts of table
    maps without rows, of tables that SELECT ... FOR UPDATE locks.
    """

    sql: str
    error: int = 0
    parts: list[LoggedPart] = field(default_factory=list)
    maps: list[LoggedPart] = field(default_factory=list)
    unsafe: tuple[str, ...] = ()
    warnings: tuple[LoggingWarning, ...] = ()
    refusal: LoggingError | None = None
    group_end: str = ""

    @property
    def letters(self) -> str:
        """The letters of the parts; `!` if there is a warning 1592 (unsafe), `E` if the statement is refused."""
        if self.refusal is not None:
            return "E"
        warned = any(warning.errno == 1592 for warning in self.warnings)
        return "+".join(part.letters for part in self.parts) + ("!" if warned else "")


def steps_of_notation(sequence: str) -> list[str]:
    """Return the SQL of a sequence such as `B T N C`.

    Raises:
        UnsupportedFeature: a step is unknown.
    """
    steps = []
    for word in sequence.split():
        name = word.upper().removesuffix("!")
        if name not in _TEXTS or (word.endswith("!") and not set(name) & {"T", "N", "M"}):
            raise UnsupportedFeature("unknown step", field="sequence", expected=" ".join(_TEXTS), found=word)
        steps.append(_TEXTS[name] + (f" /* error {FAILS_WITH} */" if word.endswith("!") else ""))
    return steps


def is_notation(text: str) -> bool:
    """Return whether a text is a sequence of steps, and not SQL."""
    return bool(text.split()) and all(word.upper().removesuffix("!") in _TEXTS for word in text.split())


def steps_of_sql(text: str) -> list[str]:
    """Return the statements of a text.

    Raises:
        UnsupportedFeature: a quote or a comment does not end.
    """
    return [raw.strip() for _, raw in split_statements(text)]


def explain(
    steps: Sequence[str],
    variables: ServerVariables,
    *,
    tables: Iterable[TableDefinition] = TABLES,
    objects: KnownObjects | None = None,
    schema: str = SCHEMA,
) -> list[ExplainedStatement]:
    """Explain statements that a session executes one after the other.

    A statement that ends in the comment `/* error NUMBER */` fails after its first row. An open transaction is rolled
    back at the end. A refused statement is skipped, and the session continues.

    Args:
        steps: the statements.
        variables: the server's variables, with binlog_format and rule_set.
        tables: existing tables; CREATE TABLE adds to them.
        objects: views, functions and triggers; CREATE TRIGGER adds to them.
        schema: the default database.

    Raises:
        UnsupportedFeature: a statement cannot be analyzed.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "binlog"
        with BinlogWriter(path, variables=replace(variables, sync_binlog=0)) as log, log.session(schema) as session:
            run = _Run(log, session, list(tables), KnownObjects() if objects is None else objects)
            found = [run.step(sql) for sql in steps]
            session.close()
            run.end()
        run.resolve(path.with_suffix(".000001"))
    return found


class _Run:
    """A session with a record of its steps. `_ends` are the sizes of the log after each step."""

    def __init__(
        self, log: BinlogWriter, session: Session, tables: list[TableDefinition], objects: KnownObjects
    ) -> None:
        self._log = log
        self._session = session
        self._objects = replace(objects, tables=[*objects.tables, *tables])
        self._given = tuple(objects.triggers)
        self._created: dict[str, tuple[str, str]] = {}  # by the name of a trigger: its text and default database
        self._functions: list[str] = []  # whose statements are not known
        self._steps: list[ExplainedStatement] = []
        self._ends = [log.position.offset]
        self._own: list[tuple[int, LoggedPart]] = []  # (step, part) that the step itself may have written
        self._waiting: list[tuple[int, LoggedPart]] = []  # (size of the transaction cache after the part, part)
        self._closed: list[tuple[int, list[LoggedPart]]] = []  # (step, parts that waited until this step)

    def step(self, sql: str) -> ExplainedStatement:
        """Execute a statement."""
        error = _ERROR.search(sql)
        text = sql[: error.start()].strip() if error else sql.strip()
        step = ExplainedStatement(text, int(error[1]) if error else 0)
        self._steps.append(step)
        before = self._session.cached
        try:
            if not self._is_boundary(text):
                self._execute(step)
        except LoggingError as refusal:
            step.refusal = refusal
            step.parts = step.maps = []
        step.warnings = tuple(self._session.warnings)
        self._note(step, before)
        return step

    def end(self) -> None:
        """Record what the end of the session has written."""
        self._close(len(self._steps))
        self._ends.append(self._log.position.offset)

    def resolve(self, path: Path) -> None:
        """Read from the log which parts were written, and the event that ended each group."""
        groups: list[list[str]] = [[] for _ in self._ends]
        with open_logs(path) as reader:
            for group in reader.groups():
                for _ in group:
                    pass
                if group.end is not None:
                    groups[bisect_left(self._ends, group.end)].append(_end_of(group.last))
        for number, step in enumerate(self._steps, 1):
            step.group_end = groups[number][-1] if groups[number] else ""
        for number, part in self._own:
            ends = groups[number + 1]
            if part.cache is CacheKind.TRANSACTION:
                is_last = len(ends) == len({id(one) for at, one in self._own if at == number})
                part.flush = _flush(ends[-1]) if ends and is_last else Flush.NEVER
            else:
                part.flush = Flush.AT_ONCE if ends else Flush.NEVER
        for number, parts in self._closed:
            for part in parts:
                part.flush = _flush(groups[number + 1][0]) if groups[number + 1] else Flush.NEVER

    def _is_boundary(self, sql: str) -> bool:
        """Execute a statement that controls the transaction, or USE; returns False for another one."""
        session, words = self._session, leading_words(sql, NEWEST_MYSQL)
        match recognize(sql.encode("utf-8", "surrogateescape")):
            case Begin():
                session.begin()
            case Commit():
                session.commit()
            case Rollback():
                session.rollback()
            case SavepointStatement(name):
                session.savepoint(name)
            case RollbackTo(name):
                session.rollback_to(name)
            case _ if words.accept("RELEASE", "SAVEPOINT"):
                session.release(words.name())
            case _ if words.accept("USE"):
                session.schema = words.name()
            case _:
                return False
        return True

    def _execute(self, step: ExplainedStatement) -> None:
        session = self._session
        statement = Statement.from_sql(step.sql, session.schema, (), objects=self._objects)
        facts = facts_of(statement)
        calls = (re.search(rf"\b{re.escape(name)}`?\s*\(", step.sql, re.IGNORECASE) for name in self._functions)
        called = next((name for name, call in zip(self._functions, calls, strict=True) if call), None)
        if facts.verb == "CALL" or called is not None:
            raise UnsupportedFeature(
                "the statements of a stored routine are not known",
                found=called or step.sql,
                hint="give the statements that it executes in its place, or a script with them to `binlogio write`",
            )
        try:
            decision = decide_logging_format(session.variables, facts, session.state)
        except LoggingError:
            session.execute(statement)  # refused as well, with the warnings that come before a refusal
            raise
        step.unsafe = tuple(reason.name for reason in decision.unsafe)
        locked = [table for table in facts.all_tables if table.write]
        step.parts = _parts(session, decision, [table for table in locked if not table.only_locked])
        caches = [part.cache for part in step.parts]
        step.maps = [part for part in _parts(session, decision, locked) if part.cache not in caches]
        statement = _with_rows(replace(statement, error=step.error), facts, locked)
        session.execute(statement)
        self._define(step.sql, facts)

    def _define(self, sql: str, facts: StatementFacts) -> None:
        """Add created tables to the existing ones, remove dropped ones, and take triggers."""
        objects, kind = self._objects, facts.kind
        if kind in (StatementKind.DML, StatementKind.SELECT, StatementKind.LOAD_DATA):
            return
        if kind is StatementKind.DDL and self._define_routine(sql):
            return
        created = [_invented(table) for table in facts.tables[:1] if kind in _CREATES_FROM_SELECT]
        with suppress(UnsupportedFeature):
            created = created or [parse_create_table(sql, schema=self._session.schema)]
        dropped = {
            (dotted_name(table.schema, table.name), table.temporary)
            for table in facts.tables
            if kind is StatementKind.DROP_TEMPORARY or leading_words(sql, NEWEST_MYSQL).accept("DROP", "TABLE")
        }
        is_temporary = kind in (StatementKind.CREATE_TEMPORARY, StatementKind.CREATE_TEMPORARY_SELECT)
        tables, temporary = (
            [one for one in known if (one.full_name, is_own) not in dropped] + created * (is_own is is_temporary)
            for known, is_own in ((objects.tables, False), (objects.temporary_tables, True))
        )
        self._objects = replace(objects, tables=tables, temporary_tables=temporary)

    def _define_routine(self, sql: str) -> bool:
        """Take a CREATE or DROP TRIGGER, or note a function; returns False for another statement.

        Raises:
            UnsupportedFeature: the trigger has more than one statement, or none that changes rows.
        """
        words = Words(tokenize(sql))
        verb = words.accept_any("CREATE", "DROP")
        if not verb or (kind := words.object_kind()) not in ("TRIGGER", "FUNCTION"):
            return False
        schema, name = words.table_name()
        key = dotted_name(schema or self._session.schema, name)
        if kind == "FUNCTION":
            self._functions.append(name)
        elif verb == "DROP":
            self._created.pop(key, None)
        else:
            self._created[key] = sql, self._session.schema
        for _ in (None, *self._created):  # each may fire others
            triggers = (*self._given, *starmap(self._trigger, self._created.values()))
            self._objects = replace(self._objects, triggers=triggers)
        return True

    def _trigger(self, sql: str, default: str) -> Trigger:
        """Return the trigger of a CREATE TRIGGER; `default` is the default database."""
        words = Words(tokenize(sql))
        words.accept("CREATE")
        words.object_kind()
        words.table_name()
        words.take()  # BEFORE or AFTER
        event = words.take().upper
        words.expect("ON")
        schema, table = words.table_name()
        words.expect("FOR", "EACH", "ROW")
        if words.accept_any("FOLLOWS", "PRECEDES"):
            words.table_name()
        if words.next.upper not in _BODIES:
            raise UnsupportedFeature(
                "only triggers with one statement can be explained",
                found=sql,
                hint="give the statements of its body in a `trigger` line to `binlogio write`",
            )
        full_name = dotted_name(schema or default, table)
        if full_name not in (known.full_name for known in self._objects.tables):
            raise UnsupportedFeature("the table is not defined", field="sql", found=full_name)
        body = facts_from_sql(sql[words.next.start :], schema or default, objects=self._objects)
        facts = StatementFacts(kind=StatementKind.SELECT, sub_statements=(body,))
        return Trigger(table=full_name, event=event, body=facts)

    def _note(self, step: ExplainedStatement, before: int) -> None:
        number, after = len(self._steps) - 1, self._session.cached
        if after == 0 and self._waiting:
            self._close(number)
        self._waiting = [(size, part) for size, part in self._waiting if size <= after]
        waits = after > before
        for part in (*step.parts, *step.maps):
            if part.cache is CacheKind.TRANSACTION and waits:
                self._waiting.append((after, part))
            else:
                self._own.append((number, part))
        self._ends.append(self._log.position.offset)

    def _close(self, number: int) -> None:
        self._closed.append((number, [part for _, part in self._waiting]))
        self._waiting = []


def _parts(session: Session, decision: LoggingDecision, written: Sequence[TableAccess]) -> list[LoggedPart]:
    if decision.format is LoggingFormat.STATEMENT and decision.statement_cache is not None:
        return [LoggedPart(decision.format, decision.statement_cache)]
    if decision.format is LoggingFormat.ROW:
        caches = {row_cache(session.variables, table, session.state) for table in written}
        return [LoggedPart(decision.format, cache) for cache in CacheKind if cache in caches]
    return []


def _with_rows(statement: Statement, facts: StatementFacts, locked: Sequence[TableAccess]) -> Statement:
    """Return the statement with one row for each table that it writes, and an invented definition of each table."""
    kinds = (StatementKind.DML, StatementKind.SELECT, StatementKind.LOAD_DATA, StatementKind.CREATE_SELECT)
    if facts.kind not in kinds or facts.is_skipped or (statement.error and facts.kind is StatementKind.CREATE_SELECT):
        return statement
    tables = {_invented(table): table for table in locked if not table.is_local}
    return replace(
        statement,
        changes=tuple(_change(facts.verb, one) for one, table in tables.items() if not table.only_locked),
        locked=tuple(tables),
        cascades=(),
    )


def _invented(table: TableAccess) -> TableDefinition:
    return TableDefinition(table.schema, table.name, _COLUMNS[:1], engine=table.engine.name)


def _change(verb: str, table: TableDefinition) -> Change:
    if verb == "UPDATE":
        return Update(table, [((1,), (2,))])
    return Delete(table, [(1,)]) if verb == "DELETE" else Insert(table, [(1,)])


def _end_of(event: object) -> str:
    if isinstance(event, XidEvent):
        return "XID"
    if isinstance(event, QueryEvent) and event.sql.upper() in (b"COMMIT", b"ROLLBACK"):
        return event.sql.decode().upper()
    return "DIRECT"


def _flush(end: str) -> Flush:
    return Flush.ROLLBACK if end == "ROLLBACK" else Flush.COMMIT
