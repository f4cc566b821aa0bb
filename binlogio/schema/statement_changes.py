"""Changes of rows that a log has as SQL text (binlog_format=STATEMENT or MIXED): the log does not have their rows.

The text tells the table of most statements, but not what triggers, foreign keys and views change. Statements about
system schemas, which the agents of hosted servers write, count only for a selection of tables that names them.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from binlogio.errors import Hint, UnsupportedFeature
from binlogio.frozen import dataclass
from binlogio.schema.ddl.server_defaults import NEWEST_MYSQL
from binlogio.schema.statement_scope import leading_words, scope_of
from binlogio.schema.statements import OtherStatement, recognize

if TYPE_CHECKING:
    from collections.abc import Callable

_HEAD: Final = 32  # tokens that suffice for a statement of one table
_LONGEST_HEAD: Final = 200  # bytes
_SYSTEM: Final = ("mysql", "sys", "performance_schema", "information_schema")
_MAY_FILL: Final = re.compile(r"\s*CREATE\b.*\b(SELECT|VALUES|TABLE\b.*\bTABLE)\b", re.IGNORECASE | re.DOTALL)
_UNKNOWN: Final = ("SELECT", "WITH", "CALL", "ANALYZE", "LOAD")


@dataclass(frozen=True, slots=True)
class StatementChange:
    """A statement that changes selected rows as SQL text: log, offset, statement."""

    file: str
    pos: int
    sql: str

    def error(self) -> UnsupportedFeature:
        """Return the error of a reader of rows."""
        return UnsupportedFeature(
            "the log has a change as SQL text, without its rows (binlog_format=STATEMENT or MIXED)",
            file=self.file,
            offset=self.pos,
            found=repr(self.sql[:80]),
            hint=Hint.STATEMENT_CHANGES,
        )


class TextChanges:
    """Finds statements that change rows of selected tables, and no temporary tables of their session.

    `wants` returns whether a table, given by schema and name, is selected.
    """

    def __init__(self, wants: Callable[[str, str], bool]) -> None:
        self._wants = wants
        self._temporary: set[tuple[object, str, str]] = set()  # by the session that has made them

    def takes(self, sql: bytes, schema: str, session: object) -> bool:
        """Take the next statement; return whether it changes rows of selected tables, as `changes_rows_of`."""
        head = sql[:_LONGEST_HEAD].upper()
        if b"TEMPORARY" in head or (self._temporary and any(word in head for word in (b"DROP", b"ALTER", b"RENAME"))):
            self._follow(sql.decode("utf-8", "replace"), schema, session)

        def wants(of: str, table: str) -> bool:
            return (session, of, table) not in self._temporary and self._wants(of, table)

        return changes_rows_of(sql, schema, wants if self._temporary else self._wants)

    def _follow(self, sql: str, schema: str, session: object) -> None:
        from binlogio.schema.ddl.parser import parse_ddl  # noqa: PLC0415 - seldom needed
        from binlogio.schema.ddl.tree import CreateTable, DropTables  # noqa: PLC0415

        ddl = parse_ddl(sql)
        if isinstance(ddl, CreateTable):
            if ddl.is_temporary:
                self._temporary.add((session, ddl.table[0] or schema, ddl.table[1]))
        elif isinstance(ddl, DropTables):
            self._temporary -= {(session, of or schema, table) for of, table in ddl.tables}
        else:  # a table may have another name
            self._temporary = {one for one in self._temporary if one[0] != session}


def changes_rows_of(sql: bytes, schema: str, wants: Callable[[str, str], bool]) -> bool:
    """Return whether a statement changes rows of a selected table, as far as its text tells it.

    Args:
        sql: the statement.
        schema: its default database.
        wants: returns whether a table, given by schema and name, is selected.
    """
    statement, text = recognize(sql), sql.decode("utf-8", "replace")
    if not (isinstance(statement, OtherStatement) and (statement.changes_rows or _fills_table(text))):
        return False
    words = leading_words(text, NEWEST_MYSQL, 0, _HEAD)
    try:
        return any(_is_wanted(*name, wants) for name in scope_of(words, schema).tables)
    except UnsupportedFeature:
        pass
    if words.tokens and words.tokens[0].upper in _UNKNOWN:
        return True
    names = [token.text for token in leading_words(text, NEWEST_MYSQL).tokens if token.is_name or token.kind == "text"]
    return any(_is_wanted(schema, name, wants) for name in names) or any(
        _is_wanted(*pair, wants) for pair in pairwise(names)
    )


def _fills_table(text: str) -> bool:
    """Return whether a statement is CREATE TABLE ... SELECT, of a table that is not temporary."""
    from binlogio.schema.ddl.parser import parse_ddl  # noqa: PLC0415 - seldom needed
    from binlogio.schema.ddl.tree import CreateTable, FromSelect  # noqa: PLC0415

    if _MAY_FILL.match(text) is None:
        return False
    ddl = parse_ddl(text)
    return isinstance(ddl, CreateTable) and isinstance(ddl.body, FromSelect) and not ddl.is_temporary


def _is_wanted(schema: str, table: str, wants: Callable[[str, str], bool]) -> bool:
    """Return whether a table is selected, also if the server ignores the case of names."""
    if schema.lower() in _SYSTEM and wants("", table):
        return False  # every schema is selected
    return wants(schema, table) or wants(schema.lower(), table.lower())
