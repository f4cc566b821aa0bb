"""`explain`: format, cache and flush of each statement, against WL#2687 and in sequences of other servers.

The tables are transcribed here as letters for each statement: format (S or R), cache (S, T, or D where there is none)
and flush (D at once, C, R, or I for never), `!` where the worklog warns.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from binlogio.errors import UnsupportedFeature
from binlogio.options import ServerVariables
from binlogio.schema import ColumnDefinition, TableDefinition
from binlogio.writer.explain import (
    FORMATS,
    TABLES,
    ExplainedStatement,
    explain,
    is_notation,
    steps_of_notation,
    steps_of_sql,
)
from binlogio.writer.rules.known_objects import KnownObjects
from binlogio.writer.rules.statement_text import facts_from_sql

# 6.b is `SSD SSD STR` in the worklog's table in STATEMENT format. Its text, its requirement 4 and a server discard T.
WORKLOG = {
    "1.a B T T C": ("STC STC", "RTC RTC", "STC STC"),
    "1.b B T T R": ("STI STI", "RTI RTI", "STI STI"),
    "2.a B T N C": ("STC STC!", "RTC RSD", "STC RSD"),
    "2.b B T N R": ("STR STR!", "RTI RSD", "STI RSD"),
    "3.a T": ("STC", "RTC", "STC"),
    "3.b T!": ("STI", "RTI", "STI"),
    "4.a N": ("SSD", "RSD", "SSD"),
    "5.a M": ("STC!", "RSD+RTC", "RSD+RTC"),
    "5.b M!": ("STR!", "RSD+RTI", "RSD+RTI"),
    "6.a B N N T C": ("SSD SSD STC", "RSD RSD RTC", "SSD SSD STC"),
    "6.b B N N T R": ("SSD SSD STI", "RSD RSD RTI", "SSD SSD STI"),
    "7.a B N N C": ("SSD SSD", "RSD RSD", "SSD SSD"),
    "7.b B N N R": ("SSD SSD", "RSD RSD", "SSD SSD"),
    "8.a B M T C": ("STC! STC", "RSD+RTC RTC", "RSD+RTC STC"),
    "8.b B M T R": ("STR! STR", "RSD+RTI RTI", "RSD+RTI STI"),
    "9.a B M N C": ("STC! STC!", "RSD+RTC RSD", "RSD+RTC RSD"),
    "10.a B N M C": ("SSD STC!", "RSD RSD+RTC", "SSD RSD+RTC"),
    "10.b B N M R": ("SSD STR!", "RSD RSD+RTI", "SSD RSD+RTI"),
    "11.a B T M C": ("STC STC!", "RTC RSD+RTC", "STC RSD+RTC"),
    "11.b B T M R": ("STR STR!", "RTI RSD+RTI", "STI RSD+RTI"),
}


def explained(
    text: str, binlog_format: str = "STATEMENT", rule_set: str = "9.7", **more: object
) -> list[ExplainedStatement]:
    """Explain a sequence or SQL, without GTIDs."""
    steps = steps_of_notation(text) if is_notation(text) else steps_of_sql(text)
    variables = ServerVariables(gtid_mode="OFF", binlog_format=binlog_format, rule_set=rule_set)
    return explain(steps, variables, **more)  # type: ignore[arg-type]


def letters(text: str, binlog_format: str = "STATEMENT", rule_set: str = "9.7") -> str:
    """Return the letters of the statements that write tables."""
    return " ".join(one.letters for one in explained(text, binlog_format, rule_set) if one.letters)


@pytest.mark.parametrize("binlog_format", FORMATS)
@pytest.mark.parametrize("row", WORKLOG)
def test_the_definition_tables_of_the_worklog(row: str, binlog_format: str) -> None:
    """All three layers, in a session of the rule set 5.5.9."""
    _, _, sequence = row.partition(" ")

    assert letters(sequence, binlog_format, "5.5.9") == WORKLOG[row][FORMATS.index(binlog_format)]


# "Summary of the solutions": what is logged of a statement that ends in an error, in a transaction that is committed.
@pytest.mark.parametrize(
    ("sequence", "statement", "row"),
    [
        ("B T! C", "STI", "RTI"),
        ("B N! C", "SSD", "RSD"),
        ("B T N! C", "STC STC!", "RTC RSD"),
        ("B M! C", "STC!", "RSD+RTI"),
        ("B T M! C", "STC STC!", "RTC RSD+RTI"),
        ("B T M! R", "STR STR!", "RTI RSD+RTI"),
    ],
)
def test_the_summary_of_the_worklog_with_errors(sequence: str, statement: str, row: str) -> None:
    assert letters(sequence, "STATEMENT", "5.5.9") == statement
    assert letters(sequence, "ROW", "5.5.9") == row


@pytest.mark.parametrize(
    ("sequence", "rule_set", "expected"),
    [
        ("B T N C", "5.0", "STC STC"),
        ("N", "5.0", "SDD"),
        ("B N N T C", "5.1.31", "SDD SDD STC"),
        ("B N N T C", "5.5.4", "SSD SSD STC"),
        ("NT", "5.5.9", "STC!"),
        ("NT", "9.7", "SSD"),
        ("B TN C", "9.7", "STC!"),
        ("B T S T RS C", "9.7", "STC STI"),
        ("B T S N RS R", "9.7", "STR STR!"),
        ("B T", "9.7", "STI"),
    ],
)
def test_sequences_by_the_rules_of_other_servers(sequence: str, rule_set: str, expected: str) -> None:
    assert letters(sequence, rule_set=rule_set) == expected


def test_sql_with_ddl_and_a_refusal() -> None:
    sql = (
        "CREATE TABLE w (a INT) ENGINE=MyISAM; BEGIN; INSERT INTO t VALUES (1, 1); INSERT INTO w VALUES (';')"
        "; INSERT INTO w SELECT 1 /* error 1062 */; COMMIT;"
    )
    found = explain(steps_of_sql(sql), ServerVariables(binlog_format="STATEMENT"))

    assert [one.letters for one in found] == ["SDD", "", "STC", "E", "E", ""]
    assert [one.group_end for one in found] == ["DIRECT", "", "", "", "", "XID"]
    assert found[3].refusal is not None
    assert found[3].refusal.errno == 1785
    assert found[4].error == 1062


def test_warnings_and_reasons() -> None:
    (found,) = explained("DELETE FROM t WHERE b = UUID() LIMIT 2")

    assert found.unsafe == ("LIMIT", "SYSTEM_FUNCTION")
    assert [warning.errno for warning in found.warnings] == [1592, 1592]


def test_given_tables_and_views_are_used() -> None:
    table = TableDefinition("test", "x", (ColumnDefinition("a", "int"),), engine="MyISAM")
    objects = KnownObjects(views={"test.v": "SELECT a FROM x LIMIT 1"})
    (found,) = explained("INSERT INTO x SELECT a FROM v", "MIXED", tables=[table], objects=objects)

    assert found.letters == "RSD"
    assert found.unsafe == ("LIMIT",)


@pytest.mark.parametrize("text", ["B T X C", "B! T"])
def test_unknown_steps_are_refused(text: str) -> None:
    with pytest.raises(UnsupportedFeature, match="unknown step"):
        steps_of_notation(text)


def test_an_unknown_table_is_refused() -> None:
    with pytest.raises(UnsupportedFeature, match=r"the table is not defined, found test\.z"):
        explained("INSERT INTO z VALUES (1)")


@pytest.mark.parametrize("blank", [" ", "\n\t", " /* why */ ", " # why\n", "/**/"], ids=repr)
def test_transaction_is_explained_however_it_is_spelt(blank: str) -> None:
    """Comments, capitals and quoted savepoints, also with blanks in the name; USE as well."""
    spelt = (
        "start TRANSACTION;-T;SavePoint `a-b`;-T;ROLLBACK WORK TO SAVEPOINT `a-b`;-release savepoint `a-b`;COMMIT WORK"
    )
    text = f"/* app */ USE{blank}`d-1`; " + spelt.replace(" ", blank).replace("-T", "INSERT INTO test.t VALUES (1, 1)")

    found = explained(text.replace("-", " "))

    assert [one.letters for one in found if one.letters] == ["STC", "STI"]
    assert [one.group_end for one in found] == ["", "", "", "", "", "", "", "XID"]


# Sequences on a 9.7 server: letters, ends of groups, and numbers of warnings that were not explained as it logs them.
@pytest.mark.parametrize(
    ("binlog_format", "sql", "expected", "ends", "warnings"),
    [
        ("ROW", "INSERT INTO t SELECT * FROM n FOR UPDATE", "RTC", "XID", [6414]),
        ("STATEMENT", "INSERT INTO n SELECT * FROM t FOR UPDATE", "SSD", "COMMIT", [6414]),
        ("ROW", "BEGIN; INSERT INTO t SELECT * FROM n FOR UPDATE; COMMIT", "RTC", " COMMIT XID", [6414]),
        (
            "ROW",
            "CREATE TEMPORARY TABLE tmp SELECT * FROM n; INSERT INTO n VALUES (1, 1)",
            " RSD",
            " COMMIT",
            [],
        ),
        (
            "STATEMENT",
            "BEGIN; CREATE TEMPORARY TABLE tmp SELECT * FROM n; DROP TEMPORARY TABLE IF EXISTS tmp; COMMIT",
            "STC STC",
            "   COMMIT",
            [],
        ),
        (
            "STATEMENT",
            "CREATE TEMPORARY TABLE tmp (a INT); DROP TEMPORARY TABLE tmp; DROP TEMPORARY TABLE IF EXISTS tmp",
            "SDD SDD ",
            "DIRECT DIRECT ",
            [],
        ),
        (
            "ROW",
            (
                "CREATE TABLE m (a INT) ENGINE=MyISAM; CREATE TRIGGER a AFTER INSERT ON n FOR EACH ROW DELETE FROM m; "
                "CREATE TRIGGER b BEFORE DELETE ON m FOR EACH ROW UPDATE t SET b = 1; INSERT INTO n VALUES (1, 1)"
            ),
            "SDD SDD SDD RSD+RTC",
            "DIRECT DIRECT DIRECT XID",
            [6414],
        ),
        (
            "MIXED",
            "CREATE TRIGGER a BEFORE UPDATE ON t FOR EACH ROW SET @x = UUID(); UPDATE n, t SET n.b = 2",
            "SDD RSD",
            "DIRECT COMMIT",
            [],
        ),
        (
            "ROW",
            "BEGIN; INSERT INTO n SELECT * FROM t; SAVEPOINT s; INSERT INTO t VALUES (1, 1); ROLLBACK TO s; COMMIT",
            "RSD  RTI",
            " COMMIT    XID",
            [6414, 1196],
        ),
    ],
)
def test_sequences_are_explained_as_a_server_logs_them(
    binlog_format: str, sql: str, expected: str, ends: str, warnings: list[int]
) -> None:
    found = explained(sql, binlog_format)
    writes = [one for one in found if one.sql.split()[0] not in ("BEGIN", "COMMIT", "ROLLBACK")]

    assert " ".join(one.letters.rstrip("!") for one in writes).rstrip() == expected.rstrip()
    assert " ".join(one.group_end for one in found) == ends
    assert [warning.errno for one in found for warning in one.warnings if warning.errno != 1592] == warnings


def test_functions_that_write_are_explained_with_their_rows() -> None:
    """DO and SELECT, also after a statement that was warned of and before one that is refused without a warning."""
    body = facts_from_sql("INSERT INTO n VALUES (1, 1)", "test", TABLES)
    steps = ["DO f()", "INSERT INTO t SELECT a, b FROM n LIMIT 1", "UPDATE t SET b = 2"]
    objects = KnownObjects(routines={"f": body})
    variables = ServerVariables(binlog_format="STATEMENT", transaction_isolation="READ-COMMITTED", gtid_mode="OFF")

    rows = explain(steps[:1], replace(variables, binlog_format="ROW"), objects=objects)
    found = explain([*steps[:1], "CREATE TEMPORARY TABLE m ENGINE=MEMORY SELECT * FROM t", *steps[1:]], variables)

    assert [(one.letters, one.group_end) for one in rows] == [("RSD", "COMMIT")]
    assert [[warning.errno for warning in one.warnings] for one in found] == [[], [1592], [], []]


def test_a_trigger_of_an_unknown_table_is_refused() -> None:
    with pytest.raises(UnsupportedFeature, match=r"the table is not defined, found test\.z"):
        explained("CREATE TRIGGER a AFTER INSERT ON z FOR EACH ROW DELETE FROM t")
