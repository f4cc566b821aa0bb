"""Selects single rows of rows events by operation and condition, for readers of events instead of batches."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from binlogio.columnar.fallback import image_arrays, row_images
from binlogio.columnar.record_types import PRESENT, RecordType
from binlogio.errors import ConditionError, UnsupportedFeature
from binlogio.events.base import event_name
from binlogio.format.row_changes import row_changes
from binlogio.rows.cut_images import rows_of
from binlogio.rows.image import present_bitmaps

if TYPE_CHECKING:
    from binlogio.events import RowsEvent
    from binlogio.rows.plan import TablePlan
    from binlogio.selection.row_condition import RowCondition
    from binlogio.selection.selection import Selection

_MOST_TYPES: Final = 512


class RowChoice:
    """Selects the rows of a selection by operation and condition.

    Tables that lack a column of the condition have no selected rows; `found_columns` is True once a table had all
    columns. With `refuses_unknown`, a table whose columns have no names, and an event whose images lack a column of the
    condition, are errors. Otherwise rows of such a table do not match, and `unnamed` names it; rows of such an event
    match only if the columns that are present decide the condition.
    """

    def __init__(self, selection: Selection, *, refuses_unknown: bool = False) -> None:
        self.operations: Final = selection.operations
        self.condition: Final = selection.condition
        self.found_columns = selection.condition is None
        self.unnamed: set[str] = set()
        self._lacking: dict[str, list[str]] = {}  # columns of tables that lack one of the condition
        self._refuses_unknown = refuses_unknown
        self._types: dict[int, tuple[TablePlan, RecordType | None]] = {}  # by id(plan): hashing a plan is slow

    def of(self, event: RowsEvent, plan: TablePlan) -> RowsEvent | None:
        """Return the event with only the selected rows: the same object if all are selected, None if none is.

        Raises:
            ConditionError: a value of the condition does not fit the type of its column.
            UnsupportedFeature: some rows of an event whose images cannot be split are selected, or the event lacks a
                column of the condition.
            BinlogFormatError: the images do not fit the table.
        """
        if self.operations is not None and event.operation.op not in self.operations:
            return None
        if self.condition is None:
            return event
        kind = self._type_of(plan, self.condition)
        if kind is None:
            return None
        if self._refuses_unknown:
            _check_columns(event, kind, self.condition)
        images = row_images(event, plan, kind, changes=row_changes(event, plan))
        count = len(images)
        bitmaps = [pa.array([bitmap] * count, pa.binary()) for bitmap in present_bitmaps(event)]
        names = [pa.array([name] * count) for name in (plan.schema, plan.table)]
        batch = pa.RecordBatch.from_arrays(
            [*names, *image_arrays(images, kind), *bitmaps],
            names=["schema", "table", "before", "after", *(one.name for one in PRESENT)],
        )
        positions = {column.label: column.position for column in kind.columns}
        mask = self.condition.mask(batch, positions).to_pylist()
        if all(mask):
            return event
        if not any(mask):
            return None
        rows = rows_of(event, plan)
        return replace(event, images=b"".join(row for row, is_wanted in zip(rows, mask, strict=True) if is_wanted))

    def check_columns(self) -> None:
        """Check, after all rows, that a table had the columns of the condition, if any was compared with it.

        Raises:
            ConditionError: no table had them.
        """
        if self.condition is not None and self._lacking and not self.found_columns:
            raise self.condition.no_table(self._lacking)

    def _type_of(self, plan: TablePlan, condition: RowCondition) -> RecordType | None:
        """Return the columns of the condition; None if the table lacks one."""
        found = self._types.get(id(plan))
        if found is None:
            kind = None
            if self._is_about(plan, condition):
                kind, self.found_columns = RecordType.of(plan, condition.columns, zero_dates="text"), True
            if len(self._types) >= _MOST_TYPES:
                self._types.clear()
            found = self._types[id(plan)] = plan, kind
        return found[1]

    def _is_about(self, plan: TablePlan, condition: RowCondition) -> bool:
        labels = [column.label for column in plan.columns]
        try:
            is_about = condition.is_about(plan.full_name, labels)
        except ConditionError:
            if self._refuses_unknown:
                raise
            self.unnamed.add(plan.full_name)
            return False
        if not is_about:
            self._lacking[plan.full_name] = labels
        return is_about


def _check_columns(event: RowsEvent, kind: RecordType, condition: RowCondition) -> None:
    """Raise if an image of the event lacks a column that the condition compares in it.

    A column that the after image of an update lacks has not changed: only the before image has to have it.

    Raises:
        UnsupportedFeature: a column is missing.
    """
    images = [
        None
        if bitmap is None
        else {one.label for one in kind.columns if int.from_bytes(bitmap, "little") >> one.position & 1}
        for bitmap in present_bitmaps(event)
    ]
    lacking = condition.missing_in(*images)
    if lacking is not None:
        raise UnsupportedFeature(
            f"the condition needs column {lacking}, which these rows do not have in the log",
            offset=event.header.offset,
            event_type=event_name(event.header.type_code),
            hint="the source needs binlog_row_image=FULL; or leave the column out of the condition",
        )
