"""`binlogio replay`: the row changes of logs, applied to a database.

Knows the options and how a target is named. What is applied, and how, is `binlogio.replay`'s business.

    target := "sqlite:///" path            -- relative; sqlite:////tmp/x.db is absolute
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

import binlogio
from binlogio.errors import BinlogError
from binlogio.replay import ReplaySummary, SqliteTarget, replay
from binlogio.replay.targets.sqlite import SCHEME
from binlogio.schema import TableDefinition
from binlogio_cli.main import Refusal, say
from binlogio_cli.quoting import safe

if TYPE_CHECKING:
    from binlogio.reader import BinlogReader

_EXAMPLE: Final = """\b
Examples:
  binlogio replay --to sqlite:///shop.db binlog.000041 binlog.000042
  binlogio replay --to sqlite:////tmp/shop.db --table-definitions tables.json /var/lib/mysql/binlog.index
"""


@click.command("replay", epilog=_EXAMPLE)
@click.argument("files", nargs=-1, required=True)
@click.option(
    "--to", "target_url", required=True, metavar="URL", help="Where to: sqlite:///FILE, which is made if need be."
)
@click.option(
    "--table-definitions",
    type=click.Path(exists=True, dir_okay=False),
    help="Names and keys of tables, for logs that do not have them: JSON, as in scripts of `binlogio write`.",
)
@click.option("--no-verify-checksum", is_flag=True, help="Do not compare CRC32 checksums.")
@click.option("--keyring", type=click.Path(exists=True, dir_okay=False), help="The server's keys, for encrypted logs.")
def command(
    files: tuple[str, ...],
    target_url: str,
    table_definitions: str | None,
    no_verify_checksum: bool,  # noqa: FBT001 - click's flag
    keyring: str | None,
) -> None:
    """Apply the row changes of binary logs to a database, by primary key.

    Tables are made as the log needs them, as "schema.table". Each transaction of the log is one in the target, which also remembers how
    far it came: a second replay goes on from there. Names and keys come from the log (binlog_row_metadata=FULL) or from
    --table-definitions. Statements that are in the log as text are not followed, but for DROP and TRUNCATE.
    """
    path = target_url.removeprefix(SCHEME)
    if path == target_url or not path:
        raise click.UsageError(f"--to {target_url}: a target is sqlite:///FILE")
    tables = _read_definitions(Path(table_definitions)) if table_definitions is not None else []
    target = SqliteTarget.open(path)
    try:
        with binlogio.open(files, verify_checksum=not no_verify_checksum, keyring=keyring) as reader:
            summary = replay(reader, target, tables=tables)
            _report(summary, reader)
    finally:
        target.close()


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
        click.echo(f"  {safe(table)}: {rows} row changes")
    if summary.skipped_groups:
        click.echo(f"skipped {summary.skipped_groups} event groups that the target had already")
    if summary.rolled_back_groups:
        click.echo(f"{summary.rolled_back_groups} event groups were rolled back in the log")
    if summary.statements:
        click.echo(
            f"{summary.statements} statements in the log change no rows and were not followed (DDL and the like)"
        )
    if summary.position is not None:
        click.echo(f"position: {safe(summary.position.file)} {summary.position.offset}")
    if summary.incomplete_inserts:
        say(
            f"{summary.incomplete_inserts} inserted rows lack columns in the log (binlog_row_image=MINIMAL): these are NULL in the target,"
            " where the source had their default values"
        )
    if summary.prepared:
        say(f"{summary.prepared} XA transactions are prepared and wait for an XA COMMIT beyond the end of the log")
    for (file, last_good_offset), tail in reader.torn_tails:
        say(f"{file}: at {tail.offset}: the log was in use and ends in {tail.size} bytes that are no whole event")
        say(f"{file}: the last whole event group ends at {last_good_offset}")
    if summary.unfinished:
        say("the log ends in the middle of an event group, which was not applied")
