"""The batch reader: plans the partitions of a read, and reads the record batches of one partition.

Turns options, pushed filters and the schema into requests to a view, and converts the batches of the view to the
schema of the read: columns by name, in its order and types. Damaged logs are handled in `scan`, streams in `stream`.

A record may not fit after an ALTER TABLE: its table has other columns than the read (an error unless
`schemaChanges` accepts it), or a value does not fit the type of the read. Such a record is an error with its
position (FAILFAST), a record with the error text (PERMISSIVE), or left out (DROPMALFORMED).

Filters of Spark are accepted where the source can evaluate them exactly. Spark does not evaluate an accepted filter
again, so a filter is accepted only if every returned record satisfies it, and no such record is left out.

    file       = in                       files that do not match are not opened
    pos, timestamp                        = < <= > >=      `in` becomes the range from least to greatest;
                                                           Spark evaluates it again
    server_id, gtid, schema, table, op    = in
    columns that are never null           is not null

All other filters, and all filters within OR, are left to Spark.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from binlogio.arrow import converted, converted_batch
from binlogio.columnar import group_around, is_one_piece, logs_without, splits_at_groups, splits_by_size, with_parts
from binlogio.errors import BinlogFormatError
from binlogio.format import GroupPart, Split, check_event_start
from binlogio.selection.event_filter import EVERY_EVENT, OPERATIONS, EventFilter, Range
from binlogio.storage import base_name
from pyspark_binlogio.options import BinlogOptionError, nearest
from pyspark_binlogio.push_filters import PushFilters
from pyspark_binlogio.pyspark_api import arrow_schema
from pyspark_binlogio.scan import (
    LogPartition,
    Piece,
    Request,
    check_holes,
    corrupt_record,
    evenly,
    find_log_files,
    option_hints,
    partitions,
    request_of,
    statements_of,
    tolerant,
    wanted_pieces,
)
from pyspark_binlogio.spark_types import spark_ddl
from pyspark_binlogio.task_statements import TaskStatements
from pyspark_binlogio.views import OP, POS, VIEWS, own_columns

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter
    from pyspark.sql.types import StructType

    from binlogio.schema import DefinitionCatalogue
    from binlogio.series import LogHead
    from binlogio.storage import Keyring, LogFile
    from pyspark_binlogio.options import BinlogReadOptions


# --------------------------------------------------------------------------------------------------------- filters


_ONE: Final = 1_000_000  # bounds are in millionths: timestamps may have microseconds, records have seconds
_EPOCH: Final = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
_MICROSECOND: Final = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Pushed:
    """The filters that were accepted: files, and events of them."""

    files: frozenset[object] | None = None
    events: EventFilter = EVERY_EVENT

    @property
    def is_empty(self) -> bool:
        """True if no record can match."""
        return (self.files is not None and not self.files) or self.events.is_empty

    def narrowed(self, name: str, to: Range | frozenset[object]) -> Pushed:
        """Return a copy with `to` for one of the fields."""
        now: Any = self.files if name == FILES else getattr(self.events, name)
        both: Any = to if now is None else now.within(to) if isinstance(to, Range) else now & to
        if name == FILES:
            return replace(self, files=both)
        return replace(self, events=replace(self.events, **{name: OPERATIONS & both if name == "ops" else both}))


NOTHING_PUSHED: Final = Pushed()
FILES: Final = "files"
RANGES: Final = frozenset({"pos", "timestamp"})


def push(
    filters: Iterable[Filter], columns: Mapping[str, str], never_null: frozenset[str]
) -> tuple[Pushed, list[Filter]]:
    """Return the filters that the view can apply, and those that Spark must evaluate.

    Args:
        filters: those of `pyspark.sql.datasource`.
        columns: the view's columns that can be filtered, each with its field of Pushed or of EventFilter.
        never_null: columns of the view without nulls.
    """
    found = NOTHING_PUSHED
    rest: list[Filter] = []
    one: Any  # kinds of filters differ in their fields
    for one in filters:
        name = one.attribute[0] if len(getattr(one, "attribute", ())) == 1 else None
        kind = type(one).__name__
        if kind == "IsNotNull" and name in never_null:
            continue
        narrow = _NARROW.get(kind) if name in columns else None
        taken = narrow(found, columns[name], one.value) if narrow is not None and name is not None else None
        if taken is None:
            rest.append(one)
            continue
        found, is_exact = taken
        if not is_exact:
            rest.append(one)
    return found, rest


def row_values(filters: Iterable[Filter], images: tuple[str, ...]) -> list[dict[str, int | str]]:
    """Return the values of table columns that filters ask of every record, or of each of its `images`.

    Whole numbers and texts only: the others differ by their type in Spark.
    """
    found: dict[tuple[str, ...], dict[str, int | str]] = {(image,): {} for image in images} or {(): {}}
    one: Any
    for one in filters:
        if type(one).__name__ != "EqualTo":
            continue
        *image, column = one.attribute
        value = int(one.value) if isinstance(one.value, Decimal) and not one.value % 1 else one.value
        if isinstance(value, (int, str)) and not isinstance(value, bool) and tuple(image) in found:
            found[tuple(image)][column] = value
    return [values for values in found.values() if values]


_Taken = tuple[Pushed, bool] | None


def _in(found: Pushed, name: str, values: Iterable[Any]) -> _Taken:
    known = [value for value in values if value is not None]  # x IN (1, NULL) is true for 1 only
    if name not in RANGES:
        return found.narrowed(name, frozenset(known)), True
    bounds = [bound for bound in map(_bound, known) if bound is not None]
    if not bounds or len(bounds) != len(known):
        return None
    return found.narrowed(name, Range(_up(min(bounds)), _down(max(bounds)) + 1)), len(bounds) == 1


def _compare(make: Callable[[int], Range]) -> Callable[[Pushed, str, object], _Taken]:
    def narrow(found: Pushed, name: str, value: object) -> _Taken:
        bound = _bound(value) if name in RANGES else None
        return None if bound is None else (found.narrowed(name, make(bound)), True)

    return narrow


def _bound(value: object) -> int | None:
    """Return a number or a time in millionths; None for other values."""
    if isinstance(value, int):
        return value * _ONE
    if isinstance(value, datetime) and value.tzinfo is not None:
        return (value - _EPOCH) // _MICROSECOND
    return None


def _up(bound: int) -> int:
    return -(-bound // _ONE)


def _down(bound: int) -> int:
    return bound // _ONE


_NARROW: Final[dict[str, Callable[[Pushed, str, Any], _Taken]]] = {
    "EqualTo": lambda found, name, value: _in(found, name, [value]),
    "In": _in,
    "GreaterThanOrEqual": _compare(lambda bound: Range(start=_up(bound))),
    "GreaterThan": _compare(lambda bound: Range(start=_down(bound) + 1)),
    "LessThan": _compare(lambda bound: Range(end=_up(bound))),
    "LessThanOrEqual": _compare(lambda bound: Range(end=_down(bound) + 1)),
}


# ---------------------------------------------------------------------------------------------------------- reader


_IMAGES = ("before", "after")
_RESCUED: Final = "_rescued"
_LOGGER: Final = logging.getLogger("pyspark_binlogio")
_LOGGER.setLevel(logging.INFO)  # Spark collects the logs of its Python processes, by spark.tvf.python_worker_logs()


@option_hints()
def view_columns(
    options: BinlogReadOptions, note_statements: Callable[[DefinitionCatalogue | None], None] = lambda _: None
) -> Mapping[str, pa.DataType]:
    """Return the columns of a read for which the user gives no schema.

    Where the columns are those of a table, `note_statements` is called with the DDL in the logs, if the read needs it.
    """
    view = VIEWS[options.view]
    logs = []
    if options.table is not None:
        options.require_paths()
        logs = find_log_files(options)
    request = request_of(options)
    if logs:
        request = replace(request, statements=statements_of(options, request.keyring))
        note_statements(request.statements)
    columns = view.columns(request, logs)
    corrupt = options.column_name_of_corrupt_record
    rescued = {_RESCUED: pa.string()} if options.schema_changes == "rescue" else {}
    if not columns.keys().isdisjoint(rescued):
        raise BinlogOptionError(f"binlog: the table has a column {_RESCUED}: schemaChanges=rescue needs its name")
    return {**columns, **rescued, **({corrupt: pa.string()} if options.mode == "PERMISSIVE" else {})}


class BinlogBatchReader(DataSourceReader):
    """Reads whole logs once.

    Args:
        options: the options of the read.
        schema: the columns of the read.
        has_every_column: the schema is that of the source, not one of the user, which may name some columns only.
        statements: the DDL in the logs, as far as it is known.
        follows_logs: find the DDL in the logs when they are planned; a stream gives each batch that up to its end
            instead.
    """

    @option_hints()
    def __init__(
        self,
        options: BinlogReadOptions,
        schema: StructType,
        *,
        has_every_column: bool = False,
        statements: DefinitionCatalogue | None = None,
        follows_logs: bool = True,
    ) -> None:
        self._options = options
        self._schema = arrow_schema(schema)
        self._pushed = NOTHING_PUSHED
        self._has_own_types = has_every_column
        self._row_values: list[dict[str, int | str]] = []
        has_every_column = (has_every_column and options.columns is None) or options.schema_changes == "rescue"
        columns = _table_columns(options, self._schema)
        self._conversion = Conversion(self._schema, options, columns, has_every_column)
        self._request = replace(
            request_of(options), columns=None if has_every_column else columns, names=tuple(self._schema.names)
        )
        self._known = statements
        self._statements = TaskStatements(lambda: self._plan()[1]) if follows_logs else None
        self._planned: tuple[list[Piece], DefinitionCatalogue | None] | None = None
        _check_schema(self._schema, options)

    def __getstate__(self) -> dict[str, object]:
        """Return the state for the tasks, without the attributes that only the driver needs."""
        return {**self.__dict__, "_known": None, "_planned": None}

    @property
    def keyring(self) -> Keyring | None:
        """The keys for encrypted logs."""
        return self._request.keyring

    @property
    def pushFilters(self) -> PushFilters:  # noqa: N802 - Spark's name
        """The method that accepts the filters which the view can apply exactly, and returns the others."""
        return PushFilters(self.push)

    def push(self, filters: Iterable[Filter]) -> list[Filter]:
        """Accept filters, and return those that Spark must evaluate.

        With PERMISSIVE, Spark evaluates all filters again, since records of errors have no values.
        """
        view = VIEWS[self._options.view]
        given = list(filters)
        self._pushed, rest = push(given, view.filters, view.never_null())
        if self._options.table is not None and self._options.schema_file is None and self._has_own_types:
            self._row_values = row_values(given, () if self._options.view == "changes" else _IMAGES)
        where = self._request.where  # the restrictions of the options
        both = replace(
            self._pushed.events,
            timestamp=where.timestamp.within(self._pushed.events.timestamp),
            group_time=where.group_time,
            known_gtids=where.known_gtids,
            wanted_gtids=where.wanted_gtids,
        )
        self._request = replace(self._request, where=both)
        self._planned = None
        return given if self._options.mode == "PERMISSIVE" else rest

    @option_hints()
    def partitions(self) -> list[InputPartition]:
        """Return byte ranges of the logs that the paths name, no larger than `maxPartitionBytes`.

        Raises:
            OSError: a path names nothing, and `ignoreMissingLogs` is not set.
            MissingLogs: a log is missing between two others, and neither that option nor `pathGlobFilter` is set.
            PositionError: `startingPosition` is not the start of an event.
            BinlogError: a URI that cannot be opened.
        """
        return self._cut(self._plan()[0])

    def _plan(self) -> tuple[list[Piece], DefinitionCatalogue | None]:
        """Return the pieces of the logs that may have wanted events, and the DDL up to the last of them."""
        if self._planned is None:
            pieces = [] if self._pushed.is_empty else self._without_skipped_logs(*self._found())
            last = pieces[-1].log if pieces else None
            found = None if last is None else statements_of(self._options, self.keyring, self._known, last)
            self._planned = pieces, found
        return self._planned

    def _found(self) -> tuple[list[Piece], Mapping[str, LogHead | None] | None]:
        files = self._pushed.files
        found = find_log_files(self._options)
        heads = check_holes(found, self._options, self.keyring)
        logs = [log for log in found if files is None or log.name in files]
        start = self._options.starting_position
        for log in logs:
            if start is not None and base_name(log.name) == start[0]:
                check_event_start(log, start[1], self.keyring)
        if self._options.split_mode == "ranges":
            return [piece for log in logs for piece in wanted_pieces(log, self._where(log).pos)], heads
        return [Piece(log) for log in logs], heads

    def plan(self, pieces: list[Piece], heads: Mapping[str, LogHead | None] | None) -> list[InputPartition]:
        """Return the pieces, cut and packed as the options say.

        Logs without a wanted event, by their heads, are left out.
        """
        return self._cut(self._without_skipped_logs(pieces, heads))

    def _cut(self, pieces: list[Piece]) -> list[InputPartition]:
        mode, max_bytes = self._options.split_mode, self._options.max_partition_bytes
        return partitions(pieces, None if mode == "files" else max_bytes, self._splits)

    def _without_skipped_logs(self, pieces: list[Piece], heads: Mapping[str, LogHead | None] | None) -> list[Piece]:
        logs = [*{piece.log.name: piece.log for piece in pieces}.values()]
        where = replace(self._request.where, pos=Range())
        if where:
            skipped = logs_without(
                logs,
                where,
                self.keyring,
                timestamp_slack=self._options.timestamp_slack,
                is_strict=self._options.gtid_strict_mode,
                heads=None if heads is None else [heads[log.name] for log in logs],
            )
            names = {logs[number].name for number in skipped}
            pieces = [piece for piece in pieces if piece.log.name not in names]
        pieces = self._with_row(pieces)
        read = {piece.log.name for piece in pieces}
        _LOGGER.info(
            "binlog: %d of %d logs are read, %d of %d bytes; the others are skipped by filters",
            len(read),
            len(logs),
            sum(piece.size for piece in pieces),
            sum(log.size or 0 for log in logs),
        )
        return pieces

    def _with_row(self, pieces: list[Piece]) -> list[Piece]:
        """Leave out the logs that do not have the row which the filters name, by their indexes."""
        if not self._row_values or self._options.table is None:
            return pieces
        from binlogio.archive import logs_without_row  # noqa: PLC0415 - seldom needed

        table, folder = self._options.table, self._options.index_dir
        logs = {piece.log.name: piece.log for piece in pieces if folder is not None or "://" not in piece.log.name}
        skipped = {
            name
            for values in self._row_values
            for name in logs_without_row(logs.values(), table, values, folder=folder, keyring=self.keyring)
        }
        _LOGGER.info("binlog: %d of %d logs are skipped by their indexes of keys", len(skipped), len(logs))
        return [piece for piece in pieces if piece.log.name not in skipped]

    def _where(self, log: LogFile) -> EventFilter:
        """Apply `startingPosition` and `endingPosition` to their log; logs before and after these are not planned."""
        name, pos = base_name(log.name), self._request.where.pos
        start, end = self._options.starting_position, self._options.ending_position
        if start is not None and name == start[0]:
            pos = pos.within(Range(start=start[1]))
        if end is not None and name == end[0]:
            pos = pos.within(Range(end=end[1]))
        return replace(self._request.where, pos=pos)

    def _splits(self, log: LogFile, within: Split, max_bytes: int) -> Iterable[Split | GroupPart]:
        """Return the splits of a log, and of row changes the parts of large event groups.

        A group with damage is lost as a whole, unless the error ends the query: then it is not divided.
        """
        has_parts = self._options.view in ("rows", "changes") and self._options.mode == "FAILFAST"
        try:
            if self._options.split_mode == "scan":
                if is_one_piece(log, self.keyring):
                    return (within,)
                splits = splits_at_groups(log, within, max_bytes, self.keyring)
                return with_parts(log, splits, max_bytes, self.keyring) if has_parts else splits
            return splits_by_size(log, within, max_bytes, self.keyring) if has_parts else evenly(log, within, max_bytes)
        except FileNotFoundError:  # the task says so
            return evenly(log, within, max_bytes)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of one partition.

        Raises:
            BinlogError: a file is damaged or not a log, and `mode` is FAILFAST; with file and offset. Or the reader was
                pickled without the DDL that it needs.
            OSError: it cannot be read.
        """
        if not isinstance(partition, LogPartition):
            return  # Spark's own partition for an empty plan
        statements = partition.statements if self._statements is None else self._statements.get()
        for piece in partition.pieces:
            try:
                yield from self._read(piece, statements)
            except FileNotFoundError:
                if not self._options.ignore_missing_logs:
                    raise

    def _read(self, piece: Piece, statements: DefinitionCatalogue | None) -> Iterator[pa.RecordBatch]:
        where = self._where(piece.log)
        if piece.is_before and piece.split is not None:
            begin = group_around(piece.log, piece.split.end, self.keyring) or 0
            piece = replace(piece, split=Split(begin, piece.split.end))
        if piece.within is not None:
            where = replace(where, pos=where.pos.within(piece.within))
        request = replace(self._request, where=where, statements=statements)
        batches = VIEWS[self._options.view].batches
        for batch in tolerant(lambda part: batches(part, request), piece, self._options):
            yield from self._conversion.batches(batch, piece.log.name)


def _table_columns(options: BinlogReadOptions, schema: pa.Schema) -> tuple[str, ...] | None:
    """Return the table's columns that `schema` names; None where images are text."""
    if options.table is None:
        return None
    if options.view == "changes":
        own = (*own_columns(options), _RESCUED, options.column_name_of_corrupt_record)
        return tuple(name for name in schema.names if name not in own)
    images = [schema.field(name).type for name in _IMAGES if name in schema.names]
    return tuple({field.name: None for image in images if pa.types.is_struct(image) for field in image})


def _check_schema(schema: pa.Schema, options: BinlogReadOptions) -> None:
    """Refuse a column that the view does not have, or that has another type in it."""
    is_flat, is_typed = options.view == "changes", options.view == "rows" and options.table is not None
    no_table = Request(options=replace(options, table=None))
    known = dict(own_columns(options) if is_flat else VIEWS[options.view].columns(no_table, []))
    names = tuple(known)
    known[options.column_name_of_corrupt_record] = pa.string()
    if options.schema_changes == "rescue":
        known[_RESCUED] = pa.string()
    for field in schema:
        kind = known.get(field.name)
        if (is_flat and kind is None) or (is_typed and field.name in _IMAGES and pa.types.is_struct(field.type)):
            continue
        if kind is None:
            near = nearest(field.name, names)
            raise BinlogOptionError(
                f"binlog: view {options.view} has no column {field.name!r}; did you mean {near!r}? "
                f"It has {', '.join(names)}"
            )
        if field.type != kind:
            raise BinlogOptionError(
                f"binlog: view {options.view}: column {field.name}: expected {spark_ddl(kind)}, "
                f"found {spark_ddl(field.type)}"
            )


_NO_ROOM: Final = (pa.ArrowInvalid, pa.ArrowNotImplementedError)


@dataclass(frozen=True, slots=True)
class Conversion:
    """The conversion of record batches to the schema of the read.

    `columns` are the columns of the table that the read names, None where images are text; `is_every_one`: they are all
    columns of the table, not a selection.
    """

    schema: pa.Schema
    options: BinlogReadOptions
    columns: tuple[str, ...] | None
    is_every_one: bool

    def batches(self, batch: pa.RecordBatch, file: str) -> Iterator[pa.RecordBatch]:
        """Yield the batch with the schema of the read; in parts if some records do not fit.

        Raises:
            BinlogFormatError: a record does not fit, and the mode is FAILFAST.
        """
        difference = self._difference(batch)
        if difference is not None:
            for number in range(batch.num_rows):
                record = batch.slice(number, 1)
                yield from self._refused(_other_columns(record, self.options.table, difference, file), file)
            return
        yield from self._fitting(self._with_rescued(batch), file)

    def _difference(self, batch: pa.RecordBatch) -> str | None:
        """Return how the columns of the table differ from those of the read; None if `schemaChanges` accepts it."""
        found, mode = _columns_of_table(batch, self.options), self.options.schema_changes
        if found is None or self.columns is None or mode not in ("error", "addColumns"):
            return None
        lacking = [name for name in self.columns if name not in found] if mode == "error" else []
        more = self._more(found) if self.is_every_one else []
        parts = []
        if lacking:
            parts.append(f"the table has no column {', '.join(lacking)} here")
        if more:
            parts.append(f"this read has no column {', '.join(more)}")
        return "; ".join(parts) or None

    def _more(self, found: Iterable[str]) -> list[str]:
        """Return the columns that a batch has, and the read lacks."""
        return [name for name in found if name not in (self.columns or ())]

    def _with_rescued(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the batch with the values of the columns that the read lacks as JSON, if the read has a column for it.

        They are those of the record, or of its images.
        """
        if self.columns is None or self.options.schema_changes != "rescue" or _RESCUED not in self.schema.names:
            return batch
        more = self._more(_columns_of_table(batch, self.options) or ())
        if not more:
            return batch
        if OP in batch.schema.names:
            found = batch.select(more).to_pylist()
        else:
            images = zip(*(batch.column(name).to_pylist() for name in _IMAGES), strict=True)
            found = [
                {
                    name: {one: image[one] for one in more}
                    for name, image in zip(_IMAGES, pair, strict=True)
                    if image is not None
                }
                for pair in images
            ]
        texts = [json.dumps(one, default=_json_text, ensure_ascii=False) for one in found]
        return batch.append_column(_RESCUED, pa.array(texts, pa.string()))

    def _fitting(self, batch: pa.RecordBatch, file: str) -> Iterator[pa.RecordBatch]:
        try:
            yield converted_batch(batch, self.schema)
        except _NO_ROOM as exc:
            if batch.num_rows != 1:
                for number in range(batch.num_rows):
                    yield from self._fitting(batch.slice(number, 1), file)
                return
            refusal = _refusal(batch, self.schema, file)
            refusal.__cause__ = exc
            yield from self._refused(refusal, file)

    def _refused(self, refusal: BinlogFormatError, file: str) -> Iterator[pa.RecordBatch]:
        if self.options.mode == "FAILFAST":
            raise refusal
        if self.options.mode == "PERMISSIVE":
            record = corrupt_record(file, refusal, self.options.column_name_of_corrupt_record)
            yield converted_batch(record, self.schema)


def _columns_of_table(batch: pa.RecordBatch, options: BinlogReadOptions) -> list[str] | None:
    """Return the columns of the table; None for records of errors, and for records without typed images."""
    if OP in batch.schema.names:
        own = own_columns(options)
        return [name for name in batch.schema.names if name not in own]
    index = batch.schema.get_field_index("after")
    if index < 0 or not pa.types.is_struct(batch.schema.field(index).type):
        return None
    return [field.name for field in batch.schema.field(index).type]


def _json_text(value: object) -> str:
    return f"0x{value.hex().upper()}" if isinstance(value, bytes) else str(value)


def _other_columns(record: pa.RecordBatch, table: str | None, difference: str, file: str) -> BinlogFormatError:
    return BinlogFormatError(
        f"the columns of the table differ from those of this read (ALTER TABLE): {difference}",
        file=file,
        offset=_offset(record),
        field=table,
        hint="read from here on with a new schema: without .schema(...) it is that of the last change; or set option "
        "schemaChanges to ignore: columns that the read lacks are left out, and those that the table lacks are NULL; "
        "to addColumns, so that a restart has the new ones; or to rescue, for a column with their values",
    )


def _refusal(record: pa.RecordBatch, schema: pa.Schema, file: str) -> BinlogFormatError:
    name, value, wanted = next(_misfits(pa.StructArray.from_arrays(record.columns, record.schema.names), schema))
    return BinlogFormatError(
        "the value does not fit the type of the column in this read",
        file=file,
        offset=_offset(record),
        field=name,
        expected=spark_ddl(wanted),
        found=repr(value)[:80],
        hint="give a schema with .schema(...) whose type fits all values of the column, such as string",
    )


def _offset(record: pa.RecordBatch) -> int:
    return int(record.column(POS if OP in record.schema.names else "pos")[0].as_py())


def _misfits(image: pa.StructArray, wanted: Any, path: str = "") -> Iterator[tuple[str, Any, pa.DataType]]:
    """Yield the columns of a record whose values do not fit, with their values and types."""
    for field in wanted:
        index = image.type.get_field_index(field.name)
        if index < 0:
            continue
        array = image.field(index)
        try:
            converted(array, field.type)
        except _NO_ROOM:
            if pa.types.is_struct(field.type) and pa.types.is_struct(array.type):
                yield from _misfits(array, field.type, f"{path}{field.name}.")
            else:
                yield path + field.name, array[0].as_py(), field.type
