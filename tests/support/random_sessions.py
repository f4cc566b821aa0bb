"""Random transactions of several sessions of a real server: rows, DDL, and the settings that statements depend on.

The tables have what makes a log hard to apply or to reverse: foreign keys, triggers, partitions, generated columns,
tables without key and without transactions. Statements are deterministic, so that they may be logged as text.
"""

from __future__ import annotations

import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any, Final

import pymysql

from target_servers import connect, reset, tables

if TYPE_CHECKING:
    from pathlib import Path
    from random import Random

    from real_servers import Instance

SESSIONS: Final = 4
KEYS: Final = {
    "w.customers": 1, "w.orders": 1, "w.items": 1, "w.parts": 2, "w.uniq": 1, "w.gen": 1, "w.doc": 1, "w.bare": 0,
    "w.audit": 0, **{f"w.own{number}": 1 for number in range(SESSIONS)},
}  # fmt: skip
"""The number of leading columns that are the key of a table."""
CREATES: Final = (
    "CREATE DATABASE w CHARACTER SET utf8mb4",
    "USE w",
    (
        "CREATE TABLE customers (id INT PRIMARY KEY AUTO_INCREMENT, name VARCHAR(60), latin VARCHAR(30) CHARACTER SET "
        "latin1, balance DECIMAL(8,2), at TIMESTAMP(6) NULL, made DATETIME DEFAULT CURRENT_TIMESTAMP)"
    ),
    (
        "CREATE TABLE orders (id INT PRIMARY KEY AUTO_INCREMENT, customer INT, total DOUBLE, note TEXT, CONSTRAINT o "
        "FOREIGN KEY (customer) REFERENCES customers (id) ON DELETE CASCADE ON UPDATE CASCADE)"
    ),
    (
        "CREATE TABLE items (id INT PRIMARY KEY, `order` INT, qty SMALLINT UNSIGNED, CONSTRAINT i "
        "FOREIGN KEY (`order`) REFERENCES orders (id) ON DELETE SET NULL)"
    ),
    (
        "CREATE TABLE parts (id INT, y DATE, v VARBINARY(60), PRIMARY KEY (id, y)) PARTITION BY RANGE (YEAR(y)) "
        "(PARTITION a VALUES LESS THAN (2024), PARTITION b VALUES LESS THAN (2026), "
        "PARTITION c VALUES LESS THAN MAXVALUE)"
    ),
    "CREATE TABLE bare (a INT, f FLOAT, s VARCHAR(60), b BIT(9), e ENUM('x','y'), m SET('p','q'))",
    "CREATE TABLE uniq (k INT NOT NULL, s VARCHAR(60), t TIME(2), UNIQUE KEY (k))",
    "CREATE TABLE gen (id INT PRIMARY KEY, a INT, st INT AS (a * 2) STORED, v INT AS (a + 1) VIRTUAL, KEY (v))",
    "CREATE TABLE doc (id INT PRIMARY KEY, j JSON)",
    "CREATE TABLE old (a INT, s VARCHAR(60)) ENGINE=MyISAM",
    "CREATE TABLE audit (what VARCHAR(80), at DATETIME)",
    "CREATE TRIGGER placed AFTER INSERT ON orders FOR EACH ROW INSERT INTO audit VALUES (NEW.id, NOW())",
    "CREATE TRIGGER gone BEFORE DELETE ON customers FOR EACH ROW INSERT INTO audit VALUES (OLD.name, NOW())",
    *(
        f"CREATE TABLE own{number} (id INT PRIMARY KEY AUTO_INCREMENT, what VARCHAR(80), n DOUBLE, at TIMESTAMP(6))"
        for number in range(SESSIONS)
    ),
)
ACTIONS: Final = re.compile(r" ON (DELETE|UPDATE) (CASCADE|SET NULL)")
OWN: Final = (  # of a session
    "INSERT INTO own{s} (what, n, at) VALUES ({x}, RAND(), NOW(6))",
    "INSERT INTO own{s} (what, n) VALUES ({x}, RAND({n})), ({x}, LAST_INSERT_ID())",
    "UPDATE own{s} SET what = {x}, at = FROM_UNIXTIME(86400 * {k}) WHERE id = {k}",
    "UPDATE own{s} SET n = n / {k} ORDER BY id DESC LIMIT 2",
    "DELETE FROM own{s} WHERE id = {k}",
)
CHANGES: Final = (
    "INSERT INTO customers (id, name, latin, balance) VALUES ({k}, {x}, {x}, {n})",
    "INSERT INTO customers (name, balance, at) VALUES ({x}, {n} / 4, NOW(6)), ({x}, NULL, NULL)",
    "REPLACE INTO uniq VALUES ({k}, {x}, NULL)",  # no parent row, and all columns: docs/replay.md
    "INSERT INTO customers (id, name) VALUES ({k}, {x}) ON DUPLICATE KEY UPDATE name = {x}, balance = balance + 1",
    "UPDATE customers SET balance = balance + {n}, name = {x} WHERE id = {k}",
    "UPDATE customers SET id = id + 20 WHERE id = {k}",
    "UPDATE customers SET latin = CONCAT(LEFT(latin, 9), 'é'), made = NOW() WHERE id < {k}",
    "DELETE FROM customers WHERE id = {k}",
    "INSERT INTO orders (customer, total, note) VALUES ({k}, RAND(), {x})",
    "INSERT INTO orders (customer, total, note) SELECT id, balance / 3, name FROM customers WHERE id = {k}",
    "UPDATE orders JOIN customers ON customer = customers.id SET note = {x}, balance = {n} WHERE customers.id = {k}",
    "DELETE orders FROM orders JOIN customers ON customer = customers.id WHERE customers.id = {k}",
    "DELETE FROM orders WHERE id = {k}",
    "INSERT INTO items SELECT {k} * 100 + id, id, {k} FROM orders WHERE id < {k}",
    "UPDATE items SET qty = qty - {k}, id = id + 1000 WHERE `order` = {k}",
    "DELETE FROM items WHERE id % 9 = {k}",
    "INSERT INTO parts VALUES ({k}, '202{d}-02-1{d}', {x}), ({k} + 20, CURDATE(), {x})",
    "UPDATE parts SET y = y + INTERVAL {d} YEAR WHERE id = {k}",
    "DELETE FROM parts WHERE y < '202{d}-01-01'",
    "INSERT INTO bare VALUES ({d}, {n} / 4, {x}, {k}, 'x', 'p,q'), ({d}, {n} / 4, {x}, {k}, NULL, '')",
    "INSERT INTO bare (a) VALUES ({d}), ({d})",
    "UPDATE bare SET f = f + 0.25, e = 'y' WHERE a = {d}",
    "UPDATE bare SET a = a + 1",
    "DELETE FROM bare WHERE a > 2 + {d}",
    "INSERT INTO uniq VALUES ({k}, {x}, CURTIME(2))",
    "UPDATE uniq SET k = k + {d} ORDER BY k DESC",
    "UPDATE uniq SET s = {x} WHERE k < {k}",
    "DELETE FROM uniq WHERE k = {k}",
    "INSERT INTO gen (id, a) VALUES ({k}, {n}), ({k} + 20, NULL)",
    "UPDATE gen SET a = a + {n}",
    "DELETE FROM gen WHERE id = {k}",
    """INSERT INTO doc VALUES ({k}, '{{"a": [{n}, 1.5, null], "b": "c"}}')""",
    "UPDATE doc SET j = JSON_SET(j, '$.a[0]', {n}) WHERE id < {k}",
    "DELETE FROM doc WHERE id = {k}",
    *OWN,
)  # fmt: skip
EXPRESSIONS: Final = (
    "'é {n}'", "'表'", "NULL", "''", "'a' 'b'", "'back\\\\slash'",
    "'a' || 'b'", '"{n}"', "CONCAT(CURTIME(), ' ', CURDATE())",
    "UNIX_TIMESTAMP()", "UNIX_TIMESTAMP('2026-01-0{d} 12:00:00')", "FROM_UNIXTIME({n} * 1000000)", "UTC_TIMESTAMP()",
    "DATE_FORMAT('2026-0{d}-01', '%M %W %b %a')", "MONTHNAME('2026-0{d}-01')", "@v", "CONCAT(@v, @v)", "@v := {n}",
    "COLLATION('x')", "CHARSET('x')", "HEX('é')", "'a' = 'A'", "'ss' = 'ß'", "IF(@v = 'É', 'same', 'other')",
    "CAST(1 AS UNSIGNED) - 2", "NOT 1 BETWEEN -5 AND 5", "CONNECTION_ID() - CONNECTION_ID()", "DATABASE()",
    "@@session.time_zone", "@@session.sql_mode", "@@session.auto_increment_increment", "@@session.collation_connection",
    "CAST(1.5555 AS TIME(2))", "CAST('12:00:00.999' AS TIME)", "CONVERT('é' USING latin1)", "_latin1 X'E9'", "RAND()",
    "FORMAT(1234.5, 2, 'de_DE')", "WEEKDAY(NOW())", "INSERT('quadratic', 3, 4, {k})", "CAST('2026-02-30' AS DATE)",
    "LAST_INSERT_ID()", "REPEAT('long', 30)", "CAST(NOW(6) AS CHAR)", "N'national'", "CONCAT(_utf8mb4'é', {n})",
)  # fmt: skip
MODES: Final = (
    "", "STRICT_ALL_TABLES", "ANSI_QUOTES", "PIPES_AS_CONCAT", "NO_BACKSLASH_ESCAPES", "NO_UNSIGNED_SUBTRACTION",
    "HIGH_NOT_PRECEDENCE", "ALLOW_INVALID_DATES", "NO_AUTO_VALUE_ON_ZERO", "PAD_CHAR_TO_FULL_LENGTH", "NO_ZERO_DATE",
    "NO_ZERO_IN_DATE,STRICT_TRANS_TABLES", "ERROR_FOR_DIVISION_BY_ZERO", "REAL_AS_FLOAT", "IGNORE_SPACE",
)  # fmt: skip
SETTINGS: Final = (
    *(f"sql_mode = '{mode}'" for mode in MODES),
    "time_zone = '+05:30'", "time_zone = '-03:00'", "time_zone = 'SYSTEM'", "lc_time_names = 'de_DE'",
    "lc_time_names = 'ja_JP'", "auto_increment_increment = {d}, auto_increment_offset = {d}",
    "auto_increment_increment = 7, auto_increment_offset = 3", "foreign_key_checks = 0", "foreign_key_checks = 1",
    "unique_checks = 0", "timestamp = 1700000000.{n}", "timestamp = DEFAULT", "insert_id = {n}", "insert_id = {n} + 50",
    "last_insert_id = {n}", "rand_seed1 = {n}, rand_seed2 = {k}", "sql_auto_is_null = 1", "@v = 'é'", "@v = {n} / 3",
    "@v = X'00FF'", "@v = _latin1 X'E9' COLLATE latin1_german2_ci", "@v = NULL", "@v = -{n}", "@v = 0e0 + {n} / 7",
    "collation_connection = utf8mb4_bin", "collation_connection = latin1_german1_ci", "collation_server = latin2_bin",
    "collation_server = utf8mb4_unicode_ci", "explicit_defaults_for_timestamp = 0", "check_constraint_checks = 0",
    "explicit_defaults_for_timestamp = 1", "default_collation_for_utf8mb4 = utf8mb4_general_ci",
    "character_set_collations = 'utf8mb4=utf8mb4_unicode_ci'", "sql_require_primary_key = 1",
    "sql_generate_invisible_primary_key = 1", "collation_database = latin1_bin", "binlog_row_image = 'MINIMAL'",
    "character_set_client = latin1", "character_set_results = latin1", "binlog_rows_query_log_events = 1",
    "binlog_annotate_row_events = 0", "session_track_gtids = 'OWN_GTID'",
    "system_versioning_alter_history = KEEP", "sql_if_exists = 1", "default_week_format = 0",
)  # fmt: skip
CHARSETS: Final = ("utf8mb4", "latin1", "gbk", "sjis", "utf8mb3", "big5")
DDL: Final = (
    "CREATE TABLE t{i} (id INT PRIMARY KEY, s VARCHAR(60), at TIMESTAMP, r REAL)",
    "CREATE TABLE t{i} (id INT, s VARCHAR(60) CHARACTER SET utf8mb4 DEFAULT {x}, at TIMESTAMP NULL)",
    "CREATE TABLE t{i} LIKE customers",
    "CREATE TABLE t{i} (PRIMARY KEY (id)) SELECT id, name, {x} AS what FROM customers",
    "INSERT INTO t{i} VALUES ({n}, {x}, NULL, 1.1)",
    "INSERT INTO t{i} (id, s) VALUES ({n}, {x})",
    "ALTER TABLE t{i} ADD COLUMN more{k} VARCHAR(20) DEFAULT 'é', ALGORITHM=COPY",
    "ALTER TABLE t{i} CONVERT TO CHARACTER SET utf8mb4",
    "RENAME TABLE t{i} TO t{i}{i}",
    "DROP TABLE IF EXISTS t{i}, t{i}{i}",
    "TRUNCATE TABLE old",
    "ALTER TABLE parts TRUNCATE PARTITION a",
    "CREATE DATABASE w{i}",
    "CREATE TABLE w{i}.t (s VARCHAR(20), at TIMESTAMP)",
    "INSERT INTO w{i}.t (s) VALUES ({x})",
    "DROP DATABASE w{i}",
    "CREATE OR REPLACE VIEW v{i} AS SELECT {x} AS x, name || 'b' AS y FROM customers",
    (
        "CREATE PROCEDURE p{i}(a INT, s VARCHAR(60)) BEGIN DECLARE l DATETIME DEFAULT NOW(); "
        "UPDATE customers SET name = s, "
        "made = l WHERE id = a; INSERT INTO own0 (what) VALUES (CONCAT(s, 'x' || 'y', @v)); END"
    ),
    "CALL p{i}({k}, {x})",
    "CALL p{i}({k}, 'é')",
    "DROP PROCEDURE p{i}",
    "CREATE TRIGGER r{i} BEFORE UPDATE ON own1 FOR EACH ROW SET NEW.what = CONCAT(NEW.what, 'x' || 'y', {x})",
    "DROP TRIGGER r{i}",
    "CREATE TEMPORARY TABLE tmp{i} (id INT, s VARCHAR(60))",
    "INSERT INTO tmp{i} VALUES ({n}, {x}), (0, @v)",
    "INSERT INTO old SELECT * FROM tmp{i} ORDER BY id",
    "DROP TEMPORARY TABLE tmp{i}",
    "INSERT INTO old VALUES ({n}, {x})",
    "DELETE FROM old WHERE a = {n}",
    "PREPARE q FROM 'INSERT INTO own2 (what, n) VALUES (?, ?)'",
    "EXECUTE q USING @v, @v",
    "FLUSH BINARY LOGS",
)
SHAPE: Final = (
    (
        "SELECT table_schema, table_name, column_name, column_type, is_nullable, column_default, collation_name, extra "
        "FROM information_schema.columns WHERE table_schema LIKE 'w%' AND table_name NOT LIKE 'v_' "
        "ORDER BY 1, 2, ordinal_position"
    ),
    (
        "SELECT trigger_name, action_statement, sql_mode, character_set_client, collation_connection FROM "
        "information_schema.triggers WHERE trigger_schema LIKE 'w%' ORDER BY 1"
    ),
    (
        "SELECT routine_name, routine_definition, sql_mode, character_set_client, collation_connection FROM "
        "information_schema.routines WHERE routine_schema LIKE 'w%' ORDER BY 1"
    ),
    "SELECT table_name, view_definition FROM information_schema.views WHERE table_schema LIKE 'w%' ORDER BY 1",
)


def state(server: Instance) -> dict[str, Any]:
    """Return the rows of all tables, the columns, and triggers, routines and views with their settings."""
    found = tables(server)
    with closing(connect(server)) as connection, connection.cursor() as cursor:
        for sql in SHAPE:
            cursor.execute(sql)
            found[re.findall(r"schema\.(\w+) ", sql)[0]] = list(cursor.fetchall())
    return found


def difference(expected: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    """Return the rows that only one of two states has, by table."""
    return {
        name: [
            [row for row in one.get(name, ()) if row not in other.get(name, ())]
            for one, other in ((expected, found), (found, expected))
        ]
        for name in expected.keys() | found.keys()
        if sorted(expected.get(name, ()), key=repr) != sorted(found.get(name, ()), key=repr)
    }


def copied_logs(server: Instance, folder: Path) -> list[str]:
    """Copy the logs of a server to a new folder."""
    server.sql("FLUSH BINARY LOGS")
    folder.mkdir()
    return [str(shutil.copy(log, folder / log.name)) for log in sorted(server.data.glob("binlog.0*[0-9]"))[:-1]]


class RandomSessions:
    """Sessions of a server, with the tables."""

    def __init__(self, server: Instance, random: Random, log_format: str = "ROW") -> None:
        self._random, self._own = random, 0
        reset(server)
        self._sessions = [connect(server) for _ in range(SESSIONS)]
        for session in self._sessions:
            session.query(f"SET SESSION binlog_format = {log_format}, innodb_lock_wait_timeout = 1")
        for sql in CREATES:
            # If statements are logged as text, MySQL 9.7 logs the rows that a foreign key changes incompletely.
            self._sessions[0].query(sql if log_format == "ROW" else ACTIONS.sub("", sql))
        for session in self._sessions[1:]:
            session.query("USE w")

    def __enter__(self) -> RandomSessions:
        """Return the sessions."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the sessions, with their temporary tables."""
        for session in self._sessions:
            session.close()

    def execute(self, sql: str) -> None:
        """Execute a statement in a random session."""
        self._execute(self._random.choice(self._sessions), sql)

    def drop_temporary_tables(self) -> None:
        """Drop what a backup does not have."""
        for session in self._sessions:
            session.query("DROP TEMPORARY TABLE IF EXISTS w.tmp1, w.tmp2, w.tmp3")

    def text(self, choices: tuple[str, ...]) -> str:
        """Return a random statement, expression or setting."""
        random = self._random
        values = {"k": random.randrange(1, 13), "n": random.randrange(1, 99), "d": random.randrange(1, 8)}
        values["i"] = random.randrange(1, 4)
        chosen = random.choice(choices)
        while "{x}" in chosen:
            chosen = chosen.replace("{x}", random.choice(EXPRESSIONS), 1)
        return chosen.format(**values, s=self._own)

    def run(self, transactions: int, *, settings: float = 0.3, ddl: float = 0.15) -> None:
        """Run transactions of random sessions, and change settings and execute DDL with these probabilities."""
        random = self._random
        for _ in range(transactions):
            if random.random() < 0.1:
                self._together()
            self._own = random.randrange(SESSIONS)
            session = self._sessions[self._own]
            if random.random() < settings:
                if random.random() < 0.15:
                    session.set_character_set(random.choice(CHARSETS))
                self._execute(session, "SET " + self.text(SETTINGS))
            if random.random() < ddl:
                self._execute(session, self.text(DDL))
            elif random.random() < 0.3:
                self._execute(session, self.text(CHANGES))
            else:
                self.transaction(session, random.choices(["COMMIT", "ROLLBACK"], [5, 1])[0])

    def transaction(self, session: Any = None, end: str = "COMMIT") -> None:
        """Run one transaction, perhaps with a savepoint, or as an XA transaction."""
        random, session = self._random, session or self._sessions[0]
        xid = f"'x{random.random()}'" if random.random() < 0.1 else ""
        self._execute(session, f"XA START {xid}" if xid else "BEGIN")
        for _ in range(random.choice([1, 2, 4, 6])):
            self._execute(session, self.text(CHANGES))
            if random.random() < 0.2:
                self._execute(session, "SAVEPOINT a")
                self._execute(session, self.text(CHANGES))
                self._execute(session, random.choice(["ROLLBACK TO a", "RELEASE SAVEPOINT a"]))
        for part in ("END", "PREPARE", end) if xid else (end,):
            self._execute(session, f"XA {part} {xid}" if xid else part)

    def _together(self) -> None:
        """Run a transaction of each session at the same time, on its own table, so that they share a commit."""
        work = []
        for number, session in enumerate(self._sessions):
            self._own = number
            work.append((session, ["BEGIN", self.text(OWN), self.text(OWN), "COMMIT"]))
        with ThreadPoolExecutor(SESSIONS) as pool:
            list(pool.map(lambda one: [self._execute(one[0], sql) for sql in one[1]], work))

    @staticmethod
    def _execute(session: Any, sql: str) -> None:
        """Execute a statement, which the server may refuse."""
        with suppress(pymysql.Error, UnicodeEncodeError):
            session.query(sql)
