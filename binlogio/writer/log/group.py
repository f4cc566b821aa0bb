"""Groups that a session passes to group commit: events without a GTID, and what the stages need to know of them.

    group := gtid | anonymous_gtid | gtid_tagged | mariadb_gtid  event*

`group_log` puts groups into the log, `group_commit` decides their order.
Source: sql/binlog.cc, binlog_cache_data::flush, MYSQL_BIN_LOG::write_transaction; sql/rpl_trx_tracking.h;
sql/rpl_gtid.h, Gtid_specification.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from binlogio.gtid import NO_TAG, Gtid, Tag

if TYPE_CHECKING:
    from binlogio._kernel.row_encoder import EventBuffer
    from binlogio.events.mariadb import MariadbXid
    from binlogio.events.query import MariadbAlterFlags
    from binlogio.format.event_frames import EventFrames


class GroupEnd(Enum):
    """The event with which a group ends."""

    XID = "XID"
    COMMIT = "COMMIT"
    ROLLBACK = "ROLLBACK"
    STATEMENT = "statement"  # DDL and whatever else is a group by itself
    XA_PREPARE = "XA PREPARE"
    INCIDENT = "INCIDENT"  # the log is rotated at once


class SpilledFrames(Protocol):
    """Frames outside of memory. `size` is the sum of their sizes in bytes; they can be iterated more than once."""

    @property
    def size(self) -> int:
        """The sum of the frames' sizes, in bytes."""

    def __iter__(self) -> Iterator[bytes]:
        """Return the frames in their order; raises OSError where they cannot be read."""


class WriteSet(NamedTuple):
    """The rows that a group changed, by the hashes of their keys (`writeset.KeyHasher`).

    `has_missing_keys` where a row's table has no key. Without any hash and any missing key it says nothing, as DDL
    does.
    """

    hashes: tuple[int, ...] = ()
    has_missing_keys: bool = False

    @classmethod
    def of(cls, hashes: Iterable[int], *, has_missing_keys: bool = False) -> WriteSet:
        """Each hash once."""
        return cls(tuple(dict.fromkeys(hashes)), has_missing_keys)


@dataclass(frozen=True, slots=True)
class Automatic:
    """gtid_next=AUTOMATIC, or AUTOMATIC:tag: the next number of the server, or none where gtid_mode says so."""

    tag: Tag = NO_TAG


class Anonymous(Enum):
    """gtid_next=ANONYMOUS."""

    ANONYMOUS = "ANONYMOUS"


@dataclass(frozen=True, slots=True)
class InDomain:
    """MariaDB's gtid_domain_id, server_id and gtid_seq_no, which is None for the next number.

    No `allow_parallel`: skip_parallel_replication.
    """

    domain_id: int = 0
    server_id: int = 1
    sequence_number: int | None = None
    allow_parallel: bool = True


AUTOMATIC: Final = Automatic()
ANONYMOUS: Final = Anonymous.ANONYMOUS
NextGtid = Automatic | Anonymous | Gtid | InDomain
"""What `gtid_next` can be: AUTOMATIC with or without a tag, ANONYMOUS, or one GTID.

For MariaDB `InDomain`.
"""


class GroupMarks(NamedTuple):
    """Facts of a group in MariaDB's GTID event.

    Args:
        is_transactional: ROLLBACK would have undone all of it, so that replicas may apply it before those in front of
            it.
        is_ddl: tables are made or dropped in it.
        has_no_engine: it was in the transaction cache, but no engine has anything to commit.
        xa: the XA transaction that it prepares or ends.
        alter: which half of an ALTER TABLE in two phases it is, and the number of its first half, which only the second
            one names.
    """

    is_transactional: bool = False
    is_ddl: bool = False
    has_no_engine: bool = False
    xa: MariadbXid | None = None
    alter: MariadbAlterFlags | None = None


NO_MARKS: Final = GroupMarks()


class Group(NamedTuple):
    """A finished group without its GTID event.

    A tuple, because each small transaction makes one: a dataclass takes four times as long.

    Args:
        frames: its events, complete but for position and checksum.
        timestamp: of its GTID event, in seconds since 1970, UTC.
        may_have_sbr: a statement is in it as text.
        end: what its last event is.
        writeset: the rows that it changed; None if they are not known (statements as text, DDL, parents of foreign
            keys, savepoints that lost them).
        commit_parent: `GroupCommit.max_committed` as it was at the end of the session's last statement; None makes the
            group depend on the one before it.
        assigned_gtid: the session's gtid_next.
        compression_level: of zstd, with which it becomes a TRANSACTION_PAYLOAD_EVENT; None where it stays as it is.
        is_barrier: no later group may be applied beside it (ANALYZE, REPAIR, OPTIMIZE, and CREATE, ALTER and DROP
            DATABASE).
        thread_id: of the session, which WRITESET_SESSION needs to know.
        marks: what MariaDB's GTID event says of it.
        on_commit: called in the commit stage, in the order of the log (binlog_order_commits=ON), and never for a group
            that failed.
    """

    frames: tuple[bytes, ...] | SpilledFrames
    timestamp: int
    may_have_sbr: bool = False
    end: GroupEnd = GroupEnd.XID
    writeset: WriteSet | None = None
    commit_parent: int | None = None
    assigned_gtid: NextGtid = AUTOMATIC
    compression_level: int | None = None
    is_barrier: bool = False
    thread_id: int = 0
    marks: GroupMarks = NO_MARKS
    on_commit: Callable[[], None] | None = None

    @property
    def is_incident(self) -> bool:
        """True if the log must be rotated after it."""
        return self.end is GroupEnd.INCIDENT

    @property
    def is_xa(self) -> bool:
        """True for the prepared half of an XA transaction, or one of ONE PHASE."""
        return self.end is GroupEnd.XA_PREPARE

    @property
    def size(self) -> int:
        """The sum of the frames' sizes, in bytes."""
        return sum(map(len, self.frames)) if isinstance(self.frames, tuple) else self.frames.size


@dataclass(frozen=True, slots=True, kw_only=True)
class FilledGroup:
    """A group whose events `fill` writes at their final positions.

    `timestamp` in seconds since 1970, UTC; `expected_size` in bytes is a guess. Where `fill` raises, nothing is
    written. The other fields are those of `Group`.
    """

    fill: Callable[[EventBuffer | EventFrames], None]
    timestamp: int
    expected_size: int
    writeset: WriteSet | None = None
    commit_parent: int | None = None
    assigned_gtid: NextGtid = AUTOMATIC
    is_barrier: bool = False
    thread_id: int = 0
    marks: GroupMarks = NO_MARKS
    on_commit: Callable[[], None] | None = None
