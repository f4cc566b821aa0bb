"""What a reader and a writer can be told, as frozen values with the server's names.

Knows names, defaults and ranges; does nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Final, NamedTuple

from binlogio.errors import UnsupportedFeature


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerVariables:
    """The server's variables that shape a log, with the server's names, defaults and ranges (sql/sys_vars.cc).

    Sizes are in bytes. A value out of range is refused, not clipped as the server does.
    """

    server_version: str = "9.7.0"
    server_id: int = 1
    server_uuid: str | None = None
    binlog_format: str = "ROW"
    binlog_row_image: str = "FULL"
    binlog_row_metadata: str = "FULL"
    binlog_rows_query_log_events: bool = False
    binlog_checksum: str = "CRC32"
    binlog_row_event_max_size: int = 8192
    max_binlog_size: int = 1 << 30
    sync_binlog: int = 1
    gtid_mode: str = "ON"

    def __post_init__(self) -> None:
        """Refuse what the server would not take."""
        for name, allowed in _CHOICES.items():
            value = str(getattr(self, name)).upper()
            if value not in allowed:
                raise _refused(name, " or ".join(allowed), getattr(self, name))
            object.__setattr__(self, name, value)
        for name, (low, high) in _RANGES.items():
            if not low <= getattr(self, name) <= high:
                raise _refused(name, f"{low} to {high}", getattr(self, name))


def _refused(name: str, expected: str, found: Any) -> UnsupportedFeature:
    return UnsupportedFeature("the variable cannot have this value", field=name, expected=expected, found=repr(found))


_CHOICES: Final = {
    "binlog_format": ("ROW",),
    "binlog_row_image": ("FULL",),
    "binlog_row_metadata": ("MINIMAL", "FULL"),
    "binlog_checksum": ("NONE", "CRC32"),
    "gtid_mode": ("OFF", "ON"),
}
_RANGES: Final = {
    "server_id": (0, (1 << 32) - 1),
    "binlog_row_event_max_size": (256, (1 << 32) - 1),
    "max_binlog_size": (4096, 1 << 30),
    "sync_binlog": (0, (1 << 32) - 1),
}
VARIABLE_NAMES: Final = tuple(field.name for field in fields(ServerVariables))
