"""Definitions of the tables in logs and of a server's information_schema, as files for readers of other logs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import pytest
from click.testing import CliRunner

import binlogio
from binlogio.archive import logged_tables
from binlogio.errors import UnsupportedFeature
from binlogio.schema import ColumnDefinition, TableDefinition, parse_information_schema
from binlogio.storage import find_logs
from binlogio_cli.main import cli
from corpus import MARIADB, MARIADB118, MYSQL
from defined_logs import CREATE, INTS, insert, mapped, save
from logs import query

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result

HEAD: Final = (
    "TABLE_SCHEMA", "TABLE_NAME", "COLUMN_NAME", "COLUMN_TYPE", "IS_NULLABLE", "COLLATION_NAME", "COLUMN_DEFAULT",
    "EXTRA", "GENERATION_EXPRESSION", "KEY_POSITION", "KEY_PREFIX", "ENGINE", "TABLE_COLLATION",
)  # fmt: skip
ROWS: Final = (
    ("s", "t", "id", "bigint(20) unsigned", "NO", None, None, "auto_increment", None, 2, None, "InnoDB", "utf8mb4_bin"),
    ("s", "t", "e", "enum('a\tb','c\\d')", "YES", "latin1_bin", "c\\d", "", "", None, None, "InnoDB", "utf8mb4_bin"),
    ("s", "t", "n", "text", "NO", "utf8mb4_bin", None, "", "", 1, 7, "InnoDB", "utf8mb4_bin"),
    ("s", "t", "g", "int", "YES", None, None, "VIRTUAL GENERATED INVISIBLE", "`id` + `x`", None, None, "InnoDB",
     "utf8mb4_bin"),
    ("s", "t", "at", "datetime", "YES", None, "CURRENT_TIMESTAMP", "DEFAULT_GENERATED on update CURRENT_TIMESTAMP", "",
     None, None, "InnoDB", "utf8mb4_bin"),
    ("s", "u", "é", "int", "YES", None, None, "", None, None, None, "MyISAM", "latin1_bin"),
)  # fmt: skip
TABLES: Final = [
    TableDefinition(
        "s",
        "t",
        (
            ColumnDefinition("id", "bigint(20) unsigned", nullable=False, auto_increment=True),
            ColumnDefinition("e", "enum('a\tb','c\\d')", collation="latin1_bin"),
            ColumnDefinition("n", "text", nullable=False),
            ColumnDefinition("g", "int", visible=False, generated_from=("id",), virtual=True),
            ColumnDefinition("at", "datetime", default_now=True, on_update_now=True),
        ),
        ("n", "id"),
        (7, 0),
        collation="utf8mb4_bin",
    ),
    TableDefinition("s", "u", (ColumnDefinition("é", "int"),), engine="MyISAM", collation="latin1_bin"),
]


def lines(*rows: tuple[object, ...]) -> str:
    """Return the rows as `mysql --batch` prints them."""
    escaped = (
        "\t".join(
            "NULL" if value is None else str(value).replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n")
            for value in row
        )
        for row in (HEAD, *rows)
    )
    return "\n".join(escaped) + "\n"


def schema(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["schema", *map(str, arguments)])


@pytest.mark.parametrize(
    "case",
    [MYSQL / "rotated", MYSQL / "types_string", MARIADB / "types", MARIADB118 / "types"],
    ids=lambda case: f"{case.parent.name}/{case.name}",
)
def test_logs_are_read_with_the_definitions_that_are_in_them(case: Path, tmp_path: Path) -> None:
    """All rows are those that the DDL in the logs gives, and so they are from a log without it."""
    file = tmp_path / "tables.json"
    done = schema("-o", file, case)
    last = max(case.glob("binlog.0?????"))

    assert (done.exit_code, done.output) == (0, "")
    expected = binlogio.read_rows(case).to_table()
    assert expected.num_rows
    assert binlogio.read_rows(case, definitions=file).to_table().equals(expected)
    for image in ("before", "after"):
        found = binlogio.read_rows(last, definitions=file).to_table()[image].to_pylist()
        assert found == expected[image].to_pylist()[-len(found) :]
        assert not any("@1" in text for text in found if text is not None)


def test_a_table_that_changes_has_its_last_definition(tmp_path: Path) -> None:
    """Also where only DDL follows; the place up to which rows have another one is said."""
    save(tmp_path / "a.000001", query(CREATE), *insert(1, 2), query("ALTER TABLE d.t ADD c INT"))
    done = schema(tmp_path / "a.000001")

    assert [column["name"] for column in json.loads(done.stdout)["columns"]] == ["a", "b", "c"]
    assert done.exit_code == 0
    assert "d.t: its rows up to" in done.stderr
    assert "a.000001:" in done.stderr


def test_rows_of_a_table_that_the_logs_do_not_define_are_reported(tmp_path: Path) -> None:
    save(tmp_path / "a.000001", query("CREATE TABLE d.u (p INT)"), *insert(1, 2))
    save(tmp_path / "b.000001", *insert(1, 2))
    some, none = schema(tmp_path / "a.000001"), schema("-o", tmp_path / "out", tmp_path / "b.000001")

    assert (some.exit_code, json.loads(some.stdout)["name"]) == (1, "u")
    assert "d.t: left out: " in some.stderr
    assert (none.exit_code, none.stderr.splitlines()[-1]) == (2, "binlogio: no table definition found")
    assert not (tmp_path / "out").exists()


def test_character_sets_that_are_not_in_the_logs_are_named(tmp_path: Path) -> None:
    """CREATE DATABASE is not in the log, nor are there maps with character sets."""
    path = save(tmp_path / "a.000001", query("CREATE TABLE d.u (p INT, v VARCHAR(5), w TEXT CHARACTER SET latin1)"))
    found = logged_tables(find_logs(str(path)))

    assert found.assumed == {"d.u": ("v",)}
    assert "character set of these columns, only ASCII is read as text: d.u (v)" in schema(path).stderr


def test_dropped_tables_with_rows_stay_and_others_do_not(tmp_path: Path) -> None:
    """Their rows are read with the file."""
    statements = (query("CREATE TABLE d.u (p INT)"), query("DROP TABLE d.u"), query("DROP TABLE d.t"))
    path = save(tmp_path / "a.000001", query(CREATE), *insert(1, 2), *statements)

    assert [table.full_name for table in logged_tables(find_logs(str(path))).definitions] == ["d.t"]


def test_metadata_counts_where_it_contradicts_the_statements(tmp_path: Path) -> None:
    """An ALTER TABLE is not in the log (sql_log_bin=0)."""
    path = save(tmp_path / "a.000001", query("CREATE TABLE d.t (a INT, z INT)"), mapped(INTS, "FULL"), query("COMMIT"))
    (table,) = logged_tables(find_logs(str(path))).definitions

    assert [column.name for column in table.columns] == ["a", "b"]


def test_output_of_the_query_is_taken_as_lines_and_as_json(tmp_path: Path) -> None:
    (tmp_path / "in.tsv").write_text("\ufeff" + lines(*ROWS), "utf-8")
    values = [dict(zip(HEAD, row, strict=True)) for row in ROWS]

    assert parse_information_schema(lines(*ROWS)) == TABLES
    assert parse_information_schema(json.dumps(values)) == TABLES
    assert parse_information_schema("\n".join(map(json.dumps, values))) == TABLES
    done = schema("--information-schema", tmp_path / "in.tsv")
    assert [json.loads(line) for line in done.stdout.splitlines()] == [table.to_json() for table in TABLES]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "not the output of the query"),
        ("TABLE_SCHEMA\tTABLE_NAME\ns\tt\n", "expected table_schema, table_name, column_name"),
        (lines(*ROWS)[:-20], "a line has another number of values than the first one"),
        (lines(ROWS[0], ROWS[5], ROWS[1]), "the columns of a table are not together"),
        ("[1]", "a row is not a JSON object"),
        ('{"a"', "the rows are not JSON"),
        (lines((*ROWS[0][:3], "what", *ROWS[0][4:])), "what"),
        (lines((*ROWS[0][:9], "x", *ROWS[0][10:])), "KEY_POSITION"),
    ],
)
def test_other_texts_are_refused(text: str, expected: str, tmp_path: Path) -> None:
    (tmp_path / "in.tsv").write_text(text, "utf-8")
    with pytest.raises(UnsupportedFeature, match=expected):
        parse_information_schema(text)
    done = schema("--information-schema", tmp_path / "in.tsv")

    assert done.exit_code == 2
    assert done.stderr.startswith(f"binlogio: {tmp_path / 'in.tsv'}: ")


def test_logs_a_listing_and_the_query_exclude_each_other(tmp_path: Path) -> None:
    (tmp_path / "in.tsv").write_text(lines(*ROWS), "utf-8")
    for arguments in ((), ("--query", MYSQL), ("--query", "--information-schema", tmp_path / "in.tsv")):
        assert schema(*arguments).exit_code == 2
    assert "FROM information_schema.COLUMNS" in schema("--query").stdout
