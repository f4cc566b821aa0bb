"""MySQL and MariaDB as the target of a replay: a connection for each worker, and how far it is in a table beside the data.

Knows what the sessions of a replay have in common. What a session does with the steps of a transaction is `mysql.session`'s business.

DDL commits before and after itself, so its position cannot be part of it: it is announced before and confirmed after it. A replay that finds one
announced and not confirmed does it again, and takes "exists already" and "does not exist" for an answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pymysql.constants import ER

from binlogio.replay.targets.mysql import position_table
from binlogio.replay.targets.mysql.address import MysqlAddress
from binlogio.replay.targets.mysql.connection import Connection
from binlogio.replay.targets.mysql.server_rows import counted_rows, counted_since
from binlogio.replay.targets.mysql.server_tables import ServerTables
from binlogio.replay.targets.mysql.session import MysqlSession

if TYPE_CHECKING:
    from binlogio.options import Position
    from binlogio.replay.progress import Progress
    from binlogio.replay.summary import RowCounts

_WORKERS_AT_FIRST: Final = 16


class MysqlTarget:
    """A server's tables. Use `MysqlTarget.open`.

    `applies_events` is True where row events are sent as they are (BINLOG statements), False where they become SQL, None where
    the log decides: events of a server of the same kind are sent as they are.
    """

    shares_commits = True

    def __init__(
        self, address: MysqlAddress, connection: Connection, *, idempotent: bool, applies_events: bool | None
    ) -> None:
        self._idempotent = idempotent
        self._applies_events = applies_events
        self._address = address
        self._connection = connection
        self._read()
        self._counted = counted_rows(connection.ask)
        self._counts: RowCounts | None = None
        self._tables = ServerTables()

    @classmethod
    def open(cls, url: str, *, idempotent: bool = False, applies_events: bool | None = None) -> MysqlTarget:
        """Connect, and make the position table where it is not there.

        Raises:
            ReplayError: the URL is none, or the server refuses.
            OSError: the server cannot be reached.
        """
        address = MysqlAddress.parse(url)
        connection = Connection(address)
        try:
            if connection.run(position_table.IS_THERE, tolerated=(ER.BAD_DB_ERROR, ER.NO_SUCH_TABLE)) < 0:
                for sql in (*position_table.CREATE, position_table.rows_for(range(_WORKERS_AT_FIRST))):
                    connection.run(sql)
            return cls(address, connection, idempotent=idempotent, applies_events=applies_events)
        except BaseException:
            connection.close()
            raise

    @property
    def progress(self) -> Progress:
        """Which event groups are in the tables."""
        return self._progress

    def session(self, number: int) -> MysqlSession:
        """A connection of its own."""
        connection = Connection(self._address)
        if self._idempotent and not connection.is_mariadb:
            connection.run("SET @@session.rbr_exec_mode = 'IDEMPOTENT'")
        if number not in self._workers:
            connection.run(position_table.rows_for((number,)))
        session = MysqlSession(
            connection,
            self._tables,
            number,
            pending=self._pending,
            idempotent=self._idempotent,
            applies_events=self._applies_events,
        )
        self._counts = session.counts  # one of them says what the server counted
        return session

    def flush(self) -> None:
        """Sessions keep what they commit; here it is only read again, and what the server counted meanwhile."""
        self._read()
        if self._counts is not None and self._counted is not None:
            self._counts.server_rows = counted_since(self._counted, counted_rows(self._connection.ask))

    def keep(self, low: Position) -> None:
        """Keep that no group is missing up to `low`, for all workers."""
        self._connection.run(position_table.reached(0, low, sorted(self._progress.reached(low).done)))
        self._read()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _read(self) -> None:
        rows = self._connection.ask(position_table.READ)
        self._progress, self._pending, self._workers = position_table.progress_of(rows)
