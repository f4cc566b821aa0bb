"""The entry point of the program: a SIGINT while Python imports its modules ends it in silence, as one later does.

`binlogio_cli.main` has the program. Its `Interrupts` replaces the handler when the command begins.
"""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import FrameType

INTERRUPTED = 128 + signal.SIGINT  # the shell's exit code for a program that SIGINT ended


def end_process(number: int, frame: FrameType | None) -> None:
    """End the process with the exit code of SIGINT: there is no output yet, and nothing to remove."""
    os._exit(INTERRUPTED)


def main() -> None:
    """Run the program."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # it is ignored after nohup
        signal.signal(signal.SIGINT, end_process)
    from binlogio_cli.main import main as run  # noqa: PLC0415 - imports what takes time

    run()
