"""Colours of the text output of `dump` on a terminal."""

from __future__ import annotations

import os
import re
import sys
from typing import Final

from binlogio_cli.output import Output

# Coloured parts of the text output: event headers, operations.
_COLOURED: Final = (
    rb"(?m)^(?:(?P<dim># at \d.*|#\d{6} [^\t\n]*)(?P<bold>\t[^:\t\n]*)?"
    rb"|(?P<green>### INSERT INTO.*)|(?P<yellow>### UPDATE.*)|(?P<red>### DELETE FROM.*))"
)
_CODES: Final = {"dim": b"\x1b[2m", "bold": b"\x1b[1m", "green": b"\x1b[32m", "yellow": b"\x1b[33m", "red": b"\x1b[31m"}
_PLAIN: Final = b"\x1b[0m"


class ColouredOutput(Output):
    """Output that adds colours to the text of `dump`, which has no control characters itself."""

    def write(self, text: str | bytes | memoryview) -> None:
        """Write complete lines with colours."""
        super().write(
            re.sub(_COLOURED, _with_colours, text.encode("utf-8", self._errors) if isinstance(text, str) else text)
        )


def _with_colours(match: re.Match[bytes]) -> bytes:
    return b"".join(_CODES[name] + text + _PLAIN for name, text in match.groupdict().items() if text)


def is_coloured(choice: str) -> bool:
    """Return whether to use colours: `always`, `never`, or `auto` (standard output is a terminal, no NO_COLOR)."""
    if choice == "auto":
        return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return choice == "always"
