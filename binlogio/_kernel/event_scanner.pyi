from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from binlogio._kernel.primitives import Memory

_Cut = TypeVar("_Cut")

class Cutter(Generic[_Cut]):
    at: int
    position_shift: int
    def cut(
        self,
        data: bytes | bytearray,
        at: int,
        offset: int,
        stop: int,
        inner: int,
        most: int,
        checksum: bool,
        verify: bool,
        shift: int,
        by_group: bool,
        /,
    ) -> list[_Cut]: ...

class ChoosingCutter(Cutter[bytes | memoryview]):
    codes: tuple[int, ...]
    chosen: GroupFilter | None
    inside: bool
    needs_data: bool
    def set_codes(self, codes: Iterable[int]) -> None: ...
    def forget_tables(self) -> None: ...

class ImagePlan:
    table: object
    def __init__(
        self, table: object, widths: Sequence[int], slots: Sequence[int], json_columns: Sequence[int], *, wanted: bool
    ) -> None: ...
    def for_table(self, table: object) -> ImagePlan: ...
    def set_record_bits(self, bits: Sequence[int], count: int) -> None: ...
    def row_count(self, operation: int, present: bytes, present_after: bytes, images: bytes) -> int: ...
    def whole_rows(
        self, operation: int, present: bytes, present_after: bytes, images: bytes | bytearray
    ) -> tuple[int, int]: ...

class EventIndex:
    offset: Memory
    event_size: Memory
    log_pos: Memory
    timestamp: Memory
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
def group_step(place: int, code: int, body: bytes) -> tuple[int, bool, bool, bool]: ...
def group_edges(
    buffer: bytes | bytearray | memoryview, index: EventIndex, offset: int, place: int, *, checksum: bool
) -> tuple[int, bytes]: ...
def pass_events(buffer: bytes | memoryview, offset: int, *, checksum: bool) -> int: ...
def stamp_events(buffer: bytearray | memoryview, offset: int, *, checksum: bool) -> int: ...
def event_packets(
    data: bytes | bytearray | memoryview, starts: NDArray[np.int64], sizes: NDArray[np.uint32], sequence: int
) -> bytearray: ...
def find_group(buffer: bytes | bytearray | memoryview, offset: int, *, checksum: bool) -> tuple[int, int]: ...
def payload_definitions(plain: bytes) -> list[tuple[int, bytes]]: ...

class GroupFilter:
    codes: tuple[int, ...]
    position_shift: int
    at: int
    good: int
    def __init__(
        self,
        *,
        start: int | None = ...,
        stop: int | None = ...,
        server_ids: Container[int] | None = ...,
        ask_gtid: Callable[[str | None], tuple[bool, int, int]] | None = ...,
        ask_table: Callable[[str, str], bool] | None = ...,
        ask_statement: Callable[[str, bytes], bool] | None = ...,
    ) -> None: ...
    def set_codes(self, codes: Collection[int]) -> None: ...
    def skip(
        self,
        data: bytes | bytearray,
        at: int,
        offset: int,
        stop: int,
        checksum: bool,
        verify: bool,
        shift: int,
        inside: bool,
        follow: Callable[[int, bytes], object],
    ) -> bool: ...
    def passes(self, code: int, body: bytes) -> bool: ...

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
        header_size: int = 19,
    ) -> None: ...
    def renumber(self, codes: Sequence[int]) -> None: ...
    def watch_changes(self, note_change: Callable[[int, bytes], bool] | None) -> None: ...
    def stop_at(self, offset: int, *, inside: bool = ...) -> None: ...
    def choose(
        self,
        *,
        pos: tuple[int, int],
        timestamp: tuple[int, int],
        group_time: tuple[int, int],
        server_ids: Container[int] | None,
        operations: Iterable[int],
        ask_gtid: Callable[[str | None], tuple[bool, int, int]] | None,
    ) -> None: ...
    keeps_sources: bool
    keeps_outcomes: bool
    open_savepoints: Callable[[], object] | None  # returns a `binlogio.schema.statements.Savepoints`
    follows_all: bool
    followed_at: int
    event_end: int
    def begin_payload(self, end_pos: int) -> None: ...
    def end_payload(self) -> None: ...
    @property
    def in_group(self) -> bool: ...
    @property
    def open_group(self) -> int | None: ...
    @property
    def lacks_end(self) -> bool: ...
    def begin_ahead(self) -> None: ...
    def look_ahead(self, data: bytes | memoryview, inner: bool = ...) -> int: ...
    def end_ahead(self) -> None: ...
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

SURVEY_NEED_DATA: int
SURVEY_DESCRIPTION: int
SURVEY_LOOK: int
SURVEY_BAD_SIZE: int
SURVEY_BAD_CHECKSUM: int
SURVEY_FULL: int
GROUP_FIELDS: tuple[str, ...]
RUN_FIELDS: tuple[str, ...]

class LogSurvey:
    sources: list[tuple[bytes, str] | tuple[int, int]]
    stored: int
    actual: int
    shift: int
    is_over: bool
    first_offset: int
    stop_offset: int
    def __init__(
        self,
        resolve_plan: Callable[[bytes], ImagePlan | None],
        looks_at: Collection[int],
        *,
        counts: bool,
        opened_size: int = ...,
        key_of: Callable[[object], bytes] | None = None,
        follow: Callable[[int, bytes], bool] | None = None,
        keeps_bounds: bool = False,
    ) -> None: ...
    def choose(
        self,
        chosen: GroupFilter,
        *,
        operations: Container[str] | None = None,
        ask_rows: Callable[[Any, int, bytes, int], tuple[int, int] | None] | None = None,
        ask_text: Callable[[str, bytes, int], bool] | None = None,
    ) -> None: ...
    text_at: int
    def take_change(self) -> None: ...
    def begin_log(self, *, checksum: bool, has_positions: bool, forgets_tables: bool) -> None: ...
    def resume(self) -> None: ...
    def forget_tables(self) -> None: ...
    def define(self, code: int, body: bytes) -> None: ...
    @property
    def in_group(self) -> bool: ...
    @property
    def group_begin(self) -> int: ...
    def end_log(self) -> None: ...
    def take_runs(self) -> tuple[int, Memory]: ...
    def take_bounds(self) -> tuple[Memory, Memory]: ...
    def take_groups(self) -> Memory: ...
    def take_problems(self) -> list[tuple[str, int, int]]: ...
    def type_counts(self) -> list[tuple[int, int, int, int, int]]: ...
    def table_counts(self) -> list[tuple[tuple[str, str], list[int], list[int], int, int]]: ...
    def walk(
        self, data: bytes | bytearray | memoryview, at: int, base: int, looked: bool = False
    ) -> tuple[int, int]: ...
    def begin_payload(self) -> None: ...
    def end_payload(self) -> None: ...
    def walk_payload(self, data: bytes | bytearray | memoryview, offset: int) -> int: ...
    def take_part(self, data: bytes | memoryview, offset: int) -> None: ...
    @property
    def minimal_image(self) -> tuple[int, int, int]: ...

class EditedTable:
    def __init__(self, name: str, is_wanted: bool, names: bytes | None) -> None: ...

class WholeGroupEditor:
    def __init__(
        self,
        *,
        had_checksum: bool,
        has_checksum: bool,
        drops_empty: bool,
        left: Container[int],
        unwanted: Container[int],
        table_of: Callable[[bytes], EditedTable] | None,
        bound_of: Callable[[bytes], bytes] | None,
    ) -> None: ...
    def edit(
        self, data: memoryview, starts: object, edges: object, number: int, offset: int
    ) -> tuple[bytes, Memory, dict[str, int]]: ...
