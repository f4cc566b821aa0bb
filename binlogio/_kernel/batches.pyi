from collections.abc import Sequence

from binlogio._kernel.columns import Column
from binlogio._kernel.images import ImagePlan
from binlogio._kernel.memory import Memory
from binlogio._kernel.route import Router

class Side:
    columns: list[Column]
    present: Memory
    present_offsets: Memory
    validity: Memory
    rows: int

class Batch:
    before: Side
    after: Side
    count: int
    pos: Memory
    row: Memory
    timestamp: Memory
    server_id: Memory
    op_offsets: Memory
    op: Memory
    gtid_offsets: Memory
    gtid: Memory
    gtid_validity: Memory
    last_committed: Memory
    sequence_number: Memory
    clock_validity: Memory
    gtid_nulls: int
    clock_nulls: int
    failed_event: int
    failed_in_images: bool
    failed_partial: bool
    def __init__(self, plan: ImagePlan, before: Sequence[Column], after: Sequence[Column]) -> None: ...
    @property
    def failed_pos(self) -> int: ...
    def fill(
        self,
        router: Router,
        plan_number: int,
        event: int,
        event_row: int,
        event_at: int,
        max_rows: int,
        max_bytes: int,
    ) -> tuple[int, int, int]: ...
    def finish(self) -> None: ...
