"""Numbers of the on-disk format, with the server's names.

Never renumber; retired numbers stay. Each block cites its source.
"""

from __future__ import annotations

from enum import IntEnum, IntFlag
from typing import Final

# libs/mysql/binlog/event/binlog_event.h, BINLOG_MAGIC; encrypted logs: sql/rpl_log_encryption.h.
BINLOG_MAGIC: Final = b"\xfebin"
ENCRYPTED_MAGIC: Final = b"\xfdbin"
INNODB_BINLOG_MAGIC: Final = (0x010DFEFE).to_bytes(
    4, "little"
)  # MariaDB storage/innobase/include/fsp_binlog.h, IBB_MAGIC

HEADER_SIZE: Final = 4 + 1 + 4 + 4 + 4 + 2  # timestamp, type_code, server_id, event_size, log_pos, flags
HEADER_SIZE_V1: Final = 4 + 1 + 4 + 4  # headers of 3.23 have neither log_pos nor flags
TIMESTAMP_BYTES: Final = slice(0, 4)  # the offsets of header fields in an unparsed frame
TYPE_CODE_AT: Final = 4
SERVER_ID_BYTES: Final = slice(4 + 1, 4 + 1 + 4)
EVENT_SIZE_BYTES: Final = slice(4 + 1 + 4, 4 + 1 + 4 + 4)
LOG_POS_BYTES: Final = slice(4 + 1 + 4 + 4, 4 + 1 + 4 + 4 + 4)
CHECKSUM_SIZE: Final = 4
MAX_EVENT_SIZE: Final = (1 << 32) - 1
BIG_EVENT_SIZE: Final = 1 << 20  # the header of a larger event is checked before the rest of the event is read

# libs/mysql/binlog/event/binlog_event.h: ST_SERVER_VER_LEN, and the first server version with checksums.
SERVER_VERSION_LENGTH: Final = 50
CHECKSUM_SINCE: Final = (5, 6, 1)
CHECKSUM_SINCE_MARIADB: Final = (5, 3, 0)

# sql/mysqld.cc, my_umask, my_umask_dir: logs contain data, so other users of the machine cannot read them. The umask
# applies too.
NEW_FILE_MODE: Final = 0o640
NEW_DIRECTORY_MODE: Final = 0o750

DEFAULT_ROW_EVENT_MAX_SIZE: Final = 8192


class EventType(IntEnum):
    """libs/mysql/binlog/event/binlog_event.h, enum Log_event_type; MariaDB: sql/log_event.h, enum Log_event_type."""

    UNKNOWN_EVENT = 0
    START_EVENT_V3 = 1
    QUERY_EVENT = 2
    STOP_EVENT = 3
    ROTATE_EVENT = 4
    INTVAR_EVENT = 5
    LOAD_EVENT = 6
    SLAVE_EVENT = 7
    CREATE_FILE_EVENT = 8
    APPEND_BLOCK_EVENT = 9
    EXEC_LOAD_EVENT = 10
    DELETE_FILE_EVENT = 11
    NEW_LOAD_EVENT = 12
    RAND_EVENT = 13
    USER_VAR_EVENT = 14
    FORMAT_DESCRIPTION_EVENT = 15
    XID_EVENT = 16
    BEGIN_LOAD_QUERY_EVENT = 17
    EXECUTE_LOAD_QUERY_EVENT = 18
    TABLE_MAP_EVENT = 19
    PRE_GA_WRITE_ROWS_EVENT = 20
    PRE_GA_UPDATE_ROWS_EVENT = 21
    PRE_GA_DELETE_ROWS_EVENT = 22
    WRITE_ROWS_EVENT_V1 = 23
    UPDATE_ROWS_EVENT_V1 = 24
    DELETE_ROWS_EVENT_V1 = 25
    INCIDENT_EVENT = 26
    HEARTBEAT_LOG_EVENT = 27
    IGNORABLE_LOG_EVENT = 28
    ROWS_QUERY_LOG_EVENT = 29
    WRITE_ROWS_EVENT = 30
    UPDATE_ROWS_EVENT = 31
    DELETE_ROWS_EVENT = 32
    GTID_LOG_EVENT = 33
    ANONYMOUS_GTID_LOG_EVENT = 34
    PREVIOUS_GTIDS_LOG_EVENT = 35
    TRANSACTION_CONTEXT_EVENT = 36
    VIEW_CHANGE_EVENT = 37
    XA_PREPARE_LOG_EVENT = 38
    PARTIAL_UPDATE_ROWS_EVENT = 39
    TRANSACTION_PAYLOAD_EVENT = 40
    HEARTBEAT_LOG_EVENT_V2 = 41
    GTID_TAGGED_LOG_EVENT = 42
    # MariaDB's own event types start at 160.
    ANNOTATE_ROWS_EVENT = 160
    BINLOG_CHECKPOINT_EVENT = 161
    MARIADB_GTID_EVENT = 162
    MARIADB_GTID_LIST_EVENT = 163
    START_ENCRYPTION_EVENT = 164
    QUERY_COMPRESSED_EVENT = 165
    WRITE_ROWS_COMPRESSED_EVENT_V1 = 166
    UPDATE_ROWS_COMPRESSED_EVENT_V1 = 167
    DELETE_ROWS_COMPRESSED_EVENT_V1 = 168
    WRITE_ROWS_COMPRESSED_EVENT = 169
    UPDATE_ROWS_COMPRESSED_EVENT = 170
    DELETE_ROWS_COMPRESSED_EVENT = 171


GROUP_STARTS: Final = (
    EventType.GTID_LOG_EVENT,
    EventType.ANONYMOUS_GTID_LOG_EVENT,
    EventType.GTID_TAGGED_LOG_EVENT,
    EventType.MARIADB_GTID_EVENT,
)
"""Types of events that begin a group, in logs of current servers; the kernel searches for these."""

LOG_ENDS: Final = (EventType.STOP_EVENT, EventType.ROTATE_EVENT)


class HeaderFlag(IntFlag):
    """libs/mysql/binlog/event/binlog_event.h, LOG_EVENT_*_F; MariaDB: sql/log_event.h."""

    BINLOG_IN_USE = 0x1
    FORCED_ROTATE = 0x2  # retired
    THREAD_SPECIFIC = 0x4
    SUPPRESS_USE = 0x8
    UPDATE_TABLE_MAP_VERSION = 0x10  # retired
    ARTIFICIAL = 0x20
    RELAY_LOG = 0x40
    IGNORABLE = 0x80
    NO_FILTER = 0x100
    MTS_ISOLATE = 0x200
    SKIP_REPLICATION = 0x8000  # MariaDB


class ChecksumAlgorithm(IntEnum):
    """libs/mysql/binlog/event/binlog_event.h, enum enum_binlog_checksum_alg."""

    OFF = 0
    CRC32 = 1
    UNDEFINED = 255


class RowsFlag(IntFlag):
    """libs/mysql/binlog/event/rows_event.h, Rows_event::enum_flag."""

    STMT_END = 0x1
    NO_FOREIGN_KEY_CHECKS = 0x2
    RELAXED_UNIQUE_CHECKS = 0x4
    COMPLETE_ROWS = 0x8
    USE_SQL_FOREIGN_KEY = 0x10  # since 9.6


class TableMapFlag(IntFlag):
    """libs/mysql/binlog/event/rows_event.h, Table_map_event::enum_flag; sql/log_event.h, TM_*."""

    BIT_LEN_EXACT = 0x1
    REFERRED_FK_DB = 0x2
    GENERATED_INVISIBLE_PK = 0x4
    HAS_TRIGGERS = 0x4000  # MariaDB, which assigns its flags from the high bits down


class ColumnType(IntEnum):
    """include/field_types.h, enum enum_field_types; MariaDB: include/mysql_com.h."""

    DECIMAL = 0
    TINY = 1
    SHORT = 2
    LONG = 3
    FLOAT = 4
    DOUBLE = 5
    NULL = 6
    TIMESTAMP = 7
    LONGLONG = 8
    INT24 = 9
    DATE = 10
    TIME = 11
    DATETIME = 12
    YEAR = 13
    NEWDATE = 14
    VARCHAR = 15
    BIT = 16
    TIMESTAMP2 = 17
    DATETIME2 = 18
    TIME2 = 19
    TYPED_ARRAY = 20
    BLOB_COMPRESSED = 140  # MariaDB
    VARCHAR_COMPRESSED = 141  # MariaDB
    VECTOR = 242
    INVALID = 243
    BOOL = 244
    JSON = 245
    NEWDECIMAL = 246
    ENUM = 247
    SET = 248
    TINY_BLOB = 249
    MEDIUM_BLOB = 250
    LONG_BLOB = 251
    BLOB = 252
    VAR_STRING = 253
    STRING = 254
    GEOMETRY = 255


class QueryStatus(IntEnum):
    """libs/mysql/binlog/event/statement_events.h, Query_event::Query_event_status_vars.

    MariaDB: Q_* in sql/log_event.h.
    """

    FLAGS2 = 0
    SQL_MODE = 1
    CATALOG = 2  # with a trailing zero byte: 5.0.0 to 5.0.3 only
    AUTO_INCREMENT = 3
    CHARSET = 4
    TIME_ZONE = 5
    CATALOG_NZ = 6
    LC_TIME_NAMES = 7
    CHARSET_DATABASE = 8
    TABLE_MAP_FOR_UPDATE = 9
    MASTER_DATA_WRITTEN = 10
    INVOKER = 11
    UPDATED_DB_NAMES = 12
    MICROSECONDS = 13
    COMMIT_TS = 14  # retired
    COMMIT_TS2 = 15  # retired
    EXPLICIT_DEFAULTS_FOR_TIMESTAMP = 16
    DDL_LOGGED_WITH_XID = 17
    DEFAULT_COLLATION_FOR_UTF8MB4 = 18
    SQL_REQUIRE_PRIMARY_KEY = 19
    DEFAULT_TABLE_ENCRYPTION = 20
    UNNAMED_21 = 21  # since 9.7: one byte, 0 in all known logs (fixtures: mysql97/format_statement)
    MARIADB_HRNOW = 128
    MARIADB_XID = 129
    MARIADB_GTID_FLAGS3 = 130
    MARIADB_CHARACTER_SET_COLLATIONS = 131


class OptionalMetadataType(IntEnum):
    """libs/mysql/binlog/event/rows_event.h, Table_map_event::Optional_metadata_field_type."""

    SIGNEDNESS = 1
    DEFAULT_CHARSET = 2
    COLUMN_CHARSET = 3
    COLUMN_NAME = 4
    SET_STR_VALUE = 5
    ENUM_STR_VALUE = 6
    GEOMETRY_TYPE = 7
    SIMPLE_PRIMARY_KEY = 8
    PRIMARY_KEY_WITH_PREFIX = 9
    ENUM_AND_SET_DEFAULT_CHARSET = 10
    ENUM_AND_SET_COLUMN_CHARSET = 11
    COLUMN_VISIBILITY = 12
    VECTOR_DIMENSIONALITY = 13


DATE_AS_TEXT: Final = {b"binlogio": b"date"}
"""Metadata of the Arrow field of a DATE, DATETIME or TIMESTAMP column whose values are text (`zero_dates="text"`)."""
