"""`binlogio history`: prints every change of a row in logs.

This module has the options and the output; `binlogio.archive.history` does the search.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

import click

from binlogio.archive.found_rows import SearchSummary
from binlogio.archive.history import HistoryOptions, row_history
from binlogio.archive.row_keys import KeyRefused
from binlogio.dotted_names import canonical_name
from binlogio.selection.table_names import TableNames
from binlogio_cli.change_text import change_json, change_text, opened_search
from binlogio_cli.messages import Refusal, say, say_gaps
from binlogio_cli.options import FilePath, SectionedCommand, format_option
from binlogio_cli.output import force_option, output_option, quiet_option
from binlogio_cli.quantities import counted
from binlogio_cli.selection import check_names, files_argument, output_zone, reading_options, selection_options

if TYPE_CHECKING:
    from binlogio.selection.selection import Selection
    from binlogio_cli.selection import Reading

_EXAMPLE: Final = """\b
Examples: a row of a year of logs; a composite key; what happened to it on one day
  binlogio history shop.orders 1004 s3://backups/binlogs/
  binlogio history shop.items 'tenant=7,id=42' binlog.0*
  binlogio history shop.orders 1004 --start-datetime 2026-11-20 --stop-datetime 2026-11-21 /archive
"""


def _not_a_file(ctx: click.Context, _: click.Parameter, key: str) -> str:
    if not key.isdecimal() and os.path.lexists(key):
        ctx.fail(f"expected the key of a row after the table, such as 42 or id=42, found the file {key}")
    return key


@click.command("history", cls=SectionedCommand, epilog=_EXAMPLE)
@click.argument("table", metavar="TABLE")
@click.argument("key", metavar="KEY", callback=_not_a_file)
@files_argument
@click.option(
    "--key-columns",
    metavar="NAMES",
    help="The columns of KEY, separated by commas, instead of the primary key.",
)
@click.option("--follow-key", is_flag=True, help="If an UPDATE changes the key of the row, continue with the new key.")
@click.option("--no-statements", is_flag=True, help="Do not show the statements (DDL) that name the table.")
@click.option(
    "--index-dir",
    type=FilePath(),
    metavar="DIR",
    help="The directory of the indexes. Default: the directory of the logs.",
)
@click.option("--no-index", is_flag=True, help="Read all logs, even if they have an index.")
@format_option("text", "json", help="Output format: text, or JSON: a line for each change and statement.")
@output_option()
@force_option
@quiet_option
@selection_options
@reading_options
def command(
    table: str,
    key: str,
    files: tuple[str, ...],
    *,
    key_columns: str | None,
    follow_key: bool,
    no_statements: bool,
    index_dir: str | None,
    no_index: bool,
    form: str,
    output: str | None,
    force: bool,
    quiet: bool,
    selection: Selection,
    reading: Reading,
) -> int:
    """Show every change of the row of TABLE (schema.table) that has KEY, in FILES (paths, directories, URIs).

    KEY is the value of the primary key, such as 42, or values with names: id=42, or tenant=7,id=42. Texts with commas
    are in single quotes, bytes are hexadecimal digits. Texts are compared by their bytes, even if the server ignores
    case. Logs with an index (`binlogio index`) are read only in part; the result is the same without an index.
    """
    if selection.databases or selection.tables or selection.exclude_tables:
        raise Refusal("history takes one table, as its first argument, and not --database or --table")
    if selection.condition is not None:
        raise Refusal("history takes the key of one row, and not --where")
    summary = SearchSummary()
    with opened_search(files, selection, reading, output, force=force, quiet=quiet) as (logs, stream, common):
        options = HistoryOptions(
            key_columns=() if key_columns is None else tuple(name.strip() for name in key_columns.split(",")),
            follow_key=follow_key,
            statements=not no_statements,
            use_indexes=not no_index,
            index_folder=index_dir,
            **common,
        )
        try:
            for one in row_history(logs, table, key, options, note=say, summary=summary):
                if form == "json":
                    stream.write(change_json(one, output_zone()))
                else:
                    stream.write_all(change_text(one, output_zone()))
            if not (summary.rows_compared or summary.statements):  # an index is not read for all tables
                check_names(logs, options.keyring, TableNames(tables=(canonical_name(table),)), is_option=False)
        except KeyRefused as exc:
            raise Refusal(str(exc)) from exc
    say(_report(table, key, summary))
    return say_gaps(logs, options.keyring)


for _option in command.params:  # they are refused with a message
    if isinstance(_option, click.Option) and _option.name in ("databases", "tables", "exclude_tables", "condition"):
        _option.hidden = True


def _report(table: str, key: str, summary: SearchSummary) -> str:
    logs = [
        text
        for count, text in (
            (summary.logs_by_index, f"{summary.logs_by_index} by index"),
            (summary.logs_read, f"{summary.logs_read} read"),
        )
        if count
    ]
    where = f"{counted(summary.logs_by_index + summary.logs_read, 'log[s]')} ({', '.join(logs) or 'none'})"
    if summary.versions:
        return f"{counted(summary.versions, 'change[s]')} of {table} {key} in {where}"
    if not summary.rows_compared and summary.statements:
        statements = counted(summary.statements, "statement[s]")
        return f"no change of {table} {key}: no row of this table in {where}, but {statements}"
    if not summary.rows_compared:
        return f"no change of {table} {key}: no row of this table in {where}; names are case-sensitive"
    return f"no change of {table} {key} in {where}"
