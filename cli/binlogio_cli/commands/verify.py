"""`binlogio verify`: checks an archive of logs for damage and gaps."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

import click

from binlogio.archive.verify import GTIDS, verify_logs
from binlogio.errors import BinlogError
from binlogio.series.gtid_history import NOTE
from binlogio.storage import find_logs, load_keyring
from binlogio.storage.index_file import is_index_file
from binlogio_cli.options import SectionedCommand, definitions_option, format_option
from binlogio_cli.output import quiet_option
from binlogio_cli.progress import watched_logs
from binlogio_cli.quoting import json_text, safe
from binlogio_cli.selection import files_argument, keyring_option

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binlogio.archive.verify import Finding, LogReport
    from binlogio.schema.given import GivenDefinitions

_EXAMPLE: Final = """\b
Examples
  binlogio verify /backups/binlogs                  exits with 1 if there is damage, or something is missing
  binlogio verify --problems /var/lib/mysql/binlog.index
  binlogio verify --headers-only s3://backups/binlogs
  binlogio verify --json binlog.0* | jq 'select(.is_fine | not)'

Exit codes: 0 all is fine, 1 damage or a problem, 4 I/O error.
"""
_NOT_FINE: Final = 1


@click.command("verify", cls=SectionedCommand, epilog=_EXAMPLE)
@files_argument
@click.option("--problems", is_flag=True, help="Print logs with damage or problems only.")
@click.option(
    "--headers-only",
    is_flag=True,
    help="Check neither row images nor the content of frequent events, which is several times faster.",
)
@format_option("text", "json", help="Output format: text, or JSON: a line for each log.")
@quiet_option
@keyring_option
@definitions_option
def command(
    files: tuple[str, ...],
    keyring: str | None,
    table_definitions: GivenDefinitions | None,
    headers_only: bool,  # noqa: FBT001 - click's way of flags
    problems: bool,  # noqa: FBT001
    form: str,
    quiet: bool,  # noqa: FBT001
) -> int:
    """Check whether the archive of logs in FILES (paths, directories, index files, URIs) is whole.

    Checks checksums, the chain of events, the grammar of event groups, that all events and rows can be read, GTIDs
    against those in the heads of logs, the numbers of files, and the index file. After damage the check continues at
    the next event, after rows that cannot be read at the next transaction.
    """
    logs, fine, size = 0, 0, 0
    others: list[str] = []  # what is not fine, and no log
    is_whole = True
    ring = None if keyring is None else load_keyring(keyring)
    names = _names(files)
    with watched_logs(names, is_shown=bool(names) and not quiet and not sys.stdout.isatty()) as on_read:
        for report in verify_logs(
            files, ring, headers_only=headers_only, definitions=table_definitions, on_read=on_read
        ):
            if report.file != GTIDS and not is_index_file(report.file):
                logs += 1
                fine += report.is_fine
            elif not report.is_fine:
                others.append(safe(report.file))
            size += report.size
            is_whole = is_whole and report.is_fine
            if problems and report.is_fine:
                continue
            if form == "json":
                click.echo(json_text(_json(report)))
            else:
                for line in _lines(report):
                    click.echo(line)
    if form != "json" and not problems:
        click.echo(f"{fine} of {logs} fine, {size:,} bytes{'; not fine: ' if others else ''}{', '.join(others)}")
    if headers_only and form != "json":
        click.echo("row images were not checked")
    return 0 if is_whole else _NOT_FINE


def _names(files: tuple[str, ...]) -> list[str]:
    """Return the names of the logs for the progress bar; empty if a file is missing, which the report shows."""
    try:
        return [log.name for log in find_logs(files)]
    except (OSError, BinlogError):
        return []


def _json(report: LogReport) -> dict[str, Any]:
    return {**asdict(report), "is_fine": report.is_fine}


def _lines(report: LogReport) -> Iterator[str]:
    """Yield the findings about a log, one per line, and the undamaged ranges of a damaged log."""
    groups = f"{report.groups:,} event group{'' if report.groups == 1 else 's'}"
    counts = f": {groups} in {report.size:,} bytes" if report.size else ""
    yield f"{safe(report.file)}{counts}{', fine' if report.is_fine and report.size else ''}"
    is_damaged = any(found.level != NOTE and found.end is not None for found in report.findings)
    parts: list[tuple[int, str]] = [
        (-1 if found.offset is None else found.offset, _line(found)) for found in report.findings
    ]
    if is_damaged:
        parts += [
            (one.begin, f"  fine     {_range(one.begin, one.end)}: {one.groups:,} event groups") for one in report.fine
        ]
    yield from (line for _, line in sorted(parts, key=lambda part: part[0]))
    if report.more_findings:
        yield f"  and {report.more_findings:,} more"


def _line(found: Finding) -> str:
    if found.offset is None:
        return f"  {found.level:<8} {safe(found.message)}"
    place = f"at {found.offset}" if found.end is None else _range(found.offset, found.end)
    return f"  {found.level:<8} {place}: {safe(found.message)}"


def _range(begin: int, end: int) -> str:
    return f"{begin} to {end}"
