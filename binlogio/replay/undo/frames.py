"""Builds frames without position for many similar events.

BEGIN, XID and table maps differ between transactions only in their timestamp. Rows events are built by the compiled
kernel if it is present; all others by `binlogio.format.encoder`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from binlogio.constants import TIMESTAMP_BYTES, HeaderFlag
from binlogio.events.base import NEW_HEADER, EventHeader
from binlogio.events.control import XidEvent
from binlogio.events.query import QueryEvent
from binlogio.events.rows import POST_HEADER_V2
from binlogio.format.encoder import Encoder
from binlogio.implementation import is_compiled
from binlogio.replay.rows_frames import TYPE_CODES, rows_frame_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from binlogio.events.base import ParseContext
    from binlogio.events.table_map import TableMapEvent

_MOST_TEMPLATES: Final = 1000
_QUICK: Final = frozenset(TYPE_CODES.values())


class Frames:
    """Makes the frames of one file."""

    def __init__(self, context: ParseContext) -> None:
        self.encoder: Final = Encoder(context)
        self.has_checksum: Final = context.has_checksum
        self._templates: dict[object, bytes] = {}
        sizes = context.post_header_sizes
        self._is_quick = is_compiled() and all(
            len(sizes) >= code and sizes[code - 1] == POST_HEADER_V2 for code in _QUICK
        )

    def begin(self, header: EventHeader) -> bytes:
        """Return BEGIN, of a session without known properties."""
        key = "BEGIN", header.server_id
        flags = HeaderFlag.SUPPRESS_USE
        return self._alike(key, header, lambda: QueryEvent(0, 0, 0, (), "", b"BEGIN", replace(header, flags=flags)))

    def xid(self, header: EventHeader) -> bytes:
        """XID of number 0."""
        return self._alike(("XID", header.server_id), header, lambda: XidEvent(xid=0, header=header))

    def table_map(self, event: TableMapEvent) -> bytes:
        """Return a table map."""
        header = event.header
        key = replace(event, header=NEW_HEADER), header.server_id, header.flags
        return self._alike(key, header, lambda: event)

    def rows(self, event: Any) -> bytes:
        """Return a rows event.

        Raises:
            BinlogFormatError: it does not fit 4 GiB.
        """
        header = event.header
        if not self._is_quick or header.type_code not in _QUICK or header.flags or event.extra:
            return self.encoder.encode(event)
        return rows_frame_of(event, event.table_id, checksum=self.has_checksum)

    def _alike(self, key: object, header: EventHeader, make: Callable[[], Any]) -> bytes:
        """What was made for `key` before, with another timestamp."""
        rest = self._templates.get(key)
        if rest is None:
            if len(self._templates) >= _MOST_TEMPLATES:
                self._templates.clear()
            rest = self._templates[key] = self.encoder.encode(make())[TIMESTAMP_BYTES.stop :]
        return header.timestamp.to_bytes(TIMESTAMP_BYTES.stop, "little") + rest
