"""Failover: a stream continues in the logs of another server after the transactions that it has read, or is refused."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any, Final

import pytest

from binlogio.constants import BINLOG_MAGIC, GROUP_STARTS, LOG_ENDS
from binlogio.errors import ChangedLogs
from logs import moved, raw_events, with_checksum
from spark_frames import GTID_ON, MARIADB_GTID
from spark_streams import HAS_READ_LIMITS, Stream

pytest.importorskip("pyspark.sql.datasource")

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

KINDS: Final = {"mysql": GTID_ON / "binlog.000001", "mariadb": MARIADB_GTID / "binlog.000001"}
Groups = list[list[bytes]]


def split(path: Path) -> tuple[list[bytes], Groups]:
    """Return the events at the head of a log, and those of its groups."""
    head: list[bytes] = []
    groups: Groups = []
    for _, event in raw_events(path.read_bytes()):
        if event[4] in GROUP_STARTS:
            groups.append([])
        if event[4] not in LOG_ENDS:
            (groups[-1] if groups else head).append(event)
    return head, groups


def write(path: Path, head: list[bytes], groups: Groups, *, server: int) -> None:
    """Write a log of a server with these groups."""
    own = bytearray(head[0])
    own[5:9] = server.to_bytes(4, "little")
    own[0:4] = (int.from_bytes(own[0:4], "little") + server).to_bytes(4, "little")
    data = bytearray(BINLOG_MAGIC)
    for event in (with_checksum(own), *head[1:], *(event for group in groups for event in group)):
        data += moved(event, len(data))
    path.write_bytes(data)


def rows(found: list[dict[str, Any]]) -> list[Any]:
    """Return what is the same in the logs of all servers."""
    return [(row["gtid"], row["row"]) for row in found]


@pytest.fixture(name="before", params=KINDS)
def stream_of_the_first_server(
    request: pytest.FixtureRequest, tmp_path: Path
) -> tuple[Stream, list[bytes], Groups, list[Any]]:
    """Provide a stream that has read half of the groups of a log, these groups, and the rows of the others."""
    head, groups = split(KINDS[request.param])
    folder = tmp_path / "logs"
    folder.mkdir()
    write(folder / "binlog.000007", head, groups, server=1)
    every = rows(Stream(folder).rest())
    half = len(groups) // 2
    write(folder / "binlog.000007", head, groups[:half], server=1)
    stream = Stream(folder)
    read = rows(stream.rest())
    assert 0 < len(read) < len(every)
    shutil.rmtree(folder)
    folder.mkdir()
    return stream, head, groups, every[len(read) :]


@pytest.mark.parametrize("name", ["binlog.000007", "binlog.000002", "binlog.000009", "other-bin.000001"])
@pytest.mark.skipif(not HAS_READ_LIMITS, reason="PySpark 4.1 does not pass the start of a batch")
def test_a_stream_continues_after_its_last_transaction(
    before: tuple[Stream, list[bytes], Groups, list[Any]], tmp_path: Path, name: str
) -> None:
    """Whatever the logs of the new server are called; a running stream and a restarted one; each row once."""
    stream, head, groups, left = before
    write(tmp_path / "logs" / name, head, groups, server=2)
    restarted = Stream(tmp_path / "logs", stream.offset)

    assert rows(restarted.rest()) == left
    assert rows(stream.rest()) == left
    assert restarted.offset == stream.offset
    assert json.loads(stream.offset)["file"] == name
    assert Stream(tmp_path / "logs", stream.offset).rest() == []


@pytest.mark.skipif(not HAS_READ_LIMITS, reason="PySpark 4.1 does not pass the start of a batch")
def test_a_stream_at_the_end_of_the_new_logs_waits(
    before: tuple[Stream, list[bytes], Groups, list[Any]], tmp_path: Path
) -> None:
    """It has all transactions of the new server; later ones follow."""
    stream, head, groups, left = before
    log = tmp_path / "logs" / "binlog.000001"
    write(log, head, groups[: len(groups) // 2], server=2)

    assert stream.rest() == []
    write(log, head, groups, server=2)
    assert rows(stream.rest()) == left


def without_one(groups: Groups) -> Groups:
    return [*groups[:2], *groups[3:]]


def short(groups: Groups) -> Groups:
    return groups[: len(groups) // 2 - 1]


def repeated(groups: Groups) -> Groups:
    """Return groups with the same GTIDs at another time, as after RESET."""
    later = []
    for group in groups:
        event = bytearray(group[0])
        event[0:4] = (int.from_bytes(event[0:4], "little") + 3600).to_bytes(4, "little")
        if len(event) > 70:  # MySQL: the commit timestamps
            event[19 + 42] ^= 1
        later.append([with_checksum(event), *group[1:]])
    return later


def new_series(groups: Groups) -> Groups:
    """Return the groups: they are of the server of the offset, after RESET in the same second."""
    return groups


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (without_one, "has other transactions before"),
        (short, "the last transaction that was read"),
        (repeated, "has another transaction with the GTID"),
        (new_series, "it is the server of the offset, and may use GTIDs again"),
    ],
)
@pytest.mark.skipif(not HAS_READ_LIMITS, reason="PySpark 4.1 does not pass the start of a batch")
def test_a_stream_is_refused_where_the_gtids_prove_no_place(
    before: tuple[Stream, list[bytes], Groups, list[Any]],
    tmp_path: Path,
    change: Callable[[Groups], Groups],
    reason: str,
) -> None:
    """The message says why, which transactions were read, and what to do."""
    stream, head, groups, _ = before
    server = 1 if change is new_series else 2
    if change is without_one and '"0-1-' in stream.offset:
        pytest.skip("a state of MariaDB has the last GTIDs only")
    write(tmp_path / "logs" / "binlog.000001", head, change(groups), server=server)
    executed = json.loads(stream.offset)["executed"]
    with pytest.raises(ChangedLogs, match=reason) as failure:
        stream.batch()

    assert f"The transactions read are {executed['set']}" in str(failure.value) or "-" in executed["last"]
    assert executed["last"].split(":")[0].split("-")[0] in str(failure.value)
    assert "set startingGtids to the transactions that were read" in str(failure.value)


def test_offsets_say_the_transactions_before_them(tmp_path: Path) -> None:
    """The same whether the stream has read one batch or several, and read from its start or from an offset."""
    for path in KINDS.values():
        whole = Stream(path)
        whole.rest()
        executed = json.loads(whole.offset)["executed"]
        if HAS_READ_LIMITS:
            parts = Stream(path, maxBytesPerTrigger="1")
            while json.loads(parts.offset)["pos"] != json.loads(whole.offset)["pos"]:
                parts = Stream(path, parts.offset, maxBytesPerTrigger="1")
                parts.batch()
            assert json.loads(parts.offset) == json.loads(whole.offset)

        assert executed["last"] in executed["set"] or ":" in executed["last"]
        assert len(whole.offset) < 1000
