"""Events of LOAD DATA in statement format, which contain the statement and blocks of the file.

    load_event, new_load_event := thread_id: u32  exec_time: u32 (s)  skip_lines: u32  table_size: u8  schema_size: u8
                                  column_count: u32                                          -- post-header, 18 bytes
                                  options  name_sizes: u8[column_count]  names: (bytes 0x00)[column_count]
                                  table: bytes 0x00  schema: bytes 0x00  file: u8[*]
    options (load_event)       := 5 single bytes, option flags: u8, empty flags: u8
    options (new_load_event)   := 5 texts: u8 length, bytes;  option flags: u8
    create_file_event          := new_load_event's fields, with file_id: u32 after the post-header of 18; the file name
                                  ends with 0x00, then the first block of the file
    append_block_event, begin_load_query_event := file_id: u32  block: u8[*]
    exec_load_event, delete_file_event         := file_id: u32
    execute_load_query_event   := query_event's post-header, file_id: u32  start: u32  end: u32  duplicates: u8,
                                  query_event's body

Source: libs/mysql/binlog/event/load_data_events.h; for the event types 6, 8, 10 and 12, which 8.0 removed:
sql/log_event.h of 5.0 and 5.7.
"""

from __future__ import annotations

from typing import Any, Final

from construct import (
    Bytes,
    Const,
    Construct,
    Container,
    GreedyBytes,
    Int8ul,
    Int32ul,
    Rebuild,
    Struct,
    Terminated,
    ValidationError,
    this,
)

from binlogio.constants import EventType
from binlogio.events.base import NEW_HEADER, EventCodec, EventHeader
from binlogio.events.query import LoggedStatement, StatusVar, query_fields
from binlogio.frozen import dataclass
from binlogio.primitives import Bytes8, Utf8, ZeroEnded, read_exactly, utf8_size


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """The FIELDS and LINES clauses. `option_flags`: 1 DUMPFILE, 2 OPTIONALLY ENCLOSED, 4 REPLACE, 8 IGNORE.

    `empty_flags` exist only in the single-byte form of LOAD_EVENT, and are None in other events.
    """

    field_term: bytes
    enclosed: bytes
    line_term: bytes
    line_start: bytes
    escaped: bytes
    option_flags: int
    empty_flags: int | None


class _Options(Construct):  # type: ignore[misc]
    """`LoadOptions` in both forms: single bytes in LOAD_EVENT, texts in other events."""

    _texts = ("field_term", "enclosed", "line_term", "line_start", "escaped")

    def __init__(self, *, single_bytes: bool) -> None:
        super().__init__()
        self.single_bytes = single_bytes

    def _parse(self, stream: Any, context: Container, path: str) -> LoadOptions:
        if self.single_bytes:
            texts = {name: read_exactly(stream, 1, path) for name in self._texts}
        else:
            texts = {name: Bytes8._parsereport(stream, context, path) for name in self._texts}
        flags = Int8ul._parsereport(stream, context, path)
        empty = Int8ul._parsereport(stream, context, path) if self.single_bytes else None
        return LoadOptions(**texts, option_flags=flags, empty_flags=empty)

    def _build(self, obj: LoadOptions, stream: Any, context: Container, path: str) -> LoadOptions:
        for name in self._texts:
            text = getattr(obj, name)
            if self.single_bytes and len(text) != 1:
                raise ValidationError(f"{name} must be one byte in this event, found {text!r}", path=path)
            (Bytes(1) if self.single_bytes else Bytes8)._build(text, stream, context, path)
        Int8ul._build(obj.option_flags, stream, context, path)
        if self.single_bytes:
            Int8ul._build(obj.empty_flags, stream, context, path)
        return obj


class _ColumnNames(Construct):  # type: ignore[misc]
    """Column names: first the sizes of all names, then all names, each with a terminating zero byte."""

    def _parse(self, stream: Any, context: Container, path: str) -> tuple[str, ...]:
        sizes = read_exactly(stream, context._column_count, path)
        names = []
        for size in sizes:
            raw = read_exactly(stream, size + 1, path)
            if raw[-1]:
                raise ValidationError("a column name does not end in a zero byte", path=path)
            names.append(Utf8(Bytes(size)).parse(raw[:-1]))
        return tuple(names)

    def _build(self, obj: tuple[str, ...], stream: Any, context: Container, path: str) -> tuple[str, ...]:
        raw = [name.encode("utf-8", "surrogateescape") for name in obj]
        stream.write(bytes(len(name) for name in raw) + b"".join(name + b"\0" for name in raw))
        return obj


def _load(*, single_bytes: bool, tail: tuple[Construct, ...], file_id: bool = False) -> Struct:
    return Struct(
        "thread_id" / Int32ul,
        "exec_time" / Int32ul,
        "skip_lines" / Int32ul,
        "_table_size" / Rebuild(Int8ul, lambda ctx: utf8_size(ctx.table)),
        "_schema_size" / Rebuild(Int8ul, lambda ctx: utf8_size(ctx.schema)),
        "_column_count" / Rebuild(Int32ul, lambda ctx: len(ctx.columns)),
        *(("file_id" / Int32ul,) if file_id else ()),
        "options" / _Options(single_bytes=single_bytes),
        "columns" / _ColumnNames(),
        "table" / Utf8(Bytes(this._table_size)),
        Const(b"\0"),
        "schema" / Utf8(Bytes(this._schema_size)),
        Const(b"\0"),
        *tail,
    )


LOAD: Final = _load(single_bytes=True, tail=("file" / GreedyBytes,))
NEW_LOAD: Final = _load(single_bytes=False, tail=("file" / GreedyBytes,))
CREATE_FILE: Final = _load(single_bytes=False, file_id=True, tail=("file" / ZeroEnded, "block" / GreedyBytes))
FILE_BLOCK: Final = Struct("file_id" / Int32ul, "block" / GreedyBytes)
FILE_ID: Final = Struct("file_id" / Int32ul, Terminated)
EXECUTE_LOAD_QUERY: Final = Struct(
    *query_fields(
        GreedyBytes,
        "file_id" / Int32ul,
        "file_name_start" / Int32ul,
        "file_name_end" / Int32ul,
        "duplicates" / Int8ul,
    )
)


@dataclass(frozen=True, slots=True)
class LoadEvent:
    """LOAD DATA INFILE of 3.23 and 4.x (LOAD_EVENT, NEW_LOAD_EVENT). `file` is the name of a file on the server.

    `exec_time` is in seconds.
    """

    thread_id: int
    exec_time: int
    skip_lines: int
    options: LoadOptions
    columns: tuple[str, ...]
    table: str
    schema: str
    file: bytes
    header: EventHeader = NEW_HEADER


@dataclass(frozen=True, slots=True)
class CreateFileEvent:
    """LOAD DATA INFILE of 4.x with the first block of the file. EXEC_LOAD_EVENT executes it. `exec_time` in seconds."""

    thread_id: int
    exec_time: int
    skip_lines: int
    file_id: int
    options: LoadOptions
    columns: tuple[str, ...]
    table: str
    schema: str
    file: bytes
    block: bytes
    header: EventHeader = NEW_HEADER


@dataclass(frozen=True, slots=True)
class AppendBlockEvent:
    """A subsequent block of the file with number `file_id`."""

    file_id: int
    block: bytes
    header: EventHeader = NEW_HEADER


@dataclass(frozen=True, slots=True)
class BeginLoadQueryEvent:
    """The first block of the file with number `file_id`, since 5.0.3."""

    file_id: int
    block: bytes
    header: EventHeader = NEW_HEADER


@dataclass(frozen=True, slots=True)
class ExecLoadEvent:
    """Executes the LOAD DATA of the CREATE_FILE_EVENT with the same `file_id`."""

    file_id: int
    header: EventHeader = NEW_HEADER


@dataclass(frozen=True, slots=True)
class DeleteFileEvent:
    """Discards the file with number `file_id`, because LOAD DATA failed on the source."""

    file_id: int
    header: EventHeader = NEW_HEADER


@dataclass(frozen=True, slots=True)
class ExecuteLoadQueryEvent(LoggedStatement):
    """The LOAD DATA statement for the file of the BEGIN_LOAD_QUERY_EVENT with the same `file_id`.

    `sql[file_name_start:file_name_end]` is the file name, which a replica replaces by the name of its copy.
    `duplicates`: 0 error, 1 IGNORE, 2 REPLACE. `exec_time` is in seconds.
    """

    thread_id: int
    exec_time: int
    error_code: int
    file_id: int
    file_name_start: int
    file_name_end: int
    duplicates: int
    status_vars: tuple[StatusVar, ...]
    schema: str
    sql: bytes
    header: EventHeader = NEW_HEADER


FILE_BLOCKS: Final = (BeginLoadQueryEvent, CreateFileEvent, AppendBlockEvent)
LOAD_ENDS: Final = (ExecuteLoadQueryEvent, ExecLoadEvent, DeleteFileEvent, LoadEvent)
"""The events that end a LOAD DATA; the events in `FILE_BLOCKS` precede them."""
OLD_LOADS: Final = (LoadEvent, CreateFileEvent, ExecLoadEvent)
"""The events of LOAD DATA of servers before 5.0.3, which contain the clauses of the statement instead of its text."""

CODECS: Final = (
    EventCodec(EventType.LOAD_EVENT, LOAD, LoadEvent),
    EventCodec(EventType.CREATE_FILE_EVENT, CREATE_FILE, CreateFileEvent),
    EventCodec(EventType.APPEND_BLOCK_EVENT, FILE_BLOCK, AppendBlockEvent),
    EventCodec(EventType.EXEC_LOAD_EVENT, FILE_ID, ExecLoadEvent),
    EventCodec(EventType.DELETE_FILE_EVENT, FILE_ID, DeleteFileEvent),
    EventCodec(EventType.NEW_LOAD_EVENT, NEW_LOAD, LoadEvent),
    EventCodec(EventType.BEGIN_LOAD_QUERY_EVENT, FILE_BLOCK, BeginLoadQueryEvent),
    EventCodec(EventType.EXECUTE_LOAD_QUERY_EVENT, EXECUTE_LOAD_QUERY, ExecuteLoadQueryEvent, (26,)),
)
