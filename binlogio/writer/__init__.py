"""Writing binary logs: sessions that execute statements, and the files that a server would have written for them.

with BinlogWriter("data/binlog") as log, log.session("shop") as session:
    session.ddl("CREATE TABLE orders (id INT PRIMARY KEY, total DECIMAL(10,2))")
    session.begin()
    session.execute(Statement("INSERT ...", [Insert(orders, [{"id": 1, "total": Decimal("9.50")}])]))
    session.commit()
"""

from __future__ import annotations

from binlogio.writer.rules.known_objects import KnownObjects, Trigger, Uses
from binlogio.writer.rules.statement import Delete, Insert, LoadedFile, Statement, Update
from binlogio.writer.rules.statement_facts import LoggingWarning, StatementFacts, StatementKind, TableAccess
from binlogio.writer.session.session import Session
from binlogio.writer.session.xa import XaXid
from binlogio.writer.writer import BinlogWriter

__all__ = [
    "BinlogWriter",
    "Delete",
    "Insert",
    "KnownObjects",
    "LoadedFile",
    "LoggingWarning",
    "Session",
    "Statement",
    "StatementFacts",
    "StatementKind",
    "TableAccess",
    "Trigger",
    "Update",
    "Uses",
    "XaXid",
]
