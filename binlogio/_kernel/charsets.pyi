from collections.abc import Callable

from typing_extensions import Buffer

from binlogio._kernel.memory import Memory

class Characters:
    def __init__(
        self, name: str, decode: Callable[[bytes], str], encode: Callable[[str], bytes] | None = None
    ) -> None: ...
    def encoded(
        self,
        length: int,
        *,
        offsets: Buffer,
        data: Buffer | None,
        validity: Buffer | None = None,
        first: int = 0,
        trims: bool = False,
    ) -> tuple[Memory, Memory, int]: ...
    def text(self, data: bytes) -> bytes | None: ...
