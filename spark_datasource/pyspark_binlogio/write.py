"""The batch and stream writers: write records of the view `rows` as binary logs, on Spark's driver and in its tasks.

Implements Spark's writer interfaces, adds missing columns, and puts a data frame in the order of its transactions:
Spark passes the partitions of a frame to a writer unchanged, so a frame must be partitioned between transactions first.
The files of the tasks, and the commit, are implemented in `binlogio.writer.record_logs`.

    driver    makes the staging directory, with a marker that has the id of this attempt to write
    a task    stages files in that directory, which readers ignore, and returns a description of them
    commit    turns all of them into logs, or none
    abort     removes them

Spark does not wait for the other tasks of a failed job before it calls `abort`, nor for the other attempts of a task
before `commit`. Both remove the marker first and then the directory. A task that is still running then cannot create
files in a local directory; on an object store it compares the marker with its own id when it has written its files,
and removes them.

Defaults of missing columns: one file, rows numbered, the server_id of the existing logs or 1, gtid and sequence_number
NULL (each pos is then a transaction), bitmaps of the columns that the images have; with option `table`, its schema and
table.
"""

from __future__ import annotations

import shutil
import uuid
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - the customary name
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.pandas.types import is_variant

from binlogio.dotted_names import split_name
from binlogio.errors import WriterStateError
from binlogio.options import ServerVariables
from binlogio.writer import (
    BatchNumber,
    LocalStorage,
    LogFolder,
    ObjectStorage,
    Segment,
    SegmentWriter,
    no_gtids,
    server_format_of,
    transactions_of,
    variables_in_effect,
)  # fmt: skip
from pyspark_binlogio.options import BinlogOptionError, nearest
from pyspark_binlogio.pyspark_api import arrow_schema
from pyspark_binlogio.scan import given_definitions, option_hints
from pyspark_binlogio.views import ROW_COLUMNS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

    from binlogio.writer import LoggedGtids
    from pyspark_binlogio.options import BinlogWriteOptions

STAGING: Final = "_binlog_staging"
_MARKER: Final = "open"
_REMOVALS: Final = 100  # attempts to remove a directory in which a running task creates files
_NEEDED: Final = ("op", "timestamp", "pos")
_IMAGES: Final = ("before", "after")


@dataclass(slots=True)
class Staged(WriterCommitMessage):
    """The message of a task: the segments that it has staged."""

    segments: tuple[Segment, ...]


class _LogWriter:
    """The steps that both kinds of writer share."""

    def __init__(self, options: BinlogWriteOptions, schema: StructType, staging: str) -> None:
        self._options = options
        self._staging = f"{STAGING}/{staging}"
        self._attempt = uuid.uuid4().hex
        self._variables = server_variables(options)
        _check_columns(arrow_schema(schema), options)
        self._server_id = 1 if "server_id" in schema.names else self._folder().server_id()

    def _open_staging(self) -> None:
        """Create the staging directory and its marker. Only the driver does, so a late task cannot create it again."""
        storage, marker = self._storage(), f"{self._staging}/{_MARKER}"
        storage.make_folder(self._staging)
        with suppress(FileNotFoundError):  # it exists if an earlier attempt was killed
            storage.remove(marker)
        storage.create(marker)
        storage.append(marker, self._attempt.encode())
        storage.close(marker)

    def _refuse_late_task(self) -> None:
        """Refuse to stage files that no commit or abort will see.

        Raises:
            WriterStateError: this write was committed or aborted.
        """
        marker = f"{self._staging}/{_MARKER}"
        try:
            found = self._storage().read(marker)
        except FileNotFoundError:
            found = b""
        if found != self._attempt.encode():
            raise WriterStateError(
                "the write ended while this task was still running, so the files of the task were removed", file=marker
            )

    def _storage(self) -> LocalStorage | ObjectStorage:
        uri = self._options.paths[0]
        return ObjectStorage.from_uri(uri) if "://" in uri else LocalStorage(Path(uri))

    def _folder(self) -> LogFolder:
        storage = self._storage()
        is_local = isinstance(storage, LocalStorage)
        return LogFolder(self._options.basename, storage, self._variables, changes_files=is_local)

    @option_hints()
    def _write(self, batches: Iterable[pa.RecordBatch], executed: LoggedGtids) -> Staged:
        """Stage the records of a task.

        Raises:
            BinlogError: a record is invalid, or the records are not in order.
            OSError: the storage failed.
        """
        writer = SegmentWriter(
            self._storage(),
            f"{self._staging}/{uuid.uuid4().hex}",
            self._variables,
            given_definitions(self._options.schema_file),
            executed,
            f"{self._options.basename}.000001",
        )
        try:
            staged = Staged(tuple(writer.write(transactions_of(_as_records(batches, self._options, self._server_id)))))
            self._refuse_late_task()
        except BaseException:
            writer.remove()
            raise
        return staged

    @option_hints()
    def _commit(
        self, messages: Iterable[WriterCommitMessage | None], *, overwrite: bool, batch: BatchNumber | None
    ) -> None:
        segments = [segment for one in messages if isinstance(one, Staged) for segment in one.segments]
        if batch is None or not self._folder().is_done(batch):
            self._folder().commit(segments, overwrite=overwrite, batch=batch)
        self._clear()

    def _clear(self) -> None:
        """Remove the staged files, the marker first, so that running tasks detect it."""
        storage = self._storage()
        with suppress(OSError):
            storage.remove(f"{self._staging}/{_MARKER}")
        if isinstance(storage, LocalStorage):
            folder = Path(self._options.paths[0]) / self._staging
            for _ in range(_REMOVALS):
                shutil.rmtree(folder, ignore_errors=True)
                if not folder.exists():
                    break
            with suppress(OSError):  # other writes may have files there
                folder.parent.rmdir()
            return
        with suppress(OSError):
            storage.remove_folder(self._staging)


class BinlogBatchWriter(_LogWriter, DataSourceArrowWriter):
    """Writes a data frame: all of it or nothing."""

    @option_hints()
    def __init__(self, options: BinlogWriteOptions, schema: StructType, *, overwrite: bool) -> None:
        super().__init__(options, schema, uuid.uuid4().hex)
        self._overwrite = overwrite
        folder = self._folder()
        self._batch = _batch_of(options)
        self._executed = no_gtids(self._variables) if overwrite else folder.executed()
        self._open_staging()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Stage the records of a task; errors as those of the records, and of the storage."""
        return self._write(iterator, self._executed)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Commit the staged files of all tasks as logs."""
        self._commit(messages, overwrite=self._overwrite, batch=self._batch)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove the staged files."""
        self._clear()


class BinlogStreamWriter(_LogWriter, DataSourceStreamArrowWriter):
    """Writes the batches of a stream, each once, also if Spark repeats it."""

    @option_hints()
    def __init__(self, options: BinlogWriteOptions, schema: StructType) -> None:
        self._application = options.txn_app_id or options.checkpoint_location or ""
        super().__init__(options, schema, f"{zlib.crc32(self._application.encode()):08x}")
        self._open_staging()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Stage the records of a task; errors as in a batch write."""
        return self._write(iterator, no_gtids(self._variables))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's name
        """Commit the staged files of a batch as logs, unless the batch was committed before."""
        self._commit(messages, overwrite=False, batch=BatchNumber(self._application, batchId))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Remove the staged files."""
        self._clear()


def server_variables(options: BinlogWriteOptions) -> ServerVariables:
    """Return the variables of the server that would have written the logs.

    Raises:
        BinlogOptionError: Spark does not write logs of this server.
    """
    given: dict[str, Any] = {
        "server_version": options.server_version,
        "max_binlog_size": options.max_binlog_size,
        "binlog_checksum": options.binlog_checksum,
    }
    variables = ServerVariables(**{name: value for name, value in given.items() if value is not None})
    variables = variables_in_effect(variables)
    server_format = server_format_of(variables.server_version)
    if server_format.has_old_temporals or (variables.is_mariadb and not variables.mysql56_temporal_format):
        raise BinlogOptionError(
            "binlog: option serverVersion: expected MySQL 5.6 or later, or MariaDB 10.1 or later, such as "
            f"11.8.2-MariaDB, found {variables.server_version}: values of older servers cannot be written"
        )
    return variables


def _batch_of(options: BinlogWriteOptions) -> BatchNumber | None:
    if (options.txn_app_id is None) != (options.txn_version is None):
        raise BinlogOptionError("binlog: set options txnAppId and txnVersion together")
    if options.txn_app_id is None or options.txn_version is None:
        return None
    return BatchNumber(options.txn_app_id, options.txn_version)


def _check_columns(schema: pa.Schema, options: BinlogWriteOptions) -> None:
    """Refuse records on the driver that no task could write."""
    known = (*ROW_COLUMNS, options.column_name_of_corrupt_record)
    for field in schema:
        if field.name not in known:
            raise BinlogOptionError(
                f"binlog: a record to write has no column {field.name!r}; did you mean {nearest(field.name, known)!r}? "
                f"It has those of view rows: {', '.join(ROW_COLUMNS)}"
            )
    needed = _NEEDED if options.table is not None else (*_NEEDED, "schema", "table")
    missing = [name for name in needed if name not in schema.names]
    images = [schema.field(name).type for name in _IMAGES if name in schema.names]
    if missing or not images:
        raise BinlogOptionError(
            f"binlog: columns are missing from the records to write: {', '.join(missing or ['before or after'])}; "
            "write records of view rows"
        )
    if any(pa.types.is_struct(kind) and is_variant(kind) for kind in images):
        raise BinlogOptionError(
            "binlog: columns before and after cannot be variant; write to_json(before) and to_json(after)"
        )
    if not all(pa.types.is_struct(kind) or _is_text(kind) for kind in images) or len(set(images)) > 1:
        raise BinlogOptionError(
            "binlog: columns before and after: expected two structs of the same columns, or JSON text, "
            f"found {' and '.join(map(str, images))}"
        )
    if not pa.types.is_struct(images[0]) and options.schema_file is None:
        raise BinlogOptionError(
            "binlog: JSON images do not describe the columns of the tables; "
            "give their CREATE TABLE statements in option schemaFile"
        )


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _as_records(
    batches: Iterable[pa.RecordBatch], options: BinlogWriteOptions, server_id: int
) -> Iterator[pa.RecordBatch]:
    """Yield the batches with all columns of the view, in its types."""
    first_row = 0
    for batch in batches:
        names = set(batch.schema.names)
        kind = batch.column("after" if "after" in names else "before").type
        columns = {}
        for name, own in ROW_COLUMNS.items():
            wanted = own if name not in _IMAGES or _is_text(kind) else kind
            if name in names:
                array = batch.column(name)
                columns[name] = array if array.type == wanted else array.cast(wanted)
            else:
                schema, table = split_name(options.table or "")
                values = {"file": "", "server_id": server_id, "schema": schema, "table": table}
                columns[name] = _default(name, wanted, batch.num_rows, first_row, values.get(name))
        first_row += batch.num_rows
        yield pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _default(name: str, kind: pa.DataType, count: int, first_row: int, value: object) -> pa.Array:
    if name == "row":
        return pa.array(np.arange(first_row, first_row + count, dtype=np.int32))
    return pa.nulls(count, kind) if value is None else pa.array([value] * count, kind)


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
