"""Frequent events in `dump` by the kernel and by Python: the same bytes, in logs of any kind and with all filters."""

from __future__ import annotations

import io
import re
from base64 import b64decode
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import binlogio
from binlogio.constants import BINLOG_MAGIC, EventType
from binlogio.constants import ColumnType as T
from binlogio.errors import BinlogError
from binlogio.events.control import RotateEvent, RowsQueryEvent, XidEvent
from binlogio.events.gtid import GtidEvent
from binlogio.events.query import StatusVar
from binlogio.events.table_map import TableMapEvent
from binlogio.format.groups import GTID_EVENTS
from binlogio.gtid import GtidSet, MariadbGtidPosition, Uuid
from binlogio.rows.plan import TablePlan
from binlogio.selection.selection import Selection
from binlogio_cli.dump.filters import FilteredDump
from binlogio_cli.dump.sql_output import SqlDump
from binlogio_cli.dump.text_output import TextDump, TextStyle
from both_dumps import ALL, FORMS, SeenDump, SeenSqlDump, assert_dumped_alike, dumped_by
from corpus import MARIADB, MARIADB118, MYSQL, CorpusFile, files
from kernel_rows import rows_event
from log_cases import table_map_of
from logs import header, log, moved, query, raw_events
from rowimage_cases import column

LOGS = [one for one in files() if not one.keys]


def in_turn(one: CorpusFile, choices: list[Selection]) -> Iterator[tuple[Selection, tuple[str, ...]]]:
    """Yield each choice for a log with the format to compare: which groups are chosen does not depend on it."""
    for number, choice in enumerate(choices, LOGS.index(one)):
        yield choice, (FORMS[number % len(FORMS)],)


@pytest.fixture
def short_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read logs in parts of 16 KiB instead of 1 MiB."""
    monkeypatch.setattr("binlogio.storage.log_file._LEAST_READ", 1 << 14)


SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]


@pytest.mark.parametrize("one", LOGS, ids=lambda one: one.id)
def test_tables_of_real_logs_are_chosen_alike(one: CorpusFile) -> None:
    """One table after the other, and none."""
    tables = set()
    try:
        with binlogio.open(one.path) as reader:
            for event in reader:
                if isinstance(event, TableMapEvent):
                    tables.add(f"{event.schema}.{event.table}")
    except BinlogError:
        pass
    choices = [Selection(tables=(table,)) for table in (*sorted(tables)[:3], "no.table")]
    for choice, forms in in_turn(one, choices):
        assert_dumped_alike(one.path, choice, forms=forms)


@pytest.mark.parametrize("one", LOGS, ids=lambda one: one.id)
def test_times_and_gtids_of_real_logs_are_chosen_alike(one: CorpusFile) -> None:
    """Filters that cut in the middle of a log, and those that leave nothing."""
    times, gtids = set(), []
    try:
        with binlogio.open(one.path) as reader:
            for event in reader:
                times.add(event.header.timestamp)
                gtids.append(getattr(event, "gtid", None))
    except BinlogError:
        pass
    choices = [
        choice
        for time in (sorted(times)[len(times) // 2], max(times) + 1)
        for choice in (Selection(start_time=time), Selection(stop_time=time))
    ]
    some = [gtid for gtid in gtids if gtid is not None]
    for gtid in some[len(some) // 2 :][:1]:
        chosen: Any = MariadbGtidPosition.of([gtid]) if hasattr(gtid, "domain_id") else GtidSet.parse(str(gtid))
        choices += [Selection(include_gtids=chosen), Selection(exclude_gtids=chosen)]
    for choice, forms in in_turn(one, choices):
        assert_dumped_alike(one.path, choice, forms=forms)


@pytest.mark.usefixtures("short_reads")
def test_most_transactions_are_written_by_the_kernel() -> None:
    """Of a log of one kind of transaction, all but the first ones; the log is longer than what is read at once."""
    data = rows_log(600)
    with binlogio.open(io.BytesIO(data)) as reader:
        dump = SeenDump(reader, TextStyle())
        text = b"".join(
            chunk.encode() if isinstance(chunk, str) else chunk
            for chunk in FilteredDump(reader, ALL, dump, dump.writer(ALL)).choose()
        )

    assert len(data) > 8 << 14
    assert text.count(b"COMMIT/*!*/;") == 600
    assert len(dump.seen) < 20


class CountedDump(SeenDump):
    """Text output that records the tables whose formatters are made."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.tables: list[str] = []

    def images(self, table: TableMapEvent) -> Any:
        """Return the formatter of rows of a table."""
        self.tables.append(table.table)
        return super().images(table)


def test_of_many_tables_python_makes_one_formatter_each() -> None:
    """Once Python formatted the first transaction of each table."""
    data = rows_log(900, tables=300)
    with binlogio.open(io.BytesIO(data)) as reader:
        dump = CountedDump(reader, TextStyle())
        text = b"".join(
            chunk.encode() if isinstance(chunk, str) else chunk
            for chunk in FilteredDump(reader, ALL, dump, dump.writer(ALL)).choose()
        )

    assert text.count(b"INSERT INTO") == 900
    assert len(dump.seen) < 20
    assert sorted(dump.tables) == sorted(f"t{number}" for number in range(300))
    assert_dumped_alike(data)


def long_statement_log(count: int, *, selected: int = 0) -> bytes:
    """Return a log of one transaction: one statement with so many rows events of 8 KiB, in two tables in turn.

    All before the event with the number `selected` are of the second table.
    """
    columns = [column(T.LONG), column(T.VARCHAR, 9000, collation_id=255)]
    plan = TablePlan(schema="d", table="t", columns=tuple(columns))
    group: list[Any] = [replace(query("BEGIN"), thread_id=7), RowsQueryEvent(b"INSERT ...", 10)]
    for name, table_id in (("t", 10), ("u", 11)):
        table = replace(table_map_of(columns), schema="d", table=name, table_id=table_id)
        group.append(replace(table, header=header(EventType.TABLE_MAP_EVENT)))
    for number in range(count):
        image = b"\0" + number.to_bytes(4, "little") + (8000).to_bytes(2, "little") + b"%08d" % number * 1000
        table_id = 11 if number % 2 or number < selected else 10
        group.append(replace(rows_event(plan, image), table_id=table_id, flags=int(number == count - 1)))
    return log(*group, XidEvent(5, header(EventType.XID_EVENT)))


@pytest.mark.parametrize("form", [TextDump, SqlDump])
def test_a_long_statement_is_written_by_the_kernel(form: type[Any]) -> None:
    """Once Python wrote the events of a statement that was too long to be written as a whole."""
    data = long_statement_log(600)
    with binlogio.open(io.BytesIO(data)) as reader:
        dump = SeenDump(reader, TextStyle()) if form is TextDump else SeenSqlDump(reader)
        text = b"".join(
            chunk.encode() if isinstance(chunk, str) else chunk
            for chunk in FilteredDump(reader, ALL, dump, dump.writer(ALL)).choose()
        )

    assert len(data) > 4 << 20
    assert text.count(b"INSERT INTO" if form is TextDump else b"BINLOG '") == 600 + (form is SqlDump)
    assert len(dump.seen) < 20


@pytest.mark.parametrize("tables", [(), ("d.t",), ("d.u",), ("d.no",)])
@pytest.mark.parametrize("selected", [0, 500])
def test_a_long_statement_is_written_alike(tables: tuple[str, ...], selected: int) -> None:
    """All of it and a part, of which the first selected row may come late; in JSON its first rows have its text."""
    assert_dumped_alike(long_statement_log(600, selected=selected), Selection(tables=tables))


def test_gtid_of_rows_without_one_is_the_last_one_of_the_log() -> None:
    """A GTID event that a filter of the log has removed: the rows get the GTID before it from the kernel, too."""
    events = [raw for _, raw in raw_events(rows_log(3))]
    data = BINLOG_MAGIC
    for number, raw in enumerate(events):
        if number != len(events) - 5:
            data += moved(raw, len(data))

    assert b":2" in assert_dumped_alike(data, forms=("json",)).splitlines()[-2]


def without_ddl(path: Path, times: int) -> bytes:
    """Return the log with its groups that have no DDL, so many times."""
    events = [raw for _, raw in raw_events(path.read_bytes())]
    groups: list[list[bytes]] = []
    first = 0
    for number, (raw, event) in enumerate(zip(events, binlogio.open(path), strict=True)):
        if isinstance(event, GTID_EVENTS):
            groups.append([])
        elif not groups:
            first = number + 1
        if groups and not isinstance(event, RotateEvent):
            groups[-1].append(raw)
    defining = re.compile(rb"CREATE|ALTER|RENAME|DROP|SET")
    wanted = [raw for group in groups for raw in group if not any(defining.search(one) for one in group)]
    data = BINLOG_MAGIC + b"".join(events[:first])
    for raw in wanted * times:
        data += moved(raw, len(data))
    return data


@pytest.mark.parametrize("dump_of", [SeenSqlDump, lambda reader: SeenDump(reader, TextStyle())], ids=["sql", "text"])
@pytest.mark.parametrize(
    "path",
    [
        MYSQL / "multi_table_stmt" / "binlog.000001",
        MYSQL / "gtid_on" / "binlog.000001",
        MYSQL / "format_row" / "binlog.000001",
        MYSQL / "rows_query" / "binlog.000001",
        MARIADB / "basic_row" / "binlog.000001",
        MARIADB / "annotate_rows" / "binlog.000001",
        MARIADB118 / "rowimage_minimal" / "binlog.000001",
    ],
    ids=lambda path: f"{path.parts[-3]}-{path.parts[-2]}",
)
def test_groups_like_earlier_ones_are_written_by_the_kernel(path: Path, dump_of: Callable[[Any], Any]) -> None:
    """Whatever a real server wrote, DDL excepted: of the later repetitions, Python writes nothing."""
    data = without_ddl(path, 9)
    with binlogio.open(io.BytesIO(data)) as reader:
        dump = dump_of(reader)
        for _ in FilteredDump(reader, ALL, dump, dump.writer(ALL)).choose():
            pass
    late = [event for event in dump.seen if event.header.offset > len(data) * 2 // 3]

    assert_dumped_alike(data)
    assert len(data) > 9 * 500
    assert late == []


@pytest.mark.usefixtures("short_reads")
@pytest.mark.parametrize(
    "selection",
    [
        Selection(tables=("t",)),
        Selection(tables=("other",)),
        Selection(start_time=1_700_000_010, stop_time=1_700_000_050),
    ],
)
def test_transactions_of_rows_are_written_alike(selection: Selection) -> None:
    """Groups on both sides of the end of what is read at once."""
    assert_dumped_alike(rows_log(600), selection)


@settings(max_examples=100, suppress_health_check=SLOW, deadline=None)
@given(st.integers(0, 2_500))
def test_transactions_of_rows_that_are_cut_end_alike(size: int) -> None:
    """In the middle of a group, a statement or an event."""
    assert_dumped_alike(rows_log(10)[:size])


@settings(max_examples=75, suppress_health_check=SLOW, deadline=None)
@given(st.data())
def test_changed_bytes_of_transactions_end_alike(data: st.DataObject) -> None:
    """A byte is another one, and checksums are not verified."""
    changed = bytearray(rows_log(6))
    for _ in range(data.draw(st.integers(1, 3))):
        changed[data.draw(st.integers(200, len(changed) - 1))] = data.draw(st.integers(0, 255))

    assert_dumped_alike(bytes(changed), verify_checksum=False)


def test_microseconds_of_statements_are_written_alike() -> None:
    """They differ from one transaction to the next; the other variables of a session do not."""
    data = rows_log(300, with_times=True)
    text = assert_dumped_alike(data)

    assert text.count(b".999999/*!*/;") == 50
    with binlogio.open(io.BytesIO(data)) as reader:
        dump = TextDump(reader, TextStyle())
        chunks = list(FilteredDump(reader, ALL, dump, dump.writer(ALL)).choose())
    assert len(chunks) < 100


def _variables(number: int) -> tuple[StatusVar, ...]:
    """Return status variables of a statement: a time zone, and microseconds that may be 0 or missing."""
    microseconds = (0, 1, 999_999, 1_000_000, 16_777_215)[number % 6 : number % 6 + 1]
    return (StatusVar(5, "SYSTEM"), *(StatusVar(13, one) for one in microseconds), StatusVar(18, 255))


@cache
def rows_log(count: int, value: bytes = b"it's", *, with_times: bool = False, tables: int = 0) -> bytes:
    """Return a log of transactions of one row, of three threads; each in the next one of so many tables."""
    columns = [column(T.LONG), column(T.VARCHAR, 40, collation_id=255)]
    table = replace(table_map_of(columns), schema="d", table="t")
    plan = TablePlan(schema="d", table="t", columns=tuple(columns))
    events: list[Any] = []
    for number in range(count):
        if tables:
            table = replace(table, table=f"t{number % tables}", table_id=100 + number % tables)
        moment = {"timestamp": 1_700_000_000 + number // 10}
        image = b"\0" + number.to_bytes(4, "little") + bytes([len(value)]) + value
        rows = rows_event(plan, image)
        group = [
            GtidEvent(
                uuid=Uuid(bytes(range(16))), gno=number + 1, last_committed=number, sequence_number=number + 1,
                immediate_commit_timestamp=1_700_000_000_000_000 + number * 500_000,
                header=header(EventType.GTID_LOG_EVENT),
            ),
            replace(query("BEGIN"), thread_id=number % 3, status_vars=_variables(number) if with_times else ()),
            replace(table, header=header(EventType.TABLE_MAP_EVENT)),
            replace(rows, table_id=table.table_id),
            XidEvent(number, header(EventType.XID_EVENT)),
        ]  # fmt: skip
        events += [replace(event, header=replace(event.header, **moment)) for event in group]
    return log(*events)


@pytest.mark.parametrize("size", range(0, 260, 13))
def test_rows_of_any_size_are_written_alike(size: int) -> None:
    """Every digit of base64, in blocks of the kernel and after them."""
    columns = [column(T.VARCHAR, 300, collation_id=63)]
    table = replace(table_map_of(columns), schema="d", table="t", header=header(EventType.TABLE_MAP_EVENT))
    plan = TablePlan(schema="d", table="t", columns=tuple(columns))
    events: list[Any] = []
    for first in (0, 0, 70, 140, 210):
        value = bytes(range(first, 256)) + bytes(range(first))
        rows = rows_event(plan, b"\0" + size.to_bytes(2, "little") + (value + value)[:size])
        events += [query("BEGIN"), table, replace(rows, table_id=table.table_id), query("COMMIT")]

    assert_dumped_alike(log(*events))


@pytest.mark.parametrize("before", [*range(12), *range(20, 36)])
@pytest.mark.parametrize("word", ["delimiter", "DELIMITER", "dElImItEr"])
def test_a_client_command_in_base64_is_found(word: str, before: int) -> None:
    """Row images whose digits hold the word that the client would take for a command, at any place."""
    digits = "A" * (before % 4) + word
    plain = b64decode(digits + "A" * (-len(digits) % 4))
    logs = [rows_log(4, b"x" * (before + more) + plain) for more in range(3)]  # one of them has the digits in threes

    assert any(b"@binlogio" in dumped_by("compiled", io.BytesIO(data), "sql")[0] for data in logs)
    for data in logs:
        assert_dumped_alike(data)
