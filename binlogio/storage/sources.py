"""Log sources: resolves what a user names to the logs that it means, in the order of their numbers.

Handles paths, globs, directories, index files, URIs of object stores (`object_store`), file objects, and lists of
these. `log_file` opens the logs.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from glob import glob, has_magic
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from binlogio.errors import BinlogFormatError, UnsupportedFeature
from binlogio.storage.index_file import (
    GTID_INDEX_SUFFIX,
    KEY_INDEX_SUFFIX,
    is_beside_logs,
    is_index_file,
    log_number,
    read_index,
)
from binlogio.storage.log_file import LogFile, begins_like_a_log, choose_logs

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

Source = str | os.PathLike[str] | BinaryIO
"""A source of logs: a path, glob, directory, index file, URI of an object store, `-` (standard input), or open file."""


def find_logs(source: Source | Iterable[Source], *, filesystem: FileSystem | None = None) -> list[LogFile]:
    """Return the files that `source` names, in the order in which they were written.

    A directory gives the binary logs in it, a glob what it matches without the server's own files beside logs, both in
    the order of their numbers; an index file gives its own order; a list is taken in its order. Logs that a server
    purges meanwhile are left out, and so is the GTID index that MariaDB 11 keeps beside a log of the list
    (`binlog.000001.idx`), and ours of keys (`binlog.000001.keys.parquet`), which a shell's `binlog.0*` names as well.

    Raises:
        FileNotFoundError: a path, glob or directory that names no file; an index file that names a log that is not
            there.
        BinlogFormatError: an index file that cannot be one.
        UnsupportedFeature: a named pipe.
    """
    if isinstance(source, (str, os.PathLike)):
        return list(_find(os.fspath(source), filesystem))
    if hasattr(source, "read"):
        stream = cast("BinaryIO", source)
        return [LogFile(str(getattr(stream, "name", "<stream>")), stream=stream)]
    sources = list(source)
    names = {os.fspath(one) for one in sources if isinstance(one, (str, os.PathLike))}
    return [
        log
        for one in sources
        if not (isinstance(one, (str, os.PathLike)) and _is_index_of(names, os.fspath(one)))
        for log in find_logs(one, filesystem=filesystem)
    ]


def _is_index_of(names: AbstractSet[str], name: str) -> bool:
    """Return whether a file is an index (MariaDB's of GTIDs, ours of keys) of a log among `names`."""
    return any(
        name.endswith(suffix) and name.removesuffix(suffix) in names for suffix in (GTID_INDEX_SUFFIX, KEY_INDEX_SUFFIX)
    )


def _find(path: str, filesystem: FileSystem | None) -> Iterator[LogFile]:
    if path == "-":
        yield LogFile("<stdin>", stream=sys.stdin.buffer)
        return
    if filesystem is not None or "://" in path:
        from binlogio.storage.object_store import find_objects  # noqa: PLC0415 - imports pyarrow

        yield from find_objects(path, filesystem)
        return
    local = Path(path)
    if local.is_dir():
        members = [str(entry) for entry in local.iterdir() if entry.is_file()]
        names = choose_logs(members, lambda name: begins_like_a_log(LogFile(name)))
        if not names:
            raise FileNotFoundError(2, "no binary log in this directory", path)
        yield from _still_there(names)
    elif local.is_fifo():
        raise UnsupportedFeature(
            "a pipe cannot be read by its name", file=path, hint="read it as standard input, with -"
        )
    elif has_magic(path) and not local.exists():
        names = [name for name in glob(path) if Path(name).is_file() and not is_beside_logs(name)]
        if not names:
            raise FileNotFoundError(2, "no file matches", path)
        yield from _still_there(names)
    elif is_index_file(path):
        yield from _indexed(local)
    else:
        yield _local(path)


def _indexed(path: Path) -> list[LogFile]:
    """Return the logs of an index file.

    A server takes the name of a log that it purges out of the index first, and removes the file then. So where a file
    is missing, the index is read again: a name that is not in it any more was purged.
    """
    while True:
        logs = []
        missing = None
        for name in read_index(path):
            try:
                logs.append(_indexed_log(path, name))
            except FileNotFoundError:
                missing = name
                break
        if missing is None:
            return logs
        if missing in read_index(path):
            raise FileNotFoundError(2, f"no such file; the index file {path} lists it", str(path.parent / missing))


def _indexed_log(path: Path, name: str) -> LogFile:
    file = path.parent / name
    found = file.stat()
    if not stat.S_ISREG(found.st_mode):
        raise BinlogFormatError("an entry of the index file is not a regular file", file=str(path), found=name)
    return LogFile(str(file), found.st_size)


def _still_there(names: list[str]) -> Iterator[LogFile]:
    """Return the logs that were not purged since they were listed."""
    for name in sorted(names, key=log_number):
        try:
            log = _local(name)
        except FileNotFoundError:
            continue
        yield log


def _local(name: str) -> LogFile:
    return LogFile(name, Path(name).stat().st_size)
