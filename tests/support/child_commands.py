"""Commands in child processes with a closed stream, or limits of the module `resource`.

    subprocess.run("binlogio", preexec_fn=command("verify", log), ...)

No bytecode is written: with a limit on the size of files it would be incomplete, and break later processes.
"""

from __future__ import annotations

import os
import resource
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def command(*words: str, closed: int | None = None, limits: Mapping[int, int] | None = None) -> Callable[[], None]:
    """Return the function that a child process calls to execute a command."""

    def run() -> None:
        for name, most in (limits or {}).items():
            resource.setrlimit(name, (most, most))
        if closed is not None:
            os.close(closed)
        os.execv(sys.executable, [sys.executable, "-B", "-m", "binlogio", *words])  # noqa: S606

    return run
