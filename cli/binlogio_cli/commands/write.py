"""`binlogio write`: writes binary logs from a script or a data file.

This module has the options. `binlogio_cli.write` has the formats of scripts and data files.
"""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from binlogio.dotted_names import dotted_name, split_name
from binlogio.errors import BinlogError, UnsupportedFeature
from binlogio.options import ServerVariables
from binlogio.storage.log_index import has_series, new_series
from binlogio.writer import BinlogWriter
from binlogio.writer.writer import system_clock
from binlogio_cli.messages import Refusal, error_text, say
from binlogio_cli.options import INPUT_PATH, SectionedCommand, WholeNumber, parse_set
from binlogio_cli.output import output_option
from binlogio_cli.quantities import counted
from binlogio_cli.quoting import safe
from binlogio_cli.write.actions import Json, script_schema
from binlogio_cli.write.script import ScriptClock, ScriptError, ScriptRunner, check_lines, read_lines, variables_of
from binlogio_cli.write.tables import ScriptTables

if TYPE_CHECKING:
    from collections.abc import Callable

    from binlogio.writer.log.log_file import Clock

_EXAMPLE: Final = """\b
Example: a script of three lines, and the log that it writes
  {"do": "table", "schema": "shop", "name": "orders", "columns": [{"name": "id", "type": "int"}], "primary_key": ["id"]}
  {"session": "a", "do": "execute", "sql": "INSERT ...", "changes": [{"insert": "shop.orders", "rows": [{"id": 1}]}]}
  {"session": "a", "do": "commit"}
\b
  binlogio write script.jsonl -o data
  binlogio dump data/binlog.index
"""
FORMATS: Final = {
    "parquet": (".parquet", ".pq"),
    "arrow": (".arrow", ".arrows", ".feather", ".ipc"),
    "csv": (".csv",),
    "jsonl": (".jsonl", ".ndjson"),
    "sql": (".sql", ".sql.gz"),
}
"""The formats of data files and their file name suffixes."""


def _print_schema(ctx: click.Context, _: click.Parameter, value: bool) -> None:  # noqa: FBT001 - click's signature
    if value and not ctx.resilient_parsing:
        click.echo(json.dumps(script_schema(), indent=1))
        ctx.exit()


@click.command("write", cls=SectionedCommand, epilog=_EXAMPLE)
@click.argument("scripts", nargs=-1, metavar="[SCRIPT...]", type=INPUT_PATH)
@output_option(
    "The directory for the logs, created if it does not exist.", metavar="DIR", aliases=("--out",), is_directory=True
)
@click.option("--basename", default="binlog", show_default=True, help="The base name of the logs (without the number).")
@click.option(
    "--from",
    "source",
    type=INPUT_PATH,
    metavar="FILE",
    help="Write the rows of a data file instead of a script: Parquet, Arrow, CSV or JSON lines; rows to insert, or "
    "change records with op, before and after. Or the tables of a dump of mysqldump or mariadb-dump.",
)
@click.option(
    "--format", "kind", type=click.Choice(list(FORMATS)), help="The format of the data file. Default: by its name."
)
@click.option("--table", metavar="SCHEMA.NAME", help="The table of the rows.")
@click.option("--primary-key", metavar="COLUMN,...", help="The primary key of the table, if there is no --ddl.")
@click.option(
    "--ddl",
    type=INPUT_PATH,
    metavar="FILE",
    help="SQL statements that define the table. They come first in the log.",
)
@click.option(
    "--transaction-rows", type=WholeNumber(min=1), default=1000, show_default=True, help="Rows in each transaction."
)
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
    "--gtid-mode",
    type=click.Choice(["ON", "ON_PERMISSIVE", "OFF_PERMISSIVE", "OFF"], case_sensitive=False),
    help="The server variable gtid_mode.",
)
@click.option(
    "--keyring",
    type=INPUT_PATH,
    metavar="FILE",
    help="The keyring file of the server, for logs with binlog_encryption=ON or encrypt_binlog=ON.",
)
@click.option("--check", is_flag=True, help="Check the input, and write nothing: it runs in a temporary directory.")
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
    output: str | None,
    basename: str,
    source: str | None,
    kind: str | None,
    table: str | None,
    primary_key: str | None,
    ddl: str | None,
    transaction_rows: int,
    overrides: dict[str, Any],
    checksum: str | None,
    gtid_mode: str | None,
    keyring: str | None,
    *,
    check: bool,
) -> None:
    """Write binary logs from a script of JSON lines, or from the rows of a data file.

    SCRIPT is a file, or - for standard input; several scripts run one after the other. The new logs follow the logs
    that are already in the directory. Options override the variables of the script. Warnings, and assumptions about
    statements that cannot be parsed, go to standard error.
    """
    if (source is None) != bool(scripts):
        raise click.UsageError("Expected SCRIPT, or --from, and not both.")
    if source is None and any(value is not None for value in (kind, table, primary_key, ddl)):
        raise click.UsageError("--format, --table, --primary-key and --ddl need --from.")
    if output is None and not check:
        raise click.UsageError("Missing option '--output'.")
    overrides |= {"binlog_checksum": checksum} if checksum is not None else {}
    overrides |= {"gtid_mode": gtid_mode} if gtid_mode is not None else {}
    try:
        if source is None:
            run = _scripts(scripts, overrides)
        else:
            kind = kind or next((name for name, ends in FORMATS.items() if source.lower().endswith(ends)), None)
            if kind == "sql" and any(value is not None for value in (primary_key, ddl)):
                raise click.UsageError("--primary-key and --ddl are in the dump.")
            if kind == "sql":
                run = _dump(Path(source), table, overrides)
            else:
                run = _data(Path(source), kind, _table_name(table), primary_key, ddl, transaction_rows, overrides)
        if check or output is None:
            with TemporaryDirectory() as folder:
                click.echo(f"{_write(run, Path(folder) / basename, keyring).summary}, no errors")
            return
        target = Path(output) / basename
        if has_series(target.parent, target.name):
            written = _write(run, target, keyring, appends=True)
        else:
            with new_series(target.parent, target.name) as side:
                written = _write(run, side / target.name, keyring)
        for path in (target.parent / name for name in written.names):
            click.echo(f"wrote {safe(str(path))}, {path.stat().st_size} bytes")
        click.echo(f"{written.summary}; {written.gtids}")
    except (ScriptError, BinlogError) as exc:
        raise Refusal(error_text(exc) if isinstance(exc, BinlogError) else str(exc)) from exc


class WriteRun(NamedTuple):
    """A run: server variables, clock, and the function that writes the logs and returns a summary."""

    variables: ServerVariables
    clock: Clock
    fill: Callable[[BinlogWriter, Path], str]


class _Written(NamedTuple):
    """Result of a run: a summary, the new logs, and the GTIDs of all logs."""

    summary: str
    names: tuple[str, ...]
    gtids: str


def _write(run: WriteRun, target: Path, keyring: str | None, *, appends: bool = False) -> _Written:
    """Write the logs; `appends`: after others, so that what was written before an error stays, and is reported.

    Raises:
        ScriptError: a line is rejected.
        Refusal: a row is rejected.
        BinlogError: the logs in the folder are damaged, or another writer has them open.
        OSError: a log cannot be written.
    """
    with BinlogWriter(target, variables=run.variables, clock=run.clock, keyring=keyring) as writer:
        changes = writer.identity.changes(writer.stored_identity)
        if changes:
            say(f"the new logs are of another server than the logs before them: {', '.join(changes)}")
        names_before = writer.names[:-1]
        try:
            summary = run.fill(writer, target.parent)
        except (ScriptError, BinlogError, Refusal, OSError):
            if appends:
                paths = [str(target.parent / name) for name in writer.names if name not in names_before]
                say(f"written before the error: {', '.join(paths)}; {_gtids(writer)}")
            raise
        names = tuple(name for name in writer.names if name not in names_before)
        return _Written(summary, names, _gtids(writer))


def _scripts(scripts: tuple[str, ...], overrides: dict[str, Any]) -> WriteRun:
    """Read scripts and validate the form of their lines.

    Raises:
        ScriptError: a line is not JSON, or the variables are invalid.
        Refusal: a line has an invalid form; if there are several, the other errors are printed first.
    """
    lines = [(script, _read(script)) for script in scripts]
    variables = variables_of(*lines[0], overrides)
    found = [reason for script, script_lines in lines for reason in check_lines(script, script_lines)]
    for reason in found[:-1]:
        say(reason)
    if found:
        raise Refusal(found[-1])
    clock = ScriptClock()
    clock.start(*lines[0])

    def fill(writer: BinlogWriter, folder: Path) -> str:
        tables = ScriptTables(variables.server_version)
        runner = ScriptRunner(writer, folder, tables, clock, lambda text: click.echo(safe(text), err=True))
        for script, script_lines in lines:
            runner.run(script, script_lines)
        runner.close()
        return counted(runner.statements, "statement[s]")

    return WriteRun(variables, clock, fill)


def _table_name(table: str | None) -> tuple[str, str]:
    schema, name = split_name(table or "")
    if not (schema and name):
        raise click.UsageError(
            f"--from needs --table SCHEMA.NAME; found {table!r}" if table else "--from needs --table."
        )
    return schema, name


def _data(
    path: Path,
    kind: str | None,
    name: tuple[str, str],
    primary_key: str | None,
    ddl: str | None,
    transaction_rows: int,
    overrides: dict[str, Any],
) -> WriteRun:
    """Open a data file; without DDL, its columns define the table.

    Raises:
        BinlogError: a variable has an invalid value, or the file does not match the table.
        OSError: a file cannot be read.
    """
    from binlogio_cli.write.data_files import DataWriter, open_data, table_of  # noqa: PLC0415 - pyarrow is slow to import

    if kind is None:
        raise click.UsageError(f"The name {path.name!r} does not show the format; give --format.")
    if ddl is not None and primary_key is not None:
        raise click.UsageError("--primary-key is in the --ddl.")
    variables = ServerVariables(**{"sync_binlog": 0, **overrides})
    tables = ScriptTables(variables.server_version)
    statements = tables.read_script(Path(ddl)) if ddl is not None else []
    defined = tables.all.get(dotted_name(*name))
    if ddl is not None and defined is None:
        raise UnsupportedFeature(
            "the DDL does not define the table",
            file=ddl,
            expected=dotted_name(*name),
            found=", ".join(tables.all) or "none",
        )
    with path.open("rb"):  # the error of pyarrow has other words
        data = open_data(path, kind, defined)
    keys = [column.strip() for column in primary_key.split(",")] if primary_key is not None else []
    table = table_of(data.columns, *name, keys) if defined is None else defined

    def fill(writer: BinlogWriter, _: Path) -> str:
        with writer.session() as session:
            for schema, sql in statements:
                session.schema = schema
                session.ddl(sql)
        rows = DataWriter(writer, table, transaction_rows)
        rows.write(data)
        return counted(rows.row_count, f"row[s] in {counted(rows.transaction_count, 'transaction[s]')}")

    return WriteRun(variables, system_clock, fill)


def _dump(path: Path, table: str | None, overrides: dict[str, Any]) -> WriteRun:
    """Open a dump; `table` selects one of its tables.

    Raises:
        BinlogError: a variable has an invalid value, or the file is not a dump.
        OSError: the file cannot be read.
    """
    from binlogio_cli.write.dump_file import DumpFile  # noqa: PLC0415 - pyarrow is slow to import

    name = None if table is None else _table_name(table)
    dump = DumpFile(path, lambda *found: name is None or found == name, **overrides)

    def fill(writer: BinlogWriter, _: Path) -> str:
        with dump:
            rows, transactions = dump.write(writer)
        if name is not None and not rows:
            raise Refusal(f"{path}: the dump has no rows of {table}")
        return counted(rows, f"row[s] in {counted(transactions, 'transaction[s]')}")

    return WriteRun(dump.variables, system_clock, fill)


def _gtids(writer: BinlogWriter) -> str:
    """Return the GTIDs of the logs with the name of the server variable that has them."""
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
