"""Where a command's output goes: standard output or a file, always in UTF-8.

Knows streams; knows nothing of what is written.
"""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class Output:
    """Text to a binary stream. UTF-8 whatever the locale says, so that a log's text is never lost to it.

    `errors` says what becomes of bytes that are no text, which stand in it as surrogates: `surrogateescape` gives them back.
    """

    def __init__(self, stream: BinaryIO, errors: str = "backslashreplace") -> None:
        self._stream = stream
        self._errors = errors

    def write(self, text: str) -> None:
        """Write `text` as it is."""
        self._stream.write(text.encode("utf-8", self._errors))

    def write_all(self, chunks: Iterable[str]) -> None:
        """Write the chunks one after the other, as they come."""
        for chunk in chunks:
            self.write(chunk)

    def flush(self) -> None:
        """Hand everything on, so that it stands before what goes to standard error."""
        self._stream.flush()


@contextlib.contextmanager
def open_output(path: str | None, errors: str = "backslashreplace") -> Iterator[Output]:
    """The file `path`, or standard output where it is None or `-`; `errors` as for `Output`.

    Raises:
        OSError: the file cannot be written.
    """
    if path is None or path == "-":
        sys.stdout.flush()
        yield Output(sys.stdout.buffer, errors)
        return
    with Path(path).open("wb") as file:
        yield Output(file, errors)


class Dump(Protocol):
    """A way to show events. Every method gives text, ready to be written."""

    def event(self, event: object) -> Iterator[str]:
        """One event; in several chunks where it may be large."""

    def foot(self) -> Iterator[str]:
        """What stands behind the last event."""
