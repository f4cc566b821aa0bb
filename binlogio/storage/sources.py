"""Log sources: resolves what a user names to the logs that it means, in the order of their numbers.

Handles paths, globs, directories, index files, URIs of object stores (`object_store`), file objects, and lists of
these, and follows a log that grows. `log_file` opens the logs.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from glob import glob, has_magic
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, cast

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

_NUMBER: Final = re.compile(r"\.\d+\Z")
Source = str | os.PathLike[str] | BinaryIO
"""A source of logs: a path, glob, directory, index file, URI of an object store, `-` (standard input), or open file."""


def find_logs(source: Source | Iterable[Source], *, filesystem: FileSystem | None = None) -> list[LogFile]:
    """Return the files that `source` names, in the order in which they were written.

    A directory gives its binary logs, a glob the matching files except other files of the server, both in the order of
    their numbers. An index file and a list keep their order. Logs that a server purges meanwhile are left out. Left out
    of a list are GTID indexes of MariaDB 11 (`binlog.000001.idx`) and key indexes of binlogio
    (`binlog.000001.keys.parquet`) of its logs, which the pattern `binlog.0*` of a shell matches too. An index file in a
    list adds only the logs that the list does not name, since `binlog.*` names the logs and their index file.

    Raises:
        FileNotFoundError: a path, glob or directory that names no file; an index file that names a missing log, or, if
            no other log is given, none.
        BinlogFormatError: an index file that is damaged.
        UnsupportedFeature: a named pipe.
    """
    if not isinstance(source, (str, os.PathLike)) and not hasattr(source, "read"):
        source = list(source)
    logs = _logs_of(source, filesystem)
    if not logs:
        for one in source if isinstance(source, list) else [source]:
            if isinstance(one, (str, os.PathLike)) and is_index_file(one):
                raise no_log_in_index(os.fspath(one))
    return logs


def no_log_in_index(path: str) -> FileNotFoundError:
    """Return the error for an index file without logs."""
    return FileNotFoundError(2, "the index file lists no log", path)


def _logs_of(source: Source | Iterable[Source], filesystem: FileSystem | None) -> list[LogFile]:
    if isinstance(source, (str, os.PathLike)):
        return list(_find(os.fspath(source), filesystem))
    if hasattr(source, "read"):
        stream = cast("BinaryIO", source)
        return [LogFile(str(getattr(stream, "name", "<stream>")), stream=stream)]
    sources = list(source)
    names = {os.fspath(one) for one in sources if isinstance(one, (str, os.PathLike))}
    logs: list[LogFile] = []
    for one in sources:
        name = os.fspath(one) if isinstance(one, (str, os.PathLike)) else ""
        if _is_index_of(names, name):
            continue
        found = _logs_of(one, filesystem)
        if is_index_file(name):
            places = {os.path.realpath(other) for other in names}
            found = [log for log in found if os.path.realpath(log.name) not in places]
        logs += found
    return logs


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
        before = str(local / "_")[:-1]  # of each name, without the cost of a path for each
        with os.scandir(local) as entries:
            members = [before + entry.name for entry in entries if entry.is_file()]
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

    To purge a log, a server first removes its name from the index, then the file. So if a file is missing, the index is
    read again: a log whose name is no longer there was purged.
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
    return LogFile(name, os.stat(name).st_size)


def follow_last(logs: list[LogFile], wait: Callable[[], None]) -> None:
    """Let the last of `logs` be read as it grows, and add the logs that the server creates after it.

    Args:
        logs: the list that a reader reads.
        wait: called when no more bytes are available; then the file is read again.

    Raises:
        UnsupportedFeature: the last log is not a file with a number in its name.
    """
    last = logs[-1]
    if last.stream is not None or last.filesystem is not None or _NUMBER.search(last.name) is None:
        raise UnsupportedFeature(
            "only a local log with a number in its name can be followed", file=last.name, hint="give the server's log"
        )
    logs[-1] = LogFile(last.name, stream=cast("BinaryIO", _GrowingLog(last.name, logs, wait)))


class _GrowingLog:
    """The bytes of a log that grows; it ends when the next log exists, or when the file was removed."""

    def __init__(self, name: str, logs: list[LogFile], wait: Callable[[], None]) -> None:
        self._name = name
        self._logs = logs
        self._wait = wait
        self._file: Any = None

    def read(self, size: int = -1) -> bytes:
        """Return bytes as soon as there are some; none at the end."""
        if self._file is None:
            self._file = open(self._name, "rb", buffering=0)  # noqa: SIM115 - closed at its end
        while True:
            is_ended = self._has_next() or not self._is_there()  # before the read that finds nothing
            data: bytes = self._file.read(size)
            if data:
                return data
            if is_ended:
                self._file.close()
                return b""
            self._wait()

    def _has_next(self) -> bool:
        if self._logs[-1].stream is not cast("Any", self):
            return True
        stem, number = self._name.rsplit(".", 1)
        following = f"{stem}.{int(number) + 1:0{len(number)}d}"
        if not Path(following).exists():
            return False
        self._logs.append(LogFile(following, stream=cast("BinaryIO", _GrowingLog(following, self._logs, self._wait))))
        return True

    def _is_there(self) -> bool:
        try:
            return os.path.samestat(os.stat(self._name), os.fstat(self._file.fileno()))
        except FileNotFoundError:
            return False
