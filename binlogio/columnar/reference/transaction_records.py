"""The view `transactions`: one record for each event group, with counts of its changes.

Defines the columns of the view, and adds up the events of a group. `binlogio.format.groups` determines where groups
begin and end. A group that is incomplete in the log is a record with the outcome `unfinished`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from binlogio.columnar.batches.row_counts import RowCounter
from binlogio.columnar.reference.event_records import statement_text, transaction_number
from binlogio.columnar.reference.group_context import GroupContext
from binlogio.columnar.reference.row_records import OPERATIONS
from binlogio.events.control import IncidentEvent, RowsQueryEvent, XaPrepareEvent, XidEvent
from binlogio.events.gtid import AnonymousGtidEvent, GtidEvent, GtidTaggedEvent
from binlogio.events.load import ExecuteLoadQueryEvent
from binlogio.events.mariadb import AnnotateRowsEvent
from binlogio.events.query import QueryEvent
from binlogio.events.transaction_payload import TransactionPayloadEvent
from binlogio.format.groups import GroupPlace, GroupTracker, ends_transaction, starts_transaction

if TYPE_CHECKING:
    from binlogio.event_filter import EventFilter
    from binlogio.reader import BinlogReader
    from pyspark_binlogio.options import TableFilter

TRANSACTION_COLUMNS: Final = {
    "file": "string",
    "pos": "bigint",  # where the group begins
    "end_pos": "bigint",  # where it ends
    "gtid": "string",
    "timestamp": "timestamp",  # of its first event
    "commit_timestamp": "timestamp",  # when the server that wrote the log committed it; null if it does not log that
    "original_commit_timestamp": "timestamp",  # when the first server did
    "server_id": "bigint",
    "last_committed": "bigint",
    "sequence_number": "bigint",
    "xid": "bigint",
    "outcome": "string",  # commit, rollback, prepare (XA), statement (DDL and the like), incident, unfinished
    "is_compressed": "boolean",
    "events": "int",
    "tables": "array<string>",
    "inserts": "bigint",
    "updates": "bigint",
    "deletes": "bigint",
    "insert_bytes": "bigint",  # of the row images
    "update_bytes": "bigint",
    "delete_bytes": "bigint",
    "statements": "array<string>",  # the texts in the group, except those that begin and end it
}

_US_PER_S: Final = 1_000_000
_GTIDS: Final = (GtidEvent, AnonymousGtidEvent, GtidTaggedEvent)
_STATEMENTS: Final = (QueryEvent, ExecuteLoadQueryEvent, RowsQueryEvent, AnnotateRowsEvent)


@dataclass(slots=True)
class _TransactionRecord:
    """The facts about a group, up to the current event."""

    pos: int
    gtid: str | None
    timestamp: int
    server_id: int
    last_committed: int | None
    sequence_number: int | None
    commit_timestamp: int | None = None
    original_commit_timestamp: int | None = None
    xid: int | None = None
    outcome: str = "unfinished"
    is_compressed: bool = False
    events: int = 0
    tables: dict[str, None] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=lambda: dict.fromkeys(("insert", "update", "delete"), 0))
    row_bytes: dict[str, int] = field(default_factory=lambda: dict.fromkeys(("insert", "update", "delete"), 0))
    statements: list[str] = field(default_factory=list)

    def record(self, file: str, end: int) -> tuple[object, ...]:
        """Return the group as a record."""
        return (
            file,
            self.pos,
            end,
            self.gtid,
            self.timestamp * _US_PER_S,
            self.commit_timestamp,
            self.original_commit_timestamp,
            self.server_id,
            self.last_committed,
            self.sequence_number,
            self.xid,
            self.outcome,
            self.is_compressed,
            self.events,
            list(self.tables),
            *self.rows.values(),
            *self.row_bytes.values(),
            self.statements,
        )


def transaction_records(reader: BinlogReader, tables: TableFilter, where: EventFilter) -> Iterator[tuple[object, ...]]:
    """Yield the groups of the log that touch a selected table, as tuples in the order of `TRANSACTION_COLUMNS`.

    Raises:
        BinlogError: the bytes are not a binary log.
    """
    context, tracker, counts = GroupContext(), GroupTracker(), RowCounter()
    group: _TransactionRecord | None = None
    ended = 0
    for event in reader:
        context.feed(event)
        if event.header.inner is None:
            tracker.feed(event)
            if group is not None and (tracker.starts_group or group.outcome != "unfinished"):
                yield from _finished(group, reader.position.file, ended, tables, where)
                group = None
            if tracker.starts_group:
                group = _begin(event, context)
        if group is not None:
            _add(group, event, reader, counts)
            if tracker.place is GroupPlace.OUTSIDE and group.outcome == "unfinished" and not group.is_compressed:
                group.outcome = "statement"
        ended = reader.position.offset
    if group is not None:
        yield from _finished(group, reader.position.file, ended, tables, where)


def _begin(event: Any, context: GroupContext) -> _TransactionRecord:
    header = event.header
    group = _TransactionRecord(
        header.offset, context.gtid, header.timestamp, header.server_id, context.last_committed, context.sequence_number
    )
    if isinstance(event, _GTIDS):
        group.commit_timestamp = event.immediate_commit_timestamp
        group.original_commit_timestamp = event.original_commit_timestamp or event.immediate_commit_timestamp
    return group


def _finished(
    group: _TransactionRecord, file: str, end: int, tables: TableFilter, where: EventFilter
) -> Iterator[tuple[object, ...]]:
    if tables and not any(tables(*name.split(".", 1)) for name in group.tables):
        return
    if where and not (
        group.pos in where.pos
        and group.timestamp in where.timestamp
        and (where.server_ids is None or group.server_id in where.server_ids)
        and where.wants_group(group.gtid)
    ):
        return
    yield group.record(file, end)


def _add(group: _TransactionRecord, event: Any, reader: BinlogReader, counts: RowCounter) -> None:
    group.events += 1
    op = OPERATIONS.get(type(event))
    if op is not None:
        if event.images:
            plan = reader.plan(event)
            group.tables[f"{plan.schema}.{plan.table}"] = None
            group.rows[op] += counts.of(event, plan)
            group.row_bytes[op] += len(event.images)
    elif isinstance(event, XidEvent):
        group.xid, group.outcome = transaction_number(event), "commit"
    elif isinstance(event, XaPrepareEvent):
        group.outcome = "commit" if event.one_phase else "prepare"
    elif isinstance(event, IncidentEvent):
        group.outcome = "incident"
    elif isinstance(event, TransactionPayloadEvent):
        group.is_compressed = True
    elif isinstance(event, _STATEMENTS):
        _add_statement(group, event)


def _add_statement(group: _TransactionRecord, event: Any) -> None:
    if isinstance(event, QueryEvent):
        if starts_transaction(event.sql):
            return
        if ends_transaction(event.sql):
            group.outcome = "commit" if event.sql == b"COMMIT" else "rollback"
            return
        group.xid = transaction_number(event) or group.xid
    group.statements.append(statement_text(event) or "")
