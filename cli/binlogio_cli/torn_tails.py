"""Message about logs that were in use and end inside an event, which is not an error.

Torn tails are found by `binlogio.format.framing`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlogio_cli.main import say

if TYPE_CHECKING:
    from binlogio.reader import BinlogReader


def say_torn_tails(reader: BinlogReader) -> None:
    """Print where the last complete event group ends, for each log with a torn tail."""
    for (file, last_good_offset), tail in reader.torn_tails:
        say(
            f"{file}: at {tail.offset}: the log was in use and ends in {tail.size} bytes of an incomplete event ({tail.reason});"
            f" the last complete event group ends at {last_good_offset}"
        )
