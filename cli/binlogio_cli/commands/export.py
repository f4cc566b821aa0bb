"""`binlogio export`: writes the row changes of logs to Parquet, Arrow, CSV, JSON lines, DuckDB, Delta or Iceberg.

This module has the options and the report; `binlogio.archive.export` does the export.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

import click

from binlogio.archive.export import ExportFormat, export
from binlogio.archive.export.ledger import cascade_to_json, load_ledger, save_ledger
from binlogio.archive.logged_gtids import logged_gtids, mysql_gtids
from binlogio.columnar import SOURCE_COLUMNS
from binlogio.errors import BinlogFormatError
from binlogio.gtid import GtidSet
from binlogio.schema.given import GivenDefinitions
from binlogio.series.continuity import missing_gtids, shown
from binlogio.series.log_head import read_head
from binlogio.series.positions import selected_logs
from binlogio.storage import find_logs, load_keyring
from binlogio_cli.messages import Refusal, say, say_missing
from binlogio_cli.options import INPUT_PATH, SectionedCommand, WholeNumber, ignore_missing_logs_option
from binlogio_cli.output import output_option, quiet_option
from binlogio_cli.progress import watched_logs
from binlogio_cli.quantities import counted
from binlogio_cli.selection import (
    check_selected,
    earlier_definitions,
    files_argument,
    reading_options,
    say_statement_changes,
    selection_options,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from binlogio.archive.export import ExportSummary, FormatName
    from binlogio.selection.selection import Selection
    from binlogio.storage import Keyring, LogFile
    from binlogio_cli.selection import Reading

_EXAMPLE: Final = """\b
Examples: a day of logs as Parquet; two tables as Delta, continued each hour; everything in one DuckDB file
  binlogio export -o changes /archive/binlog.*
  binlogio export -o lake --format delta -T 'shop.orders' -T 'shop.items' --append /archive/binlog.*
  binlogio export -o changes.duckdb --format duckdb /archive/binlog.*
"""


def names_of(text: str | None) -> list[str] | None:
    """Return names that are separated by commas."""
    return None if text is None else [name.strip() for name in text.split(",")]


base_option: Final = click.option(
    "--base",
    type=INPUT_PATH,
    metavar="PATH",
    help="For --latest: begin with the rows of an earlier export with --latest (a directory of Parquet or Arrow "
    "files), or of a dump of mysqldump or mariadb-dump with its position or GTIDs. FILES continue it.",
)


def _source_columns(_ctx: click.Context, _param: click.Parameter, value: str) -> list[str]:
    """Return names of source columns."""
    found = names_of(value) or []
    for name in found:
        if name not in SOURCE_COLUMNS:
            raise click.BadParameter(f"{name!r} is not one of {', '.join(SOURCE_COLUMNS)}")
    return found


@click.command("export", cls=SectionedCommand, epilog=_EXAMPLE)
@files_argument
@output_option("A new directory, or a new file with --format duckdb.", metavar="PATH", aliases=("--to",), required=True)
@click.option(
    "--format",
    "form",
    type=click.Choice([one.value for one in ExportFormat]),
    default=ExportFormat.PARQUET.value,
    show_default=True,
    help="The format of the files or tables.",
)
@click.option(
    "--columns", metavar="NAMES", help="Export only these columns of the tables; names are separated by commas."
)
@click.option(
    "--source-columns",
    metavar="NAMES",
    default="commit_timestamp",
    callback=_source_columns,
    show_default=True,
    help=f"Columns about the transaction of a change, separated by commas: {', '.join(SOURCE_COLUMNS)}.",
)
@click.option(
    "--latest",
    is_flag=True,
    help="Export only the last state of each row, without deleted rows; needs primary keys and full images.",
)
@base_option
@click.option(
    "--key", metavar="NAMES", help="For --latest: the primary key, if neither log nor --table-definitions have it."
)
@click.option(
    "--partition-by",
    type=click.Choice(["day", "hour"]),
    help="Write a directory or partition for each day or hour (UTC) of changes.",
)
@click.option("--append", is_flag=True, help="Continue an export: skip the changes that it already has.")
@click.option("--force", is_flag=True, help="Replace an export, except tables of Delta and Iceberg.")
@click.option(
    "--compression",
    type=click.Choice(["zstd", "snappy", "lz4", "gzip", "none"]),
    help="The compression of Parquet and Arrow files.  [default: zstd; lz4 for Arrow]",
)
@click.option(
    "--csv-safe", is_flag=True, help="In CSV, put an apostrophe before text that a spreadsheet would execute."
)
@click.option("--catalog", metavar="NAME", help="For Iceberg: the catalog, by its name in pyiceberg's configuration.")
@click.option(
    "--zero-dates",
    type=click.Choice(["error", "null", "text"]),
    default="error",
    show_default=True,
    help="Zero and invalid dates: refuse them, write NULL, or write all dates as text.",
)
@quiet_option
@click.option("--threads", type=WholeNumber(min=1), default=1, show_default=True, help="Threads that decode rows.")
@ignore_missing_logs_option
@selection_options
@reading_options
def command(
    files: tuple[str, ...],
    output: str,
    form: FormatName,
    columns: str | None,
    key: str | None,
    *,
    force: bool,
    quiet: bool,
    selection: Selection,
    reading: Reading,
    **options: Any,
) -> int:
    """Write row changes to Parquet, Arrow, CSV, JSON lines, DuckDB, Delta or Iceberg.

    Each table gets separate files or a separate table. A record is a change: its position, operation, times and GTID,
    and the row before and after it. Values are never rounded or lost: docs/export.md has the types of each format. If
    the export fails, the target is not changed. The target stores which logs it has, so that --append repeats nothing.
    """
    summary = exported(
        files,
        output,
        selection,
        reading,
        quiet=quiet,
        format=form,
        columns=names_of(columns),
        key=names_of(key),
        replace=force,
        **options,
    )
    _report(summary, output, "row[s]" if options["latest"] else "change[s]")
    return say_missing(summary.missing) | say_statement_changes(summary.statement_changes, selection, files)


def exported(
    files: tuple[str, ...], output: str, selection: Selection, reading: Reading, *, quiet: bool, **options: Any
) -> ExportSummary:
    """Export the selected changes of logs, and report incomplete groups at their ends.

    The options are the arguments of `binlogio.archive.export.export`.

    Raises:
        Refusal: a position, GTID or name of the selection is not in the logs.
        OSError, BinlogError: a log cannot be read, or the target cannot be written.
    """
    with ExitStack() as stack:
        base, gtids = options.pop("base", None), None
        if base is not None and not Path(base).is_dir():
            if not options.get("latest"):
                raise click.UsageError("--base needs --latest.")
            dump = stack.enter_context(_dumped(Path(base), selection, reading, options))
            base, selection, reading, gtids = dump
        given = found = find_logs(files)
        logs = files
        if selection.start is not None or selection.stop is not None:
            found = selected_logs(selection, given)
            logs = tuple(log.name for log in found)
        ring = None if reading.keyring is None else load_keyring(reading.keyring)
        has_names = not options.get("append") and base is None
        check_selected(selection.of_groups, given, found, ring, has_names=has_names)
        if gtids is not None:
            selection = _after(gtids, selection, found, ring)
        if selection.start is not None:
            reading = replace(reading, definitions=earlier_definitions(reading.definitions, given, found, ring))
        conditions = [] if selection.condition is None else [selection.condition]
        options.setdefault("tables", selection.names)
        with watched_logs([log.name for log in found], is_shown=not quiet) as watch:
            summary = export(
                logs,
                output,
                where=[selection.event_filter(), *conditions],
                start_offset=selection.start_offset,
                stop_offset=selection.stop_offset,
                base=base,
                watch=watch,
                statement_changes="skip",
                **reading.options,
                **options,
            )
        for name, end in summary.unfinished:
            say(f"{name}: at {end}: the log ends in an incomplete event group, which is left out")
        return summary


@contextmanager
def _dumped(
    path: Path, selection: Selection, reading: Reading, options: Mapping[str, Any]
) -> Iterator[tuple[str, Selection, Reading, GtidSet | None]]:
    """Provide the base that a dump is: its directory, the selection from its position on, its definitions and GTIDs.

    Raises:
        Refusal: the dump has no position, or the selection another start.
        OSError, BinlogError: the dump cannot be read, or the temporary files cannot be written.
    """
    from binlogio.writer import BinlogWriter  # noqa: PLC0415 - needed with a dump only
    from binlogio_cli.write.dump_file import DumpFile  # noqa: PLC0415

    if selection.start is not None:
        raise Refusal("the base has the position from which it is continued: leave out --start-position")
    if selection.exclude_gtids is not None or selection.after_gtids is not None:
        raise Refusal("a base is continued with all transactions after it: leave out the GTIDs to exclude")

    def wants(schema: str, table: str) -> bool:  # changes of system schemas are logged as GRANT and the like
        return schema not in ("mysql", "sys") and selection.names.wants(schema, table)

    with TemporaryDirectory(prefix="binlogio-base-") as folder, DumpFile(path, wants) as dump:
        place, rows = Path(folder) / "dump", Path(folder) / "rows"
        with BinlogWriter(place, variables=dump.variables) as writer:
            dump.write(writer)
        gtids = None if dump.gtids is None else GtidSet.parse(dump.gtids)
        if dump.position is None and gtids is None:
            raise Refusal(
                f"{path}: the dump has no position in the logs: make it with --source-data (mysqldump) or --master-data"
            )
        for table in filter(lambda one: wants(one.schema, one.name), dump.tables.all.values()):
            key = table.primary_key or options.get("key") or ()
            if any(column.name in key and column.sql_type.name == "float" for column in table.columns):
                raise Refusal(f"{path}: {table.full_name}: a dump has 6 digits of a FLOAT, and the primary key has one")
        same = {name: options[name] for name in ("tables", "columns", "key", "zero_dates") if name in options}
        export(f"{place}.index", rows, format="arrow", latest=True, **{"tables": selection.names, **same})
        made = load_ledger(rows)
        if made is not None:  # it is always there
            tables, cascades = sorted(dump.tables.all), [cascade_to_json(one) for one in dump.tables.cascades]
            made = replace(made, logs=[], gtids=[], tables=tables, cascades=cascades)
            save_ledger(made, rows)  # the logs of the server continue it
        if reading.definitions is None:
            reading = replace(reading, definitions=GivenDefinitions(dump.tables.all, passes_over=True))
        yield str(rows), replace(selection, start=dump.position), reading, gtids


def _after(gtids: GtidSet, selection: Selection, logs: Sequence[LogFile], keyring: Keyring | None) -> Selection:
    """Return the selection of what follows a dump with GTIDs.

    Raises:
        MissingLogs: the logs begin after transactions that the dump lacks.
    """
    head = read_head(logs[0], keyring) if logs else None
    before = None if head is None else head.gtids_before()
    if isinstance(before, GtidSet) and not before.issubset(gtids):
        raise missing_gtids(logs[0].name, str(before - gtids).replace("\n", ""))
    if isinstance(before, GtidSet) and selection.start is not None:
        done = before.union(_gtids_in(logs[0], keyring, selection.start_offset or 0))
        if not done.issubset(gtids) or (gtids and gtids.isdisjoint(done)):
            raise Refusal(
                f"{logs[0].name}: the log is not the one of the dump, which has the GTIDs {shown(gtids)}; the log has"
                f" {shown(done) or 'none'} up to {selection.start}"
            )
    return replace(selection, exclude_gtids=gtids) if selection.start is None else selection


def _gtids_in(log: LogFile, keyring: Keyring | None, end: int) -> GtidSet:
    """Return the GTIDs of MySQL in a log before an offset."""
    with suppress(BinlogFormatError):  # the export reports it
        return mysql_gtids(logged_gtids(log, keyring, end))
    return GtidSet()


def _report(summary: ExportSummary, to: str, what: str) -> None:
    """Print a summary of the export on standard error."""
    for table, count in summary.rows.items():
        say(f"{table}: {counted(count, what)}")
    for name in summary.held:
        say(f"{name}: {to} holds this log already")
    if not summary.rows:
        say("no new change matches" if summary.held else "no change matches (`binlogio stats` shows all tables)")
    say(f"wrote {counted(summary.row_count, what)} of {counted(len(summary.rows), 'table[s]')} to {to}")
