"""Where the event groups of a log begin, by going from event to event: what no value can be mistaken for.

Uses only sizes and types of events. The whole log is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from binlogio.columnar.splits.split_bounds import GROUP_STARTS
from binlogio.columnar.walk.event_parts import least_for
from binlogio.columnar.windows import Window
from binlogio.constants import BINLOG_MAGIC
from binlogio.errors import BinlogFormatError
from binlogio.format.splits import Split

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binlogio.storage.keyring import Keyring
    from binlogio.storage.sources import LogFile


def splits_at_groups(log: LogFile, within: Split, max_bytes: int, keyring: Keyring | None = None) -> Iterator[Split]:
    """Ranges that cover `within`, each but the first from a group on, and no shorter than `max_bytes` but for the last.

    `log` is not one piece. Where it is damaged, the rest is one range.

    Raises:
        OSError, UnsupportedFeature: it cannot be read.
    """
    from binlogio._kernel.frames import scan_headers  # noqa: PLC0415 - there may be none

    opened = log.open(keyring)
    start = within.start
    try:
        window = Window(opened.read, readinto=opened.readinto)
        window.go_to(max(start, len(BINLOG_MAGIC)), opened)
        while window.offset < within.end and window.fill(least_for(window)):
            index = scan_headers(window.view, window.offset, checksum=False, verify=False, stop_at_description=False)
            starts = np.frombuffer(memoryview(index.offset), np.int64)
            is_group = np.isin(np.frombuffer(memoryview(index.type_code), np.uint8), GROUP_STARTS)
            for group in starts[is_group & (starts < within.end)].tolist():
                if group - start >= max_bytes:
                    yield Split(start, group)
                    start = group
            window.take(index.end - window.offset)
    except BinlogFormatError:
        pass
    finally:
        opened.close()
    yield Split(start, within.end)
