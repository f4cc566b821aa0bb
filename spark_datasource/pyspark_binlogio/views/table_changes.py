"""Typed changes of one table: the view `rows` with option `table`, and the view `cdf`.

Converts the record batches of `binlogio.read_rows` to these views. Without a schema of the user, the table's
columns are those of its last change in the newest log that has one.

    cdf := column* _change_type _commit_version _commit_timestamp _commit_gtid _change_order _change_file _change_pos _change_row
    _change_type := insert | delete | update_preimage update_postimage
    _commit_version := number of the log, and offset in it at which the transaction begins; increases from transaction to transaction
    _change_order := number of the record among those of its transaction in this view
    _change_file _change_pos _change_row := file, pos and row of the view `rows`
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from binlogio.columnar.record_types import RowSelection
from binlogio.columnar.reference.row_records import ROW_COLUMNS
from binlogio.columnar.rows_reader import DEFAULT_BATCH_ROWS, read_split
from binlogio.format.splits import Split
from binlogio.storage.index_file import log_number
from pyspark_binlogio.option_values import BinlogOptionError, nearest
from pyspark_binlogio.scan.damage import tolerant
from pyspark_binlogio.scan.partitions import Piece, evenly
from pyspark_binlogio.spark_types import spark_type
from pyspark_binlogio.views.batches import ARROW_TYPES
from pyspark_binlogio.views.commits import Commits, Numbers

if TYPE_CHECKING:
    from binlogio.storage.sources import LogFile
    from pyspark_binlogio.scan.request import Request

CHANGE_TYPE: Final = "_change_type"
COMMIT_VERSION: Final = "_commit_version"
COMMIT_TIMESTAMP: Final = "_commit_timestamp"
COMMIT_GTID: Final = "_commit_gtid"
CHANGE_ORDER: Final = "_change_order"
CHANGE_FILE: Final = "_change_file"
CHANGE_POS: Final = "_change_pos"
CHANGE_ROW: Final = "_change_row"
CDF_FILTERS: Final = {CHANGE_FILE: "files", COMMIT_GTID: "gtids"}
"""Of whole transactions: a filter within one would change _change_order."""

CDF_COLUMNS: Final = {
    CHANGE_TYPE: pa.string(),
    COMMIT_VERSION: pa.int64(),
    COMMIT_TIMESTAMP: ARROW_TYPES["timestamp"],
    COMMIT_GTID: pa.string(),
    CHANGE_ORDER: pa.int64(),
    CHANGE_FILE: pa.string(),
    CHANGE_POS: pa.int64(),
    CHANGE_ROW: pa.int32(),
}
"""Beside those of the table."""

VERSION_BITS: Final = 40
"""Of _commit_version those that the offset has; a log may have a terabyte."""

_PIECE_BYTES: Final = 16 << 20  # of a log in which the last change of a table is searched for
_SHOWN: Final = 20  # of the tables that a message names
_SPARK_BATCH_ROWS: Final = 1 << 13  # Spark is slower with fewer and with many more


def typed_row_columns(request: Request, logs: list[LogFile]) -> Mapping[str, pa.DataType]:
    """Return the columns of the view `rows`, with images that are structs of the table's columns."""
    columns = {name: ARROW_TYPES[kind] for name, kind in ROW_COLUMNS.items()}
    image = _image_type(request, logs)
    return wanted_images({**columns, "before": image, "after": image}, request)


def wanted_images(columns: Mapping[str, pa.DataType], request: Request) -> Mapping[str, pa.DataType]:
    """Return the columns of the view `rows` without those of an image that is not selected."""
    unwanted = {"both": (), "before": ("after", "after_present"), "after": ("before", "before_present")}
    return {name: kind for name, kind in columns.items() if name not in unwanted[request.options.images]}


def cdf_columns(request: Request, logs: list[LogFile]) -> Mapping[str, pa.DataType]:
    """Return the columns of the table, and those that say what happened.

    Raises:
        BinlogOptionError: the table has a column of such a name.
    """
    image = _image_type(request, logs)
    _refuse_own_names(image)
    return {
        **{field.name: field.type for field in image},
        **CDF_COLUMNS,
    }


def row_batches(piece: Piece, request: Request) -> Iterator[pa.RecordBatch]:
    """Yield the row changes of a piece of a log.

    Raises:
        BinlogError: the bytes are no binary log; says which file and where in it.
    """
    mixed = request.options.tables.table is None
    for _, batch in read_split(piece.log, piece.split, _selection(request, mixed=mixed), request.keyring):
        for start in range(0, batch.num_rows, _SPARK_BATCH_ROWS):
            yield batch.slice(start, _SPARK_BATCH_ROWS)


def cdf_batches(piece: Piece, request: Request) -> Iterator[pa.RecordBatch]:
    """Yield the row changes of a piece of a log, an update as two records.

    Raises:
        BinlogError: the bytes are no binary log; says which file and where in it.
    """
    number = max(0, log_number(piece.log.name)[1])
    commits = Commits(piece, request)
    last_version, records = -1, 0
    for batch in row_batches(piece, request):
        found = _cdf(batch, number, commits, last_version, records)
        versions = np.asarray(found.column(COMMIT_VERSION))
        if len(versions):
            last_version, records = int(versions[-1]), int(found.column(CHANGE_ORDER)[-1].as_py()) + 1
        yield found


def _cdf(batch: pa.RecordBatch, file_number: int, commits: Commits, last_version: int, records: int) -> pa.RecordBatch:
    """Return the records of a batch; the last batch ended with `records` records of the transaction `last_version`."""
    before, after = batch.column("before"), batch.column("after")
    has_before, has_after = (np.asarray(side.is_valid()) for side in (before, after))
    count = has_before.astype(np.int64) + has_after
    record = np.repeat(np.arange(batch.num_rows), count)
    is_second = np.concatenate(([False], record[1:] == record[:-1])) if len(record) else np.zeros(0, bool)
    is_after = is_second | ~has_before[record]
    images = pa.concat_arrays([before, after]).take(pa.array(record + is_after * batch.num_rows))
    _refuse_own_names(images.type)
    is_update = (has_before & has_after)[record]
    kind = is_update * (1 + is_second) + ~is_update * ~is_after * 3
    kinds = pa.array(["insert", "update_preimage", "update_postimage", "delete"])
    seconds = np.asarray(batch.column("timestamp").cast(pa.timestamp("s", "UTC")).cast(pa.int64()))
    starts, times = commits.of(np.asarray(batch.column("pos")), seconds)
    versions = ((file_number << VERSION_BITS) | starts)[record]
    rows = pa.array(record)
    columns = {
        **dict(zip((field.name for field in images.type), images.flatten(), strict=True)),
        CHANGE_TYPE: kinds.take(pa.array(kind)),
        COMMIT_VERSION: pa.array(versions, pa.int64()),
        COMMIT_TIMESTAMP: pa.array(times[record], pa.int64()).cast(CDF_COLUMNS[COMMIT_TIMESTAMP]),
        COMMIT_GTID: batch.column("gtid").take(rows),
        CHANGE_ORDER: pa.array(_order(versions, last_version, records), pa.int64()),
        CHANGE_FILE: batch.column("file").take(rows),
        CHANGE_POS: batch.column("pos").take(rows),
        CHANGE_ROW: batch.column("row").take(rows),
    }
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _order(versions: Numbers, last_version: int, records: int) -> Numbers:
    """Return the number of each record in its transaction, whose records are adjacent."""
    index = np.arange(len(versions))
    is_first = np.concatenate(([True], versions[1:] != versions[:-1])) if len(versions) else np.zeros(0, bool)
    order = index - np.maximum.accumulate(np.where(is_first, index, 0))
    return order + np.where(versions == last_version, records, 0)


def _refuse_own_names(image: pa.DataType) -> None:
    own = [field.name for field in image if field.name in CDF_COLUMNS]
    if own:
        raise BinlogOptionError(
            f"binlog: view cdf: the table has a column {own[0]}, which is also a column of the view itself; use view rows"
        )


def _selection(request: Request, *, mixed: bool = False) -> RowSelection:
    options, where = request.options, request.where
    return RowSelection(
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
        for piece in _from_the_end(log):
            last = deque(tolerant(changes, piece, replace(request.options, mode=mode)), maxlen=1)
            if last:
                return spark_type(last[0].schema.field("after").type)
    name = request.options.tables.table or ""
    more = f" and {len(seen) - _SHOWN} more" if len(seen) > _SHOWN else ""
    others = f"{', '.join([*seen][:_SHOWN])}{more}"
    there = f"did you mean {nearest(name, tuple(seen))!r}? There are changes of {others}; or " if seen else ""
    raise BinlogOptionError(
        f"binlog: no log has a change of table {name}, so its columns are unknown; {_looked_into(logs)}; {there}"
        "give a schema with .schema(...), or leave out table for images as JSON"
    )


def _from_the_end(log: LogFile) -> Iterator[Piece]:
    """Pieces of a log, the last one first: the last change of a table is mostly in the last ones."""
    if not log.size:
        yield Piece(log)
        return
    for split in reversed(list(evenly(log, Split(0, log.size), _PIECE_BYTES))):
        yield Piece(log, split)


def _looked_into(logs: list[LogFile]) -> str:
    if not logs:
        return "there is no log"
    return f"looked into {logs[0].name}" + (f" to {logs[-1].name}" if len(logs) > 1 else "")
