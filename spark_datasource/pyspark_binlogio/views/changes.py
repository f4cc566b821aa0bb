"""The view `changes`: one flat record for each change of a row of one table, as MERGE and Auto CDC flows take it.

    record := column* _op _sequence _commit_timestamp _gtid _thread_id _statement _file _pos
    _op       := insert | update | delete
    _sequence := log "." pos "." row "." part     -- digits of fixed width: sorts as text in the order of the logs

The columns have the values after the change; those of a delete are the values before it. The last record of a key, by
`_sequence`, says what the row is. An update that changes the key of a row is therefore two records: a delete of the
row with the old key (part 0), and an insert of that with the new one (part 1). So is each update of a table whose
key the log does not name.

An after image without all columns (binlog_row_image other than FULL) is refused. Columns that an update does not change
are not completed from the before image, since virtual columns are missing in it or in the after image too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from binlogio.errors import BinlogFormatError
from binlogio.storage import log_number
from pyspark_binlogio.options import BinlogOptionError
from pyspark_binlogio.views.rows import image_type, row_batches

if TYPE_CHECKING:
    from binlogio.rows import TablePlan
    from binlogio.storage import LogFile
    from pyspark_binlogio.scan.partitions import Piece
    from pyspark_binlogio.scan.request import Request

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
"""The columns of the view besides those of the table."""

CHANGES_FILTERS: Final = {"_file": "files", "_gtid": "gtids", POS: "pos"}

_SOURCE_COLUMNS: Final = {
    "_commit_timestamp": "commit_timestamp", "_thread_id": "thread_id", "_statement": "statement"
}  # fmt: skip
_LOG_DIGITS, _POS_DIGITS, _ROW_DIGITS = 10, 13, 10
_STATEMENT_BYTES: Final = 4 << 20  # of statements in one batch: each row of a statement has its text
_OPS: Final = pa.array(["insert", "update", "delete"])
_INSERT, _UPDATE, _DELETE = range(3)


def changes_columns(request: Request, logs: list[LogFile]) -> Mapping[str, pa.DataType]:
    """Return the columns of the table, and those of the view.

    Raises:
        BinlogOptionError: the table has a column of the same name as the view.
    """
    image = image_type(request, logs)
    _refuse_own_names(image)
    return {**{field.name: field.type for field in image}, **CHANGES_COLUMNS}


def changes_batches(piece: Piece, request: Request) -> Iterator[pa.RecordBatch]:
    """Yield the row changes of a piece of a log.

    Raises:
        BinlogError: the bytes are not a binary log, or an image lacks columns; with file and offset. The records before
            come first.
    """
    keys: set[tuple[str, ...]] = set()

    def note_key(plan: TablePlan) -> None:
        keys.add(tuple(plan.columns[position].label for position, _ in plan.primary_key))

    wanted = tuple(name for own, name in _SOURCE_COLUMNS.items() if request.has_column(own))
    for batch in row_batches(piece, request, source_columns=wanted, note_plan=note_key, all_columns=True):
        _refuse_own_names(batch.schema.field("after").type)
        is_whole = _is_whole(batch)
        count = batch.num_rows if is_whole.all() else int(is_whole.argmin())
        for part in _of_few_statements(batch.slice(0, count)):
            yield _flat(part, keys)
        if count < batch.num_rows:
            raise _partial_image(batch.slice(count, 1))


def _flat(batch: pa.RecordBatch, keys: set[tuple[str, ...]]) -> pa.RecordBatch:
    """Return the records of a batch of changes; `keys` are those that the table has in the piece."""
    before, after = batch.column("before"), batch.column("after")
    has_before, has_after = (np.asarray(side.is_valid()) for side in (before, after))
    is_update = has_before & has_after
    is_moved = is_update & _key_changes(before, after, keys)
    change = np.repeat(np.arange(batch.num_rows), 1 + is_moved)  # the number of the change of each record
    is_second = np.concatenate(([False], change[1:] == change[:-1])) if len(change) else np.zeros(0, bool)
    is_first = is_moved[change] & ~is_second
    is_delete = ~has_after[change] | is_first
    images = pa.concat_arrays([before, after]).take(pa.array(change + ~is_delete * batch.num_rows))
    op = np.where(is_delete, _DELETE, np.where((is_update & ~is_moved)[change], _UPDATE, _INSERT))
    rows = pa.array(change)
    columns = {
        **dict(zip((field.name for field in images.type), images.flatten(), strict=True)),
        OP: _OPS.take(pa.array(op)),
        "_sequence": _sequences(batch, change, is_second),
        "_gtid": batch.column("gtid").take(rows),
        "_file": batch.column("file").take(rows),
        POS: batch.column("pos").take(rows),
    }
    for own, name in _SOURCE_COLUMNS.items():
        if name in batch.schema.names:
            values = batch.column(name)
            if own == "_commit_timestamp":
                values = pc.coalesce(values, batch.column("timestamp").cast(values.type))
            columns[own] = values.take(rows).cast(CHANGES_COLUMNS[own])
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _key_changes(before: pa.StructArray, after: pa.StructArray, keys: set[tuple[str, ...]]) -> Bits:
    """Return whether the two images of each change have different keys; True if the key is unknown."""
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
    """Return the texts of `_sequence`."""
    digits = np.full((len(change), _LOG_DIGITS + _POS_DIGITS + _ROW_DIGITS + 4), ord("."), np.uint8)
    number = max(0, log_number(batch.column("file")[0].as_py())[1]) if len(change) else 0
    at = 0
    for width, values in (
        (_LOG_DIGITS, np.full(batch.num_rows, number)),
        (_POS_DIGITS, np.asarray(batch.column("pos"))),
        (_ROW_DIGITS, np.asarray(batch.column("row"), np.int64)),
    ):
        powers = 10 ** np.arange(width - 1, -1, -1, dtype=np.int64)
        digits[:, at : at + width] = (values[:, None] // powers % 10 + ord("0"))[change]
        at += width + 1
    digits[:, at] = ord("0") + is_second
    offsets = np.arange(0, digits.size + 1, digits.shape[1], dtype=np.int32)
    return pa.StringArray.from_buffers(len(change), pa.py_buffer(offsets), pa.py_buffer(digits))


def _of_few_statements(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield parts of a batch with a few megabytes of statements each, or with one row."""
    if "statement" not in batch.schema.names:
        yield batch
        return
    statements = batch.column("statement")
    sizes = pc.fill_null(pc.binary_length(statements.dictionary).take(statements.indices), 0)
    part = np.cumsum(np.asarray(sizes, np.int64)) // _STATEMENT_BYTES
    cuts = [0, *(np.flatnonzero(np.diff(part)) + 1).tolist(), batch.num_rows]
    for begin, end in pairwise(cuts):
        yield batch.slice(begin, end - begin)


def _refuse_own_names(image: pa.DataType) -> None:
    own = [field.name for field in image if field.name in CHANGES_COLUMNS]
    if own:
        raise BinlogOptionError(
            f"binlog: view changes: the table has a column {own[0]}, which is also a column of the view itself; "
            "use view rows"
        )
