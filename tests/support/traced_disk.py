"""A model of a disk below commands: records their operations on a directory, and builds what a power failure leaves.

Each name operation that was not synced is kept or lost, and a file that was not synced has its old bytes or a part of
the new ones, as in `crashing_storage`. Operations are seen by an audit hook, and os.fsync.
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from random import Random

_ACTIVE: Final[list[TracedDisk]] = []
_fsync: Final = os.fsync


@dataclass(eq=False)
class Node:
    """A file or directory: its bytes and names, and those that are durable."""

    names: dict[str, Node] | None = None
    durable_names: dict[str, Node] = field(default_factory=dict)
    durable: bytes = b""


Change = list[tuple[Node, str, Node | None]]
"""Names that change together: directory, name, and the node, or None if the name is removed."""


@dataclass
class Moment:
    """The disk before an operation: what is durable, and the changes of names that are not."""

    names: dict[Node, dict[str, Node]]
    data: dict[Node, bytes]
    pending: list[Change]


class TracedDisk:
    """The files below a directory, which are durable at first."""

    def __init__(self, root: Path) -> None:
        self._root_path = root
        self._root = self._read(root)
        self._pending: list[Change] = []
        self._later: dict[Node, bytes] = {}
        self.moments: list[Moment] = []

    @contextmanager
    def record(self) -> Iterator[None]:
        """Record the operations in the `with` block; a moment before each of them, and one at the end."""
        _ACTIVE.append(self)
        os.fsync = self._sync  # type: ignore[assignment]  # the commands give descriptors only
        try:
            yield
        finally:
            os.fsync = _fsync
            _ACTIVE.remove(self)
        self._take()

    def left(self, moment: Moment, random: Random, folder: Path) -> None:
        """Write what a power failure at a moment leaves into a new directory."""
        names = {node: dict(found) for node, found in moment.names.items()}
        chance = random.choice((0.0, 0.5, 1.0))
        for change in moment.pending:
            if random.random() < chance:
                _apply(names, change)

        def write(node: Node, path: Path) -> None:
            if node.names is not None:
                path.mkdir()
                for name, child in names.get(node, {}).items():
                    write(child, path / name)
            else:
                data = moment.data.get(node, b"")
                later = self._later.get(node, data)
                path.write_bytes(later[: len(later) // 2] if later != data and random.random() < 0.5 else data)

        write(self._root, folder)

    def _read(self, path: Path) -> Node:
        if not path.is_dir():
            return Node(durable=path.read_bytes())
        names = {one.name: self._read(one) for one in path.iterdir()}
        return Node(names=names, durable_names=dict(names))

    def _find(self, path: Path) -> Node | None:
        node: Node | None = self._root
        for part in path.relative_to(self._root_path).parts:
            node = None if node is None or node.names is None else node.names.get(part)
        return node

    def _nodes(self, node: Node) -> Iterator[Node]:
        yield node
        for one in {*node.durable_names.values(), *(node.names or {}).values()}:
            yield from self._nodes(one)

    def _take(self) -> None:
        found = set(self._nodes(self._root))
        found |= {one for change in self._pending for _, _, one in change if one is not None}
        found |= {inner for one in list(found) for inner in self._nodes(one)}
        names = {node: dict(node.durable_names) for node in found if node.names is not None}
        self.moments.append(Moment(names, {node: node.durable for node in found}, list(self._pending)))

    def _change(self, change: Change) -> None:
        self._take()
        self._pending.append(change)
        for folder, name, node in change:
            assert folder.names is not None
            if node is None:
                folder.names.pop(name, None)
            else:
                folder.names[name] = node

    def see(self, event: str, arguments: tuple[object, ...]) -> None:
        """Take an operation of this process."""
        path = self._path(arguments[0])
        if path is None:
            return
        parent, node = self._find(path.parent), self._find(path)
        if parent is None or parent.names is None:
            return
        if event == "open" and node is None and isinstance(arguments[2], int) and arguments[2] & os.O_CREAT:
            self._change([(parent, path.name, Node())])
        elif event == "os.mkdir" and node is None:
            self._change([(parent, path.name, Node(names={}))])
        elif event in ("os.rename", "os.link") and node is not None:
            other = self._path(arguments[1])
            folder = None if other is None else self._find(other.parent)
            if other is not None and folder is not None:
                removed: Change = [(parent, path.name, None)] if event == "os.rename" else []
                if event == "os.rename" or self._find(other) is None:
                    self._change([*removed, (folder, other.name, node)])
        elif event in ("os.remove", "os.rmdir") and node is not None:
            self._change([(parent, path.name, None)])

    def _path(self, name: object) -> Path | None:
        if not isinstance(name, (str, bytes, os.PathLike)):
            return None
        path = Path(os.fsdecode(name))
        return path if path.is_relative_to(self._root_path) and path != self._root_path else None

    def _sync(self, descriptor: int) -> None:
        _fsync(descriptor)
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))  # noqa: PTH115 - as the kernel has it
        node = self._find(path) if path.is_relative_to(self._root_path) else None
        if node is None:
            return
        self._take()
        if node.names is None:
            node.durable = self._later[node] = path.read_bytes()
            return
        kept = []
        durable: dict[Node, dict[str, Node]] = {}
        for change in self._pending:
            if any(folder is node for folder, _, _ in change):
                for folder, _, _ in change:
                    durable.setdefault(folder, folder.durable_names)
                _apply(durable, change)
            else:
                kept.append(change)
        self._pending = kept


def _apply(names: dict[Node, dict[str, Node]], change: Change) -> None:
    for folder, name, node in change:
        if node is None:
            names.setdefault(folder, {}).pop(name, None)
        else:
            names.setdefault(folder, {})[name] = node


def _hook(event: str, arguments: tuple[object, ...]) -> None:
    if _ACTIVE and event in ("open", "os.rename", "os.link", "os.remove", "os.mkdir", "os.rmdir"):
        _ACTIVE[-1].see(event, arguments)


sys.addaudithook(_hook)
