"""Damage where a log is cut: somebody reads it, so somebody says it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import binlogio
from binlogio.columnar.record_types import RowSelection
from binlogio.columnar.rows_reader import read_split
from binlogio.constants import HEADER_SIZE
from binlogio.errors import ChecksumMismatch
from binlogio.events.gtid import GtidEvent, GtidTaggedEvent
from binlogio.format.splits import Split
from binlogio.storage.sources import LogFile
from corpus import MYSQL

if TYPE_CHECKING:
    from pathlib import Path

LOG = MYSQL / "gtid_on" / "binlog.000001"
WANTED = RowSelection(
    wants=lambda _schema, _table: True, columns=None, zero_dates="text", verify_checksum=True, batch_rows=100
)


def group_starts() -> list[tuple[int, int]]:
    """Where each event group begins, and where its second event does."""
    with binlogio.open(LOG) as reader:
        return [
            (event.header.offset, event.header.offset + event.header.event_size)
            for event in reader
            if isinstance(event, (GtidEvent, GtidTaggedEvent))
        ]


def read_in_two(log: LogFile, cut: int) -> None:
    """Both parts of a log, one after the other."""
    for split in (Split(0, cut), Split(cut, log.size or 0)):
        list(read_split(log, split, WANTED))


@pytest.mark.parametrize(("first", "byte"), [(True, HEADER_SIZE + 3), (True, 4), (True, 14), (False, 14), (False, 9)])
def test_no_group_falls_between_two_splits(tmp_path: Path, *, first: bool, byte: int) -> None:
    """The first event of a group, or the header of its second, is damaged just where the one split ends and the other begins."""
    path = tmp_path / LOG.name
    whole = LOG.read_bytes()
    for start, second in group_starts()[1:]:
        data = bytearray(whole)
        data[(start if first else second) + byte] ^= 1
        path.write_bytes(data)
        log = LogFile(str(path), len(data))

        for cut in (start, start - 1, start + 1, second):
            with pytest.raises(binlogio.BinlogError):
                read_in_two(log, cut)


def test_the_damage_is_named(tmp_path: Path) -> None:
    """With the place of the event that was changed."""
    path = tmp_path / LOG.name
    start, _ = group_starts()[2]
    data = bytearray(LOG.read_bytes())
    data[start + HEADER_SIZE + 3] ^= 1
    path.write_bytes(data)

    with pytest.raises(ChecksumMismatch) as failure:
        list(read_split(LogFile(str(path), len(data)), Split(0, start), WANTED))
    assert failure.value.offset == start
