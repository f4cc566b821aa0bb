from collections.abc import Callable, Sequence
from typing import TypeAlias

from binlogio._kernel.charsets import Characters
from binlogio._kernel.images import ImagePlan

SIGNED: int
UNSIGNED: int
FLOAT: int
DOUBLE: int
NOTHING: int

Value: TypeAlias = tuple[bytes, int, int, int, int, Sequence[bytes] | None, Characters | None]
ByConstruct: TypeAlias = Callable[[int, bytes, bytes | None, int], bytes | None]

class ImageJson:
    plan: ImagePlan
    def __init__(
        self,
        plan: ImagePlan,
        schema: bytes,
        table: bytes,
        values: Sequence[Value],
        by_construct: ByConstruct,
        opened_size: int = ...,
    ) -> None: ...
