"""The statement cache and the transaction cache: encoded events that wait until their group is written.

Each event is complete except for its position. `session` chooses the cache of an event, and decides when a cache is
flushed. `SessionCaches` adds BEGIN at the start of a cache and its end event, and passes the group to group commit.

    statement cache   := BEGIN event* COMMIT                     -- at the end of the statement, failed or not
    transaction cache := BEGIN event* (XID | COMMIT | ROLLBACK)  -- at the end of the transaction

MariaDB's GTID events replace BEGIN and XA START. Rule sets with one cache have no statement cache: events that need not
wait are written to the log without BEGIN and COMMIT.

`CacheBuffer` computes when a cache spills to a temporary file and when it is full, as the server's IO_CACHE does. A
cache has a buffer, whose size is the variable's, rounded up to 8192 bytes. A write that does not fit fills the buffer,
which is then written to the temporary file, together with the whole pages of 4096 bytes of the rest. The write fails,
before anything is written, if the file and a whole buffer would be larger than the limit; therefore a single large
write may end after the limit.

Source: sql/binlog.cc, binlog_cache_mngr, binlog_cache_data and its finalize; oracle rules 8.4, 8.5, 8.9;
mysys/mf_iocache.cc, _my_b_write, my_b_flush_io_cache and reinit_io_cache; sql/binlog_ostream.cc; measured on 9.7.4.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from threading import Lock
from typing import TYPE_CHECKING, Final, NamedTuple

from binlogio.constants import HEADER_SIZE, TYPE_CODE_AT, EventType
from binlogio.errors import CacheLimitExceeded
from binlogio.events.control import IncidentEvent
from binlogio.events.query import sizes_before_sql
from binlogio.events.rows import POST_HEADER_V1, POST_HEADER_V2
from binlogio.gtid import Gtid
from binlogio.primitives import bitmap_size
from binlogio.writer.log.group import AUTOMATIC, NO_MARKS, Group, GroupEnd, GroupMarks, InDomain, NextGtid, WriteSet
from binlogio.writer.query_events import boundary_event
from binlogio.writer.rows.writeset import WriteSetBuilder
from binlogio.writer.rules.rule_sets import rules_of, statement_cache_sizes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from binlogio.options import ServerVariables
    from binlogio.storage.spill_file import SpillFile
    from binlogio.writer.log.group_commit import GroupCommit
    from binlogio.writer.log.log_builder import LogBuilder, LoggedGtid
    from binlogio.writer.query_events import QueryContext

IO_SIZE: Final = 4096
BUFFER_UNIT: Final = 2 * IO_SIZE
_NO_LIMIT: Final = 1 << 64


def buffer_size(variable: int) -> int:
    """Return the size in bytes of the buffer for binlog_cache_size = `variable`."""
    return -(-variable // BUFFER_UNIT) * BUFFER_UNIT


class CacheBuffer:
    """Sizes of the parts of a cache in its file and in its buffer, in bytes."""

    __slots__ = ("_capacity", "_limit", "_size", "in_buffer", "in_file")

    def __init__(self, size: int, limit: int) -> None:
        self._size = buffer_size(size)
        self._limit = limit
        self._capacity = self._size
        self.in_file = 0
        self.in_buffer = 0

    @property
    def size(self) -> int:
        """The number of bytes written."""
        return self.in_file + self.in_buffer

    @property
    def room(self) -> int:
        """The number of bytes that still fit into the buffer."""
        return self._capacity - self.in_buffer

    def takes(self, size: int) -> bool:
        """Add writes of `size` bytes in total if they fit into the buffer. Returns whether they did."""
        size += self.in_buffer
        if size > self._capacity:
            return False
        self.in_buffer = size
        return True

    def fits(self, writes: Iterable[int]) -> bool:
        """Add these writes if all of them fit within the limit, else none. Returns whether they were added."""
        before = self._capacity, self.in_file, self.in_buffer
        for write in writes:
            if not self._write(write):
                self._capacity, self.in_file, self.in_buffer = before
                return False
        return True

    def write_all(self, writes: Iterable[int]) -> None:
        """Add these writes regardless of the limit."""
        limit, self._limit = self._limit, _NO_LIMIT
        self.fits(writes)
        self._limit = limit

    def truncate(self, size: int) -> None:
        """Discard all bytes after `size`."""
        if size >= self.in_file:
            self.in_buffer = size - self.in_file
        else:
            self.in_file, self.in_buffer = size, 0
            self._capacity = self._size - size % IO_SIZE

    def reset(self) -> None:
        """Discard everything."""
        self._capacity, self.in_file, self.in_buffer = self._size, 0, 0

    def _write(self, length: int) -> bool:
        room = self._capacity - self.in_buffer
        if length <= room:
            self.in_buffer += length
            return True
        if self.in_file + self._size > self._limit:
            return False
        rest = length - room
        pages = rest - rest % IO_SIZE
        self.in_file += self._capacity + pages
        self._capacity = self._size
        self.in_buffer = rest - pages
        return True


class FrameFile:
    """Consecutive frames in a `SpillFile`.

    Part of a `binlogio.writer.log.group.SpilledFrames`, together with the frames in memory.
    """

    def __init__(self, file: SpillFile) -> None:
        self._file = file
        self._ends: list[int] = []

    @property
    def size(self) -> int:
        """The sum of the frames' sizes, in bytes."""
        return self._ends[-1] if self._ends else 0

    def __len__(self) -> int:
        return len(self._ends)

    def __iter__(self) -> Iterator[bytes]:
        start = 0
        for end in self._ends:
            yield self._file.read(start, end - start)
            start = end

    def extend(self, frames: list[bytes]) -> None:
        """Append frames; if it raises, none of them is added."""
        end = self.size
        ends = []
        self._file.write(end, b"".join(frames))
        for frame in frames:
            end += len(frame)
            ends.append(end)
        self._ends += ends

    def truncate(self, count: int) -> None:
        """Keep the first `count` frames."""
        del self._ends[count:]

    def close(self) -> None:
        """Delete the file."""
        self._file.close()


class CacheStatus:
    """The status variables Binlog_cache_use and the like. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self.cache_use = 0
        self.cache_disk_use = 0
        self.stmt_cache_use = 0
        self.stmt_cache_disk_use = 0

    def count(self, *, is_transactional: bool, spilled: bool) -> None:
        """Count one use of a cache that was not empty."""
        with self._lock:
            if is_transactional:
                self.cache_use += 1
                self.cache_disk_use += spilled
            else:
                self.stmt_cache_use += 1
                self.stmt_cache_disk_use += spilled

    def as_dict(self) -> dict[str, int]:
        """Return the status variables by the server's names."""
        with self._lock:
            return {
                "Binlog_cache_use": self.cache_use,
                "Binlog_cache_disk_use": self.cache_disk_use,
                "Binlog_stmt_cache_use": self.stmt_cache_use,
                "Binlog_stmt_cache_disk_use": self.stmt_cache_disk_use,
            }


_TOO_SMALL: Final = {
    True: (
        1197,
        "ER_TRANS_CACHE_FULL",
        (
            "Multi-statement transaction required more than 'max_binlog_cache_size' bytes of storage; increase "
            "this mysqld "
            "variable and try again"
        ),
    ),
    False: (
        1705,
        "ER_STMT_CACHE_FULL",
        (
            "Multi-row statements required more than 'max_binlog_stmt_cache_size' bytes of storage; increase "
            "this mysqld "
            "variable and try again"
        ),
    ),
}


class CachePosition(NamedTuple):
    """A position between two events: number, kinds and size of the events before it.

    `size` and `cached_size` are in bytes, with and without checksums; `writeset` is the number of row hashes.
    """

    event_count: int
    size: int
    cached_size: int
    has_statements: bool
    has_rows: bool
    writeset: int


AT_START: Final = CachePosition(0, 0, 0, has_statements=False, has_rows=False, writeset=0)
"""The position in an empty cache."""


class BinlogCache:
    """One of the two caches of a session. Sizes are in bytes.

    `cannot_roll_back`: it has a statement that ROLLBACK does not undo. `has_statements`, `has_rows`: something was
    logged as text, as rows. `writeset`: the changed rows.
    """

    def __init__(
        self,
        *,
        is_transactional: bool,
        cache_size: int,
        max_cache_size: int,
        checksum_size: int,
        status: CacheStatus,
        open_spill: Callable[[], SpillFile],
        writeset: WriteSetBuilder,
    ) -> None:
        self._is_transactional = is_transactional
        self._buffer = CacheBuffer(cache_size, max_cache_size)
        self._checksum_size = checksum_size
        self._status = status
        self._open_spill = open_spill
        self.writeset: Final = writeset
        self._memory: list[bytes] = []
        self._memory_size = 0
        self._file: FrameFile | None = None
        self._has_spilled = False
        self.size = 0
        self.cannot_roll_back = False
        self.has_statements = False
        self.has_rows = False

    @property
    def is_empty(self) -> bool:
        """True if the cache has no event."""
        return self.size == 0

    @property
    def position(self) -> CachePosition:
        """The position after the last event, for `truncate`."""
        spilled = len(self._file) if self._file is not None else 0
        count = spilled + len(self._memory)
        return CachePosition(
            count, self.size, self._buffer.size, self.has_statements, self.has_rows, self.writeset.position
        )

    def extend(self, frames: Sequence[bytes]) -> None:
        """Append events.

        Raises:
            CacheLimitExceeded: an event does not fit; those before it are in the cache.
            OSError: the temporary file cannot be written; the cache is unchanged or has all events.
        """
        size = sum(map(len, frames))
        if self._buffer.takes(size - self._checksum_size * len(frames)):
            self._memory += frames
            self._memory_size += size
            self.size += size
        else:
            for number, frame in enumerate(frames, start=1):
                if not self._buffer.fits(self._writes(frame)):
                    self._has_spilled |= self._buffer.in_file > 0
                    raise self._full(is_last=number == len(frames))
                self._memory.append(frame)
                self._memory_size += len(frame)
                self.size += len(frame)
        if self._buffer.in_file and (self._file is None or self._memory_size > self._buffer.room):
            self._spill()

    def close(self, frame: bytes) -> None:
        """Append the event that ends the group, regardless of the limit.

        Raises:
            OSError: the temporary file cannot be written.
        """
        size = len(frame)
        if not self._buffer.takes(size - self._checksum_size):
            self._buffer.write_all(self._writes(frame))
        self._memory.append(frame)
        self._memory_size += size
        self.size += size
        if self._buffer.in_file and self._file is None:
            self._spill()

    def truncate(self, position: CachePosition) -> None:
        """Discard the events after a position, which belong to a failed statement."""
        spilled = len(self._file) if self._file is not None else 0
        if position.event_count >= spilled:
            for frame in self._memory[position.event_count - spilled :]:
                self._memory_size -= len(frame)
            del self._memory[position.event_count - spilled :]
        elif self._file is not None:
            self._memory, self._memory_size = [], 0
            self._file.truncate(position.event_count)
        self._buffer.truncate(position.cached_size)
        self.size = position.size
        self.has_statements, self.has_rows = position.has_statements, position.has_rows
        self.writeset.truncate(position.writeset)

    def frames(self) -> tuple[bytes, ...] | CachedFrames:
        """Return the events; they are kept until `reset`."""
        memory = tuple(self._memory)
        return memory if self._file is None else CachedFrames(self._file, memory)

    def reset(self) -> None:
        """Discard the events, and count the use of the cache."""
        if self.size:
            self._status.count(is_transactional=self._is_transactional, spilled=self._has_spilled)
        if self._file is not None:
            self._file.close()
            self._file = None
        self._memory = []
        self._memory_size = 0
        self._buffer.reset()
        self.writeset.clear()
        self._has_spilled = False
        self.size = 0
        self.cannot_roll_back = False
        self.has_statements = False
        self.has_rows = False

    def _spill(self) -> None:
        self._has_spilled = True
        if self._file is None:
            self._file = FrameFile(self._open_spill())
        self._file.extend(self._memory)
        self._memory, self._memory_size = [], 0

    def _full(self, *, is_last: bool) -> CacheLimitExceeded:
        errno, symbol, reason = _TOO_SMALL[self._is_transactional]
        error = CacheLimitExceeded(reason, errno=errno, symbol=symbol)
        error.at_statement_end = is_last
        return error

    def _writes(self, frame: bytes) -> tuple[int, ...]:
        """Return the sizes of the pieces in which the server writes an event; the large one is the last."""
        size = len(frame) - self._checksum_size - HEADER_SIZE
        if frame[TYPE_CODE_AT] == EventType.QUERY_EVENT:
            before_sql = sizes_before_sql(frame, HEADER_SIZE)
            return HEADER_SIZE, *before_sql, size - sum(before_sql)
        if frame[TYPE_CODE_AT] in _ROWS_EVENTS:
            post_header, count = _ROWS_EVENTS[EventType(frame[TYPE_CODE_AT])]
            bitmaps = _bitmaps_size(frame, HEADER_SIZE + post_header, count)
            return HEADER_SIZE, post_header, bitmaps, size - post_header - bitmaps
        return HEADER_SIZE, size


class CachedFrames:
    """The events of a cache that spilled to a file; a `binlogio.writer.log.group.SpilledFrames`."""

    def __init__(self, file: FrameFile, memory: tuple[bytes, ...]) -> None:
        self._file = file
        self._memory = memory

    @property
    def size(self) -> int:
        """The sum of the frames' sizes, in bytes."""
        return self._file.size + sum(map(len, self._memory))

    def __iter__(self) -> Iterator[bytes]:
        yield from self._file
        yield from self._memory


class JoinedFrames:
    """The events of both caches, in order; a `binlogio.writer.log.group.SpilledFrames`.

    `repeated` is the number of events at the start of the second cache that are omitted.
    """

    def __init__(
        self, first: tuple[bytes, ...] | CachedFrames, second: tuple[bytes, ...] | CachedFrames, repeated: int = 0
    ) -> None:
        self._parts = first, second
        self._repeated = repeated

    @property
    def size(self) -> int:
        """The sum of the frames' sizes, in bytes."""
        whole = sum(part.size if isinstance(part, CachedFrames) else sum(map(len, part)) for part in self._parts)
        return whole - sum(map(len, islice(self._parts[1], self._repeated)))

    def __iter__(self) -> Iterator[bytes]:
        yield from self._parts[0]
        yield from islice(self._parts[1], self._repeated, None)


def joined(
    first: tuple[bytes, ...] | CachedFrames, second: tuple[bytes, ...] | CachedFrames, repeated: int = 0
) -> tuple[bytes, ...] | JoinedFrames:
    """Return the events of two caches as those of one group, without the first `repeated` events of the second one."""
    if isinstance(first, tuple) and isinstance(second, tuple):
        return first + second[repeated:]
    return JoinedFrames(first, second, repeated)


_ROWS_EVENTS: Final = {
    EventType.WRITE_ROWS_EVENT_V1: (POST_HEADER_V1, 1),
    EventType.UPDATE_ROWS_EVENT_V1: (POST_HEADER_V1, 2),
    EventType.DELETE_ROWS_EVENT_V1: (POST_HEADER_V1, 1),
    EventType.WRITE_ROWS_EVENT: (POST_HEADER_V2, 1),
    EventType.UPDATE_ROWS_EVENT: (POST_HEADER_V2, 2),
    EventType.DELETE_ROWS_EVENT: (POST_HEADER_V2, 1),
    EventType.PARTIAL_UPDATE_ROWS_EVENT: (POST_HEADER_V2, 2),
}
"""The size of the post-header before the column count, in bytes, and the number of present bitmaps."""


def _bitmaps_size(frame: bytes, at: int, count: int) -> int:
    """Return the size of the column count, at `at`, and the bitmaps of a rows event that this package has built."""
    columns, width = frame[at], 1
    if columns > 250:  # a length-encoded integer of two bytes; larger counts do not exist
        columns, width = int.from_bytes(frame[at + 1 : at + 3], "little"), 3
    return width + count * bitmap_size(columns)


# ------------------------------------------------------------------------------------------ the two caches of a session

LOST_EVENTS: Final = 1
DDL_MARKS: Final = GroupMarks(is_ddl=True)
MAX_HASHES: Final = 1_000_000  # hashes of one transaction; with more, its rows are not tracked
INCIDENT_MESSAGE: Final = "Non-transactional changes were not written to the binlog."


class SessionCaches:
    """The caches of one session.

    `gtid_next` applies to the next group; `gtid_is_used` is True after an assigned GTID was written.
    """

    def __init__(
        self,
        *,
        thread_id: int,
        variables: ServerVariables,
        builder: LogBuilder,
        group_commit: GroupCommit,
        next_xid: Callable[[], int],
        status: CacheStatus,
        open_spill: Callable[[], SpillFile],
    ) -> None:
        checksum_size = 4 if variables.binlog_checksum == "CRC32" else 0
        self._thread_id = thread_id
        self._builder = builder
        self._group_commit = group_commit
        self._next_xid = next_xid
        self._status = status
        self.has_statement_cache: Final = rules_of(variables).has_statement_cache
        cache_size, max_cache_size = statement_cache_sizes(variables)
        self.statement = BinlogCache(
            is_transactional=False,
            cache_size=cache_size,
            max_cache_size=max_cache_size,
            checksum_size=checksum_size,
            status=status if self.has_statement_cache else CacheStatus(),
            open_spill=open_spill,
            writeset=WriteSetBuilder(MAX_HASHES),
        )
        self.transaction = BinlogCache(
            is_transactional=True,
            cache_size=variables.binlog_cache_size,
            max_cache_size=variables.max_binlog_cache_size,
            checksum_size=checksum_size,
            status=status,
            open_spill=open_spill,
            writeset=WriteSetBuilder(MAX_HASHES),
        )
        uses_writesets = variables.binlog_transaction_dependency_tracking != "COMMIT_ORDER"
        self.writesets: dict[bool, WriteSetBuilder] = (
            {True: self.transaction.writeset, False: self.statement.writeset} if uses_writesets else {}
        )
        self.gtid_next: NextGtid = AUTOMATIC
        self.gtid_is_used = False
        self.last_gtid: LoggedGtid = None
        self.commit_parent: int | None = None
        self.xa_start: bytes = b""

    def add(self, cache: BinlogCache, frames: Sequence[bytes], context: QueryContext) -> None:
        """Append events to a cache, preceded by BEGIN (or XA START) if they are the first.

        Raises:
            CacheLimitExceeded: they do not fit.
            OSError: the temporary file cannot be written.
        """
        if not cache.size and (self.has_statement_cache or cache is self.transaction):
            if self.xa_start and cache is self.transaction:
                frames = (self._builder.encode(boundary_event(context, self.xa_start)), *frames)
            else:
                frames = (*self._builder.opening(context), *frames)
        cache.extend(frames)

    def end_statement(self) -> None:
        """End a statement: the group of its transaction depends on the groups committed so far."""
        self.commit_parent = self._group_commit.max_committed

    def flush_statement(self, context: QueryContext) -> None:
        """Write the statement cache, unless it is empty."""
        if self.statement.is_empty:
            return
        if self.has_statement_cache:
            self._flush(self.statement, self._builder.commit(context), GroupEnd.COMMIT, context.timestamp)
        else:
            self._flush(self.statement, None, GroupEnd.STATEMENT, context.timestamp)

    def flush_transaction(
        self,
        end: GroupEnd,
        context: QueryContext,
        *,
        compression_level: int | None = None,
        marks: GroupMarks = NO_MARKS,
        creates_table: bool = False,
    ) -> None:
        """Write the transaction cache, preceded by the statement cache if it is not empty.

        `creates_table`: it is CREATE TABLE ... SELECT.
        """
        if end is GroupEnd.XID:
            last = self._builder.xid(self._next_xid(), context.timestamp, context.server_id)
        elif end is GroupEnd.COMMIT and creates_table:
            last = self._builder.encode(boundary_event(context, b"COMMIT", xid=self._next_xid()))
        elif end is GroupEnd.COMMIT:
            last = self._builder.commit(context)
        else:
            last = self._builder.encode(boundary_event(context, b"ROLLBACK"))
        self._flush(self.transaction, last, end, context.timestamp, compression_level=compression_level, marks=marks)

    def flush_xa(
        self, last: bytes, timestamp: int, *, end: GroupEnd = GroupEnd.XA_PREPARE, marks: GroupMarks = NO_MARKS
    ) -> None:
        """Write the transaction cache as the prepared half of an XA transaction, or as one that was rolled back."""
        self._flush(self.transaction, last, end, timestamp, marks=marks)

    def write_statement(
        self,
        frames: Sequence[bytes],
        timestamp: int,
        *,
        is_transactional: bool,
        is_barrier: bool = False,
        marks: GroupMarks = DDL_MARKS,
    ) -> None:
        """Write events as a separate group, which is counted as a use of the cache of its kind."""
        self._status.count(is_transactional=is_transactional, spilled=False)
        self._commit(
            tuple(frames), timestamp, GroupEnd.STATEMENT, may_have_sbr=True, is_barrier=is_barrier, marks=marks
        )

    def write_incident(self, context: QueryContext) -> None:
        """Write an INCIDENT event because changes are missing; the log is then rotated."""
        event = IncidentEvent(incident=LOST_EVENTS, message=INCIDENT_MESSAGE, header=context.header())
        self._status.count(is_transactional=False, spilled=False)
        self._commit((self._builder.encode(event),), context.timestamp, GroupEnd.INCIDENT, may_have_sbr=True)

    def write_empty(self, context: QueryContext) -> None:
        """Write an empty transaction, which uses up a GTID."""
        frames = self._builder.begin(context), self._builder.commit(context)
        self._commit(frames, context.timestamp, GroupEnd.COMMIT, may_have_sbr=True)

    def _flush(
        self,
        cache: BinlogCache,
        last: bytes | None,
        end: GroupEnd,
        timestamp: int,
        *,
        compression_level: int | None = None,
        marks: GroupMarks = NO_MARKS,
    ) -> None:
        """Write a cache as a group; the cache is empty afterwards in any case."""
        first = self.statement if cache is self.transaction and self.statement.size else None
        try:
            if last is not None:
                cache.close(last)
            only_rows = cache.has_rows and not cache.has_statements
            self._commit(
                cache.frames() if first is None else joined(first.frames(), cache.frames(), self._builder.opening_size),
                timestamp,
                end,
                may_have_sbr=not only_rows,
                compression_level=compression_level if only_rows else None,
                writeset=cache.writeset.take() if only_rows and self.writesets else None,
                marks=marks,
            )
        finally:
            cache.reset()
            if first is not None:
                first.reset()

    def _commit(
        self,
        frames: tuple[bytes, ...] | CachedFrames | JoinedFrames,
        timestamp: int,
        end: GroupEnd,
        *,
        may_have_sbr: bool,
        compression_level: int | None = None,
        writeset: WriteSet | None = None,
        is_barrier: bool = False,
        marks: GroupMarks = NO_MARKS,
    ) -> None:
        gtid_next = self.gtid_next
        group = Group(
            frames,
            timestamp,
            may_have_sbr,
            end,
            writeset,
            self.commit_parent,
            gtid_next,
            compression_level,
            is_barrier,
            self._thread_id,
            marks,
        )
        self.last_gtid = self._group_commit.commit(group)
        self.commit_parent = None  # another group of the same statement depends on this one
        if gtid_next is AUTOMATIC:
            return
        if isinstance(gtid_next, Gtid):
            self.gtid_is_used = True
        elif isinstance(gtid_next, InDomain):
            self.gtid_next = replace(gtid_next, sequence_number=None)
