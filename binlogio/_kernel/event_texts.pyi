from collections.abc import Callable
from enum import IntEnum
from typing import TypeAlias

from binlogio._kernel.event_scanner import ChoosingCutter
from binlogio._kernel.row_decoder import ImageText

class OutputStyle(IntEnum):
    TEXT = 0
    JSON = 1
    SQL = 2

class SqlReading(IntEnum):
    NOTHING = 0
    ONLY_ASCII = 1
    UTF_8 = 2
    ESCAPING = 4

SETTINGS: int

QueryTexts: TypeAlias = tuple[bytes, bytes, bytes, int, tuple[tuple[int, int, bytes], ...]]

class Session:
    thread_id: int
    wrote_gtid: bool
    rows_gtid: bytes
    rows_thread: int
    rows_xid: int | None
    rows_statement: bytes | None
    def set(self, other: Session) -> int: ...
    def copy(self) -> Session: ...
    def __getitem__(self, place: int) -> int: ...
    def __setitem__(self, place: int, value: int) -> None: ...

class EventTexts(ChoosingCutter):
    session: Session
    is_mariadb: bool
    prefix: bytes
    finds_xids: bool
    paused: bool
    in_statement: bool
    group_shown: bool
    def __init__(
        self,
        *,
        style: int,
        has_gtids: bool = ...,
        form: object,
        by_python: Callable[[bytes, bytes], bytes | None],
        find_table: Callable[[bytes, bytes], tuple[bytes, bytes, ImageText | None, bool] | None],
        find_query: Callable[[bytes, bytes, int | None], QueryTexts | None],
        open_payload: Callable[[bytes, int], bytes | None] | None = ...,
        opened_size: int = ...,
        chooses_tables: bool = ...,
    ) -> None: ...
    def open_table(self, head: bytes, body: bytes) -> None: ...
    def close_statement(self) -> None: ...
    def forget_queries(self) -> None: ...
