"""Statements of real servers, logged as text and translated for SQLite: the same rows, or a refusal."""

from __future__ import annotations

import random
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

import pymysql
import pytest

import binlogio
from binlogio.errors import ReplayError
from binlogio.replay import SqliteTarget, replay
from real_servers import KINDS, Instance, vendor

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.server, pytest.mark.slow]

CREATE: Final = (
    "CREATE TABLE {} (id INT AUTO_INCREMENT PRIMARY KEY, i INT DEFAULT 3, u BIGINT UNSIGNED, n DOUBLE, x "
    "DECIMAL(12,3) DEFAULT 1.5, v VARCHAR(30),"
    " c CHAR(8) CHARACTER SET latin1, k VARCHAR(30) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, e "
    "ENUM('a','b','C'), d DATE, t DATETIME(2),"
    " ts TIMESTAMP(3) NULL DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3), b VARBINARY(40), "
    "y YEAR, bits BIT(7))"
)
COLUMNS: Final = ("i", "u", "n", "x", "v", "c", "k", "e", "d", "t", "ts", "b", "y", "bits")
SHOWN: Final = (
    "id, i, CAST(u AS CHAR), n, CAST(x AS CHAR), v, c, k, e, CAST(d AS CHAR), CAST(t AS CHAR), CAST(ts AS "
    "CHAR), HEX(b), y+0, bits+0"
)
STORED: Final = (
    "id, i, CAST(u AS TEXT), n, x, v, c, k, e, d, t, ts, CASE WHEN b IS NULL THEN NULL ELSE HEX(b) END, y, bits"
)
VALUES: Final[dict[str, tuple[str, ...]]] = {
    "i": ("0", "-7", "2147483647", "NULL", "i + 1", "id * 2 - 1", "i % 3", "@i", "LAST_INSERT_ID()", "'12'", "DEFAULT",
          "IF(id > 2, 1, i)"),
    "u": ("0", "18446744073709551615", "9223372036854775807", "id", "u", "NULL", "7"),
    "n": ("0.5", "1e300", "-2.5e0", "n * 2e0", "0.1", "@f", "i", "NULL", "n / 3e0", "n + 1e0"),
    "x": ("1", "-0.001", "123456789.125", "'7.25'", "i", "x", "NULL", "@d", "2.0005"),
    "v": ("'text'", "'it''s'", "'ÄÖ'", "CONCAT(v, '!')", "CONCAT('n', id)", "UPPER(v)", "x'4142'", "@s", "c", "k",
          "NULL", "COALESCE(v, 'none')", "i", "'twenty and more characters here'"),
    "c": ("'abc'", "'é'", "NULL", "'x '", "e", "'漢'"),
    "k": ("'Key'", "'key'", "v", "NULL", "CONCAT(k, i)"),
    "e": ("'a'", "'C'", "'c'", "NULL", "e", "IF(id = 1, 'a', 'b')"),
    "d": ("'2024-02-29'", "NULL", "d", "'2024-2-9'", "CURDATE()"),
    "t": ("'2024-02-29 12:34:56.78'", "'2024-01-01'", "NULL", "NOW()", "UTC_TIMESTAMP()", "d", "t"),
    "ts": ("NOW()", "NOW(3)", "NULL", "ts", "'2024-01-01 00:00:00'"),
    "b": ("x'00ff'", "'bytes'", "b", "NULL", "v", "@b"),
    "y": ("2024", "1901", "NULL", "y"),
    "bits": ("5", "127", "NULL", "bits"),
}  # fmt: skip
CONDITIONS: Final = (
    "id = {n}", "id < {n}", "id IN ({n}, 2)", "i > {n} OR n IS NULL", "v = 'TEXT'", "v = 'text' AND NOT (id = {n})",
    "k = 'key'", "k <> 'Key'", "x >= 1.5",
    "u > {n}", "u = 18446744073709551615", "n < 1", "d >= '2024-01-01'", "e = 'a'", "t < '2024-06-01 00:00:00'",
    "i <=> NULL", "id BETWEEN 2 AND {n}", "v LIKE 't%'",
    "y = 2024", "bits & 1", "c = 'ABC '", "b = x'00ff'", "id % 2 = 1", "i",
)  # fmt: skip


@pytest.fixture(scope="module", params=KINDS)
def server(request: pytest.FixtureRequest) -> Iterator[Instance]:
    """Provide a server that logs statements."""
    options = (
        "--binlog-format=STATEMENT",
        "--character-set-server=utf8mb4",
        "--sync-binlog=0",
        "--innodb-flush-log-at-trx-commit=0",
    )
    with vendor(request.param).server("translate", *options) as instance:
        yield instance


def statement(chosen: random.Random) -> str:
    """Return a statement at random."""
    some = sorted(chosen.sample(COLUMNS, chosen.randint(1, 3)))
    values = [chosen.choice(VALUES[name]) for name in some]
    condition = chosen.choice(CONDITIONS).format(n=chosen.randint(1, 9))
    kind = chosen.random()
    constants = [v if v[0] in "'-0123456789@NDLx" and "DEFAULT" not in v else "NULL" for v in values]
    if kind < 0.35:
        return f"INSERT INTO s.t ({', '.join(some)}) VALUES ({', '.join(constants)}), ({', '.join(constants)})"
    if kind < 0.4:
        return f"REPLACE INTO s.t (id, {', '.join(some)}) VALUES ({chosen.randint(1, 9)}, {', '.join(constants)})"
    if kind < 0.45:
        return (
            f"INSERT INTO s.o (id, {', '.join(some)}) SELECT id + {chosen.randint(100, 10**6)}, "
            f"{', '.join(some)} FROM s.t WHERE {condition}"
        )
    if kind < 0.55:
        return f"DELETE FROM s.t WHERE {condition}"
    changes = ", ".join(f"{name} = {value}" for name, value in zip(some, values, strict=True))
    return f"UPDATE s.t SET {changes} WHERE {condition}"


def executed(cursor: Any, sql: str) -> bool:
    try:
        cursor.execute(sql)
    except pymysql.err.MySQLError:
        return False
    return True


@pytest.mark.parametrize("seed", range(4))
def test_translated_statements_leave_the_rows_of_the_server(server: Instance, tmp_path: Path, seed: int) -> None:
    """A hundred statements at random: those that are refused are few, and are left out of another log then."""
    chosen = random.Random(seed)
    taken, refused, wrong = 0, 0, 0
    with closing(
        pymysql.connect(unix_socket=str(server.socket), user="root", charset="utf8mb4", autocommit=True)
    ) as connection:
        cursor = connection.cursor()
        cursor.execute("DROP DATABASE IF EXISTS s")
        cursor.execute("SET time_zone = '+03:00', sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'")
        cursor.execute("FLUSH BINARY LOGS")
        setup = [
            "CREATE DATABASE s",
            CREATE.format("s.t"),
            CREATE.format("s.o"),
            "SET @i = -5, @f = 0.25e0, @d = 12.5, @s = 'vär', @b = x'01'",
        ]
        for sql in setup:
            cursor.execute(sql)
        with closing(SqliteTarget.open(tmp_path / "x.db", translate=True)) as target:
            for number in range(120):
                sql = statement(chosen)
                if number:
                    cursor.execute("BEGIN")
                if not executed(cursor, sql):
                    cursor.execute("ROLLBACK")
                    continue
                cursor.execute("COMMIT")
                taken += 1
                cursor.execute("FLUSH BINARY LOGS")
                log = sorted(server.data.glob("binlog.0*[0-9]"))[-2]
                copy = tmp_path / log.name
                copy.write_bytes(log.read_bytes())
                try:
                    with binlogio.open(copy) as reader:
                        replay(reader, target, resumes=False)  # the logs between were not given
                except ReplayError as exc:
                    refused += 1
                    wrong += "cannot be translated for SQLite without loss" not in str(exc)
                    _take_over(cursor, target)
                _compare(cursor, target, sql)

    assert wrong == 0
    assert taken > 60
    assert refused < taken * 0.6


def _take_over(cursor: Any, target: SqliteTarget) -> None:
    """Put the server's rows into SQLite, where a statement was refused."""
    for name in ("t", "o"):
        target.execute(f'DELETE FROM "s.{name}"')
        cursor.execute("SET time_zone = '+00:00'")
        cursor.execute(f"SELECT {SHOWN}, u, b, x FROM s.{name} ORDER BY id")
        for row in cursor.fetchall():
            values = [*row[:15]]
            values[2] = None if row[15] is None else (row[15] if row[15] < 1 << 63 else str(row[15]))
            values[12] = row[16]
            target.execute(f'INSERT INTO "s.{name}" VALUES ({", ".join("?" * 15)})', values)
        cursor.execute("SET time_zone = '+03:00'")


def _compare(cursor: Any, target: SqliteTarget, sql: str) -> None:
    cursor.execute("SET time_zone = '+00:00'")
    for name in ("t", "o"):
        cursor.execute(f"SELECT {SHOWN} FROM s.{name} ORDER BY id")
        expected = [tuple(row) for row in cursor.fetchall()]
        found = target.connection.execute(f'SELECT {STORED} FROM "s.{name}" ORDER BY id').fetchall()
        assert [tuple(row) for row in found] == expected, sql
    cursor.execute("SET time_zone = '+03:00'")
