"""DDL: Query events of statements that are logged as text in every format, and statements that the server generates.

`ddl_event` builds the event of a client's statement (DDL, accounts, ANALYZE and the like) with the status variables
that follow from its text. `table_statements` decides in which group it is, and what is committed before it. The
generated statements are DROP TABLE for each kind of table, and the CREATE TABLE before the rows of CREATE TABLE ...
SELECT.

    DDL := session invoker? (GRANT, REVOKE, CREATE USER)  updated_db_names?  ddl_logged_with_xid?  default_collation
           sql_require_primary_key? (tables)  default_table_encryption? (databases)

MariaDB has only session, invoker and its own xid, which depends only on the statement.

Source: sql/log_event.cc, Query_log_event::Query_log_event and write; sql/sql_table.cc, mysql_rm_table and
append_table_ident; sql/sql_base.cc, close_temporary_tables; sql/sql_show.cc, store_create_info; fixtures
mysql97/ddl_mix; recordings of 9.7.4 and MariaDB 10.11.18.
"""

from __future__ import annotations

import re
from itertools import chain, count, islice, repeat
from typing import TYPE_CHECKING, Final

from binlogio.constants import HeaderFlag, QueryStatus
from binlogio.errors import UnsupportedFeature
from binlogio.events.query import Invoker, MariadbAlterFlags, StatusVar
from binlogio.schema.collations import BINARY, charset_of_collation
from binlogio.schema.ddl.server_defaults import NEWEST_MYSQL
from binlogio.schema.ddl.tokens import Words, iter_tokens
from binlogio.schema.definition import NON_TRANSACTIONAL_ENGINES
from binlogio.schema.identifiers import backticked, table_name
from binlogio.writer.query_events import (
    collation_vars,
    flags_of,
    statement_vars,
    text_bytes,
    text_event,
    updated_schemas,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from binlogio.events.query import QueryEvent
    from binlogio.schema import ColumnDefinition, TableDefinition
    from binlogio.writer.query_events import QueryContext

_NAME: Final = r"(?:`((?:[^`]|``)+)`|([^\s.`(;,]+))"
_COMMENT: Final = re.compile(r"\s*/\*[^!].*?\*/", re.DOTALL)
_DATABASE_DDL: Final = re.compile(
    rf"\s*(CREATE|ALTER|DROP)\s+(?:DATABASE|SCHEMA)\s+(?:IF\s+(?:NOT\s+)?EXISTS\s+)?{_NAME}", re.IGNORECASE
)
_TABLE_DDL: Final = re.compile(
    rf"\s*(CREATE|ALTER|DROP)\s+(?:TEMPORARY\s+)?TABLE\s+(?:IF\s+(?:NOT\s+)?EXISTS\s+)?(?:{_NAME}\s*\.\s*)?",
    re.IGNORECASE,
)
_LIKE: Final = re.compile(
    rf"\s*CREATE\s+(?:TEMPORARY\s+)?TABLE\s+(?:IF\s+NOT\s+EXISTS\s+)?(?:{_NAME}\s*\.\s*)?{_NAME}\s*\(?\s*LIKE\b",
    re.IGNORECASE,
)
_ENGINE: Final = re.compile(r"\bENGINE\s*=?\s*(\w+)", re.IGNORECASE)
_SELECT: Final = re.compile(r"\bSELECT\b", re.IGNORECASE)
_MAINTENANCE: Final = re.compile(r"\s*(?:ANALYZE|OPTIMIZE|REPAIR|FLUSH)\b", re.IGNORECASE)
_NAMES_NO_SCHEMA: Final = re.compile(
    r"\s*(?:(?:ANALYZE|REPAIR|FLUSH|TRUNCATE)\b|ALTER\s+(?:PROCEDURE|FUNCTION)\b"
    rf"|ALTER\s+TABLE\s+{_NAME}(?:\s*\.\s*{_NAME})?\s+(?:EXCHANGE|TRUNCATE|ANALYZE)\s+PARTITION\b)",
    re.IGNORECASE,
)
_OBJECTS: Final = frozenset(("TABLE", "TABLES", "VIEW", "TRIGGER", "PROCEDURE", "FUNCTION", "EVENT", "INDEX"))
_HEAD: Final = 32  # most words before the object type; clauses such as DEFINER precede it
_MOST_TOKENS: Final = 1 << 18
_ACCOUNTS: Final = re.compile(r"\s*(?:(?:CREATE|ALTER|DROP|RENAME)\s+(?:USER|ROLE)|GRANT|REVOKE)\b", re.IGNORECASE)
_GRANTS_ON: Final = re.compile(
    rf"\s*(?:GRANT|REVOKE)\b.*?\bON\s+(?:TABLE\s+|FUNCTION\s+|PROCEDURE\s+)?{_NAME}\s*\.", re.IGNORECASE
)
_NAMES_INVOKER: Final = re.compile(
    r"\s*(?:GRANT|REVOKE|CREATE\s+(?:OR\s+REPLACE\s+)?(?:DEFINER\s*=\s*\S+\s+)?(?:FUNCTION|PROCEDURE))\b", re.IGNORECASE
)
_MARIADB_NAMES_INVOKER: Final = re.compile(
    r"\s*(?:GRANT|REVOKE|CREATE\s+(?:OR\s+REPLACE\s+)?(?:ALGORITHM\s*=\s*\w+\s+)?(?:SQL\s+SECURITY\s+\w+\s+)?"
    r"(?:FUNCTION|PROCEDURE|VIEW|TRIGGER|EVENT))\b",
    re.IGNORECASE,
)
_MARIADB_ATOMIC: Final = re.compile(
    r"\s*(?:(?:CREATE|ALTER|DROP)\s.*?\b(?:TABLE|SEQUENCE|VIEW|TRIGGER|INDEX)|DROP\s+(?:DATABASE|SCHEMA)|"
    r"RENAME\s+TABLE)\b",
    re.IGNORECASE | re.DOTALL,
)
_MARIADB_NOT_ATOMIC: Final = re.compile(
    r"\s*(?:CREATE|ALTER|DROP)\s+(?:OR\s+REPLACE\s+)?(?:DEFINER\s*=\s*\S+\s+)?"
    r"(?:USER|ROLE|EVENT|FUNCTION|PROCEDURE|SERVER|PACKAGE)\b|\s*DROP\s+TEMPORARY\b",
    re.IGNORECASE,
)
_NOT_LOGGED: Final = re.compile(
    r"\s*(?:(?:ANALYZE|OPTIMIZE|REPAIR|FLUSH)\s+(?:LOCAL|NO_WRITE_TO_BINLOG)"
    r"|FLUSH\s+(?:\w+\s+)?(?:LOGS|TABLES\s+WITH\s+READ\s+LOCK))\b",
    re.IGNORECASE,
)
SYSTEM_SCHEMA: Final = "mysql"


def is_alter_table(sql: bytes) -> bool:
    """Return whether a statement is ALTER TABLE."""
    table = _TABLE_DDL.match(_text(sql))
    return table is not None and table[1].upper() == "ALTER"


def is_logged_ddl(sql: bytes) -> bool:
    """Return whether a statement is logged: not with LOCAL or NO_WRITE_TO_BINLOG, nor if it concerns this server."""
    return _NOT_LOGGED.match(_text(sql)) is None


def ddl_event(
    context: QueryContext,
    sql: bytes,
    xid: int,
    schemas: tuple[str, ...] | None = None,
    *,
    is_atomic: bool | None = None,
    invoker: Invoker | None = None,
    alter: MariadbAlterFlags | None = None,
) -> QueryEvent:
    """Return the Query event of a statement that is logged as text.

    `schemas` are those that it changes; None finds them in the text. `is_atomic`: it is one transaction; None decides
    by the text. `invoker` is the session's account, `alter` a half of MariaDB's two-phase ALTER TABLE.
    """
    text, query = _text(sql), context.server_format.query
    database, table = _DATABASE_DDL.match(text), _TABLE_DDL.match(text)
    schema = _name(database, 2) if database is not None else context.schema
    more = [*statement_vars(context)]
    is_mariadb = context.server_format.is_mariadb
    names_invoker = _MARIADB_NAMES_INVOKER if is_mariadb else _NAMES_INVOKER
    if invoker is not None and names_invoker.match(text):
        more.append(StatusVar(QueryStatus.INVOKER, invoker))
    if context.updated_schemas == () and query.has_updated_schemas:
        updated = schemas if schemas is not None else _updated_schemas(text, schema, context.sql_mode)
        if updated != ():
            more.append(StatusVar(QueryStatus.UPDATED_DB_NAMES, updated))
    if is_mariadb:
        is_atomic = is_atomic is not False and is_mariadb_atomic(text)
    elif is_atomic is None:
        is_atomic = _is_atomic(text, is_table=table is not None)
    if is_atomic and query.ddl_xid is not None:
        more.append(StatusVar(query.ddl_xid, xid))
    if alter is not None:
        more.append(StatusVar(QueryStatus.MARIADB_GTID_FLAGS3, alter))
    more += collation_vars(context)
    if query.has_requirements:
        if table is not None and table[1].upper() != "DROP":
            more.append(StatusVar(QueryStatus.SQL_REQUIRE_PRIMARY_KEY, 0))
        if database is not None and database[1].upper() == "CREATE":
            more.append(StatusVar(QueryStatus.DEFAULT_TABLE_ENCRYPTION, 0))
    flags = HeaderFlag.SUPPRESS_USE if database is not None else 0
    return text_event(context, sql, schema, tuple(more), flags | flags_of(context))


def is_mariadb_atomic(text: str) -> bool:
    """Return whether MariaDB logs the statement with its transaction id (atomic DDL)."""
    return _MARIADB_NOT_ATOMIC.match(text) is None and _MARIADB_ATOMIC.match(text) is not None


def _text(sql: bytes) -> str:
    return _COMMENT.sub("", sql.decode("utf-8", "replace"))


def _name(match: re.Match[str], group: int) -> str:
    """Return the identifier that `_NAME` matched, quoted or not."""
    return match[group].replace("``", "`") if match[group] is not None else match[group + 1] or ""


def _updated_schemas(text: str, schema: str, sql_mode: int) -> tuple[str, ...] | None:
    """Return the schemas of the objects that a statement creates, changes or drops.

    The result is empty for statements without updated_db_names, and None for too many schemas.
    """
    if _ACCOUNTS.match(text):
        grants = _GRANTS_ON.match(text)
        named = _name(grants, 1) if grants is not None else "*"
        return (SYSTEM_SCHEMA,) if named == "*" else (named, SYSTEM_SCHEMA)
    if _LIKE.match(text):
        return ()
    if _NAMES_NO_SCHEMA.match(text):
        return ()
    try:
        names = list(_object_schemas(Words(list(islice(iter_tokens(text, NEWEST_MYSQL, sql_mode), _MOST_TOKENS)))))
    except UnsupportedFeature:
        names = []
    return updated_schemas(name for name in (one or schema for one in names or [schema]) if name)


def _object_schemas(words: Words) -> Iterator[str]:
    """Yield the schemas of the object names in a statement, empty for a name without a schema.

    Yields nothing for other kinds of objects.

    Raises:
        UnsupportedFeature: a name is missing.
    """
    verb = words.take().upper
    while (kind := words.next.upper) not in _OBJECTS:
        if words.ended or words.at > _HEAD:
            return
        words.skip_one()
    words.take()
    if kind == "INDEX":
        while not words.accept("ON"):
            words.skip_one()
    words.accept("IF", "NOT", "EXISTS")
    words.accept("IF", "EXISTS")
    yield words.table_name()[0] or ""
    if verb == "RENAME" or (verb in ("DROP", "OPTIMIZE") and kind in ("TABLE", "TABLES", "VIEW")):
        while words.accept_any(",", "TO"):
            yield words.table_name()[0] or ""
    if verb == "ALTER" and kind in ("TABLE", "EVENT"):
        while not words.ended:
            if words.accept("RENAME") and words.next.upper not in ("COLUMN", "INDEX", "KEY"):
                words.accept_any("TO", "AS", "=")
                yield words.table_name()[0] or ""
            elif not words.ended:
                words.skip_one()


def _is_atomic(text: str, *, is_table: bool) -> bool:
    """Return whether the server logs the statement with a transaction id: not for non-transactional engines."""
    engine = _ENGINE.search(text) if is_table else None
    return not _MAINTENANCE.match(text) and (engine is None or engine[1].upper() not in NON_TRANSACTIONAL_ENGINES)


GENERATED: Final = " /* generated by server */"
_IF_EXISTS: Final = re.compile(rb"\s*DROP\s+(?:TEMPORARY\s+)?TABLES?\s+IF\s+EXISTS\b", re.IGNORECASE)
_DROP_TABLE: Final = re.compile(rb"\s*DROP\s+TABLES?\b", re.IGNORECASE)

_BEFORE_MEMBERS: Final = re.compile(r"^[^']+")
_DIGITS: Final = re.compile(r"^[^(]*")
# Default collations of a database; a server writes the collation of a table if its statement does.
_USUAL_COLLATIONS: Final = ("utf8mb4_0900_ai_ci", "utf8mb4_general_ci")


def is_drop_table(sql: bytes) -> bool:
    """Return whether a statement is DROP TABLE, but not DROP TEMPORARY TABLE."""
    return _DROP_TABLE.match(sql) is not None


def drop_tables(sql: bytes, tables: Iterable[tuple[str, str]], schema: str, *, temporary: bool = False) -> bytes:
    """Return the DROP TABLE of some of the tables, as (schema, name), that the client's statement `sql` drops."""
    names = ",".join(backticked(name) if of == schema else table_name(of, name) for of, name in tables)
    exists = " IF EXISTS" if _IF_EXISTS.match(sql) else ""
    kind = " TEMPORARY" if temporary else ""
    return text_bytes(f"DROP{kind} TABLE{exists} {names}{GENERATED}")


def drop_at_disconnect(names: Iterable[str]) -> bytes:
    """Return the statement that drops the temporary tables of a disconnected session."""
    return text_bytes("DROP /*!40005 TEMPORARY */ TABLE IF EXISTS " + ",".join(map(backticked, names)))


def create_table(table: TableDefinition, schema: str, *, starts_transaction: bool, sql: bytes = b"") -> bytes:
    """Return the CREATE TABLE of a table created by CREATE TABLE ... SELECT, without defaults and expressions.

    `schema` is the session's, `sql` the client's statement: a statement that starts a transaction has the engine of
    `sql`.
    """
    lines = [f"  {_column(column, table)}" for column in table.columns]
    if table.primary_key:
        lines.append(f"  PRIMARY KEY ({_parts(table.primary_key, table.primary_key_prefixes)})")
    names: list[str] = []
    for key in table.unique_keys:
        names.append(_key_name(key.columns[0], names))
        lines.append(f"  UNIQUE KEY {backticked(names[-1])} ({_parts(key.columns, key.prefixes)})")
    end = "START TRANSACTION" if starts_transaction else ""
    if not starts_transaction or _ENGINE.search(_SELECT.split(_text(sql), maxsplit=1)[0]):
        end = f"{end} ENGINE={table.engine}".lstrip()
    if table.collation not in _USUAL_COLLATIONS:
        end += f" DEFAULT CHARSET={charset_of_collation(table.collation)} COLLATE={table.collation}"
    body = ",\n".join(lines)
    name = backticked(table.name) if table.schema == schema else table_name(table.schema, table.name)
    return text_bytes(f"CREATE TABLE {name} (\n{body}\n) {end}")


def _column(column: ColumnDefinition, table: TableDefinition) -> str:
    words = [backticked(column.name), _BEFORE_MEMBERS.sub(lambda found: found[0].lower(), column.type)]
    collation = table.collation_of(column)
    if collation not in (BINARY, table.collation):
        words.append(f"CHARACTER SET {charset_of_collation(collation)} COLLATE {collation}")
    if not column.nullable:
        words.append("NOT NULL")
    elif column.sql_type.name == "timestamp":
        words.append("NULL")
    now = f"CURRENT_TIMESTAMP{_DIGITS.sub('', column.type)}"
    if column.default_now:
        words.append(f"DEFAULT {now}")
    elif column.nullable:
        words.append("DEFAULT NULL")
    if column.on_update_now:
        words.append(f"ON UPDATE {now}")
    if column.auto_increment:
        words.append("AUTO_INCREMENT")
    if not column.visible:
        words.append("/*!80023 INVISIBLE */")
    return " ".join(words)


def _parts(names: Iterable[str], prefixes: tuple[int, ...]) -> str:
    """Return the columns of a key, with the lengths of their prefixes."""
    lengths = chain(prefixes, repeat(0))
    return ",".join(
        backticked(name) + (f"({length})" if length else "") for name, length in zip(names, lengths, strict=False)
    )


def _key_name(column: str, taken: list[str]) -> str:
    """Return the name of an unnamed key: that of its first column, with the first free number if that is taken."""
    names = chain((column,), (f"{column}_{number}" for number in count(2)))
    return next(name for name in names if name not in taken)
