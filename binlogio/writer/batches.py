"""Record batches as statements: whole transactions of columns, without a Python object for each row. Needs pyarrow.

Transactions are not cached: their events are written at their final positions, or into a payload.

    group := gtid  BEGIN  (table_map  rows_event+)+  XID
           | gtid  BEGIN  table_map  rows_event+  COMMIT   -- not transactional
           | gtid  transaction_payload                     -- the first of these with binlog_transaction_compression
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from binlogio.arrow.encode import Operation, TableEncoder, new_buffer
from binlogio.constants import BINLOG_MAGIC, EVENT_SIZE_BYTES
from binlogio.errors import BinlogFormatError, UnsupportedFeature
from binlogio.format.event_frames import EventFrames
from binlogio.gtid import Gtid
from binlogio.primitives import bitmap_size
from binlogio.writer.log.group import Group
from binlogio.writer.log.log_file import MICROSECONDS_PER_SECOND
from binlogio.writer.query_events import QueryContext
from binlogio.writer.rows.frames import FrameBuilder
from binlogio.writer.rows.rows_builder import RowsRules
from binlogio.writer.rows.value_checks import check_batch
from binlogio.writer.rules.logging_format import refusal
from binlogio.writer.rules.row_image import RowOperation, image_columns

if TYPE_CHECKING:
    import pyarrow as pa

    from binlogio._kernel.row_encoder import EventBuffer
    from binlogio.schema import TableDefinition
    from binlogio.writer.session.open_tables import OpenTable
    from binlogio.writer.writer import BinlogWriter

MAX_ENCODERS: Final = 256


@dataclass(frozen=True, slots=True)
class BatchChange:
    """Changes of many rows of a table by a statement: no `before` is an insert, no `after` a delete, both an update.

    The batches have a column for each column of the table, under its name; their types are those that
    `binlogio.read_rows` gives, or equivalent ones. Rows of an update are logged whether or not they differ.
    With binlog_row_value_options=PARTIAL_JSON documents that are unchanged are not in `after`, and a column of it may
    have JSON diffs (`binlogio.arrow.types.JSON_DIFFS`), which are logged as given.
    """

    table: TableDefinition
    before: pa.RecordBatch | pa.Table | None = None
    after: pa.RecordBatch | pa.Table | None = None

    @property
    def operation(self) -> Operation:
        """What happened to the rows."""
        if self.before is not None:
            return "delete" if self.after is None else "update"
        return "insert"


class BatchSession:
    """A connection that writes batches, for one thread at a time; each transaction is one group.

    The log's variables hold as they do for other sessions; but rows are logged whatever binlog_format is, and a
    transaction with binlog_transaction_compression is held in memory.

    Raises:
        UnsupportedFeature: the log is MariaDB's.
    """

    def __init__(self, log: BinlogWriter, schema: str = "") -> None:
        if log.variables.is_mariadb:
            raise UnsupportedFeature(
                "batches are written as rows events of version 2",
                field="server_version",
                expected="a MySQL version",
                found=log.variables.server_version,
            )
        session = log.session(schema)
        self._session = session
        self._tables = log._tables
        self._group_commit = log._group_commit
        self._clock = log._clock
        self._server_id = log.variables.server_id
        self._variables = log.variables
        self._schema = schema
        self._frames = FrameBuilder(log.variables, log._kernel)
        self._rules = RowsRules(
            row_event_max_size=log.variables.binlog_row_event_max_size,
            rows_query=False,
            partial_json="PARTIAL_JSON" in log.variables.binlog_row_value_options,
        )
        self._encoders: dict[tuple[int, str], TableEncoder] = {}

    def write(self, changes: Iterable[BatchChange]) -> Gtid | None:
        """Write a transaction, each change as a separate statement.

        Returns its GTID, None with gtid_mode=OFF or without any row.

        Raises:
            BinlogFormatError: a value does not fit its column, or a column is missing.
            UnsupportedFeature: NULL where NULL cannot be, or a table that cannot be.
            LoggingError: a table that is not transactional, and another change beside it.
            OSError: the log cannot be written.
        """
        opened = [(change, self._tables.get(change.table)) for change in changes if _row_count(change)]
        if not opened or not self._variables.sql_log_bin:
            return None
        is_transactional = all(table.is_transactional for _, table in opened)
        if not is_transactional and len(opened) > 1:
            raise refusal(1785)
        for change, table in opened:
            _refuse_nulls(change, table)
        context = QueryContext(
            thread_id=self._session.thread_id,
            schema=self._schema,
            timestamp=self._clock() // MICROSECONDS_PER_SECOND,
            server_id=self._server_id,
            updated_tables=int(opened[0][0].operation == "update"),
        )
        expected_size = sum(
            batch.nbytes for change, _ in opened for batch in (change.before, change.after) if batch is not None
        )

        def fill(buffer: EventBuffer | EventFrames) -> None:
            buffer.add_frame(self._frames.begin(context))
            for change, table in opened:
                self._add(buffer, change, table, context)
            if is_transactional:
                buffer.add_frame(self._frames.xid(self._session._connection.next_xid(), context.timestamp))
            else:
                buffer.add_frame(self._frames.commit(context))

        if self._variables.binlog_transaction_compression and is_transactional:
            gtid = self._group_commit.commit(self._compressed(fill, context.timestamp))
        else:
            gtid = self._group_commit.commit_events(fill, context.timestamp, expected_size)
        return gtid if isinstance(gtid, Gtid) else None

    def _compressed(self, fill: Callable[[EventBuffer | EventFrames], None], timestamp: int) -> Group:
        """Return the group that `fill` writes, to be compressed."""
        buffer = new_buffer(len(BINLOG_MAGIC), checksum=self._variables.binlog_checksum != "NONE")
        fill(buffer)
        frames = tuple(buffer.frames) if isinstance(buffer, EventFrames) else tuple(_frames_of(bytes(buffer)))
        level = self._variables.binlog_transaction_compression_level_zstd
        return Group(frames, timestamp, compression_level=level, thread_id=self._session.thread_id)

    def _add(
        self, buffer: EventBuffer | EventFrames, change: BatchChange, table: OpenTable, context: QueryContext
    ) -> None:
        buffer.add_frame(self._frames.table_map(table, context.timestamp))
        for batch in (change.before, change.after):
            if batch is not None:
                check_batch(table.plan, batch)
        key = table.table_id, change.operation
        encoder = self._encoders.get(key)
        if encoder is None:
            if len(self._encoders) >= MAX_ENCODERS:
                self._encoders.clear()
            partial_json = self._rules.partial_json
            before, after = _present(table, change.operation, self._variables.binlog_row_image)
            encoder = self._encoders[key] = TableEncoder(
                table.plan, change.operation, before, after, partial_json=partial_json
            )
        encoder.encode(
            buffer,
            change.before,
            change.after,
            table_id=table.table_id,
            timestamp=context.timestamp,
            server_id=self._server_id,
            flags=self._rules.flags,
            row_event_max_size=self._rules.row_event_max_size,
        )


def _present(table: OpenTable, operation: Operation, row_image: str) -> tuple[bytes | None, bytes | None]:
    """Return the bitmaps of the images as `TableEncoder` takes them; None where an image has all columns.

    The batches name every column.
    """
    count = len(table.plan.columns)
    columns = image_columns(table.definition, row_image, RowOperation(operation), range(count))
    bitmaps = [
        None if len(chosen) == count else sum(1 << i for i in chosen).to_bytes(bitmap_size(count), "little")
        for chosen in (columns.before, columns.after)
        if chosen is not None
    ]
    return bitmaps[0], bitmaps[-1]


def _frames_of(data: bytes) -> Iterator[bytes]:
    """Yield the events of a buffer."""
    at = 0
    while at < len(data):
        end = at + int.from_bytes(data[at + EVENT_SIZE_BYTES.start : at + EVENT_SIZE_BYTES.stop], "little")
        yield data[at:end]
        at = end


def _row_count(change: BatchChange) -> int:
    counts = [batch.num_rows for batch in (change.before, change.after) if batch is not None]
    if len(set(counts)) > 1:
        raise BinlogFormatError(
            "an update needs the same number of rows before and after",
            field=change.table.full_name,
            expected=counts[0],
            found=counts[1],
        )
    return max(counts, default=0)


def _refuse_nulls(change: BatchChange, table: OpenTable) -> None:
    for batch in (change.before, change.after):
        for position in table.not_null:
            name = table.names[position]
            if batch is not None and name in batch.schema.names and batch.column(name).null_count:
                raise UnsupportedFeature("the column cannot be NULL", field=f"{table.definition.full_name}.{name}")
