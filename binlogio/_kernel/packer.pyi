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
