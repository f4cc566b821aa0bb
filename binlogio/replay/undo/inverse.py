"""Inverse changes: reverses the rows of one event, as values and as an event.

    insert of a row    -> delete of it           needs the key of the row; all columns where its table has none
    delete of a row    -> insert of it           needs all columns
    update of a row    -> update to what it was  needs the old value of each column that is in the after image, and the
                                                 key as for an insert

The rows of an event are reversed from the last to the first. In an event, images that need no change keep their bytes.

As an event, an update of a table whose key is known gets a minimal after image: only the columns that the change had
changed (the bytes of their values differ), so that what others changed since in other columns stays. Its before image
is complete, but servers compare only the key. (They compare all of it if their table has no key; and an undo of the
undo needs it.) An event has one bitmap, so rows with several sets of changed columns become several events. Rows
without a changed column need none. `WholeImages` are the exceptions.

The delete that reverses an insert has no foreign key actions, as the insert had none: a CASCADE would change rows that
came later. (Those of an update stay, since they reverse what the update did to other tables.)

Source: MariaDB, sql/log_event_client.cc, Rows_log_event::change_to_flashback_event.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from binlogio.constants import EventType, RowsFlag
from binlogio.errors import BinlogFormatError, Hint, ReplayError, UnsupportedFeature
from binlogio.events.base import EventHeader, event_name
from binlogio.events.rows import DeleteRowsEvent, PartialUpdateRowsEvent, UpdateRowsEvent, WriteRowsEvent
from binlogio.replay.row_changes import row_changes
from binlogio.rows.cut_images import cut_images, cut_values, join_values, widths_of
from binlogio.rows.image import PRE_GA_EVENTS, RowChange, RowImage, encode_rows
from binlogio.values.absent import ABSENT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from binlogio.events import RowsEvent
    from binlogio.replay.row_changes import Change, Image
    from binlogio.replay.steps import RowsStep
    from binlogio.rows.plan import TablePlan

FULL_IMAGE: Final = "the source needs binlog_row_image=FULL"
FULL_DOCUMENT: Final = "the source needs binlog_row_image=FULL and binlog_row_value_options=''"


class WholeImages(Enum):
    """Why the after images of an update are not minimal."""

    NO_KEY = "it has no key"  # servers compare all columns, and do not find a row that others changed since
    UNKNOWN_KEY = "its key is not known"
    GENERATED = "servers of MariaDB before 11.8 do not compute its generated columns again"
    UNDEFINED = "its definition is not known, and servers of MariaDB do not compute generated columns again"


_STMT_END: Final = int(RowsFlag.STMT_END)  # as a number: an operation of flags takes a microsecond
_NO_ACTIONS: Final = int(RowsFlag.NO_FOREIGN_KEY_CHECKS)

INVERSE_TYPES: Final = {
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


def whole_images(step: RowsStep, plan: TablePlan, *, is_mariadb: bool) -> WholeImages | None:
    """Return why the inverse of an update writes all columns; None if it writes only those that the update changed.

    MySQL 9.7 and MariaDB 11.8.9 compute generated columns from the row. MariaDB 10.11 takes stored ones from the image,
    and the old value of an indexed virtual column too, and so the row gets wrong values and the index is corrupted if
    others changed the columns that they depend on. MariaDB 11.8.9 does not log generated columns of updates.
    """
    if not plan.primary_key:
        return WholeImages.NO_KEY if plan.tells_generated else WholeImages.UNKNOWN_KEY
    if is_mariadb and not plan.tells_generated:
        return WholeImages.UNDEFINED
    logged = _positions(step.head.present, plan) | _positions(step.head.present_after, plan)
    if is_mariadb and any(plan.columns[position].generated for position in logged):
        return WholeImages.GENERATED
    return None


def inverse_events(step: RowsStep, *, is_mariadb: bool) -> tuple[Sequence[RowsEvent], int, WholeImages | None]:
    """Return the rows events that reverse the rows, in order, as one statement; and how many rows the step has.

    There is no event if no row of an update changed. The last value is that of `whole_images`.

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
        type_code=INVERSE_TYPES[event.header.type_code],
        server_id=event.header.server_id,
        flags=event.header.flags,
    )
    common = {
        "table_id": event.table_id,
        "flags": event.flags | inverse_flags(event),
        "extra": b"",
        "column_count": event.column_count,
        "header": header,
    }
    if isinstance(event, WriteRowsEvent | DeleteRowsEvent):
        kind = DeleteRowsEvent if isinstance(event, WriteRowsEvent) else WriteRowsEvent
        images = cut_images(event.images, (widths_of(plan, event.present),))
        return [kind(present=event.present, images=b"".join(reversed(images)), **common)], len(images), None
    if isinstance(event, PartialUpdateRowsEvent) or event.present != event.present_after:
        update = _by_value(step, plan, common)
        kinds = widths_of(plan, update.present), widths_of(plan, update.present_after)
        images = cut_images(update.images, kinds)
    else:
        widths = widths_of(plan, event.present)
        images = cut_images(event.images, (widths, widths))
        images.reverse()
        update = UpdateRowsEvent(present=event.present_after, present_after=event.present, images=b"", **common)
    whole = whole_images(step, plan, is_mariadb=is_mariadb)
    events = _minimal(update, images, plan) if whole is None else [replace(update, images=b"".join(images))]
    return events, len(images) // 2, whole


def inverse_flags(event: RowsEvent) -> int:
    """Return the flags that are set in the last event that reverses an event."""
    return _STMT_END | _NO_ACTIONS if isinstance(event, WriteRowsEvent) else _STMT_END


def _minimal(update: UpdateRowsEvent, images: Sequence[bytes], plan: TablePlan) -> list[UpdateRowsEvent]:
    """Return updates with minimal after images: one for each run of rows with the same changed columns.

    `update` has the bitmaps of `images`, which are before and after image in turn.
    """
    now, then = (_in_order(bits, plan) for bits in (update.present, update.present_after))
    now_widths, then_widths = widths_of(plan, update.present), widths_of(plan, update.present_after)
    places = [now.index(position) for position in then]
    runs: list[tuple[list[int], list[bytes]]] = []
    for before, after in zip(images[::2], images[1::2], strict=True):
        old, new = cut_values(before, now_widths), cut_values(after, then_widths)
        changed = [at for at, (value, place) in enumerate(zip(new, places, strict=True)) if value != old[place]]
        if not changed:
            continue
        if not runs or runs[-1][0] != changed:
            runs.append((changed, []))
        runs[-1][1].extend((before, join_values([new[at] for at in changed], plan)))
    events: list[UpdateRowsEvent] = []
    for number, (changed, run) in enumerate(runs, 1):
        flags = update.flags if number == len(runs) else update.flags & ~_STMT_END
        bits = sum(1 << then[at] for at in changed).to_bytes(len(update.present_after), "little")
        events.append(replace(update, flags=flags, present_after=bits, images=b"".join(run)))
    return events


def _by_value(step: RowsStep, plan: TablePlan, common: dict[str, Any]) -> UpdateRowsEvent:
    """Return an update whose images are not there as they are needed: what the row is now comes from both."""
    changes = [
        RowChange(RowImage(plan, before or ()), RowImage(plan, after or ())) for before, after in inverse_changes(step)
    ]
    event = step.head
    count = len(event.present)
    now = int.from_bytes(event.present, "little") | int.from_bytes(event.present_after, "little")
    present = now.to_bytes(count, "little")
    images = encode_rows(changes, plan, present, event.present)
    return UpdateRowsEvent(present=present, present_after=event.present, images=images, **common)


def _now(before: Sequence[Any], after: Sequence[Any]) -> Image:
    """Return the row as the change left it."""
    return tuple(old if new is ABSENT else new for old, new in zip(before, after, strict=True))


def _positions(bitmap: bytes, plan: TablePlan) -> set[int]:
    return set(_bits_of(bitmap, len(plan.columns)))


def _in_order(bitmap: bytes, plan: TablePlan) -> list[int]:
    return sorted(_bits_of(bitmap, len(plan.columns)))


@lru_cache(maxsize=256)
def _bits_of(bitmap: bytes, count: int) -> frozenset[int]:
    bits = int.from_bytes(bitmap, "little")
    return frozenset(position for position in range(count) if bits >> position & 1)


def _all(plan: TablePlan) -> set[int]:
    return {column.position for column in plan.columns}


def _row_positions(plan: TablePlan) -> set[int]:
    """Return the columns that tell a row: the primary key, or all."""
    return {position for position, _ in plan.primary_key} or _all(plan)
