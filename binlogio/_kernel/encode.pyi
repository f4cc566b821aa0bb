from collections.abc import Sequence

from typing_extensions import Buffer

from binlogio._kernel.cells import Cells
from binlogio._kernel.event_buffer import EventBuffer

class RowsEncoder:
    row_count: int
    failed_side: int
    failed_column: int
    def __init__(
        self,
        buffer: EventBuffer,
        *,
        type_code: int,
        timestamp: int,
        server_id: int,
        table_id: int,
        flags: int,
        column_count: int,
        present: bytes,
        present_after: bytes | None,
        before: Sequence[Cells] | None,
        after: Sequence[Cells] | None,
        max_size: int,
        spare_null_bits: int = False,
        json_count: int = 0,
        json_cells: Sequence[tuple[int, int]] | None = None,
    ) -> None: ...
    def append(self, start: int, stop: int) -> int: ...
    def append_images(self, images: Buffer) -> None: ...
    def finish(self, ends_statement: bool = True) -> None: ...
