"""Public entry point of the writer: a series of binary logs as a server with the given variables would write them.

Connects the parts: sessions (`session`), group commit and log files (`log`).
"""

from __future__ import annotations

import os
import time
import uuid
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Final

from binlogio.errors import WriterStateError
from binlogio.gtid import EMPTY_GTID_SET, GtidSet, MariadbGtid, Uuid
from binlogio.options import Position, ServerVariables
from binlogio.storage.keyring import KeyringSource, load_keyring
from binlogio.storage.log_index import LogIndex, logs_before, logs_up_to
from binlogio.storage.log_storage import LocalStorage, LogStorage
from binlogio.storage.new_file import local_output
from binlogio.storage.spill_file import SpillFile, TemporaryFile
from binlogio.writer.log.encrypted_storage import EncryptedStorage, refuse_encryption
from binlogio.writer.log.group_commit import GroupCommit, Wait, system_wait
from binlogio.writer.log.gtids import DomainState
from binlogio.writer.log.log_builder import writer_kernel
from binlogio.writer.log.log_file import ActiveLog, Clock
from binlogio.writer.log.recovery import check_vendor, examine, recover
from binlogio.writer.log.server_identity import ServerIdentity, keep_identity, stored_identity
from binlogio.writer.server_format import variables_in_effect
from binlogio.writer.session.cache import CacheStatus
from binlogio.writer.session.connection import ConnectionState
from binlogio.writer.session.open_tables import OpenTables
from binlogio.writer.session.session import Session

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime
    from types import TracebackType

    from binlogio.writer.session.transaction import XaXid

_DEFAULT_VARIABLES: Final = ServerVariables()


def system_clock() -> int:
    """Return the time in microseconds since 1970, UTC."""
    return time.time_ns() // 1000


class BinlogWriter:
    """Writes the logs `basename.000001`, `basename.000002`, ... and their index file.

    It is used as a context manager, or by calls of `open` and `close`. Several threads may each use a session of their
    own.

    A writer that continues existing logs keeps the identity of their server (server_uuid, server_id, gtid_domain_id),
    unless `variables` have another one. `identity` is that of the new logs, `stored_identity` that of existing logs.

    Args:
        basename: directory and name of the logs without their number, such as `data/binlog`; with `storage`, only the
            name.
        variables: the server's variables.
        clock: returns the time in microseconds since 1970, UTC.
        new_uuid: creates the server's UUID if neither the variables nor existing logs have one.
        storage: storage of the logs; by default the directory of `basename`.
        wait: waits a number of microseconds for other sessions to commit, for binlog_group_commit_sync_delay.
        use_kernel: use the compiled kernel if it is available; the bytes are the same without it.
        open_spill: creates the file of a cache that exceeds its memory.
        keyring: the server's keys, for `binlog_encryption` and `encrypt_binlog`, and for existing encrypted logs.

    Raises:
        UnsupportedFeature: the log format of the server version is unknown, or encryption is on and there is no key.
        BinlogFormatError: the file with the identity of the server (`binlog.auto.cnf`) is damaged.
        OSError: the directory cannot be read.
    """

    def __init__(
        self,
        basename: str | os.PathLike[str],
        *,
        variables: ServerVariables = _DEFAULT_VARIABLES,
        clock: Clock = system_clock,
        new_uuid: Callable[[], uuid.UUID] = uuid.uuid4,
        storage: LogStorage | None = None,
        use_kernel: bool = True,
        wait: Wait = system_wait,
        open_spill: Callable[[], SpillFile] = TemporaryFile,
        keyring: KeyringSource | None = None,
    ) -> None:
        path = local_output(basename) if storage is None else Path(basename)
        variables = variables_in_effect(variables)
        given = None if variables.server_uuid is None else Uuid.parse(variables.server_uuid)
        plain: LogStorage = LocalStorage(path.parent) if storage is None else storage
        index = LogIndex(path.name, plain)
        ring = None if keyring is None else load_keyring(keyring)
        if ring is None:
            refuse_encryption(variables)

        def opened(server_uuid: Uuid | None) -> LogStorage:
            uuid_text = "" if server_uuid is None else str(server_uuid)
            return plain if ring is None else EncryptedStorage(plain, ring, variables, uuid_text, index.is_log)

        is_mariadb = variables.is_mariadb
        self.stored_identity: Final = stored_identity(opened(given), index, is_mariadb=is_mariadb)
        known = ServerIdentity(given, variables.server_id, variables.gtid_domain_id).or_else(self.stored_identity)
        self.server_uuid: Final = known.server_uuid or Uuid(new_uuid().bytes)
        whole = known.or_else(ServerIdentity(self.server_uuid, variables.server_id_in_effect, 0))
        self.identity: Final = whole.of_vendor(is_mariadb=is_mariadb)
        variables = replace(variables, server_id=whole.server_id, gtid_domain_id=whole.gtid_domain_id)
        self.variables: Final = variables
        self._storage = opened(self.server_uuid)
        self._clock = clock
        self._log = ActiveLog(path.name, self._storage, variables, clock)
        self._kernel = writer_kernel() if use_kernel else None
        self._group_commit = GroupCommit(self._log, variables, clock, self.server_uuid, self._kernel, wait)
        self._open_spill = open_spill
        self._status = CacheStatus()
        self._unlogged_xids: set[XaXid] = set()
        self._tables = OpenTables(variables, self._kernel)
        self._thread_ids = count(1)
        self._xids = count(1)
        self._file_ids = count(1)

    def __enter__(self) -> BinlogWriter:
        return self.open()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def open(self) -> BinlogWriter:
        """Create the next log of the series; the last existing log is recovered first if it was in use.

        Raises:
            OSError: the directory cannot be read or written.
            WriterStateError: another writer, of this or another process, has logs of this basename open.
            WriterStateError: the last log is one of the other vendor.
            BinlogError: the index names a log file that does not exist, or the last log has damage that a crash cannot
                cause; nothing was changed.
        """
        if self._group_commit.is_open:
            raise WriterStateError("the writer is already open", file=self._log.name)
        self._log.index.lock()
        try:
            recovered = self._recovered()
            keep_identity(self._storage, self._log.index, self.identity, self.stored_identity)
            self._group_commit.open(*recovered)
        except BaseException:
            self._log.index.unlock()
            raise
        return self

    def close(self) -> None:
        """End the log. Open transactions are not written. Has no effect in a forked child.

        Raises:
            OSError: the log cannot be written.
        """
        try:
            self._group_commit.close()
        finally:
            self._log.index.unlock()

    def crash(self) -> None:
        """End as a crash does: the log has no end event and stays marked as in use; sessions cannot be used any more.

        `open` recovers the log and begins the next one.
        """
        self._log.abandon()
        self.close()

    def session(self, schema: str = "") -> Session:
        """Return a new session whose default schema is `schema`."""
        connection = ConnectionState(
            thread_id=next(self._thread_ids),
            schema=schema,
            variables=self.variables,
            group_commit=self._group_commit,
            tables=self._tables,
            clock=self._clock,
            next_xid=self._xids.__next__,
            next_file_id=self._file_ids.__next__,
            kernel=self._kernel,
            status=self._status,
            open_spill=self._open_spill,
            unlogged_xids=self._unlogged_xids,
        )
        return Session(connection)

    def commit_together(self, sessions: Sequence[Session]) -> None:
        """Commit the transactions of several sessions in one group commit: one flush, and at most one sync.

        They are logged in this order, if no other thread commits meanwhile. The log is rotated after all of them. With
        MySQL, `last_committed` is that of each session's last statement, as always; with MariaDB they share a commit
        id.

        Raises:
            WriterStateError: a session is given twice, or the writer is not open.
            OSError: the log cannot be written.
        """
        if len({id(session) for session in sessions}) < len(sessions):
            raise WriterStateError("a session can commit once only in a group commit")
        self._group_commit.commit_together([session.commit for session in sessions])

    @property
    def status(self) -> dict[str, int]:
        """Status variables Binlog_cache_use, Binlog_cache_disk_use and those of statement caches, over all sessions."""
        return self._status.as_dict()

    def rotate(self) -> None:
        """End the log and begin the next one (FLUSH BINARY LOGS).

        Raises:
            WriterStateError: the writer is not open.
            OSError: a log cannot be written.
        """
        self._group_commit.rotate()

    def purge(self, *, to: str | None = None, before: datetime | None = None) -> tuple[str, ...]:
        """Remove the oldest logs: those before the log `to`, or those last written before a time (PURGE BINARY LOGS).

        Returns their names. The active log is never removed.

        Raises:
            WriterStateError: there is no log `to`, or the writer is not open.
            OSError: a file cannot be removed; it is no longer in the index, and is removed when the writer is opened
                again.
        """
        with self._group_commit.quiet():
            names = self._log.names
            if to is not None:
                names = logs_up_to(names, to)
            if before is not None:
                names = logs_before(self._storage, names, before, active=self._log.name)
            elif to is None:
                names = ()
            self._log.index.purge(names)
        return names

    @property
    def names(self) -> tuple[str, ...]:
        """The logs of the index, the active one last."""
        return self._log.names

    @property
    def position(self) -> Position:
        """The end of what readers may read (SHOW BINARY LOG STATUS): the last group, or the last synced group.

        Raises:
            WriterStateError: the writer is not open.
        """
        return self._group_commit.position

    @property
    def gtid_executed(self) -> GtidSet:
        """The GTIDs of all groups in the logs, with MySQL."""
        return self._group_commit.executed

    @property
    def gtid_binlog_state(self) -> tuple[MariadbGtid, ...]:
        """The last GTID of each domain and server, the latest one of a domain last (MariaDB)."""
        return self._group_commit.domains

    @property
    def ignored_error(self) -> BaseException | None:
        """The error because of which nothing is logged any more, with binlog_error_action=IGNORE_ERROR."""
        return self._group_commit.ignored_error

    def _recovered(self) -> tuple[GtidSet, tuple[MariadbGtid, ...]]:
        """Complete the work that a crash interrupted; returns the used GTIDs of MySQL and of MariaDB."""
        index = self._log.index
        index.open()
        listed, existing = index.names, index.existing()
        executed, domains = EMPTY_GTID_SET, DomainState()
        states = [recover(self._storage, listed[-1], self.variables)] if listed else []
        if existing and existing[-1] not in listed:
            states.append(examine(self._storage, existing[-1]))
            check_vendor(states[-1], self.variables)
        for state in states:
            executed |= state.executed
            for gtid in state.domains:
                domains.add(gtid)
        return executed, domains.gtids
