"""The log in which a replica continues that has given transactions, found from the heads of the logs alone.

    MySQL      the last log whose PREVIOUS_GTIDS are all known; transactions in it may be known as well
    MariaDB    the last log whose GTID_LIST is not after the position: of each domain of the list, the position has a
               GTID that the list does not exceed

Source: sql/binlog.cc, MYSQL_BIN_LOG::find_first_log_not_in_gtid_set; MariaDB's sql/sql_repl.cc,
contains_all_slave_gtid.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlogio.gtid import GtidSet, MariadbGtidPosition

if TYPE_CHECKING:
    from collections.abc import Sequence

    from binlogio.series.log_head import LastGtids, LogHead


def start_log(heads: Sequence[LogHead | None], known: GtidSet | MariadbGtidPosition) -> int | None:
    """Return the number of the log, from 0, after whose head the first unknown transaction is; None: it was purged.

    A log whose head does not list GTIDs is passed over.
    """
    for number in range(len(heads) - 1, -1, -1):
        head = heads[number]
        before = None if head is None else head.gtids_before()
        if isinstance(before, GtidSet):
            if isinstance(known, GtidSet) and before.issubset(known):
                return number
        elif before is not None and isinstance(known, MariadbGtidPosition) and _is_reached(before, known):
            return number
    return None


def _is_reached(before: LastGtids, known: MariadbGtidPosition) -> bool:
    """Return whether a position is at the head of a log or after it. The last GTID of a domain is last in its list."""
    latest = {domain_id: gtid for (domain_id, _), gtid in before.items()}
    for domain_id, last in latest.items():
        gtid = known.get(domain_id)
        if gtid is None:
            return False
        listed = before.get((domain_id, gtid.server_id))
        if listed is not None and gtid != last and listed.sequence_number >= gtid.sequence_number:
            return False
    return True
