"""Random concurrent transactions of several sessions with valid SQL texts, and the resulting tables.

The tables t1 and t2 are InnoDB tables, n1 and n2 MyISAM tables. A transaction locks its InnoDB rows from before its
begin to its end. MyISAM tables are locked for the duration of a statement.
"""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import count
from random import Random
from threading import Lock
from typing import Any, Final

from binlogio.errors import LoggingError
from binlogio.schema import ColumnDefinition, TableDefinition
from binlogio.values.json import JsonDiff, JsonDiffOperation, JsonDiffs, JsonDocument
from binlogio.writer import BinlogWriter, Delete, Insert, Session, Statement, Update, XaXid
from binlogio.writer.rules.statement import Change

T1: Final = TableDefinition(
    "shop",
    "t1",
    (
        ColumnDefinition("id", "int", nullable=False),
        ColumnDefinition("v", "bigint"),
        ColumnDefinition("note", "text"),
        ColumnDefinition("j", "json"),
    ),
    ("id",),
)
N1: Final = replace(T1, name="n1", engine="MyISAM")
TABLES: Final = {table.name: table for table in (T1, replace(T1, name="t2"), N1, replace(N1, name="n2"))}
CREATE: Final = "".join(
    f"CREATE TABLE shop.{table.name} (id INT NOT NULL PRIMARY KEY, v BIGINT, note TEXT, j JSON) ENGINE={table.engine};"
    for table in TABLES.values()
)
IDS: Final = range(1, 9)
MODULUS: Final = 1_000_000_007
DUPLICATE_KEY: Final = 1062
UNSAFE: Final = 1592
GTID_UNSAFE: Final = 1785

Cell = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Row:
    """A row without its id."""

    v: int
    note: str
    a: int

    def values(self, number: int) -> tuple[Any, ...]:
        """Return the values of the row in the log."""
        return number, self.v, self.note, JsonDocument.from_text(self.document)

    @property
    def document(self) -> str:
        """The JSON document in the server's format."""
        return json.dumps({"a": self.a, "pad": "p" * 50})


def is_transactional(name: str) -> bool:
    """Return whether ROLLBACK undoes changes of a table."""
    return name.startswith("t")


class Shop:
    """The tables with their locks. `executed` counts statements.

    `has_xa`: some transactions are XA transactions.
    """

    def __init__(self, *, has_xa: bool = True) -> None:
        self._has_xa = has_xa
        self.rows: dict[Cell, Row] = {}
        self.executed = 0
        self._locks = {(name, number): Lock() for name in TABLES for number in IDS if is_transactional(name)}
        self._table_locks = {name: Lock() for name in TABLES if not is_transactional(name)}
        self._numbers = count(1)

    def run(self, log: BinlogWriter, sessions: list[dict[str, Any]], transactions: int, seed: int) -> None:
        """Run `transactions` transactions in one thread and session for each element of `sessions`, its variables."""

        def work(number: int) -> None:
            self._work(log, sessions[number], transactions, Random(seed * 1000 + number))

        with ThreadPoolExecutor(len(sessions)) as pool:
            list(pool.map(work, range(len(sessions))))

    def expected(self, name: str) -> str:
        """Return a table as the client prints it."""
        rows = sorted((number, row) for (table, number), row in self.rows.items() if table == name)
        return "".join(f"{number}\t{row.v}\t{row.note}\t{row.document}\n" for number, row in rows)

    def logged(self, statement: Statement) -> Statement:
        """Return the statement that the session logs."""
        return statement

    def _work(self, log: BinlogWriter, variables: dict[str, Any], transactions: int, random: Random) -> None:
        with log.session("shop") as session:
            session.set_variables(**variables)
            for _ in range(transactions):
                self._transaction(session, random)
                if random.random() < 0.002:
                    session.flush_logs()

    def _transaction(self, session: Session, random: Random) -> None:
        steps = [_cells(random) for _ in range(random.randint(1, 3))]
        kind = random.choices(["autocommit", "commit", "rollback", "savepoint", "xa"], [3, 6, 1, 2, 1])[0]
        is_statement = session.variables.binlog_format == "STATEMENT"
        if kind == "xa" and (is_statement or not self._has_xa):  # in STATEMENT format all its statements are unsafe
            kind = "commit"
        if kind == "autocommit":
            steps = steps[:1]
        elif kind == "xa" or (
            kind == "savepoint" and is_statement
        ):  # a savepoint is cached; nothing may be logged before it
            steps = [step for step in steps if all(is_transactional(name) for name, _ in step)]
        elif is_statement:
            steps.sort(key=lambda step: any(is_transactional(name) for name, _ in step))
        with ExitStack() as locks:
            for cell in sorted({cell for step in steps for cell in step} & self._locks.keys()):
                locks.enter_context(self._locks[cell])
            if kind == "autocommit":
                self._statement(session, steps[0], random)
            elif kind == "xa":
                self._xa(session, steps, random)
            else:
                self._begin_and_end(session, steps, random, kind)

    def _begin_and_end(self, session: Session, steps: list[tuple[Cell, ...]], random: Random, kind: str) -> None:
        undo: list[tuple[Cell, Row | None]] = []
        session.begin()
        for number, step in enumerate(steps):
            if kind == "savepoint" and number == 1:
                session.savepoint("s")
                saved = len(undo)
            undo += self._statement(session, step, random)
        if kind == "savepoint" and len(steps) > 1:
            session.rollback_to("s")
            self._undo(undo, saved)
        if kind == "rollback":
            session.rollback()
            self._undo(undo, 0)
        else:
            session.commit()

    def _xa(self, session: Session, steps: list[tuple[Cell, ...]], random: Random) -> None:
        xid = XaXid(str(next(self._numbers)).encode())
        session.xa_start(xid)
        undo = [undone for step in steps for undone in self._statement(session, step, random)]
        session.xa_end(xid)
        if random.random() < 0.3:
            session.xa_commit(xid, one_phase=True)
            return
        session.xa_prepare(xid)
        if random.random() < 0.3:
            session.xa_rollback(xid)
            self._undo(undo, 0)
        else:
            session.xa_commit(xid)

    def _undo(self, undo: list[tuple[Cell, Row | None]], length: int) -> None:
        while len(undo) > length:
            self._set(*undo.pop())

    def _set(self, cell: Cell, row: Row | None) -> None:
        if row is None:
            self.rows.pop(cell, None)
        else:
            self.rows[cell] = row

    def _statement(self, session: Session, cells: tuple[Cell, ...], random: Random) -> list[tuple[Cell, Row | None]]:
        """Execute a statement; return the old rows for a rollback of the transaction."""
        names = {name for name, _ in cells}
        if session.variables.binlog_format == "STATEMENT" and len({is_transactional(name) for name in names}) > 1:
            return []
        with ExitStack() as locks:
            for name in sorted(names & self._table_locks.keys()):
                locks.enter_context(self._table_locks[name])
            sql, after, error = self._choose(cells, random)
            changes = [_change(sql, cell, self.rows.get(cell), row) for cell, row in after.items()]
            tables = [TABLES[name] for name in sorted(names)]
            statement = self.logged(replace(Statement.from_sql(sql, "shop", tables, changes), error=error))
            try:
                session.execute(statement)
            except LoggingError as refusal:
                if refusal.errno != GTID_UNSAFE:
                    raise
                return []
            self.executed += 1
            if session.variables.binlog_format == "STATEMENT":
                assert UNSAFE not in [warning.errno for warning in session.warnings], sql
            before = {cell: self.rows.get(cell) for cell in after}
            if not error or not is_transactional(cells[0][0]):
                for cell, row in after.items():
                    self._set(cell, row)
            return [(cell, row) for cell, row in before.items() if is_transactional(cell[0])]

    def _choose(self, cells: tuple[Cell, ...], random: Random) -> tuple[str, dict[Cell, Row | None], int]:
        """Return a statement on one row or two rows, the resulting rows, and its error number."""
        (name, number), addend = cells[0], random.randint(1, 99)
        row = self.rows.get(cells[0])
        new = Row(addend, f"note {addend} " * random.choice([1, 1, 1, 300]), addend)
        values = f"({number}, {new.v}, '{new.note}', '{new.document}')"
        if len(cells) == 2:
            (other_name, other_number), other = cells[1], self.rows.get(cells[1])
            if name == other_name and row is None and other is not None:
                sql = f"INSERT INTO {name} VALUES {values}, ({other_number}, 0, '', '{{}}')"
                return sql, {cells[0]: new}, DUPLICATE_KEY
            if name != other_name and row is not None and other is not None:
                changed = replace(row, v=(3 * row.v + other.v) % MODULUS)
                sql = (
                    f"UPDATE {name}, {other_name} SET {name}.v = (3 * {name}.v + {other_name}.v) % {MODULUS} "
                    f"WHERE {name}.id = {number} AND {other_name}.id = {other_number}"
                )
                return sql, {cells[0]: changed}, 0
        if row is None:
            return f"INSERT INTO {name} (id, v, note, j) VALUES {values}", {cells[0]: new}, 0
        choice = random.randrange(6)
        if choice == 0:
            return f"DELETE FROM {name} WHERE id = {number}", {cells[0]: None}, 0
        if choice == 1 and new != row:
            return f"REPLACE INTO {name} VALUES {values}", {cells[0]: new}, 0
        if choice == 2 and new.note != row.note:
            return (
                f"UPDATE {name} SET note = '{new.note}' WHERE id = {number}",
                {cells[0]: replace(row, note=new.note)},
                0,
            )
        if choice == 3 and addend != row.a:
            sql = f"UPDATE {name} SET j = JSON_SET(j, '$.a', {addend}) WHERE id = {number}"
            return sql, {cells[0]: replace(row, a=addend)}, 0
        changed = replace(row, v=(3 * row.v + addend) % MODULUS)
        return f"UPDATE {name} SET v = (3 * v + {addend}) % {MODULUS} WHERE id = {number}", {cells[0]: changed}, 0


def _cells(random: Random) -> tuple[Cell, ...]:
    cells = [(name, number) for name in TABLES for number in IDS]
    return tuple(random.sample(cells, random.choice([1, 1, 2])))


def _change(sql: str, cell: Cell, before: Row | None, after: Row | None) -> Change:
    name, number = cell
    table = TABLES[name]
    if before is None:
        assert after is not None
        return Insert(table, [after.values(number)])
    if after is None:
        return Delete(table, [before.values(number)])
    if sql.startswith("REPLACE"):
        return Update(table, [(before.values(number), after.values(number))], replaces_insert=True)
    old = dict(zip(("id", "v", "note", "j"), before.values(number), strict=True))
    if before.a != after.a:
        diff = JsonDiff(JsonDiffOperation.REPLACE, "$.a", JsonDocument.from_text(str(after.a)))
        return Update(table, [(old, {"j": JsonDiffs([diff])})])
    if before.note != after.note:
        return Update(table, [(old, {"note": after.note})])
    return Update(table, [(old, {"v": after.v})])
