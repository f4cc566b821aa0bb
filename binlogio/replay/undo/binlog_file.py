"""Undo output: a binary log of the source's version.

Writes positions, checksums and the first and last events of a transaction. The inverse of rows is in `inverse`.

    file        := magic format_description previous_gtids? transaction*
    transaction := anonymous_gtid?  BEGIN  (table_map rows)*  XID

No transaction has a GTID: the server that applies the log assigns one. MySQL since 5.7.6 has ANONYMOUS_GTID instead;
MariaDB has no such event, and BEGIN is a Query event as in logs before 10.0. Timestamps and server ids are those of the
changes; there are checksums if the server's version has them. Each rows event is a statement of its own. Compressed
payloads and rows are written uncompressed.

BEGIN, XID and table maps differ between transactions in their timestamp only, so their frames are built once. Rows
events are built by the compiled kernel if it is present; all others by `binlogio.format.encoder`.

Source: sql/binlog.cc, MYSQL_BIN_LOG::write_transaction; libs/mysql/binlog/event/control_events.cpp, Gtid_event.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

from binlogio.constants import (
    BINLOG_MAGIC,
    CHECKSUM_SIZE,
    EVENT_SIZE_BYTES,
    HEADER_SIZE,
    SERVER_ID_BYTES,
    TIMESTAMP_BYTES,
    TYPE_CODE_AT,
    ChecksumAlgorithm,
    EventType,
    HeaderFlag,
)
from binlogio.errors import BinlogError, ReplayError
from binlogio.events.base import DEFAULT_CONTEXT, NEW_HEADER, EventHeader
from binlogio.events.control import XidEvent
from binlogio.events.format_description import FormatDescriptionEvent, server_version_numbers
from binlogio.events.gtid import AnonymousGtidEvent, PreviousGtidsEvent
from binlogio.events.query import QueryEvent
from binlogio.events.rows import POST_HEADER_V2
from binlogio.format.encoder import Encoder, stamp
from binlogio.implementation import is_compiled
from binlogio.replay.row_changes import TYPE_CODES, rows_frame_of
from binlogio.replay.undo.inverse import inverse_event
from binlogio.replay.undo.outputs import table_and_kind

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from binlogio.events import RowsEvent
    from binlogio.events.base import ParseContext
    from binlogio.events.table_map import TableMapEvent
    from binlogio.replay.transactions import LoggedTransaction, RowsStep
    from binlogio.replay.undo.outputs import ChangeCounts
    from binlogio.replay.undo.spool import SpooledGroup

# Since when the events know what: libs/mysql/binlog/event/control_events.h, Gtid_event.
_ANONYMOUS_SINCE: Final = (5, 7, 6)
_LENGTH_SINCE: Final = (8, 0, 2)
_VERSION_SINCE: Final = (8, 0, 14)
_MICROSECONDS: Final = 1_000_000


class BinlogFile:
    """An `UndoOutput`. Not for logs of several server versions: what one of them writes another may not read."""

    needs_names: ClassVar[bool] = False

    def __init__(self) -> None:
        self._description: FormatDescriptionEvent | None = None
        self._frames = Frames(DEFAULT_CONTEXT)
        self._gtid_size = 0  # of the last one: the best guess for the next

    def inverse(self, transaction: LoggedTransaction, steps: Sequence[RowsStep], rows: ChangeCounts) -> Iterator[bytes]:
        """Yield the events of one transaction, without positions and what depends on its place.

        Raises:
            BinlogError: a change cannot be reversed; or the transaction is of another server version than those
                before it.
        """
        self._describe(transaction)
        frames = self._frames
        first = steps[0].event.header
        header = EventHeader(timestamp=first.timestamp, server_id=first.server_id)
        yield frames.begin(header)
        for step in reversed(steps):
            try:
                event, count = inverse_event(step)
            except BinlogError as exc:
                exc.locate(offset=step.offset)
                raise
            yield frames.table_map(step.table_map)
            yield frames.rows(event)
            rows[table_and_kind(step)] += count
        yield frames.xid(header)

    def whole(self, groups: Iterable[SpooledGroup]) -> Iterator[bytes]:
        """Yield the file; nothing if there is nothing to reverse.

        Raises:
            BinlogFormatError: an event does not fit the file.
        """
        if self._description is None:
            return
        head = BINLOG_MAGIC
        for event in self._head(self._description):
            head += self._frames.encoder.encode_at(event, len(head))
        yield head
        offset = len(head)
        for number, group in enumerate(groups, 1):
            for frame in self._transaction(group, number):
                yield stamp(frame, offset, has_checksum=self._frames.has_checksum)
                offset += len(frame)

    def _describe(self, transaction: LoggedTransaction) -> None:
        """Take the first log's format for that of the file."""
        found = transaction.description
        if found is None:
            raise ReplayError("the log has no format description event, which the undo log needs")
        if self._description is None:
            checksum = None if found.checksum_algorithm is None else ChecksumAlgorithm.CRC32
            header = EventHeader(timestamp=found.header.timestamp, server_id=found.header.server_id)
            self._description = replace(
                found, created=0, header_size=HEADER_SIZE, checksum_algorithm=checksum, header=header
            )
            self._frames = Frames(self._description.context)
        elif found.server_version != self._description.server_version:
            raise ReplayError(
                "one binary log cannot have changes of two server versions",
                field="server_version",
                expected=self._description.server_version,
                found=found.server_version,
                hint="undo the logs of each version separately, the newer ones first; or write SQL",
            )

    def _head(self, description: FormatDescriptionEvent) -> Iterator[Any]:
        yield description
        if (
            not description.context.is_mariadb
            and len(description.post_header_sizes) >= EventType.PREVIOUS_GTIDS_LOG_EVENT
        ):
            header = replace(description.header, flags=HeaderFlag.IGNORABLE)
            yield PreviousGtidsEvent(header=header)

    def _transaction(self, group: SpooledGroup, number: int) -> Iterator[bytes]:
        for at, frame in enumerate(_frames(group)):
            if not at:
                yield from self._gtid(frame, group.size, number)
            if frame[TYPE_CODE_AT] == EventType.XID_EVENT:
                end = len(frame) - CHECKSUM_SIZE * self._frames.has_checksum
                yield frame[: end - 8] + number.to_bytes(8, "little") + frame[end:]
            else:
                yield frame

    def _gtid(self, first: bytes, size: int, number: int) -> Iterator[bytes]:
        """ANONYMOUS_GTID where the version has it; each transaction depends on the one before it."""
        encoder = self._frames.encoder
        version = server_version_numbers(encoder.context.server_version)
        if encoder.context.is_mariadb or version < _ANONYMOUS_SINCE:
            return
        timestamp = int.from_bytes(first[TIMESTAMP_BYTES], "little")
        event = AnonymousGtidEvent(
            last_committed=number - 1,
            sequence_number=number,
            header=EventHeader(timestamp=timestamp, server_id=int.from_bytes(first[SERVER_ID_BYTES], "little")),
        )
        if version < _LENGTH_SINCE:
            yield encoder.encode(event)
            return
        event = replace(event, immediate_commit_timestamp=timestamp * _MICROSECONDS)
        if version >= _VERSION_SINCE:
            event = replace(event, immediate_server_version=version[0] * 10_000 + version[1] * 100 + version[2])
        frame, length = b"", -1
        while len(frame) + size != length:  # which counts its own bytes
            length = (len(frame) or self._gtid_size) + size
            frame = encoder.encode(replace(event, transaction_length=length))
        self._gtid_size = len(frame)
        yield frame


def _frames(group: SpooledGroup) -> Iterator[bytes]:
    """Yield the events of a transaction, one by one."""
    waiting = b""
    for piece in group:
        waiting += piece
        at = 0
        while len(waiting) - at >= EVENT_SIZE_BYTES.stop:
            size = int.from_bytes(waiting[at + EVENT_SIZE_BYTES.start : at + EVENT_SIZE_BYTES.stop], "little")
            if len(waiting) - at < size:
                break
            yield waiting[at : at + size]
            at += size
        waiting = waiting[at:]


_MOST_TEMPLATES: Final = 1000
_QUICK: Final = frozenset(TYPE_CODES.values())


class Frames:
    """Makes the frames of one file."""

    def __init__(self, context: ParseContext) -> None:
        self.encoder: Final = Encoder(context)
        self.has_checksum: Final = context.has_checksum
        self._templates: dict[object, bytes] = {}
        sizes = context.post_header_sizes
        self._is_quick = is_compiled() and all(
            len(sizes) >= code and sizes[code - 1] == POST_HEADER_V2 for code in _QUICK
        )

    def begin(self, header: EventHeader) -> bytes:
        """Return BEGIN, of a session without known properties."""
        key = "BEGIN", header.server_id
        flags = HeaderFlag.SUPPRESS_USE
        return self._alike(key, header, lambda: QueryEvent(0, 0, 0, (), "", b"BEGIN", replace(header, flags=flags)))

    def xid(self, header: EventHeader) -> bytes:
        """XID of number 0."""
        return self._alike(("XID", header.server_id), header, lambda: XidEvent(xid=0, header=header))

    def table_map(self, event: TableMapEvent) -> bytes:
        """Return a table map."""
        header = event.header
        key = replace(event, header=NEW_HEADER), header.server_id, header.flags
        return self._alike(key, header, lambda: event)

    def rows(self, event: RowsEvent) -> bytes:
        """Return a rows event.

        Raises:
            BinlogFormatError: it does not fit 4 GiB.
        """
        header = event.header
        if not self._is_quick or header.type_code not in _QUICK or header.flags or event.extra:
            return self.encoder.encode(event)
        return rows_frame_of(event, event.table_id, checksum=self.has_checksum)

    def _alike(self, key: object, header: EventHeader, make: Callable[[], Any]) -> bytes:
        """Return the frame that was built for `key` before, with another timestamp."""
        rest = self._templates.get(key)
        if rest is None:
            if len(self._templates) >= _MOST_TEMPLATES:
                self._templates.clear()
            rest = self._templates[key] = self.encoder.encode(make())[TIMESTAMP_BYTES.stop :]
        return header.timestamp.to_bytes(TIMESTAMP_BYTES.stop, "little") + rest
