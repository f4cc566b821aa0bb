"""Position table of a SQLite target: a row for each source, and the statements that read and write it.

`sqlite.target` decides when they are executed.

    binlogio_position    source (server id, or a name that the user gives), the place in its log up to which no group is
                         missing (file, offset), ends of groups after it that are there too (done), and what tells
                         the log from others of its name (log)

Earlier versions stored one row without a source, and at first without `log`; `create` converts it.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from binlogio.options import Position
from binlogio.replay.progress import UNKNOWN_LOG, UNKNOWN_SOURCE, KeptLog, Progress, stored_source
from binlogio.replay.targets.sqlite.connection import DAMAGED_HINT
from binlogio.storage.stored_json import is_list_of, read_stored

if TYPE_CHECKING:
    from collections.abc import Iterable

    from binlogio.replay.targets.sqlite.connection import SqliteConnection

_TABLE: Final = "binlogio_position"
_OLD: Final = "binlogio_position_old"
_CREATE: Final = f"""
CREATE TABLE IF NOT EXISTS {_TABLE}
(source TEXT PRIMARY KEY, file TEXT NOT NULL, "offset" INTEGER NOT NULL, done TEXT NOT NULL DEFAULT '[]', log TEXT)
"""
_COLUMNS: Final = f"SELECT name FROM pragma_table_info('{_TABLE}')"  # noqa: S608
READ: Final = f'SELECT source, file, "offset", done, log FROM {_TABLE}'  # noqa: S608
WRITE: Final = f"INSERT OR REPLACE INTO {_TABLE} VALUES (?, ?, ?, ?, ?)"  # noqa: S608
FORGET_UNKNOWN: Final = f"DELETE FROM {_TABLE} WHERE source = '{UNKNOWN_SOURCE}'"  # noqa: S608


def create(connection: SqliteConnection) -> None:
    """Create the table, or convert that of an earlier version.

    Raises:
        SqliteRefusal: SQLite refuses.
    """
    connection.execute(_CREATE)
    columns = {name for (name,) in connection.execute(_COLUMNS).fetchall()}
    if "source" in columns:
        return
    log = "log" if "log" in columns else "NULL"
    connection.execute("BEGIN IMMEDIATE")
    rows = connection.execute(f'SELECT file, "offset", done, {log} FROM {_TABLE}').fetchall()  # noqa: S608
    connection.execute(f"ALTER TABLE {_TABLE} RENAME TO {_OLD}")
    connection.execute(_CREATE)
    for file, offset, done, text in rows:
        connection.execute(WRITE, (stored_source(file, text), file, offset, done, text))
    connection.execute(f"DROP TABLE {_OLD}")
    connection.execute("COMMIT")


def row_of(source: str, low: Position, progress: Progress) -> tuple[str, str, int, str, str]:
    """Return what WRITE takes."""
    return source, low.file, low.offset, json.dumps(sorted(progress.done)), progress.log.to_json()


def progress_of(rows: Iterable[tuple[Any, ...]], source: str | None) -> Progress:
    """Return the progress of a source from the result of READ; without a row, the target has no groups of it.

    Without a source, that of the only row.

    Raises:
        BinlogFormatError: a row is damaged.
    """
    found = {str(row[0]): _progress(row) for row in rows}
    if source is None:
        source = next(iter(found)) if len(found) == 1 else UNKNOWN_SOURCE
    own = found.pop(source, None) or found.pop(UNKNOWN_SOURCE, None) or Progress()
    return replace(own, others=tuple(found.values()))


def _progress(row: tuple[Any, ...]) -> Progress:
    _, file, offset, done, log = row
    kept = UNKNOWN_LOG if log is None else read_stored(log, KeptLog.from_json, place=_TABLE, hint=DAMAGED_HINT)

    def build(ends: Any) -> Progress:
        if not (isinstance(file, str) and isinstance(offset, int) and is_list_of(int, ends)):
            raise ValueError(repr(row))
        return Progress(Position(file, offset), frozenset(ends), kept)

    return read_stored(done, build, place=_TABLE, hint=DAMAGED_HINT)
