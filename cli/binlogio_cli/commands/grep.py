"""`binlogio grep`: prints the row changes in logs, all of them or those whose values match a condition.

This module has the options and the output; `binlogio.archive.grep` does the search.
"""

from __future__ import annotations

import shlex
from dataclasses import replace
from heapq import merge
from typing import TYPE_CHECKING, Any, Final

import click

from binlogio.archive.found_rows import RowVersion, SearchOptions, SearchSummary
from binlogio.archive.grep import find_changes, find_statements
from binlogio.archive.history import HistoryStatement
from binlogio.errors import BinlogError
from binlogio.options import ReadOptions
from binlogio.reader import BinlogReader
from binlogio_cli.change_text import change_json, change_text, opened_search
from binlogio_cli.messages import DAMAGE, Refusal, say, say_gaps
from binlogio_cli.options import INPUT_PATH, SectionedCommand, format_option
from binlogio_cli.output import force_option, output_option, quiet_option
from binlogio_cli.quantities import counted
from binlogio_cli.selection import (
    input_once,
    output_zone,
    reading_options,
    say_statement_changes,
    selection_options,
    table_options,
    text_and_files,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binlogio.selection.selection import Selection
    from binlogio.storage import LogFile
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


@click.command("grep", cls=SectionedCommand, epilog=_EXAMPLE)
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
    """Show the changes in FILES (paths, directories, URIs), or the row changes that match CONDITION before or after.

    CONDITION compares columns with values, as WHERE in SQL: id = 42 AND (total > 10 OR note LIKE '%x%'); before.total
    is the value before the change. Tables without these columns are skipped. Of rows that do not match, only the
    columns of the condition are decoded. Without a condition and --operation, statements (DDL, and changes that were
    logged as text, as by default in MariaDB) are shown as well.
    """
    text, files = text_and_files(arguments, "condition")
    if selection.condition is not None:
        if text is not None:
            raise Refusal("a condition is given as the first argument, and as --where: give only one")
        text, selection = selection.condition.text, replace(selection, condition=None)
    summary = SearchSummary()
    with opened_search(files, selection, reading, output, force=force, quiet=quiet) as (logs, stream, options):
        wants = selection.names.wants
        gtids: dict[str | None, None] = {}
        is_prepared = False
        found: Iterator[RowVersion | HistoryStatement]
        found = find_changes(logs, text, SearchOptions(**options), wants=wants, note=say, summary=summary)
        statements = (
            _FoundStatements(logs, selection, options) if text is None and selection.operations is None else None
        )
        if statements is not None:
            order = {log.name: number for number, log in enumerate(logs)}
            found = merge(found, statements, key=lambda one: (order[one.file], one.pos))
        for one in found:
            if isinstance(one, HistoryStatement):
                summary.statements += 1
            elif len(gtids) <= _FEW:
                gtids[one.gtid] = None
            is_prepared |= isinstance(one, RowVersion) and one.outcome == "prepare"
            if form == "json":
                stream.write(change_json(one, output_zone()))
            else:
                stream.write_all(change_text(one, output_zone(), names_table=True))
    _say_counts(summary)
    if statements is not None:
        statements.finish(files)
    if is_prepared:
        say("for an undo of changes with `outcome: prepare`, select the GTID of the XA COMMIT, if there is one")
    elif gtids and None not in gtids and len(gtids) <= _FEW:
        chosen = ["--include-gtids", ",".join(map(str, gtids)), *_row_options(selection, text)]
        say(f"how an undo would change the rows: {shlex.join(['binlogio', 'undo', *chosen, '--preview', *files])}")
    texts = [] if statements is not None else list(summary.statement_changes.values())
    code = say_gaps(logs, options["keyring"]) | say_statement_changes(texts, selection, files)
    return code if summary.is_complete else DAMAGE


def _say_counts(summary: SearchSummary) -> None:
    """Say how many changes and statements were found."""
    matches = counted(summary.versions, "change[s] [match|matches]") if summary.versions else "no changes match"
    if summary.statements:
        matches = f"{counted(summary.statements, 'statement[s]')} and {matches}"
    of = counted(summary.logs_read, "log[s]")
    say(f"{matches} in {of}; {counted(summary.rows_compared, 'change[s] [were|was]')} compared")


def _row_options(selection: Selection, condition: str | None) -> list[str]:
    """Return the options that select tables and rows, for another command."""
    options = table_options(selection)
    if selection.operations is not None:
        options += ["--operation", ",".join(sorted(selection.operations))]
    return options if condition is None else [*options, "--where", condition]


class _FoundStatements:
    """The selected statements of logs, as an iterator. Damage ends it; `damage` is raised after the changes before."""

    def __init__(self, logs: list[LogFile], selection: Selection, options: dict[str, Any]) -> None:
        kept = {name: options[name] for name in ("verify_checksum", "limits")}
        read = ReadOptions(start_offset=selection.start_offset, stop_offset=selection.stop_offset, **kept)
        self._reader = BinlogReader(logs, read, keyring=options["keyring"])
        self._selection = selection
        self._last: tuple[int, HistoryStatement] | None = None
        self.damage: BinlogError | None = None

    def __iter__(self) -> Iterator[HistoryStatement]:
        with self._reader as reader:
            try:
                for found in find_statements(reader, self._selection):
                    self._last = found
                    yield found[1]
            except BinlogError as exc:
                self.damage = exc

    def finish(self, files: tuple[str, ...]) -> None:
        """Say how logs are replayed up to the last statement, or without it.

        Raises:
            BinlogError: a log is damaged.
        """
        if self.damage is not None:
            raise self.damage
        if self._last is not None and not self._last[1].sql.lstrip().upper().startswith("CREATE"):
            begin, one = self._last
            replay = ["binlogio", "replay", "--to", "mysql://USER@HOST/", "--stop-position", f"{one.file}:{begin}"]
            say(f"a replay up to just before the transaction of the last statement: {shlex.join([*replay, *files])}")
            if one.gtid is not None:
                say(f"a replay without it: the same with --exclude-gtids {one.gtid} instead of --stop-position")
