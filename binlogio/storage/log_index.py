"""The index file of a series of logs, the register of files being added or removed, and the choice of logs to purge.

Files, index and register change in an order that leaves the index correct after a crash at any point: it names exactly
the logs that exist.

    to add a log:      register its name, create and fill it, add it to the index, remove the register
    to purge logs:     register their names, remove them from the index, remove the files, remove the register
    after a crash:     remove the files that the register names and the index does not, remove the register
    index, register := (name newline)*   -- names begin with "./"; an incomplete last line of the register is ignored

The index is replaced as a whole: a new file is written beside it, synced, and renamed. Source: sql/binlog.cc,
MYSQL_BIN_LOG::add_log_to_index, purge_logs, purge_logs_before_date, purge_index_entry,
move_crash_safe_index_file_to_index_file.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta, timezone
from itertools import takewhile
from typing import TYPE_CHECKING, Final

from binlogio.errors import BinlogFormatError, WriterStateError
from binlogio.storage.index_file import INDEX_SUFFIX, log_number
from binlogio.storage.log_storage import CRASH_SAFE_SUFFIX, replace_file

if TYPE_CHECKING:
    from collections.abc import Sequence

    from binlogio.storage.log_storage import LogStorage

REGISTER_SUFFIX: Final = ".~rec~"
_HERE: Final = "./"


class LogIndex:
    """The names of a series of logs, in order. Not thread-safe.

    Args:
        stem: name of the logs without their number.
        storage: storage of the logs.
    """

    def __init__(self, stem: str, storage: LogStorage) -> None:
        self.stem: Final = stem
        self._storage = storage
        self._lines: list[str] = []
        self._registered: list[str] = []
        self.file_name: Final = stem + INDEX_SUFFIX
        self.register_name: Final = stem + REGISTER_SUFFIX

    @property
    def names(self) -> tuple[str, ...]:
        """The logs, the newest last."""
        return tuple(_log_of(line) for line in self._lines)

    def open(self) -> None:
        """Read the index, and complete an operation that a crash interrupted.

        Raises:
            BinlogFormatError: the index names a log file that does not exist.
            OSError: the storage failed.
        """
        present = set(self._storage.names())
        side = self.file_name + CRASH_SAFE_SUFFIX
        if side in present and self.file_name not in present and self._is_whole(side, present):
            self._storage.rename(side, self.file_name)  # a server had removed the old index only
            self._storage.sync_names()
            present.add(self.file_name)
        elif side in present:
            self._storage.remove(side)
        if self.register_name + CRASH_SAFE_SUFFIX in present:
            self._storage.remove(self.register_name + CRASH_SAFE_SUFFIX)
        self._registered = []
        self._lines = self._read(self.file_name) if self.file_name in present else []
        if self.register_name in present:
            self._replay(present)
        missing = [line for line in self._lines if not line.startswith("/") and _log_of(line) not in present]
        if missing:
            raise BinlogFormatError(
                "the index names a log file that does not exist",
                file=self.file_name,
                found=missing[0],
                hint="give the log back, or take its name out of the index",
            )

    def register(self, names: Iterable[str]) -> None:
        """Register files that are being added or removed, in addition to those that could not be removed before."""
        self._registered = list(dict.fromkeys([*self._registered, *names]))
        self._replace(self.register_name, [_HERE + name for name in self._registered])

    def unregister(self) -> None:
        """Remove the register, except for files that still exist and are not in the index."""
        left = set(self._storage.names()) - set(self.names)
        self._registered = [name for name in self._registered if name in left]
        if self._registered:
            self._replace(self.register_name, [_HERE + name for name in self._registered])
        else:
            self._storage.remove(self.register_name)
            self._storage.sync_names()

    def add(self, name: str) -> None:
        """Append a log to the index, and sync."""
        self._replace(self.file_name, [*self._lines, _HERE + name])

    def replace(self, names: Iterable[str]) -> None:
        """Replace the list by these logs, and sync. Logs that were in it keep their lines unchanged."""
        lines = {_log_of(line): line for line in self._lines}
        self._replace(self.file_name, [lines.get(name, _HERE + name) for name in names])

    def take_out(self, names: Sequence[str]) -> None:
        """Remove logs from the index, and sync. The files stay."""
        gone = set(names)
        self._replace(self.file_name, [line for line in self._lines if _log_of(line) not in gone])

    def purge(self, names: Sequence[str]) -> None:
        """Remove logs from the index, then their files."""
        if not names:
            return
        self.register(names)
        self.take_out(names)
        present = self._storage.names()
        for name in names:
            if name in present:
                self._storage.remove(name)
        self._storage.sync_names()
        self.unregister()

    def is_log(self, name: str) -> bool:
        """Return True if the name is one of a log of this series."""
        stem, number, more = log_number(name)
        return stem == self.stem and number >= 0 and not more

    def _replace(self, name: str, lines: list[str]) -> None:
        """Write the lines to a new file, sync it, and rename it over the old file.

        `names` is the content of the index, even if an error left it unsynced.
        """
        replace_file(self._storage, name, "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape"))
        if name == self.file_name:
            self._lines = lines
        self._storage.sync_names()

    def _is_whole(self, side: str, present: set[str]) -> bool:
        """Return whether a new index is complete: a crash may have interrupted its write."""
        return self._storage.read(side).endswith(b"\n") and present.issuperset(map(_log_of, self._read(side)))

    def _read(self, name: str) -> list[str]:
        text = self._storage.read(name).decode("utf-8", "surrogateescape")
        return [line for line in text.split("\n") if line]

    def _replay(self, present: set[str]) -> None:
        kept = set(self.names)
        *whole, _unfinished = self._storage.read(self.register_name).decode("utf-8", "surrogateescape").split("\n")
        for name in (_log_of(line) for line in whole):
            if name in present and name not in kept and self.is_log(name):
                self._storage.remove(name)
                present.discard(name)
        self._storage.sync_names()
        self.unregister()


def _log_of(line: str) -> str:
    return line.removeprefix(_HERE)


# ---------------------------------------------------------------------------------------------- choice of logs to purge

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)


def logs_up_to(names: Sequence[str], to: str) -> tuple[str, ...]:
    """Return the logs before `to`.

    Raises:
        WriterStateError: there is no such log.
    """
    if to not in names:
        raise WriterStateError("the log is not in the index", file=to)
    return tuple(takewhile(lambda name: name != to, names))


def logs_before(storage: LogStorage, names: Sequence[str], time: datetime, *, active: str) -> tuple[str, ...]:
    """Return the oldest logs, up to the first one that was modified at `time` or later, or is active.

    A naive time is local.
    """
    limit = (time.astimezone(timezone.utc) - _EPOCH) // timedelta(microseconds=1)
    return tuple(takewhile(lambda name: name != active and storage.modified(name) < limit, names))
