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
from contextlib import suppress
from functools import lru_cache
from itertools import chain, count, pairwise, repeat
from typing import TYPE_CHECKING, Final

from binlogio.constants import HeaderFlag, QueryStatus
from binlogio.errors import UnsupportedFeature
from binlogio.events.query import Invoker, MariadbAlterFlags, StatusVar
from binlogio.schema.collations import BINARY, charset_of_collation
from binlogio.schema.ddl.server_defaults import NEWEST_MARIADB, NEWEST_MYSQL
from binlogio.schema.definition import NON_TRANSACTIONAL_ENGINES
from binlogio.schema.identifiers import backticked, table_name
from binlogio.schema.statement_scope import leading_words, schema_place
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

_OBJECTS: Final = frozenset(("TABLE", "VIEW", "TRIGGER", "PROCEDURE", "FUNCTION", "EVENT", "INDEX"))
_LOCAL_VERBS: Final = frozenset(("ANALYZE", "OPTIMIZE", "REPAIR", "FLUSH"))
_VERBS: Final = frozenset(("CREATE", "ALTER", "DROP", "RENAME", "OPTIMIZE"))
_ROUTINES: Final = ("FUNCTION", "PROCEDURE")
_MARIADB_ATOMIC: Final = frozenset(("TABLE", "SEQUENCE", "VIEW", "TRIGGER", "INDEX"))
SYSTEM_SCHEMA: Final = "mysql"


class DdlText:
    """A statement as its server reads it, up to the first token that cannot be read.

    `verb` is its first word, `kind` the kind of its object (`Words.object_kind`), empty where there is none.
    """

    def __init__(self, sql: bytes, sql_mode: int = 0, *, is_mariadb: bool = False) -> None:
        server = NEWEST_MARIADB if is_mariadb else NEWEST_MYSQL
        words = self._words = leading_words(sql.decode("utf-8", "replace"), server, sql_mode)
        self._is_mariadb = is_mariadb
        self.verb, self.kind, is_local = words.next.upper, "", ""
        with suppress(UnsupportedFeature):
            words.take()
            is_local = words.accept_any("LOCAL", "NO_WRITE_TO_BINLOG") if self.verb in _LOCAL_VERBS else ""
            self.kind = words.object_kind() if self.verb in _VERBS else ""
        self._head = [token.upper for token in words.tokens[1 : words.at]]
        flushed = [token.upper for token in words.tokens[1:]] if self.verb == "FLUSH" else []
        is_lock = flushed[-3:] == ["WITH", "READ", "LOCK"] or flushed[-2:] == ["FOR", "EXPORT"]
        self.is_logged = not (is_local or "LOGS" in flushed[:2] or is_lock or self.kind == "SERVER")
        """False with LOCAL or NO_WRITE_TO_BINLOG, and where it concerns this server alone."""
        self.is_temporary = "TEMPORARY" in self._head
        self.has_if_exists = self._head[-2:] == ["IF", "EXISTS"]
        self.is_barrier = self.kind == "DATABASE" or self.verb in ("ANALYZE", "OPTIMIZE", "REPAIR")
        """True if a replica must not apply later groups in parallel with it."""

    @property
    def engines(self) -> Iterator[str]:
        """The storage engines that its options name, in capitals."""
        words = self._words.copy()
        with suppress(UnsupportedFeature):
            while not (words.ended or words.sees("SELECT")):
                if words.accept("ENGINE"):
                    words.accept("=")
                    yield words.next.text.upper()
                else:
                    words.skip_one()

    @property
    def names_invoker(self) -> bool:
        """True if the server logs the account of the session: it is the definer, or grants. Measured: 9.7.4, 11.8.6."""
        if self.verb != "CREATE" or (self._is_mariadb and self.kind == "ROLE"):
            return self.verb in ("GRANT", "REVOKE", "CREATE") or (self.verb, self.kind) == ("ALTER", "EVENT")
        if self.kind in _ROUTINES and not self._is_mariadb:
            return "AGGREGATE" not in self._head
        others = ("DEFINER", "=") in pairwise(self._head) and "CURRENT_USER" not in self._head
        return self.kind in (*_ROUTINES, "VIEW", "TRIGGER", "EVENT") and not others

    @property
    def is_atomic(self) -> bool:
        """True if the server logs the statement with its transaction id (atomic DDL)."""
        if not self._is_mariadb:
            is_engine = self.kind == "TABLE" and not NON_TRANSACTIONAL_ENGINES.isdisjoint(self.engines)
            return self.verb not in _LOCAL_VERBS and not is_engine
        if self.verb == "DROP" and (self.is_temporary or self.kind == "DATABASE"):
            return not self.is_temporary
        return self.verb in ("CREATE", "ALTER", "DROP", "RENAME") and self.kind in _MARIADB_ATOMIC

    def database(self, schema: str) -> str:
        """Return the schema of CREATE, ALTER or DROP DATABASE; for other statements `schema`, that of the session."""
        place = schema_place(self._words.copy()) if self.kind == "DATABASE" else None
        return schema if place is None else place.text

    def updated_schemas(self, schema: str) -> tuple[str, ...] | None:
        """Return the schemas of the objects that it creates, changes or drops; `schema` is that of the session.

        The result is empty for statements without updated_db_names, and None for too many schemas.
        """
        if self.verb in ("GRANT", "REVOKE") or self.kind in ("USER", "ROLE"):
            return updated_schemas((*(one or schema for one in self._granted()), SYSTEM_SCHEMA))
        is_altered = self.verb == "ALTER" and self.kind in _ROUTINES
        if self.verb in ("ANALYZE", "REPAIR", "FLUSH", "TRUNCATE") or is_altered or self.kind == "REFERENCE":
            return ()
        try:
            names = list(self._schemas())
        except UnsupportedFeature:
            names = [""]
        schema = self.database(schema)
        return updated_schemas(name for name in (one or schema for one in names) if name)

    def _granted(self) -> Iterator[str]:
        """Yield the schema of GRANT and REVOKE ... ON object, empty for that of the session."""
        words = self._words.copy()
        with suppress(UnsupportedFeature):
            is_proxy = words.sees("PROXY")
            while not words.accept("ON"):
                words.skip_one()
            words.accept_any("TABLE", *_ROUTINES)
            name = words.take()
            has_schema = words.sees(".")
            if not is_proxy and (name.is_name or not has_schema):
                yield name.text if has_schema else ""

    def _schemas(self) -> Iterator[str]:
        """Yield the schemas of the object names, empty for a name without a schema and for other objects.

        Raises:
            UnsupportedFeature: a name is missing.
        """
        words = self._words.copy()
        if self.kind not in _OBJECTS:
            yield ""
            return
        if self.kind == "INDEX":
            while not words.accept("ON"):
                words.skip_one()
        first = words.table_name()[0] or ""
        if self.kind == "TABLE" and self.verb in ("CREATE", "ALTER"):
            clause = words.accept_any("EXCHANGE", "TRUNCATE", "ANALYZE") or words.accept("(")
            if words.sees("LIKE") or (clause and words.sees("PARTITION")):
                return
        yield first
        if self.verb == "RENAME" or (self.verb in ("DROP", "OPTIMIZE") and self.kind in ("TABLE", "VIEW")):
            while words.accept_any(",", "TO"):
                yield words.table_name()[0] or ""
        if self.verb == "ALTER" and self.kind in ("TABLE", "EVENT"):
            for name in words.also_altered():
                yield name[0] or ""


@lru_cache(maxsize=1)
def read_ddl(sql: bytes, sql_mode: int, *, is_mariadb: bool) -> DdlText:
    """Return `DdlText` of a statement; the last one is kept."""
    return DdlText(sql, sql_mode, is_mariadb=is_mariadb)


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
    ddl = read_ddl(sql, context.sql_mode, is_mariadb=context.server_format.is_mariadb)
    query, schema = context.server_format.query, ddl.database(context.schema)
    more = [*statement_vars(context)]
    if invoker is not None and ddl.names_invoker:
        more.append(StatusVar(QueryStatus.INVOKER, invoker))
    if context.updated_schemas == () and query.has_updated_schemas:
        updated = schemas if schemas is not None else ddl.updated_schemas(schema)
        if updated != ():
            more.append(StatusVar(QueryStatus.UPDATED_DB_NAMES, updated))
    if is_atomic is None or (is_atomic and context.server_format.is_mariadb):
        is_atomic = ddl.is_atomic
    if is_atomic and query.ddl_xid is not None:
        more.append(StatusVar(query.ddl_xid, xid))
    if alter is not None:
        more.append(StatusVar(QueryStatus.MARIADB_GTID_FLAGS3, alter))
    more += collation_vars(context)
    if query.has_requirements:
        if ddl.kind == "TABLE" and ddl.verb in ("CREATE", "ALTER"):
            more.append(StatusVar(QueryStatus.SQL_REQUIRE_PRIMARY_KEY, 0))
        if (ddl.verb, ddl.kind) == ("CREATE", "DATABASE"):
            more.append(StatusVar(QueryStatus.DEFAULT_TABLE_ENCRYPTION, 0))
    flags = HeaderFlag.SUPPRESS_USE if ddl.kind == "DATABASE" else 0
    return text_event(context, sql, schema, tuple(more), flags | flags_of(context))


GENERATED: Final = " /* generated by server */"
_BEFORE_MEMBERS: Final = re.compile(r"^[^']+")
_DIGITS: Final = re.compile(r"^[^(]*")
# Default collations of a database; a server writes the collation of a table if its statement does.
_USUAL_COLLATIONS: Final = ("utf8mb4_0900_ai_ci", "utf8mb4_general_ci")


def drop_tables(sql: DdlText, tables: Iterable[tuple[str, str]], schema: str, *, temporary: bool = False) -> bytes:
    """Return the DROP TABLE of some of the tables, as (schema, name), that the client's statement `sql` drops."""
    names = ",".join(backticked(name) if of == schema else table_name(of, name) for of, name in tables)
    exists = " IF EXISTS" if sql.has_if_exists else ""
    kind = " TEMPORARY" if temporary else ""
    return text_bytes(f"DROP{kind} TABLE{exists} {names}{GENERATED}")


def drop_at_disconnect(names: Iterable[str]) -> bytes:
    """Return the statement that drops the temporary tables of a disconnected session."""
    return text_bytes("DROP /*!40005 TEMPORARY */ TABLE IF EXISTS " + ",".join(map(backticked, names)))


def create_table(table: TableDefinition, schema: str, *, starts_transaction: bool, names_engine: bool = False) -> bytes:
    """Return the CREATE TABLE of a table created by CREATE TABLE ... SELECT, without defaults and expressions.

    `schema` is the session's. A statement that starts a transaction has an engine only with `names_engine`, if the
    client's statement has one.
    """
    lines = [f"  {_column(column, table)}" for column in table.columns]
    if table.primary_key:
        lines.append(f"  PRIMARY KEY ({_parts(table.primary_key, table.primary_key_prefixes)})")
    names: list[str] = []
    for key in table.unique_keys:
        names.append(_key_name(key.columns[0], names))
        lines.append(f"  UNIQUE KEY {backticked(names[-1])} ({_parts(key.columns, key.prefixes)})")
    end = "START TRANSACTION" if starts_transaction else ""
    if not starts_transaction or names_engine:
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
