"""Reads the events of a log as `binlogio.open` and `read_tables` do, to find those that cannot be read.

`verify` and `repair` pass whole events, piece after piece. Nothing is decoded here: the decoder of `binlogio.open`
parses the events, and the walk of `read_tables` reads the rows, with all columns and with dates as text. The callers
check sizes, checksums and the grammar of event groups.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from binlogio.columnar.batches.refusals import RowsParser
from binlogio.columnar.event_reader import WalkDecoder
from binlogio.columnar.record_types import RowSelection
from binlogio.columnar.rows_reader import DEFAULT_BATCH_ROWS
from binlogio.columnar.walk.table_plans import KnownPlans
from binlogio.constants import EVENT_SIZE_BYTES, HEADER_SIZE, TYPE_CODE_AT, EventType
from binlogio.errors import BinlogError
from binlogio.events import codec_for
from binlogio.events.base import parse_header
from binlogio.format.framing import EventFrame, EventFramer, check_event_size
from binlogio.options import DEFAULT_LIMITS, Limits
from binlogio.schema.source import DefinitionSource
from binlogio.storage.log_file import LogFile, OpenedLog

if TYPE_CHECKING:
    from collections.abc import Callable

    from binlogio.events.base import ParseContext
    from binlogio.schema.catalogue import IsLog
    from binlogio.schema.given import GivenDefinitions

    Read = Callable[[int], bytes]

_LOW_BITS: Final = 0xFFFFFFFF


class ReadCheck:
    """Reads the events of logs, one log after the other, and raises the error of the first one that cannot be read.

    Args:
        limits: the largest sizes that are accepted.
        definitions: table definitions given by the caller. DDL in the logs is followed, too.
    """

    def __init__(self, limits: Limits = DEFAULT_LIMITS, definitions: GivenDefinitions | None = None) -> None:
        self._selection = _every_row(limits, definitions)
        self._definitions = DefinitionSource(definitions, reads_text=False)
        self._known_plans = KnownPlans()
        self._name = ""
        self._head = b""
        self._events: _Events | None = None
        self._rows: _Rows | None = None
        self._next = 0  # offset at which the next piece continues the last one

    def begin_log(self, name: str, head: bytes, is_log: IsLog | None = None) -> None:
        """Begin a log, which `is_log` recognizes. `head` has its magic number and its first event.

        Raises:
            BinlogError: the first event cannot be read.
        """
        self._definitions.begin_log(name, is_log)
        self._name, self._head = name, head
        self._begin_at(len(head))

    def forget_group(self) -> None:
        """Forget the events of the current group, which is left out: reading restarts."""
        if self._rows is not None:
            self._rows.close()
        self._events = self._rows = None

    def rows_parser(self, name: str, is_log: IsLog | None = None) -> RowsParser:
        """Return a parser of the rows of a log for a caller that parses its events with `BinlogReader`."""
        self._definitions.begin_log(name, is_log)
        return RowsParser(self._selection, self._definitions)

    def take(self, events: bytes | memoryview, offset: int) -> None:
        """Read whole events, which begin at `offset` of the log.

        Reading restarts, without the table maps of a statement, if they do not follow the events read last, or if
        one of those could not be read. A group should begin there. A format description in the middle of a log must
        come alone; it is valid for all later events. A START_ENCRYPTION_EVENT that comes alone is not read: the events
        after it are passed decrypted.

        Raises:
            BinlogError: an event cannot be read. `offset` of the error is that of the first such event; the events
                before it can be read.
        """
        code, size = events[TYPE_CODE_AT], int.from_bytes(events[EVENT_SIZE_BYTES], "little")
        if code == EventType.START_ENCRYPTION_EVENT and size == len(events):
            return
        parser, rows = self._at(offset)
        error = None
        try:
            parser.take(events)
        except BinlogError as exc:
            error = exc
        try:
            rows.take(memoryview(events), offset)
        except BinlogError as exc:
            error = exc if error is None or (exc.offset or 0) < (error.offset or 0) else error
        self._end_piece(error, offset, offset + len(events))
        if code == EventType.FORMAT_DESCRIPTION_EVENT:
            self._head += events

    def take_large(self, head: bytes, read: Read, offset: int) -> None:
        """Read one rows event in parts: `read` returns its bytes from the first one on; `head` has some of these.

        Raises:
            BinlogError: the event cannot be read.
        """
        parser, rows = self._at(offset)
        header = parse_header(head, offset, parser.context)
        error = None
        try:
            check_event_size(header.event_size, offset, self._selection.limits)
            codec_for(header.type_code).parse(header, head[HEADER_SIZE:], parser.context)
            rows.take(read, offset)
        except BinlogError as exc:
            error = exc
        end = offset + header.event_size
        parser.pass_to(end, (header.log_pos - end) & _LOW_BITS if header.log_pos else None)
        self._end_piece(error, offset, end)

    def _at(self, offset: int) -> tuple[_Events, _Rows]:
        """Return the readers, for events from `offset` on."""
        if self._events is None or offset != self._next:
            self._begin_at(offset)
        return cast("_Events", self._events), cast("_Rows", self._rows)

    def _begin_at(self, offset: int) -> None:
        self.forget_group()
        self._events = _Events(self._head, offset, self._selection.limits)
        self._rows = _Rows(self._name, self._head, self._selection, self._definitions, self._known_plans)

    def _end_piece(self, error: BinlogError | None, offset: int, end: int) -> None:
        self._next = end
        if error is not None:
            self.forget_group()
            if error.offset is None or not offset <= error.offset < end:  # that of the format description
                error.offset = offset
            raise error


def unreadable_text(exc: BinlogError) -> str:
    """Return the text of an error without its place and its hint."""
    exc.file = exc.offset = exc.hint = None
    return str(exc)


def _every_row(limits: Limits, definitions: GivenDefinitions | None) -> RowSelection:
    """Return the selection of all rows and columns, as `read_tables` has it with `zero_dates="text"`."""
    return RowSelection(
        wants=lambda _schema, _table: True,
        columns=None,
        zero_dates="text",
        json_diffs="operations",
        verify_checksum=False,
        batch_rows=DEFAULT_BATCH_ROWS,
        limits=limits,
        definitions=definitions,
    )


class _Events:
    """Parses events as `binlogio.open` does."""

    def __init__(self, head: bytes, offset: int, limits: Limits) -> None:
        from binlogio._kernel.row_decoder import ParsedEvents  # noqa: PLC0415 - the kernel is optional

        self._framer = EventFramer(verify_checksum=False, limits=limits)
        self._decoder = WalkDecoder(
            ParsedEvents(opened_size=limits.opened_size, max_records=1, max_bytes=1, ask_gtid=None)
        )
        self.take(head)
        self.pass_to(offset, None)

    @property
    def context(self) -> ParseContext:
        """The format of the next event."""
        return self._framer.context

    def pass_to(self, offset: int, shift: int | None) -> None:
        """Continue with the event at `offset`. `shift` is log_pos minus end of the event before it, if known."""
        self._framer = self._framer.at(offset, shift)

    def take(self, events: bytes | memoryview) -> None:
        """Parse whole events.

        Raises:
            BinlogError: an event cannot be parsed; its offset is set.
        """
        framer, decoder = self._framer, self._decoder
        framer.feed(events)
        offset = framer.offset
        try:
            while True:
                decoder.cut(framer)
                offset = framer.offset
                frame = framer.next_frame()
                if not isinstance(frame, EventFrame):
                    break
                for _ in decoder.decode(frame):
                    pass
        except BinlogError as exc:
            exc.offset = offset
            raise


class _Rows:
    """Reads rows as `read_tables` does."""

    def __init__(
        self, name: str, head: bytes, selection: RowSelection, definitions: DefinitionSource, known_plans: KnownPlans
    ) -> None:
        from binlogio.columnar.batches.table_batches import TableBatcher  # noqa: PLC0415 - the kernel is optional
        from binlogio.columnar.walk.log_walk import LogWalk  # noqa: PLC0415

        self._pieces = _Pieces()
        opened = OpenedLog(self._pieces, self._pieces, "plain")
        self._walk = LogWalk(
            LogFile(name), opened, selection, TableBatcher, definitions=definitions, known_plans=known_plans
        )
        self.take(memoryview(head), 0)

    def take(self, source: memoryview | Read, offset: int) -> None:
        """Read the rows of whole events.

        Raises:
            BinlogError: a row cannot be read.
        """
        self._pieces.source = source
        self._walk.continue_at(offset)
        for _ in self._walk.read(None):
            pass

    def close(self) -> None:
        """Release memory."""
        self._walk.close()


class _Pieces:
    """A stream of the bytes of one piece after the other."""

    def __init__(self) -> None:
        self.source: memoryview | Read = memoryview(b"")

    def read(self, size: int = -1, /) -> bytes:
        """Return up to `size` bytes; empty at the end of the piece."""
        source = self.source
        if not isinstance(source, memoryview):
            return source(size)
        self.source = source[size:]
        return bytes(source[:size])

    def seek(self, offset: int, _whence: int = 0, /) -> int:
        """Do nothing: a piece begins where it has to."""
        return offset

    def close(self) -> None:
        """Release the piece."""
        self.source = memoryview(b"")
