"""Writes the files of an export: Parquet, Arrow IPC, CSV and JSON lines, one or more files for each table.

    file := DIR / table [. part] . suffix              Parquet, Arrow, CSV, JSON lines; part: a number from 2
          | DIR / table / part . suffix                Delta
          | DIR / table / data / part . suffix         Iceberg
          | DIR / table / day=YYYY-MM-DD [/ hour=HH] / part . suffix       partitioned by day or hour (not Iceberg)
    table := schema . name                             bytes other than letters, digits, _ and - as ~XX

A new part begins where the columns change, in a continued export, and where a file has the size that is aimed at. A
file is written under a temporary name. `TableFiles.finish` returns the new files; `ledger` renames them in one commit.
Several processes may write files to one directory: `TableFiles.adopt` numbers those of the others.

Rows are buffered until a row group is full, at most `_BUFFERED_BYTES` for all tables together. Full row groups are
encoded by a pool of threads, those of a file one after the other.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from string import ascii_letters, digits
from typing import Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import csv

from binlogio.archive.export.texts import flat_columns, json_lines
from binlogio.archive.export.type_map import ExportFormat, has_types, merged_schema, stored_schema
from binlogio.arrow.conversion import converted_batch
from binlogio.dotted_names import split_name
from binlogio.errors import ExportError
from binlogio.storage.new_file import make_side, new_side

SUFFIXES: Final = {
    ExportFormat.PARQUET: "parquet",
    ExportFormat.ARROW: "arrow",
    ExportFormat.CSV: "csv",
    ExportFormat.JSONL: "jsonl",
    ExportFormat.DELTA: "parquet",
    ExportFormat.ICEBERG: "parquet",
}
_BUFFERED_BYTES: Final = 256 << 20
_GROUP_BYTES: Final = 32 << 20
_GROUP_ROWS: Final = 1 << 20
_PLAIN_BYTES: Final = frozenset(f"{ascii_letters}{digits}_-".encode())
_OPEN_FILES: Final = 100
_NAMES: Final = {"day": "%Y-%m-%d", "hour": "%Y-%m-%dT%H"}
_REPEATED: Final = ("file", "op", "server_id", "gtid", "before_present", "after_present")
"""Columns with few distinct values: only these are dictionary-encoded in Parquet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewFile:
    """A complete file under a temporary name. `path` is the final name, relative to the directory of the export.

    `day` is the day or hour of a partition: `2026-11-20`, `2026-11-20T13`.
    """

    table: str
    number: int
    day: str | None
    rows: int
    schema: pa.Schema
    temporary: str
    path: str


def file_name(table: str) -> str:
    """Return the file name for a table: letters, digits, `_` and `-` unchanged, `.` after the schema.

    Other bytes are escaped as `~XX`, because URIs leave `~` unchanged, unlike `%`.
    """
    schema, name = split_name(table)
    return ".".join(
        "".join(chr(byte) if byte in _PLAIN_BYTES else f"~{byte:02X}" for byte in part.encode("utf-8", "replace"))
        for part in (schema, name)
    )


@dataclass(slots=True)
class _Part:
    """A file being written, and the buffered rows that are not in it yet."""

    schema: pa.Schema
    table: str
    number: int
    day: str | None
    path: str
    sink: pa.OSFile = None
    writer: _FileWriter | None = None
    waiting: list[pa.RecordBatch] = field(default_factory=list)
    waiting_bytes: int = 0
    waiting_rows: int = 0
    rows: int = 0
    written: Future[None] | None = None  # its last row group


class TableFiles:
    """Writes the rows of tables to files in a directory.

    Args:
        folder: the directory of the files.
        form: their format.
        compression: compression of Parquet and Arrow files: "zstd", "snappy", "lz4", "gzip" or "none".
        csv_safe: text in CSV files that a spreadsheet would execute begins with an apostrophe.
        by: "day" or "hour": a file has the changes of one, by their timestamp in UTC.
        used: the highest part number that each table already has.
        known_schema: returns the existing columns of a table; its new files then have these and the new columns. By
            default a file has the columns of its rows.
        threads: the number of threads that encode rows; 1 encodes them in the calling thread.
        file_bytes: a file of about this size is closed, and a new one begins; None: files have any size.
    """

    def __init__(
        self,
        folder: Path,
        *,
        form: ExportFormat,
        compression: str | None = None,
        csv_safe: bool = False,
        by: str | None = None,
        used: dict[str, int] | None = None,
        known_schema: Callable[[str], pa.Schema | None] | None = None,
        threads: int = 1,
        file_bytes: int | None = None,
    ) -> None:
        self._folder = folder
        self._form = form
        self._compression = compression
        self._csv_safe = csv_safe
        self._by = by
        self._file_bytes = file_bytes
        self._numbers: dict[str, int] = dict(used or {})
        self._parts: dict[tuple[str, str | None], _Part] = {}
        self._known_schema = known_schema
        self._schemas: dict[str, pa.Schema] = {}
        self._stored_schemas: dict[str, tuple[pa.Schema, pa.Schema]] = {}
        self._bytes = 0
        self._done: list[NewFile] = []
        self._pool = ThreadPoolExecutor(threads, "binlogio-write") if threads > 1 else None
        self._threads = threads
        self._begun: deque[Future[None]] = deque()

    def write(self, table: str, batch: pa.RecordBatch) -> None:
        """Add rows of a table (`schema.table`).

        Raises:
            UnsupportedFeature: the columns cannot be merged with the known ones.
            pyarrow.ArrowInvalid: a value does not fit its column.
            OSError: a file cannot be written.
        """
        if self._by is None:
            self._write(table, None, batch)
            return
        for day, rows in _days(batch, self._by):
            self._write(table, day, rows)

    def adopt(self, file: NewFile) -> None:
        """Add a file that another process has written to the directory, as the next part of its table.

        A file whose columns have other types than the table is written again.

        Raises:
            UnsupportedFeature: the columns cannot be merged with the known ones.
            pyarrow.ArrowInvalid: a value does not fit its column.
            OSError: a file cannot be read or written.
        """
        key, side = (file.table, file.day), self._folder / file.temporary
        if has_types(self._schema(file.table, file.schema), file.schema):
            number = self._numbers[file.table] = self._numbers.get(file.table, 0) + 1
            self._done.append(replace(file, number=number, path=final_path(self._form, file.table, number, file.day)))
            return
        for batch in pq.ParquetFile(side).iter_batches(_GROUP_ROWS // 16):
            self._write(*key, batch)
        if key in self._parts:
            self._close(key)
        side.unlink()

    def finish(self) -> list[NewFile]:
        """Close all files, and return them sorted by table and part number."""
        for key in list(self._parts):
            self._close(key)
        self._end_pool()
        return sorted(self._done, key=lambda one: (one.table, one.number))

    def discard(self) -> None:
        """Delete all files."""
        self._end_pool()
        for part in self._parts.values():
            if part.sink is not None:
                part.sink.close()
            Path(part.path).unlink(missing_ok=True)
        for one in self._done:
            (self._folder / one.temporary).unlink(missing_ok=True)
        self._parts.clear()

    def _write(self, table: str, day: str | None, batch: pa.RecordBatch) -> None:
        schema = self._schema(table, self._stored(table, batch.schema))
        part = self._parts.get((table, day))
        if part is not None and part.schema != schema:
            self._close((table, day))
            part = None
        if part is None:
            part = self._begin(table, day, schema)
        stored = converted_batch(batch, schema)
        size = stored.get_total_buffer_size()
        part.waiting.append(stored)
        part.waiting_bytes += size
        part.waiting_rows += stored.num_rows
        part.rows += stored.num_rows
        self._bytes += size
        if part.waiting_bytes >= _GROUP_BYTES or part.waiting_rows >= _GROUP_ROWS:
            self._flush(part)
            if self._file_bytes is not None and part.sink.tell() >= self._file_bytes:
                self._close((table, day))
        while self._bytes > _BUFFERED_BYTES:
            self._flush(max(self._parts.values(), key=lambda one: one.waiting_bytes))

    def _stored(self, table: str, schema: pa.Schema) -> pa.Schema:
        """Return `stored_schema` of the schema of a batch, cached for the last batch of the table."""
        last = self._stored_schemas.get(table)
        if last is None or last[0] != schema:
            last = self._stored_schemas[table] = schema, stored_schema(schema, self._form)
        return last[1]

    def _schema(self, table: str, stored: pa.Schema) -> pa.Schema:
        """Return the columns of the file for rows with these columns."""
        if self._known_schema is None:
            return stored
        if table not in self._schemas:
            self._schemas[table] = self._known_schema(table) or stored
        if self._schemas[table] != stored:
            self._schemas[table] = merged_schema(self._schemas[table], stored)
        return self._schemas[table]

    def _begin(self, table: str, day: str | None, schema: pa.Schema) -> _Part:
        number = self._numbers[table] = self._numbers.get(table, 0) + 1
        side = new_side(self._folder / "part")
        part = self._parts[table, day] = _Part(schema, table, number, day, str(side))
        make_side(side, self._folder / "part")
        return part

    def _flush(self, part: _Part) -> _FileWriter:
        """Write the buffered rows, and return the open file."""
        writer = part.writer
        if writer is None:
            open_parts = [key for key, one in self._parts.items() if one.writer is not None]
            if len(open_parts) >= _OPEN_FILES:
                self._close(open_parts[0])
            part.sink = pa.OSFile(os.fsencode(part.path), "wb")
            writer = part.writer = self._open_writer(part.sink, part.schema)
        waiting, part.waiting = part.waiting, []
        self._bytes -= part.waiting_bytes
        part.waiting_bytes = part.waiting_rows = 0
        if waiting:
            self._encode(part, writer, waiting)
        return writer

    def _encode(self, part: _Part, writer: _FileWriter, batches: list[pa.RecordBatch]) -> None:
        """Write a row group, or give it to the pool; the pool has at most two for each thread."""
        if self._pool is None:
            with _located(self._folder):
                writer.write(batches)
            return
        part.written = self._pool.submit(_write_after, part.written, writer, batches)
        self._begun.append(part.written)
        while len(self._begun) > 2 * self._threads:
            self._wait(self._begun.popleft())

    def _wait(self, written: Future[None] | None) -> None:
        with _located(self._folder):
            if written is not None:
                written.result()

    def _end_pool(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def _open_writer(self, sink: pa.OSFile, schema: pa.Schema) -> _FileWriter:
        form, compression = self._form, self._compression
        if form is ExportFormat.CSV:
            return _CsvFile(sink, is_safe=self._csv_safe)
        if form is ExportFormat.JSONL:
            return _JsonLinesFile(sink)
        if form is ExportFormat.ARROW:
            return _ArrowFile(sink, schema, compression)
        return _ParquetFile(sink, schema, compression, has_all_statistics=form is ExportFormat.ICEBERG)

    def _close(self, key: tuple[str, str | None]) -> None:
        part = self._parts[key]
        writer = self._flush(part)
        self._wait(part.written)
        with _located(self._folder):
            writer.close()
            part.sink.close()
            with Path(part.path).open("rb") as file:
                os.fsync(file.fileno())
        self._done.append(
            NewFile(
                table=part.table,
                number=part.number,
                day=part.day,
                rows=part.rows,
                schema=part.schema,
                temporary=Path(part.path).name,
                path=final_path(self._form, part.table, part.number, part.day),
            )
        )
        del self._parts[key]  # after it is in the other list: `discard` finds it in one of them


def final_path(form: ExportFormat, table: str, number: int, day: str | None) -> str:
    """Return the name of a part of a table, relative to the directory of the export."""
    name, suffix = file_name(table), SUFFIXES[form]
    if form is ExportFormat.ICEBERG:
        return f"{name}/data/{number:05}.{suffix}"
    if day is not None:
        folders = "/".join(f"{key}={value}" for key, value in partition_of(day).items())
        return f"{name}/{folders}/{number:05}.{suffix}"
    if form is ExportFormat.DELTA:
        return f"{name}/{number:05}.{suffix}"
    return f"{name}.{suffix}" if number == 1 else f"{name}.{number}.{suffix}"


def partition_of(day: str) -> dict[str, str]:
    """Return the columns of a partition, and their values: those of `NewFile.day`."""
    return dict(zip(("day", "hour"), day.split("T"), strict=False))


def _write_after(before: Future[None] | None, writer: _FileWriter, batches: list[pa.RecordBatch]) -> None:
    """Write a row group after the one before it, which the pool began earlier.

    Raises:
        OSError: one of the row groups cannot be written.
    """
    if before is not None:
        before.result()
    writer.write(batches)


@contextmanager
def _located(folder: Path) -> Iterator[None]:
    """Raise errors of pyarrow with the directory in place of their text."""
    try:
        yield
    except OSError as exc:
        raise OSError(exc.errno, os.strerror(exc.errno), str(folder)) if exc.errno else exc from exc


def _days(batch: pa.RecordBatch, by: str) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yield the rows of each day or hour in a batch, by timestamp in UTC."""
    times = batch.column("timestamp").cast(pa.timestamp("s"))
    ends = pc.min_max(times)
    if pc.floor_temporal(ends["min"], unit=by) == pc.floor_temporal(ends["max"], unit=by):
        yield ends["min"].as_py().strftime(_NAMES[by]), batch
        return
    times = pc.floor_temporal(times, unit=by)
    for time in pc.unique(times):
        yield time.as_py().strftime(_NAMES[by]), batch.filter(pc.equal(times, time))


class _FileWriter(Protocol):
    """Writes batches to an open file."""

    def write(self, batches: Sequence[pa.RecordBatch]) -> None:
        """Write batches."""

    def close(self) -> None:
        """Write the footer, if the format has one; the file stays open."""


class _ParquetFile:
    """A Parquet file: each call writes one row group."""

    def __init__(
        self, sink: pa.OSFile, schema: pa.Schema, compression: str | None, *, has_all_statistics: bool
    ) -> None:
        empty = [one.name for one in schema if pa.types.is_struct(one.type) and not one.type.num_fields]
        if empty:
            raise ExportError(
                f"a table has none of the chosen columns, and Parquet has no place for {empty[0]} without any",
                hint="choose the tables that have them with --table, or another format",
            )
        compression = compression or "zstd"
        self._writer = pq.ParquetWriter(
            sink,
            schema,
            compression=compression,
            compression_level=1 if compression == "zstd" else None,
            use_dictionary=[name for name in _REPEATED if name in schema.names],
            write_statistics=has_all_statistics or list(_with_statistics(schema)),
        )

    def write(self, batches: Sequence[pa.RecordBatch]) -> None:
        self._writer.write_table(pa.Table.from_batches(batches), row_group_size=_GROUP_ROWS)

    def close(self) -> None:
        self._writer.close()


def _with_statistics(fields: Iterable[pa.Field], prefix: str = "") -> Iterator[str]:
    """Yield the columns that get min/max statistics: integers and times. Those of text would take long."""
    for one in fields:
        if pa.types.is_struct(one.type):
            yield from _with_statistics(one.type, f"{prefix}{one.name}.")
        elif pa.types.is_integer(one.type) or pa.types.is_temporal(one.type):
            yield f"{prefix}{one.name}"


class _ArrowFile:
    """An Arrow IPC file."""

    def __init__(self, sink: pa.OSFile, schema: pa.Schema, compression: str | None) -> None:
        codec = None if compression == "none" else compression or "lz4"
        self._writer = pa.ipc.new_file(sink, schema, options=pa.ipc.IpcWriteOptions(compression=codec))

    def write(self, batches: Sequence[pa.RecordBatch]) -> None:
        for batch in batches:
            self._writer.write_batch(batch)

    def close(self) -> None:
        self._writer.close()


class _CsvFile:
    """A CSV file: structs are flattened to columns, NULL is empty, text is in quotes.

    `is_safe`: text that a spreadsheet would execute begins with an apostrophe.
    """

    def __init__(self, sink: pa.OSFile, *, is_safe: bool) -> None:
        self._sink = sink
        self._is_safe = is_safe
        self._writer: csv.CSVWriter | None = None

    def write(self, batches: Sequence[pa.RecordBatch]) -> None:
        for batch in batches:
            flat = flat_columns(batch, is_safe=self._is_safe)
            if self._writer is None:
                self._writer = csv.CSVWriter(self._sink, flat.schema)
            self._writer.write_batch(flat)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


class _JsonLinesFile:
    """A JSON lines file: one object per line."""

    def __init__(self, sink: pa.OSFile) -> None:
        self._sink = sink

    def write(self, batches: Sequence[pa.RecordBatch]) -> None:
        for batch in batches:
            for part in json_lines(batch):
                self._sink.write(part)

    def close(self) -> None:
        """Do nothing: the format has no footer."""
