"""`binlogio replay`: applies binary logs to a database.

This module has the options, the target URL, and the report. `binlogio.replay` does the replay.

    target := "sqlite:///" path                                          -- relative; sqlite:////tmp/x.db is absolute
            | "mysql://..." | "mariadb://..."                            -- `binlogio.replay.targets.mysql.address`
            | "dry-run:"
"""

from __future__ import annotations

import json
import os
import signal
import threading
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import click

from binlogio.errors import BinlogError, ReplayError
from binlogio.replay import ReplaySummary, WorkerStates, replay
from binlogio.replay.targets.dry_run import DryRunTarget
from binlogio.replay.targets.mysql.address import SCHEMES, MysqlAddress, without_password
from binlogio.replay.targets.mysql.server_tables import KINDS
from binlogio_cli.messages import DAMAGE, NOTHING_SELECTED, OK, say, say_missing, say_torn_tails
from binlogio_cli.options import SectionedCommand, WholeNumber, ignore_missing_logs_option
from binlogio_cli.output import quiet_option
from binlogio_cli.progress import watched
from binlogio_cli.quantities import counted
from binlogio_cli.quoting import safe
from binlogio_cli.selection import (
    Reading,
    check_selection,
    files_argument,
    reading_options,
    replay_filter,
    rewrite_option,
    say_columns,
    selection_options,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    from binlogio.options import Position
    from binlogio.reader import BinlogReader
    from binlogio.replay.targets import Target
    from binlogio.replay.targets.sqlite.target import SqliteTarget
    from binlogio.selection.selection import Selection

DRY_RUN: Final = "dry-run:"
_EXAMPLE: Final = """\b
Examples:
  binlogio replay --to sqlite:///shop.db binlog.000041 binlog.000042
  binlogio replay --to sqlite:////tmp/shop.db --table-definitions tables.sql /var/lib/mysql/binlog.index
  binlogio replay --to 'mysql://root@localhost/' --workers 8 --stop-datetime '2026-11-20 12:00:00' binlog.0*
"""


@click.command("replay", cls=SectionedCommand, epilog=_EXAMPLE)
@files_argument
@click.option(
    "--to",
    "target_url",
    required=True,
    metavar="URL",
    help="The target: sqlite:///FILE (created if it does not exist); mysql://USER@HOST/?unix_socket=PATH with the "
    "options ssl-mode, ssl-ca and password-file (the password may also be in MYSQL_PWD); or dry-run: (prints "
    "statements and counts, changes nothing).",
)
@click.option(
    "--workers",
    type=WholeNumber(1, 1024),
    default=1,
    show_default=True,
    help="Number of transactions applied in parallel.",
)
@click.option(
    "--preserve-commit-order/--no-preserve-commit-order",
    default=True,
    show_default=True,
    help="Commit transactions in the order of the log.",
)
@click.option(
    "--transactions-per-commit",
    type=WholeNumber(1),
    help="For server targets with commits in order: the most transactions of the log that share one commit. "
    "Default: the number of workers.",
)
@click.option(
    "--gtids",
    type=click.Choice(["keep", "new"]),
    help="For server targets: keep the GTIDs of the log, or let the server assign new ones. Default: keep, if the "
    "server is MySQL with gtid_mode=ON and no filter by table is given. MariaDB needs log_bin=ON, gtid_strict_mode=ON, "
    "and a server_id that the log does not have.",
)
@selection_options
@rewrite_option
@click.option(
    "--resume/--no-resume",
    "resumes",
    default=None,
    help="Continue at the position stored in the target, or ignore it. If neither is given, the replay continues "
    "there, and a stored position that contradicts the logs or --start-position is an error.",
)
@click.option(
    "--source",
    metavar="NAME",
    help="Store the position under this name. Default: the server id in the logs. Needed for two sources with "
    "one server id.",
)
@click.option(
    "--idempotent", is_flag=True, help="Replace existing rows, and ignore missing rows (replica_exec_mode=IDEMPOTENT)."
)
@click.option(
    "--apply",
    "how",
    type=click.Choice(["auto", "events", "sql"]),
    default="auto",
    show_default=True,
    help="For server targets: send row events as they are (BINLOG statements), or convert them to SQL.",
)
@click.option(
    "--on-lossy",
    type=click.Choice(["error", "warn", "ignore"]),
    default="error",
    show_default=True,
    help="For rows sent as SQL: what to do about a value that does not fit the column of the target. warn and ignore "
    "let the server change it; warn counts these statements, and the exit code is 1.",
)
@click.option(
    "--ignore-cascades",
    is_flag=True,
    help="Continue if foreign keys of the source changed rows (ON DELETE, ON UPDATE) that are not in the log, "
    "and the target does not have these keys.",
)
@ignore_missing_logs_option
@reading_options
@quiet_option
def command(files: tuple[str, ...], target_url: str, selection: Selection, reading: Reading, **options: Any) -> int:
    """Apply binary logs to a database (point-in-time recovery).

    For point-in-time recovery, restore a backup and replay the logs after it, with --stop-position or --stop-datetime.

    The target stores the position up to which it has all transactions; the next replay continues there.
    Each transaction of the log is one transaction of the target. With --transactions-per-commit, small transactions
    may share a commit, unless their GTIDs are kept.

    SQLite targets create the tables of the log as "schema.table". Column names and keys come from the log (its metadata
    or its DDL) or from --table-definitions. Of statements that are in the log as SQL text, only DDL is applied.
    Server targets execute statements with their original session context.

    At the signal SIGUSR1, the replay writes a line of JSON to standard error: what each worker does and waits for, and
    the position up to which all transactions are applied. On a terminal, the progress bar shows the workers.
    """
    states = WorkerStates()
    with reading.open(files) as reader:
        wanted = replay_filter(selection, reader.files, options["rewrite_db"])
        check_selection(reader, wanted)
        with (
            _target(target_url, options) as target,
            _reported(states),
            _shown_at_signal(states),
            watched(reader.files, is_shown=not options["quiet"], lines=states.lines) as watch,
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
                source=options["source"],
                ignore_cascades=options["ignore_cascades"],
                ignore_missing_logs=options["ignore_missing_logs"],
                watch=watch,
                states=states,
            )
    _report(summary, reader)
    say_columns(wanted.rows)
    if summary.lossy:
        say(
            f"{counted(summary.lossy, 'statement[s]')} changed values that do not fit the target; the first:"
            f" {summary.first_loss}"
        )
    if summary.is_behind:
        say(
            "the target has later GTIDs of this server than these logs: they are older logs, or the server has begun a"
            " new series (RESET) whose transactions have GTIDs that the target has"
        )
    return say_missing(summary.missing) or (DAMAGE if summary.is_behind or summary.lossy else OK)


def _target(url: str, options: dict[str, Any]) -> AbstractContextManager[Target]:
    if url == DRY_RUN:
        return closing(DryRunTarget(_show))
    if url.startswith(SCHEMES):
        try:
            MysqlAddress.parse(url)
        except ReplayError as exc:
            raise click.UsageError(f"--to: {exc}") from exc
        from binlogio.replay.targets.mysql.target import MysqlTarget  # noqa: PLC0415 - imports PyMySQL

        applies_events = {"auto": None, "events": True, "sql": False}[options["how"]]
        return closing(
            MysqlTarget.open(
                url, idempotent=options["idempotent"], applies_events=applies_events, on_lossy=options["on_lossy"]
            )
        )
    from binlogio.replay.targets.sqlite.target import SCHEME, SqliteTarget  # noqa: PLC0415 - imports sqlite3

    path = url.removeprefix(SCHEME)
    if path == url or not path:
        rest = url.removeprefix("sqlite:").lstrip("/")
        forms = {"jdbc": url[5:], "dryrun": DRY_RUN, "dry-run": DRY_RUN, "localhost": "mysql://root@localhost/"}
        meant = forms.get(url.partition(":")[0], "" if ":" in rest or not rest else SCHEME + rest)
        near = f"; did you mean {without_password(meant)}?" * bool(meant)
        raise click.UsageError(
            f"--to {without_password(url)}: expected sqlite:///FILE, mysql://USER@HOST/ or {DRY_RUN}{near}"
        )
    return _kept_if_used(SqliteTarget.open(path, idempotent=options["idempotent"]))


@contextmanager
def _kept_if_used(target: SqliteTarget) -> Iterator[SqliteTarget]:
    """Provide a target, and close it; a new file without event groups is deleted if the replay fails."""
    try:
        yield target
    except BaseException:
        target.discard()
        raise
    target.close()


@contextmanager
def _shown_at_signal(states: WorkerStates) -> Iterator[None]:
    """Write the states of the workers to standard error at SIGUSR1, as a line of JSON."""
    number = getattr(signal, "SIGUSR1", None)
    if number is None or threading.current_thread() is not threading.main_thread():
        yield
        return

    def show(_number: int, _frame: FrameType | None) -> None:
        data = json.dumps(states.to_json()).encode() + b"\n"
        with suppress(OSError):
            while data:  # not sys.stderr, which may be in use where the signal arrives
                data = data[os.write(2, data) :]

    before = signal.signal(number, show)
    try:
        yield
    finally:
        signal.signal(number, before)


@contextmanager
def _reported(states: WorkerStates) -> Iterator[None]:
    """If a replay with several workers fails, report what each worker rolled back and committed."""
    try:
        yield
    except BinlogError:
        for line in states.report() if len(states.workers) > 1 else ():
            say(line)
        raise


def _show(place: Position, schema: str, sql: bytes) -> None:
    """Print a statement that a server would execute."""
    database = f" in {safe(schema)}" if schema else ""
    click.echo(f"{safe(place.file)}:{place.offset}{database}: {safe(sql.decode('utf-8', 'backslashreplace'))}")


def _report_server(summary: ReplaySummary) -> None:
    """Print the statistics of rows events that the server applied itself; the server chooses how to find rows."""
    if not summary.server_rows:
        click.echo(
            f"{summary.events} rows events were applied by the server itself, which does not say how many rows they had"
        )
        return
    click.echo(
        f"{summary.events} rows events were applied by the server itself, which chose how to find rows; "
        "its counters grew by"
    )
    for table in sorted({table for table, _ in summary.server_rows}):
        counts = ((summary.server_rows[table, kind], kind) for kind in KINDS)
        click.echo(f"  {safe(table)}: {', '.join(f'{count} {kind}' for count, kind in counts if count)}")


def _report(summary: ReplaySummary, reader: BinlogReader) -> None:
    changes = f": {counted(summary.inserts, 'row[s]')} inserted, {summary.updates} updated, {summary.deletes} deleted"
    click.echo(
        f"replayed {counted(summary.groups, 'event group[s]')}{changes if summary.rows or not summary.events else ''}"
    )
    for table, rows in sorted(summary.rows_by_table.items()):
        found = ", ".join(
            f"{count} by {algorithm.value}"
            for (name, algorithm), count in sorted(summary.algorithms.items(), key=str)
            if name == table
        )
        click.echo(f"  {safe(table)}: {counted(rows, 'row change[s]')}{f' ({found})' if found else ''}")
    if summary.events:
        _report_server(summary)
    for count, what in (
        (summary.executed_statements, "statement[s] [were|was] executed"),
        (
            summary.unwanted_statements,
            "statement[s] [change|changes] only tables that are not selected, and [were|was] left out",
        ),
        (
            summary.skipped_groups,
            "event group[s] [were|was] skipped: the target has [them|it], or [they are|it is] before its position",
        ),
        (summary.filtered_groups, "event group[s] [were|was] left out by the filters"),
        (summary.rolled_back_groups, "event group[s] [were|was] rolled back in the log"),
        (summary.statements, "statement[s] that [change|changes] no rows [were|was] not applied (DDL and similar)"),
        (summary.ignored, "change[s] did not fit the target and [were|was] ignored"),
        (summary.waits, "time[s] a worker waited for its turn to commit"),
        (summary.retries, "time[s] a transaction was retried"),
    ):
        if count:
            click.echo(counted(count, what))
    if summary.filtered_groups and not (summary.groups or summary.skipped_groups):
        say(NOTHING_SELECTED)
    if summary.position is not None:
        click.echo(f"position: {safe(summary.position.file)} {summary.position.offset}")
    if summary.incomplete_inserts:
        say(
            f"{summary.incomplete_inserts} inserted rows lack columns in the log "
            "(binlog_row_image=MINIMAL): these columns have the default"
            " values of the target, or NULL; the values of the source are not known"
        )
    if summary.incomplete_updates:
        say(
            f"{summary.incomplete_updates} updates lack generated columns in the log (MariaDB leaves them out): these "
            "columns are NULL in the changed rows"
        )
    if summary.prepared:
        say(counted(summary.prepared, "XA transaction[s] [are|is] prepared; [their|its] XA COMMIT is not in the logs"))
    if summary.keeps_gtids and summary.skipped_groups and not summary.groups:
        say(
            "the server has executed the GTIDs of all event groups, so nothing was applied; --gtids new "
            "applies them again with new GTIDs"
        )
    say_torn_tails(reader)
    if summary.unfinished:
        say("a log ends in the middle of an event group, which was not applied")
