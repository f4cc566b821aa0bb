"""State at random moments: rows of a dump, or of an earlier export, with the logs after it, against SELECT then."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa
import pytest
from click.testing import CliRunner

from binlogio_cli.main import cli
from random_tables import BLOB, DOCUMENT, NOTE, NUMBERS, POINT, TEXTS, TIMES
from real_servers import KINDS, Instance, seeds, vendor
from target_servers import OPTIONS, connect, emptied, place

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.server, pytest.mark.slow]

COLUMNS: Final = (*NUMBERS, *TIMES, *TEXTS, POINT, BLOB, DOCUMENT, NOTE)
SHOWN: Final = {"bits": "bits+0", "g": "ST_AsBinary(g)"}
TABLES: Final = {
    "kinds": ["id", *(column.name for column in COLUMNS)],
    "`moved.t`": ["a", "b", "n"], "still": ["id", "c"], "gone": ["id"],
}  # fmt: skip
MOMENTS: Final = 50
DUMP: Final = ("--no-defaults", "-uroot", "--single-transaction", "--databases", "s")


class Moment(NamedTuple):
    """A position, the option that selects what is before it by GTIDs, and the tables there."""

    place: str
    gtids: tuple[str, str]
    tables: dict[str, list[Any]]


@pytest.fixture(scope="module", params=KINDS)
def server(request: pytest.FixtureRequest) -> Iterator[Instance]:
    """One server of each vendor."""
    options = (*OPTIONS[request.param], "--default-time-zone=+00:00", "--binlog-format=ROW")
    options += ("--gtid-mode=ON", "--enforce-gtid-consistency=ON") if request.param == "mysql" else ()
    with vendor(request.param).server("base", *options) as instance:
        yield instance


def plain(value: Any) -> Any:
    """Return a value in a form that both sides have."""
    if isinstance(value, dict):
        return value["wkb"]
    if isinstance(value, str) and value[:1] == "{":
        return json.loads(value)
    return value.replace(tzinfo=None) if hasattr(value, "tzinfo") else value


def state(server: Instance) -> dict[str, list[Any]]:
    """Return the rows of all tables that have some."""
    found: dict[str, list[Any]] = {}
    with closing(connect(server)) as connection, connection.cursor() as cursor:
        for table, columns in TABLES.items():
            cursor.execute(f"SELECT {', '.join(SHOWN.get(one, one) for one in columns)} FROM s.{table}")
            rows = sorted(([plain(value) for value in row] for row in cursor.fetchall()), key=str)
            found |= {table.strip("`"): rows} if rows else {}
    return found


def exported(folder: Path) -> dict[str, list[Any]]:
    """Return the rows of an export as Arrow files."""
    found: dict[str, list[Any]] = {}
    for path in folder.glob("*.arrow"):
        with pa.ipc.open_file(path) as file:
            rows = [[plain(value) for value in row.values()] for row in file.read_all().to_pylist()]
        found[path.stem.removeprefix("s.").replace("~2E", ".")] = sorted(rows, key=str)
    return found


class Work:
    """Random statements, and moments between them."""

    def __init__(self, server: Instance, random: Random) -> None:
        self._server, self._random = server, random
        created = ", ".join(f"{column.name} {column.type}" for column in COLUMNS)
        self.run(
            "CREATE DATABASE s CHARACTER SET utf8mb4",
            f"CREATE TABLE s.kinds (id INT PRIMARY KEY AUTO_INCREMENT, {created})",
            "CREATE TABLE s.`moved.t` (a VARCHAR(9) CHARACTER SET latin1, b INT, n INT, PRIMARY KEY (a, b))",
            "CREATE TABLE s.still (id INT PRIMARY KEY, c VARCHAR(99))",
            "CREATE TABLE s.gone (id INT PRIMARY KEY)",
            r"INSERT INTO s.still VALUES (1, 'it''s\nhere\\ \Z'), (2, NULL), (3, ''), (4, '/* ; -- `')",
            "INSERT INTO s.gone VALUES (1), (2)",
        )

    def run(self, *statements: str) -> None:
        """Execute statements."""
        with closing(connect(self._server)) as connection, connection.cursor() as cursor:
            for sql in statements:
                cursor.execute(sql)

    def go_on(self) -> None:
        """Execute some random statements."""
        random = self._random
        for _ in range(random.randint(1, 8)):
            columns = random.sample(COLUMNS, random.randint(1, 6))
            key = random.randrange(9)
            pairs = ", ".join(f"{column.name} = {column.make(random).sql}" for column in columns)
            self.run(
                random.choice(
                    [
                        f"INSERT INTO s.kinds SET {pairs}",
                        f"INSERT INTO s.kinds SET {pairs}",
                        f"UPDATE s.kinds SET {pairs} WHERE id % 3 = {random.randrange(3)}",
                        f"DELETE FROM s.kinds WHERE id % 9 = {random.randrange(9)}",
                        f"REPLACE INTO s.`moved.t` VALUES ('{random.choice('äbc')}', {random.randrange(9)}, 1)",
                        f"UPDATE s.`moved.t` SET b = b + 10, n = {random.randrange(99)} WHERE b = {key}",
                        f"DELETE FROM s.`moved.t` WHERE b > {random.randrange(10, 40)}",
                    ]
                )
            )
        if random.random() < 0.1:
            self.run(random.choice(["FLUSH BINARY LOGS", "TRUNCATE s.`moved.t`"]))

    def moment(self) -> Moment:
        """Return the position and the tables now."""
        is_mysql = self._server.vendor.kind == "mysql"
        name = "gtid_executed" if is_mysql else "gtid_binlog_pos"
        gtids = self._server.sql(f"SELECT REPLACE(@@global.{name}, '\\n', '')").strip()
        option = "--include-gtids" if is_mysql else "--stop-position"
        return Moment(place(self._server), (option, gtids), state(self._server))


def exports(out: Path, *arguments: str) -> None:
    done = CliRunner().invoke(cli, ["export", "-q", "--latest", "-o", str(out), *arguments])
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize("seed", seeds("1"))
def test_the_state_at_any_moment_is_that_of_the_server(server: Instance, seed: int, tmp_path: Path) -> None:
    """Also with a base that continues the dump, and where the logs of before the dump are missing."""
    random = Random(seed)
    emptied(server)
    work = Work(server, random)
    for _ in range(5):
        work.go_on()
    data = "--source-data=2" if server.vendor.kind == "mysql" else "--master-data=2"
    tool = "mysqldump" if server.vendor.kind == "mysql" else "mariadb-dump"
    done = server.vendor.run(tool, *DUMP, data, "-S", f"/run/mysqld/{server.name}.sock")
    assert done.returncode == 0, done.stderr
    dump = tmp_path / "dump.sql"
    dump.write_bytes(done.stdout)
    moments = [work.moment()]
    work.run("DELETE FROM s.gone")
    for _ in range(MOMENTS // 2):
        work.go_on()
        moments.append(work.moment())
    first = moments[0].place.partition(":")[0]
    logs = sorted(str(log) for log in server.data.glob("binlog.0*") if log.suffix != ".idx" and log.name >= first)
    work.run("FLUSH BINARY LOGS")
    exports(tmp_path / "base", "--base", str(dump), *logs)
    later: list[Moment] = []
    while len(moments) + len(later) < MOMENTS:
        work.go_on()
        later.append(work.moment())
    logs = sorted(str(log) for log in server.data.glob("binlog.0*") if log.suffix != ".idx" and log.name >= first)

    for number, (base, moment) in enumerate(
        [*((dump, one) for one in moments), *((tmp_path / "base", one) for one in later)]
    ):
        out = tmp_path / f"out{number}"
        stop = moment.gtids if number % 2 else ("--stop-position", moment.place)
        exports(out, "--format", "arrow", "--base", str(base), *stop, *logs)
        assert exported(out) == moment.tables, (base, moment.place)
    assert all(later[-1].tables[name] for name in ("kinds", "still"))
