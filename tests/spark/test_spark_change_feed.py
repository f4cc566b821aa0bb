"""The view `cdf`: one version a transaction, an order of its changes, commit times in microseconds if the log has them.

The oracle is the view `rows`, and the events of the log as the reader gives them.
"""

from __future__ import annotations

import gzip
import random
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from binlogio import BinlogWriter, ColumnDefinition, Delete, Insert, ServerVariables, Statement, TableDefinition, Update
from binlogio.constants import BINLOG_MAGIC, EVENT_SIZE_BYTES, EventType, HeaderFlag
from binlogio.format.encoder import Encoder
from binlogio.format.groups import GroupTracker
from binlogio.implementation import is_compiled
from binlogio.options import ReadOptions
from binlogio.reader import BinlogReader
from binlogio.storage.sources import find_logs
from corpus import MARIADB, MYSQL, ROOT
from pyspark_binlogio.option_values import BinlogOptionError
from spark_frames import tasks

pytest.importorskip("pyspark.sql.datasource")

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)
ORDERS: Final = TableDefinition(
    "shop", "orders", (ColumnDefinition("id", "int", nullable=False), ColumnDefinition("v", "int")), ("id",)
)
OWN: Final = (
    "_change_type", "_commit_version", "_commit_timestamp", "_commit_gtid", "_change_order", "_change_file",
    "_change_pos", "_change_row",
)  # fmt: skip
FOLDERS: Final = (
    MYSQL / "types_int", MYSQL / "rowimage_minimal", MYSQL / "gtid_on", MYSQL / "gtid_off", MYSQL / "compressed",
    MYSQL / "rotated", MYSQL / "checksum_none", MYSQL / "multi_table_stmt", MARIADB / "gtid", MARIADB / "compressed",
    MARIADB / "group_commit",
    MARIADB / "checksum_none",
)  # fmt: skip


def feed_of(*paths: Path, table: str = "shop.orders", **options: str) -> list[dict[str, Any]]:
    return [row for batch in tasks(*paths, table=table, view="cdf", **options) for row in batch.to_pylist()]


def rows_of(*paths: Path, table: str = "shop.orders", **options: str) -> list[dict[str, Any]]:
    return [row for batch in tasks(*paths, table=table, **options) for row in batch.to_pylist()]


def groups_of(path: Path, **keyring: Any) -> list[tuple[int, int]]:
    """(offset, microseconds) of each group, by the events: its commit time, or the time of its first event."""
    found, tracker = [], GroupTracker()
    with BinlogReader(find_logs(path), ReadOptions(), **keyring) as reader:
        for event in reader:
            if event.header.inner is None:
                tracker.feed(event)
                if tracker.starts_group:
                    time = getattr(event, "immediate_commit_timestamp", None)
                    found.append((event.header.offset, event.header.timestamp * 1_000_000 if time is None else time))
    return found


def expected_feed(path: Path, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the feed of one log of a table, from its rows and its groups."""
    number = int(path.name.split(".")[1])
    groups = groups_of(path)
    found: list[dict[str, Any]] = []
    counts: dict[int, int] = {}
    for row in rows:
        start, time = max(group for group in groups if group[0] <= row["pos"])
        kinds = ("update_preimage", "update_postimage") if row["op"] == "update" else ("delete", "insert")
        for kind, image in zip(kinds, (row["before"], row["after"]), strict=True):
            if image is None:
                continue
            order = counts[start] = counts.get(start, -1) + 1
            commit = EPOCH + timedelta(microseconds=time)
            own = (kind, number << 40 | start, commit, row["gtid"], order, row["file"], row["pos"], row["row"])
            found.append({**image, **dict(zip(OWN, own, strict=True))})
    return found


def tables_of(path: Path) -> set[str]:
    return {f"{row['schema']}.{row['table']}" for batch in tasks(path) for row in batch.to_pylist()}


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: f"{folder.parent.name}-{folder.name}")
def test_feed_has_what_the_rows_have(folder: Path, kernel: str) -> None:
    """Each image once, an update as two records; version and time are those of the group; however the log is cut."""
    del kernel
    seen = 0
    for log in sorted(folder.glob("*.0*")):
        for name in tables_of(log):
            rows = rows_of(log, table=name, zeroDates="null", schemaChanges="ignore")
            for cut in ({}, {"maxPartitionBytes": "900"}):
                feed = feed_of(log, table=name, zeroDates="null", schemaChanges="ignore", **cut)

                assert feed == expected_feed(log, rows), name
            seen += len(rows)
    assert seen


def write(folder: Path, **variables: Any) -> Path:
    """Transactions of random changes of few rows, with several statements and several rows in a statement."""
    folder.mkdir()
    rng = random.Random(7)
    held: dict[int, int] = {}
    ticks = iter(range(1_700_000_000_123_456, 1 << 62, 1_234_567))
    settings = ServerVariables(binlog_row_metadata="FULL", max_binlog_size=4096, **variables)
    with (
        BinlogWriter(folder / "binlog", variables=settings, clock=lambda: next(ticks)) as log,
        log.session("shop") as session,
    ):
        for number in range(60):
            session.begin()
            for _ in range(rng.randint(1, 5)):
                session.execute(Statement("change", statement(rng, held, number)))
            session.commit()
    return folder


def statement(rng: random.Random, held: dict[int, int], number: int) -> list[Any]:
    """Draw changes of some rows; keys change too."""
    found: list[Any] = []
    for key in rng.sample(range(6), rng.randint(1, 4)):
        if key not in held:
            held[key] = number
            found.append(Insert(ORDERS, [(key, number)]))
        elif rng.random() < 0.3:
            found.append(Delete(ORDERS, [(key, held.pop(key))]))
        else:
            before = (key, held.pop(key))
            moved = rng.choice([one for one in range(6) if one not in held])
            held[moved] = number
            found.append(Update(ORDERS, [(before, (moved, number))]))
    return found


@pytest.mark.parametrize("compression", [False, True])
def test_versions_and_order_give_the_last_state_after_a_shuffle(tmp_path: Path, compression: bool) -> None:
    """All changes of a compressed transaction, or of a statement, have one position: the order tells the last."""
    folder = write(tmp_path / "log", binlog_transaction_compression=compression)
    feed = feed_of(folder, maxPartitionBytes="1000")
    gtids = {row["_commit_gtid"] for row in feed}
    versions = {(row["_commit_version"], row["_commit_gtid"], row["_commit_timestamp"]) for row in feed}
    assert len(gtids) == len(versions) == 60

    shuffled = random.Random(1).sample(feed, len(feed))
    shuffled.sort(key=lambda row: (row["_commit_version"], row["_change_order"]))
    assert shuffled == feed
    state: dict[int, int] = {}
    for row in shuffled:
        if row["_change_type"] in ("delete", "update_preimage"):
            assert state.pop(row["id"]) == row["v"]
        else:
            assert row["id"] not in state
            state[row["id"]] = row["v"]
    last = [row for row in rows_of(folder) if row["after"] is not None]
    assert state
    assert set(state.items()) <= {(row["after"]["id"], row["after"]["v"]) for row in last}
    assert all(row["_commit_timestamp"].microsecond for row in feed)


def without_gtid_events(path: Path) -> bytes:
    """Return the log as an older server writes it: groups begin with BEGIN."""
    return encoded(path, lambda event: None if type(event).__name__.endswith("GtidEvent") else event)


def as_relay_log(path: Path) -> bytes:
    """Return the log with the flag that a replica's logs have."""

    def flagged(event: Any) -> Any:
        if event.header.offset != len(BINLOG_MAGIC):
            return event
        return replace(event, header=replace(event.header, flags=event.header.flags | HeaderFlag.RELAY_LOG))

    return encoded(path, flagged)


def encoded(path: Path, change: Any) -> bytes:
    data, encoder = BINLOG_MAGIC, Encoder()
    with BinlogReader(find_logs(path), ReadOptions(open_payloads=False)) as reader:
        for event in reader:
            changed = change(event)
            if changed is None:
                continue
            raw = encoder.encode(changed)
            end = len(data) + int.from_bytes(raw[EVENT_SIZE_BYTES], "little")
            data += encoder.encode(replace(changed, header=replace(changed.header, log_pos=end)))
    return data


@pytest.mark.parametrize("kind", ["without GTID events", "relay", "gzip"])
def test_feed_of_other_logs(tmp_path: Path, kind: str) -> None:
    """Logs without GTID events, or that cannot be read at an offset, have the same versions and order."""
    plain = sorted(write(tmp_path / "log").glob("binlog.0*"))[1]
    log = tmp_path / plain.name
    if kind == "gzip":
        log = tmp_path / f"{plain.name}.gz"
        log.write_bytes(gzip.compress(plain.read_bytes()))
    else:
        log.write_bytes(without_gtid_events(plain) if kind.startswith("without") else as_relay_log(plain))
    feed, whole = feed_of(log), feed_of(plain)

    assert [row["_change_order"] for row in feed] == [row["_change_order"] for row in whole]
    starts = [start for start, _ in groups_of(log)]
    assert {row["_commit_version"] & (1 << 40) - 1 for row in feed} <= set(starts)
    assert len({row["_commit_version"] for row in feed}) == len({row["_commit_version"] for row in whole})
    if kind != "without GTID events":
        assert [row["_commit_timestamp"] for row in feed] == [row["_commit_timestamp"] for row in whole]


def test_feed_of_encrypted_logs() -> None:
    """Those of MySQL are scanned as plain ones, those of MariaDB event by event."""
    pytest.importorskip("cryptography")
    for folder, keys in ((MYSQL / "encrypted", "keyring"), (MARIADB / "encrypted", "keys.txt")):
        log = min(folder.glob("*.0*"))
        keyring = str(folder / keys)
        names = {
            f"{row['schema']}.{row['table']}" for batch in tasks(log, keyring=keyring) for row in batch.to_pylist()
        }
        from binlogio.storage.keyring import load_keyring  # noqa: PLC0415 - needs an extra

        groups = dict(groups_of(log, keyring=load_keyring(keyring)))
        assert names
        for name in names:
            for row in feed_of(log, table=name, keyring=keyring):
                start = row["_commit_version"] & (1 << 40) - 1
                assert start == max(one for one in groups if one <= row["_change_pos"])
                assert row["_commit_timestamp"] == EPOCH + timedelta(microseconds=groups[start])


def test_event_that_is_larger_than_a_window_does_not_end_the_scan(tmp_path: Path) -> None:
    """The groups after it have their own versions."""
    table = TableDefinition("shop", "big", (ColumnDefinition("id", "int"), ColumnDefinition("v", "longblob")))
    variables = ServerVariables(binlog_row_metadata="FULL")
    with BinlogWriter(tmp_path / "binlog", variables=variables) as log, log.session("shop") as session:
        for number in range(6):
            session.execute(Statement("insert", [Insert(table, [(number, bytes((5 << 20) * (number % 2)))])]))
    for path in (tmp_path / "binlog.000001", tmp_path / "binlog.000001.gz"):
        if path.suffix == ".gz":
            path.write_bytes(gzip.compress((tmp_path / "binlog.000001").read_bytes(), 1))
        feed = feed_of(path, table="shop.big")
        starts = [start for start, _ in groups_of(path)]
        assert [row["_commit_version"] & (1 << 40) - 1 for row in feed] == starts


def test_kernel_scans_the_groups_that_the_events_begin() -> None:
    """Of all logs of both vendors: offsets and commit times."""
    if not is_compiled():
        pytest.skip("there is no kernel")
    from binlogio._kernel.event_scanner import scan_groups  # noqa: PLC0415 - there may be none

    seen = 0
    for folder in FOLDERS:
        for path in sorted(folder.glob("*.0*")):
            data = path.read_bytes()
            found = scan_groups(data[4:], 4, checksum=folder.name != "checksum_none")
            times = [
                committed if committed >= 0 else second * 1_000_000
                for committed, second in zip(
                    memoryview(found.committed_us).cast("q"), memoryview(found.timestamp).cast("I"), strict=True
                )
            ]
            assert list(zip(memoryview(found.offset).cast("q"), times, strict=True)) == groups_of(path)
            assert found.end == len(data)
            seen += len(found)
            for size in range(4, min(len(data), 600)):  # cut anywhere: whole events only, and no byte after the buffer
                part = scan_groups(data[4:size], 4, checksum=True)
                assert part.end <= size
    assert seen > 100


def test_damaged_gtid_event_has_no_commit_time() -> None:
    """A body that ends early, and one without any byte."""
    if not is_compiled():
        pytest.skip("there is no kernel")
    from binlogio._kernel.event_scanner import scan_groups  # noqa: PLC0415 - there may be none

    for code in (EventType.GTID_LOG_EVENT, EventType.GTID_TAGGED_LOG_EVENT, EventType.MARIADB_GTID_EVENT):
        for size in range(60):
            event = (
                (7).to_bytes(4, "little")
                + bytes([code])
                + bytes(4)
                + (19 + size).to_bytes(4, "little")
                + bytes(6 + size)
            )
            found = scan_groups(event, 0, checksum=False)
            assert len(found) == 1
            assert list(memoryview(found.timestamp).cast("I")) == [7]


def test_table_with_a_column_of_the_view_is_refused(tmp_path: Path) -> None:
    """One of the two would be lost."""
    table = TableDefinition("shop", "orders", (ColumnDefinition("id", "int"), ColumnDefinition("_change_pos", "int")))
    with (
        BinlogWriter(tmp_path / "binlog", variables=ServerVariables(binlog_row_metadata="FULL")) as log,
        log.session("shop") as session,
    ):
        session.execute(Statement("insert", [Insert(table, [(1, 2)])]))
    with pytest.raises(BinlogOptionError, match="the table has a column _change_pos"):
        feed_of(tmp_path)
    assert [row["after"] for row in rows_of(tmp_path)] == [{"id": 1, "_change_pos": 2}]


@pytest.mark.spark
def test_feed_is_ordered_by_version_and_order_in_spark(spark: SparkSession, tmp_path: Path) -> None:
    """As an Auto CDC flow and MERGE want it: the last record of each key by a struct of the two."""
    folder = write(tmp_path / "log", binlog_transaction_compression=True)
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW feed USING binlog OPTIONS (path '{folder}', view 'cdf', "
        "table 'shop.orders', maxPartitionBytes '2k')"
    )
    text = (ROOT / "docs" / "spark.md").read_text(encoding="utf-8")
    found = spark.sql(text.split('query = """\n')[1].split('"""')[0]).collect()
    state: dict[int, int] = {}
    for row in rows_of(folder):
        if row["before"] is not None:
            state.pop(row["before"]["id"])
        if row["after"] is not None:
            state[row["after"]["id"]] = row["after"]["v"]
    assert {row.id: row.v for row in found} == state
    gtids = spark.sql("SELECT DISTINCT _commit_gtid FROM feed ORDER BY _commit_gtid").collect()
    first = gtids[0]["_commit_gtid"]
    assert spark.table("feed").where(f"_commit_gtid = '{first}'").count() == sum(
        row["_commit_gtid"] == first for row in feed_of(folder)
    )
    assert spark.table("feed").schema["_change_row"].dataType.simpleString() == "int"
