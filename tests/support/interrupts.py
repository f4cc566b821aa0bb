"""A trace function that raises KeyboardInterrupt at a line of binlogio."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType


class InterruptAfter:
    """Interrupts at one of the lines of binlogio that are executed after something is there."""

    def __init__(self, is_there: Callable[[str], object], lines: int) -> None:
        self.lines = lines  # to the interrupt; below 0: it was raised
        self._is_there: Callable[[str], object] | None = is_there  # takes the source file

    def __call__(self, frame: FrameType, event: str, _: object) -> InterruptAfter | None:
        """Take an event of the interpreter."""
        if "binlogio" not in frame.f_code.co_filename:
            return None
        if event == "line" and self.lines >= 0 and self._has_begun(frame.f_code.co_filename):
            self.lines -= 1
            if self.lines < 0:
                raise KeyboardInterrupt
        return self

    def _has_begun(self, source: str) -> bool:
        if self._is_there is not None and self._is_there(source):
            self._is_there = None
        return self._is_there is None
