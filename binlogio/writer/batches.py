"""Record batches as statements: writes whole transactions from columns, without a Python object per row. Needs pyarrow.

Transactions are not cached: their events are written at their final positions, or into a payload.

    group := gtid  BEGIN  (table_map  rows_event+)+  XID
           | gtid  BEGIN  table_map  rows_event+  COMMIT   -- non-transactional table
           | gtid  transaction_payload                     -- the first form, with binlog_transaction_compression

MariaDB's GTID event replaces BEGIN; its rows events are those of version 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from binlogio.arrow.encode import Operation, TableEncoder, new_buffer
from binlogio.constants import BINLOG_MAGIC, EventType
from binlogio.errors import BinlogFormatError, UnsupportedFeature
from binlogio.format.event_frames import EventFrames, RowsFrames
from binlogio.gtid import Gtid
from binlogio.primitives import bitmap_size
from binlogio.writer.log.group import AUTOMATIC, FilledGroup, Group, GroupMarks, NextGtid
from binlogio.writer.log.log_builder import LogBuilder, frames_of
from binlogio.writer.log.log_file import MICROSECONDS_PER_SECOND
from binlogio.writer.query_events import QueryContext
from binlogio.writer.rows.value_checks import BatchChecks
from binlogio.writer.rules.logging_format import refusal
from binlogio.writer.rules.row_image import ImageRules, RowOperation, image_columns
from binlogio.writer.server_format import DEFAULT_SERVER_FORMAT, server_format_of

if TYPE_CHECKING:
    import pyarrow as pa

    from binlogio._kernel.row_encoder import EventBuffer
    from binlogio.options import ServerVariables
    from binlogio.schema import TableDefinition
    from binlogio.writer.session.open_tables import OpenTable
    from binlogio.writer.writer import BinlogWriter

MAX_ENCODERS: Final = 1024
_ROW_SIZE: Final = 256  # initial estimate, in bytes

EncodedRow = tuple[bytes, bytes | None, bytes]
"""A row as in its events: the present bitmap of its first image, that of the after image of an update, and the encoded
images.
"""


@dataclass(frozen=True, slots=True)
class BatchChange:
    """Changes of many rows of a table by one statement.

    Only `after` is an insert, only `before` a delete, both are an update. The batches have a column for each column of
    the table, by its name; the types are those that `binlogio.read_rows` returns, or equivalent ones. Rows of an update
    are logged even if both images are equal. With binlog_row_value_options=PARTIAL_JSON, `after` lacks unchanged
    documents, and a column of it may have JSON diffs (`binlogio.arrow.types.JSON_DIFFS`), which are logged as given.

    `present` and, for an update, `present_after` are the present bitmaps of the images, for rows that were logged with
    fewer columns: bit i of byte i // 8 is column i, and the batches need only these columns. Without them,
    binlog_row_image decides which columns are logged.
    """

    table: TableDefinition
    before: pa.RecordBatch | pa.Table | None = None
    after: pa.RecordBatch | pa.Table | None = None
    present: bytes | None = None
    present_after: bytes | None = None

    @property
    def operation(self) -> Operation:
        """The operation on the rows."""
        if self.before is not None:
            return "delete" if self.after is None else "update"
        return "insert"

    @property
    def row_count(self) -> int:
        """The number of rows.

        Raises:
            BinlogFormatError: the numbers of before and after images differ.
        """
        counts = [batch.num_rows for batch in (self.before, self.after) if batch is not None]
        if len(set(counts)) > 1:
            raise BinlogFormatError(
                "an update needs the same number of rows before and after",
                field=self.table.full_name,
                expected=counts[0],
                found=counts[1],
            )
        return max(counts, default=0)


@dataclass(frozen=True, slots=True)
class EncodedChange:
    """Changes of rows of a table by one statement, already encoded: each row with its own present bitmaps."""

    table: TableDefinition
    operation: Operation
    rows: Sequence[EncodedRow]

    @property
    def row_count(self) -> int:
        """The number of rows."""
        return len(self.rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsStatement:
    """The rows events of one statement in a transaction, with its table map.

    Args:
        table: the table.
        change: its rows as batches.
        encoded: its rows, encoded by the caller, instead of batches.
        operation: the operation on the rows.
        present: present bitmap of the images of `change`, or of its before images; None for all columns.
        present_after: present bitmap of the after images of an update.
        timestamp: of the events, in seconds since 1970, UTC.
        server_id: of the events.
        flags: of the rows events.
    """

    table: OpenTable
    operation: Operation
    timestamp: int
    server_id: int
    change: BatchChange | None = None
    encoded: Iterable[EncodedRow] = ()
    present: bytes | None = None
    present_after: bytes | None = None
    flags: int = DEFAULT_SERVER_FORMAT.rows.flags


class TransactionEncoder:
    """Encodes transactions of statements that change rows. It is used by one thread at a time."""

    def __init__(self, variables: ServerVariables, builder: LogBuilder) -> None:
        self._builder = builder
        self._row_event_max_size = variables.binlog_row_event_max_size
        self._partial_json = "PARTIAL_JSON" in variables.binlog_row_value_options
        rows = server_format_of(variables.server_version).rows
        self._event_types = {"insert": rows.write, "update": rows.update, "delete": rows.delete}
        self._row_size = _ROW_SIZE  # mean size of a row of the last statement, in bytes
        self._encoders: dict[tuple[int, str, bytes | None, bytes | None], TableEncoder] = {}

    def group(
        self,
        statements: Sequence[RowsStatement],
        context: QueryContext,
        next_xid: Callable[[], int],
        ended: int,
        *,
        assigned_gtid: NextGtid = AUTOMATIC,
        thread_id: int = 0,
    ) -> FilledGroup:
        """Return the group of a transaction.

        Args:
            statements: all statements of the transaction.
            context: context of the BEGIN.
            next_xid: returns the transaction's XID; called if all tables are transactional.
            ended: end time of the transaction, in seconds since 1970, UTC.
            assigned_gtid: the session's gtid_next.
            thread_id: thread id of the session, as in `Group`.
        """
        builder, is_transactional = self._builder, all(one.table.is_transactional for one in statements)

        def fill(buffer: EventBuffer | EventFrames) -> None:
            for frame in builder.opening(context):
                buffer.add_frame(frame)
            for statement in statements:
                self._add(buffer, statement)
            if is_transactional:
                buffer.add_frame(builder.xid(next_xid(), ended, context.server_id))
            else:
                buffer.add_frame(builder.commit(replace(context, timestamp=ended)))

        rows = sum(one.change.row_count for one in statements if one.change is not None)
        return FilledGroup(
            fill=fill,
            timestamp=context.timestamp,
            expected_size=rows * self._row_size,
            assigned_gtid=assigned_gtid,
            thread_id=thread_id,
            marks=GroupMarks(is_transactional=is_transactional),
        )

    def _add(self, buffer: EventBuffer | EventFrames, statement: RowsStatement) -> None:
        table, change = statement.table, statement.change
        buffer.add_frame(self._builder.table_map(table.table_map, statement.timestamp, statement.server_id))
        if change is None:
            for frame in self._encoded(statement):
                buffer.add_frame(frame)
            return
        key = table.table_id, statement.operation, statement.present, statement.present_after
        encoder = self._encoders.get(key)
        if encoder is None:
            if len(self._encoders) >= MAX_ENCODERS:
                self._encoders.clear()
            encoder = self._encoders[key] = TableEncoder(
                table.plan,
                statement.operation,
                statement.present,
                statement.present_after,
                partial_json=self._partial_json,
                type_code=self._event_types[statement.operation],
            )
        start = len(buffer)
        row_count = encoder.encode(
            buffer,
            change.before,
            change.after,
            table_id=table.table_id,
            timestamp=statement.timestamp,
            server_id=statement.server_id,
            flags=statement.flags,
            row_event_max_size=self._row_event_max_size,
        )
        self._row_size = (len(buffer) - start) // max(1, row_count)

    def _encoded(self, statement: RowsStatement) -> list[bytes]:
        """Return the rows events of encoded rows; a change of the present bitmaps begins another event."""
        frames = EventFrames(checksum=self._builder.has_checksum)
        rows, last = None, None
        for present, present_after, images in statement.encoded:
            if rows is None or last != (present, present_after):
                if rows is not None:
                    rows.finish(ends_statement=False)
                last = present, present_after
                rows = RowsFrames(
                    frames,
                    type_code=self._event_types[statement.operation],
                    timestamp=statement.timestamp,
                    server_id=statement.server_id,
                    table_id=statement.table.table_id,
                    flags=statement.flags,
                    column_count=len(statement.table.names),
                    present=present,
                    present_after=present_after,
                    before=None,
                    after=None,
                    max_size=self._row_event_max_size,
                )
            rows.append_images(images)
        if rows is not None:
            rows.finish()
        return frames.frames


class BatchSession:
    """A connection that writes batches, used by one thread at a time; each transaction is one group.

    The log's variables apply as for other sessions, except that rows are logged whatever binlog_format is. A
    transaction with binlog_transaction_compression is held in memory.

    Raises:
        UnsupportedFeature: the server version is a MySQL before 5.6.
    """

    def __init__(self, log: BinlogWriter, schema: str = "") -> None:
        self._server_format = server_format_of(log.variables.server_version)
        is_new = self._server_format.rows.write is EventType.WRITE_ROWS_EVENT
        if not is_new and not self._server_format.is_mariadb:
            raise UnsupportedFeature(
                "batches are not written as servers before 5.6 do",
                field="server_version",
                expected="MySQL 5.6 or later, or MariaDB",
                found=log.variables.server_version,
            )
        self._session = log.session(schema)
        self._tables = log._tables
        self._group_commit = log._group_commit
        self._clock = log._clock
        self._variables = log.variables
        self._schema = schema
        self._transactions = TransactionEncoder(log.variables, LogBuilder.of(log.variables, log._kernel))
        self._bitmaps: dict[tuple[int, str], tuple[bytes | None, bytes | None]] = {}
        self._checks: dict[int, BatchChecks] = {}
        self._last_context: QueryContext | None = None

    def write(self, changes: Iterable[BatchChange | EncodedChange]) -> Gtid | None:
        """Write a transaction, each change as a separate statement.

        Returns its GTID, None with gtid_mode=OFF or without rows.

        Raises:
            BinlogFormatError: a value does not fit its column, or a column is missing.
            UnsupportedFeature: NULL in a NOT NULL column, or a table definition that is not supported.
            LoggingError: a non-transactional table, together with another change.
            OSError: the log cannot be written.
        """
        opened = [(change, self._tables.get(change.table)) for change in changes if change.row_count]
        if not opened or not self._variables.sql_log_bin:
            return None
        is_transactional = all(table.is_transactional for _, table in opened)
        if not is_transactional and len(opened) > 1:
            raise refusal(1785)
        for change, table in opened:
            if isinstance(change, BatchChange):
                self._check(change, table)
        context = self._context(opened[0][0].operation)
        statements = [self._statement(change, table, context.timestamp) for change, table in opened]
        connection = self._session._connection
        group = self._transactions.group(
            statements,
            context,
            connection.next_xid,
            context.timestamp,
            assigned_gtid=connection.caches.gtid_next,
            thread_id=context.thread_id,
        )
        is_compressed = self._variables.binlog_transaction_compression and is_transactional
        gtid = self._group_commit.commit(self._compressed(group) if is_compressed else group)
        return gtid if isinstance(gtid, Gtid) else None

    def _context(self, operation: Operation) -> QueryContext:
        """Return the context of a transaction that begins now with this operation; cached for a second."""
        timestamp = self._clock() // MICROSECONDS_PER_SECOND
        updated_tables = int(self._server_format.query.names_single_table and operation == "update")
        last = self._last_context
        if last is None or last.timestamp != timestamp or last.updated_tables != updated_tables:
            last = self._last_context = QueryContext(
                thread_id=self._session.thread_id,
                schema=self._schema,
                timestamp=timestamp,
                server_id=self._variables.server_id_in_effect,
                sql_mode=self._server_format.query.sql_mode,
                collation=self._server_format.query.collation,
                updated_tables=updated_tables,
                server_format=self._server_format,
            )
        return last

    def _compressed(self, group: FilledGroup) -> Group:
        """Return the group in memory, marked for compression."""
        buffer = new_buffer(len(BINLOG_MAGIC), checksum=self._variables.binlog_checksum != "NONE")
        group.fill(buffer)
        frames = tuple(buffer.frames if isinstance(buffer, EventFrames) else frames_of([bytes(buffer)]))
        level = self._variables.binlog_transaction_compression_level_zstd
        return Group(frames, group.timestamp, compression_level=level, thread_id=self._session.thread_id)

    def _check(self, change: BatchChange, table: OpenTable) -> None:
        checks = self._checks.get(table.table_id)
        if checks is None:
            if len(self._checks) >= MAX_ENCODERS:
                self._checks.clear()
            not_null = [table.names[position] for position in table.not_null]
            checks = self._checks[table.table_id] = BatchChecks(table.plan, not_null)
        batches = [batch for batch in (change.before, change.after) if batch is not None]
        for batch in batches:
            checks.check_nulls(batch)
        for batch in batches:
            checks.check_values(batch)

    def _statement(self, change: BatchChange | EncodedChange, table: OpenTable, timestamp: int) -> RowsStatement:
        batch = change if isinstance(change, BatchChange) else None
        present, present_after = (None, None) if batch is None else self._bitmaps_of(batch, table)
        return RowsStatement(
            table=table,
            operation=change.operation,
            timestamp=timestamp,
            server_id=self._variables.server_id_in_effect,
            change=batch,
            encoded=change.rows if isinstance(change, EncodedChange) else (),
            present=present,
            present_after=present_after,
            flags=self._server_format.rows.flags,
        )

    def _bitmaps_of(self, change: BatchChange, table: OpenTable) -> tuple[bytes | None, bytes | None]:
        """Return the present bitmaps of the images of a change: its own, or those of binlog_row_image."""
        if change.present is not None or change.present_after is not None:
            return change.present, change.present_after
        key = table.table_id, change.operation
        bitmaps = self._bitmaps.get(key)
        if bitmaps is None:
            if len(self._bitmaps) >= MAX_ENCODERS:
                self._bitmaps.clear()
            bitmaps = self._bitmaps[key] = _present(
                table, change.operation, self._variables.binlog_row_image, self._server_format.rows.images
            )
        return bitmaps


def _present(
    table: OpenTable, operation: Operation, row_image: str, rules: ImageRules
) -> tuple[bytes | None, bytes | None]:
    """Return the present bitmaps of the images as `TableEncoder` takes them; None for an image with all columns.

    The batches have every column. Servers that set the unused bits after the null bits leave those of present bitmaps
    unset.
    """
    count = len(table.plan.columns)
    columns = image_columns(table.definition, row_image, RowOperation(operation), range(count), rules)
    bitmaps = [
        None
        if len(chosen) == count and not table.plan.spare_null_bits
        else sum(1 << i for i in chosen).to_bytes(bitmap_size(count), "little")
        for chosen in (columns.before, columns.after)
        if chosen is not None
    ]
    return bitmaps[0], bitmaps[-1]
