"""The ledger of an export: the logs that it contains, up to which offset, and its files.

    ledger := DIR/binlogio-export.json, or the table binlogio_export.ledger of a DuckDB file

New files are committed in two steps: the ledger that lists them as `pending` is written, then the files are renamed. If
a process ends between the steps, `complete` repeats the second one, so that no row is duplicated or lost.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from binlogio.columnar import LogIdentity
from binlogio.errors import BinlogFormatError
from binlogio.storage.index_file import plain_name
from binlogio.storage.new_file import new_file

if TYPE_CHECKING:
    from binlogio.archive.export.files import NewFile

LEDGER_NAME: Final = "binlogio-export.json"
_VERSION: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldLog:
    """A log that an export contains up to offset `end`, with its identity."""

    name: str
    created: int
    server_id: int
    first_gtid: str | None
    end: int

    @property
    def identity(self) -> LogIdentity:
        """The identity of the log, from its head."""
        return LogIdentity(created=self.created, server_id=self.server_id, first_gtid=self.first_gtid)

    def is_log(self, name: str, identity: LogIdentity) -> bool:
        """Return whether this is the log with this name and identity.

        Directories and compression suffixes are ignored. If the log begins with a GTID, its name is ignored too.
        """
        if self.first_gtid is not None and self.identity == identity:
            return True
        return plain_name(self.name) == plain_name(name) and self.identity.is_same_log(identity)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldFile:
    """A file of an export; `path` is relative to the directory of the export."""

    table: str
    number: int
    rows: int
    path: str
    day: str | None = None


@dataclass(slots=True, kw_only=True)
class ExportLedger:
    """The content of an export, and the options it was made with.

    `run` counts the exports into the target. `id` identifies the target in the transaction logs of Delta and Iceberg
    tables.
    """

    form: str
    options: dict[str, Any]
    id: str = field(default_factory=lambda: secrets.token_hex(8))
    run: int = 0
    logs: list[HeldLog] = field(default_factory=list)
    files: list[HeldFile] = field(default_factory=list)
    pending: list[dict[str, Any]] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    version: int = _VERSION

    @classmethod
    def from_text(cls, text: str, file: str) -> ExportLedger:
        """Parse a ledger.

        Raises:
            BinlogFormatError: the text is not a ledger, or has another version.
        """
        try:
            fields = json.loads(text)
            if fields["version"] != _VERSION:
                raise BinlogFormatError(
                    "the ledger of the export has another version", file=file, expected=_VERSION,
                    found=fields["version"],
                )  # fmt: skip
            logs = [HeldLog(**one) for one in fields.pop("logs")]
            return cls(logs=logs, files=[HeldFile(**one) for one in fields.pop("files")], **fields)
        except (ValueError, KeyError, TypeError) as exc:
            raise BinlogFormatError("this is not the ledger of an export", file=file, found=str(exc)) from exc

    @property
    def text(self) -> str:
        """The ledger as JSON."""
        return json.dumps(asdict(self), indent=1) + "\n"

    def end_of(self, name: str, identity: LogIdentity) -> int:
        """Return the offset up to which the export contains a log; 0 if it does not contain the log."""
        return next((log.end for log in self.logs if log.is_log(name, identity)), 0)

    def add_logs(self, logs: Iterable[HeldLog]) -> None:
        """Add logs, or update the end of logs that are already in the ledger."""
        for new in logs:
            self.logs = [one for one in self.logs if not one.is_log(new.name, new.identity)] + [new]

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
    """
    path = folder / LEDGER_NAME
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        return None
    return ExportLedger.from_text(text, str(path))


def save_ledger(ledger: ExportLedger, folder: Path) -> None:
    """Replace the ledger of a directory atomically.

    Raises:
        OSError: the directory cannot be written.
    """
    with new_file(folder / LEDGER_NAME, replaces=True) as file:
        file.write(ledger.text.encode())


Register = Callable[[ExportLedger, list[dict[str, Any]]], None]
"""Adds renamed files to lake tables; files that are already registered are skipped."""


def begin_commit(ledger: ExportLedger, folder: Path, files: list[NewFile], logs: Iterable[HeldLog]) -> None:
    """Write new files to the ledger as pending. From here on they are part of the export: `complete` must follow.

    Raises:
        OSError: the directory cannot be written.
    """
    ledger.run += 1
    ledger.add_logs(logs)
    ledger.pending = [
        {
            "table": one.table, "number": one.number, "day": one.day, "rows": one.rows,
            "temporary": one.temporary, "path": one.path,
        }
        for one in files
    ]  # fmt: skip
    save_ledger(ledger, folder)


def complete(ledger: ExportLedger, folder: Path, register: Register | None) -> None:
    """Rename the pending files of a ledger, register them, and delete removed files.

    Raises:
        OSError: the directory cannot be written.
    """
    for one in ledger.pending:
        temporary, final = folder / one["temporary"], folder / one["path"]
        final.parent.mkdir(parents=True, exist_ok=True)
        if temporary.exists():
            temporary.replace(final)
    if register is not None and ledger.pending:
        register(ledger, ledger.pending)
    kept = {one["path"] for one in ledger.pending}
    for path in ledger.removed:
        if path not in kept:
            (folder / path).unlink(missing_ok=True)
    ledger.files += [
        HeldFile(table=one["table"], number=one["number"], rows=one["rows"], path=one["path"], day=one["day"])
        for one in ledger.pending
    ]
    ledger.pending, ledger.removed = [], []
    save_ledger(ledger, folder)
