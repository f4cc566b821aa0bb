"""The logs that benchmarks read: made by our own writer, and real ones where BINLOGIO_BENCH_FILES names a folder.

Their kind is the first part of a file's name: `bulk` are transactions of a thousand rows of three tables, of every
usual column type and with JSON; `bulk_minimal` the same with binlog_row_image=MINIMAL; `oltp` transactions of one to
three events of one row each. These begin with the DDL of their tables and can be applied to an empty server. `mariadb`
repeats what a real MariaDB wrote. BINLOGIO_BENCH_BYTES is the size of each; `mariadb` has a quarter.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from binlogio import BinlogWriter, ColumnDefinition, Delete, Insert, ServerVariables, Statement, TableDefinition, Update
from binlogio.arrow.encode import plan_of
from binlogio.arrow.types import column_spec
from binlogio.constants import BINLOG_MAGIC, CHECKSUM_SIZE, HEADER_SIZE, EventType
from binlogio.events.mariadb import MariadbGtidFlag
from binlogio.writer.batches import BatchChange, BatchSession

if TYPE_CHECKING:
    from binlogio.writer import Session

_ASKED: Final = os.environ.get("BINLOGIO_BENCH_BYTES")
LOG_BYTES: Final = int(_ASKED or 64 << 20)
TRANSACTION_BYTES: Final = int(_ASKED or 1 << 30)  # of the one that is read in bounded memory
VARIABLES: Final = ServerVariables(sync_binlog=0, binlog_row_metadata="MINIMAL")
SMALL_TRANSACTIONS: Final = 10_000  # of one row, in the logs that compare compressed with plain ones
MARIADB_FIXTURE: Final = Path(__file__).parents[1] / "fixtures" / "mariadb1011" / "basic_row" / "binlog.000001"
_GTID_FLAGS_AT: Final = HEADER_SIZE + 8 + 4  # after sequence number and domain
_STARTS: Final = frozenset((EventType.GTID_LOG_EVENT, EventType.ANONYMOUS_GTID_LOG_EVENT, EventType.MARIADB_GTID_EVENT))
_BETWEEN_GROUPS: Final = frozenset(
    (EventType.ROTATE_EVENT, EventType.STOP_EVENT, EventType.BINLOG_CHECKPOINT_EVENT, EventType.MARIADB_GTID_LIST_EVENT)
)

_Column = ColumnDefinition
B1: Final = TableDefinition(
    "bulk",
    "b1",
    (
        _Column("id", "bigint unsigned", nullable=False),
        _Column("a", "int"),
        _Column("b", "bigint"),
        _Column("price", "decimal(12,2)", nullable=False),
        _Column("created", "datetime(6)", nullable=False),
        _Column("name", "varchar(60)"),
        _Column("note", "varchar(200)"),
        _Column("flag", "tinyint"),
    ),
    ("id",),
)
B2: Final = TableDefinition(
    "bulk",
    "b2",
    (
        _Column("id", "int", nullable=False),
        _Column("ref", "bigint", nullable=False),
        _Column("ratio", "double"),
        _Column("amount", "decimal(18,4)"),
        _Column("ts", "timestamp(3)"),
        _Column("d", "date"),
        _Column("status", "enum('new','open','done','void')"),
        _Column("code", "char(8)"),
        _Column("descr", "text"),
    ),
    ("id",),
)
B3: Final = TableDefinition(
    "bulk",
    "b3",
    (
        _Column("id", "int", nullable=False),
        _Column("doc", "json"),
        _Column("body", "text"),
        _Column("score", "double"),
        _Column("upd", "datetime(6)"),
        _Column("v", "varchar(100)"),
    ),
    ("id",),
)
BULK_TABLES: Final = {table.name: table for table in (B1, B2, B3)}
OLTP_TABLES: Final = tuple(
    TableDefinition(
        "oltp",
        f"sbtest{number}",
        (
            _Column("id", "int", nullable=False),
            _Column("k", "int", nullable=False),
            _Column("c", "char(120)", nullable=False),
            _Column("pad", "char(60)", nullable=False),
        ),
        ("id",),
    )
    for number in (1, 2, 3)
)


def first_row(number: int) -> dict[str, Any]:
    """Return a row of `b1`."""
    return {
        "id": number,
        "a": number - 500,
        "b": number * 1234567,
        "price": Decimal(number % 100000) / 100,
        "created": datetime(2024, 1, 1) + timedelta(microseconds=number * 1234567),
        "name": f"customer name {number}",
        "note": None if number % 3 == 0 else "a note " * (1 + number % 20),
        "flag": None if number % 5 == 0 else number % 2,
    }


def _second_row(number: int) -> dict[str, Any]:
    return {
        "id": number,
        "ref": number * 3,
        "ratio": None if number % 4 == 0 else number / 7,
        "amount": Decimal(number * 31415) / 10000,
        "ts": datetime(2023, 6, 1, 12, tzinfo=timezone.utc) + timedelta(seconds=number, milliseconds=123),
        "d": date(2020, 1, 1) + timedelta(days=number % 2000),
        "status": ("new", "open", "done", "void")[number % 4],
        "code": f"{number * 65537 & 0xFFFFFFFF:X}",
        "descr": None if number % 6 == 0 else "description é " * (1 + number % 16),
    }


def _third_row(number: int) -> dict[str, Any]:
    document = {
        "id": number,
        "name": f"item {number}",
        "tags": ["x", number, number / 3, None, True],
        "nested": {"a": "z" * (number % 60), "when": "2024-01-01 00:00:00.000000"},
    }
    return {
        "id": number,
        "doc": json.dumps(document),
        "body": "body text of the row " * (5 + number % 20),
        "score": number**0.5,
        "upd": datetime(2024, 1, 1) + timedelta(microseconds=number),
        "v": None if number % 2 == 0 else f"{number * 0x9E3779B97F4A7C15 % (1 << 200):056x}",
    }


def _batch(table: TableDefinition, rows: list[dict[str, Any]]) -> pa.RecordBatch:
    columns = plan_of(table).columns
    schema = pa.schema([pa.field(one.label, column_spec(one).type, nullable=one.nullable) for one in columns])
    return pa.RecordBatch.from_pylist(rows, schema)


@cache
def bulk_transactions() -> tuple[tuple[BatchChange, ...], ...]:
    """Four transactions: 1,000 rows into `b1`; 1,000 into `b2` and 300 into `b3`; half of them updated; all deleted."""
    b1 = [first_row(number) for number in range(1000)]
    b2 = [_second_row(number) for number in range(1000)]
    b3 = [_third_row(number) for number in range(300)]
    changed = (
        [{**row, "price": row["price"] + 1, "note": f"changed {row['id']}"} for row in b1[:500]],
        [{**row, "ratio": None} for row in b2[:500]],
        [{**row, "score": row["score"] * 2, "upd": None} for row in b3[:150]],
    )
    left = tuple([*new, *old[len(new) :]] for old, new in zip((b1, b2, b3), changed, strict=True))
    tables = (B1, B2, B3)
    return (
        (BatchChange(B1, after=_batch(B1, b1)),),
        (BatchChange(B2, after=_batch(B2, b2)), BatchChange(B3, after=_batch(B3, b3))),
        tuple(
            BatchChange(table, _batch(table, old[: len(new)]), _batch(table, new))
            for table, old, new in zip(tables, (b1, b2, b3), changed, strict=True)
        ),
        tuple(BatchChange(table, before=_batch(table, rows)) for table, rows in zip(tables, left, strict=True)),
    )


def _create(log: BinlogWriter, tables: Iterable[TableDefinition]) -> None:
    """Write the DDL of a schema and its tables."""
    for number, table in enumerate(tables):
        with log.session(table.schema) as session:
            if not number:
                session.execute(Statement.from_sql(f"CREATE DATABASE {table.schema}", table.schema, ()))
            columns = "".join(
                f"{column.name} {column.type} {'NULL' if column.nullable else 'NOT NULL'}, " for column in table.columns
            )
            sql = f"CREATE TABLE {table.name} ({columns}PRIMARY KEY ({', '.join(table.primary_key)}))"
            session.execute(Statement.from_sql(sql, table.schema, ()))


def _first(path: Path) -> Path:
    return path.with_name(path.name + ".000001")


def write_bulk(path: Path, size: int = LOG_BYTES, variables: ServerVariables = VARIABLES) -> Path:
    """Return a `bulk` log of about `size` bytes."""
    log_file = _first(path)
    with BinlogWriter(path, variables=variables) as log:
        _create(log, BULK_TABLES.values())
        session = BatchSession(log, B1.schema)
        while log_file.stat().st_size < size:
            for changes in bulk_transactions():
                session.write(changes)
    return log_file


def write_bulk_minimal(path: Path, size: int = LOG_BYTES) -> Path:
    """Return the same with minimal row images."""
    return write_bulk(path, size, replace(VARIABLES, binlog_row_image="MINIMAL"))


def _sbtest_row(number: int) -> dict[str, Any]:
    digits = random.Random(number)
    return {
        "id": number,
        "k": digits.randrange(20000),
        "c": "-".join(f"{digits.randrange(10**11):011}" for _ in range(10)),
        "pad": "-".join(f"{digits.randrange(10**11):011}" for _ in range(5)),
    }


def oltp_transactions() -> Iterator[tuple[Statement, ...]]:
    """Yield 500 rows for each table, then transactions without end, of one or two statements with one row each.

    They are updates of a key or a text, and some pairs of a delete and an insert.
    """
    dice = random.Random(1)
    texts = [_sbtest_row(number)["c"] for number in range(1, 501)]
    tables = {table: [_sbtest_row(number) for number in range(1, 501)] for table in OLTP_TABLES}
    yield tuple(Statement("INSERT", (Insert(table, rows),)) for table, rows in tables.items())
    for number in itertools.count():
        table = OLTP_TABLES[number % 3]
        at = dice.randrange(500)
        row = tables[table][at]
        if number % 4 == 3:
            yield Statement("DELETE", (Delete(table, [row]),)), Statement("INSERT", (Insert(table, [row]),))
            continue
        new = {**row, "k": row["k"] + 1}
        statements = [Statement("UPDATE", (Update(table, [(row, new)]),))]
        if number % 2:
            newer = {**new, "c": dice.choice(texts)}
            statements.append(Statement("UPDATE", (Update(table, [(new, newer)]),)))
            new = newer
        tables[table][at] = new
        yield tuple(statements)


def commit_all(session: Session, transactions: Iterable[Iterable[Statement]]) -> None:
    """Each of the transactions, one by one."""
    for statements in transactions:
        session.begin()
        for statement in statements:
            session.execute(statement)
        session.commit()


def write_oltp(path: Path, size: int = LOG_BYTES) -> Path:
    """Return an `oltp` log of about `size` bytes."""
    transactions = oltp_transactions()
    log_file = _first(path)
    with BinlogWriter(path, variables=VARIABLES) as log:
        _create(log, OLTP_TABLES)
        with log.session("oltp") as session:
            while log_file.stat().st_size < size:
                commit_all(session, itertools.islice(transactions, 1000))
    return log_file


def write_small_transactions(path: Path, *, compressed: bool) -> Path:
    """Return a log with `SMALL_TRANSACTIONS` of one row."""
    variables = replace(VARIABLES, binlog_transaction_compression=compressed)
    inserts = [Statement("INSERT", (Insert(B1, (first_row(number),)),)) for number in range(1000)]
    with BinlogWriter(path, variables=variables) as log, log.session("bulk") as session:
        commit_all(session, ((inserts[number % 1000],) for number in range(SMALL_TRANSACTIONS)))
    return _first(path)


def write_many_tables(path: Path, tables: int, rows: int) -> Path:
    """Return a log with `rows` transactions of one row, of so many tables in turn, with the names of their columns."""
    variables = replace(VARIABLES, binlog_row_metadata="FULL")
    inserts = [
        Statement("INSERT", (Insert(replace(B1, name=f"t{number}"), (first_row(number),)),)) for number in range(tables)
    ]
    with BinlogWriter(path, variables=variables) as log, log.session("bulk") as session:
        commit_all(session, ((inserts[number % tables],) for number in range(rows)))
    return _first(path)


def write_one_transaction(path: Path, size: int = TRANSACTION_BYTES, *, one_event: bool = False) -> Path:
    """Return a log with one transaction of about `size` bytes, with its rows in events of 8 KiB or in one event."""
    variables = ServerVariables(sync_binlog=0, binlog_row_event_max_size=(1 << 32) - 1 if one_event else 8192)
    batch = bulk_transactions()[0][0].after
    assert batch is not None
    insert = pa.Table.from_batches([batch] * 64).combine_chunks()
    count = max(1, size * 28 // (insert.nbytes * 25))  # Arrow needs more for these rows than the log
    ids = (pa.array(range(at, at + len(insert)), pa.uint64()) for at in itertools.count(0, len(insert)))
    inserts = (insert.set_column(0, "id", some) for some in itertools.islice(ids, count))
    with BinlogWriter(path, variables=variables) as log:
        changes = [pa.concat_tables(inserts)] if one_event else inserts
        BatchSession(log, B1.schema).write(BatchChange(B1, after=change) for change in changes)
    return _first(path)


def write_mariadb(path: Path, size: int = LOG_BYTES // 4) -> Path:
    """Repeat the transactions of a MariaDB 10.11 at new positions until the log has about `size` bytes."""
    data = MARIADB_FIXTURE.read_bytes()
    events = list(_events(data))
    first = next(number for number, event in enumerate(events) if event[4] == EventType.MARIADB_GTID_EVENT)
    groups = list(_transactions(events[first:]))
    sequence_number = 0
    with path.open("wb") as out:
        at = out.write(BINLOG_MAGIC + b"".join(events[:first]))
        while at < size:
            for event in groups:
                at += len(event)
                body = event[HEADER_SIZE:-CHECKSUM_SIZE]
                if event[4] == EventType.MARIADB_GTID_EVENT:
                    sequence_number += 1
                    body = sequence_number.to_bytes(8, "little") + body[8:]
                moved = event[:13] + (at & 0xFFFFFFFF).to_bytes(4, "little") + event[17:HEADER_SIZE] + body
                out.write(moved + zlib.crc32(moved).to_bytes(4, "little"))
    return path


def _transactions(events: list[bytes]) -> Iterator[bytes]:
    """Yield the events of groups without DDL: that would be said again and again of tables that are there."""
    group: list[bytes] = []
    for event in (*events, b""):
        if not event or event[4] == EventType.MARIADB_GTID_EVENT:
            if not any(_is_ddl(one) for one in group):
                yield from group
            group = []
        if event and event[4] not in _BETWEEN_GROUPS:
            group.append(event)


def _is_ddl(event: bytes) -> bool:
    if event[4] == EventType.MARIADB_GTID_EVENT:
        return bool(event[_GTID_FLAGS_AT] & MariadbGtidFlag.STANDALONE)
    return event[4] == EventType.QUERY_EVENT and b"CREATE " in event


def _events(data: bytes) -> Iterator[bytes]:
    at = len(BINLOG_MAGIC)
    while at < len(data):
        size = int.from_bytes(data[at + 9 : at + 13], "little")
        yield data[at : at + size]
        at += size


def first_groups(log: Path, size: int, path: Path) -> Path:
    """Return a copy of the transactions at the log's beginning, about `size` bytes of them."""
    with log.open("rb") as source:
        data = source.read(size)
    at = end = len(BINLOG_MAGIC)
    while at + HEADER_SIZE <= len(data):
        if data[at + 4] in _STARTS:
            end = at
        at += int.from_bytes(data[at + 9 : at + 13], "little")
    path.write_bytes(data if at == len(data) else data[:end])
    return path


def large_enough(log: Path, cost_s: Callable[[Path], float], folder: Path, *, enough_s: float = 1.0) -> Path:
    """Return as much of the log's beginning as costs `enough_s`, for work whose speed is not known; at most all.

    The start of a program, which is the cost of a log of 4 kB, does not count.
    """
    whole = log.stat().st_size
    start_s = cost_s(first_groups(log, 4096, folder / log.name))
    size = 1 << 20
    while size < whole:
        part = first_groups(log, size, folder / log.name)
        found_s = max(cost_s(part) - start_s, enough_s / 64)
        if found_s > enough_s / 2:
            return part
        size = min(16 * size, max(2 * size, int(size * enough_s / found_s)))
    return log


def real_files() -> Iterator[Path]:
    """Yield the logs in the folder `BINLOGIO_BENCH_FILES`."""
    folder = os.environ.get("BINLOGIO_BENCH_FILES")
    if folder:
        for path in sorted(Path(folder).iterdir()):
            with path.open("rb") as log:
                if log.read(4) == BINLOG_MAGIC:
                    yield path


def kind_of(log: Path) -> str:
    """`bulk` of `bulk.000001` and of `bulk.binlog`."""
    return log.name.split(".")[0]


WRITERS: Final = {"bulk": write_bulk, "bulk_minimal": write_bulk_minimal, "oltp": write_oltp, "mariadb": write_mariadb}


def log_names(*kinds: str) -> list[str]:
    """Return the parameters of the fixture `log` for made logs and real ones of these kinds, or of every kind."""
    real = [str(path) for path in real_files() if not kinds or kind_of(path) in kinds]
    return [*(kinds or WRITERS), *real]
