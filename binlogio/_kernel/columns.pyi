from collections.abc import Sequence

from binlogio._kernel.memory import Memory

COPY: int
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
BYTES: int
PADDED: int
UTF8: int
LATIN: int
ENUM_NAMES: int
SET_NAMES: int
GEOMETRY: int
VECTOR: int
FLAGGED: int
JSON: int
DATES_ERROR: int
DATES_NULL: int
DATES_TEXT: int

class Column:
    kind: int
    count: int
    null_count: int
    validity: Memory
    data: Memory
    offsets: Memory
    more: Memory
    @property
    def data_bytes(self) -> int: ...
    def __init__(
        self,
        kind: int,
        width: int,
        first: int = 0,
        second: int = 0,
        policy: int = 0,
        names: Sequence[bytes] | None = None,
    ) -> None: ...
