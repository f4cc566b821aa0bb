from collections.abc import Sequence

from binlogio._kernel.primitives import Characters, Memory

class Column:
    kind: int
    form: int
    count: int
    null_count: int
    validity: Memory
    offsets: Memory
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
