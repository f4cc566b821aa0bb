"""Records of events and transactions, and columns of the source of rows, by the kernel and by construct."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from binlogio.columnar.event_reader import EventSelection, read_events, read_transactions
from binlogio.columnar.record_types import SOURCE_FIELDS
from binlogio.errors import BinlogError
from binlogio.format.splits import Split
from binlogio.storage.log_file import LogFile
from both_kernels import Said, read_rows_by
from construct_records import SCHEMAS, records_by_construct

if TYPE_CHECKING:
    from pathlib import Path

    from binlogio.storage.keyring import Keyring


EVERYTHING: Final = EventSelection()


READERS: Final = {"events": read_events, "transactions": read_transactions}


def found(
    kind: str,
    log: LogFile,
    split: Split | None = None,
    selection: EventSelection = EVERYTHING,
    keyring: Keyring | None = None,
) -> tuple[list[dict[str, Any]], Said | None]:
    """Return the records of a log, and the error after them."""
    batches: list[pa.RecordBatch] = []
    error = None
    try:
        for batch in READERS[kind](log, split, selection, keyring):
            batch.validate(full=True)
            batches.append(batch)
    except BinlogError as exc:
        error = Said.of(exc)
    assert all(batch.num_rows for batch in batches)
    return _comparable(batches, SCHEMAS[kind]), _without_group(error)


def _comparable(batches: list[pa.RecordBatch], schema: pa.Schema) -> list[dict[str, Any]]:
    """Return records in types of Python; times as numbers, since years after 9999 have no datetime."""
    numbers = pa.schema(
        [pa.field(one.name, pa.int64() if pa.types.is_timestamp(one.type) else one.type) for one in schema]
    )
    records: list[dict[str, Any]] = pa.Table.from_batches(batches, schema).cast(numbers).to_pylist()
    return records


def by_construct(
    kind: str, log: LogFile, *, selection: EventSelection = EVERYTHING, keyring: Keyring | None = None
) -> tuple[list[dict[str, Any]], Said | None]:
    """Return the same by construct."""
    records, error = records_by_construct(kind, log, selection, keyring)
    return records, _without_group(error)


def _without_group(error: Said | None) -> Said | None:
    """Return an error; without its place if a log ends in a group, whose begin the kernel's records do not keep."""
    if error is None or "in the middle of an event group" not in error.text:
        return error
    return replace(error, text=error.text.partition(": at ")[0], offset=None)


def log_of(path: Path) -> LogFile:
    """Return a file as a log."""
    return LogFile(str(path), path.stat().st_size)


NAMES: Final = tuple(one.name for one in SOURCE_FIELDS)


PLACE: Final = ("pos", "row", "gtid")


def sources(
    kernel: str, source: Any, names: tuple[str, ...] = NAMES, **options: Any
) -> tuple[list[tuple[Any, ...]], Said | None]:
    """Return places and source columns of all rows, in the order of the log, and the error after them."""
    found: list[tuple[Any, ...]] = []
    error = None
    try:
        for batch in read_rows_by(kernel, source, source_columns=names, **options):
            batch.validate(full=True)
            columns = [column_of(batch, name) for name in (*PLACE, *names)]
            found += zip(*columns, strict=True)
    except BinlogError as exc:
        error = Said.of(exc)
    return found, error


def column_of(batch: Any, name: str) -> list[Any]:
    column = batch.column(name)
    found: list[Any] = (column.cast("int64") if name == "commit_timestamp" else column).to_pylist()
    return found


def without_ends(found: list[tuple[Any, ...]], error: Said | None) -> list[tuple[Any, ...]]:
    """Return the rows; of a damaged log without XIDs and outcomes, which the kernel finds after the damage."""
    at = len(PLACE) + NAMES.index("xid")
    return found if error is None else [(*row[:at], *row[at + 2 :]) for row in found]
