"""`fixtures/statement_logs.json` against a running 9.7 server; and DDL, however it is spelt, against both vendors."""

from __future__ import annotations

import json
from typing import Final

import pymysql
import pytest

import binlogio
from binlogio.constants import HeaderFlag, QueryStatus
from binlogio.events.query import Invoker, QueryEvent
from binlogio.writer.query_events import QueryContext
from binlogio.writer.server_format import server_format_of
from binlogio.writer.session.ddl import ddl_event, read_ddl
from corpus import FIXTURES
from real_servers import vendor
from record_statement_logs import (
    STATEMENTS,
    STATEMENTS_WITH_MORE,
    record_all,
)
from regenerate import PLAIN_LOG

pytestmark = [pytest.mark.server, pytest.mark.slow]
CASES: Final = json.loads((FIXTURES / "statement_logs.json").read_text("utf-8"))["cases"]


def test_a_server_logs_each_statement_as_it_was_recorded() -> None:
    """Every case, in every format."""
    options = [f"--{name.replace('_', '-')}={value}" for name, value in PLAIN_LOG.items()]

    with vendor("mysql").server("sl", *options) as instance:
        found = json.loads(json.dumps(record_all(str(instance.socket), instance.data)))

    assert [case["sql"] for case in CASES] == [*STATEMENTS, *STATEMENTS_WITH_MORE]
    assert [case for case, recorded in zip(found, CASES, strict=True) if case != recorded] == []


DDL: Final = """-- why
CREATE DATABASE d | CREATE/**/DATABASE/**/IF NOT EXISTS `e` | ALTER DATABASE CHARACTER SET latin1
| /*!50001 CREATE TABLE */ d.t (a INT PRIMARY KEY)
| CREATE /* why */ TABLE t (a INT, engine INT) COMMENT 'ENGINE=MyISAM'
| create table `s` (engine INT) ENGINE `MyISAM` | CREATE TABLE u ( LIKE d.t) | RENAME TABLES u TO d.u3
| ALTER # why
TABLE t ADD b INT, RENAME TO d.u2 | RENAME/**/TABLE d.u2 TO t | CREATE UNIQUE/**/INDEX i ON d.t (a)
| TRUNCATE/**/TABLE t
| CREATE SQL SECURITY DEFINER VIEW v AS SELECT 1 | CREATE DEFINER = root@localhost VIEW v2 AS SELECT 1
| CREATE /* why */ FUNCTION f() RETURNS INT DETERMINISTIC RETURN 1 | ALTER/**/FUNCTION f COMMENT 'x'
| CREATE DEFINER = CURRENT_USER() PROCEDURE p3() SELECT 1 | CREATE DEFINER = root@localhost PROCEDURE p4() SELECT 1
| CREATE TRIGGER tr BEFORE INSERT ON t FOR EACH ROW SET @x = 1 | CREATE EVENT ev ON SCHEDULE EVERY 1 DAY DO SELECT 1
| CREATE DEFINER = root@localhost TRIGGER tr2 BEFORE INSERT ON t FOR EACH ROW SET @x = 1
| ALTER EVENT ev RENAME TO d.ev2
| /* a */ CREATE /* b */ USER u1 | GRANT/**/SELECT (a), INSERT (a) ON TABLE d.t TO u1 | REVOKE ALL ON * . * FROM u1
| GRANT SELECT ON `d`.* TO u1 | GRANT SELECT ON t TO u1 | GRANT SELECT ON * TO u1
| GRANT PROXY ON root@localhost TO u1 | GRANT ALL ON `d\\_%`.* TO u1 | CREATE ROLE r1 | DROP ROLE r1
| /**/ANALYZE TABLE t | OPTIMIZE/**/TABLE t | ANALYZE LOCAL TABLE t | FLUSH TABLES t WITH READ LOCK | FLUSH/**/TABLES
| FLUSH BINARY LOGS | FLUSH TABLES t FOR EXPORT | CREATE SERVER sv FOREIGN DATA WRAPPER mysql OPTIONS (HOST '::1')
| DROP SERVER sv | DROP FUNCTION f | DROP VIEW v | DROP USER u1 | DROP DATABASE e"""
OF_MARIADB: Final = """CREATE OR REPLACE DATABASE e | CREATE OR REPLACE TABLE t9 (a INT) | CREATE/**/SEQUENCE sq
| SET STATEMENT max_statement_time = 1 FOR CREATE TABLE d.t10 (a INT)
| SET STATEMENT max_statement_time = 1 FOR CREATE DATABASE e3"""
COMPARED: Final = (
    *(QueryStatus.INVOKER, QueryStatus.UPDATED_DB_NAMES, QueryStatus.DDL_LOGGED_WITH_XID, QueryStatus.MARIADB_XID),
    *(QueryStatus.SQL_REQUIRE_PRIMARY_KEY, QueryStatus.DEFAULT_TABLE_ENCRYPTION),
)


def shown(event: QueryEvent) -> tuple[object, ...]:
    """Return what the text of a statement decides; of a transaction id, that there is one."""
    ids = (QueryStatus.DDL_LOGGED_WITH_XID, QueryStatus.MARIADB_XID)
    found = {code: code in ids or event.status(code) for code in COMPARED if event.status(code) is not None}
    return event.schema, bool(event.header.flags & HeaderFlag.SUPPRESS_USE), found


@pytest.mark.parametrize("kind", ["mysql", "mariadb118"])
def test_ddl_is_logged_as_by_a_server(kind: str) -> None:
    """Whatever is between its words. The timestamp of an event is the number of its statement."""
    server = vendor(kind)
    statements = [one.strip() for one in (f"{DDL} | {OF_MARIADB}" if server.is_mariadb else DDL).split(" | ")]
    statements = [part.strip() for one in statements for part in one.split("\n| ")]
    options = ("--log-bin=binlog", "--server-id=1") if server.is_mariadb else ()
    with server.server("ddl", *options) as instance:
        with pymysql.connect(unix_socket=str(instance.socket), user="root", autocommit=True) as client:
            cursor = client.cursor()
            cursor.execute("CREATE DATABASE s")
            cursor.execute("USE s")
            for number, sql in enumerate(statements, 1_000_000):
                cursor.execute(f"SET timestamp = {number}")
                cursor.execute(sql)
                if sql.startswith("FLUSH TABLES t "):
                    cursor.execute("UNLOCK TABLES")
        with binlogio.open(sorted(instance.data.glob("binlog.0*[0-9]"))) as reader:
            real = {one.header.timestamp: one for one in reader if isinstance(one, QueryEvent) and one.sql != b"BEGIN"}

    for number, sql in enumerate(statements, 1_000_000):
        text = sql.encode()
        logged = read_ddl(text, 0, is_mariadb=server.is_mariadb).is_logged
        context = QueryContext(
            thread_id=1, schema="s", timestamp=0, server_id=1, server_format=server_format_of(server.version)
        )

        assert (sql, number in real) == (sql, logged)
        if logged:
            ours = ddl_event(context, text, 1, invoker=Invoker("root", "localhost"))
            assert (sql, shown(ours)) == (sql, shown(real[number]))
