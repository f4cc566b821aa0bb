"""The views of a log: the columns of each, and the function that reads the batches of a piece.

Column types are Arrow types as Spark expects them.

    rows           one record for each row change: position, time, transaction, table, and the row before and after,
                   as JSON text, or with option `table` as structs of the table's columns
    events         one record for each event: its header as columns, other fields as columns or JSON
    transactions   one record for each event group: position, time, counts of its changes, its statements
    changes        the changes of one table, flat, in the shape that MERGE and Auto CDC flows take
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from binlogio.columnar import EVENT_SCHEMA, TRANSACTION_SCHEMA, EventSelection, read_events, read_transactions
from pyspark_binlogio.spark_types import VARIANT
from pyspark_binlogio.views.changes import CHANGES_FILTERS, changes_batches, changes_columns
from pyspark_binlogio.views.rows import (
    ROW_COLUMNS,
    row_batches,
    typed_row_columns,
    wanted_images,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from binlogio.storage import LogFile
    from pyspark_binlogio.scan.partitions import Piece
    from pyspark_binlogio.scan.request import Request

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


def _row_columns(request: Request, logs: list[LogFile]) -> Columns:
    if request.options.table is None:
        images = {"before": VARIANT, "after": VARIANT} if request.options.image_type == "variant" else {}
        return wanted_images({**ROW_COLUMNS, **images}, request)
    return typed_row_columns(request, logs)


def _events(piece: Piece, request: Request) -> Iterator[pa.RecordBatch]:
    return read_events(piece.log, piece.split, _selection(request), request.keyring)


def _transactions(piece: Piece, request: Request) -> Iterator[pa.RecordBatch]:
    return read_transactions(piece.log, piece.split, _selection(request), request.keyring)


def _selection(request: Request) -> EventSelection:
    options = request.options
    return EventSelection(
        tables=options.wants_table if options.selects_tables else None,
        where=request.where,
        verify_checksum=options.verify_checksum,
        definitions=request.definitions,
    )


_PLACE: Final = {"file": "files", "pos": "pos", "timestamp": "timestamp", "server_id": "server_ids", "gtid": "gtids"}

VIEWS: Final = {
    "rows": View(
        _row_columns, row_batches, {**_PLACE, "schema": "schemas", "table": "tables", "op": "ops"}, frozenset({"gtid"})
    ),
    "events": View(
        _fixed(EVENT_SCHEMA),
        _events,
        {**_PLACE, "schema": "schemas", "table": "tables"},
        frozenset({"gtid", "schema", "table"}),
    ),
    "transactions": View(
        _fixed(TRANSACTION_SCHEMA),
        _transactions,
        _PLACE,
        frozenset({"gtid"}),
    ),
    "changes": View(changes_columns, changes_batches, CHANGES_FILTERS, frozenset({"_gtid"})),
}
