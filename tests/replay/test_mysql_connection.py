"""A server gets no file from a replay, and no password in plain text where TLS is required."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from binlogio.errors import ReplayError
from binlogio.replay.targets.mysql.address import MysqlAddress
from binlogio.replay.targets.mysql.connection import Connection
from rogue_server import OK, local_request, rogue_server

if TYPE_CHECKING:
    from pathlib import Path


def test_server_that_asks_for_a_file_gets_none(tmp_path: Path) -> None:
    """Whatever statement it answers so, and whether that one went alone or with others."""
    secret = tmp_path / "secret"
    secret.write_text("the password is ...")
    for number, asks_at in enumerate((b"SET time_zone", b"SELECT 1")):

        def answer(query: bytes, asks_at: bytes = asks_at) -> bytes:
            return local_request(str(secret)) if asks_at in query else OK

        with rogue_server(tmp_path / f"s{number}", answer) as server:
            with pytest.raises(ReplayError, match="requests a file of this machine"):
                Connection(MysqlAddress.parse(f"mysql://root@/?unix_socket={server.path}")).ask("SELECT 1 FROM t")

            assert b"".join(server.files) == b""


def test_load_sends_its_own_data_and_nothing_else(tmp_path: Path) -> None:
    """The server has to ask by the name that the statement gave."""
    secret = tmp_path / "secret"
    secret.write_text("the password is ...")
    asked = ["mine"]

    def answer(query: bytes) -> bytes:
        return local_request(asked[0]) if query.startswith(b"LOAD") else OK

    with rogue_server(tmp_path / "s", answer) as server:
        connection = Connection(MysqlAddress.parse(f"mysql://root@/?unix_socket={server.path}"))
        connection.load(b"LOAD DATA LOCAL INFILE 'mine' INTO TABLE t", "mine", b"1\n2\n" * 10_000)
        asked[0] = str(secret)
        with pytest.raises(ReplayError, match="requests a file of this machine"):
            connection.load(b"LOAD DATA LOCAL INFILE 'mine' INTO TABLE t", "mine", b"1\n")

        assert server.files[0] == b"1\n2\n" * 10_000
        assert b"".join(server.files[1:]) == b""


@pytest.mark.parametrize("mode", ["REQUIRED", "VERIFY_IDENTITY", "required"])
def test_server_without_tls_gets_no_login_where_tls_is_required(tmp_path: Path, mode: str) -> None:
    """A server in the middle that says it has no TLS is not believed."""
    with rogue_server(tmp_path / "s", lambda _: OK) as server:
        url = f"mysql://root:secret@/?unix_socket={server.path}&ssl-mode={mode}"
        with pytest.raises((ConnectionError, ReplayError), match=r"TLS|SSL"):
            Connection(MysqlAddress.parse(url))

        assert server.passwords == []


@pytest.mark.parametrize(
    "asks",
    [
        b"\xfemysql_clear_password\0",
        b"\xfecaching_sha2_password\x0012345678901234567890\0",
        b"\xfedialog\0\x04Password: ",
    ],
)
def test_the_password_is_not_sent_without_tls(asks: bytes) -> None:
    """Neither as it is, nor encrypted with a key that the server sends; a scramble of it is sent."""
    with rogue_server(None, lambda _: OK, asks) as server:
        with pytest.raises((ConnectionError, ReplayError)):
            Connection(MysqlAddress.parse(f"mysql://root:secret@127.0.0.1:{server.port}/"))

        assert server.passwords
        assert not any(b"secret" in one for one in server.passwords)


def test_url_says_how_the_server_is_trusted(tmp_path: Path) -> None:
    """The names are those of the vendors' clients; a certificate alone means that it is verified."""
    ca = tmp_path / "ca.pem"

    address = MysqlAddress.parse(f"mysql://u@h/?ssl-ca={ca}&ssl-cert=c&ssl-key=k")

    assert (address.ssl_mode, address.ssl_ca, address.ssl_cert, address.ssl_key) == ("VERIFY_CA", str(ca), "c", "k")
    assert MysqlAddress.parse("mysql://u@h/").ssl_mode == "PREFERRED"
    assert MysqlAddress.parse("mysql://u@h/?unix_socket=/s").ssl_mode == "DISABLED"
    assert MysqlAddress.parse(f"mysql://u@h/?ssl_mode=verify_identity&ssl_ca={ca}").ssl_mode == "VERIFY_IDENTITY"


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ("ssl-mode=maybe", "unknown ssl-mode"),
        ("ssl-mode=VERIFY_CA", "ssl-ca"),
        ("ssl-mod=REQUIRED", "unknown option"),
        ("ssl-cert=c", "ssl-key"),
        ("ssl-mode=DISABLED&ssl-ca=x", "ssl-mode"),
        ("ssl-mode=REQUIRED&ssl-mode=DISABLED", "twice"),
        ("password-file=/nonexistent", "password"),
    ],
)
def test_url_with_options_that_make_no_sense_is_refused(query: str, sentence: str) -> None:
    """A misspelled option would be a connection without it."""
    with pytest.raises(ReplayError, match=sentence):
        MysqlAddress.parse(f"mysql://u@h/?{query}")


def test_password_comes_from_a_file_or_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that it is no argument, which every process may read; what the URL says counts first."""
    file = tmp_path / "password"
    file.write_text("from file\n")
    monkeypatch.setenv("MYSQL_PWD", "from environment")

    urls = (f"mysql://u@h/?password-file={file}", "mysql://u@h/", "mysql://u:given@h/")
    found = [MysqlAddress.parse(url).password for url in urls]

    assert found == ["from file", "from environment", "given"]
    with pytest.raises(ReplayError, match="two passwords"):
        MysqlAddress.parse(f"mysql://u:given@h/?password-file={file}")


def test_password_is_not_shown() -> None:
    """Neither by `repr` nor in an error."""
    address = MysqlAddress.parse("mysql://u:secret@h/")

    assert "secret" not in repr(address)
