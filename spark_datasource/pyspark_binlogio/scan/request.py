"""The request of a read: parsed options, with the keyring, the table definitions and the filters loaded, and its logs.

The piece of a log that a task reads is in `partitions`, the views are in `views`.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from binlogio.event_filter import EVERY_EVENT, EventFilter, Range, parse_gtid_state
from binlogio.schema import GivenDefinitions, load_definitions
from binlogio.storage import base_name, find_logs, is_index_file, log_number, read_index
from pyspark_binlogio.options import refused

if TYPE_CHECKING:
    from binlogio.columnar import LoggedStatements
    from binlogio.storage import Keyring, LogFile
    from pyspark_binlogio.options import BinlogReadOptions

_LOGGER: Final = logging.getLogger("pyspark_binlogio")
_PROBED_LOGS: Final = 8
_MOST_SCANNED: Final = 1 << 30  # bytes that the driver scans without being asked to


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The request of a read, the same for all its tasks. `columns` selects columns of the table; None selects all.

    `statements` are the DDL in the logs, if the read follows it. `names` are all columns of the read, if known.
    """

    options: BinlogReadOptions
    where: EventFilter = EVERY_EVENT
    keyring: Keyring | None = field(default=None, repr=False)
    definitions: GivenDefinitions | None = None
    statements: LoggedStatements | None = field(default=None, repr=False)
    columns: tuple[str, ...] | None = None
    names: tuple[str, ...] | None = None

    def has_column(self, name: str) -> bool:
        """Return True if the read has a column of this name."""
        return self.names is None or name in self.names


def request_of(options: BinlogReadOptions) -> Request:
    """Return the request of a read by its options.

    Raises:
        BinlogOptionError: `schemaFile` looks like JSON, and is invalid.
        BinlogError: the keyring is invalid, or a definition is not supported.
        OSError: one of their files cannot be read.
    """
    keyring = None
    if options.keyring is not None:
        from binlogio.storage import load_keyring  # noqa: PLC0415 - seldom needed

        keyring = load_keyring(options.keyring)
    known, wanted = (
        None if text is None else parse_gtid_state(text) for text in (options.starting_gtids, options.ending_gtids)
    )
    times = Range()
    if options.starting_timestamp is not None:
        times = times.within(Range(start=options.starting_timestamp))
    if options.ending_timestamp is not None:
        times = times.within(Range(end=options.ending_timestamp))
    where = EventFilter(timestamp=times, known_gtids=known, wanted_gtids=wanted)
    return Request(options=options, where=where, keyring=keyring, definitions=given_definitions(options.schema_file))


def given_definitions(schema_file: str | None) -> GivenDefinitions | None:
    """Return the definitions of option `schemaFile`: a file, or JSON itself.

    JSON definitions that do not fit a table are ignored.

    Raises:
        BinlogOptionError: it looks like JSON, and is invalid.
        UnsupportedFeature: a statement in it is not supported, or defines no table.
        OSError: the file cannot be read.
    """
    if schema_file is None or not schema_file.lstrip().startswith("{"):
        return load_definitions(schema_file)
    try:
        tables = json.loads(schema_file)
    except (ValueError, RecursionError) as exc:
        raise refused("schemaFile", schema_file, f"a file, or JSON ({exc})") from exc
    return GivenDefinitions(tables, passes_over=True)


def follows_ddl(options: BinlogReadOptions, logs: list[LogFile], keyring: Keyring | None) -> bool:
    """Return whether a read needs the DDL in the logs.

    Raises:
        OSError, UnsupportedFeature: a log cannot be read.
    """
    from binlogio.columnar import lacks_names  # noqa: PLC0415 - options are parsed where nothing is read

    if options.follow_ddl != "auto" or options.view not in ("rows", "changes") or options.schema_file is not None:
        return options.follow_ddl == "true" and options.view in ("rows", "changes")
    found = None
    for log in (*logs[:1], *reversed(logs[-_PROBED_LOGS:])):
        found = lacks_names(log, keyring)
        if found is not None:
            break
    if found is False:
        return False
    size = sum(log.size or 0 for log in logs)
    if size > _MOST_SCANNED:
        _LOGGER.warning(
            "binlog: columns may have no names: followDdl=auto does not scan %d bytes of logs for DDL; "
            "set followDdl to true or false, or give schemaFile",
            size,
        )
    return size <= _MOST_SCANNED


def statements_of(
    options: BinlogReadOptions, keyring: Keyring | None, known: LoggedStatements | None = None
) -> LoggedStatements | None:
    """Return the DDL in the logs of a read, and in those before its first position; None if the read needs none.

    The logs are scanned from where those of `known` end, if they are still the same logs.

    Raises:
        OSError, BinlogError: a log cannot be read.
    """
    from binlogio.columnar import LoggedStatements  # noqa: PLC0415

    if options.follow_ddl == "false" or not options.paths:
        return None
    logs = find_log_files(replace(options, starting_position=None))
    statements = known or LoggedStatements()
    statements.forget_others(logs, keyring)
    if not statements and not follows_ddl(options, logs, keyring):
        return None
    for log in logs:
        statements.add(log, keyring)
    return statements


def find_log_files(options: BinlogReadOptions) -> list[LogFile]:
    """Return the logs, in the order in which they were written.

    Raises:
        OSError: a path matches no file, and `ignoreMissingFiles` is not set.
        BinlogError: a URI that cannot be opened.
    """
    start, end = options.starting_position, options.ending_position
    found = []
    for path in options.paths:
        for log in _find(path, options):
            name = base_name(log.name)
            is_between = (start is None or _side(name, start) >= 0) and (end is None or _side(name, end) <= 0)
            if is_between and options.wants_file(name):
                found.append(log)
    return found


def _side(name: str, position: tuple[str, int]) -> int:
    """Return -1 for a log before that of a position, 1 for one after it, else 0 (also for logs of another series)."""
    stem, number, _ = log_number(name)
    its_stem, its_number, _ = log_number(position[0])
    return 0 if stem != its_stem else (number > its_number) - (number < its_number)


def _find(path: str, options: BinlogReadOptions) -> Iterator[LogFile]:
    if options.recursive_file_lookup and "://" in path:
        from binlogio.storage import find_objects_below  # noqa: PLC0415 - imports pyarrow

        try:
            yield from find_objects_below(path)
        except FileNotFoundError:
            if not options.ignore_missing_files:
                raise
        return
    if options.recursive_file_lookup and Path(path).is_dir():
        folders = sorted(folder for folder, _, files in os.walk(path) if files)
        for folder in folders:
            yield from _find_one(folder, missing_ok=True)
        return
    yield from _find_one(path, missing_ok=options.ignore_missing_files)


def _find_one(path: str, *, missing_ok: bool) -> Iterator[LogFile]:
    """Yield the logs that a path names; those of an index file one by one, since old logs may have been purged."""
    if not missing_ok:
        yield from find_logs(path)
        return
    try:
        if is_index_file(path) and "://" not in path:
            for name in read_index(Path(path)):
                yield from _find_one(str(Path(path).parent / name), missing_ok=True)
        else:
            yield from find_logs(path)
    except FileNotFoundError:
        return
