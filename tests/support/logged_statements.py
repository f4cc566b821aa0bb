"""A table, its first rows and transactions as statements in the log as text, and the rows that SQLite has then."""

from __future__ import annotations

from typing import Any, Final

from binlogio.constants import EventType
from binlogio.events.statement_context import UserVarEvent
from logs import header, query

CREATE: Final = (
    "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(20), n DOUBLE, x DECIMAL(8,2) DEFAULT "
    "1.5, e ENUM('a','b'), b VARBINARY(20),"
    " d DATE, u BIGINT UNSIGNED)"
)
START: Final = (
    "INSERT INTO t (id, v, n, e, d, u) VALUES (1, 'one', 1.5, 'a', '2024-01-31', 5), (2, 'Two', NULL, 'b', "
    "NULL, 18446744073709551615)"
)
ONE: Final = (1, "one", 1.5, "1.50", "a", None, "2024-01-31", 5)
TWO: Final = (2, "Two", None, "1.50", "b", None, None, "18446744073709551615")


def transaction(*events: Any) -> list[Any]:
    return [query("BEGIN"), *(query(event) if isinstance(event, str) else event for event in events), query("COMMIT")]


def variable(name: str, kind: int | None, value: bytes | None, collation: int | None = 255) -> UserVarEvent:
    is_null = value is None
    return UserVarEvent(
        name, int(is_null), kind, None if is_null else collation, value, b"", header(EventType.USER_VAR_EVENT)
    )
