"""`binlogio dump`: prints events and row changes as text, JSON or SQL.

This module has the options, including mysqlbinlog options that are accepted or rejected. `binlogio_cli.dump` has the
output formats and the filters.
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any, Final, cast

import click

import binlogio
from binlogio.errors import BinlogFormatError
from binlogio.selection.event_filter import EventFilter
from binlogio.series.positions import selected_logs
from binlogio.storage import find_logs, load_keyring
from binlogio_cli.dump.colours import ColouredOutput, is_coloured
from binlogio_cli.dump.filters import FilteredDump
from binlogio_cli.messages import DAMAGE, NOTHING_SELECTED, error_text, say, say_gaps, say_missing, say_torn_tails
from binlogio_cli.options import FilePath, SectionedCommand, WholeNumber, format_option, ignore_missing_logs_option
from binlogio_cli.output import (
    STDOUT,
    EventDump,
    Output,
    OutputFile,
    force_option,
    open_output,
    output_option,
    quiet_option,
)
from binlogio_cli.progress import watched_logs
from binlogio_cli.selection import (
    Reading,
    check_selected,
    earlier_definitions,
    files_argument,
    output_zone,
    reading_options,
    renames,
    rewrite_option,
    row_choice,
    say_columns,
    selection_options,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from binlogio.reader import BinlogReader
    from binlogio.selection.selection import Selection
    from binlogio_cli.dump.renamed import RenamedReader
    from binlogio_cli.progress import WatchBytes

_FILES_ONLY: Final = "binlogio reads files and connects to no server: read the logs in their folder, or copy them"
# Rejected options of the vendors' tools: (names, takes a value, alternative).
_ELSEWHERE: Final = (
    *((names, False, _FILES_ONLY) for names in (
        ("-R", "--read-from-remote-server"), ("-C", "--compress"), ("--ssl",), ("--ssl-verify-server-cert",),
        ("--get-server-public-key",), ("--ssl-session-data-continue-on-failed-reuse",),
    )),
    *((names, True, _FILES_ONLY) for names in (
        ("--read-from-remote-source", "--read-from-remote-master"), ("-h", "--host"), ("-u", "--user"),
        ("-p", "--password"), ("-P", "--port"), ("-S", "--socket"), ("--protocol",), ("--ssl-mode",), ("--ssl-ca",),
        ("--ssl-capath",), ("--ssl-cert",), ("--ssl-cipher",), ("--ssl-key",), ("--ssl-crl",), ("--ssl-crlpath",),
        ("--ssl-fips-mode",), ("--ssl-session-data",), ("--tls-version",), ("--tls-ciphersuites",),
        ("--tls-sni-servername",), ("--server-public-key-path",), ("--default-auth",), ("--plugin-dir",),
        ("--bind-address",), ("--connection-server-id",), ("--stop-never-slave-server-id",), ("--login-path",),
        ("--compression-algorithms",), ("--zstd-compression-level",),
    )),
    (("-t", "--to-last-log"), False, "give the logs, their directory or its .index file"),
    (("--raw",), False, "`binlogio copy` makes logs from logs"),
    (("--gtid-strict-mode",), False, "select by GTID or position"),
    (("--skip-annotate-row-events",), False, "the statements of rows are shown with -vv only"),
    (("--print-row-count",), False, "`binlogio stats` counts rows"),
    (("--print-row-event-positions",), False, "--format json has the position of each event"),
    (("--set-charset",), True, "--format sql sets the character set of each statement"),
    (("--server-id-bits",), True, "--server-id compares the whole number"),
    *((names, True, "binlogio has no option files") for names in (
        ("--defaults-file",), ("--defaults-extra-file",), ("--defaults-group-suffix",),
    )),
    (("-B", "--flashback"), False, "`binlogio undo` reverses row changes, as SQL or as a binary log"),
)  # fmt: skip
_POLL_SECONDS: Final = 0.2
_BASE64: Final = click.Choice(["auto", "never", "decode-rows", "always", "unspec"])
# Ignored options of the vendors' tools: (names, type of the value; None: a flag).
_IGNORED: Final[tuple[tuple[tuple[str, ...], Any], ...]] = (
    (("--no-defaults",), None),
    (("--base64-output",), _BASE64),  # text always has decoded rows, SQL always has BINLOG statements
    (("-c", "--verify-binlog-checksum"), None),  # checksums are always verified
    (("-F", "--force-if-open"), None),  # a log in use is not an error
    (("--skip-force-if-open",), None),
    (("--open-files-limit",), click.INT),
    (("--character-sets-dir",), click.STRING),
    (("--binlog-row-event-max-size",), click.INT),
)

_EXAMPLE: Final = """\b
Examples:
  binlogio dump binlog.000042
  binlogio dump -T shop.orders --start-datetime '2026-11-20 12:00:00' /var/lib/mysql/binlog.index
  binlogio dump --format json archive/binlog.0000*.zst | jq 'select(.type == "XID_EVENT")'
  binlogio dump --format sql --stop-position 8210 binlog.000042 | mysql
"""


def _refused(what_to_do: str) -> Any:
    def refuse(ctx: click.Context, param: click.Parameter, value: Any) -> None:
        if value:
            raise click.UsageError(f"{param.opts[-1]} is not supported: {what_to_do}", ctx)

    return refuse


def _habits(command: Any) -> Any:
    """Add the rejected and ignored options of the vendors' tools."""
    for names, takes_value, what_to_do in _ELSEWHERE:
        callback = _refused(what_to_do)
        command = click.option(*names, is_flag=not takes_value, hidden=True, expose_value=False, callback=callback)(
            command
        )
    for ignored, kind in _IGNORED:
        command = click.option(*ignored, type=kind, is_flag=kind is None, hidden=True, expose_value=False)(command)
    return command


@click.command("dump", cls=SectionedCommand, epilog=_EXAMPLE)
@files_argument
@format_option(
    "text", "json", "sql", help="Output format: text for people, one JSON object per line, or SQL for the mysql client."
)
@selection_options
@reading_options
@rewrite_option
@click.option(
    "--offset",
    type=WholeNumber(min=0),
    default=0,
    metavar="N",
    help="Skip the first N events of the logs. Format descriptions count too; that of the first log is always shown.",
)
@click.option(
    "--limit",
    type=WholeNumber(min=1),
    metavar="N",
    help="Stop after N selected event groups (transactions or statements).",
)
@click.option("--skip-gtids", is_flag=True, help="With --format sql: do not set the GTIDs of the log (SET gtid_next).")
@click.option(
    "-D", "--disable-log-bin", is_flag=True, help="With --format sql: do not log the statements (sql_log_bin=0)."
)
@click.option(
    "-i", "--idempotent", is_flag=True, help="With --format sql: replace existing rows, ignore missing ones (MySQL)."
)
@ignore_missing_logs_option
@click.option(
    "--require-row-format",
    is_flag=True,
    help="Refuse changes of rows that are in the log as SQL text; with --format sql MySQL refuses them too.",
)
@click.option(
    "-l",
    "--local-load",
    type=FilePath(exists=True, file_okay=False),
    metavar="DIR",
    help="With --format sql: write the files of LOAD DATA into this directory, for the client to load.",
)
@click.option(
    "-f",
    "--force-read",
    is_flag=True,
    help="Continue after damage at the next complete event group, and report what is left out. Exit code 1.",
)
@click.option(
    "--follow",
    "--stop-never",
    is_flag=True,
    help="Continue when the last log grows, and with the logs after it. Ends by Ctrl-C.",
)
@click.option("-v", "--verbose", count=True, help="-vv adds column types. Rows are shown without -v as well.")
@click.option("-s", "--short-form", is_flag=True, help="Show only statements and row changes.")
@click.option(
    "--color",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    show_default=True,
    help="Colours in text: by default on a terminal, unless NO_COLOR is set.",
)
@click.option(
    "--print-table-metadata",
    is_flag=True,
    help="With --format text: show the columns and the primary key of the table after each table map.",
)
@click.option("-H", "--hexdump", is_flag=True, help="Show the bytes of each event as well.")
@click.option(
    "--json-integers",
    type=click.Choice(["number", "string"]),
    default="number",
    show_default=True,
    help="With --format json: how values of BIGINT columns are written; many readers round numbers above 2^53.",
)
@output_option()
@force_option
@quiet_option
@_habits
def command(
    files: tuple[str, ...],
    form: str,
    selection: Selection,
    reading: Reading,
    output: str | None,
    **options: Any,
) -> int:
    """Print the events and row changes of binary logs.

    FILES are paths, globs, directories, .index files, URIs of object stores, or - for standard input. Files compressed
    with gzip, zstd, xz or bzip2 are decompressed. Logs of MySQL 5.0 to 9.7 and of MariaDB can be read. Checksums are
    verified.

    Text output is for people: control characters are escaped. SQL output is for the client mysql or mariadb: names and
    values are those of the log, byte for byte.
    """
    if form == "sql" and output in (None, STDOUT) and sys.stdout.isatty():
        raise click.UsageError(
            "--format sql needs a pipe or --output: bytes of the log could be control sequences of the terminal"
        )
    if output is not None and output.isdecimal():
        raise click.UsageError(
            f"-o is --output: --offset {output} skips events; for a file of this name give ./{output}"
        )
    settings = [name for name in ("skip_gtids", "disable_log_bin", "idempotent", "local_load") if options[name]]
    if settings and form != "sql":
        raise click.UsageError(f"--{settings[0].replace('_', '-')} is for --format sql")
    if form == "sql" and selection.chooses_rows:
        raise click.UsageError(
            "--operation and --where are for text and JSON: `replay` applies selected rows, `undo` reverses them"
        )
    if options["print_table_metadata"] and form != "text":
        raise click.UsageError("--print-table-metadata is for --format text; `schema` writes definitions as a file")
    if options["follow"] and (output not in (None, STDOUT) or options["force_read"]):
        raise click.UsageError("--follow is for standard output, and ends at damage")
    if form != "sql" and options["ignore_missing_logs"]:
        raise click.UsageError("--ignore-missing-logs is for --format sql: text and JSON go on without missing logs")
    if form != "json" and options["json_integers"] != "number":
        raise click.UsageError("--json-integers is for --format json")
    dumping = Dumping(form, selection, reading, options)
    reader = dumping.open(files)
    target = OutputFile.checked(output, (*reader.files, *files, *reading.other_inputs), force=options["force"])
    if form == "sql":
        from binlogio.archive.logged_gtids import check_gtids, logged_gtids  # noqa: PLC0415 - for this format only
        from binlogio.series.continuity import check_series  # noqa: PLC0415
        from binlogio.series.log_head import known_heads  # noqa: PLC0415

        ignores, keys = options["ignore_missing_logs"], reader.keyring
        heads = known_heads(reader.logs, keys)
        missing = check_series(reader.logs, keys, heads=heads, ignore_missing_logs=ignores)
        read = cache(lambda log: logged_gtids(log, keys))
        missing += check_gtids(reader.logs, heads, read, ignore_missing_logs=ignores)
        code = say_missing(missing)
    else:
        code = say_gaps(reader.logs, reader.keyring)
    if options["offset"]:
        reader = dumping.after(reader, options["offset"])
    is_shown = not (options["quiet"] or options["follow"] or (output in (None, STDOUT) and sys.stdout.isatty()))
    errors = "surrogateescape" if form == "sql" else "backslashreplace"
    has_colours = form == "text" and output in (None, STDOUT) and is_coloured(options["color"])
    with (
        open_output(target, errors, ColouredOutput if has_colours else Output) as stream,
        watched_logs(reader.files, is_shown=is_shown) as watch,
    ):
        is_whole = dumping.write(reader, stream, watch)
    if not dumping.found and (selection or options["offset"]):
        say(NOTHING_SELECTED)
    is_whole = dumping.say_columns(files) and is_whole
    return code if is_whole else DAMAGE


# Output in place of skipped damage, by format: SQL must not commit an incomplete transaction.
_LEFT_OUT: Final = {"text": "# Bytes {} to {} are left out.\n", "json": "", "sql": "ROLLBACK\n/*!*/;\n"}


class Dumping:
    """One run of `dump`. `found` is True after the first selected event group."""

    def __init__(self, form: str, selection: Selection, reading: Reading, options: dict[str, Any]) -> None:
        self.found = False
        self._shown = 0  # event groups, up to skipped damage
        self._form = form
        self._selection = selection
        self._reading = reading
        self._options = options
        self._wanted = selection.of_groups
        self._rows = row_choice(selection)
        self._schemas = renames(options["rewrite_db"])
        self._dump: EventDump | None = None

    def open(self, files: tuple[str, ...]) -> BinlogReader:
        """Open the selected logs, from the start offset in the first log to the stop offset in the last log."""
        selection, given = self._selection, None
        if any(position is not None and position.file for position in (selection.start, selection.stop)):
            given = find_logs(files)
            files = tuple(log.name for log in selected_logs(selection, given))
        if selection.start is not None and STDOUT not in files:
            keyring = None if self._reading.keyring is None else load_keyring(self._reading.keyring)
            logs = find_logs(files)
            definitions = earlier_definitions(self._reading.definitions, given or logs, logs, keyring)
            self._reading = replace(self._reading, definitions=definitions)
        reader = self._open(files, selection.start_offset)
        if not self._options["follow"]:  # a table may still come
            check_selected(selection, given or reader.logs, reader.logs, reader.keyring)
        return reader

    def _open(self, logs: tuple[str, ...], start: int | None) -> BinlogReader:
        return self._reading.open(
            logs,
            start_offset=start,
            stop_offset=self._selection.stop_offset,
            follow=self._wait if self._options["follow"] else None,
        )

    def after(self, reader: BinlogReader, count: int) -> BinlogReader:
        """Return a reader that begins after the first `count` events of another reader, which is closed.

        Raises:
            UsageError: a log is a stream, which can be read only once.
            BinlogError: the logs are damaged before that event.
            OSError: a log cannot be read.
        """
        if any(log.stream is not None for log in reader.logs):
            raise click.UsageError("--offset reads logs twice: give files instead of standard input")
        with reader:
            for event in reader:
                if event.header.inner is not None:
                    continue
                if not count:
                    number = reader.files.index(reader.position.file)
                    return self._open(reader.files[number:], event.header.offset)
                count -= 1
            return self._open(reader.files[-1:], reader.position.offset)

    def _wait(self) -> None:
        """Flush the output and wait for a log to grow."""
        sys.stdout.flush()
        time.sleep(_POLL_SECONDS)

    def say_columns(self, files: tuple[str, ...]) -> bool:
        """Report a condition with columns that no table has; return False if rows could not be compared."""
        return say_columns(self._rows, self._selection, files)

    def write(self, reader: BinlogReader, stream: Output, watch: WatchBytes) -> bool:
        """Write the selected events of a reader's logs; return False if damage was skipped.

        Raises:
            BinlogError: the logs are damaged, and damage is not to be skipped.
            OSError: a log cannot be read, or the output cannot be written.
        """
        is_whole = True
        while True:
            try:
                self._write_from(reader, stream, watch)
            except BinlogFormatError as exc:
                log, good = reader.log, reader.last_good_offset
                if not self._options["force_read"] or log is None or log.stream is not None:
                    raise
                from binlogio.columnar.splits.split_bounds import group_behind  # noqa: PLC0415 - only needed after damage

                say(error_text(exc))
                start, is_whole = group_behind(log, max(good, exc.offset or 0) + 1, reader.keyring), False
                end = "its end" if start is None else str(start)
                say(f"{log.name}: bytes {good} to {end} are left out")
                stream.write(_LEFT_OUT[self._form].format(good, end))
                if self._form == "sql" and self._dump is not None:
                    stream.write_all(self._dump.foot())  # the next output sets the session state again
                number = reader.files.index(log.name)
                logs = reader.files[number if start is not None else number + 1 :]
                if not logs:
                    return False
                reader = self._open(logs, start)
            else:
                return is_whole

    def _write_from(self, reader: BinlogReader, stream: Output, watch: WatchBytes) -> None:
        names = self._names_of(reader)
        dump = self._dump = self._dump_of(reader if names is None else cast("BinlogReader", names), stream.write)
        with reader:
            requires_rows = self._options["require_row_format"]
            limit = self._options["limit"]
            is_plain = self._rows is None and names is None and not requires_rows and limit is None
            writer = dump.writer(self._wanted) if is_plain else None
            filtered = FilteredDump(
                reader, self._wanted, dump, writer, self._rows, requires_rows=requires_rows, names=names
            )
            try:
                for chunk in filtered.choose(None if limit is None else limit - self._shown):
                    stream.write(chunk)
                    watch(*reader.position)
            finally:
                self._shown += filtered.groups
                self.found = self.found or filtered.found
                stream.flush()
                dump.discard()
                say_torn_tails(reader)
                _report_unnamed_tables(reader)
            stream.write_all(dump.foot())

    def _names_of(self, reader: BinlogReader) -> RenamedReader | None:
        if not self._schemas:
            return None
        from binlogio.replay import ReplayFilter  # noqa: PLC0415 - seldom needed
        from binlogio_cli.dump.renamed import RenamedReader  # noqa: PLC0415

        return RenamedReader(reader, ReplayFilter(rewrite_db=self._schemas))

    def _dump_of(self, reader: BinlogReader, write: Callable[[bytes], object]) -> EventDump:
        selection, options = self._selection, self._options
        if self._form == "json":
            from binlogio_cli.dump.json_output import JsonDump  # noqa: PLC0415 - formats have different imports

            is_text = options["json_integers"] == "string"
            return JsonDump(reader, output_zone(), integers_as_strings=is_text, write=write)
        if self._form == "text":
            from binlogio_cli.dump.text_output import TextDump, TextStyle  # noqa: PLC0415

            style = TextStyle(
                verbosity=options["verbose"],
                short=options["short_form"],
                hexdump=options["hexdump"],
                metadata=options["print_table_metadata"],
                zone=output_zone(),
            )
            return TextDump(reader, style, write)
        from binlogio_cli.dump.sql_output import SqlDump  # noqa: PLC0415

        if selection.stop_time is None and selection.start is None and selection.stop is None:
            reader.leave_out(_logs_without(reader, self._wanted))
        return SqlDump(
            reader,
            gtids=not options["skip_gtids"],
            is_logged=not options["disable_log_bin"],
            is_idempotent=options["idempotent"],
            load_files=options["local_load"],
            requires_rows=options["require_row_format"],
        )


def _logs_without(reader: binlogio.BinlogReader, selection: Selection) -> frozenset[int]:
    """Return the indexes of logs without a selected GTID, by their first events; SQL output can skip them."""
    wanted = [gtids for gtids in (selection.include_gtids, selection.up_to_gtids) if gtids is not None]
    if not wanted:
        return frozenset()
    from binlogio.columnar.splits.skipped_logs import logs_without  # noqa: PLC0415 - seldom needed

    wheres = (EventFilter(wanted_gtids=gtids) for gtids in wanted)
    return frozenset().union(*(logs_without(reader.logs, where, reader.keyring) for where in wheres))


def _report_unnamed_tables(reader: binlogio.BinlogReader) -> None:
    """Report tables with numbered columns although the log seems to have column names."""
    for table, reason in reader.unnamed_tables.items():
        say(f"{table}: the columns have numbers instead of names: {reason}; give their names with --table-definitions")
