"""Position table of a server target: its rows, and the statements that read and write them.

`mysql.session` decides when they are executed.

    binlogio_replay.position    rows for each source (server id, or a name that the user gives), one for each worker:
                                up to where no group is missing (low), and its own groups after that (done); all of a
                                file. pending: the end of a group that commits by itself (DDL) and that was begun.
                                log: what tells the file from others of its name.
                                A replay that starts again sets the rows aside: their workers are negative numbers. They
                                are the position until the first commit of the new replay.

Tables of earlier versions have no source, and the first ones no log: `upgrades` adds both.
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from binlogio.options import Position
from binlogio.replay.progress import UNKNOWN_LOG, UNKNOWN_SOURCE, KeptLog, Progress, stored_source
from binlogio.replay.targets.mysql.values import text_literal
from binlogio.storage.stored_json import is_list_of, read_stored

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from collections.abc import Set as AbstractSet

SCHEMA: Final = "binlogio_replay"
MAX_SOURCE: Final = 128  # characters of the name of a source
_TABLE: Final = f"{SCHEMA}.position"
_SOURCE: Final = f"source VARCHAR({MAX_SOURCE}) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT ''"
_CREATE_TABLE: Final = (
    f"CREATE TABLE IF NOT EXISTS {_TABLE} (worker INT NOT NULL,"
    " file VARCHAR(512) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,"
    " low BIGINT UNSIGNED NOT NULL, done LONGTEXT NOT NULL, pending BIGINT UNSIGNED NULL, log LONGTEXT NULL,"
    f" {_SOURCE}, PRIMARY KEY (source, worker)) ENGINE=InnoDB"
)
COLUMNS: Final = (
    "SELECT column_name FROM information_schema.columns"  # noqa: S608
    f" WHERE table_schema = '{SCHEMA}' AND table_name = 'position'"
)
_ADD_LOG: Final = f"ALTER TABLE {_TABLE} ADD COLUMN log LONGTEXT NULL"
_ADD_SOURCE: Final = f"ALTER TABLE {_TABLE} ADD COLUMN {_SOURCE}, DROP PRIMARY KEY, ADD PRIMARY KEY (source, worker)"
CREATE: Final = (f"CREATE DATABASE IF NOT EXISTS {SCHEMA}", _CREATE_TABLE)
_WITHOUT_IT: Final = (
    "restore a copy of the table, or drop it and start the replay after the last transaction that the server has"
)


def read(columns: AbstractSet[str]) -> str:
    """Return the query of the rows of a table that has these columns."""
    log, source = ("log" if "log" in columns else "NULL"), ("source" if "source" in columns else "''")
    return f"SELECT {source}, file, low, done, pending, worker, {log} FROM {_TABLE}"  # noqa: S608


def upgrades(columns: AbstractSet[str]) -> tuple[str, ...]:
    """Return the statements that give the table of an earlier version the columns of this one."""
    added = (("log", _ADD_LOG), ("source", _ADD_SOURCE))
    return tuple(sql for name, sql in added if name not in columns)


def adoptions(rows: Sequence[Sequence[Any]], source: str) -> Iterator[str]:
    """Yield the statements that set the source of rows without one: that of their log, else `source`."""
    for found, file, _, _, _, worker, log in rows:
        if found == UNKNOWN_SOURCE and file:
            owner = stored_source(file, log) or source
            yield (
                f"UPDATE IGNORE {_TABLE} SET source = {text_literal(owner)}"  # noqa: S608
                f" WHERE source = '{UNKNOWN_SOURCE}' AND worker = {int(worker)}"
            )


def set_aside(rows: Sequence[Sequence[Any]], source: str) -> Iterator[str]:
    """Yield the statements that set the position of a source aside, for a replay that starts again."""
    own = f"source = {text_literal(source)}"
    yield f"DELETE FROM {_TABLE} WHERE source = '{UNKNOWN_SOURCE}'"  # noqa: S608
    if any(int(row[5]) >= 0 and row[1] for row in rows if row[0] == source):
        yield f"DELETE FROM {_TABLE} WHERE {own} AND worker < 0"  # noqa: S608
        yield f"UPDATE {_TABLE} SET worker = -1 - worker WHERE {own}"  # noqa: S608


def put_back(rows: Sequence[Sequence[Any]], source: str) -> Iterator[str]:
    """Yield the statements that put a position back that was set aside, or remove it if there is a newer one."""
    own = f"source = {text_literal(source)}"
    if any(int(row[5]) < 0 for row in rows if row[0] == source):
        has_newer = any(int(row[5]) >= 0 and row[1] for row in rows if row[0] == source)
        yield f"DELETE FROM {_TABLE} WHERE {own} AND worker {'<' if has_newer else '>='} 0"  # noqa: S608
        yield f"UPDATE {_TABLE} SET worker = -1 - worker WHERE {own} AND worker < 0"  # noqa: S608


def rows_for(source: str, workers: Iterable[int]) -> str:
    """Return the statement that gives workers their rows."""
    rows = ", ".join(f"({worker}, '', 0, '[]', NULL, NULL, {text_literal(source)})" for worker in workers)
    return f"INSERT IGNORE INTO {_TABLE} (worker, file, low, done, pending, log, source) VALUES {rows}"  # noqa: S608


def begun(source: str, worker: int, start: Position, end: Position, log: KeptLog) -> str:
    """Return the statement that announces a group which commits by itself."""
    return (
        f"UPDATE {_TABLE} SET file = {text_literal(start.file)}, low = {start.offset}, done = '[]',"  # noqa: S608
        f" pending = {end.offset}, log = {_log_literal(log)} WHERE {_of(source, worker)}"
    )


def reached(source: str, worker: int, low: Position, done: Sequence[int], log: KeptLog) -> str:
    """Return the statement that keeps how far a worker is: `done` are ends of its groups after `low`."""
    return (
        f"UPDATE {_TABLE} SET file = {text_literal(low.file)}, low = {low.offset},"  # noqa: S608
        f" done = '{json.dumps(done)}', pending = NULL, log = {_log_literal(log)} WHERE {_of(source, worker)}"
    )


def moved(source: str, worker: int, low: Position) -> str:
    """Return the statement that keeps a later position, after `reached` of the same log without groups after `low`."""
    return f"UPDATE {_TABLE} SET low = {low.offset} WHERE {_of(source, worker)}"  # noqa: S608


def progress_of(
    rows: Sequence[Sequence[Any]], source: str = UNKNOWN_SOURCE, *, restarts: bool = False
) -> tuple[Progress, frozenset[Position], frozenset[int]]:
    """Return what the answer to `read` says of a source.

    Which groups are there, the ends of those that were begun, and which workers have a row. With `restarts`, what was
    set aside does not count.

    Raises:
        BinlogFormatError: the answer is damaged.
    """
    found: dict[str, list[Sequence[Any]]] = {}
    for row in rows:
        owner = str(row[0]) or (stored_source(row[1], row[6]) if row[1] else UNKNOWN_SOURCE)
        found.setdefault(owner, []).append(row)
    own = found.pop(source, [])
    workers = frozenset(int(row[5]) for row in own if row[0] == source and int(row[5]) >= 0)
    own = [row for row in own if int(row[5]) >= 0] if restarts else _valid(own)
    if not any(row[1] for row in own):
        own = found.pop(UNKNOWN_SOURCE, [])
    others = tuple(one for one in (_progress(_valid(found[name])) for name in sorted(found)) if one.low is not None)
    pending = frozenset(Position(row[1], int(row[4])) for row in own if row[1] and row[4] is not None)
    return replace(_progress(own), others=others), pending, workers


def _valid(rows: Sequence[Sequence[Any]]) -> list[Sequence[Any]]:
    """Return the rows of a source without those that were set aside, if there is a newer position."""
    newer = [row for row in rows if int(row[5]) >= 0]
    return newer if any(row[1] for row in newer) else list(rows)


def _progress(rows: Sequence[Sequence[Any]]) -> Progress:
    """Return what the rows of a source say together."""
    return Progress.of(
        Progress(Position(file, int(low)), read_stored(done, _ends, place=_TABLE, hint=_WITHOUT_IT), _log(log))
        for _, file, low, done, _, _, log in rows
        if file
    )


@lru_cache(64)
def _of(source: str, worker: int) -> str:
    return f"source = {text_literal(source)} AND worker = {worker}"


@lru_cache(16)
def _log_literal(log: KeptLog) -> str:
    return text_literal(log.to_json())


def _log(text: str | None) -> KeptLog:
    return UNKNOWN_LOG if text is None else read_stored(text, KeptLog.from_json, place=_TABLE, hint=_WITHOUT_IT)


def _ends(found: Any) -> frozenset[int]:
    if not is_list_of(int, found):
        raise ValueError(f"not a list of ends: {found!r}")
    return frozenset(found)
