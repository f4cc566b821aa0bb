"""How far a log that is still being written may be read: up to the end of its last whole event group.

Walks headers without decoding bodies, and parses only the last group.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlogio.columnar.splits.split_bounds import GROUP_STARTS
from binlogio.columnar.walk.event_parts import least_for
from binlogio.columnar.windows import Window
from binlogio.constants import BINLOG_MAGIC
from binlogio.errors import BinlogFormatError
from binlogio.implementation import is_compiled
from binlogio.options import ReadOptions
from binlogio.reader import BinlogReader

if TYPE_CHECKING:
    from binlogio.storage.keyring import Keyring
    from binlogio.storage.sources import LogFile


def last_group_end(log: LogFile, start: int = 0, keyring: Keyring | None = None) -> int:
    """Return the offset after the last whole event group of a log, `start` where there is none after it.

    `start` is 0, or where an event group begins. Damage ends the search: what is before it is whole.

    Raises:
        OSError: the file cannot be read.
        UnsupportedFeature: it is encrypted, and there is no key.
    """
    last = _last_group_start(log, start, keyring) if is_compiled() else None
    begin = start if last is None else last
    reader = BinlogReader([log], ReadOptions(verify_checksum=False, start_offset=begin or None), keyring=keyring)
    end = begin
    with reader:
        try:
            for _ in reader:
                end = max(end, reader.last_good_offset)
        except BinlogFormatError:
            return end
    return max(end, reader.last_good_offset)


def _last_group_start(log: LogFile, start: int, keyring: Keyring | None) -> int | None:
    """Where the last event that begins a group stands; None where nothing says it."""
    from binlogio._kernel.frames import scan_headers  # noqa: PLC0415 - there may be none

    opened = log.open(keyring)
    found = None
    try:
        if not opened.seekable:
            return None
        window = Window(opened.read, readinto=opened.readinto)
        window.go_to(max(start, len(BINLOG_MAGIC)), opened)
        while window.fill(least_for(window)):
            index = scan_headers(window.view, window.offset, checksum=False, verify=False, stop_at_description=False)
            codes, offsets = memoryview(index.type_code), memoryview(index.offset).cast("q")
            for number in range(len(index) - 1, -1, -1):
                if codes[number] in GROUP_STARTS:
                    found = int(offsets[number])
                    break
            window.take(index.end - window.offset)
    except BinlogFormatError:
        return found
    finally:
        opened.close()
    return found
