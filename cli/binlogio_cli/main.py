"""The command `binlogio`: runs a subcommand and turns exceptions into messages and exit codes.

Each subcommand is a module in `binlogio_cli.commands`, imported when it is called, so that `binlogio --version` does
not load the library.

    exit code := 0 success  |  1 damaged log or conflict  |  2 wrong usage  |  3 not readable as a binary log
               | 4 I/O error  |  130 interrupted  |  143 terminated
"""

from __future__ import annotations

import gc
import importlib
import io
import os
import signal
import sys
from typing import TYPE_CHECKING, Any, Final

import click

from binlogio.errors import (
    BadMagic,
    BinlogError,
    ConditionError,
    ExportError,
    LoggingError,
    MissingKernel,
    MissingPackage,
    PositionError,
    UndecidedRows,
    UnsupportedFeature,
    WriterStateError,
)
from binlogio_cli.messages import ARGUMENTS, DAMAGE, OK, WRONG_USAGE, error_text, io_error_text, say
from binlogio_cli.start import INTERRUPTED, end_process

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from types import FrameType

UNREADABLE: Final = 3
IO_FAILED: Final = 4
TERMINATED: Final = 128 + signal.SIGTERM

# The first matching class gives the exit code.
_ERROR_CODES: Final[tuple[tuple[type[BinlogError], int], ...]] = (
    (BadMagic, UNREADABLE),
    (MissingPackage, WRONG_USAGE),
    (MissingKernel, WRONG_USAGE),
    (UndecidedRows, DAMAGE),
    (UnsupportedFeature, UNREADABLE),
    (LoggingError, WRONG_USAGE),
    (WriterStateError, WRONG_USAGE),
    (PositionError, WRONG_USAGE),
    (ConditionError, WRONG_USAGE),
    (ExportError, WRONG_USAGE),
    (BinlogError, DAMAGE),
)

COMMANDS: Final = {
    "copy": "Copy event groups into new logs: filter, cut, split, merge, decrypt, recompress.",
    "dump": "Print events and row changes as text, JSON or SQL.",
    "explain": "Show how a server logs statements: format, cache, flush, warnings.",
    "export": "Write row changes to Parquet, Arrow, CSV, JSON lines, DuckDB, Delta or Iceberg.",
    "grep": "Show the row changes whose values match a condition.",
    "history": "Show every change of a row in logs.",
    "index": "Make indexes of the keys in logs, for history.",
    "info": "Show server, times, GTIDs and format of logs.",
    "repair": "Make readable logs from damaged ones, and report what is lost.",
    "replay": "Apply binary logs to SQLite, MySQL or MariaDB (point-in-time recovery).",
    "schema": "Write the definitions of the tables in logs, or of a server's information_schema, as JSON.",
    "serve": "Serve logs as a source of replication, for replicas and tools that read from a server.",
    "sql": "Answer an SQL query over row changes, or over rows as they were at a moment.",
    "stats": "Show statistics of logs: tables, transactions, time.",
    "undo": "Reverse row changes (flashback), as SQL or as a binary log.",
    "verify": "Check whether an archive of logs is whole.",
    "write": "Write binary logs from a script, without a server.",
}


class LazyGroup(click.Group):
    """A click group that imports a command when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the command names, sorted."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command of this name, or None if it does not exist."""
        if cmd_name not in COMMANDS:
            return None
        gc.disable()  # imports create no garbage
        try:
            command: click.Command = importlib.import_module(f"binlogio_cli.commands.{cmd_name}").command
        finally:
            gc.freeze()
            gc.enable()
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the name of the command, the command, and its arguments; suggest one for an unknown name."""
        if args[0] not in COMMANDS and not args[0].startswith("-"):
            import difflib  # noqa: PLC0415 - for this message only

            if near := difflib.get_close_matches(args[0], COMMANDS):
                ctx.fail(f"No such command '{args[0]}'. Did you mean '{near[0]}'?")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands for --help without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(sorted(COMMANDS.items()))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keep the arguments, for the command to print another one."""
        ctx.meta[ARGUMENTS] = tuple(args)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; exit silently if the reader of its output has closed the pipe."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            _forget_stdout()
            return OK

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,  # noqa: FBT001, FBT002 - click's signature
        *,
        ends_process: bool = False,
        **extra: Any,
    ) -> Any:
        """Run the command and exit with the documented exit code; `ends_process`: nothing runs in the process then."""

        def run() -> Any:
            return super(LazyGroup, self).main(args, prog_name, complete_var, standalone_mode=False, **extra)

        if not standalone_mode:
            return run()
        code = Interrupts(ends_process=ends_process).exit_code(run)
        if "duckdb" not in sys.modules:  # DuckDB reports objects that are alive at exit
            gc.freeze()  # the interpreter skips the search for reference cycles at exit
        sys.exit(code)


class Interrupts:
    """Ends a command at SIGINT or SIGTERM with one exit code, even if the KeyboardInterrupt is lost.

    C libraries can discard it while they import a module or free an object, or replace it by another error. At SIGTERM
    the command removes its temporary files, as at SIGINT. A signal after the command ends the process in silence if
    there is nothing else to run in it.
    """

    def __init__(self, *, ends_process: bool) -> None:
        self._code: int | None = None  # that of the signal
        self._ends_process = ends_process

    def exit_code(self, run: Callable[[], Any]) -> int:
        """Run a command and return its exit code."""
        defaults: dict[int, Any] = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
        handled = {one: old for one, old in defaults.items() if signal.getsignal(one) in (old, end_process)}
        try:  # another handler stays: SIGINT is ignored after nohup
            code = _exit_code(lambda: self._checked(run, handled))
        finally:
            for one, default in handled.items():
                signal.signal(one, signal.SIG_DFL if self._ends_process else default)
        return self._code if code == INTERRUPTED and self._code is not None else code

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        self._code = TERMINATED if number == signal.SIGTERM else INTERRUPTED
        sys.unraisablehook = lambda _: None
        signal.default_int_handler(number, frame)

    def _checked(self, run: Callable[[], Any], handled: Iterable[int]) -> Any:
        try:
            for one in handled:
                signal.signal(one, self._interrupt)
            return run()
        except Exception as exc:
            if self._code is not None:
                raise KeyboardInterrupt from exc
            raise


def _exit_code(run: Callable[[], Any]) -> int:
    try:
        code = run()
        sys.stdout.flush()
    except click.ClickException as exc:
        (_without_hidden(exc) if isinstance(exc, click.NoSuchOption) else exc).show()
        return exc.exit_code
    except (click.Abort, KeyboardInterrupt):
        # If a KeyboardInterrupt leaves an `eval` or `exec` of a string (used by namedtuple, for example), CPython sets
        # a flag and later exits by the signal, regardless of the exit code. Another `exec` clears the flag.
        exec("")  # noqa: S102
        return INTERRUPTED
    except BrokenPipeError:  # raised by the last flush
        _forget_stdout()
        return OK
    except OSError as exc:
        say(io_error_text(exc))
        try:
            sys.stdout.flush()
        except OSError:  # otherwise the interpreter flushes again at exit, with exit code 120
            _forget_stdout()
        return IO_FAILED
    except BinlogError as exc:
        say(error_text(exc))
        return next(code for kind, code in _ERROR_CODES if isinstance(exc, kind))
    return code if isinstance(code, int) else OK


def _without_hidden(exc: click.NoSuchOption) -> click.NoSuchOption:
    """Return the error without suggestions of hidden options, which are only rejected or ignored."""
    shown = {
        name
        for param in (exc.ctx.command.params if exc.ctx is not None else ())
        if isinstance(param, click.Option) and not param.hidden
        for name in param.opts
    }
    possible = [name for name in exc.possibilities or () if name in shown]
    return click.NoSuchOption(exc.option_name, possibilities=possible, ctx=exc.ctx)


def _forget_stdout() -> None:
    """Redirect standard output to the null device, so that Python's flush at exit does not fail on the closed pipe."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):  # a stream without a file descriptor has nothing to flush
        return


def _open_closed_streams() -> None:
    """Replace closed standard streams: writing to standard output is then an error, and messages are discarded."""
    for name, mode in (("stdout", os.O_RDONLY), ("stderr", os.O_WRONLY)):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, mode), "w"))


class _LossyFile(io.FileIO):
    """Standard error: what cannot be written to it is lost, and the exit code stays that of the command."""

    def write(self, data: Any, /) -> int:
        """Write the bytes, or lose them; return their number."""
        try:
            return super().write(data)
        except OSError:
            return memoryview(data).nbytes


def _lose_messages_that_fail() -> None:
    """Replace standard error, if it is a file, by one whose write errors are ignored."""
    stream = sys.stderr
    buffer = getattr(stream, "buffer", None)
    raw = getattr(buffer, "raw", buffer)  # PYTHONUNBUFFERED leaves out the buffer
    if type(raw) is io.FileIO:  # not the console of Windows, nor the stream of a test
        lossy = io.BufferedWriter(_LossyFile(raw.fileno(), "w", closefd=False))
        sys.stderr = io.TextIOWrapper(lossy, encoding=stream.encoding, errors=stream.errors, line_buffering=True)


def _show_version(ctx: click.Context, _: click.Parameter, value: bool) -> None:  # noqa: FBT001 - click's signature
    if not value or ctx.resilient_parsing:
        return
    import binlogio  # noqa: PLC0415 - needed only here

    click.echo(f"binlogio {binlogio.__version__}")
    ctx.exit()


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-?", "--help"], "max_content_width": 110},
    epilog="Exit codes: 0 success, 1 damaged log or conflict with the target, 2 wrong usage, 3 input not readable as a"
    " binary log, 4 I/O error, 130 interrupted, 143 terminated.",
)
@click.option(
    "-V",
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version and exit.",
)
def cli() -> None:
    """Read, write, replay and undo the binary logs of MySQL and MariaDB, without a server."""


def main() -> None:
    """Run the program, which `binlogio_cli.start` has started."""
    _open_closed_streams()
    _lose_messages_that_fail()
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # by default, numpy starts one spinning thread per core
    cli(prog_name="binlogio", ends_process=True)
