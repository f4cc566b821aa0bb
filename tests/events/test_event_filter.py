"""`where=`: what is left out by place, time, server, GTID and operation is exactly what the filter says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import binlogio
from binlogio.gtid import (
    NO_TAG,
    Gtid,
    GtidSet,
    Interval,
    MariadbGtid,
    MariadbGtidPosition,
    MariadbGtidSet,
    Tag,
    Tsid,
    Uuid,
)
from binlogio.selection.event_filter import EVERY_EVENT, AllExcept, EventFilter, Range, has_gtid, like_numbers
from binlogio.selection.selection import Selection
from both_dumps import assert_dumped_alike
from corpus import MARIADB, MYSQL

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

EVERY_MARIADB_GTID = MariadbGtidPosition.parse("0-1-99999999")
LOGS = [
    MYSQL / "gtid_on" / "binlog.000001",
    MYSQL / "compressed" / "binlog.000001",
    MYSQL / "gtid_off" / "binlog.000001",
    MYSQL / "partial_json" / "binlog.000001",
    MARIADB / "gtid" / "binlog.000001",
    MARIADB / "compressed" / "binlog.000001",
]


def places(source: Any, where: EventFilter) -> tuple[list[Any], list[Any]]:
    """(pos, row) of every change by table, as the kernel finds them, and by the reader of events."""
    typed = [
        (row["pos"], row["row"])
        for _, batch in binlogio.read_tables(source, where=where, statement_changes="skip")
        for row in batch.select(["pos", "row"]).to_pylist()
    ]
    mixed = (
        binlogio.read_rows(source, where=where, statement_changes="skip").to_table().select(["pos", "row"]).to_pylist()
    )
    return sorted(typed), sorted((row["pos"], row["row"]) for row in mixed)


def chosen(table: pa.Table, wants: Callable[[dict[str, Any]], bool]) -> list[Any]:
    """Return the places of the records that `wants` wants."""
    return sorted((row["pos"], row["row"]) for row in table.to_pylist() if wants(row))


@pytest.mark.parametrize("log", LOGS, ids=lambda path: f"{path.parent.parent.name}-{path.parent.name}")
def test_filters_leave_out_what_they_say_and_nothing_else(log: Any) -> None:
    """Every kind of filter, alone and together, by the kernel and by the reader of events."""
    everything = binlogio.read_rows(log, statement_changes="skip").to_table()
    rows = everything.to_pylist()
    middle = rows[len(rows) // 2]
    second = int(middle["timestamp"].timestamp())
    cases: list[tuple[EventFilter, Callable[[dict[str, Any]], bool]]] = [
        (EVERY_EVENT, lambda _row: True),
        (EventFilter(pos=Range(middle["pos"])), lambda row: row["pos"] >= middle["pos"]),
        (EventFilter(pos=Range(end=middle["pos"])), lambda row: row["pos"] < middle["pos"]),
        (EventFilter(timestamp=Range(second, second + 1)), lambda row: row["timestamp"] == middle["timestamp"]),
        (EventFilter(server_ids=frozenset({middle["server_id"]})), lambda row: row["server_id"] == middle["server_id"]),
        (EventFilter(server_ids=frozenset({0xFFFFFFFF})), lambda _row: False),
        (
            EventFilter(server_ids=AllExcept({middle["server_id"]})),
            lambda row: row["server_id"] != middle["server_id"],
        ),
        (EventFilter(server_ids=AllExcept({0xFFFFFFFF})), lambda _row: True),
        (EventFilter(server_ids=AllExcept(set())), lambda _row: True),
        (EventFilter(ops=frozenset({"update"})), lambda row: row["op"] == "update"),
        (EventFilter(tables=frozenset({middle["table"]})), lambda row: row["table"] == middle["table"]),
        (EventFilter(schemas=frozenset({"nowhere"})), lambda _row: False),
        (EventFilter(gtids=frozenset({middle["gtid"]})), lambda row: row["gtid"] == middle["gtid"]),
        (
            EventFilter(gtids=frozenset({middle["gtid"]}), ops=frozenset({"insert"})),
            lambda row: row["gtid"] == middle["gtid"] and row["op"] == "insert",
        ),
    ]

    for where, wants in cases:
        expected = chosen(everything, wants)
        assert places(log, where) == (expected, expected), where


def test_gtid_sets_leave_out_known_and_unwanted_transactions() -> None:
    """As for a replica that has some, with an end to stop at."""
    log = MYSQL / "gtid_on" / "binlog.000001"
    everything = binlogio.read_rows(log).to_table()
    gtids = sorted({row["gtid"] for row in everything.to_pylist()})
    some = GtidSet.parse(",".join(gtids[::2]))
    known = chosen(everything, lambda row: Gtid.parse(row["gtid"]) not in some)
    wanted = chosen(everything, lambda row: Gtid.parse(row["gtid"]) in some)

    assert known
    assert wanted
    assert places(log, EventFilter(known_gtids=some)) == (known, known)
    assert places(log, EventFilter(wanted_gtids=some)) == (wanted, wanted)
    assert places(log, EventFilter(wanted_gtids=some, known_gtids=some)) == ([], [])


NUMBERS = st.integers(1, 30)
TSIDS = st.builds(
    Tsid, st.sampled_from([Uuid(bytes(16)), Uuid(bytes(15) + b"\1")]), st.sampled_from([NO_TAG, Tag("a")])
)
MARIADB_GTIDS = st.builds(MariadbGtid, st.integers(0, 1), st.integers(1, 2), NUMBERS)
INTERVALS = st.tuples(NUMBERS, st.integers(1, 9)).map(lambda pair: Interval(pair[0], sum(pair)))
SETS: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.builds(GtidSet.from_intervals, st.lists(st.tuples(TSIDS, INTERVALS), max_size=5)),
    st.builds(MariadbGtidPosition.of, st.lists(MARIADB_GTIDS, max_size=3)),
    st.lists(MARIADB_GTIDS, max_size=9).map(lambda gtids: MariadbGtidSet.parse(",".join(map(str, gtids)))),
)


def with_number(gtid: Any, number: int) -> Any:
    if isinstance(gtid, Gtid):
        return Gtid(gtid.uuid, gtid.tag, number)
    return MariadbGtid(gtid.domain_id, gtid.server_id, number)


@settings(max_examples=150, deadline=None)
@given(
    st.one_of(st.builds(lambda tsid, number: Gtid(tsid.uuid, tsid.tag, number), TSIDS, NUMBERS), MARIADB_GTIDS),
    st.lists(SETS, max_size=3),
)
def test_numbers_like_that_of_a_gtid_have_its_answers(gtid: Any, sets: list[Any]) -> None:
    """All of them, and, where there is one set, no others beside them."""
    first, last = like_numbers(gtid, *sets)
    number = gtid.gno if isinstance(gtid, Gtid) else gtid.sequence_number
    answers = [has_gtid(gtids, gtid) for gtids in sets if gtids is not None]

    assert first <= number <= last
    for other in range(max(1, first), min(last, 45) + 1):
        assert [has_gtid(gtids, with_number(gtid, other)) for gtids in sets if gtids is not None] == answers
    if len(answers) == 1:
        for other in (first - 1, last + 1):
            if 1 <= other < 1 << 63:
                (gtids,) = (one for one in sets if one is not None)
                assert has_gtid(gtids, with_number(gtid, other)) is not answers[0]


@pytest.mark.parametrize("log", [LOGS[0], LOGS[1], LOGS[2], LOGS[4]], ids=lambda path: path.parent.name)
@settings(max_examples=25, deadline=None)
@given(st.data())
def test_dump_by_gtids_is_the_same_by_the_kernel(log: Any, data: st.DataObject) -> None:
    """Sets with holes, in which the answer changes from one transaction to the next, and those of the other vendor."""
    found = binlogio.read_rows(log, statement_changes="skip").to_table().column("gtid").unique().to_pylist()
    text = ",".join(sorted(data.draw(st.sets(st.sampled_from([gtid or "0-9-9" for gtid in found])))))
    other = GtidSet() if "-1-" in text[:4] or not text else EVERY_MARIADB_GTID
    some: Any = GtidSet.parse(text) if ":" in text else MariadbGtidSet.parse(text)
    selection = data.draw(
        st.sampled_from(
            [
                Selection(include_gtids=some),
                Selection(exclude_gtids=some),
                Selection(include_gtids=some, exclude_gtids=other),
                Selection(include_gtids=other),
                Selection(up_to_gtids=some, after_gtids=other),
            ]
        )
    )

    assert_dumped_alike(log, selection)


def test_changes_without_a_gtid_are_never_known() -> None:
    """An anonymous transaction is in no set, and a GTID set of MySQL says nothing of MariaDB's GTIDs."""
    where = EventFilter(known_gtids=GtidSet.parse("11111111-1111-1111-1111-111111111111:1-9"))

    assert where.wants_group(None)
    assert where.wants_group("0-1-5")
    assert not EventFilter(wanted_gtids=where.known_gtids).wants_group(None)
    assert not EventFilter(gtids=frozenset({"0-1-5"})).wants_group(None)


def test_filter_that_contradicts_itself_is_empty() -> None:
    """Then no log has to be read."""
    assert EventFilter(pos=Range(5, 5)).is_empty
    assert EventFilter(ops=frozenset()).is_empty
    assert not EventFilter(pos=Range(5, 6)).is_empty
    assert not EVERY_EVENT


@pytest.mark.parametrize(
    ("conditions", "sql", "is_wanted"),
    [
        ({"exclude_tables": ("tmp.*",)}, "INSERT INTO orders SELECT * FROM tmp.x", True),
        ({"exclude_tables": ("tmp.*",)}, "INSERT INTO tmp.x VALUES (1)", False),
        ({"exclude_tables": ("tmp.*",)}, "DROP TABLE tmp.x, orders", True),
        ({"exclude_tables": ("*",)}, "CREATE USER a", True),
        ({"exclude_tables": ("tmp.*",)}, "UPDATE orders, tmp.x SET a = 1", True),  # its tables are not known
        ({"tables": ("shop.*",)}, "INSERT INTO tmp.x VALUES (1)", False),
        ({"tables": ("orders",)}, "INSERT INTO x SELECT * FROM orders", False),
        ({"tables": ("orders",)}, "DELETE x, orders FROM x, orders", True),
        ({"tables": ("orders",)}, "DELETE x, y FROM x, y", False),
        ({"tables": ("shop.*",), "exclude_tables": ("x",)}, "ALTER TABLE x ADD a INT", False),
        ({"tables": ("a.`b.c`",)}, "ALTER TABLE a.`b.c` ADD d INT", True),
        ({"tables": ("a.`b.c`",)}, "ALTER TABLE `a.b`.c ADD d INT", False),
        ({"tables": ("my-*",)}, 'ALTER TABLE "my-table" ADD a INT', True),  # with ANSI_QUOTES
        ({"tables": ("x",)}, "INSERT INTO y VALUES ('`'), (\"it's `x`\")", False),
        ({"tables": ("my-x",)}, "DROP TABLE /* ` */ `my-x`", True),
    ],
)
def test_statements_are_selected_by_the_tables_that_they_change(
    conditions: dict[str, Any], sql: str, is_wanted: bool
) -> None:
    assert Selection(**conditions).wants_statement("shop", sql.encode()) is is_wanted
