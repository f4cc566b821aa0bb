"""Row changes of all tables in the order of the log: the kernel gives those of the event reader, on damage too."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import binlogio
from binlogio import (
    BinlogError,
    BinlogWriter,
    ColumnDefinition,
    Insert,
    ServerVariables,
    Statement,
    TableDefinition,
)
from corpus import FIXTURES
from row_records import NAMES, row_records

if TYPE_CHECKING:
    from collections.abc import Callable

FILES = sorted(
    path for path in FIXTURES.glob("*/*/binlog.00000?") if path.parent.name != "encrypted" and path.is_file()
)


def by_events(path: Path) -> list[tuple[Any, ...]]:
    """Return the records of the event reader."""
    with binlogio.open(path) as reader:
        return list(row_records(reader))


def by_kernel(path: Path | list[Path], **options: Any) -> list[tuple[Any, ...]]:
    """Return the records of the kernel, times in seconds."""
    records = []
    for batch in binlogio.read_rows(path, statement_changes="skip", **options):
        batch.validate(full=True)
        columns = batch.to_pydict()
        columns["timestamp"] = [moment.timestamp() for moment in columns["timestamp"]]
        records += list(zip(*(columns[name] for name in NAMES), strict=True))
    return records


def _outcome(read: Callable[[Path], list[Any]], path: Path) -> Any:
    try:
        return read(path)
    except BinlogError as exc:
        return type(exc), exc.offset, str(exc).removeprefix(f"{path}: ")


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.parent.name}/{path.parent.name}/{path.name}")
def test_records_of_all_tables_are_those_of_the_event_reader(path: Path) -> None:
    assert _outcome(by_events, path) == _outcome(by_kernel, path)


@pytest.mark.parametrize("threads", [1, 2])
def test_records_come_in_the_order_of_the_log_whatever_the_batches(threads: int) -> None:
    path = FIXTURES / "mariadb1011/basic_row/binlog.000001"

    assert by_events(path) == by_kernel(path, threads=threads, batch_rows=7)


def _unverified_by_events(path: Path) -> list[Any]:
    with binlogio.open(path, verify_checksum=False) as reader:
        return list(row_records(reader))


def _unverified_by_kernel(path: Path) -> list[Any]:
    return by_kernel(path, verify_checksum=False)


@pytest.mark.parametrize(
    "case", ["gtid_off", "types_json", "types_geometry_vector", "types_string", "types_enum_set_bit", "partial_json"]
)
def test_damage_is_the_error_of_the_event_reader(case: str, tmp_path: Path) -> None:
    path = FIXTURES / "mysql97" / case / "binlog.000001"
    with binlogio.open(path) as reader:
        places = [event.header for event in reader if hasattr(event, "images")]
    target = tmp_path / "binlog.000001"
    for number, header in enumerate(places[:: max(1, len(places) // 12)]):
        damaged = bytearray(path.read_bytes())
        damaged[header.offset + 30 + number * 7 % max(1, header.event_size - 34)] ^= 0x41
        target.write_bytes(damaged)

        assert _outcome(_unverified_by_events, target) == _outcome(_unverified_by_kernel, target), header.offset


@pytest.mark.parametrize("threads", [1, 2])
def test_rows_at_the_same_position_of_two_logs_are_counted_by_log(tmp_path: Path, threads: int) -> None:
    """One compressed transaction is at the same offset in each; by events, and by the kernel."""
    table = TableDefinition("d", "t", (ColumnDefinition("id", "int"),))
    logs = [tmp_path / f"{number}.000001" for number in (1, 2, 3)]
    for server_id, log in enumerate(logs, 1):
        variables = ServerVariables(server_id=server_id, binlog_transaction_compression=True)
        with BinlogWriter(log.with_suffix(""), variables=variables) as writer, writer.session() as session:
            session.execute(Statement("insert", [Insert(table, [(number,) for number in range(5)])]))
    by_log = [record for log in logs for record in by_events(log)]
    with binlogio.open(logs) as reader:
        together = list(row_records(reader))
    typed = [
        row
        for batch in binlogio.read_rows(logs, table="d.t", threads=threads)
        for row in batch.column("row").to_pylist()
    ]

    assert [record[2] for record in by_log] == [0, 1, 2, 3, 4] * 3
    assert together == by_log
    assert by_kernel(logs, threads=threads) == by_log
    assert typed == [0, 1, 2, 3, 4] * 3
