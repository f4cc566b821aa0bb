"""One connection to a MySQL or MariaDB server: the session as a replay needs it, and what the server refuses as errors of ours.

Knows PyMySQL. Knows neither transactions of a log nor tables.

Source: include/mysql.h of both servers; sql/sql_parse.cc, dispatch_command (COM_QUERY, COM_SET_OPTION).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pymysql
from pymysql.constants import CLIENT, COMMAND, CR, ER

from binlogio.errors import ReplayError
from binlogio.replay.coordinator import LockRefused

if TYPE_CHECKING:
    from collections.abc import Sequence

    from binlogio.replay.targets.mysql.address import MysqlAddress

_SESSION: Final = (
    b"SET NAMES utf8mb4",
    b"SET time_zone = '+00:00', sql_mode = 'NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES'",
    b"SET foreign_key_checks = 0, innodb_lock_wait_timeout = 5",
    b"SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
)
_LOCKS: Final = (ER.LOCK_WAIT_TIMEOUT, ER.LOCK_DEADLOCK)
_LOST: Final = (
    CR.CR_CONN_HOST_ERROR, CR.CR_SERVER_GONE_ERROR, CR.CR_SERVER_LOST, CR.CR_COMMANDS_OUT_OF_SYNC, CR.CR_SERVER_LOST_EXTENDED,
)  # fmt: skip
_MANY, _ONE = b"\0\0", b"\1\0"  # MYSQL_OPTION_MULTI_STATEMENTS_ON and _OFF of include/mysql.h, u16
_MOST_PACKET_BYTES: Final = 8 << 20  # below max_allowed_packet of both, as they come


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


def _code(exc: BaseException) -> int:
    return exc.args[0] if exc.args and isinstance(exc.args[0], int) else 0


def _translated(exc: BaseException) -> ReplayError | ConnectionError:
    """What the server says, as ours."""
    code = _code(exc)
    if code in _LOCKS:
        return LockRefused(f"ERROR {_message(exc)}")
    if code in _LOST or not code:
        return ConnectionError(f"the connection to the server was lost: {_message(exc)}")
    return ReplayError(f"ERROR {_message(exc)}")


def _message(exc: BaseException) -> str:
    return ": ".join(str(part) for part in exc.args)
