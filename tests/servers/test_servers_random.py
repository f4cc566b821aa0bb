"""A real replica applies random transactions of eight sessions from its relay log, and has the expected tables.

Every case writes with one set of variables, so that each value of each variable is judged;
`BINLOGIO_RANDOM_TRANSACTIONS=10000` runs all of their combinations with so many transactions in total.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from itertools import product
from random import Random
from typing import TYPE_CHECKING, Any, Final

import pytest

from binlogio.options import ServerVariables
from binlogio.storage.index_file import INDEX_SUFFIX
from binlogio.writer import BinlogWriter
from random_tables import SCHEMA
from random_transactions import THREADS, RandomTables
from real_servers import vendor
from relay_logs import FINISHED, apply

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.server, pytest.mark.slow]

TRANSACTIONS: Final = 304  # of a case
ALL: Final = int(os.environ.get("BINLOGIO_RANDOM_TRANSACTIONS", "0"))
OPTIONS: Final = (
    "--server-id=99", "--relay-log=relay", "--skip-replica-start", "--replica-parallel-workers=4",
    "--replica-preserve-commit-order=ON", "--sync-binlog=0", "--innodb-flush-log-at-trx-commit=0", "--sync-relay-log=0",
    "--gtid-mode=OFF", "--enforce-gtid-consistency=OFF",
)  # fmt: skip
TO_ON: Final = "".join(
    f"SET GLOBAL {assignment};"
    for assignment in (
        "enforce_gtid_consistency=ON", "gtid_mode=OFF_PERMISSIVE", "gtid_mode=ON_PERMISSIVE", "gtid_mode=ON"
    )
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Case:
    """A log to be written."""

    number: int
    transactions: int
    variables: dict[str, Any]


def cases() -> Iterator[Case]:
    """Those with anonymous transactions first, as a server goes from these to GTIDs and not so easily back."""
    if not ALL:
        for number, values in enumerate(SOME, 1):
            yield Case(number, TRANSACTIONS, values)
        return
    combinations = list(product(*MATRIX.values()))
    transactions = -(-ALL // len(combinations) // THREADS) * THREADS
    for number, combination in enumerate(combinations, 1):
        random = Random(number)
        more = {name: random.choice(choices) for name, choices in VARIED.items()}
        yield Case(number, transactions, dict(zip(MATRIX, combination, strict=True)) | more)


MATRIX: Final[dict[str, tuple[Any, ...]]] = {
    "gtid_mode": ("OFF", "ON"),
    "binlog_format": ("ROW", "MIXED", "STATEMENT"),
    "binlog_row_image": ("FULL", "MINIMAL", "NOBLOB"),
    "binlog_checksum": ("CRC32", "NONE"),
    "binlog_transaction_compression": (False, True),
}
VARIED: Final[dict[str, tuple[Any, ...]]] = {
    "binlog_row_value_options": ("", "PARTIAL_JSON"),
    "binlog_row_metadata": ("FULL", "MINIMAL"),
    "binlog_row_event_max_size": (256, 1024, 8192),
    "max_binlog_size": (8192, 65536, 1 << 30),
    "binlog_cache_size": (4096, 32768),
    "binlog_order_commits": (True, False),
    "binlog_transaction_dependency_tracking": ("COMMIT_ORDER", "WRITESET", "WRITESET_SESSION"),
}
SOME: Final[tuple[dict[str, Any], ...]] = (
    {"gtid_mode": "OFF", "binlog_format": "ROW", "binlog_row_image": "MINIMAL", "binlog_transaction_compression": True},
    {"gtid_mode": "OFF", "binlog_format": "MIXED", "binlog_row_image": "FULL", "binlog_checksum": "NONE"},
    {"gtid_mode": "OFF", "binlog_format": "STATEMENT", "binlog_row_metadata": "MINIMAL"},
    {
        "gtid_mode": "ON", "binlog_format": "ROW", "binlog_row_image": "NOBLOB",
        "binlog_row_value_options": "PARTIAL_JSON",
        "binlog_row_event_max_size": 256, "binlog_row_metadata": "MINIMAL", "binlog_checksum": "NONE",
        "binlog_cache_size": 4096,
    },
    {"gtid_mode": "ON", "binlog_format": "MIXED", "binlog_row_image": "MINIMAL",
    "binlog_transaction_compression": True},
    {"gtid_mode": "ON", "binlog_format": "STATEMENT", "binlog_transaction_compression": True, "max_binlog_size": 65536},
)  # fmt: skip


def test_a_replica_has_the_tables_of_random_transactions(capsys: pytest.CaptureFixture[str]) -> None:
    """Four workers, commits in order, from relay logs that are our files as they are."""
    mysql = vendor("mysql")
    with mysql.server("random", *OPTIONS) as server:
        gtid_mode = "OFF"
        for case in cases():
            shop = RandomTables()
            with mysql.folder(f"random{case.number}") as folder:
                variables = ServerVariables(
                    server_uuid=f"00000000-0000-0000-0000-{case.number:012}",
                    sync_binlog=0,
                    **{"max_binlog_size": 100_000, "binlog_row_event_max_size": 1024, **case.variables},
                )
                with BinlogWriter(folder / "binlog", variables=variables) as log:
                    with log.session() as session:
                        shop.create(session)
                    shop.run(log, case.transactions, case.number)
                    with log.session(SCHEMA) as session:
                        session.ddl(FINISHED)
                if variables.gtid_mode != gtid_mode:
                    gtid_mode = variables.gtid_mode
                    server.sql(TO_ON)
                logs = [folder / name for name in (folder / f"binlog{INDEX_SUFFIX}").read_text().split()]
                channel = f"c{case.number}"
                server.sql(f"SET sql_log_bin=0; DROP DATABASE IF EXISTS {SCHEMA};")
                apply(server, [log.read_bytes() for log in logs], channel)
                server.sql(f"STOP REPLICA FOR CHANNEL '{channel}'; RESET REPLICA ALL FOR CHANNEL '{channel}';")
            for table in shop.tables:
                found = sorted(server.sql(f"SET NAMES utf8mb4; {table.select}").splitlines())
                assert found == table.expected(), (case, table.name)
            if ALL:
                with capsys.disabled():
                    print(case.number, case.transactions, len(logs), dict(shop.counts), case.variables)  # noqa: T201
