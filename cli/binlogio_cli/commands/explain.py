"""`binlogio explain`: prints how a server logs statements, in every binlog_format and with any rule set.

The writer itself logs the statements; see `binlogio.writer.explain`.
"""

from __future__ import annotations

import os
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Final

import click

from binlogio.errors import BinlogError
from binlogio.events.format_description import server_version_numbers
from binlogio.options import ServerVariables, whole_version
from binlogio.writer.explain import FORMATS, SCHEMA, TABLES, explain, is_notation, steps_of_notation, steps_of_sql
from binlogio.writer.rules.rule_sets import RULE_SETS
from binlogio.writer.rules.statement_facts import CacheKind, LoggingFormat
from binlogio_cli.messages import Refusal, error_text
from binlogio_cli.options import SectionedCommand, definitions_option, format_option, parse_set
from binlogio_cli.quoting import json_text, safe

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from binlogio.schema.given import GivenDefinitions
    from binlogio.writer.explain import ExplainedStatement, LoggedPart

_EXAMPLE: Final = """\b
Examples
  binlogio explain "B T N C"                        B BEGIN, C COMMIT, R ROLLBACK, S SAVEPOINT, RS ROLLBACK TO,
  binlogio explain "B N M! R" --rules 5.5.9         T InnoDB, N MyISAM, M both; ! ends with an error
  binlogio explain "BEGIN; INSERT INTO n SELECT UUID(), 1 FROM t; COMMIT"
  binlogio explain --table --rules 5.5.9
"""
_FORMAT_WORDS: Final = {LoggingFormat.STATEMENT: "text", LoggingFormat.ROW: "rows"}
_CACHE_WORDS: Final = {CacheKind.STATEMENT: "stmt", CacheKind.TRANSACTION: "trx", CacheKind.DIRECT: "none"}
_FLUSH_WORDS: Final = {"D": "at once", "C": "COMMIT", "R": "ROLLBACK", "I": "never"}
_LEGEND: Final = (
    "text or rows; the cache: stmt (of the statement), trx (of the transaction), none; when they come into the log:\n"
    "at once, with COMMIT, with ROLLBACK, never. Each statement that writes a table changes one row of it."
)
# Rows of the definition tables of WL#2687, by number.
_WORKLOG: Final = (
    ("1.a", "B T T C"), ("1.b", "B T T R"), ("2.a", "B T N C"), ("2.b", "B T N R"), ("3.a", "T"), ("3.b", "T!"),
    ("4.a", "N"), ("4.b", "N!"), ("5.a", "M"), ("5.b", "M!"), ("6.a", "B N N T C"), ("6.b", "B N N T R"),
    ("7.a", "B N N C"), ("7.b", "B N N R"), ("8.a", "B M T C"), ("8.b", "B M T R"), ("9.a", "B M N C"),
    ("9.b", "B M N R"), ("10.a", "B N M C"), ("10.b", "B N M R"), ("11.a", "B T M C"), ("11.b", "B T M R"),
)  # fmt: skip


@click.command("explain", cls=SectionedCommand, epilog=_EXAMPLE)
@click.argument("statements", required=False)
@click.option(
    "--rules",
    multiple=True,
    metavar="NAME|VERSION",
    help="Rule set (5.0, 9.7) or server version, such as 5.1.31 or 8.0; may be repeated. [default: 9.7]",
)
@click.option(
    "--set", "overrides", multiple=True, metavar="NAME=VALUE", callback=parse_set, help="Set a server variable."
)
@click.option("--database", default=SCHEMA, show_default=True, help="The default database of the statements.")
@definitions_option
@click.option("--table", "is_table", is_flag=True, help="Print the definition tables of WL#2687 for the rule sets.")
@format_option("text", "json", help="Output format: text, or JSON: a line for each statement, format and rule set.")
def command(
    statements: str | None,
    rules: tuple[str, ...],
    overrides: dict[str, Any],
    database: str,
    table_definitions: GivenDefinitions | None,
    is_table: bool,  # noqa: FBT001 - click's way of flags
    form: str,
) -> None:
    """Show how a server logs STATEMENTS: format, cache, flush, warnings and errors, in each binlog_format.

    STATEMENTS are SQL, separated by semicolons, or a sequence in the notation of WL#2687; - is standard input. The
    tables t (InnoDB) and n (MyISAM) exist, with the columns a and b; CREATE TABLE and --table-definitions add others. A
    statement that ends in /* error 1062 */ fails after its first row. A transaction that is open at the end is rolled
    back.
    """
    try:
        if is_table:
            for name in rules or ("9.7",):
                click.echo("\n".join(_definition_table(name, overrides)))
            return
        if statements is None:
            raise click.UsageError("give statements, or --table")
        if os.path.isfile(statements):  # noqa: PTH113 - False for a text that is too long for a name
            raise click.UsageError(f"{statements} is a file: binlogio explain - < {statements}")
        text = click.open_file("-").read() if statements == "-" else statements
        steps = steps_of_notation(text) if is_notation(text) else steps_of_sql(text)
        tables = [*TABLES, *(() if table_definitions is None else table_definitions.all())]
        for number, name in enumerate(rules or ("9.7",)):
            found = [
                explain(steps, _variables(name, one, overrides), tables=tables, schema=database) for one in FORMATS
            ]
            if form == "json":
                for line in _json_lines(name, found):
                    click.echo(line)
            else:
                click.echo("\n" * bool(number) + f"Rules of {safe(name)}")
                click.echo(_grid(found))
        if form != "json":
            click.echo(f"\n{_LEGEND}")
    except BinlogError as exc:
        raise Refusal(error_text(exc)) from exc


def _variables(rules: str, binlog_format: str, overrides: dict[str, Any]) -> ServerVariables:
    """Return the variables of a server with these rules; 5.1.31 is this version, 8.0 the last of its line.

    gtid_mode is OFF by default up to 8.4, and ON later.
    """
    is_set = rules in RULE_SETS and rules.count(".") == 1
    chosen = {"rule_set": rules} if is_set else {"server_version": rules}
    has_gtids = server_version_numbers(whole_version(rules)) >= (9,)
    mode = "ON" if has_gtids else "OFF"
    return ServerVariables(**{"gtid_mode": mode, **chosen, **overrides, "binlog_format": binlog_format})


def _grid(found: Sequence[Sequence[ExplainedStatement]]) -> str:
    """Return a text table with a row for each statement and a column for each format."""
    rows: list[tuple[str, ...]] = [("", *FORMATS)]
    for of_formats in zip(*found, strict=True):
        cells = [list(_cell(one)) for one in of_formats]
        sql = of_formats[0].sql + (f" /* error {of_formats[0].error} */" if of_formats[0].error else "")
        rows += zip_longest([safe(" ".join(sql.split()))], *cells, fillvalue="")
    widths = [min(max(len(row[column]) for row in rows), 60) for column in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join(f"  {line}" if line else line for line in lines)


def _cell(statement: ExplainedStatement) -> Iterator[str]:
    if statement.refusal is not None:
        yield f"refused: {statement.refusal.errno} {statement.refusal.symbol}"
    elif statement.parts:
        yield from map(_words, statement.parts)
    elif statement.group_end:
        yield f"ends in {statement.group_end}" if statement.group_end != "DIRECT" else "text none at once"
    else:
        yield "nothing"
    for errno in sorted({warning.errno for warning in statement.warnings}):
        reasons = f" {' '.join(statement.unsafe)}" if errno == 1592 else ""
        yield f"warning {errno}{reasons}"


def _words(part: LoggedPart) -> str:
    return f"{_FORMAT_WORDS[part.format]} {_CACHE_WORDS[part.cache]} {_FLUSH_WORDS[part.flush.value]}"


def _json_lines(rules: str, found: Sequence[Sequence[ExplainedStatement]]) -> Iterator[str]:
    for binlog_format, statements in zip(FORMATS, found, strict=True):
        for number, one in enumerate(statements, 1):
            value = {
                "rules": rules,
                "binlog_format": binlog_format,
                "number": number,
                "sql": one.sql,
                "error": one.error or None,
                "logged": [
                    {
                        "as": _FORMAT_WORDS[part.format],
                        "cache": _CACHE_WORDS[part.cache],
                        "flush": _FLUSH_WORDS[part.flush.value],
                    }
                    for part in one.parts
                ],
                "group_end": one.group_end or None,
                "unsafe": list(one.unsafe),
                "warnings": [{"errno": one.errno, "message": one.message} for one in one.warnings],
                "refused": None
                if one.refusal is None
                else {"errno": one.refusal.errno, "symbol": one.refusal.symbol, "message": str(one.refusal)},
            }
            yield json_text(value)


def _definition_table(rules: str, overrides: dict[str, Any]) -> Iterator[str]:
    """Yield the definition tables of WL#2687 as Markdown: letters for each statement of a sequence."""
    yield f"| rules of {rules} | sequence | {' | '.join(FORMATS)} |"
    yield "|---|---|---|---|---|"
    for number, sequence in _WORKLOG:
        cells = []
        for binlog_format in FORMATS:
            variables = _variables(rules, binlog_format, {"gtid_mode": "OFF", **overrides})
            found = explain(steps_of_notation(sequence), variables)
            cells.append(" ".join(one.letters for one in found if one.letters))
        yield f"| {number} | {sequence} | {' | '.join(cells)} |"
