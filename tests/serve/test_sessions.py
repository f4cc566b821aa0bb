"""Who may read logs, and what a client may say: logins, TLS, statements, limits, garbage."""

from __future__ import annotations

import socket
import ssl
import struct
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from queue import Queue
from typing import Any, Final

import pymysql
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from binlog_server.accounts import Accounts, AccountsError, hashes_of
from binlog_server.server import BinlogServer, ListenOptions
from binlog_server.source_logs import ServeOptions, SourceLogs
from corpus import MARIADB, MYSQL
from dump_client import CHECKSUM, DumpClient
from logs import log, query

SECRET: Final = "secret"  # noqa: S105 - of the tests
EVERY_ADDRESS: Final = "0.0.0.0"  # noqa: S104 - what is tested
LOGS: Final = MYSQL / "gtid_on"
SHA2, NATIVE = hashes_of(SECRET)


@contextmanager
def listening(logs: Path = LOGS, **options: Any) -> Iterator[BinlogServer]:
    with BinlogServer(SourceLogs([str(logs)], ServeOptions()), ListenOptions(**options)) as server:
        yield server


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return a certificate of its own and its key."""
    folder = tmp_path_factory.mktemp("tls")
    cert, key = folder / "cert.pem", folder / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    subprocess.run([*command, "-keyout", key, "-out", cert], check=True, capture_output=True)
    return cert, key


def server_tls(certificate: tuple[Path, Path]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    return context


def client_tls(certificate: tuple[Path, Path]) -> dict[str, Any]:
    context = ssl.create_default_context(cafile=str(certificate[0]))
    context.check_hostname = False
    return {"ssl": context}


def is_served(client: DumpClient) -> bool:
    return len(list(client.by_position(""))) > 3


@pytest.mark.parametrize("stored", [SHA2, NATIVE], ids=["caching_sha2_password", "mysql_native_password"])
@pytest.mark.parametrize("logs", [LOGS, MARIADB / "annotate_rows"], ids=["mysql", "mariadb"])
def test_only_the_right_password_of_an_account_logs_in(stored: str, logs: Path, tmp_path: Path) -> None:
    """The second login of an account proves the password without sending it."""
    accounts = Accounts({"reader": [stored]})
    path = tmp_path / "socket"
    capable = "SET @mariadb_slave_capability = 4"
    with listening(logs, socket_path=str(path), accounts=accounts):
        for _ in range(2):
            assert is_served(DumpClient(path, CHECKSUM, capable, user="reader", password=SECRET))
        for user, password in (("reader", "Secret"), ("reader", ""), ("root", SECRET), ("", "")):
            with pytest.raises(pymysql.err.OperationalError, match=r"1045.*Access denied"):
                DumpClient(path, user=user, password=password)
    assert not path.exists()


def test_password_is_not_asked_for_without_tls() -> None:
    """caching_sha2_password asks for it in plain text, or for a key, the first time."""
    with (
        listening(accounts=Accounts({"reader": [SHA2]})) as server,
        pytest.raises(pymysql.err.OperationalError, match="1045"),
    ):
        DumpClient(server.port, user="reader", password=SECRET)


def test_login_through_tls(certificate: tuple[Path, Path]) -> None:
    tls = server_tls(certificate)
    with listening(accounts=Accounts({"reader": [SHA2]}), tls=tls) as server:
        login = {"user": "reader", **client_tls(certificate)}

        assert is_served(DumpClient(server.port, CHECKSUM, password=SECRET, **login))
        with pytest.raises(pymysql.err.OperationalError, match="1045"):
            DumpClient(server.port, password=SECRET[1:], **login)


def test_other_machines_need_accounts_and_tls(certificate: tuple[Path, Path]) -> None:
    accounts, tls = Accounts({"reader": [NATIVE]}), server_tls(certificate)
    for more in ({}, {"accounts": accounts}, {"tls": tls}):
        with pytest.raises(ValueError, match="accounts and TLS are necessary"), listening(host=EVERY_ADDRESS, **more):
            pass
    with listening(host=EVERY_ADDRESS, accounts=accounts, tls=tls) as server:
        with pytest.raises(pymysql.err.OperationalError, match="3159"):
            DumpClient(server.port, user="reader", password=SECRET, ssl_disabled=True)
        assert is_served(DumpClient(server.port, CHECKSUM, user="reader", password=SECRET, **client_tls(certificate)))


def test_file_of_accounts(tmp_path: Path) -> None:
    path = tmp_path / "accounts"
    path.write_text(f"# readers\nreader:{SHA2}\nreader:{NATIVE}\n")

    assert Accounts.of_file(str(path)).hashes == {"reader": [SHA2, NATIVE]}
    for text in ("", "reader", "reader:secret", "reader:*12", "reader:$pbkdf2$9$zz$00", f":{NATIVE}"):
        path.write_text(text)
        with pytest.raises(AccountsError):
            Accounts.of_file(str(path))


def test_socket_is_open_to_its_owner_only_and_replaces_that_of_a_killed_server(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    with listening(socket_path=str(path)):
        assert path.stat().st_mode & 0o777 == 0o600
        assert is_served(DumpClient(path, CHECKSUM))
        with pytest.raises(OSError, match="in use"), listening(socket_path=str(path)):
            pass


def test_statements_of_clients(tmp_path: Path) -> None:
    with listening() as server:
        ask = DumpClient(server.port)
        server_id = server.logs.server_id

        assert ask.query("SELECT @@GLOBAL.server_id, 'a''b' AS x, @@version LIMIT 1") == [
            (server_id, "a'b", server.logs.version)
        ]
        assert ask.query("SHOW VARIABLES LIKE 'gtid_mo%'") == [("gtid_mode", "ON")]
        assert ask.query("SHOW GLOBAL VARIABLES WHERE variable_name IN ('log_bin')") == [("log_bin", "1")]
        assert ask.query("SET NAMES utf8mb4; ") == []
        assert ask.query("SET @x = 7, @y := @@version") == []
        assert ask.query("/* c */ SELECT @x, @y") == [(7, server.logs.version)]
        assert ask.query("SHOW MASTER LOGS")[0][0] == "binlog.000001"
        uuid = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
        assert ask.query(f"SELECT GTID_SUBTRACT('{uuid}:1-9', '{uuid}:3-5'), GTID_SUBSET('', '{uuid}:1') AS x") == [
            (f"{uuid}:1-2:6-9", 1)
        ]
        assert ask.query("SELECT @@session.character_set_client AS a, @@transaction_isolation AS b")[0][0] == "utf8mb4"
        assert ask.query("COMMIT") == []
        ask.connection.ping()
        for text in (
            "SELECT GTID_SUBSET('x', '')",
            "SHOW DATABASES",
            "COMMIT; DROP TABLE t",
            "SELECT * FROM mysql.user",
            "DROP DATABASE shop",
            "SET GLOBAL x = 1",
            "SELECT @@nothing",
            "",
            ";",
        ):
            with pytest.raises(pymysql.err.MySQLError):
                ask.query(text)


# ---------------------------------------------------------------------------------------------------- hostile clients


def connect(server: BinlogServer) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=30)


def rest_of(connection: socket.socket) -> bytes:
    """Return what the server sends until it closes the connection."""
    data = b""
    while True:
        try:
            part = connection.recv(1 << 16)
        except ConnectionResetError:
            return data
        if not part:
            return data
        data += part


LOGIN: Final = struct.pack("<IIB23s", 0x8200 | 0x80000, 1 << 24, 33, b"") + b"root\0\0mysql_native_password\0"


def packet(payload: bytes, sequence: int = 0) -> bytes:
    return len(payload).to_bytes(3, "little") + bytes([sequence]) + payload


PAYLOADS: Final = st.one_of(
    st.binary(max_size=80),
    st.builds(
        lambda code, rest: bytes([code]) + rest, st.sampled_from((2, 3, 14, 18, 21, 27, 30)), st.binary(max_size=60)
    ),
    st.builds(lambda text: b"\x03" + text.encode(), st.text("SELECT @'\"*/,;=()x1", max_size=40)),
)


@pytest.fixture(scope="module")
def hostile_server() -> Iterator[BinlogServer]:
    """Provide one server for all examples."""
    with listening() as server:
        yield server


@settings(max_examples=150, deadline=None)
@given(
    has_login=st.booleans(),
    payloads=st.lists(st.tuples(PAYLOADS, st.sampled_from((0, 0, 0, 1))), max_size=6),
    tail=st.binary(max_size=8),
)
def test_no_packets_stop_the_server(
    hostile_server: BinlogServer, has_login: bool, payloads: list[tuple[bytes, int]], tail: bytes
) -> None:
    """The next client is served, whatever one before has sent."""
    with connect(hostile_server) as one:
        one.sendall((packet(LOGIN, 1) if has_login else b"") + b"".join(packet(*each) for each in payloads) + tail)
        with suppress(OSError):  # closed by the server
            one.shutdown(socket.SHUT_WR)
        rest_of(one)

    assert is_served(DumpClient(hostile_server.port, CHECKSUM))


def test_large_packet_before_a_login_is_refused() -> None:
    with listening() as server, connect(server) as one:
        one.sendall(b"\xff\xff\x0f\x01" + b"x" * 100)

        assert b"Malformed communication packet" in rest_of(one)


@pytest.mark.parametrize(
    "statement",
    [f"SELECT {'1,' * 300}1", f"SET @a = '{'x' * (1 << 19)}'"],
    ids=["columns", "size"],
)
def test_statements_that_no_replica_sends_are_refused(statement: str) -> None:
    """A session keeps its variables, and a pattern needs 100 times the memory of a text."""
    with listening() as server:
        client = DumpClient(server.port)
        with pytest.raises(pymysql.err.NotSupportedError, match="these are only log files"):
            client.query(statement)

        assert client.query("SELECT 1") == [(1,)]


def test_any_heartbeat_period_is_taken_and_a_reset_forgets_it() -> None:
    with listening() as server:
        client = DumpClient(server.port, CHECKSUM, f"SET @source_heartbeat_period = {'9' * 5000}")

        assert is_served(client)
        next(client.by_position("", flags=0))
        client = DumpClient(server.port, "SET @x = 5")
        client.connection._execute_command(31, b"")
        client.connection._read_ok_packet()
        assert client.query("SELECT @x") == [(None,)]


def test_large_command_is_refused() -> None:
    with listening() as server:
        client = DumpClient(server.port, CHECKSUM)
        client.connection._next_seq_id = 1
        client.connection._write_bytes(b"\x01\0\x10\0")
        with pytest.raises(pymysql.err.MySQLError, match="Malformed communication packet: a packet of 1048577 bytes"):
            client.connection._read_packet()


def test_half_logins_and_idle_clients_are_closed() -> None:
    """The time for a login is for all of it, not for each byte."""
    with listening(login_s=2, idle_s=1) as server:
        with connect(server) as silent, connect(server) as slow:
            slow.sendall(packet(LOGIN, 1)[:20])
            rest_of(silent)
            rest_of(slow)
        idle = DumpClient(server.port)
        with pytest.raises(pymysql.err.OperationalError, match="Lost connection"):
            idle.connection._read_packet()


def test_clients_above_the_limit_are_told(tmp_path: Path) -> None:
    with listening(most_clients=3) as server, ExitStack() as clients:
        for _ in range(3):
            clients.enter_context(connect(server)).recv(10)
        with pytest.raises(pymysql.err.OperationalError, match="Too many connections"):
            DumpClient(server.port)


def test_client_that_takes_nothing_is_closed(tmp_path: Path) -> None:
    """Others are served meanwhile."""
    path, said = tmp_path / "binlog.000001", Queue[str]()
    path.write_bytes(log(*(query("x" * (1 << 20)) for _ in range(24))))
    logs = SourceLogs([str(path)], ServeOptions())
    with BinlogServer(logs, ListenOptions(send_s=3), said.put) as server:
        idle = DumpClient(server.port, CHECKSUM)
        next(idle.by_position(""))
        assert is_served(DumpClient(server.port, CHECKSUM))
        while "too slow" not in said.get(timeout=60):
            pass
        idle.close()
