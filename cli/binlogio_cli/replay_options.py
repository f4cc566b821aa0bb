"""Options of both `replay` and `undo`: which part of the logs is selected, and how the logs are read."""

from __future__ import annotations

from datetime import timezone
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from binlogio.errors import BinlogFormatError
from binlogio.options import Position
from binlogio.replay import ReplayFilter
from binlogio.replay.start_position import bounds_of, unknown_tables
from binlogio_cli.messages import Refusal, say
from binlogio_cli.options import (
    GTIDS_HELP,
    START_GTIDS_HELP,
    STOP_GTIDS_HELP,
    definitions_option,
    gtid_position,
    limits_options,
    parse_gtids,
    parse_time,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from binlogio.gtid import MariadbGtidPosition
    from binlogio.reader import BinlogReader

_MOST_NAMES: Final = 10
_Command = TypeVar("_Command", bound="Callable[..., Any]")

_SELECTION: Final = (
    click.option(
        "--start-position",
        metavar="POSITION",
        help="FILE:OFFSET: start at the first transaction at or after this position, which must be the start "
        "of an event. " + START_GTIDS_HELP,
    ),
    click.option(
        "--stop-position",
        metavar="POSITION",
        help="FILE:OFFSET: stop before the first transaction at or after this position, the start of an event "
        "or the end of a log. " + STOP_GTIDS_HELP,
    ),
    click.option(
        "--start-datetime",
        metavar="TIME",
        callback=parse_time,
        help="Skip transactions that start before this time (UTC).",
    ),
    click.option(
        "--stop-datetime",
        metavar="TIME",
        callback=parse_time,
        help="Stop before the first transaction that starts at or after this time (UTC).",
    ),
    click.option(
        "--include-gtids", metavar="GTIDS", callback=parse_gtids, help=f"Select only these transactions. {GTIDS_HELP}"
    ),
    click.option("--exclude-gtids", metavar="GTIDS", callback=parse_gtids, help="Leave out these transactions."),
    click.option(
        "--table",
        "tables",
        multiple=True,
        metavar="GLOB",
        help="Select only these tables (schema.table): their rows, and the statements that change them; "
        "may be repeated.",
    ),
    click.option(
        "--exclude-table",
        "exclude_tables",
        multiple=True,
        metavar="GLOB",
        help="Leave out these tables; may be repeated.",
    ),
    click.option("--rewrite-db", multiple=True, metavar="FROM->TO", help="Rename a schema, in rows and in statements."),
)

_LOGS: Final = (
    definitions_option,
    click.option("--no-verify-checksum", is_flag=True, help="Do not verify CRC32 checksums."),
    click.option(
        "--keyring",
        type=click.Path(exists=True, dir_okay=False),
        help="The keyring file of the server, for encrypted logs.",
    ),
    limits_options,
)


def selection_options(command: _Command) -> _Command:
    """Add the options that select a part of the logs."""
    return _with(_SELECTION, command)


def log_options(command: _Command) -> _Command:
    """Add the options that say how logs are read."""
    return _with(_LOGS, command)


def _with(options: tuple[Callable[[_Command], _Command], ...], command: _Command) -> _Command:
    for option in reversed(options):
        command = option(command)
    return command


def replay_filter(options: dict[str, Any]) -> ReplayFilter:
    """Return the filter that the options give.

    Raises:
        UsageError: the value of an option is invalid.
    """
    rewrites = [pair.partition("->") for pair in options["rewrite_db"]]
    for before, arrow, after in rewrites:
        if not (before and arrow and after):
            raise click.UsageError(f"--rewrite-db {before}{arrow}{after}: expected FROM->TO")
    start, after_gtids = _position("--start-position", options["start_position"])
    stop, up_to_gtids = _position("--stop-position", options["stop_position"])
    return ReplayFilter(
        start=start,
        stop=stop,
        after_gtids=after_gtids,
        up_to_gtids=up_to_gtids,
        start_timestamp=_seconds(options["start_datetime"]),
        stop_timestamp=_seconds(options["stop_datetime"]),
        include_gtids=options["include_gtids"],
        exclude_gtids=options["exclude_gtids"],
        tables=options["tables"],
        exclude_tables=options["exclude_tables"],
        rewrite_db={before: after for before, _, after in rewrites},
    )


def say_unmatched(patterns: tuple[str, ...]) -> None:
    """Report globs of --table and --exclude-table that matched nothing."""
    for pattern in patterns:
        say(f"warning: no event that was read matches {pattern}, given as --table or --exclude-table")


def check_selection(reader: BinlogReader, wanted: ReplayFilter) -> None:
    """Refuse positions and tables that the logs do not have, before anything is changed.

    Raises:
        PositionError: no event starts at a position.
        Refusal: no event matches a table.
        OSError, BinlogError: a log cannot be read.
    """
    bounds_of(reader, wanted)
    unknown, names = unknown_tables(reader, wanted.tables)
    if unknown:
        some = ", ".join(names[:_MOST_NAMES]) + (", ..." if len(names) > _MOST_NAMES else "")
        raise Refusal(
            f"--table {unknown[0]}: no event of the logs matches this table, found {some or 'no rows'}"
            " (names are case-sensitive; leave out the option to select all tables)"
        )


def _position(option: str, text: str | None) -> tuple[Position | None, MariadbGtidPosition | None]:
    """Return the position in a log, or the GTIDs, that an option gives."""
    if text is None:
        return None, None
    try:
        gtids = gtid_position(text)
    except BinlogFormatError as exc:
        raise click.UsageError(f"{option} {text}: {exc}") from exc
    if gtids is not None:
        return None, gtids
    file, _, offset = text.rpartition(":")
    if not file or not offset.isdecimal():
        raise click.UsageError(
            f"{option} {text}: expected FILE:OFFSET, such as binlog.000001:4, or GTIDs of MariaDB, such as 0-1-9"
        )
    return Position(file, int(offset)), None


def _seconds(moment: datetime | None) -> int | None:
    """Return seconds since 1970; a time without a zone is UTC."""
    if moment is None:
        return None
    return int((moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)).timestamp())
