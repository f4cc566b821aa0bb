from collections.abc import Callable, Sequence
from typing import Any

from binlogio._kernel.event_scanner import ImagePlan
from binlogio.rows.image import RowChange

class RowDecoder:
    images: ImagePlan
    def __init__(
        self,
        images: ImagePlan,
        plan: object,
        values: list[tuple[int, int, int, int]],
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
