"""`mock_source` in the test of a program that reads logs from a server, here with python-mysql-replication."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pymysql
import pytest

from binlog_server.testing import mock_source
from binlogio.constants import EventType
from binlogio.gtid import GtidSet
from corpus import MYSQL
from dump_client import CHECKSUM, DumpClient, of_log
from dump_client import MARIADB as CAPABLE

replication: Any = pytest.importorskip("pymysqlreplication")
UUID: Final = "3e11fa47-71ca-11e1-9e33-c80aa9429562"


def script(*lines: dict[str, Any], doc: str = "TEXT", engine: str = "InnoDB", **variables: Any) -> str:
    """Return a script that creates a table and executes lines."""
    table = f"CREATE TABLE shop.t (id INT PRIMARY KEY, doc {doc}) ENGINE={engine}"
    first = [
        {"do": "variables", **variables},
        {"do": "ddl", "sql": "CREATE DATABASE shop"},
        {"do": "ddl", "sql": table},
    ]
    return "\n".join(json.dumps(line) for line in [*first, *lines])


def row(key: int, document: object = "1", **more: Any) -> dict[str, Any]:
    """Return a line that inserts a row."""
    changes = [{"insert": "shop.t", "rows": [{"id": key, "doc": document}]}]
    return {"session": "a", "do": "execute", "sql": f"INSERT INTO shop.t VALUES ({key}, 1)", "changes": changes, **more}


DIFF: Final = {
    "update": "shop.t",
    "before": [{"id": 1, "doc": {"a": 1, "b": "x" * 40}}],
    "after": [{"doc": {"a": 2, "b": "x" * 40}}],
    "json_diffs": {"doc": [[{"op": "replace", "path": "$.a", "value": 2}]]},
}


def codes(port: int, *statements: str) -> list[int]:
    """Return the types of the events of a source, by position."""
    return [event[4] for event in of_log(list(DumpClient(port, CHECKSUM, *statements).by_position("")))]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the library
@pytest.mark.parametrize("auto_position", [None, f"{UUID}:1-2"], ids=["position", "gtid"])
def test_python_mysql_replication_reads_rows_while_they_are_written(auto_position: str | None) -> None:
    """By GTID it sends zero bytes as the name of the log. It has column names if binlog_row_metadata is FULL."""
    with mock_source(script=script(row(1), row(2), server_uuid=UUID)) as source:
        login = {"host": "127.0.0.1", "port": source.port, "user": "root", "password": ""}
        how = {"only_events": [replication.row_event.WriteRowsEvent], "auto_position": auto_position}
        stream: Any = replication.BinLogStreamReader(login, server_id=7, blocking=True, **how)
        found = [next(iter(stream)).rows[0]["values"] for _ in range(2)]
        source.write(json.dumps(row(3)))
        found.append(next(iter(stream)).rows[0]["values"])
        stream.close()

    assert found == [{"id": 1, "doc": "1"}, {"id": 2, "doc": "1"}, {"id": 3, "doc": "1"}]


def test_faults_on_request() -> None:
    """A client that has lost its connection continues after what it has."""
    with mock_source(script=script(row(1), row(2), row(3), server_uuid=UUID)) as source:
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
        rest = of_log(list(DumpClient(source.port, CHECKSUM).by_gtids(GtidSet.parse(f"{UUID}:1-4"))))

    assert [event[4] for event in rest if event[4] in (16, 33)] == [33, 16]


@pytest.mark.parametrize(
    ("server", "lines", "variables", "expected"),
    [
        (
            "8.0",
            (row(1, "x" * 9000, refused=1705),),
            {"engine": "MyISAM", "binlog_stmt_cache_size": 4096, "max_binlog_stmt_cache_size": 4096},
            EventType.INCIDENT_EVENT,
        ),
        (
            "8.0.36",
            (
                row(1, {"a": 1, "b": "x" * 40}),
                row(1, changes=[DIFF], sql="UPDATE shop.t SET doc = JSON_SET(doc, '$.a', 2)"),
            ),
            {"doc": "JSON", "binlog_row_value_options": "PARTIAL_JSON"},
            EventType.PARTIAL_UPDATE_ROWS_EVENT,
        ),
        ("9.7.4", (row(1, "x" * 900),), {"binlog_transaction_compression": True}, EventType.TRANSACTION_PAYLOAD_EVENT),
        ("11.8-MariaDB", (row(1),), {}, EventType.MARIADB_GTID_EVENT),
    ],
    ids=["incident", "partial JSON", "compressed", "MariaDB"],
)
def test_script_makes_the_logs(server: str, lines: Any, variables: Any, expected: EventType) -> None:
    with mock_source(script=script(*lines, **variables), server=server) as source:
        before = codes(source.port, CAPABLE)
        source.write(json.dumps(row(2)))

        assert expected in before
        assert len(codes(source.port, CAPABLE)) > len(before)


def test_script_purges_logs_and_another_server_takes_over(tmp_path: Path) -> None:
    """The other server has the transactions of the first one."""
    path = tmp_path / "script.jsonl"
    path.write_text(script(row(1), {"do": "rotate"}, row(2)))
    with mock_source(script=path) as source:
        client = DumpClient(source.port, CHECKSUM)
        uuid, server_id = client.query("SELECT @@server_uuid, @@server_id")[0]
        source.write('{"do": "purge", "to": "binlog.000002"}')
        with pytest.raises(pymysql.err.MySQLError, match="purged required"):
            list(client.by_gtids(GtidSet()))
        source.fail_over()
        source.write(json.dumps(row(3)))
        with pytest.raises(pymysql.err.OperationalError):
            client.query("SELECT 1")
        client = DumpClient(source.port, CHECKSUM)
        other, other_id = client.query("SELECT @@server_uuid, @@server_id")[0]
        found = of_log(list(client.by_gtids(GtidSet.parse(f"{uuid}:1-4"))))
        executed = client.query("SELECT @@gtid_executed")[0][0]

    assert other_id == server_id + 1
    assert executed in (f"{uuid}:1-4,{other}:1", f"{other}:1,{uuid}:1-4")
    assert [event[4] for event in found].count(EventType.GTID_LOG_EVENT) == 1


def test_event_is_sent_twice() -> None:
    with mock_source(script=script(row(1), row(2))) as source:
        source.repeat("WRITE_ROWS_EVENT")
        twice, once = codes(source.port), codes(source.port)

    at = once.index(EventType.WRITE_ROWS_EVENT)
    assert twice == [*once[:at], EventType.WRITE_ROWS_EVENT, *once[at:]]


def test_wrong_script_and_script_for_logs_of_a_server_are_refused() -> None:
    with pytest.raises(ValueError, match="script:1: "), mock_source(script='{"do": "nothing"}'):
        pass
    with mock_source(MYSQL / "gtid_on") as source, pytest.raises(ValueError, match="only read"):
        source.write("")
