"""Reads a rows event that is larger than a read of the log in parts of whole rows, in bounded memory.

Only in a log that can be read twice: the checksum is verified before the first row is returned. A row is never split.
`binlogio.columnar.walk.big_events` does the same for reads to Arrow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from binlogio.constants import CHECKSUM_SIZE, HEADER_SIZE, EventType
from binlogio.errors import BinlogError
from binlogio.events import RowsEvent, codec_for
from binlogio.format.framing import EventFrame

if TYPE_CHECKING:
    from binlogio.format.framing import EventFramer
    from binlogio.rows.plan import TablePlan
    from binlogio.storage.log_file import OpenedLog, SeekableByteStream

_PIECE_SIZE: Final = 1 << 20  # bytes read at a time
_HEAD_SIZE: Final = 1 << 17  # bytes in which the fields before the images end
_IN_PARTS: Final = frozenset(
    (*range(EventType.WRITE_ROWS_EVENT_V1, EventType.DELETE_ROWS_EVENT_V1 + 1),
     *range(EventType.WRITE_ROWS_EVENT, EventType.DELETE_ROWS_EVENT + 1))
)  # fmt: skip


class EventPart(NamedTuple):
    """Which part of its event the last rows event is."""

    is_first: bool = True
    is_last: bool = True


@dataclass(frozen=True, slots=True)
class BigRows:
    """A rows event that is read in parts; `frame` has no body, `head` the first of the images."""

    frame: EventFrame
    head: RowsEvent
    plan: TablePlan
    log: OpenedLog

    @classmethod
    def at(
        cls,
        framer: EventFramer,
        log: OpenedLog,
        plan_of: Callable[[RowsEvent], TablePlan | None],
        *,
        verify_checksum: bool,
    ) -> BigRows | None:
        """Return the next event of `framer`, which is incomplete; None if it cannot be read in parts or is damaged."""
        header = framer.big_header
        if header is None or header.type_code not in _IN_PARTS or not log.seekable:
            return None
        context, stream = framer.context, cast("SeekableByteStream", log.stream)
        try:
            stream.seek(header.offset)
            checksum = _checksum(log, header.event_size) if context.has_checksum else None
            stored = int.from_bytes(log.read_up_to(CHECKSUM_SIZE), "little") if context.has_checksum else None
            stream.seek(header.offset + header.event_size - 1)
            if (verify_checksum and checksum != stored) or not log.read(1):
                return None
            stream.seek(header.offset + HEADER_SIZE)
            tail = CHECKSUM_SIZE if context.has_checksum else 0
            body = log.read_up_to(min(_HEAD_SIZE, header.event_size - HEADER_SIZE - tail))
            head = codec_for(header.type_code).parse(header, body, context)
            plan = plan_of(head)
        except BinlogError:
            return None
        finally:
            stream.seek(header.offset + framer.buffered)
        if plan is None or len(plan.columns) != head.column_count:
            return None
        return cls(EventFrame(header, b"", stored, context), head, plan, log)

    @staticmethod
    def is_passed(framer: EventFramer, log: OpenedLog) -> bool:
        """Continue after the next event of `framer`, if it is a large rows event; its checksum is not verified."""
        header = framer.big_header
        if header is None or header.type_code not in _IN_PARTS or not log.seekable:
            return False
        stream = cast("SeekableByteStream", log.stream)
        end = header.offset + header.event_size
        is_there = log.end() >= end
        stream.seek(end if is_there else header.offset + framer.buffered)
        if is_there:
            framer.pass_event(header)
        return is_there

    def parts(self) -> Iterator[tuple[RowsEvent, EventPart]]:
        """Yield the event once for each part of its images; the log is then at the end of the event.

        Raises:
            OSError: the log cannot be read, or became shorter.
        """
        from binlogio.rows.row_parts import row_parts  # noqa: PLC0415 - there may be no kernel

        header, log = self.frame.header, self.log
        tail = 0 if self.frame.checksum is None else CHECKSUM_SIZE
        begin = HEADER_SIZE + min(_HEAD_SIZE, header.event_size - HEADER_SIZE - tail)
        stream, is_first = cast("SeekableByteStream", log.stream), True
        stream.seek(header.offset + begin)
        for images, is_last in row_parts(self.head, self.plan, log.read, header.event_size - begin - tail):
            yield replace(self.head, images=images), EventPart(is_first, is_last)
            is_first = False
        stream.seek(header.offset + header.event_size)


def _checksum(log: OpenedLog, size: int) -> int:
    """Return the CRC32 of the next event, up to its checksum or to the end of the log."""
    from binlogio._kernel.primitives import crc32_of  # noqa: PLC0415 - there may be no kernel

    checksum, left = 0, size - CHECKSUM_SIZE
    while left and (data := log.read(min(_PIECE_SIZE, left))):
        checksum = crc32_of(data, checksum)
        left -= len(data)
    return checksum
