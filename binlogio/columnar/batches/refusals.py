"""Raises the errors for events that the compiled kernel rejects.

The kernel reports only that an event is invalid. The construct parser (pure Python) parses the event again and raises
the detailed error, so that both implementations raise the same one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np
import pyarrow as pa

from binlogio.columnar.fallback import ROWS_TYPES, RowsWalk
from binlogio.errors import BinlogFormatError
from binlogio.events import EVENT_CODECS
from binlogio.events.base import EventHeader, event_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from binlogio._kernel.event_scanner import EventScanner
    from binlogio.columnar.record_types import RowSelection
    from binlogio.events.base import ParseContext
    from binlogio.events.rows import RowsEvent
    from binlogio.events.transaction_payload import TransactionPayloadEvent
    from binlogio.format.framing import EventFrame
    from binlogio.rows.plan import TablePlan
    from binlogio.schema.source import DefinitionSource


def refuse_event(
    frame: EventFrame, selection: RowSelection, table: TablePlan | None, definitions: DefinitionSource
) -> None:
    """Raise the construct parser's error for an event.

    `table` is the plan for a rows event; None if no table map defines it.

    Raises:
        BinlogError: the construct parser rejects the event, or an event inside it.
    """
    is_rows_event = frame.header.type_code in ROWS_TYPES
    for _ in RowsWalk(selection, definitions, table if is_rows_event else None).take(frame):
        pass  # valid rows before the error


def refuse_payload(
    event: TransactionPayloadEvent,
    context: ParseContext,
    chunks: Iterator[bytes],
    start: int,
    selection: RowSelection,
    table: TablePlan | None,
    definitions: DefinitionSource,
) -> None:
    """Raise the construct parser's error for the events of a payload from byte `start` on.

    `table` is the plan for the event there, if it is a rows event. The kernel accepted the events before it; they are
    not parsed again, because they may have millions of rows.

    Raises:
        BinlogError: the construct parser rejects an event.
    """
    for _ in RowsWalk(selection, definitions, table).take_payload(event, context, chunks, start):
        pass


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
        hint="set BINLOGIO_KERNEL=construct to read it without the kernel",
    )
