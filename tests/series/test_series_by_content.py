"""Logs of several servers, directories and names, copies, and clocks: what they are is decided by their heads."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pytest

from binlogio.errors import MissingLogs
from logs import raw_events, with_checksum
from series_faults import (
    PER_LOG,
    READS,
    SERVERS,
    SHOWING,
    ExportConsumer,
    SqliteConsumer,
    group_starts,
    ids_of,
    of_replica,
    replicating,
    run,
    torn,
    write_series,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

WRITING: Final = (
    ("copy", "-q", "-o"),
    ("undo", "-q", "-o"),
    ("export", "-q", "--to"),
    ("dump", "-q", "--format", "sql", "-o"),
    ("repair", "-q", "--out"),
)


def copied(log: Path, *parts: str) -> Path:
    to = log.parent.parent.joinpath(*parts)
    to.parent.mkdir(parents=True, exist_ok=True)
    return Path(shutil.copy(log, to))


def relay_log(log: Path) -> Path:
    """Make a log a relay log, by the flag in its format description."""
    data = log.read_bytes()
    event = bytearray(next(raw_events(data))[1])
    event[17] |= 0x40  # LOG_EVENT_RELAY_LOG_F
    log.write_bytes(data[:4] + with_checksum(bytes(event)) + data[4 + len(event) :])
    return log


def all_refuse(logs: list[Path], folder: Path, reason: str, others: Mapping[str, int]) -> None:
    """Check that each command says this and ends with 1; `others` have another reason, and these exit codes."""
    for command in (*WRITING, *((one,) for one in SHOWING)):
        to = [folder / "to"] if command[-1].startswith("-") else []
        result = run(*command, *to, *logs)
        assert (command[0], result.exit_code) == (command[0], others.get(command[0], 1))
        assert reason in result.output or command[0] in others, command[0]
        assert not to or not to[0].exists()
    for read in READS:
        with pytest.raises(MissingLogs, match=reason):
            read(logs)


@pytest.mark.parametrize(("server", "kind"), [("anonymous", "binlog"), ("GTIDs", "relay log")])
def test_a_copy_under_any_name_is_there_twice(server: str, kind: str, tmp_path: Path) -> None:
    """Without GTIDs, and of relay logs, by its size and its end."""
    logs = write_series(tmp_path / "good", server)
    if kind == "relay log":
        logs = [relay_log(log) for log in logs]
    all_refuse([*logs, copied(logs[1], "copies", "old.000007")], tmp_path, "the log is given twice", {})


@pytest.mark.parametrize("server", SERVERS)
def test_one_name_twice(server: str, tmp_path: Path) -> None:
    """The name has no number."""
    log = copied(write_series(tmp_path / "good", server)[0], "copies", "log")
    all_refuse([log, log], tmp_path, "the log is given twice", {"repair": 2})  # needs a number


def test_logs_of_two_servers_may_take_turns(tmp_path: Path) -> None:
    """A hole is one of its series."""
    one = write_series(tmp_path / "one", "anonymous")
    other = [
        log.rename(tmp_path / f"b.{log.name[-6:]}") for log in write_series(tmp_path / "two", "anonymous", number=1)
    ]
    assert run("info", one[0], other[0], one[1]).exit_code == 0
    for command in ("info", "verify", "stats"):
        result = run(command, one[0], other[0], one[2])
        assert (command, result.exit_code) == (command, 1)
        assert "number 2" in result.output


@pytest.mark.parametrize("server", SERVERS)
def test_a_replay_does_not_pass_over_logs_of_another_server(server: str, tmp_path: Path) -> None:
    """A position is one place in the logs: what is new of the first server comes before it."""
    a = write_series(tmp_path / "a", server)
    b = [
        log.rename(log.with_name(f"z{log.name}")) for log in write_series(tmp_path / "b", server, number=1, first_id=90)
    ]
    target = SqliteConsumer(tmp_path)
    assert target.give([*a[:2], *b]).exit_code == 0
    result = target.give([*a, *b])
    assert result.exit_code == 2
    assert "is a log of another server, and comes before the log of the target's position" in result.stderr
    same_names = write_series(tmp_path / "c", server, number=1, first_id=200)
    result = target.give([*a, *same_names])
    assert result.exit_code == 2


@pytest.mark.parametrize("server", SERVERS)
def test_a_log_without_groups_counts_as_begun(server: str, tmp_path: Path) -> None:
    """What is written to it later is missing if only the next logs are given."""
    logs = write_series(tmp_path / "good", server)
    data = bytearray(logs[0].read_bytes()[: group_starts(logs[0])[0]])
    data[21] |= 1  # BINLOG_IN_USE
    begun = tmp_path / "begun" / logs[0].name
    begun.parent.mkdir()
    begun.write_bytes(data)
    for target in (SqliteConsumer(tmp_path), ExportConsumer(tmp_path, "jsonl")):
        assert target.give([begun]).exit_code == 0
        result = target.give(logs[1:])
        assert result.exit_code == 1
        assert "binlog.000001 from" in result.stderr
        assert target.give(logs).exit_code == 0
        assert sorted(target.ids()) == list(ids_of(3))


def test_a_folder_that_is_named_like_its_log_hides_no_hole(tmp_path: Path) -> None:
    logs = write_series(tmp_path / "good", "anonymous")
    first, _, third = (copied(log, log.name, log.name) for log in logs)
    target = SqliteConsumer(tmp_path)
    assert target.give([first]).exit_code == 0
    result = target.give([third])
    assert result.exit_code == 1
    assert "number 2" in result.stderr


@pytest.mark.parametrize("server", SERVERS)
def test_the_rest_of_a_log_is_missing_although_another_server_has_its_name(server: str, tmp_path: Path) -> None:
    logs = write_series(tmp_path / "good", server)
    half = copied(logs[0], "half", logs[0].name)
    data = bytearray(half.read_bytes()[: group_starts(half)[4]])
    data[21] |= 1  # BINLOG_IN_USE
    half.write_bytes(data)
    other = write_series(tmp_path / "other", server, logs=1, number=1, first_id=100)
    target = ExportConsumer(tmp_path, "jsonl")
    assert target.give([half]).exit_code == 0
    result = target.give([*other, *logs[1:]])
    assert result.exit_code == 1
    assert "binlog.000001 from" in result.stderr


@pytest.mark.parametrize("server", ["GTIDs", "MariaDB"])
def test_several_new_logs_after_a_rename_or_a_failover_continue_each_other(server: str, tmp_path: Path) -> None:
    logs = write_series(tmp_path / "good", server, logs=4)
    renamed = [copied(log, "renamed", f"new.{number:06d}") for number, log in enumerate(logs[2:], 1)]
    target = ExportConsumer(tmp_path, "jsonl")
    assert target.give(logs[:2]).exit_code == 0
    assert target.give(renamed).exit_code == 0
    assert sorted(target.ids()) == list(ids_of(4))


@pytest.mark.parametrize("daily", ["one log", "all logs"])
@pytest.mark.parametrize("server", SERVERS)
def test_the_clock_of_a_server_may_go_back(server: str, daily: str, tmp_path: Path) -> None:
    """And later forward: numbers and GTIDs order the logs. Without GTIDs, a replay needs the log before it too."""
    logs = write_series(tmp_path / "good", server, begins=(0, 20, 400, 100, 120, 600))
    export, replay = ExportConsumer(tmp_path, "jsonl"), SqliteConsumer(tmp_path)
    for number, log in enumerate(logs):
        given = [log] if daily == "one log" else logs[: number + 1]
        assert export.give(given).exit_code == 0
        if server != "anonymous" or daily == "all logs":
            assert replay.give(given).exit_code == 0
    for target in (export, replay) if server != "anonymous" or daily == "all logs" else (export,):
        assert sorted(target.ids()) == list(ids_of(len(logs)))


def test_a_stop_before_the_position_of_the_target_is_refused(tmp_path: Path) -> None:
    """The target has later transactions: it is not at the wanted point in time."""
    logs = write_series(tmp_path / "good", "GTIDs")
    target = SqliteConsumer(tmp_path)
    assert target.give(logs).exit_code == 0
    result = target.give(logs, "--stop-position", f"{logs[1].name}:{group_starts(logs[1])[3]}")
    assert result.exit_code == 2
    assert "the target has transactions after the stop position" in result.stderr
    assert sorted(target.ids()) == list(ids_of(3))


def test_a_copy_of_a_log_under_the_next_number_is_not_exported_again(tmp_path: Path) -> None:
    """Without GTIDs, by the bytes before the offset that the export has."""
    logs = write_series(tmp_path / "good", "anonymous")
    target = ExportConsumer(tmp_path, "jsonl")
    assert target.give(logs).exit_code == 0
    assert target.give([copied(logs[2], "copies", "binlog.000004")]).exit_code == 0
    assert sorted(target.ids()) == list(ids_of(3))


@pytest.mark.parametrize("server", SERVERS)
def test_a_closed_log_without_transactions_was_replayed(server: str, tmp_path: Path) -> None:
    """An idle server that rotates: the next log continues, whether or not the empty one is given again."""
    logs = write_series(tmp_path / "good", server, begins=(0, 20, 40), empty=1)
    one, all_ = SqliteConsumer(tmp_path), SqliteConsumer(tmp_path / "good")
    for log in logs:
        assert one.give([log]).exit_code == 0
    assert all_.give(logs[:2]).exit_code == 0
    assert all_.give(logs[2:]).exit_code == 0
    expected = [*range(1, 1 + PER_LOG), *range(1 + 2 * PER_LOG, 1 + 3 * PER_LOG)]
    assert sorted(one.ids()) == sorted(all_.ids()) == expected


@pytest.mark.parametrize("server", ["GTIDs", "MariaDB"])
def test_an_empty_log_and_a_clock_that_goes_back(server: str, tmp_path: Path) -> None:
    """Heads with the same GTIDs are compared in the order of the numbers."""
    logs = write_series(tmp_path / "good", server, begins=(400, 0, 20, 40), empty=0)
    assert ExportConsumer(tmp_path, "jsonl").give(logs).exit_code == 0
    assert run("dump", "-q", "--format", "sql", "-o", tmp_path / "sql", *logs).exit_code == 0


@pytest.mark.parametrize("server", SERVERS)
def test_a_reset_while_the_clock_goes_back_hides_no_missing_log(server: str, tmp_path: Path) -> None:
    old = write_series(tmp_path / "old", server)
    new = write_series(tmp_path / "new", server, first_id=100, since=1_699_980_000)
    target = ExportConsumer(tmp_path, "jsonl")
    assert target.give(old).exit_code == 0
    result = target.give(new[1:])
    assert result.exit_code == 1
    assert "number 1" in result.stderr
    assert target.give(new).exit_code == 0


def test_a_compressed_copy_without_gtids_is_there_twice(tmp_path: Path) -> None:
    """And a copy of its beginning, under another name."""
    logs = write_series(tmp_path / "good", "anonymous")
    packed = tmp_path / "old.000007.zst"
    packed.write_bytes(pa.Codec("zstd").compress(logs[1].read_bytes(), asbytes=True))
    begin = tmp_path / "old.000008"
    begin.write_bytes(logs[1].read_bytes()[: group_starts(logs[1])[5]])
    for copy in (packed, begin):
        for command in (("export", "-q", "--to"), ("verify", "-q"), ("copy", "-q", "-o")):
            result = run(*command, *([tmp_path / "to"] if command[0] != "verify" else []), *logs, copy)
            assert (command[0], result.exit_code) == (command[0], 1)
            assert "the log is given twice" in result.output


@pytest.mark.parametrize("server", ["GTIDs", "MariaDB"])
def test_servers_that_replicate_from_each_other_log_the_same_transactions(server: str, tmp_path: Path) -> None:
    """Logs of both of them, in one call: the transactions are there twice."""
    a, b = replicating(tmp_path, server)
    assert run("dump", "-q", "--format", "sql", "-o", tmp_path / "sql", *a).exit_code == 0
    for command in (
        *(one for one in WRITING if one[0] != "repair"),
        ("copy", "-q", "--basename", "both", "--out"),
        ("replay", "-q", "--workers", "1", "--to"),
        ("replay", "-q", "--workers", "4", "--to"),
    ):
        to = f"sqlite:///{tmp_path}/to" if command[0] == "replay" else tmp_path / "to"
        result = run(*command, to, *a, *b)
        assert (command, result.exit_code) == (command, 1)
        assert "the log has transactions that another log has, too: " in result.stderr
        assert command[0] == "replay" or not (tmp_path / "to").exists()
        (tmp_path / "to").unlink(missing_ok=True)


@pytest.mark.parametrize("server", ["GTIDs", "MariaDB"])
def test_an_export_knows_the_gtids_of_servers_that_replicate_from_each_other(server: str, tmp_path: Path) -> None:
    """What a server has from the other one is not exported again, whichever is continued; a RESET repeats nothing."""
    a, b = replicating(tmp_path, server)
    target = ExportConsumer(tmp_path, "jsonl")
    for given in (a[:1], b[:1]):  # what each one has logged itself
        assert target.give(given).exit_code == 0
    for given in (a, b):
        result = target.give(given)
        assert result.exit_code == 1
        assert "the log has transactions that another log has, too: " in result.stderr
    (again,) = write_series(tmp_path / "again", server, first_id=200, logs=1, since=1_700_009_000)
    assert target.give([again.rename(tmp_path / "a.000001")]).exit_code == 0
    assert sorted(target.ids()) == [*ids_of(2), *range(100, 100 + 2 * PER_LOG), *range(200, 200 + PER_LOG)]


@pytest.mark.parametrize("server", ["GTIDs", "MariaDB"])
def test_a_target_knows_the_gtids_of_servers_that_replicate_from_each_other(server: str, tmp_path: Path) -> None:
    """By the latest GTIDs at its position: the log of the other server was not given before."""
    a, b = replicating(tmp_path, server)
    target = SqliteConsumer(tmp_path)
    assert target.give(a).exit_code == 0
    result = target.give([*a, *b])
    assert result.exit_code == 1
    assert "the log has transactions that another log has, too: " in result.stderr


@pytest.mark.parametrize("server", ["GTIDs", "MariaDB"])
def test_a_hole_between_two_servers_in_one_call_is_missing(server: str, tmp_path: Path) -> None:
    """Failover: the head of the first log of the new server lists later transactions of the old one."""
    old = write_series(tmp_path / "old", server)
    new = of_replica(tmp_path / "new", old, name="b", number=1, per_log=10)
    given = [old[0], new[1]]  # 1 to 8, and 11 to 20
    for command in (
        ("undo", "-q", "-o", tmp_path / "to"),
        ("copy", "-q", "-o", tmp_path / "to"),
        ("export", "-q", "--to", tmp_path / "to"),
        ("dump", "-q", "--format", "sql", "-o", tmp_path / "to"),
        ("replay", "-q", "--to", f"sqlite:///{tmp_path}/x.db"),
    ):
        result = run(*command, *given)
        assert (command[0], result.exit_code) == (command[0], 1)
        assert (":9-10, which" if server == "GTIDs" else "0-1-10, which") in result.stderr
        assert not (tmp_path / "to").exists()


@pytest.mark.parametrize("server", ["GTIDs", "anonymous"])
def test_the_end_of_a_log_is_missing_before_one_that_the_target_has(server: str, tmp_path: Path) -> None:
    """The logs are given in another order: MySQL had closed the log when it began the next one."""
    logs = write_series(tmp_path / "good", server, begins=(0, 20))
    target = ExportConsumer(tmp_path, "jsonl")
    assert target.give(logs[1:]).exit_code == 0
    result = target.give([torn(logs[0], group_starts(logs[0])[4], tmp_path / "half")])
    assert result.exit_code == 1
    assert "whose flag IN_USE is set although the target has the next one" in result.stderr
    assert target.give(logs[:1]).exit_code == 0
    assert sorted(target.ids()) == list(ids_of(2))


@pytest.mark.parametrize("server", ["GTIDs", "MariaDB"])
def test_a_log_that_was_empty_and_renamed_is_exported_once(server: str, tmp_path: Path) -> None:
    """The empty log has no GTID, so the renamed one is known as another one."""
    (log,) = write_series(tmp_path / "good", server, logs=1)
    target = ExportConsumer(tmp_path, "jsonl")
    assert target.give([torn(log, group_starts(log)[0], tmp_path / "empty")]).exit_code == 0
    for given in (copied(log, "renamed", "other.000001"), log, log):
        assert target.give([given]).exit_code == 0
    assert target.ids() == Counter(ids_of(1))


@pytest.mark.parametrize("server", SERVERS)
def test_a_log_is_missing_between_new_ones_and_one_that_the_target_has(server: str, tmp_path: Path) -> None:
    """Earlier logs are given later, and the one before that of the target is left out, or its end."""
    logs = write_series(tmp_path / "good", server, begins=(0, 20, 40, 60))
    half = torn(logs[2], group_starts(logs[2])[4], tmp_path / "half")
    target = ExportConsumer(tmp_path, "jsonl")
    assert target.give(logs[3:]).exit_code == 0
    for given in (logs[:2], [*logs[:2], half]):
        result = target.give(given)
        if server == "MariaDB" and half in given:  # a server that crashed leaves the flag IN_USE
            continue
        assert result.exit_code == 1
        assert "number 3" in result.stderr or "whose flag IN_USE is set" in result.stderr
    assert target.give(logs).exit_code == 0
    assert target.ids() == Counter(ids_of(4))
