"""Arrow input of the row encoder: binds the arrays of a column to the kernel's cells.

The kernel reads an array of a native type of its column directly, without Python objects for the rows. An array of
another type is cast if this loses nothing, or encoded value by value with `binlogio.values.layout`.

    native types := string, or binary for bytes that are written unchanged           -- text columns
                  | string (JSON text), binary (binary JSON), JSON_DIFFS (partial)   -- JSON columns
                  | string (names), or unsigned integers                             -- ENUM and SET columns
                  | the type in `binlogio.arrow.types`                               -- other columns
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from binlogio._kernel import column_kinds as kinds
from binlogio._kernel import row_encoder
from binlogio.arrow.types import JSON_DIFFS, column_spec
from binlogio.arrow.values import ColumnValues, as_value
from binlogio.constants import ColumnType
from binlogio.errors import BinlogError
from binlogio.primitives import BAD_BYTES
from binlogio.rows.packing import bytes_cells, diffs_cells, main_cells, number_cells
from binlogio.values.charsets import charset_of
from binlogio.values.kinds import characters_of
from binlogio.values.layout import column_layout

if TYPE_CHECKING:
    from binlogio.values.column import ColumnPlan

_REFUSED: Final = (BinlogError, *BAD_BYTES)
"""Errors for a value that does not fit its column. They are raised later, with the row, when the row is encoded."""

_TYPES: Final = {"string": pa.string(), "binary": pa.binary()}
_VARIANTS: Final = {
    pa.large_string(): "string",
    pa.large_binary(): "binary",
    **({pa.string_view(): "string", pa.binary_view(): "binary"} if hasattr(pa, "string_view") else {}),
}


@dataclass(frozen=True, slots=True)
class Native:
    """An Arrow type that the kernel reads directly for a column.

    `make` returns the kernel's cells. `charset` is the multi-byte character set to which text is encoded first;
    `trims` removes trailing spaces.
    """

    type: pa.DataType
    make: Callable[[], Any]
    charset: str | None = None
    trims: bool = False


class ColumnArrays(ColumnValues):
    """The arrays of one column of an image, for a sequence of batches.

    `cells`, the input of the kernel, is the same object as long as the type of the arrays does not change.
    """

    cells: row_encoder.Cells | None = None

    def __init__(self, column: ColumnPlan, *, takes_diffs: bool = False) -> None:
        super().__init__(column, takes_diffs=takes_diffs)
        self._natives = {native.type: native for native in _natives(column)}
        if takes_diffs and column.type == ColumnType.JSON:
            self._natives[JSON_DIFFS] = Native(JSON_DIFFS, partial(diffs_cells, column))
        self._made: dict[pa.DataType | None, row_encoder.Cells] = {}
        self._usual: tuple[Native | None, row_encoder.Cells | None] = None, None

    def bind(self, array: pa.Array | pa.ChunkedArray) -> None:
        """Use the values of the column in a batch.

        Raises:
            BinlogFormatError: the array is invalid.
        """
        self.array = array
        usual, cells = self._usual
        if (
            usual is not None
            and cells is not None
            and array.type == usual.type
            and usual.charset is None
            and isinstance(array, pa.Array)
        ):
            try:
                _bind(cells, array)
            except ValueError:
                pass  # `_bind_any` raises the error
            else:
                self.cells = cells
                return
        self._bind_any(array)

    def is_direct(self, kind: pa.DataType) -> bool:
        """Return whether the kernel reads arrays of this type without conversion."""
        usual, cells = self._usual
        return usual is not None and cells is self.cells and _is_plain(usual, kind)

    def _bind_any(self, array: pa.Array | pa.ChunkedArray) -> None:
        """As `bind`, for arrays of any type; raises the error for an invalid array."""
        super().bind(array)
        for candidate in self._candidates():
            native = self._natives[candidate.type]
            self.cells = self._cells(candidate.type, native.make)
            try:
                if native.charset is not None:
                    _bind_text(self.cells, candidate, native.charset, trims=native.trims)
                else:
                    _bind(self.cells, candidate)
            except ValueError:
                continue
            self._usual = native, self.cells
            return
        self.cells = self._cells(None, lambda: row_encoder.Cells(kinds.READY, 0))
        layout = column_layout(self.column)
        _bind_values(self.cells, self.array, lambda value: bytes(layout.build(as_value(value, self.column))))

    def unbind(self) -> None:
        """Release the arrays."""
        if self.cells is not None:
            self.cells.unbind()
        super().unbind()

    def _candidates(self) -> list[pa.Array]:
        """Return the array in each native type to which it can be cast without loss."""
        array = self.array
        if array.type in self._natives:
            return [array]
        if pa.types.is_null(array.type):
            return [pa.nulls(len(array), next(iter(self._natives)))] if self._natives else []
        found = []
        for wanted in self._natives:
            if _is_same_family(array.type, wanted):
                try:
                    found.append(array.cast(wanted))
                except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
                    continue
        return found

    def _cells(self, key: pa.DataType | None, make: Callable[[], Any]) -> row_encoder.Cells:
        cells = self._made.get(key)
        if cells is None:
            cells = self._made[key] = make()
        return cells


def _is_plain(native: Native, kind: pa.DataType) -> bool:
    return native.type == kind and native.charset is None and not pa.types.is_nested(kind)


def _is_same_family(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Return whether a safe cast from `given` to `wanted` keeps the meaning of the values for the column."""
    kinds = pa.types
    if kinds.is_integer(wanted):
        return bool(kinds.is_integer(given) or (kinds.is_boolean(given) and wanted.bit_width == 8))
    if kinds.is_decimal(wanted):
        return bool(kinds.is_decimal(given))
    if kinds.is_timestamp(wanted):
        return bool(kinds.is_timestamp(given) and (wanted.tz is not None or given.tz is None))
    if kinds.is_float64(wanted):
        return bool(kinds.is_float32(given))
    if kinds.is_binary(wanted) and kinds.is_fixed_size_binary(given):
        return True
    if kinds.is_list(wanted):
        is_list = kinds.is_large_list(given) or kinds.is_fixed_size_list(given)
        return bool(is_list and given.value_type == wanted.value_type)
    if kinds.is_duration(wanted):
        return bool(kinds.is_duration(given))
    return bool(_TYPES.get(_VARIANTS.get(given, "")) == wanted or (kinds.is_date64(given) and kinds.is_date32(wanted)))


# ------------------------------------------------------------------------------------------------------------- binding


def _bind(cells: row_encoder.Cells, array: pa.Array) -> None:
    """Pass the buffers of an array to the kernel.

    Raises:
        ValueError: the kernel cannot read the buffers.
    """
    if len(array) == 0:
        cells.unbind()
        return
    buffers = array.buffers()
    common = {"validity": buffers[0], "validity_offset": array.offset}
    if cells.kind == kinds.GEOMETRY:
        srid, wkb = array.field(0), array.field(1)
        _require_parts(array, srid, wkb)
        cells.bind(
            len(array),
            **common,
            srids=srid.buffers()[1],
            srids_offset=srid.offset,
            offsets=wkb.buffers()[1],
            offsets_offset=wkb.offset,
            data=wkb.buffers()[2],
        )
    elif cells.kind == kinds.DIFFS:
        _bind_diffs(cells, array)
    elif cells.kind == kinds.VECTOR:
        values = array.values
        if values.null_count and array.flatten().null_count:
            raise ValueError("a value has a NULL among its numbers")
        at = values.offset
        cells.bind(
            len(array), **common, offsets=buffers[1], offsets_offset=array.offset, data=buffers[3], data_offset=at
        )
    elif len(buffers) == 3:
        cells.bind(len(array), **common, offsets=buffers[1], offsets_offset=array.offset, data=buffers[2])
    else:
        cells.bind(len(array), **common, data=buffers[1], data_offset=array.offset)


def _bind_diffs(cells: row_encoder.Cells, array: pa.Array) -> None:
    """Pass lists of JSON diffs to the kernel, or none if a diff lacks a part: construct then raises the error."""
    diffs = array.values
    operations, paths, values = (diffs.field(name) for name in ("operation", "path", "value"))
    cells.bind_diffs(
        len(array),
        validity=array.buffers()[0],
        validity_offset=array.offset,
        offsets=array.buffers()[1],
        offsets_offset=array.offset,
        count=len(diffs),
        operations=operations.buffers()[1],
        operations_offset=operations.offset,
        path_offsets=paths.buffers()[1],
        path_offsets_offset=paths.offset,
        paths=paths.buffers()[2],
        value_validity=values.buffers()[0],
        value_validity_offset=values.offset,
        value_offsets=values.buffers()[1],
        value_offsets_offset=values.offset,
        values=values.buffers()[2],
        refused=0 if diffs.null_count or operations.null_count or paths.null_count else -1,
    )


def _require_parts(array: pa.Array, *parts: pa.Array) -> None:
    """Check that geometries that are not NULL have both parts (SRID and WKB).

    Raises:
        ValueError: a part is NULL.
    """
    import pyarrow.compute as pc  # noqa: PLC0415 - slow to import

    for part in parts:
        if part.null_count and pc.any(pc.and_not(array.is_valid(), part.is_valid())).as_py():
            raise ValueError("a value has a NULL among its parts")


def _bind_text(cells: row_encoder.Cells, array: pa.Array, charset: str, *, trims: bool) -> None:
    """Pass text to the kernel in a multi-byte character set, up to the first value that it cannot represent."""
    if len(array) == 0:
        cells.unbind()
        return
    validity, offsets, data = array.buffers()
    first = array.offset
    offsets, data, refused = characters_of(charset).encoded(
        len(array), offsets=offsets, data=data, validity=validity, first=first, trims=trims
    )
    cells.bind(len(array), validity=validity, validity_offset=first, offsets=offsets, data=data, refused=refused)


def _bind_values(cells: row_encoder.Cells, array: pa.Array, prepare: Callable[[Any], bytes]) -> None:
    """Encode each value to bytes and pass them to the kernel, up to the first value that does not fit its column.

    Raises:
        ValueError: the values have more than 2 GiB.
    """
    values: list[bytes | None] = []
    refused = -1
    for row in range(len(array)):
        try:
            value = array[row].as_py()
            values.append(None if value is None else prepare(value))
        except _REFUSED:
            refused = row
            break
    values += [b""] * (len(array) - len(values))
    made = pa.array(values, pa.binary())
    if isinstance(made, pa.ChunkedArray):  # beyond 2 GiB
        raise ValueError("the values take more than 2 GiB")  # noqa: TRY004 - pyarrow returns another type then
    validity, offsets, data = made.buffers()
    cells.bind(len(made), validity=validity, offsets=offsets, data=data, refused=refused)


# ------------------------------------------------------------------------------------------------------------- columns


def _natives(column: ColumnPlan) -> tuple[Native, ...]:
    """Return the native types of a column; the first is the type to which the column is decoded."""
    found = {}
    if main_cells(column) is not None:
        found[column_spec(column).type] = Native(column_spec(column).type, partial(main_cells, column))
    elif bytes_cells(column) is not None and (charset := charset_of(column.collation_id)) is not None:
        trims = column.type == ColumnType.STRING
        found[pa.string()] = Native(pa.string(), partial(bytes_cells, column), charset.name, trims)
    if number_cells(column) is not None:
        by_number = pa.uint16() if column.type == ColumnType.ENUM else pa.uint64()
        found.setdefault(by_number, Native(by_number, partial(number_cells, column)))
    if bytes_cells(column) is not None:
        found.setdefault(pa.binary(), Native(pa.binary(), partial(bytes_cells, column)))
    return tuple(found.values())
