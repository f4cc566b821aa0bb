"""The output of a command: standard output or a file; text always in UTF-8.

A file is written under a temporary name in the same directory and renamed when it is complete. Inputs are never
overwritten; other existing files are overwritten only with `--force`.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, BinaryIO, Final, Protocol, TypeVar, cast

import click

from binlogio.errors import BinlogError
from binlogio.storage.log_index import input_of
from binlogio.storage.new_file import new_file, open_device
from binlogio_cli.messages import Refusal
from binlogio_cli.options import AliasedOption, OutputPath

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from binlogio.selection.selection import Selection
    from binlogio_cli.dump.event_writer import EventWriter

STDOUT: Final = "-"
_Command = TypeVar("_Command", bound=Callable[..., Any])


def output_option(
    help: str = "Write to this new file instead of standard output.",  # noqa: A002 - as in click
    *,
    metavar: str = "FILE",
    aliases: Collection[str] = ("-r", "--result-file"),
    is_directory: bool = False,
    required: bool = False,
) -> Callable[[_Command], _Command]:
    """Return the option --output; the aliases are not in its help."""
    return click.option(
        "-o",
        "--output",
        "output",
        cls=AliasedOption,
        aliases=dict.fromkeys(aliases),
        type=OutputPath(file_okay=not is_directory),
        required=required,
        metavar=metavar,
        help=help,
    )


new_logs_option: Final = output_option(
    "Write one new log, this file; or, if PATH is a directory or ends with /, numbered logs and their index file.",
    metavar="PATH",
)
out_option: Final = click.option("--out", type=OutputPath(file_okay=False), hidden=True)
force_option: Final = click.option("--force", is_flag=True, help="Replace the output file if it exists.")
quiet_option: Final = click.option(
    "-q", "--quiet", "--no-progress", "quiet", is_flag=True, help="Do not show a progress bar."
)


def log_output(output: str | None, out: str | None) -> tuple[str, bool]:
    """Return the output of a command that writes logs, and whether it is a directory, as that of --out always is.

    Raises:
        UsageError: there is none or both, or it is standard output.
    """
    if (output is None) == (out is None):
        raise click.UsageError("give --output: a file for one new log, or a directory (with / at the end)")
    if output == STDOUT:
        raise click.UsageError("--output -: a log cannot go to standard output, because its head is written last")
    place = output or out or ""
    return str(Path(place)), output is None or place.endswith(os.sep) or Path(place).is_dir()


class Output:
    """Text for a binary stream, in UTF-8 in every locale.

    `errors` is the encoding error handler for surrogates: `surrogateescape` writes the original bytes.
    """

    def __init__(self, stream: BinaryIO, errors: str = "backslashreplace") -> None:
        self._stream = stream
        self._errors = errors

    def write(self, text: str | bytes | memoryview) -> None:
        """Write `text` unchanged; bytes are UTF-8."""
        self._stream.write(text.encode("utf-8", self._errors) if isinstance(text, str) else text)

    def write_all(self, chunks: Iterable[str | bytes | memoryview]) -> None:
        """Write the chunks as they arrive."""
        for chunk in chunks:
            self.write(chunk)

    def flush(self) -> None:
        """Flush, so that this output precedes later output on standard error."""
        self._stream.flush()


@dataclass(frozen=True, slots=True)
class OutputFile:
    """The destination of output: the file `path`, or standard output if it is None. Create it with `checked`."""

    path: str | None
    replaces: bool

    @classmethod
    def checked(
        cls, path: str | None, inputs: Iterable[str | None], *, force: bool, has_index: bool = True
    ) -> OutputFile:
        """Return the output `path` of a command that reads `inputs`.

        `-` is standard input; names that are not local files are ignored. `has_index` is False for a new index file.

        Raises:
            Refusal: the output is one of the inputs or belongs to their logs, or it exists and `force` is not set.
            OSError: its directory does not exist.
        """
        name, inputs = None if path == STDOUT else path, list(inputs)
        found = _stat(name) if name is not None else _stat_stream(sys.stdout)
        if name is not None:
            refuse_input(name, inputs, has_index=has_index)
        if found is not None and stat.S_ISREG(found.st_mode):
            for one in inputs:
                other = _stat_stream(sys.stdin) if one == STDOUT else _stat(one)
                if other is not None and os.path.samestat(found, other):
                    what = "standard output" if name is None else name
                    raise Refusal(f"{what} is the input {one}: the output must be another file")
        if name is not None and (name.endswith(os.sep) or (found is not None and stat.S_ISDIR(found.st_mode))):
            raise Refusal(f"{name} is a directory, expected the name of a new file")
        if name is not None and os.path.lexists(name) and _is_replaced(found) and not force:
            raise Refusal(f"{name} exists: give --force to replace it")
        if name is not None and found is None:
            _check_directory(name)
        return cls(name, force)

    @contextlib.contextmanager
    def open(self, *, keeps_after: type[BaseException] | tuple[type[BaseException], ...] = ()) -> Iterator[IO[bytes]]:
        """Provide the stream to write to.

        The file is renamed to its name after the `with` block. After an exception it is kept only if the exception is
        of a class in `keeps_after` and something was written.

        Raises:
            OSError: the file cannot be written; FileExistsError if another program has created it meanwhile.
        """
        if self.path is None:
            sys.stdout.flush()
            yield sys.stdout.buffer
            return
        if not _is_replaced(_stat(self.path)):
            with open_device(Path(self.path)) as device:
                yield device
            return
        kept: BaseException | None = None
        target = Path(os.path.realpath(self.path))  # a symbolic link is kept; its target is replaced
        with new_file(target, replaces=self.replaces, shown=Path(self.path)) as file:
            try:
                yield file
            except keeps_after as exc:
                if not file.tell():
                    raise
                kept = exc
        if kept is not None:
            raise kept


def refuse_input(name: str, inputs: Iterable[str | None], *, has_index: bool = True) -> None:
    """Check that an output is not one of the inputs, nor an index or state file beside their logs.

    Raises:
        Refusal: it is.
    """
    one = input_of(name, inputs, has_index=has_index)
    if one is not None:
        what = "is" if Path(name).samefile(one) else "belongs to the logs of"
        raise Refusal(f"{name} {what} the input {one}: the output must be another file")


def _check_directory(name: str) -> None:
    """Raise the OSError of a new file before the work, if its directory does not exist."""
    try:
        os.stat(f"{Path(os.path.realpath(name)).parent}/")  # noqa: PTH116 - a path has no / at its end
    except OSError as exc:
        missing = isinstance(exc, FileNotFoundError)
        raise OSError(exc.errno, f"{exc.strerror}{' (make its directory first)' * missing}", name) from exc


def _is_replaced(found: os.stat_result | None) -> bool:
    """Return whether the output is a new or regular file; devices and pipes are not replaced but opened for writing."""
    return found is None or stat.S_ISREG(found.st_mode)


def _stat(path: str | None) -> os.stat_result | None:
    if path is None:
        return None
    try:
        return os.stat(path)  # noqa: PTH116 - may be a URI
    except (OSError, ValueError):
        return None


def _stat_stream(stream: Any) -> os.stat_result | None:
    try:
        return os.fstat(stream.fileno())
    except (OSError, ValueError, AttributeError):  # a stream without a file descriptor
        return None


@contextlib.contextmanager
def open_output(output: OutputFile, errors: str = "backslashreplace", kind: type[Output] = Output) -> Iterator[Output]:
    """Provide an `Output`, or the subclass `kind`, of a destination; `errors` as for `Output`.

    If the input is damaged, the file keeps the output before the damage, as standard output does.

    Raises:
        OSError: the file cannot be written.
    """
    with output.open(keeps_after=BinlogError) as stream:
        yield kind(cast("BinaryIO", stream), errors)


class EventDump(Protocol):
    """An output format of `dump`."""

    @property
    def session(self) -> Any:
        """The session state that the output has set; set it to a copy when later text is discarded."""

    def event(self, event: object) -> Iterator[str | bytes]:
        """Yield the text of one event, in several chunks if it may be large."""

    def end_statement(self) -> None:
        """End the rows of a statement, whether they were written or not."""

    def discard(self, statement: object = None) -> None:
        """Discard the data kept for a statement that is not written; None: for all incomplete statements."""

    def writer(self, selection: Selection) -> EventWriter | None:
        """Return the kernel's event formatter for this format; None if there is none."""

    def foot(self) -> Iterator[str]:
        """Yield the text after the last event."""
