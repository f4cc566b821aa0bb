from collections.abc import Sequence

SIGNED: int
UNSIGNED: int
FLOAT: int
DOUBLE: int
DECIMAL_NUMBER: int
DATE: int
DATETIME: int
TIMESTAMP: int
TIME: int
TEXT: int
BYTES: int
OTHER: int

class RowPacker:
    def __init__(self, columns: Sequence[tuple[object, ...]], spare_null_bits: int = False) -> None: ...
    def pack(self, values: Sequence[object]) -> bytes | None: ...

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
) -> tuple[bytes, bytes]: ...
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
    behind: bytes,
) -> bytes: ...
