from collections.abc import Callable, Collection, Container, Sequence
from typing import Any, TypeAlias, TypedDict

from typing_extensions import Unpack

from binlogio._kernel.column_values import Column
from binlogio._kernel.event_scanner import ChoosingCutter, Cutter, EventScanner, ImagePlan
from binlogio._kernel.primitives import Characters, Memory
from binlogio.events.table_map import TableMapEvent

def json_texts(
    after: Column, before: Column | None, by_construct: Callable[[bytes, bytes | None], str]
) -> tuple[Memory, Memory]: ...

class SourceNumbers:
    values: Memory
    validity: Memory

class SourceColumns:
    end_pos: SourceNumbers
    thread_id: SourceNumbers
    xid: SourceNumbers
    outcome: SourceNumbers
    commit_timestamp: SourceNumbers
    statement: SourceNumbers
    statements: list[bytes]

class MetadataColumns:
    source: SourceColumns | None
    count: int
    pos: Memory
    timestamp: Memory

class Side:
    validity: Memory
    rows: int
    columns: list[Column]

class Batch(MetadataColumns):
    before: Side
    after: Side
    failed_event: int
    failed_row: int
    failed_at: int
    failed_in_images: bool
    failed_partial: bool
    stopped_at_partial: bool
    has_diffs: bool
    value_bytes: int
    def __init__(self, plan: ImagePlan, columns: list[Column], takes_partial: bool = True) -> None: ...
    def fill(
        self,
        scanner: EventScanner,
        event: int,
        event_row: int,
        event_at: int,
        max_rows: int,
        max_bytes: int,
    ) -> tuple[int, int, int]: ...
    def finish(self) -> None: ...

def fill_all(
    scanner: EventScanner, batches: Sequence[Batch], first_events: Sequence[int], max_rows: int, max_bytes: int
) -> list[tuple[int, int, int]]: ...
def fill_windows(
    scanner: EventScanner,
    batches: Sequence[Batch | None],
    descriptor: int,
    buffer: bytearray,
    begin: int,
    end: int,
    offset: int,
    read_to: int,
    step: int,
    max_rows: int,
    max_bytes: int,
    most_open: int,
) -> tuple[int, int, int, int, int, list[tuple[int, tuple[int, int, int]]] | None]: ...

COMPACT: int
WIDE: int
SQL: int

Value: TypeAlias = tuple[bytes, int, int, int, int, Sequence[bytes] | None, Characters | None]
ByConstruct: TypeAlias = Callable[[int, bytes, bytes | None, int], bytes | None]

class ImageText:
    plan: ImagePlan
    def __init__(
        self,
        plan: ImagePlan,
        schema: bytes,
        table: bytes,
        values: Sequence[Value],
        by_construct: ByConstruct,
        *,
        style: int = ...,
        ends: Sequence[tuple[bytes, bytes]] | None = ...,
        pieces: tuple[bytes, bytes, bytes, bytes, bytes, bytes] = ...,
    ) -> None: ...
    def rows(
        self,
        operation: int,
        present: bytes,
        present_after: bytes,
        images: bytes,
        begin: int,
        most: int,
        write: Callable[[bytes], object] | None = ...,
    ) -> tuple[bytes, int, int] | None: ...

class ImageTexts:
    validity: Memory
    rows: int
    texts: Memory
    offsets: Memory

class MixedBatch(MetadataColumns):
    before: ImageTexts
    after: ImageTexts
    schema: Memory
    schema_offsets: Memory
    table: Memory
    table_offsets: Memory
    failed_event: int
    failed_in_images: bool
    sizes: list[int]
    def __init__(self, tables: Sequence[ImageText | None], sizes: Sequence[int] = ()) -> None: ...
    def fill(
        self, scanner: EventScanner, event: int, event_row: int, event_at: int, max_rows: int, max_bytes: int
    ) -> tuple[int, int, int]: ...

Node: TypeAlias = tuple[int, int, tuple[Memory | None, ...], Sequence[Node]]

class Exported:
    def __init__(self, length: int, nodes: Sequence[Node]) -> None: ...
    @property
    def address(self) -> int: ...

def metadata_nodes(metadata: MetadataColumns, file: Node, update: Node) -> list[Node]: ...
def presence_node(side: Side | ImageTexts, count: int) -> Node: ...
def text_node(offsets: Memory, data: Memory, count: int, validity: Memory | None = None, nulls: int = 0) -> Node: ...
def image_node(side: Side, count: int, forms: Sequence[int], zeros: Memory) -> Node: ...
def repeated_text(text: bytes, count: int) -> tuple[Memory, Memory]: ...

class MappedTable:
    schema: bytes
    table: bytes
    text: bytes
    event: TableMapEvent
    pos: int
    def __init__(
        self, key: bytes, schema: bytes, table: bytes, full_name: bytes, text: bytes, event: TableMapEvent
    ) -> None: ...

class KnownStatus:
    text: bytes
    def __init__(self, key: bytes, text: bytes, form: int, xid: int | None) -> None: ...

class EventWalk(Cutter[int]):  # `cut` returns a range
    count: int
    payload_end: int
    def describe(
        self,
        by_construct: Collection[int],
        parse_table: Callable[[bytes], MappedTable | None] | None,
        parse_status: Callable[[int, bytes], KnownStatus | None] | None,
    ) -> None: ...
    @property
    def is_full(self) -> bool: ...
    group_begin: int
    @property
    def group(self) -> tuple[int, str | None, int | None, int | None]: ...
    def set_group(
        self,
        place: int,
        gtid: str | None,
        last_committed: int | None,
        sequence_number: int | None,
        *,
        starts_group: bool,
    ) -> None: ...
    def begin_event(self) -> None: ...
    def map_table(self, table_id: int, table: MappedTable) -> None: ...
    def end_statement(self) -> None: ...
    def mapped_table(self, table_id: int) -> MappedTable | None: ...

class ParsedEvents(EventWalk):
    def __init__(
        self,
        *,
        opened_size: int,
        max_records: int,
        max_bytes: int,
        ask_gtid: Callable[[str | None], tuple[bool, int, int]] | None,
    ) -> None: ...

class LimitsAndFilter(TypedDict):
    opened_size: int
    max_records: int
    max_bytes: int
    pos: tuple[int, int]
    timestamp: tuple[int, int]
    server_ids: Container[int] | None
    ask_gtid: Callable[[str | None], tuple[bool, int, int]] | None

class EventRecords(EventWalk):
    def __init__(
        self,
        *,
        type_names: Sequence[bytes],
        wants_table: Callable[[str | None, str | None], bool] | None,
        **limits: Unpack[LimitsAndFilter],
    ) -> None: ...
    def append(self, values: Sequence[str | int | None]) -> None: ...
    def take(self) -> list[Node]: ...

class GroupRecords(EventWalk):
    is_open: bool
    def __init__(
        self,
        *,
        resolve: Callable[[MappedTable], ImagePlan | None],
        wants_table: Callable[[str | None, str | None], bool] | None,
        **limits: Unpack[LimitsAndFilter],
    ) -> None: ...
    def take(self) -> list[Node]: ...
    def begin(
        self, pos: int, timestamp: int, server_id: int, commit_us: int | None, original_us: int | None
    ) -> None: ...
    def add(
        self,
        end_pos: int,
        *,
        outcome: str | None = None,
        xid: int | None = None,
        is_compressed: bool = False,
        statement: str | None = None,
    ) -> None: ...
    def add_rows(self, table: MappedTable, operation: int, rows: int, size: int) -> None: ...
    def pass_to(self, end_pos: int) -> None: ...
    def finish(self) -> None: ...

InverseColumn: TypeAlias = tuple[
    tuple[bytes, bytes, bytes], tuple[bytes, bytes], int, tuple[bytes, ...], bool, bool, bool, bool
]

class InverseRows:
    step: Any
    rows: int
    def __init__(
        self,
        step: object,
        sql: InverseSql | None = ...,
        *,
        cascades: bool = ...,
        plan: ImagePlan | None = ...,
        begin: bytes = ...,
        table_map: bytes = ...,
        head: bytes = ...,
        xid: bytes = ...,
        footer: int = ...,
        flags: int = ...,
        is_minimal: bool = ...,
        spare_bits: bool = ...,
    ) -> None: ...

class InverseGroups(ChoosingCutter):
    in_statement: bool
    gtids: list[tuple[tuple[bytes, str] | tuple[int, int], int, int, bool]]
    found: list[InverseRows]
    filtered: int
    group_sizes: bytes
    row_places: bytes
    prefix: bytes
    first: int
    end: int
    def __init__(
        self,
        *,
        resolve: Callable[[bytes, int, bytes], InverseRows | None],
        accepts: Callable[[bytes], bool],
    ) -> None: ...

class InverseSql:
    def __init__(
        self,
        images: ImageText,
        columns: Sequence[InverseColumn],
        key: Sequence[int],
        heads: tuple[bytes, bytes, bytes, bytes],
        most: int,
        *,
        compares: bool,
        is_mariadb: bool,
    ) -> None: ...
    def statements(
        self, operation: int, present: bytes, present_after: bytes, images: bytes
    ) -> tuple[bytes, int] | None: ...
