"""JSON output of `dump`: one object per event and line; a rows event contains its rows.

Statements and identifiers are strings; other bytes are "0x" and hexadecimal digits.

    event := {"file", "type", "pos", "end", "inner"?, "timestamp", "server_id", "flags", "log_pos", "checksum"?,
              field...}
    rows  := event with "schema", "table", "gtid", "commit_timestamp", "thread_id", "xid", "statement",
             "rows": [{"before"?: {column: value...}, "after"?: {...}}...]

`commit_timestamp` is in microseconds since 1970. `xid` is null for a stream, which cannot be read ahead to the end of
the transaction. `statement` is the SQL text of the rows, if the server logs it; only the first written rows event of a
statement has it, in the others it is null.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields, is_dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final

from binlogio.constants import ColumnType, OptionalMetadataType, QueryStatus
from binlogio.errors import BinlogError
from binlogio.events import RowsEvent
from binlogio.events.control import RowsQueryEvent
from binlogio.events.format_description import FormatDescriptionEvent
from binlogio.events.gtid import AnonymousGtidEvent, GtidEvent, GtidTaggedEvent
from binlogio.events.load import ExecuteLoadQueryEvent
from binlogio.events.mariadb import AnnotateRowsEvent, MariadbGtidEvent
from binlogio.events.query import QueryEvent, StatusVar
from binlogio.events.table_map import MetadataField, TableMapEvent
from binlogio.events.transaction_payload import TransactionPayloadEvent
from binlogio.format.groups import starts_transaction
from binlogio.values.absent import ABSENT
from binlogio.values.charsets import charset_of
from binlogio.values.text import json_value
from binlogio_cli.dump.event_writer import EventWriter, PlainSession, QueryTexts
from binlogio_cli.dump.row_texts import RowTexts
from binlogio_cli.dump.statement_text import client_collation, sql_reading
from binlogio_cli.dump.text_output import add_column
from binlogio_cli.dump.titles import iso_time, wire_name
from binlogio_cli.dump.xids_ahead import XidsAhead

if TYPE_CHECKING:
    from datetime import tzinfo

    from binlogio._kernel.event_texts import Session
    from binlogio._kernel.row_decoder import ImageText
    from binlogio.reader import BinlogReader
    from binlogio.rows.image import RowChange, RowImage
    from binlogio.rows.texts import TextForm
    from binlogio.selection.selection import Selection
    from binlogio.values.column import ColumnPlan

_STATEMENTS: Final = (QueryEvent, ExecuteLoadQueryEvent, RowsQueryEvent, AnnotateRowsEvent)
_GTIDS: Final = (GtidEvent, GtidTaggedEvent, AnonymousGtidEvent, MariadbGtidEvent)
_SECOND: Final = 1_000_000
# Other names for event fields that have the name of a header field: GTID flags are not header flags.
_OTHER_NAMES: Final = {"flags": "event_flags", "type": "value_type", "file": "event_file"}


class JsonDump:
    """Formats events as JSON lines."""

    style: Final = "JSON"

    def __init__(
        self,
        reader: BinlogReader,
        zone: tzinfo,
        *,
        integers_as_strings: bool = False,
        write: Callable[[bytes], object] | None = None,
    ) -> None:
        self._reader = reader
        self._zone = zone
        self._value = _quoted_value if integers_as_strings else json_value
        self._rows = RowTexts(self._form, write)
        self.session: Session | PlainSession = PlainSession(rows_gtid=_gtid_fields())
        self._writer: EventWriter | None = None
        self._xids = XidsAhead(reader)

    def discard(self, statement: object = None) -> None:
        """Do nothing: no data is kept for a statement."""

    def writer(self, selection: Selection) -> EventWriter | None:
        """Return the kernel's event formatter; None without the compiled kernel."""
        self._writer = EventWriter.of(self._reader, selection, self)
        if self._writer is not None:
            self.session = self._writer.kernel.session
            self.session.rows_gtid = _gtid_fields()
        return self._writer

    def time_text(self, seconds: int) -> bytes:
        """Return the timestamp of a header as JSON."""
        return _dumps(iso_time(seconds * _SECOND, self._zone)).encode()

    def table_texts(self, table: TableMapEvent) -> tuple[bytes, bytes]:
        """Return the fields of a table map, and the constant fields of its rows events."""
        head = _dumps({"schema": table.schema, "table": table.table})
        return f", {_dumps(self._fields(table))[1:]}\n".encode(), f", {head[1:-1]}".encode()

    def rest_text(self, event: Any) -> bytes:
        """Return the fields of an event."""
        self._note_origin(event)
        return f", {_dumps(self._fields(event))[1:]}\n".encode()

    def query_texts(self, event: QueryEvent) -> QueryTexts:
        """Return the fields of a statement after its error code, split at the microseconds if it has them."""
        fields = _dumps({"status_vars": _json(event.status_vars), "schema": event.schema})
        text = f', {fields[1:-1]}, "sql": '
        code = (
            QueryStatus.MICROSECONDS
            if event.status(QueryStatus.MICROSECONDS) is not None
            else QueryStatus.MARIADB_HRNOW
        )
        before, found, after = text.partition(f'"{code.name}", "value": ')
        return QueryTexts(
            title=f"{before}{found}".encode(),
            text=after.lstrip("0123456789").encode(),
            rest=b"",
            reading=sql_reading(client_collation(event)),
        )

    def images(self, table: TableMapEvent) -> ImageText | None:
        """Return the kernel's row formatter for the rows events of a table map."""
        return self._rows.table(self._reader.plan(table))

    def foot(self) -> Iterator[str]:
        """Return no text: JSON lines have no footer."""
        return iter(())

    def event(self, event: Any) -> Iterator[str | bytes]:
        """Yield the line of an event; all values are decoded first, so an error gives no partial line."""
        part = self._reader.rows_part
        if not part.is_first:
            yield ", "
            yield from self._row_texts(event)
            yield "]}\n" if part.is_last else ""
            return
        self._note_origin(event)
        line = _dumps({**self._place(event), **self._fields(event)})
        if not isinstance(event, RowsEvent):
            yield f"{line}\n"
            return
        rows = self._row_texts(event)
        found = self.session
        statement, found.rows_statement = found.rows_statement, None
        thread_id = None if found.rows_thread < 0 else found.rows_thread
        yield line[:-1]
        yield found.rows_gtid
        yield f', {_dumps({"thread_id": thread_id, "xid": self._xids.xid()})[1:-1]}, "statement": '
        yield b"null" if statement is None else statement
        yield ', "rows": ['
        yield from rows
        yield "]}\n" if part.is_last else ""

    def end_statement(self) -> None:
        """Discard the statement text of rows."""
        self.session.rows_statement = None

    def _note_origin(self, event: Any) -> None:
        """Record the origin of the rows after an event: GTID, thread id, statement."""
        origin = self.session
        if isinstance(event, _GTIDS):
            gtid = None if event.gtid is None else str(event.gtid)
            origin.rows_gtid = _gtid_fields(gtid, getattr(event, "immediate_commit_timestamp", None))
            thread_id = getattr(event, "thread_id", None)
            origin.rows_thread, origin.rows_statement = -1 if thread_id is None else thread_id, None
            origin.rows_xid = self._xids.xid() if isinstance(event, MariadbGtidEvent) else None
        elif isinstance(event, QueryEvent):
            if starts_transaction(event.sql):
                origin.rows_thread, origin.rows_statement = event.thread_id, None
                origin.rows_xid = self._xids.xid()
        elif isinstance(event, (RowsQueryEvent, AnnotateRowsEvent)):
            origin.rows_statement = _dumps(_sql(event)["sql"]).encode()
        elif isinstance(event, FormatDescriptionEvent):
            origin.rows_gtid, origin.rows_thread = _gtid_fields(), -1
            if self._writer is not None:
                self._writer.kernel.finds_xids = self._xids.can_read_ahead
                self._writer.kernel.prefix = f"{_dumps({'file': self._reader.position.file})[1:-1]}, ".encode()

    def _row_texts(self, event: Any) -> Iterable[str | bytes]:
        if (write := self._rows.large(event, self._reader.plan(event))) is not None:
            return _written(write)
        found: list[str | bytes] = []
        for text, _, is_last in self._rows.parts(event, self._reader.plan(event)):
            found += (b", ", text) if found else (text,)
            if is_last:
                return found
        return [", ".join(_dumps(self._row(number, change)) for number, change in enumerate(self._reader.rows(event)))]

    def _row(self, number: int, change: RowChange) -> dict[str, Any]:
        images = (("before", change.before), ("after", change.after))
        return {name: self._image(number, image) for name, image in images if image is not None}

    def _image(self, number: int, image: RowImage) -> dict[str, Any]:
        values = {}
        for column, value in zip(image.plan.columns, image.values, strict=True):
            if value is not ABSENT:
                try:
                    values[column.label] = self._value(value, column)
                except BinlogError as exc:
                    add_column(exc, number, column)
                    raise
        return values

    def _form(self) -> TextForm:
        """Return the format of `_row` for the kernel."""
        from binlogio.rows.texts import WIDE, TextForm  # noqa: PLC0415 - there may be no kernel

        return TextForm(
            style=WIDE,
            label=lambda column: _dumps(column.label),
            literal=_dumps,
            value=lambda value, column: _dumps(self._value(value, column)),
            by_value=_is_quoted if self._value is _quoted_value else None,
            pieces=lambda plan: ('{"after": ', '{"before": ', '{"before": ', ', "after": ', "}", ", "),
        )

    def _place(self, event: Any) -> dict[str, Any]:
        header, position, frame = event.header, self._reader.position, self._reader.frame
        values: dict[str, Any] = {"file": position.file, "type": wire_name(header.type_code), "pos": header.offset}
        if header.inner is not None:
            values |= {"inner": header.inner}
        else:
            values |= {"end": position.offset}
        values |= {
            "timestamp": iso_time(header.timestamp * _SECOND, self._zone),
            "server_id": header.server_id,
            "flags": header.flags,
            "log_pos": header.log_pos,
        }
        if header.inner is None and frame is not None and frame.checksum is not None:
            values |= {"checksum": f"0x{frame.checksum:08x}"}
        return values

    def _fields(self, event: Any) -> dict[str, Any]:
        if isinstance(event, RowsEvent):
            table = self._reader.table_map(event)
            return {
                "table_id": event.table_id,
                "event_flags": event.flags,
                "schema": table.schema,
                "table": table.table,
            }
        values = {
            _OTHER_NAMES.get(field.name, field.name): _json(getattr(event, field.name))
            for field in fields(event)
            if field.name != "header"
        }
        change = _CHANGES.get(type(event))
        return values if change is None else {**values, **change(event)}


def _gtid_fields(gtid: str | None = None, commit_timestamp: int | None = None) -> bytes:
    """Return the fields of the GTID in rows."""
    return f", {_dumps({'gtid': gtid, 'commit_timestamp': commit_timestamp})[1:-1]}".encode()


def _written(write: Callable[[], object]) -> Iterator[bytes]:
    """Call a function when the items before this one have been written."""
    write()
    yield b""


def _is_quoted(column: ColumnPlan) -> bool:
    return column.type == ColumnType.LONGLONG


def _quoted_value(value: Any, column: ColumnPlan) -> Any:
    """Return a value as JSON, with 64-bit integers as strings."""
    return json_value(value, column) if value is None or not _is_quoted(column) else str(value)


def _dumps(value: Any) -> str:
    """Return JSON in ASCII, so that it has no terminal control characters."""
    return json.dumps(value, separators=(", ", ": "))


def _json(value: Any) -> Any:
    """Return a field of an event as JSON."""
    if isinstance(value, bytes):
        return f"0x{value.hex()}"
    if isinstance(value, StatusVar):
        return {"variable": _name(QueryStatus, value.code), "value": _json(value.value)}
    if isinstance(value, MetadataField):
        return {"field": _name(OptionalMetadataType, value.kind), "value": _json(value.value)}
    if is_dataclass(value) and type(value).__str__ is object.__str__:
        return {field.name: _json(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple):
        return [_json(item) for item in value]
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value).replace("\n", "")


def _name(kind: type[IntEnum], number: int) -> str | int:
    try:
        return kind(number).name
    except ValueError:
        return number


def _sql(event: Any) -> dict[str, Any]:
    charset = charset_of(client_collation(event)) if isinstance(event, (QueryEvent, ExecuteLoadQueryEvent)) else None
    try:
        text = event.sql.decode("utf-8") if charset is None else charset.decode(event.sql)
    except UnicodeDecodeError:
        text = event.sql.decode("utf-8", "backslashreplace")
    return {"sql": text}


def _table_map(event: TableMapEvent) -> dict[str, Any]:
    return {"column_types": [_name(ColumnType, code) for code in event.column_types]}


def _gtid(event: Any) -> dict[str, Any]:
    return {"gtid": None if event.gtid is None else str(event.gtid)}


def _payload(event: TransactionPayloadEvent) -> dict[str, Any]:
    sizes = {"compression_type": event.compression_type, "uncompressed_size": event.uncompressed_size}
    return {**sizes, "payload": f"{len(event.payload)} bytes, opened below"}


_CHANGES: Final[dict[type, Callable[[Any], dict[str, Any]]]] = {
    **dict.fromkeys(_STATEMENTS, _sql),
    **dict.fromkeys(_GTIDS, _gtid),
    TableMapEvent: _table_map,
    TransactionPayloadEvent: _payload,
}
