"""Delta and Iceberg tables of an export: registers Parquet files that are already written, or merges their rows.

    Delta      DIR/<table>/          one commit per run, with an application transaction (ledger id, run)
    Iceberg    DIR/<table>/data/     one snapshot per run, with the property binlogio.run; SQLite catalog DIR/catalog.db

A run that was registered before its process ended is recognised by its number, and is not registered again.
"""

from __future__ import annotations

import json
import warnings
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from binlogio.archive.export.files import file_name, partition_of
from binlogio.archive.export.type_map import merged_schema, plain_type
from binlogio.dotted_names import split_name
from binlogio.errors import BinlogError, ExportError, MissingPackage
from binlogio.storage.new_file import settle, sync_directory

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyiceberg.catalog import Catalog

    from binlogio.archive.export.ledger import ExportLedger

CATALOG_FILE: Final = "catalog.db"
DELETED: Final = "binlogio deleted"
"""The column of merged files that is true for a deleted key, and false for a row."""
_RUN: Final = "binlogio.run"
_NUMBER: Final = "binlogio number"
_DAYS: Final = {"day": pa.field("day", pa.date32()), "hour": pa.field("hour", pa.int32())}


class DeltaTables:
    """Registers files in Delta tables, one for each source table."""

    def __init__(self, folder: Path) -> None:
        try:
            import deltalake  # noqa: PLC0415 - an extra
        except ImportError as exc:
            raise MissingPackage("Delta tables need the package deltalake", extra="delta") from exc
        self._delta = deltalake
        self._folder = folder

    def schema_of(self, table: str) -> pa.Schema | None:
        """Return the columns of a table without partition columns; None if the table does not exist."""
        with _storage_errors(self._folder / file_name(table)):
            found = self._open(table)
            if found is None:
                return None
            schema = pa.schema(found.schema().to_arrow())
            return pa.schema([one for one in schema if one.name not in found.metadata().partition_columns])

    def register(self, ledger: ExportLedger, files: list[dict[str, Any]]) -> None:
        """Add files to their tables, unless this run is already registered."""
        for table, group in groupby(files, key=lambda one: str(one["table"])):
            with settled(self._folder / file_name(table) / "_delta_log"):
                self._register(ledger, table, list(group))

    def rows_of(self, table: str) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a table.

        By a query of deltalake: use of its pyarrow dataset can abort Python at its end (SIGABRT).
        """
        found, schema = self._open(table), self.schema_of(table)
        if found is None:
            return
        with _storage_errors(self._folder / file_name(table)):
            query = self._delta.QueryBuilder().register("held", found).execute("SELECT * FROM held")
            for batch in pa.RecordBatchReader.from_stream(query):
                yield from pa.Table.from_batches([batch]).cast(schema).to_batches()

    def close(self) -> None:
        """Do nothing: no resource is open between calls."""

    def _open(self, table: str) -> Any:
        path = self._folder / file_name(table)
        return self._delta.DeltaTable(path) if self._delta.DeltaTable.is_deltatable(str(path)) else None

    def _register(self, ledger: ExportLedger, table: str, files: list[dict[str, Any]]) -> None:
        from deltalake.transaction import AddAction  # noqa: PLC0415

        if files[0].get("merge") is not None:
            self._merge(ledger, table, files)
            return
        days = [] if files[0]["day"] is None else [_DAYS[one] for one in partition_of(files[0]["day"])]
        names = [one.name for one in days] or None
        path, found = self._folder / file_name(table), self._open(table)
        schema = _schema_of_files(self._folder, files)
        whole = pa.schema([*schema, *days])
        if found is None:
            found = self._delta.DeltaTable.create(path, schema=self._delta.Schema.from_arrow(whole), partition_by=names)
        elif (found.transaction_version(ledger.id) or 0) >= ledger.run:
            return
        known = pa.schema(found.schema().to_arrow())
        if set(leaves(whole)) - set(leaves(known)):
            self._delta.write_deltalake(found, whole.empty_table(), mode="append", schema_mode="merge")
            found = self._open(table)
        found.create_write_transaction(
            actions=[self._added(AddAction, path, one) for one in files],
            mode="append",
            schema=found.schema(),
            partition_by=names,
            commit_properties=self._commit_of(ledger),
        )

    def _merge(self, ledger: ExportLedger, table: str, files: list[dict[str, Any]]) -> None:
        path, found, merge = self._folder / file_name(table), self._open(table), files[0]["merge"]
        if found is not None and (found.transaction_version(ledger.id) or 0) >= ledger.run:
            return
        changed = _merged_rows(self._folder, files)
        if found is None or merge["clears"]:
            rows = changed.filter(pc.invert(changed.column(DELETED))).drop_columns([DELETED])
            self._delta.write_deltalake(path, rows, mode="overwrite", commit_properties=self._commit_of(ledger))
        else:
            merge_into_delta(found, changed, merge["key"], DELETED, self._commit_of(ledger))

    def _commit_of(self, ledger: ExportLedger) -> Any:
        return self._delta.CommitProperties(app_transactions=[self._delta.Transaction(ledger.id, ledger.run)])

    def _added(self, action: Any, path: Path, file: dict[str, Any]) -> Any:
        whole = self._folder / file["path"]
        found = whole.stat()
        return action(
            str(whole.relative_to(path)),
            found.st_size,
            {} if file["day"] is None else partition_of(file["day"]),
            int(found.st_mtime * 1000),
            True,  # noqa: FBT003 - data_change
            json.dumps({"numRecords": file["rows"]}),
        )


class IcebergTables:
    """Registers files in Iceberg tables, one for each source table.

    Args:
        folder: the directory of the files.
        catalog: the name of a catalog in pyiceberg's configuration; None: a SQLite catalog in the directory.
    """

    def __init__(self, folder: Path, catalog: str | None) -> None:
        try:
            import pyiceberg.catalog.sql  # noqa: F401, PLC0415 - an extra
            from pyiceberg.catalog import load_catalog  # noqa: PLC0415
        except ImportError as exc:
            raise MissingPackage("Iceberg tables need the package pyiceberg", extra="iceberg") from exc
        self._folder = folder.resolve()
        self._name = catalog
        self._file = self._folder / CATALOG_FILE
        self._loaded: Catalog | None = None
        if catalog is not None:
            from pyiceberg.exceptions import NotInstalledError  # noqa: PLC0415

            try:
                self._loaded = load_catalog(catalog)
            except (ValueError, NotInstalledError) as exc:
                raise ExportError("pyiceberg cannot open the catalog", field=catalog, found=str(exc)) from exc

    def schema_of(self, table: str) -> pa.Schema | None:
        """Return the columns of a table; None if the table does not exist."""
        name = split_name(table)
        if self._name is None and not self._file.exists():  # the catalog is created with the first table
            return None
        with _storage_errors(self._folder / file_name(table)):
            if not self._catalog.table_exists(name):
                return None
            return _plain(self._catalog.load_table(name).schema().as_arrow())

    def register(self, ledger: ExportLedger, files: list[dict[str, Any]]) -> None:
        """Add files to their tables, unless this run is already registered."""
        for table, group in groupby(files, key=lambda one: str(one["table"])):
            with settled(self._folder / file_name(table) / "metadata"):
                self._register(ledger, split_name(table), file_name(table), list(group))
        if self._name is None:
            settle(self._file)

    def rows_of(self, table: str) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a table."""
        schema = self.schema_of(table)
        if schema is None:
            return
        with _storage_errors(self._folder / file_name(table)):
            for batch in self._catalog.load_table(split_name(table)).scan().to_arrow_batch_reader():
                yield from pa.Table.from_batches([batch]).cast(schema).to_batches()

    def close(self) -> None:
        """Close the catalog."""
        engine = getattr(self._loaded, "engine", None)
        if engine is not None:
            engine.dispose()

    @property
    def _catalog(self) -> Catalog:
        from pyiceberg.catalog import load_catalog  # noqa: PLC0415

        if self._loaded is None:
            uri = f"sqlite:///{self._file}"
            self._loaded = load_catalog("binlogio", type="sql", uri=uri, warehouse=_place(self._folder))
        return self._loaded

    def _register(self, ledger: ExportLedger, name: tuple[str, ...], folder: str, files: list[dict[str, Any]]) -> None:
        schema = _schema_of_files(self._folder, files)
        merge, run = files[0].get("merge"), f"{ledger.id}:{ledger.run}"
        if merge is not None:
            schema = schema.remove(schema.get_field_index(DELETED))
        if not self._catalog.table_exists(name):
            self._catalog.create_namespace_if_not_exists(name[:-1])
            table = self._catalog.create_table(name, schema=schema, location=_place(self._folder / folder))
            if files[0]["day"] is not None:
                from pyiceberg.transforms import parse_transform  # noqa: PLC0415

                unit = [*partition_of(files[0]["day"])][-1]
                with table.update_spec() as update:
                    update.add_field("timestamp", parse_transform(unit), unit)
        table = self._catalog.load_table(name)
        if any(one.summary is not None and one.summary.additional_properties.get(_RUN) == run
               for one in table.snapshots()):  # fmt: skip
            return
        if merge is not None:
            _merge_into_iceberg(table, _merged_rows(self._folder, files), merge, {_RUN: run})
            return
        if set(leaves(schema)) - set(leaves(_plain(table.schema().as_arrow()))):
            with table.transaction() as transaction, transaction.update_schema() as update:
                update.union_by_name(schema)
            table = self._catalog.load_table(name)
        table.add_files([_place(self._folder / one["path"]) for one in files], snapshot_properties={_RUN: run})


def merge_into_delta(table: Any, changed: pa.Table, key: Sequence[str], deleted: str, commit: Any) -> None:
    """Merge changed rows into a Delta table: those whose column `deleted` is true are deleted, by their keys.

    Args:
        table: a `deltalake.DeltaTable`.
        changed: the rows, each key once.
        key: the columns of the key.
        deleted: the name of a column that the table does not have.
        commit: the `deltalake.CommitProperties`.
    """
    quoted = {name: "`" + name.replace("`", "``") + "`" for name in changed.column_names}
    values = {one: f"source.{one}" for name, one in quoted.items() if name != deleted}
    is_deleted = f"source.{quoted[deleted]}"
    (
        table.merge(
            changed,
            " AND ".join(f"target.{quoted[name]} = source.{quoted[name]}" for name in key),
            source_alias="source",
            target_alias="target",
            merge_schema=True,
            commit_properties=commit,
        )
        .when_matched_delete(is_deleted)
        .when_matched_update(values)
        .when_not_matched_insert(values, f"NOT {is_deleted}")
        .execute()
    )


def _merge_into_iceberg(table: Any, changed: pa.Table, merge: dict[str, Any], properties: dict[str, str]) -> None:
    """Replace the rows between the least and the greatest changed key: pyiceberg has no merge of many keys."""
    from pyiceberg import expressions  # noqa: PLC0415

    made: Any = expressions  # whose types need the plugin of pydantic
    key, where = merge["key"], made.AlwaysTrue()
    for name in key if changed.num_rows else ():
        ends, kinds = pc.min_max(changed.column(name)).as_py(), (made.GreaterThanOrEqual, made.LessThanOrEqual)
        if isinstance(ends["min"], (int, str)):
            least, greatest = (kind(name, end) for kind, end in zip(kinds, ends.values(), strict=True))
            where = made.And(where, made.And(least, greatest))
    rows = changed.filter(pc.invert(changed.column(DELETED))).drop_columns([DELETED])
    if merge["clears"]:
        where = made.AlwaysTrue()
    else:
        held = pa.table(table.scan(row_filter=where).to_arrow()).cast(rows.schema)
        rows = pa.concat_tables([rows_without(held, changed, key), rows])
    with warnings.catch_warnings(), table.transaction() as transaction:
        warnings.filterwarnings("ignore", "Delete operation did not match any records")
        transaction.overwrite(rows.cast(table.schema().as_arrow()), where, properties)


def rows_without(rows: pa.Table, others: pa.Table, key: Sequence[str]) -> pa.Table:
    """Return the rows whose keys are not in another table, in any order."""
    numbered = rows.select(key).append_column(_NUMBER, pa.array(range(rows.num_rows), pa.int64()))
    kept = numbered.join(others.select(key), list(key), join_type="left anti").column(_NUMBER)
    return rows.take(kept.combine_chunks())


def _merged_rows(folder: Path, files: list[dict[str, Any]]) -> pa.Table:
    """Return the changed rows and the deleted keys in files."""
    return pa.concat_tables(
        [pq.ParquetFile(folder / one["path"]).read().replace_schema_metadata() for one in files],
        promote_options="default",
    )


def _place(path: Path) -> str:
    """Return the URI of a file for pyiceberg, which does not decode `%20`."""
    return f"file://{path}"


@contextmanager
def _storage_errors(folder: Path) -> Iterator[None]:
    """Raise the errors of a library that writes to a directory as OSError: each has classes of its own."""
    try:
        yield
    except (OSError, BinlogError):
        raise
    except Exception as exc:
        raise OSError(None, f"{type(exc).__name__}: {exc}".splitlines()[0], str(folder)) from exc


@contextmanager
def settled(folder: Path) -> Iterator[None]:
    """Return a context manager that syncs the files that a library adds to a directory, and sets their permissions."""
    before = set(folder.iterdir()) if folder.is_dir() else None
    with _storage_errors(folder):
        yield
    for path in (*sorted(set(folder.iterdir()).difference(before or ())), *([] if before is not None else [folder])):
        settle(path)
    sync_directory(folder)
    sync_directory(folder.parent)


def _schema_of_files(folder: Path, files: list[dict[str, Any]]) -> pa.Schema:
    """Return the merged columns of all files."""
    schemas = [pq.read_schema(folder / one["path"]).remove_metadata() for one in files]
    return merged_schema(schemas[0], *schemas[1:])


def leaves(schema: pa.Schema) -> list[str]:
    """Return the names of all columns and struct fields, such as `before` and `before.id`."""
    found: list[str] = []

    def add(prefix: str, fields: Any) -> None:
        for one in fields:
            found.append(f"{prefix}{one.name}")
            if pa.types.is_struct(one.type):
                add(f"{prefix}{one.name}.", one.type)

    add("", schema)
    return found


def _plain(schema: pa.Schema) -> pa.Schema:
    """Return an Iceberg schema in the types of the map; Iceberg uses 64-bit offsets for text and bytes."""
    return pa.schema([pa.field(one.name, plain_type(one.type)) for one in schema])
