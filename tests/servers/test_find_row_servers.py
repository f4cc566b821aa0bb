"""Replay into real servers, by events and by SQL, compared with a 9.7 replica, in modes STRICT and IDEMPOTENT.

The replica applied the same changes from its relay log.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

import pymysql
import pytest

import binlogio
from binlogio.errors import ReplayError
from binlogio.gtid import Uuid
from binlogio.replay import replay
from binlogio.replay.targets.mysql.target import MysqlTarget
from corpus import FIXTURES
from real_servers import KINDS, Instance, vendor
from record_find_row import create, relay_log

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from binlogio.replay.targets import OnLossy

pytestmark = [pytest.mark.server, pytest.mark.slow]

ER_NO_DEFAULT_FOR_FIELD: Final = 1364
ER_REPLICA_CONVERSION_FAILED: Final = 13146
CASES: Final = [case for case in json.loads((FIXTURES / "find_row.json").read_text("utf-8")) if not case["conversions"]]
MARIADB_COLLATIONS: Final = {"utf8mb4_0900_ai_ci": "utf8mb4_unicode_520_nopad_ci", "utf8mb4_0900_as_cs": "utf8mb4_bin"}


@pytest.fixture(scope="module", params=KINDS)
def server(request: pytest.FixtureRequest) -> Iterator[Instance]:
    """One server of each vendor for all tests."""
    with vendor(request.param).server(
        "findrow", "--innodb-flush-log-at-trx-commit=0", "--sync-binlog=0", "--default-time-zone=+00:00"
    ) as instance:
        yield instance


def prepared(cursor: Any, case: dict[str, Any], *, is_mariadb: bool) -> None:
    """Create the table of the case, with its rows."""
    schema = f"f{case['number']}"
    sql = create(case["target"], schema)
    for name, other in MARIADB_COLLATIONS.items() if is_mariadb else ():
        sql = sql.replace(name, other)
    cursor.execute(f"DROP DATABASE IF EXISTS {schema}")
    cursor.execute(f"CREATE DATABASE {schema}")
    cursor.execute(sql)
    for row in case["rows"]:
        values = [bytes.fromhex(v[2:]) if isinstance(v, str) and v.startswith("0x") else v for v in row]
        cursor.execute(f"INSERT INTO {schema}.t VALUES ({', '.join(['%s'] * len(row))})", values)


def result(cursor: Any, case: dict[str, Any]) -> Counter[str]:
    names = ", ".join(column["name"] for column in case["target"]["columns"])
    cursor.execute(f"SELECT {names} FROM f{case['number']}.t")
    return Counter(repr([_shown(value) for value in row]) for row in cursor.fetchall())


def _is_known(cursor: Any, case: dict[str, Any]) -> bool:
    """Return whether MariaDB has the table as it was meant: it knows neither the collations of MySQL 8 nor -0e0."""
    named = any("_0900_" in column.get("collation", "") for column in case["target"]["columns"])
    return not named and result(cursor, case) == Counter(repr(_json_row(row)) for row in case["rows"])


def _json_row(row: list[Any]) -> list[Any]:
    return [_shown(value) for value in row]


def _shown(value: Any) -> Any:
    if isinstance(value, bytes):
        return f"0x{value.hex()}"
    return value if isinstance(value, int | float | str | None) else str(value)


def differences(
    server: Instance,
    cases: list[dict[str, Any]],
    folder: Path,
    *,
    applies_events: bool,
    on_lossy: OnLossy = "error",
) -> dict[str, Any]:
    """Return the cases in which a replay did something else than the replica; MariaDB has most of their tables."""
    found: dict[str, Any] = {}
    compared = 0
    is_mariadb = server.vendor.is_mariadb
    url = f"mysql://root@/?unix_socket={server.socket}"
    with closing(
        pymysql.connect(unix_socket=str(server.socket), user="root", charset="utf8mb4", autocommit=True)
    ) as connection:
        cursor = connection.cursor()
        for case in cases:
            prepared(cursor, case, is_mariadb=is_mariadb)
            if is_mariadb and not _is_known(cursor, case):
                continue
            path = folder / f"{'events' if applies_events else 'sql'}{case['number']}.000001"
            path.write_bytes(relay_log([case], Uuid(bytes(range(16)))))
            errno, compared = 0, compared + 1
            try:
                with (
                    closing(
                        MysqlTarget.open(
                            url,
                            idempotent=case["mode"] == "IDEMPOTENT",
                            applies_events=applies_events,
                            on_lossy=on_lossy,
                        )
                    ) as target,
                    binlogio.open(path) as reader,
                ):
                    replay(reader, target, resumes=False, gtids="new")  # each log is of another source
            except ReplayError as exc:
                number = re.search(r"ERROR \(?(\d+)", exc.reason)
                errno = int(number[1]) if number else -1
            rows, wanted = result(cursor, case), Counter(repr(row) for row in case["result"]["rows"])
            if (errno, rows) != (case["result"]["errno"], wanted):
                found[case["name"]] = (errno, case["result"]["errno"], rows - wanted, wanted - rows)
    assert compared > len(cases) // 2
    return found


def test_events_do_what_they_do_on_a_replica(server: Instance, tmp_path: Path) -> None:
    """The same rows, the same error numbers, in both modes."""
    if server.vendor.is_mariadb:
        pytest.skip("the log is one of MySQL")

    assert differences(server, CASES, tmp_path, applies_events=True) == {}


def test_sql_of_rows_does_what_the_events_do_on_a_replica(server: Instance, tmp_path: Path) -> None:
    """Where no type needs a conversion: SQL converts what a replica refuses.

    A replica also writes the value of the type into a column without a default; SQL does so if it may change values.
    """
    cases = [case for case in CASES if case["result"]["errno"] != ER_REPLICA_CONVERSION_FAILED]

    found = differences(server, cases, tmp_path, applies_events=False)
    assert len(found) == 7
    assert {errno for errno, *_ in found.values()} == {ER_NO_DEFAULT_FOR_FIELD}
    lossy = [case for case in cases if case["name"] in found]
    assert differences(server, lossy, tmp_path, applies_events=False, on_lossy="ignore") == {}
