"""`binlogio replay`: the changes in logs, applied to a database.

Knows the options and how a target is named. What is applied, and how, is `binlogio.replay`'s business.

    target := "sqlite:///" path                                          -- relative; sqlite:////tmp/x.db is absolute
            | "mysql://..." | "mariadb://..."                            -- `binlogio.replay.targets.mysql.address`
            | "dry-run:"
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

import click

import binlogio
from binlogio.errors import ReplayError
from binlogio.replay import ReplaySummary, SqliteTarget, replay
from binlogio.replay.targets.dry_run import DryRunTarget
from binlogio.replay.targets.mysql.address import SCHEMES, MysqlAddress, without_password
from binlogio.replay.targets.mysql.server_rows import KINDS
from binlogio.replay.targets.sqlite.target import SCHEME
from binlogio.replay.targets.sqlite.translation import sqlglot_is_here
from binlogio_cli.main import Refusal, say
from binlogio_cli.option_values import limits_of
from binlogio_cli.quoting import safe
from binlogio_cli.replay_options import check_selection, log_options, replay_filter, selection_options
from binlogio_cli.replay_progress import watched
from binlogio_cli.torn_tails import say_torn_tails

if TYPE_CHECKING:
    from binlogio.options import Position
    from binlogio.reader import BinlogReader
    from binlogio.replay.targets import Target
    from binlogio.schema.given import GivenDefinitions

DRY_RUN: Final = "dry-run:"
_EXAMPLE: Final = """\b
Examples:
  binlogio replay --to sqlite:///shop.db binlog.000041 binlog.000042
  binlogio replay --to sqlite:////tmp/shop.db --table-definitions tables.sql /var/lib/mysql/binlog.index
  binlogio replay --to 'mysql://root@/?unix_socket=/run/mysqld/mysqld.sock' --workers 8 --stop-datetime '2024-05-01 12:00:00' binlog.0*
"""


@click.command("replay", epilog=_EXAMPLE)
@click.argument("files", nargs=-1, required=True)
@click.option(
    "--to",
    "target_url",
    required=True,
    metavar="URL",
    help="Where to: sqlite:///FILE, which is made if need be; mysql://USER@HOST/?unix_socket=PATH, with ssl-mode, ssl-ca and password-file as further options (the password may also be in MYSQL_PWD); or dry-run:, which only reports.",
)
@click.option("--workers", type=click.IntRange(1, 1024), default=1, show_default=True, help="Transactions at the same time.")  # fmt: skip
@click.option(
    "--preserve-commit-order/--no-preserve-commit-order",
    default=True,
    show_default=True,
    help="Commit in the order of the log.",
)
@click.option(
    "--transactions-per-commit",
    type=click.IntRange(1),
    help="Into servers, with commits in order: transactions of the log that share a commit, at most; as many as there are workers if not given.",
)
@click.option(
    "--gtids",
    type=click.Choice(["keep", "new"]),
    help="Into MySQL: keep the GTIDs of the log (gtid_next), or let the server give new ones. Kept where the server has gtid_mode=ON and all of the log is wanted.",
)
@selection_options
@click.option(
    "--resume/--no-resume",
    "resumes",
    default=None,
    help="Go on at the position that the target keeps, or take no notice of it. If neither is given, a position that contradicts the logs or --start-position is refused.",
)
@click.option("--idempotent", is_flag=True, help="Replace rows that are there, do not miss those that are not.")
@click.option(
    "--translate",
    is_flag=True,
    help="To SQLite: carry out statements that are in the log as text, where their translation loses nothing.",
)
@click.option(
    "--apply",
    "how",
    type=click.Choice(["auto", "events", "sql"]),
    default="auto",
    show_default=True,
    help="To servers: send row events as they are, or write SQL.",
)
@click.option(
    "--ignore-cascades",
    is_flag=True,
    help="Go on where foreign keys of the source changed rows that are not in the log, and the target does not have these keys.",
)
@log_options
@click.option("--no-progress", is_flag=True, help="Show no progress bar.")
def command(
    files: tuple[str, ...], target_url: str, table_definitions: GivenDefinitions | None, **options: Any
) -> None:
    """Apply the changes of binary logs to a database.

    The target also keeps how far it came, and of which log: a second replay goes on from there. Each transaction of the log is one in the target, but for those that
    share a commit (--transactions-per-commit), which is not the case where GTIDs are kept. SQLite gets tables as
    the log needs them, as "schema.table"; names and keys come from the log (its metadata or its DDL) or from --table-definitions; of statements that
    are in the log as text, those that define tables are followed there, and with --translate those that change rows, unless that would lose
    something. Servers run statements with the context that they had.
    """
    wanted = replay_filter(options)
    with binlogio.open(
        files,
        verify_checksum=not options["no_verify_checksum"],
        limits=limits_of(options["max_event_size"], options["max_opened_size"]),
        keyring=options["keyring"],
        definitions=table_definitions,
    ) as reader:
        check_selection(reader, wanted)
        with (
            closing(_target(target_url, options)) as target,
            watched(reader.files, is_shown=not options["no_progress"]) as watch,
        ):
            summary = replay(
                reader,
                target,
                workers=options["workers"],
                preserve_commit_order=options["preserve_commit_order"],
                transactions_per_commit=options["transactions_per_commit"],
                wanted=wanted,
                resumes=options["resumes"],
                gtids=options["gtids"],
                ignore_cascades=options["ignore_cascades"],
                watch=watch,
            )
    _report(summary, reader)


def _target(url: str, options: dict[str, Any]) -> Target:
    if url == DRY_RUN:
        return DryRunTarget(_show)
    if url.startswith(SCHEMES):
        try:
            MysqlAddress.parse(url)
        except ReplayError as exc:
            raise click.UsageError(f"--to: {exc}") from exc
        try:
            from binlogio.replay.targets.mysql.target import MysqlTarget  # noqa: PLC0415 - needs an extra
        except ImportError as exc:
            raise Refusal("a server as target needs PyMySQL: pip install 'binlogio[replay]'") from exc
        applies_events = {"auto": None, "events": True, "sql": False}[options["how"]]
        return MysqlTarget.open(url, idempotent=options["idempotent"], applies_events=applies_events)
    path = url.removeprefix(SCHEME)
    if path == url or not path:
        raise click.UsageError(
            f"--to {without_password(url)}: a target is sqlite:///FILE, mysql://USER@HOST/ or {DRY_RUN}"
        )
    if options["translate"] and not sqlglot_is_here():
        raise Refusal("--translate needs sqlglot: pip install 'binlogio[replay]'")
    return SqliteTarget.open(path, idempotent=options["idempotent"], translate=options["translate"])


def _show(place: Position, schema: str, sql: bytes) -> None:
    """Print a statement that a server would execute."""
    database = f" in {safe(schema)}" if schema else ""
    click.echo(f"{safe(place.file)}:{place.offset}{database}: {safe(sql.decode('utf-8', 'backslashreplace'))}")


def _report_server(summary: ReplaySummary) -> None:
    """What is known of rows events that a server applied: how it found their rows is its own choice."""
    if not summary.server_rows:
        click.echo(
            f"{summary.events} rows events were applied by the server itself, which does not say how many rows they had"
        )
        return
    click.echo(
        f"{summary.events} rows events were applied by the server itself, which chose how to find rows; all in all it counted meanwhile"
    )
    for table in sorted({table for table, _ in summary.server_rows}):
        counts = ((summary.server_rows[table, kind], kind) for kind in KINDS)
        click.echo(f"  {safe(table)}: {', '.join(f'{count} {kind}' for count, kind in counts if count)}")


def _report(summary: ReplaySummary, reader: BinlogReader) -> None:
    changes = f": {summary.inserts} rows inserted, {summary.updates} updated, {summary.deletes} deleted"
    click.echo(f"replayed {summary.groups} event groups{changes if summary.rows or not summary.events else ''}")
    for table, rows in sorted(summary.rows_by_table.items()):
        found = ", ".join(
            f"{count} by {algorithm.value}"
            for (name, algorithm), count in sorted(summary.algorithms.items(), key=str)
            if name == table
        )
        click.echo(f"  {safe(table)}: {rows} row changes{f' ({found})' if found else ''}")
    if summary.events:
        _report_server(summary)
    for count, what in (
        (summary.executed_statements, "statements were executed"),
        (summary.unwanted_statements, "statements concern tables that were not chosen, and were left out"),
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
    if summary.keeps_gtids and summary.skipped_groups and not summary.groups:
        say(
            "the server has executed the GTIDs of all groups, so nothing was applied; --gtids new applies them again, under new ones"
        )
    say_torn_tails(reader)
    if summary.unfinished:
        say("the log ends in the middle of an event group, which was not applied")
