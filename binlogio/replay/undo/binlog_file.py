"""Undo output: a binary log of the source's version.

Decides what is in a transaction; `binlogio.writer.log.log_builder` builds the log. The inverse of rows is in `inverse`.

    file        := magic format_description previous_gtids? transaction*
    transaction := anonymous_gtid?  BEGIN  (table_map rows+)*  XID

No transaction has a GTID: the server that applies the log assigns one. MySQL since 5.7.6 has ANONYMOUS_GTID instead;
MariaDB has no such event, and BEGIN is a Query event as in logs before 10.0. Timestamps and server ids are those of the
changes; there are checksums if the server's version has them. What reverses one rows event is a statement of its own.
Compressed payloads and rows are written uncompressed. Each transaction depends on the one before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields, replace
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, ClassVar, Final

from binlogio.constants import (
    HEADER_SIZE,
    SERVER_ID_BYTES,
    TIMESTAMP_BYTES,
    TYPE_CODE_AT,
    ChecksumAlgorithm,
    EventType,
    HeaderFlag,
)
from binlogio.errors import BinlogError, ReplayError
from binlogio.events.base import NEW_HEADER, EventHeader
from binlogio.events.query import QueryEvent
from binlogio.events.rows import UpdateRowsEvent
from binlogio.events.table_map import TableMapEvent
from binlogio.replay.row_changes import TYPE_CODES
from binlogio.replay.steps import locate_step
from binlogio.replay.undo.inverse import inverse_events
from binlogio.replay.undo.outputs import table_and_kind
from binlogio.writer.log.group import Group
from binlogio.writer.log.log_builder import LogBuilder, RowsHead, frames_of, with_xid, writer_kernel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from binlogio.events import RowsEvent
    from binlogio.events.format_description import FormatDescriptionEvent
    from binlogio.replay.steps import LoggedTransaction, RowsStep
    from binlogio.replay.undo.inverse import WholeImages
    from binlogio.replay.undo.outputs import ChangeCounts
    from binlogio.replay.undo.spool import SpooledGroup

_TABLE: Final = attrgetter(*(field.name for field in fields(TableMapEvent) if field.name != "header"))
_MICROSECONDS: Final = 1_000_000
_BEGIN: Final = EventHeader(flags=HeaderFlag.SUPPRESS_USE)


class BinlogFile:
    """An `UndoOutput`. Not for logs of several server versions: what one of them writes another may not read.

    `whole_images` are the tables, as `schema.table`, whose updates write all columns, with the last reason.
    """

    needs_names: ClassVar[bool] = False

    def __init__(self) -> None:
        self.whole_images: Final[dict[str, WholeImages]] = {}
        self._builder: LogBuilder | None = None
        self._header = NEW_HEADER

    def inverse(self, transaction: LoggedTransaction, steps: Sequence[RowsStep], rows: ChangeCounts) -> Iterator[bytes]:
        """Yield the events of one transaction, without positions and what depends on its place.

        Raises:
            BinlogError: a change cannot be reversed; or the transaction is of another server version than those
                before it.
        """
        builder = self._built_by(transaction)
        first = steps[0].event.header
        time, server_id = first.timestamp, first.server_id
        yield builder.frame("BEGIN", time, server_id, lambda: QueryEvent(0, 0, 0, (), "", b"BEGIN", _BEGIN))
        for step in reversed(steps):
            try:
                events, count, whole = inverse_events(step, is_mariadb=builder.description.context.is_mariadb)
            except BinlogError as exc:
                locate_step(exc, step)
                raise
            if events:
                yield _table_map(builder, step.table_map)
            for event in events:
                yield _rows(builder, event)
            table, kind = table_and_kind(step)
            rows[table, kind] += count
            if whole is not None:
                self.whole_images[table] = whole
        yield builder.xid(0, time, server_id)

    def whole(self, groups: Iterable[SpooledGroup]) -> Iterator[bytes]:
        """Yield the file; nothing if there is nothing to reverse.

        Raises:
            BinlogFormatError: an event does not fit the file.
        """
        builder, header = self._builder, self._header
        if builder is None:
            return
        head = builder.head(header.timestamp, header.server_id)
        yield head
        offset = len(head)
        for number, spooled in enumerate(groups, 1):
            group = _Numbered(spooled, number)
            start = group.start
            timestamp = int.from_bytes(start[TIMESTAMP_BYTES], "little")
            server_id = int.from_bytes(start[SERVER_ID_BYTES], "little")
            whole = Group(group, timestamp)
            clock = number - 1, number
            for piece in builder.pieces(whole, offset, None, clock, timestamp * _MICROSECONDS, server_id):
                yield piece
                offset += len(piece)

    def _built_by(self, transaction: LoggedTransaction) -> LogBuilder:
        """Take the first log's format for that of the file."""
        found = transaction.description
        if found is None:
            raise ReplayError("the log has no format description event, which the undo log needs")
        if self._builder is None:
            self._header = found.header
            self._builder = LogBuilder(_description(found), writer_kernel())
        elif found.server_version != self._builder.description.server_version:
            raise ReplayError(
                "one binary log cannot have changes of two server versions",
                field="server_version",
                expected=self._builder.description.server_version,
                found=found.server_version,
                hint="undo the logs of each version separately, the newer ones first; or write SQL",
            )
        return self._builder


class _Numbered:
    """The frames of a transaction, its XID with a number; can be iterated once. `start` is the first frame."""

    def __init__(self, group: SpooledGroup, number: int) -> None:
        self.size = group.size
        self._number = number
        self._frames = frames_of(group)
        self.start = next(self._frames)

    def __iter__(self) -> Iterator[bytes]:
        for frame in chain((self.start,), self._frames):
            yield with_xid(frame, self._number) if frame[TYPE_CODE_AT] == EventType.XID_EVENT else frame


def _description(found: FormatDescriptionEvent) -> FormatDescriptionEvent:
    checksum = None if found.checksum_algorithm is None else ChecksumAlgorithm.CRC32
    return replace(found, created=0, header_size=HEADER_SIZE, checksum_algorithm=checksum)


def _table_map(builder: LogBuilder, event: TableMapEvent) -> bytes:
    header = event.header
    key = _TABLE(event), header.flags
    return builder.frame(key, header.timestamp, header.server_id, lambda: event)


def _rows(builder: LogBuilder, event: RowsEvent) -> bytes:
    header = event.header
    if header.flags or event.extra or not header.type_code or type(event) not in TYPE_CODES:
        return builder.encode(event)
    present_after = event.present_after if isinstance(event, UpdateRowsEvent) else b""
    head = RowsHead(header.type_code, event.table_id, event.flags, event.column_count, event.present, present_after)
    return builder.rows(event.images, head, header.timestamp, header.server_id)
