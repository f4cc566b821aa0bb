"""Several threads give the results of one, in its order, wherever logs are cut.

Names from the DDL in logs too. Threads do not run far ahead of the consumer, and the parts they read cover the logs.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import binlogio
from binlogio import (
    BinlogWriter,
    ColumnDefinition,
    Insert,
    ServerVariables,
    Statement,
    TableDefinition,
)
from binlogio.columnar.parallel import log_cuts, part_definitions
from binlogio.columnar.parallel.log_cuts import LogCuts
from binlogio.columnar.parallel.threads import MOST_AHEAD, OrderedResults
from binlogio.storage.log_file import LogFile
from corpus import FIXTURES

if TYPE_CHECKING:
    from binlogio.columnar.parallel.log_cuts import LogPart

FILES = sorted(
    path
    for path in (*FIXTURES.glob("mysql97/*/binlog.000001"), *FIXTURES.glob("mariadb1011/*/binlog.000001"))
    if path.parent.name != "encrypted"
)

Rows = dict[str, list[Any]]


def rows_of(source: Any, **options: Any) -> tuple[Rows, str]:
    """Return the records of each table with their types and positions, and the error that ends them."""
    found: Rows = {}
    error = ""
    try:
        for _, batch in binlogio.read_tables(source, zero_dates="text", **options):
            table = f"{batch.column('schema')[0]}.{batch.column('table')[0]}"
            image = batch.schema.field("after").type
            found.setdefault(table, []).extend(
                (image, (record["file"], record["pos"], record["row"]), repr(record)) for record in batch.to_pylist()
            )
    except binlogio.BinlogError as exc:
        error = str(exc)
    return {table: sorted(rows, key=lambda row: row[1]) for table, rows in found.items()}, error


def in_order(source: Any, **options: Any) -> list[Any]:
    try:
        return [record for batch in binlogio.read_rows(source, **options) for record in batch.to_pylist()]
    except binlogio.BinlogError as exc:
        return [str(exc)]


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.parent.name}/{path.parent.name}")
def test_every_log_gives_the_same_by_two_threads(monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    """Each table's records and types, and the order of all of them."""
    monkeypatch.setattr(log_cuts, "SMALLEST_PART", 1024)

    assert rows_of(path, threads=2) == rows_of(path)
    assert in_order(path, threads=2) == in_order(path)


def _written(folder: Path, **variables: Any) -> list[Path]:
    """Write three logs: tables that are created, altered and dropped, and rows between."""
    columns = (ColumnDefinition("a", "int"), ColumnDefinition("b", "int"))
    later = (*columns, ColumnDefinition("c", "int"))
    more = {"binlog_row_metadata": "MINIMAL", **variables}
    with BinlogWriter(folder / "binlog", variables=ServerVariables(**more)) as log, log.session() as session:

        def insert(table: TableDefinition, *rows: Any) -> None:
            session.execute(Statement("INSERT", (Insert(table, [dict(row) for row in rows]),)))

        old, new = TableDefinition("d", "t", columns), TableDefinition("d", "t", later)
        other = TableDefinition("d", "u", (ColumnDefinition("x", "int"),))
        session.ddl("CREATE TABLE d.t (a INT, b INT)")
        for number in range(4):
            insert(old, {"a": number, "b": 1}, {"a": number, "b": 2})
        session.ddl("CREATE TABLE d.u (y INT)")
        insert(other, {"x": 1})
        session.ddl("ALTER TABLE d.t ADD COLUMN c INT")
        for number in range(4):
            insert(new, {"a": number, "b": 3, "c": number})
            insert(other, {"x": number})
        log.rotate()
        insert(new, {"a": 5, "b": 3, "c": 5})
        session.ddl("ALTER TABLE d.t DROP COLUMN c, RENAME COLUMN b TO z")
        insert(old, {"a": 6, "b": 6})
        insert(new, {"a": 7, "b": 7, "c": 7})  # contradicts the DDL in the log
        insert(old, {"a": 8, "b": 8})
        log.rotate()
        insert(other, {"x": 9})
        session.ddl("DROP TABLE d.t")
        session.ddl("CREATE TABLE d.t (p INT, q INT)")
        insert(old, {"a": 10, "b": 10})
    return [folder / f"binlog.00000{number}" for number in (1, 2, 3)]


@pytest.mark.parametrize("compressed", [False, True])
@settings(max_examples=30, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(cuts=st.lists(st.floats(0, 1), max_size=6), threads=st.integers(2, 4), wait_s=st.sampled_from([0.0, 1.0]))
def test_names_are_those_of_one_thread_wherever_logs_are_cut(
    tmp_path: Path, compressed: bool, cuts: list[float], threads: int, wait_s: float
) -> None:
    """Also if readers do not wait for the head of the log, so that parts are begun without its DDL."""
    if not (tmp_path / "binlog.000001").exists():
        _written(tmp_path, binlog_transaction_compression=compressed)
    logs = [tmp_path / f"binlog.00000{number}" for number in (1, 2, 3)]

    def end(_: LogCuts, log: Any, start: int) -> int:
        points = [int(log.size * one) for one in cuts]
        return min((point for point in points if point > start), default=log.size)

    alone = rows_of(logs)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LogCuts, "end_of_part", end)
        patch.setattr(part_definitions, "LONGEST_WAIT_S", wait_s)
        together = rows_of(logs, threads=threads)

    assert together == alone
    assert {tuple(image.names) for image, _, _ in alone[0]["d.t"]} >= {
        ("a", "b"),
        ("a", "b", "c"),
        ("@1", "@2", "@3"),
        ("p", "q"),
    }


RESULT_BYTES = MOST_AHEAD // 4
RESULTS_A_PART = 50


def _at(parts: Sequence[int]) -> Callable[[int], int | None]:
    return lambda number: parts[number] if number < len(parts) else None


class _Counting:
    """Reads numbers; the second half of the even parts waits for `read_on`."""

    def __init__(self, read_on: Event, made: list[int], open_readers: list[int]) -> None:
        self._read_on, self._made, self._open = read_on, made, open_readers
        open_readers.append(0)

    def read(self, part: int, /) -> Iterator[tuple[int, int]]:
        for number in range(RESULTS_A_PART):
            if number == RESULTS_A_PART // 2 and part % 2 == 0:
                assert self._read_on.wait(10)
            self._made.append(part)
            yield part, number
        if part == 5:
            raise ValueError(part)

    def close(self) -> None:
        self._open.remove(0)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_results_and_the_error_come_in_the_order_of_the_parts(threads: int) -> None:
    read_on, open_readers = Event(), list[int]()
    read_on.set()
    found = []

    def read_all() -> None:
        for result in OrderedResults(_at(range(9)), lambda: _Counting(read_on, [], open_readers), lambda _: 1).results(
            threads
        ):
            found.append(result)  # noqa: PERF402 - what came before the error counts

    with pytest.raises(ValueError, match="5"):
        read_all()

    assert found == [(part, number) for part in range(6) for number in range(RESULTS_A_PART)]
    assert open_readers == []


def test_readers_wait_for_a_consumer_that_is_slow() -> None:
    """The first part waits for an event, so that the consumer does; the second part must stop."""
    read_on, made = Event(), list[int]()
    results = OrderedResults(_at(range(4)), lambda: _Counting(read_on, made, []), lambda _: RESULT_BYTES).results(2)
    for _ in range(RESULTS_A_PART // 2):
        next(results)
    ahead = made.count(1)
    read_on.set()
    rest = list(results)

    assert ahead <= MOST_AHEAD // RESULT_BYTES + 1
    assert len(rest) == 4 * RESULTS_A_PART - RESULTS_A_PART // 2


def test_a_reader_that_cannot_be_opened_is_an_error() -> None:
    """The consumer does not wait for a part that no thread will read."""

    def refuse() -> _Counting:
        raise OSError("no more files")

    with pytest.raises(OSError, match="no more files"):
        list(OrderedResults(_at(range(3)), refuse, lambda _: 1).results(2))


@pytest.mark.parametrize("first_bad", [0, 4, 8])
def test_parts_from_the_first_invalid_one_on_are_omitted(first_bad: int) -> None:
    """The caller may read them again."""
    parts = [0, 1, 2, 3, 4, 6, 7, 8, 9]
    read_on, open_readers = Event(), list[int]()
    read_on.set()
    in_order = OrderedResults(
        _at(parts),
        lambda: _Counting(read_on, [], open_readers),
        lambda _: 1,
        lambda number: parts[number] < first_bad,
    )
    found = {part for part, _ in in_order.results(3)}

    assert found == {part for part in parts if part < first_bad}
    assert open_readers == []


def test_sizes_of_queued_results_are_reported_to_the_caller() -> None:
    """The first part waits until a thread has a result."""
    read_on, learned = Event(), dict[int, int]()

    def made(_: tuple[int, int]) -> int:
        read_on.set()
        return 1

    found = list(
        OrderedResults(_at(range(2)), lambda: _Counting(read_on, [], []), made, learn=learned.__setitem__).results(2)
    )

    assert len(found) == 2 * RESULTS_A_PART
    assert learned
    assert set(learned.values()) <= {RESULTS_A_PART}


MIB = 1 << 20


def _sizes(cuts: LogCuts, growth: float | None = None) -> list[int]:
    """Return the bytes of each part, if results have `growth` times as many."""
    sizes, number = [], 0
    while (part := cuts.part(number)) is not None:
        sizes.append(_size(part))
        if growth is not None:
            cuts.learn(part, int(growth * sizes[-1]))
        number += 1
    return sizes


def _size(part: LogPart) -> int:
    assert part[1] is not None
    return part[1].end - part[1].start


@pytest.mark.parametrize("size", [6 * MIB, 60 * MIB + 1, 200 * MIB - 1])
@pytest.mark.parametrize("threads", [2, 5])
@pytest.mark.parametrize("growth", [None, 0.001, 2.0, 50.0])
def test_parts_follow_each_other_and_cover_the_log(size: int, threads: int, growth: float | None) -> None:
    cuts = LogCuts([LogFile("a.000001", size), LogFile("a.000002", size)], threads)
    sizes = _sizes(cuts, growth)
    parts = [cuts.part(number) for number in range(len(sizes))]

    assert sum(sizes) == 2 * size
    for before, after in pairwise(part for part in parts if part is not None):
        assert before[1] is not None
        assert after[1] is not None
        assert (after[0], after[1].start) in ((before[0], before[1].end), (LogFile("a.000002", size), 0))


def test_parts_with_larger_results_are_smaller() -> None:
    """So that the results of all but the last parts have about the same size."""
    most = [max(_sizes(LogCuts([LogFile("a.000001", 900 * MIB)], 2), growth)[8:-1]) for growth in (0.1, 2.0, 4.0, 50.0)]

    assert most[0] > most[1] > most[2] > most[3]
    assert most[1] * 2.0 == pytest.approx(most[2] * 4.0, rel=0.01)


def test_the_last_parts_of_a_log_are_its_smallest() -> None:
    sizes = _sizes(LogCuts([LogFile("a.000001", 300 * MIB)], 4), 0.5)

    assert sizes[-10:-1] == sorted(sizes[-10:-1], reverse=True)
    assert sizes[-2] < max(sizes) / 2


@pytest.mark.parametrize(
    "log", [LogFile("a.000001", MIB), LogFile("a.000001"), LogFile("-", 90 * MIB, stream=io.BytesIO())]
)
def test_log_that_is_short_or_not_a_file_is_one_part(log: LogFile) -> None:
    cuts = LogCuts([log], 4)

    assert cuts.part(0) == (log, None)
    assert cuts.part(1) is None


def test_one_thread_reads_whole_logs() -> None:
    assert LogCuts([LogFile("a.000001", 900 * MIB)], 1).part(0) == (LogFile("a.000001", 900 * MIB), None)
