"""Log formats of server versions: headers of files and first events of groups, one frozen set of choices each.

    8.0.20 to 8.0.25   checksums, GTIDs, anonymous GTIDs; commit times, transaction_length, versions in the GTID event
    9.0 and later      the same, tagged GTIDs, the logical clock always by WRITESET
    MariaDB 10.11      GTIDs of domains in the place of BEGIN, GTID_LIST and BINLOG_CHECKPOINT, ANNOTATE_ROWS, rows
                       events of version 1

The sizes are those in files that such servers wrote: 8.0.22, 9.0.1, 9.6.0, 9.7.4, MariaDB 10.11.18. Versions whose
format description is not known from a file, and versions whose rows and Query events differ from these, are refused.
Source: libs/mysql/binlog/event/control_events.cpp, Format_description_event; Gtid_event; MariaDB: sql/log_event.h,
sql/log.cc; fixtures mariadb1011.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from binlogio.constants import EventType, QueryStatus, RowsFlag
from binlogio.errors import UnsupportedFeature
from binlogio.events.format_description import server_version_numbers
from binlogio.writer.rules.row_image import MARIADB_IMAGES, MYSQL_IMAGES, ImageRules

Version = tuple[int, int, int]

# The default sql_mode of 8.0 and later: ONLY_FULL_GROUP_BY, STRICT_TRANS_TABLES, NO_ZERO_IN_DATE, NO_ZERO_DATE,
# ERROR_FOR_DIVISION_BY_ZERO, NO_ENGINE_SUBSTITUTION. sql/system_variables.h.
DEFAULT_SQL_MODE: Final = 1 << 5 | 1 << 21 | 1 << 23 | 1 << 24 | 1 << 26 | 1 << 30
UTF8MB4_0900_AI_CI: Final = 255
# That of MariaDB: STRICT_TRANS_TABLES, ERROR_FOR_DIVISION_BY_ZERO, NO_AUTO_CREATE_USER, NO_ENGINE_SUBSTITUTION.
# sql/sys_vars.cc.
_MARIADB_SQL_MODE: Final = 1 << 21 | 1 << 26 | 1 << 28 | 1 << 30
_UTF8MB4_GENERAL_CI: Final = 45
_UTF8MB4_UCA1400_AI_CI: Final = 2304  # since 11.6
_OPTION_EXPLICIT_DEF_TIMESTAMP: Final = (
    1 << 24
)  # MariaDB sql/sql_class.h; explicit_defaults_for_timestamp is ON since 10.10


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsEvents:
    """The rows events of a server version: their types, and the size in bytes of their post-header and fixed fields."""

    write: EventType = EventType.WRITE_ROWS_EVENT
    update: EventType = EventType.UPDATE_ROWS_EVENT
    delete: EventType = EventType.DELETE_ROWS_EVENT
    post_header_size: int = 6 + 2 + 2  # table_id, flags, extra_len
    flags: int = int(RowsFlag.USE_SQL_FOREIGN_KEY)
    images: ImageRules = MYSQL_IMAGES


MYSQL_ROWS: Final = RowsEvents()


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryVariables:
    """The status variables of Query events that not all servers write.

    Args:
        microseconds: code of the variable for those of the statement's start.
        ddl_xid: code of the variable for the transaction that DDL is.
        has_requirements: collations, keys, encryption and the other variables of 8.0 and later.
        has_updated_schemas: the databases that a statement changes are named.
        names_single_table: an UPDATE of one table has its bit.
        has_atomic_engines: whether DDL is one transaction depends on the engine of its tables, for each of which DROP
            TABLE is divided.
        marks_commits: COMMIT has the flag of its thread where the statements in front of it have it.
        flags2: what is set in all of them.
        sql_mode: of a session that has not changed it.
        collation: of a session that has not changed it, by its number.
    """

    microseconds: QueryStatus = QueryStatus.MICROSECONDS
    ddl_xid: QueryStatus = QueryStatus.DDL_LOGGED_WITH_XID
    has_requirements: bool = True
    has_updated_schemas: bool = True
    names_single_table: bool = True
    has_atomic_engines: bool = True
    marks_commits: bool = True
    flags2: int = 0
    sql_mode: int = DEFAULT_SQL_MODE
    collation: int = UTF8MB4_0900_AI_CI


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFormat:
    """The choices of a server version.

    Args:
        name: what it is called.
        post_header_sizes: of the format description, from type 1 on.
        has_tags: GTIDs may have a tag.
        always_writeset: there is no binlog_transaction_dependency_tracking any more, and the clock works as with
            WRITESET.
        has_domains: GTIDs have a domain and MariaDB's flags, and replace BEGIN and XA START; a file begins with the
            last ones of each domain, and checkpoints.
        has_thread_ids: GTID events have the id of the connection that ran the group.
        joins_caches: an autocommitted statement that has filled both caches is one group.
        keeps_savepoints: rows of other than transactional tables keep ROLLBACK TO from cutting the transaction cache.
        rows: the rows events.
        query: the Query events.
    """

    name: str
    post_header_sizes: tuple[int, ...]
    has_tags: bool = False
    always_writeset: bool = False
    has_domains: bool = False
    has_thread_ids: bool = False
    joins_caches: bool = False
    keeps_savepoints: bool = False
    rows: RowsEvents = MYSQL_ROWS
    query: QueryVariables = QueryVariables()


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(bytes.fromhex(text))


_8_0: Final = "000d0008000000000400040000006100041a08000000080808020000000a0a0a2a2a001234000a28"
_9_0: Final = "000d0008000000000400040000006300041a08000000000000020000000a0a0a2a2a001234000a280000"

_MARIADB_10_11: Final = (
    "380d000800120004040404120000e400041a08000000080808020000000a0a0a0000000000000a0a0a"
    + "00" * (160 - 41)
    + "041304000d0808080a0a0a"
)

_MYSQL_FORMATS: Final[tuple[tuple[Version, Version, ServerFormat], ...]] = (
    (
        (8, 0, 20),
        (8, 0, 26),
        ServerFormat(
            name="8.0",
            post_header_sizes=_sizes(_8_0),
        ),
    ),
    (
        (9, 0, 0),
        (10, 0, 0),
        ServerFormat(
            name="9.0",
            post_header_sizes=_sizes(_9_0),
            has_tags=True,
            always_writeset=True,
        ),
    ),
)
_MARIADB_10: Final = ServerFormat(
    name="MariaDB 10.11",
    post_header_sizes=_sizes(_MARIADB_10_11),
    has_domains=True,
    joins_caches=True,
    keeps_savepoints=True,
    rows=RowsEvents(
        write=EventType.WRITE_ROWS_EVENT_V1,
        update=EventType.UPDATE_ROWS_EVENT_V1,
        delete=EventType.DELETE_ROWS_EVENT_V1,
        post_header_size=6 + 2,
        flags=0,
        images=MARIADB_IMAGES,
    ),
    query=QueryVariables(
        microseconds=QueryStatus.MARIADB_HRNOW,
        ddl_xid=QueryStatus.MARIADB_XID,
        has_requirements=False,
        has_updated_schemas=False,
        names_single_table=False,
        has_atomic_engines=False,
        flags2=_OPTION_EXPLICIT_DEF_TIMESTAMP,
        sql_mode=_MARIADB_SQL_MODE,
        collation=_UTF8MB4_GENERAL_CI,
    ),
)
_MARIADB_FORMATS: Final[tuple[tuple[Version, Version, ServerFormat], ...]] = (
    ((10, 11, 0), (10, 12, 0), _MARIADB_10),
    (
        (11, 8, 0),
        (11, 9, 0),
        replace(
            _MARIADB_10,
            name="MariaDB 11.8",
            has_thread_ids=True,
            query=replace(_MARIADB_10.query, collation=_UTF8MB4_UCA1400_AI_CI, marks_commits=False),
        ),
    ),
)
DEFAULT_SERVER_FORMAT: Final = _MYSQL_FORMATS[-1][2]


@lru_cache(maxsize=64)
def server_format_of(server_version: str) -> ServerFormat:
    """Return the choices of a version such as `9.7.4` or `10.11.18-MariaDB`.

    Raises:
        UnsupportedFeature: the format of its logs is not known.
    """
    numbers = server_version_numbers(server_version)
    for since, until, server_format in _MARIADB_FORMATS if "MariaDB" in server_version else _MYSQL_FORMATS:
        if since <= numbers < until:
            return server_format
    raise UnsupportedFeature(
        "writing logs of this server version is not supported",
        field="server_version",
        expected=f"MySQL {_known(_MYSQL_FORMATS)}; MariaDB {_known(_MARIADB_FORMATS)}",
        found=server_version,
    )


def _known(formats: tuple[tuple[Version, Version, ServerFormat], ...]) -> str:
    return ", ".join(f"{_text(since)} to before {_text(until)}" for since, until, _ in formats)


def _text(version: Version) -> str:
    return ".".join(map(str, version))
