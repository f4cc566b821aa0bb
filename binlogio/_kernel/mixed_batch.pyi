from collections.abc import Sequence

from binlogio._kernel.heads import Heads, Presence
from binlogio._kernel.image_json import ImageJson
from binlogio._kernel.memory import Memory
from binlogio._kernel.route import Router

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
    sizes: list[int]
    def __init__(self, tables: Sequence[ImageJson | None], sizes: Sequence[int] = ()) -> None: ...
    def fill(
        self, router: Router, event: int, event_row: int, event_at: int, max_rows: int, max_bytes: int
    ) -> tuple[int, int, int]: ...
