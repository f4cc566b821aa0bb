"""Finds logs without a selected event from their heads alone, so that they need not be read.

    positions  a log that ends before the first selected offset
    GTIDs      PREVIOUS_GTIDS (MySQL) has the GTIDs logged before a log, and no GTID is logged twice; that of the next
               log has the GTIDs logged up to there. GTID_LIST (MariaDB) has the last GTID of each domain and server:
               if it is the same in the next log, the log has no transaction of that domain and server. Numbers prove
               more only if they grow, as with gtid_strict_mode=ON, which no log says: else sessions set any number
               (gtid_seq_no), and a replica logs those of its sources
    times      a log is written between the timestamps of its own format description and of that of the next log. Used
               only if the caller says how far event times may differ from the time of logging

The head of the next log is used only if the log ends with a ROTATE to it of the same time: another log may have the
name of the next one, after RESET or in a directory of several servers. Event times alone prove nothing: they are those
of the beginning of a statement, sessions set them (SET TIMESTAMP), and replicas keep those of the source. A transaction
without a GTID can be in any log: filters that select such transactions skip no log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from binlogio.errors import BinlogError
from binlogio.gtid import GtidSet, Interval, MariadbGtidPosition, MariadbGtidSet
from binlogio.gtid.identifiers import NUMBERS_END
from binlogio.selection.event_filter import Range, parse_gtid_set
from binlogio.series.continuity import changed_sources, is_followed_by
from binlogio.series.log_head import known_heads
from binlogio.series.positions import check_vendor

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from binlogio.selection.event_filter import EventFilter, Gtids
    from binlogio.series.log_head import LastGtids, LogHead
    from binlogio.storage.keyring import Keyring
    from binlogio.storage.log_file import LogFile

_EVERY: Final = Interval(0, NUMBERS_END)


def logs_without(
    logs: Sequence[LogFile],
    where: EventFilter,
    keyring: Keyring | None = None,
    *,
    timestamp_slack: int | None = None,
    is_strict: bool = False,
    heads: Sequence[LogHead | None] | None = None,
) -> frozenset[int]:
    """Return the indexes of the logs that certainly have no row change selected by the filter.

    Reads the heads of the logs unless they are given, and their ends if the next log matters. A log is not skipped if
    its head is damaged or encrypted with a missing key, or if it is a relay log.

    Args:
        logs: the logs, in the order in which the server wrote them.
        where: the filter.
        keyring: the keys of encrypted logs.
        timestamp_slack: the maximum difference in seconds, in either direction, between the timestamp of an event and
            the time when it was logged; None: unknown, no log is skipped by time.
        is_strict: the server of MariaDB had gtid_strict_mode=ON for all logs.
        heads: the heads of the logs (`known_heads`).

    Raises:
        ConditionError: the logs are of another vendor than the GTIDs of the filter.
    """
    gtids = where.wanted_gtids, where.known_gtids
    wanted = list(_wanted_gtids(where))
    within = where.timestamp.within(where.group_time)
    times = None if timestamp_slack is None or within == Range() else within
    if heads is None:
        needs_heads = wanted or times is not None or any(one is not None for one in gtids)
        heads = known_heads(logs, keyring) if needs_heads else [None] * len(logs)
    check_vendor(gtids, heads)
    return frozenset(
        number
        for number, log in enumerate(logs)
        if (where.pos.start and _ends_before(log, where.pos.start))
        or (times is not None and _is_of_other_time(times, timestamp_slack or 0, number, logs, heads))
        or any(_lacks(gtids, number, logs, heads, is_strict=is_strict) for gtids in wanted)
    )


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
        and is_followed_by(logs[number], head, logs[number + 1], after)
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


def _numbers(before: LastGtids, after: LastGtids) -> dict[int, Interval]:
    """Return the numbers of each domain between two GTID_LISTs of a strict server; not of domains that went back."""
    found = {}
    for domain in {domain for domain, _ in after}:
        lists = [[one for one in gtids.values() if one.domain_id == domain] for gtids in (before, after)]
        first, last = ([one.sequence_number for one in gtids] or [0] for gtids in lists)
        if first[-1] == max(first) <= max(last) == last[-1]:  # the last GTID of a domain is last in its list
            found[domain] = Interval(first[-1] + 1, last[-1] + 1)
    return found


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


def _lacks(
    wanted: Gtids, number: int, logs: Sequence[LogFile], heads: Sequence[LogHead | None], *, is_strict: bool
) -> bool:
    """Return whether log `number` certainly has no transaction of a GTID set."""
    head = heads[number]
    after = heads[number + 1] if number + 1 < len(logs) else None
    before = None if head is None else head.gtids_before()
    if head is None or before is None:
        return False
    then = None if after is None else after.gtids_before()
    if isinstance(before, GtidSet):
        if not isinstance(wanted, GtidSet):
            return False
        left = wanted.difference(before)
        if not left:
            return True
        is_missing = isinstance(then, GtidSet) and before.issubset(then) and left.isdisjoint(then)
    else:
        changed = changed_sources(before, then) if isinstance(then, dict) else None
        if changed is None or not isinstance(then, dict):
            return False
        numbers = _numbers(before, then) if is_strict else {}
        if isinstance(wanted, MariadbGtidSet):
            is_missing = not any(
                any(first < end and start < last for start, end in wanted.intervals.get(source, ()))
                for source in changed
                for first, last in (numbers.get(source[0], _EVERY),)
            )
        elif isinstance(wanted, MariadbGtidPosition):
            known = {gtid.domain_id: gtid.sequence_number for gtid in wanted}
            is_missing = not any(numbers.get(one, _EVERY).start <= known.get(one, -1) for one, _ in changed)
        else:
            return False
    return is_missing and after is not None and is_followed_by(logs[number], head, logs[number + 1], after)
