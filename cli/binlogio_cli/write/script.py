"""Interpreter of the scripts of `binlogio write`: JSON lines with statements and transactions of sessions.

The methods of `ScriptRunner` with the decorator `action` are the actions. docs/write_script.schema.json, the output of
`binlogio write --schema`, has all of their keys. `binlogio.writer` writes the log. `binlogio.schema.json_values` has
the format of values.

    script := variables?  line*
    line   := {"do": action, "session": name, "at": time, "schema": name, key: value...}  -- all but "do" are optional

The text of a statement decides how it is logged. If the text cannot be parsed, its rows are logged in MIXED format, and
the report has a message. Table definitions come from CREATE TABLE and other DDL of the script; the action `table`
overrides them. Empty lines and lines that start with # are ignored.
"""

from __future__ import annotations

import json
import os
import struct
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from decimal import Decimal, InvalidOperation
from functools import partial
from pathlib import Path
from typing import IO, Any, Final

from binlogio.constants import ENCRYPTED_MAGIC
from binlogio.dotted_names import canonical_name, dotted_name
from binlogio.errors import BinlogError, LoggingError, UnsupportedFeature
from binlogio.events.statement_context import IntvarEvent, IntvarKind, RandEvent, UserVarEvent, UserVarType
from binlogio.gtid import Gtid, Tag
from binlogio.options import ServerVariables
from binlogio.schema import TableDefinition
from binlogio.schema.collations import BINARY, collation_id
from binlogio.schema.json_values import bytes_from_json
from binlogio.schema.statements import first_word
from binlogio.storage.encryption import ENCRYPTION_HEADER_SIZE
from binlogio.values.decimal import check_precision, encode_decimal
from binlogio.values.json import JsonDocument
from binlogio.values.json.diff import JsonDiff, JsonDiffOperation, JsonDiffs
from binlogio.writer import (
    BinlogWriter,
    Delete,
    Insert,
    KnownObjects,
    LoadedFile,
    Session,
    Statement,
    StatementFacts,
    StatementKind,
    Trigger,
    Update,
    XaXid,
)
from binlogio.writer.log.group import ANONYMOUS, AUTOMATIC, Automatic, NextGtid
from binlogio.writer.rules.known_objects import table_access
from binlogio.writer.rules.statement import Change, ContextEvent
from binlogio.writer.rules.statement_text import NOT_STATEMENTS, facts_from_sql
from binlogio.writer.rules.unsafe import UnsafeReason
from binlogio.writer.server_format import server_format_of
from binlogio_cli.write.actions import (
    ACTIONS,
    EXECUTED,
    MOST_LINE,
    TABLE_NAME,
    Json,
    action,
    check_line,
    check_variables,
    defined,
    flag,
    list_of,
    session_variables,
    table_properties,
    text,
    unsigned,
)
from binlogio_cli.write.tables import ScriptTables, row_from_json

_MICROSECONDS: Final = 1_000_000
_END_OF_TIME: Final = (1 << 32) * _MICROSECONDS
_MOST_ERRORS: Final = 20
_FORM: Final = '; a line is an object, such as {"do": "execute", "sql": "INSERT INTO t VALUES (1)"}'
_MAX_PRECISION: Final = 65
_SAVEPOINT: Final = text("The name of the savepoint.")
_XID: Final = defined("xid")


class ScriptError(ValueError):
    """An invalid line; the message starts with the script and the line number."""

    def __init__(self, script: str, line: int, reason: str) -> None:
        super().__init__(f"{script}:{line}: {reason}")


class _InvalidLine(Exception):
    """The reason why a line is invalid, without its number."""


def read_lines(script: str, file: IO[str]) -> list[tuple[int, Json]]:
    """Return the JSON objects of a script with their line numbers.

    Raises:
        ScriptError: a line is not a JSON object, or has more than 64 Mi characters.
    """
    found: list[tuple[int, Json]] = []
    for number, line in enumerate(iter(partial(file.readline, MOST_LINE + 1), ""), 1):
        if len(line) > MOST_LINE:
            raise ScriptError(script, number, f"a line of more than {MOST_LINE:,} characters")
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        try:
            value = json.loads(line)
        except json.JSONDecodeError as exc:
            raise ScriptError(script, number, f"not JSON: {exc.msg} at column {exc.colno}{_FORM}") from exc
        except ValueError as exc:  # Python limits the number of digits
            limit = sys.get_int_max_str_digits()
            raise ScriptError(script, number, f"a whole number of more than {limit} digits") from exc
        except RecursionError as exc:
            raise ScriptError(script, number, "JSON that is too deep") from exc
        if not isinstance(value, dict):
            raise ScriptError(script, number, "not a JSON object")
        if not line.isascii() or "\\ud" in line.lower():
            _refuse_surrogates(script, number, value)
        found.append((number, value))
    return found


def _refuse_surrogates(script: str, number: int, line: Any) -> None:
    """Reject lone surrogates, which are not characters and cannot be encoded as UTF-8."""
    pending = [line]
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            pending += [*value, *value.values()]
        elif isinstance(value, list):
            pending += value
        elif isinstance(value, str):
            try:
                value.encode()
            except UnicodeEncodeError as exc:
                reason = f"a text with half of a surrogate pair at character {exc.start + 1}: {ascii(value)[:80]}"
                raise ScriptError(script, number, reason) from exc


def variables_of(script: str, lines: list[tuple[int, Json]], overrides: Mapping[str, Any]) -> ServerVariables:
    """Return the server variables of the first line of a script, updated with `overrides`.

    Removes the line from `lines`.

    Raises:
        ScriptError: the line has an unknown variable or an invalid value.
        BinlogError: an override is invalid.
    """
    values: dict[str, Any] = {}
    if lines and lines[0][1].get("do") == "variables":
        number, line = lines.pop(0)
        for reason in check_variables(line):
            raise ScriptError(script, number, reason)
        values = {name: value for name, value in line.items() if name != "do"}
        try:
            ServerVariables(**values)
        except BinlogError as exc:
            raise ScriptError(script, number, str(exc)) from exc
    return ServerVariables(**{**values, **overrides})


def check_lines(script: str, lines: Iterable[tuple[int, Json]]) -> list[str]:
    """Return the errors in the form of the lines, each with its line number; at most `_MOST_ERRORS`."""
    found: list[str] = []
    for number, line in lines:
        try:
            found += [str(ScriptError(script, number, reason)) for reason in check_line(line)]
        except RecursionError:
            found.append(str(ScriptError(script, number, "JSON that is too deep")))
        if len(found) >= _MOST_ERRORS:
            break
    return found[:_MOST_ERRORS]


class ScriptClock:
    """The time that the script has set, or else the system time, in microseconds since 1970."""

    def __init__(self) -> None:
        self._at: int | None = None

    def __call__(self) -> int:
        """Return the current time."""
        return time.time_ns() // 1000 if self._at is None else self._at

    def start(self, script: str, lines: Iterable[tuple[int, Json]]) -> None:
        """Set the first time of the script, so that the initial events of the log have it too.

        Raises:
            ScriptError: the text is not a time.
        """
        for number, line in lines:
            if "at" in line:
                try:
                    self.set(line["at"])
                except _InvalidLine as exc:
                    raise ScriptError(script, number, str(exc)) from exc
                return

    def set(self, value: Any) -> None:
        """Set the time; it does not advance until it is set again."""
        try:
            at = round(_moment(value, "at").timestamp() * _MICROSECONDS)
        except (ValueError, OverflowError):
            at = -1
        if not 0 <= at < _END_OF_TIME:
            raise _InvalidLine(
                f'"at" is {str(value)[:80]!r}, not a time from 1970 to 2106, which is what an event can have'
            )
        self._at = at


# Bit numbers of sql_mode by name, in MySQL 9.7.4 and MariaDB 11.8.6. ANSI, TRADITIONAL and similar names stand for
# combinations that depend on the version.
_SQL_MODES: Final = {
    "REAL_AS_FLOAT": 0, "PIPES_AS_CONCAT": 1, "ANSI_QUOTES": 2, "IGNORE_SPACE": 3, "ONLY_FULL_GROUP_BY": 5,
    "NO_UNSIGNED_SUBTRACTION": 6, "NO_DIR_IN_CREATE": 7, "NO_AUTO_VALUE_ON_ZERO": 19, "NO_BACKSLASH_ESCAPES": 20,
    "STRICT_TRANS_TABLES": 21, "STRICT_ALL_TABLES": 22, "NO_ZERO_IN_DATE": 23, "NO_ZERO_DATE": 24,
    "ALLOW_INVALID_DATES": 25, "ERROR_FOR_DIVISION_BY_ZERO": 26, "NO_AUTO_CREATE_USER": 28, "HIGH_NOT_PRECEDENCE": 29,
    "NO_ENGINE_SUBSTITUTION": 30, "PAD_CHAR_TO_FULL_LENGTH": 31,
}  # fmt: skip
_MYSQL_MODES: Final = {"TIME_TRUNCATE_FRACTIONAL": 32, "INTERPRET_UTF8_AS_UTF8MB4": 33}
_MARIADB_MODES: Final = {
    "IGNORE_BAD_TABLE_OPTIONS": 4, "EMPTY_STRING_IS_NULL": 32, "SIMULTANEOUS_ASSIGNMENT": 33,
    "TIME_ROUND_FRACTIONAL": 34,
}  # fmt: skip


def _sql_mode(text: str, *, is_mariadb: bool) -> int:
    """Return the number of an sql_mode given by names."""
    known = _SQL_MODES | (_MARIADB_MODES if is_mariadb else _MYSQL_MODES)
    found = 0
    for name in filter(None, (part.strip().upper() for part in text.split(","))):
        if name not in known:
            raise _InvalidLine(f"no sql_mode {name!r}; it can be a number, or some of {', '.join(known)}")
        found |= 1 << known[name]
    return found


def _moment(value: Any, name: str) -> datetime:
    try:
        moment = datetime.fromisoformat(str(value).replace("Z", "+00:00"))
    except ValueError as exc:
        raise _InvalidLine(f'"{name}" is {str(value)[:80]!r}, not a time such as "2026-11-20T12:00:00Z"') from exc
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=timezone.utc)


@dataclass(slots=True)
class ScriptClient:
    """A client of the script: its session, its temporary tables by `schema.name`, and its prepared statements.

    `opened_at` is the line of the script at which its last transaction began.
    """

    session: Session
    opened_at: tuple[str, int] = ("", 0)
    temporary: dict[str, TableDefinition] = field(default_factory=dict)
    prepared: dict[str, str] = field(default_factory=dict)

    @property
    def is_open(self) -> bool:
        """True if a transaction has begun, or its changes are not committed."""
        session = self.session
        return session.in_transaction or session.state.is_xa or session.cached > 0


class ScriptRunner:
    """Interpreter of scripts: executes validated lines (`check_lines`) with a writer."""

    def __init__(
        self,
        writer: BinlogWriter,
        folder: Path,
        tables: ScriptTables,
        clock: ScriptClock,
        report: Callable[[str], None],
    ) -> None:
        """Initialize; `folder` has the logs, `report` receives warnings and assumptions about statements."""
        self.statements = 0
        self._writer = writer
        self._folder = folder
        self._clock = clock
        self._report = report
        self._place = ("", 0)
        self._script_folder = Path()
        self._is_crashed = False
        self._tables = tables
        self._clients: dict[str, ScriptClient] = {}
        self._routines: dict[str, StatementFacts] = {}
        self._udfs: list[str] = []
        self._triggers: list[Trigger] = []
        self._views: dict[str, str] = {}

    def run(self, script: str, lines: Iterable[tuple[int, Json]]) -> None:
        """Execute the lines; sessions and tables of earlier scripts are kept.

        Raises:
            ScriptError: a line is invalid, or the writer rejects it.
            OSError: the log cannot be written.
        """
        self._script_folder = Path(script).parent
        for number, line in lines:
            self._place = script, number
            try:
                self._run(line)
            except (BinlogError, _InvalidLine) as exc:
                raise ScriptError(script, number, str(exc)) from exc

    def close(self) -> None:
        """Close the sessions. A crashed server is not restarted.

        Raises:
            ScriptError: a transaction is open.
        """
        for client in self._clients.values():
            if client.is_open:
                reason = "the transaction that begins here has no end; expected commit, rollback or disconnect"
                raise ScriptError(*client.opened_at, reason)
            client.session.close()

    def _run(self, line: Json) -> None:
        if "at" in line:
            self._clock.set(line["at"])
        if self._is_crashed:
            self._writer.open()
            self._is_crashed = False
        refused, name = line.get("refused"), line.get("session", "")
        was_open = name in self._clients and self._clients[name].is_open and line["do"] not in _OPENS
        try:
            ACTIONS[line["do"]].run(self, line)
        except LoggingError as exc:
            if refused is None or exc.errno != refused:
                raise
        else:
            if refused is not None:
                raise _InvalidLine(f"the line was not refused; expected error {refused}")
        client = self._clients.get(name)
        if client is not None and not was_open:
            client.opened_at = self._place
        self._check_warnings(line, client.session if client is not None else None)

    def _check_warnings(self, line: Json, session: Session | None) -> None:
        """Report the warnings of a line, or compare them with the expected warnings of the line."""
        found = [] if session is None or line["do"] in _NOT_OF_SESSIONS else session.warnings
        if "warnings" not in line:
            for warning in found:
                self._say(f"{warning.level} {warning.errno}: {warning.message}")
        elif line["warnings"] != [warning.errno for warning in found]:
            raise _InvalidLine(f"the warnings are {[warning.errno for warning in found]}; expected {line['warnings']}")

    # ------------------------------------------------------------------------------------------------------- objects

    @action("schema", "name", "columns", **table_properties())
    def table(self, line: Json) -> None:
        """Define a table; a second definition replaces the first. Nothing is logged."""
        definition = {name: value for name, value in line.items() if name not in _NOT_OF_TABLES}
        self._tables.define(TableDefinition.from_json(definition))

    @action("name", "sql", name=text("The view, as schema.name."), sql=text("The SELECT of the view."))
    def view(self, line: Json) -> None:
        """Define a view, which statements may name. Nothing is logged: CREATE VIEW needs a separate line."""
        self._views[canonical_name(line["name"])] = line["sql"]

    @action(
        "name",
        "body",
        name=text("The function, as name or schema.name."),
        body=list_of(text("A statement."), "The statements that the function executes."),
    )
    def function(self, line: Json) -> None:
        """Define a stored function, which statements may call. Nothing is logged."""
        self._routines[line["name"]] = self._body(line)

    @action("name", name=text("The function."))
    def udf(self, line: Json) -> None:
        """Define a loadable function, which makes statements unsafe. Nothing is logged."""
        self._udfs.append(line["name"])

    @action(
        "table",
        "event",
        "body",
        table=TABLE_NAME,
        event=text("What fires it.", enum=["INSERT", "UPDATE", "DELETE"]),
        body=list_of(text("A statement."), "The statements that the trigger executes."),
    )
    def trigger(self, line: Json) -> None:
        """Define a trigger. Nothing is logged; what it changes is in the changes of the statements that fire it."""
        schema = self._client(line).session.schema
        name = canonical_name(line["table"] if "." in line["table"] or not schema else f"{schema}.{line['table']}")
        self._table(self._client(line), name)
        self._triggers.append(Trigger(table=name, event=line["event"], body=self._body(line)))

    @action("name", "sql", name=text("The name of the prepared statement."), sql=text("Its text, without parameters."))
    def prepare(self, line: Json) -> None:
        """PREPARE: `EXECUTE name` of this session then is this statement, and logged as such."""
        self._client(line).prepared[line["name"]] = line["sql"]

    def _body(self, line: Json) -> StatementFacts:
        client, known = self._client(line), self._tables.all.values()
        objects, schema = self._objects(client), client.session.schema
        statements = [facts_from_sql(sql, schema, known, objects=objects) for sql in line["body"]]
        return StatementFacts(kind=StatementKind.SELECT, sub_statements=tuple(statements))

    def _objects(self, client: ScriptClient) -> KnownObjects:
        return KnownObjects(
            temporary_tables=tuple(client.temporary.values()),
            prepared=client.prepared,
            routines=self._routines,
            udfs=self._udfs,
            triggers=self._triggers,
            views=self._views,
        )

    # -------------------------------------------------------------------------------------------------- transactions

    @action()
    def begin(self, line: Json) -> None:
        """BEGIN; an open transaction is committed."""
        self._session(line).begin()

    @action()
    def commit(self, line: Json) -> None:
        """COMMIT."""
        self._session(line).commit()

    @action(
        "sessions",
        sessions=list_of(text("A session."), "The sessions, in the order of their groups in the log."),
    )
    def commit_together(self, line: Json) -> None:
        """COMMIT of several sessions at the same time: their groups are flushed and synced together."""
        names = line["sessions"]
        for name in names:
            if name not in self._clients:
                raise _InvalidLine(f"no session {name!r}; those before this line are {', '.join(self._clients)}")
        self._writer.commit_together([self._clients[name].session for name in names])

    @action()
    def rollback(self, line: Json) -> None:
        """ROLLBACK."""
        self._session(line).rollback()

    @action("name", name=_SAVEPOINT)
    def savepoint(self, line: Json) -> None:
        """SAVEPOINT."""
        self._session(line).savepoint(line["name"])

    @action("name", name=_SAVEPOINT)
    def rollback_to(self, line: Json) -> None:
        """ROLLBACK TO SAVEPOINT."""
        self._session(line).rollback_to(line["name"])

    @action("name", name=_SAVEPOINT)
    def release(self, line: Json) -> None:
        """RELEASE SAVEPOINT."""
        self._session(line).release(line["name"])

    @action("xid", xid=_XID)
    def xa_start(self, line: Json) -> None:
        """XA START."""
        self._session(line).xa_start(_xid(line))

    @action("xid", xid=_XID)
    def xa_end(self, line: Json) -> None:
        """XA END."""
        self._session(line).xa_end(_xid(line))

    @action("xid", xid=_XID)
    def xa_prepare(self, line: Json) -> None:
        """XA PREPARE. Any session may commit the transaction or roll it back."""
        self._session(line).xa_prepare(_xid(line))

    @action("xid", xid=_XID, one_phase=flag("ONE PHASE: commit a transaction that is not prepared."))
    def xa_commit(self, line: Json) -> None:
        """XA COMMIT."""
        self._session(line).xa_commit(_xid(line), one_phase=line.get("one_phase", False))

    @action("xid", xid=_XID)
    def xa_rollback(self, line: Json) -> None:
        """XA ROLLBACK."""
        self._session(line).xa_rollback(_xid(line))

    # ---------------------------------------------------------------------------------------------------- statements

    @action("sql", **EXECUTED)
    def execute(self, line: Json) -> None:
        """Execute a statement: its text decides how it is logged. CREATE TABLE ... SELECT needs a definition before."""
        client = self._client(line)
        statement = self._executed(client, line)
        client.session.execute(statement)
        self.statements += 1
        for one in statement.statements or (statement,):
            if not one.error and one.facts is not None:
                self._follow(client, one.sql_bytes.decode(), one.facts)

    def _executed(self, client: ScriptClient, line: Json) -> Statement:
        """Return the statement of a line, or of an object in the `statements` of a CALL."""
        is_upsert = first_word(line["sql"]) in ("INSERT", "REPLACE", "LOAD")
        changes = tuple(self._change(client, one, replaces_insert=is_upsert) for one in line.get("changes", ()))
        if "statements" in line:
            called = tuple(self._executed(client, one) for one in line["statements"])
            return Statement(line["sql"], changes, statements=called)
        return replace(
            self._statement(client, line, changes),
            error=line.get("error", 0),
            context=tuple(_context(line, client.session)),
            loaded_file=self._file(line["file"]) if "file" in line else None,
            table_exists=line.get("table_exists", False),
            modifies_engine=line.get("modifies_engine"),
            updated_schemas=tuple(line["updated_schemas"]) if "updated_schemas" in line else None,
        )

    @action(
        "sql",
        sql=text("The statement."),
        schemas=list_of({"type": "string"}, "The databases that it changes. Default: those of its text."),
        error=unsigned("The error with which it ended.", most=1 << 16),
    )
    def ddl(self, line: Json) -> None:
        """Execute a statement that is logged as text in every format, such as DDL and account statements."""
        client, sql = self._client(line), line["sql"]
        facts, schemas = StatementFacts(kind=StatementKind.DDL), line.get("schemas")
        error = line.get("error", 0)
        client.session.execute(
            Statement(sql, facts=facts, error=error, updated_schemas=None if schemas is None else tuple(schemas))
        )
        self.statements += 1
        if not error:
            self._follow(client, sql, facts)

    def _statement(self, client: ScriptClient, line: Json, changes: tuple[Change, ...]) -> Statement:
        """Return the statement with the facts of its text, or of its changes if the text cannot be parsed."""
        sql, session = line["sql"], client.session
        if "facts" in line:
            return Statement(sql, changes, facts=self._facts(client, sql, line["facts"]))
        try:
            return Statement.from_sql(
                sql,
                session.schema,
                self._tables.all.values(),
                changes,
                objects=self._objects(client),
            )
        except UnsupportedFeature as exc:
            if first_word(sql) in (*NOT_STATEMENTS, "EXECUTE"):
                raise
            binlog_format, reason = session.variables.binlog_format, str(exc)
        if binlog_format == "ROW":
            if not changes:
                self._say(f"nothing is logged of a statement without changes: {reason}")
            return Statement(sql, changes)
        how = "it is logged as its text, as if it were safe" if binlog_format == "STATEMENT" else "its rows are logged"
        self._say(f"assumed that the statement changes the tables of its changes and no others; {how}: {reason}")
        tables = dict.fromkeys(change.table for change in changes)
        facts = StatementFacts(tables=tuple(table_access(table, write=True) for table in tables), is_incomplete=True)
        return Statement(sql, changes, facts=facts)

    def _facts(self, client: ScriptClient, sql: str, facts: Json) -> StatementFacts:
        """Return the explicit facts of a line; `sql` is empty for a trigger or function."""
        tables = []
        for key, write in ("writes", True), ("reads", False):
            for name in facts.get(key, ()):
                temporary = canonical_name(name) in client.temporary
                table = self._table(client, name)
                tables.append(table_access(table, write=write, read=not write, temporary=temporary))
        return StatementFacts(
            kind=StatementKind[facts.get("kind", "DML")],
            verb=first_word(sql),
            tables=tuple(tables),
            unsafe=frozenset(UnsafeReason[name] for name in facts.get("unsafe", ())),
            sub_statements=tuple(self._facts(client, "", one) for one in facts.get("statements", ())),
        )

    def _follow(self, client: ScriptClient, sql: str, facts: StatementFacts) -> None:
        """Apply a statement that creates, changes or drops tables to the table definitions."""
        kind, schema = facts.kind, client.session.schema
        if kind in (StatementKind.CREATE_TEMPORARY, StatementKind.CREATE_TEMPORARY_SELECT):
            created = facts.tables[0]
            name = dotted_name(created.schema, created.name)
            client.temporary[name] = self._tables.temporary(sql, created.schema, created.name)
        elif kind in (StatementKind.DDL, StatementKind.DROP_TEMPORARY):
            dropped = {dotted_name(table.schema, table.name) for table in facts.tables if table.temporary}
            if dropped and first_word(sql) == "DROP":
                client.temporary = {name: one for name, one in client.temporary.items() if name not in dropped}
            if kind is StatementKind.DDL and len(dropped) < len(facts.tables or (None,)):
                self._tables.follow(sql, schema)

    def _file(self, file: Json) -> LoadedFile:
        given = [name for name in ("path", "text", "bytes") if name in file]
        if len(given) != 1:
            raise _InvalidLine(f'"file" has one of path, text and bytes; found {", ".join(given) or "none of them"}')
        if "path" in file:
            data = (self._script_folder / file["path"]).read_bytes()
        else:
            data = file["text"].encode() if "text" in file else _bytes(file["bytes"])
        options = {name: file[name] for name in ("on_duplicate", "block_size") if name in file}
        if "database_collation" in file:
            options["database_collation"] = collation_id(file["database_collation"])
        return LoadedFile(data, **options)

    def _change(self, client: ScriptClient, change: Json, *, replaces_insert: bool) -> Change:
        kind = next(kind for kind in ("insert", "update", "delete") if kind in change)
        table, vendor = self._table(client, change[kind]), self._tables.vendor
        columns, is_cascade = change.get("columns"), change.get("cascade", False)
        if kind != "update":
            rows = tuple(row_from_json(row, table, vendor) for row in change["rows"])
            return Insert(table, rows, columns) if kind == "insert" else Delete(table, rows, is_cascade=is_cascade)
        before, after = change["before"], change["after"]
        if len(before) != len(after):
            raise _InvalidLine(f"an update with {len(before)} rows before and {len(after)} after")
        diffs = change.get("json_diffs", {})
        if any(len(lists) != len(after) for lists in diffs.values()):
            raise _InvalidLine(f"json_diffs need a list for each of {len(after)} rows")
        changed = [{name: _json_diffs(lists[i]) for name, lists in diffs.items()} for i in range(len(after))]
        rows_of = tuple(
            (row_from_json(old, table, vendor), {**row_from_json(new, table, vendor, is_whole=False), **changed[i]})
            for i, (old, new) in enumerate(zip(before, after, strict=True))
        )
        return Update(table, rows_of, columns, replaces_insert=replaces_insert, is_cascade=is_cascade)

    def _table(self, client: ScriptClient, name: str) -> TableDefinition:
        full_name = canonical_name(name)
        table = client.temporary.get(full_name) or self._tables.all.get(full_name)
        if table is None:
            known = [*self._tables.all, *client.temporary]
            raise _InvalidLine(f"no table {name!r} was defined; defined are {', '.join(known) or 'no tables'}")
        return table

    # ------------------------------------------------------------------------------------------ sessions and the log

    @action(
        variables=session_variables(),
        gtid_next=text("AUTOMATIC, AUTOMATIC:tag, ANONYMOUS, or a GTID: uuid:number or uuid:tag:number."),
    )
    def set(self, line: Json) -> None:
        """SET SESSION of variables, and of gtid_next. MariaDB's GTIDs are set by gtid_domain_id and gtid_seq_no."""
        gtid = _gtid_next(line["gtid_next"]) if "gtid_next" in line else None
        variables = dict(line.get("variables", {}))
        if isinstance(variables.get("sql_mode"), str):
            is_mariadb = self._writer.variables.is_mariadb
            variables["sql_mode"] = _sql_mode(variables["sql_mode"], is_mariadb=is_mariadb)
        self._session(line).set_variables(gtid_next=gtid, **variables)

    @action("tables", tables=list_of(TABLE_NAME, "The tables."))
    def lock_tables(self, line: Json) -> None:
        """LOCK TABLES ... WRITE."""
        client = self._client(line)
        client.session.lock_tables([self._table(client, name) for name in line["tables"]])

    @action()
    def unlock_tables(self, line: Json) -> None:
        """UNLOCK TABLES."""
        self._session(line).unlock_tables()

    @action()
    def disconnect(self, line: Json) -> None:
        """Disconnect: what is not committed is rolled back, temporary tables are dropped.

        The next line with the name of the session is a new client.
        """
        client = self._clients.pop(line.get("session", ""), None)
        if client is not None:
            client.session.close()

    @action()
    def kill(self, line: Json) -> None:
        """KILL of the connection, which ends as with `disconnect`; a killed statement has the error 1317."""
        self.disconnect(line)

    @action(
        after_bytes=unsigned(
            "The crash happens while the transaction of the session is written, after this number of bytes."
        )
    )
    def crash(self, line: Json) -> None:
        """Crash the server: the log has no end and stays marked as in use, and nothing open is in it.

        A line after it starts the server again, which recovers the log and begins the next one.
        """
        start = self._writer.position
        if "after_bytes" in line:
            self._session(line).commit()
            if self._writer.position.file != start.file:
                raise _InvalidLine("the transaction ends the log (max_binlog_size), and cannot be a part of it")
        self._clients.clear()
        self._writer.crash()
        self._is_crashed = True
        path = self._folder / Path(start.file).name
        with path.open("rb") as file:
            is_encrypted = file.read(len(ENCRYPTED_MAGIC)) == ENCRYPTED_MAGIC
        end = start.offset + line.get("after_bytes", 0) + ENCRYPTION_HEADER_SIZE * is_encrypted
        if "after_bytes" in line and end < path.stat().st_size:
            os.truncate(path, end)

    @action()
    def rotate(self, line: Json) -> None:
        """Begin the next log, as at its largest size; sessions and their transactions are not concerned."""
        self._writer.rotate()

    @action()
    def flush_logs(self, line: Json) -> None:
        """FLUSH BINARY LOGS: commit, and begin the next log."""
        self._session(line).flush_logs()

    @action(
        to=text("Remove the logs before this one."),
        before=text("Remove the logs that were last written before this time, in ISO 8601."),
    )
    def purge(self, line: Json) -> None:
        """PURGE BINARY LOGS."""
        before = _moment(line["before"], "before") if "before" in line else None
        self._writer.purge(to=line.get("to"), before=before)

    def _say(self, text: str) -> None:
        script, line = self._place
        self._report(f"{script}:{line}: {text}")

    def _session(self, line: Json) -> Session:
        return self._client(line).session

    def _client(self, line: Json) -> ScriptClient:
        name = line.get("session", "")
        client = self._clients.get(name)
        if client is None:
            client = self._clients[name] = ScriptClient(self._writer.session())
        if "schema" in line:
            client.session.schema = line["schema"]
        return client


_OPENS: Final = ("begin", "xa_start")
_NOT_OF_TABLES: Final = ("do", "at", "session", "refused", "warnings")
_NOT_OF_SESSIONS: Final = (
    "table", "view", "function", "udf", "trigger", "prepare", "commit_together", "rotate", "crash", "purge",
)  # fmt: skip


def _json_diffs(diffs: list[Json]) -> JsonDiffs:
    return JsonDiffs(
        JsonDiff(
            JsonDiffOperation[one["op"].upper()],
            one["path"],
            JsonDocument.from_python(one["value"]) if "value" in one else None,
        )
        for one in diffs
    )


def _bytes(value: str) -> bytes:
    """Return the bytes of a string: hexadecimal digits after "0x", or UTF-8."""
    return bytes_from_json(value) if value.startswith("0x") else value.encode()


def _xid(line: Json) -> XaXid:
    xid = line["xid"]
    if isinstance(xid, str):
        return XaXid(_bytes(xid))
    return XaXid(_bytes(xid["gtrid"]), _bytes(xid.get("bqual", "")), xid.get("format_id", 1))


def _gtid_next(value: str) -> NextGtid:
    word, _, tag = value.partition(":")
    if word.upper() == "AUTOMATIC":
        return Automatic(Tag(tag)) if tag else AUTOMATIC
    return ANONYMOUS if value.upper() == "ANONYMOUS" else Gtid.parse(value)


def _context(line: Json, session: Session) -> Iterable[ContextEvent]:
    """Yield the events before the text of a statement, in the server's order."""
    if "last_insert_id" in line:
        yield IntvarEvent(IntvarKind.LAST_INSERT_ID_EVENT, line["last_insert_id"])
    if "insert_id" in line:
        yield IntvarEvent(IntvarKind.INSERT_ID_EVENT, line["insert_id"])
    if "rand_seeds" in line:
        yield RandEvent(*line["rand_seeds"])
    collation = server_format_of(session.variables.server_version).query.collation
    for name, value in line.get("user_variables", {}).items():
        yield _user_variable(name, value, collation)


def _user_variable(name: str, value: object, collation: int) -> UserVarEvent:
    """Return the event of a user variable; strings have the given collation.

    Raises:
        _InvalidLine: the value is out of range.
    """
    if value is None:
        return UserVarEvent(name, 1, None, None, None, b"")
    binary = collation_id(BINARY)
    if isinstance(value, int):
        if not -(1 << 63) <= value < 1 << 64:
            raise _InvalidLine(f"the user variable {name} is {value}, which is not a BIGINT")
        data, is_unsigned = (value & (1 << 64) - 1).to_bytes(8, "little"), value >= 1 << 63
        return UserVarEvent(name, 0, UserVarType.INT_RESULT, binary, data, bytes((is_unsigned,)))
    if isinstance(value, float):
        return UserVarEvent(name, 0, UserVarType.REAL_RESULT, binary, struct.pack("<d", value), b"")
    if isinstance(value, str):
        return UserVarEvent(name, 0, UserVarType.STRING_RESULT, collation, value.encode(), b"")
    if isinstance(value, Mapping) and "decimal" in value:
        return UserVarEvent(name, 0, UserVarType.DECIMAL_RESULT, binary, _decimal(name, value["decimal"]), b"")
    if isinstance(value, Mapping):
        collation = collation_id(value.get("collation", BINARY))
        return UserVarEvent(name, 0, UserVarType.STRING_RESULT, collation, _bytes(value["value"]), b"")
    raise _InvalidLine(f"the user variable {name} has a value of no type")


def _decimal(name: str, digits: str) -> bytes:
    """Return a decimal as precision, scale and packed digits."""
    try:
        number = Decimal(digits)
    except InvalidOperation:
        number = Decimal("NaN")
    exponent = number.as_tuple().exponent
    if not isinstance(exponent, int):
        raise _InvalidLine(f"the user variable {name} is {digits[:_MAX_PRECISION]!r}, which is not a decimal number")
    scale = max(0, -exponent)
    precision = max(1, len(number.as_tuple().digits) + max(0, exponent), scale)
    check_precision(precision, scale)
    return bytes((precision, scale)) + encode_decimal(number, precision, scale)
