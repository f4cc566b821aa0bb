"""The logs of a source from a known one on, listed again and again: standing still costs nothing.

A directory or an index file is listed again if it has changed, by its time of modification, and the logs from the known
one on are examined (stat). In an object store a listing is a request for each thousand names; while the known log is
the last one, only this log and the next number are looked up. As a directory of a network file system may keep its
time, the next number is looked up there, too, and a listing is at most a minute old.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from glob import has_magic
from typing import Any, Final

from binlogio.errors import BinlogFormatError
from binlogio.storage.index_file import base_name, is_index_file, next_log_name
from binlogio.storage.log_file import LogFile
from binlogio.storage.sources import find_logs

_MOST_AGE_S: Final = 60
_SETTLED_NS: Final = 2_000_000_000  # a file system may give two changes within this time the same time stamp
_Stamp = tuple[int, ...]


class LaterLogs:
    """The logs of a path, glob, directory, index file or URI from one of them on. Pickled without what it knows."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._logs: list[LogFile] = []
        self._stamp: _Stamp | None = None
        self._listed_at = 0.0

    def __reduce__(self) -> tuple[type[LaterLogs], tuple[str]]:
        """Return the constructor with its argument."""
        return type(self), (self._source,)

    def since(self, name: str) -> list[LogFile]:
        """Return the logs from the one of this name on, by their numbers, and those of other series.

        Raises:
            OSError, BinlogError: as `find_logs`.
        """
        first = next((at for at, log in enumerate(self._logs) if base_name(log.name) == name), None)
        if first is not None and time.monotonic() - self._listed_at < _MOST_AGE_S:
            self._logs = self._logs[first:]
            with suppress(FileNotFoundError):
                known = self._known_again()
                if known is not None:
                    self._logs = known
                    return list(known)
        stamp = None if "://" in self._source else self._settled()
        self._logs = find_logs(self._source, since=name)
        self._stamp, self._listed_at = stamp, time.monotonic()
        return list(self._logs)

    def _known_again(self) -> list[LogFile] | None:
        """Return the known logs with their sizes; None if there may be others."""
        last = self._logs[-1]
        try:
            following = last.name[: -len(base_name(last.name))] + next_log_name(base_name(last.name))
        except BinlogFormatError:  # a name without a number
            return None
        if last.filesystem is not None:
            if len(self._logs) > 1:
                return None
            found: Any = last.filesystem.get_file_info([last.name, following])
            is_known = [one.is_file for one in found] == [True, False]
            return [LogFile(last.name, found[0].size, last.filesystem)] if is_known else None
        if self._stamp is None or self._stamp != self._stamped() or os.path.exists(following):
            return None
        return [LogFile(log.name, os.stat(log.name).st_size) for log in self._logs]

    def _stamped(self) -> _Stamp | None:
        """Return what changes whenever the names of the logs change; None if that is not known."""
        place, name = os.path.split(self._source)
        if has_magic(place):
            return None
        if os.path.isdir(self._source) or is_index_file(name):
            place = self._source
        try:
            found = os.stat(place or ".")
        except OSError:
            return None
        return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns

    def _settled(self) -> _Stamp | None:
        """Return it only if a change from now on has another time."""
        stamp = self._stamped()
        return stamp if stamp is not None and time.time_ns() - stamp[-1] > _SETTLED_NS else None
