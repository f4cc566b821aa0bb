"""Events in the form that the recordings have.

Knows which facts of an event were recorded. Table ids are numbers in the order of their first appearance; server GTIDs
are G1, G2 ...
"""

from __future__ import annotations

import re
import struct
import zlib
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

from binlogio.constants import HeaderFlag, QueryStatus, RowsFlag
from binlogio.events.control import IncidentEvent, RotateEvent, RowsQueryEvent, XaPrepareEvent, XidEvent
from binlogio.events.format_description import FormatDescriptionEvent
from binlogio.events.gtid import AnonymousGtidEvent, GtidEvent, GtidFlag, PreviousGtidsEvent
from binlogio.events.load import AppendBlockEvent, BeginLoadQueryEvent, ExecuteLoadQueryEvent
from binlogio.events.query import QueryEvent
from binlogio.events.rows import DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent
from binlogio.events.statement_context import IntvarEvent, IntvarKind, RandEvent, UserVarEvent, UserVarType
from binlogio.events.table_map import TableMapEvent
from binlogio.events.transaction_payload import TransactionPayloadEvent
from binlogio.rows.image import decode_rows
from binlogio.rows.plan import TablePlan, resolve_plan
from binlogio.values.json import JsonDocument
from conformance.scenarios import Json

_CUT: Final = re.compile(r"(.*)\.\.\.\[(\d+)\]", re.DOTALL)  # long texts of statements
_ROWS: Final = {WriteRowsEvent: "WriteRows", UpdateRowsEvent: "UpdateRows", DeleteRowsEvent: "DeleteRows"}
_SUBTYPES: Final = {IntvarKind.LAST_INSERT_ID_EVENT: "LAST_INSERT_ID", IntvarKind.INSERT_ID_EVENT: "INSERT_ID"}


class Recorder:
    """Turns the events of one scenario into their recorded form, in the order of the log."""

    def __init__(self) -> None:
        self._maps: dict[int, TableMapEvent] = {}
        self._plans: dict[int, TablePlan] = {}
        self._table_numbers: dict[int, int] = {}
        self._gtids: dict[str, str] = {}

    def record(self, event: Any) -> list[Json]:
        """One event; a file that ends is followed by a mark."""
        make = _RECORDERS.get(type(event))
        if make is None:
            return [{"type": type(event).__name__}]
        recorded: Json = {key: value for key, value in make(self, event).items() if value is not _ABSENT}
        return [recorded, {"type": "--NEWFILE--"}] if isinstance(event, RotateEvent) else [recorded]

    def gtid(self, event: Any) -> Json:
        """Return a group's first event."""
        found: Json = {
            "type": "AnonymousGtid" if isinstance(event, AnonymousGtidEvent) else "Gtid",
            "rbr_only": not event.flags & GtidFlag.MAY_HAVE_SBR,
            "last_committed": event.last_committed,
            "sequence_number": event.sequence_number,
            "transaction_length": event.transaction_length,
        }
        if isinstance(event, GtidEvent):
            text = f"{event.uuid}:{event.gno}"
            found["gtid"] = self._gtids.setdefault(text, f"G{len(self._gtids) + 1}")
        return found

    def query(self, event: QueryEvent) -> Json:
        """Return a statement or a boundary."""
        updated = [variable for variable in event.status_vars if variable.code == QueryStatus.UPDATED_DB_NAMES]
        numbers = event.status(QueryStatus.AUTO_INCREMENT)
        return {
            "type": "Query",
            "db": event.schema,
            "query": event.sql.decode(),
            "suppress_use": _if(event.header.flags & HeaderFlag.SUPPRESS_USE, value=True),
            "thread_specific": _if(event.header.flags & HeaderFlag.THREAD_SPECIFIC, value=True),
            "updated_dbs": ("OVER_MAX" if updated[0].value is None else list(updated[0].value)) if updated else _ABSENT,
            "unknown_status": _if(event.status(QueryStatus.UNNAMED_21) is not None, value=QueryStatus.UNNAMED_21),
            "table_map_for_update": event.status(QueryStatus.TABLE_MAP_FOR_UPDATE) or _ABSENT,
            "ddl_xid": _if(event.status(QueryStatus.DDL_LOGGED_WITH_XID) is not None, value=True),
            "error_code": event.error_code or _ABSENT,
            "auto_increment": [numbers.increment, numbers.offset] if numbers is not None else _ABSENT,
        }

    def table_map(self, event: TableMapEvent) -> Json:
        """Return a table map."""
        self._maps[event.table_id] = event
        self._plans[event.table_id] = resolve_plan(event)
        return {
            "type": "TableMap",
            "table": f"{event.schema}.{event.table}",
            "table_id": self._number(event.table_id),
            "ncols": len(event.column_types),
            "size": event.header.event_size,
        }

    def rows(self, event: Any) -> Json:
        """Return a rows event."""
        table, plan = self._maps[event.table_id], self._plans[event.table_id]
        flags = RowsFlag(event.flags & ~RowsFlag.USE_SQL_FOREIGN_KEY)
        name = _ROWS[type(event)]
        first = _columns(event.present, event.column_count)
        before = first if name != "WriteRows" else None
        after = _columns(event.present_after, event.column_count) if name == "UpdateRows" else first
        rows = []
        for change in decode_rows(event, plan):
            images = {"before": change.before, "after": change.after}
            rows.append({what: _values(image) for what, image in images.items() if image is not None})
        return {
            "type": name,
            "table": f"{table.schema}.{table.table}",
            "table_id": self._number(event.table_id),
            "flags": [flag.name for flag in RowsFlag if flags & flag],
            "cols_before": before,
            "cols_after": after if name != "DeleteRows" else None,
            "ncols": event.column_count,
            "rows": rows,
            "rows_bytes": len(event.images),
            "size": event.header.event_size,
        }

    def _number(self, table_id: int) -> int:
        return self._table_numbers.setdefault(table_id, len(self._table_numbers) + 1)


def _columns(present: bytes, count: int) -> list[int]:
    return [i + 1 for i in range(count) if present[i >> 3] >> (i & 7) & 1]


def _values(image: Any) -> Json:
    return {
        f"@{column.position + 1}": _value(image.values[column.position])
        for column in image.plan.columns
        if f"{column.label}" in image.as_dict()
    }


def _value(value: Any) -> Any:
    if isinstance(value, datetime):
        return "TIMESTAMP"
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, JsonDocument):
        return value.text
    return value.decode() if isinstance(value, bytes) else value


def _user_var(event: UserVarEvent) -> Json:
    found: Json = {"type": "UserVar", "name": event.name}
    if event.value is None:
        return {**found, "value": None}
    kind = UserVarType(event.type or 0)
    value: Any = event.value
    if kind is UserVarType.INT_RESULT:
        value = event.number
    elif kind is UserVarType.REAL_RESULT:
        value = struct.unpack("<d", value)[0]
    elif kind is UserVarType.DECIMAL_RESULT:
        value = value.hex()
    else:
        value = value.decode()
        found["charset"] = event.collation
    return {**found, "vtype": kind.name.removesuffix("_RESULT"), "value": value}


def same_value(recorded: Any, ours: Any) -> bool:
    """Return whether a value is the recorded one, which may be there as its checksum alone."""
    if isinstance(recorded, dict) and recorded.keys() == {"crc32", "n"} and isinstance(ours, str):
        return bool(len(ours) == recorded["n"] and zlib.crc32(ours.encode()) == recorded["crc32"])
    if isinstance(recorded, str) and isinstance(ours, str) and (cut := _CUT.fullmatch(recorded)):
        return ours.startswith(cut[1]) and len(ours) == int(cut[2])
    if isinstance(recorded, dict) and isinstance(ours, dict):
        return recorded.keys() == ours.keys() and all(same_value(recorded[key], ours[key]) for key in recorded)
    if isinstance(recorded, list) and isinstance(ours, list):
        return len(recorded) == len(ours) and all(map(same_value, recorded, ours))
    return bool(recorded == ours)


FILE_EVENTS: Final = frozenset(("BeginLoadQuery", "AppendBlock", "ExecuteLoadQuery"))
"""Of these only the kind is compared: their file was not recorded."""


class _Absent:
    """A fact that an event does not have."""


_ABSENT: Final = _Absent()


def _if(condition: Any, *, value: Any) -> Any:
    return value if condition else _ABSENT


_RECORDERS: Final[dict[type[Any], Any]] = {
    AnonymousGtidEvent: Recorder.gtid,
    GtidEvent: Recorder.gtid,
    QueryEvent: Recorder.query,
    TableMapEvent: Recorder.table_map,
    WriteRowsEvent: Recorder.rows,
    UpdateRowsEvent: Recorder.rows,
    DeleteRowsEvent: Recorder.rows,
    XidEvent: lambda _, event: {"type": "Xid"},
    XaPrepareEvent: lambda _, event: {"type": "XaPrepare", "one_phase": bool(event.one_phase)},
    IntvarEvent: lambda _, event: {"type": "Intvar", "sub": _SUBTYPES[event.kind], "value": event.value},
    BeginLoadQueryEvent: lambda _, event: {"type": "BeginLoadQuery"},
    AppendBlockEvent: lambda _, event: {"type": "AppendBlock"},
    ExecuteLoadQueryEvent: lambda _, event: {"type": "ExecuteLoadQuery"},
    RandEvent: lambda _, event: {"type": "Rand"},
    UserVarEvent: lambda _, event: _user_var(event),
    RowsQueryEvent: lambda _, event: {"type": "RowsQuery", "query": event.sql.decode()},
    IncidentEvent: lambda _, event: {"type": "Incident", "number": event.incident, "message": event.message},
    RotateEvent: lambda _, event: {"type": "Rotate"},
    FormatDescriptionEvent: lambda _, event: {"type": "FormatDescription"},
    PreviousGtidsEvent: lambda _, event: {"type": "PreviousGtids"},
    TransactionPayloadEvent: lambda _, event: {"type": "TransactionPayload", "size": None},
}
