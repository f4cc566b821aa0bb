"""Converts values of Arrow arrays, one by one, to the Python values that `binlogio.rows` encodes.

Does not need the compiled kernel; `column_arrays` uses it for values that the kernel refuses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from binlogio.constants import ColumnType
from binlogio.errors import BinlogFormatError
from binlogio.primitives import BAD_BYTES
from binlogio.values.geometry import Geometry
from binlogio.values.json import JsonDiff, JsonDiffOperation, JsonDiffs, JsonDocument

if TYPE_CHECKING:
    from binlogio.values.column import ColumnPlan


class ColumnValues:
    """The values of one column of an image, for a sequence of batches.

    `cells`, the input of the kernel, is None here.
    """

    cells: Any = None

    def __init__(self, column: ColumnPlan, *, takes_diffs: bool = False) -> None:
        self.column = column
        self.takes_diffs = takes_diffs
        self.array: pa.Array = None

    def bind(self, array: pa.Array | pa.ChunkedArray) -> None:
        """Use the values of the column in a batch.

        Raises:
            BinlogFormatError: the array is invalid.
        """
        try:
            array.validate(full=True)
            self.array = _simple(array)
        except pa.ArrowNotImplementedError as exc:
            reason = f"an array of type {array.type} cannot be taken apart: {exc}"
            raise BinlogFormatError(reason, field=f"column {self.column.label}") from exc
        except pa.ArrowInvalid as exc:
            raise BinlogFormatError(f"invalid Arrow array: {exc}", field=f"column {self.column.label}") from exc

    def is_direct(self, kind: pa.DataType) -> bool:
        """Return whether the kernel reads arrays of this type without conversion; always False here."""
        return False

    def unbind(self) -> None:
        """Release the arrays."""
        self.array = None

    def value(self, row: int) -> object:
        """Return the value of a row, for `binlogio.rows`.

        Raises:
            BinlogFormatError: the value cannot be converted to Python, or does not fit the column.
        """
        try:
            return as_value(self.array[row].as_py(), self.column, takes_diffs=self.takes_diffs)
        except BAD_BYTES as exc:
            raise BinlogFormatError(
                f"the value does not fit the column: {exc}", field=f"column {self.column.label}"
            ) from exc
        except BinlogFormatError as exc:
            exc.field = f"column {self.column.label}" + (f": {exc.field}" if exc.field else "")
            raise


def _simple(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return the array as one chunk, without dictionary, run-end encoding or extension type."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks() if array.num_chunks != 1 else array.chunk(0)
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if pa.types.is_run_end_encoded(array.type):
        import pyarrow.compute as pc  # noqa: PLC0415 - slow to import

        array = pc.run_end_decode(array)
    if pa.types.is_dictionary(array.type):
        array = array.cast(array.type.value_type)
    return array


def as_value(value: Any, column: ColumnPlan, *, takes_diffs: bool = False) -> object:
    """Convert a value of `to_pylist` to the Python value that `binlogio.rows` encodes.

    Raises:
        BinlogFormatError: a JSON document or a JSON diff is invalid.
    """
    if value is None:
        return None
    if column.type == ColumnType.JSON:
        if takes_diffs and isinstance(value, list):
            return JsonDiffs(_as_diff(**diff) for diff in value)
        return JsonDocument(value) if isinstance(value, bytes) else JsonDocument.from_text(value)
    if column.type == ColumnType.GEOMETRY and isinstance(value, dict):
        return Geometry(value["srid"], value["wkb"])
    return tuple(value) if isinstance(value, list) else value


def _as_diff(operation: int, path: str, value: str | None) -> JsonDiff:
    if not isinstance(path, str):
        raise BinlogFormatError("a JSON diff has no path", found=repr(path))
    return JsonDiff(JsonDiffOperation(operation), path, None if value is None else JsonDocument.from_text(value))
