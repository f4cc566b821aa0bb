"""Random transactions of several threads on `random_tables`, one session per thread, and the resulting tables.

A transaction locks its rows of InnoDB tables from before its begin to its end; without a key it locks the whole table.
If statements may be logged as text, it also locks the whole table: InnoDB then locks the gaps beside the rows, and an
INSERT into such a gap waits for the transaction. A log with logical timestamps that allow both in parallel, which no
server writes, would cause a deadlock of the workers of a replica that the replica does not resolve.

MyISAM tables are locked for the duration of a statement. In STATEMENT format, which logs all statements as text, they
are locked until the end of the transaction, so that no statements of other sessions come between.
"""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from random import Random
from threading import Lock
from typing import TYPE_CHECKING, Final

from binlogio.errors import LoggingError
from binlogio.writer import Statement, StatementFacts
from binlogio.writer.rules.known_objects import KnownObjects, Trigger, table_access
from random_statements import Made, Step, choose, create_select
from random_tables import SCHEMA, SLOTS, Row, Table, tables

if TYPE_CHECKING:
    from binlogio.writer import BinlogWriter, Session

THREADS: Final = 8
GTID_UNSAFE: Final = 1785
GTID_UNSAFE_SELECT: Final = 1786
Undone = tuple[Table, int, list[Row]]


@dataclass(slots=True)
class Transaction:
    """Uncommitted changes of a session, their savepoints, and whether the cache is known to be non-empty."""

    undo: list[Undone] = field(default_factory=list)
    savepoints: dict[str, int] = field(default_factory=dict)
    waits: bool = False
    may_wait: bool = False

    def roll_back(self, length: int) -> None:
        """Roll back all changes after the first `length` changes."""
        while len(self.undo) > length:
            table, slot, rows = self.undo.pop()
            table.slots[slot] = rows


class RandomTables:
    """The tables with their locks. `counts` has the number of statements by outcome."""

    def __init__(self) -> None:
        self.tables = tables()
        self.counts: Counter[str] = Counter()
        self._locks = {
            (table.name, slot): Lock() for table in self.tables for slot in (SLOTS if self._has_rows(table) else (0,))
        }

    def create(self, session: Session) -> None:
        """Log the DDL of the tables."""
        session.ddl(f"CREATE DATABASE {SCHEMA}")
        session.schema = SCHEMA
        for table in self.tables:
            for text in table.creates:
                session.execute(Statement.from_sql(text, SCHEMA, []))

    def run(self, log: BinlogWriter, transactions: int, seed: int) -> None:
        """Distribute the transactions to threads and run them."""

        def work(number: int) -> None:
            Worker(self, log, Random(seed * 1000 + number)).run(transactions // THREADS)

        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(work, range(THREADS)))

    def lock(self, locks: ExitStack, names: set[tuple[str, int]]) -> None:
        """Acquire locks in the global order: InnoDB tables first."""
        for name in sorted(names, key=lambda name: (name[0].startswith("n"), *name)):
            locks.enter_context(self._locks[name])

    def locks_of(self, table: Table, slots: tuple[int, ...] = tuple(SLOTS)) -> set[tuple[str, int]]:
        """Return the locks that slots of a table require."""
        return {(table.name, slot) for slot in (slots if self._has_rows(table) else (0,))}

    def locks_of_ddl(self, table: Table) -> set[tuple[str, int]]:
        """Return the locks that DDL of a table requires."""
        return self.locks_of(table) | (self.locks_of(self.source_of(table)) if table.source else set())

    def source_of(self, table: Table) -> Table:
        """Return the source of CREATE TABLE ... SELECT for a table."""
        return next(one for one in self.tables if one.name == table.source)

    @staticmethod
    def _has_rows(table: Table) -> bool:
        return table.is_transactional and table.has_key


class Worker:
    """The transactions of one thread, in one session after the other."""

    def __init__(self, shared: RandomTables, log: BinlogWriter, random: Random) -> None:
        self._shared = shared
        self._log = log
        self._random = random
        self._session = log.session(SCHEMA)
        self._is_statement = log.variables.binlog_format == "STATEMENT"
        self._locks_gaps = log.variables.binlog_format != "ROW"
        self._refuses = log.variables.gtid_mode == "ON"
        self._is_direct = False

    def run(self, transactions: int) -> None:
        """Execute `transactions` transactions."""
        for _ in range(transactions):
            if self._random.random() < 0.1:
                self._is_direct = self._random.random() < 0.4
                self._session.set_variables(
                    binlog_direct_non_transactional_updates=self._is_direct,
                    binlog_rows_query_log_events=self._random.random() < 0.3,
                    transaction_isolation="REPEATABLE-READ"
                    if self._is_statement
                    else self._random.choice(["READ-COMMITTED", "REPEATABLE-READ", "SERIALIZABLE"]),
                )
            if self._random.random() < 0.02:
                self._ddl()
            else:
                self._transaction()
        self._session.close()

    def _step(self) -> Step:
        random, found = self._random, self._shared.tables
        table = random.choice(found)
        slots = tuple(random.sample(SLOTS, random.choice([1, 1, 2, 3])))
        if random.random() < (0.5 if table.audit else 0.75):
            return Step(table, slots)
        other = random.choice([one for one in found if one is not table])
        if table.audit and random.random() < 0.8:
            other = next(one for one in found if one.name == table.audit)
        if self._is_statement and self._is_direct and other.is_transactional is not table.is_transactional:
            return Step(table, slots)  # the statement would be cached while later ones are logged directly
        if other.name == table.audit:
            return Step(table, slots, other, slots[0])
        return Step(table, slots[:1], other, random.choice(SLOTS))

    def _transaction(self) -> None:
        random, shared = self._random, self._shared
        steps = [self._step() for _ in range(random.choice([1, 1, 2, 3, 5]))]
        is_autocommitted = len(steps) == 1 and random.random() < 0.7
        ends_with = random.choices([None, random.choice(shared.tables)], [30, 1])[0]
        cells = [cell for step in steps for cell in step.cells]
        needed = {
            lock
            for table, slot in cells
            for lock in shared.locks_of(table, tuple(SLOTS) if self._locks_gaps and table.is_transactional else (slot,))
        }
        if ends_with is not None and not is_autocommitted:
            needed |= shared.locks_of_ddl(ends_with)
        held = {lock for lock in needed if self._is_statement or lock[0].startswith("t")}
        transaction = Transaction()
        with ExitStack() as locks:
            shared.lock(locks, held)
            if is_autocommitted:
                self._statement(steps[0], transaction, held, is_autocommitted=True)
                return
            self._session.begin()
            for step in steps:
                self._savepoint(transaction)
                self._statement(step, transaction, held, is_autocommitted=False)
            if ends_with is not None:
                shared.lock(locks, shared.locks_of_ddl(ends_with) - held)
                self._alter(ends_with)
            else:
                self._end(transaction)

    def _savepoint(self, transaction: Transaction) -> None:
        random = self._random
        if random.random() < 0.15:
            name = random.choice("ab")
            self._session.savepoint(name)
            transaction.savepoints.pop(name, None)
            transaction.savepoints[name] = len(transaction.undo)
            transaction.may_wait = True
        elif transaction.savepoints and random.random() < 0.3:
            name = random.choice(list(transaction.savepoints))
            names = list(transaction.savepoints)
            if random.random() < 0.2:
                self._session.release(name)
                kept = names[: names.index(name)]
            else:
                self._session.rollback_to(name)
                transaction.roll_back(transaction.savepoints[name])
                transaction.waits = False
                kept = names[: names.index(name) + 1]
            transaction.savepoints = {one: transaction.savepoints[one] for one in kept}

    def _end(self, transaction: Transaction) -> None:
        end = self._random.choices(["commit", "rollback", "close"], [8, 2, 1])[0]
        getattr(self._session, end)()
        if end != "commit":
            transaction.roll_back(0)
        if end == "close":
            self._session, self._is_direct = self._log.session(SCHEMA), False

    def _statement(
        self, step: Step, transaction: Transaction, held: set[tuple[str, int]], *, is_autocommitted: bool
    ) -> None:
        shared = self._shared
        with ExitStack() as locks:
            needed = {lock for table in step.tables for lock in shared.locks_of(table) if not table.is_transactional}
            shared.lock(locks, needed - held)
            made = choose(step, self._random)
            if made is None:
                return
            writes = [
                table
                for table in step.tables
                if table is step.table or made.fires or (table.name, step.other_slot) in made.after
            ]
            if not self._execute(step, made, transaction, writes):
                return
            shared.counts["failed" if made.error else "executed"] += 1
            for (name, slot), rows in made.after.items():
                table = next(one for one in step.tables if one.name == name)
                if made.error and table.is_transactional:
                    continue
                if table.is_transactional and not is_autocommitted:
                    transaction.undo.append((table, slot, table.slots.get(slot, [])))
                table.slots[slot] = rows

    def _execute(self, step: Step, made: Made, transaction: Transaction, writes: list[Table]) -> bool:
        """Execute a statement in the session; return False if the session correctly rejects it."""
        definitions = [table.definition for table in step.tables]
        is_row = self._log.variables.binlog_format == "ROW"
        if is_row and step.other is None and made.changes and self._random.random() < 0.5:
            statement = Statement(made.sql, made.changes, error=made.error)  # the changes are sufficient
        else:
            objects = KnownObjects(triggers=_triggers(step.tables)) if made.fires else None
            statement = Statement.from_sql(made.sql, SCHEMA, definitions, made.changes, objects=objects)
            statement = replace(statement, error=made.error, context=made.context)
        kinds = {table.is_transactional for table in writes}
        if self._is_refused(statement):
            assert self._refuses, made.sql
            assert False in kinds, made.sql
            assert True in kinds or transaction.may_wait, made.sql
            self._shared.counts["refused"] += 1
            return False
        assert not (self._refuses and False in kinds and (True in kinds or transaction.waits)), made.sql
        if True in kinds and made.changes and not made.error:
            transaction.waits = transaction.may_wait = True
        transaction.may_wait |= True in kinds or self._is_statement
        return True

    def _is_refused(self, statement: Statement) -> bool:
        try:
            self._session.execute(statement)
        except LoggingError as refusal:
            if refusal.errno == GTID_UNSAFE:
                return True
            raise
        return False

    def _ddl(self) -> None:
        table = self._random.choice(self._shared.tables)
        with ExitStack() as locks:
            self._shared.lock(locks, self._shared.locks_of_ddl(table))
            self._alter(table)

    def _alter(self, table: Table) -> None:
        choice, before = self._random.choice(["ALTER", "TRUNCATE", "DROP", "COPY"]), table.definition
        self._shared.counts["ddl"] += 1
        if choice == "ALTER" and not table.source:
            self._session.execute(Statement.from_sql(table.alter(), SCHEMA, [before]))
            return
        table.slots.clear()
        self._session.execute(
            Statement.from_sql(f"{'TRUNCATE' if choice == 'TRUNCATE' else 'DROP'} TABLE {table.name}", SCHEMA, [before])
        )
        if choice == "TRUNCATE" or (table.source and self._is_copied(table)):
            return
        for text in table.creates:
            self._session.execute(Statement.from_sql(text, SCHEMA, []))

    def _is_copied(self, table: Table) -> bool:
        """Create the table with CREATE TABLE ... SELECT; return False if GTID consistency forbids it."""
        source = self._shared.source_of(table)
        made = create_select(table, source, self._random)
        statement = Statement.from_sql(made.sql, SCHEMA, [source.definition], made.changes)
        try:
            self._session.execute(replace(statement, locked=(table.definition,)))
        except LoggingError as refusal:
            if refusal.errno != GTID_UNSAFE_SELECT or not self._refuses or table.is_transactional:
                raise
            return False
        table.slots.update({slot: rows for (_, slot), rows in made.after.items()})
        return True


def _triggers(tables: tuple[Table, ...]) -> list[Trigger]:
    """Return the trigger of the first table, which writes to the second."""
    table, audit = tables
    body = StatementFacts(verb="INSERT", tables=(table_access(audit.definition, write=True),))
    return [Trigger(table=f"{SCHEMA}.{table.name}", event="INSERT", body=body)]
