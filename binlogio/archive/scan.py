"""`scan`: the row changes of a table as a Polars LazyFrame, with projection and predicate pushdown.

Conditions on `pos`, `timestamp`, `server_id`, `op` and `gtid` that are joined by AND become an `EventFilter`: rows of
other events are not decoded. Polars serialises an expression as JSON, in a form that may change between versions:
conditions that are not recognised are not pushed down, and the whole predicate is always applied to the rows. Columns
of the table are decoded only if `before` or `after` is selected.
"""

from __future__ import annotations

import io
import json
import math
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from binlogio.archive.export.type_map import ExportFormat, stored_schema
from binlogio.arrow.conversion import converted_batch
from binlogio.columnar.rows_reader import read_rows
from binlogio.errors import BinlogFormatError, MissingPackage
from binlogio.options import DEFAULT_LIMITS, Limits
from binlogio.selection.event_filter import EVERY_EVENT, HIGHEST, LOWEST, OPERATIONS, EventFilter, Range
from binlogio.storage.index_file import unescaped_name
from binlogio.storage.sources import Source

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa
    from pyarrow.fs import FileSystem

    from binlogio.columnar.row_batches import RowBatches
    from binlogio.schema.given import Definitions
    from binlogio.storage.keyring import KeyringSource

_ZeroDates = Literal["error", "null", "text"]
_BATCH_ROWS: Final = 1 << 16
_IMAGES: Final = ("before", "after")
_PER_SECOND: Final = {"Milliseconds": 10**3, "Microseconds": 10**6, "Nanoseconds": 10**9}
_NOT_NUMBERS: Final = {"Date", "Time", "Boolean"}
_SWAPPED: Final = {"Eq": "Eq", "Lt": "Gt", "LtEq": "GtEq", "Gt": "Lt", "GtEq": "LtEq"}


def scan(
    source: Source | Iterable[Source],
    *,
    table: str,
    columns: Iterable[str] | None = None,
    where: EventFilter = EVERY_EVENT,
    zero_dates: _ZeroDates = "error",
    json_diffs: Literal["operations", "error"] = "operations",
    verify_checksum: bool = True,
    threads: int = 1,
    keyring: KeyringSource | None = None,
    filesystem: FileSystem | None = None,
    definitions: Definitions | None = None,
    limits: Limits = DEFAULT_LIMITS,
    source_columns: Collection[str] = (),
    ignore_missing_logs: bool = False,
    statement_changes: Literal["error", "skip"] = "error",
) -> pl.LazyFrame:
    """Return the row changes of a table as a Polars LazyFrame with the columns of `read_rows`.

    The first row of the table is read to determine the columns. The logs are read when the frame is collected.
    DECIMAL of more than 38 digits is text, since Polars has no such type. Arguments and errors are those of
    `binlogio.read_rows`.

    Raises:
        MissingPackage: Polars is not installed.
    """
    try:
        from polars.io.plugins import register_io_source  # noqa: PLC0415 - an extra
    except ImportError as exc:
        raise MissingPackage("scan() needs the package polars", extra="polars") from exc

    def rows(columns: tuple[str, ...] | None, where: EventFilter, batch_rows: int, dates: _ZeroDates) -> RowBatches:
        return read_rows(
            source,
            table=table,
            columns=columns,
            where=where,
            batch_rows=batch_rows,
            zero_dates=dates,
            json_diffs=json_diffs,
            verify_checksum=verify_checksum,
            threads=threads,
            keyring=keyring,
            filesystem=filesystem,
            definitions=definitions,
            limits=limits,
            source_columns=source_columns,
            ignore_missing_logs=ignore_missing_logs,
            statement_changes=statement_changes,
        )

    picked = None if columns is None else tuple(columns)
    first = rows(picked, where, 1, "null" if zero_dates == "error" else zero_dates)
    schema = stored_schema(first.schema, ExportFormat.PARQUET)
    found = _TableScan(rows, picked, where, zero_dates, schema)
    return register_io_source(found.frames, schema=_frame(schema.empty_table()).schema, is_pure=True)


@dataclass(frozen=True, slots=True)
class _TableScan:
    """A Polars IO source: reads the table each time a frame is collected."""

    rows: Callable[[tuple[str, ...] | None, EventFilter, int, _ZeroDates], RowBatches]
    columns: tuple[str, ...] | None
    where: EventFilter
    zero_dates: _ZeroDates
    schema: pa.Schema

    def frames(
        self, names: list[str] | None, predicate: pl.Expr | None, most_rows: int | None, batch_rows: int | None
    ) -> Iterator[pl.DataFrame]:
        """Yield the rows that match a predicate, with the given columns."""
        names = self.schema.names if names is None else names
        schema = _selected(self.schema, names)
        where = self.where if predicate is None else self.where.both(pushed_down(predicate))
        has_images = any(name in names for name in _IMAGES)
        wanted = min(batch_rows or _BATCH_ROWS, most_rows or _BATCH_ROWS, _BATCH_ROWS) or 1
        rows = self.rows(self.columns if has_images else (), where, wanted, self.zero_dates)
        count = 0
        for batch in rows:
            _check_columns(batch, schema)
            frame = _frame(converted_batch(batch, schema))
            if most_rows is not None:  # Polars counts rows before the predicate
                frame = frame.head(most_rows - count)
                count += len(frame)
            yield frame if predicate is None else frame.filter(predicate)
            if most_rows is not None and count >= most_rows:
                return


def _selected(schema: pa.Schema, names: Iterable[str]) -> pa.Schema:
    import pyarrow as pa  # noqa: PLC0415 - slow to import

    return pa.schema([schema.field(name) for name in names])


def _frame(rows: pa.Table | pa.RecordBatch) -> pl.DataFrame:
    import polars as pl  # noqa: PLC0415

    frame = pl.from_arrow(rows)
    if isinstance(frame, pl.Series):
        raise TypeError(type(rows))
    return frame


def _check_columns(batch: pa.RecordBatch, schema: pa.Schema) -> None:
    """Raise if the images of a batch have other columns than the frame, after an ALTER TABLE.

    Raises:
        BinlogFormatError: the columns differ.
    """
    for name in _IMAGES:
        if name not in schema.names:
            continue
        found = stored_schema(batch.schema, ExportFormat.PARQUET).field(name).type
        if found != schema.field(name).type:
            raise BinlogFormatError(
                "the table's columns change within the logs",
                file=unescaped_name(batch.column("file")[0].as_py()),
                offset=batch.column("pos")[0].as_py(),
                field=f"{batch.column('schema')[0]}.{batch.column('table')[0]}",
                expected=str(schema.field(name).type),
                found=str(found),
                hint="select unchanged columns with columns=, or the part before or after it with where=",
            )


# ------------------------------------------------------------------------------------------------ predicate pushdown


def pushed_down(predicate: pl.Expr) -> EventFilter:
    """Return the filter implied by a predicate: it passes every row for which the predicate is true."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings about an unstable format
        try:
            tree = json.loads(predicate.meta.serialize(format="json"))
        except Exception:  # noqa: BLE001 - Python functions and some expressions cannot be serialised
            return EVERY_EVENT
    return _filter_of(tree)


def _filter_of(tree: Any) -> EventFilter:
    match tree:
        case {"BinaryExpr": {"left": left, "op": "And", "right": right}}:
            return _filter_of(left).both(_filter_of(right))
        case {"BinaryExpr": {"left": {"Column": str(name)}, "op": str(op), "right": right}}:
            return _condition(name, op, _literal(right))
        case {"BinaryExpr": {"left": left, "op": str(op), "right": {"Column": str(name)}}} if op in _SWAPPED:
            return _condition(name, _SWAPPED[op], _literal(left))
        case {"Function": {"input": [{"Column": str(name)}, low, high],
                           "function": {"Boolean": {"IsBetween": {"closed": "Both"}}}}}:  # fmt: skip
            return _condition(name, "GtEq", _literal(low)).both(_condition(name, "LtEq", _literal(high)))
        case {"Function": {"input": [{"Column": str(name)}, {"Literal": {"Scalar": {"List": [*data]}}}],
                           "function": {"Boolean": {"IsIn": _}}}}:  # fmt: skip
            return _one_of(name, _list(data))
    return EVERY_EVENT


def _literal(tree: Any) -> Any:
    """Return the value of a literal, times in seconds since 1970; None for other expressions."""
    match tree:
        case {"Literal": {"Scalar": {"Datetime": [int(count), str(unit), {"inner": "UTC"}]}}} if unit in _PER_SECOND:
            return count / _PER_SECOND[unit] if count % _PER_SECOND[unit] else count // _PER_SECOND[unit]
        case {"Literal": {"Scalar": {"String": str(text)}}}:
            return text
        case {"Literal": {"Scalar": {**scalar}}} if len(scalar) == 1:
            (value,) = scalar.values()
            return value if type(value) is int and not set(scalar) & _NOT_NUMBERS else None
        case {"Literal": {"Dyn": {"Int": int(value)}}}:
            return value
    return None


def _list(data: list[int]) -> frozenset[Any] | None:
    import polars as pl  # noqa: PLC0415

    try:
        values = pl.read_ipc_stream(io.BytesIO(bytes(data))).to_series().to_list()
    except (pl.exceptions.PolarsError, ValueError, OSError):
        return None
    return frozenset(one for value in values for one in (value if isinstance(value, list) else [value]))


def _condition(name: str, op: str, value: Any) -> EventFilter:
    if value is None:
        return EVERY_EVENT
    if op == "Eq" and name in _SETS:
        return _one_of(name, frozenset([value]))
    if name not in ("pos", "timestamp") or isinstance(value, str):
        return EVERY_EVENT
    bounds = {
        "Eq": (math.ceil(value), math.floor(value) + 1),
        "Lt": (LOWEST, math.ceil(value)),
        "LtEq": (LOWEST, math.floor(value) + 1),
        "Gt": (math.floor(value) + 1, HIGHEST),
        "GtEq": (math.ceil(value), HIGHEST),
    }.get(op, (LOWEST, HIGHEST))
    start, end = (min(max(one, LOWEST), HIGHEST) for one in bounds)
    return EventFilter(pos=Range(start, end)) if name == "pos" else EventFilter(timestamp=Range(start, end))


_SETS: Final = ("op", "server_id", "gtid")


def _one_of(name: str, values: frozenset[Any] | None) -> EventFilter:
    if values is None or name not in _SETS:
        return EVERY_EVENT
    if name == "server_id":
        return EventFilter(server_ids=frozenset(one for one in values if isinstance(one, int)))
    texts = frozenset(one for one in values if isinstance(one, str))
    return EventFilter(ops=OPERATIONS & texts) if name == "op" else EventFilter(gtids=texts)
