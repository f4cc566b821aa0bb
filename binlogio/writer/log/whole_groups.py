"""Fast scan of complete plain groups: reads a long log in bulk, up to the first event that `recovery` has to examine.

It recognizes the groups of row changes by their GTID, first and last events. Needs the compiled kernel.

    plain group := opening  (table_map | rows_event | rows_query | annotate_rows)*  (xid | COMMIT)
    opening     := (gtid | anonymous_gtid)  BEGIN  |  mariadb_gtid               -- of a transaction, not XA, without extra flags
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from binlogio.constants import CHECKSUM_SIZE, HEADER_SIZE, SERVER_ID_BYTES, EventType
from binlogio.errors import BinlogFormatError
from binlogio.events.mariadb import MariadbGtidFlag
from binlogio.events.query import sizes_before_sql
from binlogio.gtid import NO_TAG, Gtid, GtidSet, Interval, MariadbGtid, Tsid, Uuid
from binlogio.gtid.identifiers import GNO_END, GNO_MIN

if TYPE_CHECKING:
    from collections.abc import Callable

    from binlogio.writer.log.gtids import DomainState

WINDOW_SIZE: Final = 4 << 20
MAX_WINDOW_SIZE: Final = 64 << 20
QUIET_TYPES: Final = frozenset(  # say nothing about the end of their group, inside of a transaction
    {
        EventType.TABLE_MAP_EVENT,
        EventType.WRITE_ROWS_EVENT_V1,
        EventType.UPDATE_ROWS_EVENT_V1,
        EventType.DELETE_ROWS_EVENT_V1,
        EventType.WRITE_ROWS_EVENT,
        EventType.UPDATE_ROWS_EVENT,
        EventType.DELETE_ROWS_EVENT,
        EventType.PARTIAL_UPDATE_ROWS_EVENT,
        EventType.ROWS_QUERY_LOG_EVENT,
        EventType.ANNOTATE_ROWS_EVENT,
        EventType.WRITE_ROWS_COMPRESSED_EVENT_V1,
        EventType.UPDATE_ROWS_COMPRESSED_EVENT_V1,
        EventType.DELETE_ROWS_COMPRESSED_EVENT_V1,
    }
)
_GTID: Final = int(EventType.GTID_LOG_EVENT)
_ANONYMOUS: Final = int(EventType.ANONYMOUS_GTID_LOG_EVENT)
_MARIADB: Final = int(EventType.MARIADB_GTID_EVENT)
_QUERY: Final = int(EventType.QUERY_EVENT)
_XID: Final = int(EventType.XID_EVENT)
_IS_QUIET: Final = np.isin(np.arange(256), [int(code) for code in QUIET_TYPES])
_UUID: Final = slice(HEADER_SIZE + 1, HEADER_SIZE + 17)
_GNO: Final = slice(HEADER_SIZE + 17, HEADER_SIZE + 25)
_NUMBER: Final = slice(HEADER_SIZE, HEADER_SIZE + 8)
_DOMAIN: Final = slice(HEADER_SIZE + 8, HEADER_SIZE + 12)
_FLAGS: Final = HEADER_SIZE + 12
_GROUP_COMMIT_ID: Final = int(MariadbGtidFlag.GROUP_COMMIT_ID)
_PLAIN_FLAGS: Final = int(
    MariadbGtidFlag.TRANSACTIONAL | MariadbGtidFlag.ALLOW_PARALLEL | MariadbGtidFlag.WAITED | MariadbGtidFlag.DDL
)


@dataclass(slots=True)
class GtidRuns:
    """GTIDs in the order in which they come, numbers that follow each other as one interval."""

    _runs: list[tuple[Tsid, Interval]] = field(default_factory=list)
    _tsid: Tsid | None = None
    _first: int = 0
    _end: int = 0

    def add(self, gtid: Gtid) -> None:
        """One more."""
        self.add_number(gtid.tsid, gtid.gno)

    def add_number(self, tsid: Tsid, gno: int) -> None:
        """One more, by its parts."""
        if gno != self._end or tsid != self._tsid:
            self._close()
            self._tsid, self._first = tsid, gno
        self._end = gno + 1

    def as_set(self) -> GtidSet:
        """All of them."""
        self._close()
        return GtidSet.from_intervals(self._runs)

    def _close(self) -> None:
        if self._tsid is not None:
            self._runs.append((self._tsid, Interval(self._first, self._end)))
            self._tsid = None


def skip_plain_groups(
    read: Callable[[int, int], bytes],
    start: int,
    gtids: GtidRuns,
    *,
    has_checksum: bool,
    domains: DomainState | None = None,
) -> int:
    """Go over the plain whole groups from `start` on, and note their GTIDs; returns where the first other thing begins.

    `read` gives bytes of the file: offset, size. Without `domains` MariaDB's groups are other things.

    Raises:
        OSError: from `read`.
    """
    from binlogio._kernel.frames import scan_headers  # noqa: PLC0415 - missing if it was not compiled

    size, footer = WINDOW_SIZE, CHECKSUM_SIZE * has_checksum
    tsids: dict[bytes, Tsid] = {}
    while True:
        data = read(start, size)
        try:
            index = scan_headers(data, start, checksum=has_checksum)
        except BinlogFormatError:
            return start  # what was found before the damage will be looked at again
        offsets = (np.frombuffer(memoryview(index.offset), np.int64) - start).tolist()
        types = np.frombuffer(memoryview(index.type_code), np.uint8)
        groups = np.flatnonzero((types == _GTID) | (types == _ANONYMOUS) | (types == _MARIADB)).tolist()
        loud = np.cumsum(~_IS_QUIET[types]).tolist()
        ends = [*offsets[1:], index.end - start]
        done = 0
        for first, after in pairwise((*groups, len(offsets))):
            last, in_domain = after - 1, types[first] == _MARIADB
            others = loud[last] - loud[first]  # events after the GTID that are not ignored
            if in_domain:
                opens = others == 1 and domains is not None and _is_plain(data[done : ends[first] - footer])
            else:
                begin = first + 1
                opens = others == 2 and _is_query(b"BEGIN", data, types[begin], offsets[begin], ends[begin] - footer)
            closes = types[last] == _XID or _is_query(b"COMMIT", data, types[last], offsets[last], ends[last] - footer)
            if offsets[first] != done or not (opens and closes):
                break
            if types[first] == _GTID:
                event = data[done : ends[first] - footer]
                uuid, gno = event[_UUID], int.from_bytes(event[_GNO], "little", signed=True)
                if len(event) < _GNO.stop or not GNO_MIN <= gno < GNO_END:
                    break
                if uuid not in tsids:
                    tsids[uuid] = Tsid(Uuid(uuid), NO_TAG)
                gtids.add_number(tsids[uuid], gno)
            elif in_domain and domains is not None:
                domains.add(_gtid(data[done : ends[first]]))
            done = ends[last]
        start += done
        if len(data) < size or (done == 0 and (len(groups) != 1 or size >= MAX_WINDOW_SIZE)):
            return start
        size = WINDOW_SIZE if done else size * 4  # for a group that is larger than the window


def _is_plain(event: bytes) -> bool:
    """Return whether a MariaDB GTID event, without its checksum, opens a transaction, has the size that its flags ask for, and no extra ones."""
    flags = event[_FLAGS] if len(event) > _FLAGS else ~0
    if flags & ~(_PLAIN_FLAGS | _GROUP_COMMIT_ID):
        return False
    rest = event[_FLAGS + 1 :]
    return len(rest) == 8 if flags & _GROUP_COMMIT_ID else rest == bytes(6)


def _gtid(event: bytes) -> MariadbGtid:
    domain_id, server_id, number = (
        int.from_bytes(event[part], "little") for part in (_DOMAIN, SERVER_ID_BYTES, _NUMBER)
    )
    return MariadbGtid(domain_id, server_id, number)


def _is_query(sql: bytes, data: bytes, type_code: int, start: int, end: int) -> bool:
    return type_code == _QUERY and _sql(data, start, end) == sql


def _sql(data: bytes, start: int, end: int) -> bytes:
    """Return the text of a Query event, whose checksum begins at `end`."""
    body = start + HEADER_SIZE
    return data[body + sum(sizes_before_sql(data, body)) : end]
