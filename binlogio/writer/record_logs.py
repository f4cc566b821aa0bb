"""Writes records of row changes as logs: many tasks write segments, which are committed in order, all or none.

The records have the schema of `binlogio.read_rows`. Each task groups its records into transactions and stages segments:
files with complete transactions and a provisional header, but without an end. When all tasks are done,
`LogFolder.commit` writes their final headers and ends, and replaces the index last. Needs pyarrow.

    transaction := run+      same file, gtid and sequence_number; if both gtid and sequence_number are NULL, same file
                             and pos
    run         := record+   same table, operation, bitmaps, server_id and timestamp, consecutive
    order       := (file by its number, pos, row), strictly increasing
    segment     := magic format_description previous_gtids group+
    commit      := check order and GTIDs, finish each segment (header, ROTATE or STOP), record the batch, publish

A commit that crashed before the index was replaced is undone by the next commit (`binlogio.storage.log_index`). A
numbered batch is recorded with the last log that it wrote, and is complete once the index has that log: the same batch
then writes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
import pyarrow as pa

from binlogio.arrow.types import column_spec, sql_type_of
from binlogio.constants import EVENT_SIZE_BYTES, HEADER_SIZE
from binlogio.dotted_names import dotted_name
from binlogio.errors import BinlogError, BinlogFormatError, Hint, UnsupportedFeature, WriterStateError
from binlogio.gtid import EMPTY_GTID_SET, Gtid, GtidSet, Interval, MariadbGtid
from binlogio.primitives import bitmap_size
from binlogio.rows.image import RowChange, RowImage, encode_rows
from binlogio.schema.ddl.server_defaults import ServerDefaults
from binlogio.schema.definition import ColumnDefinition, TableDefinition
from binlogio.schema.json_values import value_from_json
from binlogio.storage.index_file import log_number, next_log_name
from binlogio.storage.log_index import LogIndex
from binlogio.storage.log_storage import replace_file
from binlogio.storage.stored_json import read_stored
from binlogio.values.absent import ABSENT
from binlogio.values.json.document import JsonDocument
from binlogio.writer.batches import BatchChange, EncodedRow, RowsStatement, TransactionEncoder
from binlogio.writer.log.gtids import DomainState
from binlogio.writer.log.log_builder import LogBuilder, writer_kernel
from binlogio.writer.log.recovery import check_vendor, examine
from binlogio.writer.log.server_identity import stored_identity
from binlogio.writer.query_events import QueryContext
from binlogio.writer.server_format import server_format_of
from binlogio.writer.session.open_tables import OpenTables

if TYPE_CHECKING:
    import numpy.typing as npt

    from binlogio._kernel.row_encoder import EventBuffer
    from binlogio.arrow.encode import Operation
    from binlogio.options import ServerVariables
    from binlogio.schema.given import GivenDefinitions
    from binlogio.storage.log_storage import LogStorage
    from binlogio.writer.log.log_builder import LoggedGtids
    from binlogio.writer.session.open_tables import OpenTable

BATCHES_SUFFIX: Final = ".batches"
THREAD_ID: Final = 1
WINDOW_SIZE: Final = 4 << 20
_WRITE_SIZE: Final = 4 << 20
_MAX_SHAPES: Final = 1024
_US_PER_S: Final = 1_000_000
_OPS: Final = {"insert": "an insert", "update": "an update", "delete": "a delete"}
_TRANSACTION: Final = ("file", "gtid", "sequence_number")
_RUN: Final = ("schema", "table", "op", "before_present", "after_present", "server_id", "timestamp")
_WITHOUT_BATCHES: Final = (
    "it says which batches are in the logs: put back a copy of it, or remove it, after which a repeated batch is "
    "written again"
)


# ------------------------------------------------------------------------------------------------------ transactions


FileKey = tuple[str, int, str]
Place = tuple[FileKey, int, int]
"""Position of a record: its file, pos and row. Positions sort as the records do."""

TransactionKey = tuple[FileKey, str | None, int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordRun:
    """Changes of one kind to one table. `timestamp` is in seconds since 1970; the images are structs or JSON text."""

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
    """All records of one transaction, in order. `gtid` is text, None if there is none."""

    key: TransactionKey
    gtid: str | None
    first: Place
    last: Place
    runs: list[RecordRun] = field(default_factory=list)


def transactions_of(batches: Iterable[pa.RecordBatch]) -> Iterator[WrittenTransaction]:
    """Yield the transactions of the records of one task. The batches must have all columns of the view.

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
    """Return the error for a record or a task that does not follow the previous one."""
    return BinlogFormatError(
        "the records to write are out of order or duplicated",
        field="file, pos, row",
        expected=f"after {_shown(before)}",
        found=_shown(after),
        hint=Hint.RECORD_ORDER,
    )


def log_name(file: FileKey) -> str | None:
    """Return the name of a log as in its records; None for records without a file."""
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
    """Yield each run with its transaction, and its first and last position.

    Raises:
        BinlogFormatError: records of one file are not in order.
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
    """Return True at i if the value at i + 1 differs from that at i; null is treated as a value."""
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
        number = -1 - place[1]  # negative, so distinct from every sequence_number
    return place[0], gtid, number


def _refuse_missing_images(run: RecordRun) -> None:
    if run.op not in _OPS:
        raise BinlogFormatError("unknown operation", field="op", expected=", ".join(_OPS), found=repr(run.op))
    for name, image, has_image in ("before", run.before, run.op != "insert"), ("after", run.after, run.op != "delete"):
        if has_image and image.null_count:
            raise BinlogFormatError(f"a record of {_OPS[run.op]} has no {name} image", field=name)


# ---------------------------------------------------------------------------------------------------------- tables


class WrittenTables:
    """The tables of one task.

    Args:
        definitions: table definitions; without one, the columns are those of the images, with the types of
            `sql_type_of`.
        variables: the server's variables.
    """

    def __init__(self, definitions: GivenDefinitions | None, variables: ServerVariables) -> None:
        self._given = definitions
        self._opened = OpenTables(variables, None)
        self._server = ServerDefaults.of(LogBuilder.of(variables, None).context)
        self._tables: dict[tuple[str, str, pa.DataType], OpenTable] = {}
        self._natural: dict[int, dict[str, pa.DataType]] = {}
        self._names: dict[pa.DataType, frozenset[str]] = {}
        self._columns: dict[tuple[int, bytes], list[tuple[str, int, pa.DataType | None]]] = {}

    def statement(self, run: RecordRun) -> RowsStatement:
        """Return the rows of a run as a statement to be encoded.

        Raises:
            UnsupportedFeature: the columns are unknown, or a column is not supported.
            BinlogFormatError: a present bitmap does not fit the table.
        """
        table = self._open(run)
        operation = cast("Operation", run.op)  # `transactions_of` refuses other values
        common: dict[str, Any] = {
            "table": table,
            "operation": operation,
            "timestamp": run.timestamp,
            "server_id": run.server_id,
            "flags": 0,
        }
        if not pa.types.is_struct(run.after.type):
            return RowsStatement(**common, encoded=_json_rows(run, table))
        names = self._names.get(run.after.type)
        if names is None:
            names = self._names[run.after.type] = frozenset(field.name for field in run.after.type)
        before = _bitmap(table, run.before_present, names)
        after = _bitmap(table, run.after_present, names)
        change = BatchChange(
            table.definition,
            None if run.op == "insert" else self._batch(run.before, table, before),
            None if run.op == "delete" else self._batch(run.after, table, after),
        )
        return RowsStatement(
            **common, change=change, present=after if run.op == "insert" else before, present_after=after
        )

    def _open(self, run: RecordRun) -> OpenTable:
        image = run.before if run.op == "delete" else run.after
        key = run.schema, run.table, image.type
        table = self._tables.get(key)
        if table is None:
            table = self._tables[key] = self._opened.get(self._definition(*key))
            self._natural[table.table_id] = {column.label: column_spec(column).type for column in table.plan.columns}
        return table

    def _definition(self, schema: str, name: str, image: pa.DataType) -> TableDefinition:
        described = None if self._given is None else self._given.find(schema, name, self._server)
        if described is not None:
            return described.definition
        if not pa.types.is_struct(image):
            raise UnsupportedFeature(
                "the columns of a table with JSON images are unknown",
                field=dotted_name(schema, name),
                hint=(Hint.TABLE_DEFINITION, "or write structs as before and after"),
            )
        columns = tuple(_column(dotted_name(schema, name), field) for field in image)
        return TableDefinition(schema, name, columns)

    def _batch(self, image: pa.StructArray, table: OpenTable, present: bytes) -> pa.RecordBatch:
        """Return the columns of an image, converted to native types that Spark lacks."""
        key = table.table_id, present
        columns = self._columns.get(key)
        if columns is None:
            absent = {name for place, name in enumerate(table.names) if not present[place >> 3] >> (place & 7) & 1}
            natural = self._natural[table.table_id]
            if len(self._columns) >= _MAX_SHAPES:
                self._columns.clear()
            columns = self._columns[key] = [
                (field.name, place, natural.get(field.name))
                for place, field in enumerate(image.type)
                if field.name not in absent
            ]
        arrays = [_native(image.field(place), natural) for _, place, natural in columns]
        return pa.RecordBatch.from_arrays(arrays, names=[name for name, _, _ in columns])


def _column(table: str, field: pa.Field) -> ColumnDefinition:
    is_vector = pa.types.is_list(field.type) and pa.types.is_float32(field.type.value_type)
    sql_type = "vector(16383)" if is_vector else sql_type_of(field.type)
    if sql_type is None:
        raise UnsupportedFeature(
            "no column type of MySQL corresponds to this type",
            field=f"{table}.{field.name}",
            found=str(field.type),
            hint=Hint.TABLE_DEFINITION,
        )
    return ColumnDefinition(field.name, sql_type)


def _bitmap(table: OpenTable, given: bytes | None, names: Collection[str]) -> bytes:
    """Return the present bitmap of an image: that of the record, or one made from the columns that the image has."""
    count = len(table.names)
    if given is None:
        bits = sum(1 << place for place, name in enumerate(table.names) if name in names)
        return bits.to_bytes(bitmap_size(count), "little")
    if len(given) != bitmap_size(count) or int.from_bytes(given, "little") >> count:
        raise BinlogFormatError(
            "the bitmap of a record is that of a table with other columns",
            field=table.definition.full_name,
            expected=f"{count} columns",
            found=given.hex(),
            hint=(Hint.TABLE_DEFINITION, "or leave out before_present and after_present"),
        )
    return given


def _native(array: pa.Array, natural: pa.DataType | None) -> pa.Array:
    """Convert unsigned integers from Spark's decimal(20,0), and long decimals from text; other values are unchanged."""
    kind = array.type
    if natural is None or kind == natural:
        return array
    if pa.types.is_decimal(kind) and pa.types.is_integer(natural):
        return array.cast(natural)
    if pa.types.is_decimal256(natural) and pa.types.is_string(kind):
        return array.cast(natural)
    return array


def _json_rows(run: RecordRun, table: OpenTable) -> Iterator[EncodedRow]:
    """Yield each change encoded."""
    for before_text, after_text in zip(run.before.to_pylist(), run.after.to_pylist(), strict=True):
        before, before_present = _json_image(before_text, run.before_present, table, wanted=run.op != "insert")
        after, after_present = _json_image(after_text, run.after_present, table, wanted=run.op != "delete")
        first = after_present if run.op == "insert" else before_present
        second = after_present if run.op == "update" else None
        yield first, second, encode_rows([RowChange(before, after)], table.plan, first, second)


def _json_image(text: str, given: bytes | None, table: OpenTable, *, wanted: bool) -> tuple[RowImage | None, bytes]:
    if not wanted:
        return None, b""
    name = table.definition.full_name
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise BinlogFormatError(f"the image is not JSON: {exc}", field=name) from exc
    if not isinstance(values, dict) or not values.keys() <= set(table.names):
        raise BinlogFormatError(
            "the image is not a JSON object of the table's columns",
            field=name,
            expected=", ".join(table.names),
            found=text[:80],
        )
    present = _bitmap(table, given, set(values))
    image = []
    for place, column in enumerate(table.definition.columns):
        is_present = present[place >> 3] >> (place & 7) & 1
        if is_present and column.name not in values:
            raise BinlogFormatError(
                "the image lacks a column that its present bitmap has", field=f"{name}.{column.name}"
            )
        image.append(_json_value(values[column.name], column) if is_present else ABSENT)
    return RowImage(table.plan, tuple(image)), present


def _json_value(value: Any, column: ColumnDefinition) -> Any:
    """Return the value of a column from a JSON image, as the view `rows` has it: a JSON document is text."""
    if isinstance(value, str) and column.sql_type.name == "json":
        return JsonDocument.from_text(value)
    return value_from_json(value, column)


# -------------------------------------------------------------------------------------------------------- segments


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A staged file.

    Args:
        name: its name in the storage.
        first, last: positions of its first and last record.
        first_key, last_key: identities of its first and last transaction.
        gtids: GTIDs of its transactions; for MariaDB the first and the last ones of each domain and server.
        head_size, size: sizes in bytes.
        server_id: server id of its first record.
        first_timestamp, last_timestamp: times of its transactions, in seconds since 1970.
    """

    name: str
    first: Place
    last: Place
    first_key: TransactionKey
    last_key: TransactionKey
    gtids: LoggedGtids
    head_size: int
    size: int
    server_id: int
    first_timestamp: int
    last_timestamp: int


def no_gtids(variables: ServerVariables) -> LoggedGtids:
    """Return the empty set of GTIDs of a server."""
    return () if variables.is_mariadb else EMPTY_GTID_SET


def joined_gtids(known: LoggedGtids, more: LoggedGtids) -> LoggedGtids:
    """Return the GTIDs of logs, extended by those of later transactions."""
    if isinstance(known, GtidSet) and isinstance(more, GtidSet):
        return known.union(more)
    return DomainState((*_of_mariadb(known), *_of_mariadb(more))).gtids


def refuse_repeated(known: LoggedGtids, more: LoggedGtids) -> None:
    """Refuse transactions whose GTIDs earlier logs contain.

    Raises:
        BinlogFormatError: a GTID is repeated; for MariaDB also if a number is not above the previous ones of its domain
            and server.
    """
    if isinstance(known, GtidSet) and isinstance(more, GtidSet):
        repeated = str(known.intersection(more))
    else:
        last = {(gtid.domain_id, gtid.server_id): gtid.sequence_number for gtid in _of_mariadb(known)}
        found = []
        for gtid in _of_mariadb(more):
            if gtid.sequence_number <= last.get((gtid.domain_id, gtid.server_id), -1):
                found.append(str(gtid))
            last[gtid.domain_id, gtid.server_id] = gtid.sequence_number
        repeated = ",".join(found)
    if repeated:
        raise BinlogFormatError(
            "the logs already contain transactions with these GTIDs, or later ones",
            field="gtid",
            found=repeated[:200],
            hint=("write them once, or to another directory", Hint.OVERWRITE),
        )


def _of_mariadb(gtids: LoggedGtids) -> tuple[MariadbGtid, ...]:
    return () if isinstance(gtids, GtidSet) else gtids


def _gtids_of_segment(gtids: Sequence[Gtid | MariadbGtid]) -> LoggedGtids:
    """Return the GTIDs of consecutive transactions, which are all of one vendor.

    Raises:
        BinlogFormatError: two transactions have the same GTID; for MariaDB also if the numbers of a domain and server
            do not increase.
    """
    of_mariadb = tuple(gtid for gtid in gtids if isinstance(gtid, MariadbGtid))
    if of_mariadb:
        refuse_repeated((), of_mariadb)
        ends = DomainState(reversed(of_mariadb)).gtids, DomainState(of_mariadb).gtids
        return tuple(dict.fromkeys(gtid for end in ends for gtid in end))
    found = GtidSet.from_gtids(gtid for gtid in gtids if isinstance(gtid, Gtid))
    if found.count != len(gtids):
        raise BinlogFormatError("two transactions have the same GTID", field="gtid", found=str(found)[:80])
    return found


class SegmentWriter:
    """Writes the transactions of one task to files `name_stem-0`, `name_stem-1`, ... of a storage."""

    def __init__(
        self,
        storage: LogStorage,
        name_stem: str,
        variables: ServerVariables,
        definitions: GivenDefinitions | None,
        executed: LoggedGtids,
        checkpoint: str = "",
    ) -> None:
        self._storage = storage
        self._name_stem = name_stem
        self._variables = variables
        self._executed = executed
        self._checkpoints = (checkpoint,)
        self._server_format = server_format_of(variables.server_version)
        self._builder = LogBuilder.of(variables, writer_kernel())
        self._tables = WrittenTables(definitions, variables)
        self._transactions = TransactionEncoder(variables, self._builder)
        self._xid = 0
        self._segments: list[Segment] = []
        self._pending = bytearray()
        self._sequence_number = 0
        self._written = no_gtids(variables)
        self._gtids: list[Gtid | MariadbGtid] = []

    def write(self, transactions: Iterable[WrittenTransaction]) -> list[Segment]:
        """Write the transactions, and return the segments.

        Raises:
            BinlogError: a record is invalid.
            OSError: the storage failed; the files written so far remain, and can be removed.
        """
        is_open = False
        for transaction in transactions:
            if is_open and self._segments[-1].size >= self._variables.max_binlog_size:
                self._finish()
                is_open = False
            if not is_open:
                self._begin(transaction)
                is_open = True
            self._add(transaction)
        if is_open:
            self._finish()
        return self._segments

    def remove(self) -> None:
        """Remove the written files, as far as possible; the commit or abort removes the rest."""
        for segment in self._segments:
            with suppress(OSError):
                self._storage.remove(segment.name)

    def _begin(self, transaction: WrittenTransaction) -> None:
        run = transaction.runs[0]
        gtid = self._gtid_of(transaction)
        previous = joined_gtids(self._executed, self._written)
        if isinstance(previous, GtidSet) and isinstance(gtid, Gtid) and gtid.gno > 1:
            previous = previous.union(GtidSet.from_intervals([(gtid.tsid, Interval(1, gtid.gno))]))
        elif isinstance(gtid, MariadbGtid) and gtid.sequence_number > 1:
            previous = joined_gtids(previous, (gtid,))
        head = self._builder.head(run.timestamp, run.server_id, previous, checkpoints=self._checkpoints)
        segment = Segment(
            name=f"{self._name_stem}-{len(self._segments)}",
            first=transaction.first,
            last=transaction.last,
            first_key=transaction.key,
            last_key=transaction.key,
            gtids=no_gtids(self._variables),
            head_size=len(head),
            size=len(head),
            server_id=run.server_id,
            first_timestamp=run.timestamp,
            last_timestamp=run.timestamp,
        )
        self._sequence_number = 0
        self._segments.append(segment)
        self._storage.create(segment.name)
        self._pending += head

    def _add(self, transaction: WrittenTransaction) -> None:
        segment = self._segments[-1]
        gtid = self._gtid_of(transaction)
        try:
            data = self._group(transaction, gtid, segment.size)
        except BinlogError as exc:
            exc.locate(file=log_name(transaction.first[0]), offset=transaction.first[1])
            raise
        self._pending += data
        if gtid is not None:
            self._gtids.append(gtid)
        self._segments[-1] = replace(
            segment,
            last=transaction.last,
            last_key=transaction.key,
            size=segment.size + len(data),
            last_timestamp=transaction.runs[-1].timestamp,
        )
        if len(self._pending) >= _WRITE_SIZE:
            self._flush()

    def _group(
        self, transaction: WrittenTransaction, gtid: Gtid | MariadbGtid | None, offset: int
    ) -> EventBuffer | bytes:
        runs = transaction.runs
        first, last = runs[0], runs[-1]
        query = self._server_format.query
        context = QueryContext(
            thread_id=THREAD_ID,
            schema="",
            timestamp=first.timestamp,
            server_id=first.server_id,
            sql_mode=query.sql_mode,
            collation=query.collation,
            updated_tables=int(query.names_single_table and first.op == "update"),
            server_format=self._server_format,
        )
        self._xid += 1
        group = self._transactions.group(
            [self._tables.statement(run) for run in runs],
            context,
            lambda: self._xid,
            last.timestamp,
        )
        clock = self._sequence_number, self._sequence_number + 1
        self._sequence_number += 1
        return self._builder.filled(group, offset, gtid, clock, last.timestamp * _US_PER_S, first.server_id)

    def _flush(self) -> None:
        self._storage.append(self._segments[-1].name, self._pending)
        self._pending = bytearray()

    def _finish(self) -> None:
        self._flush()
        segment = self._segments[-1]
        self._storage.sync(segment.name)
        self._storage.close(segment.name)
        gtids = _gtids_of_segment(self._gtids)
        self._gtids = []
        refuse_repeated(self._written, gtids)
        self._written = joined_gtids(self._written, gtids)
        self._segments[-1] = replace(segment, gtids=gtids)

    def _gtid_of(self, transaction: WrittenTransaction) -> Gtid | MariadbGtid | None:
        """Return the GTID of a transaction.

        Raises:
            UnsupportedFeature: it is not a GTID of the server's vendor; or there is none, and the server is MariaDB.
        """
        is_mariadb, text = self._variables.is_mariadb, transaction.gtid
        if text is None and not is_mariadb:
            return None
        try:
            return MariadbGtid.parse(text or "") if is_mariadb else Gtid.parse(text or "")
        except BinlogError as exc:
            raise UnsupportedFeature(
                f"not a GTID of {'MariaDB' if is_mariadb else 'MySQL'}, whose logs are written",
                field="gtid",
                found=repr(text),
                hint="MariaDB has a GTID for each transaction: give the column gtid texts such as 0-1-100"
                if is_mariadb
                else ("set the column gtid to NULL for logs without GTIDs", Hint.SERVER_VERSION),
            ) from exc


# ---------------------------------------------------------------------------------------------------------- commit


@dataclass(frozen=True, slots=True)
class BatchNumber:
    """The application and the number of a batch."""

    application: str
    number: int


class LogFolder:
    """A series of existing logs, and the logs appended to it. There must be no other writer at the same time.

    If `changes_files` is False, the storage can only replace whole files.
    """

    def __init__(
        self, stem: str, storage: LogStorage, variables: ServerVariables, *, changes_files: bool = True
    ) -> None:
        self._stem = stem
        self._storage = storage
        self._changes_files = changes_files
        self._index = LogIndex(stem, storage)
        self._variables = variables
        self._builder = LogBuilder.of(variables, writer_kernel())

    def executed(self) -> LoggedGtids:
        """Return the GTIDs of all existing logs.

        Raises:
            WriterStateError: the last log is in use, or is of the other vendor.
        """
        existing = self._index.existing()
        if not existing:
            return no_gtids(self._variables)
        state = examine(self._storage, existing[-1])
        if state.in_use:
            raise WriterStateError(
                "the last log is in use: a server or another writer has not closed it",
                file=existing[-1],
                hint="write to another directory, or let the writer of the log close or recover it",
            )
        check_vendor(state, self._variables)
        return state.domains if state.is_mariadb else state.executed

    def server_id(self) -> int:
        """Return the server_id of the server of the existing logs; 1 without logs.

        Raises:
            BinlogFormatError: the file that has the identity of the server is damaged.
        """
        stored = stored_identity(self._storage, self._index, is_mariadb=self._variables.is_mariadb)
        return self._variables.server_id_in_effect if stored.server_id is None else stored.server_id

    def is_done(self, batch: BatchNumber) -> bool:
        """Return whether this batch, or a later one, has been written."""
        self._index.open()
        done = self._batches().get(batch.application)
        return done is not None and done["batch"] >= batch.number

    def commit(
        self, segments: Sequence[Segment], *, overwrite: bool, batch: BatchNumber | None = None
    ) -> tuple[str, ...]:
        """Append the segments as logs, or replace all logs by them if `overwrite`; returns their names.

        If it raises, none of the segments is visible.

        Raises:
            BinlogFormatError: tasks are not in order, share a transaction, or have GTIDs that the logs contain.
            OSError: the storage failed.
        """
        self._index.open()
        segments = _in_order(segments)
        old = self._index.existing()
        executed = no_gtids(self._variables) if overwrite else self.executed()
        names = _names_after(old[-1] if old else None, self._stem, len(segments))
        finished: list[str] = []
        for segment, (name, next_name) in zip(segments, pairwise([*names, ""]), strict=True):
            refuse_repeated(executed, segment.gtids)
            created = segment.first_timestamp if name == names[0] else 0
            finished.append(self._finish(segment, executed, created, name, next_name))
            executed = joined_gtids(executed, segment.gtids)
        more = {} if batch is None or not names else {batch.application: {"batch": batch.number, "log": names[-1]}}
        self._write_batches({**self._batches(), **more})

        def place() -> Iterator[str]:
            for staged, name in zip(finished, names, strict=True):
                yield name
                self._storage.rename(staged, name)

        self._index.publish(names, place(), names if overwrite else [*old, *names], old if overwrite else ())
        return names

    # ----------------------------------------------------------------------------------------------- heads and ends

    def _finish(self, segment: Segment, previous: LoggedGtids, created: int, own_name: str, next_name: str) -> str:
        """Write the final head and the end of a segment, and return the name of its file."""
        head = self._builder.head(
            segment.first_timestamp, segment.server_id, previous, created=created, checkpoints=(own_name,)
        )
        size = segment.size - segment.head_size + len(head)
        end = self._builder.end(size, segment.last_timestamp, segment.server_id, next_name)
        if self._changes_files and len(head) == segment.head_size:
            try:
                self._storage.overwrite(segment.name, 0, head)
                self._storage.append(segment.name, end)
                self._storage.sync(segment.name)
            finally:
                self._storage.close(segment.name)
            return segment.name
        name = f"{segment.name}-finished"
        self._storage.create(name)
        try:
            self._storage.append(name, head)
            self._copy(segment, name, len(head))
            self._storage.append(name, end)
            self._storage.sync(name)
        finally:
            self._storage.close(name)
        self._storage.remove(segment.name)
        return name

    def _copy(self, segment: Segment, name: str, offset: int) -> None:
        """Copy the groups of a segment to `offset` of another file."""
        at, size = segment.head_size, WINDOW_SIZE
        while at < segment.size:
            window = bytearray(self._storage.read(segment.name, at, size))
            whole = _whole_events(window)
            if not whole:
                size *= 4
                continue
            del window[whole:]
            if offset != at:
                self._builder.move(window, offset)
            self._storage.append(name, window)
            at, offset, size = at + whole, offset + whole, WINDOW_SIZE

    # -------------------------------------------------------------------------------------------------- the batches

    def _batches(self) -> dict[str, Any]:
        """Return the last batch of each application, except those whose logs were never in the index."""
        last = log_number(self._index.names[-1])[1] if self._index.names else 0
        return {key: done for key, done in self._noted().items() if log_number(done["log"])[1] <= last}

    def _noted(self) -> dict[str, Any]:
        name = self._stem + BATCHES_SUFFIX
        if name not in self._storage.names():
            return {}
        return read_stored(self._storage.read(name), _batches_of, place=name, hint=_WITHOUT_BATCHES)

    def _write_batches(self, batches: dict[str, Any]) -> None:
        """Replace the records. Those of logs that were never in the index go before other logs reuse the numbers."""
        if batches != self._noted():
            replace_file(self._storage, self._stem + BATCHES_SUFFIX, json.dumps(batches, indent=1).encode())
            self._storage.sync_names()


def _batches_of(found: Any) -> dict[str, Any]:
    if not all(isinstance(done["batch"], int) and isinstance(done["log"], str) for done in found.values()):
        raise ValueError("batches: expected a number and a log for each")
    return dict(found)


def _in_order(segments: Iterable[Segment]) -> list[Segment]:
    ordered = sorted(segments, key=lambda segment: segment.first)
    for one, other in pairwise(ordered):
        if other.first <= one.last:
            raise out_of_order(one.last, other.first)
        if other.first_key == one.last_key:
            raise BinlogFormatError(
                "the records of a transaction are split between two tasks",
                file=other.first_key[0][0] or None,
                field="gtid",
                found=other.first_key[1] or f"sequence_number {other.first_key[2]}",
                hint=Hint.RECORD_ORDER,
            )
    return ordered


def _names_after(last: str | None, stem: str, count: int) -> tuple[str, ...]:
    names: list[str] = []
    for _ in range(count):
        last = f"{stem}.000001" if last is None else next_log_name(last)
        names.append(last)
    return tuple(names)


def _whole_events(window: bytearray) -> int:
    """Return the number of bytes of complete events at the start of a window."""
    at = 0
    while at + HEADER_SIZE <= len(window):
        size = int.from_bytes(window[at + EVENT_SIZE_BYTES.start : at + EVENT_SIZE_BYTES.stop], "little")
        if size < HEADER_SIZE or at + size > len(window):
            break
        at += size
    return at
