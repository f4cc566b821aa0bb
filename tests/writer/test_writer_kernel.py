"""Logs that the writer writes with the kernel, against those that it writes without; record batches; GTIDs."""

from __future__ import annotations

from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import binlogio
from binlogio.arrow.types import JSON_DIFFS
from binlogio.errors import BinlogFormatError, LoggingError, UnsupportedFeature
from binlogio.events.rows import WriteRowsEvent
from binlogio.gtid import GNO_END, NO_TAG, GtidSet, Interval, Tsid, Uuid
from binlogio.options import ServerVariables
from binlogio.schema import ColumnDefinition, TableDefinition
from binlogio.values.json import JsonDiff, JsonDiffOperation, JsonDiffs, JsonDocument
from binlogio.writer import BinlogWriter, Delete, Insert, Statement, Update
from binlogio.writer.batches import BatchChange, BatchSession
from binlogio.writer.log.gtids import OwnGtids
from both_kernels import kernel_set_to
from column_cases import ALL_ROWS, ALL_TYPES
from memory_storage import MemoryStorage

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"

# --------------------------------------------------------------------------------------------------------- whole logs

ORDERS = TableDefinition(
    "shop", "orders", (ColumnDefinition("id", "int", nullable=False), ColumnDefinition("note", "varchar(20)")), ("id",)
)
PLAIN = TableDefinition("shop", "plain", (ColumnDefinition("id", "int"),), engine="MyISAM")


def write(variables: ServerVariables, *, use_kernel: bool) -> dict[str, bytes]:
    """Return the files that a busy hour leaves."""
    storage, ticks = MemoryStorage(), count(1_700_000_000_000_000, 333_333)
    log = BinlogWriter("binlog", variables=variables, clock=lambda: next(ticks), storage=storage, use_kernel=use_kernel)
    with log, log.session("shop") as session:
        session.ddl("CREATE TABLE orders (id INT)")
        session.execute(Statement("insert", [Insert(ALL_TYPES, ALL_ROWS)]))
        for number in range(40):
            session.begin()
            session.execute(Statement("insert", [Insert(ORDERS, [{"id": number, "note": "é"}])]))
            session.execute(Statement("update", [Update(ORDERS, [({"id": number, "note": "é"}, {"note": None})])]))
            session.execute(Statement("delete", [Delete(ORDERS, [(number, None)])]))
            session.commit()
            session.execute(Statement("plain", [Insert(PLAIN, [[number]])]))
        with pytest.raises(BinlogFormatError):
            session.execute(Statement("insert", [Insert(ORDERS, [[1, "x" * 81]])]))
        with pytest.raises(UnsupportedFeature):
            session.execute(Statement("insert", [Insert(ORDERS, [[None, ""]])]))
    return {name: bytes(data) for name, data in storage.files.items()}


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"binlog_checksum": "NONE", "binlog_row_metadata": "MINIMAL"},
        {"gtid_mode": "OFF", "binlog_row_event_max_size": 256, "max_binlog_size": 4096},
        {"binlog_rows_query_log_events": True},
    ],
    ids=str,
)
def test_logs_are_the_same_with_and_without_the_kernel(more: Any) -> None:
    """Every byte of every file."""
    variables = ServerVariables(server_uuid=UUID, **more)

    assert write(variables, use_kernel=False) == write(variables, use_kernel=True)


VISITS = TableDefinition(
    "shop",
    "visits",
    (
        ColumnDefinition("id", "int", nullable=False),
        ColumnDefinition("at", "time(2)"),
        ColumnDefinition("n", "char(3)"),
    ),
    ("id",),
)


def one_row_changes() -> list[Insert | Update | Delete]:
    """Return changes of one row, some of which are refused or not logged."""
    names = [column.name for column in ALL_TYPES.columns]
    dicts = [dict(zip(names, row, strict=True)) for row in ALL_ROWS]
    changes: list[Insert | Update | Delete] = []
    for number, row in enumerate(dicts):
        after = dicts[number - 1]
        changes += (Insert(ALL_TYPES, [row]), Delete(ALL_TYPES, [row]), Update(ALL_TYPES, [(row, after)]))
    good, equal = {"id": 1, "at": timedelta(seconds=1), "n": "a"}, {"n": "a", "id": 1, "at": timedelta(seconds=1)}
    values: list[Any] = ["12:61:00", "12:00:01", "", None, b"12:00", 7, timedelta(hours=900)]
    changes += [Insert(VISITS, [{**good, "at": value}]) for value in values]
    changes += [Insert(VISITS, [{**good, "n": value}]) for value in ("é ", b"\xff", b"abc", "long", None, 1)]
    changes += [
        Insert(VISITS, [{**good, "id": None}]), Insert(VISITS, [{"id": 1}]), Insert(VISITS, [{**good, "more": 1}]),
        Insert(VISITS, [(1, None)]), Insert(VISITS, [[1, None, "x"]]), Insert(VISITS, [{"ID": 1, "at": None, "n": ""}]),
        Update(VISITS, [(good, equal)]), Update(VISITS, [(good, {"id": 2})]),
        Update(VISITS, [(good, {**good, "id": None})]),
        Update(VISITS, [(good, {**good, "id": 2})], replaces_insert=True), Delete(VISITS, [good], is_cascade=True),
        Update(VISITS, [((1, None, "a"), (1, None, "b"))], is_cascade=True),
        Insert(PLAIN, [(1,)]), Insert(PLAIN, [{"id": 2}]),
    ]  # fmt: skip
    return changes


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"binlog_checksum": "NONE", "binlog_row_value_options": "PARTIAL_JSON"},
        {"binlog_row_image": "MINIMAL"},
        {"server_version": "11.4.5-MariaDB", "log_bin_compress": True, "log_bin_compress_min_len": 20},
        {"server_version": "5.5.62"},
    ],
    ids=str,
)
def test_statements_of_one_row_are_the_same_with_and_without_the_kernel(more: Any) -> None:
    """Every byte of the log, and every error; with rows that no template has, or that are not logged."""
    variables = ServerVariables(server_uuid=UUID, **more)
    logs, errors = [], []
    for use_kernel in (False, True):
        storage, found = MemoryStorage(), []
        log = BinlogWriter("binlog", variables=variables, clock=lambda: 10**15, storage=storage, use_kernel=use_kernel)
        with log, log.session("shop") as session:
            for change in one_row_changes():
                try:
                    session.execute(Statement("text", [change]))
                except (BinlogFormatError, UnsupportedFeature) as exc:
                    found.append(str(exc))
        logs.append({name: bytes(data) for name, data in storage.files.items()})
        errors.append(found)

    assert logs[0] == logs[1]
    assert errors[0] == errors[1]
    assert errors[0]


@pytest.mark.usefixtures("kernel")
@pytest.mark.parametrize(
    "more",
    [
        {},
        {"binlog_transaction_compression": True, "binlog_transaction_compression_level_zstd": 5},
        {"binlog_transaction_compression": True, "binlog_checksum": "NONE", "gtid_mode": "OFF"},
        {"binlog_row_image": "MINIMAL"},
        {"binlog_row_image": "NOBLOB", "binlog_row_event_max_size": 512},
        {"sql_log_bin": False},
    ],
    ids=str,
)
def test_batches_are_written_as_statements_are(more: Any) -> None:
    """Transactions of several statements, from batches and from rows, with variables that change their events."""
    rows = [(number, None if number % 3 == 0 else f"note {number}") for number in range(2000)]
    batch = pa.RecordBatch.from_pylist(
        [{"id": number, "note": note} for number, note in rows],
        pa.schema([("id", pa.int32()), ("note", pa.string())]),
    )
    other = pa.RecordBatch.from_pylist([{"id": number, "note": "é"} for number, _ in rows], batch.schema)
    numbers = batch.select(["id"]).slice(0, 1)
    variables = ServerVariables(server_uuid=UUID, **more)
    storages = MemoryStorage(), MemoryStorage()
    updates = [(row, (row[0], "é")) for row in rows]
    with BinlogWriter("binlog", variables=variables, clock=lambda: 10**15, storage=storages[0]) as log:
        session = log.session("shop")
        statements: list[list[Any]] = [
            [Insert(ORDERS, rows), Update(ORDERS, updates)],
            [Update(ORDERS, updates), Delete(ORDERS, rows)],
        ]
        for changes in statements:
            session.begin()
            for change in changes:
                session.execute(Statement("", [change]))
            session.commit()
        session.execute(Statement("", [Insert(PLAIN, [[0]])]))
        session.execute(Statement("", [Update(PLAIN, [([0], [1])])]))
        expected = session.last_gtid
    with BinlogWriter("binlog", variables=variables, clock=lambda: 10**15, storage=storages[1]) as log:
        batches = BatchSession(log, "shop")
        batches.write([BatchChange(ORDERS, after=batch), BatchChange(ORDERS, batch, other)])
        batches.write([BatchChange(ORDERS, batch, other), BatchChange(ORDERS, batch)])
        batches.write([BatchChange(PLAIN, after=numbers)])
        found = batches.write([BatchChange(PLAIN, numbers, pa.RecordBatch.from_pydict({"id": [1]}))])
        nothing = batches.write([BatchChange(ORDERS, after=batch.slice(0, 0))])

    assert storages[0].files["binlog.000001"] == storages[1].files["binlog.000001"]
    assert expected == found
    assert nothing is None


@pytest.mark.usefixtures("kernel")
def test_partial_updates_are_written_as_statements_are() -> None:
    """Documents that change in a part, as a whole, and not at all."""
    table = TableDefinition(
        "shop", "docs", (ColumnDefinition("id", "int", nullable=False), ColumnDefinition("d", "json")), ("id",)
    )
    old, new = (JsonDocument.from_python({"long": "x" * 50, "a": number}) for number in (1, 2))
    diffs = JsonDiffs([JsonDiff(JsonDiffOperation.REPLACE, "$.a", JsonDocument.from_python(2))])
    variables = ServerVariables(server_uuid=UUID, binlog_row_value_options="PARTIAL_JSON")
    storages = MemoryStorage(), MemoryStorage()
    with BinlogWriter("binlog", variables=variables, clock=lambda: 10**15, storage=storages[0]) as log:
        session = log.session("shop")
        for after in (diffs, new):
            session.execute(
                Statement("", [Update(table, [([1, old], {"id": 2, "d": after}), ([3, old], {"id": 4, "d": old})])])
            )
    given = pa.array([[{"operation": 0, "path": "$.a", "value": "2"}], []], JSON_DIFFS)
    documents = pa.array([new.text, old.text])
    ids = [pa.array(numbers, pa.int32()) for numbers in ((1, 3), (2, 4))]
    with BinlogWriter("binlog", variables=variables, clock=lambda: 10**15, storage=storages[1]) as log:
        batches = BatchSession(log, "shop")
        for values in (given, documents):
            before = pa.RecordBatch.from_arrays([ids[0], pa.array([old.text] * 2)], ["id", "d"])
            batches.write([BatchChange(table, before, pa.RecordBatch.from_arrays([ids[1], values], ["id", "d"]))])

    assert storages[0].files["binlog.000001"] == storages[1].files["binlog.000001"]


@pytest.mark.usefixtures("kernel")
def test_what_is_read_as_batches_is_written_as_it_was(tmp_path: Path) -> None:
    """A row of every type, zero dates as text too: the same images, from the log to Arrow and into another log."""
    with BinlogWriter(tmp_path / "a") as log, log.session() as session:
        session.execute(Statement("insert", [Insert(ALL_TYPES, ALL_ROWS)]))
    with kernel_set_to("compiled"):
        ((_, batch),) = binlogio.read_tables(tmp_path / "a.000001", zero_dates="text")
    with BinlogWriter(tmp_path / "b") as log:
        BatchSession(log).write([BatchChange(ALL_TYPES, after=pa.RecordBatch.from_struct_array(batch.column("after")))])
    images = []
    for name in ("a", "b"):
        with binlogio.open(tmp_path / f"{name}.000001") as reader:
            images.append([event.images for event in reader if isinstance(event, WriteRowsEvent)])

    assert images[0]
    assert images[0] == images[1]


@pytest.mark.usefixtures("kernel")
def test_batches_that_cannot_be_logged_leave_the_log_as_it_was() -> None:
    """NULL where none can be, values that do not fit, tables that one GTID cannot name, and a disk that is full."""
    storage = MemoryStorage()
    with BinlogWriter("binlog", clock=lambda: 10**15, storage=storage) as log:
        session = BatchSession(log)
        good = pa.RecordBatch.from_pydict({"id": [1], "note": ["a"]})
        before = bytes(storage.files["binlog.000001"])
        for error, changes in (
            (
                UnsupportedFeature,
                [BatchChange(ORDERS, after=pa.RecordBatch.from_pydict({"id": [1, None], "note": ["a", "b"]}))],
            ),
            (
                BinlogFormatError,
                [BatchChange(ORDERS, after=pa.RecordBatch.from_pydict({"id": [1], "note": ["a" * 81]}))],
            ),
            (LoggingError, [BatchChange(ORDERS, after=good), BatchChange(PLAIN, after=good.select(["id"]))]),
        ):
            with pytest.raises(error):
                session.write(changes)
        storage.fail_append = 0
        with pytest.raises(OSError, match="space"):
            session.write([BatchChange(ORDERS, after=good)])
        after = bytes(storage.files["binlog.000001"])
        gtid = session.write([BatchChange(ORDERS, after=good)])

    assert before == after
    assert gtid is not None
    assert gtid.gno == 1


# -------------------------------------------------------------------------------------------------------------- GTIDs


@given(st.lists(st.tuples(st.integers(1, 30), st.integers(1, 5)), max_size=5), st.integers(0, 40))
def test_numbers_are_given_out_from_the_lowest_on(used: list[tuple[int, int]], taken: int) -> None:
    """Gaps first, none twice; the set grows by what was taken."""
    tsid = Tsid(Uuid.parse(UUID), NO_TAG)
    before = GtidSet.from_intervals((tsid, Interval(start, start + size)) for start, size in used)
    gtids, given_out = OwnGtids(tsid, before), []
    for number in range(taken):
        given_out.append(gtids.take())
        if number % 7 == 0:
            assert GtidSet.from_gtids(given_out) | before == gtids.used
    free = (gno for gno in count(1) if not any(start <= gno < start + size for start, size in used))

    assert [next(free) for _ in range(taken)] == [gtid.gno for gtid in given_out]
    assert GtidSet.from_gtids(given_out) | before == gtids.used


def test_the_last_number_is_the_last() -> None:
    """After it nothing can be logged."""
    tsid = Tsid(Uuid.parse(UUID), NO_TAG)
    gtids = OwnGtids(tsid, GtidSet.from_intervals([(tsid, Interval(1, GNO_END - 1))]))
    assert gtids.take().gno == GNO_END - 1

    with pytest.raises(BinlogFormatError):
        gtids.take()
