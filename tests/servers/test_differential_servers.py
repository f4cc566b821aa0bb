"""Random sessions of real servers, a seed each: everything that reads their log ends in the tables of the server.

`make differential SERVER=mysql97 SEEDS=1-50` runs these seeds of one server; a seed repeats what it did. A seed draws
the format, images, metadata and compression of the log, and runs `random_sessions` with random DDL and a table of many
types in between. What takes only some logs may refuse one with a reason, which is printed; anything else is equal.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from random import Random
from typing import TYPE_CHECKING, Any, Final

import pytest
from click.testing import CliRunner

import binlogio
from binlogio.errors import BinlogError
from binlogio.events.query import QueryEvent
from binlogio.replay import SqliteTarget, replay
from binlogio.replay.targets.mysql.target import MysqlTarget
from binlogio.schema.ddl.catalogue import Catalogue
from binlogio.schema.ddl.logged_ddl import follow_event
from binlogio_cli.main import cli
from ddl_corpus import WRONG, definition_verdict, table_records
from expected_tables import differences
from random_ddl import DdlGenerator
from random_sessions import RandomSessions, copied_logs, difference, state
from random_tables import BLOB, DOCUMENT, NOTE, NUMBERS, POINT, TEXTS, TIMES
from real_servers import KINDS, Instance, seeds, vendor
from server_tables import expected as tables_of
from target_servers import OPTIONS, connect, emptied, fed, url

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

pytestmark = [pytest.mark.server, pytest.mark.slow]

STRETCHES: Final = 6  # of random sessions
COLUMNS: Final = (*NUMBERS, *TIMES, *TEXTS, POINT, BLOB, DOCUMENT, NOTE)
GLOBALS: Final = {
    "mysql": {
        "binlog_row_image": ("FULL", "MINIMAL", "NOBLOB"), "binlog_row_metadata": ("MINIMAL", "FULL"),
        "binlog_transaction_compression": ("0", "1"), "binlog_row_value_options": ("''", "PARTIAL_JSON"),
        "binlog_checksum": ("NONE", "CRC32"),
    },
    "mariadb": {
        "binlog_row_image": ("FULL", "MINIMAL", "NOBLOB"), "binlog_row_metadata": ("NO_LOG", "MINIMAL", "FULL"),
        "log_bin_compress": ("0", "1"), "log_bin_compress_min_len": ("10", "256"),
        "binlog_checksum": ("NONE", "CRC32"),
    },
}  # fmt: skip
NOT_IN_THE_LOG: Final[dict[str, dict[str, tuple[str, ...]]]] = {  # MariaDB leaves generated columns out of updates
    "mysql": {}, "mariadb": {"w.gen": ("v",)}, "mariadb118": {"w.gen": ("st", "v")}
}  # fmt: skip
MAY_REFUSE: Final = ("SQL", "SQLite")  # partial JSON; statements, foreign keys
CLIENTS: Final = ("time_zone = '+09:00'", "sql_mode = 'ANSI'", "foreign_key_checks = 0", "autocommit = 1")


@pytest.fixture(scope="module", params=KINDS)
def server(request: pytest.FixtureRequest) -> Iterator[Instance]:
    """One server for all seeds."""
    options = ("--character-set-server=utf8mb4", "--log-bin-trust-function-creators=1", "--local-infile=1")
    with vendor(request.param).server("differential", *OPTIONS[request.param], *options) as instance:
        yield instance


def statements_of_kinds(random: Random, generator: DdlGenerator) -> Iterator[str]:
    """Yield statements of the tables of many types, and DDL of them and of others, which the server may refuse."""
    table = random.choice(("kinds", "heap", "t1", "t2"))
    columns = random.sample(COLUMNS, random.randint(1, 6))
    values = [column.make(random).sql for column in columns]
    pairs = ", ".join(f"{column.name} = {value}" for column, value in zip(columns, values, strict=True))
    yield f"INSERT INTO {table} ({', '.join(column.name for column in columns)}) VALUES ({', '.join(values)})"
    yield f"INSERT INTO {table} SET {pairs}"
    yield f"UPDATE {table} SET {pairs} WHERE id % 3 = {random.randrange(3)}"
    yield f"DELETE FROM {table} WHERE id % 7 = {random.randrange(7)}"
    yield generator.statement().replace("t3", random.choice(("kinds", "heap", "t3")))
    yield f"INSERT INTO t{random.randrange(1, 4)} (a, b) VALUES ({random.randrange(99)}, '{random.randrange(9)}')"
    yield f"UPDATE t{random.randrange(1, 4)} SET b = '{random.randrange(9)}' LIMIT 0"
    yield f"UPDATE kinds SET n = 1 WHERE id < {random.choice((0, 3))}"


def execute(server: Instance, random: Random, log_format: str) -> dict[str, Any]:
    """Execute the sessions of a seed, and return the state of the server."""
    generator = DdlGenerator(random, is_mariadb=server.vendor.is_mariadb)
    created = ", ".join(f"{column.name} {column.type}" for column in COLUMNS)
    with RandomSessions(server, random, log_format) as sessions:
        sessions.execute(f"CREATE TABLE kinds (id INT PRIMARY KEY AUTO_INCREMENT, {created})")
        sessions.execute(f"CREATE TABLE heap (id INT DEFAULT 1, {created})")
        for _ in range(STRETCHES):
            sessions.run(random.randrange(20))
            for sql in statements_of_kinds(random, generator):
                # A session of MariaDB keeps the default of before ALTER DATABASE, which is not in the log.
                if random.random() < 0.8 and not (server.vendor.is_mariadb and "DATABASE" in sql):
                    sessions.execute(sql)
        return state(server)


def wrong_definitions(server: Instance, logs: Sequence[str]) -> list[str]:
    """Return the tables whose definitions by the log are not those of information_schema."""
    catalogue, found = Catalogue(), []
    with binlogio.open(logs) as reader:
        for event in reader:
            if isinstance(event, QueryEvent):
                follow_event(catalogue, event, reader.context)
    with closing(connect(server)) as connection, connection.cursor() as cursor:
        for schema, table, theirs in table_records(cursor, ("w",), is_mysql=not server.vendor.is_mariadb):
            known, reason = catalogue.find(schema, table), catalogue.reason((schema, table))
            result, text = definition_verdict(known, reason, theirs)
            found += [f"{table}: {text}"] if result == WRONG else []
    return found


class Doors:
    """What reads the log of a server; each returns differences."""

    def __init__(self, server: Instance, random: Random, logs: Sequence[str], expected: dict[str, Any]) -> None:
        self._server, self._random, self._logs, self._expected = server, random, logs, expected

    def all(self) -> dict[str, Callable[[], Any]]:
        """Return all of them by name."""
        return {
            "events, 1 worker": lambda: self._replayed(workers=1),
            "events, 4 workers": lambda: self._replayed(workers=4),
            "SQL": lambda: self._replayed(workers=1, applies_events=False),
            "dump": self._dumped,
        }

    def _replayed(self, *, workers: int, applies_events: bool | None = None) -> dict[str, Any]:
        emptied(self._server)
        with (
            closing(MysqlTarget.open(url(self._server), applies_events=applies_events)) as target,
            binlogio.open(self._logs) as reader,
        ):
            replay(reader, target, workers=workers)
        return difference(self._expected, state(self._server))

    def _dumped(self) -> dict[str, Any]:
        emptied(self._server)
        done = CliRunner().invoke(cli, ["dump", "--format", "sql", "--skip-gtids", *self._logs])
        charset = self._random.choice(["utf8mb4", "latin1", "sjis"])
        client = (f"--init-command=SET {self._random.choice(CLIENTS)}", f"--default-character-set={charset}")
        if done.exit_code:
            return {"refused": done.stderr}
        fed(self._server, done.stdout_bytes, "--force", *client)  # MariaDB logs some statements that failed
        return difference(self._expected, state(self._server))


def sqlite_differences(logs: Sequence[str], tables: dict[str, Any], path: Path, kind: str) -> list[str]:
    """Return the tables of SQLite that are not those of the server."""
    with closing(SqliteTarget.open(path)) as target, binlogio.open(logs) as reader:
        replay(reader, target)
    with closing(sqlite3.connect(path)) as connection:
        return differences(connection, tables, NOT_IN_THE_LOG[kind])


@pytest.mark.parametrize("seed", seeds("1-2"))
def test_random_sessions_end_in_the_tables_of_the_server(
    server: Instance, seed: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Replays as events and as SQL, the dump through a client, SQLite, and definitions by the log."""
    random = Random(seed)
    values = {name: random.choice(choices) for name, choices in GLOBALS[server.vendor.client].items()}
    log_format = random.choice(("ROW", "ROW", "MIXED", "STATEMENT"))
    server.sql(";".join(f"SET GLOBAL {name} = {value}" for name, value in values.items()))
    expected = execute(server, random, log_format)
    with closing(connect(server)) as connection:
        tables = json.loads(tables_of(connection, {}))["tables"]
    logs = copied_logs(server, tmp_path / "logs")
    doors: dict[str, Callable[[], Any]] = {
        "definitions": lambda: wrong_definitions(server, logs),
        **Doors(server, random, logs, expected).all(),
        "SQLite": lambda: sqlite_differences(logs, tables, tmp_path / "replayed.db", server.vendor.kind),
    }
    wrong: dict[str, Any] = {}
    refused: list[str] = []
    for name, door in doors.items():
        try:
            if found := door():
                wrong[name] = found
        except BinlogError as exc:
            if name in MAY_REFUSE:
                refused.append(f"; {name} refuses: {exc.reason}")
            else:
                wrong[name] = str(exc)
    with capsys.disabled():
        head = f"{server.vendor.kind} seed {seed}: {' '.join((log_format, *values.values()))}"
        print(f"\n{head}: {len(doors) - len(refused)} checks, {len(wrong)} different{''.join(refused)}")  # noqa: T201
        for name, found in wrong.items():
            print(f"  {name}: {str(found)[:2000]}")  # noqa: T201

    assert wrong == {}
