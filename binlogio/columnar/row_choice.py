"""Selects single rows of rows events by operation and condition, for readers of events instead of batches."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from binlogio.bounded_cache import BoundedCache
from binlogio.columnar.record_types import PRESENT, RecordType
from binlogio.columnar.row_values import image_arrays, row_images
from binlogio.errors import ConditionError
from binlogio.format.row_changes import row_changes
from binlogio.rows.cut_images import rows_of
from binlogio.rows.image import present_bitmaps
from binlogio.selection.row_condition import undecided_rows

if TYPE_CHECKING:
    from binlogio.events import RowsEvent
    from binlogio.rows.plan import TablePlan
    from binlogio.schema.statement_changes import StatementChange
    from binlogio.selection.row_condition import RowCondition
    from binlogio.selection.selection import Selection


class RowChoice:
    """Selects the rows of a selection by operation and condition.

    Tables that lack a column of the condition have no selected rows; `found_columns` is True once a table had all
    columns. With `refuses_unknown`, a table whose columns have no names, and a row whose images lack a column without
    which it cannot be compared, are errors. Otherwise such rows do not match, `unnamed` names these tables, and
    `undecided` has the number of these rows by table and column. `statements` is for the first statement of each log
    that changes selected rows as SQL text.
    """

    def __init__(self, selection: Selection, *, refuses_unknown: bool = False) -> None:
        self.operations: Final = selection.operations
        self.condition: Final = selection.condition
        self.found_columns = selection.condition is None
        self.unnamed: set[str] = set()
        self.undecided: Counter[tuple[str, str]] = Counter()
        self.statements: dict[str, StatementChange] = {}
        self._lacking: dict[str, list[str]] = {}  # columns of tables that lack one of the condition
        self._refuses_unknown = refuses_unknown
        # By id(plan): hashing a plan is slow
        self._types: BoundedCache[int, tuple[TablePlan, RecordType | None]] = BoundedCache()

    def of(self, event: RowsEvent, plan: TablePlan) -> RowsEvent | None:
        """Return the event with only the selected rows: the same object if all are selected, None if none is.

        Raises:
            ConditionError: a value of the condition does not fit the type of its column.
            UnsupportedFeature: some rows of an event whose images cannot be split are selected, or a row cannot be
                compared.
            BinlogFormatError: the images do not fit the table.
        """
        if self.operations is not None and event.operation.op not in self.operations:
            return None
        if self.condition is None:
            return event
        kind = self._type_of(plan, self.condition)
        if kind is None:
            return None
        images = row_images(event, plan, kind, changes=row_changes(event, plan))
        count = len(images)
        bitmaps = [pa.array([bitmap] * count, pa.binary()) for bitmap in present_bitmaps(event)]
        names = [pa.array([name] * count) for name in (plan.schema, plan.table)]
        batch = pa.RecordBatch.from_arrays(
            [*names, *image_arrays(images, kind), *bitmaps],
            names=["schema", "table", "before", "after", *(one.name for one in PRESENT)],
        )
        positions = {column.label: column.position for column in kind.columns}
        found = self.condition.compare(batch, positions)
        if found.lacking:
            if self._refuses_unknown:
                raise undecided_rows(found.lacking, plan.full_name, event.header.offset)
            self.undecided[plan.full_name, found.lacking] += found.undecided.true_count
        mask = found.mask.to_pylist()
        if all(mask):
            return event
        if not any(mask):
            return None
        rows = rows_of(event, plan)
        return replace(event, images=b"".join(row for row, is_wanted in zip(rows, mask, strict=True) if is_wanted))

    def check_columns(self) -> None:
        """Check, after all rows, that a table had the columns of the condition, if any was compared with it.

        Raises:
            ConditionError: no table had them, and the columns of all have names.
        """
        if self.condition is not None and self._lacking and not (self.found_columns or self.unnamed):
            raise self.condition.no_table(self._lacking)

    def _type_of(self, plan: TablePlan, condition: RowCondition) -> RecordType | None:
        """Return the columns of the condition; None if the table lacks one."""
        found = self._types.get(id(plan))
        if found is None:
            kind = None
            if self._is_about(plan, condition):
                kind, self.found_columns = RecordType.of(plan, condition.columns, zero_dates="text"), True
            found = self._types.put(id(plan), (plan, kind))
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
