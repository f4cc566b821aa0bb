"""Logs that a writer writes to memory: tables, short words for session steps, and the contents of the logs."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import Any, Final

from binlogio.events.format_description import FormatDescriptionEvent
from binlogio.events.gtid import AnonymousGtidEvent, GtidEvent, PreviousGtidsEvent
from binlogio.events.query import QueryEvent
from binlogio.events.rows import DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent
from binlogio.events.table_map import TableMapEvent
from binlogio.options import ServerVariables
from binlogio.reader import BinlogReader
from binlogio.reader import open as open_logs
from binlogio.schema import ColumnDefinition, TableDefinition
from binlogio.writer import BinlogWriter, Insert, Session, Statement, Update
from memory_storage import MemoryStorage

UUID: Final = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
START: Final = 1_700_000_000_000_000
ROWS: Final = (WriteRowsEvent, UpdateRowsEvent, DeleteRowsEvent)

T: Final = TableDefinition(
    "shop", "t", (ColumnDefinition("id", "int", nullable=False), ColumnDefinition("v", "varchar(50)")), ("id",)
)
T2: Final = replace(T, name="t2")
N: Final = replace(T, name="n", engine="MyISAM")
ITEMS: Final = TableDefinition(
    "shop",
    "items",
    (
        ColumnDefinition("tenant", "smallint unsigned", nullable=False),
        ColumnDefinition("code", "varchar(20)", nullable=False),
        ColumnDefinition("amount", "int"),
    ),
    ("tenant", "code"),
)
BLOBS: Final = TableDefinition("shop", "b", (ColumnDefinition("data", "blob"),))
TRX: Final = ["BEGIN", "map t", "WriteRows", "Xid"]
STMT: Final = ["BEGIN", "map n", "WriteRows", "COMMIT"]


def writer(storage: MemoryStorage | None = None, **variables: Any) -> BinlogWriter:
    """Return a writer whose clock advances by one millisecond at each call."""
    ticks = count(START, 1000)
    settings = ServerVariables(**{"server_version": "9.7.4", "server_uuid": UUID, **variables})
    return BinlogWriter(
        "binlog", variables=settings, clock=lambda: next(ticks), storage=MemoryStorage() if storage is None else storage
    )


def insert(*ids: int, table: TableDefinition = T, sql: str = "INSERT") -> Statement:
    """Return a statement that inserts rows."""
    return Statement(sql, [Insert(table, [{"id": number, "v": f"row {number}"} for number in ids])])


def events_of(storage: MemoryStorage) -> list[Any]:
    """Return all events of the logs."""
    with open_logs(storage.streams()) as reader:
        return list(reader)


def shape(events: list[Any]) -> list[str]:
    """Return the events as words, without the two events at the start of a file and without GTIDs."""
    words = []
    for event in events:
        if isinstance(event, (FormatDescriptionEvent, PreviousGtidsEvent, GtidEvent, AnonymousGtidEvent)):
            continue
        if isinstance(event, QueryEvent):
            words.append(event.sql.decode())
        elif isinstance(event, TableMapEvent):
            words.append(f"map {event.table}")
        else:
            words.append(type(event).__name__.removesuffix("Event"))
    return words


def changes(reader: BinlogReader) -> list[tuple[str, Any, Any]]:
    """Return the table, the before image and the after image of each row change."""
    found = []
    for event in reader:
        if isinstance(event, ROWS):
            found += [
                (
                    reader.table_map(event).table,
                    row.before and row.before.values,
                    row.after and row.after.values,
                )
                for row in reader.rows(event)
            ]
    return found


def logged(storage: MemoryStorage) -> list[tuple[str, Any, Any]]:
    """Return the row changes in the logs."""
    with open_logs(storage.streams()) as reader:
        return changes(reader)


def run(session: Session, steps: str) -> None:
    """Execute steps in a session.

    B, C, R: begin, commit, rollback. T, N: insert a row in the transactional or non-transactional table. M: one
    statement for both. D: DDL. E: insert in a BLACKHOLE table. U: an update without effect and an insert in N.
    """
    both = Statement("", [Insert(T, [(3, "m")]), Insert(N, [(3, "m")])])
    actions: dict[str, Any] = {
        "B": session.begin,
        "C": session.commit,
        "R": session.rollback,
        "T": lambda: session.execute(insert(1)),
        "N": lambda: session.execute(insert(2, table=N)),
        "M": lambda: session.execute(both),
        "D": lambda: session.ddl("DROP TABLE x"),
        "E": lambda: session.execute(Statement("", [Insert(replace(T, name="e", engine="BLACKHOLE"), [(1, "x")])])),
        "U": lambda: session.execute(Statement("", [Update(T, [((1, "a"), (1, "a"))]), Insert(N, [(3, "m")])])),
    }
    for step in steps.split():
        actions[step]()
