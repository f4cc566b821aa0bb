r"""Tokenizer of SQL statements, as far as table definitions need it.

Follows both servers under a given sql_mode, including the comments that they execute. The parsers are in the other
modules.

    token   := word | "`" name "`" | text | number | symbol
    word    := (letter | digit | "_" | "$" | any character beyond ASCII)+
               -- directly after a name and ".", digits are a word too
    text    := "'" (character | "''" | "\" character)* "'"      -- with NO_BACKSLASH_ESCAPES a backslash is a character
    comment := "--" space rest of line | "#" rest of line | "/*" ... "*/"
    "/*!" version? ... "*/" is executed by servers of that version and later, "/*M!" by MariaDB alone; comments can be
    inside.

U+00A0 is a space where the client's character set is latin1, else part of a name; here it is a symbol, which no
statement can have.

Source: sql/sql_lex.cc, lex_one_token; sql/sql_class.h, MODE_*.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import field, replace
from typing import Final, NoReturn

from binlogio.errors import UnsupportedFeature
from binlogio.frozen import dataclass
from binlogio.schema.ddl.server_defaults import NEWEST_MYSQL, ServerDefaults
from binlogio.schema.types import unescape_text

MODE_REAL_AS_FLOAT: Final = 1 << 0
MODE_ANSI_QUOTES: Final = 1 << 2
MODE_ORACLE: Final = 1 << 9
"""Of MariaDB since 10.3; older servers and MySQL have no other types in it."""
MODE_MAXDB: Final = 1 << 12
"""Of MariaDB, and of MySQL before 8.0: TIMESTAMP is another name of DATETIME."""
MODE_NO_BACKSLASH_ESCAPES: Final = 1 << 20

# ASCII digits and letters, _, $, and U+0080 and above without the no-break space. Written as a complement, because a
# set of large ranges takes milliseconds to compile.
_LETTER: Final = r"[^\0-#%-/:-@\[-\^`{-\x7f\xa0]"
_TOKEN: Final = re.compile(
    r"(?P<skip>[\t-\r ]+|--(?=[\0- \x7f]|\Z)[^\n]*|#[^\n]*|\*/)|(?P<comment>/\*)|`(?P<quoted>(?:[^`]|``)*)`"
    rf"|(?P<number>[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?(?!{_LETTER}))|(?P<word>{_LETTER}+)|(?P<symbol>[^'\"`])",
    re.DOTALL,
)
_NAME_AFTER_DOT: Final = re.compile(f"{_LETTER}+")
_STRINGS: Final = {
    (quote, escapes): re.compile(f"{quote}((?:{plain}|{quote}{quote})*){quote}", re.DOTALL)
    for quote in "'\""
    for escapes, plain in ((True, rf"[^{quote}\\]|\\."), (False, f"[^{quote}]"))
}
_HEX_DIGITS: Final = re.compile("[0-9A-Fa-f]*")
_BIT_DIGITS: Final = re.compile("[01]*")
_COMMENT_HEAD: Final = re.compile(r"/\*(M?)!(\d{5,6})?")
_CONDITIONAL: Final = ("/*!", "/*M!")
# MariaDB skips what MySQL executes from 5.7 on; sql/sql_lex.cc, Lex_input_stream::get_token.
_MYSQL_ONLY: Final = range(50700, 100000)

Name = tuple[str | None, str]
"""Schema and name of a table; the schema is None where the statement does not name it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unparsed:
    """A part of a statement that cannot be parsed, with the facts of the error."""

    reason: str
    field: str | None = None
    expected: object = None
    found: object = None

    @classmethod
    def of(cls, exc: UnsupportedFeature) -> Unparsed:
        """Return the facts of an error, which itself would keep the frames of the parser."""
        return cls(reason=exc.reason, field=exc.field, expected=exc.expected, found=exc.found)

    def error(self) -> UnsupportedFeature:
        """Return the error again."""
        return UnsupportedFeature(self.reason, field=self.field, expected=self.expected, found=self.found)


@dataclass(frozen=True, slots=True)
class Token:
    """One word. `kind` is word, quoted, text, number, symbol or end.

    `text` is without quotes, and a word has `upper` as well.

    `start` and `end` are its place in the statement, quotes included.
    """

    kind: str
    text: str
    upper: str = ""
    start: int = field(default=0, compare=False)
    end: int = field(default=0, compare=False)

    @property
    def is_name(self) -> bool:
        """True if it can be a name."""
        return self.kind in ("word", "quoted")


END: Final = Token("end", "")


def tokenize(sql: str, server: ServerDefaults = NEWEST_MYSQL, sql_mode: int = 0) -> list[Token]:
    """Return the tokens of a statement, as `server` sees them.

    Raises:
        UnsupportedFeature: a quote or a comment that does not end.
    """
    return list(iter_tokens(sql, server, sql_mode))


def iter_tokens(
    sql: str, server: ServerDefaults = NEWEST_MYSQL, sql_mode: int = 0, *, skipped: list[int] | None = None
) -> Iterator[Token]:
    """Yield the tokens one by one, for who may not want all.

    `skipped` gets the places of comments that another server executes.

    Raises:
        UnsupportedFeature: while iterating, a quote or a comment that does not end.
    """
    at = name_end = 0
    while at < len(sql):
        if at == name_end and sql[at] == "." and (after := _NAME_AFTER_DOT.match(sql, at + 1)) is not None:
            yield Token("symbol", ".", ".", at, at + 1)
            yield Token("word", after[0], after[0].upper(), at + 1, after.end())
            at = name_end = after.end()
            continue
        match = _TOKEN.match(sql, at)
        if match is None:
            start = at
            token, at = _string(sql, at, sql_mode)
            name_end = at if token.is_name else 0
            yield replace(token, start=start, end=at)
            continue
        start, at = at, match.end()
        kind = match.lastgroup
        name_end = at if kind in ("word", "quoted") else 0
        if kind == "comment":
            at = _after_comment(sql, start, server)
            if skipped is not None and sql.startswith(_CONDITIONAL, start) and sql[at - 2 : at] == "*/":
                skipped.append(start)
        elif kind == "quoted":
            yield Token(kind, match["quoted"].replace("``", "`"), "", start, at)
        elif kind is not None and kind != "skip":
            yield Token(kind, match[kind], match[kind].upper(), start, at)


def _string(sql: str, at: int, sql_mode: int) -> tuple[Token, int]:
    quote = sql[at]
    is_name = quote == '"' and bool(sql_mode & MODE_ANSI_QUOTES)
    escapes = not is_name and not sql_mode & MODE_NO_BACKSLASH_ESCAPES
    match = _STRINGS[quote, escapes].match(sql, at) if quote != "`" else None
    if match is None:
        raise UnsupportedFeature("unterminated quote", field="SQL", found=repr(sql[at : at + 20]))
    if is_name:
        return Token("quoted", match[1].replace('""', '"')), match.end()
    text = match[1].replace(quote * 2, quote) if not escapes else unescape_text(match[1], quote)
    return Token("text", text), match.end()


def _after_comment(sql: str, at: int, server: ServerDefaults) -> int:
    """Return the offset of the next token: after the head of a comment that is executed, else after the comment."""
    head = _COMMENT_HEAD.match(sql, at)
    if head is not None and _is_executed(head[1], int(head[2] or 0), server):
        return head.end()
    end = sql.find("*/", at + 2)
    if head is not None:  # a version's comment can have plain comments inside
        inside = sql.find("/*", head.end())
        while 0 <= inside < end:
            closed = sql.find("*/", inside + 2)
            end = sql.find("*/", closed + 2) if closed >= 0 else -1
            inside = sql.find("/*", closed + 2)
    if end < 0:
        raise UnsupportedFeature("unterminated comment", field="SQL", found=repr(sql[at : at + 20]))
    return end + 2


def _is_executed(mark: str, version: int, server: ServerDefaults) -> bool:
    if mark and not server.is_mariadb:
        return False
    if server.is_mariadb and not mark and version in _MYSQL_ONLY:
        return False
    return version <= server.version_number


_BEFORE_OBJECT: Final = frozenset(
    "OR REPLACE TEMPORARY ONLINE OFFLINE IGNORE UNIQUE FULLTEXT SPATIAL VECTOR AGGREGATE ALGORITHM = UNDEFINED MERGE "
    "TEMPTABLE SQL SECURITY INVOKER DEFINER UNDO LOGFILE".split()
)
_SAME_OBJECT: Final = {"SCHEMA": "DATABASE", "TABLES": "TABLE"}


class Words:
    """A place in a list of tokens, moved by what is accepted there. Keywords are given in capitals.

    `next` is the token at the place; `END` after the last.
    """

    __slots__ = ("_at", "next", "sql_mode", "tokens")

    def __init__(self, tokens: list[Token], sql_mode: int = 0, at: int = 0) -> None:
        self.tokens: Final = tokens
        self.sql_mode: Final = sql_mode
        self.at = at

    def copy(self) -> Words:
        """Return a copy of the place, which moves independently."""
        return Words(self.tokens, self.sql_mode, self.at)

    @property
    def at(self) -> int:
        """The number of the next token."""
        return self._at

    @at.setter
    def at(self, number: int) -> None:
        self._at = number
        self.next = self.tokens[number] if number < len(self.tokens) else END

    @property
    def ended(self) -> bool:
        """True after the last token, and at a semicolon that is the last token."""
        return self.next is END or (
            self.next.kind == "symbol" and self.next.text == ";" and self.at == len(self.tokens) - 1
        )

    def sees(self, *keywords: str) -> bool:
        """Return whether the next tokens are these."""
        if self.next.upper != keywords[0]:
            return False
        ahead = self.tokens[self.at : self.at + len(keywords)]
        return tuple(token.upper for token in ahead) == keywords

    def accept(self, *keywords: str) -> bool:
        """Move after the tokens if they come next."""
        if self.next.upper != keywords[0] or not (len(keywords) == 1 or self.sees(*keywords)):
            return False
        self.at += len(keywords)
        return True

    def accept_any(self, *keywords: str) -> str:
        """Move after one of the tokens and return it; "" where none comes next."""
        found = self.next.upper
        if found not in keywords or not found:
            return ""
        self.at += 1
        return found

    def expect(self, *keywords: str) -> None:
        """Move after the tokens.

        Raises:
            UnsupportedFeature: something else comes next.
        """
        if not self.accept(*keywords):
            self.refuse(" ".join(keywords))

    def take(self) -> Token:
        """Return the token at the place; moves after it."""
        token = self.next
        if token is END:
            self.refuse("more")
        self.at += 1
        return token

    def object_kind(self) -> str:
        """Return the kind of object after CREATE, ALTER, DROP or RENAME, in capitals; moves to the object's name.

        Raises:
            UnsupportedFeature: the statement ends before it.
        """
        while self.next.upper in _BEFORE_OBJECT:
            if self.take().upper == "DEFINER" and self.accept("="):  # user@host, CURRENT_USER() or role
                self.take()
                if self.accept("@"):
                    self.take()
                if self.accept("("):
                    self.expect(")")
        kind = self.take().upper
        if kind == "PACKAGE":
            self.accept("BODY")
        if not self.accept("IF", "EXISTS"):
            self.accept("IF", "NOT", "EXISTS")
        return _SAME_OBJECT.get(kind, kind)

    def name(self) -> str:
        """Return a name, quoted or not."""
        if not self.next.is_name:
            self.refuse("a name")
        return self.take().text

    def table_name(self) -> Name:
        """Return the schema, if given, and the name of a table. A dot before the name means the default schema."""
        if self.accept("."):
            return None, self.name()
        first = self.name()
        return (first, self.name()) if self.accept(".") else (None, first)

    def column_name(self) -> str:
        """Return the name of a column, without its table and schema, which may precede it."""
        self.accept(".")
        name = self.name()
        for _ in range(2):
            if not self.accept("."):
                break
            name = self.name()
        return name

    def literal_bytes(self) -> bytes | None:
        """Return the bytes of a hexadecimal or a bit literal; None where none comes next."""
        token = self.next
        prefix, digits, size = token.upper[:1], "", 1
        if token.kind != "word" or prefix not in ("X", "B", "0"):
            return None
        if token.upper in ("X", "B") and self.at + 1 < len(self.tokens) and self.tokens[self.at + 1].kind == "text":
            digits, size = self.tokens[self.at + 1].text, 2
        elif token.text[:2] in ("0x", "0b"):
            prefix, digits = token.upper[1], token.text[2:]
        if not (_HEX_DIGITS if prefix == "X" else _BIT_DIGITS).fullmatch(digits):
            return None
        self.at += size
        base, width = (16, 2) if prefix == "X" else (2, 8)
        return int(digits or "0", base).to_bytes(-(-len(digits) // width), "big")

    def text(self) -> str:
        """Return a text in quotes; several in a row are one."""
        if self.next.kind != "text":
            self.refuse("a text in quotes")
        parts = [self.take().text]
        while self.next.kind == "text":
            parts.append(self.take().text)
        return "".join(parts)

    def number(self) -> int:
        """Return a whole number."""
        if self.next.kind != "number" or not self.next.text.isascii() or not self.next.text.isdigit():
            self.refuse("a number")
        return int(self.take().text[:20])

    def skip_wait(self) -> None:
        """Move after WAIT or NOWAIT (MariaDB)."""
        if self.accept("WAIT"):
            self.number()
        self.accept("NOWAIT")

    def also_altered(self) -> Iterator[Name]:
        """Yield the other tables of an ALTER TABLE: new names, and tables that become a partition or were one."""
        while not self.ended:
            is_renamed = self.accept("RENAME") and self.next.upper not in ("COLUMN", "INDEX", "KEY")
            if is_renamed:
                self.accept_any("TO", "AS", "=")
            if is_renamed or any(self.accept(word, "TABLE") for word in ("WITH", "TO", "CONVERT")):
                yield self.table_name()
            elif not self.ended:
                with suppress(UnsupportedFeature):  # the rest of the statement cannot be read
                    self.skip_one()

    def skip_group(self) -> None:
        """Move after the closing parenthesis of those that open here."""
        self.expect("(")
        depth = 1
        while depth:
            token = self.take()
            depth += {"(": 1, ")": -1}.get(token.upper, 0)

    def skip_one(self) -> None:
        """Move after one token, or after a pair of parentheses."""
        if self.next.upper == "(":
            self.skip_group()
        else:
            self.take()

    def refuse(self, expected: str) -> NoReturn:
        """Raise that something else was expected here."""
        seen = " ".join(token.text for token in self.tokens[self.at : self.at + 5])
        raise UnsupportedFeature("the statement cannot be parsed", field="SQL", expected=expected, found=repr(seen))
