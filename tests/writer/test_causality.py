"""Replaying a log in its order gives what execution gave, however the transactions of sessions were interleaved.

So does any order that the logical clock allows. Execution is a model here: statements are functions of the rows that
they read, transactional tables have row locks up to the end of the transaction, others have none. Replay takes row
images as they are, and executes the statements that are in the log as text once more.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from binlogio.errors import LoggingError
from binlogio.options import ServerVariables
from binlogio.writer import BinlogWriter, Session
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


@dataclass(slots=True)
class Client:
    """A session, and what its transaction holds: locks (True where exclusive), what it has changed and since when."""

    session: Session
    locks: dict[Cell, bool] = field(default_factory=dict)
    undo: list[tuple[Cell, int]] = field(default_factory=list)
    savepoint: int | None = None
    in_transaction: bool = False
    has_written: bool = False


class Execution:
    """The tables as sessions change them.

    What another session's lock stops, and what the log refuses, is not executed.
    """

    def __init__(self, log: BinlogWriter, clients: int, *, avoids_unsafe: bool) -> None:
        self.state: State = {(name, number): 1 for name in TABLES for number in IDS}
        self.texts: dict[str, Operation] = {}
        self.was_unsafe = False
        self._avoids_unsafe = avoids_unsafe
        self._clients = [Client(log.session("shop")) for _ in range(clients)]

    def run(self, number: int, step: Operation | str) -> None:
        """Run a step of one session."""
        client = self._clients[number]
        if isinstance(step, Operation):
            self._execute(client, step)
        elif step == "SAVEPOINT":
            client.session.savepoint("a")
            client.savepoint = len(client.undo) if client.in_transaction else None
        elif step == "ROLLBACK TO":
            if client.savepoint is not None:
                client.session.rollback_to("a")
                self._undo(client, client.savepoint)
        else:
            self._end(client, step)

    def close(self) -> None:
        """All sessions disconnect."""
        for client in self._clients:
            self._end(client, "CLOSE")

    def _end(self, client: Client, step: str) -> None:
        getattr(client.session, step.lower())()
        if step in ("ROLLBACK", "CLOSE"):
            self._undo(client, 0)
        client.locks, client.undo, client.savepoint, client.has_written = {}, [], None, False
        client.in_transaction = step == "BEGIN"

    def _undo(self, client: Client, length: int) -> None:
        while len(client.undo) > length:
            cell, value = client.undo.pop()
            self.state[cell] = value

    def _execute(self, client: Client, operation: Operation) -> None:
        locks = dict.fromkeys(operation.reads, False) | dict.fromkeys(operation.writes, True)
        locks = {cell: exclusive for cell, exclusive in locks.items() if is_transactional(cell[0])}
        if self._avoids_unsafe and self._is_unsafe(client, operation):
            return
        for other in self._clients:
            if other is not client and any(
                cell in other.locks and (other.locks[cell] or locks[cell]) for cell in locks
            ):
                return
        state = dict(self.state)
        changes = operation.apply(state)
        text = f"UPDATE /* {len(self.texts)} */"
        self.texts[text] = operation
        try:
            client.session.execute(statement_of(text, operation, changes))
        except LoggingError:
            return
        self.was_unsafe |= any(warning.errno == UNSAFE for warning in client.session.warnings)
        self.state = state
        if client.in_transaction:
            client.locks |= {cell: exclusive or client.locks.get(cell, False) for cell, exclusive in locks.items()}
            client.has_written |= any(map(is_transactional, operation.written))
            if not operation.fails:
                client.undo += [(cell, old) for cell, old, _ in changes if is_transactional(cell[0])]

    def _is_unsafe(self, client: Client, operation: Operation) -> bool:
        """Return whether the worklog calls it mixed: it uses both kinds of tables, or N after T."""
        kinds = {is_transactional(name) for name in operation.tables}
        return len(kinds) > 1 or (client.has_written and False in kinds)


CELLS: Final = st.sampled_from([(name, number) for name in TABLES for number in IDS])
OPERATIONS: Final = st.builds(
    Operation,
    writes=st.lists(CELLS, min_size=1, max_size=2, unique=True).map(tuple),
    reads=st.lists(CELLS, max_size=1).map(tuple),
    addend=st.integers(1, 9),
    fails=st.sampled_from([False, False, False, True]),
)
STEPS: Final = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.one_of(
            OPERATIONS,
            OPERATIONS,
            st.sampled_from(["BEGIN", "BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT", "ROLLBACK TO"]),
        ),
    ),
    max_size=40,
)


@pytest.mark.parametrize("binlog_format", ["STATEMENT", "ROW", "MIXED"])
@pytest.mark.parametrize("rule_set", ["9.7", "5.5.9"])
@settings(max_examples=100)
@given(
    steps=STEPS,
    variables=st.fixed_dictionaries(
        {
            "gtid_mode": st.sampled_from(["OFF", "ON"]),
            "binlog_transaction_compression": st.booleans(),
            "binlog_row_event_max_size": st.sampled_from([256, 8192]),
        }
    ),
)
def test_replay_in_the_order_of_the_log_gives_what_execution_gave(
    rule_set: str, binlog_format: str, steps: list[tuple[int, Operation | str]], variables: dict[str, Any]
) -> None:
    """In STATEMENT format unless the client was warned."""
    storage, ticks = MemoryStorage(), count(1_700_000_000_000_000, 1000)
    settings = ServerVariables(
        server_uuid=UUID,
        rule_set=rule_set,
        binlog_format=binlog_format,
        enforce_gtid_consistency=variables["gtid_mode"],
        binlog_row_image="FULL",
        **variables,
    )
    with BinlogWriter("binlog", variables=settings, clock=lambda: next(ticks), storage=storage) as log:
        execution = Execution(log, 3, avoids_unsafe=binlog_format == "STATEMENT")
        for number, step in steps:
            execution.run(number, step)
        execution.close()

    if binlog_format == "STATEMENT" and execution.was_unsafe:
        event("a client was warned")
        return
    state, groups = replay(storage, execution.texts)
    assert state == execution.state
    check_clock(groups)
