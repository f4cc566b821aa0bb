"""Writes rows of data files as transactions: Parquet, Arrow, CSV and JSON lines, with rows or change records.

    file    := row*  |  record*
    record  := op (insert | update | delete; c, r, u, d)  before: row?  after: row?   -- struct columns, or JSON objects

Columns of Parquet, Arrow and CSV files are encoded from Arrow arrays. JSON lines are converted value by value, like
values of scripts; so are all files if `BatchSession` does not support the rows events of the server version. Without
DDL, the column types are derived from the file; docs/write.md has the mapping.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain, groupby, islice, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from binlogio.arrow.encode import Operation, TableEncoder, new_buffer
from binlogio.arrow.types import GEOMETRY, sql_type_of
from binlogio.arrow.values import as_value
from binlogio.errors import BinlogError, BinlogFormatError, UnsupportedFeature
from binlogio.primitives import bitmap_size
from binlogio.rows.image import RowChange, RowImage, encode_rows
from binlogio.rows.plan import resolve_plan
from binlogio.schema import ColumnDefinition, TableDefinition, value_from_json
from binlogio.schema.json_values import bytes_from_json
from binlogio.schema.types import BINARY_TYPES, GEOMETRY_TYPES, Vendor
from binlogio.values.absent import ABSENT
from binlogio.values.geometry import Geometry
from binlogio.writer import Delete, Insert, Statement, Update
from binlogio.writer.batches import BatchChange, BatchSession, EncodedChange, EncodedRow
from binlogio.writer.log.log_builder import describe_format
from binlogio.writer.rows.value_checks import BatchChecks
from binlogio_cli.messages import Refusal
from binlogio_cli.write.actions import MOST_LINE, Json
from binlogio_cli.write.tables import row_from_json

if TYPE_CHECKING:
    from binlogio.writer import BinlogWriter, Session
    from binlogio.writer.rules.statement import Change

_BATCH_ROWS: Final = 1 << 16
_IMAGES: Final = ("before", "after")
_RECORD: Final = frozenset({"op", "before_present", "after_present"})
_INFERRED_ROWS: Final = 10_000
_OPERATIONS: Final[dict[str, Operation]] = {
    **dict.fromkeys(("insert", "c", "r"), "insert"),
    **dict.fromkeys(("update", "u"), "update"),
    **dict.fromkeys(("delete", "d"), "delete"),
}
_NULLS_OF_CSV: Final = ("", "NULL", "\\N")
_OWN_ROW: Final = re.compile(r"^row \d+(?:, )?|, row \d+$")


def row_refused(file: Path, row: int, reason: str) -> Refusal:
    """Return the error for a row that does not fit its table; rows are numbered from 1."""
    return Refusal(f"{file}: row {row}: {reason}")


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file of rows.

    `columns` has the columns of the rows or images with the types in the file. `is_changes`: the file has change
    records. Either `batches` (Arrow) or `rows` (JSON objects) is None.
    """

    path: Path
    columns: pa.Schema
    is_changes: bool
    batches: Iterable[pa.RecordBatch] | None = None
    rows: Iterable[Json] | None = None


def open_data(path: Path, kind: str, table: TableDefinition | None) -> DataFile:
    """Open a file of rows; `table` is the definition from DDL, or None.

    Raises:
        UnsupportedFeature: the file does not have this format, or has no rows or change records.
        OSError: the file cannot be read.
    """
    with _errors_of(path, f"as {kind}"):
        found = _READERS[kind](path, table)
        _ = found.columns.names  # raises an error if they are not UTF-8
        return found


@contextmanager
def _errors_of(path: Path, how: str = "") -> Iterator[None]:
    """Convert pyarrow errors for a damaged file or a file in another format to `UnsupportedFeature`."""
    try:
        yield
    except (pa.ArrowException, UnicodeDecodeError, OSError) as exc:
        if isinstance(exc, OSError) and exc.errno is not None:
            raise
        raise UnsupportedFeature(f"the file cannot be read {how}".rstrip() + f": {exc}", file=str(path)) from exc


def _of_arrow(path: Path, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> DataFile:
    images = [schema.field(name).type for name in ("before", "after") if name in schema.names]
    if "op" not in schema.names or not images or not all(pa.types.is_struct(kind) for kind in images):
        return DataFile(path, schema, is_changes=False, batches=batches)
    kind = images[-1]
    return DataFile(path, pa.schema([kind.field(i) for i in range(kind.num_fields)]), is_changes=True, batches=batches)


def _open_parquet(path: Path, _: TableDefinition | None) -> DataFile:
    import pyarrow.parquet as pq  # noqa: PLC0415 - slow to import

    file = pq.ParquetFile(path)
    return _of_arrow(path, file.schema_arrow, file.iter_batches(_BATCH_ROWS))


def _open_arrow(path: Path, _: TableDefinition | None) -> DataFile:
    source = pa.memory_map(str(path))
    try:
        file = pa.ipc.open_file(source)
    except pa.ArrowInvalid:
        source.seek(0)
        stream = pa.ipc.open_stream(source)
        return _of_arrow(path, stream.schema, stream)
    return _of_arrow(path, file.schema, map(file.get_batch, range(file.num_record_batches)))


def _open_csv(path: Path, table: TableDefinition | None) -> DataFile:
    """Open a CSV file. With DDL all columns are read as text, otherwise pyarrow infers types from the first rows."""
    from pyarrow import csv  # noqa: PLC0415 - slow to import

    read_options = csv.ReadOptions(use_threads=False)  # then errors have the line number
    with csv.open_csv(path, read_options=read_options) as reader:
        found = reader.schema
    is_changes = "op" in found.names and any(name.partition(".")[0] in _IMAGES for name in found.names)
    types = {} if table is None else dict.fromkeys(found.names, pa.string())
    used: list[str] = []
    if is_changes:
        used = [name for name in found.names if name in _RECORD or name.partition(".")[0] in _IMAGES]
        known = {name.partition(".")[2]: found.field(name).type for name in used if found.field(name).type != pa.null()}
        types |= {name: types.get(name) or known.get(name.partition(".")[2], pa.string()) for name in used}
        types |= dict.fromkeys(_RECORD.intersection(used), pa.string())
    convert_options = csv.ConvertOptions(
        column_types=types,
        include_columns=used,
        null_values=_NULLS_OF_CSV,
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )
    reader = csv.open_csv(
        path,
        read_options=read_options,
        convert_options=convert_options,
        parse_options=csv.ParseOptions(newlines_in_values=True),
    )
    whole = _csv_records if is_changes else _csv_rows
    schema = whole(pa.RecordBatch.from_pylist([], schema=reader.schema)).schema
    return _of_arrow(path, schema, map(whole, reader))


def _csv_rows(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows with the geometries of an export, whose CSV has two fields for each (`g.srid`, `g.wkb`)."""
    if not any(name.endswith(".srid") for name in batch.schema.names):
        return batch
    columns = _with_geometries(dict(zip(batch.schema.names, batch.columns, strict=True)))
    return pa.RecordBatch.from_arrays(list(columns.values()), list(columns))


def _with_geometries(columns: dict[str, pa.Array]) -> dict[str, pa.Array]:
    found = {}
    for name, values in columns.items():
        stem, _, part = name.rpartition(".")
        if part not in ("srid", "wkb") or not {f"{stem}.srid", f"{stem}.wkb"} <= columns.keys():
            found[name] = values
        elif part == "srid":
            texts = columns[f"{stem}.wkb"].cast(pa.string()).to_pylist()
            shapes = pa.array([None if text is None else bytes_from_json(text) for text in texts], pa.binary())
            found[stem] = pa.StructArray.from_arrays(
                [values.cast(pa.uint32()), shapes], fields=list(GEOMETRY), mask=shapes.is_null()
            )
    return found


def _csv_records(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the change records of an export, whose CSV has a field for each column of an image (`after.id`)."""
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    found = {name: column for name, column in columns.items() if name in _RECORD}
    for image, absent_from in zip(_IMAGES, ("insert", "delete"), strict=True):
        values = {name[len(image) + 1 :]: one for name, one in columns.items() if name.startswith(f"{image}.")}
        without = pa.array([name for name, operation in _OPERATIONS.items() if operation == absent_from])
        is_absent = pc.is_in(columns["op"], without)
        for one in values.values():
            is_absent = pc.and_(is_absent, one.is_null())
        if values:
            values = _with_geometries(values)
            found[image] = pa.StructArray.from_arrays(list(values.values()), list(values), mask=is_absent)
    return pa.RecordBatch.from_arrays(list(found.values()), list(found))


def _open_json(path: Path, table: TableDefinition | None) -> DataFile:
    rows = _json_rows(path)
    first = list(islice(rows, _INFERRED_ROWS))
    is_changes = (
        bool(first) and "op" in first[0] and any(isinstance(first[0].get(n), dict) for n in ("before", "after"))
    )
    columns = pa.schema([])
    if table is None:
        images = [row.get(name) for row in first for name in ("before", "after")] if is_changes else first
        columns = _json_types(path, [image for image in images if isinstance(image, dict)])
    return DataFile(path, columns, is_changes=is_changes, rows=chain(first, rows))


def _json_rows(path: Path) -> Iterator[Json]:
    number = 0
    with path.open("rb") as file:
        while line := file.readline(MOST_LINE + 1):
            if not line.strip() and len(line) <= MOST_LINE:
                continue
            number += 1
            if len(line) > MOST_LINE:
                raise row_refused(path, number, f"a line of more than {MOST_LINE:,} bytes")
            try:
                row = json.loads(line.decode())
            except UnicodeDecodeError as exc:
                raise row_refused(path, number, f"not UTF-8: {exc.reason} at byte {exc.start}") from exc
            except (ValueError, RecursionError) as exc:
                raise row_refused(path, number, f"not JSON: {exc}") from exc
            if not isinstance(row, dict):
                raise row_refused(path, number, "not a JSON object")
            yield row


def _json_types(path: Path, rows: list[Json]) -> pa.Schema:
    """Return the columns of JSON rows: the keys in the order of first use, each with a type for all its values."""
    kinds: dict[str, set[str]] = {}
    for row in rows:
        for name, value in row.items():
            found = kinds.setdefault(name, set())
            if value is not None:
                found.add(_JSON_KINDS.get(type(value), "json"))
    types = {name: _JSON_ARROW.get(frozenset(found)) for name, found in kinds.items()}
    for name, kind in types.items():
        if kind is None:
            raise UnsupportedFeature(
                f"the values of {name} have several types: {', '.join(sorted(kinds[name]))}",
                file=str(path),
                hint="give the table with --ddl",
            )
    return pa.schema(list(types.items()))


_JSON_KINDS: Final = {bool: "true or false", int: "whole", float: "number", str: "text"}
_JSON_ARROW: Final = {
    frozenset(): pa.null(),
    frozenset({"true or false"}): pa.bool_(),
    frozenset({"whole"}): pa.int64(),
    frozenset({"number"}): pa.float64(),
    frozenset({"whole", "number"}): pa.float64(),
    frozenset({"text"}): pa.string(),
    frozenset({"json"}): pa.struct([]),
}
_READERS: Final[dict[str, Callable[[Path, TableDefinition | None], DataFile]]] = {
    "parquet": _open_parquet,
    "arrow": _open_arrow,
    "csv": _open_csv,
    "jsonl": _open_json,
}


# ---------------------------------------------------------------------------------------------------------- definition


def table_of(columns: pa.Schema, schema: str, name: str, key: Sequence[str]) -> TableDefinition:
    """Return the definition of a table with the columns of a file.

    Raises:
        UnsupportedFeature: a column has a type without an SQL type, or the key names no columns.
    """
    keys = {one.casefold() for one in key}
    definitions = []
    for field in columns:
        is_key = field.name.casefold() in keys
        sql_type = _sql_type(field, is_key=is_key)
        definitions.append(ColumnDefinition(field.name, sql_type, nullable=field.nullable and not is_key))
    return TableDefinition(schema, name, tuple(definitions), tuple(key))


def _sql_type(field: pa.Field, *, is_key: bool) -> str:
    found = sql_type_of(field.type, is_key=is_key)
    if found is None and pa.types.is_nested(field.type) and not is_key:
        found = "json"
    if found is None:
        raise UnsupportedFeature(
            "no column type fits this column of the file",
            field=field.name,
            found=str(field.type),
            hint="give the table with --ddl",
        )
    return found


# ------------------------------------------------------------------------------------------------------------- writing


class DataWriter:
    """Writes the rows of a file to a table, `transaction_rows` rows per transaction."""

    def __init__(self, writer: BinlogWriter, table: TableDefinition, transaction_rows: int) -> None:
        self.row_count = 0
        self.transaction_count = 0
        self._writer = writer
        self._table = table
        self._vendor: Vendor = "mariadb" if writer.variables.is_mariadb else "mysql"
        table_map = table.table_map(1, "FULL", self._vendor)
        context = describe_format(writer.variables).context
        self._plan = resolve_plan(table_map, context, definition=table.plan_columns(self._vendor))
        self._transaction_rows = transaction_rows
        self._encoded: BatchSession | None = None  # session for rows with partial images

    def write(self, data: DataFile) -> None:
        """Write all rows.

        Raises:
            Refusal: a row does not fit the table.
            UnsupportedFeature: a column of the file is not in the table, or the file is damaged.
            OSError: the file cannot be read, or the log cannot be written.
        """
        if data.rows is not None:
            self._write_objects(data.path, data.rows, is_changes=data.is_changes)
        else:
            self._write_batches(data)

    # ---------------------------------------------------------------------------------------------------- Arrow arrays

    def _write_batches(self, data: DataFile) -> None:
        changes_of = self._changes_of_records if data.is_changes else self._changes_of_rows
        write: Callable[[list[BatchChange]], object]
        try:
            write = BatchSession(self._writer, self._table.schema).write
        except UnsupportedFeature:  # the server version has other rows events
            write = partial(self._execute_batches, self._row_session())
        for batch in _transactions(_readable(data), self._transaction_rows):
            try:
                changes = changes_of(batch)
                for part in [changes] if self._table.is_transactional else ([change] for change in changes):
                    write(part)
                    self.transaction_count += 1
            except BinlogError as exc:
                self._refuse(data.path, batch, changes_of, exc)
            except _RecordError as exc:
                raise row_refused(data.path, self.row_count + exc.row + 1, str(exc)) from exc
            self.row_count += batch.num_rows

    def _execute_batches(self, session: Session, changes: list[BatchChange]) -> None:
        found: list[_RowChange] = []
        for change in changes:
            if change.present is not None or change.present_after is not None:
                raise UnsupportedFeature("an image lacks columns, and servers before 5.6 log all columns")
            pairs = zip_longest(self._objects(change.before), self._objects(change.after))
            found += [(change.operation, before, after) for before, after in pairs]
        self._execute(session, found)

    def _objects(self, image: pa.RecordBatch | None) -> list[Json]:
        """Return the rows of an image as Python values for the row encoder."""
        columns = self._plan.columns
        rows = [] if image is None else image.to_pylist()
        return [{column.label: as_value(row[column.label], column) for column in columns} for row in rows]

    def _row_session(self) -> Session:
        session = self._writer.session(self._table.schema)
        session.set_variables(binlog_format="ROW")
        return session

    def _changes_of_rows(self, batch: pa.RecordBatch) -> list[BatchChange]:
        return [BatchChange(self._table, after=self._columns(batch))]

    def _changes_of_records(self, batch: pa.RecordBatch) -> list[BatchChange]:
        found, start = [], 0
        for (operation, *bitmaps), same in groupby(zip(_operations(batch), *_bitmaps(batch), strict=True)):
            count = len(list(same))
            part = batch.slice(start, count)
            if operation != "update":
                _require_none(part, "before" if operation == "insert" else "after", start, operation)
            images: list[pa.RecordBatch | None] = []
            present: list[bytes | None] = []
            for name, bits, absent_from in zip(_IMAGES, bitmaps, ("insert", "delete"), strict=True):
                if operation == absent_from:
                    images.append(None)
                    continue
                image = self._columns(_image(part, name, bits, start), is_whole=bits is None)
                images.append(image)
                present.append(None if bits is None else self._bitmap(image.schema.names))
            found.append(BatchChange(self._table, *images, *present))
            start += count
        return found

    def _bitmap(self, names: Collection[str]) -> bytes:
        """Return the present bitmap of an image with these columns."""
        bits = sum(1 << place for place, column in enumerate(self._table.columns) if column.name in names)
        return bits.to_bytes(bitmap_size(len(self._table.columns)), "little")

    def _columns(self, batch: pa.RecordBatch, *, is_whole: bool = True) -> pa.RecordBatch:
        """Return the table columns of a batch in types of the encoder; with `is_whole`, missing columns are NULL."""
        places = {name.casefold(): place for place, name in enumerate(batch.schema.names)}
        if len(places) < batch.num_columns:
            found = ", ".join(batch.schema.names)
            raise UnsupportedFeature("a column is named twice", field=self._table.full_name, found=found)
        arrays = {}
        for column in self._table.columns:
            place = places.pop(column.name.casefold(), None)
            if place is not None:
                arrays[column.name] = _fitting(batch.column(place), column)
            elif is_whole:
                arrays[column.name] = pa.nulls(batch.num_rows)
        for name in places:
            self._table.column_index(name)  # raises the error
        if not arrays:
            raise UnsupportedFeature("an image has no columns", field=self._table.full_name)
        return pa.RecordBatch.from_arrays(list(arrays.values()), list(arrays))

    def _refuse(
        self,
        path: Path,
        batch: pa.RecordBatch,
        changes_of: Callable[[pa.RecordBatch], list[BatchChange]],
        refused: BinlogError,
    ) -> None:
        """Find the first row of a transaction that fails on its own, and raise its error.

        Raises:
            Refusal: a row fails on its own.
            BinlogError: no row fails on its own; `refused` is raised.
        """
        for row in range(batch.num_rows):
            try:
                for change in changes_of(batch.slice(row, 1)):
                    self._check(change)
            except BinlogError as exc:
                exc.field = _OWN_ROW.sub("", exc.field or "")
                raise row_refused(path, self.row_count + row + 1, str(exc)) from exc
        raise refused

    def _check(self, change: BatchChange) -> None:
        not_null = [column.name for column in self._table.columns if not column.nullable]
        checks = BatchChecks(self._plan, not_null)
        for image in (change.before, change.after):
            if image is not None:
                checks.check_nulls(image)
                checks.check_values(image)
        buffer = new_buffer(0, checksum=False)
        encoder = TableEncoder(self._plan, change.operation, change.present, change.present_after)
        encoder.encode(buffer, change.before, change.after, table_id=1)

    # ---------------------------------------------------------------------------------------------------- JSON objects

    def _write_objects(self, path: Path, rows: Iterable[Json], *, is_changes: bool) -> None:
        session = self._row_session()
        remaining = iter(rows)
        while part := list(islice(remaining, self._transaction_rows)):
            changes: list[_RowChange] = []
            for number, row in enumerate(part, self.row_count + 1):
                try:
                    changes.append(
                        self._change(row)
                        if is_changes
                        else ("insert", None, row_from_json(row, self._table, self._vendor))
                    )
                except (BinlogError, _RecordError) as exc:
                    raise row_refused(path, number, str(exc)) from exc
            try:
                self._execute(session, changes)
            except BinlogError as exc:
                self._refuse_objects(path, changes, exc)
            self.row_count += len(part)
            self.transaction_count += 1
        session.close()

    def _execute(self, session: Session, changes: list[_RowChange]) -> None:
        """Execute a transaction; each run of changes with the same operation is a statement."""
        if not all(map(self._is_whole, changes)):
            self._write_as_given(changes)
            return
        session.begin()
        for operation, run in groupby(changes, key=lambda change: change[0]):
            session.execute(Statement("", [_change_of(self._table, operation, list(run))]))
        session.commit()

    def _is_whole(self, change: _RowChange) -> bool:
        """Return whether the images of a change have all columns."""
        return all(image is None or len(image) == len(self._table.columns) for image in change[1:])

    def _write_as_given(self, changes: list[_RowChange]) -> None:
        """Write a transaction with images of exactly the given columns, regardless of binlog_row_image."""
        if self._encoded is None:
            self._encoded = BatchSession(self._writer, self._table.schema)
        found = [
            EncodedChange(self._table, operation, [self._encoded_row(change) for change in run])
            for operation, run in groupby(changes, key=lambda change: change[0])
        ]
        for part in [found] if self._table.is_transactional else ([one] for one in found):
            self._encoded.write(part)

    def _encoded_row(self, change: _RowChange) -> EncodedRow:
        images: list[RowImage | None] = []
        bitmaps = []
        for values in change[1:]:
            if values is None:
                images.append(None)
                continue
            for column in self._table.columns:
                if not column.nullable and values.get(column.name, ABSENT) is None:
                    raise UnsupportedFeature(
                        "the column cannot be NULL", field=f"{self._table.full_name}.{column.name}"
                    )
            images.append(RowImage(self._plan, tuple(values.get(one.name, ABSENT) for one in self._table.columns)))
            bitmaps.append(self._bitmap(values))
        second = bitmaps[1] if len(bitmaps) > 1 else None
        return bitmaps[0], second, encode_rows([RowChange(*images)], self._plan, bitmaps[0], second)

    def _refuse_objects(self, path: Path, changes: list[_RowChange], refused: BinlogError) -> None:
        """Find the first row that fails on its own, and raise its error; like `_refuse`.

        Raises:
            Refusal: a row fails on its own.
            BinlogError: no row fails on its own; `refused` is raised.
        """
        with self._row_session() as session:
            for number, change in enumerate(changes, self.row_count + 1):
                session.begin()
                try:
                    if not self._is_whole(change):
                        self._encoded_row(change)
                        continue
                    session.execute(Statement("", [_change_of(self._table, change[0], [change])]))
                except BinlogError as exc:
                    raise row_refused(path, number, str(exc)) from exc
                finally:
                    session.rollback()
        raise refused

    def _change(self, record: Json) -> _RowChange:
        operation = _operation(record.get("op"), 0)
        before, after = record.get("before"), record.get("after")
        wanted = [("before", before, operation != "insert"), ("after", after, operation != "delete")]
        for name, image, is_wanted in wanted:
            if isinstance(image, dict) is not is_wanted and (is_wanted or image is not None):
                raise _RecordError(0, f"{operation} {'without' if is_wanted else 'with'} {name!r}")
        images = [self._json_image(record, name, operation) for name in _IMAGES]
        if operation == "update" and images[0] is not None and record.get("after_present") is None:
            images[1] = {**images[0], **(images[1] or {})}
        return operation, images[0], images[1]

    def _json_image(self, record: Json, name: str, operation: Operation) -> Json | None:
        """Return the columns of an image: by its bitmap, or else all columns for an insert, or else the named ones."""
        image, bitmap = record.get(name), record.get(f"{name}_present")
        if not isinstance(image, dict):
            return None
        if bitmap is None:
            is_whole = operation == "insert"
            return row_from_json(image, self._table, self._vendor, is_whole=is_whole, is_exported=True)
        bits = _bits(_bytes_of(bitmap, name), len(image), name, 0)
        present = {column: image[column] for place, column in enumerate(image) if bits >> place & 1}
        return row_from_json(present, self._table, self._vendor, is_whole=False, is_exported=True)


_RowChange = tuple[Operation, Json | None, Json | None]


class _RecordError(Exception):
    """An invalid change record; `row` is its index in the batch."""

    def __init__(self, row: int, reason: str) -> None:
        super().__init__(reason)
        self.row = row


def _change_of(table: TableDefinition, operation: Operation, run: list[_RowChange]) -> Change:
    if operation == "insert":
        return Insert(table, [after for _, _, after in run if after is not None])
    if operation == "delete":
        return Delete(table, [before for _, before, _ in run if before is not None])
    pairs = [(before, after) for _, before, after in run if before is not None and after is not None]
    return Update(table, pairs, [column.name for column in table.columns])


def _readable(data: DataFile) -> Iterator[pa.RecordBatch]:
    """Yield the batches of a file after validation; pyarrow does not validate the buffers of a file."""
    batches = iter(data.batches or ())
    while True:
        with _errors_of(data.path):
            batch = next(batches, None)
            if batch is None:
                return
            batch.validate(full=True)
        yield batch


def _transactions(batches: Iterable[pa.RecordBatch], size: int) -> Iterator[pa.RecordBatch]:
    """Yield batches of `size` rows; the last one has the remaining rows."""
    waiting: list[pa.RecordBatch] = []
    missing = size
    for batch in batches:
        start = 0
        while start < batch.num_rows:
            part = batch.slice(start, missing)
            start += part.num_rows
            missing -= part.num_rows
            waiting.append(part)
            if not missing:
                yield _joined(waiting)
                waiting, missing = [], size
    if waiting:
        yield _joined(waiting)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    return pa.Table.from_batches(batches).combine_chunks().to_batches()[0]


def _operations(batch: pa.RecordBatch) -> list[Operation]:
    """Return the operations of change records.

    Raises:
        _RecordError: an operation is unknown.
    """
    return [_operation(name, row) for row, name in enumerate(batch.column("op").to_pylist())]


def _operation(name: object, row: int) -> Operation:
    found = _OPERATIONS.get(name) if isinstance(name, str) else None
    if found is None:
        raise _RecordError(row, f'"op" is {name!r}; it can be {", ".join(_OPERATIONS)}')
    return found


def _require_none(records: pa.RecordBatch, name: str, start: int, operation: Operation) -> None:
    """Check that records of an operation do not have the image `name`.

    Raises:
        _RecordError: a record has this image.
    """
    if name in records.schema.names and records.column(name).null_count < records.num_rows:
        row = records.column(name).is_valid().to_pylist().index(True)
        raise _RecordError(start + row, f"{operation} with {name!r}")


def _image(records: pa.RecordBatch, name: str, bits: int | None, start: int) -> pa.RecordBatch:
    """Return the images of records with the same operation, with the columns of their bitmap.

    Raises:
        _RecordError: an image is missing.
    """
    if name not in records.schema.names:
        raise _RecordError(start, f"the record has no {name!r}")
    images = records.column(name)
    if images.null_count:
        row = images.is_valid().to_pylist().index(False)
        raise _RecordError(start + row, f"the record has no {name!r}")
    places = [place for place in range(images.type.num_fields) if bits is None or bits >> place & 1]
    columns = images.flatten()
    fields = [images.type.field(place).name for place in places]
    return pa.RecordBatch.from_arrays([columns[place] for place in places], fields)


def _bitmaps(batch: pa.RecordBatch) -> list[list[int | None]]:
    """Return the bitmaps of the before and after images of change records; None: the image has all columns.

    Raises:
        _RecordError: a bitmap does not match the number of columns.
    """
    found: list[list[int | None]] = []
    for name in _IMAGES:
        present = f"{name}_present"
        if present not in batch.schema.names or name not in batch.schema.names:
            found.append([None] * batch.num_rows)
            continue
        count = batch.schema.field(name).type.num_fields
        known: dict[bytes | None, int | None] = {None: None}
        bitmaps = batch.column(present).to_pylist()
        for row, given in enumerate(bitmaps):
            if given not in known:
                bits = _bits(_bytes_of(given, name, row) if isinstance(given, str) else given, count, name, row)
                known[given] = None if bits == (1 << count) - 1 else bits
        found.append([known[given] for given in bitmaps])
    return found


def _bits(bitmap: bytes, count: int, name: str, row: int) -> int:
    """Return a bitmap as a number.

    Raises:
        _RecordError: it is not a bitmap for this number of columns.
    """
    bits = int.from_bytes(bitmap, "little")
    if len(bitmap) != bitmap_size(count) or bits >> count:
        raise _RecordError(
            row, f'"{name}_present" is not a bitmap of the {count} columns of {name!r}: {bitmap.hex() or "empty"}'
        )
    return bits


def _bytes_of(value: object, name: str, row: int = 0) -> bytes:
    """Return the bytes of a bitmap in JSON or CSV, in the format of exports.

    Raises:
        _RecordError: it does not have this format.
    """
    if isinstance(value, str) and value.startswith("0x"):
        with suppress(ValueError):
            return bytes.fromhex(value[2:])
    raise _RecordError(row, f'"{name}_present" is {value!r}, not bytes such as "0x1f"')


# --------------------------------------------------------------------------------------------------------- conversions


def _fitting(array: pa.Array, column: ColumnDefinition) -> pa.Array:
    """Convert an array to a type that the encoder accepts for the column, if possible; the encoder rejects other types.

    Raises:
        BinlogFormatError: a value does not fit.
    """
    types, name = pa.types, column.sql_type.name
    kind = array.type
    if types.is_dictionary(kind):
        array = array.dictionary_decode()
        kind = array.type
    try:
        if types.is_boolean(kind):
            return array.cast(pa.int8())
        if types.is_float16(kind):
            return array.cast(pa.float32())
        if types.is_timestamp(kind) and kind.unit == "ns":
            return array.cast(pa.timestamp("us", kind.tz))
        if types.is_duration(kind) and kind.unit == "ns":
            return array.cast(pa.duration("us"))
        if types.is_time(kind):
            return array.cast(pa.time64("us")).cast(pa.int64()).cast(pa.duration("us"))
    except pa.ArrowInvalid as exc:
        raise BinlogFormatError(f"the value does not fit: {exc}", field=column.name) from exc
    if name == "json" and types.is_nested(kind):
        return _json_texts(array, column)
    if str(kind) in ("string", "large_string", "string_view"):
        array = _from_text(array, column)
    if types.is_floating(array.type) and not pc.all(pc.is_finite(array)).as_py() and len(array) > array.null_count:
        raise BinlogFormatError("a column has neither infinity nor NaN", field=column.name)
    return array


def _from_text(array: pa.Array, column: ColumnDefinition) -> pa.Array:
    """Convert an array of strings to a type that the encoder accepts for the column.

    Raises:
        BinlogFormatError: a value does not fit.
    """
    sql_type = column.sql_type
    number = _NUMBERS.get(sql_type.name)
    if number is not None:
        kind = number[sql_type.is_unsigned]
    elif sql_type.name == "decimal":
        kind = pa.decimal256(*(sql_type.arguments or (10, 0)))
    elif sql_type.name in ("char", "varchar"):
        most = pc.max(pc.utf8_length(array)).as_py()
        if most is not None and most > sql_type.arguments[0]:
            raise BinlogFormatError(
                "the text is too long", field=column.name, expected=sql_type.arguments[0], found=most
            )
        return array
    elif sql_type.name in _NOT_OF_TEXT:
        given = (int(value) if value is not None and value.isdecimal() else value for value in array.to_pylist())
        values = [None if value is None else value_from_json(value, column) for value in given]
        return _NOT_OF_TEXT[sql_type.name](values)
    else:
        return array
    try:
        return array.cast(kind)
    except pa.ArrowInvalid as exc:
        raise BinlogFormatError(f"the value does not fit: {exc}", field=column.name) from exc


def _json_texts(array: pa.Array, column: ColumnDefinition) -> pa.Array:
    try:
        texts = [None if value is None else json.dumps(value, ensure_ascii=False) for value in array.to_pylist()]
    except TypeError as exc:
        raise BinlogFormatError(f"the value is not JSON: {exc}", field=column.name) from exc
    return pa.array(texts, pa.string())


def _geometries(values: list[Any]) -> pa.Array:
    found = [{"srid": one.srid, "wkb": one.wkb} if isinstance(one, Geometry) else None for one in values]
    return pa.array(found, GEOMETRY)


_NUMBERS: Final = {
    "tinyint": (pa.int8(), pa.uint8()),
    "smallint": (pa.int16(), pa.uint16()),
    "mediumint": (pa.int32(), pa.uint32()),
    "int": (pa.int32(), pa.uint32()),
    "bigint": (pa.int64(), pa.uint64()),
    "year": (pa.int16(), pa.int16()),
    "float": (pa.float32(), pa.float32()),
    "double": (pa.float64(), pa.float64()),
}
"""Arrow types of numbers in CSV files, signed and unsigned."""

_NOT_OF_TEXT: Final[dict[str, Callable[[list[Any]], pa.Array]]] = {
    **dict.fromkeys(BINARY_TYPES, partial(pa.array, type=pa.binary())),
    **dict.fromkeys(GEOMETRY_TYPES, _geometries),
    "bit": partial(pa.array, type=pa.uint64()),
    "vector": partial(pa.array, type=pa.list_(pa.float32())),
}
"""Types whose values are strings in a script but not in Arrow."""
