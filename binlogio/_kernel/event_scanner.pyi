from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from binlogio._kernel.primitives import Memory

class ImagePlan:
    table: object
    def __init__(
        self, table: object, widths: Sequence[int], slots: Sequence[int], json_columns: Sequence[int], *, wanted: bool
    ) -> None: ...
    def for_table(self, table: object) -> ImagePlan: ...
    def set_record_bits(self, bits: Sequence[int], count: int) -> None: ...
    def row_count(self, operation: int, present: bytes, present_after: bytes, images: bytes) -> int: ...
    @property
    def wanted(self) -> bool: ...

class EventIndex:
    offset: Memory
    event_size: Memory
    log_pos: Memory
    timestamp: Memory
    server_id: Memory
    flags: Memory
    type_code: Memory
    end: int
    count: int
    def __len__(self) -> int: ...

def scan_headers(
    buffer: bytes | bytearray | memoryview,
    offset: int = 0,
    *,
    checksum: bool,
    verify: bool = True,
    stop_at_description: bool = True,
) -> EventIndex: ...

class GroupIndex:
    offset: Memory
    committed_us: Memory
    timestamp: Memory
    end: int
    count: int
    def __len__(self) -> int: ...

def scan_groups(buffer: bytes | bytearray | memoryview, offset: int = 0, *, checksum: bool) -> GroupIndex: ...
def group_step(place: int, code: int, body: bytes) -> tuple[int, bool, bool, bool]: ...
def pass_events(buffer: bytes | memoryview, offset: int, *, checksum: bool) -> int: ...
def stamp_events(buffer: bytearray | memoryview, offset: int, *, checksum: bool) -> int: ...
def find_group(buffer: bytes | bytearray | memoryview, offset: int, *, checksum: bool) -> tuple[int, int]: ...

NEED_DATA: int
DESCRIPTION: int
BIG_PAYLOAD: int
BAD_EVENT: int
FULL: int
STOP: int

def payload_head(body: bytes) -> tuple[int, int, int] | None: ...

class EventScanner:
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
        decompress: Callable[[bytes, int], bytes | None] | None = None,
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
        ask_gtid: Callable[[str | None], tuple[bool, int, int]] | None,
    ) -> None: ...
    def describe_part(self, *, checksum: bool) -> None: ...
    def number_rows_from(self, first_row: int) -> None: ...
    def pass_inner_rows(self, count: int) -> None: ...
    def count_rows(self, data: bytes | bytearray) -> tuple[int, int]: ...
    def end_statement(self) -> None: ...
    def forget_plans(self) -> None: ...
    def keep_valid_plans(self) -> list[int]: ...
    def clear(self) -> None: ...
    def scan(
        self, data: bytes | bytearray | memoryview, at: int, base: int, pos: int = -1, new_pos: bool = True
    ) -> tuple[int, int]: ...
