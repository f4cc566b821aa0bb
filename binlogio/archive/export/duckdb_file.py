"""A DuckDB file as the target of an export: one schema and table per source schema and table, in one transaction.

A new file is created in a temporary directory. The ledger is the table `binlogio_export.ledger`, written in the same
transaction.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from binlogio.archive.export.lakes import leaves
from binlogio.archive.export.ledger import ExportLedger
from binlogio.archive.export.type_map import ExportFormat, merged_schema, plain_type, stored_schema
from binlogio.arrow.conversion import converted_batch
from binlogio.dotted_names import dotted_name, split_name
from binlogio.errors import ExportError, MissingPackage, UnsupportedFeature
from binlogio.storage.new_file import give_name, locked_side, settle

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from binlogio.series import LogProgress

_FLUSH_BYTES: Final = 64 << 20
_LEDGER: Final = "binlogio_export.ledger"


class DuckdbFile:
    """Writes the rows of tables to a DuckDB file.

    Args:
        path: the file.
        is_new: create a new file, which gets its name when it is complete.
        replaced: the file that the new one replaces, open, so that no other process can write to it.

    Raises:
        ExportError: DuckDB cannot open the file.
        WriterStateError: another process creates a file of this name.
        OSError: the file cannot be created.
    """

    def __init__(self, path: Path, *, is_new: bool, replaced: DuckdbFile | None = None) -> None:
        try:
            import duckdb  # noqa: PLC0415 - an extra
        except ImportError as exc:
            raise MissingPackage("DuckDB files need the package duckdb", extra="duckdb") from exc
        self._error = duckdb.Error
        self._path = path
        self._replaced = replaced
        self._side = ExitStack()  # removes the temporary directory
        if replaced is None:
            self._folder = self._side.enter_context(locked_side(path, is_directory=True))
        else:
            self._folder = replaced._folder
        self._open_path = self._folder / "new.duckdb" if is_new else path
        try:
            self._connection = duckdb.connect(str(self._open_path))
            self._connection.execute("SET TimeZone = 'UTC'")
            self._catalog = str(self._connection.execute("SELECT current_database()").fetchall()[0][0])
            self._connection.execute("BEGIN")
        except BaseException as exc:
            self._side.close()
            if not isinstance(exc, duckdb.Error):
                raise
            if is_new:
                raise OSError(None, f"{path}: {_line(exc)}") from exc
            raise ExportError(
                "this exists, and DuckDB cannot open it", file=str(path), found=_line(exc), hint="give a new file"
            ) from exc
        self._schemas: dict[str, pa.Schema] = {}
        self._waiting: dict[str, list[pa.RecordBatch]] = {}
        self._bytes = 0
        self._is_new = is_new

    def ledger(self) -> ExportLedger | None:
        """Return the ledger stored in the file; None if there is none."""
        try:
            found = self._connection.execute(f"SELECT ledger FROM {_LEDGER}").fetchone()  # noqa: S608 - a constant
        except self._error:
            self._connection.execute("ROLLBACK")
            self._connection.execute("BEGIN")
            return None
        return None if found is None else ExportLedger.from_text(found[0], str(self._path))

    def write(self, table: str, batch: pa.RecordBatch) -> None:
        """Add rows of a table (`schema.table`).

        Raises:
            UnsupportedFeature: the columns do not fit those of the table in the file.
            pyarrow.ArrowInvalid: a value does not fit its column.
            OSError: the file cannot be written.
        """
        stored = stored_schema(batch.schema, ExportFormat.DUCKDB)
        known = self._schemas.get(table)
        if known is None:
            known = self._schemas[table] = self._table_schema(table, stored)
        if known != stored:
            merged = merged_schema(known, stored)
            if merged != known:
                self._flush(table)
                self._add_columns(table, known, merged)
                known = self._schemas[table] = merged
        rows = converted_batch(batch, known)
        self._waiting.setdefault(table, []).append(rows)
        self._bytes += rows.get_total_buffer_size()
        if self._bytes >= _FLUSH_BYTES:
            self._flush_all()

    def finish(self, ledger: ExportLedger, logs: Iterable[LogProgress]) -> None:
        """Commit the rows and the ledger.

        Raises:
            OSError: the file cannot be written.
        """
        self._flush_all()
        ledger.run += 1
        ledger.add_logs(logs)
        self._run("CREATE SCHEMA IF NOT EXISTS binlogio_export")
        self._run(f"CREATE OR REPLACE TABLE {_LEDGER} AS SELECT ? AS ledger", [ledger.text])
        self._run("COMMIT")
        self._run("CHECKPOINT")  # close() hides a failed one, which leaves the rows in a second file (.wal)
        self._connection.close()
        settle(self._open_path)
        if self._is_new:
            give_name(self._open_path, self._path, replaces=self._replaced is not None)
        self._close_others()

    def discard(self) -> None:
        """Roll back: the file remains as it was."""
        self._connection.close()
        self._close_others()

    def _close_others(self) -> None:
        if self._replaced is not None:
            self._replaced.discard()
        self._side.close()

    def _run(self, sql: str, values: Any = None) -> Any:
        try:
            return self._connection.execute(sql, values)
        except self._error as exc:
            raise OSError(None, f"{self._path}: {_line(exc)}") from exc

    def _name(self, table: str) -> str:
        """Return the name with its catalog, since a schema may be called as the catalog, or temp."""
        return quoted(self._catalog, *split_name(table))

    def _table_schema(self, table: str, stored: pa.Schema) -> pa.Schema:
        """Return the columns of a table, which is created if missing."""
        schema, name = split_name(table)
        if table.lower() == _LEDGER:
            raise UnsupportedFeature("a table has the name of the export's ledger", found=table)
        alike = self._run(
            "SELECT schema_name, table_name FROM duckdb_tables()"
            " WHERE lower(schema_name) = lower(?) AND lower(table_name) = lower(?)",
            [schema, name],
        ).fetchone()
        if alike is not None and dotted_name(*alike) != table:
            raise UnsupportedFeature(
                "two tables have names that differ only in case, which DuckDB does not tell apart",
                expected=dotted_name(*alike), found=table, hint="select one of them with --table",
            )  # fmt: skip
        empty = stored.empty_table()
        self._run(f"CREATE SCHEMA IF NOT EXISTS {quoted(self._catalog, schema)}")
        self._connection.register("binlogio_rows", empty)
        self._run(f"CREATE TABLE IF NOT EXISTS {self._name(table)} AS SELECT * FROM binlogio_rows")  # noqa: S608
        self._connection.unregister("binlogio_rows")
        found = self._connection.table(self._name(table)).limit(0).to_arrow_table().schema
        return pa.schema([pa.field(one.name, plain_type(one.type)) for one in found])

    def _add_columns(self, table: str, known: pa.Schema, merged: pa.Schema) -> None:
        there = set(leaves(known))
        kinds = {one[0]: one[1] for one in self._described(merged)}
        for one in merged:
            if one.name not in there:
                self._run(f"ALTER TABLE {self._name(table)} ADD COLUMN {quoted(one.name)} {kinds[one.name]}")
            elif pa.types.is_struct(one.type):
                inner = dict(self._described(pa.schema(list(one.type))))
                for field in one.type:
                    if f"{one.name}.{field.name}" not in there:
                        path = quoted(one.name, field.name)
                        self._run(f"ALTER TABLE {self._name(table)} ADD COLUMN {path} {inner[field.name]}")

    def _described(self, schema: pa.Schema) -> list[tuple[str, str]]:
        self._connection.register("binlogio_rows", schema.empty_table())
        found = self._run("DESCRIBE SELECT * FROM binlogio_rows").fetchall()
        self._connection.unregister("binlogio_rows")
        return [(str(one[0]), str(one[1])) for one in found]

    def _flush_all(self) -> None:
        for table in list(self._waiting):
            self._flush(table)
        self._bytes = 0

    def _flush(self, table: str) -> None:
        batches = self._waiting.pop(table, None)
        if not batches:
            return
        self._connection.register("binlogio_rows", pa.Table.from_batches(batches))
        self._run(f"INSERT INTO {self._name(table)} SELECT * FROM binlogio_rows")  # noqa: S608 - quoted
        self._connection.unregister("binlogio_rows")


def quoted(*names: str) -> str:
    """Return an identifier of DuckDB, in parts: catalog, schema, table."""
    return ".".join('"' + name.replace('"', '""') + '"' for name in names)


def _line(exc: Exception) -> str:
    return str(exc).splitlines()[0]
