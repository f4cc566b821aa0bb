"""The data source itself: Spark asks for a schema, for partitions, and for the batches of a partition.

Knows Spark's interface (pyspark.sql.datasource) and how its words become those of binlogio. A partition is a file. Spark pickles the
source and its reader, so neither holds anything that is open.

Imports only what Spark has imported already; the format comes in when something is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from pyspark_binlogio.options import BinlogOptionError, BinlogOptions, nearest

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from binlogio.keyring import Keyring
    from binlogio.storage import LogFile
    from pyspark_binlogio.batches import View


class LogPartition(InputPartition):
    """One log, for one task."""

    def __init__(self, log: LogFile) -> None:
        super().__init__(log.name)
        self.log = log


class BinlogDataSource(DataSource):
    """Binary logs of MySQL and MariaDB: `spark.read.format("binlog").option("view", "rows").load("/var/lib/mysql/binlog.*")`.

    The options are those of `pyspark_binlogio.options`.
    """

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self._parsed = BinlogOptions.parse(options)

    @classmethod
    def name(cls) -> str:
        """What `format()` is given."""
        return "binlog"

    def schema(self) -> str:
        """The columns of the view, as Spark's DDL."""
        return ", ".join(f"`{name}` {kind}" for name, kind in self._view().columns.items())

    def reader(self, schema: StructType) -> DataSourceReader:
        """A reader of the columns of `schema`, which may be some of the view's, in any order.

        Raises:
            BinlogOptionError: a column that the view does not have or has with another type; no path.
            BinlogError: the keyring is none.
            OSError: the keyring cannot be read.
        """
        _check_schema(schema, self._parsed.view, self._view())
        if not self._parsed.paths:
            raise BinlogOptionError('binlog: there is no path; give one as load("/var/lib/mysql/binlog.*")')
        return BinlogBatchReader(self._parsed, tuple(schema.fieldNames()))

    def _view(self) -> View:
        from pyspark_binlogio.batches import VIEWS  # noqa: PLC0415

        return VIEWS[self._parsed.view]


class BinlogBatchReader(DataSourceReader):
    """Reads whole logs once."""

    def __init__(self, options: BinlogOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns
        self._keyring = _load_keyring(options.keyring)

    def partitions(self) -> list[InputPartition]:
        """One for each log that the paths name.

        Raises:
            OSError: a path names nothing, and `ignoreMissingFiles` is not set.
            BinlogError: a URI that nobody can open.
        """
        found = [
            log for path in self._options.paths for log in _find(path, missing_ok=self._options.ignore_missing_files)
        ]
        return [LogPartition(log) for log in found if self._options.wants_file(Path(log.name).name)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The records of one log.

        Raises:
            BinlogError: the log is damaged, or no log; says which file and where in it.
            OSError: it cannot be read.
        """
        from binlogio.options import ReadOptions  # noqa: PLC0415
        from binlogio.reader import BinlogReader  # noqa: PLC0415
        from pyspark_binlogio.batches import VIEWS, record_batches  # noqa: PLC0415

        if not isinstance(partition, LogPartition):
            return  # Spark's own, in the place of none at all
        options = ReadOptions(verify_checksum=self._options.verify_checksum)
        try:
            with BinlogReader([partition.log], options, keyring=self._keyring) as reader:
                yield from record_batches(reader, VIEWS[self._options.view], self._options.tables, self._columns)
        except FileNotFoundError:
            if not self._options.ignore_missing_files:
                raise


def _load_keyring(keyring: str | None) -> Keyring | None:
    if keyring is None:
        return None
    from binlogio.keyring import load_keyring  # noqa: PLC0415

    return load_keyring(keyring)


def _find(path: str, *, missing_ok: bool) -> Iterator[LogFile]:
    """The logs that a path names. Of an index file, each line is looked for by itself, since old logs may be gone."""
    from binlogio.index_file import is_index_file, read_index  # noqa: PLC0415
    from binlogio.storage import find_logs  # noqa: PLC0415

    if not missing_ok:
        yield from find_logs(path)
        return
    try:
        if is_index_file(path) and "://" not in path:
            for name in read_index(Path(path)):
                yield from _find(str(Path(path).parent / name), missing_ok=True)
        else:
            yield from find_logs(path)
    except FileNotFoundError:
        return


def _check_schema(schema: StructType, view_name: str, view: View) -> None:
    for field in schema.fields:
        kind = view.columns.get(field.name)
        if kind is None:
            near = nearest(field.name, tuple(view.columns))
            raise BinlogOptionError(
                f"binlog: view {view_name} has no column {field.name!r}; did you mean {near!r}? It has {', '.join(view.columns)}"
            )
        if field.dataType.simpleString() != kind:
            raise BinlogOptionError(
                f"binlog: view {view_name}: column {field.name}: expected {kind}, found {field.dataType.simpleString()}"
            )
