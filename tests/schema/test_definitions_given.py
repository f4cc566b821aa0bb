"""Definitions that a user gives: mappings, SQL and JSON files, another log's metadata, also to other processes."""

from __future__ import annotations

import io
import json
import pickle
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

import pytest
from click.testing import CliRunner

import binlogio
from binlogio.columnar.parallel import log_cuts
from binlogio.errors import UnsupportedFeature
from binlogio.schema import from_table_map
from binlogio.schema.ddl.server_defaults import ServerDefaults
from binlogio.schema.given import GivenDefinitions
from binlogio_cli.main import cli
from corpus import MYSQL
from defined_logs import CONTEXT, CREATE, INTS, everywhere, insert, mapped, save, table

if TYPE_CHECKING:
    from pathlib import Path


SCHEMA_DUMP: Final = """-- MySQL dump
/*!40101 SET @saved_cs_client = @@character_set_client */;
CREATE DATABASE /*!32312 IF NOT EXISTS*/ `d` /*!40100 DEFAULT CHARACTER SET latin1 */;
USE `d`;
DROP TABLE IF EXISTS `t`;
CREATE TABLE `t` (
  `a` int unsigned NOT NULL COMMENT 'a; b',
  `b` int DEFAULT NULL /*!80023 INVISIBLE */
) ENGINE=InnoDB;
ALTER TABLE `t` RENAME COLUMN `b` TO `c`;
CREATE VIEW v AS SELECT 1;
"""


FILES: Final = [
    ("a.sql", SCHEMA_DUMP, ["a", "c"]),
    ("a.sql", "\ufeffCREATE TABLE d.t (p INT, q INT)", ["p", "q"]),
    ("a.json", json.dumps(INTS.to_json()), ["a", "b"]),
    ("a.json", json.dumps([INTS.to_json(), {**INTS.to_json(), "name": "u"}]), ["a", "b"]),
    ("a.json", json.dumps({"d.t": "CREATE TABLE x (p INT, q INT)"}), ["p", "q"]),
    ("a.json", json.dumps({"d.t": {"columns": INTS.to_json()["columns"]}}), ["a", "b"]),
    (
        "a.jsonl",
        "\n\n".join(json.dumps({"do": "table", **INTS.to_json(), "name": name}) for name in ("u", "t")) + "\n",
        ["a", "b"],
    ),
]


@pytest.mark.parametrize(("name", "text", "expected"), FILES)
def test_definitions_come_from_files_too(tmp_path: Path, name: str, text: str, expected: list[str]) -> None:
    path = save(tmp_path / "a.000001", *insert(1, 2))
    (tmp_path / name).write_text(text, "utf-8")
    result = CliRunner().invoke(cli, ["dump", "--table-definitions", str(tmp_path / name), str(path)])

    assert everywhere(path, definitions=tmp_path / name) == [dict(zip(expected, (1, 2), strict=True))]
    assert f"###   `{expected[0]}`=1\n###   `{expected[1]}`=2\n" in result.stdout


@pytest.mark.parametrize(("name", "text", "expected"), FILES)
def test_replay_and_undo_take_the_files_that_dump_takes(
    tmp_path: Path, name: str, text: str, expected: list[str]
) -> None:
    """Names and keys of a log that has neither."""
    given, path = str(tmp_path / name), str(save(tmp_path / "a.000001", *insert(1, 2)))
    (tmp_path / name).write_text(text, "utf-8")
    target = f"sqlite:///{tmp_path / 'x.db'}"
    replayed = CliRunner().invoke(cli, ["replay", "--to", target, "--table-definitions", given, path])
    undone = CliRunner().invoke(cli, ["undo", "--table-definitions", given, path])
    with closing(sqlite3.connect(tmp_path / "x.db")) as connection:
        names = [column for column, *_ in connection.execute('SELECT * FROM "d.t"').description]

    assert (replayed.exit_code, undone.exit_code) == (0, 0)
    assert names == expected
    assert f"DELETE FROM `d`.`t` WHERE `{expected[0]}` = 1 AND `{expected[1]}` = 2 LIMIT 1;" in undone.stdout


@pytest.mark.parametrize("command", [["dump"], ["replay", "--to", "dry-run:"], ["undo"]], ids=lambda words: words[0])
@pytest.mark.parametrize(
    "text", ["{", "[1]", "[" * 100_000, '{"schema": "d"}', "SELECT 1", ""], ids=lambda text: text[:8]
)
def test_commands_refuse_files_without_definitions_by_name(tmp_path: Path, command: list[str], text: str) -> None:
    """The exit code is that of wrong usage, for each command."""
    path = tmp_path / "tables"
    path.write_text(text, "utf-8")
    result = CliRunner().invoke(cli, [*command, "--table-definitions", str(path), str(tmp_path / "no.log")])

    assert result.exit_code == 2
    assert result.stderr.startswith(f"binlogio: {path}: ")


@pytest.mark.parametrize(
    ("definitions", "message"),
    [
        ({}, "no table definition found"),
        ({"t": INTS}, "t: not the character set of a database, expected a name, such as utf8mb4"),
        ({"d": "klingon"}, "d: unknown character set"),
        ({".t": INTS}, "not the name of a table"),
        ({"d.t": 7}, "not a table definition"),
        ({"d.t": "CREATE TABLE t (a NOSUCHTYPE)"}, "d.t: SQL: the statement cannot be parsed"),
        ({"d.t": "CREATE TABLE t LIKE u"}, "has no column list"),
        ({"d.t": "{not json"}, "not JSON"),
        ({"d.t": {"columns": []}}, "invalid table definition"),
        ({"d.t": {"column": []}}, "unknown or missing keys"),
    ],
)
def test_what_is_no_definition_is_refused_at_once(definitions: Any, message: str) -> None:
    with pytest.raises(UnsupportedFeature, match=message):
        binlogio.open(io.BytesIO(), definitions=definitions)


def test_who_gives_all_that_is_asked_for_reads_with_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """No statement needs to be followed then."""
    monkeypatch.setattr(log_cuts, "SMALLEST_PART", 4096)
    create = "CREATE TABLE hot (mine INT PRIMARY KEY, yours INT)"
    found = binlogio.read_rows(
        MYSQL / "group_commit" / "binlog.000001", table="corpus.hot", threads=2, definitions={"corpus.hot": create}
    ).to_table()

    assert [field.name for field in found.schema.field("after").type] == ["mine", "yours"]


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.sql", b"CREATE TABLE d.t (a NOSUCHTYPE);", "d.t: the definition of a table is not understood"),
        ("a.sql", b"CREATE TABLE t (a INT);", "put USE schema; before it"),
        ("a.sql", b"SELECT 1;", "no table definition found"),
        ("a.sql", b"CREATE TABLE d.t (a INT COMMENT 'no end", "unterminated quote"),
        ("a.sql", b"\xff\xfe", "is not valid"),
        ("a.sql", b"CREATE TABLE \0", "is not valid, found a zero byte at 13"),
        ("a.json", b"[", "is not valid"),
        ("a.json", b"[7]", "not a JSON object"),
    ],
)
def test_files_without_definitions_are_refused_by_name(tmp_path: Path, name: str, data: bytes, message: str) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(UnsupportedFeature, match=message) as caught:
        binlogio.read_tables(tmp_path, definitions=path)

    assert caught.value.file == str(path)


def test_an_endless_device_is_no_file_of_definitions(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedFeature, match="/dev/zero: the file of table definitions is not valid"):
        binlogio.read_tables(tmp_path, definitions="/dev/zero")


def test_definitions_travel_between_processes() -> None:
    """Spark pickles them."""
    given = pickle.loads(pickle.dumps(GivenDefinitions({"d.t": INTS, "d.u": CREATE})))  # noqa: S301 - our own
    found = given.find("d", "u", ServerDefaults.of(CONTEXT))

    assert found is not None
    assert [column.name for column in found.definition.columns] == ["a", "b"]


def test_a_definition_from_full_metadata_can_be_given_back(tmp_path: Path) -> None:
    """`from_table_map` of one log names the columns of another."""
    full = mapped(table("int", "int"), "FULL")
    path = save(tmp_path / "a.000001", *insert(1, 2))

    assert everywhere(path, definitions={"d.t": from_table_map(full)}) == [{"x0": 1, "x1": 2}]
