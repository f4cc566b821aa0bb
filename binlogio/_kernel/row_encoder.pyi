from collections.abc import Iterable, Sequence

from typing_extensions import Buffer

class Cells:
    length: int
    @property
    def kind(self) -> int: ...
    def __init__(
        self,
        kind: int,
        width: int,
        first: int = 0,
        second: int = 0,
        limit: int = 0,
        trim: bool = False,
        names: Sequence[bytes] | None = None,
        table: bytes | None = None,
    ) -> None: ...
    def bind(
        self,
        length: int,
        *,
        validity: Buffer | None = None,
        validity_offset: int = 0,
        data: Buffer | None = None,
        data_offset: int = 0,
        offsets: Buffer | None = None,
        offsets_offset: int = 0,
        srids: Buffer | None = None,
        srids_offset: int = 0,
        refused: int = -1,
    ) -> None: ...
    def bind_diffs(
        self,
        length: int,
        *,
        validity: Buffer | None,
        validity_offset: int,
        offsets: Buffer,
        offsets_offset: int,
        count: int,
        operations: Buffer | None,
        operations_offset: int,
        path_offsets: Buffer | None,
        path_offsets_offset: int,
        paths: Buffer | None,
        value_validity: Buffer | None,
        value_validity_offset: int,
        value_offsets: Buffer | None,
        value_offsets_offset: int,
        values: Buffer | None,
        refused: int = -1,
    ) -> None: ...
    def unbind(self) -> None: ...

class ArrowColumns:
    def __init__(self, cells: Sequence[Cells], places: Sequence[int]) -> None: ...
    def bind(self, batch: object) -> None: ...
    def unbind(self) -> None: ...

class RowsEncoder:
    row_count: int
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
    def restart(
        self, buffer: EventBuffer, *, timestamp: int, server_id: int, table_id: int, flags: int, max_size: int
    ) -> None: ...
    def append(self, start: int, stop: int) -> int: ...
    def append_images(self, images: Buffer) -> None: ...
    def finish(self, ends_statement: bool = True) -> None: ...

class RowPacker:
    def __init__(self, columns: Sequence[tuple[object, ...]], spare_null_bits: int = False) -> None: ...
    def pack(self, values: Sequence[object]) -> bytes | None: ...

class OneRowFrames:
    def __init__(
        self,
        packer: RowPacker,
        table_map: bytes,
        empty: bytes,
        *,
        checksum: bool,
        image_count: int,
        names: tuple[str, ...],
        not_null: Sequence[int],
        only_text: Sequence[int],
        no_text: Sequence[int],
    ) -> None: ...
    def build(
        self, timestamp: int, server_id: int, images: Iterable[object]
    ) -> tuple[tuple[bytes, bytes], list[Sequence[object]]] | None: ...

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
        tail: bytes,
        expected_size: int,
    ) -> None: ...
    def end_group(self) -> None: ...

def rows_frame(
    images: bytes,
    *,
    type_code: int,
    timestamp: int,
    server_id: int,
    table_id: int,
    flags: int,
    column_count: int,
    present: bytes,
    present_after: bytes = b"",
    checksum: bool = True,
) -> bytes: ...
def gtid_parts(
    flags: int,
    uuid: bytes,
    gno: int,
    last_committed: int,
    sequence_number: int,
    immediate_commit_timestamp: int,
    original_commit_timestamp: int,
    immediate_server_version: int,
    original_server_version: int,
    tag: bytes = b"",
) -> tuple[bytes, bytes]: ...
def stamped(frames: tuple[bytes, ...], *, offset: int, checksum: bool) -> bytes: ...
def transaction(
    frames: tuple[bytes, ...],
    *,
    offset: int,
    checksum: bool,
    type_code: int,
    timestamp: int,
    server_id: int,
    header_flags: int,
    before: bytes,
    tail: bytes,
) -> bytes: ...
