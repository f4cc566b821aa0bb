"""The logs that benchmarks read: made by our own writer, and real ones where BINLOGIO_BENCH_FILES names a folder."""

from __future__ import annotations

import os
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from binlogio import BinlogWriter, ColumnDefinition, Insert, ServerVariables, Statement, TableDefinition, Update

if TYPE_CHECKING:
    from collections.abc import Iterator

TABLE = TableDefinition(
    "shop",
    "orders",
    (
        ColumnDefinition("id", "bigint unsigned", nullable=False),
        ColumnDefinition("customer", "int"),
        ColumnDefinition("price", "decimal(12,2)", nullable=False),
        ColumnDefinition("created", "datetime(6)", nullable=False),
        ColumnDefinition("name", "varchar(60)"),
        ColumnDefinition("note", "text"),
        ColumnDefinition("ratio", "double"),
    ),
    ("id",),
)
START = datetime(2026, 1, 1)


def row(number: int) -> dict[str, Any]:
    """A row of about 100 bytes."""
    return {
        "id": number,
        "customer": None if number % 7 == 0 else number % 5000,
        "price": Decimal(number % 100000) / 100,
        "created": START + timedelta(microseconds=number * 1234567),
        "name": f"customer name {number}",
        "note": None if number % 3 == 0 else "a note " * (1 + number % 8),
        "ratio": number / 7,
    }


def write_bulk(path: Path, rows: int) -> Path:
    """Transactions of 1,000 inserted rows each, every tenth followed by an update of all of them."""
    with BinlogWriter(path, variables=ServerVariables(sync_binlog=0)) as log, log.session() as session:
        for first in range(0, rows, 1000):
            new = [row(number) for number in range(first, first + 1000)]
            session.execute(Statement("INSERT", (Insert(TABLE, new),)))
            if first % 10000 == 0:
                changed = [(old, {**old, "price": old["price"] + 1}) for old in new]
                session.execute(Statement("UPDATE", (Update(TABLE, changed),)))
    return path.with_name(path.name + ".000001")


def write_small(path: Path, transactions: int) -> Path:
    """Transactions of one row each."""
    with BinlogWriter(path, variables=ServerVariables(sync_binlog=0)) as log, log.session() as session:
        for number in range(transactions):
            session.begin()
            session.execute(Statement("INSERT", (Insert(TABLE, [row(number)]),)))
            session.commit()
    return path.with_name(path.name + ".000001")


def real_files() -> Iterator[Path]:
    """Logs of real servers that somebody has at hand."""
    folder = os.environ.get("BINLOGIO_BENCH_FILES")
    if folder:
        yield from sorted(path for path in Path(folder).iterdir() if path.read_bytes()[:4] == b"\xfebin")
