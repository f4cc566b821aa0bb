"""Log sources: finds the logs of a path, glob, directory, index file, URI, file object, or of a list of these.

`object_store` finds logs of URIs, `log_file` opens logs, `binlogio.series.growing_log` follows a log that grows.
"""

from __future__ import annotations

import errno
import io
import os
import stat
import sys
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from contextlib import suppress
from glob import glob, has_magic
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from binlogio.errors import BinlogFormatError, UnsupportedFeature
from binlogio.storage.index_file import (
    AUTO_CNF_SUFFIX,
    GTID_INDEX_SUFFIX,
    INDEX_SUFFIX,
    KEY_INDEX_SUFFIX,
    is_beside_logs,
    is_index_file,
    is_since,
    log_number,
    read_index,
)
from binlogio.storage.log_file import LogFile, begins_like_a_log, choose_logs
from binlogio.storage.log_index import unpublished
from binlogio.storage.log_storage import CRASH_SAFE_SUFFIX
from binlogio.storage.new_file import is_side

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

Source = str | os.PathLike[str] | BinaryIO
"""A source of logs: a path, glob, directory, index file, URI of an object store, `-` (standard input) or open file."""


def find_logs(
    source: Source | Iterable[Source],
    *,
    filesystem: FileSystem | None = None,
    missing_ok: bool = False,
    since: str | None = None,
) -> list[LogFile]:
    """Return the logs of `source`, in the order in which they were written.

    A directory stands for its binary logs, a glob for the matching files except other files of the server; both are
    sorted by number. A symbolic link to another log of the same directory is omitted. An index file and a list keep
    their order. Logs that a server purges meanwhile are omitted, and so are logs that another command has not published
    yet (`binlogio.storage.log_index`). Of the series of a log `since`, a name without a directory, those with lower
    numbers are omitted, and not examined.

    The shell pattern `binlog.0*` also matches the GTID indexes of MariaDB 11 (`binlog.000001.idx`) and the key indexes
    of binlogio (`binlog.000001.keys.parquet`); in a list, they are omitted if their log is in the list. The pattern
    `binlog.*` also matches the index file and `binlog.auto.cnf`; in a list, an index file adds only logs that are not
    in the list, and `binlog.auto.cnf` is omitted beside it.

    Raises:
        FileNotFoundError: there is no such file, a log of an index file or the target of a symbolic link is missing, or
            an index file lists no log and no other log is given; unless `missing_ok`.
        BinlogFormatError: an index file is damaged; or a command that overwrites logs of a directory was stopped.
        UnsupportedFeature: the path is a named pipe.
    """
    if not isinstance(source, (str, os.PathLike)) and not hasattr(source, "read"):
        given: object = source
        if not isinstance(given, Iterable) or isinstance(given, bytes):
            raise UnsupportedFeature("a path, an open file or a list of these is needed", found=repr(given))
        source = list(source)
        if not source and not missing_ok:
            raise FileNotFoundError(2, "the list of logs is empty", "")
    found = _logs_of(source, filesystem, missing_ok=missing_ok, since=since)
    if isinstance(source, (str, os.PathLike)) and [log.name for log in found] == [os.fspath(source)]:
        return found  # the caller has named this file
    folders = {os.path.dirname(log.name) for log in found if log.stream is None and log.filesystem is None}
    hidden = {os.path.join(folder, name) for folder in folders for name in unpublished(Path(folder))}
    logs = [log for log in found if log.name not in hidden]
    if found and not logs and not missing_ok:
        reason = "no published log: a command that writes logs there is running, or was stopped (run it again)"
        raise FileNotFoundError(2, reason, os.path.dirname(found[0].name))
    if not logs and not missing_ok:
        for one in source if isinstance(source, list) else [source]:
            if isinstance(one, (str, os.PathLike)) and is_index_file(one):
                raise no_log_in_index(os.fspath(one))
    return logs


def no_log_in_index(path: str) -> FileNotFoundError:
    """Return the error for an index file without logs."""
    return FileNotFoundError(2, "the index file lists no log", path)


def find_logs_below(folder: str, *, missing_ok: bool = False) -> Iterator[LogFile]:
    """Yield the logs of a directory, or of a URI, and of the directories below it, sorted by directory.

    Raises:
        FileNotFoundError: there is no such directory; unless `missing_ok`.
        UnsupportedFeature: the URI is not supported.
    """
    if "://" not in folder:
        if not missing_ok and not os.path.isdir(folder):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), folder)
        for one in sorted(path for path, _, files in os.walk(folder) if files and not is_side(Path(path))):
            yield from find_logs(one, missing_ok=True)
        return
    from binlogio.storage.object_store import find_objects_below  # noqa: PLC0415 - imports pyarrow

    with suppress(*[FileNotFoundError] if missing_ok else []):
        yield from find_objects_below(folder)


def _logs_of(
    source: Source | Iterable[Source],
    filesystem: FileSystem | None,
    *,
    missing_ok: bool = False,
    since: str | None = None,
) -> list[LogFile]:
    if isinstance(source, (str, os.PathLike)):
        try:
            return list(_find(os.fspath(source), filesystem, missing_ok=missing_ok, since=since))
        except FileNotFoundError as exc:
            is_link = exc.filename not in (None, os.fspath(source)) and os.path.islink(exc.filename)
            if is_link or not missing_ok:  # a link in a directory must not hide its other logs
                raise
            return []
    if hasattr(source, "read"):
        if isinstance(source, io.TextIOBase):
            raise UnsupportedFeature("the file is open as text", found=repr(source), hint="open it with mode 'rb'")
        stream = cast("BinaryIO", source)
        return [LogFile(str(getattr(stream, "name", "<stream>")), stream=stream)]
    sources = list(source)
    names = {os.fspath(one) for one in sources if isinstance(one, (str, os.PathLike))}
    logs: list[LogFile] = []
    for one in sources:
        name = os.fspath(one) if isinstance(one, (str, os.PathLike)) else ""
        if _belongs_to(names, name):
            continue
        found = _logs_of(one, filesystem, missing_ok=missing_ok, since=since)
        if is_index_file(name):
            places = {os.path.realpath(other) for other in names}
            found = [log for log in found if os.path.realpath(log.name) not in places]
        logs += found
    return logs


def _belongs_to(names: AbstractSet[str], name: str) -> bool:
    """Return whether a file belongs to a file in `names`: the GTID or key index of a log, or auto.cnf of a series."""
    owners = {GTID_INDEX_SUFFIX: "", KEY_INDEX_SUFFIX: "", AUTO_CNF_SUFFIX: INDEX_SUFFIX}
    return any(name.endswith(end) and name.removesuffix(end) + more in names for end, more in owners.items())


def _find(path: str, filesystem: FileSystem | None, *, missing_ok: bool, since: str | None) -> Iterator[LogFile]:
    if path == "-":
        if sys.stdin.isatty():
            raise UnsupportedFeature("standard input is a terminal", expected="a log, as in `binlogio dump - < LOG`")
        yield LogFile("<stdin>", stream=sys.stdin.buffer)
        return
    if filesystem is not None or "://" in path:
        from binlogio.storage.object_store import find_objects  # noqa: PLC0415 - imports pyarrow

        yield from find_objects(path, filesystem, since)
        return
    if not path:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)  # Path("") is the current directory
    local = Path(path)
    if local.is_dir():
        names = _names_in(local, since)
        if not names:
            raise FileNotFoundError(2, "no binary log in this directory", path)
        yield from _still_there(names)
    elif local.is_fifo():
        raise UnsupportedFeature(
            "a pipe cannot be read by its name", file=path, hint="read it as standard input, with -"
        )
    elif has_magic(path) and not local.exists():
        found = (name for name in glob(path) if is_since(name, since) and not is_beside_logs(name))
        names = [name for name in found if Path(name).is_file()]
        if not names:
            raise FileNotFoundError(2, "no file matches", path)
        yield from _still_there(names)
    elif is_index_file(path):
        yield from _indexed(local, missing_ok=missing_ok, since=since)
    else:
        yield _local(path)


def _indexed(path: Path, *, missing_ok: bool, since: str | None = None) -> list[LogFile]:
    """Return the logs of an index file; with `missing_ok` those that exist.

    To purge a log, a server first removes its name from the index, then the file. If a file is missing, the index is
    read again; if it no longer contains the name, the log was purged.

    Raises:
        FileNotFoundError: a log that the index lists is missing.
    """
    while True:
        logs = []
        missing = None
        for name in (one for one in read_index(path) if is_since(one, since)):
            try:
                logs.append(_indexed_log(path, name))
            except FileNotFoundError:
                if not missing_ok:
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


def _names_in(folder: Path, since: str | None = None) -> list[str]:
    """Return the names of the logs in a directory, from log `since` on; hidden files are those that rsync copies."""
    before = str(folder / "_")[:-1]  # the directory with a separator; faster than joining a Path for each name
    links = set()
    members = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_file() or (entry.is_symlink() and not entry.is_dir()):  # the target may be missing
                members.append(before + entry.name)
                if entry.is_symlink():
                    links.add(before + entry.name)
    later = [name for name in members if is_since(name, since)]
    later = [name for name in later if not name.startswith(f"{before}.") or name.endswith(CRASH_SAFE_SUFFIX)]
    names = choose_logs(later, lambda name: begins_like_a_log(LogFile(name)))
    if links.isdisjoint(names):
        return names
    files = {os.path.realpath(name) for name in (names if since is None else members) if name not in links}
    return [name for name in names if name not in links or os.path.realpath(name) not in files]


def _still_there(names: list[str]) -> Iterator[LogFile]:
    """Yield the logs that still exist, sorted by number; others were purged after they were listed.

    Raises:
        FileNotFoundError: a log is a symbolic link to a missing file.
    """
    for name in sorted(names, key=log_number):
        try:
            log = _local(name)
        except FileNotFoundError:
            if os.path.islink(name):
                raise
            continue
        yield log


def _local(name: str) -> LogFile:
    return LogFile(name, os.stat(name).st_size)
