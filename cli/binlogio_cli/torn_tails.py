"""What is said of logs that were in use: they may end in the middle of an event, which is worth a word, and no error.

Knows the sentence. What a torn tail is, is `binlogio.format.framing`'s business.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlogio_cli.main import say

if TYPE_CHECKING:
    from binlogio.reader import BinlogReader


def say_torn_tails(reader: BinlogReader) -> None:
    """Tell where whole event groups end, for each log that has more than those."""
    for (file, last_good_offset), tail in reader.torn_tails:
        say(
            f"{file}: at {tail.offset}: the log was in use and ends in {tail.size} bytes that are no whole event ({tail.reason});"
            f" the last whole event group ends at {last_good_offset}"
        )
