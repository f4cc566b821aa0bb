"""Checks of values that a rows event could hold and that readers reject: the writer rejects them too.

The checks accept Python objects and Arrow arrays. Ranges and lengths are checked by `binlogio.rows`, which otherwise
encodes any bytes, because a log of another server must be rebuilt byte for byte.

    text given as bytes that are not valid in its character set     invalid JSON documents     invalid WKB geometries
    TIME as text with 61 minutes
    a number beyond the members of an ENUM or SET, or a name and a number that do not belong together
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

from binlogio.constants import ColumnType
from binlogio.errors import BinlogError, BinlogFormatError, UnsupportedFeature
from binlogio.implementation import is_compiled
from binlogio.primitives import BAD_BYTES
from binlogio.values.charsets import charset_of
from binlogio.values.enum_set import EnumValue, SetValue
from binlogio.values.geometry import SRID_SIZE, Geometry
from binlogio.values.json import JsonDocument
from binlogio.values.temporal import time_fields

if TYPE_CHECKING:
    import pyarrow as pa

    from binlogio.rows.plan import TablePlan
    from binlogio.values.column import ColumnPlan

Check = Callable[[Any], None]
"""Checks a value that is not NULL; raises an exception of `BAD_BYTES`, or BinlogError, if a reader would reject it."""

_SHOWN: Final = 60
_MAX_MINUTE: Final = 59


def checks_of(plan: TablePlan) -> tuple[tuple[int, Check], ...]:
    """Return (position, check) for each column whose values must be checked."""
    found = ((column.position, _check_of(column)) for column in plan.columns)
    return tuple((position, check) for position, check in found if check is not None)


def check_value(check: Check, value: object, field: str) -> None:
    """Check a value of the column `field`.

    Raises:
        BinlogFormatError: a reader would reject it.
    """
    try:
        check(value)
    except (BinlogError, *BAD_BYTES) as exc:
        shown = ascii(value)
        raise BinlogFormatError(
            f"readers would refuse the value: {exc}",
            field=field,
            found=shown if len(shown) <= _SHOWN else f"{shown[: _SHOWN - 3]}...",
        ) from exc


class BatchChecks:
    """Checks batches of one table: values that are bytes, numbers, or TIME as text; other values are always readable.

    `not_null` are the NOT NULL columns.
    """

    def __init__(self, plan: TablePlan, not_null: Iterable[str] = ()) -> None:
        self._plan = plan
        self._not_null = frozenset(not_null)
        self._schema: pa.Schema | None = None
        self._checked: list[tuple[int, ColumnPlan, Check]] = []
        self._nullable: list[tuple[int, str]] = []

    def check_nulls(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Check that NOT NULL columns have no NULL.

        Raises:
            UnsupportedFeature: there is one.
        """
        self._take(batch.schema)
        for place, name in self._nullable:
            if batch.column(place).null_count:
                field = f"{self._plan.full_name}.{name}"
                raise UnsupportedFeature("the column cannot be NULL", field=field)

    def check_values(self, batch: pa.RecordBatch | pa.Table) -> None:
        """Check the values.

        Raises:
            BinlogFormatError: a reader would reject one; the error names column and row.
        """
        self._take(batch.schema)
        for place, column, check in self._checked:
            self._check_column(batch.column(place), column, check)

    def _take(self, schema: pa.Schema) -> None:
        if schema == self._schema:
            return
        places = {name: place for place, name in enumerate(schema.names)}
        self._checked, self._nullable = [], []
        for column in self._plan.columns:
            place, check = places.get(column.label), _check_of(column)
            if place is None:
                continue
            if column.label in self._not_null:
                self._nullable.append((place, column.label))
            if check is not None and _may_fail(schema.field(place).type, check):
                self._checked.append((place, column, check))
        self._schema = schema

    def _check_column(self, array: pa.Array | pa.ChunkedArray, column: ColumnPlan, check: Check) -> None:
        import pyarrow as pa  # noqa: PLC0415 - slow to import
        import pyarrow.compute as pc  # noqa: PLC0415

        if pa.types.is_integer(array.type) and len(array):
            top = pc.max(array).as_py()
            if top is None or top <= _largest(column):
                return
        for row, value in enumerate(array):
            found = value.as_py()
            if isinstance(found, dict):
                found = None if found.get("wkb") is None else Geometry(found.get("srid") or 0, found["wkb"])
            elif isinstance(found, bytes) and column.type == ColumnType.JSON:
                found = JsonDocument(found)
            if found is not None:
                check_value(check, found, f"{self._plan.full_name}.{column.label}, row {row}")


def _may_fail(kind: pa.DataType, check: Check) -> bool:
    """Return whether values of an Arrow type may be rejected by a reader."""
    import pyarrow as pa  # noqa: PLC0415 - slow to import

    kinds = pa.types
    if kinds.is_dictionary(kind) or kinds.is_run_end_encoded(kind):
        kind = kind.value_type
    is_bytes = any(test(kind) for test in (kinds.is_binary, kinds.is_large_binary, kinds.is_fixed_size_binary))
    is_text = check is check_time and str(kind) in ("string", "large_string", "string_view")
    return bool(is_bytes or is_text or str(kind) == "binary_view" or kinds.is_struct(kind) or kinds.is_integer(kind))


def _largest(column: ColumnPlan) -> int:
    """Return the largest number of an ENUM or SET with known members."""
    count = len(column.members or ())
    return count if column.type == ColumnType.ENUM else (1 << count) - 1


def _check_of(column: ColumnPlan) -> Check | None:
    if column.type in (ColumnType.ENUM, ColumnType.SET):
        return None if column.members is None else _member_check(column)
    if column.type == ColumnType.JSON:
        return _check_json
    if column.type == ColumnType.GEOMETRY:
        return _check_geometry
    if column.type in (ColumnType.TIME, ColumnType.TIME2):
        return check_time
    charset = charset_of(column.collation_id)
    if charset is None or column.native is not None:
        return None

    def check_text(value: object) -> None:
        if type(value) is not str and isinstance(value, (bytes, bytearray, memoryview)):
            charset.decode(bytes(value))

    return check_text


def _member_check(column: ColumnPlan) -> Check:
    members, largest = column.members or (), _largest(column)
    is_enum = column.type == ColumnType.ENUM

    def check_member(value: Any) -> None:
        if type(value) is str:
            return
        number = value.index if isinstance(value, EnumValue) else value.bits if isinstance(value, SetValue) else value
        if isinstance(number, int) and number > largest:
            raise BinlogFormatError(f"the column has {len(members)} members", found=number)
        if isinstance(value, EnumValue) and is_enum and str(value) != (members[number - 1] if number else ""):
            raise BinlogFormatError(
                "the name and the number belong to different members", expected=members[number - 1] if number else "''"
            )
        if isinstance(value, SetValue) and not is_enum:
            expected = ",".join(name for i, name in enumerate(members) if number >> i & 1)
            if set(filter(None, str(value).split(","))) != set(filter(None, expected.split(","))):
                raise BinlogFormatError("the names and the bits belong to different members", expected=expected)

    return check_member


def check_time(value: object) -> None:
    """Reject a TIME as text with minutes or seconds above 59, which Arrow cannot represent.

    Raises:
        BinlogFormatError: the text has such a value.
    """
    if isinstance(value, str):
        fields = time_fields(value)
        if fields.minute > _MAX_MINUTE or fields.second > _MAX_MINUTE:
            raise BinlogFormatError("minutes or seconds over 59")


def _check_json(value: Any) -> None:
    if not isinstance(value, JsonDocument) or not value.binary:
        return  # the encoder accepts nothing else, and servers read a value of no bytes as NULL
    if is_compiled():
        from binlogio._kernel.json_documents import json_text  # noqa: PLC0415 - missing if it was not compiled

        if json_text(value.binary) is not None:
            return
    _ = value.text


def _check_geometry(value: Any) -> None:
    if isinstance(value, (bytes, bytearray)):
        value = Geometry(int.from_bytes(value[:SRID_SIZE], "little"), bytes(value[SRID_SIZE:]))
    if not isinstance(value, Geometry):
        return
    if is_compiled():
        from binlogio._kernel.primitives import wkt  # noqa: PLC0415

        if wkt(value.wkb) is not None:
            return
    _ = value.wkt
