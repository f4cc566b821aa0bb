"""The views of a log: the columns of each, and the function that reads the batches of a piece.

Column types are Arrow types as Spark expects them.

    rows           one record for each row change: position, time, transaction, table, and the row before and after,
                   as JSON text, or with option `table` as structs of the table's columns
    events         one record for each event: its header as columns, other fields as columns or JSON
    transactions   one record for each event group: position, time, counts of its changes, its statements
    changes        the changes of one table, flat, in the shape that MERGE and Auto CDC flows take

`rows` has the record batches of `binlogio.read_rows`. Without a schema of the user, the columns of a table are those of
its last change in the newest log that has one.

`changes` has one record for each change, and two for some updates:

    record := column* _op _sequence _commit_timestamp _gtid _thread_id _statement _file _pos source*
    source    := _end_pos | _xid | _outcome                -- those of option `sourceColumns`
    _op       := insert | update | delete
    _sequence := log "." pos "." row "." part     -- digits of fixed width: sorts as text in the order of the logs

The columns have the values after the change; those of a delete are the values before it. The last record of a key, by
`_sequence`, is the current state of the row. An update that changes the key of a row is therefore two records: a delete
of the row with the old key (part 0), and an insert of the row with the new key (part 1). The same applies to each
update of a table whose key is not in the log. An after image without all columns (binlog_row_image other than FULL) is
refused. Columns that an update does not change are not filled from the before image, since virtual columns may be
missing in both images.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from binlogio.columnar import (
    DEFAULT_BATCH_ROWS,
    EVENT_SCHEMA,
    MIXED_SCHEMA,
    SOURCE_FIELDS,
    TRANSACTION_SCHEMA,
    EventSelection,
    RowSelection,
    definitions_at,
    read_events,
    read_split,
    read_transactions,
    split_bounds,
)
from binlogio.dotted_names import dotted_name
from binlogio.errors import BinlogFormatError
from binlogio.format import GroupPart, Split
from binlogio.storage import log_number
from pyspark_binlogio.options import BinlogOptionError, nearest
from pyspark_binlogio.scan import Piece, evenly, tolerant
from pyspark_binlogio.spark_types import spark_type

if TYPE_CHECKING:
    from binlogio.rows import TablePlan
    from binlogio.schema import DefinitionSource
    from binlogio.schema.statement_changes import StatementChange
    from binlogio.storage import Keyring, LogFile
    from pyspark_binlogio.options import BinlogReadOptions
    from pyspark_binlogio.scan import Request


# ------------------------------------------------------------------------------------------------------------ rows


ROW_COLUMNS: Final = {field.name: spark_type(field.type) for field in MIXED_SCHEMA}
"""The columns of the view with JSON images, in types of Spark."""
SOURCE_TYPES: Final = {
    field.name: pa.string() if pa.types.is_dictionary(field.type) else spark_type(field.type) for field in SOURCE_FIELDS
}
"""The types of the columns of option `sourceColumns`."""

_PIECE_BYTES: Final = 16 << 20  # size of the pieces of a log in which the last change of a table is searched
_SHOWN: Final = 20  # number of tables in a message
_SPARK_BATCH_ROWS: Final = 1 << 13  # rows of a batch for Spark, which is slower with fewer or many more


def row_columns(request: Request, logs: list[LogFile]) -> Mapping[str, pa.DataType]:
    """Return the columns of the view `rows`, without those of an image that is not selected."""
    image = ROW_COLUMNS["after"] if request.options.table is None else image_type(request, logs)
    unwanted = {"both": (), "before": ("after", "after_present"), "after": ("before", "before_present")}
    columns = {**ROW_COLUMNS, "before": image, "after": image}
    columns |= {name: kind for name, kind in SOURCE_TYPES.items() if name in request.options.source_columns}
    return {name: kind for name, kind in columns.items() if name not in unwanted[request.options.images]}


def row_batches(
    piece: Piece,
    request: Request,
    *,
    source_columns: tuple[str, ...] | None = None,
    note_plan: Callable[[TablePlan], None] | None = None,
    all_columns: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Return the row changes of a piece of a log.

    Args:
        piece: the piece.
        request: the read.
        source_columns: as in `RowSelection`; None: those of the options that the read has.
        note_plan: as in `RowSelection`.
        all_columns: images have all columns of the table, also where the read selects some. Batches may be large.

    Raises:
        BinlogError: the bytes are not a binary log; with file and offset.
    """
    is_typed = request.options.table is not None
    if source_columns is None:
        source_columns = tuple(filter(request.has_column, request.options.source_columns))
    has_images = all_columns or request.has_column("before") or request.has_column("after")
    selection = _selection(request, mixed=has_images and not is_typed)
    selection = replace(selection, source_columns=source_columns, note_plan=note_plan, refuses_unnamed=False)
    if all_columns or not has_images:
        selection = replace(selection, columns=None if all_columns else ())
    definitions = definitions_before(piece, request)
    found = read_split(piece.log, piece.split, selection, request.keyring, definitions=definitions)
    if all_columns:
        return (batch for _, batch in found)
    return (part for _, batch in found for part in _of_spark(batch))


def _of_spark(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield the parts of a batch in the size for Spark."""
    for start in range(0, batch.num_rows, _SPARK_BATCH_ROWS):
        yield batch.slice(start, _SPARK_BATCH_ROWS)


def definitions_before(piece: Piece, request: Request) -> DefinitionSource | None:
    """Return the definitions at the beginning of a piece; None if the read does not follow DDL."""
    if request.statements is None:
        return None
    begin = 0
    if isinstance(piece.split, GroupPart):
        begin = piece.split.start
    elif piece.split is not None and (bounds := split_bounds(piece.log, piece.split, request.keyring)) is not None:
        begin = bounds.start or 0
    needs_names = request.options.follow_ddl == "true"
    return definitions_at(
        request.statements, piece.log, begin, request.keyring, request.definitions, needs_names=needs_names
    )


def _selection(request: Request, *, mixed: bool = False) -> RowSelection:
    options, where = request.options, request.where
    return RowSelection(
        wants=lambda schema, table: (
            (not options.selects_tables or options.wants_table(schema, table)) and where.wants_table(schema, table)
        ),
        columns=request.columns if request.columns is not None else options.columns,
        zero_dates=options.zero_dates,
        verify_checksum=options.verify_checksum,
        batch_rows=DEFAULT_BATCH_ROWS,
        where=where,
        definitions=request.definitions,
        mixed=mixed,
        may_lack_columns=request.columns is not None,
        statement_changes=options.statement_changes,
    )


def image_type(request: Request, logs: list[LogFile]) -> pa.DataType:
    """Return the struct of the table's columns, in types of Spark."""
    seen: dict[str, None] = {}
    texts: list[StatementChange] = []
    selection = _selection(request)

    def wants(schema: str, table: str) -> bool:
        seen[dotted_name(schema, table)] = None
        return selection.wants(schema, table)

    def noted(found: StatementChange) -> bool:
        texts.append(found)
        return True

    def changes(piece: Piece) -> Iterator[pa.RecordBatch]:
        wanted = replace(selection, wants=wants, note_statement_change=noted)
        definitions = definitions_before(piece, request)
        found = read_split(piece.log, piece.split, wanted, request.keyring, definitions=definitions)
        return (batch for _, batch in found)

    mode = "DROPMALFORMED" if request.options.mode == "PERMISSIVE" else request.options.mode
    for log in reversed(logs):
        for piece in _from_the_end(log):
            last = deque(tolerant(changes, piece, replace(request.options, mode=mode)), maxlen=1)
            if last:
                return spark_type(last[0].schema.field("after").type)
    if texts and request.options.statement_changes == "error":
        raise texts[-1].error()
    name = request.options.table or ""
    more = f" and {len(seen) - _SHOWN} more" if len(seen) > _SHOWN else ""
    others = f"{', '.join([*seen][:_SHOWN])}{more}"
    there = f"did you mean {nearest(name, tuple(seen))!r}? There are changes of {others}; or " if seen else ""
    raise BinlogOptionError(
        f"binlog: no log has a change of table {name}, so its columns are unknown; {_looked_into(logs)}; {there}"
        "give a schema with .schema(...), or leave out table for images as JSON"
    )


def _from_the_end(log: LogFile) -> Iterator[Piece]:
    """Yield pieces of a log, the last one first: the last change of a table is mostly in the last ones."""
    if not log.size:
        yield Piece(log)
        return
    for split in reversed(list(evenly(log, Split(0, log.size), _PIECE_BYTES))):
        yield Piece(log, split)


def _looked_into(logs: list[LogFile]) -> str:
    if not logs:
        return "there is no log"
    return f"looked into {logs[0].name}" + (f" to {logs[-1].name}" if len(logs) > 1 else "")


# --------------------------------------------------------------------------------------------------------- changes


Numbers = npt.NDArray[np.int64]
Bits = npt.NDArray[np.bool_]

OP: Final = "_op"
POS: Final = "_pos"
CHANGES_COLUMNS: Final = {
    OP: pa.string(),
    "_sequence": pa.string(),
    "_commit_timestamp": pa.timestamp("us", "UTC"),
    "_gtid": pa.string(),
    "_thread_id": pa.int64(),
    "_statement": pa.string(),
    "_file": pa.string(),
    POS: pa.int64(),
}
"""The columns of the view besides those of the table and of option `sourceColumns`."""

CHANGES_FILTERS: Final = {"_file": "files", "_gtid": "gtids", POS: "pos"}

_LOG_DIGITS, _POS_DIGITS, _ROW_DIGITS = 10, 13, 10
_STATEMENT_BYTES: Final = 4 << 20  # bytes of statements in a batch: each row has the text of its statement
_DIGITS: Final = np.frombuffer("".join(f"{one:04}" for one in range(10_000)).encode(), np.uint32)  # 4 digits each
_LEAST_RUN: Final = 16  # rows on average of runs of images that are copied as a whole
_LONG_RUN: Final = 1 << 12  # rows on average of runs of images that are batches of their own
_OPS: Final = ("insert", "update", "delete")
_INSERT, _UPDATE, _DELETE = range(3)


def own_columns(options: BinlogReadOptions) -> Mapping[str, pa.DataType]:
    """Return the columns of the view besides those of the table; a source column has its name after `_`."""
    return {**CHANGES_COLUMNS, **{f"_{name}": SOURCE_TYPES[name] for name in options.source_columns}}


def changes_columns(request: Request, logs: list[LogFile]) -> Mapping[str, pa.DataType]:
    """Return the columns of the table, and those of the view.

    Raises:
        BinlogOptionError: the table has a column of the same name as the view.
    """
    image = image_type(request, logs)
    own = own_columns(request.options)
    _refuse_own_names(image, own)
    return {**{field.name: field.type for field in image}, **own}


def changes_batches(piece: Piece, request: Request) -> Iterator[pa.RecordBatch]:
    """Yield the row changes of a piece of a log.

    Raises:
        BinlogError: the bytes are not a binary log, or an image lacks columns; with file and offset. The records before
            come first.
    """
    keys: set[tuple[str, ...]] = set()

    def note_key(plan: TablePlan) -> None:
        keys.add(tuple(plan.columns[position].label for position, _ in plan.primary_key))

    own = own_columns(request.options)
    wanted = tuple(name for name in SOURCE_TYPES if f"_{name}" in own and request.has_column(f"_{name}"))
    for batch in row_batches(piece, request, source_columns=wanted, note_plan=note_key, all_columns=True):
        _refuse_own_names(batch.schema.field("after").type, own)
        is_whole = _is_whole(batch)
        count = batch.num_rows if is_whole.all() else int(is_whole.argmin())
        for few in _of_few_statements(batch.slice(0, count)):
            for part in _of_one_image(few):
                yield from _of_spark(_flat(part, keys))
        if count < batch.num_rows:
            raise _partial_image(batch.slice(count, 1))


def _flat(batch: pa.RecordBatch, keys: set[tuple[str, ...]]) -> pa.RecordBatch:
    """Return the records of a batch of changes; `keys` are those that the table has in the piece."""
    import pyarrow.compute as pc  # noqa: PLC0415 - planning does not need it

    before, after = batch.column("before"), batch.column("after")
    has_before, has_after = (np.asarray(side.is_valid()) for side in (before, after))
    is_update = has_before & has_after
    is_moved = is_update & _key_changes(before, after, keys) if is_update.any() else is_update
    change = np.repeat(np.arange(batch.num_rows), 1 + is_moved)  # the number of the change of each record
    is_second = np.concatenate(([False], change[1:] == change[:-1])) if len(change) else np.zeros(0, bool)
    is_delete = ~has_after[change] | (is_moved[change] & ~is_second)
    images = _images(before, after, change, is_delete)
    rows = None  # the changes of the records, unless each change is one
    op = batch.column("op")
    if is_moved.any():
        rows = pa.array(change)
        codes = np.where(is_delete, _DELETE, np.where((is_update & ~is_moved)[change], _UPDATE, _INSERT))
        op = pa.array(_OPS).take(pa.array(codes))

    def of(values: pa.Array) -> pa.Array:
        return values if rows is None else values.take(rows)

    columns = {
        **dict(zip((field.name for field in after.type), images, strict=True)),
        OP: op,
        "_sequence": _sequences(batch, change, is_second),
        "_gtid": of(batch.column("gtid")),
        "_file": of(batch.column("file")),
        POS: of(batch.column("pos")),
    }
    for name, kind in SOURCE_TYPES.items():
        if name in batch.schema.names:
            values = batch.column(name)
            if name == "commit_timestamp":
                values = pc.coalesce(values, batch.column("timestamp").cast(values.type))
            columns[f"_{name}"] = of(values).cast(kind)
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _runs(values: Bits, least: int) -> list[tuple[int, int]]:
    """Return begin and end of each run of equal values; empty if they have less than `least` values on average."""
    bounds = np.flatnonzero(values[1:] != values[:-1]) + 1
    few = len(bounds) * least <= len(values) > 0
    return [*pairwise([0, *bounds.tolist(), len(values)])] if few else []


def _of_one_image(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield the long runs of deletes and of other changes in a batch, whose images need no copy; else the batch."""
    for begin, end in _runs(np.asarray(batch.column("after").is_valid()), _LONG_RUN) or [(0, batch.num_rows)]:
        yield batch.slice(begin, end - begin)


def _images(before: pa.StructArray, after: pa.StructArray, change: Numbers, is_delete: Bits) -> list[pa.Array]:
    """Return the columns of the image of each record: that before a delete, that after another change."""
    import pyarrow.compute as pc  # noqa: PLC0415 - planning does not need it

    if len(change) == len(before) and (runs := _runs(is_delete, _LEAST_RUN)):  # no copy of each value
        found = [(before if is_delete[begin] else after).slice(begin, end - begin) for begin, end in runs]
        image = found[0] if len(found) == 1 else pa.concat_arrays([after.slice(0, 0), *found])
    elif len(change) == len(before):
        sides = zip(before.flatten(), after.flatten(), strict=True)
        return [pc.if_else(pa.array(is_delete), old, new) for old, new in sides]
    else:
        image = pa.concat_arrays([before, after]).take(pa.array(change + ~is_delete * len(before)))
    columns: list[pa.Array] = image.flatten()
    return columns


def _key_changes(before: pa.StructArray, after: pa.StructArray, keys: set[tuple[str, ...]]) -> Bits:
    """Return whether the two images of each change have different keys; True if the key is unknown."""
    import pyarrow.compute as pc  # noqa: PLC0415 - planning does not need it

    changed = np.zeros(len(before), bool)
    names = {field.name for field in before.type}
    for key in keys:
        if not key or not names.issuperset(key):
            return np.ones(len(before), bool)
        for name in key:
            old, new = (image.field(image.type.get_field_index(name)) for image in (before, after))
            changed |= np.asarray(pc.fill_null(pc.not_equal(old, new), fill_value=True))
    return changed


def _is_whole(batch: pa.RecordBatch) -> Bits:
    """Return for each change whether its after image has all columns."""
    import pyarrow.compute as pc  # noqa: PLC0415 - planning does not need it

    width = batch.schema.field("after").type.num_fields
    every = pa.scalar(((1 << width) - 1).to_bytes((width + 7) // 8, "little"), pa.binary())
    return np.asarray(pc.fill_null(pc.equal(batch.column("after_present"), every), fill_value=True))


def _partial_image(change: pa.RecordBatch) -> BinlogFormatError:
    present = int.from_bytes(change.column("after_present")[0].as_py(), "little")
    fields = enumerate(change.schema.field("after").type)
    lacking = ", ".join(field.name for number, field in fields if not present >> number & 1)
    return BinlogFormatError(
        "the row image after a change lacks columns, so that view changes has no values for them",
        file=change.column("file")[0].as_py(),
        offset=change.column("pos")[0].as_py(),
        field=f"{change.column('schema')[0]}.{change.column('table')[0]}",
        expected="binlog_row_image=FULL",
        found=f"no value of {lacking}",
        hint="use view rows: replay and merge_into apply its records with images of any kind",
    )


def _sequences(batch: pa.RecordBatch, change: Numbers, is_second: Bits) -> pa.Array:
    """Return the values of the column `_sequence`."""
    number = max(0, log_number(batch.column("file")[0].as_py())[1]) if len(change) else 0
    width = _LOG_DIGITS + _POS_DIGITS + _ROW_DIGITS + 4
    digits = np.empty((batch.num_rows, width), np.uint8)
    digits[:] = np.frombuffer(f"{number:0{_LOG_DIGITS}}.{0:0{_POS_DIGITS}}.{0:0{_ROW_DIGITS}}.0".encode(), np.uint8)
    for place, column in ((width - _ROW_DIGITS - 3, "pos"), (width - 2, "row")):
        values, end = np.asarray(batch.column(column)).astype(np.uint64), place
        while values.any():
            rest, end = values // len(_DIGITS), end - 4  # faster than divmod
            np.ndarray(len(values), np.uint32, digits, end, (width,))[:] = _DIGITS[values - rest * len(_DIGITS)]
            values = rest
    if len(change) != batch.num_rows:
        digits = digits[change]
        digits[:, -1] += is_second
    offsets = np.arange(0, digits.size + 1, width, dtype=np.int32)
    return pa.StringArray.from_buffers(len(change), pa.py_buffer(offsets), pa.py_buffer(digits))


def _of_few_statements(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield parts of a batch with a few megabytes of statements each, or with one row."""
    import pyarrow.compute as pc  # noqa: PLC0415 - planning does not need it

    if "statement" not in batch.schema.names:
        yield batch
        return
    statements = batch.column("statement")
    lengths = pc.binary_length(statements.dictionary)
    if (pc.max(lengths).as_py() or 0) * batch.num_rows <= _STATEMENT_BYTES:
        yield batch
        return
    sizes = pc.fill_null(lengths.take(statements.indices), 0)
    part = np.cumsum(np.asarray(sizes, np.int64)) // _STATEMENT_BYTES
    cuts = [0, *(np.flatnonzero(np.diff(part)) + 1).tolist(), batch.num_rows]
    for begin, end in pairwise(cuts):
        yield batch.slice(begin, end - begin)


def _refuse_own_names(image: pa.DataType, own: Collection[str]) -> None:
    found = [field.name for field in image if field.name in own]
    if found:
        raise BinlogOptionError(
            f"binlog: view changes: the table has a column {found[0]}, which is also a column of the view itself; "
            "use view rows"
        )


# ---------------------------------------------------------------------------------------------- table of the views


Columns = Mapping[str, "pa.DataType"]


@dataclass(frozen=True, slots=True)
class View:
    """A view of a log.

    Args:
        columns: the columns of a read in Arrow's types; reads logs only if they depend on a table.
        batches: the records of a piece.
        filters: the columns whose filters can be pushed down, with their names in `filters.push`.
        nullable: columns that may be null.
    """

    columns: Callable[[Request, list[LogFile]], Columns]
    batches: Callable[[Piece, Request], Iterator[pa.RecordBatch]]
    filters: Mapping[str, str]
    nullable: frozenset[str]

    def never_null(self) -> frozenset[str]:
        """Return the columns that can be filtered and have no nulls."""
        return frozenset(self.filters) - self.nullable


def _fixed(schema: pa.Schema) -> Callable[[Request, list[LogFile]], Columns]:
    return lambda request, logs: dict(zip(schema.names, schema.types, strict=True))


def _of_events(
    read: Callable[[LogFile, Split | None, EventSelection, Keyring | None], Iterator[pa.RecordBatch]],
) -> Callable[[Piece, Request], Iterator[pa.RecordBatch]]:
    """Return a function that reads the records of a piece with the selection of a request."""

    def batches(piece: Piece, request: Request) -> Iterator[pa.RecordBatch]:
        options = request.options
        selection = EventSelection(
            tables=options.wants_table if options.selects_tables else None,
            where=request.where,
            verify_checksum=options.verify_checksum,
            definitions=request.definitions,
        )
        if isinstance(piece.split, GroupPart):
            raise TypeError("only row changes are read in parts of groups")
        return read(piece.log, piece.split, selection, request.keyring)

    return batches


_PLACE: Final = {"file": "files", "pos": "pos", "timestamp": "timestamp", "server_id": "server_ids", "gtid": "gtids"}

VIEWS: Final = {
    "rows": View(
        row_columns, row_batches, {**_PLACE, "schema": "schemas", "table": "tables", "op": "ops"}, frozenset({"gtid"})
    ),
    "events": View(
        _fixed(EVENT_SCHEMA),
        _of_events(read_events),
        {**_PLACE, "schema": "schemas", "table": "tables"},
        frozenset({"gtid", "schema", "table"}),
    ),
    "transactions": View(
        _fixed(TRANSACTION_SCHEMA),
        _of_events(read_transactions),
        _PLACE,
        frozenset({"gtid"}),
    ),
    "changes": View(changes_columns, changes_batches, CHANGES_FILTERS, frozenset({"_gtid"})),
}
