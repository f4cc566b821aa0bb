"""JSON output of `dump`: one object per event and line; a rows event contains its rows.

Statements and identifiers are text; other bytes are "0x" and hexadecimal digits.

    event := {"file", "type", "pos", "end", "inner"?, "timestamp", "server_id", "flags", "log_pos", "checksum"?,
              field...}
    rows  := event with "schema", "table", "rows": [{"before"?: {column: value...}, "after"?: {...}}...]
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final

from binlogio.constants import ColumnType, OptionalMetadataType, QueryStatus
from binlogio.errors import BinlogError
from binlogio.events import RowsEvent
from binlogio.events.control import RowsQueryEvent
from binlogio.events.gtid import AnonymousGtidEvent, GtidEvent, GtidTaggedEvent
from binlogio.events.load import ExecuteLoadQueryEvent
from binlogio.events.mariadb import AnnotateRowsEvent, MariadbGtidEvent
from binlogio.events.query import QueryEvent, StatusVar
from binlogio.events.table_map import MetadataField, TableMapEvent
from binlogio.events.transaction_payload import TransactionPayloadEvent
from binlogio.values.absent import ABSENT
from binlogio.values.charsets import charset_of
from binlogio.values.text import json_value
from binlogio_cli.dump.event_writer import EventWriter, QueryTexts
from binlogio_cli.dump.row_texts import RowTexts
from binlogio_cli.dump.statement_text import client_collation, sql_reading
from binlogio_cli.dump.text_output import add_column
from binlogio_cli.dump.titles import iso_time, wire_name

if TYPE_CHECKING:
    from datetime import tzinfo

    from binlogio._kernel.row_decoder import ImageText
    from binlogio.format.groups import GroupChoice
    from binlogio.reader import BinlogReader
    from binlogio.rows.image import RowChange, RowImage
    from binlogio.rows.texts import TextForm

_STATEMENTS: Final = (QueryEvent, ExecuteLoadQueryEvent, RowsQueryEvent, AnnotateRowsEvent)
_SECOND: Final = 1_000_000
# Of fields that have the name of one that all events have: GTID flags are not event flags.
_OTHER_NAMES: Final = {"flags": "event_flags", "type": "value_type", "file": "event_file"}


class JsonDump:
    """Events as JSON lines."""

    style = "JSON"
    has_gtids = True

    def __init__(self, reader: BinlogReader, zone: tzinfo) -> None:
        self._reader = reader
        self._zone = zone
        self._rows = RowTexts(_form)

    session: object = None

    def writer(self, selection: GroupChoice) -> EventWriter | None:
        """Return the kernel's writer of frequent events."""
        return EventWriter.of(self._reader, selection, self)

    def time_text(self, seconds: int) -> bytes:
        """Return the time of a header."""
        return _dumps(iso_time(seconds * _SECOND, self._zone)).encode()

    def flags_text(self, flags: int) -> bytes:
        """Return no text: flags are numbers."""
        return b""

    def gtid_flags_text(self, flags: int) -> bytes:
        """Return no text: flags are numbers."""
        return b""

    def file_text(self) -> bytes:
        """Return the file."""
        return f"{_dumps({'file': self._reader.position.file})[1:-1]}, ".encode()

    def table_texts(self, table: TableMapEvent) -> tuple[bytes, bytes]:
        """Return the fields of a table map, and those of its rows events that are the same for all of them."""
        head = _dumps({"schema": table.schema, "table": table.table})
        return f", {_dumps(self._fields(table))[1:]}\n".encode(), f", {head[1:-1]}".encode()

    def rest_text(self, event: Any) -> bytes:
        """Return the fields of an event."""
        return f", {_dumps(self._fields(event))[1:]}\n".encode()

    def query_texts(self, event: QueryEvent) -> QueryTexts:
        """Return the fields of a statement after its error code, and those after its microseconds if it has them."""
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

    def images(self, event: RowsEvent) -> ImageText | None:
        """Return the kernel's encoder of the images of a rows event."""
        return self._rows.table(self._reader.plan(event))

    def foot(self) -> Iterator[str]:
        """Return no text: a file of JSON lines has no end."""
        return iter(())

    def event(self, event: Any) -> Iterator[str | bytes]:
        """Yield one line. It is complete or missing: values are decoded before it begins."""
        line = _dumps({**self._place(event), **self._fields(event)})
        if not isinstance(event, RowsEvent):
            yield f"{line}\n"
            return
        rows = self._row_texts(event)
        yield f'{line[:-1]}, "rows": ['
        yield from rows
        yield "]}\n"

    def _row_texts(self, event: Any) -> list[str | bytes]:
        found: list[str | bytes] = []
        for text, _, is_last in self._rows.parts(event, self._reader.plan(event)):
            found += (b", ", text) if found else (text,)
            if is_last:
                return found
        return [", ".join(_dumps(_row(number, change)) for number, change in enumerate(self._reader.rows(event)))]

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


def _row(number: int, change: RowChange) -> dict[str, Any]:
    images = (("before", change.before), ("after", change.after))
    return {name: _image(number, image) for name, image in images if image is not None}


def _image(number: int, image: RowImage) -> dict[str, Any]:
    values = {}
    for column, value in zip(image.plan.columns, image.values, strict=True):
        if value is not ABSENT:
            try:
                values[column.label] = json_value(value, column)
            except BinlogError as exc:
                add_column(exc, number, column)
                raise
    return values


def _dumps(value: Any) -> str:
    """Return JSON in ASCII, so that no text of a log acts on the terminal."""
    return json.dumps(value, separators=(", ", ": "))


def _form() -> TextForm:
    """Return the form of `_row` for the kernel."""
    from binlogio.rows.texts import WIDE, TextForm  # noqa: PLC0415 - there may be no kernel

    return TextForm(
        style=WIDE,
        label=lambda column: _dumps(column.label),
        literal=_dumps,
        value=lambda value, column: _dumps(json_value(value, column)),
        pieces=lambda plan: ('{"after": ', '{"before": ', '{"before": ', ', "after": ', "}", ", "),
    )


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
    **dict.fromkeys((GtidEvent, GtidTaggedEvent, AnonymousGtidEvent, MariadbGtidEvent), _gtid),
    TableMapEvent: _table_map,
    TransactionPayloadEvent: _payload,
}
