"""The logical clock against what a 9.7 server wrote, and the hashes of rows that it lives on."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlogio.schema import ColumnDefinition, KeyDefinition, TableDefinition
from binlogio.values.enum_set import EnumValue
from binlogio.writer.log.dependency_tracker import (
    COMMIT_ORDER,
    WRITESET,
    WRITESET_SESSION,
    DependencyTracker,
)
from binlogio.writer.log.group import Group, WriteSet
from binlogio.writer.rows.writeset import KeyHasher, WriteSetBuilder

A, B, C, D, E, F = ({"hashes": (number,)} for number in range(6))
NO_KEY: Final[dict[str, Any]] = {"has_missing_keys": True}
DDL: Final = None


def run(clock: DependencyTracker, *writesets: dict[str, Any] | None) -> list[tuple[int, int]]:
    """Transactions of one statement each, one after the other."""
    found = []
    for given_set in writesets:
        writeset = None if given_set is None else WriteSet(**given_set)
        group = Group(frames=(), timestamp=0, writeset=writeset, commit_parent=clock.max_committed)
        found.append(clock.step(group))
        clock.committed(clock.counter)
    return found


# What the server wrote, by the names of the recordings.
RECORDED: Final = {
    "one session disjoint rows/STATEMENT": ((DDL,) * 5, [0, 1, 2, 3, 4]),
    "one session disjoint rows/ROW": ((A, B, C, D, E), [0, 1, 1, 1, 1]),
    "same row again/ROW": ((A, B, A, B, A, A), [0, 1, 1, 2, 3, 5]),
    "no pk/ROW": ((A, NO_KEY, B, C), [0, 1, 1, 1]),
    "unique key/ROW": (
        (
            {"hashes": (2, 102)},
            {"hashes": (3, 103)},
            {"hashes": (2, 102, 104)},
            {"hashes": (5, 102)},
        ),
        [0, 1, 1, 3],
    ),
    "ddl between/ROW": ((A, B, DDL, C, D, DDL, E), [0, 1, 2, 3, 3, 5, 6]),
}


@pytest.mark.parametrize("name", RECORDED)
def test_last_committed_is_what_a_server_writes(name: str) -> None:
    """Recordings of a 9.7 server, each in a new file."""
    writesets, expected = RECORDED[name]

    assert run(DependencyTracker(), *writesets) == [(parent, number) for number, parent in enumerate(expected, 1)]


@pytest.mark.parametrize("writeset", [WriteSet((1,)), None])
def test_transactions_that_overlap_have_the_parent_that_was_committed_when_they_ran(writeset: WriteSet | None) -> None:
    """Recording "interleaved commits": the second does not depend on the first, the third on both."""
    clock = DependencyTracker(COMMIT_ORDER)
    before = clock.step(Group(frames=(), timestamp=0, commit_parent=clock.max_committed, writeset=writeset))
    clock.committed(1)
    clock.rotate()
    parent = clock.max_committed
    first = clock.step(Group(frames=(), timestamp=0, commit_parent=parent, writeset=writeset))
    clock.committed(2)
    second = clock.step(Group(frames=(), timestamp=0, commit_parent=parent, writeset=writeset))
    clock.committed(3)
    third = clock.step(Group(frames=(), timestamp=0, commit_parent=clock.max_committed, writeset=writeset))

    assert [before, first, second, third] == [(0, 1), (0, 1), (0, 2), (2, 3)]


def test_a_group_without_a_writeset_depends_on_the_one_before_it() -> None:
    """The second cache of a session, and a caller that does not know."""
    clock = DependencyTracker()

    assert [clock.step(Group(frames=(), timestamp=0)) for _ in range(3)] == [(0, 1), (1, 2), (2, 3)]


def test_commit_order_ignores_rows() -> None:
    """binlog_transaction_dependency_tracking=COMMIT_ORDER."""
    assert [parent for parent, _ in run(DependencyTracker(COMMIT_ORDER), A, B, C)] == [0, 1, 2]


def test_writeset_session_keeps_the_order_of_a_session() -> None:
    """Its own last group is its parent, whatever rows it changed."""
    clock = DependencyTracker(WRITESET_SESSION)
    found = []
    for number, thread in enumerate((1, 2, 1, 2, 3), 1):
        group = Group(
            frames=(), timestamp=0, writeset=WriteSet((number,)), thread_id=thread, commit_parent=clock.max_committed
        )
        found.append(clock.step(group)[0])
        clock.committed(number)

    assert found == [0, 1, 1, 2, 1]


def test_a_full_history_begins_anew() -> None:
    """The group that does not fit is still compared; later ones depend on it."""
    clock = DependencyTracker(WRITESET, history_size=3)

    assert [parent for parent, _ in run(clock, A, B, C, D, B, E)] == [0, 1, 1, 1, 4, 4]


@pytest.mark.parametrize("files", [1, 3])
def test_after_a_barrier_nothing_goes_before_it(files: int) -> None:
    """ANALYZE and CREATE DATABASE: a parent that is older is lifted to them, by its number in the file."""
    clock = DependencyTracker(COMMIT_ORDER)
    for _ in range(files):
        clock.rotate()
        run(clock, A, B)
    parent = clock.max_committed
    clock.step(Group(frames=(), timestamp=0, commit_parent=parent, is_barrier=True))

    assert clock.step(Group(frames=(), timestamp=0, commit_parent=parent)) == (3, 4)


def test_numbers_begin_anew_in_each_file() -> None:
    """Parents in another file are 0, and the first group of a file is the parent of all others."""
    clock = DependencyTracker()
    run(clock, A, B)
    clock.rotate()

    assert run(clock, A, B, A) == [(0, 1), (1, 2), (1, 3)]


@given(
    st.lists(st.sampled_from((A, B, C, NO_KEY, DDL)), max_size=8),
    st.lists(st.sampled_from((A, B, C, DDL)), min_size=1, max_size=8),
)
def test_groups_that_were_taken_back_leave_no_trace_but_caution(
    before: list[dict[str, Any] | None], after: list[dict[str, Any] | None]
) -> None:
    """Numbers continue where they were; no parent is smaller than it would have been, and none is in the future."""
    clock, other = DependencyTracker(), DependencyTracker()
    run(clock, *before)
    run(other, *before)
    mark = clock.counter
    for writeset in after:
        clock.step(Group(frames=(), timestamp=0, writeset=WriteSet(**writeset) if writeset else None))
    clock.undo(mark)
    found, expected = run(clock, *after), run(other, *after)

    assert [number for _, number in found] == [number for _, number in expected]
    assert all(parent <= ours < number for (ours, number), (parent, _) in zip(found, expected, strict=True))


@given(st.lists(st.frozensets(st.integers(0, 5), min_size=1), max_size=30), st.integers(1, 8))
def test_transactions_that_share_a_row_are_never_applied_together(rows: list[frozenset[int]], size: int) -> None:
    """Whatever the history's size: last_committed is at least the last group with one of the same rows."""
    clock = DependencyTracker(WRITESET, history_size=size)
    found = run(clock, *({"hashes": tuple(row)} for row in rows))
    for number, row in enumerate(rows, 1):
        last = max((earlier for earlier, other in enumerate(rows[: number - 1], 1) if other & row), default=0)

        assert last <= found[number - 1][0] < number


# ------------------------------------------------------------------------------------------------------------- hashes


def table(*types: str, key: tuple[int, ...] = (0,), **more: Any) -> TableDefinition:
    """Return a table with columns c0, c1, ... and a primary key."""
    columns = tuple(
        ColumnDefinition(f"c{number}", kind, nullable=number not in key) for number, kind in enumerate(types)
    )
    return TableDefinition("shop", "t", columns, tuple(f"c{number}" for number in key), **more)


@pytest.mark.parametrize(
    ("definition", "one", "same"),
    [
        (table("int"), (5,), (5,)),
        (table("int", "int"), (5, 1), (5, 2)),
        (table("varchar(20)"), ("Ab c",), ("aB C  ",)),
        (table("varchar(20)", collation="utf8mb4_bin"), ("a",), ("a ",)),
        (table("char(3)", "int", key=(0, 1)), ("a", 1), ("A", 1)),
        (table("decimal(5,2)"), (Decimal("1.50"),), (Decimal("1.5"),)),
        (table("decimal(5,2)"), (Decimal("0.00"),), (Decimal("-0"),)),
        (table("float"), (0.1,), (0.10000000149011612,)),
        (table("double"), (0.0,), (-0.0,)),
        (table("varbinary(9)"), (b"x",), (b"x",)),
        (table("enum('a','b')"), (EnumValue("b", 2),), (2,)),
        (table("varchar(20)", primary_key_prefixes=(2,)), ("abc",), ("abx",)),
    ],
)
def test_equal_keys_have_equal_hashes(definition: TableDefinition, one: tuple[Any, ...], same: tuple[Any, ...]) -> None:
    """However their values are written."""
    hasher = KeyHasher(definition)

    assert hasher.hashes(one) == hasher.hashes(same)
    assert len(hasher.hashes(one) or ()) == 1


@pytest.mark.parametrize(
    ("definition", "value", "other"),
    [
        (table("int"), -1, -2),
        (table("bigint unsigned"), 2**64 - 1, 2**61 - 2),
        (table("varchar(20)"), "a", "b"),
        (table("varchar(20)", collation="utf8mb4_bin"), "a", "A"),
        (table("decimal(5,2)"), Decimal("1.5"), Decimal(15)),
        (table("datetime"), datetime(2020, 1, 1), datetime(2020, 1, 2)),
        (table("varbinary(9)"), b"x", b"X"),
    ],
)
def test_other_keys_have_other_hashes(definition: TableDefinition, value: Any, other: Any) -> None:
    """Or groups would wait for each other without need."""
    hasher = KeyHasher(definition)

    assert hasher.hashes((value,)) != hasher.hashes((other,))


@pytest.mark.parametrize(
    ("definition", "value"),
    [
        (table("varchar(20)"), "é"),
        (table("varchar(20)"), "tab\t"),
        (table("varchar(20)", collation="latin1_german2_ci"), "a"),
        (table("datetime"), "2020-01-01 00:00:00"),
        (table("int"), "x"),
        (table("enum('a')"), "a"),
        (table("varbinary(9)"), "x"),
        (table("int", is_foreign_key_parent=True), 1),
    ],
)
def test_keys_that_cannot_be_compared_are_unusable(definition: TableDefinition, value: Any) -> None:
    """The server's collations know more than is known here."""
    hasher, builder = KeyHasher(definition), WriteSetBuilder(100)
    builder.add(hasher, (value,))

    assert not hasher.is_usable or hasher.hashes((value,)) is None
    assert builder.take() is None


def test_each_key_without_null_is_one_hash() -> None:
    """PRIMARY KEY and UNIQUE keys; the same number in two keys is not the same."""
    definition = table("int", "int", "int", unique_keys=(KeyDefinition(("c1",)), KeyDefinition(("c1", "c2"))))
    hasher = KeyHasher(definition)

    assert [len(hasher.hashes(row) or ()) for row in ((1, 1, 1), (1, 1, None), (1, None, 1))] == [3, 2, 1]
    assert len(set(hasher.hashes((1, 1, 1)) or ())) == 3


def test_a_transaction_collects_its_rows() -> None:
    """Both images of an update, each hash once; rows that were undone are not there."""
    hasher, keyless = KeyHasher(table("int")), KeyHasher(table("int", key=()))
    builder = WriteSetBuilder(4)
    builder.add(hasher, (1,), (2,))
    position = builder.position
    builder.add(hasher, (1,))
    builder.add(hasher, (3,))
    builder.truncate(position)
    first = builder.take()
    builder.add(keyless, (1,))
    second = builder.take()
    for number in range(5):
        builder.add(hasher, (number,))
    third, fourth = builder.take(), builder.take()

    assert first == WriteSet((*(hasher.hashes((1,)) or ()), *(hasher.hashes((2,)) or ())), has_missing_keys=False)
    assert second == WriteSet((), has_missing_keys=True)
    assert third is None
    assert fourth == WriteSet()
