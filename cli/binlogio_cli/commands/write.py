"""`binlogio write`: writes binary logs from a script.

This file has the options. The format of a script is in `binlogio_cli.script`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import click

from binlogio.errors import BinlogError
from binlogio.writer import BinlogWriter
from binlogio_cli.messages import Refusal, error_text
from binlogio_cli.options import parse_set
from binlogio_cli.quoting import safe
from binlogio_cli.script import Json, ScriptClock, ScriptError, ScriptRunner, read_lines, variables_of

_EXAMPLE: Final = """\b
Example: a script of three lines, and the log that it writes
  {"do": "table", "schema": "shop", "name": "orders", "columns": [{"name": "id", "type": "int"}], "primary_key": ["id"]}
  {"session": "a", "do": "execute", "sql": "INSERT ...", "changes": [{"insert": "shop.orders", "rows": [{"id": 1}]}]}
  {"session": "a", "do": "commit"}
\b
  binlogio write script.jsonl --out data
  binlogio dump data/binlog.index
"""


@click.command("write", epilog=_EXAMPLE)
@click.argument("scripts", nargs=-1, required=True, metavar="SCRIPT...")
@click.option(
    "--out",
    required=True,
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
def command(
    scripts: tuple[str, ...],
    out: str,
    basename: str,
    overrides: dict[str, Any],
    checksum: str | None,
    gtid_mode: str | None,
) -> None:
    """Write binary logs from a script of JSON lines: table definitions, sessions, statements with their row changes.

    SCRIPT is a file, or - for standard input; several scripts run one after the other. The new logs follow the logs
    that are already in the directory. Options override the variables of the script. Warnings, and assumptions about
    statements that cannot be parsed, go to standard error.
    """
    overrides |= {"binlog_checksum": checksum} if checksum is not None else {}
    overrides |= {"gtid_mode": gtid_mode} if gtid_mode is not None else {}
    try:
        lines = [(script, _read(script)) for script in scripts]
        variables = variables_of(*lines[0], overrides)
        clock = ScriptClock()
        clock.start(*lines[0])
        directory = Path(out)
        with BinlogWriter(directory / basename, variables=variables, clock=clock) as writer:
            names_before = len(writer.names) - 1
            runner = ScriptRunner(writer, clock, lambda text: click.echo(safe(text), err=True))
            for script, script_lines in lines:
                runner.run(script, script_lines)
            runner.close()
            names, gtids = writer.names[names_before:], _gtids(writer)
    except (ScriptError, BinlogError) as exc:
        raise Refusal(error_text(exc) if isinstance(exc, BinlogError) else str(exc)) from exc
    for name in names:
        path = directory / Path(name).name
        click.echo(f"wrote {safe(str(path))}, {path.stat().st_size} bytes")
    click.echo(f"{runner.statements} statements; {gtids}")


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
