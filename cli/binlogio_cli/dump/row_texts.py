"""Rows events as text by the compiled kernel. If the kernel rejects an event, the caller formats it in Python."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from binlogio.bounded_cache import BoundedCache
from binlogio.implementation import is_compiled
from binlogio.rows.image import PRE_GA_EVENTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from binlogio._kernel.row_decoder import ImageText
    from binlogio.events import RowsEvent
    from binlogio.rows.plan import TablePlan
    from binlogio.rows.texts import TextForm

_PART_BYTES: Final = 1 << 20  # images above this size are formatted in parts
_PART_TEXT: Final = 1 << 22
_LARGE: Final = 1 << 21  # of images of one row: other parts of large events are smaller


class RowTexts:
    """Formats rows events in one format; `form` is called if the kernel is compiled.

    `write` takes the text of large rows in pieces.
    """

    def __init__(self, form: Callable[[], TextForm], write: Callable[[bytes], object] | None = None) -> None:
        self._write = write
        self._form = form() if is_compiled() else None
        self._tables: BoundedCache[int, tuple[TablePlan, ImageText | None]] = BoundedCache()  # by `id` of the plan

    def parts(self, event: RowsEvent, plan: TablePlan) -> Iterator[tuple[bytes, int, bool]]:
        """Yield the text of an event in parts: text, number of rows, and whether it is the last part.

        If the kernel rejects the event, there is no last part. An event up to 1 MiB gives one part or none.
        """
        formatter = self._table_for(event, plan)
        if formatter is None:
            return
        table, after = formatter
        operation, images, at = event.operation, event.images, 0
        most = _PART_TEXT if len(images) > _PART_BYTES else 1 << 62
        while at < len(images):
            found = table.rows(operation, event.present, after, images, at, most)
            if found is None:
                return
            text, rows, at = found
            yield text, rows, at == len(images)

    def large(self, event: RowsEvent, plan: TablePlan) -> Callable[[], object] | None:
        """Return a function that writes the rows of a large part of an event in pieces, after all that was yielded.

        Returns None if the event is not large, or if the kernel rejects it: the text is discarded once to find out.
        """
        found, write = self._table_for(event, plan), self._write
        if len(event.images) < _LARGE or write is None or found is None:
            return None
        table, after = found

        def rows(write: Callable[[bytes], object]) -> bool:
            rest = table.rows(event.operation, event.present, after, event.images, 0, 1 << 62, write)
            if rest is not None:
                write(rest[0])
            return rest is not None

        return partial(rows, write) if rows(len) else None

    def _table_for(self, event: RowsEvent, plan: TablePlan) -> tuple[ImageText, bytes] | None:
        """Return the formatter of an event, and the bitmap of its after images; None if there is no formatter."""
        table = self.table(plan)
        if table is None or event.column_count != len(plan.columns) or event.header.type_code in PRE_GA_EVENTS:
            return None
        return table, getattr(event, "present_after", event.present)

    def table(self, plan: TablePlan) -> ImageText | None:
        """Return the row formatter of a table; None if the kernel does not support its rows."""
        if self._form is None:
            return None
        found = self._tables.get(id(plan))
        if found is None:
            from binlogio.rows.texts import image_text  # noqa: PLC0415 - there may be no kernel

            has_names = len({column.label for column in plan.columns}) == len(plan.columns)
            found = self._tables.put(id(plan), (plan, image_text(plan, self._form) if has_names else None))
        return found[1]
