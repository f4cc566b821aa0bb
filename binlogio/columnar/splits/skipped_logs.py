"""Finds logs without a selected event from their heads alone, so that they need not be read.

    positions  a log that ends before the first selected offset
    GTIDs      PREVIOUS_GTIDS (MySQL) has the GTIDs logged before a log, and no GTID is logged twice; that of the next
               log has the GTIDs logged up to there. GTID_LIST (MariaDB) has the last GTID of each domain and server:
               if it is the same in the next log, the log has no transaction of that domain and server
    times      a log is written between the timestamps of its own format description and of that of the next log. Used
               only if the caller says how far event times may differ from the time of logging

The head of the next log is used only if the log ends with a ROTATE to it of the same time: another log may have the
name of the next one, after RESET or in a directory of several servers. Event times alone prove nothing: they are those
of the beginning of a statement, sessions set them (SET TIMESTAMP), and replicas keep those of the source. A transaction
without a GTID can be in any log: filters that select such transactions skip no log.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from zlib import crc32

from binlogio.columnar.splits.log_identity import HEAD_EVENTS, head_frames
from binlogio.constants import CHECKSUM_SIZE, HEADER_SIZE, LOG_POS_BYTES, EventType, HeaderFlag
from binlogio.errors import BinlogError
from binlogio.event_filter import Range, parse_gtid_set
from binlogio.events.base import parse_header
from binlogio.events.gtid import PreviousGtidsEvent
from binlogio.events.mariadb import MariadbGtidListEvent
from binlogio.format.decoder import Decoder
from binlogio.gtid import GtidSet, MariadbGtid, MariadbGtidPosition, MariadbGtidSet

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from binlogio.event_filter import EventFilter, Gtids
    from binlogio.events.base import ParseContext
    from binlogio.storage.keyring import Keyring
    from binlogio.storage.log_file import LogFile

_ROTATE_POSITION_SIZE: Final = 8
_FEW_LOGS: Final = 8
_READERS: Final = 16  # threads, for stores with high latency
_MOST_ROTATION_S: Final = 10  # seconds between the ROTATE at the end of a log and the head of the next log
_GTID_HEADS: Final = (EventType.PREVIOUS_GTIDS_LOG_EVENT, EventType.MARIADB_GTID_LIST_EVENT)
_Sources = dict[tuple[int, int], MariadbGtid]
"""The last MariaDB GTID of each domain and server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogHead:
    """The head of a log; `before` has the GTIDs logged before it: a set (MySQL), the last GTIDs (MariaDB), or None."""

    created: int
    server_id: int
    context: ParseContext
    before: GtidSet | _Sources | None


def logs_without(
    logs: Sequence[LogFile], where: EventFilter, keyring: Keyring | None = None, *, timestamp_slack: int | None = None
) -> frozenset[int]:
    """Return the indexes of the logs that certainly have no row change selected by the filter.

    Reads the heads of the logs, and their ends if the next log matters. A log is not skipped if its head is damaged or
    encrypted with a missing key, or if it is a relay log.

    Args:
        logs: the logs, in the order in which the server wrote them.
        where: the filter.
        keyring: the keys of encrypted logs.
        timestamp_slack: the maximum difference in seconds, in either direction, between the timestamp of an event and
            the time when it was logged; None: unknown, no log is skipped by time.
    """
    wanted = list(_wanted_gtids(where))
    times = None if timestamp_slack is None or where.timestamp == Range() else where.timestamp
    heads = _heads(logs, keyring) if wanted or times is not None else [None] * len(logs)
    return frozenset(
        number
        for number, log in enumerate(logs)
        if (where.pos.start and _ends_before(log, where.pos.start))
        or (times is not None and _is_of_other_time(times, timestamp_slack or 0, number, logs, heads))
        or any(_lacks(gtids, number, logs, heads) for gtids in wanted)
    )


def _heads(logs: Sequence[LogFile], keyring: Keyring | None) -> list[LogHead | None]:
    """Return the heads of the logs; heads of remote logs are read by several threads."""
    if len(logs) < _FEW_LOGS or logs[0].filesystem is None:
        decoder = Decoder(decompress=None)
        return [_head(log, keyring, decoder) for log in logs]
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - seldom needed

    with ThreadPoolExecutor(_READERS) as readers:
        return list(readers.map(lambda log: _head(log, keyring, Decoder(decompress=None)), logs))


def _is_of_other_time(
    times: Range, slack: int, number: int, logs: Sequence[LogFile], heads: Sequence[LogHead | None]
) -> bool:
    """Return whether all events of a log are outside a time range, given the maximum slack of timestamps.

    Heads are events too: the log begins at most `slack` before or after the timestamp of its head.
    """
    head = heads[number]
    if head is None:
        return False
    if head.created - 2 * slack >= times.end:
        return True
    after = heads[number + 1] if number + 1 < len(logs) else None
    return (
        after is not None
        and after.created + 2 * slack < times.start
        and _is_followed_by(logs[number], head, logs[number + 1], after)
    )


def _wanted_gtids(where: EventFilter) -> Iterator[Gtids]:
    """Yield GTID sets; transactions outside of any of them are not selected."""
    if where.wanted_gtids is not None:
        yield where.wanted_gtids
    if where.gtids is not None and all(where.gtids):  # None selects transactions without a GTID
        try:
            yield parse_gtid_set(",".join(sorted(where.gtids)))
        except BinlogError:  # text that is not a GTID, or GTIDs of both vendors
            return


def _ends_before(log: LogFile, offset: int) -> bool:
    """Return whether a seekable log ends at or before an offset."""
    if log.stream is not None or log.size is None:
        return False
    try:
        opened = log.open()
    except (OSError, BinlogError):
        return False
    try:
        return opened.seekable and opened.end() <= offset
    finally:
        opened.close()


def _head(log: LogFile, keyring: Keyring | None, decoder: Decoder) -> LogHead | None:
    """Return the head of a log; None if it cannot be read, or the log is a relay log."""
    if log.stream is not None:
        return None
    try:
        opened = log.open(keyring)
    except (OSError, BinlogError):
        return None
    try:
        found = None
        for frame in head_frames(opened, keyring, verify_checksum=True):
            if frame.header.type_code not in HEAD_EVENTS:
                break
            if frame.header.flags & (HeaderFlag.RELAY_LOG | HeaderFlag.ARTIFICIAL):
                return None
            header = frame.header
            if found is None:
                found = LogHead(
                    created=header.timestamp, server_id=header.server_id, context=frame.context, before=None
                )
            if header.type_code not in _GTID_HEADS:
                continue
            (event,) = decoder.decode(frame)
            if isinstance(event, (PreviousGtidsEvent, MariadbGtidListEvent)):
                return LogHead(
                    created=found.created,
                    server_id=found.server_id,
                    context=frame.context,
                    before=event.gtid_set
                    if isinstance(event, PreviousGtidsEvent)
                    else {(gtid.domain_id, gtid.server_id): gtid for gtid in event.gtids},
                )
    except (OSError, BinlogError):
        return None
    finally:
        opened.close()
    return found


def _lacks(wanted: Gtids, number: int, logs: Sequence[LogFile], heads: Sequence[LogHead | None]) -> bool:
    """Return whether log `number` certainly has no transaction of a GTID set."""
    head = heads[number]
    after = heads[number + 1] if number + 1 < len(logs) else None
    if head is None or head.before is None:
        return False
    if isinstance(head.before, GtidSet):
        if not isinstance(wanted, GtidSet):
            return False
        left = wanted.difference(head.before)
        if not left:
            return True
        if after is None or not isinstance(after.before, GtidSet) or not head.before.issubset(after.before):
            return False
        return left.isdisjoint(after.before) and _is_followed_by(logs[number], head, logs[number + 1], after)
    if after is None or not isinstance(after.before, dict) or not set(head.before) <= set(after.before):
        return False
    changed = {source for source, gtid in after.before.items() if head.before.get(source) != gtid}
    if isinstance(wanted, MariadbGtidSet):
        is_missing = changed.isdisjoint(wanted.intervals)
    elif isinstance(wanted, MariadbGtidPosition):
        is_missing = {domain for domain, _ in changed}.isdisjoint(gtid.domain_id for gtid in wanted)
    else:
        return False
    return is_missing and _is_followed_by(logs[number], head, logs[number + 1], after)


def _is_followed_by(log: LogFile, head: LogHead, following: LogFile, after: LogHead) -> bool:
    """Return whether a log ends with a ROTATE to the next log, which the same server began at that time."""
    name = os.path.basename(following.name).encode()  # noqa: PTH119 - may be a URI
    tail = CHECKSUM_SIZE if head.context.has_checksum else 0
    size = HEADER_SIZE + _ROTATE_POSITION_SIZE + len(name) + tail
    try:
        opened = log.open()
    except (OSError, BinlogError):
        return False
    try:
        if not opened.seekable or (end := opened.end()) < size:
            return False
        opened.seek(end - size)
        raw = opened.read_up_to(size)
    except OSError:
        return False
    finally:
        opened.close()
    header = parse_header(raw, end - size, head.context) if len(raw) == size else None
    return (
        header is not None
        and header.type_code == EventType.ROTATE_EVENT
        and header.event_size == size
        and raw[LOG_POS_BYTES] == (end & 0xFFFFFFFF).to_bytes(4, "little")
        and raw[HEADER_SIZE + _ROTATE_POSITION_SIZE : size - tail] == name
        and (not tail or crc32(raw[:-tail]) == int.from_bytes(raw[-tail:], "little"))
        and head.server_id == after.server_id == header.server_id
        and head.context.is_mariadb == after.context.is_mariadb
        and abs(after.created - header.timestamp) <= _MOST_ROTATION_S
    )
