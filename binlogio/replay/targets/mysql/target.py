"""MySQL and MariaDB as the target of a replay: a connection for each worker, and how far it is in a table beside the data.

Knows connections, the position table, and what DDL means for it. What a session does with the steps of a transaction is `mysql.session`'s business.

    binlogio_replay.position    a row for each worker: up to where no group is missing (low), and its own groups behind that (done); all of a file.
                                pending: the end of a group that commits by itself (DDL) and that was begun.

DDL commits before and after itself, so its position cannot be part of it: it is announced before and confirmed after it. A replay that finds one
announced and not confirmed does it again, and takes "exists already" and "does not exist" for an answer.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs, unquote, urlsplit

import pymysql
from pymysql.constants import CLIENT, COMMAND

from binlogio.errors import ReplayError
from binlogio.options import Position
from binlogio.replay.coordinator import LockRefused
from binlogio.replay.progress import Progress
from binlogio.replay.targets.mysql.server_rows import counted_rows, counted_since
from binlogio.replay.targets.mysql.session import MysqlSession
from binlogio.replay.targets.mysql.values import text_literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from binlogio.replay.summary import RowCounts

SCHEMES: Final = ("mysql://", "mariadb://")
SCHEMA: Final = "binlogio_replay"
_TABLE: Final = f"{SCHEMA}.position"
_CREATE_SCHEMA: Final = f"CREATE DATABASE IF NOT EXISTS {SCHEMA}"
_CREATE_TABLE: Final = (
    f"CREATE TABLE IF NOT EXISTS {_TABLE} (worker INT PRIMARY KEY, file VARCHAR(512) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,"
    " low BIGINT UNSIGNED NOT NULL, done LONGTEXT NOT NULL, pending BIGINT UNSIGNED NULL) ENGINE=InnoDB"
)
_WORKERS_AT_FIRST: Final = 16
_USER: Final = "root"
_HOST: Final = "localhost"
_PORT: Final = 3306
_SESSION: Final = (
    b"SET NAMES utf8mb4",
    b"SET time_zone = '+00:00', sql_mode = 'NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES'",
    b"SET foreign_key_checks = 0, innodb_lock_wait_timeout = 5",
    b"SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
)

# include/mysqld_ername.h of MySQL and MariaDB.
ER_BAD_DB: Final = 1049
ER_NO_SUCH_TABLE: Final = 1146
ER_LOCK_WAIT_TIMEOUT: Final = 1205
ER_LOCK_DEADLOCK: Final = 1213
_LOCKS: Final = (ER_LOCK_WAIT_TIMEOUT, ER_LOCK_DEADLOCK)
_MANY, _ONE = b"\0\0", b"\1\0"  # MYSQL_OPTION_MULTI_STATEMENTS_ON and _OFF of include/mysql.h, u16
_MOST_PACKET_BYTES: Final = 8 << 20  # below max_allowed_packet of both, as they come
_CONNECTION_LOST: Final = (2003, 2006, 2013, 2014, 2055)


@dataclass(frozen=True, slots=True)
class MysqlAddress:
    """Where a server is and who asks. `database` is the default one of statements that the log has without."""

    user: str
    password: str
    host: str
    port: int
    unix_socket: str | None
    database: str | None = None

    @classmethod
    def parse(cls, url: str) -> MysqlAddress:
        """`mysql://user:password@host:port/database?unix_socket=/run/mysqld.sock`.

        Raises:
            ReplayError: the URL is none.
        """
        parts = urlsplit(url)
        try:
            port = parts.port or _PORT
        except ValueError as exc:
            raise ReplayError("the target's URL has no such port", found=url) from exc
        database = parts.path[1:]
        if not url.startswith(SCHEMES) or "/" in database:
            raise ReplayError(
                "the target is no server's URL", expected="mysql://user@host/database?unix_socket=/path", found=url
            )
        socket = parse_qs(parts.query).get("unix_socket", [None])[0]
        user, password = unquote(parts.username or _USER), unquote(parts.password or "")
        return cls(user, password, parts.hostname or _HOST, port, socket, unquote(database) or None)


class Connection:
    """One connection; what the server refuses comes out as a ReplayError with its number."""

    def __init__(self, address: MysqlAddress) -> None:
        try:
            self._connection = pymysql.connect(
                user=address.user,
                password=address.password,
                host=address.host,
                port=address.port,
                unix_socket=address.unix_socket,
                database=address.database,
                charset="utf8mb4",
                autocommit=True,
                client_flag=CLIENT.FOUND_ROWS,
                local_infile=True,
                ssl_disabled=address.unix_socket is not None,  # nobody else listens to a socket
            )
        except pymysql.err.MySQLError as exc:
            raise ConnectionError(f"the server cannot be reached: {_message(exc)}") from exc
        self.version = str(self._connection.get_server_info())
        self._takes = _ONE
        self.restore()

    @property
    def is_mariadb(self) -> bool:
        """Whether the server is MariaDB."""
        return "mariadb" in self.version.lower()

    def restore(self) -> None:
        """The session as row changes need it."""
        self.run_all([(sql, None) for sql in _SESSION])

    def run(self, sql: str | bytes, *, expected_error: int = 0, tolerated: Sequence[int] = ()) -> int:
        """Run a statement; returns how many rows it concerned, -1 where it failed as it may.

        Raises:
            LockRefused: a deadlock, or a lock that was not given in time.
            ReplayError: the server refuses.
            ConnectionError: the server is gone.
        """
        try:
            self._let_take(_ONE)
            return int(self._connection.query(sql))
        except pymysql.err.MySQLError as exc:
            code = _code(exc)
            if code not in _LOCKS and ((code and code == expected_error) or code in tolerated):
                return -1
            raise _translated(exc) from exc

    def run_all(self, statements: Sequence[tuple[bytes, int | None]]) -> None:
        """Run statements of our own one after the other, with as few round trips as they need; none of them gives rows.

        With each goes the offset in the log of what it is for, which an error says. Those behind one that fails are not run. Raises as `run`.
        """
        some: list[tuple[bytes, int | None]] = []
        size = 0
        for statement in statements:
            if some and size + len(statement[0]) > _MOST_PACKET_BYTES:
                self._run_packet(some)
                some, size = [], 0
            some.append(statement)
            size += len(statement[0]) + 1
        if some:
            self._run_packet(some)

    def _run_packet(self, statements: Sequence[tuple[bytes, int | None]]) -> None:
        offset = None
        try:
            self._let_take(_MANY)
            self._connection._execute_command(COMMAND.COM_QUERY, b";".join(sql for sql, _ in statements))
            # There is an answer to each, up to one that fails; BINLOG's does not say that more come.
            for _, offset in statements:  # noqa: B007
                self._connection._read_packet()
        except pymysql.err.MySQLError as exc:
            error = _translated(exc)
            if isinstance(error, ReplayError):
                error.locate(offset=offset)
            raise error from exc

    def _let_take(self, count: bytes) -> None:
        """Whether a packet may have several statements: ours may, those of a log may not."""
        if count != self._takes:
            self._connection._execute_command(COMMAND.COM_SET_OPTION, count)
            self._connection._read_packet()
            self._takes = count

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        """The rows of a query. Raises as `run`."""
        self.run(sql)
        result = self._connection._result
        return [tuple(row) for row in (result.rows or ())] if result is not None else []

    def close(self) -> None:
        """Close it; what was not committed is rolled back."""
        if self._connection.open:
            self._connection.close()


class MysqlTarget:
    """A server's tables. Use `MysqlTarget.open`.

    `applies_events` is True where row events are sent as they are (BINLOG statements), False where they become SQL, None where
    the log decides: events of a server of the same kind are sent as they are.
    """

    shares_commits = True

    def __init__(
        self, address: MysqlAddress, connection: Connection, *, idempotent: bool, applies_events: bool | None
    ) -> None:
        self.idempotent = idempotent
        self.applies_events = applies_events
        self._address = address
        self._connection = connection
        self._progress, self.pending = self._read()
        self._counted = counted_rows(connection.ask)
        self._counts: RowCounts | None = None
        self._transactional: dict[tuple[str, str], bool] = {}
        self._triggered: dict[tuple[str, str], bool] = {}

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
            if connection.run(f"SELECT 1 FROM {_TABLE} LIMIT 1", tolerated=(ER_BAD_DB, ER_NO_SUCH_TABLE)) < 0:  # noqa: S608
                for sql in (_CREATE_SCHEMA, _CREATE_TABLE, _rows_for(range(_WORKERS_AT_FIRST))):
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
        if self.idempotent and not connection.is_mariadb:
            connection.run("SET @@session.rbr_exec_mode = 'IDEMPOTENT'")
        if number not in self._workers:
            connection.run(_rows_for((number,)))
        session = MysqlSession(connection, self, number, _TABLE)
        self._counts = session.counts  # one of them says what the server counted
        return session

    def is_transactional(self, schema: str, table: str, connection: Connection) -> bool:
        """Whether what is done to a table can be rolled back."""
        found = self._transactional.get((schema, table))
        if found is None:
            rows = connection.ask(
                "SELECT e.transactions FROM information_schema.tables t JOIN information_schema.engines e ON e.engine = t.engine"  # noqa: S608
                f" WHERE t.table_schema = {text_literal(schema)} AND t.table_name = {text_literal(table)}"
            )
            found = self._transactional[schema, table] = rows == [("YES",)]
        return found

    def has_triggers(self, schema: str, table: str, connection: Connection) -> bool:
        """Whether changes of a table by SQL would execute triggers."""
        found = self._triggered.get((schema, table))
        if found is None:
            rows = connection.ask(
                f"SELECT 1 FROM information_schema.triggers WHERE event_object_schema = {text_literal(schema)}"  # noqa: S608
                f" AND event_object_table = {text_literal(table)} LIMIT 1"
            )
            found = self._triggered[schema, table] = bool(rows)
        return found

    def tables_changed(self) -> None:
        """A statement may have made tables what they were not."""
        self._transactional.clear()
        self._triggered.clear()

    def flush(self) -> None:
        """Sessions keep what they commit; here it is only read again, and what the server counted meanwhile."""
        self._progress, self.pending = self._read()
        if self._counts is not None and self._counted is not None:
            self._counts.server_rows = counted_since(self._counted, counted_rows(self._connection.ask))

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _read(self) -> tuple[Progress, frozenset[Position]]:
        rows = self._connection.ask(f"SELECT file, low, done, pending, worker FROM {_TABLE}")  # noqa: S608
        self._workers = {int(row[4]) for row in rows}
        rows = [row[:4] for row in rows if row[0]]
        parts = [Progress(Position(file, int(low)), frozenset(json.loads(done))) for file, low, done, _ in rows]
        pending = frozenset(Position(file, int(end)) for file, _, _, end in rows if end is not None)
        return Progress.of(parts), pending


def _rows_for(workers: Iterable[int]) -> str:
    """The statement that gives workers their rows."""
    rows = ", ".join(f"({worker}, '', 0, '[]', NULL)" for worker in workers)
    return f"INSERT IGNORE INTO {_TABLE} VALUES {rows}"  # noqa: S608


def _code(exc: BaseException) -> int:
    return exc.args[0] if exc.args and isinstance(exc.args[0], int) else 0


def _translated(exc: BaseException) -> ReplayError | ConnectionError:
    """What the server says, as ours."""
    code = _code(exc)
    if code in _LOCKS:
        return LockRefused(f"ERROR {_message(exc)}")
    if code in _CONNECTION_LOST or not code:
        return ConnectionError(f"the connection to the server was lost: {_message(exc)}")
    return ReplayError(f"ERROR {_message(exc)}")


def _message(exc: BaseException) -> str:
    return ": ".join(str(part) for part in exc.args)
