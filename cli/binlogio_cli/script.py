"""Scripts of `binlogio write`: JSON lines that say which sessions execute and commit what.

`binlogio.writer` writes the log. Values are as in `binlogio.schema.json_values`.

    variables := {"do": "variables", name: value...}                                     -- only before everything else
    table     := {"do": "table", "schema", "name", "columns": [{"name", "type"...}...], "primary_key": [name...],
                  "engine"...}
    statement := {"session": name, "do": "execute", "sql": text, "changes": [change...]}
    change    := {"insert": table, "rows": [row...]}  |  {"delete": table, "rows": [row...]}
               | {"update": table, "before": [row...], "after": [row...]}
    other     := {"session": name, "do": "begin" | "commit" | "rollback"}  |  {"do": "rotate"}
               | {"do": "ddl", "sql", "schema"?}

A column that is missing in "after" has the value of "before"; all other missing columns are NULL. How a statement is
logged depends on its text; if the text cannot be parsed, rows are logged in MIXED format, and the report says so. A
line may also have "at", the time from there on (ISO 8601), and "schema", the session's default database. Empty lines
and lines that start with # are ignored.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from datetime import datetime, timezone
from typing import Any, Final, NoReturn

from binlogio.errors import BinlogError, UnsupportedFeature
from binlogio.options import ServerVariables
from binlogio.schema import TableDefinition, value_from_json
from binlogio.writer import BinlogWriter, Delete, Insert, Session, Statement, Update
from binlogio.writer.rules.known_objects import table_access
from binlogio.writer.rules.statement import Change
from binlogio.writer.rules.statement_facts import StatementFacts
from binlogio.writer.rules.statement_text import NOT_STATEMENTS

Json = Mapping[str, Any]
_COMMON: Final = ("do", "session", "at", "schema")
_MICROSECONDS: Final = 1_000_000
_END_OF_TIME: Final = (1 << 32) * _MICROSECONDS
_MAKES_UPSERTS: Final = re.compile(r"\s*(?:INSERT|REPLACE|LOAD)\b", re.IGNORECASE)


class ScriptError(Exception):
    """A line that is refused; the message starts with script and line."""

    def __init__(self, script: str, line: int, reason: str) -> None:
        super().__init__(f"{script}:{line}: {reason}")


class _InvalidLine(Exception):
    """The reason why a line is refused, without its number."""


def read_lines(script: str, lines: Iterable[str]) -> list[tuple[int, Json]]:
    """Return the script's objects with the numbers of their lines.

    Raises:
        ScriptError: a line is not a JSON object.
    """
    found: list[tuple[int, Json]] = []
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        try:
            value = json.loads(line)
        except json.JSONDecodeError as exc:
            raise ScriptError(script, number, f"not JSON: {exc.msg} at column {exc.colno}") from exc
        except ValueError as exc:  # Python refuses to convert longer ones
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
    """Refuse halves of surrogate pairs, which are not characters and cannot be written as UTF-8."""
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
    """Return the server variables of the script's first line, replaced by `overrides`.

    The line is removed from `lines`.

    Raises:
        ScriptError: the line has an unknown variable, or a value that no server accepts.
        BinlogError: an override is such a value.
    """
    values: dict[str, Any] = {}
    number = 0
    if lines and lines[0][1].get("do") == "variables":
        number, line = lines.pop(0)
        values = {name: value for name, value in line.items() if name != "do"}
    try:
        for name, value in values.items():
            _check_variable(name, value)
        ServerVariables(**values)
    except (BinlogError, _InvalidLine) as exc:
        raise ScriptError(script, number, str(exc)) from exc
    return ServerVariables(**{**values, **overrides})


def _check_variable(name: str, value: Any) -> None:
    kinds = {field.name: str(field.type) for field in fields(ServerVariables)}
    if name not in kinds:
        raise _InvalidLine(f"unknown variable {name!r}; expected one of {', '.join(kinds)}")
    expected = {"int": (int,), "bool": (bool,), "str": (str,)}.get(kinds[name], (str, type(None)))
    if not isinstance(value, expected) or (isinstance(value, bool) and bool not in expected):
        raise _InvalidLine(f"variable {name} is {value!r}, which is not of type {kinds[name]}")


class ScriptClock:
    """The time of the script if it sets one, else that of the machine, in microseconds since 1970."""

    def __init__(self) -> None:
        self._at: int | None = None

    def __call__(self) -> int:
        """Return the time now."""
        return time.time_ns() // 1000 if self._at is None else self._at

    def start(self, script: str, lines: Iterable[tuple[int, Json]]) -> None:
        """Start at the first time of the script, so that the log's own events have it too.

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

    def set(self, text: Any) -> None:
        """Set the time, which does not advance until it is set again."""
        try:
            moment = datetime.fromisoformat(str(text).replace("Z", "+00:00"))
            aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=timezone.utc)
            at = round(aware.timestamp() * _MICROSECONDS)
        except (ValueError, OverflowError) as exc:
            raise _InvalidLine(f'"at" is {str(text)[:80]!r}, not a time such as "2026-11-20T12:00:00Z"') from exc
        if not 0 <= at < _END_OF_TIME:
            raise _InvalidLine(
                f'"at" is {str(text)[:80]!r}, not a time from 1970 to 2106, which is what an event can have'
            )
        self._at = at


class ScriptRunner:
    """Interpreter of scripts: runs their lines on a writer."""

    def __init__(self, writer: BinlogWriter, clock: ScriptClock, report: Callable[[str], None]) -> None:
        """Prepare; `report` is called with warnings and with assumptions about statements."""
        self.statements = 0
        self._report = report
        self._place = ""
        self._writer = writer
        self._clock = clock
        self._tables: dict[str, TableDefinition] = {}
        self._sessions: dict[str, Session] = {}

    def run(self, script: str, lines: Iterable[tuple[int, Json]]) -> None:
        """Run the lines; sessions and tables of earlier scripts are kept.

        Raises:
            ScriptError: a line is invalid, or the writer refuses it.
            OSError: the log cannot be written.
        """
        for number, line in lines:
            self._place = f"{script}:{number}"
            try:
                self._run(line)
            except (BinlogError, _InvalidLine) as exc:
                raise ScriptError(script, number, str(exc)) from exc

    def close(self) -> None:
        """Close the sessions; open transactions are rolled back."""
        for session in self._sessions.values():
            session.close()

    def _run(self, line: Json) -> None:
        if "at" in line:
            self._clock.set(line["at"])
        do = line.get("do")
        action = _ACTIONS.get(do) if isinstance(do, str) else None
        if action is None:
            raise _InvalidLine(f'"do" is {do!r}; it can be {", ".join(_ACTIONS)}, and variables on the first line')
        run, allowed = action
        unknown = [name for name in line if name not in (*_COMMON, *allowed)] if allowed is not None else []
        if unknown:
            raise _InvalidLine(
                f"{do} with {', '.join(map(repr, unknown))}; expected {', '.join((*_COMMON, *(allowed or ())))}"
            )
        run(self, line)

    def table(self, line: Json) -> None:
        """Define a table; a second definition replaces the first."""
        definition = TableDefinition.from_json(
            {name: value for name, value in line.items() if name not in ("do", "at", "session")}
        )
        self._tables[definition.full_name] = definition

    def begin(self, line: Json) -> None:
        """Run BEGIN."""
        self._session(line).begin()

    def commit(self, line: Json) -> None:
        """Run COMMIT."""
        self._session(line).commit()

    def rollback(self, line: Json) -> None:
        """Run ROLLBACK."""
        session = self._session(line)
        session.rollback()
        self._report_warnings(session)

    def execute(self, line: Json) -> None:
        """Run a statement with its row changes."""
        sql = _text(line, "sql")
        is_upsert = _MAKES_UPSERTS.match(sql) is not None
        changes = tuple(self._change(change, replaces_insert=is_upsert) for change in _list(line, "changes"))
        session = self._session(line)
        session.execute(self._statement(session, sql, changes))
        self._report_warnings(session)
        self.statements += 1

    def _statement(self, session: Session, sql: str, changes: tuple[Change, ...]) -> Statement:
        """Return the statement with the facts of its text, or, if that cannot be parsed, of its changes."""
        try:
            return Statement.from_sql(sql, session.schema, self._tables.values(), changes)
        except UnsupportedFeature as exc:
            words = sql.split(maxsplit=1)
            if words and words[0].upper().rstrip(";") in NOT_STATEMENTS:
                raise
            binlog_format, reason = session.variables.binlog_format, str(exc)
        if binlog_format == "ROW":
            if not changes:
                self._report(f"{self._place}: nothing is logged of a statement without changes: {reason}")
            return Statement(sql, changes)
        how = "it is logged as its text, as if it were safe" if binlog_format == "STATEMENT" else "its rows are logged"
        self._report(
            f"{self._place}: assumed that the statement changes the tables of its changes and no others; "
            f"{how}: {reason}"
        )
        tables = dict.fromkeys(change.table for change in changes)
        facts = StatementFacts(tables=tuple(table_access(table, write=True) for table in tables), is_incomplete=True)
        return Statement(sql, changes, facts=facts)

    def _report_warnings(self, session: Session) -> None:
        for warning in session.warnings:
            self._report(f"{self._place}: {warning.level} {warning.errno}: {warning.message}")

    def ddl(self, line: Json) -> None:
        """Run a statement that is logged as text."""
        session = self._session(line)
        session.ddl(_text(line, "sql"))
        self._report_warnings(session)
        self.statements += 1

    def rotate(self, line: Json) -> None:
        """Run FLUSH BINARY LOGS."""
        self._writer.rotate()

    def _session(self, line: Json) -> Session:
        name = line.get("session", "")
        if not isinstance(name, str):
            raise _InvalidLine(f'"session" is {name!r}, not text')
        session = self._sessions.get(name)
        if session is None:
            session = self._sessions[name] = self._writer.session()
        if "schema" in line:
            session.schema = _text(line, "schema")
        return session

    def _change(self, change: Any, *, replaces_insert: bool) -> Change:
        kinds = [kind for kind in ("insert", "update", "delete") if isinstance(change, dict) and kind in change]
        if len(kinds) != 1:
            raise _InvalidLine(
                f"a change has one of insert, update and delete, with a table's name; found {json.dumps(change)[:80]}"
            )
        kind = kinds[0]
        table = self._tables.get(change[kind]) if isinstance(change[kind], str) else None
        if table is None:
            raise _InvalidLine(
                f"no table {change[kind]!r} was defined; defined are {', '.join(self._tables) or 'no tables'}"
            )
        if kind != "update":
            rows = tuple(_whole_row(row, table) for row in _list(change, "rows"))
            return Insert(table, rows) if kind == "insert" else Delete(table, rows)
        before, after = _list(change, "before"), _list(change, "after")
        if len(before) != len(after):
            raise _InvalidLine(f"an update with {len(before)} rows before and {len(after)} after")
        rows_of = tuple((_whole_row(old, table), _row(new, table)) for old, new in zip(before, after, strict=True))
        return Update(table, rows_of, replaces_insert=replaces_insert)


_Action = tuple[Callable[[ScriptRunner, Json], None], tuple[str, ...] | None]
_ACTIONS: Final[dict[str, _Action]] = {
    "table": (ScriptRunner.table, None),  # the definition refuses unknown names
    "begin": (ScriptRunner.begin, ()),
    "commit": (ScriptRunner.commit, ()),
    "rollback": (ScriptRunner.rollback, ()),
    "execute": (ScriptRunner.execute, ("sql", "changes")),
    "ddl": (ScriptRunner.ddl, ("sql",)),
    "rotate": (ScriptRunner.rotate, ()),
}


def _row(row: Any, table: TableDefinition) -> dict[str, Any]:
    if not isinstance(row, dict):
        raise _InvalidLine(f"a row is an object with the names of columns; found {json.dumps(row)[:80]}")
    columns = ((table.columns[table.column_index(name)], value) for name, value in row.items())
    return {column.name: value_from_json(value, column) for column, value in columns}


def _whole_row(row: Any, table: TableDefinition) -> dict[str, Any]:
    """Return a row in which nullable columns that are missing are NULL."""
    return {**{column.name: None for column in table.columns if column.nullable}, **_row(row, table)}


def _list(line: Json, name: str) -> list[Any]:
    value = line.get(name, [])
    return value if isinstance(value, list) else _refuse_type(name, "a list", value)


def _text(line: Json, name: str) -> str:
    value = line.get(name)
    return value if isinstance(value, str) else _refuse_type(name, "text", value)


def _refuse_type(name: str, expected: str, value: Any) -> NoReturn:
    raise _InvalidLine(f'"{name}" is {json.dumps(value)[:80]}, not {expected}')
