"""The view `rows`: row changes with JSON images, or with option `table` typed changes of one table.

Converts the record batches of `binlogio.read_rows` to this view. Without a schema of the user, the table's columns
are those of its last change in the newest log that has one. The view `changes` is in `changes`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from binlogio.columnar import DEFAULT_BATCH_ROWS, MIXED_SCHEMA, RowSelection, read_split, split_bounds
from binlogio.format import Split
from pyspark_binlogio.options import BinlogOptionError, nearest
from pyspark_binlogio.scan.damage import tolerant
from pyspark_binlogio.scan.partitions import Piece, evenly
from pyspark_binlogio.spark_types import spark_type

if TYPE_CHECKING:
    import pyarrow as pa

    from binlogio.rows import TablePlan
    from binlogio.schema import DefinitionSource
    from binlogio.storage import LogFile
    from pyspark_binlogio.scan.request import Request

ROW_COLUMNS: Final = {field.name: spark_type(field.type) for field in MIXED_SCHEMA}
"""The columns of the view with JSON images, in types of Spark."""

_PIECE_BYTES: Final = 16 << 20  # of a log in which the last change of a table is searched for
_SHOWN: Final = 20  # of the tables that a message names
_SPARK_BATCH_ROWS: Final = 1 << 13  # Spark is slower with fewer or many more


def typed_row_columns(request: Request, logs: list[LogFile]) -> Mapping[str, pa.DataType]:
    """Return the columns of the view `rows`, with images that are structs of the table's columns."""
    image = image_type(request, logs)
    return wanted_images({**ROW_COLUMNS, "before": image, "after": image}, request)


def wanted_images(columns: Mapping[str, pa.DataType], request: Request) -> Mapping[str, pa.DataType]:
    """Return the columns of the view `rows` without those of an image that is not selected."""
    unwanted = {"both": (), "before": ("after", "after_present"), "after": ("before", "before_present")}
    return {name: kind for name, kind in columns.items() if name not in unwanted[request.options.images]}


def row_batches(
    piece: Piece,
    request: Request,
    *,
    source_columns: tuple[str, ...] = (),
    note_plan: Callable[[TablePlan], None] | None = None,
    all_columns: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Yield the row changes of a piece of a log.

    Args:
        piece: the piece.
        request: the read.
        source_columns: as in `RowSelection`.
        note_plan: as in `RowSelection`.
        all_columns: images have all columns of the table, also where the read selects some.

    Raises:
        BinlogError: the bytes are not a binary log; with file and offset.
    """
    is_typed = request.options.table is not None
    has_images = all_columns or request.has_column("before") or request.has_column("after")
    selection = _selection(request, mixed=has_images and not is_typed)
    selection = replace(selection, source_columns=source_columns, note_plan=note_plan)
    if all_columns or not has_images:
        selection = replace(selection, columns=None if all_columns else ())
    found = read_split(piece.log, piece.split, selection, request.keyring, definitions=_definitions(piece, request))
    for _, batch in found:
        for start in range(0, batch.num_rows, _SPARK_BATCH_ROWS):
            yield batch.slice(start, _SPARK_BATCH_ROWS)


def _definitions(piece: Piece, request: Request) -> DefinitionSource | None:
    """Return the definitions at the beginning of a piece; None if the read does not follow DDL."""
    if request.statements is None:
        return None
    bounds = None if piece.split is None else split_bounds(piece.log, piece.split, request.keyring)
    begin = 0 if bounds is None else bounds.start or 0
    return request.statements.before(piece.log, begin, request.definitions)


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
    )


def image_type(request: Request, logs: list[LogFile]) -> pa.DataType:
    """Return the struct of the table's columns, in types of Spark."""
    seen: dict[str, None] = {}
    selection = _selection(request)

    def wants(schema: str, table: str) -> bool:
        seen[f"{schema}.{table}"] = None
        return selection.wants(schema, table)

    def changes(piece: Piece) -> Iterator[pa.RecordBatch]:
        wanted = replace(selection, wants=wants)
        definitions = _definitions(piece, request)
        found = read_split(piece.log, piece.split, wanted, request.keyring, definitions=definitions)
        return (batch for _, batch in found)

    mode = "DROPMALFORMED" if request.options.mode == "PERMISSIVE" else request.options.mode
    for log in reversed(logs):
        for piece in _from_the_end(log):
            last = deque(tolerant(changes, piece, replace(request.options, mode=mode)), maxlen=1)
            if last:
                return spark_type(last[0].schema.field("after").type)
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
