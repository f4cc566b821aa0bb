from collections.abc import Sequence
from typing import Any, TypeAlias

from binlogio._kernel.memory import Memory

Node: TypeAlias = tuple[int, int, tuple[Memory | None, ...], Sequence[Node | Any]]

class Exported:
    def __init__(self, length: int, nodes: Sequence[Node | Any]) -> None: ...
    @property
    def address(self) -> int: ...
