"""The changes of one table, typed: the view `rows` with `table`, and the view `cdf`.

Knows how the record batches of `binlogio.read_rows` become those views. Where nobody gives a schema, a table's columns are those that
it has in the first of its changes in the newest log that has any.

    cdf := column* _change_type _commit_version _commit_timestamp
    _change_type := insert | delete | update_preimage update_postimage
    _commit_version := the number of the log, and the offset of the event in it: later changes have greater ones
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from binlogio.columnar.record_types import Selection
from binlogio.columnar.row_records import ROW_COLUMNS
from binlogio.columnar.rows_reader import DEFAULT_BATCH_ROWS, read_split
from binlogio.index_file import log_number
from pyspark_binlogio.batches import ARROW_TYPES
from pyspark_binlogio.damage import tolerant
from pyspark_binlogio.option_values import BinlogOptionError, nearest
from pyspark_binlogio.partitions import Piece
from pyspark_binlogio.spark_types import spark_type

if TYPE_CHECKING:
    from binlogio.storage import LogFile
    from pyspark_binlogio.request import Request

CHANGE_TYPE: Final = "_change_type"
COMMIT_VERSION: Final = "_commit_version"
COMMIT_TIMESTAMP: Final = "_commit_timestamp"
CDF_FILTERS: Final = {COMMIT_TIMESTAMP: "timestamp"}
CDF_COLUMNS: Final = {
    CHANGE_TYPE: pa.string(),
    COMMIT_VERSION: pa.int64(),
    COMMIT_TIMESTAMP: ARROW_TYPES["timestamp"],
}
"""Beside those of the table."""

VERSION_BITS: Final = 40
"""Of _commit_version those that the offset has; a log may have a terabyte."""

_SHOWN: Final = 20  # of the tables that a message names
_SPARK_BATCH_ROWS: Final = 1 << 13  # Spark is slower with fewer and with many more


def typed_row_columns(request: Request, logs: list[LogFile]) -> Mapping[str, pa.DataType]:
    """The columns of the view `rows`, with images that are structs of the table's columns."""
    columns = {name: ARROW_TYPES[kind] for name, kind in ROW_COLUMNS.items()}
    image = _image_type(request, logs)
    return wanted_images({**columns, "before": image, "after": image}, request)


def wanted_images(columns: Mapping[str, pa.DataType], request: Request) -> Mapping[str, pa.DataType]:
    """The columns of the view `rows` without those of the image that nobody wants."""
    unwanted = {"both": (), "before": ("after", "after_present"), "after": ("before", "before_present")}
    return {name: kind for name, kind in columns.items() if name not in unwanted[request.options.images]}


def cdf_columns(request: Request, logs: list[LogFile]) -> Mapping[str, pa.DataType]:
    """The columns of the table, and those that say what happened."""
    image = _image_type(request, logs)
    return {
        **{field.name: field.type for field in image},
        **CDF_COLUMNS,
    }


def row_batches(piece: Piece, request: Request) -> Iterator[pa.RecordBatch]:
    """The row changes of a piece of a log.

    Raises:
        BinlogError: the bytes are no binary log; says which file and where in it.
    """
    mixed = request.options.tables.table is None
    for _, batch in read_split(piece.log, piece.split, _selection(request, mixed=mixed), request.keyring):
        for start in range(0, batch.num_rows, _SPARK_BATCH_ROWS):
            yield batch.slice(start, _SPARK_BATCH_ROWS)


def cdf_batches(piece: Piece, request: Request) -> Iterator[pa.RecordBatch]:
    """The row changes of a piece of a log, an update as two records.

    Raises:
        BinlogError: the bytes are no binary log; says which file and where in it.
    """
    number = max(0, log_number(piece.log.name)[1])
    for batch in row_batches(piece, request):
        yield _cdf(batch, number)


def _cdf(batch: pa.RecordBatch, file_number: int) -> pa.RecordBatch:
    before, after = batch.column("before"), batch.column("after")
    has_before, has_after = (np.asarray(side.is_valid()) for side in (before, after))
    count = has_before.astype(np.int64) + has_after
    record = np.repeat(np.arange(batch.num_rows), count)
    is_second = np.concatenate(([False], record[1:] == record[:-1])) if len(record) else np.zeros(0, bool)
    is_after = is_second | ~has_before[record]
    images = pa.concat_arrays([before, after]).take(pa.array(record + is_after * batch.num_rows))
    is_update = (has_before & has_after)[record]
    kind = is_update * (1 + is_second) + ~is_update * ~is_after * 3
    kinds = pa.array(["insert", "update_preimage", "update_postimage", "delete"])
    pos = np.asarray(batch.column("pos"))[record]
    columns = {
        **dict(zip((field.name for field in images.type), images.flatten(), strict=True)),
        CHANGE_TYPE: kinds.take(pa.array(kind)),
        COMMIT_VERSION: pa.array((file_number << VERSION_BITS) | pos),
        COMMIT_TIMESTAMP: batch.column("timestamp").take(pa.array(record)),
    }
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _selection(request: Request, *, mixed: bool = False) -> Selection:
    options, where = request.options, request.where
    return Selection(
        wants=lambda schema, table: (
            (not options.tables or options.tables(schema, table)) and where.wants_table(schema, table)
        ),
        columns=request.columns if request.columns is not None else options.columns,
        zero_dates=options.zero_dates,
        verify_checksum=options.verify_checksum,
        batch_rows=DEFAULT_BATCH_ROWS,
        where=where,
        definitions=request.definitions,
        mixed=mixed,
        may_lack_columns=request.columns is not None,
    )


def _image_type(request: Request, logs: list[LogFile]) -> pa.DataType:
    """What the table's columns are in Spark."""
    seen: dict[str, None] = {}
    selection = _selection(request)

    def wants(schema: str, table: str) -> bool:
        seen[f"{schema}.{table}"] = None
        return selection.wants(schema, table)

    def changes(piece: Piece) -> Iterator[pa.RecordBatch]:
        wanted = replace(selection, wants=wants)
        return (batch for _, batch in read_split(piece.log, piece.split, wanted, request.keyring))

    mode = "DROPMALFORMED" if request.options.mode == "PERMISSIVE" else request.options.mode
    for log in reversed(logs):
        for batch in tolerant(changes, Piece(log), replace(request.options, mode=mode)):
            return spark_type(batch.schema.field("after").type)
    name = request.options.tables.table or ""
    more = f" and {len(seen) - _SHOWN} more" if len(seen) > _SHOWN else ""
    others = f"{', '.join([*seen][:_SHOWN])}{more}"
    there = f"did you mean {nearest(name, tuple(seen))!r}? There are changes of {others}; or " if seen else ""
    raise BinlogOptionError(
        f"binlog: no log has a change of table {name}, so nobody knows its columns; {_looked_into(logs)}; {there}"
        "give a schema with .schema(...), or leave out table for images as JSON"
    )


def _looked_into(logs: list[LogFile]) -> str:
    if not logs:
        return "there is no log"
    return f"looked into {logs[0].name}" + (f" to {logs[-1].name}" if len(logs) > 1 else "")
