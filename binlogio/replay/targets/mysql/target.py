"""MySQL and MariaDB targets: a connection for each worker, and the replay position in a table beside the data.

The steps of a transaction are in `mysql.session`.

DDL commits before and after itself, so its position cannot be written in the same transaction: it is announced before
and confirmed after the DDL. A replay that finds an announced and unconfirmed DDL executes it again, and accepts the
errors "exists already" and "does not exist".

With the GTIDs of the source (`kept_gtids`), the GTIDs of the target show which groups it has, including DDL, and no
position is stored.

After a client was killed, a server still finishes what it has received. Therefore the first worker holds a lock with
the name of the source (GET_LOCK), which ends with its connection, and a replay reads the position only when it has this
lock.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from binlogio.errors import ReplayError
from binlogio.replay.progress import UNKNOWN_SOURCE
from binlogio.replay.targets.mysql import position_table
from binlogio.replay.targets.mysql.address import MysqlAddress
from binlogio.replay.targets.mysql.connection import Connection
from binlogio.replay.targets.mysql.kept_gtids import executed_gtids, keeps_gtids
from binlogio.replay.targets.mysql.senders import raw_input
from binlogio.replay.targets.mysql.server_tables import ServerTables, counted_rows, counted_since
from binlogio.replay.targets.mysql.session import MysqlSession

if TYPE_CHECKING:
    from binlogio.options import Position
    from binlogio.replay.progress import KeptLog, Progress
    from binlogio.replay.summary import RowCounts
    from binlogio.replay.targets import OnLossy, ReplayPlan
    from binlogio.schema.ddl.foreign_keys import Cascade

_WORKERS_AT_FIRST: Final = 16
LONGEST_WAIT_S: Final = 60
"""How long a replay waits for the connection of an earlier one."""


def lock_name(source: str) -> str:
    """Return the name of the lock of a source, which may have 64 characters."""
    return f"binlogio_replay.{hashlib.sha256(source.encode()).hexdigest()[:32]}"


class MysqlTarget:
    """A server's tables. Use `MysqlTarget.open`.

    `applies_events` is True where row events are sent as they are (BINLOG statements), False where they become SQL,
    None where the log decides: events of a server of the same kind are sent as they are. `on_lossy` says what happens
    if a value in SQL does not fit its column: an error, a change by the server that is counted, or one that is not.
    """

    def __init__(
        self,
        address: MysqlAddress,
        connection: Connection,
        *,
        idempotent: bool,
        applies_events: bool | None,
        on_lossy: OnLossy = "error",
    ) -> None:
        self.shares_commits = True
        self.cascades: tuple[Cascade, ...] = ()  # the server has them
        takes_raw = applies_events is not False and not (idempotent and connection.is_mariadb)
        self.raw = raw_input(connection) if takes_raw else None
        self._idempotent = idempotent
        self._on_lossy = on_lossy
        self._applies_events = applies_events
        self._address = address
        self._connection = connection
        self._keeps_gtids = False
        self._source = UNKNOWN_SOURCE
        self._is_prepared = False
        self._restarts = False  # the position of an earlier replay does not count
        self._read()
        self._counted = counted_rows(connection.ask)
        self._counts: RowCounts | None = None
        self._tables = ServerTables()

    @classmethod
    def open(
        cls,
        url: str,
        *,
        idempotent: bool = False,
        applies_events: bool | None = None,
        on_lossy: OnLossy = "error",
    ) -> MysqlTarget:
        """Connect. Nothing is changed before `prepare`.

        Raises:
            ReplayError: the URL is invalid, or the server refuses.
            OSError: the server cannot be reached.
        """
        address = MysqlAddress.parse(url)
        connection = Connection(address)
        try:
            return cls(address, connection, idempotent=idempotent, applies_events=applies_events, on_lossy=on_lossy)
        except BaseException:
            connection.close()
            raise

    @property
    def keeps_gtids(self) -> bool:
        """True if transactions keep the GTIDs of the source."""
        return self._keeps_gtids

    def prepare(self, plan: ReplayPlan) -> None:
        """Decide about GTIDs, and see which are executed, after the connection of an earlier replay has ended.

        Raises:
            ReplayError: the GTIDs of the source shall be kept, and the server cannot do that; or another replay of the
                source is running.
        """
        self._source = plan.source
        self._lock(self._connection, LONGEST_WAIT_S)
        self._connection.ask(f"SELECT RELEASE_LOCK('{lock_name(self._source)}')")
        self._read()
        connection, has_position = self._connection, self._progress.low is not None
        self._keeps_gtids = keeps_gtids(
            plan, connection.ask, is_mariadb=connection.is_mariadb, has_position=has_position
        )
        self.shares_commits = not self._keeps_gtids
        self._read()

    def _lock(self, connection: Connection, longest_s: int) -> None:
        """Get the lock of the source, which a connection has until it ends.

        Raises:
            ReplayError: another connection has it all the time.
        """
        if connection.ask(f"SELECT GET_LOCK('{lock_name(self._source)}', {longest_s})") != [(1,)]:
            raise ReplayError(
                "another replay of this source is running at the target",
                found=f"a connection that has the lock {lock_name(self._source)}",
                hint="wait until it ends, or KILL its connection if its client has ended",
            )

    def _make_position_table(self) -> None:
        """Create the table of positions, or give it the columns of this version."""
        columns = self._position_columns()
        if not columns:
            for sql in (*position_table.CREATE, position_table.rows_for(self._source, range(_WORKERS_AT_FIRST))):
                self._connection.run(sql)
        else:
            for sql in position_table.upgrades(columns):
                self._connection.run(sql)
            rows = self._connection.ask(position_table.read(self._position_columns()))
            for sql in (
                *position_table.adoptions(rows, self._source),
                *(() if self._restarts else position_table.put_back(rows, self._source)),
            ):
                self._connection.run(sql)
        self._read()

    def _position_columns(self) -> set[str]:
        """Return the names of the columns of the table of positions, none if there is no such table."""
        return {str(name).lower() for (name,) in self._connection.ask(position_table.COLUMNS)}

    def forget_position(self) -> None:
        """Begin without what an earlier replay of this source stored, which stays until the first commit."""
        if self._progress.low is not None:
            self._make_position_table()
            rows = self._connection.ask(position_table.read(self._position_columns()))
            for sql in position_table.set_aside(rows, self._source):
                self._connection.run(sql)
            self._restarts = True
            self._read()

    @property
    def progress(self) -> Progress:
        """The event groups that the tables have."""
        return self._progress

    def session(self, number: int) -> MysqlSession:
        """Return a connection of its own."""
        if not (self._keeps_gtids or self._is_prepared):
            self._make_position_table()
            self._is_prepared = True
        connection = Connection(self._address, is_strict=self._on_lossy == "error")
        if number == 0:
            self._lock(connection, 0)
        if self._idempotent and not connection.is_mariadb:
            connection.run("SET @@session.rbr_exec_mode = 'IDEMPOTENT'")
        if number not in self._workers and not self._keeps_gtids:
            connection.run(position_table.rows_for(self._source, (number,)))
        session = MysqlSession(
            connection,
            self._tables,
            number,
            pending=self._pending,
            idempotent=self._idempotent,
            applies_events=self._applies_events,
            keeps_gtids=self._keeps_gtids,
            source=self._source,
            on_lossy=self._on_lossy,
        )
        self._counts = session.counts  # one of them says what the server counted
        return session

    def flush(self) -> None:
        """Sessions keep what they commit; here it is only read again, and what the server counted meanwhile."""
        self._read()
        if self._counts is not None and self._counted is not None:
            self._counts.server_rows = counted_since(self._counted, counted_rows(self._connection.ask))

    def keep(self, low: Position, log: KeptLog) -> None:
        """Keep that no group is missing up to `low`, for all workers. With the GTIDs of the source, these say it."""
        if self._keeps_gtids:
            return
        done = sorted(self._progress.reached(low, log).done)
        self._connection.run(position_table.reached(self._source, 0, low, done, log))
        self._read()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _read(self) -> None:
        columns = self._position_columns()
        rows = self._connection.ask(position_table.read(columns)) if columns else []
        self._progress, self._pending, self._workers = position_table.progress_of(
            rows, self._source, restarts=self._restarts
        )
        if self._keeps_gtids:
            gtids = executed_gtids(self._connection.ask, is_mariadb=self._connection.is_mariadb)
            self._progress = replace(self._progress, gtids=gtids)
