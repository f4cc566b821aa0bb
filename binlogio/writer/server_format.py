"""Log formats of server versions: file headers, first events of groups, rows events and Query events.

    5.0                statements only, no GTIDs, no checksums
    5.1, 5.5           rows events of version 1, TIME, DATETIME and TIMESTAMP in the old formats
    5.6                rows events of version 2, fractions of seconds, checksums, GTIDs, row images
    5.7                anonymous GTIDs, the logical clock, XA PREPARE in the log
    8.0                metadata in table maps; commit times, transaction_length and versions in the GTID event, DDL with
                       its transaction id; since 8.0.20 compressed transactions
    8.4                tagged GTIDs, the logical clock always by WRITESET, no rows events of version 1
    9.6                SQL foreign keys: a flag of rows events, a status variable of Query events
    MariaDB 5.5        as 5.5, and checksums, ANNOTATE_ROWS
    MariaDB 10.0 on    GTIDs with domains instead of BEGIN, GTID_LIST and BINLOG_CHECKPOINT, rows events of version 1
    MariaDB 10.1       TIME, DATETIME and TIMESTAMP in the formats of 5.6, row images
    MariaDB 11.4       the row image FULL_NODUP

The sizes of post-headers are those in files of these servers: 5.0.16, 5.1.23, 5.5.27, 5.7.25, 8.0.13, 8.0.22, 8.0.28,
9.0.1, 9.6.0, 9.7.4, MariaDB 5.5.36, 10.5.15, 10.11.18, 11.8.6. For other versions there was no file: 5.6 (35 types,
with the GTID event's post-header of 25 bytes), 8.4 (42 types), MariaDB 10.0 (163 types) and 10.1 (164 types) are from
the server's source. HEARTBEAT_LOG_EVENT_V2 is assumed from 8.0.27 on: a file of 8.0.26 lacks it, one of 8.0.28 has it.
MariaDB 11.4 is assumed to equal 10.11 and 11.8, and 10.6 to 10.9 to equal 10.5. Alphas and betas, and versions later
than these, are refused.

Source: libs/mysql/binlog/event/control_events.cpp, Format_description_event; Gtid_event; MariaDB: sql/log_event.h,
sql/log.cc; fixtures mariadb1011, mariadb118.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from binlogio.constants import EventType, QueryStatus, RowsFlag, TableMapFlag
from binlogio.errors import UnsupportedFeature
from binlogio.events.format_description import server_version_numbers
from binlogio.events.mariadb import MariadbGtidFlag
from binlogio.options import LAST_RELEASES
from binlogio.writer.rules.row_image import MARIADB_11_8_9_IMAGES, MARIADB_IMAGES, MYSQL_IMAGES, ImageRules

if TYPE_CHECKING:
    from collections.abc import Mapping

    from binlogio.options import ServerVariables

Version = tuple[int, int, int]

# The default sql_mode of 8.0 and later: ONLY_FULL_GROUP_BY, STRICT_TRANS_TABLES, NO_ZERO_IN_DATE, NO_ZERO_DATE,
# ERROR_FOR_DIVISION_BY_ZERO, NO_ENGINE_SUBSTITUTION. sql/system_variables.h.
DEFAULT_SQL_MODE: Final = 1 << 5 | 1 << 21 | 1 << 23 | 1 << 24 | 1 << 26 | 1 << 30
UTF8MB4_0900_AI_CI: Final = 255
# The default of 5.7: the same and NO_AUTO_CREATE_USER; of 5.6: NO_ENGINE_SUBSTITUTION; before: none.
_SQL_MODE_5_7: Final = DEFAULT_SQL_MODE | 1 << 28
_SQL_MODE_5_6: Final = 1 << 30
_LATIN1_SWEDISH_CI: Final = 8
_OPTION_AUTO_IS_NULL: Final = 1 << 14  # sql_auto_is_null is ON up to 5.5.2; sql/sql_const.h
# The default of MariaDB: STRICT_TRANS_TABLES, ERROR_FOR_DIVISION_BY_ZERO, NO_AUTO_CREATE_USER, NO_ENGINE_SUBSTITUTION.
# sql/sys_vars.cc.
_MARIADB_SQL_MODE: Final = 1 << 21 | 1 << 26 | 1 << 28 | 1 << 30
# The default of MariaDB 10.1: NO_AUTO_CREATE_USER, NO_ENGINE_SUBSTITUTION; before: none.
_MARIADB_SQL_MODE_10_1: Final = 1 << 28 | 1 << 30
_UTF8MB4_GENERAL_CI: Final = 45
_UTF8MB4_UCA1400_AI_CI: Final = 2304  # since 11.6
_OPTION_EXPLICIT_DEF_TIMESTAMP: Final = (
    1 << 24
)  # MariaDB sql/sql_class.h; explicit_defaults_for_timestamp is ON since 10.10


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsEvents:
    """Rows events of a server version: their types, flags, image rules, and the size in bytes of their post-header."""

    write: EventType = EventType.WRITE_ROWS_EVENT
    update: EventType = EventType.UPDATE_ROWS_EVENT
    delete: EventType = EventType.DELETE_ROWS_EVENT
    post_header_size: int = 6 + 2 + 2  # table_id, flags, extra_len
    flags: int = 0
    images: ImageRules = MYSQL_IMAGES


MYSQL_ROWS: Final = RowsEvents()
_ROWS_9_6: Final = RowsEvents(flags=int(RowsFlag.USE_SQL_FOREIGN_KEY))
_ROWS_V1: Final = RowsEvents(
    write=EventType.WRITE_ROWS_EVENT_V1,
    update=EventType.UPDATE_ROWS_EVENT_V1,
    delete=EventType.DELETE_ROWS_EVENT_V1,
    post_header_size=6 + 2,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryVariables:
    """Status variables of Query events that differ between servers.

    Args:
        microseconds: code of the variable for the microseconds of the start time; None if there is none.
        ddl_xid: code of the variable for the transaction id of DDL; None if there is none.
        has_requirements: the variables of 8.0 and later for collations, primary keys, encryption and others.
        has_cascades: statements have the variable of SQL foreign keys.
        has_updated_schemas: the databases that a statement changes are written.
        names_single_table: an UPDATE of a single table sets its bit in table_map_for_update.
        creates_atomically: CREATE TABLE ... SELECT into an engine with atomic DDL is one transaction.
        has_atomic_engines: atomicity of DDL depends on the engines of its tables, by which DROP TABLE is split.
        marks_commits: COMMIT has the thread-specific flag if the preceding statements have it.
        flags2: bits set in flags2 of all Query events.
        sql_mode: default sql_mode of a session.
        collation: id of the default collation of a session.
    """

    microseconds: QueryStatus | None = QueryStatus.MICROSECONDS
    ddl_xid: QueryStatus | None = QueryStatus.DDL_LOGGED_WITH_XID
    has_requirements: bool = True
    has_cascades: bool = True
    has_updated_schemas: bool = True
    names_single_table: bool = True
    creates_atomically: bool = True
    has_atomic_engines: bool = True
    marks_commits: bool = True
    flags2: int = 0
    sql_mode: int = DEFAULT_SQL_MODE
    collation: int = UTF8MB4_0900_AI_CI


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFormat:
    """The log format of a server version.

    Args:
        name: name of the format.
        post_header_sizes: of the format description, from type 1 on, in bytes.
        has_tags: GTIDs may have a tag.
        is_mariadb: it is MariaDB, with its variables, its status variables of Query events and its rules for DDL.
        always_writeset: binlog_transaction_dependency_tracking no longer exists, and WRITESET is used.
        has_domains: GTIDs have a domain and MariaDB's flags, and replace BEGIN and XA START; a file begins with the
            last GTIDs of each domain, and checkpoints.
        gtid_flags: MariaDB's flags that a GTID event can have.
        has_extra_flags: GTID events can have MariaDB's second byte of flags.
        has_thread_ids: GTID events have the id of the connection that ran the group.
        joins_caches: an autocommitted statement that filled both caches is one group.
        keeps_savepoints: ROLLBACK TO does not truncate the transaction cache if it has rows of non-transactional
            tables.
        has_metadata: table maps have optional metadata.
        table_map_flags: flags of table maps.
        has_old_temporals: TIME, DATETIME and TIMESTAMP have the formats before MySQL 5.6.4, without fractions of a
            second.
        logs_xa_prepare: XA PREPARE writes the transaction.
        has_gtids: GTIDs exist; a log begins with the previous GTIDs, unless `gtid_mode` is OFF before 5.7.
        missing: variables that such a server lacks, with the values that are in effect.
        row_images: allowed values of binlog_row_image.
        rows: rows events.
        query: Query events.
    """

    name: str
    post_header_sizes: tuple[int, ...]
    has_tags: bool = False
    is_mariadb: bool = False
    always_writeset: bool = False
    has_domains: bool = False
    gtid_flags: int = 0xFF
    has_extra_flags: bool = True
    has_thread_ids: bool = False
    joins_caches: bool = False
    keeps_savepoints: bool = False
    has_metadata: bool = True
    table_map_flags: int = int(TableMapFlag.BIT_LEN_EXACT)
    has_old_temporals: bool = False
    logs_xa_prepare: bool = True
    has_gtids: bool = True
    missing: Mapping[str, Any] = field(default_factory=dict)
    row_images: tuple[str, ...] = ("FULL", "MINIMAL", "NOBLOB")
    rows: RowsEvents = MYSQL_ROWS
    query: QueryVariables = QueryVariables()


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(bytes.fromhex(text))


_5_0: Final = "380d0008001200040404041200004b00041a"
_5_1: Final = "380d0008001200040404041200005300041a0800000008080802"
_5_5: Final = "380d0008001200040404041200005400041a080000000808080200"
_5_6: Final = "380d0008001200040404041200005c00041a08000000080808020000000a0a0a191900"
_5_7: Final = "380d0008001200040404041200005f00041a08000000080808020000000a0a0a2a2a00123400"
_8_0_11: Final = "000d0008000000000400040000006000041a08000000080808020000000a0a0a2a2a001234000a"
_8_0_20: Final = "000d0008000000000400040000006100041a08000000080808020000000a0a0a2a2a001234000a28"
_8_0_27: Final = "000d0008000000000400040000006200041a08000000080808020000000a0a0a2a2a001234000a2800"
_8_4: Final = "000d0008000000000400040000006300041a08000000000000020000000a0a0a2a2a001234000a280000"

_MARIADB_5_5_SIZES: Final = "380d000800120004040404120000d900041a0800000008080802" + "00" * (160 - 26)
_MARIADB_10_0_SIZES: Final = (
    "380d000800120004040404120000dc00041a08000000080808020000000a0a0a" + "00" * (160 - 32) + "041304"
)
_MARIADB_10_1_SIZES: Final = (
    "380d000800120004040404120000dd00041a08000000080808020000000a0a0a" + "00" * (160 - 32) + "04130400"
)
_MARIADB_10_5_SIZES: Final = (
    "380d000800120004040404120000e400041a08000000080808020000000a0a0a" + "00" * (160 - 32) + "041304000d0808080a0a0a"
)
_MARIADB_10_11: Final = (
    "380d000800120004040404120000e400041a08000000080808020000000a0a0a0000000000000a0a0a"
    + "00" * (160 - 41)
    + "041304000d0808080a0a0a"
)


# Variables that were added in a version, with the values in effect before it.
_SINCE_8_0_20: Final[Mapping[str, Any]] = MappingProxyType({"binlog_transaction_compression": False})
_SINCE_8_0: Final[Mapping[str, Any]] = MappingProxyType({**_SINCE_8_0_20, "binlog_row_value_options": ""})
_SINCE_5_7: Final[Mapping[str, Any]] = MappingProxyType(
    {**_SINCE_8_0, "binlog_transaction_dependency_tracking": "COMMIT_ORDER"}
)
_SINCE_5_6: Final[Mapping[str, Any]] = MappingProxyType(
    {
        **_SINCE_5_7,
        "binlog_checksum": "NONE",
        "binlog_row_image": "FULL",
        "binlog_rows_query_log_events": False,
        "gtid_mode": "OFF",
    }
)
_SINCE_5_1: Final[Mapping[str, Any]] = MappingProxyType({**_SINCE_5_6, "binlog_format": "STATEMENT"})

_FORMAT_9_6: Final = ServerFormat(
    name="9.6", post_header_sizes=_sizes(_8_4), has_tags=True, always_writeset=True, rows=_ROWS_9_6
)
_FORMAT_8_4: Final = replace(
    _FORMAT_9_6, name="8.4", rows=MYSQL_ROWS, query=replace(_FORMAT_9_6.query, has_cascades=False)
)
_FORMAT_8_0_27: Final = replace(
    _FORMAT_8_4, name="8.0.27", post_header_sizes=_sizes(_8_0_27), has_tags=False, always_writeset=False
)
_FORMAT_8_0_20: Final = replace(_FORMAT_8_0_27, name="8.0.20", post_header_sizes=_sizes(_8_0_20))
_FORMAT_8_0_11: Final = replace(
    _FORMAT_8_0_20,
    name="8.0.11",
    post_header_sizes=_sizes(_8_0_11),
    missing=_SINCE_8_0_20,
    query=replace(_FORMAT_8_0_20.query, creates_atomically=False),
)
_FORMAT_5_7: Final = replace(
    _FORMAT_8_0_11,
    name="5.7",
    post_header_sizes=_sizes(_5_7),
    has_metadata=False,
    missing=_SINCE_8_0,
    query=replace(
        _FORMAT_8_0_11.query,
        ddl_xid=None,
        has_requirements=False,
        names_single_table=False,
        has_atomic_engines=False,
        sql_mode=_SQL_MODE_5_7,
        collation=_LATIN1_SWEDISH_CI,
    ),
)
_FORMAT_5_6: Final = replace(
    _FORMAT_5_7,
    name="5.6",
    post_header_sizes=_sizes(_5_6),
    logs_xa_prepare=False,
    missing=_SINCE_5_7,
    query=replace(_FORMAT_5_7.query, sql_mode=_SQL_MODE_5_6),
)
_FORMAT_5_5: Final = replace(
    _FORMAT_5_6,
    name="5.5",
    post_header_sizes=_sizes(_5_5),
    has_old_temporals=True,
    has_gtids=False,
    missing=_SINCE_5_6,
    rows=_ROWS_V1,
    query=replace(_FORMAT_5_6.query, microseconds=None, has_updated_schemas=False, sql_mode=0),
)
_FORMAT_5_1: Final = replace(
    _FORMAT_5_5,
    name="5.1",
    post_header_sizes=_sizes(_5_1),
    table_map_flags=0,
    query=replace(_FORMAT_5_5.query, flags2=_OPTION_AUTO_IS_NULL),
)
_FORMAT_5_0: Final = replace(_FORMAT_5_1, name="5.0", post_header_sizes=_sizes(_5_0), missing=_SINCE_5_1)

_MYSQL_FORMATS: Final[tuple[tuple[Version, Version, ServerFormat], ...]] = (
    ((5, 0, 3), (5, 1, 0), _FORMAT_5_0),
    ((5, 1, 22), (5, 2, 0), _FORMAT_5_1),
    ((5, 5, 3), (5, 6, 0), _FORMAT_5_5),
    ((5, 6, 10), (5, 7, 0), _FORMAT_5_6),
    ((5, 7, 9), (5, 8, 0), _FORMAT_5_7),
    ((8, 0, 11), (8, 0, 20), _FORMAT_8_0_11),
    ((8, 0, 20), (8, 0, 21), replace(_FORMAT_8_0_20, query=_FORMAT_8_0_11.query)),
    ((8, 0, 21), (8, 0, 27), _FORMAT_8_0_20),
    ((8, 0, 27), (8, 4, 0), _FORMAT_8_0_27),
    ((8, 4, 0), (8, 5, 0), _FORMAT_8_4),
    ((9, 0, 0), (9, 6, 0), _FORMAT_8_4),
    ((9, 6, 0), (10, 0, 0), _FORMAT_9_6),
)
_MARIADB_10: Final = ServerFormat(
    name="MariaDB 10.11",
    post_header_sizes=_sizes(_MARIADB_10_11),
    is_mariadb=True,
    has_domains=True,
    joins_caches=True,
    keeps_savepoints=True,
    rows=replace(_ROWS_V1, images=MARIADB_IMAGES),
    query=QueryVariables(
        microseconds=QueryStatus.MARIADB_HRNOW,
        ddl_xid=QueryStatus.MARIADB_XID,
        has_requirements=False,
        has_cascades=False,
        has_updated_schemas=False,
        names_single_table=False,
        creates_atomically=False,
        has_atomic_engines=False,
        flags2=_OPTION_EXPLICIT_DEF_TIMESTAMP,
        sql_mode=_MARIADB_SQL_MODE,
        collation=_UTF8MB4_GENERAL_CI,
    ),
)
_MARIADB_11_4: Final = replace(_MARIADB_10, name="MariaDB 11.4", row_images=(*_MARIADB_10.row_images, "FULL_NODUP"))
_NO_ALTER: Final[Mapping[str, Any]] = MappingProxyType({"binlog_alter_two_phase": False})
_MARIADB_10_8: Final = replace(
    _MARIADB_10,
    name="MariaDB 10.8",
    post_header_sizes=_sizes(_MARIADB_10_5_SIZES),
    query=replace(_MARIADB_10.query, flags2=0),
)
_MARIADB_10_6: Final = replace(_MARIADB_10_8, name="MariaDB 10.6", missing=_NO_ALTER)
_MARIADB_10_5: Final = replace(_MARIADB_10_6, name="MariaDB 10.5", query=replace(_MARIADB_10_6.query, ddl_xid=None))
_MARIADB_10_2: Final = replace(
    _MARIADB_10_5, name="MariaDB 10.2", has_metadata=False, logs_xa_prepare=False, has_extra_flags=False
)
_NO_COMPRESSION: Final[Mapping[str, Any]] = MappingProxyType({**_NO_ALTER, "log_bin_compress": False})
_MARIADB_10_1: Final = replace(
    _MARIADB_10_2,
    name="MariaDB 10.1",
    post_header_sizes=_sizes(_MARIADB_10_1_SIZES),
    missing=_NO_COMPRESSION,
    query=replace(_MARIADB_10_2.query, sql_mode=_MARIADB_SQL_MODE_10_1),
)
_NO_IMAGES: Final[Mapping[str, Any]] = MappingProxyType(
    {
        **_NO_COMPRESSION,
        "binlog_row_image": "FULL",
        "skip_parallel_replication": False,
        "mysql56_temporal_format": False,
    }
)
_MARIADB_10_0: Final = replace(
    _MARIADB_10_1,
    name="MariaDB 10.0",
    post_header_sizes=_sizes(_MARIADB_10_0_SIZES),
    gtid_flags=int(MariadbGtidFlag.STANDALONE | MariadbGtidFlag.GROUP_COMMIT_ID | MariadbGtidFlag.TRANSACTIONAL),
    missing=_NO_IMAGES,
    query=replace(_MARIADB_10_1.query, sql_mode=0),
)
_MARIADB_5_5: Final = replace(
    _MARIADB_10_0,
    name="MariaDB 5.5",
    post_header_sizes=_sizes(_MARIADB_5_5_SIZES),
    has_domains=False,
    has_gtids=False,
    missing=MappingProxyType({**_NO_IMAGES, "gtid_mode": "OFF", "gtid_domain_id": 0, "gtid_seq_no": 0}),
    query=replace(_MARIADB_10_0.query, collation=_LATIN1_SWEDISH_CI),
)
_MARIADB_11_8: Final = replace(
    _MARIADB_11_4,
    name="MariaDB 11.8",
    has_thread_ids=True,
    query=replace(_MARIADB_11_4.query, collation=_UTF8MB4_UCA1400_AI_CI, marks_commits=False),
)
_MARIADB_11_8_9: Final = replace(
    _MARIADB_11_8, name="MariaDB 11.8.9", rows=replace(_MARIADB_11_8.rows, images=MARIADB_11_8_9_IMAGES)
)
_MARIADB_FORMATS: Final[tuple[tuple[Version, Version, ServerFormat], ...]] = (
    ((5, 5, 23), (5, 6, 0), _MARIADB_5_5),
    ((10, 0, 10), (10, 1, 0), _MARIADB_10_0),
    ((10, 1, 8), (10, 2, 0), _MARIADB_10_1),
    ((10, 2, 6), (10, 5, 0), _MARIADB_10_2),
    ((10, 5, 0), (10, 6, 0), _MARIADB_10_5),
    ((10, 6, 0), (10, 8, 0), _MARIADB_10_6),
    ((10, 8, 0), (10, 10, 0), _MARIADB_10_8),
    ((10, 10, 0), (11, 4, 0), _MARIADB_10),
    ((11, 4, 0), (11, 5, 0), _MARIADB_11_4),
    ((11, 8, 0), (11, 8, 9), _MARIADB_11_8),
    ((11, 8, 9), (11, 9, 0), _MARIADB_11_8_9),
)
DEFAULT_SERVER_FORMAT: Final = _MYSQL_FORMATS[-1][2]


@lru_cache(maxsize=64)
def server_format_of(server_version: str) -> ServerFormat:
    """Return the format of a version such as `9.7.4` or `10.11.18-MariaDB`.

    Raises:
        UnsupportedFeature: the format of its logs is unknown.
    """
    numbers = server_version_numbers(server_version)
    formats = _MARIADB_FORMATS if "MariaDB" in server_version else _MYSQL_FORMATS
    for since, until, server_format in formats:
        if since <= numbers < until:
            return server_format
    lines = [one for one in LAST_RELEASES if one.startswith(f"{server_version.removesuffix('-MariaDB')}.")]
    near = f"the nearest is {_nearest(numbers, formats)}" if any(numbers) else "a version is such as 9.7.4 or 10.6"
    raise UnsupportedFeature(
        "writing logs of this server version is not supported",
        field="server_version",
        expected=f"MySQL {_known(_MYSQL_FORMATS)}; MariaDB {_known(_MARIADB_FORMATS)}",
        found=server_version,
        hint=f"did you mean {' or '.join(lines)}?" if lines else near,
    )


def variables_in_effect(variables: ServerVariables) -> ServerVariables:
    """Return the variables with those that the server version lacks set to the values in effect.

    Raises:
        UnsupportedFeature: the format of its logs is unknown, or it lacks the row image, encryption or gtid_mode.
    """
    missing = server_format_of(variables.server_version).missing
    changed = {name: value for name, value in missing.items() if getattr(variables, name) != value}
    if "gtid_mode" in changed:
        changed["enforce_gtid_consistency"] = None
    found = replace(variables, **changed) if changed else variables
    check_row_image(found)
    _check_encryption(found)
    _check_gtid_mode(found)
    return found


_GTID_STEPS_SINCE: Final = (5, 7, 6)


def _check_gtid_mode(variables: ServerVariables) -> None:
    """Refuse the intermediate values of gtid_mode in 5.6, where GTIDs are enabled by a restart."""
    if variables.is_mariadb or variables.gtid_mode in ("OFF", "ON"):
        return
    if server_version_numbers(variables.server_version) < _GTID_STEPS_SINCE:
        raise UnsupportedFeature(
            "this server version has no steps between gtid_mode OFF and ON",
            field="gtid_mode",
            expected="OFF or ON before 5.7.6",
            found=variables.gtid_mode,
        )


# Version in which the variable for encrypted logs was added.
_ENCRYPTION_SINCE: Final = {"binlog_encryption": (8, 0, 14), "encrypt_binlog": (10, 1, 7)}


def _check_encryption(variables: ServerVariables) -> None:
    """Refuse encryption that the server version lacks, instead of silently writing a plain log."""
    own = "encrypt_binlog" if variables.is_mariadb else "binlog_encryption"
    for name, since in _ENCRYPTION_SINCE.items():
        if getattr(variables, name) and (name != own or server_version_numbers(variables.server_version) < since):
            raise UnsupportedFeature(
                "this server version does not have the variable",
                field=name,
                expected="binlog_encryption with MySQL from 8.0.14 on, encrypt_binlog with MariaDB from 10.1.7 on",
                found=variables.server_version,
            )


def check_row_image(variables: ServerVariables) -> None:
    """Check that the server version has the row image.

    Raises:
        UnsupportedFeature: it does not.
    """
    allowed = server_format_of(variables.server_version).row_images
    if variables.binlog_row_image not in allowed:
        raise UnsupportedFeature(
            "this server version does not have this row image",
            field="binlog_row_image",
            expected=" or ".join(allowed),
            found=variables.binlog_row_image,
            hint="MariaDB has FULL_NODUP since 11.4",
        )


def _nearest(numbers: Version, formats: tuple[tuple[Version, Version, ServerFormat], ...]) -> str:
    """Return the known version nearest to a version."""
    before = [since for since, _, _ in formats if since <= numbers]
    return _text(before[-1] if before else formats[0][0])


def _known(formats: tuple[tuple[Version, Version, ServerFormat], ...]) -> str:
    ranges: list[tuple[Version, Version]] = []
    for since, until, _ in formats:
        follows = bool(ranges) and ranges[-1][1] == since
        ranges.append((ranges.pop()[0] if follows else since, until))
    return ", ".join(f"{_text(since)} to before {_text(until)}" for since, until in ranges)


def _text(version: Version) -> str:
    return ".".join(map(str, version))
