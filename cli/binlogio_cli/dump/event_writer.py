"""Connects the kernel's event formatter to `dump`: answers what it asks about tables, statements and rare events."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from binlogio.constants import EventType, QueryStatus
from binlogio.errors import BinlogError
from binlogio.events import ROWS_EVENTS, codec_for
from binlogio.events.base import build_header, parse_header
from binlogio.events.format_description import FormatDescriptionEvent
from binlogio.events.query import QueryEvent
from binlogio.events.table_map import TableMapEvent, parse_table_map
from binlogio.implementation import is_compiled
from binlogio.storage.compression import ZstdFrames
from binlogio_cli.dump.statement_text import SETTINGS

if TYPE_CHECKING:
    from typing import Any

    from binlogio._kernel.event_texts import EventTexts
    from binlogio._kernel.row_decoder import ImageText
    from binlogio.reader import BinlogReader
    from binlogio.selection.selection import Selection
    from binlogio_cli.dump.json_output import JsonDump
    from binlogio_cli.dump.sql_output import SqlDump
    from binlogio_cli.dump.text_output import TextDump

_MICROSECONDS: Final = (QueryStatus.MICROSECONDS, QueryStatus.MARIADB_HRNOW)


class QueryTexts(NamedTuple):
    """Arguments of the kernel's `QueryText`."""

    title: bytes
    text: bytes
    rest: bytes
    reading: int
    settings: tuple[tuple[int, int, bytes], ...] = ()


@dataclass(slots=True)
class PlainSession:
    """The session state of output without the kernel: the same as its `Session`."""

    thread_id: int = -1
    wrote_gtid: bool = False
    rows_gtid: bytes = b""
    rows_thread: int = -1
    rows_xid: int | None = None
    rows_statement: bytes | None = None
    values: dict[int, int] = field(default_factory=dict)

    def set(self, other: PlainSession) -> None:
        """Take the state of another session."""
        for name in fields(self):
            setattr(self, name.name, getattr(other, name.name))
        self.values = {**other.values}

    def copy(self) -> PlainSession:
        """Return a copy."""
        return replace(self, values={**self.values})

    def __getitem__(self, place: int) -> int:
        return self.values.get(place, 0)

    def __setitem__(self, place: int, value: int) -> None:
        self.values[place] = value


class EventWriter:
    """Owns the kernel's event formatter, answers its questions, and updates its settings.

    `kernel` is the argument of `BinlogReader.texts`. Call `follow` after each event that Python has formatted.
    """

    def __init__(self, reader: BinlogReader, selection: Selection, form: TextDump | JsonDump | SqlDump) -> None:
        from binlogio._kernel.event_texts import EventTexts, OutputStyle  # noqa: PLC0415 - there may be no kernel

        self.kernel: Final[EventTexts] = EventTexts(
            style=OutputStyle[form.style],
            has_gtids=getattr(form, "has_gtids", True),
            form=form,
            by_python=self._rest_text,
            find_table=self._table,
            find_query=self._query,
            open_payload=ZstdFrames().decompress if reader.options.open_payloads else None,
            opened_size=reader.options.limits.opened_size,
            chooses_tables=selection.looks_inside,
        )
        self._reader = reader
        self._selection = selection
        self._form = form
        self._is_unknown = False  # whether the statement has a table map that the kernel does not know

    @classmethod
    def of(cls, reader: BinlogReader, selection: Selection, form: TextDump | JsonDump | SqlDump) -> EventWriter | None:
        """Return the event writer; None without the compiled kernel."""
        return cls(reader, selection, form) if is_compiled() else None

    def follow(self, event: Any) -> None:
        """Update the kernel's formatter after the reader's last event.

        The kernel continues the statement of table maps that it knows, and pauses until the end of other statements.
        """
        kernel, frame = self.kernel, self._reader.frame
        if isinstance(event, TableMapEvent):
            if not self._is_unknown and frame is not None and event.header.inner is None:
                kernel.open_table(build_header(event.header, frame.context), frame.body)
            self._is_unknown = not kernel.in_statement
        elif not isinstance(event, ROWS_EVENTS) or (event.ends_statement and self._reader.rows_part.is_last):
            kernel.close_statement()
            self._is_unknown = False
        kernel.paused |= self._is_unknown
        if isinstance(event, FormatDescriptionEvent):
            self.kernel.forget_tables()
            self.kernel.forget_queries()
            self.kernel.session.thread_id = -1
            self.kernel.is_mariadb = self._reader.context.is_mariadb

    def _rest_text(self, head: bytes, body: bytes) -> bytes | None:
        context = self._reader.context
        header = parse_header(head, 0, context)
        try:
            return self._form.rest_text(codec_for(header.type_code).parse(header, body, context))
        except BinlogError:
            return None

    def _query(self, head: bytes, body: bytes, microseconds: int | None) -> QueryTexts | None:
        """Return the texts around a statement with these status variables; `body` ends before its SQL text."""
        context = self._reader.context
        try:
            event: QueryEvent = codec_for(EventType.QUERY_EVENT).parse(parse_header(head, 0, context), body, context)
        except BinlogError:
            return None
        found = [variable.value for variable in event.status_vars if variable.code in _MICROSECONDS]
        if found != ([] if microseconds is None else [microseconds]):  # no server writes two
            return None
        texts = self._form.query_texts(event)
        return texts if texts is None or len(texts.settings) <= SETTINGS else None

    def _table(self, head: bytes, body: bytes) -> tuple[bytes, bytes, ImageText | None, bool] | None:
        """Return the texts of a table map, the formatter of its rows, and whether the table is selected."""
        context = self._reader.context
        header = parse_header(head, 0, context)
        try:
            table = parse_table_map(header, body, context)
            texts = self._form.table_texts(table)
            if texts is None:
                return None
            wanted = self._selection.names.wants(table.schema, table.table)
            return *texts, self._form.images(table) if wanted else None, wanted
        except BinlogError:  # Python reports it when it formats the rows
            return None
