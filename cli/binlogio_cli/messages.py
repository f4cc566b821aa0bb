"""Messages on standard error, and the errors that end a command with one sentence."""

from __future__ import annotations

import re
from typing import IO, TYPE_CHECKING, Any, Final

import click

from binlogio.errors import BinlogError, Surface
from binlogio_cli.quoting import safe

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from binlogio.reader import BinlogReader
    from binlogio.storage.keyring import Keyring
    from binlogio.storage.log_file import LogFile

# Exit codes.
OK: Final = 0
DAMAGE: Final = 1
WRONG_USAGE: Final = 2

ARGUMENTS: Final = "binlogio.arguments"
"""The key of the arguments of the program in `click.Context.meta`."""
NOTHING_SELECTED: Final = "no event group of the logs is selected by the options"


def error_text(exc: BinlogError) -> str:
    """Return the message of an error; its hint names command-line options."""
    exc.surface = Surface.COMMAND_LINE
    return str(exc)


class Refusal(click.ClickException):
    """A usage error with a message of one sentence, shown without the usage text."""

    exit_code = WRONG_USAGE

    def show(self, file: IO[Any] | None = None) -> None:
        """Show the message on standard error."""
        say(self.message)


def say(sentence: str) -> None:
    """Print a message on standard error."""
    click.echo(f"binlogio: {safe(sentence)}", err=True)


def say_gaps(logs: Sequence[LogFile], keyring: Keyring | None = None) -> int:
    """Report logs that are out of order or there twice, and missing logs. Returns the code: `DAMAGE` for any."""
    from binlogio.series.continuity import check_series  # noqa: PLC0415 - needed by some commands only

    gaps = check_series(logs, keyring, ignore_missing_logs=True)
    for gap in gaps:
        say(gap)
    return DAMAGE if gaps else OK


def say_missing(missing: Iterable[str]) -> int:
    """Report missing logs and GTIDs that were ignored. Returns the exit code: `DAMAGE` for any."""
    code = OK
    for one in missing:
        say(f"ignored, the result is incomplete: {one}")
        code = DAMAGE
    return code


def io_error_text(exc: OSError) -> str:
    """Return the message of an I/O error: file names and reason."""
    if exc.strerror is None:
        return str(exc)
    names = " -> ".join(str(name) or "''" for name in (exc.filename, exc.filename2) if name is not None)
    hint = _path_hint(str(exc.filename)) if isinstance(exc, FileNotFoundError) else ""
    return f"{names}: {exc.strerror}{hint}" if names else exc.strerror


def _path_hint(name: str) -> str:
    """Return what is wrong with a path that does not exist, if its form shows it."""
    if name.startswith("~"):
        return " (the shell replaces ~ only where it is not in quotes)"
    if re.match(r"[A-Za-z]:", name):
        return " (a path of Windows; in WSL, drive C is /mnt/c)"
    scheme = re.match(r"([a-z][a-z0-9+]+):/?(?=[^/])", name)
    if scheme is None:
        return ""
    return f" (did you mean {scheme[1]}://{'/' * (scheme[1] == 'file')}{name[scheme.end() :]}?)"


def say_torn_tails(reader: BinlogReader) -> None:
    """Report each log with an incomplete last event or event group, and the end of its last complete event group."""
    for (file, good), tail in reader.torn_tails:
        what = f" in {tail.size} bytes of an incomplete event" if tail.size else ""
        say(
            f"{file}: at {tail.offset}: the log was in use and ends{what} ({tail.reason});"
            f" the last complete event group ends at {good}"
            + (", and replicas roll back what follows" if file != reader.files[-1] and good < tail.offset else "")
        )
