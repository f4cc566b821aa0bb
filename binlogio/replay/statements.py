"""Recognizes, by their text, the statements of a log that concern a replay of rows.

These are statements that begin and end transactions, and those that empty or remove tables. Any other one is
`OtherStatement`: the caller counts it, and a column that does not fit afterwards is an error there.

    statement := BEGIN | COMMIT | ROLLBACK | SAVEPOINT name | ROLLBACK TO name | XA ... xid
               | DROP TABLE names | RENAME TABLE name TO name | TRUNCATE name | DROP DATABASE name | other
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Final

from binlogio.errors import UnsupportedFeature
from binlogio.schema.ddl.server_defaults import NEWEST_MARIADB, NEWEST_MYSQL
from binlogio.schema.ddl.tokens import iter_tokens

_SPACE: Final = r"(?:\s|/\*(?:[^*]|\*(?!/))*\*/|--\s[^\n]*\n|#[^\n]*\n)"
_NAME: Final = r"(?:`(?:[^`]|``)+`|[\w$\u0080-\uffff]+)"
_TABLE: Final = rf"{_NAME}(?:{_SPACE}*\.{_SPACE}*{_NAME})?"
_FLAGS: Final = re.IGNORECASE | re.DOTALL

_SAVEPOINT: Final = re.compile(rf"SAVEPOINT\s+({_NAME})", _FLAGS)
_ROLLBACK_TO: Final = re.compile(rf"ROLLBACK\s+(?:WORK\s+)?TO\s+(?:SAVEPOINT\s+)?({_NAME})", _FLAGS)
_XA: Final = re.compile(r"XA\s+(START|BEGIN|END|PREPARE|COMMIT|ROLLBACK)\s+(.{0,600}?)(\s+ONE\s+PHASE)?\Z", _FLAGS)
_DROP_TABLES: Final = re.compile(
    rf"{_SPACE}*DROP{_SPACE}+(TEMPORARY{_SPACE}+)?TABLES?{_SPACE}+(?:IF{_SPACE}+EXISTS{_SPACE}+)?"
    rf"({_TABLE}(?:{_SPACE}*,{_SPACE}*{_TABLE})*)",
    _FLAGS,
)
_TRUNCATE: Final = re.compile(rf"{_SPACE}*TRUNCATE{_SPACE}+(?:TABLE{_SPACE}+)?({_TABLE})", _FLAGS)
_DROP_DATABASE: Final = re.compile(
    rf"{_SPACE}*DROP{_SPACE}+(?:DATABASE|SCHEMA){_SPACE}+(?:IF{_SPACE}+EXISTS{_SPACE}+)?({_NAME})", _FLAGS
)
_RENAME: Final = re.compile(
    rf"{_SPACE}*RENAME{_SPACE}+TABLES?{_SPACE}+(?:IF{_SPACE}+EXISTS{_SPACE}+)?"
    rf"({_TABLE}{_SPACE}+TO{_SPACE}+{_TABLE}(?:{_SPACE}*,{_SPACE}*{_TABLE}{_SPACE}+TO{_SPACE}+{_TABLE})*){_SPACE}*\Z",
    _FLAGS,
)
_ALTER_RENAME: Final = re.compile(
    rf"{_SPACE}*ALTER{_SPACE}+TABLE{_SPACE}+({_TABLE}){_SPACE}+RENAME{_SPACE}+"
    rf"(?:TO{_SPACE}+|AS{_SPACE}+|=)?({_TABLE}){_SPACE}*\Z",
    _FLAGS,
)
_CREATE_WITH_ROWS: Final = re.compile(rf"{_SPACE}*CREATE\b.*\sSTART{_SPACE}+TRANSACTION{_SPACE}*\Z", _FLAGS)
_TABLES: Final = re.compile(rf"{_SPACE}|({_NAME})(?:{_SPACE}*\.{_SPACE}*({_NAME}))?", _FLAGS)
_HEX: Final = re.compile(r"X'([0-9a-f]*)'|0x([0-9a-f]*)|'((?:[^'\\]|\\.|'')*)'", _FLAGS)


@dataclass(frozen=True, slots=True)
class Begin:
    """A transaction begins."""


@dataclass(frozen=True, slots=True)
class Commit:
    """COMMIT: the changes of the group are kept."""


@dataclass(frozen=True, slots=True)
class Rollback:
    """ROLLBACK: the changes of the group are discarded."""


@dataclass(frozen=True, slots=True)
class SavepointStatement:
    """A place to which a part of the transaction may be undone."""

    name: str


@dataclass(frozen=True, slots=True)
class RollbackTo:
    """ROLLBACK TO: the changes after the savepoint are rolled back."""

    name: str


@dataclass(frozen=True, slots=True)
class Xa:
    """A step of a distributed transaction. `xid` is a spelling that is the same for the same transaction."""

    step: str
    xid: str


@dataclass(frozen=True, slots=True)
class DropTables:
    """DROP TABLE; `tables` are (schema, table)."""

    tables: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class RenameTables:
    """Tables have other names; `renames` are ((schema, table), (schema, table)), one after the other."""

    renames: tuple[tuple[tuple[str, str], tuple[str, str]], ...]


@dataclass(frozen=True, slots=True)
class Truncate:
    """TRUNCATE TABLE."""

    schema: str
    table: str


@dataclass(frozen=True, slots=True)
class DropDatabase:
    """DROP DATABASE: removes all tables of a schema."""

    schema: str


@dataclass(frozen=True, slots=True)
class CreateWithRows:
    """CREATE TABLE ...

    START TRANSACTION: creates a table together with the rows that follow (CREATE TABLE ... SELECT of MySQL 8.0.21 on).
    """


@dataclass(frozen=True, slots=True)
class OtherStatement:
    """A statement that a replay of rows does not follow. `changes_rows` is a guess by its first word."""

    changes_rows: bool


Statement = (
    Begin
    | Commit
    | Rollback
    | SavepointStatement
    | RollbackTo
    | Xa
    | DropTables
    | RenameTables
    | Truncate
    | DropDatabase
    | CreateWithRows
    | OtherStatement
)

_WHOLE: Final[dict[str, Statement]] = {"BEGIN": Begin(), "COMMIT": Commit(), "ROLLBACK": Rollback()}
_LOAD_HEAD: Final = 5  # words: LOAD DATA LOW_PRIORITY LOCAL INFILE
_LONGEST_WHOLE: Final = max(map(len, _WHOLE))
# A SELECT is in a log where a function that it calls changes rows.
_CHANGES_ROWS: Final = ("INSERT", "UPDATE", "DELETE", "REPLACE", "LOAD", "SELECT", "WITH", "CALL")


def recognize(sql: bytes, schema: str) -> Statement:
    """Classify a statement of the log; `schema` is its default database."""
    text = sql.decode("utf-8", "surrogateescape").strip()
    whole = _WHOLE.get(text.upper()) if len(text) <= _LONGEST_WHOLE else None
    if whole is not None:
        return whole
    for pattern, build in _PATTERNS:
        match = pattern.match(text)
        if match is not None:
            return build(match, schema)
    return OtherStatement(changes_rows=text.lstrip("( ").upper().startswith(_CHANGES_ROWS))


def asks_for_client_file(sql: bytes) -> bool:
    """Return whether a statement is LOAD DATA LOCAL or LOAD XML LOCAL, for which a server asks the client for a file.

    No server logs such a text: what it loaded is in the log as rows, or with the content of the file.
    """
    begin = sql.lstrip()
    if not (begin[:4].upper() == b"LOAD" or begin.startswith((b"/*", b"--", b"#"))):
        return False
    text = begin.decode("utf-8", "surrogateescape")
    for server in (NEWEST_MYSQL, NEWEST_MARIADB):
        words: list[str] = []
        with suppress(UnsupportedFeature):  # the words before it are here
            words += (token.upper for token in islice(iter_tokens(text, server), _LOAD_HEAD))
        if words[:1] == ["LOAD"] and "LOCAL" in words:
            return True
    return False


def xid_key(xid: str) -> str:
    """Return a spelling of an XA transaction id that does not depend on how it was written."""
    parts = [
        (match[1] or match[2] or (match[3] or "").encode("utf-8", "surrogateescape").hex()).lower()
        for match in _HEX.finditer(xid)
    ]
    number = re.search(r",\s*(\d+)\s*$", xid)
    return f"{parts[0] if parts else ''},{parts[1] if len(parts) > 1 else ''},{number[1] if number else '1'}"


def xid_text(key: str) -> str:
    """Return the XA transaction id of a key, as XA RECOVER CONVERT XID and the log write it."""
    gtrid, bqual, format_id = key.split(",")
    return f"X'{gtrid}',X'{bqual}',{format_id}"


def _name(text: str) -> str:
    return text[1:-1].replace("``", "`") if text.startswith("`") else text


def _tables(text: str, schema: str) -> tuple[tuple[str, str], ...]:
    found = (match.groups() for match in _TABLES.finditer(text) if match[1] is not None)
    return tuple((_name(first), _name(second)) if second else (schema, _name(first)) for first, second in found)


def _drop(match: re.Match[str], schema: str) -> Statement:
    return OtherStatement(changes_rows=False) if match[1] else DropTables(_tables(match[2], schema))


def _rename(match: re.Match[str], schema: str) -> RenameTables:
    names = _tables(match[1], schema)  # TO is one of them, between two others
    return RenameTables(tuple(zip(names[::3], names[2::3], strict=True)))


def _alter_rename(match: re.Match[str], schema: str) -> RenameTables:
    return RenameTables(((_tables(match[1], schema)[0], _tables(match[2], schema)[0]),))


_Build = Callable[["re.Match[str]", str], Statement]
_PATTERNS: Final[tuple[tuple[re.Pattern[str], _Build], ...]] = (
    (_SAVEPOINT, lambda match, schema: SavepointStatement(_name(match[1]).lower())),
    (_ROLLBACK_TO, lambda match, schema: RollbackTo(_name(match[1]).lower())),
    (_XA, lambda match, schema: Xa(match[1].upper().replace("BEGIN", "START"), xid_key(match[2]))),
    (_DROP_TABLES, _drop),
    (_RENAME, _rename),
    (_ALTER_RENAME, _alter_rename),
    (_CREATE_WITH_ROWS, lambda match, schema: CreateWithRows()),
    (_TRUNCATE, lambda match, schema: Truncate(*_tables(match[1], schema)[0])),
    (_DROP_DATABASE, lambda match, schema: DropDatabase(_name(match[1]))),
)
