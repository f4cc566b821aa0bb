"""Records of any tables, in the order of the log, from the kernel's buffers: their images are JSON text.

Translates column plans into the kernel's JSON encoders, and encodes with construct the values that the kernel does not
support (geometry, JSON diffs). `binlogio.values.text` defines the text of values.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from binlogio._kernel import column_kinds as kinds
from binlogio._kernel.arrow_nodes import head_nodes, presence_node, text_node
from binlogio._kernel.image_json import DOUBLE, FLOAT, NOTHING, SIGNED, UNSIGNED, ImageJson
from binlogio._kernel.images import ImagePlan
from binlogio.arrow.character_tables import characters_of
from binlogio.arrow.types import ColumnSpec, column_spec
from binlogio.columnar.batches.records import Repeated, imported
from binlogio.columnar.record_types import MIXED_SCHEMA
from binlogio.constants import ColumnType
from binlogio.errors import BinlogFormatError
from binlogio.options import DEFAULT_LIMITS
from binlogio.primitives import BAD_BYTES
from binlogio.rows.image import RowChange, RowImage
from binlogio.values.layout import PARTIAL_JSON, column_layout
from binlogio.values.text import json_value
from binlogio.values.values import ABSENT

if TYPE_CHECKING:
    import pyarrow as pa

    from binlogio._kernel.arrow_arrays import Node
    from binlogio._kernel.image_json import Value
    from binlogio._kernel.mixed_batch import ImageTexts, MixedBatch
    from binlogio.rows.plan import ColumnPlan, TablePlan

_NUMBERS: Final = {ColumnType.FLOAT: FLOAT, ColumnType.DOUBLE: DOUBLE, ColumnType.NULL: NOTHING}
_IN_BEFORE_IMAGE: Final = 1  # how a JSON diff finds its column in the before image
_ASCII: Final = tuple(bytes([byte]) for byte in range(128))


def image_json(plan: TablePlan) -> ImageJson:
    """How the images of a table become JSON.

    Raises:
        UnsupportedFeature: a column of a type without values.
    """
    specs = [column_spec(column) for column in plan.columns]
    slots = list(range(len(specs)))
    images = ImagePlan(plan, [spec.width for spec in specs], slots, list(plan.json_positions), wanted=True)
    values = [_value(column, spec) for column, spec in zip(plan.columns, specs, strict=True)]
    opened_size = plan.columns[0].opened_size if plan.columns else DEFAULT_LIMITS.opened_size
    return ImageJson(images, _utf8(plan.schema), _utf8(plan.table), values, _ByConstruct(plan), opened_size)


def _value(column: ColumnPlan, spec: ColumnSpec) -> Value:
    names, second = spec.names, spec.second
    if spec.kind == kinds.COPY:
        second = _NUMBERS.get(column.type, UNSIGNED if column.unsigned else SIGNED)
    elif spec.kind in (kinds.ENUM_NAMES, kinds.SET_NAMES):
        names = tuple(_json_text(name) for name in column.members or ())
    elif kinds.LATIN in (spec.kind, spec.first) and names is not None:
        second = int(names[:128] == _ASCII)  # ASCII needs no table
    characters = None if spec.charset is None else characters_of(spec.charset)
    return _json_text(column.label), spec.kind, spec.width, spec.first, second, names, characters


def _json_text(text: str) -> bytes:
    return _utf8(json.dumps(text, ensure_ascii=False))


def _utf8(text: str) -> bytes:
    r"""What is no character is written as \udcff, as JSON does it."""
    return text.encode("utf-8", "backslashreplace")


@dataclass(frozen=True, slots=True)
class _ByConstruct:
    """Values that the kernel has no text for."""

    plan: TablePlan

    def __call__(self, position: int, data: bytes, before: bytes | None, diffs: int, /) -> bytes | None:
        """Return the JSON of a value; None where it is none, which the whole event then tells.

        Args:
            position: of the column.
            data: the value as it stands in the image.
            before: the one of the before image, where there is one.
            diffs: 0 where `data` is a value, 1 where it is JSON diffs, 2 where the before image does not have the
                column.
        """
        column = self.plan.columns[position]
        alone = replace(self.plan, columns=(column,))
        try:
            value = (PARTIAL_JSON if diffs else column_layout(column)).parse(data)
            if diffs:
                old: Any = ABSENT if diffs != _IN_BEFORE_IMAGE else None
                old = old if before is None else column_layout(column).parse(before)
                applied = RowChange(RowImage(alone, (old,)), RowImage(alone, (value,))).applied()
                value = applied.values[0] if applied is not None else value
            return _utf8(json.dumps(json_value(value, column), ensure_ascii=False, separators=(",", ":")))
        except (BinlogFormatError, *BAD_BYTES):
            return None


def mixed_record_batch(batch: MixedBatch, file: str, repeated: Repeated) -> pa.RecordBatch:
    """Return the Arrow form of a batch; takes its buffers, which must not grow any more."""
    count = batch.count
    nodes = [
        *head_nodes(batch, repeated.text(file, count)),
        text_node(batch.schema_offsets, batch.schema, count),
        text_node(batch.table_offsets, batch.table, count),
        _texts(batch.before, count),
        _texts(batch.after, count),
        presence_node(batch.before, count),
        presence_node(batch.after, count),
    ]
    return imported(count, nodes, MIXED_SCHEMA)


def _texts(side: ImageTexts, count: int) -> Node:
    return text_node(side.offsets, side.texts, count, side.validity, count - side.rows)
