"""`where=`: what is left out by place, time, server, GTID and operation is exactly what the filter says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import binlogio
from binlogio.event_filter import EVERY_EVENT, EventFilter, Range
from binlogio.gtid import Gtid, GtidSet
from corpus import MARIADB, MYSQL

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

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
        for _, batch in binlogio.read_tables(source, where=where)
        for row in batch.select(["pos", "row"]).to_pylist()
    ]
    mixed = binlogio.read_rows(source, where=where).to_table().select(["pos", "row"]).to_pylist()
    return sorted(typed), sorted((row["pos"], row["row"]) for row in mixed)


def chosen(table: pa.Table, wants: Callable[[dict[str, Any]], bool]) -> list[Any]:
    """Return the places of the records that `wants` wants."""
    return sorted((row["pos"], row["row"]) for row in table.to_pylist() if wants(row))


@pytest.mark.parametrize("log", LOGS, ids=lambda path: f"{path.parent.parent.name}-{path.parent.name}")
def test_filters_leave_out_what_they_say_and_nothing_else(log: Any) -> None:
    """Every kind of filter, alone and together, by the kernel and by the reader of events."""
    everything = binlogio.read_rows(log).to_table()
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
        (EventFilter(ops=frozenset({"update", "nothing"})), lambda row: row["op"] == "update"),
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
