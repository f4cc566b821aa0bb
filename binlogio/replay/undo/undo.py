"""`undo` (flashback): the inverse of the row changes in a log, newest transaction first.

The inverse of a row is in `inverse`, the outputs in `sql_script` and `binlog_file`.

    The log is read once, from its beginning to its end. The inverse of each transaction is written to a temporary file
    at the end of the transaction; after the last one, they are read from the last to the first. Memory holds the
    events of one transaction (and of those that XA PREPARE has put aside), and eight bytes for every other one and for
    every rows event.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING

from binlogio.dotted_names import dotted_name
from binlogio.errors import BinlogError, Hint, ReplayError
from binlogio.implementation import require_kernel
from binlogio.replay.filters import EVERYTHING, ReplayFilter
from binlogio.replay.key_source import KeySource
from binlogio.replay.row_changes import lost_cascades, row_changes
from binlogio.replay.start_position import bounds_of, skip_to
from binlogio.replay.steps import LoadStep, RefusedStep, RowsStep, StatementStep, shown_text
from binlogio.replay.transactions import TransactionReader
from binlogio.replay.undo.spool import Spool
from binlogio.schema import statements
from binlogio.series.continuity import check_series

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from binlogio.options import Position
    from binlogio.reader import BinlogReader
    from binlogio.replay.steps import LoggedTransaction
    from binlogio.replay.undo.outputs import ChangeCounts, UndoOutput
    from binlogio.replay.whole_groups import WholeGroups
    from binlogio.storage.spill_file import SpillFile

_Watch = Callable[["LoggedTransaction"], None]


class OnStatement(Enum):
    """Treatment of statements (DDL and others), which cannot be undone."""

    REFUSE = "refuse"
    STOP = "stop"  # undo what follows the last one
    SKIP = "skip"  # undo the rows before and after it


@dataclass(slots=True)
class UndoSummary:
    """Counts of an undo.

    `transactions` were reversed; `rows` counts their changes by the operation in the log. `end` is the position to
    which the undo leads back, if a statement stopped it. `statements` were not reversed. `rolled_back_groups` and
    `rolled_back_events` were rolled back by the source, but its tables without transactions keep these changes.
    `sequence_events` are those of MariaDB's sequences, which are not reversed. `lost_cascades` counts rows events by
    their table and the child table whose rows a foreign key changed with them: the log does not have these rows.
    `filtered_groups`, `prepared`, `unfinished` and `missing` as in `ReplaySummary`.
    """

    transactions: int = 0
    rows: ChangeCounts = field(default_factory=Counter)
    end: Position | None = None
    statements: int = 0
    filtered_groups: int = 0
    rolled_back_groups: int = 0
    rolled_back_events: int = 0
    sequence_events: int = 0
    lost_cascades: Counter[tuple[str, str]] = field(default_factory=Counter)
    prepared: int = 0
    unfinished: bool = False
    missing: list[str] = field(default_factory=list)


class Undo:
    """A completed undo: `summary` has its counts, `pieces` its output. `close` deletes the temporary file.

    `places` are the offsets of the reversed rows events by the name of their log, `tables` their tables as (schema,
    table), with the new name of a renamed schema.
    """

    def __init__(self, output: UndoOutput, spool: Spool) -> None:
        self.summary = UndoSummary()
        self.places: dict[str, array[int]] = {}
        self.tables: set[tuple[str, str]] = set()
        self._output = output
        self._spool = spool
        self._refusal: BinlogError | None = None

    def pieces(self) -> Iterator[bytes]:
        """Return the output, piece by piece."""
        return self._output.whole(self._spool.newest_first())

    def close(self) -> None:
        """Delete the temporary file."""
        self._spool.close()

    def __enter__(self) -> Undo:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def read(self, transactions: Iterable[LoggedTransaction], on_statement: OnStatement, watch: _Watch) -> None:
        """Read all transactions.

        Raises:
            BinlogError: one of them cannot be undone.
        """
        for transaction in transactions:
            try:
                self._take(transaction, on_statement)
            except BinlogError as exc:
                exc.locate(file=transaction.path)
                if on_statement is not OnStatement.STOP:
                    raise
                self._refusal = self._refusal or exc  # a later statement may make it irrelevant
            watch(transaction)
        if self._refusal is not None:
            raise self._refusal

    def _take(self, transaction: LoggedTransaction, on_statement: OnStatement) -> None:
        summary = self.summary
        summary.filtered_groups += transaction.is_filtered
        summary.rolled_back_groups += transaction.outcome == "rollback"
        steps = undo_steps(transaction)
        if steps.statements and on_statement is OnStatement.REFUSE:
            raise statement_refusal(steps.statements[0])
        if steps.statements and on_statement is OnStatement.STOP:
            self._stop(transaction)
            return
        summary.statements += len(steps.statements)
        summary.rolled_back_events += steps.rolled_back_events
        summary.sequence_events += steps.sequence_events
        if self._refusal is None and any(step.cascades for step in steps.rows):
            summary.lost_cascades.update(_lost_cascades(steps.rows))
        if steps.rows and self._refusal is None:
            self._spool.add(self._output.inverse(transaction, steps.rows, summary.rows))
            summary.transactions += 1
            for step in steps.rows:
                self.places.setdefault(step.path or transaction.path, array("q")).append(step.offset)
            self.tables.update(*(step.tables for step in steps.rows))

    def take_groups(self, groups: WholeGroups, inverse: bytes | memoryview, path: str) -> None:
        """Take groups that the kernel has reversed."""
        kernel, summary = groups.kernel, self.summary
        summary.filtered_groups += kernel.filtered
        if self._refusal is not None or not kernel.found:
            return
        sizes = array("q", kernel.group_sizes)
        self._spool.add_all(inverse, sizes)
        summary.transactions += len(sizes)
        self.places.setdefault(path, array("q")).frombytes(kernel.row_places)
        for one in kernel.found:
            self._output.count(one.step, one.rows, summary.rows)
            self.tables.update(one.step.tables)

    def _stop(self, transaction: LoggedTransaction) -> None:
        """Discard what was before a statement."""
        self._spool.clear()
        self.places.clear()
        self.tables.clear()
        self._refusal = None
        filtered, rolled_back = self.summary.filtered_groups, self.summary.rolled_back_groups
        self.summary = UndoSummary(end=transaction.end, filtered_groups=filtered, rolled_back_groups=rolled_back)


def _lost_cascades(steps: Iterable[RowsStep]) -> Iterator[tuple[str, str]]:
    """Yield the tables of rows events, and the ones that foreign keys changed with them."""
    for step in steps:
        if step.cascades:
            for one in lost_cascades(step, row_changes(step)):
                yield dotted_name(step.table_map.schema, step.table_map.table), dotted_name(*one.child)


def undo(
    reader: BinlogReader,
    output: UndoOutput,
    *,
    wanted: ReplayFilter = EVERYTHING,
    on_statement: OnStatement = OnStatement.REFUSE,
    ignore_missing_logs: bool = False,
    watch: _Watch = lambda _: None,
    file: SpillFile | None = None,
) -> Undo:
    """Read the transactions of a log, to be reversed from the last to the first; the caller closes reader and result.

    Args:
        reader: the log, from the beginning of an event group; with `definitions` of tables where it does not say names
            and keys (binlog_row_metadata=MINIMAL, and no DDL).
        output: what the inverse is written as.
        wanted: which part of the log.
        on_statement: what to do about statements, which cannot be undone.
        ignore_missing_logs: undo although logs or GTIDs are missing; `UndoSummary.missing` names them.
        watch: called with every transaction that was read.
        file: where transactions wait; by default a temporary file.

    Raises:
        MissingLogs: logs or GTIDs are missing between the given ones.
        PositionError: the place to start from is not the start of an event.
        ReplayError: a change cannot be undone. There is no output then, not even a part.
        BinlogError: the log is damaged.
        OSError: the log or the temporary file cannot be read or written.
    """
    require_kernel("undo")
    bounds = bounds_of(reader, wanted)
    stop = None if bounds.stop is None else bounds.stop.number + 1
    read = reader.logs[bounds.start.number : stop]
    missing = check_series(read, reader.keyring, ignore_missing_logs=ignore_missing_logs)
    skipped, _ = skip_to(reader, bounds.start)
    ready = Undo(output, Spool(file))
    ready.summary.filtered_groups = skipped.groups
    try:
        keys = KeySource(reader, needs_names=output.needs_names, tells_generated=True)
        rest = replace(wanted, start=None, stop=None)
        groups = None
        reader.split_rows()
        if rest.rows is None:
            from binlogio.replay.whole_groups import WholeGroups  # noqa: PLC0415 - there may be no kernel

            groups = WholeGroups(output.compiled, output.heading, rest, ready.take_groups)
            reader.texts(groups.kernel, by_group=True)
        transactions = TransactionReader(
            reader, keys, rest, skipped, bounds, ignore_missing_logs=ignore_missing_logs, groups=groups
        )
        ready.read(transactions, on_statement, watch)
        if wanted.rows is not None:
            wanted.rows.check_columns()
    except BaseException:
        ready.close()
        raise
    ready.summary.missing += missing + transactions.missing
    ready.summary.unfinished = transactions.unfinished
    ready.summary.prepared = transactions.prepared_count
    return ready


_Statement = StatementStep | LoadStep


@dataclass(frozen=True, slots=True)
class UndoSteps:
    """The steps of a transaction: `rows` in the order of the log, `statements` that cannot be undone.

    `rolled_back_events` were rolled back by the source, `sequence_events` are of sequences.
    """

    rows: tuple[RowsStep, ...]
    statements: tuple[_Statement, ...]
    rolled_back_events: int = 0
    sequence_events: int = 0


def undo_steps(transaction: LoggedTransaction) -> UndoSteps:
    """Return the steps of a transaction that an undo reverses, and those that it cannot.

    Raises:
        ReplayError: the log lacks changes here, or the beginning of a transaction.
    """
    rows: list[RowsStep] = []
    others: list[_Statement] = []
    savepoints: dict[str, int] = {}
    rolled_back = 0
    for step in transaction.steps:
        if isinstance(step, RowsStep):
            rows.append(step)
            continue
        if isinstance(step, RefusedStep):
            step.refusal.locate(offset=step.offset)
            raise step.refusal
        if isinstance(step, StatementStep) and isinstance(step.statement, statements.SavepointStatement):
            savepoints[step.statement.name] = len(rows)
        elif isinstance(step, StatementStep) and isinstance(step.statement, statements.RollbackTo):
            kept = _kept(step, step.statement.name, savepoints)
            rolled_back += len(rows) - kept
            del rows[kept:]
            savepoints = {name: count for name, count in savepoints.items() if count <= kept}
        elif isinstance(step, LoadStep) or (isinstance(step, StatementStep) and step.is_wanted and not step.creates):
            others.append(step)
    taken_back = tuple(step for step in rows if not step.is_of_sequence)
    return UndoSteps(taken_back, tuple(others), rolled_back, len(rows) - len(taken_back))


def statement_refusal(step: _Statement) -> ReplayError:
    """Return why a statement cannot be undone, and what to do."""
    changes_rows = isinstance(step, LoadStep) or (
        isinstance(step.statement, statements.OtherStatement) and step.statement.changes_rows
    )
    return ReplayError(
        "a statement cannot be undone: the log does not have the rows as they were before it",
        offset=step.offset,
        found=shown_text(step.event.sql),
        hint=("binlog_format=ROW on the source would have logged its rows", Hint.ON_STATEMENT)
        if changes_rows
        else Hint.ON_STATEMENT,
    )


def _kept(step: StatementStep, name: str, savepoints: dict[str, int]) -> int:
    if name not in savepoints:
        raise ReplayError("ROLLBACK TO a savepoint that is not in the log", offset=step.offset, found=name)
    return savepoints[name]
