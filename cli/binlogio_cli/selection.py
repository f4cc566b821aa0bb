"""Options that select a part of the logs, and options for reading logs, shared by all commands.

Decorators for commands, and the formats of positions and times:

    @selection_options      adds the options, and passes `selection: Selection` in place of their values
    @reading_options        the same with `reading: Reading`

    POSITION  := offset                in the first log (start) or in the last one (stop)
               | file ":" offset       in the log of this name
               | GTIDs of MariaDB      one for each domain, as in @@gtid_slave_pos
    TIME      := in a format of the server: 2026-11-20 09:00:01.5, 2026/11/20, 20261120090001, 261120090001
               | relative to now: -90s, -15m, -1h, -2d, 1 hour ago; now, today, yesterday, 12:00, yesterday 12:00
               | ISO 8601, with or without a zone
               | seconds since 1970
"""

from __future__ import annotations

import functools
import math
import os
import re
import shlex
import time
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta, timezone, tzinfo
from glob import glob
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

import binlogio
from binlogio.errors import BinlogFormatError, ConditionError, UnsupportedFeature
from binlogio.options import DEFAULT_LIMITS, Limits, Position
from binlogio.selection.event_filter import (
    HIGHEST,
    OPERATIONS,
    AllExcept,
    Operation,
    check_values,
)
from binlogio.selection.selection import EVERY_CHANGE, Selection
from binlogio_cli.messages import DAMAGE, OK, Refusal, say
from binlogio_cli.options import INPUT_PATH, ByteSize, definitions_file, definitions_option, gtid_position, parse_gtids
from binlogio_cli.quantities import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from binlogio.columnar.row_choice import RowChoice
    from binlogio.gtid import MariadbGtidPosition
    from binlogio.reader import BinlogReader
    from binlogio.replay import ReplayFilter
    from binlogio.schema.given import GivenDefinitions
    from binlogio.schema.statement_changes import StatementChange
    from binlogio.selection.row_condition import RowCondition
    from binlogio.selection.table_names import TableNames
    from binlogio.storage import LogFile
    from binlogio.storage.keyring import Keyring

_Command = TypeVar("_Command", bound="Callable[..., Any]")
_HIGHEST_ID: Final = (1 << 32) - 1  # maximum server id and domain id
_GTIDS_HELP: Final = (
    "A GTID set (UUID:1-5:9), or GTIDs of MariaDB (0-1-9, or 0-1-5..9 for a range), each for its own transaction only."
)
_DIGITS: Final = r"(\d+)(\.\d+)?"
_PARTS: Final = (
    r"(\d{2}|\d{4})[^\w\s](\d{1,2})[^\w\s](\d{1,2})"
    r"(?:(?:\s+|T)(\d{1,2})(?:[^\w\s](\d{1,2})(?:[^\w\s](\d{1,2})(\.\d+)?)?)?)?"
    r"\s*(Z|UTC|[+-]\d\d:?\d\d)?"
)
_AGO: Final = (
    r"-(\d+)\s*(s|m|h|d|seconds?|minutes?|hours?|days?)|(\d+)\s*(s|m|h|d|seconds?|minutes?|hours?|days?)\s+ago"
)
_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_DAY: Final = r"(now|today|yesterday)?(?:(?:^|\s+)(\d{1,2}):(\d{2})(?::(\d{2}))?)?"
_LAST_HOUR: Final = 23
_LAST_MINUTE: Final = 59
_OFFSET: Final = r"([+-])(\d{2}):?(\d{2})"
_SHAPES: Final = {14: (4, 6), 12: (2, 6), 8: (4, 3), 6: (2, 3)}  # number of digits: (digits of the year, parts)
_EPOCH_DIGITS: Final = (9, 10, 11)


class LocalZone(tzinfo):
    """The local time zone of this machine, including daylight saving time."""

    def utcoffset(self, moment: datetime | None) -> timedelta | None:
        """Return the offset from UTC at a time."""
        if moment is None:
            return None
        try:
            return moment.replace(tzinfo=None).astimezone().utcoffset()
        except (OverflowError, ValueError):  # the first and last days of the calendar
            return timedelta(0)

    def dst(self, moment: datetime | None) -> timedelta | None:
        """Return None: the daylight saving part of the offset is unknown."""
        return None

    def tzname(self, moment: datetime | None) -> str | None:
        """Return the name of the zone at a time."""
        return None if moment is None else moment.replace(tzinfo=None).astimezone().tzname()

    def fromutc(self, moment: datetime) -> datetime:
        """Convert a UTC time to local time."""
        local = moment.replace(tzinfo=timezone.utc).astimezone()
        is_second = local.replace(tzinfo=None).astimezone().utcoffset() != local.utcoffset()  # of a repeated hour
        return local.replace(tzinfo=self, fold=int(is_second))


def parse_zone(ctx: click.Context, param: click.Parameter, text: str) -> tzinfo:
    """Parse a time zone: UTC, local, an offset such as +02:00, or a name such as Europe/Berlin.

    Raises:
        BadParameter: the zone is unknown.
    """
    if text.upper() == "UTC":
        return timezone.utc
    if text == "local":
        return LocalZone()
    offset = re.fullmatch(_OFFSET, text)
    if offset and int(offset[2]) <= _LAST_HOUR and int(offset[3]) <= _LAST_MINUTE:
        minutes = int(offset[2]) * 60 + int(offset[3])
        return timezone(timedelta(minutes=-minutes if offset[1] == "-" else minutes))
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError  # noqa: PLC0415 - seldom needed

    try:
        return ZoneInfo(text)
    except (ZoneInfoNotFoundError, ValueError, OSError) as exc:
        reason = f"{text!r} is not a time zone; expected UTC, local, +02:00, or a name such as Europe/Berlin"
        raise click.BadParameter(reason, ctx, param) from exc


def _parse_time(ctx: click.Context, param: click.Parameter, text: str | None) -> datetime | float | DayTime | None:
    """Parse a time; the result has no zone if the text has none.

    Raises:
        BadParameter: the text is not a time.
    """
    if text is None:
        return None
    try:
        return time_of(text.strip())
    except (ValueError, OverflowError) as exc:
        forms = "expected a time such as '2026-11-20 12:00:00', -1h, 'yesterday 12:00' or seconds since 1970"
        raise click.BadParameter(f"{text!r} is not a time; {forms}", ctx, param) from exc


@dataclass(frozen=True, slots=True)
class DayTime:
    """A time of today, or of an earlier day, in the zone of the options."""

    days_ago: int
    time: timedelta

    def at(self, now: datetime) -> datetime:
        """Return the time, in the zone of `now`."""
        midnight = now.replace(hour=0, minute=0, second=0, microsecond=0, fold=0)
        return midnight - timedelta(days=self.days_ago) + self.time


def time_of(text: str) -> datetime | float | DayTime:
    """Parse a time; the result has no zone if the text has none. Seconds since 1970 are returned as a number.

    Raises:
        ValueError: the text is not a time.
        OverflowError: the time is after the end of the calendar.
    """
    ago = re.fullmatch(_AGO, text, re.IGNORECASE)
    if ago:
        return time.time() - int(ago[1] or ago[3]) * _UNITS[(ago[2] or ago[4])[0].lower()]
    day = re.fullmatch(_DAY, text, re.IGNORECASE)
    if day and text:
        if (day[1] or "").lower() == "now" and day[2] is None:
            return time.time()
        hours, minutes, seconds = (int(part or 0) for part in day.groups()[1:])
        if hours > _LAST_HOUR or max(minutes, seconds) > _LAST_MINUTE or (day[1] or "").lower() == "now":
            raise ValueError(text)
        return DayTime(
            int((day[1] or "").lower() == "yesterday"), timedelta(hours=hours, minutes=minutes, seconds=seconds)
        )
    digits = re.fullmatch(_DIGITS, text)
    if digits:
        size = len(digits[1])
        if size in _EPOCH_DIGITS:
            return float(text)
        if size not in _SHAPES:
            raise ValueError(text)
        year_size, count = _SHAPES[size]
        year, rest = digits[1][:year_size], digits[1][year_size:]
        parts = [year, *(rest[at : at + 2] for at in range(0, len(rest), 2))][:count]
        return _moment([*parts, *["0"] * (6 - count)], digits[2], None)
    match = re.fullmatch(_PARTS, text, re.IGNORECASE)
    if not match:
        raise ValueError(text)
    *parts, fraction, zone = match.groups()
    return _moment([part or "0" for part in parts], fraction, zone)


def _moment(parts: list[str], fraction: str | None, zone: str | None) -> datetime:
    year = int(parts[0]) if len(parts[0]) == 4 else int(parts[0]) + (2000 if int(parts[0]) < 70 else 1900)
    moment = datetime(year, *(int(part) for part in parts[1:]))  # type: ignore[arg-type]  # noqa: DTZ001
    moment += timedelta(microseconds=round(float(f"0{fraction}") * 1e6) if fraction else 0)
    if zone is None:
        return moment
    minutes = 0 if zone.upper() in ("Z", "UTC") else int(zone[1:3]) * 60 + int(zone[-2:])
    return moment.replace(tzinfo=timezone(timedelta(minutes=-minutes if zone[0] == "-" else minutes)))


@dataclass(frozen=True, slots=True)
class Reading:
    """Values of the options for reading logs."""

    verify_checksum: bool = True
    keyring: str | None = None
    definitions: GivenDefinitions | None = None
    limits: Limits = DEFAULT_LIMITS
    other_inputs: tuple[str, ...] = field(default=())

    def open(self, files: Iterable[str], **options: Any) -> BinlogReader:
        """Open the logs; `options` as for `binlogio.open`."""
        return binlogio.open(
            tuple(files),
            verify_checksum=self.verify_checksum,
            limits=self.limits,
            keyring=self.keyring,
            definitions=self.definitions,
            ignore_missing_logs=True,  # each command checks the logs that it reads
            **options,
        )

    @property
    def options(self) -> dict[str, Any]:
        """The options as arguments of `binlogio.read_rows` and `binlogio.read_tables`."""
        return {
            "verify_checksum": self.verify_checksum,
            "limits": self.limits,
            "keyring": self.keyring,
            "definitions": self.definitions,
        }


def earlier_definitions(
    definitions: GivenDefinitions | None, given: Sequence[LogFile], logs: Sequence[LogFile], keyring: Keyring | None
) -> GivenDefinitions | None:
    """Return definitions with those that the given logs have before the position at which reading of `logs` begins."""
    has_catalogue = definitions is not None and definitions.catalogue is not None
    if has_catalogue or not logs or any(log.stream is not None for log in given):
        return definitions
    from binlogio.columnar import EarlierLogs  # noqa: PLC0415 - needed by some selections only
    from binlogio.schema.given import GivenDefinitions  # noqa: PLC0415

    earlier = GivenDefinitions(catalogue=EarlierLogs(given[: given.index(logs[0]) + 1], keyring))
    return earlier if definitions is None else definitions.with_settings_of(earlier)


def output_zone() -> tzinfo:
    """Return the time zone of times in the output of the running command."""
    zone: tzinfo = click.get_current_context().params["zone"]
    return zone


def check_selected(
    selection: Selection,
    given: Sequence[LogFile],
    logs: Sequence[LogFile],
    keyring: Keyring | None,
    *,
    has_names: bool = True,
) -> None:
    """Check, before anything is written, that `given` logs have the GTIDs and names, and `logs` the positions.

    `has_names` is False if later logs may have the names.

    Raises:
        PositionError: no event starts at a position, or it is inside an event group.
        ConditionError: the logs are of another vendor than the GTIDs.
        Refusal: a glob matches nothing in the logs.
        OSError, BinlogError: a log cannot be read.
    """
    if selection.start is not None or selection.stop is not None:
        from binlogio.columnar.splits.group_scan import check_bounds  # noqa: PLC0415 - needed by some selections only

        check_bounds(logs, selection.start_offset, selection.stop_offset, keyring)
    _check_gtids(selection, given, keyring, has_all=has_names)
    if has_names:
        check_names(given, keyring, selection.names)


def _check_gtids(
    selection: Selection, logs: Sequence[LogFile], keyring: Keyring | None, *, has_all: bool = True
) -> None:
    if selection.asks_for_gtids:
        from binlogio.series.log_head import known_heads  # noqa: PLC0415 - needed by some selections only
        from binlogio.series.positions import check_vendor  # noqa: PLC0415

        check_vendor(selection.gtids, known_heads([log for log in logs if log.stream is None], keyring))
    if selection.include_gtids is not None and has_all:
        from binlogio.archive.logged_gtids import have_gtids  # noqa: PLC0415 - needed by some selections only
        from binlogio.gtid import MariadbDomains  # noqa: PLC0415

        if not have_gtids(logs, selection.include_gtids, keyring):
            is_of_domains = isinstance(selection.include_gtids, MariadbDomains)
            option = "--do-domain-ids" if is_of_domains else "--include-gtids"
            raise Refusal(
                f"{option}: no event group of the logs has such a GTID (`binlogio info` shows those in a log)"
            )


def text_and_files(arguments: tuple[str, ...], what: str) -> tuple[str | None, tuple[str, ...]]:
    """Return the first argument, if it names no log, and the names of logs; `what` says what the text is.

    Raises:
        UsageError: no log is named.
    """
    first = arguments[0]
    if _names_logs(first):
        for other in arguments[1:]:
            if not _names_logs(other) and " " in other:
                raise click.UsageError(f"{other!r}: there is no such file; a {what} is the first argument")
        return None, arguments
    if len(arguments) == 1:
        raise click.UsageError(f"{first!r}: there is no such file; after a {what}, name the logs")
    return first, arguments[1:]


def _names_logs(text: str) -> bool:
    is_place = text == "-" or re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", text) is not None
    return is_place or os.path.exists(text) or bool(glob(text))  # noqa: PTH110, PTH207 - or URIs


def row_choice(selection: Selection) -> RowChoice | None:
    """Return the selection of single rows; None: all rows."""
    if not selection.chooses_rows:
        return None
    from binlogio.columnar.row_choice import RowChoice  # noqa: PLC0415 - imports pyarrow

    return RowChoice(selection)


def replay_filter(selection: Selection, files: tuple[str, ...], rewrite_db: Iterable[str]) -> ReplayFilter:
    """Return the filter of `replay`, `undo` and `copy`; `files` are the logs, `rewrite_db` has items `FROM->TO`.

    Raises:
        UsageError: an item does not have this form.
    """
    from binlogio.replay import ReplayFilter  # noqa: PLC0415 - needed by some commands only

    conditions = {one.name: getattr(selection, one.name) for one in fields(Selection)}
    conditions["start"] = _in_log(selection.start, files[:1])
    conditions["stop"] = _in_log(selection.stop, files[-1:])
    return ReplayFilter(rewrite_db=renames(rewrite_db), **conditions)


def _in_log(position: Position | None, files: tuple[str, ...]) -> Position | None:
    if position is None or position.file:
        return position
    return Position(files[0] if files else "", position.offset)


def renames(texts: Iterable[str]) -> dict[str, str]:
    """Parse the values of `--rewrite-db`.

    Raises:
        UsageError: a value does not have the form FROM->TO.
    """
    pairs = [text.partition("->") for text in texts]
    for before, arrow, after in pairs:
        if not (before and arrow and after):
            raise click.UsageError(f"--rewrite-db {before}{arrow}{after}: expected FROM->TO")
    return {before: after for before, _, after in pairs}


def check_selection(reader: BinlogReader, wanted: ReplayFilter) -> None:
    """Check, before any change, that the positions and tables exist in the logs.

    Raises:
        PositionError: no event starts at a position.
        Refusal: no event matches a table.
        OSError, BinlogError: a log cannot be read.
    """
    from binlogio.replay.start_position import bounds_of  # noqa: PLC0415 - needed by some commands only

    bounds_of(reader, wanted)
    _check_gtids(wanted, reader.logs, reader.keyring)
    check_names(reader.logs, reader.keyring, wanted.names)


def check_names(logs: Sequence[LogFile], keyring: Keyring | None, names: TableNames, *, is_option: bool = True) -> None:
    """Check, before anything is written, that the logs have the selected databases and tables.

    `is_option` is False for a table that is an argument. An excluded table that they do not have is reported.

    Raises:
        Refusal: a glob matches nothing in the logs.
        OSError, BinlogError: a log cannot be read.
    """
    if not names:
        return
    from binlogio.replay.start_position import unknown_names  # noqa: PLC0415 - needed by some selections only

    unknown = unknown_names(logs, keyring, names)
    if unknown is None:
        return
    what = "database" if unknown.kind == "schema" else "table"
    option = "--exclude-table" if unknown.kind == "excluded table" else f"--{what}"
    more = ", ..." if len(unknown.names) > len(unknown.nearest) else ""
    several = f"; repeat {option} for several {what}s" if "," in unknown.glob else ""
    text = (
        f"{f'{option} ' if is_option else ''}{unknown.glob}: no event of the logs matches this {what}, found"
        f" {', '.join(unknown.nearest) + more or 'no rows'} (names are case-sensitive"
    )
    if unknown.kind == "excluded table":
        say(f"warning: {text})")
        return
    raise Refusal(text + (f"; leave out the option to select all {what}s{several})" if is_option else ")"))


def say_columns(rows: RowChoice | None, selection: Selection = EVERY_CHANGE, files: Iterable[str] = ()) -> bool:
    """Report rows that were not compared, or are not in the logs; return True if all were compared.

    Raises:
        ConditionError: no table had the columns of the condition.
    """
    if rows is not None:
        rows.check_columns()
    if rows is None or not (rows.unnamed or rows.undecided or rows.statements):
        return True
    from binlogio.selection.row_condition import undecided_text, unnamed_text  # noqa: PLC0415 - imports pyarrow

    for table in sorted(rows.unnamed):
        say(unnamed_text(table))
    for (table, column), count in sorted(rows.undecided.items()):
        say(undecided_text(table, column, count))
    say_statement_changes(rows.statements.values(), selection, files)
    return False


def table_options(selection: Selection) -> list[str]:
    """Return the options that select the tables of a selection, for another command."""
    named = (("-d", selection.databases), ("-T", selection.tables), ("--exclude-table", selection.exclude_tables))
    return [part for option, names in named for name in names for part in (option, name)]


def say_statement_changes(found: Collection[StatementChange], selection: Selection, files: Iterable[str]) -> int:
    """Report the first statements of logs that change rows as SQL text. Returns the exit code: `DAMAGE` for any."""
    if not found:
        return OK
    first = next(iter(found))
    more = f" (and statements in {counted(len(found) - 1, 'more log[s]')})" if len(found) > 1 else ""
    shown = shlex.join(["binlogio", "grep", *table_options(selection), *files])
    say(
        f"{first.file}: at {first.pos}: the log has a change as SQL text, so the result is incomplete, without"
        f" its rows: {first.sql[:80]!r}{more}; set binlog_format to ROW; a replay into a server has these rows;"
        f" {shown} shows such changes"
    )
    return DAMAGE


def _parse_position(
    ctx: click.Context, param: click.Parameter, text: str | None
) -> Position | MariadbGtidPosition | None:
    """Parse an offset, FILE:OFFSET, or GTIDs of MariaDB.

    Raises:
        BadParameter: the text is none of them.
    """
    if text is None:
        return None
    try:
        gtids = gtid_position(text)
    except BinlogFormatError as exc:
        raise click.BadParameter(str(exc), ctx, param) from exc
    if gtids is not None:
        return gtids
    file, _, offset = text.rpartition(":")
    number = _number(offset, HIGHEST)
    if number is None:
        forms = "expected an offset, FILE:OFFSET such as binlog.000001:4, or GTIDs of MariaDB such as 0-1-9,1-1-7"
        raise click.BadParameter(f"{text!r} is not a position; {forms}", ctx, param)
    return Position(file, number)


def _parse_numbers(ctx: click.Context, param: click.Parameter, texts: tuple[str, ...]) -> frozenset[int] | None:
    """Parse 32-bit numbers separated by commas.

    Raises:
        BadParameter: an item is not such a number.
    """
    found = set()
    for text in ",".join(texts).split(",") if texts else ():
        number = _number(text.strip(), _HIGHEST_ID)
        if number is None:
            raise click.BadParameter(f"{text!r} is not a number from 0 to {_HIGHEST_ID}", ctx, param)
        found.add(number)
    return frozenset(found) if texts else None


def _number(text: str, highest: int) -> int | None:
    """Parse decimal digits as a number up to `highest`; return None for any other text."""
    if not (text.isdecimal() and text.isascii() and len(text.lstrip("0")) <= len(str(highest))):
        return None
    return number if (number := int(text)) <= highest else None


def _parse_operations(ctx: click.Context, param: click.Parameter, text: str | None) -> frozenset[Operation] | None:
    """Parse names of operations separated by commas.

    Raises:
        BadParameter: a name is unknown.
    """
    if text is None:
        return None
    found = [one.strip().lower() for one in text.split(",")]
    try:
        check_values("operation", found, ("insert", "update", "delete"))
    except UnsupportedFeature as exc:
        raise click.BadParameter(str(exc), ctx, param) from exc
    return OPERATIONS.intersection(found)


def _parse_condition(ctx: click.Context, param: click.Parameter, text: str | None) -> RowCondition | None:
    """Parse a row condition.

    Raises:
        BadParameter: the text is not a condition.
    """
    if text is None:
        return None
    from binlogio.selection.row_condition import RowCondition  # noqa: PLC0415 - imports pyarrow

    try:
        return RowCondition(text)
    except ConditionError as exc:
        raise click.BadParameter(str(exc), ctx, param) from exc


def _parse_globs(ctx: click.Context, param: click.Parameter, texts: tuple[str, ...]) -> tuple[str, ...]:
    """Check that no glob is empty: it would match nothing.

    Raises:
        BadParameter: one is.
    """
    if any(not text.strip() for text in texts):
        raise click.BadParameter("a name is empty", ctx, param)
    return texts


def _numbers_option(*names: str, help: str) -> Callable[[_Command], _Command]:  # noqa: A002 - name of click
    return click.option(*names, multiple=True, metavar="N,...", callback=_parse_numbers, help=help)


def input_once(ctx: click.Context, param: click.Parameter, files: tuple[str, ...]) -> tuple[str, ...]:
    """Check that standard input is given at most once.

    Raises:
        UsageError: standard input is given twice.
    """
    if files.count("-") > 1:
        raise click.UsageError("- is standard input, which can be read once", ctx)
    return files


files_argument: Final = click.argument(
    "files",
    nargs=-1,
    required=True,
    type=INPUT_PATH,
    callback=input_once,
)
_SELECTION: Final = (
    click.option(
        "-d",
        "--database",
        "databases",
        multiple=True,
        metavar="GLOB",
        callback=_parse_globs,
        help="Select only this database; may be repeated.",
    ),
    click.option(
        "-T",
        "--table",
        "tables",
        multiple=True,
        metavar="GLOB",
        callback=_parse_globs,
        help="Select only this table, given as t or db.t; may be repeated.",
    ),
    click.option(
        "--exclude-table",
        "exclude_tables",
        multiple=True,
        metavar="GLOB",
        callback=_parse_globs,
        help="Leave out this table, given as t or db.t; may be repeated.",
    ),
    click.option(
        "-j",
        "--start-position",
        metavar="POSITION",
        callback=_parse_position,
        help="Start at this offset in the first log, or at FILE:OFFSET. With GTIDs of MariaDB, one for each domain "
        "(0-1-9,1-1-7, as in @@gtid_slave_pos): skip the transactions of these domains up to the GTIDs.",
    ),
    click.option(
        "--stop-position",
        metavar="POSITION",
        callback=_parse_position,
        help="Stop before this offset in the last log, or before FILE:OFFSET. With GTIDs of MariaDB: select only the "
        "transactions of these domains up to the GTIDs.",
    ),
    click.option(
        "--start-datetime",
        metavar="TIME",
        callback=_parse_time,
        help="Skip event groups that begin before this time: '2026-11-20 12:00:00', -2h, 'yesterday 12:00', ISO 8601, "
        "20261120120000, or seconds since 1970.",
    ),
    click.option(
        "--stop-datetime",
        metavar="TIME",
        callback=_parse_time,
        help="Stop before the first event group that begins at or after this time.",
    ),
    click.option(
        "--time-zone",
        "zone",
        metavar="ZONE",
        callback=parse_zone,
        default="local",
        show_default=True,
        help="Time zone of times in options and output: local, UTC, +02:00 or a name such as Europe/Berlin.",
    ),
    click.option(
        "--include-gtids", metavar="GTIDS", callback=parse_gtids, help=f"Select only these transactions. {_GTIDS_HELP}"
    ),
    click.option("--exclude-gtids", metavar="GTIDS", callback=parse_gtids, help="Leave out these transactions."),
    _numbers_option(
        "--server-id",
        "--do-server-ids",
        help="Select only event groups of these servers; the server of a group is that of its first event.",
    ),
    _numbers_option("--ignore-server-ids", help="Leave out event groups of these servers."),
    _numbers_option("--do-domain-ids", help="Select only transactions of these GTID domains (MariaDB)."),
    _numbers_option("--ignore-domain-ids", help="Leave out transactions of these GTID domains (MariaDB)."),
    click.option(
        "--operation",
        "operations",
        metavar="LIST",
        callback=_parse_operations,
        help="Select only row changes of these operations: insert, update, delete, separated by commas.",
    ),
    click.option(
        "--where",
        "condition",
        metavar="CONDITION",
        callback=_parse_condition,
        help='Select only row changes whose values match, such as "id = 42 AND after.total > 10".',
    ),
)
keyring_option: Final = click.option(
    "--keyring",
    type=INPUT_PATH,
    metavar="FILE",
    help="The keyring file of the server, for encrypted logs.",
)
_READING: Final = (
    definitions_option,
    click.option("--no-verify-checksum", is_flag=True, help="Do not verify CRC32 checksums."),
    keyring_option,
    click.option(
        "--max-event-size",
        type=ByteSize(),
        default=DEFAULT_LIMITS.event_size,
        show_default=True,
        metavar="BYTES",
        help="Refuse an event that is larger, before memory is allocated for it.",
    ),
    click.option(
        "--max-opened-size",
        type=ByteSize(),
        default=DEFAULT_LIMITS.opened_size,
        show_default=True,
        metavar="BYTES",
        help="Refuse a compressed event that is larger when decompressed, before memory is allocated for it.",
    ),
)
rewrite_option: Final = click.option(
    "--rewrite-db",
    multiple=True,
    metavar="FROM->TO",
    help="Rename a database, in rows and in statements; may be repeated.",
)


def selection_options(command: _Command) -> _Command:
    """Add the options that select a part of the logs; the command takes `selection: Selection`."""

    @functools.wraps(command)
    def run(
        *,
        start_position: Position | MariadbGtidPosition | None,
        stop_position: Position | MariadbGtidPosition | None,
        start_datetime: datetime | float | None,
        stop_datetime: datetime | float | None,
        **options: Any,
    ) -> Any:
        del options["zone"]
        chosen = {name: options.pop(name) for name in _PLAIN}
        zone = output_zone()
        chosen["server_ids"] = _servers(options.pop("server_id"), options.pop("ignore_server_ids"))
        _add_domains(chosen, "include_gtids", "--do-domain-ids", options.pop("do_domain_ids"))
        _add_domains(chosen, "exclude_gtids", "--ignore-domain-ids", options.pop("ignore_domain_ids"))
        selection = Selection(
            start=start_position if isinstance(start_position, Position) else None,
            stop=stop_position if isinstance(stop_position, Position) else None,
            after_gtids=None if isinstance(start_position, Position) else start_position,
            up_to_gtids=None if isinstance(stop_position, Position) else stop_position,
            start_time=_seconds("--start-datetime", start_datetime, zone),
            stop_time=_seconds("--stop-datetime", stop_datetime, zone),
            **chosen,
        )
        return command(selection=selection, **options)

    return _with(_SELECTION, run)  # type: ignore[return-value]


_PLAIN: Final = (
    "databases", "tables", "exclude_tables", "include_gtids", "exclude_gtids", "operations", "condition",
)  # fmt: skip


def _servers(wanted: frozenset[int] | None, unwanted: frozenset[int] | None) -> frozenset[int] | AllExcept | None:
    if wanted is not None and unwanted is not None:
        raise click.UsageError("--server-id and --ignore-server-ids exclude each other: give only one")
    return wanted if unwanted is None else AllExcept(unwanted)


def _add_domains(chosen: dict[str, Any], name: str, option: str, domain_ids: frozenset[int] | None) -> None:
    if domain_ids is None:
        return
    if chosen[name] is not None:
        raise click.UsageError(f"--{name.replace('_', '-')} and {option} exclude each other: give only one")
    from binlogio.gtid import MariadbDomains  # noqa: PLC0415 - seldom needed

    chosen[name] = MariadbDomains(domain_ids)


def reading_options(command: _Command) -> _Command:
    """Add the options for reading logs; the command takes `reading: Reading`."""

    @functools.wraps(command)
    def run(
        *,
        table_definitions: GivenDefinitions | None,
        no_verify_checksum: bool,
        keyring: str | None,
        max_event_size: int,
        max_opened_size: int,
        **options: Any,
    ) -> Any:
        reading = Reading(
            verify_checksum=not no_verify_checksum,
            keyring=keyring,
            definitions=table_definitions,
            limits=Limits(event_size=min(max_event_size, HIGHEST), opened_size=min(max_opened_size, HIGHEST)),
            other_inputs=tuple(file for file in (keyring, definitions_file()) if file is not None),
        )
        return command(reading=reading, **options)

    return _with(_READING, run)  # type: ignore[return-value]


def _with(options: tuple[Callable[[_Command], _Command], ...], command: _Command) -> _Command:
    for option in reversed(options):
        command = option(command)
    return command


def _seconds(option: str, moment: datetime | float | DayTime | None, zone: tzinfo) -> int | None:
    """Convert a time to seconds since 1970, rounded up, because events have whole seconds.

    Raises:
        Refusal: the clocks of the zone show it twice, or never, because of daylight saving time.
    """
    if moment is None:
        return None
    if isinstance(moment, DayTime):
        moment = moment.at(datetime.now(zone)).replace(tzinfo=None)
    if isinstance(moment, datetime) and moment.tzinfo is None:
        first, second = sorted(moment.replace(tzinfo=zone, fold=fold).timestamp() for fold in (0, 1))
        if first != second:
            one, other = (datetime.fromtimestamp(seconds, zone).isoformat() for seconds in (first, second))
            how = "is twice" if one[:19] == other[:19] else "does not exist"
            raise Refusal(
                f"{option} {moment}: this time {how} in the time zone, because of daylight saving time (give it with an"
                f" offset, such as {one} or {other})"
            )
        moment = first
    return math.ceil(moment.timestamp() if isinstance(moment, datetime) else moment)
