"""Records of row changes, in the order of a log, to transactions: which records belong together, and whether they are in order.

Knows the columns of the view `rows`. Knows neither tables nor events.

    transaction := run+      same file, gtid and sequence_number; where a record has neither of the two, same file and pos
    run         := record+   same table, operation, bitmaps, server_id and timestamp, one behind the other
    order       := (file by its number, pos, row), every record behind the one before it
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import reduce
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from binlogio.errors import BinlogFormatError
from binlogio.index_file import log_number

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa

IN_ORDER_HINT: Final = "write pyspark_binlogio.in_transaction_order(df, n), which puts the records in order"
_OPS: Final = {"insert": "an insert", "update": "an update", "delete": "a delete"}
_US_PER_S: Final = 1_000_000
_TRANSACTION: Final = ("file", "gtid", "sequence_number")
_RUN: Final = ("schema", "table", "op", "before_present", "after_present", "server_id", "timestamp")

FileKey = tuple[str, int, str]
Place = tuple[FileKey, int, int]
"""Where a record was: its file, pos and row. Places compare as the records do."""

TransactionKey = tuple[FileKey, str | None, int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Changes of one kind to one table. `timestamp` in seconds since 1970; the images are structs or JSON text."""

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
class Transaction:
    """All records of one transaction, in their order. `gtid` as text, None where it has none."""

    key: TransactionKey
    gtid: str | None
    first: Place
    last: Place
    runs: list[Run] = field(default_factory=list)


def transactions(batches: Iterable[pa.RecordBatch]) -> Iterator[Transaction]:
    """The transactions of the records of one task. The batches have all columns of the view.

    Raises:
        BinlogFormatError: the records are not in order, or one says what cannot be.
    """
    pending: Transaction | None = None
    for batch in batches:
        if batch.num_rows == 0:
            continue
        _refuse_nulls(batch)
        for start, stop, first in _runs(batch):
            key, place = _key(batch, start), _place(batch, start)
            if pending is not None and place <= pending.last:
                raise out_of_order(pending.last, place)
            if pending is None or (first and key != pending.key):
                if pending is not None:
                    yield pending
                pending = Transaction(key, _value(batch, "gtid", start), place, place)
            pending.runs.append(_run(batch, start, stop))
            pending.last = _place(batch, stop - 1)
    if pending is not None:
        yield pending


def out_of_order(before: Place, after: Place) -> BinlogFormatError:
    """A record, or a task, that begins where those before it have already been."""
    return BinlogFormatError(
        "the records to write are not in the order of their transactions, or come twice",
        field="file, pos, row",
        expected=f"behind {_shown(before)}",
        found=_shown(after),
        hint=IN_ORDER_HINT,
    )


def _shown(place: Place) -> str:
    (stem, number, more), pos, row = place
    name = f"{stem}.{number:06d}{more}" if number >= 0 else stem
    return f"{name}:{pos}, row {row}"


def _refuse_nulls(batch: pa.RecordBatch) -> None:
    for name in ("op", "pos", "row", "schema", "table", "timestamp", "server_id"):
        if batch.column(name).null_count:
            raise BinlogFormatError("the column of a record to write cannot be null", field=name)


def _runs(batch: pa.RecordBatch) -> Iterator[tuple[int, int, bool]]:
    """Start and stop of each run, and whether a transaction may begin there. Refuses records within a run that are not in order."""
    count = batch.num_rows
    changed = {name: _changes(batch.column(name)) for name in (*_TRANSACTION, *_RUN)}
    has_no_name = np.asarray(batch.column("gtid").is_null()) & np.asarray(batch.column("sequence_number").is_null())
    pos, row = (batch.column(name).to_numpy() for name in ("pos", "row"))
    moved = pos[1:] != pos[:-1]
    begins = reduce(np.logical_or, (changed[name] for name in _TRANSACTION)) | (moved & has_no_name[1:])
    backwards = ~changed["file"] & ((pos[1:] < pos[:-1]) | (~moved & (row[1:] <= row[:-1])))
    if backwards.any():
        at = int(np.flatnonzero(backwards)[0])
        raise out_of_order(_place(batch, at), _place(batch, at + 1))
    breaks = np.flatnonzero(reduce(np.logical_or, (changed[name] for name in _RUN), begins)) + 1
    edges = [0, *breaks.tolist(), count]
    is_first = np.concatenate(([True], begins))
    for start, stop in pairwise(edges):
        yield start, stop, bool(is_first[start])


def _changes(array: pa.Array) -> npt.NDArray[np.bool_]:
    """True at i where the value at i + 1 differs from that at i; null is a value here."""
    codes = np.asarray(array.dictionary_encode(null_encoding="encode").indices)
    return np.asarray(codes[1:] != codes[:-1])


def _value(batch: pa.RecordBatch, name: str, row: int) -> Any:
    return batch.column(name)[row].as_py()


def _place(batch: pa.RecordBatch, row: int) -> Place:
    return log_number(_value(batch, "file", row) or ""), _value(batch, "pos", row), _value(batch, "row", row)


def _key(batch: pa.RecordBatch, row: int) -> TransactionKey:
    gtid, number = _value(batch, "gtid", row), _value(batch, "sequence_number", row)
    if gtid is None and number is None:
        number = -1 - int(_value(batch, "pos", row))  # no sequence_number is below 0
    return log_number(_value(batch, "file", row) or ""), gtid, number


def _run(batch: pa.RecordBatch, start: int, stop: int) -> Run:
    op = _value(batch, "op", start)
    before, after = (batch.column(name).slice(start, stop - start) for name in ("before", "after"))
    if op not in _OPS:
        raise BinlogFormatError("no such operation", field="op", expected=", ".join(_OPS), found=repr(op))
    for name, image, has_image in ("before", before, op != "insert"), ("after", after, op != "delete"):
        if has_image and image.null_count:
            raise BinlogFormatError(f"a record of {_OPS[op]} has no {name} image", field=name)
    return Run(
        schema=_value(batch, "schema", start),
        table=_value(batch, "table", start),
        op=op,
        server_id=_value(batch, "server_id", start),
        timestamp=batch.column("timestamp")[start].value // _US_PER_S,
        before_present=_value(batch, "before_present", start),
        after_present=_value(batch, "after_present", start),
        before=before,
        after=after,
    )
