"""Row changes of rows events for targets that write rows, and encoded rows events for targets that accept events.

JSON diffs are applied if the before image has the document. The compiled kernel encodes rows events with the
post-header of the current version; `binlogio.format.encoder` encodes other events.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from binlogio.constants import EventType
from binlogio.dotted_names import dotted_name
from binlogio.errors import Hint, ReplayError
from binlogio.events.rows import DeleteRowsEvent, PartialUpdateRowsEvent, UpdateRowsEvent, WriteRowsEvent
from binlogio.format.row_changes import row_changes as changes_of
from binlogio.implementation import is_compiled
from binlogio.rows.image import PRE_GA_EVENTS
from binlogio.values.absent import ABSENT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from binlogio.events import RowsEvent
    from binlogio.replay.steps import RowsStep
    from binlogio.schema.ddl.foreign_keys import Cascade

Image = tuple[Any, ...]
Change = tuple[Image | None, Image | None]
"""Before and after image: a value for each column, ABSENT if the image does not have the column. None if missing."""


def row_changes(step: RowsStep) -> Iterator[Change]:
    """Yield the changes of a step.

    Raises:
        ReplayError: the log does not contain enough information about the table.
        BinlogFormatError: an image does not fit its table.
    """
    if step.plan is None:
        raise step.refusal if step.refusal is not None else AssertionError(step)
    is_partial = type(step.head) is PartialUpdateRowsEvent
    for change in changes_of(step.event, step.plan):
        before, after = change.before, change.applied() if is_partial else change.after
        yield before.values if before is not None else None, after.values if after is not None else None


def lost_cascades(step: RowsStep, changes: Iterable[Change]) -> tuple[Cascade, ...]:
    """Return the foreign keys that changed other tables in a step: for updates, those whose columns changed."""
    if not step.cascades or step.plan is None or isinstance(step.head, DeleteRowsEvent):
        return step.cascades
    labels = [column.label.casefold() for column in step.plan.columns]
    key = [position for position, _ in step.plan.primary_key]
    some = list(changes)

    def is_changed(cascade: Cascade) -> bool:
        names = [name.casefold() for name in cascade.columns]
        if not set(names) <= set(labels):
            return True
        positions = [labels.index(name) for name in names] or key or range(len(labels))
        return any(
            after[at] is not ABSENT and (before[at] is ABSENT or before[at] != after[at])
            for before, after in some
            if before is not None and after is not None
            for at in positions
        )

    return tuple(cascade for cascade in step.cascades if is_changed(cascade))


def cascades_refused(step: RowsStep, cascades: tuple[Cascade, ...]) -> ReplayError:
    """Return the error for a change whose effects on other tables are not in the log."""
    children = ", ".join(sorted({dotted_name(*one.child) for one in cascades}))
    return ReplayError(
        f"a foreign key (ON DELETE or ON UPDATE) changed rows of {children} together with this row,"
        " and servers do not log such changes",
        field=dotted_name(step.table_map.schema, step.table_map.table),
        hint=Hint.IGNORE_CASCADES,
    )


TYPE_CODES: Final[dict[type, int]] = {
    WriteRowsEvent: EventType.WRITE_ROWS_EVENT,
    UpdateRowsEvent: EventType.UPDATE_ROWS_EVENT,
    DeleteRowsEvent: EventType.DELETE_ROWS_EVENT,
}


def has_quick_frame(event: RowsEvent) -> bool:
    """Return whether `rows_frame_of` can encode the event."""
    return (
        type(event) in TYPE_CODES and event.header.type_code not in PRE_GA_EVENTS and not event.extra and is_compiled()
    )


def rows_frame_of(event: RowsEvent, table_id: int, *, checksum: bool = False) -> bytes:
    """Return the bytes of a rows event with the post-header of the current version, without log_pos and header flags.

    Raises:
        BinlogFormatError: the event is larger than 4 GiB.
    """
    from binlogio._kernel.row_encoder import rows_frame  # noqa: PLC0415 - the kernel may not be installed

    return rows_frame(
        event.images,
        type_code=TYPE_CODES[type(event)],
        timestamp=event.header.timestamp,
        server_id=event.header.server_id,
        table_id=table_id,
        flags=event.flags,
        column_count=event.column_count,
        present=event.present,
        present_after=event.present_after if isinstance(event, UpdateRowsEvent) else b"",
        checksum=checksum,
    )
