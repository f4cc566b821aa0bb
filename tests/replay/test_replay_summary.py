"""Output of `binlogio replay`: rows by table and algorithm, waits, retries, counters of the server, progress bar."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from binlogio.errors import ReplayError
from binlogio.replay.targets.mysql.server_tables import counted_rows, counted_since
from binlogio_cli.main import cli
from corpus import MARIADB, MYSQL
from real_servers import vendor

if TYPE_CHECKING:
    from pathlib import Path

LOG = MYSQL / "group_commit" / "binlog.000001"


def summary(to: str, *arguments: Any) -> str:
    result = CliRunner().invoke(cli, ["replay", "--to", to, *map(str, arguments)])
    assert result.exit_code == 0, result.stderr
    return result.stdout


def test_rows_are_counted_by_table_and_by_how_they_were_found(tmp_path: Path) -> None:
    """Inserts look for nothing."""
    text = summary(f"sqlite:///{tmp_path}/x.db", "--workers", "8", LOG)

    assert text.startswith("replayed 388 event groups: 322 rows inserted, 64 updated, 0 deleted\n")
    assert "\n  corpus.gc: 320 row changes\n  corpus.hot: 66 row changes (64 by INDEX_SCAN)\n" in text


def test_counters_of_a_table_that_was_made_anew_count_from_there() -> None:
    """Counters that grew; the others are left out."""
    before = Counter({("d.t", "inserted"): 5, ("d.t", "updated"): 1, ("d.new", "inserted"): 9, ("d.new", "deleted"): 1})
    now = Counter(
        {
            ("d.t", "inserted"): 7,
            ("d.t", "updated"): 1,
            ("d.new", "inserted"): 2,
            ("d.new", "deleted"): 1,
            ("d.u", "deleted"): 3,
        }
    )

    assert counted_since(before, now) == {
        ("d.t", "inserted"): 2,
        ("d.new", "inserted"): 2,
        ("d.new", "deleted"): 1,
        ("d.u", "deleted"): 3,
    }
    assert counted_since(None, now) == counted_since(before, None) == {}


def test_server_that_does_not_count_or_does_not_tell_is_not_asked_again() -> None:
    """performance_schema is off, or not readable."""

    def refuses(sql: str) -> list[tuple[Any, ...]]:
        raise ReplayError(f"ERROR 1142: {sql}")

    assert counted_rows(lambda sql: [(0,)]) is None
    assert counted_rows(refuses) is None


@pytest.mark.server
@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "options", "counts"),
    [
        ("mysql", ("--gtid-mode=OFF", "--enforce-gtid-consistency=OFF"), True),
        ("mariadb", (), False),
        ("mariadb", ("--performance-schema=ON",), True),
        ("mariadb118", (), False),
    ],
)
def test_rows_of_events_are_those_that_the_server_counted(kind: str, options: tuple[str, ...], counts: bool) -> None:
    """Or the output says that the number is not known; rows by SQL are known in any case."""
    log = (MYSQL if kind == "mysql" else MARIADB) / "group_commit" / "binlog.000001"
    with vendor(kind).server("summary", "--innodb-flush-log-at-trx-commit=0", "--sync-binlog=0", *options) as server:
        url = f"mysql://root@/?unix_socket={server.socket}"
        text = summary(url, "--workers", "8", log)
        server.sql("DROP DATABASE corpus; DROP DATABASE binlogio_replay;")
        known = summary(url, "--apply", "sql", log)
    (found,) = re.findall(r"replayed \d+ event groups: (\d+) rows inserted, (\d+) updated, (\d+) deleted\n", known)
    said = re.findall(
        r"^  (\S+): (?:(\d+) inserted)?(?:, )?(?:(\d+) updated)?(?:, )?(?:(\d+) deleted)?$", text, re.MULTILINE
    )

    assert re.search(r"^replayed \d+ event groups\n\d+ rows events were applied by the server itself, which ", text)
    assert ("does not say how many rows they had" in text) != counts
    assert ("which chose how to find rows" in text) == counts
    if counts:
        assert [sum(int(one[at] or 0) for one in said) for at in (1, 2, 3)] == [int(number) for number in found]
    assert bool(re.search(r"corpus\.hot: \d+ row changes \(\d+ by INDEX_SCAN\)", known)) == (int(found[1]) > 0)


def test_bar_shows_bytes_rate_and_time_left(tmp_path: Path) -> None:
    """On a terminal, until the end, with the workers; the summary follows it, and --no-progress leaves it out."""
    pytest.importorskip("rich")
    shown = [on_terminal(tmp_path / f"{at}.db", *options) for at, options in enumerate(((), ("--no-progress",)))]

    assert re.search(rb"\d+(?:\.\d+)?/\d+(?:\.\d+)? (?:kB|MB)", shown[0])
    assert re.search(rb"(?:\? |\d+(?:\.\d+)? [kMG]?)(?:B|bytes)/s|\?", shown[0])
    assert re.search(rb"(?:-:--:--|\d:\d\d:\d\d)", shown[0])
    assert b"worker 1: " in shown[0]
    assert shown[1] == b""


def on_terminal(database: Path, *options: str) -> bytes:
    """Return what a replay writes to a terminal that is its standard error."""
    terminal, end = os.openpty()
    code = "from binlogio_cli import progress; progress.DELAY_SECONDS = 0; from binlogio_cli.main import main; main()"
    command = [sys.executable, "-c", code, "replay", "--to", f"sqlite:///{database}", *options, str(LOG)]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=end, check=True, env={**os.environ, "TERM": "xterm", "COLUMNS": "120"}
    )
    os.close(end)
    assert done.stdout.startswith(b"replayed 388 event groups")
    found = b""
    try:
        while part := os.read(terminal, 1 << 16):
            found += part
    except OSError:  # how a terminal ends
        pass
    os.close(terminal)
    return found
