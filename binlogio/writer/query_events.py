"""Query events: statements, BEGIN and other boundaries, with the status variables of each server version.

The status variables of DDL are in `session.ddl`.

    session := flags2 sql_mode catalog auto_increment? charset
    used := time_zone? table_map_for_update? updated_db_names? microseconds?
    BEGIN, COMMIT of a statement := session used default_collation
    statement := session used default_collation unnamed_21?

MariaDB writes neither updated_db_names nor anything after `used`, and compresses long texts with log_bin_compress.
`unnamed_21` is written for INSERT, REPLACE, UPDATE and DELETE, but not for INSERT ... SELECT.
Source: sql/log_event.cc, Query_log_event::write; fixtures mysql97/rowimage_full, format_row and format_statement;
recordings of 9.7.4.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

from binlogio.constants import EventType, HeaderFlag, QueryStatus
from binlogio.errors import BinlogFormatError
from binlogio.events.base import EventHeader
from binlogio.events.load import ExecuteLoadQueryEvent
from binlogio.events.query import AutoIncrement, QueryEvent, SessionCharset, StatusVar
from binlogio.schema.ddl.server_defaults import NEWEST_MYSQL
from binlogio.schema.ddl.tokens import Words, iter_tokens
from binlogio.writer.server_format import DEFAULT_SERVER_FORMAT, DEFAULT_SQL_MODE, UTF8MB4_0900_AI_CI, ServerFormat

CATALOG: Final = "std"
MAX_UPDATED_SCHEMAS: Final = 16

_SPACE: Final = r"(?:\s|/\*(?!M?!)(?:[^*]|\*(?!/))*\*/|--\s[^\n]*\n|#[^\n]*\n)*"
_NAME: Final = r"(?:`(?:[^`]|``)+`|[^\s.`(;,/*#-]+)"
_ROW_CHANGING: Final = re.compile(
    rf"{_SPACE}(?:(?:REPLACE|UPDATE|DELETE)\b|INSERT\b{_SPACE}"
    rf"(?:(?:LOW_PRIORITY|DELAYED|HIGH_PRIORITY|IGNORE|INTO)\b{_SPACE})*{_NAME}(?:{_SPACE}\.{_SPACE}{_NAME})?{_SPACE}"
    rf"(?:PARTITION{_SPACE}\([^)]*\){_SPACE})?(?:\([^)]*\){_SPACE})?(?:VALUES?|SET)\b)".encode(),
    re.IGNORECASE,
)
_LOAD_HEAD: Final = 16  # the most words of LOAD DATA up to INTO
_DEFAULT_COLLATION_VAR: Final = StatusVar(QueryStatus.DEFAULT_COLLATION_FOR_UTF8MB4, UTF8MB4_0900_AI_CI)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryContext:
    """Common fields of the Query events of a statement.

    Args:
        timestamp: start of the statement, in seconds since 1970, UTC.
        auto_increment: auto_increment_increment and auto_increment_offset.
        updated_tables: bit i is set if an UPDATE changes the i-th table of its statement.
        updated_schemas: databases for the replica's parallel scheduler; empty in row format, None to apply the
            statement without parallelism.
        is_thread_specific: the statement uses temporary tables or CONNECTION_ID().
        time_zone: the time zone if the statement uses it, else empty.
        microseconds: fraction of the start time, if the statement uses it.
        compressed_size: least size in bytes of a text that the server compresses; None for no compression.
        server_format: format of the server version.
    """

    thread_id: int
    schema: str
    timestamp: int
    server_id: int
    sql_mode: int = DEFAULT_SQL_MODE
    collation: int = UTF8MB4_0900_AI_CI
    flags2: int = 0
    auto_increment: tuple[int, int] = (1, 1)
    updated_tables: int = 0
    updated_schemas: tuple[str, ...] | None = ()
    is_thread_specific: bool = False
    time_zone: str = ""
    microseconds: int | None = None
    compressed_size: int | None = None
    server_format: ServerFormat = DEFAULT_SERVER_FORMAT

    @property
    def key(self) -> tuple[object, ...]:
        """All fields except the time."""
        return (
            self.thread_id,
            self.server_id,
            self.schema,
            self.sql_mode,
            self.collation,
            self.flags2,
            self.auto_increment,
            self.updated_tables,
            self.updated_schemas,
            self.is_thread_specific,
            self.time_zone,
            self.microseconds,
        )

    def header(self, flags: int = 0) -> EventHeader:
        """Return the header of an event of this statement."""
        return EventHeader(timestamp=self.timestamp, server_id=self.server_id, flags=flags)


def text_bytes(sql: str) -> bytes:
    """Return a statement's text as it is written to the log.

    Bytes that were not UTF-8 are restored (surrogateescape).

    Raises:
        BinlogFormatError: UTF-8 cannot represent it.
    """
    try:
        return sql.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as exc:
        raise BinlogFormatError(
            f"the SQL text has an unpaired surrogate at character {exc.start + 1}",
            field="sql",
            found=ascii(sql)[:80],
            hint="give the text as bytes",
        ) from exc


def updated_schemas(names: Iterable[str]) -> tuple[str, ...] | None:
    """Return `updated_db_names` for the databases of the tables read or written; None if there are too many.

    Source: sql/sql_class.cc, add_to_binlog_accessed_dbs.
    """
    found = sorted(set(names), key=text_bytes, reverse=True)
    return None if len(found) > MAX_UPDATED_SCHEMAS else tuple(found)


def begin_event(context: QueryContext) -> QueryEvent:
    """Return the BEGIN at the start of a cache."""
    return boundary_event(context, b"BEGIN")


def commit_event(context: QueryContext) -> QueryEvent:
    """Return the COMMIT at the end of the statement cache."""
    return boundary_event(context, b"COMMIT")


def boundary_event(context: QueryContext, sql: bytes, *, xid: int | None = None) -> QueryEvent:
    """Return BEGIN, COMMIT, ROLLBACK, SAVEPOINT or the like, with the flag that suppresses USE.

    `xid` is as in `table_ddl_event`.
    """
    more = (*statement_vars(context), *collation_vars(context), *_xid_vars(xid))
    flags = flags_of(context) if context.server_format.query.marks_commits or sql != b"COMMIT" else 0
    return query_event(context, sql, context.schema, more, flags | HeaderFlag.SUPPRESS_USE)


def statement_event(context: QueryContext, sql: bytes, *, error_code: int = 0) -> QueryEvent:
    """Return the Query event of a statement."""
    more = [*statement_vars(context), *collation_vars(context)]
    if context.server_format.query.has_cascades and _changes_rows_itself(sql):
        more.append(StatusVar(QueryStatus.UNNAMED_21, 0))
    return text_event(context, sql, context.schema, tuple(more), flags_of(context), error_code)


def load_event(
    query: QueryEvent, file_id: int, duplicates: int, database_collation: int | None = None
) -> ExecuteLoadQueryEvent:
    """Return LOAD DATA of a file in the log: `query`, and the part of its text that a replica replaces.

    Raises:
        UnsupportedFeature: its text is no LOAD DATA.
    """
    sql_mode = query.status(QueryStatus.SQL_MODE)
    tokens = iter_tokens(query.sql.decode("latin-1"), NEWEST_MYSQL, sql_mode)  # the places are those of the bytes
    words = Words(list(islice(tokens, _LOAD_HEAD)))
    words.expect("LOAD")
    start = words.take().end  # of DATA or XML
    while not words.accept("INTO"):
        words.take()
    variables = list(query.status_vars)
    if database_collation is not None:
        at = [variable.code for variable in variables].index(QueryStatus.CHARSET) + 1
        variables.insert(at, StatusVar(QueryStatus.CHARSET_DATABASE, database_collation))
    return ExecuteLoadQueryEvent(
        thread_id=query.thread_id,
        exec_time=query.exec_time,
        error_code=query.error_code,
        file_id=file_id,
        file_name_start=start,
        file_name_end=words.tokens[words.at - 1].end,
        duplicates=duplicates,
        status_vars=tuple(variables),
        schema=query.schema,
        sql=query.sql,
        header=replace(query.header, type_code=0),
    )


def table_ddl_event(
    context: QueryContext, sql: bytes, *, requires_primary_key: bool = True, xid: int | None = None
) -> QueryEvent:
    """Return CREATE or DROP of a table that is logged as a statement in a transaction, or is thread-specific.

    `xid` is MariaDB's transaction id of atomic DDL.
    """
    more = [*statement_vars(context), *collation_vars(context), *_xid_vars(xid)]
    if requires_primary_key and context.server_format.query.has_requirements:
        more.append(StatusVar(QueryStatus.SQL_REQUIRE_PRIMARY_KEY, 0))
    return text_event(context, sql, context.schema, tuple(more), flags_of(context))


def flags_of(context: QueryContext) -> int:
    """Return the header flags of a statement's events."""
    return int(HeaderFlag.THREAD_SPECIFIC) if context.is_thread_specific else 0


def statement_vars(context: QueryContext) -> tuple[StatusVar, ...]:
    """Return the status variables of a statement that its BEGIN also has."""
    found = []
    if context.time_zone:
        found.append(StatusVar(QueryStatus.TIME_ZONE, context.time_zone))
    if context.updated_tables:
        found.append(StatusVar(QueryStatus.TABLE_MAP_FOR_UPDATE, context.updated_tables))
    if context.updated_schemas != () and context.server_format.query.has_updated_schemas:
        found.append(StatusVar(QueryStatus.UPDATED_DB_NAMES, context.updated_schemas))
    microseconds = context.server_format.query.microseconds
    if context.microseconds is not None and microseconds is not None:
        found.append(StatusVar(microseconds, context.microseconds))
    return tuple(found)


def _xid_vars(xid: int | None) -> tuple[StatusVar, ...]:
    return () if xid is None else (StatusVar(QueryStatus.MARIADB_XID, xid),)


def collation_vars(context: QueryContext) -> tuple[StatusVar, ...]:
    """Return the status variables that follow `statement_vars` in all events of 8.0 and later."""
    return (_DEFAULT_COLLATION_VAR,) if context.server_format.query.has_requirements else ()


def _changes_rows_itself(sql: bytes) -> bool:
    return _ROW_CHANGING.match(sql) is not None


def text_event(
    context: QueryContext, sql: bytes, schema: str, more: tuple[StatusVar, ...], flags: int, error_code: int = 0
) -> QueryEvent:
    """Return the event of `query_event` for a client's text, compressed if it is long enough."""
    event = query_event(context, sql, schema, more, flags, error_code)
    if context.compressed_size is None or len(sql) < context.compressed_size:
        return event
    return replace(event, header=replace(event.header, type_code=int(EventType.QUERY_COMPRESSED_EVENT)))


def query_event(
    context: QueryContext, sql: bytes, schema: str, more: tuple[StatusVar, ...], flags: int, error_code: int = 0
) -> QueryEvent:
    """Return a Query event with the session's variables, followed by `more`."""
    charset = SessionCharset(context.collation, context.collation, context.collation)
    numbers = AutoIncrement(*context.auto_increment)
    session_vars = (
        StatusVar(QueryStatus.FLAGS2, context.flags2 | context.server_format.query.flags2),
        StatusVar(QueryStatus.SQL_MODE, context.sql_mode),
        StatusVar(QueryStatus.CATALOG_NZ, CATALOG),
        *(() if numbers == AutoIncrement(1, 1) else (StatusVar(QueryStatus.AUTO_INCREMENT, numbers),)),
        StatusVar(QueryStatus.CHARSET, charset),
    )
    return QueryEvent(
        thread_id=context.thread_id,
        exec_time=0,
        error_code=error_code,
        status_vars=(*session_vars, *more),
        schema=schema,
        sql=sql,
        header=context.header(flags),
    )
