"""Session of a worker at a MySQL or MariaDB server: applies a transaction with its GTID or position, and commits it.

The steps are sent by one sender for each kind (`senders`): statements, rows as events, rows as SQL. XA
transactions come with their XA COMMIT, as ordinary transactions (`binlogio.replay.transactions`).
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import groupby
from typing import TYPE_CHECKING

from binlogio.errors import ReplayError
from binlogio.replay.progress import UNKNOWN_SOURCE
from binlogio.replay.raw_groups import RawGroup
from binlogio.replay.steps import RowsStep, locate_step
from binlogio.replay.summary import RowCounts
from binlogio.replay.targets.mysql import position_table
from binlogio.replay.targets.mysql.kept_gtids import automatic_statement, checked_gtid, gtid_statements
from binlogio.replay.targets.mysql.senders import EventSender, RowSender, SenderState, StatementSender

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from collections.abc import Set as AbstractSet

    from binlogio.errors import BinlogError
    from binlogio.gtid import Gtid, MariadbGtid
    from binlogio.options import Position
    from binlogio.replay.progress import Ledger
    from binlogio.replay.steps import LoggedTransaction, Step
    from binlogio.replay.targets import OnLossy
    from binlogio.replay.targets.mysql.connection import Connection
    from binlogio.replay.targets.mysql.senders import Sender
    from binlogio.replay.targets.mysql.server_tables import ServerTables


class MysqlSession:
    """One worker's connection.

    `pending` are the ends of groups that a replay before this one has announced and not confirmed.
    """

    def __init__(
        self,
        connection: Connection,
        tables: ServerTables,
        number: int,
        *,
        pending: AbstractSet[Position],
        idempotent: bool,
        applies_events: bool | None,
        keeps_gtids: bool = False,
        source: str = UNKNOWN_SOURCE,
        on_lossy: OnLossy = "error",
    ) -> None:
        self.counts = RowCounts()
        self.connection_id = connection.id
        self._source = source
        self._keeps_gtids = keeps_gtids
        self._connection = connection
        self._number = number
        self._own: list[int] = []
        self._file = ""
        self._state = SenderState(connection, tables)
        self._statements = StatementSender(self._state, pending=pending)
        self._events = EventSender(self._state, idempotent=idempotent, applies_events=applies_events)
        self._rows = RowSender(self._state, self._events, idempotent=idempotent, on_lossy=on_lossy)

    def execute(self, transaction: LoggedTransaction) -> None:
        """Run the steps, in a transaction that stays open."""
        state = self._state
        state.begin(transaction)
        if self._keeps_gtids and not transaction.is_filtered:
            state.gtid = self._checked_gtid(transaction)
        if state.gtid is None and not transaction.steps:
            return
        if transaction.shared_by > 1:
            state.tables.check_transactional(transaction, self._connection.ask)
        if transaction.commits_itself and not self._keeps_gtids:
            self._connection.run(
                position_table.begun(self._source, self._number, transaction.start, transaction.end, transaction.log)
            )
        has_rows = bool(transaction.row_steps)
        if has_rows and self._events.takes(transaction):
            self._events.describe(transaction.description)
        elif has_rows:
            self._rows.describe_for_triggers(transaction)
        self._begin(transaction, has_rows=has_rows)
        for sender, steps in groupby(transaction.steps, lambda step: self._sender(step, transaction)):
            if sender is self._statements or not state.has_rows_already:
                self._send(sender, steps, transaction)
        state.flush()

    def _begin(self, transaction: LoggedTransaction, *, has_rows: bool) -> None:
        state = self._state
        begins = (has_rows and state.gtid is None) or not transaction.commits_itself
        if begins:
            self._statements.set_explicit_timestamps(transaction)
        if not transaction.commits_itself and state.gtid is not None:
            state.waiting += gtid_statements(state.gtid)
        if begins:
            state.waiting.append((b"BEGIN", None))
        state.is_open = has_rows or not transaction.commits_itself

    def _sender(self, step: Step, transaction: LoggedTransaction) -> Sender:
        if not isinstance(step, RowsStep | RawGroup):
            return self._statements
        return self._events if isinstance(step, RawGroup) or self._events.takes(transaction) else self._rows

    def _send(self, sender: Sender, steps: Iterable[Step], transaction: LoggedTransaction) -> None:
        """Send steps of one kind; an error says the offset of its step."""
        last: Step | None = None

        def checked() -> Iterator[Step]:
            nonlocal last
            for step in steps:
                last = step
                if isinstance(step, RowsStep | RawGroup):
                    self._check_rows(step, transaction)
                yield step

        try:
            sender.send(checked(), transaction)
        except ReplayError as exc:
            if last is not None:
                locate_step(exc, last)
            raise

    def _check_rows(self, step: RowsStep | RawGroup, transaction: LoggedTransaction) -> None:
        """Prepare the session for rows, and refuse those that the tables of the target do not fit."""
        tables, ask = self._state.tables, self._connection.ask
        if not transaction.commits_itself:  # else the statement has made the table, and no query may come between
            self._state.restore()
            tables.check_columns(step, ask)
        if isinstance(step, RowsStep) and step.cascades:
            tables.check_cascades(step, ask)

    def _checked_gtid(self, transaction: LoggedTransaction) -> Gtid | MariadbGtid | None:
        most_bytes = self._events.most_bytes if self._events.takes(transaction) else -1
        return checked_gtid(transaction, self._state.tables, self._connection, most_bytes)

    def commit(self, transaction: LoggedTransaction, ledger: Ledger) -> None:
        """Keep the position, and commit; with the GTID of the source there is no position to keep."""
        state = self._state
        if state.gtid is not None:
            self._commit_gtid(state.gtid)
            return
        if not transaction.steps:
            return
        if transaction.end.file != self._file:
            self._file, self._own = transaction.end.file, []
        low = ledger.low_with(transaction.end)
        own = [end for end in (*self._own, transaction.end.offset) if end > low.offset]
        if transaction.commits_itself and state.is_open:
            self._connection.run("COMMIT")
            state.is_open = False
        update = position_table.reached(self._source, self._number, low, own, transaction.log).encode()
        self._connection.run_all([(update, None), (b"COMMIT", None)] if state.is_open else [(update, None)])
        self._own, state.is_open = own, False
        self.counts.add(state.counts)

    def _commit_gtid(self, gtid: Gtid | MariadbGtid) -> None:
        """Commit; if MySQL did not log a statement, commit an empty transaction with the GTID."""
        state, is_logged, automatic = self._state, self._state.is_open, automatic_statement(gtid)
        self._connection.run_all([*([(b"COMMIT", None)] if is_logged else []), (automatic, None)])
        state.is_open, state.gtid = False, None
        if not is_logged and not self._connection.is_mariadb:
            ((is_executed,),) = self._connection.ask(f"SELECT GTID_SUBSET('{gtid}', @@global.gtid_executed)")
            if not is_executed:
                empty = [*gtid_statements(gtid), *((sql, None) for sql in (b"BEGIN", b"COMMIT", automatic))]
                self._connection.run_all(empty)
        self.counts.add(state.counts)

    def apply_packet(self, packet: Sequence[LoggedTransaction]) -> tuple[int, BinlogError | None]:
        """Apply transactions of raw groups in one packet, each with its GTID or position and a commit.

        Returns how many are committed, and the error of the next one, after which `rollback` has to be called.

        Raises:
            ConnectionError: the server is gone.
        """
        state = self._state
        state.begin(packet[0])
        state.is_open = False
        self._file, self._own = packet[-1].end.file, []
        statements: list[tuple[bytes, int | None]] = []
        ends: list[int] = []
        refusal: BinlogError | None = None
        try:
            state.restore()
            self._events.describe(packet[0].description)
            before = None
            for transaction in packet:
                statements += self._packed(transaction, before)
                ends.append(len(statements))
                before = transaction
        except ReplayError as exc:
            if not ends:
                return 0, exc
            refusal = exc
            state.gtid = packet[len(ends) - 1].gtid if self._keeps_gtids else None
        if state.gtid is not None:
            statements.append((automatic_statement(state.gtid), None))
        count, error = self._connection.run_packet(statements)
        committed = bisect_right(ends, count)
        self.counts.events += sum(group.events for one in packet[:committed] for group in _raw_groups(one))
        if error is None:
            state.gtid = None
            return committed, refusal
        if committed == len(ends):
            raise error
        state.is_open = True
        return committed, state.explained(error, statements[count][0])

    def _packed(
        self, transaction: LoggedTransaction, before: LoggedTransaction | None
    ) -> list[tuple[bytes, int | None]]:
        """Return the statements of a transaction; `before` is the one before it in the packet.

        Raises:
            ReplayError: its GTID cannot be kept.
        """
        found: list[tuple[bytes, int | None]] = []
        if self._keeps_gtids:
            self._state.gtid = self._checked_gtid(transaction)
        if self._state.gtid is not None:
            found += gtid_statements(self._state.gtid, None if before is None else before.gtid)
        found.append((b"BEGIN", None))
        for group in _raw_groups(transaction):
            self._state.tables.check_columns(group, self._connection.ask)
            found += ((one.sql, one.offset) for one in group.statements)
        if self._state.gtid is None:
            low, log = transaction.end, transaction.log
            if before is not None and before.log is log and before.end.file == low.file:
                found.append((position_table.moved(self._source, self._number, low).encode(), None))
            else:
                found.append((position_table.reached(self._source, self._number, low, (), log).encode(), None))
        found.append((b"COMMIT", None))
        return found

    def rollback(self) -> None:
        """Roll back what is open."""
        state = self._state
        state.waiting = []
        if state.is_open or state.gtid is not None:
            automatic = [] if state.gtid is None else [(automatic_statement(state.gtid), None)]
            state.is_open, state.gtid = False, None
            self._connection.run_all([(b"ROLLBACK", None), *automatic])

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def _raw_groups(transaction: LoggedTransaction) -> list[RawGroup]:
    return [step for step in transaction.steps if isinstance(step, RawGroup)]
