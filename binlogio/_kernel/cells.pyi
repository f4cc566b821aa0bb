from collections.abc import Sequence

from typing_extensions import Buffer

COPY1: int
COPY2: int
COPY4: int
COPY8: int
INT24: int
UINT24: int
YEAR: int
BITS: int
LITTLE64: int
LITTLE16: int
DECIMAL128: int
DECIMAL256: int
DATE: int
DATETIME2: int
TIMESTAMP2: int
TIME2: int
OLD_TIME: int
OLD_DATETIME: int
OLD_TIMESTAMP: int
HIRES_TIME: int
HIRES_DATETIME: int
HIRES_TIMESTAMP: int
BYTES: int
PADDED: int
UTF8: int
LATIN: int
ENUM_NAMES: int
SET_NAMES: int
GEOMETRY: int
VECTOR: int
READY: int
JSON: int
UUID: int
INET4: int
INET6: int
COMPRESSED: int
DIFFS: int

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
