"""`decide_logging_format` and `facts_from_sql` against a 9.7 server: random statements, functions and variables."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from binlogio.errors import LoggingError
from binlogio.options import ServerVariables
from binlogio.writer.rules.known_objects import KnownObjects
from binlogio.writer.rules.logging_format import (
    CacheKind,
    LoggingDecision,
    LoggingFormat,
    SessionState,
    StatementFacts,
    decide_logging_format,
)
from binlogio.writer.rules.statement_text import facts_from_sql
from binlogio.writer.rules.statement_words import LOGGED_VARIABLES, UNSAFE_FUNCTIONS
from binlogio.writer.session.transaction import NO_ENGINES, mix_engines
from logged_objects import ENGINES, ROUTINES, TABLES, Server, create_objects
from real_servers import vendor

pytestmark = [pytest.mark.server, pytest.mark.slow]
SEED = 20240
TRANSACTIONS = 400
STATEMENTS = 400
# The engine ends the statement: a duplicate key, a table that is changed and read, no such feature.
OF_THE_ENGINE = (1031, 1048, 1062, 1093, 1137, 1235, 1442)
VALUES = """'z' UUID() @x @@timestamp @@hostname USER() fu({i}) fl({i}) fn({i}) fa({i}) RAND() NOW()
    VERSION() ICU_VERSION()
    @@GLOBAL.time_zone LAST_INSERT_ID() AES_ENCRYPT('a','b')
    @@sql_mode TRIM('a'FROM(USER())) EXTRACT(DAY{s}FROM{s}SYSDATE())
    @@insert_id @@default_collation_for_utf8mb4""".split()
TEXTS = """INSERT INTO {a} VALUES ({i},LEFT({v},9))|INSERT IGNORE INTO {a} VALUES (100,LEFT({v},9))
|REPLACE INTO {a} VALUES (100,LEFT({v},9))
|INSERT INTO {a} (b) VALUES (LEFT({v},9))|INSERT INTO {a} SELECT a+{i},b FROM {b} WHERE a=100
|INSERT IGNORE INTO {a} SELECT a,b FROM {b}
|REPLACE INTO {a} SELECT a,b FROM {b} WHERE a=100
|INSERT INTO {a} SELECT a,b FROM {b} WHERE a=100 ON DUPLICATE KEY UPDATE b='w{i}'
|INSERT INTO {a} VALUES (100,'q{i}') ON DUPLICATE KEY UPDATE b=LEFT({v},9)
|INSERT INTO {a} SELECT a+{i},b FROM {b} WHERE a=100 FOR UPDATE
|INSERT INTO {a} SELECT a+{i},b FROM {b} WHERE a=100 FOR UPDATE SKIP LOCKED
|INSERT INTO {a} SELECT a+{i},b FROM {b} FOR SHARE NOWAIT
|INSERT INTO {a} SELECT a+{i},b FROM (SELECT * FROM {b} LIMIT 1) d
|INSERT INTO {a} WITH d AS (SELECT * FROM {b}) SELECT a+{i},b FROM d
|INSERT INTO {a} (a,b) TABLE {b} LIMIT 0|INSERT INTO {a} (a,b) SELECT {i},LEFT({v},9)
|UPDATE {a} SET b=LEFT({v},9) WHERE a=100
|UPDATE IGNORE {a} SET b='i{i}' WHERE a=100|UPDATE {a} SET b='u{i}' WHERE a=100 ORDER BY a LIMIT 1
|UPDATE {a} SET b='z' LIMIT 0
|UPDATE {a} x, {b} y SET x.b='m{i}' WHERE x.a=100 AND y.a=101
|UPDATE {a} x STRAIGHT_JOIN {b} y ON x.a=y.a SET y.b='m{i}' WHERE y.a=100
|UPDATE {a} x, {b} y SET x.b='m{i}', y.b='n{i}' WHERE x.a=100 AND y.a=101|DELETE FROM {a} WHERE a={i}
|DELETE FROM {a} WHERE a={i} LIMIT 1
|DELETE x FROM {a} x JOIN {b} y ON x.a=y.a WHERE x.a={i}|DELETE FROM x USING {a} x JOIN {b} y ON x.a=y.a WHERE x.a={i}
|DELETE x, y FROM {a} x JOIN {b} y ON x.a=y.a WHERE x.a={i}|DELETE QUICK IGNORE FROM {a} WHERE a={i}
|DELETE FROM {a} LIMIT 0
|INSERT INTO {a} (a,b) SELECT {i},'i' FROM information_schema.tables LIMIT 1
|INSERT INTO {a} (a,b) SELECT {i},'u' FROM mysql.user WHERE user='root'
|INSERT INTO {a} (a,b) SELECT {i},'p' FROM information_schema.processlist LIMIT 0
|INSERT INTO {a} (a,b) SELECT {i},'p' FROM performance_schema.threads WHERE thread_id=1""".replace("\n", "").split("|")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """Provide a server with tables of all kinds and functions that write, read and are unsafe."""
    with vendor("mysql").server("lf", "--log-bin-trust-function-creators=ON") as instance:
        session = Server(str(instance.socket))
        create_objects(session)
        yield session


def statement(random: Random, number: int) -> str:
    """One of the texts, with tables and values."""
    text = random.choice(TEXTS)
    value = random.choice(VALUES).format(i=number, s=" ")
    return text.format(a=random.choice(list(ENGINES)), b=random.choice(list(ENGINES)), i=number, v=value)


def decide(
    variables: ServerVariables, sql: str, state: SessionState
) -> tuple[LoggingDecision | LoggingError, StatementFacts]:
    """Our decision or refusal, and what it was made from."""
    facts = facts_from_sql(sql, "w", TABLES, objects=KnownObjects(routines=ROUTINES))
    try:
        return decide_logging_format(variables, facts, state), facts
    except LoggingError as exc:
        return exc, facts


def numbers(warnings: list[tuple[str, int, str]], wanted: tuple[int, ...]) -> list[str]:
    """Return the texts of those warnings."""
    return sorted(text for _, number, text in warnings if number in wanted)


def test_random_statements_have_the_servers_warnings_and_refusals(server: Server) -> None:
    """In STATEMENT format, alone and in transactions, at all isolation levels, direct or not."""
    random, count = Random(SEED), 0
    for _ in range(TRANSACTIONS):
        variables = ServerVariables(
            binlog_format="STATEMENT",
            binlog_direct_non_transactional_updates=random.random() < 0.3,
            transaction_isolation=random.choice([*["REPEATABLE-READ"] * 4, "READ-COMMITTED", "SERIALIZABLE"]),
        )
        in_transaction, is_empty = random.random() < 0.6, True
        server.set(variables)
        if in_transaction:
            server.query("BEGIN")
        for _ in range(3 if in_transaction else 1):
            count += 1
            sql = statement(random, 1000 + count)
            state = SessionState(in_transaction=in_transaction, transaction_cache_is_empty=is_empty)
            decision, _ = decide(variables, sql, state)
            errno, warnings = server.execute(sql)
            if errno in OF_THE_ENGINE:
                break
            refused = decision.errno if isinstance(decision, LoggingError) else None
            assert (sql, variables, state, refused) == (sql, variables, state, errno)
            if isinstance(decision, LoggingDecision):
                is_text = decision.format is LoggingFormat.STATEMENT
                notes = sorted(warning.message for warning in decision.warnings_when_cached) if is_text else []
                assert (sql, variables, state, notes) == (sql, variables, state, numbers(warnings, (1592,)))
                is_empty = is_empty and decision.statement_cache is not CacheKind.TRANSACTION
        server.query("COMMIT")


def test_random_statements_have_the_servers_format(server: Server) -> None:
    """Statements of their own in all formats: the log has a text, rows or nothing.

    And the warnings that come at once.
    """
    random = Random(SEED)
    for count in range(STATEMENTS):
        variables = ServerVariables(
            binlog_format=random.choice(["MIXED", "MIXED", "ROW", "STATEMENT"]),
            transaction_isolation=random.choice(["REPEATABLE-READ", "READ-COMMITTED"]),
        )
        server.set(variables)
        sql = statement(random, 100_000 + count)
        decision, facts = decide(variables, sql, SessionState())
        _, combined = mix_engines(NO_ENGINES, variables, facts)
        for forget in ("BEGIN", "SELECT * FROM t2", "COMMIT"):  # see EngineMix
            server.query(forget)
        file, position, *_ = server.query("SHOW BINARY LOG STATUS")[0]
        errno, warnings = server.execute(sql)
        events = [(event[2], event[5]) for event in server.query(f"SHOW BINLOG EVENTS IN '{file}' FROM {position}")]
        if errno in OF_THE_ENGINE:
            continue
        assert (sql, numbers(warnings, (6414,))) == (sql, [] if combined is None else [combined.message])
        if isinstance(decision, LoggingError):
            assert (sql, decision.errno) == (sql, errno)
            continue
        has_text = any(kind == "Query" and sql in text for kind, text in events)
        has_rows = any(kind.endswith("_rows") for kind, _ in events)
        assert (sql, errno, has_text) == (sql, None, decision.format is LoggingFormat.STATEMENT)
        assert not has_rows or decision.format is LoggingFormat.ROW
        assert numbers(warnings, (1870,)) == sorted(warning.message for warning in decision.warnings)


def test_session_variables_that_are_safe_are_those_of_the_list(server: Server) -> None:
    """Every variable of the server is put into a statement."""
    server.set(ServerVariables(binlog_format="STATEMENT"))
    names = [name for name, _ in server.query("SHOW SESSION VARIABLES")]

    safe = {
        name
        for name in names
        if not numbers(server.execute(f"UPDATE t1 SET b = LEFT(@@{name}, 5) WHERE a = 100")[1], (1592,))
    }

    assert safe == LOGGED_VARIABLES


def test_functions_of_the_list_are_unsafe(server: Server) -> None:
    """Each with the arguments that it takes."""
    server.set(ServerVariables(binlog_format="STATEMENT"))
    arguments = ("", "'a'", "0", "1", "'a', 0", "'', 0", "'a', 'b'", "'a', 1, 1")

    def is_unsafe(name: str) -> bool:
        answers = [server.execute(f"UPDATE t1 SET b = HEX({name}({given})) WHERE a = 100") for given in arguments]
        return any(errno is None and bool(numbers(warnings, (1592,))) for errno, warnings in answers)

    assert {name for name in UNSAFE_FUNCTIONS if is_unsafe(name)} == UNSAFE_FUNCTIONS
