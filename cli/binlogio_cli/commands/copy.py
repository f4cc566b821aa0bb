"""`binlogio copy`: copies event groups to new logs.

This module has the options and the report. `binlogio.archive.copy` does the copy.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import click

from binlogio.archive import CopyOptions, NewLogs, copy_logs
from binlogio.storage.index_file import log_name, log_number, numbered_name
from binlogio_cli.messages import say, say_missing
from binlogio_cli.options import ByteSize, SectionedCommand, WholeNumber, ignore_missing_logs_option
from binlogio_cli.output import OutputFile, force_option, log_output, new_logs_option, out_option, quiet_option
from binlogio_cli.progress import watched_logs
from binlogio_cli.quantities import counted
from binlogio_cli.selection import (
    Reading,
    check_selection,
    files_argument,
    reading_options,
    replay_filter,
    rewrite_option,
    say_columns,
    selection_options,
)

if TYPE_CHECKING:
    from binlogio.archive import CopySummary
    from binlogio.reader import BinlogReader
    from binlogio.selection.selection import Selection

_FIRST_NUMBER: Final = "000001"
_EXAMPLE: Final = """\b
Examples: one table of all logs, in one log; a directory of logs of 100 MiB; a plain copy of encrypted logs
  binlogio copy --table shop.orders -o orders.000001 binlog.0*
  binlogio copy --merge --max-size 100M -o split/ binlog.0*
  binlogio copy --keyring keyring.json -o plain/ binlog.index
"""


@click.command("copy", cls=SectionedCommand, epilog=_EXAMPLE)
@files_argument
@new_logs_option
@out_option
@click.option(
    "--basename",
    metavar="NAME",
    help="Name of the logs in a directory: NAME.000001 and so on. By default they continue from the first log.",
)
@click.option("--merge", is_flag=True, help="In a directory: do not begin a new log for each log that is read.")
@click.option("--max-size", type=ByteSize(), metavar="BYTES", help="Begin a new log after this size, between groups.")
@click.option("--max-groups", type=WholeNumber(min=1), help="Begin a new log after this number of event groups.")
@click.option("--by-day", is_flag=True, help="Begin a new log with the first event group of a day (UTC).")
@click.option(
    "--checksum", type=click.Choice(["crc32", "none"]), help="Write checksums, or none. Default: as in the source."
)
@click.option(
    "--compression",
    type=click.Choice(["on", "off"]),
    help="Compress transactions (MySQL: TRANSACTION_PAYLOAD) or events (MariaDB: log_bin_compress), or write them "
    "uncompressed. Default: as in the source.",
)
@click.option(
    "--encrypt",
    is_flag=True,
    help="Encrypt the new logs with the key in --keyring, as their server does: the file (MySQL) or events (MariaDB).",
)
@click.option(
    "--drop-empty",
    is_flag=True,
    help="Leave out transactions from which the filters remove everything. By default, those with a GTID stay as empty "
    "transactions, so that the GTID set has no gap.",
)
@force_option
@ignore_missing_logs_option
@selection_options
@rewrite_option
@reading_options
@quiet_option
def command(
    files: tuple[str, ...],
    output: str | None,
    out: str | None,
    selection: Selection,
    reading: Reading,
    **options: Any,
) -> int:
    """Copy event groups into new binary logs: filter, cut, split, merge, decrypt, recompress.

    Transactions are copied whole, with new positions and checksums. Their contents change only if tables are selected
    or schemas renamed. The heads of the new logs have the GTIDs that precede them. Compressed files are written
    uncompressed, and encrypted logs decrypted unless --encrypt is given. The new files are renamed to their names when
    the copy is complete.
    """
    place, is_directory = log_output(output, out)
    splits = [name for name in ("merge", "max_size", "max_groups", "by_day", "basename") if options[name]]
    if splits and not is_directory:
        raise click.UsageError(f"--{splits[0].replace('_', '-')} is for a directory: give --output {place}/")
    chosen = CopyOptions(
        definitions=reading.definitions,
        checksum=None if options["checksum"] is None else options["checksum"] == "crc32",
        compression=None if options["compression"] is None else options["compression"] == "on",
        drops_empty=options["drop_empty"],
        merges=options["merge"],
        max_size=options["max_size"],
        max_groups=options["max_groups"],
        by_day=options["by_day"],
    )
    if options["encrypt"] and reading.keyring is None:
        raise click.UsageError("--encrypt needs the keys of a server: give its keyring with --keyring")
    with reading.open(files) as reader:
        wanted = replay_filter(selection, reader.files, options["rewrite_db"])
        chosen = replace(chosen, wanted=wanted, encrypts_with=reader.keyring if options["encrypt"] else None)
        inputs = [*reader.files, *files, *reading.other_inputs]
        target = None if is_directory else OutputFile.checked(place, inputs, force=options["force"]).path
        check_selection(reader, wanted)
        if target is not None:
            logs = NewLogs.in_file(target, replaces=options["force"], inputs=inputs)
        else:
            first = _first_name(reader, options["basename"], merges=options["merge"])
            logs = NewLogs.in_directory(place, first, replaces=options["force"], inputs=inputs)
        with logs, watched_logs(reader.files, is_shown=not options["quiet"]) as watch:
            summary = copy_logs(
                reader.logs,
                logs,
                chosen,
                read_options=reader.options,
                keyring=reader.keyring,
                ignore_missing_logs=options["ignore_missing_logs"],
                watch=watch,
            )
        _report(summary, [str(log.path) for log in logs.logs] if is_directory else [place], chosen)
    return say_missing(summary.missing)


def _first_name(reader: BinlogReader, basename: str | None, *, merges: bool) -> str:
    """Return the name of the first new log in a directory.

    Raises:
        UsageError: the logs belong to several series, which would be mixed.
    """
    if basename is not None:
        return f"{basename}.{_FIRST_NUMBER}"
    series = {log_number(log_name(file))[0]: file for file in reader.files}
    if len(series) > 1 and not merges:
        one, other, *_ = series.values()
        raise click.UsageError(
            f"{one} and {other} are of different series: copy each series by itself, or name the new one by --basename"
        )
    return numbered_name(reader.files[0]) or f"binlog.{_FIRST_NUMBER}"


def _report(summary: CopySummary, paths: list[str], options: CopyOptions) -> None:
    """Print the numbers of copied and omitted event groups."""
    say(f"copied {counted(summary.groups, 'event group[s]')} into {', '.join(paths)}")
    if not summary.groups and (options.chooses_groups or options.edits):
        say("no event group matches the options: the new log has only its head")
    for count, what in (
        (summary.left_out, "event group[s] [were|was] left out by the filters"),
        (
            summary.emptied,
            "event group[s] [are empty transactions|is an empty transaction] now (--drop-empty drops [them|it])",
        ),
        (summary.dropped, "event group[s] [were|was] left out because the filters left nothing of [them|it]"),
    ):
        if count:
            say(counted(count, what))
    for table, count in sorted(summary.dropped_events.items()):
        say(f"  {table}: {counted(count, 'rows event[s]')} left out")
    if summary.repeated:
        repeated = counted(summary.repeated, "GTID[s] [occur|occurs]")
        say(f"{repeated} twice: a log was given twice, or the order of the logs is wrong")
    for place in summary.unfinished:
        say(f"{place.file}: at {place.offset}: the log ends in the middle of an event group, which is not copied")
    say_columns(options.wanted.rows)
