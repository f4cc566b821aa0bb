"""Reads and writes the binary logs of MySQL and MariaDB, byte for byte, without a server.

`open` returns a reader: an iterator over typed events (`BinlogEvent`, a union). It reads logs of MySQL 5.0 to 9.7 and
of MariaDB, in use or closed, compressed or encrypted. Checksums are verified. A file that ends in the middle of an
event because it is still being written is not an error (`reader.last_good_offset`). `reader.rows(event)` decodes a rows
event into row changes with Python values; a column that is not in the row image is absent, which is not NULL.

    with binlogio.open("binlog.000001") as reader:
        for event in reader:
            if isinstance(event, binlogio.RowsEvent):
                print(reader.table_map(event).table, *reader.rows(event))

`read_rows` returns the row changes of one table as Arrow record batches, decoded by a compiled kernel; `read_tables`
returns the row changes of all tables in one pass. `EventFilter` selects changes before their rows are decoded.

`BinlogWriter` writes logs that servers can read: a session executes statements with the rows that they changed, and
commits. Content and order of the log follow the server's rules. `BatchSession` writes record batches.

Invalid bytes raise only `BinlogError`, with the position and the reason; I/O errors are `OSError`.

    with binlogio.BinlogWriter("data/binlog", variables=binlogio.ServerVariables()) as log, log.session() as session:
        session.begin()
        insert = binlogio.Insert(orders, [{"id": 1, "total": Decimal("9.50")}])
        session.execute(binlogio.Statement("INSERT ...", [insert]))
        session.commit()
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from binlogio.lazy_names import lazy_names

if TYPE_CHECKING:
    KERNEL: str

    from binlogio.archive.scan import scan
    from binlogio.columnar.rows_reader import read_rows, read_tables
    from binlogio.errors import (
        BadMagic,
        BinlogError,
        BinlogFormatError,
        CacheLimitExceeded,
        ChecksumMismatch,
        CommitOutcomeUnknown,
        ConditionError,
        LoggingError,
        MissingTableMap,
        PositionError,
        ReplayError,
        TruncatedEvent,
        UnsupportedFeature,
        WriterStateError,
    )
    from binlogio.events import BinlogEvent, RowsEvent
    from binlogio.format.groups import EventGroup, GroupKind
    from binlogio.gtid import Gtid, GtidSet
    from binlogio.options import Limits, Position, ServerVariables
    from binlogio.reader import BinlogReader, open  # noqa: A004 - binlogio.open, as gzip.open and the like
    from binlogio.schema import ColumnDefinition, TableDefinition
    from binlogio.selection.event_filter import EventFilter, Range
    from binlogio.selection.row_condition import RowCondition
    from binlogio.selection.selection import Selection
    from binlogio.writer import BinlogWriter, Delete, Insert, Session, Statement, Update
    from binlogio.writer.batches import BatchChange, BatchSession

__version__: Final = "0.1.0"

__all__ = [
    "KERNEL",
    "BadMagic",
    "BatchChange",
    "BatchSession",
    "BinlogError",
    "BinlogEvent",
    "BinlogFormatError",
    "BinlogReader",
    "BinlogWriter",
    "CacheLimitExceeded",
    "ChecksumMismatch",
    "ColumnDefinition",
    "CommitOutcomeUnknown",
    "ConditionError",
    "Delete",
    "EventFilter",
    "EventGroup",
    "GroupKind",
    "Gtid",
    "GtidSet",
    "Insert",
    "Limits",
    "LoggingError",
    "MissingTableMap",
    "Position",
    "PositionError",
    "Range",
    "ReplayError",
    "RowCondition",
    "RowsEvent",
    "Selection",
    "ServerVariables",
    "Session",
    "Statement",
    "TableDefinition",
    "TruncatedEvent",
    "UnsupportedFeature",
    "Update",
    "WriterStateError",
    "__version__",
    "open",
    "read_rows",
    "read_tables",
    "scan",
]

if not TYPE_CHECKING:  # a type checker refuses a name that is not imported above
    _find: Final = lazy_names(
        __name__,
        {
            "archive.scan": "scan",
            "columnar.rows_reader": "read_rows read_tables",
            "errors": "BadMagic BinlogError BinlogFormatError CacheLimitExceeded ChecksumMismatch CommitOutcomeUnknown"
            " ConditionError LoggingError MissingTableMap PositionError ReplayError TruncatedEvent UnsupportedFeature"
            " WriterStateError",
            "events": "BinlogEvent RowsEvent",
            "format.groups": "EventGroup GroupKind",
            "gtid": "Gtid GtidSet",
            "options": "Limits Position ServerVariables",
            "reader": "BinlogReader open",
            "schema": "ColumnDefinition TableDefinition",
            "selection.event_filter": "EventFilter Range",
            "selection.selection": "Selection",
            "selection.row_condition": "RowCondition",
            "writer": "BinlogWriter Delete Insert Session Statement Update",
            "writer.batches": "BatchChange BatchSession",
        },
    )

    def __getattr__(name: str) -> object:
        """Import a public name at its first use, so that `import binlogio` costs nothing."""
        if name == "KERNEL":  # not cached: BINLOGIO_KERNEL may have changed
            from binlogio.implementation import implementation  # noqa: PLC0415

            return implementation()
        return _find(name)


def __dir__() -> list[str]:
    """Return the public names, whether they are imported yet or not."""
    return sorted({*globals(), *__all__})
