"""Scripts of `binlogio write`: the schema, the actions, crashes, and lines of the wrong form."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any, Final

import jsonschema
import pytest
from click.testing import CliRunner, Result

import binlogio
import binlogio_cli.write.script  # noqa: F401 - registers the actions
from binlogio.constants import EventType, HeaderFlag, QueryStatus
from binlogio.events.base import event_name
from binlogio.events.control import XaPrepareEvent
from binlogio.events.format_description import FormatDescriptionEvent
from binlogio.events.gtid import GtidEvent
from binlogio.events.mariadb import MariadbGtidEvent
from binlogio.events.query import QueryEvent
from binlogio.events.table_map import TableMapEvent
from binlogio_cli.main import cli
from binlogio_cli.write.actions import ACTIONS, check_line, check_variables, script_schema
from corpus import FIXTURES, ROOT

SESSIONS: Final = FIXTURES / "demo" / "sessions.jsonl"
SCRIPTS: Final = [path for path in sorted(FIXTURES.glob("demo/*.jsonl")) if ".tables." not in path.name]
TABLE: Final = {"do": "ddl", "schema": "s", "sql": "CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(20))"}
INSERT: Final = {
    "do": "execute",
    "sql": "INSERT INTO t VALUES (1, 'x')",
    "changes": [{"insert": "s.t", "rows": [{"id": 1, "a": "x"}]}],
}


def lines_of(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines() if line.strip() and not line.startswith("#")]


def documented() -> list[dict[str, Any]]:
    """Return the lines in the snippets of the documentation that are run without an error."""
    text = (ROOT / "docs" / "write.md").read_text(encoding="utf-8")
    return [json.loads(line) for line in re.findall(r"^\$ echo '(.*?)' \| binlogio write - -o", text, re.MULTILINE)]


LINES: Final = [line for script in SCRIPTS for line in lines_of(script.read_text(encoding="utf-8"))] + documented()


def write(folder: Path, lines: list[Any], *options: str) -> Result:
    text = "".join(f"{json.dumps(line)}\n" for line in lines)
    return CliRunner().invoke(cli, ["write", "-", "--out", str(folder), *options], input=text)


def names_of(folder: Path) -> list[str]:
    with binlogio.open(folder) as reader:
        return [event_name(event.header.type_code) for event in reader]


def queries(folder: Path) -> list[str]:
    with binlogio.open(folder) as reader:
        return [event.sql.decode() for event in reader if isinstance(event, QueryEvent)]


def test_the_schema_in_the_documentation_is_that_of_the_program() -> None:
    """It is the output of `binlogio write --schema`."""
    result = CliRunner().invoke(cli, ["write", "--schema"])

    assert result.exit_code == 0
    assert (ROOT / "docs" / "write_script.schema.json").read_text(encoding="utf-8") == result.stdout


def test_the_schema_is_valid_and_accepts_every_script() -> None:
    schema = script_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)

    assert len(SCRIPTS) >= 3
    assert [line for line in LINES if not validator.is_valid(line)] == []


def test_every_action_is_in_a_script_and_in_the_documentation() -> None:
    """The scripts are run by tests; so are the snippets of the documentation."""
    text = (ROOT / "docs" / "write.md").read_text(encoding="utf-8")
    table = text[text.index("| actions |") : text.index("[write_script.schema.json]")]
    first_cells = "".join(line.split("|")[1] for line in table.splitlines() if line.startswith("|"))

    assert {line["do"] for line in LINES if "do" in line} == {"variables", *ACTIONS}
    assert set(re.findall(r"`(\w+)`", first_cells)) == {"variables", *ACTIONS}


def test_every_key_of_execute_is_in_a_script_but_those_that_are_tested_here() -> None:
    used = {key for line in LINES if line["do"] == "execute" for key in line}

    assert {*ACTIONS["execute"].properties} - used == {"table_exists", "modifies_engine", "updated_schemas"}


def test_our_check_accepts_and_refuses_what_the_schema_does() -> None:
    """Lines of the scripts with one value replaced, removed or added: both sides agree about each."""
    validator, chance = jsonschema.Draft202012Validator(script_schema()), random.Random(7)
    values: list[Any] = [None, True, -1, 7, 1.5, "x", [], {}, [1], {"x": 1}, "INSERT", ["INSERT"]]
    different, refused = [], 0
    for _ in range(3000):
        line = json.loads(json.dumps(chance.choice(LINES)))
        node: Any = line
        while isinstance(node, (dict, list)) and node:
            key = chance.choice([*node] if isinstance(node, dict) else range(len(node)))
            if not isinstance(node[key], (dict, list)) or not node[key] or chance.random() < 0.4:
                if key == "do":
                    break
                if chance.random() < 0.2:
                    del node[key]
                else:
                    node[key] = chance.choice(values)
                break
            node = node[key]
        found = [*(check_variables if line.get("do") == "variables" else check_line)(line)]
        refused += bool(found)
        if bool(found) == validator.is_valid(line):
            different.append((line, found))

    assert refused > 300
    assert different == []


def test_the_script_of_all_actions_runs(tmp_path: Path) -> None:
    """Its logs have the events that no rows can make."""
    result = CliRunner().invoke(cli, ["write", str(SESSIONS), "--out", str(tmp_path / "logs")])
    names = set(names_of(tmp_path / "logs"))

    assert (result.exit_code, result.stderr) == (0, "")
    assert names >= {
        "INTVAR_EVENT",
        "RAND_EVENT",
        "USER_VAR_EVENT",
        "XA_PREPARE_LOG_EVENT",
        "BEGIN_LOAD_QUERY_EVENT",
        "EXECUTE_LOAD_QUERY_EVENT",
        "PARTIAL_UPDATE_ROWS_EVENT",
        "ROWS_QUERY_LOG_EVENT",
        "GTID_TAGGED_LOG_EVENT",
    }


def test_check_reports_every_line_and_writes_nothing(tmp_path: Path) -> None:
    lines = [
        TABLE,
        {"do": "ececute", "sql": "x"},
        {**INSERT, "changess": []},
        {"do": "set", "variables": {"server_idd": 1}},
    ]
    result = write(tmp_path / "logs", lines, "--check")
    actions, hint = ", ".join(ACTIONS), "did you mean 'execute'?"

    assert result.exit_code == 2
    assert result.stderr.splitlines() == [
        f"binlogio: -:2: \"do\" is 'ececute'; it can be {actions}, and variables on the first line; {hint}",
        "binlogio: -:3: execute with 'changess'; did you mean 'changes'?",
        "binlogio: -:4: variables with 'server_idd'; did you mean 'server_id'?",
    ]
    assert not (tmp_path / "logs").exists()


def test_check_finds_what_only_the_writer_can_refuse(tmp_path: Path) -> None:
    """The script runs, in a temporary directory."""
    right = write(tmp_path / "logs", [TABLE, INSERT], "--check")
    wrong = write(tmp_path / "logs", [TABLE, {"do": "rollback_to", "name": "s"}], "--check")

    assert (right.exit_code, right.stdout) == (0, "2 statements, no errors\n")
    assert wrong.exit_code == 2
    assert wrong.stderr.startswith("binlogio: -:2: ")
    assert not (tmp_path / "logs").exists()


def test_nothing_is_written_if_a_later_line_has_the_wrong_form(tmp_path: Path) -> None:
    assert write(tmp_path / "logs", [TABLE, INSERT, {"do": "nothing"}]).exit_code == 2
    assert not (tmp_path / "logs").exists()


def test_an_output_folder_is_needed_but_for_a_check() -> None:
    result = CliRunner().invoke(cli, ["write", str(SESSIONS)])

    assert result.exit_code == 2
    assert "--out" in result.stderr


# -------------------------------------------------------------------------------------------------------- expectations


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({**INSERT, "refused": 1785}, "the line was not refused; expected error 1785"),
        ({**INSERT, "warnings": [1592]}, "the warnings are []; expected [1592]"),
        ({"do": "rollback_to", "name": "x", "refused": 1785}, "SAVEPOINT x does not exist"),
    ],
)
def test_an_expectation_that_is_not_met_ends_the_script(tmp_path: Path, line: Any, message: str) -> None:
    result = write(tmp_path / "logs", [TABLE, line])

    assert result.exit_code == 2
    assert message in result.stderr


def test_a_line_that_is_refused_as_expected_is_not_in_the_log(tmp_path: Path) -> None:
    result = write(tmp_path / "logs", [TABLE, {"do": "rollback_to", "name": "x", "refused": 1305}, INSERT])

    assert (result.exit_code, result.stderr) == (0, "")
    assert names_of(tmp_path / "logs").count("WRITE_ROWS_EVENT") == 1


# -------------------------------------------------------------------------------------------------------------- crashes


def crashed(tmp_path: Path, *more: Any) -> Path:
    lines = [TABLE, INSERT, {"do": "begin"}, {**INSERT, "changes": [{"insert": "s.t", "rows": [{"id": 2}]}]}, *more]
    result = write(tmp_path / "logs", lines)
    assert (result.exit_code, result.stderr) == (0, "")
    return tmp_path / "logs"


def is_in_use(log: Path) -> bool:
    with binlogio.open(log) as reader:
        return any(
            bool(event.header.flags & HeaderFlag.BINLOG_IN_USE)
            for event in reader
            if isinstance(event, FormatDescriptionEvent)
        )


def test_a_crash_leaves_a_log_in_use_without_an_end(tmp_path: Path) -> None:
    """The open transaction is not in it."""
    logs = crashed(tmp_path, {"do": "crash"})

    assert is_in_use(logs / "binlog.000001")
    assert names_of(logs)[-1] == "XID_EVENT"
    assert names_of(logs).count("WRITE_ROWS_EVENT") == 1
    assert not list(logs.glob("*.lock"))


@pytest.mark.parametrize("after_bytes", [0, 1, 30, 100, 200])
def test_a_crash_in_a_commit_leaves_a_part_of_its_group(tmp_path: Path, after_bytes: int) -> None:
    whole = (crashed(tmp_path / "whole", {"do": "crash"}) / "binlog.000001").stat().st_size
    logs = crashed(tmp_path / "part", {"do": "crash", "after_bytes": after_bytes})
    log = logs / "binlog.000001"
    with binlogio.open(log) as reader:
        rows = sum(event_name(event.header.type_code) == "XID_EVENT" for event in reader)
        torn = [tail.offset for _, tail in reader.torn_tails]

    assert log.stat().st_size == whole + after_bytes
    assert rows == 1
    assert bool(torn) == (after_bytes in (1, 30, 100, 200))


def test_a_crash_after_the_commit_keeps_the_whole_group(tmp_path: Path) -> None:
    logs = crashed(tmp_path, {"do": "crash", "after_bytes": 1 << 20})

    assert names_of(logs).count("XID_EVENT") == 2


def test_a_crash_cannot_cut_a_transaction_that_ends_the_log(tmp_path: Path) -> None:
    """It is whole once the next log begins."""
    rows = [{"id": number, "a": "x" * 20} for number in range(300)]
    lines = [{"do": "variables", "max_binlog_size": 4096}, TABLE, {"do": "begin"}]
    insert = {**INSERT, "changes": [{"insert": "s.t", "rows": rows}]}
    result = write(tmp_path / "logs", [*lines, insert, {"do": "crash", "after_bytes": 10}])

    assert result.exit_code == 2
    assert "-:5: the transaction ends the log (max_binlog_size)" in result.stderr


def test_a_line_after_a_crash_starts_the_server_again(tmp_path: Path) -> None:
    """The part of a group is removed, the log is not in use any more, and GTIDs continue after the last whole group."""
    more = {**INSERT, "changes": [{"insert": "s.t", "rows": [{"id": 3}]}], "schema": "s"}
    logs = crashed(tmp_path, {"do": "crash", "after_bytes": 90}, more)

    assert not is_in_use(logs / "binlog.000001")
    assert [len(list(binlogio.open(logs / f"binlog.00000{i}").groups())) for i in (1, 2)] == [2, 1]


# -------------------------------------------------------------------------------------------------- tables and sessions


def test_tables_are_known_by_the_ddl_and_follow_it(tmp_path: Path) -> None:
    lines = [
        TABLE,
        {"do": "ddl", "sql": "ALTER TABLE t ADD b INT, DROP a"},
        {**INSERT, "sql": "INSERT INTO t VALUES (1, 5)", "changes": [{"insert": "s.t", "rows": [{"id": 1, "b": 5}]}]},
        {"do": "ddl", "sql": "RENAME TABLE t TO u"},
        {**INSERT, "sql": "INSERT INTO u VALUES (2, 5)", "changes": [{"insert": "s.u", "rows": [{"id": 2, "b": 5}]}]},
        {"do": "ddl", "sql": "DROP TABLE u"},
        {**INSERT, "changes": [{"insert": "s.u", "rows": []}]},
    ]
    right, wrong = write(tmp_path / "right", lines[:-1]), write(tmp_path / "wrong", lines)

    assert (right.exit_code, right.stderr) == (0, "")
    assert "-:7: no table 's.u' was defined; defined are no tables" in wrong.stderr


def test_keys_of_the_ddl_make_statements_unsafe(tmp_path: Path) -> None:
    """ON DUPLICATE KEY UPDATE with two unique keys; a foreign key that cascades into a table with AUTO_INCREMENT."""
    sql = "INSERT INTO t VALUES (1, 2) ON DUPLICATE KEY UPDATE b = 3"
    lines = [
        {"do": "variables", "binlog_format": "STATEMENT"},
        {"do": "ddl", "schema": "s", "sql": "CREATE TABLE t (id INT PRIMARY KEY, b INT UNIQUE)"},
        {"do": "execute", "sql": sql, "changes": [{"insert": "s.t", "rows": [{"id": 1, "b": 2}]}], "warnings": [1592]},
    ]
    result = write(tmp_path / "logs", lines)

    assert (result.exit_code, result.stderr) == (0, "")


def test_temporary_tables_belong_to_their_session(tmp_path: Path) -> None:
    """Another session has the real table of the name; DROP TABLE ends the temporary one."""
    lines = [
        {"do": "variables", "binlog_format": "ROW"},
        TABLE,
        {"do": "execute", "session": "a", "schema": "s", "sql": "CREATE TEMPORARY TABLE t (x INT)"},
        {
            "do": "execute",
            "session": "a",
            "sql": "INSERT INTO t VALUES (1)",
            "changes": [{"insert": "s.t", "rows": [{"x": 1}]}],
        },
        INSERT,
        {"do": "execute", "session": "a", "sql": "DROP TEMPORARY TABLE t"},
        {
            "do": "execute",
            "session": "a",
            "sql": "INSERT INTO t VALUES (2, 'y')",
            "changes": [{"insert": "s.t", "rows": [{"id": 2, "a": "y"}]}],
        },
    ]
    result = write(tmp_path / "logs", lines)

    assert (result.exit_code, result.stderr) == (0, "")
    assert names_of(tmp_path / "logs").count("WRITE_ROWS_EVENT") == 2


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ({"do": "execute", "sql": "EXECUTE nope"}, "the prepared statement is not declared"),
        ({"do": "execute", "sql": "CALL p()", "statements": []}, '"statements" has 0 values'),
        ({**INSERT, "sql": "CALL p()", "statements": [INSERT]}, "statements[0] with 'do'"),
        ({**INSERT, "sql": "CALL p()", "statements": [{"sql": "DELETE FROM t"}]}, "a CALL has the changes of its"),
    ],
)
def test_statements_that_execute_others(tmp_path: Path, line: Any, reason: str) -> None:
    """The session of another client has no prepared statement of this one."""
    lines = [TABLE, {"do": "prepare", "session": "other", "name": "nope", "sql": "DELETE FROM t"}, line]
    result = write(tmp_path / "logs", lines)

    assert result.exit_code == 2
    assert result.stderr.startswith("binlogio: -:3: ")
    assert reason in result.stderr


def test_a_table_that_is_there_and_schemas_for_the_scheduler(tmp_path: Path) -> None:
    lines = [
        {"do": "variables", "binlog_format": "STATEMENT"},
        TABLE,
        {"do": "execute", "sql": "CREATE TABLE IF NOT EXISTS t SELECT 1 AS id", "table_exists": True},
        {**INSERT, "updated_schemas": ["s", "u"], "modifies_engine": False},
    ]
    result = write(tmp_path / "logs", lines)

    assert (result.exit_code, result.stderr) == (0, "")
    assert len(queries(tmp_path / "logs")) == 4  # CREATE, BEGIN, INSERT, COMMIT: no engine has anything to commit


@pytest.mark.parametrize("binlog_format", ["MIXED", "STATEMENT"])
def test_a_mariadb_server_writes_its_own_events(tmp_path: Path, binlog_format: str) -> None:
    """A statement in an XA transaction is not unsafe there, as it is in MySQL."""
    lines = [
        {"do": "variables", "server_version": "10.11.6-MariaDB", "binlog_format": binlog_format},
        TABLE,
        {"do": "set", "variables": {"gtid_domain_id": 3, "gtid_seq_no": 70}},
        {**INSERT, "sql": "INSERT INTO t VALUES (1, @x)", "user_variables": {"x": "ä"}},
        {"do": "xa_start", "xid": "a"},
        {**INSERT, "sql": "INSERT INTO t VALUES (2, 'x')"},
        {"do": "xa_end", "xid": "a"},
        {"do": "xa_prepare", "xid": "a"},
        {"do": "xa_commit", "xid": "a"},
    ]
    result = write(tmp_path / "logs", lines)

    assert (result.exit_code, result.stderr) == (0, "")
    assert "gtid_binlog_state: 0-1-1,3-1-72" in result.stdout
    assert {"USER_VAR_EVENT", "XA_PREPARE_LOG_EVENT"} <= set(names_of(tmp_path / "logs"))
    assert "INSERT INTO t VALUES (2, 'x')" in queries(tmp_path / "logs")


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (1 << 64, "not a BIGINT"),
        ({"decimal": "x"}, "not a decimal number"),
        ({"decimal": "NaN"}, "not a decimal number"),
        ({"decimal": "1e400"}, "precision"),
        ({"decimal": "1e999999999"}, "precision"),
        ({"decimal": "1e-999999999"}, "precision"),
        ({"value": "0x1"}, "hexadecimal"),
        ({"value": "x", "collation": "nope"}, "nope"),
    ],
)
def test_user_variables_that_no_server_has_are_refused(tmp_path: Path, value: Any, reason: str) -> None:
    result = write(tmp_path / "logs", [TABLE, {**INSERT, "user_variables": {"x": value}}])

    assert result.exit_code == 2, result.exception
    assert result.stderr.startswith("binlogio: -:2: ")
    assert reason in result.stderr


def test_json_of_mariadb_is_text(tmp_path: Path) -> None:
    """Its JSON columns are LONGTEXT."""
    lines = [
        {"do": "variables", "server_version": "10.11.6-MariaDB", "binlog_row_metadata": "FULL"},
        {"do": "ddl", "schema": "s", "sql": "CREATE TABLE t (id INT PRIMARY KEY, j JSON)"},
        {**INSERT, "changes": [{"insert": "s.t", "rows": [{"id": 1, "j": {"ä": [1, None]}}, {"id": 2}]}]},
    ]
    result = write(tmp_path / "logs", lines)
    batches = list(binlogio.read_rows(tmp_path / "logs", table="s.t"))

    assert result.exit_code == 0, result.stderr
    assert [row["after"]["j"] for batch in batches for row in batch.to_pylist()] == ['{"ä": [1, null]}', None]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"id": 1, "a": "x" * 21}, "at most 20 characters"),
        ({"id": 1, "ID": 2}, "a column is named twice"),
    ],
)
def test_rows_that_no_server_has_are_refused(tmp_path: Path, row: Any, reason: str) -> None:
    result = write(tmp_path / "logs", [TABLE, {**INSERT, "changes": [{"insert": "s.t", "rows": [row]}]}])

    assert result.exit_code == 2
    assert reason in result.stderr


def test_names_of_xa_transactions(tmp_path: Path) -> None:
    xid = {"gtrid": "0x00ff", "bqual": "b", "format_id": 9}
    lines = [TABLE, *({"do": do, "xid": xid} for do in ("xa_start", "xa_end", "xa_prepare"))]
    lines.insert(2, INSERT)
    assert write(tmp_path / "logs", lines).exit_code == 0
    with binlogio.open(tmp_path / "logs") as reader:
        found = [event for event in reader if isinstance(event, XaPrepareEvent)]

    assert [(one.gtrid, one.bqual, one.format_id) for one in found] == [(b"\x00\xff", b"b", 9)]


# ------------------------------------------------------------------------------------------------------ any other line


def test_lines_of_any_form_are_refused_with_a_message(tmp_path: Path) -> None:
    """Values of the script are exchanged at random; only messages come out, never a Python error."""
    chance, lines = random.Random(3), lines_of(SESSIONS.read_text(encoding="utf-8"))
    texts = ["", "x", "0x1", "bank.accounts", "latin1_swedish_ci", "uuid:7", "AUTOMATIC:9", "'", "\x00", "1e400", "NaN"]
    values: list[Any] = [None, -1, 0, 1 << 63, 1 << 70, 1e300, True, *texts, [], {}, [[]], {"decimal": "x"}]
    for number in range(150):
        broken = json.loads(json.dumps(lines))
        for _ in range(3):
            node: Any = chance.choice(broken[1:])
            while True:
                key = chance.choice([*node] if isinstance(node, dict) else range(len(node)))
                if isinstance(node[key], (dict, list)) and node[key] and chance.random() < 0.8:
                    node = node[key]
                    continue
                node[key] = chance.choice(values)
                break
        result = write(tmp_path / str(number), broken)

        assert result.exit_code in (0, 2, 4), (result.exception, result.stderr)
        assert result.exit_code == 0 or re.search(r"^binlogio: (-:\d+: |.*: )", result.stderr, re.MULTILINE)


def test_the_name_of_an_event_is_that_of_its_type() -> None:
    """`names_of` depends on it."""
    assert event_name(EventType.XID_EVENT) == "XID_EVENT"


@pytest.mark.parametrize(
    ("version", "text", "expected"),
    [
        ("9.7.4", "", 0),
        ("9.7.4", "ansi_quotes, NO_BACKSLASH_ESCAPES", 1 << 2 | 1 << 20),
        ("9.7.4", "TIME_TRUNCATE_FRACTIONAL", 1 << 32),
        ("11.8.6-MariaDB", "EMPTY_STRING_IS_NULL", 1 << 32),
    ],
)
def test_sql_mode_can_be_given_by_names(tmp_path: Path, version: str, text: str, expected: int) -> None:
    lines = [
        {"do": "variables", "server_version": version},
        {"do": "set", "variables": {"sql_mode": text}},
        {"do": "ddl", "sql": "CREATE DATABASE d"},
    ]
    result = write(tmp_path, lines)
    with binlogio.open(tmp_path / "binlog.000001") as reader:
        (query,) = [event for event in reader if isinstance(event, QueryEvent)]

    assert result.exit_code == 0, result.output
    assert [var.value for var in query.status_vars if var.code == QueryStatus.SQL_MODE] == [expected]


def test_an_sql_mode_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    result = write(tmp_path, [{"do": "set", "variables": {"sql_mode": "STRICT,ANSI_QUOTES"}}])

    assert result.exit_code == 2
    assert "no sql_mode 'STRICT'; it can be a number, or some of REAL_AS_FLOAT, " in result.output


def transactions_of_sessions(*end: dict[str, Any]) -> list[dict[str, Any]]:
    """Return lines with a transaction of each of the sessions 1, 2 and 3, and those that end them."""
    lines: list[dict[str, Any]] = [{"at": "2026-11-20T12:00:00Z", **TABLE}]
    for number in (1, 2, 3):
        rows = [{"id": number, "a": "x" * 20}]
        changes = {"sql": f"INSERT INTO t VALUES ({number}, 'x')", "changes": [{"insert": "s.t", "rows": rows}]}
        session = {"session": str(number), "schema": "s"}
        lines += [{"do": "begin", **session}, {"do": "execute", **session, **changes}]
    return [*lines, *end]


TOGETHER: Final = {"do": "commit_together", "sessions": ["2", "3", "1"]}
"""Other than the order of their statements."""


def test_names_of_tables_may_contain_dots(tmp_path: Path) -> None:
    """Also of temporary tables, of parents of foreign keys, and of tables that DDL changes between two statements."""
    tables = {
        "`a.b`.c": "CREATE TABLE `a.b`.c (id INT PRIMARY KEY, FOREIGN KEY (id) REFERENCES `a.b`.c (id))",
        "a.`b.c`": "CREATE TABLE a.`b.c` (s VARCHAR(9) PRIMARY KEY)",
        "`a.b`.t": "CREATE TEMPORARY TABLE `a.b`.t (id INT)",
    }
    inserts = [
        ("`a.b`.c", "(1)", {"id": 1}),
        ("a.b.c", "('x')", {"s": "x"}),  # the first dot counts
        ("a.`b.c`", "('y')", {"s": "y"}),
        ("`a.b`.t", "(2)", {"id": 2}),
    ]
    lines: list[Any] = [{"do": "ddl", "sql": sql} for sql in ("CREATE DATABASE a", "CREATE DATABASE `a.b`")]
    lines += [{"do": "ddl" if "TEMP" not in sql else "execute", "sql": sql} for sql in tables.values()]
    for name, values, row in inserts:
        sql = f"INSERT INTO {'a.`b.c`' if name == 'a.b.c' else name} VALUES {values}"
        lines.append({"do": "execute", "sql": sql, "changes": [{"insert": name, "rows": [row]}]})
        lines.append({"do": "ddl", "sql": "ALTER TABLE a.`b.c` COMMENT 'x'"})
    result = write(tmp_path, lines)

    assert result.exit_code == 0, result.stderr
    with binlogio.open(tmp_path) as reader:
        maps = [event for event in reader if isinstance(event, TableMapEvent)]
    assert [(one.schema, one.table) for one in maps] == [("a.b", "c"), ("a", "b.c"), ("a", "b.c")]
    assert len({one.table_id for one in maps}) == 3  # the server opens a table again after DDL


@pytest.mark.parametrize(
    "options", [(), ("--set", "sync_binlog=0"), ("--set", "binlog_order_commits=OFF")], ids=lambda options: options[-1:]
)
def test_sessions_commit_together(tmp_path: Path, options: tuple[str, ...]) -> None:
    """In the order of the line, after the group that was committed when their statements ended, and in one log."""
    more = {**INSERT, "session": "1", "sql": "INSERT INTO t VALUES (4, 'x')"}
    result = write(tmp_path, transactions_of_sessions(TOGETHER, more), "--set", "max_binlog_size=4096", *options)
    with binlogio.open(tmp_path) as reader:
        events = [event for event in reader if isinstance(event, GtidEvent)]

    assert (result.exit_code, result.stderr) == (0, "")
    assert [(event.last_committed, event.sequence_number) for event in events] == [
        (0, 1), (1, 2), (1, 3), (1, 4), (4, 5),
    ]  # fmt: skip
    assert len(list(tmp_path.glob("binlog.0*"))) == 1


def test_a_full_log_ends_after_all_groups_that_commit_together(tmp_path: Path) -> None:
    """Committed one by one, the first of them ends it."""
    long = {**TABLE, "sql": f"CREATE TABLE u (a INT COMMENT '{'x' * 3300}')"}
    found = []
    for end in ([TOGETHER], [{"do": "commit", "session": name} for name in TOGETHER["sessions"]]):
        folder = tmp_path / str(end[0]["do"])
        result = write(folder, [long, *transactions_of_sessions(*end)], "--set", "max_binlog_size=4096")
        assert (result.exit_code, result.stderr) == (0, "")
        with binlogio.open(folder / "binlog.000001") as reader:
            found.append([event_name(event.header.type_code) for event in reader].count("XID_EVENT"))

    assert found == [3, 1]


def test_groups_that_commit_together_have_the_commit_id_of_mariadb(tmp_path: Path) -> None:
    result = write(tmp_path, transactions_of_sessions(TOGETHER), "--set", "server_version=11.8.6-MariaDB")
    with binlogio.open(tmp_path) as reader:
        found = [event.commit_id for event in reader if isinstance(event, MariadbGtidEvent)]

    assert (result.exit_code, result.stderr) == (0, "")
    assert found[0] is None
    assert len(found) == 4
    assert found[1] is not None
    assert found[1:] == [found[1]] * 3


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ({"sessions": ["1", "4"]}, "no session '4'; those before this line are"),
        ({"sessions": ["1", "2", "1"]}, "a session can commit once only in a group commit"),
        ({}, 'commit_together without "sessions"'),
    ],
    ids=str,
)
def test_sessions_that_cannot_commit_together(tmp_path: Path, line: Any, reason: str) -> None:
    result = write(tmp_path, transactions_of_sessions({"do": "commit_together", **line}))

    assert result.exit_code == 2
    assert reason in result.stderr
