"""Record batches from the kernel's buffers, without a copy.

Knows which buffers an array of each type is made of, and what is left to do on whole columns. What a record is stands in `record_types`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
from construct import GreedyBytes

from binlogio._kernel import column_kinds as kinds
from binlogio._kernel.batches import Batch, Side
from binlogio._kernel.columns import Column
from binlogio._kernel.heads import Heads, Presence
from binlogio._kernel.images import ImagePlan
from binlogio._kernel.json_diff import json_texts
from binlogio.arrow.character_tables import characters_of
from binlogio.arrow.types import GEOMETRY, ZERO_DATES, ColumnSpec, column_spec
from binlogio.columnar.record_types import RecordType
from binlogio.errors import BinlogFormatError
from binlogio.rowimage.json import JsonDocument
from binlogio.rowimage.json_diff import JsonDiffs, diffs_layout

if TYPE_CHECKING:
    from collections.abc import Collection

    from binlogio.rowimage.plan import ColumnPlan, TablePlan


@dataclass(frozen=True, slots=True)
class TableRecords:
    """One table map's records, and where the kernel finds their values in a row image."""

    type: RecordType
    images: ImagePlan

    @classmethod
    def of(cls, plan: TablePlan, wanted: Collection[str] | None, *, zero_dates: str) -> TableRecords:
        """The records of a plan; `wanted` names columns, None means all.

        Raises:
            BinlogFormatError: a wanted column that the table does not have.
            UnsupportedFeature: a column of a type without values.
        """
        kind = RecordType.of(plan, wanted, zero_dates=zero_dates)
        slots = [-1] * len(plan.columns)
        for slot, column in enumerate(kind.columns):
            slots[column.position] = slot
        return cls(kind, ImagePlan(plan, list(kind.widths), slots, list(plan.json_positions), wanted=True))

    @property
    def plan(self) -> TablePlan:
        """What the table map says."""
        return self.type.plan

    @staticmethod
    def skipped(plan: TablePlan) -> ImagePlan:
        """The plan of a table that nobody asked for."""
        widths = [column_spec(column).width for column in plan.columns]
        return ImagePlan(plan, widths, [-1] * len(widths), list(plan.json_positions), wanted=False)

    def new_batch(self, *, with_diffs: bool = False, takes_partial: bool = True) -> Batch:
        """An empty batch; `with_diffs` where JSON values may be diffs, which then are applied in Python."""
        return Batch(
            self.images,
            self._kernel_columns(with_diffs=with_diffs),
            self._kernel_columns(with_diffs=with_diffs),
            takes_partial,
        )

    def _kernel_columns(self, *, with_diffs: bool) -> list[Column]:
        policy = ZERO_DATES[self.type.zero_dates]
        return [
            Column(
                kinds.FLAGGED if with_diffs and spec.kind == kinds.JSON else spec.kind,
                spec.width, spec.first, spec.second, policy, spec.names, None if spec.charset is None else characters_of(spec.charset),
            )
            for spec in self.type.specs
        ]  # fmt: skip

    def record_batch(self, batch: Batch, file: str, repeated: Repeated) -> pa.RecordBatch:
        """The Arrow form of a batch that is full; takes its buffers, which must not grow any more."""
        batch.finish()
        count = batch.count
        before = self._images(batch.before, count, repeated, None)
        after = self._images(batch.after, count, repeated, batch.before)
        arrays = [
            *head_arrays(batch, repeated.text(file, count)),
            repeated.text(self.plan.schema, count),
            repeated.text(self.plan.table, count),
            before,
            after,
            presence_array(batch.before, count),
            presence_array(batch.after, count),
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.type.schema)

    def _images(self, side: Side, count: int, repeated: Repeated, before: Side | None) -> pa.Array:
        if not side.rows:
            return repeated.nulls(self.type.image_type, count)
        children = [
            self._child(number, column, before.columns[number] if before is not None and before.rows else None)
            for number, column in enumerate(side.columns)
        ]
        missing = count - side.rows
        validity = pa.py_buffer(side.validity) if missing else None
        return pa.Array.from_buffers(self.type.image_type, count, [validity], missing, children=children)

    def _child(self, number: int, column: Column, before: Column | None) -> pa.Array:
        if column.kind != kinds.FLAGGED:
            return _column(self.type.specs[number], column)
        offsets, texts = json_texts(column, before, partial(_json_text, self.type.columns[number]))
        return text_array(pa.string(), offsets, texts, column.count, column.validity, column.null_count)


@dataclass(slots=True)
class Repeated:
    """Arrays of one value again and again, made once and then sliced."""

    texts: dict[str, pa.Array] = field(default_factory=dict)
    empty: dict[pa.DataType, pa.Array] = field(default_factory=dict)

    def text(self, value: str, count: int) -> pa.Array:
        """`count` times the same text."""
        array = self.texts.get(value)
        if array is None or len(array) < count:
            data = value.encode("utf-8", "replace")
            length = max(count, 1 << 14)
            offsets = np.arange(length + 1, dtype=np.int32) * len(data)
            buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data * length)]
            array = self.texts[value] = pa.Array.from_buffers(pa.string(), length, buffers, 0)
        return array.slice(0, count)

    def nulls(self, arrow_type: pa.DataType, count: int) -> pa.Array:
        """`count` nulls."""
        array = self.empty.get(arrow_type)
        if array is None or len(array) < count:
            array = self.empty[arrow_type] = pa.nulls(max(count, 1 << 14), arrow_type)
        return array.slice(0, count)


def head_arrays(heads: Heads, file: pa.Array) -> list[pa.Array]:
    """The columns of a record up to `sequence_number`."""
    count = heads.count
    return [
        file,
        _fixed_array(pa.int64(), heads.pos, count),
        _fixed_array(pa.int32(), heads.row, count),
        text_array(pa.string(), heads.op_offsets, heads.op, count),
        _fixed_array(pa.timestamp("s", "UTC"), heads.timestamp, count),
        _fixed_array(pa.int64(), heads.server_id, count),
        text_array(pa.string(), heads.gtid_offsets, heads.gtid, count, heads.gtid_validity, heads.gtid_nulls),
        _fixed_array(pa.int64(), heads.last_committed, count, heads.clock_validity, heads.clock_nulls),
        _fixed_array(pa.int64(), heads.sequence_number, count, heads.clock_validity, heads.clock_nulls),
    ]


def _fixed_array(kind: pa.DataType, data: Any, count: int, validity: Any = None, nulls: int = 0) -> pa.Array:
    bits = pa.py_buffer(validity) if nulls else None
    return pa.Array.from_buffers(kind, count, [bits, pa.py_buffer(data)], nulls)


def text_array(
    kind: pa.DataType, offsets: Any, data: Any, count: int, validity: Any = None, nulls: int = 0
) -> pa.Array:
    """Text or bytes of any length."""
    bits = pa.py_buffer(validity) if nulls else None
    return pa.Array.from_buffers(kind, count, [bits, pa.py_buffer(offsets), pa.py_buffer(data)], nulls)


def presence_array(side: Presence, count: int) -> pa.Array:
    """The bitmaps of the rows that have the image."""
    return text_array(pa.binary(), side.present_offsets, side.present, count, side.validity, count - side.rows)


def _column(spec: ColumnSpec, column: Column) -> pa.Array:
    count, nulls = column.count, column.null_count
    bits = pa.py_buffer(column.validity) if nulls else None
    if pa.types.is_null(spec.type):
        return pa.nulls(count)
    if spec.kind == kinds.GEOMETRY:
        srid = pa.Array.from_buffers(pa.uint32(), count, [None, pa.py_buffer(column.more)], 0)
        buffers = [None, pa.py_buffer(column.offsets), pa.py_buffer(column.data)]
        wkb = pa.Array.from_buffers(pa.binary(), count, buffers, 0)
        return pa.Array.from_buffers(GEOMETRY, count, [bits], nulls, children=[srid, wkb])
    if spec.kind == kinds.VECTOR:
        floats = pa.Array.from_buffers(pa.float32(), len(column.data) // 4, [None, pa.py_buffer(column.data)], 0)
        return pa.Array.from_buffers(spec.type, count, [bits, pa.py_buffer(column.offsets)], nulls, children=[floats])
    if spec.type in (pa.string(), pa.binary()):
        return text_array(spec.type, column.offsets, column.data, count, column.validity, nulls)
    return _fixed_array(spec.type, column.data, count, column.validity, nulls)


_DIFFS: Final = diffs_layout(GreedyBytes)


def _json_text(column: ColumnPlan, value: bytes, before: bytes | None) -> str:
    """The text of a document, or of JSON diffs applied to the one of the before image; a flag before each says which it is."""
    if value[0] == 0:
        return JsonDocument(value[1:]).text
    if before is None:
        raise BinlogFormatError(
            "the after image holds JSON diffs, and the before image has no document to apply them to",
            field=column.label,
            hint="leave the column out, or read the log event by event",
        )
    diffs: JsonDiffs = _DIFFS.parse(value[1:])
    return diffs.apply(JsonDocument(before[1:])).text
