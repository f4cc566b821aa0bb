"""Counts the rows of a rows event without decoding values.

The kernel counts the rows of all events except those of 5.1 before GA, whose images have another layout. These, and
events that the kernel rejects, are decoded in Python, which raises the error for invalid ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlogio.events.rows import PartialUpdateRowsEvent, UpdateRowsEvent
from binlogio.rows.image import PRE_GA_EVENTS, decode_rows

if TYPE_CHECKING:
    from binlogio._kernel.event_scanner import ImagePlan
    from binlogio.events.rows import RowsEvent
    from binlogio.rows.plan import TablePlan


class RowCounter:
    """Counts the rows of events; caches the kernel's plan of each table."""

    def __init__(self) -> None:
        self._images: dict[int, tuple[TablePlan, ImagePlan]] = {}  # by id(plan): hashing is as slow as counting

    def of(self, event: RowsEvent, plan: TablePlan) -> int:
        """Return the number of rows of an event.

        Raises:
            BinlogFormatError: its images do not fit the table's columns.
        """
        rows = -1
        if event.header.type_code not in PRE_GA_EVENTS and event.column_count == len(plan.columns):
            after = (
                event.present_after if isinstance(event, (UpdateRowsEvent, PartialUpdateRowsEvent)) else event.present
            )
            rows = self._of(plan).row_count(event.operation, event.present, after, event.images)
        return sum(1 for _ in decode_rows(event, plan, ())) if rows < 0 else rows

    def _of(self, plan: TablePlan) -> ImagePlan:
        found = self._images.get(id(plan))
        if found is None:
            from binlogio.columnar.batches.records import TableRecords  # noqa: PLC0415 - needs the kernel

            found = self._images[id(plan)] = plan, TableRecords.skipped(plan)
        return found[1]
