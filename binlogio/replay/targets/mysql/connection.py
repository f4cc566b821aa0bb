"""One connection to a MySQL or MariaDB server (PyMySQL): session settings, and server errors as exceptions of binlogio.

Source: include/mysql.h of both servers; sql/sql_parse.cc, dispatch_command (COM_QUERY, COM_SET_OPTION).
"""

from __future__ import annotations

import ssl
import time
from typing import TYPE_CHECKING, Any, Final

import pymysql
from pymysql.constants import CLIENT, COMMAND, CR, ER

from binlogio.errors import Hint, ReplayError
from binlogio.replay.find_row import ER_DUP_ENTRY, ER_KEY_NOT_FOUND, RowConflict
from binlogio.replay.targets import LockRefused
from binlogio.replay.targets.mysql.table import LENIENT_MODE, STRICT_MODE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from binlogio.replay.targets.mysql.address import MysqlAddress

_CLIENT_ERRORS: Final = 2000  # from here on, errors are those of the client
_SESSION: Final = (
    b"SET NAMES utf8mb4",
    b"SET time_zone = '+00:00'",
    b"SET foreign_key_checks = 0, innodb_lock_wait_timeout = 5 /*M!100201 , check_constraint_checks = 0 */",
    b"SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
)
_LOSSY: Final = (1048, 1264, 1265, 1292, 1366, 1406, 1411)
"""Warnings and notes about a value that was changed: NULL, range, truncation, characters, time."""
_LOCKS: Final = (ER.LOCK_WAIT_TIMEOUT, ER.LOCK_DEADLOCK)
_LOST: Final = (
    CR.CR_CONN_HOST_ERROR, CR.CR_SERVER_GONE_ERROR, CR.CR_SERVER_LOST, CR.CR_COMMANDS_OUT_OF_SYNC,
    CR.CR_SERVER_LOST_EXTENDED,
)  # fmt: skip
_OUT_OF_ORDER: Final = 1950  # ER_GTID_STRICT__OUT_OF_ORDER
_OUT_OF_ORDER_HINT: Final = (
    (
        "with gtid_strict_mode=ON the GTIDs of a domain ascend; give a restored target those of its backup"
        " (RESET MASTER; SET GLOBAL gtid_binlog_state = '...')"
    ),
    Hint.NEW_GTIDS,
)
_MANY, _ONE = b"\0\0", b"\1\0"  # MYSQL_OPTION_MULTI_STATEMENTS_ON and _OFF of include/mysql.h, u16
MOST_PACKET_BYTES: Final = 8 << 20  # of several statements together
_PACKET_HEAD: Final = 3 + 1  # size and number of a packet of the protocol
_OK: Final = 0  # first byte of the answer to a statement that gives no rows
_MANY_ANSWERS: Final = 100
_ANSWERS_S: Final = 0.001  # a server sends each answer by itself: so many are read at a time
_FILE_PIECE_BYTES: Final = 1 << 14
_IN_CLEAR: Final = (
    "the server asks for the password, which is not sent without TLS: use ssl-mode=REQUIRED, a Unix socket, or a user "
    "whose password the server has in its cache"
)
_TLS_REQUIRED: Final = "the server has no TLS, which ssl-mode requires"


class _Client(pymysql.connections.Connection):  # type: ignore[misc]  # PyMySQL has no types
    """PyMySQL's connection, which does not log in without TLS where the address requires it.

    PyMySQL 1 falls back to plain text where the server, or who answers in its place, says that it has no TLS. Without
    TLS and a Unix socket the password is never sent, neither as it is nor encrypted with a key that the server sends.
    """

    requires_tls = False
    _is_logging_in = False

    def _request_authentication(self) -> None:
        if self.requires_tls and not self.server_capabilities & CLIENT.SSL:
            raise pymysql.err.OperationalError(CR.CR_SSL_CONNECTION_ERROR, _TLS_REQUIRED)
        self._is_logging_in = True
        super()._request_authentication()
        self._is_logging_in = False

    def write_packet(self, payload: bytes) -> None:
        if self._is_logging_in and self.password and not self._secure:
            asks_for_key = payload in (b"\x01", b"\x02")  # of sha256_password and caching_sha2_password
            if asks_for_key or payload == self.password + b"\0":
                raise pymysql.err.OperationalError(CR.CR_AUTH_PLUGIN_ERR, _IN_CLEAR)
        super().write_packet(payload)


class Connection:
    """One connection; an error of the server is raised as a ReplayError with its number.

    A server may ask its client for a file as the answer to any statement (LOAD DATA LOCAL). No file is ever opened:
    `load` sends the data that its caller has, and all other requests are refused.
    """

    def __init__(self, address: MysqlAddress, *, is_strict: bool = True) -> None:
        self._session = (*_SESSION, (STRICT_MODE if is_strict else LENIENT_MODE).encode())
        try:
            self._connection = _Client(
                user=address.user,
                password=address.password,
                host=address.host,
                port=address.port,
                unix_socket=address.unix_socket,
                database=address.database,
                charset="utf8mb4",
                autocommit=True,
                client_flag=CLIENT.FOUND_ROWS | CLIENT.LOCAL_FILES,
                local_infile=False,
                ssl=_tls_context(address),
                ssl_disabled=address.ssl_mode == "DISABLED",
                defer_connect=True,
            )
            self._connection.requires_tls = address.requires_tls
            self._connection.connect()
        except RuntimeError as exc:
            raise self._file_refused() from exc
        except pymysql.err.MySQLError as exc:
            code = next(iter(exc.args), None)
            what = "refuses the connection" if isinstance(code, int) and code < _CLIENT_ERRORS else "cannot be reached"
            raise ConnectionError(f"the server {what}: {_message(exc)}") from exc
        self.version = str(self._connection.get_server_info())
        self._takes = _ONE
        self._most_bytes = MOST_PACKET_BYTES
        found = self.ask("SELECT @@max_allowed_packet")
        if found and isinstance(found[0][0], int):
            self._most_bytes = found[0][0] - 1  # the command is a byte
        self.restore()

    @property
    def id(self) -> int:
        """Its number in the process list of the server."""
        return int(self._connection.thread_id())

    @property
    def is_mariadb(self) -> bool:
        """True if the server is MariaDB."""
        return "mariadb" in self.version.lower()

    def restore(self) -> None:
        """Set the session as row changes need it."""
        self.run_all([(sql, None) for sql in self._session])

    def run(self, sql: str | bytes, *, expected_error: int = 0, tolerated: Sequence[int] = ()) -> int:
        """Run a statement; returns how many rows it concerned, -1 where it failed as it may.

        Raises:
            LockRefused: a deadlock, or a lock that was not given in time.
            ReplayError: the server refuses.
            ConnectionError: the server is gone.
        """
        self._check_size(len(sql) if isinstance(sql, bytes) else len(sql.encode("utf-8", "surrogateescape")))
        try:
            self._let_take(_ONE)
            return int(self._connection.query(sql))
        except RuntimeError as exc:  # PyMySQL's answer to a request for a file, without local_infile
            raise self._file_refused() from exc
        except pymysql.err.MySQLError as exc:
            code = _code(exc)
            if code not in _LOCKS and ((code and code == expected_error) or code in tolerated):
                return -1
            raise _translated(exc) from exc

    def loss(self) -> str | None:
        """Return the warning of the last statement about a value that the server changed; None if there is none."""
        result = self._connection._result
        if result is None or not result.warning_count:
            return None
        found = [(code, text) for _, code, text in self.ask("SHOW WARNINGS") if code in _LOSSY]
        return f"ERROR {found[0][0]}: {found[0][1]}" if found else None

    def load(self, sql: bytes, name: str, data: bytes, *, expected_error: int = 0) -> None:
        """Run a LOAD DATA LOCAL INFILE.

        `data` is the file's content, which goes to the server only if it asks for `name`. Raises as `run`.
        """
        try:
            self._let_take(_ONE)
            self._connection._execute_command(COMMAND.COM_QUERY, sql)
            packet = self._connection._read_packet()
            if packet.is_load_local_packet():
                asked = bytes(packet.get_all_data()[1:])
                if asked != name.encode():
                    raise self._file_refused(asked)
                for at in range(0, len(data), _FILE_PIECE_BYTES):
                    self._connection.write_packet(data[at : at + _FILE_PIECE_BYTES])
                self._connection.write_packet(b"")
                self._connection._read_packet()
        except pymysql.err.MySQLError as exc:
            code = _code(exc)
            if code in _LOCKS or not code or code != expected_error:
                raise _translated(exc) from exc

    def _file_refused(self, asked: bytes | None = None) -> ReplayError:
        """Return the refusal of a request for a file.

        The connection is closed: the server waits for the file's content.
        """
        self._connection._force_close()
        return ReplayError(
            "the server requests a file of this machine (LOAD DATA LOCAL), which is refused",
            found=None if asked is None else asked.decode("utf-8", "backslashreplace"),
            hint="check the log for LOAD DATA LOCAL, and whether the server can be trusted",
        )

    def _read_answer(self) -> None:
        """Read the answer to a statement that gives no rows."""
        if self._connection._read_packet().is_load_local_packet():
            raise self._file_refused()

    def _take_answers(self, most: int) -> int:
        """Take the answers that have arrived, up to one that is not OK, and return their number."""
        client = self._connection
        try:
            arrived = client._rfile.peek(1)
        except OSError:
            return 0  # the next read says the same
        count, at, number, size = 0, 0, client._next_seq_id, len(arrived)
        while count < most and size > at + _PACKET_HEAD and arrived[at + 3] == number and arrived[at + 4] == _OK:
            end = at + _PACKET_HEAD + int.from_bytes(arrived[at : at + 3], "little")
            if end > size:
                break
            count, at, number = count + 1, end, (number + 1) & 0xFF
        if count:
            client._rfile.read(at)
            client._next_seq_id = number
        return count

    def run_all(self, statements: Sequence[tuple[bytes, int | None]]) -> None:
        """Run statements of our own one after the other, with as few round trips as they need; none of them gives rows.

        With each goes the offset in the log of what it is for, which an error says. Those after one that fails are not
        run. Raises as `run`.
        """
        some: list[tuple[bytes, int | None]] = []
        size = 0
        for statement in statements:
            if some and size + len(statement[0]) > min(MOST_PACKET_BYTES, self._most_bytes):
                self._run_packet(some)
                some, size = [], 0
            some.append(statement)
            size += len(statement[0]) + 1
        if some:
            self._run_packet(some)

    def _run_packet(self, statements: Sequence[tuple[bytes, int | None]]) -> None:
        try:
            self._check_size(max(len(sql) for sql, _ in statements))
        except ReplayError as exc:
            exc.locate(offset=statements[0][1])
            raise
        _, error = self.run_packet(statements)
        if error is not None:
            raise error

    def run_packet(self, statements: Sequence[tuple[bytes, int | None]]) -> tuple[int, ReplayError | None]:
        """Run statements as `run_all`, in one packet, which has to be small enough.

        Returns how many succeeded, and the error of the next one, after which no other one is run.

        Raises:
            ReplayError: the server requests a file.
            ConnectionError: the server is gone.
        """
        done = 0
        try:
            self._let_take(_MANY)
            self._connection._execute_command(COMMAND.COM_QUERY, b";".join(sql for sql, _ in statements))
            # There is an answer to each, up to one that fails; BINLOG's does not say that more come.
            while done < len(statements):
                if len(statements) - done > _MANY_ANSWERS:
                    time.sleep(_ANSWERS_S)
                count = self._take_answers(len(statements) - done)
                if not count:
                    self._read_answer()
                done += count or 1
        except pymysql.err.MySQLError as exc:
            error = _translated(exc)
            if not isinstance(error, ReplayError):
                raise error from exc
            error.__cause__ = exc
            error.locate(offset=statements[done][1])
            return done, error
        return done, None

    @property
    def most_statement_bytes(self) -> int:
        """The size of the largest statement that the server takes (max_allowed_packet)."""
        return self._most_bytes

    def _check_size(self, size: int) -> None:
        """Refuse a statement that the server would answer by ending the connection.

        Raises:
            ReplayError: it is too large.
        """
        if size > self._most_bytes:
            raise ReplayError(
                "a row or statement is larger than one packet of the target",
                expected=f"at most max_allowed_packet={self._most_bytes + 1} bytes",
                found=f"{size + 1} bytes",
                hint="raise max_allowed_packet on the target (SET GLOBAL, at most 1073741824) and replay again",
            )

    def _let_take(self, count: bytes) -> None:
        """Allow several statements in a packet, or only one: statements of a log are sent one by one."""
        if count != self._takes:
            self._connection._execute_command(COMMAND.COM_SET_OPTION, count)
            self._read_answer()
            self._takes = count

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query. Raises as `run`."""
        self.run(sql)
        result = self._connection._result
        return [tuple(row) for row in (result.rows or ())] if result is not None else []

    def close(self) -> None:
        """Close it; what was not committed is rolled back."""
        if self._connection.open:
            self._connection.close()


def _tls_context(address: MysqlAddress) -> ssl.SSLContext | None:
    """Return the TLS settings of a connection.

    None where PyMySQL's own do: none, or TLS if the server has it, with any certificate.

    Raises:
        ReplayError: a certificate or key cannot be read.
    """
    if address.ssl_mode == "DISABLED" or (address.ssl_mode == "PREFERRED" and address.ssl_cert is None):
        return None
    try:
        context = ssl.create_default_context(cafile=address.ssl_ca)
        context.verify_flags &= (
            ~ssl.VERIFY_X509_STRICT
        )  # the certificates that servers make for themselves are not that strict
        context.check_hostname = address.ssl_mode == "VERIFY_IDENTITY"
        if address.ssl_mode not in ("VERIFY_CA", "VERIFY_IDENTITY"):
            context.verify_mode = ssl.CERT_NONE
        if address.ssl_cert is not None:
            context.load_cert_chain(address.ssl_cert, address.ssl_key)
    except OSError as exc:  # ssl.SSLError is one
        files = ", ".join(file for file in (address.ssl_ca, address.ssl_cert, address.ssl_key) if file is not None)
        raise ReplayError(f"the target's URL: a certificate or key cannot be used: {exc}", found=files) from exc
    return context


def _code(exc: BaseException) -> int:
    return exc.args[0] if exc.args and isinstance(exc.args[0], int) else 0


def _translated(exc: BaseException) -> ReplayError | ConnectionError:
    """Return an error of the server as an exception of this project."""
    code = _code(exc)
    if code in _LOCKS:
        return LockRefused(f"ERROR {_message(exc)}")
    if code in _LOST or not code:
        return ConnectionError(f"the connection to the server was lost: {_message(exc)}")
    kind = RowConflict if code in (ER_DUP_ENTRY, ER_KEY_NOT_FOUND) else ReplayError
    return kind(f"ERROR {_message(exc)}", hint=_OUT_OF_ORDER_HINT if code == _OUT_OF_ORDER else None)


def _message(exc: BaseException) -> str:
    return ": ".join(str(part) for part in exc.args)
