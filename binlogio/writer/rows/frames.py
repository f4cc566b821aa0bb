"""Event frames: encodes events whose position and checksum are filled in later.

BEGIN, COMMIT and table maps differ from one statement to the next in their timestamp alone, and are reused. Events that
differ every time are encoded by the compiled kernel. `binlogio.format.encoder` encodes all other events, and all of
them without the kernel.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from binlogio.constants import EVENT_SIZE_BYTES, HEADER_SIZE, SERVER_ID_BYTES, TIMESTAMP_BYTES, EventType
from binlogio.events.base import EventHeader
from binlogio.events.control import XidEvent
from binlogio.events.mariadb import AnnotateRowsEvent
from binlogio.events.rows import DeleteRowsEvent, PartialUpdateRowsEvent, UpdateRowsEvent, WriteRowsEvent
from binlogio.format.encoder import Encoder
from binlogio.writer.log.log_file import describe_format
from binlogio.writer.query_events import QueryContext, begin_event, commit_event
from binlogio.writer.rows.kernel import WriterKernel
from binlogio.writer.server_format import server_format_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from binlogio.options import ServerVariables
    from binlogio.writer.rows.row_encoder import RowShape
    from binlogio.writer.session.open_tables import OpenTable

MAX_TEMPLATES: Final = 1024
MAX_SHORT_TEXT: Final = 1 << 20
_COMPRESSED: Final[dict[type[Any], EventType]] = {
    WriteRowsEvent: EventType.WRITE_ROWS_COMPRESSED_EVENT_V1,
    UpdateRowsEvent: EventType.UPDATE_ROWS_COMPRESSED_EVENT_V1,
    DeleteRowsEvent: EventType.DELETE_ROWS_COMPRESSED_EVENT_V1,
}


class FrameBuilder:
    """Makes the frames of one session. Timestamps are in seconds since 1970, UTC."""

    def __init__(self, variables: ServerVariables, kernel: WriterKernel | None) -> None:
        self._encoder = Encoder(describe_format(variables).context)
        self._server_format = server_format_of(variables.server_version)
        rows = self._server_format.rows
        self._types: dict[type[Any], EventType] = {
            WriteRowsEvent: rows.write,
            UpdateRowsEvent: rows.update,
            DeleteRowsEvent: rows.delete,
            PartialUpdateRowsEvent: EventType.PARTIAL_UPDATE_ROWS_EVENT,
        }
        self.rows_head_size: Final = rows.post_header_size
        self._server_id = variables.server_id
        self._has_checksum = self._encoder.context.has_checksum
        self._kernel = kernel
        self._templates: dict[object, bytes] = {}
        self._begun: tuple[QueryContext | None, bytes] = None, b""

    def encode(self, event: Any) -> bytes:
        """Return the frame of any event.

        Raises:
            BinlogFormatError: a value does not fit its field.
        """
        return self._encoder.encode(event)

    @property
    def server_id(self) -> int:
        """In the header of every event; may be set."""
        return self._server_id

    @server_id.setter
    def server_id(self, server_id: int) -> None:
        if server_id != self._server_id:
            self._server_id = server_id
            self._templates.clear()

    def opening(self, context: QueryContext) -> tuple[bytes, ...]:
        """Return the frames with which a cache begins: BEGIN, or none where the GTID event says it."""
        return () if self._server_format.has_domains else (self.begin(context),)

    def begin(self, context: QueryContext) -> bytes:
        """BEGIN."""
        last, frame = self._begun
        if last is not context:
            frame = self._from_template(("BEGIN", *context.key), context.timestamp, lambda: begin_event(context))
            self._begun = context, frame
        return frame

    def commit(self, context: QueryContext) -> bytes:
        """Return the COMMIT of the statement cache, and of a transaction cache that no engine takes part in."""
        return self._from_template(("COMMIT", *context.key), context.timestamp, lambda: commit_event(context))

    def xid(self, xid: int, timestamp: int) -> bytes:
        """Return the XID with which the transaction cache ends."""
        frame = self._from_template("XID", timestamp, lambda: XidEvent(xid=0, header=self._header(timestamp)))
        end = len(frame) - 4 * self._has_checksum
        return frame[: end - 8] + xid.to_bytes(8, "little") + frame[end:]

    def annotation(self, sql: bytes, timestamp: int) -> bytes:
        """Return the text of a statement, as MariaDB puts it before the rows.

        Raises:
            BinlogFormatError: it does not fit 4 GiB.
        """
        if len(sql) > MAX_SHORT_TEXT:
            return self.encode(AnnotateRowsEvent(sql=sql, header=self._header(timestamp)))
        empty = self._from_template(
            AnnotateRowsEvent, timestamp, lambda: AnnotateRowsEvent(sql=b"", header=self._header(timestamp))
        )
        size = (len(empty) + len(sql)).to_bytes(4, "little")
        return (
            empty[: EVENT_SIZE_BYTES.start]
            + size
            + empty[EVENT_SIZE_BYTES.stop : HEADER_SIZE]
            + sql
            + empty[HEADER_SIZE:]
        )

    def table_map(self, table: OpenTable, timestamp: int) -> bytes:
        """Return the table map of an open table, cached by its table id."""
        return self._from_template(table.table_id, timestamp, lambda: table.table_map)

    def rows(
        self,
        kind: type[Any],
        table: OpenTable,
        shape: RowShape,
        images: bytes,
        flags: int,
        timestamp: int,
        *,
        is_compressed: bool = False,
    ) -> bytes:
        """Return a rows event whose images are of one shape; `kind` is its class.

        Raises:
            BinlogFormatError: it does not fit 4 GiB.
        """
        columns = len(table.plan.columns)
        present = shape.images[0].present
        present_after = shape.images[1].present if len(shape.images) > 1 else b""
        if self._kernel is None or is_compressed:
            bitmaps = {"present": present, **({"present_after": present_after} if present_after else {})}
            common = {"table_id": table.table_id, "flags": flags, "extra": b"", "column_count": columns}
            type_code = (_COMPRESSED if is_compressed else self._types)[kind]
            header = replace(self._header(timestamp), type_code=int(type_code))
            return self.encode(kind(**common, **bitmaps, images=images, header=header))
        return self._kernel.rows_frame(
            images,
            type_code=self._types[kind],
            timestamp=timestamp,
            server_id=self._server_id,
            table_id=table.table_id,
            flags=flags,
            column_count=columns,
            present=present,
            present_after=present_after,
            checksum=self._has_checksum,
        )

    def _header(self, timestamp: int) -> EventHeader:
        return EventHeader(timestamp=timestamp, server_id=self._server_id)

    def _from_template(self, key: object, timestamp: int, make: Callable[[], Any]) -> bytes:
        template = self._templates.get(key)
        if template is None:
            if len(self._templates) >= MAX_TEMPLATES:
                self._templates.clear()
            template = self._templates[key] = self._rest(make())
        return timestamp.to_bytes(4, "little") + template

    def _rest(self, event: Any) -> bytes:
        """Return the bytes after the timestamp, with which a header begins."""
        frame = self._encoder.encode(event)
        server_id = self._server_id.to_bytes(4, "little")
        return frame[TIMESTAMP_BYTES.stop : SERVER_ID_BYTES.start] + server_id + frame[SERVER_ID_BYTES.stop :]
