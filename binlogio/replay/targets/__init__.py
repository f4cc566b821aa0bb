"""Where a replay goes, and what every target can do.

Knows the protocol only; each target has a module of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from binlogio.options import Position
    from binlogio.rowimage.plan import TablePlan


class Target(Protocol):
    """Tables that row changes are applied to, one transaction per event group.

    Every method raises ReplayError, without file and offset, where the change does not fit what is there.
    """

    @property
    def position(self) -> Position | None:
        """Behind the last event group that was applied, by the file's base name; None where there was none."""

    def begin(self) -> None:
        """Begin an event group."""

    def commit(self, position: Position) -> None:
        """End it, keeping the changes and `position` together."""

    def rollback(self) -> None:
        """Forget the changes of the group."""

    def savepoint(self, name: str) -> None:
        """Remember this place of the group."""

    def rollback_to(self, name: str) -> None:
        """Forget what came behind the savepoint."""

    def insert(self, table: TablePlan, after: Sequence[Any]) -> None:
        """Add a row; a row of the same key must not be there."""

    def update(self, table: TablePlan, before: Sequence[Any], after: Sequence[Any]) -> None:
        """Change the row that `before` tells, which must be there."""

    def delete(self, table: TablePlan, before: Sequence[Any]) -> None:
        """Remove the row that `before` tells, which must be there."""

    def truncate(self, schema: str, table: str) -> None:
        """Empty a table; one that is not there is empty already."""

    def drop_table(self, schema: str, table: str) -> None:
        """Remove a table, if it is there."""

    def drop_database(self, schema: str) -> None:
        """Remove all tables of a schema."""

    def close(self) -> None:
        """Give the target back; a group that was begun is forgotten."""
