from collections.abc import Sequence

from binlogio._kernel.columns import Column
from binlogio._kernel.heads import Heads, Presence
from binlogio._kernel.images import ImagePlan
from binlogio._kernel.route import Router

class Side(Presence):
    columns: list[Column]

class Batch(Heads):
    before: Side
    after: Side
    failed_event: int
    failed_row: int
    failed_at: int
    failed_in_images: bool
    failed_partial: bool
    stopped_at_partial: bool
    value_bytes: int
    def __init__(
        self, plan: ImagePlan, before: Sequence[Column], after: Sequence[Column], takes_partial: bool = True
    ) -> None: ...
    def fill(
        self,
        router: Router,
        event: int,
        event_row: int,
        event_at: int,
        max_rows: int,
        max_bytes: int,
    ) -> tuple[int, int, int]: ...
    def finish(self) -> None: ...
