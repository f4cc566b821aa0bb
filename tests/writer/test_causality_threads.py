"""As `test_causality`, with eight threads at once: the locks are those of a server, the interleaving is by chance.

A transaction locks its rows of transactional tables before it begins and up to its end; other tables are locked for a
statement at a time.
"""

from __future__ import annotations

import sys
from contextlib import ExitStack
from itertools import count
from random import Random
from threading import Lock, Thread
from typing import TYPE_CHECKING, Final

import pytest

from binlogio.options import ServerVariables
from binlogio.writer import BinlogWriter
from memory_storage import MemoryStorage
from modelled_statements import (
    IDS,
    TABLES,
    UNSAFE,
    UUID,
    Cell,
    Operation,
    State,
    check_clock,
    is_transactional,
    replay,
    statement_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binlogio.writer import Session

THREADS: Final = 8
TRANSACTIONS: Final = 40
CELLS: Final = [(name, number) for name in TABLES for number in IDS]


@pytest.fixture(autouse=True)
def frequent_switches() -> Iterator[None]:
    """Threads take turns often."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


class SharedTables:
    """Tables that threads change, with their locks."""

    def __init__(self) -> None:
        self.state: State = dict.fromkeys(CELLS, 1)
        self.texts: dict[str, Operation] = {}
        self._numbers = count()
        self._rows = {cell: Lock() for cell in CELLS if is_transactional(cell[0])}
        self._tables = {name: Lock() for name in TABLES if not is_transactional(name)}

    def work(self, log: BinlogWriter, random: Random, *, avoids_unsafe: bool) -> None:
        """Run the transactions of one thread."""
        with log.session("shop") as session:
            for _ in range(TRANSACTIONS):
                operations = [_operation(random, avoids_unsafe=avoids_unsafe) for _ in range(random.randint(1, 3))]
                if avoids_unsafe:
                    operations.sort(key=lambda one: is_transactional(one.tables[0]))
                cells = {cell for one in operations for cell in (*one.writes, *one.reads)}
                undo: list[tuple[Cell, int]] = []
                is_autocommitted = len(operations) == 1 and random.random() < 0.5
                with ExitStack() as locks:
                    for cell in sorted(cells & self._rows.keys()):
                        locks.enter_context(self._rows[cell])
                    if not is_autocommitted:
                        session.begin()
                    for operation in operations:
                        undo += self._execute(session, operation)
                        if avoids_unsafe:
                            assert UNSAFE not in [warning.errno for warning in session.warnings]
                    if not is_autocommitted:
                        if random.random() < 0.3:
                            session.rollback()
                            self.state.update(reversed(undo))
                        else:
                            session.commit()

    def _execute(self, session: Session, operation: Operation) -> list[tuple[Cell, int]]:
        text = f"UPDATE /* {next(self._numbers)} */"
        self.texts[text] = operation
        with ExitStack() as locks:
            for name in sorted(set(operation.tables) & self._tables.keys()):
                locks.enter_context(self._tables[name])
            own = {cell: self.state[cell] for cell in (*operation.writes, *operation.reads)}
            changes = operation.apply(own)
            self.state.update({cell: own[cell] for cell in operation.writes})
            session.execute(statement_of(text, operation, changes))
        return [(cell, old) for cell, old, _ in changes if is_transactional(cell[0])]


def _operation(random: Random, *, avoids_unsafe: bool) -> Operation:
    cells = CELLS
    if avoids_unsafe:
        kind = random.random() < 0.5
        cells = [cell for cell in CELLS if is_transactional(cell[0]) is kind]
    return Operation(
        writes=tuple(random.sample(cells, random.randint(1, 2))),
        reads=tuple(random.sample(cells, random.randint(0, 1))),
        addend=random.randint(1, 9),
        fails=random.random() < 0.2,
    )


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("binlog_format", ["STATEMENT", "ROW", "MIXED"])
def test_replay_gives_what_eight_threads_did(binlog_format: str, seed: int) -> None:
    """Also in any order that the logical clock allows."""
    storage, ticks, shared = MemoryStorage(), count(1_700_000_000_000_000, 1000), SharedTables()
    variables = ServerVariables(
        server_uuid=UUID, binlog_format=binlog_format, gtid_mode="OFF", binlog_transaction_compression=seed == 1
    )
    with BinlogWriter("binlog", variables=variables, clock=lambda: next(ticks), storage=storage) as log:
        threads = [
            Thread(
                target=shared.work,
                args=(log, Random(seed * THREADS + number)),
                kwargs={"avoids_unsafe": binlog_format == "STATEMENT"},
            )
            for number in range(THREADS)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    state, groups = replay(storage, shared.texts)
    assert state == shared.state
    assert len(groups) > THREADS * TRANSACTIONS // 2
    check_clock(groups)
