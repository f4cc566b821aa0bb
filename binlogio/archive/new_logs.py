"""Writes new logs: files that get their final names when all of them are complete.

If the directory is new, it has a temporary name until the logs are complete. In an existing directory the logs have
temporary names, and `LogIndex` publishes them. An existing file is replaced only on request, an input file never.

    logs := file | directory of NAME.000001, NAME.000002, ...  NAME.index
"""

from __future__ import annotations

import os
import zlib
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from binlogio.constants import CHECKSUM_SIZE, EVENT_SIZE_BYTES, HEADER_SIZE, LOG_POS_BYTES
from binlogio.errors import WriterStateError
from binlogio.storage.index_file import INDEX_SUFFIX, is_index_file, log_number, next_log_name
from binlogio.storage.log_index import LogIndex, input_of, new_name
from binlogio.storage.log_storage import CRASH_SAFE_SUFFIX, LocalStorage
from binlogio.storage.new_file import (
    check_regular,
    give_name,
    local_output,
    locked_side,
    make_directory,
    missing_folders,
    new_file,
    open_side,
    rename_new,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from binlogio.archive.event_batches import LargeBody
    from binlogio.writer.log.encrypted_storage import LogCipher

_PIECE_SIZE: Final = 1 << 20
_ROOM: Final = bytes(CHECKSUM_SIZE)


class NewLog:
    """A log being written. `size` is in bytes, including buffered data; `groups` is a counter for the caller."""

    def __init__(self, path: Path, temporary: Path, *, has_checksum: bool) -> None:
        self.path: Final = path
        self.temporary: Final = temporary
        self.has_checksum: Final = has_checksum
        self.size = 0
        self.groups = 0
        self._waiting = bytearray()
        self._file = open_side(temporary, path, buffering=_PIECE_SIZE)
        self._cipher: LogCipher | None = None

    @property
    def name(self) -> str:
        """The name of the file, without its directory."""
        return self.path.name

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Append bytes unchanged."""
        self._write_waiting()
        self._put(data, self.size)
        self.size += len(data)

    def append(self, events: bytearray | memoryview, *, is_placed: bool = False) -> None:
        """Append whole events; their positions and checksums are written in place, into `events`.

        With `is_placed`, the events already have the right positions and checksums.
        """
        if not is_placed:
            place_events(events, self.size, has_checksum=self.has_checksum)
        self.write(events)

    def append_large(self, header: memoryview, body: LargeBody, size: int, *, is_placed: bool) -> None:
        """Append an event of `size` bytes, of which the body is read; the log has checksums as its source has.

        With `is_placed`, it already has the right position and checksum.
        """
        placed = bytearray(header)
        if not is_placed:
            placed[LOG_POS_BYTES] = ((self.size + size) & 0xFFFFFFFF).to_bytes(4, "little")
        checksum = zlib.crc32(placed)
        self.write(placed)
        for piece in body:
            if not is_placed:
                checksum = zlib.crc32(piece, checksum)
            self.write(piece)
        self.write(body.stored if is_placed or not self.has_checksum else checksum.to_bytes(CHECKSUM_SIZE, "little"))

    def append_bare(self, frames: Iterable[bytes]) -> None:
        """Append bare events: positions and, if the log has them, checksums are added."""
        waiting, before = self._waiting, len(self._waiting)
        for frame in frames:
            if len(frame) >= _PIECE_SIZE:
                self.size += len(waiting) - before
                self._append_one(memoryview(frame))
                waiting, before = self._waiting, 0
            elif self.has_checksum:
                waiting += frame[: EVENT_SIZE_BYTES.start]
                waiting += (len(frame) + CHECKSUM_SIZE).to_bytes(4, "little")
                waiting += frame[EVENT_SIZE_BYTES.stop :]
                waiting += _ROOM
            else:
                waiting += frame
            if len(waiting) >= _PIECE_SIZE:
                self.size += len(waiting) - before
                self._write_waiting()
                waiting, before = self._waiting, 0
        self.size += len(waiting) - before

    def _append_one(self, frame: memoryview) -> None:
        """Append a large bare event, without a copy of it."""
        self._write_waiting()
        head = bytearray(frame[:HEADER_SIZE])
        size = len(frame) + (CHECKSUM_SIZE if self.has_checksum else 0)
        head[EVENT_SIZE_BYTES] = size.to_bytes(4, "little")
        head[LOG_POS_BYTES] = ((self.size + size) & 0xFFFFFFFF).to_bytes(4, "little")
        self.write(head)
        self.write(frame[HEADER_SIZE:])
        if self.has_checksum:
            self.write(zlib.crc32(frame[HEADER_SIZE:], zlib.crc32(head)).to_bytes(CHECKSUM_SIZE, "little"))

    def _write_waiting(self) -> None:
        """Write the buffered bare events, with positions and checksums."""
        waiting = self._waiting
        if waiting:
            place_events(waiting, self.size - len(waiting), has_checksum=self.has_checksum)
            self._put(waiting, self.size - len(waiting))
            self._waiting = bytearray()

    def _put(self, data: bytes | bytearray | memoryview, offset: int) -> None:
        self._file.write(data if self._cipher is None else self._cipher.encrypted(offset, data))

    def encrypt(self, cipher: LogCipher, before: bytes = b"") -> None:
        """Encrypt all later data. `before` is an encryption header, which does not count in `size`."""
        self._write_waiting()
        self._file.write(before)
        self._cipher = cipher

    def truncate(self, size: int) -> None:
        """Truncate the log to `size` bytes."""
        self._write_waiting()
        self._file.flush()
        extra_size = 0 if self._cipher is None else self._cipher.extra_size
        self._file.truncate(extra_size + size)
        self._file.seek(extra_size + size)
        self.size = size

    def close(self) -> None:
        """Write buffered data, sync the file to disk, and close it."""
        if not self._file.closed:
            self._write_waiting()
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()

    def discard(self) -> None:
        """Close the file, which will be removed."""
        with suppress(OSError):
            self._file.close()


class NewLogs:
    """The new logs of a copy, in order. Create it with `in_file` or `in_directory`, and use it in a `with` block.

    At the end of the block all logs get their final names, or none of them; in an existing directory, all of one
    basename. After an exception they are deleted, and so is the directory if it was created for them.
    """

    def __init__(self, directory: Path, first: str, *, is_one: bool, replaces: bool, inputs: Iterable[str]) -> None:
        self.logs: Final[list[NewLog]] = []
        self.is_one: Final = is_one
        self._directory = directory
        self._next = first
        self._replaces = replaces
        self._inputs = tuple(inputs)
        self._new: tuple[Path, Path] | None = None  # temporary name and name of the directory, if it is new
        self._sides = ExitStack()  # removes the temporary file or directory
        self._folder = directory  # that of the temporary files
        self._indexes: dict[str, LogIndex] = {}

    @classmethod
    def in_file(cls, path: str, *, replaces: bool = False, inputs: Iterable[str] = ()) -> NewLogs:
        """Return an object that writes one log, the file `path`.

        Raises:
            WriterStateError: the file exists, and `replaces` is not set, or it is one of the inputs.
        """
        target = Path(os.path.realpath(local_output(path)))
        logs = cls(target.parent, target.name, is_one=True, replaces=replaces, inputs=inputs)
        logs._check(target)
        return logs

    @classmethod
    def in_directory(cls, path: str, first: str, *, replaces: bool = False, inputs: Iterable[str] = ()) -> NewLogs:
        """Return an object that writes numbered logs and their index into a directory, which is created if necessary.

        The beginning of the `with` block completes or removes logs that a stopped command has left there. It raises
        WriterStateError if the index or the first log exists and may not be replaced, or if another writer has them
        open.

        Args:
            path: the directory.
            first: the file name of the first log, which ends in a number.
            replaces: replace existing files.
            inputs: names of files that must not be replaced.

        Raises:
            BinlogFormatError: `first` does not end in a number.
        """
        next_log_name(first)
        return cls(local_output(path), first, is_one=False, replaces=replaces, inputs=inputs)

    @property
    def next_name(self) -> str:
        """The file name of the next log."""
        return self._next

    def name_next(self, name: str) -> None:
        """Set the file name of the next log, instead of the next number.

        Raises:
            BinlogFormatError: the name does not end in a number.
            WriterStateError: the index file of its series exists already.
        """
        next_log_name(name)
        self._next = name
        self._index(name)

    def _index(self, name: str) -> LogIndex:
        """Return the index of a log's series; it is locked and recovered first.

        Raises:
            WriterStateError: it exists and may not be replaced, or another writer has the logs open.
        """
        stem = log_number(name)[0]
        if stem not in self._indexes:
            self._check(self._directory / (stem + INDEX_SUFFIX))
            index = LogIndex(stem, LocalStorage(self._folder))
            index.lock()
            self._indexes[stem] = index
            index.recover()
        return self._indexes[stem]

    def begin(self, *, has_checksum: bool) -> NewLog:
        """Begin the next log, and close the previous one.

        Raises:
            WriterStateError: its file exists, or is one of the inputs, or two new logs have this name.
            OSError: the file cannot be created.
        """
        if self.logs:
            self.logs[-1].close()
        path = self._directory / self._next
        if not self.is_one:
            self._index(path.name)
            self._next = next_log_name(path.name)
        self._check(path)
        if any(log.path == path for log in self.logs):
            raise WriterStateError("two new logs have the same name", file=str(path))
        temporary = self._sides.enter_context(locked_side(path)) if self.is_one else self._folder / new_name(path.name)
        log = NewLog(path, temporary, has_checksum=has_checksum)
        self.logs.append(log)
        return log

    def __enter__(self) -> NewLogs:
        with self._cleared_on_error():
            if not self.is_one:
                self._open_directory()
            return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with self._cleared_on_error():
            if kind is None:
                self._publish()
        self._clear()

    @contextmanager
    def _cleared_on_error(self) -> Iterator[None]:
        """Remove the new files after an error, which names the final name of a file or of the directory."""
        try:
            yield
        except OSError as exc:
            self._clear()
            name = Path(str(exc.filename or "")).name.removeprefix(".").removesuffix(CRASH_SAFE_SUFFIX)
            is_file = self.is_one or log_number(name)[1] >= 0 or is_index_file(name)
            file = self._directory / name if is_file else self._directory
            raise OSError(exc.errno, exc.strerror, str(file)) from exc
        except BaseException:
            self._clear()
            raise

    def _open_directory(self) -> None:
        missing = missing_folders(self._directory)
        if missing:
            self._new = self._sides.enter_context(locked_side(missing[-1], is_directory=True)), missing[-1]
            self._folder = self._new[0] / self._directory.relative_to(missing[-1])
            make_directory(self._folder)
        self._index(self._next)
        self._check(self._directory / self._next)

    def _publish(self) -> None:
        for log in self.logs:
            log.close()
            if self.is_one:
                give_name(log.temporary, log.path, replaces=self._replaces)
        for stem, index in list(self._indexes.items()):
            names = sorted((log.name for log in self.logs if log_number(log.name)[0] == stem), key=log_number)
            if names and self._replaces:
                index.overwrite(names)
            elif names:
                index.publish(names, self._rename(names), names)
            self._indexes.pop(stem).unlock()
        if self._new is not None:
            give_name(*self._new, replaces=True)  # fails if the directory exists and is not empty

    def _rename(self, names: Iterable[str]) -> Iterator[str]:
        for name in names:
            yield name
            rename_new(self._folder / new_name(name), self._folder / name)

    def _clear(self) -> None:
        """Close and remove what was not published."""
        for log in self.logs:
            log.discard()
        for index in self._indexes.values():
            with suppress(OSError):
                index.recover()
            index.unlock()
        self._sides.close()

    def _check(self, path: Path) -> None:
        """Raise WriterStateError if a file of this name exists and may not be replaced."""
        if not os.path.lexists(path):
            return
        one = input_of(path, self._inputs)
        if one is not None:
            raise WriterStateError(
                "the output is one of the inputs", file=str(path), found=one, hint="choose another one"
            )
        check_regular(path)
        if not self._replaces:
            raise WriterStateError("the output exists already", file=str(path), hint="give --force to replace it")


def write_index(path: Path, names: Iterable[str], *, replaces: bool) -> None:
    """Write an index file that lists logs in its own directory.

    Raises:
        FileExistsError: the file exists, and `replaces` is not set.
        OSError: the file cannot be written.
    """
    with new_file(path, replaces=replaces) as file:
        file.write(b"".join(b"./%b\n" % os.fsencode(name) for name in names))


def place_events(events: bytearray | memoryview, offset: int, *, has_checksum: bool) -> None:
    """Write log_pos and checksum into whole events, in place, for events that begin at `offset` of a log."""
    from binlogio._kernel.event_scanner import stamp_events  # noqa: PLC0415 - the kernel is optional

    stamp_events(events, offset, checksum=has_checksum)
