"""`binlogio index`: builds key indexes of logs.

This module has the options and the report; `binlogio.archive.key_index` builds the indexes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from binlogio.archive.key_index import IndexSummary, index_logs
from binlogio.storage import find_logs, load_keyring
from binlogio_cli.messages import say, say_gaps
from binlogio_cli.options import AliasedOption, FilePath, SectionedCommand
from binlogio_cli.output import quiet_option
from binlogio_cli.progress import watched_logs
from binlogio_cli.quantities import counted
from binlogio_cli.quoting import safe
from binlogio_cli.selection import files_argument, reading_options

if TYPE_CHECKING:
    from binlogio_cli.selection import Reading

_EXAMPLE: Final = """\b
Examples: an index beside each log of a directory; of logs in S3, in a local directory; by another key
  binlogio index /archive
  binlogio index -o /var/cache/binlog-keys s3://backups/binlogs/
  binlogio index --key shop.customers=email binlog.0*
"""


def _parse_keys(ctx: click.Context, param: click.Parameter, texts: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """Parse values of the form TABLE=COLUMN,...

    Raises:
        BadParameter: a value does not have this form.
    """
    keys = {}
    for text in texts:
        table, equals, columns = text.partition("=")
        if not (equals and columns and "." in table):
            raise click.BadParameter(f"{text!r} is not schema.table=column,column", ctx, param)
        keys[table] = tuple(name.strip() for name in columns.split(","))
    return keys


@click.command("index", cls=SectionedCommand, epilog=_EXAMPLE)
@files_argument
@click.option(
    "-o",
    "--output",
    "index_dir",
    cls=AliasedOption,
    aliases={"--index-dir": None},
    type=FilePath(),
    metavar="DIR",
    help="Write the indexes to this directory or URI. Default: the directory of the logs.",
)
@click.option(
    "--key",
    "keys",
    multiple=True,
    metavar="TABLE=COLUMNS",
    callback=_parse_keys,
    help="The columns that identify rows of a table, instead of its primary key; may be repeated.",
)
@click.option("--force", is_flag=True, help="Replace existing indexes.")
@quiet_option
@reading_options
def command(
    files: tuple[str, ...],
    index_dir: str | None,
    keys: dict[str, tuple[str, ...]],
    *,
    force: bool,
    quiet: bool,
    reading: Reading,
) -> int:
    """Make an index of the keys in each of FILES (paths, directories, URIs), for `binlogio history`.

    An index has the positions of the changes of each row, in a Parquet file named after the log with .keys.parquet
    appended. Its size is about a hundredth of the log, or less. An existing index is kept if it matches its log. Logs
    in use get no index. Tables without a primary key are not in the index.
    """
    made = passed = 0
    logs = find_logs(files)
    keyring = None if reading.keyring is None else load_keyring(reading.keyring)
    with watched_logs([log.name for log in logs], is_shown=not quiet) as watch:
        for one in index_logs(
            logs,
            folder=index_dir,
            key_columns=keys,
            definitions=reading.definitions,
            keyring=keyring,
            verify_checksum=reading.verify_checksum,
            limits=reading.limits,
            replace_all=force,
            watch=watch,
        ):
            if isinstance(one, IndexSummary):
                made += 1
                click.echo(safe(_made(one)))
                if one.without_key:
                    say(f"{one.log}: not in the index, since no primary key is known: {', '.join(one.without_key)}")
            else:
                passed += 1
                say(str(one))
    say(f"made {counted(made, 'index[es]')}" + (f"; {counted(passed, 'log[s] [have|has]')} none" if passed else ""))
    return say_gaps(logs, keyring)


def _made(one: IndexSummary) -> str:
    share = 100 * one.index_size / max(1, one.log_size)
    size = f"{one.index_size:,} bytes ({share:.2f} % of the log)"
    return f"{one.index}: {one.places:,} places of {counted(one.tables, 'table[s]')}, {size}"
