"""`binlogio info`: prints a summary of each log from its first and last events."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, Final

import click

from binlogio.archive.info import log_infos
from binlogio.storage import find_logs, load_keyring
from binlogio_cli.messages import DAMAGE, say, say_gaps
from binlogio_cli.options import SectionedCommand, format_option
from binlogio_cli.quantities import KIB, moment_text, size_text
from binlogio_cli.quoting import json_text, safe
from binlogio_cli.selection import files_argument, keyring_option

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binlogio.archive.info import LogInfo

_EXAMPLE: Final = """\b
Examples
  binlogio info /var/lib/mysql                      all logs of a server
  binlogio info --tables binlog.000042
  binlogio info --json s3://backups/binlogs/ | jq .gtids
"""


@click.command("info", cls=SectionedCommand, epilog=_EXAMPLE)
@files_argument
@click.option("--tables", is_flag=True, help="Show the tables with row changes; reads the whole logs.")
@format_option("text", "json", help="Output format: text, or JSON: a line for each log.")
@keyring_option
def command(
    files: tuple[str, ...],
    keyring: str | None,
    tables: bool,  # noqa: FBT001 - click's way of flags
    form: str,
) -> int:
    """Show server, times, GTIDs and format of each log in FILES (paths, directories, index files, URIs).

    Reads only the first and the last few KiB of each log; all of a log that does not end with a whole transaction; of a
    compressed or encrypted log, and of a relay log, only the first ones, and says so. Exits with 1 if a log cannot be
    read, is cut although its server had closed it, or is missing between others.
    """
    is_damaged = False
    logs = find_logs(files)
    keys = None if keyring is None else load_keyring(keyring)
    for number, info in enumerate(log_infos(logs, keys, tables=tables)):
        is_damaged = is_damaged or info.error is not None
        if form == "json":
            click.echo(json_text(_json(info)))
        else:
            click.echo("\n" * bool(number) + "\n".join(_lines(info)))
        if info.error is not None and form == "json":
            say(info.error)
    code = say_gaps(logs, keys)
    return DAMAGE if is_damaged else code


def _json(info: LogInfo) -> dict[str, Any]:
    return {**asdict(info), "created": _iso(info.created), "last_event": _iso(info.last_event)}


def _iso(seconds: int | None) -> str | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, timezone.utc).isoformat()


def _lines(info: LogInfo) -> Iterator[str]:
    """Yield the known facts about a log, one per line."""
    size = "" if info.size is None else f"  {size_text(info.size)}"
    if info.size is not None and info.size >= KIB:
        size += f" ({info.size:,} bytes)"
    yield f"{safe(info.file)}{size}"
    if info.error is not None:
        yield f"  error       {safe(info.error)}"
    for name, value in (
        ("server", _server(info)),
        ("time", _times(info)),
        ("gtids", _gtids(info)),
        ("before", info.gtids_before),
        ("format", _format(info)),
        ("state", _state(info) if info.vendor is not None else None),
    ):
        if value:
            yield f"  {name:<10}  {safe(value)}"
    if info.tables is not None:
        yield f"  groups      {info.groups:,}"
        for number, table in enumerate(info.tables):
            groups = f"{table.groups:,} group{'s' * (table.groups != 1)}"
            yield f"  {'' if number else 'tables':<10}  {safe(table.table)} in {groups}"
        if not info.tables:
            yield "  tables      no row changes"


def _server(info: LogInfo) -> str | None:
    if info.vendor is None:
        return None
    vendor = "MariaDB" if info.vendor == "mariadb" else "MySQL"
    return f"{vendor} {info.server_version}, server id {info.server_id}"


def _times(info: LogInfo) -> str | None:
    if info.created is None:
        return None
    begin = moment_text(info.created)
    return f"{begin} UTC on" if info.last_event is None else f"{begin} to {moment_text(info.last_event)} UTC"


def _gtids(info: LogInfo) -> str | None:
    if info.gtids is not None:
        text = info.gtids or "none"
        return f"{text} (first and last)" if info.gtids_from == "first and last group" else text
    if info.first_gtid is None and info.last_gtid is None:
        return None
    return f"{info.first_gtid or '?'} ... {info.last_gtid or '?'}"


def _format(info: LogInfo) -> str:
    parts = [] if info.vendor is None else [f"version {info.binlog_version}", f"checksums {info.checksum}"]
    if info.compression is not None:
        parts.append(f"compressed ({info.compression})")
    if info.encryption is not None:
        parts.append(f"encrypted ({info.encryption})")
    if info.is_relay_log:
        parts.append("relay log")
    return ", ".join(parts)


def _state(info: LogInfo) -> str:
    started = "first log after a start of the server; " if info.starts_server else ""
    if info.ends_with == "rotate":
        return f"{started}closed, followed by {info.next_log}"
    if info.ends_with == "stop":
        return f"{started}closed, the server was stopped"
    if info.incomplete is not None:
        return f"{started}{info.incomplete}"
    state = "in use, or the server crashed" if info.in_use else "closed" if info.error is None else "not whole"
    return f"{started}{state}{'' if info.end_read else ' (the end of the log was not read)'}"
