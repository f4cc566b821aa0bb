"""Which groups of a batch have a GTID: runs of GTIDs get one answer, as if each had been asked."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from binlogio.archive.copied_gtids import ask_groups, gtid_of
from binlogio.archive.event_batches import BEGINS, EventBatch
from binlogio.constants import EventType
from binlogio.events.base import ParseContext
from binlogio.gtid import Gtid, GtidSet, MariadbGtid, MariadbGtidPosition
from binlogio.selection.event_filter import has_gtid, like_numbers

CONTEXT = ParseContext(server_version="9.7.4")
UUIDS = (bytes(16), bytes(15) + b"\1")
MYSQL = GtidSet.parse(f"00000000-0000-0000-0000-000000000000:3-7:11,{'0' * 8}-0000-0000-0000-{'0' * 11}1:5-90")
MARIADB = MariadbGtidPosition.parse("0-1-8,1-2-5")


def event(*, is_mariadb: bool, source: int, number: int) -> bytes:
    """Return the event of a GTID, or of an anonymous transaction (number 0)."""
    code = EventType.MARIADB_GTID_EVENT if is_mariadb else EventType.GTID_LOG_EVENT
    if not number:
        code = EventType.ANONYMOUS_GTID_LOG_EVENT
    body = b"\0" + UUIDS[source] + number.to_bytes(8, "little") + bytes(17)
    if is_mariadb:
        body = number.to_bytes(8, "little") + source.to_bytes(4, "little") + bytes(7)
    head = bytes(4) + bytes([code]) + (source + 1).to_bytes(4, "little") + bytes(10)
    return head + body


@given(st.booleans(), st.lists(st.tuples(st.integers(0, 1), st.integers(0, 12)), max_size=40), st.booleans())
def test_groups_are_answered_as_if_each_was_asked(
    is_mariadb: bool, gtids: list[tuple[int, int]], is_sorted: bool
) -> None:
    events = [
        event(is_mariadb=is_mariadb, source=source, number=number)
        for source, number in (sorted(gtids) if is_sorted else gtids)
    ]
    sizes = np.array([len(one) for one in events], np.uint32)
    starts = (np.cumsum(sizes) - sizes).astype(np.int64)
    codes = np.array([one[4] for one in events], np.uint8)
    edges = np.full(len(events), BEGINS, np.uint8)
    batch = EventBatch(memoryview(bytearray(b"".join(events))), 4, starts, sizes, codes, edges, is_placed=True)
    known = MARIADB if is_mariadb else MYSQL
    asked = 0

    def ask(gtid: Gtid | MariadbGtid | None) -> tuple[bool, int, int]:
        nonlocal asked
        asked += 1
        return has_gtid(known, gtid), *like_numbers(gtid, known)

    found = ask_groups(batch, np.arange(len(events)), CONTEXT, ask)

    assert found == [has_gtid(known, gtid_of(one, CONTEXT)) for one in events]
    assert asked <= len(events)
