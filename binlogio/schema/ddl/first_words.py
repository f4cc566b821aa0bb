"""Statements that may be DDL, by their first words: a fast test for each statement of a log.

The kernel asks the same (`_kernel/scan/event_types.pxd`, `may_define`).
"""

from __future__ import annotations

from typing import Final

from binlogio.events.query import POST_HEADER, sizes_before_sql

_FIRST_WORDS: Final = (b"CREATE", b"ALTER", b"RENAME", b"DROP", b"SET")  # SET STATEMENT ... FOR, in MariaDB
_LOOKED_AT: Final = 64  # bytes


def may_define(sql: bytes) -> bool:
    """Return whether a statement begins like one that could change a definition.

    Judged by its first word, or by a comment before it.
    """
    begin = sql[:_LOOKED_AT].lstrip()
    return begin.startswith((b"/*", b"--", b"#")) or begin[:6].upper().startswith(_FIRST_WORDS)


def may_be_ddl(sql: bytes) -> bool:
    """Return whether a statement begins like one that could change a definition, or empty a table."""
    return may_define(sql) or sql[:_LOOKED_AT].lstrip()[:8].upper() == b"TRUNCATE"


def body_may_define(body: bytes) -> bool:
    """`may_define` of the statement in the body of a plain QUERY_EVENT, which is not parsed for that."""
    if len(body) < POST_HEADER:
        return False
    begin = sum(sizes_before_sql(body))
    return may_define(body[begin : begin + _LOOKED_AT])
