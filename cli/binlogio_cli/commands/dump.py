"""`binlogio dump`: prints events and row changes as text, JSON or SQL.

This file has the options, including those of mysqlbinlog that are accepted or refused. The output formats
and the filters are in `binlogio_cli.dump`.
"""

from __future__ import annotations

import sys
from datetime import datetime, timezone, tzinfo
from typing import TYPE_CHECKING, Any, Final, cast

import click

import binlogio
from binlogio.errors import BinlogFormatError
from binlogio.event_filter import EventFilter
from binlogio_cli.dump.filters import DumpFilter, FilteredDump
from binlogio_cli.dump.json_output import JsonDump
from binlogio_cli.dump.text_output import TextDump, TextStyle
from binlogio_cli.messages import say, say_torn_tails
from binlogio_cli.options import (
    GTIDS_HELP,
    START_GTIDS_HELP,
    STOP_GTIDS_HELP,
    definitions_file,
    definitions_option,
    gtid_position,
    limits_of,
    limits_options,
    parse_gtids,
    parse_time,
)
from binlogio_cli.output import STDOUT, Dump, OutputFile, force_option, open_output

if TYPE_CHECKING:
    from binlogio.event_filter import Gtids
    from binlogio.gtid import MariadbGtidPosition
    from binlogio.schema.given import GivenDefinitions

# Options of mysqlbinlog for reading from a server, which are refused: (names, takes a value).
_NETWORK: Final = (
    (("-R", "--read-from-remote-server"), False),
    (("--read-from-remote-source", "--read-from-remote-master"), True),
    (("-h", "--host"), True),
    (("-u", "--user"), True),
    (("-p", "--password"), True),
    (("-P", "--port"), True),
    (("-S", "--socket"), True),
    (("--protocol",), True),
    (("--stop-never",), False),
    (("-t", "--to-last-log"), False),
)
# Options of mysqlbinlog without effect here: defaults file, base64 (rows are always decoded), checksums (always
# verified).
_IGNORED: Final = (
    (("--no-defaults",), False),
    (("--base64-output",), True),
    (("-c", "--verify-binlog-checksum"), False),
    (("-f", "--force-if-open"), False),
)

_EXAMPLE: Final = """\b
Examples:
  binlogio dump binlog.000042
  binlogio dump -T shop.orders --start-datetime '2026-11-20 12:00:00' /var/lib/mysql/binlog.index
  binlogio dump --format json archive/binlog.0000*.zst | jq 'select(.type == "XID_EVENT")'
  binlogio dump --format sql --stop-position 8210 binlog.000042 | mysql
"""


def _parse_zone(ctx: click.Context, param: click.Parameter, text: str) -> tzinfo:
    if text.upper() == "UTC":
        return timezone.utc
    if text == "local":
        return cast("tzinfo", datetime.now().astimezone().tzinfo)
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError  # noqa: PLC0415 - seldom needed

    try:
        return ZoneInfo(text)
    except (ZoneInfoNotFoundError, ValueError, OSError) as exc:
        reason = f"{text!r} is not a time zone; expected UTC, local, or a name such as Europe/Berlin"
        raise click.BadParameter(reason, ctx, param) from exc


def _parse_position(ctx: click.Context, param: click.Parameter, text: str | None) -> int | MariadbGtidPosition | None:
    """Parse an offset, or GTIDs of MariaDB."""
    if text is None:
        return None
    if text.isdecimal() and text.isascii():
        return int(text)
    try:
        gtids = gtid_position(text)
    except BinlogFormatError as exc:
        raise click.BadParameter(str(exc), ctx, param) from exc
    if gtids is None:
        raise click.BadParameter(f"{text!r} is not an offset, nor GTIDs of MariaDB such as 0-1-9,1-1-7", ctx, param)
    return gtids


def _not_here(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    if value:
        raise click.UsageError(
            f"{param.opts[-1]} is not supported: binlogio reads files, it does not connect to a server", ctx
        )


def _habits(command: Any) -> Any:
    for names, takes_value in _NETWORK:
        command = click.option(*names, is_flag=not takes_value, hidden=True, expose_value=False, callback=_not_here)(
            command
        )
    for names, takes_value in _IGNORED:
        command = click.option(*names, is_flag=not takes_value, hidden=True, expose_value=False)(command)
    return command


@click.command("dump", epilog=_EXAMPLE)
@click.argument("files", nargs=-1, required=True)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "sql"]),
    default="text",
    help="Output format: text for people, one JSON object per line, or SQL for the mysql client.",
)
@click.option(
    "-d", "--database", "databases", multiple=True, metavar="GLOB", help="Show only this database; may be repeated."
)
@click.option(
    "-T",
    "--table",
    "tables",
    multiple=True,
    metavar="GLOB",
    help="Show only this table, given as t or db.t; may be repeated.",
)
@click.option(
    "-j",
    "--start-position",
    metavar="POSITION",
    callback=_parse_position,
    help=f"Start at this offset in the first file. {START_GTIDS_HELP}",
)
@click.option(
    "--stop-position",
    metavar="POSITION",
    callback=_parse_position,
    help=f"Stop before this offset in the last file. {STOP_GTIDS_HELP}",
)
@click.option(
    "--start-datetime",
    metavar="TIME",
    callback=parse_time,
    help="Show only event groups that start at or after this time.",
)
@click.option(
    "--stop-datetime",
    metavar="TIME",
    callback=parse_time,
    help="Stop before the first event group that starts at or after this time.",
)
@click.option(
    "--time-zone",
    metavar="ZONE",
    callback=_parse_zone,
    default="UTC",
    help="Time zone of times in options and output: UTC, local or a name.",
)
@click.option(
    "--include-gtids",
    metavar="GTIDS",
    callback=parse_gtids,
    help=f"Show only these transactions. {GTIDS_HELP} With --format sql, a log is not read if its head and that of the "
    "next log show that it has none of them.",
)
@click.option("--exclude-gtids", metavar="GTIDS", callback=parse_gtids, help="Leave out these transactions.")
@click.option("--no-verify-checksum", is_flag=True, help="Do not verify CRC32 checksums.")
@click.option(
    "--keyring",
    type=click.Path(exists=True, dir_okay=False),
    help="The keyring file of the server, for encrypted logs.",
)
@definitions_option
@limits_options
@click.option("--skip-gtids", is_flag=True, help="With --format sql: do not set the GTIDs of the log (SET gtid_next).")
@click.option("-v", "--verbose", count=True, help="-vv adds column types. Rows are shown without -v as well.")
@click.option("-s", "--short-form", is_flag=True, help="Show only statements and row changes.")
@click.option("-H", "--hexdump", is_flag=True, help="Show the bytes of each event as well.")
@click.option(
    "-r", "--result-file", type=click.Path(dir_okay=False), help="Write to this new file instead of standard output."
)
@force_option
@_habits
def command(
    files: tuple[str, ...],
    form: str,
    databases: tuple[str, ...],
    tables: tuple[str, ...],
    start_position: int | MariadbGtidPosition | None,
    stop_position: int | MariadbGtidPosition | None,
    start_datetime: datetime | None,
    stop_datetime: datetime | None,
    time_zone: tzinfo,
    include_gtids: Gtids | None,
    exclude_gtids: Gtids | None,
    no_verify_checksum: bool,  # noqa: FBT001 - click's flags
    keyring: str | None,
    table_definitions: GivenDefinitions | None,
    max_event_size: int,
    max_opened_size: int,
    skip_gtids: bool,  # noqa: FBT001
    verbose: int,
    short_form: bool,  # noqa: FBT001
    hexdump: bool,  # noqa: FBT001
    result_file: str | None,
    force: bool,  # noqa: FBT001
) -> None:
    """Print the events and row changes of binary logs.

    FILES are paths, globs, directories, .index files, URIs of object stores, or - for standard input. Files compressed
    with gzip, zstd, xz or bzip2 are decompressed. Logs of MySQL 5.0 to 9.7 and of MariaDB can be read. Checksums are
    verified.

    Text output is for people: control characters are escaped. SQL output is for the client mysql or mariadb: names and
    values are those of the log, byte for byte.
    """
    if form == "sql" and result_file in (None, STDOUT) and sys.stdout.isatty():
        raise click.UsageError(
            "--format sql needs a pipe or --result-file: bytes of the log could be control sequences of the terminal"
        )
    selection = DumpFilter(
        databases=databases,
        tables=tables,
        start=_seconds(start_datetime, time_zone),
        stop=_seconds(stop_datetime, time_zone),
        include_gtids=include_gtids,
        exclude_gtids=exclude_gtids,
        after_gtids=None if isinstance(start_position, int) else start_position,
        up_to_gtids=None if isinstance(stop_position, int) else stop_position,
    )
    reader = binlogio.open(
        files,
        verify_checksum=not no_verify_checksum,
        start_offset=start_position if isinstance(start_position, int) else None,
        stop_offset=stop_position if isinstance(stop_position, int) else None,
        limits=limits_of(max_event_size, max_opened_size),
        keyring=keyring,
        definitions=table_definitions,
    )
    style = TextStyle(verbosity=verbose, short=short_form, hexdump=hexdump, zone=time_zone)
    dump: Dump
    if form == "sql":
        from binlogio_cli.dump.sql_output import SqlDump  # noqa: PLC0415 - replay code is seldom needed

        dump = SqlDump(reader, gtids=not skip_gtids)
        if stop_datetime is None and not isinstance(start_position, int) and not isinstance(stop_position, int):
            reader.leave_out(_logs_without(reader, selection))
    else:
        dump = JsonDump(reader, time_zone) if form == "json" else TextDump(reader, style)
    inputs = (*reader.files, *files, keyring, definitions_file())
    target = OutputFile.checked(result_file, inputs, force=force)
    with reader, open_output(target, "surrogateescape" if form == "sql" else "backslashreplace") as output:
        try:
            output.write_all(FilteredDump(reader, selection, dump.event, dump.writer(selection)).choose())
        finally:
            output.flush()
            say_torn_tails(reader)
            _report_unnamed_tables(reader)
        output.write_all(dump.foot())


def _seconds(moment: datetime | None, zone: tzinfo) -> int | None:
    if moment is None:
        return None
    return int((moment if moment.tzinfo is not None else moment.replace(tzinfo=zone)).timestamp())


def _logs_without(reader: binlogio.BinlogReader, selection: DumpFilter) -> frozenset[int]:
    """Return the numbers of the logs of which SQL has nothing, by their heads: events outside of groups are not SQL."""
    wanted = [gtids for gtids in (selection.include_gtids, selection.up_to_gtids) if gtids is not None]
    if not wanted:
        return frozenset()
    from binlogio.columnar.splits.skipped_logs import logs_without  # noqa: PLC0415 - seldom needed

    wheres = (EventFilter(wanted_gtids=gtids) for gtids in wanted)
    return frozenset().union(*(logs_without(reader.logs, where, reader.keyring) for where in wheres))


def _report_unnamed_tables(reader: binlogio.BinlogReader) -> None:
    """Report tables whose columns have numbers although the log seems to name them."""
    for table, reason in reader.unnamed_tables.items():
        say(f"{table}: the columns have numbers instead of names: {reason}; give their names with --table-definitions")
