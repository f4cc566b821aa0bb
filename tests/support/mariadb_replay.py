"""Executes the statements of a real MariaDB server in writer sessions, with the row changes from the server's log.

The scripts of `fixtures/mariadb1011` give the statements and their order, as far as a session supports them. The log
gives the rows, which only a server can compute.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Final

import binlogio.reader
from binlogio.constants import QueryStatus
from binlogio.events.control import RotateEvent, StopEvent, XidEvent
from binlogio.events.mariadb import AnnotateRowsEvent, MariadbGtidEvent, MariadbGtidFlag, MariadbGtidListEvent
from binlogio.events.query import QueryEvent
from binlogio.events.rows import DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent
from binlogio.events.table_map import TableMapEvent
from binlogio.options import VARIABLE_NAMES, ServerVariables
from binlogio.schema.ddl.catalogue import Catalogue
from binlogio.schema.ddl.logged_ddl import follow_event
from binlogio.values.absent import ABSENT
from binlogio.writer import Delete, Insert, Statement, StatementFacts, StatementKind, Update, XaXid
from binlogio.writer.rules.known_objects import KnownObjects, table_access
from binlogio.writer.rules.statement_facts import TableAccess

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from binlogio.schema import TableDefinition
    from binlogio.writer import BinlogWriter, Session
    from binlogio.writer.rules.statement import Change
    from corpus import Case

VERSION: Final = "10.11.18-MariaDB-0+deb12u1-log"
_STRINGS: Final = re.compile(r"'(?:[^'\\]|\\.|'')*'|`[^`]*`|\"[^\"]*\"|--[^\n]*\n|/\*.*?\*/|;", re.DOTALL)
_ASSIGNMENT: Final = re.compile(r"(?:SESSION\s+)?(\w+)\s*=\s*('[^']*'|[^,;]+)")
_XA: Final = re.compile(
    r"XA (START|END|PREPARE|COMMIT|ROLLBACK) (x?)'([^']*)'(?:,\s*(x?)'([^']*)')?(?:,\s*(\d+))?( ONE PHASE)?"
)
_TEMPORARY: Final = re.compile(r"(CREATE|DROP) TEMPORARY TABLE (\w+)")
_FORGOTTEN: Final = frozenset(("time_zone", "timestamp", "rand_seed1", "rand_seed2"))  # not needed: rows are recorded
_VALUES: Final[dict[str, Any]] = {"": 0, "ON": True, "OFF": False}


@dataclass(slots=True)
class Recorded:
    """A statement with row changes: the changes in event order, and the locked tables."""

    changes: list[Change]
    locked: list[TableDefinition] = field(default_factory=list)


class Recording:
    """Logs of a server: their events, and the row changes by statement text.

    `tables` has all tables that ever existed.
    """

    def __init__(self, logs: Sequence[Path]) -> None:
        self.events: list[Any] = []
        self.version = VERSION
        self.rows: dict[str, deque[Recorded]] = defaultdict(deque)
        self._catalogue = Catalogue()
        self._maps: dict[int, TableDefinition] = {}
        self.tables: dict[tuple[str, str], TableDefinition] = {}
        found = Recorded([])
        text = ""
        with binlogio.reader.open(logs) as reader:
            for event in reader:
                self.events.append(event)
                self.version = reader.context.server_version
                if isinstance(event, QueryEvent):
                    follow_event(self._catalogue, event, reader.context)
                    self.tables |= {name: known.table.definition() for name, known in self._catalogue.tables()}
                elif isinstance(event, AnnotateRowsEvent):
                    text, found = event.sql.decode(), Recorded([])
                    self.rows[text].append(found)
                elif isinstance(event, MariadbGtidEvent):
                    text, found = "", Recorded([])
                elif isinstance(event, TableMapEvent):
                    self._maps[event.table_id] = self._definition(event)
                    found.locked.append(self._maps[event.table_id])
                elif isinstance(event, WriteRowsEvent | UpdateRowsEvent | DeleteRowsEvent):
                    if not found.changes and not text:
                        self.rows[""].append(found)
                    found.changes.append(self._change(reader, event))
                    if event.ends_statement and not text:
                        found = Recorded([])

    @classmethod
    def of(cls, folder: Path) -> Recording:
        """Return the recording of a case."""
        return cls([folder / name for name in (folder / "files.txt").read_text().split()])

    def _definition(self, event: TableMapEvent) -> TableDefinition:
        known = self._catalogue.find(event.schema, event.table)
        assert known is not None, event.table
        definition = known.table.definition()
        if (
            definition.columns[0].name == "next_not_cached_value"
        ):  # a sequence is not transactional, whatever its engine
            definition = replace(definition, engine="MyISAM")
        return definition if event.table != "autoinc" else _filled(definition)

    def _change(self, reader: Any, event: Any) -> Change:
        table = self._maps[event.table_id]
        names = [column.name for column in table.columns]

        def named(image: Any) -> dict[str, Any]:
            return {name: value for name, value in zip(names, image.values, strict=True) if value is not ABSENT}

        rows = list(reader.rows(event))
        if isinstance(event, UpdateRowsEvent):
            return Update(table, [(named(row.before), named(row.after)) for row in rows])
        if isinstance(event, WriteRowsEvent):
            return Insert(table, [named(row.after) for row in rows])
        return Delete(table, [named(row.before) for row in rows])

    @property
    def left(self) -> list[str]:
        """The texts of statements that are not yet executed, in log order."""
        return [text for text, found in self.rows.items() if found]


def _seen(event: Any, tables: dict[int, str]) -> dict[str, Any]:
    """Return the fields of an event without run-specific values: times and ids of threads, tables and transactions."""
    if isinstance(event, TableMapEvent):
        tables[event.table_id] = f"{event.schema}.{event.table}"
    found = {field.name: getattr(event, field.name) for field in fields(event) if field.name != "header"}
    for name in ("created", "thread_id", "exec_time"):
        found.pop(name, None)
    if isinstance(event, XidEvent):
        found.pop("xid")
    if "table_id" in found:
        found["table_id"] = tables[found["table_id"]]
    if isinstance(event, QueryEvent):
        found["status_vars"] = tuple(
            replace(var, value=0) if var.code == QueryStatus.MARIADB_XID else var for var in event.status_vars
        )
        if event.sql.startswith(b"CREATE TABLE `"):  # the server generates this text for CREATE TABLE ... SELECT
            found["sql"] = re.findall(rb"`(\w+)`", event.sql)
    if isinstance(event, MariadbGtidEvent) and event.commit_id is not None:  # group commit depends on timing
        found |= {"commit_id": None, "flags": event.flags & ~MariadbGtidFlag.GROUP_COMMIT_ID}
    if isinstance(event, MariadbGtidListEvent):
        found["gtids"] = frozenset(event.gtids)
    return {"type": type(event).__name__, "code": event.header.type_code, "server": event.header.server_id,
            "flags": event.header.flags, **found}  # fmt: skip


def comparable(events: list[Any]) -> list[dict[str, Any]]:
    """Return events in a form that is comparable between runs."""
    tables: dict[int, str] = {}
    return [_seen(event, tables) for event in events if not isinstance(event, RotateEvent | StopEvent)]


def statements(script: str) -> Iterator[str]:
    """Yield the statements of a script, without comments between them."""
    start = 0
    for match in _STRINGS.finditer(script):
        if match[0].startswith("--"):
            start = match.end() if not script[start : match.start()].strip() else start
        elif match[0] == ";":
            yield script[start : match.start()].strip()
            start = match.end()


def variables_of(case: Case, version: str = VERSION) -> ServerVariables:
    """Return the server variables of a recorded case."""
    given = case.load("expected.json")["globals"]
    known = {name: value for name, value in given.items() if name in VARIABLE_NAMES}
    switches = ("binlog_annotate_row_events", "log_bin_compress", "mysql56_temporal_format")
    known |= {name: bool(value) for name, value in known.items() if name in switches}
    return ServerVariables(server_version=version, **{"binlog_row_metadata": "NO_LOG", **known})


class Replay:
    """Executes a script in the sessions of a writer."""

    def __init__(self, log: BinlogWriter, rows: Recording, *, given_columns: bool = False) -> None:
        self._log = log
        self._session: Session = log.session()
        self._rows = rows.rows
        self._tables = rows.tables
        self._given_columns = given_columns
        self._temporary: set[str] = set()

    def run(self, script: str) -> None:
        """Execute every statement, except DML without row changes in the log."""
        for sql in statements(script):
            self._execute(sql)

    def _execute(self, sql: str) -> None:
        word, _, rest = sql.partition(" ")
        command = getattr(self, f"_{word.lower()}", None)
        if command is not None:
            command(sql, rest.strip())
        elif self._rows[sql] or ("NEXTVAL" in sql and self._rows[""]):
            self._dml(sql)
        elif self._session.variables.binlog_format != "ROW":
            self._text(sql)

    def _begin(self, _sql: str, _rest: str) -> None:
        self._session.begin()

    def _commit(self, _sql: str, _rest: str) -> None:
        self._session.commit()

    def _savepoint(self, _sql: str, name: str) -> None:
        self._session.savepoint(name)

    def _rollback(self, _sql: str, rest: str) -> None:
        if rest:
            self._session.rollback_to(rest.removeprefix("TO "))
        else:
            self._session.rollback()

    def _use(self, _sql: str, schema: str) -> None:
        self._session.schema = schema

    def _flush(self, _sql: str, _rest: str) -> None:
        self._session.flush_logs()

    def _create(self, sql: str, _rest: str) -> None:
        if re.match(r"CREATE TABLE .* AS SELECT", sql) is None:
            self._ddl(sql)
            return
        found = self._rows[sql].popleft() if self._rows[sql] else Recorded([])
        created = TableAccess(schema=self._session.schema, name=sql.split()[2], write=True)
        if found.locked:
            created = table_access(found.locked[0], write=True)
        facts = StatementFacts(kind=StatementKind.CREATE_SELECT, tables=(created,))
        self._session.execute(Statement(sql, found.changes, facts=facts, locked=found.locked))

    def _drop(self, sql: str, rest: str) -> None:
        if rest.startswith("TABLE"):
            self._session.execute(self._from_sql(sql))
        else:
            self._ddl(sql)

    def _truncate(self, sql: str, _rest: str) -> None:
        self._ddl(sql)

    def _alter(self, sql: str, _rest: str) -> None:
        self._ddl(sql)

    def _ddl(self, sql: str) -> None:
        temporary = _TEMPORARY.match(sql)
        if temporary is None:
            self._session.ddl(sql)
            return
        (self._temporary.add if temporary[1] == "CREATE" else self._temporary.discard)(temporary[2])
        table = TableAccess(schema=self._session.schema, name=temporary[2], write=True, temporary=True)
        kind = StatementKind.CREATE_TEMPORARY if temporary[1] == "CREATE" else StatementKind.DROP_TEMPORARY
        self._session.execute(Statement(sql, facts=StatementFacts(kind=kind, tables=(table,))))

    def _text(self, sql: str) -> None:
        """Execute DML that is logged as text; the row values do not matter."""
        statement = self._from_sql(sql)
        changes = [Insert(table, [()]) for table in statement.locked]  # not logged
        self._session.execute(replace(statement, changes=changes))

    def _from_sql(self, sql: str) -> Statement:
        schema = self._session.schema
        temporary = [replace(next(iter(self._tables.values())), schema=schema, name=name) for name in self._temporary]
        objects = KnownObjects(temporary_tables=temporary)
        return Statement.from_sql(sql, schema, self._tables.values(), objects=objects)

    def _dml(self, sql: str) -> None:
        text, found = (sql, self._rows[sql].popleft()) if self._rows[sql] else ("", self._rows[""].popleft())
        changes = [self._with_columns(sql, change) for change in found.changes]
        accesses = [table_access(table, write=True) for table in dict.fromkeys(found.locked)]
        for name in self._temporary & set(re.findall(r"\w+", sql)):
            hidden = replace(found.locked[0], name=name)
            accesses.append(table_access(hidden, read=True, temporary=True))
        facts = StatementFacts(tables=tuple(accesses), verb=sql.partition(" ")[0].upper())
        if self._session.variables.binlog_format != "ROW":
            facts = self._from_sql(sql).facts or facts
        self._session.execute(Statement(text, changes, facts=facts, locked=found.locked))

    def _with_columns(self, sql: str, change: Change) -> Change:
        """Return the change with the columns that the statement names."""
        if not self._given_columns or isinstance(change, Delete):
            return change
        if isinstance(change, Update):
            replaces = sql.startswith(("INSERT", "REPLACE"))
            names = re.findall(r"(\w+)=", sql.partition(" UPDATE " if replaces else " SET ")[2].partition(" WHERE ")[0])
            return replace(
                change, columns=[*(_listed(sql, change) if replaces else ()), *names], replaces_insert=replaces
            )
        return replace(change, columns=_listed(sql, change))

    def _set(self, _sql: str, text: str) -> None:
        values: dict[str, Any] = {}
        for name, value in _ASSIGNMENT.findall(text):
            if name not in _FORGOTTEN:
                plain = value.strip("' ")
                values[name] = int(plain) if plain.isdecimal() else _VALUES.get(plain, plain)
        self._session.set_variables(**values)

    def _xa(self, sql: str, _rest: str) -> None:
        found = _XA.match(sql)
        assert found is not None, sql
        xid = XaXid(_bytes(found[2], found[3]), _bytes(found[4], found[5]), int(found[6] or 1))
        if found[1] == "COMMIT":
            self._session.xa_commit(xid, one_phase=found[7] is not None)
        else:
            getattr(self._session, f"xa_{found[1].lower()}")(xid)


def _filled(table: TableDefinition) -> TableDefinition:
    """Return the table `autoinc`, the only one with columns that the server fills, with its column attributes.

    `g` is a stored generated column; `gv` is virtual and never in a minimal image.
    """
    more: dict[str, dict[str, Any]] = {"id": {"auto_increment": True}, "g": {"generated_from": ("a",)}}
    return replace(table, columns=tuple(replace(column, **more.get(column.name, {})) for column in table.columns))


def _listed(sql: str, change: Change) -> list[str]:
    """Return the columns to which INSERT or REPLACE assigns a value."""
    listed = re.match(r"(?:INSERT|REPLACE) INTO \w+ \(([\w, ]+)\)", sql)
    if listed is not None:
        return re.findall(r"\w+", listed[1])
    return [] if sql.endswith("VALUES ()") else [column.name for column in change.table.columns]


def _bytes(prefix: str | None, text: str | None) -> bytes:
    return bytes.fromhex(text or "") if prefix else (text or "").encode()
