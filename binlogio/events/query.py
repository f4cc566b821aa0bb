"""QUERY_EVENT: a statement as text, with the session variables that it depends on.

Contains the frame, all status variables, and MariaDB's compressed form.

    query_event := thread_id: u32  exec_time: u32 (s)  schema_size: u8  error_code: u16
                   status_vars_size: u16                              -- binlog version 4: post-header of 13 bytes
                   status_vars: status_var*  schema: u8[schema_size]  0x00  sql: u8[*]
    status_var  := code: u8  value                                    -- the code determines the layout of the value

Source: libs/mysql/binlog/event/statement_events.h and .cpp, Query_event; MariaDB: sql/log_event.cc, Query_log_event.
"""

from __future__ import annotations

from typing import Any, Final

from construct import (
    Bytes,
    Computed,
    Const,
    Construct,
    Container,
    ExprAdapter,
    GreedyBytes,
    IfThenElse,
    Int8ul,
    Int16ul,
    Int24ul,
    Int32ul,
    Int64ul,
    Rebuild,
    Struct,
    Switch,
    ValidationError,
    this,
)

from binlogio.constants import EventType, QueryStatus
from binlogio.events.base import NEW_HEADER, EventCodec, EventHeader
from binlogio.events.mariadb import MariadbCompressed
from binlogio.frozen import dataclass
from binlogio.primitives import Bytes8, Many, Record, Utf8, Whole, ZeroEnded, read_exactly, utf8_size


@dataclass(frozen=True, slots=True)
class AutoIncrement:
    """Session variables auto_increment_increment and auto_increment_offset."""

    increment: int
    offset: int


@dataclass(frozen=True, slots=True)
class SessionCharset:
    """Collation ids of character_set_client (its default collation), collation_connection and collation_server."""

    client: int
    connection: int
    server: int


@dataclass(frozen=True, slots=True)
class Invoker:
    """The account that executed the statement: the value of CURRENT_USER in CREATE USER, CREATE VIEW and similar."""

    user: str
    host: str


@dataclass(frozen=True, slots=True)
class StatusVar:
    """One status variable. The type of `value` depends on `code`: integer, text, tuple or dataclass.

    An unknown code has the rest of the block as bytes.
    """

    code: int
    value: Any


OVER_MAX_DBS_IN_EVENT_MTS: Final = 254
_NAME: Final = Utf8(ZeroEnded)


class _DatabaseNames(Construct):  # type: ignore[misc]
    """The names of the databases that the statement accesses; None if there are too many to list (count 254)."""

    def _parse(self, stream: Any, context: Container, path: str) -> tuple[str, ...] | None:
        count = Int8ul._parsereport(stream, context, path)
        if count == OVER_MAX_DBS_IN_EVENT_MTS:
            return None
        return tuple(_NAME._parsereport(stream, context, path) for _ in range(count))

    def _build(self, obj: tuple[str, ...] | None, stream: Any, context: Container, path: str) -> Any:
        Int8ul._build(OVER_MAX_DBS_IN_EVENT_MTS if obj is None else len(obj), stream, context, path)
        for name in obj or ():
            _NAME._build(name, stream, context, path)
        return obj


# The bits of MariadbAlterFlags.flags.
_START_ALTER: Final = 2
_COMMIT_ALTER: Final = 4
_ROLLBACK_ALTER: Final = 8


@dataclass(frozen=True, slots=True)
class MariadbAlterFlags:
    """A phase of MariaDB's two-phase ALTER TABLE: flags (2 start, 4 commit, 8 rollback).

    `start_alter_sequence` is the GTID sequence number of the start; it is None in the start itself.
    """

    flags: int
    start_alter_sequence: int | None


class _MariadbAlterFlags(Construct):  # type: ignore[misc]
    """`MariadbAlterFlags`; only COMMIT ALTER and ROLLBACK ALTER have the sequence number."""

    _HAS_SEQUENCE = _COMMIT_ALTER | _ROLLBACK_ALTER

    def _parse(self, stream: Any, context: Container, path: str) -> MariadbAlterFlags:
        flags = Int8ul._parsereport(stream, context, path)
        sequence = Int64ul._parsereport(stream, context, path) if flags & self._HAS_SEQUENCE else None
        return MariadbAlterFlags(flags, sequence)

    def _build(self, obj: MariadbAlterFlags, stream: Any, context: Container, path: str) -> MariadbAlterFlags:
        Int8ul._build(obj.flags, stream, context, path)
        if obj.flags & self._HAS_SEQUENCE:
            Int64ul._build(obj.start_alter_sequence, stream, context, path)
        return obj


class _CollationPairs(Construct):  # type: ignore[misc]
    """MariaDB's character_set_collations: pairs of the collation id of a character set and the collation id to use."""

    def _parse(self, stream: Any, context: Container, path: str) -> tuple[tuple[int, int], ...]:
        count = Int8ul._parsereport(stream, context, path)
        data = read_exactly(stream, 4 * count, path)
        pairs = [int.from_bytes(data[at : at + 2], "little") for at in range(0, len(data), 2)]
        return tuple(zip(pairs[::2], pairs[1::2], strict=True))

    def _build(self, obj: tuple[tuple[int, int], ...], stream: Any, context: Container, path: str) -> Any:
        Int8ul._build(len(obj), stream, context, path)
        for pair in obj:
            for collation in pair:
                Int16ul._build(collation, stream, context, path)
        return obj


_TEXT8: Final = Utf8(Bytes8)
_ZERO_ENDED: Final = ExprAdapter(
    Struct("name" / Bytes8, Const(b"\0")), lambda obj, ctx: obj.name, lambda obj, ctx: {"name": obj}
)
STATUS_VALUES: Final[dict[int, Construct]] = {
    QueryStatus.FLAGS2: Int32ul,
    QueryStatus.SQL_MODE: Int64ul,
    QueryStatus.CATALOG: Utf8(_ZERO_ENDED),
    QueryStatus.AUTO_INCREMENT: Record(AutoIncrement, Struct("increment" / Int16ul, "offset" / Int16ul)),
    QueryStatus.CHARSET: Record(SessionCharset, Struct("client" / Int16ul, "connection" / Int16ul, "server" / Int16ul)),
    QueryStatus.TIME_ZONE: _TEXT8,
    QueryStatus.CATALOG_NZ: _TEXT8,
    QueryStatus.LC_TIME_NAMES: Int16ul,
    QueryStatus.CHARSET_DATABASE: Int16ul,
    QueryStatus.TABLE_MAP_FOR_UPDATE: Int64ul,
    QueryStatus.MASTER_DATA_WRITTEN: Int32ul,
    QueryStatus.INVOKER: Record(Invoker, Struct("user" / _TEXT8, "host" / _TEXT8)),
    QueryStatus.UPDATED_DB_NAMES: _DatabaseNames(),
    QueryStatus.MICROSECONDS: Int24ul,
    QueryStatus.COMMIT_TS: Int64ul,
    QueryStatus.COMMIT_TS2: Int64ul,
    QueryStatus.EXPLICIT_DEFAULTS_FOR_TIMESTAMP: Int8ul,
    QueryStatus.DDL_LOGGED_WITH_XID: Int64ul,
    QueryStatus.DEFAULT_COLLATION_FOR_UTF8MB4: Int16ul,
    QueryStatus.SQL_REQUIRE_PRIMARY_KEY: Int8ul,
    QueryStatus.DEFAULT_TABLE_ENCRYPTION: Int8ul,
    QueryStatus.UNNAMED_21: Int8ul,
    QueryStatus.MARIADB_HRNOW: Int24ul,
    QueryStatus.MARIADB_XID: Int64ul,
    QueryStatus.MARIADB_GTID_FLAGS3: _MariadbAlterFlags(),
    QueryStatus.MARIADB_CHARACTER_SET_COLLATIONS: _CollationPairs(),
}
# The length of the value of an unknown code is unknown. As the server does, parsing stops there; the rest stays bytes.
_STATUS_VAR: Final = Record(
    StatusVar, Struct("code" / Int8ul, "value" / Switch(this.code, STATUS_VALUES, default=GreedyBytes))
)

POST_HEADER: Final = 4 + 4 + 1 + 2 + 2
POST_HEADER_V3: Final = 4 + 4 + 1 + 2  # 4.x and the first 5.0 alphas: no status variables
_SCHEMA_SIZE_AT: Final = 4 + 4
_STATUS_VARS_SIZE_AT: Final = POST_HEADER - 2


def sizes_before_sql(data: bytes, at: int = 0) -> tuple[int, int, int]:
    """Return the sizes in bytes of the three parts before the statement in a QUERY_EVENT whose body begins at `at`.

    The parts are the post-header of binlog version 4, the status variables, and the schema name with its zero byte. The
    sizes are not checked against the size of the body.
    """
    schema = int.from_bytes(data[at + _SCHEMA_SIZE_AT : at + _SCHEMA_SIZE_AT + 1], "little")
    status_vars = int.from_bytes(data[at + _STATUS_VARS_SIZE_AT : at + POST_HEADER], "little")
    return POST_HEADER, status_vars, schema + len(b"\0")


def sql_of_body(body: bytes) -> bytes:
    """Return the statement in the body of an uncompressed QUERY_EVENT; empty if the body is malformed.

    The body must have the post-header of binlog version 4.
    """
    if len(body) < POST_HEADER:
        return b""
    at = sum(sizes_before_sql(body))
    return body[at:] if at <= len(body) and body[at - 1] == 0 else b""


def schema_of_body(body: bytes) -> str:
    """Return the default database in the body of an uncompressed QUERY_EVENT of binlog version 4."""
    head, variables, size = sizes_before_sql(body)
    return body[head + variables :][: size - 1].decode("utf-8", "replace")


class _StatusVars(Construct):  # type: ignore[misc]
    """The block of status variables; empty if the post-header has no field for its size."""

    _block = Whole(Bytes(this._status_vars_size), Many(_STATUS_VAR))

    def _parse(self, stream: Any, context: Container, path: str) -> tuple[StatusVar, ...]:
        values: tuple[StatusVar, ...] = self._block._parsereport(stream, context, path)
        return values

    def _build(self, obj: tuple[StatusVar, ...], stream: Any, context: Container, path: str) -> Any:
        if obj and context._params.post_header_size == POST_HEADER_V3:
            raise ValidationError("this server version does not write status variables", path=path)
        stream.write(_build_status_vars(obj))
        return obj


def _build_status_vars(values: tuple[StatusVar, ...]) -> bytes:
    return bytes(Many(_STATUS_VAR).build(values))


def query_fields(sql: Construct, *more_post_header: Construct) -> tuple[Construct, ...]:
    """Return the fields of a QUERY_EVENT, with `more_post_header` after its post-header (EXECUTE_LOAD_QUERY_EVENT)."""
    return (
        "thread_id" / Int32ul,
        "exec_time" / Int32ul,
        "_schema_size" / Rebuild(Int8ul, lambda ctx: utf8_size(ctx.schema)),
        "error_code" / Int16ul,
        "_status_vars_size"
        / IfThenElse(
            this._params.post_header_size == POST_HEADER_V3,
            Computed(0),
            Rebuild(Int16ul, lambda ctx: len(_build_status_vars(ctx.status_vars))),
        ),
        *more_post_header,
        "status_vars" / _StatusVars(),
        "schema" / Utf8(Bytes(this._schema_size)),
        Const(b"\0"),
        "sql" / sql,
    )


QUERY: Final = Struct(*query_fields(GreedyBytes))
QUERY_COMPRESSED: Final = Struct(*query_fields(MariadbCompressed(GreedyBytes)))


class LoggedStatement:
    """An event with a statement and its status variables."""

    __slots__ = ()
    status_vars: tuple[StatusVar, ...]

    def status(self, code: int) -> Any:
        """Return the value of a status variable (`QueryStatus`), or None if the event does not have it."""
        for variable in self.status_vars:
            if variable.code == code:
                return variable.value
        return None


@dataclass(frozen=True, slots=True)
class QueryEvent(LoggedStatement):
    """A statement. `sql` is in the character set of the client (status variable CHARSET).

    `exec_time` is in seconds. `error_code` is the server's error number if the statement failed after changing data,
    otherwise 0.
    """

    thread_id: int
    exec_time: int
    error_code: int
    status_vars: tuple[StatusVar, ...]
    schema: str
    sql: bytes
    header: EventHeader = NEW_HEADER

    @property
    def is_unfinished_alter(self) -> bool:
        """True for the start and the rollback of MariaDB's two-phase ALTER TABLE, which do not change the table."""
        alter = self.status(QueryStatus.MARIADB_GTID_FLAGS3)
        return alter is not None and bool(alter.flags & (_START_ALTER | _ROLLBACK_ALTER))


_SIZES: Final = (POST_HEADER, POST_HEADER_V3)
CODECS: Final = (
    EventCodec(EventType.QUERY_EVENT, QUERY, QueryEvent, _SIZES),
    EventCodec(EventType.QUERY_COMPRESSED_EVENT, QUERY_COMPRESSED, QueryEvent, _SIZES),
)
