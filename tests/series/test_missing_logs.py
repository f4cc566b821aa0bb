"""Missing, changed and repeated logs, given to every consumer: nothing is lost or doubled with exit code 0."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pytest

import binlogio
from binlogio.errors import MissingLogs
from series_faults import (
    FAULTS,
    PER_LOG,
    SERVERS,
    ExportConsumer,
    SqliteConsumer,
    group_starts,
    ids_of,
    run,
    write_series,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CONSUMERS: Final[dict[str, Callable[[Path], Any]]] = {
    "SQLite, 1 worker": SqliteConsumer,
    "SQLite, 4 workers": lambda folder: SqliteConsumer(folder, "--workers", "4"),
    "export jsonl": lambda folder: ExportConsumer(folder, "jsonl"),
    "export parquet": lambda folder: ExportConsumer(folder, "parquet"),
    "export duckdb": lambda folder: ExportConsumer(folder, "duckdb"),
}
COMPLETE: Final = ("grown", "purged", "recompressed")
"""No faults: every consumer has every row once."""

NOT_OF_A_REPLAY: Final = ("RESET", "failover", "renamed")
"""Other series, which a replay refuses, since its target has one position for a source; an export takes them."""


@pytest.mark.parametrize(
    ("consumer", "server"),
    [(consumer, "GTIDs") for consumer in CONSUMERS]
    + [(consumer, server) for consumer in ("SQLite, 1 worker", "export jsonl") for server in ("anonymous", "MariaDB")],
)
@pytest.mark.parametrize("fault", FAULTS)
def test_no_consumer_loses_or_repeats_rows_with_exit_code_0(
    fault: str, consumer: str, server: str, tmp_path: Path
) -> None:
    """Each fault ends as the table in docs/reliability.md says."""
    calls = FAULTS[fault](tmp_path, server)
    target = CONSUMERS[consumer](tmp_path)
    codes = [target.give(logs).exit_code for logs in (calls.first, calls.then) if logs]
    found = target.ids() if any(code == 0 for code in codes) else Counter()
    is_complete = fault in COMPLETE or (fault in NOT_OF_A_REPLAY and consumer.startswith("export"))

    assert set(found.values()) <= {1}
    if is_complete:
        assert codes[-1] == 0
    assert (codes[-1] == 0) == is_complete
    if codes[-1] == 0:
        assert sorted(found) == sorted(calls.ids)


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("fault", ["missing inside", "twice"])
def test_commands_without_a_position_refuse_or_end_with_1(fault: str, server: str, tmp_path: Path) -> None:
    """Those that write refuse before they write; those that show go on. Python raises the error when logs are given."""
    logs = FAULTS[fault](tmp_path, server).then
    writing: list[tuple[object, ...]] = [
        ("copy", "-q", "--out", tmp_path / "to"),
        ("dump", "-q", "--format", "sql", "-o", tmp_path / "to"),
        ("undo", "-q", "-o", tmp_path / "to"),
        ("export", "-q", "--latest", "--to", tmp_path / "to"),
    ]
    showing: list[tuple[object, ...]] = [
        ("dump", "-q", "-o", tmp_path / "text"),
        ("dump", "-q", "--format", "json", "-o", tmp_path / "json"),
        ("stats", "-q"), ("info",), ("verify", "-q"), ("grep", "-q", "id > 0"), ("history", "-q", "shop.a", "2"),
        ("schema", "-q", "-o", tmp_path / "schema"), ("index", "-q"),
    ]  # fmt: skip
    for command in writing:
        result = run(*command, *logs)
        assert (command[0], result.exit_code) == (command[0], 1)
        assert not (tmp_path / "to").exists()
    for command in showing:
        assert (command[0], run(*command, *logs).exit_code) == (command[0], 1)
    for read in (binlogio.open, binlogio.read_rows, binlogio.read_tables):
        with pytest.raises(MissingLogs):
            read(logs)


@pytest.mark.parametrize("consumer", ["SQLite, 1 worker", "export jsonl"])
def test_ignored_holes_are_named_with_exit_code_1(consumer: str, tmp_path: Path) -> None:
    """What is there is applied; a later call without a hole is complete."""
    logs = write_series(tmp_path / "good", "GTIDs", logs=4)
    target = CONSUMERS[consumer](tmp_path)
    assert target.give(logs[:1]).exit_code == 0
    result = target.give(["--ignore-missing-logs", *logs[2:3]])

    assert result.exit_code == 1
    assert "number 2" in result.stderr
    assert target.give(logs[3:]).exit_code == 0
    assert sorted(target.ids()) == [one for one in ids_of(4) if not 9 <= one <= 16]


@pytest.mark.parametrize(("server", "gtids"), [("GTIDs", ":9-16"), ("MariaDB", "0-1-16")])
def test_transactions_that_were_renumbered_away_are_missing(server: str, gtids: str, tmp_path: Path) -> None:
    """The numbers have no gap, since the third log has the name of the second one; its head lists other GTIDs."""
    logs = write_series(tmp_path / "good", server)
    logs[2].rename(logs[1])
    for command in (
        ("replay", "-q", "--to", f"sqlite:///{tmp_path}/x.db"),
        ("undo", "-q", "-o", tmp_path / "to"),
        ("copy", "-q", "--out", tmp_path / "to"),
        ("export", "-q", "--to", tmp_path / "to"),
    ):
        result = run(*command, *logs[:2])
        assert (command[0], result.exit_code) == (command[0], 1)
        assert f"{gtids}, which its head lists" in result.stderr


@pytest.mark.parametrize("first_is_given", [False, True])
@pytest.mark.parametrize(("server", "gtids"), [("GTIDs", ":9-16"), ("MariaDB", "0-1-16")])
@pytest.mark.parametrize("consumer", ["SQLite, 1 worker", "export jsonl"])
def test_a_later_call_compares_gtids_with_those_of_the_last_log(
    consumer: str, server: str, gtids: str, *, first_is_given: bool, tmp_path: Path
) -> None:
    """Whether or not the last log is given again."""
    logs = write_series(tmp_path / "good", server)
    logs[2].rename(logs[1])
    target = CONSUMERS[consumer](tmp_path)
    assert target.give(logs[:1]).exit_code == 0
    result = target.give(logs[:2] if first_is_given else logs[1:2])

    assert result.exit_code == 1
    assert gtids in result.stderr
    assert sorted(target.ids()) == list(ids_of(1))


@pytest.mark.parametrize("server", SERVERS)
def test_a_replay_continues_in_a_compressed_log(server: str, tmp_path: Path) -> None:
    logs = write_series(tmp_path / "good", server)
    packed = [log.with_name(f"{log.name}.zst") for log in logs]
    for log, one in zip(logs, packed, strict=True):
        one.write_bytes(pa.Codec("zstd").compress(log.read_bytes(), asbytes=True))
    half = f"{logs[1].name}:{group_starts(logs[1])[4]}"
    target = SqliteConsumer(tmp_path)
    target.give(packed, "--stop-position", half)
    assert sorted(target.ids()) == list(ids_of(2)[: PER_LOG + 4])
    assert target.give(logs).exit_code == 0
    assert sorted(target.ids()) == list(ids_of(3))
