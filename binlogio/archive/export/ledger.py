"""The ledger of an export: the logs that it contains, up to which offset, and its files.

    ledger := DIR/binlogio-export.json, or the table binlogio_export.ledger of a DuckDB file

New files are committed in two steps: the ledger that lists them as `pending` is written, then the files are renamed. If
a process ends between the steps, `complete` repeats the second one, so that no row is duplicated or lost.
"""

from __future__ import annotations

import errno
import json
import re
import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from binlogio.errors import BinlogFormatError, ChangedLogs, Hint
from binlogio.schema.ddl.foreign_keys import Cascade
from binlogio.series import LogMatch, LogProgress
from binlogio.series.gtid_history import ServerGtids
from binlogio.storage.new_file import check_regular, is_side, make_directory, new_file, sync_directory
from binlogio.storage.stored_json import read_stored

if TYPE_CHECKING:
    from binlogio.archive.export.files import NewFile
    from binlogio.errors import HintPart
    from binlogio.series import LogIdentity
    from binlogio.storage import Keyring, LogFile

LEDGER_NAME: Final = "binlogio-export.json"
_VERSION: Final = 2
_VERSION_1: Final = 1
_NAME: Final = r"[A-Za-z0-9_~.-]+"
_DAY: Final = "/day=[0-9-]+(/hour=[0-9]+)?"
_FILE: Final = re.compile(  # as `files.TableFiles` makes them
    rf"(?!\.\.?/){_NAME}((/data|{_DAY})?/[0-9]+\.parquet|({_DAY}/[0-9]+)?\.(parquet|arrow|csv|jsonl))"
)
_DAMAGED_HINT: Final = "restore the ledger from a copy, or export the logs to a new target"


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldFile:
    """A file of an export; `path` is relative to the directory of the export."""

    table: str
    number: int
    rows: int
    path: str
    day: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaChange:
    """A change of the columns of a table, and the position of the first record after it.

    `added` and `dropped` have the types of columns by their names, `changed` the old type and the new one.
    """

    table: str
    file: str
    pos: int
    added: dict[str, str]
    dropped: dict[str, str]
    changed: dict[str, list[str]]


@dataclass(slots=True, kw_only=True)
class ExportLedger:
    """The content of an export, and the options it was made with.

    `tables` are the tables whose state is known, of an export that continues a dump. `cascades` are the foreign keys
    that change rows, of a latest state. `merged` are tables into which rows were merged. `temporary` and
    `prepared` are the `latest.EarlierStatements`. `run` counts the exports into
    the target. `id` identifies the target in the transaction logs of Delta and Iceberg
    tables. `named` are the tables whose columns have names. `gtids` has the GTIDs of the logs (`ServerGtids`).
    `columns` has the names and types of the last columns of each table, `schema_changes` the fields of `SchemaChange`.
    """

    form: str
    options: dict[str, Any]
    id: str = field(default_factory=lambda: secrets.token_hex(8))
    run: int = 0
    logs: list[LogProgress] = field(default_factory=list)
    files: list[HeldFile] = field(default_factory=list)
    pending: list[dict[str, Any]] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    named: list[str] = field(default_factory=list)
    gtids: list[Any] = field(default_factory=list)
    tables: list[str] | None = None
    cascades: list[Any] = field(default_factory=list)
    columns: dict[str, dict[str, str]] = field(default_factory=dict)
    schema_changes: list[dict[str, Any]] = field(default_factory=list)
    merged: list[str] = field(default_factory=list)
    temporary: list[list[str]] = field(default_factory=list)
    prepared: list[str] = field(default_factory=list)
    version: int = _VERSION

    @classmethod
    def from_text(cls, text: str | bytes, file: str) -> ExportLedger:
        """Parse a ledger.

        Raises:
            BinlogFormatError: the text is not a ledger, or has another version.
        """
        return read_stored(text, cls._of, place=file, hint=_DAMAGED_HINT)

    @classmethod
    def _of(cls, fields: Any) -> ExportLedger:
        version = fields["version"]
        if version not in (_VERSION_1, _VERSION):
            raise ValueError(f"the ledger of the export has version {version!r}, expected {_VERSION}")
        if not isinstance(fields["logs"], list):
            raise TypeError("the logs of the ledger are no list")
        logs = [_log_of_version_1(one) if version == _VERSION_1 else one for one in fields.pop("logs")]
        files = [HeldFile(**one) for one in fields.pop("files")]
        ledger = cls(**{**fields, "version": _VERSION}, logs=list(map(LogProgress.from_json, logs)), files=files)
        _check_fields(ledger)
        paths = [*(one.path for one in files), *(one["path"] for one in ledger.pending), *ledger.removed]
        for path in paths:
            if _FILE.fullmatch(path) is None:
                raise ValueError(f"the file {path!r} is not one of an export")
        for temporary in (one["temporary"] for one in ledger.pending):
            if Path(temporary).name != temporary or not is_side(Path(temporary)):
                raise ValueError(f"the file {temporary!r} is not one that an export has begun")
        return ledger

    @property
    def text(self) -> str:
        """The ledger as JSON."""
        fields = asdict(replace(self, logs=[])) | {"logs": [one.to_json() for one in self.logs]}
        return json.dumps(fields, indent=1) + "\n"

    @property
    def new_target(self) -> tuple[HintPart, ...]:
        """The hint to export to another target, or to replace this one, which Delta and Iceberg do not."""
        is_lake = self.form in ("delta", "iceberg")
        return ("export to a new target",) if is_lake else ("export to a new target", Hint.REPLACE_EXPORT)

    def held(self, log: LogFile, identity: LogIdentity, keyring: Keyring | None = None) -> LogProgress | None:
        """Return how far the export contains a log; None if it does not contain it.

        Raises:
            ChangedLogs: the export contains a log with this head, which has other groups.
            OSError, UnsupportedFeature: the log cannot be read.
        """
        held = changed = None  # two entries: one of the empty log, and one of a renamed copy with groups
        for one in self.logs:
            match = one.match(log, identity, keyring)
            if match is LogMatch.SAME and (held is None or one.offset > held.offset):
                held = one
            changed = one if match is LogMatch.CHANGED else changed
        if held is None and changed is not None:
            raise ChangedLogs(
                "the export has a log with the same head and other transactions: one of them is a repaired, filtered or"
                " truncated copy",
                file=log.name,
                offset=changed.offset,
                expected=f"the bytes of {changed.file} before this offset",
                hint=("continue with the log that was exported", *self.new_target),
            )
        return held

    def add_logs(self, logs: Iterable[LogProgress]) -> None:
        """Add logs, or replace the entries of logs that are already in the ledger."""
        for new in logs:
            self.logs = [one for one in self.logs if not one.is_log(new.file, new.identity)] + [new]

    def note_columns(self, table: str, file: str, pos: int, columns: dict[str, str]) -> None:
        """Note the columns of a table from a position on, which are a change if the table had others."""
        old, self.columns[table] = self.columns.get(table, columns), columns
        if old != columns:
            change = SchemaChange(
                table=table,
                file=file,
                pos=pos,
                added={name: kind for name, kind in columns.items() if name not in old},
                dropped={name: kind for name, kind in old.items() if name not in columns},
                changed={name: [old[name], new] for name, new in columns.items() if old.get(name, new) != new},
            )
            if change.added or change.dropped or change.changed:
                self.schema_changes.append(asdict(change))

    def used_numbers(self) -> dict[str, int]:
        """Return the highest part number of each table."""
        found: dict[str, int] = {}
        for one in self.files:
            found[one.table] = max(one.number, found.get(one.table, 0))
        return found


def load_ledger(folder: Path) -> ExportLedger | None:
    """Return the ledger of a directory; None if there is none.

    Raises:
        BinlogFormatError: the file is not a ledger.
        WriterStateError: it is a device or a pipe.
    """
    path = folder / LEDGER_NAME
    check_regular(path)
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return None
    ledger = ExportLedger.from_text(text, str(path))
    paths = [*(one["path"] for one in ledger.pending), *(one.path for one in ledger.files), *ledger.removed]
    for parent in sorted({folder / one for path in paths for one in Path(path).parents[:-1]}):
        if parent.is_symlink():
            raise BinlogFormatError(
                "a directory of the export is a symbolic link, which is not followed",
                file=str(path),
                found=str(parent),
                hint="replace the link by the directory",
            )
    return ledger


def save_ledger(ledger: ExportLedger, folder: Path) -> None:
    """Replace the ledger of a directory atomically.

    Raises:
        OSError: the directory cannot be written.
    """
    with new_file(folder / LEDGER_NAME, replaces=True) as file:
        file.write(ledger.text.encode())


def _log_of_version_1(one: dict[str, Any]) -> dict[str, Any]:
    """Return the entry of a log as this version stores it; version 1 had no fingerprint."""
    return {"file": one["name"], "pos": one["end"], "log": one}


def _check_fields(ledger: ExportLedger) -> None:
    """Check the types of a parsed ledger.

    Raises:
        ValueError, KeyError, TypeError: a field has another one.
    """
    texts: list[Any] = [ledger.form, ledger.id, *ledger.removed, *ledger.named, *ledger.merged, *ledger.prepared]
    texts += ledger.tables or ()
    texts += [name for schema, table in ledger.temporary for name in (schema, table)]
    for columns in ledger.columns.values():
        texts += [*columns.keys(), *columns.values()]
    for change in ledger.schema_changes:
        SchemaChange(**change)
    options: Any = ledger.options
    ServerGtids.from_json(ledger.gtids)
    for one in ledger.cascades:
        cascade_from_json(one)
    is_valid = isinstance(options, dict) and all(isinstance(one, str) for one in texts)
    is_valid &= _is_count(ledger.run)
    for one in (*map(asdict, ledger.files), *ledger.pending):
        is_valid &= isinstance(one["table"], str) and _is_count(one["number"]) and _is_count(one["rows"])
        merge = one.get("merge") or {"key": [], "clears": False}
        is_valid &= isinstance(merge["clears"], bool) and all(isinstance(name, str) for name in merge["key"])
        is_valid &= isinstance(one["path"], str) and (one["day"] is None or isinstance(one["day"], str))
    if not is_valid:
        raise ValueError("a field of the ledger has a value of another type")


def cascade_to_json(cascade: Cascade) -> list[Any]:
    """Return the stored form of a foreign key."""
    actions = cascade.on_delete, cascade.on_update
    return [list(one) for one in (cascade.child, cascade.parent, cascade.columns, actions, cascade.child_columns)]


def cascade_from_json(value: Any) -> Cascade:
    """Parse what `cascade_to_json` returned.

    Raises:
        ValueError, TypeError: it is something else.
    """
    child, parent, columns, (on_delete, on_update), own = ([str(part) for part in one] for one in value)
    names = (child[0], child[1]), (parent[0], parent[1])
    return Cascade(*names, tuple(columns), on_delete, on_update, child_columns=tuple(own))


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


Register = Callable[[ExportLedger, list[dict[str, Any]]], None]
"""Adds renamed files to lake tables; files that are already registered are skipped."""


def begin_commit(
    ledger: ExportLedger,
    folder: Path,
    files: list[NewFile],
    logs: Iterable[LogProgress],
    merges: Mapping[str, dict[str, Any]],
) -> None:
    """Write new files to the ledger as pending. From here on they are part of the export: `complete` must follow.

    `merges` says for tables how their rows are merged: `key`, and `clears` if the table is emptied before.

    Raises:
        OSError: the directory cannot be written.
    """
    ledger.run += 1
    ledger.add_logs(logs)
    ledger.pending = [
        {
            "table": one.table, "number": one.number, "day": one.day, "rows": one.rows,
            "temporary": one.temporary, "path": one.path, "merge": merges.get(one.table),
        }
        for one in files
    ]  # fmt: skip
    sync_directory(folder)  # the names of the new files must be durable before the ledger has them
    save_ledger(ledger, folder)


def complete(ledger: ExportLedger, folder: Path, register: Register | None) -> None:
    """Rename the pending files of a ledger, register them, and delete removed files.

    Raises:
        BinlogFormatError: a pending file is lost.
        OSError: the directory cannot be written.
    """
    for one in ledger.pending:
        temporary, final = folder / one["temporary"], folder / one["path"]
        make_directory(final.parent)
        if temporary.exists():
            if final.exists() and one["path"] not in ledger.removed:
                raise FileExistsError(errno.EEXIST, "a new file of the export has the name of another file", str(final))
            temporary.replace(final)
        elif not final.exists():
            raise BinlogFormatError("a file of the export is missing", file=str(final), hint=_DAMAGED_HINT)
    _sync_parents(folder, (one["path"] for one in ledger.pending))
    if register is not None and ledger.pending:
        register(ledger, ledger.pending)
    kept = {one["path"] for one in ledger.pending}
    for path in ledger.removed:
        if path not in kept:
            (folder / path).unlink(missing_ok=True)
    _sync_parents(folder, ledger.removed)
    ledger.files += [
        HeldFile(table=one["table"], number=one["number"], rows=one["rows"], path=one["path"], day=one["day"])
        for one in ledger.pending
        if one.get("merge") is None
    ]
    merged = [one for one in ledger.pending if one.get("merge") is not None]
    ledger.merged = sorted({*ledger.merged, *(one["table"] for one in merged)})
    ledger.pending, ledger.removed = [], [one["path"] for one in merged]
    save_ledger(ledger, folder)
    for path in ledger.removed:
        (folder / path).unlink(missing_ok=True)


def _sync_parents(folder: Path, paths: Iterable[str]) -> None:
    """Sync the directories of files, before the ledger says that these are there, or gone."""
    for parent in sorted({(folder / path).parent for path in paths}):
        if parent.is_dir():
            sync_directory(parent)
