"""`binlogio schema`: writes table definitions as JSON, from logs or from a server's information_schema.

`--table-definitions` and the option `schemaFile` of the Spark source read this file.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from binlogio.errors import UnsupportedFeature
from binlogio.schema.information_schema import QUERY, parse_information_schema
from binlogio.storage import find_logs, load_keyring
from binlogio_cli.messages import DAMAGE, OK, Refusal, error_text, say, say_gaps
from binlogio_cli.options import INPUT_PATH, charset_option, given_charsets
from binlogio_cli.output import OutputFile, force_option, open_output, output_option, quiet_option
from binlogio_cli.progress import watched_logs
from binlogio_cli.selection import input_once, keyring_option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from binlogio.schema.definition import TableDefinition

_EXAMPLE: Final = """\b
Examples: from logs; from a server that runs
  binlogio schema -o tables.json /archive
  binlogio schema --query | mysql --batch > columns.tsv
  binlogio schema --information-schema columns.tsv -o tables.json
"""


@click.command("schema", epilog=_EXAMPLE)
@click.argument("files", nargs=-1, type=INPUT_PATH, callback=input_once)
@click.option(
    "--information-schema",
    "listing",
    type=INPUT_PATH,
    metavar="FILE",
    help="Take the definitions from this output of the query, as of `mysql --batch` or as JSON, not from logs.",
)
@click.option("--query", "is_query", is_flag=True, help="Print the query for --information-schema.")
@output_option
@force_option
@quiet_option
@keyring_option
@charset_option
def command(
    files: tuple[str, ...],
    listing: str | None,
    output: str | None,
    keyring: str | None,
    *,
    is_query: bool,
    force: bool,
    quiet: bool,
) -> int:
    """Write the definitions of the tables in FILES (paths, directories, index files, URIs), one JSON object a line.

    They come from the DDL in the logs and from binlog_row_metadata=FULL, and are the last ones of each table. Exits
    with 1 if the logs have rows of a table that they do not define.
    """
    if (bool(files) + (listing is not None) + is_query) != 1:
        raise Refusal("give logs, or --information-schema FILE, or --query")
    if is_query:
        click.echo(QUERY, nl=False)
        return OK
    target = OutputFile.checked(output, (*files, listing, keyring), force=force)
    unknown: dict[str, str] = {}
    code = OK
    if listing is not None:
        tables: Sequence[TableDefinition] = _read_listing(listing)
    else:
        from binlogio.archive.table_definitions import logged_tables  # noqa: PLC0415 - needed for logs only

        logs = find_logs(files)
        keys = None if keyring is None else load_keyring(keyring)
        code = say_gaps(logs, keys)
        with watched_logs([log.name for log in logs], is_shown=not quiet) as on_read:
            found = logged_tables(logs, keys, definitions=given_charsets(), on_read=on_read)
        tables, unknown = found.definitions, found.unknown
        for table, place in found.changed.items():
            say(f"{table}: its rows up to {place} were logged with another definition than this, the last one")
        if found.assumed:
            listed = ", ".join(f"{table} ({', '.join(columns)})" for table, columns in found.assumed.items())
            say(
                f"the logs do not have the character set of these columns, only ASCII is read as text: {listed}"
                f" (give that of the database with --database-charset)"
            )
        for table, reason in unknown.items():
            say(f"{table}: left out: {reason}")
    if not tables:
        raise Refusal("no table definition found")
    with open_output(target) as file:
        for one in tables:
            file.write(json.dumps(one.to_json(), ensure_ascii=False) + "\n")
    return DAMAGE if unknown else code


def _read_listing(name: str) -> list[TableDefinition]:
    try:
        return parse_information_schema(Path(name).read_bytes().decode("utf-8-sig"))
    except UnsupportedFeature as exc:
        exc.locate(file=name)
        raise Refusal(error_text(exc)) from exc
    except UnicodeDecodeError as exc:
        raise Refusal(f"{name}: expected UTF-8 ({exc})") from exc
