"""The targets of exports: a directory of files or of tables of a lake, or a DuckDB file, each with its ledger.

The latest state in a lake is continued by merges: a file has the changed rows and the deleted keys of a table
(`TargetDirectory.merges` says which key), and is removed after the merge.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from binlogio.archive.export.duckdb_file import DuckdbFile
from binlogio.archive.export.files import TableFiles
from binlogio.archive.export.lakes import DeltaTables, IcebergTables
from binlogio.archive.export.ledger import ExportLedger, begin_commit, complete, load_ledger
from binlogio.archive.export.parts import PartWriter, located, place_of
from binlogio.archive.export.type_map import ExportFormat
from binlogio.dotted_names import split_name
from binlogio.errors import ExportError, Hint
from binlogio.series.progress import LogProgress
from binlogio.storage.new_file import is_locked, is_side, make_directory, other_writer, remove_side

if TYPE_CHECKING:
    import pyarrow as pa

    from binlogio.archive.export.base import BaseRows
    from binlogio.archive.export.files import NewFile
    from binlogio.columnar.rows_reader import TableBatches


class ExportTarget(Protocol):
    """A target of an export."""

    ledger: ExportLedger

    def write(self, table: str, batch: pa.RecordBatch) -> None:
        """Add rows of a table."""

    def finish(self, logs: Iterable[LogProgress]) -> tuple[str, ...]:
        """Commit all rows, and return the new files."""

    def discard(self) -> None:
        """Discard all rows: the target remains as it was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetSettings:
    """Settings of a target; `ledger` is the ledger of a new target."""

    form: ExportFormat
    by: str | None
    file_bytes: int | None
    compression: str | None
    csv_safe: bool
    catalog: str | None
    append: bool
    replace: bool
    threads: int
    ledger: ExportLedger

    def continued(self, found: ExportLedger | None, path: Path) -> ExportLedger:
        """Return the ledger of an existing target that is continued.

        Raises:
            ExportError: the target is not an export, must not be continued, or was made with other options.
        """
        if found is None:
            raise ExportError("this exists, and is not an export", file=str(path))
        if not self.append:
            raise ExportError("the export exists", file=str(path), hint=Hint.EXPORT_EXISTS)
        if found.options.get("stop_offset") is not None or (found.run and not found.logs):
            raise ExportError(
                "the export cannot be continued",
                file=str(path),
                found="an export of a stream" if found.run and not found.logs else "an export up to a stop position",
                hint=found.new_target,
            )
        for name, new in (("format", self.form.value), *self.ledger.options.items()):
            old = found.form if name == "format" else found.options.get(name)
            if old != new and (name, new) != ("start_offset", None):  # it was for the first log
                raise ExportError(
                    "the export was made with another option, and cannot be continued with this one",
                    file=str(path), field="conditions on events" if name == "where" else name,
                    expected=_option_text(old), found=_option_text(new),
                    hint=("give the options of the first export", *found.new_target),
                )  # fmt: skip
        return found


def _option_text(value: object) -> str:
    if value is None:
        return "none"
    return ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


@contextmanager
def closing_target(target: ExportTarget) -> Iterator[ExportTarget]:
    """Yield a target; discard its rows after an exception."""
    try:
        yield target
    except BaseException:
        target.discard()
        raise


class TargetDirectory:
    """A directory of files, or of Delta or Iceberg tables, as a target."""

    def __init__(
        self,
        folder: Path,
        settings: TargetSettings,
        ledger: ExportLedger,
        lake: DeltaTables | IcebergTables | None,
        lock: int,
    ) -> None:
        self.ledger = ledger
        self._folder = folder
        self._lake = lake
        self._lock = lock
        self._run_before = ledger.run
        self.merges: dict[str, dict[str, Any]] = {}
        self._settings: dict[str, Any] = {
            "form": settings.form,
            "compression": settings.compression,
            "csv_safe": settings.csv_safe,
            "by": settings.by,
            "file_bytes": settings.file_bytes,
        }
        self._files = TableFiles(
            folder,
            used=ledger.used_numbers(),
            known_schema=None if lake is None else lake.schema_of,
            threads=settings.threads,
            **self._settings,
        )

    def write(self, table: str, batch: pa.RecordBatch) -> None:
        """Add rows of a table."""
        with located(table, *place_of(batch)):
            self._files.write(table, batch)

    @property
    def is_merged(self) -> bool:
        """True if the rows of the tables of a lake, which has the latest state, are replaced by new ones."""
        return self._lake is not None and bool(self.ledger.options["latest"]) and self.ledger.run > 0

    def held_rows(self, wants: Callable[[str, str], bool]) -> BaseRows:
        """Return the rows of the tables of a lake, as far as they are selected."""
        lake, tables = self._lake, {*(one.table for one in self.ledger.files), *self.ledger.merged}
        names = sorted(one for one in tables if wants(*split_name(one)))
        return {} if lake is None else {one: partial(lake.rows_of, one) for one in names}

    def part_writer(self, rows_of: TableBatches) -> PartWriter:
        """Return what writes the rows of parts of logs in another process."""
        tables, lake = {one.table for one in self.ledger.files}, self._lake
        found = {} if lake is None else {one: schema for one in tables if (schema := lake.schema_of(one)) is not None}
        schemas = None if lake is None else found
        folder = self._folder.resolve()
        return PartWriter(folder=folder, rows_of=rows_of, settings=self._settings, schemas=schemas)

    def adopt(self, file: NewFile) -> None:
        """Add a file that another process has written."""
        if not (self._folder / file.temporary).exists():
            raise ExportError(
                "a file that another process has written is not there",
                file=str(self._folder / file.temporary),
                hint="give a directory that all processes share, under the same name",
            )
        self._files.adopt(file)

    def finish(self, logs: Iterable[LogProgress]) -> tuple[str, ...]:
        """Commit all rows, and return the new files."""
        files = self._files.finish()
        register = None if self._lake is None else self._lake.register
        try:
            begin_commit(self.ledger, self._folder, files, logs, self.merges)
            complete(self.ledger, self._folder, register)
        except KeyboardInterrupt:
            begun = self._begun()
            if begun is not None:
                complete(begun, self._folder, register)
            raise
        self._remove_sides()
        self._close()
        return tuple(one.path for one in files)

    def discard(self) -> None:
        """Discard all rows. A commit that has begun remains; the next export completes it."""
        if self._begun() is None:
            self._files.discard()
            self._remove_sides()
        self._close()

    def _remove_sides(self) -> None:
        """Remove what other processes have written, and is not committed: such as a part that was written twice."""
        for path in filter(is_side, self._folder.iterdir()):
            remove_side(path)

    def _begun(self) -> ExportLedger | None:
        """Return the stored ledger if it has the commit of this target; None before that."""
        found = load_ledger(self._folder)
        return found if found is not None and found.id == self.ledger.id and found.run > self._run_before else None

    def _close(self) -> None:
        if self._lake is not None:
            self._lake.close()
        os.close(self._lock)


def _is_surrogate(character: str) -> bool:
    """Return True for a surrogate, which is a byte of a file name that is not UTF-8."""
    return "\ud800" <= character <= "\udfff"


def open_directory(folder: Path, settings: TargetSettings) -> TargetDirectory:
    """Open a directory for an export. Temporary files of an interrupted export are deleted.

    Raises:
        ExportError: it exists and is neither continued nor replaced, or was made with other options.
        UnsupportedFeature: a library is missing.
        WriterStateError: another export writes to it.
        OSError: it cannot be created.
    """
    lake: DeltaTables | IcebergTables | None = None
    if settings.form in (ExportFormat.DELTA, ExportFormat.ICEBERG) and any(map(_is_surrogate, str(folder))):
        raise ExportError(
            "the name of the directory is not UTF-8, and tables of this format are found by a URI", file=str(folder)
        )
    if settings.form is ExportFormat.DELTA:
        lake = DeltaTables(folder)
    elif settings.form is ExportFormat.ICEBERG:
        lake = IcebergTables(folder, settings.catalog)
    no_export = ExportError("this exists, and is not an export", file=str(folder), hint="give a new directory")
    if folder.exists() and not folder.is_dir():
        raise no_export
    make_directory(folder)
    lock = os.open(folder, os.O_RDONLY)
    try:
        if not is_locked(lock):
            raise other_writer(folder)
        ledger, found = settings.ledger, load_ledger(folder)  # which another export may have changed until now
        if found is None and not all(map(is_side, folder.iterdir())):
            raise no_export
        if found is not None and settings.replace:
            if lake is not None:
                raise ExportError(
                    "tables of Delta and Iceberg are not replaced", file=str(folder), hint="give a new directory"
                )
            complete(found, folder, None)
            ledger.removed = [one.path for one in found.files]
        elif found is not None:
            ledger = settings.continued(found, folder)
            complete(ledger, folder, None if lake is None else lake.register)
        for path in filter(is_side, folder.iterdir()):
            remove_side(path)
        return TargetDirectory(folder, settings, ledger, lake, lock)
    except BaseException:
        os.close(lock)
        raise


class _DuckdbTarget:
    """A DuckDB file as a target."""

    def __init__(self, file: DuckdbFile, ledger: ExportLedger, path: Path) -> None:
        self.ledger = ledger
        self._file = file
        self._path = path

    def write(self, table: str, batch: pa.RecordBatch) -> None:
        """Add rows of a table."""
        with located(table, *place_of(batch)):
            self._file.write(table, batch)

    def finish(self, logs: Iterable[LogProgress]) -> tuple[str, ...]:
        """Commit all rows, and return the file."""
        self._file.finish(self.ledger, logs)
        return (str(self._path),)

    def discard(self) -> None:
        """Roll back: the file remains as it was."""
        self._file.discard()


def open_duckdb(path: Path, settings: TargetSettings) -> _DuckdbTarget:
    """Open a DuckDB file for an export. Raises the errors of `open_directory`."""
    if path.exists() and not path.is_file():
        raise ExportError("this exists and is not a file", file=str(path), hint="give a new file")
    if not path.parent.exists():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
    path = Path(os.path.realpath(path))
    file = old = DuckdbFile(path, is_new=False) if path.exists() else None
    try:
        ledger = settings.ledger
        if old is not None and not settings.replace:
            ledger = settings.continued(old.ledger(), path)
        elif old is not None and old.ledger() is None:
            raise ExportError("this exists, and is not an export", file=str(path))
        if file is None or settings.replace:
            file = DuckdbFile(path, is_new=True, replaced=old)
    except BaseException:
        if old is not None:
            old.discard()
        raise
    return _DuckdbTarget(file, ledger, path)
