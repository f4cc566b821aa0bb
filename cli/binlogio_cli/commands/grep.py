"""`binlogio grep`: prints the row changes in logs whose values match a condition.

This module has the options and the output; `binlogio.archive.grep` does the search.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from binlogio.archive.found_rows import SearchOptions, SearchSummary
from binlogio.archive.grep import find_changes
from binlogio_cli.change_text import change_json, change_text, opened_search
from binlogio_cli.messages import DAMAGE, Refusal, say, say_gaps
from binlogio_cli.options import format_option
from binlogio_cli.output import force_option, output_option, quiet_option
from binlogio_cli.selection import files_argument, output_zone, reading_options, selection_options

if TYPE_CHECKING:
    from binlogio.selection.selection import Selection
    from binlogio_cli.selection import Reading

_EXAMPLE: Final = """\b
Examples: who set this address; orders that lost money; rows in which a text came or went
  binlogio grep -T shop.customers "email = 'ada@example.org'" binlog.0*
  binlogio grep -T shop.orders "after.total < before.total" binlog.0*
  binlogio grep "note LIKE '%refund%'" s3://backups/binlogs/
"""


@click.command("grep", epilog=_EXAMPLE)
@click.argument("text", metavar="CONDITION")
@files_argument
@format_option("text", "json", help="Output format: text, or JSON: a line for each change.")
@output_option()
@force_option
@quiet_option
@selection_options
@reading_options
def command(
    text: str,
    files: tuple[str, ...],
    *,
    form: str,
    output: str | None,
    force: bool,
    quiet: bool,
    selection: Selection,
    reading: Reading,
) -> int:
    """Show the row changes in FILES (paths, directories, URIs) whose values before or after match CONDITION.

    CONDITION compares columns with values, as WHERE in SQL: id = 42 AND (total > 10 OR note LIKE '%x%'); before.total
    is the value before the change. Tables without these columns are skipped. Of rows that do not match, only the
    columns of the condition are decoded.
    """
    if selection.condition is not None:
        raise Refusal("grep takes a condition as its first argument, and not --where")
    summary = SearchSummary()
    with opened_search(files, selection, reading, output, force=force, quiet=quiet) as (logs, stream, options):
        wants = selection.names.wants
        for one in find_changes(logs, text, SearchOptions(**options), wants=wants, note=say, summary=summary):
            if form == "json":
                stream.write(change_json(one))
            else:
                stream.write_all(change_text(one, output_zone(), names_table=True))
    count = summary.versions or "no"
    say(f"{count} changes match in {summary.logs_read} logs; {summary.rows_compared} changes were compared")
    code = say_gaps(logs, options["keyring"])
    return code if summary.is_complete else DAMAGE
