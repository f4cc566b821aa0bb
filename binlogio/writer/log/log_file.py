"""The active log file: header, append, truncate after a failed write, rotate and close.

A group is a sequence of bytes that is written as a whole; `log_builder` builds the bytes. IN_USE is cleared in place
when the file is closed; the checksum does not cover it. A rotation occurs between two groups.

Source: sql/binlog.cc, MYSQL_BIN_LOG::open_binlog, new_file_impl, close; fixtures mysql97/rotated, stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from binlogio.constants import BINLOG_MAGIC, HEADER_SIZE, HeaderFlag
from binlogio.errors import BinlogError, CommitOutcomeUnknown, WriterStateError
from binlogio.storage.index_file import next_log_name
from binlogio.storage.log_index import LogIndex
from binlogio.writer.log.encrypted_storage import start_encryption
from binlogio.writer.log.log_builder import LogBuilder

if TYPE_CHECKING:
    from binlogio.options import ServerVariables
    from binlogio.storage.log_storage import LogStorage
    from binlogio.writer.log.log_builder import LoggedGtids

Clock = Callable[[], int]
"""Returns the time in microseconds since 1970, UTC."""

MICROSECONDS_PER_SECOND: Final = 1_000_000
FLAGS_OFFSET: Final = len(BINLOG_MAGIC) + HEADER_SIZE - 2
REOPEN_HINT: Final = "close the writer and open it again: recovery keeps whole groups, and gtid_executed shows which"
_CLOSED: Final = bytes(2)
_IN_USE: Final = int(HeaderFlag.BINLOG_IN_USE).to_bytes(2, "little")


class ActiveLog:
    """The last log of an index. Not thread-safe, except `sync`.

    After a storage error, a partial write is removed if the storage can still truncate; otherwise every further call is
    refused.
    """

    def __init__(self, stem: str, storage: LogStorage, variables: ServerVariables, clock: Clock) -> None:
        self._stem = stem
        self._storage = storage
        self._variables = variables
        self._clock = clock
        self.index: Final = LogIndex(stem, storage)
        self._builder = LogBuilder.of(variables, None)
        self._broken = True  # until it is opened
        self.is_disowned = False
        self.name = ""
        self.size = 0

    @property
    def names(self) -> tuple[str, ...]:
        """The logs of the index, the active one last."""
        return self.index.names

    def open(self, previous: LoggedGtids) -> None:
        """Create the next log of the series, as a server does at start-up. `previous` are all GTIDs before it.

        Raises:
            OSError: the storage failed.
        """
        self._begin(self._next_name(), previous, created=self._now())
        self._broken = False

    def _next_name(self) -> str:
        """Return the name after all logs of the index and of the storage (sql/binlog.cc, find_uniq_filename)."""
        existing = self.index.existing()
        return next_log_name(existing[-1]) if existing else f"{self._stem}.000001"

    def disown(self) -> None:
        """Disown the log in a forked child: it belongs to the parent; writes are refused, and closing has no effect."""
        self._broken = self.is_disowned = True
        self._storage.disown()

    def append(self, data: bytes | bytearray | memoryview) -> None:
        """Append groups, whose positions were computed from `size`.

        Raises:
            OSError: the storage failed; the log is as before.
            CommitOutcomeUnknown: the storage failed, and the write could not be undone.
            WriterStateError: an earlier error left the log in an unknown state.
        """
        if self._broken:
            self._refuse()
        self._broken = True  # until the write is complete or undone, also after an asynchronous exception
        try:
            self._storage.append(self.name, data)
        except OSError:
            self.truncate(self.size)
            raise
        self.size += len(data)  # before the log is usable again: an interrupt can occur between the two lines
        self._broken = False

    def truncate(self, size: int) -> None:
        """Remove the groups from offset `size` on.

        Raises:
            CommitOutcomeUnknown: the storage failed; the log accepts no more groups.
        """
        self._broken = True
        try:
            self._storage.truncate(self.name, size)
        except OSError as exc:
            raise CommitOutcomeUnknown(
                f"a write failed and could not be undone ({exc.strerror or exc}); "
                "the group may or may not be in the log",
                file=self.name,
                offset=size,
                hint=REOPEN_HINT,
            ) from exc
        self.size = size
        self._broken = False

    def sync(self) -> None:
        """Make all written data durable."""
        self._storage.sync(self.name)

    def rotate(self, previous: LoggedGtids) -> None:
        """End this log and begin the next one.

        Raises:
            OSError: the storage failed; this log stays active if it can still be written.
        """
        if self._broken:
            self._refuse()
        old, size = self.name, self.size
        name = self._next_name()
        self._broken = True
        try:
            self._end(name)
            self._begin(name, previous, rotated_from=old)
        except (OSError, BinlogError):
            self._go_on(old, size)
            raise
        self._broken = False
        self._storage.close(old)

    def close(self) -> None:
        """End this log, as a server does at shutdown; a broken log is left as it is, in use."""
        if self.is_disowned:
            return
        try:
            if not self._broken:
                self._broken = True
                self._end()
        finally:
            self._storage.close(self.name)

    def abandon(self) -> None:
        """Refuse further writes to the log: it is left as it is, in use."""
        self._broken = True

    def _refuse(self) -> None:
        if self.is_disowned:
            raise WriterStateError(
                "the writer cannot be used in a forked child process",
                file=self.name,
                hint="open a writer of another basename in the child",
            )
        raise WriterStateError(
            "a write failed or was interrupted, and could not be undone", file=self.name, hint=REOPEN_HINT
        )

    def _begin(self, name: str, previous: LoggedGtids, created: int = 0, rotated_from: str = "") -> None:
        checkpoints = [rotated_from, name] if rotated_from else [name]
        data = self._builder.head(
            self._now(),
            self._variables.server_id_in_effect,
            previous,
            created=created,
            in_use=True,
            checkpoints=checkpoints,
            encryption=start_encryption() if self._variables.encrypt_binlog else None,
        )

        def place() -> Iterator[str]:
            yield name
            self._storage.create(name)
            self._storage.append(name, data)
            self._storage.sync(name)

        self.index.publish([name], place(), [*self.index.names, name])
        self.name, self.size = name, len(data)

    def _end(self, next_log: str = "") -> None:
        data = self._builder.end(self.size, self._now(), self._variables.server_id_in_effect, next_log)
        self._storage.append(self.name, data)
        self.size += len(data)
        self._storage.sync(self.name)
        self._storage.overwrite(self.name, FLAGS_OFFSET, _CLOSED)
        self._storage.sync(self.name)

    def _go_on(self, name: str, size: int) -> None:
        """Undo a rotation that failed: remove the ROTATE event from this log, and mark it as in use.

        If the next log could not be removed from the index, this log stays broken.
        """
        if self.index.names[-1] != name:
            return
        self.name = name
        self.truncate(size)
        self._broken = True
        self._storage.overwrite(name, FLAGS_OFFSET, _IN_USE)
        self._broken = False

    def _now(self) -> int:
        return self._clock() // MICROSECONDS_PER_SECOND
