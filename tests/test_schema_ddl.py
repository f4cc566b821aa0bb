"""DDL statements, one after the other: what the tables are then, and what is forgotten where a statement cannot be followed."""

from __future__ import annotations

from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlogio.constants import EventType, OptionalMetadataType
from binlogio.events import EVENT_CODECS
from binlogio.events.base import ParseContext
from binlogio.events.query import QueryEvent, SessionCharset, StatusVar
from binlogio.events.table_map import TableMapEvent
from binlogio.reader import BinlogReader
from binlogio.schema.catalogue import Catalogue
from binlogio.schema.ddl import SessionFacts, follow_statement
from binlogio.schema.logged_ddl import body_may_define, follow_event, may_define
from binlogio.schema.server_defaults import ServerDefaults
from binlogio.storage import LogFile
from corpus import Case, cases

CODEC: Final = EVENT_CODECS[EventType.TABLE_MAP_EVENT]
MYSQL: Final = ServerDefaults(is_mariadb=False, version=(9, 7, 0))
MARIADB: Final = ServerDefaults(is_mariadb=True, version=(10, 11, 18))
CONTEXT: Final = ParseContext(server_version="9.7.0")
START: Final = "CREATE TABLE t (a INT PRIMARY KEY, b VARCHAR(10), c TEXT) CHARSET latin1"
START_SHAPE: Final = "a int, b varchar(10), c text"
# Logs in which table maps have shapes that no CREATE TABLE of today gives: temporal types of before 5.6.
OLD_TYPES: Final = ("types_old_temporal",)
WORDS: Final = (
    "TABLE DATABASE INDEX SEQUENCE IF NOT EXISTS LIKE ADD DROP MODIFY CHANGE RENAME COLUMN TO AS FIRST AFTER KEY PRIMARY UNIQUE CHECK "
    "CONSTRAINT FOREIGN REFERENCES DEFAULT CHARACTER SET COLLATE CONVERT ALTER VISIBLE PARTITION BY ENGINE = ( ) , . ; INT TEXT ENUM 'x' "
    "t u s a b `c` 7 latin1 latin1_bin ON SELECT WITH SYSTEM VERSIONING PERIOD FOR /* */ --"
).split()


def after(*statements: str, server: ServerDefaults = MYSQL) -> Catalogue:
    """A catalogue that has seen `CREATE DATABASE s` and the statements, executed in `s`."""
    catalogue = Catalogue()
    for sql in ("CREATE DATABASE s CHARACTER SET latin1", *statements):
        follow_statement(catalogue, sql, "s", server)
    return catalogue


def shape(catalogue: Catalogue, name: str = "t", schema: str = "s") -> str | None:
    """The columns of a table as text; None where it is unknown."""
    known = catalogue.find(schema, name)
    return None if known is None else ", ".join(f"{one.name} {one.type}" for one in known.table.columns)


@pytest.mark.parametrize(
    ("clauses", "expected"),
    [
        ("ADD d INT", "a int, b varchar(10), c text, d int"),
        ("ADD COLUMN (d INT, e BIT, KEY (d))", "a int, b varchar(10), c text, d int, e bit(1)"),
        ("ADD d INT FIRST, ADD e INT AFTER d", "d int, e int, a int, b varchar(10), c text"),
        ("ADD d INT AFTER a, ADD INDEX (d), ALGORITHM=INPLACE, LOCK=NONE", "a int, d int, b varchar(10), c text"),
        ("DROP b, DROP COLUMN c", "a int"),
        ("DROP b, ADD b INT", "a int, c text, b int"),
        ("MODIFY b BIGINT UNSIGNED", "a int, b bigint unsigned, c text"),
        ("MODIFY COLUMN b INT FIRST", "b int, a int, c text"),
        ("CHANGE b x INT, CHANGE c b TEXT", "a int, x int, b text"),
        ("CHANGE COLUMN a z INT AFTER c", "b varchar(10), c text, z int"),
        ("RENAME COLUMN b TO c, RENAME COLUMN c TO b", "a int, c varchar(10), b text"),
        ("ADD x INT AFTER y, RENAME COLUMN b TO y", "a int, y varchar(10), x int, c text"),
        ("ENGINE=InnoDB ROW_FORMAT=DYNAMIC COMMENT='c, d'", "a int, b varchar(10), c text"),
        ("ADD CONSTRAINT f FOREIGN KEY (a) REFERENCES o (id) ON DELETE CASCADE, FORCE", "a int, b varchar(10), c text"),
        ("DROP FOREIGN KEY f, DROP CHECK g, DROP INDEX h", "a int, b varchar(10), c text"),
        ("ALTER b SET DEFAULT 'x', ALTER COLUMN c DROP DEFAULT", "a int, b varchar(10), c text"),
        ("ADD PARTITION (PARTITION p VALUES LESS THAN (3))", "a int, b varchar(10), c text"),
        ("REORGANIZE PARTITION p, q INTO (PARTITION r VALUES IN (1))", "a int, b varchar(10), c text"),
        ("ORDER BY a, b", "a int, b varchar(10), c text"),
        ("CONVERT TO CHARACTER SET utf8mb4", "a int, b varchar(10), c mediumtext"),
        ("CONVERT TO CHARACTER SET latin2", "a int, b varchar(10), c text"),
        ("CONVERT TO CHARACTER SET binary", "a int, b varbinary(10), c blob"),
        ("ENGINE=InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin", "a int, b varchar(10), c text"),
        ("ADD d INT, ENGINE=InnoDB PARTITION BY HASH (a)", "a int, b varchar(10), c text, d int"),
        ("DROP PARTITION p, q", "a int, b varchar(10), c text"),
        ("ALTER INDEX i INVISIBLE, ALTER c SET INVISIBLE", "a int, b varchar(10), c text"),
        ("ADD d INT REFERENCES o MATCH FULL ON DELETE NO ACTION AFTER a", "a int, d int, b varchar(10), c text"),
        ("DEFAULT CHARSET utf8mb4, ADD d TEXT(100)", "a int, b varchar(10), c text, d text"),
    ],
)
def test_alter_table_changes_columns_as_the_server_does(clauses: str, expected: str) -> None:
    assert shape(after(START, f"ALTER TABLE t {clauses}")) == expected


@pytest.mark.parametrize(
    ("clauses", "expected"),
    [
        ("ADD COLUMN IF NOT EXISTS b INT, ADD COLUMN IF NOT EXISTS d INT", "a int, b varchar(10), c text, d int"),
        ("DROP COLUMN IF EXISTS z, DROP COLUMN IF EXISTS c", "a int, b varchar(10)"),
        ("MODIFY COLUMN IF EXISTS z INT, CHANGE IF EXISTS z y INT", "a int, b varchar(10), c text"),
        ("DROP PERIOD FOR p, ADD PERIOD FOR q (a, b)", "a int, b varchar(10), c text"),
        ("ADD SYSTEM VERSIONING", "a int, b varchar(10), c text, row_start timestamp(6), row_end timestamp(6)"),
        (
            "ADD SYSTEM VERSIONING, ADD d INT",
            "a int, b varchar(10), c text, d int, row_start timestamp(6), row_end timestamp(6)",
        ),
    ],
)
def test_mariadb_has_clauses_of_its_own(clauses: str, expected: str) -> None:
    assert shape(after(START, f"ALTER ONLINE TABLE IF EXISTS t {clauses}", server=MARIADB)) == expected


def test_columns_go_in_before_those_of_system_versioning_and_these_go_with_it() -> None:
    statements = (START, "ALTER TABLE t ADD SYSTEM VERSIONING", "ALTER TABLE t ADD d INT, DROP b")

    assert shape(after(*statements, server=MARIADB)) == (
        "a int, c text, d int, row_start timestamp(6), row_end timestamp(6)"
    )
    assert shape(after(*statements, "ALTER TABLE t DROP SYSTEM VERSIONING", server=MARIADB)) == "a int, c text, d int"


def test_the_default_character_set_holds_for_new_columns_only() -> None:
    catalogue = after(START, "ALTER TABLE t CHARACTER SET cp1251", "ALTER TABLE t ADD d TEXT, MODIFY b CHAR(3)")
    known = catalogue.find("s", "t")

    assert known is not None
    assert [one.collation for one in known.table.columns] == [
        None,
        "cp1251_general_ci",
        "latin1_swedish_ci",
        "cp1251_general_ci",
    ]


@pytest.mark.parametrize(
    ("clauses", "key"),
    [
        ("DROP PRIMARY KEY", ()),
        ("DROP PRIMARY KEY, ADD PRIMARY KEY (b, a)", ("b", "a")),
        ("DROP PRIMARY KEY, ADD UNIQUE u (a)", ("a",)),
        ("CHANGE a id BIGINT", ("id",)),
        ("RENAME COLUMN a TO id, ADD a INT", ("id",)),
        ("DROP a", ()),
        ("DROP PRIMARY KEY, ADD UNIQUE (a), ADD KEY (a), DROP KEY nosuch", ("a",)),
        ("ADD UNIQUE u (a), RENAME INDEX u TO v, DROP PRIMARY KEY", ("a",)),
        ("DROP a, ADD d SERIAL", ("d",)),
        ("MODIFY a INT NULL, DROP PRIMARY KEY, ADD UNIQUE (a)", ()),
    ],
)
def test_alter_table_changes_the_key(clauses: str, key: tuple[str, ...]) -> None:
    known = after(START, f"ALTER TABLE t {clauses}").find("s", "t")

    assert known is not None
    assert known.table.definition().primary_key == key


def test_create_and_drop_index_change_the_key_too() -> None:
    made = ("CREATE TABLE t (a INT NOT NULL, b INT NOT NULL)", "CREATE UNIQUE INDEX i ON t (b) COMMENT 'x'")
    with_index, without = after(*made).find("s", "t"), after(*made, "DROP INDEX i ON t").find("s", "t")

    assert with_index is not None
    assert without is not None
    assert with_index.table.definition().primary_key == ("b",)
    assert without.table.definition().primary_key == ()


def test_renaming_moves_definitions_in_the_order_of_the_statement() -> None:
    catalogue = after("CREATE TABLE a (x INT)", "CREATE TABLE b (y INT)", "RENAME TABLE a TO c, b TO a, c TO o.b")

    assert (shape(catalogue, "a"), shape(catalogue, "b", "o")) == ("y int", "x int")
    assert (shape(catalogue, "b"), shape(catalogue, "c")) == (None, None)


def test_alter_table_can_rename_into_another_schema() -> None:
    catalogue = after(START, "ALTER TABLE t RENAME TO o.u, ADD d INT")

    assert shape(catalogue, "u", "o") == "a int, b varchar(10), c text, d int"
    assert shape(catalogue) is None


def test_a_table_of_unknown_columns_stays_unknown_under_a_new_name() -> None:
    """And what was known under that name is not true of it."""
    catalogue = after(START, "RENAME TABLE t TO old, o.unknown TO t")
    altered = after(START, "DROP TABLE t", "ALTER TABLE o.unknown ADD x INT, RENAME s.t")

    assert shape(catalogue) is None
    assert "o.unknown" in catalogue.unknown["s", "t"]
    assert shape(altered) is None


@pytest.mark.parametrize(
    ("statements", "expected"),
    [
        (["CREATE TABLE IF NOT EXISTS t (z INT)"], "z int"),
        ([START, "CREATE TABLE IF NOT EXISTS t (z INT)"], "a int, b varchar(10), c text"),
        ([START, "DROP TABLE IF EXISTS x, t", "CREATE TABLE IF NOT EXISTS t (z INT)"], "z int"),
        ([START, "CREATE OR REPLACE TABLE t (z INT)"], "z int"),
        ([START, "CREATE TABLE u LIKE t", "DROP TABLE t", "RENAME TABLE u TO t"], "a int, b varchar(10), c text"),
        ([START, "DROP TABLE t"], None),
        (
            [START, "CREATE TABLE u (LIKE t)", "DROP TABLE t", "ALTER TABLE u RENAME TO t"],
            "a int, b varchar(10), c text",
        ),
        ([START, "CREATE TEMPORARY TABLE x LIKE t", "CREATE OR REPLACE TABLE t LIKE x"], None),
        ([START, "CREATE TABLE u (x INT) (SELECT 1)", "CREATE INDEX i ON u (x)", "DROP INDEX i ON u"], START_SHAPE),
        ([START, "ALTER TABLE nosuch ADD x INT, RENAME COLUMN a TO b", "ALTER TABLE t WAIT 5 DROP b"], "a int, c text"),
        ([START, "RENAME TABLE t WAIT 5 TO u, u TO t"], START_SHAPE),
        ([START, "CREATE TEMPORARY TABLE t (x INT)", "RENAME TABLE t TO u"], START_SHAPE),
        ([START, "CREATE OR REPLACE DATABASE s"], None),
        ([START, "CREATE DATABASE IF NOT EXISTS s", "ALTER DATABASE CHARACTER SET latin2"], START_SHAPE),
        ([START, "ALTER DATABASE s NOSUCHOPTION"], START_SHAPE),
        (["CREATE SEQUENCE t AS TINYINT"], None),
        ([START, "DROP DATABASE s"], None),
        ([START, "TRUNCATE TABLE t"], "a int, b varchar(10), c text"),
        ([START, "CREATE TABLE u AS SELECT * FROM t"], "a int, b varchar(10), c text"),
        ([START, "CREATE OR REPLACE TABLE t SELECT 1 AS x"], None),
        ([START, "CREATE TABLE t LIKE o.unknown"], None),
        ([START, "CREATE VIEW v AS SELECT 1", "DROP VIEW t", "DROP USER t"], "a int, b varchar(10), c text"),
        (["/* c */ CREATE /*! TABLE t (z INT) */ -- end"], "z int"),
        ([START, "alter table T add d int"], "a int, b varchar(10), c text, d int"),
        (["CREATE TABLE `t` (\n  `i` int(11) DEFAULT NULL\n) START TRANSACTION"], "i int"),
    ],
)
def test_statements_make_and_drop_definitions(statements: list[str], expected: str | None) -> None:
    assert shape(after(*statements, server=MARIADB)) == expected


def test_if_not_exists_in_a_database_that_the_log_did_not_create_is_a_guess() -> None:
    """Another table may have been there."""
    catalogue = Catalogue()
    follow_statement(catalogue, "CREATE TABLE IF NOT EXISTS t (a INT)", "s", MYSQL)
    follow_statement(catalogue, "CREATE TABLE u (a INT)", "s", MYSQL)
    guess, fact = catalogue.find("s", "t"), catalogue.find("s", "u")

    assert guess is not None
    assert guess.is_tentative
    assert fact is not None
    assert not fact.is_tentative


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE t ADD d NOSUCHTYPE",
        "ALTER TABLE t NOSUCHCLAUSE",
        "ALTER TABLE t DROP nosuch",
        "ALTER TABLE t ADD a INT",
        "ALTER TABLE t ADD d INT AFTER nosuch",
        "ALTER TABLE t ADD d INT COMMENT 'no end",
        "ALTER TABLE t CONVERT PARTITION p TO TABLE u",
        "ALTER TABLE t CONVERT TO NOTHING",
        "ALTER TABLE t ADD UNIQUE IF NOT EXISTS u (a)",
        "ALTER TABLE t DROP a, DROP b, DROP c",
        "CREATE TABLE t (a NOSUCHTYPE)",
        "CREATE UNIQUE INDEX i ON t",
    ],
)
def test_what_is_not_understood_is_forgotten_with_a_reason(statement: str) -> None:
    """Never a wrong definition."""
    catalogue = after(START, "CREATE TABLE u (x INT)", statement)

    assert shape(catalogue) is None
    assert catalogue.unknown["s", "t"]
    assert shape(catalogue, "u") == "x int"
    assert shape(after(START, statement, "DROP TABLE t", START)) == "a int, b varchar(10), c text"


@pytest.mark.parametrize(
    "sql", ["DROP TABLE a., t", "DROP DATABASE", "CREATE INDEX i", "ALTER TABLE", "RENAME TABLE t TO"]
)
def test_statements_without_an_end_are_no_error(sql: str) -> None:
    assert after(START, sql).find("s", "u") is None


def test_a_database_that_was_dropped_half_way_leaves_nothing_known() -> None:
    catalogue = after(START)
    follow_statement(catalogue, "DROP DATABASE s", "s", MYSQL, failed="error 1010")

    assert shape(catalogue) is None


@given(
    st.lists(st.sampled_from(WORDS), max_size=25),
    st.sampled_from(["ALTER TABLE t", "CREATE TABLE u", "DROP", "CREATE"]),
)
def test_any_words_are_followed_or_forgotten(words: list[str], begin: str) -> None:
    """No statement stops whoever reads the log."""
    for server in (MYSQL, MARIADB):
        catalogue = after(START, f"{begin} {' '.join(words)}", server=server)
        known = catalogue.find("s", "t")

        assert known is None or known.table.definition().columns


def test_hostile_statements_take_no_time() -> None:
    """More columns, keys and words than a table can have."""
    many = ", ".join(f"c{i} INT" for i in range(60_000))
    keys = ", ".join("KEY (a)" for _ in range(60_000))
    for sql in (
        f"CREATE TABLE u ({many})",
        f"CREATE TABLE u (a INT, {keys})",
        f"ALTER TABLE t ADD ({many})",
        f"ALTER TABLE t {'(' * 300_000}",
    ):
        catalogue = after(START, sql)

        assert shape(catalogue, "u") is None
        assert len(catalogue.unknown) == 1


def test_temporary_tables_hide_the_real_one_from_their_session_only() -> None:
    catalogue = after(START)
    mine, yours = SessionFacts(thread_id=1), SessionFacts(thread_id=2)
    follow_statement(catalogue, "CREATE TEMPORARY TABLE t (x INT)", "s", MYSQL, mine)
    follow_statement(catalogue, "ALTER TABLE t ADD y INT", "s", MYSQL, mine)
    follow_statement(catalogue, "ALTER TABLE t ADD d INT", "s", MYSQL, yours)
    follow_statement(catalogue, "DROP TEMPORARY TABLE IF EXISTS t", "s", MYSQL, mine)
    follow_statement(catalogue, "ALTER TABLE t ADD e INT", "s", MYSQL, mine)

    assert shape(catalogue) == "a int, b varchar(10), c text, d int, e int"


@pytest.mark.parametrize(
    ("statements", "collation", "assumed"),
    [
        (["CREATE DATABASE d CHARSET cp850", "CREATE TABLE d.t (c TEXT)"], "cp850_general_ci", False),
        (["CREATE DATABASE d", "ALTER DATABASE d COLLATE koi8r_bin", "CREATE TABLE d.t (c TEXT)"], "koi8r_bin", False),
        (["CREATE TABLE d.t (c TEXT)"], "utf8mb4_0900_ai_ci", True),
        (["CREATE TABLE d.t (c TEXT) COLLATE latin1_bin"], "latin1_bin", False),
    ],
)
def test_the_database_says_the_character_set_or_it_is_assumed(
    statements: list[str], collation: str, *, assumed: bool
) -> None:
    known = after(*statements).find("d", "t")

    assert known is not None
    assert known.table.columns[0].collation == collation
    assert bool(known.table.assumed) is assumed


def test_what_is_assumed_of_a_column_goes_with_it() -> None:
    """Until a statement says the character set."""
    start = "CREATE TABLE d.t (a TEXT, b TEXT CHARSET latin1, c TEXT)"
    more = "ALTER TABLE d.t RENAME COLUMN a TO x, DROP c, ADD d TEXT, ADD e TEXT CHARSET latin1"
    known, told = (
        after(start, more).find("d", "t"),
        after(start, "ALTER TABLE d.t CONVERT TO CHARSET utf8mb4").find("d", "t"),
    )

    assert known is not None
    assert known.table.assumed == {"x", "d"}
    assert told is not None
    assert not told.table.assumed


def _query(sql: bytes, *status: StatusVar, **fields: Any) -> QueryEvent:
    values = {"thread_id": 1, "exec_time": 0, "error_code": 0, "schema": "s", **fields}
    return QueryEvent(status_vars=status, sql=sql, **values)


def test_a_statement_is_in_the_character_set_of_its_client() -> None:
    catalogue = Catalogue()
    latin1 = StatusVar(4, SessionCharset(8, 8, 8))
    follow_event(catalogue, _query("CREATE TABLE t (ä INT, b TEXT)".encode("latin-1"), latin1), CONTEXT)
    known = catalogue.find("s", "t")

    assert shape(catalogue) == "ä int, b text"
    assert known is not None
    assert known.table.columns[1].collation == "latin1_swedish_ci"


def test_sessions_have_collations_of_their_own_for_character_sets() -> None:
    """MySQL's default_collation_for_utf8mb4 and MariaDB's character_set_collations; ids that no server has count for nothing."""
    sql = b"CREATE TABLE t (b TEXT CHARSET utf8mb4, c TEXT CHARSET latin1)"
    found = []
    for variable in (StatusVar(18, 45), StatusVar(131, ((45, 46), (8, 47), (1999, 47))), StatusVar(18, 1999)):
        catalogue = Catalogue()
        follow_event(catalogue, _query(sql, variable), CONTEXT)
        known = catalogue.find("s", "t")

        assert known is not None
        found.append([one.collation for one in known.table.columns])

    assert found == [
        ["utf8mb4_general_ci", "latin1_swedish_ci"],
        ["utf8mb4_bin", "latin1_bin"],
        ["utf8mb4_0900_ai_ci", "latin1_swedish_ci"],
    ]


def test_names_that_are_no_text_are_kept_as_bytes() -> None:
    catalogue = Catalogue()
    follow_event(catalogue, _query(b"CREATE TABLE t (`\xff` INT)"), CONTEXT)

    assert shape(catalogue) == "\udcff int"


def test_a_statement_that_failed_half_way_leaves_nothing_known() -> None:
    catalogue = Catalogue()
    for event in (_query(START.encode()), _query(b"DROP TABLE t, u", error_code=1051)):
        follow_event(catalogue, event, CONTEXT)

    assert shape(catalogue) is None
    assert "1051" in catalogue.unknown["s", "t"]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        (b"CREATE TABLE", True),
        (b"\n\t drop table", True),
        (b"/*x*/ INSERT", True),
        (b"INSERT", False),
        (b"XA START", False),
    ],
)
def test_statements_are_judged_by_their_first_word(sql: bytes, *, expected: bool) -> None:
    body = EVENT_CODECS[EventType.QUERY_EVENT].build(_query(sql), CONTEXT)

    assert may_define(sql) is expected
    assert body_may_define(body) is expected
    assert not body_may_define(body[:12])


# ---------------------------------------------------------------------------------------------------- real logs


def _logged() -> list[Case]:
    return [case for case in cases() if case.folder.name not in OLD_TYPES]


@pytest.mark.parametrize("case", _logged(), ids=lambda case: case.id)
def test_the_ddl_of_a_log_leads_to_its_table_maps(case: Case) -> None:
    """Byte for byte, whatever metadata they have: types, lengths, null bits, signs, character sets, names, members, keys, visibility."""
    logs = [LogFile(str(path), path.stat().st_size) for path in case.logs]
    keyring = None
    if case.keys is not None:
        from binlogio.encryption import load_keyring  # noqa: PLC0415 - needs an extra

        keyring = load_keyring(case.keys)
    catalogue = Catalogue()
    with BinlogReader(logs, keyring=keyring) as reader:
        for event in reader:
            if isinstance(event, QueryEvent):
                follow_event(catalogue, event, reader.context)
            elif isinstance(event, TableMapEvent):
                known = catalogue.find(event.schema, event.table)

                assert known is not None, (event.schema, event.table, catalogue.unknown)
                assert CODEC.build(_as_logged(known.table.definition(), event, reader.context)) == CODEC.build(event)
    assert not catalogue.unknown or case.folder.name.startswith("format_statement")


def _as_logged(definition: Any, event: TableMapEvent, context: ParseContext) -> TableMapEvent:
    """The table map of the definition, with as much metadata as the one in the log."""
    level = "MINIMAL" if event.optional_metadata else "NO_LOG"
    if event.optional(OptionalMetadataType.COLUMN_NAME) is not None:
        level = "FULL"
    flavor = "mariadb" if context.is_mariadb else "mysql"
    made: TableMapEvent = definition.table_map(event.table_id, level, flavor, flags=event.flags)
    return made
