"""`binlogio dump`: prints events and row changes as text, JSON or SQL.

This file has the options, including those of mysqlbinlog that are accepted or refused. The output formats
and the filters are in `binlogio_cli.dump`.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

import click

import binlogio
from binlogio.event_filter import EventFilter
from binlogio_cli.dump.filters import FilteredDump
from binlogio_cli.dump.json_output import JsonDump
from binlogio_cli.dump.text_output import TextDump, TextStyle
from binlogio_cli.messages import say, say_torn_tails
from binlogio_cli.output import STDOUT, Dump, OutputFile, force_option, open_output, output_option
from binlogio_cli.selection import Reading, Selection, reading_options, selection_options

if TYPE_CHECKING:
    from binlogio_cli.dump.filters import DumpFilter

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
    (("-F", "--force-if-open"), False),
)

_EXAMPLE: Final = """\b
Examples:
  binlogio dump binlog.000042
  binlogio dump -T shop.orders --start-datetime '2026-11-20 12:00:00' /var/lib/mysql/binlog.index
  binlogio dump --format json archive/binlog.0000*.zst | jq 'select(.type == "XID_EVENT")'
  binlogio dump --format sql --stop-position 8210 binlog.000042 | mysql
"""


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
@selection_options
@reading_options
@click.option("--skip-gtids", is_flag=True, help="With --format sql: do not set the GTIDs of the log (SET gtid_next).")
@click.option("-v", "--verbose", count=True, help="-vv adds column types. Rows are shown without -v as well.")
@click.option("-s", "--short-form", is_flag=True, help="Show only statements and row changes.")
@click.option("-H", "--hexdump", is_flag=True, help="Show the bytes of each event as well.")
@output_option
@force_option
@_habits
def command(
    files: tuple[str, ...],
    form: str,
    selection: Selection,
    reading: Reading,
    skip_gtids: bool,  # noqa: FBT001
    verbose: int,
    short_form: bool,  # noqa: FBT001
    hexdump: bool,  # noqa: FBT001
    output: str | None,
    force: bool,  # noqa: FBT001
) -> None:
    """Print the events and row changes of binary logs.

    FILES are paths, globs, directories, .index files, URIs of object stores, or - for standard input. Files compressed
    with gzip, zstd, xz or bzip2 are decompressed. Logs of MySQL 5.0 to 9.7 and of MariaDB can be read. Checksums are
    verified.

    Text output is for people: control characters are escaped. SQL output is for the client mysql or mariadb: names and
    values are those of the log, byte for byte.
    """
    if form == "sql" and output in (None, STDOUT) and sys.stdout.isatty():
        raise click.UsageError(
            "--format sql needs a pipe or --output: bytes of the log could be control sequences of the terminal"
        )
    logs = selection.logs(binlogio.open(files).files) if selection.names_logs else files
    wanted = selection.dump_filter()
    reader = reading.open(logs, start_offset=selection.start_offset, stop_offset=selection.stop_offset)
    style = TextStyle(verbosity=verbose, short=short_form, hexdump=hexdump, zone=selection.zone)
    dump: Dump
    if form == "sql":
        from binlogio_cli.dump.sql_output import SqlDump  # noqa: PLC0415 - replay code is seldom needed

        dump = SqlDump(reader, gtids=not skip_gtids)
        if selection.stop_time is None and selection.start is None and selection.stop is None:
            reader.leave_out(_logs_without(reader, wanted))
    else:
        dump = JsonDump(reader, selection.zone) if form == "json" else TextDump(reader, style)
    target = OutputFile.checked(output, (*reader.files, *files, *reading.other_inputs), force=force)
    with reader, open_output(target, "surrogateescape" if form == "sql" else "backslashreplace") as stream:
        filtered = FilteredDump(reader, wanted, dump.event, dump.writer(wanted))
        try:
            stream.write_all(filtered.choose())
        finally:
            stream.flush()
            say_torn_tails(reader)
            _report_unnamed_tables(reader)
        stream.write_all(dump.foot())
    if not filtered.found and selection.is_partial:
        say("no event group of the logs is selected by the options")


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
