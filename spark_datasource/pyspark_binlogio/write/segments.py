"""Segments: staged log files of one task, with whole transactions and a header, but without an end.

Decides when a file is full; `binlogio.writer` builds heads, groups and ends. The final header depends on the logs
before, and the end on the next log: `log_commit` writes both when all tasks are done. A task writes a provisional
header, so that most headers keep their size.

    segment := magic format_description previous_gtids group+
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from binlogio.errors import BinlogError, BinlogFormatError, UnsupportedFeature
from binlogio.gtid import EMPTY_GTID_SET, Gtid, GtidSet, Interval
from binlogio.options import ServerVariables
from binlogio.writer import LogBuilder, QueryContext, TransactionEncoder, server_format_of, writer_kernel
from pyspark_binlogio.write.transactions import log_name
from pyspark_binlogio.write.written_tables import WrittenTables

if TYPE_CHECKING:
    from collections.abc import Iterable

    from binlogio._kernel.row_encoder import EventBuffer
    from binlogio.writer import LogStorage
    from pyspark_binlogio.write.transactions import Place, TransactionKey, WrittenTransaction

THREAD_ID: Final = 1
_WRITE_SIZE: Final = 4 << 20
_US_PER_S: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A staged file.

    Args:
        name: its name in the storage.
        first, last: places of its first and last record.
        first_key, last_key: identities of its first and last transaction.
        gtids: GTIDs of its transactions.
        previous: GTIDs in its head; a guess.
        head_size, size: sizes in bytes.
        server_id: server id of its first record.
        first_timestamp, last_timestamp: times of its transactions, in seconds since 1970.
    """

    name: str
    first: Place
    last: Place
    first_key: TransactionKey
    last_key: TransactionKey
    gtids: GtidSet
    previous: GtidSet
    head_size: int
    size: int
    server_id: int
    first_timestamp: int
    last_timestamp: int


class SegmentWriter:
    """Writes the transactions of one task to files `name_stem-0`, `name_stem-1`, ... of a storage."""

    def __init__(
        self,
        storage: LogStorage,
        name_stem: str,
        variables: ServerVariables,
        definitions: str | None,
        executed: GtidSet,
    ) -> None:
        self._storage = storage
        self._name_stem = name_stem
        self._variables = variables
        self._executed = executed
        self._server_format = server_format_of(variables.server_version)
        self._builder = LogBuilder.of(variables, writer_kernel())
        self._tables = WrittenTables(definitions, variables)
        self._transactions = TransactionEncoder(variables, self._builder)
        self._xid = 0
        self._segments: list[Segment] = []
        self._pending = bytearray()
        self._sequence_number = 0
        self._written = EMPTY_GTID_SET
        self._gtids: list[Gtid] = []

    def write(self, transactions: Iterable[WrittenTransaction]) -> list[Segment]:
        """Write the transactions, and return the segments.

        Raises:
            BinlogError: a record is invalid.
            OSError: the storage failed; the files written so far remain, and can be removed.
        """
        is_open = False
        for transaction in transactions:
            if is_open and self._segments[-1].size >= self._variables.max_binlog_size:
                self._finish()
                is_open = False
            if not is_open:
                self._begin(transaction)
                is_open = True
            self._add(transaction)
        if is_open:
            self._finish()
        return self._segments

    def remove(self) -> None:
        """Remove what was written, as far as possible; the commit or abort removes the rest."""
        for segment in self._segments:
            try:
                self._storage.remove(segment.name)
            except OSError:
                continue

    def _begin(self, transaction: WrittenTransaction) -> None:
        run = transaction.runs[0]
        gtid = _gtid_of(transaction)
        previous = self._executed.union(self._written)
        if gtid is not None and gtid.gno > 1:
            previous = previous.union(GtidSet.from_intervals([(gtid.tsid, Interval(1, gtid.gno))]))
        head = self._builder.head(run.timestamp, run.server_id, previous)
        segment = Segment(
            name=f"{self._name_stem}-{len(self._segments)}",
            first=transaction.first,
            last=transaction.last,
            first_key=transaction.key,
            last_key=transaction.key,
            gtids=EMPTY_GTID_SET,
            previous=previous,
            head_size=len(head),
            size=len(head),
            server_id=run.server_id,
            first_timestamp=run.timestamp,
            last_timestamp=run.timestamp,
        )
        self._sequence_number = 0
        self._segments.append(segment)
        self._storage.create(segment.name)
        self._pending += head

    def _add(self, transaction: WrittenTransaction) -> None:
        segment = self._segments[-1]
        gtid = _gtid_of(transaction)
        try:
            data = self._group(transaction, gtid, segment.size)
        except BinlogError as exc:
            exc.locate(file=log_name(transaction.first[0]), offset=transaction.first[1])
            raise
        self._pending += data
        if gtid is not None:
            self._gtids.append(gtid)
        self._segments[-1] = replace(
            segment,
            last=transaction.last,
            last_key=transaction.key,
            size=segment.size + len(data),
            last_timestamp=transaction.runs[-1].timestamp,
        )
        if len(self._pending) >= _WRITE_SIZE:
            self._flush()

    def _group(self, transaction: WrittenTransaction, gtid: Gtid | None, offset: int) -> EventBuffer | bytes:
        runs = transaction.runs
        first, last = runs[0], runs[-1]
        query = self._server_format.query
        context = QueryContext(
            thread_id=THREAD_ID,
            schema="",
            timestamp=first.timestamp,
            server_id=first.server_id,
            sql_mode=query.sql_mode,
            collation=query.collation,
            updated_tables=int(query.names_single_table and first.op == "update"),
            server_format=self._server_format,
        )
        self._xid += 1
        group = self._transactions.group(
            [self._tables.statement(run) for run in runs],
            context,
            lambda: self._xid,
            last.timestamp,
        )
        clock = self._sequence_number, self._sequence_number + 1
        self._sequence_number += 1
        return self._builder.filled(group, offset, gtid, clock, last.timestamp * _US_PER_S, first.server_id)

    def _flush(self) -> None:
        self._storage.append(self._segments[-1].name, self._pending)
        self._pending = bytearray()

    def _finish(self) -> None:
        self._flush()
        segment = self._segments[-1]
        self._storage.sync(segment.name)
        self._storage.close(segment.name)
        gtids = GtidSet.from_gtids(self._gtids)
        if gtids.count != len(self._gtids) or not gtids.isdisjoint(self._written):
            raise BinlogFormatError("two transactions have the same GTID", field="gtid", found=str(gtids)[:80])
        self._gtids = []
        self._written = self._written.union(gtids)
        self._segments[-1] = replace(segment, gtids=gtids)


def _gtid_of(transaction: WrittenTransaction) -> Gtid | None:
    if transaction.gtid is None:
        return None
    try:
        return Gtid.parse(transaction.gtid)
    except BinlogError as exc:
        raise UnsupportedFeature(
            "not a MySQL GTID: only logs of MySQL servers can be written",
            field="gtid",
            found=repr(transaction.gtid),
            hint="set the column gtid to NULL for logs without GTIDs",
        ) from exc
