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
from typing import TYPE_CHECKING, Any, ClassVar, Final

from binlogio.constants import (
    CHECKSUM_SIZE,
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
from binlogio.replay.undo.inverse import INVERSE_TYPES, check_images, inverse_events, inverse_flags, whole_images
from binlogio.replay.undo.outputs import table_and_kind
from binlogio.writer.log.group import Group
from binlogio.writer.log.log_builder import LogBuilder, RowsHead, frames_of, with_xid, writer_kernel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from binlogio._kernel.row_decoder import InverseRows
    from binlogio.events import RowsEvent
    from binlogio.events.format_description import FormatDescriptionEvent
    from binlogio.replay.steps import LoggedTransaction, RowsStep
    from binlogio.replay.undo.inverse import WholeImages
    from binlogio.replay.undo.outputs import ChangeCounts
    from binlogio.replay.undo.spool import LargeGroup, SpooledGroup

_TABLE: Final = attrgetter(*(field.name for field in fields(TableMapEvent) if field.name != "header"))
_XID_SIZE: Final = 8
_MICROSECONDS: Final = 1_000_000
_BEGIN: Final = EventHeader(flags=HeaderFlag.SUPPRESS_USE)


class BinlogFile:
    """An `UndoOutput`. Not for logs of several server versions: what one of them writes another may not read.

    `whole_images` are the tables, as `schema.table`, whose updates write all columns, with the last reason.
    """

    needs_names: ClassVar[bool] = False

    def __init__(self) -> None:
        self.whole_images: Final[dict[str, WholeImages]] = {}
        self._kernel: Final = writer_kernel()
        self._builder: LogBuilder | None = None
        self._header = NEW_HEADER

    def inverse(self, transaction: LoggedTransaction, steps: Sequence[RowsStep], rows: ChangeCounts) -> Iterator[bytes]:
        """Yield the events of one transaction, without positions and what depends on its place.

        Raises:
            BinlogError: a change cannot be reversed; or the transaction is of another server version than those
                before it.
        """
        builder = self._built_by(transaction.description)
        first = steps[0].event.header
        time, server_id = first.timestamp, first.server_id
        yield _begin(builder, time, server_id)
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

    def compiled(self, step: RowsStep, description: FormatDescriptionEvent | None) -> InverseRows | None:
        """Return the kernel's inverse of rows events; None if Python has to build some of their events."""
        from binlogio._kernel.row_decoder import InverseRows  # noqa: PLC0415 - there may be no kernel
        from binlogio.rows.unpacking import image_plan  # noqa: PLC0415

        plan, event = check_images(step), step.head
        is_update = isinstance(event, UpdateRowsEvent)
        if type(event) not in TYPE_CODES or (is_update and event.present != event.present_after):
            return None
        builder = self._built_by(description)
        code = INVERSE_TYPES[event.header.type_code]
        after = event.present if is_update else b""
        head = RowsHead(code, event.table_id, 0, event.column_count, event.present, after)
        return InverseRows(
            step,
            cascades=bool(step.cascades),
            plan=image_plan(plan),
            begin=_begin(builder, 0, 0),
            table_map=builder.encode(step.table_map),
            head=builder.rows(b"", head, 0, 0),
            xid=builder.xid(0, 0, 0),
            footer=CHECKSUM_SIZE if builder.has_checksum else 0,
            flags=inverse_flags(event),
            is_minimal=is_update
            and whole_images(step, plan, is_mariadb=builder.description.context.is_mariadb) is None,
            spare_bits=bool(plan.spare_null_bits),
        )

    def count(self, step: RowsStep, count: int, rows: ChangeCounts) -> None:
        """Count changes, and note a table whose updates write all columns."""
        table, kind = table_and_kind(step)
        rows[table, kind] += count
        if self._builder is not None and step.plan is not None and isinstance(step.head, UpdateRowsEvent):
            is_mariadb = self._builder.description.context.is_mariadb
            whole = whole_images(step, step.plan, is_mariadb=is_mariadb)
            if whole is not None:
                self.whole_images[table] = whole

    def heading(self, file: str) -> bytes:
        """Return no text: there are no comments in a log."""
        del file
        return b""

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
            if isinstance(spooled, bytes):
                start = numbered = self._with_xid(spooled, number)
                frames: Any = (numbered,) if self._kernel is not None else tuple(frames_of((numbered,)))
            else:
                frames = _Numbered(spooled, number)
                start = frames.start
            timestamp = int.from_bytes(start[TIMESTAMP_BYTES], "little")
            server_id = int.from_bytes(start[SERVER_ID_BYTES], "little")
            whole = Group(frames, timestamp)
            clock = number - 1, number
            for piece in builder.pieces(whole, offset, None, clock, timestamp * _MICROSECONDS, server_id):
                yield piece
                offset += len(piece)

    def _with_xid(self, group: bytes, number: int) -> bytes:
        end = len(group) - (CHECKSUM_SIZE if self._builder is not None and self._builder.has_checksum else 0)
        return group[: end - _XID_SIZE] + number.to_bytes(_XID_SIZE, "little") + group[end:]

    def _built_by(self, found: FormatDescriptionEvent | None) -> LogBuilder:
        """Take the first log's format for that of the file."""
        if found is None:
            raise ReplayError("the log has no format description event, which the undo log needs")
        if self._builder is None:
            self._header = found.header
            self._builder = LogBuilder(_description(found), self._kernel)
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

    def __init__(self, group: LargeGroup, number: int) -> None:
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


def _begin(builder: LogBuilder, time: int, server_id: int) -> bytes:
    return builder.frame("BEGIN", time, server_id, lambda: QueryEvent(0, 0, 0, (), "", b"BEGIN", _BEGIN))


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
