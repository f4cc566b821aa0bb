"""Logs that appear, are written slowly, replaced or damaged while they are served: nothing is left out in silence."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pymysql
import pytest

from binlogio.errors import BinlogError, ConditionError
from binlogio.gtid import GtidSet
from binlogio.options import ServerVariables
from binlogio.selection.selection import Selection
from binlogio.storage import find_logs, load_keyring
from binlogio.writer import BinlogWriter
from corpus import MARIADB118, MYSQL
from dump_client import UUID, client, serving, until, written
from logs import raw_events
from written_logs import insert

INCIDENT: Final = sorted((MYSQL / "incident").glob("binlog.0*"))


@pytest.fixture
def three(tmp_path: Path) -> Path:
    """Write three logs with two transactions each."""
    with written(tmp_path / "logs") as (logs, add):
        for key in range(1, 7):
            add(key)
            if key in (2, 4):
                logs.rotate()
    return tmp_path / "logs"


@contextmanager
def without_last(three: Path) -> Iterator[tuple[Path, bytes, Iterator[bytes]]]:
    """Remove the last log, and serve the others; provide its path and content, and what a client gets."""
    last = three / "binlog.000003"
    data = last.read_bytes()
    last.unlink()
    with serving(three) as server:
        events = client(server).by_gtids(GtidSet(), flags=0)
        until(events, 4)
        yield last, data, events


@pytest.mark.parametrize("offset", [0, 13, 15, 30, 135, 136, 150])
@pytest.mark.parametrize("number", [2, 3])
def test_damaged_head_is_an_error_in_any_log(three: Path, number: int, offset: int) -> None:
    """The last one too: a log that is being created ends in its head."""
    path = three / f"binlog.00000{number}"
    data = bytearray(path.read_bytes())
    data[offset] ^= 0x10
    path.write_bytes(data)

    with pytest.raises(BinlogError), serving(three):
        pass


@pytest.mark.parametrize("size", [0, 3, 4, 60, 126, 140])
def test_log_whose_head_is_written_slowly_is_followed(three: Path, size: int) -> None:
    """Its name appears before its content, as a server makes it."""
    with without_last(three) as (last, data, events):
        last.write_bytes(data[:size])
        time.sleep(0.7)
        last.write_bytes(data)
        assert len(until(events, 2)) > 4


def test_only_log_whose_head_is_not_complete_is_waited_for(three: Path) -> None:
    """A client that asks by GTID begins as soon as the head says what was before."""
    path = three / "binlog.000001"
    for name in ("binlog.000002", "binlog.000003"):
        (three / name).unlink()
    data = path.read_bytes()
    ends = [at for at, _ in raw_events(data)]
    path.write_bytes(data[: ends[1]])
    with serving(three) as server:
        asked = client(server)
        path.write_bytes(data)
        assert asked.query("SELECT @@GLOBAL.gtid_mode") == [("ON",)]
        assert len(until(asked.by_gtids(GtidSet(), flags=0), 2)) > 4


@pytest.mark.parametrize("name", ["binlog.000004", "mysql-bin.000001", "other.000001"])
def test_log_of_another_server_that_appears_is_an_error(three: Path, name: str) -> None:
    """It is refused as at the start."""
    with serving(three) as server:
        events = client(server).by_gtids(GtidSet(), flags=0)
        until(events, 6)
        shutil.copy(MARIADB118 / "types" / "binlog.000001", three / name)
        with pytest.raises(pymysql.err.MySQLError, match="of several servers"):
            list(events)


def test_heads_that_contradict_each_other_are_refused(three: Path) -> None:
    """The second log does not list what the first one has: it is of another server, or before it."""
    shutil.copy(INCIDENT[0], three / "binlog.000004")
    with pytest.raises(ConditionError, match=r"lacks GTIDs of the log before it, .*binlog\.000003"), serving(three):
        pass


def test_log_that_took_the_name_of_another_is_read_anew(three: Path) -> None:
    """Its head says what was purged."""
    with serving(three) as server:
        list(client(server).by_gtids(GtidSet()))
        last = (three / "binlog.000003").read_bytes()
        for path in three.glob("binlog.0*"):
            path.unlink()
        (three / "binlog.000001").write_bytes(last)
        with pytest.raises(pymysql.err.MySQLError, match="purged required binary logs"):
            list(client(server).by_gtids(GtidSet()))


def test_encrypted_log_that_is_replaced_is_an_error(tmp_path: Path) -> None:
    """Each has a key of its own, which is in its first bytes."""
    folder, path = MYSQL / "encrypted", tmp_path / "binlog.000001"
    shutil.copy(folder / "binlog.000002", path)
    with serving(tmp_path, keyring=load_keyring(str(folder / "keyring"))) as server:
        events = client(server).by_position("", flags=0)
        for _ in range(3):
            next(events)
        shutil.copy(folder / "binlog.000001", tmp_path / "new")
        (tmp_path / "new").replace(path)
        with pytest.raises(pymysql.err.MySQLError, match="was replaced"):
            list(events)


def test_torn_event_after_whole_ones_is_waited_for(tmp_path: Path) -> None:
    """The log is the same one, which has grown."""
    with written(tmp_path / "made") as (_, add):
        for key in range(1, 21):
            add(key)
    data, path = (tmp_path / "made" / "binlog.000001").read_bytes(), tmp_path / "binlog.000001"
    ends = [at for at, _ in raw_events(data)]
    path.write_bytes(data[: ends[12]])
    with serving(path) as server:
        events = client(server).by_position("", flags=0)
        until(events, 2)
        for begin, end in pairwise([ends[12], ends[30] + 25, ends[50] + 25, ends[70] + 25, len(data)]):
            with path.open("ab") as file:
                file.write(data[begin:end])
            time.sleep(0.3)
        assert len(until(events, 18)) > 60


def test_statement_about_logs_that_are_gone_is_an_error(three: Path) -> None:
    """The client reads why, and its connection stays."""
    with serving(three) as server:
        asked = client(server)
        for path in three.glob("binlog.0*"):
            path.unlink()
        for sql in ("SELECT @@GLOBAL.gtid_executed", "SELECT @@GLOBAL.gtid_purged", "SHOW BINARY LOGS"):
            with pytest.raises(pymysql.err.MySQLError, match="not there any more"):
                asked.query(sql)
        assert asked.query("SELECT @@version")


def test_stop_time_that_is_reached_later_ends_the_logs_for_all(tmp_path: Path) -> None:
    """Also in the log in which it is reached: what is not served is not in @@gtid_executed."""
    clock: list[int] = [1_800_000_000_000_000]
    stop = int(datetime.fromtimestamp(1_800_000_100, timezone.utc).timestamp())
    settings = ServerVariables(server_version="9.7.4", server_uuid=UUID)
    with (
        BinlogWriter(str(tmp_path / "binlog"), variables=settings, clock=lambda: clock[0]) as logs,
        logs.session("shop") as session,
    ):
        session.execute(insert(1))
        with serving(tmp_path, selection=Selection(stop_time=stop)) as server:
            asked = client(server)
            clock[0] += 200_000_000
            session.execute(insert(2))
            logs.rotate()
            session.execute(insert(3))
            events: list[Any] = list(client(server).by_gtids(GtidSet()))
            executed = asked.query("SELECT @@GLOBAL.gtid_executed")
            names = asked.query("SHOW BINARY LOGS")

    assert sum(event[4] == 16 for event in events) == 1
    assert executed == [(f"{UUID}:1",)]
    assert [name for name, *_ in names] == ["binlog.000001"]


def test_log_that_rsync_copies_is_there_when_it_has_its_name(three: Path) -> None:
    """Until then it is a hidden file, and no log."""
    with without_last(three) as (last, data, events):
        hidden = three / ".binlog.000003.Xy12"
        hidden.write_bytes(data[:-20])
        time.sleep(0.3)
        assert [Path(log.name).name for log in find_logs(three)] == ["binlog.000001", "binlog.000002"]
        hidden.write_bytes(data)
        hidden.rename(last)
        assert len(until(events, 2)) > 4
