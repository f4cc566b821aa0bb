"""`binlogio explain`: the grid, JSON, the definition tables of the documentation, and wrong usage."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

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
    result = explain("B T N C")
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
    assert found[2]["refused"]["errno"] == 1785
    assert {one["rules"] for one in found} == {"5.5.9", "9.7.4"}


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
