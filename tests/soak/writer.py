"""A process that writes transactions to rotating logs, in several threads, until an empty line of its standard input.

It then prints as JSON how many transactions each thread has committed, the GTIDs and row changes, and the rows of each
table. Each other line is the name of a log; the process purges the logs before it.

    transaction := changes of rows in the table of the thread, and one row of shop.journal:
                   number (of the thread, and in it), how many changes those are, and the sum of their ids

Started by `soak.run`: python writer.py BASENAME PAUSE_S MAX_BINLOG_SIZE
"""

from __future__ import annotations

import json
import sys
from collections import deque
from dataclasses import replace
from itertools import chain, count
from random import Random
from threading import Event, Thread
from typing import Any, Final

from binlogio.options import ServerVariables
from binlogio.schema import ColumnDefinition, TableDefinition
from binlogio.writer import BinlogWriter, Delete, Insert, Statement, Update
from growing_logs import UUID, T

THREADS: Final = 3
OF_THREAD: Final = 10**9  # the numbers and ids of a thread begin at its number times this
JOURNAL: Final = TableDefinition(
    "shop",
    "journal",
    (
        ColumnDefinition("number", "bigint", nullable=False),
        ColumnDefinition("row_count", "int"),
        ColumnDefinition("total", "bigint"),
    ),
)
EXTRA: Final = ColumnDefinition("extra", "int")
SIZES: Final = (1, 1, 1, 1, 3, 3, 20, 300)
KEPT_ROWS: Final = 1000
DDL_EACH: Final = 200  # transactions


class Work:
    """The transactions of a thread, and the rows of its table, the oldest first."""

    def __init__(self, log: BinlogWriter, thread: int) -> None:
        self._log = log
        self._random = Random(thread)
        self._ids = count(thread * OF_THREAD)
        self.table = replace(T, name=f"t{thread}")
        self.rows: deque[tuple[Any, ...]] = deque()
        self._first = thread * OF_THREAD
        self.number = self.changes = 0
        self._compresses = thread == 2

    def run(self, ended: Event, pause_s: float) -> None:
        """Commit transactions until the event."""
        with self._log.session("shop") as session:
            session.set_variables(binlog_transaction_compression=self._compresses)
            session.ddl(f"CREATE TABLE {self.table.name} (id BIGINT NOT NULL PRIMARY KEY, v VARCHAR(900))")
            while not ended.wait(pause_s):
                self.number += 1
                if self.number % DDL_EACH == 0:
                    session.ddl(f"ALTER TABLE {self.table.name} {self._altered()}")
                if self.number % 10 == 0:
                    session.begin()
                    session.execute(Statement("insert", [Insert(self.table, [self._row()])]))
                    session.rollback()
                session.begin()
                for change in self._changes():
                    session.execute(Statement("change", [change]))
                session.commit()

    def _altered(self) -> str:
        """Add or drop a column; return the text."""
        *columns, last = self.table.columns
        has_extra = last == EXTRA
        self.table = replace(self.table, columns=tuple(columns) if has_extra else (*columns, last, EXTRA))
        rows = [row[:-1] if has_extra else (*row, None) for row in self.rows]
        self.rows.clear()
        self.rows.extend(rows)
        return "DROP COLUMN extra" if has_extra else "ADD COLUMN extra INT"

    def _row(self) -> tuple[Any, ...]:
        key = next(self._ids)
        return (key, chr(97 + key % 26) * self._random.randrange(300), *(key % 7 for _ in self.table.columns[2:]))

    def _changes(self) -> list[Insert | Update | Delete]:
        """Return inserts, an update of the oldest row, deletes beyond KEPT_ROWS, and the row of the journal."""
        new = [self._row() for _ in range(self._random.choice(SIZES))]
        self.rows.extend(new)
        old = self.rows.popleft()
        changed = (old[0], old[1][:-1] + ("?" if old[1].endswith("!") else "!"), *old[2:])
        gone = [self.rows.popleft() for _ in range(len(self.rows) - KEPT_ROWS)]
        self.rows.append(changed)
        ids = [row[0] for row in chain(new, [changed], gone)]
        self.changes += len(ids) + 1
        journal = (self._first + self.number, len(ids), sum(ids))
        deletes = [Delete(self.table, gone)] if gone else []
        return [Insert(self.table, new), Update(self.table, [(old, changed)]), *deletes, Insert(JOURNAL, [journal])]


def main() -> None:
    """Write until the input ends."""
    pause_s, ended = float(sys.argv[2]), Event()
    variables = ServerVariables(
        server_uuid=UUID, sync_binlog=0, max_binlog_size=int(sys.argv[3]), binlog_row_metadata="FULL"
    )
    with BinlogWriter(sys.argv[1], variables=variables) as log:
        with log.session("shop") as session:
            session.ddl("CREATE TABLE journal (number BIGINT NOT NULL, row_count INT, total BIGINT)")
        works = [Work(log, thread) for thread in range(1, THREADS + 1)]
        threads = [Thread(target=work.run, args=(ended, pause_s)) for work in works]
        for thread in threads:
            thread.start()
        print("begun", flush=True)
        for name in map(str.strip, sys.stdin):
            if name:
                log.purge(to=name)
                continue
            ended.set()
            for thread in threads:
                thread.join()
            log.rotate()
            written = {
                "transactions": [work.number for work in works],
                "changes": sum(work.changes for work in works),
                "gtids": int(str(log.gtid_executed).rpartition("-")[2]),
                "tables": {work.table.name: [len(work.rows), sum(row[0] for row in work.rows)] for work in works},
            }
            print(json.dumps(written), flush=True)


if __name__ == "__main__":
    main()
