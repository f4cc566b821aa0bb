"""Raises the errors for events that the compiled kernel rejects.

The kernel reports only that an event is invalid. The construct parser (pure Python) parses the event again and raises
the detailed error, which `binlogio.open` raises, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

import numpy as np
import pyarrow as pa

from binlogio.columnar.record_types import RecordType
from binlogio.columnar.row_values import row_images
from binlogio.constants import EventType
from binlogio.errors import BinlogFormatError, MissingTableMap, UnsupportedFeature
from binlogio.events import EVENT_CODECS, ROWS_TYPES
from binlogio.events.base import EventHeader, UnknownEvent, event_name
from binlogio.events.format_description import BINLOG_VERSION
from binlogio.events.rows import POST_HEADER_V0, POST_HEADER_V1, RowsEvent
from binlogio.events.table_map import TableMapEvent
from binlogio.format.decoder import Decoder
from binlogio.format.groups import GTID_EVENTS, EventGroup
from binlogio.rows.image import decode_rows
from binlogio.rows.plan import resolve_plan
from binlogio.storage.compression import decompress_zstd

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from binlogio._kernel.event_scanner import EventScanner
    from binlogio.columnar.record_types import RowSelection
    from binlogio.events.base import ParseContext
    from binlogio.events.transaction_payload import TransactionPayloadEvent
    from binlogio.format.framing import EventFrame
    from binlogio.rows.plan import TablePlan
    from binlogio.schema.source import DefinitionSource


OPENED_TYPES: Final = ROWS_TYPES | {
    EventType.TABLE_MAP_EVENT,
    EventType.GTID_LOG_EVENT,
    EventType.ANONYMOUS_GTID_LOG_EVENT,
    EventType.GTID_TAGGED_LOG_EVENT,
    EventType.MARIADB_GTID_EVENT,
    EventType.TRANSACTION_PAYLOAD_EVENT,
}
"""The event types that rows depend on."""
_STATEMENTS: Final = (EventType.QUERY_EVENT, EventType.QUERY_COMPRESSED_EVENT)


class RowsParser:
    """Parses the events of a log that rows depend on, and their selected rows, to raise the error of an invalid one.

    Args:
        selection: selects rows; its conditions on event groups are ignored.
        definitions: the columns of tables.
        table: the table of rows events that have no table map.
    """

    def __init__(self, selection: RowSelection, definitions: DefinitionSource, table: TablePlan | None = None) -> None:
        self._selection = selection
        self._definitions = definitions
        self._decoder = Decoder(decompress=decompress_zstd, only=OPENED_TYPES)
        self._types: dict[TablePlan, RecordType] = {}
        self._table = table

    def take(self, frame: EventFrame) -> None:
        """Parse an event.

        Raises:
            BinlogError: the event, an event inside it, or a row, does not fit its layout.
        """
        code = frame.header.type_code
        if code in _STATEMENTS:
            self._definitions.statement_at = frame.header.offset
            self._definitions.follow_body(code, frame.body, frame.context)
        if frame.context.binlog_version != BINLOG_VERSION:
            _check_no_rows(frame)
        elif code in OPENED_TYPES and not (code in ROWS_TYPES and self._skips(frame)):
            self._parse(self._decoder.decode(frame), frame.context)

    def take_payload(
        self, event: TransactionPayloadEvent, context: ParseContext, chunks: Iterator[bytes], start: int
    ) -> None:
        """Parse the events of a payload from byte `start` on, with the arguments of `Decoder.decode_payload`.

        Raises:
            BinlogError: as `take`.
        """
        self._parse(self._decoder.decode_payload(event, context, chunks, start), context)

    def _parse(self, events: Iterable[Any], context: ParseContext) -> None:
        for event in events:
            if isinstance(event, TableMapEvent):
                self._type_of(self._plan(event, context))
            elif isinstance(event, RowsEvent):
                self._parse_rows(event, context)
            elif isinstance(event, GTID_EVENTS):
                _ = EventGroup(event).facts  # raises the error of an invalid GTID
            elif isinstance(event, UnknownEvent) and event.header.type_code in _STATEMENTS:
                self._definitions.follow_body(event.header.type_code, event.body, context)

    def _skips(self, frame: EventFrame) -> bool:
        """Return True for a rows event whose table is not selected; a statement that it ends is ended."""
        body, code = frame.body, frame.header.type_code
        size = frame.context.post_header_size(code, POST_HEADER_V1)
        id_size = 4 if size == POST_HEADER_V0 else 6
        table = self._decoder.known_table_map(int.from_bytes(body[:id_size], "little"))
        if table is None or len(body) < max(size, id_size + 2) or self._selection.wants(table.schema, table.table):
            return False
        if body[id_size] & 1:
            self._decoder.end_statement()
        return True

    def _parse_rows(self, event: RowsEvent, context: ParseContext) -> None:
        header, selection = event.header, self._selection
        try:
            kind = self._type_of(self._plan(self._decoder.table_map(event), context))
        except MissingTableMap:
            if self._table is None:
                raise
            kind = self._type_of(self._table)
        if selection.wants(kind.plan.schema, kind.plan.table) and selection.where.wants_event(
            pos=header.offset, timestamp=header.timestamp, server_id=header.server_id, op=event.operation.op
        ):
            row_images(event, kind.plan, None if selection.mixed else kind)
        elif header.inner is not None:  # the kernel counts them
            for _ in decode_rows(event, kind.plan, ()):
                pass

    def _plan(self, event: TableMapEvent, context: ParseContext) -> TablePlan:
        if self._selection.wants(event.schema, event.table):
            return self._definitions.plan(event, context)
        return resolve_plan(event, context)

    def _type_of(self, plan: TablePlan) -> RecordType:
        found = self._types.get(plan)
        if found is None:
            selection = self._selection
            is_typed = selection.wants(plan.schema, plan.table) and not selection.mixed
            found = self._types[plan] = RecordType.of(
                plan,
                selection.columns_of(plan) if is_typed else (),
                zero_dates=selection.zero_dates,
                json_diffs=selection.json_diffs,
            )
        return found


def _check_no_rows(frame: EventFrame) -> None:
    """Raise for a rows event in a log of a server version without rows events."""
    if frame.header.type_code in ROWS_TYPES:
        raise UnsupportedFeature(
            f"a log of format version {frame.context.binlog_version} cannot contain rows events",
            offset=frame.header.offset,
            event_type=event_name(frame.header.type_code),
        )


def rows_event(
    code: int, pos: int, column_count: int, present: bytes, present_after: bytes, images: bytes
) -> RowsEvent:
    """Return a rows event from the kernel's data, with the fields needed to decode its rows."""
    codec = EVENT_CODECS[code]
    common: dict[str, Any] = {"table_id": 0, "flags": 0, "extra": b"", "column_count": column_count, "present": present}
    if "present_after" in codec.names:
        common["present_after"] = present_after
    event: RowsEvent = codec.event_class(images=images, header=EventHeader(type_code=code, offset=pos), **common)
    return event


class RefusedRows:
    """Finds the first row that the kernel rejects, raises the error for it, and cuts batches before it.

    Args:
        router: has the rows events.
        plan_of: returns the plan of a table by its number; None: the table is not selected.
        check: raises the construct parser's error for the rows of an event, given the number of its table; returns if
            the rows are valid.
    """

    def __init__(
        self, router: EventScanner, plan_of: Callable[[int], TablePlan | None], check: Callable[[RowsPart, int], None]
    ) -> None:
        self._router = router
        self._plan_of = plan_of
        self._check = check
        self._first: tuple[int, int] | None = None  # position and first row number of the rejected event

    def forget(self) -> None:
        """Forget the rejected event, before other rows events are read."""
        self._first = None

    def refuse(
        self, last: int, start: tuple[int, int] | None = None, *, first_row: int = 0, first_byte: int = 0
    ) -> NoReturn:
        """Raise the construct parser's error for the first rows event, up to number `last`, with an invalid row.

        Args:
            last: the number of an event that the kernel rejects.
            start: row and byte of that event before which the kernel accepted all rows. The construct parser takes
                microseconds for a row, and a compressed event may have millions.
            first_row: number of rows before the event, if it is a part of a larger event.
            first_byte: bytes of images before the event, if it is a part of a larger event.
        """
        if start is not None:
            row, at = start
            self._check_event(last, at, first_row=first_row + row, first_byte=first_byte + at)
        for number in range(last + 1):
            self._check_event(number, 0, first_row=first_row, first_byte=first_byte)
        _, _, pos, _, _, _ = self._router.rows_event(last)
        raise unreadable(pos, None)

    def _check_event(self, number: int, at: int, *, first_row: int, first_byte: int) -> None:
        """Check the images of rows event `number` from byte `at` on."""
        code, table, pos, present, present_after, images = self._router.rows_event(number)
        plan = self._plan_of(table)
        self._first = pos, self._router.first_row(number)
        if plan is not None:
            event = rows_event(code, pos, len(plan.columns), present, present_after, images[at:])
            self._check(RowsPart(event, first_row, first_byte), table)

    def rows_before(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows of a batch before the rejected event, in new arrays; all rows if none was rejected.

        A slice is not sufficient: the children of a struct keep their length in it, and after the rejected row they
        hold bytes that were never checked.
        """
        if self._first is None:
            return batch
        pos, row = (batch.column(name).to_numpy() for name in ("pos", "row"))
        refused_pos, refused_row = self._first
        refused = (pos > refused_pos) | ((pos == refused_pos) & (row >= refused_row))
        return batch.take(pa.array(np.arange(refused.argmax()))) if refused.any() else batch


class RowsPart(NamedTuple):
    """The last rows of an event: an event with their images, and the rows and image bytes before them."""

    event: RowsEvent
    first_row: int
    first_byte: int


def unreadable(offset: int, type_code: int | None) -> BinlogFormatError:
    """Return the internal error for an event that the kernel rejects and the construct parser accepts."""
    return BinlogFormatError(
        "the compiled kernel cannot read the event",
        offset=offset,
        event_type=None if type_code is None else event_name(type_code),
        hint="`dump` reads it event by event; report it as a defect of binlogio",
    )
