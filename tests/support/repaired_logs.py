"""Runs a repair, and compares the groups of logs without what depends on their place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import binlogio
from binlogio.archive import NewLogs, RepairReport, repair_logs
from binlogio.storage.sources import find_logs

if TYPE_CHECKING:
    from pathlib import Path


def repaired(target: Path, *sources: Path, **options: Any) -> RepairReport:
    """Repair logs into one, or into a directory."""
    first = sources[0].name.removesuffix(".gz")
    new = NewLogs.in_directory(str(target), first) if target.is_dir() else NewLogs.in_file(str(target))
    with new:
        return repair_logs(find_logs([str(one) for one in sources]), new, **options)


def whole_groups(log: Path) -> list[bytes]:
    """Return the groups of a log without what depends on their place. The log is whole to its end."""
    frames: list[bytes] = []
    with binlogio.open(log, open_payloads=False) as reader:
        for group in reader.groups():
            frames.append(b"")
            for event in group.events:
                frame = reader.frame
                assert frame is not None
                frames[-1] += bytes([event.header.type_code]) + frame.body
            assert group.last is not None
        assert reader.torn_tail is None
        assert not reader.in_use
    return frames
