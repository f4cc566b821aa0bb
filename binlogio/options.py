"""Options of readers and writers, and the server's variables that shape a log, as frozen values.

Defines names, defaults and ranges, and which variables each session can set.

Source of the variables: sql/sys_vars.cc; the defaults of a 9.7.4 server, and the values to which it changes 0 and
2**64 - 1; MariaDB: sql/sys_vars.cc.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Final, NamedTuple

from binlogio.errors import UnsupportedFeature
from binlogio.frozen import dataclass


class Position(NamedTuple):
    """A place in a log.

    `offset` in bytes from the start of the file, 64 bits: it never wraps, unlike the log_pos of events.
    """

    file: str
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The largest sizes that a log may claim, in bytes; an event beyond them is refused before memory is taken.

    Args:
        event_size: of an event as stored. No server replicates more than its max_allowed_packet, which is 1 GiB at
            most.
        opened_size: of compressed data that is kept in memory as a whole after decompression: a compressed event of
            MariaDB, a value of one of its compressed columns, an event inside a compressed transaction. A compressed
            transaction itself may have any size.
    """

    event_size: int = 1 << 30
    opened_size: int = 1 << 28


DEFAULT_LIMITS: Final = Limits()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """How to read.

    Args:
        verify_checksum: compare the CRC32 of every event with its bytes.
        start_offset: in the first file, skip events before this offset, which must be the start of an event.
        stop_offset: in the last file, stop before the first event at or after this offset.
        open_payloads: return the events inside compressed transactions as well.
        limits: the largest sizes that are accepted.
    """

    verify_checksum: bool = True
    start_offset: int | None = None
    stop_offset: int | None = None
    open_payloads: bool = True
    limits: Limits = DEFAULT_LIMITS


DEFAULT_READ_OPTIONS: Final = ReadOptions()

_UINT32_MAX: Final = (1 << 32) - 1
IO_SIZE: Final = 4096
"""The unit of cache sizes, in bytes."""
_LARGEST_CACHE: Final = (1 << 64) - IO_SIZE


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerVariables:
    """The server's variables that shape a log, with the server's names, defaults and ranges.

    Sizes are in bytes, delays in microseconds. A value out of range is refused, not clipped as the server does. Those
    in SESSION_VARIABLES are what a session starts with, and may be set by it.

    Two defaults are not those of a 9.7 server. `binlog_row_metadata` is FULL (server: MINIMAL), because readers need
    the column names. `enforce_gtid_consistency` is None, which follows `gtid_mode` (server: always ON, which is
    stricter than necessary if gtid_mode is OFF).

    `rule_set` names the rules of an older server (`binlogio.writer.rules.rule_sets`); None: those of `server_version`.
    `binlog_transaction_dependency_tracking` was removed from the server in 8.4, which always uses WRITESET.

    `server_version` is any of MySQL from 5.0 and MariaDB from 5.5 (`binlogio.writer.server_format` lists them). A
    variable that it does not have is ignored: a log of 5.5 has no checksums, GTIDs and row images. The defaults are
    those of 9.7 for every version.
    `mysql56_temporal_format` is MariaDB's; False: TIME, DATETIME and TIMESTAMP of all tables have the formats of
    MariaDB 5.3, as in tables that a server created with OFF. Their fraction digits are only in a definition or the DDL.
    `binlog_encryption` is MySQL's, `encrypt_binlog` MariaDB's; a writer that has them ON needs the server's keyring.
    `file_key_management_encryption_algorithm` is how MariaDB's events are encrypted: AES_CBC or AES_CTR.
    `gtid_seq_no` applies to one group; 0 is the next number.
    """

    server_version: str = "9.7.0"
    server_id: int = 1
    server_uuid: str | None = None
    rule_set: str | None = None
    binlog_format: str = "ROW"
    binlog_row_image: str = "FULL"
    binlog_row_metadata: str = "FULL"
    binlog_row_value_options: str = ""
    binlog_rows_query_log_events: bool = False
    binlog_row_event_max_size: int = 8192
    binlog_checksum: str = "CRC32"
    binlog_transaction_compression: bool = False
    binlog_transaction_compression_level_zstd: int = 3
    binlog_direct_non_transactional_updates: bool = False
    binlog_cache_size: int = 8 * IO_SIZE
    binlog_stmt_cache_size: int = 8 * IO_SIZE
    max_binlog_cache_size: int = _LARGEST_CACHE
    max_binlog_stmt_cache_size: int = _LARGEST_CACHE
    max_binlog_size: int = 1 << 30
    sync_binlog: int = 1
    gtid_mode: str = "ON"
    enforce_gtid_consistency: str | None = None
    binlog_order_commits: bool = True
    binlog_group_commit_sync_delay: int = 0
    binlog_group_commit_sync_no_delay_count: int = 0
    binlog_transaction_dependency_tracking: str = "WRITESET"
    binlog_transaction_dependency_history_size: int = 10_000_000
    binlog_error_action: str = "ABORT_SERVER"
    transaction_isolation: str = "REPEATABLE-READ"
    sql_log_bin: bool = True
    gtid_domain_id: int = 0
    gtid_seq_no: int = 0
    skip_parallel_replication: bool = False
    binlog_annotate_row_events: bool = True
    binlog_alter_two_phase: bool = False
    log_bin_compress: bool = False
    log_bin_compress_min_len: int = 256
    mysql56_temporal_format: bool = True
    binlog_encryption: bool = False
    encrypt_binlog: bool = False
    file_key_management_encryption_algorithm: str = "AES_CBC"

    def __post_init__(self) -> None:
        """Refuse values that the server does not accept."""
        for name, allowed in VARIABLE_CHOICES.items():
            found = getattr(self, name)
            if found is None:
                continue
            value = str(found).upper()
            if value not in allowed:
                raise _refused(name, " or ".join(repr(choice) for choice in allowed), found)
            object.__setattr__(self, name, value)
        for name, (low, high) in VARIABLE_RANGES.items():
            if not low <= getattr(self, name) <= high:
                raise _refused(name, f"{low} to {high}", getattr(self, name))
        if self.binlog_row_metadata == "NO_LOG" and not self.is_mariadb:
            raise _refused("binlog_row_metadata", "'MINIMAL' or 'FULL' for a MySQL server", self.binlog_row_metadata)
        if self.gtid_mode == "ON" and self.gtid_consistency != "ON" and not self.is_mariadb:
            raise _refused("enforce_gtid_consistency", "ON, because gtid_mode is ON", self.enforce_gtid_consistency)

    @property
    def is_mariadb(self) -> bool:
        """True for MariaDB servers, by their version text."""
        return "MariaDB" in self.server_version

    @property
    def gtid_consistency(self) -> str:
        """ON, OFF or WARN: whether statements that break GTID consistency are refused.

        MariaDB's GTIDs can identify any statement.
        """
        if self.is_mariadb:
            return "OFF"
        if self.enforce_gtid_consistency is not None:
            return self.enforce_gtid_consistency
        return "ON" if self.gtid_mode == "ON" else "OFF"


def _refused(name: str, expected: str, found: object) -> UnsupportedFeature:
    return UnsupportedFeature("invalid value of a server variable", field=name, expected=expected, found=repr(found))


ISOLATION_LEVELS: Final = ("READ-UNCOMMITTED", "READ-COMMITTED", "REPEATABLE-READ", "SERIALIZABLE")
"""From the weakest to the strongest."""

VARIABLE_CHOICES: Final = {
    "binlog_format": ("ROW", "STATEMENT", "MIXED"),
    "binlog_row_image": ("FULL", "MINIMAL", "NOBLOB", "FULL_NODUP"),
    "binlog_row_metadata": ("NO_LOG", "MINIMAL", "FULL"),
    "binlog_row_value_options": ("", "PARTIAL_JSON"),
    "binlog_checksum": ("NONE", "CRC32"),
    "gtid_mode": ("OFF", "OFF_PERMISSIVE", "ON_PERMISSIVE", "ON"),
    "enforce_gtid_consistency": ("OFF", "ON", "WARN"),
    "binlog_transaction_dependency_tracking": ("COMMIT_ORDER", "WRITESET", "WRITESET_SESSION"),
    "binlog_error_action": ("ABORT_SERVER", "IGNORE_ERROR"),
    "transaction_isolation": ISOLATION_LEVELS,
    "file_key_management_encryption_algorithm": ("AES_CBC", "AES_CTR"),
}
"""The values of a variable that has a few, in capital letters."""
VARIABLE_RANGES: Final = {
    "server_id": (0, _UINT32_MAX),
    "binlog_row_event_max_size": (256, _UINT32_MAX),
    "binlog_transaction_compression_level_zstd": (1, 22),
    "binlog_cache_size": (IO_SIZE, _LARGEST_CACHE),
    "binlog_stmt_cache_size": (IO_SIZE, _LARGEST_CACHE),
    "max_binlog_cache_size": (IO_SIZE, _LARGEST_CACHE),
    "max_binlog_stmt_cache_size": (IO_SIZE, _LARGEST_CACHE),
    "max_binlog_size": (4096, 1 << 30),
    "sync_binlog": (0, _UINT32_MAX),
    "binlog_group_commit_sync_delay": (0, 1_000_000),
    "binlog_group_commit_sync_no_delay_count": (0, 100_000),
    "binlog_transaction_dependency_history_size": (1, 100_000_000),
    "gtid_domain_id": (0, _UINT32_MAX),
    "gtid_seq_no": (0, (1 << 64) - 1),
    "log_bin_compress_min_len": (10, 1024),
}
"""The least and the largest number."""
VARIABLE_NAMES: Final = tuple(field.name for field in fields(ServerVariables))
SESSION_VARIABLES: Final = frozenset(
    (
        "binlog_direct_non_transactional_updates",
        "binlog_format",
        "binlog_row_image",
        "binlog_row_value_options",
        "binlog_rows_query_log_events",
        "binlog_transaction_compression",
        "binlog_transaction_compression_level_zstd",
        "sql_log_bin",
        "transaction_isolation",
    )
)
"""The variables that each session can set."""
MARIADB_SESSION_VARIABLES: Final = (
    SESSION_VARIABLES
    - {
        "binlog_row_value_options",
        "binlog_rows_query_log_events",
        "binlog_transaction_compression",
        "binlog_transaction_compression_level_zstd",
    }
) | {
    "binlog_alter_two_phase",
    "binlog_annotate_row_events",
    "gtid_domain_id",
    "gtid_seq_no",
    "server_id",
    "skip_parallel_replication",
}
"""The same with MariaDB."""
