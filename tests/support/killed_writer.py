"""A process that writes transactions from several threads until it is killed, and prints each committed one.

Started by `test_killed_writer.py`: python killed_writer.py BASENAME SYNC_BINLOG THREADS FIRST_ID
"""

from __future__ import annotations

import os
import sys
from itertools import count
from pathlib import Path
from threading import Thread

from binlogio.options import ServerVariables
from binlogio.schema import ColumnDefinition, TableDefinition
from binlogio.writer import BinlogWriter, Insert, Statement

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
T = TableDefinition(
    "shop", "t", (ColumnDefinition("id", "bigint", nullable=False), ColumnDefinition("v", "varchar(900)")), ("id",)
)
THREAD_IDS = 1_000_000  # the ids of a thread begin at its number times this


def variables(sync_binlog: int) -> ServerVariables:
    """Return server variables with small logs, so that many logs are created and purged."""
    return ServerVariables(server_version="9.7.4", server_uuid=UUID, sync_binlog=sync_binlog, max_binlog_size=16384)


def work(log: BinlogWriter, thread: int, first: int) -> None:
    """Write transactions of two rows each: an id and its negative.

    The first thread also purges old logs; it prints a line before each purge.
    """
    with log.session("shop") as session:
        for number in count(first):
            key = thread * THREAD_IDS + number
            session.begin()
            session.execute(Statement("insert", [Insert(T, [(key, "x" * (number * 37 % 900))])]))
            session.execute(Statement("insert", [Insert(T, [(-key, "y")])]))
            session.commit()
            os.write(1, f"{key}\n".encode())
            if thread == 1 and len(names := log.names) > 8:
                os.write(1, f"purge {names[-4]}\n".encode())
                log.purge(to=names[-4])


def main() -> None:
    """Write until the process is killed."""
    basename, sync_binlog, threads, first = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
    log = BinlogWriter(basename, variables=variables(sync_binlog)).open()
    os.write(1, b"open\n")
    workers = [Thread(target=work, args=(log, thread, first)) for thread in range(1, threads + 1)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


if __name__ == "__main__":
    main()
