"""Writing binary logs: sessions that execute statements, and the files that a server would have written for them.

with BinlogWriter("data/binlog") as log, log.session("shop") as session:
    session.ddl("CREATE TABLE orders (id INT PRIMARY KEY, total DECIMAL(10,2))")
    session.begin()
    session.execute(Statement("INSERT ...", [Insert(orders, [{"id": 1, "total": Decimal("9.50")}])]))
    session.commit()
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
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

_HOMES: Final = {
    **dict.fromkeys(("KnownObjects", "Trigger", "Uses"), "binlogio.writer.rules.known_objects"),
    **dict.fromkeys(
        ("Delete", "Insert", "LoadedFile", "Statement", "Update"),
        "binlogio.writer.rules.statement",
    ),
    **dict.fromkeys(
        ("LoggingWarning", "StatementFacts", "StatementKind", "TableAccess"), "binlogio.writer.rules.statement_facts"
    ),
    "Session": "binlogio.writer.session.session",
    "XaXid": "binlogio.writer.session.xa",
    "BinlogWriter": "binlogio.writer.writer",
}


def __getattr__(name: str) -> Any:
    """Import a public name at its first use: who needs only the parts that make logs does not import sessions."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
