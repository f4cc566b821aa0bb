"""Edits event groups: removes tables, operations and rows, renames schemas, compresses and decompresses.

A bare event has no checksum, and the event size in its header excludes the checksum. Row images are decoded only for a
condition on rows.

    Rows events of tables that are not selected are removed together with their table maps. The last remaining rows
    event of a statement gets the flag STMT_END. Statements are selected by the tables that they change, as in replay
    and undo. A group of which nothing is left becomes an empty transaction: GTID, BEGIN, COMMIT.

`transaction_length` in MySQL's GTID events is set to the length of the new group. Compressed transactions are
decompressed if their content may change, and compressed again.

Source: sql/rpl_replica.cc and sql/log_event.cc, filtered transactions of a replica; MariaDB sql/log_event.cc,
Gtid_log_event; sql/binlog.cc, Binlog_cache_compressor.
"""

from __future__ import annotations

import io
from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, cast

from binlogio.archive.event_batches import raw_of
from binlogio.constants import (
    CHECKSUM_SIZE,
    EVENT_SIZE_BYTES,
    GROUP_STARTS,
    HEADER_SIZE,
    SERVER_ID_BYTES,
    TIMESTAMP_BYTES,
    TYPE_CODE_AT,
    ChecksumAlgorithm,
    EventType,
    HeaderFlag,
    QueryStatus,
    RowsFlag,
)
from binlogio.dotted_names import dotted_name
from binlogio.errors import BinlogError, BinlogFormatError, UnsupportedFeature
from binlogio.events import codec_for
from binlogio.events.base import DEFAULT_CONTEXT, ParseContext, parse_header
from binlogio.events.gtid import GtidTaggedEvent
from binlogio.events.load import ExecuteLoadQueryEvent
from binlogio.events.mariadb import MariadbGtidEvent, MariadbGtidExtraFlag, MariadbGtidFlag
from binlogio.events.query import POST_HEADER, QueryEvent, sizes_before_sql
from binlogio.events.transaction_payload import parse_payload_head
from binlogio.format.decoder import plain_payload
from binlogio.format.encoder import Encoder
from binlogio.format.framing import EventFrame, EventFramer
from binlogio.primitives import lenenc
from binlogio.schema.source import DefinitionSource
from binlogio.schema.statements import CreateWithRows, OtherStatement, first_word, recognize, updates_on_duplicate
from binlogio.storage.compression import compress_zstd, decompress_zstd
from binlogio.storage.spill_file import TemporaryFile
from binlogio.writer.log.group import Group
from binlogio.writer.log.log_builder import COMPRESSED_TYPES, LogBuilder
from binlogio.writer.session.cache import FrameFile

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from binlogio._kernel.event_scanner import EditedTable, WholeGroupEditor
    from binlogio.archive.event_batches import LargeBody
    from binlogio.events import BinlogEvent, RowsEvent
    from binlogio.events.format_description import FormatDescriptionEvent
    from binlogio.events.table_map import TableMapEvent
    from binlogio.replay.filters import ReplayFilter
    from binlogio.schema.given import GivenDefinitions

_OPERATIONS: Final[dict[int, str]] = {
    EventType.WRITE_ROWS_EVENT_V1: "insert", EventType.UPDATE_ROWS_EVENT_V1: "update",
    EventType.DELETE_ROWS_EVENT_V1: "delete", EventType.WRITE_ROWS_EVENT: "insert",
    EventType.UPDATE_ROWS_EVENT: "update", EventType.DELETE_ROWS_EVENT: "delete",
    EventType.PARTIAL_UPDATE_ROWS_EVENT: "update", EventType.WRITE_ROWS_COMPRESSED_EVENT_V1: "insert",
    EventType.UPDATE_ROWS_COMPRESSED_EVENT_V1: "update", EventType.DELETE_ROWS_COMPRESSED_EVENT_V1: "delete",
    EventType.WRITE_ROWS_COMPRESSED_EVENT: "insert", EventType.UPDATE_ROWS_COMPRESSED_EVENT: "update",
    EventType.DELETE_ROWS_COMPRESSED_EVENT: "delete",
}  # fmt: skip
_PLAIN_TYPES: Final[dict[int, int]] = {
    **{int(compressed): int(plain) for plain, compressed in COMPRESSED_TYPES.items()},
    int(EventType.QUERY_COMPRESSED_EVENT): int(EventType.QUERY_EVENT),
    int(EventType.WRITE_ROWS_COMPRESSED_EVENT): int(EventType.WRITE_ROWS_EVENT),
    int(EventType.UPDATE_ROWS_COMPRESSED_EVENT): int(EventType.UPDATE_ROWS_EVENT),
    int(EventType.DELETE_ROWS_COMPRESSED_EVENT): int(EventType.DELETE_ROWS_EVENT),
}
_COMPRESSED_TYPES: Final = {plain: compressed for compressed, plain in _PLAIN_TYPES.items()}
_TEXTS: Final = frozenset((EventType.ROWS_QUERY_LOG_EVENT, EventType.ANNOTATE_ROWS_EVENT))
_CONTEXT: Final = frozenset((
    EventType.INTVAR_EVENT, EventType.RAND_EVENT, EventType.USER_VAR_EVENT, EventType.BEGIN_LOAD_QUERY_EVENT,
    EventType.APPEND_BLOCK_EVENT,
))  # fmt: skip
_QUERIES: Final = frozenset((
    EventType.QUERY_EVENT, EventType.QUERY_COMPRESSED_EVENT, EventType.EXECUTE_LOAD_QUERY_EVENT,
))  # fmt: skip
_OLD: Final = frozenset((
    EventType.LOAD_EVENT, EventType.NEW_LOAD_EVENT, EventType.CREATE_FILE_EVENT, EventType.EXEC_LOAD_EVENT,
    EventType.PRE_GA_WRITE_ROWS_EVENT, EventType.PRE_GA_UPDATE_ROWS_EVENT, EventType.PRE_GA_DELETE_ROWS_EVENT,
))  # fmt: skip
GTIDS: Final = frozenset(GROUP_STARTS) - {EventType.ANONYMOUS_GTID_LOG_EVENT}
_COMPRESSIBLE: Final = frozenset((*_OPERATIONS, EventType.TABLE_MAP_EVENT, *_TEXTS))
_BEGIN_VARIABLES: Final = frozenset((
    QueryStatus.FLAGS2, QueryStatus.SQL_MODE, QueryStatus.CATALOG_NZ, QueryStatus.CHARSET, QueryStatus.TIME_ZONE,
))  # fmt: skip
_ALTER: Final = (
    MariadbGtidExtraFlag.START_ALTER | MariadbGtidExtraFlag.COMMIT_ALTER | MariadbGtidExtraFlag.ROLLBACK_ALTER
)
_TABLE_ID: Final = slice(HEADER_SIZE, HEADER_SIZE + 6)
_ROWS_FLAGS_AT: Final = HEADER_SIZE + 6
_SCHEMA_AT: Final = HEADER_SIZE + 6 + 2
_CLOCK_END: Final = HEADER_SIZE + 1 + 16 + 8 + 1 + 8 + 8
_BOUNDS: Final = frozenset((b"BEGIN", b"COMMIT", b"ROLLBACK"))
_PAYLOAD_FIELDS: Final = 64  # bytes that contain the fields before a payload
_LEVEL: Final = 3  # binlog_transaction_compression_level_zstd
_LEAST_COMPRESSED: Final = 256  # bytes; default of log_bin_compress_min_len
_MOST_COMPRESSED: Final = 256 << 20
_MOST_HELD: Final = 16 << 20
_TIMES_SIZE: Final = 4 + 4  # thread_id and exec_time of a QUERY_EVENT
_PAYLOAD: Final = int(EventType.TRANSACTION_PAYLOAD_EVENT)
_TABLE_MAP: Final = int(EventType.TABLE_MAP_EVENT)
_INCIDENT: Final = int(EventType.INCIDENT_EVENT)
_MARIADB_GTID: Final = int(EventType.MARIADB_GTID_EVENT)
_GTID_TAGGED: Final = int(EventType.GTID_TAGGED_LOG_EVENT)
_QUERY: Final = int(EventType.QUERY_EVENT)
_XID: Final = int(EventType.XID_EVENT)
_STMT_END: Final = int(RowsFlag.STMT_END)


class HeldFrames:
    """The bare events of a group: up to 16 MiB in memory, more in a temporary file. `size` is in bytes."""

    def __init__(self) -> None:
        self.size = 0
        self.count = 0
        self._memory: list[bytes] = []
        self._in_memory = 0
        self._file: FrameFile | None = None

    def append(self, frame: bytes) -> None:
        """Add an event.

        Raises:
            OSError: the temporary file cannot be written.
        """
        size = len(frame)
        self._memory.append(frame)
        self._in_memory += size
        self.size += size
        self.count += 1
        if self._in_memory > _MOST_HELD:
            self._file = self._file or FrameFile(TemporaryFile())
            self._file.extend(self._memory[:-1])
            self._file.extend([frame])  # alone: a large one is not copied
            self._memory, self._in_memory = [], 0

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._memory) if self._file is None else chain(self._file, self._memory)

    def close(self) -> None:
        """Delete the temporary file."""
        if self._file is not None:
            self._file.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class EditedGroup:
    """A group as it is written into the new log.

    Args:
        frames: its bare events, including the first one.
        is_empty: the filters left nothing of its changes.
        has_gtid: it has a GTID that is not anonymous.
        dropped: the number of rows events removed, by table.
    """

    frames: Iterable[bytes]
    is_empty: bool
    has_gtid: bool
    dropped: Counter[str]


@dataclass(slots=True)
class _Editing:
    """The state while a group is edited."""

    out: HeldFrames = field(default_factory=HeldFrames)
    lead: list[bytes] = field(default_factory=list)  # statement texts and table maps before the next rows event
    context: list[bytes] = field(default_factory=list)  # INTVAR, RAND, USER_VAR, ... events before the next statement
    last_rows: bytes | None = None  # the last rows event kept; it may need the flag STMT_END
    tables: dict[bytes, TableMapEvent] = field(default_factory=dict)
    dropped: Counter[str] = field(default_factory=Counter)
    has_change: bool = False
    has_dropped: bool = False
    statement: QueryEvent | None = None  # the last statement that was removed

    def flush_rows(self) -> None:
        if self.last_rows is not None:
            self.out.append(self.last_rows)
            self.last_rows = None

    def flush(self) -> None:
        self.flush_rows()
        for event in self.lead:
            self.out.append(event)
        self.lead.clear()


class GroupEditor:
    """Edits the event groups of logs, one log after the other."""

    def __init__(
        self,
        wanted: ReplayFilter,
        compression: bool | None,  # noqa: FBT001
        definitions: GivenDefinitions | None,
    ) -> None:
        self._wanted = wanted
        self._compression = compression
        self._selects = wanted.is_partial
        self._operations = None if wanted.rows is None else wanted.rows.operations
        self._condition = None if wanted.rows is None else wanted.rows.condition
        self._definitions = DefinitionSource(definitions, follows_ddl=self._condition is not None)
        self._has_checksum = False
        self._file = ""
        self._offset = 0  # of the event that is edited
        self._context = DEFAULT_CONTEXT
        self._builder: LogBuilder | None = None
        self._maps: dict[bytes, bytes] = {}

    def begin_log(self, name: str, description: FormatDescriptionEvent) -> None:
        """Begin the next source log, and set its format.

        Raises:
            UnsupportedFeature: compression is requested, and the server version does not support it.
        """
        self._definitions.begin_log(name)
        self._file = name
        self._has_checksum = description.context.has_checksum
        self._context = replace(description.context, checksum_algorithm=ChecksumAlgorithm.OFF)
        bare = replace(description, checksum_algorithm=ChecksumAlgorithm.OFF)
        self._builder = LogBuilder(bare) if not self._context.is_mariadb else None
        code = EventType.QUERY_COMPRESSED_EVENT if self._context.is_mariadb else _PAYLOAD
        if self._compression and self._context.post_header_size(code, 255) == 255:
            raise UnsupportedFeature(
                "servers of this version do not compress events",
                field="server_version",
                found=description.server_version,
            )

    def edit(self, group: Iterable[bytes], offset: int, *, has_checksum: bool) -> EditedGroup:
        """Return the edited group.

        Args:
            group: its bare events.
            offset: the end of its first event in the source, for errors.
            has_checksum: the new log has checksums, which count in `transaction_length`.

        Raises:
            BinlogError: an event is damaged, or the filters cannot be applied to a statement.
            OSError: a temporary file cannot be written.
        """
        events = iter(group)
        first = next(events)
        has_start = first[TYPE_CODE_AT] in GROUP_STARTS
        rest = events if has_start else chain((first,), events)
        tail = CHECKSUM_SIZE if self._has_checksum else 0
        self._offset = offset if has_start else offset - len(first) - tail
        editing = _Editing()
        was_compressed = False
        try:
            for event in rest:
                if event[TYPE_CODE_AT] == _PAYLOAD and self._opens:
                    was_compressed = True
                    for inner in self._opened(event):
                        self._take(editing, inner)
                else:
                    self._take(editing, event)
                self._offset += len(event) + tail
        except BinlogError as exc:
            exc.locate(file=self._file, offset=self._offset)
            raise
        editing.flush()
        for event in editing.context:
            editing.out.append(event)
        is_empty = editing.has_dropped and not editing.has_change
        frames: HeldFrames | Sequence[bytes] = editing.out
        if is_empty and editing.statement is not None and not editing.out.count:
            first, frames = self._empty(first if has_start else None, editing.statement)
        elif self._compression or (was_compressed and self._compression is None):
            frames = self._compressed(editing.out, first)
        if has_start:
            first = self._with_length(first, frames, CHECKSUM_SIZE if has_checksum else 0)
            whole: Iterable[bytes] = chain((first,), frames)
        else:
            whole = frames
        has_gtid = has_start and first[TYPE_CODE_AT] in GTIDS
        return EditedGroup(frames=whole, is_empty=is_empty, has_gtid=has_gtid, dropped=editing.dropped)

    def note(self, event: bytes) -> None:
        """Remember the table maps of the group that is read, for `parts`; call it for each of its bare events."""
        if event[TYPE_CODE_AT] == _TABLE_MAP:
            self._maps[event[_TABLE_ID]] = event
        elif event[TYPE_CODE_AT] not in _OPERATIONS:
            self._maps.clear()

    def parts(self, data: memoryview, body: LargeBody, size: int) -> Iterator[bytes]:
        """Yield a large event of `size` bytes, which begins with `data`, as bare events: the rows of it in parts."""
        header = bytes(data[:HEADER_SIZE])
        pieces = map(bytes, body)
        first = next(pieces, b"")
        size -= CHECKSUM_SIZE if self._has_checksum else 0
        table = self._maps.get(first[:6]) if self._selects else None
        if table is not None and header[TYPE_CODE_AT] in _OPERATIONS:
            from binlogio.rows.row_parts import row_parts  # noqa: PLC0415 - there may be no kernel

            event: RowsEvent = parse_bare(with_size(header, HEADER_SIZE + len(first)) + first, self._context)
            plan = self._definitions.plan(parse_bare(table, self._context), self._context)
            if len(plan.columns) == event.column_count:
                left = size - HEADER_SIZE - len(first)
                start = first[: len(first) - len(event.images)]
                for images, is_last in row_parts(event, plan, lambda _: next(pieces, b""), left):
                    head = with_size(header, HEADER_SIZE + len(start) + len(images))
                    flags = (event.flags if is_last else event.flags & ~_STMT_END).to_bytes(2, "little")
                    frame = b"".join((head, start[:6], flags, start[8:], images))
                    del images
                    yield frame
                return
        whole = io.BytesIO()
        whole.writelines(chain((with_size(header, size), first), pieces))
        yield whole.getvalue()  # the same bytes, where `join` copies them

    @property
    def follows_ddl(self) -> bool:
        """True if `pass_over` must be called for the events that are not edited."""
        return self._condition is not None

    def pass_over(self, event: bytes) -> None:
        """Follow the DDL in a bare event that is not copied."""
        self._definitions.follow_body(event[TYPE_CODE_AT], event[HEADER_SIZE:], self._context)

    def whole_groups(self, *, has_checksum: bool, drops_empty: bool) -> WholeGroupEditor | None:
        """Return the kernel's editor for groups that are complete in a batch; None if each group must be parsed.

        It produces the same bytes as `edit`, and stops at a group with event types that only `edit` handles.
        """
        if self._compression is not None:
            return None
        from binlogio._kernel.event_scanner import WholeGroupEditor  # noqa: PLC0415 - the kernel is optional

        left = {_GTID_TAGGED}
        if self._selects:
            left |= {*_CONTEXT, *_QUERIES, *_OLD, _PAYLOAD} - {_QUERY}
            left |= {code for code in (*_OPERATIONS, _TABLE_MAP) if self._context.post_header_size(code, 8) == 6}
        if self._condition is not None:
            left |= {code for code in _OPERATIONS if self._wants_operation(code)}
        return WholeGroupEditor(
            had_checksum=self._has_checksum,
            has_checksum=has_checksum,
            drops_empty=drops_empty,
            left=left,
            unwanted={code for code in _OPERATIONS if not self._wants_operation(code)},
            table_of=self._table_of if self._selects else None,
            bound_of=self._bound_of if self._wanted.rewrite_db else None,
        )

    def _table_of(self, names: bytes) -> EditedTable:
        """Return how the kernel edits a table, given the schema and table name fields of its table map."""
        from binlogio._kernel.event_scanner import EditedTable  # noqa: PLC0415

        end = 1 + names[0]
        schema, table = (part.decode("utf-8", "surrogateescape") for part in (names[1:end], names[end + 2 : -1]))
        other = self._wanted.schema(schema)
        renamed = None if other == schema else _schema_bytes(other) + names[end:]
        return EditedTable(dotted_name(schema, table), self._wanted.wants_table(schema, table), renamed)

    def _bound_of(self, event: bytes) -> bytes:
        """Return BEGIN, COMMIT or ROLLBACK with renamed schemas, from the field of the schema's size on."""
        return self._renamed_bound(event)[HEADER_SIZE + _TIMES_SIZE :]

    # ------------------------------------------------------------------------------------------------------ one event

    @property
    def _opens(self) -> bool:
        """True if compressed transactions must be decompressed."""
        return self._selects or self._compression is False

    def _take(self, editing: _Editing, event: bytes) -> None:
        code = event[TYPE_CODE_AT]
        if self._selects:
            if code in _OPERATIONS:
                self._rows(editing, event, code)
                return
            if code == _TABLE_MAP:
                self._table_map(editing, event)
                return
            if code in _TEXTS:
                editing.lead.append(event)
                return
            if code in _CONTEXT:
                editing.context.append(event)
                return
            if code in _QUERIES:
                self._statement(editing, event)
                return
            if code in _OLD:
                raise UnsupportedFeature("an event of an old server, to which filters by name cannot be applied")
        editing.flush()
        editing.has_change |= code == _INCIDENT
        editing.out.append(self._recoded(event))

    def _rows(self, editing: _Editing, event: bytes, code: int) -> None:
        if self._context.post_header_size(code, 8) == 6:
            raise UnsupportedFeature("a rows event of MySQL 5.1.5 or older, to which filters cannot be applied")
        if len(event) <= _ROWS_FLAGS_AT:
            raise BinlogFormatError("a rows event is too short", found=len(event))
        ends_statement = event[_ROWS_FLAGS_AT] & _STMT_END
        table = editing.tables.get(event[_TABLE_ID])
        chosen: bytes | None = event
        if table is not None:
            is_wanted = self._wanted.wants_table(table.schema, table.table) and self._wants_operation(code)
            chosen = self._chosen(event, table) if is_wanted else None
        if chosen is not None:
            editing.flush()
            editing.last_rows = self._recoded(chosen)
            editing.has_change |= table is not None
        elif table is not None:
            editing.has_dropped = True
            editing.dropped[dotted_name(table.schema, table.table)] += 1
        if ends_statement:
            last = editing.last_rows
            if last is not None and not last[_ROWS_FLAGS_AT] & _STMT_END:
                flags = last[_ROWS_FLAGS_AT] | _STMT_END
                editing.last_rows = b"%b%c%b" % (last[:_ROWS_FLAGS_AT], flags, last[_ROWS_FLAGS_AT + 1 :])
            editing.flush_rows()
            editing.lead.clear()

    def _table_map(self, editing: _Editing, event: bytes) -> None:
        table: TableMapEvent = parse_bare(event, self._context, self._offset)
        name = table.schema, table.table
        editing.tables[event[_TABLE_ID]] = table
        if not self._wanted.wants_table(*name):
            return
        schema = self._wanted.schema(name[0])
        if schema != name[0]:
            event = _with_schema(event, schema)
        editing.lead.append(event)

    def _chosen(self, event: bytes, table: TableMapEvent) -> bytes | None:
        """Return a rows event with the rows that the condition selects; None if it selects no row.

        Raises:
            ConditionError: no definition, DDL or metadata names the columns, or a value does not fit its column.
            UnsupportedFeature: a row cannot be compared.
        """
        rows = self._wanted.rows
        if self._condition is None or rows is None:
            return event
        plan = self._definitions.plan(table, self._context)
        parsed: RowsEvent = parse_bare(event, self._context, self._offset)
        chosen = rows.of(parsed, plan)
        if chosen is None or chosen is parsed:
            return None if chosen is None else event
        from binlogio.replay.row_changes import has_quick_frame, rows_frame_of  # noqa: PLC0415 - for a condition only

        if has_quick_frame(chosen) and not chosen.header.flags:
            return rows_frame_of(chosen, chosen.table_id)
        return encode_bare(chosen, self._context)

    def _wants_operation(self, code: int) -> bool:
        return self._operations is None or _OPERATIONS[code] in self._operations

    def _statement(self, editing: _Editing, raw: bytes) -> None:
        """Keep, rename or remove a statement.

        Raises:
            BinlogError: the filters cannot be applied to it.
        """
        editing.flush()
        if not editing.context and _text_of(raw) in _BOUNDS:
            editing.out.append(self._renamed_bound(raw) if self._wanted.rewrite_db else raw)
            return
        event: Any = parse_bare(raw, self._context, self._offset)
        self._definitions.follow(event, self._context)
        is_load = isinstance(event, ExecuteLoadQueryEvent)
        kind = recognize(event.sql)
        is_wanted, changed = True, event
        if is_load or isinstance(kind, (OtherStatement, CreateWithRows)):
            is_wanted, changed = self._judged(event)
            if is_wanted:
                editing.has_change = True
        if not is_wanted:
            editing.has_dropped = True
            editing.context.clear()
            editing.statement = event
            return
        changed = self._wanted.with_schemas(changed)
        for one in editing.context:
            editing.out.append(one)
        editing.context.clear()
        editing.out.append(self._recoded(raw if changed == event else encode_bare(changed, self._context)))

    def _renamed_bound(self, raw: bytes) -> bytes:
        """Return BEGIN, COMMIT or ROLLBACK with renamed schemas."""
        return encode_bare(self._wanted.with_schemas(parse_bare(raw, self._context, self._offset)), self._context)

    def _judged(self, event: Any) -> tuple[bool, Any]:
        """Return whether a statement is kept, and the statement with renamed schemas."""
        named = self._wanted.statement(event, self._context)
        if named.refusal is not None:
            raise named.refusal
        if not named.is_wanted:
            return False, event
        if self._wanted.rows is not None and not self._wants_text(event):
            return False, event
        return True, replace(event, sql=named.sql)

    def _wants_text(self, event: QueryEvent | ExecuteLoadQueryEvent) -> bool:
        """Return whether the operation of a statement is selected; DDL always is.

        Raises:
            UnsupportedFeature: the operation cannot be determined, or rows are selected by value.
        """
        sql = event.sql
        if isinstance(event, QueryEvent):
            kind = recognize(sql)
            if not (isinstance(kind, OtherStatement) and kind.changes_rows):
                return True
        text = sql.decode("utf-8", "surrogateescape")
        operation = {"INSERT": "insert", "UPDATE": "update", "DELETE": "delete"}.get(first_word(text))
        is_known = operation is not None and not (operation == "insert" and updates_on_duplicate(text))
        if is_known and self._operations is not None and operation not in self._operations:
            return False
        if not is_known or self._condition is not None:
            raise UnsupportedFeature(
                "rows are selected by operation or value, which cannot be done in a statement that changes rows",
                found=sql[:80].decode("utf-8", "replace"),
            )
        return True

    # ---------------------------------------------------------------------------------------------------- compression

    def _opened(self, raw: bytes) -> Iterator[bytes]:
        """Yield the events in a compressed transaction."""
        header = parse_header(raw, self._offset, self._context)
        head = parse_payload_head(raw[HEADER_SIZE : HEADER_SIZE + _PAYLOAD_FIELDS], len(raw) - HEADER_SIZE, header)
        if head is None or len(raw) < _MOST_HELD:
            event = parse_bare(raw, self._context, self._offset)
        else:
            event = replace(head[0], payload=cast("bytes", memoryview(raw)[HEADER_SIZE + head[1] :]))
        limits = replace(self._context.limits, event_size=self._context.limits.opened_size)
        framer = EventFramer(context=replace(self._context, limits=limits), has_positions=False)
        for piece in plain_payload(event, decompress_zstd):
            framer.feed(piece)
            while isinstance(frame := framer.next_frame(), EventFrame):
                yield raw_of(frame)
        framer.finish()
        framer.next_frame()

    def _recoded(self, event: bytes) -> bytes:
        """Return an event of MariaDB compressed or decompressed, as requested; other events unchanged."""
        if self._compression is None or not self._context.is_mariadb:
            return event
        code = event[TYPE_CODE_AT]
        types = _COMPRESSED_TYPES if self._compression else _PLAIN_TYPES
        other = types.get(code)
        if other is None or (self._compression and len(event) < _LEAST_COMPRESSED):
            return event
        parsed = parse_bare(event, self._context, self._offset)
        recoded = encode_bare(replace(parsed, header=replace(parsed.header, type_code=other)), self._context)
        return event if self._compression and len(recoded) >= len(event) else recoded

    def _compressed(self, frames: HeldFrames, first: bytes) -> HeldFrames | Sequence[bytes]:
        """Return the events of a row transaction as one compressed event; other groups unchanged."""
        builder = self._builder
        if builder is None or frames.size > _MOST_COMPRESSED or not self._may_be_compressed(frames):
            return frames
        group = Group(frames, int.from_bytes(first[TIMESTAMP_BYTES], "little"), compression_level=_LEVEL)
        whole = builder.compressed(group, compress_zstd, int.from_bytes(first[SERVER_ID_BYTES], "little"))
        return tuple(whole.frames) if whole.size < frames.size else frames

    @staticmethod
    def _may_be_compressed(frames: HeldFrames) -> bool:
        """Return whether a group is a row transaction: BEGIN, rows, XID."""
        codes = [frame[TYPE_CODE_AT] for frame in frames]
        if len(codes) < 3 or codes[0] != _QUERY or codes[-1] != _XID:
            return False
        return _COMPRESSIBLE.issuperset(codes[1:-1])

    # --------------------------------------------------------------------------------------------- bounds of the group

    def _empty(self, start: bytes | None, statement: QueryEvent) -> tuple[bytes, list[bytes]]:
        """Return the first event and the other events of the empty transaction that replaces a statement."""
        header = replace(statement.header, type_code=_QUERY, flags=0)
        variables = tuple(one for one in statement.status_vars if one.code in _BEGIN_VARIABLES)
        begin = QueryEvent(
            statement.thread_id, 0, 0, variables, "", b"BEGIN", replace(header, flags=HeaderFlag.SUPPRESS_USE)
        )
        commit = replace(begin, sql=b"COMMIT", header=header)
        if not self._context.is_mariadb or start is None:
            frames = [encode_bare(begin, self._context), encode_bare(commit, self._context)]
            return start or frames[0], frames
        gtid: MariadbGtidEvent = parse_bare(start, self._context)
        flags = gtid.flags & ~(MariadbGtidFlag.STANDALONE | MariadbGtidFlag.DDL)
        gtid = replace(gtid, flags=flags, flags_extra=gtid.flags_extra & ~_ALTER, sa_seq_no=None)
        return encode_bare(gtid, self._context), [encode_bare(commit, self._context)]

    def _with_length(self, first: bytes, rest: HeldFrames | Sequence[bytes], checksum_size: int) -> bytes:
        """Return a GTID event of MySQL with the new transaction_length; other events unchanged."""
        code = first[TYPE_CODE_AT]
        if code == _MARIADB_GTID or (code != _GTID_TAGGED and len(first) <= _CLOCK_END):
            return first
        if isinstance(rest, HeldFrames):
            size = rest.size + (rest.count + 1) * checksum_size
        else:
            size = sum(map(len, rest)) + (len(rest) + 1) * checksum_size
        if code == _GTID_TAGGED:
            tagged: GtidTaggedEvent = parse_bare(first, self._context)
            frame, length = first, -1
            while len(frame) + size != length:
                length = len(frame) + size
                frame = encode_bare(replace(tagged, transaction_length=length), self._context)
            return frame
        at = _CLOCK_END + (14 if first[_CLOCK_END + 6 : _CLOCK_END + 7] >= b"\x80" else 7)
        if len(first) <= at:
            return first
        after = at + {0xFC: 3, 0xFD: 4, 0xFE: 9}.get(first[at], 1)
        written = b""
        while True:
            found = lenenc(at + len(written) + len(first) - after + size)
            if len(found) == len(written):
                return with_size(first[:at] + found + first[after:])
            written = found


def _text_of(event: bytes) -> bytes:
    """Return the SQL text of a bare QUERY_EVENT; empty for other event types."""
    if event[TYPE_CODE_AT] != _QUERY or len(event) < HEADER_SIZE + POST_HEADER:
        return b""
    return event[HEADER_SIZE + sum(sizes_before_sql(event, HEADER_SIZE)) :]


def bare_event(data: memoryview, start: int, size: int, has_checksum: bool) -> bytes:  # noqa: FBT001 - often called
    """Return an event of a buffer as a bare event: without its checksum."""
    if not has_checksum:
        return bytes(data[start : start + size])
    size -= CHECKSUM_SIZE
    return b"".join((data[start : start + 9], size.to_bytes(4, "little"), data[start + 13 : start + size]))


def with_size(event: bytes, size: int | None = None) -> bytes:
    """Return a bare event, or its beginning, whose header has `size` or else the actual size."""
    size = len(event) if size is None else size
    return event[: EVENT_SIZE_BYTES.start] + size.to_bytes(4, "little") + event[EVENT_SIZE_BYTES.stop :]


def parse_bare(event: bytes, context: ParseContext, offset: int = 0) -> Any:
    """Parse a bare event, which is at an offset of its log.

    Raises:
        BinlogFormatError: the event is damaged.
    """
    header = parse_header(event, offset, context)
    return codec_for(header.type_code).parse(header, event[HEADER_SIZE:], context)


def encode_bare(event: BinlogEvent, context: ParseContext) -> bytes:
    """Encode an event without a checksum.

    Raises:
        BinlogFormatError: a value does not fit its field.
    """
    return Encoder(replace(context, checksum_algorithm=ChecksumAlgorithm.OFF)).encode(event)


def _with_schema(event: bytes, schema: str) -> bytes:
    """Return a bare table map with another schema."""
    rest = event[_SCHEMA_AT + 1 + event[_SCHEMA_AT] :]
    return with_size(event[:_SCHEMA_AT] + _schema_bytes(schema) + rest)


def _schema_bytes(schema: str) -> bytes:
    """Return the schema name as encoded in a table map: u8 length and bytes.

    Raises:
        BinlogFormatError: the name is longer than 255 bytes.
    """
    name = schema.encode("utf-8", "surrogateescape")
    if len(name) > 255:
        raise BinlogFormatError("the name of a schema is too long", field="schema", found=schema)
    return bytes([len(name)]) + name
