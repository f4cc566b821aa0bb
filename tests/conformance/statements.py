"""Converts a recorded step to a call of a session: a Statement, or one of the session's other commands.

Knows texts and kinds of recorded statements. What the server's log had is not looked at.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final

from binlogio.events.statement_context import IntvarEvent, IntvarKind, RandEvent, UserVarEvent, UserVarType
from binlogio.gtid import Gtid
from binlogio.options import SESSION_VARIABLES, ServerVariables
from binlogio.values.json import JsonDocument
from binlogio.writer import Delete, Insert, Session, Statement, Update
from binlogio.writer.log.group import AUTOMATIC
from binlogio.writer.rules.known_objects import uses_of
from binlogio.writer.rules.statement import Change, LoadedFile, updated_tables_of
from binlogio.writer.rules.statement_facts import StatementFacts, StatementKind, TableAccess
from binlogio.writer.rules.statement_words import read_words
from binlogio.writer.session.connection import ClientVariables
from binlogio.writer.session.transaction import XaXid
from conformance.facts import facts_of_text
from conformance.scenarios import Json, NotDrivenError, Step
from conformance.tables import SCHEMA, Tables

if TYPE_CHECKING:
    from binlogio.schema import TableDefinition

LOGGING_ERRORS: Final = frozenset(
    (1193, 1197, 1229, 1305, *range(1661, 1668), 1679, 1685, 1694, 1705, 1785, 1786, 1837, 1844, 3745, 3748)
)
"""Errors that are the log's to find; all others are those of the engine that executed the statement."""

_NOT_EXECUTED: Final = (1064, 1146)  # ER_PARSE_ERROR, ER_NO_SUCH_TABLE

_NAMES: Final = r"(?:IF EXISTS )?([\w, ]+)"
_DDL: Final = re.compile(
    r"(?:CREATE|ALTER|DROP|RENAME|TRUNCATE|FLUSH|ANALYZE|GRANT|REVOKE)\b(?! +(?:TEMPORARY|BINARY))", re.IGNORECASE
)
_FUNCTION_CALL: Final = re.compile(r"(?:SELECT|DO) (\w+)\((\d+)\)$", re.IGNORECASE)
_LOAD: Final = re.compile(
    r"LOAD DATA ((?:LOCAL )?INFILE '[^']*') (?:(REPLACE|IGNORE) )?INTO TABLE (\w+)$", re.IGNORECASE
)
_XA: Final = re.compile(r"XA (START|END|PREPARE|COMMIT|ROLLBACK) '(\w+)'( ONE PHASE)?")
# What the server makes of these texts before it logs them is no matter of the log.
_REWRITTEN: Final = {
    "CREATE FUNCTION fw(i INT) RETURNS INT DETERMINISTIC BEGIN": (
        "CREATE DEFINER=`root`@`localhost` FUNCTION `fw`(i INT) RETURNS int\n    DETERMINISTIC\nBEGIN"
    ),
    "CREATE USER IF NOT EXISTS 'wlu'@'x'": (
        "CREATE USER IF NOT EXISTS 'wlu'@'x' IDENTIFIED WITH 'caching_sha2_password'"
    ),
    "GRANT SELECT ON w.*": "GRANT SELECT ON `w`.*",
    "CREATE TABLE p (b VARCHAR(30)) ENGINE=InnoDB": (
        "CREATE TABLE `p` (\n  `my_row_id` bigint unsigned NOT NULL AUTO_INCREMENT /*!80023 INVISIBLE */,\n"
        "  `b` varchar(30) DEFAULT NULL,\n  PRIMARY KEY (`my_row_id`)\n) ENGINE=InnoDB"
    ),
}


def run_step(session: Session, step: Step, tables: Tables) -> None:
    """Tell a session what a step does.

    Raises:
        LoggingError: the session refuses it.
    """
    command = _COMMANDS.get(step.kind)
    if command is not None:
        command(session, step, tables)
    else:
        _execute(session, step, tables)


def _execute(session: Session, step: Step, tables: Tables) -> None:
    sql = step.sql.strip()
    upper = sql.upper()
    if re.match(r"CREATE (?:TEMPORARY )?TABLE\b.*\bSELECT\b", upper, re.DOTALL):
        _create_select(session, step, tables)
    elif re.match(r"(?:CREATE|DROP) TEMPORARY TABLE", upper):
        _temporary_table(session, step, tables)
    elif _DDL.match(sql):
        _ddl(session, step, tables)
    elif upper.startswith("LOAD DATA"):
        _load_data(session, step, tables)
    elif step.error in _NOT_EXECUTED:
        return
    elif upper.startswith("CALL "):
        raise NotDrivenError(f"the statements inside of a procedure are not recorded: {sql}")
    else:
        _change_rows(session, step, tables)


def _change_rows(session: Session, step: Step, tables: Tables) -> None:
    changes = _attempts(step, tables)
    error = step.error or 0
    facts = facts_of_text(step.sql.strip(), tables)
    call = _FUNCTION_CALL.match(step.sql)
    sql = f"SELECT `{SCHEMA}`.`{call[1]}`({call[2]})" if call is not None else step.sql.strip()
    statement = Statement(
        sql,
        [_change(change, step, tables) for change in changes],
        facts=facts,
        locked=_locked(step, tables, facts),
        context=_context(step, changes, tables),
        error=0 if error in LOGGING_ERRORS else error,
        modifies_engine=_modifies_engine(step, changes, facts),
        updated_tables=updated_tables_of(facts),
        uses=uses_of(read_words(step.sql)),
    )
    session.execute(statement)
    if not step.error:
        for change in changes:
            tables.apply(change)


def _load_data(session: Session, step: Step, tables: Tables) -> None:
    """LOAD DATA of a file of which only the rows that it gave are known."""
    match = _LOAD.match(step.sql.strip())
    if match is None:
        raise NotDrivenError(f"LOAD DATA of another form: {step.sql}")
    where, duplicates, name = match.groups()
    table = tables[name].definition
    columns = ", ".join(f"`{column.name}`" for column in table.columns)
    sql = (
        f"LOAD DATA {where} {duplicates or ''}{' ' if duplicates else ''}INTO TABLE `{name}` "
        "FIELDS TERMINATED BY '\\t' "
        f"ENCLOSED BY '' ESCAPED BY '\\\\' LINES TERMINATED BY '\\n' ({columns})"
    )
    rows = [change["after"] for change in step.changes if change["after"] is not None]
    data = "".join("\t".join(map(str, row)) + "\n" for row in rows).encode()
    session.execute(
        Statement(
            sql,
            [_change(change, step, tables) for change in step.changes],
            facts=facts_of_text(step.sql.strip(), tables),
            locked=[table],
            error=0 if step.error in LOGGING_ERRORS else step.error or 0,
            loaded_file=LoadedFile(data, (duplicates or "").upper()),
        )
    )


def _locked(step: Step, tables: Tables, facts: StatementFacts) -> list[TableDefinition]:
    """Return the tables that the statement locks for writing; those of a SELECT ... FOR UPDATE were not recorded."""
    if step.tables:
        names = [table["name"] for table in step.tables if table["write"]]
    else:
        names = [table.name for table in facts.all_tables if table.write and table.name in tables]
    selected = re.search(r"\bSELECT\b.*\bFROM (\w+)\b.*\bFOR UPDATE\b", step.sql)
    more = [selected[1]] if selected is not None and (step.tables or selected[1] not in names) else []
    return [tables[name].definition for name in (*names, *more)]


def _attempts(step: Step, tables: Tables) -> list[Json]:
    """Return the row operations that the statement tried, as recorded, or by its text if none is recorded."""
    changes = list(step.changes)
    unknown = any(isinstance(value, dict) for change in changes for value in change["after"] or ())
    stored_nothing = not changes and (step.affected or step.error in LOGGING_ERRORS)
    if unknown or stored_nothing:
        changes = tables.attempts(step.sql.strip()) or []
    elif step.error and not changes and not step.are_attempts:
        changes = (tables.attempts(step.sql.strip()) or [])[:-1]  # all but the row that failed
    elif step.operation in ("replace", "odku"):
        changes = tables.upserts(step.sql, changes)
    return [tables.known(change) for change in changes]


def _change(change: Json, step: Step, tables: Tables) -> Change:
    table = tables[change["table"]].definition
    change = {**change, "before": _row(table, change["before"]), "after": _row(table, change["after"])}
    given = step.columns.get(change["table"])
    if change["op"] == "insert":
        return Insert(table, [change["after"]], given)
    if change["op"] == "delete":
        return Delete(table, [change["before"]], bool(change.get("cascade")))
    replaces = step.sql.lstrip()[:7].upper() in ("REPLACE", "INSERT ", "LOAD DA") and _is_target(
        change["table"], step.sql
    )
    return Update(table, [(change["before"], change["after"])], given, replaces, bool(change.get("cascade")))


def _row(table: TableDefinition, row: list[Any] | None) -> list[Any] | None:
    """Return a recorded row as the writer takes it: JSON was recorded as text."""
    if row is None or not any(column.type.upper() == "JSON" for column in table.columns):
        return row
    pairs = zip(row, table.columns, strict=True)
    return [
        JsonDocument.from_text(value) if value is not None and column.type.upper() == "JSON" else value
        for value, column in pairs
    ]


def _is_target(table: str, sql: str) -> bool:
    return re.search(rf"\bINTO\s+(?:TABLE\s+)?{table}\b", sql, re.IGNORECASE) is not None


def _modifies_engine(step: Step, changes: list[Json], facts: StatementFacts) -> bool | None:
    """Return whether the engine's transaction has written; INSERT IGNORE and REPLACE do so even if every row exists."""
    if changes or step.error or not re.match(r"INSERT IGNORE\b|REPLACE\b|UPDATE IGNORE\b", step.sql, re.IGNORECASE):
        return None
    if re.search(r"Rows matched: 0\b|Warnings: 0\b", step.info) and step.sql.upper().startswith("UPDATE"):
        return None
    return any(table.write and table.engine.has_xid and not table.temporary for table in facts.all_tables)


def _create_select(session: Session, step: Step, tables: Tables) -> None:
    is_temporary = "TEMPORARY" in step.sql.upper().split("TABLE")[0]
    table = tables.create(step.sql)
    sources = [name for name in re.findall(r"FROM (\w+)", step.sql) if name in tables]
    reads = [tables[name].access(read=True) for name in sources]
    name = re.findall(r"TABLE (?:IF NOT EXISTS )?(\w+)", step.sql)[0]
    made = tables[name]
    kind = StatementKind.CREATE_TEMPORARY_SELECT if is_temporary else StatementKind.CREATE_SELECT
    changes = list(step.changes)
    if not changes and "UNION ALL" in step.sql:
        changes = [
            {"table": name, "op": "insert", "before": None, "after": [1, *[None] * (len(made.definition.columns) - 1)]}
        ]
    elif is_temporary:
        changes = [{"after": row} for source in sources for row in tables[source].rows]
    session.execute(
        Statement(
            step.sql,
            [Insert(made.definition, [change["after"]]) for change in changes],
            facts=StatementFacts(kind=kind, tables=(made.access(write=True), *reads)),
            locked=[made.definition],
            error=step.error or 0,
            table_exists=table is None and not is_temporary,
        )
    )
    if step.error and table is not None:
        tables.drop(name)


def _temporary_table(session: Session, step: Step, tables: Tables) -> None:
    drops = step.sql.upper().startswith("DROP")
    kind = StatementKind.DROP_TEMPORARY if drops else StatementKind.CREATE_TEMPORARY
    if drops:
        names = re.findall(r"\w+", re.split(r"TABLE (?:IF EXISTS )?", step.sql)[1])
        accesses = tuple(tables[name].access(write=True) for name in names if name in tables and tables[name].temporary)
    else:
        made = tables.create(step.sql) or tables[re.findall(r"TABLE (\w+)", step.sql)[0]]
        accesses = (made.access(write=True),)
    error = 0 if step.error in LOGGING_ERRORS else step.error or 0
    session.execute(Statement(step.sql, facts=StatementFacts(kind=kind, tables=accesses), error=error))
    if drops and not error:
        for access in accesses:
            tables.drop(access.name)


def _ddl(session: Session, step: Step, tables: Tables) -> None:
    sql = logged = step.sql
    for start, rewritten in _REWRITTEN.items():
        if sql.startswith(start):
            logged = rewritten + sql[len(start) :]
    upper = sql.upper()
    accesses: tuple[TableAccess, ...] = ()
    named = re.match(rf"(?:DROP TABLE|TRUNCATE TABLE|TRUNCATE|ALTER TABLE(?= \w+ )) {_NAMES}", sql, re.IGNORECASE)
    if named is not None:
        names = re.findall(r"\w+", named[1])[: 1 if upper.startswith("ALTER") else None]
        accesses = tuple(_dropped(name, tables) for name in names)
    exists = re.match(r"CREATE TABLE IF NOT EXISTS (\w+)", sql, re.IGNORECASE)
    table_exists = exists is not None and exists[1] in tables
    if not step.error:
        if upper.startswith("CREATE TABLE"):
            tables.create(
                sql.replace("(b ", "(my_row_id BIGINT AUTO_INCREMENT PRIMARY KEY, b ") if logged != sql else sql
            )
        elif re.match(r"CREATE\s.*?\b(?:FUNCTION|VIEW)\b", upper, re.DOTALL):
            tables.functions += (sql,)
        elif upper.startswith("RENAME TABLE"):
            tables.rename(*re.findall(r"(\w+) TO (\w+)", sql)[0])
        elif upper.startswith("DROP TABLE"):
            for access in accesses:
                if access.name in tables:
                    tables.drop(access.name)
    facts = StatementFacts(kind=StatementKind.DDL, tables=accesses)
    session.execute(Statement(logged, facts=facts, error=step.error or 0, table_exists=table_exists))


def _dropped(name: str, tables: Tables) -> TableAccess:
    """Return the access to a table that may be missing."""
    if name in tables:
        return tables[name].access(write=True)
    return TableAccess(schema=SCHEMA, name=name, write=True, is_missing=True)


def _commit(session: Session, step: Step, tables: Tables) -> None:
    session.commit()
    if "AND CHAIN" in step.sql.upper():
        session.begin()


def _rollback(session: Session, step: Step, tables: Tables) -> None:
    session.rollback()
    if "AND CHAIN" in step.sql.upper():
        session.begin()


def _set(session: Session, step: Step, tables: Tables) -> None:
    """SET of the variables that the log knows; user variables and the like show in what later statements depend on."""
    for name, text in _ASSIGNMENT.findall(step.sql):
        value: Any = text.strip("'\"")
        if name == "gtid_next":
            session.set_variables(gtid_next=AUTOMATIC if value == "AUTOMATIC" else Gtid.parse(value))
        elif name in _CLIENT_NAMES or name in SESSION_VARIABLES:
            session.set_variables(**{name: variable_value(name, value)})


def variable_value(name: str, value: Any) -> Any:
    """Return a variable's value, of the type that it has here."""
    kind = _TYPES.get(name, str)
    if kind == "bool":
        return str(value).upper() in ("1", "ON", "TRUE")
    return int(value) if kind == "int" else str(value).strip("'")


def _xa(session: Session, step: Step, tables: Tables) -> None:
    match = _XA.match(step.sql)
    if match is None:
        raise NotDrivenError(f"XA of another form: {step.sql}")
    xid = XaXid(match[2].encode())
    if match[1] == "COMMIT":
        session.xa_commit(xid, one_phase=bool(match[3]))
    else:
        getattr(session, f"xa_{match[1].lower()}")(xid)


def _lock(session: Session, step: Step, tables: Tables) -> None:
    names = re.findall(r"(\w+) WRITE", step.sql)
    session.lock_tables([tables[name].definition for name in names])


def _context(step: Step, changes: list[Json], tables: Tables) -> list[Any]:
    """Return what the text depends on.

    Where the recording has not found the statement in the log, its INSERT_ID follows from its rows.
    """
    if step.context:
        return [_context_event(event) for event in step.context]
    if not step.sql.endswith(" ") or not changes:
        return []
    table = tables[changes[0]["table"]].definition
    for position, column in enumerate(table.columns):
        if column.auto_increment and column.name not in step.columns.get(table.name, ()):
            return [IntvarEvent(kind=IntvarKind.INSERT_ID_EVENT, value=changes[0]["after"][position])]
    return []


def _context_event(event: Json) -> Any:
    if event["type"] == "Intvar":
        kind = IntvarKind.INSERT_ID_EVENT if event["sub"] == "INSERT_ID" else IntvarKind.LAST_INSERT_ID_EVENT
        return IntvarEvent(kind=kind, value=event["value"])
    if event["type"] == "Rand":
        return RandEvent(seed1=1, seed2=2)
    return _user_var(event)


def _user_var(event: Json) -> UserVarEvent:
    value = event["value"]
    if value is None:
        return UserVarEvent(event["name"], 1, None, None, None, b"")
    kind = event["vtype"]
    if kind == "INT":
        data, tail, number = value.to_bytes(8, "little", signed=True), b"\0", UserVarType.INT_RESULT
    elif kind == "REAL":
        data, tail, number = struct.pack("<d", value), b"", UserVarType.REAL_RESULT
    elif kind == "DECIMAL":
        data, tail, number = bytes.fromhex(value), b"", UserVarType.DECIMAL_RESULT
    else:
        data, tail, number = value.encode(), b"", UserVarType.STRING_RESULT
    return UserVarEvent(event["name"], 0, number, event.get("charset", 255), data, tail)


def _savepoint_name(step: Step) -> str:
    name = step.savepoint
    return name[1:-1].replace("``", "`") if name.startswith("`") else name


_CLIENT_NAMES: Final = frozenset(one.name for one in fields(ClientVariables))
_TYPES: Final = {one.name: one.type for one in (*fields(ServerVariables), *fields(ClientVariables))}
_ASSIGNMENT: Final = re.compile(
    r"(?:SET|,)\s*(?:SESSION\s+|@@session\.|@@)?(\w+)\s*:?=\s*('[^']*'|[\w.:-]+)", re.IGNORECASE
)
Command = Callable[[Session, Step, Tables], None]
_COMMANDS: Final[dict[str, Command]] = {
    "B": lambda session, step, tables: session.begin(),
    "C": _commit,
    "R": _rollback,
    "SAVEPOINT": lambda session, step, tables: session.savepoint(_savepoint_name(step)),
    "ROLLBACK_TO": lambda session, step, tables: session.rollback_to(_savepoint_name(step)),
    "RELEASE": lambda session, step, tables: session.release(_savepoint_name(step)),
    "DISCONNECT": lambda session, step, tables: session.close(),
    "FLUSH": lambda session, step, tables: session.flush_logs(),
    "SET": _set,
    "XA": _xa,
    "LOCK": _lock,
    "UNLOCK": lambda session, step, tables: session.unlock_tables(),
    "BINLOG": lambda session, step, tables: None,
}
