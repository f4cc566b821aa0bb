"""The readers of a soak: what each one has read, and which log it still needs.

`dump --follow` and Spark's stream end when they have everything, rounds (`soak.rounds`) at the end of their input.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import struct
import subprocess
import sys
import time
from collections import Counter, defaultdict
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pymysql

from binlogio.constants import EventType
from dump_client import CHECKSUM, DumpClient
from logs import raw_events
from served_logs import free_port, served
from soak.writer import OF_THREAD
from started_processes import no_longer_needed, started

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from contextlib import ExitStack

HERE: Final = Path(__file__).parent
FIRST: Final = "binlog.000001"
RECONNECTS_EACH: Final = 5  # logs
NOT_COMPARED: Final = (EventType.FORMAT_DESCRIPTION_EVENT, EventType.STOP_EVENT, EventType.HEARTBEAT_LOG_EVENT)
FOLLOW: Final = (sys.executable, "-m", "binlogio_cli", "dump", "--follow", "--format", "json")


class Journal:
    """The transactions that a reader has read, by GTID: changes, the sum of their ids, and the rows of the journal."""

    def __init__(self, changes: Iterable[tuple[str, str, Any]] = ()) -> None:
        self.found: dict[str, tuple[int, int, tuple[Any, ...]]] = {}
        for change in changes:
            self.add(*change)

    def add(self, gtid: str, table: str, image: Any) -> None:
        """Add a row change."""
        changes, total, claims = self.found.get(gtid, (0, 0, ()))
        if table == "journal":
            self.found[gtid] = changes, total, (*claims, (image["number"], image["row_count"], image["total"]))
        else:
            self.found[gtid] = changes + 1, total + image["id"], claims

    def faults(self, transactions: Sequence[int]) -> Iterator[str]:
        """Yield what was lost, doubled or changed of so many transactions of each thread."""
        for gtid, (changes, total, claims) in self.found.items():
            if [(changes, total)] != [claim[1:] for claim in claims]:
                yield f"{gtid} has {changes} changes with ids of {total}, expected {[claim[1:] for claim in claims]}"
        yield from differences((claim[0] for _, _, claims in self.found.values() for claim in claims), transactions)

    def __str__(self) -> str:
        return f"{len(self.found)} transactions, {sum(one[0] + len(one[2]) for one in self.found.values())} changes"


def differences(numbers: Iterable[int], transactions: Sequence[int]) -> Iterator[str]:
    """Yield the numbers of the journal that are missing, or there twice."""
    times = Counter(numbers)
    written = {thread * OF_THREAD + n for thread, last in enumerate(transactions, 1) for n in range(1, last + 1)}
    doubled = {number for number, count in times.items() if count > 1}
    for what, found in (
        ("lost", written - times.keys()), ("doubled", doubled), ("not written", times.keys() - written)
    ):  # fmt: skip
        if found:
            yield f"{what}: {len(found)} transactions, such as {sorted(found)[:3]}"


def hash_of(path: Path) -> str:
    """Return the hash of the events of a log that a source sends."""
    events = (event for _, event in raw_events(path.read_bytes()) if event[4] not in NOT_COMPARED)
    return hashlib.sha256(b"".join(events)).hexdigest()


def exported(folder: Path) -> Iterator[tuple[str, str, Any]]:
    """Yield the row changes of an export, or of Spark's files, whose images are JSON."""
    for path in folder.glob("*.parquet"):
        file = pq.ParquetFile(path)
        is_json = "table" in file.schema_arrow.names
        for batch in file.iter_batches(columns=["gtid", "before", "after", *(("table",) if is_json else ())]):
            for row in batch.to_pylist():
                image = row["after"] or row["before"]
                yield row["gtid"], row.get("table") or path.name.split(".")[1], json.loads(image) if is_json else image


class Reader:
    """A process that reads.

    `needs` is the first log of which it has not read everything, `summary` what it has read in the end.
    """

    needs = FIRST
    summary = ""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.logs, self.target = folder / "logs", folder / type(self).__name__
        self.process: subprocess.Popen[Any] = self.start(stack)

    def start(self, stack: ExitStack) -> subprocess.Popen[Any]:
        """Return the process, a round of which prints a line."""
        kind = type(self).__name__.lower()
        return stack.enter_context(started(HERE / "rounds.py", kind, str(self.logs), str(self.target), "1"))

    def read(self) -> None:
        """Read what the process prints."""
        for line in self.process.stdout or ():
            if line.startswith(b"binlog."):
                self.needs = line.decode().strip()

    def finish(self, written: dict[str, Any], end: float) -> None:
        """Let the process read the rest."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        if self.process.wait(max(1, end - time.monotonic())):
            raise SystemExit(f"{type(self).__name__} ended with {self.process.returncode}")

    def faults(self, written: dict[str, Any]) -> Iterator[str]:
        """Yield what is wrong with what was read."""
        journal = Journal(exported(self.target))
        self.summary = str(journal)
        yield from journal.faults(written["transactions"])


class Export(Reader):
    """Rounds of an export into Parquet."""


class Replay(Reader):
    """Rounds of a replay into SQLite, with workers."""

    def faults(self, written: dict[str, Any]) -> Iterator[str]:
        """Compare the tables with those of the writer."""
        with closing(sqlite3.connect(self.target)) as database:
            numbers = [number for (number,) in database.execute('SELECT number FROM "shop.journal"')]
            for table, expected in written["tables"].items():
                found = [*database.execute(f'SELECT count(*), sum(id) FROM "shop.{table}"').fetchone()]
                if found != expected:
                    yield f"{table} has {found} rows and sum of ids, expected {expected}"
        self.summary = f"{len(numbers)} transactions"
        yield from differences(numbers, written["transactions"])


class Spark(Reader):
    """A stream of Spark into Parquet."""

    def start(self, stack: ExitStack) -> subprocess.Popen[Any]:
        """Return the process of the driver."""
        return stack.enter_context(started(*driver(self.logs, self.target, "soak")))

    def read(self) -> None:
        """Read which batches are finished."""
        for _ in self.process.stdout or ():
            self.needs = no_longer_needed(Path(f"{self.target}.checkpoint")) or FIRST

    def finish(self, written: dict[str, Any], end: float) -> None:
        """Wait for all changes."""
        _await(lambda: _rows_of(self.target) >= written["changes"], end)


class Follow(Reader):
    """`dump --follow`."""

    def start(self, stack: ExitStack) -> subprocess.Popen[Any]:
        """Return the process of the command."""
        self.journal, self._gtids = Journal(), 0
        return stack.enter_context(followed(self.logs))

    def read(self) -> None:
        """Read events."""
        for event in map(json.loads, self.process.stdout or ()):
            self.needs = Path(event["file"]).name
            for row in event.get("rows", ()):
                self.journal.add(event["gtid"], event["table"], row.get("after") or row["before"])
            self._gtids += event["type"] == "GTID_LOG_EVENT"

    def finish(self, written: dict[str, Any], end: float) -> None:
        """Wait for the last transaction."""
        _await(lambda: self._gtids >= written["gtids"], end)

    def faults(self, written: dict[str, Any]) -> Iterator[str]:
        """Compare transactions and GTIDs."""
        if self._gtids != written["gtids"]:
            yield f"{self._gtids} GTIDs, expected {written['gtids']}"
        self.summary = f"{self.journal}, {self._gtids} GTIDs"
        yield from self.journal.faults(written["transactions"])


class Serve(Reader):
    """`serve`, and a client in this process."""

    def start(self, stack: ExitStack) -> subprocess.Popen[Any]:
        """Return the process of the command."""
        self.port, self._hashes, self._place = free_port(), defaultdict[str, Any](hashlib.sha256), (FIRST, 4)
        return stack.enter_context(served(self.logs, port=self.port))

    def read(self) -> None:
        """Read events, with a new connection after every few logs."""
        with suppress(pymysql.err.OperationalError):  # the server is killed in the end
            while True:
                client, logs = DumpClient(self.port, CHECKSUM), len(self._hashes) + RECONNECTS_EACH
                for event in client.by_position(*self._place, flags=0):
                    if event[4] == EventType.ROTATE_EVENT and event[17] & 0x20:
                        self.needs = event[27:-4].decode()
                        self._place = self.needs, self._place[1] if self.needs == self._place[0] else 4
                        if len(self._hashes) >= logs:
                            break
                    elif event[4] not in NOT_COMPARED:
                        self._hashes[self.needs].update(event)
                        self._place = self.needs, struct.unpack_from("<I", event, 13)[0]
                client.close()

    def finish(self, written: dict[str, Any], end: float) -> None:
        """Wait for the last event."""
        _await(lambda: self._sent() == written["hashes"], end)

    def faults(self, written: dict[str, Any]) -> Iterator[str]:
        """Compare logs."""
        sent = self._sent()
        self.summary = f"{len(sent)} logs"
        for name in sorted(sent.keys() | written["hashes"].keys()):
            if sent.get(name) != written["hashes"].get(name):
                yield f"{name} has other events than the log"

    def _sent(self) -> dict[str, str]:
        return {name: one.hexdigest() for name, one in self._hashes.items()}


READERS: Final[dict[str, type[Reader]]] = {one.__name__.lower(): one for one in (Follow, Serve, Replay, Export, Spark)}


@contextmanager
def followed(logs: Path) -> Iterator[subprocess.Popen[str]]:
    """Provide `dump --follow`, in a session of its own, which is killed in the end."""
    pipe = subprocess.PIPE
    with subprocess.Popen((*FOLLOW, str(logs)), stdout=pipe, stderr=pipe, text=True, start_new_session=True) as process:
        try:
            yield process
        finally:
            process.kill()


def driver(logs: Path, target: Path, how: str) -> tuple[Any, ...]:
    """Return the arguments of a driver of Spark that copies logs as a stream into Parquet."""
    script = HERE.parent / "support" / "streaming_driver.py"
    return script, str(logs), str(target), f"{target}.checkpoint", "", "parquet", how


def _rows_of(folder: Path) -> int:
    """Return the number of rows of finished files; Spark is writing one that has no end."""
    count = 0
    for path in folder.glob("*.parquet"):
        with suppress(pa.ArrowInvalid, FileNotFoundError):
            count += pq.read_metadata(path).num_rows
    return count


def _await(condition: Callable[[], bool], end: float) -> None:
    while not condition() and time.monotonic() < end:
        time.sleep(0.2)
