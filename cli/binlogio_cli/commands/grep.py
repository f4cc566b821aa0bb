"""`binlogio grep`: prints the row changes in logs, all of them or those whose values match a condition.

This module has the options and the output; `binlogio.archive.grep` does the search.
"""

from __future__ import annotations

import os
import shlex
from dataclasses import replace
from glob import glob
from typing import TYPE_CHECKING, Final

import click

from binlogio.archive.found_rows import SearchOptions, SearchSummary
from binlogio.archive.grep import find_changes
from binlogio_cli.change_text import change_json, change_text, opened_search
from binlogio_cli.messages import DAMAGE, Refusal, say, say_gaps
from binlogio_cli.options import INPUT_PATH, format_option
from binlogio_cli.output import STDOUT, force_option, output_option, quiet_option
from binlogio_cli.selection import input_once, output_zone, reading_options, selection_options

if TYPE_CHECKING:
    from binlogio.selection.selection import Selection
    from binlogio_cli.selection import Reading

_FEW: Final = 3  # transactions for which the next command is shown
_EXAMPLE: Final = """\b
Examples: orders that were deleted in the last two hours; who set this address; orders that lost money; rows in
which a text came or went
  binlogio grep -T shop.orders --operation delete --start-datetime -2h data/
  binlogio grep -T shop.customers "email = 'ada@example.org'" binlog.0*
  binlogio grep -T shop.orders "after.total < before.total" binlog.0*
  binlogio grep "note LIKE '%refund%'" s3://backups/binlogs/
"""


@click.command("grep", epilog=_EXAMPLE)
@click.argument(
    "arguments", metavar="[CONDITION] FILES...", nargs=-1, required=True, type=INPUT_PATH, callback=input_once
)
@format_option("text", "json", help="Output format: text, or JSON: a line for each change.")
@output_option()
@force_option
@quiet_option
@selection_options
@reading_options
def command(
    arguments: tuple[str, ...],
    *,
    form: str,
    output: str | None,
    force: bool,
    quiet: bool,
    selection: Selection,
    reading: Reading,
) -> int:
    """Show the row changes in FILES (paths, directories, URIs), or those whose values before or after match CONDITION.

    CONDITION compares columns with values, as WHERE in SQL: id = 42 AND (total > 10 OR note LIKE '%x%'); before.total
    is the value before the change. Tables without these columns are skipped. Of rows that do not match, only the
    columns of the condition are decoded.
    """
    text, files = _condition_and_files(arguments)
    if selection.condition is not None:
        if text is not None:
            raise Refusal("a condition is given as the first argument, and as --where: give only one")
        text, selection = selection.condition.text, replace(selection, condition=None)
    summary = SearchSummary()
    with opened_search(files, selection, reading, output, force=force, quiet=quiet) as (logs, stream, options):
        wants = selection.names.wants
        gtids: dict[str | None, None] = {}
        is_prepared = False
        for one in find_changes(logs, text, SearchOptions(**options), wants=wants, note=say, summary=summary):
            if len(gtids) <= _FEW:
                gtids[one.gtid] = None
            is_prepared |= one.outcome == "prepare"
            if form == "json":
                stream.write(change_json(one, output_zone()))
            else:
                stream.write_all(change_text(one, output_zone(), names_table=True))
    count = summary.versions or "no"
    say(f"{count} changes match in {summary.logs_read} logs; {summary.rows_compared} changes were compared")
    if is_prepared:
        say("for an undo of changes with `outcome: prepare`, select the GTID of the XA COMMIT, if there is one")
    elif gtids and None not in gtids and len(gtids) <= _FEW:
        undo = ["binlogio", "undo", "--include-gtids", ",".join(map(str, gtids)), "--preview", *files]
        which = "this transaction" if len(gtids) == 1 else "these transactions"
        say(f"what an undo of {which} would change: {shlex.join(undo)}")
    code = say_gaps(logs, options["keyring"])
    return code if summary.is_complete else DAMAGE


def _condition_and_files(arguments: tuple[str, ...]) -> tuple[str | None, tuple[str, ...]]:
    """Return the condition, if the first argument names no log, and the names of logs.

    Raises:
        UsageError: no log is named.
    """
    first = arguments[0]
    if _names_logs(first):
        for other in arguments[1:]:
            if not _names_logs(other) and " " in other:
                raise click.UsageError(f"{other}: there is no such file; a condition is the first argument")
        return None, arguments
    if len(arguments) == 1:
        raise click.UsageError(f"{first}: there is no such file; after a condition, name the logs")
    return first, arguments[1:]


def _names_logs(text: str) -> bool:
    return text == STDOUT or "://" in text or os.path.exists(text) or bool(glob(text))  # noqa: PTH110, PTH207 - or URIs
