"""MariaDB's GTIDs of a log: the last number of each domain and server, and the next one of a domain.

Knows numbers. Knows neither events nor files.

    state := (domain_id  server_id  sequence_number)*      -- one of each domain and server, the latest one of a domain behind its others

Source: MariaDB sql/rpl_gtid.cc, rpl_binlog_state::update_with_next_gtid, get_gtid_list.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from binlogio.errors import BinlogFormatError
from binlogio.gtid import MariadbGtid

if TYPE_CHECKING:
    from collections.abc import Iterable

    from binlogio.writer.log.group import InDomain

MAX_TAKEN_BACK: Final = 65_536  # groups whose sessions wait for one sync; there are not more threads


@dataclass(slots=True)
class _Domain:
    """The last number of each server, the latest one behind the others, and the highest number of all."""

    last: dict[int, int] = field(default_factory=dict)
    highest: int = 0

    def add(self, server_id: int, sequence_number: int) -> None:
        self.last.pop(server_id, None)
        self.last[server_id] = sequence_number
        self.highest = max(self.highest, sequence_number)


class DomainState:
    """The state of a log. Not for several threads at once."""

    def __init__(self, gtids: Iterable[MariadbGtid] = ()) -> None:
        self._domains: dict[int, _Domain] = {}
        self._taken: deque[tuple[MariadbGtid, dict[int, int], int]] = deque(maxlen=MAX_TAKEN_BACK)
        for gtid in gtids:
            self.add(gtid)

    @property
    def gtids(self) -> tuple[MariadbGtid, ...]:
        """What a file that begins here says (gtid_binlog_state)."""
        return tuple(
            MariadbGtid(domain_id, server_id, number)
            for domain_id, domain in self._domains.items()
            for server_id, number in domain.last.items()
        )

    def add(self, gtid: MariadbGtid) -> None:
        """A group that is in the log."""
        self._domains.setdefault(gtid.domain_id, _Domain()).add(gtid.server_id, gtid.sequence_number)

    def take(self, wanted: InDomain) -> MariadbGtid:
        """The next GTID of a domain, or the one that a session wants; it is used then.

        Raises:
            BinlogFormatError: there is none left.
        """
        domain = self._domains.get(wanted.domain_id) or _Domain()
        number = domain.highest + 1 if wanted.sequence_number is None else wanted.sequence_number
        gtid = MariadbGtid(wanted.domain_id, wanted.server_id, number)
        self._taken.append((gtid, dict(domain.last), domain.highest))
        self.add(gtid)
        return gtid

    def give_back(self, gtids: Iterable[MariadbGtid]) -> None:
        """Free the GTIDs that were taken last, whose groups could not be written.

        Raises:
            BinlogFormatError: they were taken too long ago.
        """
        left = set(gtids)
        while left:
            if not self._taken:
                raise BinlogFormatError(
                    "the GTIDs cannot be released: too many were assigned after them", found=str(len(left))
                )
            gtid, last, highest = self._taken.pop()
            left.discard(gtid)
            if last:
                self._domains[gtid.domain_id] = _Domain(last, highest)
            else:
                del self._domains[gtid.domain_id]
