"""`binlogio replay`: options that select a part of a log, with one worker and with several, and refused values."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import pytest
from click.testing import CliRunner, Result

from binlogio_cli.main import cli
from corpus import MYSQL

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LOG: Final = MYSQL / "group_commit" / "binlog.000001"
UUID: Final = "2f658ac8-e51b-11f1-a314-02fc00000001"


@dataclass
class Group:
    """An event group in the output of `binlogio dump`."""

    number: int
    start: int
    timestamp: str
    end: int = 0
    rows: list[tuple[str, dict[str, Any]]] = field(default_factory=list)


@cache
def groups() -> tuple[Group, ...]:
    """Return all groups of the log with the rows after each; group n has the GTID n."""
    found: list[Group] = []
    for line in CliRunner().invoke(cli, ["dump", "--format", "json", str(LOG)]).stdout.splitlines():
        event = json.loads(line)
        if event["type"] == "GTID_LOG_EVENT":
            found.append(Group(len(found) + 1, event["pos"], event["timestamp"]))
        elif found and event["type"] != "ROTATE_EVENT":
            found[-1].end = event["end"]
            found[-1].rows += [(f"{event['schema']}.{event['table']}", row["after"]) for row in event.get("rows", ())]
    return tuple(found)


def wanted(
    choice: Callable[[Group], bool], *tables: str, schema: str = "corpus"
) -> dict[str, dict[int, tuple[Any, ...]]]:
    """Return the tables after the selected groups, by the keys of rows."""
    found: dict[str, dict[int, tuple[Any, ...]]] = {}
    for group in groups():
        for table, row in group.rows if choice(group) else ():
            if table in tables:
                found.setdefault(table.replace("corpus.", f"{schema}."), {})[row["id"]] = tuple(row.values())
    return found


def run(tmp_path: Path, *options: object) -> Result:
    return CliRunner().invoke(cli, ["replay", "--to", f"sqlite:///{tmp_path}/x.db", *map(str, options), str(LOG)])


def rows(tmp_path: Path) -> dict[str, dict[int, tuple[Any, ...]]]:
    with closing(sqlite3.connect(tmp_path / "x.db")) as connection:
        names = [
            name
            for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE '%.%'")
        ]
        found = {name: {row[0]: row for row in connection.execute(f'SELECT * FROM "{name}"')} for name in names}
    return {name: table for name, table in found.items() if table}


FIRST, MIDDLE, LAST = (groups()[at] for at in (3, 200, 380))
GC, HOT = "corpus.gc", "corpus.hot"
ONLY_GC: Final = ("--table", GC)
CHOICES: Final[dict[str, tuple[tuple[Any, ...], Callable[[Group], bool], tuple[str, ...]]]] = {
    "all": ((), lambda g: True, (GC, HOT)),
    "stop": (("--stop-position", f"binlog.000001:{MIDDLE.start}"), lambda g: g.start < MIDDLE.start, (GC, HOT)),
    "start": (
        ("--start-position", f"binlog.000001:{MIDDLE.start}", *ONLY_GC),
        lambda g: g.start >= MIDDLE.start,
        (GC,),
    ),
    "start and stop": (
        (
            "--start-position",
            f"binlog.000001:{MIDDLE.start}",
            "--stop-position",
            f"binlog.000001:{LAST.start}",
            *ONLY_GC,
        ),
        lambda g: MIDDLE.start <= g.start < LAST.start,
        (GC,),
    ),
    "stop datetime": (
        ("--stop-datetime", "2026-11-20 19:57:52"),
        lambda g: g.timestamp < "2026-11-20T19:57:52",
        (GC, HOT),
    ),
    "stop datetime in UTC": (
        ("--stop-datetime", "2026-11-20T19:57:52Z"),
        lambda g: g.timestamp < "2026-11-20T19:57:52",
        (GC, HOT),
    ),
    "stop datetime in a zone": (
        ("--stop-datetime", "2026-11-20T20:57:52+01:00"),
        lambda g: g.timestamp < "2026-11-20T19:57:52",
        (GC, HOT),
    ),
    "include gtids": (
        ("--include-gtids", f"{UUID}:1-4:7:100-250"),
        lambda g: g.number <= 4 or g.number == 7 or 100 <= g.number <= 250,
        (GC, HOT),
    ),
    "exclude gtids": (
        ("--exclude-gtids", f"{UUID}:10-20:30", *ONLY_GC),
        lambda g: not 10 <= g.number <= 20 and g.number != 30,
        (GC,),
    ),
    "include and exclude": (
        ("--include-gtids", f"{UUID}:1-200", "--exclude-gtids", f"{UUID}:50-60", *ONLY_GC),
        lambda g: g.number <= 200 and not 50 <= g.number <= 60,
        (GC,),
    ),
    "table": (("--table", HOT), lambda g: True, (HOT,)),
    "tables": (("--table", "corpus.h*", "--table", GC), lambda g: True, (GC, HOT)),
    "exclude table": (("--exclude-table", "*.hot"), lambda g: True, (GC,)),
    "table and exclude table": (("--table", "corpus.*", "--exclude-table", GC), lambda g: True, (HOT,)),
}


@pytest.mark.parametrize("workers", [1, 8])
@pytest.mark.parametrize("name", CHOICES)
def test_what_was_chosen_is_in_the_tables_and_nothing_else(tmp_path: Path, name: str, workers: int) -> None:
    """The rows are compared with the log's events."""
    options, choice, tables = CHOICES[name]
    result = run(tmp_path, "--workers", workers, *options)
    expected = wanted(choice, *tables)

    assert result.exit_code == 0, result.stderr
    assert rows(tmp_path) == expected
    assert sum(map(len, expected.values())) > 1


@pytest.mark.parametrize("workers", [1, 8])
def test_schemas_get_their_other_names(tmp_path: Path, workers: int) -> None:
    """Filters apply to the names in the log."""
    result = run(
        tmp_path, "--workers", workers, "--rewrite-db", "corpus->copy of it", "--rewrite-db", "x->y", "--table", GC
    )

    assert result.exit_code == 0, result.stderr
    assert rows(tmp_path) == wanted(lambda g: True, GC, schema="copy of it")


def test_parts_one_after_the_other_are_the_whole(tmp_path: Path) -> None:
    """The position is in the target, so each group is applied exactly once."""
    stops = [("--stop-position", f"binlog.000001:{group.start}") for group in (FIRST, MIDDLE, LAST)]
    results = [
        run(tmp_path, "--workers", workers, *stop) for workers, stop in zip((8, 1, 3, 8), (*stops, ()), strict=True)
    ]

    assert [result.exit_code for result in results] == [0] * 4
    assert f"position: binlog.000001 {MIDDLE.start}\n" in results[1].stdout
    assert (
        f"{FIRST.number - 1} event groups were skipped: the target has them, or they are before its position\n"
        in results[1].stdout
    )
    assert rows(tmp_path) == wanted(lambda g: True, GC, HOT)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--start-position", "x"), "'x' is not a position; expected an offset, FILE:OFFSET such as binlog.000001:4"),
        (
            ("--stop-position", "binlog.000001:x"),
            "'binlog.000001:x' is not a position; expected an offset, FILE:OFFSET",
        ),
        (("--stop-position", "binlog.000001:-1"), "'binlog.000001:-1' is not a position; expected an offset, "),
        (
            ("--stop-datetime", "tomorrow"),
            (
                "Invalid value for '--stop-datetime': 'tomorrow' is not a time; expected a time such as "
                "'2026-11-20 12:00:00'"
            ),
        ),
        (("--include-gtids", "x"), "Invalid value for '--include-gtids': "),
        (("--exclude-gtids", f"{UUID}:0"), "Invalid value for '--exclude-gtids': "),
        (("--rewrite-db", "a=b"), "--rewrite-db a=b: expected FROM->TO"),
        (("--rewrite-db", "->b"), "--rewrite-db ->b: expected FROM->TO"),
        (("--workers", "0"), "Invalid value for '--workers': 0 is not in the range 1<=x<=1024."),
        (("--workers", "many"), "Invalid value for '--workers': 'many' is not a valid whole number"),
        (("--apply", "magic"), "Invalid value for '--apply': 'magic' is not one of"),
        (("--to", "ftp://x"), "--to ftp://x: expected sqlite:///FILE, mysql://USER@HOST/ or dry-run:"),
        (("--to", "sqlite:///"), "--to sqlite:///: expected sqlite:"),
        (("--to", "mysql://root@/database/table"), "the target is not the URL of a server"),
        (("--to", "mysql://root@localhost:port/"), "the target's URL has an invalid port"),
        (("--to", "mysql://root@[::1/shop"), "the target's URL cannot be parsed, found mysql://root@[::1/shop"),
        (
            ("--to", "mysql://root:secret@[::1/shop"),
            "the target's URL cannot be parsed, found mysql://root:...@[::1/shop",
        ),
        (("--to", "mysql://root:secret@host:port/"), "found mysql://root:...@host:port/"),
        (("--to", "ftp://root:secret@x"), "--to ftp://root:...@x: expected sqlite:"),
    ],
)
def test_wrong_options_are_refused_with_what_was_expected(
    tmp_path: Path, options: tuple[str, str], sentence: str
) -> None:
    """The target is not created."""
    result = run(tmp_path, *options)

    assert result.exit_code == 2
    assert sentence in result.stderr
    assert "secret" not in result.stderr
    assert not (tmp_path / "x.db").exists()


def test_server_that_is_not_there_is_an_io_error(tmp_path: Path) -> None:
    """The exit code is 4, and the message has the reason."""
    url = f"mysql://root@/shop?unix_socket={tmp_path}/none.sock"
    command = [sys.executable, "-m", "binlogio_cli", "replay", "--to", url, str(LOG)]
    result = subprocess.run(command, capture_output=True, check=False)

    assert result.returncode == 4
    assert b"the server cannot be reached" in result.stderr
