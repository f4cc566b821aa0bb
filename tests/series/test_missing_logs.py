"""Missing, changed and repeated logs, given to every consumer: nothing is lost or doubled with exit code 0."""

from __future__ import annotations

import gzip
import json
import shutil
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pytest

from binlogio.archive.export import export
from binlogio.errors import ExportError, MissingLogs
from series_faults import (
    FAULTS,
    KEYRING,
    PER_LOG,
    READS,
    SERVERS,
    SHOWING,
    UUIDS,
    ExportConsumer,
    SqliteConsumer,
    group_starts,
    ids_of,
    of_replica,
    repaired,
    run,
    torn,
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
        ("sql", "-q", "-o", tmp_path / "to", "SELECT 1"),
        ("serve", "-q", "--socket", tmp_path / "to"),
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
    for read in READS:
        with pytest.raises(MissingLogs):
            read(logs)


def test_commands_that_show_report_a_copy_of_a_log_in_use_before_another(tmp_path: Path) -> None:
    """The end of the first one is missing."""
    calls = FAULTS["rest of a log missing"](tmp_path, "GTIDs")
    logs = [calls.first[0].replace(tmp_path / "good" / "binlog.000001"), *calls.then]
    for command in SHOWING:
        result = run(command, *logs)
        assert (command, result.exit_code) == (command, 1)
        assert "the end of the log is missing: its flag IN_USE is set" in result.output
    for read in READS:
        with pytest.raises(MissingLogs, match="the end of the log is missing"):
            read(logs)


@pytest.mark.parametrize("server", SERVERS)
def test_a_log_of_two_directories_is_there_twice(server: str, tmp_path: Path) -> None:
    """The second copy has a name of another series if it has GTIDs."""
    logs = write_series(tmp_path / "good", server)
    copy = tmp_path / "copies" / (logs[0].name if server == "anonymous" else "copy.000007")
    copy.parent.mkdir()
    copy.write_bytes(logs[0].read_bytes())
    given = [copy, *logs]
    for command in (
        ("replay", "-q", "--to", f"sqlite:///{tmp_path}/x.db"),
        ("undo", "-q", "-o", tmp_path / "to"),
        ("copy", "-q", "-o", tmp_path / "to"),
        ("export", "-q", "--to", tmp_path / "to"),
        ("dump", "-q", "--format", "sql", "-o", tmp_path / "to"),
        *((one,) for one in SHOWING if one != "verify"),
    ):
        result = run(*command, *given)
        assert (command[0], result.exit_code) == (command[0], 1)
        assert f"the log is given twice, also as {copy}" in result.output
    for read in READS:
        with pytest.raises(MissingLogs, match="the log is given twice"):
            read(given)


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("logs_before", [1, 2, 5])
def test_an_export_takes_each_log_of_a_series_after_a_reset(logs_before: int, server: str, tmp_path: Path) -> None:
    """One call for each log; the new series has fewer logs than the old one, or more. A missing one is refused."""
    old = write_series(tmp_path / "old", server, logs=logs_before)
    new = write_series(tmp_path / "new", server, logs=4, first_id=100, since=1_700_009_000)
    target = ExportConsumer(tmp_path, "jsonl")
    assert target.give(old).exit_code == 0
    for log in new[:2]:
        assert target.give([log]).exit_code == 0
    result = target.give(new[3:])
    assert result.exit_code == 1
    assert "number 3" in result.stderr
    for log in new[2:]:
        assert target.give([log]).exit_code == 0
    assert sorted(target.ids()) == [*ids_of(logs_before), *range(100, 100 + 4 * PER_LOG)]


def test_an_export_takes_the_log_of_another_server_begun_in_the_same_second(tmp_path: Path) -> None:
    """Without GTIDs, neither stem nor number say that it is the log of the stored position: it is not a changed one."""
    logs = write_series(tmp_path / "good", "anonymous", logs=2)
    other = write_series(tmp_path / "other", "anonymous", logs=1, first_id=100)[0].rename(tmp_path / "b.000005")
    target = ExportConsumer(tmp_path, "jsonl")
    assert target.give(logs).exit_code == 0
    assert target.give([other]).exit_code == 0
    assert sorted(target.ids()) == [*ids_of(2), *range(100, 100 + PER_LOG)]


def test_days_in_names_are_no_numbers_of_a_series(tmp_path: Path) -> None:
    """Neither those of the same server nor others: no log is missing between two days."""
    logs = write_series(tmp_path / "good", "GTIDs", logs=2)
    days = [log.rename(tmp_path / f"backup.{day}") for log, day in zip(logs, ("20261127", "20261201"), strict=True)]
    target = ExportConsumer(tmp_path, "jsonl")

    assert target.give(days).exit_code == 0
    assert sorted(target.ids()) == list(ids_of(2))


def test_logs_of_two_servers_are_compared_for_themselves(tmp_path: Path) -> None:
    """The head of the first log of each one is taken as it is."""
    logs = write_series(tmp_path / "good", "GTIDs")
    other = write_series(tmp_path / "other", "GTIDs", number=1, first_id=100)
    others = [log.rename(tmp_path / f"b.{log.name[-6:]}") for log in other[1:]]
    target = SqliteConsumer(tmp_path)

    assert target.give([*logs, *others]).exit_code == 0
    assert run("copy", "-q", "-o", tmp_path / "to", *logs, *others).exit_code == 0
    assert sorted(target.ids()) == sorted([*ids_of(3), *range(100 + PER_LOG, 100 + 3 * PER_LOG)])


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("options", []), ("run", -1), ("run", "1"), ("id", 7), ("removed", [7]), ("files", [{"table": 1}]),
        ("logs", {}), ("logs", [{"file": "a.000001", "pos": 4, "log": {"created": 1 << 32, "server_id": 1}}]),
    ],
)  # fmt: skip
def test_a_ledger_with_another_type_of_a_field_is_damaged(field: str, value: Any, tmp_path: Path) -> None:
    logs = write_series(tmp_path / "good", "GTIDs", logs=2)
    target = ExportConsumer(tmp_path, "jsonl")
    assert target.give(logs[:1]).exit_code == 0
    ledger = tmp_path / "x" / "binlogio-export.json"
    ledger.write_text(json.dumps(json.loads(ledger.read_text()) | {field: value}))
    result = target.give(logs)

    assert result.exit_code == 1
    assert "the stored state is damaged" in result.stderr


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
        ("dump", "-q", "--format", "sql", "-o", tmp_path / "to"),
    ):
        result = run(*command, *logs[:2])
        assert (command[0], result.exit_code) == (command[0], 1)
        assert f"{gtids}, which its head lists" in result.stderr


@pytest.mark.parametrize("server", ["GTIDs", "MariaDB"])
@pytest.mark.parametrize("workers", ["1", "4"])
def test_a_refused_replay_is_refused_again(server: str, workers: str, tmp_path: Path) -> None:
    """What the head of the later log lists is not taken for read, whichever logs are given then."""
    logs = write_series(tmp_path / "good", server)
    logs[2].rename(logs[1])
    target = SqliteConsumer(tmp_path, "--workers", workers)
    for given in (logs[:2], logs[:2], logs[1:2]):
        result = target.give(given)
        assert result.exit_code == 1
        assert "which its head lists" in result.stderr or "missing" in result.stderr
        assert sorted(target.ids()) == list(ids_of(1))


@pytest.mark.parametrize("server", ["GTIDs", "MariaDB"])
def test_a_transaction_that_is_missing_inside_a_log_is_missing(server: str, tmp_path: Path) -> None:
    """Not the last one of the log. In MariaDB, the head of a log has the last GTID of each domain only."""
    logs = write_series(tmp_path / "good", server)
    starts = group_starts(logs[1])
    (tmp_path / "cut").mkdir()
    cut = tmp_path / "cut" / "binlog.000002"
    data = bytearray(logs[1].read_bytes())
    data[starts[2] + 30] ^= 0xFF
    (tmp_path / "damaged.000002").write_bytes(data)
    assert run("repair", "-q", "-o", cut, tmp_path / "damaged.000002").exit_code == 1
    given = [logs[0], cut.rename(logs[1]), logs[2]]
    for command in (
        ("copy", "-q", "-o", tmp_path / "to"),
        ("export", "-q", "--to", tmp_path / "to"),
        ("dump", "-q", "--format", "sql", "-o", tmp_path / "to"),
    ):
        result = run(*command, *given)
        assert (command[0], result.exit_code) == (command[0], 1 if server == "GTIDs" else 0)
        assert server != "GTIDs" or ":11, which its head lists" in result.stderr
        assert server != "GTIDs" or not (tmp_path / "to").exists()
        shutil.rmtree(tmp_path / "to", ignore_errors=True)
        (tmp_path / "to").unlink(missing_ok=True)


@pytest.mark.parametrize("server", ["GTIDs", "MariaDB"])
@pytest.mark.parametrize("names", [("0/binlog.000001", "2/binlog.000003"), ("binlog.000001", "new.000001")])
def test_gtids_show_a_hole_whatever_the_names(names: tuple[str, str], server: str, tmp_path: Path) -> None:
    """One folder for each day, or another basename: the second log is missing, and compressed ones are compared."""
    logs = write_series(tmp_path / "good", server)
    for pack in (False, True):
        given = []
        for log, name in zip((logs[0], logs[2]), names, strict=True):
            new = tmp_path / str(pack) / (f"{name}.zst" if pack else name)
            new.parent.mkdir(parents=True, exist_ok=True)
            data = log.read_bytes()
            new.write_bytes(pa.Codec("zstd").compress(data, asbytes=True) if pack else data)
            given.append(new)
        for command in (("export", "-q", "--to"), ("dump", "-q", "--format", "sql", "-o")):
            result = run(*command, tmp_path / "to", *given)
            assert (command[0], result.exit_code) == (command[0], 1)
            assert "which its head lists" in result.stderr
            assert not (tmp_path / "to").exists()


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


def test_all_files_of_a_series_may_be_given(tmp_path: Path) -> None:
    """As by a shell pattern: the index file, the identity of the server and key indexes add nothing."""
    write_series(tmp_path / "good", "GTIDs")
    assert run("index", "-q", tmp_path / "good").exit_code == 0
    files = sorted((tmp_path / "good").glob("binlog.*"))
    for given in (files, [files[-1], *files[:-1]]):  # the index file is the last one
        result = run("verify", *given)
        assert (result.exit_code, result.output.splitlines()[-1][:13]) == (0, "3 of 3 fine, ")
    for command in (("info",), ("stats", "-q"), ("dump", "-q"), ("copy", "-q", "-o", tmp_path / "to")):
        assert (command[0], run(*command, *files).exit_code) == (command[0], 0)


@pytest.mark.parametrize(("server", "gtid"), [("GTIDs", ":5 "), ("MariaDB", "0-1-5 ")])
def test_an_incomplete_group_is_missing_after_a_failover(server: str, gtid: str, tmp_path: Path) -> None:
    """An export has the groups before it, and the head of the log of the replica lists its GTID."""
    logs = write_series(tmp_path / "good", server)
    half = torn(logs[0], group_starts(logs[0])[4] + 90, tmp_path / "half")
    replica = of_replica(tmp_path / "replica", logs, name="b", number=1, per_log=5)
    target = ExportConsumer(tmp_path, "jsonl")
    assert target.give([half]).exit_code == 0
    result = target.give(replica[1:])

    assert result.exit_code == 1
    assert gtid in result.stderr
    assert sorted(target.ids()) == [1, 2, 3, 4]


def test_an_incomplete_group_at_the_end_of_a_log_is_missing(tmp_path: Path) -> None:
    """MariaDB leaves the flag IN_USE after a crash: only the head of the next log shows that the group was logged."""
    logs = write_series(tmp_path / "good", "MariaDB")
    half = torn(logs[0], group_starts(logs[0])[7] + 90, tmp_path / "half")
    for command in (
        ("export", "-q", "--to"),
        ("dump", "-q", "--format", "sql", "-o"),
        ("copy", "-q", "--out"),
        ("undo", "-q", "-o"),
    ):
        result = run(*command, tmp_path / "to", half, *logs[1:])
        assert (command[0], result.exit_code) == (command[0], 1)
        assert "0-1-8, which its head lists" in result.stderr
        assert not (tmp_path / "to").exists()
    result = run("verify", half, *(shutil.copy(log, half.parent) for log in logs[1:]))
    assert result.exit_code == 1
    assert "GTID_LIST has 0-1-8, but the last one before is 0-1-7" in result.output


def test_a_crashed_server_uses_the_gtid_of_an_incomplete_group_again(tmp_path: Path) -> None:
    """MariaDB leaves the group in the log: nothing is missing, and nothing is there twice."""
    logs = write_series(tmp_path / "good", "MariaDB", logs=1)
    half = torn(logs[0], group_starts(logs[0])[6] + 90, tmp_path / "half")
    arguments = ("--merge", "--max-groups", "6", "--basename", "binlog", "--out", tmp_path / "again")
    assert run("copy", "-q", *arguments, *logs).exit_code == 0
    given = [half, shutil.copy(tmp_path / "again" / "binlog.000002", half.parent)]
    for command in (
        ("verify",),
        ("export", "-q", "--to", tmp_path / "export"),
        ("dump", "-q", "--format", "sql", "-o", tmp_path / "sql"),
        ("copy", "-q", "--out", tmp_path / "copy"),
        ("undo", "-q", "-o", tmp_path / "undo"),
        ("replay", "-q", "--to", f"sqlite:///{tmp_path}/x.db"),
    ):
        assert (command[0], run(*command, *given).exit_code) == (command[0], 0)


def test_a_start_position_is_one_of_the_first_export(tmp_path: Path) -> None:
    """The options of an export are the same in each call: the position is not one in the first log of a later call."""
    logs = write_series(tmp_path / "good", "GTIDs")
    start = str(group_starts(logs[0])[3])
    target = ExportConsumer(tmp_path, "jsonl")
    for given in ([logs[0]], [logs[1]], logs):
        assert target.give(given, "--start-position", start).exit_code == 0
    assert sorted(target.ids()) == list(ids_of(3)[3:])


def test_an_export_up_to_a_position_or_of_a_stream_is_not_continued(tmp_path: Path) -> None:
    """What follows the position, or was in the stream, is not known to be exported or not."""
    logs = write_series(tmp_path / "good", "GTIDs", logs=2)
    target = ExportConsumer(tmp_path, "jsonl")
    stop = ("--stop-position", str(group_starts(logs[0])[3]))
    assert target.give(logs[:1], *stop).exit_code == 0
    result = target.give(logs, *stop)
    assert result.exit_code == 2
    assert "the export cannot be continued, found an export up to a stop position" in result.stderr
    assert sorted(target.ids()) == [1, 2, 3]

    with logs[0].open("rb") as stream:
        export(stream, tmp_path / "of a stream")
    with pytest.raises(ExportError, match="found an export of a stream"):
        export(logs, tmp_path / "of a stream", append=True)
    with logs[1].open("rb") as stream, pytest.raises(ExportError, match="is continued with files, found a stream"):
        export(stream, tmp_path / "new", append=True)


def test_messages_about_an_export_name_ways_out(tmp_path: Path) -> None:
    """Conditions are the same text in each process, and not the form of a Python object."""
    logs = write_series(tmp_path / "good", "GTIDs")
    target = ExportConsumer(tmp_path, "jsonl")
    assert target.give(logs[:1], "--stop-datetime", "2023-11-14 22:13:22").exit_code == 0
    result = target.give(logs, "--operation", "update,insert")
    assert "expected group_time to 1700000002, found ops insert, update (" in result.stderr
    assert result.stderr.endswith("export to a new target; --force instead of --append replaces the export)\n")

    calls = repaired(tmp_path / "repaired", "GTIDs")
    target = ExportConsumer(tmp_path / "repaired", "jsonl")
    assert target.give(calls.first).exit_code == 0
    result = target.give(calls.then)
    assert result.stderr.endswith("export to a new target; --force instead of --append replaces the export)\n")


def test_an_error_after_an_ignored_hole_names_it(tmp_path: Path) -> None:
    logs = write_series(tmp_path / "good", "GTIDs")
    data = bytearray(logs[2].read_bytes())
    data[group_starts(logs[2])[4] + 30] ^= 0xFF
    logs[2].write_bytes(data)
    result = SqliteConsumer(tmp_path).give([logs[0], logs[2]], "--ignore-missing-logs")
    assert result.exit_code == 1
    assert "the event's checksum is wrong" in result.stderr
    assert f"missing logs were ignored before: {logs[2]}: logs are missing before this one: number 2" in result.stderr


def test_verify_names_what_is_not_fine_beside_the_logs(tmp_path: Path) -> None:
    calls = repaired(tmp_path, "GTIDs")
    result = run("verify", *calls.first)
    assert result.exit_code == 1
    assert result.output.splitlines()[-1].endswith("1 of 1 fine, 2,211 bytes; not fine: GTIDs")


def test_a_compressed_file_of_an_encrypted_log_has_to_be_decompressed(tmp_path: Path) -> None:
    """The keyring alone does not help."""
    logs = write_series(tmp_path / "good", "GTIDs", logs=1)
    keyring = tmp_path / "keyring"
    keyring.write_text(json.dumps({name: key.hex() for name, key in KEYRING.items()}))
    options = ("--encrypt", "--keyring", keyring, "-o", tmp_path / "encrypted")
    assert run("copy", "-q", *options, *logs).exit_code == 0
    packed = tmp_path / "encrypted.gz"
    packed.write_bytes(gzip.compress((tmp_path / "encrypted").read_bytes()))
    result = run("dump", "-q", "--keyring", keyring, packed)
    assert result.exit_code == 3
    assert "give the server's keyring with --keyring; decompress a compressed file first" in result.stderr


def test_a_replay_that_was_refused_for_a_lost_transaction_is_refused_again(tmp_path: Path) -> None:
    """The lost transaction is in the middle of the log of the stored position: the head of the next one lists it."""
    logs = write_series(tmp_path / "logs", "GTIDs")
    data = bytearray(logs[1].read_bytes())
    data[group_starts(logs[1])[3] + 150] ^= 0xFF
    logs[1].write_bytes(data)
    assert run("repair", "--out", tmp_path / "rep", tmp_path / "logs").exit_code == 1
    target = f"sqlite:///{tmp_path / 'x.db'}"
    results = [run("replay", "--to", target, tmp_path / "rep") for _ in range(3)]

    assert [result.exit_code for result in results] == [1, 1, 1]
    assert all("transactions are missing before this log" in result.stderr for result in results)
    ignored = run("replay", "--ignore-missing-logs", "--to", target, tmp_path / "rep")
    assert ignored.exit_code == 1
    assert "ignored, the result is incomplete" in ignored.stderr
    assert run("replay", "--to", target, tmp_path / "rep").exit_code == 0


@pytest.mark.parametrize("form", ["jsonl", "duckdb"])
def test_a_lost_transaction_is_found_when_a_later_log_is_appended(tmp_path: Path, form: str) -> None:
    """The repaired log was exported a day before; its original is refused, since other bytes are at its end."""
    logs = write_series(tmp_path / "logs", "GTIDs")
    data = bytearray(logs[1].read_bytes())
    data[group_starts(logs[1])[3] + 150] ^= 0xFF
    logs[1].write_bytes(data)
    assert run("repair", "--out", tmp_path / "rep", logs[1]).exit_code == 1
    command = ("export", "--append", "--format", form, "--to", tmp_path / "to")
    assert run(*command, logs[0]).exit_code == 0
    assert run(*command, tmp_path / "rep" / logs[1].name).exit_code == 0

    for _ in range(2):
        refused = run(*command, logs[2])
        assert refused.exit_code == 1
        assert f"{UUIDS[0]}:12" in refused.stderr
    ignored = run(*command, "--ignore-missing-logs", logs[2])
    assert ignored.exit_code == 1
    assert "ignored, the result is incomplete" in ignored.stderr
