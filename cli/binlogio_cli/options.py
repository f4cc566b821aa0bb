"""Option values shared by commands: input paths, GTID sets, server variables, table definitions."""

from __future__ import annotations

import difflib
import errno
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, Final, TypeVar

import click

from binlogio.errors import BinlogError, UnsupportedFeature
from binlogio.gtid import MariadbGtidPosition
from binlogio.options import ServerVariables
from binlogio.schema.given import GivenDefinitions, load_definitions
from binlogio.selection.event_filter import Gtids, parse_gtid_set
from binlogio.storage.new_file import local_output
from binlogio_cli.messages import Refusal, error_text

_Command = TypeVar("_Command", bound=Callable[..., Any])


SECTIONS: Final = {
    "Select": (
        "--database", "--table", "--exclude-table", "--operation", "--where", "--start-position", "--stop-position",
        "--include-gtids", "--exclude-gtids", "--server-id", "--ignore-server-ids", "--do-domain-ids",
        "--ignore-domain-ids",
    ),
    "Time": ("--start-datetime", "--stop-datetime", "--time-zone"),
    "Output": ("--output", "--format", "--force", "--quiet", "--color"),
    "Names of columns": ("--table-definitions", "--trust-ddl", "--database-charset"),
    "Reading": ("--keyring", "--ignore-missing-logs", "--no-verify-checksum", "--max-event-size", "--max-opened-size"),
}  # fmt: skip
"""The sections of `--help`: options that several commands have. The others come first."""


class SectionedCommand(click.Command):
    """A command whose help has the examples before the options, and the options in sections."""

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the description and the examples."""
        super().format_help_text(ctx, formatter)
        super().format_epilog(ctx, formatter)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write nothing: the examples are above."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options by section."""
        titles = {name: title for title, names in SECTIONS.items() for name in names}
        found: dict[str, list[tuple[str, str]]] = {title: [] for title in ("Options", *SECTIONS)}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None and isinstance(param, click.Option):
                title = next((titles[name] for name in param.opts if name in titles), "Options")
                found[title].append(record)
        for title, records in found.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


class FilePath(click.Path):
    """The name of a file or directory, which is not empty: an empty name would mean the current directory."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the name.

        Raises:
            FileNotFoundError: it is empty.
        """
        if not value:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), "")
        return super().convert(value, param, ctx)


class OutputPath(FilePath):
    """The name of a local file or directory that is written; `file:///x` is `/x`."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the name.

        Raises:
            Refusal: it is another URI.
        """
        try:
            path = str(local_output(value)) if value else value
            is_directory = len(path) > 1 and value.endswith(os.sep)  # which a path does not keep
            return super().convert(path + os.sep if is_directory else path, param, ctx)
        except UnsupportedFeature as exc:
            raise Refusal(error_text(exc)) from exc


class AliasedOption(click.Option):
    """An option with more names than its help shows: each alias takes a value, or stands for one.

    Args:
        aliases: the value that each alias stands for; None: it takes a value.
    """

    def __init__(self, *args: Any, aliases: Mapping[str, str | None], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._aliases: Final = dict(aliases)

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        """Add all names to a parser."""
        super().add_to_parser(parser, ctx)
        for alias, value in self._aliases.items():
            action = "store" if value is None else "store_const"
            parser.add_option(obj=self, opts=[alias], dest=self.name, action=action, nargs=1, const=value)


def format_option(*forms: str, help: str) -> Callable[[_Command], _Command]:  # noqa: A002 - as in click
    """Return the option --format, with the first form as its default; --json is the same as --format json."""
    return click.option(
        "--format",
        "form",
        cls=AliasedOption,
        aliases={"--json": "json"},
        type=click.Choice(forms),
        default=forms[0],
        show_default=True,
        help=help,
    )


def format_of(option: str, path: str | None, meaning: str, output: str | None, form: str) -> tuple[str | None, str]:
    """Return output and format of a command whose older `option` FILE is --format `meaning` --output FILE.

    Raises:
        UsageError: another output or format is given, too.
    """
    if path is None:
        return output, form
    is_given = click.get_current_context().get_parameter_source("form") is click.core.ParameterSource.COMMANDLINE
    if output is not None or (is_given and form != meaning):
        what = "output" if output is not None else "format"
        raise click.UsageError(f"{option} FILE is --format {meaning} --output FILE: give only one {what}")
    return path, meaning


class ByteSize(click.ParamType):  # type: ignore[type-arg]  # generic in newer versions only
    """A positive number of bytes, with K, M or G for powers of 1024, as in options of a server."""

    name = "bytes"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number of bytes; refuses anything else."""
        found = re.fullmatch(r"([1-9]\d*)([KMG]?)", str(value), re.IGNORECASE)
        if found is None:
            self.fail(f"{value!r} is not a number of bytes, such as 1048576, 512K, 10M or 1G", param, ctx)
        return int(found[1]) << 10 * " KMG".index(found[2].upper() or " ")


INPUT_PATH: Final = FilePath(readable=False)  # completes names; the command reports I/O errors
ignore_missing_logs_option: Final = click.option(
    "--ignore-missing-logs",
    is_flag=True,
    help="Go on although logs or GTIDs are missing; the summary names them, and the exit code is 1.",
)
_GTID_POSITION: Final = re.compile(r"\s*\d+-\d+-\d+\s*(?:,|$)")
_DEFINITIONS_FILE: Final = f"{__name__}.definitions_file"
_CHARSETS: Final = f"{__name__}.charsets"
_TRUSTS_DDL: Final = f"{__name__}.trusts_ddl"


def parse_gtids(ctx: click.Context, param: click.Parameter, text: str | None) -> Gtids | None:
    """Parse a GTID set of MySQL, or GTIDs and ranges of MariaDB.

    Raises:
        BadParameter: the text is neither.
    """
    if text is None:
        return None
    forms = "expected a GTID set such as UUID:1-5:9, or GTIDs of MariaDB such as 0-1-100,1-1-5..7"
    try:
        found = parse_gtid_set(text)
    except BinlogError as exc:
        raise click.BadParameter(f"{exc}; {forms}", ctx, param) from exc
    if not found:
        raise click.BadParameter(f"no GTID is named; {forms}", ctx, param)
    return found


class WholeNumber(click.IntRange):
    """A range of whole numbers, which messages call so."""

    name = "whole number"


def parse_set(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> dict[str, Any]:
    """Parse NAME=VALUE pairs of server variables; values are converted to the types of the variables.

    Raises:
        BadParameter: a name is unknown or a value is invalid.
    """
    kinds = {field.name: str(field.type).removesuffix(" | None") for field in fields(ServerVariables)}
    parsed: dict[str, Any] = {}
    for text in values:
        name, equals, value = text.partition("=")
        if not equals or name not in kinds:
            near = difflib.get_close_matches(name, kinds, 1) or kinds
            raise click.BadParameter(f"{text!r} is not NAME=VALUE with a name such as {', '.join(near)}", ctx, param)
        parsed[name] = _typed(value, kinds[name], ctx, param)
    return parsed


def _typed(value: str, kind: str, ctx: click.Context, param: click.Parameter) -> Any:
    converter: Any = {"int": click.INT, "bool": click.BOOL}.get(kind, click.STRING)
    return converter.convert(value, param, ctx)


def gtid_position(text: str) -> MariadbGtidPosition | None:
    """Parse the MariaDB GTIDs of --start-position or --stop-position; return None if the text is not a list of GTIDs.

    Raises:
        BinlogFormatError: two GTIDs have the same domain, or a number is out of range.
    """
    return MariadbGtidPosition.parse(text) if _GTID_POSITION.match(text) else None


def definitions_file() -> str | None:
    """Return the file given as `--table-definitions`, or None."""
    name: str | None = click.get_current_context().meta.get(_DEFINITIONS_FILE)
    return name


def _load_definitions(ctx: click.Context, _param: click.Parameter, file: str | None) -> GivenDefinitions | None:
    ctx.meta[_DEFINITIONS_FILE] = file
    try:
        given, settings = load_definitions(file), given_settings()
    except UnsupportedFeature as exc:
        raise Refusal(error_text(exc)) from exc
    return settings if given is None else given.with_settings_of(settings)


def given_settings() -> GivenDefinitions | None:
    """Return what `--database-charset` and `--trust-ddl` say; None: nothing."""
    meta = click.get_current_context().meta
    charsets, trusts_ddl = meta.get(_CHARSETS), meta.get(_TRUSTS_DDL, False)
    return GivenDefinitions(charsets, trusts_ddl=trusts_ddl) if charsets or trusts_ddl else None


def _take_trust(ctx: click.Context, _param: click.Parameter, value: bool) -> None:  # noqa: FBT001 - of click
    ctx.meta[_TRUSTS_DDL] = value


def _take_charsets(ctx: click.Context, _param: click.Parameter, texts: tuple[str, ...]) -> None:
    pairs = [text.partition("=") for text in texts]
    for name, _, charset in pairs:
        if not name or not charset or "." in name:
            raise click.BadParameter("expected the name of a database and a character set, such as shop=utf8mb4")
    ctx.meta[_CHARSETS] = {name: charset for name, _, charset in pairs}


charset_option: Final = click.option(
    "--database-charset",
    multiple=True,
    metavar="DB=CHARSET",
    is_eager=True,
    expose_value=False,
    callback=_take_charsets,
    help="The character set of a database, for text columns whose character set is not in the log.",
)
trust_option: Final = click.option(
    "--trust-ddl",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_take_trust,
    help="Accept CREATE TABLE IF NOT EXISTS of MySQL although it may have found another table, if the types fit.",
)
_definitions_option: Final = click.option(
    "--table-definitions",
    type=INPUT_PATH,
    metavar="FILE",
    callback=_load_definitions,
    help="Columns and keys of tables, for logs without them: CREATE TABLE statements, JSON as in scripts of "
    "`binlogio write`, or a catalogue of `binlogio schema --save`.",
)


def definitions_option(command: _Command) -> _Command:
    """Add --table-definitions, --database-charset and --trust-ddl; the command gets one `table_definitions`."""
    return _definitions_option(charset_option(trust_option(command)))
