"""A script with all actions, judged by a MySQL server: its tool reads the logs, and a replica applies them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import pytest
from click.testing import CliRunner

import relay_logs
from binlogio_cli.main import cli
from corpus import FIXTURES
from real_servers import vendor

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.server, pytest.mark.slow]

SCRIPT: Final = FIXTURES / "demo" / "sessions.jsonl"
TABLES: Final = {
    "accounts": [
        "1\tAna\t100.00\tNULL",
        "2\tBo\t62.00\tNULL",
        '3\tCleo\t30.00\t{"vip": true}',
        "4\tDora\t40.00\tNULL",
        "6\tFinn\t60.00\tNULL",
        "7\tGil\t70.00\tNULL",
    ],
    "entries": ["1\t1\topened"],
    "audit": ["1\tNULL", "2\t-7", "3\tGood", "4\t0.5", "5\trand", "6\tsix"],
    "changes": ["1\t2", "2\t4", "3\t2", "10\t1", "11\t2", "12\t3", "13\t13", "15\t15", "18\t18"],
    "owners": ["1\tAna", "2\tBo", "20\tHal"],
}


def write(folder: Path) -> list[Path]:
    """Write the logs of the script, which end with the statement that `relay_logs` waits for."""
    end = folder / "end.jsonl"
    end.write_text(json.dumps({"do": "ddl", "schema": "bank", "sql": relay_logs.FINISHED}) + "\n")
    result = CliRunner().invoke(cli, ["write", str(SCRIPT), str(end), "--out", str(folder / "logs")])
    assert result.exit_code == 0, result.stderr
    return sorted(folder.glob("logs/binlog.0*"))


def test_mysqlbinlog_reads_the_logs_of_all_actions(tmp_path: Path) -> None:
    mysql = vendor("mysql")
    with mysql.folder("script") as folder:
        logs = write(folder)
        done = mysql.run(
            "mysqlbinlog", "--no-defaults", "-vv", "--base64-output=decode-rows", "--verify-binlog-checksum",
            *map(mysql.inside, logs),
        )  # fmt: skip

        assert (done.returncode, done.stderr) == (0, b"")
        assert b"XA COMMIT X'7472616e73666572',X'01ff',3" in done.stdout
        assert b"SET INSERT_ID=1" in done.stdout


def test_a_replica_ends_with_the_tables_of_the_script(tmp_path: Path) -> None:
    mysql = vendor("mysql")
    options = ("--server-id=99", "--relay-log=relay", "--skip-replica-start", "--gtid-mode=ON")
    more = ("--enforce-gtid-consistency=ON", "--log-bin-trust-function-creators=ON")
    with mysql.server("script", *options, *more) as server:
        relay_logs.apply(server, [log.read_bytes() for log in write(tmp_path)])

        found = {name: server.sql(f"SELECT * FROM bank.{name} ORDER BY id").splitlines() for name in TABLES}
        prepared = server.sql("XA RECOVER")

    assert found == TABLES
    assert prepared == ""


ORDERS: Final = """CREATE DATABASE shop;
CREATE TABLE shop.orders (id INT PRIMARY KEY, e ENUM('a','b'), d DECIMAL(6,2), j JSON, dt DATETIME(3), tm TIME(1),
  b VARBINARY(4), bi BIT(4), v VARCHAR(5), g POINT, u BIGINT UNSIGNED, vec VECTOR(2));
"""
ROWS: Final = """id,e,d,j,dt,tm,b,bi,v,g,u,vec
1,a,1.50,"{""k"": [1]}",2026-01-02 03:04:05.678,-10:11:12.5,0x6162,5,äöü,POINT(1 2),\
18446744073709551615,0x0000803f00000040
2,,,,,,,,"",,,
"""


def test_mysqlbinlog_feeds_a_server_with_the_rows_of_a_file(tmp_path: Path) -> None:
    mysql = vendor("mysql")
    (tmp_path / "schema.sql").write_text(ORDERS, encoding="utf-8")
    (tmp_path / "orders.csv").write_text(ROWS, encoding="utf-8")
    with mysql.folder("rows") as folder, mysql.server("rows") as server:
        arguments = ["--from", str(tmp_path / "orders.csv"), "--table", "shop.orders"]
        more = ["--ddl", str(tmp_path / "schema.sql"), "--gtid-mode", "OFF", "--out", str(folder / "logs")]
        result = CliRunner().invoke(cli, ["write", *arguments, *more])
        assert result.exit_code == 0, result.stderr
        printed = mysql.run(
            "mysqlbinlog", "--no-defaults", "--skip-gtids", mysql.inside(folder / "logs" / "binlog.000001")
        )
        server.sql(printed.stdout)
        found = server.sql(
            "SELECT id, e, d, j, dt, tm, b, bi + 0, HEX(v), ST_AsText(g), u, HEX(vec) FROM shop.orders ORDER BY id"
        )

    last = ["POINT(1 2)", "18446744073709551615", "0000803F00000040"]

    assert [line.split("\t") for line in found.splitlines()] == [
        ["1", "a", "1.50", '{"k": [1]}', "2026-01-02 03:04:05.678", "-10:11:12.5", "ab", "5", "C3A4C3B6C3BC", *last],
        ["2", *["NULL"] * 7, "", *["NULL"] * 3],
    ]
