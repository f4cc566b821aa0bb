"""Builds record batches from the kernel's buffers, without a copy.

Assembles Arrow arrays of each type from buffers, and completes columns that need work in Python. `record_types` defines
the schema.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final, cast

import pyarrow as pa
from construct import GreedyBytes

from binlogio._kernel import column_kinds as kinds
from binlogio._kernel.column_values import Column
from binlogio._kernel.event_scanner import ImagePlan
from binlogio._kernel.primitives import Memory
from binlogio._kernel.row_decoder import (
    Batch,
    Exported,
    Side,
    image_node,
    json_texts,
    metadata_nodes,
    presence_node,
    repeated_text,
    text_node,
)
from binlogio.arrow.types import ZERO_DATES, ColumnSpec, column_spec
from binlogio.columnar.record_types import RecordType, name_text, with_source_fields
from binlogio.errors import BinlogError
from binlogio.format.groups import OUTCOMES
from binlogio.primitives import BAD_BYTES
from binlogio.rows.image import record_bits
from binlogio.values.json import JsonDiffs, JsonDocument
from binlogio.values.json.diff import diffs_layout, is_operations
from binlogio.values.kinds import characters_of

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from binlogio._kernel.row_decoder import MetadataColumns, Node, SourceNumbers
    from binlogio.rows.plan import TablePlan


def image_plan(plan: TablePlan, widths: Sequence[int], slots: Sequence[int], *, wanted: bool = True) -> ImagePlan:
    """Return the kernel's plan, given `ColumnSpec.width` and the slot (-1: not selected) of each column."""
    images = ImagePlan(plan, widths, slots, plan.json_positions, wanted=wanted)
    images.set_record_bits(*record_bits(plan))
    return images


@dataclass(frozen=True, slots=True)
class TableRecords:
    """Builds records of one table map: record type, and the kernel's plan of a row image."""

    type: RecordType
    images: ImagePlan
    forms: tuple[int, ...]
    columns: list[Column]

    @classmethod
    def of(
        cls,
        plan: TablePlan,
        wanted: Collection[str] | None,
        *,
        zero_dates: str,
        json_diffs: str = "error",
        names_columns: bool = False,
    ) -> TableRecords:
        """Return the records of a plan, whose arguments are those of `RecordType.of`.

        Raises:
            BinlogFormatError: the table lacks a selected column.
            UnsupportedFeature: a column has a type without values.
        """
        kind = RecordType.of(plan, wanted, zero_dates=zero_dates, json_diffs=json_diffs, names_columns=names_columns)
        slots = [-1] * len(plan.columns)
        for slot, column in enumerate(kind.columns):
            slots[column.position] = slot
        columns = [_kernel_column(spec, zero_dates, spec.kind) for spec in kind.specs]
        return cls(kind, image_plan(plan, kind.widths, slots), tuple(column.form for column in columns), columns)

    def for_table(self, plan: TablePlan) -> TableRecords:
        """Return the records of another table with the same columns."""
        return TableRecords(self.type.for_table(plan), self.images.for_table(plan), self.forms, self.columns)

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
        """Return an empty batch. With `with_diffs`, JSON values may be diffs, which are applied in Python."""
        columns = self.columns
        if with_diffs:
            columns = [
                _kernel_column(spec, self.type.zero_dates, kinds.FLAGGED) if spec.kind == kinds.JSON else column
                for spec, column in zip(self.type.specs, columns, strict=True)
            ]
        return Batch(self.images, columns, takes_partial)

    def record_batch(
        self, batch: Batch, file: str, repeated: Repeated, texts: JsonTexts, source_columns: Collection[str] = ()
    ) -> pa.RecordBatch:
        """Return a kernel batch as an Arrow record batch, which takes over the buffers: they must not grow any more.

        `texts` applies the JSON diffs of the batch.
        """
        batch.finish()
        count = batch.count
        before, after = (
            image_node(side, count, self.forms, repeated.zeros(count)) for side in (batch.before, batch.after)
        )
        if batch.has_diffs:
            self._apply_diffs(batch.before, None, before, texts)
            self._apply_diffs(batch.after, batch.before, after, texts)
        nodes = [
            *metadata_nodes(batch, repeated.text(file, count), repeated.text("update", count)),
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
        return with_source_columns(found, batch, source_columns)

    def new_texts(self) -> JsonTexts:
        """Return an object that applies the JSON diffs of a batch."""
        return JsonTexts(takes_operations=self.type.json_diffs == "operations")

    def _lack_documents(self, batch: pa.RecordBatch) -> bool:
        """Return True if no before image contains a column whose after image has JSON diffs instead of a document."""
        present, after = batch.column("before_present").to_pylist(), batch.column("after")
        for slot, column in enumerate(self.type.columns):
            if self.type.specs[slot].kind != kinds.JSON:
                continue
            byte, bit = column.position >> 3, 1 << (column.position & 7)
            for text, bitmap in zip(after.field(slot).to_pylist(), present, strict=True):
                if text is not None and is_operations(text) and bitmap is not None and bitmap[byte] & bit:
                    return False
        return True

    def _apply_diffs(self, side: Side, before: Side | None, node: Node, texts: JsonTexts) -> None:
        """Replace the JSON columns of a side by their texts, with diffs applied to the documents of `before`."""
        children = cast("list[Node]", node[3])
        for slot, column in enumerate(side.columns):
            if column.kind == kinds.FLAGGED:
                old = before.columns[slot] if before is not None and before.rows else None
                offsets, data = json_texts(column, old, texts.of)
                children[slot] = text_node(offsets, data, column.count, column.validity, column.null_count)


def _kernel_column(spec: ColumnSpec, zero_dates: str, kind: int) -> Column:
    characters = None if spec.charset is None else characters_of(spec.charset)
    return Column(kind, spec.width, spec.first, spec.second, ZERO_DATES[zero_dates], spec.names, characters)


def imported(count: int, nodes: Sequence[Node], schema: pa.Schema) -> pa.RecordBatch:
    """Import kernel columns of `count` rows as a record batch. Their memory must not grow any more."""
    exported = Exported(count, nodes)  # frees columns that are not imported
    return pa.RecordBatch._import_from_c(exported.address, schema)


def with_source_columns(found: pa.RecordBatch, batch: MetadataColumns, names: Collection[str]) -> pa.RecordBatch:
    """Return a record batch extended by the source columns with these names, from the kernel batch."""
    if not names or batch.source is None:
        return found
    schema, arrays = with_source_fields(found.schema, names), list(found.columns)
    for one in list(schema)[len(arrays) :]:
        numbers: SourceNumbers = getattr(batch.source, one.name)
        kind = one.type if pa.types.is_temporal(one.type) else pa.int64()
        buffers = [pa.py_buffer(numbers.validity), pa.py_buffer(numbers.values)]
        array = pa.Array.from_buffers(kind, found.num_rows, buffers)
        if one.name == "outcome":
            arrays.append(_outcomes().take(array))
        else:
            arrays.append(_texts_of(array, batch.source.statements) if pa.types.is_dictionary(one.type) else array)
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _texts_of(numbers: pa.Array, texts: list[bytes]) -> pa.DictionaryArray:
    """Return a dictionary column from text numbers; equal texts share a dictionary entry."""
    known: dict[bytes, int] = {}
    places = pa.array([known.setdefault(text, len(known)) for text in texts], pa.int32())
    return pa.DictionaryArray.from_arrays(
        places.take(numbers), pa.array([text.decode() for text in known], pa.string())
    )


@cache
def _outcomes() -> pa.StringArray:
    """Return the outcomes by number; made late, because pyarrow imports pandas, if it is there, for its first array."""
    return pa.array([None, *OUTCOMES], pa.string())


_FEWEST_REPEATED: Final = 1 << 6
_MOST_REPEATED: Final = 1 << 9  # cached texts
_WIDEST_VALUE: Final = 32  # bytes of the widest fixed-size value


class Repeated:
    """Caches the memory of columns that have the same value in all rows.

    The cache is bounded, since a log of many tables has many values.
    """

    def __init__(self) -> None:
        self._texts: dict[str, tuple[int, Memory, Memory]] = {}
        self._zeros = Memory()

    def text(self, value: str, count: int) -> Node:
        """Return a column of `count` equal texts."""
        rows, offsets, data = self._texts.get(value, _NO_TEXT)
        if rows < count:
            rows = max(_FEWEST_REPEATED, 1 << count.bit_length())
            offsets, data = repeated_text(name_text(value).encode(), rows)
            if len(self._texts) >= _MOST_REPEATED:
                self._texts.clear()
            self._texts[value] = rows, offsets, data
        return text_node(offsets, data, count)

    def zeros(self, count: int) -> Memory:
        """Return memory for a column of `count` rows that are all null."""
        if len(self._zeros) < _WIDEST_VALUE * (count + 1):
            self._zeros = Memory.of_zeros(_WIDEST_VALUE * max(_FEWEST_REPEATED, 1 << count.bit_length()))
        return self._zeros


_NO_TEXT: Final = -1, Memory(), Memory()


_DIFFS: Final = diffs_layout(GreedyBytes)


@dataclass(slots=True)
class JsonTexts:
    """Converts the JSON values of a batch with JSON diffs to text.

    Args:
        takes_operations: convert diffs without a document in the before image to the text of their operations.
        are_complete: becomes False after an invalid value, for which the construct parser then raises the error.
        has_operations: becomes True after diffs without a document in the before image.
    """

    takes_operations: bool = False
    are_complete: bool = True
    has_operations: bool = False

    def of(self, value: bytes, before: bytes | None) -> str:
        """Return the text of a document, or of the before image's document with JSON diffs applied.

        The first byte of each is a flag: 0 for a document, otherwise diffs.
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
