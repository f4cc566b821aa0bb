"""Builds a record for each event group, with counts of its changes.

Defines the columns of the record, and aggregates the events of a group. `binlogio.format.groups` determines where
groups begin and end. A group that is incomplete in the log has the outcome `unfinished`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from binlogio.columnar.batches.row_counts import RowCounter
from binlogio.columnar.event_records import WantsTable, statement_text, transaction_number
from binlogio.dotted_names import split_name
from binlogio.events import RowsEvent
from binlogio.events.control import IncidentEvent, RowsQueryEvent, XaPrepareEvent, XidEvent
from binlogio.events.gtid import AnonymousGtidEvent, GtidEvent, GtidTaggedEvent
from binlogio.events.load import ExecuteLoadQueryEvent
from binlogio.events.mariadb import AnnotateRowsEvent
from binlogio.events.query import QueryEvent
from binlogio.events.transaction_payload import TransactionPayloadEvent
from binlogio.format.groups import EventGroup, GroupFacts, ends_transaction, starts_transaction
from binlogio.selection.event_filter import EVERY_EVENT, EventFilter

if TYPE_CHECKING:
    from binlogio.events import BinlogEvent
    from binlogio.reader import BinlogReader

_TEXTS: Final = pa.list_(pa.field("element", pa.string()))
TRANSACTION_SCHEMA: Final = pa.schema(
    [
        pa.field("file", pa.string()),
        pa.field("pos", pa.int64()),  # offset of the first event
        pa.field("end_pos", pa.int64()),  # offset after the last event
        pa.field("gtid", pa.string()),
        pa.field("timestamp", pa.timestamp("us", "UTC")),  # timestamp of its first event
        pa.field("commit_timestamp", pa.timestamp("us", "UTC")),  # commit on the server that wrote the log
        pa.field("original_commit_timestamp", pa.timestamp("us", "UTC")),  # commit on the original server
        pa.field("server_id", pa.int64()),
        pa.field("last_committed", pa.int64()),
        pa.field("sequence_number", pa.int64()),
        pa.field("xid", pa.int64()),
        pa.field("outcome", pa.string()),  # commit, rollback, prepare (XA), statement (DDL), incident, unfinished
        pa.field("is_compressed", pa.bool_()),
        pa.field("events", pa.int32()),
        pa.field("tables", _TEXTS),
        pa.field("inserts", pa.int64()),
        pa.field("updates", pa.int64()),
        pa.field("deletes", pa.int64()),
        pa.field("insert_bytes", pa.int64()),  # bytes of row images
        pa.field("update_bytes", pa.int64()),
        pa.field("delete_bytes", pa.int64()),
        pa.field("statements", _TEXTS),  # statements, except those that begin and end the group
    ]
)
"""Commit timestamps are null if the log does not contain them, or if Arrow cannot represent them."""

_US_PER_S: Final = 1_000_000
_LARGEST_TIME: Final = (1 << 63) - 1
_GTIDS: Final = (GtidEvent, AnonymousGtidEvent, GtidTaggedEvent)
_STATEMENTS: Final = (QueryEvent, ExecuteLoadQueryEvent, RowsQueryEvent, AnnotateRowsEvent)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupChange:
    """The contribution of an event to its group. `rows` and `row_bytes` are valid if `op` is not None."""

    xid: int | None = None
    outcome: str | None = None
    is_compressed: bool = False
    statement: str | None = None
    op: str | None = None
    table: str = ""
    rows: int = 0
    row_bytes: int = 0


_NO_CHANGE: Final = GroupChange()


@dataclass(slots=True)
class _TransactionRecord:
    """The record of a group, up to the current event."""

    pos: int
    timestamp: int
    server_id: int
    facts: GroupFacts
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

    def add(self, change: GroupChange) -> None:
        """Add the contribution of an event."""
        self.events += 1
        if change.op is not None:
            self.tables[change.table] = None
            self.rows[change.op] += change.rows
            self.row_bytes[change.op] += change.row_bytes
        self.xid = self.xid if change.xid is None else change.xid
        self.outcome = change.outcome or self.outcome
        self.is_compressed |= change.is_compressed
        if change.statement is not None:
            self.statements.append(change.statement)

    def record(self, file: str, end: int) -> tuple[object, ...]:
        """Return the group as a record."""
        return (
            file,
            self.pos,
            end,
            self.facts.gtid,
            self.timestamp * _US_PER_S,
            self.commit_timestamp,
            self.original_commit_timestamp,
            self.server_id,
            self.facts.last_committed,
            self.facts.sequence_number,
            self.xid,
            self.outcome,
            self.is_compressed,
            self.events,
            list(self.tables),
            *self.rows.values(),
            *self.row_bytes.values(),
            self.statements,
        )


def transaction_records(
    reader: BinlogReader, tables: WantsTable | None = None, where: EventFilter = EVERY_EVENT
) -> Iterator[tuple[object, ...]]:
    """Yield the groups of a log that change a selected table, as tuples in the order of `TRANSACTION_SCHEMA`.

    Raises:
        BinlogError: the log is damaged, or is not a binary log.
    """
    counts = RowCounter()
    group: _TransactionRecord | None = None
    ended = 0
    for event in reader:
        found = reader.group
        if event.header.inner is None:
            is_first = found is not None and event is found.first
            if group is not None and (is_first or group.outcome != "unfinished"):
                yield from _finished(group, reader.position.file, ended, tables, where)
                group = None
            if found is not None and is_first:
                group = _begin(event, found)
        if group is not None:
            group.add(group_change(reader, event, counts))
            is_ended = found is None or found.last is not None
            if is_ended and group.outcome == "unfinished" and not group.is_compressed:
                group.outcome = "statement"
        ended = reader.position.offset
    if group is not None:
        yield from _finished(group, reader.position.file, ended, tables, where)


def _begin(event: BinlogEvent, found: EventGroup) -> _TransactionRecord:
    group = _TransactionRecord(found.begin, found.timestamp, event.header.server_id, found.facts)
    group.commit_timestamp, group.original_commit_timestamp = commit_times(event)
    return group


def commit_times(event: BinlogEvent) -> tuple[int | None, int | None]:
    """Return the immediate and the original commit timestamp of a GTID event in microseconds; None if unknown."""
    if not isinstance(event, _GTIDS):
        return None, None
    found = event.immediate_commit_timestamp, event.original_commit_timestamp or event.immediate_commit_timestamp
    return tuple(None if time is None or time > _LARGEST_TIME else time for time in found)  # type: ignore[return-value]


def _finished(
    group: _TransactionRecord, file: str, end: int, tables: WantsTable | None, where: EventFilter
) -> Iterator[tuple[object, ...]]:
    if tables is not None and not any(tables(*split_name(name)) for name in group.tables):
        return
    if where and not (
        group.pos in where.pos
        and group.timestamp in where.timestamp
        and (where.server_ids is None or group.server_id in where.server_ids)
        and where.wants_group(group.facts.gtid)
    ):
        return
    yield group.record(file, end)


def group_change(reader: BinlogReader, event: BinlogEvent, counts: RowCounter) -> GroupChange:
    """Return the contribution of the last event of a reader to its group.

    Raises:
        BinlogError: the rows of the event do not fit its table.
    """
    if isinstance(event, RowsEvent):
        if not event.images:
            return _NO_CHANGE
        plan = reader.plan(event)
        return GroupChange(
            op=event.operation.op,
            table=plan.full_name,
            rows=counts.of(event, plan),
            row_bytes=len(event.images),
        )
    if isinstance(event, XidEvent):
        return GroupChange(xid=transaction_number(event), outcome="commit")
    if isinstance(event, XaPrepareEvent):
        return GroupChange(outcome="commit" if event.one_phase else "prepare")
    if isinstance(event, IncidentEvent):
        return GroupChange(outcome="incident")
    if isinstance(event, TransactionPayloadEvent):
        return GroupChange(is_compressed=True)
    if not isinstance(event, _STATEMENTS) or (isinstance(event, QueryEvent) and starts_transaction(event.sql)):
        return _NO_CHANGE
    if isinstance(event, QueryEvent) and ends_transaction(event.sql):
        return GroupChange(outcome="commit" if event.sql == b"COMMIT" else "rollback")
    return GroupChange(xid=transaction_number(event) or None, statement=statement_text(event) or "")
