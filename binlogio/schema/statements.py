"""Recognizes, by their text, the statements that begin, end and control transactions, in a log and from a client.

All other statements are `OtherStatement`; DDL is parsed by `binlogio.schema.ddl`. The ends of groups are found by
`binlogio.format.groups` and the kernel, which know BEGIN, COMMIT and ROLLBACK in the form that servers write.

    statement := BEGIN | START TRANSACTION ... | COMMIT ... | ROLLBACK ... | SAVEPOINT name
               | ROLLBACK WORK? TO SAVEPOINT? name | XA ... xid | CREATE TABLE ... START TRANSACTION | other
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from binlogio.errors import UnsupportedFeature
from binlogio.schema.ddl.server_defaults import NEWEST_MARIADB, NEWEST_MYSQL, ServerDefaults
from binlogio.schema.ddl.tokens import MODE_ANSI_QUOTES, Token, Words, iter_tokens, tokenize
from binlogio.schema.statement_scope import leading_words


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

_WHOLE: Final[dict[bytes, Statement]] = {b"BEGIN": Begin(), b"COMMIT": Commit(), b"ROLLBACK": Rollback()}
_CHANGES: Final = OtherStatement(changes_rows=True)
_OTHER: Final = OtherStatement(changes_rows=False)
_LOAD_HEAD: Final = 5  # the number of words in LOAD DATA LOW_PRIORITY LOCAL INFILE
_HEAD: Final = 16  # the most tokens that are needed of a statement: XA COMMIT X'',X'',1 ONE PHASE in parentheses
_ALL: Final = 1 << 20  # to the end of a CREATE, or to FOR in SET STATEMENT ... FOR
_BEFORE: Final = "( \t\r\n"
# A SELECT is logged if it calls a function that changes rows.
_CHANGES_ROWS: Final = ("INSERT", "UPDATE", "DELETE", "REPLACE", "LOAD", "SELECT", "WITH", "CALL")
_COMMENTS: Final = ("/*", "--", "#")
_NEEDS_TOKENS: Final = (
    *_COMMENTS,
    "SET",
    "ANALYZE",
    "BEGIN",
    "START",
    "COMMIT",
    "ROLLBACK",
    "SAVEPOINT",
    "XA",
    "CREATE",
)
_NO_ROWS: Final = ("TABLE", "TABLES", "LOCAL", "NO_WRITE_TO_BINLOG")  # after ANALYZE
_XA_STEPS: Final = ("START", "BEGIN", "END", "PREPARE", "COMMIT", "ROLLBACK")


def recognize(sql: bytes) -> Statement:
    """Classify a statement."""
    whole = _WHOLE.get(sql)
    if whole is not None:
        return whole
    text = sql.decode("utf-8", "surrogateescape").strip()
    begin = text.lstrip(_BEFORE)[:16].upper()
    if begin.startswith(_CHANGES_ROWS):
        return _CHANGES
    makes_rows = "TRANSACTION" in text[-1000:].upper()
    if not begin.startswith(_NEEDS_TOKENS) or (begin.startswith("CREATE") and not makes_rows):
        return _OTHER
    sql_mode = 0 if begin.startswith("SET") else MODE_ANSI_QUOTES  # names of savepoints may be logged in "
    for server in (NEWEST_MYSQL, NEWEST_MARIADB):
        with suppress(UnsupportedFeature):
            words = leading_words(text, server, sql_mode, _HEAD)
            if makes_rows or words.sees("SET"):
                words = leading_words(text, server, sql_mode, _ALL)
            found = _recognized(words)
            if found is not _OTHER:
                return found
    return _OTHER


def _recognized(words: Words) -> Statement:
    word = _without_parentheses(words).take().upper
    if word == "SET" and words.accept("STATEMENT"):  # of variables that change how names and texts are read
        while not words.accept("FOR"):
            words.skip_one()
        return _recognized(words)
    if word in _CHANGES_ROWS or (word == "ANALYZE" and words.next.upper not in _NO_ROWS):
        return _CHANGES  # MariaDB's ANALYZE executes the statement after it
    if (word == "BEGIN" and (words.ended or words.sees("WORK"))) or (word == "START" and words.sees("TRANSACTION")):
        return Begin()
    if word == "COMMIT":
        return Commit()
    if word == "ROLLBACK":
        words.accept("WORK")
        if not words.accept("TO"):
            return Rollback()
        words.accept("SAVEPOINT")
        return RollbackTo(words.name().lower())
    if word == "SAVEPOINT":
        return SavepointStatement(words.name().lower())
    if word == "XA" and (step := words.accept_any(*_XA_STEPS)):
        return Xa(step.replace("BEGIN", "START"), _xid(words))
    if word == "CREATE" and [token.upper for token in words.tokens[-2:]] == ["START", "TRANSACTION"]:
        return CreateWithRows()
    return _OTHER


def first_word(sql: str) -> str:
    """Return the first word of a statement, in capitals, after comments and parentheses; empty if there is none."""
    return _without_parentheses(leading_words(sql, NEWEST_MYSQL, 0, _HEAD)).next.upper


def updates_on_duplicate(sql: str) -> bool:
    """Return whether an INSERT has ON DUPLICATE KEY UPDATE; True as well if the text cannot be read."""
    if "DUPLICATE" not in sql.upper():
        return False
    with suppress(UnsupportedFeature):
        return ("ON", "DUPLICATE") in pairwise(token.upper for token in iter_tokens(sql) if token.kind == "word")
    return True


def _without_parentheses(words: Words) -> Words:
    while words.accept("("):
        pass
    return words


def split_statements(sql: str, server: ServerDefaults = NEWEST_MYSQL) -> Iterator[tuple[list[Token], str]]:
    """Yield the tokens and the text of each statement; semicolons separate statements.

    Raises:
        UnsupportedFeature: a quote or a comment does not end.
    """
    statement: list[Token] = []
    start = 0
    for token in iter_tokens(sql, server):
        if token.kind == "symbol" and token.text == ";":
            if statement:
                yield statement, sql[start : token.start]
            statement, start = [], token.end
        else:
            statement.append(token)
    if statement:
        yield statement, sql[start:]


def asks_for_client_file(sql: bytes) -> bool:
    """Return whether a statement is LOAD DATA LOCAL or LOAD XML LOCAL, which request a file from the client.

    Servers do not log such a statement: the log contains the loaded rows, or the content of the file.
    """
    text = sql.decode("utf-8", "surrogateescape").lstrip()
    if not text[:4].upper().startswith(("LOAD", *_COMMENTS)):
        return False
    for server in (NEWEST_MYSQL, NEWEST_MARIADB):
        words = [token.upper for token in leading_words(text, server, 0, _LOAD_HEAD).tokens]
        if words[:1] == ["LOAD"] and "LOCAL" in words:
            return True
    return False


def xid_key(xid: str) -> str:
    """Return the normalized form of an XA transaction identifier in SQL: hex gtrid, hex bqual, format id.

    Raises:
        UnsupportedFeature: it is none.
    """
    return _xid(Words(tokenize(xid)))


def _xid(words: Words) -> str:
    parts, number = [_xid_part(words)], 1
    while words.accept(","):
        if words.next.kind == "number":
            number = words.number()
        else:
            parts.append(_xid_part(words))
    return f"{parts[0]},{parts[1] if len(parts) > 1 else ''},{number}"


def _xid_part(words: Words) -> str:
    data = words.literal_bytes()
    return (words.text().encode("utf-8", "surrogateescape") if data is None else data).hex()


def xid_text(key: str) -> str:
    """Return the XA transaction identifier of a key in SQL, as in the log: X'67',X'62',1."""
    gtrid, bqual, format_id = key.split(",")
    return f"X'{gtrid}',X'{bqual}',{format_id}"


class Savepoints:
    """Divides an event group at its savepoints into segments, and finds the segments that ROLLBACK TO rolls back.

    `segment` is the number of the current segment; the first one is 0. SAVEPOINT and ROLLBACK TO begin a segment.
    """

    __slots__ = ("_begins", "segment")

    def __init__(self) -> None:
        self.segment = 0
        self._begins: dict[str, int] = {}  # the segment after each savepoint

    def copy(self) -> Savepoints:
        """Return a copy."""
        found = Savepoints()
        found.segment, found._begins = self.segment, dict(self._begins)
        return found

    def take(self, sql: bytes) -> range:
        """Process a statement of the group, and return the segments that it rolls back.

        A savepoint that is not in the log was set before the first change: all segments are rolled back.
        """
        found = recognize(sql)
        if not isinstance(found, SavepointStatement | RollbackTo):
            return range(0)
        begin, rolled_back = self._begins.get(found.name, 0), range(0)
        if isinstance(found, RollbackTo):
            rolled_back = range(begin, self.segment + 1)
            self._begins = {other: segment for other, segment in self._begins.items() if segment < begin}
        self.segment += 1
        self._begins[found.name] = self.segment
        return rolled_back
