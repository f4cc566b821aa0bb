"""`export`: reads the row changes of logs, and writes them to files or tables of another format.

    log rows -> records (file, pos, row, op, ..., before, after) -> target (files, Delta, Iceberg, DuckDB) -> ledger

A target has a ledger of the logs that it contains (`ledger`). Only complete event groups are exported, so that the
export of a log in use can be continued later. Values are converted by `type_map`.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from dataclasses import replace as replace_fields
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import pyarrow as pa
import pyarrow.compute as pc

from binlogio.archive.export.base import Base, check_stop, open_base
from binlogio.archive.export.latest import EarlierStatements, LatestRows, table_marks
from binlogio.archive.export.ledger import (
    ExportLedger,
    SchemaChange,
    cascade_from_json,
    cascade_to_json,
)
from binlogio.archive.export.parts import PartWriter, SeenColumns, WrittenPart, located, record_columns
from binlogio.archive.export.targets import (
    ExportTarget,
    TargetDirectory,
    TargetSettings,
    closing_target,
    open_directory,
    open_duckdb,
)
from binlogio.archive.export.type_map import ExportFormat, check_names
from binlogio.archive.logged_gtids import ReadGtids, check_gtids, latest_gtids, logged_gtids
from binlogio.columnar import is_one_piece, last_group_end
from binlogio.columnar.record_types import name_text
from binlogio.columnar.rows_reader import read_tables
from binlogio.columnar.splits.group_scan import check_bounds
from binlogio.errors import BinlogFormatError, ExportError, Hint
from binlogio.events.format_description import server_version_numbers
from binlogio.gtid import GtidSet
from binlogio.implementation import require_kernel
from binlogio.options import DEFAULT_LIMITS, Limits, ReadOptions
from binlogio.reader import BinlogReader
from binlogio.selection.event_filter import EVERY_EVENT, HIGHEST, Range
from binlogio.series.continuity import check_series, ignored, missing_after, missing_gtids
from binlogio.series.gtid_history import ServerGtids
from binlogio.series.identity import LogIdentity, log_size
from binlogio.series.log_head import read_head
from binlogio.series.progress import LogProgress
from binlogio.storage.encryption import load_keyring
from binlogio.storage.index_file import base_name, log_number, unescaped_name
from binlogio.storage.new_file import (
    local_output,
    missing_folders,
    removed_if_empty,
)
from binlogio.storage.sources import Source

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

    from binlogio.columnar.rows_reader import TableBatches, Where
    from binlogio.rows.plan import TablePlan
    from binlogio.schema.given import Definitions
    from binlogio.schema.statement_changes import StatementChange
    from binlogio.selection.event_filter import Names, Operation
    from binlogio.selection.table_names import TableNames
    from binlogio.series.log_head import LogHead
    from binlogio.storage.keyring import Keyring, KeyringSource
    from binlogio.storage.log_file import LogFile

FormatName = Literal["parquet", "arrow", "csv", "jsonl", "duckdb", "delta", "iceberg"]
_FILE_NAME: Final = re.compile(
    r"\.(csv|tsv|parquet|arrow|feather|jsonl?|ndjson|db|duckdb|sqlite3?|gz|zst)$", re.IGNORECASE
)
_LOGS_CASCADES: Final = (9, 6, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportSummary:
    """The result of an export.

    `rows` has the number of rows of each table, `files` the new files, `held` the logs that the target already
    contained completely. `unfinished` has the logs that end in an incomplete event group, with its offset; it is not
    exported. `missing` names missing logs that were ignored. `statement_changes` has the first statement of each log
    that changes rows as SQL text: the export lacks these rows. `schema_changes` are those of tables whose changes the
    target has. `is_partial` is True if logs were left for another export (`most_bytes`).
    """

    rows: dict[str, int]
    files: tuple[str, ...]
    held: tuple[str, ...]
    unfinished: tuple[tuple[str, int], ...] = ()
    missing: tuple[str, ...] = ()
    statement_changes: tuple[StatementChange, ...] = ()
    schema_changes: tuple[SchemaChange, ...] = ()
    is_partial: bool = False

    def followed_by(self, later: ExportSummary) -> ExportSummary:
        """Return the result of this export and the one that continued it."""
        return replace_fields(
            later,
            rows=dict(sorted((Counter(self.rows) + Counter(later.rows)).items())),
            files=self.files + later.files,
            held=self.held,
            missing=self.missing + later.missing,
            statement_changes=self.statement_changes + later.statement_changes,
            schema_changes=self.schema_changes + later.schema_changes,
        )

    @property
    def row_count(self) -> int:
        """The number of rows of all tables."""
        return sum(self.rows.values())


RunParts = Callable[[PartWriter, "list[tuple[LogFile, Range, bool]]"], Iterable[WrittenPart]]
"""Writes the rows of logs in other processes."""


def export(
    source: Source | Iterable[Source],
    to: str | os.PathLike[str],
    *,
    format: FormatName = "parquet",  # noqa: A002 - the usual name
    tables: Names | TableNames | None = None,
    columns: Names | None = None,
    where: Where = EVERY_EVENT,
    ops: Operation | Collection[Operation] | None = None,
    start_offset: int | None = None,
    stop_offset: int | None = None,
    latest: bool = False,
    base: str | os.PathLike[str] | None = None,
    key: Collection[str] | None = None,
    partition_by: Literal["day", "hour"] | None = None,
    file_bytes: int | None = None,
    most_bytes: int | None = None,
    append: bool = False,
    replace: bool = False,
    compression: Literal["zstd", "snappy", "lz4", "gzip", "none"] | None = None,
    csv_safe: bool = False,
    catalog: str | None = None,
    source_columns: Collection[str] = ("commit_timestamp",),
    zero_dates: Literal["error", "null", "text"] = "error",
    verify_checksum: bool = True,
    threads: int = 1,
    keyring: KeyringSource | None = None,
    filesystem: FileSystem | None = None,
    definitions: Definitions | None = None,
    limits: Limits = DEFAULT_LIMITS,
    ignore_missing_logs: bool = False,
    statement_changes: Literal["error", "skip"] = "error",
    watch: Callable[[str, int], None] | None = None,
    run_parts: RunParts | None = None,
) -> ExportSummary:
    """Write the row changes of logs to files or tables: one or more files, or one table, for each source table.

    Only complete event groups are exported. If the export fails, the target remains as it was.

    Args:
        source: as in `binlogio.open`.
        to: a directory, or a file for format "duckdb".
        format: "parquet", "arrow", "csv", "jsonl", "duckdb", "delta" or "iceberg".
        tables: as in `binlogio.read_tables`.
        columns: columns to export in `before` and `after`; a table may lack some of them. None: all columns.
        where: as in `binlogio.read_tables`.
        ops: as in `binlogio.read_tables`.
        start_offset: skip the groups before this bound of a group in the first log; of a target that is continued, when
            it was made.
        stop_offset: skip the groups from this bound on in the last log; the target cannot be continued then.
        latest: export the latest state of each row instead of the changes; deleted rows are omitted.
        base: for `latest`, the directory of an earlier export with `latest` (Parquet or Arrow), which the logs
            continue: the result also has its rows, with the changes after it.
        key: for `latest`, the primary key columns of tables whose key is not in the log or in `definitions`.
        partition_by: "day" or "hour": partition by the day or hour (UTC) of the change.
        file_bytes: begin a new file when one has about this size.
        most_bytes: export only the first logs which the target lacks, of about this number of bytes.
        append: continue an export: logs, or parts of them, that the target already contains are skipped.
        replace: replace an export.
        compression: compression of Parquet and Arrow files; by default "zstd", for Arrow "lz4".
        csv_safe: for CSV, text that a spreadsheet would execute begins with an apostrophe.
        catalog: for Iceberg, the name of a catalog in pyiceberg's configuration; by default a SQLite catalog in the
            directory.
        source_columns: as in `binlogio.read_tables`.
        zero_dates: as in `binlogio.read_tables`.
        verify_checksum: compare the CRC32 of every event with its bytes.
        threads: the number of threads that read, and of those that encode rows for files.
        keyring: as in `binlogio.open`.
        filesystem: as in `binlogio.open`.
        definitions: as in `binlogio.open`.
        limits: as in `binlogio.open`.
        ignore_missing_logs: export although logs are missing between the given logs, or between them and those that
            the target contains; `ExportSummary.missing` names them.
        statement_changes: as in `binlogio.read_tables`; with "skip", the summary names them. Always "error" for
            `latest`.
        watch: called with the name of a log and the offset up to which its rows were read.
        run_parts: writes the rows of logs, each with the offsets that are wanted (the third value says whether the log
            cannot be divided), by a writer that other processes can have; yields the results in the order of the logs.

    Raises:
        MissingLogs: logs are missing.
        ChangedLogs: the target contains a log with the head of a given one, and other transactions.
        ExportError: the target exists and is neither continued nor replaced, was made with other options, cannot be
            continued, or options or logs do not fit together.
        UnsupportedFeature: a library is missing; a value or a change of columns cannot be stored in the format; the
            latest state cannot be determined.
        BinlogError: a log is damaged, or is not a binary log.
        OSError: a file cannot be read or written.
    """
    require_kernel("export")
    form = _format_of(format)
    to = _place_of(to, form)
    rows_of = read_tables(
        source,
        tables=tables,
        columns=columns,
        where=where,
        ops=ops,
        zero_dates=zero_dates,
        verify_checksum=verify_checksum,
        threads=threads,
        keyring=keyring,
        filesystem=filesystem,
        definitions=definitions,
        limits=limits,
        source_columns=source_columns,
        ignore_missing_logs=True,  # checked below, with the logs that the target has
        statement_changes=statement_changes,
    )
    events = rows_of.where
    options = {
        "tables": rows_of.names,
        "columns": None if columns is None else sorted(columns),
        "where": str(events) if events else None,
        "start_offset": start_offset,
        "stop_offset": stop_offset,
        "condition": None if rows_of.condition is None else rows_of.condition.text,
        "latest": latest,
        "key": None if key is None else list(key),
        "partition_by": partition_by,
        "source_columns": sorted(source_columns),
        "zero_dates": zero_dates,
        "csv_safe": csv_safe or None,
    }
    settings = TargetSettings(
        form=form,
        by=partition_by,
        file_bytes=file_bytes,
        compression=compression,
        csv_safe=csv_safe,
        catalog=catalog,
        append=append,
        replace=replace,
        threads=threads,
        ledger=ExportLedger(form=form.value, options=options),
    )
    _check_options(settings, rows_of, has_base=base is not None)
    before = Base() if base is None else open_base(base, options, events, rows_of.wants_table)
    ring = None if keyring is None else load_keyring(keyring)
    opens = open_duckdb if form is ExportFormat.DUCKDB else open_directory
    with (
        removed_if_empty([] if form is ExportFormat.DUCKDB else missing_folders(to)),
        closing_target(opens(to, settings)) as target,
    ):
        if before.ledger is not None:
            if target.ledger.run:
                raise ExportError("the export has its rows already", file=str(to), hint="continue it without a base")
            target.ledger.logs, target.ledger.gtids = list(before.ledger.logs), before.ledger.gtids
        check_bounds(rows_of.logs, None if target.ledger.logs else start_offset, stop_offset, ring)
        ranges = _first_ranges(rows_of.logs, target.ledger, ring, most_bytes)
        if latest:
            _hold_earlier(ranges, target.ledger)
        ends = {one.log: HIGHEST if one.is_closed else one.end for one in ranges}
        read = cache(lambda log: logged_gtids(log, ring, ends[log]))
        servers = ServerGtids.from_json(target.ledger.gtids)
        missing = _missing_logs(ranges, target.ledger, servers, read, ignore_missing_logs=ignore_missing_logs)
        if ranges and start_offset is not None and not target.ledger.logs:  # it is in the first log of the first export
            ranges[0].wanted = Range(start=start_offset)
        if ranges and before.ledger is not None:
            parts = [(one.log, one.head, max(one.start, one.wanted.start)) for one in ranges]
            check_stop(before.ledger, parts, events, stop_offset, ring)
        is_partial = len(ranges) < len(rows_of.logs)
        if ranges and stop_offset is not None and not is_partial:
            ranges[-1].wanted = ranges[-1].wanted.within(Range(end=stop_offset))
        _check_logs(ranges, in_order=latest)
        changes_before, texts = len(target.ledger.schema_changes), _StatementChanges(ranges)
        if latest:
            batches = _latest(rows_of, ranges, watch, ring, key, before, target, verify_checksum=verify_checksum)
        else:
            batches = _records(rows_of, ranges, watch, note_statement_change=texts.note)
        if run_parts is None:
            rows = _write(batches, target, set() if columns is None or target.ledger.logs else set(columns))
        else:
            rows = _write_parts(run_parts, rows_of, ranges, target)
        if texts.found and statement_changes == "error":
            raise min(texts.found.values(), key=texts.order).error()
        target.ledger.gtids = servers.to_json()
        files = target.finish(_progress_of(ranges, ring, read))
    return ExportSummary(
        rows=dict(sorted(rows.items())),
        files=files,
        held=tuple(one.log.name for one in ranges if one.is_held),
        unfinished=tuple((one.log.name, one.end) for one in ranges if one.is_unfinished),
        missing=tuple(missing),
        statement_changes=tuple(sorted(texts.found.values(), key=texts.order)),
        schema_changes=tuple(SchemaChange(**one) for one in target.ledger.schema_changes[changes_before:]),
        is_partial=is_partial,
    )


def _write(batches: Iterable[tuple[str, pa.RecordBatch]], target: ExportTarget, lacking: set[str]) -> Counter[str]:
    """Write batches, and return the number of rows of each table.

    Raises:
        ExportError: no table has a column in `lacking`.
        UnsupportedFeature: a value or a change of columns cannot be stored in the format.
    """
    rows, seen = Counter[str](), SeenColumns()
    for table, batch in batches:
        if seen.see(table, batch):
            _note(target.ledger, *seen.found[-1])
        target.write(table, batch)
        rows[table] += batch.num_rows
        if lacking:
            is_latest = target.ledger.options["latest"]
            lacking -= {*(batch.schema if is_latest else batch.schema.field("before").type).names}
    if rows and lacking:
        raise ExportError("no table has the column", field="columns", found=", ".join(sorted(lacking)))
    return rows


def _write_parts(
    run_parts: RunParts, rows_of: TableBatches, ranges: list[_LogRange], target: ExportTarget
) -> Counter[str]:
    """Let other processes write the rows, add their files to the target, and return the number of rows of each table.

    Raises:
        ExportError: the target is not a directory, or other processes do not share it.
        UnsupportedFeature: as in `_write`.
    """
    if not isinstance(target, TargetDirectory):
        raise ExportError("several processes write to a directory only", hint="choose another format")
    rows, by_name = Counter[str](), {name_text(one.log.name): one for one in ranges}
    wanted = [(one.log, one.part, not one.is_divisible) for one in ranges if not one.is_held]
    for part in run_parts(target.part_writer(rows_of), wanted) if wanted else ():
        places: dict[str, tuple[str | None, int | None]] = {}
        for table, log, pos, schema in part.columns:
            _note(target.ledger, table, log, pos, schema)
            places.setdefault(table, (log, pos))
        for name, last in part.last.items():
            by_name[name].last = max(by_name[name].last, last)
        for file in part.files:
            with located(file.table, *places[file.table]):
                target.adopt(file)
            rows[file.table] += file.rows
    return rows


def _note(ledger: ExportLedger, table: str, file: str | None, pos: int | None, schema: pa.Schema) -> None:
    """Note the columns that a table has from a position on.

    Raises:
        UnsupportedFeature: they have lost their names.
    """
    check_names(table, schema, ledger.named)
    if file is not None and pos is not None:
        image = schema.field("before").type
        ledger.note_columns(table, unescaped_name(file), pos, {one.name: str(one.type) for one in image})


def _check_options(settings: TargetSettings, rows_of: TableBatches, *, has_base: bool) -> None:
    """Refuse options that do not fit together.

    Raises:
        ExportError: two options do not.
    """
    form, append, latest = settings.form, settings.append, settings.ledger.options["latest"]
    if append and settings.replace:
        raise ExportError("an export is either continued or replaced", hint=Hint.EXPORT_EXISTS)
    if settings.csv_safe and form is not ExportFormat.CSV:
        raise ExportError("text is made safe for spreadsheets in CSV only", found=form.value)
    is_lake = form in (ExportFormat.DELTA, ExportFormat.ICEBERG)
    has_part = (append and not is_lake) or settings.by is not None
    has_part |= rows_of.where.ops is not None or rows_of.condition is not None
    if latest and has_part:
        raise ExportError("the latest state is made of all changes of the tables at once", hint=Hint.LATEST_ALONE)
    if has_base and not latest:
        raise ExportError("a base is a part of the latest state", hint="add `--latest`, or latest=True")
    if settings.by is not None and form is ExportFormat.DUCKDB:
        raise ExportError("a DuckDB file has no partitions", hint="its tables have the column timestamp")
    if append and any(log.stream is not None for log in rows_of.logs):
        raise ExportError("an export is continued with files", found="a stream")


def _missing_logs(
    ranges: list[_LogRange],
    ledger: ExportLedger,
    servers: ServerGtids,
    read: ReadGtids,
    *,
    ignore_missing_logs: bool,
) -> list[str]:
    """Check that no log is missing, and return what is ignored.

    Raises:
        MissingLogs: logs are missing.
        ChangedLogs: transactions of a log are in the target already.
    """
    ordered = sorted(ranges, key=lambda one: log_number(one.log.name))
    found = check_series(
        [one.log for one in ordered],
        heads=[one.head for one in ordered],
        in_order=False,
        ignore_missing_logs=ignore_missing_logs,
    )
    given = [(one.log.name, one.head, one.start) for one in ranges if one.head is not None]
    new = [(name, head) for name, head, start in given if not start]
    every = [(name, head) for name, head, _ in given]
    found += missing_after(ledger.logs, new, every, ignore_missing_logs=ignore_missing_logs)
    logs, heads = [one.log for one in ordered], [one.head for one in ordered]
    begun = {one.log.name for one in ranges if not one.start}
    after = [one.last_gtid for one in ledger.logs]
    held = {one.log.name for one in ranges if one.is_held}
    found += check_gtids(
        logs, heads, read, new=begun, after=after, servers=servers, held=held, ignore_missing_logs=ignore_missing_logs
    )
    for log, head in zip(logs, heads, strict=True):  # between transactions of different calls
        before = None if head is None or log.name not in begun else head.gtids_before()
        if head is not None and isinstance(before, GtidSet) and (lost := servers.take_lost(head.server_id, before)):
            found.append(ignored(missing_gtids(log.name, lost), ignore_missing_logs=ignore_missing_logs))
    return found


def _progress_of(ranges: list[_LogRange], keyring: Keyring | None, read: ReadGtids) -> list[LogProgress]:
    """Return the ledger entries of the logs after the export; those of logs without a head are left out."""
    last: dict[str, str] = {}
    for one in ranges:
        last[log_number(one.log.name)[0]] = one.log.name
    return [
        one.progress(keyring, read if one.log.name in last.values() else None)
        for one in ranges
        if one.identity is not None and not one.is_held
    ]


def _hold_earlier(ranges: Iterable[_LogRange], ledger: ExportLedger) -> None:
    """Leave out the logs before those that a latest state has: their changes are in it, or were before it.

    Raises:
        ExportError: a log has a lower number than they, or began before them, and is not known to be before them.
    """
    first: dict[str, LogProgress] = {}
    for held in sorted(ledger.logs, key=lambda one: log_number(one.file), reverse=True):
        first[log_number(held.file)[0]] = held
    begun = min((one.identity.created for one in ledger.logs if one.identity is not None), default=0)
    for one in ranges:
        stem, number, _ = log_number(base_name(one.log.name))
        known, identity = first.get(stem), one.identity
        if one.is_held or (known is not None and number >= log_number(known.file)[1]):
            continue
        if known is None and (identity is None or identity.created >= begun):
            continue
        if known is None or identity is None or known.identity is None or not known.identity.may_follow(identity):
            raise ExportError(
                "the log has a lower number than those of the base, or began before them, and it is not known whether"
                " all of it is before them",
                file=one.log.name,
                expected="a log after those of the base",
            )
        one.end, one.is_held = one.start, True


def _check_logs(ranges: Iterable[_LogRange], *, in_order: bool) -> None:
    """Check that no two logs have the same name in the records.

    With `in_order`, also check that logs are in the order of their numbers.

    Raises:
        ExportError: a log violates this.
    """
    last: dict[str, int] = {}
    names: dict[str, str] = {}
    for one in ranges:
        file = one.log.name
        if names.setdefault(name_text(file), file) != file:
            raise ExportError("two logs have the same name in the records", file=file, hint="rename one of them")
        stem, number, _ = log_number(file)
        if in_order and number < last.get(stem, number):
            raise ExportError(
                "the latest state needs the logs in their order",
                file=file,
                expected=f"a number above {last[stem]}",
                found=number,
                hint="give the directory or the index file instead of names",
            )
        last[stem] = number


def _format_of(name: str) -> ExportFormat:
    try:
        return ExportFormat(name)
    except ValueError as exc:
        names = ", ".join(one.value for one in ExportFormat)
        raise ExportError("unknown value", field="format", expected=names, found=name) from exc


def _place_of(to: str | os.PathLike[str], form: ExportFormat) -> Path:
    name, path = os.fspath(to), local_output(to)
    if form is not ExportFormat.DUCKDB and not name.endswith(os.sep) and not path.exists() and _FILE_NAME.search(name):
        raise ExportError(
            "an export is a directory with files for each table, and this is the name of a file",
            file=name,
            hint=Hint.EXPORT_DIRECTORY,
        )
    return path


# -------------------------------------------------------------------------------------------------------- rows of logs


@dataclass(slots=True)
class _LogRange:
    """The part [start, end) of a log that the target lacks; of it, the events in `wanted` are exported.

    `is_unfinished` is True if the log ends in an incomplete event group, `is_closed` if its server has closed it.
    `is_divisible` is True if groups of it are found by position.
    """

    log: LogFile
    head: LogHead | None
    start: int
    end: int
    is_whole: bool
    last: int = -1
    is_unfinished: bool = False
    is_closed: bool = False
    is_held: bool = False
    is_divisible: bool = False
    wanted: Range = field(default_factory=Range)

    @classmethod
    def of(cls, log: LogFile, ledger: ExportLedger, keyring: Keyring | None) -> _LogRange:
        """Return the part of a log that the target lacks, up to the end of the last complete event group.

        Raises:
            ChangedLogs: the target contains a log with this head and other groups.
        """
        if log.stream is not None:
            return cls(log, None, 0, HIGHEST, is_whole=True)
        head = read_head(log, keyring)
        held = None if head is None else ledger.held(log, LogIdentity.of(head), keyring)
        start = 0 if held is None else held.offset
        if held is not None and held.is_complete and held.is_whole(log, keyring):
            return cls(log, head, start, start, is_whole=False, is_closed=True, is_held=True)
        is_whole = is_one_piece(log, keyring)
        is_closed = head is not None and not head.in_use  # the last group of a closed log is complete
        if head is None or (is_whole and not is_closed):
            with BinlogReader([log], ReadOptions(verify_checksum=False), keyring=keyring) as reader:
                next(iter(reader), None)  # raises if the head is damaged
                end = _incomplete_end(reader)
            if end is not None:
                return cls(log, head, start, max(start, end), is_whole=False, is_unfinished=True)
        if is_whole:
            return cls(log, head, start, HIGHEST, is_whole=True, last=start - 1, is_closed=is_closed)
        end = log.size if is_closed and log.size is not None else last_group_end(log, 0, keyring)
        is_unfinished = end < (log.size or 0)
        is_held = 0 < start >= end
        return cls(
            log, head, start, max(start, end), is_whole=False, is_unfinished=is_unfinished, is_closed=is_closed,
            is_held=is_held, is_divisible=True,
        )  # fmt: skip

    @property
    def identity(self) -> LogIdentity | None:
        """The identity of the log; None for a stream and a log without a head."""
        return None if self.head is None else LogIdentity.of(self.head)

    def progress(self, keyring: Keyring | None, read: ReadGtids | None) -> LogProgress:
        """Return the ledger entry of the log after the export; `read` is given for the last log of a series."""
        is_complete = self.is_closed and not self.is_unfinished
        end = self.end
        if self.is_whole:
            end = log_size(self.log, keyring) if is_complete else self.last + 1
        found = LogProgress.at(self.log, end, self.identity, keyring)
        has_gtids = self.head is not None and self.head.first_gtid is not None
        gtids = None
        if read is not None and has_gtids and self.head is not None:
            gtids = latest_gtids(self.log, self.head, read)
        return found.completed(is_complete=is_complete, last_gtid=gtids)

    def within(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows of a batch that are exported."""
        positions = batch.column("pos")
        first, self.last = positions[0].as_py(), max(self.last, positions[-1].as_py())
        part = self.part
        if part.start <= first and positions[-1].as_py() < part.end:
            return batch
        return batch.filter(pc.and_(pc.greater_equal(positions, part.start), pc.less(positions, part.end)))

    @property
    def part(self) -> Range:
        """The positions that are exported."""
        return Range(self.start, self.end).within(self.wanted)


class _StatementChanges:
    """The first statement of each log that changes rows as SQL text; `order` is its place."""

    def __init__(self, ranges: Iterable[_LogRange]) -> None:
        self.found: dict[str, StatementChange] = {}
        self._parts = {one.log.name: (number, one.part) for number, one in enumerate(ranges)}

    def note(self, found: StatementChange) -> bool:
        """Keep a statement that is exported. Returns True if it is."""
        if found.pos not in self._parts[found.file][1]:
            return False
        known = self.found.get(found.file)
        if known is None or found.pos < known.pos:
            self.found[found.file] = found
        return True

    def order(self, one: StatementChange) -> tuple[int, int]:
        """Return the number of the log, and the offset."""
        return self._parts[one.file][0], one.pos


def _first_ranges(
    logs: Iterable[LogFile], ledger: ExportLedger, keyring: Keyring | None, most_bytes: int | None
) -> list[_LogRange]:
    """Return the parts of the logs that the target lacks, of about `most_bytes`."""
    ranges, left = [], HIGHEST if most_bytes is None else most_bytes
    for log in logs:
        if left <= 0:
            break
        ranges.append(_LogRange.of(log, ledger, keyring))
        left -= 0 if ranges[-1].is_held else max(1, (log.size or 0) - ranges[-1].start)
    return ranges


def _incomplete_end(reader: BinlogReader) -> int | None:
    """Read a log to its end; return the end of its last complete event group if another group follows, otherwise None.

    Returns None if the log is damaged, which the export of its rows reports.
    """
    try:
        for _ in reader:
            pass
    except BinlogFormatError:
        return None
    return None if reader.group is None and reader.torn_tail is None else reader.last_good_offset


def _records(
    rows_of: TableBatches,
    ranges: list[_LogRange],
    watch: Callable[[str, int], None] | None,
    note_plan: Callable[[TablePlan], None] | None = None,
    note_statement_change: Callable[[StatementChange], bool] = lambda _: True,
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yield the rows of tables in the ranges, with the columns of an export."""
    wanted = [one for one in ranges if not one.is_held]
    by_name = {name_text(one.log.name): one for one in wanted}
    if not wanted:
        return
    logs, held = [one.log for one in ranges], [one.log for one in ranges if one.is_held]
    batches = rows_of.of_logs(
        logs, skipped=held, may_lack_columns=True, note_plan=note_plan, note_statement_change=note_statement_change
    )
    for table, batch in batches:
        log_range = by_name[batch.column("file")[0].as_py()]
        kept = log_range.within(batch)
        if watch is not None:
            watch(log_range.log.name, batch.column("pos")[-1].as_py())
        if kept.num_rows:
            yield table, record_columns(kept)


def _latest(
    rows_of: TableBatches,
    ranges: list[_LogRange],
    watch: Callable[[str, int], None] | None,
    keyring: Keyring | None,
    key: Collection[str] | None,
    base: Base,
    target: ExportTarget,
    *,
    verify_checksum: bool,
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yield the latest state of the rows of each table, or what is merged; the ledger gets the tables it knows."""
    merged = target if isinstance(target, TargetDirectory) and target.is_merged else None
    if any(one.log.stream is not None for one in ranges):
        raise ExportError("the latest state needs logs that can be read twice", found="a stream")
    numbers = {name_text(one.log.name): number for number, one in enumerate(ranges)}
    earlier, held = base.ledger, base.rows
    if merged is not None:
        earlier, held = target.ledger, merged.held_rows(rows_of.wants_table)
    logs = [(one.log, one.part.start, one.part.end, not one.is_divisible) for one in ranges]
    before = EarlierStatements()
    for pair in [] if earlier is None else earlier.temporary:
        before.temporary.add((pair[0], pair[1]))
    before.prepared.update([] if earlier is None else earlier.prepared)
    marks = table_marks(logs, rows_of.where, keyring, verify_checksum=verify_checksum, earlier=before)
    known = None if earlier is None else earlier.tables
    keys = None if key is None else list(key)
    cascades = [] if earlier is None else list(map(cascade_from_json, earlier.cascades))
    rows = LatestRows(
        marks,
        numbers,
        keys,
        base=held,
        known=known,
        wants=rows_of.wants_table,
        cascades=cascades,
        merges=merged is not None,
    )
    if ranges and all(one.head is not None and _logs_cascades(one.head) for one in ranges):
        rows.follows_cascades = False
    with closing(rows):
        for table, batch in _records(rows_of, ranges, watch, rows.note_plan):
            rows.add(table, batch)
        yield from rows.finish()
        ledger = target.ledger
        ledger.tables, ledger.cascades = rows.known_after(), list(map(cascade_to_json, rows.cascades))
        ledger.temporary, ledger.prepared = sorted(map(list, before.temporary)), sorted(before.prepared)
        if merged is not None:
            merged.merges = rows.merged


def _logs_cascades(head: LogHead) -> bool:
    """Return whether the server logs the rows that foreign keys change."""
    return not head.context.is_mariadb and server_version_numbers(head.context.server_version) >= _LOGS_CASCADES
