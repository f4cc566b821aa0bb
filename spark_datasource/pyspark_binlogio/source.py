"""The data source class: Spark asks it for a schema, for readers and for writers.

Implements `pyspark.sql.datasource.DataSource`. Spark pickles the source and its reader, so neither holds open
files. Imports only what Spark has imported already; readers and writers are imported when they are created.
"""

from __future__ import annotations

import errno
from glob import has_magic
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)

from pyspark_binlogio.options import (
    NO_TABLES,
    BinlogOptionError,
    BinlogReadOptions,
    BinlogWriteOptions,
    options_of,
    parse_options,
)
from pyspark_binlogio.pyspark_api import require_pyspark

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from binlogio.schema import DefinitionCatalogue


class BinlogDataSource(DataSource):
    """Binary logs of MySQL and MariaDB: `spark.read.format("binlog").load("/var/lib/mysql/binlog.*")`.

    The options are those of `pyspark_binlogio.options`.
    """

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        require_pyspark()
        self._parsed = parse_options(options)
        self._has_own_schema = False
        self._statements: DefinitionCatalogue | None = None

    @classmethod
    def name(cls) -> str:
        """Return the name for `format()`."""
        return "binlog"

    def schema(self) -> str:
        """Return the columns of the view as DDL; the columns of a table are those of its last change in the logs.

        Raises:
            BinlogOptionError: no path is given; or no log has a change of the table.
            BinlogError: a log that was looked into is damaged.
            OSError: a path matches no file, or a file cannot be read.
        """
        from pyspark_binlogio.read import view_columns  # noqa: PLC0415
        from pyspark_binlogio.spark_types import quoted, spark_ddl  # noqa: PLC0415

        self._has_own_schema = True  # Spark calls this only if the user gives no schema, and keeps the source
        options = options_of(BinlogReadOptions, self._parsed)
        for path in options.paths:
            if not (options.ignore_missing_logs or "://" in path or has_magic(path) or Path(path).exists()):
                raise FileNotFoundError(errno.ENOENT, "no such file or directory", path)
        columns = view_columns(options, self._note)
        return ", ".join(f"{quoted(name)} {spark_ddl(kind)}" for name, kind in columns.items())

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader of the columns of `schema`, which may be some of the view's, in any order.

        Raises:
            BinlogOptionError: a column that the view does not have, or has with another type; no path.
            BinlogError: the keyring is invalid.
            OSError: the keyring cannot be read.
        """
        from pyspark_binlogio.read import BinlogBatchReader  # noqa: PLC0415

        options = self._read_options()
        return BinlogBatchReader(options, schema, has_every_column=self._has_own_schema, statements=self._statements)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Return a reader that follows the logs as they grow; errors as those of `reader`."""
        from pyspark_binlogio.stream import BinlogStreamReader  # noqa: PLC0415

        options = self._read_options()
        return BinlogStreamReader(options, schema, has_every_column=self._has_own_schema, statements=self._statements)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:  # noqa: FBT001 - Spark's signature
        """Return a writer of records of the view `rows` as logs of a directory.

        Raises:
            BinlogOptionError: a column that the view does not have, one that is missing, or an option of a read.
            BinlogError: the last log of the directory is in use.
            OSError: the directory cannot be read.
        """
        from pyspark_binlogio.write import BinlogBatchWriter  # noqa: PLC0415

        return BinlogBatchWriter(self._write_options(), schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: FBT001, N802
        """Return a writer of the batches of a stream; errors as those of `writer`."""
        from pyspark_binlogio.write import BinlogStreamWriter  # noqa: PLC0415

        options = self._write_options()
        if overwrite:
            raise BinlogOptionError("binlog: unsupported output mode; expected append, since logs are only appended to")
        return BinlogStreamWriter(options, schema)

    def _note(self, statements: DefinitionCatalogue | None) -> None:
        """Keep the DDL that `schema` found: Spark pickles the source, and creates the readers from the copy."""
        self._statements = statements

    def _read_options(self) -> BinlogReadOptions:
        options = options_of(BinlogReadOptions, self._parsed)
        options.require_paths()
        return options

    def _write_options(self) -> BinlogWriteOptions:
        options = options_of(BinlogWriteOptions, self._parsed)
        if len(options.paths) != 1:
            raise BinlogOptionError(
                f'binlog: expected exactly one directory to write to, such as save("/var/lib/binlog"). {NO_TABLES}'
            )
        return options
