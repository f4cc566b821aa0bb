"""The index file of a series of logs, the register of files being added or removed, and the choice of logs to purge.

Publishes several logs in one step: all of them are there, or none, after an error, a signal or a crash. Files, index
and register change in an order that leaves the index correct after a crash at any point: it names exactly the logs that
exist. Their contents and names are synced in this order, too.

    to add logs:       register their names, create or rename the files, add them to the index, remove the register
    to purge logs:     register their names, remove them from the index, remove the files, remove the register
    to overwrite logs: write the new index beside the index, remove the index, rename the new logs, rename the new index
    after a crash:     complete what has a new index and no index; remove the files that the register names and the
                       index does not; remove the register and other new files
    new file        := NAME_crash_safe (index, register), .NAME_crash_safe (log)
    index, register := (name newline)*   -- names begin with "./"; an incomplete last line of the register is ignored

Writers call `open` or `recover` first, under the lock. Readers change nothing: they ignore the logs that `unpublished`
returns. Source: sql/binlog.cc, MYSQL_BIN_LOG::add_log_to_index, purge_logs, purge_logs_before_date, purge_index_entry,
move_crash_safe_index_file_to_index_file.
"""

from __future__ import annotations

import errno
import os
import time
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta, timezone
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from binlogio.errors import BinlogFormatError, WriterStateError
from binlogio.storage.index_file import (
    AUTO_CNF,
    AUTO_CNF_SUFFIX,
    INDEX_SUFFIX,
    is_beside_logs,
    is_index_file,
    log_name,
    log_number,
    parse_index,
    read_index,
)
from binlogio.storage.log_storage import CRASH_SAFE_SUFFIX, LocalStorage, replace_file
from binlogio.storage.new_file import give_name, is_side, locked_side, make_directory, missing_folders, rename_new

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

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
        self._lock_name: Final = f"{stem}.lock"

    @property
    def names(self) -> tuple[str, ...]:
        """The logs, the newest last."""
        return tuple(_log_of(line) for line in self._lines)

    def existing(self) -> list[str]:
        """Return the names of all logs of the index and of the storage, ordered by number."""
        return sorted({*self.names, *filter(self.is_log, self._storage.names())}, key=log_number)

    def lock(self) -> None:
        """Lock the logs for this writer.

        Raises:
            WriterStateError: another writer has them open.
            OSError: the storage failed.
        """
        now = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
        holder = f"process {os.getpid()} on {os.uname().nodename}, since {now}"
        other = self._storage.lock(self._lock_name, holder)
        if other is not None:
            raise WriterStateError(
                "another writer has these logs open",
                file=self._lock_name,
                found=other,
                hint="close that writer, or use another basename",
            )

    def unlock(self) -> None:
        """Release the lock of the logs."""
        self._storage.unlock(self._lock_name)

    def open(self) -> None:
        """Read the index, and complete an operation that a crash interrupted.

        Raises:
            BinlogFormatError: the index names a log file that does not exist, or contains a zero byte.
            OSError: the storage failed.
        """
        self.recover()
        present = self._storage.names()
        missing = [line for line in self._lines if not line.startswith("/") and _log_of(line) not in present]
        if missing:
            raise BinlogFormatError(
                "the index names a log file that does not exist",
                file=self.file_name,
                found=missing[0],
                hint="give the log back, or take its name out of the index",
            )

    def recover(self) -> None:
        """Read the index, and complete or undo what a crash interrupted; removes new files that are not published.

        Raises:
            BinlogFormatError: the index contains a zero byte, as after a power failure.
            OSError: the storage failed.
        """
        present = set(self._storage.names())
        side = self.file_name + CRASH_SAFE_SUFFIX
        if side in present and self.file_name not in present and self._is_whole(side, present):
            for name in map(_log_of, self._read(side)):
                if new_name(name) in present:
                    self._storage.rename(new_name(name), name)
            self._storage.sync_names()
            self._storage.rename(side, self.file_name)  # also if a server had removed the old index only
            self._storage.sync_names()
        unfinished = (side, side + CRASH_SAFE_SUFFIX, self.register_name + CRASH_SAFE_SUFFIX)
        self._remove([*unfinished, *filter(self._is_new, present)])
        present = set(self._storage.names())
        self._registered = []
        self._lines = (
            parse_index(self._storage.read(self.file_name), self.file_name) if self.file_name in present else []
        )
        if self.register_name in present:
            self._replay(present)

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
            self._remove([self.register_name])
            self._storage.sync_names()

    def replace(self, names: Iterable[str]) -> None:
        """Replace the list by these logs, and sync. Logs that were in it keep their lines unchanged."""
        lines = {_log_of(line): line for line in self._lines}
        self._replace(self.file_name, [lines.get(name, _HERE + name) for name in names])

    def purge(self, names: Sequence[str]) -> None:
        """Remove logs from the index, then their files."""
        if not names:
            return
        self.register(names)
        self.replace([name for name in self.names if name not in names])
        self._remove(names)
        self._storage.sync_names()
        self.unregister()

    def publish(
        self, new: Collection[str], place: Iterable[str], names: Iterable[str], removes: Collection[str] = ()
    ) -> None:
        """Create new logs, and replace the index: all of it, or nothing.

        Args:
            new: the names of the new logs.
            place: creates the logs, or renames files to their names, in this order, and syncs them. It yields each
                name first, and raises FileExistsError if another program has made a file of this name since then.
            names: the logs of the new index.
            removes: logs that are removed afterwards, as far as possible; the next `recover` removes the others.

        Raises:
            FileExistsError: a file has one of the names.
            OSError: the storage failed; the register has the names of files that could not be removed.
        """
        indexed, placed = self.names, list[str]()
        taken = sorted(set(new).intersection(self._storage.names()))
        if taken:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), taken[0])
        try:
            self.register([*new, *(name for name in removes if name in indexed)])
            try:
                for name in place:
                    placed.append(name)
            except FileExistsError:
                del placed[-1:]  # a file of another program
                raise
            self._storage.sync_names()
            self.replace(names)
        except BaseException:
            if self.names != indexed:
                self.replace(indexed)
            self._remove(placed)
            self._registered = [name for name in self._registered if name not in new or name in placed]
            self.unregister()
            raise
        with suppress(OSError):
            self._remove(removes)
            self._storage.sync_names()
            self.unregister()

    def overwrite(self, names: Sequence[str]) -> None:
        """Rename new logs, whose files are `new_name` of these names, over existing ones, and replace the index.

        Raises:
            OSError: the storage failed. Nothing was changed, or the next `recover` completes it.
        """
        side = self.file_name + CRASH_SAFE_SUFFIX
        self._remove([self.register_name])
        replace_file(self._storage, side, _content(_HERE + name for name in names))
        self._storage.sync_names()
        self._remove([self.file_name])
        self._storage.sync_names()
        self.recover()

    def _remove(self, names: Iterable[str]) -> None:
        """Remove those of the files that exist."""
        present = set(self._storage.names())
        for name in names:
            if name in present:
                self._storage.remove(name)

    def _is_new(self, name: str) -> bool:
        log = name[1:].removesuffix(CRASH_SAFE_SUFFIX)
        return self.is_log(log) and name == new_name(log)

    def is_log(self, name: str) -> bool:
        """Return True if the name is one of a log of this series."""
        stem, number, more = log_number(name)
        return stem == self.stem and number >= 0 and not more

    def _replace(self, name: str, lines: list[str]) -> None:
        """Write the lines to a new file, sync it, and rename it over the old file.

        `names` is the content of the index, even if an error left it unsynced.
        """
        replace_file(self._storage, name, _content(lines))
        if name == self.file_name:
            self._lines = lines
        self._storage.sync_names()

    def _is_whole(self, side: str, present: set[str]) -> bool:
        """Return whether a new index is complete: a crash may have interrupted its write.

        An index that only has logs of the register is the first one of logs that were being added.
        """
        names = set(map(_log_of, self._read(side)))
        added = set(map(_log_of, self._read(self.register_name))) if self.register_name in present else set()
        is_ended = self._storage.read(side).endswith(b"\n")
        return is_ended and not names <= added and all({name, new_name(name)} & present for name in names)

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


def new_name(log: str) -> str:
    """Return the name of the file in which a log is written before it is published."""
    return f".{log}{CRASH_SAFE_SUFFIX}"


def unpublished(folder: Path) -> set[str]:
    """Return the names of files in a directory that readers ignore: new logs, and logs that are added or removed.

    Raises:
        BinlogFormatError: logs are being overwritten, so that some of them are old and others new.
    """
    try:
        present = set(os.listdir(folder))  # noqa: PTH208 - faster, and directories may have many logs
    except OSError:  # the caller may read files of a directory that it cannot list
        return set()
    hidden = [name for name in present if name.startswith(".")]
    new = {name for name in hidden if name.endswith(CRASH_SAFE_SUFFIX)}
    found = {name for name in hidden if is_side(folder / name)} | new
    for index in {log_number(name[1:].removesuffix(CRASH_SAFE_SUFFIX))[0] + INDEX_SUFFIX for name in new}:
        if index not in present and index + CRASH_SAFE_SUFFIX in present:
            raise BinlogFormatError(
                "some logs of this directory are old and others new: a command that overwrites them was stopped",
                file=str(folder),
                hint="run the command again, which completes it",
            )
    for register in [name for name in present if name.endswith(REGISTER_SUFFIX)]:
        index = register.removesuffix(REGISTER_SUFFIX) + INDEX_SUFFIX
        with suppress(FileNotFoundError):  # the operation is complete
            registered = set(map(_log_of, read_index(folder / register)))
            found |= registered.difference(map(_log_of, read_index(folder / index) if index in present else ()))
    return found


def _content(lines: Iterable[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape")


def _log_of(line: str) -> str:
    return line.removeprefix(_HERE)


def input_of(output: str | os.PathLike[str], inputs: Iterable[str | None], *, has_index: bool = True) -> str | None:
    """Return the input of a command that an existing output is, or to which it belongs: a log, or the index beside it.

    Args:
        output: the name of the output.
        inputs: names of files and directories; None, and what is not a local file, are ignored.
        has_index: False: an index file is not an input unless it is given.
    """
    path = Path(output)
    if not path.is_file():
        return None
    for one in inputs:
        with suppress(OSError, ValueError):
            if one is None:
                continue
            if path.samefile(one):
                return one
            is_folder, has_logs = Path(one).is_dir(), is_index_file(one)
            stem = "" if is_folder else f"{log_number(log_name(one).removesuffix(INDEX_SUFFIX))[0]}."
            is_log = (is_folder or has_logs) and log_number(path.name)[1] >= 0
            is_near = path.parent.samefile(one if is_folder else Path(one).parent) and path.name.startswith(stem)
            if is_near and (is_log or (has_index and is_beside_logs(path))):
                return one
    return None


# ------------------------------------------------------------------------------------------------------- a new series


def has_series(folder: Path, stem: str) -> bool:
    """Return whether a directory has logs of a stem, or the identity of their server."""
    index = LogIndex(stem, LocalStorage(folder))
    others = (index.file_name, index.file_name + CRASH_SAFE_SUFFIX, stem + AUTO_CNF_SUFFIX, AUTO_CNF)
    return any(index.is_log(name) or name in others for name in LocalStorage(folder).names())


@contextmanager
def new_series(folder: Path, stem: str) -> Iterator[Path]:
    """Return a context manager for a temporary directory, whose logs all get into `folder` at its end, or none of them.

    The directory is for a writer of new logs; `folder` has no series of this stem. Errors name the files in `folder`.

    Raises:
        WriterStateError: another writer has logs of this stem open.
        OSError: a file cannot be written or renamed; FileExistsError if another program has made it meanwhile.
    """
    missing = missing_folders(folder)
    made = missing[-1] if missing else folder / (stem + INDEX_SUFFIX)
    with locked_side(made, is_directory=True) as side:
        inner = side / folder.relative_to(made) if missing else side
        make_directory(inner)
        with _named_in(inner, folder):
            yield inner
            if missing:
                give_name(side, made, replaces=True)  # fails if the directory exists and is not empty
            else:
                _move_series(inner, folder, stem)


def _move_series(side: Path, folder: Path, stem: str) -> None:
    """Publish the logs of a directory in another one, then move the other files beside them."""
    index, written = (LogIndex(stem, LocalStorage(one)) for one in (folder, side))
    written.recover()

    def place() -> Iterator[str]:
        for name in written.names:
            yield name
            rename_new(side / name, folder / name)

    index.lock()
    try:
        index.recover()
        index.publish(written.names, place(), written.names)
    finally:
        index.unlock()
    for path in side.iterdir():
        if path.name != index.file_name:
            rename_new(path, folder / path.name)


@contextmanager
def _named_in(side: Path, folder: Path) -> Iterator[None]:
    """Let an error of a file in `side` name the file in `folder`."""
    try:
        yield
    except OSError as exc:
        path = Path(str(exc.filename))
        if not path.is_relative_to(side):
            raise
        raise OSError(exc.errno, exc.strerror, str(folder / path.relative_to(side))) from exc


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
