"""`binlogio dump`: text of a log does not act on the terminal, and bytes that are not text are shown."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pytest
from click.testing import CliRunner

from binlogio import BinlogWriter, ColumnDefinition, Insert, ServerVariables, Statement, TableDefinition
from binlogio.constants import EventType, QueryStatus
from binlogio.events.control import IncidentEvent, RotateEvent
from binlogio.events.query import SessionCharset, StatusVar
from binlogio.events.statement_context import UserVarEvent, UserVarType
from binlogio_cli.main import cli
from binlogio_cli.quoting import hexdump, identifier, safe, safe_lines, string_literal
from dumped_logs import text_of, write
from logs import header, query

if TYPE_CHECKING:
    from pathlib import Path


HOSTILE: Final = "\x1b]0;owned\x07\u202egpj\x9b2J`'\r"


def test_nothing_from_a_log_reaches_the_terminal_raw(tmp_path: Path) -> None:
    """Names, statements, messages, file names: escape sequences are shown, not sent."""
    events = [
        query(f"SELECT '{HOSTILE}'", schema=HOSTILE),
        UserVarEvent(
            HOSTILE, 0, UserVarType.STRING_RESULT, 255, HOSTILE.encode(), b"", header(EventType.USER_VAR_EVENT)
        ),
        IncidentEvent(1, HOSTILE, header(EventType.INCIDENT_EVENT)),
        RotateEvent(4, HOSTILE, header(EventType.ROTATE_EVENT)),
    ]
    path = write(tmp_path, *events)
    text = text_of(path)

    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", text)
    assert "use `\\x1b]0;owned\\x07\\u202egpj\\x9b2J``'\\x0d`/*!*/;" in text
    assert not re.search("[^\x20-\x7e\n]", text_of("--format", "json", path))


ACTING: Final = "\u202e\u2066\u200e\u200f\u061c\u2028\x7f\x9b"


def test_names_and_values_act_on_no_terminal(tmp_path: Path) -> None:
    """Text and JSON of every command that reports what is in a log; the JSON still has the characters."""
    name = f"t{ACTING}"
    columns = ColumnDefinition("id", "int", nullable=False), ColumnDefinition(f"c{ACTING}", "text")
    table = TableDefinition("shop", name, columns, ("id",))
    with (
        BinlogWriter(tmp_path / "binlog", variables=ServerVariables(binlog_row_metadata="FULL")) as log,
        log.session("shop") as session,
    ):
        session.execute(Statement(f"CREATE TABLE `{name}` (id INT PRIMARY KEY, `c{ACTING}` TEXT)"))
        session.execute(Statement("INSERT", (Insert(table, [{"id": 1, f"c{ACTING}": ACTING}]),)))
    file = str(tmp_path / "binlog.000001")
    for arguments in (
        ("dump", "-vv"),
        ("dump", "--format", "json"),
        ("grep", "id = 1"),
        ("grep", "--json", "id = 1"),
        ("history", f"shop.{name}", "1"),
        ("history", "--json", f"shop.{name}", "1"),
        ("stats",),
        ("stats", "--json"),
        ("schema",),
        ("info", "--json"),
        ("verify", "--json"),
    ):
        done = CliRunner().invoke(cli, [*arguments, file])

        assert done.exit_code == 0, (arguments, done.output)
        assert not re.search(f"[{ACTING}]", done.output), arguments
        if "--json" in arguments and arguments[0] in ("grep", "history"):
            assert json.loads(done.stdout)["after"][f"c{ACTING}"] == ACTING


def test_bytes_that_are_no_text_are_shown_as_escapes(tmp_path: Path) -> None:
    """A statement in an unknown character set is not lost."""
    text = text_of(write(tmp_path, query_of(b"SELECT '\xff\xfe'")))

    assert "SELECT '\\xff\\xfe'\n" in text


def test_statement_of_another_character_set_is_shown_in_utf8_and_says_so(tmp_path: Path) -> None:
    """SET matches the text: in gbk, the second byte of a shown character could be a backslash."""
    gbk = StatusVar(QueryStatus.CHARSET, SessionCharset(28, 28, 8))
    text = text_of(write(tmp_path, replace(query_of(b"SELECT '\x95\x5c'"), status_vars=(gbk,))))

    assert "SET @@session.character_set_client=utf8mb4 /* gbk in the log */, @@session.collation_connection=28" in text
    assert "\nSELECT '昞'\n" in text


def query_of(sql: bytes) -> Any:
    return replace(query(""), sql=sql)


@pytest.mark.parametrize(
    ("function", "text", "shown"),
    [
        (identifier, "a`b", "`a``b`"),
        (string_literal, 'it\'s "ü"', "'it''s \"ü\"'"),
        (string_literal, "a\\b", "_utf8mb4 0x615c62 /* a\\b */"),
        (string_literal, "*/\n\udcff", "_utf8mb4 0x2a2f0aff /* * /\\x0a\\xff */"),
        (safe, "\udc80\ud800\u2028", "\\x80\\ud800\\u2028"),
        (safe_lines, "a\r\nb\tc\rd", "a\nb\tc\\x0dd"),
    ],
)
def test_quoting_leaves_nothing_that_acts(function: Any, text: str, shown: str) -> None:
    """Quotes are doubled, controls are written out."""
    assert function(text) == shown


def test_hexdump_shows_offset_bytes_and_characters() -> None:
    """A line has sixteen bytes."""
    lines = list(hexdump(bytes(range(0x38, 0x4A)), 100))

    assert lines == [
        "#       64  38 39 3a 3b 3c 3d 3e 3f  40 41 42 43 44 45 46 47  |89:;<=>?@ABCDEFG|",
        "#       74  48 49                                             |HI|",
    ]
