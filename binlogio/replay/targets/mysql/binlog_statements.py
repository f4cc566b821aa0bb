"""BINLOG statements: row events of a log as SQL, `BINLOG '<base64>'`, for the server's own applier.

    BINLOG '<format description>'            once, not within a transaction: how the events look that come next
    BINLOG '<table maps, rows events>'       the last rows event ends the statement

Source: sql/sql_binlog.cc, mysql_client_binlog_statement.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from binlogio.bounded_cache import BoundedCache
from binlogio.constants import EVENT_SIZE_BYTES, HEADER_SIZE, ChecksumAlgorithm, EventType, RowsFlag
from binlogio.events.base import NEW_HEADER
from binlogio.events.table_map import TableMapEvent
from binlogio.format.decoder import Decoder
from binlogio.format.encoder import Encoder
from binlogio.format.framing import EventFrame, EventFramer
from binlogio.replay.row_changes import has_quick_frame, rows_frame_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from binlogio.events import RowsEvent
    from binlogio.events.base import ParseContext
    from binlogio.events.format_description import FormatDescriptionEvent

_PIECE_SIZE: Final = 3 << 18  # bytes, a multiple of 3
_PLAIN: Final[dict[int, int]] = {  # of MariaDB: without its compression
    EventType.WRITE_ROWS_COMPRESSED_EVENT_V1: EventType.WRITE_ROWS_EVENT_V1,
    EventType.UPDATE_ROWS_COMPRESSED_EVENT_V1: EventType.UPDATE_ROWS_EVENT_V1,
    EventType.DELETE_ROWS_COMPRESSED_EVENT_V1: EventType.DELETE_ROWS_EVENT_V1,
    EventType.WRITE_ROWS_COMPRESSED_EVENT: EventType.WRITE_ROWS_EVENT,
    EventType.UPDATE_ROWS_COMPRESSED_EVENT: EventType.UPDATE_ROWS_EVENT,
    EventType.DELETE_ROWS_COMPRESSED_EVENT: EventType.DELETE_ROWS_EVENT,
}
_CURRENT: Final[dict[int, int]] = {  # of MySQL: servers from 9.0 on do not apply the others
    EventType.WRITE_ROWS_EVENT_V1: EventType.WRITE_ROWS_EVENT,
    EventType.UPDATE_ROWS_EVENT_V1: EventType.UPDATE_ROWS_EVENT,
    EventType.DELETE_ROWS_EVENT_V1: EventType.DELETE_ROWS_EVENT,
}
# Of the post-headers of rows events of the current version, and 0 for all before: MySQL before 5.6 does not list them.
_CURRENT_SIZES: Final = (*[0] * (EventType.WRITE_ROWS_EVENT - 1), 10, 10, 10)


class BinlogStatements:
    """The statements of one session. `description` says how the events look, and has been sent."""

    def __init__(self) -> None:
        self.description: FormatDescriptionEvent | None = None
        self._encoder = Encoder()
        self._maps: BoundedCache[TableMapEvent, bytes] = BoundedCache()

    def describe(self, description: FormatDescriptionEvent) -> str:
        """Return the statement that comes before all others of a log."""
        self.description = description
        self._encoder = Encoder()
        self._maps.clear()
        algorithm = None if description.checksum_algorithm is None else ChecksumAlgorithm.OFF
        sizes = description.post_header_sizes
        if not (description.context.is_mariadb or description.context.permutation):
            sizes += _CURRENT_SIZES[len(sizes) :]
        sent = replace(
            description, header_size=HEADER_SIZE, post_header_sizes=sizes, checksum_algorithm=algorithm, created=0
        )
        return _binlog(self._encoder.encode(sent))

    def rows(self, events: Sequence[tuple[TableMapEvent, RowsEvent]], others: Iterable[TableMapEvent] = ()) -> str:
        """Return the rows events of one statement of the source, each with the table map that it refers to.

        `others` are more table maps of the statement, which come first.
        """
        maps = {table_map.table_id: table_map for table_map in (*others, *(table_map for table_map, _ in events))}
        last = events[-1][1]
        frames = [event for _, event in events[:-1]] + [replace(last, flags=last.flags | RowsFlag.STMT_END)]
        return _binlog(b"".join([*map(self.map_frame, maps.values()), *map(self._frame, frames)]))

    def pieces(self, table_map: TableMapEvent, event: RowsEvent, others: Iterable[TableMapEvent]) -> Iterator[str]:
        """Yield the statement that `rows` returns for one event in pieces, so that the images are not copied."""
        maps = {one.table_id: one for one in (*others, table_map)}
        head = replace(event, flags=event.flags | RowsFlag.STMT_END, images=b"")
        frame = bytearray(self._frame(head))
        frame[EVENT_SIZE_BYTES] = (len(frame) + len(event.images)).to_bytes(4, "little")
        data = b"".join([*map(self.map_frame, maps.values()), bytes(frame)])
        at = -len(data) % 3
        yield f"BINLOG '{b64encode(data + event.images[:at]).decode()}"
        for begin in range(at, len(event.images), _PIECE_SIZE):
            yield b64encode(event.images[begin : begin + _PIECE_SIZE]).decode()
        yield "'"

    def map_frame(self, table_map: TableMapEvent) -> bytes:
        """Return the table map as in a log."""
        key = replace(table_map, header=NEW_HEADER)
        return self._maps.get(key) or self._maps.put(key, self._encoder.encode(table_map))

    def _frame(self, event: RowsEvent) -> bytes:
        """Return the rows event as in a log."""
        is_mariadb = self.description is not None and self.description.context.is_mariadb
        if not is_mariadb and has_quick_frame(event):
            return rows_frame_of(event, event.table_id)
        code = (_PLAIN if is_mariadb else _CURRENT).get(event.header.type_code)
        return self._encoder.encode(
            event if code is None else replace(event, header=replace(event.header, type_code=code))
        )


def table_maps_in(sql: bytes, context: ParseContext) -> Iterator[TableMapEvent]:
    """Yield the table maps of a BINLOG statement of rows."""
    framer = EventFramer(context=replace(context, checksum_algorithm=ChecksumAlgorithm.OFF), has_positions=False)
    framer.feed(b64decode(sql.split(b"'")[1]))
    framer.finish()
    decoder = Decoder()
    while isinstance(frame := framer.next_frame(), EventFrame):
        yield from (event for event in decoder.decode(frame) if isinstance(event, TableMapEvent))


def _binlog(data: bytes) -> str:
    return f"BINLOG '{b64encode(data).decode()}'"
