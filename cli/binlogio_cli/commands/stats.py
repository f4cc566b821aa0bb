"""`binlogio stats`: prints statistics of logs as text, JSON, or an HTML page."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

import click

from binlogio.archive.stats import archive_stats
from binlogio.series.positions import selected_logs
from binlogio.storage import find_logs, load_keyring
from binlogio.storage.index_file import base_name
from binlogio_cli.messages import DAMAGE, NOTHING_SELECTED, say, say_gaps
from binlogio_cli.options import (
    OutputPath,
    SectionedCommand,
    WholeNumber,
    definitions_file,
    definitions_option,
    format_of,
    format_option,
)
from binlogio_cli.output import OutputFile, force_option, open_output, output_option, quiet_option
from binlogio_cli.progress import watched_logs
from binlogio_cli.quantities import duration_text, moment_text, size_text, width_text, zone_text
from binlogio_cli.quoting import json_text, safe
from binlogio_cli.selection import (
    check_selected,
    earlier_definitions,
    files_argument,
    keyring_option,
    output_zone,
    row_choice,
    say_columns,
    selection_options,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import tzinfo

    from binlogio.archive.stats import ArchiveStats, TransactionStats
    from binlogio.schema.given import GivenDefinitions
    from binlogio.selection.selection import Selection

_EXAMPLE: Final = """\b
Examples
  binlogio stats /var/lib/mysql                     tables, transactions and event types of all logs
  binlogio stats --format html -o report.html binlog.0*      a page with charts
  binlogio stats -T shop.orders --start-datetime '2026-11-20 12:00' binlog.0*
  binlogio stats --json binlog.000042 | jq '.tables[0]'
"""
_LONGEST_LIST: Final = 40


@click.command("stats", cls=SectionedCommand, epilog=_EXAMPLE)
@files_argument
@click.option(
    "--top", type=WholeNumber(1, 1000), default=10, show_default=True, help="The number of transactions to list."
)
@format_option("text", "json", "html", help="Output format: text, one JSON document, or a page with charts.")
@click.option("--html", type=OutputPath(dir_okay=False), hidden=True)
@output_option()
@force_option
@quiet_option
@selection_options
@keyring_option
@definitions_option
def command(
    files: tuple[str, ...],
    top: int,
    selection: Selection,
    form: str,
    html: str | None,
    output: str | None,
    keyring: str | None,
    table_definitions: GivenDefinitions | None,
    force: bool,  # noqa: FBT001 - click's way of flags
    quiet: bool,  # noqa: FBT001
) -> int:
    """Show statistics of the logs in FILES (paths, directories, index files, URIs).

    Shows rows and bytes by table, event type and time; the biggest and the longest transactions; replication lag;
    threads; missing GTIDs; and the bytes that compressed transactions or MINIMAL row images would save. An incomplete
    transaction at the end of a log is named, and not counted. Exits with 1 if damage was skipped.

    With options that select, it counts transactions with a selected change, with all their events and bytes, and the
    selected rows. Times in the output are in --time-zone.
    """
    output, form = format_of("--html", html, "html", output, form)
    logs = find_logs(files)
    inputs = (*(log.name for log in logs), *files, keyring, definitions_file())
    given, logs = logs, selected_logs(selection, logs)
    names = [log.name for log in logs]
    target = OutputFile.checked(output, inputs, force=force)
    keys = None if keyring is None else load_keyring(keyring)
    code = say_gaps(logs, keys)
    check_selected(selection, given, logs, keys)
    if selection.start is not None:
        table_definitions = earlier_definitions(table_definitions, given, logs, keys)
    rows = row_choice(selection)
    with watched_logs(names, is_shown=not quiet) as on_read:
        stats = archive_stats(
            logs,
            keys,
            top=top,
            definitions=table_definitions,
            on_read=on_read,
            selection=selection,
            rows=rows,
            zone=output_zone(),
        )
    if not stats.transactions and selection:
        say(NOTHING_SELECTED)
    are_compared = say_columns(rows, selection, files)
    for sentence in (*stats.warnings, *stats.incomplete):
        say(sentence)
    with open_output(target) as file:
        if form == "html":
            from binlogio_cli.stats_page import page_of  # noqa: PLC0415 - needed for this option only

            file.write(page_of(stats, output_zone(), files))
        elif form == "json":
            file.write(json_text(asdict(stats), indent=1) + "\n")
        else:
            file.write("\n".join(_lines(stats, output_zone())) + "\n")
    return DAMAGE if stats.warnings or not are_compared else code


def _lines(stats: ArchiveStats, zone: tzinfo) -> Iterator[str]:
    logs = "1 log" if stats.logs == 1 else f"{stats.logs:,} logs"
    yield f"{logs}, {size_text(stats.bytes)}, {stats.transactions:,} transactions"
    if stats.first_time is not None and stats.last_time is not None:
        yield f"{moment_text(stats.first_time, zone)} to {moment_text(stats.last_time, zone)}, {zone_text(zone)}"
    yield from _table(
        "Tables",
        ("table", "inserts", "updates", "deletes", "row bytes", "transactions"),
        [
            (one.table, one.inserts, one.updates, one.deletes, size_text(one.bytes), one.transactions)
            for one in stats.tables
        ],
    )
    yield from _table(
        "Events",
        ("type", "events", "bytes"),
        [(one.type, one.events, size_text(one.bytes)) for one in stats.types if one.events],
    )
    yield from _table(
        "Events in compressed transactions",
        ("type", "events", "plain bytes"),
        [(one.type, one.inner_events, size_text(one.inner_bytes)) for one in stats.types if one.inner_events],
    )
    yield from _table(
        f"Time, by {width_text(stats.bucket_s)}",
        ("from", "transactions", "inserts", "updates", "deletes", "bytes"),
        [
            (
                moment_text(one.begin, zone),
                one.transactions,
                one.inserts,
                one.updates,
                one.deletes,
                size_text(one.bytes),
            )
            for one in stats.buckets
        ],
    )
    yield from _transactions("Biggest transactions", stats.biggest, zone)
    yield from _transactions("Transactions with most rows", [one for one in stats.most_rows if one.rows], zone)
    yield from _transactions("Longest transactions", [one for one in stats.longest if one.duration_us], zone)
    yield from _table(
        "Threads",
        ("thread", "transactions", "rows", "bytes"),
        [(one.thread_id, one.transactions, one.rows, size_text(one.bytes)) for one in stats.threads],
    )
    if (lag := stats.lag) is not None:
        yield ""
        yield (
            f"Lag from the first server's commit: mean {duration_text(lag.mean_us)},"
            f" median below {duration_text(lag.median_us)},"
            f" 95 % below {duration_text(lag.p95_us)}, most {duration_text(lag.most_us)}"
        )
    yield from _list("GTIDs that no log has", stats.gaps)
    yield from _list(
        "Estimated savings",
        [f"{one.setting}: {size_text(one.bytes)} ({one.ratio:.0%}); {one.method}" for one in stats.savings],
    )


def _transactions(title: str, found: Sequence[TransactionStats], zone: tzinfo) -> Iterator[str]:
    return _table(
        title,
        ("file", "from", "bytes", "rows", "duration", "time", "GTID"),
        [
            (
                base_name(one.file),
                one.begin,
                size_text(one.bytes),
                one.rows,
                duration_text(one.duration_us),
                moment_text(one.time, zone),
                one.gtid or "",
            )
            for one in found
        ],
    )


def _table(title: str, names: Sequence[str], rows: Sequence[Sequence[Any]]) -> Iterator[str]:
    """Yield a table with a title; numbers and sizes are right-aligned."""
    if not rows:
        return
    shown = rows if len(rows) <= _LONGEST_LIST else rows[:_LONGEST_LIST]
    cells = [tuple(f"{cell:,}" if isinstance(cell, int) else safe(str(cell)) for cell in row) for row in shown]
    widths = [max(len(row[column]) for row in (names, *cells)) for column in range(len(names))]
    is_text = [column == 0 or names[column] == "GTID" for column in range(len(names))]
    yield f"\n{title}"
    for row in (names, *cells):
        parts = [
            cell.ljust(width) if left else cell.rjust(width)
            for cell, width, left in zip(row, widths, is_text, strict=True)
        ]
        yield f"  {'  '.join(parts)}".rstrip()
    if len(rows) > len(shown):
        yield f"  and {len(rows) - len(shown):,} more (--json has all)"


def _list(title: str, lines: Sequence[str]) -> Iterator[str]:
    if lines:
        yield f"\n{title}"
        yield from (f"  {safe(line)}" for line in lines)
