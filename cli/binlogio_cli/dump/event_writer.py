"""Connects the kernel's event formatter to `dump`, and fills its caches from events that Python has formatted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from binlogio.constants import HeaderFlag, QueryStatus
from binlogio.errors import BinlogError
from binlogio.events import ROWS_EVENTS, codec_for
from binlogio.events.base import parse_header
from binlogio.events.format_description import FormatDescriptionEvent
from binlogio.events.query import QueryEvent
from binlogio.events.table_map import TableMapEvent
from binlogio.implementation import is_compiled
from binlogio.storage.compression import ZstdFrames

if TYPE_CHECKING:
    from typing import Any

    from binlogio._kernel.event_texts import EventTexts
    from binlogio._kernel.row_decoder import ImageText
    from binlogio.events import RowsEvent
    from binlogio.format.framing import EventFrame
    from binlogio.reader import BinlogReader
    from binlogio.selection.selection import Selection

_QUERY_POST_HEADER: Final = 13
_MICROSECONDS: Final = (QueryStatus.MICROSECONDS, QueryStatus.MARIADB_HRNOW)


class QueryTexts(NamedTuple):
    """Arguments of `EventTexts.learn_query`."""

    title: bytes
    text: bytes
    rest: bytes
    reading: int
    settings: tuple[tuple[int, int, bytes], ...] = ()


class EventForm(Protocol):
    """An output format that the kernel supports for frequent events."""

    @property
    def style(self) -> str:
        """The name of an `OutputStyle`."""

    @property
    def has_gtids(self) -> bool:
        """Whether SQL output sets the GTIDs of transactions."""

    def time_text(self, seconds: int) -> bytes:
        """Return the timestamp of a header as text."""

    def flags_text(self, flags: int) -> bytes:
        """Return the flags of a rows event for its title."""

    def gtid_flags_text(self, flags: int) -> bytes:
        """Return the flags of a MariaDB GTID for its title."""

    def file_text(self) -> bytes:
        """Return the field with the file name in JSON lines."""

    def table_texts(self, table: TableMapEvent) -> tuple[bytes, bytes] | None:
        """Return `text` and `head` of `EventTexts.learn_table`; None: Python formats the table map."""

    def rest_text(self, event: Any) -> bytes:
        """Return the text of an event; in JSON and text output without its header."""

    def query_texts(self, event: QueryEvent) -> QueryTexts | None:
        """Return the arguments of `EventTexts.learn_query`; None: Python formats the statement."""

    def images(self, event: RowsEvent) -> ImageText | None:
        """Return the kernel's row formatter for a rows event."""


class EventWriter:
    """Owns the kernel's event formatter and updates its caches and settings.

    `kernel` is the argument of `BinlogReader.texts`. Call `learn` after each event that Python has formatted.
    """

    def __init__(self, reader: BinlogReader, selection: Selection, form: EventForm) -> None:
        from binlogio._kernel.event_texts import EventTexts, OutputStyle  # noqa: PLC0415 - there may be no kernel

        self.kernel: Final[EventTexts] = EventTexts(
            style=OutputStyle[form.style],
            has_gtids=form.has_gtids,
            time_text=form.time_text,
            flags_text=form.flags_text,
            gtid_flags_text=form.gtid_flags_text,
            by_python=self._rest_text,
            open_payload=ZstdFrames().decompress if reader.options.open_payloads else None,
            opened_size=reader.options.limits.opened_size,
            chooses_tables=selection.looks_inside,
        )
        self._reader = reader
        self._selection = selection
        self._form = form
        self._bodies: dict[int, bytes] = {}  # bodies of the table maps of the current statement, by table id

    @classmethod
    def of(cls, reader: BinlogReader, selection: Selection, form: EventForm) -> EventWriter | None:
        """Return the event writer; None without the compiled kernel."""
        return cls(reader, selection, form) if is_compiled() else None

    def learn(self, event: Any) -> None:
        """Add the reader's last event to the caches of the kernel, which then formats similar events."""
        frame = self._reader.frame
        if isinstance(event, QueryEvent):
            if frame is not None:
                self._learn_query(event, self._body_of(event, frame))
        elif frame is None:
            return
        elif isinstance(event, TableMapEvent):
            self._bodies[event.table_id] = self._body_of(event, frame)
            if self._form.style == "SQL":  # the statement may have no rows of this table
                self._learn_table(event, None)
            self._pause_in_statement()
        elif isinstance(event, ROWS_EVENTS):
            if self._form.style != "SQL":
                self._learn_table(self._reader.table_map(event), event)
            if event.ends_statement:
                self._bodies.clear()
            else:
                self._pause_in_statement()
        elif isinstance(event, FormatDescriptionEvent):
            self._bodies.clear()
            self.kernel.forget_tables()
            self.kernel.forget_queries()
            self.kernel.thread_id = -1
            self.kernel.is_mariadb = self._reader.context.is_mariadb
            self.kernel.prefix = self._form.file_text()

    def _pause_in_statement(self) -> None:
        """Pause the kernel for the rest of the statement: in SQL for MySQL, its rows need all its table maps."""
        self.kernel.paused |= self._form.style == "SQL" and not self.kernel.is_mariadb

    @staticmethod
    def _body_of(event: Any, frame: EventFrame) -> bytes:
        """Return the body of an event; for an event in a payload, `frame` is the frame of the payload."""
        if event.header.inner is None:
            return frame.body
        return codec_for(event.header.type_code).build(event, frame.context)

    def _rest_text(self, head: bytes, body: bytes) -> bytes | None:
        context = self._reader.context
        header = parse_header(head, 0, context)
        try:
            return self._form.rest_text(codec_for(header.type_code).parse(header, body, context))
        except BinlogError:
            return None

    def _learn_query(self, event: QueryEvent, body: bytes) -> None:
        microseconds = [variable.value for variable in event.status_vars if variable.code in _MICROSECONDS]
        if len(microseconds) > 1:  # no server writes two
            return
        texts = self._form.query_texts(event)
        if texts is not None:
            end = _QUERY_POST_HEADER + int.from_bytes(body[11:13], "little") + body[8]
            self.kernel.learn_query(
                body[11:end],
                bool(event.header.flags & HeaderFlag.SUPPRESS_USE),
                *texts[:3],
                reading=texts.reading,
                settings=texts.settings,
                microseconds=microseconds[0] if microseconds else None,
            )

    def _learn_table(self, table: TableMapEvent, rows: RowsEvent | None) -> None:
        """Add a table map and the formatter of its `rows` to the caches of the kernel."""
        body = self._bodies.get(table.table_id)
        texts = None if body is None else self._form.table_texts(table)
        if body is not None and texts is not None:
            wanted = self._selection.names.wants(table.schema, table.table)
            images = self._form.images(rows) if wanted and rows is not None else None
            self.kernel.learn_table(body, *texts, images, wanted=wanted)
