"""QUERY_EVENTs of a ROW-format log: BEGIN, COMMIT and DDL, with the status variables of a 9.7 server.

Knows which variables stand in which event, in which order. Knows neither caches nor groups.

    BEGIN, COMMIT of a statement cache := flags2 sql_mode catalog charset table_map_for_update? default_collation
    DDL := flags2 sql_mode catalog charset updated_db_names ddl_logged_with_xid? default_collation
           sql_require_primary_key? (tables)  default_table_encryption? (databases)

Source: sql/log_event.cc, Query_log_event::write; fixtures mysql97/rowimage_full and format_row.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from binlogio.constants import HeaderFlag, QueryStatus
from binlogio.events.base import EventHeader
from binlogio.events.query import QueryEvent, SessionCharset, StatusVar
from binlogio.schema.definition import NON_TRANSACTIONAL_ENGINES

# The default sql_mode of 8.0 and later: ONLY_FULL_GROUP_BY, STRICT_TRANS_TABLES, NO_ZERO_IN_DATE, NO_ZERO_DATE,
# ERROR_FOR_DIVISION_BY_ZERO, NO_ENGINE_SUBSTITUTION. sql/system_variables.h.
DEFAULT_SQL_MODE: Final = 1 << 5 | 1 << 21 | 1 << 23 | 1 << 24 | 1 << 26 | 1 << 30
UTF8MB4_0900_AI_CI: Final = 255
CATALOG: Final = "std"

_NAME: Final = r"(?:`((?:[^`]|``)+)`|([^\s.`(;,]+))"
_COMMENT: Final = re.compile(r"\s*/\*[^!].*?\*/", re.DOTALL)
_DATABASE_DDL: Final = re.compile(
    rf"\s*(CREATE|ALTER|DROP)\s+(?:DATABASE|SCHEMA)\s+(?:IF\s+(?:NOT\s+)?EXISTS\s+)?{_NAME}", re.IGNORECASE
)
_TABLE_DDL: Final = re.compile(
    rf"\s*(CREATE|ALTER|DROP)\s+(?:TEMPORARY\s+)?TABLE\s+(?:IF\s+(?:NOT\s+)?EXISTS\s+)?(?:{_NAME}\s*\.\s*)?",
    re.IGNORECASE,
)
_ENGINE: Final = re.compile(r"\bENGINE\s*=?\s*(\w+)", re.IGNORECASE)
_MAINTENANCE: Final = re.compile(r"\s*(?:ANALYZE|OPTIMIZE|REPAIR|FLUSH)\b", re.IGNORECASE)
_NAMES_NO_SCHEMA: Final = re.compile(r"\s*(?:ANALYZE|REPAIR|FLUSH|TRUNCATE)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryContext:
    """What the Query events of a session have in common. `timestamp` is when its statement began, in seconds since 1970, UTC."""

    thread_id: int
    schema: str
    timestamp: int
    server_id: int
    sql_mode: int = DEFAULT_SQL_MODE
    collation: int = UTF8MB4_0900_AI_CI

    def header(self, flags: int = 0) -> EventHeader:
        """The header of an event of this statement."""
        return EventHeader(timestamp=self.timestamp, server_id=self.server_id, flags=flags)


def begin_event(context: QueryContext, updated_tables: int = 0) -> QueryEvent:
    """What a cache begins with. `updated_tables` has bit i set where an UPDATE changes the i-th table of its statement."""
    return _boundary(context, b"BEGIN", updated_tables)


def commit_event(context: QueryContext, updated_tables: int = 0) -> QueryEvent:
    """What the statement cache ends with."""
    return _boundary(context, b"COMMIT", updated_tables)


def ddl_event(context: QueryContext, sql: bytes, xid: int, schemas: tuple[str, ...] | None = None) -> QueryEvent:
    """A statement that is logged as its text. `schemas` are those that it changes; None looks for one in the text."""
    text = _COMMENT.sub("", sql.decode("utf-8", "replace"))
    database, table = _DATABASE_DDL.match(text), _TABLE_DDL.match(text)
    schema = _name(database, 2) if database is not None else context.schema
    more = []
    updated = schemas if schemas is not None else _updated_schemas(text, schema, table)
    if updated:
        more.append(StatusVar(QueryStatus.UPDATED_DB_NAMES, updated))
    if _is_atomic(text, is_table=table is not None):
        more.append(StatusVar(QueryStatus.DDL_LOGGED_WITH_XID, xid))
    more.append(StatusVar(QueryStatus.DEFAULT_COLLATION_FOR_UTF8MB4, UTF8MB4_0900_AI_CI))
    if table is not None and table[1].upper() != "DROP":
        more.append(StatusVar(QueryStatus.SQL_REQUIRE_PRIMARY_KEY, 0))
    if database is not None and database[1].upper() == "CREATE":
        more.append(StatusVar(QueryStatus.DEFAULT_TABLE_ENCRYPTION, 0))
    return _query(context, sql, schema, tuple(more), HeaderFlag.SUPPRESS_USE if database is not None else 0)


def _boundary(context: QueryContext, sql: bytes, updated_tables: int) -> QueryEvent:
    more = [StatusVar(QueryStatus.TABLE_MAP_FOR_UPDATE, updated_tables)] if updated_tables else []
    more.append(StatusVar(QueryStatus.DEFAULT_COLLATION_FOR_UTF8MB4, UTF8MB4_0900_AI_CI))
    return _query(context, sql, context.schema, tuple(more), HeaderFlag.SUPPRESS_USE)


def _query(context: QueryContext, sql: bytes, schema: str, more: tuple[StatusVar, ...], flags: int) -> QueryEvent:
    charset = SessionCharset(context.collation, context.collation, context.collation)
    session_vars = (
        StatusVar(QueryStatus.FLAGS2, 0),
        StatusVar(QueryStatus.SQL_MODE, context.sql_mode),
        StatusVar(QueryStatus.CATALOG_NZ, CATALOG),
        StatusVar(QueryStatus.CHARSET, charset),
    )
    return QueryEvent(
        thread_id=context.thread_id,
        exec_time=0,
        error_code=0,
        status_vars=(*session_vars, *more),
        schema=schema,
        sql=sql,
        header=context.header(flags),
    )


def _name(match: re.Match[str], group: int) -> str:
    """The identifier that `_NAME` found, in quotes or without."""
    return match[group].replace("``", "`") if match[group] is not None else match[group + 1] or ""


def _updated_schemas(text: str, schema: str, table: re.Match[str] | None) -> tuple[str, ...]:
    """The schema before the table's name, or the session's; none for the statements that name none."""
    named = _name(table, 2) if table is not None else ""
    found = named or ("" if _NAMES_NO_SCHEMA.match(text) else schema)
    return (found,) if found else ()


def _is_atomic(text: str, *, is_table: bool) -> bool:
    """Whether the server logs the statement with the id of its transaction: not for tables of engines without any."""
    engine = _ENGINE.search(text) if is_table else None
    return not _MAINTENANCE.match(text) and (engine is None or engine[1].upper() not in NON_TRANSACTIONAL_ENGINES)
