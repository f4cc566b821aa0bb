"""Foreign keys that change rows, of all tables: found by the table that they belong to, or by the one they refer to.

`binlogio.schema.ddl.foreign_keys` reads them from statements.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from binlogio.schema.identifiers import folded

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binlogio.schema.ddl.catalogue import TableName
    from binlogio.schema.ddl.foreign_keys import Cascade


class Cascades:
    """The foreign keys that change rows, by child and by parent.

    `changed` are the children whose foreign keys were changed, for a caller that stores them and clears the set.
    """

    def __init__(self) -> None:
        self.changed: set[TableName] = set()
        self._of_child: dict[TableName, tuple[Cascade, ...]] = {}
        self._children: dict[TableName, dict[TableName, None]] = {}  # by the folded name of their parent, in order

    def copy(self) -> Cascades:
        """Return a copy."""
        other = Cascades()
        other._of_child = dict(self._of_child)
        other._children = {parent: dict(children) for parent, children in self._children.items()}
        return other

    def __iter__(self) -> Iterator[Cascade]:
        """Iterate over all foreign keys."""
        return (one for found in self._of_child.values() for one in found)

    def of_child(self, child: TableName) -> tuple[Cascade, ...]:
        """Return the foreign keys of a table."""
        return self._of_child.get(child, ())

    def of_parent(self, parent: TableName) -> tuple[Cascade, ...]:
        """Return the foreign keys that change rows of other tables with those of this one, in any case of its name."""
        name = folded(parent)
        found = (one for child in self._children.get(name, ()) for one in self._of_child[child])
        return tuple(one for one in found if folded(one.parent) == name)

    def put(self, child: TableName, cascades: tuple[Cascade, ...]) -> None:
        """Replace the foreign keys of a table."""
        before = self._of_child.pop(child, ())
        if cascades:
            self._of_child[child] = cascades
        if cascades == before:
            return
        self.changed.add(child)
        for parent in {folded(one.parent) for one in before}:
            del self._children[parent][child]
            if not self._children[parent]:
                del self._children[parent]
        for one in cascades:
            self._children.setdefault(folded(one.parent), {})[child] = None

    def rename(self, old: TableName, new: TableName) -> None:
        """Take note that a table, which foreign keys are of or refer to, has another name."""
        for child in dict.fromkeys((old, *self._children.get(folded(old), ()))):
            found = tuple(
                replace(
                    one, child=new if one.child == old else one.child, parent=new if one.parent == old else one.parent
                )
                for one in self._of_child.get(child, ())
            )
            if found and child == old:
                self.put(old, ())
                self.put(new, found)
            elif found:
                self.put(child, found)
