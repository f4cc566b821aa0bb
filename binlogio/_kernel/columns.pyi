from collections.abc import Sequence

from binlogio._kernel.charsets import Characters
from binlogio._kernel.memory import Memory

class Column:
    kind: int
    count: int
    null_count: int
    validity: Memory
    data: Memory
    offsets: Memory
    more: Memory
    def __init__(
        self,
        kind: int,
        width: int,
        first: int = 0,
        second: int = 0,
        policy: int = 0,
        names: Sequence[bytes] | None = None,
        characters: Characters | None = None,
    ) -> None: ...
