"""Judges that are not ours, of logs that Spark wrote: `mysqlbinlog` reads them, and a server that is fed with them has the same tables."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from binlogio import ServerVariables
from judged_types import READABLE, TYPES, count_changes, create_statement, expect_tables, write_types
from real_servers import vendor
from spark_writes import cut, records, write

pytest.importorskip("pyspark.sql.datasource")

if TYPE_CHECKING:
    from pathlib import Path

    from judged_types import Typed

pytestmark = [pytest.mark.server, pytest.mark.slow]
CREATE_DATABASE = "CREATE DATABASE judge COLLATE utf8mb4_0900_ai_ci;"


def definitions(types: tuple[Typed, ...]) -> str:
    return json.dumps({f"judge.t{number}": create_statement(number, typed) for number, typed in enumerate(types)})


def rewritten(log: Path, folder: Path, types: tuple[Typed, ...], **options: str) -> list[Path]:
    """Return the row changes of a log, as Spark writes them with three tasks."""
    write(cut(records(log, **options), 3), folder, schemaFile=definitions(types))
    return [folder / line.removeprefix("./") for line in (folder / "binlog.index").read_text().splitlines()]


@pytest.mark.parametrize("checksum", ["CRC32", "NONE"])
def test_mysqlbinlog_reads_what_spark_writes(checksum: str) -> None:
    """Every file with its checksums, and as many changes as were written."""
    mysql = vendor("mysql")
    with mysql.folder("spark-read") as folder:
        log = write_types(folder / "binlog", ServerVariables(binlog_checksum=checksum), READABLE)
        found = 0
        for path in rewritten(log, folder / "spark", READABLE):
            done = mysql.run(
                "mysqlbinlog", "--no-defaults", "-vv", "--base64-output=decode-rows", "--verify-binlog-checksum",
                mysql.inside(path),
            )  # fmt: skip
            found += len(re.findall(rb"^### (?:INSERT|UPDATE|DELETE)", done.stdout, re.MULTILINE))
            assert (done.returncode, done.stderr) == (0, b"")

        assert found == count_changes(log)


@pytest.mark.parametrize("images", ["text", "structs"])
def test_server_fed_with_what_spark_writes_has_the_same_tables(images: str) -> None:
    """JSON images of all tables at once, and structs of one table after the other."""
    mysql = vendor("mysql")
    with mysql.folder("spark-feed") as folder, mysql.server("sparkfeed") as server:
        log = write_types(folder / "binlog", ServerVariables(gtid_mode="OFF"), TYPES)
        if images == "text":
            paths = rewritten(log, folder / "spark", TYPES)
        else:
            tables = [f"judge.t{number}" for number in range(len(TYPES))]
            paths = [path for table in tables for path in rewritten(log, folder / table, TYPES, table=table)]
        server.sql(CREATE_DATABASE + ";".join(create_statement(number, typed) for number, typed in enumerate(TYPES)))
        for path in paths:
            server.sql(mysql.run("mysqlbinlog", "--no-defaults", "--skip-gtids", mysql.inside(path)).stdout)

        expect_tables(server, TYPES)
