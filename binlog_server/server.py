"""The listener: accepts clients of the replication protocol, and serves each of them in a thread.

    greeting := 10  version: text  connection: u32  nonce: u8[8]  0  capabilities: u16  charset: u8  status: u16
                capabilities: u16  nonce_size: u8  0[10]  nonce: u8[12]  0  method: text
    login    := capabilities: u32  packet_size: u32  charset: u8  0[23]  name: text  proof: u8_text
                (database: text)?  (method: text)?                  -- before TLS, only the first 32 bytes
    session  := greeting login (command answer)*

A client has little time to log in, and small packets. There are `most_clients` at most. A session ends when its client
says nothing for `idle_s`, or takes nothing of what is sent to it.

Source: sql/auth/sql_authentication.cc; sql/sql_parse.cc, dispatch_command.
"""

from __future__ import annotations

import errno
import itertools
import os
import secrets
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from binlog_server.accounts import NATIVE, SHA2, Accounts
from binlog_server.dump import Dump, DumpRequest
from binlog_server.packets import PacketStream, PayloadReader, ProtocolError, ServerError, Wire
from binlog_server.source_logs import SourceLogs, fatal, flat, served_name
from binlog_server.statements import Statements
from binlogio.errors import BinlogError

LOCAL_HOSTS: Final = ("127.0.0.1", "::1", "localhost")
_SSL: Final = 1 << 11
_WITH_DATABASE: Final = 1 << 3
_PLUGIN_AUTH: Final = 1 << 19
_LENENC_PROOF: Final = 1 << 21
# LONG_PASSWORD, FOUND_ROWS, LONG_FLAG, CONNECT_WITH_DB, PROTOCOL_41, TRANSACTIONS, SECURE_CONNECTION, MULTI_RESULTS
_CAPABILITIES: Final = 0x0000_0001 | 0x2 | 0x4 | _WITH_DATABASE | 0x200 | 0x2000 | 0x8000 | 0x2_0000 | _PLUGIN_AUTH
_UTF8: Final = 33
_LARGEST_COMMAND: Final = 1 << 20  # bytes, of a client that has logged in; a GTID set needs 13 times its size
_QUIT, _USE, _QUERY, _STATISTICS, _PING, _DUMP = 1, 2, 3, 9, 14, 18
_REGISTER, _OPTION, _DUMP_GTID, _RESET = 21, 27, 30, 31

_SETTINGS: Final[Mapping[str, str | Callable[[], str]]] = {
    "version_comment": "log files, served by binlogio", "log_bin": "1", "binlog_format": "ROW", "read_only": "1",
    "binlog_row_image": "FULL", "lower_case_table_names": "0", "max_allowed_packet": str(1 << 30), "sql_mode": "",
    "auto_increment_increment": "1", "character_set_server": "utf8mb4", "collation_server": "utf8mb4_bin",
    "time_zone": "+00:00", "system_time_zone": "UTC", "autocommit": "1", "gtid_domain_id": "0", "gtid_strict_mode": "1",
    "character_set_client": "utf8mb4", "character_set_connection": "utf8mb4", "character_set_results": "utf8mb4",
    "collation_connection": "utf8mb4_bin", "init_connect": "", "license": "Apache-2.0", "performance_schema": "0",
    "transaction_isolation": "REPEATABLE-READ", "tx_isolation": "REPEATABLE-READ",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ListenOptions:
    """Where the server listens, and who may read.

    Args:
        host, port: the address; port 0: a free one. With another host than this machine's own, `accounts` and `tls`
            are necessary.
        socket_path: a Unix socket, which only this user can open; instead of an address.
        accounts: who may log in; None: everyone who reaches the address.
        tls: the certificate and the key of the server.
        wire: sends to clients.
    """

    host: str = "127.0.0.1"
    port: int = 0
    socket_path: str | None = None
    accounts: Accounts | None = None
    tls: ssl.SSLContext | None = None
    most_clients: int = 100
    login_s: float = 10.0
    idle_s: float = 600.0
    send_s: float = 60.0
    wire: Wire = field(default_factory=Wire)

    @property
    def is_local(self) -> bool:
        """Whether only this machine can connect."""
        return self.socket_path is not None or self.host in LOCAL_HOSTS


class BinlogServer:
    """Serves logs until it is closed. A context manager; `address` says where it listens.

    Args:
        logs: the logs.
        options: where it listens.
        report: called with sentences about clients.

    Raises:
        ValueError: other machines could connect without accounts and TLS.
        OSError: the address cannot be used.
    """

    def __init__(
        self,
        logs: SourceLogs,
        options: ListenOptions | None = None,
        report: Callable[[str], object] = lambda _text: None,
    ) -> None:
        self.logs = logs
        self.options: Final = options or ListenOptions()
        if not self.options.is_local and (self.options.accounts is None or self.options.tls is None):
            raise ValueError(f"other machines can reach {self.options.host}: accounts and TLS are necessary")
        self._report = report
        self._listener = self._listen()
        self._sessions: set[_Session] = set()
        self._lock = threading.Lock()
        self._is_closed = False

    def _listen(self) -> socket.socket:
        path, options = self.options.socket_path, self.options
        if path is None:
            family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
            return socket.create_server((options.host, options.port), family=family, backlog=128)
        listener = socket.socket(socket.AF_UNIX)
        before = os.umask(0o177)
        try:
            if Path(path).is_socket() and not _answers(path):
                Path(path).unlink()  # of a server that was killed
            listener.bind(path)
            listener.listen(128)
        except OSError as exc:
            listener.close()
            raise OSError(exc.errno or errno.ENAMETOOLONG, exc.strerror or str(exc), path) from exc
        finally:
            os.umask(before)
        return listener

    @property
    def port(self) -> int:
        """The port; 0 for a socket."""
        return 0 if self.options.socket_path is not None else int(self._listener.getsockname()[1])

    @property
    def address(self) -> str:
        """The path of the socket, or host:port."""
        host = f"[{self.options.host}]" if ":" in self.options.host else self.options.host
        return self.options.socket_path or f"{host}:{self.port}"

    def __enter__(self) -> BinlogServer:
        """Begin to serve in threads."""
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        """Close the listener and all connections."""
        self._is_closed = True
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        if self.options.socket_path is not None:
            Path(self.options.socket_path).unlink(missing_ok=True)
        self.drop_clients()

    def drop_clients(self) -> None:
        """Close all connections."""
        with self._lock:
            for session in self._sessions:
                with suppress(OSError):  # of the socket: TLS would go on in plain text
                    socket.socket.shutdown(session.packets.connection, socket.SHUT_RDWR)

    def _accept(self) -> None:
        for number in itertools.count(1):
            try:
                connection, _ = self._listener.accept()
            except OSError:
                if self._is_closed:
                    return
                time.sleep(0.01)  # too many open files
                continue
            session = _Session(self.logs, self.options, self._report, connection, number)
            with self._lock:
                is_full = len(self._sessions) >= self.options.most_clients
                if not is_full:
                    self._sessions.add(session)
            if is_full:
                with connection, suppress(OSError):
                    connection.settimeout(1.0)
                    session.packets.error(ServerError(1040, "08004", "Too many connections"))
            else:
                threading.Thread(target=self._serve, args=(session,), daemon=True).start()

    def _serve(self, session: _Session) -> None:
        try:
            reason = session.run()
        finally:
            with self._lock:
                self._sessions.discard(session)
            session.packets.connection.close()
        if reason and not self._is_closed:
            session.say(reason)


class _Session:
    """One connection."""

    def __init__(
        self,
        logs: SourceLogs,
        options: ListenOptions,
        report: Callable[[str], object],
        connection: socket.socket,
        number: int,
    ) -> None:
        self._options, self._logs, self._report = options, logs, report
        self._number = number
        self.packets = PacketStream(connection, options.wire)
        self._is_safe = connection.family == socket.AF_UNIX
        self._name = ""
        self._statements = Statements(self._variables, self._status, number)

    def say(self, what: str) -> None:
        """Report something about the client."""
        self._report(f"client {self._number}{self._name}: {what}")

    def run(self) -> str:
        """Serve the client until it goes; return why it ended."""
        packets, options = self.packets, self._options
        try:
            if packets.connection.family != socket.AF_UNIX:
                packets.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                packets.connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            packets.deadline = time.monotonic() + options.login_s
            try:
                self._log_in()
            except ServerError as exc:
                packets.error(exc)
                return exc.message
            packets.limit = _LARGEST_COMMAND
            while True:
                packets.deadline = time.monotonic() + options.idle_s
                packets.sequence = 0
                payload = packets.read()
                if not payload or payload[0] == _QUIT:
                    return ""
                packets.deadline = None
                packets.connection.settimeout(options.send_s)
                self._answer(payload[0], payload[1:])
        except ProtocolError as exc:
            with suppress(OSError):
                packets.error(ServerError(1835, "HY000", f"Malformed communication packet: {exc}"))
            return f"not the protocol of a client: {exc}"
        except TimeoutError:
            return "it was too slow, or idle for too long"
        except EOFError:
            return ""
        except OSError as exc:
            return f"the connection was lost: {exc.strerror or exc}"

    # ------------------------------------------------------------------------------------------------------------ login

    def _log_in(self) -> None:
        """Send the greeting and check the login.

        Raises:
            ServerError: access is denied.
        """
        options, packets = self._options, self.packets
        nonce = bytes(one % 127 + 1 for one in secrets.token_bytes(20))
        method = NATIVE if self._logs.is_mariadb else SHA2
        capabilities = _CAPABILITIES | (0 if options.tls is None else _SSL)
        packets.write(b"".join((
            b"\x0a", self._logs.version.encode(), b"\0", self._number.to_bytes(4, "little"), nonce[:8], b"\0",
            (capabilities & 0xFFFF).to_bytes(2, "little"), bytes([_UTF8]), b"\x02\0",
            (capabilities >> 16).to_bytes(2, "little"), b"\x15", bytes(10), nonce[8:], b"\0", method.encode(), b"\0",
        )))  # fmt: skip
        payload = packets.read()
        if options.tls is not None and len(payload) == 32 and int.from_bytes(payload[:4], "little") & _SSL:
            packets.connection = options.tls.wrap_socket(packets.connection, server_side=True)
            self._is_safe = True
            payload = packets.read()
        if not options.is_local and not self._is_safe:
            raise ServerError(3159, "HY000", "Connections using insecure transport are prohibited: use TLS")
        reader = PayloadReader(payload)
        flags = reader.number(4)
        if not flags & 0x200:
            raise ProtocolError("a login of servers before 4.1")
        reader.take(28)
        name = reader.text().decode("utf-8", "replace")
        proof = reader.counted() if flags & _LENENC_PROOF else reader.take(reader.number(1))
        if flags & _WITH_DATABASE:
            reader.text()
        plugin = reader.text().decode("ascii", "replace") if flags & _PLUGIN_AUTH else NATIVE
        if options.accounts is not None:
            options.accounts.check(name, plugin, proof, nonce, packets, safe=self._is_safe)
        elif plugin == SHA2 and proof.strip(b"\0"):
            packets.write(b"\x01\x03")  # the proof is right
        elif plugin not in (NATIVE, SHA2):
            packets.write(b"\xfe" + NATIVE.encode() + b"\0" + nonce + b"\0")
            packets.read()
        self._name = f" ({name})"
        packets.ok()

    # --------------------------------------------------------------------------------------------------------- commands

    def _answer(self, command: int, payload: bytes) -> None:
        """Write the answer to a command; errors that the client can read are sent to it."""
        try:
            if command == _QUERY:
                self._statements.answer(payload.decode("utf-8", "replace"), self.packets)
            elif command in (_DUMP, _DUMP_GTID):
                request = (DumpRequest.by_position if command == _DUMP else DumpRequest.by_gtids)(payload)
                self.say(f"{request.about} is sent")
                self._dump(request)
            elif command in (_USE, _PING, _REGISTER, _RESET):
                if command == _RESET:
                    self._statements.session.clear()
                self.packets.ok()
            elif command == _OPTION:
                self.packets.eof()
            elif command == _STATISTICS:
                self.packets.write(b"log files, served by binlogio")
            else:
                raise ServerError(1047, "08S01", "Unknown command")
        except (BinlogError, FileNotFoundError) as exc:
            self._refuse(ServerError(1105, "HY000", str(exc)))
        except ServerError as exc:
            self._refuse(exc)

    def _refuse(self, exc: ServerError) -> None:
        self.say(exc.message)
        self.packets.error(exc)

    def _dump(self, request: DumpRequest) -> None:
        try:
            Dump(self._logs, self.packets, self._statements.session, request).run()
        except BinlogError as exc:
            raise fatal(str(exc)) from exc
        except FileNotFoundError as exc:
            raise fatal(f"{exc.filename}: the log is not there any more") from exc

    def _variables(self) -> Mapping[str, str | Callable[[], str]]:
        """Return the server variables that clients ask for; functions for those that are read from the logs."""
        logs, idle = self._logs, str(int(self._options.idle_s))
        found: dict[str, str | Callable[[], str]] = {
            "version": logs.version,
            "server_id": str(logs.server_id),
            "binlog_checksum": "CRC32" if logs.has_checksum else "NONE",
            "net_write_timeout": str(int(self._options.send_s)),
            "wait_timeout": idle,
            "interactive_timeout": idle,
            "binlog_row_metadata": logs.row_metadata,
        }
        if logs.is_mariadb:
            found |= dict.fromkeys(("gtid_binlog_pos", "gtid_current_pos"), logs.binlog_position)
        else:
            found |= {
                "server_uuid": logs.server_uuid,
                "gtid_mode": lambda: "ON" if logs.has_gtids else "OFF",
                "gtid_executed": lambda: flat(logs.executed()),
                "gtid_purged": lambda: flat(logs.purged()),
            }
        return {**_SETTINGS, **found}

    def _status(self, is_status: bool) -> tuple[list[str], list[list[str]]]:  # noqa: FBT001 - of Statements
        """Return the rows of SHOW BINARY LOG STATUS, or of SHOW BINARY LOGS."""
        logs = [log for log, _ in self._logs.current()]
        rows = [[served_name(log.name), str(self._logs.end_of(log))] for log in logs]
        if not is_status:
            return ["Log_name", "File_size"], rows
        gtids = [] if self._logs.is_mariadb else [flat(self._logs.executed())]
        columns = ["File", "Position", "Binlog_Do_DB", "Binlog_Ignore_DB", *(["Executed_Gtid_Set"] * len(gtids))]
        return columns, [[*rows[-1], "", "", *gtids]]


def serve_session(logs: SourceLogs, options: ListenOptions, connection: socket.socket) -> str:
    """Serve one client on a connection of the caller; return why it ended, empty for a client that went."""
    return _Session(logs, options, lambda _text: None, connection, 1).run()


def _answers(path: str) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(path)
        except OSError:
            return False
        return True
