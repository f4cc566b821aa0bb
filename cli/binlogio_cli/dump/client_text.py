"""Encodes statements for the standard input of the client, so that it neither splits nor interprets them.

The client parses quotes, comments, the delimiter and client commands. A statement that the client would split
differently from the server is sent in hexadecimal as a prepared statement, in the session's character set.

    statement := sql newline delimiter newline                                         -- if it is sent unchanged
               | SET @binlogio = x'sql'  PREPARE binlogio FROM @binlogio  EXECUTE ...   -- otherwise

The PREPARE may use up the INSERT_ID: if the instance of the table that it opens has a number left, it empties the list
(sql/handler.cc, handler::ha_release_auto_increment). So it is set once more before the EXECUTE, if it was set: 0 would
be a number too.

Source: client/mysql.cc, read_and_execute, add_line, find_command; tested with the clients of MySQL 9.7 and MariaDB
10.11.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from binlogio.replay.targets.mysql.statement_context import prepared
from binlogio.values.charsets import MULTI_BYTE, charset_of

if TYPE_CHECKING:
    from collections.abc import Iterator

DELIMITER: Final = "/*!*/;"

_KEEP: Final = "SET @binlogio_insert_id = IF(@@insert_id, CONCAT('SET insert_id = ', @@insert_id), 'DO 0')"
_RESTORE: Final = ("PREPARE binlogio_insert_id FROM @binlogio_insert_id", "EXECUTE binlogio_insert_id")
_COMMANDS: Final = (
    "charset clear connect delimiter edit ego exit go help nopager notee nowarning pager print prompt query_attributes"
    " quit rehash resetconnection sandbox source ssl_session_data_print status system tee use warnings"
)
_COMMAND_LINE: Final = re.compile(
    rf"^\s*(?:\?|(?:{'|'.join(_COMMANDS.split())})\b)".encode(), re.IGNORECASE | re.MULTILINE
)
# Tokens that client and server split in the same way. Adjacent quoted strings, 'a''b', are two tokens. The client drops
# a backslash at the end of a line. An executable comment must not contain a comment.
_BACKTICKS: Final = rb"`[^`\\]*(?:\\(?!\n)[^`\\]*)*`"
_TOKEN: Final = rb"""[^'"`\\/*#-]+ | \*(?!/) | {strings} | {backticks}
                   | /(?!\*) | /\*!(?:[^'"`\\/*#-] | {strings} | {backticks})*\*/
                   | /\*(?![!+M])[^*/]*(?:(?:\*(?!/)|/(?!\*))[^*/]*)*\*/
                   | \#[^\n]* | -(?!-[\x00-\x20]|-\Z) | --(?=[\ \t\n]|\Z)[^\n]*"""


def _tokens(strings: bytes) -> re.Pattern[bytes]:
    text = _TOKEN.replace(b"{strings}", strings).replace(b"{backticks}", _BACKTICKS)
    return re.compile(text, re.VERBOSE | re.DOTALL)


_ESCAPING: Final = _tokens(rb"""'[^'\\]*(?:\\[^\n][^'\\]*)*' | "[^"\\]*(?:\\[^\n][^"\\]*)*" """)
_PLAIN: Final = _tokens(rb"""'[^'\\]*' | "[^"\\]*" """)
# The client sends a leading line comment separately, and does not send trailing control characters.
_ENDS: Final = re.compile(rb"(?!\s*(?:--|#)).*[\x21-\x7e]\s*\Z", re.DOTALL)
_ROUTINE: Final = re.compile(rb"\s*(?:CREATE|ALTER)\b[^'\"(]*\b(?:PROCEDURE|FUNCTION|TRIGGER|EVENT)\b", re.IGNORECASE)


def client_lines(sql: bytes, collation_id: int | None, *, escapes: bool, inserts: bool = False) -> Iterator[str]:
    """Yield input lines that make the client send `sql`; bytes that are not UTF-8 become surrogate escapes.

    `collation_id` is the collation of the client character set in the session. `escapes` is False if a backslash in
    quotes may be an ordinary character (NO_BACKSLASH_ESCAPES, ANSI_QUOTES, or unknown sql_mode). `inserts` is True
    for statements of the log, which may insert rows.
    """
    if is_read_as_it_is(sql, collation_id, escapes=escapes):
        yield f"{sql.decode('utf-8', 'surrogateescape')}\n{DELIMITER}\n"
        return
    text, prepare, execute = prepared(sql)
    lines = (text, _KEEP, prepare, *_RESTORE, execute) if inserts else (text, prepare, execute)
    yield from (f"{line}{DELIMITER}\n" for line in lines)


def is_read_as_it_is(sql: bytes, collation_id: int | None, *, escapes: bool) -> bool:
    """Return whether the client sends a statement unchanged; arguments as for `client_lines`."""
    charset = charset_of(collation_id)
    if charset is not None and charset.name in MULTI_BYTE and not sql.isascii():
        return False
    if b"\0" in sql or (b"\r\n" in sql and not _ROUTINE.match(sql)):
        return False
    if not _ENDS.match(sql) or DELIMITER.encode() in sql or b"delimiter" in sql.lower() or _COMMAND_LINE.search(sql):
        return False
    at, tokens = 0, _ESCAPING if escapes else _PLAIN
    while at < len(sql):
        token = tokens.match(sql, at)
        if token is None:
            return False
        at = token.end()
    return True
