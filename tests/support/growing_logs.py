"""A process that writes transactions to rotating logs until its standard input ends.

It then prints the number of transactions. Each input line is the name of a log; the process purges the logs before it.

Started by `test_spark_killed.py`: python growing_logs.py BASENAME
"""

from __future__ import annotations

import select
import sys
from itertools import count

from binlogio.options import ServerVariables
from binlogio.schema import ColumnDefinition, TableDefinition
from binlogio.writer import BinlogWriter, Insert, Statement

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
CREATE = "CREATE TABLE shop.t (id BIGINT NOT NULL PRIMARY KEY, v VARCHAR(900))"
T = TableDefinition(
    "shop", "t", (ColumnDefinition("id", "bigint", nullable=False), ColumnDefinition("v", "varchar(900)")), ("id",)
)
PAUSE_S = 0.03


def main() -> None:
    """Write transactions of two rows each: an id and its negative."""
    variables = ServerVariables(server_uuid=UUID, sync_binlog=0, max_binlog_size=128 << 10)
    with BinlogWriter(sys.argv[1], variables=variables) as log, log.session("shop") as session:
        for key in count(1):
            session.begin()
            session.execute(Statement("insert", [Insert(T, [(key, "x" * (key * 37 % 900))])]))
            session.execute(Statement("insert", [Insert(T, [(-key, "y")])]))
            session.commit()
            if key == 1:
                print("begun", flush=True)  # noqa: T201 - the parent reads it
            if select.select([sys.stdin], [], [], PAUSE_S)[0]:
                line = sys.stdin.readline()
                if not line:
                    print(key, flush=True)  # noqa: T201
                    return
                log.purge(to=line.strip())


if __name__ == "__main__":
    main()
