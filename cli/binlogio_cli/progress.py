"""Progress bar (`rich`): bytes read, rate, and remaining time, with further lines below it.

It is shown after two seconds, if standard error is a terminal.
"""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from rich.console import RenderableType

    from binlogio.replay.steps import LoggedTransaction

    Watch = Callable[[LoggedTransaction], None]
    WatchBytes = Callable[[str, int], None]


DELAY_SECONDS: Final = 2.0


@contextmanager
def watched(
    files: Sequence[str], *, is_shown: bool = True, lines: Callable[[], Sequence[str]] = tuple
) -> Iterator[Watch]:
    """Show the bar and `lines` below it; provide the function to call with every applied transaction."""
    with watched_bytes([Path(file).name for file in files], _sizes(files), is_shown=is_shown, lines=lines) as watch:
        yield lambda transaction: watch(transaction.end.file, transaction.end.offset)


@contextmanager
def watched_logs(files: Sequence[str], *, is_shown: bool = True) -> Iterator[WatchBytes]:
    """Show the bar; provide the function to call with a log name and the offset reached."""
    with watched_bytes(files, _sizes(files), is_shown=is_shown) as watch:
        yield watch


@contextmanager
def watched_bytes(
    names: Sequence[str], sizes: Sequence[int], *, is_shown: bool, lines: Callable[[], Sequence[str]] = tuple
) -> Iterator[WatchBytes]:
    """Show the bar for logs of these names and sizes; provide the function to call with a name and an offset."""
    if not is_shown or not sys.stderr.isatty() or not all(sizes):
        yield lambda _name, _offset: None
        return
    from rich.console import Console  # noqa: PLC0415 - slow to import
    from rich.progress import (  # noqa: PLC0415
        BarColumn,
        DownloadColumn,
        Progress,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )
    from rich.text import Text  # noqa: PLC0415

    class Bar(Progress):
        def get_renderables(self) -> Iterable[RenderableType]:
            yield from super().get_renderables()
            yield from (Text(line, no_wrap=True, overflow="ellipsis") for line in lines())

    before = dict(zip(names, accumulate(sizes, initial=0), strict=False))
    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    progress = Bar(*columns, console=Console(stderr=True), transient=True)
    task = progress.add_task("logs", total=sum(sizes))
    starts = time.monotonic() + DELAY_SECONDS

    def watch(name: str, offset: int) -> None:
        if progress.live.is_started:
            progress.update(task, completed=before.get(name, 0) + offset)
        elif time.monotonic() >= starts:
            progress.start()

    try:
        yield watch
    finally:
        progress.stop()


def _sizes(files: Sequence[str]) -> list[int]:
    return [_size(file) for file in files]


def _size(file: str) -> int:
    path = Path(file)
    return path.stat().st_size if path.is_file() else 0
