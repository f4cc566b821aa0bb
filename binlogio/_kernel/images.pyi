from collections.abc import Sequence

class ImagePlan:
    table: object
    def __init__(
        self, table: object, widths: Sequence[int], slots: Sequence[int], json_columns: Sequence[int], *, wanted: bool
    ) -> None: ...
    @property
    def wanted(self) -> bool: ...
    @property
    def slot_count(self) -> int: ...
