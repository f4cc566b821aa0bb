"""`binlogio repair`: writes readable logs from damaged logs.

This module has the options and the report. `binlogio.archive.repair` does the repair.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from binlogio.archive import NewLogs, repair_logs
from binlogio.archive.new_logs import write_index
from binlogio.errors import BinlogFormatError
from binlogio.series.continuity import series_gaps
from binlogio.storage.index_file import log_name, log_number, next_log_name
from binlogio_cli.messages import DAMAGE, OK, Refusal, say
from binlogio_cli.options import OutputPath, SectionedCommand, format_option
from binlogio_cli.output import OutputFile, force_option, log_output, new_logs_option, out_option, quiet_option
from binlogio_cli.progress import watched_logs
from binlogio_cli.quantities import counted
from binlogio_cli.quoting import json_text
from binlogio_cli.selection import Reading, files_argument, reading_options

if TYPE_CHECKING:
    from binlogio.archive import RepairReport

_EXAMPLE: Final = """\b
Examples: one log; all logs of a directory, with a new index file; an index file for logs that need no repair
  binlogio repair -o binlog.000042.new binlog.000042
  binlogio repair -o repaired/ archive/
  binlogio repair --index archive/binlog.index archive/binlog.0*
"""


@click.command("repair", cls=SectionedCommand, epilog=_EXAMPLE)
@files_argument
@new_logs_option
@out_option
@click.option(
    "--index",
    type=OutputPath(dir_okay=False),
    metavar="FILE",
    help="Write only a new index file that lists the logs, which must be in its directory.",
)
@click.option(
    "--recompute-checksums",
    is_flag=True,
    help="Accept events with a wrong checksum, and write the right one. By default their transactions are lost.",
)
@format_option("text", "json", help="Output format of the report: text or JSON.")
@force_option
@reading_options
@quiet_option
def command(files: tuple[str, ...], output: str | None, out: str | None, reading: Reading, **options: Any) -> int:
    """Make readable logs from damaged ones; exit with 1 if anything is lost.

    Reads each log, searches for the next transaction after damage, and writes all complete transactions with new
    positions and checksums. A damaged or incomplete transaction is left out completely, and so is one whose events or
    rows cannot be read. The flag IN_USE is cleared. The report has the byte ranges that are not in the new logs, and
    the missing GTIDs. No log is changed in place.
    """
    force = options["force"]
    with reading.open(files) as reader:
        inputs = [*reader.files, *files, *reading.other_inputs]
        if options["index"] is not None:
            if output is not None or out is not None:
                raise click.UsageError("--index writes no logs: leave out --output")
            return _write_index(options["index"], reader.files, inputs, force=force)
        place, is_directory = log_output(output, out)
        for gap in series_gaps(reader.files):
            if not gap.is_missing:  # missing logs are in the report
                say(f"{gap.file}: {gap.reason}")
        if not is_directory:
            if len(reader.files) > 1:
                raise click.UsageError(f"there are several logs: give a directory, --output {place}/")
            target = NewLogs.in_file(OutputFile.checked(place, inputs, force=force).path or place, replaces=force)
        else:
            names = [_numbered(file) for file in reader.files]
            target = NewLogs.in_directory(place, names[0], replaces=force, inputs=inputs)
        with target, watched_logs(reader.files, is_shown=not options["quiet"]) as watch:
            report = repair_logs(
                reader.logs,
                target,
                read_options=reader.options,
                recompute_checksums=options["recompute_checksums"] or not reading.verify_checksum,
                definitions=reading.definitions,
                keyring=reader.keyring,
                watch=watch,
            )
    paths = [str(log.path) for log in target.logs] if is_directory else [place]
    if options["form"] == "json":
        click.echo(json_text(_json(report, paths)))
    else:
        _report(report, paths)
        say(_next_step(report, place))
    return OK if report.is_complete else DAMAGE


def _numbered(file: str) -> str:
    """Return the name that a log has in the directory.

    Raises:
        Refusal: it does not end in a number, apart from a suffix of compression.
    """
    name = log_name(file)
    try:
        next_log_name(name)
    except BinlogFormatError as exc:
        raise Refusal(
            f"{file}: the name does not end in a number, so that an index file cannot list it, expected a name such as "
            "binlog.000001 (give --output a file for this log)"
        ) from exc
    return name


def _write_index(path: str, files: tuple[str, ...], inputs: list[str], *, force: bool) -> int:
    """Write an index file for logs in the same directory."""
    OutputFile.checked(path, inputs, force=force, has_index=False)
    folder = Path(path).resolve().parent
    others = [file for file in files if Path(file).resolve().parent != folder]
    if others:
        raise click.UsageError(f"{others[0]} is not in the directory of the index file")
    names = sorted((Path(file).name for file in files), key=log_number)
    for gap in series_gaps(names):
        say(f"{gap.file}: {gap.reason}")
    write_index(Path(path), names, replaces=force)
    say(f"wrote {path} with {counted(len(names), 'log[s]')}")
    return 0


def _json(report: RepairReport, paths: list[str]) -> dict[str, Any]:
    return {
        "logs": paths,
        "groups": report.groups,
        "lost": [{**asdict(one), "size": one.size} for one in report.lost],
        "lost_bytes": report.lost_bytes,
        "missing_gtids": None if report.missing_gtids is None else str(report.missing_gtids),
        "missing_logs": list(report.missing_logs),
        "was_in_use": list(report.was_in_use),
    }


def _next_step(report: RepairReport, target: str | None) -> str:
    """Return a sentence about what to do with the new logs."""
    search = "look for what is missing in the logs of a replica or in another copy of the archive; "
    has_lost = not all(one.is_tail or one.is_end_event for one in report.lost)
    is_missing = report.missing_logs or report.missing_gtids or has_lost
    return f"next: {search if is_missing else ''}`binlogio verify {target}`, then replay or export the new logs"


def _report(report: RepairReport, paths: list[str]) -> None:
    """Print the recovered groups and the lost byte ranges."""
    say(f"wrote {counted(report.groups, 'event group[s]')} into {', '.join(paths)}")
    for file in report.was_in_use:
        say(f"{file}: the flag IN_USE was set, and is clear in the new log")
    for one in report.lost:
        what = "incomplete end, which the server would remove as well" if one.is_tail else "lost"
        what = "incomplete last event, which ends the log: no transaction is lost" if one.is_end_event else what
        say(f"{one.file}: bytes {one.start} to {one.end} ({one.size}): {what}; at {one.damaged_at}: {one.reason}")
    if report.missing_gtids is not None:
        say(f"missing GTIDs: {report.missing_gtids}")
    for missing in report.missing_logs:
        say(missing)
    if report.is_complete:
        say("nothing is lost")
