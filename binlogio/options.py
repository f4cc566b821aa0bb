"""Options of readers, and the server variables that determine the content of a log, as frozen dataclasses.

Defines names, defaults and ranges of the variables, and which of them a session can set.

Source of the variables: sql/sys_vars.cc of MySQL and of MariaDB. Defaults and limits are those of a 9.7.4 server.
"""

from __future__ import annotations

import re
from dataclasses import fields
from typing import Final, NamedTuple

from binlogio.errors import UnsupportedFeature
from binlogio.frozen import dataclass


class Position(NamedTuple):
    """A position in a log.

    `offset` is in bytes from the start of the file and has no limit, unlike the 32-bit log_pos of events.
    """

    file: str
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The largest sizes that are accepted, in bytes; a larger size is refused before memory is allocated.

    Args:
        event_size: the size of an event as stored. No server replicates more than its max_allowed_packet, which is at
            most 1 GiB.
        opened_size: the size after decompression of data that must be in memory as a whole: a compressed event of
            MariaDB, a value of a compressed column of MariaDB, an event inside a compressed transaction. A compressed
            transaction itself may have any size.
    """

    event_size: int = 1 << 30
    opened_size: int = 1 << 28


DEFAULT_LIMITS: Final = Limits()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """Options of a reader.

    Args:
        verify_checksum: verify the CRC32 of every event that has one.
        start_offset: in the first file, skip events before this offset, which must be the start of an event or the end
            of the file.
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
    """The server variables that determine the content of a log, with the server's names, defaults and ranges.

    Sizes are in bytes, delays in microseconds. A value that is out of range is refused; the server would clip it. The
    variables in SESSION_VARIABLES are the initial values of a session, which the session can change.

    Two defaults differ from a 9.7 server. `binlog_row_metadata` is FULL (server: MINIMAL), because readers need the
    column names. `enforce_gtid_consistency` is None, which follows `gtid_mode` (server: always ON, which is stricter
    than necessary if gtid_mode is OFF).

    `server_uuid`, `server_id` and `gtid_domain_id` identify the server. None stands for those of the logs that a writer
    continues; for new logs it stands for a new UUID, for 1 and for 0.
    `server_version` is a version of MySQL from 5.0 on or of MariaDB from 5.5 on (`binlogio.writer.server_format` lists
    them); a line, such as `8.0` or `10.6`, is its last release (`LAST_RELEASES`). A variable
    that this version does not have is ignored: a log of 5.5 has no checksums, GTIDs and row images.
    The defaults are those of 9.7 for every version.
    `rule_set` names the rules of an older server (`binlogio.writer.rules.rule_sets`); None uses the rules of
    `server_version`.
    `binlog_transaction_dependency_tracking` was removed from the server in 8.4, which always uses WRITESET.
    `mysql56_temporal_format` is a variable of MariaDB. With False, TIME, DATETIME and TIMESTAMP columns of all tables
    are written in the formats of MariaDB 5.3. The log then does not contain their fraction digits; readers need a table
    definition or the DDL.
    `binlog_encryption` is a variable of MySQL, `encrypt_binlog` of MariaDB; both need the server's keyring.
    `file_key_management_encryption_algorithm` is the encryption of MariaDB's events: AES_CBC or AES_CTR.
    `gtid_seq_no` is the sequence number of the next group only; 0 assigns the next free number.

    Raises:
        UnsupportedFeature: a value is invalid, or does not fit the vendor or another variable.
    """

    server_version: str = "9.7.0"
    server_id: int | None = None
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
    gtid_domain_id: int | None = None
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
        """Check the values, convert names to capital letters, and complete the server version."""
        if not isinstance(self.server_version, str):
            raise _refused("server_version", "a text such as '8.0'", self.server_version)
        object.__setattr__(self, "server_version", whole_version(self.server_version))
        for name, allowed in VARIABLE_CHOICES.items():
            found = getattr(self, name)
            if found is None:
                continue
            value = str(found).upper()
            if value not in allowed:
                raise _refused(name, " or ".join(repr(choice) for choice in allowed), found)
            object.__setattr__(self, name, value)
        for name, (low, high) in VARIABLE_RANGES.items():
            found = getattr(self, name)
            if found is not None and not low <= found <= high:
                raise _refused(name, f"{low} to {high}", found)
        if self.binlog_row_metadata == "NO_LOG" and not self.is_mariadb:
            raise _refused("binlog_row_metadata", "'MINIMAL' or 'FULL' for a MySQL server", self.binlog_row_metadata)
        if self.gtid_mode == "ON" and self.gtid_consistency != "ON" and not self.is_mariadb:
            raise _refused("enforce_gtid_consistency", "ON, because gtid_mode is ON", self.enforce_gtid_consistency)

    @property
    def is_mariadb(self) -> bool:
        """True if `server_version` is a version of MariaDB."""
        return "MariaDB" in self.server_version

    @property
    def server_id_in_effect(self) -> int:
        """`server_id`, or the server's default."""
        return 1 if self.server_id is None else self.server_id

    @property
    def gtid_consistency(self) -> str:
        """ON, OFF or WARN: whether statements that violate GTID consistency are refused, allowed, or cause a warning.

        Always OFF for MariaDB, whose GTIDs have no such restriction.
        """
        if self.is_mariadb:
            return "OFF"
        if self.enforce_gtid_consistency is not None:
            return self.enforce_gtid_consistency
        return "ON" if self.gtid_mode == "ON" else "OFF"


LAST_RELEASES: Final = {
    "5.0": "5.0.96", "5.1": "5.1.73", "5.5": "5.5.62", "5.6": "5.6.51", "5.7": "5.7.44", "8.0": "8.0.44",
    "8.4": "8.4.7", "9": "9.7.0", "5.5-MariaDB": "5.5.68-MariaDB", "10.0": "10.0.38", "10.1": "10.1.48",
    "10.2": "10.2.44", "10.3": "10.3.39", "10.4": "10.4.34", "10.5": "10.5.29", "10.6": "10.6.24",
    "10.11": "10.11.18", "11.4": "11.4.9", "11.8": "11.8.9",
}  # fmt: skip
"""The last release of each line of servers that this version of binlogio knows."""


def whole_version(version: str) -> str:
    """Return `8.0` as `8.0.44`, `10.6` as `10.6.24-MariaDB`, `9.3` as `9.3.0`; a version of three numbers as it is.

    Versions from 10 on are those of MariaDB.
    """
    line = version.removesuffix("-MariaDB")
    found = LAST_RELEASES.get(version) or LAST_RELEASES.get(line) or line
    found = f"{found}.0" if re.fullmatch(r"\d+\.\d+", found) else found
    is_mariadb = version != line or re.match(r"\d\d", found) is not None
    return f"{found}-MariaDB" if is_mariadb and "MariaDB" not in found else found


def _refused(name: str, expected: str, found: object) -> UnsupportedFeature:
    return UnsupportedFeature("invalid value of a server variable", field=name, expected=expected, found=repr(found))


ISOLATION_LEVELS: Final = ("READ-UNCOMMITTED", "READ-COMMITTED", "REPEATABLE-READ", "SERIALIZABLE")
"""The isolation levels, from the weakest to the strongest."""

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
"""The allowed values of each enumerated variable, in capital letters."""
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
"""The smallest and the largest value of each numeric variable."""
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
"""The variables that a session can set, with a MySQL server version."""
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
"""The variables that a session can set, with a MariaDB server version."""
