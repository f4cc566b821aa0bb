"""Follows the last of several logs while it grows, and the logs that the server creates after it.

rotation           the next log follows
PURGE              bytes that were not read yet are read from the open file; then the next log must exist
RESET              the file is gone or replaced, and the numbers begin again: an error
copy by rename     a file that was replaced by a copy with the same bytes so far is read on
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final, cast

from binlogio.errors import BinlogError, ChangedLogs, MissingLogs, UnsupportedFeature
from binlogio.gtid import GtidSet
from binlogio.series.continuity import SeriesGap, check_ends
from binlogio.series.identity import hash_of
from binlogio.series.log_head import read_head
from binlogio.storage.index_file import base_name, log_number
from binlogio.storage.log_file import LogFile

if TYPE_CHECKING:
    from collections.abc import Callable

    from binlogio.series.log_head import LogHead

_NUMBER: Final = re.compile(r"\.\d+\Z")
_COMPARED: Final = 1 << 12  # bytes before the current offset that are compared with a file that replaced the log
_SKIPPED: Final = 4 + 19  # the server changes a flag in these bytes when it closes the log
_MOST_WAITS: Final = 3  # times that a log may be absent: a server deletes logs before it creates others (RESET)


def follow_last(logs: list[LogFile], wait: Callable[[], None]) -> None:
    """Replace the last of `logs` by a stream that follows the growing file.

    When the server creates the next log, it is added to `logs` and followed as well. Reading raises `MissingLogs` if
    logs were purged before they were read, and `ChangedLogs` if the server began a new series (RESET) or the log was
    replaced or truncated.

    Args:
        logs: the list of logs of a reader; it is modified.
        wait: called when no more bytes are available; after it returns, the file is read again.

    Raises:
        UnsupportedFeature: the last log is not a file with a number in its name.
    """
    last = logs[-1]
    if last.stream is not None or last.filesystem is not None or _NUMBER.search(last.name) is None:
        raise UnsupportedFeature(
            "only a local log with a number in its name can be followed", file=last.name, hint="give the server's log"
        )
    logs[-1] = LogFile(last.name, stream=cast("BinaryIO", GrowingLog(last.name, logs, wait)))


class GrowingLog:
    """A stream of a log that grows. It ends when the next log exists."""

    def __init__(self, name: str, logs: list[LogFile], wait: Callable[[], None]) -> None:
        self._name = name
        self._logs = logs
        self._wait = wait
        self._file: Any = None
        self._before = b""  # the last bytes that were read

    def read(self, size: int = -1) -> bytes:
        """Return up to `size` bytes, and wait until at least one is available; empty at the end.

        Raises:
            MissingLogs: the next logs were purged, or the end of the log is missing.
            ChangedLogs: the server began a new series, or the log was replaced or truncated.
            OSError: the file cannot be read.
        """
        if self._file is None:
            self._file = Path(self._name).open("rb", buffering=0)  # noqa: SIM115 - closed at its end
        try:
            return self._read(size)
        except BaseException:
            self._file.close()
            raise

    def _read(self, size: int) -> bytes:
        absent = 0
        while True:
            is_there = self._is_there()
            following = self._following(is_there=is_there)  # searched before the read, so that no bytes are missed
            data: bytes = self._file.read(size)
            if data:
                self._check_before(len(data))
                self._before = (self._before + data)[-_COMPARED:]
                return data
            if following is not None:
                self._check_next(following)
                self._file.close()
                self._append(following)
                return b""
            if is_there and os.fstat(self._file.fileno()).st_size < self._file.tell():
                raise self._changed("the log is shorter than what was read: it was truncated")
            absent = 0 if is_there else absent + 1
            if absent > _MOST_WAITS:
                raise self._changed("the log was deleted, and there is no later one")
            self._wait()

    def _check_before(self, size: int) -> None:
        """Check that the file still has the bytes that were read before the last `size` ones.

        Raises:
            ChangedLogs: it has others.
        """
        at = self._file.tell() - size
        start = max(at - len(self._before), min(_SKIPPED, at))
        if os.pread(self._file.fileno(), at - start, start) != self._before[len(self._before) - (at - start) :]:
            raise self._changed("its bytes before have changed: it was truncated, and has grown again")

    def _is_there(self) -> bool:
        """Return whether the open file has the name of the log; a copy of it that has the name is opened instead.

        Raises:
            ChangedLogs: another log has the name.
        """
        try:
            found = Path(self._name).stat()
        except FileNotFoundError:
            return False
        if os.path.samestat(found, os.fstat(self._file.fileno())):
            return True
        at = self._file.tell()
        other = Path(self._name).open("rb", buffering=0)  # noqa: SIM115 - replaces the open file
        start = max(min(_SKIPPED, at), at - _COMPARED)
        if _hash_of(other, start, at) != _hash_of(self._file, start, at):
            other.close()
            raise self._changed("another log has its name: the server began a new series (RESET), or it was replaced")
        self._file.close()
        self._file = other
        return True

    def _following(self, *, is_there: bool) -> str | None:
        """Return the name of the next log; None if there is none yet.

        Raises:
            MissingLogs: a later log exists, but not the next one.
            ChangedLogs: only logs of lower numbers exist.
        """
        stem, number = self._name.rsplit(".", 1)
        following = f"{stem}.{int(number) + 1:0{len(number)}d}"
        if not Path(following).exists():
            self._check_others(stem, int(number), is_there=is_there)
            return None
        return following

    def _check_others(self, stem: str, number: int, *, is_there: bool) -> None:
        """Raise an error if logs of later numbers exist, or other logs although this log is gone, but not the next."""
        folder = Path(stem).parent
        names = [str(one) for one in folder.iterdir() if _NUMBER.search(one.name)] if folder.is_dir() else []
        numbers = {log_number(name)[1]: name for name in names if log_number(name)[0] == stem}
        later = [one for one in numbers if one > number + 1]
        if later and number + 1 not in numbers:
            gap = SeriesGap(numbers[min(later)], self._name, number + 1, min(later) - 1)
            raise MissingLogs(
                f"logs are missing, or were purged before they were read: {gap.numbers}",
                file=gap.file,
                hint="read them from a backup, then follow from this log on",
            )
        if not is_there and number + 1 not in numbers and any(one <= number for one in numbers):
            raise self._changed("only logs of lower numbers exist: the server began a new series (RESET)")

    def _check_next(self, following: str) -> None:
        """Check that the log is complete, and that the next one is of the same series, as far as the heads show it.

        Raises:
            MissingLogs: the end of the log is missing.
            ChangedLogs: the next log is of another series.
        """
        own, after = self._head_of_open_file(), self._head(following)
        check_ends([LogFile(self._name), LogFile(following)], [own, after])
        before, then = own and own.gtids_before(), after and after.gtids_before()
        if isinstance(before, GtidSet) and isinstance(then, GtidSet) and not before.issubset(then):
            raise self._changed(f"{base_name(following)} does not continue it: the server began a new series (RESET)")

    def _head_of_open_file(self) -> LogHead | None:
        at = self._file.tell()
        self._file.seek(0)
        try:
            return read_head(LogFile(self._name, stream=self._file))
        except BinlogError:
            return None
        finally:
            self._file.seek(at)

    def _head(self, name: str) -> LogHead | None:
        try:
            return read_head(LogFile(name))
        except (BinlogError, OSError):
            return None

    def _append(self, following: str) -> None:
        """Add the next log to the logs of the reader, which keep this one."""
        self._before = b""
        if self._logs[-1].stream is cast("Any", self):
            stream = GrowingLog(following, self._logs, self._wait)
            self._logs.append(LogFile(following, stream=cast("BinaryIO", stream)))

    def _changed(self, reason: str) -> ChangedLogs:
        return ChangedLogs(
            f"the log cannot be followed any more: {reason}",
            file=self._name,
            offset=self._file.tell(),
            hint="begin again with the first log that exists",
        )


def _hash_of(file: Any, start: int, end: int) -> str:
    """Return the hash of a range of a file, which is then at `end`."""
    file.seek(start)
    data = b""
    while len(data) < end - start and (more := file.read(end - start - len(data))):
        data += more
    return hash_of(data)
