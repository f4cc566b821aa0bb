"""Helpers of the session tests: an InnoDB and a MyISAM table, one-row statements with text, and logs as words.

`written_logs.py` has logs for tests that check only rows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import written_logs
from binlogio.events.query import QueryEvent
from binlogio.reader import open as open_logs
from binlogio.schema import ColumnDefinition, TableDefinition
from binlogio.writer import BinlogWriter, Insert, Statement
from binlogio.writer.rules.known_objects import table_access
from binlogio.writer.rules.statement_facts import StatementFacts, StatementKind
from memory_storage import MemoryStorage

T: Final = TableDefinition(
    "shop", "t", (ColumnDefinition("id", "int", nullable=False), ColumnDefinition("v", "varchar(10000)")), ("id",)
)
N: Final = replace(T, name="n", engine="MyISAM")
TEMPORARY: Final = replace(T, name="tmp")


def writer(storage: MemoryStorage, **variables: Any) -> BinlogWriter:
    """Return a writer of anonymous transactions, by default in STATEMENT format."""
    return written_logs.writer(storage, **{"gtid_mode": "OFF", "binlog_format": "STATEMENT", **variables})


def insert(table: TableDefinition, number: int, text: str = "x", **more: Any) -> Statement:
    """Return an INSERT of one row."""
    sql = f"INSERT INTO {table.name} VALUES ({number},'{text}')"
    return Statement(sql, [Insert(table, [(number, text)])], **more)


def temporary(kind: StatementKind, sql: str) -> Statement:
    """Return CREATE TEMPORARY TABLE or DROP TEMPORARY TABLE."""
    access = replace(table_access(TEMPORARY, write=True), temporary=True)
    return Statement(sql, facts=StatementFacts(kind=kind, tables=(access,)))


CREATE_TEMPORARY: Final = temporary(StatementKind.CREATE_TEMPORARY, "CREATE TEMPORARY TABLE tmp (id INT)")
DROP_TEMPORARY: Final = temporary(StatementKind.DROP_TEMPORARY, "DROP TEMPORARY TABLE tmp")


def events_of(storage: MemoryStorage) -> list[Any]:
    """Return the events of the logs without the two events at the start of a file, GTIDs and STOP_EVENT."""
    with open_logs(storage.streams()) as reader:
        left_out = ("FormatDescriptionEvent", "PreviousGtidsEvent", "AnonymousGtidEvent", "GtidEvent", "StopEvent")
        return [event for event in reader if type(event).__name__ not in left_out]


def texts(storage: MemoryStorage) -> list[str]:
    """Return the texts of the statements in the logs, and the types of the other events."""
    return [
        event.sql.decode() if isinstance(event, QueryEvent) else type(event).__name__.removesuffix("Event")
        for event in events_of(storage)
    ]
