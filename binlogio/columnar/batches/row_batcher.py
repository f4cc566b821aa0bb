"""Interface of the batchers: objects that build record batches from the rows that a walk finds.

`table_batches` builds batches of one table each, `mixed_batches` batches of all tables in the order of the log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    import pyarrow as pa

    from binlogio._kernel.event_scanner import EventScanner, ImagePlan
    from binlogio.columnar.record_types import RowSelection
    from binlogio.events.base import EventHeader
    from binlogio.rows.plan import TablePlan
    from binlogio.storage.windows import Window

    TableBatch = tuple[str, pa.RecordBatch]
    """Table name (`schema.table`, or "" for rows of all tables) and a batch of its rows."""

    OpenBatcher = Callable[[EventScanner, RowSelection, str], "RowBatcher"]
    """Creates a batcher, given a router, a selection and the name of the log."""


class RowBatcher(Protocol):
    """Copies the rows found by a router into record batches.

    The rows are in the window routed last, and must be copied before the window moves. Tables are numbered like their
    plans in the router.
    """

    def begin_split(self) -> None:
        """Begin a split. Rejected rows of the previous split are dropped."""

    def add_table(self, number: int, plan: TablePlan) -> ImagePlan:
        """Add a table, and return the kernel's plan of it.

        Raises:
            BinlogError: the table lacks a selected column, or has a column whose type has no values.
        """

    def keep_tables(self, kept: list[int]) -> None:
        """Keep only the tables with the old numbers in `kept`; their new numbers are the indexes in `kept`."""

    def route(self, window: Window) -> tuple[int, int]:
        """Scan the events in a window. Returns the router's status, and the place in the window where it stopped."""

    def flush(self) -> Iterator[TableBatch]:
        """Copy the rows found by the router, and yield full batches.

        Raises:
            BinlogError: a row is rejected. `give_out` yields the rows before it.
        """

    def flush_part(
        self, header: EventHeader, size: int, first_row: int, *, first_byte: int, last: bool
    ) -> Generator[TableBatch, None, tuple[int, int]]:
        """Yield the rows of one part of a rows event that is read in parts.

        Args:
            header: header of the whole event.
            size: bytes of images in this part.
            first_row: number of rows of the event before this part.
            first_byte: bytes of images of the event before this part.
            last: the event ends with this part. Otherwise the last row may be incomplete.

        Returns:
            The bytes of the complete rows in this part, and their number.

        Raises:
            BinlogError: a row is rejected.
        """

    def give_out(self) -> Iterator[TableBatch]:
        """Yield all open batches, full or not; after a rejected row, only the rows before it."""
