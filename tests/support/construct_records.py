"""Records of events and of event groups by construct, with which tests compare those of the kernel.

Each event is parsed by `binlogio.open` without the kernel; the kernel is not asked for anything.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, cast

from binlogio.columnar.event_records import EVENT_SCHEMA, event_record
from binlogio.columnar.transaction_records import TRANSACTION_SCHEMA, GroupChange, commit_times, group_change
from binlogio.dotted_names import split_name
from binlogio.errors import BinlogError
from binlogio.format.groups import GroupFacts
from binlogio.options import ReadOptions
from binlogio.reader import BinlogReader
from binlogio.rows.image import decode_rows
from binlogio.schema.source import DefinitionSource
from both_kernels import Said, kernel_set_to

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binlogio.columnar import EventSelection
    from binlogio.columnar.batches.row_counts import RowCounter
    from binlogio.events import RowsEvent
    from binlogio.rows.plan import TablePlan
    from binlogio.storage.keyring import Keyring
    from binlogio.storage.log_file import LogFile

SCHEMAS: Final = {"events": EVENT_SCHEMA, "transactions": TRANSACTION_SCHEMA}
"""The schema of each kind of records."""
_US_PER_S: Final = 1_000_000


def records_by_construct(
    kind: str, log: LogFile, selection: EventSelection, keyring: Keyring | None = None
) -> tuple[list[dict[str, Any]], Said | None]:
    """Return the records of a whole log, with times as numbers, and the error after them."""
    options = ReadOptions(verify_checksum=selection.verify_checksum)
    definitions = DefinitionSource(selection.definitions, follows_ddl=False)
    found: list[dict[str, Any]] = []
    names = SCHEMAS[kind].names
    with kernel_set_to("construct"):
        try:
            with BinlogReader([log], options, keyring=keyring, definitions=definitions) as reader:
                records = _events(reader, selection) if kind == "events" else _transactions(reader, selection)
                found.extend(dict(zip(names, map(_encodable, record), strict=True)) for record in records)
        except BinlogError as exc:
            exc.locate(file=log.name)
            return found, Said.of(exc)
    return found, None


def _encodable(value: Any) -> Any:
    if isinstance(value, list):
        return list(map(_encodable, value))
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value


def _events(reader: BinlogReader, selection: EventSelection) -> Iterator[tuple[Any, ...]]:
    for event in reader:
        group = GroupFacts() if reader.group is None else reader.group.facts
        record = event_record(reader, event, group, selection.tables, selection.where)
        if record is not None:
            yield record


class _RowCounter:
    """Counts the rows of events by decoding them."""

    def of(self, event: RowsEvent, plan: TablePlan) -> int:
        return sum(1 for _ in decode_rows(event, plan, ()))


@dataclass
class _Group:
    """The record of a group, up to the current event."""

    pos: int
    timestamp: int
    server_id: int
    facts: GroupFacts
    times: tuple[int | None, int | None]
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

    def is_selected(self, selection: EventSelection) -> bool:
        """Return whether the group changes a selected table, and matches the filter."""
        tables, where = selection.tables, selection.where
        return (tables is None or any(tables(*split_name(name)) for name in self.tables)) and (
            self.pos in where.pos
            and self.timestamp in where.timestamp
            and (where.server_ids is None or self.server_id in where.server_ids)
            and where.wants_group(self.facts.gtid)
        )

    def record(self, file: str, end: int) -> tuple[Any, ...]:
        """Return the group as a record."""
        gtid, last_committed, sequence_number = self.facts
        return (
            *(file, self.pos, end, gtid, self.timestamp * _US_PER_S, *self.times, self.server_id),
            *(last_committed, sequence_number, self.xid, self.outcome, self.is_compressed, self.events),
            *(list(self.tables), *self.rows.values(), *self.row_bytes.values(), self.statements),
        )


def _transactions(reader: BinlogReader, selection: EventSelection) -> Iterator[tuple[Any, ...]]:
    group: _Group | None = None
    ended = 0
    for event in reader:
        found = reader.group
        if event.header.inner is None:
            is_first = found is not None and event is found.first
            if group is not None and (is_first or group.outcome != "unfinished"):
                if group.is_selected(selection):
                    yield group.record(reader.position.file, ended)
                group = None
            if found is not None and is_first:
                group = _Group(found.begin, found.timestamp, event.header.server_id, found.facts, commit_times(event))
        if group is not None:
            group.add(group_change(reader, event, cast("RowCounter", _RowCounter())))
            is_ended = found is None or found.last is not None
            if is_ended and group.outcome == "unfinished" and not group.is_compressed:
                group.outcome = "statement"
        ended = reader.position.offset
    if group is not None and group.is_selected(selection):
        yield group.record(reader.position.file, ended)
