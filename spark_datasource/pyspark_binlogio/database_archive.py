"""All tables of logs in files or in a lake: their changes (`archive_to`), or their rows (`sync_to`).

    driver   `binlogio.archive.export`: compares the logs with the ledger of the target, plans parts, commits the files
    tasks    parts of logs -> files with temporary names in the directory of the target -> their names

No row passes through Java. Types, names, checks and the ledger are those of `binlogio export`; this module distributes
its parts. A task that is repeated, or runs twice, writes files of other names; the driver commits those of one result,
and removes the others.

`sync_to` keeps the latest state in tables of a lake, by `binlogio.archive.export` on the driver: it folds the changes
by key, and merges what has changed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from binlogio.archive.export import LEDGER_NAME, export
from binlogio.columnar import splits_by_size, write_catalogue
from binlogio.errors import BinlogError
from binlogio.selection.event_filter import Range
from pyspark_binlogio.options import BinlogOptionError, BinlogReadOptions, nearest
from pyspark_binlogio.pyspark_api import is_connect, run_in_tasks
from pyspark_binlogio.scan import Cut, LogPartition, Piece, evenly, option_hints, partitions, request_of, statements_of
from pyspark_binlogio.views import definitions_before

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from binlogio.archive.export import ExportSummary
    from binlogio.archive.export.parts import LogPart, PartWriter, WrittenPart
    from binlogio.storage import LogFile
    from pyspark_binlogio.scan import Request

    LogRange = tuple[LogFile, Range, bool]

CATALOGUE: Final = "binlogio-definitions.json"
"""The file in the directory of an archive with the DDL of its logs, if their rows have no names of columns."""
FORMATS: Final = ("parquet", "delta", "iceberg")
_OPTIONS: Final = (
    "databaseCharset", "definitionsLocation", "followDdl", "ignoreMissingLogs", "keyring", "maxBytesPerTrigger",
    "maxPartitionBytes", "schemaFile", "sourceColumns", "statementChanges", "tables", "trustDdl", "verifyChecksum",
    "zeroDates",
)  # fmt: skip
_SYNC_OPTIONS: Final = tuple(
    name
    for name in _OPTIONS
    if name not in ("definitionsLocation", "followDdl", "maxPartitionBytes", "sourceColumns", "statementChanges")
)
_ON_CLIENT: Final = "on Spark Connect the client lists the logs and commits; or call this function in foreachBatch"
Logs = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
_LARGEST_TASK: Final = 1 << 30  # bytes of logs
_TASKS_PER_CORE: Final = 4


@option_hints()
def archive_logs(
    spark: SparkSession,
    logs: Logs,
    path: str | os.PathLike[str],
    given: Mapping[str, str],
    **settings: Any,
) -> ExportSummary:
    """Archive logs: arguments and errors are those of `pyspark_binlogio.archive_to`, `settings` those of `export`."""
    _check("archive_to", given, _OPTIONS, settings["format"], FORMATS)
    options = _options_of(logs, given)
    stored = Path(path) / CATALOGUE
    if options.definitions_location is None and options.follow_ddl != "false" and stored.exists():
        options = replace(options, definitions_location=str(stored))
    request = request_of(options)

    def run(writer: PartWriter, wanted: Sequence[LogRange]) -> Iterator[WrittenPart]:
        nonlocal request
        found = statements_of(options, request.keyring, request.statements, wanted[-1][0])
        request = replace(request, statements=found)
        if found is not None and options.definitions_location is None and (Path(path) / LEDGER_NAME).exists():
            write_catalogue(str(stored), found)  # a directory without a ledger must be empty
        is_given = "maxpartitionbytes" in map(str.lower, given)
        size = options.max_partition_bytes if is_given else _task_bytes(spark, wanted)
        cut_up = partial(splits_by_size, keyring=request.keyring)
        return _written(spark, writer, request, list(written_parts(wanted, size, cut_up)))

    sources = {"commit_timestamp", *options.source_columns}
    summary = _exported(spark, options, request, path, source_columns=sources, run_parts=run, **settings)
    if request.statements is not None and options.definitions_location is None:
        write_catalogue(str(stored), request.statements)
    return summary


@option_hints()
def sync_tables(
    spark: SparkSession, logs: Logs, path: str | os.PathLike[str], given: Mapping[str, str], **settings: Any
) -> ExportSummary:
    """Merge changes: arguments and errors are those of `pyspark_binlogio.sync_to`, `settings` those of `export`."""
    _check("sync_to", given, _SYNC_OPTIONS, settings["format"], FORMATS[1:])
    options = _options_of(logs, given)
    if (Path(path) / LEDGER_NAME).exists():
        settings["base"] = None
    threads = os.cpu_count() or 1 if is_connect(spark) else spark.sparkContext.defaultParallelism
    return _exported(spark, options, request_of(options), path, latest=True, threads=threads, **settings)


def _check(name: str, given: Iterable[str], known: Sequence[str], form: str, forms: Sequence[str]) -> None:
    """Refuse other formats, and options that do not apply.

    Raises:
        BinlogOptionError: there is one.
    """
    if form not in forms:
        raise BinlogOptionError(f"binlog: {name}: expected format {', '.join(forms)}, found {form!r}")
    for option in given:
        if option.lower() not in map(str.lower, known):
            near = nearest(option, tuple(known))
            raise BinlogOptionError(
                f"binlog: {name}: option {option} does not apply; did you mean {near}? Options: {', '.join(known)}"
            )


def _options_of(logs: Logs, given: Mapping[str, str]) -> BinlogReadOptions:
    paths = [logs] if isinstance(logs, (str, os.PathLike)) else logs
    return BinlogReadOptions.parse({**given, "paths": json.dumps([os.fspath(one) for one in paths])})


def _exported(
    spark: SparkSession, options: BinlogReadOptions, request: Request, path: str | os.PathLike[str], **settings: Any
) -> ExportSummary:
    """Export the logs; with `maxBytesPerTrigger` by exports that continue each other.

    Raises:
        FileNotFoundError: there are no logs; on Spark Connect it says that the client must have them.
    """

    def next_part() -> ExportSummary:
        return export(
            options.paths,
            path,
            tables=options.tables or None,
            append=True,
            most_bytes=options.max_bytes_per_trigger,
            verify_checksum=options.verify_checksum,
            keyring=request.keyring,
            definitions=request.definitions,
            ignore_missing_logs=options.ignore_missing_logs,
            **{**settings, "zero_dates": options.zero_dates, "statement_changes": options.statement_changes},
        )

    try:
        summary = next_part()
    except FileNotFoundError as exc:
        if is_connect(spark):
            exc.strerror = f"{exc.strerror} ({_ON_CLIENT})"
        raise
    while summary.is_partial:
        settings["base"] = None
        summary = summary.followed_by(next_part())
    return summary


def _task_bytes(spark: SparkSession, logs: Iterable[LogRange]) -> int:
    """Return how many bytes of logs a task reads: few tasks write few files, which are large."""
    smallest = BinlogReadOptions().max_partition_bytes
    if is_connect(spark):
        return smallest
    wanted = sum(min(within.end, log.size or 0) - within.start for log, within, _ in logs)
    tasks = _TASKS_PER_CORE * spark.sparkContext.defaultParallelism
    return max(smallest, min(_LARGEST_TASK, wanted // tasks))


def written_parts(logs: Iterable[LogRange], max_bytes: int, cut_up: Cut = evenly) -> Iterator[tuple[Piece, ...]]:
    """Yield the parts of tasks, in the order of the logs; a log that cannot be divided is one part."""
    pieces: list[Piece] = []
    for log, within, is_whole in logs:
        if not is_whole:
            grown = replace(log, size=max(log.size or 0, within.end))  # since it was listed
            pieces.append(Piece(grown, None, within))
            continue
        yield from _packed(pieces, max_bytes, cut_up)
        yield (Piece(log, None, within),)
        pieces = []
    yield from _packed(pieces, max_bytes, cut_up)


def _packed(pieces: Sequence[Piece], max_bytes: int, cut_up: Cut) -> Iterator[tuple[Piece, ...]]:
    return (one.pieces for one in partitions(pieces, max_bytes, cut_up) if isinstance(one, LogPartition))


def _written(
    spark: SparkSession, writer: PartWriter, request: Request, parts: list[tuple[Piece, ...]]
) -> Iterator[WrittenPart]:
    """Let tasks write the parts, and yield the results in order.

    Raises:
        BinlogError: as in `PartWriter.write`.
        PythonException: a task failed for another reason, as often as Spark repeats it.
    """
    for found in run_in_tasks(spark, partial(_written_part, writer, request), parts):
        if isinstance(found, BinlogError):
            raise found
        yield found


def _written_part(writer: PartWriter, request: Request, part: tuple[Piece, ...]) -> WrittenPart | BinlogError:
    """Return what was written of a part, or the error about the logs: Spark would repeat a task that raises it."""
    try:
        return writer.write(_log_part(piece, request) for piece in part)
    except BinlogError as exc:
        return exc


def _log_part(piece: Piece, request: Request) -> LogPart:
    return piece.log, piece.split, piece.within or Range(), definitions_before(piece, request)
