"""Builds the record of an event that the kernel does not handle. Inner events of a payload follow the payload event.

Defines the columns of the record, and converts the fields of any event to JSON. Events of unknown types have a `type`
such as `type 100`.

`body` is a JSON object of the event fields that have no column of their own. Bytes are hexadecimal; of long byte
strings, such as row images, only the size is included: {"size": 8192}. Status variables and optional metadata are
objects with the server's names.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import pyarrow as pa

from binlogio.constants import OptionalMetadataType, QueryStatus
from binlogio.errors import MissingTableMap
from binlogio.events.base import event_name
from binlogio.events.control import RowsQueryEvent, XidEvent
from binlogio.events.load import ExecuteLoadQueryEvent
from binlogio.events.mariadb import AnnotateRowsEvent
from binlogio.events.query import QueryEvent, StatusVar
from binlogio.events.rows import RowsEvent
from binlogio.events.table_map import MetadataField
from binlogio.gtid import Gtid, GtidSet, MariadbGtid, Tsid, Uuid
from binlogio.values.charsets import charset_of

if TYPE_CHECKING:
    from binlogio.events import BinlogEvent
    from binlogio.events.base import EventHeader
    from binlogio.format.groups import GroupFacts
    from binlogio.reader import BinlogReader
    from binlogio.selection.event_filter import EventFilter

EVENT_SCHEMA: Final = pa.schema(
    [
        pa.field("file", pa.string()),
        pa.field("pos", pa.int64()),  # offset of the event; for an inner event, of its payload event
        pa.field("inner", pa.int32()),  # index in the payload, from 0; null for other events
        pa.field("end_pos", pa.int64()),  # offset of the next event
        pa.field("log_pos", pa.int64()),  # log_pos in the header: 32 bits, and 0 in some logs
        pa.field("timestamp", pa.timestamp("us", "UTC")),
        pa.field("server_id", pa.int64()),
        pa.field("type", pa.string()),
        pa.field("type_code", pa.int32()),
        pa.field("flags", pa.int32()),
        pa.field("size", pa.int64()),  # bytes, including header and checksum
        pa.field("gtid", pa.string()),
        pa.field("last_committed", pa.int64()),
        pa.field("sequence_number", pa.int64()),
        pa.field("xid", pa.int64()),
        pa.field("schema", pa.string()),
        pa.field("table", pa.string()),
        pa.field("sql", pa.string()),
        pa.field("body", pa.string()),
    ]
)

WantsTable: TypeAlias = Callable[[str | None, str | None], bool]
EventRecord: TypeAlias = tuple[str | int | None, ...]
"""The values of a record, in the order of `EVENT_SCHEMA`."""

LONGEST_BYTES: Final = 64
"""Byte strings up to this size, in bytes, are included in `body`."""

_US_PER_S: Final = 1_000_000
_OWN_COLUMNS: Final = {"header", "schema", "table", "sql", "xid"}
_QUERIES: Final = (QueryEvent, ExecuteLoadQueryEvent)
_STATEMENTS: Final = (RowsQueryEvent, AnnotateRowsEvent)
_HAVE_TEXT: Final = (Uuid, Tsid, Gtid, GtidSet, MariadbGtid)


def event_record(
    reader: BinlogReader, event: BinlogEvent, group: GroupFacts, tables: WantsTable | None, where: EventFilter
) -> EventRecord | None:
    """Return the record of the last event of a reader; None if it is not selected."""
    schema, table = _names(reader, event)
    header = event.header
    if tables is not None and not tables(schema, table):
        return None
    if where and not _is_wanted(header, where, group.gtid, schema, table):
        return None
    return (
        reader.position.file,
        header.offset,
        header.inner,
        reader.position.offset,
        header.log_pos,
        header.timestamp * _US_PER_S,
        header.server_id,
        event_name(header.type_code),
        header.type_code,
        header.flags,
        header.event_size,
        *group,
        transaction_number(event),
        schema,
        table,
        statement_text(event),
        body_text(event),
    )


def _is_wanted(
    header: EventHeader, where: EventFilter, gtid: str | None, schema: str | None, table: str | None
) -> bool:
    return (
        header.offset in where.pos
        and header.timestamp in where.timestamp
        and (where.server_ids is None or header.server_id in where.server_ids)
        and (where.schemas is None or schema in where.schemas)
        and (where.tables is None or table in where.tables)
        and where.wants_group(gtid)
    )


def _names(reader: BinlogReader, event: Any) -> tuple[str | None, str | None]:
    if isinstance(event, RowsEvent):
        try:
            table_map = reader.table_map(event)
        except MissingTableMap:  # a rows event without rows, which only ends a statement
            return None, None
        return table_map.schema, table_map.table
    return getattr(event, "schema", None) or None, getattr(event, "table", None) or None


def transaction_number(event: object) -> int | None:
    """Return the XID of a transaction as a signed number; DDL statements have it in a status variable."""
    if isinstance(event, XidEvent):
        return _signed(event.xid)
    if isinstance(event, QueryEvent):
        xid = event.status(QueryStatus.DDL_LOGGED_WITH_XID)
        return None if xid is None else _signed(xid)
    return None


def _signed(number: int) -> int:
    """Return an unsigned 64-bit number as a signed one, as for Spark's bigint."""
    return number - (1 << 64) if number >> 63 else number


def statement_text(event: object) -> str | None:
    """Return the statement of an event, decoded in the client's character set; None if it has no statement."""
    if isinstance(event, _STATEMENTS):
        return _text(event.sql, None)
    if not isinstance(event, _QUERIES):
        return None
    charsets = [variable.value for variable in event.status_vars if variable.code == QueryStatus.CHARSET]
    return _text(event.sql, charsets[0].client if charsets else None)


def _text(sql: bytes, collation_id: int | None) -> str:
    charset = charset_of(collation_id)
    try:
        return sql.decode() if charset is None else charset.decode(sql)
    except UnicodeDecodeError:
        return sql.decode("utf-8", "backslashreplace")


def body_text(event: Any) -> str:
    """Return the fields of an event that have no column of their own, as JSON."""
    return json_text(
        {field.name: getattr(event, field.name) for field in fields(event) if field.name not in _OWN_COLUMNS}
    )


def json_text(value: object) -> str:
    """Return the value of an event field as JSON."""
    return json.dumps(_plain(value), ensure_ascii=False, separators=(",", ":"))


def _plain(value: Any) -> Any:
    """Return the value of an event field in JSON types."""
    if value is None or isinstance(value, (bool, float)):
        return value
    if isinstance(value, int):
        return int(value)
    for kind, convert in _CONVERSIONS:
        if isinstance(value, kind):
            return convert(value)
    return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}


def _plain_bytes(value: bytes) -> Any:
    return value.hex() if len(value) <= LONGEST_BYTES else {"size": len(value)}


def _plain_sequence(values: tuple[Any, ...]) -> Any:
    if values and all(isinstance(value, StatusVar) for value in values):
        return {_name_of(value.code, QueryStatus): _plain(value.value) for value in values}
    if values and all(isinstance(value, MetadataField) for value in values):
        return {_name_of(value.kind, OptionalMetadataType): _plain(value.value) for value in values}
    return [_plain(value) for value in values]


def _name_of(code: int, names: type[Enum]) -> str:
    try:
        return names(code).name
    except ValueError:
        return str(code)


_CONVERSIONS: Final[tuple[tuple[Any, Callable[[Any], Any]], ...]] = (
    (str, str),
    (bytes, _plain_bytes),
    (_HAVE_TEXT, str),
    (dict, lambda value: {name: _plain(one) for name, one in value.items()}),
    (tuple, _plain_sequence),
    (Enum, lambda value: value.name),
)
