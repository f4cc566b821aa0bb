"""`binlogio grep`: shows the row changes in logs whose values match a condition.

This file has the options and the output; `binlogio.archive.grep` searches.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import click

from binlogio.archive.found_rows import SearchOptions, SearchSummary
from binlogio.archive.grep import find_changes
from binlogio.storage import find_logs, load_keyring
from binlogio_cli.change_text import change_json, change_text
from binlogio_cli.messages import say
from binlogio_cli.output import STDOUT, OutputFile, force_option, open_output, output_option, quiet_option
from binlogio_cli.progress import watched_logs
from binlogio_cli.selection import reading_options, selection_options

if TYPE_CHECKING:
    from binlogio_cli.selection import Reading, Selection

_EXAMPLE: Final = """\b
Examples: who set this address; orders that lost money; rows in which a text came or went
  binlogio grep -T shop.customers "email = 'ada@example.org'" binlog.0*
  binlogio grep -T shop.orders "after.total < before.total" binlog.0*
  binlogio grep "note LIKE '%refund%'" s3://backups/binlogs/
"""


@click.command("grep", epilog=_EXAMPLE)
@click.argument("condition", metavar="CONDITION")
@click.argument("files", nargs=-1, required=True)
@click.option("--json", "is_json", is_flag=True, help="Print JSON, a line for each change.")
@output_option
@force_option
@quiet_option
@selection_options
@reading_options
def command(
    condition: str,
    files: tuple[str, ...],
    *,
    is_json: bool,
    output: str | None,
    force: bool,
    quiet: bool,
    selection: Selection,
    reading: Reading,
) -> None:
    """Show the row changes in FILES (paths, directories, URIs) whose values before or after match CONDITION.

    CONDITION compares columns with values as in WHERE of SQL: id = 42 AND (total > 10 OR note LIKE '%x%'), before.total
    for the value before the change. Tables without these columns are passed over. Of rows that do not match only the
    columns of the condition are read.
    """
    found = find_logs(files)
    names = tuple(log.name for log in found)
    if selection.start is not None or selection.stop is not None:
        chosen = selection.logs(names)
        found, names = [log for log in found if log.name in chosen], chosen
    options = SearchOptions(
        where=selection.event_filter(names),
        definitions=reading.definitions,
        keyring=None if reading.keyring is None else load_keyring(reading.keyring),
        verify_checksum=reading.verify_checksum,
        limits=reading.limits,
    )
    summary = SearchSummary()
    target = OutputFile.checked(output, (*names, *files, *reading.other_inputs), force=force)
    is_shown = not (quiet or (output in (None, STDOUT) and sys.stdout.isatty()))
    with open_output(target) as stream, watched_logs(names, is_shown=is_shown) as watch:
        options = replace(options, watch=watch)
        for one in find_changes(found, condition, options, wants=selection.wants_table, summary=summary):
            if is_json:
                stream.write(change_json(one))
            else:
                stream.write_all(change_text(one, selection.zone, names_table=True))
        stream.flush()
    count = summary.versions or "no"
    say(f"{count} changes match in {summary.logs_read} logs; {summary.rows_compared} changes were compared")
