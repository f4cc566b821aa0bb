"""Writes parts of an export in other processes, such as the tasks of Spark.

    export -> (part, PartWriter) -> another process: rows -> files with temporary names -> WrittenPart -> export

`run.export` plans, and commits the files of all parts at once. A part that is written twice has files of other names
each time: only those of one result are committed, and the others are removed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from binlogio.archive.export.files import NewFile, TableFiles
from binlogio.errors import UnsupportedFeature
from binlogio.storage.index_file import unescaped_name

if TYPE_CHECKING:
    from binlogio.columnar.rows_reader import TableBatches
    from binlogio.format.splits import GroupPart, Split
    from binlogio.schema.source import DefinitionSource
    from binlogio.selection.event_filter import Range
    from binlogio.storage.log_file import LogFile

    LogPart = tuple[LogFile, Split | GroupPart | None, Range, DefinitionSource | None]

SeenTable = tuple[str, "str | None", "int | None", pa.Schema]
_LEFT_OUT: Final = ("schema", "table", "last_committed", "sequence_number")


class SeenColumns:
    """Finds the batches from which on a table has other columns than before.

    `found` has table, file, position and Arrow schema of each of them.
    """

    def __init__(self) -> None:
        self.found: list[SeenTable] = []
        self._last: dict[str, pa.Schema] = {}

    def see(self, table: str, batch: pa.RecordBatch) -> bool:
        """Note a batch; return whether its columns are new."""
        if self._last.get(table) == batch.schema:
            return False
        self._last[table] = batch.schema
        self.found.append((table, *place_of(batch), batch.schema))
        return True


def place_of(batch: pa.RecordBatch) -> tuple[str, int] | tuple[None, None]:
    """Return the file and the position of the first row; rows of the latest state have none."""
    if not {"file", "pos", "after_present"}.issubset(batch.schema.names):
        return None, None
    return batch.column("file")[0].as_py(), batch.column("pos")[0].as_py()


def record_columns(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch of `read_tables` with the columns of an export."""
    return batch.select([name for name in batch.schema.names if name not in _LEFT_OUT])


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenPart:
    """The files of a part, the columns of its tables (`SeenColumns.found`), and the last position in each log."""

    files: list[NewFile]
    columns: list[SeenTable]
    last: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartWriter:
    """Writes parts of an export to files with temporary names in its directory; it can be pickled.

    `rows_of` has the selection, `settings` are arguments of `TableFiles`, `schemas` the columns of the tables that the
    target has, if their files need the same ones.
    """

    folder: Path
    rows_of: TableBatches
    settings: dict[str, Any]
    schemas: Mapping[str, pa.Schema] | None

    def write(self, parts: Iterable[LogPart]) -> WrittenPart:
        """Write the rows of parts of logs, each with the positions that are wanted and the definitions before it.

        Raises:
            UnsupportedFeature: a value or a change of columns cannot be stored.
            BinlogError: a log is damaged.
            OSError: a log cannot be read, or a file cannot be written.
        """
        seen, last = SeenColumns(), dict[str, int]()
        known = None if self.schemas is None else self.schemas.get
        files = TableFiles(self.folder, known_schema=known, **self.settings)
        try:
            for log, split, within, definitions in parts:
                for table, rows in self.rows_of.of_part(log, split, within, definitions):
                    batch = record_columns(rows)
                    seen.see(table, batch)
                    last[batch.column("file")[0].as_py()] = pc.max(batch.column("pos")).as_py()
                    with located(table, *place_of(batch)):
                        files.write(table, batch)
            return WrittenPart(files=files.finish(), columns=seen.found, last=last)
        except BaseException:
            files.discard()
            raise


@contextmanager
def located(table: str, file: str | None, offset: int | None) -> Iterator[None]:
    """Add the table and the position of a row to errors about rows that the target cannot store.

    Raises:
        UnsupportedFeature: a value or a change of columns cannot be stored.
    """
    file = None if file is None else unescaped_name(file)
    try:
        yield
    except UnsupportedFeature as exc:
        exc.field = table if exc.field is None else f"{table}, {exc.field}"
        exc.locate(file=file, offset=offset)
        raise
    except pa.ArrowInvalid as exc:
        raise UnsupportedFeature(
            "a value does not fit the type that the column has in the target",
            file=file,
            offset=offset,
            field=table,
            found=str(exc).splitlines()[0],
            hint="an ALTER TABLE has changed the column: export the rows after it to another target",
        ) from exc
