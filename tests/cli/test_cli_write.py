"""`binlogio write`: scripts, the logs that they make, and errors with their line."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pytest
from click.testing import CliRunner, Result

import binlogio
from binlogio.events.table_map import TableMapEvent
from binlogio_cli.main import cli
from corpus import FIXTURES

if TYPE_CHECKING:
    from pathlib import Path

VARIABLES: Final = {"do": "variables", "server_id": 7, "server_uuid": "6d1b2c9a-5b0e-11f1-9d5e-0242ac110002"}
TABLE: Final = {
    "do": "table",
    "schema": "shop",
    "name": "orders",
    "columns": [{"name": "id", "type": "int", "nullable": False}, {"name": "total", "type": "decimal(10,2)"}],
    "primary_key": ["id"],
}
BEGIN: Final = {"session": "a", "do": "begin", "at": "2026-11-20T12:00:00Z"}
INSERT: Final = {
    "session": "a",
    "do": "execute",
    "sql": "INSERT ...",
    "changes": [{"insert": "shop.orders", "rows": [{"id": 1, "total": "1.50"}, {"id": 2}]}],
}
UPDATE: Final = {
    "session": "a",
    "do": "execute",
    "sql": "UPDATE ...",
    "changes": [{"update": "shop.orders", "before": [{"id": 1, "total": "1.50"}], "after": [{"total": "2.50"}]}],
}
DELETE: Final = {
    "session": "b",
    "do": "execute",
    "sql": "DELETE ...",
    "changes": [{"delete": "shop.orders", "rows": [{"id": 2}]}],
}
COMMIT: Final = {"session": "a", "do": "commit"}


def write(tmp_path: Path, lines: list[Any], *options: str) -> Result:
    text = "".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines)
    return CliRunner().invoke(cli, ["write", "-", "--out", str(tmp_path / "logs"), *options], input=text)


def events(tmp_path: Path) -> list[dict[str, Any]]:
    result = CliRunner().invoke(cli, ["dump", "--format", "json", str(tmp_path / "logs")])
    assert result.exit_code == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


def rows(tmp_path: Path) -> list[dict[str, Any]]:
    return [row for event in events(tmp_path) for row in event.get("rows", [])]


def test_script_becomes_a_log(tmp_path: Path) -> None:
    """After rows are completed from before rows; other missing columns are NULL."""
    result = write(tmp_path, [VARIABLES, TABLE, "", "# a comment", BEGIN, INSERT, UPDATE, COMMIT, DELETE])

    assert result.exit_code == 0, result.stderr
    assert "gtid_executed: 6d1b2c9a-5b0e-11f1-9d5e-0242ac110002:1-2\n" in result.stdout
    assert rows(tmp_path) == [
        {"after": {"id": 1, "total": "1.50"}},
        {"after": {"id": 2, "total": None}},
        {"before": {"id": 1, "total": "1.50"}, "after": {"id": 1, "total": "2.50"}},
        {"before": {"id": 2, "total": None}},
    ]
    assert {event["server_id"] for event in events(tmp_path)} == {7}
    assert {event["timestamp"] for event in events(tmp_path)} == {"2026-11-20T12:00:00+00:00"}


def test_second_run_is_of_the_same_server(tmp_path: Path) -> None:
    """A replica of these logs sees one source."""
    lines = [TABLE, INSERT]
    results = [write(tmp_path, lines, "--set", "server_id=7"), write(tmp_path, lines)]
    verified = CliRunner().invoke(cli, ["verify", str(tmp_path / "logs")])
    uuid = (tmp_path / "logs" / "binlog.auto.cnf").read_text().split("server-uuid=")[1].split()[0]

    assert [result.stderr for result in results] == ["", ""]
    assert f"gtid_executed: {uuid}:1-2\n" in results[1].stdout
    assert {event["server_id"] for event in events(tmp_path)} == {7}
    assert "2 of 2 fine" in verified.stdout


def test_run_that_sets_another_server_says_so(tmp_path: Path) -> None:
    """A server takes its new settings as well; the file keeps them for the next run."""
    first = write(tmp_path, [VARIABLES, TABLE, INSERT])
    second = write(tmp_path, [TABLE, INSERT], "--set", "server_id=8")
    third = write(tmp_path, [TABLE, INSERT])

    assert (first.stderr, third.stderr) == ("", "")
    assert second.stderr == (
        "binlogio: the new logs are of another server than the logs before them: server_id 8 instead of 7\n"
    )
    assert "gtid_executed: 6d1b2c9a-5b0e-11f1-9d5e-0242ac110002:1-3\n" in third.stdout


def test_damaged_identity_is_refused_with_what_to_do(tmp_path: Path) -> None:
    write(tmp_path, [TABLE, INSERT])
    (tmp_path / "logs" / "binlog.auto.cnf").write_text("[auto]\nserver-uuid=1\n")
    result = write(tmp_path, [TABLE, INSERT])

    assert result.exit_code == 2
    assert result.stderr == (
        "binlogio: binlog.auto.cnf: server-uuid: the stored identity of the server is damaged, found '1' "
        "(put back the file, or remove it: the identity is then that of the last log)\n"
    )


def test_same_script_gives_the_same_bytes(tmp_path: Path) -> None:
    """With times and a UUID in the script the log is always the same."""
    for name in ("one", "two"):
        assert write(tmp_path / name, [VARIABLES, TABLE, BEGIN, INSERT, COMMIT]).exit_code == 0
    one, two = (tmp_path / name / "logs" / "binlog.000001" for name in ("one", "two"))

    assert one.read_bytes() == two.read_bytes()


def test_rollback_leaves_nothing(tmp_path: Path) -> None:
    """A session that never commits leaves no events."""
    open_session = {**INSERT, "session": "never commits"}
    lines = [
        TABLE,
        BEGIN,
        INSERT,
        {"session": "a", "do": "rollback"},
        {**BEGIN, "session": "never commits"},
        open_session,
        {"session": "never commits", "do": "disconnect"},
    ]
    result = write(tmp_path, lines)

    assert result.exit_code == 0
    assert rows(tmp_path) == []


SET_AUTOCOMMIT: Final = {"session": "a", "do": "set", "variables": {"autocommit": False}}
XA_START: Final = {"session": "a", "do": "xa_start", "xid": "x"}


@pytest.mark.parametrize(
    ("lines", "place"),
    [
        ([TABLE, BEGIN, INSERT], 2),
        ([TABLE, BEGIN, INSERT, COMMIT, {**BEGIN, "session": "b"}], 5),
        ([TABLE, BEGIN, INSERT, BEGIN, INSERT, BEGIN], 6),
        ([TABLE, SET_AUTOCOMMIT, INSERT, COMMIT, INSERT, INSERT], 5),
        ([TABLE, XA_START, INSERT, {**XA_START, "do": "xa_end"}], 2),
        ([TABLE, BEGIN, {"do": "commit_together", "sessions": ["a"]}, BEGIN, INSERT], 4),
    ],
)
def test_a_transaction_that_the_script_does_not_end_is_refused(
    tmp_path: Path, lines: list[dict[str, Any]], place: int
) -> None:
    """Its rows would be dropped in silence. The message names the line that opened it."""
    result = write(tmp_path, lines)
    end = {"session": lines[-1].get("session", ""), "do": "disconnect"}

    assert result.exit_code == 2
    assert f":{place}: the transaction that begins here has no end" in result.stderr
    assert not (tmp_path / "logs").exists()
    assert write(tmp_path, [*lines, end]).exit_code == 0


TRIGGER: Final = {"do": "trigger", "event": "INSERT", "body": ["INSERT INTO shop.log VALUES (UUID())"]}


@pytest.mark.parametrize(
    ("given", "warnings"),
    [
        ({"table": "shop.orders"}, 1),
        ({"table": "orders", "schema": "shop"}, 1),
        ({"table": "orders"}, 0),
        ({"table": "no.t"}, 0),
    ],
)
def test_a_trigger_is_one_of_a_table(tmp_path: Path, given: dict[str, str], warnings: int) -> None:
    """Without a schema in its name, of the default database; a table that does not exist is refused."""
    log = {**TABLE, "name": "log", "columns": [{"name": "v", "type": "varchar(36)"}], "primary_key": []}
    insert = {**INSERT, "sql": "INSERT INTO shop.orders (id) VALUES (1), (2)"}
    mode = {**VARIABLES, "binlog_format": "STATEMENT"}
    result = write(tmp_path, [mode, TABLE, log, {**TRIGGER, **given}, insert])

    assert result.exit_code == (0 if warnings else 2)
    assert ("1592" in result.stderr) == bool(warnings)
    assert warnings or "was defined; defined are shop.orders, shop.log" in result.stderr


BAD_INSERT: Final = {**INSERT, "changes": [{"insert": "shop.nope", "rows": [{"id": 1}]}]}


@pytest.mark.parametrize("exists", [False, True])
def test_a_script_that_is_refused_in_the_middle_leaves_nothing(tmp_path: Path, exists: bool) -> None:
    """Its first transactions would be a log that looks whole."""
    folder = tmp_path / "logs"
    if exists:
        folder.mkdir()
        (folder / "other.000001").write_bytes(b"")
    refused = write(tmp_path, [VARIABLES, TABLE, INSERT, BAD_INSERT])
    left = sorted(path.name for path in folder.iterdir()) if folder.exists() else []
    written = write(tmp_path, [VARIABLES, TABLE, INSERT, {"do": "rotate"}])

    assert (refused.exit_code, written.exit_code) == (2, 0)
    assert left == ["other.000001"] * exists
    names = ["binlog.000001", "binlog.000002", "binlog.auto.cnf", "binlog.index"]
    assert sorted(path.name for path in folder.iterdir()) == names + left


def test_what_was_written_after_other_logs_is_named_when_the_script_is_refused(tmp_path: Path) -> None:
    """As on a server, they are in the log."""
    write(tmp_path, [VARIABLES, TABLE, INSERT])
    result = write(tmp_path, [VARIABLES, TABLE, INSERT, BAD_INSERT])
    written, reason = result.stderr.splitlines()

    assert result.exit_code == 2
    assert written.startswith(f"binlogio: written before the error: {tmp_path}/logs/binlog.000002; gtid_executed: ")
    assert written.endswith(f"{VARIABLES['server_uuid']}:1-2")
    assert "no table 'shop.nope' was defined" in reason


def test_options_win_over_the_script(tmp_path: Path) -> None:
    """These are --set, --checksum, --gtid-mode and --basename."""
    script = [{**VARIABLES, "binlog_checksum": "CRC32"}, TABLE, INSERT, {"do": "rotate"}]
    options = ("--set", "server_id=9", "--checksum", "none", "--gtid-mode", "off", "--basename", "mysql-bin")
    result = write(tmp_path, script, *options)
    types = [event["type"] for event in events(tmp_path)]

    assert result.exit_code == 0, result.stderr
    assert (tmp_path / "logs" / "mysql-bin.index").exists()
    assert {event["server_id"] for event in events(tmp_path)} == {9}
    assert types.count("FORMAT_DESCRIPTION_EVENT") == 2
    assert "ANONYMOUS_GTID_LOG_EVENT" in types
    assert not any("checksum" in event for event in events(tmp_path) if event["type"] == "XID_EVENT")


def test_second_run_goes_on_behind_the_first(tmp_path: Path) -> None:
    """Existing logs are not changed."""
    write(tmp_path, [VARIABLES, TABLE, INSERT])
    result = write(tmp_path, [VARIABLES, TABLE, DELETE])

    assert "binlog.000002" in result.stdout
    assert "binlog.000001" not in result.stdout
    assert ":1-2\n" in result.stdout


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("{", "not JSON: "),
        ("[1]", "not a JSON object"),
        pytest.param("[" * 100_000, "JSON that is too deep", id="deep"),
        ({"do": "dance"}, "\"do\" is 'dance'; it can be table, view"),
        ({**BEGIN, "sql": "x"}, "begin with 'sql'; expected do, session, at, schema"),
        ({**BEGIN, "at": "noon"}, "not a time such as"),
        ({**BEGIN, "session": 5}, '"session" is 5, not text'),
        ({**VARIABLES}, "variables come first: in the first line of the first script"),
        ({**TABLE, "columns": [{"name": "id", "type": "integr"}]}, "not a column type"),
        ({**TABLE, "primary_key": ["nope"]}, "primary_key"),
        ({**INSERT, "sql": None}, '"sql" is null, not text'),
        ({**INSERT, "changes": {}}, '"changes" is {}, not a list'),
        ({**INSERT, "changes": [5]}, '"changes[0]" is 5, not an object with one of insert, update, delete'),
        (
            {**INSERT, "changes": [{"insert": "shop.nope", "rows": []}]},
            "no table 'shop.nope' was defined; defined are shop.orders",
        ),
        (
            {**INSERT, "changes": [{"insert": "shop.orders", "rows": [[1]]}]},
            '"changes[0].rows[0]" is [1], not an object',
        ),
        ({**INSERT, "changes": [{"insert": "shop.orders", "rows": [{"nope": 1}]}]}, "unknown column"),
        (
            {**INSERT, "changes": [{"insert": "shop.orders", "rows": [{"id": "x"}]}]},
            "id: the value does not match the column type",
        ),
        ({**INSERT, "changes": [{"insert": "shop.orders", "rows": [{"id": 1 << 40}]}]}, "id"),
        ({**INSERT, "changes": [{"insert": "shop.orders", "rows": [{"total": "1.00"}]}]}, "found id"),
        (
            {**UPDATE, "changes": [{"update": "shop.orders", "before": [{"id": 1}], "after": []}]},
            "1 rows before and 0 after",
        ),
    ],
)
def test_refused_line_is_named(tmp_path: Path, line: Any, sentence: str) -> None:
    """The exit code is 2, and the message has the script's line and the reason."""
    result = write(tmp_path, [VARIABLES, TABLE, line])

    assert result.exit_code == 2
    assert result.stderr.startswith("binlogio: -:3: ")
    assert sentence in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ({"do": "variables", "nonsense": 1}, "variables with 'nonsense'; expected do, server_version"),
        ({"do": "variables", "server_id": "7"}, '"server_id" is "7", not a whole number'),
        ({"do": "variables", "server_id": True}, '"server_id" is true, not a whole number'),
        ({"do": "variables", "binlog_checksum": "MD5"}, "binlog_checksum"),
    ],
)
def test_refused_variables_are_those_of_line_one(tmp_path: Path, line: Any, sentence: str) -> None:
    """Nothing has been written."""
    result = write(tmp_path, [line, TABLE])

    assert result.exit_code == 2
    assert result.stderr.startswith("binlogio: -:1: ")
    assert sentence in result.stderr
    assert not (tmp_path / "logs").exists()


@pytest.mark.parametrize("text", ["server_id", "nonsense=1", "server_id=many", "binlog_checksum=MD5"])
def test_refused_setting_is_wrong_usage(tmp_path: Path, text: str) -> None:
    """--set is checked before the script is run."""
    assert write(tmp_path, [TABLE], "--set", text).exit_code == 2


def test_missing_script_is_an_io_error(tmp_path: Path) -> None:
    """Exit code 4."""
    result = CliRunner().invoke(cli, ["write", str(tmp_path / "no.jsonl"), "--out", str(tmp_path / "logs")])

    assert result.exit_code == 4
    assert "no.jsonl" in result.stderr


def test_scripts_of_the_demo_run(tmp_path: Path) -> None:
    """Both scripts are run, with values of almost every type."""
    scripts = [str(FIXTURES / "demo" / name) for name in ("shop.jsonl", "types.jsonl")]
    result = CliRunner().invoke(cli, ["write", *scripts, "--out", str(tmp_path)])
    with binlogio.open(tmp_path) as reader:
        tables = {(event.schema, event.table) for event in reader if isinstance(event, TableMapEvent)}

    assert result.exit_code == 0, result.stderr
    assert tables == {
        *(("shop", name) for name in ("customers", "orders", "order_lines", "visits")),
        *(("types", name) for name in ("everything", "no key")),
    }


def test_a_log_of_mariadb_is_told_in_its_words(tmp_path: Path) -> None:
    """gtid_binlog_state instead of gtid_executed."""
    result = write(tmp_path, [TABLE, BEGIN, INSERT, COMMIT], "--set", "server_version=10.11.18-MariaDB")

    assert result.exit_code == 0, result.stderr
    assert result.stdout.endswith("1 statement; gtid_binlog_state: 0-1-1\n")


UUID_INSERT: Final = {
    "session": "a",
    "schema": "shop",
    "do": "execute",
    "sql": "INSERT INTO orders VALUES (1, LEFT(UUID(), 1))",
    "changes": [{"insert": "shop.orders", "rows": [{"id": 1, "total": "1.50"}]}],
}


def types(tmp_path: Path) -> list[str]:
    return [event["type"] for event in events(tmp_path)]


@pytest.mark.parametrize(
    ("binlog_format", "is_text", "message"),
    [
        ("STATEMENT", True, "-:3: Note 1592: Unsafe statement written to the binary log using statement format"),
        ("MIXED", False, ""),
        ("ROW", False, ""),
    ],
)
def test_the_text_of_a_statement_decides_how_it_is_logged(
    tmp_path: Path, binlog_format: str, *, is_text: bool, message: str
) -> None:
    """UUID() is unsafe: rows in MIXED format, and a warning in STATEMENT format."""
    result = write(tmp_path, [{**VARIABLES, "binlog_format": binlog_format}, TABLE, UUID_INSERT])

    assert result.exit_code == 0, result.stderr
    assert ("WRITE_ROWS_EVENT" in types(tmp_path)) == (not is_text)
    assert result.stderr.startswith(message)
    assert bool(result.stderr) == bool(message)


@pytest.mark.parametrize("binlog_format", ["STATEMENT", "MIXED", "ROW"])
def test_a_text_that_cannot_be_read_is_said_to_be_taken_as_it_is(tmp_path: Path, binlog_format: str) -> None:
    """MIXED format then logs rows, which do not depend on the text."""
    result = write(tmp_path, [{**VARIABLES, "binlog_format": binlog_format}, TABLE, INSERT])

    assert result.exit_code == 0, result.stderr
    assert ("WRITE_ROWS_EVENT" in types(tmp_path)) == (binlog_format != "STATEMENT")
    assert ("-:3: assumed that the statement changes the tables of its changes and no others" in result.stderr) == (
        binlog_format != "ROW"
    )


@pytest.mark.parametrize("binlog_format", ["STATEMENT", "MIXED", "ROW"])
@pytest.mark.parametrize(
    ("sql", "sentence"),
    [
        ("CALL p()", "each statement of a procedure"),
        ("COMMIT", "not executed as a Statement"),
        ("TRUNCATE TABLE orders", "logged as text"),
    ],
)
def test_a_statement_that_logs_no_rows_is_refused_with_changes(
    tmp_path: Path, binlog_format: str, sql: str, sentence: str
) -> None:
    """The message has the line of the script; no row is lost in silence."""
    lines = [{**VARIABLES, "binlog_format": binlog_format}, TABLE, {**UUID_INSERT, "sql": sql}]
    result = write(tmp_path, lines)

    assert result.exit_code == 2
    assert result.stderr.startswith("binlogio: -:3: ")
    assert sentence in result.stderr


def test_ddl_that_is_executed_is_logged_as_ddl(tmp_path: Path) -> None:
    """It is a group of its own, in ROW format too."""
    result = write(tmp_path, [VARIABLES, TABLE, {**UUID_INSERT, "sql": "DROP TABLE orders", "changes": []}])

    assert result.exit_code == 0, result.stderr
    assert "DROP TABLE `orders` /* generated by server */" in [event.get("sql") for event in events(tmp_path)]


def test_replace_has_whole_images(tmp_path: Path) -> None:
    """An update made by REPLACE or INSERT logs every column, whatever binlog_row_image is."""
    change = {"update": "shop.orders", "before": [{"id": 1, "total": "1.50"}], "after": [{"total": "2.50"}]}
    line = {**UUID_INSERT, "sql": "REPLACE INTO orders VALUES (1, 2.5)", "changes": [change]}
    result = write(tmp_path, [{**VARIABLES, "binlog_row_image": "MINIMAL"}, TABLE, line])

    assert result.exit_code == 0, result.stderr
    assert rows(tmp_path) == [{"before": {"id": 1}, "after": {"id": 1, "total": "2.50"}}]


LONE: Final = "a\ud800b"


@pytest.mark.parametrize(
    "line",
    [
        {**INSERT, "sql": LONE},
        {**INSERT, "schema": LONE},
        {**INSERT, "session": LONE},
        {**INSERT, LONE: 1},
        {**INSERT, "changes": [{"insert": "shop.orders", "rows": [{"id": 1, "total": LONE}]}]},
        {"do": "ddl", "sql": LONE},
        {**TABLE, "name": LONE},
        {**TABLE, "columns": [{"name": LONE, "type": "int"}]},
        {**TABLE, "columns": [{"name": "id", "type": f"enum('{LONE}')"}]},
        {**TABLE, "columns": [{"name": "id", "type": "datetime(9)"}]},
        {**TABLE, "columns": [{"name": "id", "type": "time(7)"}]},
        {**TABLE, "columns": [{"name": "id", "type": "timestamp(10)"}]},
        '{"do": "execute", "sql": "x", "changes": [{"insert": "shop.orders", "rows": [{"id": 1' + "0" * 5000 + "}]}]}",
        '{"do": "execute", "at": ' + "9" * 5000 + "}",
        {**INSERT, "at": "0001-01-01T00:00:00+14:00"},
        {**INSERT, "at": "9999-12-31T23:59:59-14:00"},
        '{"do": "execute", "sql": "x", "changes": [{"insert": "shop.orders", "rows": [{"id": 1e999}]}]}',
        (
            '{"do": "execute", "sql": "x", "changes": [{"insert": "shop.orders", "rows": [{"id": 1, "total": '
            '"1e999999999"}]}]}'
        ),
    ],
    ids=lambda line: str(line)[:60].encode("utf-8", "backslashreplace").decode(),
)
def test_values_that_python_cannot_encode_are_refused_with_their_line(tmp_path: Path, line: Any) -> None:
    """Lone surrogates, numbers of thousands of digits, and times that an event cannot have are refused."""
    result = write(tmp_path, [VARIABLES, TABLE, line])

    assert result.exit_code == 2, result.exception
    assert result.stderr.startswith("binlogio: -:3: ")


def test_endless_lines_are_refused(tmp_path: Path) -> None:
    """A device has no end of a line."""
    (tmp_path / "t.sql").write_text("CREATE TABLE d.t (a INT);")
    (tmp_path / "t.jsonl").symlink_to("/dev/zero")
    common = ["--ddl", str(tmp_path / "t.sql"), "--table", "d.t", "--out", str(tmp_path / "b")]
    script = CliRunner().invoke(cli, ["write", "/dev/zero", "--out", str(tmp_path / "a")])
    rows = CliRunner().invoke(cli, ["write", "--from", str(tmp_path / "t.jsonl"), *common])

    assert "/dev/zero:1: a line of more than 67,108,864 characters" in script.stderr
    assert "a line of more than 67,108,864 bytes" in rows.stderr
    assert script.exit_code == 2
    assert rows.exit_code != 0
