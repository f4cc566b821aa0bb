"""The options of `format("binlog")`: names, defaults and conflicts.

Follows Spark's conventions: names in lowerCamelCase, accepted in any case; `path` and `paths`. An unknown name is
refused, with the nearest name of the table below.

    path, paths                a file, glob, directory, .index file or URI; `paths` is a JSON array, as of load([...])
    view                       rows (default) | events | transactions | changes (needs `table`)
    table                      one table, as schema.table: `before` and `after` are then structs of its columns
    tables                     globs for schema.table, or for a table in any schema, separated by commas
    columns                    names of the table's columns to read into `before` and `after`
    sourceColumns              more columns of view rows, and with `_` before them of view changes: end_pos, thread_id,
                               xid, outcome, commit_timestamp, statement, as `source_columns` of `binlogio.read_rows`
    images                     both (default) | before | after: omit the other image, in view rows
    schemaFile                 table definitions for logs with binlog_row_metadata=MINIMAL: a .sql or .json file, or
                               JSON itself; definitions in JSON that do not fit a table are ignored
    databaseCharset            character sets of databases, such as shop=utf8mb4,crm=latin1, for text columns whose
                               character set is not in the logs
    followDdl                  auto (default) | true | false: take the names and types of columns from the DDL in the
                               logs, for which the driver scans their headers. auto: where rows have no names and
                               schemaFile is not set. true: a table without CREATE TABLE in the logs is an error
    definitionsLocation        a file or URI for the DDL that the driver found: logs are scanned once, and may be purged
                               afterwards. Also one of `binlogio schema --save`
    trustDdl                   true | false: accept CREATE TABLE IF NOT EXISTS that may have found another table
    zeroDates                  error (default) | null | text
    startingTimestamp          read transactions that begin at this time or later; in view events, by the time of each
                               event
    endingTimestamp            read transactions that begin before this time
    timestampSlack             how far the time of an event is at most from the moment at which it was logged, such as
                               1h: logs of other moments are not read for filters on time. Not set: all logs are read,
                               since sessions may set any time
    gtidStrictMode             true | false: the server of MariaDB had gtid_strict_mode=ON for all logs, so that the
                               numbers of a domain grow: logs with other numbers are not read for filters on GTIDs
    startingGtids              omit the transactions of this GTID set (they are known). Of MariaDB: the last GTID of
                               each domain
    endingGtids                omit the transactions that are not in this GTID set
    startingPosition           file:offset; omit earlier files and transactions
    endingPosition             file:offset; omit the transactions from there on
    pathGlobFilter             read only the files whose name matches; with {a,b}
    recursiveFileLookup        true | false: read the directories below a directory too
    ignoreMissingLogs          true | false: go on if a file does not exist, or if a log is missing between others or
                               after the last one that a stream has read. Also as Spark's ignoreMissingFiles, and as
                               failOnDataLoss (of Kafka) with the other value
    changedLogs                error (default) | restart: a stream whose checkpoint belongs to other logs (RESET,
                               failover, a restored backup) ends with an error, or restarts at the first existing log
    mode                       FAILFAST (default) | PERMISSIVE | DROPMALFORMED: how damage is handled
    schemaChanges              error (default) | addColumns | rescue | ignore: how a change is handled whose table has
                               other columns than the read (ALTER). error: as damage (`mode`). The others: columns that
                               the table lacks are NULL; those that the read lacks are an error (addColumns: the next
                               start of the query has them), JSON in the column `_rescued`, or omitted (ignore). Also
                               as schemaEvolutionMode (of Auto Loader): failOnNewColumns, addNewColumns, rescue, none
    statementChanges           error (default) | skip: how a change is handled that the log has as SQL text, without its
                               rows (binlog_format=STATEMENT or MIXED). error: with each `mode`, after the rows that a
                               task reads
    columnNameOfCorruptRecord  the column for the error text with PERMISSIVE; `_corrupt_record`
    maxPartitionBytes          of one task; 128m
    splitMode                  ranges (default) | scan | files: how a file is cut. ranges: by bytes; tasks search for
                               event groups. scan: between groups, which the driver finds by reading the event headers;
                               forged values cannot mislead it. files: not at all
    verifyChecksum             true | false
    indexDir                   the directory or URI of indexes by `binlogio index`, to skip logs by the key of a row;
                               without it those beside local logs are used
    keyring                    the server's keys for encrypted logs: a file on the driver, or its text
    maxFilesPerTrigger         limit of a batch of a stream
    maxBytesPerTrigger         limit of a batch of a stream

The options of a write are `path`, `table` and `schemaFile` (the columns of the tables in the server), and:

    basename                   of the logs; binlog
    serverVersion              the server version whose logs are written: 9.7.0; MySQL from 5.6 on, or MariaDB from 10.1
                               on, such as 11.8.2-MariaDB
    maxBinlogSize              a log ends with the transaction that reaches it; 1g
    binlogChecksum             CRC32 (default) | NONE
    txnAppId, txnVersion       of a frame that may be written again: a version of the application is written once. For
                               a stream txnAppId replaces the checkpoint, and the batch is the version
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime, timezone
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeVar

from binlogio.dotted_names import dotted_name, split_name
from binlogio.selection.table_names import matches

NO_TABLES: Final = (
    "CREATE TABLE ... USING binlog is not possible, since Spark does not give a Python source the path and the "
    "options of the table when it is read or written; use CREATE TEMPORARY VIEW name USING binlog "
    "OPTIONS (path '/var/lib/mysql/binlog.*')"
)
VIEW_NAMES: Final = ("rows", "events", "transactions", "changes")
_TABLE_PROPERTIES: Final = frozenset(
    ("owner", "location", "provider", "comment", "external", "is_managed_location", "collation", "table_type")
)
"""Properties that Spark passes as options when a table is created. Source: TableCatalog, reserved properties."""

_SIZE: Final = re.compile(r"(\d+)\s*([kmgt]?)i?b?", re.IGNORECASE)
_INTERVAL: Final = re.compile(r"(\d+)\s*(s|m|h|d|seconds?|minutes?|hours?|days?)", re.IGNORECASE)
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_FACTORS: Final = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


class BinlogOptionError(ValueError):
    """An unknown option of `format("binlog")`, or an invalid value of one."""


def nearest(name: str, known: tuple[str, ...]) -> str:
    """Return the one of `known` that looks most like `name`."""
    from difflib import get_close_matches  # noqa: PLC0415 - for messages only

    by_lower = {one.lower(): one for one in known}
    return by_lower[get_close_matches(name.lower(), by_lower, n=1, cutoff=0.0)[0]]


def refused(name: str, value: str, expected: str) -> BinlogOptionError:
    """Return the error for an invalid value."""
    return BinlogOptionError(f"binlog: option {name}: expected {expected}, found {value!r}")


def _text(name: str, value: str) -> str:
    """Return a text that is not empty."""
    if not value.strip():
        raise refused(name, value, "a value")
    return value


def _boolean(name: str, value: str) -> bool:
    """Return the boolean for `true` or `false`, in any case."""
    try:
        return {"true": True, "false": False}[value.strip().lower()]
    except KeyError:
        raise refused(name, value, "true or false") from None


def _choice(*allowed: str) -> Callable[[str, str], str]:
    """Return a parser that accepts one of the words, in any case."""

    def parse(name: str, value: str) -> str:
        for word in allowed:
            if value.strip().lower() == word.lower():
                return word
        raise refused(name, value, f"{', '.join(allowed[:-1])} or {allowed[-1]}")

    return parse


def _number(name: str, value: str, *, least: int = 0) -> int:
    """Return a whole number."""
    if not value.strip().isdigit() or int(value) < least:
        raise refused(name, value, f"a whole number of {least} or more")
    return int(value)


def _file_name(name: str, value: str) -> str:
    """Return the name of a file without a directory."""
    if not value.strip() or "/" in value:
        raise refused(name, value, "a name without a directory")
    return value.strip()


def _size(name: str, value: str) -> int:
    """Return a number of bytes, written as Spark's own sizes: 1048576, 128m, 1g, 64MB."""
    match = _SIZE.fullmatch(value.strip())
    if match is None or int(match[1]) == 0:
        raise refused(name, value, "a size in bytes, such as 134217728 or 128m")
    return int(match[1]) * _FACTORS[match[2].lower()]


def _interval(name: str, value: str) -> int:
    """Return a number of seconds: 90s, 15m, 1h, 2 days."""
    match = _INTERVAL.fullmatch(value.strip())
    if match is None:
        raise refused(name, value, "a number of seconds, minutes, hours or days, such as 90s, 15m, 1h or 2d")
    return int(match[1]) * _SECONDS[match[2][0].lower()]


def _table(name: str, value: str) -> str:
    """Return a table with its schema."""
    schema, table = split_name(value.strip())
    if not (schema and table):
        raise refused(name, value, "schema.table")
    return dotted_name(schema, table)


def _table_globs(name: str, value: str) -> tuple[str, ...]:
    """Return globs of table names."""
    return tuple(_text(name, glob).strip() for glob in value.split(","))


def _names(name: str, value: str) -> tuple[str, ...]:
    """Return names that are separated by commas."""
    found = tuple(one.strip() for one in value.split(","))
    if not all(found):
        raise refused(name, value, "names separated by commas")
    return found


def _source_columns(name: str, value: str) -> tuple[str, ...]:
    """Return names of source columns."""
    from binlogio.columnar import SOURCE_COLUMNS  # noqa: PLC0415 - options are parsed where nothing is read

    found = _names(name, value)
    if not set(found).issubset(SOURCE_COLUMNS):
        raise refused(name, value, f"some of {', '.join(SOURCE_COLUMNS)}, separated by commas")
    return found


def _charsets(name: str, value: str) -> tuple[tuple[str, str], ...]:
    """Return the character set of each database."""
    pairs = [one.partition("=") for one in value.split(",")]
    if not all(schema.strip() and charset.strip() and "." not in schema for schema, _, charset in pairs):
        raise refused(name, value, "database=charset, such as shop=utf8mb4, separated by commas")
    return tuple((schema.strip(), charset.strip()) for schema, _, charset in pairs)


def _moment(name: str, value: str) -> int:
    """Return a time in seconds since 1970: ISO 8601, in UTC if it has no zone, or that number."""
    if value.strip().isdigit():
        return int(value)
    try:
        found = datetime.fromisoformat(value.strip().replace("Z", "+00:00"))
    except ValueError:
        raise refused(name, value, "a time such as 2026-11-20 10:00:00 (UTC) or 2026-11-20T10:00:00+01:00") from None
    found = found if found.tzinfo is not None else found.replace(tzinfo=timezone.utc)
    return -(-int(found.timestamp() * 1_000_000) // 1_000_000)


def _position(name: str, value: str) -> tuple[str, int]:
    """Return a log and an offset in it: `binlog.000003:154`."""
    file, colon, offset = value.strip().rpartition(":")
    if not colon or not file or not offset.isdigit():
        raise refused(name, value, "file:offset, such as binlog.000003:154")
    return Path(file).name, int(offset)


def _gtid_set(name: str, value: str) -> str:
    """Return the text of a valid GTID set of MySQL or position of MariaDB."""
    from binlogio.errors import BinlogError  # noqa: PLC0415 - options are parsed where nothing is read
    from binlogio.selection.event_filter import parse_gtid_state  # noqa: PLC0415

    try:
        return str(parse_gtid_state(value.strip()))
    except BinlogError as exc:
        raise refused(
            name, value, f"a GTID set, or domain-server-number for each domain of MariaDB ({exc.reason})"
        ) from exc


def _file_globs(name: str, value: str) -> tuple[str, ...]:
    """Return globs of file names."""
    return tuple(_without_braces(_text(name, value)))


def _without_braces(pattern: str) -> list[str]:
    """Expand `binlog.{000001,000002}` to two globs: Hadoop's globs have braces, fnmatch has none."""
    braces = re.search(r"\{([^{}]*)\}", pattern)
    if braces is None:
        return [pattern]
    before, after = pattern[: braces.start()], pattern[braces.end() :]
    return [glob for one in braces[1].split(",") for glob in _without_braces(before + one + after)]


def _path(name: str, value: str) -> tuple[str, ...]:
    """Return the path, absolute."""
    return (_absolute(_text(name, value)),)


def _paths(name: str, value: str) -> tuple[str, ...]:
    """Return the paths of a JSON array, absolute."""
    try:
        found: Any = json.loads(value)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise refused(name, value, "a JSON array of paths, as load([...]) gives")
    return tuple(_absolute(_text(name, one)) for one in found)


def _absolute(path: str) -> str:
    """Return an absolute path, since tasks run in other directories; Spark's file sources show paths with `file:`."""
    if path.startswith("file:/"):
        path = "/" + path.removeprefix("file:").lstrip("/")
    return path if "://" in path else os.path.abspath(path)


def _option(parse: Callable[[str, str], Any], default: Any = None, *, is_shown: bool = True) -> Any:
    """Return the field of an option, whose name is that of the field in lowerCamelCase."""
    return field(default=default, repr=is_shown, metadata={"parse": parse})


@dataclass(frozen=True, slots=True, kw_only=True)
class _SharedOptions:
    """The options of reads and writes. `paths` has the values of `path` and `paths`: absolute paths, or URIs."""

    paths: tuple[str, ...] = _option(_paths, ())
    table: str | None = _option(_table)
    schema_file: str | None = _option(_text)
    column_name_of_corrupt_record: str = _option(_text, "_corrupt_record")


@dataclass(frozen=True, slots=True, kw_only=True)
class BinlogReadOptions(_SharedOptions):
    """The options of a read. Times are in seconds; `keyring` may hold keys and is never shown."""

    view: str = _option(_choice(*VIEW_NAMES), VIEW_NAMES[0])
    tables: tuple[str, ...] = _option(_table_globs, ())
    columns: tuple[str, ...] | None = _option(_names)
    source_columns: tuple[str, ...] = _option(_source_columns, ())
    images: str = _option(_choice("both", "before", "after"), "both")
    database_charset: tuple[tuple[str, str], ...] = _option(_charsets, ())
    follow_ddl: str = _option(_choice("auto", "true", "false"), "auto")
    definitions_location: str | None = _option(_text)
    trust_ddl: bool = _option(_boolean, default=False)
    zero_dates: str = _option(_choice("error", "null", "text"), "error")
    starting_timestamp: int | None = _option(_moment)
    ending_timestamp: int | None = _option(_moment)
    timestamp_slack: int | None = _option(_interval)
    gtid_strict_mode: bool = _option(_boolean, default=False)
    starting_gtids: str | None = _option(_gtid_set)
    ending_gtids: str | None = _option(_gtid_set)
    starting_position: tuple[str, int] | None = _option(_position)
    ending_position: tuple[str, int] | None = _option(_position)
    path_glob_filter: tuple[str, ...] = _option(_file_globs, ())
    recursive_file_lookup: bool = _option(_boolean, default=False)
    ignore_missing_logs: bool = _option(_boolean, default=False)
    changed_logs: str = _option(_choice("error", "restart"), "error")
    mode: str = _option(_choice("FAILFAST", "PERMISSIVE", "DROPMALFORMED"), "FAILFAST")
    schema_changes: str = _option(_choice("error", "addColumns", "rescue", "ignore"), "error")
    statement_changes: str = _option(_choice("error", "skip"), "error")
    max_partition_bytes: int = _option(_size, 128 << 20)
    split_mode: str = _option(_choice("ranges", "scan", "files"), "ranges")
    verify_checksum: bool = _option(_boolean, default=True)
    index_dir: str | None = _option(_text)
    keyring: str | None = _option(_text, is_shown=False)
    max_files_per_trigger: int | None = _option(partial(_number, least=1))
    max_bytes_per_trigger: int | None = _option(_size)

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> BinlogReadOptions:
        """Return the options as Spark passes them; errors as those of `parse_options` and `options_of`."""
        return options_of(cls, parse_options(options))

    def require_paths(self) -> None:
        """Refuse options without a path.

        Raises:
            BinlogOptionError: no path is given.
        """
        if not self.paths:
            raise BinlogOptionError(
                f'binlog: no path is given; pass one, such as load("/var/lib/mysql/binlog.*"). {NO_TABLES}'
            )

    def wants_file(self, name: str) -> bool:
        """Return True if `pathGlobFilter` selects a file of this name (without its directory)."""
        return not self.path_glob_filter or any(fnmatchcase(name, glob) for glob in self.path_glob_filter)

    @property
    def selects_tables(self) -> bool:
        """True if not every table is selected."""
        return self.table is not None or bool(self.tables)

    def wants_table(self, schema: str | None, table: str | None) -> bool:
        """Return True if `table` or `tables` selects the table; False for events without a table."""
        if schema is None or table is None:
            return False
        return dotted_name(schema, table) == self.table or any(matches(glob, schema, table) for glob in self.tables)


@dataclass(frozen=True, slots=True, kw_only=True)
class BinlogWriteOptions(_SharedOptions):
    """The options of a write."""

    basename: str = _option(_file_name, "binlog")
    server_version: str | None = _option(_text)
    max_binlog_size: int | None = _option(_size)
    binlog_checksum: str | None = _option(_choice("CRC32", "NONE"))
    txn_app_id: str | None = _option(_text)
    txn_version: int | None = _option(_number)
    checkpoint_location: str | None = _option(_text)


def _named(kind: type[Any]) -> dict[str, Callable[[str, str], Any]]:
    """Return the names of the options of a class, with their parsers."""
    parsers = {one.name: one.metadata["parse"] for one in fields(kind)}
    return {re.sub("_(.)", lambda part: part[1].upper(), name): parse for name, parse in parsers.items()}


_READ_OPTIONS: Final = {"path": _path, **_named(BinlogReadOptions)}
_WRITE_OPTIONS: Final = {"path": _path, **_named(BinlogWriteOptions)}
OPTIONS: Final = {**_READ_OPTIONS, **_WRITE_OPTIONS}
_FIELDS: Final = {
    name: re.sub("[A-Z]", lambda letter: f"_{letter[0].lower()}", name) for name in OPTIONS if name != "path"
}
_Options = TypeVar("_Options", BinlogReadOptions, BinlogWriteOptions)


def parse_options(options: Mapping[str, str]) -> dict[str, Any]:
    """Return the values of options as Spark passes them; the case of their names does not matter.

    Raises:
        BinlogOptionError: an unknown name, an invalid value, or two that contradict each other.
    """
    parsed = {}
    for any_case, value in options.items():
        name, words = _ALIASES.get(any_case.lower(), (_known(any_case), {}))
        if name in parsed:
            raise BinlogOptionError(f"binlog: option {any_case} is another name of {name}: give one of them")
        by_us = next((ours for theirs, ours in words.items() if theirs.lower() == value.strip().lower()), None)
        if words and by_us is None:
            raise refused(any_case, value, " or ".join(words))
        is_alias = any_case.lower() in _ALIASES
        parsed[name] = OPTIONS[name](any_case if is_alias else name, by_us or value)
    _refuse_contradictions(parsed)
    return parsed


def options_of(kind: type[_Options], parsed: Mapping[str, Any]) -> _Options:
    """Return the options of a read or of a write.

    Raises:
        BinlogOptionError: there is one that applies to the other only.
    """
    reads = kind is BinlogReadOptions
    others = parsed.keys() - (_READ_OPTIONS if reads else _WRITE_OPTIONS).keys()
    if others:
        one, other = ("writes only", "is a read") if reads else ("reads only", "is a write")
        raise BinlogOptionError(f"binlog: option {min(others)} is for {one}, and this {other}")
    values = {_FIELDS[name]: value for name, value in parsed.items() if name != "path"}
    values["paths"] = parsed.get("path", ()) + parsed.get("paths", ())
    return kind(**values)


def _refuse_contradictions(parsed: Mapping[str, Any]) -> None:
    if "table" in parsed and "tables" in parsed:
        raise BinlogOptionError("binlog: give either table or tables, not both")
    if "columns" in parsed and "table" not in parsed:
        raise BinlogOptionError("binlog: option columns needs table, since it names the columns of one table")
    start, end = parsed.get("startingTimestamp"), parsed.get("endingTimestamp")
    if start is not None and end is not None and end < start:
        raise BinlogOptionError("binlog: endingTimestamp is before startingTimestamp")
    if parsed.get("view", VIEW_NAMES[0]) != "rows" and "images" in parsed:
        raise BinlogOptionError("binlog: option images applies to view rows only")
    if parsed.get("view") in ("events", "transactions") and "sourceColumns" in parsed:
        raise BinlogOptionError("binlog: option sourceColumns applies to the views rows and changes only")
    if parsed.get("schemaChanges") == "rescue" and "table" not in parsed:
        raise BinlogOptionError("binlog: schemaChanges=rescue needs table: JSON images have all columns")
    if parsed.get("view") == "changes" and "table" not in parsed:
        raise BinlogOptionError("binlog: view changes needs table: its columns are those of one table")
    if "maxFilesPerTrigger" in parsed and "maxBytesPerTrigger" in parsed:
        raise BinlogOptionError(
            "binlog: set either maxFilesPerTrigger or maxBytesPerTrigger, not both: Spark accepts one limit"
        )


_EVOLUTION: Final = {"addNewColumns": "addColumns", "rescue": "rescue", "failOnNewColumns": "error", "none": "ignore"}
_ALIASES: Final[dict[str, tuple[str, dict[str, str]]]] = {
    "ignoremissingfiles": ("ignoreMissingLogs", {}),
    "failondataloss": ("ignoreMissingLogs", {"true": "false", "false": "true"}),
    "schemaevolutionmode": ("schemaChanges", _EVOLUTION),
}
"""Options of other sources of Spark, in lower case, for ours that mean the same: name, and values by theirs."""


def _known(name: str) -> str:
    if name.lower() in _ALIASES:
        return _ALIASES[name.lower()][0]
    for known in OPTIONS:
        if known.lower() == name.lower():
            return known
    if name.lower() in _TABLE_PROPERTIES:
        raise BinlogOptionError(f"binlog: {name!r} is a property of a table, not an option: {NO_TABLES}")
    if name.lower() == "imagetype":
        raise BinlogOptionError(f"binlog: option {name} does not exist: use parse_json(before) and parse_json(after)")
    near = nearest(name, tuple(OPTIONS))
    raise BinlogOptionError(f"binlog: unknown option {name!r}; did you mean {near!r}? Options: {', '.join(OPTIONS)}")


def markdown() -> str:
    """Return the options of reads and writes as a Markdown table: what the head of this module says of them."""
    rows = ["| option | of | meaning |", "|---|---|---|"]
    kind, text = "reads", (__doc__ or "").partition("table below.\n\n")[2]
    for block in re.split(r"\n(?=\n|    \S)", text):
        if block.strip().startswith("The options of a write"):
            kind = "writes"
        elif block.startswith("    "):
            names, meaning = re.split(r"  +", block.strip(), maxsplit=1)
            shown = ", ".join(f"`{name}`" for name in names.split(", "))
            rows.append(f"| {shown} | {kind} | {' '.join(meaning.split()).replace('|', '&#124;')} |")
    return "\n".join(rows) + "\n"
