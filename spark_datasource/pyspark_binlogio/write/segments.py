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
from binlogio.gtid import EMPTY_GTID_SET, Gtid, GtidSet, Interval, MariadbGtid
from binlogio.options import ServerVariables
from binlogio.writer import DomainState, LogBuilder, QueryContext, TransactionEncoder, server_format_of, writer_kernel
from pyspark_binlogio.write.transactions import log_name
from pyspark_binlogio.write.written_tables import WrittenTables

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from binlogio._kernel.row_encoder import EventBuffer
    from binlogio.writer import LoggedGtids, LogStorage
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
        gtids: GTIDs of its transactions; of MariaDB the first and the last ones of each domain and server.
        head_size, size: sizes in bytes.
        server_id: server id of its first record.
        first_timestamp, last_timestamp: times of its transactions, in seconds since 1970.
    """

    name: str
    first: Place
    last: Place
    first_key: TransactionKey
    last_key: TransactionKey
    gtids: LoggedGtids
    head_size: int
    size: int
    server_id: int
    first_timestamp: int
    last_timestamp: int


def no_gtids(variables: ServerVariables) -> LoggedGtids:
    """Return the GTIDs of no logs of a server."""
    return () if variables.is_mariadb else EMPTY_GTID_SET


def joined_gtids(known: LoggedGtids, more: LoggedGtids) -> LoggedGtids:
    """Return the GTIDs of logs with those of the transactions after them."""
    if isinstance(known, GtidSet) and isinstance(more, GtidSet):
        return known.union(more)
    return DomainState((*_of_mariadb(known), *_of_mariadb(more))).gtids


def refuse_repeated(known: LoggedGtids, more: LoggedGtids) -> None:
    """Refuse transactions that the logs before them have.

    Raises:
        BinlogFormatError: there is one; of MariaDB also if a number is not above those before it of its domain and
            server.
    """
    if isinstance(known, GtidSet) and isinstance(more, GtidSet):
        repeated = str(known.intersection(more))
    else:
        last = {(gtid.domain_id, gtid.server_id): gtid.sequence_number for gtid in _of_mariadb(known)}
        found = []
        for gtid in _of_mariadb(more):
            if gtid.sequence_number <= last.get((gtid.domain_id, gtid.server_id), -1):
                found.append(str(gtid))
            last[gtid.domain_id, gtid.server_id] = gtid.sequence_number
        repeated = ",".join(found)
    if repeated:
        raise BinlogFormatError(
            "the logs already contain transactions with these GTIDs, or later ones",
            field="gtid",
            found=repeated[:200],
            hint="write them once, to another directory, or with mode overwrite",
        )


def _of_mariadb(gtids: LoggedGtids) -> tuple[MariadbGtid, ...]:
    return () if isinstance(gtids, GtidSet) else gtids


def _gtids_of_segment(gtids: Sequence[Gtid | MariadbGtid]) -> LoggedGtids:
    """Return the GTIDs of consecutive transactions, which are all of one vendor.

    Raises:
        BinlogFormatError: two transactions have the same GTID; of MariaDB also if the numbers of a domain and server do
            not increase.
    """
    of_mariadb = tuple(gtid for gtid in gtids if isinstance(gtid, MariadbGtid))
    if of_mariadb:
        refuse_repeated((), of_mariadb)
        ends = DomainState(reversed(of_mariadb)).gtids, DomainState(of_mariadb).gtids
        return tuple(dict.fromkeys(gtid for end in ends for gtid in end))
    found = GtidSet.from_gtids(gtid for gtid in gtids if isinstance(gtid, Gtid))
    if found.count != len(gtids):
        raise BinlogFormatError("two transactions have the same GTID", field="gtid", found=str(found)[:80])
    return found


class SegmentWriter:
    """Writes the transactions of one task to files `name_stem-0`, `name_stem-1`, ... of a storage."""

    def __init__(
        self,
        storage: LogStorage,
        name_stem: str,
        variables: ServerVariables,
        definitions: str | None,
        executed: LoggedGtids,
        checkpoint: str = "",
    ) -> None:
        self._storage = storage
        self._name_stem = name_stem
        self._variables = variables
        self._executed = executed
        self._checkpoints = (checkpoint,)
        self._server_format = server_format_of(variables.server_version)
        self._builder = LogBuilder.of(variables, writer_kernel())
        self._tables = WrittenTables(definitions, variables)
        self._transactions = TransactionEncoder(variables, self._builder)
        self._xid = 0
        self._segments: list[Segment] = []
        self._pending = bytearray()
        self._sequence_number = 0
        self._written = no_gtids(variables)
        self._gtids: list[Gtid | MariadbGtid] = []

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
        gtid = self._gtid_of(transaction)
        previous = joined_gtids(self._executed, self._written)
        if isinstance(previous, GtidSet) and isinstance(gtid, Gtid) and gtid.gno > 1:
            previous = previous.union(GtidSet.from_intervals([(gtid.tsid, Interval(1, gtid.gno))]))
        elif isinstance(gtid, MariadbGtid) and gtid.sequence_number > 1:
            previous = joined_gtids(previous, (gtid,))
        head = self._builder.head(run.timestamp, run.server_id, previous, checkpoints=self._checkpoints)
        segment = Segment(
            name=f"{self._name_stem}-{len(self._segments)}",
            first=transaction.first,
            last=transaction.last,
            first_key=transaction.key,
            last_key=transaction.key,
            gtids=no_gtids(self._variables),
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
        gtid = self._gtid_of(transaction)
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

    def _group(
        self, transaction: WrittenTransaction, gtid: Gtid | MariadbGtid | None, offset: int
    ) -> EventBuffer | bytes:
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
        gtids = _gtids_of_segment(self._gtids)
        self._gtids = []
        refuse_repeated(self._written, gtids)
        self._written = joined_gtids(self._written, gtids)
        self._segments[-1] = replace(segment, gtids=gtids)

    def _gtid_of(self, transaction: WrittenTransaction) -> Gtid | MariadbGtid | None:
        """Return the GTID of a transaction.

        Raises:
            UnsupportedFeature: it is none of the server's vendor; or there is none, and the server is MariaDB.
        """
        is_mariadb, text = self._variables.is_mariadb, transaction.gtid
        if text is None and not is_mariadb:
            return None
        try:
            return MariadbGtid.parse(text or "") if is_mariadb else Gtid.parse(text or "")
        except BinlogError as exc:
            raise UnsupportedFeature(
                f"not a GTID of {'MariaDB' if is_mariadb else 'MySQL'}, whose logs are written (option serverVersion)",
                field="gtid",
                found=repr(text),
                hint="MariaDB has a GTID for each transaction: give the column gtid texts such as 0-1-100"
                if is_mariadb
                else "set the column gtid to NULL for logs without GTIDs, or serverVersion to a version of MariaDB",
            ) from exc
