"""Random DDL and rows of real servers, a seed each: the replay of Spark has the tables of the server.

`make differential` runs these seeds, too.
"""

from __future__ import annotations

import json
from collections import Counter
from contextlib import closing
from itertools import compress
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final

import pymysql
import pytest

from expected_values import expected_row
from random_ddl import TABLES, DdlGenerator
from random_sessions import copied_logs
from real_servers import KINDS, Instance, seeds, vendor
from server_tables import expected as tables_of
from spark_replays import opened, rows_of, unknown
from target_servers import OPTIONS, connect, reset

pytest.importorskip("pyspark.sql.datasource")
from pyspark.errors import PythonException

from binlogio.errors import BinlogError
from pyspark_binlogio.options import BinlogOptionError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.slow]

STATEMENTS: Final = 100
GLOBALS: Final = {
    "binlog_row_image": ("FULL", "FULL", "MINIMAL", "NOBLOB"),
    "binlog_row_metadata": ("FULL", "MINIMAL"),
    "binlog_checksum": ("NONE", "CRC32"),
}


@pytest.fixture(scope="module", params=KINDS)
def server(request: pytest.FixtureRequest) -> Iterator[Instance]:
    """One server for all seeds."""
    options = ("--character-set-server=utf8mb4", "--binlog-format=ROW")
    with vendor(request.param).server("sparkrandom", *OPTIONS[request.param], *options) as instance:
        yield instance


def rows(random: Random, cursor: Any, replace: str) -> str:
    """Return a statement that changes rows of a table with the columns that it has now; values may not fit.

    MariaDB logs REPLACE as an update without the columns that it sets to their defaults (MINIMAL): `replace` is another
    word for it.
    """
    table = random.choice(TABLES)
    cursor.execute(
        f"SELECT column_name FROM information_schema.columns WHERE (table_schema, table_name) = ('w', '{table}')"
    )
    names = [str(name) for (name,) in cursor.fetchall()] or ["a"]
    chosen = random.sample(names, random.randint(1, len(names)))

    def value() -> str:
        return random.choice(
            (str(random.randrange(2000)), "'x'", "'y'", "''", "'2024-02-03 04:05:06'", "NULL", "DEFAULT")
        )

    kind = random.random()
    if kind < 0.65:
        values = (f"({', '.join(value() for _ in chosen)})" for _ in range(random.choice((1, 2, 5, 9))))
        word = random.choice(("INSERT IGNORE INTO", "INSERT INTO", replace))
        return f"{word} {table} ({', '.join(chosen)}) VALUES {', '.join(values)}"
    where = random.choice(("", f" WHERE {random.choice(names)} > {value()}", f" ORDER BY {names[0]} LIMIT 2"))
    if kind < 0.93:
        return f"UPDATE IGNORE {table} SET {chosen[0]} = {value()}{where}"
    return f"DELETE FROM {table}{where} {'' if 'LIMIT' in where else 'LIMIT 3'}"


def execute(server: Instance, random: Random) -> dict[str, Any]:
    """Execute the statements of a seed; return the tables of the server. It refuses those that do not fit."""
    generator = DdlGenerator(random, is_mariadb=server.vendor.is_mariadb)
    replace = "INSERT IGNORE INTO" if server.vendor.is_mariadb else "REPLACE INTO"
    reset(server)
    with closing(connect(server)) as connection, connection.cursor() as cursor:
        cursor.execute("SET SESSION sql_mode = ''")
        for sql in ("CREATE DATABASE w", "USE w", *generator.begin()):
            cursor.execute(sql)
        for _ in range(STATEMENTS):
            try:
                cursor.execute(generator.statement() if random.random() < 0.15 else rows(random, cursor, replace))
            except pymysql.Error:
                continue
        tables: dict[str, Any] = json.loads(tables_of(connection, {}))["tables"]
        return tables


@pytest.mark.parametrize("seed", seeds("1-2"))
def test_random_ddl_and_rows_end_in_the_tables_of_the_server(
    spark: SparkSession, server: Instance, seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What Spark cannot replay it refuses with a reason, which is printed."""
    random = Random(seed)
    values = {name: random.choice(choices) for name, choices in GLOBALS.items()}
    server.sql(";".join(f"SET GLOBAL {name} = {value}" for name, value in values.items()))
    tables = execute(server, random)
    logs = copied_logs(server, tmp_path / "logs")
    on_spark = opened(spark, map(Path, logs))
    wrong: dict[str, Any] = {}
    refused, count = [], 0
    for name, table in tables.items():
        try:
            plan = on_spark.plan(name)
            lacking = unknown(on_spark, name)
            found = rows_of(on_spark.state(name), table, plan, set())
        except (BinlogError, BinlogOptionError, PythonException) as exc:
            reason = next((line for line in str(exc).splitlines() if "errors.ReplayError" in line), "")
            if isinstance(exc, PythonException) and not reason:
                wrong[name] = str(exc)
            else:
                refused.append(f"; {name}: {reason or exc}")
            continue
        known = [column.label.casefold() not in lacking for column in plan.columns]
        expected = Counter(tuple(compress(expected_row(row, table, plan), known)) for row in table["rows"])
        found = Counter(tuple(compress(row, known)) for row in found.elements())
        count += len(table["rows"])
        if found != expected:
            wrong[name] = [*(expected - found).items()][:3], [*(found - expected).items()][:3]
    with capsys.disabled():
        head = f"{server.vendor.kind} seed {seed}: {' '.join(values.values())}: {len(tables)} tables, {count} rows"
        print(f"\n{head}, {len(wrong)} different{''.join(refused)}"[:1000])  # noqa: T201
        for name, lines in wrong.items():
            print(f"  {name}: {str(lines)[:1500]}")  # noqa: T201

    assert wrong == {}
