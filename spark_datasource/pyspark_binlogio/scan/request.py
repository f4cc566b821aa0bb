"""The request of a read: parsed options, with the keyring, the table definitions and the filters loaded.

The piece of a log that a task reads is in `partitions`, the views are in `views`.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from binlogio.event_filter import EVERY_EVENT, EventFilter, Range, parse_gtid_state
from binlogio.schema import GivenDefinitions, load_definitions
from pyspark_binlogio.option_values import refused
from pyspark_binlogio.scan.log_files import find_log_files

if TYPE_CHECKING:
    from binlogio.columnar import LoggedStatements
    from binlogio.storage import Keyring, LogFile
    from pyspark_binlogio.options import BinlogOptions

_LOGGER: Final = logging.getLogger("pyspark_binlogio")
_PROBED_LOGS: Final = 8
_MOST_SCANNED: Final = 1 << 30  # bytes that the driver scans without being asked to


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The request of a read, the same for all its tasks. `columns` selects columns of the table; None selects all.

    `statements` are the DDL in the logs, if the read follows it.
    """

    options: BinlogOptions
    where: EventFilter = EVERY_EVENT
    keyring: Keyring | None = field(default=None, repr=False)
    definitions: GivenDefinitions | None = None
    statements: LoggedStatements | None = field(default=None, repr=False)
    columns: tuple[str, ...] | None = None


def request_of(options: BinlogOptions) -> Request:
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


def follows_ddl(options: BinlogOptions, logs: list[LogFile], keyring: Keyring | None) -> bool:
    """Return whether a read needs the DDL in the logs.

    Raises:
        OSError, UnsupportedFeature: a log cannot be read.
    """
    from binlogio.columnar import lacks_names  # noqa: PLC0415 - options are parsed where nothing is read

    if options.follow_ddl != "auto" or options.view not in ("rows", "cdf") or options.schema_file is not None:
        return options.follow_ddl == "true" and options.view in ("rows", "cdf")
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


def statements_of(options: BinlogOptions, keyring: Keyring | None) -> LoggedStatements | None:
    """Return the DDL in the logs of a read, and in those before its first position; None if the read needs none.

    Raises:
        OSError, BinlogError: a log cannot be read.
    """
    from binlogio.columnar import LoggedStatements  # noqa: PLC0415

    if options.follow_ddl == "false" or not options.paths:
        return None
    logs = find_log_files(replace(options, starting_position=None))
    if not follows_ddl(options, logs, keyring):
        return None
    statements = LoggedStatements()
    for log in logs:
        statements.add(log, keyring)
    return statements
