"""The options of `format("binlog")`: names, defaults and conflicts.

Follows Spark's conventions: names in lowerCamelCase, accepted in any case; `path` and `paths`. A name that is not in
the table below is refused, with the nearest name that is.

    path, paths                        a file, glob, directory, .index file or URI; `paths` is a JSON array, as load([...]) gives
    view                               rows (default) | events | transactions | cdf
    table                              one table, as schema.table: `before` and `after` are then structs of its columns
    tables                             globs for schema.table, separated by commas
    columns                            names of the table's columns that `before` and `after` shall have
    imageType                          json (default) | variant: what `before` and `after` are without table. Spark's own parse_json is
                                       quicker where not every record is needed
    images                             both (default) | before | after: the other image is left out, of view rows
    schemaFile                         table definitions for logs with binlog_row_metadata=MINIMAL: .sql or .json; or JSON itself, of
                                       which those are passed over that do not fit a table
    zeroDates                          error (default) | null | text
    startingTimestamp, endingTimestamp   transactions from the one on, and before the other, by the time of their events
    startingGtids, endingGtids         leave out the transactions of the one set (they are known), and those not in the other. Of MariaDB,
                                       the last GTID of each domain
    startingPosition, endingPosition   file:offset; earlier files and transactions are left out, and those from the other on
    pathGlobFilter                     read only the files whose name matches; with {a,b}
    recursiveFileLookup                true | false: look into the directories of a directory
    ignoreMissingFiles                 true | false: a file that is not there is no error
    changedLogs                        error (default) | restart: a stream whose checkpoint is of other logs (RESET, failover, a restored
                                       backup) ends with an error, or goes on with the first log that is there
    mode                               FAILFAST (default) | PERMISSIVE | DROPMALFORMED: how damage is handled
    schemaChanges                      error (default) | ignore: a change whose table has other columns than the read (ALTER).
                                       It is treated as damage (`mode`); or columns that the read lacks are left out,
                                       and those that the table lacks are NULL
    columnNameOfCorruptRecord          the column in which PERMISSIVE says what was wrong; `_corrupt_record`
    maxPartitionBytes                  of one task; 128m
    splitMode                          ranges (default) | scan | files: how a file is cut. By bytes, and tasks look for event groups; by groups,
                                       which the driver finds by going through the files, safe against forged values; or
                                       not
    verifyChecksum                     true | false
    keyring                            the server's keys for encrypted logs: a file on the driver, or its text
    maxFilesPerTrigger, maxBytesPerTrigger   of one batch of a stream

Those of a write are `path`, `table` and `schemaFile` (what the tables' columns are in MySQL), and:

    basename                           of the logs; binlog
    serverVersion                      whose logs they are like: 8.0.20 to 8.0.25, 9.x; 9.7.0
    maxBinlogSize                      a log ends with the transaction that reaches it; 1g
    binlogChecksum                     CRC32 (default) | NONE
    txnAppId, txnVersion               of a frame that may be written again: a version of the application is written once. For a stream
                                       txnAppId replaces the checkpoint, and the batch is the version
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any, Final

from pyspark_binlogio import option_values as values
from pyspark_binlogio.option_values import BinlogOptionError, nearest

__all__ = ["VIEW_NAMES", "BinlogOptionError", "BinlogOptions", "TableFilter", "nearest"]

NO_TABLES: Final = (
    "CREATE TABLE ... USING binlog is not possible, since Spark does not give a Python source the path and the options of the table when it is "
    "read or written; use CREATE TEMPORARY VIEW name USING binlog OPTIONS (path '/var/lib/mysql/binlog.*')"
)
VIEW_NAMES: Final = ("rows", "events", "transactions", "cdf")
DEFAULT_MAX_PARTITION_BYTES: Final = 128 << 20


@dataclass(frozen=True, slots=True)
class TableFilter:
    """Which tables a user wants: one by its name, or all that match a glob; all of them where neither is given."""

    table: str | None = None
    globs: tuple[str, ...] = ()

    def __call__(self, schema: str | None, table: str | None) -> bool:
        """Return True where the table is wanted; False for what belongs to no table."""
        name = f"{schema}.{table}"
        if schema is None or table is None:
            return False
        return name == self.table or any(fnmatchcase(name, glob) for glob in self.globs)

    def __bool__(self) -> bool:
        """Return True where not every table is wanted."""
        return self.table is not None or bool(self.globs)


@dataclass(frozen=True, slots=True, kw_only=True)
class BinlogOptions:
    """The options of one read. `paths` are absolute, or URIs; `keyring` may hold keys and is never shown.

    Times are in seconds.
    """

    paths: tuple[str, ...] = ()
    view: str = VIEW_NAMES[0]
    tables: TableFilter = field(default_factory=TableFilter)
    columns: tuple[str, ...] | None = None
    images: str = "both"
    image_type: str = "json"
    schema_file: str | None = None
    zero_dates: str = "error"
    starting_timestamp: int | None = None
    ending_timestamp: int | None = None
    starting_gtids: str | None = None
    ending_gtids: str | None = None
    starting_position: tuple[str, int] | None = None
    ending_position: tuple[str, int] | None = None
    path_glob_filter: tuple[str, ...] = ()
    recursive_file_lookup: bool = False
    ignore_missing_files: bool = False
    changed_logs: str = "error"
    mode: str = "FAILFAST"
    schema_changes: str = "error"
    column_name_of_corrupt_record: str = "_corrupt_record"
    max_partition_bytes: int = DEFAULT_MAX_PARTITION_BYTES
    split_mode: str = "ranges"
    verify_checksum: bool = True
    keyring: str | None = field(default=None, repr=False)
    max_files_per_trigger: int | None = None
    max_bytes_per_trigger: int | None = None
    basename: str = "binlog"
    server_version: str | None = None
    max_binlog_size: int | None = None
    binlog_checksum: str | None = None
    txn_app_id: str | None = None
    txn_version: int | None = None
    checkpoint_location: str | None = None
    given: frozenset[str] = field(default=frozenset(), compare=False)  # names, for `refuse_others`

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> BinlogOptions:
        """Take the options as Spark gives them; the case of their names does not matter.

        Raises:
            BinlogOptionError: an unknown name, an invalid value, or two that contradict each other.
        """
        parsed = {}
        for any_case, value in options.items():
            name = _known(any_case)
            parsed[name] = _OPTIONS[name][1](name, value)
        given = frozenset(parsed)
        _refuse_contradictions(parsed)
        tables = TableFilter(parsed.pop("table", None), parsed.pop("tables", ()))
        paths = parsed.pop("path", ()) + parsed.pop("paths", ())
        fields = {_OPTIONS[name][0]: value for name, value in parsed.items()}
        return cls(paths=paths, tables=tables, given=given, **fields)

    def require_paths(self) -> None:
        """Refuse a read of nothing.

        Raises:
            BinlogOptionError: no path.
        """
        if not self.paths:
            raise BinlogOptionError(
                f'binlog: no path is given; pass one, such as load("/var/lib/mysql/binlog.*"). {NO_TABLES}'
            )

    def refuse_others(self, *, writes: bool) -> None:
        """Refuse options that only a write has, or only a read.

        Raises:
            BinlogOptionError: such an option is given.
        """
        others = self.given - _WRITE_OPTIONS - _BOTH if writes else self.given & _WRITE_OPTIONS
        if others:
            one, other = ("reads only", "is a write") if writes else ("writes only", "is a read")
            raise BinlogOptionError(f"binlog: option {min(others)} is for {one}, and this {other}")

    def wants_file(self, name: str) -> bool:
        """Return True where `pathGlobFilter` lets a file of this name (without its directory) through."""
        return not self.path_glob_filter or any(fnmatchcase(name, glob) for glob in self.path_glob_filter)


def _refuse_contradictions(parsed: Mapping[str, Any]) -> None:
    if "table" in parsed and "tables" in parsed:
        raise BinlogOptionError("binlog: give either table or tables, not both")
    if "columns" in parsed and "table" not in parsed:
        raise BinlogOptionError("binlog: option columns needs table, since it names the columns of one table")
    if parsed.get("imageType") == "variant" and "table" in parsed:
        raise BinlogOptionError(
            "binlog: option table gives typed images, imageType=variant gives VARIANT; set only one of them"
        )
    if parsed.get("view", VIEW_NAMES[0]) != "rows" and not parsed.keys().isdisjoint(("images", "imageType")):
        raise BinlogOptionError("binlog: options images and imageType apply to view rows only")
    if parsed.get("view") == "cdf" and "table" not in parsed:
        raise BinlogOptionError("binlog: view cdf needs table: its columns are those of one table")
    if "maxFilesPerTrigger" in parsed and "maxBytesPerTrigger" in parsed:
        raise BinlogOptionError(
            "binlog: set either maxFilesPerTrigger or maxBytesPerTrigger, not both: Spark accepts one limit"
        )


def _known(name: str) -> str:
    for known in _OPTIONS:
        if known.lower() == name.lower():
            return known
    if name.lower() in _TABLE_PROPERTIES:
        raise BinlogOptionError(f"binlog: {name!r} is a property of a table, not an option: {NO_TABLES}")
    names = tuple(_OPTIONS)
    raise BinlogOptionError(
        f"binlog: unknown option {name!r}; did you mean {nearest(name, names)!r}? Options: {', '.join(names)}"
    )


_OPTIONS: Final[dict[str, tuple[str, Callable[[str, str], Any]]]] = {
    "path": ("paths", values.path),
    "paths": ("paths", values.paths),
    "view": ("view", values.choice(*VIEW_NAMES)),
    "table": ("tables", values.table),
    "tables": ("tables", values.table_globs),
    "columns": ("columns", values.names),
    "imageType": ("image_type", values.choice("json", "variant")),
    "images": ("images", values.choice("both", "before", "after")),
    "schemaFile": ("schema_file", values.text),
    "zeroDates": ("zero_dates", values.choice("error", "null", "text")),
    "startingTimestamp": ("starting_timestamp", values.moment),
    "endingTimestamp": ("ending_timestamp", values.moment),
    "startingGtids": ("starting_gtids", values.gtid_set),
    "endingGtids": ("ending_gtids", values.gtid_set),
    "startingPosition": ("starting_position", values.position),
    "endingPosition": ("ending_position", values.position),
    "pathGlobFilter": ("path_glob_filter", values.file_globs),
    "recursiveFileLookup": ("recursive_file_lookup", values.boolean),
    "ignoreMissingFiles": ("ignore_missing_files", values.boolean),
    "changedLogs": ("changed_logs", values.choice("error", "restart")),
    "mode": ("mode", values.choice("FAILFAST", "PERMISSIVE", "DROPMALFORMED")),
    "schemaChanges": ("schema_changes", values.choice("error", "ignore")),
    "columnNameOfCorruptRecord": ("column_name_of_corrupt_record", values.text),
    "maxPartitionBytes": ("max_partition_bytes", values.size),
    "splitMode": ("split_mode", values.choice("ranges", "scan", "files")),
    "verifyChecksum": ("verify_checksum", values.boolean),
    "keyring": ("keyring", values.text),
    "maxFilesPerTrigger": ("max_files_per_trigger", values.count),
    "maxBytesPerTrigger": ("max_bytes_per_trigger", values.size),
    "basename": ("basename", values.file_name),
    "serverVersion": ("server_version", values.text),
    "maxBinlogSize": ("max_binlog_size", values.size),
    "binlogChecksum": ("binlog_checksum", values.choice("CRC32", "NONE")),
    "txnAppId": ("txn_app_id", values.text),
    "txnVersion": ("txn_version", values.number),
    "checkpointLocation": ("checkpoint_location", values.text),
}
_TABLE_PROPERTIES: Final = frozenset(
    ("owner", "location", "provider", "comment", "external", "is_managed_location", "collation", "table_type")
)
"""What Spark gives a source as options when a table is created. Source: TableCatalog, reserved properties."""

_WRITE_OPTIONS: Final = frozenset(
    (
        "basename",
        "serverVersion",
        "maxBinlogSize",
        "binlogChecksum",
        "txnAppId",
        "txnVersion",
        "checkpointLocation",
    )
)
_BOTH: Final = frozenset(("path", "paths", "table", "schemaFile", "columnNameOfCorruptRecord"))
