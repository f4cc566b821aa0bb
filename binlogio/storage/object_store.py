"""Finds logs on any filesystem of pyarrow or fsspec: S3, GCS, Azure, HDFS, HTTP, or an object of the caller.

Resolves URIs, globs, directories and index files. URIs that pyarrow does not support (`https://`, `memory://`,
`sftp://`) are opened by fsspec, if it is installed. This module imports pyarrow, so `sources` imports it only at its
first use.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from glob import has_magic
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyarrow.fs import FileInfo, FileSelector, FileSystem, FileType, FSSpecHandler, PyFileSystem

from binlogio.errors import Hint, MissingPackage, UnsupportedFeature
from binlogio.storage.index_file import is_beside_logs, is_index_file, is_since, log_number, parse_index
from binlogio.storage.log_file import LogFile, begins_like_a_log, choose_logs

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

_WEB: Final = ("http://", "https://")
_ACCOUNT: Final = re.compile(r"//[^/@]*@")  # may have a password
_OPTIONS: Final = re.compile(
    r"\?(?=\w+=)"
)  # as in s3://bucket/log.000001?region=eu-west-1; other question marks are wildcards


def find_objects(
    path: str, filesystem: FileSystem | AbstractFileSystem | None, since: str | None = None
) -> Iterator[LogFile]:
    """Yield the logs of a URI, or of a path on `filesystem`, in the order of their numbers, from log `since` on.

    An index file keeps its order.

    Raises:
        FileNotFoundError: there is no such log.
        UnsupportedFeature: neither pyarrow nor fsspec supports the URI.
    """
    if filesystem is None:
        filesystem, path = open_uri(path)
    elif not isinstance(filesystem, FileSystem):
        filesystem = _of_fsspec(filesystem)
    if has_magic(path) and not path.startswith(_WEB):  # in web URIs, a question mark begins the query
        found = list(_matching(filesystem, path, since))
    else:
        info = filesystem.get_file_info(path)
        if info.type == FileType.Directory:
            members = filesystem.get_file_info(FileSelector(path))
            found = _logs_among(filesystem, [info for info in members if is_since(info.path, since)])
        elif info.type == FileType.NotFound:
            reason = "no such file, or the server cannot be reached" if path.startswith(_WEB) else "no such file"
            raise FileNotFoundError(2, reason, _ACCOUNT.sub("//", path))
        elif is_index_file(path):
            yield from _indexed(filesystem, path, since)
            return
        else:
            found = [info]
    if not found:
        raise FileNotFoundError(2, "no file matches", path)
    for info in sorted(found, key=lambda one: log_number(one.path)):
        yield LogFile(info.path, info.size, filesystem)


def find_objects_below(uri: str) -> Iterator[LogFile]:
    """Yield the logs in a directory and its subdirectories, sorted by directory, then by number.

    For a file or a glob, the result is that of `find_objects`.

    Raises:
        FileNotFoundError: there is no such directory.
        UnsupportedFeature: neither pyarrow nor fsspec supports the URI.
    """
    filesystem, path = open_uri(uri)
    if has_magic(path) or filesystem.get_file_info(path).type == FileType.File:
        yield from find_objects(path, filesystem)
        return
    found = _logs_among(filesystem, filesystem.get_file_info(FileSelector(path, recursive=True)))
    for info in sorted(found, key=lambda one: (one.path.rpartition("/")[0], log_number(one.path))):
        yield LogFile(info.path, info.size, filesystem)


def _logs_among(filesystem: FileSystem, members: Iterable[FileInfo]) -> list[FileInfo]:
    """Return the files in directories that are logs, by their content."""
    files = {info.path: info for info in members if info.type == FileType.File}
    names = choose_logs(files, lambda name: begins_like_a_log(LogFile(name, files[name].size, filesystem)))
    return [files[name] for name in names]


def open_uri(uri: str) -> tuple[FileSystem, str]:
    """Return the filesystem of a URI, and the path on it.

    Wildcards are kept in the path; options after a `?` apply to the filesystem.

    Raises:
        UnsupportedFeature: neither pyarrow nor fsspec supports the URI.
    """
    if uri.startswith(("mysql://", "mariadb://")):
        hint = "read the logs in its directory, or copy them, as mysqlbinlog --raw --read-from-remote-server does"
        raise UnsupportedFeature("binlogio reads files and connects to no server", hint=hint)
    if uri.startswith(_WEB):
        return _open_by_fsspec(uri)
    options = _OPTIONS.search(uri)
    named, query = (uri[: options.start()], uri[options.start() :]) if options else (uri, "")
    folder, _, name = named.rpartition("/") if has_magic(named) else (named, "", "")
    try:
        filesystem, path = FileSystem.from_uri(folder + query)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        filesystem, path = _open_by_fsspec(folder + query)
    return filesystem, f"{path.rstrip('/')}/{name}" if name else path


def _open_by_fsspec(uri: str) -> tuple[FileSystem, str]:
    """Return the filesystem of fsspec for a URI, and the path on it.

    Raises:
        MissingPackage: fsspec, or the package of it for the URI, is not installed.
        UnsupportedFeature: fsspec does not support the URI.
        OSError: the server cannot be reached.
    """
    shown = _ACCOUNT.sub("//", uri)
    try:
        from fsspec.core import url_to_fs  # noqa: PLC0415 - an optional dependency

        found, path = url_to_fs(uri)
    except ImportError as exc:
        raise MissingPackage(f"cannot open {shown!r}: {exc}", extra="fsspec") from exc
    except ValueError as exc:
        raise UnsupportedFeature(f"cannot open {shown!r}: {exc}", hint=Hint.FILESYSTEM) from exc
    except OSError as exc:
        raise OSError(exc.errno, exc.strerror or str(exc), shown) from exc
    return _of_fsspec(found), path


def _of_fsspec(filesystem: AbstractFileSystem) -> FileSystem:
    return PyFileSystem(FSSpecHandler(filesystem))


def _matching(filesystem: FileSystem, pattern: str, since: str | None) -> Iterator[FileInfo]:
    folder = pattern.rpartition("/")[0]
    for info in filesystem.get_file_info(FileSelector(folder)):
        is_file = info.type == FileType.File and is_since(info.path, since)
        if is_file and fnmatchcase(info.path, pattern) and not is_beside_logs(info.path):
            yield info


def _indexed(filesystem: FileSystem, path: str, since: str | None) -> list[LogFile]:
    """Return the logs of an index file, which are in its directory.

    If a log is missing, the index is read again, as for local files: the server may have purged the log.

    Raises:
        FileNotFoundError: a log that the index lists is missing.
    """
    while True:
        names = [name for name in _read_index(filesystem, path) if is_since(name, since)]
        found = filesystem.get_file_info([_beside(path, name) for name in names])
        missing = next((name for name, info in zip(names, found, strict=True) if info.type != FileType.File), None)
        if missing is None:
            return [LogFile(info.path, info.size, filesystem) for info in found]
        if missing in _read_index(filesystem, path):
            raise FileNotFoundError(2, f"no such file; the index file {path} lists it", _beside(path, missing))


def _read_index(filesystem: FileSystem, path: str) -> list[str]:
    with filesystem.open_input_file(path) as file:
        return parse_index(file.read(), path)


def _beside(path: str, name: str) -> str:
    folder = path.rpartition("/")[0]
    beside = name.rpartition("/")[2] if name.startswith("/") else name.removeprefix("./")
    return f"{folder}/{beside}" if folder else beside
