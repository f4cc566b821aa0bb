"""The command `binlogio serve`."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from binlogio_cli.main import cli
from corpus import FIXTURES, MYSQL
from dump_client import CHECKSUM, DumpClient
from served_logs import free_port, served


def test_logs_are_served_until_a_signal(tmp_path: Path) -> None:
    port = free_port()
    for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
        with served(MYSQL / "rotated", port=port) as process:
            assert len(list(DumpClient(port, CHECKSUM).by_position("binlog.000002"))) > 5
            waiting = DumpClient(port, CHECKSUM).by_position("binlog.000003", flags=0)
            next(waiting)
            process.send_signal(number)

            assert process.wait(60) == code


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("LOG", "--table", "t"), 2, "transactions are served whole: `binlogio copy` selects tables"),
        (("LOG", "--where", "id = 1"), 2, "transactions are served whole"),
        (("LOG", "--start-position", "4"), 2, "each client says where it begins"),
        (("-",), 2, "standard input"),
        (("LOG", "--host", "0.0.0.0"), 2, "other machines can reach 0.0.0.0: give --accounts"),  # noqa: S104
        (("LOG", "--tls-cert", "x"), 2, "--tls-cert and --tls-key belong together"),
        (("LOG", "--tls-cert", "LOG", "--tls-key", "LOG"), 2, "not a certificate and its key"),
        (("LOG", "--accounts", "LOG"), 2, "not an account"),
        (("LOG", "--accounts", "/missing"), 4, "/missing: No such file"),
        (("LOG", "--until", "0-1-1"), 2, "no event group of the logs has such a GTID"),
        (("LOG", "--stop-position", "5"), 2, "5 is not the start of an event"),
        (("LOG", "--include-gtids", "0-1-5"), 2, "GTIDs are of the other vendor"),
        (("/missing",), 4, "/missing: No such file"),
        (("EMPTY",), 4, "no binary log in this directory"),
        (("TEXT",), 3, "not a binary log"),
        (("LOG", "OTHER"), 2, "logs of several servers"),
        (("LOG", "--socket", "x" * 200), 4, "x: AF_UNIX path too long"),
    ],
)
def test_what_cannot_be_served_is_refused(arguments: tuple[str, ...], code: int, said: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "text").write_text("not a log\n")
    names = {
        "LOG": MYSQL / "gtid_on" / "binlog.000001",
        "OTHER": FIXTURES / "mariadb1011" / "gtid" / "binlog.000001",
        "EMPTY": tmp_path / "empty",
        "TEXT": tmp_path / "text",
    }
    socket = () if {"--host", "--socket"} & {*arguments} else ("--socket", str(tmp_path / "socket"))
    result = CliRunner().invoke(cli, ["serve", *(str(names.get(one, one)) for one in arguments), *socket])

    assert (result.exit_code, said in result.stderr) == (code, True), result.stderr
    assert not (tmp_path / "socket").exists()


def test_accounts_are_made_by_the_module(tmp_path: Path) -> None:
    """The password is read from the terminal, or from standard input without one."""
    command = [sys.executable, "-W", "ignore", "-m", "binlog_server.accounts", "reader"]
    done = subprocess.run(command, input="secret\n", capture_output=True, text=True, check=True, start_new_session=True)

    assert [line.split(":")[0] for line in done.stdout.splitlines()] == ["reader", "reader"]
