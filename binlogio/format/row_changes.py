"""Decodes rows events to row changes: with the compiled kernel, or in Python (`binlogio.rows.image`).

Python is used without the kernel, and for events that the kernel refuses; so it raises all errors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from binlogio.bounded_cache import BoundedCache
from binlogio.events.rows import PartialUpdateRowsEvent, RowsEvent, UpdateRowsEvent
from binlogio.implementation import is_compiled
from binlogio.rows.image import PRE_GA_EVENTS, RowChange, decode_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binlogio._kernel.python_rows import RowDecoder
    from binlogio.rows.plan import TablePlan

_decoders: Final[BoundedCache[int, tuple[TablePlan, RowDecoder]]] = BoundedCache()
"""Decoders by the identity of a plan, because computing the hash of a plan takes as long as decoding a row."""


def row_changes(event: RowsEvent, plan: TablePlan, *, compiled: bool | None = None) -> Iterator[RowChange]:
    """Return an iterator over the row changes of a rows event; `plan` is the plan of its table map.

    `compiled` is the result of `is_compiled()`, which the caller can cache because the call takes as long as decoding a
    row; None calls it.

    Raises:
        BinlogFormatError: as in `binlogio.rows.image.decode_rows`.
    """
    may_decode = event.column_count == len(plan.columns) and event.header.type_code not in PRE_GA_EVENTS
    if may_decode and (is_compiled() if compiled is None else compiled):
        after = event.present_after if isinstance(event, (UpdateRowsEvent, PartialUpdateRowsEvent)) else event.present
        changes = _decoder(plan).changes(event.operation, event.present, after, event.images)
        if changes is not None:
            return iter(changes)
    return decode_rows(event, plan)


def _decoder(plan: TablePlan) -> RowDecoder:
    found = _decoders.get(id(plan))
    if found is None:
        from binlogio.rows.unpacking import row_decoder  # noqa: PLC0415 - the kernel may not be installed

        found = _decoders.put(id(plan), (plan, row_decoder(plan)))
    return found[1]
