from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Any

from binlogio._kernel.event_scanner import ImagePlan
from binlogio.rows.image import RowChange

class Form(IntEnum):
    SIGNED = 0
    UNSIGNED = 1
    FLOAT = 2
    DOUBLE = 3
    BITS = 4
    YEAR = 5
    DATE = 6
    DATETIME2 = 7
    TIMESTAMP2 = 8
    TIME2 = 9
    DECIMAL = 10
    UTF8 = 11
    BYTES = 12
    PADDED = 13
    ENUM = 14
    CALL = 15
    NOTHING = 16

class RowDecoder:
    def __init__(
        self,
        images: ImagePlan,
        plan: object,
        values: list[tuple[int, int, int, int, int, int]],
        functions: Sequence[Callable[[bytes], Any]],
        names: list[list[str] | None],
        diffs: Callable[[bytes], Any],
        image: type,
        change: type,
        absent: object,
        errors: tuple[type[BaseException], ...],
    ) -> None: ...
    def changes(
        self, operation: int, present: bytes, present_after: bytes, images: bytes
    ) -> list[RowChange] | None: ...
