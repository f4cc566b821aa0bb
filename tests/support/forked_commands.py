"""Commands in processes that begin as copies of this one: they have imported what a new Python takes most time for.

    subprocess.run("binlogio", preexec_fn=command("verify", log), ...)

The process has the streams, signals and exit code of the program, and is killed, limited and waited for like another
one. Start `python -m binlogio` where imports, or the end of the interpreter, are what is tested.
"""

from __future__ import annotations

import faulthandler
import os
import resource
import signal
import sys
import traceback
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from binlogio_cli.main import COMMANDS
from binlogio_cli.start import main

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

HANDLERS: Final[dict[int, Any]] = {  # those of a new Python
    signal.SIGINT: signal.default_int_handler,
    signal.SIGTERM: signal.SIG_DFL,
    signal.SIGPIPE: signal.SIG_IGN,
    signal.SIGXFSZ: signal.SIG_IGN,
}
CLOSED_AT_EXIT: Final = 120  # the exit code of an interpreter that cannot write the rest of its output


def command(*words: str, closed: int | None = None, limits: Mapping[int, int] | None = None) -> Callable[[], None]:
    """Return the function that a child process calls instead of executing a program.

    It may have a closed stream, and limits of the module `resource`.
    """
    if words[0] in COMMANDS:
        import_module(f"binlogio_cli.commands.{words[0]}")

    def run() -> None:
        code = 1
        try:
            for name, most in (limits or {}).items():
                resource.setrlimit(name, (most, most))
            code = _run(words, closed)
        except BaseException:  # noqa: BLE001 - as the interpreter does
            traceback.print_exc()
        finally:
            os._exit(code)

    return run


def _run(words: tuple[str, ...], closed: int | None) -> int:
    faulthandler.disable()
    sys.dont_write_bytecode = (
        True  # with a limit on the size of files it would be incomplete, and break later processes
    )
    for number, handler in HANDLERS.items():
        signal.signal(number, handler)
    os.closerange(3, 1024)  # also the pipe on which `subprocess` waits for the program
    if closed is not None:
        os.close(closed)
    sys.stdin, sys.stdout, sys.stderr = map(_stream, range(3))
    sys.argv = ["binlogio", *words]
    code: object = 0
    try:
        main()
    except SystemExit as exc:
        code = exc.code
    try:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    except OSError:
        return CLOSED_AT_EXIT
    return code if isinstance(code, int) else 0


def _stream(number: int) -> Any:
    """Return a standard stream as Python opens it: None if it is closed."""
    try:
        os.fstat(number)
    except OSError:
        return None
    errors = "backslashreplace" if number == 2 else "surrogateescape"
    return open(number, "w" if number else "r", encoding="utf-8", errors=errors, closefd=False)
