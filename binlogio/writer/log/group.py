"""Groups that a session passes to group commit: events without a GTID, and what the commit stages need to know of them.

    group := gtid | anonymous_gtid | gtid_tagged | mariadb_gtid  event*

`group_log` writes groups to the log, `group_commit` decides their order.
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
    """The last event of a group."""

    XID = "XID"
    COMMIT = "COMMIT"
    ROLLBACK = "ROLLBACK"
    STATEMENT = "statement"  # DDL and any other statement that is a group by itself
    XA_PREPARE = "XA PREPARE"
    INCIDENT = "INCIDENT"  # the log is rotated after the group


class SpilledFrames(Protocol):
    """Frames that are not in memory; they can be iterated more than once."""

    @property
    def size(self) -> int:
        """The sum of the frames' sizes, in bytes."""

    def __iter__(self) -> Iterator[bytes]:
        """Return the frames in order. Raises OSError if they cannot be read."""


class WriteSet(NamedTuple):
    """The rows that a group changed, by the hashes of their keys (`writeset.KeyHasher`).

    `has_missing_keys` if the table of a row has no key. Without hashes and missing keys the writeset is unknown, as for
    DDL.
    """

    hashes: tuple[int, ...] = ()
    has_missing_keys: bool = False

    @classmethod
    def of(cls, hashes: Iterable[int], *, has_missing_keys: bool = False) -> WriteSet:
        """Return the writeset with each hash once."""
        return cls(tuple(dict.fromkeys(hashes)), has_missing_keys)


@dataclass(frozen=True, slots=True)
class Automatic:
    """gtid_next=AUTOMATIC, or AUTOMATIC:tag: the server's next number, or no GTID if gtid_mode is off."""

    tag: Tag = NO_TAG


class Anonymous(Enum):
    """gtid_next=ANONYMOUS."""

    ANONYMOUS = "ANONYMOUS"


@dataclass(frozen=True, slots=True)
class InDomain:
    """MariaDB's gtid_domain_id, server_id and gtid_seq_no; `sequence_number` is None for the next number.

    `allow_parallel` is False with skip_parallel_replication.
    """

    domain_id: int = 0
    server_id: int = 1
    sequence_number: int | None = None
    allow_parallel: bool = True


AUTOMATIC: Final = Automatic()
ANONYMOUS: Final = Anonymous.ANONYMOUS
NextGtid = Automatic | Anonymous | Gtid | InDomain
"""Values of `gtid_next`: AUTOMATIC with or without a tag, ANONYMOUS, or one GTID; for MariaDB `InDomain`."""


class GroupMarks(NamedTuple):
    """Facts of a group for MariaDB's GTID event.

    Args:
        is_transactional: ROLLBACK would undo all of it, so that replicas may apply it before preceding groups.
        is_ddl: tables are created or dropped in it.
        has_no_engine: it was in the transaction cache, but no engine has anything to commit.
        xa: the XA transaction that it prepares or ends.
        alter: which half of a two-phase ALTER TABLE it is; the second half has the number of the first one.
    """

    is_transactional: bool = False
    is_ddl: bool = False
    has_no_engine: bool = False
    xa: MariadbXid | None = None
    alter: MariadbAlterFlags | None = None


NO_MARKS: Final = GroupMarks()


class Group(NamedTuple):
    """A finished group without its GTID event.

    A tuple for speed, because each small transaction makes one: a dataclass takes four times as long.

    Args:
        frames: its events, complete except for position and checksum.
        timestamp: of its GTID event, in seconds since 1970, UTC.
        may_have_sbr: it has a statement as text.
        end: its last event.
        writeset: the rows that it changed; None if they are unknown (statements as text, DDL, parents of foreign keys,
            savepoints that lost them).
        commit_parent: `GroupCommit.max_committed` at the end of the session's last statement; None makes the group
            depend on the previous one.
        assigned_gtid: the session's gtid_next.
        compression_level: zstd level for compression into a TRANSACTION_PAYLOAD_EVENT; None for no compression.
        is_barrier: no later group may be applied in parallel with it (ANALYZE, REPAIR, OPTIMIZE, and CREATE, ALTER and
            DROP DATABASE).
        thread_id: of the session, for WRITESET_SESSION.
        marks: facts for MariaDB's GTID event.
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
        """True if it ends in XA PREPARE, also for XA COMMIT ... ONE PHASE."""
        return self.end is GroupEnd.XA_PREPARE

    @property
    def size(self) -> int:
        """The sum of the frames' sizes, in bytes."""
        return sum(map(len, self.frames)) if isinstance(self.frames, tuple) else self.frames.size


@dataclass(frozen=True, slots=True, kw_only=True)
class FilledGroup:
    """A group whose events `fill` writes at their final positions.

    `timestamp` is in seconds since 1970, UTC; `expected_size` is an estimate in bytes. If `fill` raises, nothing is
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
