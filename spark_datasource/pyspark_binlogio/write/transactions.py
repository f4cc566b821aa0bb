"""Transactions of the records to write: puts a data frame in their order, groups records into them, checks the order.

Uses the columns of the view `rows`. Tables and events are in `written_tables` and `segments`. Spark passes the
partitions of a data frame to a writer unchanged, so a frame must be partitioned between transactions first.

    transaction := run+      same file, gtid and sequence_number; if both gtid and sequence_number are NULL, same file
                             and pos
    run         := record+   same table, operation, bitmaps, server_id and timestamp, consecutive
    order       := (file by its number, pos, row), strictly increasing
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - the customary name

from binlogio.errors import BinlogFormatError
from binlogio.storage import log_number

if TYPE_CHECKING:
    import numpy.typing as npt
    from pyspark.sql import DataFrame

IN_ORDER_HINT: Final = "write pyspark_binlogio.in_transaction_order(df, n), which puts the records in order"
_OPS: Final = {"insert": "an insert", "update": "an update", "delete": "a delete"}
_US_PER_S: Final = 1_000_000
_TRANSACTION: Final = ("file", "gtid", "sequence_number")
_RUN: Final = ("schema", "table", "op", "before_present", "after_present", "server_id", "timestamp")

FileKey = tuple[str, int, str]
Place = tuple[FileKey, int, int]
"""The place of a record: its file, pos and row. Places sort as the records do."""

TransactionKey = tuple[FileKey, str | None, int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordRun:
    """Changes of one kind to one table. `timestamp` in seconds since 1970; the images are structs or JSON text."""

    schema: str
    table: str
    op: str
    server_id: int
    timestamp: int
    before_present: bytes | None
    after_present: bytes | None
    before: pa.Array
    after: pa.Array


@dataclass(slots=True)
class WrittenTransaction:
    """All records of one transaction, in their order. `gtid` as text, None where it has none."""

    key: TransactionKey
    gtid: str | None
    first: Place
    last: Place
    runs: list[RecordRun] = field(default_factory=list)


def transactions(batches: Iterable[pa.RecordBatch]) -> Iterator[WrittenTransaction]:
    """Yield the transactions of the records of one task. The batches have all columns of the view.

    Raises:
        BinlogFormatError: the records are not in order, or one is invalid.
    """
    pending: WrittenTransaction | None = None
    for batch in batches:
        if batch.num_rows == 0:
            continue
        _refuse_nulls(batch)
        for key, first, last, run in _runs(batch):
            if pending is not None and first <= pending.last:
                raise out_of_order(pending.last, first)
            if pending is None or key != pending.key:
                if pending is not None:
                    yield pending
                pending = WrittenTransaction(key, key[1], first, last)
            pending.runs.append(run)
            pending.last = last
    if pending is not None:
        yield pending


def out_of_order(before: Place, after: Place) -> BinlogFormatError:
    """Return the error for a record or a task that is not after those before it."""
    return BinlogFormatError(
        "the records to write are out of order or duplicated",
        field="file, pos, row",
        expected=f"after {_shown(before)}",
        found=_shown(after),
        hint=IN_ORDER_HINT,
    )


def log_name(file: FileKey) -> str | None:
    """Return the name of a log as its records have it; None for records without a file."""
    stem, number, more = file
    return (f"{stem}.{number:06d}{more}" if number >= 0 else stem) or None


def _shown(place: Place) -> str:
    file, pos, row = place
    return f"{log_name(file) or ''}:{pos}, row {row}"


def _refuse_nulls(batch: pa.RecordBatch) -> None:
    for name in ("op", "pos", "row", "schema", "table", "timestamp", "server_id"):
        if batch.column(name).null_count:
            raise BinlogFormatError("the column is NULL in a record to write", field=name)


def _runs(batch: pa.RecordBatch) -> Iterator[tuple[TransactionKey, Place, Place, RecordRun]]:
    """Yield each run with its transaction, and its first and last place.

    Refuses records of one file that are not in order.
    """
    starts = _starts(batch)
    stops = [*starts[1:], batch.num_rows]
    values = zip(*(_taken(batch, name, starts) for name in _RUN), strict=True)
    places, lasts = _places(batch, starts), _places(batch, [stop - 1 for stop in stops])
    names = zip(*(_taken(batch, name, starts) for name in ("gtid", "sequence_number")), strict=True)
    before, after = batch.column("before"), batch.column("after")
    for start, stop, first, last, name, head in zip(starts, stops, places, lasts, names, values, strict=True):
        schema, table, op, before_present, after_present, server_id, timestamp = head
        run = RecordRun(
            schema=schema,
            table=table,
            op=op,
            server_id=server_id,
            timestamp=timestamp // _US_PER_S,
            before_present=before_present,
            after_present=after_present,
            before=before.slice(start, stop - start),
            after=after.slice(start, stop - start),
        )
        _refuse_missing_images(run)
        yield _key(first, *name), first, last, run


def _starts(batch: pa.RecordBatch) -> list[int]:
    changed = {name: _changes(batch.column(name)) for name in (*_TRANSACTION, *_RUN)}
    has_no_name = np.asarray(batch.column("gtid").is_null()) & np.asarray(batch.column("sequence_number").is_null())
    pos, row = (batch.column(name).to_numpy() for name in ("pos", "row"))
    moved = pos[1:] != pos[:-1]
    backwards = ~changed["file"] & ((pos[1:] < pos[:-1]) | (~moved & (row[1:] <= row[:-1])))
    if backwards.any():
        at = int(np.flatnonzero(backwards)[0])
        raise out_of_order(*_places(batch, [at, at + 1]))
    breaks = reduce(np.logical_or, changed.values(), moved & has_no_name[1:])
    return [0, *(np.flatnonzero(breaks) + 1).tolist()]


def _changes(array: pa.Array) -> npt.NDArray[np.bool_]:
    """Return True at i where the value at i + 1 differs from that at i; null is a value here."""
    codes = np.asarray(array.dictionary_encode(null_encoding="encode").indices)
    return np.asarray(codes[1:] != codes[:-1])


def _taken(batch: pa.RecordBatch, name: str, rows: list[int]) -> list[Any]:
    taken = batch.column(name).take(pa.array(rows))
    return list((taken.cast(pa.int64()) if name == "timestamp" else taken).to_pylist())


def _places(batch: pa.RecordBatch, rows: list[int]) -> list[Place]:
    files, *numbers = (_taken(batch, name, rows) for name in ("file", "pos", "row"))
    keys = {file: log_number(file or "") for file in set(files)}
    return [(keys[file], pos, row) for file, pos, row in zip(files, *numbers, strict=True)]


def _key(place: Place, gtid: str | None, number: int | None) -> TransactionKey:
    if gtid is None and number is None:
        number = -1 - place[1]  # no sequence_number is below 0
    return place[0], gtid, number


def _refuse_missing_images(run: RecordRun) -> None:
    if run.op not in _OPS:
        raise BinlogFormatError("unknown operation", field="op", expected=", ".join(_OPS), found=repr(run.op))
    for name, image, has_image in ("before", run.before, run.op != "insert"), ("after", run.after, run.op != "delete"):
        if has_image and image.null_count:
            raise BinlogFormatError(f"a record of {_OPS[run.op]} has no {name} image", field=name)


_LOG_NUMBER: Final = r"\.(\d+)(?:\.\w+)?$"


def ordered(frame: DataFrame, partitions: int) -> DataFrame:
    """Return the records in `partitions` ranges of whole transactions, each sorted. Missing columns are ignored."""
    names = frame.columns
    file = F.col("file") if "file" in names else F.lit("")
    row = F.col("row") if "row" in names else F.lit(0)
    identity = [F.col(name) for name in ("gtid", "sequence_number") if name in names]
    is_named = F.coalesce(*(column.cast("string") for column in identity), F.lit(None)).isNotNull()
    transaction = Window.partitionBy(file, *identity, F.when(~is_named, F.col("pos")))
    keys = {
        "_stem": F.regexp_replace(file, _LOG_NUMBER, ""),
        "_number": F.coalesce(F.nullif(F.regexp_extract(file, _LOG_NUMBER, 1), F.lit("")).cast("bigint"), F.lit(-1)),
        "_begin": F.min("pos").over(transaction),
        "_row": row,
    }
    keyed = frame.withColumns(keys)
    cut = keyed.repartitionByRange(partitions, "_stem", "_number", "_begin")
    return cut.sortWithinPartitions("_stem", "_number", "pos", "_row").drop(*keys)
