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
    behind: bytes,
) -> bytes: ...
