"""A writer that stops at any write, sync, rename or removal, and the next one that finds what the disk has kept."""

from __future__ import annotations

import os
from contextlib import suppress
from io import BytesIO
from random import Random
from typing import Final

import pytest

from binlogio.events.gtid import GtidEvent
from binlogio.events.mariadb import MariadbGtidEvent
from binlogio.events.rows import WriteRowsEvent
from binlogio.gtid import GtidSet, MariadbGtid
from binlogio.options import ServerVariables
from binlogio.reader import open as open_logs
from binlogio.schema import ColumnDefinition, TableDefinition
from binlogio.writer import BinlogWriter, Insert, Statement
from crashing_storage import Crash, CrashingStorage

UUID: Final = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
T: Final = TableDefinition(
    "shop", "t", (ColumnDefinition("id", "int", nullable=False), ColumnDefinition("v", "varchar(900)")), ("id",)
)
STARTS: Final = 3  # that may be stopped as well
TIMES: Final = int(os.environ.get("BINLOGIO_CRASHES", "1"))  # as many disks after each stop


class Workload:
    """Transactions, rotations and a purge, over two starts.

    Knows which rows the writer has promised, and which may be gone.
    """

    def __init__(self, sync_binlog: int, server_version: str = "9.7.4") -> None:
        self.variables = ServerVariables(
            server_version=server_version, server_uuid=UUID, sync_binlog=sync_binlog, max_binlog_size=4096
        )
        self.written = 0
        self.promised: list[int] = []
        self.may_be_gone: set[int] = set()

    def writer(self, storage: CrashingStorage) -> BinlogWriter:
        """Return the next start."""
        return BinlogWriter("binlog", variables=self.variables, clock=lambda: 10**15, storage=storage)

    def run(self, storage: CrashingStorage) -> None:
        """All of it, or up to a crash."""
        with self.writer(storage) as log:
            self.insert(log, 4, 700)
            log.rotate()
            self.insert(log, 6, 900)
        log = self.writer(storage).open()
        self.insert(log, 2, 100)
        self.may_be_gone = set(range(4))
        log.purge(to=log.names[1])
        self.insert(log, 5, 600)
        self.may_be_gone = set(range(self.written)) - set(rows_and_gtids(storage, log.names[-1])[0])
        log.purge(to=log.names[-1])
        self.insert(log, 2, 2000)
        log.close()

    def insert(self, log: BinlogWriter, count: int, size: int) -> None:
        """Transactions of one row each, promised when they return."""
        with log.session("shop") as session:
            for _ in range(count):
                number = self.written
                self.written += 1
                session.execute(Statement("insert", [Insert(T, [(number, "x" * (size % 900))])]))
                self.promised.append(number)


def rows_and_gtids(storage: CrashingStorage, *names: str) -> tuple[list[int], list[int]]:
    """Ids and GTID numbers of all groups in some logs."""
    rows, gnos = [], []
    for name in names:
        with open_logs(BytesIO(storage.read(name))) as reader:
            for event in reader:
                if isinstance(event, WriteRowsEvent):
                    rows += [row.after.values[0] for row in reader.rows(event) if row.after is not None]
                elif isinstance(event, GtidEvent):
                    gnos.append(event.gno)
                elif isinstance(event, MariadbGtidEvent):
                    gnos.append(event.sequence_number)
            assert reader.torn_tail is None
    return rows, gnos


def check(workload: Workload, storage: CrashingStorage, *, keeps_promises: bool) -> None:
    """Check that the next start succeeds, and finds what was promised."""
    with workload.writer(storage) as log:
        executed, domains = log.gtid_executed, log.gtid_binlog_state
        names = log.names
    logs = {name for name in storage.names() if name.removeprefix("binlog.").isdigit()}
    rows, gnos = rows_and_gtids(storage, *names)

    assert logs == set(names)
    assert set(storage.names()) == {*names, "binlog.auto.cnf", "binlog.index"}
    assert len(rows) == len(gnos)
    assert [gno - 1 for gno in gnos] == rows
    if rows:
        assert rows == list(range(rows[0], rows[-1] + 1))
        if workload.variables.is_mariadb:
            assert domains == (MariadbGtid(0, 1, rows[-1] + 1),)
        else:
            assert executed == GtidSet.parse(f"{UUID}:1-{rows[-1] + 1}")
    if keeps_promises:
        assert set(workload.promised) - set(rows) <= workload.may_be_gone


def operations() -> int:
    """Return the number of operations that the workload takes."""
    storage = CrashingStorage(Random(0))
    Workload(1).run(storage)
    return storage.operations


COUNT: Final = operations()


def test_the_workload_rotates_and_purges() -> None:
    """Without a crash nothing is lost but what was purged."""
    workload, storage = Workload(1), CrashingStorage(Random(0))
    workload.run(storage)
    check(workload, storage, keeps_promises=True)

    assert COUNT > 150
    assert "binlog.000001" not in storage.names()
    assert workload.written == len(workload.promised) > len(workload.may_be_gone) > 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sync_binlog", "disasters", "version"),
    [(1, 2, "9.7.4"), (0, 1, "9.7.4"), (3, 1, "9.7.4"), (1, 1, "10.11.18-MariaDB"), (0, 1, "10.11.18-MariaDB")],
)
def test_a_stop_at_any_operation_loses_nothing_that_was_promised(
    sync_binlog: int, disasters: int, version: str
) -> None:
    """With sync_binlog=1; without, whole groups from the end at most. No group in part, no file without its name."""
    for stop_at in range(1, COUNT + 1):
        for seed in range(disasters * TIMES):
            random = Random(stop_at * 100 + seed)
            workload, storage = stopped(sync_binlog, stop_at, random, version)
            check(workload, storage, keeps_promises=sync_binlog == 1)


@pytest.mark.slow
def test_a_stop_while_another_is_being_recovered_from_loses_nothing_either() -> None:
    """Starts that are stopped again and again."""
    for stop_at in range(1, COUNT + 1):
        random = Random(stop_at)
        workload, storage = stopped(1, stop_at, random)
        for _ in range(STARTS * TIMES):
            storage.stop_at = storage.operations + random.randrange(1, 25)
            with suppress(Crash):
                workload.writer(storage).open()
            storage = storage.after_crash(random)
        check(workload, storage, keeps_promises=True)


def stopped(
    sync_binlog: int, stop_at: int, random: Random, server_version: str = "9.7.4"
) -> tuple[Workload, CrashingStorage]:
    """Return a workload that was stopped, if it has as many operations, and what is left of its disk."""
    workload, storage = Workload(sync_binlog, server_version), CrashingStorage(random, stop_at)
    try:
        workload.run(storage)
    except Crash:
        return workload, storage.after_crash(random)
    storage.stop_at = None
    return workload, storage
