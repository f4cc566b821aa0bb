"""`binlogio explain`: the grid, JSON, the definition tables of the documentation, and wrong usage."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

import pytest
from click.testing import CliRunner

from binlogio_cli.main import cli
from corpus import ROOT

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result

DOCUMENT = (ROOT / "docs" / "explain.md").read_text(encoding="utf-8")


def explain(*args: str, **more: str) -> Result:
    return CliRunner().invoke(cli, ["explain", *args], **more)  # type: ignore[arg-type]


def test_a_grid_has_a_row_for_each_statement_and_a_column_for_each_format() -> None:
    result = explain("B T N C", "--set", "gtid_mode=OFF")
    lines = [re.split(r"  +", line.strip()) for line in result.stdout.splitlines()]

    assert result.exit_code == 0
    assert lines[1] == ["STATEMENT", "ROW", "MIXED"]
    assert ["INSERT INTO t VALUES (1, 1)", "text trx COMMIT", "rows trx COMMIT", "text trx COMMIT"] in lines
    assert ["INSERT INTO n VALUES (1, 1)", "text trx COMMIT", "rows stmt at once", "rows stmt at once"] in lines
    assert ["COMMIT", "ends in XID", "ends in XID", "ends in XID"] in lines
    assert any("1592 NONTRANS_AFTER_TRANS" in cell for line in lines for cell in line)


def test_json_has_a_line_for_each_statement_format_and_rule_set() -> None:
    result = explain("B N M! R", "--rules", "5.5.9", "--rules", "9.7.4", "--json", "--set", "gtid_mode=ON")
    found = [json.loads(line) for line in result.stdout.splitlines()]

    assert len(found) == 2 * 3 * 4
    assert found[1]["logged"] == [{"as": "text", "cache": "stmt", "flush": "at once"}]
    assert found[2]["error"] == 1062
    assert found[2]["refused"] is None  # a server 5.5.9 has no GTIDs
    assert found[14]["refused"]["errno"] == 1785
    assert {one["rules"] for one in found} == {"5.5.9", "9.7.4"}


@pytest.mark.parametrize(
    ("rules", "option", "cell"),
    [
        ((), (), "refused: 1785 ER_GTID_UNSAFE_NON_TRANSACTIONAL_TABLE"),
        (("--rules", "9.7.4"), (), "refused: 1785 ER_GTID_UNSAFE_NON_TRANSACTIONAL_TABLE"),
        (("--rules", "8.0.36"), (), "text trx COMMIT"),
        (("--rules", "8.0"), (), "text trx COMMIT"),
        (("--rules", "9"), (), "refused: 1785 ER_GTID_UNSAFE_NON_TRANSACTIONAL_TABLE"),
        (("--rules", "9.7"), ("--set", "gtid_mode=OFF"), "text trx COMMIT"),
        (("--rules", "5.5.9"), (), "text trx COMMIT"),
    ],
)
def test_gtids_are_on_as_in_a_server_of_the_version(rules: tuple[str, ...], option: tuple[str, ...], cell: str) -> None:
    """A 9.7 server without options refuses an N statement after a T one, and so does `write`."""
    row = next(line for line in explain("B T N C", *rules, *option).stdout.splitlines() if "INTO n" in line)

    assert re.split(r"  +", row.strip())[1] == cell


@pytest.mark.parametrize(
    ("version", "cells"), [("5.1.31", "trx ROLLBACK"), ("5.1.43", "trx ROLLBACK"), ("5.1.44", "none at once")]
)
def test_a_version_is_this_version(version: str, cells: str) -> None:
    """binlog_direct_non_transactional_updates was added in 5.1.44."""
    direct = ("--set", "binlog_direct_non_transactional_updates=1")
    result = explain("BEGIN; INSERT INTO t VALUES (1,1); INSERT INTO n VALUES (1,1)", "--rules", version, *direct)
    row = next(line for line in result.stdout.splitlines() if "INTO n" in line)

    assert re.split(r"  +", row.strip())[1] == f"text {cells}"


TRIGGER: Final = "CREATE TRIGGER tr AFTER INSERT ON t FOR EACH ROW "
AI: Final = "CREATE TABLE ai (id INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(40)); "


def test_a_trigger_is_explained_with_the_statements_that_fire_it() -> None:
    """As by a 9.7.4 server: rows in MIXED format, two warnings in STATEMENT format; without it nothing is unsafe."""
    text = f"{AI}{TRIGGER}INSERT INTO ai(v) VALUES (UUID()); INSERT INTO t VALUES (1,1); DROP TRIGGER tr; "
    found = [json.loads(line) for line in explain(f"{text}INSERT INTO t VALUES (2,1)", "--json").stdout.splitlines()]
    by_format = {one["binlog_format"]: one for one in found if one["number"] == 3}

    assert by_format["MIXED"]["logged"][0]["as"] == "rows"
    assert [one["errno"] for one in by_format["STATEMENT"]["warnings"]] == [1592, 1592]
    assert [one["logged"][0]["as"] for one in found if one["number"] == 5] == ["text", "rows", "text"]


@pytest.mark.parametrize(
    "trigger",
    [
        "CREATE DEFINER = `an app`@`%` TRIGGER `a.b` AFTER INSERT ON t FOR EACH ROW",
        "CREATE /* why */ TRIGGER test.tr BEFORE INSERT ON `test` . `t` FOR EACH ROW\nFOLLOWS x",
    ],
)
def test_a_trigger_may_be_written_in_other_ways(trigger: str) -> None:
    lines = explain(
        f"{AI}{trigger} INSERT INTO ai(v) VALUES (1); INSERT INTO t VALUES (1,1)", "--json"
    ).stdout.splitlines()
    found = {(one["number"], one["binlog_format"]): one["logged"][0]["as"] for one in map(json.loads, lines)}

    assert found[3, "MIXED"] == "rows"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"{TRIGGER}BEGIN INSERT INTO n VALUES (1,1); END", "only triggers with one statement can be explained"),
        (f"{TRIGGER}CALL p()", "only triggers with one statement can be explained"),
        ("CREATE PROCEDURE p() INSERT INTO t VALUES (1,1); CALL p()", "the statements of a stored routine"),
        (
            "CREATE FUNCTION f() RETURNS INT RETURN 1; INSERT INTO t VALUES (F(),1)",
            "the statements of a stored routine",
        ),
    ],
)
def test_what_is_not_known_is_refused_with_what_to_give(text: str, message: str) -> None:
    result = explain(text)

    assert result.exit_code == 2
    assert message in result.stderr
    assert "binlogio write" in result.stderr


def test_statements_come_from_standard_input_and_tables_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "schema.sql"
    file.write_text("USE shop; CREATE TABLE orders (id INT PRIMARY KEY) ENGINE=MyISAM;")
    result = explain("-", "--database", "shop", "--table-definitions", str(file), input="DELETE FROM orders LIMIT 1;")

    assert "warning 1592 LIMIT" in result.stdout


@pytest.mark.parametrize("rules", ["5.5.9", "9.7"])
def test_the_documentation_has_the_definition_tables(rules: str) -> None:
    assert explain("--table", "--rules", rules).stdout.strip() in DOCUMENT


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((), "give statements, or --table"),
        (("INSERT INTO missing VALUES (1)",), "the table is not defined, found test.missing"),
        (("B T C", "--rules", "soup"), "soup"),
        (("INSERT INTO",), "sqlglot cannot parse this statement"),
    ],
)
def test_wrong_usage_is_one_sentence(args: tuple[str, ...], message: str) -> None:
    result = explain(*args)

    assert result.exit_code == 2
    assert message in result.stderr
    assert "Traceback" not in result.output
