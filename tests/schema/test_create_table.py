"""CREATE TABLE texts to table definitions: types, character sets, keys, what is not understood.

Sqlglot as a second opinion.
"""

from __future__ import annotations

import json
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import pytest
import sqlglot
from hypothesis import given
from hypothesis import strategies as st
from sqlglot import exp

from binlogio.errors import UnsupportedFeature
from binlogio.schema import ForeignKeyDefinition, TableDefinition, parse_create_table
from binlogio.schema.ddl.column_text import TableSetting, resolved_column
from binlogio.schema.ddl.parser import parse_ddl
from binlogio.schema.ddl.server_defaults import ServerDefaults
from binlogio.schema.ddl.tokens import MODE_ANSI_QUOTES, MODE_NO_BACKSLASH_ESCAPES, MODE_ORACLE, tokenize
from binlogio.schema.ddl.tree import CreateTable, TableBody
from corpus import cases

if TYPE_CHECKING:
    from binlogio.schema import ColumnDefinition
    from corpus import Case

MYSQL_9: Final = ServerDefaults(is_mariadb=False, version=(9, 7, 0))
MYSQL_57: Final = ServerDefaults(is_mariadb=False, version=(5, 7, 44))
MARIADB_10: Final = ServerDefaults(is_mariadb=True, version=(10, 11, 18))
MARIADB_12: Final = ServerDefaults(is_mariadb=True, version=(12, 0, 2))


def column(text: str, server: ServerDefaults = MYSQL_9, options: str = "") -> ColumnDefinition:
    """Return the column that a text defines, in a table of its own."""
    return parse_create_table(f"CREATE TABLE s.t (c {text}) {options}", server=server).columns[0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("INT", "int"),
        ("INTEGER(10) UNSIGNED", "int unsigned"),
        ("int(5) zerofill", "int unsigned"),
        ("BOOL", "tinyint"),
        ("BOOLEAN NOT NULL DEFAULT TRUE", "tinyint"),
        ("INT1", "tinyint"),
        ("MIDDLEINT SIGNED", "mediumint"),
        ("INT8", "bigint"),
        ("SERIAL", "bigint unsigned"),
        ("REAL", "double"),
        ("DOUBLE PRECISION UNSIGNED", "double unsigned"),
        ("FLOAT(7,3)", "float"),
        ("FLOAT(24)", "float"),
        ("FLOAT(25)", "double"),
        ("DECIMAL", "decimal(10,0)"),
        ("DEC(12)", "decimal(12,0)"),
        ("NUMERIC(12,4) UNSIGNED", "decimal(12,4) unsigned"),
        ("BIT", "bit(1)"),
        ("BIT(17) DEFAULT b'101'", "bit(17)"),
        ("YEAR(4)", "year"),
        ("TIME", "time"),
        ("DATETIME(0)", "datetime"),
        ("TIMESTAMP(6) NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6)", "timestamp(6)"),
        ("CHAR", "char(1)"),
        ("CHARACTER(5)", "char(5)"),
        ("CHARACTER VARYING(5)", "varchar(5)"),
        ("NCHAR VARCHAR(7)", "varchar(7)"),
        ("NATIONAL VARCHAR(7)", "varchar(7)"),
        ("BINARY", "binary(1)"),
        ("CHAR(4) BYTE", "binary(4)"),
        ("VARCHAR(4) CHARACTER SET binary", "varbinary(4)"),
        ("LONGTEXT CHARSET binary", "longblob"),
        ("LONG VARBINARY", "mediumblob"),
        ("LONG CHAR VARYING", "mediumtext"),
        ("BIGINT UNSIGNED SERIAL DEFAULT VALUE", "bigint unsigned"),
        ("ENUM('a' 'b')", "enum('ab')"),
        ("LONG", "mediumtext"),
        ("LONG VARCHAR CHARACTER SET latin1", "mediumtext"),
        ("TEXT(300)", "text"),
        ("TEXT(63)", "tinytext"),
        ("TEXT(20000)", "mediumtext"),
        ("BLOB(70000)", "mediumblob"),
        ("VARCHAR(70000)", "mediumtext"),
        ("ENUM ( 'a' , 'it''s', 'c ' ) COLLATE latin1_bin", "enum('a','it''s','c')"),
        ("SET('x','y') NOT NULL DEFAULT 'x,y' COMMENT 'a, (b) `c`'", "set('x','y')"),
        ("JSON CHECK (json_valid(c))", "json"),
        ("GEOMCOLLECTION SRID 4326", "geometrycollection"),
        ("POINT NOT NULL", "point"),
        ("VECTOR", "vector(2048)"),
        ("INT GENERATED ALWAYS AS (1 + (2)) STORED NOT NULL UNIQUE KEY", "int"),
        ("INT AS (1) VIRTUAL COMMENT 'v'", "int"),
        ("INT DEFAULT (uuid_to_bin('x')) /*!80023 INVISIBLE */", "int"),
        ("INT REFERENCES o (id) ON DELETE SET NULL ON UPDATE CASCADE", "int"),
        ("INT COLUMN_FORMAT DYNAMIC STORAGE DISK ENGINE_ATTRIBUTE='{}'", "int"),
    ],
)
def test_a_type_has_one_canonical_form(text: str, expected: str) -> None:
    assert column(text).type == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("UUID", "uuid"),
        ("INET4 NOT NULL", "inet4"),
        ("INET6 DEFAULT '::'", "inet6"),
        ("mariadb_schema.DATE", "date"),
        ("oracle_schema.DATE", "datetime"),
        ("oracle_schema.BLOB", "blob"),
        ("maxdb_schema.TIMESTAMP", "datetime"),
        ("VARCHAR(9) COMPRESSED", "varchar(9) compressed"),
        ("BLOB /*M!100301 COMPRESSED*/", "blob compressed"),
        ("TEXT COMPRESSED=zlib", "text compressed"),
        ("INT AS (a * 2) PERSISTENT INVISIBLE", "int"),
        ("INT DEFAULT NEXT VALUE FOR `s`.`q` COMMENT 'n'", "int"),
        ("POINT REF_SYSTEM_ID=101", "point"),
        ("INT WITHOUT SYSTEM VERSIONING `ietf_quotes`=yes", "int"),
    ],
)
def test_mariadb_has_types_and_attributes_of_its_own(text: str, expected: str) -> None:
    assert column(text, MARIADB_10).type == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("NUMBER", "double"),
        ("NUMBER(5)", "decimal(5,0)"),
        ("NUMBER(7, 2) DEFAULT 1.5", "decimal(7,2)"),
        ("VARCHAR2(10)", "varchar(10)"),
        ("RAW(5)", "varbinary(5)"),
        ("CLOB", "longtext"),
        ("BLOB", "longblob"),
        ("DATE", "datetime"),
        ("mariadb_schema.DATE", "date"),
    ],
)
def test_mariadb_has_types_of_oracle_in_its_sql_mode(text: str, expected: str) -> None:
    """As 10.11 and 11.8 list them in information_schema; MySQL has no other types in this mode."""
    found = parse_ddl(f"CREATE TABLE t (c {text})", MARIADB_10, MODE_ORACLE)
    assert isinstance(found, CreateTable)
    assert isinstance(found.body, TableBody)
    setting = TableSetting(MARIADB_10, "utf8mb4_general_ci")
    assert resolved_column(found.body.columns[0], setting).column.type == expected


def test_mysql_has_no_uuid_type() -> None:
    """A definition that no server would take is none."""
    with pytest.raises(UnsupportedFeature, match="MySQL does not have this type"):
        column("UUID", MYSQL_9)


@pytest.mark.parametrize(
    ("text", "options", "server", "expected"),
    [
        ("TEXT", "", MYSQL_9, "utf8mb4_0900_ai_ci"),
        ("TEXT", "", MYSQL_57, "latin1_swedish_ci"),
        ("TEXT", "", MARIADB_10, "latin1_swedish_ci"),
        ("TEXT", "", MARIADB_12, "utf8mb4_uca1400_ai_ci"),
        ("TEXT", "DEFAULT CHARSET=utf8mb4", MYSQL_9, "utf8mb4_0900_ai_ci"),
        ("TEXT", "DEFAULT CHARSET=utf8mb4", MYSQL_57, "utf8mb4_general_ci"),
        ("TEXT", "CHARACTER SET 'utf8mb4'", MARIADB_12, "utf8mb4_uca1400_ai_ci"),
        ("TEXT", "COLLATE utf8mb4_bin CHARACTER SET utf8mb4", MYSQL_9, "utf8mb4_bin"),
        ("TEXT", "ENGINE=InnoDB CHARSET utf8 COMMENT 'c'", MYSQL_9, "utf8mb3_general_ci"),
        ("TEXT COLLATE utf8_bin", "CHARSET latin1", MYSQL_9, "utf8mb3_bin"),
        ("TEXT CHARACTER SET cp1251", "CHARSET latin1", MYSQL_9, "cp1251_general_ci"),
        ("TEXT ASCII", "", MYSQL_9, "latin1_swedish_ci"),
        ("TEXT UNICODE", "", MYSQL_9, "ucs2_general_ci"),
        ("TEXT BINARY", "CHARSET latin1", MYSQL_9, "latin1_bin"),
        ("NCHAR(3)", "CHARSET latin1", MYSQL_9, "utf8mb3_general_ci"),
        ("ENUM('a')", "CHARSET cp850", MYSQL_9, "cp850_general_ci"),
        ("TEXT COLLATE uca1400_as_cs", "CHARSET utf8mb4", MARIADB_12, "utf8mb4_uca1400_as_cs"),
        ("JSON", "", MARIADB_10, "utf8mb4_bin"),
        ("BLOB", "CHARSET latin1", MYSQL_9, "binary"),
    ],
)
def test_a_collation_comes_from_column_table_or_server(
    text: str, options: str, server: ServerDefaults, expected: str
) -> None:
    table = parse_create_table(f"CREATE TABLE s.t (c {text}) {options}", server=server)

    assert table.collation_of(table.columns[0], server.vendor) == expected


def test_a_database_has_a_collation_too() -> None:
    table = parse_create_table("CREATE TABLE s.t (a TEXT)", collation="cp1251_general_ci")

    assert (table.collation, table.columns[0].collation) == ("cp1251_general_ci", None)


@pytest.mark.parametrize(
    ("elements", "key", "prefixes"),
    [
        ("a INT PRIMARY KEY, b INT", ("a",), ()),
        ("a INT KEY, b INT UNIQUE", ("a",), ()),
        ("a INT, b TEXT, PRIMARY KEY (b(10), a)", ("b", "a"), (10, 0)),
        ("a INT, b INT, CONSTRAINT pk PRIMARY KEY USING BTREE (b DESC, a ASC) COMMENT 'x'", ("b", "a"), ()),
        ("a INT NOT NULL, b INT, UNIQUE KEY u (a)", ("a",), ()),
        ("a INT NOT NULL, b INT NOT NULL, KEY k (a), UNIQUE (b, a), UNIQUE (a)", ("b", "a"), ()),
        ("a INT NOT NULL UNIQUE, b INT", ("a",), ()),
        ("a INT UNIQUE, b INT", (), ()),
        ("a TEXT NOT NULL, b INT, UNIQUE (a(3))", (), ()),
        ("a INT NOT NULL, b INT, UNIQUE ((a + 1))", (), ()),
        ("a INT, b INT, FOREIGN KEY fk (a) REFERENCES o (x) ON DELETE NO ACTION, CHECK (a > 0)", (), ()),
        ("a INT, b INT, FULLTEXT INDEX (a), SPATIAL KEY g (b), CONSTRAINT `c` CHECK (a) NOT ENFORCED", (), ()),
        ("a SERIAL, b INT", ("a",), ()),
        ("a INT, b INT, PRIMARY KEY named (a)", ("a",), ()),
        ("a INT NOT NULL, b INT NOT NULL, UNIQUE (a WITHOUT OVERLAPS), UNIQUE (b)", ("b",), ()),
    ],
)
def test_the_primary_key_is_the_one_that_the_server_takes(
    elements: str, key: tuple[str, ...], prefixes: tuple[int, ...]
) -> None:
    """Without one, the first UNIQUE key of whole columns that are NOT NULL."""
    table = parse_create_table(f"CREATE TABLE s.t ({elements})")

    assert (table.primary_key, table.primary_key_prefixes) == (key, prefixes)
    assert [one.name for one in table.columns] == ["a", "b"]


def test_columns_of_the_primary_key_are_not_null() -> None:
    table = parse_create_table("CREATE TABLE s.t (a INT, b INT, PRIMARY KEY (b))")

    assert [one.nullable for one in table.columns] == [True, False]


@pytest.mark.parametrize(
    ("text", "server", "nullable"),
    [("TIMESTAMP", MYSQL_9, True), ("TIMESTAMP", MYSQL_57, False), ("TIMESTAMP NULL", MYSQL_57, True)],
)
def test_timestamps_were_not_null_once(text: str, server: ServerDefaults, *, nullable: bool) -> None:
    assert column(text, server).nullable is nullable


TO_P: Final = ForeignKeyDefinition("s.p", on_delete="CASCADE")
TO_Q: Final = ForeignKeyDefinition("o.q", on_update="SET NULL")
REFERS: Final = (
    "CREATE TABLE s.c (a INT REFERENCES p (a) ON DELETE CASCADE, b INT, "
    "CONSTRAINT x FOREIGN KEY (b) REFERENCES o.q (b) ON UPDATE SET NULL)"
)


@pytest.mark.parametrize(
    ("sql", "server", "expected"),
    [
        (REFERS, MYSQL_9, (TO_P, TO_Q)),
        (REFERS, MYSQL_57, (TO_Q,)),
        (REFERS, MARIADB_10, (TO_P, TO_Q)),
        (f"{REFERS} ENGINE=MyISAM", MYSQL_9, ()),
        (
            "CREATE TABLE s.c (a INT, FOREIGN KEY (a) REFERENCES p (a) ON DELETE RESTRICT)",
            MYSQL_9,
            (ForeignKeyDefinition("s.p"),),
        ),
        ("CREATE TABLE s.c (a INT COMMENT 'REFERENCES p (a)', `REFERENCES` INT)", MYSQL_9, ()),
    ],
)
def test_foreign_keys_are_part_of_the_definition(
    sql: str, server: ServerDefaults, expected: tuple[ForeignKeyDefinition, ...]
) -> None:
    """MySQL before 9.0 ignores those of a column, and engines without transactions ignore all."""
    table = parse_create_table(sql, server=server)

    assert table.foreign_keys == expected
    assert table.has_foreign_keys == bool(expected)
    assert not table.is_foreign_key_parent
    assert parse_create_table("CREATE TABLE s.c (a INT REFERENCES c (a))").is_foreign_key_parent
    assert TableDefinition.from_json(json.loads(json.dumps(table.to_json()))) == table


def test_names_may_be_anything_in_quotes() -> None:
    sql = "CREATE TABLE `s``x`.`t.t` (`a b` INT, `PRIMARY` INT, `KEY` INT, unquoted$1 INT, `)` INT, ü INT, 1a INT)"
    table = parse_create_table(sql)

    assert (table.schema, table.name) == ("s`x", "t.t")
    assert [one.name for one in table.columns] == ["a b", "PRIMARY", "KEY", "unquoted$1", ")", "ü", "1a"]


def test_versioned_comments_count_for_the_servers_that_execute_them() -> None:
    sql = (
        "CREATE TABLE s.t (a INT /*!80023 INVISIBLE */, b INT /*!50606 STORAGE DISK */)"
        " /*!50100 PARTITION BY HASH (a) */"
    )

    assert not parse_create_table(sql, server=MYSQL_9).columns[0].visible
    assert parse_create_table(sql, server=MYSQL_57).columns[0].visible
    assert parse_create_table(sql, server=MARIADB_10).columns[0].visible


def test_system_versioning_adds_two_columns_that_the_log_shows() -> None:
    table = parse_create_table("CREATE TABLE s.t (a INT) WITH SYSTEM VERSIONING", server=MARIADB_10)
    own = (
        "CREATE TABLE s.t (a INT, b TIMESTAMP(6) GENERATED ALWAYS AS ROW START, c TIMESTAMP(6) AS ROW END INVISIBLE,"
        " PERIOD FOR SYSTEM_TIME (b, c)) WITH SYSTEM VERSIONING"
    )

    assert [one.name for one in table.columns] == ["a", "row_start", "row_end"]
    assert [one.name for one in parse_create_table(own, server=MARIADB_10).columns] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("elements", "options", "key"),
    [
        ("PERIOD FOR p (s, e), PRIMARY KEY (a, p WITHOUT OVERLAPS)", "", ("a", "e", "s")),
        ("UNIQUE (a, p WITHOUT OVERLAPS), PERIOD FOR p (s, e)", "", ("a", "e", "s")),
        ("PERIOD FOR p (s, e), PRIMARY KEY (a)", "WITH SYSTEM VERSIONING", ("a", "row_end")),
        (
            "PERIOD FOR p (s, e), PRIMARY KEY (a, p WITHOUT OVERLAPS)",
            "WITH SYSTEM VERSIONING",
            ("a", "row_end", "e", "s"),
        ),
        (
            "b TIMESTAMP(6) AS ROW START, c TIMESTAMP(6) AS ROW END, PERIOD FOR SYSTEM_TIME (b, c), PRIMARY KEY (a)",
            "WITH SYSTEM VERSIONING",
            ("a", "c"),
        ),
    ],
)
def test_keys_have_the_columns_of_periods(elements: str, options: str, key: tuple[str, ...]) -> None:
    """As in the metadata of a log of 11.8: the end of a version, then that of the period, and its start."""
    sql = f"CREATE TABLE s.t (a INT NOT NULL, s DATE, e DATE, {elements}) {options}"

    assert parse_create_table(sql, server=MARIADB_10).primary_key == key


@pytest.mark.parametrize(
    "sql",
    [
        "",
        "SELECT 1",
        "CREATE TABLE s.t",
        "CREATE TABLE s.t (",
        "CREATE TABLE s.t ()",
        "CREATE TABLE s.t (a)",
        "CREATE TABLE s.t (a NOSUCHTYPE)",
        "CREATE TABLE s.t (a INT NOSUCHATTRIBUTE)",
        "CREATE TABLE s.t (a INT, a INT)",
        "CREATE TABLE s.t (a INT, PRIMARY KEY (b))",
        "CREATE TABLE s.t (a INT PRIMARY KEY, b INT PRIMARY KEY)",
        "CREATE TABLE s.t (a CHAR(300))",
        "CREATE TABLE s.t (a INT FIRST)",
        "CREATE TABLE s.t (a NATIONAL INT)",
        "CREATE TABLE s.t (a INT REFERENCES o ON DELETE)",
        "CREATE TABLE s.t (a BLOB(9999999999))",
        "CREATE TABLE s.t (a INT COLUMN_FORMAT COMPRESSED)",
        "CREATE TABLE s.t (a INT(x))",
        "CREATE TABLE s.t (a INT, FULLTEXT)",
        "CREATE TABLE s.t (LIKE s.u)",
        "CREATE TABLE s.t (a INT) (SELECT 1)",
        "CREATE TABLE s.t (a INT) WITH x AS (SELECT 1) TABLE x",
        "CREATE TABLE s.t (a DATETIME(7))",
        "CREATE TABLE s.t (a ENUM(1))",
        "CREATE TABLE s.t (a ENUM())",
        "CREATE TABLE s.t (a INT COMMENT 'no end)",
        "CREATE TABLE s.t (a INT /* no end)",
        "CREATE TABLE s.t (a TEXT COLLATE nosuch_ci)",
        "CREATE TABLE s.t (a INT); CREATE TABLE s.u (a INT)",
        "CREATE TABLE s.t LIKE s.u",
        "CREATE TABLE s.t AS SELECT 1",
        "CREATE TABLE s.t (a INT) SELECT 1",
        "CREATE TABLE s.t SELECT 1",
    ],
)
def test_what_is_not_understood_is_refused(sql: str) -> None:
    """A definition is right, or there is none."""
    with pytest.raises(UnsupportedFeature):
        parse_create_table(sql)


@given(st.text(alphabet="CREATE TABLE (),;`'\"/*!-#\\ abINTdefault0123.=é", max_size=80))
def test_any_text_is_a_definition_or_refused(text: str) -> None:
    for sql in (text, f"CREATE TABLE s.t ({text})", f"CREATE TABLE s.t (a INT {text}"):
        with suppress(UnsupportedFeature):
            assert isinstance(parse_create_table(sql), TableDefinition)


def test_the_sql_mode_decides_what_quotes_and_backslashes_are() -> None:
    ansi = tokenize('"a""b\\"', MYSQL_9, MODE_ANSI_QUOTES)  # a backslash is a character like any other in a name
    plain = tokenize('"a\\"b"', MYSQL_9)
    no_escapes = tokenize(r"'\' 'x'", MYSQL_9, MODE_NO_BACKSLASH_ESCAPES)

    assert [(token.kind, token.text) for token in ansi] == [("quoted", 'a"b\\')]
    assert [(token.kind, token.text) for token in plain] == [("text", 'a"b')]
    assert [(token.kind, token.text) for token in no_escapes] == [("text", "\\"), ("text", "x")]


def _creates(case: Case) -> list[tuple[str, str]]:
    expected = case.load("expected.json")
    return [(name, table["create"]) for name, table in expected["tables"].items() if table["create"]]


WITH_TABLES: Final = [case for case in cases() if case.load("expected.json") is not None]


@pytest.mark.parametrize("case", WITH_TABLES, ids=lambda case: case.id)
def test_what_show_create_table_prints_is_understood(case: Case) -> None:
    """Names, types, nullability and collations are those of INFORMATION_SCHEMA."""
    expected = case.load("expected.json")["tables"]
    server = MARIADB_10 if "mariadb" in case.id else MYSQL_9
    for name, create in _creates(case):
        if not create.startswith("CREATE TABLE"):
            continue
        table = parse_create_table(create, schema=name.partition(".")[0], server=server)
        columns = [one for one in expected[name]["columns"] if one["name"] not in ("row_start", "row_end")]
        ours = [one for one in table.columns if one.name not in ("row_start", "row_end")]

        assert [one.name for one in ours] == [one["name"] for one in columns]
        assert [one.nullable for one in ours] == [one["nullable"] for one in columns]
        for mine, theirs in zip(ours, columns, strict=True):
            if theirs.get("collation") and theirs["data_type"] != "json":
                assert table.collation_of(mine, server.vendor) == theirs["collation"], mine.name


def test_sqlglot_sees_the_same_columns_where_it_understands() -> None:
    """Compare with an independent parser.

    It refuses SRID, COMPRESSED, FLOAT UNSIGNED and more.
    """
    logging.getLogger("sqlglot").setLevel(logging.ERROR)
    agreed = 0
    for case in WITH_TABLES:
        for _, create in _creates(case):
            try:
                tree = sqlglot.parse_one(create, dialect="mysql")
            except sqlglot.errors.ParseError:
                continue
            if not isinstance(tree, exp.Create) or not isinstance(tree.this, exp.Schema):
                continue
            theirs = [one.name for one in tree.this.expressions if isinstance(one, exp.ColumnDef)]
            theirs = [name for name in theirs if name != "VECTOR"]  # it takes VECTOR INDEX (n) for a column
            server = MARIADB_10 if "mariadb" in case.id else MYSQL_9
            ours = [one.name for one in parse_create_table(create, schema="s", server=server).columns]

            assert [name for name in ours if name not in ("row_start", "row_end")] == theirs
            agreed += 1

    assert agreed > 80
