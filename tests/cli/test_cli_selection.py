"""The options that select a part of the logs mean the same in every command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Final

import pytest
from click.testing import CliRunner

import binlogio
from binlogio.dotted_names import dotted_name
from binlogio.selection.table_names import matches
from binlogio_cli.main import cli
from binlogio_cli.quantities import counted
from binlogio_cli.selection import LocalZone, time_of
from corpus import FIXTURES, MARIADB118

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

INCIDENT: Final = FIXTURES / "mysql97" / "incident"
LOGS: Final = (str(INCIDENT / "binlog.000001"), str(INCIDENT / "binlog.000002"))
DELETE: Final = "acb68dd1-e6e6-11f1-a4d2-02fc00000001:10"
NOON: Final = datetime(2026, 11, 20, 12, 0, 0)


@pytest.fixture
def berlin() -> Iterator[None]:
    """Run in a time zone with summer time."""
    before = os.environ.get("TZ")
    os.environ["TZ"] = "Europe/Berlin"
    time.tzset()
    yield
    if before is None:
        del os.environ["TZ"]
    else:
        os.environ["TZ"] = before
    time.tzset()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-11-20 12:00:00", NOON),
        ("2026-11-20T12:00:00", NOON),
        ("2026/11/20 12:00:00", NOON),
        ("2026.11.20 12.00.00", NOON),
        ("26-11-20 12:00", NOON),
        ("2026-11-20 12", NOON),
        ("20261120120000", NOON),
        ("261120120000", NOON),
        ("20261120", NOON - timedelta(hours=12)),
        ("2026-11-20", NOON - timedelta(hours=12)),
        ("2026-11-20 12:00:00.25", NOON + timedelta(milliseconds=250)),
        ("20261120120000.25", NOON + timedelta(milliseconds=250)),
        ("2026-11-20 12:00:00Z", NOON.replace(tzinfo=timezone.utc)),
        ("2026-11-20T12:00:00+01:00", NOON.replace(tzinfo=timezone(timedelta(hours=1)))),
        ("1795176000", 1795176000.0),
    ],
)
def test_times_have_the_forms_that_a_server_reads(text: str, expected: object) -> None:
    assert time_of(text) == expected


@pytest.mark.parametrize("text", ["", "noon", "2026-13-01", "2026-11-20 25:00:00", "123", "2026-11-20 12:00:00 CET"])
def test_other_texts_are_no_times(text: str) -> None:
    with pytest.raises(ValueError):
        time_of(text)


@pytest.mark.usefixtures("berlin")
def test_local_time_has_summer_time_where_the_moment_has_it() -> None:
    zone = LocalZone()

    assert datetime.fromtimestamp(1767225600, zone).isoformat() == "2026-01-01T01:00:00+01:00"
    assert datetime.fromtimestamp(1782864000, zone).isoformat() == "2026-07-01T02:00:00+02:00"
    assert datetime(2026, 7, 1, 2, tzinfo=zone).timestamp() == 1782864000


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ("--start-position", "9" * 25),
        ("--stop-position", f"binlog.000001:{'9' * 5000}"),
        ("--start-datetime", "9999-12-31 23:59:59.9999999"),
        ("--server-id", "4294967296"),
        ("--ignore-server-ids", "9" * 5000),
    ],
)
def test_numbers_and_times_out_of_range_are_wrong_usage(option: str, text: str) -> None:
    done = CliRunner().invoke(cli, ["dump", option, text, LOGS[0]])

    assert done.exit_code == 2
    assert f"Invalid value for '{option}'" in done.stderr.replace("'-j' / ", "").replace(" / '--do-server-ids'", "")


@pytest.mark.parametrize("zone", ["local", "UTC", "Pacific/Auckland", "America/New_York"])
@pytest.mark.usefixtures("berlin")
def test_the_ends_of_the_calendar_are_times(zone: str) -> None:
    chosen = ("--start-datetime", "0001-01-01", "--stop-datetime", "9999-12-31 23:59:59", "--time-zone", zone)
    done = CliRunner().invoke(cli, ["grep", "id > 0", *chosen, *LOGS])

    assert done.stdout == CliRunner().invoke(cli, ["grep", "id > 0", "--time-zone", zone, *LOGS]).stdout != ""


@pytest.mark.parametrize("option", ["--max-event-size", "--max-opened-size"])
def test_a_limit_may_be_larger_than_any_size(option: str) -> None:
    assert CliRunner().invoke(cli, ["dump", option, "9" * 25, LOGS[0]]).exit_code == 0


@pytest.mark.usefixtures("berlin")
def test_times_are_local_unless_a_zone_is_given() -> None:
    """The incident began at 02:36:28 UTC."""
    first = ("dump", "--stop-position", "binlog.000001:343", *LOGS)
    local = CliRunner().invoke(cli, first).stdout
    utc = CliRunner().invoke(cli, [*first, "--time-zone", "UTC"]).stdout

    assert "# Times are in local time (UTC+0" in local
    assert "#261123 03:36:28 server id 1" in local
    assert "# Times are in UTC.\n" in utc
    assert "#261123 02:36:28 server id 1" in utc


@pytest.mark.parametrize(
    "options",
    [
        ("--include-gtids", DELETE),
        ("--start-position", "binlog.000002:676", "--stop-position", "binlog.000002:1192"),
        ("--start-position", "binlog.000002:676", "--stop-position", "1192"),
        ("-T", "orders", "--start-position", "binlog.000002:676", "--stop-position", "1192"),
        ("-d", "shop", "-T", "shop.orders", "--include-gtids", DELETE),
        ("--exclude-table", "customers", "--include-gtids", DELETE),
    ],
)
def test_each_command_selects_the_same(options: tuple[str, ...], tmp_path: Path) -> None:
    """The DELETE of four rows, by GTID and by position."""
    text = CliRunner().invoke(cli, ["dump", "-s", *options, *LOGS])
    undone = CliRunner().invoke(cli, ["undo", *options, *LOGS])
    replayed = CliRunner().invoke(cli, ["replay", "--to", "dry-run:", *options, *LOGS])

    assert text.stdout.count("### DELETE FROM `shop`.`orders`") == text.stdout.count("### ") / 7 == 4
    assert "1 transaction with 4 row changes is reversed" in undone.stderr
    assert "replayed 1 event group: 0 rows inserted, 0 updated, 4 deleted" in replayed.stdout


NO_GTID: Final = ("--include-gtids", f"{DELETE}00")
OUTPUTS: Final = {
    "dump": (), "stats": (), "grep": ("--where", "id = 1"), "history": (), "export": ("-o", "out/"),
    "sql": ("SELECT 1",), "copy": ("-o", "out/"), "undo": (), "replay": ("--to", "sqlite:///out.db"),
}  # fmt: skip


@pytest.mark.parametrize("name", OUTPUTS)
def test_gtids_that_no_log_has_are_refused(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As names that match nothing; one GTID that a log has is enough."""
    monkeypatch.chdir(tmp_path)
    key = ("shop.orders", "1") if name == "history" else ()
    result = CliRunner().invoke(cli, [name, *OUTPUTS[name], *NO_GTID, *key, *LOGS])

    assert (result.exit_code, list(tmp_path.iterdir())) == (2, [])
    assert "--include-gtids: no event group of the logs has such a GTID" in result.stderr
    assert CliRunner().invoke(cli, ["dump", "--include-gtids", f"{DELETE}:1000", *LOGS]).exit_code == 0


def test_a_domain_that_no_log_has_is_refused() -> None:
    """Of MariaDB."""
    log = str(MARIADB118 / "gtid" / "binlog.000001")
    codes = [CliRunner().invoke(cli, ["dump", "--do-domain-ids", one, log]).exit_code for one in ("0", "5,7", "5")]

    assert codes == [0, 0, 2]


def test_a_selection_of_nothing_says_so() -> None:
    result = CliRunner().invoke(cli, ["dump", "--start-datetime", "2030-01-01", *LOGS])

    assert result.exit_code == 0
    assert "binlogio: no event group of the logs is selected by the options\n" in result.stderr
    assert "no event group" not in CliRunner().invoke(cli, ["dump", "-T", "orders", *LOGS]).stderr


def test_a_stop_before_the_start_is_wrong_usage() -> None:
    result = CliRunner().invoke(
        cli, ["dump", "--start-position", "binlog.000002:4", "--stop-position", "binlog.000001:4", *LOGS]
    )

    assert result.exit_code == 2
    assert "the stop position is before the start position, expected a position after binlog.000002:4" in result.stderr


@pytest.mark.parametrize(
    ("option", "way"),
    [
        ("--flashback", "`binlogio undo` reverses row changes"),
        ("--raw", "`binlogio copy` makes logs from logs"),
        ("-R", "binlogio reads files and connects to no server"),
        ("--host=db", "binlogio reads files and connects to no server"),
        ("--ssl-ca=x", "binlogio reads files and connects to no server"),
    ],
)
def test_an_option_of_the_vendors_that_is_not_here_names_the_way(option: str, way: str) -> None:
    result = CliRunner().invoke(cli, ["dump", option, *LOGS])

    assert result.exit_code == 2
    assert f"{option.partition('=')[0] if option != '-R' else '--read-from-remote-server'} is not supported: {way}" in (
        result.stderr
    )


def test_an_unknown_option_is_not_answered_with_one_that_is_refused() -> None:
    """`--hots` looks like `--host`; `--tabel` is meant to be `--table`."""
    unknown = subprocess.run(
        [sys.executable, "-m", "binlogio_cli", "dump", "--hots", "x"], capture_output=True, text=True, check=False
    )
    misspelt = subprocess.run(
        [sys.executable, "-m", "binlogio_cli", "dump", "--tabel", "x"], capture_output=True, text=True, check=False
    )

    assert "No such option '--hots'.\n" in unknown.stderr
    assert "--table" in misspelt.stderr.split("Error:")[1]


@pytest.mark.parametrize(
    ("count", "log", "first"), [(0, 0, 127), (1, 0, 127), (2, 0, 158), (41, 0, 4022), (42, 1, 127), (45, 1, 277)]
)
@pytest.mark.parametrize("form", ["text", "json"])
def test_an_offset_counts_the_events_of_all_logs(form: str, count: int, log: int, first: int) -> None:
    """As in mysqlbinlog, for which see `test_vendor_options_servers.py`."""
    done = CliRunner().invoke(cli, ["dump", "--format", form, "--offset", str(count), *LOGS])
    whole = CliRunner().invoke(cli, ["dump", "--format", form, *LOGS[log:]])
    lines = done.stdout.splitlines()
    if form == "text":
        found = [int(line.split()[2]) for line in lines if line.startswith("# at ")]
    else:
        found = [json.loads(line)["pos"] for line in lines]

    assert found[:2] == [4, first]
    assert done.stdout[-1000:] == whole.stdout[-1000:]


def test_an_offset_leaves_out_payloads_as_single_events() -> None:
    log = FIXTURES / "mysql97" / "compressed" / "binlog.000001"
    events = [
        json.loads(line) for line in CliRunner().invoke(cli, ["dump", "--format", "json", str(log)]).stdout.splitlines()
    ]
    places = [event["pos"] for event in events if event.get("inner") is None]
    payload = next(number for number, event in enumerate(events) if event["type"] == "TRANSACTION_PAYLOAD_EVENT")
    shown = CliRunner().invoke(cli, ["dump", "--format", "json", "--offset", str(payload + 1), str(log)])

    assert [json.loads(line)["pos"] for line in shown.stdout.splitlines()][1] == places[payload + 1]


def test_an_offset_beyond_the_logs_selects_nothing() -> None:
    done = CliRunner().invoke(cli, ["dump", "--offset", "999999", *LOGS])

    assert (done.exit_code, done.stdout.count("# at ")) == (0, 1)
    assert "binlogio: no event group of the logs is selected by the options\n" in done.stderr


def test_a_number_is_no_output_and_a_stream_is_not_read_twice() -> None:
    """`-o 10` is --offset in mysqlbinlog."""
    number = CliRunner().invoke(cli, ["dump", "-o", "10", *LOGS])
    stream = CliRunner().invoke(cli, ["dump", "--offset", "1", "-"], input=(INCIDENT / "binlog.000001").read_bytes())

    assert (number.exit_code, stream.exit_code) == (2, 2)
    assert "--offset 10 skips events; for a file of this name give ./10" in number.stderr
    assert "--offset reads logs twice: give files instead of standard input" in stream.stderr


@pytest.mark.parametrize(
    ("command", "options"),
    [("dump", ()), ("undo", ()), ("replay", ("--to", "dry-run:")), ("repair", ("--out",)), ("repair", ("--index",))],
)
def test_missing_logs_and_another_order_are_named(command: str, options: tuple[str, ...], tmp_path: Path) -> None:
    """The logs of a series in which number 2 is missing, and in the wrong order."""
    first, second, third = (tmp_path / f"binlog.00000{number}" for number in (1, 2, 3))
    for log in (first, second, third):
        log.write_bytes((FIXTURES / "mysql97" / "rotated" / log.name).read_bytes())
    more = (*options, str(tmp_path / "new")) if command == "repair" else options
    missing = CliRunner().invoke(cli, [command, *more, str(first), str(third)])
    more = (*options, str(tmp_path / "other")) if command == "repair" else options
    turned = CliRunner().invoke(cli, [command, *more, str(second), str(first)])

    assert (
        f"binlogio: {third}: logs are missing before this one: number 2".replace(
            f"{third}:", "binlog.000003:" if "--index" in options else f"{third}:"
        )
        in missing.stderr
    )
    if command != "repair":
        assert (missing.exit_code, turned.exit_code) == (1, 1)
    if "--index" not in options:  # which puts them into the order of their numbers
        assert f"binlogio: {first}: the number is not larger than that of the log before it, {second}" in turned.stderr


@pytest.mark.parametrize("form", ["text", "json", "sql"])
def test_reading_continues_after_damage_where_it_may(form: str, tmp_path: Path) -> None:
    """At the next whole group; what is left out is named, and SQL does not commit the half of a transaction."""
    data = bytearray((INCIDENT / "binlog.000001").read_bytes())
    data[1500] ^= 1
    damaged = tmp_path / "binlog.000001"
    damaged.write_bytes(data)
    arguments = ["dump", "--format", form, "-o", str(tmp_path / "out"), "--force", str(damaged), LOGS[1]]
    refused = CliRunner().invoke(cli, arguments)
    before = (tmp_path / "out").read_text()
    result = CliRunner().invoke(cli, [*arguments, "--force-read"])
    text = (tmp_path / "out").read_text()

    assert refused.exit_code == result.exit_code == 1
    assert "at 1400: WRITE_ROWS_EVENT: the event's checksum is wrong" in result.stderr
    assert "binlog.000001: bytes 986 to 1568 are left out" in result.stderr
    assert text.startswith(before.removesuffix("# End of log\n"))
    if form == "text":
        assert "# Bytes 986 to 1568 are left out.\n" in text
        assert "# at 2830" in text
    elif form == "json":
        positions = [json.loads(line)["pos"] for line in text.splitlines()]
        assert positions.index(1568) > positions.index(986)
        assert positions[-1] == 3307
    else:
        assert "ROLLBACK\n/*!*/;\n" in text.removeprefix(before)


def test_sql_after_damage_restores_the_session_before_it_sets_it_again(tmp_path: Path) -> None:
    """Else sql_log_bin would be saved when it is 0 already, and stay 0."""
    data = bytearray((INCIDENT / "binlog.000001").read_bytes())
    data[1500] ^= 1
    damaged = tmp_path / "binlog.000001"
    damaged.write_bytes(data)
    text = CliRunner().invoke(cli, ["dump", "--format", "sql", "-D", "--force-read", str(damaged)]).stdout
    saved, restored = "SET @binlogio_sql_log_bin = @@session.sql_log_bin", "sql_log_bin = @binlogio_sql_log_bin\n"
    order = [line.startswith(saved) for line in text.splitlines(keepends=True) if saved in line or restored in line]

    assert order == [True, False, True, False]
    assert text.index("ROLLBACK") < text.index(restored) < text.rindex(saved)


def test_sql_is_not_logged_and_idempotent_on_request() -> None:
    text = CliRunner().invoke(cli, ["dump", "--format", "sql", "-D", "-i", "-o", "-", LOGS[1]])
    refused = CliRunner().invoke(cli, ["dump", "-D", LOGS[1]])
    lines = text.stdout.splitlines()

    assert lines[2] == "SET @binlogio_sql_log_bin = @@session.sql_log_bin, @@session.sql_log_bin = 0"
    assert lines[4] == "/*!50700 SET @@session.rbr_exec_mode = IDEMPOTENT */"
    assert lines[-3] == "SET @@session.sql_log_bin = @binlogio_sql_log_bin"
    assert "--disable-log-bin is for --format sql" in refused.stderr


@pytest.fixture
def domains(tmp_path: Path) -> tuple[str, str]:
    """Return logs of MariaDB servers 7 and 8, of domains 3 and 4, with a row each."""
    script = tmp_path / "script.jsonl"
    script.write_text(
        '{"do": "table", "schema": "shop", "name": "t", "columns": [{"name": "id", "type": "int"}]}\n'
        '{"session": "a", "do": "execute", "sql": "INSERT", "changes": [{"insert": "shop.t", "rows": [{"id": 1}]}]}\n'
        '{"session": "a", "do": "commit"}\n'
    )
    logs = []
    for server_id, domain_id in ((7, 3), (8, 4)):
        out = tmp_path / f"server{server_id}"
        settings = ("server_version=10.11.8-MariaDB-log", f"server_id={server_id}", f"gtid_domain_id={domain_id}")
        arguments = [one for setting in settings for one in ("--set", setting)]
        written = CliRunner().invoke(cli, ["write", str(script), "--out", str(out), *arguments])
        assert written.exit_code == 0, written.output
        logs.append(str(out / "binlog.000001"))
    return logs[0], logs[1]


@pytest.mark.parametrize(
    ("options", "server_ids"),
    [
        (("--server-id", "7"), {7}),
        (("--do-server-ids", "7, 8"), {7, 8}),
        (("--server-id", "8", "--server-id", "9"), {8}),
        (("--ignore-server-ids", "7"), {8}),
        (("--ignore-server-ids", "7,8"), set()),
        (("--do-domain-ids", "3"), {7}),
        (("--ignore-domain-ids", "3"), {8}),
        (("--do-domain-ids", "4", "--server-id", "7"), set()),
    ],
)
def test_event_groups_are_selected_by_server_and_domain(
    options: tuple[str, ...], server_ids: set[int], domains: tuple[str, str], tmp_path: Path
) -> None:
    lines = [
        json.loads(line)
        for line in CliRunner().invoke(cli, ["dump", "--format", "json", *options, *domains]).stdout.splitlines()
    ]
    undone = [CliRunner().invoke(cli, ["undo", *options, log]).stderr for log in domains]
    copied = CliRunner().invoke(cli, ["copy", *options, "--merge", "--out", str(tmp_path / "out"), *domains])

    assert {line["server_id"] for line in lines if line["type"].startswith("WRITE_ROWS")} == server_ids
    assert [server_id for server_id, said in zip((7, 8), undone, strict=True) if "1 transaction" in said] == sorted(
        server_ids
    )
    assert f"copied {counted(len(server_ids), 'event group[s]')} into" in copied.stderr


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--server-id", "1,x"), "'x' is not a number from 0 to 4294967295"),
        (("--server-id", "4294967296"), "'4294967296' is not a number from 0 to 4294967295"),
        (("--server-id", "1", "--ignore-server-ids", "2"), "--server-id and --ignore-server-ids exclude each other"),
        (
            ("--do-domain-ids", "0", "--include-gtids", "0-1-1"),
            "--include-gtids and --do-domain-ids exclude each other",
        ),
    ],
)
def test_wrong_numbers_of_servers_and_domains_are_refused(options: tuple[str, ...], sentence: str) -> None:
    result = CliRunner().invoke(cli, ["dump", *options, *LOGS])

    assert result.exit_code == 2
    assert sentence in result.stderr


@pytest.mark.parametrize("logs", [LOGS[1:], LOGS])
def test_each_line_of_json_names_its_file(logs: tuple[str, ...]) -> None:
    """Whether one log is read or several: the fields do not depend on the arguments."""
    lines = CliRunner().invoke(cli, ["dump", "--format", "json", *logs]).stdout.splitlines()

    assert {json.loads(line).get("file") for line in lines} == set(logs)


ROWS: Final = [
    (("--operation", "delete"), {"delete": 4}),
    (("--operation", "insert,delete", "-T", "orders"), {"insert": 8, "delete": 4}),
    (("--where", "id = 1003"), {"insert": 1, "update": 1, "delete": 1}),
    (("--where", "before.total > 15 AND id < 1003", "--operation", "delete"), {"delete": 1}),
]


@pytest.mark.parametrize(("options", "expected"), ROWS)
def test_each_command_selects_the_same_rows(options: tuple[str, ...], expected: dict[str, int], tmp_path: Path) -> None:
    """By operation and by values, out of events with more rows; statements are left out."""
    runner, out = CliRunner(), str(tmp_path / "out")
    lines = runner.invoke(cli, ["dump", "--format", "json", *options, *LOGS]).stdout.splitlines()
    text = runner.invoke(cli, ["dump", "-s", *options, *LOGS]).stdout
    undone = runner.invoke(cli, ["undo", "--on-statement", "skip", *options, *LOGS])
    exported = runner.invoke(cli, ["export", "--to", out, *options, *LOGS])

    events = [event for event in map(json.loads, lines) if "rows" in event]
    found = Counter(dict.fromkeys(expected, 0))
    for event in events:
        found[event["type"].split("_")[0].lower().replace("write", "insert")] += len(event["rows"])
    assert found == expected
    words = {"insert": "INSERT INTO", "update": "UPDATE", "delete": "DELETE FROM"}
    assert {word: text.count(f"### {sql} ") for word, sql in words.items()} == {**dict.fromkeys(words, 0), **expected}
    assert "DROP TABLE" not in text
    assert f"with {counted(sum(expected.values()), 'row change[s]')} " in undone.stderr
    assert f"wrote {counted(sum(expected.values()), 'change[s]')}" in exported.stderr


def test_undo_gives_single_rows_back(tmp_path: Path) -> None:
    """Of the four rows of a DELETE, the one that was worth most."""
    runner = CliRunner()
    result = runner.invoke(cli, ["undo", "--include-gtids", DELETE, "--where", "total > 50", *LOGS])

    inserts = [line for line in result.stdout.splitlines() if line.startswith("INSERT")]
    assert len(inserts) == 1
    assert "VALUES (1006, 2, 64.25," in inserts[0]
    log = tmp_path / "undo.000001"
    runner.invoke(cli, ["undo", "--include-gtids", DELETE, "--where", "total > 50", "--to-binlog", str(log), *LOGS])
    (row,) = binlogio.read_rows(log).to_table().to_pylist()
    assert (row["op"], json.loads(row["after"])["id"]) == ("insert", 1006)


def test_a_replay_of_single_rows_refuses_statements_that_change_rows() -> None:
    target = ["replay", "--to", "dry-run:", "--where", "id > 0"]
    result = CliRunner().invoke(cli, [*target, str(FIXTURES / "mysql97" / "format_statement" / "binlog.000001")])

    assert result.exit_code != 0
    assert "rows are selected by operation or value, which cannot be done in a statement" in result.stderr


@pytest.mark.parametrize("command", [("dump",), ("undo", "--on-statement", "skip"), ("replay", "--to", "dry-run:")])
def test_a_condition_on_columns_that_no_table_has_says_so(command: tuple[str, ...]) -> None:
    logs = LOGS[:1]
    result = CliRunner().invoke(cli, [*command, "--where", "nothing = 1", *logs])

    assert result.exit_code == 2
    assert "no table that was read has the column nothing, expected columns such as those of" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("dump", "--operation", "insert,merge"), "expected insert, update, delete, found merge"),
        (("undo", "--where", "id ="), "the condition cannot be read"),
        (("dump", "--format", "sql", "--where", "id = 1", "-o", "x"), "--operation and --where are for text and JSON"),
    ],
)
def test_wrong_selections_of_rows(arguments: tuple[str, ...], message: str) -> None:
    result = CliRunner().invoke(cli, [*arguments, *LOGS])

    assert result.exit_code == 2
    assert message in result.stderr


@pytest.mark.parametrize("table", ["a`b", "`a`", "``", "`.`", "a.b", "*"])
@pytest.mark.parametrize("database", ["d", "d.e", "`d`"])
def test_a_name_as_messages_show_it_selects_this_table(database: str, table: str) -> None:
    """A backtick in backticks is written twice, as in SQL."""
    others = [(database, "ab"), (database, "a"), (database, "."), ("d", "b"), ("de", table)]
    shown = dotted_name(database, table).replace("*", "`*`")

    assert matches(shown, database, table)
    assert not [other for other in others if matches(shown, *other)]


@pytest.mark.parametrize("name", OUTPUTS)
@pytest.mark.parametrize(("glob", "code"), [("b.c", 2), ("a.b", 2), ("a.b.c", 0), ("a.`b.c`", 0)])
def test_the_parts_of_a_name_with_a_dot_are_no_names(
    name: str, glob: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither in rows nor in the words of the CREATE TABLE."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.sql").write_text("CREATE TABLE `a`.`b.c` (id INT PRIMARY KEY)")
    (tmp_path / "t.csv").write_text("id\n1\n")
    write = ("write", "--from", "t.csv", "--ddl", "t.sql", "--table", "a.`b.c`", "-o", "logs")
    assert CliRunner().invoke(cli, write).exit_code == 0
    key = ("a.`b.c`", "1") if name == "history" else ()
    on_statement = ("--on-statement", "skip") if name == "undo" else ()
    selection = () if name == "history" else ("-T", glob)
    result = CliRunner().invoke(cli, [name, *OUTPUTS[name], *selection, *on_statement, *key, "logs"])

    assert result.exit_code == (0 if name == "history" else code), result.stderr


@pytest.mark.parametrize("command", [["undo", "--on-statement", "skip"], ["replay", "--to", "dry-run:"], ["copy"]])
def test_a_condition_whose_columns_are_there_is_not_reported(command: list[str], tmp_path: Path) -> None:
    out = [] if command[0] == "replay" else ["--output", str(tmp_path / "out"), "--force"]
    log = str(FIXTURES / "mysql97" / "incident" / "binlog.000001")
    texts = {}
    for column in ("total", "none"):
        done = CliRunner().invoke(cli, [*command, "-T", "shop.orders", "--where", f"{column} = 1", *out, log])
        texts[column] = done.stderr

    assert "no table that was read has" not in texts["total"]
    assert "no table that was read has the column none, expected columns such as those of shop.orders:" in texts["none"]
