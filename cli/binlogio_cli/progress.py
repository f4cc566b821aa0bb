"""Progress bar of a replay (`rich`): bytes of the logs, their rate, and the remaining time.

Not shown without `rich`, or if standard error is not a terminal.
"""

from __future__ import annotations

import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from binlogio.replay.transactions import LoggedTransaction

    Watch = Callable[[LoggedTransaction], None]


@contextmanager
def watched(files: Sequence[str], *, is_shown: bool = True) -> Iterator[Watch]:
    """Show the bar, and provide the function to be called with every transaction that is applied."""
    sizes = {Path(file).name: _size(file) for file in files}
    if not is_shown or not sys.stderr.isatty() or not all(sizes.values()):
        yield lambda _: None
        return
    try:
        from rich.console import Console  # noqa: PLC0415 - an extra
        from rich.progress import (  # noqa: PLC0415
            BarColumn,
            DownloadColumn,
            Progress,
            TimeRemainingColumn,
            TransferSpeedColumn,
        )
    except ImportError:
        yield lambda _: None
        return
    before, total = {}, 0
    for name, size in sizes.items():
        before[name], total = total, total + size
    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("replay", total=total)
        yield lambda transaction: progress.update(
            task, completed=before.get(transaction.end.file, 0) + transaction.end.offset
        )


def _size(file: str) -> int:
    path = Path(file)
    return path.stat().st_size if path.is_file() else 0
