"""What a walk over a log needs of the object that makes record batches of the rows it finds.

`table_batches` makes batches of one table each, `mixed_batches` batches of all tables in the order of the log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    import pyarrow as pa

    from binlogio._kernel.event_scanner import EventScanner, ImagePlan
    from binlogio.columnar.record_types import RowSelection
    from binlogio.columnar.windows import Window
    from binlogio.events.base import EventHeader
    from binlogio.rows.plan import TablePlan

    TableBatch = tuple[str, pa.RecordBatch]
    """The name of a table, `schema.table`, or "" for rows of all tables; and a batch of its rows."""

    OpenBatcher = Callable[[EventScanner, RowSelection, str], "RowBatcher"]
    """Makes a batcher for a router; the text is the name of the log."""


class RowBatcher(Protocol):
    """Copies the rows that a router has found into record batches.

    The rows are in the window that was routed last, so they are copied before it moves. Tables have the numbers of
    their plans in the router.
    """

    def begin_split(self) -> None:
        """Begin with a split. Rows that were refused in the split before are dropped."""

    def add_table(self, number: int, plan: TablePlan) -> ImagePlan:
        """Add a table, and return the kernel's plan of it.

        Raises:
            BinlogError: the table lacks a wanted column, or has one without values.
        """

    def keep_tables(self, kept: list[int]) -> None:
        """Drop all tables but those whose old numbers are in `kept`, in the order of their new numbers."""

    def route(self, window: Window) -> tuple[int, int]:
        """Route the events in a window; return the router's status, and where in the window it stopped."""

    def flush(self) -> Iterator[TableBatch]:
        """Copy the rows that the router has found, and yield the batches that are full.

        Raises:
            BinlogError: a row is refused. `give_out` yields the rows before it.
        """

    def flush_part(
        self, header: EventHeader, size: int, first_row: int, *, first_byte: int, last: bool
    ) -> Generator[TableBatch, None, tuple[int, int]]:
        """Yield the rows of one part of a rows event that is read in parts.

        Args:
            header: of the whole event.
            size: bytes of the images in this part.
            first_row: rows of the event before this part.
            first_byte: bytes of its images before this part.
            last: whether the event ends with this part; else the last row may be incomplete.

        Returns:
            The bytes of the complete rows, and their number.

        Raises:
            BinlogError: a row is refused.
        """

    def give_out(self) -> Iterator[TableBatch]:
        """Yield the batches that are not full either; after a refused row, the rows before it."""
