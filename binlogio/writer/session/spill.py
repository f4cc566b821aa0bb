"""The part of a cache that does not fit memory: frames in a temporary file that has no name.

Knows the file and where its frames begin. What goes there is `cache`'s to say.
"""

from __future__ import annotations

import tempfile
from typing import IO, TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator


class SpillFile(Protocol):
    """Where frames can be put and read again. Every method may raise OSError."""

    def write(self, offset: int, data: bytes) -> None:
        """Put bytes at an offset, which is never behind the end."""

    def read(self, offset: int, size: int) -> bytes:
        """The bytes at an offset."""

    def close(self) -> None:
        """Throw the file away."""


class TemporaryFile:
    """A `SpillFile` in the folder for temporary files."""

    def __init__(self) -> None:
        self._file: IO[bytes] = tempfile.TemporaryFile(prefix="ML", buffering=0)  # noqa: SIM115 - closed with the cache

    def write(self, offset: int, data: bytes) -> None:
        """Put bytes at an offset."""
        self._file.seek(offset)
        view = memoryview(data)
        while view:
            view = view[self._file.write(view) :]

    def read(self, offset: int, size: int) -> bytes:
        """The bytes at an offset.

        Raises:
            OSError: the file is shorter.
        """
        self._file.seek(offset)
        parts = bytearray()
        while len(parts) < size:
            part = self._file.read(size - len(parts))
            if not part:
                raise OSError("the temporary file of a cache is shorter than what was written to it")
            parts += part
        return bytes(parts)

    def close(self) -> None:
        """Throw the file away."""
        self._file.close()


class FrameFile:
    """Frames one behind the other in a `SpillFile`; a `binlogio.writer.log.group.SpilledFrames` together with those in memory."""

    def __init__(self, file: SpillFile) -> None:
        self._file = file
        self._ends: list[int] = []

    @property
    def size(self) -> int:
        """The sum of the frames' sizes, in bytes."""
        return self._ends[-1] if self._ends else 0

    def __len__(self) -> int:
        return len(self._ends)

    def __iter__(self) -> Iterator[bytes]:
        start = 0
        for end in self._ends:
            yield self._file.read(start, end - start)
            start = end

    def extend(self, frames: list[bytes]) -> None:
        """Put frames behind the last one; where it raises, none of them is there."""
        end = self.size
        ends = []
        self._file.write(end, b"".join(frames))
        for frame in frames:
            end += len(frame)
            ends.append(end)
        self._ends += ends

    def truncate(self, count: int) -> None:
        """Keep the first `count` frames."""
        del self._ends[count:]

    def close(self) -> None:
        """Throw the file away."""
        self._file.close()
