"""`facts_from_sql`: what is found in the text of a statement, clause by clause; and what it refuses to guess."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlogio.errors import UnsupportedFeature
from binlogio.schema import ColumnDefinition, ForeignKeyDefinition, KeyDefinition, TableDefinition
from binlogio.writer.rules.engines import ENGINES, INNODB, MYISAM, PERFORMANCE_SCHEMA
from binlogio.writer.rules.known_objects import KnownObjects, Trigger, Uses, table_access
from binlogio.writer.rules.statement import Statement
from binlogio.writer.rules.statement_facts import StatementFacts, StatementKind, TableAccess
from binlogio.writer.rules.statement_text import facts_from_sql
from binlogio.writer.rules.statement_words import LOGGED_VARIABLES, UNSAFE_FUNCTIONS
from binlogio.writer.rules.unsafe import UnsafeReason

COLUMNS = (ColumnDefinition("a", "int", nullable=False), ColumnDefinition("b", "varchar(30)"))
TABLES = tuple(
    TableDefinition(schema, name, COLUMNS, ("a",), engine=engine)
    for schema, name, engine in (
        ("w", "t1", "InnoDB"), ("w", "t2", "InnoDB"), ("w", "n1", "MyISAM"), ("w", "n2", "MyISAM"),
        ("x", "t1", "InnoDB"), ("w", "user", "InnoDB"), ("w", "select", "InnoDB"),
    )
)  # fmt: skip
TEMPORARY = (TableDefinition("w", "tm", COLUMNS, engine="MyISAM"), TableDefinition("w", "t2", COLUMNS))


def facts(sql: str, **objects: Any) -> StatementFacts:
    """Return the facts of a text in schema w."""
    return facts_from_sql(sql, "w", TABLES, objects=KnownObjects(**objects))


def reasons(sql: str, **objects: Any) -> set[str]:
    """Return the names of the reasons."""
    return {reason.name for reason in facts(sql, **objects).unsafe}


def locks(sql: str, **objects: Any) -> list[str]:
    """Return the tables in order: `w` and `r` for written and read, `*` for temporary."""
    return [
        f"{table.schema}.{table.name}:{'w' * table.write}{'r' * table.read}{'*' * table.temporary}"
        for table in facts(sql, **objects).tables
    ]


# -------------------------------------------------------------------------------------------------------- reasons


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("DELETE FROM t1 LIMIT 1", "LIMIT"),
        ("DELETE FROM t1 ORDER BY a LIMIT 1", "LIMIT"),
        ("UPDATE t1 SET b='z' LIMIT 1", "LIMIT"),
        ("UPDATE t1 SET b='z' ORDER BY a LIMIT 1", "LIMIT"),
        ("INSERT INTO n1 SELECT a,b FROM n2 LIMIT 1", "LIMIT"),
        ("INSERT INTO t1 SELECT * FROM (SELECT * FROM t2 LIMIT 1) d", "LIMIT"),
        ("REPLACE INTO t1 SELECT a,b FROM n1", "REPLACE_SELECT"),
        ("REPLACE INTO t1 VALUES (1,'a')", ""),
        ("REPLACE LOW_PRIORITY t1 VALUES (1, UUID())", "SYSTEM_FUNCTION"),
        ("INSERT INTO t1 VALUES (1, EXTRACT(DAY FROM SYSDATE()))", "SYSTEM_FUNCTION"),
        ("INSERT INTO t1 VALUES (1, TRIM('a' FROM USER()))", "SYSTEM_FUNCTION"),
        ("REPLACE user () VALUES ()", ""),
        ("INSERT IGNORE w.user (a) VALUES (1)", ""),
        ("REPLACE INTO t1 VALUES (1, @@hostname)", "SYSTEM_VARIABLE"),
        ("INSERT INTO t1 VALUES (1, @@insert_id)", "SYSTEM_VARIABLE"),
        ("INSERT IGNORE INTO t1 SELECT a,b FROM t2", "INSERT_IGNORE_SELECT"),
        ("INSERT IGNORE INTO t1 VALUES (1,'a')", ""),
        ("INSERT LOW_PRIORITY IGNORE t1 TABLE t2", "INSERT_IGNORE_SELECT"),
        ("INSERT INTO t1 SELECT a,b FROM n1 ON DUPLICATE KEY UPDATE b='q'", "INSERT_SELECT_UPDATE"),
        (
            "INSERT IGNORE INTO t1 SELECT a,b FROM n1 ON DUPLICATE KEY UPDATE b='q'",
            "INSERT_IGNORE_SELECT INSERT_SELECT_UPDATE",
        ),
        ("UPDATE IGNORE t1 SET b='k' WHERE a=100", "UPDATE_IGNORE"),
        ("UPDATE LOW_PRIORITY IGNORE t1 SET b='k'", "UPDATE_IGNORE"),
        ("DELETE QUICK IGNORE FROM t1 WHERE a=1", ""),
        ("CREATE TABLE c (a INT PRIMARY KEY) IGNORE SELECT 1 AS a", "CREATE_IGNORE_SELECT"),
        ("CREATE TABLE c (a INT PRIMARY KEY) REPLACE AS SELECT 1 AS a", "CREATE_REPLACE_SELECT"),
        ("CREATE TABLE c (i INT AUTO_INCREMENT PRIMARY KEY) SELECT b FROM t1", "CREATE_SELECT_AUTOINC"),
        ("CREATE TABLE c AS SELECT * FROM t1", ""),
        ("INSERT INTO t1 SELECT a,b FROM t2 FOR UPDATE SKIP LOCKED", "SKIP_LOCKED"),
        ("INSERT INTO t1 SELECT a,b FROM t2 FOR UPDATE NOWAIT", "NOWAIT"),
        ("INSERT INTO t1 VALUES (33, CONCAT(USER(), SLEEP(0)))", "SYSTEM_FUNCTION"),
        ("INSERT INTO t1 VALUES (1, @@global.max_connections)", "SYSTEM_VARIABLE"),
        ("INSERT INTO t1 VALUES (1, @@hostname)", "SYSTEM_VARIABLE"),
        ("INSERT INTO t1 VALUES (1, @@SESSION.sql_mode)", "SYSTEM_VARIABLE"),
        ("INSERT INTO t1 VALUES (1, @@global.time_zone)", "SYSTEM_VARIABLE"),
        ("INSERT INTO t1 VALUES (1, my_udf(2))", "UDF"),
        ("DELETE FROM t1 WHERE b = UUID() LIMIT 2", "LIMIT SYSTEM_FUNCTION"),
        ("INSERT INTO t1 SELECT 40, JSON_OBJECT()", ""),
        ("INSERT INTO t1 VALUES (21, @x)", ""),
        ("INSERT INTO t1 VALUES (3, @z:=7)", ""),
        ("INSERT INTO t1 VALUES (1, 'UUID() LIMIT 1 @@hostname')", ""),
        ("INSERT INTO t1 VALUES (1, `uuid`) -- LIMIT 1", ""),
        ("INSERT INTO t1 VALUES (1, /* UUID() */ 'b')", ""),
        ("INSERT INTO t1 VALUES (1, /*!80000 UUID() */)", "SYSTEM_FUNCTION"),
        ("INSERT INTO user (a, b) VALUES (1, 'a')", ""),
        ("INSERT INTO t1 VALUES (1, x.uuid())", "UDF"),
        ("INSERT INTO t1 VALUES (1, nobody_knows(2))", "UDF"),
        ("INSERT INTO t1 VALUES (known(1), x.known_too(ST_X(POINT(1, 2))))", ""),
        ("INSERT INTO t1 VALUES (1, x.known(1))", "UDF"),
        ("INSERT INTO t1 (a) WITH c (z) AS (SELECT 1) SELECT z FROM c", ""),
        ("SELECT COUNT(DISTINCT a), JSON_VALUE('{}', '$.a'), GET_FORMAT(DATE, 'USA') FROM t1 USE INDEX (i)", ""),
        ("LOAD DATA INFILE 'f' INTO TABLE t1 CHARACTER SET latin1 (a, @v) SET b = known(@v)", ""),
        ("LOAD DATA INFILE 'f' INTO TABLE t1 CHARACTER SET latin1 (a, @v) SET b = unknown(@v)", "UDF"),
        ("INSERT DELAYED INTO t1 VALUES (1, 'a')", "INSERT_DELAYED"),
        ("REPLACE DELAYED INTO t1 VALUES (1, 'a')", "INSERT_DELAYED"),
        ("EXECUTE `with_limit`", "LIMIT"),
        ("LOAD DATA INFILE 'f' INTO TABLE t1 (a, @v) SET b = UUID()", "SYSTEM_FUNCTION"),
        ("LOAD DATA INFILE 'f' IGNORE INTO TABLE t1", ""),
    ],
)
def test_the_reasons_of_a_clause(sql: str, expected: str) -> None:
    routines = {"known": StatementFacts(), "x.known_too": StatementFacts()}
    prepared = {"With_Limit": "DELETE FROM t1 LIMIT 1"}

    assert reasons(sql, udfs=("MY_UDF",), routines=routines, prepared=prepared) == set(expected.split())


def test_a_function_of_a_view_is_of_the_schema_of_the_view() -> None:
    views = {"x.v": "SELECT f(a) AS a FROM t1"}

    assert reasons("INSERT INTO t1 (a) SELECT a FROM x.v", views=views, routines={"f": StatementFacts()}) == {"UDF"}
    assert reasons("INSERT INTO t1 (a) SELECT a FROM x.v", views=views, routines={"x.f": StatementFacts()}) == set()


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("EXECUTE s", "the prepared statement is not declared, found s"),
        ("EXECUTE `p` USING @a", "the prepared statement has parameters"),
        ("CHECK TABLE t1", "a server does not log statements of this kind"),
        ("LOAD INDEX INTO CACHE n1", "a server does not log statements of this kind"),
        ("PURGE BINARY LOGS TO 'b.2'", "a server does not log statements of this kind"),
    ],
)
def test_statements_that_no_log_has_are_refused(sql: str, message: str) -> None:
    with pytest.raises(UnsupportedFeature, match=message):
        facts(sql, prepared={"p": "DELETE FROM t1 WHERE a = ?"})


def test_the_text_of_execute_is_that_of_the_prepared_statement() -> None:
    objects = KnownObjects(prepared={"s": "DELETE FROM t1"})

    assert Statement.from_sql("EXECUTE s", "w", TABLES, objects=objects).sql == "DELETE FROM t1"


@pytest.mark.parametrize("function", sorted(UNSAFE_FUNCTIONS))
def test_every_function_of_the_list_is_found_in_any_case(function: str) -> None:
    assert reasons(f"UPDATE t1 SET b = {function.lower()}()") == {"SYSTEM_FUNCTION"}


@pytest.mark.parametrize(
    "call",
    """NOW() NOW(6) CURRENT_TIMESTAMP CURDATE() UTC_DATE() UNIX_TIMESTAMP() CONNECTION_ID() LAST_INSERT_ID() DATABASE()
    STATEMENT_DIGEST('select') LOWER('USER') CURRENT_DATE""".split(),
)
def test_functions_whose_values_are_in_the_log_are_safe(call: str) -> None:
    assert reasons(f"INSERT INTO t1 VALUES (1, {call})") == set()


@pytest.mark.parametrize("name", sorted(LOGGED_VARIABLES))
def test_session_values_that_are_in_the_log_are_safe(name: str) -> None:
    for scope in ("", "SESSION.", "local."):
        assert reasons(f"INSERT INTO t1 VALUES (1, @@{scope}{name})") == set()
    assert reasons(f"INSERT INTO t1 VALUES (1, @@GLOBAL.{name})") == {"SYSTEM_VARIABLE"}


def test_current_user_needs_no_parentheses() -> None:
    assert reasons("INSERT INTO t1 VALUES (1, CURRENT_USER)") == {"SYSTEM_FUNCTION"}


# --------------------------------------------------------------------------------------------------------- tables


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("INSERT INTO t1 VALUES (1,'a')", "w.t1:w"),
        ("INSERT t1 SET a=1", "w.t1:w"),
        ("REPLACE x.t1 (a) VALUES (1)", "x.t1:w"),
        ("INSERT INTO n1 SELECT * FROM t1 JOIN x.t1 z USING (a)", "w.n1:w w.t1:r x.t1:r"),
        ("INSERT INTO t1 SELECT a+1,b FROM t1", "w.t1:w w.t1:r"),
        ("INSERT INTO t1 WITH c AS (SELECT * FROM n1) SELECT * FROM c", "w.t1:w w.n1:r"),
        ("INSERT INTO t1 SELECT 1, 'a' FROM DUAL", "w.t1:w"),
        ("INSERT INTO t1 VALUES ((SELECT MAX(a) FROM n1), 'a')", "w.t1:w w.n1:r"),
        ("INSERT INTO t1 SELECT a,b FROM n1 FOR UPDATE", "w.t1:w w.n1:w"),
        ("UPDATE t1 SET b='a'", "w.t1:w"),
        ("UPDATE t1, n1 SET t1.b='a', n1.b='b' WHERE t1.a=n1.a", "w.t1:w w.n1:w"),
        ("UPDATE t1, n1 SET t1.b=n1.b", "w.t1:w w.n1:r"),
        ("UPDATE n1 STRAIGHT_JOIN t1 ON t1.a=n1.a SET n1.b='a', t1.a=1", "w.n1:w w.t1:w"),
        ("UPDATE t1 p JOIN n1 q ON p.a=q.a SET q.b='a'", "w.t1:r w.n1:w"),
        ("UPDATE t1 SET b=(SELECT MAX(b) FROM n1) WHERE a IN (SELECT a FROM n2)", "w.t1:w w.n1:r w.n2:r"),
        ("WITH c AS (SELECT a FROM n1) UPDATE t1 SET b='a' WHERE a IN (SELECT a FROM c)", "w.n1:r w.t1:w"),
        ("DELETE FROM t1 WHERE a=1", "w.t1:w"),
        ("DELETE t1, n1 FROM t1 JOIN n1 ON t1.a=n1.a", "w.t1:w w.n1:w"),
        ("DELETE p FROM t1 p JOIN n1 q ON p.a=q.a", "w.t1:w w.n1:r"),
        ("DELETE FROM q USING t1 p JOIN n1 q ON p.a=q.a", "w.t1:r w.n1:w"),
        ("INSERT INTO `select` VALUES (1, 'a')", "w.select:w"),
        ("INSERT INTO t1 SELECT 1, 'a' FROM information_schema.processlist", "w.t1:w"),
        ("INSERT INTO t1 SELECT 1, 'a' FROM information_schema.tables", "w.t1:w information_schema.tables:r"),
        ("LOAD DATA LOCAL INFILE 'f' INTO TABLE x.t1 FIELDS TERMINATED BY ','", "x.t1:w"),
        ("LOAD XML INFILE 'f' INTO TABLE n1", "w.n1:w"),
        ("INSERT INTO t1 SELECT * FROM tm", "w.t1:w w.tm:r*"),
        ("INSERT INTO tm VALUES (1, 'a')", "w.tm:w*"),
        ("INSERT INTO t2 VALUES (1, 'a')", "w.t2:w*"),
    ],
)
def test_the_tables_of_a_statement(sql: str, expected: str) -> None:
    assert locks(sql, temporary_tables=TEMPORARY) == expected.split()


def test_an_assignment_without_a_table_is_to_the_tables_that_have_the_column() -> None:
    other = TableDefinition("w", "o", (ColumnDefinition("c", "int"),))
    found = facts_from_sql("UPDATE t1, o SET c = 1, t1.b = 2", "w", (*TABLES, other))
    only = facts_from_sql("UPDATE t1, o SET c = a", "w", (*TABLES, other))

    assert [table.write for table in found.tables] == [True, True]
    assert [(table.name, table.write) for table in only.tables] == [("t1", False), ("o", True)]


def test_tables_of_the_server_need_no_definition() -> None:
    found = facts(
        "INSERT INTO t1 SELECT a, b "
        "FROM mysql.general_log, mysql.user, performance_schema.threads, information_schema.tables"
    )

    assert [(table.name, table.engine) for table in found.tables[1:]] == [
        ("general_log", ENGINES["CSV"]),
        ("user", INNODB),
        ("threads", PERFORMANCE_SCHEMA),
        ("tables", INNODB),
    ]


def test_the_access_of_a_defined_table() -> None:
    columns = (ColumnDefinition("g", "int"), ColumnDefinition("n", "int", auto_increment=True))
    last = TableDefinition("w", "m", columns, ("g", "n"), engine="MyISAM", unique_keys=(KeyDefinition(("g",)),))
    first = TableDefinition("w", "m", columns, ("g", "n"), engine="MyISAM", unique_keys=(KeyDefinition(("n",)),))
    of_innodb = TableDefinition("w", "m", columns, ("g", "n"))

    assert table_access(last, write=True) == TableAccess(
        schema="w",
        name="m",
        engine=MYISAM,
        write=True,
        auto_increment=True,
        auto_increment_not_first=True,
        unique_keys=2,
    )
    assert not table_access(first).auto_increment_not_first
    assert not table_access(of_innodb).auto_increment_not_first
    assert not table_access(TABLES[0]).auto_increment


# ------------------------------------------------------------------------------------------------ kinds and the rest


@pytest.mark.parametrize(
    ("sql", "kind"),
    [
        ("insert into t1 values (1,'a')", StatementKind.DML),
        ("(SELECT 1)", StatementKind.SELECT),
        ("WITH c AS (SELECT 1) SELECT * FROM c", StatementKind.SELECT),
        ("TABLE t1", StatementKind.SELECT),
        ("DO SLEEP(0)", StatementKind.SELECT),
        ("CALL p()", StatementKind.SELECT),
        ("SHOW TABLES", StatementKind.SELECT),
        ("LOAD DATA INFILE 'f' INTO TABLE t1", StatementKind.LOAD_DATA),
        ("CREATE TABLE c AS SELECT 1", StatementKind.CREATE_SELECT),
        ("CREATE TABLE c AS TABLE t1", StatementKind.CREATE_SELECT),
        ("CREATE TABLE c (x INT) TABLE t1", StatementKind.CREATE_SELECT),
        ("CREATE TABLE c (a INT)", StatementKind.DDL),
        ("CREATE TABLE c LIKE t1", StatementKind.DDL),
        ("CREATE TEMPORARY TABLE c (a INT)", StatementKind.CREATE_TEMPORARY),
        ("CREATE TEMPORARY TABLE c AS SELECT 1", StatementKind.CREATE_TEMPORARY_SELECT),
        ("DROP TEMPORARY TABLE tm", StatementKind.DROP_TEMPORARY),
        ("DROP TABLE t1", StatementKind.DDL),
        ("TRUNCATE t1", StatementKind.DDL),
        ("ALTER TABLE t1 ADD c INT", StatementKind.DDL),
        ("GRANT SELECT ON *.* TO u", StatementKind.DDL),
        ("SET PASSWORD = 'x'", StatementKind.DDL),
        ("SET @a = 1", StatementKind.SELECT),
        ("HANDLER t1 OPEN", StatementKind.SELECT),
        ("DEALLOCATE PREPARE s", StatementKind.SELECT),
        ("CREATE VIEW v AS SELECT 1", StatementKind.DDL),
        ("BINLOG 'AAAA'", StatementKind.ROW_INJECTION),
        ("-- a comment\nUPDATE t1 SET a = 1", StatementKind.DML),
    ],
)
def test_the_kind_of_a_statement(sql: str, kind: StatementKind) -> None:
    assert facts(sql, temporary_tables=TEMPORARY).kind is kind


def test_created_tables_are_of_the_engine_that_is_named() -> None:
    made = facts("CREATE TABLE c (i INT AUTO_INCREMENT PRIMARY KEY) ENGINE=MyISAM SELECT b FROM t1").tables
    temporary = facts("CREATE TEMPORARY TABLE x.c (a INT)").tables

    assert made == (
        TableAccess(schema="w", name="c", engine=MYISAM, write=True, auto_increment=True),
        TableAccess(schema="w", name="t1", read=True),
    )
    assert temporary == (TableAccess(schema="x", name="c", write=True, temporary=True),)


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("TRUNCATE TABLE tm", "w.tm:w*"),
        ("TRUNCATE w.tm", "w.tm:w*"),
        ("ALTER TABLE tm ADD c INT", "w.tm:w*"),
        ("CREATE UNIQUE INDEX i ON tm (a)", "w.tm:w*"),
        ("DROP INDEX i ON tm", "w.tm:w*"),
        ("DROP TABLE IF EXISTS tm", "w.tm:w*"),
        ("DROP TABLE tm, t1", "w.tm:w* w.t1:w"),
        ("DROP TABLE IF EXISTS x.t1, no_such, n1 RESTRICT", "x.t1:w w.no_such:w w.n1:w"),
        ("DROP TABLE", ""),
        ("TRUNCATE t1", "w.t1:w"),
        ("ANALYZE TABLE tm", ""),
        ("ALTER TABLE t1 ADD c INT", ""),
        ("DROP DATABASE w", ""),
        ("ALTER TABLE", ""),
    ],
)
def test_the_tables_of_ddl_that_make_a_difference(sql: str, expected: str) -> None:
    """DDL of a temporary table is not logged outside of STATEMENT format.

    DROP TABLE is a statement for each kind of table.
    """
    assert locks(sql, temporary_tables=TEMPORARY) == expected.split()


def test_a_drop_is_of_the_temporary_tables_that_are_there() -> None:
    assert locks("DROP TEMPORARY TABLE IF EXISTS tm, t1, no_such", temporary_tables=TEMPORARY) == ["w.tm:w*"]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("DELETE FROM t1 LIMIT 0", True),
        ("UPDATE t1 SET a=1 LIMIT 0", True),
        ("DELETE FROM t1 LIMIT 1", False),
        ("INSERT INTO t1 SELECT * FROM t2 LIMIT 0", False),
        ("CREATE TABLE IF NOT EXISTS t1 AS SELECT 1", True),
        ("CREATE TABLE IF NOT EXISTS c AS SELECT 1", False),
    ],
)
def test_statements_that_end_before_they_begin(sql: str, expected: bool) -> None:
    assert facts(sql).is_skipped is expected


def test_triggers_and_functions_are_sub_statements() -> None:
    body = StatementFacts(unsafe=frozenset((UnsafeReason.UDF,)))
    other = StatementFacts(unsafe=frozenset((UnsafeReason.LIMIT,)))
    events = ("INSERT", "UPDATE", "DELETE")
    triggers = [Trigger(table="w.t1", event=event, body=StatementFacts(verb=event)) for event in events]

    def fired(sql: str) -> str:
        return " ".join(sub.verb for sub in facts(sql, triggers=triggers).sub_statements)

    assert facts("INSERT INTO t2 VALUES (F(1), 'a')", routines={"f": body, "g": other}).sub_statements == (body,)
    assert facts("SELECT x.g()", routines={"f": body, "x.g": other}).sub_statements == (other,)
    assert facts("SELECT g()", routines={"w.g": other}).sub_statements == (other,)
    assert fired("INSERT INTO t1 VALUES (1,'a')") == "INSERT"
    assert fired("INSERT INTO t1 VALUES (1,'a') ON DUPLICATE KEY UPDATE b='c'") == "INSERT UPDATE"
    assert fired("REPLACE INTO t1 VALUES (1,'a')") == "INSERT DELETE"
    assert fired("UPDATE t1 SET b='a'") == "UPDATE"
    assert fired("DELETE FROM t1") == "DELETE"
    assert fired("INSERT INTO t2 SELECT * FROM t1") == ""
    assert fired("LOAD DATA INFILE 'f' REPLACE INTO TABLE t1") == "INSERT DELETE"


def test_a_view_is_its_tables() -> None:
    """Also one of views; and what makes its SELECT unsafe makes the statement so."""
    views = {
        "w.v": "SELECT a, b FROM t1",
        "x.v": "SELECT a FROM t1",  # x.t1
        "w.vv": "SELECT y.a AS c, y.b AS d, t2.b AS e FROM v y JOIN t2 ON y.a=t2.a",
        "w.vs": "SELECT a, b FROM t1 WHERE a IN (SELECT a FROM n1) LIMIT 1",
        "w.vu": "SELECT a, UUID() AS b FROM t1",
    }

    assert locks("INSERT INTO v VALUES (1,'x')", views=views) == ["w.t1:w"]
    assert locks("INSERT INTO t2 SELECT a, 'x' FROM x.v", views=views) == ["w.t2:w", "x.t1:r"]
    assert locks("UPDATE vv SET d='x'", views=views) == ["w.t1:w", "w.t2:r"]
    assert locks("UPDATE vv SET vv.e='x'", views=views) == ["w.t1:r", "w.t2:w"]
    assert locks("DELETE FROM vs", views=views) == ["w.t1:w", "w.n1:r"]
    assert locks("SELECT * FROM v", views=views, temporary_tables=[TableDefinition("w", "v", COLUMNS)]) == ["w.v:r*"]
    assert reasons("INSERT INTO t2 SELECT a, b FROM vs", views=views) == {"LIMIT"}
    assert reasons("INSERT INTO t2 SELECT a, b FROM vu", views=views) == {"SYSTEM_FUNCTION"}
    assert (
        Statement.from_sql(
            "INSERT INTO t2 SELECT 1, b FROM q", "w", TABLES, objects=KnownObjects(views={"w.q": "SELECT NOW(3) AS b"})
        ).uses
        == Uses.TIME_ZONE | Uses.MICROSECONDS
    )


@pytest.mark.parametrize(
    ("views", "message"),
    [
        ({"w.v": "SELECT * FROM v2", "w.v2": "SELECT * FROM v"}, "the view contains itself, found w.v"),
        ({"w.v": "SELECT FROM WHERE"}, "sqlglot cannot parse this statement"),
        ({"w.v": "SELECT * FROM gone"}, "the table is not defined, found w.gone"),
    ],
)
def test_a_view_that_cannot_be_resolved_is_refused(views: dict[str, str], message: str) -> None:
    """Nothing is guessed of its tables."""
    with pytest.raises(UnsupportedFeature, match=re.escape(message)):
        facts("INSERT INTO t1 SELECT * FROM v", views=views)


def test_foreign_keys_reach_a_bounded_number_of_tables() -> None:
    """Each way to a table counts, and there may be very many."""
    names = [f"k{level}{side}" for level in range(14) for side in "ab"]
    tables = [TableDefinition("w", "k", COLUMNS)]
    for index, name in enumerate(names):
        parents = names[index // 2 * 2 - 2 : index // 2 * 2] or ["k"]
        keys = tuple(ForeignKeyDefinition(f"w.{parent}", on_delete="CASCADE") for parent in parents)
        tables.append(TableDefinition("w", name, COLUMNS, foreign_keys=keys))

    with pytest.raises(UnsupportedFeature, match="too many tables are reached by foreign keys"):
        facts_from_sql("DELETE FROM k", "w", tables)


def test_on_duplicate_key_update_is_found() -> None:
    assert facts("INSERT INTO t1 VALUES (1,'a') ON DUPLICATE KEY UPDATE b='c'").updates_on_duplicate
    assert not facts("INSERT INTO t1 VALUES (1,'a')").updates_on_duplicate


# -------------------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    "sql",
    [
        "",
        "   ",
        "BEGIN",
        "commit",
        "SAVEPOINT s",
        "XA START 'x'",
        "INSERT INTO t1 VALUES ('open",
        "INSERT INTO t1 VALUES (1,",
        "UPDATE SET",
        "INSERT INTO no_such VALUES (1)",
        "LOAD DATA INFILE 'f'",
        "LOAD DATA INFILE 'f' INTO TABLE",
    ],
)
def test_what_cannot_be_read_is_refused(sql: str) -> None:
    with pytest.raises(UnsupportedFeature):
        facts(sql)


WORDS = st.sampled_from(
    """INSERT REPLACE UPDATE DELETE SELECT CREATE DROP TEMPORARY TABLE LOAD DATA INTO FROM SET VALUES ( ) , . = t1 n1 w
    LIMIT 0 IGNORE ON DUPLICATE KEY FOR SKIP LOCKED @@ @ global `a` 'b' UUID STRAIGHT_JOIN JOIN AS WITH IF NOT EXISTS DO
    ; /*! */""".split()
)


@given(st.lists(WORDS, max_size=14))
def test_any_words_give_facts_or_a_refusal(words: list[str]) -> None:
    try:
        found = facts(" ".join(words))
    except UnsupportedFeature:
        return
    assert isinstance(found, StatementFacts)


@given(st.text(max_size=40))
def test_any_text_gives_facts_or_a_refusal(text: str) -> None:
    try:
        found = facts(text)
    except UnsupportedFeature:
        return
    assert isinstance(found, StatementFacts)


@pytest.mark.parametrize("blank", ["\n\t", " /* why */ ", " -- why\n", " # `why\n", "/**/", " /*!50001 */ "], ids=repr)
@pytest.mark.parametrize(
    "sql",
    [
        "INSERT IGNORE INTO t1 SELECT a , @@hostname FROM `t2` LIMIT 1",
        "REPLACE DELAYED INTO w . n1 VALUES ( UUID() )",
        "/*!50001 DELETE */ LOW_PRIORITY FROM t1 LIMIT 1",
        "CREATE TABLE new ( a INT ) IGNORE SELECT a FROM t1",
        "DROP TABLE IF EXISTS tm , x . t1 , gone",
        "CREATE INDEX i ON tm ( a )",
        "TRUNCATE TABLE tm",
        "ALTER TABLE tm ADD c INT",
        "CREATE TABLE IF NOT EXISTS tm ( a INT )",
        "LOAD DATA INFILE 'f' REPLACE INTO TABLE n1 SET b = RAND()",
        "EXECUTE `p`",
    ],
)
def test_facts_do_not_depend_on_comments(sql: str, blank: str) -> None:
    """The words are those of the server."""
    objects = {"temporary_tables": TEMPORARY, "prepared": {"P": "UPDATE t1 SET b = 1 LIMIT 1"}}
    spelt = blank + sql.replace(" ", blank) if "/*" not in sql else blank + sql

    assert facts(spelt, **objects) == facts(sql, **objects)
