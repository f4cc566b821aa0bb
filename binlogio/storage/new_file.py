"""New files and directories: a file is written under a temporary name, and renamed when it is complete.

Names and contents are synced. `log_index` publishes several logs in one step. Also removes the directories that were
created for files that are not written.
"""

from __future__ import annotations

import errno
import io
import os
import re
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from binlogio.constants import NEW_DIRECTORY_MODE, NEW_FILE_MODE
from binlogio.errors import UnsupportedFeature

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_SIDE: Final = r"\.binlogio-[0-9a-f]{16}\.part"
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


def side_path(target: Path) -> Path:
    """Return a new temporary name in the directory of `target`."""
    return target.with_name(f".binlogio-{os.urandom(8).hex()}.part")


def is_side(path: Path) -> bool:
    """Return True for a temporary name of `side_path`. A killed process leaves files with such names."""
    return re.fullmatch(_SIDE, path.name) is not None


def open_side(side: Path, target: Path, *, buffering: int = io.DEFAULT_BUFFER_SIZE) -> IO[bytes]:
    """Create a file under its temporary name and open it for writing; errors name `target`.

    Raises:
        OSError: the file cannot be created. Its methods raise OSError if it cannot be written.
    """
    try:
        raw = _NewFile(side, "xb", opener=lambda path, flags: os.open(path, flags, NEW_FILE_MODE))
    except OSError as exc:
        raise OSError(exc.errno, exc.strerror, str(target)) from exc
    raw.target = target
    return io.BufferedWriter(raw, buffering)


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
        FileExistsError, OSError: as in `give_name`.
    """
    side = side_path(target)
    try:
        with open_side(side, shown or target) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        give_name(side, target, replaces=replaces)
    finally:
        side.unlink(missing_ok=True)


def make_directory(directory: Path) -> None:
    """Create a directory and its missing parents, if it does not exist, and make their names durable."""
    for one in reversed(missing_folders(directory)):
        one.mkdir(NEW_DIRECTORY_MODE, exist_ok=True)
        sync_directory(one.parent)


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
