"""What a reader and a writer can be told, as frozen values.

Knows names and defaults; does nothing. The server's variables stand in `server_variables` and are found here too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from binlogio.server_variables import VARIABLE_NAMES, ServerVariables

__all__ = ["DEFAULT_READ_OPTIONS", "VARIABLE_NAMES", "Position", "ReadOptions", "ServerVariables"]


class Position(NamedTuple):
    """A place in a log. `offset` in bytes from the start of the file, 64 bits: it never wraps, unlike the log_pos of events."""

    file: str
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """How to read.

    Args:
        verify_checksum: compare the CRC32 of every event with its bytes.
        start_offset: in the first file, skip events before this offset, which must be the start of an event.
        stop_offset: in the last file, stop before the first event at or behind this offset.
        open_payloads: give the events inside compressed transactions as well.
    """

    verify_checksum: bool = True
    start_offset: int | None = None
    stop_offset: int | None = None
    open_payloads: bool = True


DEFAULT_READ_OPTIONS: Final = ReadOptions()
