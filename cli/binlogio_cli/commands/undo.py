"""`binlogio undo`: reverses the row changes of logs (flashback), as SQL or as a binary log.

This module has the options, the output file, and the report. `binlogio.replay.undo` computes the inverse changes.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import click

from binlogio.dotted_names import dotted_name
from binlogio.errors import BinlogError, Hint, Surface
from binlogio.reader import BinlogReader
from binlogio.replay.steps import shown_text
from binlogio.replay.undo import OnChanged, OnStatement, SqlScript, UndoSummary, undo
from binlogio.replay.undo.inverse import WholeImages
from binlogio.replay.undo.outputs import KINDS
from binlogio.selection.selection import Selection
from binlogio_cli.messages import Refusal, error_text, say, say_missing, say_torn_tails
from binlogio_cli.options import OutputPath, SectionedCommand, format_of, ignore_missing_logs_option
from binlogio_cli.output import STDOUT, OutputFile, force_option, open_output, output_option, quiet_option
from binlogio_cli.progress import watched, watched_logs
from binlogio_cli.quantities import counted
from binlogio_cli.selection import (
    Reading,
    check_selection,
    files_argument,
    output_zone,
    reading_options,
    replay_filter,
    rewrite_option,
    say_columns,
    selection_options,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from binlogio.replay.filters import ReplayFilter
    from binlogio.replay.undo import BinlogFile, Undo
    from binlogio.storage.keyring import Keyring
    from binlogio.storage.log_file import LogFile

_NOT_UNDONE: Final = "their changes of non-transactional tables are not undone"
_MOST_SHOWN: Final = 5  # tables in a message
_EXAMPLE: Final = """\b
Examples: reverse the changes of one table since noon, as SQL and as a binary log; apply both to the server
  binlogio undo --table shop.orders --start-datetime '2024-05-01 12:00:00' -o undo.sql binlog.0*
  binlogio undo --table shop.orders --start-datetime '2024-05-01 12:00:00' --format binlog -o undo.000001 binlog.0*
  mysql --binary-mode < undo.sql
  mysqlbinlog --skip-gtids undo.000001 | mysql --binary-mode
"""


@click.command("undo", cls=SectionedCommand, epilog=_EXAMPLE)
@files_argument
@output_option()
@click.option(
    "--format",
    "form",
    type=click.Choice(["sql", "binlog"]),
    default="sql",
    show_default=True,
    help="Write SQL, or a binary log of the source's version.",
)
@click.option("--to-binlog", type=OutputPath(dir_okay=False), hidden=True)
@force_option
@click.option(
    "--on-statement",
    type=click.Choice([one.value for one in OnStatement]),
    default=OnStatement.REFUSE.value,
    show_default=True,
    help="What to do about DDL and other SQL statements, which cannot be undone: refuse the undo; stop, which undoes "
    "only what follows the last such statement; or skip them.",
)
@click.option(
    "--on-changed",
    type=click.Choice([one.value for one in OnChanged]),
    default=OnChanged.STOP.value,
    show_default=True,
    help="What the SQL does about a row that is gone, or in which others changed the same columns since: stop with an "
    "error; skip it, and count it; or overwrite it.",
)
@click.option(
    "--preview",
    is_flag=True,
    help="Show the reversed rows as they are after the changes and as they would be, and write no undo.",
)
@ignore_missing_logs_option
@selection_options
@rewrite_option
@reading_options
@quiet_option
def command(
    files: tuple[str, ...],
    output: str | None,
    form: str,
    to_binlog: str | None,
    on_statement: str,
    on_changed: str,
    selection: Selection,
    reading: Reading,
    **options: Any,
) -> int:
    """Reverse row changes (flashback), newest first, as SQL or as a binary log.

    Each transaction becomes a transaction that reverses it. Nothing is written before all logs have been read. Before
    images and after images must have the columns that are needed: binlog_row_image=FULL always does. SQL finds rows by
    primary key, or else by all columns, one row at a time. Column names and keys come from the log (its metadata or its
    DDL) or from --table-definitions.
    """
    output, form = format_of("--to-binlog", to_binlog, "binlog", output, form)
    writer: SqlScript | BinlogFile
    if form == "sql":
        writer = SqlScript(on_changed=OnChanged(on_changed))
    else:
        from binlogio.replay.undo import BinlogFile  # noqa: PLC0415 - imports parts of the writer

        writer = BinlogFile()
        if on_changed != OnChanged.STOP.value:
            raise Refusal("--on-changed is for SQL: a server that applies a log does not compare the columns")
        if output in (None, STDOUT) and sys.stdout.isatty() and not options["preview"]:
            raise Refusal("--format binlog needs a pipe or --output: a log is not text")
    if options["preview"] and output not in (None, STDOUT):
        raise click.UsageError("--preview writes no undo: leave out --output")
    with reading.open(files) as reader:
        logs = reader.logs  # all of them: the reversed changes may begin in a later one
        if options["preview"]:
            from binlogio.archive.found_rows import refuse_stream  # noqa: PLC0415 - imports pyarrow

            for log in logs:
                refuse_stream(log)
        wanted = replay_filter(selection, reader.files, options["rewrite_db"])
        inputs = (*reader.files, *files, *reading.other_inputs)
        target = OutputFile.checked(output, inputs, force=options["force"])
        check_selection(reader, wanted)
        with watched(reader.files, is_shown=not options["quiet"]) as watch:
            ready = undo(
                reader,
                writer,
                wanted=wanted,
                on_statement=OnStatement(on_statement),
                ignore_missing_logs=options["ignore_missing_logs"],
                watch=watch,
            )
        with ready:
            _say_later_changes(ready, logs, reader.keyring, selection, reading, wanted, is_shown=not options["quiet"])
            _say_later_statements(ready, logs, reader, selection, wanted)
            if options["preview"]:
                from binlogio_cli.undo_preview import show_preview  # noqa: PLC0415 - imports pyarrow

                with open_output(target) as stream:
                    show_preview(ready, logs, reader.keyring, selection, reading, wanted, stream)
            elif target.path is not None and not ready.summary.transactions:
                say(f"nothing is reversed: {output} is not written, since it would be empty")
            else:
                _write(ready, target)
            _report(ready.summary, reader)
            if selection and not ready.summary.transactions:
                say("no row change of the logs is selected by the options")
            if isinstance(writer, SqlScript):
                _say_untold(writer.untold)
            else:
                _say_whole_images(writer.whole_images, ready.summary)
            say_columns(wanted.rows)
            if options["preview"] and ready.summary.transactions:
                from binlogio_cli.undo_preview import say_commands  # noqa: PLC0415 - imports pyarrow

                say_commands(reader)
            return say_missing(ready.summary.missing)


def _reversed_tables(ready: Undo, wanted: ReplayFilter) -> Callable[[str, str], bool]:
    """Return whether rows of a table of the log are reversed."""
    return lambda schema, table: (wanted.schema(schema), table) in ready.tables


def _write(ready: Undo, target: OutputFile) -> None:
    """Write the output; a file is complete or is not created.

    Raises:
        OSError: the output cannot be written.
    """
    with target.open() as stream:
        for piece in ready.pieces():
            stream.write(piece)
    if target.path is not None:
        say(f"wrote {target.path}")


def _say_later_changes(
    ready: Undo,
    logs: Sequence[LogFile],
    keyring: Keyring | None,
    selection: Selection,
    reading: Reading,
    wanted: ReplayFilter,
    *,
    is_shown: bool,
) -> None:
    """Print the changes that others made to the reversed rows later in the given logs; not if all changes are reversed.

    `is_shown` shows the progress.
    """
    if not selection or not ready.places:
        return
    from binlogio.archive.found_rows import SearchOptions  # noqa: PLC0415 - imports pyarrow, as the others do
    from binlogio.archive.later_changes import MOST_ROWS, TableChanges, find_later_changes  # noqa: PLC0415
    from binlogio_cli.change_text import change_text  # noqa: PLC0415

    if ready.summary.rows.total() > MOST_ROWS:
        say(f"later changes of these rows are not looked for: more than {MOST_ROWS:,} row changes are reversed")
        return
    found: dict[str, TableChanges] = {}
    with watched_logs([log.name for log in logs], is_shown=is_shown) as watch:
        options = {**reading.options, "keyring": keyring, "watch": watch}
        try:
            find_later_changes(
                logs,
                ready.places,
                _reversed_tables(ready, wanted),
                SearchOptions(**options),
                found,
                selection.condition,
                selection.operations,
            )
        except BinlogError as exc:
            say(f"later changes of the reversed rows are not looked for after this: {error_text(exc)}")
    for table, changes in sorted(found.items()):
        first, last = (
            None if one is None else one.astimezone(output_zone()).strftime("%Y-%m-%d %H:%M:%S %Z")
            for one in (changes.first, changes.last)
        )
        gtids = f", gtid {', '.join(changes.gtids)}{', ...' if changes.more_gtids else ''}" if changes.gtids else ""
        say(
            f"warning: reversed rows of {table} were changed later: {counted(changes.rows, 'row[s]')},"
            f" {counted(changes.changes, 'change[s]')}, {first} to {last}{gtids}"
        )
        for one in changes.shown:
            for line in "".join(change_text(one, output_zone())).splitlines():
                if line:
                    say(f"    {line}")
        if changes.changes > len(changes.shown):
            say(f"    and {changes.changes - len(changes.shown)} more changes")


def _say_later_statements(
    ready: Undo, logs: Sequence[LogFile], reader: BinlogReader, selection: Selection, wanted: ReplayFilter
) -> None:
    """Print the statements on reversed tables after the first reversed change: DDL, and changes logged as text.

    The undo has the columns of the time of the change: after a RENAME, another column or table may have their names.
    """
    if not selection or not ready.places or any(log.stream is not None for log in logs):
        return
    from binlogio.archive.grep import find_statements  # noqa: PLC0415 - imports pyarrow

    number = next(number for number, log in enumerate(logs) if log.name in ready.places)
    first = logs[number].name, min(ready.places[logs[number].name])
    sources = {
        dotted_name(one, table)
        for target, table in ready.tables
        for one in [old for old, new in wanted.rewrite_db.items() if new == target] or [target]
    }
    tables = Selection(tables=tuple(sorted(sources)))
    with BinlogReader(list(logs[number:]), replace(reader.options, start_offset=None), keyring=reader.keyring) as again:
        found = []
        with suppress(BinlogError):  # it was said
            found = [one for _, one in find_statements(again, tables) if one.file != first[0] or one.pos > first[1]]
    for one in found[:_MOST_SHOWN]:
        gtid = "" if one.gtid is None else f", gtid {one.gtid}"
        say(f"warning: after the reversed changes: {one.file}:{one.pos}{gtid}: {shown_text(one.sql.encode())}")
    if found:
        more = f" and {len(found) - _MOST_SHOWN} more" if len(found) > _MOST_SHOWN else ""
        say(f"    check that the undo fits the tables after {'this' if len(found) == 1 else f'these{more}'}")


def _say_untold(tables: Collection[str]) -> None:
    """Print the tables whose generated columns are not known: a server refuses SQL that sets such a column."""
    if tables:
        shown = sorted(tables)[:_MOST_SHOWN]
        more = f" and {len(tables) - len(shown)} more" if len(tables) > len(shown) else ""
        say(
            f"warning: the logs do not say which columns of {', '.join(shown)}{more} are generated, and a server"
            f" refuses SQL that sets such a column ({Hint.TABLE_DEFINITION.text(Surface.COMMAND_LINE)})"
        )


def _say_whole_images(tables: Mapping[str, WholeImages], summary: UndoSummary) -> None:
    """Print the tables in which a log overwrites what others changed in other columns, and why."""
    for table, why in sorted(tables.items()):
        if why is not WholeImages.NO_KEY and summary.rows[table, "update"]:
            hint = "" if why is WholeImages.GENERATED else f" ({Hint.TABLE_DEFINITION.text(Surface.COMMAND_LINE)})"
            say(
                f"warning: updates of {table} are reversed in all columns, also in those that others changed since:"
                f" {why.value}{hint}"
            )


def _report(summary: UndoSummary, reader: BinlogReader) -> None:
    """Print the reversed and the omitted changes on standard error, because standard output may have the SQL."""
    changes = counted(summary.rows.total(), "row change[s]")
    say(counted(summary.transactions, f"transaction[s] with {changes} [are|is] reversed"))
    for table in sorted({table for table, _ in summary.rows}):
        counts = (counted(summary.rows[table, kind], f"{kind}[s]") for kind in KINDS if summary.rows[table, kind])
        say(f"  {table}: {', '.join(counts)}")
    if summary.end is not None:
        say(
            f"the undo leads back to {summary.end.file} {summary.end.offset},"
            " after the last statement that cannot be undone"
        )
    for count, what in (
        (summary.statements, "statement[s] cannot be undone and [were|was] left as [they|it] [are|is]"),
        (summary.filtered_groups, "event group[s] [were|was] left out by the filters"),
        (summary.rolled_back_groups, f"event group[s] [were|was] rolled back in the log; {_NOT_UNDONE}"),
        (summary.rolled_back_events, f"rows event[s] [were|was] rolled back to a savepoint; {_NOT_UNDONE}"),
        (
            summary.sequence_events,
            "rows [events of sequences are|event of a sequence is] left out: sequences are not reversed",
        ),
        (
            summary.prepared,
            "XA transaction[s] [are|is] prepared and not undone; [their|its] XA COMMIT is not in the logs",
        ),
    ):
        if count:
            say(counted(count, what))
    for (parent, child), count in sorted(summary.lost_cascades.items()):
        say(
            f"warning: {counted(count, 'rows event[s]')} of {parent} changed rows of {child} by a foreign key, which"
            f" the source does not log: these rows of {child} are not reversed"
        )
    say_torn_tails(reader)
    if summary.unfinished:
        say("a log ends in the middle of an event group, which is not undone")
