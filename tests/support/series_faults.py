"""Series of logs with faults, and consumers that read them in two calls: what was lost, doubled, or refused.

A series has three logs of transactions of one row, all of the same size. A fault is two lists of logs: what a consumer
is given first, and then.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from sqlite3 import connect
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from click.testing import CliRunner, Result

import binlogio
from binlogio import BinlogWriter, ColumnDefinition, Insert, ServerVariables, Statement, TableDefinition
from binlogio import open as open_logs
from binlogio.events.gtid import AnonymousGtidEvent, GtidEvent
from binlogio.events.mariadb import MariadbGtidEvent
from binlogio_cli.main import cli
from logs import raw_events, with_checksum
from spark_frames import tasks

READS: Final[tuple[Callable[..., object], ...]] = (
    binlogio.open,
    binlogio.read_rows,
    binlogio.read_tables,
    lambda logs: tasks(*logs),
)
"""Python and Spark, which raise an error about the logs when they are given."""
SHOWING: Final = ("info", "verify", "stats", "dump", "index")
UUIDS: Final = ("3e11fa47-71ca-11e1-9e33-c80aa9429562", "8a94f357-aab4-11df-86ab-c80aa9429562")
TABLES: Final = tuple(
    TableDefinition(
        "shop", name, (ColumnDefinition("id", "int", nullable=False), ColumnDefinition("v", "int")), ("id",)
    )
    for name in ("a", "b")
)
PER_LOG: Final = 8
SERVERS: Final[dict[str, dict[str, Any]]] = {
    "GTIDs": {"server_version": "9.7.4", "gtid_mode": "ON"},
    "anonymous": {"server_version": "9.7.4", "gtid_mode": "OFF"},
    "MariaDB": {"server_version": "10.11.18-MariaDB-log"},
}
KEYRING: Final = {"MySQLReplicationKey_3e11fa47-71ca-11e1-9e33-c80aa9429562_1": bytes(range(32))}


def write_series(
    folder: Path,
    server: str,
    *,
    first_id: int = 1,
    logs: int = 3,
    number: int = 0,
    since: int = 1_700_000_000,
    begins: Sequence[int] = (),
    empty: int = -1,
    per_log: int = PER_LOG,
) -> list[Path]:
    """Write logs of a server (`number` distinguishes two of them) with `per_log` transactions, and return them.

    The logs begin `begins` seconds after `since`, one after the other if it is empty. Log `empty` has no transactions.
    """
    folder.mkdir(exist_ok=True, parents=True)
    ticks = count(since * 1_000_000, 500_000)
    variables = ServerVariables(
        server_id=number + 1, server_uuid=UUIDS[number], binlog_row_metadata="FULL", **SERVERS[server]
    )
    with (
        BinlogWriter(folder / "binlog", variables=variables, clock=lambda: next(ticks)) as log,
        log.session("shop") as session,
    ):
        for part in range(len(begins) or logs):
            if begins:
                ticks = count((since + begins[part]) * 1_000_000, 500_000)
            if part:
                log.rotate()
            for key in range(first_id + part * per_log, first_id + (part + 1) * per_log) if part != empty else ():
                session.execute(Statement("INSERT", [Insert(TABLES[key % 2], [(key, key)])]))
    return sorted(folder.glob("binlog.0*"))


def of_replica(folder: Path, logs: Sequence[Path], *, name: str, number: int, per_log: int) -> list[Path]:
    """Write the transactions of logs as a replica (server `number`) logs them, `per_log` in each log."""
    arguments = ("--merge", "--max-groups", per_log, "--basename", name, "--out", folder)
    assert run("copy", "-q", *arguments, *logs).exit_code == 0
    written = sorted(folder.glob(f"{name}.0*"))
    for log in written:
        data = log.read_bytes()
        event = bytearray(next(raw_events(data))[1])
        event[5:9] = (number + 1).to_bytes(4, "little")
        log.write_bytes(data[:4] + with_checksum(bytes(event)) + data[4 + len(event) :])
    return written


def replicating(folder: Path, server: str) -> tuple[list[Path], list[Path]]:
    """Write the logs of two servers, a and b, that replicate from each other. Their first GTIDs differ."""
    own = (
        write_series(folder / "own a", server, logs=2),
        write_series(folder / "own b", server, logs=2, number=1, first_id=100),
    )
    one, other = (
        of_replica(folder / name, [*own[number], *own[1 - number]], name=name, number=number, per_log=2 * PER_LOG)
        for number, name in enumerate("ab")
    )
    return one, other


def torn(log: Path, end: int, folder: Path) -> Path:
    """Copy a log up to an offset, as if it were copied while the server wrote to it."""
    data = bytearray(log.read_bytes()[:end])
    data[21] |= 1  # BINLOG_IN_USE
    folder.mkdir()
    copy = folder / log.name
    copy.write_bytes(data)
    return copy


def crashed(folder: Path, server: str, end: int = 0) -> tuple[list[Path], int, int]:
    """Write a series whose server crashed after it had written a part of group `PER_LOG + 1` to the first log.

    The server logs the group again in the next log, with other bytes. The first log ends `end` bytes after the last
    event of the part. Returns the logs, and where the part begins and its last event ends.
    """
    logs = write_series(folder / "good", server)
    long = write_series(folder / "long", server, logs=1, per_log=2 * PER_LOG)[0]
    begin, following = group_starts(long)[PER_LOG : PER_LOG + 2]
    at = [offset for offset, _ in raw_events(long.read_bytes()) if begin <= offset < following][-1]
    return (
        [torn(long, at + end, folder / "crashed"), *(Path(shutil.copy(log, folder / "crashed")) for log in logs[1:])],
        begin,
        at,
    )


def group_starts(log: Path) -> list[int]:
    """Return the offsets of the event groups."""
    with open_logs(log) as reader:
        kinds = (GtidEvent, AnonymousGtidEvent, MariadbGtidEvent)
        return [event.header.offset for event in reader if isinstance(event, kinds)]


def run(*arguments: object) -> Result:
    """Run a command."""
    return CliRunner().invoke(cli, [str(one) for one in arguments])


@dataclass(frozen=True)
class Calls:
    """The logs of two calls, and the ids that a consumer must have after both, unless one of them was refused."""

    first: list[Path]
    then: list[Path]
    ids: tuple[int, ...]


Fault = Callable[[Path, str], Calls]


def repaired(folder: Path, server: str) -> Calls:
    """Give a repaired log, which lacks a transaction, and then the good one."""
    logs = write_series(folder / "good", server)
    (folder / "repaired").mkdir()
    data = bytearray(logs[0].read_bytes())
    data[group_starts(logs[0])[2] + 30] ^= 0xFF
    (folder / "damaged.000001").write_bytes(data)
    fixed = folder / "repaired" / "binlog.000001"
    assert run("repair", "-q", "-o", fixed, folder / "damaged.000001").exit_code == 1
    return Calls([fixed], logs, ids_of(3))


def filtered(folder: Path, server: str) -> Calls:
    """Give a copy of one table, and then the original."""
    logs = write_series(folder / "good", server)
    copy = folder / "copies" / "binlog.000001"
    copy.parent.mkdir()
    assert run("copy", "-q", "--drop-empty", "-T", "shop.a", "-o", copy, logs[0]).exit_code == 0
    return Calls([copy], logs, ids_of(3))


def missing_inside(folder: Path, server: str) -> Calls:
    """Leave out a log of one call."""
    logs = write_series(folder / "good", server)
    return Calls([], [logs[0], logs[2]], ids_of(3))


def missing_between(folder: Path, server: str) -> Calls:
    """Leave out a log between two calls."""
    logs = write_series(folder / "good", server)
    return Calls(logs[:1], logs[2:], ids_of(3))


def missing_later(folder: Path, server: str) -> Calls:
    """Give the logs of the first call again, and leave out the one after them."""
    logs = write_series(folder / "good", server, logs=4)
    return Calls(logs[:2], [*logs[:2], logs[3]], ids_of(4))


def unfinished(folder: Path, server: str) -> Calls:
    """Give half of a log, which is in use, and then only the next one."""
    logs = write_series(folder / "good", server)
    half = torn(logs[0], group_starts(logs[0])[4], folder / "half")
    return Calls([half], logs[1:], ids_of(3))


def grown(folder: Path, server: str) -> Calls:
    """Give half of a log, which is in use, and then all of it and the next ones."""
    calls = unfinished(folder, server)
    return Calls(calls.first, sorted((folder / "good").glob("binlog.0*")), ids_of(3))


def purged(folder: Path, server: str) -> Calls:
    """Purge a log that was read: nothing is missing."""
    logs = write_series(folder / "good", server)
    return Calls(logs[:2], logs[1:], ids_of(3))


def reset(folder: Path, server: str) -> Calls:
    """Begin the numbers again on the same server."""
    logs = write_series(folder / "good", server)
    new = write_series(folder / "new", server, first_id=100, since=1_700_009_000)
    return Calls(logs, new, (*ids_of(3), *range(100, 100 + 3 * PER_LOG)))


def failover(folder: Path, server: str) -> Calls:
    """Go on with the logs of another server, which have the same names."""
    logs = write_series(folder / "good", server)
    new = write_series(folder / "new", server, first_id=100, number=1, since=1_700_009_000)
    return Calls(logs, new, (*ids_of(3), *range(100, 100 + 3 * PER_LOG)))


def replaced(folder: Path, server: str) -> Calls:
    """Replace the log of which a part was read by one of another server."""
    logs = write_series(folder / "good", server)
    half = [logs[0], folder / "half" / "binlog.000002"]
    half[1].parent.mkdir()
    half[1].write_bytes(logs[1].read_bytes()[: group_starts(logs[1])[4]])
    other = write_series(folder / "new", server, first_id=100, number=1)
    return Calls(half, [logs[0], other[1], logs[2]], ids_of(3))


def regrown(folder: Path, server: str) -> Calls:
    """Truncate the log after it was read, as in crash recovery, and let it grow with other transactions."""
    logs = write_series(folder / "good", server, logs=1)
    other = write_series(folder / "new", server, first_id=101, logs=1)
    start, end = group_starts(logs[0])[4], group_starts(other[0])[4]
    again = folder / "again" / "binlog.000001"
    again.parent.mkdir()
    again.write_bytes(logs[0].read_bytes()[:start] + other[0].read_bytes()[end:])
    return Calls(logs, [again], (*range(1, 1 + PER_LOG), *range(105, 101 + PER_LOG)))


def renamed(folder: Path, server: str) -> Calls:
    """Rename the logs between the calls."""
    logs = write_series(folder / "good", server)
    (folder / "renamed").mkdir()
    new = [Path(shutil.copy(log, folder / "renamed" / f"other.{log.name[-6:]}")) for log in logs]
    return Calls(logs[:2], new, ids_of(3))


def recompressed(folder: Path, server: str) -> Calls:
    """Compress the logs between the calls."""
    logs = write_series(folder / "good", server)
    (folder / "packed").mkdir()
    new = [folder / "packed" / f"{log.name}.zst" for log in logs]
    for log, packed in zip(logs, new, strict=True):
        packed.write_bytes(pa.Codec("zstd").compress(log.read_bytes(), asbytes=True))
    return Calls(logs[:2], new, ids_of(3))


def middle(folder: Path, server: str) -> Calls:
    """Give all logs, and then a copy of the middle of one under the next number."""
    logs = write_series(folder / "good", server)
    copy = folder / "copies" / "binlog.000004"
    copy.parent.mkdir()
    start = group_starts(logs[1])[3]
    assert run("copy", "-q", "--start-position", f"{logs[1].name}:{start}", "-o", copy, logs[1]).exit_code == 0
    return Calls(logs, [copy], ids_of(3))


def twice(folder: Path, server: str) -> Calls:
    """Give a log plain and compressed in one call."""
    calls = recompressed(folder, server)
    packed = shutil.copy(calls.then[0], calls.first[0].parent)
    return Calls([], [calls.first[0], Path(packed), calls.first[1]], ids_of(2))


def ids_of(logs: int) -> tuple[int, ...]:
    """Return the ids in this many logs."""
    return tuple(range(1, 1 + logs * PER_LOG))


FAULTS: Final[dict[str, Fault]] = {
    "repaired copy": repaired,
    "filtered copy": filtered,
    "copy of the middle": middle,
    "missing inside": missing_inside,
    "missing between": missing_between,
    "missing after logs of the first call": missing_later,
    "rest of a log missing": unfinished,
    "grown": grown,
    "purged": purged,
    "RESET": reset,
    "failover": failover,
    "replaced file": replaced,
    "truncated and regrown": regrown,
    "renamed": renamed,
    "recompressed": recompressed,
    "twice": twice,
}


# ----------------------------------------------------------------------------------------------------------- consumers


class SqliteConsumer:
    """`replay` into a SQLite file."""

    def __init__(self, folder: Path, *options: str) -> None:
        self._file = folder / "x.db"
        self._options = options

    def give(self, logs: list[Path], *options: str) -> Result:
        """Replay logs."""
        return run("replay", "-q", "--to", f"sqlite:///{self._file}", *self._options, *options, *logs)

    def ids(self) -> Counter[int]:
        """Return the ids in the tables."""
        found: Counter[int] = Counter()
        with closing(connect(self._file)) as connection:
            tables = connection.execute("SELECT name FROM sqlite_master WHERE name LIKE 'shop.%' AND type = 'table'")
            for (name,) in tables.fetchall():
                found.update(one for (one,) in connection.execute(f'SELECT id FROM "{name}"'))
        return found


class ExportConsumer:
    """`export --append` in a format."""

    def __init__(self, folder: Path, form: str) -> None:
        self._to = folder / ("x.duckdb" if form == "duckdb" else "x")
        self._form = form

    def give(self, logs: list[Path], *options: str) -> Result:
        """Export logs."""
        return run("export", "-q", "--format", self._form, "--append", "--to", self._to, *options, *logs)

    def ids(self) -> Counter[int]:
        """Return the ids in the files."""
        found: Counter[int] = Counter()
        if self._form == "duckdb":
            import duckdb  # noqa: PLC0415 - not every test needs it

            with duckdb.connect(str(self._to), read_only=True) as connection:
                tables = connection.execute("SELECT table_name FROM duckdb_tables() WHERE schema_name = 'shop'")
                for (name,) in tables.fetchall():
                    rows = connection.execute(f"SELECT after.id FROM shop.{name}")
                    found.update(one for (one,) in rows.fetchall())
        elif self._form == "jsonl":
            for path in self._to.glob("*.jsonl"):
                found.update(json.loads(line)["after"]["id"] for line in path.read_text().splitlines())
        else:
            for path in self._to.glob("*.parquet"):
                images = pq.read_table(path, columns=["after"]).column("after").combine_chunks()
                found.update(images.field("id").to_pylist())
        return found
