"""`binlogio write`: writes binary logs from a script.

This file has the options. The format of a script is in `binlogio_cli.write`.
"""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

import click

from binlogio.errors import BinlogError
from binlogio.options import ServerVariables
from binlogio.writer import BinlogWriter
from binlogio_cli.messages import Refusal, error_text, say
from binlogio_cli.options import parse_set
from binlogio_cli.quoting import safe
from binlogio_cli.write.actions import Json, script_schema
from binlogio_cli.write.script import ScriptClock, ScriptError, ScriptRunner, check_lines, read_lines, variables_of
from binlogio_cli.write.tables import ScriptTables

_EXAMPLE: Final = """\b
Example: a script of three lines, and the log that it writes
  {"do": "table", "schema": "shop", "name": "orders", "columns": [{"name": "id", "type": "int"}], "primary_key": ["id"]}
  {"session": "a", "do": "execute", "sql": "INSERT ...", "changes": [{"insert": "shop.orders", "rows": [{"id": 1}]}]}
  {"session": "a", "do": "commit"}
\b
  binlogio write script.jsonl --out data
  binlogio dump data/binlog.index
"""


def _print_schema(ctx: click.Context, _: click.Parameter, value: bool) -> None:  # noqa: FBT001 - click's signature
    if value and not ctx.resilient_parsing:
        click.echo(json.dumps(script_schema(), indent=1))
        ctx.exit()


@click.command("write", epilog=_EXAMPLE)
@click.argument("scripts", nargs=-1, required=True, metavar="SCRIPT...")
@click.option(
    "--out",
    type=click.Path(file_okay=False),
    help="The directory for the logs, created if it does not exist.",
)
@click.option("--basename", default="binlog", show_default=True, help="The base name of the logs (without the number).")
@click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="NAME=VALUE",
    callback=parse_set,
    help="Set a server variable; may be repeated.",
)
@click.option(
    "--checksum",
    type=click.Choice(["NONE", "CRC32"], case_sensitive=False),
    help="The server variable binlog_checksum.",
)
@click.option(
    "--gtid-mode", type=click.Choice(["ON", "OFF"], case_sensitive=False), help="The server variable gtid_mode."
)
@click.option("--check", is_flag=True, help="Check the scripts, and write nothing: they run in a temporary directory.")
@click.option(
    "--schema",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_schema,
    help="Print the JSON Schema of a line of a script and exit.",
)
def command(
    scripts: tuple[str, ...],
    out: str | None,
    basename: str,
    overrides: dict[str, Any],
    checksum: str | None,
    gtid_mode: str | None,
    *,
    check: bool,
) -> None:
    """Write binary logs from a script of JSON lines: table definitions, sessions, statements with their row changes.

    SCRIPT is a file, or - for standard input; several scripts run one after the other. The new logs follow the logs
    that are already in the directory. Options override the variables of the script. Warnings, and assumptions about
    statements that cannot be parsed, go to standard error.
    """
    if out is None and not check:
        raise click.UsageError("Missing option '--out'.")
    overrides |= {"binlog_checksum": checksum} if checksum is not None else {}
    overrides |= {"gtid_mode": gtid_mode} if gtid_mode is not None else {}
    try:
        lines = [(script, _read(script)) for script in scripts]
        variables = variables_of(*lines[0], overrides)
        _check(lines)
        if check or out is None:
            with TemporaryDirectory() as folder:
                statements = _run(lines, variables, Path(folder), basename).statements
            click.echo(f"{statements} statements, no errors")
        else:
            _write(lines, variables, Path(out), basename)
    except (ScriptError, BinlogError) as exc:
        raise Refusal(error_text(exc) if isinstance(exc, BinlogError) else str(exc)) from exc


def _check(lines: list[tuple[str, list[tuple[int, Json]]]]) -> None:
    """Refuse scripts with lines of the wrong form, after a message about each, before anything is written."""
    found = [reason for script, script_lines in lines for reason in check_lines(script, script_lines)]
    for reason in found[:-1]:
        say(reason)
    if found:
        raise Refusal(found[-1])


class _Written(NamedTuple):
    """What a run has written: the number of statements, the new logs, and the GTIDs of all logs."""

    statements: int
    names: tuple[str, ...]
    gtids: str


def _run(
    lines: list[tuple[str, list[tuple[int, Json]]]], variables: ServerVariables, folder: Path, basename: str
) -> _Written:
    """Run the scripts.

    Raises:
        ScriptError: a line is refused.
        BinlogError: the logs in the folder are damaged, or another writer has them open.
        OSError: the log cannot be written.
    """
    clock = ScriptClock()
    clock.start(*lines[0])
    with BinlogWriter(folder / basename, variables=variables, clock=clock) as writer:
        names_before = writer.names[:-1]
        tables = ScriptTables(variables.server_version)
        runner = ScriptRunner(writer, folder, tables, clock, lambda text: click.echo(safe(text), err=True))
        for script, script_lines in lines:
            runner.run(script, script_lines)
        runner.close()
        names = tuple(name for name in writer.names if name not in names_before)
        return _Written(runner.statements, names, _gtids(writer))


def _write(
    lines: list[tuple[str, list[tuple[int, Json]]]], variables: ServerVariables, folder: Path, basename: str
) -> None:
    """Run the scripts, and print what they have written."""
    written = _run(lines, variables, folder, basename)
    for name in written.names:
        path = folder / Path(name).name
        click.echo(f"wrote {safe(str(path))}, {path.stat().st_size} bytes")
    click.echo(f"{written.statements} statements; {written.gtids}")


def _gtids(writer: BinlogWriter) -> str:
    """Return the GTIDs of the logs as the server variable that shows them."""
    if writer.variables.is_mariadb:
        return f"gtid_binlog_state: {','.join(map(str, writer.gtid_binlog_state)) or 'none'}"
    return f"gtid_executed: {str(writer.gtid_executed).replace(chr(10), '') or 'none'}"


def _read(script: str) -> list[tuple[int, Json]]:
    """Read the lines of a script.

    Raises:
        ScriptError: a line is not a JSON object, or the file is not UTF-8.
        OSError: the file cannot be read.
    """
    with click.open_file(script, encoding="utf-8") as file:
        try:
            return read_lines(script, file)
        except UnicodeDecodeError as exc:
            raise ScriptError(script, 1, f"the script is not UTF-8: {exc.reason} at byte {exc.start}") from exc
