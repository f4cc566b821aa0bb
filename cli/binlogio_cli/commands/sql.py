"""`binlogio sql`: answers an SQL query over the row changes of logs.

The tables whose names are in the query are exported into a temporary DuckDB file, as `binlogio export --format duckdb`
does; DuckDB answers the query. Values, definitions, selection and errors are therefore those of an export.
"""

from __future__ import annotations

import shutil
import signal
import sys
import tempfile
from collections import Counter
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import timedelta, timezone
from glob import escape
from importlib.util import find_spec
from pathlib import Path
from threading import current_thread, main_thread
from typing import TYPE_CHECKING, Any, Final
from zoneinfo import ZoneInfo

import click

from binlogio.archive.export.duckdb_file import quoted
from binlogio.columnar import SOURCE_COLUMNS
from binlogio.dotted_names import possible_names, split_name
from binlogio.storage.new_file import locked_side
from binlogio_cli.commands.export import base_option, exported, names_of
from binlogio_cli.messages import Refusal, say, say_missing
from binlogio_cli.options import INPUT_PATH, SectionedCommand, format_option, ignore_missing_logs_option
from binlogio_cli.output import STDOUT, Output, OutputFile, force_option, open_output, output_option, quiet_option
from binlogio_cli.quantities import counted
from binlogio_cli.quoting import safe
from binlogio_cli.selection import (
    input_once,
    output_zone,
    reading_options,
    say_statement_changes,
    selection_options,
    text_and_files,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import tzinfo
    from types import FrameType

    import duckdb

    from binlogio.selection.selection import Selection
    from binlogio_cli.selection import Reading

_EXAMPLE: Final = """\b
Examples: changes by hour; the rows at a moment; a file for a spreadsheet
  binlogio sql "SELECT date_trunc('hour', timestamp) t, op, count(*) FROM orders GROUP BY ALL" binlog.*
  binlogio sql --latest --stop-datetime '2026-11-20 12:00' "SELECT * FROM shop.orders WHERE id = 42" binlog.*
  binlogio sql --format csv -o big.csv "SELECT after.* FROM orders WHERE after.total > 1000" binlog.000042
"""
_COPIES: Final = {"csv": "FORMAT csv, HEADER", "json": "FORMAT json", "parquet": "FORMAT parquet"}
_CATALOG: Final = "binlogio_sql"  # a schema of this name has to be given with it
# Neither extensions from the network nor variables of this program are tables.
_CONFIG: Final[dict[str, Any]] = {"autoinstall_known_extensions": "false", "python_enable_replacements": "false"}
_FOLDER: Final = "binlogio-sql"  # no folder has this name: those of killed queries are recognized by it
_LONGEST_NAME: Final = 64  # characters
_QUERIES: Final = ("SELECT", "MULTI")  # of the latter there is PIVOT
_PAGE_ROWS: Final = 1000  # rows that determine the widths of columns


@click.command("sql", cls=SectionedCommand, epilog=_EXAMPLE)
@click.argument("arguments", metavar="[QUERY] FILES...", nargs=-1, required=True, type=INPUT_PATH, callback=input_once)
@format_option("table", *_COPIES, help="Output format: a table for people, CSV, JSON lines, or a Parquet file.")
@click.option(
    "--latest",
    is_flag=True,
    help="Tables have the last state of each row that the logs change, without deleted rows; with --stop-datetime or "
    "--stop-position: their state at that moment. Needs primary keys and full images.",
)
@base_option
@click.option(
    "--key", metavar="NAMES", help="For --latest: the primary key, if neither log nor --table-definitions have it."
)
@click.option(
    "--zero-dates",
    type=click.Choice(["error", "null", "text"]),
    default="error",
    show_default=True,
    help="Zero and invalid dates: refuse them, make them NULL, or make all dates text.",
)
@output_option()
@force_option
@quiet_option
@ignore_missing_logs_option
@selection_options
@reading_options
def command(
    arguments: tuple[str, ...],
    form: str,
    output: str | None,
    key: str | None,
    *,
    force: bool,
    selection: Selection,
    reading: Reading,
    **options: Any,
) -> int:
    """Answer an SQL query (DuckDB's dialect) over the row changes in FILES (paths, directories, URIs).

    A table of the logs, orders or shop.orders, has a record for each change: op, timestamp, gtid, file, pos, the
    structs before and after with the columns of the table, and its transaction (docs/export.md); outcome tells changes
    that were rolled back. With --latest it has the rows themselves. Only tables that the query names are read, into a
    temporary file (TMPDIR). Without QUERY, all selected tables are read, and queries from standard input are answered;
    each ends with a semicolon. DESCRIBE orders shows the columns of a table.
    """
    query, files = text_and_files(arguments, "query")
    if query is None and (STDOUT in files or output is not None):
        raise click.UsageError("without a query, standard input has the queries, and standard output the answers")
    if form == "parquet" and output in (None, STDOUT):
        raise click.UsageError("--format parquet needs --output FILE")
    if query is not None:
        query = query.strip().rstrip(";")
        if not query:
            raise click.UsageError("the query is empty")
        _check(query)
    target = OutputFile.checked(output, (*files, *reading.other_inputs), force=force)
    names = selection.names
    if names.is_open and query is not None and not (names.excluded and options["base"]):  # as those of the base
        names = replace(names, tables=tuple(sorted(_globs(query))))
    with locked_side(Path(tempfile.gettempdir(), _FOLDER), is_directory=True, is_shared=True) as folder:
        place = folder / f"{_CATALOG}.duckdb"
        summary = exported(
            files,
            str(place),
            selection,
            reading,
            format="duckdb",
            tables=names,
            key=names_of(key),
            source_columns=SOURCE_COLUMNS,
            **options,
        )
        code = say_missing(summary.missing) | say_statement_changes(summary.statement_changes, selection, files)
        is_asked = query is None and sys.stdin.isatty()
        if is_asked:
            for table, count in summary.rows.items():
                say(f"{table}: {counted(count, 'row[s]' if options['latest'] else 'change[s]')}")
        known = list(summary.rows)
        with _errors(known), _opened(place, known) as connection, open_output(target) as stream:
            for text in _inputs(is_terminal=is_asked) if query is None else [query]:
                with _errors(known, goes_on=is_asked):
                    for one in _statements(text):
                        _answer(connection, one, form, folder, stream)
    return code


def _answer(connection: duckdb.DuckDBPyConnection, query: str, form: str, folder: Path, stream: Output) -> None:
    if form == "table":
        stream.write_all(_lines(connection, query))
        return
    result = folder / "result"
    connection.execute(f"COPY (\n{query}\n) TO '{result}' ({_COPIES[form]})")
    with result.open("rb") as source:
        shutil.copyfileobj(source, stream)


def _inputs(*, is_terminal: bool) -> Iterator[str]:
    """Yield statements of standard input, which end with a semicolon at the end of a line; a terminal has prompts."""
    if is_terminal:
        with suppress(ImportError):
            import readline  # noqa: F401, PLC0415 - lines can be edited, and called again
    text = ""
    while True:
        try:
            text += (input("   ...> " if text.strip() else "binlogio> ") if is_terminal else _next_line()) + "\n"
        except EOFError:
            break
        except KeyboardInterrupt:
            if not is_terminal:
                raise
            click.echo(err=True)
            text = ""
        if text.strip().rstrip(";").casefold() in ("exit", "quit"):
            return
        if text.rstrip().endswith(";"):
            yield text
            text = ""
    if text.strip():
        yield text


def _next_line() -> str:
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line.rstrip("\n")


def _globs(query: str) -> Iterator[str]:
    """Yield globs of the tables that a query may name: as in DuckDB, names that differ in case only are one name."""
    for name in possible_names(query):
        if len(name) <= _LONGEST_NAME:
            yield "*." + "".join(
                f"[{one.lower()}{one.upper()}]" if one.lower() != one.upper() else escape(one) for one in name
            )


def _check(query: str) -> None:
    """Check, before the logs are read, that a text is one query.

    Raises:
        Refusal: it is not.
    """
    if find_spec("duckdb") is not None and (count := len(_statements(query))) != 1:  # else the export names the package
        raise Refusal(f"one query, such as a SELECT, can be answered, found {count or 'a comment'}")


def _statements(text: str) -> list[str]:
    """Return the queries of a text.

    Raises:
        Refusal: DuckDB cannot parse it, or a statement is not a query.
    """
    import duckdb  # noqa: PLC0415 - an extra

    try:
        found = duckdb.extract_statements(text)
    except duckdb.Error as exc:
        raise Refusal(f"DuckDB: {str(exc).splitlines()[0]} (a query is one SELECT; docs: export.html#sql)") from exc
    kinds = [one.type.name for one in found]
    if not set(kinds).issubset(_QUERIES):
        raise Refusal(f"a query, such as a SELECT, can be answered, found {' and '.join(kinds)}")
    return [_without_end(one.query) for one in found]


def _without_end(query: str) -> str:
    """Return a query without the semicolon and the comments after it, as parentheses need it."""
    import duckdb  # noqa: PLC0415

    end = len(query)
    for start, kind in reversed(duckdb.tokenize(query)):
        if kind != duckdb.token_type.comment and query[start] != ";":
            break
        end = start
    return query[:end]


@contextmanager
def _opened(place: Path, tables: list[str]) -> Iterator[duckdb.DuckDBPyConnection]:
    """Provide a connection to the exported tables, which are found with and without the name of their schema."""
    import duckdb  # noqa: PLC0415 - an extra; the export has checked that it is installed

    with duckdb.connect(place, config=_CONFIG) as connection:
        if (zone := _zone_name(output_zone())) is not None:
            connection.execute(f"SET TimeZone = '{zone}'")
        found = Counter(split_name(name)[1].casefold() for name in tables)
        for schema, table in map(split_name, tables):
            if found[table.casefold()] == 1:
                source = quoted(_CATALOG, schema, table)
                connection.execute(f"CREATE TEMP VIEW {quoted(table)} AS SELECT * FROM {source}")  # noqa: S608
        with _interruptible(connection):
            yield connection


@contextmanager
def _interruptible(connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """End a query at a signal at once: without a call of `interrupt`, DuckDB may wait for the end of its tasks."""
    before: dict[int, Any] = {one: signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)}

    def stop(number: int, frame: FrameType | None) -> None:
        connection.interrupt()
        before[number](number, frame)

    handled = [one for one, handler in before.items() if callable(handler) and current_thread() is main_thread()]
    try:
        for one in handled:
            signal.signal(one, stop)
        yield
    finally:
        for one in handled:
            signal.signal(one, before[one])


@contextmanager
def _errors(tables: list[str], *, goes_on: bool = False) -> Iterator[None]:
    """Raise errors of DuckDB as errors of the command; with `goes_on`, say what it refuses.

    Raises:
        Refusal: DuckDB refuses the query.
        OSError: a file cannot be read or written, or the memory or the disk is full.
    """
    import duckdb  # noqa: PLC0415

    try:
        yield
    except Refusal as exc:
        if not goes_on:
            raise
        say(str(exc))
    except duckdb.Error as exc:
        text = str(exc).splitlines()[0]
        if isinstance(exc, duckdb.IOException | duckdb.OutOfMemoryException):
            raise OSError(None, f"DuckDB: {text}") from exc
        if isinstance(exc, duckdb.CatalogException):
            known = ", ".join(tables) or "none"
            text += f" (of the tables that the query names, there are selected changes of {known};"
            text += " `binlogio stats` shows the tables of logs)"
        if isinstance(exc, duckdb.BinderException):
            text += " (columns of the table of a change are after.NAME and before.NAME; with --latest, they are NAME)"
        if not goes_on:
            raise Refusal(f"DuckDB: {text}") from exc
        say(f"DuckDB: {text}")


def _zone_name(zone: tzinfo) -> str | None:
    """Return DuckDB's name of a time zone; None: the local zone.

    Raises:
        Refusal: DuckDB has no such zone.
    """
    if isinstance(zone, ZoneInfo):
        return zone.key
    if not isinstance(zone, timezone):
        return None
    hours, rest = divmod(zone.utcoffset(None), timedelta(hours=1))
    if rest:
        raise Refusal(f"--time-zone {zone}: DuckDB has offsets of whole hours; give the name of the zone")
    return f"Etc/GMT{-hours:+d}"


def _lines(connection: duckdb.DuckDBPyConnection, query: str) -> Iterator[str]:
    """Yield the rows of a query as lines; the first rows determine the widths of columns."""
    found = connection.execute(f"SELECT CAST(COLUMNS(*) AS VARCHAR) FROM (\n{query}\n)")  # noqa: S608 - that of the user
    names = [safe(column[0]) for column in found.description or ()]
    widths: list[int] = []
    while rows := found.fetchmany(_PAGE_ROWS):
        page = [["NULL" if value is None else safe(value) for value in row] for row in rows]
        if not widths:
            page[:0] = [names]
            widths = [max(map(len, column)) for column in zip(*page, strict=True)]
        for row in page:
            yield "  ".join(value.ljust(width) for value, width in zip(row, widths, strict=True)).rstrip() + "\n"
    if not widths:
        yield "  ".join(names) + "\n"
