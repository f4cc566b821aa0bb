"""The table in which a SQLite target keeps how far a replay is, beside the data: one row.

Knows SQL. When it is read and written is `target`'s business.

    binlogio_position    the place in a log up to where no group is missing (file, offset), and ends of groups behind it that are there too (done)
"""

from __future__ import annotations

import json
from typing import Any, Final

from binlogio.options import Position
from binlogio.replay.progress import Progress
from binlogio.replay.targets.sqlite.connection import DAMAGED_HINT
from binlogio.stored_json import is_list_of, read_stored

_TABLE: Final = "binlogio_position"
CREATE: Final = f"""
CREATE TABLE IF NOT EXISTS {_TABLE}
(id INTEGER PRIMARY KEY CHECK (id = 0), file TEXT NOT NULL, "offset" INTEGER NOT NULL, done TEXT NOT NULL DEFAULT '[]')
"""
READ: Final = f'SELECT file, "offset", done FROM {_TABLE}'  # noqa: S608
WRITE: Final = f"INSERT OR REPLACE INTO {_TABLE} VALUES (0, ?, ?, ?)"  # noqa: S608


def row_of(low: Position, done: frozenset[int]) -> tuple[str, int, str]:
    """What WRITE takes."""
    return low.file, low.offset, json.dumps(sorted(done))


def progress_of(row: tuple[Any, Any, Any] | None) -> Progress:
    """What the answer to READ says; nothing is there where there is no row.

    Raises:
        BinlogFormatError: the row is damaged.
    """
    if row is None:
        return Progress()
    file, offset, done = row

    def build(ends: Any) -> Progress:
        if not (isinstance(file, str) and isinstance(offset, int) and is_list_of(int, ends)):
            raise ValueError(repr(row))
        return Progress(Position(file, offset), frozenset(ends))

    return read_stored(done, build, place=_TABLE, hint=DAMAGED_HINT)
