"""`binlogio replay`: the changes in logs, applied to a database.

Knows the options and how a target is named. What is applied, and how, is `binlogio.replay`'s business.

    target := "sqlite:///" path            -- relative; sqlite:////tmp/x.db is absolute
            | ("mysql" | "mariadb") "://" user (":" password)? "@" host? (":" port)? "/" ("?unix_socket=" path)?
            | "dry-run:"
"""

from __future__ import annotations

import json
from contextlib import closing
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

import binlogio
from binlogio.errors import BinlogError
from binlogio.gtid import GtidSet
from binlogio.options import Position
from binlogio.replay import ReplayFilter, ReplaySummary, SqliteTarget, replay
from binlogio.replay.targets.dry_run import DryRunTarget
from binlogio.replay.targets.sqlite import SCHEME
from binlogio.schema import TableDefinition
from binlogio_cli.main import Refusal, say
from binlogio_cli.quoting import safe
from binlogio_cli.replay_progress import watched

if TYPE_CHECKING:
    from binlogio.reader import BinlogReader
    from binlogio.replay.targets import Target

SERVERS: Final = ("mysql://", "mariadb://")
DRY_RUN: Final = "dry-run:"
_EXAMPLE: Final = """\b
Examples:
  binlogio replay --to sqlite:///shop.db binlog.000041 binlog.000042
  binlogio replay --to sqlite:////tmp/shop.db --table-definitions tables.json /var/lib/mysql/binlog.index
  binlogio replay --to 'mysql://root@/?unix_socket=/run/mysqld/mysqld.sock' --workers 8 --stop-datetime '2024-05-01 12:00:00' binlog.0*
"""


@click.command("replay", epilog=_EXAMPLE)
@click.argument("files", nargs=-1, required=True)
@click.option(
    "--to",
    "target_url",
    required=True,
    metavar="URL",
    help="Where to: sqlite:///FILE, which is made if need be; mysql://USER@HOST/?unix_socket=PATH; or dry-run:, which only reports.",
)
@click.option("--workers", type=click.IntRange(1, 1024), default=1, show_default=True, help="Transactions at the same time.")  # fmt: skip
@click.option(
    "--preserve-commit-order/--no-preserve-commit-order",
    default=True,
    show_default=True,
    help="Commit in the order of the log.",
)
@click.option("--start-position", metavar="FILE:OFFSET", help="Leave out what begins before this place.")
@click.option("--stop-position", metavar="FILE:OFFSET", help="Stop at the first transaction at or behind this place.")
@click.option("--stop-datetime", metavar="TIME", help="Stop at the first transaction at or after this time, which is UTC.")  # fmt: skip
@click.option("--include-gtids", metavar="SET", help="Only these transactions.")
@click.option("--exclude-gtids", metavar="SET", help="All but these transactions.")
@click.option("--table", "tables", multiple=True, metavar="GLOB", help="Only rows of these tables (schema.table).")
@click.option("--exclude-table", "exclude_tables", multiple=True, metavar="GLOB", help="No rows of these tables.")
@click.option("--rewrite-db", multiple=True, metavar="FROM->TO", help="Give a schema another name.")
@click.option("--idempotent", is_flag=True, help="Replace rows that are there, do not miss those that are not.")
@click.option(
    "--apply",
    "how",
    type=click.Choice(["auto", "events", "sql"]),
    default="auto",
    show_default=True,
    help="To servers: send row events as they are, or write SQL.",
)
@click.option(
    "--table-definitions",
    type=click.Path(exists=True, dir_okay=False),
    help="Names and keys of tables, for logs that do not have them: JSON, as in scripts of `binlogio write`.",
)
@click.option("--no-verify-checksum", is_flag=True, help="Do not compare CRC32 checksums.")
@click.option("--keyring", type=click.Path(exists=True, dir_okay=False), help="The server's keys, for encrypted logs.")
@click.option("--no-progress", is_flag=True, help="Show no progress bar.")
def command(files: tuple[str, ...], target_url: str, table_definitions: str | None, **options: Any) -> None:
    """Apply the changes of binary logs to a database.

    Each transaction of the log is one in the target, which also remembers how far it came: a second replay goes on from there. SQLite gets tables as
    the log needs them, as "schema.table"; names and keys come from the log (its metadata or its DDL) or from --table-definitions; statements that
    are in the log as text are not followed there, but for DROP, RENAME and TRUNCATE. Servers run statements with the context that they had.
    """
    wanted = _filter(options)
    tables = _read_definitions(Path(table_definitions)) if table_definitions is not None else []
    with (
        closing(_target(target_url, options)) as target,
        binlogio.open(files, verify_checksum=not options["no_verify_checksum"], keyring=options["keyring"]) as reader,
        watched(reader.files, is_shown=not options["no_progress"]) as watch,
    ):
        summary = replay(
            reader,
            target,
            tables=tables,
            workers=options["workers"],
            preserve_commit_order=options["preserve_commit_order"],
            wanted=wanted,
            watch=watch,
        )
    _report(summary, reader)


def _target(url: str, options: dict[str, Any]) -> Target:
    if url == DRY_RUN:
        return DryRunTarget()
    if url.startswith(SERVERS):
        try:
            from binlogio.replay.targets.mysql import MysqlTarget  # noqa: PLC0415 - needs an extra
        except ImportError as exc:
            raise Refusal("a server as target needs PyMySQL: pip install 'binlogio[replay]'") from exc
        applies_events = {"auto": None, "events": True, "sql": False}[options["how"]]
        return MysqlTarget.open(url, idempotent=options["idempotent"], applies_events=applies_events)
    path = url.removeprefix(SCHEME)
    if path == url or not path:
        raise click.UsageError(f"--to {url}: a target is sqlite:///FILE, mysql://USER@HOST/ or {DRY_RUN}")
    return SqliteTarget.open(path, idempotent=options["idempotent"])


def _filter(options: dict[str, Any]) -> ReplayFilter:
    """What the options choose.

    Raises:
        UsageError: one of them cannot be read.
    """
    rewrites = [pair.partition("->") for pair in options["rewrite_db"]]
    for before, arrow, after in rewrites:
        if not (before and arrow and after):
            raise click.UsageError(f"--rewrite-db {before}{arrow}{after}: expected FROM->TO")
    return ReplayFilter(
        start=_place("--start-position", options["start_position"]),
        stop=_place("--stop-position", options["stop_position"]),
        stop_timestamp=_time(options["stop_datetime"]),
        include_gtids=_gtids("--include-gtids", options["include_gtids"]),
        exclude_gtids=_gtids("--exclude-gtids", options["exclude_gtids"]),
        tables=options["tables"],
        exclude_tables=options["exclude_tables"],
        rewrite_db={before: after for before, _, after in rewrites},
    )


def _place(option: str, text: str | None) -> Position | None:
    if text is None:
        return None
    file, _, offset = text.rpartition(":")
    if not file or not offset.isdecimal():
        raise click.UsageError(f"{option} {text}: expected FILE:OFFSET, such as binlog.000001:4")
    return Position(file, int(offset))


def _time(text: str | None) -> int | None:
    if text is None:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError as exc:
        raise click.UsageError(f"--stop-datetime {text}: {exc}") from exc
    return int((found if found.tzinfo else found.replace(tzinfo=timezone.utc)).timestamp())


def _gtids(option: str, text: str | None) -> GtidSet | None:
    try:
        return None if text is None else GtidSet.parse(text)
    except BinlogError as exc:
        raise click.UsageError(f"{option} {text}: {exc}") from exc


def _read_definitions(path: Path) -> list[TableDefinition]:
    """Table definitions from a JSON array, or from one object a line (`do` and `session`, as in scripts, do not matter).

    Raises:
        OSError: the file cannot be read.
        Refusal: something else is in it.
    """
    text = path.read_text(encoding="utf-8")
    try:
        values = (
            json.loads(text)
            if text.lstrip().startswith("[")
            else [json.loads(line) for line in text.splitlines() if line]
        )
        return [TableDefinition.from_json({k: v for k, v in value.items() if k != "do"}) for value in values]
    except (json.JSONDecodeError, AttributeError) as exc:
        raise Refusal(f"{path}: not JSON table definitions: {exc}") from exc
    except BinlogError as exc:
        raise Refusal(f"{path}: {exc}") from exc


def _report(summary: ReplaySummary, reader: BinlogReader) -> None:
    click.echo(
        f"replayed {summary.groups} event groups: {summary.inserts} rows inserted, {summary.updates} updated, {summary.deletes} deleted"
    )
    for table, rows in sorted(summary.rows_by_table.items()):
        found = ", ".join(
            f"{count} by {algorithm.value}"
            for (name, algorithm), count in sorted(summary.algorithms.items(), key=str)
            if name == table
        )
        click.echo(f"  {safe(table)}: {rows} row changes{f' ({found})' if found else ''}")
    for count, what in (
        (summary.events, "rows events were applied by the server itself"),
        (summary.executed_statements, "statements were executed"),
        (summary.skipped_groups, "event groups were skipped that the target had already"),
        (summary.filtered_groups, "event groups were not wanted"),
        (summary.rolled_back_groups, "event groups were rolled back in the log"),
        (summary.statements, "statements in the log change no rows and were not followed (DDL and the like)"),
        (summary.ignored, "changes did not fit and were ignored"),
        (summary.waits, "times a worker waited for its turn to commit"),
        (summary.retries, "times a transaction was tried again"),
    ):
        if count:
            click.echo(f"{count} {what}")
    if summary.position is not None:
        click.echo(f"position: {safe(summary.position.file)} {summary.position.offset}")
    if summary.incomplete_inserts:
        say(
            f"{summary.incomplete_inserts} inserted rows lack columns in the log (binlog_row_image=MINIMAL): these have the default values"
            " of the target, NULL where it has none; the source had its own"
        )
    if summary.prepared:
        say(f"{summary.prepared} XA transactions are prepared and wait for an XA COMMIT beyond the end of the log")
    for (file, last_good_offset), tail in reader.torn_tails:
        say(f"{file}: at {tail.offset}: the log was in use and ends in {tail.size} bytes that are no whole event")
        say(f"{file}: the last whole event group ends at {last_good_offset}")
    if summary.unfinished:
        say("the log ends in the middle of an event group, which was not applied")
