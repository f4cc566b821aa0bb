"""New files and directories: a file is written under a temporary name, and renamed when it is complete.

Names and contents are synced. `log_index` publishes several logs in one step. Also removes the directories that were
created for files that are not written.

    temporary name := .binlogio- hash random .part      in the directory of the target
    hash           := 8 hexadecimal digits, of the name of the target
    random         := 8 hexadecimal digits

The writer of a target holds a lock (flock) on its temporary file, so that a second writer is refused, and the files
that a killed process has left are recognized.
"""

from __future__ import annotations

import errno
import fcntl
import io
import os
import re
import shutil
import stat
import time
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from binlogio.constants import NEW_DIRECTORY_MODE, NEW_FILE_MODE
from binlogio.errors import UnsupportedFeature, WriterStateError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_SIDE: Final = r"\.binlogio-[0-9a-f]{16}\.part"
_UNLOCKED_S: Final = 60  # a process locks its temporary file within this time
_NO_LOCKS: Final = (errno.EBADF, errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EINVAL)
_NO_HARD_LINKS: Final = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS, errno.EXDEV)


def local_output(name: str | os.PathLike[str]) -> Path:
    """Return the path of an output; `file:///x` is `/x`.

    Raises:
        UnsupportedFeature: it is another URI.
    """
    text = os.fspath(name)
    if text.startswith("file:///"):
        return Path(unquote(text.removeprefix("file://")))
    if "://" in text:
        raise UnsupportedFeature(
            "output goes to local files only", found=text, hint="write to a local directory, and copy it to the store"
        )
    return Path(text)


def check_regular(target: Path) -> None:
    """Raise WriterStateError if an output exists and is no regular file: a device may be endless, a pipe may block."""
    if target.exists() and not target.is_file():
        raise WriterStateError("the output is not a regular file", file=str(target), hint="choose another one")


def _hash_of(target: Path) -> str:
    return sha256(os.fsencode(target.name)).hexdigest()[:8]


def new_side(target: Path) -> Path:
    """Return a new temporary name for `target`. Nothing is created: an interrupt finds no file without an owner."""
    return target.with_name(f".binlogio-{_hash_of(target)}{os.urandom(4).hex()}.part")


def make_side(side: Path, target: Path, *, is_directory: bool = False) -> None:
    """Create an empty file or directory under a temporary name, which others cannot read; errors name `target`.

    Raises:
        OSError: it cannot be created.
    """
    try:
        if is_directory:
            side.mkdir(NEW_DIRECTORY_MODE)
        else:
            os.close(os.open(side, os.O_CREAT | os.O_EXCL | os.O_WRONLY, NEW_FILE_MODE))
    except OSError as exc:
        raise OSError(exc.errno, exc.strerror, str(target)) from exc


@contextmanager
def locked_side(target: Path, *, is_directory: bool = False, is_shared: bool = False) -> Iterator[Path]:
    """Return a context manager for a new temporary file or directory, locked against other writers of `target`.

    At the end it is removed, unless it was renamed. What killed writers of the target have left is removed first. A
    file system without locks excludes no process. `is_shared`: several processes may have one, none is ever renamed.

    Raises:
        WriterStateError: the target is a device, pipe or directory; another process, or thread, writes it.
        OSError: it cannot be created.
    """
    check_regular(target)
    side = new_side(target)
    lock: int | None = None
    try:
        make_side(side, target, is_directory=is_directory)
        lock = os.open(side, os.O_RDONLY)
        if not is_locked(lock) or not _is_at(side, lock):  # another writer takes it for one of a killed process
            raise other_writer(target)
        _remove_others(side, target, is_shared=is_shared)
        yield side
    finally:
        try:
            remove_side(side)
        except KeyboardInterrupt:
            remove_side(side)
            raise
        finally:
            if lock is not None:
                os.close(lock)


def other_writer(target: Path) -> WriterStateError:
    """Return the error of an output that another process, or another thread, writes."""
    return WriterStateError("another command is writing this", file=str(target), hint="wait until it has ended")


def is_locked(descriptor: int) -> bool:
    """Lock an open file; return False if another has the lock, True also on a file system without locks."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as exc:
        if exc.errno not in _NO_LOCKS:
            raise
    return True


def _is_at(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.lstat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _remove_others(side: Path, target: Path, *, is_shared: bool) -> None:
    """Remove the temporary files that killed writers of `target` have left.

    Raises:
        WriterStateError: another writer is at work.
    """
    try:
        names = os.listdir(side.parent)  # noqa: PTH208 - faster, and directories may have many files
    except PermissionError:
        return
    start = f".binlogio-{_hash_of(target)}"
    for path in (side.parent / name for name in names if name.startswith(start) and name != side.name):
        with suppress(FileNotFoundError):
            status = path.lstat()
            if not is_side(path) or status.st_uid != os.geteuid() or path.is_symlink():
                continue
            if is_shared and time.time() - status.st_mtime < _UNLOCKED_S:
                continue
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
            try:
                if is_locked(descriptor):
                    remove_side(path)
                elif not is_shared:
                    raise other_writer(target)
            finally:
                os.close(descriptor)


def remove_side(side: Path) -> None:
    """Remove a temporary file or directory, if it exists."""
    if side.is_dir() and not side.is_symlink():
        shutil.rmtree(side, ignore_errors=True)
    else:
        side.unlink(missing_ok=True)


def is_side(path: Path) -> bool:
    """Return True for a temporary name. A killed process leaves files with such names."""
    return re.fullmatch(_SIDE, path.name) is not None


def open_side(side: Path, target: Path, *, buffering: int = io.DEFAULT_BUFFER_SIZE) -> IO[bytes]:
    """Open a file under its temporary name for writing; it is created if missing. Errors name `target`.

    Raises:
        OSError: the file cannot be created. Its methods raise OSError if it cannot be written.
    """
    try:
        raw = _NewFile(side, "wb", opener=lambda path, flags: os.open(path, flags | os.O_NOFOLLOW, NEW_FILE_MODE))
    except OSError as exc:
        raise OSError(exc.errno, exc.strerror, str(target)) from exc
    raw.target = target
    return io.BufferedWriter(raw, buffering)


def open_device(path: Path) -> IO[bytes]:
    """Open a device or pipe for writing. Errors name it.

    Raises:
        OSError: it cannot be opened. Its methods raise OSError if it cannot be written.
    """
    raw = _NewFile(path, "wb")
    raw.target = path
    return io.BufferedWriter(raw)


class _NewFile(io.FileIO):
    """A file whose write errors name the file that it becomes."""

    target: Path

    def write(self, data: Any, /) -> int:
        """Write bytes.

        Raises:
            OSError: the bytes cannot be written.
        """
        try:
            return super().write(data)
        except OSError as exc:
            raise OSError(exc.errno, exc.strerror, str(self.target)) from exc


def rename_new(side: Path, target: Path) -> None:
    """Rename a file to a name that must not exist.

    Raises:
        FileExistsError: `target` exists.
        OSError: the directory cannot be written.
    """
    try:
        os.link(side, target)  # unlike a rename, this fails if the name exists
        side.unlink()
    except OSError as exc:
        if exc.errno not in _NO_HARD_LINKS:
            raise
        os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, NEW_FILE_MODE))  # fails if the name exists
        side.replace(target)


def give_name(side: Path, target: Path, *, replaces: bool) -> None:
    """Give the file `side` the name `target`, and sync the directory.

    Raises:
        FileExistsError: `target` exists, and `replaces` is False.
        OSError: the directory cannot be written.
    """
    try:
        if replaces:
            side.replace(target)
        else:
            rename_new(side, target)
        sync_directory(target.parent)
    except OSError as exc:
        raise OSError(exc.errno, exc.strerror, str(target)) from exc


@contextmanager
def new_file(target: Path, *, replaces: bool, shown: Path | None = None) -> Iterator[IO[bytes]]:
    """Return a context manager for a new file, which is renamed to `target` at the end of the `with` block.

    The file is deleted if an exception leaves the block. Errors of writes name `shown`, by default `target`.

    Raises:
        WriterStateError: as in `locked_side`.
        FileExistsError, OSError: as in `give_name`.
    """
    with locked_side(target) as side:
        with open_side(side, shown or target) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        give_name(side, target, replaces=replaces)


def make_directory(directory: Path) -> None:
    """Create a directory and its missing parents, if it does not exist, and make their names durable."""
    for one in reversed(missing_folders(directory)):
        one.mkdir(NEW_DIRECTORY_MODE, exist_ok=True)
        sync_directory(one.parent)


def settle(path: Path) -> None:
    """Take the permissions of others from a file or directory that a library has created, and sync it."""
    is_directory = path.is_dir()
    path.chmod(stat.S_IMODE(path.stat().st_mode) & (NEW_DIRECTORY_MODE if is_directory else NEW_FILE_MODE))
    if is_directory:
        sync_directory(path)
    else:
        with path.open("rb") as file:
            os.fsync(file.fileno())


def sync_directory(directory: Path) -> None:
    """Make the names in a directory durable, unless it cannot be read, or its file system cannot do this."""
    try:
        descriptor = os.open(directory, os.O_RDONLY)
    except PermissionError:
        return
    try:
        os.fsync(descriptor)
    except OSError as exc:
        if exc.errno not in (errno.EBADF, errno.EINVAL):  # as in PostgreSQL, src/common/file_utils.c, fsync_fname
            raise
    finally:
        os.close(descriptor)


def missing_folders(directory: Path) -> list[Path]:
    """Return the directory and its parents, as far as they do not exist yet."""
    return [one for one in (directory, *directory.parents) if not one.exists()]


@contextmanager
def removed_if_empty(folders: Iterable[Path]) -> Iterator[None]:
    """Return a context manager that removes those folders that are empty if an exception leaves the `with` block."""
    try:
        yield
    except BaseException:
        for one in folders:
            with suppress(OSError):
                one.rmdir()
        raise
