"""Recognizes, by their text, the statements of a log that begin, end and control transactions.

All other statements are `OtherStatement`; DDL is parsed by `binlogio.schema.ddl`.

    statement := BEGIN | COMMIT | ROLLBACK | SAVEPOINT name | ROLLBACK TO name | XA ... xid
               | CREATE TABLE ... START TRANSACTION | other
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Final

from binlogio.errors import UnsupportedFeature
from binlogio.format.groups import savepoint_of
from binlogio.schema.ddl.server_defaults import NEWEST_MARIADB, NEWEST_MYSQL, ServerDefaults
from binlogio.schema.ddl.tokens import iter_tokens

_SPACE: Final = r"(?:\s|/\*(?:[^*]|\*(?!/))*\*/|--\s[^\n]*\n|#[^\n]*\n)"
_FLAGS: Final = re.IGNORECASE | re.DOTALL

_XA: Final = re.compile(r"XA\s+(START|BEGIN|END|PREPARE|COMMIT|ROLLBACK)\s+(.{0,600}?)(\s+ONE\s+PHASE)?\Z", _FLAGS)
_CREATE_WITH_ROWS: Final = re.compile(rf"{_SPACE}*CREATE\b.*\sSTART{_SPACE}+TRANSACTION{_SPACE}*\Z", _FLAGS)
_HEX: Final = re.compile(r"X'([0-9a-f]*)'|0x([0-9a-f]*)|'((?:[^'\\]|\\.|'')*)'", _FLAGS)


@dataclass(frozen=True, slots=True)
class Begin:
    """BEGIN: the start of a transaction."""


@dataclass(frozen=True, slots=True)
class Commit:
    """COMMIT: the changes of the group are committed."""


@dataclass(frozen=True, slots=True)
class Rollback:
    """ROLLBACK: the changes of the group are rolled back."""


@dataclass(frozen=True, slots=True)
class SavepointStatement:
    """SAVEPOINT: a position to which the transaction can be rolled back."""

    name: str


@dataclass(frozen=True, slots=True)
class RollbackTo:
    """ROLLBACK TO: the changes after the savepoint are rolled back."""

    name: str


@dataclass(frozen=True, slots=True)
class Xa:
    """A statement of an XA transaction. `step` is its second word, `xid` the normalized identifier (`xid_key`)."""

    step: str
    xid: str


@dataclass(frozen=True, slots=True)
class CreateWithRows:
    """CREATE TABLE with START TRANSACTION: CREATE TABLE ... SELECT since MySQL 8.0.21; rows events follow."""


@dataclass(frozen=True, slots=True)
class OtherStatement:
    """Any other statement. `changes_rows` is True if its first word is that of a statement that changes rows."""

    changes_rows: bool


Statement = Begin | Commit | Rollback | SavepointStatement | RollbackTo | Xa | CreateWithRows | OtherStatement

_WHOLE: Final[dict[str, Statement]] = {"BEGIN": Begin(), "COMMIT": Commit(), "ROLLBACK": Rollback()}
_LOAD_HEAD: Final = 5  # the number of words in LOAD DATA LOW_PRIORITY LOCAL INFILE
_LONGEST_WHOLE: Final = max(map(len, _WHOLE))
# A SELECT is logged if it calls a function that changes rows.
_CHANGES_ROWS: Final = ("INSERT", "UPDATE", "DELETE", "REPLACE", "LOAD", "SELECT", "WITH", "CALL")
_MORE_BEFORE: Final = ("/*", "--", "#", "SET", "ANALYZE")
_NOT_LOGGED: Final = ("LOCAL", "NO_WRITE_TO_BINLOG")


def recognize(sql: bytes) -> Statement:
    """Classify a statement of the log."""
    text = sql.decode("utf-8", "surrogateescape").strip()
    whole = _WHOLE.get(text.upper()) if len(text) <= _LONGEST_WHOLE else None
    if whole is not None:
        return whole
    savepoint = savepoint_of(text)
    if savepoint is not None:
        name, rolls_back = savepoint
        return RollbackTo(name) if rolls_back else SavepointStatement(name)
    for pattern, build in _PATTERNS:
        match = pattern.match(text)
        if match is not None:
            return build(match)
    return OtherStatement(changes_rows=_changes_rows(text))


def _changes_rows(text: str) -> bool:
    begin = text.lstrip("( ").upper()
    if begin.startswith(_CHANGES_ROWS):
        return True
    if not begin.startswith(_MORE_BEFORE):
        return False
    return any(_is_change(text, server) for server in (NEWEST_MYSQL, NEWEST_MARIADB))


def _is_change(text: str, server: ServerDefaults) -> bool:
    """Return whether a statement changes rows; it may begin with a comment, SET STATEMENT ... FOR, or ANALYZE."""
    words = (token.upper for token in iter_tokens(text, server) if token.text != "(")
    with suppress(UnsupportedFeature):
        word = next(words, "")
        if word == "SET" and next(words, "") == "STATEMENT":
            word = next((next(words, "") for one in words if one == "FOR"), "")
        if word == "ANALYZE":  # MariaDB's ANALYZE executes the statement after it
            return next(words, "") not in ("TABLE", "TABLES", *_NOT_LOGGED)
        return word in _CHANGES_ROWS
    return False


def asks_for_client_file(sql: bytes) -> bool:
    """Return whether a statement is LOAD DATA LOCAL or LOAD XML LOCAL, which request a file from the client.

    Servers do not log such a statement: the log contains the loaded rows, or the content of the file.
    """
    begin = sql.lstrip()
    if not (begin[:4].upper() == b"LOAD" or begin.startswith((b"/*", b"--", b"#"))):
        return False
    text = begin.decode("utf-8", "surrogateescape")
    for server in (NEWEST_MYSQL, NEWEST_MARIADB):
        words: list[str] = []
        with suppress(UnsupportedFeature):  # the words before the error are sufficient
            words += (token.upper for token in islice(iter_tokens(text, server), _LOAD_HEAD))
        if words[:1] == ["LOAD"] and "LOCAL" in words:
            return True
    return False


def xid_key(xid: str) -> str:
    """Return the normalized form of an XA transaction identifier in SQL: hex gtrid, hex bqual, format id."""
    parts = [
        (match[1] or match[2] or (match[3] or "").encode("utf-8", "surrogateescape").hex()).lower()
        for match in _HEX.finditer(xid)
    ]
    number = re.search(r",\s*(\d+)\s*$", xid)
    return f"{parts[0] if parts else ''},{parts[1] if len(parts) > 1 else ''},{number[1] if number else '1'}"


def xid_text(key: str) -> str:
    """Return the XA transaction identifier of a key in SQL, as in the log: X'67',X'62',1."""
    gtrid, bqual, format_id = key.split(",")
    return f"X'{gtrid}',X'{bqual}',{format_id}"


_Build = Callable[["re.Match[str]"], Statement]
_PATTERNS: Final[tuple[tuple[re.Pattern[str], _Build], ...]] = (
    (_XA, lambda match: Xa(match[1].upper().replace("BEGIN", "START"), xid_key(match[2]))),
    (_CREATE_WITH_ROWS, lambda match: CreateWithRows()),
)
