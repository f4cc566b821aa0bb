"""Statements for the client's standard input: unchanged, or as hexadecimal digits.

Nothing is cut elsewhere, nothing is a command.
"""

from __future__ import annotations

import os
import random
import re
import socket
import threading
from typing import TYPE_CHECKING, Final

import pytest

from binlogio_cli.dump.client_text import DELIMITER, client_lines
from real_servers import KINDS, vendor

if TYPE_CHECKING:
    from io import BufferedReader
    from pathlib import Path

TIMES: Final = 6 if "BINLOGIO_NEW_EXAMPLES" in os.environ else 1
UTF8MB4, GBK, LATIN1 = 45, 28, 8
FRAGMENTS: Final = (
    b"'",
    b'"',
    b"`",
    b"\\",
    b"''",
    b"\\'",
    b"--",
    b"-- ",
    b"#",
    b"/*",
    b"*/",
    b"/*!",
    b"/*+",
    b"/*M!",
    b"/",
    b"*",
    b"-",
    b"\n",
    b"\r\n",
    b"\r",
    b"\t",
    b" ",
    b";",
    b"/*!*/;",
    b"delimiter ",
    b"DELIMITER //\n",
    b"\nsystem touch /hacked\n",
    b"\\! touch /hacked\n",
    b"\\g",
    b"\\N",
    b"source x",
    b"use x",
    b"select",
    b"1",
    b"a",
    b"\xc3\xbc",
    b"\xe2\x82\xac",
    b"\xbf",
    b"\xff",
    b"\x95\x5c",
    b"\0",
    b"\x1a",
    b"\x0b",
    b"?",
    b"help",
    b"go\n",
    b"$$",
    b"@",
)


def lines(sql: bytes, collation: int = UTF8MB4, *, escapes: bool = True) -> str:
    return "".join(client_lines(sql, collation, escapes=escapes))


@pytest.mark.parametrize(
    "sql",
    [
        b"INSERT INTO t VALUES ('it''s', 'a\\'b', \"c\\\"\", 5--3) -- don't",
        b"SELECT 1 /* it's */ /*!50000 , 'x' */ # \"\nFROM `a\\`",
        "INSERT INTO t VALUES ('ü€')".encode(),
        b"CREATE PROCEDURE p()\r\nSELECT 1",
        b"SELECT '\nx;\n', '/*!*'",
    ],
)
def test_statement_that_the_client_reads_as_it_is_stands_as_it_is(sql: bytes) -> None:
    """The delimiter is on a line of its own, so that it is not part of a comment at the end."""
    assert lines(sql) == f"{sql.decode()}\n{DELIMITER}\n"


@pytest.mark.parametrize(
    ("sql", "collation", "escapes"),
    [
        (b"SELECT 'a", UTF8MB4, True),
        (b"SELECT `a", UTF8MB4, True),
        (b"SELECT 1 /* a", UTF8MB4, True),
        (b"SELECT 'a\\'", UTF8MB4, True),
        (b"SELECT 'a\\' OR 'b\\'", UTF8MB4, False),
        (b"SELECT `a\\\nb`", UTF8MB4, True),
        (b"SELECT 'a\0b'", UTF8MB4, True),
        (b"SELECT 'a\r\nb'", UTF8MB4, True),
        (b"SELECT '\x95\x5c'", GBK, True),
        (b"SELECT 1/*!*/;\nDROP TABLE t", UTF8MB4, True),
        (b"SELECT delimiter FROM t", UTF8MB4, True),
        (b"system touch /hacked", UTF8MB4, True),
        (b"/* x */\n \tSOURCE /hacked", UTF8MB4, True),
        (b"SELECT 1 \\! touch /hacked", UTF8MB4, True),
        (b"SELECT 1 /*M! '*/ */", UTF8MB4, True),
        (b"SELECT 1 --\x01 '\n", UTF8MB4, True),
        (b"", UTF8MB4, True),
    ],
)
def test_statement_that_the_client_would_cut_or_carry_out_goes_as_digits(
    sql: bytes, collation: int, escapes: bool
) -> None:
    """They are sent in a prepared statement."""
    text = lines(sql, collation, escapes=escapes)

    assert text.startswith(f"SET @binlogio = x'{sql.hex()}'{DELIMITER}\n")
    assert f"EXECUTE binlogio{DELIMITER}\n" in text


def test_insert_id_is_set_again_between_prepare_and_execute() -> None:
    """The PREPARE may use it up: then the rows got the numbers of the target's counter."""
    sent = list(client_lines(b"INSERT INTO t VALUES ('\x95\x5c')", GBK, escapes=True, inserts=True))
    prepare = next(at for at, line in enumerate(sent) if line.startswith("PREPARE"))

    assert "@@insert_id" in sent[prepare - 1]
    assert [line.split()[:2] for line in sent[prepare + 1 :]] == [
        ["PREPARE", "binlogio_insert_id"],
        ["EXECUTE", f"binlogio_insert_id{DELIMITER}"],
        ["EXECUTE", f"binlogio{DELIMITER}"],
    ]


def test_bytes_of_another_character_set_are_no_matter_where_none_is_half_a_quote() -> None:
    """Every byte of latin1 is a character and is sent unchanged."""
    assert lines(b"SELECT '\xe9'", LATIN1).encode("utf-8", "surrogateescape") == b"SELECT '\xe9'\n/*!*/;\n"


def test_long_statements_take_no_longer_than_their_length() -> None:
    """Neither an unterminated string nor many short ones take more than linear time."""
    for part in (b"'a", b"''", b"/*", b"\\", b"- ", b"`a\\"):
        assert lines(b"SELECT " + part * 200_001)


# -------------------------------------------------------------------------------------------------- the real client


class Listener:
    """A server of MySQL's protocol that answers OK to every statement and records it, for one connection."""

    def __init__(self, path: Path, *, no_backslash_escapes: bool = False) -> None:
        self.asked: list[bytes] = []
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(str(path))
        self._socket.listen(1)
        path.chmod(0o777)
        status = STATUS_AUTOCOMMIT | (STATUS_NO_BACKSLASH_ESCAPES if no_backslash_escapes else 0)
        self._yes = b"\0\0\0" + status.to_bytes(2, "little") + b"\0\0"
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def close(self) -> None:
        """Wait until the client has gone."""
        self._thread.join()
        self._socket.close()

    def _serve(self) -> None:
        connection, _ = self._socket.accept()
        with connection, connection.makefile("rb") as incoming:
            _send(connection, 0, GREETING)
            _receive(incoming)
            _send(connection, 2, self._yes)
            while command := _receive(incoming):
                if command[0] == COM_QUIT:
                    return
                if command[0] == COM_QUERY:
                    self.asked.append(command[1:])
                _send(connection, 1, self._yes)


COM_QUIT, COM_QUERY = 1, 3
STATUS_AUTOCOMMIT, STATUS_NO_BACKSLASH_ESCAPES = 1 << 1, 1 << 9
# CLIENT_LONG_PASSWORD, CONNECT_WITH_DB, PROTOCOL_41, TRANSACTIONS, SECURE_CONNECTION, PLUGIN_AUTH
CAPABILITIES: Final = 1 | 1 << 3 | 1 << 9 | 1 << 13 | 1 << 15 | 1 << 19
GREETING: Final = (
    b"\x0a8.0.40\0"
    + bytes(4)
    + b"x" * 8
    + b"\0"
    + (CAPABILITIES & 0xFFFF).to_bytes(2, "little")
    + bytes([UTF8MB4])
    + b"\2\0"
    + (CAPABILITIES >> 16).to_bytes(2, "little")
    + b"\x15"
    + bytes(10)
    + b"x" * 12
    + b"\0mysql_native_password\0"
)


def _send(connection: socket.socket, number: int, data: bytes) -> None:
    connection.sendall(len(data).to_bytes(3, "little") + bytes([number]) + data)


def _receive(incoming: BufferedReader) -> bytes:
    head = incoming.read(4)
    return incoming.read(int.from_bytes(head[:3], "little")) if head else b""


def random_statements() -> list[bytes]:
    rng = random.Random(20260)
    found = [b"".join(rng.choices(FRAGMENTS, k=rng.randint(1, 12))) for _ in range(1000 * TIMES)]
    heads, ends = (b"SELECT ", b"INSERT INTO `t` "), (b"", b"'", b'"', b"`", b"*/")
    return found + [
        rng.choice(heads) + b"".join(rng.choices(FRAGMENTS[:27], k=rng.randint(1, 6))) + rng.choice(ends)
        for _ in range(4000 * TIMES)
    ]


@pytest.mark.server
@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("--binary-mode",), ("--default-character-set=gbk",)], ids=" ".join)
@pytest.mark.parametrize("escapes", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_the_client_sends_what_the_log_has(kind: str, escapes: bool, options: tuple[str, ...]) -> None:
    """Random statements through the real client arrive unchanged or as digits, and the client executes none itself."""
    statements = random_statements()
    texts = [lines(sql, escapes=escapes) for sql in statements]
    head = f"DELIMITER {DELIMITER}\n/*!\\C utf8mb4 */{DELIMITER}\n"
    text = head + "".join(f"SELECT 'marker {number}'{DELIMITER}\n{one}" for number, one in enumerate(texts))
    plain_text = ("--skip-ssl",) if kind == "mariadb118" else ()  # the listener knows no TLS
    with vendor(kind).folder("client") as folder:
        listener = Listener(folder / "socket", no_backslash_escapes=not escapes)
        done = vendor(kind).run(
            vendor(kind).client,
            "--no-defaults",
            "-uroot",
            "--comments",
            "--force",
            "-S",
            vendor(kind).inside(folder / "socket"),
            *plain_text,
            *options,
            stdin=text.encode("utf-8", "surrogateescape"),
        )
        listener.close()
    arrived = behind_markers(listener.asked)
    plain = [number for number, one in enumerate(texts) if not one.startswith("SET @binlogio")]
    wrong = {
        number: (statements[number], arrived.get(number))
        for number in plain
        if arrived.get(number) != [squeezed(statements[number])]
    }

    assert (done.returncode, wrong) == (0, {}), done.stderr[-500:]
    assert all(len(found) == 3 for number, found in arrived.items() if number not in set(plain))
    assert len(arrived) == len(statements)
    assert len(plain) > 300 * TIMES
    assert not (vendor(kind).root / "hacked").exists()


def behind_markers(asked: list[bytes]) -> dict[int, list[bytes]]:
    """Return the statements after each marker."""
    found: dict[int, list[bytes]] = {}
    for sql in asked:
        marker = re.fullmatch(rb"SELECT 'marker (\d+)'", sql)
        if marker is not None:
            current = found[int(marker[1])] = []
        elif found:
            current.append(squeezed(sql))
    return found


def squeezed(sql: bytes) -> bytes:
    """Compare without white space: the client adds a space after a comment, and strips statements."""
    return b"".join(sql.split())
