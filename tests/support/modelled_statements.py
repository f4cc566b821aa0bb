"""Model of statements as functions of the rows that they read, of their effect on tables, and of a replay of their log.

A rollback restores transactional tables only. The replay applies row images, and executes statements that are logged as
text again. The caller holds the locks.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

from binlogio.events.gtid import AnonymousGtidEvent, GtidEvent
from binlogio.events.query import QueryEvent
from binlogio.events.rows import UpdateRowsEvent
from binlogio.events.table_map import TableMapEvent
from binlogio.reader import open as open_logs
from binlogio.rows.image import decode_rows
from binlogio.rows.plan import TablePlan, resolve_plan
from binlogio.schema import ColumnDefinition, TableDefinition
from binlogio.writer import Statement, StatementFacts, Update
from binlogio.writer.rules.known_objects import table_access
from memory_storage import MemoryStorage

T1: Final = TableDefinition(
    "shop", "t1", (ColumnDefinition("id", "int", nullable=False), ColumnDefinition("v", "bigint")), ("id",)
)
N1: Final = replace(T1, name="n1", engine="MyISAM")
TABLES: Final = {
    table.name: table for table in (T1, replace(T1, name="t2"), N1, replace(N1, name="n2"))
}  # tables whose name begins with t are transactional
IDS: Final = (1, 2)
MODULUS: Final = 1 << 40
UNSAFE: Final = 1592
ERROR: Final = 1105
UUID: Final = "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa"
Cell = tuple[str, int]
State = dict[Cell, int]


@dataclass(frozen=True, slots=True)
class Operation:
    """`UPDATE ... SET v = 3 * v + (sum of the rows read) + addend` of some rows, one after the other.

    `fails`: the statement fails after its last row.
    """

    writes: tuple[Cell, ...]
    reads: tuple[Cell, ...]
    addend: int
    fails: bool

    @property
    def tables(self) -> tuple[str, ...]:
        """All tables of the statement, in the order of its text."""
        return tuple(dict.fromkeys(name for name, _ in (*self.writes, *self.reads)))

    @property
    def written(self) -> tuple[str, ...]:
        """The tables that the statement changes."""
        return tuple(dict.fromkeys(name for name, _ in self.writes))

    def apply(self, state: State) -> list[tuple[Cell, int, int]]:
        """Change the rows; return each changed cell with its value before and after.

        If the statement fails, its changes of transactional tables are rolled back.
        """
        before, done = dict(state), []
        for cell in self.writes:
            old = state[cell]
            state[cell] = (3 * old + sum(state[other] for other in self.reads) + self.addend) % MODULUS
            done.append((cell, old, state[cell]))
        if self.fails:
            roll_back(state, before)
        return done


def is_transactional(name: str) -> bool:
    """Return whether ROLLBACK undoes changes of a table."""
    return name.startswith("t")


def roll_back(state: State, before: State) -> None:
    """Restore the rows of transactional tables."""
    state.update({cell: value for cell, value in before.items() if is_transactional(cell[0])})


def statement_of(text: str, operation: Operation, changes: list[tuple[Cell, int, int]]) -> Statement:
    """Return the statement of an operation for a session."""
    facts = StatementFacts(
        verb="UPDATE",
        tables=tuple(
            table_access(TABLES[name], write=name in operation.written, read=name not in operation.written)
            for name in operation.tables
        ),
    )
    rows = [
        Update(TABLES[name], [({"id": number, "v": old}, {"id": number, "v": new})])
        for (name, number), old, new in changes
    ]
    return Statement(text, rows, facts=facts, error=ERROR if operation.fails else 0)


@dataclass(slots=True)
class ReplayedGroup:
    """A group with its logical timestamps and dependencies: rows written, and, if it is logged as text, rows read."""

    last_committed: int
    sequence_number: int
    written: set[Cell] = field(default_factory=set)
    read: set[Cell] = field(default_factory=set)

    def depends_on(self, other: ReplayedGroup) -> bool:
        """Return whether a replica must apply this group after an earlier group."""
        return bool(self.written & (other.written | other.read) or self.read & other.written)


def replay(storage: MemoryStorage, texts: dict[str, Operation]) -> tuple[State, list[ReplayedGroup]]:
    """Return the tables after the log, and its groups; each before image has to match the tables."""
    state: State = {(name, number): 1 for name in TABLES for number in IDS}
    begin = savepoint = dict(state)
    maps: dict[int, tuple[str, TablePlan]] = {}
    groups: list[ReplayedGroup] = []
    with open_logs(storage.streams()) as reader:
        for event in reader:
            if isinstance(event, GtidEvent | AnonymousGtidEvent):
                groups.append(ReplayedGroup(event.last_committed or 0, event.sequence_number or 0))
            elif isinstance(event, TableMapEvent):
                maps[event.table_id] = event.table, resolve_plan(event)
            elif isinstance(event, UpdateRowsEvent):
                name, plan = maps[event.table_id]
                for change in decode_rows(event, plan):
                    assert change.before is not None
                    assert change.after is not None
                    number, old = change.before.values
                    assert state[name, number] == old
                    state[name, number] = change.after.values[1]
                    groups[-1].written.add((name, number))
            elif isinstance(event, QueryEvent):
                text = event.sql.decode()
                if text in texts:
                    assert event.error_code == (ERROR if texts[text].fails else 0)
                    texts[text].apply(state)
                    groups[-1].written.update(texts[text].writes)
                    groups[-1].read.update(texts[text].reads)
                elif text == "BEGIN":
                    begin = dict(state)
                elif text == "ROLLBACK":
                    roll_back(state, begin)
                elif text.startswith("SAVEPOINT"):
                    savepoint = dict(state)
                elif text.startswith("ROLLBACK TO"):
                    roll_back(state, savepoint)
                else:
                    assert text == "COMMIT"
    return state, groups


def check_clock(groups: list[ReplayedGroup]) -> None:
    """Check that the logical timestamps allow no group to run in parallel with a group on which it depends."""
    for number, group in enumerate(groups):
        for other in groups[:number]:
            assert group.last_committed >= other.sequence_number or not group.depends_on(other)
