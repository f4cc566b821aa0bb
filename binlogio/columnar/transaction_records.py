"""Builds a record for each event group, with counts of its changes.

Defines the columns of the record, and what an event adds to it; the kernel sums that up. A group that is incomplete in
the log has the outcome `unfinished`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from binlogio.columnar.batches.row_counts import RowCounter
from binlogio.columnar.event_records import statement_text, transaction_number
from binlogio.events import RowsEvent
from binlogio.events.control import IncidentEvent, RowsQueryEvent, XaPrepareEvent, XidEvent
from binlogio.events.gtid import AnonymousGtidEvent, GtidEvent, GtidTaggedEvent
from binlogio.events.load import ExecuteLoadQueryEvent
from binlogio.events.mariadb import AnnotateRowsEvent
from binlogio.events.query import QueryEvent
from binlogio.events.transaction_payload import TransactionPayloadEvent
from binlogio.format.groups import ends_transaction, starts_transaction

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


def commit_times(event: BinlogEvent) -> tuple[int | None, int | None]:
    """Return the immediate and the original commit timestamp of a GTID event in microseconds; None if unknown."""
    if not isinstance(event, _GTIDS):
        return None, None
    found = event.immediate_commit_timestamp, event.original_commit_timestamp or event.immediate_commit_timestamp
    return tuple(None if time is None or time > _LARGEST_TIME else time for time in found)  # type: ignore[return-value]


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
