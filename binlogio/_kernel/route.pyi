from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from binlogio._kernel.images import ImagePlan

NEED_DATA: int
DESCRIPTION: int
BIG_PAYLOAD: int
BAD_EVENT: int
FULL: int
STOP: int

class Router:
    plans: list[ImagePlan]
    kept_bytes: int
    inner_rows: int
    payload_stop: int
    position_shift: int
    def __init__(
        self,
        resolve_plan: Callable[[bytes], ImagePlan | None],
        open_payload: Callable[[bytes, int], bytes | None],
        *,
        checksum: bool,
        verify: bool = True,
        follow: Callable[[int, bytes], bool] | None = None,
        opened_size: int = ...,
    ) -> None: ...
    @property
    def rows_event_count(self) -> int: ...
    @property
    def last_table(self) -> Any: ...
    def rows_event(self, number: int) -> tuple[int, int, int, bytes, bytes, bytes]: ...
    def first_row(self, number: int) -> int: ...
    def found(self) -> list[tuple[int, int]]: ...
    def describe(
        self,
        *,
        checksum: bool,
        post_headers: Mapping[int, int],
        unknown: Collection[int] = (),
        has_positions: bool = False,
    ) -> None: ...
    def renumber(self, codes: Sequence[int]) -> None: ...
    def stop_at(self, offset: int) -> None: ...
    def choose(
        self,
        *,
        pos: tuple[int, int],
        timestamp: tuple[int, int],
        server_ids: Collection[int] | None,
        operations: Iterable[int],
        wants_group: Callable[[str | None], bool] | None,
    ) -> None: ...
    def describe_part(self, *, checksum: bool) -> None: ...
    def number_rows_from(self, first_row: int) -> None: ...
    def pass_inner_rows(self, count: int) -> None: ...
    def count_rows(self, data: bytes | bytearray) -> tuple[int, int]: ...
    def end_statement(self) -> None: ...
    def forget_plans(self) -> None: ...
    def keep_valid_plans(self) -> list[int]: ...
    def clear(self) -> None: ...
    def route(
        self, data: bytes | bytearray | memoryview, at: int, base: int, pos: int = -1, new_pos: bool = True
    ) -> tuple[int, int]: ...
