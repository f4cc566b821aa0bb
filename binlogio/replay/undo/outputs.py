"""Protocol of the outputs of an undo (SQL script, binary log)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, ClassVar, Final, Protocol

from binlogio.dotted_names import dotted_name
from binlogio.events.rows import DeleteRowsEvent, WriteRowsEvent

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from binlogio._kernel.row_decoder import InverseRows
    from binlogio.events.format_description import FormatDescriptionEvent
    from binlogio.replay.steps import LoggedTransaction, RowsStep
    from binlogio.replay.undo.spool import SpooledGroup

KINDS: Final = ("insert", "update", "delete")
ChangeCounts = Counter[tuple[str, str]]
"""How many rows of a table (`schema.table`) were changed in the log, by kind."""


class UndoOutput(Protocol):
    """A form of the inverse. `needs_names` where it cannot do without names of columns."""

    needs_names: ClassVar[bool]

    def inverse(self, transaction: LoggedTransaction, steps: Sequence[RowsStep], rows: ChangeCounts) -> Iterator[bytes]:
        """Yield the inverse of one transaction in pieces; `rows` counts its changes.

        Raises:
            BinlogError: they cannot be reversed.
        """

    def compiled(self, step: RowsStep, description: FormatDescriptionEvent | None) -> InverseRows | None:
        """Return the kernel's inverse of rows events like that of `step`, which has no rows; None: `inverse` does it.

        Raises:
            BinlogError: they cannot be reversed.
        """

    def count(self, step: RowsStep, count: int, rows: ChangeCounts) -> None:
        """Count changes like those of a step that the kernel has reversed."""

    def heading(self, file: str) -> bytes:
        """Return the text before the position of a transaction in a log."""

    def whole(self, groups: Iterable[SpooledGroup]) -> Iterator[bytes]:
        """Return the whole output in pieces.

        `groups` are the results of `inverse`, in the order of their execution.
        """


def table_and_kind(step: RowsStep) -> tuple[str, str]:
    """Return the kind under which the rows of an event are counted."""
    insert, update, delete = KINDS
    kind = {WriteRowsEvent: insert, DeleteRowsEvent: delete}.get(type(step.head), update)
    return dotted_name(step.table_map.schema, step.table_map.table), kind
