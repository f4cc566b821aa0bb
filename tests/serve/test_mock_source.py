"""`mock_source` in the test of a program that reads logs from a server, here with python-mysql-replication."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pymysql
import pytest

from binlog_server.testing import mock_source
from binlogio.gtid import GtidSet
from binlogio.options import ServerVariables
from binlogio.writer import BinlogWriter
from dump_client import CHECKSUM, DumpClient, of_log
from written_logs import insert

replication: Any = pytest.importorskip("pymysqlreplication")
UUID: Final = "3e11fa47-71ca-11e1-9e33-c80aa9429562"


@pytest.fixture
def add(tmp_path: Path) -> Iterator[Callable[[int], object]]:
    """Return a function that adds a row, with an id, to logs that have the rows 1 and 2."""
    variables = ServerVariables(server_version="8.0.36", server_uuid=UUID, binlog_row_metadata="FULL")
    with BinlogWriter(str(tmp_path / "binlog"), variables=variables) as logs, logs.session("shop") as session:
        for key in (1, 2):
            session.execute(insert(key))
        yield lambda key: session.execute(insert(key))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the library
def test_python_mysql_replication_reads_rows_while_they_are_written(
    add: Callable[[int], object], tmp_path: Path
) -> None:
    with mock_source(tmp_path) as source:
        settings = {"host": "127.0.0.1", "port": source.port, "user": "root", "password": ""}
        stream: Any = replication.BinLogStreamReader(
            connection_settings=settings,
            server_id=7,
            blocking=True,
            only_events=[replication.row_event.WriteRowsEvent],
            resume_stream=True,
            log_file="binlog.000001",
            log_pos=4,
        )
        events = iter(stream)
        found = [next(iter(next(events).rows[0]["values"].values())) for _ in range(2)]
        add(3)
        found.append(next(iter(next(events).rows[0]["values"].values())))
        stream.close()

    assert found == [1, 2, 3]


def test_faults_on_request(add: Callable[[int], object], tmp_path: Path) -> None:
    """A client that has lost its connection continues after what it has."""
    with mock_source(tmp_path) as source:
        client = DumpClient(source.port, CHECKSUM)
        source.cut_after(700)
        found: list[bytes] = []
        with pytest.raises(pymysql.err.OperationalError, match="Lost connection"):
            found.extend(client.by_gtids(GtidSet()))
        source.stall()
        with pytest.raises(pymysql.err.OperationalError, match="timed out"):
            DumpClient(source.port, read_timeout=1)
        source.resume()
        idle = DumpClient(source.port, CHECKSUM)
        source.drop()
        with pytest.raises(pymysql.err.OperationalError):
            list(idle.by_gtids(GtidSet()))
        rest = of_log(list(DumpClient(source.port, CHECKSUM).by_gtids(GtidSet.parse(f"{UUID}:1"))))

    assert [event[4] for event in rest if event[4] in (16, 33)] == [33, 16]
