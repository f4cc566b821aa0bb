"""Groups of row changes that the kernel reverses many at a time; `TransactionReader` gives Python all others.

The kernel asks once for each table map, and each type and bitmaps of rows events, how they are reversed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from binlogio._kernel.row_decoder import InverseGroups, InverseRows
from binlogio.constants import EventType
from binlogio.errors import BinlogError
from binlogio.events import codec_for
from binlogio.events.base import DEFAULT_CONTEXT, NEW_HEADER, EventHeader
from binlogio.events.table_map import parse_plain_table_map
from binlogio.storage.index_file import log_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from binlogio.events import RowsEvent
    from binlogio.events.base import ParseContext
    from binlogio.events.format_description import FormatDescriptionEvent
    from binlogio.events.table_map import TableMapEvent
    from binlogio.replay.filters import ReplayFilter
    from binlogio.replay.steps import RowsStep

    _RowsStep = Callable[[RowsEvent, TableMapEvent], RowsStep | None]

_TABLE_ID: Final = 6
_NO_FLAGS: Final = bytes(2)


class WholeGroups:
    """Has the kernel reverse groups of the logs of a `TransactionReader`.

    Args:
        compiled: returns the inverse of rows events like those of a step; None: Python reverses them.
        heading: returns the text before the position of a transaction in a log.
        wanted: the selection; it must not select single rows.
        take: called with the inverse of groups and the path of their log; `kernel` then describes them.
    """

    def __init__(
        self,
        compiled: Callable[[RowsStep, FormatDescriptionEvent | None], InverseRows | None],
        heading: Callable[[str], bytes],
        wanted: ReplayFilter,
        take: Callable[[WholeGroups, bytes | memoryview, str], None],
    ) -> None:
        self.kernel: Final = InverseGroups(resolve=self._resolve, accepts=self._accepts)
        self._compiled, self._heading = compiled, heading
        self._take = take
        self._chosen = wanted.compiled()
        self._rows_step: _RowsStep = lambda *_: None
        self._description: FormatDescriptionEvent | None = None

    def begin_log(
        self, rows_step: _RowsStep, description: FormatDescriptionEvent | None, path: str, within: tuple[int, int]
    ) -> None:
        """Begin a log, or another format in it.

        Args:
            rows_step: `TransactionReader.rows_step`.
            description: the format.
            path: the path of the log.
            within: the offsets of the first selected group, and of the end.
        """
        self._rows_step, self._description = rows_step, description
        self.kernel.prefix = self._heading(log_name(path))
        self.kernel.first, self.kernel.end = within
        self.kernel.chosen = self._chosen
        self.kernel.forget_tables()

    def take(self, inverse: bytes | memoryview, path: str) -> None:
        """Take the inverse of groups of a log."""
        self._take(self, inverse, path)

    @property
    def _context(self) -> ParseContext:
        return DEFAULT_CONTEXT if self._description is None else self._description.context

    def _resolve(self, body: bytes, type_code: int, head: bytes) -> InverseRows | None:
        """Return the inverse of rows events with this table map, type, and bytes between flags and images.

        None: Python reverses them, or reports why they cannot be reversed.
        """
        context, header = self._context, EventHeader(type_code=type_code)
        try:
            table_map = parse_plain_table_map(NEW_HEADER, body)
            if table_map is None:
                table_map = codec_for(EventType.TABLE_MAP_EVENT).parse(NEW_HEADER, body, context)
            rows = codec_for(type_code).parse(header, body[:_TABLE_ID] + _NO_FLAGS + head, context)
            step = self._rows_step(rows, table_map)
            if step is None:
                return InverseRows(None)
            return None if step.is_of_sequence else self._compiled(step, self._description)
        except BinlogError:
            return None

    def _accepts(self, context: bytes) -> bool:
        """Return whether the status variables and the schema of a QUERY_EVENT can be parsed."""
        schema_size = len(context) - 2 - int.from_bytes(context[:2], "little") - 1
        body = bytes(8) + schema_size.to_bytes(1, "little") + bytes(2) + context + b"BEGIN"
        try:
            codec_for(EventType.QUERY_EVENT).parse(NEW_HEADER, body, self._context)
        except BinlogError:
            return False
        return True
