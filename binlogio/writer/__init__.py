"""Writes binary logs: sessions that execute statements, and the files that a server would write for them.

with BinlogWriter("data/binlog") as log, log.session("shop") as session:
    session.ddl("CREATE TABLE orders (id INT PRIMARY KEY, total DECIMAL(10,2))")
    session.begin()
    session.execute(Statement("INSERT ...", [Insert(orders, [{"id": 1, "total": Decimal("9.50")}])]))
    session.commit()
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from binlogio.lazy_names import lazy_names

if TYPE_CHECKING:
    from binlogio.storage.log_storage import LocalStorage, LogStorage
    from binlogio.writer.batches import BatchChange
    from binlogio.writer.log.log_builder import LoggedGtids
    from binlogio.writer.log.object_storage import ObjectStorage
    from binlogio.writer.record_logs import (
        BatchNumber,
        LogFolder,
        Segment,
        SegmentWriter,
        no_gtids,
        transactions_of,
    )
    from binlogio.writer.rules.known_objects import KnownObjects, Trigger, Uses
    from binlogio.writer.rules.statement import Delete, Insert, LoadedFile, Statement, Update
    from binlogio.writer.rules.statement_facts import LoggingWarning, StatementFacts, StatementKind, TableAccess
    from binlogio.writer.server_format import server_format_of, variables_in_effect
    from binlogio.writer.session.session import Session
    from binlogio.writer.session.transaction import XaXid
    from binlogio.writer.writer import BinlogWriter

__all__ = [
    "BatchChange", "BatchNumber", "BinlogWriter", "Delete", "Insert", "KnownObjects", "LoadedFile", "LocalStorage",
    "LogFolder", "LogStorage", "LoggedGtids", "LoggingWarning", "ObjectStorage", "Segment", "SegmentWriter", "Session",
    "Statement", "StatementFacts", "StatementKind", "TableAccess", "Trigger", "Update", "Uses", "XaXid", "no_gtids",
    "server_format_of", "transactions_of", "variables_in_effect",
]  # fmt: skip

if not TYPE_CHECKING:  # an import of only the log-building parts does not import sessions
    __getattr__: Final = lazy_names(
        __name__,
        {
            "batches": "BatchChange",
            "log.log_builder": "LoggedGtids",
            "binlogio.storage.log_storage": "LocalStorage LogStorage",
            "log.object_storage": "ObjectStorage",
            "record_logs": "BatchNumber LogFolder Segment SegmentWriter no_gtids transactions_of",
            "rules.known_objects": "KnownObjects Trigger Uses",
            "rules.statement": "Delete Insert LoadedFile Statement Update",
            "rules.statement_facts": "LoggingWarning StatementFacts StatementKind TableAccess",
            "server_format": "server_format_of variables_in_effect",
            "session.session": "Session",
            "session.transaction": "XaXid",
            "writer": "BinlogWriter",
        },
    )
