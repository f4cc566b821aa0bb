"""MariaDB does not truncate the log in which it crashed: the incomplete transaction has no effect and is reported.

A replica rolls the transaction back when the next log begins. MySQL removes it in crash recovery and clears the flag
IN_USE, so that a log of MySQL that is in use before another one is an incomplete copy (`test_missing_logs.py`).
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import pytest

import binlogio
from series_faults import ExportConsumer, SqliteConsumer, crashed, ids_of, run
from spark_streams import Stream

if TYPE_CHECKING:
    from pathlib import Path

TORN: Final = 10
ENDS: Final = pytest.mark.parametrize("end", [0, TORN], ids=["after an event", "in an event"])


@ENDS
def test_every_command_names_the_file_and_the_place(end: int, tmp_path: Path) -> None:
    """The exit code is 0: nothing that the server committed is missing."""
    logs, begin, _ = crashed(tmp_path, "MariaDB", end)
    for number, command in enumerate((
        ("dump",), ("dump", "--format", "json"), ("dump", "--format", "sql"), ("dump", "-T", "shop.a"),
        ("dump", "--include-gtids", "0-1-1"), ("stats",), ("verify",), ("grep", "id > 0"), ("history", "shop.a", "2"),
        ("export",), ("export", "--latest"), ("copy",), ("undo",),
        ("replay", "--to", f"sqlite:///{tmp_path}/x.db"), ("sql", "SELECT * FROM shop.a"),
    )):  # fmt: skip
        output = ("-o", tmp_path / f"to{number}") if command[0] in ("export", "copy", "dump", "undo") else ()
        result = run(command[0], "-q", *output, *command[1:], *logs)

        assert (command, result.exit_code) == (command, 0)
        assert logs[0].name in result.output
        assert f"{begin}" in result.output
        assert "incomplete" in result.output or "in the middle of an event group" in result.output


@ENDS
def test_the_transaction_has_no_effect(end: int, tmp_path: Path) -> None:
    """Its GTID is that of the next transaction, which is applied."""
    logs, begin, _ = crashed(tmp_path, "MariaDB", end)
    for consumer in (SqliteConsumer(tmp_path), ExportConsumer(tmp_path, "jsonl")):
        assert consumer.give(logs).exit_code == 0
        assert consumer.ids() == Counter(ids_of(3))
    stream = Stream(logs[0].parent)
    places = [(row["file"], row["pos"]) for row in stream.rest()]

    assert len(places) == len(ids_of(3))
    assert not [place for place in places if place[0] == str(logs[0]) and place[1] > begin]


@ENDS
def test_rows_of_the_transaction_have_no_outcome(end: int, tmp_path: Path) -> None:
    """As those of a transaction that the server still writes."""
    logs, begin, at = crashed(tmp_path, "MariaDB", end)
    rows = binlogio.read_rows(logs, source_columns=["outcome"]).to_table().to_pylist()
    (row,) = [row for row in rows if row["outcome"] is None]

    assert row["file"] == str(logs[0])
    assert begin < row["pos"] < at


@ENDS
def test_dump_for_the_client_rolls_the_transaction_back(end: int, tmp_path: Path) -> None:
    """Otherwise START TRANSACTION of the next one commits it, or, with GTIDs, the client ends with error 1953."""
    logs, _, _ = crashed(tmp_path, "MariaDB", end)
    both = run("dump", "-q", "--format", "sql", *logs).stdout
    first = run("dump", "-q", "--format", "sql", logs[0]).stdout.removesuffix("DELIMITER ;\n")

    assert both.startswith(first)
    assert first.endswith("\n/*!*/;\nROLLBACK\n/*!*/;\n")
    assert both.count("ROLLBACK") == 1


@pytest.mark.parametrize("server", ["GTIDs", "anonymous"])
def test_dump_of_a_mysql_log_in_use_rolls_its_open_transaction_back(server: str, tmp_path: Path) -> None:
    """Otherwise the client ends with error 1766, as GTID_NEXT cannot be set in a transaction."""
    logs, begin, at = crashed(tmp_path, server)
    result = run("dump", "-q", "--format", "sql", logs[0])

    assert result.exit_code == 0
    assert "\nROLLBACK\n/*!*/;\n" in result.stdout
    assert f"at {at}: the log was in use and ends" in result.stderr
    assert f"ends at {begin}" in result.stderr
