"""`binlogio schema`: writes table definitions as JSON, from logs or from a server's information_schema.

`--table-definitions` and the option `schemaFile` of the Spark source read this file, and the catalogue that `--save`
writes.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from binlogio.errors import UnsupportedFeature
from binlogio.schema.given import read_text_file
from binlogio.schema.information_schema import QUERY, parse_information_schema
from binlogio.storage import find_logs, load_keyring
from binlogio_cli.messages import DAMAGE, OK, Refusal, error_text, say, say_gaps
from binlogio_cli.options import (
    INPUT_PATH,
    OutputPath,
    SectionedCommand,
    charset_option,
    given_settings,
    ignore_missing_logs_option,
    trust_option,
)
from binlogio_cli.output import OutputFile, force_option, open_output, output_option, quiet_option, refuse_input
from binlogio_cli.progress import watched_logs
from binlogio_cli.quantities import counted
from binlogio_cli.quoting import json_text
from binlogio_cli.selection import input_once, keyring_option

if TYPE_CHECKING:
    from collections.abc import Sequence

    from binlogio.schema import DefinitionCatalogue
    from binlogio.schema.definition import TableDefinition

_EXAMPLE: Final = """\b
Examples: from logs; a catalogue, which later logs extend; from a server that runs
  binlogio schema -o tables.json /archive
  binlogio schema --save shop.ddl /var/lib/mysql/binlog.index
  binlogio schema --query | mysql --batch > columns.tsv
  binlogio schema --information-schema columns.tsv -o tables.json
"""


@click.command("schema", cls=SectionedCommand, epilog=_EXAMPLE)
@click.argument("files", nargs=-1, type=INPUT_PATH, callback=input_once)
@click.option(
    "--information-schema",
    "listing",
    type=INPUT_PATH,
    metavar="FILE",
    help="Take the definitions from this output of the query, as of `mysql --batch` or as JSON, not from logs.",
)
@click.option(
    "--save",
    type=OutputPath(dir_okay=False, allow_dash=False),
    metavar="FILE",
    help="Add the DDL of FILES to this catalogue: --table-definitions takes from it the definitions at each position, "
    "also when older logs are gone. With --information-schema, also those of the server after FILES.",
)
@click.option("--query", "is_query", is_flag=True, help="Print the query for --information-schema.")
@output_option()
@force_option
@quiet_option
@keyring_option
@charset_option
@trust_option
@ignore_missing_logs_option
def command(
    files: tuple[str, ...],
    listing: str | None,
    save: str | None,
    output: str | None,
    keyring: str | None,
    *,
    is_query: bool,
    force: bool,
    quiet: bool,
    ignore_missing_logs: bool,
) -> int:
    """Write the definitions of the tables in FILES (paths, directories, index files, URIs), one JSON object a line.

    They come from the DDL in the logs and from binlog_row_metadata=FULL, and are the last ones of each table. Exits
    with 1 if the logs have rows of a table that they do not define.
    """
    if save is not None:
        from binlogio.columnar import changed_catalogue  # noqa: PLC0415 - needed for this option only

        if is_query or output is not None or not files:
            raise Refusal("--save: give logs (also with --information-schema FILE), and no other output")
        if given_settings() is not None:
            raise Refusal("--save stores statements: give --database-charset and --trust-ddl to the commands that read")
        refuse_input(save, (*files, listing, keyring))
        with changed_catalogue(Path(save), replaces=force) as catalogue:
            count = len(catalogue)
            code = _save(save, catalogue, files, listing, keyring, go_on=ignore_missing_logs, is_shown=not quiet)
        of = counted(len(catalogue.logs), f"log[s] ({len(catalogue) - count} new)")
        say(f"{save}: {counted(len(catalogue), 'statement[s]')} of {of}")
        return code
    if ignore_missing_logs or (bool(files) + (listing is not None) + is_query) != 1:
        raise Refusal("give logs, or --information-schema FILE, or --query (--ignore-missing-logs is for --save)")
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
            found = logged_tables(logs, keys, definitions=given_settings(), on_read=on_read)
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
            file.write(json_text(one.to_json()) + "\n")
    return DAMAGE if unknown else code


def _save(
    place: str,
    catalogue: DefinitionCatalogue,
    files: Sequence[str],
    listing: str | None,
    keyring: str | None,
    *,
    go_on: bool,
    is_shown: bool,
) -> int:
    """Extend a catalogue of definitions."""
    from binlogio.columnar import catalogue_logs, is_changed  # noqa: PLC0415

    logs, keys = find_logs(files), None if keyring is None else load_keyring(keyring)
    code = say_gaps(logs, keys)
    if is_changed(catalogue, logs, keys):
        raise Refusal(f"{place}: it was made of other logs of these names: give another file")
    holes = catalogue.holes()
    with watched_logs([log.name for log in logs], is_shown=is_shown) as on_read:
        damage = catalogue_logs(catalogue, logs, keys, on_read=on_read)
    for one in damage:
        say(error_text(one))
        code = DAMAGE
    for last, first in catalogue.holes():
        text = f"the catalogue has {last}, and then {first}: what was defined before is not known from there on"
        if (last, first) not in holes and not go_on:
            raise Refusal(f"{place} is as it was: {text} (add the missing logs first, or give --ignore-missing-logs)")
        if (last, first) not in holes:
            say(text)
            code = DAMAGE
    if listing is not None:
        catalogue.add_tables(_read_listing(listing))
    return code


def _read_listing(name: str) -> list[TableDefinition]:
    try:
        return parse_information_schema(read_text_file(Path(name)).decode("utf-8-sig"))
    except UnsupportedFeature as exc:
        exc.locate(file=name)
        raise Refusal(error_text(exc)) from exc
    except ValueError as exc:
        raise Refusal(f"{name}: expected UTF-8 ({exc})") from exc
