"""What a session logs of a statement, against `fixtures/statement_logs.json`, in which a 9.7 server did the same.

Compared are the events, the databases that QUERY_EVENTs name for the replica's scheduler, and the rows. The rows that a
statement changed are those that the server logged for it in ROW format. What the server does to the text of DDL before
it logs it, but for DROP TABLE, is not compared.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any, Final

import pytest

from binlogio.constants import HeaderFlag, QueryStatus, RowsFlag
from binlogio.errors import LoggingError, UnsupportedFeature
from binlogio.events import RowsEvent
from binlogio.events.query import QueryEvent
from binlogio.events.table_map import TableMapEvent
from binlogio.reader import open as open_logs
from binlogio.schema import ColumnDefinition, TableDefinition
from binlogio.schema.ddl.parser import parse_create_table
from binlogio.writer import Delete, Insert, Session, Statement, Update
from binlogio.writer.rules.known_objects import KnownObjects, Trigger
from binlogio.writer.rules.statement import Change
from binlogio.writer.rules.statement_facts import StatementFacts
from binlogio.writer.rules.statement_text import facts_from_sql
from corpus import FIXTURES
from memory_storage import MemoryStorage
from session_logs import writer

RECORDED: Final = json.loads((FIXTURES / "statement_logs.json").read_text("utf-8"))
CASES: Final = RECORDED["cases"]
FORMATS: Final = ("STATEMENT", "ROW", "MIXED")
_DDL: Final = re.compile(r"(?:CREATE|ALTER|DROP|RENAME|TRUNCATE|OPTIMIZE|ANALYZE|REPAIR)\b")
_WITH_TABLES: Final = re.compile(r"(?:DROP (?:TEMPORARY )?TABLES?|CREATE TEMPORARY TABLE|CREATE TABLE .*\bSELECT) ")


def tables() -> dict[str, TableDefinition]:
    """Return the tables of the recording."""
    names = [f"s{number:02d}" for number in range(1, 18)]
    texts = [*RECORDED["tables"], *(f"CREATE TABLE {name}.t (id INT PRIMARY KEY, v VARCHAR(20))" for name in names)]
    return {table.full_name: table for table in map(parse_create_table, texts)}


TABLES: Final = tables()


def _body(sql: str) -> StatementFacts:
    """Return what a trigger or function does."""
    if sql.startswith("SET"):
        sql = f"SELECT {sql.partition('=')[2]}"
    return facts_from_sql(sql.replace("NEW.id", "1").replace("OLD.id", "1"), "a", TABLES.values())


OBJECTS: Final = KnownObjects(
    # d.f1 is the one that reads no table.
    routines={"d.f1": StatementFacts()} | {name: _body(sql) for name, sql in RECORDED["functions"].items()},
    triggers=[
        Trigger(table=f"a.{name}", event=event, body=_body(sql))
        for event, recorded in (("INSERT", "triggers"), ("DELETE", "delete_triggers"))
        for name, sql in RECORDED[recorded].items()
    ],
    views=RECORDED["views"],
)
TEMPORARY: Final = TableDefinition("a", "tt", (ColumnDefinition("id", "int"),))
UNCHANGED: Final[dict[str, list[Change]]] = {
    "REPLACE INTO t VALUES (1,'one')": [Update(TABLES["a.t"], [((1, "one"), (1, "one"))], replaces_insert=True)],
    "UPDATE h SET v=v": [Update(TABLES["a.h"], [((1, "one"), (1, "one"))])],
}


def _changes(sql: str, events: list[dict[str, Any]]) -> list[Change]:
    """Return the row changes that a server logged for a statement."""
    found: list[Change] = []
    for event in events:
        if "rows" not in event:
            continue
        table = TABLES.get(event["table"]) or _made(sql)
        is_cascade = bool(event["flags"] & RowsFlag.NO_FOREIGN_KEY_CHECKS) and "foreign_key_checks" not in sql
        olds, news = zip(*event["rows"], strict=True)
        if event["type"] == "WriteRows":
            found.append(Insert(table, news))
        elif event["type"] == "DeleteRows":
            found.append(Delete(table, olds, is_cascade=is_cascade))
        else:
            upserts = sql.startswith(("INSERT", "REPLACE"))
            found.append(Update(table, event["rows"], is_cascade=is_cascade, replaces_insert=upserts))
    return found


def _made(sql: str) -> TableDefinition:
    """Return the table that a CREATE TABLE ... SELECT makes."""
    schema = "b" if " b.made" in sql else "a"
    source = TABLES["a.k" if "FROM k" in sql else "a.t"]
    columns = source.columns[:1] if "(id INT PRIMARY KEY)" in sql else source.columns
    key = source.primary_key if "PRIMARY KEY" in sql else ()
    return TableDefinition(schema, "made", columns, key)


def _run(session: Session, sql: str, changes: list[Change], case: dict[str, Any]) -> None:
    """Tell the session one statement, of which the server had logged `case`."""
    if sql == "BEGIN":
        session.begin()
    elif sql == "COMMIT":
        session.commit()
    elif sql == "ROLLBACK":
        session.rollback()
    elif sql.startswith("SET foreign_key_checks"):
        session.set_variables(foreign_key_checks=sql.endswith("1"))
    elif _DDL.match(sql) and not _WITH_TABLES.match(sql):
        session.ddl(case["formats"]["STATEMENT"]["events"][0]["sql"])  # as the server has rewritten it
    else:
        has_temporary = "tt" in case["sql"]
        objects = replace(OBJECTS, temporary_tables=[TEMPORARY] if has_temporary else [])
        known = [*TABLES.values(), *([_made(sql)] if "SELECT" in sql and "made" in sql else [])]
        session.execute(Statement.from_sql(sql, "a", known, changes, objects=objects))


def _logged(storage: MemoryStorage) -> list[dict[str, Any]]:
    """Return the events of the log, in the form of the recording."""
    found: list[dict[str, Any]] = []
    with open_logs(storage.streams()) as reader:
        for event in reader:
            kind = type(event).__name__.removesuffix("Event")
            one: dict[str, Any] = {"type": kind}
            if isinstance(event, QueryEvent):
                names = [
                    variable.value for variable in event.status_vars if variable.code == QueryStatus.UPDATED_DB_NAMES
                ]
                one["sql"], one["flags"] = event.sql.decode(), event.header.flags
                one["schemas"] = None if not names else "any" if names[0] is None else list(names[0])
            elif isinstance(event, TableMapEvent):
                one["table"] = f"{event.schema}.{event.table}"
            elif isinstance(event, RowsEvent):
                one["rows"] = [
                    [image and list(image.values) for image in (row.before, row.after)] for row in reader.rows(event)
                ]
                one["flags"] = int(event.flags)
                table_map = reader.table_map(event)
                one["table"] = f"{table_map.schema}.{table_map.table}"
            elif kind != "Xid":
                continue
            found.append(one)
    return found


def _compared(events: list[dict[str, Any]], *, keeps_flags: bool) -> list[dict[str, Any]]:
    """Without the blanks in the texts that the server makes.

    A DELETE of several tables has the flag of a temporary table where its optimizer has made one for itself; that is
    not compared.
    """
    found = []
    for event in events:
        one = dict(event)
        if "sql" in one:
            one["sql"] = " ".join(one["sql"].split())
            one["flags"] &= 0xFFFF if keeps_flags else ~HeaderFlag.THREAD_SPECIFIC
        found.append(one)
    return found


@pytest.mark.parametrize("binlog_format", FORMATS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["sql"][:60])
def test_a_statement_is_logged_as_the_server_does_it(case: dict[str, Any], binlog_format: str) -> None:
    """Every event, with its databases and flags, and the refusals and warnings that are the log's."""
    expected = case["formats"][binlog_format]
    statements = case["sql"].split("; ")
    changes = UNCHANGED.get(case["sql"]) or _changes(case["sql"], case["formats"]["ROW"]["events"])
    of_each = _shared_out(statements, changes)
    storage = MemoryStorage()
    refused = False

    with (
        writer(storage, binlog_format=binlog_format, binlog_row_metadata="MINIMAL") as log,
        log.session("a") as session,
    ):
        for sql in statements:
            try:
                _run(session, sql, of_each.get(sql, []), case)
            except (LoggingError, UnsupportedFeature):
                refused = True
        events = _logged(storage)

    assert refused == bool(expected["error"])
    keeps_flags = not case["sql"].startswith("DELETE")
    assert _compared(events, keeps_flags=keeps_flags) == _compared(expected["events"], keeps_flags=keeps_flags)


def _shared_out(statements: list[str], changes: list[Change]) -> dict[str, list[Change]]:
    """Return the changes of each statement; of several those of the table that it names."""
    if len([sql for sql in statements if sql.split()[0] in ("INSERT", "REPLACE", "UPDATE", "DELETE", "CREATE")]) == 1:
        return {sql: changes for sql in statements if not sql.startswith("SET")}
    return {sql: [one for one in changes if f" {one.table.name} " in sql] for sql in statements}
