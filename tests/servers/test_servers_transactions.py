"""A real replica applies what eight sessions did, in all formats and row images at once, and has their tables."""

from __future__ import annotations

from typing import Any, Final

import pytest

from binlogio.options import ServerVariables
from binlogio.storage.index_file import INDEX_SUFFIX
from binlogio.writer import BinlogWriter
from real_servers import vendor
from relay_logs import FINISHED, apply
from shop_transactions import CREATE, TABLES, Shop

pytestmark = [pytest.mark.server, pytest.mark.slow]

TRANSACTIONS: Final = 650  # of a session; 8 sessions, twice
SESSIONS: Final[list[dict[str, Any]]] = [
    {"binlog_format": "STATEMENT"},
    {"binlog_format": "MIXED"},
    {"binlog_format": "MIXED", "binlog_direct_non_transactional_updates": True},
    {"binlog_format": "ROW", "binlog_row_image": "FULL"},
    {"binlog_format": "ROW", "binlog_row_image": "MINIMAL"},
    {"binlog_format": "ROW", "binlog_row_image": "NOBLOB", "binlog_rows_query_log_events": True},
    {"binlog_format": "ROW", "binlog_row_value_options": "PARTIAL_JSON"},
    {"binlog_format": "ROW", "binlog_transaction_compression": True, "binlog_row_image": "MINIMAL"},
]
OPTIONS: Final = (
    "--server-id=99", "--relay-log=relay", "--skip-replica-start", "--replica-parallel-workers=4",
    "--replica-preserve-commit-order=ON",
)  # fmt: skip


@pytest.mark.parametrize(
    ("checksum", "gtid_mode", "seed"), [("CRC32", "ON", 1), ("NONE", "OFF", 2)], ids=["gtid", "anonymous"]
)
def test_a_replica_of_four_workers_has_the_tables_of_eight_sessions(checksum: str, gtid_mode: str, seed: int) -> None:
    """Commits in order, from relay logs that are our files as they are."""
    mysql = vendor("mysql")
    variables = ServerVariables(
        server_uuid=f"00000000-0000-0000-0000-{seed:012}",
        binlog_checksum=checksum,
        gtid_mode=gtid_mode,
        enforce_gtid_consistency=gtid_mode,
        max_binlog_size=300_000,
        binlog_row_event_max_size=1024,
        sync_binlog=0,
    )
    shop = Shop()
    gtid = (f"--gtid-mode={gtid_mode}", f"--enforce-gtid-consistency={gtid_mode}")
    with mysql.folder("shop") as folder, mysql.server(f"shop{seed}", *OPTIONS, *gtid) as server:
        with BinlogWriter(folder / "binlog", variables=variables) as log:
            shop.run(log, SESSIONS, TRANSACTIONS, seed)
        with BinlogWriter(folder / "binlog", variables=variables) as log, log.session("shop") as session:
            session.ddl(FINISHED)
        server.sql(f"SET sql_log_bin=0; CREATE DATABASE shop; {CREATE}")
        names = (folder / f"binlog{INDEX_SUFFIX}").read_text().split()
        apply(server, [(folder / name).read_bytes() for name in names])

        assert len(names) > 3
        assert shop.executed > 5 * TRANSACTIONS
        for name in TABLES:
            assert server.sql(f"SELECT * FROM shop.{name} ORDER BY id") == shop.expected(name)
