from collections.abc import Callable, Sequence
from typing import TypeAlias

from binlogio._kernel.charsets import Characters
from binlogio._kernel.heads import Heads, Presence
from binlogio._kernel.images import ImagePlan
from binlogio._kernel.memory import Memory
from binlogio._kernel.route import Router

SIGNED: int
UNSIGNED: int
FLOAT: int
DOUBLE: int
NOTHING: int

Value: TypeAlias = tuple[bytes, int, int, int, int, Sequence[bytes] | None, Characters | None]
ByConstruct: TypeAlias = Callable[[int, bytes, bytes | None, int], bytes | None]

class ImageJson:
    plan: ImagePlan
    def __init__(
        self, plan: ImagePlan, schema: bytes, table: bytes, values: Sequence[Value], by_construct: ByConstruct
    ) -> None: ...

class ImageTexts(Presence):
    texts: Memory
    offsets: Memory

class MixedBatch(Heads):
    before: ImageTexts
    after: ImageTexts
    schema: Memory
    schema_offsets: Memory
    table: Memory
    table_offsets: Memory
    failed_event: int
    failed_plan: int
    failed_in_images: bool
    failed_pos: int
    def __init__(self, tables: Sequence[ImageJson | None]) -> None: ...
    def fill(
        self, router: Router, event: int, event_row: int, event_at: int, max_rows: int, max_bytes: int
    ) -> tuple[int, int, int]: ...
