"""The kernel's writer of frequent events for `dump`, and what it learns from the events that Python has written."""

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
    from binlogio.group_choice import GroupChoice
    from binlogio.reader import BinlogReader

_QUERY_POST_HEADER: Final = 13
_MICROSECONDS: Final = (QueryStatus.MICROSECONDS, QueryStatus.MARIADB_HRNOW)


class QueryTexts(NamedTuple):
    """What `EventTexts.learn_query` takes."""

    title: bytes
    text: bytes
    rest: bytes
    reading: int
    settings: tuple[tuple[int, int, bytes], ...] = ()


class EventForm(Protocol):
    """An output format whose frequent events the kernel writes as well."""

    @property
    def style(self) -> str:
        """The name of an `OutputStyle`."""

    @property
    def has_gtids(self) -> bool:
        """Whether SQL sets the GTIDs of transactions."""

    def time_text(self, seconds: int) -> bytes:
        """Return the time of a header."""

    def flags_text(self, flags: int) -> bytes:
        """Return the flags of a rows event in its title."""

    def gtid_flags_text(self, flags: int) -> bytes:
        """Return the flags of MariaDB's GTID in its title."""

    def file_text(self) -> bytes:
        """Return the file in a JSON line."""

    def table_texts(self, table: TableMapEvent) -> tuple[bytes, bytes] | None:
        """Return what `EventTexts.learn_table` takes; None if the kernel is not to write the table."""

    def rest_text(self, event: Any) -> bytes:
        """Return the text of an event; in JSON and in text without its header."""

    def query_texts(self, event: QueryEvent) -> QueryTexts | None:
        """Return what `EventTexts.learn_query` takes; None if the kernel is not to write the statement."""

    def images(self, event: RowsEvent) -> ImageText | None:
        """Return the kernel's encoder of the images of a rows event."""


class EventWriter:
    """Gives the kernel what it needs to write events of one log after the other.

    `kernel` is for `BinlogReader.texts`. Call `learn` after each event that Python has written.
    """

    def __init__(self, reader: BinlogReader, selection: GroupChoice, form: EventForm) -> None:
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
        self._bodies: dict[int, bytes] = {}  # of the table maps at hand, by table id

    @classmethod
    def of(cls, reader: BinlogReader, selection: GroupChoice, form: EventForm) -> EventWriter | None:
        """Return the writer; None without the compiled kernel."""
        return cls(reader, selection, form) if is_compiled() else None

    def learn(self, event: Any) -> None:
        """Let the kernel write what is like this event, which is the last one of the reader."""
        frame = self._reader.frame
        if isinstance(event, QueryEvent):
            if frame is not None:
                self._learn_query(event, self._body_of(event, frame))
        elif frame is None:
            return
        elif isinstance(event, TableMapEvent):
            self._bodies[event.table_id] = self._body_of(event, frame)
            if self._form.style == "SQL":  # a statement may have no rows of the table
                self._learn_table(event, None)
            self._pause_in_statement()
        elif isinstance(event, ROWS_EVENTS):
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
        """Leave the rest of the statement to Python: in SQL of MySQL, its rows have all its table maps."""
        self.kernel.paused |= self._form.style == "SQL" and not self.kernel.is_mariadb

    @staticmethod
    def _body_of(event: Any, frame: EventFrame) -> bytes:
        """Return the body of an event; `frame` is that of the payload around it, if it is in one."""
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
        if len(microseconds) > 1:  # no server writes them twice
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
        """Let the kernel write table maps like this one, and rows after them like `rows`."""
        body = self._bodies.get(table.table_id)
        texts = None if body is None else self._form.table_texts(table)
        if body is not None and texts is not None:
            wanted = self._selection.wants_table(table.schema, table.table)
            images = self._form.images(rows) if wanted and rows is not None else None
            self.kernel.learn_table(body, *texts, images, wanted=wanted)
