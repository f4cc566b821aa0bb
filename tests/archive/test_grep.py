"""`find_changes` and `binlogio grep`: the changes that a plain search over all values finds."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

import binlogio
from binlogio.archive import SearchSummary, find_changes
from binlogio.errors import ChecksumMismatch, ConditionError
from binlogio.options import ServerVariables
from binlogio.storage import find_logs
from binlogio_cli.main import cli
from corpus import MARIADB, MYSQL
from logs_in_use import LogInUse
from written_logs import UUID

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Image = dict[str, Any] | None


def plain_search(folder: Path, table: str, is_wanted: Callable[[Image, Image], bool]) -> list[tuple[str, int, int]]:
    """Return the places of changes, by their JSON text."""
    found = []
    for row in binlogio.read_rows(str(folder), tables=[f"*.{table}"]).to_table().to_pylist():
        before, after = (None if row[name] is None else json.loads(row[name]) for name in ("before", "after"))
        if is_wanted(before, after):
            found.append((row["file"], row["pos"], row["row"]))
    return found


def is_two_or_more(image: Image) -> bool:
    """Return whether column a of an image is at least 2."""
    value = (image or {}).get("a")
    return isinstance(value, int) and value >= 2


@pytest.mark.parametrize(
    ("folder", "table"),
    [
        (MYSQL / "rowimage_minimal", "pk"),
        (MYSQL / "rowimage_full", "nokey"),
        (MYSQL / "metadata_minimal", "m6"),
        (MARIADB / "rowimage_minimal", "pk"),
        (MARIADB / "rowimage_full", "autoinc"),
    ],
    ids=lambda value: value if isinstance(value, str) else f"{value.parent.name}-{value.name}",
)
def test_changes_that_match_are_those_of_a_plain_search(folder: Path, table: str) -> None:
    found = list(find_changes(find_logs(folder), "a >= 2", wants=lambda _, name: name == table))
    expected = plain_search(folder, table, lambda before, after: is_two_or_more(before) or is_two_or_more(after))
    assert [(one.file, one.pos, one.row) for one in found] == expected
    assert found


def test_absent_values_are_not_null() -> None:
    logs = find_logs(MYSQL / "rowimage_minimal")
    found = list(find_changes(logs, "b IS NULL", wants=lambda _, table: table == "pk"))
    for one in found:
        images = [json.loads(image) for image in (one.before, one.after) if image is not None]
        assert any("b" in image and image["b"] is None for image in images)


def test_changes_before_damage_come_first(tmp_path: Path) -> None:
    data = bytearray((MYSQL / "incident" / "binlog.000002").read_bytes())
    data[2048 + 30] ^= 1  # the update of order 1004
    log = tmp_path / "binlog.000002"
    log.write_bytes(data)
    found: list[str] = []

    def search() -> None:
        found.extend(
            one.op for one in find_changes(find_logs([log]), "id > 0", wants=lambda _, table: table == "orders")
        )

    with pytest.raises(ChecksumMismatch):
        search()
    assert found == ["insert", "delete", "delete", "delete", "delete", "insert"]


def test_tables_without_the_columns_are_passed_over() -> None:
    summary = SearchSummary()
    found = list(find_changes(find_logs(MYSQL / "incident"), "total = 199", summary=summary))
    assert [(one.table, one.op) for one in found] == [("orders", "update")]
    with pytest.raises(ConditionError, match="no table that was read has the column nix"):
        list(find_changes(find_logs(MYSQL / "incident"), "nix = 1"))


def test_grep_for_people_and_as_json() -> None:
    arguments = ["grep", "-T", "shop.orders", "after.total < before.total", str(MYSQL / "incident")]
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 0, result.output
    assert 'total: "250.00" -> "199.00"' in result.stdout
    assert "1 change matches in 2 logs; 16 changes were compared" in result.stderr
    (line,) = CliRunner().invoke(cli, [*arguments, "--json"]).stdout.splitlines()
    assert json.loads(line)["after"]["total"] == "199.00"
    refused = CliRunner().invoke(cli, ["grep", "total >", str(MYSQL / "incident")])
    assert (refused.exit_code, refused.stdout) == (2, "")


def test_the_incomplete_end_of_a_log_in_use_is_said(tmp_path: Path) -> None:
    """Its complete events are searched, by `grep` and by `history`."""
    source = LogInUse(ServerVariables(server_uuid=UUID))
    log = tmp_path / "binlog.000001"
    begin, sizes = source.starts[3], [len(event) for event in source.events(3)]
    state = (
        f"binlogio: {log}: at {{}}: the log is in use, or its server crashed: it ends in {{}}, searched up to {{}}\n"
    )
    cases = {
        begin: "",
        begin + 5: state.format(begin, "5 bytes of an incomplete event", begin),
        begin + sum(sizes[:-1]): state.format(begin, "an incomplete transaction", begin + sum(sizes[:-1])),
        begin + sum(sizes) - 3: state.format(begin, "an incomplete transaction", begin + sum(sizes[:-1])),
        begin + sum(sizes): "",
    }
    for size, said in cases.items():
        log.write_bytes(source.data[:size])
        grep = CliRunner().invoke(cli, ["grep", "id = 3", str(log)])
        history = CliRunner().invoke(cli, ["history", "shop.n", "3", str(log)])

        has_table = size > begin + 5
        assert (grep.exit_code, history.exit_code) == (0, 0 if has_table else 2)
        found = "1 change matches" if has_table else "no changes match"
        assert grep.stderr.startswith(f"{said}binlogio: {found}")
        text = "1 change of" if has_table else "shop.n: no event of the logs matches this table"
        assert history.stderr.startswith(f"{said}binlogio: {text}")


def test_changes_that_were_rolled_back_have_their_outcome() -> None:
    """In the text only those that were not committed."""
    log = MARIADB / "format_row" / "binlog.000001"
    found = list(find_changes(find_logs(log), "v = 'undone'", wants=lambda *_: True))
    command = ["grep", "v IN ('undone', 'xa2', 't1')", str(log)]
    result = CliRunner().invoke(cli, command)
    lines = result.stdout.splitlines()

    assert "select the GTID of the XA COMMIT" in result.stderr
    assert "binlogio undo" not in result.stderr
    assert [(one.op, one.outcome) for one in found] == [("insert", "rollback to savepoint")]
    assert sum("outcome: rollback to savepoint" in line for line in lines) == 1
    assert sum("outcome: prepare" in line for line in lines) == 1
    assert sum("  INSERT  " in line and "outcome:" not in line for line in lines) == 1


def test_statements_are_shown_without_a_condition_and_how_to_restore_what_was_before_the_last() -> None:
    log = str(MYSQL / "incident")
    result = CliRunner().invoke(cli, ["grep", "-T", "shop.customers", "--json", log])
    found = [json.loads(line) for line in result.stdout.splitlines()]
    places = [(one["file"], one["pos"]) for one in found]
    place = re.search(r"--stop-position (\S+)", result.stderr)
    assert place is not None
    replayed = CliRunner().invoke(cli, ["replay", "--to", "dry-run:", "--stop-position", place[1], log])

    assert places == sorted(places)
    assert [one["sql"].split()[0] for one in found if one["kind"] == "statement"] == ["CREATE", "DROP"]
    assert found[-1]["sql"].startswith("DROP TABLE")
    assert replayed.exit_code == 0, replayed.stderr
    assert "position: binlog.000002 2619" in replayed.stdout
    assert f"--exclude-gtids {found[-1]['gtid']}" in result.stderr


def test_changes_before_damage_are_shown_with_statements(tmp_path: Path) -> None:
    """As without statements."""
    data = bytearray((MYSQL / "incident" / "binlog.000002").read_bytes())
    data[2700] ^= 1  # in the DROP TABLE
    log = tmp_path / "binlog.000002"
    log.write_bytes(data)
    plain = CliRunner().invoke(cli, ["grep", "id > 0", "--json", str(log)])
    both = CliRunner().invoke(cli, ["grep", "--json", str(log)])

    assert plain.exit_code == both.exit_code != 0
    assert plain.stdout == both.stdout != ""
    assert "2696" in both.stderr


def test_without_a_condition_every_selected_change_is_shown() -> None:
    log = str(MYSQL / "incident")
    options = ["grep", "-T", "shop.orders", "--operation", "delete", "--json"]
    result = CliRunner().invoke(cli, [*options, log])
    changes = [json.loads(line) for line in result.stdout.splitlines()]

    assert [one["before"]["id"] for one in changes] == [1002, 1003, 1005, 1006]
    assert [one["key"] for one in changes] == [{"id": str(number)} for number in (1002, 1003, 1005, 1006)]
    assert (
        "undo --include-gtids acb68dd1-e6e6-11f1-a4d2-02fc00000001:10 -T shop.orders --operation delete --preview"
        in result.stderr
    )
    assert CliRunner().invoke(cli, [*options, "--where", "id > 0", log]).stdout == result.stdout
    refused = CliRunner().invoke(cli, ["grep", "no such file"])
    assert (refused.exit_code, "name the logs" in refused.stderr) == (2, True)
    assert CliRunner().invoke(cli, ["grep", "id > 0", "--where", "id > 0", log]).exit_code == 2


def test_changes_as_text_are_reported_where_rows_are_compared() -> None:
    """MariaDB logs them by default: the rows of a DELETE as text are not in the log, and no match is no answer."""
    logs = str(MYSQL / "format_statement")

    found = CliRunner().invoke(cli, ["grep", "--operation", "delete", logs])
    other = CliRunner().invoke(cli, ["grep", "--operation", "delete", str(MYSQL / "incident")])

    assert found.exit_code == 1
    assert re.search(r"at \d+: the log has a change as SQL text, so the result is incomplete", found.stderr)
    assert f"binlogio grep {logs} shows such changes" in found.stderr
    assert other.exit_code == 0
    assert "SQL text" not in other.stderr
