"""Position table of a SQLite target: its row, and the statements that read and write it.

`sqlite.target` decides when they are executed.

    binlogio_position    the place in a log up to where no group is missing (file, offset), ends of groups after it that are there too (done), and what tells
                         the log from others of its name (log); tables of earlier versions lack the last column
"""

from __future__ import annotations

import json
from typing import Any, Final

from binlogio.options import Position
from binlogio.replay.progress import UNKNOWN_LOG, KeptLog, Progress
from binlogio.replay.targets.sqlite.connection import DAMAGED_HINT
from binlogio.storage.stored_json import is_list_of, read_stored

_TABLE: Final = "binlogio_position"
CREATE: Final = f"""
CREATE TABLE IF NOT EXISTS {_TABLE}
(id INTEGER PRIMARY KEY CHECK (id = 0), file TEXT NOT NULL, "offset" INTEGER NOT NULL, done TEXT NOT NULL DEFAULT '[]', log TEXT)
"""
COLUMNS: Final = f"SELECT name FROM pragma_table_info('{_TABLE}')"  # noqa: S608
ADD_LOG: Final = f"ALTER TABLE {_TABLE} ADD COLUMN log TEXT"
READ: Final = f'SELECT file, "offset", done, log FROM {_TABLE}'  # noqa: S608
WRITE: Final = f"INSERT OR REPLACE INTO {_TABLE} VALUES (0, ?, ?, ?, ?)"  # noqa: S608
FORGET: Final = f"DELETE FROM {_TABLE}"  # noqa: S608


def row_of(low: Position, progress: Progress) -> tuple[str, int, str, str]:
    """What WRITE takes."""
    return low.file, low.offset, json.dumps(sorted(progress.done)), progress.log.to_json()


def progress_of(row: tuple[Any, Any, Any, Any] | None) -> Progress:
    """What the answer to READ says; nothing is there where there is no row.

    Raises:
        BinlogFormatError: the row is damaged.
    """
    if row is None:
        return Progress()
    file, offset, done, log = row
    kept = UNKNOWN_LOG if log is None else read_stored(log, KeptLog.from_json, place=_TABLE, hint=DAMAGED_HINT)

    def build(ends: Any) -> Progress:
        if not (isinstance(file, str) and isinstance(offset, int) and is_list_of(int, ends)):
            raise ValueError(repr(row))
        return Progress(Position(file, offset), frozenset(ends), kept)

    return read_stored(done, build, place=_TABLE, hint=DAMAGED_HINT)
