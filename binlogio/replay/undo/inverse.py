"""Inverse changes: reverses the rows of one event, as values and as an event.

    insert of a row    -> delete of it           needs the key of the row; all columns where its table has none
    delete of a row    -> insert of it           needs all columns
    update of a row    -> update to what it was  needs the old value of each column that is in the after image, and the
                                                 key as for an insert

The rows of an event are reversed from the last to the first. In an event, images that need no change keep their bytes.

Source: MariaDB, sql/log_event_client.cc, Rows_log_event::change_to_flashback_event.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from binlogio.constants import EventType, RowsFlag
from binlogio.errors import BinlogFormatError, Hint, ReplayError, UnsupportedFeature
from binlogio.events.base import EventHeader, event_name
from binlogio.events.rows import DeleteRowsEvent, PartialUpdateRowsEvent, UpdateRowsEvent, WriteRowsEvent
from binlogio.replay.row_changes import row_changes
from binlogio.rows.cut_images import cut_images, widths_of
from binlogio.rows.image import PRE_GA_EVENTS, RowChange, RowImage, encode_rows
from binlogio.values.absent import ABSENT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from binlogio.events import RowsEvent
    from binlogio.replay.row_changes import Change, Image
    from binlogio.replay.transactions import RowsStep
    from binlogio.rows.plan import TablePlan

FULL_IMAGE: Final = "the source needs binlog_row_image=FULL"
FULL_DOCUMENT: Final = "the source needs binlog_row_image=FULL and binlog_row_value_options=''"

_STMT_END: Final = int(RowsFlag.STMT_END)  # as a number: an operation of flags takes a microsecond

_INVERSE: Final = {
    EventType.WRITE_ROWS_EVENT_V1: EventType.DELETE_ROWS_EVENT_V1,
    EventType.UPDATE_ROWS_EVENT_V1: EventType.UPDATE_ROWS_EVENT_V1,
    EventType.DELETE_ROWS_EVENT_V1: EventType.WRITE_ROWS_EVENT_V1,
    EventType.WRITE_ROWS_EVENT: EventType.DELETE_ROWS_EVENT,
    EventType.UPDATE_ROWS_EVENT: EventType.UPDATE_ROWS_EVENT,
    EventType.DELETE_ROWS_EVENT: EventType.WRITE_ROWS_EVENT,
    EventType.PARTIAL_UPDATE_ROWS_EVENT: EventType.UPDATE_ROWS_EVENT,
    EventType.WRITE_ROWS_COMPRESSED_EVENT_V1: EventType.DELETE_ROWS_EVENT_V1,
    EventType.UPDATE_ROWS_COMPRESSED_EVENT_V1: EventType.UPDATE_ROWS_EVENT_V1,
    EventType.DELETE_ROWS_COMPRESSED_EVENT_V1: EventType.WRITE_ROWS_EVENT_V1,
    EventType.WRITE_ROWS_COMPRESSED_EVENT: EventType.DELETE_ROWS_EVENT,
    EventType.UPDATE_ROWS_COMPRESSED_EVENT: EventType.UPDATE_ROWS_EVENT,
    EventType.DELETE_ROWS_COMPRESSED_EVENT: EventType.WRITE_ROWS_EVENT,
}


def check_images(step: RowsStep) -> TablePlan:
    """Return the plan of a step whose images have all that an undo needs.

    Raises:
        ReplayError: facts about the table are missing in the log, or its images lack columns; the message says which.
        BinlogFormatError: the event is of another table than its table map.
    """
    if step.plan is None:
        raise step.refusal if step.refusal is not None else AssertionError(step)
    plan, event = step.plan, step.head
    if event.column_count != len(plan.columns):
        raise BinlogFormatError(
            "the rows event and its table map have different numbers of columns",
            offset=step.offset,
            event_type=event_name(event.header.type_code),
            field=plan.full_name,
            expected=len(plan.columns),
            found=event.column_count,
        )
    assumed = [column.label for column in plan.columns if column.fsp_assumed]
    if assumed:
        raise ReplayError(
            "the log does not say how many fraction digits the columns have, so the end of a row image is not known",
            offset=step.offset,
            field=plan.full_name,
            found=", ".join(assumed),
            hint=Hint.TABLE_DEFINITION,
        )
    present = logged = _positions(event.present, plan)
    if isinstance(event, DeleteRowsEvent):
        needed, known = _all(plan), present
    elif isinstance(event, WriteRowsEvent):
        needed, known = _row_positions(plan), present
    else:
        after = _positions(event.present_after, plan)
        logged = present | after
        needed, known = after | (_row_positions(plan) - logged), present
    computed = {place for place, column in enumerate(plan.columns) if column.generated and place not in logged}
    missing = sorted(needed - known - computed)
    if missing:
        needs_all = isinstance(event, DeleteRowsEvent) or not plan.primary_key
        expected = "all columns" if needs_all else "the key and the changed columns"
        raise ReplayError(
            "the changes cannot be undone: their row images lack columns",
            offset=step.offset,
            event_type=event_name(event.header.type_code),
            field=plan.full_name,
            expected=f"{expected} in before and after image",
            found=f"no value of {', '.join(plan.columns[position].label for position in missing)}",
            hint=FULL_DOCUMENT if isinstance(event, PartialUpdateRowsEvent) else FULL_IMAGE,
        )  # fmt: skip
    return plan


def inverse_changes(step: RowsStep) -> list[Change]:
    """Return the inverse changes in order; an update goes from the after image to the before image.

    Raises:
        ReplayError: as `check_images`.
        BinlogFormatError: an image does not fit its table.
    """
    return reversed_changes(step, check_images(step))


def reversed_changes(step: RowsStep, plan: TablePlan) -> list[Change]:
    """Return `inverse_changes` of a step whose images have all that is needed."""
    event = step.head
    changes = list(row_changes(step))
    changes.reverse()
    if isinstance(event, UpdateRowsEvent | PartialUpdateRowsEvent):
        if len(_positions(event.present_after, plan)) == len(plan.columns):
            return [(after, before) for before, after in changes]
        return [(_now(before or (), after or ()), before) for before, after in changes]
    return [(after, before) for before, after in changes]


def inverse_event(step: RowsStep) -> tuple[RowsEvent, int]:
    """Return the rows event that reverses the rows, as a statement of its own, and how many rows it has.

    Raises:
        ReplayError: as `check_images`.
        UnsupportedFeature: the event is of 5.1 before GA, whose images cannot be written.
        BinlogFormatError: an image does not fit its table.
    """
    plan, event = check_images(step), step.event
    if event.header.type_code in PRE_GA_EVENTS:
        raise UnsupportedFeature(
            "row images of MySQL 5.1 before GA can be read, but not written", offset=step.offset, hint=Hint.UNDO_AS_SQL
        )
    header = EventHeader(
        timestamp=event.header.timestamp,
        type_code=_INVERSE[event.header.type_code],
        server_id=event.header.server_id,
        flags=event.header.flags,
    )
    common = {
        "table_id": event.table_id,
        "flags": event.flags | _STMT_END,
        "extra": b"",
        "column_count": event.column_count,
        "header": header,
    }
    if isinstance(event, WriteRowsEvent | DeleteRowsEvent):
        kind = DeleteRowsEvent if isinstance(event, WriteRowsEvent) else WriteRowsEvent
        images = cut_images(event.images, (widths_of(plan, event.present),))
        return kind(present=event.present, images=b"".join(reversed(images)), **common), len(images)
    if isinstance(event, PartialUpdateRowsEvent) or event.present != event.present_after:
        return _by_value(step, plan, common)
    widths = widths_of(plan, event.present)
    images = cut_images(event.images, (widths, widths))
    swapped = b"".join(reversed(images))
    return (
        UpdateRowsEvent(present=event.present_after, present_after=event.present, images=swapped, **common),
        len(images) // 2,
    )


def _by_value(step: RowsStep, plan: TablePlan, common: dict[str, Any]) -> tuple[UpdateRowsEvent, int]:
    """Return an update whose images are not there as they are needed: what the row is now comes from both."""
    changes = [
        RowChange(RowImage(plan, before or ()), RowImage(plan, after or ())) for before, after in inverse_changes(step)
    ]
    event = step.head
    count = len(event.present)
    now = int.from_bytes(event.present, "little") | int.from_bytes(event.present_after, "little")
    present = now.to_bytes(count, "little")
    images = encode_rows(changes, plan, present, event.present)
    return UpdateRowsEvent(present=present, present_after=event.present, images=images, **common), len(changes)


def _now(before: Sequence[Any], after: Sequence[Any]) -> Image:
    """Return the row as the change left it."""
    return tuple(old if new is ABSENT else new for old, new in zip(before, after, strict=True))


def _positions(bitmap: bytes, plan: TablePlan) -> set[int]:
    return set(_bits_of(bitmap, len(plan.columns)))


@lru_cache(maxsize=256)
def _bits_of(bitmap: bytes, count: int) -> frozenset[int]:
    bits = int.from_bytes(bitmap, "little")
    return frozenset(position for position in range(count) if bits >> position & 1)


def _all(plan: TablePlan) -> set[int]:
    return {column.position for column in plan.columns}


def _row_positions(plan: TablePlan) -> set[int]:
    """Return the columns that tell a row: the primary key, or all."""
    return {position for position, _ in plan.primary_key} or _all(plan)
