"""Position table of a server target: its rows, and the statements that read and write them.

`mysql.session` decides when they are executed.

    binlogio_replay.position    a row for each worker: up to where no group is missing (low), and its own groups after that (done); all of a file.
                                pending: the end of a group that commits by itself (DDL) and that was begun.
                                log: what tells the file from others of its name; tables of earlier versions lack it.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from binlogio.options import Position
from binlogio.replay.progress import UNKNOWN_LOG, KeptLog, Progress
from binlogio.replay.targets.mysql.values import text_literal
from binlogio.storage.stored_json import is_list_of, read_stored

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

SCHEMA: Final = "binlogio_replay"
_TABLE: Final = f"{SCHEMA}.position"
_CREATE_TABLE: Final = (
    f"CREATE TABLE IF NOT EXISTS {_TABLE} (worker INT PRIMARY KEY, file VARCHAR(512) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,"
    " low BIGINT UNSIGNED NOT NULL, done LONGTEXT NOT NULL, pending BIGINT UNSIGNED NULL, log LONGTEXT NULL) ENGINE=InnoDB"
)
COLUMNS: Final = (
    f"SELECT column_name FROM information_schema.columns WHERE table_schema = '{SCHEMA}' AND table_name = 'position'"  # noqa: S608
)
ADD_LOG: Final = f"ALTER TABLE {_TABLE} ADD COLUMN log LONGTEXT NULL"
FORGET: Final = f"UPDATE {_TABLE} SET file = '', low = 0, done = '[]', pending = NULL, log = NULL"  # noqa: S608
CREATE: Final = (f"CREATE DATABASE IF NOT EXISTS {SCHEMA}", _CREATE_TABLE)
_WITHOUT_IT: Final = (
    "restore a copy of the table, or drop it and start the replay after the last transaction that the server has"
)
READ: Final = f"SELECT file, low, done, pending, worker, log FROM {_TABLE}"  # noqa: S608
READ_WITHOUT_LOG: Final = READ.replace(", log ", ", NULL ")


def rows_for(workers: Iterable[int]) -> str:
    """Return the statement that gives workers their rows."""
    rows = ", ".join(f"({worker}, '', 0, '[]', NULL, NULL)" for worker in workers)
    return f"INSERT IGNORE INTO {_TABLE} VALUES {rows}"  # noqa: S608


def begun(worker: int, start: Position, end: Position, log: KeptLog) -> str:
    """Return the statement that announces a group which commits by itself."""
    return (
        f"UPDATE {_TABLE} SET file = {text_literal(start.file)}, low = {start.offset}, done = '[]',"  # noqa: S608
        f" pending = {end.offset}, log = {_log_literal(log)} WHERE worker = {worker}"
    )


def reached(worker: int, low: Position, done: Sequence[int], log: KeptLog) -> str:
    """Return the statement that keeps how far a worker is: `done` are ends of its groups after `low`."""
    return (
        f"UPDATE {_TABLE} SET file = {text_literal(low.file)}, low = {low.offset}, done = '{json.dumps(done)}',"  # noqa: S608
        f" pending = NULL, log = {_log_literal(log)} WHERE worker = {worker}"
    )


def progress_of(rows: Sequence[Sequence[Any]]) -> tuple[Progress, frozenset[Position], frozenset[int]]:
    """What the answer to READ says: which groups are there, the ends of those that were begun, and which workers have a row.

    Raises:
        BinlogFormatError: the answer is damaged.
    """
    known = [(file, int(low), done, pending, log) for file, low, done, pending, _, log in rows if file]
    parts = [
        Progress(Position(file, low), read_stored(done, _ends, place=_TABLE, hint=_WITHOUT_IT), _log(log))
        for file, low, done, _, log in known
    ]
    pending = frozenset(Position(file, int(end)) for file, _, _, end, _ in known if end is not None)
    return Progress.of(parts), pending, frozenset(int(row[4]) for row in rows)


@lru_cache(16)
def _log_literal(log: KeptLog) -> str:
    return text_literal(log.to_json())


def _log(text: str | None) -> KeptLog:
    return UNKNOWN_LOG if text is None else read_stored(text, KeptLog.from_json, place=_TABLE, hint=_WITHOUT_IT)


def _ends(found: Any) -> frozenset[int]:
    if not is_list_of(int, found):
        raise ValueError(f"not a list of ends: {found!r}")
    return frozenset(found)
