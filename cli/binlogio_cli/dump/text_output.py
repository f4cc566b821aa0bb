"""Text output of `dump`: similar to mysqlbinlog, with decoded row changes.

Columns have their names if the log has them, otherwise @1, @2, ... The modules `titles` and `statement_text` format
titles and statements.

    event  := "# at" offset   "#"date time "server id" n "end_log_pos" n "CRC32" 0x...  TAB title   hexdump?   body
    body   := statement "/*!*/;"  |  row* |  "# " fact ...
    row    := "### INSERT INTO" table "### SET" column*  |  "### UPDATE" table "### WHERE" column* "### SET" column*
            | "### DELETE FROM" table "### WHERE" column*
    column := "###   " name "=" value  ("/*" type nullable "*/")?       -- the type with -vv
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import date, timedelta, timezone
from decimal import Decimal
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from binlogio.constants import ColumnType, HeaderFlag
from binlogio.errors import BinlogError, UnsupportedFeature
from binlogio.events import RowsEvent, codec_for
from binlogio.events.base import build_header
from binlogio.events.control import IncidentEvent, RowsQueryEvent, XaPrepareEvent, XidEvent
from binlogio.events.format_description import FormatDescriptionEvent, StartV3Event
from binlogio.events.gtid import AnonymousGtidEvent, GtidEvent, GtidTaggedEvent, PreviousGtidsEvent
from binlogio.events.load import ExecuteLoadQueryEvent
from binlogio.events.mariadb import AnnotateRowsEvent, MariadbGtidEvent
from binlogio.events.query import QueryEvent
from binlogio.events.statement_context import IntvarEvent, RandEvent, UserVarEvent
from binlogio.events.table_map import TableMapEvent
from binlogio.events.transaction_payload import TransactionPayloadEvent
from binlogio.schema.collations import BINARY
from binlogio.values.absent import ABSENT
from binlogio.values.geometry import SRID_SIZE, Geometry
from binlogio.values.json import JsonDiffs
from binlogio.values.text import value_text
from binlogio_cli.dump.event_writer import EventWriter, PlainSession, QueryTexts
from binlogio_cli.dump.row_texts import RowTexts
from binlogio_cli.dump.statement_text import (
    DELIMITER,
    PrintedContext,
    client_collation,
    intvar,
    rand,
    sql_reading,
    sql_text,
    timestamp,
    user_var,
)
from binlogio_cli.dump.titles import gtid_flags, rows_flags, short_time, title, utc_time, xid_of
from binlogio_cli.quantities import zone_text
from binlogio_cli.quoting import bytes_literal, hexdump, identifier, safe, string_literal, table_name

if TYPE_CHECKING:
    from datetime import tzinfo

    from binlogio._kernel.event_texts import Session
    from binlogio._kernel.row_decoder import ImageText
    from binlogio.reader import BinlogReader
    from binlogio.rows.image import RowChange, RowImage
    from binlogio.rows.plan import TablePlan
    from binlogio.rows.texts import TextForm
    from binlogio.schema.definition import ColumnDefinition
    from binlogio.selection.selection import Selection
    from binlogio.values.column import ColumnPlan

NOT_FOR_SERVERS: Final = (
    "This text is for people: row changes are comments. A server takes `binlogio dump --format sql`;\n"
)
"""The first line. It is not valid SQL: a server that gets the text by mistake fails instead of losing row changes."""

_NEW_FILE: Final = (FormatDescriptionEvent, StartV3Event)
_LITERAL: Final = (int, float, Decimal, bytes)
_PLAIN_NAME: Final = re.compile(r"@\d+")
_WITH_LENGTH: Final = (ColumnType.STRING, ColumnType.VARCHAR, ColumnType.VARCHAR_COMPRESSED, ColumnType.BIT)
_WITH_FRACTION: Final = (ColumnType.TIME2, ColumnType.DATETIME2, ColumnType.TIMESTAMP2)
_SQL_NAMES: Final = {
    ColumnType.TINY: "TINYINT",
    ColumnType.SHORT: "SHORTINT",
    ColumnType.INT24: "MEDIUMINT",
    ColumnType.LONG: "INT",
    ColumnType.LONGLONG: "LONGINT",
    ColumnType.NEWDECIMAL: "DECIMAL",
    ColumnType.VARCHAR: "VARSTRING",
    ColumnType.TIME2: "TIME",
    ColumnType.DATETIME2: "DATETIME",
    ColumnType.TIMESTAMP2: "TIMESTAMP",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TextStyle:
    """Options of the text output.

    `verbosity` 2 adds column types; `short` prints only statements and row changes; `metadata` adds the table
    definition to each table map.
    """

    verbosity: int = 0
    short: bool = False
    hexdump: bool = False
    metadata: bool = False
    zone: tzinfo = timezone.utc


class TextDump:
    """Formats events as text."""

    style: Final = "TEXT"

    def __init__(self, reader: BinlogReader, style: TextStyle, write: Callable[[bytes], object] | None = None) -> None:
        self._reader = reader
        self._options = style
        self._rows = RowTexts(typed_form if style.verbosity > 1 else plain_form, write)
        self.session: Session | PlainSession = PlainSession()
        self._context = PrintedContext(self.session)
        self._file = ""
        self._writer: EventWriter | None = None

    def end_statement(self) -> None:
        """Do nothing: rows are printed without their statement text."""

    def discard(self, statement: object = None) -> None:
        """Do nothing: no data is kept for a statement."""

    def writer(self, selection: Selection) -> EventWriter | None:
        """Return the kernel's event formatter; None if it does not support this style."""
        if not self._options.short and not self._options.hexdump:
            self._writer = EventWriter.of(self._reader, selection, self)
        if self._writer is not None:
            self.session = self._writer.kernel.session
            self._context = PrintedContext(self.session)
        return self._writer

    def time_text(self, seconds: int) -> bytes:
        """Return the timestamp of a header as text."""
        return short_time(seconds, self._options.zone).encode()

    def flags_text(self, flags: int) -> bytes:
        """Return the flags of a rows event for its title."""
        return rows_flags(flags).encode()

    def gtid_flags_text(self, flags: int) -> bytes:
        """Return the flags of a MariaDB GTID for its title."""
        return gtid_flags(flags).encode()

    def table_texts(self, table: TableMapEvent) -> tuple[bytes, bytes]:
        """Return the title of a table map, and an empty text for its rows events."""
        lines = (title(table), *(self._body(table) or ()))
        return "".join(f"{line}\n" for line in lines).encode(), b""

    def rest_text(self, event: Any) -> bytes:
        """Return the title and the body of an event."""
        lines = (title(event), *(self._body(event) or ()))
        return "".join(f"{line}\n" for line in lines).encode("utf-8", "backslashreplace")

    def query_texts(self, event: QueryEvent) -> QueryTexts:
        """Return the end of a statement's title, and its settings."""
        if self._writer is not None and self._context.forgets_numbers():
            self._writer.kernel.forget_queries()
        named = [] if event.header.flags & HeaderFlag.SUPPRESS_USE else self._context.use_setting(event.schema)
        settings = [*named, *self._context.variable_settings(event)]
        return QueryTexts(
            title=xid_of(event).encode(),
            text=b"",
            rest=b"",
            reading=sql_reading(client_collation(event)),
            settings=tuple(
                (place, number, f"{text}\n".encode("utf-8", "backslashreplace")) for place, number, text in settings
            ),
        )

    def images(self, table: TableMapEvent) -> ImageText | None:
        """Return the kernel's row formatter for the rows events of a table map."""
        return self._rows.table(self._reader.plan(table))

    def foot(self) -> Iterator[str]:
        """Yield the lines after the last event."""
        if not self._options.short:
            yield "# End of log\n"

    def event(self, event: Any) -> Iterator[str | bytes]:
        """Yield the lines of one event."""
        if isinstance(event, _NEW_FILE):
            self.session.set(type(self.session)())  # type: ignore[arg-type]
            self._context = PrintedContext(self.session)
        if not self._options.short and self._reader.rows_part.is_first:
            yield from self._head()
            yield from (f"{line}\n" for line in self._place(event))
        if isinstance(event, RowsEvent):
            yield from self._row_lines(event)
            return
        body = self._body(event)
        if body is not None:
            yield from (f"{line}\n" for line in body)

    def _head(self) -> Iterator[str]:
        """Yield the lines before the first event of the output and of each file."""
        if not self._file:
            yield NOT_FOR_SERVERS
            yield f"# Times are in {zone_text(self._options.zone)}.\n"
        file = self._reader.position.file
        if file != self._file and len(self._reader.files) > 1:
            yield f"# File {safe(file)}\n"
        self._file = file

    def _place(self, event: Any) -> Iterator[str]:
        header = event.header
        frame = self._reader.frame if header.inner is None else None
        inner = "" if header.inner is None else f", event {header.inner + 1} of the payload"
        checksum = "" if frame is None or frame.checksum is None else f" CRC32 0x{frame.checksum:08x}"
        yield f"# at {header.offset}{inner}"
        yield (
            f"#{short_time(header.timestamp, self._options.zone)} server id {header.server_id}"
            f"  end_log_pos {header.log_pos}{checksum} \t{title(event)}"
        )
        if self._options.hexdump:
            context = self._reader.context
            body = codec_for(header.type_code).build(event, context) if frame is None else frame.body
            yield from hexdump(build_header(header, context) + body, 0 if frame is None else header.offset)

    def _row_lines(self, event: RowsEvent) -> Iterator[str | bytes]:
        """Yield the rows; `row_lines` formats the first row that the kernel rejects and all later rows."""
        plan, done, is_whole = self._reader.plan(event), 0, False
        if (write := self._rows.large(event, plan)) is not None:
            write()
            return
        for text, count, is_last in self._rows.parts(event, plan):
            yield text
            done, is_whole = done + count, is_last
        if not is_whole:
            lines = row_lines(plan, self._reader.rows(event), types=self._options.verbosity > 1, first_row=done)
            yield from (f"{line}\n" for line in lines)

    def _body(self, event: Any) -> Iterator[str] | None:
        if isinstance(event, QueryEvent):
            return self._statement(event)
        if isinstance(event, ExecuteLoadQueryEvent):
            return self._load(event)
        if isinstance(event, TableMapEvent):
            return self._metadata(event) if self._options.metadata else None
        show = _SHORT_BODIES.get(type(event)) or (None if self._options.short else _BODIES.get(type(event)))
        return None if show is None else show(event)

    def _metadata(self, event: TableMapEvent) -> Iterator[str]:
        """Yield the definition of a table from DDL and from the metadata in the log."""
        try:
            table = self._reader.describe(event).definition
        except UnsupportedFeature as exc:
            yield f"# Columns are not known: {safe(exc.reason)}"
            return
        columns = ",\n".join(
            _column_text(column, table.collation_of(column, "mariadb" if self._reader.context.is_mariadb else "mysql"))
            for column in table.columns
        )
        yield from _comment(f"Columns({columns.lstrip()})")
        if table.primary_key:
            prefixes = table.primary_key_prefixes or (0,) * len(table.primary_key)
            parts = [
                f"{safe(name)}({size})" if size else safe(name)
                for name, size in zip(table.primary_key, prefixes, strict=True)
            ]
            yield f"# Primary Key({', '.join(parts)})"

    def _statement(self, event: QueryEvent) -> Iterator[str]:
        if not event.header.flags & HeaderFlag.SUPPRESS_USE:
            yield from self._context.use(event.schema)
        if not self._options.short:
            yield timestamp(event)
            yield from self._context.changes(event)
        yield sql_text(event.sql, client_collation(event))
        yield DELIMITER

    def _load(self, event: ExecuteLoadQueryEvent) -> Iterator[str]:
        yield from self._context.use(event.schema)
        yield sql_text(event.sql, client_collation(event))
        yield f"{DELIMITER} # file_id: {event.file_id}"


def _column_text(column: ColumnDefinition, collation: str) -> str:
    facts = (
        f"{identifier(column.name)} {safe(column.type)}",
        "" if column.nullable else " NOT NULL",
        "" if collation == BINARY else f" CHARSET {collation.partition('_')[0]} COLLATE {collation}",
        "" if column.visible else " INVISIBLE",
    )
    return " " * len("Columns(") + "".join(facts)


def _comment(text: str) -> Iterator[str]:
    return (f"# {line}" for line in text.split("\n"))


def _gtid(event: Any) -> Iterator[str]:
    original, immediate = event.originally_committed, event.immediate_commit_timestamp
    if original is not None:
        yield f"# original_commit_timestamp={original} ({utc_time(original)})"
    if immediate is not None:
        yield f"# immediate_commit_timestamp={immediate} ({utc_time(immediate)})"
    gtid = "ANONYMOUS" if event.gtid is None else str(event.gtid)
    yield f"SET @@SESSION.GTID_NEXT= '{gtid}'{DELIMITER}"


def _mariadb_gtid(event: MariadbGtidEvent) -> Iterator[str]:
    yield f"SET @@session.gtid_domain_id={event.domain_id}, @@session.gtid_seq_no={event.sequence_number}{DELIMITER}"
    if not event.standalone:
        yield f"START TRANSACTION\n{DELIMITER}"


def _incident(event: IncidentEvent) -> Iterator[str]:
    yield f"# {safe(event.message)}"
    yield "# The source lost changes here: what follows may not fit what came before."


def _payload(event: TransactionPayloadEvent) -> Iterator[str]:
    yield (
        f"# The events of the payload follow, opened: {event.uncompressed_size} bytes, and "
        f"{len(event.payload)} in the file"
    )


def _one(text: str) -> Iterator[str]:
    yield text


_Body = Callable[[Any], Iterator[str]]
_SHORT_BODIES: Final[dict[type, _Body]] = {
    IntvarEvent: lambda event: _one(intvar(event)),
    RandEvent: lambda event: _one(rand(event)),
    UserVarEvent: lambda event: _one(user_var(event)),
    XidEvent: lambda event: _one(f"COMMIT{DELIMITER}"),
    XaPrepareEvent: lambda event: _one(
        f"XA COMMIT {event.xid_text} ONE PHASE{DELIMITER}"
        if event.one_phase
        else f"XA PREPARE {event.xid_text}{DELIMITER}"
    ),
}
_BODIES: Final[dict[type, _Body]] = {
    PreviousGtidsEvent: lambda event: _comment(str(event.gtid_set) or "[empty]"),
    GtidEvent: _gtid,
    GtidTaggedEvent: _gtid,
    AnonymousGtidEvent: _gtid,
    MariadbGtidEvent: _mariadb_gtid,
    RowsQueryEvent: lambda event: _comment(sql_text(event.sql)),
    AnnotateRowsEvent: lambda event: _comment(sql_text(event.sql)),
    IncidentEvent: _incident,
    TransactionPayloadEvent: _payload,
}


def row_lines(plan: TablePlan, changes: Iterable[RowChange], *, types: bool, first_row: int = 0) -> Iterator[str]:
    """Yield the lines of the row changes of a table from row `first_row`; `types` adds the column types."""
    insert, update, delete, between, *_ = _pieces(plan)
    for number, change in islice(enumerate(changes), first_row, None):
        if change.before is None and change.after is not None:
            yield insert
            yield from _columns(number, change.after, types=types)
        elif change.before is not None and change.after is None:
            yield delete
            yield from _columns(number, change.before, types=types)
        elif change.before is not None and change.after is not None:
            yield update
            yield from _columns(number, change.before, types=types)
            yield between
            yield from _columns(number, change.after, types=types)


def _pieces(plan: TablePlan) -> tuple[str, ...]:
    """Return the lines before the columns of an insert, an update and a delete, and between the images of an update."""
    name = table_name(plan.schema, plan.table)
    return (
        f"### INSERT INTO {name}\n### SET",
        f"### UPDATE {name}\n### WHERE",
        f"### DELETE FROM {name}\n### WHERE",  # noqa: S608 - a comment for people
        "### SET",
    )


def _form(ends: Callable[[ColumnPlan], tuple[str, str]]) -> TextForm:
    """Return the format of `row_lines` for the kernel."""
    from binlogio.rows.texts import SQL, TextForm  # noqa: PLC0415 - there may be no kernel

    return TextForm(
        style=SQL,
        label=_before_value,
        literal=string_literal,
        value=sql_value,
        ends=ends,
        pieces=lambda plan: (*(f"{piece}\n" for piece in _pieces(plan)), "", ""),
    )


def plain_form() -> TextForm:
    """Return the format without column types."""
    return _form(lambda column: ("\n", "\n"))


def typed_form() -> TextForm:
    """Return the format with column types."""
    return _form(lambda column: (f" /* {_type_text(column, 0)} */\n", f" /* {_type_text(column, None)} */\n"))


def _before_value(column: ColumnPlan) -> str:
    return f"###   {_label(column)}="


def _columns(number: int, image: RowImage, *, types: bool) -> Iterator[str]:
    for column, value in zip(image.plan.columns, image.values, strict=True):
        if value is not ABSENT:
            comment = f" /* {_type_text(column, value)} */" if types else ""
            try:
                text = sql_value(value, column)
            except BinlogError as exc:
                add_column(exc, number, column)
                raise
            yield f"{_before_value(column)}{text}{comment}"


def add_column(exc: BinlogError, number: int, column: ColumnPlan) -> None:
    """Add the row number (from 0, in its event) and the column to an error about a value."""
    exc.field = ": ".join(filter(None, (f"row {number}, column {column.label}", exc.field)))


def _label(column: ColumnPlan) -> str:
    return column.label if _PLAIN_NAME.fullmatch(column.label) else identifier(column.label)


def sql_value(value: Any, column: ColumnPlan) -> str:
    """Return a value as an SQL literal without terminal control characters."""
    if value is None:
        return "NULL"
    if isinstance(value, JsonDiffs):
        return value.sql(_label(column), quoted=string_literal)
    if isinstance(value, Geometry):
        return bytes_literal(value.srid.to_bytes(SRID_SIZE, "little") + value.wkb, value_text(value, column))
    if isinstance(value, tuple):
        return f"{column.vector_function}('{value_text(value, column)}')"
    if isinstance(value, _LITERAL):
        return value_text(value, column) if value != b"" else "''"
    if isinstance(value, date | timedelta):
        return f"'{value_text(value, column)}'"
    return string_literal(value_text(value, column))


def _type_text(column: ColumnPlan, value: Any) -> str:
    name = _SQL_NAMES.get(column.type, column.type.name)
    arguments = ""
    if column.type == ColumnType.NEWDECIMAL:
        arguments = f"({column.precision},{column.scale})"
    elif column.type in _WITH_FRACTION:
        arguments = f"({column.fsp})"
    elif column.type in _WITH_LENGTH:
        arguments = f"({column.length})"
    unsigned = " UNSIGNED" if column.unsigned else ""
    return (
        f"@{column.position + 1} {name}{arguments}{unsigned} meta={column.metadata} nullable={int(column.nullable)}"
        f" is_null={int(value is None)}"
    )
