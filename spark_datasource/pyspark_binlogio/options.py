"""The options of `format("binlog")`: names, defaults and conflicts.

Follows Spark's conventions: names in lowerCamelCase, accepted in any case; `path` and `paths`. An unknown name is
refused, with the nearest name of the table below.

    path, paths                a file, glob, directory, .index file or URI; `paths` is a JSON array, as of load([...])
    view                       rows (default) | events | transactions | cdf
    table                      one table, as schema.table: `before` and `after` are then structs of its columns
    tables                     globs for schema.table, separated by commas
    columns                    names of the table's columns to read into `before` and `after`
    imageType                  json (default) | variant: the type of `before` and `after` without `table`. Spark's own
                               parse_json is faster if not every record is needed
    images                     both (default) | before | after: omit the other image, in view rows
    schemaFile                 table definitions for logs with binlog_row_metadata=MINIMAL: a .sql or .json file, or
                               JSON itself; definitions in JSON that do not fit a table are ignored
    followDdl                  auto (default) | true | false: take the names and types of columns from the DDL in the
                               logs, for which the driver scans their headers. auto: where rows have no names and
                               schemaFile is not set, up to 1 GiB of logs
    zeroDates                  error (default) | null | text
    startingTimestamp          read transactions from this time on, by the time of their events
    endingTimestamp            read transactions before this time
    timestampSlack             how far the time of an event is at most from the moment at which it was logged, such as
                               1h: logs of other moments are not read for filters on time. Not set: all logs are read,
                               since sessions may set any time
    startingGtids              omit the transactions of this GTID set (they are known). Of MariaDB: the last GTID of
                               each domain
    endingGtids                omit the transactions that are not in this GTID set
    startingPosition           file:offset; omit earlier files and transactions
    endingPosition             file:offset; omit the transactions from there on
    pathGlobFilter             read only the files whose name matches; with {a,b}
    recursiveFileLookup        true | false: read the directories below a directory too
    ignoreMissingFiles         true | false: a missing file is not an error
    changedLogs                error (default) | restart: a stream whose checkpoint belongs to other logs (RESET,
                               failover, a restored backup) ends with an error, or restarts at the first existing log
    mode                       FAILFAST (default) | PERMISSIVE | DROPMALFORMED: how damage is handled
    schemaChanges              error (default) | ignore: how a change is handled whose table has other columns than the
                               read (ALTER). error: as damage (`mode`). ignore: columns that the read lacks are omitted,
                               and those that the table lacks are NULL
    columnNameOfCorruptRecord  the column for the error text with PERMISSIVE; `_corrupt_record`
    maxPartitionBytes          of one task; 128m
    splitMode                  ranges (default) | scan | files: how a file is cut. ranges: by bytes; tasks search for
                               event groups. scan: between groups, which the driver finds by reading the event headers;
                               forged values cannot mislead it. files: not at all
    verifyChecksum             true | false
    keyring                    the server's keys for encrypted logs: a file on the driver, or its text
    maxFilesPerTrigger         limit of a batch of a stream
    maxBytesPerTrigger         limit of a batch of a stream

The options of a write are `path`, `table` and `schemaFile` (the columns of the tables in MySQL), and:

    basename                   of the logs; binlog
    serverVersion              the MySQL version whose logs are written, from 5.6 on; 9.7.0
    maxBinlogSize              a log ends with the transaction that reaches it; 1g
    binlogChecksum             CRC32 (default) | NONE
    txnAppId, txnVersion       of a frame that may be written again: a version of the application is written once. For
                               a stream txnAppId replaces the checkpoint, and the batch is the version
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
    "CREATE TABLE ... USING binlog is not possible, since Spark does not give a Python source the path and the "
    "options of the table when it is read or written; use CREATE TEMPORARY VIEW name USING binlog "
    "OPTIONS (path '/var/lib/mysql/binlog.*')"
)
VIEW_NAMES: Final = ("rows", "events", "transactions", "cdf")
DEFAULT_MAX_PARTITION_BYTES: Final = 128 << 20


@dataclass(frozen=True, slots=True)
class TableFilter:
    """The selected tables: one by its name, or all that match a glob; all tables if neither is given."""

    table: str | None = None
    globs: tuple[str, ...] = ()

    def __call__(self, schema: str | None, table: str | None) -> bool:
        """Return True if the table is selected; False for events without a table."""
        name = f"{schema}.{table}"
        if schema is None or table is None:
            return False
        return name == self.table or any(fnmatchcase(name, glob) for glob in self.globs)

    def __bool__(self) -> bool:
        """Return True if not every table is selected."""
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
    follow_ddl: str = "auto"
    zero_dates: str = "error"
    starting_timestamp: int | None = None
    ending_timestamp: int | None = None
    timestamp_slack: int | None = None
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
        """Parse the options as Spark passes them; the case of their names does not matter.

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
        """Refuse options without a path.

        Raises:
            BinlogOptionError: no path is given.
        """
        if not self.paths:
            raise BinlogOptionError(
                f'binlog: no path is given; pass one, such as load("/var/lib/mysql/binlog.*"). {NO_TABLES}'
            )

    def refuse_others(self, *, writes: bool) -> None:
        """Refuse options that apply to reads only, or to writes only.

        Raises:
            BinlogOptionError: there is such an option.
        """
        others = self.given - _WRITE_OPTIONS - _BOTH if writes else self.given & _WRITE_OPTIONS
        if others:
            one, other = ("reads only", "is a write") if writes else ("writes only", "is a read")
            raise BinlogOptionError(f"binlog: option {min(others)} is for {one}, and this {other}")

    def wants_file(self, name: str) -> bool:
        """Return True if `pathGlobFilter` selects a file of this name (without its directory)."""
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
    "followDdl": ("follow_ddl", values.choice("auto", "true", "false")),
    "zeroDates": ("zero_dates", values.choice("error", "null", "text")),
    "startingTimestamp": ("starting_timestamp", values.moment),
    "endingTimestamp": ("ending_timestamp", values.moment),
    "timestampSlack": ("timestamp_slack", values.interval),
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
"""Properties that Spark passes as options when a table is created. Source: TableCatalog, reserved properties."""

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
