"""Options of readers and writers, as frozen values.

`server_variables` defines the server variables, which this module exports as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from binlogio.server_variables import VARIABLE_NAMES, ServerVariables

__all__ = [
    "DEFAULT_LIMITS",
    "DEFAULT_READ_OPTIONS",
    "VARIABLE_NAMES",
    "Limits",
    "Position",
    "ReadOptions",
    "ServerVariables",
]


class Position(NamedTuple):
    """A place in a log.

    `offset` in bytes from the start of the file, 64 bits: it never wraps, unlike the log_pos of events.
    """

    file: str
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The largest sizes that a log may claim, in bytes; an event beyond them is refused before memory is taken.

    Args:
        event_size: of an event as stored. No server replicates more than its max_allowed_packet, which is 1 GiB at
            most.
        opened_size: of what is compressed and has to be held as a whole once it is opened: a compressed event of
            MariaDB, a value of one of its compressed columns, an event inside a compressed transaction. A compressed
            transaction itself may be of any size.
    """

    event_size: int = 1 << 30
    opened_size: int = 1 << 28


DEFAULT_LIMITS: Final = Limits()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """How to read.

    Args:
        verify_checksum: compare the CRC32 of every event with its bytes.
        start_offset: in the first file, skip events before this offset, which must be the start of an event.
        stop_offset: in the last file, stop before the first event at or after this offset.
        open_payloads: return the events inside compressed transactions as well.
        limits: the largest sizes that are accepted.
    """

    verify_checksum: bool = True
    start_offset: int | None = None
    stop_offset: int | None = None
    open_payloads: bool = True
    limits: Limits = DEFAULT_LIMITS


DEFAULT_READ_OPTIONS: Final = ReadOptions()
