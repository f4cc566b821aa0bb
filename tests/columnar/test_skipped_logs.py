"""Logs that hold nothing wanted are not read: the same rows as without, from the bytes of the logs that matter."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any, Final

import pytest

import binlogio
from binlogio.columnar.splits.skipped_logs import logs_without
from binlogio.constants import BINLOG_MAGIC, EventType
from binlogio.errors import ConditionError
from binlogio.events.mariadb import MariadbGtidListEvent
from binlogio.gtid import GtidSet, MariadbGtid, MariadbGtidPosition, MariadbGtidSet
from binlogio.selection.event_filter import EVERY_EVENT, EventFilter, Range
from binlogio.storage.log_file import LogFile
from binlogio.storage.sources import find_logs
from corpus import MARIADB, MYSQL
from logs import (
    POST_HEADERS_OF_MARIADB,
    CountedFile,
    description,
    encode,
    header,
    moved,
    raw_events,
    rotate,
    with_checksum,
)

if TYPE_CHECKING:
    from pathlib import Path

UUID: Final = "2f658ac8-e51b-11f1-a314-02fc00000001"
ROTATED: Final = [MYSQL / "rotated" / f"binlog.00000{number}" for number in (1, 2, 3)]


def gtids_of(log: Path) -> set[str]:
    return set(binlogio.read_rows(log).to_table().column("gtid").to_pylist())


def rows_of(logs: list[Any], where: EventFilter, **options: Any) -> list[Any]:
    rows: list[Any] = binlogio.read_rows(logs, where=where, **options).to_table().to_pylist()
    return rows


def places(rows: list[Any]) -> list[Any]:
    return [(row["file"], row["pos"], row["row"], row["gtid"]) for row in rows]


def numbers(logs: list[Any], where: EventFilter) -> list[int]:
    return sorted(logs_without(find_logs(logs), where))


def test_logs_before_and_after_the_wanted_transactions_are_skipped() -> None:
    """PREVIOUS_GTIDS of the log and of the next one."""
    second = EventFilter(wanted_gtids=GtidSet.parse(f"{UUID}:4-5"))

    assert numbers(ROTATED, second) == [0, 2]
    assert rows_of(ROTATED, second)
    assert numbers(ROTATED, EventFilter(gtids=frozenset({f"{UUID}:2"}))) == [1, 2]
    assert numbers(ROTATED, EventFilter(wanted_gtids=GtidSet.parse(f"{UUID}:3-4"))) == [2]
    assert numbers(ROTATED, EventFilter(wanted_gtids=GtidSet.parse(f"{UUID}:99"))) == [0, 1]  # the last has no next one
    assert numbers(ROTATED, EventFilter(known_gtids=GtidSet.parse(f"{UUID}:1-99"))) == []
    assert numbers(ROTATED, EventFilter(timestamp=Range(end=1))) == []


@pytest.mark.parametrize("threads", [1, 3])
def test_rows_are_those_of_the_logs_one_by_one(threads: int) -> None:
    """Each log alone has no next one whose head could be used."""
    every = sorted(set().union(*map(gtids_of, ROTATED)))
    assert len(every) > 4
    for begin in range(len(every)):
        for end in range(begin + 1, len(every) + 1):
            where = EventFilter(wanted_gtids=GtidSet.parse(",".join(every[begin:end])))
            alone = [place for log in ROTATED for place in places(rows_of([log], where))]

            assert places(rows_of(ROTATED, where, threads=threads)) == alone


def test_only_the_heads_of_skipped_logs_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two logs of a MiB around the one that is wanted. The first one is read where only it names columns."""
    logs = large_logs(tmp_path)
    sizes = [log.stat().st_size for log in logs]
    assert min(sizes[0], sizes[2]) > 1 << 20
    monkeypatch.setattr(LogFile, "open_raw", lambda log: CountedFile(log.name, "rb"))
    CountedFile.count = 0
    where = EventFilter(wanted_gtids=GtidSet.parse(f"{UUID}:4-5"))
    named = {"corpus.t": "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(20))"}
    rows = rows_of(logs, where, definitions=named)

    assert {row["file"] for row in rows} == {str(logs[1])}
    assert CountedFile.count < sizes[1] + (1 << 16)
    CountedFile.count = 0
    assert rows_of(logs, where) == rows
    assert sizes[0] < CountedFile.count < sizes[0] + (1 << 17)
    CountedFile.count = 0
    assert rows_of(logs, EventFilter(known_gtids=GtidSet.parse(f"{UUID}:1-3")))
    assert CountedFile.count > sum(sizes) - 10


def large_logs(folder: Path) -> list[Path]:
    """Return the rotated logs; the first and the last have a MiB of ignorable events before their ends."""
    logs = []
    for number, path in enumerate(ROTATED):
        data = path.read_bytes()
        if number != 1:
            data = with_filler(data, 1 << 20)
        logs.append(folder / path.name)
        logs[-1].write_bytes(data)
    return logs


def with_filler(data: bytes, size: int) -> bytes:
    """Return a log with ignorable events before its ROTATE."""
    events = list(raw_events(data))
    at, end = events[-1]
    filler = bytearray()
    while len(filler) < size:
        head = end[:4] + bytes([EventType.IGNORABLE_LOG_EVENT]) + end[5:9] + (60_023).to_bytes(4, "little") + end[13:19]
        filler += moved(head + bytes(60_004), at + len(filler))
    return data[:at] + bytes(filler) + moved(end, at + len(filler))


@pytest.mark.parametrize("server", ["mariadb1011", "mariadb118"])
def test_log_of_mariadb_is_skipped_where_no_domain_moved(server: str, tmp_path: Path) -> None:
    """The second log of these has no transaction: GTID_LIST of a third one would say the same."""
    first, second = (MARIADB.parent / server / "gtid" / f"binlog.00000{number}" for number in (1, 2))
    third = tmp_path / "binlog.000003"
    third.write_bytes(second.read_bytes())

    assert numbers([first, second, third], EventFilter(wanted_gtids=MariadbGtidSet.parse("0-1-5"))) == [1]
    assert numbers([first, second], EventFilter(wanted_gtids=MariadbGtidSet.parse("9-1-5"))) == [0]
    assert numbers([first, second], EventFilter(wanted_gtids=MariadbGtidSet.parse("0-9-5"))) == [0]
    assert numbers([first, second], EventFilter(wanted_gtids=MariadbGtidPosition.parse("0-9-5"))) == []
    assert numbers([first, second], EventFilter(wanted_gtids=MariadbGtidPosition.parse("9-9-5"))) == [0]
    with pytest.raises(ConditionError, match="of the other vendor"):
        numbers([first, second], EventFilter(wanted_gtids=GtidSet.parse(f"{UUID}:1")))


def test_next_log_of_another_history_proves_nothing(tmp_path: Path) -> None:
    """RESET, and logs with the same names: no ROTATE of that time leads to it. Nor do streams, and damaged heads."""
    where = EventFilter(gtids=frozenset({f"{UUID}:2"}))
    later = tmp_path / "binlog.000002"
    data = bytearray(ROTATED[1].read_bytes())
    description = data[4 : 4 + int.from_bytes(data[13:17], "little")]
    description[0:4] = (int.from_bytes(description[0:4], "little") + 999).to_bytes(4, "little")
    data[4 : 4 + len(description)] = with_checksum(description)
    later.write_bytes(data)
    third = EventFilter(gtids=frozenset({f"{UUID}:4"}))

    assert numbers([ROTATED[0], ROTATED[1]], third) == [0]
    assert numbers([ROTATED[0], later], third) == []
    assert numbers([ROTATED[0], later], where) == [1]
    assert numbers([ROTATED[0], ROTATED[2]], third) == [1]
    assert numbers([io.BytesIO(path.read_bytes()) for path in ROTATED], third) == []
    damaged = bytearray(ROTATED[1].read_bytes())
    damaged[4 + len(description) + 22] ^= 1
    later.write_bytes(damaged)

    assert numbers([ROTATED[0], later], where) == []


def test_log_that_ends_before_the_wanted_offsets_is_skipped() -> None:
    sizes = [path.stat().st_size for path in ROTATED]
    where = EventFilter(pos=Range(start=sorted(sizes)[1]))

    assert numbers(ROTATED, where) == [number for number, size in enumerate(sizes) if size <= sorted(sizes)[1]]
    assert rows_of(ROTATED, where) == [row for row in rows_of(ROTATED, EVERY_EVENT) if row["pos"] >= where.pos.start]


@pytest.mark.parametrize("threads", [1, 2])
def test_columns_have_the_names_that_a_skipped_log_gives_them(threads: int) -> None:
    """A CREATE TABLE in the first log, which is skipped, names the columns of the rows in the second."""
    where = EventFilter(wanted_gtids=GtidSet.parse(f"{UUID}:4-5"))
    (names,) = {tuple(json.loads(row["after"])) for row in rows_of(ROTATED[1:2], where)}
    rows = rows_of(ROTATED, where, threads=threads)

    assert numbers(ROTATED, where) == [0, 2]
    assert names == ("@1", "@2")
    assert {tuple(json.loads(row["after"])) for row in rows} == {("id", "v")}
    assert rows == [row for row in rows_of(ROTATED, EVERY_EVENT) if row["file"] == str(ROTATED[1])]


def strict_logs(folder: Path, lists: list[str]) -> list[Path]:
    """Write logs of MariaDB that begin with these GTID_LISTs, and end with a ROTATE to the next one."""
    found = []
    for number, text in enumerate(lists, 1):
        gtids = tuple(MariadbGtid.parse(one) for one in text.split(",")) if text else ()
        first = description(version="11.8.6-MariaDB-log", sizes=POST_HEADERS_OF_MARIADB)
        state = MariadbGtidListEvent(gtids, header=header(EventType.MARIADB_GTID_LIST_EVENT))
        end = rotate(f"binlog.{number + 1:06d}")
        path = folder / f"binlog.{number:06d}"
        path.write_bytes(BINLOG_MAGIC + encode([first, state, end]))
        found.append(path)
    return found


def test_logs_of_a_strict_server_are_skipped_by_the_numbers_of_its_domains(tmp_path: Path) -> None:
    """Numbers of all servers of a domain grow; a list that goes back, and the last log, prove nothing."""
    logs = strict_logs(tmp_path, ["", "0-1-10", "0-1-10,0-2-25,7-1-3", "0-2-25,0-1-30,7-1-9", "0-2-25,0-1-28,7-1-12"])
    found = find_logs(logs)

    def skipped(gtids: str, *, is_strict: bool = True) -> list[int]:
        where = EventFilter(gtids=frozenset(gtids.split(",")))
        return sorted(logs_without(found, where, is_strict=is_strict))

    assert skipped("0-1-10", is_strict=False) == [1]
    assert skipped("0-1-10") == [1, 2]  # 0-1-28 after 0-1-30: the domain went back
    assert skipped("0-2-20") == [0, 2, 3]
    assert skipped("0-1-27") == [0, 1]
    assert skipped("7-1-5") == [0, 1, 3]
    assert sorted(
        logs_without(found, EventFilter(wanted_gtids=MariadbGtidPosition.parse("7-1-2")), is_strict=True)
    ) == [0, 2, 3]
