from collections.abc import Sequence

from typing_extensions import Buffer

from binlogio._kernel.cells import Cells

class EventBuffer:
    offset: int
    checksum: bool
    @property
    def end(self) -> int: ...
    def __init__(self, offset: int = 4, *, checksum: bool = True) -> None: ...
    def __len__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...
    def clear(self, offset: int) -> None: ...
    def add(self, type_code: int, timestamp: int, server_id: int, flags: int, body: Buffer) -> None: ...
    def add_frame(self, frame: Buffer) -> None: ...
    def begin_group(
        self,
        type_code: int,
        timestamp: int,
        server_id: int,
        flags: int,
        before: bytes,
        behind: bytes,
        expected_size: int,
    ) -> None: ...
    def end_group(self) -> None: ...

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
    ) -> None: ...
    def append(self, start: int, stop: int) -> int: ...
    def append_images(self, images: Buffer) -> None: ...
    def finish(self, ends_statement: bool = True) -> None: ...
