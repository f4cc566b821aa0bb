from collections.abc import Callable

from binlogio._kernel.columns import Column
from binlogio._kernel.memory import Memory

def patched(document: bytes, diffs: bytes) -> bytes | None: ...
def json_texts(
    after: Column, before: Column | None, by_construct: Callable[[bytes, bytes | None], str]
) -> tuple[Memory, Memory]: ...
