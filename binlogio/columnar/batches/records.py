"""Record batches from the kernel's buffers, without a copy.

Assembles Arrow arrays of each type from buffers, and completes columns that need work in Python. `record_types` defines
the schema.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
from construct import GreedyBytes

from binlogio._kernel import column_kinds as kinds
from binlogio._kernel.event_scanner import ImagePlan
from binlogio._kernel.row_decoder import (
    Batch,
    Column,
    Exported,
    Side,
    column_node,
    json_texts,
    metadata_nodes,
    presence_node,
    text_node,
)
from binlogio.arrow.types import ZERO_DATES, ColumnSpec, column_spec
from binlogio.columnar.record_types import RecordType
from binlogio.errors import BinlogError
from binlogio.primitives import BAD_BYTES
from binlogio.rows.image import record_bits
from binlogio.values.json import JsonDiffs, JsonDocument
from binlogio.values.json.diff import diffs_layout, is_operations
from binlogio.values.kinds import characters_of

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from binlogio._kernel.row_decoder import Node
    from binlogio.rows.plan import TablePlan


def image_plan(plan: TablePlan, widths: Sequence[int], slots: Sequence[int], *, wanted: bool = True) -> ImagePlan:
    """Return the kernel's form of a plan, with `ColumnSpec.width` and the slot of each column."""
    images = ImagePlan(plan, widths, slots, plan.json_positions, wanted=wanted)
    images.set_record_bits(*record_bits(plan))
    return images


@dataclass(frozen=True, slots=True)
class TableRecords:
    """Records of one table map: their type, and the kernel's plan of a row image."""

    type: RecordType
    images: ImagePlan
    forms: tuple[int, ...]
    columns: list[Column]

    @classmethod
    def of(
        cls, plan: TablePlan, wanted: Collection[str] | None, *, zero_dates: str, json_diffs: str = "error"
    ) -> TableRecords:
        """Return the records of a plan; `wanted` names columns, None means all.

        Raises:
            BinlogFormatError: a wanted column that the table does not have.
            UnsupportedFeature: a column of a type without values.
        """
        kind = RecordType.of(plan, wanted, zero_dates=zero_dates, json_diffs=json_diffs)
        slots = [-1] * len(plan.columns)
        for slot, column in enumerate(kind.columns):
            slots[column.position] = slot
        columns = [_kernel_column(spec, zero_dates, spec.kind) for spec in kind.specs]
        return cls(kind, image_plan(plan, kind.widths, slots), tuple(_form(spec) for spec in kind.specs), columns)

    def for_table(self, plan: TablePlan) -> TableRecords:
        """Return the records of another table with the same columns."""
        return replace(self, type=self.type.for_table(plan), images=self.images.for_table(plan))

    @property
    def plan(self) -> TablePlan:
        """The plan of the table map."""
        return self.type.plan

    @staticmethod
    def skipped(plan: TablePlan) -> ImagePlan:
        """Return the plan of a table that is not selected."""
        widths = [column_spec(column).width for column in plan.columns]
        return image_plan(plan, widths, [-1] * len(widths), wanted=False)

    def new_batch(self, *, with_diffs: bool = False, takes_partial: bool = True) -> Batch:
        """Return an empty batch. With `with_diffs`, JSON values may be diffs, which are then applied in Python."""
        columns = self.columns
        if with_diffs:
            columns = [
                _kernel_column(spec, self.type.zero_dates, kinds.FLAGGED) if spec.kind == kinds.JSON else column
                for spec, column in zip(self.type.specs, columns, strict=True)
            ]
        return Batch(self.images, columns, takes_partial)

    def record_batch(self, batch: Batch, file: str, repeated: Repeated, texts: JsonTexts) -> pa.RecordBatch:
        """Return a batch as an Arrow record batch. It takes over the buffers, which must not grow any more.

        `texts` applies the JSON diffs of the batch.
        """
        batch.finish()
        count = batch.count
        before = self._images(batch.before, count, repeated, None, texts)
        after = self._images(batch.after, count, repeated, batch.before, texts)
        nodes = [
            *metadata_nodes(batch, repeated.text(file, count)),
            repeated.text(self.plan.schema, count),
            repeated.text(self.plan.table, count),
            before,
            after,
            presence_node(batch.before, count),
            presence_node(batch.after, count),
        ]
        found = imported(count, nodes, self.type.schema)
        if texts.has_operations and not self._lack_documents(found):
            texts.are_complete = False
        return found

    def new_texts(self) -> JsonTexts:
        """Return an object that applies the JSON diffs of a batch."""
        return JsonTexts(takes_operations=self.type.json_diffs == "operations")

    def _lack_documents(self, batch: pa.RecordBatch) -> bool:
        """Return True if no before image has a column whose after image has JSON diffs instead of a document."""
        present, after = batch.column("before_present").to_pylist(), batch.column("after")
        for slot, column in enumerate(self.type.columns):
            if self.type.specs[slot].kind != kinds.JSON:
                continue
            byte, bit = column.position >> 3, 1 << (column.position & 7)
            for text, bitmap in zip(after.field(slot).to_pylist(), present, strict=True):
                if text is not None and is_operations(text) and bitmap is not None and bitmap[byte] & bit:
                    return False
        return True

    def _images(
        self, side: Side, count: int, repeated: Repeated, before: Side | None, texts: JsonTexts
    ) -> Node | pa.Array:
        if not side.rows:
            return repeated.nulls(self.type.image_type, count)
        children = [
            self._child(number, column, before.columns[number] if before is not None and before.rows else None, texts)
            for number, column in enumerate(side.columns)
        ]
        missing = count - side.rows
        return count, missing, (side.validity if missing else None,), children

    def _child(self, number: int, column: Column, before: Column | None, texts: JsonTexts) -> Node:
        if column.kind != kinds.FLAGGED:
            return column_node(column, self.forms[number])
        offsets, data = json_texts(column, before, texts.of)
        return text_node(offsets, data, column.count, column.validity, column.null_count)


def _kernel_column(spec: ColumnSpec, zero_dates: str, kind: int) -> Column:
    characters = None if spec.charset is None else characters_of(spec.charset)
    return Column(kind, spec.width, spec.first, spec.second, ZERO_DATES[zero_dates], spec.names, characters)


def imported(count: int, nodes: Sequence[Node | pa.Array], schema: pa.Schema) -> pa.RecordBatch:
    """Return a record batch of columns of `count` rows, whose memory must not grow any more."""
    exported = Exported(count, nodes)  # frees what is not imported
    return pa.RecordBatch._import_from_c(exported.address, schema)


_FEWEST_REPEATED: Final = 1 << 6
_MOST_REPEATED: Final = 1 << 9  # arrays of each kind that are kept


@dataclass(slots=True)
class Repeated:
    """Cache of arrays of one repeated value, which are made once and then sliced.

    A log of many tables has many values; the cache keeps some of them.
    """

    texts: dict[str, pa.Array] = field(default_factory=dict)
    empty: dict[pa.DataType, pa.Array] = field(default_factory=dict)

    def text(self, value: str, count: int) -> pa.Array:
        """Return an array of `count` times the same text."""
        array = self.texts.get(value)
        if array is None or len(array) < count:
            data = value.encode("utf-8", "replace")
            length = max(_FEWEST_REPEATED, 1 << count.bit_length())
            offsets = np.arange(length + 1, dtype=np.int32) * len(data)
            buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data * length)]
            if len(self.texts) >= _MOST_REPEATED:
                self.texts.clear()
            array = self.texts[value] = pa.Array.from_buffers(pa.string(), length, buffers, 0)
        return array.slice(0, count)

    def nulls(self, arrow_type: pa.DataType, count: int) -> pa.Array:
        """Return an array of `count` nulls."""
        array = self.empty.get(arrow_type)
        if array is None or len(array) < count:
            if len(self.empty) >= _MOST_REPEATED:
                self.empty.clear()
            array = self.empty[arrow_type] = pa.nulls(max(_FEWEST_REPEATED, 1 << count.bit_length()), arrow_type)
        return array.slice(0, count)


def _form(spec: ColumnSpec) -> int:
    """Return the kernel's number for the memory layout of a column."""
    if spec.type == _NULL:
        return kinds.FORM_NULL
    if spec.kind in _NESTED:
        return _NESTED[spec.kind]
    return kinds.FORM_TEXT if spec.type in _TEXTS else kinds.FORM_FIXED


_NULL: Final = pa.null()
_NESTED: Final = {kinds.GEOMETRY: kinds.FORM_GEOMETRY, kinds.VECTOR: kinds.FORM_VECTOR}
_TEXTS: Final = frozenset({pa.string(), pa.binary()})

_DIFFS: Final = diffs_layout(GreedyBytes)


@dataclass(slots=True)
class JsonTexts:
    """Texts of the JSON values of a batch that has JSON diffs.

    Args:
        takes_operations: diffs without a document before them become the text of their operations.
        are_complete: False after an invalid value, whose error construct then raises.
        has_operations: True after diffs without a document before them.
    """

    takes_operations: bool = False
    are_complete: bool = True
    has_operations: bool = False

    def of(self, value: bytes, before: bytes | None) -> str:
        """Return the text of a document, or of the before image's document with JSON diffs applied.

        The first byte of each is a flag that says which it is.
        """
        try:
            if value[0] == 0:
                return JsonDocument(value[1:]).text
            if before is not None or self.takes_operations:
                diffs: JsonDiffs = _DIFFS.parse(value[1:])
                if before is not None:
                    return diffs.apply(JsonDocument(before[1:])).text
                self.has_operations = True
                return diffs.operations
        except (BinlogError, *BAD_BYTES):
            pass
        self.are_complete = False
        return ""
