"""`explain` against a 9.7 server: format, cache and flush of random sequences, the end of groups, warnings and errors.

Every sequence runs on the server first. A statement is found in the log by its timestamp, and its cache by the
counters of the server. Left out are sequences in which an engine ends a statement or a statement changes no row of a
table that it writes: `explain` invents a row for each.
"""

from __future__ import annotations

import re
from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Any, Final

import pytest

import binlogio
from binlogio.errors import UnsupportedFeature
from binlogio.events import RowsEvent
from binlogio.events.control import XidEvent
from binlogio.events.query import QueryEvent
from binlogio.options import ServerVariables
from binlogio.writer.explain import ExplainedStatement, explain
from binlogio.writer.rules.known_objects import KnownObjects
from binlogio.writer.rules.statement_facts import LoggingFormat
from logged_objects import ENGINES, ROUTINES, TABLES, Server, create_objects
from real_servers import Instance, seeds, vendor
from recorded_decisions import OF_THE_DECISION

if TYPE_CHECKING:
    from collections.abc import Sequence

pytestmark = [pytest.mark.server, pytest.mark.slow]

SEQUENCES: Final = 10  # of a seed
WARNINGS: Final = (1196, 1534, 1592, 1751, 1752, 1785, 1786, 1870, 3748, 6414)
REFUSALS: Final = (*OF_THE_DECISION, 1305)
CHANGED: Final = [name for name in ENGINES if name != "b1"]  # BLACKHOLE has no rows to compare
SUMS: Final = " UNION ALL ".join(
    f"SELECT '{name}', SUM(CRC32(CONCAT(a, b))), COUNT(*) FROM w.{name}" for name in CHANGED
)
ROWS: Final = ",".join(f"({number}, 'x{number}')" for number in range(1, 102))
VALUES: Final = """'z' UUID() @x @@timestamp USER() fu({i}) fl({i}) fn({i}) fa({i}) RAND() NOW() VERSION() 'z' 'z'
    LAST_INSERT_ID() @@sql_mode""".split()
DML: Final = """INSERT INTO {a} VALUES ({i}, {v})|REPLACE INTO {a} VALUES ({i}, {v})
|INSERT IGNORE INTO {a} VALUES ({i}, {v})|INSERT INTO {auto} (b) VALUES ({v})
|INSERT INTO {a} SELECT a + {i}, CONCAT({i}, b) FROM {b} WHERE a = 100
|INSERT INTO {a} VALUES ({i}, 'y{i}'), ({i} + 500000, 'yy{i}')
|REPLACE INTO {a} SELECT a, CONCAT({i}, b) FROM {b} WHERE a = 100
|INSERT INTO {a} SELECT a + {i}, 'd{i}' FROM {b} WHERE a = 100 ON DUPLICATE KEY UPDATE b = 'w{i}'
|INSERT INTO {a} VALUES (100, 'q{i}') ON DUPLICATE KEY UPDATE b = {v}
|INSERT INTO {a} SELECT a + {i}, 'l{i}' FROM (SELECT * FROM {b} WHERE a = 100 LIMIT 1) d
|INSERT INTO {a} WITH d AS (SELECT * FROM {b} WHERE a = 100) SELECT a + {i}, 'w{i}' FROM d
|INSERT INTO {a} SELECT a + {i}, 's{i}' FROM {b} WHERE a = 100 FOR UPDATE{skip}|UPDATE {a} SET b = {v} WHERE a = 100
|UPDATE {a} SET b = 'u{i}' WHERE a = 100 ORDER BY a LIMIT 1
|UPDATE {a} x, {b} y SET x.b = 'm{i}' WHERE x.a = 100 AND y.a = 101
|UPDATE {a} x, {b} y SET x.b = 'm{i}', y.b = 'n{i}' WHERE x.a = 100 AND y.a = 101
|DELETE FROM {a} WHERE a < 90 ORDER BY a LIMIT 1|DELETE FROM {a} WHERE a = {p}|DELETE FROM {a} LIMIT 0
|DELETE x FROM {a} x JOIN {b} y ON y.a = 100 WHERE x.a = {p}
|DELETE x, y FROM {a} x JOIN {b} y ON x.a = {p} AND y.a = {p}
|INSERT INTO {a} (a, b) SELECT {i}, 'i{i}' FROM information_schema.tables LIMIT 1
|INSERT INTO {a} (a, b) SELECT {i}, 'u{i}' FROM mysql.user WHERE user = 'root' LIMIT 1
|UPDATE {a} SET b = 'z' LIMIT 0|INSERT INTO {a} VALUES ({i}, 'e{i}'), (100, 'e') /* error 1062 */
|INSERT INTO {a} SELECT a + {i}, 't{i}' FROM tmp{k} LIMIT 1
|INSERT INTO tmp{k} SELECT a + {i}, b FROM {a} WHERE a = 100|INSERT INTO tmp{k} VALUES ({i}, 't')
|UPDATE tmp{k} SET b = 'u{i}'|DELETE FROM tmp{k} WHERE a = 100|SELECT fn({i})|SELECT fa({i})|DO fn({i})|DO 1
|SELECT b FROM {a}"""
CONTROL: Final = """BEGIN|START TRANSACTION|COMMIT|COMMIT|ROLLBACK|SAVEPOINT a|SAVEPOINT b|ROLLBACK TO a
|ROLLBACK TO SAVEPOINT b|RELEASE SAVEPOINT a"""
OTHER: Final = """CREATE TEMPORARY TABLE tmp{k} (a INT PRIMARY KEY, b VARCHAR(40)) ENGINE={e}
|DROP TEMPORARY TABLE tmp{k}|CREATE TEMPORARY TABLE tmp{k} SELECT * FROM {a} WHERE a = 100
|CREATE TEMPORARY TABLE tmp{k} ENGINE={e} SELECT * FROM {a} WHERE a = 100|DROP TEMPORARY TABLE IF EXISTS tmp{k}
|CREATE TABLE c{k} (a INT PRIMARY KEY, b VARCHAR(40)) ENGINE={e}
|CREATE TABLE c{k} ENGINE={e} SELECT * FROM {a} WHERE a = 100|DROP TABLE c{k}|DROP TABLE IF EXISTS c{k}
|TRUNCATE TABLE c{k}|ALTER TABLE c{k} ADD x{i} INT|INSERT INTO c{k} (a, b) VALUES ({i}, 'c')
|CREATE TRIGGER tr{k} AFTER INSERT ON u2 FOR EACH ROW SET @x = UUID()
|CREATE TRIGGER tr{k} AFTER INSERT ON {a} FOR EACH ROW INSERT INTO {b} VALUES (NEW.a + 1000000, CONCAT('t', NEW.a))
|CREATE TRIGGER tr{k} BEFORE UPDATE ON {a} FOR EACH ROW UPDATE {b} SET b = CONCAT(a, NEW.b) WHERE a = 101
|DROP TRIGGER tr{k}"""


def sequence_of(random: Random) -> list[str]:
    """Return statements that a server accepts, as far as that is easy."""
    found, there, deleted = ["BEGIN"] * random.randrange(2), set[str](), random.sample(range(1, 90), 100 - 12)
    length = random.randrange(3, 10)
    while len(found) < length:
        texts = random.choices((DML, CONTROL, OTHER), (7, 2, 1))[0].replace("\n", "").split("|")
        a, b = random.sample(CHANGED, 2)
        number = 1000 + len(found)
        value = f"CONCAT({number}, LEFT({random.choice(VALUES).format(i=number)}, 9))"
        sql = random.choice(texts).format(
            a=a, b=b, i=number, v=value, p=deleted.pop(), auto=random.choice(("ai", "an")), k=random.choice("12"),
            e=random.choice(("InnoDB", "MyISAM", "MEMORY")), skip=random.choice(("", " SKIP LOCKED")),
        )  # fmt: skip
        names = set(re.findall(r"\b(?:tmp|c|tr)[12]\b", sql))
        if (names & there) if sql.startswith("CREATE") else (names - there and "IF EXISTS" not in sql):
            continue
        there = there - names if sql.startswith("DROP") else there | names
        found.append(sql)
    return [*found, random.choice(("COMMIT", "ROLLBACK"))]


class Observer:
    """Sessions of a server beside the one that executes a sequence."""

    def __init__(self, instance: Instance) -> None:
        self._instance, self._admin, self._other = instance, Server(str(instance.socket)), Server(str(instance.socket))
        create_objects(self._admin)
        self._other.query("USE w")
        self._other.query("SET SESSION TRANSACTION ISOLATION LEVEL READ UNCOMMITTED")
        self._admin.query("SET sql_log_bin = 0")

    def run(self, steps: Sequence[str], variables: ServerVariables) -> list[dict[str, Any]]:
        """Execute a sequence; return what the server did in each step."""
        for sql in ("DROP TRIGGER IF EXISTS tr1", "DROP TRIGGER IF EXISTS tr2", "DROP TABLE IF EXISTS c1, c2"):
            self._admin.query(sql)
        for name in CHANGED:
            self._admin.query(f"TRUNCATE {name}")
            self._admin.query(f"INSERT INTO {name} VALUES {ROWS}")
        self._admin.query("FLUSH BINARY LOGS")
        log = self._instance.data / self._admin.query("SHOW BINARY LOG STATUS")[0][0]
        session = Server(str(self._instance.socket))
        for sql in ("SET sql_mode = ''", "USE w", "SET @x = 'v'"):
            session.query(sql)
        session.set(variables)
        found, before = [], self._now()
        ends = [before[0]]
        for number, sql in enumerate(steps, 1):
            session.query(f"SET timestamp = {number}")
            errno, warnings = session.execute(sql.partition(" /* error")[0])
            now = self._now()
            found.append({
                "errno": errno,
                "warnings": sorted((code, text) for _, code, text in warnings if code in WARNINGS and code != errno),
                "used": (now[1] > before[1], now[2] > before[2]),
                "changed": {ENGINES[name] == "InnoDB" for name in now[3] if now[3][name] != before[3][name]},
            })  # fmt: skip
            ends.append(now[0])
            before = now
        session.close()
        self._read(log, ends, found)
        return found

    def _now(self) -> tuple[int, int, int, dict[str, Any]]:
        """Return the size of the log, the uses of both caches, and sums of the tables."""
        uses = [
            int(self._other.query(f"SHOW GLOBAL STATUS LIKE '{name}'")[0][1])
            for name in ("Binlog_cache_use", "Binlog_stmt_cache_use")
        ]
        sums = {name: sums for name, *sums in self._other.query(SUMS)}
        return self._other.query("SHOW BINARY LOG STATUS")[0][1], uses[0], uses[1], sums

    @staticmethod
    def _read(log: Any, ends: list[int], found: list[dict[str, Any]]) -> None:
        """Add the letters of each step as `explain` has them, without what never came into the log."""
        for one in found:
            one |= {"letters": [], "group_end": ""}
        with binlogio.open(log) as reader:
            groups = [(group, list(group)) for group in reader.groups()]
        of_steps: list[list[list[Any]]] = [[] for _ in found]
        for group, events in groups:
            if group.end is not None and ends[0] < group.end <= ends[-1]:
                of_steps[next(at for at, end in enumerate(ends[1:]) if group.end <= end)].append(events)
        for step, together in enumerate(of_steps):
            for place, events in enumerate(together):
                end = found[step]["group_end"] = _end_of(events[-1])
                for number, letter in {own for event in events if (own := _statement(event)) is not None}:
                    transaction, statement = found[step]["used"]
                    is_first = statement and len(together) > 1 and place == 0
                    if end == "DIRECT":
                        rest = "DD"
                    elif number == step + 1 and (not transaction or is_first):
                        rest = "SD"
                    else:
                        rest = "TR" if end == "ROLLBACK" else "TC"
                    found[number - 1]["letters"].append(letter + rest)


def _end_of(event: Any) -> str:
    if isinstance(event, QueryEvent) and event.sql in (b"COMMIT", b"ROLLBACK"):
        return event.sql.decode()
    return "XID" if isinstance(event, XidEvent) else "DIRECT"


def _statement(event: Any) -> tuple[int, str] | None:
    """Return the number of the statement of an event, and the letter of its format."""
    if isinstance(event, QueryEvent) and event.sql.split()[0] in (b"BEGIN", b"COMMIT", b"ROLLBACK", b"SAVEPOINT"):
        return None
    is_row = isinstance(event, RowsEvent)
    return (event.header.timestamp, "R" if is_row else "S") if is_row or isinstance(event, QueryEvent) else None


def shown(one: ExplainedStatement) -> dict[str, Any]:
    """Return what an Observer finds."""
    return {
        "errno": one.refusal.errno if one.refusal is not None else one.error or None,
        "warnings": sorted((warning.errno, warning.message) for warning in one.warnings),
        "letters": sorted(part.letters for part in one.parts if part.flush.value != "I"),
        "group_end": one.group_end,
    }


def is_comparable(sql: str, one: ExplainedStatement, found: dict[str, Any]) -> bool:
    """Return whether a statement has changed a row of each kind of table, and was not ended by an engine."""
    if found["errno"] not in (None, *REFUSALS, one.error):
        return False
    if sql.startswith("CREATE TABLE") and one.parts[:1] and one.parts[0].format is LoggingFormat.ROW:
        return False  # also a text, which is not explained
    kinds = {part.cache.value == "TRANSACTION" for part in one.parts if part.format is LoggingFormat.ROW}
    return found["errno"] is not None or "c1" in sql or "c2" in sql or kinds <= found["changed"]


@pytest.mark.parametrize("gtid_mode", ["OFF", "ON"], ids="mysql_{}".format)
def test_random_sequences_are_explained_as_the_server_logs_them(
    gtid_mode: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A difference names the seed and has the sequence."""
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    options = (f"--gtid-mode={gtid_mode}", f"--enforce-gtid-consistency={gtid_mode}", "--sync-binlog=0")
    with vendor("mysql").server("explain", *options, "--log-bin-trust-function-creators=ON") as instance:
        observer = Observer(instance)
        for seed in (f"{seed}.{number}" for seed in seeds("1-3") for number in range(SEQUENCES)):
            random = Random(f"{seed} {gtid_mode}")
            variables = ServerVariables(
                binlog_format=random.choice(("ROW", "MIXED", "STATEMENT")),
                gtid_mode=gtid_mode,
                enforce_gtid_consistency=gtid_mode,
                binlog_direct_non_transactional_updates=random.random() < 0.2,
                transaction_isolation=random.choice((*["REPEATABLE-READ"] * 4, "READ-COMMITTED", "SERIALIZABLE")),
            )
            steps = sequence_of(random)
            found = observer.run(steps, variables)
            try:
                ours = explain(steps, variables, tables=TABLES, objects=KnownObjects(routines=ROUTINES), schema="w")
            except UnsupportedFeature:
                counts["refused"] += 1
                continue
            if not all(map(is_comparable, steps, ours, found)):
                counts["left out"] += 1
                continue
            counts.update(sequences=1, statements=len(steps))
            theirs = [{name: one[name] for name in shown(ours[0])} for one in found]
            for one in theirs:
                one["letters"].sort()
            for sql, server, expected in zip(steps, theirs, map(shown, ours), strict=True):
                if server != expected:
                    wrong.append(f"seed {seed} {variables.binlog_format} {steps}: {sql}: {server} is {expected}")
    with capsys.disabled():
        print(f"\nexplain, gtid_mode={gtid_mode}: {dict(counts)}, {len(wrong)} different", *wrong, sep="\n")  # noqa: T201

    assert wrong == []
    assert counts["left out"] + counts["refused"] < counts["sequences"] / 4
